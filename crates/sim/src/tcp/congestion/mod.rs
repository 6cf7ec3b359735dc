//! The congestion controls, one file each, and the one list of them.
//!
//! To add one: copy `reno.rs`, write its `CONTROL`, and name the file here twice: its `mod` line,
//! which rustfmt follows, and its place in the list. A test reports which of the two is missing.
//! Scenarios, messages and the documentation follow the list.

pub mod bbr;
pub mod cubic;
pub mod highspeed;
pub mod ledbat;
pub mod reno;
pub mod scalable;
pub mod vegas;

use super::control::ControlKind;
use engine::settings::{Raw, SettingValue, describe, nearest};

/// Every control, in the order in which lists show them.
pub static CONTROLS: &[&ControlKind] = &[
    &reno::CONTROL,
    &cubic::CONTROL,
    &highspeed::CONTROL,
    &scalable::CONTROL,
    &vegas::CONTROL,
    &bbr::CONTROL,
    &ledbat::CONTROL,
];

/// The control of this name.
///
/// # Errors
/// There is none; the message lists all names and suggests the nearest.
pub fn named(name: &str) -> Result<&'static ControlKind, String> {
    let found = CONTROLS.iter().find(|control| control.name == name);
    found.copied().ok_or_else(|| {
        let near = nearest(name, CONTROLS.iter().map(|control| control.name));
        let near = near.map(|near| format!("; did you mean \"{near}\"?"));
        format!("expected {CHOICES}; found \"{name}\"{}", near.unwrap_or_default())
    })
}

impl SettingValue for &'static ControlKind {
    const UNIT: &'static str = CHOICES;

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(name) => named(name),
            other => Err(format!("expected {CHOICES}; found {}", describe(other))),
        }
    }
}

/// The names as messages and the documentation show them: `one of "a" "b"`.
const CHOICES: &str = {
    const TEXT: [u8; choices_len()] = choices_text();
    match std::str::from_utf8(&TEXT) {
        Ok(text) => text,
        Err(_) => panic!("names are UTF-8, and the rest is ASCII"),
    }
};

const PREFIX: &[u8] = b"one of";

const fn choices_len() -> usize {
    let (mut len, mut i) = (PREFIX.len(), 0);
    while i < CONTROLS.len() {
        len += " \"\"".len() + CONTROLS[i].name.len();
        i += 1;
    }
    len
}

const fn choices_text<const LEN: usize>() -> [u8; LEN] {
    // What is not overwritten is a quotation mark.
    let mut text = [b'"'; LEN];
    let mut at = copy(PREFIX, &mut text, 0);
    let mut i = 0;
    while i < CONTROLS.len() {
        text[at] = b' ';
        at = copy(CONTROLS[i].name.as_bytes(), &mut text, at + 2) + 1;
        i += 1;
    }
    text
}

/// Copies into the text at this position; returns the position behind it.
const fn copy(from: &[u8], text: &mut [u8], at: usize) -> usize {
    let mut i = 0;
    while i < from.len() {
        text[at + i] = from[i];
        i += 1;
    }
    at + from.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_choices_are_the_names_of_the_list() {
        let names: Vec<String> = CONTROLS.iter().map(|c| format!(" \"{}\"", c.name)).collect();
        assert_eq!(CHOICES, format!("one of{}", names.concat()));
    }

    #[test]
    fn every_name_reads_back_and_a_wrong_one_suggests_the_nearest() {
        for control in CONTROLS {
            assert_eq!(named(control.name), Ok(*control));
        }
        let message = named("cubik").expect_err("no such control");
        assert!(message.contains("did you mean \"cubic\"?"), "{message}");
    }

    /// Every production source below this directory: its path, and its text.
    fn sources(under: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(under).expect("a directory").flatten() {
            let path = entry.path();
            let name = path.to_string_lossy().into_owned();
            if path.is_dir() && !name.ends_with("/tests") {
                sources(&path, found);
            } else if name.ends_with(".rs") && !name.ends_with("/tests.rs") {
                let text = std::fs::read_to_string(&path).expect("a text");
                found.push((name, text));
            }
        }
    }

    /// So a new control costs its file and its place in the list.
    #[test]
    fn a_congestion_control_stands_in_its_own_file_and_the_list_and_nowhere_else() {
        let sim = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = Vec::new();
        sources(&sim, &mut files);
        let folder = "/tcp/congestion/";
        let modules: Vec<&str> = files
            .iter()
            .filter_map(|(path, _)| path.split_once(folder)?.1.strip_suffix(".rs"))
            .filter(|module| *module != "mod")
            .collect();
        assert_eq!(modules.len(), CONTROLS.len(), "files of {folder}: {modules:?}");
        for module in modules {
            let mut uses: Vec<String> = Vec::new();
            for (path, text) in &files {
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                let named = |line: &&str| {
                    line.split(|c: char| !c.is_alphanumeric() && c != '_')
                        .any(|w| w == module)
                };
                uses.extend(lines.filter(named).map(|line| format!("{path}: {line}")));
            }
            let declared = format!("/congestion/{module}.rs: ");
            uses.retain(|line| !line.contains(&declared));
            let expected = [format!("pub mod {module};"), format!("    &{module}::CONTROL,")];
            let found: Vec<&str> = uses
                .iter()
                .filter_map(|line| Some(line.split_once("mod.rs: ")?.1))
                .collect();
            assert_eq!(found, expected, "{uses:?}");
        }
    }
}
