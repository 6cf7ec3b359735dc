//! `cargo xtask tidy`: the promises of the design, checked on the source text.
//!
//! Each rule is a function from the tree's files to complaints, so that each is tested on a small made-up
//! tree. A complaint says the file, the line, what is wrong and what to do.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The text files of the tree, by path.
type Tree = BTreeMap<String, String>;

/// Which of our crates each crate may use. What is not in the table may not exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("measure", &["engine"]),
    ("plot", &["engine"]),
    ("netio", &["engine", "measure"]),
    ("sim", &["engine", "measure"]),
    ("control", &["engine", "measure"]),
    ("rsvp", &["engine"]),
    ("lab", &["engine", "measure", "netio"]),
    ("host", &["engine", "netio"]),
    (
        "suimon",
        &[
            "engine", "measure", "plot", "netio", "sim", "control", "rsvp", "lab", "host",
        ],
    ),
    ("xtask", &["control", "engine"]),
];

/// Crates that must be functions of their arguments.
const PURE: &[&str] = &[
    "crates/engine/src/",
    "crates/measure/src/",
    "crates/rsvp/src/",
    "crates/sim/src/",
];

/// What a pure crate may not name outside its tests.
const IMPURE: &[(&str, &str)] = &[
    ("std::time", "time is an argument"),
    ("SystemTime", "time is an argument"),
    ("std::net", "ports do input and output"),
    ("std::fs", "ports do input and output"),
    ("std::io", "ports do input and output"),
    ("std::process", "ports do input and output"),
    ("std::env", "settings are arguments"),
    ("std::thread", "the host owns threads"),
    ("std::sync::Mutex", "one owner per engine"),
    ("thread_local!", "no global state"),
    ("static mut", "no global state"),
    ("RandomState", "randomness is given at construction"),
    ("rand::", "randomness is given at construction"),
    ("println!", "the host logs"),
];

/// Where `unsafe` may stand.
const UNSAFE: &[&str] = &["crates/netio/", "crates/lab/src/sys", "crates/host/src/sys"];

/// Code lines of one file at most, tests not counted.
const LONGEST: usize = 1_000;

/// Runs every rule.
pub fn run(root: &Path) -> Result<(), String> {
    let tree = read(root)?;
    let mut complaints = Vec::new();
    for rule in [
        arrows,
        purity,
        unsafe_places,
        one_file_each,
        purpose,
        no_drawers,
        leftovers,
        length,
        links,
    ] {
        complaints.extend(rule(&tree));
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

/// The files that git knows or would know, as text.
fn read(root: &Path) -> Result<Tree, String> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git could not be started: {e}"))?;
    let names = String::from_utf8_lossy(&list.stdout).into_owned();
    let text = |name: &str| {
        std::fs::read_to_string(root.join(name))
            .ok()
            .map(|text| (name.to_string(), text))
    };
    Ok(names.lines().filter_map(text).collect())
}

fn rust(tree: &Tree) -> impl Iterator<Item = (&String, &String)> {
    tree.iter().filter(|(path, _)| path.ends_with(".rs"))
}

/// The part of a source file before its tests, by the convention that they come last.
fn before_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

/// Lines without their comments, numbered from 1.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split("//").next().unwrap_or(line)))
}

/// Dependency arrows: from each crate's manifest.
fn arrows(tree: &Tree) -> Vec<String> {
    let ours: Vec<&str> = ARROWS.iter().map(|a| a.0).collect();
    let mut complaints = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        let name = path.trim_end_matches("/Cargo.toml").trim_start_matches("crates/");
        let Some((_, allowed)) = ARROWS.iter().find(|a| a.0 == name) else {
            complaints.push(format!(
                "{path}: crate `{name}` is not in the table of arrows in xtask/src/tidy.rs"
            ));
            continue;
        };
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let key = line.split(['=', '.', ' ']).next().unwrap_or("");
            if section.contains("dependencies") && ours.contains(&key) && !allowed.contains(&key) {
                complaints.push(format!(
                    "{path}: `{name}` may not depend on `{key}` (ARCHITECTURE.md, arrows)"
                ));
            }
        }
    }
    complaints
}

/// No clock, randomness, thread, file or global in the pure crates.
fn purity(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in rust(tree).filter(|(path, _)| PURE.iter().any(|pure| path.starts_with(pure))) {
        for (number, line) in code(before_tests(text)) {
            for (word, why) in IMPURE.iter().filter(|(word, _)| line.contains(word)) {
                complaints.push(format!("{path}:{number}: `{word}` in a pure crate: {why}"));
            }
        }
    }
    complaints
}

