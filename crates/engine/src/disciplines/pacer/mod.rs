//! `pacer`: packets of each class leave at even intervals, exact to the byte of the wire.
//!
//! Follows Takano et al., "Precise software pacing method for long fat pipe communication" (SWoPP
//! 2004; PSPacer), section 3: the link's own serialisation is the clock. The paper's gap between
//! equal packets, for Gigabit Ethernet's 125 MB/s, is
//!
//! ```text
//! IPG' = (MTU + Hd1) · 125 / TargetRate − (MTU + Hd2)         Hd1 = 18, Hd2 = 26
//! ```
//!
//! so from one start to the next are IPG' + MTU + Hd2 = (MTU + Hd1) · 125 / TargetRate. With *C*
//! the link's rate in place of 125 MB/s, *R* the class's, and *B* the counted bytes of each packet
//! in place of MTU + Hd1, a packet advances the next one's eligible time *E* by *P = B C / R*
//! byte-times (the arithmetic is in [`byte_clock`](crate::byte_clock)). A packet starts at the
//! first opportunity *s ≥ E*; *E* does not depend on *s*.
//!
//! **Gaps.** Where a host keeps its wire busy with gap frames (`gap = "frames"`), *s* is counted on
//! the wire: each packet and each gap frame from [`gap`](crate::discipline::Discipline::gap)
//! advances it by its slot. Gaps of 1 to 83 cannot be made, and become 84; as *E* stays where it
//! was, the next gap is shorter: gaps alternate, and 0 ≤ *s − E* < 84. Where hosts wait by timers
//! or in a simulator (`gap = "timer"`), *s* is the time at which they dequeue, and any gap can be
//! made.
//!
//! **Classes** (the paper's section 5, its future work). Of the classes whose *E* has come, the one
//! with the earliest deadline *E + P* sends (eligible classes only, earliest deadline first, as in
//! WF²Q+: Bennett and Zhang 1996); ties go to the class declared first. If the sum of the rates
//! fits the wire, no packet is later than its own *P* and one slot. A class with child classes is a
//! bottleneck that they share: it has an *E* of its own, which gates them. A class without a rate
//! is best effort: it is sent when no paced class is eligible, either always (a paced packet is
//! then late by less than one slot), or only if it is out before the next paced packet
//! (`best_effort = "strict"`).
//!
//! Unused time is gone: if a class had nothing to send when *E* came, *E* becomes the time of its
//! next packet.
//!
//! Departures from the paper: per packet and not per MTU; padding, tags and the gap frames' own
//! bytes count; the remainder of each division is carried; nothing is built for one speed of link.
//!
//! **Changes.** When a rate changes, a class keeps in bytes what it has sent ahead of *E* or is
//! late by, the latter up to one longest packet: what it sends is never ahead of the integral of
//! its rates. When classes are added or removed, a new tree replaces the old one, and its classes
//! start with the [deficits](crate::carry_over) and the lateness of their predecessors.
//!
//! Classes that wait for *E* are in a [`calendar`](crate::structures::calendar), exact to the byte;
//! eligible ones are ordered by deadline, few while the wire keeps up. With very many classes a
//! packet costs memory that has to be fetched; as the calendar shows which classes come next, many
//! are [prefetched](crate::prefetch) at once.

mod changes;

use crate::bounds::{Bound, RateLatency, Terms, WorstCase};
use crate::byte_clock::{Basis, BytePace, SHORTEST_SLOT, WireSlots, WireTime, gap_slot};
use crate::carry_over::{CarryOver, Deficit};
use crate::discipline::{Build, Discipline, Next, Pacing, Plan, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties, QueuePlan};
use crate::link::{Fact, Link};
use crate::packet::{ClassId, Packet};
use crate::portion::{Portion, Tour};
use crate::prefetch::Prefetched;
use crate::reservation::{RequestedShare, ReservableTree, ReservedClass, Reserves, SIGNALLING};
use crate::settings::{Problem, Table};
use crate::sharing::class_numbers::ClassNumbers;
use crate::sharing::leaves::{Leaves, LeavesPlan};
use crate::sharing::reserved_classes::{class, guaranteed, leaf, refuse_oversold};
use crate::spec::DisciplineSpec;
use crate::structures::calendar::Calendar;
use crate::structures::heaps::PriorityQueue;
use crate::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use crate::{choices, settings};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "pacer",
    summary: "Pacing exact to the byte: packets of each class at even distances, for long fat pipes",
    reference: "Takano et al., \"Precise software pacing method for long fat pipe communication\", 2004",
    children: Children::Classes { nested: true },
    settings: Settings::SETTINGS,
    class_settings: ClassSettings::SETTINGS,
    properties: Properties {
        former: &[("overhead", Fact::Overhead)],
        reserves: Some(&ByPace),
        needs_plain_queues: true,
        ..Properties::NONE
    },
    check: |check| plan_with(check, Waiting::Calendar),
};

/// The structure of the classes that wait for their time. For the bench that compares the two: no
/// policy can choose it.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// A calendar, exact to the byte.
    Calendar,
    /// A binary heap of all that wait.
    Heap,
}

choices! {
    /// What makes the gaps between packets.
    pub enum Gap {
        /// The host's timer, or a simulator: a gap can have any length.
        Timer = "timer",
        /// Gap frames: no gap is shorter than the shortest frame's slot.
        Frames = "frames",
    }
}

choices! {
    /// When a best-effort class may send.
    pub enum BestEffort {
        /// If its packet is out before the next paced packet is eligible.
        Strict = "strict",
        /// Whenever no paced packet is eligible.
        WorkConserving = "work-conserving",
    }
}

