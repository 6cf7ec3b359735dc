//! `cbq` as ns-2 and ALTQ share a link: by moving averages, top-level or ancestors-only.
//!
//! Follows Floyd and Jacobson 1995, sections 3 and 5, and the rules of ns-2's CBQ: every class and
//! the link itself has an average of idle times, and every packet changes those of its leaf and of
//! all above it. A leaf that is overlimit may go on if it may borrow and a class above it, or the
//! link, is not overlimit: any under `ancestors-only`, one up to a cutoff under `top-level`. If
//! nobody may send, a leaf that borrows goes on for nothing rather than that the link idles (ns-2
//! always, ALTQ's *efficient*). The highest priority goes first, and within it leaves take turns.
//!
//! The cutoff: a packet that arrives for a class within its limit lowers it to that class; a
//! packet that leaves lowers it to the level of the lender, or, when its queue is almost empty or
//! its lender overlimit then, lifts it altogether.
//!
//! A leaf that is refused is due a packet's time after its last packet, whatever its average: what
//! it borrowed earlier is forgiven then, once for each time it was within its limit.
//!
//! Departures: whole sixteenths of nanoseconds; a choice visits eight leaves of a priority, and
//! where none of them may send, the least start tag decides (Goyal, Vin and Cheng, 1996), so that
//! nobody is passed over one by one; whoever is overlimit wakes up by a timer, where ns-2 waits for
//! the next event.

mod average;
mod pools;
mod rules;
#[cfg(test)]
mod tests;

use super::inspection::{Shown, Standing, Tally};
use super::plan::{CbqPlan, ClassPlan};
use super::settings::{PacedBy, RoundRobin, Sharing};
use super::shares::Share;
use crate::discipline::{Discipline, Next, Reason, Sink, Verdict};
use crate::inspect::Inspection;
use crate::link_clock::CreditClock;
use crate::packet::{ClassId, Packet};
use crate::portion::{Portion, Tour};
use crate::queue::Queue;
use crate::sharing::credit::nanobits;
use crate::structures::rings::{NONE, Neighbours, PRIORITIES};
use crate::structures::timer_wheel::TimerWheel;
use crate::units::{Bandwidth, Bytes, Duration, Instant};
use average::{Average, Limits};
use pools::{Above, Below, Pools};

/// It may borrow from its parent.
const BORROW: u8 = 1;
/// It is overlimit; of nodes that somebody waits at.
const OVER: u8 = 2;
/// A leaf with a backlog.
const BACKLOGGED: u8 = 4;
/// A leaf whose queue has a backlog and releases nothing before its timer.
const ASLEEP: u8 = 8;
/// A leaf that was refused since it was last within its limit.
const REFUSED: u8 = 16;
/// A leaf that is overlimit and was not refused yet.
const FRESH: u8 = 32;

/// A class, or, last, the link.
#[derive(Clone, Debug)]
struct Member {
    average: Average,
    parent: u32,
    level: u8,
    priority: u8,
    flags: u8,
    /// Leaf: 1 if it has a packet to send. Others: the priorities in which their pools have leaves.
    demand: u8,
}

/// What only leaves have.
#[derive(Clone, Debug)]
struct Leaf {
    /// Its start tag: what it has sent in its turns, over its weight.
    tag: u128,
    share: Share,
    /// Bytes that are left of its turn.
    left: i64,
    /// Among the backlogged leaves of its priority.
    turn: Neighbours,
    /// Among those of them that borrow.
    borrower: Neighbours,
    /// Among those of its priority that are overlimit and were not refused yet.
    fresh: Neighbours,
}

/// A choice: which leaf sends, and who lends. Nobody lends what the link would lose.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    leaf: usize,
    lender: Option<usize>,
    priority: usize,
}

/// The settings that every packet needs.
#[derive(Clone, Copy, Debug)]
struct Customs {
    top_level: bool,
    weighted: bool,
    shaped: bool,
    efficient: bool,
    tick: Option<u64>,
}

