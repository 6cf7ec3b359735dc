//! `hfsc`: hierarchical fair service curves: delay and rate guaranteed independently, and the
//! excess shared by a tree.
//!
//! Follows Stoica, Zhang and Ng, "A hierarchical fair service curve algorithm for link-sharing,
//! real-time and priority services", SIGCOMM 1997 and IEEE/ACM Transactions on Networking 8(2),
//! 2000; the upper limit is ALTQ's addition. Curves have two pieces, see
//! `sharing/service_curve.rs`. Two rules choose a packet:
//!
//! - **Real time**, for leaves with a real-time curve. With *c* the service a leaf received by this
//!   rule, *D* its deadline curve and *E* its eligible curve: its next packet, of length *l*, is
//!   eligible from *e* = E⁻¹(*c*) on and has the deadline *d* = D⁻¹(*c* + *l*). Of the eligible
//!   packets the one with the earliest deadline leaves. When a leaf becomes backlogged at *t*, *D*
//!   becomes the minimum of itself and of the real-time curve from (*t*, *c*) on.
//! - **Link sharing**, when none is eligible: from the root down the child with the least virtual
//!   time *v* = V⁻¹(*w*), with *w* its total service and *V* its virtual curve, which restarts with
//!   each backlogged period like *D*.
//!
//! If the real-time curves add up to no more than the link can do at any time, which is checked, no
//! deadline is missed by more than the time of one longest packet. So a leaf gets its curve, less
//! one packet, and a class with a small rate can have a short delay.
//!
//! An **upper limit** blocks link sharing: a class waits until *f* = U⁻¹(*w*). Real-time packets go
//! all the same and count; the curves of leaves may not exceed the limit of a class above them,
//! which is checked too.
//!
//! Nothing is scanned (ALTQ: sorted lists; Linux: trees, with a walk over children that do not
//! fit): eligible times and fit times are timers; eligible leaves are in a heap by deadline; the
//! children of a class that fit are in a winner tree by virtual time, and a class that has none is
//! out of its own parent's tree.
//!
//! Departures:
//! 1. A child that becomes active starts at the virtual time of the child served last, not between
//!    the least and the largest. The difference of two children is then bounded by a packet of each
//!    for lines, as in start-time fair queueing.
//! 2. A class that its limit blocked moves to its parent's virtual time when it may go on (ALTQ:
//!    "vt adjust"): what the limit took is not caught up with.
//! 3. A class below its limit for other reasons may catch up by `limit_burst`, not by all it did
//!    not use while backlogged.
//! 4. A convex curve that restarts keeps no more of the old one than others can bear (ALTQ keeps it
//!    more often, and deadlines are missed by it). See `sharing/service_curve.rs` and
//!    `docs/decisions/hfsc.md`.
//! 5. Times are rounded up to whole nanoseconds from exact sums, not at each packet.

mod inspection;
mod succession;

use crate::bounds::{ArrivalCurve, Bound, RateLatency, Terms, WorstCase};
use crate::discipline::{
    Build, BuiltQueue, ChangedClass, DetachedQueue, Discipline, Next, Plan, Sink, Verdict,
};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, CheckedClass, Children, Kind, Properties, QueuePlan};
use crate::packet::{ClassId, Packet};
use crate::portion::{Portion, Tour};
use crate::prefetch::Prefetched;
use crate::settings;
use crate::settings::{Problem, Span, Table};
use crate::sharing::by_rates::ByRates;
use crate::sharing::class_numbers::ClassNumbers;
use crate::sharing::credit::nanobits;
use crate::sharing::leaves::{Leaves, LeavesPlan};
use crate::sharing::service_curve::{Curve, CurveSum, LONGEST_PIECE, ServiceCurve, Slopes};
use crate::structures::fronted_heap::FrontedHeap;
use crate::structures::shared_list::SharedList;
use crate::structures::timers::Timers;
use crate::structures::winner_tree::WinnerTrees;
use crate::units::{Bandwidth, Bytes, Duration, Instant};
use std::any::Any;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "hfsc",
    summary: "Hierarchical fair service curves: guaranteed delay and rate decoupled, the excess shared by a tree",
    reference: "Stoica, Zhang and Ng, \"A hierarchical fair service curve algorithm\", SIGCOMM 1997; ToN 8(2), 2000",
    children: Children::Classes { nested: true },
    settings: Settings::SETTINGS,
    class_settings: ClassSettings::SETTINGS,
    properties: Properties {
        vacancies: true,
        keeps_turns: true,
        reserves: Some(&ByRates {
            leaf: "realtime",
            parent: "linkshare",
            credits: false,
        }),
        isolates: true,
        elsewhere: &["htb"],
        ..Properties::NONE
    },
    check,
};

settings! {
    /// Settings of `hfsc`.
    pub struct Settings {
        /// How far a class that is below its upper limit may catch up with it
        limit_burst: Duration = default "5 ms",
            "too small: a class whose turn comes late stays below its limit; too large: bursts above it",
            "as the catch-up of a link";
    }
}

settings! {
    /// Settings of a class of `hfsc`.
    pub struct ClassSettings {
        /// What a leaf is guaranteed, whatever the others do
        realtime: ServiceCurve = derived "nothing is guaranteed",
            "all of them together must fit the link at any time; a steep first piece gives a short delay",
            "Stoica, Zhang and Ng, the real-time criterion";
        /// Its share of the excess, against the other classes of its parent
        linkshare: ServiceCurve = derived "as `realtime`",
            "only the ratio to the others counts",
            "Stoica, Zhang and Ng, the link-sharing criterion";
        /// The most it gets
        upperlimit: ServiceCurve = derived "no limit",
            "too small: the link idles with a backlog",
            "ALTQ";
    }
}

