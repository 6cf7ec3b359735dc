//! What a policy does, or would do, class by class.

use serde::{Deserialize, Serialize};

/// What one class got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// Its name.
    pub class: String,
    /// What it got; none if the policy in force has no such class, or no packet of it came.
    pub live: Option<Figures>,
    /// What it would have got.
    pub candidate: Option<Figures>,
}

/// A candidate beside the policy in force, on the same traffic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShadowReport {
    /// For how long.
    pub span_ns: u64,
    /// Each class of either.
    pub classes: Vec<Beside>,
}
