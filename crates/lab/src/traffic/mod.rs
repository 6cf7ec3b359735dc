//! Traffic of our own: real sockets, bounded in time, measured where it arrives.
//!
//! - [`tcp`]: bulk transfers, with the congestion control chosen per connection;
//! - [`udp`]: a constant rate with sequence numbers and times, for loss, gaps and delay;
//! - [`probe`]: request and response, for round-trip times.

pub mod probe;
pub mod tcp;
pub mod udp;
