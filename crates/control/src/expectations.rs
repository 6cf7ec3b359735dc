//! Expectations: a metric, and what it is to be within. A scenario has them judged by its
//! simulation or lab (crate `scenario`), a policy while it runs: `[[interface.NAME.expect]]`.
//!
//! What runs is judged at the end of each time `over`, by two readings of the counters that
//! `status` shows. A value that needs every packet, or a sender's own state, cannot be judged so,
//! and is refused.

use crate::experienced::ExperienceSetting;
use crate::sections::Section;
use engine::settings::{Problem, Raw, SettingValue, Span, describe, unknown};
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Bytes, Duration, Probability};
use engine::{choices, settings};
use measure::numbers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

choices! {
    /// What is measured.
    pub enum Metric {
        /// The rate.
        Rate = "rate",
        /// The share of this class in the link's traffic, or of this flow in what all flows
        /// received.
        Share = "share",
        /// The utilization of the link.
        Load = "load",
        /// The mean delay.
        DelayMean = "delay-mean",
        /// The median delay.
        DelayP50 = "delay-p50",
        /// The 99th percentile of the delay.
        DelayP99 = "delay-p99",
        /// The maximum delay.
        DelayMax = "delay-max",
        /// Packets sent, or received.
        Packets = "packets",
        /// Packets dropped.
        Drops = "drops",
        /// Packets marked.
        Marks = "marks",
        /// The maximum backlog in bytes.
        BacklogMax = "backlog-max",
        /// The 99th percentile of the backlog over time.
        BacklogP99 = "backlog-p99",
        /// TCP segments that were retransmitted.
        Retransmissions = "retransmissions",
        /// TCP retransmission timeouts.
        Timeouts = "timeouts",
        /// Bytes that a class borrowed.
        Borrowed = "borrowed",
        /// Jain's fairness index of the copies of a flow, or of all flows: 100 % if all received
        /// the same.
        Jain = "jain",
        /// The mean bitrate of a video's segments.
        Bitrate = "bitrate",
        /// Segments of a video of another bitrate than the one before.
        Switches = "switches",
        /// How often a video stopped for want of segments.
        Stalls = "stalls",
        /// For how long, in all.
        Stalled = "stalled",
        /// The longest time from the start of a video until it played.
        Startup = "startup",
        /// The median round trip between the ends of TCP connections.
        RoundTripP50 = "round-trip-p50",
        /// The 99th percentile of the same.
        RoundTripP99 = "round-trip-p99",
        /// The part of TCP segments that had to be repeated.
        Repeated = "repeated",
        /// Round trips a minute under working conditions.
        RoundTripsAMinute = "rpm",
        /// The quality of outcome of a call, 0 to 100.
        QualityCall = "quality-call",
        /// The quality of outcome of a game, 0 to 100.
        QualityGame = "quality-game",
        /// The quality of outcome of a page, 0 to 100.
        QualityPage = "quality-page",
        /// The part of the time in which a reservation was in force on all its path, for all
        /// copies of its flow.
        InForce = "in-force",
    }
}

/// The unit of a metric; values are integers in its smallest unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bits per second.
    Rate,
    /// Nanoseconds.
    Time,
    /// A number of packets, segments or events.
    Count,
    /// Bytes.
    Bytes,
    /// A fraction, in units of 2⁻³².
    Share,
}