settings! {
    /// Settings of `pacer`.
    pub struct Settings {
        /// Which bytes the rates count: the wire slot, the frame with FCS, the frame without, or
        /// the IP packet
        basis: Basis = default "frame-fcs",
            "`ip` for a bottleneck that is given in IP bytes; with `wire` rates add up whatever the packets' sizes",
            "the PSPacer paper, section 3.3";
        /// What makes the gaps: the host's timer (also in a simulator), or gap frames on a wire
        /// that is never idle
        gap: Gap = default "timer",
            "`frames` needs a host that puts gap frames between packets",
            "-";
        /// Whether a best-effort packet may delay a paced one, by less than its slot
        best_effort: BestEffort = default "work-conserving",
            "`strict`: best effort gets nothing where no gap is as long as its packets",
            "as every other discipline";
        /// The speed of the wire, if the interface's `bandwidth` is another
        wire: Bandwidth = derived "the interface's `bandwidth`",
            "must be the device's: all gaps are computed from it",
            "-";
        /// VLAN tags that the device puts into frames
        tags: u32 = default "0",
            "missing tags: slots are 4 B too short each",
            "IEEE 802.1Q";
    }
}

settings! {
    /// Settings of a class of `pacer`.
    pub struct ClassSettings {
        /// Its rate; of a class with child classes, that of the bottleneck they share
        rate: Rate = derived "none: best effort",
            "above the bottleneck's: packets are dropped there",
            "the narrowest link on the way";
        /// The shortest packets that it sends many of: the most it takes of the wire is computed
        /// from them
        packet: Bytes = derived "the link's longest packet",
            "too large: the classes may need more than the wire has, and are late; too small: fewer classes fit",
            "-";
    }
}

/// A class as checked. Children of one parent stand in the order of their declaration.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NodePlan {
    id: ClassId,
    parent: Option<usize>,
    leaf: bool,
    /// Bits per second; none: best effort.
    rate: Option<u64>,
    /// The shortest packets of its senders, if stated.
    packet: Option<Bytes>,
}

#[derive(Clone, Debug)]
struct PacerPlan {
    leaves: LeavesPlan,
    numbers: ClassNumbers,
    nodes: Arc<[NodePlan]>,
    /// Of the fastest class.
    pacing: Pacing,
    rules: Rules,
    best_effort: BestEffort,
    waiting: Waiting,
}

/// What cannot change while packets are queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rules {
    basis: Basis,
    frames: bool,
    wire: u64,
    slots: WireSlots,
}

/// More tags than any frame has.
const MOST_TAGS: u32 = 8;
/// The longest gap frame is at least this long, so that half of a longer gap is not too short for a
/// frame.
const LEAST_LONGEST: u64 = 2 * SHORTEST_SLOT - 1;

/// Checks the settings of a pacer.
#[doc(hidden)]
pub fn plan_with(check: &mut Check<'_>, waiting: Waiting) -> Option<Arc<dyn Plan>> {
    let before = check.problems.len();
    let settings = Settings::read(check.settings, &[], check.problems)?;
    let rules = rules(check, &settings)?;
    let mut nodes = Vec::with_capacity(check.classes.len());
    let mut needs = Vec::with_capacity(check.classes.len());
    for class in &check.classes {
        let Some(settings) = ClassSettings::read(class.settings, &[], check.problems) else {
            continue;
        };
        let leaf = class.queue.is_some();
        let rate = settings.rate.map(|rate| rate.on(check.link.bandwidth).bits());
        let at = |key| class.settings.get(key).map_or(class.at, |entry| entry.at);
        let wrong = |key, message: String| Problem::new(at(key), message);
        if rate == Some(0) {
            check.problems.push(wrong(
                "rate",
                format!("`{}` has a rate of 0: nothing could leave", class.name),
            ));
        }
        if rate.is_none() && (!leaf || class.parent.is_some()) {
            let message = format!(
                "`{}` has no rate: only a class at the top, without classes below it, is best effort",
                class.name
            );
            check
                .problems
                .push(wrong("rate", message).help("give it the rate of its bottleneck"));
        }
        let packet = settings.packet.unwrap_or(check.link.mtu);
        if packet > check.link.mtu || packet == Bytes::ZERO {
            let message = format!(
                "`packet` is from 1 B to the link's longest packet ({})",
                check.link.mtu
            );
            check.problems.push(wrong("packet", message));
        }
        needs.push(packet);
        nodes.push(NodePlan {
            id: class.id,
            parent: class.parent,
            leaf,
            rate,
            packet: settings.packet,
        });
    }
    if check.problems.len() > before {
        return None;
    }
    admit(check, rules, &nodes, &needs);
    if check.problems.len() > before {
        return None;
    }
    Some(Arc::new(PacerPlan {
        numbers: ClassNumbers::new(check, |index| index as u32),
        leaves: LeavesPlan::new(check),
        pacing: pacing(rules, &nodes),
        nodes: nodes.into(),
        rules,
        best_effort: settings.best_effort,
        waiting,
    }))
}

