//! Two hosts and two routers in a row, with two links between the routers, on a virtual clock.

use core::net::{IpAddr, Ipv4Addr};
use engine::random::{Rng, Seed};
use engine::units::{Bandwidth, Duration, Instant, Probability};
use rsvp::node::{Event, Interface, Node, Receiver, Settings, Transmit};
use rsvp::traffic_control::{
    Advertised, Granted, Handle, InterfaceId, Refused, Request, Route, Routing, TrafficControl,
};
use rsvp::wire::{Descriptors, Flowspec, Real, Refresh, Sender, Session, TokenBucket, code, value};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const A: usize = 0;
pub(crate) const R1: usize = 1;
pub(crate) const R2: usize = 2;
pub(crate) const B: usize = 3;

/// R in all tests: state that is not refreshed lives for 5.25 s.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

const fn address(link: u8, end: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, link, end))
}

pub(crate) const HOST_A: IpAddr = address(1, 1);
pub(crate) const HOST_B: IpAddr = address(3, 2);

/// Each node's addresses, by interface.
const ADDRESSES: [&[IpAddr]; 4] = [
    &[HOST_A],
    &[address(1, 2), address(2, 1), address(4, 1)],
    &[address(2, 2), address(3, 1), address(4, 2)],
    &[HOST_B],
];

/// What is at the other end of each node's interfaces.
const LINKS: [&[(usize, InterfaceId)]; 4] = [
    &[(R1, 0)],
    &[(A, 0), (R2, 0), (R2, 2)],
    &[(R1, 1), (B, 0), (R1, 2)],
    &[(R2, 1)],
];

/// Towards A and towards B, from each node; none: it is there.
const ROUTES: [[Option<InterfaceId>; 2]; 4] = [
    [None, Some(0)],
    [Some(0), Some(1)],
    [Some(0), Some(1)],
    [Some(0), None],
];

/// Routes by host.
pub(crate) struct Routes(pub(crate) [Option<InterfaceId>; 2]);

impl Routing for Routes {
    fn route(&self, _: Option<IpAddr>, destination: IpAddr) -> Route {
        let way = match destination {
            HOST_A => self.0[0],
            HOST_B => self.0[1],
            _ => return Route::NONE,
        };
        way.map_or(Route::here(), Route::by)
    }
}

/// Admits up to a capacity for each interface, and checks that it is used by the rules.
pub(crate) struct Books {
    pub(crate) capacity: Bandwidth,
    pub(crate) promised: BTreeMap<Handle, (InterfaceId, Request)>,
    pub(crate) filters: BTreeSet<(Handle, Sender)>,
    next: u64,
}

impl Books {
    pub(crate) fn new(capacity: Bandwidth) -> Self {
        Self {
            capacity,
            promised: BTreeMap::new(),
            filters: BTreeSet::new(),
            next: 0,
        }
    }

    fn rate(request: &Request) -> Bandwidth {
        Bandwidth::bits_per_sec(request.flowspec.bucket().rate.ceil().saturating_mul(8))
    }

    fn room(&self, interface: InterfaceId, but: Option<Handle>, request: &Request) -> Result<(), Refused> {
        let others = self
            .promised
            .iter()
            .filter(|(handle, (on, _))| *on == interface && but != Some(**handle));
        let taken: Bandwidth = others.map(|(_, (_, request))| Self::rate(request)).sum();
        let (asked, available) = (Self::rate(request), self.capacity - taken);
        if asked <= available {
            return Ok(());
        }
        Err(Refused {
            code: code::ADMISSION,
            value: value::BANDWIDTH,
            asked,
            available,
        })
    }
}

impl TrafficControl for Books {
    fn add(&mut self, interface: InterfaceId, request: &Request) -> Result<Granted, Refused> {
        self.room(interface, None, request)?;
        self.next += 1;
        self.promised.insert(Handle(self.next), (interface, *request));
        Ok(Granted {
            handle: Handle(self.next),
            forward: None,
        })
    }

    fn modify(&mut self, handle: Handle, request: &Request) -> Result<Option<Flowspec>, Refused> {
        let interface = self.promised[&handle].0;
        self.room(interface, Some(handle), request)?;
        self.promised.insert(handle, (interface, *request));
        Ok(None)
    }

    fn delete(&mut self, handle: Handle) {
        assert!(
            self.promised.remove(&handle).is_some(),
            "an unknown promise is ended"
        );
        assert!(
            self.filters.iter().all(|(of, _)| *of != handle),
            "a filter is left behind"
        );
    }

    fn add_filter(&mut self, handle: Handle, _: &Session, sender: &Sender) {
        assert!(self.filters.insert((handle, *sender)), "a filter twice");
    }

