//! Why packets waited: a recorder beside a queue, for a time.
//!
//! Whoever moves packets shows it each arrival, departure, drop and mark; it keeps the packets that
//! waited longest, or those that were dropped, with what their classes showed when they arrived,
//! and a list of all departures. From these [`RecordedWaits::account`] makes the account of a
//! packet: what the link did while it waited, to the byte.
//!
//! Everything is bounded: a list of departures of fixed length, the packets that are kept, and the
//! time. Nothing is computed over the list while packets flow.

use engine::discipline::Reason;
use engine::header::FlowKey;
use engine::inspect::{Inspection, View};
use engine::link::LATENESS;
use engine::packet::{ClassId, Ecn, Packet};
use engine::queue::{Count, Queue};
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::collections::HashMap;

/// Departures that are listed at most; then the recording ends.
pub const DEPARTURES: usize = 1 << 20;
/// Packets that are kept at most.
pub const MOST: usize = 1_000;
/// Packets that are followed at once at most; others are counted and not followed.
const FOLLOWED: usize = 1 << 16;
/// Classes above that of a packet that are looked at.
const ABOVE: usize = 8;

/// What is to be recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Of this class alone.
    pub class: Option<ClassId>,
    /// The dropped packets, the latest; otherwise those that waited longest.
    pub drops: bool,
    /// How many.
    pub keep: usize,
    /// Packets that end before are followed and not kept.
    pub since: Instant,
    /// How long.
    pub until: Instant,
}

/// A packet when it arrived.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrivedPacket {
    /// Its headers, where they are known.
    pub key: FlowKey,
    /// Its class.
    pub class: ClassId,
    /// Its length.
    pub len: Bytes,
    /// When.
    pub at: Instant,
    /// What was queued in all.
    pub queued: Count,
    /// What its class and those above it showed, before it was queued.
    pub views: Vec<View>,
    /// How long the link was still busy with what had left before.
    pub busy: Duration,
    /// Departures before it arrived.
    before: usize,
    /// Why it was marked, if it was.
    pub marked: Option<Reason>,
}

/// How a packet's wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It left.
    Left {
        /// When it was due: by its discipline and the link's clock.
        planned: Instant,
        /// When it really left.
        at: Instant,
    },
    /// It was dropped.
    Dropped {
        /// When.
        at: Instant,
        /// Why.
        why: Reason,
        /// The class of the packet that arrived at that moment, if one did: by another's arrival a
        /// packet is pushed out.
        by: Option<ClassId>,
    },
}

/// A packet with its end.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitedPacket {
    /// When it arrived.
    pub arrived: ArrivedPacket,
    /// How it ended.
    pub ended: Ended,
    /// What its class and those above it showed then.
    pub views: Vec<View>,
    /// Departures before it ended.
    until: usize,
}

/// A packet that has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Served {
    class: ClassId,
    len: u32,
    /// How long nothing left before it although it was due, in nanoseconds; not what is usual.
    late: u32,
}

/// A departure.
#[derive(Clone, Copy, Debug)]
struct LastDeparture {
    /// Until when it keeps the link busy, had it left when it was due.
    busy_until: Instant,
    /// By how much it was late.
    late: Duration,
}

/// Records.
#[derive(Debug)]
pub struct WaitRecorder {
    wanted: Wanted,
    plan: Option<TreePlan>,
    bandwidth: Option<Bandwidth>,
    served: Vec<Served>,
    /// The packets that are queued, by their buffers.
    waiting: HashMap<u32, ArrivedPacket>,
    kept: Vec<WaitedPacket>,
    seen: u64,
    /// The packet that arrives right now.
    arriving: Option<ClassId>,
    last: Option<LastDeparture>,
    over: Option<&'static str>,
}

/// What was recorded.
#[derive(Debug)]
pub struct RecordedWaits {
    /// The packets: the one that waited longest first, or the latest drop last.
    pub packets: Vec<WaitedPacket>,
    /// How many packets of those that were asked for left, or were dropped.
    pub seen: u64,
    /// Why it ended before its time.
    pub over: Option<&'static str>,
    /// The bandwidth of the link.
    pub bandwidth: Option<Bandwidth>,
    served: Vec<Served>,
}

