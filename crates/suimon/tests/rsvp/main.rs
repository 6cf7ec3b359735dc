//! Reservations from the command line, with real sockets: two hosts, two routers with kernel
//! routing, and `suimon` on each.
//!
//! ```text
//!  a (reserve) ── lan0 │ r1: run, drr │ wan0 ── wan0 │ r2: run, cbq │ lan0 ── b (accept)
//! ```
//!
//! R is 1 s by default, so state that is not refreshed times out after 5.25 s. Times are asserted
//! with room for a busy machine, order and counts exactly.

#[path = "../stubs/answering.rs"]
mod answering;
#[path = "../stubs/asked.rs"]
mod asked;
mod floods;
mod groups;
#[path = "../stubs/holdings.rs"]
mod holdings;
mod hostile;
mod interfaces;
mod keys;
mod names;
mod path;
mod recorded;
mod reroute;
mod rig;
mod service;
mod soak;
mod socket;
mod tunnel;