/// A class's curves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Curves {
    real: Option<Slopes>,
    share: Slopes,
    limit: Option<Slopes>,
}

/// A class as checked.
#[derive(Clone, Debug)]
struct ClassPlan {
    id: ClassId,
    parent: u32,
    curves: Curves,
}

#[derive(Clone, Debug)]
struct HfscPlan {
    catch_up: u64,
    /// Leaves first; then the others, parents before their children. The link has the number after
    /// the last.
    classes: SharedList<ClassPlan>,
    /// Of those that are not leaves, and the link: the sum of the real-time curves below, if it has
    /// a limit.
    sums: SharedList<Option<CurveSum>>,
    numbers: ClassNumbers,
    leaves: LeavesPlan,
}

/// The link as a curve.
fn curve_of(link: Bandwidth) -> Slopes {
    let bits = link.bits();
    Slopes {
        m1: bits,
        d: 0,
        m2: bits,
    }
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let before = check.problems.len();
    let settings = Settings::read(check.settings, &[], check.problems);
    let read: Vec<Option<ClassSettings>> = check
        .classes
        .iter()
        .map(|class| ClassSettings::read(class.settings, &[], check.problems))
        .collect();
    let (settings, read) = (settings?, read.into_iter().collect::<Option<Vec<_>>>()?);
    let link = check.link.bandwidth;
    let curves = |(class, settings): (&CheckedClass<'_>, &ClassSettings)| {
        if class.vacant {
            return Some(VACANT);
        }
        let class = Asking {
            name: class.name,
            settings: class.settings,
            at: class.at,
            is_leaf: class.queue.is_some(),
        };
        check_class(&class, settings, link, check.problems)
    };
    let curves: Vec<Option<Curves>> = check.classes.iter().zip(&read).map(curves).collect();
    let curves: Vec<Curves> = curves.into_iter().collect::<Option<_>>()?;
    let sums = check_sums(check, &curves);
    if check.problems.len() > before {
        return None;
    }
    let is_leaf = |index: &usize| check.classes[*index].queue.is_some();
    let count = curves.len();
    let order: Vec<usize> = (0..count)
        .filter(is_leaf)
        .chain((0..count).filter(|index| !is_leaf(index)))
        .collect();
    let mut numbers = vec![count as u32; count + 1];
    order
        .iter()
        .enumerate()
        .for_each(|(number, &index)| numbers[index] = number as u32);
    let class = |&index: &usize| {
        let class = &check.classes[index];
        ClassPlan {
            id: class.id,
            parent: numbers[class.parent.unwrap_or(count)],
            curves: curves[index],
        }
    };
    let classes = order.iter().map(class).collect();
    let leaves = (0..count).filter(is_leaf).count();
    let sums = order[leaves..]
        .iter()
        .chain([&count])
        .map(|&index| sums[index].clone());
    Some(Arc::new(HfscPlan {
        catch_up: settings.limit_burst.nanos(),
        classes,
        sums: sums.collect(),
        numbers: ClassNumbers::new(check, |index| numbers[index]),
        leaves: LeavesPlan::new(check),
    }))
}

/// The curves of a place for a class: a place has no packets to share anything for.
const VACANT: Curves = Curves {
    real: None,
    share: Slopes { m1: 1, d: 0, m2: 1 },
    limit: None,
};

/// A class whose curves are read.
struct Asking<'a> {
    name: &'a str,
    settings: &'a Table,
    at: Span,
    is_leaf: bool,
}

/// The slopes of a class; none if a problem was reported.
fn check_class(
    class: &Asking<'_>,
    settings: &ClassSettings,
    link: Bandwidth,
    problems: &mut Vec<Problem>,
) -> Option<Curves> {
    let at = |key: &str| class.settings.get(key).map_or(class.at, |entry| entry.at);
    let on = |curve: Option<ServiceCurve>| curve.map(|curve| curve.on(link));
    let (real, share, limit) = (
        on(settings.realtime),
        on(settings.linkshare),
        on(settings.upperlimit),
    );
    let mut wrong = Vec::new();
    for (key, curve) in [("realtime", real), ("linkshare", share), ("upperlimit", limit)] {
        if curve.is_some_and(|curve| curve.m2 == 0) {
            wrong.push(Problem::new(
                at(key),
                format!("`{key}` must end with a rate of more than 0"),
            ));
        }
        if curve.is_some_and(|curve| u128::from(curve.m1) * u128::from(curve.d) > LONGEST_PIECE) {
            wrong.push(Problem::new(
                at(key),
                format!("the first piece of `{key}` brings more than 500 MB"),
            ));
        }
    }
    if !class.is_leaf && real.is_some() {
        let message = format!(
            "class `{}` has child classes, so it has no packets of its own to guarantee service to",
            class.name
        );
        wrong.push(
            Problem::new(at("realtime"), message)
                .help("give `realtime` to its leaves, and `linkshare` to it"),
        );
    }
    let share = share.or(real);
    if share.is_none() {
        let message = format!("class `{}` has no curve", class.name);
        wrong.push(
            Problem::new(class.at, message).help("give it a `linkshare`, or if it is a leaf a `realtime`"),
        );
    }
    let good = wrong.is_empty();
    problems.extend(wrong);
    share.filter(|_| good).map(|share| Curves { real, share, limit })
}

