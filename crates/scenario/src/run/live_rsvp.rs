//! RSVP in a lab: the node of `suimon run` on every host that takes part, with its own sockets and
//! the kernel's routes. Senders reserve as `suimon reserve` does, receivers answer as `suimon
//! accept` does, and the classes are made on the lab's links.

use super::reserved_flows::ReservationLog;
use crate::lab::{Built, HostInterface};
use crate::lab_policies::HostTrees;
use crate::language::ReservationConfig;
use crate::{Error, Scenario};
use control::reservation::{
    FlowView, InstalledReservation, PathRefusal, ReservationRequest, ReservationState, Reservations,
    SenderView,
};
use control::rsvp_config::{AcceptRule, RsvpConfig, RsvpSettings};
use engine::classify::{Ports, Prefix};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use gateway::signalling::speaker::{self, Setup, SpeakerHandle};
use measure::numbers;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time;

/// How often nodes are asked whether they have what is reserved.
const LOOK: time::Duration = time::Duration::from_millis(10);

/// A node. Dropping it ends it.
struct LabNode {
    handle: SpeakerHandle,
    thread: Option<JoinHandle<()>>,
    start: u64,
}

impl LabNode {
    /// `start`: which start of this node it is, since no two have the same random choices.
    fn start(scenario: &Scenario, built: &Built, host: usize, start: u64) -> Result<Self, Error> {
        let seed = Seed(scenario.settings.seed.into()).fork(&scenario.hosts[host].name);
        let setup = Setup {
            seed: seed.fork(&start.to_string()),
            ..setup(scenario, built, host)
        };
        let started = built.lab.hosts()[host].call(|| speaker::start(setup))?;
        let (handle, thread) = started.map_err(Error::Started)?;
        Ok(Self {
            handle,
            thread: Some(thread),
            start,
        })
    }
}

