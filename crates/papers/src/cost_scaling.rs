//! A3: the cost per packet as the numbers of filters and classes grow (Cho 1999, section 5.1.3,
//! Fig. 4).
//!
//! ALTQ's classifier looked up filters with a destination in a hash table and scanned the others,
//! the wildcard filters, linearly. Such a list is measured beside the engine's classifier, to
//! reproduce the paper's line.

use super::cost_engine::{self, Contender, Effort};
use super::cost_treatments::{SEED, Treatment};
use super::cost_wire::LabWire;
use super::rounds::{self, Rounds};
use super::{ChartFile, Experiment, ExperimentOutcome, Options, Progress, Row, RowValue};
use crate::Error;
use engine::classify::{Filter, Ports, Prefix};
use engine::header::{FlowHasher, Headers};
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::units::{Bandwidth, Bytes};
use netio::classify::Classify;
use plot::{self, Axis, AxisUnit, Plot, Series};
use std::net::Ipv4Addr;

/// The experiment.
pub const A3: Experiment = Experiment {
    id: "A3",
    title: "Latency that 0 to 100 filters and classes add to a packet",
    reference: "Cho, \"Traffic management by alternate queueing\", 1999, section 5.1.3, Fig. 4",
    run,
};

/// The paper's ATM link: 135 Mbit/s of IP, MTU 9180.
const LINK: Link = Link::new(Bandwidth::mbit(135), Bytes::new(9_194));

/// The greatest number of each.
const MOST: u32 = 100;

/// A cost is flat if a hundred more raise it by at most this fraction of CBQ's cost with none.
const FLAT: f64 = 0.5;

/// The number that grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Curve {
    /// Filters without a destination, in a linear list.
    List,
    /// Filters without a destination.
    Wildcard,
    /// Filters with a destination.
    Fixed,
    /// Classes; one has traffic.
    Classes,
}

const CURVES: [Curve; 4] = [Curve::List, Curve::Wildcard, Curve::Fixed, Curve::Classes];

impl Curve {
    fn name(self) -> &'static str {
        match self {
            Self::List => "wildcard filters in the paper's list",
            Self::Wildcard => "wildcard filters",
            Self::Fixed => "fixed filters",
            Self::Classes => "classes",
        }
    }

    /// CBQ with this many of them besides the class of the packets and its filter.
    fn treatment(self, n: u32) -> Treatment {
        match self {
            Self::List | Self::Wildcard => Treatment::cbq(LINK).with_filters((0..n).map(wildcard)),
            Self::Fixed => Treatment::cbq(LINK).with_filters((0..n).map(fixed)),
            Self::Classes => Treatment::cbq_classes(LINK, n.max(1)),
        }
    }

    fn contender(self, n: u32) -> Contender {
        let treatment = self.treatment(n);
        match self {
            Self::List => {
                let filters = treatment.filters.clone().unwrap_or_default();
                Contender::classified(&treatment, Some(Box::new(List::new(filters))))
            }
            _ => Contender::by(&treatment),
        }
    }
}

/// A filter without a destination that matches none of the packets; some have a port, some a range.
fn wildcard(n: u32) -> Filter {
    let length = 12 + (n % 21) as u8;
    let source = Ipv4Addr::from(0xac10_0000 + (n << 12));
    let port = 6_000 + n as u16;
    Filter {
        source: prefix(source, length),
        protocol: Some(17),
        destination_port: match n % 3 {
            0 => None,
            1 => Some(Ports::one(port)),
            _ => Ports::new(port, port + 15),
        },
        ..Filter::new(ClassId(1))
    }
}

/// A filter with a destination that matches none of the packets.
fn fixed(n: u32) -> Filter {
    Filter {
        destination: prefix(Ipv4Addr::from(0x0ac8_0001 + n), 32),
        protocol: Some(17),
        destination_port: Some(Ports::one(6_000 + n as u16)),
        ..Filter::new(ClassId(1))
    }
}

fn prefix(address: Ipv4Addr, length: u8) -> Option<Prefix> {
    let mask = u32::MAX << (32 - u32::from(length));
    Prefix::new(Ipv4Addr::from(u32::from(address) & mask).into(), length)
}

/// The paper's wildcard list: scanned from the latest filter until one matches.
#[derive(Debug)]
struct List {
    filters: Vec<Filter>,
    hasher: FlowHasher,
}

impl List {
    fn new(mut filters: Vec<Filter>) -> Self {
        filters.reverse();
        Self {
            filters,
            hasher: FlowHasher::new(SEED),
        }
    }
}

impl Classify for List {
    fn classify(&mut self, headers: &Headers, packet: &mut Packet) {
        let matching = self.filters.iter().find(|filter| filter.matches(&headers.key));
        packet.class = matching.map_or(ClassId(0), |filter| filter.class);
        packet.flow = self.hasher.flow(&headers.key);
    }
}

