//! The kernel around the program, and the wires: two interfaces, frames that arrive at them, and
//! what becomes of each. It forwards by itself what the program does not take, as its programs and
//! the bridge do, and keeps a ledger of all frames.

use super::connections;
use crate::enforced::Standing;
use engine::packet::Buffer;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::clock::Moment;
use netio::fail_open::Heart;
use netio::pool::{Offload, Pool};
use netio::port::{Capabilities, Counters, Fault, Port, PortError, Wake};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The interfaces, by their numbers.
pub(super) const NAMES: [&str; 2] = ["lan0", "wan0"];
/// Frames that a socket keeps until they are read.
const SOCKET: usize = 512;
/// Frames that a port reads at once.
const BATCH: usize = 64;
const MTU: usize = 1_500;
/// The last bytes of a frame that the ledger knows.
const MARK: [u8; 4] = [0xc0, 0xde, 0x5e, 0xed];

/// Where a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// In a socket or in a worker.
    Taken,
    /// On the wire, by a worker.
    Sent,
    /// On the wire, by the kernel.
    Forwarded,
    /// The kernel had no room for it, or its interface was down.
    Lost,
}

/// A frame of the ledger.
#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Place,
    flow: u16,
    arrived: Instant,
}

/// What came to pass that may not.
pub(super) type Wrong = String;

/// An interface.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) up: bool,
    /// Another one each time that it is gone and there again; none while it is gone.
    pub(super) is: Option<u64>,
    received: VecDeque<Vec<u8>>,
    /// Frames in the ring, and when each has left if the device sends.
    ring: VecDeque<Vec<u8>>,
    next_leaves: Instant,
    /// The device sends nothing before.
    pub(super) blocked: Instant,
    /// Errors of the next calls.
    pub(super) send_errors: VecDeque<i32>,
    pub(super) receive_errors: VecDeque<i32>,
    /// Until when the programs take what arrives here.
    alive_until: Instant,
    /// Of each flow that leaves here, the last frame.
    last: BTreeMap<u16, u32>,
    /// What may leave here more than at the allowed rate, in bytes times 8e9.
    burst: u128,
    burst_at: Instant,
    /// The rate that what a worker sends may have; none: any.
    allowed: Option<Bandwidth>,
    /// Frames for here wait somewhere since then, and none has left.
    starved: Option<Instant>,
}

/// Counts of a path, by the ledger: what a worker was given that leaves by an interface, and what
/// it handed over.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Moved {
    pub(super) taken: u64,
    pub(super) handed: u64,
    pub(super) failed: u64,
    pub(super) refused: u64,
}

/// What a seed has gone through.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Frames {
    pub(super) sent: u64,
    pub(super) forwarded: u64,
    pub(super) lost: u64,
    pub(super) garbage: u64,
    /// Departures of the promised class that were held against its bound.
    pub(super) bounded: u64,
    /// The same of flows with a reservation.
    pub(super) reserved: u64,
    /// Segments whose window was lowered.
    pub(super) lowered: u64,
}

/// A segment of a connection that has left by an interface.
#[derive(Clone, Debug)]
pub(super) struct LeftSegment {
    pub(super) number: usize,
    pub(super) flow: u16,
    pub(super) arrived: Instant,
    pub(super) by_program: bool,
    pub(super) frame: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) now: Instant,
    pub(super) interfaces: [Interface; 2],
    entries: Vec<Entry>,
    pub(super) moved: [Moved; 2],
    pub(super) frames: Frames,
    pub(super) wrong: Option<Wrong>,
    speed: Bandwidth,
    ring: usize,
    incarnations: u64,
    /// How often a link has changed.
    pub(super) changes: u64,
    /// The delay bounds of flows at each interface, where there are any.
    pub(super) bounds: [BTreeMap<u16, Duration>; 2],
    /// Since when nothing was wrong, and nothing changed.
    pub(super) calm_since: Instant,
    /// No program runs, or it has just begun: nothing has to leave.
    pub(super) excused: Instant,
    /// Segments that have left, until their hosts have them.
    pub(super) left: VecDeque<LeftSegment>,
    /// When the law of classes that yield was run last.
    pub(super) law_turned: Instant,
}

