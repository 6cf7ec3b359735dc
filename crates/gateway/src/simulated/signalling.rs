//! RSVP around the router: a host at each of its interfaces, and what carries messages between
//! them. The three nodes are the program's own; simulated are their sockets, routes and links, on
//! which messages take time, and are lost, repeated, overtaken and mutilated.

use super::kernel::{NAMES, Shared, leaves_by, locked};
use super::machine::World;
use crate::direction::secret_seed;
use crate::in_force::InForce;
use crate::signalling::context::{MessageSocket, NodeContext, RouteTable};
use crate::signalling::handle::SpeakerHandle;
use crate::signalling::speaker::{self, After, Setup, Speaker};
use crate::signalling::trees::{NoTrees, Trees};
use control::begins_anew::ClassesAnew;
use control::difference::Difference;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use control::rsvp_config::{AcceptRule, RsvpConfig, RsvpSettings};
use engine::random::Rng;
use engine::reserved::ReservedLayout;
use engine::units::{Duration, Instant};
use netio::handle::Adopted;
use netio::interface::Interface;
use netio::routes::{GroupRoute, Leads, OwnAddress};
use netio::signalling::{Arrival, Envelope};
use netio::time::CallerTime;
use netio::worker::PathId;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The node of the program; then those of the hosts, by the interface that they are at.
pub(super) const ROUTER: usize = 0;
const STATIONS: usize = 3;
/// Messages that a socket keeps until they are read, and those that are kept to be mutilated.
const SOCKET: usize = 256;
const KEPT: usize = 16;
/// What a host's interface is called, and its index.
const HOSTS_OWN: (&str, u32) = ("eth0", 1);
const ENODEV: i32 = 19;
const ENETDOWN: i32 = 100;

/// The host at an interface.
pub(super) const fn host_at(interface: usize) -> usize {
    1 + interface
}

/// The address of the host at an interface.
pub(super) const fn host_address(interface: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, interface as u8, 1)
}

const fn router_address(interface: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, interface as u8, 254)
}

/// The interface that leads to an address.
fn towards(address: IpAddr) -> Option<usize> {
    (0..2).find(|number| {
        let network = router_address(*number).octets();
        matches!(address, IpAddr::V4(one) if one.octets()[..3] == network[..3])
    })
}

/// What messages have gone through.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Messages {
    pub(super) heard: u64,
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) mutilated: u64,
    /// Those that passed by while no program took them.
    pub(super) passed_by: u64,
    pub(super) garbage: u64,
    /// Those of it that have had sense, and no checksum tells that they were changed.
    pub(super) forged: u64,
    pub(super) errors: u64,
}

impl Messages {
    pub(super) fn add(&mut self, one: &Self) {
        self.heard += one.heard;
        self.lost += one.lost;
        self.repeated += one.repeated;
        self.mutilated += one.mutilated;
        self.passed_by += one.passed_by;
        self.garbage += one.garbage;
        self.forged += one.forged;
        self.errors += one.errors;
    }
}

/// A message on its way to a node, by this interface of the router.
#[derive(Clone, Debug)]
struct OnWay {
    to: usize,
    link: usize,
    alert: bool,
    arrival: Arrival,
    bytes: Vec<u8>,
}

impl OnWay {
    fn new((to, link): (usize, usize), envelope: &Envelope, bytes: Vec<u8>) -> Self {
        Self {
            to,
            link,
            alert: envelope.alert,
            arrival: Arrival {
                source: envelope.source,
                destination: Some(envelope.destination),
                ttl: envelope.ttl,
            },
            bytes,
        }
    }
}

/// A socket that is open.
#[derive(Debug, Default)]
struct Inbox {
    socket: u64,
    received: VecDeque<(Arrival, Vec<u8>)>,
}

/// The links as messages see them.
#[derive(Debug)]
pub(super) struct Wire {
    kernel: Shared,
    rng: Rng,
    on_way: BTreeMap<(Instant, u64), OnWay>,
    numbered: u64,
    /// By node and interface of the router.
    inboxes: BTreeMap<(usize, usize), Inbox>,
    /// The last ones that were sent, and by which interface they would reach the router.
    kept: VecDeque<(usize, Envelope, Vec<u8>)>,
    /// Messages are lost, repeated and mutilated until then.
    pub(super) bad_until: Instant,
    /// Errors of the program's next calls.
    pub(super) errors: VecDeque<i32>,
    pub(super) messages: Messages,
}

