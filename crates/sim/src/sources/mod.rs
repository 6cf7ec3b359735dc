//! Sources other than TCP, one file each.
//!
//! A [`DatagramSource`] has two parts: what it sends ([`Datagrams`]) and when ([`Timing`]). There
//! is one file per timing; `constant.rs` is the template. Two sources react to the network:
//! [`Greedy`] to its first link, and a [`RequestClient`] to responses.
//!
//! All are silent outside their [`Active`] spans and draw random numbers from a seed of their own,
//! so that another flow changes nothing for them.

mod active;
mod burst;
mod constant;
mod datagram_source;
mod datagrams;
mod distributions;
mod greedy;
mod listener;
mod on_off;
mod poisson;
mod replay;
mod request;

pub use active::Active;
pub use burst::Burst;
pub use constant::{Constant, SendRate};
pub use datagram_source::{DatagramSource, Timing};
pub use datagrams::Datagrams;
pub use distributions::{Lengths, TimeDistribution};
pub use greedy::Greedy;
pub use listener::Listener;
pub use on_off::OnOff;
pub use poisson::Poisson;
pub use replay::Replay;
pub use request::{RequestClient, RequestResponse, RequestServer};