fn rules(check: &mut Check<'_>, settings: &Settings) -> Option<Rules> {
    let mut wrong = Vec::new();
    if settings.tags > MOST_TAGS {
        wrong.push(("tags", format!("`tags` is at most {MOST_TAGS}")));
    }
    let wire = settings.wire.unwrap_or(check.link.bandwidth);
    if wire == Bandwidth::ZERO {
        wrong.push(("wire", "`wire` must be more than 0".into()));
    } else if wire < check.link.bandwidth {
        let message = format!(
            "`wire` ({wire}) is slower than the link ({})",
            check.link.bandwidth
        );
        wrong.push(("wire", message));
    }
    if check.link.framing.added().is_none() {
        let message = format!(
            "`pacer` computes Ethernet's slots from frames, and lengths are of {}: leave out `mpu` and `linklayer`, and count no less than the frame",
            check.link.framing
        );
        wrong.push(("overhead", message));
    }
    let right = wrong.is_empty();
    check.refuse(wrong);
    right.then(|| Rules {
        basis: settings.basis,
        frames: settings.gap == Gap::Frames,
        wire: wire.bits(),
        slots: wire_slots(check.link, settings.tags),
    })
}

fn wire_slots(link: Link, tags: u32) -> WireSlots {
    // Other framings are refused.
    let overhead = link.framing.added().unwrap_or(Bytes::ZERO).get();
    WireSlots {
        overhead,
        tags: tags.into(),
        longest: link.mtu.get().saturating_sub(overhead).max(1),
    }
}

impl Rules {
    /// The bytes of the longest packet that a rate counts.
    fn longest(&self) -> u64 {
        let longest = Bytes::new(self.slots.longest + self.slots.overhead);
        self.slots.counted(longest, self.basis)
    }
}

/// No bottleneck is oversubscribed, and the wire carries all of it: counted bytes and framing.
fn admit(check: &mut Check<'_>, rules: Rules, nodes: &[NodePlan], packets: &[Bytes]) {
    let mb = |bits: u128| format!("{:.2} MB/s", bits as f64 / 8e6);
    let rates = |node: &NodePlan| Bandwidth::bits_per_sec(node.rate.unwrap_or(0));
    let mut sums = vec![0u128; nodes.len()];
    let (mut total, mut told) = (0u128, Vec::new());
    for ((node, packet), class) in nodes.iter().zip(packets).zip(&check.classes) {
        let rate = u128::from(rates(node).bits());
        if let Some(parent) = node.parent {
            sums[parent] += rate;
        } else if rate > 0 {
            let (slot, counted) = (
                rules.slots.slot(*packet),
                rules.slots.counted(*packet, rules.basis),
            );
            let need = (rate * u128::from(slot)).div_ceil(u128::from(counted));
            total += need;
            told.push((class.name, rate, need, slot, counted));
        }
    }
    for (index, (node, &sum)) in nodes.iter().zip(&sums).enumerate() {
        let has = rates(node);
        if sum > u128::from(has.bits()) {
            let class = &check.classes[index];
            let at = class.settings.get("rate").map_or(class.at, |entry| entry.at);
            let message = format!(
                "the classes of `{}` have rates of {} in sum, more than its {}",
                class.name,
                mb(sum),
                mb(has.bits().into())
            );
            check.problems.push(Problem::new(at, message));
        }
    }
    if total > u128::from(rules.wire) {
        let message = format!(
            "the paced classes need {} of the wire, which carries {}",
            mb(total),
            mb(rules.wire.into())
        );
        let basis = rules.basis.name();
        let parts = told.iter().take(4).map(|(name, rate, need, slot, counted)| {
            format!(
                "`{name}`: {} of {basis} bytes in packets that count {counted} B and take {slot} B are {}",
                mb(*rate),
                mb(*need)
            )
        });
        let more = if told.len() > 4 { "; and so on" } else { "" };
        let help = format!("{}{more}", parts.collect::<Vec<_>>().join("; "));
        check
            .problems
            .push(Problem::new(check.settings.at, message).help(help));
    }
}

impl PacerPlan {
    /// Whether another plan has the same rules and the same classes, each with a rate or without.
    fn is_like(&self, other: &Self) -> bool {
        let shape = |node: &NodePlan| (node.id, node.parent, node.leaf, node.rate.is_some());
        let shapes = |plan: &Self| plan.nodes.iter().map(shape).collect::<Vec<_>>();
        self.rules == other.rules && shapes(self) == shapes(other)
    }

    /// The spacing of most classes' packets, in byte-times: of all but an eighth at most.
    fn span(&self) -> u64 {
        let mut rates: Vec<u64> = self.nodes.iter().filter_map(|node| node.rate).collect();
        let eighth = rates.len() / 8;
        if rates.is_empty() {
            return 1;
        }
        let (_, &mut rate, _) = rates.select_nth_unstable(eighth);
        BytePace::new(rate).deadline(self.rules.longest(), self.rules.wire)
    }
}

impl PacerPlan {
    /// Why no class has a bound, if so.
    fn unbounded(&self, terms: &Terms<'_>) -> Result<(), String> {
        let paced = || self.nodes.iter().filter(|node| node.rate.is_some());
        if self.nodes.iter().any(|node| node.parent.is_some()) {
            return Err("classes share a bottleneck, which has a pace of its own".into());
        }
        if self.rules.frames {
            return Err(
                "gap frames fill the device's ring before a packet; with `gap = \"timer\"` there is a bound"
                    .into(),
            );
        }
        if paced().any(|node| node.packet.is_none()) {
            return Err("framing takes a part of the link that depends on the packets' lengths: state the shortest of every paced class, by `packet`".into());
        }
        let on_link = |length: Bytes| length.get().max(self.rules.slots.slot(length));
        let need = |node: &NodePlan| {
            let rate = u128::from(node.rate?);
            let each = self.ratios(node, terms, on_link);
            each.map(|(length, counted)| (rate * u128::from(length)).div_ceil(u128::from(counted)))
                .max()
        };
        let need: u128 = paced().filter_map(need).sum();
        match need > u128::from(terms.link.bandwidth.bits()) {
            true => Err("the paced classes may need more than the link carries, framing included".into()),
            false => Ok(()),
        }
    }

