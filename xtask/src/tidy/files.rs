//! What a file must have and may not have, whatever it is about.

use super::source::{before_tests, code};
use super::{Tree, rust};
use std::path::Path;

/// Code lines of one file at most, tests not counted.
const LONGEST: usize = 1_000;

/// Every file says at its head what it is for.
pub fn purpose(tree: &Tree) -> Vec<String> {
    let starts = |path: &str, text: &str| match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "rs" => text.starts_with("//! "),
        "md" => text.starts_with("# "),
        "sh" => text.starts_with("#!") && text.lines().nth(1).is_some_and(|line| line.starts_with("# ")),
        "toml" if path.starts_with("examples/") || path.starts_with("scenarios/") => text.starts_with("# "),
        _ => true,
    };
    let wrong = tree.iter().filter(|(path, text)| !starts(path, text));
    wrong
        .map(|(path, _)| format!("{path}: does not say at its head what it is for"))
        .collect()
}

/// No file whose name would fit anything.
pub fn no_drawers(tree: &Tree) -> Vec<String> {
    const DRAWERS: &[&str] = &[
        "common", "util", "utils", "misc", "helper", "helpers", "shared", "stuff",
    ];
    let named = |path: &&String| path.split(['/', '.']).any(|part| DRAWERS.contains(&part));
    let wrong = tree.keys().filter(named);
    wrong
        .map(|path| format!("{path}: a drawer; name it for what is in it, or move that where it belongs"))
        .collect()
}

/// Nothing unfinished, nothing of one machine.
pub fn leftovers(tree: &Tree) -> Vec<String> {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X "),
        concat!("#[ig", "nore"),
    ];
    let mut complaints = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| !path.ends_with(".lock")) {
        for (number, line) in text.lines().enumerate() {
            for mark in marks.iter().filter(|mark| line.contains(**mark)) {
                complaints.push(format!("{path}:{}: `{mark}` left behind", number + 1));
            }
            if line.ends_with([' ', '\t']) && !path.ends_with(".svg") {
                complaints.push(format!("{path}:{}: space at the end of the line", number + 1));
            }
        }
    }
    complaints
}

/// A file that a second reader would need only half of is two files.
pub fn length(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in rust(tree).filter(|(path, _)| path.contains("/src/")) {
        let lines = code(before_tests(text))
            .filter(|(_, line)| !line.trim().is_empty())
            .count();
        if lines > LONGEST {
            complaints.push(format!(
                "{path}: {lines} lines of code, more than {LONGEST}: split it"
            ));
        }
    }
    complaints
}

/// Links between our own pages lead somewhere.
pub fn links(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        for part in text.split("](").skip(1) {
            let target = part.split([')', '#']).next().unwrap_or("");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let full = normal(&folder.join(target));
            let is_folder = || tree.keys().any(|key| key.starts_with(&format!("{full}/")));
            let binary = [".png", ".svg"].iter().any(|ending| full.ends_with(ending));
            if !tree.contains_key(&full) && !is_folder() && !binary {
                complaints.push(format!("{path}: the link to `{target}` leads nowhere"));
            }
        }
    }
    complaints
}

/// A relative path without `.` and `..`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.iter().filter_map(|part| part.to_str()) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn files_without_purpose_drawers_leftovers_and_dead_links_are_noticed() {
        assert_eq!(
            purpose(&tree(&[
                ("a.rs", "fn main() {}"),
                ("b.md", "text"),
                ("c.rs", "//! x")
            ]))
            .len(),
            2
        );
        assert_eq!(
            no_drawers(&tree(&[
                ("src/util.rs", ""),
                ("src/common/a.rs", ""),
                ("src/unit.rs", "")
            ]))
            .len(),
            2
        );
        assert_eq!(
            leftovers(&tree(&[("a.rs", concat!("// TO", "DO: x\nlet a; \n"))])).len(),
            2
        );
        assert_eq!(
            links(&tree(&[
                ("docs/a.md", "[x](../b.md) [y](c.md) [z](a.md#x)"),
                ("b.md", "")
            ]))
            .len(),
            1
        );
    }

    #[test]
    fn a_long_file_is_noticed_without_its_tests() {
        let long = "x\n".repeat(LONGEST + 1);
        assert_eq!(length(&tree(&[("crates/a/src/b.rs", &long)])).len(), 1);
        let tested = format!("x\n#[cfg(test)]\nmod tests {{\n{long}");
        assert!(length(&tree(&[("crates/a/src/b.rs", &tested)])).is_empty());
    }
}
