//! A thousand random runs with loss, restarts and route changes. After a quiet period the
//! reservations on every hop are exactly those of [`crate::oracle`]; the only messages are
//! refreshes; no state is left over; and state that is no longer refreshed times out.

use crate::oracle::{Amount, Kind, Request, Requests, reservations};
use crate::rig::{Network, SECOND, bucket, is_done_again};
use crate::topology::{GROUP, Topology};
use engine::random::{Rng, Seed};
use engine::units::{Bandwidth, Duration, Probability};
use rsvp::node::{CallError, ReceiverId};
use rsvp::wire::{Descriptors, Flowspec, Real, SenderTemplate, Session, TokenBucket};
use std::collections::{BTreeMap, BTreeSet};

struct Run {
    network: Network,
    rng: Rng,
    session: Session,
    kind: Kind,
    /// The receivers of data: the destination, or the members of the group.
    ends: BTreeSet<usize>,
    senders: BTreeMap<SenderTemplate, usize>,
    requests: Requests,
    /// Programs whose request is pending: their node has no path state.
    waiting: BTreeSet<(usize, u64)>,
    avoided: Option<usize>,
    /// Links with an alternative path.
    spare: Vec<usize>,
}

fn flowspec((rate, size): Amount) -> Flowspec {
    Flowspec::ControlledLoad(TokenBucket {
        rate: Real::nearest(rate),
        bucket: Real::nearest(size),
        ..bucket(Bandwidth::mbit(1))
    })
}

impl Run {
    fn new(topology: Topology, spare: &[usize], group: bool, kind: Kind, seed: u64) -> Self {
        let mut rng = Seed(seed).fork("run").stream();
        let hosts = topology.hosts();
        let mut network = Network::on(topology, Bandwidth::gbit(100), seed);
        let mut ends = BTreeSet::new();
        let destination = if group {
            ends.extend(hosts.iter().filter(|_| rng.below(4) > 0));
            GROUP
        } else {
            let end = hosts[rng.below(hosts.len() as u64) as usize];
            ends.insert(end);
            network.topology.host(end)
        };
        network.reroute(&[], if group { &ends } else { const { &BTreeSet::new() } });
        let mut run = Self {
            network,
            session: Session {
                destination,
                protocol: 17,
                port: 5000,
                police: false,
            },
            kind,
            ends,
            senders: BTreeMap::new(),
            requests: Requests::new(),
            waiting: BTreeSet::new(),
            avoided: None,
            spare: spare.to_vec(),
            rng,
        };
        for _ in 0..2 {
            run.start();
        }
        run
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        let most = list.len() as u64;
        (most > 0).then(|| list[self.rng.below(most) as usize])
    }

    fn group(&self) -> bool {
        self.session.destination == GROUP
    }

    /// A host begins to send, or changes its Tspec.
    fn start(&mut self) {
        let hosts = self.network.topology.hosts();
        let own: Vec<usize> = hosts
            .into_iter()
            .filter(|host| self.group() || !self.ends.contains(host))
            .collect();
        let Some(host) = self.pick(&own) else {
            return;
        };
        let sender = SenderTemplate::Port {
            address: self.network.topology.host(host),
            port: 4000 + self.rng.below(2) as u16,
        };
        let rate = Bandwidth::mbit(1 + self.rng.below(3));
        let now = self.network.now;
        let sent = self.network.nodes[host].add_sender(now, self.session, sender, bucket(rate));
        match sent {
            Ok(()) => {
                self.senders.insert(sender, host);
            }
            // It is the only member of the group.
            Err(error) => assert_eq!(error, CallError::NoRoute),
        }
    }

    fn stop(&mut self) {
        let all: Vec<(SenderTemplate, usize)> =
            self.senders.iter().map(|(sender, at)| (*sender, *at)).collect();
        if let Some((sender, at)) = self.pick(&all) {
            let now = self.network.now;
            self.network.nodes[at].remove_sender(now, &self.session, sender);
            self.senders.remove(&sender);
        }
    }

    fn amount(&mut self) -> Amount {
        (125_000 * (1 + self.rng.below(40)), 1500 * (1 + self.rng.below(4)))
    }

    fn request(&mut self) {
        let ends: Vec<usize> = self.ends.iter().copied().collect();
        let Some(end) = self.pick(&ends) else {
            return;
        };
        let program = (end, self.rng.below(2));
        let shared = self.amount();
        let mut request = Request::default();
        for sender in self.senders.keys().copied().collect::<Vec<_>>() {
            if self.kind == Kind::Wildcard || self.rng.below(3) > 0 {
                let own = self.amount();
                let amount = if self.kind == Kind::Fixed { own } else { shared };
                request.amounts.insert(sender, amount);
            }
        }
        if !request.amounts.is_empty() {
            self.requests.insert(program, request);
            self.ask(program);
        }
    }

