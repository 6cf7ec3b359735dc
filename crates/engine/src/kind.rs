//! A kind of discipline: its name, its settings, and how a checked plan of it is made.
//!
//! Text becomes a running queue in two steps that cannot be mixed up: `check` turns settings into a
//! [`Plan`] or reports every problem; `build` turns a plan into a discipline and cannot fail. A new
//! kind is one file under `disciplines/` with a `static KIND`, and one word in
//! `disciplines/mod.rs`.
//!
//! A kind outside this crate, in whole:
//!
//! ```
//! use engine::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
//! use engine::kind::{Check, Children, Kind, Properties};
//! use engine::link::Link;
//! use engine::packet::Packet;
//! use engine::portion::Portion;
//! use engine::tree::{DisciplineSpec, Registry};
//! use engine::units::{Bandwidth, Bytes, Instant};
//! use std::sync::Arc;
//!
//! engine::settings! {
//!     /// Settings of `lifo`.
//!     struct Settings {
//!         /// Packets queued at most
//!         limit: u32 = default "100", "too small: drops; too large: old packets", "an example";
//!     }
//! }
//!
//! /// Last in, first out.
//! #[derive(Debug)]
//! struct Lifo {
//!     packets: Vec<Packet>,
//!     limit: usize,
//! }
//!
//! impl Discipline for Lifo {
//!     fn enqueue(&mut self, _now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
//!         if self.packets.len() >= self.limit {
//!             sink.drop(packet, Reason::Full);
//!             return Verdict::Dropped(Reason::Full);
//!         }
//!         self.packets.push(packet);
//!         Verdict::Queued
//!     }
//!     fn dequeue(&mut self, _now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
//!         self.packets.pop().map_or(Next::Empty, Next::Ready)
//!     }
//!     fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
//!         portion.flush(sink, || self.packets.pop());
//!     }
//! }
//!
//! impl Plan for Settings {
//!     fn build(&self, _cx: &Build) -> Box<dyn Discipline> {
//!         Box::new(Lifo { packets: Vec::new(), limit: self.limit as usize })
//!     }
//! }
//!
//! fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
//!     Some(Arc::new(Settings::read(check.settings, &[], check.problems)?))
//! }
//!
//! static LIFO: Kind = Kind {
//!     name: "lifo",
//!     summary: "Last in, first out",
//!     reference: "an example",
//!     children: Children::None,
//!     settings: Settings::SETTINGS,
//!     class_settings: &[],
//!     properties: Properties::NONE,
//!     check,
//! };
//!
//! let registry = Registry::builtin().with(&LIFO);
//! let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514));
//! assert!(DisciplineSpec::new("lifo").check(&registry, link).is_ok());
//! ```

use crate::bounds::{ArrivalCurve, Bound, RateLatency, Terms, WorstCase};
use crate::class_name::ClassName;
use crate::discipline::Plan;
use crate::link::{Fact, Link};
use crate::packet::ClassId;
use crate::reservation::Reserves;
use crate::settings::{Problem, Setting, Span, Table};
use crate::spec::DisciplineSpec;
use std::ops::Range;
use std::sync::Arc;

/// Whether a kind has children, and which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Children {
    /// It queues packets itself.
    None,
    /// It manages one queue below it (RED over any other).
    One,
    /// It has classes, each leaf with a queue of its own; `nested` if classes can have classes.
    Classes {
        /// Whether a class may name a parent.
        nested: bool,
    },
}

/// A registered kind of discipline.
#[derive(Debug)]
pub struct Kind {
    /// The name in policies.
    pub name: &'static str,
    /// One sentence for lists.
    pub summary: &'static str,
    /// The paper or RFC.
    pub reference: &'static str,
    /// Its children.
    pub children: Children,
    /// Settings of the discipline.
    pub settings: &'static [Setting],
    /// Settings of each of its classes.
    pub class_settings: &'static [Setting],
    /// What others may rely on.
    pub properties: Properties,
    /// Checks settings and children; `None` if it reported a problem.
    pub check: fn(&mut Check<'_>) -> Option<Arc<dyn Plan>>,
}

impl Kind {
    /// The arrival curve of a class whose queue is of this kind, if that keeps packets in order.
    ///
    /// # Errors
    /// Why the class has no bound.
    pub fn arrivals_in_order(&self, class: ClassId, terms: &Terms<'_>) -> Result<ArrivalCurve, String> {
        let arrivals = terms.arrivals(class)?;
        match self.properties.keeps_order {
            true => Ok(arrivals),
            false => Err(format!(
                "its queue is a `{}`, which may let packets overtake others",
                self.name
            )),
        }
    }

