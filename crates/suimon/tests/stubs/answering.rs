//! A program of a test that answers at its control socket.

use control::socket::Client;
use lab::Running;
use std::time::{Duration, Instant};

/// The program, once it answers; `None`, and reported as skipped, where it ended since the machine
/// forbids it, or for one of these reasons `also`.
///
/// # Panics
///
/// If it ends for another reason, or does not answer in so long a time.
pub fn answering(running: Running, socket: &str, patience: Duration, also: &[&str]) -> Option<Running> {
    let until = Instant::now() + patience;
    while Client::connect(Some(socket)).is_err() {
        if !running.is_running() {
            let output = running.wait().expect("its end");
            let why = ["not permitted"].iter().chain(also);
            let forbidden = why.into_iter().any(|why| output.err.contains(why));
            assert!(forbidden, "{output:?}");
            skips::skipped(output.err);
            return None;
        }
        assert!(Instant::now() < until, "the control socket does not respond");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(running)
}
