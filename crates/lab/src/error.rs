//! Errors of the lab: what was attempted, why it failed, what to do about it.

use std::{fmt, io};

/// An error with a human-readable message.
#[derive(Debug)]
pub struct Error {
    doing: String,
    source: io::Error,
    help: Option<String>,
}

/// A result of the lab.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// "cannot `doing`: `source`".
    pub fn new(doing: impl Into<String>, source: io::Error) -> Self {
        Self {
            doing: doing.into(),
            source,
            help: None,
        }
    }

    /// An error that no system call reported.
    pub fn other(doing: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(doing, io::Error::other(why.into()))
    }

    /// The same with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The kind of the underlying error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// The system's error number, if a system call failed.
    pub fn number(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.doing, self.source)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Adds what was attempted to an I/O error.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "all that does is of Linux")
)]
pub(crate) trait Doing<T> {
    /// `doing` completes "cannot …".
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::new(doing(), source))
    }
}
