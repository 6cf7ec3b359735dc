//! The report of a simulation.

pub mod simulation;
