//! Suimon's queueing engine. In reading order:
//!
//! - [`units`]: time, length, rate and probability as types;
//! - [`packet`]: what the engine knows of a packet;
//! - [`discipline`]: the contract, and its answers;
//! - [`queue`]: the wrapper that pins, counts and checks;
//! - [`mod@settings`], [`kind`], [`tree`]: from a policy's text to a checked plan to a running
//!   queue;
//! - [`disciplines`]: one file each; what several share stands in [`structures`] (data structures),
//!   `sharing` (classes that share a link) and `flows` (queues for each flow);
//! - [`header`], [`classify`]: from a frame's bytes to its fields, and to a class;
//! - [`bounds`], [`admission`]: the worst-case delay of packets, and which flows a link can
//!   guarantee a delay; [`conformance`]: which packets it is guaranteed to;
//! - [`reservation`], [`reserved`]: how a kind gives classes to reservations, and the tree with
//!   them;
//! - [`port_kind`]: what a port declares about itself, for those who read policies;
//! - [`link`]: the facts of the link behind a tree, each of them once;
//! - [`link_clock`]: a link's bandwidth as a clock; [`shaped_queue`]: a queue that keeps to it, in
//!   every place;
//! - [`byte_clock`]: time in bytes of an Ethernet wire, for pacing;
//! - [`portion`]: how much of a long job one call does;
//! - [`inspect`]: looking into a running tree.
//!
//! Absent on purpose: clocks, sockets, threads, files, logging, global state, unsafe code, and
//! randomness that was not given. The same code therefore runs in the simulator, in the lab and on
//! a real link.

#![forbid(unsafe_code)]

pub mod admission;
pub mod bounds;
pub mod byte_clock;
pub mod carry_over;
mod class_name;
pub mod classify;
pub mod conformance;
pub mod discipline;
pub mod disciplines;
mod flows;
pub mod framing;
pub mod header;
pub mod inspect;
pub mod kind;
pub mod link;
pub mod link_clock;
pub mod packet;
pub mod port_kind;
pub mod portion;
pub mod prefetch;
pub mod queue;
pub mod random;
pub mod reservation;
pub mod reserved;
pub mod settings;
pub mod shaped_queue;
mod sharing;
pub mod sink;
#[cfg(test)]
mod sinks;
mod spec;
pub mod stats;
pub mod structures;
pub mod tree;
#[cfg(test)]
mod trials;
pub mod units;
