//! A model of QUIC (RFC 9000, RFC 9002): two endpoints whose packets have lengths but no bytes. In
//! reading order:
//!
//! - [`Settings`] and [`pair`]: a connection from outside;
//! - [`application`]: what writes into its streams;
//! - [`wire`]: packets, frames and their lengths;
//! - [`sender`]: handshake, loss detection, probes, pacing; with `sent` (packets in flight),
//!   `streams` and [`rtt`];
//! - [`receiver`]: streams put together, acknowledgments, the limit of data.
//!
//! Congestion controls are [those of TCP](crate::tcp::congestion), told of packets by their place
//! among all bytes ever sent: `cwnd` is of datagrams, as in RFC 9002.
//!
//! As with TCP, data flows one way, from the initiator, and requests are not sent. A handshake
//! takes a round trip; keys, certificates and what validates addresses take no bytes beyond the
//! datagrams of 1,200. There is one path, no migration, no 0-RTT, no limit of a single stream's
//! data or of the number of streams, and no priorities between streams.

pub mod application;
pub mod receiver;
pub mod rtt;
pub mod sender;
mod sent;
pub mod streams;
pub mod wire;

pub use receiver::QuicReceiver;
pub use sender::QuicSender;

use crate::agent::Agent;
use crate::tcp::congestion::CONTROLS;
use crate::tcp::{ControlKind, OwnControl};
use application::StreamApplication;
use engine::units::{Bytes, Duration};

/// The settings of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The congestion control; by default the first of the list: with what this connection tells
    /// it, Reno is the NewReno of RFC 9002, section 7.
    pub control: &'static ControlKind,
    /// A program's own control, in its place.
    pub own_control: Option<OwnControl>,
    /// The largest IP packet.
    pub mtu: Bytes,
    /// The initial cwnd, in full datagrams (RFC 9002, section 7.2: 10).
    pub initial_window: u32,
    /// How much more than was read the receiver accepts of all streams together.
    pub receive_window: Bytes,
    /// Packets say that they are ECN-capable, until it shows that the path does not keep that, and
    /// marks reduce cwnd.
    pub ecn: bool,
    /// Packets after which an acknowledgment is sent (RFC 9000, section 13.2.2: 2).
    pub ack_every: u32,
    /// The longest delay of an acknowledgment (RFC 9000, section 18.2: 25 ms).
    pub max_ack_delay: Duration,
    /// Slow start ends when the round-trip time rises (`HyStart++`, RFC 9406).
    pub hystart: bool,
    /// Packets are paced at 5/4 cwnd per round trip, unless the control has a rate of its own;
    /// without, an event lets the initial window go at once at most (RFC 9002, section 7.7).
    pub pacing: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            control: CONTROLS[0],
            own_control: None,
            mtu: Bytes::new(1500),
            initial_window: 10,
            receive_window: Bytes::new(6 << 20),
            ecn: false,
            ack_every: 2,
            max_ack_delay: Duration::from_millis(25),
            hystart: false,
            pacing: true,
        }
    }
}

/// The two ends of a connection: the initiator sends, the responder receives.
pub fn pair(settings: &Settings, application: Box<dyn StreamApplication>) -> [Box<dyn Agent>; 2] {
    [
        Box::new(QuicSender::new(settings, application)),
        Box::new(QuicReceiver::new(settings)),
    ]
}

#[cfg(test)]
mod tests;
