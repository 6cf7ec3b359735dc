//! K1: a flow of 37 Mbit/s among disturbers of 10 Mbit/s each, with a reservation of 40 Mbit/s and
//! without (Maeshima, Ito, Ishikura and Asami, "RSVP bandwidth reservation with weighted round
//! robin on a high speed network", section 4.1, Fig. 3).
//!
//! ```text
//!   A ─┐                              ┌─ B
//!      ├─ R1 ══ 100 Mbit/s, policy ═ R2 ─┤      A sends to B, C to D
//!   C ─┘                              └─ D
//! ```
//!
//! The paper calls 1,468 bytes the packet's length, and 37 and 10 Mbit/s the rates of UDP data.
//! With 1,440 bytes of data, so that the IP packet has 1,468, they are 37.3 and 9.8; with 1,468
//! bytes of data they would be 38.0 and 10.0. Both are run.

use super::reserved_sockets::{self, LabCurves};
use super::reserved_streams::{HEADERS, LINK, LinkService, MOST, ON_WIRE, PORT, PacketStream};
use super::testbed::interface;
use super::{
    ChartFile, ClaimVerdict, Experiment, ExperimentOutcome, Options, Progress, Row, RowValue, points,
};
use crate::Error;
use engine::framing::Framing;
use engine::header::{Family, FlowKey};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use plot::bars::{Bar, Bars, Group};
use plot::{Axis, AxisUnit, Plot, Series, picture};
use sim::agent::Agent;
use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::simulation::{End, FlowId, NodeId, Simulation};
use sim::sources::{DatagramSource, Listener, Replay};

/// The experiment.
pub const K1: Experiment = Experiment {
    id: "K1",
    title: "A reserved flow of 37 Mbit/s among disturbers of 10 Mbit/s each, over 100 Mbit/s",
    reference: "Maeshima, Ito, Ishikura and Asami, \"RSVP bandwidth reservation with weighted round robin\", section 4.1, Fig. 3",
    run,
};

/// The hosts' Ethernets here. At the link's own speed C's packets would arrive one by one, in step
/// with departures: each would find a free slot in the full queue, and only A's would be dropped.
/// Clocks and interrupts of real machines blur that.
const FASTER: Bandwidth = Bandwidth::gbit(1);
const SETTLE: u64 = 1;
const SPAN: u64 = 10;

impl PacketStream {
    /// The sending times of a program on a host of the paper's time: at each multiple of the
    /// interval, up to an interval late. Streams in step would meet a full queue always or never.
    fn timing(&self, seed: Seed) -> Replay {
        let (mut rng, interval) = (seed.stream(), self.interval.nanos());
        let count = (SETTLE + SPAN) * 1_000_000_000 / interval + 1;
        let due = (0..count).map(|number| number * interval + rng.below(interval));
        Replay::new(due.map(|at| (Duration::from_nanos(at), self.frame())).collect())
    }

    fn frame(&self) -> Bytes {
        Bytes::new(self.data + HEADERS)
    }
}

/// A trial: R1's discipline and the senders.
#[derive(Clone, Copy, Debug)]
struct Trial {
    discipline: LinkService,
    measured: PacketStream,
    disturber: PacketStream,
    disturbers: u64,
    /// The hosts' Ethernets.
    hosts: Bandwidth,
}

use LinkService::{Drr, Fifo, Polled, Wrr};

