//! The applications beside RSVP in a simulation: flows that are announced to the network, the
//! receivers that reserve for them, and what became of it.
//!
//! A receiver answers each Path by the rules of `suimon accept`: a request that was never in force
//! and is refused is given up; one that was in force stays requested.

use super::host_routes::SimNode;
use super::outcome::{PromisedDelay, ReservationOutcome};
use crate::Scenario;
use crate::language::ReservationConfig;
use control::rsvp_config::AcceptStyle;
use engine::units::{Bandwidth, Duration, Instant};
use measure::numbers;
use rsvp::node::{Event, ReceiverId};
use rsvp::reasons::reason;
use rsvp::request::{SenderRequest, bound, flowspec};
use rsvp::traffic_control::{AdmissionFailure, InterfaceId};
use rsvp::wire::{Adspec, Descriptors, ErrorCode, Flowspec, SenderTemplate, Session, TokenBucket, code};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// The nodes, by host.
pub(super) type SimNodes<'a> = BTreeMap<usize, &'a mut SimNode>;

/// The most events that are kept of a reservation.
const MOST: usize = 100;

/// What has become of a reservation.
#[derive(Clone, Debug, Default)]
pub struct ReservationLog {
    /// What happened, in the order of time.
    pub events: Vec<(Instant, String)>,
    /// For how long it was in force, until `since`.
    in_force: Duration,
    /// Since when it is in force for all its senders, at each node.
    since: Option<Instant>,
    /// Its senders have heard that it is.
    heard: bool,
    /// A node on the path does not have it.
    missing: bool,
    /// That was found while it was in force.
    lost: bool,
    /// The senders that it is in force for.
    senders: BTreeSet<SenderTemplate>,
    /// The greatest bound on the delay in queues of what its receivers asked for.
    bound: Option<Duration>,
}

impl ReservationLog {
    /// For how long it has been in force by now, for all copies of its flow.
    pub fn in_force(&self, now: Instant) -> Duration {
        self.in_force + self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// What a report says of it.
    pub(super) fn outcome(
        &self,
        now: Instant,
        reservation: &ReservationConfig,
        scenario: &Scenario,
        measured: Option<Duration>,
    ) -> ReservationOutcome {
        let delay = promised(scenario, reservation).map(|(queues, flight)| PromisedDelay {
            promised: queues + flight,
            bound: self.bound.map(|bound| bound + flight),
            measured,
        });
        ReservationOutcome {
            delay,
            name: reservation.name.clone(),
            flow: scenario.flows[reservation.flow].name.clone(),
            in_force: self.in_force(now),
            events: self.events.clone(),
            contract: None,
        }
    }

    /// It is in force for all its senders from now on.
    pub(super) fn begun(&mut self, now: Instant, rate: Bandwidth, guaranteed: bool) {
        self.heard = true;
        if !self.missing {
            self.since.get_or_insert(now);
        }
        let service = match guaranteed {
            true => "guaranteed service",
            false => "controlled load",
        };
        let rate = numbers::rate(rate.bits());
        self.record(now, format!("in force: {rate}, {service}"));
    }

    /// Its receiver has asked for what has this bound.
    pub(super) fn bounded(&mut self, bound: Option<Duration>) {
        self.bound = self.bound.max(bound);
    }

    pub(super) fn record(&mut self, now: Instant, event: String) {
        let again = self.events.last().is_some_and(|(_, last)| *last == event);
        if !again && self.events.len() < MOST {
            self.events.push((now, event));
        }
    }

    /// Its senders hear that it is no longer in force.
    pub(super) fn ended(&mut self, now: Instant) {
        self.heard = false;
        self.pause(now);
    }

    fn pause(&mut self, now: Instant) {
        self.in_force = self.in_force(now);
        self.since = None;
    }

    /// This node on its path does not have it, or each has it. Its senders may not know that yet.
    pub(super) fn missing_at(&mut self, now: Instant, node: Option<&str>) {
        self.missing = node.is_some();
        match node {
            Some(node) if self.since.is_some() => {
                self.pause(now);
                self.lost = true;
                self.record(now, format!("{node} does not have it"));
            }
            None if self.heard && self.since.is_none() => {
                self.since = Some(now);
                if std::mem::take(&mut self.lost) {
                    self.record(now, "in force again at each node".into());
                }
            }
            _ => {}
        }
    }
}

/// A receiver's request.
#[derive(Debug)]
struct FlowAnswer {
    reservation: usize,
    /// The flowspec for each sender.
    requested: BTreeMap<SenderTemplate, Flowspec>,
    confirmed: bool,
}

/// What a sender does next.
#[derive(Clone, Copy, Debug)]
enum SenderStep {
    Announce,
    Withdraw,
}

/// The delay that a reservation promises: in queues, and the propagation on its path.
pub(crate) fn promised(scenario: &Scenario, reservation: &ReservationConfig) -> Option<(Duration, Duration)> {
    let queues = reservation.settings.delay?;
    let path = scenario.path(scenario.flows[reservation.flow].between);
    let flights = path
        .iter()
        .map(|&index| scenario.directions[index].settings.delay);
    Some((queues, flights.fold(Duration::ZERO, |sum, delay| sum + delay)))
}

/// All reservations of a scenario.
#[derive(Debug)]
pub(super) struct ReservedFlows {
    logs: Vec<ReservationLog>,
    /// What senders will do, in the order of time.
    steps: VecDeque<(Instant, usize, SenderStep)>,
    answers: BTreeMap<ReceiverId, FlowAnswer>,
}

impl ReservedFlows {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let reservations = &scenario.signalling.reservations;
        let mut steps = Vec::new();
        for (index, reservation) in reservations.iter().enumerate() {
            steps.push((reservation.start(), index, SenderStep::Announce));
            steps.extend(reservation.stop().map(|stop| (stop, index, SenderStep::Withdraw)));
        }
        steps.sort_by_key(|(at, ..)| *at);
        Self {
            logs: vec![ReservationLog::default(); reservations.len()],
            steps: steps.into(),
            answers: BTreeMap::new(),
        }
    }

