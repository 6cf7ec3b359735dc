//! What a simulated scenario gave: plain data for tables, JSON, files of series, plots and
//! expectations.
//!
//! Rates and bytes of classes and links are those of frames (Ethernet header included), put where
//! their bits were on the wire; those of flows are what the receiver's program got. Series begin at
//! time zero.

use crate::language::Picture;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::Delays;
use sim::meter::BacklogLevels;

/// What one point of a scenario gave; a scenario without a sweep has one point.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// Which point of the sweep.
    pub point: Point,
    /// How long was simulated.
    pub duration: Duration,
    /// The length of a bin of all series.
    pub bin: Duration,
    /// The picture that tells what it is about.
    pub picture: Picture,
    /// Events that the simulator dealt with.
    pub events: u64,
    /// Every link, in each direction.
    pub links: Vec<LinkOutcome>,
    /// Every flow; copies of one description are one flow here.
    pub flows: Vec<FlowOutcome>,
    /// What was expected, and what was got.
    pub expectations: Vec<Judgement>,
}

/// A point of a sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// From 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// The name and value of each list.
    pub values: Vec<(String, String)>,
}

/// What passed a link in one direction.
#[derive(Clone, Debug)]
pub struct LinkOutcome {
    /// Its name: `server > home`.
    pub name: String,
    /// The rate of its wire.
    pub rate: Bandwidth,
    /// The discipline in front of it; none: a plain buffer.
    pub discipline: Option<&'static str>,
    /// All that passed it.
    pub total: Passed,
    /// The classes of its policy, as numbered there.
    pub classes: Vec<ClassOutcome>,
    /// What its discipline held, looked at now and then.
    pub held: Vec<(Instant, Bytes)>,
}

/// What passed of one class.
#[derive(Clone, Debug)]
pub struct ClassOutcome {
    /// Its name.
    pub name: String,
    /// Its parent, by place in the list.
    pub parent: Option<usize>,
    /// Whether packets are put into it. What passed of others is the sum of the classes below them.
    pub leaf: bool,
    /// The rate that its discipline guarantees, if it does.
    pub target: Option<Bandwidth>,
    /// What passed.
    pub passed: Passed,
    /// What it borrowed, if its discipline lends.
    pub borrowed: Option<Bytes>,
}

/// What passed somewhere.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The mean rate over the duration.
    pub rate: Bandwidth,
    /// Bytes in each bin.
    pub series: Vec<u64>,
    /// How long packets waited before their first bit was sent.
    pub waited: Delays,
    /// Packets dropped, by reason; reasons that did not occur are left out.
    pub dropped: Vec<(&'static str, u64)>,
    /// Packets marked.
    pub marked: u64,
    /// What waited over time.
    pub backlog: BacklogLevels,
}

impl Passed {
    /// All that was dropped.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().map(|(_, n)| n).sum()
    }
}

/// What a flow's receivers got.
#[derive(Clone, Debug)]
pub struct FlowOutcome {
    /// Its name.
    pub name: String,
    /// Its kind, and for TCP the congestion control.
    pub kind: String,
    /// From where.
    pub from: String,
    /// To where.
    pub to: String,
    /// When the first copy started.
    pub start: Instant,
    /// What each copy's receiver got over the duration.
    pub copies: Vec<u64>,
    /// What all got.
    pub bytes: u64,
    /// The mean rate over the duration.
    pub rate: Bandwidth,
    /// Bytes in each bin.
    pub series: Vec<u64>,
    /// From being sent until having arrived, for kinds that measure it.
    pub delays: Option<Delays>,
    /// Other counts of its kind, by name.
    pub counts: Vec<(&'static str, u64)>,
}

/// An expectation and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// What was measured: `class download: rate, 5 s to 30 s`.
    pub what: String,
    /// What was expected: `at least 18 Mbit/s`.
    pub expected: String,
    /// What was got: `17.2 Mbit/s`.
    pub got: String,
    /// The measured number, in the metric's smallest unit.
    pub value: u64,
    /// That unit.
    pub unit: &'static str,
    /// Whether it was met.
    pub met: bool,
    /// By how much it was missed: `0.8 Mbit/s too little (4.4 %)`; empty if it was met.
    pub missed_by: String,
}
