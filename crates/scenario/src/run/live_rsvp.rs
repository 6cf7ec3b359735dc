//! RSVP in a lab: the node of `suimon run` on every host that takes part, with its own sockets and
//! the kernel's routes. Senders reserve as `suimon reserve` does, receivers answer as `suimon
//! accept` does, and the classes are made on the lab's links.

use super::reserved_flows::ReservationLog;
use crate::lab::{Built, HostInterface};
use crate::lab_policies::HostTrees;
use crate::language::ReservationConfig;
use crate::{Error, Scenario};
use control::reservation::{PathRefusal, ReservationRequest, ReservationState, Reservations};
use control::rsvp_config::{AcceptRule, RsvpConfig, RsvpSettings};
use engine::classify::{Ports, Prefix};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use gateway::signalling::speaker::{self, Setup, SpeakerHandle};
use measure::numbers;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time;

/// RSVP in a lab. Dropping it ends the nodes.
pub(super) struct LabRsvp {
    /// The nodes, by host.
    nodes: BTreeMap<usize, (SpeakerHandle, JoinHandle<()>)>,
    logs: Mutex<Vec<ReservationLog>>,
    /// The host of each interface's address.
    names: BTreeMap<IpAddr, String>,
}

impl Drop for LabRsvp {
    fn drop(&mut self) {
        for (_, (node, thread)) in std::mem::take(&mut self.nodes) {
            node.stop();
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

impl LabRsvp {
    /// Starts the nodes of a scenario's reservations; none if it has no reservation.
    ///
    /// # Errors
    ///
    /// Returns an error if a node has no working socket.
    pub(super) fn start(scenario: &Scenario, built: &Built) -> Result<Self, Error> {
        let mut rsvp = Self {
            nodes: BTreeMap::new(),
            logs: Mutex::new(vec![
                ReservationLog::default();
                scenario.signalling.reservations.len()
            ]),
            names: names(built),
        };
        for host in scenario.rsvp_hosts() {
            let setup = setup(scenario, built, host);
            let started = built.lab.hosts()[host].call(|| speaker::start(setup))?;
            rsvp.nodes.insert(host, started.map_err(Error::Started)?);
        }
        Ok(rsvp)
    }

    fn logs(&self) -> MutexGuard<'_, Vec<ReservationLog>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has become of each reservation so far.
    pub(super) fn read(&self) -> Vec<ReservationLog> {
        self.logs().clone()
    }

    /// Holds a reservation from its start to its stop. `begin` is the start of the run.
    pub(super) fn hold(&self, scenario: &Scenario, index: usize, begin: time::Instant) {
        let reservation = &scenario.signalling.reservations[index];
        let now = || Instant::from_nanos(begin.elapsed().as_nanos() as u64);
        let wait = |at: Instant| time::Duration::from_nanos(at.since(now()).nanos());
        let end = Instant::START + scenario.settings.duration;
        let stop = reservation.stop().map_or(end, |stop| stop.min(end));
        std::thread::sleep(wait(reservation.start()));
        let (updates, news) = mpsc::channel();
        let sender = scenario.flows[reservation.flow].between[0];
        let Some((node, _)) = self.nodes.get(&sender) else {
            return;
        };
        let lease = match node.reserve(&request(scenario, reservation), updates) {
            Ok(lease) => lease,
            Err(why) => return self.logs()[index].record(now(), format!("not announced: {why}")),
        };
        loop {
            match news.recv_timeout(wait(stop)) {
                Ok(state) => self.follow(index, now(), state),
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
