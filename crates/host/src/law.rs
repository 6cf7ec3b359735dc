//! Laws: from readings of the link and of connections to orders for the connections.
//!
//! A law is of one direction, and keeps what it has learnt between ticks. It reads no clock and does no input or output, and
//! the same ticks give the same orders. Inside, rates are bits per second and windows bytes as floating point: these are
//! controllers of measured quantities, and not accounts.
//!
//! - [`paper`]: the paper's, windows clamped while the link's rate is reached;
//! - [`modern`]: the default: reacts to other traffic only, shares by weight; with [`delay`] where no rate is known;
//! - [`rates`], [`share`], [`windows`], [`estimate`]: its parts.

pub mod delay;
pub mod estimate;
pub mod modern;
pub mod paper;
pub mod rates;
pub mod share;
pub mod windows;

use crate::order::Order;
use crate::reading::Tick;
use engine::units::Duration;

pub use modern::Modern;
pub use paper::Paper;

/// How often a law wants to be asked, unless it says otherwise. Later is no error.
pub const INTERVAL: Duration = Duration::from_millis(50);
/// How often while somebody who comes would find the link full: what a slow start has met by the time of its third round decides
/// how it ends.
pub const WATCHFUL: Duration = Duration::from_millis(20);

/// Decides what is to be done with connections.
pub trait Law {
    /// One order for each connection of the tick, in the same sequence.
    fn tick(&mut self, tick: &Tick<'_>) -> Vec<Order>;

    /// How soon it wants to be asked again.
    fn interval(&self) -> Duration {
        INTERVAL
    }
}
