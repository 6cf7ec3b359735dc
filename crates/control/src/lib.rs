//! Suimon's control plane. In reading order:
//!
//! - [`diagnostics`]: mistakes and warnings with their positions in a policy's text;
//! - [`policy`]: TOML text → checked plan for every interface;
//! - [`documents`]: which type of document a text is; [`sections`]: TOML with positions, for other
//!   documents as well, and [`values`], as which it is kept; [`text_file`]: how texts are
//!   read from files; [`shared_text`]: one that differs from a known one in a place;
//! - [`port_config`], [`filters`], kept as a [`filter_list`], [`rsvp_config`], [`yields`],
//!   [`quota`]: a policy's parts with a syntax of their own; [`rsvp_keys`]: the key file of RSVP;
//! - [`schema`]: what a policy may say, for editors, and a line of the control socket;
//! - [`snapshot`]: the metrics of every class; [`readout`]: how its values are displayed;
//!   [`explained`]: why packets waited;
//! - [`difference`]: what a policy differs in from the one in force; [`promises`]: what that does
//!   to guarantees; [`class_change`]: a class that comes or goes, without a look at the others;
//!   [`policy_text`]: its text with other settings; [`calendar`]: until when they hold;
//!   [`provenance`]: who asked, and why;
//! - [`protocol`], [`socket`]: how a running program is queried and changed; [`reservation`]: its
//!   RSVP part; [`refusal`]: why it refuses; [`run_directory`]: where sockets and claims are.
//!
//! This crate has no ports or packets. Packet loops take a [`policy::Policy`] and build
//! queues from it.

#![forbid(unsafe_code)]

pub mod autorate;
pub mod begins_anew;
pub mod calendar;
pub mod class_change;
pub mod class_tables;
pub mod diagnostics;
pub mod difference;
pub mod documents;
pub mod expectations;
pub mod experienced;
pub mod explained;
pub mod filter_list;
pub mod filters;
pub mod hand_over;
pub mod judged;
pub mod meetings;
pub mod one_class;
mod piece;
mod pieces;
pub mod policy;
pub mod policy_text;
pub mod port_config;
pub mod promises;
pub mod protocol;
pub mod provenance;
pub mod quota;
pub mod readout;
pub mod recorded;
mod recorded_filter;
pub mod refusal;
pub mod reservation;
pub mod rsvp_config;
pub mod rsvp_keys;
pub mod schema;
pub mod sections;
mod setting_change;
pub mod shared_text;
pub mod snapshot;
pub mod text_file;
pub mod values;
pub mod what_if;
pub mod yields;

// All else is of Linux; the above is compiled for the browser too.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        pub mod run_directory;
        pub mod socket;
    }
}
