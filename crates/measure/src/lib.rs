//! Measurement tools of the simulator, the lab and the running ports. Disciplines use none of them.
//!
//! - [`waits`]: why packets waited, recorded beside a queue;
//! - [`series`]: bytes over time, apportioned by the bits on the wire;
//! - [`histogram`]: log-linear histograms of integers; [`delay`]: one of queueing delays;
//!   [`hold_ups`]: what of them the host made, told apart;
//! - [`promise`]: whether what leaves by a class does so within the bound that is promised to it;
//!   [`promised`]: which packets that come keep to what that holds for;
//! - [`wire_model`]: one direction of a wire, the same in the simulator and in the lab;
//!   [`impairments`]: what befalls packets on it, by [`variates`]; [`link_trace`]: what it is over
//!   time, and
//!   [`line_models`]: made by a model;
//! - [`experience`]: what round trips under load are worth: a grade, round trips a minute, quality
//!   of outcome;
//!   [`round_trips`]: those that passing traffic shows;
//! - [`numbers`]: human-readable rates, lengths and times.
//!
//! Like the engine, this crate uses no clock, file or thread. Random seeds are arguments.

#![forbid(unsafe_code)]

pub mod confidence;
pub mod delay;
pub mod distribution;
pub mod experience;
mod fixed_point;
pub mod histogram;
pub mod hold_ups;
pub mod impairments;
pub mod line_models;
pub mod link_trace;
pub mod numbers;
pub mod promise;
pub mod promised;
pub mod round_trips;
pub mod series;
pub mod variates;
pub mod waits;
pub mod wire_model;