    fn delete_filter(&mut self, handle: Handle, _: &Session, sender: &Sender) {
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
pub(crate) const fn receiver(port: u16) -> Receiver {
    Receiver(port as u64)
}

pub(crate) type TestNode = Node<Books, Routes>;

/// A message on its way: to which node, by which of its interfaces.
pub(crate) type Arrival = (usize, InterfaceId, u8, Vec<u8>);

pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<TestNode>,
    pub(crate) events: Vec<(usize, Event)>,
    /// Messages that were sent, lost ones included.
    pub(crate) sent: usize,
    /// What was sent, in order.
    pub(crate) log: Vec<Arrival>,
    /// The probability that a message is lost.
    pub(crate) loss: Probability,
    /// Nodes that neither hear nor speak.
    pub(crate) dead: BTreeSet<usize>,
    capacity: Bandwidth,
    seed: Seed,
    luck: Rng,
    flying: BTreeMap<(Instant, usize), Arrival>,
}

pub(crate) fn node(at: usize, capacity: Bandwidth, seed: Seed) -> TestNode {
    let interface = |address: &IpAddr| Interface {
        addresses: vec![*address],
        refresh: Refresh::millis(1000),
    };
    let interfaces = ADDRESSES[at].iter().map(interface).collect();
    let settings = Settings {
        most_senders: 100,
        ..Settings::new(interfaces, seed.fork(&at.to_string()))
    };
    Node::new(settings, Books::new(capacity), Routes(ROUTES[at]))
}

impl Network {
    /// All links can promise this much.
    pub(crate) fn new(capacity: Bandwidth, seed: u64) -> Self {
        let seed = Seed(seed);
        Self {
            now: Instant::START,
            nodes: (0..4).map(|at| node(at, capacity, seed)).collect(),
            events: Vec::new(),
            sent: 0,
            log: Vec::new(),
            loss: Probability::ZERO,
            dead: BTreeSet::new(),
            capacity,
            seed,
            luck: seed.fork("loss").stream(),
            flying: BTreeMap::new(),
        }
    }

    /// A node loses all that it knew.
    pub(crate) fn restart(&mut self, at: usize) {
        self.nodes[at] = node(at, self.capacity, self.seed.fork("again"));
    }

    /// A link takes a millisecond.
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
        let (to, interface) = LINKS[at][transmit.interface as usize];
        let heard = transmit.router_alert || ADDRESSES[to].contains(&transmit.destination);
        assert!(heard, "a message without Router Alert is for the neighbour");
        self.log
            .push((to, interface, transmit.ttl, transmit.bytes.clone()));
        if self.dead.contains(&at) || self.luck.chance(self.loss) {
            return;
        }
        let key = (self.now + Duration::from_millis(1), self.sent);
        self.flying
            .insert(key, (to, interface, transmit.ttl, transmit.bytes));
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
                let (to, interface, ttl, bytes) = entry.remove();
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

    /// What happened at a node since the last call.
    pub(crate) fn events_at(&mut self, at: usize) -> Vec<Event> {
        self.collect();
        let (here, rest) = self.events.drain(..).partition(|(node, _)| *node == at);
        self.events = rest;
        let here: Vec<(usize, Event)> = here;
        here.into_iter().map(|(_, event)| event).collect()
    }

    /// How many promises each node keeps.
    pub(crate) fn promises(&self) -> Vec<usize> {
        let count = |node: &TestNode| {
            let books = node.traffic_control();
            assert_eq!(books.promised.len(), books.filters.len());
            books.promised.len()
        };
        self.nodes.iter().map(count).collect()
    }

    /// How many senders each node remembers.
    pub(crate) fn senders(&self) -> Vec<usize> {
        self.nodes.iter().map(Node::senders).collect()
    }

    /// The rates that a node has promised, in bit/s.
    pub(crate) fn rates(&self, at: usize) -> Vec<u64> {
        let promised = self.nodes[at].traffic_control().promised.values();
        promised.map(|(_, request)| Books::rate(request).bits()).collect()
    }

    /// A sends from this port, and B reserves this much for it.
    pub(crate) fn reserve(&mut self, port: u16, rate: Bandwidth) {
        let now = self.now;
        self.nodes[A]
            .send(now, session(), sender(port), bucket(rate))
            .expect("A may send");
        self.run(Duration::from_millis(20));
        self.ask(port, rate);
        self.run(Duration::from_millis(20));
    }

    /// B asks.
    pub(crate) fn ask(&mut self, port: u16, rate: Bandwidth) {
        let flowspec = Flowspec::ControlledLoad(bucket(rate));
        let now = self.now;
        self.nodes[B]
            .reserve(
                now,
                receiver(port),
                &session(),
                Descriptors::Fixed(vec![(flowspec, sender(port))]),
            )
            .expect("B has heard of it");
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

pub(crate) fn sender(port: u16) -> Sender {
    Sender::Port {
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