    /// Of the lengths that a class's packets may have, those at which what framing adds is extreme:
    /// what `of` makes of each, and what the rate counts.
    fn ratios(
        &self,
        node: &NodePlan,
        terms: &Terms<'_>,
        of: impl Fn(Bytes) -> u64,
    ) -> impl Iterator<Item = (u64, u64)> {
        let Rules { slots, basis, .. } = self.rules;
        let (most, least) = (terms.longest, node.packet.unwrap_or(terms.longest));
        extreme_lengths(slots, least, most).map(move |length| (of(length), slots.counted(length, basis)))
    }

    /// The service of a class from any time at which it has a backlog. *E* is then at most its
    /// longest packet ahead. No packet is later than its own *P* and what is in the device, since
    /// the packets with *E* ≥ *t* and a deadline *E* + *P* ≤ *u* need no more than the link carries
    /// from *t* to *u*: earliest deadline first, without preemption. So the last bit of a packet up
    /// to which *a* bytes are sent is out within *κ* (*Max* + *a*) / *R* and the time of the
    /// device, *κ* being the most that the rate counts of a byte. That is for a pacer that is
    /// [not unbounded](Self::unbounded).
    fn service(&self, node: &NodePlan, terms: &Terms<'_>) -> Result<RateLatency, String> {
        let rate = node.rate.ok_or("best effort: no guarantee")?;
        let each = self.ratios(node, terms, Bytes::get);
        let bits = each
            .map(|(length, counted)| u128::from(rate) * u128::from(length) / u128::from(counted))
            .min();
        let bits = bits.ok_or("its packets have no length")?;
        let bandwidth = Bandwidth::bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX));
        let before = bandwidth.bytes_in(self.device(terms)) + Bytes::new(1);
        Ok(RateLatency::after(before.get().into(), bandwidth))
    }

    /// How late a deadline may be: the device, and roundings to a byte-time and a nanosecond each.
    fn device(&self, terms: &Terms<'_>) -> Duration {
        let ahead = terms.ahead + Bytes::new(4);
        terms.link.bandwidth.time_to_send(ahead) + Duration::from_nanos(2)
    }
}

impl Plan for PacerPlan {
    /// A packet's deadline is at most the time of its class's burst after its arrival, at the rate:
    /// *E* is the latest of the times at which a packet of the same busy period arrived and the
    /// ones since then have paced. See [`PacerPlan::service`].
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        let known = self.unbounded(terms);
        let case = |((class, name, queue), node): ((ClassId, &str, &QueuePlan), &NodePlan)| {
            let service = known.clone().and_then(|()| self.service(node, terms));
            let within = Terms {
                shortest: node.packet.unwrap_or(Bytes::ZERO),
                ..*terms
            };
            let bound = service.clone().and_then(|service| {
                let bound = queue.kind.worst(class, &within, service)?;
                let backlog = bound.backlog + terms.longest;
                Ok(Bound { backlog, ..bound })
            });
            let own = WorstCase {
                class: Some(class),
                bound,
            };
            // A packet that was sent just before may have paced it.
            let lasting = service.map(|service| RateLatency {
                before: service.before + u128::from(terms.longest.get()),
                ..service
            });
            std::iter::once(own).chain(queue.bounds_inside(name, &within, lasting))
        };
        let leaves = self.nodes.iter().filter(|node| node.leaf);
        self.leaves.each().zip(leaves).flat_map(case).collect()
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Pacer::new(self.clone(), self.leaves.build(cx)))
    }

    fn pacing(&self) -> Option<Pacing> {
        Some(self.pacing)
    }

    fn changed_classes(&self, former: &dyn Plan, queues: bool) -> Option<Vec<ClassId>> {
        let former = plan_of(former).filter(|former| self.is_like(former))?;
        if !self.leaves.is_numbered_as(&former.leaves) {
            return None;
        }
        let pairs = self.nodes.iter().zip(former.nodes.iter());
        let changed = pairs.filter(|(new, old)| new.rate != old.rate || queues && new.leaf);
        Some(changed.map(|(new, _)| new.id).collect())
    }
}

fn plan_of(plan: &dyn Plan) -> Option<&PacerPlan> {
    let plan: &dyn Any = plan;
    plan.downcast_ref()
}

fn pacing(rules: Rules, nodes: &[NodePlan]) -> Pacing {
    let Rules {
        wire,
        frames,
        slots,
        basis,
    } = rules;
    let longest = Bytes::new(slots.longest + slots.overhead);
    let (fastest, counted) = match nodes.iter().filter_map(|node| node.rate).max() {
        Some(rate) => (rate, slots.counted(longest, basis)),
        None => (wire, slots.slot(longest)),
    };
    Pacing {
        wire: Bandwidth::bits_per_sec(wire),
        frames,
        period: Bandwidth::bits_per_sec(fastest).time_to_send(Bytes::new(counted)),
    }
}

/// No node.
const NONE: u32 = u32::MAX;
/// What follows a packet is to be computed: no remainder is as large.
const UNKNOWN: u64 = u64::MAX;
/// The most classes that are prefetched at once.
const FETCHED: usize = 256;
/// The eligible classes at the top.
const TOP: usize = 0;

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It has nothing to send, or none of its children is eligible.
    Idle,
    /// Idle in a new tree, with the lateness of its predecessor: it keeps it if its backlog moves
    /// here, or one arrives at once.
    Late,
    /// In the calendar until its time.
    Waiting,
    /// Among the eligible of the class above it.
    Eligible,
}

