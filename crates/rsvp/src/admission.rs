//! The admission state of a node: what is reserved on each interface, what is left, and the classes
//! that enforce it.
//!
//! Traffic control (RFC 2205, section 3.11.2) over those of the engine's disciplines that give
//! classes to reservations.
//! A reservation here is an entry and a class in a list, both exact and without side effects:
//! whoever moves the packets asks [`AdmissionState::take_changed`], and lays the tree out again
//! with [`AdmissionState::lay_out`].
//!
//! **Link rate.** A request counts bytes of IP datagrams; an interface counts what its link
//! carries. With *h* bytes of link headers and packets of at least *m* bytes, a rate *r* takes at
//! most *r* (*m* + *h*) / *m* of the link; where the link pads or cuts into cells, the most that
//! it carries for a byte of packets from *m* to the longest. That rate is admitted, guaranteed to
//! the class, and shown by a refusal.
//!
//! **Guaranteed service** is offered only where bytes are counted and a delay is known: D is that
//! delay and C is 0. A request is admitted only while the worst case of every guaranteed class,
//! computed over the whole tree, stays within D.

mod tried;

pub use tried::{BrokenPromise, Tried};

use crate::tape::Held;
use crate::traffic_control::{
    AdmissionFailure, Advertised, ErrorTerms, Granted, InterfaceId, RHandle, TcRequest, TrafficControl,
};
use crate::wire::{ErrorCode, Flowspec, Real, SenderTemplate, Session, code, value};
use engine::bounds::ArrivalCurve;
use engine::classify::{Filter, Ports, Prefix};
use engine::framing::Framing;
use engine::packet::ClassId;
use engine::reservation::ReservedClass;
use engine::reserved::{Reservable, ReserveSettings, ReservedLayout};
use engine::settings::Problem;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Bytes, Duration};
use std::collections::{BTreeMap, BTreeSet};

/// The Ethernet header, which the tree counts in each frame.
const ETHERNET: Bytes = Bytes::new(14);
/// The shortest IP datagram; a smaller minimum policed unit counts as this.
const SHORTEST: u32 = 20;
/// The rule number of the reservations' filters: they precede those of a policy without a larger
/// one.
const RULE: u32 = 1 << 16;
/// The priorities of the two services under `cbq`.
const GUARANTEED: u32 = 6;
const CONTROLLED_LOAD: u32 = 5;
/// The least and the greatest queue limit of a class, in packets.
const QUEUE: (u64, u64) = (100, 10_000);

/// An interface whose packets the engine queues.
#[derive(Clone, Debug)]
pub struct ManagedInterface {
    /// The policy's tree, with room for reservations.
    pub room: Reservable,
    /// The same tree without reservations.
    pub plan: TreePlan,
    /// The policy's filters, for that tree.
    pub filters: Vec<Filter>,
    /// What the tree counts of a packet, whose frame is the IP datagram and its link header.
    pub framing: Framing,
    /// The longest IP datagram.
    pub mtu: u32,
    /// D of guaranteed service; none where it is not offered.
    pub delay: Option<Duration>,
}

/// What may be reserved on an interface.
#[derive(Clone, Debug)]
pub enum InterfaceBudget {
    /// A part of the link; packets are queued here, and reservations enforced.
    Managed(Box<ManagedInterface>),
    /// Any rate and any delay: its owner states that it is no bottleneck. Nothing is enforced.
    Unlimited {
        /// The longest IP datagram.
        mtu: u32,
    },
}

/// The rates of an interface, as its link counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// The sum of the reservations.
    pub reserved: Bandwidth,
    /// What may be reserved in all.
    pub reservable: Bandwidth,
}

/// An admitted reservation.
#[derive(Clone, PartialEq, Debug)]
pub struct Reservation {
    /// The interface.
    pub interface: InterfaceId,
    /// What was requested.
    pub request: TcRequest,
    /// The rate that it takes of the interface, as the link counts.
    pub link_rate: Bandwidth,
    /// The filters: session and sender.
    pub flows: BTreeSet<(Session, SenderTemplate)>,
}