impl Drop for LabNode {
    fn drop(&mut self) {
        self.handle.stop();
        // A panic of the thread has been printed already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Where a reservation has its first class on its path: the direction, and the names of that class.
pub(super) type FirstClass = (usize, BTreeSet<String>);

/// RSVP in a lab.
pub(super) struct LabRsvp {
    /// The nodes, by host.
    nodes: Mutex<BTreeMap<usize, LabNode>>,
    logs: Mutex<Vec<ReservationLog>>,
    /// Of each reservation that was in force.
    first: Mutex<BTreeMap<usize, FirstClass>>,
    /// The host of each interface's address.
    names: BTreeMap<IpAddr, String>,
}

impl LabRsvp {
    /// Starts the nodes of a scenario's reservations; none if it has no reservation.
    ///
    /// # Errors
    ///
    /// Returns an error if a node has no working socket.
    pub(super) fn start(scenario: &Scenario, built: &Built) -> Result<Self, Error> {
        let rsvp = Self {
            nodes: Mutex::default(),
            logs: Mutex::new(vec![
                ReservationLog::default();
                scenario.signalling.reservations.len()
            ]),
            first: Mutex::default(),
            names: names(built),
        };
        for host in scenario.rsvp_hosts() {
            rsvp.nodes()
                .insert(host, LabNode::start(scenario, built, host, 1)?);
        }
        Ok(rsvp)
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<usize, LabNode>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self, host: usize) -> Option<SpeakerHandle> {
        self.nodes().get(&host).map(|node| node.handle.clone())
    }

    /// The node of a host ends without a word and begins anew, without state.
    ///
    /// # Errors
    ///
    /// Returns an error if the new node has no working socket.
    pub(super) fn restart(&self, scenario: &Scenario, built: &Built, host: usize) -> Result<(), Error> {
        // Only one may have the sockets.
        let Some(former) = self.nodes().remove(&host) else {
            return Ok(());
        };
        let start = former.start + 1;
        drop(former);
        let node = LabNode::start(scenario, built, host, start)?;
        self.nodes().insert(host, node);
        Ok(())
    }

    /// Looks until the end which node on the present path of a reservation does not have it.
    /// `begin` is the start of the run.
    pub(super) fn look_for_lost(&self, scenario: &Scenario, built: &Built, begin: time::Instant) {
        let end = time::Duration::from_nanos(scenario.settings.duration.nanos());
        while begin.elapsed() < end {
            std::thread::sleep(LOOK);
            let now = Instant::from_nanos(begin.elapsed().as_nanos() as u64);
            let avoided = scenario.avoided_at(now);
            for (index, reservation) in scenario.signalling.reservations.iter().enumerate() {
                let path = scenario.path_around(scenario.flows[reservation.flow].between, &avoided);
                let mut hosts = path
                    .into_iter()
                    .map(|index| (index, scenario.directions[index].from));
                let lost = hosts.find(|(direction, host)| {
                    scenario.signalling.nodes.contains(host)
                        && !self.has(scenario, built, reservation, (*host, *direction))
                });
                // At the end senders take back what they have reserved.
                if begin.elapsed() >= end {
                    return;
                }
                let name = lost.map(|(_, host)| scenario.hosts[host].name.as_str());
                self.logs()[index].missing_at(now, name);
            }
        }
    }

    /// Whether a host has what is reserved for a flow that leaves it by this direction.
    fn has(
        &self,
        scenario: &Scenario,
        built: &Built,
        reservation: &ReservationConfig,
        (host, direction): (usize, usize),
    ) -> bool {
        self.installed(scenario, built, reservation, (host, direction))
            .is_some()
    }

    /// What is installed for a flow that leaves a host by this direction.
    fn installed(
        &self,
        scenario: &Scenario,
        built: &Built,
        reservation: &ReservationConfig,
        (host, direction): (usize, usize),
    ) -> Option<InstalledReservation> {
        let by = built.interfaces[host]
            .iter()
            .find(|interface| interface.direction == (direction / 2, direction % 2))?;
        let senders = self.senders(scenario, reservation, host).into_iter();
        let mut all = senders.flat_map(|sender| sender.reservations);
        all.find(|one| one.interface == by.name)
    }

    /// What the node of a host knows of the senders of a reservation.
    fn senders(&self, scenario: &Scenario, reservation: &ReservationConfig, host: usize) -> Vec<SenderView> {
        let wanted = request(scenario, reservation);
        let is_own = |flow: &FlowView| {
            (flow.to, flow.port, flow.protocol) == (wanted.to, wanted.port, wanted.protocol)
                && (Some(flow.from), flow.from_port) == (wanted.from, wanted.from_port)
        };
        let status = self.node(host).and_then(|node| node.status().ok());
        let mut senders = status.map_or_else(Vec::new, |status| status.senders);
        senders.retain(|sender| is_own(&sender.flow));
        senders
    }

    /// Notes the bound that the receiver of a reservation has from its path, and where on that its
    /// first class is.
    fn note_terms(&self, scenario: &Scenario, built: &Built, index: usize) {
        let reservation = &scenario.signalling.reservations[index];
        let between = scenario.flows[reservation.flow].between;
        let answered = self.senders(scenario, reservation, between[1]);
        let bound = answered.iter().filter_map(|sender| sender.bound_ns).max();
        self.logs()[index].bounded(bound.map(Duration::from_nanos));
        let with_class = |direction: usize| {
            let host = scenario.directions[direction].from;
            let installed = self.installed(scenario, built, reservation, (host, direction))?;
            Some((direction, installed.class?))
        };
        let found = scenario.path(between).into_iter().find_map(with_class);
        let Some((direction, class)) = found else {
            return;
        };
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let known = first.entry(index).or_default();
        if known.0 != direction {
            *known = (direction, BTreeSet::new());
        }
        known.1.insert(class);
    }

    /// Where a reservation has had its first class.
    pub(super) fn first_class(&self, index: usize) -> Option<FirstClass> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get(&index).cloned()
    }

    fn logs(&self) -> MutexGuard<'_, Vec<ReservationLog>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has become of each reservation so far.
    pub(super) fn read(&self) -> Vec<ReservationLog> {
        self.logs().clone()
    }

    /// Holds a reservation from its start to its stop. `begin` is the start of the run.
    pub(super) fn hold(&self, scenario: &Scenario, built: &Built, index: usize, begin: time::Instant) {
        let reservation = &scenario.signalling.reservations[index];
        let now = || Instant::from_nanos(begin.elapsed().as_nanos() as u64);
        let wait = |at: Instant| time::Duration::from_nanos(at.since(now()).nanos());
        let end = Instant::START + scenario.settings.duration;
        let stop = reservation.stop().map_or(end, |stop| stop.min(end));
        std::thread::sleep(wait(reservation.start()));
        let (updates, news) = mpsc::channel();
        let sender = scenario.flows[reservation.flow].between[0];
        let Some(node) = self.node(sender) else {
            return;
        };
        let lease = match node.reserve(&request(scenario, reservation), updates) {
            Ok(lease) => lease,
            Err(why) => return self.logs()[index].record(now(), format!("not announced: {why}")),
        };
        loop {
            match news.recv_timeout(wait(stop)) {
                Ok(state) => {
                    let reserved = matches!(state, ReservationState::Reserved { .. });
                    self.follow(index, now(), state);
                    if reserved {
                        self.note_terms(scenario, built, index);
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    return self.logs()[index].record(now(), "its node has ended".into());
                }
            }
        }
        drop(lease);
        if reservation.stop().is_some() {
            let log = &mut self.logs()[index];
            log.ended(now());
            log.record(now(), "withdrawn by its sender".into());
        }
    }

    fn follow(&self, index: usize, now: Instant, state: ReservationState) {
        let log = &mut self.logs()[index];
        match state {
            ReservationState::Reserved {
                rate_bps, guaranteed, ..
            } => log.begun(now, Bandwidth::bits_per_sec(rate_bps), guaranteed),
            ReservationState::Lost { .. } => {
                log.ended(now);
                log.record(now, "no longer in force".into());
            }
            ReservationState::Refused(why) => log.record(now, self.refusal(&why)),
            ReservationState::Asked { .. } | ReservationState::Offer(_) => {}
        }
    }

    fn refusal(&self, why: &PathRefusal) -> String {
        let available = why
            .left_bps
            .map_or_else(String::new, |left| format!(", available {}", numbers::rate(left)));
        let delay = why.possible_delay_us.map_or_else(String::new, |micros| {
            format!(
                "; it could guarantee a delay of {}",
                numbers::time(micros * 1_000)
            )
        });
        let asked = numbers::rate(why.asked_bps);
        let node = self.names.get(&why.node).cloned();
        let node = node.unwrap_or_else(|| why.node.to_string());
        format!(
            "refused by {node}: {}; requested {asked}{available}{delay}",
            why.reason
        )
    }
}

fn names(built: &Built) -> BTreeMap<IpAddr, String> {
    let hosts = built.lab.hosts().iter().zip(&built.interfaces);
    let of = |(host, interfaces): (&lab::Host, &Vec<HostInterface>)| {
        let addresses = interfaces.iter().flat_map(|interface| interface.addresses);
        let named = |address: lab::Address| (address.ip, host.name().to_owned());
        addresses.map(named).collect::<Vec<_>>()
    };
    hosts.flat_map(of).collect()
}

/// The node of a host: on all its interfaces, with the policies of the links that leave by them.
fn setup(scenario: &Scenario, built: &Built, host: usize) -> Setup {
    let interfaces = &built.interfaces[host];
    let of = |interface: &HostInterface| built.policies.of(interface.direction).cloned();
    let name = scenario.hosts[host].name.clone();
    let config = RsvpConfig {
        interfaces: interfaces
            .iter()
            .map(|interface| interface.name.clone())
            .collect(),
        settings: RsvpSettings::refreshed(scenario.signalling.refresh),
        unprotected: Vec::new(),
        accept: rules(scenario, host),
    };
    Setup {
        config,
        everywhere: false,
        keys: None,
        trees: Box::new(HostTrees(interfaces.iter().filter_map(of).collect())),
        seed: Seed(scenario.settings.seed.into()).fork(&name),
        log: Box::new(move |line| eprintln!("rsvp of {name}: {line}")),
    }
}

/// How this host answers the senders of its reservations.
fn rules(scenario: &Scenario, host: usize) -> Vec<AcceptRule> {
    let reservations = scenario.signalling.reservations.iter();
    let own = reservations.filter(|one| scenario.flows[one.flow].between[1] == host);
    let rule = |reservation: &ReservationConfig| {
        let (address, key) = (
            scenario.hosts[host].address,
            &scenario.flows[reservation.flow].key,
        );
        let width = if address.is_ipv4() { 32 } else { 128 };
        AcceptRule {
            to: Prefix::new(address, width),
            protocol: Some(key.protocol),
            port: key.destination_port.map(Ports::one),
            style: reservation.settings.style,
            ..AcceptRule::default()
        }
    };
    own.map(rule).collect()
}

/// What the sender of a reservation asks for.
fn request(scenario: &Scenario, reservation: &ReservationConfig) -> ReservationRequest {
    let (flow, settings) = (&scenario.flows[reservation.flow], &reservation.settings);
    let [from, to] = flow.between.map(|host| scenario.hosts[host].address);
    ReservationRequest {
        to,
        port: flow.key.destination_port.unwrap_or(0),
        protocol: flow.key.protocol,
        from: Some(from),
        from_port: flow.key.source_port.unwrap_or(0),
        rate_bps: settings.rate.bits(),
        burst_bytes: settings.burst.map_or(0, Bytes::get),
        packet_bytes: u32::try_from(settings.packet.get()).unwrap_or(u32::MAX),
        delay_us: settings.delay.map(|delay: Duration| delay.nanos() / 1_000),
    }
}