    pub(super) fn due(&self) -> Instant {
        self.steps.front().map_or(Instant::NEVER, |(at, ..)| *at)
    }

    pub(super) fn logs(&self) -> &[ReservationLog] {
        &self.logs
    }

    /// This node on the path of a reservation does not have it, or each has it.
    pub(super) fn missing_at(&mut self, now: Instant, index: usize, node: Option<&str>) {
        self.logs[index].missing_at(now, node);
    }

    /// Does what is due, and answers the upcalls of all nodes.
    pub(super) fn turn(&mut self, scenario: &Scenario, now: Instant, nodes: &mut SimNodes<'_>) {
        while let Some(&(at, index, step)) = self.steps.front()
            && at <= now
        {
            self.steps.pop_front();
            self.step(scenario, now, (index, step), nodes);
        }
        for (host, node) in nodes {
            while let Some(event) = node.poll_event() {
                self.upcall(scenario, now, (*host, node), event);
            }
        }
    }

    fn step(
        &mut self,
        scenario: &Scenario,
        now: Instant,
        (index, step): (usize, SenderStep),
        nodes: &mut SimNodes<'_>,
    ) {
        let reservation = &scenario.signalling.reservations[index];
        let flow = &scenario.flows[reservation.flow];
        let Some(node) = nodes.get_mut(&flow.between[0]) else {
            return;
        };
        let session = session(scenario, reservation);
        for sender in senders(scenario, reservation) {
            match step {
                SenderStep::Announce => {
                    let tspec = tspec(scenario, reservation);
                    if let Err(error) = node.add_sender(now, session, sender, tspec) {
                        self.logs[index].record(now, format!("not announced: {error:?}"));
                    }
                }
                SenderStep::Withdraw => node.remove_sender(now, &session, sender),
            }
        }
        if let SenderStep::Withdraw = step {
            let log = &mut self.logs[index];
            log.senders.clear();
            log.ended(now);
            log.record(now, "withdrawn by its sender".into());
        }
    }