impl LinkService {
    fn policy(self) -> String {
        let kind = match self {
            Fifo => "{ kind = \"fifo\", limit = 50 }",
            Wrr => "\"wrr\"",
            Polled => "{ kind = \"wrr\", mode = \"poll\" }",
            Drr => "\"drr\"",
        };
        let head = format!(
            "version = 1\n[interface.c]\nbandwidth = \"100 Mbit/s\"\noverhead = \"{ON_WIRE} B\"\nmax_frame = \"1514 B\"\ndiscipline = {kind}\n"
        );
        if self == Fifo {
            return head;
        }
        let [reserved, rest] = match self {
            Drr => ["weight = 4", "weight = 6"],
            _ => ["rate = \"40 Mbit/s\"", "rate = \"60 Mbit/s\""],
        };
        // The queue of the paper's time.
        let queue = "discipline = { kind = \"fifo\", limit = 50 }\n";
        format!(
            "{head}[[interface.c.class]]\nname = \"reserved\"\n{reserved}\n{queue}\
             [[interface.c.class]]\nname = \"rest\"\n{rest}\ndefault = true\n{queue}\
             [[interface.c.filter]]\nclass = \"reserved\"\nprotocol = \"udp\"\ndestination_port = \"{PORT}\"\n"
        )
    }
}

impl Trial {
    /// Delivered data of the measured flow and of all disturbers, in Mbit/s.
    fn run(&self) -> Result<(f64, f64), Error> {
        let policy = interface(&self.discipline.policy())?;
        let ruled = PolicyQueue {
            plan: policy.plan.clone(),
            filters: policy.filters.to_vec(),
            driver: Driver::default(),
        };
        let mut sim = Simulation::new(Seed(1));
        let [a, b, c, d, r1, r2] = ["a", "b", "c", "d", "r1", "r2"].map(|name| sim.node(name));
        let ethernet = LinkSpec::new(LINK, Duration::from_micros(5)).framing(Framing::ETHERNET);
        let host_ethernet = LinkSpec {
            rate: self.hosts,
            ..ethernet.clone()
        };
        for (host, router) in [(a, r1), (c, r1), (b, r2), (d, r2)] {
            sim.duplex(host, router, &host_ethernet);
        }
        sim.link(r1, r2, ethernet.clone().queue(LinkQueue::Policy(Box::new(ruled))));
        sim.link(r2, r1, ethernet);
        let measured = send(&mut sim, [a, b], PORT, &self.measured)?;
        let disturbers: Vec<FlowId> = (0..self.disturbers)
            .map(|number| send(&mut sim, [c, d], 6_001 + number as u16, &self.disturber))
            .collect::<Result<_, _>>()?;
        let arrived = |sim: &Simulation, flow: &FlowId| sim.delivered(*flow, End::Responder).bytes.get();
        let all = |sim: &Simulation| -> (u64, u64) {
            (
                arrived(sim, &measured),
                disturbers.iter().map(|flow| arrived(sim, flow)).sum(),
            )
        };
        sim.run_until(Instant::START + Duration::from_secs(SETTLE));
        let before = all(&sim);
        sim.run_until(Instant::START + Duration::from_secs(SETTLE + SPAN));
        let after = all(&sim);
        let data = |bytes: u64, stream: &PacketStream| {
            (bytes / stream.frame().get() * stream.data * 8) as f64 / SPAN as f64 / 1e6
        };
        Ok((
            data(after.0 - before.0, &self.measured),
            data(after.1 - before.1, &self.disturber),
        ))
    }

    /// The measured flow's rate if it alone lost, in Mbit/s of data.
    fn left_over(&self) -> f64 {
        let others = self.disturber.on_wire() * self.disturbers as f64;
        let left = (LINK.bits() as f64 / 1e6 - others).max(0.0);
        self.measured.offer() * (left / self.measured.on_wire()).min(1.0)
    }

    /// The measured flow's rate if all streams lost in proportion to their load.
    fn proportional(&self) -> f64 {
        self.measured.in_proportion(&self.disturber, self.disturbers)
    }
}

fn send(sim: &mut Simulation, hosts: [NodeId; 2], port: u16, stream: &PacketStream) -> Result<FlowId, Error> {
    let key = FlowKey {
        family: Family::V4,
        protocol: 17,
        source: 1 + u128::from(port > 6_000),
        destination: 3 + u128::from(port > 6_000),
        source_port: Some(port),
        destination_port: Some(port),
        ..FlowKey::default()
    };
    let ends: [Box<dyn Agent>; 2] = [
        Box::new(DatagramSource::new(
            stream.frame(),
            stream.timing(sim.seed(&format!("port {port}"))),
        )),
        Box::new(Listener::default()),
    ];
    sim.flow(hosts, key, Instant::START, ends)
        .map_err(|e| Error::new(e.to_string()))
}

