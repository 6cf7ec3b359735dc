//! What the kinds that take reservations have in common: the specifications of the classes, and
//! the division of what reservations leave among the policy's classes.

use crate::disciplines::fifo;
use crate::reservation::ReservedClass;
use crate::settings::{Problem, Raw, Table};
use crate::spec::{ClassSpec, DisciplineSpec};

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