impl State {
    fn is_idle(self) -> bool {
        matches!(self, Self::Idle | Self::Late)
    }
}

/// A class, in one cache line. With its entries in the calendar, among the eligible and among the
/// leaves it is less than 128 bytes.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Node {
    pace: BytePace,
    /// Of a class that waits: at what time it is in the calendar. Of one that is eligible: its
    /// deadline. Of one that is idle: its time is not before; when its rate changed, rounded up.
    next: u64,
    /// The remainder of the pace after the packet whose deadline is known, or [`UNKNOWN`].
    after: u64,
    /// The most byte-times that a packet started after its time.
    late: u64,
    parent: u32,
    /// The number among the leaves, or of the eligible classes below.
    number: u32,
    /// The eligible classes that it joins.
    above: u32,
    leaf: bool,
    paced: bool,
    state: State,
}

/// A sleeping leaf's timer, a heap's item, a calendar's entry, the number of a leaf and its state.
const _: () = assert!(size_of::<Node>() == 64 && size_of::<Node>() + 16 + 16 + 12 + 4 + 1 < 128);

/// Where the next packet can start, in byte-times: not before `low`, and at `high` at the latest.
/// They differ by 1 at most, when the time is between two bytes.
#[derive(Clone, Copy, Debug)]
struct Position {
    low: u64,
    high: u64,
}

#[derive(Debug)]
struct Pacer {
    leaves: Leaves,
    nodes: Vec<Node>,
    /// The node of each leaf.
    node_of: Vec<u32>,
    waiting: Calendar,
    /// Those about to come; scratch.
    upcoming: Vec<u32>,
    /// Eligible classes by deadline: at the top, and of each class with child classes.
    eligible: Vec<PriorityQueue>,
    /// Backlogged classes without a rate, by turn.
    best_effort: VecDeque<u32>,
    time: WireTime,
    /// On a wire with gap frames: up to where it is filled, and whether that was rounded up from a
    /// time between two bytes.
    filled: u64,
    rounded: u64,
    /// Bytes of gap frames.
    gaps: u64,
    /// Entries of the calendar that are of a former rate, by time.
    outdated: BTreeSet<(u64, u32)>,
    /// The same of the orders of eligible classes, none of which is the first of its own: of which
    /// order, the deadline, and the class.
    outdated_turns: BTreeSet<(u32, u64, u32)>,
    /// The byte-time at which it took another one's place, rounded up: packets that it held and
    /// that move here later have been there since then.
    succeeded: Option<u64>,
    /// How far a flush has come: through nodes, their orders and leaves.
    flushed: Tour,
    plan: PacerPlan,
}

impl Pacer {
    fn new(plan: PacerPlan, leaves: Leaves) -> Self {
        let (mut nodes, mut node_of, mut sizes) = (Vec::with_capacity(plan.nodes.len()), Vec::new(), vec![0]);
        for (index, node) in plan.nodes.iter().enumerate() {
            let above = node.parent.map_or(TOP as u32, |parent| {
                let parent: &Node = &nodes[parent];
                parent.number
            });
            let number = if node.leaf { node_of.len() } else { sizes.len() } as u32;
            if node.leaf {
                node_of.push(index as u32);
            } else {
                sizes.push(0);
            }
            sizes[above as usize] += usize::from(node.rate.is_some());
            nodes.push(Node {
                pace: BytePace::new(node.rate.unwrap_or(1)),
                next: 0,
                after: UNKNOWN,
                late: 0,
                parent: node.parent.map_or(NONE, |parent| parent as u32),
                number,
                above,
                leaf: node.leaf,
                paced: node.rate.is_some(),
                state: State::Idle,
            });
        }
        let best_effort = nodes.iter().filter(|node| !node.paced).count();
        Self {
            leaves,
            waiting: match plan.waiting {
                Waiting::Heap => Calendar::heap(),
                Waiting::Calendar => Calendar::new(nodes.len(), plan.span()),
            },
            upcoming: Vec::with_capacity(FETCHED + 1),
            eligible: sizes.into_iter().map(PriorityQueue::new).collect(),
            best_effort: VecDeque::with_capacity(best_effort),
            nodes,
            node_of,
            time: WireTime::new(plan.rules.wire),
            filled: 0,
            rounded: 0,
            gaps: 0,
            outdated: BTreeSet::new(),
            outdated_turns: BTreeSet::new(),
            succeeded: None,
            flushed: Tour::default(),
            plan,
        }
    }

    /// Prefetches what this class, whose time has come, and the next ones will need.
    fn fetch(&mut self, comes: u32) {
        let Some(upcoming) = self.waiting.upcoming(FETCHED) else {
            return;
        };
        // Each round reads what the one before has located.
        self.upcoming.clear();
        self.upcoming.push(comes);
        self.upcoming.extend(upcoming);
        let mut read = Prefetched::NOTHING;
        for &index in &self.upcoming {
            read = read.and(Prefetched::word(self.nodes[index as usize].late));
        }
        let leaves = |&index: &u32| {
            let node = &self.nodes[index as usize];
            node.leaf.then_some(node.number as usize)
        };
        for leaf in self.upcoming.iter().filter_map(leaves) {
            read = read.and(self.leaves.prefetch(leaf));
        }
        for leaf in self.upcoming.iter().filter_map(leaves) {
            read = read.and(self.leaves.prefetch_discipline(leaf));
        }
        read.done();
    }

