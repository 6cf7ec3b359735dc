//! The result of one side: the same numbers for the kernel and the simulator.

use serde::{Deserialize, Serialize};

/// The result of one flow. Delays are in microseconds; TCP's are not measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowFigures {
    pub name: String,
    /// Packets; none for TCP.
    pub sent: u64,
    pub received: u64,
    /// Bits of frames (for TCP: of data) that arrived, per second of sending time.
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
    /// How late datagrams were sent, in microseconds: the 99th percentile and the maximum. None
    /// in simulated time.
    pub late_p99_us: Option<u64>,
    pub late_max_us: Option<u64>,
    /// What a datagram took where nothing waited, if that was measured: the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_us: Option<u64>,
}

/// The quantile of sorted values.
pub fn quantile(sorted: &[u64], per_mille: usize) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * per_mille / 1_000).copied().unwrap_or(0)
}