/// The admission state of a node.
#[derive(Debug, Default)]
pub struct AdmissionState {
    budgets: BTreeMap<InterfaceId, InterfaceBudget>,
    reservations: BTreeMap<RHandle, Reservation>,
    last: u64,
    changed: BTreeSet<InterfaceId>,
}

impl AdmissionState {
    /// No interfaces: unknown ones admit nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, whose last reservation had this number.
    pub fn numbered_after(last: u64) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    /// The number of the last reservation.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Sets or replaces the budget of an interface. Its reservations stay as they are.
    pub fn set_budget(&mut self, interface: InterfaceId, budget: InterfaceBudget) {
        self.budgets.insert(interface, budget);
        self.changed.insert(interface);
    }

    /// The budget of an interface.
    pub fn budget(&self, interface: InterfaceId) -> Option<&InterfaceBudget> {
        self.budgets.get(&interface)
    }

    /// The reservation of this handle.
    pub fn reservation(&self, rhandle: RHandle) -> Option<&Reservation> {
        self.reservations.get(&rhandle)
    }

    /// All reservations.
    pub fn reservations(&self) -> impl Iterator<Item = (RHandle, &Reservation)> {
        self.reservations
            .iter()
            .map(|(rhandle, reservation)| (*rhandle, reservation))
    }

    fn on(&self, interface: InterfaceId) -> impl Iterator<Item = (RHandle, &Reservation)> {
        self.reservations()
            .filter(move |(_, reservation)| reservation.interface == interface)
    }

