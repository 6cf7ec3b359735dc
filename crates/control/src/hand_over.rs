//! How one program takes the place of another that runs: the newer of a package, or the same one
//! begun anew, while packets flow.
//!
//! On one connection of the control socket, in this order: `handover`, by which the program that
//! runs says what the other needs; `leave`, with a moment that the other has chosen, from which on
//! it takes what arrives; the frames that wait then; `takenover`, by which the other says that all
//! is in force, and the one that ran ends. If the connection ends before, the program that runs
//! goes on, or takes its place back.

use crate::protocol::{HandOverOffer, Refusal};

/// The place of a running program, which another takes. Without its [end](Self::end) the program
/// that runs goes on in its place.
pub trait HandingOver: Send {
    /// What the other needs.
    fn offer(&self) -> HandOverOffer;
    /// Agrees on a moment: by the monotonic clock and by the one that may be set, both in ns.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot leave then; nothing has changed.
    fn agree(&mut self, at_ns: u64, realtime_ns: u64) -> Result<(), Refusal>;
    /// Waits for that moment; what waits then.
    ///
    /// # Errors
    ///
    /// Returns an error if it has not left after all.
    fn left(&mut self) -> Result<Vec<u8>, Refusal>;
    /// The other, which is this process, manages all from now on: this program ends.
    fn end(self: Box<Self>, process: i32) -> String;
}
