//! The languages: policies, scenarios and topologies, as text.

use super::FuzzTarget;
use crate::mutate::InputShape;
use control::diagnostics::Diagnostics;
use control::policy::Policy;
use engine::random::Seed;
use engine::tree::Registry;
use netio::ports;
use scenario::Scenarios;
use scenario::folder::Store;
use scenario::topology::Topology;
use std::path::Path;

pub(super) const POLICY: FuzzTarget = FuzzTarget {
    name: "policy",
    about: "policies: refused with a place for each mistake, or every tree of them can be built",
    shape: InputShape::Text(8_000),
    tree: &["examples/", "scenarios/policies/"],
    make: || {
        let registry = Registry::builtin();
        Box::new(move |input| {
            if let Some(text) = text(input) {
                policy(text, &registry);
            }
        })
    },
};

pub(super) const SCENARIO: FuzzTarget = FuzzTarget {
    name: "scenario",
    about: "scenarios, for the simulator and for the lab: read or refused with places",
    shape: InputShape::Text(8_000),
    tree: &["scenarios/", "scenarios/disciplines/"],
    make: || {
        let registry = Registry::builtin();
        Box::new(move |input| {
            if let Some(text) = text(input) {
                scenario(text, &registry);
            }
        })
    },
};

pub(super) const TOPOLOGY: FuzzTarget = FuzzTarget {
    name: "topology",
    about: "files of the lab's links: read or refused with places",
    shape: InputShape::Text(8_000),
    tree: &["examples/lab-"],
    make: || {
        let registry = Registry::builtin();
        Box::new(move |input| {
            if let Some(text) = text(input) {
                topology(text, &registry);
            }
        })
    },
};

fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// A refusal of this text has mistakes, and each can be shown, at a place within it. Showing takes
/// the most time of a run, so that it is done of a quarter of the texts: of one half of those in
/// colours, of the other without.
fn shown(diagnostics: &Diagnostics, text: &str) {
    assert!(diagnostics.mistakes() > 0, "refused without a mistake");
    if text.len().is_multiple_of(4) {
        assert!(!diagnostics.render(text.len().is_multiple_of(8)).is_empty());
    }
}

fn policy(text: &str, registry: &Registry) {
    match Policy::read("policy.toml", text, registry, &ports::declared()) {
        Ok(policy) => {
            assert_eq!(policy.warnings.mistakes(), 0);
            policy.warnings.render(false);
            for interface in &policy.interfaces {
                let queue = interface.plan.build(Seed(1));
                assert!(queue.is_empty());
                let classes = interface.plan.classes.len();
                assert!(
                    interface
                        .filters
                        .iter()
                        .all(|filter| (filter.class.0 as usize) < classes)
                );
                let again = interface.spec.check(registry, interface.link());
                assert!(again.is_ok(), "the same tree is refused the second time");
            }
        }
        Err(diagnostics) => shown(&diagnostics, text),
    }
}

/// The files that a scenario names: one policy for all, and no captures.
struct OnePolicy;

const PLAIN: &str = "version = 1\n[interface.any]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"fifo\"\n";

impl Store for OnePolicy {
    fn text(&self, path: &str) -> Result<String, String> {
        match Path::new(path).extension() {
            Some(_) => Ok(PLAIN.into()),
            None => Err("there is no such file".into()),
        }
    }

    fn capture(&self, _path: &str) -> Result<scenario::folder::Packets, String> {
        Err("there are no captures".into())
    }
}

fn scenario(text: &str, registry: &Registry) {
    match Scenarios::read("scenario.toml", text, registry, &OnePolicy) {
        Ok(scenarios) => {
            for point in 1..=scenarios.sweep.points().min(4) {
                let read = scenarios.point(point, &OnePolicy);
                let read = read.unwrap_or_else(|why| panic!("point {point}: {}", why.render(false)));
                let _ = Topology::of(&read);
            }
        }
        Err(diagnostics) => shown(&diagnostics, text),
    }
    if let Err(diagnostics) = Scenarios::read_for_lab("scenario.toml", text, registry, &OnePolicy) {
        shown(&diagnostics, text);
    }
}

fn topology(text: &str, registry: &Registry) {
    match Topology::read("lab.toml", text, registry, &OnePolicy) {
        Ok(topology) => {
            for link in &topology.links {
                let _ = topology.is_emulated(link);
                assert!(link.between.iter().all(|host| *host < topology.hosts.len()));
            }
        }
        Err(diagnostics) => shown(&diagnostics, text),
    }
}
