//! What texts that differ in a class say, and which are left to a reading of the whole.

use super::*;
use crate::policy::Policy;
use std::sync::Arc;

const HEAD: &str = "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"drr\"\n";

fn class(name: &str, more: &str) -> String {
    format!("[[interface.wan0.class]]\nname = \"{name}\"\nweight = 2\n{more}")
}

fn filter(class: &str, more: &str) -> String {
    format!("[[interface.wan0.filter]]\nclass = \"{class}\"\n{more}")
}

/// Three classes with a filter each.
fn first() -> String {
    let classes = [class("a", "default = true\n"), class("b", ""), class("c", "")];
    let filters = [
        filter("a", "protocol = \"tcp\"\n"),
        filter("b", "protocol = \"udp\"\n"),
        filter("c", "dscp = 8\n"),
    ];
    [HEAD.to_owned(), classes.concat(), filters.concat()].concat()
}

/// With places for two more classes.
fn in_force(text: &str) -> InterfacePolicy {
    let registry = Registry::builtin();
    let read = Policy::read("test", text, &registry, &[]);
    let mut policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
    let policy = policy.interfaces.remove(0);
    let mut spec = DisciplineSpec::clone(&policy.spec);
    for _ in 0..2 {
        spec.classes.push(ClassSpec::place(spec.classes.len(), None));
    }
    InterfacePolicy {
        plan: spec.check(&registry, policy.link()).expect("a tree"),
        spec: Arc::new(spec),
        ..policy
    }
}

/// What another text says: the class that differs, `=` for nothing; none if it is to be read.
fn told(new: &str) -> Option<String> {
    let (old, registry) = (first(), Registry::builtin());
    let policies = [in_force(&old)];
    let old = SharedText::from(old);
    assert!(old.is_in_tables());
    match otherwise((&old, &SharedText::from(new)), &policies, &registry)? {
        Otherwise::Nothing => Some("=".into()),
        Otherwise::Class(one) => {
            let how = match &one.becomes {
                ClassBecomes::Amended(_) => "set",
                ClassBecomes::Renewed(changed) if changed.come.is_empty() && !changed.gone.is_empty() => {
                    "goes"
                }
                ClassBecomes::Renewed(_) => "comes",
            };
            Some(format!("{} {how}", one.class))
        }
    }
}

#[test]
fn one_class_that_comes_goes_or_is_set_is_told() {
    let first = first();
    let d = class("d", "discipline = \"fifo\"\n");
    let own = filter("d", "protocol = \"icmp\"\n");
    let with = |new: &str, after: &str| first.replacen(after, &format!("{after}{new}"), 1);
    let c = class("c", "");
    for (new, expected) in [
        (first.clone(), "="),
        (format!("{first}\n# the end\n"), "="),
        (first.replacen(&c, &format!("# more\n{c}"), 1), "="),
        (first.replacen(&class("b", ""), "", 1) + &class("b", ""), "="),
        (with(&d, &c), "d comes"),
        (format!("{first}{d}{own}"), "d comes"),
        (with(&d, &c) + &own, "d comes"),
        (format!("{first}# new\n\n{own}# and\n{d}"), "d comes"),
        (
            first.replacen(
                "weight = 2\n[[interface.wan0.filter",
                "weight = 3\n[[interface.wan0.filter",
                1,
            ),
            "c set",
        ),
        (
            first.replacen(&c, "[[interface.wan0.class]]\nname = \"c\"\n", 1),
            "c set",
        ),
        (
            first.replace(&c, "").replace(&filter("c", "dscp = 8\n"), ""),
            "c goes",
        ),
        (
            first
                .replace(&class("b", ""), "")
                .replace(&filter("b", "protocol = \"udp\"\n"), ""),
            "b goes",
        ),
    ] {
        assert_eq!(told(&new).as_deref(), Some(expected), "{new}");
    }
}