    fn ask(&mut self, (at, program): (usize, u64)) {
        let amounts = &self.requests[&(at, program)].amounts;
        let Some(first) = amounts.values().next().copied() else {
            return;
        };
        let wanted = match self.kind {
            Kind::Wildcard => Descriptors::Wildcard(flowspec(first)),
            Kind::Shared => Descriptors::SharedExplicit(flowspec(first), amounts.keys().copied().collect()),
            Kind::Fixed => {
                let each = amounts
                    .iter()
                    .map(|(sender, amount)| (flowspec(*amount), *sender));
                Descriptors::Fixed(each.collect())
            }
        };
        let now = self.network.now;
        match self.network.nodes[at].reserve(now, ReceiverId(program), &self.session, wanted) {
            Ok(()) => {
                self.waiting.remove(&(at, program));
            }
            Err(error) => {
                assert_eq!(error, CallError::NoPath);
                // Its previous request is still in force; a real program would release it too.
                self.network.nodes[at].release(now, ReceiverId(program), &self.session);
                self.waiting.insert((at, program));
            }
        }
    }

    fn release(&mut self) {
        let programs: Vec<(usize, u64)> = self.requests.keys().copied().collect();
        if let Some((at, program)) = self.pick(&programs) {
            let now = self.network.now;
            self.network.nodes[at].release(now, ReceiverId(program), &self.session);
            self.requests.remove(&(at, program));
            self.waiting.remove(&(at, program));
        }
    }

    /// A node loses all its state, and its programs.
    fn restart(&mut self) {
        let at = self.rng.below(self.network.nodes.len() as u64) as usize;
        self.network.restart(at);
        self.senders.retain(|_, host| *host != at);
        self.requests.retain(|(host, _), _| *host != at);
        self.waiting.retain(|(host, _)| *host != at);
    }

    fn reroute(&mut self) {
        self.avoided = match self.avoided {
            Some(_) => None,
            None => {
                let spare = self.spare.clone();
                self.pick(&spare)
            }
        };
        let avoided: Vec<usize> = self.avoided.into_iter().collect();
        let members = if self.group() {
            self.ends.clone()
        } else {
            BTreeSet::new()
        };
        self.network.reroute(&avoided, &members);
    }

    /// A host joins the group or leaves it, and its programs with it.
    fn membership(&mut self) {
        if !self.group() {
            return;
        }
        let hosts = self.network.topology.hosts();
        let Some(host) = self.pick(&hosts) else {
            return;
        };
        if self.ends.remove(&host) {
            let programs: Vec<(usize, u64)> = self
                .requests
                .keys()
                .filter(|(at, _)| *at == host)
                .copied()
                .collect();
            for (at, program) in programs {
                let now = self.network.now;
                self.network.nodes[at].release(now, ReceiverId(program), &self.session);
                self.requests.remove(&(at, program));
                self.waiting.remove(&(at, program));
            }
        } else {
            self.ends.insert(host);
        }
        let avoided: Vec<usize> = self.avoided.into_iter().collect();
        self.network.reroute(&avoided, &self.ends);
    }

    fn step(&mut self) {
        match self.rng.below(12) {
            0 | 1 => self.start(),
            2 => self.stop(),
            3..=6 => self.request(),
            7 => self.release(),
            8 => self.restart(),
            9 | 10 => self.reroute(),
            _ => self.membership(),
        }
        let before = self.network.sent;
        self.network.run(Duration::from_millis(50));
        // One event makes every node send one message per sender and direction, and another where
        // replies cross; plus the refreshes of this time.
        let items = self.network.nodes.len() * (self.senders.len() + 2);
        let sent = self.network.sent - before;
        assert!(sent <= 8 * items, "a storm: {sent} messages for {items} items");
        self.network.run(Duration::from_millis(self.rng.below(3000)));
    }

    fn check(&self, when: &str) {
        let tables = &self.network.tables;
        let destination = self.session.destination;
        let should = reservations(
            tables,
            destination,
            &self.senders,
            &self.ends,
            (self.kind, &self.requests),
        );
        assert_eq!(self.network.reserved(), should, "{when}");
    }

    /// No more messages than there is state to refresh.
    fn check_refreshes(&mut self) {
        let mut items = 0;
        for node in &self.network.nodes {
            for session in node.status() {
                items += session.psbs.iter().map(|psb| psb.outgoing.len()).sum::<usize>();
                let phops: BTreeSet<_> = session.sent_resvs.iter().map(|sent| sent.phop).collect();
                items += phops.len();
            }
        }
        let before = self.network.sent;
        self.network.run(SECOND.times(4));
        let sent = self.network.sent - before;
        // Four times on average; each interval is random, from 0.5 to 1.5 R.
        assert!(sent <= items * 6 + 4, "{sent} messages for {items} items in 4 s");
        assert!(
            sent * 5 >= items * 10,
            "{sent} messages for {items} items in 4 s are too few"
        );
    }

