//! A policy's tree with reservations in it: classes that come and go while packets flow.
//!
//! Follows ALTQ's use under RSVP (Cho 1999, section 3.4: a class for each reservation, under a
//! parent class of all) and the router of Maeshima, Ito, Ishikura and Asami, "RSVP bandwidth
//! guarantee by WRR on high-speed networks" (a queue for each reservation, one for best effort, and
//! a cycle that is divided among them). A policy's tree and a list of reservations give one tree,
//! computed anew for every list: what is in force does not depend on the order of requests.
//!
//! A reservation of rate *r* on a link of bandwidth *C*, lengths counted as the tree counts them,
//! becomes
//!
//! - under `wrr` ⌈*N r / C*⌉ of the *N* packets of a cycle. The paper rounds to the nearest, which
//!   may give less than was reserved. Rates hold only for packets of one length, so no delay is
//!   guaranteed;
//! - under `drr` a quantum *k r*, with one *k* for all classes, so large that the smallest quantum
//!   is a full packet. The policy's classes divide the rest of *k C* by their weights;
//! - under `cbq` a class of rate *r*, child of the class `reserved` that has the reservable part of
//!   the link.
//!
//! The signalling has a class of its own ([`SIGNALLING`]); otherwise a full link would drop the
//! refreshes, and reservations would time out. Under `wrr` and `drr` it shares the default class
//! with the other traffic there, in equal parts, and takes nothing from a guarantee; under `cbq` it
//! is guaranteed a hundredth of the reservable part.

mod place;

use crate::classify::Filter;
use crate::kind::Kind;
use crate::link::Link;
use crate::packet::ClassId;
use crate::reservation::{
    PARENT, PREFIX, RequestedShare, ReservableTree, ReservedClass, Reserves, SIGNALLING,
};
use crate::settings;
use crate::settings::{Problem, Span};
use crate::spec::DisciplineSpec;
use crate::tree::{Registry, TreePlan};
use crate::units::{Bandwidth, Duration, Rate};
use place::Place;

settings! {
    /// What of an interface may be reserved: `reserve = { share = "75 %" }`.
    pub struct ReserveSettings {
        /// The part of the bandwidth that reservations may fill; the rest stays for all else
        share: Rate = default "75 %",
            "too small: reservations are refused while the link idles; too large: all else starves when everything is reserved and used",
            "what vendors of routers chose";
        /// The least that one reservation counts as (drr)
        smallest: Rate = default "1 %",
            "too small: many reservations make turns long, and so delays; too large: small flows take more than they need",
            "a hundred turns' worth of packets at most";
        /// The most that one reservation may be
        largest: Rate = derived "`share`",
            "too small: large flows are refused; too large: one flow takes all there is",
            "whoever comes first";
        /// What guaranteed service may wait here at most beyond its own rate
        /// (drr, cbq, hfsc, ips, pacer): D of RFC 2212
        delay: Duration = derived "drr: what `smallest` leads to at worst; others: none, and guaranteed service is refused",
            "too small: requests are refused that others' delays do not allow; too large: receivers must reserve more for the delay that they want",
            "RFC 2212, section 2";
        /// The class in whose discipline reservations get their classes; `share` is then of what
        /// that class is guaranteed
        class: String = derived "none: the interface's own discipline",
            "-",
            "-";
    }
}

/// RSVP's protocol number.
const RSVP: u8 = 46;

/// A policy's tree that takes reservations.
#[derive(Clone, Debug)]
pub struct Reservable {
    /// The whole.
    spec: DisciplineSpec,
    link: Link,
    /// Where in it reservations get classes.
    place: Place,
    tree: ReservableTree,
    kind: &'static Kind,
    reserves: &'static dyn Reserves,
    registry: Registry,
}

/// A tree with reservations in it, checked.
#[derive(Clone, Debug)]
pub struct ReservedLayout {
    /// As specified.
    pub spec: DisciplineSpec,
    /// As checked.
    pub plan: TreePlan,
    /// The policy's filters and the reservations', for the plan's classes.
    pub filters: Vec<Filter>,
}