    fn upcall(
        &mut self,
        scenario: &Scenario,
        now: Instant,
        (host, node): (usize, &mut SimNode),
        event: Event,
    ) {
        match event {
            Event::Path {
                session,
                sender,
                tspec,
                adspec,
            } => {
                let Some(index) = self.of(scenario, &session, Some(&sender)) else {
                    return;
                };
                self.path(scenario, now, node, (index, sender), (&tspec, adspec.as_ref()));
            }
            Event::PathEnded { session, sender } => {
                if let Some(index) = self.of(scenario, &session, Some(&sender)) {
                    self.path_ended(scenario, now, node, (index, sender));
                }
            }
            Event::Confirmed { receiver, .. } => {
                if let Some(answer) = self.answers.get_mut(&receiver) {
                    answer.confirmed = true;
                }
            }
            Event::ReservationFailed {
                session,
                receiver,
                error,
                ..
            } => {
                // These say that the Path is on its way, or gone.
                if !matches!(error.code, code::NO_PATH | code::NO_SENDER) {
                    let node_at = host_name(scenario, error.node);
                    let why = reason(error.code, error.value);
                    self.failed(
                        now,
                        node,
                        (receiver, &session),
                        format!("refused by {node_at}: {why}"),
                    );
                }
            }
            Event::Reserved {
                session,
                sender,
                flowspec,
                ..
            } => {
                if let Some(index) = self.of(scenario, &session, Some(&sender)) {
                    self.reserved(scenario, now, (index, sender), &flowspec);
                }
            }
            Event::Unreserved { session, sender } => {
                if let Some(index) = self.of(scenario, &session, Some(&sender))
                    && self.logs[index].senders.remove(&sender)
                {
                    self.logs[index].ended(now);
                    self.logs[index].record(now, "no longer in force".into());
                }
            }
            Event::AdmissionFailed {
                session,
                interface,
                failure,
                requested,
                ..
            } => {
                let sender = match &requested {
                    Descriptors::Fixed(list) => list.first().map(|(_, sender)| sender),
                    Descriptors::SharedExplicit(_, senders) => senders.first(),
                    Descriptors::Wildcard(_) | Descriptors::Unknown(..) => None,
                };
                let Some(index) = self.of(scenario, &session, sender) else {
                    return;
                };
                let text = refusal(scenario, (host, interface), &failure);
                self.logs[index].record(now, text);
            }
            // The receiver does not report errors to the sender here, and the limits of a node
            // are beyond what a scenario reserves.
            Event::PathFailed { .. } | Event::Limited { .. } => {}
        }
    }

    /// A Path has reached the receiver: it reserves.
    fn path(
        &mut self,
        scenario: &Scenario,
        now: Instant,
        node: &mut SimNode,
        (index, sender): (usize, SenderTemplate),
        (tspec, adspec): (&TokenBucket, Option<&Adspec>),
    ) {
        let reservation = &scenario.signalling.reservations[index];
        match flowspec(tspec, adspec, reservation.settings.delay) {
            Ok(flowspec) => {
                let bound = bound(&flowspec, adspec);
                self.logs[index].bounded(bound);
                let receiver = receiver(reservation, index, &sender);
                let answer = self.answers.entry(receiver).or_insert_with(|| FlowAnswer {
                    reservation: index,
                    requested: BTreeMap::new(),
                    confirmed: false,
                });
                answer.requested.insert(sender, flowspec);
                self.request(scenario, now, node, receiver);
            }
            Err(ErrorCode { code, value }) => {
                let text = format!("refused by the receiver: {}", reason(code, value));
                self.logs[index].record(now, text);
            }
        }
    }

    fn path_ended(
        &mut self,
        scenario: &Scenario,
        now: Instant,
        node: &mut SimNode,
        (index, sender): (usize, SenderTemplate),
    ) {
        let reservation = &scenario.signalling.reservations[index];
        let receiver = receiver(reservation, index, &sender);
        let Some(answer) = self.answers.get_mut(&receiver) else {
            return;
        };
        answer.requested.remove(&sender);
        if answer.requested.is_empty() {
            self.answers.remove(&receiver);
            node.release(now, receiver, &session(scenario, reservation));
        } else {
            self.request(scenario, now, node, receiver);
        }
    }

    fn request(&mut self, scenario: &Scenario, now: Instant, node: &mut SimNode, receiver: ReceiverId) {
        let Some(answer) = self.answers.get(&receiver) else {
            return;
        };
        let reservation = &scenario.signalling.reservations[answer.reservation];
        let Ok(Some(merged)) = Flowspec::merged(answer.requested.values()) else {
            return;
        };
        let senders = answer.requested.keys().copied();
        let wanted = match reservation.settings.style {
            AcceptStyle::Fixed => Descriptors::Fixed(senders.map(|sender| (merged, sender)).collect()),
            AcceptStyle::SharedExplicit => Descriptors::SharedExplicit(merged, senders.collect()),
            AcceptStyle::Wildcard => Descriptors::Wildcard(merged),
        };
        let session = session(scenario, reservation);
        if let Err(error) = node.reserve(now, receiver, &session, wanted) {
            self.logs[answer.reservation].record(now, format!("not requested: {error:?}"));
        }
    }