pub(super) type SharedWire = Arc<Mutex<Wire>>;

pub(super) fn wire(shared: &SharedWire) -> MutexGuard<'_, Wire> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    pub(super) fn new(kernel: &Shared, rng: Rng) -> SharedWire {
        Arc::new(Mutex::new(Self {
            kernel: Arc::clone(kernel),
            rng,
            on_way: BTreeMap::new(),
            numbered: 0,
            inboxes: BTreeMap::new(),
            kept: VecDeque::new(),
            bad_until: Instant::START,
            errors: VecDeque::new(),
            messages: Messages::default(),
        }))
    }

    fn next_error(&mut self, station: usize) -> io::Result<()> {
        match self.errors.pop_front().filter(|_| station == ROUTER) {
            None => Ok(()),
            Some(error) => {
                self.messages.errors += 1;
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }

    /// When the next message arrives.
    fn next_event(&self) -> Instant {
        self.on_way
            .first_key_value()
            .map_or(Instant::NEVER, |((at, _), _)| *at)
    }

    fn put(&mut self, way: OnWay, delay: Duration) {
        self.numbered += 1;
        let at = locked(&self.kernel).now + delay;
        self.on_way.insert((at, self.numbered), way);
    }

    /// A node sends a message by a link.
    fn send(&mut self, station: usize, link: usize, envelope: &Envelope, bytes: &[u8]) -> io::Result<()> {
        self.next_error(station)?;
        let (now, works) = {
            let kernel = locked(&self.kernel);
            (kernel.now, kernel.works(link))
        };
        if !works {
            self.messages.lost += 1;
            return match station {
                ROUTER => Err(io::Error::from_raw_os_error(ENETDOWN)),
                _ => Ok(()),
            };
        }
        if station != ROUTER {
            self.kept.push_back((link, *envelope, bytes.to_vec()));
            self.kept.drain(..self.kept.len().saturating_sub(KEPT));
        }
        let to = if station == ROUTER { host_at(link) } else { ROUTER };
        let mut way = OnWay::new((to, link), envelope, bytes.to_vec());
        let usual = Duration::from_micros(50 + self.rng.below(450));
        if now >= self.bad_until {
            self.put(way, usual);
            return Ok(());
        }
        if self.rng.below(4) == 0 {
            self.messages.repeated += 1;
            let later = Duration::from_micros(self.rng.below(80_000));
            self.put(way.clone(), later);
        }
        match self.rng.below(4) {
            0 => self.messages.lost += 1,
            1 => {
                let later = Duration::from_micros(self.rng.below(60_000));
                self.put(way, later);
            }
            2 if self.rng.below(2) == 0 => {
                self.messages.mutilated += 1;
                self.mutilate(&mut way.bytes);
                self.put(way, usual);
            }
            _ => self.put(way, usual),
        }
        Ok(())
    }

    /// Changes a byte or two, or the length.
    fn mutilate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.rng.below(2) {
            let at = self.rng.below(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = byte.wrapping_add(1 + self.rng.below(255) as u8);
            }
        }
        if self.rng.below(8) == 0 {
            bytes.truncate(self.rng.below(bytes.len() as u64 + 1) as usize);
        }
    }

    /// Messages without sense arrive at the router, and such as have had some.
    pub(super) fn garbage(&mut self, many: u64, forges: bool) {
        for _ in 0..many {
            self.messages.garbage += 1;
            let mut link = self.rng.below(2) as usize;
            let mut envelope = Envelope {
                source: host_address(link).into(),
                destination: router_address(link).into(),
                ttl: self.rng.bits() as u8,
                alert: self.rng.below(2) == 0,
            };
            let mut bytes: Vec<u8> = (0..self.rng.below(200)).map(|_| self.rng.bits() as u8).collect();
            if self.rng.below(4) > 0 && !self.kept.is_empty() {
                let which = self.rng.below(self.kept.len() as u64) as usize;
                (link, envelope, bytes) = self.kept[which].clone();
                self.mutilate(&mut bytes);
                if forges && bytes.len() >= 8 {
                    self.messages.forged += 1;
                    bytes[2..4].fill(0);
                }
            }
            let way = OnWay::new((ROUTER, link), &envelope, bytes);
            let delay = Duration::from_micros(self.rng.below(2_000));
            self.put(way, delay);
        }
    }

    /// What is due arrives.
    fn advance(&mut self, now: Instant) {
        while let Some(first) = self.on_way.first_entry().filter(|first| first.key().0 <= now) {
            let way = first.remove();
            self.arrives(way);
        }
    }

    fn arrives(&mut self, way: OnWay) {
        let OnWay {
            to,
            link,
            alert,
            arrival,
            bytes,
        } = way;
        if !locked(&self.kernel).works(link) {
            self.messages.lost += 1;
            return;
        }
        let destination = arrival.destination.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let routers = (0..2).any(|number| destination == IpAddr::from(router_address(number)));
        let takes = to != ROUTER || alert || routers;
        if let Some(inbox) = self.inboxes.get_mut(&(to, link)).filter(|_| takes) {
            match inbox.received.len() < SOCKET {
                true => {
                    self.messages.heard += 1;
                    inbox.received.push_back((arrival, bytes));
                }
                false => self.messages.lost += 1,
            }
            return;
        }
        // The kernel routes what nobody takes.
        let onwards = towards(destination).filter(|other| *other != link && !routers && to == ROUTER);
        match onwards {
            Some(other) if arrival.ttl > 1 => {
                self.messages.passed_by += 1;
                let arrival = Arrival {
                    ttl: arrival.ttl - 1,
                    ..arrival
                };
                let way = OnWay {
                    to: host_at(other),
                    link: other,
                    alert,
                    arrival,
                    bytes,
                };
                self.put(way, Duration::from_micros(100));
            }
            _ => self.messages.lost += 1,
        }
    }

    fn waits(&self, station: usize) -> bool {
        let mut inboxes = self.inboxes.range((station, 0)..(station + 1, 0));
        inboxes.any(|(_, inbox)| !inbox.received.is_empty())
    }

    /// Messages arrive as they are from now on.
    pub(super) fn works_again(&mut self) {
        self.bad_until = Instant::START;
        self.errors.clear();
    }
}