/// The discipline by averages.
#[derive(Debug)]
pub(super) struct Averaging {
    pub(super) plan: CbqPlan,
    /// Whether it was adopted class by class: one may not have its values yet.
    pub(super) by_class: bool,
    /// Of the leaves, by number.
    pub(super) queues: Vec<Queue>,
    pub(super) clock: CreditClock,
    pub(super) tallies: Vec<Tally>,
    members: Vec<Member>,
    leaves: Vec<Leaf>,
    pools: Pools,
    /// Heads of rings, by priority: the leaf whose turn it is, or comes next.
    turns: [u32; PRIORITIES],
    borrowers: [u32; PRIORITIES],
    /// Who has sent last, by priority.
    last: [u32; PRIORITIES],
    fresh: [u32; PRIORITIES],
    /// The start tag of the last packet of each priority.
    tags: [u128; PRIORITIES],
    backlogged: usize,
    /// No node above this level lends.
    cutoff: u8,
    wheel: TimerWheel,
    customs: Customs,
    /// How far a flush has come through the leaves.
    flushed: Tour,
}

impl Averaging {
    /// A tree of this plan with these queues, all of its classes idle.
    pub(super) fn new(plan: CbqPlan, queues: Vec<Queue>, clock: CreditClock) -> Self {
        let (leaves, link) = (queues.len(), plan.classes.len());
        let top = (plan.levels - 1) as u8;
        let mut members: Vec<Member> = plan
            .classes
            .iter()
            .map(|class| member(class, plan.link))
            .collect();
        members.push(Member {
            average: Average::new(limits_of_link(&plan)),
            parent: link as u32,
            level: top,
            priority: 0,
            flags: 0,
            demand: 0,
        });
        let below: Vec<Below> = members[..leaves]
            .iter()
            .map(|leaf| Below {
                priority: leaf.priority,
                parent: leaf.parent,
            })
            .collect();
        let above: Vec<Above> = members[leaves..]
            .iter()
            .map(|node| Above {
                level: node.level,
                parent: node.parent,
            })
            .collect();
        Self {
            pools: Pools::new(&below, &above, plan.levels),
            leaves: plan.shares.iter().copied().map(Leaf::new).collect(),
            turns: [NONE; PRIORITIES],
            borrowers: [NONE; PRIORITIES],
            last: [NONE; PRIORITIES],
            fresh: [NONE; PRIORITIES],
            tags: [0; PRIORITIES],
            backlogged: 0,
            cutoff: top,
            wheel: TimerWheel::new(members.len()),
            customs: Customs::new(&plan),
            flushed: Tour::default(),
            tallies: vec![Tally::default(); members.len()],
            members,
            queues,
            clock,
            plan,
            by_class: false,
        }
    }

    /// The same with another plan of the same shape; packets, averages and tags stay.
    pub(super) fn adopt(&mut self, plan: &CbqPlan, now: u64) {
        let stays = |number| self.keeps_place(plan, number);
        if plan.settings.differ_little(&self.plan.settings) && (0..plan.classes.len()).all(stays) {
            self.adopt_plan(plan, now);
            (0..plan.classes.len()).for_each(|number| self.adopt_class(number, now));
            self.by_class = false;
            return;
        }
        let clock = self.clock_at(now);
        self.clock.retune(plan.link, plan.settings.link_burst, now);
        let queues = std::mem::take(&mut self.queues);
        let mut next = Self::new(plan.clone(), queues, self.clock.clone());
        for (member, former) in next.members.iter_mut().zip(&self.members) {
            let limits = member.average.limits();
            member.average = former.average;
            member.average.adopt(limits, clock);
            member.flags |= former.flags & REFUSED;
        }
        for (leaf, former) in next.leaves.iter_mut().zip(&self.leaves) {
            leaf.tag = former.tag;
        }
        next.tags = self.tags;
        next.tallies = std::mem::take(&mut self.tallies);
        *self = next;
        self.resume(now);
    }

