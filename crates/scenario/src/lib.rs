//! A network described once: read, run in the simulator or built in a lab, judged, reported. In
//! reading order:
//!
//! - [`language`]: TOML text → hosts, links, flows, changes and expectations, checked, or every
//!   mistake; [`folder`] gives the files that a scenario names;
//! - [`sources`]: what flows send, one file for each kind;
//! - [`run`]: time passes in the simulator, readings are taken, and expectations judged; the result
//!   is an [`outcome`](run::outcome), plain data;
//! - [`report`]: outcomes as tables, JSON, CSV, pictures and pages;
//! - [`topology`]: TOML text → hosts and links of a lab; [`lab`]: namespaces and emulated links
//!   made from it.
//!
//! The engine, the policies and the disciplines' kinds are those of `suimon run`.

#![forbid(unsafe_code)]

mod error;
pub mod folder;
pub mod lab;
pub mod language;
pub mod report;
pub mod run;
pub mod sources;
pub mod topology;

pub use error::Error;
pub use language::{Scenario, Scenarios};
