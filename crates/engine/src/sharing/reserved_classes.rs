//! What the kinds that take reservations have in common: the specifications of the classes, and
//! the division of what reservations leave among the policy's classes.

use crate::disciplines::fifo;
use crate::reservation::{RequestedShare, ReservedClass};
use crate::settings::{Problem, Raw, SettingValue, Table};
use crate::sharing::service_curve::ServiceCurve;
use crate::spec::{ClassSpec, DisciplineSpec};
use crate::units::Bandwidth;

/// A class of this name at the top, with these settings.
pub(crate) fn class(name: &str, settings: Table) -> ClassSpec {
    ClassSpec {
        name: name.into(),
        settings,
        ..ClassSpec::default()
    }
}

/// The class of a reservation, with these settings of its kind.
pub(crate) fn leaf(reserved: &ReservedClass, settings: Table) -> ClassSpec {
    let limit = Table::default().with("limit", Raw::Integer(reserved.limit.into()));
    ClassSpec {
        discipline: Some(DisciplineSpec {
            settings: limit,
            ..DisciplineSpec::of(&fifo::KIND)
        }),
        sends: Some(reserved.sends.into()),
        ..class(&reserved.name(), settings)
    }
}

/// Of the reservable part of a link, one of so many for the signalling, where that is guaranteed a
/// rate.
const SIGNALLING_PART: u64 = 100;

/// What of this share the signalling leaves.
pub(crate) fn without_signalling(share: Bandwidth) -> Bandwidth {
    share - Bandwidth::bits_per_sec(share.bits() / SIGNALLING_PART)
}

/// What the signalling has beside a capacity that it left.
pub(crate) fn signalling_beside(capacity: Bandwidth) -> Bandwidth {
    Bandwidth::bits_per_sec(capacity.bits() / (SIGNALLING_PART - 1))
}

/// What this setting guarantees to these classes of the policy: a rate, or the long run of a curve.
pub(crate) fn guaranteed<'a>(
    classes: impl Iterator<Item = &'a ClassSpec>,
    key: &str,
    link: Bandwidth,
) -> Bandwidth {
    let rate = |class: &ClassSpec| {
        let curve = ServiceCurve::from_raw(&class.settings.get(key)?.value).ok()?;
        Some(Bandwidth::bits_per_sec(curve.on(link).m2))
    };
    classes.filter_map(rate).sum()
}

/// Reports it if the policy's classes are guaranteed so much that the link cannot give the share.
pub(crate) fn refuse_oversold(
    requested: &RequestedShare<'_>,
    guaranteed: Bandwidth,
    problems: &mut Vec<Problem>,
) {
    let (link, share) = (requested.link.bandwidth, requested.share);
    if guaranteed + share > link {
        let message = format!(
            "the policy's classes are guaranteed {guaranteed}, and {share} can be reserved: more than the link's {link}"
        );
        let left = link - guaranteed.min(link);
        let help = format!("{left} can be reserved beside the classes; or give them lower rates");
        problems.push(Problem::new(requested.at, message).help(help));
    }
}

/// Refuses the setting `key` of the policy's classes, an absolute part of the link: beside
/// reservations a class states a weight alone.
pub(crate) fn refuse_absolute(spec: &DisciplineSpec, key: &str, problems: &mut Vec<Problem>) {
    for class in &spec.classes {
        if let Some(entry) = class.settings.get(key) {
            let message = format!("`{key}` says how much a class gets, and beside reservations that changes");
            problems.push(
                Problem::new(entry.key_at, message).help("use `weight`: its part of what reservations leave"),
            );
        }
    }
}

/// The weights of the policy's classes; 1 where none is given. A wrong one is reported when the
/// tree is checked.
pub(crate) fn weights(spec: &DisciplineSpec) -> Vec<u64> {
    let weight = |class: &ClassSpec| match class.settings.get("weight").map(|entry| &entry.value) {
        Some(Raw::Integer(n)) => u64::try_from(*n).unwrap_or(1).max(1),
        _ => 1,
    };
    spec.classes.iter().map(weight).collect()
}

/// Divides `left` by weights without a remainder, by largest remainders; every part is at least 1.
pub(crate) fn divide(weights: &[u64], left: u128) -> Vec<u128> {
    let all: u128 = weights
        .iter()
        .map(|&weight| u128::from(weight))
        .sum::<u128>()
        .max(1);
    let part = |&weight: &u64| left * u128::from(weight) / all;
    let mut parts: Vec<u128> = weights.iter().map(part).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(left * u128::from(weights[index]) % all));
    let remainder = left - parts.iter().sum::<u128>();
    order
        .iter()
        .take(remainder as usize)
        .for_each(|&index| parts[index] += 1);
    parts.into_iter().map(|part| part.max(1)).collect()
}

/// What the tests of these kinds reserve, and beside what.
#[cfg(test)]
pub(crate) mod trials {
    use super::*;
    use crate::bounds::ArrivalCurve;
    use crate::link::Link;
    use crate::reservation::{ReservableTree, Reserves};
    use crate::settings::Span;
    use crate::units::Bytes;

    /// 100 Mbit/s, in packets of 1,500 bytes.
    pub(crate) fn link() -> Link {
        Link::new(Bandwidth::mbit(100), Bytes::new(1_500))
    }

