//! How a verb ends: the exit codes, the same for all verbs, and the errors that people read.

use control::protocol::Refusal;
use engine::settings::Problem;
use std::io;
use std::process::ExitCode;

/// Shown under the help.
pub const HELP: &str = "Exit codes: 0 done, 1 failed at run time, 2 usage or configuration, \
     4 an expectation missed, 5 running in bypass, 6 a reservation was refused, \
     7 nobody answered to a reservation";

/// How a verb ended. The numbers are documented and never change; 3 is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It did what was asked.
    Done,
    /// Something failed while it ran.
    Failed,
    /// The command line or the policy is wrong; nothing was changed.
    Usage,
    /// It ran, and the result is not what was expected.
    Missed,
    /// It runs, and traffic passes by the policy: somebody has disabled it.
    Bypass,
    /// A node on the path has refused a reservation.
    Refused,
    /// No answer has come to a reservation.
    Unanswered,
    /// A command was run, and this is how it ended.
    Passed(u8),
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Missed => 4,
            Self::Bypass => 5,
            Self::Refused => 6,
            Self::Unanswered => 7,
            Self::Passed(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a verb could not do what was asked.
#[derive(Debug)]
pub struct Failure {
    /// The code to end with.
    pub exit: Exit,
    /// Where, what, and what to do. Empty if there is nobody to tell.
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

    /// Tells the person.
    pub fn report(&self) {
        if !self.message.is_empty() {
            eprintln!("suimon: {}", self.message);
        }
    }
}

impl From<io::Error> for Failure {
    /// A reader that has closed the pipe (`suimon kinds | head -1`) has got what it wanted.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self {
                exit: Exit::Done,
                message: String::new(),
            };
        }
        Self::at_run_time(format!("cannot write: {error}"))
    }
}

impl From<Problem> for Failure {
    /// A word on the command line that is wrong.
    fn from(problem: Problem) -> Self {
        Self::usage(Refusal::from(problem).to_string())
    }
}

impl From<Refusal> for Failure {
    /// What the running program, or the way to it, refused.
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
            gateway::Error::Output(error) => error.into(),
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
