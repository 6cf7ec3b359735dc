//! Dependencies that nothing uses, and those of tests that everybody would build.
//!
//! A crate's name is looked for in the code of its users: `name::`, `use name` or an attribute's
//! path. It is a check of text, so that it needs no build and no network.

use super::Tree;
use super::source::{before_tests, code_only, in_name};
use crate::advisories;
use std::collections::BTreeMap;

/// Dependencies whose use the text does not show, and why they are needed.
const UNSEEN: &[(&str, &str)] = &[("md-5", "its library is called `md5`")];

/// Every dependency of every manifest is used where it is declared, and every one of the
/// workspace's by some member.
pub fn dependencies_used(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    let manifests: Vec<(&String, &String)> = tree
        .iter()
        .filter(|(path, _)| path.ends_with("/Cargo.toml"))
        .collect();
    for (path, text) in &manifests {
        let folder = path.trim_end_matches("Cargo.toml");
        for (section, name) in declared(text) {
            let known = UNSEEN.iter().any(|(unseen, _)| *unseen == name);
            if known || is_used(tree, text, folder, section, name) {
                continue;
            }
            complaints.push(match section {
                "dependencies" => {
                    format!(
                        "{path}: `{name}` is not used in src/: remove it, or move it to [dev-dependencies]"
                    )
                }
                _ => format!("{path}: `{name}` is not used by tests, benches or examples: remove it"),
            });
        }
    }
    let root = tree.get("Cargo.toml").map_or("", String::as_str);
    let of_members: Vec<&str> = manifests
        .iter()
        .flat_map(|(_, text)| declared(text).into_iter().map(|(_, name)| name))
        .collect();
    for (section, name) in declared(root) {
        if section == "workspace.dependencies" && !of_members.contains(&name) {
            complaints.push(format!("Cargo.toml: no member uses `{name}`: remove it"));
        }
    }
    complaints
}

/// Every package of the lock file is ours, or the registry's with a checksum; and there is one
/// version of it, unless `deny.toml` has a reason for two.
pub fn lock_file(tree: &Tree) -> Vec<String> {
    const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
    let (Some(lock), Some(policy)) = (tree.get("Cargo.lock"), tree.get("deny.toml")) else {
        return Vec::new();
    };
    let mut complaints = Vec::new();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for block in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = block
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{key} = \"")));
            line.map(|line| line.trim_end_matches('"').to_owned())
        };
        let name = value("name").unwrap_or_default();
        let of_registry =
            value("source").is_some_and(|source| source == REGISTRY) && value("checksum").is_some();
        if value("source").is_some() && !of_registry {
            complaints.push(format!(
                "Cargo.lock: `{name}` is not from the registry with a checksum"
            ));
        }
        versions.entry(name).or_default().extend(value("version"));
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        if !policy.contains(&format!("crate = \"{name}@")) {
            let all = versions.join(" and ");
            complaints.push(format!(
                "Cargo.lock: `{name}` is there as {all}: use one, or give a reason in deny.toml"
            ));
        }
    }
    complaints
}

/// No advisory that is known touches a version of the lock file.
pub fn advisories(tree: &Tree) -> Vec<String> {
    let files = tree.get("Cargo.lock").zip(tree.get(advisories::FILE));
    files.map_or_else(Vec::new, |(lock, snapshot)| {
        advisories::complaints(lock, snapshot)
    })
}

/// The dependencies that a manifest declares, with their sections.
fn declared(manifest: &str) -> Vec<(&str, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if section.ends_with("dependencies") && line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            let name = line.split(['=', '.', ' ']).next().unwrap_or("");
            found.push((section, name));
        }
    }
    found
}

fn is_used(tree: &Tree, manifest: &str, folder: &str, section: &str, name: &str) -> bool {
    let name = name.replace('-', "_");
    let in_src = format!("{folder}src/");
    // A target may lie elsewhere, by its path.
    let elsewhere: Vec<String> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"../../"))
        .map(|path| path.trim_end_matches('"').to_owned())
        .collect();
    super::rust(tree).any(|(path, text)| {
        let is_ours = path.starts_with(folder) || elsewhere.contains(path);
        let text = match section {
            "dependencies" if path.starts_with(&in_src) => before_tests(text),
            "dependencies" => return false,
            _ => text,
        };
        is_ours && mentions(&code_only(text), &name)
    })
}

/// Whether this code has the name as the beginning of a path.
fn mentions(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let begins = !before.ends_with(in_name) && !before.ends_with("::") && !before.ends_with('.');
        let is_used = before.trim_end().ends_with("use") || before.trim_end().ends_with("extern crate");
        begins && (after.starts_with("::") || (is_used && !after.starts_with(in_name)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    const MANIFEST: &str =
        "[dependencies]\na-b.workspace = true\n\n[dev-dependencies]\nc = { workspace = true }\n";

    fn found(source: &str, test: &str) -> Vec<String> {
        dependencies_used(&tree(&[
            ("crates/x/Cargo.toml", MANIFEST),
            ("crates/x/src/lib.rs", source),
            ("crates/x/tests/t.rs", test),
        ]))
    }

    #[test]
    fn a_dependency_that_nothing_uses_is_noticed() {
        assert!(found("//! x\nuse a_b::T;\n", "//! x\nuse c;\n").is_empty());
        assert!(found("//! x\nfn f() { a_b::g() }\n", "//! x\nfn f() { c::g!() }\n").is_empty());
        // In a comment, a text, another name, a field or a path of another crate it is no use.
        let none = "//! x\n// a_b::T\nfn f() { \"a_b::\"; xa_b::g(); s.a_b::<T>(); z::a_b::h() }\n";
        assert_eq!(found(none, "//! x\nuse c;\n").len(), 1);
        assert_eq!(found("//! x\nuse a_b::T;\n", "//! x\n").len(), 1);
    }

    #[test]
    fn one_that_only_tests_use_is_no_dependency_of_the_crate() {
        let source = "//! x\n#[cfg(test)]\nmod tests {\n    use a_b::T;\n}\n";
        assert_eq!(found(source, "//! x\nuse a_b::T;\nuse c;\n").len(), 1);
    }

    #[test]
    fn a_foreign_source_and_a_second_version_are_noticed() {
        let package = |name: &str, version: u32, source: &str| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}\n")
        };
        let registry =
            "source = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"1\"\n";
        let git = "source = \"git+https://example.org/x\"\n";
        let found = |packages: &[String], policy: &str| {
            lock_file(&tree(&[
                ("Cargo.lock", &packages.concat()),
                ("deny.toml", policy),
            ]))
            .len()
        };
        let (ours, a, b) = (
            package("x", 1, ""),
            package("a", 1, registry),
            package("a", 2, registry),
        );
        assert_eq!(found(&[ours.clone(), a.clone()], ""), 0);
        assert_eq!(found(&[ours, a.clone(), package("b", 1, git)], ""), 1);
        assert_eq!(found(&[a.clone(), b.clone()], ""), 1);
        assert_eq!(found(&[a, b], "skip = [{ crate = \"a@1\" }]"), 0);
    }

    #[test]
    fn one_of_the_workspace_has_a_user() {
        let root = ("Cargo.toml", "[workspace.dependencies]\na = \"1\"\nb = \"1\"\n");
        let member = ("crates/x/Cargo.toml", "[dependencies]\na.workspace = true\n");
        let used = ("crates/x/src/lib.rs", "//! x\nuse a::T;\n");
        assert_eq!(dependencies_used(&tree(&[root, member, used])).len(), 1);
    }
}