/// What the link did while a packet waited. The parts add up to the wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitAccount {
    /// From arrival to departure.
    pub wait: Duration,
    /// From arrival to when it was due, by its discipline and the link's clock; of a dropped packet
    /// its whole wait.
    pub planned: Duration,
    /// The link was still busy with what had left before it arrived.
    pub busy: Duration,
    /// What left before it meanwhile, by class, the most first.
    pub before: Vec<(ClassId, Count)>,
    /// What that took of the link.
    pub serving: Duration,
    /// The link was idle, or sent gaps: its discipline did not let it leave.
    pub held: Duration,
    /// It was due and did not leave, or another was before it: its host held it up.
    pub held_up: Duration,
}

impl WaitRecorder {
    /// A recorder at a queue of this plan and bandwidth, which is empty or whose present packets
    /// are passed over.
    pub fn new(wanted: Wanted, plan: Option<TreePlan>, bandwidth: Option<Bandwidth>) -> Self {
        Self {
            wanted,
            plan,
            bandwidth,
            served: Vec::with_capacity(DEPARTURES),
            waiting: HashMap::with_capacity(1024),
            kept: Vec::with_capacity(wanted.keep.min(MOST)),
            seen: 0,
            arriving: None,
            last: None,
            over: None,
        }
    }

    /// Until when it records.
    pub fn until(&self) -> Instant {
        self.wanted.until
    }

    /// The classes get other numbers or settings: what was recorded so far stays, and no more is.
    pub fn changed(&mut self) {
        self.over.get_or_insert("the policy was changed");
        self.waiting.clear();
    }

    fn is_on(&self, now: Instant) -> bool {
        self.over.is_none() && now < self.wanted.until
    }

    fn is_wanted(&self, class: ClassId) -> bool {
        self.wanted.class.is_none_or(|wanted| wanted == class)
    }

    /// A packet arrives, before it is queued.
    pub fn arrives(&mut self, now: Instant, packet: &Packet, queue: &Queue, key: impl FnOnce() -> FlowKey) {
        self.arriving = Some(packet.class);
        let room = self.waiting.len() < FOLLOWED;
        if !self.is_on(now) || !self.is_wanted(packet.class) || !room {
            return;
        }
        let arrived = ArrivedPacket {
            key: key(),
            class: packet.class,
            len: packet.len,
            at: now,
            queued: queue.backlog(),
            views: self.views(packet.class, queue),
            busy: self
                .last
                .map_or(Duration::ZERO, |last| last.busy_until.since(now)),
            before: self.served.len(),
            marked: None,
        };
        self.waiting.insert(packet.buffer.0, arrived);
    }

    /// The packet that arrived is queued, or dropped.
    pub fn arrived(&mut self) {
        self.arriving = None;
    }

    /// A packet is dropped.
    pub fn drops(&mut self, now: Instant, packet: &Packet, why: Reason) {
        let Some(arrived) = self.waiting.remove(&packet.buffer.0) else {
            return;
        };
        if !self.wanted.drops || now < self.wanted.since {
            return;
        }
        self.seen += 1;
        if self.kept.len() >= self.wanted.keep.clamp(1, MOST) {
            self.kept.remove(0);
        }
        let by = self.arriving;
        self.kept.push(WaitedPacket {
            arrived,
            ended: Ended::Dropped { at: now, why, by },
            views: Vec::new(),
            until: self.served.len(),
        });
    }

    /// A packet is marked.
    pub fn marks(&mut self, packet: &Packet, why: Reason) {
        if let Some(arrived) = self.waiting.get_mut(&packet.buffer.0) {
            arrived.marked = Some(why);
        }
    }

    /// A packet leaves; `due` is when the queue said that its next packet would be due, if it said
    /// so.
    pub fn departs(&mut self, now: Instant, packet: &Packet, due: Option<Instant>, queue: &Queue) {
        let planned = self.planned(now, packet.arrived, due);
        if self.wanted.until <= now || self.over.is_some() {
            self.waiting.remove(&packet.buffer.0);
            return;
        }
        let arrived = self.waiting.remove(&packet.buffer.0);
        if let Some(arrived) = arrived.filter(|_| now >= self.wanted.since) {
            self.seen += u64::from(!self.wanted.drops);
            self.keep_slow(arrived, Ended::Left { planned, at: now }, queue);
        }
        if self.served.len() == DEPARTURES {
            self.over = Some("more packets left than it counts");
            return;
        }
        let late = now.since(planned);
        // What one that catches up is late by, the one before was too.
        let known = self
            .last
            .filter(|last| due.is_none() && planned == last.busy_until);
        let more = late - known.map_or(Duration::ZERO, |last| last.late);
        let unusual = if more > LATENESS { more } else { Duration::ZERO };
        self.served.push(Served {
            class: packet.class,
            len: u32::try_from(packet.len.get()).unwrap_or(u32::MAX),
            late: u32::try_from(unusual.nanos()).unwrap_or(u32::MAX),
        });
        let takes = self
            .bandwidth
            .map_or(Duration::ZERO, |rate| rate.time_to_send(packet.len));
        let busy_until = planned + takes;
        self.last = Some(LastDeparture { busy_until, late });
    }

