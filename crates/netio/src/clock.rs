//! The clock of the data plane: `CLOCK_MONOTONIC`, unchanged, as the engine's [`Instant`].
//!
//! Not counted from the start of the process: so all threads agree, and the heartbeat that a kernel program
//! compares with its own clock is the very same number.

use engine::units::{Duration, Instant};

/// The time now.
pub fn now() -> Instant {
    Instant::from_nanos(crate::sys::monotonic())
}

/// The time that all threads of this process have spent on processors, the kernel's work for them included: what something
/// costs, as the difference of two readings.
pub fn processor_time() -> Duration {
    Duration::from_nanos(crate::sys::processor_time())
}

/// The same of the calling thread alone.
pub fn thread_time() -> Duration {
    Duration::from_nanos(crate::sys::thread_time())
}