impl Unit {
    /// The name of the smallest unit.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "bit/s",
            Self::Time => "ns",
            Self::Count => "",
            Self::Bytes => "B",
            Self::Share => "1/2^32",
        }
    }

    /// An example of a value in this unit, for messages.
    const fn example(self) -> &'static str {
        match self {
            Self::Rate => "a rate such as \"18 Mbit/s\"",
            Self::Time => "a time such as \"5 ms\"",
            Self::Count => "a whole number without quotes",
            Self::Bytes => "a length such as \"30 kB\"",
            Self::Share => "a share such as \"70 %\"",
        }
    }

    fn read(self, raw: &Raw) -> Result<u64, String> {
        match (self, raw) {
            (Self::Rate, raw) => Bandwidth::from_raw(raw).map(Bandwidth::bits),
            (Self::Time, raw) => Duration::from_raw(raw).map(Duration::nanos),
            (Self::Bytes, raw) => Bytes::from_raw(raw).map(Bytes::get),
            (Self::Share, raw) => Probability::from_raw(raw).map(Probability::parts),
            (Self::Count, Raw::Integer(n)) if *n >= 0 => Ok(n.unsigned_abs()),
            (Self::Count, raw) => Err(format!("expected {}; found {}", self.example(), describe(raw))),
        }
    }

    /// The value, human-readable and rounded.
    pub fn rounded(self, value: u64) -> String {
        match self {
            Self::Rate => numbers::rate(value),
            Self::Time => numbers::time(value),
            Self::Count => value.to_string(),
            Self::Bytes => numbers::bytes(value),
            Self::Share => numbers::share(Probability::from_parts(value).as_f64()),
        }
    }

    /// The value, human-readable and exact.
    pub fn words(self, value: u64) -> String {
        match self {
            Self::Rate => Bandwidth::bits_per_sec(value).to_string(),
            Self::Time => Duration::from_nanos(value).to_string(),
            Self::Count => value.to_string(),
            Self::Bytes => Bytes::new(value).to_string(),
            Self::Share => Probability::from_parts(value).to_string(),
        }
    }
}

impl Metric {
    /// Whether the connections that pass show it, and nothing else does.
    pub const fn is_experience(self) -> bool {
        matches!(
            self,
            Self::RoundTripP50
                | Self::RoundTripP99
                | Self::Repeated
                | Self::RoundTripsAMinute
                | Self::QualityCall
                | Self::QualityGame
                | Self::QualityPage
        )
    }

    /// Whether it is of playing video.
    pub const fn is_playback(self) -> bool {
        matches!(
            self,
            Self::Bitrate | Self::Switches | Self::Stalls | Self::Stalled | Self::Startup
        )
    }

    /// The unit of the metric.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Rate | Self::Bitrate => Unit::Rate,
            Self::Share | Self::Load | Self::Jain | Self::InForce | Self::Repeated => Unit::Share,
            Self::DelayMean | Self::DelayP50 | Self::DelayP99 | Self::DelayMax => Unit::Time,
            Self::RoundTripP50 | Self::RoundTripP99 | Self::Stalled | Self::Startup => Unit::Time,
            Self::Packets | Self::Drops | Self::Marks | Self::Retransmissions | Self::Timeouts => Unit::Count,
            Self::Switches | Self::Stalls => Unit::Count,
            Self::RoundTripsAMinute | Self::QualityCall | Self::QualityGame | Self::QualityPage => {
                Unit::Count
            }
            Self::BacklogMax | Self::BacklogP99 | Self::Borrowed => Unit::Bytes,
        }
    }
}

/// A bound as written; the metric determines its unit.
#[derive(Clone, PartialEq, Debug)]
pub struct ExpectedAmount(Raw);

impl SettingValue for ExpectedAmount {
    const UNIT: &'static str = "an amount in the metric's unit";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        Ok(Self(raw.clone()))
    }
}

/// What a value is to be within, in its metric's smallest unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// The lower bound.
    pub at_least: Option<u64>,
    /// The upper bound.
    pub at_most: Option<u64>,
}

