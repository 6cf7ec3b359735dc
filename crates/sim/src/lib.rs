//! Suimon's simulator: discrete events in integer nanoseconds around the very same engine. In reading order:
//!
//! - [`simulation`]: nodes, links and flows are added, then time passes;
//! - [`link`]: the engine's queue, a driver, a wire;
//! - [`agent`], [`packet`]: what sends and receives, and what it sends;
//! - [`sources`]: sources that do not listen; [`tcp`]: those that do;
//! - [`meter`]: what passed; [`capture`]: the same packet by packet, for files.
//!
//! The same description and seed give the same results, bit for bit, in debug and release builds; a node that shares
//! nothing with others changes nothing for them. Absent on purpose: clocks, threads, files. The order of things is that
//! of (time, order of scheduling), and randomness is forked by names.

#![forbid(unsafe_code)]

mod agenda;
pub mod agent;
pub mod capture;
pub mod link;
pub mod meter;
pub mod packet;
pub mod simulation;
pub mod sources;
mod stream;
pub mod tcp;
