//! Whether the limits of a policy's queues fit the memory for frames.
//!
//! They need not: memory is shared, most queues are short most of the time, and a class keeps what
//! is reserved for it. But a queue that is to be longer than memory allows drops earlier than its
//! limit says, and that should be known.

use crate::workers;
use control::policy::Policy;
use engine::disciplines::{DEFAULT_LEAF, PLAIN_LEAF};
use engine::kind::{Children, Kind};
use engine::settings::{Fallback, Problem, Raw, SettingValue};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::Bytes;
use netio::pool::Slots;
use std::collections::BTreeSet;

/// Warnings of limits that together exceed the memory of the policy's port.
pub fn warnings(policy: &Policy, registry: &Registry) -> Vec<Problem> {
    let Some(port) = &policy.port else {
        return Vec::new();
    };
    let room = u64::from(Slots::within(port.settings.memory).for_queues().small);
    let limits: Vec<u64> = policy
        .interfaces
        .iter()
        .map(|interface| packets(&interface.spec, registry))
        .collect();
    // Each worker has its part of the memory, whatever the others need.
    let longest = limits.iter().max().copied().unwrap_or(0);
    let all = limits.iter().sum::<u64>().max(longest * workers::parts(port));
    if all <= room {
        return Vec::new();
    }
    let needed = u128::from(port.settings.memory.get()) * u128::from(all) / u128::from(room.max(1));
    let mebibytes = (needed >> 20) + 1;
    let Some((longest, _)) = policy
        .interfaces
        .iter()
        .zip(&limits)
        .max_by_key(|(_, limit)| **limit)
    else {
        return Vec::new();
    };
    let message = format!(
        "queues may become {all} packets long together, and the port's memory has slots for {room}: when it is \
         short, the longest queues drop before their limits (`memory`)"
    );
    let help = format!(
        "lower the limits, or set `memory = \"{mebibytes} MiB\"` in [port]; what is reserved for classes is theirs in \
         any case"
    );
    vec![Problem::new(longest.spec.at, message).help(help)]
}

/// How many packets the queues of a tree hold at most; those that are limited in bytes, full ones.
fn packets(spec: &DisciplineSpec, registry: &Registry) -> u64 {
    let Some(kind) = registry.find(&spec.kind) else {
        return 0;
    };
    match kind.children {
        // Kept short, but for bursts: the limit that nobody chose is not meant to be filled.
        Children::None if kind.name == DEFAULT_LEAF.name && spec.settings.entries.is_empty() => {
            plain_leaf(registry)
        }
        Children::None => own_limit(spec, kind),
        Children::One => {
            let child = spec.child.as_deref();
            child.map_or_else(|| plain_leaf(registry), |child| packets(child, registry))
        }
        Children::Classes { .. } => {
            let parents = spec.classes.iter().filter_map(|class| class.parent.as_ref());
            let parents: BTreeSet<&str> = parents.map(|parent| parent.name.as_str()).collect();
            let leaves = spec.classes.iter();
            let leaves = leaves.filter(|class| !parents.contains(class.name.as_str()));
            let limit = |class: &ClassSpec| {
                let queue = class.discipline.as_ref();
                queue.map_or_else(|| plain_leaf(registry), |queue| packets(queue, registry))
            };
            leaves.map(limit).sum()
        }
    }
}

fn plain_leaf(registry: &Registry) -> u64 {
    packets(&DisciplineSpec::of(PLAIN_LEAF), registry)
}

/// The limit of a queue without children: `limit` in packets, or `limit_bytes`.
fn own_limit(spec: &DisciplineSpec, kind: &Kind) -> u64 {
    const FULL: u64 = 1514;
    let value = |name: &str| {
        let given = spec.settings.get(name).map(|entry| entry.value.clone());
        let declared = kind.settings.iter().find(|setting| setting.name == name)?;
        given.or(match declared.default {
            Fallback::Value(text) => Some(text.parse().map_or_else(|_| Raw::Text(text.into()), Raw::Integer)),
            Fallback::Required | Fallback::Derived(_) => None,
        })
    };
    let packets = value("limit").and_then(|raw| u32::from_raw(&raw).ok());
    let bytes = value("limit_bytes").and_then(|raw| Bytes::from_raw(&raw).ok());
    match (packets, bytes) {
        (Some(packets), Some(bytes)) => u64::from(packets).min(bytes.get() / FULL),
        (Some(packets), None) => packets.into(),
        (None, Some(bytes)) => bytes.get() / FULL,
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(classes: usize, memory: &str) -> Vec<Problem> {
        let default = |n| if n == 0 { "default = true\n" } else { "" };
        let class = |n| {
            let name = format!("[[interface.wan0.class]]\nname = \"c{n}\"\n");
            format!("{name}rate = \"10 kbit/s\"\n{}", default(n))
        };
        let classes: String = (0..classes).map(class).collect();
        let text = format!(
            "version = 1\n[port]\nbetween = [\"lan0\", \"wan0\"]\n{memory}\n[interface.wan0]\n\
             bandwidth = \"1 Gbit/s\"\ndiscipline = \"cbq\"\n{classes}"
        );
        let registry = Registry::builtin();
        let policy = Policy::read("test", &text, &registry, &netio::ports::declared());
        let policy = policy.unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        warnings(&policy, &registry)
    }

    #[test]
    fn limits_beyond_the_memory_are_warned_of_and_others_are_not() {
        assert_eq!(warned(200, ""), []);
        let many = warned(400, "");
        assert_eq!(many.len(), 1);
        assert!(many[0].message.contains("40000 packets"), "{many:?}");
        assert!(many[0].message.contains("28672"), "{many:?}");
        assert_eq!(warned(400, "memory = \"300 MiB\""), []);
    }
}
