//! `cbq`: a tree of classes, each with a guaranteed rate, sharing a link's excess by rule.
//!
//! Follows Floyd and Jacobson, "Link-sharing and resource management models for packet networks",
//! IEEE/ACM Transactions on Networking 3(4), 1995, and Cho 1999, sections 4.1.1, 4.2.4 to 4.2.7 and
//! 5.3 to 5.4. Words: a class is *overlimit* when it has used up its allotment; *regulated* when it
//! may not send; *unsatisfied* when it is not overlimit and has a backlog.
//!
//! **Formal link sharing**, the default: an overlimit class may go on if an ancestor, reached
//! through classes that borrow, is not overlimit and no class of any lower level is unsatisfied. A
//! leaf has level 0, another class one more than its highest child. Trying the levels from 0
//! upwards is that rule, without visiting every class (as Devera does for HTB): level 0 has the
//! leaves with credit of their own, level *i* the classes that can lend to what is below them.
//! Within a level the larger priority (0 to 7) is served first, within a priority classes take
//! turns. Each lender keeps the children that want to borrow, so excess is shared inside an
//! organisation before it leaves it. Turns are in proportion to the rates of those with a backlog,
//! however far these are apart; a class without a rate counts as a sixteenth of the mean.
//!
//! **Estimator.** A class has a credit in nanobits: rate (bit/s) × time (ns), exact in integers.
//!
//! - credit += rate × time since the last update, up to what lets `maxburst` packets of
//!   `packet_size` go;
//! - credit −= length of each packet that the class pays for; overlimit from 0 downwards;
//! - an overlimit class with a backlog waits until `minburst` packets may go; one that had none,
//!   for any credit.
//!
//! *n* packets may go back to back with a credit above ((*n* − 1) − (*n* − 2) *f*) × `packet_size`,
//! *f* = rate / link: the last may overdraw, and while one is on the wire the class regains *f* of
//! it. In the paper's terms credit / rate is the idle time that avgidle averages, the cap is its
//! maxidle, and the time to wait its offtime. Departures, argued in `docs/decisions/cbq.md`:
//!
//! 1. No weighted average: in integers it has errors of up to 14 %, and forgets overdrafts at
//!    minidle. The sum is exact at any rate, and bounds bursts as `maxidle` was meant to.
//! 2. The lender pays, and its ancestors; classes below the lender do not. The paper charges the
//!    borrower too, so that what was free yesterday is missing from its allotment today.
//! 3. A class that waits for its turn accumulates credit beyond `maxburst`, so that a burst of a
//!    higher priority does not cost it its allotment. The sum of all credits cannot grow while the
//!    link is busy, so this ends.
//! 4. `excess = "share"`: the excess is shared by allotment, whatever the priority, so priority
//!    buys delay and not bandwidth (the trouble in Cho's Fig. 11). `"priority"` is the literature's
//!    rule.
//! 5. The link is a wire with a clock, exact to a nanobit. A late caller may catch up by
//!    `link_burst`; beyond it the clock of all credits stands still, so that a link slower than
//!    declared serves all in proportion.
//! 6. `tick` brings the kernel timer of 1998 back: wake-ups on ticks only, at least two ahead
//!    (section 4.2.7).
//!
//! `sharing = "top-level"` and `"ancestors-only"` are the literature's approximations, for
//! comparison: strict priority among all unregulated classes, every ancestor charged, credit capped
//! at `maxburst`. The link itself is at its limit while it is busy, so it lends only what it would
//! lose otherwise, which nobody is charged for (ns-2's *efficient*). They can starve a backlogged
//! class, and top-level passes over the classes of a turn that would borrow from above its cutoff.
//! When a packet empties or overdraws, the cutoff becomes the lowest level of an unsatisfied class:
//! one within its limit with a backlog, of its own or below it.

mod estimator;
mod inspection;
mod older;
mod passed_over;
mod plan;
mod retuning;
mod rows;
mod settings;
mod state;
mod turns;

