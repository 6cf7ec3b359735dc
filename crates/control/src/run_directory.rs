//! The directory where running programs are found: their sockets, and what they have claimed.
//!
//! Only its owner may write in it, so whatever is found there was put there by the owner: root in
//! [`OF_ROOT`], or the user. That is what a client trusts, and why a claim of root's cannot be
//! taken by somebody else.

use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory of root's programs.
pub const OF_ROOT: &str = "/run/suimon";

/// The directory of this user's programs.
///
/// A root that may not write in [`OF_ROOT`], as in a user namespace, has one like any other user.
pub fn directory() -> PathBuf {
    let user = geteuid();
    let parent = Path::new(OF_ROOT).parent().map(fs::metadata);
    let is_ours = |parent: fs::Metadata| parent.uid() == user.as_raw();
    if user.is_root() && parent.is_some_and(|parent| parent.is_ok_and(is_ours)) {
        return PathBuf::from(OF_ROOT);
    }
    of_session().unwrap_or_else(|| temporary(&std::env::temp_dir()))
}

/// The directory in the user's session (`XDG_RUNTIME_DIR`); none if there is no session, or if it
/// is another user's, as in a shell of `su`.
pub fn of_session() -> Option<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty())?;
    let session = PathBuf::from(session);
    // One that does not exist may be made by the owner of its parent.
    let owner = session
        .ancestors()
        .take(2)
        .find_map(|path| fs::metadata(path).ok())?;
    (owner.uid() == geteuid().as_raw()).then(|| session.join("suimon"))
}

/// The first of `suimon-UID`, `suimon-UID-1`, … that is this user's alone, or else the first that
/// nobody has made. Others may have made some, since all may write in this parent.
fn temporary(parent: &Path) -> PathBuf {
    const MOST: usize = 1_000;
    let user = user_outside();
    let name = |n: usize| match n {
        0 => parent.join(format!("suimon-{user}")),
        n => parent.join(format!("suimon-{user}-{n}")),
    };
    let is_ours = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| is_private(&found));
    let is_missing = |path: &PathBuf| {
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let ours = (0..MOST).map(name).find(is_ours);
    ours.or_else(|| (0..MOST).map(name).find(is_missing))
        .unwrap_or_else(|| name(0))
}

/// This user's number outside a user namespace, where every user may be 0 in one of their own.
fn user_outside() -> u32 {
    let user = geteuid().as_raw();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let outside = map.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().map(str::parse::<u32>);
        let mut next = || words.next()?.ok();
        let (inside, outside, count) = (next()?, next()?, next()?);
        let offset = user.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    });
    outside.unwrap_or(user)
}

/// A directory of this user's, in which no other user may write.
fn is_private(found: &fs::Metadata) -> bool {
    found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0
}

/// Makes the directory for this user alone if it does not exist. One that exists must be a
/// directory of this user's.
///
/// # Errors
///
/// Returns an error if it belongs to another user, or cannot be made.
pub fn prepare(path: &Path) -> io::Result<()> {
    prepare_with_mode(path, 0o700)
}