impl Reservable {
    /// The policy's tree on this link; `at` is where the policy sets a part aside.
    ///
    /// # Errors
    /// Every reason why the tree cannot take reservations.
    pub fn new(
        registry: &Registry,
        spec: &DisciplineSpec,
        link: Link,
        settings: &ReserveSettings,
        at: Span,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        refuse_names(spec, &mut problems);
        let one = |problem: Problem| vec![problem];
        let class = settings.class.as_deref();
        let place = Place::find(registry, spec, class, at).map_err(one)?;
        let here = place.of(spec).unwrap_or(spec);
        let (kind, reserves) = kind_there(registry, here, at).map_err(one)?;
        let there = match place.is_outermost() {
            true => link,
            false => place::link_at(&spec.check(registry, link)?, class, kind, at).map_err(one)?,
        };
        let (share, smallest, largest) = parts(settings, there, at, &mut problems);
        if settings.delay.is_some() {
            problems.extend(no_delay(registry, kind, at));
        }
        let requested = RequestedShare {
            spec: here,
            link: there,
            share,
            at,
        };
        let capacity = reserves.capacity(&requested, &mut problems);
        let tree = ReservableTree {
            spec: here.clone(),
            link: there,
            capacity,
            smallest,
            largest: largest.min(capacity),
        };
        let this = Self {
            spec: spec.clone(),
            link,
            place,
            tree,
            kind,
            reserves,
            registry: registry.clone(),
        };
        if problems.is_empty() {
            // A problem of the policy's own was reported when it was checked without reservations.
            this.spec_with(&[]).check(registry, link).map(|_| this)
        } else {
            Err(problems)
        }
    }

    /// The sum of all reservations at most.
    pub fn capacity(&self) -> Bandwidth {
        self.tree.capacity
    }

    /// What a reservation counts as at least.
    pub fn smallest(&self) -> Bandwidth {
        self.tree.smallest
    }

    /// The largest reservation.
    pub fn largest(&self) -> Bandwidth {
        self.tree.largest
    }

    /// The link.
    pub fn link(&self) -> Link {
        self.link
    }

    /// The policy's tree.
    pub fn spec(&self) -> &DisciplineSpec {
        &self.spec
    }

    /// The kind whose classes reservations become.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Whether a delay can be guaranteed.
    pub fn bounds_delays(&self) -> bool {
        self.reserves.bounds_delays()
    }

    /// Whether requests without a guaranteed delay, too, are tried in the tree: it may refuse what
    /// is within the capacity.
    pub fn refuses(&self) -> bool {
        self.reserves.refuses()
    }

    /// The worst delay of a packet that finds its own class empty, whatever other reservations are
    /// admitted; none if it is not known.
    pub fn worst_delay(&self) -> Option<Duration> {
        let known = self.place.is_outermost();
        self.reserves.worst_delay(&self.tree).filter(|_| known)
    }

    /// What a reservation of this rate takes of [`Reservable::capacity`]: never less than the rate,
    /// to a bit per second.
    pub fn counts(&self, rate: Bandwidth) -> Bandwidth {
        self.reserves.counts(&self.tree, rate)
    }

    /// The tree with these reservations, whose rates add up to at most the capacity; and the
    /// policy's filters, which are for `plan`, with theirs.
    ///
    /// # Errors
    /// What is wrong with the tree.
    pub fn lay_out(
        &self,
        plan: &TreePlan,
        filters: &[Filter],
        reservations: &[ReservedClass],
    ) -> Result<ReservedLayout, Vec<Problem>> {
        let spec = self.spec_with(reservations);
        let new = spec.check(&self.registry, self.link)?;
        let by_name: std::collections::BTreeMap<&str, ClassId> = new
            .classes
            .iter()
            .zip(0..)
            .map(|(class, number)| (class.name.as_str(), ClassId(number)))
            .collect();
        let moved = filters.iter().filter_map(|filter| {
            let class = *by_name.get(plan.info(filter.class)?.name.as_str())?;
            Some(Filter { class, ..*filter })
        });
        let mut all: Vec<Filter> = moved.collect();
        for reserved in reservations {
            if let Some(&class) = by_name.get(reserved.name().as_str()) {
                all.extend(reserved.filters.iter().map(|filter| Filter { class, ..*filter }));
            }
        }
        if let Some(&class) = by_name.get(SIGNALLING) {
            all.push(Filter {
                rule: u32::MAX,
                protocol: Some(RSVP),
                ..Filter::new(class)
            });
        }
        Ok(ReservedLayout {
            spec,
            plan: new,
            filters: all,
        })
    }

