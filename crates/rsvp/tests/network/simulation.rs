//! A thousand courses of events, with loss, restarts and changes of routes: when it has been quiet
//! for a while, what is in force on every hop is exactly what [`crate::oracle`] says; messages are
//! no more than refreshes; nothing is left behind; and what is no longer refreshed dies in its
//! time.

use crate::oracle::{Amount, Kind, Wish, Wishes, promises};
use crate::rig::{Network, SECOND, bucket};
use crate::topology::{GROUP, Topology};
use engine::random::{Rng, Seed};
use engine::units::{Bandwidth, Duration, Probability};
use rsvp::node::{CallError, ReceiverId};
use rsvp::wire::{Descriptors, Flowspec, Real, SenderTemplate, Session, TokenBucket};
use std::collections::{BTreeMap, BTreeSet};

struct Course {
    network: Network,
    luck: Rng,
    session: Session,
    kind: Kind,
    /// Where data arrive: the destination, or the members of the group.
    ends: BTreeSet<usize>,
    senders: BTreeMap<SenderTemplate, usize>,
    wishes: Wishes,
    /// Programs whose wish was not heard yet: their node knew no sender.
    waiting: BTreeSet<(usize, u64)>,
    avoided: Option<usize>,
    /// Links that there is a way round.
    spare: Vec<usize>,
}

fn flowspec((rate, size): Amount) -> Flowspec {
    Flowspec::ControlledLoad(TokenBucket {
        rate: Real::nearest(rate),
        bucket: Real::nearest(size),
        ..bucket(Bandwidth::mbit(1))
    })
}

impl Course {
    fn new(topology: Topology, spare: &[usize], group: bool, kind: Kind, seed: u64) -> Self {
        let mut luck = Seed(seed).fork("course").stream();
        let hosts = topology.hosts();
        let mut network = Network::on(topology, Bandwidth::gbit(100), seed);
        let mut ends = BTreeSet::new();
        let destination = if group {
            ends.extend(hosts.iter().filter(|_| luck.below(4) > 0));
            GROUP
        } else {
            let end = hosts[luck.below(hosts.len() as u64) as usize];
            ends.insert(end);
            network.topology.host(end)
        };
        network.reroute(&[], if group { &ends } else { const { &BTreeSet::new() } });
        let mut course = Self {
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
            wishes: Wishes::new(),
            waiting: BTreeSet::new(),
            avoided: None,
            spare: spare.to_vec(),
            luck,
        };
        for _ in 0..2 {
            course.start();
        }
        course
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        let most = list.len() as u64;
        (most > 0).then(|| list[self.luck.below(most) as usize])
    }

    fn group(&self) -> bool {
        self.session.destination == GROUP
    }

