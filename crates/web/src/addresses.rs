//! The addresses that are answered: what the server routes, and what its document describes.

pub(crate) const PAGE: &str = "/";
pub(crate) const STATUS: &str = "/api/status";
pub(crate) const HISTORY: &str = "/api/history";
pub(crate) const EVENTS: &str = "/api/events";
pub(crate) const METRICS: &str = "/metrics";
pub(crate) const OPENAPI: &str = "/api/openapi.json";