/// As [`prepare`], with a mode for the directory if it is made.
///
/// # Errors
///
/// As [`prepare`].
pub fn prepare_with_mode(path: &Path, mode: u32) -> io::Result<()> {
    match fs::DirBuilder::new().recursive(true).mode(mode).create(path) {
        Err(error) if !path.exists() => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    if is_private(&found) {
        return Ok(());
    }
    let why = match found.is_dir() && found.uid() == geteuid().as_raw() {
        true => "may be written by other users",
        false => "belongs to another user",
    };
    let message = format!("{} {why}", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Connects to a control socket that may be trusted: it and its directory are this user's or
/// root's, and so is the program that serves it. Root may name anybody's, if its owner serves it.
///
/// # Errors
///
/// Returns an error if the socket cannot be trusted, or nothing serves it.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let denied = |why: &str| {
        let message = format!("{} {why}", path.display());
        io::Error::new(io::ErrorKind::PermissionDenied, message)
    };
    let socket = fs::symlink_metadata(path)?;
    if !socket.file_type().is_socket() {
        return Err(denied("is not a socket"));
    }
    let us = geteuid();
    let trusted = |uid: u32| us.is_root() || uid == us.as_raw() || uid == 0;
    if !trusted(socket.uid()) {
        return Err(denied("belongs to another user"));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = fs::metadata(parent.unwrap_or(Path::new(".")))?;
    // In a directory that others may write in, only the sticky bit keeps them from replacing it.
    let replaceable = directory.mode() & 0o022 != 0 && directory.mode() & 0o1000 == 0;
    if replaceable || !trusted(directory.uid()) {
        return Err(denied("is in a directory that another user may write in"));
    }
    let stream = UnixStream::connect(path)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    match peer.uid.as_raw() == socket.uid() {
        true => Ok(stream),
        false => Err(denied("is served by another user")),
    }
}

/// Something that one living process has at a time in its network namespace, with a text for
/// whoever asks who. It ends with the process, however that ends.
#[derive(Debug)]
pub struct NamespaceLock {
    path: PathBuf,
    _file: File,
}

impl NamespaceLock {
    /// Takes it; `None` if another process has it.
    ///
    /// # Errors
    ///
    /// Returns an error if the [`directory`] cannot be used.
    pub fn take(name: &str, text: &str) -> io::Result<Option<Self>> {
        let path = path_of(name)?;
        prepare(&directory())?;
        // Who asks for the text locks it for a moment, too.
        for _ in 0..10 {
            let mut open = OpenOptions::new();
            open.read(true).write(true).create(true).truncate(false);
            let mut file = open.mode(0o600).open(&path)?;
            match file.try_lock() {
                // Its last owner may have removed the file since it was opened.
                Ok(()) if is_at(&file, &path) => {
                    file.set_len(0)?;
                    file.write_all(text.as_bytes())?;
                    return Ok(Some(Self { path, _file: file }));
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The text of the process that has it; `None` if none has.
    pub fn text(name: &str) -> Option<String> {
        let mut file = File::open(path_of(name).ok()?).ok()?;
        if file.try_lock_shared().is_ok() {
            return None;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some(text)
    }
}

impl NamespaceLock {
    /// The locks in this network namespace whose names begin so: what is behind that, and their
    /// texts.
    pub fn texts(prefix: &str) -> Vec<LockText> {
        let suffix = path_of("").ok();
        let suffix = suffix.as_ref().and_then(|path| path.file_name()?.to_str());
        let entries = fs::read_dir(directory()).into_iter().flatten().flatten();
        let mut texts: Vec<LockText> = entries
            .filter_map(|entry| {
                let name = entry.file_name();
                let name = name.to_str()?.strip_suffix(suffix?)?;
                Some(LockText {
                    text: Self::text(name)?,
                    rest: name.strip_prefix(prefix)?.into(),
                })
            })
            .collect();
        texts.sort();
        texts
    }
}

/// A lock that a living process has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LockText {
    /// Its text.
    pub text: String,
    /// Its name, without the prefix that was asked for.
    pub rest: String,
}

impl Drop for NamespaceLock {
    fn drop(&mut self) {
        // While it is still locked, so that nobody else's is removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// The lock's file in the network namespace of this thread.
fn path_of(name: &str) -> io::Result<PathBuf> {
    let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(directory().join(format!("{name}@{namespace}.lock")))
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_had_once_at_a_time_and_leaves_nothing() {
        let name = format!("test-{}", std::process::id());
        let had = NamespaceLock::take(&name, "first").expect("a directory");
        let had = had.expect("nobody has it");
        assert!(
            NamespaceLock::take(&name, "second")
                .expect("a directory")
                .is_none()
        );
        assert_eq!(NamespaceLock::text(&name).as_deref(), Some("first"));
        drop(had);
        assert_eq!(NamespaceLock::text(&name), None);
        assert!(!path_of(&name).expect("a namespace").exists());
        assert!(
            NamespaceLock::take(&name, "third")
                .expect("a directory")
                .is_some()
        );
    }

    #[test]
    fn a_directory_that_somebody_else_made_first_is_passed_over() {
        let parent = std::env::temp_dir().join(format!("suimon-first-{}", std::process::id()));
        fs::create_dir_all(&parent).expect("a directory");
        let first = temporary(&parent);
        assert!(first.ends_with(format!("suimon-{}", user_outside())));
        // A link, and a directory in which all may write.
        std::os::unix::fs::symlink("/proc/self", &first).expect("a link");
        let second = temporary(&parent);
        fs::create_dir(&second).expect("a directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&second, open).expect("a change of mode");
        let third = temporary(&parent);
        assert!(third != first && third != second, "{third:?}");
        assert!(prepare(&second).is_err());
        prepare(&third).expect("made");
        assert_eq!(temporary(&parent), third);
        fs::remove_file(&first).expect("removed");
        assert_eq!(temporary(&parent), third, "the one in use stays");
        fs::remove_dir_all(&parent).expect("removed");
    }

    #[test]
    fn a_directory_of_another_user_is_not_used() {
        let error = prepare(Path::new("/proc/1")).map_err(|e| e.kind());
        let is_ours = fs::metadata("/proc/1").expect("there").uid() == geteuid().as_raw();
        assert_eq!(error.is_ok(), is_ours);
        let link = std::env::temp_dir().join(format!("suimon-link-{}", std::process::id()));
        std::os::unix::fs::symlink("/proc/self", &link).expect("a link");
        let error = prepare(&link).map_err(|e| e.kind());
        let _ = fs::remove_file(&link);
        assert_eq!(error, Err(io::ErrorKind::PermissionDenied));
    }
}
