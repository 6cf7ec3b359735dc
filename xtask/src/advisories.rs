//! Known vulnerabilities of the parts: `advisories.toml` has what the advisory database of RustSec
//! says of each crate of the lock file, so that CI can compare without a network.
//!
//! `cargo xtask advisories FOLDER` writes that file anew from a copy of the database, and only this
//! changes it. Read are the identifier, the kind and the versions of an advisory, not its text;
//! those that were withdrawn, and drafts, are left out.

use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub const FILE: &str = "advisories.toml";
const HEAD: &str = "\
# What the advisory database of RustSec (in the public domain, CC0) says of the crates of Cargo.lock: the versions that an advisory
# does not touch. `cargo xtask tidy` compares; `cargo xtask advisories FOLDER` writes this file from a copy of the database.
";

/// What is known.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The date of the newest advisory that the copy had, on any crate.
    pub until: String,
    /// The crates that were looked up.
    pub looked_up: BTreeSet<String>,
    advisories: Vec<Advisory>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advisory {
    #[serde(rename = "crate")]
    name: String,
    id: String,
    kind: String,
    patched: Vec<String>,
    unaffected: Vec<String>,
}

impl Advisory {
    /// Whether it is about this version.
    fn touches(&self, version: &str) -> Result<bool, String> {
        let wrong = |what: &str, why: semver::Error| format!("{}: {what}: {why}", self.id);
        let version = Version::parse(version).map_err(|why| wrong(version, why))?;
        for range in self.patched.iter().chain(&self.unaffected) {
            if VersionReq::parse(range)
                .map_err(|why| wrong(range, why))?
                .matches(&version)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What is wrong with the crates of a lock file by a snapshot.
pub fn complaints(lock: &str, snapshot: &str) -> Vec<String> {
    let snapshot: Snapshot = match toml::from_str(snapshot) {
        Ok(snapshot) => snapshot,
        Err(why) => return vec![format!("{FILE}: {why}")],
    };
    let locked = locked(lock);
    let unknown = |(name, _): &&(String, String)| !snapshot.looked_up.contains(name);
    let mut found: Vec<String> = locked
        .iter()
        .filter(unknown)
        .map(|(name, _)| format!("{FILE}: `{name}` was not looked up: cargo xtask advisories FOLDER"))
        .collect();
    for advisory in &snapshot.advisories {
        for (name, version) in locked.iter().filter(|(name, _)| *name == advisory.name) {
            match advisory.touches(version) {
                Ok(false) => {}
                Ok(true) => found.push(format!(
                    "Cargo.lock: {name} {version} has {}, {}: cargo update -p {name}",
                    advisory.id, advisory.kind
                )),
                Err(why) => found.push(format!("{FILE}: {why}")),
            }
        }
    }
    found
}

/// The names and versions of the packages of others.
fn locked(lock: &str) -> BTreeSet<(String, String)> {
    let entry = |block: &str| {
        let value = |key: &str| {
            let line = block
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{key} = \"")));
            line.map(|line| line.trim_end_matches('"').to_owned())
        };
        value("source").and(value("name").zip(value("version")))
    };
    lock.split("[[package]]").skip(1).filter_map(entry).collect()
}

/// Writes the snapshot anew from a copy of the database.
///
/// # Errors
/// A folder that is no such copy, an advisory without its facts, or a file that cannot be read or
/// written.
pub fn renew(root: &Path, folder: &str) -> Result<(), String> {
    let lock = root.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|why| format!("{}: {why}", lock.display()))?;
    let snapshot = snapshot(&lock, &Path::new(folder).join("crates"))?;
    let mut text = format!("{HEAD}until = \"{}\"\nlooked_up = [\n", snapshot.until);
    for name in &snapshot.looked_up {
        let _ = writeln!(text, "    \"{name}\",");
    }
    text += "]\n";
    for advisory in &snapshot.advisories {
        let row = toml::to_string(advisory).map_err(|why| why.to_string())?;
        let _ = write!(text, "\n[[advisories]]\n{row}");
    }
    fs::write(root.join(FILE), text).map_err(|why| format!("{FILE}: {why}"))?;
    println!(
        "{FILE}: {} advisories on {} crates, until {}",
        snapshot.advisories.len(),
        snapshot.looked_up.len(),
        snapshot.until
    );
    match complaints(&lock, &fs::read_to_string(root.join(FILE)).unwrap_or_default()) {
        none if none.is_empty() => Ok(()),
        found => Err(found.join("\n")),
    }
}

fn snapshot(lock: &str, crates: &Path) -> Result<Snapshot, String> {
    let looked_up: BTreeSet<String> = locked(lock).into_iter().map(|(name, _)| name).collect();
    let (mut until, mut advisories) = (String::new(), Vec::new());
    let entries = |folder: &Path| {
        let all = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        Ok::<_, String>(all.filter_map(|entry| Some(entry.ok()?.path())))
    };
    for folder in entries(crates)?.filter(|path| path.is_dir()) {
        for file in entries(&folder)?.filter(|path| path.extension().is_some_and(|end| end == "md")) {
            let text = fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
            let facts = facts(&text).map_err(|why| format!("{}: {why}", file.display()))?;
            until = until.max(facts.date());
            let advisory = facts.advisory();
            advisories.extend(advisory.filter(|advisory| looked_up.contains(&advisory.name)));
        }
    }
    advisories.sort();
    match until.is_empty() {
        true => Err(format!("{} has no advisories", crates.display())),
        false => Ok(Snapshot {
            until,
            looked_up,
            advisories,
        }),
    }
}