pub(super) type Shared = Arc<Mutex<Kernel>>;

pub(super) fn locked(kernel: &Shared) -> MutexGuard<'_, Kernel> {
    kernel.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kernel {
    pub(super) fn new(now: Instant, speed: Bandwidth, ring: usize) -> Self {
        let interface = |is| Interface {
            up: true,
            is: Some(is),
            received: VecDeque::new(),
            ring: VecDeque::new(),
            next_leaves: now,
            blocked: now,
            send_errors: VecDeque::new(),
            receive_errors: VecDeque::new(),
            alive_until: Instant::START,
            last: BTreeMap::new(),
            burst: 0,
            burst_at: now,
            allowed: None,
            starved: None,
        };
        Self {
            now,
            interfaces: [interface(0), interface(1)],
            entries: Vec::new(),
            moved: Default::default(),
            frames: Frames::default(),
            wrong: None,
            speed,
            ring,
            incarnations: 1,
            changes: 0,
            bounds: Default::default(),
            calm_since: now,
            excused: now,
            left: VecDeque::new(),
            law_turned: Instant::START,
        }
    }

    pub(super) fn fault(&mut self, what: String) {
        let at = self.now.nanos() / 1_000 - 1_000_000_000;
        self.wrong
            .get_or_insert_with(|| format!("{}.{:03} ms: {what}", at / 1_000, at % 1_000));
    }

    /// What a worker sends may have this rate from now on.
    pub(super) fn allow(&mut self, number: usize, rate: Option<Bandwidth>) {
        let interface = &mut self.interfaces[number];
        if interface.allowed != rate {
            (interface.allowed, interface.burst) = (rate, 0);
        }
    }

    /// Something is disturbed until then.
    pub(super) fn disturb(&mut self, until: Instant) {
        self.calm_since = self.calm_since.max(until);
    }

    /// Nothing has to leave before.
    pub(super) fn excuse(&mut self, until: Instant) {
        self.excused = self.excused.max(until);
    }

    /// Time goes on: rings empty.
    pub(super) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        for number in 0..2 {
            while let Some(len) = self.interfaces[number].ring.front().map(Vec::len) {
                let interface = &mut self.interfaces[number];
                let begins = interface.next_leaves.max(interface.blocked);
                let leaves = begins + self.speed.time_to_send(Bytes::new(len as u64));
                if leaves > self.now || !interface.up || interface.is.is_none() {
                    break;
                }
                interface.next_leaves = leaves;
                let frame = interface.ring.pop_front().unwrap_or_default();
                self.leaves(number, &frame, Place::Sent, leaves);
            }
        }
    }

    /// Whether the ring of an interface has room.
    pub(super) fn room(&self, number: usize, staged: usize) -> usize {
        self.ring
            .saturating_sub(self.interfaces[number].ring.len() + staged)
    }

    /// A frame of a flow arrives at the interface opposite to the one where it is to leave.
    pub(super) fn arrives(&mut self, leaving: usize, flow: u16, mut frame: Vec<u8>) {
        let id = self.entries.len() as u32;
        let len = frame.len();
        frame[len - 10..len - 8].copy_from_slice(&flow.to_be_bytes());
        frame[len - 8..len - 4].copy_from_slice(&id.to_be_bytes());
        frame[len - 4..].copy_from_slice(&MARK);
        self.entries.push(Entry {
            place: Place::Lost,
            flow,
            arrived: self.now,
        });
        self.comes(leaving, frame);
    }

    /// A frame that nothing is known of.
    pub(super) fn garbage(&mut self, leaving: usize, frame: Vec<u8>) {
        self.frames.garbage += 1;
        self.comes(leaving, frame);
    }

    fn comes(&mut self, leaving: usize, frame: Vec<u8>) {
        let (now, at) = (self.now, 1 - leaving);
        let arriving = &mut self.interfaces[at];
        if !arriving.up || arriving.is.is_none() {
            self.frames.lost += 1;
            return;
        }
        if now < arriving.alive_until {
            if arriving.received.len() >= SOCKET {
                self.frames.lost += 1;
                // More than it can take.
                self.disturb(now + Duration::from_millis(500));
                return;
            }
            let id = self.known(&frame);
            self.interfaces[at].received.push_back(frame);
            if let Some(id) = id {
                self.entries[id].place = Place::Taken;
            }
            self.interfaces[leaving].starved.get_or_insert(now);
            return;
        }
        let out = &self.interfaces[leaving];
        match out.up && out.is.is_some() {
            true => self.leaves(leaving, &frame, Place::Forwarded, now),
            false => self.frames.lost += 1,
        }
    }

    /// The number of a frame in the ledger, if it is there.
    fn known(&self, frame: &[u8]) -> Option<usize> {
        let tail = frame.len().checked_sub(10)?;
        let id: [u8; 4] = frame[tail + 2..tail + 6].try_into().ok()?;
        let id = u32::from_be_bytes(id) as usize;
        (frame.ends_with(&MARK) && id < self.entries.len()).then_some(id)
    }

    /// A frame has left by an interface.
    fn leaves(&mut self, number: usize, frame: &[u8], by: Place, at: Instant) {
        match by {
            Place::Forwarded => self.frames.forwarded += 1,
            _ => self.frames.sent += 1,
        }
        self.interfaces[number].starved = None;
        let Some(id) = self.known(frame) else { return };
        let entry = self.entries[id];
        if matches!(entry.place, Place::Sent | Place::Forwarded) {
            self.fault(format!(
                "frame {id} of flow {} has left twice: {:?}, then {by:?}",
                entry.flow, entry.place
            ));
        }
        self.entries[id].place = by;
        if connections::FLOWS.contains(&entry.flow) {
            self.left.push_back(LeftSegment {
                number,
                flow: entry.flow,
                arrived: entry.arrived,
                by_program: by == Place::Sent,
                frame: frame.to_vec(),
            });
        }
        if by == Place::Forwarded {
            return;
        }
        let last = self.interfaces[number].last.insert(entry.flow, id as u32);
        if last.is_some_and(|last| last as usize > id) {
            let before = last.unwrap_or_default();
            self.fault(format!(
                "flow {} at {}: {id} has left after {before}",
                entry.flow, NAMES[number]
            ));
        }
        let calm = entry.arrived >= self.calm_since && self.calm_since < at;
        if let Some(bound) = self.bounds[number].get(&entry.flow).copied().filter(|_| calm) {
            match entry.flow {
                0 => self.frames.bounded += 1,
                _ => self.frames.reserved += 1,
            }
            let delay = at.since(entry.arrived);
            if delay > bound {
                self.fault(format!(
                    "a promised frame of flow {} left {} after {delay}, bound {bound}",
                    entry.flow, NAMES[number]
                ));
            }
        }
    }

    /// A worker has handed a frame over to an interface.
    fn handed(&mut self, number: usize, frame: Vec<u8>, on_wire: u64) {
        let now = self.now;
        let interface = &mut self.interfaces[number];
        if let Some(rate) = interface.allowed {
            const UNIT: u128 = 8_000_000_000;
            let span = u128::from(now.since(interface.burst_at).nanos());
            let bits = u128::from(rate.bits());
            interface.burst = interface.burst.saturating_sub(span * bits) + u128::from(on_wire) * UNIT;
            // What it may catch up, the packet at hand and the one that was ahead.
            let catch_up = u128::from(engine::shaped_queue::CATCH_UP.nanos()) * bits;
            let most = catch_up + 3 * 1_600 * UNIT;
            if interface.burst > most {
                let over = (interface.burst - most) / UNIT;
                let what = format!("{} sends {over} B more than {rate} allows", NAMES[number]);
                interface.burst = 0;
                self.fault(what);
            }
        }
        self.interfaces[number].burst_at = now;
        let interface = &mut self.interfaces[number];
        if interface.ring.is_empty() {
            interface.next_leaves = now;
        }
        interface.ring.push_back(frame);
        self.moved[number].handed += 1;
    }

    /// Until when frames are taken at each interface.
    pub(super) fn alive(&self) -> [Instant; 2] {
        [0, 1].map(|number| self.interfaces[number].alive_until)
    }

    /// The program is gone: so are frames in its sockets. Its heart beats no more; what is left of
    /// it goes on until then.
    pub(super) fn crashed(&mut self, alive: Option<[Instant; 2]>) {
        self.begun();
        for (interface, until) in self.interfaces.iter_mut().zip(alive.into_iter().flatten()) {
            interface.alive_until = until;
        }
    }

    /// A program begins, with sockets and hearts of its own.
    pub(super) fn begun(&mut self) {
        self.interfaces.iter_mut().for_each(|interface| {
            interface.received.clear();
            interface.starved = None;
            interface.allowed = None;
            interface.alive_until = Instant::START;
            interface.send_errors.clear();
            interface.receive_errors.clear();
        });
        self.moved = Default::default();
    }

    /// The interface is gone, or is down.
    pub(super) fn takes_away(&mut self, number: usize, gone: bool) {
        let interface = &mut self.interfaces[number];
        match gone {
            true => interface.is = None,
            false => interface.up = false,
        }
        interface.ring.clear();
        self.changes += 1;
    }

    /// It is there again.
    pub(super) fn gives_back(&mut self, number: usize) {
        self.incarnations += 1;
        let interface = &mut self.interfaces[number];
        if interface.is.is_none() {
            interface.is = Some(self.incarnations);
            interface.received.clear();
        }
        interface.up = true;
        self.changes += 1;
    }

    pub(super) fn works(&self, number: usize) -> bool {
        let interface = &self.interfaces[number];
        interface.up && interface.is.is_some()
    }

    /// As the program looks at it.
    pub(super) fn standing(&self, name: &str) -> Option<Standing> {
        let number = NAMES.iter().position(|one| *one == name)?;
        let interface = &self.interfaces[number];
        interface.is?;
        Some(Standing {
            up: interface.up,
            carrier: interface.up,
            master: None,
            qdisc: None,
            offloads: Vec::new(),
            sent: None,
        })
    }

    /// Whether frames for an interface wait for longer than anything excuses.
    pub(super) fn watch_starving(&mut self, longest: Duration) {
        for (number, name) in NAMES.iter().enumerate() {
            let Some(since) = self.interfaces[number].starved else {
                continue;
            };
            if !self.works(number) || self.interfaces[number].blocked > self.now {
                self.interfaces[number].starved = Some(self.now);
                continue;
            }
            if self.now.since(since.max(self.excused)) > longest && self.now > self.excused {
                self.fault(format!(
                    "nothing has left {name} for {longest}, though frames wait"
                ));
            }
        }
    }

    /// Frames that are gone are forgotten: no other is anywhere.
    pub(super) fn forgets(&mut self) -> Result<(), String> {
        let waits = |one: &Interface| one.received.len() + one.ring.len();
        let waiting: usize = self.interfaces.iter().map(waits).sum();
        if waiting > 0 {
            return Err(format!(
                "{waiting} frames are in sockets and rings, with no traffic"
            ));
        }
        self.entries = Vec::new();
        self.interfaces.iter_mut().for_each(|one| one.last.clear());
        Ok(())
    }

    /// Nothing waits at this interface any more, as its path says.
    pub(super) fn is_idle(&mut self, number: usize) {
        if self.interfaces[1 - number].received.is_empty() && self.interfaces[number].ring.is_empty() {
            self.interfaces[number].starved = None;
        }
    }
}