/// The real-time curves fit the link, and the upper limit of each class above them. Their sum below
/// each class with a limit, and last below the link.
fn check_sums(check: &mut Check<'_>, curves: &[Curves]) -> Vec<Option<CurveSum>> {
    let link = curve_of(check.link.bandwidth);
    let limited = |curves: &Curves| curves.limit.map(|_| CurveSum::default());
    let mut below: Vec<Option<CurveSum>> = curves.iter().map(limited).collect();
    let mut whole = CurveSum::default();
    let mut last = None;
    for (index, real) in curves
        .iter()
        .enumerate()
        .filter_map(|(index, curves)| Some((index, curves.real?)))
    {
        last = Some(index);
        let mut at = Some(index);
        while let Some(here) = at {
            if let Some(below) = &mut below[here] {
                below.add(&real);
            }
            at = check.classes[here].parent;
        }
        whole.add(&real);
    }
    let when = |time: Option<u64>| match time {
        Some(time) => format!("by {} they guarantee more", Duration::from_nanos(time)),
        None => "in the long run they guarantee more".into(),
    };
    if let (Some(time), Some(last)) = (whole.exceeds(&link), last) {
        let class = &check.classes[last];
        let at = class.settings.get("realtime").map_or(class.at, |entry| entry.at);
        let sum = Bandwidth::bits_per_sec(u64::try_from(whole.rate()).unwrap_or(u64::MAX));
        let message = format!(
            "the real-time curves do not fit the link ({}): {}",
            check.link.bandwidth,
            when(time)
        );
        let help = format!("their rates add up to {sum}; lower a rate, or a first piece");
        check.problems.push(Problem::new(at, message).help(help));
    }
    for (index, (curves, below)) in curves.iter().zip(&below).enumerate() {
        let (Some(limit), Some(below)) = (curves.limit, below) else {
            continue;
        };
        if let Some(time) = below.exceeds(&limit) {
            let class = &check.classes[index];
            let at = class
                .settings
                .get("upperlimit")
                .map_or(class.at, |entry| entry.at);
            let message = format!(
                "the real-time curves of `{}` do not fit its upper limit: {}",
                class.name,
                when(time)
            );
            check
                .problems
                .push(Problem::new(at, message).help("raise the limit, or lower a real-time curve"));
        }
    }
    below.push(Some(whole));
    below
}

/// The bound of a leaf with a concave real-time curve *S* (or a line), for senders with an arrival
/// curve of σ and a ρ that *S* has in the long run: from a packet's arrival to its deadline it is
/// at most S⁻¹(σ), where a burst begins; no deadline is missed by more than what is in the device,
/// the packet on the wire at least. A convex curve that restarts may have to give up some of what
/// it had, so none is stated.
fn worst(real: Option<Slopes>, arrivals: ArrivalCurve, terms: &Terms<'_>) -> Result<Bound, String> {
    let real = guaranteed(real)?;
    if arrivals.rate.bits() > real.m2 || real.m2 == 0 {
        return Err(format!(
            "its senders may send {}, more than its real-time curve guarantees",
            arrivals.rate
        ));
    }
    let burst = u128::from(arrivals.burst.get()) * 8_000_000_000;
    let first = u128::from(real.m1) * u128::from(real.d);
    let wait = match burst.checked_sub(first) {
        None => burst.div_ceil(real.m1.into()),
        Some(rest) => u128::from(real.d) + rest.div_ceil(real.m2.into()),
    };
    // Deadlines and sums of curves are rounded to a nanosecond each.
    let device = terms.link.bandwidth.time_to_send(terms.ahead) + Duration::from_nanos(2);
    let wait = Duration::from_nanos(u64::try_from(wait).map_err(|_| "the time does not fit")?);
    let meanwhile = arrivals.rate.bytes_in(device) + Bytes::new(1);
    Ok(Bound {
        delay: wait + device,
        backlog: arrivals.burst + meanwhile + terms.longest,
        arrivals: Some(arrivals),
        shortest: terms.shortest,
    })
}

/// What a leaf is guaranteed from any time *s* at which it has a backlog, as long as that lasts.
/// Its real-time service is ahead of its deadline curve by at most the packet that was eligible
/// last, and that curve rises at least by its last slope *m*. So the deadline of a packet up to
/// which *a* bytes are sent after *s* is at most (*a* + *Max*) / *m* after it, and is missed by no
/// more than what is in the device. What link sharing gives comes on top.
fn from_any_time(real: Option<Slopes>, terms: &Terms<'_>) -> Result<RateLatency, String> {
    let real = guaranteed(real)?;
    let bandwidth = Bandwidth::bits_per_sec(real.m2);
    let device = terms.link.bandwidth.time_to_send(terms.ahead) + Duration::from_nanos(2);
    let before = terms.longest + bandwidth.bytes_in(device) + Bytes::new(1);
    Ok(RateLatency::after(before.get().into(), bandwidth))
}

/// A real-time curve that guarantees something from any time on.
fn guaranteed(real: Option<Slopes>) -> Result<Slopes, String> {
    let real = real.ok_or("it has no real-time curve, so nothing is guaranteed")?;
    match real.m1 < real.m2 && real.d > 0 {
        true => Err("its real-time curve is convex, and one that starts again may have to give up some of what it had; a \
                     concave curve or a line has a bound".into()),
        false => Ok(real),
    }
}

