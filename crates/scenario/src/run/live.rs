//! Runs a scenario in a lab: its flows are real sockets, its links are emulated, its policies
//! classify their packets. The expectations are judged on what receivers got and links sent.
//!
//! Rates and shares of flows count as in the simulator: payload of TCP, frames of datagrams.

use super::judge::{delay, fairness_of, ratio, verdict};
use super::outcome::{FlowOutcome, Judgement};
use crate::lab::{Built, Instruments, build_scenario};
use crate::language::{Expectation, FlowConfig, Metric, Subject};
use crate::sources::LabSource;
use crate::{Error, Scenario};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use lab::Record;
use lab::record::Recorded;
use lab::traffic::generator::TrafficShape;
use lab::traffic::tcp::Bulk;
use lab::traffic::udp::Stream;
use measure::delay::Delays;
use std::net::SocketAddr;
use std::time;

/// The bins in which a TCP receiver counts.
const INTERVAL: time::Duration = time::Duration::from_millis(10);

/// What a lab measured.
#[derive(Clone, Debug)]
pub struct LiveOutcome {
    /// The scenario's name.
    pub scenario: String,
    /// How long it ran.
    pub duration: Duration,
    /// Every flow.
    pub flows: Vec<FlowOutcome>,
    /// The expectations and the measured values.
    pub expectations: Vec<Judgement>,
}

/// One arrival at a receiver, or those of an interval.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    /// When, from the start of the run.
    at: Instant,
    bytes: u64,
    /// Its one-way delay; none of TCP.
    delay: Option<Duration>,
}

/// Builds the lab, runs the scenario in real time, and judges its expectations.
///
/// # Errors
///
/// Returns an error if the lab cannot be built, or a flow fails.
pub fn run(name: &str, scenario: &Scenario) -> Result<LiveOutcome, Error> {
    let origin = netio::clock::now();
    let records: Vec<Record> = scenario
        .directions
        .iter()
        .map(|_| Record::new(origin, scenario.bin()))
        .collect();
    let on = |(index, record): (usize, &Record)| ((index / 2, index % 2), record.clone());
    let instruments = Instruments {
        records: records.iter().enumerate().map(on).collect(),
        ..Instruments::default()
    };
    let built = build_scenario(scenario, &instruments)?;
    let run = LiveRun {
        scenario,
        built: &built,
        records: &records,
        begin: time::Instant::now(),
        started: netio::clock::now(),
    };
    let (flows, windows) = run.traffic()?;
    let judged = scenario.expectations.iter().zip(&windows);
    Ok(LiveOutcome {
        scenario: name.into(),
        duration: scenario.settings.duration,
        expectations: judged
            .map(|(expectation, window)| verdict(expectation, run.measure(expectation, window, &flows)))
            .collect(),
        flows: scenario
            .flows
            .iter()
            .zip(&flows)
            .map(|(flow, got)| run.outcome(flow, got))
            .collect(),
    })
}

/// The state of a link at both edges of an expectation's window; none of other subjects.
type LinkWindow = Option<[Recorded; 2]>;

struct LiveRun<'a> {
    scenario: &'a Scenario,
    built: &'a Built,
    records: &'a [Record],
    /// The start of the run, on the clock of sockets and on that of links.
    begin: time::Instant,
    started: Instant,
}