    /// The tree with these reservations, unchecked.
    fn spec_with(&self, reservations: &[ReservedClass]) -> DisciplineSpec {
        let mut spec = self.spec.clone();
        if let Some(here) = self.place.of_mut(&mut spec) {
            self.reserves.add(&self.tree, here, reservations);
        }
        spec
    }
}

/// The kind of the discipline that is to take reservations.
fn kind_there(
    registry: &Registry,
    spec: &DisciplineSpec,
    at: Span,
) -> Result<(&'static Kind, &'static dyn Reserves), Problem> {
    let kind = registry.find(&spec.kind);
    let found = kind.and_then(|kind| Some((kind, kind.properties.reserves?)));
    found.ok_or_else(|| {
        let message = format!("`{}` has no room for reservations", spec.kind);
        Problem::new(at, message).help(format!("use {}", kinds_that_reserve(registry)))
    })
}

/// The part for reservations, and the least and the most of one.
fn parts(
    settings: &ReserveSettings,
    link: Link,
    at: Span,
    problems: &mut Vec<Problem>,
) -> (Bandwidth, Bandwidth, Bandwidth) {
    let share = settings.share.on(link.bandwidth);
    let smallest = settings.smallest.on(link.bandwidth);
    let largest = settings.largest.map_or(share, |rate| rate.on(link.bandwidth));
    if share == Bandwidth::ZERO || share >= link.bandwidth {
        problems.push(Problem::new(
            at,
            "`share` must be more than 0 % and less than 100 % of the link: all else needs a part of it",
        ));
    }
    if smallest == Bandwidth::ZERO || smallest > share || largest < smallest {
        problems.push(Problem::new(at, format!("`smallest` ({smallest}) must be more than 0 and at most `largest` ({largest}) and `share` ({share})")));
    }
    (share, smallest, largest)
}

/// Why no delay can be guaranteed, if so.
fn no_delay(registry: &Registry, kind: &Kind, at: Span) -> Option<Problem> {
    let reserves = kind.properties.reserves;
    if reserves.is_some_and(|reserves| reserves.bounds_delays()) {
        return None;
    }
    let message = format!("`delay`: `{}` guarantees no delay", kind.name);
    let help = format!("use {}, or leave it out", exact_kinds(registry));
    Some(Problem::new(at, message).help(help))
}

/// The kinds that take reservations; those without delays say so.
fn kinds_that_reserve(registry: &Registry) -> String {
    let words = |kind: &'static Kind| {
        let exact = kind.properties.reserves?.bounds_delays();
        Some(match exact {
            true => format!("`{}`", kind.name),
            false => format!("`{}`, without delays", kind.name),
        })
    };
    registry
        .kinds()
        .filter_map(words)
        .collect::<Vec<_>>()
        .join(", or ")
}

/// The kinds in which a delay can be guaranteed.
fn exact_kinds(registry: &Registry) -> String {
    let exact = |kind: &&Kind| {
        kind.properties
            .reserves
            .is_some_and(|reserves| reserves.bounds_delays())
    };
    let names: Vec<String> = registry
        .kinds()
        .filter(exact)
        .map(|kind| format!("`{}`", kind.name))
        .collect();
    names.join(" or ")
}

