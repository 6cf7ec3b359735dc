//! Hosts and routers on any topology, on a virtual clock.

use crate::topology::{GROUP, Tables, Topology, is_group};
use core::cell::RefCell;
use core::net::IpAddr;
use engine::random::{Rng, Seed};
use engine::units::{Bandwidth, Duration, Instant, Probability};
use rsvp::node::{Event, Node, ReceiverId, RsvpInterface, Settings, Transmit};
use rsvp::places::Places;
use rsvp::tape::Held;
use rsvp::tape::again::{Again, again};
use rsvp::traffic_control::{
    AdmissionFailure, Advertised, Granted, InterfaceId, RHandle, Route, Routing, TcRequest, TrafficControl,
};
use rsvp::wire::{
    Descriptors, ErrorCode, Flowspec, Real, Refresh, SenderTemplate, Session, TokenBucket, code, value,
};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The row of two hosts and two routers, see [`Topology::row`].
pub(crate) const A: usize = 0;
pub(crate) const R1: usize = 1;
pub(crate) const R2: usize = 2;
pub(crate) const B: usize = 3;

/// R in all tests: state that is not refreshed lives for 5.25 s.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) const HOST_A: IpAddr = Topology::address(0, 0);
pub(crate) const HOST_B: IpAddr = Topology::address(2, 1);

/// One node's view of the routes.
pub(crate) struct Routes {
    at: usize,
    tables: Rc<Tables>,
}

impl Routing for Routes {
    fn route(&self, source: Option<IpAddr>, destination: IpAddr) -> Route {
        self.tables.route(self.at, source, destination)
    }
}

/// Admits up to a capacity on each interface, and checks that the node calls it correctly.
pub(crate) struct TestAdmission {
    pub(crate) capacity: Bandwidth,
    pub(crate) reserved: BTreeMap<RHandle, (InterfaceId, TcRequest)>,
    pub(crate) filters: BTreeSet<(RHandle, SenderTemplate)>,
    /// Refused although there is room.
    pub(crate) refuses: Option<fn(&TcRequest) -> bool>,
    /// The budgets that a tape has entered again, if any were kept: those below [`NOT_KEPT`].
    pub(crate) kept: Option<Kept>,
    next: u64,
}

/// Interface, number and MTU of budgets.
pub(crate) type Kept = Rc<RefCell<Vec<(InterfaceId, Option<u32>, u32)>>>;

pub(crate) const NOT_KEPT: u32 = 10;

impl TestAdmission {
    pub(crate) fn new(capacity: Bandwidth) -> Self {
        Self {
            capacity,
            reserved: BTreeMap::new(),
            filters: BTreeSet::new(),
            refuses: None,
            kept: None,
            next: 0,
        }
    }

    pub(crate) fn rate(request: &TcRequest) -> Bandwidth {
        Bandwidth::bits_per_sec(request.flowspec.bucket().rate.ceil().saturating_mul(8))
    }

    fn room(
        &self,
        interface: InterfaceId,
        but: Option<RHandle>,
        request: &TcRequest,
    ) -> Result<(), AdmissionFailure> {
        let others = self
            .reserved
            .iter()
            .filter(|(handle, (on, _))| *on == interface && but != Some(**handle));
        let taken: Bandwidth = others.map(|(_, (_, request))| Self::rate(request)).sum();
        let (requested, available) = (Self::rate(request), self.capacity - taken);
        if requested <= available && !self.refuses.is_some_and(|refuses| refuses(request)) {
            return Ok(());
        }
        Err(AdmissionFailure {
            error: ErrorCode::new(code::ADMISSION, value::BANDWIDTH),
            requested,
            available,
            possible_delay: None,
        })
    }
}

impl TrafficControl for TestAdmission {
    fn add_flowspec(
        &mut self,
        interface: InterfaceId,
        request: &TcRequest,
    ) -> Result<Granted, AdmissionFailure> {
        self.room(interface, None, request)?;
        self.next += 1;
        self.reserved.insert(RHandle(self.next), (interface, *request));
        Ok(Granted {
            rhandle: RHandle(self.next),
            fwd_flowspec: None,
        })
    }

    fn modify_flowspec(
        &mut self,
        handle: RHandle,
        request: &TcRequest,
    ) -> Result<Option<Flowspec>, AdmissionFailure> {
        let interface = self.reserved[&handle].0;
        self.room(interface, Some(handle), request)?;
        self.reserved.insert(handle, (interface, *request));
        Ok(None)
    }

