//! What is measured, for the simulator, the lab and the running ports: nothing that a discipline uses.
//!
//! - [`series`]: bytes over time, apportioned by the bits on the wire;
//! - [`histogram`]: log-linear counts of whole numbers; [`delay`]: queueing delays in one;
//! - [`impairments`]: what a wire loses and delays by itself, the same models in the simulator and in the lab;
//! - [`numbers`]: rates, lengths and times as people read them.
//!
//! Pure, as the engine is: no clock, file or thread; randomness is an argument.

#![forbid(unsafe_code)]

pub mod delay;
pub mod histogram;
pub mod impairments;
pub mod numbers;
pub mod series;