/// Numbers, each with its cost above FIFO's in ns.
type Points = Vec<(u32, f64)>;

fn run(options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let mut outcome = ExperimentOutcome::default();
    progress.show(0.0, "in the engine");
    let step = if options.quick { 25 } else { 10 };
    let curves = in_engine(step, Effort::of(options.quick));
    outcome.rows = engine_rows(&curves);
    for (index, curve) in CURVES.iter().enumerate().skip(1) {
        let what = format!("100 {}, through the port", curve.name());
        let row = match &options.lab {
            Err(why) => Row::unmeasured(what, RowValue::Nothing, "µs", why),
            Ok(()) => {
                progress.show(0.4 + index as f64 * 0.15, &what);
                let rounds = through_port(*curve, if options.quick { 40 } else { 300 }, 50)?;
                port_row(what, *curve, &rounds)
            }
        };
        outcome.rows.push(row);
    }
    outcome.charts = vec![chart(&curves)];
    outcome.remarks = REMARKS.map(String::from).to_vec();
    Ok(outcome)
}

const REMARKS: [&str; 3] = [
    "In the engine: parse the headers, choose the class, one packet of 106 bytes in and out with CBQ, \
     minus one packet in and out with FIFO; all curves and points in turns. Only one filter matches the \
     packet, and it comes last. Only the first class has traffic.",
    "Our copy of the paper lacks the figure; its text says linear for wildcard filters, and flat for the \
     others. The linear list behind that result is measured beside our classifier, which finds a packet's \
     filter by hash tables, one for each shape of filter, so the number of filters hardly matters.",
    "Through the port: round trips of 64 bytes between two hosts of a lab, through CBQ with a hundred of \
     them, minus the same with none, in turns.",
];

/// The points of each curve.
fn in_engine(step: u32, effort: Effort) -> Vec<Points> {
    let numbers: Vec<u32> = (0..=MOST).step_by(step as usize).collect();
    let mut contenders = vec![Contender::by(&Treatment::fifo(LINK))];
    for curve in CURVES {
        contenders.extend(numbers.iter().map(|&n| curve.contender(n)));
    }
    let rounds = cost_engine::measure(&mut contenders, &cost_engine::frame(64), effort);
    let points = |curve: usize| {
        let first = 1 + curve * numbers.len();
        let point = |(index, &n): (usize, &u32)| (n, rounds.more(first + index, 0));
        numbers.iter().enumerate().map(point).collect()
    };
    (0..CURVES.len()).map(points).collect()
}

/// The chart of the curves.
fn chart(curves: &[Points]) -> ChartFile {
    let series = CURVES.iter().zip(curves).map(|(curve, points)| {
        let points = points.iter().map(|&(n, ns)| (f64::from(n), ns * 1e-9));
        Series::marked(curve.name(), points.collect())
    });
    let plot = Plot {
        title: "Cost of CBQ above FIFO, per packet".into(),
        x: Axis::new("number", AxisUnit::Number("")),
        y: Axis::new("time", AxisUnit::Time),
        series: series.collect(),
        ..Plot::default()
    };
    ChartFile {
        name: "curves".into(),
        svg: plot::picture("Cost by number of filters and classes", &[plot]),
    }
}

/// The cost at the first and at the last point.
fn ends(points: &Points) -> (f64, f64) {
    let cost = |point: Option<&(u32, f64)>| point.map_or(f64::NAN, |point| point.1);
    (cost(points.first()), cost(points.last()))
}

fn engine_rows(curves: &[Points]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (curve, points) in CURVES.iter().zip(curves) {
        let (none, all) = ends(points);
        let growth = all - none;
        let linear = *curve == Curve::List;
        rows.push(Row {
            what: format!("100 {}, in the engine", curve.name()),
            paper: match curve {
                Curve::List | Curve::Wildcard => "linear",
                Curve::Fixed | Curve::Classes => "flat",
            }
            .into(),
            ours: growth.into(),
            unit: "ns".into(),
            verdict: match linear {
                true => is_linear(points),
                false => growth <= FLAT * none,
            }
            .into(),
            note: if linear {
                "The cost of a hundred. Required: linear, as in the paper: no point deviates from the line \
                 between the ends by more than a fifth of its height."
            } else {
                "The cost of a hundred. Required: flat, that is at most half of CBQ's cost with none."
            }
            .into(),
        });
        if *curve == Curve::Wildcard {
            rows.push(Row {
                what: "CBQ with three classes and no additional filters, in the engine".into(),
                paper: (10.0 * 1e3).into(),
                ours: none.into(),
                unit: "ns".into(),
                verdict: (10.0..=10.0 * 1e3).contains(&none).into(),
                note: "The curves begin here. Required: at most the paper's (about 10 µs, Table 2), and at \
                    least 10 ns."
                    .into(),
            });
        }
    }
    rows
}

