//! The expectations of a scenario: subject, metric, time window and bounds. An expectation that can
//! never be measured is a mistake.

use super::Named;
use crate::sources::Transport;
use control::sections::Section;
use engine::packet::ClassId;
use engine::settings::{Problem, Raw, SettingValue, Span, describe, unknown};
use engine::units::{Bandwidth, Bytes, Duration, Instant, Probability};
use engine::{choices, settings};

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
    /// The unit of the metric.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Rate => Unit::Rate,
            Self::Share | Self::Load | Self::Jain | Self::InForce => Unit::Share,
            Self::DelayMean | Self::DelayP50 | Self::DelayP99 | Self::DelayMax => Unit::Time,
            Self::Packets | Self::Drops | Self::Marks | Self::Retransmissions | Self::Timeouts => Unit::Count,
            Self::BacklogMax | Self::BacklogP99 | Self::Borrowed => Unit::Bytes,
        }
    }

    /// Whether it can be measured for this type of subject.
    fn of(self, subject: &Subject) -> bool {
        use Metric as M;
        let delay = matches!(self, M::DelayMean | M::DelayP50 | M::DelayP99 | M::DelayMax);
        let counted = matches!(
            self,
            M::Rate | M::Packets | M::Drops | M::Marks | M::BacklogMax | M::BacklogP99
        );
        match subject {
            Subject::Class { .. } => delay || counted || matches!(self, M::Share | M::Borrowed),
            Subject::Link(_) => delay || counted || self == M::Load,
            Subject::Flow(_) => {
                let of_tcp = matches!(self, M::Retransmissions | M::Timeouts);
                delay || of_tcp || matches!(self, M::Rate | M::Share | M::Packets | M::Jain)
            }
            Subject::All => matches!(self, M::Rate | M::Jain),
            Subject::Reservation(_) => self == M::InForce,
        }
    }
}

/// A bound as written in the scenario; the metric determines its unit.
#[derive(Clone, PartialEq, Debug)]
pub struct ExpectedRange(Raw);

impl SettingValue for ExpectedRange {
    const UNIT: &'static str = "an amount in the metric's unit";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        Ok(Self(raw.clone()))
    }
}

settings! {
    /// The settings of an expectation.
    pub struct ExpectSettings {
        /// The class that is measured
        class: String = derived "", "", "";
        /// The flow that is measured
        flow: String = derived "", "", "";
        /// The reservation that is measured
        reserve: String = derived "", "", "";
        /// The link that is measured, such as "server > home"; with `class`, the link of the class,
        /// if several have a class of this name
        link: String = derived "", "", "";
        /// The metric
        metric: Metric = required, "", "";
        /// The start of the time window
        from: Duration = default "0 s", "", "";
        /// The end of the time window
        to: Duration = derived "the end of the scenario", "", "";
        /// The lower bound
        at_least: ExpectedRange = derived "", "", "";
        /// The upper bound
        at_most: ExpectedRange = derived "", "", "";
    }
}

/// The subject of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A class of the policy at one end of a link.
    Class {
        /// The index of the direction.
        direction: usize,
        /// The class.
        class: ClassId,
    },
    /// A link in one direction, by its index.
    Link(usize),
    /// A flow with all its copies, by its index.
    Flow(usize),
    /// All flows.
    All,
    /// A reservation, by its index.
    Reservation(usize),
}

/// A checked expectation.
#[derive(Clone, PartialEq, Debug)]
pub struct Expectation {
    /// Its description.
    pub what: String,
    /// The subject.
    pub subject: Subject,
    /// The metric.
    pub metric: Metric,
    /// The start of the time window.
    pub from: Instant,
    /// The end of the time window.
    pub to: Instant,
    /// The lower bound, in the metric's smallest unit.
    pub at_least: Option<u64>,
    /// The upper bound, in the same unit.
    pub at_most: Option<u64>,
}

impl Expectation {
    /// The bounds as text.
    pub fn bounds(&self) -> String {
        let words = |value| self.metric.unit().words(value);
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least == most => format!("exactly {}", words(least)),
            (Some(least), Some(most)) => format!("{} to {}", words(least), words(most)),
            (Some(least), None) => format!("at least {}", words(least)),
            (None, Some(most)) => format!("at most {}", words(most)),
            (None, None) => String::new(),
        }
    }
}