    #[inline]
    fn position(&mut self, now: Instant) -> Position {
        let (low, high) = self.time.at(now);
        if !self.plan.rules.frames {
            return Position { low, high };
        }
        if high > self.filled || low > self.filled - self.rounded {
            (self.filled, self.rounded) = (high, high - low);
        }
        Position {
            low: self.filled - self.rounded,
            high: self.filled,
        }
    }

    /// A leaf becomes ready, that has had nothing to send before `since`.
    #[inline]
    fn activate(&mut self, leaf: usize, at: Position, since: u64) {
        let index = self.node_of[leaf];
        if self.nodes[index as usize].paced {
            return self.wait(index, at, since);
        }
        self.best_effort.push_back(index);
    }

    /// An idle node waits for its time, which has passed if it had nothing to send then: unused
    /// time before `since` is gone, and so is time before a change, which was not of this rate.
    #[inline]
    fn wait(&mut self, index: u32, at: Position, since: u64) {
        let node = &mut self.nodes[index as usize];
        let eligible = node.pace.eligible();
        if node.state != State::Late || since > node.next {
            node.pace.not_before(since.max(node.next));
        }
        node.state = State::Waiting;
        node.next = eligible.max(at.low);
        self.waiting.note(index, node.next);
    }

    /// The next class whose time has come.
    #[inline]
    fn take_due(&mut self, now: u64) -> Option<u32> {
        match self.outdated.is_empty() {
            true => self.waiting.take(now),
            false => self.take_current(now),
        }
    }

    /// When the next class's time comes.
    #[inline]
    fn next_due(&mut self) -> Option<u64> {
        match self.outdated.is_empty() {
            true => self.waiting.next(),
            false => self.next_current(),
        }
    }

    /// A node's time has come: it joins the eligible of the class above.
    #[inline]
    fn rise(&mut self, index: u32, now: Instant, at: Position, sink: &mut dyn Sink) {
        let rules = self.plan.rules;
        let node = &mut self.nodes[index as usize];
        let bytes = if node.leaf {
            let Some(len) = self.leaves.peek(node.number as usize, now, sink) else {
                (node.state, node.next) = (State::Idle, 0);
                return;
            };
            rules.slots.counted(len, rules.basis)
        } else {
            rules.longest()
        };
        node.state = State::Eligible;
        let (after, since) = (node.pace.after(bytes, rules.wire), node.pace.eligible());
        let deadline = after.eligible();
        // A leaf's packet stays the one that was peeked at.
        node.next = deadline;
        node.after = match node.leaf && deadline < u64::MAX {
            true => after.remainder(),
            false => UNKNOWN,
        };
        let (above, parent) = (node.above as usize, node.parent);
        self.eligible[above].push(index, deadline.into());
        if parent != NONE && self.nodes[parent as usize].state.is_idle() {
            self.wait(parent, at, since.min(at.high));
        }
    }

    /// The leaf to send next: eligible, below eligible bottlenecks.
    #[inline]
    fn first(&self) -> Option<u32> {
        let mut above = TOP;
        loop {
            let index = self.eligible[above].first()?;
            let node = &self.nodes[index as usize];
            if node.leaf {
                return Some(index);
            }
            above = node.number as usize;
        }
    }

    /// Charges a leaf and all above it for a packet.
    #[inline]
    fn charge(&mut self, leaf: u32, len: Bytes, more: bool, at: Position) {
        let mut index = leaf;
        while index != NONE {
            let node = &mut self.nodes[index as usize];
            node.late = node.late.max(at.low.saturating_sub(node.pace.eligible()));
            let Rules {
                slots, basis, wire, ..
            } = self.plan.rules;
            let sent = |pace: BytePace| pace.after(slots.counted(len, basis), wire);
            match node.after {
                UNKNOWN => node.pace = sent(node.pace),
                remainder => {
                    debug_assert_eq!(sent(node.pace), node.pace.at(node.next, remainder));
                    node.pace = node.pace.at(node.next, remainder);
                }
            }
            let (above, eligible, parent) = (node.above as usize, node.pace.eligible(), node.parent);
            let again = if node.leaf {
                more
            } else {
                self.eligible[node.number as usize].first().is_some()
            };
            node.state = if again { State::Waiting } else { State::Idle };
            self.eligible[above].pop();
            node.next = eligible;
            if !self.outdated_turns.is_empty() {
                self.forget_outdated(above);
            }
            if again {
                self.waiting.note(index, eligible);
            }
            index = parent;
        }
    }

    /// A packet of a class without a rate, if it may go now.
    fn take_best_effort(&mut self, now: Instant, at: Position, sink: &mut dyn Sink) -> Option<Packet> {
        while let Some(&index) = self.best_effort.front() {
            let leaf = self.nodes[index as usize].number as usize;
            let Some(len) = self.leaves.peek(leaf, now, sink) else {
                self.best_effort.pop_front();
                continue;
            };
            if self.plan.best_effort == BestEffort::Strict && !self.is_out_in_time(len, at) {
                return None;
            }
            self.best_effort.pop_front();
            if let Next::Ready(packet) = self.leaves.dequeue(leaf, now, sink) {
                if self.leaves.is_ready(leaf) {
                    self.best_effort.push_back(index);
                }
                return Some(packet);
            }
        }
        None
    }

    /// Whether a packet delays no paced one; nor may the gap behind it, which is nothing or long
    /// enough for a gap frame.
    fn is_out_in_time(&mut self, len: Bytes, at: Position) -> bool {
        let Some(next) = self.next_due() else {
            return true;
        };
        let slot = self.plan.rules.slots.slot(len);
        let Some(left) = next.checked_sub(at.low.saturating_add(slot)) else {
            return false;
        };
        left == 0 || !self.plan.rules.frames || left >= SHORTEST_SLOT
    }

