//! Classes that come and go while packets flow: reservations beside the classes of a policy.
//!
//! Follows ALTQ's tie-in of RSVP (Cho 1999, section 3.4: a class for each reservation, under a
//! parent of their own) and the router of Maeshima, Ito, Ishikura and Asami, "RSVP bandwidth
//! guarantee by WRR on high-speed networks" (a queue for each reservation, one for all else, and a
//! turn that is divided between them). A policy's tree and a list of reservations give one tree,
//! made anew for every list, so that what is in force never depends on the way there.
//!
//! What a reservation of rate *r* gets on a link of bandwidth *C*, all lengths counted as the tree
//! counts them:
//!
//! - `wrr`: ⌈*N r / C*⌉ of the *N* packets of a cycle. The paper rounds to the nearest; less than
//!   was asked for is no promise. It is right only where packets are alike, so no delay is
//!   promised.
//! - `drr`: a quantum *k r*, with one *k* for all classes, so large that the least class has a full
//!   packet. The policy's classes get what is left of *k C*, by their weights.
//! - `cbq`: a class of rate *r* below a class `reserved`, which holds the reservable part of the
//!   link.
//!
//! The signalling has a class of its own ([`SIGNALLING`]), lest reservations end because a full
//! link loses the messages that refresh them. With `wrr` and `drr` it takes turns, byte for byte,
//! with what else the default class holds, and so takes nothing from any promise; with `cbq` it is
//! guaranteed a hundredth of the reservable part.

use crate::classify::Filter;
use crate::disciplines::{drr, fifo};
use crate::kind::Kind;
use crate::link::Link;
use crate::packet::ClassId;
use crate::settings;
use crate::settings::{Problem, Raw, Span, Table};
use crate::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use crate::units::{Bandwidth, Bytes, Duration, Rate};
use std::fmt;

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
        /// What guaranteed service may wait here at most beyond its own rate (drr, cbq): D of RFC
        /// 2212
        delay: Duration = derived "drr: what `smallest` leads to at worst; cbq: none, and guaranteed service is refused",
            "too small: requests are refused that others' delays do not allow; too large: receivers must reserve more for the delay that they want",
            "RFC 2212, section 2";
    }
}

/// The class of the signalling's own messages, by the name of its protocol.
pub const SIGNALLING: &str = "rsvp";
/// RSVP's protocol number.
const RSVP: u8 = 46;
/// With `cbq`: the class above all reservations.
pub const PARENT: &str = "reserved";
/// With which the names of reservations' classes begin.
const PREFIX: &str = "resv-";
/// A reservation that is to have a class.
#[derive(Clone, PartialEq, Debug)]
pub struct Reserved {
    /// Its number, which becomes its class's name: see [`Reserved::class`].
    pub number: u64,
    /// Its guaranteed rate, as [`Reservable::counts`] gave it.
    pub rate: Bandwidth,
    /// The token bucket of its senders.
    pub sends: (Bandwidth, Bytes),
    /// Packets its queue takes at most.
    pub limit: u32,
    /// Its priority under `cbq`, from 0 to 6; 7 is the signalling's.
    pub priority: u32,
    /// What it takes; the class that they name is ignored.
    pub filters: Vec<Filter>,
}

impl Reserved {
    /// The name of its class.
    pub fn class(&self) -> String {
        class_name(self.number)
    }
}

/// The name of the class of the reservation of this number.
pub fn class_name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// How a kind of discipline gives classes to reservations. A kind states it in its
/// [`properties`](crate::kind::Properties::reserves).
pub trait Reserves: fmt::Debug + Sync {
    /// Whether bytes are counted, so that a delay can be guaranteed.
    fn is_exact(&self) -> bool;

