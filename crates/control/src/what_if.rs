//! What a policy does, or would do, class by class.

use crate::refusal::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest time that a policy is run beside the one in force.
const LONGEST: Duration = Duration::from_secs(3_600);

/// For how long a shadow is asked for.
///
/// # Errors
///
/// Returns an error if it is not from 1 ms to 1 h.
pub fn span(ms: u64) -> Result<Duration, Refusal> {
    let span = Duration::from_millis(ms);
    match !span.is_zero() && span <= LONGEST {
        true => Ok(span),
        false => Err(Refusal::new("a shadow runs for 1 ms to 1 h")),
    }
}

/// What one class got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Packets that left.
    pub sent: u64,
    /// Their bytes over the time, in bit/s.
    pub rate_bps: u64,
    /// Half of them waited no longer.
    pub p50_ns: u64,
    /// 99 of 100 waited no longer.
    pub p99_ns: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

/// A class by the policy in force and by a candidate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Beside {
    /// Its name.
    pub class: String,
    /// What it got; none if the policy in force has no such class, or no packet of it came.
    pub live: Option<Figures>,
    /// What it would have got.
    pub candidate: Option<Figures>,
}

/// A candidate beside the policy in force, on the same traffic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShadowReport {
    /// For how long.
    pub span_ns: u64,
    /// Each class of either.
    pub classes: Vec<Beside>,
}
