//! Suimon's control plane. In reading order:
//!
//! - [`diagnostics`]: mistakes and warnings that point into a policy's text;
//! - [`policy`]: TOML text → checked plan for every interface;
//! - [`documents`]: which document a text is; [`sections`]: TOML with places, for other documents
//!   as well;
//! - [`port_config`], [`filters`], [`rsvp_config`], [`yields`]: a policy's parts with a syntax of
//!   their own; [`rsvp_keys`]: the key file of RSVP;
//! - [`snapshot`]: what every class got; [`readout`]: how its values are shown;
//! - [`protocol`], [`socket`]: how a running program is queried and changed; [`reservation`]: its
//!   RSVP part; [`refusal`]: why it refuses.
//!
//! Absent on purpose: ports, packets and clocks. Whoever moves packets takes a [`policy::Policy`]
//! and builds queues from it.

#![forbid(unsafe_code)]

pub mod diagnostics;
pub mod documents;
pub mod filters;
pub mod policy;
pub mod port_config;
pub mod protocol;
pub mod readout;
pub mod refusal;
pub mod reservation;
pub mod rsvp_config;
pub mod rsvp_keys;
pub mod sections;
pub mod snapshot;
pub mod socket;
pub mod yields;
