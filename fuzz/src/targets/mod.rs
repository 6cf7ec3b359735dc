//! The targets. Each makes a function of bytes that panics when something is wrong.
//!
//! What a target keeps between two runs (a registry, a server) must not change by them: a run has
//! to fail the same when it is repeated alone.

mod captures;
mod classifier;
mod control_socket;
mod filters;
mod fragments;
mod frames;
mod http;
mod imports;
mod languages;
mod queues;
mod recordings;
mod requests;
mod rsvp;
mod rules;
mod segments;
mod windows;
mod worker;

use crate::mutate::InputShape;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// The function of a target.
pub type Body = Box<dyn FnMut(&[u8])>;

/// A fuzz target.
#[derive(Debug)]
pub struct FuzzTarget {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// What it takes and what must hold.
    pub about: &'static str,
    /// What its inputs look like.
    pub shape: InputShape,
    /// How the paths of the TOML files of the tree begin that belong to its corpus: a folder with
    /// its `/`, and behind it a beginning of names.
    pub tree: &'static [&'static str],
    /// Makes the function.
    pub make: fn() -> Body,
}

impl FuzzTarget {
    /// Its corpus: the files of `fuzz/corpus/NAME`, then the TOML files of the tree that it names,
    /// without the lines that are comments, in which most changes would change nothing; each in
    /// the order of their paths.
    ///
    /// # Errors
    ///
    /// Returns an error if a folder or a file cannot be read.
    pub fn corpus(&self) -> io::Result<Vec<Vec<u8>>> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let own = here.join("corpus").join(self.name);
        let mut read: Vec<Vec<u8>> = files(&own)?.iter().map(std::fs::read).collect::<Result<_, _>>()?;
        for beginning in self.tree {
            let (folder, name) = beginning.rsplit_once('/').unwrap_or(("", beginning));
            for path in files(&here.join("..").join(folder))? {
                let named = path
                    .file_name()
                    .and_then(OsStr::to_str)
                    .is_some_and(|own| own.starts_with(name));
                if named && path.extension().is_some_and(|end| end == "toml") {
                    read.push(without_comments(&std::fs::read_to_string(&path)?).into());
                }
            }
        }
        Ok(read
            .into_iter()
            .filter(|file| file.len() <= self.shape.longest())
            .collect())
    }
}

fn without_comments(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines.filter(|line| !line.trim_start().starts_with('#')).collect()
}

fn files(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(BTreeSet::new());
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: BTreeSet<PathBuf> = paths.collect::<Result<_, _>>()?;
    Ok(paths.into_iter().filter(|path| path.is_file()).collect())
}

/// The records of an input, each a kind, a length of 16 bits and so many bytes; the last may be
/// shorter than it says.
fn records(mut input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let &[kind, high, low, ref rest @ ..] = input else {
            return None;
        };
        let len = usize::from(u16::from_be_bytes([high, low])).min(rest.len());
        let (record, others) = rest.split_at(len);
        input = others;
        Some((kind, record))
    })
}

/// All of them.
pub static TARGETS: &[FuzzTarget] = &[
    frames::TARGET,
    classifier::TARGET,
    segments::TARGET,
    windows::TARGET,
    captures::TARGET,
    recordings::TARGET,
    languages::POLICY,
    languages::SCENARIO,
    languages::TOPOLOGY,
    filters::TARGET,
    imports::TARGET,
    requests::TARGET,
    control_socket::TARGET,
    http::TARGET,
    rules::TARGET,
    fragments::TARGET,
    rsvp::WIRE,
    rsvp::INTEGRITY,
    rsvp::REDUCTION,
    rsvp::NODE,
    queues::DISCIPLINES,
    queues::COMPOSITIONS,
    worker::WORKER,
    worker::CHANGES,
];