impl LiveRun<'_> {
    /// Runs all flows beside each other, and reads links at the edges of windows.
    fn traffic(&self) -> Result<(Vec<Vec<Arrived>>, Vec<LinkWindow>), Error> {
        std::thread::scope(|scope| {
            let flows: Vec<_> = self
                .scenario
                .flows
                .iter()
                .map(|flow| scope.spawn(|| self.flow(flow)))
                .collect();
            let windows = self.windows();
            let got = flows
                .into_iter()
                .map(|flow| flow.join().map_err(|_| Error::ThreadEnded)?.map_err(Error::Lab));
            Ok((got.collect::<Result<_, Error>>()?, windows))
        })
    }

    /// Sleeps until this time of the run.
    fn wait_until(&self, at: Instant) {
        let due = time::Duration::from_nanos(at.nanos());
        std::thread::sleep(due.saturating_sub(self.begin.elapsed()));
    }

    fn windows(&self) -> Vec<LinkWindow> {
        let expectations = &self.scenario.expectations;
        let mut edges: Vec<Instant> = expectations.iter().flat_map(|e| [e.from, e.to]).collect();
        edges.push(Instant::START + self.scenario.settings.duration);
        edges.sort_unstable();
        edges.dedup();
        let mut read: Vec<[Option<Recorded>; 2]> = vec![[None, None]; expectations.len()];
        for edge in edges {
            self.wait_until(edge);
            for (expectation, window) in expectations.iter().zip(&mut read) {
                let Subject::Link(link) = expectation.subject else {
                    continue;
                };
                for (at, side) in [expectation.from, expectation.to].into_iter().zip(window) {
                    if at == edge {
                        *side = Some(self.records[link].read());
                    }
                }
            }
        }
        read.into_iter().map(|[from, to]| Some([from?, to?])).collect()
    }

    /// Sends a flow from its start to its stop; what arrived, in order.
    fn flow(&self, flow: &FlowConfig) -> lab::Result<Vec<Arrived>> {
        let (Some(source), Some(&(start, stop))) = (flow.source.in_lab(), flow.active.first()) else {
            return Ok(Vec::new());
        };
        let hosts = flow.between.map(|host| &self.built.lab.hosts()[host]);
        let address = |side: usize, port: Option<u16>| {
            SocketAddr::new(self.scenario.hosts[flow.between[side]].address, port.unwrap_or(0))
        };
        let from = address(0, flow.key.source_port);
        let to = address(1, flow.key.destination_port);
        self.wait_until(start);
        let length = stop.since(start);
        match source {
            LabSource::Bulk { control, total } => {
                let bulk = Bulk {
                    from: Some(from),
                    congestion: control.into(),
                    most: total.map_or(u64::MAX, Bytes::get),
                    interval: INTERVAL,
                    ..Bulk::new(to, time::Duration::from_nanos(length.nanos()))
                };
                let report = bulk.start(hosts[0], hosts[1])?.finish()?;
                let first = report.begin.saturating_duration_since(self.begin) + INTERVAL / 2;
                let ends = report.intervals.iter().zip(0_u32..);
                Ok(ends
                    .map(|(&bytes, n)| Arrived::new(first + INTERVAL * n, bytes, None))
                    .collect())
            }
            LabSource::Datagrams {
                frame,
                burst,
                gap,
                period,
            } => {
                let header = if to.is_ipv4() { 42 } else { 62 };
                let wait = |time: Duration| time::Duration::from_nanos(time.nanos());
                let bursts = length.nanos().div_ceil(period.nanos().max(1));
                let shape = TrafficShape {
                    payload: frame.get().saturating_sub(header) as usize,
                    interval: wait(gap),
                    burst,
                    period: wait(period),
                    count: bursts.saturating_mul(burst.into()),
                };
                let first = self.begin.elapsed();
                let report = Stream { to, shape }
                    .start_from(Some(from), hosts[0], hosts[1])?
                    .finish()?;
                let arrived = |one: &lab::traffic::udp::UdpArrival| {
                    let delay = Duration::from_nanos(one.delay().as_nanos() as u64);
                    Arrived::new(first + one.arrived, frame.get(), Some(delay))
                };
                Ok(report.arrivals.iter().map(arrived).collect())
            }
        }
    }

    fn measure(&self, expectation: &Expectation, window: &LinkWindow, flows: &[Vec<Arrived>]) -> u64 {
        let Expectation { from, to, metric, .. } = *expectation;
        let span = to.since(from);
        let inside = |flow: &Vec<Arrived>| -> Vec<Arrived> {
            flow.iter()
                .filter(|one| (from..to).contains(&one.at))
                .copied()
                .collect()
        };
        let bytes = |flow: &Vec<Arrived>| inside(flow).iter().map(|one| one.bytes).sum::<u64>();
        let all: u64 = flows.iter().map(bytes).sum();
        let rate = |bytes| Bandwidth::of(Bytes::new(bytes), span).bits();
        match (expectation.subject, metric, window) {
            (Subject::Flow(flow), Metric::Rate, _) => rate(bytes(&flows[flow])),
            (Subject::Flow(flow), Metric::Share, _) => ratio(bytes(&flows[flow]), all),
            (Subject::Flow(flow), Metric::Packets, _) => inside(&flows[flow]).len() as u64,
            (Subject::Flow(flow), metric, _) => delay(metric, &delays(&inside(&flows[flow]))),
            (Subject::All, Metric::Jain, _) => fairness_of(flows.iter().map(bytes)),
            (Subject::Link(link), metric, Some([before, after])) => {
                let edge = |at: Instant| self.started + at.since(Instant::START);
                let sent = after.sent.between(edge(from), edge(to));
                match metric {
                    Metric::Rate => rate(sent),
                    Metric::Load => {
                        let whole = self.scenario.directions[link].settings.rate.bytes_in(span);
                        ratio(sent, whole.get())
                    }
                    metric => delay(metric, &after.waited.since(&before.waited)),
                }
            }
            _ => rate(all),
        }
    }

    fn outcome(&self, flow: &FlowConfig, got: &[Arrived]) -> FlowOutcome {
        let bytes = got.iter().map(|one| one.bytes).sum();
        let delays = delays(got);
        let name = |side: usize| self.scenario.hosts[flow.between[side]].name.clone();
        let datagrams = got.iter().filter(|one| one.delay.is_some()).count();
        FlowOutcome {
            name: flow.name.clone(),
            kind: flow.source.label(),
            from: name(0),
            to: name(1),
            start: flow.start(0),
            copies: vec![bytes],
            bytes,
            rate: Bandwidth::of(Bytes::new(bytes), self.scenario.settings.duration),
            series: Vec::new(),
            delays: (delays.count() > 0).then_some(delays),
            counts: vec![("packets", datagrams as u64)],
        }
    }
}

impl Arrived {
    fn new(after: time::Duration, bytes: u64, delay: Option<Duration>) -> Self {
        Self {
            at: Instant::from_nanos(after.as_nanos() as u64),
            bytes,
            delay,
        }
    }
}

fn delays(got: &[Arrived]) -> Delays {
    let mut delays = Delays::default();
    got.iter()
        .filter_map(|one| one.delay)
        .for_each(|delay| delays.record(delay));
    delays
}
