//! Runs a scenario in a lab: its flows are real sockets, its links are emulated, its policies
//! classify their packets. The expectations are judged on what receivers got and links sent.
//!
//! Rates and shares of flows count as in the simulator: payload of TCP, frames of datagrams. What
//! the machine adds to delays is counted apart.

use super::contract::{ReservedTraffic, may_be_promised};
use super::held_up::{self, Delayed};
use super::judge::{delay, fairness_of, ratio, verdict};
use super::live_programs;
use super::live_rsvp::LabRsvp;
use super::outcome::{FlowOutcome, Judgement, LiveOutcome, ProgramOutcome, ReservationOutcome, TcpSample};
use super::reserved_flows::ReservationLog;
use super::step;
use crate::lab::{Built, Instruments, build_scenario, reroute};
use crate::language::{Expectation, FlowConfig, Metric, ReservationConfig, Subject};
use crate::sources::LabSource;
use crate::{Error, Scenario};
use control::policy::InterfacePolicy;
use engine::packet::ClassId;
use engine::queue::{Count, Stats};
use engine::tree::Registry;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use gateway::in_force::InForce;
use lab::record::Recorded;
use lab::stood_still::StoodStill;
use lab::traffic::generator::TrafficShape;
use lab::traffic::tcp::{Bulk, SocketSample};
use lab::traffic::udp::Stream;
use lab::{CableSwitch, Record};
use measure::delay::FineDelays;
use measure::promised::PromisedArrivals;
use netio::handle::{PathView, Unanswered};
use netio::hold_ups::HoldUp;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time;

/// The bins in which a TCP receiver counts.
const INTERVAL: time::Duration = time::Duration::from_millis(10);

/// One arrival at a receiver, or those of an interval.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    /// When, from the start of the run.
    at: Instant,
    bytes: u64,
    /// Its one-way delay; none of TCP.
    delay: Option<Delayed>,
    /// Whether it kept to what is reserved for it; none if nothing is.
    conforms: Option<bool>,
}

/// Builds the lab, runs the scenario in real time, and judges its expectations.
///
/// # Errors
///
/// Returns an error if the lab cannot be built, or a flow fails.
pub fn run(name: &str, scenario: &Scenario, registry: &Registry) -> Result<LiveOutcome, Error> {
    let origin = netio::clock::now();
    let records: Vec<Record> = scenario
        .directions
        .iter()
        .map(|_| Record::new(origin, scenario.bin()))
        .collect();
    let on = |(index, record): (usize, &Record)| ((index / 2, index % 2), record.clone());
    let cables: Vec<CableSwitch> = scenario
        .directions
        .chunks(2)
        .map(|_| CableSwitch::default())
        .collect();
    let instruments = Instruments {
        records: records.iter().enumerate().map(on).collect(),
        cables: (0..records.len())
            .map(|index| ((index / 2, index % 2), cables[index / 2].clone()))
            .collect(),
        ..Instruments::default()
    };
    let built = build_scenario(scenario, registry, &instruments)?;
    let run = LiveRun {
        scenario,
        built: &built,
        rsvp: LabRsvp::start(scenario, &built)?,
        records: &records,
        cables: &cables,
        begin: time::Instant::now(),
        started: netio::clock::now(),
    };
    instruments.begin.set(run.started);
    let watcher = netio::hold_ups::watcher(built.lab.hold_ups()).map_err(Error::Started)?;
    let (got, windows, programs) = run.traffic()?;
    let mut flows = got;
    drop(watcher);
    let still = StoodStill::of(built.lab.hold_ups().read());
    run.tell_apart(&mut flows, &still);
    let judged = scenario.expectations.iter().zip(&windows);
    let outcomes = scenario.flows.iter().zip(&flows);
    let outcomes: Vec<FlowOutcome> = outcomes.map(|(flow, got)| run.outcome(flow, got)).collect();
    let (reservations, promises) = run.reservations(&flows, &outcomes, &still);
    Ok(LiveOutcome {
        scenario: name.into(),
        duration: scenario.settings.duration,
        expectations: judged
            .map(|(expectation, window)| run.judge(expectation, window, (&flows, &still)))
            .chain(
                scenario
                    .programs
                    .iter()
                    .zip(&programs)
                    .flat_map(|(program, outcome)| live_programs::judge(program, outcome)),
            )
            .chain(promises)
            .collect(),
        reservations,
        flows: outcomes,
        held_up: run.held_up()?,
        programs,
    })
}