    /// The interfaces whose classes have changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<InterfaceId> {
        std::mem::take(&mut self.changed)
    }

    /// What is reserved on a managed interface, and what may be.
    pub fn usage(&self, interface: InterfaceId) -> Option<Usage> {
        match self.budgets.get(&interface)? {
            InterfaceBudget::Managed(managed) => Some(Usage {
                reserved: self.on(interface).map(|(_, one)| one.link_rate).sum(),
                reservable: managed.room.capacity(),
            }),
            InterfaceBudget::Unlimited { .. } => None,
        }
    }

    /// What is reserved on an interface.
    pub fn held(&self, interface: InterfaceId) -> Held {
        self.on(interface).fold(Held::default(), |held, (_, one)| Held {
            rate: held.rate + one.link_rate,
            reservations: held.reservations + 1,
        })
    }

    /// The tree of an interface with the classes of all its reservations; none where nothing is
    /// queued.
    pub fn lay_out(&self, interface: InterfaceId) -> Option<Result<ReservedLayout, Vec<Problem>>> {
        let Some(InterfaceBudget::Managed(managed)) = self.budgets.get(&interface) else {
            return None;
        };
        let list: Vec<ReservedClass> = self
            .on(interface)
            .map(|(rhandle, reservation)| managed.reserved(rhandle, reservation))
            .collect();
        Some(managed.lay_out(&list))
    }

    /// Admission control: whether a request fits beside all reservations but the one that it
    /// replaces. Returns its link rate.
    fn admit(
        &self,
        interface: InterfaceId,
        request: &TcRequest,
        replaces: Option<RHandle>,
    ) -> Result<Bandwidth, AdmissionFailure> {
        let managed = match self.budgets.get(&interface) {
            Some(InterfaceBudget::Managed(managed)) => managed,
            Some(InterfaceBudget::Unlimited { mtu }) if request.flowspec.bucket().maximum > *mtu => {
                return Err(failure(code::ADMISSION, value::MTU));
            }
            Some(InterfaceBudget::Unlimited { .. }) => return Ok(Bandwidth::ZERO),
            None => return Err(failure(code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED)),
        };
        let guaranteed = matches!(request.flowspec, Flowspec::Guaranteed { .. });
        if guaranteed && managed.delay.is_none() {
            return Err(failure(code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED));
        }
        if request.flowspec.bucket().maximum > managed.mtu {
            return Err(failure(code::ADMISSION, value::MTU));
        }
        let requested = managed.room.counts(managed.on_link(request).0);
        let others = self
            .on(interface)
            .filter(|(rhandle, _)| Some(*rhandle) != replaces);
        let taken: Bandwidth = others.map(|(_, reservation)| reservation.link_rate).sum();
        let left = managed.room.capacity() - taken.min(managed.room.capacity());
        let available = left.min(managed.room.largest());
        let refuse = |value| AdmissionFailure {
            error: ErrorCode::new(code::ADMISSION, value),
            requested,
            available,
            possible_delay: None,
        };
        let old = replaces.and_then(|rhandle| self.reservations.get(&rhandle));
        // A request for less than is in force is never refused.
        if requested > available && old.is_none_or(|old| requested > old.link_rate) {
            return Err(refuse(value::BANDWIDTH));
        }
        let new = Reservation {
            interface,
            request: *request,
            link_rate: requested,
            flows: BTreeSet::new(),
        };
        self.check_delays(managed, &new, replaces)
            .map_err(|(value, possible_delay)| AdmissionFailure {
                possible_delay,
                ..refuse(value)
            })?;
        Ok(requested)
    }

    /// Checks that every guaranteed delay holds in the tree with this reservation in it, and that
    /// the tree admits it at all: the policy's own classes keep theirs there.
    ///
    /// # Errors
    ///
    /// The error value of the refusal; and the delay, beyond that of the reserved rate, that would
    /// hold, if there is one.
    fn check_delays(
        &self,
        managed: &ManagedInterface,
        new: &Reservation,
        replaces: Option<RHandle>,
    ) -> Result<(), (u16, Option<Duration>)> {
        let rhandle = replaces.unwrap_or(RHandle(self.last + 1));
        let others = self.on(new.interface).filter(|(other, _)| *other != rhandle);
        let all = others.chain([(rhandle, new)]);
        let all: Vec<ReservedClass> = all.map(|(rhandle, one)| managed.reserved(rhandle, one)).collect();
        let is_guaranteed = all.iter().any(|one| one.latency.is_some());
        if !is_guaranteed && !managed.room.refuses() {
            return Ok(());
        }
        match managed.exceeded(&all) {
            Some(Duration::ZERO) => Ok(()),
            Some(exceeded) => Err((value::DELAY, managed.delay.map(|delay| delay + exceeded))),
            None if is_guaranteed => Err((value::DELAY, managed.possible_delay(all))),
            None => Err((value::BANDWIDTH, None)),
        }
    }
}

/// A refusal that does not depend on what is available.
fn failure(code: u8, value: u16) -> AdmissionFailure {
    AdmissionFailure {
        error: ErrorCode::new(code, value),
        requested: Bandwidth::ZERO,
        available: Bandwidth::ZERO,
        possible_delay: None,
    }
}

impl ManagedInterface {
    /// An interface with this tree, of these settings and filters, and with frames up to this
    /// length.
    pub fn new(
        room: Reservable,
        settings: &ReserveSettings,
        plan: TreePlan,
        filters: Vec<Filter>,
        max_frame: Bytes,
    ) -> Self {
        let delay = settings.delay.or_else(|| room.worst_delay());
        let mtu = max_frame.get().saturating_sub(ETHERNET.get());
        Self {
            framing: plan.link.framing,
            mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
            delay: delay.filter(|_| room.bounds_delays()),
            room,
            plan,
            filters,
        }
    }

    fn lay_out(&self, list: &[ReservedClass]) -> Result<ReservedLayout, Vec<Problem>> {
        self.room.lay_out(&self.plan, &self.filters, list)
    }

    /// By how much the bound of a guaranteed class exceeds its delay, at most, in the tree with
    /// these reservations. None if the tree refuses them, or such a class has no bound.
    fn exceeded(&self, list: &[ReservedClass]) -> Option<Duration> {
        let layout = self.lay_out(list).ok()?;
        let cases = layout.plan.bounds().into_iter();
        let bounds: BTreeMap<_, _> = cases.map(|case| (case.class, case.bound)).collect();
        let mut most = Duration::ZERO;
        for reserved in list.iter().filter(|one| one.latency.is_some()) {
            let class = layout.plan.class(&reserved.name());
            let bound = bounds.get(&class)?.as_ref().ok()?.delay;
            most = most.max(bound - reserved.delay()?.min(bound));
        }
        Some(most)
    }