/// Refuses the names that reservations' classes have.
fn refuse_names(spec: &DisciplineSpec, problems: &mut Vec<Problem>) {
    for class in &spec.classes {
        let name = class.name.as_str();
        if [SIGNALLING, PARENT].contains(&name) || name.starts_with(PREFIX) {
            let message = format!("`{name}` is a name for classes of reservations");
            problems.push(Problem::new(class.at, message).help("give the class another name"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::ArrivalCurve;
    use crate::disciplines::drr;
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::sharing::reserved_classes::class;
    use crate::spec::ClassSpec;
    use crate::units::Bytes;
    use proptest::prelude::*;

    const C: Bandwidth = Bandwidth::mbit(100);

    fn link() -> Link {
        Link::new(C, Bytes::new(1538))
    }

    fn settings(share: &str, smallest: &str) -> ReserveSettings {
        let table = Table::default().text("share", share).text("smallest", smallest);
        ReserveSettings::read(&table, &[], &mut Vec::new()).expect("sound")
    }

    fn policy(kind: &str, word: Option<(&str, Raw)>) -> DisciplineSpec {
        let rest = |name: &str, weight: i64| {
            let settings = match kind {
                "cbq" => Table::default().with("rate", Bandwidth::mbit(weight.unsigned_abs())),
                "hfsc" => Table::default().with("linkshare", Bandwidth::mbit(weight.unsigned_abs())),
                "ips" | "pacer" => Table::default(),
                _ => Table::default().with("weight", Raw::Integer(weight)),
            };
            ClassSpec {
                default: name == "rest",
                ..class(name, settings)
            }
        };
        let mut spec = DisciplineSpec {
            classes: vec![rest("rest", 3), rest("mail", 1)].into(),
            ..DisciplineSpec::new(kind)
        };
        if let Some((key, value)) = word {
            spec.settings = spec.settings.with(key, value);
        }
        spec
    }

    fn reserved(number: u64, rate: Bandwidth) -> ReservedClass {
        let filters = vec![Filter {
            protocol: Some(17),
            ..Filter::new(ClassId(0))
        }];
        ReservedClass {
            number,
            rate,
            sends: ArrivalCurve {
                rate,
                burst: Bytes::new(3000),
            },
            least: Bytes::new(1538),
            latency: None,
            limit: 50,
            priority: 5,
            filters,
        }
    }

    fn room(kind: &str, word: Option<(&str, Raw)>, share: &str) -> Reservable {
        Reservable::new(
            &Registry::builtin(),
            &policy(kind, word),
            link(),
            &settings(share, "1 %"),
            Span::default(),
        )
        .expect("sound")
    }

    /// How many bytes of frames of this length each class sends while all are backlogged, in so
    /// many departures.
    fn departures(layout: &ReservedLayout, names: &[&str], count: usize) -> Vec<u64> {
        use crate::discipline::{Next, Sink};
        use crate::packet::Packet;
        use crate::units::Instant;
        struct Never;
        impl Sink for Never {
            fn drop(&mut self, _: Packet, why: crate::discipline::Reason) {
                panic!("dropped: {why:?}");
            }
            fn mark(&mut self, _: &Packet, _: crate::discipline::Reason) {}
        }
        let mut queue = layout.plan.build(Seed(1));
        let classes: Vec<ClassId> = names
            .iter()
            .map(|name| layout.plan.class(name).expect("it is there"))
            .collect();
        let mut now = Instant::START;
        let mut sent = vec![0; names.len()];
        let len = Bytes::new(1538);
        let put = |queue: &mut crate::queue::Queue, now, class| {
            let packet = Packet::new(len, now, class);
            let _ = queue.enqueue(now, packet, &mut Never);
        };
        classes
            .iter()
            .for_each(|&class| (0..2).for_each(|_| put(&mut queue, now, class)));
        for _ in 0..count {
            let packet = loop {
                match queue.dequeue(now, &mut Never) {
                    Next::Ready(packet) => break packet,
                    Next::Wait(until) => now = until,
                    Next::Empty => panic!("it has packets"),
                }
            };
            now = now + C.time_to_send(len);
            let place = classes
                .iter()
                .position(|&class| class == packet.class)
                .expect("one of ours");
            sent[place] += packet.len.get();
            put(&mut queue, now, packet.class);
        }
        sent
    }

    #[test]
    fn every_kind_gives_what_is_reserved_and_the_rest_by_weight() {
        let ten = Some(("cycle", Raw::Integer(10)));
        let others = ["drr", "cbq", "hfsc", "pacer"].map(|kind| (kind, None));
        for (kind, word) in [("wrr", ten)].into_iter().chain(others) {
            let room = room(kind, word, "60 %");
            let policy = policy(kind, None)
                .check(&Registry::builtin(), link())
                .expect("sound");
            let list = [
                reserved(1, room.counts(Bandwidth::mbit(40))),
                reserved(2, room.counts(Bandwidth::mbit(10))),
            ];
            let layout = room.lay_out(&policy, &[], &list).expect("it fits");
            let rest = match kind {
                "cbq" | "hfsc" | "pacer" => "rest",
                _ => "rest-other",
            };
            let sent = departures(&layout, &["resv-1", "resv-2", rest, "mail"], 20_000);
            let share = |place: usize| sent[place] as f64 / (20_000.0 * 1538.0);
            assert!(share(0) > 0.399 && share(1) > 0.099, "{kind}: {sent:?}");
            if kind == "pacer" {
                assert!(share(0) < 0.405 && share(1) < 0.105, "{kind}: {sent:?}");
            } else if !["cbq", "hfsc"].contains(&kind) {
                assert!(share(0) < 0.405 && share(2) > 0.37, "{kind}: {sent:?}");
            }
        }
    }

    #[test]
    fn a_kind_from_outside_the_tree_takes_reservations() {
        static OUTSIDE: Kind = Kind {
            name: "outside",
            summary: "",
            reference: "",
            children: drr::KIND.children,
            settings: drr::KIND.settings,
            class_settings: drr::KIND.class_settings,
            properties: drr::KIND.properties,
            check: drr::KIND.check,
        };
        let registry = Registry::builtin().with(&OUTSIDE);
        let spec = policy("outside", None);
        let settings = settings("75 %", "1 %");
        let room = Reservable::new(&registry, &spec, link(), &settings, Span::default()).expect("room");
        let plan = spec.check(&registry, link()).expect("sound");
        let list = [reserved(1, room.counts(Bandwidth::mbit(40)))];
        let layout = room.lay_out(&plan, &[], &list).expect("it fits");
        assert!(layout.plan.class("resv-1").is_some());
        assert!(room.bounds_delays() && room.worst_delay().is_some());
        let refused = Reservable::new(
            &registry,
            &policy("priq", None),
            link(),
            &settings,
            Span::default(),
        );
        let help = refused.expect_err("no room")[0].help.clone();
        assert_eq!(
            help.as_deref(),
            Some(
                "use `cbq`, or `drr`, or `wrr`, without delays, or `hfsc`, or `ips`, or `pacer`, or `outside`"
            )
        );
    }

    #[test]
    fn what_counts_is_what_the_discipline_can_give() {
        let ten = Some(("cycle", Raw::Integer(10)));
        let wrr = room("wrr", ten, "75 %");
        assert_eq!(
            wrr.counts(Bandwidth::mbit(31)),
            Bandwidth::mbit(40),
            "4 packets of 10"
        );
        assert_eq!(wrr.capacity(), Bandwidth::mbit(70), "7 packets of 10");
        let drr = room("drr", None, "75 %");
        assert_eq!(drr.counts(Bandwidth::kbit(64)), Bandwidth::mbit(1), "`smallest`");
        assert_eq!(
            room("cbq", None, "75 %").counts(Bandwidth::kbit(64)),
            Bandwidth::kbit(64)
        );
        assert!(!wrr.bounds_delays() && drr.bounds_delays());
    }

    /// The simulated router found it, by a forged message: in `wrr` any rate beyond what 64 bits
    /// hold of whole packets counted as next to nothing, and was admitted.
    #[test]
    fn whatever_is_asked_for_counts_as_much_at_least() {
        for kind in ["drr", "wrr", "cbq", "hfsc", "pacer", "ips"] {
            let room = room(kind, None, "50 %");
            for shift in 0..64 {
                let rate = Bandwidth::bits_per_sec(u64::MAX >> shift);
                let counted = room.counts(rate);
                // To a bit per second.
                assert!(
                    counted.bits() >= rate.bits() - 1,
                    "{kind}: {rate} counts as {counted}"
                );
                assert!(
                    rate <= room.capacity() || counted > room.capacity(),
                    "{kind}: {rate}"
                );
            }
        }
    }

    #[test]
    fn what_cannot_hold_is_refused_where_it_stands() {
        let refused = |kind: &str, word, share: &str, smallest: &str| {
            let at = Span::new(7, 9);
            let problems = Reservable::new(
                &Registry::builtin(),
                &policy(kind, word),
                link(),
                &settings(share, smallest),
                at,
            );
            problems.map(|_| ()).expect_err("it cannot hold")
        };
        for (kind, word, share, smallest, why) in [
            ("priq", None, "75 %", "1 %", "`priq` has no room for reservations"),
            (
                "drr",
                None,
                "100 %",
                "1 %",
                "`share` must be more than 0 % and less than 100 %",
            ),
            ("drr", None, "10 %", "20 %", "`smallest` (20 Mbit/s) must be"),
            (
                "cbq",
                None,
                "97 %",
                "1 %",
                "are guaranteed 4 Mbit/s, and 97 Mbit/s can be reserved",
            ),
            (
                "wrr",
                Some(("cycle", Raw::Integer(4))),
                "75 %",
                "1 %",
                "a cycle of 4 packets has 3 to reserve, and 1 for the 2 classes",
            ),
        ] {
            let problems = refused(kind, word, share, smallest);
            assert!(problems[0].message.contains(why), "{kind}: {problems:?}");
        }
        let mut spec = policy("drr", None);
        spec.classes[1].name = "resv-x".into();
        spec.classes[0].settings = Table::default().text("quantum", "3 kB");
        let problems = Reservable::new(
            &Registry::builtin(),
            &spec,
            link(),
            &settings("75 %", "1 %"),
            Span::default(),
        )
        .expect_err("names");
        let said: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert!(
            said[0].contains("`resv-x`") && said[1].contains("`quantum`"),
            "{said:?}"
        );
    }

    #[test]
    fn filters_move_with_their_classes_and_the_signalling_has_its_own() {
        let mut spec = policy("drr", None);
        // A class with classes inside: its own come after all of the first level, and so move.
        spec.classes[1].discipline = Some(policy("wrr", None));
        spec.classes[1]
            .discipline
            .iter_mut()
            .flat_map(|inner| &mut inner.classes)
            .zip(["a", "b"])
            .for_each(|(class, name)| {
                (class.settings, class.default) = (Table::default(), name == "a");
                class.name = name.into();
            });
        let plan = spec.check(&Registry::builtin(), link()).expect("sound");
        let room = Reservable::new(
            &Registry::builtin(),
            &spec,
            link(),
            &settings("75 %", "1 %"),
            Span::default(),
        )
        .expect("sound");
        let b = plan.class("b").expect("it is there");
        let list = [reserved(9, Bandwidth::mbit(1))];
        let layout = room.lay_out(&plan, &[Filter::new(b)], &list).expect("it fits");
        let name = |filter: &Filter| layout.plan.info(filter.class).map(|info| info.name.clone());
        let names: Vec<_> = layout.filters.iter().filter_map(name).collect();
        assert_eq!(names, ["b", "resv-9", "rsvp"]);
        assert_ne!(layout.filters[0].class, b, "it has moved");
        let default = layout
            .plan
            .default
            .and_then(|id| layout.plan.info(id))
            .map(|info| info.name.as_str());
        assert_eq!(default, Some("rest-other"));
    }

    proptest! {
        #[test]
        fn whatever_fits_the_capacity_lays_out_and_gets_its_part(
            rates in prop::collection::vec(1_000u64..30_000_000, 0..60),
            cycle in 10i64..2_000,
        ) {
            let others = ["drr", "cbq", "hfsc", "ips", "pacer"].map(|kind| (kind, None));
            for (kind, word) in [("wrr", Some(("cycle", Raw::Integer(cycle))))].into_iter().chain(others) {
                let room = room(kind, word, "75 %");
                let mut left = room.capacity();
                let mut list = Vec::new();
                for (number, &bits) in (1..).zip(&rates) {
                    let counts = room.counts(Bandwidth::bits_per_sec(bits));
                    if counts <= left {
                        left -= counts;
                        list.push(reserved(number, counts));
                    }
                }
                let plan = policy(kind, None).check(&Registry::builtin(), link()).expect("sound");
                let layout = room.lay_out(&plan, &[], &list);
                let layout = layout.map_err(|problems| TestCaseError::fail(format!("{kind}: {problems:?}")))?;
                let part = |class: &ClassSpec| match class.settings.get("quantum").or(class.settings.get("weight")) {
                    Some(entry) => match &entry.value {
                        Raw::Bytes(quantum) => quantum.get(),
                        Raw::Integer(n) => n.unsigned_abs(),
                        _ => 0,
                    },
                    None => 0,
                };
                let whole: u128 = layout.spec.classes.iter().map(|class| u128::from(part(class))).sum();
                for reserved in list.iter().filter(|_| ["wrr", "drr"].contains(&kind)) {
                    let own = layout.spec.classes.iter().find(|class| class.name == reserved.name()).map_or(0, part);
                    // A bit per second is less than what `counts` may round.
                    let requested = u128::from(reserved.rate.bits()) * whole;
                    prop_assert!(u128::from(own) * u128::from(C.bits()) >= requested, "{} {} of {}", kind, own, whole);
                    let info = layout.plan.class(&reserved.name()).and_then(|id| layout.plan.info(id).cloned());
                    prop_assert_eq!(info.and_then(|info| info.arrivals), Some(reserved.sends));
                }
            }
        }
    }

    #[test]
    fn the_parts_of_a_reservation_are_within_each_other_and_the_link() {
        let told = |share: &str, smallest: &str, largest: Option<&str>| {
            let mut settings = settings(share, smallest);
            settings.largest = largest.map(|largest| largest.parse().expect("a rate"));
            let mut problems = Vec::new();
            let (share, smallest, largest) = parts(&settings, link(), Span::default(), &mut problems);
            let bits = [share, smallest, largest].map(|rate| rate.bits() / 1_000_000);
            (bits, problems.len())
        };
        assert_eq!(told("60 %", "1 %", None), ([60, 1, 60], 0));
        assert_eq!(told("60 %", "1 %", Some("20 Mbit/s")), ([60, 1, 20], 0));
        assert_eq!(told("99 %", "99 %", None), ([99, 99, 99], 0));
        assert_eq!(told("100 %", "1 %", None), ([100, 1, 100], 1));
        assert_eq!(told("200 Mbit/s", "1 %", None), ([200, 1, 200], 1));
        assert_eq!(told("0 %", "0 %", None), ([0, 0, 0], 2));
        assert_eq!(told("60 %", "0 %", None), ([60, 0, 60], 1));
        assert_eq!(told("10 %", "11 %", Some("50 %")), ([10, 11, 50], 1));
        assert_eq!(told("60 %", "10 %", Some("9 %")), ([60, 10, 9], 1));
        assert_eq!(told("60 %", "10 %", Some("10 %")), ([60, 10, 10], 0));
    }

    #[test]
    fn the_largest_reservation_is_what_is_stated_and_never_more_than_the_capacity() {
        let of = |largest: Option<&str>| {
            let mut settings = settings("60 %", "2 %");
            settings.largest = largest.map(|largest| largest.parse().expect("a rate"));
            let (registry, policy) = (Registry::builtin(), policy("cbq", None));
            let room =
                Reservable::new(&registry, &policy, link(), &settings, Span::default()).expect("sound");
            let sizes = (room.smallest(), room.largest(), room.capacity());
            assert_eq!(
                (room.link(), room.kind().name, room.spec()),
                (link(), "cbq", &policy)
            );
            assert!(room.bounds_delays() && !room.refuses());
            sizes
        };
        let capacity = Bandwidth::kbit(59_400);
        let (two, twenty) = (Bandwidth::mbit(2), Bandwidth::mbit(20));
        assert_eq!(of(Some("20 %")), (two, twenty, capacity));
        assert_eq!(of(None), (two, capacity, capacity), "the signalling has the rest");
    }

    #[test]
    fn a_class_that_is_not_there_is_told_with_those_that_have_a_discipline() {
        let holder = |name: &str, inner: DisciplineSpec| ClassSpec {
            discipline: Some(inner),
            ..class(name, Table::default())
        };
        let of = |classes: Vec<ClassSpec>| DisciplineSpec {
            classes: classes.into(),
            ..DisciplineSpec::new("drr")
        };
        let inner = of(vec![
            holder("b", DisciplineSpec::new("fifo")),
            class("c", Table::default()),
        ]);
        let shaped = DisciplineSpec {
            child: Some(Box::new(of(vec![
                holder("a", inner),
                class("d", Table::default()),
            ]))),
            ..DisciplineSpec::new("tbf")
        };
        let find = |name| Place::find(&Registry::builtin(), &shaped, Some(name), Span::new(1, 2));
        let problem = find("zzz").expect_err("no such class");
        assert_eq!(problem.message, "unknown class with a discipline `zzz`");
        assert_eq!(problem.help.as_deref(), Some("possible here: a, b"));
        assert!(find("d").is_err(), "it has no discipline of its own");
        let kind = |name| {
            let place = find(name).expect("it has one");
            place.of(&shaped).map(|spec| spec.kind.clone().into_owned())
        };
        assert_eq!(
            (kind("a").as_deref(), kind("b").as_deref()),
            (Some("drr"), Some("fifo"))
        );
    }
}
