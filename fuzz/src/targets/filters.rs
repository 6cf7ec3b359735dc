//! Filters as text: of a policy, and packets described for `explain`.
//!
//! The input is sections `[[interface.wan0.filter]]` behind the head of a policy. Its comments
//! `# packet: key=value …` describe packets.

use super::FuzzTarget;
use crate::mutate::InputShape;
use control::filters::{in_order, mismatches, packet, words};
use control::policy::Policy;
use engine::classify::Classifier;
use engine::header::FlowKey;
use engine::random::Seed;
use engine::settings::Table;
use engine::tree::Registry;
use netio::ports;

const HEAD: &str = "version = 1
[port]
between = [\"lan0\", \"wan0\"]
[interface.wan0]
bandwidth = \"20 Mbit/s\"
discipline = \"priq\"
class = [{ name = \"calls\", priority = 6 }, { name = \"rest\", default = true }]
";

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "filters",
    about: "filters and described packets: explained as they match, and found as the first in order",
    shape: InputShape::Text(3_000),
    tree: &[],
    make: || {
        let registry = Registry::builtin();
        Box::new(move |input| {
            if let Ok(text) = std::str::from_utf8(input) {
                judge(text, &registry);
            }
        })
    },
};

fn described(line: &str) -> Option<FlowKey> {
    let words = line.split_whitespace();
    let pairs = words.filter_map(|word| word.split_once('='));
    let table = pairs.fold(Table::default(), |table, (key, value)| table.text(key, value));
    match packet(&table) {
        Ok(key) => Some(key),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a mistake");
            None
        }
    }
}

fn judge(text: &str, registry: &Registry) {
    let packets: Vec<FlowKey> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# packet:"))
        .filter_map(described)
        .collect();
    let policy = match Policy::read(
        "policy.toml",
        &format!("{HEAD}{text}"),
        registry,
        &ports::declared(),
    ) {
        Ok(policy) => policy,
        Err(diagnostics) => return assert!(diagnostics.mistakes() > 0),
    };
    let Some(interface) = policy.interface("wan0") else {
        return;
    };
    let search = Classifier::new(interface.filters.iter().copied(), Seed(3));
    let ordered = in_order(&interface.filters);
    assert_eq!(ordered.len(), interface.filters.len());
    for key in &packets {
        for filter in &ordered {
            assert!(!words(filter).is_empty() || filter.matches(key));
            assert_eq!(
                mismatches(filter, key).is_empty(),
                filter.matches(key),
                "{filter:?} {key:?}"
            );
        }
        let first = ordered.iter().find(|filter| filter.matches(key));
        assert_eq!(search.classify(key), first.map(|filter| filter.class));
    }
}
