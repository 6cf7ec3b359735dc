//! The books of a node: what has been promised on each interface, what is left, and the classes that keep it.
//!
//! Traffic control (RFC 2205, section 3.11.2) over the engine's disciplines `wrr`, `drr` and `cbq`. A promise is bookkeeping
//! and a list of classes, both exact and without side effects: whoever moves the packets asks [`Books::take_changed`],
//! and lays the tree out anew with [`Books::lay_out`].
//!
//! **What counts.** A request is in bytes of IP datagrams; an interface counts what its link carries. With *h* bytes of
//! headers on the link and packets of at least *m* bytes, a rate *r* takes at most *r* (*m* + *h*) / *m* there. That
//! is what is admitted, what its class is sure of, and what a refusal shows.
//!
//! **Guaranteed service** only where bytes are counted and a delay is known: D is stated, C is 0, and a request is
//! admitted only while every guaranteed class's worst case, as the tree computes it with all that can happen, keeps D.

use crate::traffic_control::{
    Advertised, ErrorTerms, Granted, Handle, InterfaceId, Refused, Request, TrafficControl,
};
use crate::wire::{Flowspec, Real, Sender, Session, code, value};
use engine::classify::{Filter, Ports, Prefix};
use engine::packet::ClassId;
use engine::reserved::{self, Layout, Reservable, Reserved};
use engine::settings::Problem;
use engine::tree::{Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration};
use std::collections::{BTreeMap, BTreeSet};

/// The shortest IP datagram: what claims to be shorter counts as this.
const SHORTEST: u32 = 20;
/// The rule number of reservations' filters: they go before a policy's that has no larger one.
const RULE: u32 = 1 << 16;
/// The priorities of the two services under `cbq`.
const GUARANTEED: u32 = 6;
const CONTROLLED_LOAD: u32 = 5;
/// Packets that a class holds: at least, and at most.
const QUEUE: (u64, u64) = (100, 10_000);

/// An interface whose packets are queued by the engine.
#[derive(Clone, Debug)]
pub struct Managed {
    /// The policy's tree, with room for reservations.
    pub room: Reservable,
    /// The same tree without any.
    pub plan: TreePlan,
    /// The policy's filters, for that tree.
    pub filters: Vec<Filter>,
    /// What the tree counts of a packet beyond the IP datagram.
    pub headers: Bytes,
    /// The longest IP datagram.
    pub mtu: u32,
    /// D of guaranteed service: none where it is not offered.
    pub delay: Option<Duration>,
}

/// What is known of an interface.
#[derive(Clone, Debug)]
pub enum Account {
    /// Packets are queued here, and promises kept.
    Managed(Box<Managed>),
    /// No bottleneck, as whoever owns it says: everything is promised, delays too, and nothing has to be done for it.
    Free {
        /// The longest IP datagram.
        mtu: u32,
    },
}

/// A promise in force.
#[derive(Clone, PartialEq, Debug)]
pub struct Promise {
    /// Where.
    pub interface: InterfaceId,
    /// What.
    pub request: Request,
    /// What it takes of the interface.
    pub counts: Bandwidth,
    /// For whom.
    pub flows: BTreeSet<(Session, Sender)>,
}

/// The books of a node.
#[derive(Debug, Default)]
pub struct Books {
    accounts: BTreeMap<InterfaceId, Account>,
    promises: BTreeMap<Handle, Promise>,
    last: u64,
    changed: BTreeSet<InterfaceId>,
}

impl Books {
    /// Books without interfaces: on those that are not known nothing is promised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens an account. Promises that were made there before stay as they are.
    pub fn open(&mut self, interface: InterfaceId, account: Account) {
        self.accounts.insert(interface, account);
        self.changed.insert(interface);
    }

    /// The account of an interface.
    pub fn account(&self, interface: InterfaceId) -> Option<&Account> {
        self.accounts.get(&interface)
    }

    /// The promise of this name.
    pub fn promise(&self, handle: Handle) -> Option<&Promise> {
        self.promises.get(&handle)
    }

    /// All promises.
    pub fn promises(&self) -> impl Iterator<Item = (Handle, &Promise)> {
        self.promises.iter().map(|(handle, promise)| (*handle, promise))
    }

    fn on(&self, interface: InterfaceId) -> impl Iterator<Item = (Handle, &Promise)> {
        self.promises()
            .filter(move |(_, promise)| promise.interface == interface)
    }

