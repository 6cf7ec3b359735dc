//! What nine controls, and how; and why that could not start.

use crate::coordinate::Rendezvous;
use crate::coordinate::message::MemberProfile;
use crate::process_filter::ProcessFilter;
use crate::process_root::ProcessRoot;
use engine::units::Bandwidth;
use std::ffi::OsString;
use std::fmt;
use std::io;

/// What nine controls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SupervisionTarget {
    /// A command to start: its name and arguments.
    Command(Vec<OsString>),
    /// A running process and its descendants.
    Process(i32),
    /// The hosts behind this interface. Only with [`SupervisionPlan::rewrite`].
    Behind(String),
    /// Running and future processes, whoever starts them.
    Chosen(ProcessFilter),
}

impl SupervisionTarget {
    /// Its processes; a command's are below this process of nine.
    pub(super) fn root(&self, below: i32) -> ProcessRoot {
        match self {
            Self::Command(_) | Self::Behind(_) => ProcessRoot::Below(below),
            Self::Process(pid) => ProcessRoot::At(*pid),
            Self::Chosen(filter) => ProcessRoot::Chosen(filter.clone()),
        }
    }
}

/// A UDP policer at an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpPolicer {
    /// The link's interface.
    pub interface: String,
    /// The rate in each direction.
    pub rate: Bandwidth,
}

/// What nine controls, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupervisionPlan {
    /// The command, process or hosts.
    pub target: SupervisionTarget,
    /// Its settings.
    pub profile: MemberProfile,
    /// Where it finds the other nines of this user.
    pub rendezvous: Rendezvous,
    /// As root: rewrite windows in ACKs that leave by this interface, the link's, instead of
    /// borrowing sockets.
    pub rewrite: Option<String>,
    /// As root: police the UDP of a command or process.
    pub police: Option<UdpPolicer>,
}

/// Why supervision could not start.
#[derive(Debug)]
pub struct StartError {
    pub(super) doing: &'static str,
    pub(super) source: io::Error,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.doing, self.source)
    }
}

impl std::error::Error for StartError {}

/// Adds to an I/O error what was being done.
pub(super) trait WhileDoing<T> {
    fn doing(self, what: &'static str) -> Result<T, StartError>;
}

impl<T> WhileDoing<T> for io::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T, StartError> {
        self.map_err(|source| StartError { doing, source })
    }
}
