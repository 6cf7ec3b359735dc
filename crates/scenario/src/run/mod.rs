//! Runs one point of a scenario: simulates, applies changes, takes readings at the edges of
//! windows, and collects the outcome.
//!
//! `network` creates the simulator's hosts, links and flows; [`captures`] writes packets into
//! files; `readings` are counters, and `judge` compares them with the expectations; [`outcome`] is
//! the result; `tcp_samples` are TCP's variables over time. [`live`] runs a scenario with real
//! sockets in a lab.
//! [`points`] runs the points of a sweep; [`watched`] is what is drawn of a run while it goes on.

mod autorate;
pub mod captures;
mod contract;
mod explained;
mod held_up;
mod host_routes;
mod judge;
mod network;
mod nine;
pub mod outcome;
pub mod points;
mod readings;
pub(crate) mod reserved_flows;
mod signalling;
mod tcp_samples;
pub mod watched;
mod yielding;

// All else is of Linux; the above is compiled for the browser too.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        pub mod live;
        mod live_programs;
        mod live_rsvp;
    }
}

use self::captures::{CaptureRequest, Capturing};
use self::contract::{ReservedTraffic, may_be_promised};
use self::held_up::Delayed;
use self::judge::Window;
use self::network::Network;
use self::outcome::{
    ClassOutcome, FlowOutcome, Judgement, KeptHop, LinkOutcome, MediumOutcome, Outcome, Passed, Point,
    ReservationOutcome,
};
use self::readings::Meters;
use self::reserved_flows::ReservationLog;
use self::signalling::SimulatedRsvp;
use self::tcp_samples::TcpSamples;
use crate::Error;
use crate::Scenario;
use crate::language::{ReservationConfig, Subject};
use crate::sources::MeasuredDelays;
use control::explained::ExplainRequest;
use engine::bounds::shown;
use engine::discipline::Reason;
use engine::packet::ClassId;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use lab::stood_still::StoodStill;
use measure::promise::PromiseTally;
use sim::meter::MeterRow;
use sim::simulation::{End, FlowId};
use std::collections::BTreeSet;

/// The number of progress reports of a run.
const STEPS: u64 = 400;

/// A simulation of a scenario that goes on step by step, all of them of this scenario.
#[derive(Debug)]
pub struct ScenarioRun {
    network: Network,
    captures: Vec<Capturing>,
    /// The link whose packets are explained.
    explain: Option<usize>,
    windows: Vec<Window>,
    /// Of each link.
    backlog_samples: Vec<Vec<(Instant, Bytes)>>,
    /// If they were asked for.
    tcp: Option<TcpSamples>,
    stops: std::vec::IntoIter<Instant>,
}

impl ScenarioRun {
    /// At its beginning.
    ///
    /// # Errors
    ///
    /// Returns an error if a flow has no route, a capture cannot be written, or there is no link
    /// that is to be explained.
    pub fn begin(
        scenario: &Scenario,
        requests: &[CaptureRequest],
        explain: Option<&ExplainRequest>,
    ) -> Result<Self, Error> {
        if let Some(flow) = scenario.flows.iter().find(|flow| flow.source.lacks_packets()) {
            return Err(Error::NoPackets(flow.name.clone()));
        }
        let mut network = Network::new(scenario).map_err(Error::NoRoute)?;
        let captures = captures::begin(&mut network, scenario, requests)?;
        let explain = explain.map(|wanted| explained::begin(&mut network, scenario, wanted));
        let end = Instant::START + scenario.settings.duration;
        Ok(Self {
            captures,
            explain: explain.transpose()?,
            windows: scenario.expectations.iter().map(|_| Window::default()).collect(),
            backlog_samples: vec![Vec::new(); network.links.len()],
            stops: stops(scenario, end).into_iter(),
            tcp: None,
            network,
        })
    }

    /// Also samples TCP's variables over time.
    #[must_use]
    pub fn sampling_tcp(self, scenario: &Scenario) -> Self {
        Self {
            tcp: Some(TcpSamples::new(scenario, step(scenario))),
            ..self
        }
    }

