//! Flow queues that are served fairly by host and by flow, each kept short by COBALT: what `cake`
//! is made of. They stand in groups (*tins*) that share nothing but the packets' memory.
//!
//! **Shares.** Let *n* be the number of bulk flows of a flow's host: the source host, the
//! destination host, or whichever of both has more (*triple*, section III.C of "Piece of CAKE"). A
//! flow's share is 1/*n* of that of a flow that is the only one of its hosts. CAKE divides the
//! quantum of deficit round robin by *n*; a full packet then takes *n* visits, so with a thousand
//! flows of one host a packet costs a thousand visits. Here each flow has a *virtual time*, the sum
//! of the bytes it sent, each times the *n* of the moment, and the bulk flow with the least is
//! served, found in logarithmic time (`structures/heaps.rs`): start-time fair queueing (Goyal, Vin
//! and Cheng, SIGCOMM 1996) with weights 1/*n*.
//!
//! ```text
//! V  = virtual time of the bulk flow served last: where a flow would be that just had its share
//! a packet of length l leaves:      flow ← flow + l n
//! a flow becomes backlogged:        flow ← max(flow, V);   sparse if flow − V < quantum, else bulk
//! next: the first of the sparse flows, by arrival, which becomes bulk once flow − V ≥ quantum;
//!       if there is none, the bulk flow with the least virtual time
//! ```
//!
//! While the same bulk flows stay backlogged, all their virtual times lie within one packet times
//! *n* of *V*. So each flow gets its share to within one longest packet *L*; what a host with *a*
//! flows and a host with *b* flows send differs by at most (*a* + *b*) *L*, whatever the lengths
//! and however long. A sparse flow is behind its share or ahead of it by less than a quantum, so it
//! waits for other sparse flows and one packet only, and cannot starve the bulk flows: it gets its
//! share, a quantum and a packet at most. When a tin is empty its round ends: *V* becomes the
//! largest virtual time.
//!
//! **Queues.** A flow keeps a queue of its own, its virtual time and COBALT's state while it has no
//! packets, until all other queues have been used since (CAKE: a queue that decays; its drop
//! probability shrinks for the time it was idle). Flows are found by their whole key in a hash
//! table with chains, where CAKE looks through the 8 ways of a set: no two flows share a queue
//! while there are as many queues as backlogged flows, where 8-way sets collide from half of that
//! on. Beyond that, flows share: each tin has 1/8 more queues for it. A backlogged flow in a shared
//! queue stays there until that is empty, so no packet overtakes another of its flow and tin (in
//! CAKE a flow that moves to a free way of its set may).

use crate::choices;
use crate::discipline::{Reason, Sink};
use crate::disciplines::codel::Law;
use crate::flows::cobalt::{Cobalt, Fate};
use crate::inspect::{Inspection, Value};
use crate::packet::{FlowHashes, Packet};
use crate::portion::Portion;
use crate::random::{Rng, mix};
use crate::structures::heaps::Heaps;
use crate::structures::keyed::Keyed;
use crate::structures::lengths::Lengths;
use crate::structures::lists::{List, Store};
use crate::structures::rings::{self, NONE, Neighbours};
use crate::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

choices! {
    /// Among whom shares are equal.
    pub enum Fair {
        /// Flows.
        Flows = "flows",
        /// Source hosts: all of a host is one flow.
        SrcHost = "srchost",
        /// Destination hosts: all to a host is one flow.
        DstHost = "dsthost",
        /// Pairs of hosts: all between two hosts is one flow.
        Hosts = "hosts",
        /// Source hosts, and the flows of each.
        DualSrcHost = "dual-srchost",
        /// Destination hosts, and the flows of each.
        DualDstHost = "dual-dsthost",
        /// Source and destination hosts, whichever has more flows, and the flows of each.
        Triple = "triple",
    }
}

impl Fair {
    /// What packets of one flow have in common.
    fn flow(self, flow: FlowHashes) -> u64 {
        match self {
            Self::SrcHost => flow.source.into(),
            Self::DstHost => flow.destination.into(),
            Self::Hosts => u64::from(flow.source) << 32 | u64::from(flow.destination),
            Self::Flows | Self::DualSrcHost | Self::DualDstHost | Self::Triple => flow.full.into(),
        }
    }

