//! What texts that differ in a class say, and which are left to a reading of the whole.

use super::*;
use crate::policy::Policy;
use crate::shared_text::Edit;
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

/// The same text as an edit of the other.
fn as_an_edit(old: &SharedText, new: &str) -> SharedText {
    let (old_chars, new_chars) = (old.base().char_indices(), new.char_indices());
    let mut pairs = old_chars.zip(new_chars);
    let shorter = old.base().len().min(new.len());
    let start = pairs.find(|(a, b)| a != b).map_or(shorter, |((at, _), _)| at);
    let pairs = old.base()[start..].chars().rev().zip(new[start..].chars().rev());
    let alike: usize = (pairs.take_while(|(a, b)| a == b))
        .map(|(a, _)| a.len_utf8())
        .sum();
    let with = new[start..new.len() - alike].to_owned();
    let at = start..old.base().len() - alike;
    old.edited(Edit { at, with }).expect("a part of it")
}

/// What another text says: the class that differs, `=` for nothing; none if it is to be read. Of a
/// text of its own the same as of an edit.
fn told(new: &str) -> Option<String> {
    let (old, registry) = (first(), Registry::builtin());
    let policies = [in_force(&old)];
    let old = SharedText::from(old);
    assert!(old.is_in_tables());
    let said = |new: SharedText| match otherwise((&old, &new), &policies, &registry)? {
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
    };
    let as_own = said(new.into());
    assert_eq!(said(as_an_edit(&old, new)), as_own, "{new}");
    as_own
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

#[test]
fn what_says_more_than_one_class_or_gives_filters_another_order_is_left_to_a_reading_of_the_whole() {
    let first = first();
    let (d, own) = (class("d", ""), filter("d", "protocol = \"icmp\"\n"));
    let (a, b) = (
        filter("a", "protocol = \"tcp\"\n"),
        filter("b", "protocol = \"udp\"\n"),
    );
    let c = class("c", "");
    let with_d = first.replacen(&c, &format!("{c}{d}"), 1);
    for (new, why) in [
        (
            with_d.replacen(&b, &format!("{own}{b}"), 1),
            "its filter is not the last",
        ),
        (with_d.replacen(&a, "", 1) + &own, "another's filter goes"),
        (
            with_d.replacen(&b, &format!("{own}{b}"), 1) + &own,
            "filters come in two places",
        ),
        (first.replacen(&a, "", 1), "a filter of a class that stays goes"),
        (format!("{first}{a}"), "a filter of a class that stays comes"),
        (format!("{first}{d}{}", class("e", "")), "two classes come"),
        (with_d.replacen(&class("b", ""), "", 1), "one comes and one goes"),
        (format!("{first}{}", class("b", "")), "a second one of this name"),
        (format!("{first}{d}wight = 1\n"), "a mistake"),
        (first.replacen("10 Mbit/s", "20 Mbit/s", 1), "the head differs"),
    ] {
        assert_eq!(told(&new), None, "{why}:\n{new}");
    }
    let without = [HEAD.to_owned(), class("a", "default = true\n"), class("b", "")].concat();
    let policies = [in_force(&without)];
    let new = SharedText::from(format!("{without}{d}{own}"));
    let said = otherwise((&without.into(), &new), &policies, &Registry::builtin());
    assert!(said.is_none(), "the first filter of its interface");
}
