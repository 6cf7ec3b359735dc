//! Traffic of our own: real sockets, bounded in time, measured where it arrives.
//!
//! - [`tcp`]: bulk transfers, with the congestion control chosen per connection;
//! - [`generator`], [`analyser`]: numbered datagrams at set times, and what became of them, for one
//!   host each; [`datagram`] is what they carry, [`tally`] and [`sample`] how it is counted;
//! - [`udp`]: the same between two hosts of a lab, with every arrival, for loss, gaps and delay;
//! - [`probe`]: request and response, for round-trip times.

pub mod analyser;
pub mod datagram;
pub mod generator;
pub mod probe;
pub mod sample;
pub mod tally;
pub mod tcp;
pub mod udp;
