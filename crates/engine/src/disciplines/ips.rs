//! `ips`: classes with guaranteed delays, by admission control, policing and strict priority.
//!
//! Follows Kusaka and Sugano, "An evaluation of delay controlled communication service" (NTT Data;
//! "interrupt packet scheduling"), section 2.2. A class states its arrival curve, a rate ρ and a
//! burst σ, and the delay *D* that it requires. A token bucket on input enforces the arrival curve.
//! Shorter delays get higher priorities, and queue limits follow from the bursts. The scheduler is
//! strict priority (`priq`), or `cbq` as in the paper. [`admission`](crate::admission) decides
//! which classes are admitted; [`bounds`](crate::bounds) derives their delay bounds.
//!
//! Departures:
//!
//! - `rule = "sound"`, the default, includes the packet that is being sent, the device's ring, and
//!   new bursts of higher classes. The paper's rule includes none of them, and packets exceed its
//!   delays (`docs/decisions/ips-rules.md`).
//! - The bucket also holds what the rate brings in `jitter`, so that packets that were sent as
//!   stated are not policed for what the way to here did to their distances (RFC 2212, section 2,
//!   grows bursts so).
//! - A packet that a change of the tree hands on takes tokens as of its arrival. One that does not
//!   conform to a new arrival curve is not dropped: it keeps its place, or is sent last if
//!   `excess = "last"`.
//! - The limit of a queue is its backlog bound: σ + ρ *T* by the sound rule, σ by the paper's; and
//!   by the sound rule what a class sends in 50 ms, where a packet loop may be held up.
//! - Every departure of a guaranteed class is checked against its delay, at the time when its last
//!   bit is sent by a clock of the link's bandwidth. `late` counts violations; they are caused by
//!   this program or the port: `ahead` shows the backlog in the device, `idle` how long the link
//!   was idle although a packet was queued. `held-up` counts those that would have been in time
//!   but for what the host [held the packet loop up](Sink::held_up) for: a link that stands still
//!   for *h* makes a class later by *h C* / (*C* − ρ_H), as higher classes go on arriving.
//!   `policed` counts packets that violated the arrival curve.
//!
//! **Over CBQ** each guaranteed class gets its rate and a credit of its whole burst. The policer
//! lets its packets pass within σ + ρ *t*, so the class has credit whenever it has a packet (at
//! least *l* before a packet of length *l*): it never borrows and is never regulated. The formal
//! sharing guideline therefore serves it at the lowest level, by priority, before all borrowing
//! classes. The best-effort classes share the rest of the bandwidth, at the lowest priority. CBQ
//! has 8 priorities: with more than 7 different delays some classes share a priority, and each
//! counts in the bounds of the others.

use crate::admission::{Admission, AdmittedPlace, FlowRequest, Rule};
use crate::bounds::{ArrivalCurve, Bound, Terms, WorstCase, shown};
use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::disciplines::{cbq, fifo, priq};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, CheckedClass, Children, ClassRoutes, Kind, Properties, QueuePlan};
use crate::link::{Fact, Link};
use crate::link_clock::LinkClock;
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::settings::{Problem, Raw, Table};
use crate::sharing::by_delays::ByDelays;
use crate::sharing::class_numbers::ClassNumbers;
use crate::sharing::credit::{Credit, nanobits};
use crate::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use crate::{choices, settings};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "ips",
    summary: "Guaranteed delays: classes with a rate, a burst and a delay bound, admission control and policing",
    reference: "Kusaka and Sugano, \"An evaluation of delay controlled communication service\", NTT Data",
    children: Children::Classes { nested: false },
    settings: Settings::SETTINGS,
    class_settings: ClassSettings::SETTINGS,
    properties: Properties {
        guarantees_delays: true,
        needs_plain_queues: true,
        reserves: Some(&ByDelays),
        former: &[("transmit_ring", Fact::Ring)],
        isolates: true,
        ..Properties::NONE
    },
    check,
};

/// A hold-up of the packet loop in which guaranteed classes lose nothing. Ports fail open after as
/// long, unless a policy says otherwise.
const HELD_UP: Duration = Duration::from_millis(50);

choices! {
    /// The scheduler inside.
    pub enum Over {
        /// Strict priority.
        Priq = "priq",
        /// Class-based queueing: rates beside priorities.
        Cbq = "cbq",
    }
}

choices! {
    /// What to do with packets that exceed the arrival curve.
    pub enum ExcessAction {
        /// Drop them.
        Drop = "drop",
        /// Send them when nothing else is queued, so out of order.
        Last = "last",
    }
}

settings! {
    /// Settings of `ips`.
    pub struct Settings {
        /// The admission rule
        rule: Rule = default "sound",
            "paper: more is admitted, and delays are exceeded now and then",
            "docs/decisions/ips-rules.md";
        /// The scheduler inside
        over: Over = default "priq",
            "cbq: as in the paper; best-effort classes share by rate; 7 priorities for guaranteed classes",
            "the simplest that has the bound";
        /// What to do with packets that exceed the arrival curve
        excess: ExcessAction = default "drop",
            "last: nothing is dropped while the link has capacity, but packets of a flow are reordered",
            "Kusaka and Sugano, section 2.2: policing";
        /// The longest packet of any class, including best effort
        longest: Bytes = derived "what the link carries in 1 ms (super-packets are segmented to that), at least its longest packet",
            "longer packets are dropped as \"policed\": they would violate bounds. Larger: fewer flows are admitted",
            "the port's `split`";
    }
}

settings! {
    /// Settings of a class of `ips`.
    pub struct ClassSettings {
        /// The token rate: what its senders send at most in the long run; needs `delay`
        rate: Rate = derived "best effort",
            "too small: their packets are policed; too large: fewer other flows are admitted",
            "what the senders state";
        /// The bucket depth: what they send at most at once
        burst: Bytes = derived "the link's longest packet",
            "as `rate`",
            "what the senders state";
        /// The required delay bound: from a packet's arrival to its last bit on the link; needs
        /// `rate`
        delay: Duration = derived "best effort: served when no guaranteed class has packets",
            "too small: it is refused; the message has the smallest possible bound",
            "the requirement of the receivers";
        /// By how much later than when it was sent a packet may arrive here, beyond the least: the
        /// policer allows for what the rate brings in that time, and the bounds count it
        jitter: Duration = derived "1 ms; with `rule = \"paper\"` 0",
            "too small: packets that were sent as stated are policed; too large: fewer other flows are admitted",
            "timers and interrupts of a sender";
    }
}

/// The token bucket counts nanobits in 63 bits.
const LONGEST_BURST: Bytes = Bytes::new(1_000_000_000);
/// The jitter that is allowed for if none is stated.
const JITTER: Duration = Duration::from_millis(1);
/// The limit of the queue of packets that exceed the arrival curve, in packets.
const EXCESS_LIMIT: usize = 100;
/// The numbers of priorities of `cbq` and `priq`.
const CBQ_PRIORITIES: u32 = 8;
const PRIQ_PRIORITIES: usize = 256;

/// The guarantee of a class.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Guarantee {
    arrivals: ArrivalCurve,
    /// The requested delay.
    delay: Duration,
    /// The delay bound by the rule, at most the requested delay.
    bound: Duration,
    /// The queue limit.
    queue: Bytes,
    /// What the classes that go before it leave of the link.
    left: Bandwidth,
}

