//! The expectations of a scenario: subject, metric, time window and bounds. An expectation that can
//! never be measured is a mistake.

use super::Named;
use crate::sources::{MeasuredDelays, Transport};
use control::expectations::{Bounds, ExpectedAmount, Metric, Unit};
use control::sections::Section;
use engine::packet::ClassId;
use engine::settings;
use engine::settings::{Problem, unknown};
use engine::units::{Duration, Instant};

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
        at_least: ExpectedAmount = derived "", "", "";
        /// The upper bound
        at_most: ExpectedAmount = derived "", "", "";
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
    /// What it is to be within, in the metric's smallest unit.
    pub bounds: Bounds,
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
    let written = [settings.at_least.as_ref(), settings.at_most.as_ref()];
    let bounds = Bounds::read(settings.metric, written, section, problems);
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
        bounds: bounds.unwrap_or_default(),
    })
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

/// Whether the metric can be measured for this type of subject.
fn is_measured(metric: Metric, subject: &Subject) -> bool {
    use Metric as M;
    let delay = matches!(metric, M::DelayMean | M::DelayP50 | M::DelayP99 | M::DelayMax);
    let counted = matches!(
        metric,
        M::Rate | M::Packets | M::Drops | M::Marks | M::BacklogMax | M::BacklogP99
    );
    match subject {
        Subject::Class { .. } => delay || counted || matches!(metric, M::Share | M::Borrowed),
        Subject::Link(_) => delay || counted || metric == M::Load,
        Subject::Flow(_) => {
            let of_tcp = matches!(metric, M::Retransmissions | M::Timeouts);
            delay
                || of_tcp
                || matches!(metric, M::Rate | M::Share | M::Packets | M::Jain)
                || metric.is_playback()
        }
        Subject::All => matches!(metric, M::Rate | M::Jain),
        Subject::Reservation(_) => metric == M::InForce,
    }
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
    if !is_measured(metric, subject) {
        let of = |other: &Subject, what| is_measured(metric, other).then_some(what);
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
        let help = match metric.is_experience() {
            true => "it is measured where a policy runs; take a delay, or `retransmissions` of a flow".into(),
            false => format!("it is measured of: {}", others.join(", ")),
        };
        problems.push(Problem::new(at, message).help(help));
        return;
    }
    let why = match (metric, subject) {
        (Metric::Borrowed, Subject::Class { direction, class }) if !named.lends(*direction, *class) => {
            ("its discipline does not lend", "leave it out")
        }
        (Metric::Retransmissions | Metric::Timeouts, Subject::Flow(flow))
            if named.flows[*flow].settings.kind.transport == Transport::Udp =>
        {
            ("it is neither TCP nor QUIC", "leave it out")
        }
        (metric, Subject::Flow(flow)) if metric.is_playback() => {
            if named.flows[*flow].source.plays() {
                return;
            }
            ("it plays no video", "name a flow of `kind = \"video\"`")
        }
        (_, Subject::Flow(flow))
            if metric.unit() == Unit::Time
                && named.flows[*flow].source.delays() == MeasuredDelays::Unmeasured =>
        {
            (
                "its receiver does not measure it",
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
