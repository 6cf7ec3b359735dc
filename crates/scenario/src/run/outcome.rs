//! The outcome of a simulated scenario: plain data for tables, JSON, time series, charts and
//! expectations.
//!
//! Rates and bytes of classes and links count frames (Ethernet header included), at the time when
//! their bits are on the wire; those of flows count what the receiving program got. Series begin at
//! time zero.

use crate::language::Picture;
use control::explained::Explained;
use control::judged;
use engine::bounds::shown;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::FineDelays;
use measure::impairments::ImpairmentCounts;
use measure::numbers;
use sim::medium::MediumCounts;
use sim::meter::BacklogLevels;
use sim::tcp::video::Playback;

/// What a lab measured.
#[derive(Clone, Debug)]
pub struct LiveOutcome {
    /// The scenario's name.
    pub scenario: String,
    /// How long it ran.
    pub duration: Duration,
    /// Every flow.
    pub flows: Vec<FlowOutcome>,
    /// The link whose thread was late the most, and by how much: delays include that.
    pub held_up: Option<(String, Duration)>,
    /// Every reservation.
    pub reservations: Vec<ReservationOutcome>,
    /// Every program.
    pub programs: Vec<ProgramOutcome>,
    /// The expectations and the measured values.
    pub expectations: Vec<Judgement>,
}

/// The outcome of one point; a scenario without a sweep has one point.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// The point of the sweep.
    pub point: Point,
    /// The simulated time.
    pub duration: Duration,
    /// The bin width of all series.
    pub bin: Duration,
    /// The chart that the scenario selects.
    pub picture: Picture,
    /// The number of simulated events.
    pub events: u64,
    /// Every link, in each direction.
    pub links: Vec<LinkOutcome>,
    /// Every medium that links share.
    pub media: Vec<MediumOutcome>,
    /// Every flow; copies of one description are one flow here.
    pub flows: Vec<FlowOutcome>,
    /// Every reservation.
    pub reservations: Vec<ReservationOutcome>,
    /// The expectations and the measured values.
    pub expectations: Vec<Judgement>,
    /// Why packets waited on a link, if that was asked for.
    pub explained: Option<Explained>,
}

impl Outcome {
    /// How many expectations were missed.
    pub fn missed(&self) -> usize {
        self.expectations
            .iter()
            .filter(|judgement| !judgement.met)
            .count()
    }
}

/// A point of a sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// Its number, from 1.
    pub number: usize,
    /// The number of points.
    pub of: usize,
    /// The name and value of each list.
    pub values: Vec<(String, String)>,
}

impl Point {
    /// That of a scenario without a sweep.
    pub fn only() -> Self {
        Self {
            number: 1,
            of: 1,
            values: Vec::new(),
        }
    }
}

/// The traffic of a link in one direction.
#[derive(Clone, Debug)]
pub struct LinkOutcome {
    /// Its name: `server > home`.
    pub name: String,
    /// The rate of its wire; of one that varies the mean over the duration.
    pub rate: Bandwidth,
    /// The discipline of its policy; `None`: a plain buffer.
    pub discipline: Option<&'static str>,
    /// The traffic of all classes together.
    pub total: Passed,
    /// The classes of its policy, indexed by class number.
    pub classes: Vec<ClassOutcome>,
    /// What befell packets on its wire.
    pub impaired: ImpairmentCounts,
    /// Samples of its backlog.
    pub backlog_samples: Vec<(Instant, Bytes)>,
}

/// What happened on a medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediumOutcome {
    /// Its name.
    pub name: String,
    /// Transmissions, collisions, and the time in which it was busy.
    pub counts: MediumCounts,
}

/// The traffic of one class.
#[derive(Clone, Debug)]
pub struct ClassOutcome {
    /// Its name.
    pub name: String,
    /// Its parent, by index.
    pub parent: Option<usize>,
    /// Whether it is a leaf. The traffic of an interior class is the sum of the classes below it.
    pub leaf: bool,
    /// The rate that its discipline guarantees, if any.
    pub target: Option<Bandwidth>,
    /// Its traffic.
    pub passed: Passed,
    /// The bytes that it borrowed, if its discipline lends.
    pub borrowed: Option<Bytes>,
}