impl Bounds {
    /// Reads the bounds of a section: `at_least` and `at_most`, as `written`, or `within`.
    pub fn read(
        metric: Metric,
        written: [Option<&ExpectedAmount>; 2],
        section: &Section<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let before = problems.len();
        let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
        let mut bound =
            |bound: Option<&ExpectedAmount>, key: &str| amount(metric, &bound?.0, at(key), problems);
        let mut bounds = Self {
            at_least: bound(written[0], "at_least"),
            at_most: bound(written[1], "at_most"),
        };
        let within = section.get("within");
        match within.map(|pair| (pair, pair.value.items().filter(|items| items.len() == 2))) {
            Some((pair, None)) => {
                let unit = metric.unit().example();
                let expected = format!("`within`: expected a list of two bounds, each {unit}");
                problems.push(pair.value.wrong(&expected));
            }
            Some((pair, Some(_))) if written.iter().any(Option::is_some) => {
                let problem = Problem::new(
                    pair.key_at,
                    "`within` and `at_least` or `at_most` exclude each other",
                );
                problems.push(problem.help("keep one of them"));
            }
            Some((_, Some(items))) => {
                let mut item = |of: usize| amount(metric, &items[of].raw(), items[of].at, problems);
                (bounds.at_least, bounds.at_most) = (item(0), item(1));
            }
            None if written.iter().all(Option::is_none) => {
                let problem = Problem::new(section.at, "a bound is missing: this expectation is always met");
                problems.push(problem.help("write `at_least`, `at_most`, or `within` with two bounds"));
            }
            None => {}
        }
        if bounds
            .at_least
            .zip(bounds.at_most)
            .is_some_and(|(least, most)| least > most)
        {
            let key = if within.is_some() { "within" } else { "at_most" };
            problems.push(Problem::new(
                at(key),
                "the bounds are in the wrong order: the first must not be greater than the second",
            ));
        }
        (problems.len() == before).then_some(bounds)
    }

    /// Whether the value is within.
    pub fn has(&self, value: u64) -> bool {
        self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most)
    }

    /// In words.
    pub fn words(&self, unit: Unit) -> String {
        let words = |value| unit.words(value);
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least == most => format!("exactly {}", words(least)),
            (Some(least), Some(most)) => format!("{} to {}", words(least), words(most)),
            (Some(least), None) => format!("at least {}", words(least)),
            (None, Some(most)) => format!("at most {}", words(most)),
            (None, None) => String::new(),
        }
    }
}

fn amount(metric: Metric, raw: &Raw, at: Span, problems: &mut Vec<Problem>) -> Option<u64> {
    let read = metric.unit().read(raw).map_err(|why| {
        problems.push(Problem::new(at, format!("`{}`: {why}", metric.name())));
    });
    read.ok()
}

settings! {
    /// What a running policy is expected to keep: `[[interface.wan0.expect]]`.
    pub struct WatchSettings {
        /// The class that is measured
        class: String = derived "all packets of the interface", "", "";
        /// The metric: rate, share, load, delay-mean, delay-p50, delay-p99, delay-max, packets,
        /// drops or marks; with `experience` also round-trip-p50, round-trip-p99, repeated, rpm,
        /// quality-call, quality-game or quality-page
        metric: Metric = required, "", "";
        /// The time over which it is measured, and measured anew
        over: Duration = default "10 s", "1 s to 1 h", "";
        /// The lower bound; of a rate or share it is judged while the class has more to send
        at_least: ExpectedAmount = derived "none", "", "";
        /// The upper bound
        at_most: ExpectedAmount = derived "none", "", "";
    }
}

/// An expectation of a running policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchedExpectation {
    /// The class; without it all packets of the interface.
    pub class: Option<String>,
    /// What is measured.
    pub metric: Metric,
    /// The time over which it is measured.
    pub over: Duration,
    /// What it is to be within.
    pub bounds: Bounds,
}

/// How an expectation of a running policy stands, by the last time `over` that has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExpectationView {
    /// What is measured, in words.
    pub what: String,
    /// What it is to be within, in words.
    pub expected: String,
    /// What was measured, in words; `None` if there was nothing to measure, such as a delay without
    /// packets, and until the first time has ended.
    pub measured: Option<String>,
    /// The same in `unit`.
    pub value: Option<u64>,
    /// `bit/s`, `ns`, `1/2^32`, or nothing for counts.
    pub unit: String,
    /// Whether it is met, or has nothing to be judged by.
    pub met: bool,
    /// Of a delay: what the host held packets up for; absent if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_up: Option<HeldUpView>,
}