impl Guarantee {
    /// By how much a packet may be later on this link since the host held it up for so long.
    fn stretched(&self, held_up: Duration, link: Bandwidth) -> Duration {
        let nanos = u128::from(held_up.nanos()) * u128::from(link.bits());
        let nanos = nanos.div_ceil(u128::from(self.left.bits().max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[derive(Clone, PartialEq, Debug)]
struct ClassPlan {
    id: ClassId,
    guarantee: Option<Guarantee>,
}

#[derive(Clone, Debug)]
struct IpsPlan {
    settings: Settings,
    link: Bandwidth,
    longest: Bytes,
    classes: Arc<[ClassPlan]>,
    numbers: ClassNumbers,
    routes: Arc<ClassRoutes>,
    inner: QueuePlan,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let before = check.problems.len();
    let settings = Settings::read(check.settings, &[], check.problems);
    let by_paper = settings
        .as_ref()
        .is_some_and(|settings| settings.rule == Rule::Paper);
    let usual = if by_paper { Duration::ZERO } else { JITTER };
    let flows: Vec<Option<Option<FlowRequest>>> = (0..check.classes.len())
        .map(|index| flow(check, index, usual))
        .collect();
    let (settings, flows) = (settings?, flows.into_iter().collect::<Option<Vec<_>>>()?);
    if check.link.bandwidth == Bandwidth::ZERO {
        let message = "`ips` needs a link with a bandwidth: delays follow from it";
        check.problems.push(Problem::new(check.settings.at, message));
        return None;
    }
    let longest = longest(check, &settings)?;
    let ahead = check.link.ahead(longest);
    let places = admit(check, &settings, ahead, &flows);
    (check.problems.len() == before).then_some(())?;
    let left = left_to_each(check.link.bandwidth, &flows, &places);
    let guarantee = |(index, flow): (usize, &Option<FlowRequest>)| {
        let (Some(flow), Some(place)) = (flow, places[index]) else {
            return None;
        };
        Some(Guarantee {
            arrivals: flow.arrivals,
            delay: flow.delay,
            bound: place.delay,
            queue: place.queue + while_held_up(check.link, settings.rule, flow.arrivals.rate),
            left: left[index],
        })
    };
    let guarantee: Vec<Option<Guarantee>> = flows.iter().enumerate().map(guarantee).collect();
    let mut routes = ClassRoutes::default();
    let mut classes = Vec::new();
    for (number, class) in check.classes.iter().enumerate() {
        class
            .routes
            .iter()
            .for_each(|&route| routes.add(route, number as u32));
        classes.push(ClassPlan {
            id: class.id,
            guarantee: guarantee[number],
        });
    }
    // A port that has filled its ring asks again when the ring has space; that is not lateness.
    let patience = check
        .link
        .bandwidth
        .time_to_send(ahead + longest)
        .max(Duration::from_millis(5));
    let inner = inside(check, (settings.over, patience), &places, &guarantee)?;
    Some(Arc::new(IpsPlan {
        numbers: ClassNumbers::new(check, |index| index as u32),
        link: check.link.bandwidth,
        settings,
        longest,
        classes: classes.into(),
        routes: Arc::new(routes),
        inner,
    }))
}

/// What a rate brings while the host holds the packet loop up, if there is one: beyond what the
/// bound counts, as the packets are only late then, and not lost.
fn while_held_up(link: Link, rule: Rule, rate: Bandwidth) -> Bytes {
    match rule {
        Rule::Sound if link.lateness > Duration::ZERO => brought(rate, HELD_UP),
        _ => Bytes::ZERO,
    }
}

/// What of this link the flows leave to each of them that go before it, or count in full for it.
fn left_to_each(
    link: Bandwidth,
    flows: &[Option<FlowRequest>],
    places: &[Option<AdmittedPlace>],
) -> Vec<Bandwidth> {
    let rate = |flow: &Option<FlowRequest>| flow.as_ref().map_or(Bandwidth::ZERO, |flow| flow.arrivals.rate);
    let mut down_to: BTreeMap<Option<u32>, Bandwidth> = BTreeMap::new();
    let priority = |place: &Option<AdmittedPlace>| place.map(|place| place.priority);
    for (flow, place) in flows.iter().zip(places) {
        *down_to.entry(priority(place)).or_default() += rate(flow);
    }
    let mut sum = Bandwidth::ZERO;
    for all in down_to.values_mut().rev() {
        sum += *all;
        *all = sum;
    }
    let each = flows.iter().zip(places);
    each.map(|(flow, place)| link - (down_to[&priority(place)] - rate(flow)))
        .collect()
}

/// The flow of a class; `Some(None)` for best effort, `None` if a problem was reported.
fn flow(check: &mut Check<'_>, index: usize, usual: Duration) -> Option<Option<FlowRequest>> {
    let (link, class) = (check.link, &check.classes[index]);
    let settings = ClassSettings::read(class.settings, &[], check.problems)?;
    let mut wrong = |key: &str, message: String, help: &str| {
        let at = class.settings.get(key).map_or(class.at, |entry| entry.at);
        check.problems.push(Problem::new(at, message).help(help));
    };
    let before_burst = settings.burst.unwrap_or(link.mtu);
    let (rate, delay) = match (settings.rate, settings.delay) {
        (Some(rate), Some(delay)) => (rate.on(link.bandwidth), delay),
        (None, None) if settings.burst.is_none() && settings.jitter.is_none() => return Some(None),
        (_, None) => {
            let key = match (settings.rate, settings.burst) {
                (Some(_), _) => "rate",
                (None, Some(_)) => "burst",
                (None, None) => "jitter",
            };
            let message = format!("class `{}` has a {key}, but no required delay", class.name);
            wrong(
                key,
                message,
                "add `delay`, such as \"10 ms\"; without it and without a rate the class is best effort",
            );
            return None;
        }
        (None, Some(_)) => {
            let message = format!("class `{}` requires a delay, but has no rate", class.name);
            wrong(
                "delay",
                message,
                "add `rate` and `burst`, the limits of what its senders send",
            );
            return None;
        }
    };
    let fits = before_burst >= link.mtu && before_burst <= LONGEST_BURST && rate > Bandwidth::ZERO;
    if before_burst < link.mtu || before_burst > LONGEST_BURST {
        let message = format!(
            "`burst` must be from one full packet ({}) to {LONGEST_BURST}; found {before_burst}",
            link.mtu
        );
        wrong("burst", message, "it is the greatest burst of the senders");
    } else if rate == Bandwidth::ZERO {
        wrong(
            "rate",
            "`rate` must be more than 0: all packets would be policed".into(),
            "write the rate of the senders",
        );
    }
    let plain = fifo::Settings::read(&Table::default(), &[], &mut Vec::new());
    let queue: Option<&dyn Any> = class.queue.as_ref().map(|queue| &*queue.plan as &dyn Any);
    let in_order = queue.is_none_or(|queue| queue.downcast_ref::<fifo::Settings>() == plain.as_ref());
    if !in_order {
        let kind = class.queue.as_ref().map_or("", |queue| queue.kind.name);
        let message = format!(
            "class `{}` has a guaranteed delay, so its queue cannot be a `{kind}`",
            class.name
        );
        wrong(
            "",
            message,
            "leave out `discipline`: it is a `fifo` whose limit follows from the guarantee",
        );
    }
    let arrivals = ArrivalCurve {
        rate,
        burst: before_burst + brought(rate, settings.jitter.unwrap_or(usual)),
    };
    (fits && in_order).then(|| {
        Some(FlowRequest {
            name: class.name.into(),
            arrivals,
            delay,
        })
    })
}

/// What a rate brings in this time, a begun byte in full.
fn brought(rate: Bandwidth, time: Duration) -> Bytes {
    match time {
        Duration::ZERO => Bytes::ZERO,
        _ => rate.bytes_in(time) + Bytes::new(1),
    }
}

fn longest(check: &mut Check<'_>, settings: &Settings) -> Option<Bytes> {
    let (link, own) = (check.link, settings.longest);
    if own.is_some_and(|own| own < link.mtu) {
        let at = check.settings.place("longest");
        check.problems.push(Problem::new(
            at,
            format!("`longest` is less than the link's longest packet ({})", link.mtu),
        ));
        return None;
    }
    Some(own.unwrap_or(link.longest()))
}

/// Admits the flows in the order of their declaration; each refusal is a problem with the numbers.
fn admit(
    check: &mut Check<'_>,
    settings: &Settings,
    ahead: Bytes,
    flows: &[Option<FlowRequest>],
) -> Vec<Option<AdmittedPlace>> {
    let priorities = match settings.over {
        Over::Priq => u32::MAX,
        Over::Cbq => CBQ_PRIORITIES - 1,
    };
    let mut admission = Admission::new(settings.rule, check.link.bandwidth, ahead, priorities);
    for (class, flow) in check.classes.iter().zip(flows) {
        let Some(Err(refusal)) = flow.clone().map(|flow| admission.admit(flow)) else {
            continue;
        };
        let at = class.settings.get("delay").map_or(class.at, |entry| entry.at);
        let mut advice = refusal.advice();
        if settings.rule == Rule::Sound {
            advice += &of_the_device(check.link, ahead);
        }
        check
            .problems
            .push(Problem::new(at, refusal.to_string()).help(advice));
    }
    if settings.over == Over::Priq && flows.len() > PRIQ_PRIORITIES {
        let message = format!("more than {PRIQ_PRIORITIES} classes: strict priority has a priority for each");
        let help = "put flows of the same delay into one class: their rates and bursts add up";
        check
            .problems
            .push(Problem::new(check.settings.at, message).help(help));
    }
    if settings.rule == Rule::Paper {
        note_exceeded(check, ahead, priorities, flows);
    }
    flows
        .iter()
        .map(|flow| admission.place(&flow.as_ref()?.name))
        .collect()
}

/// What the device adds to a bound, with so much ahead; for a refusal.
fn of_the_device(link: Link, ahead: Bytes) -> String {
    let mut told = String::new();
    if link.ring > 1 {
        let ring = link.bandwidth.time_to_send(ahead - link.missed() - link.mtu);
        told += &format!(
            "; {} of it is for the {} packets of the device's ring: see `transmit_ring`",
            shown(ring),
            link.ring
        );
    }
    if link.lateness > Duration::ZERO {
        told += &format!(
            "; {} is for a packet loop that runs late: see `lateness`",
            link.lateness
        );
    }
    told
}

/// Adds notices about delays that the paper's rule admits although they can be exceeded.
fn note_exceeded(check: &mut Check<'_>, ahead: Bytes, priorities: u32, flows: &[Option<FlowRequest>]) {
    let all: Vec<FlowRequest> = flows.iter().flatten().cloned().collect();
    let sound = Admission::sound(check.link.bandwidth, ahead, priorities, &all);
    for (class, flow) in check.classes.iter().zip(flows) {
        let Some(flow) = flow else { continue };
        let bound = sound.iter().find(|(name, _)| *name == flow.name);
        let delay = bound.and_then(|(_, bound)| *bound).map(|bound| bound.delay);
        if delay.is_some_and(|delay| delay <= flow.delay) {
            continue;
        }
        let worst = delay.map_or("has no bound".into(), |delay| format!("can be {}", shown(delay)));
        let message = format!(
            "`{}` requires {}, which the paper's rule admits; its delay {worst}",
            flow.name, flow.delay
        );
        let at = class.settings.get("delay").map_or(class.at, |entry| entry.at);
        let help = "`rule = \"sound\"` admits only delays that are guaranteed";
        check.notices.push(Problem::new(at, message).help(help));
    }
}

/// The scheduler inside, whose classes have the resulting priorities and queue limits.
fn inside(
    check: &mut Check<'_>,
    (over, patience): (Over, Duration),
    places: &[Option<AdmittedPlace>],
    guarantee: &[Option<Guarantee>],
) -> Option<QueuePlan> {
    let rest = places.iter().filter(|place| place.is_none()).count() as u32;
    let used: Bandwidth = guarantee
        .iter()
        .flatten()
        .map(|guarantee| guarantee.arrivals.rate)
        .sum();
    let left = (check.link.bandwidth - used).bits() / u64::from(rest.max(1));
    let left = Bandwidth::bits_per_sec(left);
    let mut behind = rest;
    let tables: Vec<Table> = places
        .iter()
        .zip(guarantee)
        .map(|(place, guarantee)| match (over, place.zip(*guarantee)) {
            (Over::Priq, Some((place, _))) => priority(rest + place.priority),
            (Over::Priq, None) => {
                behind -= 1;
                priority(behind)
            }
            // A credit of exactly the burst: two packets of that length, back to back.
            (Over::Cbq, Some((place, guarantee))) => priority(place.priority + 1)
                .with("rate", guarantee.arrivals.rate)
                .with("packet_size", guarantee.arrivals.burst)
                .with("maxburst", Raw::Integer(2))
                .with("minburst", Raw::Integer(1)),
            (Over::Cbq, None) => priority(0).with("rate", left),
        })
        .collect();
    let classes = check
        .classes
        .iter_mut()
        .zip(&tables)
        .zip(guarantee)
        .map(|((class, table), guarantee)| {
            let own = class.queue.take();
            CheckedClass {
                id: class.id,
                name: class.name,
                at: class.at,
                parent: None,
                vacant: class.vacant,
                settings: table,
                queue: guarantee.map(|guarantee| fifo_of(guarantee.queue)).or(own),
                routes: class.routes.clone(),
                inside: class.inside.clone(),
            }
        });
    let (kind, settings) = match over {
        Over::Priq => (&priq::KIND, Table::default()),
        Over::Cbq => (
            &cbq::KIND,
            Table::default()
                .text("link", cbq::PacedBy::Port.name())
                .with("link_burst", patience),
        ),
    };
    let mut inner = Check {
        link: check.link,
        settings: &settings,
        child: None,
        classes: classes.collect(),
        problems: check.problems,
        notices: check.notices,
    };
    Some(QueuePlan {
        kind,
        plan: (kind.check)(&mut inner)?,
    })
}

fn priority(priority: u32) -> Table {
    Table::default().with("priority", priority)
}

/// A FIFO with a limit in bytes and none in packets.
fn fifo_of(bytes: Bytes) -> QueuePlan {
    let settings = fifo::Settings {
        limit: u32::MAX,
        limit_bytes: Some(bytes),
        drop: fifo::DropFrom::Tail,
    };
    QueuePlan {
        kind: &fifo::KIND,
        plan: Arc::new(settings),
    }
}

fn plan_of(plan: &dyn Plan) -> Option<&IpsPlan> {
    let plan: &dyn Any = plan;
    plan.downcast_ref()
}

impl IpsPlan {
    /// Whether another plan has the same classes with guarantees over the same scheduler.
    fn is_like(&self, other: &Self) -> bool {
        let shape = |class: &ClassPlan| (class.id, class.guarantee.is_some());
        let classes = |plan: &Self| plan.classes.iter().map(shape).collect::<Vec<_>>();
        self.settings.over == other.settings.over && classes(self) == classes(other)
    }
}

impl Plan for IpsPlan {
    /// Those with other guarantees, and those that the scheduler serves otherwise.
    fn changed_classes(&self, former: &dyn Plan, queues: bool) -> Option<Vec<ClassId>> {
        let former = plan_of(former).filter(|former| self.is_like(former))?;
        let inside = self.inner.plan.changed_classes(&*former.inner.plan, queues)?;
        let pairs = self.classes.iter().zip(former.classes.iter());
        let own = pairs.filter(|(new, old)| new.guarantee != old.guarantee);
        let all: BTreeSet<ClassId> = own.map(|(new, _)| new.id).chain(inside).collect();
        Some(all.into_iter().collect())
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Ips {
            inner: self.inner.plan.build(cx),
            members: self
                .classes
                .iter()
                .map(|class| Member::new(class.guarantee))
                .collect(),
            wire: LinkClock::new(self.link, Duration::ZERO),
            excess: VecDeque::new(),
            backlog: 0,
            since: Instant::START,
            ahead: Duration::ZERO,
            idle: Duration::ZERO,
            plan: self.clone(),
        })
    }

    /// It polices what comes, and holds nothing back by itself.
    fn conserves_work(&self) -> bool {
        self.inner.conserves_work()
    }

    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        let ahead = terms.link.ahead(self.longest);
        let over = match self.settings.over {
            Over::Priq => u32::MAX,
            Over::Cbq => CBQ_PRIORITIES - 1,
        };
        let flow = |class: &ClassPlan| {
            let Guarantee { arrivals, delay, .. } = class.guarantee?;
            Some(FlowRequest {
                name: class.id.0.to_string(),
                arrivals,
                delay,
            })
        };
        let flows: Vec<FlowRequest> = self.classes.iter().filter_map(flow).collect();
        let found = Admission::sound(terms.link.bandwidth, ahead, over, &flows);
        let found: HashMap<String, Option<Bound>> = found.into_iter().collect();
        let case = |class: &ClassPlan| {
            let name = class.id.0.to_string();
            let bound = match class.guarantee {
                None => Err("best effort: no guarantee".into()),
                Some(_) => found
                    .get(&name)
                    .and_then(|bound| *bound)
                    .ok_or_else(|| "none: the classes above it have all of the link guaranteed".to_string()),
            };
            WorstCase {
                class: Some(class.id),
                bound,
            }
        };
        self.classes.iter().map(case).collect()
    }
}

/// The state of a class.
#[derive(Debug)]
struct Member {
    guarantee: Option<Guarantee>,
    /// The policer's bucket: full at the burst, in nanobits.
    tokens: Credit,
    /// The greatest delay of a packet.
    worst: Duration,
    /// Packets whose delay exceeded the guarantee.
    late: u64,
    /// Packets whose delay did since the host held them up.
    held_up: u64,
    /// Packets that exceeded the arrival curve.
    policed: u64,
}

impl Member {
    fn new(guarantee: Option<Guarantee>) -> Self {
        let mut member = Self {
            guarantee: None,
            tokens: Credit::default(),
            worst: Duration::ZERO,
            late: 0,
            held_up: 0,
            policed: 0,
        };
        member.adopt(guarantee, 0);
        member.tokens.left = member.full();
        member
    }

    fn full(&self) -> i64 {
        self.guarantee
            .map_or(0, |guarantee| nanobits(guarantee.arrivals.burst.get()))
    }

    /// Whether the packet conforms to the arrival curve; if so, it takes tokens. What a change
    /// handed on takes them as of its arrival, so that it conforms if it did then.
    #[inline]
    fn conforms(&mut self, now: Instant, packet: &Packet) -> bool {
        let Some(guarantee) = self.guarantee else {
            return true;
        };
        let came = match packet.handed_on {
            true => packet.arrived,
            false => now,
        };
        self.tokens
            .accrue(came.nanos(), Some(nanobits(guarantee.arrivals.burst.get())));
        let takes = nanobits(packet.len.get());
        let enough = self.tokens.left >= takes;
        if enough {
            self.tokens.left -= takes;
        }
        enough
    }

    /// Adopts another guarantee. Tokens are kept, up to the new burst.
    fn adopt(&mut self, guarantee: Option<Guarantee>, now: u64) {
        let full = self.full();
        self.tokens.accrue(now, Some(full));
        let was_free = self.guarantee.is_none();
        self.guarantee = guarantee;
        self.tokens.rate = guarantee.map_or(0, |guarantee| guarantee.arrivals.rate.bits());
        self.tokens.left = if was_free {
            self.full()
        } else {
            self.tokens.left.min(self.full())
        };
    }
}

#[derive(Debug)]
struct Ips {
    inner: Box<dyn Discipline>,
    /// Indexed by class.
    members: Vec<Member>,
    /// When the dequeued packets will have been sent.
    wire: LinkClock,
    /// Packets that exceeded their class's arrival curve, which are sent last.
    excess: VecDeque<Packet>,
    /// The backlog of guaranteed classes in packets.
    backlog: u64,
    /// Since when there has been such a backlog.
    since: Instant,
    /// The greatest backlog in the device when a packet was dequeued, as time to send it.
    ahead: Duration,
    /// The longest time for which the link was idle with such a backlog.
    idle: Duration,
    plan: IpsPlan,
}

impl Ips {
    /// Adopts what a plan of the same classes says of all.
    fn adopt(&mut self, plan: &IpsPlan) {
        if self.wire.rate() != plan.link {
            self.wire = LinkClock::new(plan.link, Duration::ZERO);
        }
        self.plan = plan.clone();
    }

    /// Gives a class the guarantee of the plan.
    fn adopt_guarantee(&mut self, now: Instant, number: usize) {
        let guarantee = self.plan.classes[number].guarantee;
        let member = &mut self.members[number];
        if member.guarantee != guarantee {
            member.adopt(guarantee, now.nanos());
        }
    }

    /// Drops a packet that exceeds the arrival curve, or queues it to be sent last.
    fn police(&mut self, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let kept = self.plan.settings.excess == ExcessAction::Last && packet.len <= self.plan.longest;
        let why = match kept {
            true if self.excess.len() < EXCESS_LIMIT => {
                self.excess.push_back(packet);
                return Verdict::Queued;
            }
            true => Reason::Full,
            false => Reason::Policed,
        };
        sink.drop(packet, why);
        Verdict::Dropped(why)
    }

    /// Accounts for a dequeued packet; if its class has a guarantee, checks its delay.
    fn departed(&mut self, now: Instant, packet: &Packet, conforming: bool, sink: &dyn Sink) {
        let before = self.wire.free_at();
        self.wire.send(now, packet.len);
        self.ahead = self.ahead.max(before.since(now));
        if self.backlog > 0 {
            self.idle = self.idle.max(now.since(before.max(self.since)));
        }
        let member = self
            .plan
            .routes
            .child(packet.class)
            .and_then(|member| self.members.get_mut(member));
        let Some((member, guarantee)) =
            member.and_then(|member| member.guarantee.map(|guarantee| (member, guarantee)))
        else {
            return;
        };
        if !conforming {
            return;
        }
        self.backlog = self.backlog.saturating_sub(1);
        self.since = now;
        let took = self.wire.free_at().since(packet.arrived);
        member.worst = member.worst.max(took);
        if took > guarantee.delay {
            let held_up = guarantee.stretched(sink.held_up(packet.arrived, now), self.plan.link);
            match took - held_up > guarantee.delay {
                true => member.late += 1,
                false => member.held_up += 1,
            }
        }
    }
}

/// Counts the packets that the scheduler inside drops.
struct CountingSink<'a> {
    outer: &'a mut dyn Sink,
    members: &'a [Member],
    routes: &'a ClassRoutes,
    dropped: u64,
}

impl Sink for CountingSink<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        let member = self
            .routes
            .child(packet.class)
            .and_then(|member| self.members.get(member));
        self.dropped += u64::from(member.is_some_and(|member| member.guarantee.is_some()));
        self.outer.drop(packet, why);
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.outer.mark(packet, why);
    }
}

