//! Outcomes shown: [`table`] for the terminal, [`json`] and [`csv`] and [`series`] for programs,
//! [`page`] and [`alone`] as pictures.
//!
//! [`merge`] puts the outputs of shards together; [`preview`] says what a scenario means without
//! running it.

pub mod alone;
pub mod csv;
#[cfg(test)]
mod examples;
pub mod json;
pub mod merge;
pub mod page;
pub mod pictures;
pub mod preview;
pub mod series;
mod sweep;
pub mod table;
