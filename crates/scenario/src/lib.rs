//! Networks described in TOML: parsed, simulated or built as a lab, checked against expectations,
//! reported. In reading order:
//!
//! - `link_policies`: the policy at an end of a link, from a file or a section; `link_traces`: what
//!   it is over time, from a file;
//! - [`language`]: TOML text → checked hosts, links, flows, changes and expectations, or all
//!   mistakes; [`folder`] reads the files that a scenario names;
//! - [`brought`]: sources and congestion controls that a program gives;
//! - [`sources`]: the traffic sources of flows, one file for each kind;
//! - [`run`]: simulates a scenario, takes readings and checks expectations; the result is an
//!   [`outcome`](run::outcome), plain data;
//! - [`report`]: outcomes as tables, JSON, CSV, charts and pages;
//! - [`topology`]: TOML text → hosts and links of a lab; [`lab`]: builds namespaces and emulated
//!   links from it.
//!
//! Engine, policies and disciplines are the same as in `suimon run`.

#![forbid(unsafe_code)]

pub mod brought;
pub mod counterexample;
mod error;
pub mod folder;
pub mod language;
mod link_policies;
mod link_traces;
pub mod overridden;
pub mod report;
pub mod run;
pub mod sources;
pub mod topology;

// All else is of Linux; the above is compiled for the browser too.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        pub mod behind;
        pub mod lab;
        pub mod lab_policies;
    }
}

pub use error::Error;
pub use language::{Scenario, Scenarios};
