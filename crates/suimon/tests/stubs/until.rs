//! Waiting for what a test is about.

use std::time::{Duration, Instant};

/// Polls until the condition holds or the time is over; whether it holds.
pub fn until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
