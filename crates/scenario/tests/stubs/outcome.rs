//! What comes of a scenario that a test has as text.

use engine::tree::Registry;
use scenario::folder::Folder;
use scenario::run::outcome::{Outcome, Point};
use scenario::{Scenarios, run};

/// Simulates a scenario without parameters.
pub fn outcome(text: &str) -> Outcome {
    let (registry, folder) = (Registry::builtin(), Folder::of(""));
    let all =
        Scenarios::read("test.toml", text, &registry, &folder).unwrap_or_else(|wrong| panic!("{wrong}"));
    let scenario = all.point(1, &folder).expect("it was checked");
    run::run("test", &scenario, Point::only(), &[], &mut |_, _| {}).expect("it runs")
}