impl HfscPlan {
    /// Whether the real-time curves still fit when a class has these curves in place of the former;
    /// the sums above it follow. `None` if there is no sum yet.
    fn fits(&mut self, node: usize, old: Curves, link: Bandwidth) -> Option<bool> {
        let (new, leaves) = (self.classes[node].curves, self.leaves.len());
        if node >= leaves {
            let sum = &mut self.sums[node - leaves];
            let Some(limit) = new.limit else {
                *sum = None;
                return Some(true);
            };
            return Some(sum.as_ref()?.exceeds(&limit).is_none());
        }
        let alone = |(real, limit): (Slopes, Slopes)| {
            let mut sum = CurveSum::default();
            sum.add(&real);
            sum.exceeds(&limit).is_none()
        };
        let mut fits = new.real.zip(new.limit).is_none_or(alone);
        let mut next = (old.real != new.real).then(|| self.classes[node].parent as usize);
        while let Some(above) = next {
            let class = self.classes.get(above);
            let limit = class.map_or(Some(curve_of(link)), |class| class.curves.limit);
            next = class.map(|class| class.parent as usize);
            if let (Some(limit), Some(sum)) = (limit, &mut self.sums[above - leaves]) {
                old.real.iter().for_each(|curve| sum.remove(curve));
                new.real.iter().for_each(|curve| sum.add(curve));
                fits &= sum.exceeds(&limit).is_none();
            }
        }
        Some(fits)
    }
}

fn plan_of(plan: &dyn Plan) -> Option<&HfscPlan> {
    let plan: &dyn Any = plan;
    plan.downcast_ref()
}

/// The worst cases of a leaf with this real-time curve, and of the classes in its queue.
fn cases(
    (class, name, queue): (ClassId, &str, &QueuePlan),
    real: Option<Slopes>,
    terms: &Terms<'_>,
) -> impl Iterator<Item = WorstCase> {
    let arrivals = queue.kind.arrivals_in_order(class, terms);
    let own = WorstCase {
        class: Some(class),
        bound: arrivals.and_then(|arrivals| worst(real, arrivals, terms)),
    };
    let service = from_any_time(real, terms);
    std::iter::once(own).chain(queue.bounds_inside(name, terms, service))
}

impl Plan for HfscPlan {
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        let classes = self.leaves.each().zip(self.classes.iter());
        let case = |(leaf, plan): (_, &ClassPlan)| cases(leaf, plan.curves.real, terms);
        classes.flat_map(case).collect()
    }

    /// By its own curve alone.
    fn bounds_of(&self, class: ClassId, terms: &Terms<'_>) -> Option<Vec<WorstCase>> {
        let Some(leaf) = self.leaves.leaf_of(class) else {
            return Some(Vec::new());
        };
        let real = self.classes.get(leaf)?.curves.real;
        Some(cases(self.leaves.nth(leaf)?, real, terms).collect())
    }

    fn serves(&self, class: Option<ClassId>, link: Bandwidth) -> Option<Bandwidth> {
        self.leaves.serves(class, link, |leaf| {
            let real = self.classes.get(leaf)?.curves.real?;
            Some(Bandwidth::bits_per_sec(real.m2))
        })
    }

    fn amended(&self, change: &ChangedClass<'_>) -> Option<Arc<dyn Plan>> {
        let node = self.numbers.own(change.class.0)?;
        let mut problems = Vec::new();
        let settings = ClassSettings::read(change.settings, &[], &mut problems)?;
        let class = Asking {
            name: "",
            settings: change.settings,
            at: Span::default(),
            is_leaf: node < self.leaves.len(),
        };
        let new = match change.renewed {
            Some(new) if new.vacant => VACANT,
            _ => check_class(&class, &settings, change.link.bandwidth, &mut problems)?,
        };
        let mut plan = self.clone();
        if let Some(new) = &change.renewed {
            plan.leaves = self.leaves.renewed(node, new)?;
        }
        let curves = &mut plan.classes.get_mut(node)?.curves;
        let old = std::mem::replace(curves, new);
        let fits = plan.fits(node, old, change.link.bandwidth)?;
        (fits && problems.is_empty()).then(|| Arc::new(plan) as Arc<dyn Plan>)
    }

    fn changed_classes(&self, former: &dyn Plan, queues: bool) -> Option<Vec<ClassId>> {
        let former = plan_of(former)?;
        let alike = self.classes.len() == former.classes.len() && self.leaves.is_numbered_as(&former.leaves);
        let shape = |class: &ClassPlan| (class.id, class.parent);
        let pairs = || self.classes.iter().zip(&former.classes);
        if !alike || pairs().any(|(new, old)| shape(new) != shape(old)) {
            return None;
        }
        // Leaves come first.
        let all = pairs().enumerate();
        let queues = |node: usize| queues && node < self.leaves.len();
        let changed = all.filter(|(node, (new, old))| queues(*node) || new.curves != old.curves);
        Some(changed.map(|(_, (new, _))| new.id).collect())
    }

    fn settings_of(&self, class: ClassId) -> Vec<(&'static str, Value)> {
        let class = self.numbers.own(class.0).and_then(|node| self.classes.get(node));
        class
            .map(|class| inspection::shown(class.curves).collect())
            .unwrap_or_default()
    }

    fn build_class(&self, class: ClassId, cx: &Build) -> Option<BuiltQueue> {
        self.leaves.build_class(class, cx)
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let (link, leaves) = (self.classes.len(), self.leaves.len());
        let curve = |shape: Option<Slopes>| shape.map(|shape| Curve::new(shape, 0));
        Box::new(Hfsc {
            leaves: self.leaves.build(cx),
            nodes: self.classes.iter().map(Node::new).collect(),
            clocks: vec![Clock::default(); link + 1 - leaves],
            limits: self
                .classes
                .iter()
                .map(|class| Limit(curve(class.curves.limit)))
                .collect(),
            reals: self
                .classes
                .iter()
                .take(leaves)
                .map(|class| curve(class.curves.real).map(Real::new))
                .collect(),
            shares: WinnerTrees::new(
                self.classes.iter().map(|class| class.parent as usize - leaves),
                link + 1 - leaves,
            ),
            deadlines: FrontedHeap::new(leaves),
            timers: Timers::new(leaves + link),
            catch_up: self.catch_up,
            classes: self.classes.iter().cloned().collect(),
            numbers: self.numbers.clone(),
            flushed: Tour::default(),
            awaits: false,
        })
    }
}

