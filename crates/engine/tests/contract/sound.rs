//! Two small sound kinds that stand above others in the pairs: a shaper (one child, not
//! work-conserving), and nested classes of which all heads are peeked at. So deadlines, pins and
//! nesting meet every kind.

use engine::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use engine::inspect::Inspection;
use engine::kind::{Check, Children, ClassRoutes, Kind, Properties, QueuePlan};
use engine::packet::{ClassId, Packet};
use engine::portion::{Portion, Tour};
use engine::queue::Queue;
use engine::settings;
use engine::units::{Bandwidth, Instant, Rate};
use std::any::Any;
use std::sync::Arc;

/// One packet at a time at a rate.
pub static SHAPER: Kind = Kind {
    name: "shaper",
    summary: "Releases the packets of the queue below at a rate",
    reference: "the contract test",
    children: Children::One,
    settings: ShaperSettings::SETTINGS,
    class_settings: &[],
    properties: Properties::NONE,
    check: check_shaper,
};

settings! {
    /// Settings of `shaper`.
    pub struct ShaperSettings {
        /// The rate
        rate: Rate = default "10 %", "", "";
    }
}

#[derive(Debug)]
struct ShaperPlan {
    rate: Bandwidth,
    child: QueuePlan,
}

fn check_shaper(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = ShaperSettings::read(check.settings, &[], check.problems)?;
    let rate = settings.rate.on(check.link.bandwidth);
    let child = check.child.take()?;
    Some(Arc::new(ShaperPlan { rate, child }))
}

impl Plan for ShaperPlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let child = self.child.build(&cx.part("child"));
        Box::new(Shaper {
            rate: self.rate,
            child,
            free: Instant::START,
        })
    }
}

#[derive(Debug)]
struct Shaper {
    rate: Bandwidth,
    child: Queue,
    free: Instant,
}

impl Discipline for Shaper {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        self.child.enqueue(now, packet, sink)
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        if now < self.free && !self.child.is_empty() {
            return Next::Wait(self.free);
        }
        let next = self.child.dequeue(now, sink);
        if let Next::Ready(packet) = &next {
            self.free = now + self.rate.time_to_send(packet.len);
        }
        next
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.child.flush(portion, sink);
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        self.child.inspect(out);
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<ShaperPlan>() else {
            return false;
        };
        if !self.child.retune(now, &*plan.child.plan) {
            return false;
        }
        self.rate = plan.rate;
        true
    }
}

/// Of the classes' heads, the shortest goes first. It peeks at every class, so all heads are
/// pinned.
pub static SHORTEST: Kind = Kind {
    name: "shortest",
    summary: "Of the classes' heads, the shortest goes first",
    reference: "the contract test",
    children: Children::Classes { nested: true },
    settings: &[],
    class_settings: &[],
    properties: Properties::NONE,
    check: check_shortest,
};

#[derive(Debug, Default)]
struct ShortestPlan {
    leaves: Vec<(ClassId, QueuePlan)>,
    interior: Vec<ClassId>,
    routes: ClassRoutes,
}

fn check_shortest(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let mut plan = ShortestPlan::default();
    for class in &check.classes {
        let Some(queue) = &class.queue else {
            plan.interior.push(class.id);
            continue;
        };
        let child = u32::try_from(plan.leaves.len()).ok()?;
        class.routes.iter().for_each(|&id| plan.routes.add(id, child));
        plan.leaves.push((class.id, queue.clone()));
    }
    Some(Arc::new(plan))
}

impl Plan for ShortestPlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let build = |(id, plan): &(ClassId, QueuePlan)| (*id, plan.build(&cx.part(&id.0.to_string())));
        Box::new(Shortest {
            leaves: self.leaves.iter().map(build).collect(),
            interior: self.interior.clone(),
            routes: self.routes.clone(),
            flushed: Tour::default(),
        })
    }
}

#[derive(Debug)]
struct Shortest {
    leaves: Vec<(ClassId, Queue)>,
    interior: Vec<ClassId>,
    routes: ClassRoutes,
    flushed: Tour,
}

impl Discipline for Shortest {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let Some(child) = self.routes.child(packet.class) else {
            sink.drop(packet, Reason::NoClass);
            return Verdict::Dropped(Reason::NoClass);
        };
        self.leaves[child].1.enqueue(now, packet, sink)
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let (mut best, mut earliest) = (None, None);
        for (i, (_, queue)) in self.leaves.iter_mut().enumerate() {
            match queue.peek(now, sink) {
                Next::Ready(packet) if best.is_none_or(|(len, _)| packet.len < len) => {
                    best = Some((packet.len, i));
                }
                Next::Wait(at) => earliest = Some(earliest.map_or(at, |e: Instant| e.min(at))),
                Next::Ready(_) | Next::Empty => {}
            }
        }
        match (best, earliest) {
            (Some((_, i)), _) => self.leaves[i].1.dequeue(now, sink),
            (None, Some(at)) => Next::Wait(at),
            (None, None) => Next::Empty,
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        let leaves = &mut self.leaves;
        self.flushed.go_on(leaves.len(), portion, |at, portion| {
            leaves[at].1.flush(portion, sink);
        });
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        for (id, queue) in &self.leaves {
            out.class(*id, |out| queue.inspect(out));
        }
        self.interior.iter().for_each(|&id| out.class(id, |_| {}));
    }
}
