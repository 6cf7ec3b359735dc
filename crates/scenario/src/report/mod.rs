//! Reports of outcomes: [`table`] for the terminal, [`json`], [`csv`] and [`series`] for programs,
//! [`page`] and [`alone`] with charts, [`tcp`] of TCP's variables over time.
//!
//! [`junit`] is for CI services, [`behind`] of a command behind a link. [`merge`] merges the
//! outputs of shards; [`preview`] describes a scenario without running it.

pub mod alone;
pub mod csv;
#[cfg(test)]
mod examples;
pub mod json;
pub mod junit;
pub mod merge;
pub mod page;
pub mod pictures;
pub mod preview;
mod replications;
pub mod series;
pub mod sweep;
pub mod table;
pub mod tcp;

#[cfg(target_os = "linux")]
pub mod behind;