    /// The bound of a class whose queue is of this kind and has this service.
    ///
    /// # Errors
    /// Why the class has no bound.
    pub fn worst(&self, class: ClassId, terms: &Terms<'_>, service: RateLatency) -> Result<Bound, String> {
        let arrivals = self.arrivals_in_order(class, terms)?;
        let more = || {
            format!(
                "its senders may send {}, more than it is guaranteed",
                arrivals.rate
            )
        };
        let bound = service.bound(arrivals).ok_or_else(more)?;
        Ok(Bound {
            shortest: terms.shortest,
            ..bound
        })
    }
}

impl DisciplineSpec {
    /// A discipline of this registered kind with no settings.
    pub fn of(kind: &Kind) -> Self {
        Self {
            kind: kind.name.into(),
            ..Self::default()
        }
    }
}

/// What others may rely on of a kind. Code that needs to know asks for a property, never for a
/// kind's name.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Packets that leave do so in the order in which they came, whatever is below it.
    pub keeps_order: bool,
    /// Work-conserving: it never waits with a backlog.
    pub conserves_work: bool,
    /// Its bounds, and what reservations get in it, follow from the rate at which packets are taken
    /// from it, and from nothing settled for another rate.
    pub follows_any_rate: bool,
    /// The bound of a class holds whatever the senders of other classes do.
    pub isolates: bool,
    /// It passes packets on at once: delays below it are as if it were not there.
    pub adds_no_delay: bool,
    /// Its classes state their senders' arrival curves and the delay they need, by settings of
    /// their own; it admits them as if it had the whole link.
    pub guarantees_delays: bool,
    /// The queues of its classes are as long as was computed or meant: where a policy names no
    /// discipline for them, they stay plain.
    pub needs_plain_queues: bool,
    /// It holds packets back, and drops none: reservations may get classes in the queue below it.
    pub only_delays: bool,
    /// A queue of this kind takes over what another one knows
    /// ([`Discipline::take_over`](crate::discipline::Discipline::take_over)), or knows nothing.
    pub takes_over: bool,
    /// Its classes go on where those of another tree leave off
    /// ([`Discipline::take_over_class`](crate::discipline::Discipline::take_over_class)), or take
    /// no turns.
    pub keeps_turns: bool,
    /// Its leaves may be vacant places, which other classes take over while it runs.
    pub vacancies: bool,
    /// How reservations get classes in it, if they can.
    pub reserves: Option<&'static dyn Reserves>,
    /// Settings that repeated a fact of the link, and are still read for one release: key and fact.
    pub former: &'static [(&'static str, Fact)],
    /// What other programs call it, or what comes nearest to it: for a message that helps.
    pub elsewhere: &'static [&'static str],
}

impl Properties {
    /// No property: what a kind begins with.
    pub const NONE: Self = Self {
        keeps_order: false,
        conserves_work: false,
        follows_any_rate: false,
        isolates: false,
        adds_no_delay: false,
        guarantees_delays: false,
        needs_plain_queues: false,
        only_delays: false,
        takes_over: false,
        keeps_turns: false,
        vacancies: false,
        reserves: None,
        former: &[],
        elsewhere: &[],
    };
}

/// A plan with its kind: what becomes a [`Queue`](crate::queue::Queue).
#[derive(Clone, Debug)]
pub struct QueuePlan {
    /// The kind.
    pub kind: &'static Kind,
    /// Its plan.
    pub plan: Arc<dyn Plan>,
}

impl QueuePlan {
    /// Whether it never waits with a backlog.
    pub fn conserves_work(&self) -> bool {
        self.kind.properties.conserves_work || self.plan.conserves_work()
    }

    /// The worst cases of the classes in this queue, which is that of the class of this name.
    /// `service`: what that class is guaranteed from any time at which it has a backlog, or why
    /// there is nothing.
    pub fn bounds_inside(
        &self,
        class: &str,
        terms: &Terms<'_>,
        service: Result<RateLatency, String>,
    ) -> Vec<WorstCase> {
        if self.kind.children == Children::None {
            return Vec::new();
        }
        let kind = self.kind.name;
        let guaranteed = || format!("nothing is guaranteed to `{class}`, in whose queue it is");
        let within = match service {
            Err(why) => Err(why),
            Ok(_) if !self.conserves_work() => Err(format!(
                "the `{kind}` in `{class}` may hold packets back, and lose its turn by it"
            )),
            Ok(_) if !self.kind.properties.follows_any_rate => Err(format!(
                "what `{kind}` guarantees assumes the whole link, and `{class}` above it gets less"
            )),
            Ok(service) => service.inside(terms).ok_or_else(guaranteed),
        };
        let mut cases = self.plan.bounds(within.as_ref().unwrap_or(terms));
        if let Err(why) = within {
            cases.iter_mut().for_each(|case| case.bound = Err(why.clone()));
        }
        cases.retain(|case| case.class.is_some());
        cases
    }
}