    /// A request has failed: one that was never in force is given up.
    fn failed(
        &mut self,
        now: Instant,
        node: &mut SimNode,
        (receiver, session): (ReceiverId, &Session),
        text: String,
    ) {
        let Some(answer) = self.answers.get(&receiver) else {
            return;
        };
        self.logs[answer.reservation].record(now, text);
        if !answer.confirmed {
            self.answers.remove(&receiver);
            node.release(now, receiver, session);
        }
    }

    /// The sender learns that every hop has admitted it.
    fn reserved(
        &mut self,
        scenario: &Scenario,
        now: Instant,
        (index, sender): (usize, SenderTemplate),
        flowspec: &Flowspec,
    ) {
        let reservation = &scenario.signalling.reservations[index];
        let log = &mut self.logs[index];
        log.senders.insert(sender);
        if log.senders.len() < senders(scenario, reservation).count() || log.heard {
            return;
        }
        let (rate, guaranteed) = match flowspec {
            Flowspec::ControlledLoad(bucket) => (bucket.rate, false),
            Flowspec::Guaranteed { rate, .. } => (*rate, true),
        };
        let rate = Bandwidth::bits_per_sec(rate.ceil().saturating_mul(8));
        log.begun(now, rate, guaranteed);
    }

    /// The reservation of a sender, or the first of a session.
    fn of(&self, scenario: &Scenario, of: &Session, sender: Option<&SenderTemplate>) -> Option<usize> {
        let plain = Session { police: false, ..*of };
        let mut all = scenario.signalling.reservations.iter();
        all.position(|reservation| {
            session(scenario, reservation) == plain
                && sender.is_none_or(|sender| senders(scenario, reservation).any(|own| own == *sender))
        })
    }
}

/// What a node says of a request that it refuses on one of its interfaces.
fn refusal(
    scenario: &Scenario,
    (host, interface): (usize, InterfaceId),
    failure: &AdmissionFailure,
) -> String {
    let leaving = scenario
        .directions
        .iter()
        .filter(|direction| direction.from == host);
    let mut names = leaving.map(|direction| direction.name.as_str());
    let link = names.nth(interface as usize).unwrap_or_default();
    let delay = failure.possible_delay.map_or_else(String::new, |delay| {
        format!("; it could guarantee a delay of {}", numbers::time(delay.nanos()))
    });
    format!(
        "{link}: refused: {}; requested {}, available {}{delay}",
        reason(failure.error.code, failure.error.value),
        numbers::rate(failure.requested.bits()),
        numbers::rate(failure.available.bits())
    )
}

fn host_name(scenario: &Scenario, address: IpAddr) -> String {
    let found = scenario.hosts.iter().find(|host| host.address == address);
    found.map_or_else(|| address.to_string(), |host| host.name.clone())
}

/// FF has a request for each sender, the others one for all.
fn receiver(reservation: &ReservationConfig, index: usize, sender: &SenderTemplate) -> ReceiverId {
    let own = match (reservation.settings.style, sender) {
        (AcceptStyle::Fixed, SenderTemplate::Port { port, .. }) => u64::from(*port) + 1,
        _ => 0,
    };
    ReceiverId(((index as u64) << 32) | own)
}

pub(super) fn session(scenario: &Scenario, reservation: &ReservationConfig) -> Session {
    let flow = &scenario.flows[reservation.flow];
    Session {
        destination: scenario.hosts[flow.between[1]].address,
        protocol: flow.key.protocol,
        port: flow.key.destination_port.unwrap_or(0),
        police: false,
    }
}

pub(super) fn senders<'a>(
    scenario: &'a Scenario,
    reservation: &ReservationConfig,
) -> impl Iterator<Item = SenderTemplate> + use<'a> {
    let flow = &scenario.flows[reservation.flow];
    let address = scenario.hosts[flow.between[0]].address;
    (0..flow.connections()).map(move |connection| SenderTemplate::Port {
        address,
        port: flow.key(connection).source_port.unwrap_or(0),
    })
}

fn tspec(scenario: &Scenario, reservation: &ReservationConfig) -> TokenBucket {
    let settings = &reservation.settings;
    let mtu = scenario.flows[reservation.flow].mtu.get();
    let request = SenderRequest {
        rate: settings.rate,
        burst: settings.burst,
        packet: u32::try_from(settings.packet.get()).unwrap_or(u32::MAX),
    };
    request.tspec(u32::try_from(mtu).unwrap_or(u32::MAX))
}
