//! How a verb ends: the exit codes, the same for all verbs, and the error messages.

use control::protocol::Refusal;
use engine::settings::Problem;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// Shown under the help.
pub const HELP: &str = "Exit codes: 0 done, 1 failed at run time, 2 usage or configuration, \
     3 a policy differs from the one in force, 4 an expectation missed, 5 running in bypass, 6 a reservation was refused, \
     7 no reply to a reservation request; \
     that of CMD where a command is run";

/// Shells add this to the number of the signal that ended a program.
const BY_SIGNAL: u8 = 128;
const SIGINT: u8 = 2;
const SIGPIPE: u8 = 13;

/// How a verb ended. The numbers are documented and never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It succeeded.
    Done,
    /// Something failed while it ran.
    Failed,
    /// The command line or the policy is wrong; nothing was changed.
    Usage,
    /// A policy differs from the one in force.
    Differs,
    /// It ran, and an expectation was missed.
    Missed,
    /// It runs, but traffic bypasses the policy, which is disabled.
    Bypass,
    /// A node on the path has refused a reservation.
    Refused,
    /// No reply to a reservation request.
    Unanswered,
    /// The exit code of the command that was run.
    Passed(u8),
    /// Nobody reads the output any more: the program ends by SIGPIPE, as others do. What was not
    /// shown, such as a missed expectation, is not success.
    OutputClosed,
    /// Ctrl-C.
    Interrupted,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Differs => 3,
            Self::Missed => 4,
            Self::Bypass => 5,
            Self::Refused => 6,
            Self::Unanswered => 7,
            Self::Passed(code) => code,
            Self::OutputClosed => BY_SIGNAL + SIGPIPE,
            Self::Interrupted => BY_SIGNAL + SIGINT,
        }
    }
}

impl From<ExitStatus> for Exit {
    /// The end of a command, as shells report it.
    fn from(status: ExitStatus) -> Self {
        let by_signal = || status.signal().map(|signal| i32::from(BY_SIGNAL) + signal);
        let code = status.code().or_else(by_signal);
        Self::Passed(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a verb failed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// Where, what, and what to do. Empty if the output is closed.
    pub message: String,
}

impl Failure {
    /// Something failed while it ran.
    pub fn at_run_time(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            message: message.into(),
        }
    }

    /// The command line or the policy is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.into(),
        }
    }

    /// Prints the message to standard error, or into the log where there is one.
    pub fn report(&self) {
        match &*self.message {
            "" => {}
            message if tracing::dispatcher::has_been_set() => tracing::error!("{message}"),
            message => eprintln!("suimon: {message}"),
        }
    }
}

impl From<io::Error> for Failure {
    /// A reader that has closed the pipe (`suimon kinds | head -1`) has what it needs: no message.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self {
                exit: Exit::OutputClosed,
                message: String::new(),
            };
        }
        Self::at_run_time(format!("cannot write: {error}"))
    }
}

impl From<Problem> for Failure {
    /// A wrong argument on the command line.
    fn from(problem: Problem) -> Self {
        Self::usage(Refusal::from(problem).to_string())
    }
}

impl From<Refusal> for Failure {
    /// A refusal of the running daemon, or a failure to reach it.
    fn from(why: Refusal) -> Self {
        Self::at_run_time(why.to_string())
    }
}

impl From<scenario::Error> for Failure {
    fn from(error: scenario::Error) -> Self {
        match error {
            scenario::Error::Output(error) => error.into(),
            error if error.is_usage() => Self::usage(error.to_string()),
            error => Self::at_run_time(error.to_string()),
        }
    }
}

impl From<gateway::Error> for Failure {
    fn from(error: gateway::Error) -> Self {
        match error {
            error if error.is_usage() => Self::usage(error.to_string()),
            error => Self::at_run_time(error.to_string()),
        }
    }
}

impl From<papers::Error> for Failure {
    fn from(error: papers::Error) -> Self {
        Self::at_run_time(error.to_string())
    }
}

impl From<lab::Error> for Failure {
    fn from(error: lab::Error) -> Self {
        Self::at_run_time(error.to_string())
    }
}

impl From<netio::port::PortError> for Failure {
    fn from(error: netio::port::PortError) -> Self {
        Self::at_run_time(error.to_string())
    }
}