/// The number of the interface where a path of the workers leaves.
pub(super) fn leaves_by(name: &str) -> usize {
    usize::from(name == NAMES[1])
}

/// What tells the kernel whether the worker of an interface is alive.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) kernel: Shared,
    pub(super) number: usize,
    pub(super) limit: Duration,
}

impl Heart for Cell {
    fn lapsed(&self, now: Instant) -> bool {
        now >= locked(&self.kernel).interfaces[self.number].alive_until
    }

    fn beat(&self, now: Instant) {
        locked(&self.kernel).interfaces[self.number].alive_until = now + self.limit;
    }

    fn silence(&self) {
        locked(&self.kernel).interfaces[self.number].alive_until = Instant::START;
    }

    fn take_from(&self, _moment: Moment) {}

    fn leave_at(&self, _moment: Moment) {}
}

/// A port of an interface: as a packet socket with its programs.
#[derive(Debug)]
pub(super) struct Socket {
    kernel: Shared,
    number: usize,
    receives: bool,
    is: Option<u64>,
    staged: VecDeque<Buffer>,
    counters: Counters,
}

impl Socket {
    pub(super) fn open(kernel: &Shared, number: usize, receives: bool) -> Result<Self, PortError> {
        let mut port = Self {
            kernel: Arc::clone(kernel),
            number,
            receives,
            is: None,
            staged: VecDeque::new(),
            counters: Counters::default(),
        };
        port.is = locked(kernel).interfaces[number].is;
        port.state("opening").map(|()| port)
    }

