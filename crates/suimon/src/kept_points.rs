//! The finished points of a sweep in a file, so that a sweep that was killed goes on where it was.
//!
//! A line that says what the sweep is, then a line of `--json` for each point, in the order in
//! which they were finished. What was killed while it wrote has a last line without an end, which
//! is cut off. The file is for the same suimon, the same scenario and the same files that it names:
//! any other is refused, since its points would be mixed with these.

use crate::exit::Failure;
use scenario::folder::{Files, Packets, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes of such a file at most.
const LONGEST: u64 = 1 << 30;

/// Files that remember what was read from them.
pub struct RememberingFiles<'a> {
    files: Files<'a>,
    read: Mutex<BTreeMap<String, u64>>,
}

impl<'a> RememberingFiles<'a> {
    /// These.
    pub fn of(files: Files<'a>) -> Self {
        Self {
            files,
            read: Mutex::default(),
        }
    }

    /// A number that another text, or other contents of what was read, would not have.
    pub fn digest(&self, text: &str) -> u64 {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        hashed(&(text, &*read))
    }

    fn remember<T: Hash>(&self, path: &str, content: &T) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.insert(path.to_owned(), hashed(content));
    }
}

impl Store for RememberingFiles<'_> {
    fn text(&self, path: &str) -> Result<String, String> {
        let text = self.files.text(path)?;
        self.remember(path, &text);
        Ok(text)
    }

    fn capture(&self, path: &str) -> Result<Packets, String> {
        let packets = self.files.capture(path)?;
        let numbers: Vec<(u64, u64)> = packets.iter().map(|(at, len)| (at.nanos(), len.get())).collect();
        self.remember(path, &numbers);
        Ok(packets)
    }
}

fn hashed<T: Hash>(content: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

/// The file, and the points in it that were not shown yet.
#[derive(Debug)]
pub struct KeptPoints {
    file: File,
    lines: BTreeMap<usize, String>,
}

impl KeptPoints {
    /// Opens the file of a sweep, and makes it if there is none.
    ///
    /// # Errors
    /// If it cannot be read and written, another run uses it, or it is of another sweep.
    pub fn open(path: &Path, scenario: &str, points: usize, digest: u64) -> Result<Self, Failure> {
        let refused = |why: &str| Failure::usage(format!("--resume {}: {why}", path.display()));
        let failed = |why: std::io::Error| refused(&why.to_string());
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let mut file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(refused("another run of this sweep writes it")),
            Err(TryLockError::Error(why)) => return Err(failed(why)),
        }
        let mut text = String::new();
        let read = Read::by_ref(&mut file).take(LONGEST).read_to_string(&mut text);
        read.map_err(|why| match why.kind() {
            ErrorKind::InvalidData => refused("it is no such file"),
            _ => failed(why),
        })?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let head = json!({ "resume": scenario, "suimon": env!("CARGO_PKG_VERSION"), "points": points,
            "digest": format!("{digest:016x}") });
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let mut lines = text[..whole].lines();
        match lines.next().map(serde_json::from_str::<Value>) {
            None => writeln!(file, "{head}").map_err(failed)?,
            Some(Ok(first)) if first == head => {}
            Some(Ok(first)) if first.get("resume").is_some() => {
                return Err(refused(
                    "it is of another suimon, or its scenario or a file of that was changed since: remove it to begin anew",
                ));
            }
            Some(_) => return Err(refused("it is no such file")),
        }
        let point = |line: &str| {
            let value: Value = serde_json::from_str(line).ok()?;
            let number = usize::try_from(value["point"].as_u64()?).ok()?;
            Some((number, line.to_owned()))
        };
        let lines: Option<BTreeMap<usize, String>> = lines.map(point).collect();
        let lines = lines.ok_or_else(|| refused("a line of it is no point"))?;
        Ok(Self { file, lines })
    }

    /// Whether this point is finished.
    pub fn has(&self, point: usize) -> bool {
        self.lines.contains_key(&point)
    }

    /// Keeps a point that was finished.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&mut self, line: &str) -> std::io::Result<()> {
        // In one piece, so that a kill leaves at most a line without its end.
        self.file.write_all(format!("{line}\n").as_bytes())
    }

    /// Takes the lines of these points that are not greater than `last`, in their order.
    pub fn take_until(&mut self, points: &[usize], last: usize) -> Vec<String> {
        let earlier = points.iter().filter(|point| **point <= last);
        earlier.filter_map(|point| self.lines.remove(point)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("suimon-kept-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_last_line_without_its_end_is_cut_off_and_another_sweep_is_refused() {
        let path = file("cut");
        let open = |digest| KeptPoints::open(&path, "a", 3, digest);
        let mut kept = open(7).expect("a new one");
        kept.keep("{\"point\":2}").expect("kept");
        assert!(open(7).is_err(), "two at once");
        drop(kept);
        let mut file = File::options().append(true).open(&path).expect("the file");
        file.write_all(b"{\"point\":3").expect("written");
        let mut kept = open(7).expect("the same");
        assert_eq!([1, 2, 3].map(|point| kept.has(point)), [false, true, false]);
        kept.keep("{\"point\":3}").expect("kept");
        drop(kept);
        let mut kept = open(7).expect("the same");
        assert_eq!(kept.take_until(&[1, 2, 3], 2), ["{\"point\":2}"]);
        assert_eq!(kept.take_until(&[1, 2, 3], 3), ["{\"point\":3}"]);
        drop(kept);
        let why = open(8).expect_err("another").message;
        assert!(why.contains("was changed since"), "{why}");
        std::fs::write(&path, "my diary\n").expect("written");
        let why = open(7).expect_err("no such file").message;
        assert!(why.contains("no such file"), "{why}");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "my diary\n");
        std::fs::remove_file(&path).expect("ours");
    }
}
