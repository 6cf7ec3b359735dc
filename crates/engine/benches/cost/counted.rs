//! The rows whose instructions are counted: every kind with few classes, and `pacer`.
//!
//! `cargo xtask instructions` runs this under callgrind, which counts inside [`counted`] only and
//! writes one count for each call of it: for each row, one that warms up, and the one that counts.

use crate::disciplines;
use crate::paced;

/// Steps of a count. What a discipline does seldom, or only later, is not in it.
pub(crate) const STEPS: u32 = 2_000;

#[inline(never)]
fn counted(mut step: impl FnMut()) {
    (0..STEPS).for_each(|_| step());
}

/// Takes the steps of each row whose name contains this, and prints the row's name.
pub(crate) fn rows(only: Option<String>) {
    let wanted = |name: &str| only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    for mut row in disciplines::small() {
        let name = format!("{}, {}", row.what, row.n);
        if wanted(&name) {
            counted(|| row.step());
            counted(|| row.step());
            println!("{name}");
        }
    }
    for (name, mut step) in paced::small() {
        if wanted(&name) {
            counted(&mut step);
            counted(&mut step);
            println!("{name}");
        }
    }
}
