//! Sources beside TCP. A source is a [`Source`]: what it sends ([`Datagrams`]) and when ([`Timing`]); one file for each
//! timing, and `constant.rs` is the template. Two look at the network: [`Greedy`] at its first link, and a [`Client`] at its answers.
//!
//! All of them are silent outside their [`Active`] spans, and take their luck from a seed, so that a flow that is
//! added changes nothing for the others.

mod active;
mod burst;
mod chance;
mod constant;
mod datagrams;
mod greedy;
mod listener;
mod on_off;
mod poisson;
mod request;
mod source;
mod trace;

pub use active::Active;
pub use burst::Burst;
pub use chance::{Lengths, Spell};
pub use constant::{Constant, Pace};
pub use datagrams::Datagrams;
pub use greedy::Greedy;
pub use listener::Listener;
pub use on_off::OnOff;
pub use poisson::Poisson;
pub use request::{Client, Exchange, Server};
pub use source::{Source, Timing};
pub use trace::Trace;
