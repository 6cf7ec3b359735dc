//! What a law orders for a connection, and why, in words for people.

use crate::reading::{Direction, FlowId};
use engine::units::{Bandwidth, Bytes};
use std::fmt;

/// How a connection is held in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Not at all: whatever was set is undone.
    Free,
    /// The window that it advertises is at most this: a multiple of 2^scale.
    Window(Bytes),
    /// It is to carry next to nothing until it is its turn again: a window of zero, or the smallest that the actuator can do.
    Parked,
    /// It sends at most this (upload).
    Pace(Bandwidth),
}

/// Why a connection is held as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// There is nothing to yield to.
    LinkIsFree,
    /// Other traffic has just begun and gets room to start.
    OnsetOfOthers,
    /// Other traffic uses this much of the link.
    YieldsTo(Bandwidth),
    /// The member's own cap.
    Cap(Bandwidth),
    /// The member's floor: it would be asked to yield more.
    Floor(Bandwidth),
    /// The share is below what a window can do; other connections of the members have their turn.
    WaitsItsTurn,
    /// The round trip is this much longer than its shortest, in microseconds: the link's queue is filling.
    QueueGrows(u32),
    /// The link's rate is reached (the paper's law).
    LinkIsFull,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkIsFree => f.write_str("free: nothing to yield to"),
            Self::OnsetOfOthers => f.write_str("yields: other traffic begins"),
            Self::YieldsTo(rate) => write!(f, "yields to {} of other traffic", rough(*rate)),
            Self::Cap(rate) => write!(f, "at its cap of {rate}"),
            Self::Floor(rate) => write!(f, "at its floor of {rate}"),
            Self::WaitsItsTurn => {
                f.write_str("parked until its turn: the share is below a segment a round trip")
            }
            Self::QueueGrows(us) => write!(f, "yields: the link's queue delays by {} ms", us / 1_000),
            Self::LinkIsFull => f.write_str("clamped: the link's rate is reached"),
        }
    }
}

/// A rate to three digits: what is measured is no more exact.
fn rough(rate: Bandwidth) -> String {
    let bits = rate.bits() as f64;
    let (value, unit) = match rate.bits() {
        0..1_000_000 => (bits / 1e3, "kbit/s"),
        1_000_000..1_000_000_000 => (bits / 1e6, "Mbit/s"),
        _ => (bits / 1e9, "Gbit/s"),
    };
    let behind = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.behind$} {unit}")
}

/// What is to be done with one connection in one direction, from now until the next order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Which connection.
    pub flow: FlowId,
    /// In which direction.
    pub direction: Direction,
    /// What is to be done.
    pub hold: Hold,
    /// Why.
    pub why: Why,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_words_with_round_figures() {
        let said = [
            Why::YieldsTo(Bandwidth::bits_per_sec(7_234_567)),
            Why::YieldsTo(Bandwidth::bits_per_sec(91_234_567)),
            Why::YieldsTo(Bandwidth::bits_per_sec(234_567)),
            Why::QueueGrows(23_456),
        ];
        assert_eq!(
            said.map(|why| why.to_string()),
            [
                "yields to 7.23 Mbit/s of other traffic",
                "yields to 91.2 Mbit/s of other traffic",
                "yields to 235 kbit/s of other traffic",
                "yields: the link's queue delays by 23 ms",
            ]
        );
    }
}
