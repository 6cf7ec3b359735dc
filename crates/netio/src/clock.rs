//! The clock of the data plane: `CLOCK_MONOTONIC`, unchanged, as the engine's [`Instant`].
//!
//! It does not start with the process, so all threads agree, and a kernel program can compare the
//! heartbeat with its own clock.

use engine::units::{Duration, Instant};

/// The time now.
pub fn now() -> Instant {
    Instant::from_nanos(crate::sys::monotonic())
}

/// A reading that takes longer was interrupted, so its time is uncertain.
const INTERRUPTED: Duration = Duration::from_millis(1);

/// Reads something that grows with time, and the time of reading: rates are differences of both. An
/// interrupted reading is repeated once.
pub fn timed<T>(mut read: impl FnMut() -> T) -> (T, Instant) {
    let mut once = || {
        let before = now();
        let value = read();
        (value, before, now().since(before))
    };
    let mut made = once();
    if made.2 > INTERRUPTED {
        made = once();
    }
    let (value, before, took) = made;
    (value, before + Duration::from_nanos(took.nanos() / 2))
}

/// Processor time of all threads of this process, the kernel's work for them included.
pub fn processor_time() -> Duration {
    Duration::from_nanos(crate::sys::processor_time())
}

/// Processor time of the calling thread alone.
pub fn thread_time() -> Duration {
    Duration::from_nanos(crate::sys::thread_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_was_interrupted_is_made_once_more() {
        let mut made = 0;
        let begin = now();
        let (value, at) = timed(|| {
            made += 1;
            std::thread::sleep(std::time::Duration::from_millis(5));
            made
        });
        assert_eq!(value, 2, "and no third time");
        let least = Duration::from_millis(7);
        assert!(
            at.since(begin) >= least && at <= now(),
            "in the midst of the second one"
        );
    }
}