    /// Simulates until the next stop, and returns its time; none at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if a capture cannot be written, or a program's own part failed.
    pub fn step(&mut self, scenario: &Scenario) -> Result<Option<Instant>, Error> {
        let Some(at) = self.stops.next() else {
            return Ok(None);
        };
        let network = &mut self.network;
        network.run_until(scenario, at);
        scenario.failure.check()?;
        for (link, samples) in network.links.iter().zip(&mut self.backlog_samples) {
            let queue = network.sim.queue(*link);
            samples.extend(queue.map(|(queue, _)| (at, queue.backlog().bytes)));
        }
        read(network, scenario, at, &mut self.windows);
        if let Some(tcp) = &mut self.tcp {
            tcp.take(network, at);
        }
        self.captures
            .iter_mut()
            .try_for_each(|capture| capture.write(network))?;
        for change in scenario.changes.iter().filter(|change| change.at == at) {
            network
                .sim
                .retune(network.links[change.direction], change.policy.plan.clone());
        }
        network.fail(scenario, at);
        Ok(Some(at))
    }

    /// The number of events so far.
    pub fn events(&self) -> u64 {
        self.network.sim.events()
    }

    /// The outcome of what was simulated.
    pub fn end(mut self, name: &str, scenario: &Scenario, point: Point) -> Outcome {
        let explain = self.explain;
        let explained = explain.and_then(|link| explained::end(&mut self.network, scenario, link));
        let meters = Meters {
            network: &self.network,
            scenario,
        };
        let judged = scenario.expectations.iter().zip(&self.windows);
        let (reservations, promises) = reservations(&meters);
        let mut flows: Vec<_> = (0..scenario.flows.len())
            .map(|index| flow(&meters, index))
            .collect();
        if let Some(tcp) = self.tcp {
            tcp.tell(&mut flows);
        }
        let media = scenario.media.iter().zip(&self.network.media);
        let media = media.map(|(medium, &id)| MediumOutcome {
            name: medium.name.clone(),
            counts: self.network.sim.medium_counts(id),
        });
        Outcome {
            media: media.collect(),
            scenario: name.into(),
            point,
            duration: scenario.settings.duration,
            bin: scenario.bin(),
            picture: scenario.settings.picture,
            events: self.network.sim.events(),
            expectations: judged
                .map(|(expectation, window)| judge::judge(expectation, window, &meters))
                .chain(promises)
                .collect(),
            links: (0..scenario.directions.len())
                .zip(self.backlog_samples)
                .map(|(index, backlog_samples)| link(&meters, index, backlog_samples))
                .collect(),
            flows,
            reservations,
            explained,
        }
    }

    /// Simulates to the end, and returns the outcome. `progress` is called at intervals with the
    /// simulated time and the number of events.
    ///
    /// # Errors
    ///
    /// Returns an error if a capture cannot be written.
    pub fn to_end(
        mut self,
        name: &str,
        scenario: &Scenario,
        point: Point,
        progress: &mut dyn FnMut(Duration, u64),
    ) -> Result<Outcome, Error> {
        while let Some(at) = self.step(scenario)? {
            progress(at.since(Instant::START), self.events());
        }
        Ok(self.end(name, scenario, point))
    }
}

/// Runs a scenario. `progress` is called at intervals with the simulated time and the number of
/// events.
///
/// # Errors
///
/// Returns an error if a flow has no route, or a capture cannot be written.
pub fn run(
    name: &str,
    scenario: &Scenario,
    point: Point,
    requests: &[CaptureRequest],
    progress: &mut dyn FnMut(Duration, u64),
) -> Result<Outcome, Error> {
    run_explained(name, scenario, point, requests, None, progress)
}

/// The same, which also tells why packets waited on the link that `explain` names.
///
/// # Errors
///
/// Returns an error if a flow has no route, a capture cannot be written, or there is no such link.
pub fn run_explained(
    name: &str,
    scenario: &Scenario,
    point: Point,
    requests: &[CaptureRequest],
    explain: Option<&ExplainRequest>,
    progress: &mut dyn FnMut(Duration, u64),
) -> Result<Outcome, Error> {
    ScenarioRun::begin(scenario, requests, explain)?.to_end(name, scenario, point, progress)
}

/// The time between two progress reports.
fn step(scenario: &Scenario) -> Duration {
    Duration::from_nanos((scenario.settings.duration.nanos() / STEPS).max(1))
}

