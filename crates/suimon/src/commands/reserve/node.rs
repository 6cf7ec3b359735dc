//! A temporary node, which `reserve` starts if none runs.

use crate::commands::rsvp_options::NodeArgs;
use crate::exit::{Exit, Failure};
use control::reservation::Reservations;
use control::socket::path_of;
use gateway::confined::Sandbox;
use gateway::signalling::client::READY;
use gateway::signalling::standalone::{self, StandaloneNode};
use gateway::supervise::handle_signals;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The interval of its checks whether it is still needed.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);

/// Runs a node until standard input ends and no program has a reservation.
pub(super) fn serve(node: &NodeArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    node.log.begin();
    let end = Arc::new(AtomicBool::new(false));
    handle_signals(&end).map_err(|e| Failure::at_run_time(format!("cannot handle signals: {e}")))?;
    let socket = path_of(&node.socket);
    // Its threads are confined; this one removes a folder at the end, which they may not.
    let config = node.config(Vec::new());
    let confinement = standalone::confinement(Sandbox::On, &config, &socket);
    let started = confinement.and_then(|only| StandaloneNode::start(config, &socket, &end, &only));
    let running = match started {
        Ok(running) => running,
        Err(failure) => {
            // The parent reads one line.
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
    let has_reservations = || {
        running
            .handle
            .status()
            .is_ok_and(|status| status.senders.iter().any(|sender| sender.number.is_some()))
    };
    while !end.load(Ordering::Relaxed) && (!gone.load(Ordering::Relaxed) || has_reservations()) {
        std::thread::sleep(POLL_INTERVAL);
    }
    running.end();
    // The directory was made for this node; if it is not empty, it stays.
    let _ = socket.parent().map(std::fs::remove_dir);
    Ok(Exit::Done)
}
