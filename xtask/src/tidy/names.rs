//! Words: the field's terms in names, comments and messages; and public type names that are
//! unique.

use super::source::{code_only, production};
use super::{Tree, rust};
use std::collections::BTreeMap;

/// Private words, each with the field's term. Only words without another meaning.
const WORDS: &[(&str, &str)] = &[
    ("lid", "cap"),
    ("lids", "caps"),
    ("asker", "next hop"),
    ("askers", "next hops"),
    ("reckon", "compute, count"),
    ("reckons", "computes, counts"),
    ("reckoned", "computed, counted"),
    ("reckoning", "computation"),
    ("newcomer", "new flow"),
    ("newcomers", "new flows"),
    ("luck", "rng"),
    ("agenda", "event queue, timer queue"),
    ("tournament", "winner tree"),
    ("tournaments", "winner tree"),
    ("soonest", "bounded priority queue"),
    ("surroundings", "context"),
    ("wander", "jitter"),
    ("wanders", "jitters"),
    ("travelling", "in flight"),
    ("answerer", "responder, server"),
    ("manners", "settings"),
    ("findings", "diagnostics"),
    ("debts", "carry-over"),
    ("sure of", "guaranteed"),
    ("sure to get", "guaranteed"),
    ("for people", "human-readable"),
    ("say again", "retransmit, resynchronise"),
    ("names of messages", "MESSAGE_ID"),
    ("waiting time", "queueing delay"),
];

/// Names of roles that a type has in its module, and why they are clear there.
const ROLES: &[(&str, &str)] = &[
    ("Settings", "what the module's thing is made with"),
    ("ClassSettings", "what a discipline reads of a class"),
    ("Error", "the error type of its crate"),
    ("Result", "the result type of its crate"),
    ("Args", "the arguments of a verb"),
    ("Kind", "the declaration of its family's members"),
];

/// The source of the crates uses no private word where the field has a term.
pub fn words(tree: &Tree) -> Vec<String> {
    let sources = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    let mut complaints = Vec::new();
    for (path, text) in rust(tree).filter(|(path, _)| sources(path)) {
        for (number, line) in text.lines().enumerate() {
            let spaced = spaced(line);
            let hits = WORDS
                .iter()
                .filter(|(word, _)| spaced.contains(&format!(" {word} ")));
            complaints.extend(
                hits.map(|(word, field)| format!("{path}:{}: `{word}`: the field says {field}", number + 1)),
            );
        }
    }
    complaints
}

/// The words of a line in lower case, each surrounded by one space; `NextHop` and `next_hop` are
/// two words.
fn spaced(line: &str) -> String {
    let mut out = String::from(" ");
    let mut small = false;
    for c in line.chars() {
        let ends = !c.is_alphanumeric() || (small && c.is_uppercase());
        if ends && !out.ends_with(' ') {
            out.push(' ');
        }
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        }
        small = c.is_lowercase();
    }
    out.push(' ');
    out
}

/// A public type name is unique in the workspace, or names a role. A verb's arguments are named
/// like the verb.
pub fn unique_types(tree: &Tree) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in production(tree).filter(|(path, _)| !path.contains("/src/commands/")) {
        for (number, line) in code_only(text).lines().enumerate() {
            // What a macro declares has the name that it is given.
            if let Some(name) = declared(line).filter(|name| !name.is_empty()) {
                let place = format!("{path}:{}", number + 1);
                places.entry(name.to_string()).or_default().push(place);
            }
        }
    }
    let is_role = |name: &str| ROLES.iter().any(|(role, _)| *role == name);
    places
        .into_iter()
        .filter(|(name, places)| places.len() > 1 && !is_role(name))
        .map(|(name, places)| {
            format!(
                "{}: `{name}` is {} public types; name the others for what they are: {}",
                places[0],
                places.len(),
                places[1..].join(", ")
            )
        })
        .collect()
}

/// The public type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "union ", "type "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_word_that_the_field_does_not_use_is_noticed_in_names_and_prose() {
        let text = "//! x\n// Flows are\n// sure of it.\nstruct TheLid { my_agenda: u8 }\nlet solid = \"the newcomer\";\n";
        let complaints = words(&tree(&[("crates/a/src/b.rs", text)]));
        let lines: Vec<_> = complaints
            .iter()
            .filter_map(|complaint| complaint.split('`').nth(1))
            .collect();
        assert_eq!(lines, ["sure of", "lid", "agenda", "newcomer"]);
        assert!(words(&tree(&[("crates/a/tests/b.rs", text)])).is_empty());
    }

    #[test]
    fn a_public_type_whose_name_stands_twice_is_noticed_unless_it_is_a_role() {
        let one = "pub struct Link;\npub enum Settings {}\nstruct Own;\npub(crate) struct Near;\n";
        let two = "pub struct Link<T>(T);\npub struct Settings;\npub struct Own;\n// pub struct Own;\npub struct Near;\n";
        let twice = tree(&[("crates/a/src/b.rs", one), ("crates/c/src/d.rs", two)]);
        assert_eq!(
            unique_types(&twice),
            [
                "crates/a/src/b.rs:1: `Link` is 2 public types; name the others for what they are: crates/c/src/d.rs:1"
            ]
        );
    }
}