/// The instants at which the run stops for changes, windows or progress, in order; the last is the
/// end.
fn stops(scenario: &Scenario, end: Instant) -> Vec<Instant> {
    let step = step(scenario);
    let steps = (1..STEPS).map(|n| Instant::START + step.times(n));
    let windows = scenario
        .expectations
        .iter()
        .flat_map(|expectation| [expectation.from, expectation.to]);
    let changes = scenario.changes.iter().map(|change| change.at);
    let mut stops: Vec<Instant> = steps
        .chain(windows)
        .chain(scenario.failure_times())
        .chain(changes)
        .chain([end])
        .filter(|at| *at <= end)
        .collect();
    stops.sort_unstable();
    stops.dedup();
    stops
}

/// Takes the readings of windows that begin or end now.
fn read(network: &Network, scenario: &Scenario, now: Instant, windows: &mut [Window]) {
    let meters = Meters { network, scenario };
    for (expectation, window) in scenario.expectations.iter().zip(windows) {
        if expectation.from == now && now > Instant::START {
            window.from = meters.reading(expectation.subject);
        }
        if expectation.to == now {
            window.to = meters.reading(expectation.subject);
        }
    }
}

fn passed(meters: &Meters<'_>, direction: usize, class: Option<ClassId>) -> Passed {
    let counted = meters.counted(direction, class, None);
    let dropped = Reason::ALL
        .into_iter()
        .map(|why| (why.name(), counted.dropped[why as usize]));
    Passed {
        packets: counted.packets,
        bytes: counted.bytes,
        rate: Bandwidth::of(Bytes::new(counted.bytes), meters.scenario.settings.duration),
        dropped: dropped.filter(|(_, n)| *n > 0).collect(),
        series: counted.series,
        waited: counted.waited,
        marked: counted.marked,
        backlog: counted.queue,
    }
}

fn link(meters: &Meters<'_>, index: usize, backlog_samples: Vec<(Instant, Bytes)>) -> LinkOutcome {
    let direction = &meters.scenario.directions[index];
    let meter = meters.network.sim.meter(meters.network.links[index]);
    let classes = meter
        .filter(|_| direction.policy.is_some())
        .map_or_else(Vec::new, |meter| {
            let rows = meter.rows();
            let of = |(number, row): (usize, &MeterRow)| {
                let class = ClassId(number as u32);
                ClassOutcome {
                    name: row.name.clone(),
                    parent: row.parent,
                    leaf: rows.iter().all(|other| other.parent != Some(number)),
                    target: meters.target(index, class),
                    passed: passed(meters, index, Some(class)),
                    borrowed: meters.borrowed(index, class),
                }
            };
            let named = |(_, row): &(usize, &MeterRow)| !row.name.is_empty();
            rows.iter().enumerate().filter(named).map(of).collect()
        });
    LinkOutcome {
        name: direction.name.clone(),
        rate: Bandwidth::of(
            direction.capacity(Instant::START, Instant::START + meters.scenario.settings.duration),
            meters.scenario.settings.duration,
        ),
        discipline: direction.policy.as_ref().map(|policy| policy.plan.root.kind.name),
        total: passed(meters, index, None),
        classes,
        impaired: meters.network.sim.impaired(meters.network.links[index]),
        backlog_samples,
    }
}

/// What has become of reservations, and whether what they guarantee was kept.
fn reservations(meters: &Meters<'_>) -> (Vec<ReservationOutcome>, Vec<Judgement>) {
    let Some(signalling) = &meters.network.signalling else {
        return Default::default();
    };
    let configured = meters.scenario.signalling.reservations.iter().enumerate();
    let now = meters.network.sim.now();
    let mut judged = Vec::new();
    let of = |((index, reservation), log): ((usize, &ReservationConfig), &ReservationLog)| {
        let measured = flow(meters, reservation.flow).longest();
        let mut outcome = log.outcome(now, reservation, meters.scenario, measured);
        let limit = outcome.limit();
        if let Some(traffic) = reserved_traffic(meters, signalling, (index, reservation), limit) {
            let mut contract = traffic.contract();
            if outcome.delay.is_none() {
                // Controlled load promises no delay anywhere.
                contract.hops.clear();
            } else if may_be_promised(meters.scenario, reservation) {
                judged.extend(traffic.judged(&contract, &StoodStill::default()));
            }
            outcome.contract = Some(contract);
        }
        outcome
    };
    let outcomes = configured.zip(signalling.logs()).map(of).collect();
    (outcomes, judged)
}