    /// Whether flows are counted by source host, and by destination host.
    fn counts(self) -> [bool; 2] {
        match self {
            Self::DualSrcHost => [true, false],
            Self::DualDstHost => [false, true],
            Self::Triple => [true, true],
            Self::Flows | Self::SrcHost | Self::DstHost | Self::Hosts => [false, false],
        }
    }
}

/// The state of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueueState {
    /// It has no packets.
    Resting,
    Sparse,
    Bulk,
}

/// The queue of a flow, or one that several share.
#[derive(Clone, Debug)]
struct FlowQueue {
    list: List,
    stand: QueueState,
    tin: u8,
    /// Its neighbours among those that rest, or among the tin's sparse ones.
    link: Neighbours,
    /// The hosts of the flow that made it backlogged: source, destination.
    hosts: [u32; 2],
    /// While it is bulk: their numbers among the hosts that count.
    members: [u32; 2],
    /// Its virtual time. A byte and a flow at 800 Gbit/s: enough for five years.
    time: u64,
    cobalt: Cobalt,
}

impl FlowQueue {
    const NEW: Self = Self {
        list: List::EMPTY,
        stand: QueueState::Resting,
        tin: 0,
        link: Neighbours::FREE,
        hosts: [0; 2],
        members: [NONE; 2],
        time: 0,
        cobalt: Cobalt::NEW,
    };
}

/// How many bulk flows each host of each tin has, of the hosts that have any.
#[derive(Debug)]
struct Hosts {
    table: Keyed,
    bulk: Vec<u32>,
    free: Vec<u32>,
}

impl Hosts {
    fn new(most: u32) -> Self {
        Self {
            table: Keyed::new(most as usize),
            bulk: Vec::new(),
            free: Vec::new(),
        }
    }

    fn key(host: u32, tin: u8) -> u64 {
        u64::from(host) << 2 | u64::from(tin)
    }

    fn bulk(&self, host: u32, tin: u8) -> u32 {
        self.table
            .find(Self::key(host, tin))
            .map_or(0, |member| self.bulk[member as usize])
    }

    /// A flow of this host becomes bulk; the host's number.
    fn join(&mut self, host: u32, tin: u8) -> u32 {
        let key = Self::key(host, tin);
        if let Some(member) = self.table.find(key) {
            self.bulk[member as usize] += 1;
            return member;
        }
        let member = self.free.pop().unwrap_or(self.bulk.len() as u32);
        match self.bulk.get_mut(member as usize) {
            Some(bulk) => *bulk = 1,
            None => self.bulk.push(1),
        }
        self.table.set(member, key);
        member
    }

    /// A flow of the host of this number is no longer bulk.
    fn leave(&mut self, member: u32) {
        let bulk = &mut self.bulk[member as usize];
        *bulk -= 1;
        if *bulk == 0 {
            self.table.clear(member);
            self.free.push(member);
        }
    }
}

/// The flows of a tin.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The head of the ring of sparse flows.
    sparse: u32,
    bulk: u64,
    /// *V*.
    time: u64,
    /// The largest virtual time of a flow.
    latest: u64,
    packets: u64,
    bytes: u64,
    /// How long a drop probability stays after a change.
    freeze: Duration,
}

/// So many queues at most are made when the first packet arrives, so that an idle class takes no
/// memory for them. More would delay it, and are made at once.
const AT_FIRST_PACKET: u32 = 1_024;

/// What may change while packets are queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowsLaw {
    /// How far a flow may be ahead of its share and still be sparse, in bytes.
    pub(crate) quantum: u64,
    /// Whether a flow is charged for what COBALT drops of it.
    pub(crate) drops_count: bool,
}

/// What an overflow has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shortened {
    /// The queue it was taken from, and that one's tin.
    pub(crate) queue: u32,
    pub(crate) tin: usize,
    pub(crate) len: Bytes,
}

/// All flows.
#[derive(Debug)]
pub(crate) struct Flows {
    fair: Fair,
    counts: [bool; 2],
    seed: u64,
    law: FlowsLaw,
    /// None before the first packet.
    queues: Vec<FlowQueue>,
    /// This many queues are of one flow each; behind them stand this many shared ones of each tin.
    own: u32,
    shared: u32,
    /// The queue of each flow.
    table: Keyed,
    /// The head of the ring of idle queues, the longest idle first.
    resting: u32,
    lines: Vec<Line>,
    /// The bulk flows of each tin, by virtual time.
    bulk: Heaps,
    hosts: [Hosts; 2],
    store: Store,
    lengths: Lengths,
    /// The latest time seen; a flush is given none.
    clock: Instant,
    /// Packets that had to share a queue, and packets dropped by BLUE.
    shares: u64,
    blue_drops: u64,
    /// The queue of which a portion of a flush has taken some.
    flushed: Option<u32>,
    /// Of flows that others have taken over: what is still to be handed on, in this order.
    left: VecDeque<List>,
}

