//! From a checked scenario to what came of it.
//!
//! [`place`] gives the files that it names; [`network`] makes the simulator's hosts, links and flows; [`course`] lets time pass and takes readings ([`captures`]: of packets);
//! [`judge`] holds them against what was expected; [`outcome`] is the result, plain data; [`points`] runs the
//! points of a sweep side by side. [`table`], [`json`] and [`series`] show results,
//! [`merge`] puts those of shards together. [`preview`] says what a scenario means without running it.

pub mod captures;
pub mod course;
pub mod json;
mod judge;
pub mod merge;
mod network;
pub mod outcome;
pub mod place;
pub mod points;
pub mod preview;
mod readings;
pub mod series;
pub mod table;
