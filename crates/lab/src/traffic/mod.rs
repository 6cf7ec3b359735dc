//! Our own traffic: real sockets, limited in time, measured at the receiver.
//!
//! - [`tcp`]: bulk transfers, with the congestion control chosen per connection;
//! - [`generator`], [`analyser`]: numbered datagrams at set times, and their receiver, for one host
//!   each; [`datagram`] is their format, [`stamped`] their socket, [`tally`], [`sample`] and
//!   [`payload_bins`] count them;
//! - [`udp`]: the same between two hosts of a lab, with a list of all arrivals, for loss, gaps and
//!   delay;
//! - [`probe`]: request and response, for round-trip times;
//! - [`under_load`]: round trips over a line that is idle, and full in each direction.

pub mod datagram;

// All else is of Linux; the above is compiled for the browser too.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        pub mod analyser;
        pub mod payload_bins;
        pub mod generator;
        pub mod probe;
        pub mod sample;
        pub mod stamped;
        pub mod tally;
        pub mod tcp;
        pub mod udp;
        pub mod under_load;
    }
}