/// The traffic of a link or a class.
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
    /// Queueing delays: from arrival to the first bit on the wire.
    pub waited: FineDelays,
    /// Packets dropped, by reason; reasons that did not occur are absent.
    pub dropped: Vec<(&'static str, u64)>,
    /// Packets marked.
    pub marked: u64,
    /// The distribution of the backlog over time.
    pub backlog: BacklogLevels,
}

impl Passed {
    /// The number of packets dropped.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().map(|(_, n)| n).sum()
    }
}

/// What the receivers of a flow got.
#[derive(Clone, Debug)]
pub struct FlowOutcome {
    /// Its name.
    pub name: String,
    /// Its kind, and for TCP the congestion control.
    pub kind: String,
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// When the first copy started.
    pub start: Instant,
    /// The bytes that the receiver of each copy got.
    pub copies: Vec<u64>,
    /// The bytes that all receivers got.
    pub bytes: u64,
    /// The mean rate over the duration.
    pub rate: Bandwidth,
    /// Bytes in each bin.
    pub series: Vec<u64>,
    /// One-way delays or response times, for kinds that measure them.
    pub delays: Option<FineDelays>,
    /// Whether these are one-way delays.
    pub one_way: bool,
    /// Of video: what has become of playing it.
    pub playback: Option<Playback>,
    /// Other counts of its kind, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// The variables of its sending TCP, of the first copy, in order of time; empty of datagrams,
    /// and in the simulator unless they were asked for.
    pub tcp: Vec<TcpSample>,
}

/// The variables of a sending TCP at a time, of which the simulator and the lab's kernel tell the
/// same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpSample {
    /// When, from the start of the run.
    pub at: Instant,
    /// cwnd; the kernel counts it in segments of the maximum size.
    pub cwnd: Bytes,
    /// The smoothed round-trip time; the kernel tells it in microseconds.
    pub rtt: Duration,
    /// Segments that were sent again so far.
    pub retransmissions: u64,
}

impl FlowOutcome {
    /// The longest one-way delay, where that is what was measured.
    pub(super) fn longest(&self) -> Option<Duration> {
        let delays = self.delays.as_ref().filter(|_| self.one_way);
        delays.map(FineDelays::longest)
    }
}

/// What became of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReservationOutcome {
    /// Its name.
    pub name: String,
    /// The name of its flow.
    pub flow: String,
    /// For how long it was in force on all its path.
    pub in_force: Duration,
    /// What was admitted, refused or ended, and when.
    pub events: Vec<(Instant, String)>,
    /// Of guaranteed service: the delay.
    pub delay: Option<PromisedDelay>,
    /// Which of its flow's packets something was promised to, and what became of them; none if no
    /// link on its path promised anything, or of TCP.
    pub contract: Option<KeptContract>,
}

impl ReservationOutcome {
    /// What its packets take at most that keep to it: the bound, or where that is not known, the
    /// promise.
    pub(super) fn limit(&self) -> Option<Duration> {
        let delay = self.delay?;
        Some(shown(delay.bound.unwrap_or(delay.promised)))
    }
}

/// The packets of a flow that came to the first link on its path that has a class for it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeptContract {
    /// That link.
    pub at: String,
    /// All of them.
    pub packets: u64,
    /// Those that exceeded what is reserved there, rate × time + burst, by the times at which they
    /// came: nothing is promised to them.
    pub exceeded: u64,
    /// By how much one of them was too early at most.
    pub earliest: Duration,
    /// Those of them that were policed.
    pub policed: u64,
    /// In the lab, those that came since this machine had held the sender, or a link before, up.
    pub held_up: u64,
    /// The longest such hold-up.
    pub longest: Duration,
    /// Of the packets that kept to what is reserved: those that never arrived.
    pub lost: u64,
    /// Those that took longer than the bound, or where that is not known, the promise, less what
    /// this machine held them up for.
    pub late: u64,
    /// In the simulator, of guaranteed service: how each hop with a class for it kept what it
    /// promised there, in the order of the path.
    pub hops: Vec<KeptHop>,
}