    /// What may be reserved in all of a tree that has room for it, as it [counts](Self::counts);
    /// says what stands against it.
    fn capacity(&self, wanted: &WantedRoom<'_>, problems: &mut Vec<Problem>) -> Bandwidth;

    /// What a reservation of this rate takes of the capacity: never less than the rate, to a bit
    /// per second.
    fn counts(&self, room: &Reservable, rate: Bandwidth) -> Bandwidth;

    /// Puts the classes of these reservations into a copy of the policy's tree.
    fn add(&self, room: &Reservable, spec: &mut DisciplineSpec, reservations: &[Reserved]);

    /// What a packet alone can wait at most, however many reservations come. The default: nothing
    /// is known.
    fn worst_delay(&self, _room: &Reservable) -> Option<Duration> {
        None
    }
}

/// What a policy asks of a tree: room for reservations.
#[derive(Clone, Copy, Debug)]
pub struct WantedRoom<'a> {
    /// The tree.
    pub spec: &'a DisciplineSpec,
    /// The link.
    pub link: Link,
    /// How much of it.
    pub share: Bandwidth,
    /// Where that is asked.
    pub at: Span,
}

/// A policy's tree that has room for reservations.
#[derive(Clone, Debug)]
pub struct Reservable {
    spec: DisciplineSpec,
    link: Link,
    kind: &'static Kind,
    reserves: &'static dyn Reserves,
    registry: Registry,
    /// What may be reserved in all, as it counts.
    capacity: Bandwidth,
    smallest: Bandwidth,
    largest: Bandwidth,
}

/// A tree with reservations in it, checked.
#[derive(Clone, Debug)]
pub struct ReservedLayout {
    /// As asked for.
    pub spec: DisciplineSpec,
    /// As checked.
    pub plan: TreePlan,
    /// The policy's filters and the reservations', for the plan's classes.
    pub filters: Vec<Filter>,
}

impl Reservable {
    /// Whether this tree can hold reservations on this link, and how; `at` is where that was asked
    /// for.
    ///
    /// # Errors
    /// Everything that stands against it.
    pub fn new(
        registry: &Registry,
        spec: &DisciplineSpec,
        link: Link,
        settings: &ReserveSettings,
        at: Span,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        refuse_names(spec, &mut problems);
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
        let kind = registry.find(&spec.kind);
        let Some((kind, reserves)) = kind.and_then(|kind| Some((kind, kind.properties.reserves?))) else {
            let message = format!("`{}` has no room for reservations", spec.kind);
            problems.push(Problem::new(at, message).help(format!("use {}", kinds_with_room(registry))));
            return Err(problems);
        };
        if settings.delay.is_some() && !reserves.is_exact() {
            let message = format!("`delay`: `{}` counts packets, and promises no delay", kind.name);
            let help = format!("use {}, or leave it out", exact_kinds(registry));
            problems.push(Problem::new(at, message).help(help));
        }
        let wanted = WantedRoom {
            spec,
            link,
            share,
            at,
        };
        let capacity = reserves.capacity(&wanted, &mut problems);
        let this = Self {
            spec: spec.clone(),
            link,
            kind,
            reserves,
            registry: registry.clone(),
            capacity,
            smallest,
            largest: largest.min(capacity),
        };
        if problems.is_empty() {
            // Where the tree itself is wrong, that was said when it was checked without
            // reservations.
            this.spec_with(&[]).check(registry, link).map(|_| this)
        } else {
            Err(problems)
        }
    }

    /// What may be reserved in all.
    pub fn capacity(&self) -> Bandwidth {
        self.capacity
    }

    /// The least that one reservation counts as.
    pub fn smallest(&self) -> Bandwidth {
        self.smallest
    }

    /// The most that one reservation may be.
    pub fn largest(&self) -> Bandwidth {
        self.largest
    }

    /// The link.
    pub fn link(&self) -> Link {
        self.link
    }

    /// The policy's tree.
    pub fn spec(&self) -> &DisciplineSpec {
        &self.spec
    }

    /// The kind of the tree.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Whether bytes are counted, so that a delay can be promised.
    pub fn is_exact(&self) -> bool {
        self.reserves.is_exact()
    }