/// The two readings of the paper's packet length.
const READINGS: [(u64, &str); 2] = [(1_440, "1,440 bytes of data"), (1_468, "1,468 bytes of data")];

fn loads(data: u64, discipline: LinkService) -> impl Iterator<Item = Trial> {
    (0..=MOST).map(move |disturbers| Trial {
        discipline,
        measured: PacketStream::new(data, 309),
        disturber: PacketStream::new(data, 1_174),
        disturbers,
        hosts: FASTER,
    })
}

/// Reservations with unequal packets: short packets reserved among long ones, and a flow above its
/// reservation among short ones.
fn unequal() -> impl Iterator<Item = (&'static str, Trial)> {
    let trial = |discipline, measured, disturber| Trial {
        discipline,
        measured,
        disturber,
        disturbers: MOST,
        hosts: FASTER,
    };
    [Fifo, Wrr, Drr].into_iter().flat_map(move |discipline| {
        let long = PacketStream::new(1_440, 1_174);
        // Nine of 5.3 Mbit/s of data fill their Ethernet: a datagram of 64 bytes is twice as long
        // on the wire.
        [
            (
                "200-byte data reserved, 30.1 Mbit/s of data are 40 of the wire",
                trial(discipline, PacketStream::of_rate(200, 373), long),
            ),
            (
                "1,440-byte data sending 60 Mbit/s, others 64-byte",
                trial(
                    discipline,
                    PacketStream::of_rate(1_440, 600),
                    PacketStream::of_rate(64, 53),
                ),
            ),
        ]
    })
}

fn run(options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let mut trials: Vec<Trial> = READINGS
        .iter()
        .flat_map(|&(data, _)| {
            [Fifo, Wrr, Polled, Drr]
                .into_iter()
                .flat_map(move |d| loads(data, d))
        })
        .collect();
    let alike = trials.len();
    trials.extend(
        loads(READINGS[0].0, Fifo)
            .last()
            .map(|trial| Trial { hosts: LINK, ..trial }),
    );
    trials.extend(unequal().map(|(_, trial)| trial));
    let name = |trial: &Trial| format!("{}, {} disturbers", trial.discipline.name(), trial.disturbers);
    let results = points::all(&trials, progress, name, Trial::run)?;
    let runs: Vec<(Trial, f64)> = trials
        .iter()
        .copied()
        .zip(results.iter().map(|result| result.0))
        .collect();
    let (runs, odd) = runs.split_at(alike);
    let (in_step, odd) = odd.split_at(1);
    let curves: Vec<Curve<'_>> = runs.chunks((MOST + 1) as usize).map(Curve).collect();
    let mut rows: Vec<Row> = curves.iter().flat_map(Curve::rows).collect();
    rows.extend(in_step.iter().map(|(trial, delivered)| {
        Row::rounded(
            "1,440 bytes of data, not reserved (FIFO): with nine disturbers, hosts also on Fast Ethernet",
            "falls with the load",
            *delivered,
            "Mbit/s",
            (trial.left_over()..trial.proportional()).contains(delivered),
            IN_STEP,
        )
    }));
    let cases: Vec<&str> = unequal().map(|(case, _)| case).collect();
    rows.extend(
        cases
            .iter()
            .zip(odd)
            .map(|(case, (trial, delivered))| mixed(case, trial, *delivered)),
    );
    let lab_curves = reserved_sockets::measure(options, progress)?;
    rows.extend(reserved_sockets::rows(lab_curves.as_ref(), options));
    let charts = [
        ("reserved", drawn(&curves[..4], lab_curves.as_ref())),
        ("unequal", drawn_unequal(odd)),
    ];
    Ok(ExperimentOutcome {
        rows,
        charts: charts
            .map(|(name, svg)| ChartFile {
                name: name.into(),
                svg,
            })
            .into(),
        remarks: vec![REMARK.into(), reserved_sockets::REMARK.into()],
    })
}