pub use settings::{ClassSettings, Excess, PacedBy, RoundRobin, Settings, Sharing};

use crate::bounds::{Terms, WorstCase};
use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Children, Kind, Properties};
use crate::link_clock::CreditClock;
use crate::packet::Packet;
use crate::sharing::by_rates::ByRates;
use crate::sharing::credit_bound::{self, Credited};
use crate::structures::rings::Rows;
use crate::structures::rings::Sets;
use crate::structures::shortcuts::Shortcuts;
use crate::structures::timer_wheel::TimerWheel;
use crate::units::{Bytes, Duration, Instant};
use plan::{CbqPlan, ClassPlan, check};
use state::{ASLEEP, BACKLOGGED, Cbq, LONGEST_UNIT, Rules, Tally};
use std::any::Any;

/// The registration.
pub static KIND: Kind = Kind {
    name: "cbq",
    summary: "Class-based queueing: a tree of classes with guaranteed rates, priorities, and borrowing",
    reference: "Floyd and Jacobson, IEEE/ACM ToN 3(4), 1995; Cho, \"Traffic management by alternate queueing\", 1999",
    children: Children::Classes { nested: true },
    settings: Settings::SETTINGS,
    class_settings: ClassSettings::SETTINGS,
    properties: Properties {
        reserves: Some(&ByRates),
        isolates: true,
        ..Properties::NONE
    },
    check,
};

impl Plan for CbqPlan {
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        // Every leaf has a queue: `check` made it so.
        let leaf = |class: &ClassPlan| {
            Some(Credited {
                id: class.id,
                queue: class.queue.as_ref()?.kind,
                credit: class.credit,
                priority: class.settings.priority,
            })
        };
        let patience = (self.settings.link == PacedBy::Port).then_some(self.settings.link_burst);
        let formal = self.settings.sharing == Sharing::Formal && self.settings.tick.is_none();
        credit_bound::all(
            self.classes.iter().take(self.leaves).filter_map(leaf).collect(),
            terms,
            formal,
            patience,
        )
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let queues = self.classes.iter().filter_map(|class| {
            class
                .queue
                .as_ref()
                .map(|queue| queue.build(&cx.part(&class.name)))
        });
        let mut cbq = Cbq {
            nodes: Vec::new(),
            places: Vec::new(),
            rows: Rows::default(),
            sets: Sets::default(),
            queues: queues.collect(),
            backlogged: 0,
            wheel: TimerWheel::new(self.classes.len()),
            clock: CreditClock::new(self.link, self.settings.link_burst),
            rules: Rules::new(self),
            cutoff: 0,
            unsatisfied: 0,
            shortcuts: Shortcuts::default(),
            waiting: Shortcuts::default(),
            revealed: Vec::new(),
            regains: TimerWheel::new(0),
            unit: self.mtu.get().clamp(1, LONGEST_UNIT),
            tallies: vec![Tally::default(); self.classes.len() + 1],
            plan: self.clone(),
        };
        cbq.lay_out();
        Box::new(cbq)
    }
}