    /// What a packet alone can wait at most, however many reservations come, if that is known.
    pub fn worst_delay(&self) -> Option<Duration> {
        self.reserves.worst_delay(self)
    }

    /// What a reservation of this rate takes of [`Reservable::capacity`]: never less than the rate,
    /// to a bit per second.
    pub fn counts(&self, rate: Bandwidth) -> Bandwidth {
        self.reserves.counts(self, rate)
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
        reservations: &[Reserved],
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
            if let Some(&class) = by_name.get(reserved.class().as_str()) {
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
    fn spec_with(&self, reservations: &[Reserved]) -> DisciplineSpec {
        let mut spec = self.spec.clone();
        self.reserves.add(self, &mut spec, reservations);
        spec
    }
}

/// The kinds with room for reservations; those that count packets say so.
fn kinds_with_room(registry: &Registry) -> String {
    let words = |kind: &'static Kind| {
        let exact = kind.properties.reserves?.is_exact();
        Some(match exact {
            true => format!("`{}`", kind.name),
            false => format!("`{}`, which counts packets", kind.name),
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
            .is_some_and(|reserves| reserves.is_exact())
    };
    let names: Vec<String> = registry
        .kinds()
        .filter(exact)
        .map(|kind| format!("`{}`", kind.name))
        .collect();
    names.join(" or ")
}

/// A class of this name at the top, with an own discipline where none is named.
pub fn class(name: &str, settings: Table) -> ClassSpec {
    ClassSpec {
        name: name.into(),
        settings,
        ..ClassSpec::default()
    }
}

/// The class of a reservation, with these settings of its kind.
pub fn leaf(reserved: &Reserved, settings: Table) -> ClassSpec {
    let limit = Table::default().with("limit", Raw::Integer(reserved.limit.into()));
    let (rate, burst) = reserved.sends;
    ClassSpec {
        discipline: Some(DisciplineSpec {
            settings: limit,
            ..DisciplineSpec::of(&fifo::KIND)
        }),
        sends: Some((Rate::Absolute(rate), burst)),
        ..class(&reserved.class(), settings)
    }
}

/// Names that reservations need.
fn refuse_names(spec: &DisciplineSpec, problems: &mut Vec<Problem>) {
    for class in &spec.classes {
        let name = class.name.as_str();
        if [SIGNALLING, PARENT].contains(&name) || name.starts_with(PREFIX) {
            let message = format!("`{name}` is a name for classes of reservations");
            problems.push(Problem::new(class.at, message).help("give the class another name"));
        }
    }
}

/// What a class says beside its weight about how much it gets: reservations leave room for weights
/// alone.
pub fn refuse_absolute(spec: &DisciplineSpec, word: &str, problems: &mut Vec<Problem>) {
    for class in &spec.classes {
        if let Some(entry) = class.settings.get(word) {
            let message =
                format!("`{word}` says how much a class gets, and beside reservations that changes");
            problems.push(
                Problem::new(entry.key_at, message).help("use `weight`: its part of what reservations leave"),
            );
        }
    }
}

/// The default class keeps its packets and the signalling's apart, byte for byte in turns.
pub fn make_room_for_signalling(spec: &mut DisciplineSpec) {
    let Some(default) = spec.classes.iter_mut().find(|class| class.default) else {
        return;
    };
    let other = ClassSpec {
        name: format!("{}-other", default.name),
        at: default.at,
        default: true,
        discipline: default.discipline.take(),
        ..ClassSpec::default()
    };
    default.discipline = Some(DisciplineSpec {
        at: default.at,
        classes: vec![class(SIGNALLING, Table::default()), other],
        ..DisciplineSpec::of(&drr::KIND)
    });
}

/// The policy's classes' weights; 1 where none is given. Wrong ones are reported when the tree is
/// checked.
pub fn weights(spec: &DisciplineSpec) -> Vec<u64> {
    let weight = |class: &ClassSpec| match class.settings.get("weight").map(|entry| &entry.value) {
        Some(Raw::Integer(n)) => u64::try_from(*n).unwrap_or(1).max(1),
        _ => 1,
    };
    spec.classes.iter().map(weight).collect()
}

/// The policy's classes share a number by their weights, without a rest where there is enough for
/// all of them.
pub fn divide(weights: &[u64], left: u128) -> Vec<u128> {
    let all: u128 = weights
        .iter()
        .map(|&weight| u128::from(weight))
        .sum::<u128>()
        .max(1);
    let part = |&weight: &u64| left * u128::from(weight) / all;
    let mut parts: Vec<u128> = weights.iter().map(part).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(left * u128::from(weights[index]) % all));
    let rest = left - parts.iter().sum::<u128>();
    order
        .iter()
        .take(rest as usize)
        .for_each(|&index| parts[index] += 1);
    parts.into_iter().map(|part| part.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::ArrivalCurve;
    use crate::random::Seed;
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
                _ => Table::default().with("weight", Raw::Integer(weight)),
            };
            ClassSpec {
                default: name == "rest",
                ..class(name, settings)
            }
        };
        let mut spec = DisciplineSpec {
            classes: vec![rest("rest", 3), rest("mail", 1)],
            ..DisciplineSpec::new(kind)
        };
        if let Some((key, value)) = word {
            spec.settings = spec.settings.with(key, value);
        }
        spec
    }