    fn state(&self, doing: &'static str) -> Result<(), PortError> {
        let kernel = locked(&self.kernel);
        let interface = &kernel.interfaces[self.number];
        let fault = match interface {
            one if one.is.is_none() || one.is != self.is => Fault::Gone,
            one if !one.up => Fault::Down,
            _ => return Ok(()),
        };
        Err(PortError::fault(NAMES[self.number], doing, fault))
    }

    fn next_error(&self, doing: &'static str) -> Result<(), PortError> {
        let mut kernel = locked(&self.kernel);
        let interface = &mut kernel.interfaces[self.number];
        let errors = match doing {
            "sending" => &mut interface.send_errors,
            _ => &mut interface.receive_errors,
        };
        match errors.pop_front() {
            None => Ok(()),
            Some(error) => {
                let why = io::Error::from_raw_os_error(error);
                Err(PortError::new(NAMES[self.number], doing, why))
            }
        }
    }

    fn drop_staged(&mut self, pool: &mut Pool) {
        for buffer in std::mem::take(&mut self.staged) {
            self.counters.dropped += 1;
            locked(&self.kernel).moved[self.number].failed += 1;
            pool.free(buffer);
        }
    }
}

impl Port for Socket {
    fn name(&self) -> &str {
        NAMES[self.number]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(MTU, locked(&self.kernel).ring)
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        if !self.receives {
            return Ok(());
        }
        self.state("receiving")
            .and_then(|()| self.next_error("receiving"))?;
        for _ in 0..BATCH {
            let frame = locked(&self.kernel).interfaces[self.number].received.pop_front();
            let Some(frame) = frame else { break };
            let moved = &mut locked(&self.kernel).moved[1 - self.number];
            match pool.put(&frame, Offload::default()) {
                Some(buffer) => {
                    moved.taken += 1;
                    self.counters.received += 1;
                    into.push(buffer);
                }
                None => {
                    moved.refused += 1;
                    self.counters.refused += 1;
                }
            }
        }
        Ok(())
    }

    fn room(&self) -> usize {
        locked(&self.kernel).room(self.number, self.staged.len())
    }

    fn transmit(&mut self, _pool: &mut Pool, frame: Buffer) {
        self.staged.push_back(frame);
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let can = self.state("sending").and_then(|()| self.next_error("sending"));
        if can.is_err() {
            self.drop_staged(pool);
            return can;
        }
        while let Some(buffer) = self.staged.pop_front() {
            let bytes = pool.bytes(buffer).to_vec();
            pool.free(buffer);
            self.counters.sent += 1;
            // What the policy counts is known to within its framing: none here.
            let len = bytes.len() as u64;
            locked(&self.kernel).handed(self.number, bytes, len);
        }
        Ok(())
    }

    fn unsent(&self) -> usize {
        self.staged.len()
    }

    fn wake(&self, _room: bool) -> Option<Wake<'_>> {
        None
    }

    fn revive(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.drop_staged(pool);
        self.is = locked(&self.kernel).interfaces[self.number].is;
        self.state("reopening")
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
