//! A node for as long as it is needed: what `reserve` starts where none runs.

use crate::commands::accept::NodeArgs;
use crate::exit::{Exit, Failure};
use control::reservation::Reservations;
use control::socket::path_of;
use gateway::signalling::alone::Alone;
use gateway::signalling::client::READY;
use gateway::supervise::heed_signals;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often it looks whether it is still needed.
const GLANCE: std::time::Duration = std::time::Duration::from_millis(20);

/// A node that lasts as long as standard input, and as the programs that hold something.
pub(super) fn serve(node: &NodeArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let end = Arc::new(AtomicBool::new(false));
    heed_signals(&end).map_err(|e| Failure::at_run_time(format!("cannot heed signals: {e}")))?;
    let socket = path_of(&node.socket);
    let alone = match Alone::start(node.config(Vec::new()), &socket, &end) {
        Ok(alone) => alone,
        Err(failure) => {
            // Its parent reads a line.
            writeln!(out, "{}", failure.to_string().replace('\n', "; "))?;
            return Ok(Exit::Failed);
        }
    };
    writeln!(out, "{READY}")?;
    out.flush()?;
    let gone = Arc::new(AtomicBool::new(false));
    let sees = Arc::clone(&gone);
    std::thread::spawn(move || {
        let mut unread = [0; 64];
        while matches!(io::stdin().read(&mut unread), Ok(1..)) {}
        sees.store(true, Ordering::Relaxed);
    });
    let held = || {
        alone
            .handle
            .status()
            .is_ok_and(|status| status.senders.iter().any(|sender| sender.number.is_some()))
    };
    while !end.load(Ordering::Relaxed) && (!gone.load(Ordering::Relaxed) || held()) {
        std::thread::sleep(GLANCE);
    }
    alone.end();
    // The directory was made for it alone; if something else is in it, it stays.
    let _ = socket.parent().map(std::fs::remove_dir);
    Ok(Exit::Done)
}
