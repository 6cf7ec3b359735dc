//! The settings of a connection.

use super::congestion::CONTROLS;
use super::control::{ControlKind, OwnControl};
use super::frames;
use super::recovery::Recovery;
use super::rtt::RtoRule;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// The settings of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The congestion control; by default the first of the list.
    pub control: &'static ControlKind,
    /// A program's own control, in its place.
    pub own_control: Option<OwnControl>,
    /// The largest IP packet.
    pub mtu: Bytes,
    /// The initial cwnd, in full segments (RFC 6928: 10).
    pub initial_window: u32,
    /// The receive buffer, and so the largest window: 6 MiB, as Linux has it by default.
    pub receive_window: Bytes,
    /// The rate at which the receiving application reads; at once, if not given.
    pub read_rate: Option<Bandwidth>,
    /// ECN is negotiated, and marks reduce cwnd (RFC 3168).
    pub ecn: bool,
    /// Every second full segment is acknowledged, not each.
    pub delayed_ack: bool,
    /// Of the segments that a card hands over together the last alone is acknowledged (Linux 2.4).
    pub ack_per_batch: bool,
    /// cwnd grows by the bytes that ACKs acknowledge (RFC 3465, as in Linux), not by their number.
    pub byte_counting: bool,
    /// Slow start ends when the round-trip time rises (`HyStart++`, RFC 9406), in controls whose
    /// slow start is Reno's.
    pub hystart: bool,
    /// Whether a loss takes a part of cwnd, also where less was in flight (Linux), and not of
    /// FlightSize (RFC 5681).
    pub whole_cwnd: bool,
    /// How the retransmission timeout follows the round-trip time: as in Linux, or RFC 6298.
    pub rto: RtoRule,
    /// The least of that rule, its own if not given: Linux's 200 ms of the variance term, RFC
    /// 6298's 1 s of the whole.
    pub min_rto: Option<Duration>,
    /// How losses are found and repaired. Without SACK `rack` and `tlp` have no effect.
    pub recovery: Recovery,
    /// Losses are detected by time (RACK, RFC 8985), not by RFC 6675's DupThresh.
    pub rack: bool,
    /// A tail loss probe precedes the retransmission timeout (RFC 8985, section 7).
    pub tlp: bool,
    /// The bytes that the application writes before it closes; without end, if not given.
    pub total: Option<Bytes>,
    /// Spans of time in which the application writes; empty: always.
    pub active: Vec<(Instant, Instant)>,
    /// Segments are paced even if the control does not ask for it.
    pub pacing: bool,
    /// The sender keeps a sample of cwnd at most this often.
    pub sample_interval: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            control: CONTROLS[0],
            own_control: None,
            mtu: Bytes::new(1500),
            initial_window: 10,
            receive_window: Bytes::new(6 << 20),
            read_rate: None,
            ecn: false,
            delayed_ack: true,
            ack_per_batch: false,
            byte_counting: true,
            hystart: false,
            whole_cwnd: false,
            rto: RtoRule::Linux,
            min_rto: None,
            recovery: Recovery::Sack,
            rack: true,
            tlp: true,
            total: None,
            active: Vec::new(),
            pacing: false,
            sample_interval: None,
        }
    }
}

impl Settings {
    /// The data of a full segment.
    pub fn mss(&self) -> Bytes {
        frames::mss(self.mtu)
    }
}