    /// Takes over what a plan of the same classes says of the whole.
    pub(super) fn adopt_plan(&mut self, plan: &CbqPlan, now: u64) {
        let link = |plan: &CbqPlan| (plan.link, plan.settings.link_burst);
        if link(plan) != link(&self.plan) {
            // What the former link did until now counts.
            self.clock_at(now);
            self.clock.retune(plan.link, plan.settings.link_burst, now);
        }
        (self.customs, self.plan) = (Customs::new(plan), plan.clone());
        self.by_class = true;
        self.adopt_limits(self.members.len() - 1, limits_of_link(plan), now);
    }

    /// Takes over what a plan says of one class, if that is where it was among the others.
    pub(super) fn retune_one(&mut self, now: Instant, plan: &CbqPlan, class: ClassId) -> bool {
        let shape = |plan: &CbqPlan| (plan.leaves, plan.classes.len());
        let known = |number: &usize| {
            shape(plan) == shape(&self.plan)
                && self.plan.classes[*number].id == class
                && self.keeps_place(plan, *number)
        };
        let Some(number) = plan.numbers.own(class.0).filter(known) else {
            return false;
        };
        if let (Some(own), Some(queue)) = (self.queues.get_mut(number), &plan.classes[number].queue)
            && (own.kind() != queue.kind.name || !own.retune(now, &*queue.plan))
        {
            return false;
        }
        self.adopt_plan(plan, now.nanos());
        self.adopt_class(number, now.nanos());
        true
    }

    /// Whether a class has the parent that it has in this plan, borrows as there and, if it is a
    /// leaf, takes turns with the same ones.
    fn keeps_place(&self, plan: &CbqPlan, number: usize) -> bool {
        let (new, member) = (&plan.classes[number], &self.members[number]);
        let alike = number >= self.leaves.len() || new.settings.priority == u32::from(member.priority);
        alike && new.parent == member.parent && new.settings.borrow == (member.flags & BORROW != 0)
    }

    fn adopt_class(&mut self, number: usize, now: u64) {
        let limits = member(&self.plan.classes[number], self.plan.link)
            .average
            .limits();
        if let Some(leaf) = self.leaves.get_mut(number) {
            leaf.share = self.plan.shares[number];
        }
        self.adopt_limits(number, limits, now);
    }

    /// Gives a node other limits. If it had no rate, or has none from now on, that makes it
    /// underlimit or overlimit.
    fn adopt_limits(&mut self, node: usize, limits: Limits, now: u64) {
        let former = self.members[node].average.limits();
        if limits == former {
            return;
        }
        let (clock, could) = (self.clock_at(now), self.may_send());
        let member = &mut self.members[node];
        member.average.adopt(limits, clock);
        if member.demand == 0 || limits.is_nothing() == former.is_nothing() {
            return;
        }
        self.turn_over(node, limits.is_nothing(), clock, now);
        self.wheel.cancel(node as u32);
        if !could && self.may_send() {
            self.clock.set_ready(now);
        }
    }

    /// Every leaf that has packets joins.
    pub(super) fn resume(&mut self, now: u64) {
        let clock = self.clock.idle(now);
        for leaf in 0..self.leaves.len() {
            if !self.queues[leaf].is_empty() {
                self.members[leaf].flags |= BACKLOGGED;
                self.backlogged += 1;
                self.join(leaf, clock, now);
            }
        }
        self.clock.set_ready(now);
    }

    /// A class that has no packets yet goes on where this one of another tree leaves off: with its
    /// average, and its turn. The link's clock and average go on, too.
    pub(super) fn succeed(&mut self, number: usize, former: &mut Self, was: usize, now: u64) {
        let clock = former.clock_at(now);
        self.clock.clone_from(&former.clock);
        let link = |plan: &CbqPlan| (plan.link, plan.settings.link_burst);
        if link(&self.plan) != link(&former.plan) {
            self.clock
                .retune(self.plan.link, self.plan.settings.link_burst, now);
        }
        let links = [self.members.len() - 1, former.members.len() - 1];
        for [own, was] in [[number, was], links] {
            let average = former.members[was].average;
            self.members[own].average = average.succeeding(self.members[own].average, clock);
        }
        if let (Some(own), Some(was)) = (self.leaves.get_mut(number), former.leaves.get(was))
            && own.share == was.share
        {
            (own.tag, own.left) = (was.tag, was.left);
        }
        self.tags = former.tags;
    }