/// What is around a node.
#[derive(Clone, Debug)]
struct Around {
    wire: SharedWire,
    station: usize,
    /// Which changes of links it has seen.
    seen: u64,
}

impl Around {
    /// Its interfaces, with the links that they are at.
    fn interfaces(&self) -> Vec<(usize, Interface)> {
        let wire = wire(&self.wire);
        let kernel = locked(&wire.kernel);
        let interface = |name: &str, index: u32, up: bool| Interface {
            name: name.into(),
            index,
            address: [2, 0, 0, 0, 0, index as u8],
            ethernet: true,
            mtu: 1_500,
            up,
            carrier: up,
            master: None,
            sent: None,
            sent_bytes: None,
        };
        let links = (0..2).filter(|link| self.station == ROUTER || self.station == host_at(*link));
        let found = links.filter_map(|link| match self.station {
            ROUTER => {
                let one = &kernel.interfaces[link];
                Some((link, interface(NAMES[link], one.is? as u32 + 1, one.up)))
            }
            _ => Some((link, interface(HOSTS_OWN.0, HOSTS_OWN.1, true))),
        });
        found.collect()
    }

    fn found(&self, is: impl Fn(&Interface) -> bool) -> io::Result<(usize, Interface)> {
        let mut all = self.interfaces().into_iter();
        let found = all.find(|(_, interface)| is(interface));
        found.ok_or_else(|| io::Error::from_raw_os_error(ENODEV))
    }

    fn address(&self, link: usize) -> Ipv4Addr {
        match self.station {
            ROUTER => router_address(link),
            _ => host_address(link),
        }
    }
}

impl NodeContext for Around {
    fn routes(&self) -> io::Result<Box<dyn RouteTable>> {
        Ok(Box::new(self.clone()))
    }

    fn named(&self, name: &str) -> io::Result<Interface> {
        self.found(|one| one.name == name).map(|(_, found)| found)
    }

    fn numbered(&self, index: u32) -> io::Result<Interface> {
        self.found(|one| one.index == index).map(|(_, found)| found)
    }

    fn open(&self, _name: &str, index: u32) -> io::Result<Box<dyn MessageSocket>> {
        let (link, _) = self.found(|one| one.index == index)?;
        let mut wire = wire(&self.wire);
        wire.next_error(self.station)?;
        wire.numbered += 1;
        let number = wire.numbered;
        let inbox = Inbox {
            socket: number,
            ..Inbox::default()
        };
        wire.inboxes.insert((self.station, link), inbox);
        Ok(Box::new(RawSocket {
            wire: Arc::clone(&self.wire),
            at: (self.station, link),
            number,
            buffer: Vec::new(),
        }))
    }