impl Flows {
    /// With this many queues of one flow each; `freezes` has for each tin how long a drop
    /// probability stays after a change.
    pub(crate) fn new(
        fair: Fair,
        own: u32,
        law: FlowsLaw,
        freezes: impl ExactSizeIterator<Item = Duration>,
        seed: u64,
    ) -> Self {
        let line = |freeze| Line {
            sparse: NONE,
            bulk: 0,
            time: 0,
            latest: 0,
            packets: 0,
            bytes: 0,
            freeze,
        };
        let mut flows = Self {
            fair,
            counts: fair.counts(),
            seed,
            law,
            queues: Vec::new(),
            own,
            shared: own.div_ceil(8),
            table: Keyed::new(0),
            resting: NONE,
            lines: freezes.map(line).collect(),
            bulk: Heaps::new([], 0),
            hosts: [Hosts::new(0), Hosts::new(0)],
            store: Store::default(),
            lengths: Lengths::new(0),
            clock: Instant::START,
            shares: 0,
            blue_drops: 0,
            flushed: None,
            left: VecDeque::new(),
        };
        if own > AT_FIRST_PACKET {
            flows.make_queues();
        }
        flows
    }

    /// Makes the queues, and what finds them.
    #[cold]
    #[inline(never)]
    fn make_queues(&mut self) {
        let (own, shared, tins) = (self.own, self.shared, self.lines.len());
        let all = own + shared * tins as u32;
        self.queues = vec![FlowQueue::NEW; all as usize];
        self.resting = (0..own).fold(NONE, |head, queue| {
            rings::insert(&mut self.queues, |q| &mut q.link, head, queue)
        });
        self.table = Keyed::new(own as usize);
        self.bulk = Heaps::new(vec![(own + shared) as usize; tins], all as usize);
        let hosts = |counts| Hosts::new(if counts { all } else { 0 });
        self.hosts = self.counts.map(hosts);
        self.lengths = Lengths::new(all as usize);
    }

    /// Packets queued.
    pub(crate) fn held(&self) -> u64 {
        self.store.packets()
    }

    /// Bytes queued.
    pub(crate) fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Packets queued in a tin.
    pub(crate) fn packets(&self, tin: usize) -> u64 {
        self.lines[tin].packets
    }

    /// The tin that has all packets, if one has.
    #[inline]
    pub(crate) fn only(&self) -> Option<usize> {
        let all = self.store.packets();
        self.lines.iter().position(|line| line.packets == all)
    }

    /// Bytes queued in a tin.
    pub(crate) fn bytes_in(&self, tin: usize) -> Bytes {
        Bytes::new(self.lines[tin].bytes)
    }

    /// Bulk flows in a tin.
    pub(crate) fn bulk(&self, tin: usize) -> u64 {
        self.lines[tin].bulk
    }

    /// Whether a queue has no backlog.
    pub(crate) fn is_empty(&self, queue: u32) -> bool {
        self.queues[queue as usize].list.is_empty()
    }

    /// The queue for a packet of this flow.
    fn place(&mut self, tin: usize, flow: FlowHashes) -> u32 {
        let mixed = mix(self.seed ^ self.fair.flow(flow));
        let key = mixed << 2 | tin as u64;
        if let Some(queue) = self.table.find(key) {
            return queue;
        }
        let nth = ((mixed >> 32) * u64::from(self.shared)) >> 32;
        let shared = self.own + self.shared * tin as u32 + nth as u32;
        if self.resting == NONE || self.queues[shared as usize].stand != QueueState::Resting {
            self.shares += 1;
            return shared;
        }
        let queue = self.resting;
        self.table.set(queue, key);
        let link = self.queues[queue as usize].link;
        self.queues[queue as usize] = FlowQueue {
            link,
            ..FlowQueue::NEW
        };
        queue
    }

