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