    /// The interfaces whose classes have changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<InterfaceId> {
        std::mem::take(&mut self.changed)
    }

    /// What has been promised on an interface, and what may be in all.
    pub fn used(&self, interface: InterfaceId) -> Option<(Bandwidth, Bandwidth)> {
        let used = self.on(interface).map(|(_, promise)| promise.counts).sum();
        match self.accounts.get(&interface)? {
            Account::Managed(managed) => Some((used, managed.room.capacity())),
            Account::Free { .. } => None,
        }
    }

    /// The tree of an interface with the classes of all its promises; none where nothing is queued.
    pub fn lay_out(&self, interface: InterfaceId) -> Option<Result<Layout, Vec<Problem>>> {
        let Some(Account::Managed(managed)) = self.accounts.get(&interface) else {
            return None;
        };
        let list: Vec<Reserved> = self
            .on(interface)
            .map(|(handle, promise)| managed.reserved(handle, promise))
            .collect();
        Some(managed.lay_out(&list))
    }

    /// Whether there is room for a request, beside all promises but the one that it is to replace. What it counts.
    fn admit(
        &self,
        interface: InterfaceId,
        request: &Request,
        instead: Option<Handle>,
    ) -> Result<Bandwidth, Refused> {
        let managed = match self.accounts.get(&interface) {
            Some(Account::Managed(managed)) => managed,
            Some(Account::Free { mtu }) if request.flowspec.bucket().maximum > *mtu => {
                return Err(refused(code::ADMISSION, value::MTU));
            }
            Some(Account::Free { .. }) => return Ok(Bandwidth::ZERO),
            None => return Err(refused(code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED)),
        };
        let guaranteed = matches!(request.flowspec, Flowspec::Guaranteed { .. });
        if guaranteed && managed.delay.is_none() {
            return Err(refused(code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED));
        }
        if request.flowspec.bucket().maximum > managed.mtu {
            return Err(refused(code::ADMISSION, value::MTU));
        }
        let asked = managed.room.counts(managed.on_wire(request).0);
        let others = self.on(interface).filter(|(handle, _)| Some(*handle) != instead);
        let taken: Bandwidth = others.map(|(_, promise)| promise.counts).sum();
        let left = managed.room.capacity() - taken.min(managed.room.capacity());
        let available = left.min(managed.room.largest());
        let now = instead.and_then(|handle| self.promises.get(&handle));
        // Less than is in force is never refused.
        if asked > available && now.is_none_or(|now| asked > now.counts) {
            return Err(Refused {
                code: code::ADMISSION,
                value: value::BANDWIDTH,
                asked,
                available,
            });
        }
        if !self.keeps_delays(interface, managed, (request, asked), instead) {
            return Err(Refused {
                code: code::ADMISSION,
                value: value::DELAY,
                asked,
                available,
            });
        }
        Ok(asked)
    }

    /// Whether the tree with this request in it keeps every guaranteed delay.
    fn keeps_delays(
        &self,
        interface: InterfaceId,
        managed: &Managed,
        (request, counts): (&Request, Bandwidth),
        instead: Option<Handle>,
    ) -> bool {
        let Some(delay) = managed.delay else { return true };
        let new = Promise {
            interface,
            request: *request,
            counts,
            flows: BTreeSet::new(),
        };
        let handle = instead.unwrap_or(Handle(self.last + 1));
        let others = self.on(interface).filter(|(other, _)| *other != handle);
        let all: Vec<(Handle, &Promise)> = others.chain([(handle, &new)]).collect();
        let is_guaranteed =
            |promise: &Promise| matches!(promise.request.flowspec, Flowspec::Guaranteed { .. });
        if !all.iter().any(|(_, promise)| is_guaranteed(promise)) {
            return true;
        }
        let list = all.iter().map(|(handle, promise)| {
            let mut reserved = managed.reserved(*handle, promise);
            // What a packet alone waits is the latency of its class; the burst takes its own time, by the rate.
            reserved.sends.1 = Bytes::ZERO;
            reserved
        });
        let Ok(layout) = managed.lay_out(&list.collect::<Vec<_>>()) else {
            return false;
        };
        let cases = layout.plan.bounds();
        let kept = |handle: Handle| {
            let class = layout.plan.class(&reserved::class_name(handle.0));
            let case = cases.iter().find(|case| case.class == class);
            case.and_then(|case| case.bound.as_ref().ok())
                .is_some_and(|bound| bound.delay <= delay)
        };
        all.iter()
            .filter(|(_, promise)| is_guaranteed(promise))
            .all(|(handle, _)| kept(*handle))
    }
}