/// It is backlogged, so it takes part in its parent's sharing.
const BUSY: u8 = 1;
/// Its upper limit blocks it: its timer is set.
const BLOCKED: u8 = 2;
/// It has an upper limit.
const LIMITED: u8 = 4;
/// It has a real-time curve.
const REAL: u8 = 8;
/// Its next packet's deadline is known, and its timer is set for when that becomes eligible.
const EARLY: u8 = 16;

/// It was backlogged in the tree that this one takes the place of, and its packets follow.
const RETURNS: u8 = 32;

/// A class, in one cache line: with many classes, cost is lines touched.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Node {
    share: Curve,
    parent: u32,
    flags: u8,
}

impl Node {
    fn new(class: &ClassPlan) -> Self {
        let mut node = Self {
            share: Curve::new(class.curves.share, 0),
            parent: class.parent,
            flags: 0,
        };
        node.mark(LIMITED, class.curves.limit.is_some());
        node.mark(REAL, class.curves.real.is_some());
        node
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    fn mark(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }
}

/// The virtual times of the children of an interior class, or of the link.
#[derive(Clone, Copy, Default, Debug)]
struct Clock {
    /// That of the child served last, and the largest that a child had.
    now: u128,
    latest: u128,
    /// Backlogged children.
    busy: u32,
}

/// A class's upper limit, in one cache line like its node.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Limit(Option<Curve>);

/// A leaf's real-time curve, and its next packet's times.
#[derive(Clone, Debug)]
struct Real {
    curve: Curve,
    eligible: u64,
    deadline: u64,
    tally: Tally,
}

impl Real {
    fn new(curve: Curve) -> Self {
        Self {
            eligible: nanos(curve.eligible()),
            curve,
            deadline: 0,
            tally: Tally::default(),
        }
    }

    /// A backlogged period begins.
    fn restart(&mut self, now: u64) {
        self.curve.restart(now.into(), false);
        self.eligible = nanos(self.curve.eligible());
    }

    /// Sets the deadline of the next packet, which has so many nanobits.
    #[inline]
    fn expect(&mut self, bits: u64) {
        self.deadline = nanos(self.curve.time_of(bits.into()));
    }

    /// The packet with this deadline, which is pinned until then, has been served at this time, and
    /// its host held it up for so long.
    #[inline]
    fn served(&mut self, len: u64, bits: u64, now: u64, held_up: impl FnOnce() -> Duration) {
        self.curve.advance(bits);
        self.eligible = match self.curve.is_eligible_curve() {
            true => self.deadline,
            false => nanos(self.curve.eligible()),
        };
        self.tally.bytes += len;
        let late = now.saturating_sub(self.deadline);
        if late > self.tally.late {
            self.tally.later(late, held_up().nanos());
        }
    }
}

/// Counts of a leaf, human-readable.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    bytes: u64,
    /// The longest time after a deadline, less what the host held the packet up for.
    late: u64,
    /// The longest with that, of packets that were held up.
    held_up: u64,
}

impl Tally {
    /// A packet was later than any before it. A link that stands still for a time puts off what has
    /// the earliest deadline by no more than that.
    #[cold]
    fn later(&mut self, late: u64, held_up: u64) {
        self.late = self.late.max(late.saturating_sub(held_up));
        if held_up > 0 {
            self.held_up = self.held_up.max(late);
        }
    }
}

#[derive(Debug)]
struct Hfsc {
    leaves: Leaves,
    /// By number: a leaf's is that of its queue.
    nodes: Vec<Node>,
    /// By number, less the number of leaves.
    clocks: Vec<Clock>,
    limits: Vec<Limit>,
    reals: Vec<Option<Real>>,
    /// Of each interior class: its children that may share now, by virtual time.
    shares: WinnerTrees,
    /// The leaves whose packet is eligible.
    deadlines: FrontedHeap,
    /// Eligible times by leaf; after them fit times by number.
    timers: Timers,
    catch_up: u64,
    classes: Vec<ClassPlan>,
    numbers: ClassNumbers,
    /// How far a flush has come through the leaves.
    flushed: Tour,
    /// The packets of classes that [return](RETURNS) follow.
    awaits: bool,
}

