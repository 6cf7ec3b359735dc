//! The clock of the data plane: `CLOCK_MONOTONIC`, unchanged, as the engine's [`Instant`].
//!
//! All threads and the kernel's programs read the same clock, so a program can compare the
//! heartbeat with its own time.

use engine::units::{Duration, Instant};

/// The current time.
pub fn now() -> Instant {
    Instant::from_nanos(crate::sys::monotonic())
}

/// An instant by both clocks, which were read together: what two programs agree on. Arrival
/// timestamps of frames are of the second, which may be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// By this clock.
    pub at: Instant,
    /// By `CLOCK_REALTIME`, in ns.
    pub realtime: u64,
}

impl Moment {
    /// So long from now.
    pub fn after(span: Duration) -> Self {
        let (realtime, at) = timed(crate::sys::realtime);
        Self {
            at: at + span,
            realtime: realtime + span.nanos(),
        }
    }
}

/// The computer's clock, in milliseconds since 1970: people set it, and read it.
pub fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// A measurement that takes longer was interrupted, and its time is uncertain.
const INTERRUPTED: Duration = Duration::from_millis(1);

/// Reads a counter, and the time of the measurement, for computing rates from differences. An
/// interrupted measurement is repeated once.
pub fn timed<T>(mut read: impl FnMut() -> T) -> (T, Instant) {
    let mut once = || {
        let before = now();
        let value = read();
        (value, before, now().since(before))
    };
    let mut measured = once();
    if measured.2 > INTERRUPTED {
        measured = once();
    }
    let (value, before, took) = measured;
    (value, before + Duration::from_nanos(took.nanos() / 2))
}

/// CPU time of all threads of this process, in user and kernel mode.
pub fn processor_time() -> Duration {
    Duration::from_nanos(crate::sys::processor_time())
}

/// CPU time of the calling thread.
pub fn thread_time() -> Duration {
    Duration::from_nanos(crate::sys::thread_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_measurement_is_repeated_once() {
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
            "in the middle of the second one"
        );
    }
}
