//! Reservations as people use them, with real sockets: two hosts, two routers that the kernel
//! routes by, and `suimon` on each.
//!
//! ```text
//!  a (reserve) ── lan0 │ r1: run, drr │ wan0 ── wan0 │ r2: run, cbq │ lan0 ── b (accept)
//! ```
//!
//! R is 1 s if nothing else is said, so that state which is not refreshed dies after 5.25 s. Times
//! are judged with room for a busy machine, order and counts exactly.

mod hostile;
mod keys;
mod names;
mod path;
mod reroute;
mod rig;
mod service;
mod tunnel;
