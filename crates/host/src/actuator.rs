//! What takes readings from a kernel and puts orders into effect.

use crate::order::Order;
use crate::reading::FlowReading;
use engine::units::Instant;
use std::io;

/// A way to hold connections: borrowed sockets, or windows rewritten in outgoing acknowledgments.
pub trait Actuator {
    /// The connections of all members that there are, as they are now.
    fn readings(&mut self, now: Instant) -> io::Result<Vec<FlowReading>>;

    /// Puts these orders into effect, and keeps them in effect until the next call: what the kernel undoes by itself is the
    /// actuator's to do again. A connection that has ended since the readings is no error. Orders that change
    /// nothing cost nothing.
    fn apply(&mut self, orders: &[Order]) -> io::Result<()>;

    /// Undoes everything for every connection. Dropping an actuator does the same, as far as it can.
    fn release(&mut self) -> io::Result<()>;
}