/// How hold-ups of the host are counted apart where a delay is judged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeldUpView {
    /// Packets that were held up.
    pub packets: u64,
    /// By how much, at most.
    pub longest_ns: u64,
    /// What was measured with that, in words.
    pub measured: String,
    /// The same in nanoseconds.
    pub value: u64,
    /// Whether it is judged without that. It is not if too many packets were held up: then what was
    /// measured is judged.
    pub apart: bool,
}

impl fmt::Display for HeldUpView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            packets, measured, ..
        } = self;
        let longest = Duration::from_nanos(self.longest_ns);
        match self.apart {
            true => write!(
                f,
                "{measured} with {packets} packets that the host held up, by up to {longest}"
            ),
            false => write!(
                f,
                "with {packets} packets that the host held up, by up to {longest}: too many to judge without them"
            ),
        }
    }
}

impl fmt::Display for ExpectationView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = self.measured.as_deref().unwrap_or("nothing to judge by");
        write!(
            f,
            "{}: expected {}, measured {measured}",
            self.what, self.expected
        )?;
        match &self.held_up {
            Some(held_up) => write!(f, "; {held_up}"),
            None => Ok(()),
        }
    }
}

/// Reads an expectation of an interface.
pub(crate) fn read(
    section: &Section<'_>,
    plan: Option<&TreePlan>,
    experience: ExperienceSetting,
    problems: &mut Vec<Problem>,
) -> Option<WatchedExpectation> {
    let before = problems.len();
    let settings = WatchSettings::read(&section.table(|_| true), &["within"], problems)?;
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    let written = [settings.at_least.as_ref(), settings.at_most.as_ref()];
    let bounds = Bounds::read(settings.metric, written, section, problems);
    if let (Some(name), Some(plan)) = (&settings.class, plan)
        && plan.class(name).is_none()
    {
        let names = plan.classes.iter().map(|class| class.name.as_str());
        problems.push(unknown("class", name, at("class"), names));
    }
    if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&settings.over) {
        problems.push(Problem::new(at("over"), "`over` must be from 1 s to 1 h"));
    }
    if let Err(help) = is_measured(settings.metric, settings.class.is_some()) {
        let message = format!(
            "`{}` is not measured here of a running policy",
            settings.metric.name()
        );
        problems.push(Problem::new(at("metric"), message).help(help));
    }
    if settings.metric.is_experience() && experience == ExperienceSetting::Off {
        let message = format!("`{}` is not measured of this interface", settings.metric.name());
        let help = "write `experience = \"classes\"` beside its `bandwidth`";
        problems.push(Problem::new(at("metric"), message).help(help));
    }
    (problems.len() == before).then_some(WatchedExpectation {
        class: settings.class,
        metric: settings.metric,
        over: settings.over,
        bounds: bounds?,
    })
}

/// Whether two readings of the counters tell this metric; if not, what to write instead.
fn is_measured(metric: Metric, of_class: bool) -> Result<(), &'static str> {
    use Metric as M;
    match metric {
        M::Rate
        | M::DelayMean
        | M::DelayP50
        | M::DelayP99
        | M::DelayMax
        | M::Packets
        | M::Drops
        | M::Marks
        | M::RoundTripP50
        | M::RoundTripP99
        | M::Repeated
        | M::RoundTripsAMinute
        | M::QualityCall
        | M::QualityGame
        | M::QualityPage => Ok(()),
        M::Share if of_class => Ok(()),
        M::Share => Err("name a `class`, or take `load`"),
        M::Load if !of_class => Ok(()),
        M::Load => Err("leave out `class`, or take `share`"),
        M::BacklogMax | M::BacklogP99 => {
            Err("counters do not tell the longest queue; take `delay-max` or `delay-p99`")
        }
        M::Borrowed => Err("take `rate`; `status` shows what a class has borrowed"),
        M::Bitrate | M::Switches | M::Stalls | M::Stalled | M::Startup => {
            Err("a scenario with a flow of `kind = \"video\"` has it")
        }
        M::Retransmissions | M::Timeouts | M::Jain | M::InForce => Err(
            "a scenario has it, in `sim` and `lab`; here take rate, share, load, a delay, packets, drops or marks",
        ),
    }
}