    /// The D, to a hundredth, with which these reservations would fit a tree that refuses them;
    /// none if there is none below ten seconds.
    fn possible_delay(&self, mut list: Vec<ReservedClass>) -> Option<Duration> {
        let mut fits = |delay: Duration| {
            let guaranteed = list.iter_mut().filter_map(|one| one.latency.as_mut());
            guaranteed.for_each(|latency| *latency = delay);
            self.exceeded(&list) == Some(Duration::ZERO)
        };
        let (mut no, mut yes) = (self.delay?, Duration::from_millis(10_000));
        if !fits(yes) {
            return None;
        }
        while yes - no > Duration::from_nanos(yes.nanos() / 100) {
            let middle = Duration::from_nanos(no.nanos() / 2 + yes.nanos() / 2);
            match fits(middle) {
                true => yes = middle,
                false => no = middle,
            }
        }
        Some(yes)
    }

    /// The rate and burst of a request, as the link counts.
    fn on_link(&self, request: &TcRequest) -> (Bandwidth, Bytes) {
        // More than the Tspecs of the senders is of no use.
        let effective = request.flowspec.effective(&request.tspec);
        let bucket = effective.bucket();
        let rate = match effective {
            Flowspec::ControlledLoad(bucket) => bucket.rate,
            Flowspec::Guaranteed { rate, .. } => rate,
        };
        let [least, most] = [bucket.minimum.max(SHORTEST), self.mtu].map(u64::from);
        let (wire, datagram) = self.framing.most_for_a_byte(ETHERNET, least, most);
        let with_headers = |bytes: u64| {
            let all = u128::from(bytes) * u128::from(wire);
            u64::try_from(all.div_ceil(datagram.into())).unwrap_or(u64::MAX)
        };
        let bits = with_headers(rate.ceil()).saturating_mul(8);
        let burst = bucket.bucket.ceil().saturating_add(growth(request));
        (Bandwidth::bits_per_sec(bits), Bytes::new(with_headers(burst)))
    }

    /// The class of a reservation.
    fn reserved(&self, rhandle: RHandle, reservation: &Reservation) -> ReservedClass {
        let (rate, burst) = self.on_link(&reservation.request);
        let least = reservation.request.flowspec.bucket().minimum.max(SHORTEST);
        let least = self.framing.on_wire(Bytes::new(least.into()) + ETHERNET).get();
        // Twice the burst: what arrives while the class waits for its turn is not dropped.
        let limit = (2 * (burst.get() / least)).clamp(QUEUE.0, QUEUE.1) as u32;
        let (priority, latency) = match reservation.request.flowspec {
            Flowspec::Guaranteed { .. } => (GUARANTEED, self.delay),
            Flowspec::ControlledLoad(_) => (CONTROLLED_LOAD, None),
        };
        ReservedClass {
            number: rhandle.0,
            rate: reservation.link_rate,
            sends: ArrivalCurve { rate, burst },
            least: Bytes::new(least),
            latency,
            limit,
            priority,
            filters: reservation
                .flows
                .iter()
                .filter_map(|(session, sender)| filter(session, sender))
                .collect(),
        }
    }