    /// When a packet was due. Where a late caller catches up, each is due when the one before has
    /// been carried.
    fn planned(&self, now: Instant, arrived: Instant, due: Option<Instant>) -> Instant {
        let carried = self.last.map(|last| last.busy_until.max(arrived));
        due.or(carried).unwrap_or(now).min(now)
    }

    fn keep_slow(&mut self, arrived: ArrivedPacket, ended: Ended, queue: &Queue) {
        if self.wanted.drops {
            return;
        }
        let wait = |packet: &ArrivedPacket, ended: &Ended| match ended {
            Ended::Left { at, .. } | Ended::Dropped { at, .. } => at.since(packet.at),
        };
        let own = wait(&arrived, &ended);
        if self.kept.len() >= self.wanted.keep.clamp(1, MOST) {
            match self.kept.last() {
                Some(least) if wait(&least.arrived, &least.ended) >= own => return,
                _ => drop(self.kept.pop()),
            }
        }
        let place = self
            .kept
            .partition_point(|other| wait(&other.arrived, &other.ended) >= own);
        let views = self.views(arrived.class, queue);
        let packet = WaitedPacket {
            arrived,
            ended,
            views,
            until: self.served.len(),
        };
        self.kept.insert(place, packet);
    }

    /// What a class and those above it show.
    fn views(&self, class: ClassId, queue: &Queue) -> Vec<View> {
        let (mut all, mut views) = (Vec::new(), Vec::new());
        let mut next = Some(class);
        for _ in 0..ABOVE {
            let Some(class) = next else { break };
            queue.inspect(&mut Inspection::slice(&mut views, class.0..class.0 + 1));
            if all.is_empty() {
                all.extend(views.first().cloned());
            }
            all.extend(views.drain(..).filter(|view| view.class == Some(class)));
            next = self
                .plan
                .as_ref()
                .and_then(|plan| plan.info(class))
                .and_then(|info| info.parent);
        }
        all
    }

    /// Ends the recording.
    pub fn finish(self) -> RecordedWaits {
        RecordedWaits {
            packets: self.kept,
            seen: self.seen,
            over: self.over,
            bandwidth: self.bandwidth,
            served: self.served,
        }
    }
}

impl RecordedWaits {
    /// The account of one of its packets.
    pub fn account(&self, packet: &WaitedPacket) -> WaitAccount {
        let (at, planned) = match packet.ended {
            Ended::Left { planned, at } => (at, planned.max(packet.arrived.at)),
            Ended::Dropped { at, .. } => (at, at),
        };
        let wait = at.since(packet.arrived.at);
        let late = at.since(planned);
        let (mut by_class, mut sum, mut before_late) = (HashMap::new(), Bytes::ZERO, Duration::ZERO);
        for served in &self.served[packet.arrived.before..packet.until] {
            let len = Bytes::new(served.len.into());
            *by_class.entry(served.class).or_insert_with(Count::default) += len;
            sum += len;
            before_late += Duration::from_nanos(served.late.into());
        }
        let mut before: Vec<(ClassId, Count)> = by_class.into_iter().collect();
        before.sort_by_key(|(class, count)| (std::cmp::Reverse(count.bytes), *class));
        let due = wait - late;
        let busy = packet.arrived.busy.min(due);
        let takes = self
            .bandwidth
            .map_or(Duration::ZERO, |rate| rate.time_to_send(sum));
        let serving = takes.min(due - busy);
        // What the host held up before it, as far as that was not caught up.
        let idle = due - busy - serving;
        let behind = before_late.min(idle);
        WaitAccount {
            wait,
            planned: due,
            busy,
            before,
            serving,
            held: idle - behind,
            held_up: late + behind,
        }
    }
}

impl ArrivedPacket {
    /// What was queued of its class.
    pub fn queued_of_class(&self) -> Count {
        let own = self.views.iter().find(|view| view.class == Some(self.class));
        own.map_or(self.queued, |view| view.stats.backlog())
    }

    /// Whether it could have been marked instead of dropped.
    pub fn takes_marks(&self) -> bool {
        self.key.ecn != Ecn::NotEct
    }
}
