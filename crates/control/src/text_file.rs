//! Reads the texts that users write, within a limit: what is no file, or has no end, is refused
//! before it fills the memory, or is waited for.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::Path;

/// The longest policy, scenario or list of rules: one of 100,000 classes has a sixth of it.
pub const LONGEST: u64 = 64 << 20;

/// The text of the file at this path, of at most `longest` bytes.
///
/// # Errors
///
/// Returns why it cannot be read, and what to do.
pub fn read(path: &Path, longest: u64) -> Result<String, String> {
    let (file, length) = open(path)?;
    // With room for its end, where nothing is read.
    let room = length.min(longest) + 1;
    bounded_into(
        Vec::with_capacity(usize::try_from(room).unwrap_or(0)),
        file,
        longest,
    )
}

/// The file at this path, and how long it is.
///
/// # Errors
///
/// Returns why it cannot be read, and what to do.
pub(crate) fn open(path: &Path) -> Result<(File, u64), String> {
    let found = fs::metadata(path).map_err(|error| reason(&error))?;
    let kind = found.file_type();
    // Before it is opened: a pipe without a writer is waited for there.
    if !kind.is_file() && !kind.is_dir() {
        let other = special(kind);
        return Err(format!(
            "it is {other}, not a file; standard input is read as `-`"
        ));
    }
    let file = File::open(path).map_err(|error| reason(&error))?;
    Ok((file, found.len()))
}

/// What a file is that is no file of bytes.
#[cfg(unix)]
fn special(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn special(_kind: FileType) -> &'static str {
    "a device"
}

/// The text from this reader, of at most `longest` bytes.
///
/// # Errors
///
/// Returns why it cannot be read, and what to do.
pub fn bounded(from: impl Read, longest: u64) -> Result<String, String> {
    bounded_into(Vec::new(), from, longest)
}

fn bounded_into(mut text: Vec<u8>, from: impl Read, longest: u64) -> Result<String, String> {
    let mut limited = from.take(longest + 1);
    limited.read_to_end(&mut text).map_err(|error| reason(&error))?;
    if text.len() as u64 > longest {
        return Err(format!(
            "it is longer than {} MB, the most that is read",
            longest >> 20
        ));
    }
    String::from_utf8(text).map_err(|_| "it is not UTF-8 text".into())
}

/// Why a file cannot be read, and what to do.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::IsADirectory => "it is a directory; name a file in it".into(),
        io::ErrorKind::PermissionDenied => {
            "this user may not read it; `chmod` lets it, or `sudo` reads as root".into()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_or_is_no_file_is_refused_at_once() {
        let refused = |path: &str| read(Path::new(path), LONGEST).expect_err(path);
        assert!(refused("/dev/zero").contains("it is a device, not a file"));
        assert!(refused("/").contains("a directory"));
        let endless = bounded(io::repeat(b'#'), LONGEST).expect_err("endless");
        assert_eq!(endless, "it is longer than 64 MB, the most that is read");
    }

    #[test]
    fn a_text_may_be_as_long_as_the_limit_and_no_longer() {
        assert_eq!(bounded(&b"1234"[..], 4), Ok("1234".into()));
        assert!(bounded(&b"12345"[..], 4).is_err());
        assert_eq!(bounded(&b"\xff"[..], 4), Err("it is not UTF-8 text".into()));
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_is_told_from_a_pipe_and_a_device() {
        let path = std::env::temp_dir().join(format!("control-text-file-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let refused = read(&path, LONGEST);
        std::fs::remove_file(&path).expect("removed");
        drop(socket);
        let expected = "it is a socket, not a file; standard input is read as `-`";
        assert_eq!(refused, Err(expected.into()));
    }
}
