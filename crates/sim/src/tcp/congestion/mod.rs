//! The congestion controls, one file each, and the one list of them.
//!
//! To add one: copy `reno.rs`, write its `CONTROL`, and name the file here twice: its `mod` line,
//! which rustfmt follows, and its place in the list. A test reports which of the two is missing.
//! Scenarios, messages and the documentation follow the list.

pub mod bbr;
pub mod bbr3;
pub mod cubic;
pub mod highspeed;
pub mod ledbat;
pub mod prague;
pub mod reno;
pub mod scalable;
pub mod vegas;

use super::control::ControlKind;

/// Every control, in the order in which lists show them.
pub static CONTROLS: &[&ControlKind] = &[
    &reno::CONTROL,
    &cubic::CONTROL,
    &highspeed::CONTROL,
    &scalable::CONTROL,
    &vegas::CONTROL,
    &bbr::CONTROL,
    &bbr3::CONTROL,
    &ledbat::CONTROL,
    &prague::CONTROL,
];

engine::choices_of!(ControlKind in CONTROLS);

/// What most hosts have today unless somebody chooses another: the default of most systems.
pub fn of_most_hosts() -> &'static ControlKind {
    CONTROLS
        .iter()
        .max_by_key(|control| control.default_of.len())
        .unwrap_or(&CONTROLS[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::settings::{Raw, SettingValue};
    use std::path::Path;

    fn named(name: &str) -> Result<&'static ControlKind, String> {
        <&ControlKind>::from_raw(&Raw::Text(name.into()))
    }

    #[test]
    fn the_choices_are_the_names_of_the_list() {
        let names: Vec<String> = CONTROLS.iter().map(|c| format!(" \"{}\"", c.name)).collect();
        assert_eq!(<&ControlKind>::UNIT, format!("one of{}", names.concat()));
    }

    #[test]
    fn one_control_is_the_default_of_a_system() {
        let mut systems: Vec<&str> = CONTROLS
            .iter()
            .flat_map(|control| control.default_of)
            .copied()
            .collect();
        let all = systems.len();
        systems.sort_unstable();
        systems.dedup();
        assert_eq!(systems.len(), all, "{systems:?}");
        let most = of_most_hosts().default_of.len();
        let as_many = CONTROLS.iter().filter(|control| control.default_of.len() == most);
        assert_eq!((as_many.count(), most > 0), (1, true));
        assert!(of_most_hosts().default_of.contains(&"Linux"));
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
        sources(&sim.join("../../scenario/src"), &mut files);
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
