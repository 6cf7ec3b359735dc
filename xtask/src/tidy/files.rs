//! What every file must have and may not have.

use super::source::{before_tests, code, code_only, in_name, production};
use super::{Tree, rust};
use std::path::Path;

/// The maximum number of code lines in a file, without tests.
const LONGEST: usize = 1_000;

/// The maximum number of columns of a comment line.
const COMMENT: usize = 100;

/// The maximum number of lines of a decision.
const DECISION: usize = 45;

/// Every file states its purpose at its head.
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
        .map(|(path, _)| format!("{path}: does not state its purpose at its head"))
        .collect()
}

/// No file with a name that would fit anything.
pub fn no_drawers(tree: &Tree) -> Vec<String> {
    const DRAWERS: &[&str] = &[
        "common", "util", "utils", "misc", "helper", "helpers", "shared", "stuff",
    ];
    let named = |path: &&String| path.split(['/', '.']).any(|part| DRAWERS.contains(&part));
    let wrong = tree.keys().filter(named);
    wrong
        .map(|path| {
            format!("{path}: a vague name; name it for its content, or move the content where it belongs")
        })
        .collect()
}

/// Nothing unfinished, nothing specific to one machine.
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

/// A file that is too long should be split.
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

/// Comment lines have a maximum width. Lines with an address, which cannot be broken, may be
/// longer.
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

/// No module is declared by a macro: rustfmt would not find its file. It looks into `cfg_if!`.
pub fn modules_outside_macros(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in rust(tree) {
        let code = code_only(text);
        let bodies = macro_bodies(&code).into_iter();
        for (at, end) in bodies.filter(|(at, _)| !code[..*at].trim_end().ends_with("cfg_if!")) {
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

/// The ranges of macro braces, in definitions and in uses. Macros in tests that contain modules,
/// such as `proptest!`, are included.
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

/// A broken invariant is named: `expect` and `assert`, not `unwrap`.
pub fn no_unwrap(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in production(tree) {
        for (number, line) in code_only(text).lines().enumerate() {
            if line.contains(".unwrap()") {
                complaints.push(format!(
                    "{path}:{}: `unwrap`: use `expect` with the invariant",
                    number + 1
                ));
            }
        }
    }
    complaints
}

/// A decision takes half a page: the context, the choice, what was given up. Measurements have
/// their own pages.
pub fn short_decisions(tree: &Tree) -> Vec<String> {
    let long = |(path, text): (&String, &String)| {
        let lines = text.lines().count();
        let note = path.starts_with("docs/decisions/") && path.ends_with(".md");
        (note && lines > DECISION).then(|| {
            format!("{path}: {lines} lines, more than {DECISION}: move measurements to docs/measurements")
        })
    };
    tree.iter().filter_map(long).collect()
}

/// Links between our own pages have a target.
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
                complaints.push(format!("{path}: the link to `{target}` has no target"));
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
        let text = "cfg_if::cfg_if! {\n    if #[cfg(unix)] {\n        mod z;\n    }\n}\n";
        assert_eq!(modules_outside_macros(&tree(&[("a.rs", text)])), [""; 0]);
        let text = "f().unwrap();\n// .unwrap()\n#[cfg(test)]\nmod tests {\n    f().unwrap();\n}\n";
        assert_eq!(no_unwrap(&tree(&[("crates/a/src/b.rs", text)])).len(), 1);
        let long = "x\n".repeat(DECISION + 1);
        assert_eq!(
            short_decisions(&tree(&[("docs/decisions/a.md", &long), ("docs/b.md", &long)])).len(),
            1
        );
    }
}
