//! An actuator takes samples of connections from a kernel and puts a law's orders into effect.

use crate::order::LimitOrder;
use crate::tick::FlowSample;
use engine::units::Instant;
use std::io;

/// A way to limit connections: by borrowed sockets, or by windows rewritten in outgoing ACKs.
pub trait Actuator {
    /// All connections of all members, as they are now.
    ///
    /// # Errors
    ///
    /// If the kernel does not report them.
    fn samples(&mut self, now: Instant) -> io::Result<Vec<FlowSample>>;

    /// Puts these orders into effect until the next call. What the kernel undoes by itself, the
    /// actuator does again. A connection that has ended since its sample is no error. An order
    /// that changes nothing costs nothing.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn apply(&mut self, orders: &[LimitOrder]) -> io::Result<()>;

    /// Lifts all limits of all connections. Dropping an actuator does the same, as far as it can.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn release(&mut self) -> io::Result<()>;
}
