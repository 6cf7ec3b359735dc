//! Laws: from readings of the link and of connections to orders for the connections.
//!
//! A law is of one direction, and keeps what it has learnt between ticks. It reads no clock and does no input or output, and
//! the same ticks give the same orders.

use crate::order::Order;
use crate::reading::Tick;
use engine::units::Duration;

/// How often a law wants to be asked. Later is no error.
pub const INTERVAL: Duration = Duration::from_millis(50);

/// Decides what is to be done with connections.
pub trait Law {
    /// One order for each connection of the tick, in the same sequence.
    fn tick(&mut self, tick: &Tick<'_>) -> Vec<Order>;
}