    fn delete_flowspec(&mut self, handle: RHandle) {
        assert!(
            self.reserved.remove(&handle).is_some(),
            "an unknown reservation is deleted"
        );
        assert!(
            self.filters.iter().all(|(of, _)| *of != handle),
            "a filter is left over"
        );
    }

    fn add_filter(&mut self, handle: RHandle, _: &Session, sender: &SenderTemplate) {
        assert!(self.filters.insert((handle, *sender)), "a filter twice");
    }

    fn delete_filter(&mut self, handle: RHandle, _: &Session, sender: &SenderTemplate) {
        assert!(
            self.filters.remove(&(handle, *sender)),
            "an unknown filter is removed"
        );
    }

    fn advertise(&self, interface: InterfaceId) -> Advertised {
        Advertised {
            bandwidth: Real::nearest(self.capacity.bits() / 8),
            latency: 100,
            mtu: 1500 - interface,
            controlled_load: true,
            guaranteed: None,
        }
    }
}

/// The program at B that receives from this port.
pub(crate) const fn receiver(port: u16) -> ReceiverId {
    ReceiverId(port as u64)
}

pub(crate) type TestNode = Node<TestAdmission, Routes>;

/// A message in flight: the node, and the interface where it arrives.
pub(crate) type Arrival = (usize, InterfaceId, u8, Vec<u8>);

pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<TestNode>,
    pub(crate) events: Vec<(usize, Event)>,
    /// Messages that were sent, lost ones included.
    pub(crate) sent: usize,
    /// The messages that arrived, in order, if they are recorded.
    pub(crate) log: Option<Vec<Arrival>>,
    /// The probability that a message is lost.
    pub(crate) loss: Probability,
    /// Nodes that neither receive nor send.
    pub(crate) dead: BTreeSet<usize>,
    /// What happens to messages in flight.
    pub(crate) tamper: Option<fn(Vec<u8>) -> Vec<u8>>,
    /// Groups have one tree for all senders, see [`Tables`].
    pub(crate) shared_tree: bool,
    pub(crate) topology: Topology,
    pub(crate) tables: Rc<Tables>,
    capacity: Bandwidth,
    seed: Seed,
    restarts: u64,
    rng: Rng,
    flying: BTreeMap<(Instant, usize), Arrival>,
}

fn make(
    topology: &Topology,
    tables: &Rc<Tables>,
    at: usize,
    capacity: Bandwidth,
    seed: Seed,
    now: Instant,
) -> TestNode {
    let interface = |address| RsvpInterface {
        addresses: vec![address],
        refresh: Refresh::millis(1000),
    };
    let settings = Settings {
        max_senders: Places::unshared(100),
        max_reservations: Places::unshared(50),
        ..Settings::new(
            topology.addresses(at).into_iter().map(interface).collect(),
            seed.fork(&at.to_string()),
        )
    };
    let routes = Routes {
        at,
        tables: tables.clone(),
    };
    let seed = settings.seed;
    let mut node = Node::new(settings, TestAdmission::new(capacity), routes);
    assert!(node.begin_tape(now, seed, 0, 64 << 20));
    node
}

impl Again for TestAdmission {
    fn enter(&mut self, interface: InterfaceId, number: Option<u32>, mtu: u32) -> Option<()> {
        let kept = self.kept.as_ref()?;
        kept.borrow_mut().push((interface, number, mtu));
        number.is_none_or(|number| number < NOT_KEPT).then_some(())
    }

    fn held(&self, interface: InterfaceId) -> Held {
        let here = self.reserved.values().filter(|(on, _)| *on == interface);
        let rates = here.map(|(_, request)| Self::rate(request));
        rates.fold(Held::default(), |held, rate| Held {
            rate: held.rate + rate,
            reservations: held.reservations + 1,
        })
    }
}

/// What a node has done is done again, whatever it was.
pub(crate) fn is_done_again(node: &TestNode) {
    for interface in 0..4 {
        node.tape()
            .installed(interface, node.traffic_control().held(interface));
    }
    node.tape().turn_ended();
    let taped = node.tape().taped().expect("a tape");
    assert_eq!(taped.full, None);
    let capacity = node.traffic_control().capacity;
    let mut steps = 0;
    let done = again(&taped.bytes, |_| TestAdmission::new(capacity), &mut |_, _| {
        steps += 1
    });
    assert_eq!(done, Ok(()), "after {steps} steps");
}

