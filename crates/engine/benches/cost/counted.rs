//! The rows whose instructions are counted: every kind with few classes, `pacer`, and what is said
//! of all classes of a policy.
//!
//! `cargo xtask instructions` runs this under callgrind, which counts inside [`counted`] only and
//! writes one count for each call of it: for each row, one that warms up, and the one that counts.
//! With `count many NAME` it is one of the rows of very many classes, whose cache lines are of
//! interest: `--cache-sim=yes --LL=1048576,8,64` counts those that a second level of 1 MB lacks.

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

fn take(what: &str, n: u32, step: &mut dyn FnMut()) {
    let steps = steps(n);
    counted(steps, &mut *step);
    counted(steps, &mut *step);
    println!("{steps} {what}, {n}");
}

/// Takes the steps of the row of very many classes with this name.
pub(crate) fn many(name: &str) {
    if name == "pacer" {
        let (classes, mut step) = paced::of(64_000);
        take("pacer", classes, &mut step);
    }
    let rows = disciplines::MANY_ROWS.iter().filter(|(row, _)| *row == name);
    for mut row in rows.map(|(_, row)| row()) {
        let (what, n) = (row.what.clone(), row.n);
        take(&what, n, &mut || row.step());
    }
}

/// Takes the steps of each row whose name contains this, and prints their number and the row's
/// name.
pub(crate) fn rows(only: Option<String>) {
    let wanted = |name: &str| only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let take = |what: &str, n: u32, step: &mut dyn FnMut()| {
        if wanted(&format!("{what}, {n}")) {
            take(what, n, step);
        }
    };
    for mut row in disciplines::small() {
        let (what, n) = (row.what.clone(), row.n);
        take(&what, n, &mut || row.step());
    }
    for (classes, mut step) in [20, 1_000].map(paced::of) {
        take("pacer", classes, &mut step);
    }
    for (what, classes, mut step) in promises::small() {
        take(&what, classes, &mut step);
    }
}