/// One class, as its parent's `check` sees it.
#[derive(Clone, Debug)]
pub struct CheckedClass<'a> {
    /// Its number in the tree.
    pub id: ClassId,
    /// Its name.
    pub name: &'a ClassName,
    /// Where it stands in the policy.
    pub at: Span,
    /// Its parent class, by index in the same list, which comes earlier; `None` at the top.
    pub parent: Option<usize>,
    /// Whether it is only a place for a class that may come: it has no settings, and gets nothing.
    pub vacant: bool,
    /// Its settings, the generic ones left out.
    pub settings: &'a Table,
    /// Its queue; `None` if and only if it has child classes.
    pub queue: Option<QueuePlan>,
    /// Classes whose packets go to this queue: itself, those of a classful discipline in it, and,
    /// if it is the default class, the outer classes whose queue the discipline is. Empty if it
    /// has child classes.
    pub routes: Vec<ClassId>,
    /// The numbers of the classes in its queue, those with child classes too.
    pub inside: Range<u32>,
}

impl CheckedClass<'_> {
    /// The same class with other settings.
    pub(crate) fn with_settings<'b>(&'b self, settings: &'b Table) -> CheckedClass<'b> {
        CheckedClass {
            settings,
            ..self.clone()
        }
    }
}

/// What `check` works on.
#[derive(Debug)]
pub struct Check<'a> {
    /// The link.
    pub link: Link,
    /// The discipline's settings.
    pub settings: &'a Table,
    /// The plan below, for [`Children::One`].
    pub child: Option<QueuePlan>,
    /// The classes, for [`Children::Classes`]; parents before children.
    pub classes: Vec<CheckedClass<'a>>,
    /// Where problems go.
    pub problems: &'a mut Vec<Problem>,
    /// Where notices go: what is legal and may surprise.
    pub notices: &'a mut Vec<Problem>,
}

impl Check<'_> {
    /// Adds what is wrong with settings, each by its name.
    pub(crate) fn refuse(&mut self, wrong: Vec<(&str, String)>) {
        let at = |(key, message)| Problem::new(self.settings.place(key), message);
        self.problems.extend(wrong.into_iter().map(at));
    }
}

/// Which child of a classful discipline takes which class's packets. Lookup is one array access.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassRoutes {
    child_of: Vec<u32>,
    /// Classes from this one on, and how many, that map to the children 0, 1, 2 and so on: no table
    /// has to be read for them.
    straight: (u32, u32),
}

const NOWHERE: u32 = u32::MAX;

impl ClassRoutes {
    /// Sends packets of `class` to `child`.
    pub fn add(&mut self, class: ClassId, child: u32) {
        let index = class.0 as usize;
        if self.child_of.len() <= index {
            self.child_of.resize(index + 1, NOWHERE);
        }
        self.child_of[index] = child;
        if self.straight.1 == 0 && child == 0 {
            self.straight = (class.0, 1);
        }
        let (first, many) = &mut self.straight;
        match class.0.checked_sub(*first) {
            Some(nth) if nth < *many && nth != child => *many = nth,
            Some(nth) if nth == *many && nth == child => *many += 1,
            _ => {}
        }
    }