/// Returns whether it rises and the points lie on the line between the ends.
fn is_linear(points: &Points) -> bool {
    let (none, all) = ends(points);
    let growth = all - none;
    let on_line = |&(n, cost): &(u32, f64)| {
        let line = none + growth * f64::from(n) / f64::from(MOST);
        (cost - line).abs() <= growth / 5.0
    };
    growth > FLAT * none && points.iter().all(on_line)
}

/// Per round, in µs: with none, with a hundred.
fn through_port(curve: Curve, turns: usize, count: usize) -> Result<Rounds, Error> {
    let treatments = [curve.treatment(0), curve.treatment(MOST)];
    let wire = LabWire::new(LINK, None)?;
    let pair = wire.pair()?;
    let mut rounds = Rounds::default();
    for turn in 0..turns {
        let mut round = [f64::NAN; 2];
        for index in [turn % 2, 1 - turn % 2] {
            wire.take(Some(&treatments[index]))?;
            round[index] = pair.round_trip(count, 64, 64)?;
        }
        rounds.push(round.to_vec());
    }
    Ok(rounds)
}

fn port_row(what: String, curve: Curve, rounds: &Rounds) -> Row {
    let (ours, doubt) = (rounds.more(1, 0), rounds.doubt(1, 0));
    Row {
        what,
        paper: if curve == Curve::Wildcard {
            "linear"
        } else {
            "flat"
        }
        .into(),
        ours: ours.into(),
        unit: "µs".into(),
        verdict: rounds::at_most(ours, doubt, rounds.of(0) / 20.0),
        note: format!(
            "The cost of a hundred. Required: at most a twentieth of the round trip, {:.2} µs, and not less than \
             nothing, by all of the scatter of the rounds, ± {doubt:.2} µs here. It cannot be shown where the scatter \
             decides.",
            rounds.of(0) / 20.0
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_the_engine_choose_the_same_class_whatever_the_number() {
        let frame = cost_engine::frame(64);
        let headers = Headers::parse(&frame, 0);
        for n in [0, 1, 20, MOST] {
            for curve in CURVES {
                let treatment = curve.treatment(n);
                let mut packet = Packet::new(Bytes::new(106), engine::units::Instant::START, ClassId(9));
                treatment.classify().classify(&headers, &mut packet);
                let flow = packet.flow;
                assert_eq!(packet.class, ClassId(0), "{curve:?} {n}");
                List::new(treatment.filters.unwrap_or_default()).classify(&headers, &mut packet);
                assert_eq!((packet.class, packet.flow), (ClassId(0), flow), "{curve:?} {n}");
            }
        }
        assert_eq!(Curve::Classes.treatment(MOST).plan.classes.len(), MOST as usize);
        assert_eq!(
            Curve::Wildcard.treatment(MOST).filters.map(|f| f.len()),
            Some(MOST as usize + 2)
        );
    }

    #[test]
    fn a_curve_is_judged_linear_or_flat() {
        let points = |at: fn(f64) -> f64| {
            (0..=4)
                .map(|n| (n * 25, at(f64::from(n) * 25.0)))
                .collect::<Points>()
        };
        let curves = [
            points(|n| 80.0 + 3.0 * n),
            points(|_| 81.0),
            points(|_| 79.0),
            points(|n| 80.0 + 0.1 * n),
        ];
        assert!(engine_rows(&curves).iter().all(|row| row.is_shown()));
        let wrong = [
            points(|_| 80.0),
            points(|n| 80.0 + n),
            points(|n| 80.0 + n),
            points(|n| 80.0 + n),
        ];
        let holds: Vec<bool> = engine_rows(&wrong).iter().map(|row| row.is_shown()).collect();
        assert_eq!(holds, [false, false, true, false, false]);
    }

    #[test]
    fn every_point_of_every_curve_is_measured() {
        let effort = Effort { rounds: 2, steps: 20 };
        let curves = in_engine(50, effort);
        assert_eq!(curves.len(), CURVES.len());
        for points in curves {
            assert_eq!(
                points.iter().map(|point| point.0).collect::<Vec<_>>(),
                [0, 50, 100]
            );
            assert!(points.iter().all(|point| point.1.is_finite()));
        }
    }

    #[test]
    fn packets_pass_with_none_and_with_a_hundred() {
        lab::isolated(|| {
            for curve in [Curve::Wildcard, Curve::Fixed, Curve::Classes] {
                let rounds = through_port(curve, 2, 3).expect("answers");
                assert!(rounds.of(0) > 0.0 && rounds.of(1) > 0.0);
            }
        });
    }
}