impl Discipline for Cbq {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let Some(leaf) = self.plan.routes.child(packet.class) else {
            sink.drop(packet, Reason::NoClass);
            return Verdict::Dropped(Reason::NoClass);
        };
        let verdict = self.queues[leaf].enqueue(now, packet, sink);
        let flags = self.nodes[leaf].flags;
        let holds = !self.queues[leaf].is_empty();
        let waiting = flags & BACKLOGGED != 0 && flags & ASLEEP == 0;
        if holds && waiting && !self.rules.top_level {
            return verdict;
        }
        let now = now.nanos();
        let clock = if self.backlogged > 0 {
            self.clock.at(now, self.since())
        } else {
            self.clock.idle(now)
        };
        match (flags & BACKLOGGED != 0, holds) {
            (false, true) => {
                self.nodes[leaf].flags |= BACKLOGGED;
                self.backlogged += 1;
                self.join(leaf, clock, now, now);
            }
            (true, false) => self.empty(leaf, clock),
            // The queue may have a packet earlier now: it is polled again.
            (true, true) if flags & ASLEEP != 0 => {
                self.stop(leaf, clock);
                self.join(leaf, clock, now, now);
            }
            _ => {}
        }
        if self.rules.top_level && holds {
            self.lower_cutoff(leaf, clock);
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        if self.backlogged == 0 {
            return Next::Empty;
        }
        let at = now.nanos();
        if self.rules.shaped && self.clock.free_at() > at {
            return Next::Wait(Instant::from_nanos(self.clock.free_at()));
        }
        let since = self.since();
        let clock = self.clock.at(at, since);
        self.wake(clock, at, since);
        loop {
            let choice = if self.rules.formal {
                self.choose()
            } else {
                self.choose_by_priority(clock, at)
            };
            let Some(choice) = choice else {
                return match self.backlogged {
                    0 => Next::Empty,
                    _ => Next::Wait(self.wheel.next().unwrap_or(Instant::NEVER)),
                };
            };
            match self.queues[choice.leaf].dequeue(now, sink) {
                Next::Ready(packet) => {
                    self.sent(choice, packet.len.get(), clock, at);
                    return Next::Ready(packet);
                }
                Next::Wait(until) => {
                    self.leave(choice.leaf, clock);
                    self.nodes[choice.leaf].flags |= ASLEEP;
                    self.wheel.set(choice.leaf as u32, until);
                }
                Next::Empty => self.empty(choice.leaf, clock),
            }
        }
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        for leaf in 0..self.leaves() {
            self.queues[leaf].flush(sink);
            if self.nodes[leaf].flags & BACKLOGGED != 0 {
                let clock = self.nodes[leaf].credit.updated;
                self.empty(leaf, clock);
            }
        }
        // No leaf is backlogged any more. The time of the flush is not known; credit up to it
        // accrues later.
        for node in &mut self.nodes {
            node.credit.cap();
        }
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let link = self.link();
        out.gauge("sharing", Value::State(self.plan.settings.sharing.name()));
        out.gauge("rate", Value::Bandwidth(self.plan.link));
        out.gauge("lent", Value::Bytes(Bytes::new(self.tallies[link].lent)));
        out.gauge(
            "lost_time",
            Value::Duration(Duration::from_nanos(self.clock.behind())),
        );
        let below = out.is_whole().then(|| self.below());
        let window = out.window();
        for number in self.plan.numbers.shown(&window) {
            out.class(self.plan.classes[number].id, |out| {
                self.inspect_class(number, out);
                match (self.queues.get(number), &below) {
                    (Some(queue), _) => queue.inspect(out),
                    (None, Some(below)) => out.counts("", &below[number]),
                    (None, None) => {}
                }
            });
        }
        for leaf in self.plan.numbers.inside(&window) {
            out.inside(|out| self.queues[leaf].inspect(out));
        }
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<CbqPlan>() else {
            return false;
        };
        let shape = |plan: &CbqPlan| -> Vec<_> {
            let kind = |class: &ClassPlan| class.queue.as_ref().map(|queue| queue.kind.name);
            plan.classes
                .iter()
                .map(|class| (class.id, class.parent, kind(class)))
                .collect()
        };
        if shape(plan) != shape(&self.plan) {
            return false;
        }
        let queues = self.queues.iter_mut().zip(plan.classes.iter());
        let adopted = queues
            .filter_map(|(queue, class)| Some(queue.retune(now, class.queue.as_ref()?.plan.as_ref())))
            .fold(true, |all, one| all & one);
        let values = |plan: &CbqPlan| -> Vec<_> {
            plan.classes
                .iter()
                .map(|class| (class.credit.rate, class.packet, class.settings.clone()))
                .collect()
        };
        let same =
            (plan.link, plan.mtu, &plan.settings) == (self.plan.link, self.plan.mtu, &self.plan.settings);
        if !same || values(plan) != values(&self.plan) {
            self.adopt(plan, now.nanos());
        }
        adopted
    }
}