    fn is_empty(&self, nodes: impl IntoIterator<Item = usize>, when: &str) {
        for at in nodes {
            let node = &self.network.nodes[at];
            assert_eq!((node.senders(), node.reservations()), (0, 0), "{when}, node {at}");
            assert!(node.traffic_control().reserved.is_empty(), "{when}, node {at}");
            assert!(node.traffic_control().filters.is_empty(), "{when}, node {at}");
            assert_eq!(node.poll_timeout(), None, "{when}, node {at}");
            is_done_again(node);
            assert!(node.status().is_empty(), "{when}, node {at}");
        }
    }

    /// Returns the number of reservations at the end.
    fn run(&mut self) -> usize {
        self.network.loss = Probability::ratio(self.rng.below(4), 10);
        for _ in 0..8 {
            self.step();
        }
        self.network.loss = Probability::ZERO;
        // First Paths arrive, then the pending programs request.
        self.network.run(SECOND.times(8));
        for program in self.waiting.clone() {
            let known = &self.requests[&program].amounts;
            let reached = known.keys().any(|sender| self.senders.contains_key(sender));
            if reached || self.kind == Kind::Wildcard {
                self.ask(program);
            }
        }
        // Programs without a remaining sender were never served.
        for program in core::mem::take(&mut self.waiting) {
            self.requests.remove(&program);
        }
        self.network.run(SECOND.times(12));
        self.check("after a quiet period");
        self.check_refreshes();
        self.check("after more refreshes");
        self.network.reserved().len()
    }

    /// All programs end properly.
    fn end(&mut self) {
        let now = self.network.now;
        for (at, program) in self.requests.keys() {
            self.network.nodes[*at].release(now, ReceiverId(*program), &self.session);
        }
        for (sender, at) in &self.senders {
            self.network.nodes[*at].remove_sender(now, &self.session, *sender);
        }
        self.network.run(Duration::from_millis(50));
        self.is_empty(0..self.network.nodes.len(), "after all have ended");
    }

    /// All hosts die.
    fn die(&mut self) {
        let hosts = self.network.topology.hosts();
        self.network.dead.extend(&hosts);
        let routers: Vec<usize> = (0..self.network.nodes.len())
            .filter(|at| !hosts.contains(at))
            .collect();
        let busy = |run: &Self| routers.iter().any(|at| run.network.nodes[*at].senders() > 0);
        if busy(self) {
            // The last refreshes were sent up to one and a half seconds ago.
            self.network.run(Duration::from_millis(5250 - 1502));
            assert!(busy(self), "state timed out too early");
        }
        self.network.run(Duration::from_millis(1502 + 50));
        self.is_empty(routers, "5.3 s after the last refresh");
    }
}

fn runs(name: &str, topology: fn() -> Topology, spare: &[usize], seeds: core::ops::Range<u64>) {
    let count = seeds.clone().count();
    let mut busy = 0;
    for seed in seeds {
        let kind = [Kind::Wildcard, Kind::Fixed, Kind::Shared][(seed % 3) as usize];
        let group = seed / 3 % 2 == 0;
        let mut run = || {
            let mut run = Run::new(topology(), spare, group, kind, seed);
            busy += usize::from(run.run() > 0);
            if seed % 5 == 0 { run.die() } else { run.end() }
        };
        if let Err(panic) = std::panic::catch_unwind(core::panic::AssertUnwindSafe(&mut run)) {
            eprintln!("{name}, seed {seed}, {kind:?}, group {group}");
            std::panic::resume_unwind(panic);
        }
    }
    assert!(
        busy * 3 > count,
        "{name}: only {busy} runs ended with anything in force"
    );
}

#[test]
fn two_hundred_runs_in_a_row_with_two_paths() {
    runs("row", Topology::row, &[1, 3], 0..200);
}

#[test]
fn two_hundred_runs_on_a_dumbbell() {
    runs("dumbbell", Topology::dumbbell, &[], 200..400);
}

#[test]
fn two_hundred_runs_with_next_hops_on_one_ethernet() {
    runs("ethernet", Topology::ethernet, &[], 400..600);
}

#[test]
fn two_hundred_runs_on_a_ring() {
    runs("ring", Topology::ring, &[0, 1, 2, 3], 600..800);
}

#[test]
fn two_hundred_runs_on_an_ethernet_with_an_alternative_path() {
    runs("mesh", Topology::mesh, &[1], 800..1000);
}
