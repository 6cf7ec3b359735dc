//! Network namespaces by descriptor.
#![expect(unsafe_code, reason = "unshare and setns are system calls")]

use super::check;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Makes an empty network namespace, which only the descriptor keeps open. The calling thread moves
/// into it.
pub(crate) fn unshare_network() -> io::Result<OwnedFd> {
    // SAFETY: a plain call without pointers; it changes the network namespace of this thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Moves the calling thread into this network namespace. Allocates nothing.
pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}
