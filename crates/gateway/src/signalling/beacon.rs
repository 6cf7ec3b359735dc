//! Announces the nodes of a network namespace in the run directory, with the paths of their control
//! sockets and their interfaces. An interface has one node: two would both receive every message,
//! and each would reject what the other has state for.

use control::run_directory::NamespaceLock;
use std::path::{Path, PathBuf};

/// The lock of a node that speaks RSVP on all interfaces.
const EVERYWHERE: &str = "rsvp-node";

/// What the lock of an interface begins with; its name follows.
const INTERFACE: &str = "rsvp-interface-";

/// Gives clients the path of the node's control socket, until it is dropped.
#[derive(Debug)]
pub struct Beacon {
    _locks: Vec<NamespaceLock>,
}

/// A node that has been announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnnouncedNode {
    /// The path of its control socket.
    pub socket: PathBuf,
    /// Its interfaces; empty: all.
    pub interfaces: Vec<String>,
}

impl Beacon {
    /// Announces a node whose control socket has this path, and that speaks RSVP on these
    /// interfaces; on all, if there are none.
    ///
    /// # Errors
    ///
    /// If another node speaks RSVP on one of the interfaces, or the run directory cannot be used.
    pub fn announce(path: &Path, interfaces: &[String]) -> Result<Self, String> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let text = path.to_string_lossy();
        let taken = |on: &str| format!("another suimon speaks RSVP on {on}; see `suimon reserve status`");
        let take = |name: &str, on: &str| match NamespaceLock::take(name, &text) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(taken(on)),
            Err(e) => Err(format!("cannot announce the node: {e}")),
        };
        // First one's own locks, then those of others: of two that start at once, one sees the
        // other at least.
        let locks = if interfaces.is_empty() {
            vec![take(EVERYWHERE, "this host")?]
        } else {
            let take = |name: &String| take(&format!("{INTERFACE}{name}"), name);
            interfaces.iter().map(take).collect::<Result<_, _>>()?
        };
        let other = if interfaces.is_empty() {
            !NamespaceLock::texts(INTERFACE).is_empty()
        } else {
            NamespaceLock::text(EVERYWHERE).is_some()
        };
        match other {
            true => Err(taken("this host")),
            false => Ok(Self { _locks: locks }),
        }
    }
}

/// The nodes of the namespace.
pub fn nodes() -> Vec<AnnouncedNode> {
    let everywhere = NamespaceLock::text(EVERYWHERE).filter(|path| !path.is_empty());
    let mut nodes: Vec<AnnouncedNode> = everywhere
        .map(|path| AnnouncedNode {
            socket: PathBuf::from(path),
            interfaces: Vec::new(),
        })
        .into_iter()
        .collect();
    for lock in NamespaceLock::texts(INTERFACE) {
        let socket = PathBuf::from(lock.text);
        match nodes.iter_mut().find(|node| node.socket == socket) {
            Some(node) => node.interfaces.push(lock.rest),
            None => nodes.push(AnnouncedNode {
                socket,
                interfaces: vec![lock.rest],
            }),
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nodes_on_a_host_do_not_clash_unless_they_share_an_interface() {
        let name = |at: u32| format!("t{}-{at}", std::process::id());
        let path = |at: u32| std::env::temp_dir().join(format!("{}.sock", name(at)));
        let first = Beacon::announce(&path(1), &[name(1), name(2)]).expect("free");
        let second = Beacon::announce(&path(2), &[name(3)]).expect("other interfaces");
        let third = Beacon::announce(&path(3), &[name(4), name(2)]).expect_err("one is taken");
        assert!(third.contains(&name(2)), "{third}");
        let everywhere = Beacon::announce(&path(4), &[]).expect_err("some are taken");
        assert!(everywhere.contains("this host"), "{everywhere}");
        let ours = |at: u32| nodes().into_iter().find(|node| node.socket == path(at));
        assert_eq!(ours(1).map(|node| node.interfaces), Some(vec![name(1), name(2)]));
        assert_eq!(ours(2).map(|node| node.interfaces), Some(vec![name(3)]));
        assert_eq!(ours(3), None, "what is refused holds no interface");
        drop(first);
        assert!(Beacon::announce(&path(3), &[name(4), name(2)]).is_ok());
        drop(second);
        assert_eq!(ours(2), None);
    }
}