    /// The clock of credits.
    fn clock_at(&mut self, now: u64) -> u64 {
        match self.backlogged {
            0 => self.clock.idle(now),
            _ => {
                let since = self.since();
                self.clock.at(now, since)
            }
        }
    }

    /// Whether somebody may send.
    fn may_send(&self) -> bool {
        self.pools.any() || self.customs.efficient && self.borrowers.iter().any(|&head| head != NONE)
    }

    /// Since when a leaf may send; if none may, when the first could have been woken.
    fn since(&self) -> u64 {
        match self.may_send() {
            true => self.clock.ready(),
            false => self.wheel.next().map_or(u64::MAX, Instant::nanos),
        }
    }

    /// A packet leaves: turns, averages, the link, the cutoff.
    fn sent(&mut self, chosen: Chosen, len: u64, clock: u64, now: u64) {
        let Chosen {
            leaf,
            lender,
            priority,
        } = chosen;
        let work = nanobits(len) as u64;
        self.move_turn(leaf, priority, lender.map(|_| len));
        if self.queues[leaf].is_empty() {
            self.empty(leaf);
        }
        self.clock.send(now, work, self.customs.shaped);
        let Some(lender) = lender else {
            self.tallies[leaf].borrows += 1;
            self.tallies[leaf].borrowed += len;
            let link = self.members.len() - 1;
            self.tallies[link].lent += len;
            return;
        };
        self.take_turn(leaf, priority, len);
        if lender == leaf {
            self.members[leaf].flags &= !REFUSED;
        } else {
            self.tallies[leaf].borrows += 1;
            self.tallies[leaf].borrowed += len;
            self.tallies[lender].lent += len;
        }
        self.charge(leaf, work, clock, now);
        if self.customs.top_level {
            self.move_cutoff(lender, leaf, clock);
        }
    }

    /// A leaf has no backlog any more.
    fn empty(&mut self, leaf: usize) {
        self.stop(leaf);
        self.members[leaf].flags &= !BACKLOGGED;
        self.backlogged -= 1;
    }

    /// A leaf has nothing to send, whether it was waiting for its own queue or for its turn.
    fn stop(&mut self, leaf: usize) {
        if self.members[leaf].flags & ASLEEP != 0 {
            self.members[leaf].flags &= !ASLEEP;
            self.wheel.cancel(leaf as u32);
        } else {
            self.leave(leaf);
        }
    }

    /// What a class does at the moment; its credit is its average idle time at its rate.
    fn standing(&self, number: usize) -> Standing {
        let member = &self.members[number];
        let state = match () {
            () if member.flags & ASLEEP != 0 => "asleep",
            () if member.demand == 0 => "idle",
            () if member.flags & OVER == 0 => "ready",
            () if member.flags & BORROW != 0 => "borrowing",
            () => "suspended",
        };
        Standing {
            state,
            credit: member.average.bytes(),
            tally: self.tallies[number],
        }
    }
}

impl Leaf {
    /// Bytes left of its turn, or of the next one.
    fn of_turn(&self) -> i64 {
        match self.left {
            1.. => self.left,
            _ => self.left.saturating_add(self.share.turn),
        }
    }

    fn new(share: Share) -> Self {
        Self {
            tag: 0,
            share,
            left: 0,
            turn: Neighbours::FREE,
            borrower: Neighbours::FREE,
            fresh: Neighbours::FREE,
        }
    }
}

impl Customs {
    fn new(plan: &CbqPlan) -> Self {
        let settings = &plan.settings;
        Self {
            top_level: settings.sharing == Sharing::TopLevel,
            weighted: settings.round_robin == RoundRobin::Weighted,
            shaped: settings.link == PacedBy::Shaped,
            efficient: settings.efficient,
            tick: settings.tick.map(Duration::nanos),
        }
    }
}