    /// The child for packets of this class; none for a class of another tree. The tree has
    /// resolved the default class: a discipline does not.
    #[inline]
    pub fn child(&self, class: ClassId) -> Option<usize> {
        let nth = class.0.wrapping_sub(self.straight.0);
        if nth < self.straight.1 {
            return Some(nth as usize);
        }
        match self.child_of.get(class.0 as usize) {
            Some(&child) if child != NOWHERE => Some(child as usize),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Registry;
    use crate::units::{Bandwidth, Bytes};

    #[test]
    fn classes_in_a_row_are_routed_to_children_in_a_row_and_others_by_a_table() {
        let mut routes = ClassRoutes::default();
        for (class, child) in [(3, 0), (4, 1), (5, 2), (9, 1)] {
            routes.add(ClassId(class), child);
        }
        let all = |routes: &ClassRoutes| [2, 3, 4, 5, 6, 9, 10].map(|class| routes.child(ClassId(class)));
        let expected = [None, Some(0), Some(1), Some(2), None, Some(1), None];
        assert_eq!((all(&routes), routes.straight), (expected, (3, 3)));
        routes.add(ClassId(4), 7);
        let expected = [None, Some(0), Some(7), Some(2), None, Some(1), None];
        assert_eq!((all(&routes), routes.straight), (expected, (3, 1)));
        routes.add(ClassId(4), 1);
        assert_eq!((routes.child(ClassId(4)), routes.straight), (Some(1), (3, 2)));
        routes.add(ClassId(3), 5);
        assert_eq!((routes.child(ClassId(3)), routes.straight.1), (Some(5), 0));
        routes.add(ClassId(10), 0);
        assert_eq!((routes.child(ClassId(10)), routes.straight), (Some(0), (10, 1)));
        assert_eq!(ClassRoutes::default().child(ClassId(0)), None);
    }

    fn link() -> Link {
        Link::new(Bandwidth::mbit(10), Bytes::new(1_500))
    }

    fn terms(arrivals: &[Option<ArrivalCurve>]) -> Terms<'_> {
        Terms {
            link: link(),
            longest: Bytes::new(1_500),
            arrivals,
            ahead: Bytes::new(1_500),
            grain: Bytes::ZERO,
            shortest: Bytes::new(99),
        }
    }

    #[test]
    fn a_bound_is_for_senders_that_are_known_in_a_queue_that_keeps_order() {
        let registry = Registry::builtin();
        let of = |order: bool| {
            let mut kinds = registry.kinds();
            kinds
                .find(|kind| kind.properties.keeps_order == order)
                .expect("there is one")
        };
        let curve = ArrivalCurve {
            rate: Bandwidth::mbit(1),
            burst: Bytes::new(1_500),
        };
        let arrivals = [Some(curve), None];
        let terms = terms(&arrivals);
        assert_eq!(of(true).arrivals_in_order(ClassId(0), &terms), Ok(curve));
        assert!(of(true).arrivals_in_order(ClassId(1), &terms).is_err());
        let why = of(false)
            .arrivals_in_order(ClassId(0), &terms)
            .expect_err("no order");
        assert!(why.ends_with("which may let packets overtake others"), "{why}");
        let worst = |mbit| {
            let service = RateLatency::after(1_500, Bandwidth::mbit(mbit));
            let bound = of(true).worst(ClassId(0), &terms, service)?;
            Ok::<_, String>((bound.delay.nanos(), bound.shortest))
        };
        assert_eq!(worst(1), Ok((24_000_000, Bytes::new(99))));
        let why = worst(0).expect_err("nothing is guaranteed");
        assert_eq!(why, "its senders may send 1 Mbit/s, more than it is guaranteed");
    }

    fn plan(spec: &DisciplineSpec) -> QueuePlan {
        spec.check(&Registry::builtin(), link())
            .expect("a good queue")
            .root
    }

    #[test]
    fn classes_in_a_queue_have_no_bound_where_that_may_wait_or_nothing_is_guaranteed() {
        let class = crate::spec::ClassSpec {
            name: "in".into(),
            default: true,
            ..Default::default()
        };
        let drr = DisciplineSpec {
            classes: vec![class].into(),
            ..DisciplineSpec::new("drr")
        };
        let shaped = DisciplineSpec {
            settings: Table::default().text("rate", "1 Mbit/s"),
            child: Some(Box::new(drr.clone())),
            ..DisciplineSpec::new("tbf")
        };
        let service = || Ok(RateLatency::after(0, Bandwidth::mbit(5)));
        let terms = terms(&[]);
        assert_eq!(
            plan(&DisciplineSpec::new("fifo")).bounds_inside("a", &terms, service()),
            []
        );
        assert!(plan(&drr).conserves_work() && !plan(&shaped).conserves_work());
        for (spec, service, why) in [
            (&drr, Err("for a reason".into()), "for a reason"),
            (
                &shaped,
                service(),
                "the `tbf` in `a` may hold packets back, and lose its turn by it",
            ),
            (
                &drr,
                Ok(RateLatency::after(0, Bandwidth::ZERO)),
                "nothing is guaranteed to `a`, in whose queue it is",
            ),
        ] {
            let cases = plan(spec).bounds_inside("a", &terms, service);
            assert!(
                cases.iter().all(|case| case.bound == Err(why.into())),
                "{cases:?}"
            );
        }
    }
}
