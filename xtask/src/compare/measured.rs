//! What one side came to: the same figures, whoever measured them.

use serde::{Deserialize, Serialize};

/// What one flow got. Delays are in microseconds; those of TCP are not measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowFigures {
    pub name: String,
    /// Packets; of TCP none.
    pub sent: u64,
    pub received: u64,
    /// Bits of frames (of TCP: of data) that arrived, by the time in which it sent.
    pub rate_bps: u64,
    pub mean_us: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}

impl FlowFigures {
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// One side of a case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Side {
    /// Which kernel, or the simulator.
    pub what: String,
    pub flows: Vec<FlowFigures>,
    /// Packets that disciplines dropped and marked.
    pub dropped: u64,
    pub marked: u64,
    /// How much later than planned datagrams were sent, in microseconds: 99 of 100, and the latest.
    /// None where time is simulated.
    pub late_p99_us: Option<u64>,
    pub late_max_us: Option<u64>,
}

/// The value that so many in a thousand do not exceed.
pub fn quantile(sorted: &[u64], per_mille: usize) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * per_mille / 1_000).copied().unwrap_or(0)
}