/// Reads an expectation.
pub(super) fn read(
    section: &Section<'_>,
    named: &Named<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Expectation> {
    let before = problems.len();
    let settings = ExpectSettings::read(&section.table(|_| true), &["within"], problems);
    let subject = named.subject(section, problems);
    let settings = settings?;
    let window = window(&settings, section, named.duration, problems);
    let unit = settings.metric.unit();
    let mut bound = |bound: &Option<ExpectedRange>, key: &str| {
        let raw = &bound.as_ref()?.0;
        let at = section.get(key).map_or(section.at, |pair| pair.value.at);
        amount(unit, settings.metric, raw, at, problems)
    };
    let (mut at_least, mut at_most) = (
        bound(&settings.at_least, "at_least"),
        bound(&settings.at_most, "at_most"),
    );
    if let Some(pair) = section.get("within") {
        let items = pair.value.items().filter(|items| items.len() == 2);
        match items {
            None => {
                let expected = format!("`within`: expected a list of two bounds, each {}", unit.example());
                problems.push(pair.value.wrong(&expected));
            }
            Some(_) if settings.at_least.is_some() || settings.at_most.is_some() => {
                let problem = Problem::new(
                    pair.key_at,
                    "`within` and `at_least` or `at_most` exclude each other",
                );
                problems.push(problem.help("keep one of them"));
            }
            Some(items) => {
                let bounds = items
                    .iter()
                    .map(|item| amount(unit, settings.metric, &item.raw(), item.at, problems));
                let bounds: Vec<_> = bounds.collect();
                (at_least, at_most) = (bounds[0], bounds[1]);
            }
        }
    } else if settings.at_least.is_none() && settings.at_most.is_none() {
        let problem = Problem::new(section.at, "a bound is missing: this expectation is always met");
        problems.push(problem.help("write `at_least`, `at_most`, or `within` with two bounds"));
    }
    if at_least.zip(at_most).is_some_and(|(least, most)| least > most) {
        let key = if section.get("within").is_some() {
            "within"
        } else {
            "at_most"
        };
        let at = section.get(key).map_or(section.at, |pair| pair.value.at);
        problems.push(Problem::new(
            at,
            "the bounds are in the wrong order: the first must not be greater than the second",
        ));
    }
    let ((subject, words), (from, to)) = (subject?, window?);
    measurable(settings.metric, &subject, &words, section, named, problems);
    let span =
        (from > Instant::START || to < Instant::START + named.duration).then(|| format!(", {from} to {to}"));
    (problems.len() == before).then(|| Expectation {
        what: format!("{words}: {}{}", settings.metric.name(), span.unwrap_or_default()),
        subject,
        metric: settings.metric,
        from,
        to,
        at_least,
        at_most,
    })
}

fn amount(unit: Unit, metric: Metric, raw: &Raw, at: Span, problems: &mut Vec<Problem>) -> Option<u64> {
    let read = unit.read(raw).map_err(|why| {
        problems.push(Problem::new(at, format!("`{}`: {why}", metric.name())));
    });
    read.ok()
}

fn window(
    settings: &ExpectSettings,
    section: &Section<'_>,
    duration: Duration,
    problems: &mut Vec<Problem>,
) -> Option<(Instant, Instant)> {
    let to = settings.to.unwrap_or(duration);
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    if to > duration || settings.from >= duration {
        let key = if to > duration { "to" } else { "from" };
        let problem = Problem::new(
            at(key),
            format!("this can never be measured: the scenario ends at {duration}"),
        );
        problems.push(problem.help("let the window end earlier, or the scenario last longer"));
        return None;
    }
    if to <= settings.from {
        problems.push(Problem::new(
            at("to"),
            "this can never be measured: the window ends before it begins",
        ));
        return None;
    }
    Some((Instant::START + settings.from, Instant::START + to))
}

/// Refuses a metric that this subject does not have.
fn measurable(
    metric: Metric,
    subject: &Subject,
    words: &str,
    section: &Section<'_>,
    named: &Named<'_>,
    problems: &mut Vec<Problem>,
) {
    let at = section.get("metric").map_or(section.at, |pair| pair.value.at);
    let name = metric.name();
    if !metric.of(subject) {
        let of = |other: &Subject, what| metric.of(other).then_some(what);
        let class = Subject::Class {
            direction: 0,
            class: ClassId(0),
        };
        let others = [
            of(&class, "class"),
            of(&Subject::Link(0), "link"),
            of(&Subject::Flow(0), "flow"),
            of(&Subject::Reservation(0), "reserve"),
            of(&Subject::All, "neither: all flows"),
        ];
        let others: Vec<&str> = others.into_iter().flatten().collect();
        let message = format!("`{name}` can never be measured of {words}");
        problems.push(Problem::new(at, message).help(format!("it is measured of: {}", others.join(", "))));
        return;
    }
    let why = match (metric, subject) {
        (Metric::Borrowed, Subject::Class { direction, class }) if !named.lends(*direction, *class) => {
            ("its discipline does not lend", "leave it out")
        }
        (Metric::Retransmissions | Metric::Timeouts, Subject::Flow(flow))
            if named.flows[*flow].settings.kind.transport != Transport::Tcp =>
        {
            ("it is not TCP", "leave it out")
        }
        (_, Subject::Flow(flow))
            if metric.unit() == Unit::Time && !named.flows[*flow].source.measures_delays() =>
        {
            (
                "TCP receivers do not measure it",
                "name a class or a link, where packets are queued",
            )
        }
        (Metric::Jain, Subject::Flow(flow)) if named.flows[*flow].settings.count < 2 => (
            "it is one flow",
            "give the flow a `count`, or leave out `flow` to mean all flows",
        ),
        (Metric::Jain, Subject::All)
            if named.flows.iter().map(|flow| flow.settings.count).sum::<u32>() < 2 =>
        {
            ("there is one flow only", "leave it out")
        }
        _ => return,
    };
    let message = format!("`{name}` can never be measured of {words}: {}", why.0);
    problems.push(Problem::new(at, message).help(why.1));
}

impl Named<'_> {
    /// The subject that a section names, and its description.
    fn subject(&self, section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<(Subject, String)> {
        let before = problems.len();
        let class = section.text("class", problems);
        let flow = section.text("flow", problems);
        if problems.len() > before {
            return None;
        }
        if let (Some(_), Some((_, at))) = (class, flow) {
            problems.push(
                Problem::new(at, "`class` and `flow` exclude each other").help("write two expectations"),
            );
            return None;
        }
        if let Some((name, at)) = section.text("reserve", problems) {
            let exclusive = [class, flow, section.text("link", problems)];
            if let Some((_, at)) = exclusive.into_iter().flatten().next() {
                let message = "`reserve` excludes `class`, `flow` and `link`";
                problems.push(Problem::new(at, message).help("write two expectations"));
                return None;
            }
            let found = self.reservations.iter().position(|one| one.name == name);
            if found.is_none() {
                let names = self.reservations.iter().map(|one| one.name.as_str());
                problems.push(unknown("reservation", name, at, names));
            }
            return Some((Subject::Reservation(found?), format!("reservation {name}")));
        }
        if let Some((name, at)) = class {
            let (direction, class) = self.class(name, at, section, problems)?;
            let several = self.directions_with(name).len() > 1;
            let of = if several {
                format!(" of {}", self.directions[direction].name)
            } else {
                String::new()
            };
            return Some((Subject::Class { direction, class }, format!("class {name}{of}")));
        }
        let link = section.text("link", problems);
        if let Some((name, at)) = flow {
            if let Some((_, at)) = link {
                problems.push(Problem::new(
                    at,
                    "`flow` and `link` exclude each other: a flow is measured at its receiver",
                ));
                return None;
            }
            let found = self.flows.iter().position(|flow| flow.name == name);
            if found.is_none() {
                let names = self.flows.iter().map(|flow| flow.name.as_str());
                problems.push(unknown("flow", name, at, names));
            }
            return Some((Subject::Flow(found?), format!("flow {name}")));
        }
        if let Some((name, at)) = link {
            let direction = self.direction(name, at, problems)?;
            return Some((Subject::Link(direction), format!("link {name}")));
        }
        (problems.len() == before).then(|| (Subject::All, "all flows".into()))
    }
}
