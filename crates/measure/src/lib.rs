//! Measurement tools of the simulator, the lab and the running ports. Disciplines use none of them.
//!
//! - [`waits`]: why packets waited, recorded beside a queue;
//! - [`series`]: bytes over time, apportioned by the bits on the wire;
//! - [`histogram`]: log-linear histograms of integers; [`delay`]: one of queueing delays;
//! - [`impairments`]: a wire's own loss and jitter, the same models in the simulator and in the
//!   lab;
//! - [`experience`]: what round trips under load are worth: a grade, round trips a minute, quality
//!   of outcome;
//! - [`numbers`]: human-readable rates, lengths and times.
//!
//! Like the engine, this crate uses no clock, file or thread. Random seeds are arguments.

#![forbid(unsafe_code)]

pub mod delay;
pub mod experience;
pub mod histogram;
pub mod impairments;
pub mod numbers;
pub mod series;
pub mod waits;
