//! What `suimon run` is made of, and the demo with it: from a checked policy to packets that move.
//!
//! - [`facts`], [`selfcheck`], [`claim`]: what the interfaces are, whether the policy will hold, and that
//!   nobody else is at work on them; before anything is changed;
//! - [`direction`], [`realise`], [`assemble`]: ports, paths, what makes times come true, and the worker;
//! - [`in_force`]: what holds on each interface, and how that changes while packets flow;
//! - [`yielding`]: classes whose downloads yield, by the law of `nine`;
//! - [`service`], [`supervise`]: what is answered, and said, while packets flow.

pub mod assemble;
pub mod claim;
pub mod direction;
pub mod facts;
pub mod in_force;
pub mod realise;
pub mod selfcheck;
pub mod service;
pub mod supervise;
pub mod yielding;