const IN_STEP: &str = "C's packets arrive back to back at the link's own speed, in step with the \
    departures, so each finds the slot that the last departure freed, and only A's packets are dropped. \
    Required: less than in proportion, and no less than what the disturbers leave. In the other rows the hosts' links have 1 Gbit/s, which breaks the step as a real machine's interrupts do.";

const REMARK: &str = "Simulated: A, B, C, D and two routers, with Ethernet links (preamble, FCS and gap \
    counted), 100 Mbit/s between the routers. R1's link to R2 has a policy as `suimon run` reads it: 40 \
    Mbit/s for the flow and 60 for the rest, queues of 50 packets. The paper measured 60 s; here it is the \
    10 s after the first second. The paper's reserved curve is slightly lower at high load than at low, \
    since its weights were slightly below the flow's rate; with 4 packets of 10 there is no such dip.";

/// The loads of one discipline, from no disturber to all.
struct Curve<'a>(&'a [(Trial, f64)]);

impl Curve<'_> {
    fn discipline(&self) -> LinkService {
        self.0[0].0.discipline
    }

    fn rows(&self) -> Vec<Row> {
        let trial = self.0[0].0;
        let (offer, data) = (trial.measured.offer(), trial.measured.data);
        let reading = READINGS
            .iter()
            .find(|(length, _)| *length == data)
            .map_or("", |(_, name)| name);
        let name = format!("{reading}, {}", trial.discipline.name());
        let row = |what: &str, paper: &str, ours: f64, unit: &str, holds: bool, note: &str| {
            Row::rounded(format!("{name}: {what}"), paper, ours, unit, holds, note)
        };
        if trial.discipline == Fifo {
            let off = |(trial, delivered): &(Trial, f64)| (delivered - trial.proportional()).abs();
            let largest = self.0.iter().map(off).fold(0.0, f64::max);
            let last = self.0.last().map_or(0.0, |(_, delivered)| *delivered);
            let share = self.0.last().map_or(0.0, |(trial, _)| trial.proportional());
            return vec![
                row(
                    "with nine disturbers",
                    "falls with the load",
                    last,
                    "Mbit/s",
                    (0.85 * share..0.85 * offer).contains(&last),
                    "Its loss is its part of the excess. Required: less than 85 % of its offered rate, and at least 85 % of what it has \
                     if all lose in proportion.",
                ),
                row(
                    "largest deviation from proportional loss",
                    "in proportion",
                    largest,
                    "Mbit/s",
                    largest <= 2.0,
                    "Required: at most 2 Mbit/s at any load.",
                ),
            ];
        }
        let least = self
            .0
            .iter()
            .map(|(_, delivered)| delivered / offer * 100.0)
            .fold(100.0, f64::min);
        vec![row(
            "lowest part of its offered rate at any load",
            "keeps its rate",
            least,
            "%",
            least >= 95.0,
            "Required: at least 95 % of its offered rate with any number of disturbers from none to nine.",
        )]
    }

    fn series(&self) -> Series {
        let points = self.0.iter();
        let points =
            points.map(|(trial, delivered)| (trial.disturber.on_ethernet(trial.disturbers), delivered * 1e6));
        Series::marked(self.discipline().name(), points.collect())
    }
}

