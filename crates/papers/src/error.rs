//! Why an experiment failed to run.

use std::fmt;

/// The cause as text: no caller of an experiment acts differently for another cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(String);

impl Error {
    /// An error with this cause.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

macro_rules! from {
    ($($cause:ty),*) => {
        $(impl From<$cause> for Error {
            fn from(why: $cause) -> Self {
                Self(why.to_string())
            }
        })*
    };
}

from!(
    control::protocol::Refusal,
    gateway::Error,
    lab::Error,
    netio::port::PortError,
    scenario::Error,
    std::io::Error
);