/// A refusal that has nothing to do with how much there is.
fn refused(code: u8, value: u16) -> Refused {
    Refused {
        code,
        value,
        asked: Bandwidth::ZERO,
        available: Bandwidth::ZERO,
    }
}

impl Managed {
    /// The D that holds however many reservations come: of `drr` alone there is one.
    pub fn worst_delay(room: &Reservable) -> Option<Duration> {
        if room.kind() != "drr" {
            return None;
        }
        let (link, (classes, least)) = (room.link(), room.extremes());
        let longest = link.longest();
        // The longest turn, rounded up class by class, and a packet of each class beyond it.
        let turn = u128::from(link.mtu.get() + classes + 1) * u128::from(link.bandwidth.bits())
            / u128::from(least.bits().max(1));
        let turn = Bytes::new(u64::try_from(turn).ok()?);
        let all = turn + longest.times(classes) + link.ahead(longest);
        Some(link.bandwidth.time_to_send(all))
    }

    fn lay_out(&self, list: &[Reserved]) -> Result<Layout, Vec<Problem>> {
        self.room
            .lay_out(&Registry::builtin(), (&self.plan, &self.filters), list)
    }

    /// The rate and burst of a request as they count on the link.
    fn on_wire(&self, request: &Request) -> (Bandwidth, Bytes) {
        // More than the senders say that they send is of no use.
        let effective = request.flowspec.effective(&request.tspec);
        let bucket = effective.bucket();
        let rate = match effective {
            Flowspec::ControlledLoad(bucket) => bucket.rate,
            Flowspec::Guaranteed { rate, .. } => rate,
        };
        let least = u128::from(bucket.minimum.max(SHORTEST));
        let on_wire = |bytes: u64| {
            let all = u128::from(bytes) * (least + u128::from(self.headers.get()));
            u64::try_from(all.div_ceil(least)).unwrap_or(u64::MAX)
        };
        let bits = on_wire(rate.ceil()).saturating_mul(8);
        (
            Bandwidth::bits_per_sec(bits),
            Bytes::new(on_wire(bucket.bucket.ceil())),
        )
    }

    /// The class of a promise.
    fn reserved(&self, handle: Handle, promise: &Promise) -> Reserved {
        let (rate, burst) = self.on_wire(&promise.request);
        let least = u64::from(promise.request.flowspec.bucket().minimum.max(SHORTEST)) + self.headers.get();
        // Twice the burst: what came while a turn was awaited is not lost.
        let limit = (2 * (burst.get() / least)).clamp(QUEUE.0, QUEUE.1) as u32;
        let priority = match promise.request.flowspec {
            Flowspec::Guaranteed { .. } => GUARANTEED,
            Flowspec::ControlledLoad(_) => CONTROLLED_LOAD,
        };
        Reserved {
            number: handle.0,
            rate: promise.counts,
            sends: (rate, burst),
            limit,
            priority,
            filters: promise
                .flows
                .iter()
                .filter_map(|(session, sender)| filter(session, sender))
                .collect(),
        }
    }

