//! The ledger: an account of every packet that does not trust the queue's own.
//!
//! Each packet has a number, carried in its buffer handle. The ledger notes what was offered and
//! sees every packet leave, by `dequeue` or by the sink, exactly once and unchanged, and each flow
//! in order.

use engine::discipline::{Reason, Sink};
use engine::packet::{Buffer, ClassId, Dscp, Ecn, FlowHashes, Packet};
use engine::queue::{Count, Queue};
use engine::units::{Bytes, Instant};
use std::collections::{HashMap, VecDeque};

/// What can be seen of a queue from outside; two runs are compared by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The packet was offered.
    Offered(u32),
    /// The packet was sent.
    Sent(u32),
    /// The packet was dropped.
    Dropped(u32, Reason),
    /// The packet was marked.
    Marked(u32, Reason),
    /// The packet was peeked at.
    Peeked(u32),
    /// Nothing may leave before this time.
    Wait(Instant),
    /// There is no backlog.
    Empty,
    /// The queue is to be flushed.
    Flush,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whereabouts {
    Held,
    Sent,
    Dropped(Reason),
}

#[derive(Debug)]
struct Entry {
    len: Bytes,
    arrived: Instant,
    class: ClassId,
    flow: FlowHashes,
    ecn: Ecn,
    dscp: u8,
    marked: bool,
    /// It went on to another queue with another DSCP than it had arrived with.
    remarked: bool,
    whereabouts: Whereabouts,
}

/// The account of one queue.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    offered: Count,
    sent: Count,
    dropped: Count,
    marks: u64,
    /// The last unmarked packet sent of each class, flow and DSCP, as it came and as it left:
    /// packets with different DSCPs may overtake each other (RFC 2474, section 2).
    last: HashMap<(ClassId, u32, [u8; 2]), u32>,
    /// Whether the queue is being flushed.
    pub flushing: bool,
    /// The packet that was peeked at and must come next.
    pub pinned: Option<u32>,
    /// What has happened, with the time of the call.
    pub events: Vec<(Instant, Event)>,
    /// The time of the call that is under way.
    pub now: Instant,
}

impl Ledger {
    /// Makes a packet and notes it as offered.
    pub fn offer(
        &mut self,
        len: Bytes,
        class: ClassId,
        flow: FlowHashes,
        (ecn, dscp): (Ecn, u8),
    ) -> (u32, Packet) {
        let id = u32::try_from(self.entries.len()).expect("few packets");
        let arrived = self.now;
        self.entries.push(Entry {
            len,
            arrived,
            class,
            flow,
            ecn,
            dscp,
            marked: false,
            remarked: false,
            whereabouts: Whereabouts::Held,
        });
        self.offered += len;
        self.note(Event::Offered(id));
        let packet = Packet {
            flow,
            ecn,
            dscp: Dscp::arrived(dscp),
            buffer: Buffer(id),
            ..Packet::new(len, arrived, class)
        };
        (id, packet)
    }

    /// Notes an event.
    pub fn note(&mut self, event: Event) {
        self.events.push((self.now, event));
    }

    /// The packet, which must be queued, and unchanged.
    fn entry(&mut self, packet: &Packet, what: &str) -> u32 {
        let id = packet.buffer.0;
        let entry = self.entries.get(id as usize);
        let entry = entry.unwrap_or_else(|| panic!("packet {id} was {what}, but never offered"));
        assert!(
            entry.whereabouts == Whereabouts::Held,
            "packet {id} was {what}, but had left before: {:?}",
            entry.whereabouts
        );
        let offered = (entry.len, entry.arrived, entry.class, entry.flow);
        let found = (packet.len, packet.arrived, packet.class, packet.flow);
        assert!(
            found == offered,
            "packet {id} was changed: {offered:?} became {found:?}"
        );
        let ecn = if entry.marked { Ecn::Ce } else { entry.ecn };
        assert!(
            packet.ecn == ecn,
            "packet {id} was {what} with {:?}, but the sink knows of {ecn:?}",
            packet.ecn
        );
        id
    }

