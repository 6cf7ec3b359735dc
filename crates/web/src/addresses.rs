//! The addresses that are answered, and the types of answers: what the server routes, and what its
//! document describes.

use schemars::JsonSchema;
use serde::Deserialize;

/// Where it listens unless it is told another address.
pub const LISTEN: &str = "127.0.0.1:9476";

pub(crate) const PAGE: &str = "/";
pub(crate) const STATUS: &str = "/api/status";
pub(crate) const HISTORY: &str = "/api/history";
pub(crate) const EVENTS: &str = "/api/events";
pub(crate) const WHAT_IF: &str = "/api/what-if";
pub(crate) const ROLLBACK: &str = "/api/rollback";
pub(crate) const METRICS: &str = "/metrics";
pub(crate) const OPENAPI: &str = "/api/openapi.json";

pub(crate) const JSON: &str = "application/json";
pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Which generation is put back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RollbackRequest {
    /// Its number; none: the last change that was not undone is undone.
    #[serde(default)]
    pub(crate) to: Option<u64>,
    /// Why; the history shows it.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}