    /// What a rate of the link is in bytes per second of the longest datagrams.
    fn of_datagrams(&self, rate: Bandwidth) -> Real {
        let mtu = u128::from(self.mtu.max(SHORTEST));
        let bytes = u128::from(rate.bits() / 8) * mtu / (mtu + u128::from(self.headers.get()));
        Real::nearest(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// Takes the packets of a sender to a session. A port of 0 is not looked at.
fn filter(session: &Session, sender: &Sender) -> Option<Filter> {
    let host = |address: core::net::IpAddr| Prefix::new(address, if address.is_ipv4() { 32 } else { 128 });
    let port = |port: u16| (port != 0).then(|| Ports::one(port));
    let filter = Filter {
        rule: RULE,
        source: Some(host(sender.address())?),
        destination: Some(host(session.destination)?),
        protocol: Some(session.protocol),
        destination_port: port(session.port),
        ..Filter::new(ClassId(0))
    };
    Some(match *sender {
        Sender::Port { port: from, .. } => Filter {
            source_port: port(from),
            ..filter
        },
        Sender::FlowLabel { label, .. } => Filter {
            flow_label: Some(label),
            ..filter
        },
    })
}

impl TrafficControl for Books {
    fn add(&mut self, interface: InterfaceId, request: &Request) -> Result<Granted, Refused> {
        let counts = self.admit(interface, request, None)?;
        self.last += 1;
        let handle = Handle(self.last);
        let promise = Promise {
            interface,
            request: *request,
            counts,
            flows: BTreeSet::new(),
        };
        self.promises.insert(handle, promise);
        self.changed.insert(interface);
        Ok(Granted {
            handle,
            forward: None,
        })
    }

    fn modify(&mut self, handle: Handle, request: &Request) -> Result<Option<Flowspec>, Refused> {
        let Some(interface) = self.promises.get(&handle).map(|promise| promise.interface) else {
            return Err(refused(code::TRAFFIC_CONTROL_SYSTEM, 0));
        };
        let counts = self.admit(interface, request, Some(handle))?;
        if let Some(promise) = self.promises.get_mut(&handle)
            && promise.request != *request
        {
            (promise.request, promise.counts) = (*request, counts);
            self.changed.insert(interface);
        }
        Ok(None)
    }

    fn delete(&mut self, handle: Handle) {
        if let Some(promise) = self.promises.remove(&handle) {
            self.changed.insert(promise.interface);
        }
    }

    fn add_filter(&mut self, handle: Handle, session: &Session, sender: &Sender) {
        if let Some(promise) = self.promises.get_mut(&handle)
            && promise.flows.insert((key(session), *sender))
        {
            self.changed.insert(promise.interface);
        }
    }

    fn delete_filter(&mut self, handle: Handle, session: &Session, sender: &Sender) {
        if let Some(promise) = self.promises.get_mut(&handle)
            && promise.flows.remove(&(key(session), *sender))
        {
            self.changed.insert(promise.interface);
        }
    }

    fn advertise(&self, interface: InterfaceId) -> Advertised {
        match self.accounts.get(&interface) {
            Some(Account::Managed(managed)) => {
                let (used, capacity) = self.used(interface).unwrap_or_default();
                let delay = managed.delay.map(|delay| delay.nanos().div_ceil(1_000));
                Advertised {
                    bandwidth: managed
                        .of_datagrams((capacity - used.min(capacity)).min(managed.room.largest())),
                    // The time on the wire is not known here.
                    latency: u32::MAX,
                    mtu: managed.mtu,
                    controlled_load: true,
                    guaranteed: delay.map(|delay| ErrorTerms {
                        rate_dependent: 0,
                        rate_independent: u32::try_from(delay).unwrap_or(u32::MAX),
                    }),
                }
            }
            Some(Account::Free { mtu }) => Advertised {
                bandwidth: Real::INFINITE,
                latency: u32::MAX,
                mtu: *mtu,
                controlled_load: true,
                guaranteed: Some(ErrorTerms {
                    rate_dependent: 0,
                    rate_independent: 0,
                }),
            },
            None => Advertised {
                bandwidth: Real::default(),
                latency: u32::MAX,
                mtu: SHORTEST,
                controlled_load: false,
                guaranteed: None,
            },
        }
    }
}

/// A session without its flag, which does not tell packets apart.
fn key(session: &Session) -> Session {
    Session {
        police: false,
        ..*session
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic_control::Police;
    use crate::wire::TokenBucket;
    use engine::link::Link;
    use engine::reserved::ReserveSettings;
    use engine::settings::{Raw, Span, Table};
    use engine::tree::{ClassSpec, DisciplineSpec};
    use proptest::prelude::*;

    /// What Ethernet adds to a datagram: header, FCS, preamble and gap.
    const HEADERS: u64 = 38;

    fn account(kind: &str, settings: Table) -> Account {
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1500 + HEADERS));
        let rate = if kind == "cbq" {
            Table::default().text("rate", "1 Mbit/s")
        } else {
            Table::default()
        };
        let rest = ClassSpec {
            name: "rest".into(),
            default: true,
            settings: rate,
            ..ClassSpec::default()
        };
        let mut spec = DisciplineSpec {
            classes: vec![rest],
            ..DisciplineSpec::new(kind)
        };
        if kind == "wrr" {
            spec.settings = spec.settings.with("cycle", Raw::Integer(10));
        }
        let settings = ReserveSettings::read(&settings, &[], &mut Vec::new()).expect("sound");
        let room = Reservable::new(&spec, link, &settings, Span::default()).expect("room");
        Account::Managed(Box::new(Managed {
            delay: settings.delay.or_else(|| Managed::worst_delay(&room)),
            plan: spec.check(&Registry::builtin(), link).expect("sound"),
            filters: Vec::new(),
            headers: Bytes::new(HEADERS),
            mtu: 1500,
            room,
        }))
    }

    fn books(kind: &str, settings: Table) -> Books {
        let mut books = Books::new();
        books.open(0, account(kind, settings));
        books
    }

    fn bucket(rate: Bandwidth, minimum: u32) -> TokenBucket {
        TokenBucket {
            rate: Real::nearest(rate.bits() / 8),
            bucket: Real::nearest(3000),
            peak: Real::INFINITE,
            minimum,
            maximum: 1500,
        }
    }

    fn request(flowspec: Flowspec) -> Request {
        Request {
            flowspec,
            tspec: *flowspec.bucket(),
            police: Police::default(),
        }
    }

    fn load(mbit: u64) -> Request {
        request(Flowspec::ControlledLoad(bucket(Bandwidth::mbit(mbit), 1500)))
    }

    fn guaranteed(mbit: u64) -> Request {
        let bucket = bucket(Bandwidth::mbit(mbit), 1500);
        request(Flowspec::Guaranteed {
            bucket,
            rate: bucket.rate,
            slack: 0,
        })
    }

    fn handle(answer: Result<Granted, Refused>) -> Handle {
        answer.expect("there is room").handle
    }

    #[test]
    fn what_counts_is_the_link_s_and_a_refusal_says_what_is_left() {
        let mut books = books("drr", Table::default().text("share", "50 %"));
        handle(books.add(0, &load(40)));
        let used = Bandwidth::bits_per_sec(40_000_000 / 1500 * 1538 + 1);
        let (counted, whole) = books.used(0).expect("managed");
        assert!(
            counted.bits().abs_diff(40_000_000 * 1538 / 1500) < 16,
            "{counted} {used}"
        );
        assert_eq!(whole, Bandwidth::mbit(50));
        let small = request(Flowspec::ControlledLoad(bucket(Bandwidth::mbit(5), 38)));
        let refused = books
            .add(0, &small)
            .expect_err("packets of 38 bytes need twice their rate");
        assert_eq!((refused.code, refused.value), (code::ADMISSION, value::BANDWIDTH));
        assert_eq!(
            (refused.asked, refused.available),
            (Bandwidth::mbit(10), whole - counted)
        );
        assert_eq!(books.promises().count(), 1);
        assert!(books.add(0, &load(5)).is_ok(), "full packets fit");
    }

    #[test]
    fn a_change_that_fails_leaves_what_was_there_and_less_is_never_refused() {
        for kind in ["wrr", "drr", "cbq"] {
            let mut books = books(kind, Table::default());
            let first = handle(books.add(0, &load(35)));
            handle(books.add(0, &load(25)));
            books.take_changed();
            let before = books.promise(first).cloned();
            assert!(books.modify(first, &load(60)).is_err(), "{kind}");
            assert_eq!(books.promise(first).cloned(), before, "{kind}");
            assert!(books.take_changed().is_empty(), "{kind}: nothing has changed");
            // The interface has shrunk: what is in force is more than it may be.
            books.open(0, account(kind, Table::default().text("share", "20 %")));
            assert_eq!(books.modify(first, &load(30)), Ok(None), "{kind}");
            assert!(books.modify(first, &load(50)).is_err(), "{kind}");
        }
    }

    #[test]
    fn the_same_call_twice_is_as_once_and_an_end_leaves_nothing() {
        let mut books = books("drr", Table::default());
        let one = handle(books.add(0, &load(10)));
        let (session, sender) = flow(5000, 0);
        for _ in 0..2 {
            books.add_filter(one, &session, &sender);
            assert_eq!(books.modify(one, &load(10)), Ok(None));
        }
        assert_eq!(books.take_changed().into_iter().collect::<Vec<_>>(), [0]);
        let layout = books.lay_out(0).expect("managed").expect("it fits");
        assert_eq!(layout.plan.class("resv-1").map(|class| class.0), Some(1));
        assert_eq!(layout.filters.len(), 2, "the flow's and the signalling's");
        books.delete_filter(one, &session, &sender);
        books.delete(one);
        books.delete(one);
        assert_eq!(books.used(0).map(|used| used.0), Some(Bandwidth::ZERO));
        assert!(
            books
                .lay_out(0)
                .expect("managed")
                .expect("sound")
                .plan
                .class("resv-1")
                .is_none()
        );
    }

    fn flow(port: u16, from: u16) -> (Session, Sender) {
        let session = Session {
            destination: "10.0.3.2".parse().expect("an address"),
            protocol: 17,
            port,
            police: true,
        };
        let sender = Sender::Port {
            address: "10.0.1.1".parse().expect("an address"),
            port: from,
        };
        (session, sender)
    }

    #[test]
    fn a_port_of_zero_and_a_flow_label_are_filters_too() {
        let (session, sender) = flow(5000, 0);
        let any = filter(&session, &sender).expect("a filter");
        assert_eq!(
            (any.source_port, any.destination_port),
            (None, Some(Ports::one(5000)))
        );
        let (session, sender) = flow(0, 0);
        assert_eq!(
            filter(&session, &sender).expect("a filter").destination_port,
            None
        );
        let address = core::net::Ipv6Addr::LOCALHOST;
        let session = Session {
            destination: address.into(),
            ..session
        };
        let label = filter(&session, &Sender::FlowLabel { address, label: 77 }).expect("a filter");
        assert_eq!(
            (label.flow_label, label.source.map(|prefix| prefix.len())),
            (Some(77), Some(128))
        );
    }

    #[test]
    fn a_delay_is_promised_only_where_bytes_are_counted_and_it_holds() {
        let refusal = |books: &mut Books| books.add(0, &guaranteed(10)).expect_err("no delay").value;
        assert_eq!(
            refusal(&mut books("wrr", Table::default())),
            value::SERVICE_UNSUPPORTED
        );
        assert_eq!(
            refusal(&mut books("cbq", Table::default())),
            value::SERVICE_UNSUPPORTED
        );
        assert_eq!(books("wrr", Table::default()).advertise(0).guaranteed, None);

        // What follows from `smallest` holds however many come.
        let mut usual = books("drr", Table::default());
        assert!(usual.advertise(0).guaranteed.is_some());
        for _ in 0..7 {
            handle(usual.add(0, &guaranteed(1)));
        }
        for _ in 0..50 {
            handle(usual.add(0, &load(1)));
        }

        // A shorter one is kept by refusing what would break it.
        for (kind, delay) in [("drr", "15 ms"), ("cbq", "30 ms")] {
            let settings = Table::default().text("delay", delay);
            let mut books = books(kind, settings);
            let first = handle(books.add(0, &guaranteed(20)));
            let refused = (0..60)
                .find_map(|_| books.add(0, &load(1)).err())
                .expect("it gets too many");
            assert_eq!(
                (refused.code, refused.value),
                (code::ADMISSION, value::DELAY),
                "{kind}"
            );
            assert!(books.promise(first).is_some());
        }
    }

    proptest! {
        #[test]
        fn books_are_never_overdrawn_and_every_layout_holds(
            calls in prop::collection::vec((0u8..4, 0usize..12, 1u64..40), 1..60),
        ) {
            for kind in ["wrr", "drr", "cbq"] {
                let mut books = books(kind, Table::default());
                let mut known: Vec<Handle> = Vec::new();
                for &(what, which, mbit) in &calls {
                    let one = known.get(which % known.len().max(1)).copied();
                    match (what, one) {
                        (0, Some(one)) => {
                            books.delete(one);
                            known.retain(|other| *other != one);
                        }
                        (1, Some(one)) => drop(books.modify(one, &load(mbit))),
                        _ => known.extend(books.add(0, &load(mbit)).map(|granted| granted.handle)),
                    }
                    let (used, whole) = books.used(0).expect("managed");
                    prop_assert!(used <= whole, "{}: {} of {}", kind, used, whole);
                    let layout = books.lay_out(0).expect("managed");
                    prop_assert!(layout.is_ok(), "{}: {:?}", kind, layout.err());
                    prop_assert_eq!(books.promises().count(), known.len());
                }
            }
        }
    }
}