    /// Notes a packet that came out.
    pub fn sent(&mut self, packet: &Packet) -> u32 {
        let id = self.entry(packet, "sent");
        if let Some(pinned) = self.pinned.take() {
            assert!(id == pinned, "packet {pinned} was peeked at, then {id} came out");
        }
        // A mark makes a packet look like one of an L4S sender, which a queue further in may put
        // apart (RFC 9332); and so does another DSCP, whatever it is in the end.
        let entry = &self.entries[id as usize];
        if !entry.marked && !entry.remarked {
            let dscps = [entry.dscp, packet.dscp.value()];
            let last = self.last.insert((packet.class, packet.flow.full, dscps), id);
            assert!(
                last.is_none_or(|last| last < id),
                "packet {} overtook {id}, of the same class, flow and DSCP",
                last.unwrap_or_default()
            );
        }
        self.entries[id as usize].whereabouts = Whereabouts::Sent;
        self.sent += packet.len;
        self.note(Event::Sent(id));
        id
    }

    /// Notes a packet that was peeked at.
    pub fn peeked(&mut self, packet: &Packet) {
        let id = self.entry(packet, "peeked at");
        let pinned = *self.pinned.get_or_insert(id);
        assert!(
            id == pinned,
            "packet {pinned} was peeked at, then {id}, without a dequeue between"
        );
        self.note(Event::Peeked(id));
    }

    /// Holds the answer to an offer against where the packet is.
    pub fn check_verdict(&self, id: u32, dropped: Option<Reason>) {
        let told = dropped.map_or(Whereabouts::Held, Whereabouts::Dropped);
        let found = self.entries[id as usize].whereabouts;
        assert!(
            told == found,
            "the verdict on packet {id} says {told:?}, but it is {found:?}"
        );
    }

    /// The backlog.
    pub fn held(&self) -> Count {
        self.offered - self.sent - self.dropped
    }

    /// From now on the account is that of another queue, which is offered what this one held.
    pub fn handed_over(&mut self, packets: &VecDeque<Packet>) {
        for packet in packets {
            self.entries[packet.buffer.0 as usize].remarked |= packet.dscp.to_write().is_some();
        }
        self.offered = self.held();
        (self.sent, self.dropped, self.marks) = (Count::default(), Count::default(), 0);
        self.pinned = None;
    }

    /// Holds the queue's own account against this one.
    pub fn check_account(&self, queue: &Queue) {
        let own = queue.stats();
        let told = (own.offered, own.sent, own.dropped, own.marked, queue.backlog());
        let found = (self.offered, self.sent, self.dropped, self.marks, self.held());
        assert!(
            told == found,
            "the queue's account (offered, sent, dropped, marked, held) {told:?} is not the ledger's {found:?}"
        );
        assert!(queue.is_empty() == (self.held().packets == 0));
        assert!(own.reasons.iter().sum::<u64>() == self.dropped.packets);
    }
}

impl Sink for Ledger {
    fn drop(&mut self, packet: Packet, why: Reason) {
        let id = self.entry(&packet, "dropped");
        assert!(
            self.flushing == (why == Reason::Flushed),
            "packet {id} was dropped as \"{why}\" {} a flush",
            if self.flushing { "during" } else { "without" }
        );
        let hosts = [Reason::Port, Reason::TooLong, Reason::Stale];
        assert!(
            !hosts.contains(&why),
            "packet {id} was dropped as \"{why}\", a reason of hosts"
        );
        assert!(
            self.flushing || self.pinned != Some(id),
            "packet {id} was dropped though it was pinned"
        );
        self.entries[id as usize].whereabouts = Whereabouts::Dropped(why);
        self.dropped += packet.len;
        self.note(Event::Dropped(id, why));
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        let id = packet.buffer.0;
        let entry = self.entries.get_mut(id as usize).expect("an offered packet");
        assert!(
            entry.whereabouts == Whereabouts::Held && entry.ecn != Ecn::NotEct,
            "packet {id} was marked, but is {:?} and {:?}",
            entry.whereabouts,
            entry.ecn
        );
        entry.marked = true;
        self.marks += 1;
        self.note(Event::Marked(id, why));
    }
}