/// A node of the row, by itself.
pub(crate) fn node(at: usize, capacity: Bandwidth, seed: Seed) -> TestNode {
    let topology = Topology::row();
    let tables = Rc::new(Tables::new(&topology, &[], &BTreeSet::new(), true));
    make(&topology, &tables, at, capacity, seed, Instant::START)
}

impl Network {
    /// The row. All links can reserve this much.
    pub(crate) fn new(capacity: Bandwidth, seed: u64) -> Self {
        Self::on(Topology::row(), capacity, seed)
    }

    pub(crate) fn on(topology: Topology, capacity: Bandwidth, seed: u64) -> Self {
        let seed = Seed(seed);
        let tables = Rc::new(Tables::new(&topology, &[], &BTreeSet::new(), true));
        let count = topology.nodes();
        Self {
            now: Instant::START,
            nodes: (0..count)
                .map(|at| make(&topology, &tables, at, capacity, seed, Instant::START))
                .collect(),
            events: Vec::new(),
            sent: 0,
            log: None,
            loss: Probability::ZERO,
            dead: BTreeSet::new(),
            tamper: None,
            shared_tree: true,
            topology,
            tables,
            capacity,
            seed,
            restarts: 0,
            rng: seed.fork("loss").stream(),
            flying: BTreeMap::new(),
        }
    }

    /// A node loses all its state.
    pub(crate) fn restart(&mut self, at: usize) {
        self.put(at, self.capacity);
    }

    /// Another node, whose links can reserve this much, replaces a node.
    pub(crate) fn put(&mut self, at: usize, capacity: Bandwidth) {
        self.restarts += 1;
        let seed = self.seed.fork("again").fork(&self.restarts.to_string());
        self.nodes[at] = make(&self.topology, &self.tables, at, capacity, seed, self.now);
    }

    /// Routes avoid these links from now on, and data to groups reaches these nodes. All nodes
    /// are notified.
    pub(crate) fn reroute(&mut self, avoided: &[usize], members: &BTreeSet<usize>) {
        self.tables = Rc::new(Tables::new(&self.topology, avoided, members, self.shared_tree));
        for node in &mut self.nodes {
            node.routing_mut().tables = self.tables.clone();
            node.routes_changed(self.now);
        }
    }

    /// The delay of a link is a millisecond.
    fn collect(&mut self) {
        for at in 0..self.nodes.len() {
            while let Some(event) = self.nodes[at].poll_event() {
                self.events.push((at, event));
            }
            while let Some(transmit) = self.nodes[at].poll_transmit() {
                self.launch(at, transmit);
            }
        }
    }

    fn launch(&mut self, at: usize, transmit: Transmit) {
        self.sent += 1;
        let link = self.topology.links_of(at)[transmit.interface as usize];
        let others = self.topology.others(link, at);
        let owner = |to: &&usize| self.topology.addresses(**to).contains(&transmit.destination);
        let to: Vec<usize> = if is_group(transmit.destination) {
            others
        } else if let Some(owner) = others.iter().find(owner) {
            vec![*owner]
        } else {
            assert!(
                transmit.router_alert,
                "a message without Router Alert is for the neighbour"
            );
            let next = self.tables.next(at, transmit.destination);
            next.filter(|(by, _)| *by == link)
                .map(|(_, next)| next)
                .into_iter()
                .collect()
        };
        for (copy, to) in to.into_iter().enumerate() {
            let interface = self.topology.interface(to, link);
            if self.dead.contains(&at) || self.rng.chance(self.loss) {
                continue;
            }
            let key = (self.now + Duration::from_millis(1), self.sent * 100 + copy);
            let bytes = transmit.bytes.clone();
            let bytes = self
                .tamper
                .map_or_else(|| bytes.clone(), |tamper| tamper(bytes.clone()));
            let arrival = (to, interface, transmit.ttl, bytes);
            self.flying.insert(key, arrival);
        }
    }