    /// A packet takes its slot of the wire.
    #[inline]
    fn occupy(&mut self, len: Bytes) {
        if self.plan.rules.frames {
            self.filled = self.filled.saturating_add(self.plan.rules.slots.slot(len));
        }
    }
}

impl Discipline for Pacer {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let moves = packet.handed_on;
        let (verdict, ready) = self.leaves.enqueue(now, packet, sink);
        if let Some(leaf) = ready {
            // A leaf that slept, or kept its former position while hollow, is where it was.
            let at = self.position(now);
            let since = self.succeeded.filter(|_| moves).unwrap_or(at.high);
            self.activate(leaf, at, since);
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let at = self.position(now);
        while let Some(leaf) = self.leaves.wake(now) {
            self.activate(leaf, at, at.high);
        }
        while let Some(index) = self.take_due(at.low) {
            self.fetch(index);
            self.rise(index, now, at, sink);
        }
        // Its packet was peeked at when its time came, and is there.
        if let Some(index) = self.first() {
            let leaf = self.nodes[index as usize].number as usize;
            let next = self.leaves.dequeue(leaf, now, sink);
            if let Next::Ready(packet) = &next {
                self.charge(index, packet.len, self.leaves.is_ready(leaf), at);
                self.occupy(packet.len);
                return next;
            }
        }
        if let Some(packet) = self.take_best_effort(now, at, sink) {
            self.occupy(packet.len);
            return Next::Ready(packet);
        }
        if !self.leaves.any_ready() {
            return self.leaves.rest();
        }
        let paced = self.next_due().map(|at| self.time.nanos(at));
        Next::Wait(
            paced
                .into_iter()
                .chain(self.leaves.next())
                .min()
                .unwrap_or(Instant::NEVER),
        )
    }

    fn gap(&mut self, longest: Bytes) -> Option<Bytes> {
        if !self.plan.rules.frames || !self.leaves.any_ready() {
            return None;
        }
        let gap = self.next_due()?.saturating_sub(self.filled - self.rounded);
        let slot = gap_slot(gap, longest.get().max(LEAST_LONGEST));
        self.filled += slot;
        self.gaps += slot;
        Some(Bytes::new(slot))
    }

    fn carry_over(&mut self) -> Option<&mut dyn CarryOver> {
        Some(self)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        let (nodes, leaves) = (self.nodes.len(), self.leaves.len());
        let mut flushed = std::mem::take(&mut self.flushed);
        let all = nodes + self.eligible.len() + leaves;
        let done = flushed.go_on(all, portion, |at, portion| {
            if let Some(node) = self.nodes.get_mut(at) {
                (node.state, node.next) = (State::Idle, 0);
            } else if let Some(eligible) = self.eligible.get_mut(at - nodes) {
                eligible.clear();
            } else {
                let leaf = at - nodes - self.eligible.len();
                self.leaves.flush_leaf(leaf, portion, sink);
            }
        });
        self.flushed = flushed;
        if done {
            self.waiting.clear();
            self.outdated.clear();
            self.outdated_turns.clear();
            self.best_effort.clear();
        }
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let Rules { basis, wire, .. } = self.plan.rules;
        out.gauge("basis", Value::State(basis.name()));
        out.gauge("wire", Value::Bandwidth(Bandwidth::bits_per_sec(wire)));
        out.gauge("gaps", Value::Bytes(Bytes::new(self.gaps)));
        let window = out.window();
        for number in self.plan.numbers.shown(&window) {
            let (node, plan) = (&self.nodes[number], &self.plan.nodes[number]);
            let gauges = |out: &mut Inspection<'_>| {
                if node.paced {
                    out.gauge(
                        "rate",
                        Value::Bandwidth(Bandwidth::bits_per_sec(node.pace.rate())),
                    );
                    out.gauge(
                        "late-most",
                        Value::Duration(Bandwidth::bits_per_sec(wire).time_to_send(Bytes::new(node.late))),
                    );
                }
            };
            if node.leaf {
                self.leaves
                    .inspect_one(node.number as usize, out, |_, out| gauges(out));
            } else {
                out.class(plan.id, gauges);
            }
        }
        for number in self.plan.numbers.inside(&window) {
            self.leaves
                .inspect_inside(self.nodes[number].number as usize, out);
        }
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let alike = |plan: &&PacerPlan| plan.is_like(&self.plan) && self.leaves.is_alike(&plan.leaves);
        let Some(plan) = plan_of(plan).filter(alike) else {
            return false;
        };
        let at = self.position(now);
        for (index, node) in plan.nodes.iter().enumerate() {
            let adopted = node.rate.is_none_or(|rate| self.adopt_rate(index, rate, at));
            if !adopted {
                self.order_anew();
                self.adopt_rate(index, node.rate.unwrap_or(1), at);
            }
        }
        self.plan = plan.clone();
        self.leaves.retune(now, &plan.leaves)
    }

    fn leaf(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.leaves.discipline(class)
    }

    fn retune_own(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        let shape = |plan: &PacerPlan| (plan.rules, plan.nodes.len());
        let plan = plan_of(plan).filter(|plan| shape(plan) == shape(&self.plan));
        plan.iter().for_each(|plan| self.plan = PacerPlan::clone(plan));
        plan.is_some()
    }

    fn retune_class(&mut self, now: Instant, plan: &dyn Plan, class: ClassId) -> bool {
        let known = plan_of(plan).and_then(|plan| {
            let index = plan.numbers.own(class.0)?;
            let known = |plan: &PacerPlan| {
                let node = plan.nodes.get(index)?;
                Some((node.id, node.parent, node.leaf, node.rate.is_some()))
            };
            let alike = known(plan).is_some_and(|node| node.0 == class) && known(plan) == known(&self.plan);
            alike.then_some((plan, index))
        });
        let Some((plan, index)) = known else {
            return false;
        };
        let (at, rate) = (self.position(now), plan.nodes[index].rate.unwrap_or(1));
        if !self.adopt_rate(index, rate, at) {
            return false;
        }
        self.plan = plan.clone();
        let node = &self.nodes[index];
        !node.leaf || self.leaves.retune_one(now, &plan.leaves, node.number as usize)
    }
}

