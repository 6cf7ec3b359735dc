//! Network namespaces by descriptor, and a file system in place of a file.
#![expect(unsafe_code, reason = "unshare, setns, flock and mount are system calls")]

use super::check;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

/// Makes an empty network namespace, which only the descriptor keeps open. The calling thread moves
/// into it.
pub(crate) fn unshare_network() -> io::Result<OwnedFd> {
    // SAFETY: a plain call without pointers; it changes the network namespace of this thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    present_network()
}

/// The network namespace of the calling thread.
pub(crate) fn present_network() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Waits until no other process holds this namespace locked, and locks it until the descriptor is
/// closed.
pub(crate) fn lock(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::flock(namespace.as_raw_fd(), libc::LOCK_EX) }).map(drop)
}

/// Unlocks this namespace.
pub(crate) fn unlock(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::flock(namespace.as_raw_fd(), libc::LOCK_UN) }).map(drop)
}

/// Shows this text in place of the file's, to this mount namespace, which must be our own. The text
/// is in memory: a file system is mounted over the directory of temporary files for the moment.
pub(crate) fn show_in_place(file: &Path, text: &str) -> io::Result<()> {
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
    let (over, shown) = (Path::new("/tmp"), Path::new("/tmp/shown"));
    let (at, from, to) = (path(over)?, path(shown)?, path(file)?);
    // SAFETY: the strings are zero-terminated; the other pointers may be null.
    unsafe {
        check(libc::mount(
            c"tmpfs".as_ptr(),
            at.as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            null(),
        ))?;
        let written = std::fs::write(shown, text);
        let bound = written.and_then(|()| {
            check(libc::mount(
                from.as_ptr(),
                to.as_ptr(),
                null(),
                libc::MS_BIND,
                null(),
            ))
        });
        check(libc::umount2(at.as_ptr(), libc::MNT_DETACH))?;
        bound.map(drop)
    }
}

/// Moves the calling thread into this network namespace. Allocates nothing.
pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}