fn nanos(time: u128) -> u64 {
    u64::try_from(time).unwrap_or(u64::MAX)
}

// Real time.
impl Hfsc {
    /// Peeks at a leaf's next packet, and sets its eligible time and its deadline. `false` if there
    /// is none.
    #[inline(always)]
    fn schedule(&mut self, leaf: usize, now: Instant, sink: &mut dyn Sink) -> bool {
        !self.nodes[leaf].has(REAL) || self.set_times(leaf, now, sink)
    }

    #[inline(never)]
    fn set_times(&mut self, leaf: usize, now: Instant, sink: &mut dyn Sink) -> bool {
        let Some(real) = &mut self.reals[leaf] else {
            return true;
        };
        let Some(len) = self.leaves.peek(leaf, now, sink) else {
            return false;
        };
        real.expect(nanobits(len.get()) as u64);
        debug_assert_eq!(real.eligible, nanos(real.curve.eligible()));
        let (eligible, deadline) = (real.eligible, real.deadline);
        let early = eligible > now.nanos();
        self.nodes[leaf].mark(EARLY, early);
        if early {
            self.timers.set(leaf as u32, Instant::from_nanos(eligible));
        } else {
            self.timers.cancel(leaf as u32);
            self.deadlines.push(leaf as u32, deadline);
        }
        true
    }

    /// A leaf becomes ready: a backlogged period begins. Its packet is peeked at later: that may
    /// drop it, and its sender has been told that it is queued.
    fn activate(&mut self, leaf: usize, now: Instant) {
        if self.nodes[leaf].has(REAL)
            && let Some(real) = &mut self.reals[leaf]
        {
            if !(self.awaits && self.nodes[leaf].has(RETURNS)) {
                real.restart(now.nanos());
            }
            self.timers.set(leaf as u32, now);
        }
        self.join(leaf, now.nanos());
    }

    /// A leaf's next packet is neither eligible nor going to be.
    fn forget_times(&mut self, leaf: usize) {
        if let Some(real) = &self.reals[leaf] {
            self.deadlines.remove(leaf as u32, real.deadline);
        }
        self.timers.cancel(leaf as u32);
    }

    /// A leaf is no longer ready.
    fn retire(&mut self, leaf: usize) {
        if self.nodes[leaf].has(REAL) {
            self.nodes[leaf].mark(EARLY, false);
            self.forget_times(leaf);
        }
        self.leave(leaf);
    }
}

// Link sharing.
impl Hfsc {
    fn link(&self) -> usize {
        self.nodes.len()
    }

    /// The index of the clock and the tree of an interior class, or of the link.
    #[inline]
    fn inner(&self, node: usize) -> usize {
        node - self.reals.len()
    }

    #[inline]
    fn is_leaf(&self, node: usize) -> bool {
        node < self.reals.len()
    }

    fn fit_timer(&self, node: usize) -> u32 {
        (self.reals.len() + node) as u32
    }

    /// A node becomes backlogged, and those above it that were not.
    fn join(&mut self, mut node: usize, now: u64) {
        let link = self.link();
        while node != link {
            let parent = self.nodes[node].parent as usize;
            let row = self.inner(parent);
            let clock = &mut self.clocks[row];
            let first = clock.busy == 0;
            clock.busy += 1;
            let this = &mut self.nodes[node];
            this.mark(BUSY, true);
            if !(self.awaits && this.has(RETURNS)) {
                if first {
                    // All are alike again: excess that one used alone is not charged to it.
                    clock.now = clock.now.max(clock.latest);
                }
                if this.share.time_of(0) < clock.now {
                    this.share.restart(clock.now, false);
                }
                if let Some(limit) = &mut self.limits[node].0 {
                    limit.restart(now.into(), true);
                }
            }
            this.mark(RETURNS, false);
            self.check_limit(node, now);
            self.list(node);
            if !first {
                return;
            }
            node = parent;
        }
    }

    /// A node is no longer backlogged, nor those above it without another backlogged child.
    fn leave(&mut self, mut node: usize) {
        let link = self.link();
        while node != link && self.nodes[node].has(BUSY) {
            self.unlist(node);
            if self.nodes[node].has(BLOCKED) {
                self.timers.cancel(self.fit_timer(node));
            }
            self.nodes[node].mark(BUSY | BLOCKED, false);
            let parent = self.nodes[node].parent as usize;
            let row = self.inner(parent);
            self.clocks[row].busy -= 1;
            if self.clocks[row].busy > 0 {
                return;
            }
            node = parent;
        }
    }

    /// Blocks a node until its upper limit lets it go on.
    #[inline]
    fn check_limit(&mut self, node: usize, now: u64) {
        if !self.nodes[node].has(LIMITED) {
            return;
        }
        let fit = self.limits[node]
            .0
            .as_ref()
            .map_or(0, |limit| nanos(limit.time_of(0)));
        if fit > now {
            self.nodes[node].mark(BLOCKED, true);
            self.timers.set(self.fit_timer(node), Instant::from_nanos(fit));
        }
    }