impl Discipline for Ips {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let member = self.plan.routes.child(packet.class);
        let Some(member) = member.and_then(|member| self.members.get_mut(member)) else {
            sink.drop(packet, Reason::NoClass);
            return Verdict::Dropped(Reason::NoClass);
        };
        let conforms = packet.len <= self.plan.longest && member.conforms(now, &packet);
        // What a change handed on was let in when it arrived: it is not dropped now.
        let stays = packet.handed_on && self.plan.settings.excess == ExcessAction::Drop;
        if !conforms && !stays {
            member.policed += 1;
            return self.police(packet, sink);
        }
        let counts = member.guarantee.is_some();
        let verdict = self.inner.enqueue(now, packet, sink);
        if counts && verdict == Verdict::Queued {
            if self.backlog == 0 {
                self.since = now;
            }
            self.backlog += 1;
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let mut counting = CountingSink {
            outer: sink,
            members: &self.members,
            routes: &self.plan.routes,
            dropped: 0,
        };
        let next = self.inner.dequeue(now, &mut counting);
        self.backlog = self.backlog.saturating_sub(counting.dropped);
        if let Next::Ready(packet) = next {
            self.departed(now, &packet, true, sink);
            return Next::Ready(packet);
        }
        match self.excess.pop_front() {
            Some(packet) => {
                self.departed(now, &packet, false, sink);
                Next::Ready(packet)
            }
            None => next,
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.inner.flush(portion, sink);
        if portion.flush(sink, || self.excess.pop_front()) {
            self.backlog = 0;
        }
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("ahead", Value::Duration(self.ahead));
        out.gauge("idle", Value::Duration(self.idle));
        out.gauge("excess", Value::Count(self.excess.len() as u64));
        self.inner.inspect(out);
        out.amend(|id, out| {
            let number = self.plan.numbers.own(id.0);
            let Some(member) = number.and_then(|number| self.members.get(number)) else {
                return;
            };
            let Some(guarantee) = member.guarantee else { return };
            out.gauge("guaranteed", Value::Duration(guarantee.delay));
            out.gauge("bound", Value::Duration(shown(guarantee.bound)));
            out.gauge("worst", Value::Duration(member.worst));
            out.gauge("late", Value::Count(member.late));
            out.gauge("held-up", Value::Count(member.held_up));
            out.gauge("policed", Value::Count(member.policed));
        });
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let Some(plan) = plan_of(plan).filter(|plan| plan.is_like(&self.plan)) else {
            return false;
        };
        let adopted = self.inner.retune(now, plan.inner.plan.as_ref());
        self.adopt(plan);
        (0..self.members.len()).for_each(|number| self.adopt_guarantee(now, number));
        adopted
    }

    fn leaf(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.inner.leaf(class)
    }

    fn retune_own(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let alike = |plan: &&IpsPlan| {
            let shape = |plan: &IpsPlan| (plan.settings.over, plan.classes.len());
            shape(plan) == shape(&self.plan)
        };
        let plan = plan_of(plan).filter(alike);
        let adopted = plan.filter(|plan| self.inner.retune_own(now, &*plan.inner.plan));
        adopted.iter().for_each(|plan| self.adopt(plan));
        adopted.is_some()
    }

    fn retune_class(&mut self, now: Instant, plan: &dyn Plan, class: ClassId) -> bool {
        let known = plan_of(plan).and_then(|plan| {
            let number = plan.numbers.own(class.0)?;
            let known = |plan: &IpsPlan| plan.classes.get(number).map(|class| class.id) == Some(class);
            (known(plan) && known(&self.plan)).then_some((plan, number))
        });
        let Some((plan, number)) = known else {
            return false;
        };
        let adopted = self.inner.retune_class(now, &*plan.inner.plan, class);
        if adopted {
            self.adopt(plan);
            self.adopt_guarantee(now, number);
        }
        adopted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::View;
    use crate::queue::Queue;
    use crate::random::Seed;
    use crate::shaped_queue::{ShapedQueue, hand_over};
    use crate::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};

    const FRAME: u64 = 1_518;
    const LINK: Link = Link::new(Bandwidth::mbit(10), Bytes::new(FRAME));

    #[derive(Default)]
    struct DropLog(Vec<(u32, Reason)>);

    impl Sink for DropLog {
        fn drop(&mut self, packet: Packet, why: Reason) {
            self.0.push((packet.class.0, why));
        }
    }

    /// A class: packets of its burst, kbit/s, milliseconds. The default class is best effort.
    fn spec(settings: Table, classes: &[(u64, u64, u64)]) -> DisciplineSpec {
        let guarantee = |(number, (packets, kbit, millis)): (usize, &(u64, u64, u64))| ClassSpec {
            name: format!("flow {}", number + 1).into(),
            settings: Table::default()
                .text("rate", &format!("{kbit} kbit/s"))
                .text("burst", &format!("{} B", packets * FRAME))
                .text("delay", &format!("{millis} ms"))
                .text("jitter", "0 s"),
            ..ClassSpec::default()
        };
        let rest = ClassSpec {
            name: "rest".into(),
            default: true,
            ..ClassSpec::default()
        };
        let classes = classes.iter().enumerate().map(guarantee).chain([rest]).collect();
        DisciplineSpec {
            classes,
            settings,
            ..DisciplineSpec::new("ips")
        }
    }

    fn plan(spec: &DisciplineSpec) -> Result<TreePlan, Vec<Problem>> {
        spec.check(&Registry::builtin(), LINK)
    }

    fn queue(settings: Table, classes: &[(u64, u64, u64)]) -> Queue {
        plan(&spec(settings, classes))
            .expect("a good plan")
            .build(Seed(1))
    }

    fn offer(queue: &mut Queue, now: Instant, class: u32, sink: &mut DropLog) {
        let _ = queue.enqueue(now, Packet::new(Bytes::new(FRAME), now, ClassId(class)), sink);
    }

    fn order(queue: &mut Queue, sink: &mut DropLog) -> Vec<u32> {
        let next = || match queue.dequeue(Instant::START, sink) {
            Next::Ready(packet) => Some(packet.class.0),
            _ => None,
        };
        std::iter::from_fn(next).collect()
    }

    fn gauge(queue: &Queue, class: u32, name: &str) -> Value {
        let mut views: Vec<View> = Vec::new();
        queue.inspect(&mut Inspection::new(&mut views));
        let view = views
            .iter()
            .find(|view| view.class == Some(ClassId(class)))
            .expect("a class");
        view.gauges
            .iter()
            .find(|gauge| gauge.0 == name)
            .expect("a gauge")
            .1
    }

    #[test]
    fn the_shorter_delay_goes_first_and_best_effort_last() {
        for over in ["priq", "cbq"] {
            let (mut queue, mut dropped) = (
                queue(
                    Table::default().text("over", over),
                    &[(2, 1_000, 30), (2, 1_000, 5)],
                ),
                DropLog::default(),
            );
            for class in [2, 0, 1, 2, 0, 1] {
                offer(&mut queue, Instant::START, class, &mut dropped);
            }
            assert_eq!(order(&mut queue, &mut dropped), [1, 1, 0, 0, 2, 2], "{over}");
            assert!(dropped.0.is_empty());
        }
    }

    #[test]
    fn packets_beyond_the_arrival_curve_are_dropped_or_sent_last() {
        let (mut drop, mut dropped) = (queue(Table::default(), &[(2, 1_000, 30)]), DropLog::default());
        (0..3).for_each(|_| offer(&mut drop, Instant::START, 0, &mut dropped));
        assert_eq!(dropped.0, [(0, Reason::Policed)]);
        assert_eq!(gauge(&drop, 0, "policed"), Value::Count(1));
        let (mut last, mut dropped) = (
            queue(Table::default().text("excess", "last"), &[(2, 1_000, 30)]),
            DropLog::default(),
        );
        for class in [0, 0, 0, 1] {
            offer(&mut last, Instant::START, class, &mut dropped);
        }
        assert_eq!(order(&mut last, &mut dropped), [0, 0, 1, 0]);
        assert!(dropped.0.is_empty());
    }

    #[test]
    fn the_policer_is_exact() {
        let (mut queue, mut dropped) = (queue(Table::default(), &[(1, 1_000, 30)]), DropLog::default());
        // 1,518 bytes at 1 Mbit/s are 12.144 ms.
        for nanos in [0, 12_143_999, 12_144_000, 24_287_999, 24_288_000] {
            offer(&mut queue, Instant::from_nanos(nanos), 0, &mut dropped);
            let _ = queue.dequeue(Instant::from_nanos(nanos), &mut dropped);
        }
        assert_eq!((dropped.0.len(), queue.stats().sent.packets), (2, 3));
    }

    #[test]
    fn packets_that_a_change_hands_on_are_not_policed_again() {
        let classes = |rate| [(8, 2_000, 20), (2, rate, 60)];
        let plan = |rate| plan(&spec(Table::default(), &classes(rate))).expect("a good plan");
        let mut queue = ShapedQueue::new(plan(2_000).build(Seed(1)), None);
        let mut dropped = DropLog::default();
        let offer = |queue: &mut ShapedQueue, nanos, dropped: &mut DropLog| {
            let now = Instant::from_nanos(nanos);
            let packet = Packet::new(Bytes::new(FRAME), now, ClassId(1));
            let _ = queue.enqueue(now, packet, dropped);
        };
        // A burst of two, and then what 2 Mbit/s brings: more than one bucket, behind class 0.
        for nanos in [0, 0, 6_072_000, 12_144_000] {
            offer(&mut queue, nanos, &mut dropped);
        }
        let now = Instant::from_nanos(12_144_000);
        // The same, and then a lower rate.
        for rate in [2_000, 1_900] {
            let packets = hand_over(&mut queue.replace(now, plan(rate).build(Seed(1)), Some));
            for packet in packets {
                let _ = queue.enqueue(now, packet, &mut dropped);
            }
        }
        assert!(dropped.0.is_empty(), "{:?}", dropped.0);
        // The bucket is as empty as it was.
        offer(&mut queue, 12_144_000, &mut dropped);
        assert_eq!(dropped.0, [(1, Reason::Policed)]);
    }

    /// As it declares: over `priq` it never waits with a backlog, whatever comes.
    #[test]
    fn over_priq_it_conserves_work_and_over_cbq_it_may_wait() {
        let over = |scheduler: &str| {
            let settings = Table::default().text("over", scheduler).text("excess", "last");
            plan(&spec(settings, &[(1, 1_000, 60), (1, 500, 90)])).expect("a good plan")
        };
        let [priq, cbq] = ["priq", "cbq"].map(over);
        assert!(priq.root.conserves_work() && !cbq.root.conserves_work());
        let (mut queue, mut dropped) = (priq.build(Seed(1)), DropLog::default());
        let mut rng = Seed(7).stream();
        let mut waiting = 0;
        for step in 0..20_000_u64 {
            let now = Instant::from_nanos(step * 300_000);
            for _ in 0..rng.below(3) {
                offer(&mut queue, now, rng.below(3) as u32, &mut dropped);
            }
            waiting = waiting.max(queue.backlog().packets);
            let backlog = queue.backlog().packets > 0;
            let next = queue.dequeue(now, &mut dropped);
            assert_eq!(matches!(next, Next::Ready(_)), backlog, "step {step}: {next:?}");
        }
        assert!(waiting > 5, "too little came");
    }

    #[test]
    fn packets_that_came_nearer_to_each_other_on_the_way_are_not_policed() {
        let dropped = |jitter: Option<&str>, late: u64| {
            let mut spec = spec(Table::default(), &[(1, 1_000, 30)]);
            let settings = &mut spec.classes[0].settings;
            settings.entries.retain(|entry| entry.key != "jitter");
            if let Some(jitter) = jitter {
                *settings = std::mem::take(settings).text("jitter", jitter);
            }
            let mut queue = plan(&spec).expect("a good plan").build(Seed(1));
            let mut dropped = DropLog::default();
            // Sent every 12.144 ms, what 1,518 bytes at 1 Mbit/s take; the second is late.
            for nanos in [0, 12_144_000 + late, 24_288_000] {
                offer(&mut queue, Instant::from_nanos(nanos), 0, &mut dropped);
                let _ = queue.dequeue(Instant::from_nanos(nanos), &mut dropped);
            }
            dropped.0.len()
        };
        assert_eq!((dropped(None, 1_000_000), dropped(None, 1_010_000)), (0, 1));
        assert_eq!((dropped(Some("0 s"), 0), dropped(Some("0 s"), 10_000)), (0, 1));
        assert_eq!(
            (dropped(Some("4 ms"), 4_000_000), dropped(Some("4 ms"), 4_010_000)),
            (0, 1)
        );
    }

    #[test]
    fn a_late_packet_is_counted_and_so_is_its_cause() {
        let (mut queue, mut dropped) = (queue(Table::default(), &[(2, 1_000, 5)]), DropLog::default());
        offer(&mut queue, Instant::START, 0, &mut dropped);
        let _ = queue.dequeue(Instant::START, &mut dropped);
        assert_eq!(gauge(&queue, 0, "late"), Value::Count(0));
        offer(&mut queue, Instant::from_nanos(20_000_000), 0, &mut dropped);
        let _ = queue.dequeue(Instant::from_nanos(24_000_000), &mut dropped);
        assert_eq!(gauge(&queue, 0, "late"), Value::Count(1));
        assert_eq!(
            gauge(&queue, 0, "worst"),
            Value::Duration(Duration::from_nanos(5_214_400))
        );
        let mut views = Vec::new();
        queue.inspect(&mut Inspection::new(&mut views));
        assert!(
            views[0]
                .gauges
                .contains(&("idle", Value::Duration(Duration::from_millis(4)))),
            "{:?}",
            views[0]
        );
    }

    /// A host that held every packet up for so long.
    struct HeldUp(Duration);

    impl Sink for HeldUp {
        fn drop(&mut self, packet: Packet, why: Reason) {
            panic!("{packet:?}: {why:?}");
        }

        fn held_up(&self, _arrived: Instant, _now: Instant) -> Duration {
            self.0
        }
    }

    /// 5 and 40 ms are promised. A link that stands still for 4 ms makes the second class later by
    /// 5 ms, as the first goes on sending at 2 of its 10 Mbit/s.
    #[test]
    fn what_is_late_since_the_host_held_it_up_is_counted_apart_and_no_more() {
        let counted = |class: u32, delay: u64, late: u64, held_up: u64| {
            let mut queue = queue(Table::default(), &[(2, 2_000, 5), (2, 1_000, 40)]);
            let mut sink = HeldUp(Duration::from_nanos(held_up));
            let _ = queue.enqueue(
                Instant::START,
                Packet::new(Bytes::new(FRAME), Instant::START, ClassId(class)),
                &mut sink,
            );
            let on_the_link = LINK.bandwidth.time_to_send(Bytes::new(FRAME)).nanos();
            let left = Instant::from_nanos(delay * 1_000_000 - on_the_link + late);
            assert!(matches!(queue.dequeue(left, &mut sink), Next::Ready(_)));
            ["late", "held-up"].map(|name| gauge(&queue, class, name))
        };
        let [none, one] = [Value::Count(0), Value::Count(1)];
        assert_eq!(counted(0, 5, 0, 0), [none, none], "in time");
        assert_eq!(counted(0, 5, 1, 0), [one, none]);
        assert_eq!(counted(0, 5, 4_000_000, 4_000_000), [none, one]);
        assert_eq!(counted(0, 5, 4_000_001, 4_000_000), [one, none]);
        assert_eq!(counted(1, 40, 5_000_000, 4_000_000), [none, one]);
        assert_eq!(counted(1, 40, 5_000_001, 4_000_000), [one, none]);
    }

    #[test]
    fn a_delay_that_cannot_be_guaranteed_is_refused_with_the_numbers() {
        let problems = plan(&spec(Table::default(), &[(8, 1_910, 10)])).expect_err("11 ms");
        assert_eq!(
            problems[0].message,
            "`flow 1` asks for 10 ms, and 10.93 ms is possible"
        );
        let help = "it would fit with a delay of 10.93 ms, or with a burst of 10.982 kB";
        assert_eq!(problems[0].help.as_deref(), Some(help));
        assert!(plan(&spec(Table::default().text("rule", "paper"), &[(8, 1_910, 10)])).is_ok());
        let problems = spec(Table::default(), &[(8, 1_910, 13)])
            .check(&Registry::builtin(), LINK.with_ring(3))
            .expect_err("13.36 ms");
        assert_eq!(
            problems[0].message,
            "`flow 1` asks for 13 ms, and 13.359 ms is possible"
        );
    }

    #[test]
    fn an_incomplete_guarantee_is_refused() {
        let cases = [
            (
                Table::default().text("rate", "1 Mbit/s"),
                "has a rate, but no required delay",
            ),
            (
                Table::default().text("delay", "10 ms"),
                "requires a delay, but has no rate",
            ),
            (
                Table::default()
                    .text("delay", "9 ms")
                    .text("rate", "1 Mbit/s")
                    .text("burst", "9 B"),
                "from one full packet",
            ),
        ];
        for (settings, message) in cases {
            let mut spec = spec(Table::default(), &[(1, 1, 50)]);
            spec.classes[0].settings = settings;
            let problems = plan(&spec).expect_err("an incomplete guarantee");
            assert!(problems[0].message.contains(message), "{problems:?}");
        }
        let mut spec = spec(Table::default(), &[(1, 1, 50)]);
        spec.classes[0].discipline = Some(DisciplineSpec::new("codel"));
        let problems = plan(&spec).expect_err("out of order");
        assert!(
            problems[0].message.contains("cannot be a `codel`"),
            "{problems:?}"
        );
    }

    #[test]
    fn a_guarantee_changes_while_packets_are_queued() {
        let (mut queue, mut dropped) = (
            queue(Table::default(), &[(2, 1_000, 30), (2, 1_000, 5)]),
            DropLog::default(),
        );
        offer(&mut queue, Instant::START, 0, &mut dropped);
        offer(&mut queue, Instant::START, 1, &mut dropped);
        let other = plan(&spec(Table::default(), &[(2, 1_000, 4), (2, 1_000, 40)])).expect("a good plan");
        assert!(queue.retune(Instant::START, other.root.plan.as_ref()));
        assert_eq!(order(&mut queue, &mut dropped), [0, 1]);
        assert_eq!(
            gauge(&queue, 0, "guaranteed"),
            Value::Duration(Duration::from_millis(4))
        );
    }

    #[test]
    fn a_queue_has_room_for_what_comes_while_a_host_with_a_packet_loop_is_held_up() {
        let room = |lateness: u64, rule| {
            let link = LINK.with_lateness(Duration::from_nanos(lateness));
            while_held_up(link, rule, Bandwidth::mbit(8)).get()
        };
        assert_eq!(room(1, Rule::Sound), 50_000 + 1);
        assert_eq!(room(0, Rule::Sound), 0);
        assert_eq!(room(1, Rule::Paper), 0);
        assert_eq!(brought(Bandwidth::mbit(8), Duration::from_micros(3)).get(), 4);
        assert_eq!(brought(Bandwidth::mbit(8), Duration::ZERO).get(), 0);
    }

    /// What is said of one class with these settings, beside one of best effort.
    fn said(settings: Table) -> Option<String> {
        let mut spec = spec(Table::default(), &[(1, 1, 50)]);
        spec.classes[0].settings = settings;
        let problems = plan(&spec).err()?;
        problems.into_iter().next().map(|problem| problem.message)
    }

    #[test]
    fn a_burst_or_a_jitter_alone_asks_for_a_delay() {
        let says = |table: Table, words: &str| {
            let found = said(table);
            assert!(
                found.as_ref().is_some_and(|found| found.contains(words)),
                "{found:?}"
            );
        };
        says(
            Table::default().text("burst", "2 kB"),
            "has a burst, but no required delay",
        );
        says(
            Table::default().text("jitter", "1 ms"),
            "has a jitter, but no required delay",
        );
        let both = Table::default().text("burst", "2 kB").text("jitter", "1 ms");
        says(both, "has a burst, but no required delay");
        assert_eq!(said(Table::default()), None, "best effort");
        let rate = Table::default().text("rate", "0 bit/s").text("delay", "9 ms");
        says(rate, "`rate` must be more than 0");
    }

    #[test]
    fn a_burst_is_from_a_packet_to_a_gigabyte() {
        let is_refused_for_its_burst = |bytes: u64| {
            let table = Table::default().text("rate", "1 kbit/s").text("delay", "50 ms");
            let found = said(table.text("burst", &format!("{bytes} B")));
            found.is_some_and(|found| found.starts_with("`burst` must be from one full packet"))
        };
        let found = [FRAME - 1, FRAME, 1_000_000_000, 1_000_000_001].map(is_refused_for_its_burst);
        assert_eq!(found, [true, false, false, true]);
        // One of the limit is not refused for that, but for its delay.
        let table = Table::default().text("rate", "1 kbit/s").text("delay", "50 ms");
        let found = said(table.text("burst", "1000000000 B"));
        assert!(found.is_some_and(|found| found.contains("asks for 50 ms")));
    }

    #[test]
    fn more_delays_than_priorities_share_the_last_ones() {
        let classes: Vec<(u64, u64, u64)> = (1..=12).map(|n| (1, 100, 60 + 20 * n)).collect();
        for over in ["cbq", "priq"] {
            let found = plan(&spec(Table::default().text("over", over), &classes));
            assert!(found.is_ok(), "{over}: {found:?}");
        }
    }

    #[test]
    fn strict_priority_has_256_classes_at_most() {
        let good = |count: usize, over: &str| {
            let mut spec = spec(Table::default().text("over", over), &[]);
            let more = |number: usize| ClassSpec {
                name: format!("more {number}").into(),
                ..ClassSpec::default()
            };
            (1..count).for_each(|number| spec.classes.push(more(number)));
            match plan(&spec) {
                Ok(_) => true,
                Err(problems) => {
                    assert!(
                        problems[0].message.starts_with("more than 256 classes"),
                        "{problems:?}"
                    );
                    false
                }
            }
        };
        assert_eq!(
            [255, 256, 257, 300].map(|count| good(count, "priq")),
            [true, true, false, false]
        );
        assert!(good(257, "cbq"));
    }

    #[test]
    fn a_refusal_says_what_of_the_bound_is_the_devices() {
        let told = |link: Link| of_the_device(link, link.ahead(link.mtu));
        assert_eq!(told(LINK), "");
        assert_eq!(told(LINK.with_ring(1)), "");
        // Two packets of 1,518 bytes are before the one on the wire.
        let ring = "; 2.429 ms of it is for the 3 packets of the device's ring: see `transmit_ring`";
        assert_eq!(told(LINK.with_ring(3)), ring);
        let late = "; 2 ms is for a packet loop that runs late: see `lateness`";
        let lateness = Duration::from_millis(2);
        assert_eq!(told(LINK.with_lateness(lateness)), late);
        assert_eq!(
            told(LINK.with_ring(3).with_lateness(lateness)),
            format!("{ring}{late}")
        );
    }

    #[test]
    fn over_cbq_best_effort_divides_what_the_guarantees_leave() {
        let mut spec = spec(
            Table::default().text("over", "cbq"),
            &[(1, 1_000, 60), (1, 3_000, 90)],
        );
        spec.classes.push(ClassSpec {
            name: "more".into(),
            ..ClassSpec::default()
        });
        let queue = plan(&spec).expect("a good plan").build(Seed(1));
        let rates = [0, 1, 2, 3].map(|class| gauge(&queue, class, "rate"));
        assert_eq!(
            rates,
            [1, 3, 3, 3].map(|mbit| Value::Bandwidth(Bandwidth::mbit(mbit)))
        );
    }

    #[test]
    fn packets_in_excess_are_kept_up_to_a_limit_and_a_length() {
        let settings = Table::default().text("excess", "last").text("longest", "2 kB");
        let (mut queue, mut dropped) = (queue(settings, &[(1, 1_000, 60)]), DropLog::default());
        for n in 0..EXCESS_LIMIT + 3 {
            offer(&mut queue, Instant::START, 0, &mut dropped);
            assert_eq!(dropped.0.len(), (n + 1).saturating_sub(EXCESS_LIMIT + 1), "{n}");
        }
        assert_eq!(dropped.0, [(0, Reason::Full); 2]);
        let mut send = |len| {
            let packet = Packet::new(Bytes::new(len), Instant::START, ClassId(0));
            let _ = queue.enqueue(Instant::START, packet, &mut dropped);
        };
        send(2_000);
        send(2_001);
        assert_eq!(dropped.0[2..], [(0, Reason::Full), (0, Reason::Policed)]);
        let mut views = Vec::new();
        queue.inspect(&mut Inspection::new(&mut views));
        assert!(
            views[0]
                .gauges
                .contains(&("excess", Value::Count(EXCESS_LIMIT as u64)))
        );
    }

    #[test]
    fn a_wire_of_the_same_rate_stays_as_busy_as_it_is_when_guarantees_change() {
        let classes = |millis| [(3, 1_000, millis)];
        let (mut queue, mut dropped) = (queue(Table::default(), &classes(60)), DropLog::default());
        (0..2).for_each(|_| offer(&mut queue, Instant::START, 0, &mut dropped));
        let _ = queue.dequeue(Instant::START, &mut dropped);
        let other = plan(&spec(Table::default(), &classes(50))).expect("a good plan");
        assert!(queue.retune(Instant::START, other.root.plan.as_ref()));
        let _ = queue.dequeue(Instant::START, &mut dropped);
        // Two packets of 1.2144 ms.
        let worst = Value::Duration(Duration::from_nanos(2_428_800));
        assert_eq!(gauge(&queue, 0, "worst"), worst);
        let faster = Link::new(Bandwidth::mbit(20), Bytes::new(FRAME));
        let other = spec(Table::default(), &classes(50)).check(&Registry::builtin(), faster);
        assert!(queue.retune(Instant::START, other.expect("a good plan").root.plan.as_ref()));
        offer(&mut queue, Instant::START, 0, &mut dropped);
        let _ = queue.dequeue(Instant::START, &mut dropped);
        assert_eq!(gauge(&queue, 0, "worst"), worst, "an idle wire of another rate");
    }

    #[test]
    fn the_queues_of_its_classes_are_found() {
        let mut queue = queue(Table::default(), &[(1, 1_000, 60)]);
        let ips = queue.discipline_mut();
        assert!(ips.leaf(ClassId(0)).is_some() && ips.leaf(ClassId(1)).is_some());
        assert!(ips.leaf(ClassId(2)).is_none());
    }

    #[test]
    fn a_plan_of_the_same_classes_is_adopted_class_by_class() {
        let classes = |millis: u64| [(2, 1_000, 60), (2, 1_000, millis)];
        let of = |over: &str, classes: &[(u64, u64, u64)]| {
            let plan = plan(&spec(Table::default().text("over", over), classes));
            plan.expect("a good plan").root.plan
        };
        let guaranteed = |queue: &Queue, class| gauge(queue, class, "guaranteed");
        let millis = |n| Value::Duration(Duration::from_millis(n));
        let mut queue = queue(Table::default().text("over", "priq"), &classes(80));
        let fifo = DisciplineSpec::new("fifo").check(&Registry::builtin(), LINK);
        let fifo = fifo.expect("a good plan").root.plan;
        let cbq = of("cbq", &classes(90));
        let fewer = of("priq", &classes(90)[1..]);
        for wrong in [&fifo, &cbq, &fewer] {
            assert!(!queue.retune_own(Instant::START, &**wrong));
            assert!(!queue.retune(Instant::START, &**wrong));
        }
        assert!(!queue.retune_class(Instant::START, &*fifo, ClassId(1)));
        let other = of("priq", &classes(90));
        let former = of("priq", &classes(80));
        assert_eq!(other.changed_classes(&*former, false), Some(vec![ClassId(1)]));
        assert_eq!(other.changed_classes(&*other, false), Some(Vec::new()));
        assert_eq!(other.changed_classes(&*fewer, false), None);
        assert_eq!(cbq.changed_classes(&*other, false), None);
        assert!(!queue.retune_class(Instant::START, &*other, ClassId(3)));
        assert!(queue.retune_own(Instant::START, &*other));
        assert_eq!(guaranteed(&queue, 1), millis(80), "that is the class's");
        assert!(queue.retune_class(Instant::START, &*other, ClassId(1)));
        assert_eq!(
            [0, 1].map(|class| guaranteed(&queue, class)),
            [60, 90].map(millis)
        );
    }

    #[test]
    fn tokens_stay_up_to_the_new_burst_and_are_all_there_of_a_new_guarantee() {
        let guarantee = |burst| {
            let arrivals = ArrivalCurve {
                rate: Bandwidth::mbit(8),
                burst: Bytes::new(burst),
            };
            Some(Guarantee {
                arrivals,
                delay: Duration::from_millis(9),
                bound: Duration::from_millis(8),
                queue: Bytes::new(burst),
                left: Bandwidth::mbit(2),
            })
        };
        let mut member = Member::new(guarantee(5_000));
        let tokens = |member: &Member| member.tokens.left / nanobits(1);
        assert_eq!(tokens(&member), 5_000);
        let packet = |len| Packet::new(Bytes::new(len), Instant::START, ClassId(0));
        assert!(!member.conforms(Instant::START, &packet(5_001)));
        assert!(member.conforms(Instant::START, &packet(5_000)));
        assert!(!member.conforms(Instant::START, &packet(1)));
        // A byte comes each microsecond.
        member.adopt(guarantee(9_000), 3_000_000);
        assert_eq!(tokens(&member), 3_000);
        member.adopt(guarantee(2_000), 3_000_000);
        assert_eq!(tokens(&member), 2_000);
        member.adopt(None, 3_000_000);
        assert!(member.conforms(Instant::START, &packet(1 << 30)), "best effort");
        member.adopt(guarantee(7_000), 3_000_000);
        assert_eq!(tokens(&member), 7_000);
    }

    #[test]
    fn a_flow_has_what_those_leave_that_go_before_it_or_beside_it() {
        let flow = |mbit: u64| {
            Some(FlowRequest {
                name: mbit.to_string(),
                arrivals: ArrivalCurve {
                    rate: Bandwidth::mbit(mbit),
                    burst: Bytes::new(FRAME),
                },
                delay: Duration::from_millis(9),
            })
        };
        let place = |priority| {
            Some(AdmittedPlace {
                priority,
                delay: Duration::from_millis(9),
                queue: Bytes::new(FRAME),
            })
        };
        let flows = [flow(1), flow(2), flow(4), None];
        let places = [place(5), place(5), place(3), None];
        let left = left_to_each(Bandwidth::mbit(10), &flows, &places);
        assert_eq!(left, [8, 9, 7, 3].map(Bandwidth::mbit));
    }
}
