//! The rows whose instructions are counted: every kind with few classes, `pacer`, and what is said
//! of all classes of a policy.
//!
//! `cargo xtask instructions` runs this under callgrind, which counts inside [`counted`] only and
//! writes one count for each call of it: for each row, one that warms up, and the one that counts.

use crate::{disciplines, paced, promises};

/// Steps of a count at least. What a discipline does seldom, or only later, is not in it.
const STEPS: u32 = 2_000;
/// Of each class, so many packets at least: credits are used up by then, and turns go round.
const STEPS_PER_CLASS: u32 = 8;

fn steps(classes: u32) -> u32 {
    STEPS.max(STEPS_PER_CLASS * classes)
}

#[inline(never)]
fn counted(steps: u32, mut step: impl FnMut()) {
    (0..steps).for_each(|_| step());
}

/// Takes the steps of each row whose name contains this, and prints their number and the row's
/// name.
pub(crate) fn rows(only: Option<String>) {
    let wanted = |name: &str| only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let take = |what: &str, n: u32, step: &mut dyn FnMut()| {
        let (name, steps) = (format!("{what}, {n}"), steps(n));
        if wanted(&name) {
            counted(steps, &mut *step);
            counted(steps, &mut *step);
            println!("{steps} {name}");
        }
    };
    for mut row in disciplines::small() {
        let (what, n) = (row.what.clone(), row.n);
        take(&what, n, &mut || row.step());
    }
    for (classes, mut step) in paced::small() {
        take("pacer", classes, &mut step);
    }
    for (what, classes, mut step) in promises::small() {
        take(&what, classes, &mut step);
    }
}
