//! A copy of the workspace in `target/mutants`, in which one package has its mutants, built once.
//! What of them does not compile is found by the compiler's own complaints, and left out.

use super::trials::TestProgram;
use super::woven::{Woven, chooser, weave};
use super::{Mutants, PLACE};
use crate::tidy;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Soon compiled, and what wraps or is asserted is noticed.
const PROFILE: &str = "mutants";
/// So often is a package compiled anew without what did not compile.
const ATTEMPTS: usize = 40;

/// The copy.
pub struct CopiedTree {
    root: PathBuf,
    folder: PathBuf,
    target: PathBuf,
}

impl CopiedTree {
    /// Copies what git knows or would add, where it differs, and removes what is no longer there.
    ///
    /// # Errors
    /// A file that cannot be read or written, or git.
    pub fn of(root: &Path) -> Result<Self, String> {
        let tree = Self {
            root: root.to_owned(),
            folder: root.join(PLACE).join("tree"),
            target: root.join(PLACE).join("build"),
        };
        let files: BTreeSet<String> = tidy::files(root)?.into_iter().collect();
        for file in &files {
            let text = std::fs::read(root.join(file)).map_err(|why| format!("{file}: {why}"))?;
            tree.put(file, &text)?;
        }
        tree.remove_others(&tree.folder, &files)?;
        Ok(tree)
    }

    /// Writes a file unless it is so already, so that cargo compiles only what changed.
    fn put(&self, file: &str, text: &[u8]) -> Result<(), String> {
        let path = self.folder.join(file);
        if std::fs::read(&path).is_ok_and(|before| before == text) {
            return Ok(());
        }
        let failed = |why: std::io::Error| format!("{}: {why}", path.display());
        std::fs::create_dir_all(path.parent().unwrap_or(&self.folder)).map_err(failed)?;
        let original = std::fs::metadata(self.root.join(file)).map_err(failed)?;
        std::fs::write(&path, text).map_err(failed)?;
        std::fs::set_permissions(&path, original.permissions()).map_err(failed)
    }

    fn remove_others(&self, folder: &Path, files: &BTreeSet<String>) -> Result<(), String> {
        let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.strip_prefix(&self.folder).unwrap_or(&path);
            if path.is_dir() {
                self.remove_others(&path, files)?;
            } else if !files.contains(&*name.to_string_lossy()) {
                std::fs::remove_file(&path).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Puts the mutants into the files, and leaves out those that do not compile.
    ///
    /// # Errors
    /// What does not compile without a mutant to blame.
    pub fn weave(&self, mutants: &mut Mutants) -> Result<(), String> {
        for attempt in 1..=ATTEMPTS {
            let woven = self.written(mutants)?;
            let complaints = self.complaints(&mutants.package)?;
            if complaints.is_empty() {
                return Ok(());
            }
            let blamed: BTreeSet<u32> = complaints
                .iter()
                .flat_map(|complaint| {
                    let at = mutants.files.iter().position(|file| file.path == complaint.file);
                    at.map(|at| woven[at].blamed(&complaint.bytes))
                        .unwrap_or_default()
                })
                .collect();
            if blamed.is_empty() {
                return Err(format!(
                    "{} does not compile with mutants, and none is to blame:\n{}",
                    mutants.package, complaints[0].text
                ));
            }
            println!(
                "mutants: {}: {} do not compile, found at attempt {attempt}",
                mutants.package,
                blamed.len()
            );
            mutants.leave_out(&blamed);
        }
        Err(format!(
            "{} does not compile after {ATTEMPTS} attempts",
            mutants.package
        ))
    }

    fn written(&self, mutants: &Mutants) -> Result<Vec<Woven>, String> {
        let root = format!("crates/{}/src/lib.rs", mutants.package);
        mutants
            .files
            .iter()
            .map(|file| {
                let woven = weave(&file.text, &file.sites);
                let end = if file.path == root {
                    chooser()
                } else {
                    String::new()
                };
                self.put(&file.path, format!("{}{end}", woven.text).as_bytes())?;
                Ok(woven)
            })
            .collect()
    }

    fn cargo(&self, words: &[&str]) -> Result<Vec<Value>, String> {
        let output = Command::new("cargo")
            .args(words)
            .arg("--message-format=json")
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("RUSTFLAGS", "--cap-lints allow")
            .env("CARGO_INCREMENTAL", "0")
            .output()
            .map_err(|why| format!("cargo could not be started: {why}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        match messages.is_empty() {
            true => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            false => Ok(messages),
        }
    }

    fn complaints(&self, package: &str) -> Result<Vec<Complaint>, String> {
        let messages = self.cargo(&["check", "--lib", "--package", package])?;
        Ok(messages.iter().filter_map(Complaint::of).collect())
    }

    /// Builds the tests of a package, without its benches, and those of its users' libraries.
    ///
    /// # Errors
    /// What does not compile.
    pub fn tests(&self, package: &str, users: &[&str]) -> Result<Vec<TestProgram>, String> {
        let mut programs = self.programs(&["--lib", "--tests", "--package", package])?;
        for user in users {
            programs.extend(self.programs(&["--lib", "--package", user])?);
        }
        Ok(programs)
    }

    fn programs(&self, what: &[&str]) -> Result<Vec<TestProgram>, String> {
        let messages = self.cargo(&[&["test", "--no-run", "--profile", PROFILE], what].concat())?;
        if let Some(complaint) = messages.iter().find_map(Complaint::of) {
            return Err(format!(
                "{} does not compile:\n{}",
                what.join(" "),
                complaint.text
            ));
        }
        let is_bench = |message: &&Value| message["target"]["kind"][0] != "bench";
        let program = |message: &Value| {
            let manifest = Path::new(message["manifest_path"].as_str()?);
            Some(TestProgram {
                path: PathBuf::from(message["executable"].as_str()?),
                home: manifest.parent()?.to_path_buf(),
            })
        };
        Ok(messages.iter().filter(is_bench).filter_map(program).collect())
    }
}

/// An error of the compiler.
struct Complaint {
    file: String,
    bytes: Range<usize>,
    text: String,
}

impl Complaint {
    fn of(message: &Value) -> Option<Self> {
        let message = &message["message"];
        if message["level"] != "error" {
            return None;
        }
        let spans = message["spans"].as_array()?;
        let primary = spans.iter().find(|span| span["is_primary"] == true)?;
        let byte = |name: &str| primary[name].as_u64().unwrap_or(0) as usize;
        Some(Self {
            file: primary["file_name"].as_str()?.to_owned(),
            bytes: byte("byte_start")..byte("byte_end"),
            text: message["rendered"].as_str().unwrap_or("").to_owned(),
        })
    }
}