    /// Queues a packet, and returns its queue.
    pub(crate) fn put(&mut self, now: Instant, tin: usize, packet: Packet) -> u32 {
        self.clock = now;
        if self.queues.is_empty() {
            self.make_queues();
        }
        let queue = self.place(tin, packet.flow);
        let line = &mut self.lines[tin];
        line.packets += 1;
        line.bytes += packet.len.get();
        if self.queues[queue as usize].stand == QueueState::Resting {
            self.wake(queue, tin, packet.flow);
        }
        let list = &mut self.queues[queue as usize].list;
        self.store.push(list, packet);
        self.lengths.set(queue, Some(list.bytes()));
        queue
    }

    /// A queue gets its first packet.
    fn wake(&mut self, queue: u32, tin: usize, of: FlowHashes) {
        if queue < self.own {
            self.resting = rings::remove(&mut self.queues, |q| &mut q.link, self.resting, queue);
        }
        let line = &mut self.lines[tin];
        let flow = &mut self.queues[queue as usize];
        flow.tin = tin as u8;
        flow.hosts = [of.source, of.destination];
        flow.time = flow.time.max(line.time);
        flow.cobalt.wake(self.clock, line.freeze);
        if flow.time - line.time < self.law.quantum {
            flow.stand = QueueState::Sparse;
            line.sparse = rings::insert(&mut self.queues, |q| &mut q.link, line.sparse, queue);
        } else {
            self.make_greedy(queue);
        }
    }

    fn make_greedy(&mut self, queue: u32) {
        let flow = &mut self.queues[queue as usize];
        flow.stand = QueueState::Bulk;
        for (side, hosts) in self.hosts.iter_mut().enumerate() {
            if self.counts[side] {
                flow.members[side] = hosts.join(flow.hosts[side], flow.tin);
            }
        }
        self.lines[usize::from(flow.tin)].bulk += 1;
        self.bulk.set(flow.tin.into(), queue, flow.time.into());
    }

    /// A queue becomes empty: it leaves its tin's lists and is idle.
    fn rest(&mut self, queue: u32) {
        let flow = &mut self.queues[queue as usize];
        let tin = usize::from(flow.tin);
        let line = &mut self.lines[tin];
        flow.cobalt.empty(self.clock);
        match std::mem::replace(&mut flow.stand, QueueState::Resting) {
            QueueState::Resting => return,
            QueueState::Sparse => {
                line.sparse = rings::remove(&mut self.queues, |q| &mut q.link, line.sparse, queue)
            }
            QueueState::Bulk => {
                line.bulk -= 1;
                self.bulk.remove(tin, queue);
                for (side, hosts) in self.hosts.iter_mut().enumerate() {
                    if self.counts[side] {
                        hosts.leave(flow.members[side]);
                    }
                }
            }
        }
        if queue < self.own {
            self.resting = rings::insert(&mut self.queues, |q| &mut q.link, self.resting, queue);
        }
        if line.packets == 0 {
            line.time = line.latest;
        }
    }

    /// The queue whose turn it is.
    fn next(&mut self, tin: usize) -> Option<u32> {
        loop {
            let line = &mut self.lines[tin];
            if line.sparse == NONE {
                let (time, queue) = self.bulk.first(tin)?;
                line.time = line.time.max(time as u64);
                return Some(queue);
            }
            let queue = line.sparse;
            if self.queues[queue as usize].time.saturating_sub(line.time) < self.law.quantum {
                return Some(queue);
            }
            line.sparse = rings::remove(&mut self.queues, |q| &mut q.link, queue, queue);
            self.make_greedy(queue);
        }
    }

    /// The next packet of a tin; none if all that were looked at are dropped.
    pub(crate) fn serve(
        &mut self,
        tin: usize,
        law: &Law,
        now: Instant,
        rng: &mut Rng,
        sink: &mut dyn Sink,
    ) -> Option<Packet> {
        self.clock = now;
        let queue = self.next(tin)?;
        let before = (self.store.packets(), self.store.bytes());
        let FlowQueue { list, cobalt, .. } = &mut self.queues[queue as usize];
        let mut lost = 0;
        let packet = loop {
            let Some(mut packet) = self.store.pop(list) else {
                break None;
            };
            match cobalt.judge(law, now, rng, (&mut packet, list.is_empty()), sink) {
                Fate::Leaves => break Some(packet),
                Fate::Dropped(why) => {
                    self.blue_drops += u64::from(why == Reason::Early);
                    lost += packet.len.get();
                    sink.drop(packet, why);
                }
            }
        };
        if let Some(packet) = &packet {
            self.charge(queue, packet.len);
        }
        if lost > 0 && self.law.drops_count {
            self.charge(queue, Bytes::new(lost));
        }
        self.settle(queue, before);
        packet
    }

