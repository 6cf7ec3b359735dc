//! Supervises the running workers: waits for a signal, a request of the control socket, or the end
//! of one of them; and logs when a port fails or works again.

use crate::Error;
use netio::handle::{Handle, PortView, Unanswered, WorkerSnapshot};
use netio::inspection::Detail;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The polling interval, and so the maximum delay of a signal.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Ports are checked once per this many polls.
const POLLS_PER_CHECK: u32 = 10;

/// Makes SIGINT and SIGTERM set `end`; the second one ends the process at once.
///
/// # Errors
///
/// Returns an error if a signal handler cannot be registered.
pub fn handle_signals(end: &Arc<AtomicBool>) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(end))?;
        flag::register(signal, Arc::clone(end))?;
    }
    Ok(())
}

/// Ends the process as SIGPIPE does, which Rust's programs ignore.
pub fn end_by_closed_pipe() {
    // It returns only if the signal cannot be raised; then the exit code says the same.
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
}

/// SIGHUP: that of an administrator, who wants the policy to be read again; or that of the kernel,
/// since the terminal is gone.
#[derive(Debug)]
pub struct HangUpSignal {
    came: Arc<AtomicBool>,
    had_terminal: bool,
}

impl HangUpSignal {
    /// From now on SIGHUP does not end the process.
    ///
    /// # Errors
    ///
    /// Returns an error if the signal handler cannot be registered.
    pub fn handled() -> io::Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&came))?;
        let had_terminal = has_terminal();
        Ok(Self { came, had_terminal })
    }

    /// Whether it came since the last question.
    pub fn came(&self) -> bool {
        self.came.swap(false, Ordering::Relaxed)
    }

    /// Whether the process had a controlling terminal, and has none any more.
    pub fn terminal_is_gone(&self) -> bool {
        self.had_terminal && !has_terminal()
    }
}

fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// The last error of each port.
#[derive(Debug, Default)]
struct PortErrors(BTreeMap<String, String>);

impl PortErrors {
    /// Logs the changes since the last check.
    fn note(&mut self, snapshot: &WorkerSnapshot) {
        // The end of an input is not a failure.
        let told = |port: &&PortView| port.failures > 0 || port.bypassed;
        // Two workers may each have a port on one interface.
        let mut now: BTreeMap<&str, Option<String>> = BTreeMap::new();
        for port in snapshot.ports.iter().filter(told) {
            let why = now.entry(&port.name).or_default();
            let failed = port.error.as_ref();
            let failed = failed.map(|error| format!("{error}; retrying until it works"));
            *why = why.take().or(failed).or_else(|| port.trouble());
        }
        for (name, error) in now {
            match (error, self.0.get(name)) {
                (Some(error), known) if known != Some(&error) => {
                    tracing::error!(interface = name, "{error}");
                    self.0.insert(name.to_owned(), error);
                }
                (None, Some(_)) => {
                    tracing::info!(interface = name, "{name}: works again");
                    self.0.remove(name);
                }
                _ => {}
            }
        }
    }
}

/// What is done again and again beside the workers.
#[derive(Debug, Default)]
pub(crate) struct Watchman {
    troubles: PortErrors,
    glances: u32,
}

impl Watchman {
    /// One poll: `each` is called, and now and then `watch` with a snapshot. `Break` if no worker
    /// is left.
    pub(crate) fn poll(
        &mut self,
        handle: &Handle,
        watch: &mut dyn FnMut(&WorkerSnapshot) -> io::Result<()>,
        each: &mut dyn FnMut(),
    ) -> ControlFlow<()> {
        each();
        self.glances = self.glances.wrapping_add(1);
        if !self.glances.is_multiple_of(POLLS_PER_CHECK) {
            return ControlFlow::Continue(());
        }
        match handle.inspect_to(Detail::Paths) {
            Ok(snapshot) => {
                self.troubles.note(&snapshot);
                let _ = watch(&snapshot);
            }
            Err(Unanswered::Ended) => return ControlFlow::Break(()),
            Err(why) => tracing::error!("{why}"),
        }
        ControlFlow::Continue(())
    }
}

/// The thread of a worker.
pub type RunningWorker = JoinHandle<WorkerSnapshot>;

/// Waits until a signal or a client ends it, or a worker ends. Returns the last snapshot of all
/// workers. `watch` gets a snapshot without classes twice a second; `each` is called after every
/// poll. An error of `watch` is ignored: a closed output is no reason to stop managing the link.
///
/// # Errors
///
/// Returns an error if the packet loop has panicked.
pub fn supervise(
    handle: &Handle,
    workers: Vec<RunningWorker>,
    end: &AtomicBool,
    watch: &mut dyn FnMut(&WorkerSnapshot) -> io::Result<()>,
    each: &mut dyn FnMut(),
) -> Result<WorkerSnapshot, Error> {
    let mut watchman = Watchman::default();
    while !end.load(Ordering::Relaxed) && !workers.iter().any(JoinHandle::is_finished) {
        std::thread::sleep(POLL_INTERVAL);
        if watchman.poll(handle, watch, each).is_break() {
            break;
        }
    }
    handle.stop();
    // All of them, also after one that has panicked.
    let ended: Vec<_> = workers.into_iter().map(JoinHandle::join).collect();
    let last: Result<Vec<_>, _> = ended.into_iter().collect();
    let last = last.map_err(|_| Error::LoopFailed)?;
    WorkerSnapshot::joined(last).ok_or(Error::LoopFailed)
}
