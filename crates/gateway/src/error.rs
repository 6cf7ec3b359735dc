//! Why a policy is not in force, or no longer in force.

use control::protocol::Refusal;
use netio::port::{Fault, PortError};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a policy could not be put into force, or a node could not be reached.
#[derive(Debug)]
pub enum Error {
    /// The policy has no `[port]` section.
    NoPort,
    /// The policy manages an interface through which its port does not send.
    NotOfThePort,
    /// The policy was read without the registry of port kinds.
    NoKindsOfPort,
    /// The interfaces do not fit the policy: every mistake.
    Unsuitable(Vec<String>),
    /// The RSVP keys cannot be used.
    Keys(String),
    /// No realiser works on the interface.
    Realiser(String),
    /// The generations cannot be kept on disk.
    State(io::Error),
    /// Another suimon manages one of the interfaces.
    Claimed(String),
    /// Another node speaks RSVP on this host.
    Beacon(String),
    /// A port does not work.
    Port(PortError),
    /// There is no memory for packets.
    Memory(io::Error),
    /// Signals cannot be handled.
    Signals(io::Error),
    /// A thread could not be started: of the packet loop, or of a law.
    Thread(io::Error),
    /// The hosts of `autorate` cannot be asked.
    Probes(io::Error),
    /// The packet loop panicked.
    LoopFailed,
    /// The RSVP node cannot start.
    Speaker(io::Error),
    /// The control socket cannot be served.
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A node of our own could not be started.
    Node(String),
    /// The message with which our own node ended.
    NodeFailed(String),
    /// The place of the program that runs could not be taken; that one goes on.
    HandOver(String),
    /// A refusal of the running daemon, or a failure to reach it.
    Refused(Refusal),
}

impl Error {
    /// Whether the policy or the command line is wrong, and nothing was changed.
    pub fn is_usage(&self) -> bool {
        if let Self::Port(why) = self {
            return why.fault == Fault::SameFile;
        }
        matches!(
            self,
            Self::NoPort
                | Self::NotOfThePort
                | Self::NoKindsOfPort
                | Self::Unsuitable(_)
                | Self::Keys(_)
                | Self::Realiser(_)
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPort => write!(
                f,
                "the policy has no [port] section, which states between which interfaces"
            ),
            Self::NotOfThePort => write!(
                f,
                "the policy manages an interface through which its port does not send"
            ),
            Self::NoKindsOfPort => write!(f, "the policy was read without port kinds"),
            Self::Unsuitable(mistakes) => write!(f, "{}", mistakes.join("; ")),
            Self::Keys(why)
            | Self::Realiser(why)
            | Self::Claimed(why)
            | Self::Beacon(why)
            | Self::NodeFailed(why) => write!(f, "{why}"),
            Self::Port(why) => write!(f, "{why}"),
            Self::State(why) => write!(f, "cannot write the state: {why}"),
            Self::Memory(why) => write!(f, "cannot allocate memory for packets: {why}"),
            Self::Signals(why) => write!(f, "cannot handle signals: {why}"),
            Self::Thread(why) => write!(f, "cannot start a thread: {why}"),
            Self::Probes(why) => write!(
                f,
                "cannot ask the hosts of `autorate`: {why}{}",
                capabilities(why)
            ),
            Self::LoopFailed => write!(
                f,
                "the packet loop has failed; traffic takes the kernel's own path"
            ),
            Self::Speaker(why) => write!(f, "cannot speak RSVP: {why}{}", capabilities(why)),
            Self::Socket { path, why } => {
                write!(f, "cannot serve the control socket {}: {why}", path.display())
            }
            Self::HandOver(why) => write!(f, "the other suimon was not replaced, and goes on: {why}"),
            Self::Node(why) => write!(f, "cannot start a node of our own: {why}"),
            Self::Refused(why) => write!(f, "{why}"),
        }
    }
}

/// The advice if raw sockets are not permitted.
fn capabilities(why: &io::Error) -> &'static str {
    let refused = why.to_string().contains("not permitted") || why.kind() == io::ErrorKind::PermissionDenied;
    match refused {
        true => {
            "; raw sockets need root, or CAP_NET_RAW: run it as root, or `setcap cap_net_raw+ep` the program"
        }
        false => "",
    }
}

impl std::error::Error for Error {}

impl From<PortError> for Error {
    fn from(why: PortError) -> Self {
        Self::Port(why)
    }
}

impl From<Refusal> for Error {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}