    /// Charges a queue for this much.
    fn charge(&mut self, queue: u32, len: Bytes) {
        let flow = &mut self.queues[queue as usize];
        let mut load = 1;
        for (side, hosts) in self.hosts.iter().enumerate() {
            if self.counts[side] {
                load = load.max(match flow.stand {
                    QueueState::Bulk => hosts.bulk[flow.members[side] as usize],
                    _ => hosts.bulk(flow.hosts[side], flow.tin),
                });
            }
        }
        flow.time = flow.time.saturating_add(len.get().saturating_mul(load.into()));
        let line = &mut self.lines[usize::from(flow.tin)];
        line.latest = line.latest.max(flow.time);
        if flow.stand == QueueState::Bulk {
            self.bulk.set(flow.tin.into(), queue, flow.time.into());
        }
    }

    /// Packets of one queue have left; `before` is the backlog of packets and bytes until then.
    fn settle(&mut self, queue: u32, before: (u64, u64)) {
        let flow = &self.queues[queue as usize];
        let line = &mut self.lines[usize::from(flow.tin)];
        line.packets -= before.0 - self.store.packets();
        line.bytes -= before.1 - self.store.bytes();
        let empty = flow.list.is_empty();
        self.lengths.set(queue, (!empty).then_some(flow.list.bytes()));
        if empty {
            self.rest(queue);
        }
    }

    /// Drops the oldest packet of the longest queue, and reports the overflow to COBALT.
    pub(crate) fn shorten(&mut self, now: Instant, sink: &mut dyn Sink) -> Option<Shortened> {
        let longest = self.lengths.longest()?;
        let before = (self.store.packets(), self.store.bytes());
        let flow = &mut self.queues[longest as usize];
        flow.cobalt
            .overflow(now, self.lines[usize::from(flow.tin)].freeze);
        let packet = self.store.pop(&mut flow.list)?;
        let taken = Shortened {
            queue: longest,
            tin: usize::from(flow.tin),
            len: packet.len,
        };
        sink.drop(packet, Reason::Longest);
        self.settle(longest, before);
        Some(taken)
    }

