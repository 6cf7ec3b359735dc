//! The clock of the data plane: `CLOCK_MONOTONIC`, unchanged, as the engine's [`Instant`].
//!
//! Not counted from the start of the process: so all threads agree, and the heartbeat that a kernel program
//! compares with its own clock is the very same number.

use engine::units::Instant;

/// The time now.
pub fn now() -> Instant {
    Instant::from_nanos(crate::sys::monotonic())
}