/// `unsafe` only where it is expected; the pure crates forbid it themselves.
fn unsafe_places(tree: &Tree) -> Vec<String> {
    let word = concat!("un", "safe");
    let uses = |line: &str| {
        [
            format!("{word} {{"),
            format!("{word} fn"),
            format!("{word} impl"),
            format!("{word} extern"),
        ]
        .iter()
        .any(|form| line.contains(form.as_str()))
    };
    let mut complaints = Vec::new();
    for (path, text) in rust(tree).filter(|(path, _)| !UNSAFE.iter().any(|place| path.starts_with(place))) {
        for (number, _) in code(text).filter(|(_, line)| uses(line)) {
            complaints.push(format!("{path}:{number}: `{word}` outside {}", UNSAFE.join(", ")));
        }
    }
    for pure in PURE {
        let lib = format!("{pure}lib.rs");
        let forbids = tree
            .get(&lib)
            .is_none_or(|text| text.contains(&format!("#![forbid({word}_code)]")));
        if !forbids {
            complaints.push(format!("{lib}: lacks #![forbid({word}_code)]"));
        }
    }
    complaints
}

/// Each discipline is one file with one `KIND`, and is in the list.
fn one_file_each(tree: &Tree) -> Vec<String> {
    const PLACE: &str = "crates/engine/src/disciplines/";
    let Some(list) = tree.get(&format!("{PLACE}mod.rs")) else {
        return Vec::new();
    };
    let listed = |name: &str| {
        list.contains(&format!("pub mod {name};\n")) && list.contains(&format!("&{name}::KIND,\n"))
    };
    let mut complaints = Vec::new();
    for (path, text) in rust(tree) {
        let Some(name) = path.strip_prefix(PLACE).map(|file| file.trim_end_matches(".rs")) else {
            continue;
        };
        if name == "mod" {
            continue;
        }
        if name.contains('/') {
            complaints.push(format!(
                "{path}: a discipline is one file; shared parts stand beside `disciplines/`"
            ));
        } else if text.matches("pub static KIND: Kind").count() != 1 {
            complaints.push(format!("{path}: has not exactly one `pub static KIND: Kind`"));
        } else if !listed(name) {
            complaints.push(format!(
                "{path}: {PLACE}mod.rs lacks `pub mod {name};` or `&{name}::KIND,` in its list"
            ));
        }
    }
    complaints
}

/// Every file says at its head what it is for.
fn purpose(tree: &Tree) -> Vec<String> {
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
fn no_drawers(tree: &Tree) -> Vec<String> {
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
fn leftovers(tree: &Tree) -> Vec<String> {
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
fn length(tree: &Tree) -> Vec<String> {
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
fn links(tree: &Tree) -> Vec<String> {
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
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        files
            .iter()
            .map(|(path, text)| ((*path).to_string(), (*text).to_string()))
            .collect()
    }

    #[test]
    fn a_wrong_arrow_is_noticed() {
        let wrong = tree(&[(
            "crates/sim/Cargo.toml",
            "[dependencies]\nengine.workspace = true\nnetio.workspace = true\n",
        )]);
        assert_eq!(arrows(&wrong).len(), 1);
        let unknown = tree(&[("crates/helper/Cargo.toml", "")]);
        assert_eq!(arrows(&unknown).len(), 1);
    }

    #[test]
    fn a_clock_in_the_engine_is_noticed_but_not_in_its_tests_or_comments() {
        let text = "//! x\n// std::time is absent\nuse std::time::Instant;\n#[cfg(test)]\nmod tests { use std::env; }\n";
        assert_eq!(purity(&tree(&[("crates/engine/src/a.rs", text)])).len(), 1);
        assert!(purity(&tree(&[("crates/netio/src/a.rs", text)])).is_empty());
    }

    #[test]
    fn unsafe_code_has_its_places() {
        let text = concat!("//! x\nfn f() { un", "safe { g() } }\n");
        assert_eq!(
            unsafe_places(&tree(&[("crates/control/src/a.rs", text)])).len(),
            1
        );
        assert!(unsafe_places(&tree(&[("crates/netio/src/a.rs", text)])).is_empty());
        assert_eq!(
            unsafe_places(&tree(&[("crates/engine/src/lib.rs", "//! x\n")])).len(),
            1
        );
    }

    #[test]
    fn a_discipline_that_is_not_in_the_list_is_noticed() {
        let list = (
            "crates/engine/src/disciplines/mod.rs",
            "pub mod fifo;\npub static KINDS: &[&Kind] = &[\n    &fifo::KIND,\n];\n",
        );
        let kind = "//! x\npub static KIND: Kind = 1;\n";
        let good = tree(&[list, ("crates/engine/src/disciplines/fifo.rs", kind)]);
        assert!(one_file_each(&good).is_empty());
        let wrong = tree(&[list, ("crates/engine/src/disciplines/lifo.rs", kind)]);
        assert_eq!(one_file_each(&wrong).len(), 1);
        let empty = tree(&[list, ("crates/engine/src/disciplines/fifo.rs", "//! x\n")]);
        assert_eq!(one_file_each(&empty).len(), 1);
    }

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