    pub(crate) fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        if !self.store.flush(&mut self.left, portion, sink) {
            return;
        }
        // One after the other, in portions too: the rest of one may be longer than another, or not.
        while let Some(queue) = self.flushed.or(self.lengths.longest()) {
            let before = (self.store.packets(), self.store.bytes());
            let list = &mut self.queues[queue as usize].list;
            let done = portion.flush(sink, || self.store.pop(list));
            self.settle(queue, before);
            self.flushed = (!done).then_some(queue);
            if !done {
                return;
            }
        }
    }

    /// Goes on where others with the same queues and tins leave off, whose packets follow; see
    /// [`Discipline::take_over`](crate::discipline::Discipline::take_over). Nothing has passed
    /// through these. How many queues had packets.
    pub(crate) fn take_over(&mut self, former: &mut Self) -> u32 {
        std::mem::swap(&mut self.queues, &mut former.queues);
        std::mem::swap(&mut self.table, &mut former.table);
        std::mem::swap(&mut self.lines, &mut former.lines);
        std::mem::swap(&mut self.bulk, &mut former.bulk);
        std::mem::swap(&mut self.hosts, &mut former.hosts);
        std::mem::swap(&mut self.lengths, &mut former.lengths);
        (self.seed, self.resting, self.clock) = (former.seed, former.resting, former.clock);
        (self.shares, self.blue_drops) = (former.shares, former.blue_drops);
        let mut looked = 0;
        // The packets stay where they are. The longest are handed on last: of equals the last to
        // come is the longest.
        while let Some(queue) = self.lengths.longest() {
            let list = &mut self.queues[queue as usize].list;
            former.left.push_front(std::mem::replace(list, List::EMPTY));
            self.lengths.set(queue, None);
            looked += 1;
        }
        for line in &mut self.lines {
            (line.packets, line.bytes) = (0, 0);
        }
        looked
    }

    /// Adopts another law, and other times that a drop probability stays.
    pub(crate) fn retune(&mut self, law: FlowsLaw, freezes: impl Iterator<Item = Duration>) {
        self.law = law;
        for (line, freeze) in self.lines.iter_mut().zip(freezes) {
            line.freeze = freeze;
        }
    }

    pub(crate) fn inspect(&self, out: &mut Inspection<'_>) {
        let longest = self
            .lengths
            .longest()
            .map_or(0, |queue| self.queues[queue as usize].list.bytes());
        out.gauge(
            "bulk_flows",
            Value::Count(self.lines.iter().map(|line| line.bulk).sum()),
        );
        out.gauge("longest", Value::Bytes(Bytes::new(longest)));
        out.gauge("shared", Value::Count(self.shares));
        out.gauge("blue_drops", Value::Count(self.blue_drops));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::ClassId;
    use crate::random::Seed;
    use crate::sinks::Nowhere;
    use crate::units::Bandwidth;

    /// Eight queues of a flow each, and one more for each of two tins; a quantum of 1,000 bytes.
    fn flows() -> Flows {
        let law = FlowsLaw {
            quantum: 1_000,
            drops_count: false,
        };
        let freezes = [Duration::from_millis(5); 2];
        Flows::new(Fair::Flows, 8, law, freezes.into_iter(), 7)
    }

    fn put(flows: &mut Flows, tin: usize, flow: u32, len: u64) -> u32 {
        let mut packet = Packet::new(Bytes::new(len), Instant::START, ClassId(0));
        packet.flow.full = flow;
        flows.put(Instant::START, tin, packet)
    }

    fn serve(flows: &mut Flows, tin: usize) -> Option<u32> {
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1_500));
        let law = Law::new(None, None, true, link).expect("a good law");
        let packet = flows.serve(tin, &law, Instant::START, &mut Seed(1).stream(), &mut Nowhere);
        packet.map(|packet| packet.flow.full)
    }

    #[test]
    fn flows_share_the_queues_of_their_tin_once_all_others_are_used() {
        let mut flows = flows();
        let mut own: Vec<u32> = (0..8).map(|flow| put(&mut flows, 0, flow, 100)).collect();
        own.sort_unstable();
        assert_eq!((own, flows.shares), ((0..8).collect(), 0));
        assert_eq!((put(&mut flows, 0, 8, 100), put(&mut flows, 0, 9, 100)), (8, 8));
        assert_eq!((put(&mut flows, 1, 8, 100), flows.shares), (9, 3));
        assert_eq!(
            put(&mut flows, 0, 3, 100),
            put(&mut flows, 0, 3, 100),
            "it has its own"
        );
        assert_eq!((flows.packets(0), flows.packets(1), flows.held()), (12, 1, 13));
        assert_eq!((flows.bytes_in(0), flows.bytes()), (Bytes::new(1_200), 1_300));
    }

    #[test]
    fn a_flow_is_sparse_until_it_has_sent_a_quantum_more_than_its_share() {
        for (len, bulk) in [(999, 0), (1_000, 1)] {
            let mut flows = flows();
            for _ in 0..3 {
                put(&mut flows, 0, 1, len);
            }
            assert_eq!((serve(&mut flows, 0), flows.bulk(0)), (Some(1), 0));
            assert_eq!((serve(&mut flows, 0), flows.bulk(0)), (Some(1), bulk));
            assert_eq!((serve(&mut flows, 0), serve(&mut flows, 0)), (Some(1), None));
            // The round has ended: it starts as any other.
            put(&mut flows, 0, 1, len);
            assert_eq!(flows.bulk(0), 0);
        }
    }

    #[test]
    fn sparse_flows_go_before_bulk_ones_which_take_turns_by_bytes() {
        let mut flows = flows();
        for _ in 0..5 {
            put(&mut flows, 0, 1, 1_000);
            put(&mut flows, 0, 2, 2_001);
        }
        // Each has a first packet as a sparse flow; then 1 has sent less than half of what 2 has.
        let order: Vec<u32> = (0..6).filter_map(|_| serve(&mut flows, 0)).collect();
        assert_eq!(order, [1, 2, 1, 1, 2, 1]);
        assert_eq!(flows.bulk(0), 2);
        put(&mut flows, 0, 3, 100);
        assert_eq!((serve(&mut flows, 0), flows.only()), (Some(3), Some(0)));
    }
}