    /// A link rate in bytes per second of the longest datagrams.
    fn datagram_rate(&self, rate: Bandwidth) -> Real {
        let mtu = u64::from(self.mtu.max(SHORTEST));
        let wire = self.framing.on_wire(Bytes::new(mtu) + ETHERNET);
        let bytes = u128::from(rate.bits() / 8) * u128::from(mtu) / u128::from(wire.get());
        Real::nearest(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// The bytes by which a burst has grown on the way here: Csum + *r* Dsum.
fn growth(request: &TcRequest) -> u64 {
    const MICROS: u64 = 1_000_000;
    let (before, rate) = (request.before, request.tspec.rate.ceil());
    let meanwhile = u128::from(rate) * u128::from(before.rate_independent);
    let meanwhile = u64::try_from(meanwhile.div_ceil(MICROS.into())).unwrap_or(u64::MAX);
    u64::from(before.rate_dependent).saturating_add(meanwhile)
}

/// Matches the packets of a sender to a session. A port of 0 matches any.
fn filter(session: &Session, sender: &SenderTemplate) -> Option<Filter> {
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
        SenderTemplate::Port { port: from, .. } => Filter {
            source_port: port(from),
            ..filter
        },
        SenderTemplate::FlowLabel { label, .. } => Filter {
            flow_label: Some(label),
            ..filter
        },
    })
}

impl TrafficControl for AdmissionState {
    fn add_flowspec(
        &mut self,
        interface: InterfaceId,
        request: &TcRequest,
    ) -> Result<Granted, AdmissionFailure> {
        let link_rate = self.admit(interface, request, None)?;
        self.last += 1;
        let rhandle = RHandle(self.last);
        let reservation = Reservation {
            interface,
            request: *request,
            link_rate,
            flows: BTreeSet::new(),
        };
        self.reservations.insert(rhandle, reservation);
        self.changed.insert(interface);
        Ok(Granted {
            rhandle,
            fwd_flowspec: None,
        })
    }

    fn modify_flowspec(
        &mut self,
        rhandle: RHandle,
        request: &TcRequest,
    ) -> Result<Option<Flowspec>, AdmissionFailure> {
        let Some(interface) = self.reservations.get(&rhandle).map(|one| one.interface) else {
            return Err(failure(code::TRAFFIC_CONTROL_SYSTEM, 0));
        };
        let link_rate = self.admit(interface, request, Some(rhandle))?;
        if let Some(reservation) = self.reservations.get_mut(&rhandle)
            && reservation.request != *request
        {
            (reservation.request, reservation.link_rate) = (*request, link_rate);
            self.changed.insert(interface);
        }
        Ok(None)
    }

    fn delete_flowspec(&mut self, rhandle: RHandle) {
        if let Some(reservation) = self.reservations.remove(&rhandle) {
            self.changed.insert(reservation.interface);
        }
    }

    fn add_filter(&mut self, rhandle: RHandle, session: &Session, sender: &SenderTemplate) {
        if let Some(reservation) = self.reservations.get_mut(&rhandle)
            && reservation.flows.insert((key(session), *sender))
        {
            self.changed.insert(reservation.interface);
        }
    }

    fn delete_filter(&mut self, rhandle: RHandle, session: &Session, sender: &SenderTemplate) {
        if let Some(reservation) = self.reservations.get_mut(&rhandle)
            && reservation.flows.remove(&(key(session), *sender))
        {
            self.changed.insert(reservation.interface);
        }
    }

    fn advertise(&self, interface: InterfaceId) -> Advertised {
        match self.budgets.get(&interface) {
            Some(InterfaceBudget::Managed(managed)) => {
                let usage = self.usage(interface).unwrap_or_default();
                let left = usage.reservable - usage.reserved.min(usage.reservable);
                let delay = managed.delay.map(|delay| delay.nanos().div_ceil(1_000));
                Advertised {
                    bandwidth: managed.datagram_rate(left.min(managed.room.largest())),
                    // The propagation delay is not known here.
                    latency: u32::MAX,
                    mtu: managed.mtu,
                    controlled_load: true,
                    guaranteed: delay.map(|delay| ErrorTerms {
                        rate_dependent: 0,
                        rate_independent: u32::try_from(delay).unwrap_or(u32::MAX),
                    }),
                }
            }
            Some(InterfaceBudget::Unlimited { mtu }) => Advertised {
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

/// A session without E_Police, which does not tell packets apart.
fn key(session: &Session) -> Session {
    Session {
        police: false,
        ..*session
    }
}

#[cfg(test)]
mod tests;