impl WatchedExpectation {
    /// What is measured, in words.
    pub fn what(&self) -> String {
        let of = self
            .class
            .as_ref()
            .map_or("all".into(), |class| format!("class {class}"));
        format!("{of}: {} over {}", self.metric.name(), self.over)
    }

    /// As it stands before the first time has ended.
    pub fn not_judged(&self) -> ExpectationView {
        let unit = self.metric.unit();
        ExpectationView {
            what: self.what(),
            expected: self.bounds.words(unit),
            measured: None,
            value: None,
            unit: unit.name().into(),
            met: true,
            held_up: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use engine::tree::Registry;

    fn policy(expect: &str) -> Result<Vec<WatchedExpectation>, String> {
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"drr\"\n\
             [[interface.wan0.class]]\nname = \"calls\"\ndefault = true\n[[interface.wan0.expect]]\n{expect}\n"
        );
        let read = Policy::read("test.toml", &text, &Registry::builtin(), &[]);
        read.map(|policy| policy.interfaces[0].expectations.to_vec())
            .map_err(|mistakes| mistakes.render(false))
    }

    #[test]
    fn a_mistake_says_what_to_write() {
        for (expect, told) in [
            ("metric = \"rate\"", "a bound is missing"),
            ("metric = \"rate\"\nat_most = 5", "`rate`: expected a rate"),
            ("metric = \"rate\"\nat_most = \"5 ms\"", "`rate`: "),
            ("metric = \"jain\"\nat_least = \"90 %\"", "a scenario has it"),
            (
                "metric = \"backlog-max\"\nat_most = \"90 kB\"",
                "take `delay-max`",
            ),
            ("metric = \"share\"\nat_most = \"90 %\"", "name a `class`"),
            (
                "class = \"calls\"\nmetric = \"load\"\nat_most = \"90 %\"",
                "take `share`",
            ),
            (
                "class = \"call\"\nmetric = \"rate\"\nat_most = \"1 Mbit/s\"",
                "calls",
            ),
            (
                "metric = \"rate\"\nover = \"0 s\"\nat_most = \"1 Mbit/s\"",
                "from 1 s to 1 h",
            ),
            (
                "metric = \"rate\"\nover = \"2 h\"\nat_most = \"1 Mbit/s\"",
                "from 1 s to 1 h",
            ),
            (
                "metric = \"rate\"\nwithin = [\"2 Mbit/s\", \"1 Mbit/s\"]",
                "wrong order",
            ),
            ("metric = \"drops\"\nwithin = [1]", "a list of two bounds"),
            ("metric = \"drops\"\nat_most = -1", "a whole number"),
            (
                "metric = \"round-trip-p50\"\nat_most = \"50 ms\"",
                "write `experience = \"classes\"`",
            ),
            (
                "flow = \"x\"\nmetric = \"drops\"\nat_most = 1",
                "unknown setting `flow`",
            ),
        ] {
            let mistakes = policy(expect).expect_err(expect);
            assert!(mistakes.contains(told), "{expect}: {mistakes}");
        }
    }

    #[test]
    fn bounds_are_told_in_words() {
        for (at_least, at_most, words) in [
            (Some(5), Some(5), "exactly 5"),
            (Some(5), Some(6), "5 to 6"),
            (Some(5), None, "at least 5"),
            (None, Some(6), "at most 6"),
            (None, None, ""),
        ] {
            let bounds = Bounds { at_least, at_most };
            assert_eq!(bounds.words(Unit::Count), words);
        }
    }
}