/// What an expectation's subject had done by an instant.
#[derive(Clone, Debug)]
enum LabReading {
    /// The receivers tell.
    OfFlows,
    /// A link, and what has passed its queue.
    Link(Box<Recorded>, Stats),
    /// A class, and its link.
    Class { own: Passage, all: Bytes },
    /// For how long a reservation was in force.
    InForce(Duration),
}

/// What has left by a class.
#[derive(Clone, Debug, Default)]
struct Passage {
    sent: Count,
    delays: FineDelays,
}

/// What each flow's receiver got, the readings of each expectation, and how programs ended.
type LiveTraffic = (Vec<ReceivedFlow>, Vec<LabWindow>, Vec<ProgramOutcome>);

/// What a flow's receiver got.
#[derive(Debug, Default)]
struct ReceivedFlow {
    /// In order.
    arrived: Vec<Arrived>,
    /// How many datagrams did not arrive; TCP tells none.
    lost: Option<u64>,
    /// When its sender was held up.
    hold_ups: Vec<HoldUp>,
    /// The variables of its sending TCP.
    tcp: Vec<TcpSample>,
}

/// The readings at both edges of an expectation's window.
type LabWindow = [LabReading; 2];

struct LiveRun<'a> {
    scenario: &'a Scenario,
    built: &'a Built,
    rsvp: LabRsvp,
    records: &'a [Record],
    /// By the number of the link.
    cables: &'a [CableSwitch],
    /// The start of the run, on the clock of sockets and on that of links.
    begin: time::Instant,
    started: Instant,
}

