//! Users start with the files under `examples/`: each is valid without changes and warnings, and
//! every class in it can get packets. Those named `lab-…` are topologies, the others policies.

use control::policy::{InterfacePolicy, Policy};
use engine::packet::ClassId;
use engine::tree::Registry;
use scenario::folder::Folder;
use scenario::topology::Topology;
use std::fs;
use std::path::Path;

/// The leaves that no filter names and that are not the default class.
fn unreached(interface: &InterfacePolicy) -> Vec<&str> {
    let plan = &interface.plan;
    let taken: Vec<ClassId> = interface.filters.iter().map(|filter| filter.class).collect();
    let reached = |name: &str| {
        let mut ids = taken.iter().copied().chain(plan.default);
        ids.any(|id| plan.info(id).is_some_and(|info| info.name == name))
    };
    let leaves = plan.classes.iter().filter(|info| info.leaf);
    leaves
        .map(|info| info.name.as_str())
        .filter(|name| !reached(name))
        .collect()
}

#[test]
fn every_example_is_valid_without_warnings_and_every_class_can_get_packets() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let registry = Registry::builtin();
    let (mut policies, mut topologies) = (0, 0);
    for entry in fs::read_dir(&directory).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name in UTF-8");
        let text = fs::read_to_string(&path).expect("a text");
        let interfaces = if name.starts_with("lab-") {
            let read = Topology::read(name, &text, &registry, &Folder::of(name))
                .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            assert!(read.warnings.is_empty(), "{}", read.warnings);
            topologies += 1;
            let ruled = read.links.into_iter().flat_map(|link| link.policies);
            ruled.flatten().collect()
        } else {
            let read = Policy::read(name, &text, &registry, &netio::ports::declared())
                .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            assert!(read.warnings.is_empty(), "{}", read.warnings);
            assert!(read.port.is_some(), "{name} cannot be run: it has no [port]");
            policies += 1;
            read.interfaces
        };
        for interface in &interfaces {
            let unreached = unreached(interface);
            assert!(
                unreached.is_empty(),
                "{name}: {}: no packet reaches {unreached:?}",
                interface.name
            );
        }
    }
    assert!(policies >= 3 && topologies >= 1, "examples are missing");
}
