//! A model of TCP: two endpoints whose segments have lengths but no bytes. In reading order:
//!
//! - [`Settings`] and [`pair`]: a connection from outside;
//! - [`application`]: what writes into it;
//! - [`sender`]: handshake, timers, recovery; with `scoreboard` (SACK), `ranges`, [`rtt`] and
//!   [`delivery`];
//! - [`receiver`]: reassembly, ACKs, the receive window;
//! - [`control`]: the interface of congestion controls; [`congestion`]: one file each, and their
//!   list.
//!
//! Data flows one way, from the initiator, and so does the FIN: it takes the sequence number
//! behind the last byte, and the responder acknowledges it but sends none. The SYN takes no
//! sequence number. Windows and sequence numbers are 64-bit byte counts: nothing wraps, and
//! windows need no scaling (RFC 7323's 14 bits end at 1 GiB). SACK, timestamps and, if both ends
//! ask for it, ECN are always negotiated. A frame is Ethernet's, IPv4's and TCP's headers with
//! options, and data.

pub mod application;
pub mod congestion;
pub mod control;
pub mod cwnd;
pub mod delivery;
mod hystart;
mod ranges;
pub mod receiver;
pub mod rtt;
mod scoreboard;
pub mod sender;

pub use control::ControlKind;
pub use receiver::TcpReceiver;
pub use sender::TcpSender;

use crate::agent::Agent;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

const ETHERNET: u64 = 14;
const IP: u64 = 20;
/// TCP's header with the timestamps option, padded.
const TCP: u64 = 20 + 12;

/// The settings of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The congestion control; by default the first of the list.
    pub control: &'static ControlKind,
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
    /// cwnd grows by the bytes that ACKs acknowledge (RFC 3465, as in Linux), not by their number.
    pub byte_counting: bool,
    /// Slow start ends when the round-trip time rises (`HyStart++`, RFC 9406), in controls whose
    /// slow start is Reno's.
    pub hystart: bool,
    /// The least retransmission timeout: 200 ms, as in Linux (RFC 6298 asks for 1 s).
    pub min_rto: Duration,
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
            control: congestion::CONTROLS[0],
            mtu: Bytes::new(1500),
            initial_window: 10,
            receive_window: Bytes::new(6 << 20),
            read_rate: None,
            ecn: false,
            delayed_ack: true,
            byte_counting: true,
            hystart: false,
            min_rto: Duration::from_millis(200),
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
        Bytes::new((self.mtu.get()).saturating_sub(IP + TCP).max(1))
    }
}

/// The two ends of a connection: the initiator sends, the responder receives.
pub fn pair(settings: &Settings) -> [Box<dyn Agent>; 2] {
    let writer = application::BulkWriter::new(settings.total, &settings.active);
    pair_with(settings, Box::new(writer))
}

/// The same with another application, to which `total` and `active` do not apply.
pub fn pair_with(settings: &Settings, application: Box<dyn application::Application>) -> [Box<dyn Agent>; 2] {
    [
        Box::new(TcpSender::new(settings, application)),
        Box::new(TcpReceiver::new(settings)),
    ]
}

/// The frame of a segment with this much data.
fn data_frame(len: u32) -> Bytes {
    Bytes::new(ETHERNET + IP + TCP + u64::from(len))
}

/// The frame of an ACK with this many SACK blocks (RFC 2018: 8 bytes each, and 4 with padding).
fn ack_frame(blocks: usize) -> Bytes {
    let option = if blocks > 0 { 4 + 8 * blocks as u64 } else { 0 };
    Bytes::new(ETHERNET + IP + TCP + option)
}

/// The frame of a SYN: MSS, SACK-permitted, timestamps and window scale take 20 bytes.
fn syn_frame() -> Bytes {
    Bytes::new(ETHERNET + IP + 20 + 20)
}

#[cfg(test)]
mod tests;
