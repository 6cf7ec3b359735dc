//! Announces the node of a network namespace in the run directory, with the path of its control
//! socket. There is only one: two nodes would both receive every message, and each would reject
//! what the other has state for.

use control::run_directory::NamespaceLock;
use std::path::{Path, PathBuf};

const NAME: &str = "rsvp-node";

/// Gives clients the path of the node's control socket, until it is dropped.
#[derive(Debug)]
pub struct Beacon {
    _lock: NamespaceLock,
}

impl Beacon {
    /// Announces a node whose control socket has this path.
    ///
    /// # Errors
    ///
    /// If the namespace has a node already, or the run directory cannot be used.
    pub fn announce(path: &Path) -> Result<Self, String> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        match NamespaceLock::take(NAME, &path.to_string_lossy()) {
            Ok(Some(lock)) => Ok(Self { _lock: lock }),
            Ok(None) => Err("another suimon speaks RSVP on this host; see `suimon reserve status`".into()),
            Err(e) => Err(format!("cannot announce the node: {e}")),
        }
    }
}

/// The control socket of the namespace's node, if there is one.
pub fn find() -> Option<PathBuf> {
    let path = NamespaceLock::text(NAME).filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}
