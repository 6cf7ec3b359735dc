//! Skipped tests: the list that they write through `skips::skipped`, and which skips are allowed.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// An allowed skip.
pub struct Allowed {
    /// The file of the test, at the beginning of the line.
    pub file: &'static str,
    /// A part of the message.
    pub text: &'static str,
    /// Why the test need not run.
    pub reason: &'static str,
}

impl Allowed {
    fn allows(&self, line: &str) -> bool {
        line.starts_with(self.file) && line.contains(self.text)
    }
}

/// The file to which tests write their skips; it is removed at the end.
pub struct Skipped(PathBuf);

impl Drop for Skipped {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Skipped {
    pub fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("suimon-skips-{}", std::process::id()));
        let everyone = Permissions::from_mode(0o666);
        let made = File::create(&path).and_then(|file| file.set_permissions(everyone));
        made.map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Prints the skips. Fails if tests `must_run` and a skip is not allowed.
    pub fn judge(&self, allowed: &[Allowed], must_run: bool) -> Result<(), String> {
        let list = std::fs::read_to_string(&self.0).map_err(|e| format!("{}: {e}", self.0.display()))?;
        let (report, refused) = report(&list, allowed);
        println!("{report}");
        match refused {
            0 => Ok(()),
            _ if !must_run => Ok(()),
            _ => Err(format!(
                "ci: {refused} skips are not allowed under CI=true; see ALLOWED in xtask/src/ci.rs"
            )),
        }
    }
}

/// The text to print for a list, and the number of its different lines that are not allowed.
fn report(list: &str, allowed: &[Allowed]) -> (String, usize) {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    list.lines().for_each(|line| *times.entry(line).or_default() += 1);
    let mut out = format!("── skipped: {}", list.lines().count());
    let mut refused = 0;
    for (line, times) in times {
        let why = allowed.iter().find(|allowed| allowed.allows(line));
        refused += usize::from(why.is_none());
        let why = why.map_or("", |why| why.reason);
        let (open, close) = if why.is_empty() {
            ("", "")
        } else {
            (" (allowed: ", ")")
        };
        out += &format!("\n   {times} × {line}{open}{why}{close}");
    }
    (out, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_counted_and_only_the_allowed_ones_pass() {
        let allowed = [Allowed {
            file: "crates/a/",
            text: "AF_XDP",
            reason: "an old kernel",
        }];
        let list =
            "crates/a/b.rs: t: has no AF_XDP\ncrates/a/b.rs: t: has no AF_XDP\ncrates/b/c.rs: u: AF_XDP\n";
        let (text, refused) = report(list, &allowed);
        assert_eq!(refused, 1);
        assert_eq!(
            text,
            "── skipped: 3\n   2 × crates/a/b.rs: t: has no AF_XDP (allowed: an old kernel)\n   \
             1 × crates/b/c.rs: u: AF_XDP"
        );
        assert_eq!(report("", &allowed), ("── skipped: 0".into(), 0));
    }

    #[test]
    fn the_list_can_be_written_by_every_user_and_vanishes() {
        let list = Skipped::new().expect("a file");
        let mode = std::fs::metadata(list.path()).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o666);
        std::fs::write(list.path(), "crates/a.rs: t: no tshark\n").expect("written");
        assert!(list.judge(&[], false).is_ok());
        assert!(list.judge(&[], true).is_err());
        let path = list.path().to_owned();
        drop(list);
        assert!(!path.exists());
    }
}