impl LiveRun<'_> {
    /// Runs all flows and programs beside each other, holds reservations, makes changes, and reads
    /// at the edges of windows.
    fn traffic(&self) -> Result<LiveTraffic, Error> {
        std::thread::scope(|scope| {
            let flows: Vec<_> = self
                .scenario
                .flows
                .iter()
                .map(|flow| scope.spawn(|| self.flow(flow)))
                .collect();
            for index in 0..self.scenario.signalling.reservations.len() {
                scope.spawn(move || self.rsvp.hold(self.scenario, self.built, index, self.begin));
            }
            let programs: Vec<_> = self
                .scenario
                .programs
                .iter()
                .map(|program| {
                    scope.spawn(|| live_programs::run(self.scenario, self.built, program, self.begin))
                })
                .collect();
            let changes = scope.spawn(|| self.changes());
            let failures = scope.spawn(|| self.failures());
            if self.scenario.loses_state() {
                scope.spawn(|| self.rsvp.look_for_lost(self.scenario, self.built, self.begin));
            }
            let windows = self.windows();
            let got = flows
                .into_iter()
                .map(|flow| flow.join().map_err(|_| Error::ThreadEnded)?.map_err(Error::Lab));
            let got = got.collect::<Result<_, Error>>()?;
            changes.join().map_err(|_| Error::ThreadEnded)??;
            failures.join().map_err(|_| Error::ThreadEnded)??;
            let programs = programs.into_iter().map(|program| {
                program
                    .join()
                    .map_err(|_| Error::ThreadEnded)?
                    .map_err(Error::Lab)
            });
            Ok((got, windows?, programs.collect::<Result<_, Error>>()?))
        })
    }

    /// Sleeps until this time of the run.
    fn wait_until(&self, at: Instant) {
        let due = time::Duration::from_nanos(at.nanos());
        std::thread::sleep(due.saturating_sub(self.begin.elapsed()));
    }

    /// Makes the scenario's changes, each at its time.
    fn changes(&self) -> Result<(), Error> {
        for change in &self.scenario.changes {
            self.wait_until(change.at);
            let Some(in_force) = self.policy(change.direction) else {
                continue;
            };
            let named = |name: String| InterfacePolicy {
                name,
                ..change.policy.clone()
            };
            let managed = in_force.all().into_iter().next();
            let Some(policy) = managed.map(|managed| named(managed.policy.name)) else {
                continue;
            };
            let put = in_force.put_class(policy, &change.class);
            put.map_err(|why| Error::Started(std::io::Error::other(format!("{}: {why}", change.what))))?;
        }
        Ok(())
    }

    /// Lets fail what fails and work again what does, each at its time; then routes follow.
    fn failures(&self) -> Result<(), Error> {
        let mut avoided = BTreeSet::new();
        let end = Instant::START + self.scenario.settings.duration;
        for at in self.scenario.failure_times().into_iter().filter(|at| *at < end) {
            self.wait_until(at);
            let cut = self.scenario.cut_at(at);
            let cut_off = |links: &dyn Fn(usize) -> Option<bool>| {
                for (link, cable) in self.cables.iter().enumerate() {
                    links(link).into_iter().for_each(|cut| cable.cut(cut));
                }
            };
            // What is to be cut is cut before a host loses its state, and joined after.
            cut_off(&|link| cut.contains(&link).then_some(true));
            for host in self.scenario.restarted_at(at) {
                self.restart(host)?;
            }
            cut_off(&|link| Some(cut.contains(&link)));
            let around = self.scenario.avoided_at(at);
            if around != avoided {
                reroute(self.built, self.scenario, &around)?;
                avoided = around;
            }
        }
        Ok(())
    }

    /// A host loses what it kept in memory.
    fn restart(&self, host: usize) -> Result<(), Error> {
        self.rsvp.restart(self.scenario, self.built, host)?;
        for interface in &self.built.interfaces[host] {
            let link = self.built.lab.links()[interface.direction.0].handle();
            let restarted = self.built.policies.restart(&link, interface.direction);
            restarted.map_err(Error::Started)?;
        }
        Ok(())
    }

    /// The policy in force at the sending end of a direction.
    fn policy(&self, direction: usize) -> Option<&Arc<InForce>> {
        self.built.policies.of((direction / 2, direction % 2))
    }

    fn windows(&self) -> Result<Vec<LabWindow>, Error> {
        let expectations = &self.scenario.expectations;
        let mut edges: Vec<Instant> = expectations.iter().flat_map(|e| [e.from, e.to]).collect();
        edges.push(Instant::START + self.scenario.settings.duration);
        edges.sort_unstable();
        edges.dedup();
        let mut read = vec![[LabReading::OfFlows, LabReading::OfFlows]; expectations.len()];
        for edge in edges {
            self.wait_until(edge);
            for (expectation, window) in expectations.iter().zip(&mut read) {
                for (at, side) in [expectation.from, expectation.to].into_iter().zip(window) {
                    if at == edge {
                        *side = self.look(expectation.subject, at)?;
                    }
                }
            }
        }
        Ok(read)
    }

    /// What this subject has done by now.
    fn look(&self, subject: Subject, now: Instant) -> Result<LabReading, Error> {
        Ok(match subject {
            Subject::Flow(_) | Subject::All => LabReading::OfFlows,
            Subject::Reservation(index) => LabReading::InForce(self.rsvp.read()[index].in_force(now)),
            Subject::Link(link) => {
                let totals = self.path(link)?.totals;
                LabReading::Link(Box::new(self.records[link].read()), totals)
            }
            Subject::Class { direction, class } => {
                let path = self.path(direction)?;
                let own = self.passage(&path, direction, class);
                LabReading::Class {
                    own,
                    all: path.totals.sent.bytes,
                }
            }
        })
    }

    /// What the worker of a link says of a direction.
    fn path(&self, direction: usize) -> Result<PathView, Error> {
        let gone = |why: Unanswered| Error::Started(std::io::Error::other(why));
        let snapshot = self.built.lab.links()[direction / 2].inspect().map_err(gone)?;
        let path = snapshot.paths.into_iter().nth(direction % 2);
        path.ok_or(Error::ThreadEnded)
    }

    /// What has left by a class, or by those below it. Reservations number classes anew, so they
    /// are found by name.
    fn passage(&self, path: &PathView, direction: usize, class: ClassId) -> Passage {
        let mut passage = Passage::default();
        let read = self.scenario.directions[direction].policy.as_ref();
        let present = self.policy(direction).and_then(|of| of.all().into_iter().next());
        let (Some(read), Some(present)) = (read, present) else {
            return passage;
        };
        let below = |mut number: ClassId| loop {
            if number == class {
                return true;
            }
            match read.plan.info(number).and_then(|info| info.parent) {
                Some(parent) => number = parent,
                None => return false,
            }
        };
        for meter in &path.classes {
            let name = present
                .whole
                .plan
                .info(meter.class)
                .map(|info| info.name.as_str());
            if name.and_then(|name| read.plan.class(name)).is_some_and(below) {
                passage.sent.packets += meter.sent.packets;
                passage.sent.bytes += meter.sent.bytes;
                passage.delays.merge_other(&meter.delays);
            }
        }
        passage
    }

    /// How late packets left that had to wait for their time, at the worst link.
    fn held_up(&self) -> Result<Option<(String, Duration)>, Error> {
        let mut worst = None;
        for (index, direction) in self.scenario.directions.iter().enumerate() {
            let late = self.path(index)?.lateness.longest();
            if late > worst.as_ref().map_or(Duration::ZERO, |(_, most)| *most) {
                worst = Some((direction.name.clone(), late));
            }
        }
        Ok(worst)
    }

    /// What has become of reservations, and whether what they guarantee was kept.
    fn reservations(
        &self,
        flows: &[ReceivedFlow],
        outcomes: &[FlowOutcome],
        still: &StoodStill,
    ) -> (Vec<ReservationOutcome>, Vec<Judgement>) {
        let end = Instant::START + self.scenario.settings.duration;
        let configured = self.scenario.signalling.reservations.iter().enumerate();
        let mut judged = Vec::new();
        let of = |((index, reservation), log): ((usize, &ReservationConfig), ReservationLog)| {
            let longest = outcomes[reservation.flow].longest();
            let mut outcome = log.outcome(end, reservation, self.scenario, longest);
            let limit = outcome.limit();
            if let Some(traffic) =
                self.reserved_traffic((index, reservation), &flows[reservation.flow], limit)
            {
                let contract = traffic.contract();
                if outcome.delay.is_some() && may_be_promised(self.scenario, reservation) {
                    judged.extend(traffic.judged(&contract, still));
                }
                outcome.contract = Some(contract);
            }
            outcome
        };
        let outcomes = configured.zip(self.rsvp.read()).map(of).collect();
        (outcomes, judged)
    }

    /// What is known of the flow of a reservation; none if no packet of it is known to have been
    /// promised anything.
    fn reserved_traffic<'a>(
        &'a self,
        (index, reservation): (usize, &'a ReservationConfig),
        flow: &ReceivedFlow,
        limit: Option<Duration>,
    ) -> Option<ReservedTraffic<'a>> {
        let (direction, classes) = self.rsvp.first_class(index)?;
        let recorded = self.records[direction].read().promised;
        let came = recorded
            .into_iter()
            .filter(|(class, _)| classes.contains(class))
            .fold(PromisedArrivals::default(), |all, (_, one)| all.with(one));
        let got = flow.arrived.iter().filter_map(|one| one.conforms.zip(one.delay));
        let got: Vec<(bool, Delayed)> = got.collect();
        let path = self.scenario.path(self.scenario.flows[reservation.flow].between);
        let before = path.iter().take_while(|one| **one != direction);
        let flights = before.map(|one| self.scenario.directions[*one].settings.delay);
        let links = self.built.lab.hold_ups().read();
        (!got.is_empty()).then(|| ReservedTraffic {
            name: &reservation.name,
            index,
            at: &self.scenario.directions[direction].name,
            came,
            flight: flights.fold(Duration::ZERO, |sum, delay| sum + delay),
            hold_ups: [&links[..], &flow.hold_ups[..]].concat(),
            on_the_way: 0,
            hops: Vec::new(),
            got,
            limit,
        })
    }

    /// Sends a flow from its start to its stop.
    fn flow(&self, flow: &FlowConfig) -> lab::Result<ReceivedFlow> {
        let (Some(source), Some(&(start, stop))) = (flow.source.in_lab(), flow.active.first()) else {
            return Ok(ReceivedFlow::default());
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
                    sampling: Some(time::Duration::from_nanos(step(self.scenario).nanos())),
                    ..Bulk::new(to, time::Duration::from_nanos(length.nanos()))
                };
                let report = bulk.start(hosts[0], hosts[1])?.finish()?;
                let first = report.begin.saturating_duration_since(self.begin) + INTERVAL / 2;
                let ends = report.intervals.iter().zip(0_u32..);
                let arrived = ends.map(|(&bytes, n)| Arrived::new(first + INTERVAL * n, bytes, None));
                let sampled = |sample: &SocketSample| TcpSample {
                    at: after(sample.at.saturating_duration_since(self.begin)),
                    cwnd: Bytes::new(sample.cwnd),
                    rtt: Duration::from_nanos(sample.rtt.as_nanos() as u64),
                    retransmissions: sample.retransmissions,
                };
                Ok(ReceivedFlow {
                    arrived: arrived.collect(),
                    tcp: report.samples.iter().map(sampled).collect(),
                    ..ReceivedFlow::default()
                })
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
                // A program may have packets queue in its host, which is no hold-up.
                let told = self.scenario.programs.is_empty();
                let span = |time: time::Duration| Duration::from_nanos(time.as_nanos() as u64);
                let arrived = |one: &lab::traffic::udp::UdpArrival| {
                    let delayed = Delayed {
                        delay: span(one.delay()),
                        held: if told { span(one.held) } else { Duration::ZERO },
                        apart: false,
                    };
                    Arrived {
                        conforms: one.conforms,
                        ..Arrived::new(first + one.arrived, frame.get(), Some(delayed))
                    }
                };
                Ok(ReceivedFlow {
                    arrived: report.arrivals.iter().map(arrived).collect(),
                    lost: Some(report.lost()),
                    hold_ups: report.hold_ups,
                    tcp: Vec::new(),
                })
            }
        }
    }

    /// Notes on which packets' way the machine stood still. Where programs run it may have been
    /// otherwise.
    fn tell_apart(&self, flows: &mut [ReceivedFlow], still: &StoodStill) {
        if !self.scenario.programs.is_empty() {
            return;
        }
        for one in flows.iter_mut().flat_map(|flow| &mut flow.arrived) {
            let arrived = self.started + one.at.since(Instant::START);
            if let Some(delay) = &mut one.delay {
                delay.apart = still.was_on_the_way(arrived - delay.delay, arrived);
            }
        }
    }

    fn judge(
        &self,
        expectation: &Expectation,
        window: &LabWindow,
        (flows, still): (&[ReceivedFlow], &StoodStill),
    ) -> Judgement {
        let Expectation { from, to, metric, .. } = *expectation;
        let span = to.since(from);
        let inside = |flow: &ReceivedFlow| -> Vec<Arrived> {
            flow.arrived
                .iter()
                .filter(|one| (from..to).contains(&one.at))
                .copied()
                .collect()
        };
        let bytes = |flow: &ReceivedFlow| inside(flow).iter().map(|one| one.bytes).sum::<u64>();
        let all: u64 = flows.iter().map(bytes).sum();
        let rate = |bytes| Bandwidth::of(Bytes::new(bytes), span).bits();
        let value = match (expectation.subject, metric) {
            (Subject::Flow(flow), Metric::Rate) => rate(bytes(&flows[flow])),
            (Subject::Flow(flow), Metric::Share) => ratio(bytes(&flows[flow]), all),
            (Subject::Flow(flow), Metric::Packets) => inside(&flows[flow]).len() as u64,
            (Subject::Flow(flow), Metric::Retransmissions) => {
                let stop = self.scenario.flows[flow].active.first().map(|&(_, stop)| stop);
                let to = Some(to).filter(|&to| stop.is_none_or(|stop| to < stop));
                retransmitted(&flows[flow].tcp, from, to)
            }
            (Subject::Flow(flow), _) => {
                let packets = inside(&flows[flow]);
                return held_up::judge(expectation, packets.iter().filter_map(|one| one.delay), still);
            }
            (Subject::All, Metric::Jain) => fairness_of(flows.iter().map(bytes)),
            (Subject::All, _) => rate(all),
            (Subject::Link(_) | Subject::Class { .. } | Subject::Reservation(_), _) => {
                self.measure_between(expectation, window)
            }
        };
        verdict(expectation, value)
    }

    /// The metric of a link, a class or a reservation, from the readings at both edges.
    fn measure_between(&self, expectation: &Expectation, window: &LabWindow) -> u64 {
        let Expectation { from, to, metric, .. } = *expectation;
        let span = to.since(from);
        let rate = |bytes| Bandwidth::of(Bytes::new(bytes), span).bits();
        match window {
            [LabReading::Link(before, earlier), LabReading::Link(after, totals)] => {
                let edge = |at: Instant| self.started + at.since(Instant::START);
                let sent = after.sent.between(edge(from), edge(to));
                match (metric, expectation.subject) {
                    (Metric::Rate, _) => rate(sent),
                    (Metric::Load, Subject::Link(link)) => {
                        let whole = self.scenario.directions[link].capacity(from, to);
                        ratio(sent, whole.get())
                    }
                    (Metric::Packets, _) => totals.sent.packets - earlier.sent.packets,
                    (Metric::Drops, _) => totals.dropped.packets - earlier.dropped.packets,
                    (Metric::Marks, _) => totals.marked - earlier.marked,
                    (metric, _) => delay(metric, &after.waited.since(&before.waited)),
                }
            }
            [
                LabReading::Class {
                    own: before,
                    all: earlier,
                },
                LabReading::Class { own: after, all },
            ] => {
                let sent = (after.sent.bytes - before.sent.bytes).get();
                match metric {
                    Metric::Rate => rate(sent),
                    Metric::Share => ratio(sent, (*all - *earlier).get()),
                    Metric::Packets => after.sent.packets - before.sent.packets,
                    metric => delay(metric, &after.delays.since(&before.delays)),
                }
            }
            [LabReading::InForce(before), LabReading::InForce(after)] => {
                ratio((*after - *before).nanos(), span.nanos())
            }
            _ => 0,
        }
    }

    fn outcome(&self, flow: &FlowConfig, received: &ReceivedFlow) -> FlowOutcome {
        let got = &received.arrived;
        let bytes = got.iter().map(|one| one.bytes).sum();
        let delays = delays(got);
        let name = |side: usize| self.scenario.hosts[flow.between[side]].name.clone();
        let delayed = got.iter().filter_map(|one| one.delay);
        let datagrams = delayed.clone().count();
        let held_up = delayed.clone().filter(|one| one.held > Duration::ZERO).count();
        let apart = delayed.filter(|one| one.apart).count();
        let mut counts = vec![
            ("packets", datagrams as u64),
            ("held up", held_up as u64),
            ("apart", apart as u64),
        ];
        counts.extend(received.lost.map(|lost| ("lost", lost)));
        FlowOutcome {
            name: flow.name.clone(),
            kind: flow.source.label(),
            from: name(0),
            to: name(1),
            start: flow.start(0),
            copies: vec![bytes],
            one_way: true,
            playback: None,
            bytes,
            rate: Bandwidth::of(Bytes::new(bytes), self.scenario.settings.duration),
            series: Vec::new(),
            delays: (delays.count() > 0).then_some(delays),
            counts,
            tcp: received.tcp.clone(),
        }
    }
}