impl CarryOver for Pacer {
    fn deficits(&mut self, now: Instant) -> Vec<Deficit> {
        let (at, rules) = (self.position(now), self.plan.rules);
        let nodes = self.nodes.iter().zip(self.plan.nodes.iter());
        let paced = nodes.filter(|(node, _)| node.paced);
        let deficit = |(node, plan): (&Node, &NodePlan)| Deficit {
            class: plan.id,
            bytes: node.pace.deficit(at.low, rules.wire),
            late: if node.state.is_idle() {
                0
            } else {
                node.pace.lateness(at.low, rules.wire, rules.longest())
            },
        };
        let some = |deficit: &Deficit| deficit.bytes > 0 || deficit.late > 0;
        paced.map(deficit).filter(some).collect()
    }

    fn start_with(&mut self, now: Instant, deficits: &[Deficit]) {
        let (at, wire, longest) = (
            self.position(now),
            self.plan.rules.wire,
            self.plan.rules.longest(),
        );
        self.nodes.iter_mut().for_each(|node| node.next = at.high);
        self.succeeded = Some(at.high);
        let nodes = self.plan.nodes.iter().enumerate();
        let node_of: BTreeMap<_, _> = nodes.map(|(index, plan)| (plan.id, index)).collect();
        for deficit in deficits {
            let Some(node) = node_of
                .get(&deficit.class)
                .map(|&index| &mut self.nodes[index])
                .filter(|node| node.paced)
            else {
                continue;
            };
            if deficit.bytes > 0 {
                node.pace.not_before(at.high);
                node.pace.send(deficit.bytes, wire);
            } else {
                node.pace.be_late(deficit.late.min(longest), at.high, wire);
                node.state = State::Late;
            }
        }
    }
}

/// Reservations as paced classes at the top. Such a class gets its rate and not more, at even
/// distances, so a flow that keeps to its reservation stays as even as the wire permits. Rates are
/// counted as `basis` counts them, for the shortest packets of the flow.
#[derive(Debug)]
struct ByPace;

impl Reserves for ByPace {
    fn bounds_delays(&self) -> bool {
        true
    }

    /// Framing takes a part of the wire that depends on the lengths of packets.
    fn refuses(&self) -> bool {
        true
    }

    fn capacity(&self, requested: &RequestedShare<'_>, problems: &mut Vec<Problem>) -> Bandwidth {
        let classes = requested
            .spec
            .classes
            .iter()
            .filter(|class| class.parent.is_none());
        let link = requested.link.bandwidth;
        refuse_oversold(requested, guaranteed(classes, "rate", link), problems);
        requested.share
    }

    fn counts(&self, _tree: &ReservableTree, rate: Bandwidth) -> Bandwidth {
        rate
    }

    fn add(&self, tree: &ReservableTree, spec: &mut DisciplineSpec, reservations: &[ReservedClass]) {
        // Best effort: it takes turns with the others there.
        spec.classes.push(class(SIGNALLING, Table::default()));
        for reserved in reservations {
            let least = reserved.least.min(tree.link.mtu).max(Bytes::new(1));
            let rate = counted_rate(&spec.settings, tree.link, least, reserved.rate);
            let settings = Table::default().with("rate", rate).with("packet", least);
            spec.classes.push(leaf(reserved, settings));
        }
    }
}

/// What this rate is as a pacer with these settings counts on this link: of packets of any length
/// from `least` on.
fn counted_rate(settings: &Table, link: Link, least: Bytes, rate: Bandwidth) -> Bandwidth {
    let read = Settings::read(settings, &[], &mut Vec::new());
    let (basis, tags) = read.map_or((Basis::Wire, MOST_TAGS), |read| (read.basis, read.tags));
    let slots = wire_slots(link, tags);
    let counted = |length: Bytes| {
        let bits = u128::from(rate.bits()) * u128::from(slots.counted(length, basis));
        bits.div_ceil(u128::from(length.get()))
    };
    let most = extreme_lengths(slots, least, link.longest()).map(counted).max();
    Bandwidth::bits_per_sec(most.and_then(|bits| u64::try_from(bits).ok()).unwrap_or(u64::MAX))
}

/// Of these lengths, those at which what framing adds is extreme. A length just above a multiple of
/// the longest frame has a short last one.
fn extreme_lengths(slots: WireSlots, least: Bytes, most: Bytes) -> impl Iterator<Item = Bytes> {
    let pieces =
        (1..=most.get() / slots.longest).map(move |frames| frames * slots.longest + slots.overhead + 1);
    let lengths = pieces.map(Bytes::new).chain([least, most]);
    lengths.filter(move |length| (least..=most).contains(length))
}

#[cfg(test)]
mod tests;
