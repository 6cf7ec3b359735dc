//! Sources beside TCP. A source is a [`Source`]: what it sends ([`Datagrams`]) and when ([`Timing`]); one file for each
//! timing, and `constant.rs` is the template. A [`Listener`] is its other end.
//!
//! All of them are silent outside their [`Active`] spans, and take their luck from a seed, so that a flow that is
//! added changes nothing for the others.

mod active;
mod burst;
mod chance;
mod constant;
mod datagrams;
mod listener;
mod on_off;
mod poisson;
mod source;
mod trace;

pub use active::Active;
pub use burst::Burst;
pub use chance::{Lengths, Spell};
pub use constant::{Constant, Pace};
pub use datagrams::Datagrams;
pub use listener::Listener;
pub use on_off::OnOff;
pub use poisson::Poisson;
pub use source::{Source, Timing};
pub use trace::Trace;
