//! A sender and a receiver on one link, each a node with a refresh-reduction shim, on a virtual
//! clock. R is one second.

use crate::admit_all::AdmitAll;
use core::net::{IpAddr, Ipv4Addr};
use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant, Probability};
use rsvp::node::{Event, Node, ReceiverId, RsvpInterface, Settings, Transmit};
use rsvp::reduction::{self, ReductionShim};
use rsvp::traffic_control::{Route, Routing};
use rsvp::wire::{
    Descriptors, Flowspec, Frame, Message, Real, Refresh, SenderTemplate, Session, TokenBucket,
};
use std::collections::BTreeMap;

pub(crate) const LEFT: usize = 0;
pub(crate) const RIGHT: usize = 1;

pub(crate) const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
];

/// One link.
pub(crate) struct OnLink(IpAddr);

impl Routing for OnLink {
    fn route(&self, _: Option<IpAddr>, destination: IpAddr) -> Route {
        if destination == self.0 {
            Route::local()
        } else {
            Route::through(0)
        }
    }
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Node<AdmitAll, OnLink>>,
    pub(crate) shims: Vec<Option<ReductionShim>>,
    pub(crate) events: Vec<(usize, Event)>,
    /// Messages sent by type, and bytes.
    pub(crate) sent: BTreeMap<u8, usize>,
    pub(crate) bytes: usize,
    pub(crate) loss: Probability,
    pub(crate) assume: bool,
    refresh: u32,
    rng: Rng,
    count: usize,
    flying: BTreeMap<(Instant, usize), (usize, Transmit)>,
}

fn node(at: usize, seed: u64, refresh: u32) -> Node<AdmitAll, OnLink> {
    let interface = RsvpInterface {
        addresses: vec![ADDRESSES[at]],
        refresh: Refresh::millis(refresh),
    };
    let settings = Settings::new(vec![interface], Seed(seed).fork(&at.to_string()));
    Node::new(settings, AdmitAll::default(), OnLink(ADDRESSES[at]))
}

impl Pair {
    /// Nodes with `true` have a shim.
    pub(crate) fn new(shims: [bool; 2], assume: bool, seed: u64) -> Self {
        Self::with_refresh(shims, assume, seed, 1000)
    }

    /// The same with R in milliseconds.
    pub(crate) fn with_refresh(shims: [bool; 2], assume: bool, seed: u64, refresh: u32) -> Self {
        let mut pair = Self {
            now: Instant::START,
            nodes: (0..2).map(|at| node(at, seed, refresh)).collect(),
            shims: vec![None, None],
            events: Vec::new(),
            sent: BTreeMap::new(),
            bytes: 0,
            loss: Probability::ZERO,
            assume,
            refresh,
            rng: Seed(seed).fork("loss").stream(),
            count: 0,
            flying: BTreeMap::new(),
        };
        for (at, has) in shims.into_iter().enumerate() {
            pair.shims[at] = has.then(|| pair.shim(at, 1));
        }
        pair
    }

    fn shim(&self, at: usize, epoch: u32) -> ReductionShim {
        let mut settings = reduction::Settings::new(vec![vec![ADDRESSES[at]]], epoch);
        settings.assume_capable = self.assume;
        ReductionShim::new(settings)
    }

    /// A node and its shim lose all their state.
    pub(crate) fn restart(&mut self, at: usize, epoch: u32) {
        self.nodes[at] = node(at, u64::from(epoch), self.refresh);
        self.shims[at] = Some(self.shim(at, epoch));
    }

    fn collect(&mut self) {
        for at in 0..2 {
            while let Some(event) = self.nodes[at].poll_event() {
                self.events.push((at, event));
            }
            while let Some(transmit) = self.nodes[at].poll_transmit() {
                match &mut self.shims[at] {
                    Some(shim) => shim.outgoing(self.now, transmit),
                    None => self.launch(at, transmit),
                }
            }
            while let Some(transmit) = self.shims[at].as_mut().and_then(ReductionShim::poll_transmit) {
                self.launch(at, transmit);
            }
        }
    }

    fn launch(&mut self, at: usize, transmit: Transmit) {
        *self.sent.entry(transmit.bytes[1]).or_default() += 1;
        self.bytes += transmit.bytes.len();
        self.count += 1;
        if !self.rng.chance(self.loss) {
            let at_time = self.now + Duration::from_millis(1);
            self.flying.insert((at_time, self.count), (1 - at, transmit));
        }
    }

    fn receive(&mut self, at: usize, transmit: &Transmit) {
        let frame = Frame::decode(&transmit.bytes).expect("our own message is valid");
        if self.shims[at].is_none() {
            // A node without RFC 2961 rejects unknown classes below 128.
            assert!(frame.message_id.is_none() && frame.acknowledgements.is_empty());
            assert!(!matches!(frame.message, Message::Srefresh(_) | Message::Ack));
        }
        let (now, ttl) = (self.now, transmit.ttl);
        let frames = match &mut self.shims[at] {
            Some(shim) => shim.incoming(now, 0, transmit.source, ttl, frame),
            None => vec![(ttl, frame)],
        };
        for (ttl, frame) in frames {
            self.nodes[at].handle_frame(now, 0, ttl, frame);
        }
    }

    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.collect();
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let nodes = self.nodes.iter().filter_map(Node::poll_timeout);
            let shims = self
                .shims
                .iter()
                .flatten()
                .filter_map(ReductionShim::poll_timeout);
            let next = nodes.chain(shims).chain(arrival).min().unwrap_or(Instant::NEVER);
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
                let (to, transmit) = entry.remove();
                self.receive(to, &transmit);
            }
            for at in 0..2 {
                self.nodes[at].handle_timeout(self.now);
                self.collect();
                if let Some(shim) = &mut self.shims[at] {
                    shim.handle_timeout(self.now);
                }
            }
        }
    }

    pub(crate) fn send(&mut self, port: u16) {
        let now = self.now;
        let sent = self.nodes[LEFT].add_sender(now, session(port), sender(port), bucket(1000));
        sent.expect("it may send");
    }

    /// Requests, if there is path state.
    pub(crate) fn reserve(&mut self, port: u16, rate: u64) -> bool {
        let wanted = Descriptors::Fixed(vec![(Flowspec::ControlledLoad(bucket(rate)), sender(port))]);
        let now = self.now;
        self.nodes[RIGHT]
            .reserve(now, ReceiverId(port.into()), &session(port), wanted)
            .is_ok()
    }

    pub(crate) fn reservations(&self) -> usize {
        self.nodes[LEFT].traffic_control().reserved.len()
    }

    /// The number of messages sent of a type.
    pub(crate) fn of(&self, kind: u8) -> usize {
        self.sent.get(&kind).copied().unwrap_or(0)
    }
}

pub(crate) fn session(port: u16) -> Session {
    Session {
        destination: ADDRESSES[RIGHT],
        protocol: 17,
        port,
        police: false,
    }
}

pub(crate) fn sender(port: u16) -> SenderTemplate {
    SenderTemplate::Port {
        address: ADDRESSES[LEFT],
        port,
    }
}

fn bucket(rate: u64) -> TokenBucket {
    TokenBucket {
        rate: Real::nearest(rate),
        bucket: Real::nearest(3000),
        peak: Real::INFINITE,
        minimum: 64,
        maximum: 1500,
    }
}
