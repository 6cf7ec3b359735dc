//! Admission to a tree of classes with rates: no parent is oversubscribed, and every class can
//! send.

use crate::kind::Check;
use crate::settings::Problem;
use crate::units::Bandwidth;

/// Levels fit a word of bits.
const DEEPEST: u8 = 60;

/// The rates of the classes of one parent add up to no more than its own.
pub(crate) fn check_sums(check: &mut Check<'_>, rates: &[Bandwidth]) {
    let link = check.link.bandwidth;
    let rate = |index: usize| rates[index];
    let mut sums = vec![0u128; rates.len() + 1];
    let place = |parent: Option<usize>| parent.unwrap_or(rates.len());
    for (index, class) in check.classes.iter().enumerate() {
        sums[place(class.parent)] += u128::from(rate(index).bits());
    }
    let mut used = vec![0u128; rates.len() + 1];
    for (index, class) in check.classes.iter().enumerate() {
        let parent = place(class.parent);
        let has = class.parent.map_or(link, rate);
        let before = used[parent];
        used[parent] += u128::from(rate(index).bits());
        let has_bits = u128::from(has.bits());
        if before > has_bits || used[parent] <= has_bits {
            continue;
        }
        let owner = class
            .parent
            .map_or("the link".into(), |p| format!("`{}`", check.classes[p].name));
        let sum = Bandwidth::bits_per_sec(u64::try_from(sums[parent]).unwrap_or(u64::MAX));
        // What the others leave, including those declared later: the most it can have.
        let others = sums[parent] - u128::from(rate(index).bits());
        let left = Bandwidth::bits_per_sec(has_bits.saturating_sub(others) as u64);
        let at = class.settings.get("rate").map_or(class.at, |entry| entry.at);
        let message = format!("the classes of {owner} have rates of {sum} in sum, more than its {has}");
        let help = format!(
            "`{}` asks for {}, and {left} is left for it",
            class.name,
            rate(index)
        );
        check.problems.push(Problem::new(at, message).help(help));
    }
}

/// Every class can get bandwidth from somewhere: its own rate, or an ancestor's through classes
/// that borrow.
pub(crate) fn check_reach(check: &mut Check<'_>, rates: &[Bandwidth], borrows: &[bool]) {
    for (index, class) in check.classes.iter().enumerate() {
        let mut at = Some(index);
        while let Some(here) = at {
            if rates[here] != Bandwidth::ZERO {
                break;
            }
            if !borrows[here] {
                let message = format!(
                    "class `{}` could never send: it has no rate and nobody to borrow from",
                    class.name
                );
                let place = class.settings.get("rate").map_or(class.at, |entry| entry.at);
                check
                    .problems
                    .push(Problem::new(place, message).help("give it a rate, or write `borrow = true`"));
                break;
            }
            at = check.classes[here].parent;
        }
    }
}

/// The level of each class, and last of the link: 0 for a leaf, otherwise one more than the highest
/// child's.
pub(crate) fn levels(check: &mut Check<'_>) -> Option<Vec<u8>> {
    let link = check.classes.len();
    let mut levels = vec![0u8; link + 1];
    for index in (0..link).rev() {
        let parent = check.classes[index].parent.unwrap_or(link);
        levels[parent] = levels[parent].max(levels[index] + 1);
        if levels[parent] > DEEPEST {
            let message = format!("more than {DEEPEST} classes inside each other");
            check
                .problems
                .push(Problem::new(check.classes[index].at, message));
            return None;
        }
    }
    Some(levels)
}