    fn have_changed(&mut self) -> bool {
        let changes = locked(&wire(&self.wire).kernel).changes;
        std::mem::replace(&mut self.seen, changes) != changes
    }

    fn changes(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl RouteTable for Around {
    fn to(&self, destination: IpAddr) -> io::Result<Leads> {
        let all = self.interfaces();
        if all
            .iter()
            .any(|(link, _)| destination == IpAddr::from(self.address(*link)))
        {
            return Ok(Leads::Here);
        }
        let to = towards(destination);
        let through = all
            .iter()
            .find(|(link, one)| one.up && (self.station != ROUTER || to == Some(*link)));
        Ok(through.map_or(Leads::Nowhere, |(link, one)| Leads::By {
            interface: one.index,
            source: Some(self.address(*link).into()),
        }))
    }

    fn of_group(&self, _source: Ipv4Addr, _group: Ipv4Addr) -> io::Result<Option<GroupRoute>> {
        Ok(None)
    }

    fn has_joined(&self, _group: Ipv4Addr) -> io::Result<bool> {
        Ok(false)
    }

    fn addresses(&self) -> io::Result<Vec<OwnAddress>> {
        let all = self.interfaces().into_iter();
        let own = all.map(|(link, one)| OwnAddress {
            interface: one.index,
            address: self.address(link).into(),
        });
        Ok(own.collect())
    }
}

/// A socket of a node at a link.
#[derive(Debug)]
struct RawSocket {
    wire: SharedWire,
    at: (usize, usize),
    number: u64,
    buffer: Vec<u8>,
}

impl MessageSocket for RawSocket {
    fn receive(&mut self) -> io::Result<Option<(Arrival, &[u8])>> {
        let mut wire = wire(&self.wire);
        let inbox = wire
            .inboxes
            .get_mut(&self.at)
            .filter(|inbox| inbox.socket == self.number);
        let Some((arrival, bytes)) = inbox.and_then(|inbox| inbox.received.pop_front()) else {
            return Ok(None);
        };
        wire.next_error(self.at.0)?;
        self.buffer = bytes;
        Ok(Some((arrival, &self.buffer)))
    }

    fn send(&self, envelope: &Envelope, message: &[u8]) -> io::Result<()> {
        wire(&self.wire).send(self.at.0, self.at.1, envelope, message)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}

impl Drop for RawSocket {
    fn drop(&mut self) {
        let mut wire = wire(&self.wire);
        let own = |inbox: &Inbox| inbox.socket == self.number;
        if wire.inboxes.get(&self.at).is_some_and(own) {
            wire.inboxes.remove(&self.at);
        }
    }
}

/// A node that speaks.
struct Speaking {
    speaker: Speaker,
    wakes: Instant,
    /// It cannot change what is in force while others do.
    in_force: Option<Arc<InForce>>,
}

/// The trees of the program, which are watched while reservations come and go.
struct Adopting {
    in_force: Arc<InForce>,
    world: Arc<World>,
}

impl Trees for Adopting {
    fn managed(&self) -> Vec<InterfacePolicy> {
        self.in_force.managed()
    }

    fn adopt(&self, policy: &InterfacePolicy, layout: ReservedLayout) -> Result<Vec<ClassesAnew>, Refusal> {
        let before = self.in_force.policy_of(&policy.name)?;
        self.world.changes(leaves_by(&policy.name));
        let adoption = self
            .in_force
            .put(policy.clone(), policy.with_reservations(layout))?;
        self.world.changes(leaves_by(&policy.name));
        let same = Difference::of(&before, policy).is_empty();
        match adoption.adopted {
            Adopted::Rebuilt { dropped } if dropped > 0 && same => {
                let what = format!(
                    "{}: a reservation's coming or going drops {dropped} packets",
                    policy.name
                );
                self.world.fault(what);
            }
            _ => {}
        }
        Ok(adoption.begins_anew)
    }
}

/// The nodes, in place of their threads.
pub(super) struct Stations {
    wire: SharedWire,
    speaking: [Mutex<Option<Speaking>>; STATIONS],
    /// Some node has begun.
    any: AtomicBool,
    /// The program is stopped.
    pub(super) stopped: AtomicBool,
}

impl Stations {
    pub(super) fn new(wire: SharedWire) -> Self {
        Self {
            wire,
            speaking: Default::default(),
            any: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// Of a node, unless it is having a turn: that of its own thread.
    fn slot(&self, station: usize) -> Option<MutexGuard<'_, Option<Speaking>>> {
        match self.speaking[station].try_lock() {
            Ok(slot) => Some(slot),
            Err(std::sync::TryLockError::Poisoned(slot)) => Some(slot.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    fn runs(&self, station: usize) -> bool {
        station != ROUTER || !self.stopped.load(Ordering::Relaxed)
    }

    /// When the next one has something to do, or a message arrives.
    pub(super) fn next_event(&self) -> Instant {
        if !self.any.load(Ordering::Relaxed) {
            return Instant::NEVER;
        }
        let wakes = (0..STATIONS).filter(|station| self.runs(*station));
        let wakes = wakes.filter_map(|station| Some(self.slot(station)?.as_ref()?.wakes));
        wakes
            .chain([wire(&self.wire).next_event()])
            .min()
            .unwrap_or(Instant::NEVER)
    }

    /// Those have a turn who have something to do; or all, who may have been sent commands.
    pub(super) fn turn(&self, world: &World, all: bool) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        for station in (0..STATIONS).filter(|station| self.runs(*station)) {
            let now = world.now_here();
            wire(&self.wire).advance(now);
            let Some(mut slot) = self.slot(station) else {
                continue;
            };
            let Some(speaking) = slot.as_mut() else { continue };
            let is_changed = |in_force: &Arc<InForce>| in_force.while_in_force(PathId(0), |_| ()).is_none();
            if speaking.in_force.as_ref().is_some_and(is_changed) {
                speaking.wakes = speaking.wakes.max(now + Duration::from_micros(10));
                continue;
            }
            if !all && speaking.wakes > now && !wire(&self.wire).waits(station) {
                continue;
            }
            let after = speaking.speaker.turn();
            let now = world.now_here();
            match after {
                After::Busy => speaking.wakes = now + Duration::from_micros(50),
                After::Idle(until) => speaking.wakes = until.max(now + Duration::from_micros(1)),
                After::Ended => *slot = None,
            }
        }
    }

    /// A node is cut off.
    pub(super) fn cut_off(&self, station: usize) {
        if let Some(mut slot) = self.slot(station) {
            *slot = None;
        }
    }

    pub(super) fn cut_all_off(&self) {
        (0..STATIONS).for_each(|station| self.cut_off(station));
    }

    pub(super) fn has_ended(&self, station: usize) -> bool {
        self.slot(station).is_some_and(|slot| slot.is_none())
    }

    fn begin(
        &self,
        world: &Arc<World>,
        station: usize,
        (config, trees): (RsvpConfig, Box<dyn Trees>),
        in_force: Option<Arc<InForce>>,
    ) -> io::Result<SpeakerHandle> {
        let setup = Setup {
            config,
            everywhere: false,
            keys: None,
            trees,
            seed: secret_seed(),
            log: Box::new(|_| {}),
        };
        let around = Around {
            wire: Arc::clone(&self.wire),
            station,
            seen: u64::MAX,
        };
        let time = CallerTime::simulated(Arc::clone(world) as _);
        let (speaker, handle, _) = speaker::begin(setup, Box::new(around), time)?;
        let speaking = Speaking {
            speaker,
            wakes: world.now_here(),
            in_force,
        };
        self.any.store(true, Ordering::Relaxed);
        if let Some(mut slot) = self.slot(station) {
            *slot = Some(speaking);
        }
        Ok(handle)
    }

    /// The node of the program begins.
    pub(super) fn begin_router(
        &self,
        world: &Arc<World>,
        config: RsvpConfig,
        in_force: &Arc<InForce>,
    ) -> io::Result<SpeakerHandle> {
        let trees = Box::new(Adopting {
            in_force: Arc::clone(in_force),
            world: Arc::clone(world),
        });
        self.begin(world, ROUTER, (config, trees), Some(Arc::clone(in_force)))
    }

    /// The node of a host begins. It replies to all Paths to itself.
    pub(super) fn begin_host(
        &self,
        world: &Arc<World>,
        link: usize,
        refresh: Duration,
    ) -> io::Result<SpeakerHandle> {
        let config = RsvpConfig {
            interfaces: vec![HOSTS_OWN.0.into()],
            settings: RsvpSettings {
                longest_refresh: Some(refresh + refresh),
                ..RsvpSettings::refreshed(refresh)
            },
            unprotected: Vec::new(),
            accept: vec![AcceptRule::default()],
        };
        self.begin(world, host_at(link), (config, Box::new(NoTrees)), None)
    }
}
