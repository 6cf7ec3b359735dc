//! What a file must have and may not have, whatever it is about.

use super::source::{before_tests, code, code_only, in_name, production};
use super::{Tree, rust};
use std::path::Path;

/// Code lines of one file at most, tests not counted.
const LONGEST: usize = 1_000;

/// Columns of a comment's line at most.
const COMMENT: usize = 100;

/// Lines of a decision at most.
const DECISION: usize = 45;

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

/// A comment is read in two columns, beside the code or in a browser. What cannot be broken, an
/// address, may be longer.
pub fn comment_width(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in rust(tree) {
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if line.trim_start().starts_with("//") && columns > COMMENT && !line.contains("://") {
                complaints.push(format!(
                    "{path}:{}: a comment of {columns} columns, more than {COMMENT}",
                    number + 1
                ));
            }
        }
    }
    complaints
}

/// No module is declared by a macro: rustfmt would not find its file.
pub fn modules_outside_macros(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in rust(tree) {
        let code = code_only(text);
        for (at, end) in macro_bodies(&code) {
            let body = &code[at..end];
            let words = body.match_indices("mod ").map(|(word, _)| word);
            for word in words.filter(|word| !body[..*word].ends_with(in_name)) {
                let number = code[..at + word].matches('\n').count() + 1;
                complaints.push(format!(
                    "{path}:{number}: `mod` in a macro: rustfmt does not follow it; write it out"
                ));
            }
        }
    }
    complaints
}

/// From where to where the braces of macros go, of their definitions and of their uses. Those of
/// tests that hold modules, such as `proptest!`, would be found too.
fn macro_bodies(code: &str) -> Vec<(usize, usize)> {
    let mut bodies = Vec::new();
    for (at, _) in code.match_indices('!') {
        let after = &code[at + 1..];
        let word = after.trim_start().trim_start_matches(in_name);
        let opens = word.trim_start().starts_with('{') && code[..at].ends_with(in_name);
        let inside = bodies.last().is_some_and(|(_, end)| at < *end);
        if !opens || inside {
            continue;
        }
        let open = code.len() - word.trim_start().len();
        let mut depth = 0_usize;
        let close = code[open..].char_indices().find_map(|(i, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(open + i)
        });
        bodies.push((open, close.unwrap_or(code.len())));
    }
    bodies
}

/// A broken invariant says which: `expect` and `assert`, no `unwrap`.
pub fn no_unwrap(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in production(tree) {
        for (number, line) in code_only(text).lines().enumerate() {
            if line.contains(".unwrap()") {
                complaints.push(format!("{path}:{}: `unwrap`: say what cannot be", number + 1));
            }
        }
    }
    complaints
}

/// A decision is half a page: the context, the choice, what was given up. Measurements have a page
/// of their own.
pub fn short_decisions(tree: &Tree) -> Vec<String> {
    let long = |(path, text): (&String, &String)| {
        let lines = text.lines().count();
        let note = path.starts_with("docs/decisions/") && path.ends_with(".md");
        (note && lines > DECISION).then(|| {
            format!(
                "{path}: {lines} lines, more than {DECISION}: what was measured goes to docs/measurements"
            )
        })
    };
    tree.iter().filter_map(long).collect()
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

    #[test]
    fn wide_comments_modules_in_macros_unwraps_and_long_decisions_are_noticed() {
        let wide = format!(
            "    /// {}\n// https://{}\nlet a = 1; // {}\n",
            "x".repeat(93),
            "x".repeat(99),
            "x".repeat(99)
        );
        assert_eq!(comment_width(&tree(&[("a.rs", &wide)])).len(), 1);
        let text = "macro_rules! list {\n    ($name:ident) => { pub mod $name; };\n}\nlist! { x }\nmod y;\nlist! {\n    mod z;\n}\nif !a { let model = \"mod \"; }\n";
        let complaints = modules_outside_macros(&tree(&[("a.rs", text)]));
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].starts_with("a.rs:2:") && complaints[1].starts_with("a.rs:7:"));
        let text = "f().unwrap();\n// .unwrap()\n#[cfg(test)]\nmod tests {\n    f().unwrap();\n}\n";
        assert_eq!(no_unwrap(&tree(&[("crates/a/src/b.rs", text)])).len(), 1);
        let long = "x\n".repeat(DECISION + 1);
        assert_eq!(
            short_decisions(&tree(&[("docs/decisions/a.md", &long), ("docs/b.md", &long)])).len(),
            1
        );
    }
}
