//! While packets flow: waits for a signal, for word from the control socket, or for the worker's
//! end; and says when a port fails or works again.

use crate::Error;
use netio::handle::{Handle, Unanswered, WorkerSnapshot};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it looks: the time that a signal may wait.
const GLANCE: Duration = Duration::from_millis(50);
/// Ports are looked at each so many glances.
const PORTS: u32 = 10;

/// Makes SIGINT and SIGTERM set `end`; the second one ends the process at once.
///
/// # Errors
///
/// Returns an error if a signal handler cannot be registered.
pub fn heed_signals(end: &Arc<AtomicBool>) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(end))?;
        flag::register(signal, Arc::clone(end))?;
    }
    Ok(())
}

/// What is known of the ports' troubles.
#[derive(Debug, Default)]
struct Troubles(BTreeMap<String, String>);

impl Troubles {
    /// Says what has changed since the last look.
    fn note(&mut self, seen: &WorkerSnapshot, out: &mut dyn Write) -> io::Result<()> {
        // An input that has ended is no failure.
        for port in seen.ports.iter().filter(|port| port.failures > 0) {
            match (&port.error, self.0.get(&port.name)) {
                (Some(error), known) if known != Some(error) => {
                    writeln!(out, "{error}; it is tried again until it works")?;
                    self.0.insert(port.name.clone(), error.clone());
                }
                (None, Some(_)) => {
                    writeln!(out, "{}: works again", port.name)?;
                    self.0.remove(&port.name);
                }
                _ => {}
            }
        }
        out.flush()
    }
}

/// Waits until it is told to end, or the worker has ended. The worker's last words. `watch` is
/// shown what is to be seen twice a second.
///
/// What cannot be said is not said: that nobody reads `out` any more is no reason to leave the link
/// alone.
///
/// # Errors
///
/// Returns an error if the packet loop has panicked.
pub fn supervise(
    handle: &Handle,
    worker: JoinHandle<WorkerSnapshot>,
    end: &AtomicBool,
    out: &mut dyn Write,
    watch: &mut dyn FnMut(&WorkerSnapshot, &mut dyn Write) -> io::Result<()>,
) -> Result<WorkerSnapshot, Error> {
    let (mut troubles, mut glances) = (Troubles::default(), 0u32);
    while !end.load(Ordering::Relaxed) && !worker.is_finished() {
        std::thread::sleep(GLANCE);
        glances = glances.wrapping_add(1);
        if !glances.is_multiple_of(PORTS) {
            continue;
        }
        match handle.inspect() {
            Ok(seen) => drop(troubles.note(&seen, out).and_then(|()| watch(&seen, out))),
            Err(Unanswered::Ended) => break,
            Err(why) => drop(writeln!(out, "{why}")),
        }
    }
    handle.stop();
    worker.join().map_err(|_| Error::LoopFailed)
}