/// What an advisory says, as far as it is used here.
#[derive(Deserialize)]
struct Facts {
    #[serde(rename = "advisory")]
    about: About,
    versions: Versions,
}

#[derive(Deserialize)]
struct About {
    id: String,
    package: String,
    date: toml::Value,
    withdrawn: Option<toml::Value>,
    informational: Option<String>,
}

#[derive(Deserialize)]
struct Versions {
    patched: Vec<String>,
    #[serde(default)]
    unaffected: Vec<String>,
}

impl Facts {
    fn date(&self) -> String {
        self.about.date.to_string().trim_matches('"').to_owned()
    }

    fn advisory(self) -> Option<Advisory> {
        let is_draft = self.about.id.starts_with("RUSTSEC-0000");
        (self.about.withdrawn.is_none() && !is_draft).then(|| Advisory {
            name: self.about.package,
            id: self.about.id,
            kind: self
                .about
                .informational
                .unwrap_or_else(|| "vulnerable".to_owned()),
            patched: self.versions.patched,
            unaffected: self.versions.unaffected,
        })
    }
}

/// The facts stand in TOML before the text.
fn facts(text: &str) -> Result<Facts, String> {
    let front = text
        .trim_start()
        .strip_prefix("```toml")
        .and_then(|rest| rest.split("```").next());
    let front = front.ok_or("no facts before its text")?;
    toml::from_str(front).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "\
[[package]]
name = \"ours\"
version = \"0.1.0\"

[[package]]
name = \"bytes\"
version = \"1.5.0\"
source = \"registry\"

[[package]]
name = \"rand\"
version = \"0.9.1\"
source = \"registry\"
";

    fn snapshot_of(names: &str, patched: &str, unaffected: &str) -> String {
        format!(
            "until = \"2026-01-01\"\nlooked_up = [{names}]\n[[advisories]]\ncrate = \"bytes\"\nid = \
             \"RUSTSEC-2026-0007\"\nkind = \"vulnerable\"\npatched = [{patched}]\nunaffected = [{unaffected}]\n"
        )
    }

    #[test]
    fn a_version_that_an_advisory_touches_is_told_and_so_is_a_crate_that_was_not_looked_up() {
        let all = "\"bytes\", \"rand\"";
        let told = |snapshot: &str| complaints(LOCK, snapshot);
        let touched = told(&snapshot_of(all, "\">= 1.5.1\"", ""));
        assert_eq!(
            touched,
            ["Cargo.lock: bytes 1.5.0 has RUSTSEC-2026-0007, vulnerable: cargo update -p bytes"]
        );
        assert_eq!(told(&snapshot_of(all, "", "")).len(), 1, "no version is patched");
        for (patched, unaffected) in [
            ("\">= 1.5.0\"", ""),
            ("\"^1.4.9, < 2.0\"", ""),
            ("\">= 2\"", "\"< 1.6\""),
        ] {
            assert!(
                told(&snapshot_of(all, patched, unaffected)).is_empty(),
                "{patched}"
            );
        }
        let unknown = told(&snapshot_of("\"bytes\"", "\">= 1.5.0\"", ""));
        assert!(
            unknown.len() == 1 && unknown[0].contains("`rand` was not looked up"),
            "{unknown:?}"
        );
        assert_eq!(told(&snapshot_of(all, "\"what\"", "")).len(), 1);
        assert_eq!(told("nothing").len(), 1);
    }

    #[test]
    fn a_snapshot_has_the_advisories_on_locked_crates_but_no_drafts_and_none_that_were_withdrawn() {
        let root = std::env::temp_dir().join(format!("suimon-advisories-{}", std::process::id()));
        let advisory = |name: &str, id: &str, more: &str| {
            let folder = root.join("crates").join(name);
            fs::create_dir_all(&folder).expect("a folder");
            let text = format!(
                "```toml\n[advisory]\nid = \"{id}\"\npackage = \"{name}\"\ndate = \"{}-02-03\"\n{more}\n[versions]\npatched = \
                 [\">= 9\"]\n```\n\n# A title\n",
                &id[8..12]
            );
            fs::write(folder.join(format!("{id}.md")), text).expect("written");
        };
        advisory("bytes", "RUSTSEC-2024-0002", "informational = \"unsound\"");
        advisory("bytes", "RUSTSEC-2024-0001", "");
        advisory("bytes", "RUSTSEC-2024-0003", "withdrawn = \"2025-01-01\"");
        advisory("bytes", "RUSTSEC-0000-0000", "");
        advisory("others", "RUSTSEC-2025-0009", "");
        fs::write(root.join("Cargo.lock"), LOCK).expect("written");
        let ended = renew(&root, &root.display().to_string()).expect_err("bytes is touched");
        assert_eq!(ended.lines().count(), 2);
        let text = fs::read_to_string(root.join(FILE)).expect("written");
        let read: Snapshot = toml::from_str(&text).expect("it is read back");
        assert_eq!(read.until, "2025-02-03");
        let ids = read
            .advisories
            .iter()
            .map(|one| (one.id.as_str(), one.kind.as_str()));
        let expected = [
            ("RUSTSEC-2024-0001", "vulnerable"),
            ("RUSTSEC-2024-0002", "unsound"),
        ];
        assert!(ids.eq(expected), "{text}");
        fs::write(root.join("crates/bytes/RUSTSEC-2024-0001.md"), "no facts").expect("written");
        assert!(renew(&root, &root.display().to_string()).is_err());
        assert!(renew(&root, "/nowhere").is_err());
        fs::remove_dir_all(&root).expect("removed");
    }
}
