//! `suimon run` as a library: from a checked policy to packets that move, and RSVP beside it.
//!
//! - [`facts`], [`selfcheck`], [`claim`]: what the interfaces are, whether the policy will hold,
//!   and that nobody else is at work on them; before anything is changed;
//! - [`direction`], [`realise`], [`assemble`]: ports, paths, what makes times come true, and the
//!   worker;
//! - [`in_force`]: what holds on each interface, and how that changes while packets flow;
//! - [`yielding`]: classes whose downloads yield, by the law of `nine`;
//! - [`service`], [`supervise`]: what is answered, and said, while packets flow; [`enforce`] does
//!   all of it in order;
//! - [`signalling`]: RSVP with sockets, routes and a clock.

#![forbid(unsafe_code)]

pub mod assemble;
pub mod claim;
pub mod direction;
pub mod enforce;
mod error;
pub mod facts;
pub mod in_force;
pub mod realise;
pub mod selfcheck;
pub mod service;
pub mod signalling;
pub mod supervise;
pub mod yielding;

pub use error::Error;
