//! A running suimon over HTTP: metrics for Prometheus, JSON, and a page that follows it live and
//! tries what another rate would do. It is read only, unless it was started so that changes can be
//! undone.
//!
//! It is another program than the one that moves packets, and reads from its control socket. In
//! reading order: [`server`] has who may ask, and for what, [`token`] who may undo; [`live`]
//! follows the program and gives each state to all who listen; [`metrics`] is its counters as
//! OpenMetrics text, [`experience_metrics`] what connections have among them; `what_if` has its
//! policy and a changed one `simulated` under its traffic; [`openapi`] describes every answer to
//! programs. The page is in `page/`, embedded; its charts are drawn by uPlot, which stands there
//! with its licence.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod experience_metrics;
pub mod live;
pub mod metrics;
pub mod openapi;
pub mod server;
mod simulated;
pub mod token;
mod what_if;
