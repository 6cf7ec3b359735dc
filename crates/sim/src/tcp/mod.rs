//! TCP, as a model: two endpoints whose segments have lengths and no bytes. In reading order:
//!
//! - [`Settings`] and [`pair`]: a connection as others see it;
//! - [`program`]: what writes into it;
//! - [`sender`]: connection, timers, recovery; with `scoreboard` (what is lost), `ranges`, [`rtt`] and [`delivery`];
//! - [`receiver`]: order, answers, the window;
//! - [`congestion`]: how much may be in the network, one file a control.
//!
//! Data goes one way, from the caller, and so does the end of the stream: it takes a byte's number behind the last, the
//! answerer acknowledges it, and has none of its own. The opening takes no number. Windows and sequence numbers are 64-bit
//! byte counts: nothing wraps, and the window needs no scale (RFC 7323's 14 bits of it would end at 1 GiB). SACK, timestamps
//! and, if both ask for it, ECN are always agreed on. Frames are Ethernet's, IPv4's and TCP's headers with options,
//! and data.

pub mod congestion;
pub mod delivery;
pub mod program;
mod ranges;
pub mod receiver;
pub mod rtt;
mod scoreboard;
pub mod sender;

pub use congestion::Control;
pub use receiver::Receiver;
pub use sender::Sender;

use crate::agent::Agent;
use engine::units::{Bytes, Duration, Instant};

const ETHERNET: u64 = 14;
const IP: u64 = 20;
/// TCP's header with the timestamp option, padded.
const TCP: u64 = 20 + 12;

/// What a connection is like.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The congestion control.
    pub control: Control,
    /// The largest IP packet.
    pub mtu: Bytes,
    /// The initial window, in full segments (RFC 6928: 10).
    pub initial_window: u32,
    /// The receiver's buffer, and so the largest window: 6 MiB, as Linux has it unless told otherwise.
    pub receive_window: Bytes,
    /// How fast the receiving program reads; at once, if not given.
    pub reads: Option<engine::units::Bandwidth>,
    /// Marks of congestion are asked for and obeyed (RFC 3168).
    pub ecn: bool,
    /// Every second full segment is answered, not each.
    pub delayed_ack: bool,
    /// Windows grow by the bytes that are acknowledged (RFC 3465, and Linux), not by acknowledgments.
    pub byte_counting: bool,
    /// Slow start ends when the round-trip time rises (`HyStart++`, RFC 9406), in controls whose slow start is Reno's.
    pub hystart: bool,
    /// The least time-out: 200 ms, as Linux has it (RFC 6298 would have 1 s).
    pub min_rto: Duration,
    /// How many bytes the program writes before it closes; without end, if not given.
    pub total: Option<Bytes>,
    /// Spans of time in which the program writes; empty: always.
    pub active: Vec<(Instant, Instant)>,
    /// Segments are spread over the round trip also where the control does not ask for it.
    pub pacing: bool,
    /// The sender notes its window at most so often.
    pub samples: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            control: Control::Reno,
            mtu: Bytes::new(1500),
            initial_window: 10,
            receive_window: Bytes::new(6 << 20),
            reads: None,
            ecn: false,
            delayed_ack: true,
            byte_counting: true,
            hystart: false,
            min_rto: Duration::from_millis(200),
            total: None,
            active: Vec::new(),
            pacing: false,
            samples: None,
        }
    }
}

impl Settings {
    /// The data of a full segment.
    pub fn segment(&self) -> Bytes {
        Bytes::new((self.mtu.get()).saturating_sub(IP + TCP).max(1))
    }
}

/// The two ends of a connection: the caller sends, the answerer receives.
pub fn pair(settings: &Settings) -> [Box<dyn Agent>; 2] {
    let writer = program::Writer::new(settings.total, &settings.active);
    pair_with(settings, Box::new(writer))
}

/// The same with a program of its own, which `total` and `active` do not concern.
pub fn pair_with(settings: &Settings, program: Box<dyn program::Program>) -> [Box<dyn Agent>; 2] {
    [
        Box::new(Sender::new(settings, program)),
        Box::new(Receiver::new(settings)),
    ]
}

/// The frame of a segment with so much data.
fn data_frame(len: u32) -> Bytes {
    Bytes::new(ETHERNET + IP + TCP + u64::from(len))
}

/// The frame of an answer with so many blocks (RFC 2018: 8 bytes each, and 4 with padding).
fn ack_frame(blocks: usize) -> Bytes {
    let option = if blocks > 0 { 4 + 8 * blocks as u64 } else { 0 };
    Bytes::new(ETHERNET + IP + TCP + option)
}

/// The frame of an opening segment: maximum segment size, SACK permitted, timestamps and window scale take 20 bytes.
fn syn_frame() -> Bytes {
    Bytes::new(ETHERNET + IP + 20 + 20)
}

#[cfg(test)]
mod tests;