impl Arrived {
    fn new(time: time::Duration, bytes: u64, delay: Option<Delayed>) -> Self {
        Self {
            at: after(time),
            bytes,
            delay,
            conforms: None,
        }
    }
}

/// This time from the start of the run.
fn after(start: time::Duration) -> Instant {
    Instant::from_nanos(start.as_nanos() as u64)
}

/// The segments that were sent again in a window, whose edges are those of samples. One without an
/// end goes to the last: a sender stops a little after its time, and is sampled then.
fn retransmitted(samples: &[TcpSample], from: Instant, to: Option<Instant>) -> u64 {
    let until = |edge: Option<Instant>| {
        let mut back = samples.iter().rev();
        let before = back.find(|sample| edge.is_none_or(|edge| sample.at <= edge));
        before.map_or(0, |sample| sample.retransmissions)
    };
    until(to) - until(Some(from))
}

fn delays(got: &[Arrived]) -> FineDelays {
    let mut delays = FineDelays::default();
    got.iter()
        .filter_map(|one| one.delay)
        .for_each(|one| delays.record(one.delay));
    delays
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample that a sender leaves behind is of after its time.
    #[test]
    fn what_is_sent_again_is_counted_to_the_last_sample_where_the_flow_stops() {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        let sample = |ms, retransmissions| TcpSample {
            at: at(ms),
            cwnd: Bytes::new(3_000),
            rtt: Duration::from_millis(10),
            retransmissions,
        };
        let samples = [sample(5, 1), sample(15, 2), sample(21, 3)];
        let between = |from, to: Option<u64>| retransmitted(&samples, at(from), to.map(at));
        assert_eq!(between(0, None), 3);
        assert_eq!(between(0, Some(20)), 2);
        assert_eq!((between(0, Some(15)), between(15, None)), (2, 1));
        assert_eq!((between(0, Some(4)), between(21, None)), (0, 0));
    }
}
