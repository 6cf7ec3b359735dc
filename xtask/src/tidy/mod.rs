//! `cargo xtask tidy`: the invariants of the design, checked on the source text.
//!
//! Each rule is a function from the tree's files to complaints, so each is tested on a small
//! example tree. A complaint has the file, the line, what is wrong and what to do.

mod circles;
mod crates;
mod dependencies;
mod errors;
mod files;
mod lists;
mod names;
mod source;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The text files of the tree, by path.
type Tree = BTreeMap<String, String>;

/// A rule, and how many complaints are still allowed: a new rule starts with as many as it finds,
/// and the number only goes down.
struct Rule {
    name: &'static str,
    of: fn(&Tree) -> Vec<String>,
    limit: usize,
}

const RULES: &[Rule] = &[
    rule("arrows", crates::arrows, 0),
    rule("dependencies used", dependencies::dependencies_used, 0),
    rule("lock file", dependencies::lock_file, 0),
    rule("advisories", dependencies::advisories, 0),
    rule("circles", circles::circles, 4),
    rule("purity", crates::purity, 0),
    rule("unsafe places", crates::unsafe_places, 0),
    rule("one file each", lists::one_file_each, 0),
    rule("known by name", lists::known_by_name, 0),
    rule("verbs", lists::verbs, 0),
    rule("purpose", files::purpose, 0),
    rule("no drawers", files::no_drawers, 0),
    rule("leftovers", files::leftovers, 0),
    rule("length", files::length, 0),
    rule("links", files::links, 0),
    rule("modules outside macros", files::modules_outside_macros, 0),
    rule("no unwrap", files::no_unwrap, 0),
    rule("comment width", files::comment_width, 22),
    rule("errors documented", errors::errors_documented, 0),
    rule("words", names::words, 0),
    rule("unique types", names::unique_types, 0),
    rule("short decisions", files::short_decisions, 0),
];

const fn rule(name: &'static str, of: fn(&Tree) -> Vec<String>, limit: usize) -> Rule {
    Rule { name, of, limit }
}

impl Rule {
    /// Its complaints if there are more than allowed, and a note on the rule.
    fn judge(&self, tree: &Tree) -> (Vec<String>, Option<String>) {
        let complaints = (self.of)(tree);
        let (name, limit, found) = (self.name, self.limit, complaints.len());
        if found > limit {
            let note = (limit > 0).then(|| format!("tidy: {name}: {found}, and at most {limit} are allowed"));
            return (complaints, note);
        }
        let note = match found {
            _ if limit == 0 => None,
            found if found == limit => Some(format!("tidy: {name}: {found}, as many as allowed")),
            found => Some(format!(
                "tidy: {name}: {found} of {limit}: lower the limit to {found}"
            )),
        };
        (Vec::new(), note)
    }
}

/// Runs every rule.
pub fn run(root: &Path) -> Result<(), String> {
    let tree = read(root)?;
    let mut complaints = Vec::new();
    for rule in RULES {
        let (more, note) = rule.judge(&tree);
        complaints.extend(more);
        if let Some(note) = note {
            println!("{note}");
        }
    }
    complaints.extend(crate::docs::stale(root));
    if complaints.is_empty() {
        println!("tidy: {} files, nothing to complain about", tree.len());
        return Ok(());
    }
    Err(format!(
        "{}\ntidy: {} complaints",
        complaints.join("\n"),
        complaints.len()
    ))
}

/// All complaints of one rule, to fix those that its limit still allows.
pub fn list(root: &Path, name: &str) -> Result<(), String> {
    let names = || RULES.iter().map(|rule| rule.name).collect::<Vec<_>>().join(", ");
    let rule = RULES.iter().find(|rule| rule.name == name);
    let rule = rule.ok_or_else(|| format!("tidy: there is no rule `{name}`; there are {}", names()))?;
    let complaints = (rule.of)(&read(root)?);
    println!("{}\n{}", complaints.join("\n"), complaints.len());
    Ok(())
}

/// The crates in whose tests no lab is made.
pub fn crates_without_lab(root: &Path) -> Result<Vec<&'static str>, String> {
    Ok(crates::without_lab(&read(root)?))
}

/// The files that git tracks or would track, and that are there.
pub fn files(root: &Path) -> Result<Vec<String>, String> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git could not be started: {e}"))?;
    let names = String::from_utf8_lossy(&list.stdout).into_owned();
    let there = |name: &&str| root.join(name).is_file();
    Ok(names
        .split_terminator('\0')
        .filter(there)
        .map(str::to_owned)
        .collect())
}

/// Those of them that are texts.
fn read(root: &Path) -> Result<Tree, String> {
    let text = |name: String| {
        std::fs::read_to_string(root.join(&name))
            .ok()
            .map(|text| (name, text))
    };
    Ok(files(root)?.into_iter().filter_map(text).collect())
}

fn rust(tree: &Tree) -> impl Iterator<Item = (&String, &String)> {
    tree.iter().filter(|(path, _)| path.ends_with(".rs"))
}

/// An example tree.
#[cfg(test)]
fn tree(files: &[(&str, &str)]) -> Tree {
    files
        .iter()
        .map(|(path, text)| ((*path).to_string(), (*text).to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_allows_as_many_and_no_more() {
        let rule = rule("leftovers", files::leftovers, 1);
        let once = tree(&[("a.rs", "x \n")]);
        let (complaints, note) = rule.judge(&once);
        assert!(complaints.is_empty() && note.is_some_and(|note| note.contains("as many as allowed")));
        let twice = tree(&[("a.rs", "x \ny \n")]);
        assert_eq!(rule.judge(&twice).0.len(), 2);
        let never = tree(&[("a.rs", "x\n")]);
        let (complaints, note) = rule.judge(&never);
        assert!(complaints.is_empty() && note.is_some_and(|note| note.contains("lower the limit to 0")));
    }
}
