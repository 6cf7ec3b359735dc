//! Control laws: from samples of the link and its connections to limits for the connections.
//!
//! A law is for one direction and keeps state between ticks. It reads no clock and does no I/O, so
//! the same ticks give the same orders. Rates are in bits per second and windows in bytes, as
//! floating point: these laws control measured quantities and keep no exact accounts.
//!
//! - [`scavenger`]: the default law: reacts to other traffic only, shares by weight;
//!   [`delay_law`]: its substitute where the link's rate is unknown;
//! - [`autorate`]: no windows, but the rate of a shaper whose line varies;
//! - [`full_link_clamp`]: the paper's law: windows are clamped while the link is full;
//! - [`rate_meter`], [`rate_estimate`], `queue_witness`, `loss_witness`, `overflow_witness`,
//!   `window_cap`, `this_way`, `other_way`, [`share`], [`flow_controller`], `turns`, `cap_budget`:
//!   parts of the default law.

pub mod autorate;
mod cap_budget;
pub mod delay_law;
pub mod flow_controller;
pub mod full_link_clamp;
mod loss_witness;
mod other_way;
mod overflow_witness;
mod queue_witness;
pub mod rate_estimate;
pub mod rate_meter;
pub mod scavenger;
pub mod share;
mod this_way;
mod turns;
mod window_cap;

use crate::order::LimitOrder;
use crate::tick::LawInput;
use engine::units::Duration;

pub use full_link_clamp::FullLinkClamp;
pub use scavenger::Scavenger;

/// The usual time between ticks. A later tick is no error.
pub const INTERVAL: Duration = Duration::from_millis(50);
/// The time between ticks while a new flow would find the link full. What a slow start has met by
/// its third round decides how it ends.
pub const WATCHFUL: Duration = Duration::from_millis(20);

/// Limits connections.
pub trait Law {
    /// One order for each connection of the tick, in the same sequence.
    fn tick(&mut self, tick: &LawInput<'_>) -> Vec<LimitOrder>;

    /// The time until its next tick.
    fn interval(&self) -> Duration {
        INTERVAL
    }
}