    /// Puts a node into its parent's tree if it may share, and those above it that had no child to
    /// serve.
    fn list(&mut self, mut node: usize) {
        let link = self.link();
        while node != link {
            let (flags, parent) = (self.nodes[node].flags, self.nodes[node].parent as usize);
            let gives = self.is_leaf(node) || !self.shares.is_empty(self.inner(node));
            if flags & (BUSY | BLOCKED) != BUSY || !gives || self.shares.holds(node as u32) {
                return;
            }
            let row = self.inner(parent);
            let share = &mut self.nodes[node].share;
            let (time, now) = (share.time_of(0), self.clocks[row].now);
            share.put_off(now.saturating_sub(time));
            let first = self.shares.is_empty(row);
            self.shares.set(row, node as u32, time.max(now));
            if !first {
                return;
            }
            node = parent;
        }
    }

    /// Takes a node out of its parent's tree, and those above it that have no child to serve then.
    fn unlist(&mut self, mut node: usize) {
        let link = self.link();
        while node != link && self.shares.holds(node as u32) {
            let parent = self.nodes[node].parent as usize;
            let row = self.inner(parent);
            self.shares.remove(row, node as u32);
            if !self.shares.is_empty(row) {
                return;
            }
            node = parent;
        }
    }

    /// The leaf whose turn it is.
    #[inline]
    fn choose(&mut self) -> Option<usize> {
        let mut node = self.link();
        loop {
            let row = self.inner(node);
            let (time, child) = self.shares.first(row)?;
            self.clocks[row].now = self.clocks[row].now.max(time);
            node = child as usize;
            if self.is_leaf(node) {
                return Some(node);
            }
        }
    }

    /// A packet of this leaf leaves: charges it and all above it.
    fn charge(&mut self, leaf: usize, bits: u64, now: u64) {
        let (link, mut node) = (self.link(), leaf);
        while node != link {
            let this = &mut self.nodes[node];
            this.share.advance(bits);
            let (parent, time) = (this.parent as usize, this.share.time_of(0));
            if this.has(LIMITED) {
                self.charge_limit(node, bits, now);
            }
            let row = self.inner(parent);
            self.clocks[row].latest = self.clocks[row].latest.max(time);
            self.shares.change(row, node as u32, time);
            node = parent;
        }
    }

    fn charge_limit(&mut self, node: usize, bits: u64, now: u64) {
        let Some(limit) = &mut self.limits[node].0 else {
            return;
        };
        let earliest = u128::from(now.saturating_sub(self.catch_up));
        limit.put_off(earliest.saturating_sub(limit.time_of(0)));
        limit.advance(bits);
        self.check_limit(node, now);
        if self.nodes[node].has(BLOCKED) {
            self.unlist(node);
        }
    }
}

impl Hfsc {
    /// Timers that are due: packets become eligible, and classes may go on.
    fn wake(&mut self, now: Instant, sink: &mut dyn Sink) {
        while let Some(leaf) = self.leaves.wake(now) {
            self.activate(leaf, now);
        }
        while let Some(thing) = self.timers.expire(now) {
            let leaves = self.reals.len();
            if (thing as usize) < leaves {
                self.ripen(thing as usize, now, sink);
            } else {
                let node = thing as usize - leaves;
                self.nodes[node].mark(BLOCKED, false);
                self.list(node);
            }
        }
    }

    /// A leaf's timer is due: its next packet is eligible, or still to be peeked at.
    #[inline]
    fn ripen(&mut self, leaf: usize, now: Instant, sink: &mut dyn Sink) {
        if self.nodes[leaf].has(EARLY)
            && let Some(real) = &self.reals[leaf]
        {
            // It is pinned, and nothing has changed since.
            self.nodes[leaf].mark(EARLY, false);
            self.deadlines.push(leaf as u32, real.deadline);
        } else if !self.schedule(leaf, now, sink) {
            self.retire(leaf);
        }
    }

    fn sent(
        &mut self,
        (leaf, real): (usize, bool),
        packet: &Packet,
        more: bool,
        now: Instant,
        sink: &mut dyn Sink,
    ) {
        let bits = nanobits(packet.len.get()) as u64;
        // A leaf served by link sharing needs no more of its memory than that takes.
        // None is eligible then, and of the eligible the first has left.
        if real && let Some(this) = &mut self.reals[leaf] {
            self.deadlines.pop();
            this.served(packet.len.get(), bits, now.nanos(), || {
                sink.held_up(packet.arrived, now)
            });
        }
        self.charge(leaf, bits, now.nanos());
        if !more || !self.schedule(leaf, now, sink) {
            self.retire(leaf);
        }
    }

    /// The number of a class that has the same one, and parent, in this plan.
    fn known(&self, plan: &HfscPlan, class: ClassId) -> Option<usize> {
        let node = plan.numbers.own(class.0)?;
        let shape = |class: &ClassPlan| (class.id, class.parent);
        let known = plan.classes.len() == self.classes.len()
            && plan.leaves.len() == self.reals.len()
            && shape(plan.classes.get(node)?) == shape(&self.classes[node]);
        known.then_some(node)
    }

