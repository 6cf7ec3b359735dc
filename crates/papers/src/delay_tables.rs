//! Tables 2 and 3 of Kusaka and Sugano, "An evaluation of delay controlled communication service":
//! the flows and the measurements. I1 to I5 run them in the simulator and between sockets.

/// A measurement of Table 3.
pub struct Measurement {
    /// Its number, from 1.
    pub number: u32,
    /// Flow and guaranteed milliseconds, or the discipline without guarantees.
    pub flow_delays: &'static [(usize, u64)],
    pub plain: &'static str,
    /// Per cent of the packets within 10, 9.7, 20, 19.4, 40 and 38.8 ms, and lost.
    pub paper: [Option<f64>; 6],
    pub loss: f64,
    /// Which of these six must be 100 without a ring.
    pub guaranteed: &'static [usize],
}

/// What is required of the share of packets within one of the six times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DelayRequirement {
    /// Every packet without a ring; behind one, at the guarantee itself, near the paper's value.
    Kept(Option<f64>),
    /// Near the paper's value, below 100 %.
    NotKept(f64),
    /// Below this, which the paper has with a guarantee.
    Scattered(f64),
    /// Nothing.
    Nothing,
}

impl Measurement {
    /// What is required of the share at this index.
    pub fn requirement(&self, index: usize) -> DelayRequirement {
        // The time that is guaranteed itself, not those computed by the rule.
        let own = self.guaranteed.first() == Some(&index);
        match (self.flow_delays.len(), index) {
            (0, 0) => DelayRequirement::Scattered(84.1),
            (0, 2) => DelayRequirement::Scattered(94.4),
            (0, 4) => DelayRequirement::Scattered(98.6),
            (1.., 4) if self.guaranteed.is_empty() => {
                self.paper[index].map_or(DelayRequirement::Nothing, DelayRequirement::NotKept)
            }
            _ if own => DelayRequirement::Kept(self.paper[index]),
            _ if self.guaranteed.contains(&index) => DelayRequirement::Kept(None),
            _ => DelayRequirement::Nothing,
        }
    }
}

/// The measurements of Table 3.
pub const MEASUREMENTS: [Measurement; 5] = [
    Measurement {
        number: 1,
        flow_delays: &[(1, 10)],
        plain: "",
        paper: [
            Some(84.1),
            Some(75.6),
            Some(94.1),
            Some(93.6),
            Some(100.0),
            Some(100.0),
        ],
        loss: 8.1,
        guaranteed: &[0, 1, 2, 3, 4, 5],
    },
    Measurement {
        number: 2,
        flow_delays: &[(2, 10), (1, 20)],
        plain: "",
        paper: [
            Some(61.5),
            Some(54.9),
            Some(94.4),
            Some(93.9),
            Some(99.7),
            Some(99.7),
        ],
        loss: 8.3,
        guaranteed: &[2, 3, 4, 5],
    },
    Measurement {
        number: 3,
        flow_delays: &[(2, 10), (3, 30), (1, 40)],
        plain: "",
        paper: [
            Some(52.0),
            Some(47.2),
            Some(81.1),
            Some(79.6),
            Some(98.6),
            Some(98.4),
        ],
        loss: 8.9,
        guaranteed: &[],
    },
    Measurement {
        number: 4,
        flow_delays: &[],
        plain: "cbq",
        paper: [
            Some(38.5),
            Some(35.5),
            Some(64.5),
            Some(62.7),
            Some(90.2),
            Some(89.5),
        ],
        loss: 9.9,
        guaranteed: &[],
    },
    Measurement {
        number: 5,
        flow_delays: &[],
        plain: "fifo",
        paper: [None; 6],
        loss: 8.8,
        guaranteed: &[],
    },
];

/// The thresholds, in µs.
pub const WITHIN: [u64; 6] = [10_000, 9_700, 20_000, 19_400, 40_000, 38_800];

/// A flow of Table 2: frames of a burst, the intervals between bursts and between frames in ns, the
/// paper's rate of IP packets in Mbit/s, and its class's rate in kbit/s of frames.
pub struct BurstFlow {
    pub frames: u64,
    pub period: u64,
    pub gap: u64,
    pub paper: f64,
    pub rate: u64,
}

/// The transmission time of a frame at 100 Mbit/s.
pub const FRAME_TIME: u64 = 121_440;

/// The flows of Table 2.
pub const FLOWS: [BurstFlow; 4] = [
    BurstFlow {
        frames: 8,
        period: 48_000_000 + 8 * FRAME_TIME + 7 * 180_000,
        gap: 180_000,
        paper: 1.91,
        rate: 1_935,
    },
    BurstFlow {
        frames: 8,
        period: 30_000_000 + 8 * FRAME_TIME,
        gap: 200_000,
        paper: 3.10,
        rate: 3_137,
    },
    BurstFlow {
        frames: 16,
        period: 96_000_000 + 16 * FRAME_TIME,
        gap: 300_000,
        paper: 1.96,
        rate: 1_984,
    },
    BurstFlow {
        frames: 32,
        period: 92_000_000 + 32 * FRAME_TIME + 31 * 1_110_000,
        gap: 1_110_000,
        paper: 2.95,
        rate: 2_944,
    },
];

/// The note of a value without a requirement.
pub const SHOWN: &str = "For comparison; no requirement.";

/// To two places.
pub fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
