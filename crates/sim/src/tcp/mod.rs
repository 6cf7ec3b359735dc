//! A model of TCP: two endpoints whose segments have lengths but no bytes. In reading order:
//!
//! - [`Settings`] and [`pair`]: a connection from outside;
//! - [`application`]: what writes into it; [`responses`]: what answers a client that asks, such as
//!   [`pages`] or [`video`]; [`objects`], several at a time;
//! - [`sender`]: handshake, timers, recovery; with `scoreboard` (SACK), `ranges`, `rack`,
//!   `recovery`, `loss_timer`, [`rtt`] and [`delivery`];
//! - [`receiver`]: reassembly, ACKs, the receive window;
//! - [`control`]: the interface of congestion controls; [`congestion`]: one file each, and their
//!   list.
//!
//! Data flows one way, from the initiator, and so does the FIN: it takes the sequence number
//! behind the last byte, and the responder acknowledges it but sends none. The SYN takes no
//! sequence number. Windows and sequence numbers are 64-bit byte counts: nothing wraps, and
//! windows need no scaling (RFC 7323's 14 bits end at 1 GiB). Timestamps and, if both ends ask for
//! it, ECN are always negotiated; so is SACK, unless [`Recovery`] is one without. A frame is
//! Ethernet's, IPv4's and TCP's headers with options, and data.

pub mod application;
pub mod congestion;
pub mod control;
pub mod cwnd;
pub mod delivery;
mod frames;
mod hystart;
mod loss_timer;
pub mod objects;
pub mod pages;
mod rack;
pub(crate) mod ranges;
pub mod receiver;
mod recovery;
pub mod responses;
pub mod rtt;
mod scoreboard;
pub mod sender;
mod settings;
pub mod video;

pub use control::{ControlKind, OwnControl};
pub use receiver::TcpReceiver;
pub use recovery::Recovery;
pub use rtt::RtoRule;
pub use sender::TcpSender;
pub use settings::Settings;

/// The window scale of each connection: windows are in units of 2⁷ bytes, as Linux has them by
/// default.
pub const WINDOW_SCALE: u8 = 7;

use crate::agent::Agent;

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

#[cfg(test)]
mod tests;
