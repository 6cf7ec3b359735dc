//! The errors of reading, running and reporting a scenario.

use control::diagnostics::Diagnostics;
use engine::settings::Problem;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// An error of what a program brought.
pub type OwnError = Box<dyn std::error::Error + Send + Sync>;

/// Why a scenario could not be run.
#[derive(Debug)]
pub enum Error {
    /// The text has mistakes.
    Mistakes(Box<Diagnostics>),
    /// An argument that names no part of the scenario.
    Unknown(Problem),
    /// Two hosts of a flow are not connected.
    NoRoute(sim::simulation::NoRoute),
    /// The lab could not be built, or a flow in it failed.
    Lab(lab::Error),
    /// A part of the lab could not be started, or does not answer.
    Started(io::Error),
    /// A file could not be written.
    Unwritten {
        /// The file.
        file: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// A flow of kind `own` that no program gave its packets.
    NoPackets(String),
    /// A program's own source or congestion control failed: its error.
    Own(OwnError),
    /// Outputs of shards that cannot be merged.
    Shards(String),
    /// The output could not be written.
    Output(io::Error),
    /// A thread of the simulation panicked.
    ThreadEnded,
}

impl Error {
    /// Whether the command line or the text is wrong, so that nothing was run.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Mistakes(_) | Self::Unknown(_) | Self::Shards(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mistakes(diagnostics) => write!(f, "{diagnostics}"),
            Self::Unknown(problem) => match &problem.help {
                Some(help) => write!(f, "{}; {help}", problem.message),
                None => write!(f, "{}", problem.message),
            },
            Self::NoRoute(why) => write!(f, "{why}"),
            Self::Lab(why) => write!(f, "{why}"),
            Self::Started(why) => write!(f, "a part of the lab failed: {why}"),
            Self::Unwritten { file, why } => write!(f, "cannot write `{}`: {why}", file.display()),
            Self::NoPackets(flow) => write!(
                f,
                "flow `{flow}` sends packets of a program's own: `sources` of the Python package gives them, or \
                 Scenario::bring in Rust"
            ),
            Self::Own(why) => write!(f, "{why}"),
            Self::Shards(why) => write!(f, "{why}"),
            Self::Output(why) => write!(f, "cannot write: {why}"),
            Self::ThreadEnded => write!(f, "a thread of the simulation ended early"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Unknown(problem)
    }
}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Mistakes(Box::new(diagnostics))
    }
}

impl From<io::Error> for Error {
    fn from(why: io::Error) -> Self {
        Self::Output(why)
    }
}

impl From<lab::Error> for Error {
    fn from(why: lab::Error) -> Self {
        Self::Lab(why)
    }
}