/// How a hop kept what it promised to those of a flow's packets that kept to it there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeptHop {
    /// The link.
    pub at: String,
    /// The bound, from arrival in the queue to the last bit on the link.
    pub bound: Duration,
    /// The longest time that one took.
    pub worst: Duration,
    /// Those that took longer than the bound.
    pub late: u64,
    /// Those that exceeded what is reserved there.
    pub exceeded: u64,
}

/// A delay that a reservation promised, from end to end, propagation included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PromisedDelay {
    /// What was asked for.
    pub promised: Duration,
    /// What the hops that admitted it sum up to; none where it was never asked of them.
    pub bound: Option<Duration>,
    /// The longest of all its flow's packets, whether it was in force or not; none if nothing
    /// arrived.
    pub measured: Option<Duration>,
}

impl KeptHop {
    /// This link, to which nothing has come.
    pub(super) fn at(link: &str) -> Self {
        Self {
            at: link.into(),
            ..Self::default()
        }
    }
}

/// An expectation and its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// The measurement: `class download: rate, 5 s to 30 s`.
    pub what: String,
    /// The bounds: `at least 18 Mbit/s`.
    pub expected: String,
    /// The measured value: `17.2 Mbit/s`.
    pub got: String,
    /// The measured value, in the metric's smallest unit.
    pub value: u64,
    /// That unit.
    pub unit: &'static str,
    /// Whether it was met.
    pub met: bool,
    /// By how much it was missed: `0.8 Mbit/s too little (4.4 %)`; empty if it was met.
    pub missed_by: String,
    /// Of a delay in the lab: what hold-ups of the machine added, which is not in `value`; none if
    /// they added nothing.
    pub held_up: Option<FlowHoldUps>,
}

/// What threads of this machine that were late added to the delays of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowHoldUps {
    /// The packets that were held up.
    pub packets: u64,
    /// The longest time for which one was.
    pub longest: Duration,
    /// The measured value with that: `152 ms`.
    pub got: String,
    /// The same in nanoseconds.
    pub value: u64,
    /// The packets on whose way it stood still.
    pub apart: CountedApart,
}

/// The packets of a flow on whose way the machine stood still.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CountedApart {
    /// How many.
    pub packets: u64,
    /// Of how many.
    pub of: u64,
    /// How often the machine stood still during the run.
    pub times: usize,
    /// The longest time.
    pub longest: Duration,
    /// What the others measured, in nanoseconds.
    pub others: u64,
}

impl CountedApart {
    /// Whether the others are judged without them: there are enough.
    pub fn are_few(&self) -> bool {
        judged::are_few(self.packets, self.of)
    }
}

impl FlowHoldUps {
    /// What it adds to a verdict, in words.
    pub fn words(&self) -> String {
        let Self { packets, got, .. } = self;
        let longest = numbers::time(self.longest.nanos());
        let mut words = format!("{got} with {packets} packets that this machine held up, by up to {longest}");
        let CountedApart { packets, of, .. } = self.apart;
        if packets > 0 {
            let (times, longest) = (self.apart.times, numbers::time(self.apart.longest.nanos()));
            let still =
                format!("{packets} of {of} as it stood still ({times} times in all, for up to {longest})");
            words += &match self.apart.are_few() {
                true => format!(", and apart from {still}"),
                false => {
                    let others = numbers::time(self.apart.others);
                    format!("; {still}: too many to judge the others alone, which had {others}")
                }
            };
        }
        words
    }
}

/// How a program of a lab ended, and what it printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramOutcome {
    /// Its name.
    pub name: String,
    /// The host that it ran on.
    pub host: String,
    /// How it ended.
    pub ended: ProgramEnd,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// The end of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramEnd {
    /// By itself, with this exit code.
    Exited(u32),
    /// By this signal, which we did not send.
    Killed(i32),
    /// At its `stop`.
    Stopped,
}