    /// Of a sender of that rate and burst.
    pub(crate) fn reserved(rate: Bandwidth, burst: u64) -> ReservedClass {
        ReservedClass {
            number: 1,
            rate,
            sends: ArrivalCurve {
                rate,
                burst: Bytes::new(burst),
            },
            least: Bytes::new(64),
            latency: None,
            limit: 50,
            priority: 5,
            filters: Vec::new(),
        }
    }

    /// A tree without classes of its own, in which so much can be reserved.
    pub(crate) fn tree(capacity: Bandwidth) -> ReservableTree {
        ReservableTree {
            spec: DisciplineSpec::new("any"),
            link: link(),
            capacity,
            smallest: Bandwidth::mbit(1),
            largest: capacity,
        }
    }

    /// A class with a rate of 30 Mbit/s, and below it one with 20 Mbit/s.
    pub(crate) fn policy(key: &str) -> DisciplineSpec {
        let rated = |name: &str, mbit| {
            let rate = Table::default().with(key, Bandwidth::mbit(mbit));
            class(name, rate)
        };
        let below = ClassSpec {
            parent: Some("a".into()),
            ..rated("b", 20)
        };
        DisciplineSpec {
            classes: vec![rated("a", 30), below].into(),
            ..DisciplineSpec::new("any")
        }
    }

    /// What a kind keeps of a share beside that policy, and what it says against it.
    pub(crate) fn capacity(of: &dyn Reserves, key: &str, share: Bandwidth) -> (Bandwidth, Vec<Problem>) {
        let (spec, mut problems) = (policy(key), Vec::new());
        let requested = RequestedShare {
            spec: &spec,
            link: link(),
            share,
            at: Span::new(3, 4),
        };
        (of.capacity(&requested, &mut problems), problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Span;
    use crate::units::Bytes;

    #[test]
    fn what_is_left_is_divided_by_largest_remainders_and_everyone_gets_something() {
        assert_eq!(divide(&[3, 1], 10), [8, 2], "of equal remainders the first");
        assert_eq!(divide(&[1, 1, 1], 10), [4, 3, 3]);
        assert_eq!(divide(&[1, 1, 1], 11), [4, 4, 3]);
        assert_eq!(divide(&[1, 5, 3], 10), [1, 6, 3]);
        assert_eq!(divide(&[1, 4], 9), [2, 7], "9/5 and 36/5");
        assert_eq!(divide(&[1, 4], 10), [2, 8]);
        assert_eq!(divide(&[1, 1_000], 10), [1, 10]);
        assert_eq!(divide(&[2, 1], 0), [1, 1]);
        assert_eq!(divide(&[], 5), []);
    }

    #[test]
    fn a_weight_is_at_least_one_and_one_where_none_is_given() {
        let weighted = |value: Option<Raw>| {
            let none = Table::default();
            let settings = value.map_or(none.clone(), |value| none.with("weight", value));
            class("a", settings)
        };
        let values = [
            None,
            Some(Raw::Integer(3)),
            Some(Raw::Integer(0)),
            Some(Raw::Integer(-7)),
            Some(Raw::Text("5".into())),
        ];
        let spec = DisciplineSpec {
            classes: values.into_iter().map(weighted).collect::<Vec<_>>().into(),
            ..DisciplineSpec::new("drr")
        };
        assert_eq!(weights(&spec), [1, 3, 1, 1, 1]);
    }

    #[test]
    fn the_signalling_has_a_hundredth_of_the_share() {
        let bits = Bandwidth::bits_per_sec;
        assert_eq!(without_signalling(Bandwidth::mbit(100)), Bandwidth::mbit(99));
        assert_eq!(signalling_beside(Bandwidth::mbit(99)), Bandwidth::mbit(1));
        assert_eq!(
            (without_signalling(bits(199)), without_signalling(bits(99))),
            (bits(198), bits(99))
        );
        assert_eq!(
            (signalling_beside(bits(198)), signalling_beside(bits(98))),
            (bits(2), bits(0))
        );
    }

    #[test]
    fn what_is_guaranteed_is_the_long_run_of_what_can_be_read() {
        let rated = |value: &str| class("a", Table::default().text("rate", value));
        let classes = [
            rated("5 Mbit/s for 10 ms, then 1 Mbit/s"),
            rated("40 %"),
            rated("many"),
            class("b", Table::default().text("weight", "1 Mbit/s")),
        ];
        let sum = guaranteed(classes.iter(), "rate", Bandwidth::mbit(10));
        assert_eq!(sum, Bandwidth::mbit(5));
    }

    #[test]
    fn an_absolute_part_is_refused_where_it_is_named() {
        let mut named = class("a", Table::default().with("quantum", Bytes::new(1)));
        named.settings.entries[0].key_at = Span::new(7, 9);
        let spec = DisciplineSpec {
            classes: vec![named, class("b", Table::default().with("weight", 2))].into(),
            ..DisciplineSpec::new("drr")
        };
        let mut problems = Vec::new();
        refuse_absolute(&spec, "quantum", &mut problems);
        let message = "`quantum` says how much a class gets, and beside reservations that changes";
        let expected = Problem::new(Span::new(7, 9), message);
        assert_eq!(
            problems,
            [expected.help("use `weight`: its part of what reservations leave")]
        );
    }
}
