//! A command under nine, and the processes that look after it.
//!
//! ```text
//! guard (what the shell started) ── supervisor (a session of its own) ── the command, and all that it starts
//! ```
//!
//! The supervisor answers the filter's questions, borrows sockets and holds them. The guard passes on signals and the command's
//! exit status, and else only waits. When either is killed, the other undoes what was done to the sockets and from then on
//! answers "go on" to every question, so that the command runs and connects as if there had never been a nine.
//! Both are ancestors of the command, or become so (orphans are inherited), since where Yama rules only ancestors may borrow.
//! When the command ends and has left others behind, the guard ends with its status, as the shell expects, and the supervisor
//! makes itself another guard.
//!
//! The command is in the shell's process group, with the guard: the terminal's keys reach it as ever.

mod guard;
mod supervisor;

use crate::borrowed::Root;
use crate::borrowed::ledger::Ledger;
use crate::coordinate::Meeting;
use crate::coordinate::message::Profile;
use crate::sys::process::{self, End};
use crate::sys::signal::Signals;
use engine::units::Bandwidth;
use std::ffi::OsString;
use std::fmt;
use std::io;

/// What is to be looked after.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A command that is to be started: its name and its arguments.
    Command(Vec<OsString>),
    /// A process that runs, and all below it.
    Process(i32),
    /// The hosts behind this interface. Only with [`Plan::rewrite`].
    Behind(String),
}

/// A command or process, and how it is to be held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What it is.
    pub subject: Subject,
    /// What was asked for it.
    pub profile: Profile,
    /// Where the other nines of this user are.
    pub meeting: Meeting,
    /// As root: rewrite windows in what leaves by this interface, the link's, instead of borrowing sockets.
    pub rewrite: Option<String>,
    /// As root: hold the datagrams of a command or process to this rate at this interface.
    pub police: Option<(String, Bandwidth)>,
}

/// Why it could not be begun.
#[derive(Debug)]
pub struct Trouble {
    doing: &'static str,
    source: io::Error,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.doing, self.source)
    }
}

impl std::error::Error for Trouble {}

trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, Trouble>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T, Trouble> {
        self.map_err(|source| Trouble { doing, source })
    }
}

/// Looks after it until its end, and ends this process as it ended. Returns only if it cannot be begun.
///
/// This process must have one thread.
pub fn run(plan: Plan) -> Trouble {
    match begin(plan) {
        Ok(end) => process::end_as(end),
        Err(trouble) => trouble,
    }
}

fn begin(mut plan: Plan) -> Result<End, Trouble> {
    if let (Subject::Process(pid), None) = (&plan.subject, &plan.rewrite) {
        may_borrow(*pid)?;
    }
    let signals = Signals::block().doing("wait for signals")?;
    process::inherit_orphans().doing("become the parent of orphans")?;
    let ledger = Ledger::new().doing("make a file in memory")?;
    // Each ends with the process that writes it: so each of the two learns of the other's end.
    let [told, tell] = process::pipe().doing("make a pipe")?;
    let [guard_lives, alive] = process::pipe().doing("make a pipe")?;
    match process::fork().doing("start a process")? {
        Some(_) => {
            drop((tell, guard_lives));
            let root = match plan.subject {
                Subject::Command(_) | Subject::Behind(_) => Root::Below(own()),
                Subject::Process(pid) => Root::At(pid),
            };
            Ok(guard::run(signals, told, alive, &ledger, root))
        }
        None => {
            drop((told, alive));
            plan.profile.pid = std::process::id();
            supervisor::run(plan, signals, tell, guard_lives, ledger)
        }
    }
}

/// This process's number.
fn own() -> i32 {
    std::process::id().cast_signed()
}

/// Whether sockets of this process can be borrowed.
fn may_borrow(pid: i32) -> Result<(), Trouble> {
    let process = process::hold(pid).doing("find the process")?;
    match process::borrow(&process, 0) {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
            let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            let why = match yama.trim() {
                "" | "0" => {
                    "it is another user's, set-uid or not dumpable; run nine as root, or start the program with `nine -- CMD`"
                }
                _ => {
                    "this system lets nobody but ancestors look into programs (kernel.yama.ptrace_scope); start the \
                     program with `nine -- CMD`, run nine as root, or `sysctl -w kernel.yama.ptrace_scope=0`"
                }
            };
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why)).doing("borrow the process's sockets")
        }
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel is older than Linux 5.6",
        ))
        .doing("borrow the process's sockets"),
        // That it has no standard input is no hindrance.
        _ => Ok(()),
    }
}
