//! Suimon's control plane. In reading order:
//!
//! - [`findings`]: mistakes and warnings that point into a policy's text;
//! - [`policy`]: TOML text → checked plan for every interface;
//! - [`topology`]: TOML text → hosts and links of a lab, with policies on the links;
//! - [`port_config`], [`filters`]: its two parts with a syntax of their own.
//!
//! Absent on purpose: ports, packets and clocks. Whoever moves packets takes a [`policy::Policy`] and
//! builds queues from it.

#![forbid(unsafe_code)]

pub mod filters;
pub mod findings;
pub mod policy;
pub mod port_config;
mod sections;
pub mod topology;
