//! RSVP with sockets, routes and a clock around the core of `crates/rsvp`: a thread that speaks it for a router or a host.
//!
//! - [`speaker`]: the thread; [`handle`]: how it is asked;
//! - [`layers`]: keys and names of messages, between the node and its sockets; [`protection`]: the file of keys;
//! - [`links`], [`routing`]: the interfaces with their sockets, and the kernel's routes;
//! - [`programs`]: reservations that programs on this host hold; [`answers`]: Paths that this host answers by itself;
//! - [`want`]: what a sender would like, in an object of its own; [`reasons`]: error codes in words;
//! - [`alone`]: the same without packets, on a host;
//! - [`client`], [`beacon`]: how a verb finds a node;
//! - [`trees`], [`promises`]: how a promise becomes a class; [`overview`]: what there is to see.

pub mod alone;
pub mod answers;
pub mod beacon;
pub mod client;
pub mod handle;
pub mod layers;
pub mod links;
pub mod overview;
pub mod programs;
pub mod promises;
pub mod protection;
pub mod reasons;
pub mod routing;
pub mod speaker;
pub mod trees;
pub mod want;