    /// Gives a class other curves from now on; past service stays.
    fn adopt(&mut self, node: usize, new: Curves, now: u64) {
        let old = std::mem::replace(&mut self.classes[node].curves, new);
        if old.share != new.share {
            let this = &mut self.nodes[node];
            this.share = Curve::new(new.share, this.share.time_of(0));
            let (parent, time) = (this.parent as usize, this.share.time_of(0));
            self.shares.change(self.inner(parent), node as u32, time);
        }
        if old.limit != new.limit {
            let held = self.nodes[node].has(BLOCKED);
            self.nodes[node].mark(BLOCKED, false);
            self.nodes[node].mark(LIMITED, new.limit.is_some());
            // What was sent ahead of the old limit is charged to the new one: else each change
            // would let a packet go early.
            let ahead = self.limits[node]
                .0
                .as_ref()
                .map_or(0, |limit| limit.ahead(now.into()));
            self.limits[node].0 = new.limit.map(|shape| {
                let mut limit = Curve::new(shape, now.into());
                limit.advance(ahead);
                limit
            });
            if held {
                self.timers.cancel(self.fit_timer(node));
                self.check_limit(node, now);
                self.list(node);
            }
        }
        if old.real != new.real && self.is_leaf(node) {
            self.nodes[node].mark(REAL, new.real.is_some());
            self.nodes[node].mark(EARLY, false);
            self.forget_times(node);
            self.reals[node] = new.real.map(|shape| Real::new(Curve::new(shape, now.into())));
            if new.real.is_some() && self.nodes[node].has(BUSY) {
                // Its packet is peeked at later: that may drop it, and there is no sink here.
                self.timers.set(node as u32, Instant::from_nanos(now));
            }
        }
    }
}

impl Discipline for Hfsc {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        // What arrives since waits for all that is handed on.
        self.awaits &= packet.handed_on;
        let (verdict, ready) = self.leaves.enqueue(now, packet, sink);
        if let Some(leaf) = ready {
            self.activate(leaf, now);
        }
        verdict
    }

    fn prefetch_arrivals(&self, packets: &[Packet]) -> Prefetched {
        self.leaves.prefetch_arrivals(packets)
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        self.wake(now, sink);
        loop {
            let choice = match self.deadlines.first() {
                Some(leaf) => (leaf as usize, true),
                None => match self.choose() {
                    Some(leaf) => (leaf, false),
                    None => break,
                },
            };
            let next = self.leaves.dequeue(choice.0, now, sink);
            if let Next::Ready(packet) = &next {
                let more = self.leaves.is_ready(choice.0);
                self.sent(choice, packet, more, now, sink);
                return next;
            }
            self.retire(choice.0);
        }
        match (self.leaves.any_ready(), self.timers.next(), self.leaves.next()) {
            (true, Some(own), Some(below)) => Next::Wait(own.min(below)),
            (true, Some(own), None) => Next::Wait(own),
            _ => self.leaves.rest(),
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        let mut flushed = std::mem::take(&mut self.flushed);
        flushed.go_on(self.reals.len(), portion, |leaf, portion| {
            self.leaves.flush_leaf(leaf, portion, sink);
            if !portion.is_spent() {
                self.retire(leaf);
            }
        });
        self.flushed = flushed;
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        self.report(out);
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let Some(plan) = plan_of(plan) else { return false };
        let shape = |class: &ClassPlan| (class.id, class.parent);
        let shaped = plan.classes.iter().map(shape).eq(self.classes.iter().map(shape));
        if !self.leaves.is_alike(&plan.leaves) || !shaped {
            return false;
        }
        self.catch_up = plan.catch_up;
        for (node, class) in plan.classes.iter().enumerate() {
            self.adopt(node, class.curves, now.nanos());
        }
        self.leaves.retune(now, &plan.leaves)
    }

    fn retune_own(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        let plan = plan_of(plan);
        plan.iter().for_each(|plan| self.catch_up = plan.catch_up);
        plan.is_some()
    }

    fn retune_class(&mut self, now: Instant, plan: &dyn Plan, class: ClassId) -> bool {
        let Some((plan, node)) = plan_of(plan).and_then(|plan| Some((plan, self.known(plan, class)?))) else {
            return false;
        };
        self.adopt(node, plan.classes[node].curves, now.nanos());
        !self.is_leaf(node) || self.leaves.retune_one(now, &plan.leaves, node)
    }

    fn renew_class(
        &mut self,
        _now: Instant,
        plan: &dyn Plan,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        let plan = plan_of(plan)?;
        let node = self.known(plan, class).filter(|node| self.is_leaf(*node))?;
        self.retire(node);
        let former = self.leaves.renew(&plan.leaves, node, queue);
        self.leaves.forget(node);
        let class = &plan.classes[node];
        let curve = |shape: Option<Slopes>| shape.map(|shape| Curve::new(shape, 0));
        self.nodes[node] = Node::new(class);
        self.limits[node] = Limit(curve(class.curves.limit));
        self.reals[node] = curve(class.curves.real).map(Real::new);
        self.classes[node] = class.clone();
        Some(former)
    }

    fn leaf(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.leaves.discipline(class)
    }

    fn owner(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        match self.numbers.own(class.0) {
            Some(_) => Some(self),
            None => self.leaves.owner(class),
        }
    }

    fn take_over_class(&mut self, now: Instant, class: ClassId, former: &mut dyn Discipline, was: ClassId) {
        let Some(former) = former.of_type::<Self>() else {
            return;
        };
        if let (Some(was), Some(node)) = (former.numbers.own(was.0), self.numbers.own(class.0)) {
            self.succeed(node, former, was, now.nanos());
        }
    }

    fn exchange_queue(
        &mut self,
        now: Instant,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        let leaf = self.leaves.route(class)?;
        self.retire(leaf);
        let former = self.leaves.exchange(now, class, queue);
        self.leaves.forget(leaf);
        former
    }
}

#[cfg(test)]
mod tests;