    fn reserved(number: u64, rate: Bandwidth) -> Reserved {
        let filters = vec![Filter {
            protocol: Some(17),
            ..Filter::new(ClassId(0))
        }];
        Reserved {
            number,
            rate,
            sends: (rate, Bytes::new(3000)),
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
                panic!("lost: {why:?}");
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
        for (kind, word) in [("wrr", ten), ("drr", None), ("cbq", None)] {
            let room = room(kind, word, "60 %");
            let policy = policy(kind, None)
                .check(&Registry::builtin(), link())
                .expect("sound");
            let list = [
                reserved(1, room.counts(Bandwidth::mbit(40))),
                reserved(2, room.counts(Bandwidth::mbit(10))),
            ];
            let layout = room.lay_out(&policy, &[], &list).expect("it fits");
            let rest = if kind == "cbq" { "rest" } else { "rest-other" };
            let sent = departures(&layout, &["resv-1", "resv-2", rest, "mail"], 20_000);
            let share = |place: usize| sent[place] as f64 / (20_000.0 * 1538.0);
            assert!(share(0) > 0.399 && share(1) > 0.099, "{kind}: {sent:?}");
            if kind != "cbq" {
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
        assert!(room.is_exact() && room.worst_delay().is_some());
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
            Some("use `cbq`, or `drr`, or `wrr`, which counts packets, or `outside`")
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
        assert!(!wrr.is_exact() && drr.is_exact());
    }

    #[test]
    fn what_cannot_hold_is_refused_where_it_stands() {
        let refused = |kind: &str, word, share: &str, smallest: &str| {
            let at = Span { start: 7, end: 9 };
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
            for (kind, word) in [("wrr", Some(("cycle", Raw::Integer(cycle)))), ("drr", None), ("cbq", None)] {
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
                for reserved in list.iter().filter(|_| kind != "cbq") {
                    let own = layout.spec.classes.iter().find(|class| class.name == reserved.class()).map_or(0, part);
                    // A bit per second is less than what `counts` may round.
                    let asked = u128::from(reserved.rate.bits()) * whole;
                    prop_assert!(u128::from(own) * u128::from(C.bits()) >= asked, "{} {} of {}", kind, own, whole);
                    let promise = ArrivalCurve { rate: reserved.sends.0, burst: reserved.sends.1 };
                    let info = layout.plan.class(&reserved.class()).and_then(|id| layout.plan.info(id).cloned());
                    prop_assert_eq!(info.and_then(|info| info.promise), Some(promise));
                }
            }
        }
    }
}
