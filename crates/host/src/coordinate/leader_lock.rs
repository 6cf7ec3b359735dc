//! The files of the nine that leads: a lock, which the kernel frees when it ends, and a socket.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The lock and the socket, which are removed with this. A killed nine leaves them to the next one.
#[derive(Debug)]
pub(super) struct LeaderLock {
    /// Locked as long as this nine leads.
    _file: File,
    path: PathBuf,
    socket: PathBuf,
}

impl LeaderLock {
    /// Takes the lock; none if another nine has it, or has just removed it.
    pub(super) fn take(path: &Path, socket: &Path) -> io::Result<Option<Self>> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => Ok(Some(Self {
                _file: file,
                path: path.into(),
                socket: socket.into(),
            })),
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    /// The socket where the other nines find this one.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        // One of a former leader has ended: the lock was free.
        let _ = fs::remove_file(&self.socket);
        let listener = UnixListener::bind(&self.socket)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

impl Drop for LeaderLock {
    fn drop(&mut self) {
        // While it is locked, so that nobody else's are removed.
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(&self.path);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}
