//! What each crate may use: other crates of ours, clocks and files, `unsafe`.

use super::source::{before_tests, code};
use super::{Tree, rust};

/// Which of our crates each crate may use. A crate that is not in the table is an error. Every
/// crate's tests may use `skips`, and only tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("skips", &[]),
    ("confine", &[]),
    ("measure", &["engine"]),
    ("plot", &["engine"]),
    ("netio", &["engine", "measure"]),
    ("interleavings", &["engine"]),
    ("sim", &["engine", "measure"]),
    ("control", &["engine", "measure"]),
    ("rsvp", &["engine"]),
    ("lab", &["engine", "measure", "netio"]),
    ("host", &["engine", "netio"]),
    (
        "scenario",
        &[
            "engine", "measure", "plot", "netio", "sim", "control", "rsvp", "lab", "host", "gateway",
        ],
    ),
    (
        "gateway",
        &["confine", "engine", "measure", "netio", "control", "rsvp", "host"],
    ),
    ("web", &["control", "engine", "sim"]),
    ("import", &["engine"]),
    ("python", &["engine", "measure", "scenario"]),
    ("browser", &["control", "engine", "scenario"]),
    (
        "papers",
        &[
            "engine", "measure", "plot", "netio", "sim", "control", "host", "lab", "scenario", "gateway",
        ],
    ),
    (
        "suimon",
        &[
            "papers", "gateway", "engine", "measure", "plot", "netio", "sim", "control", "rsvp", "lab",
            "host", "scenario", "web", "import", "confine",
        ],
    ),
    (
        "fuzz",
        &[
            "control", "engine", "gateway", "host", "import", "netio", "rsvp", "scenario", "web",
        ],
    ),
    (
        "xtask",
        &[
            "control", "engine", "lab", "measure", "netio", "scenario", "skips",
        ],
    ),
];

/// Crates whose functions depend only on their arguments.
const PURE: &[&str] = &[
    "crates/engine/src/",
    "crates/measure/src/",
    "crates/rsvp/src/",
    "crates/sim/src/",
];

/// Names that a pure crate may not use outside its tests.
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

/// Where `unsafe` is allowed.
const UNSAFE: &[&str] = &[
    "crates/netio/",
    "crates/lab/src/sys",
    "crates/host/src/sys",
    // Names of exported functions; no block of it.
    "crates/browser/src/exports.rs",
];

/// The names of the crates whose tests make no lab.
pub fn without_lab(tree: &Tree) -> Vec<&'static str> {
    const MAKE: [&str; 3] = ["lab::isolated", "lab::enter", "isolation::"];
    let makes = |name: &str| {
        let folder = format!("crates/{name}/");
        let mut files = rust(tree).filter(|(path, _)| path.starts_with(&folder));
        files.any(|(_, text)| MAKE.iter().any(|word| text.contains(word)))
    };
    let names = ARROWS.iter().map(|arrow| arrow.0);
    names.filter(|name| !makes(name)).collect()
}

/// Dependency arrows: from each crate's manifest.
pub fn arrows(tree: &Tree) -> Vec<String> {
    let ours: Vec<&str> = ARROWS.iter().map(|a| a.0).collect();
    let mut complaints = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        let name = path.trim_end_matches("/Cargo.toml").trim_start_matches("crates/");
        let Some((_, allowed)) = ARROWS.iter().find(|a| a.0 == name) else {
            complaints.push(format!(
                "{path}: crate `{name}` is not in the table of arrows in xtask/src/tidy/crates.rs"
            ));
            continue;
        };
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let key = line.split(['=', '.', ' ']).next().unwrap_or("");
            let in_tests = key == "skips" && section == "[dev-dependencies]";
            let may = in_tests || allowed.contains(&key);
            if section.contains("dependencies") && ours.contains(&key) && !may {
                complaints.push(format!(
                    "{path}: `{name}` may not depend on `{key}` (ARCHITECTURE.md, arrows)"
                ));
            }
        }
    }
    complaints
}

/// No clock, randomness, thread, file or global in the pure crates.
pub fn purity(tree: &Tree) -> Vec<String> {
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
pub fn unsafe_places(tree: &Tree) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_wrong_arrow_is_noticed() {
        let wrong = tree(&[(
            "crates/sim/Cargo.toml",
            "[dependencies]\nengine.workspace = true\nnetio.workspace = true\n",
        )]);
        assert_eq!(arrows(&wrong).len(), 1);
        let skips = "[dev-dependencies]\nskips.workspace = true\n";
        assert!(arrows(&tree(&[("crates/sim/Cargo.toml", skips)])).is_empty());
        let skips = skips.replace("dev-", "");
        assert_eq!(arrows(&tree(&[("crates/sim/Cargo.toml", &skips)])).len(), 1);
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
}