/// What is known of the flow of a reservation; none if nothing was promised to a datagram of it.
fn reserved_traffic<'a>(
    meters: &Meters<'a>,
    signalling: &SimulatedRsvp,
    (index, reservation): (usize, &'a ReservationConfig),
    limit: Option<Duration>,
) -> Option<ReservedTraffic<'a>> {
    let (scenario, network) = (meters.scenario, meters.network);
    let promises = |direction: usize| network.sim.promises(network.links[direction]);
    let classes = signalling.classes(scenario, index);
    let (first, own) = classes.first()?;
    let copies = &network.flows[reservation.flow];
    let listeners = copies.iter().filter_map(|&copy| meters.listener(copy));
    let promised = listeners.flat_map(|listener| &listener.promised);
    let got = promised.map(|&(conforms, delay)| (conforms, Delayed::by_itself(delay)));
    let got: Vec<(bool, Delayed)> = got.collect();
    let hop = |(direction, classes): &(usize, &BTreeSet<String>)| {
        let kept = classes
            .iter()
            .filter_map(|class| promises(*direction)?.kept(class));
        let of = |hop: KeptHop, kept: PromiseTally| KeptHop {
            bound: hop.bound.max(shown(kept.bound)),
            worst: hop.worst.max(kept.worst),
            late: hop.late + kept.late,
            exceeded: hop.exceeded + kept.exceeded,
            ..hop
        };
        kept.fold(KeptHop::at(&scenario.directions[*direction].name), of)
    };
    let on_the_way = copies
        .iter()
        .map(|&copy| network.sim.conforming_on_the_way(copy, End::Initiator));
    (!got.is_empty()).then(|| ReservedTraffic {
        name: &reservation.name,
        index,
        at: &scenario.directions[*first].name,
        came: promises(*first).map(|of| of.came(*own)).unwrap_or_default(),
        flight: Duration::ZERO,
        hold_ups: Vec::new(),
        on_the_way: on_the_way.sum(),
        hops: classes.iter().map(hop).collect(),
        got,
        limit,
    })
}

fn flow(meters: &Meters<'_>, index: usize) -> FlowOutcome {
    let flow = &meters.scenario.flows[index];
    let connections = &meters.network.flows[index];
    let got = |connection| {
        meters
            .network
            .sim
            .delivered(connection, End::Responder)
            .bytes
            .get()
    };
    let of_copy = |copy: &[FlowId]| copy.iter().map(|&connection| got(connection)).sum();
    let copied: Vec<u64> = meters.copies(index).map(of_copy).collect();
    let bytes = copied.iter().sum();
    let listeners: Vec<_> = connections
        .iter()
        .filter_map(|&one| meters.listener(one))
        .collect();
    let reading = meters.reading(Subject::Flow(index));
    let mut counts = vec![("packets", reading.packets)];
    if listeners.is_empty() {
        counts.extend(flow.source.delays().counted().map(|name| (name, reading.answers)));
        counts.extend([
            ("sent again", reading.retransmissions),
            ("timeouts", reading.timeouts),
        ]);
    } else {
        counts.push(("lost", listeners.iter().map(|listener| listener.lost()).sum()));
        let again: u64 = listeners.iter().map(|listener| listener.duplicates).sum();
        counts.extend((again > 0).then_some(("duplicates", again)));
    }
    let ends = connections
        .iter()
        .flat_map(|&one| [(one, End::Initiator), (one, End::Responder)]);
    let corrupt = ends.map(|(one, end)| meters.network.sim.delivered(one, end).corrupt);
    let corrupt: u64 = corrupt.sum();
    counts.extend((corrupt > 0).then_some(("wrong checksums", corrupt)));
    FlowOutcome {
        name: flow.name.clone(),
        kind: flow.source.label(),
        from: meters.scenario.hosts[flow.between[0]].name.clone(),
        to: meters.scenario.hosts[flow.between[1]].name.clone(),
        start: flow.start(0),
        copies: copied,
        bytes,
        rate: Bandwidth::of(Bytes::new(bytes), meters.scenario.settings.duration),
        series: meters.received(Some(index)),
        delays: (reading.delays.count() > 0).then_some(reading.delays),
        one_way: flow.source.delays() == MeasuredDelays::OneWay,
        playback: flow.source.plays().then_some(reading.playback),
        counts,
        tcp: Vec::new(),
    }
}