    /// Lets this much time pass.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.collect();
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let timer = self.nodes.iter().filter_map(Node::poll_timeout).min();
            let next = arrival.into_iter().chain(timer).min().unwrap_or(Instant::NEVER);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            while let Some(entry) = self
                .flying
                .first_entry()
                .filter(|entry| entry.key().0 <= self.now)
            {
                let arrival = entry.remove();
                if let Some(log) = &mut self.log {
                    log.push(arrival.clone());
                }
                let (to, interface, ttl, bytes) = arrival;
                if !self.dead.contains(&to) {
                    let read = self.nodes[to].handle_packet(self.now, interface, ttl, &bytes);
                    assert_eq!(read, Ok(()), "our own message is malformed");
                }
            }
            for node in &mut self.nodes {
                node.handle_timeout(self.now);
            }
        }
    }

    /// These hosts are members of the group.
    pub(crate) fn join(&mut self, members: &[usize]) {
        self.reroute(&[], &members.iter().copied().collect());
    }

    /// A host sends to the group at this rate.
    pub(crate) fn send(&mut self, host: usize, rate: Bandwidth) -> SenderTemplate {
        let sender = SenderTemplate::Port {
            address: self.topology.host(host),
            port: 4000,
        };
        let now = self.now;
        self.nodes[host]
            .add_sender(now, group(), sender, bucket(rate))
            .expect("the group has members");
        self.run(Duration::from_millis(20));
        sender
    }

    /// A member requests a reservation, and the network settles.
    pub(crate) fn member_requests(&mut self, host: usize, wanted: Descriptors<Flowspec>) {
        let now = self.now;
        self.nodes[host]
            .reserve(now, receiver(1), &group(), wanted)
            .expect("the member has path state");
        self.run(Duration::from_millis(20));
    }

    /// What happened at a node since the last call.
    pub(crate) fn events_at(&mut self, at: usize) -> Vec<Event> {
        self.collect();
        let (here, rest) = self.events.drain(..).partition(|(node, _)| *node == at);
        self.events = rest;
        let here: Vec<(usize, Event)> = here;
        here.into_iter().map(|(_, event)| event).collect()
    }

    /// The number of reservations in each node.
    pub(crate) fn reservations(&self) -> Vec<usize> {
        let count = |node: &TestNode| {
            let books = node.traffic_control();
            assert!(
                books.reserved.len() <= books.filters.len(),
                "a reservation without a filter"
            );
            books.reserved.len()
        };
        self.nodes.iter().map(count).collect()
    }

    /// The number of senders in each node.
    pub(crate) fn senders(&self) -> Vec<usize> {
        self.nodes.iter().map(Node::senders).collect()
    }

    /// The reserved rates of a node, in bit/s.
    pub(crate) fn rates(&self, at: usize) -> Vec<u64> {
        let reserved = self.nodes[at].traffic_control().reserved.values();
        reserved
            .map(|(_, request)| TestAdmission::rate(request).bits())
            .collect()
    }

    /// The rates in Mbit/s that a node has reserved on its interface to a link.
    pub(crate) fn rates_on(&self, at: usize, link: usize) -> Vec<u64> {
        let interface = self.topology.interface(at, link);
        let reserved = self.nodes[at].traffic_control().reserved.values();
        let here = reserved.filter(|(on, _)| *on == interface);
        here.map(|(_, request)| TestAdmission::rate(request).bits() / 1_000_000)
            .collect()
    }

    /// A sends from this port, and B reserves this much for it.
    pub(crate) fn reserve(&mut self, port: u16, rate: Bandwidth) {
        let now = self.now;
        self.nodes[A]
            .add_sender(now, session(), sender(port), bucket(rate))
            .expect("A may send");
        self.run(Duration::from_millis(20));
        self.request(port, rate);
        self.run(Duration::from_millis(20));
    }

    /// B requests a reservation.
    pub(crate) fn request(&mut self, port: u16, rate: Bandwidth) {
        let flowspec = Flowspec::ControlledLoad(bucket(rate));
        let now = self.now;
        self.nodes[B]
            .reserve(
                now,
                receiver(port),
                &session(),
                Descriptors::Fixed(vec![(flowspec, sender(port))]),
            )
            .expect("B has path state");
    }
}

pub(crate) fn session() -> Session {
    Session {
        destination: HOST_B,
        protocol: 17,
        port: 5000,
        police: false,
    }
}

pub(crate) fn group() -> Session {
    Session {
        destination: GROUP,
        ..session()
    }
}

/// Controlled load at this rate.
pub(crate) fn controlled_load(rate: Bandwidth) -> Flowspec {
    Flowspec::ControlledLoad(bucket(rate))
}

pub(crate) fn sender(port: u16) -> SenderTemplate {
    SenderTemplate::Port {
        address: HOST_A,
        port,
    }
}

pub(crate) fn bucket(rate: Bandwidth) -> TokenBucket {
    TokenBucket {
        rate: Real::nearest(rate.bits() / 8),
        bucket: Real::nearest(3000),
        peak: Real::INFINITE,
        minimum: 64,
        maximum: 1500,
    }
}
