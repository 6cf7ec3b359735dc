//! A running suimon over HTTP, read only: metrics for Prometheus, JSON, and a page that follows it
//! live.
//!
//! It is another program than the one that moves packets, and reads from its control socket. In
//! reading order: [`server`] has who may ask, and for what; [`live`] follows the program
//! and gives each state to all who listen; [`metrics`] is its counters as OpenMetrics text;
//! [`openapi`] describes every answer to programs. The page is in `page/`, embedded; its charts
//! are drawn by uPlot, which stands there with its licence.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod live;
pub mod metrics;
pub mod openapi;
pub mod server;