    /// A host begins to send, or says something else of what it sends.
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
            port: 4000 + self.luck.below(2) as u16,
        };
        let rate = Bandwidth::mbit(1 + self.luck.below(3));
        let now = self.network.now;
        let sent = self.network.nodes[host].add_sender(now, self.session, sender, bucket(rate));
        match sent {
            Ok(()) => {
                self.senders.insert(sender, host);
            }
            // Nobody but itself is in the group.
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
        (
            125_000 * (1 + self.luck.below(40)),
            1500 * (1 + self.luck.below(4)),
        )
    }

    fn wish(&mut self) {
        let ends: Vec<usize> = self.ends.iter().copied().collect();
        let Some(end) = self.pick(&ends) else {
            return;
        };
        let program = (end, self.luck.below(2));
        let shared = self.amount();
        let mut wish = Wish::default();
        for sender in self.senders.keys().copied().collect::<Vec<_>>() {
            if self.kind == Kind::Wildcard || self.luck.below(3) > 0 {
                let own = self.amount();
                let amount = if self.kind == Kind::Fixed { own } else { shared };
                wish.amounts.insert(sender, amount);
            }
        }
        if !wish.amounts.is_empty() {
            self.wishes.insert(program, wish);
            self.ask(program);
        }
    }

    fn ask(&mut self, (at, program): (usize, u64)) {
        let amounts = &self.wishes[&(at, program)].amounts;
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
                // What it asked before is in force still; a real program would release it too.
                self.network.nodes[at].release(now, ReceiverId(program), &self.session);
                self.waiting.insert((at, program));
            }
        }
    }

    fn unwish(&mut self) {
        let programs: Vec<(usize, u64)> = self.wishes.keys().copied().collect();
        if let Some((at, program)) = self.pick(&programs) {
            let now = self.network.now;
            self.network.nodes[at].release(now, ReceiverId(program), &self.session);
            self.wishes.remove(&(at, program));
            self.waiting.remove(&(at, program));
        }
    }

    /// A node loses all it knew; programs on it are gone with it.
    fn restart(&mut self) {
        let at = self.luck.below(self.network.nodes.len() as u64) as usize;
        self.network.restart(at);
        self.senders.retain(|_, host| *host != at);
        self.wishes.retain(|(host, _), _| *host != at);
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
                .wishes
                .keys()
                .filter(|(at, _)| *at == host)
                .copied()
                .collect();
            for (at, program) in programs {
                let now = self.network.now;
                self.network.nodes[at].release(now, ReceiverId(program), &self.session);
                self.wishes.remove(&(at, program));
                self.waiting.remove(&(at, program));
            }
        } else {
            self.ends.insert(host);
        }
        let avoided: Vec<usize> = self.avoided.into_iter().collect();
        self.network.reroute(&avoided, &self.ends);
    }

    fn step(&mut self) {
        match self.luck.below(12) {
            0 | 1 => self.start(),
            2 => self.stop(),
            3..=6 => self.wish(),
            7 => self.unwish(),
            8 => self.restart(),
            9 | 10 => self.reroute(),
            _ => self.membership(),
        }
        let before = self.network.sent;
        self.network.run(Duration::from_millis(50));
        // One thing that happens has every node send something once about each sender, in each
        // direction, and once more where answers cross; and the refreshes of this time.
        let items = self.network.nodes.len() * (self.senders.len() + 2);
        let sent = self.network.sent - before;
        assert!(sent <= 8 * items, "a storm: {sent} messages for {items} items");
        self.network.run(Duration::from_millis(self.luck.below(3000)));
    }

    fn check(&self, when: &str) {
        let tables = &self.network.tables;
        let destination = self.session.destination;
        let should = promises(
            tables,
            destination,
            &self.senders,
            &self.ends,
            (self.kind, &self.wishes),
        );
        assert_eq!(self.network.promised(), should, "{when}");
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
        // Four times on average, each interval at random from a half to one and a half.
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
            assert!(node.traffic_control().promised.is_empty(), "{when}, node {at}");
            assert!(node.traffic_control().filters.is_empty(), "{when}, node {at}");
            assert_eq!(node.poll_timeout(), None, "{when}, node {at}");
            assert!(node.status().is_empty(), "{when}, node {at}");
        }
    }

    /// Says how many promises there are in the end.
    fn run(&mut self) -> usize {
        self.network.loss = Probability::ratio(self.luck.below(4), 10);
        for _ in 0..8 {
            self.step();
        }
        self.network.loss = Probability::ZERO;
        // Paths come through, then those that waited for them ask.
        self.network.run(SECOND.times(8));
        for program in self.waiting.clone() {
            let known = &self.wishes[&program].amounts;
            let reached = known.keys().any(|sender| self.senders.contains_key(sender));
            if reached || self.kind == Kind::Wildcard {
                self.ask(program);
            }
        }
        // Those that no sender is left for have never been heard.
        for program in core::mem::take(&mut self.waiting) {
            self.wishes.remove(&program);
        }
        self.network.run(SECOND.times(12));
        self.check("when it has been quiet");
        self.check_refreshes();
        self.check("after more refreshes");
        self.network.promised().len()
    }

    /// All say that they end.
    fn end(&mut self) {
        let now = self.network.now;
        for (at, program) in self.wishes.keys() {
            self.network.nodes[*at].release(now, ReceiverId(*program), &self.session);
        }
        for (sender, at) in &self.senders {
            self.network.nodes[*at].remove_sender(now, &self.session, *sender);
        }
        self.network.run(Duration::from_millis(50));
        self.is_empty(0..self.network.nodes.len(), "when all have ended");
    }

    /// All hosts die.
    fn die(&mut self) {
        let hosts = self.network.topology.hosts();
        self.network.dead.extend(&hosts);
        let routers: Vec<usize> = (0..self.network.nodes.len())
            .filter(|at| !hosts.contains(at))
            .collect();
        let busy = |course: &Self| routers.iter().any(|at| course.network.nodes[*at].senders() > 0);
        if busy(self) {
            // The last refreshes came up to one and a half seconds ago.
            self.network.run(Duration::from_millis(5250 - 1502));
            assert!(busy(self), "state died before its time");
        }
        self.network.run(Duration::from_millis(1502 + 50));
        self.is_empty(routers, "5.3 s after the last refresh");
    }
}

fn courses(name: &str, topology: fn() -> Topology, spare: &[usize], seeds: core::ops::Range<u64>) {
    let count = seeds.clone().count();
    let mut busy = 0;
    for seed in seeds {
        let kind = [Kind::Wildcard, Kind::Fixed, Kind::Shared][(seed % 3) as usize];
        let group = seed / 3 % 2 == 0;
        let mut run = || {
            let mut course = Course::new(topology(), spare, group, kind, seed);
            busy += usize::from(course.run() > 0);
            if seed % 5 == 0 { course.die() } else { course.end() }
        };
        if let Err(panic) = std::panic::catch_unwind(core::panic::AssertUnwindSafe(&mut run)) {
            eprintln!("{name}, seed {seed}, {kind:?}, group {group}");
            std::panic::resume_unwind(panic);
        }
    }
    assert!(
        busy * 3 > count,
        "{name}: only {busy} courses ended with anything in force"
    );
}

#[test]
fn two_hundred_courses_in_a_row_with_two_ways() {
    courses("row", Topology::row, &[1, 3], 0..200);
}

#[test]
fn two_hundred_courses_on_a_dumbbell() {
    courses("dumbbell", Topology::dumbbell, &[], 200..400);
}

#[test]
fn two_hundred_courses_with_next_hops_on_one_ethernet() {
    courses("ethernet", Topology::ethernet, &[], 400..600);
}

#[test]
fn two_hundred_courses_on_a_ring() {
    courses("ring", Topology::ring, &[0, 1, 2, 3], 600..800);
}

#[test]
fn two_hundred_courses_on_an_ethernet_with_a_way_round() {
    courses("mesh", Topology::mesh, &[1], 800..1000);
}