/// The member of a class that is idle.
fn member(class: &ClassPlan, link: Bandwidth) -> Member {
    let settings = &class.settings;
    let bursts = (settings.maxburst, settings.minburst);
    let rate = Bandwidth::bits_per_sec(class.credit.rate);
    let limits = Limits::new(rate, link, Bytes::new(class.packet), bursts);
    let limits = match class.level {
        0 => limits.of_leaf(),
        _ => limits,
    };
    Member {
        average: Average::new(limits),
        parent: class.parent,
        level: class.level,
        priority: settings.priority as u8,
        flags: if settings.borrow { BORROW } else { 0 },
        demand: 0,
    }
}

fn limits_of_link(plan: &CbqPlan) -> Limits {
    let settings = &plan.settings;
    let rate = settings.root_rate.map_or(plan.link, |rate| rate.on(plan.link));
    Limits::new(rate, plan.link, plan.mtu, (settings.root_maxburst, 1))
}

impl Discipline for Averaging {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let Some(leaf) = self.plan.routes.child(packet.class) else {
            sink.drop(packet, Reason::NoClass);
            return Verdict::Dropped(Reason::NoClass);
        };
        let verdict = self.queues[leaf].enqueue(now, packet, sink);
        let flags = self.members[leaf].flags;
        let holds = !self.queues[leaf].is_empty();
        let waiting = flags & BACKLOGGED != 0 && flags & ASLEEP == 0;
        if holds && waiting && !self.customs.top_level {
            return verdict;
        }
        let now = now.nanos();
        let clock = self.clock_at(now);
        if self.customs.top_level {
            self.lower_cutoff(leaf, clock);
        }
        let could = self.may_send();
        match (flags & BACKLOGGED != 0, holds) {
            (false, true) => {
                self.members[leaf].flags |= BACKLOGGED;
                self.backlogged += 1;
                self.join(leaf, clock, now);
            }
            (true, false) => self.empty(leaf),
            // The queue may have a packet earlier now: it is polled again.
            (true, true) if flags & ASLEEP != 0 => {
                self.stop(leaf);
                self.join(leaf, clock, now);
            }
            _ => {}
        }
        if !could && self.may_send() {
            self.clock.set_ready(now);
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        if self.backlogged == 0 {
            return Next::Empty;
        }
        let at = now.nanos();
        if self.customs.shaped && self.clock.free_at() > at {
            return Next::Wait(Instant::from_nanos(self.clock.free_at()));
        }
        let since = self.since();
        let clock = self.clock.at(at, since);
        self.wake(clock, at, since);
        loop {
            let Some(chosen) = self.choose(at) else {
                // Who is refused may be due at once.
                if self.refuse_all(at) || self.wheel.next().is_some_and(|due| due <= now) {
                    self.wake(clock, at, at);
                    continue;
                }
                return match self.backlogged {
                    0 => Next::Empty,
                    _ => Next::Wait(self.wheel.next().unwrap_or(Instant::NEVER)),
                };
            };
            match self.queues[chosen.leaf].dequeue(now, sink) {
                Next::Ready(packet) => {
                    self.sent(chosen, packet.len.get(), clock, at);
                    return Next::Ready(packet);
                }
                Next::Wait(until) => {
                    self.leave(chosen.leaf);
                    self.members[chosen.leaf].flags |= ASLEEP;
                    self.wheel.set(chosen.leaf as u32, until);
                }
                Next::Empty => self.empty(chosen.leaf),
            }
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        let mut flushed = std::mem::take(&mut self.flushed);
        flushed.go_on(self.queues.len(), portion, |leaf, portion| {
            self.queues[leaf].flush(portion, sink);
            if !portion.is_spent() && self.members[leaf].flags & BACKLOGGED != 0 {
                self.empty(leaf);
            }
        });
        self.flushed = flushed;
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let shown = Shown {
            plan: &self.plan,
            queues: &self.queues,
            lent: self.tallies[self.plan.classes.len()].lent,
            clock: &self.clock,
        };
        shown.inspect(out, |number| self.standing(number));
    }
}
