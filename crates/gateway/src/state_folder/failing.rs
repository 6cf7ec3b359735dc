//! A disk that fails at any write, for tests.

use super::Folder;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

type Files = BTreeMap<String, Vec<u8>>;

/// How a disk fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Failure {
    /// The power goes off: what is being written is cut short, and nothing works any more.
    #[default]
    Off,
    /// It is full: what is being written is cut short, and so is all that comes after. Names can
    /// still be changed and removed.
    Full,
    /// The folder is removed, with all that it has, and not made again before the next start.
    Gone,
}

/// A disk that fails after some writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Power(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: Files,
    /// It fails at the last of so many writes, if it fails.
    left: Option<usize>,
    failure: Failure,
    writes: u64,
}

impl Power {
    /// An empty one that fails so, when it does.
    pub(crate) fn new(failure: Failure) -> Self {
        let power = Self::default();
        power.with(|state| state.failure = failure);
        power
    }

    pub(crate) fn failure(&self) -> Failure {
        self.with(|state| state.failure)
    }

    /// From now on it fails so, at the last of so many writes.
    pub(crate) fn fails(&self, failure: Failure, after: usize) {
        self.with(|state| (state.failure, state.left) = (failure, Some(after)));
    }

    /// Whether it fails, or will.
    pub(crate) fn is_failing(&self) -> bool {
        self.with(|state| state.left.is_some())
    }

    /// How often it was written to.
    pub(crate) fn writes(&self) -> u64 {
        self.with(|state| state.writes)
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn goes_off_after(&self, writes: Option<usize>) {
        self.with(|state| state.left = writes);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.with(|state| state.left == Some(0))
    }

    /// One write; `cut` is what is left of it if the disk fails now.
    fn write(&self, cut: impl FnOnce(&mut Files), whole: impl FnOnce(&mut Files)) -> io::Result<()> {
        self.with(|state| {
            let State {
                files,
                left,
                failure,
                writes,
            } = state;
            *writes += 1;
            match left {
                Some(0 | 1) => {
                    match failure {
                        Failure::Off if *left == Some(0) => {}
                        Failure::Off | Failure::Full => cut(files),
                        Failure::Gone => files.clear(),
                    }
                    *left = Some(0);
                    return Err(match failure {
                        Failure::Off => io::Error::other("no power"),
                        Failure::Full => io::ErrorKind::StorageFull.into(),
                        Failure::Gone => io::ErrorKind::NotFound.into(),
                    });
                }
                Some(more) => *more -= 1,
                None => {}
            }
            whole(files);
            Ok(())
        })
    }

    /// A change of names, which a full disk allows.
    fn rename_or_remove(&self, act: impl FnOnce(&mut Files)) -> io::Result<()> {
        if self.failure() == Failure::Full {
            self.with(|state| act(&mut state.files));
            return Ok(());
        }
        self.write(|_| (), act)
    }
}

impl Folder for Power {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.with(|state| state.files.keys().cloned().collect()))
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let found = self.with(|state| state.files.get(name).cloned());
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let part = bytes[..bytes.len() / 2].to_vec();
        self.write(
            |files| drop(files.insert(name.into(), part)),
            |files| drop(files.insert(name.into(), bytes.to_vec())),
        )
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let moved = |files: &mut Files| {
            let bytes = files.remove(from).expect("it is there");
            files.insert(to.into(), bytes);
        };
        self.rename_or_remove(moved)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.rename_or_remove(|files| drop(files.remove(name)))
    }
}