/// The row of a trial with unequal packets.
fn mixed(case: &str, trial: &Trial, delivered: f64) -> Row {
    let short = trial.measured.data < trial.disturber.data;
    let by_packets = trial.measured.by_packets(&trial.disturber);
    let (verdict, note) = match (trial.discipline, short) {
        (Fifo, _) => (ClaimVerdict::Orientation, "For comparison."),
        (Drr, true) => (
            ((delivered - 30.1).abs() < 0.5).into(),
            "By bytes: it gets its 40 Mbit/s of the wire whatever its packet length.",
        ),
        (Drr, false) => (
            ((delivered - 38.2).abs() < 0.8).into(),
            "By bytes: it gets its reserved 40 Mbit/s of the wire, and what the others leave.",
        ),
        (_, true) => (
            ((delivered / by_packets - 1.0).abs() < 0.03).into(),
            "By packets: 4 short ones of 10 are a tenth of the wire, so the reservation is worthless. Required: that, within 3 %.",
        ),
        (_, false) => (
            ((delivered / by_packets.min(trial.measured.offer()) - 1.0).abs() < 0.03).into(),
            "By packets: 4 long ones of 10 are most of the wire, so it takes far more than it reserved. Required: all that it sends, \
             within 3 %.",
        ),
    };
    let what = format!("unequal packets, {}: {case}", trial.discipline.name());
    Row::rounded(what, RowValue::Nothing, delivered, "Mbit/s", verdict, note)
}

fn drawn(curves: &[Curve<'_>], lab_curves: Option<&LabCurves>) -> String {
    let plot = |title: &str, series: Vec<Series>| Plot {
        title: title.into(),
        x: Axis::new("disturbance on C's Ethernet", AxisUnit::Rate),
        y: Axis::new("", AxisUnit::Rate),
        series,
        ..Plot::default()
    };
    let mut plots = vec![plot(
        "UDP data of the measured flow, against the disturbance",
        curves.iter().map(Curve::series).collect(),
    )];
    if let Some(lab_curves) = lab_curves {
        plots.push(plot(
            "The same between sockets, reserved by RSVP",
            lab_curves
                .curves
                .iter()
                .map(reserved_sockets::Curve::series)
                .collect(),
        ));
    }
    picture("A flow of 37 Mbit/s, with 40 Mbit/s reserved and without", &plots)
}

/// The chart of the trials with unequal packets, beside the data rate of 40 Mbit/s of the wire.
fn drawn_unequal(runs: &[(Trial, f64)]) -> String {
    let group = |(name, short): (&str, bool)| {
        let of_case = |(trial, _): &&(Trial, f64)| (trial.measured.data < trial.disturber.data) == short;
        let runs: Vec<&(Trial, f64)> = runs.iter().filter(of_case).collect();
        let reserved_data = runs.first().map_or(0.0, |(trial, _)| {
            40.0 * trial.measured.offer() / trial.measured.on_wire()
        });
        let bar = |name: &str, value: f64| Bar {
            name: name.into(),
            value: value * 1e6,
            ..Bar::default()
        };
        let delivered = runs
            .iter()
            .map(|(trial, delivered)| bar(trial.discipline.name(), *delivered));
        Group {
            name: name.into(),
            bars: delivered
                .chain([bar("40 Mbit/s of the wire", reserved_data)])
                .collect(),
        }
    };
    let cases = [
        ("short packets reserved, long ones disturb", true),
        (
            "long packets reserved, which send 60 Mbit/s; short ones disturb",
            false,
        ),
    ];
    let bars = Bars {
        title: "UDP data of a flow with 40 Mbit/s reserved, with packets of unequal length".into(),
        axis: Axis::new("", AxisUnit::Rate),
        groups: cases.map(group).into(),
    };
    bars.picture()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_rates_come_out_with_1440_bytes_of_data() {
        let rates =
            [309, 1_174].map(|micros| (PacketStream::new(1_440, micros).offer() * 100.0).round() / 100.0);
        assert_eq!(rates, [37.28, 9.81]);
        assert!((PacketStream::of_rate(200, 373).offer() - 37.3).abs() < 0.01);
    }

    #[test]
    fn a_curve_that_falls_below_95_per_cent_does_not_hold() {
        let curve = |least: f64| -> Vec<(Trial, f64)> {
            loads(1_440, Wrr)
                .map(|trial| (trial, if trial.disturbers == 7 { least } else { 37.28 }))
                .collect()
        };
        let holds = |least| Curve(&curve(least)).rows().iter().all(|row| row.is_shown());
        assert!(holds(35.5) && !holds(35.3));
    }
}
