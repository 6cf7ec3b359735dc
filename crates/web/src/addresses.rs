//! The addresses that are answered, and the types of answers: what the server routes, and what its
//! document describes.

/// Where it listens unless it is told another address.
pub const LISTEN: &str = "127.0.0.1:9476";

pub(crate) const PAGE: &str = "/";
pub(crate) const STATUS: &str = "/api/status";
pub(crate) const HISTORY: &str = "/api/history";
pub(crate) const EVENTS: &str = "/api/events";
pub(crate) const METRICS: &str = "/metrics";
pub(crate) const OPENAPI: &str = "/api/openapi.json";

pub(crate) const JSON: &str = "application/json";
pub(crate) const HTML: &str = "text/html; charset=utf-8";
