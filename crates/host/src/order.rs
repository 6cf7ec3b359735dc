//! What a law orders for a connection, and the reason, human-readable.

use crate::tick::{ConnectionId, DataDirection};
use engine::units::{Bandwidth, Bytes};
use std::fmt;

/// How a connection is limited in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowLimit {
    /// Not limited: whatever was set is lifted.
    Free,
    /// Its advertised window is clamped to this, a multiple of 2^scale.
    Window(Bytes),
    /// It is to carry almost nothing until its next turn: a window of zero, or the smallest that
    /// the actuator can set.
    Parked,
    /// It sends at most at this rate (upload).
    Pace(Bandwidth),
}

/// Why a connection is limited as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitReason {
    /// There is no other traffic.
    LinkIsFree,
    /// Other traffic has just begun and gets room for its slow start.
    OnsetOfOthers,
    /// Other traffic uses this much of the link.
    YieldsTo(Bandwidth),
    /// The member's cap.
    Cap(Bandwidth),
    /// The member's floor: without it, the member would yield more.
    Floor(Bandwidth),
    /// The share is too small for a window, and other connections have their turn.
    WaitsItsTurn,
    /// The link's queue grows: the RTT is this many microseconds above its minimum.
    QueueGrows(u32),
    /// The link is full (the paper's law).
    LinkIsFull,
}

impl fmt::Display for LimitReason {
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

/// A rate to three digits: measurements are no more precise.
pub(crate) fn rough(rate: Bandwidth) -> String {
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

/// The limit of one connection in one direction, in force until the next order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitOrder {
    /// The connection.
    pub flow: ConnectionId,
    /// The direction.
    pub direction: DataDirection,
    /// The limit.
    pub limit: FlowLimit,
    /// The reason.
    pub reason: LimitReason,
}

/// What to set so that frames, each with this payload, go at this rate: bytes of payload in a
/// second, which is what TCP paces. The qdisc `fq`, which paces in the kernel's place, counts
/// frames: there an upload has less, by the headers.
pub fn payload_rate(rate: Bandwidth, payload: Bytes, frame: Bytes) -> u64 {
    ((rate.bits() / 8).saturating_mul(payload.get()) / frame.get()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_of_frames() {
        let full = Bandwidth::bits_per_sec(1_514 * 8_000);
        let bytes = |rate| payload_rate(rate, Bytes::new(1_448), Bytes::new(1_514));
        assert_eq!(bytes(full), 1_448_000);
        assert_eq!(bytes(Bandwidth::bits_per_sec(1)), 1);
    }

    #[test]
    fn reasons_are_readable_with_rounded_values() {
        let said = [
            LimitReason::YieldsTo(Bandwidth::bits_per_sec(7_234_567)),
            LimitReason::YieldsTo(Bandwidth::bits_per_sec(91_234_567)),
            LimitReason::YieldsTo(Bandwidth::bits_per_sec(234_567)),
            LimitReason::QueueGrows(23_456),
        ];
        assert_eq!(
            said.map(|reason| reason.to_string()),
            [
                "yields to 7.23 Mbit/s of other traffic",
                "yields to 91.2 Mbit/s of other traffic",
                "yields to 235 kbit/s of other traffic",
                "yields: the link's queue delays by 23 ms",
            ]
        );
    }
}
