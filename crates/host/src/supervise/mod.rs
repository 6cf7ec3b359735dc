//! A command under nine, and the three processes that look after it.
//!
//! ```text
//! guard (started by the shell) ── understudy ── supervisor ── the command and its descendants
//! ```
//!
//! The supervisor handles the seccomp notifications, borrows sockets and limits connections. The
//! guard forwards signals and the command's exit status, and otherwise waits. The understudy waits,
//! under another name and in a session of its own, so that what kills the other two by name misses
//! it.
//!
//! If one or two of the three are killed, whoever remains undoes what was done to the sockets. From
//! then on it lets every connect proceed, so the command runs as if nine had never been there. All
//! are ancestors of the command, or become so as subreapers, since under Yama only ancestors may
//! borrow sockets.
//!
//! Limits are a lease: the supervisor gives a sign of life at each turn of its loop
//! (`sys::vitals`). If it is stopped, or hangs, the understudy lifts them
//! after a second and allows connects; when the supervisor goes on, it begins anew.
//!
//! If the command ends and leaves children behind, the guard exits with the command's status, as
//! the shell expects, and the other two go on.
//!
//! The command is in the shell's process group, with the guard, so terminal signals reach it.

mod guard;
mod hand;
mod plan;
mod supervisor;
mod understudy;

use crate::ledger::Ledger;
use crate::sys::poll;
use crate::sys::process::{self, End};
use crate::sys::signal::Signals;
use crate::sys::vitals::Vitals;
use guard::{Guard, is_termination};
use hand::LOOK_MILLIS;
use plan::WhileDoing;
pub use plan::{StartError, SupervisionPlan, SupervisionTarget, UdpPolicer};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use supervisor::SupervisorPipes;
use understudy::Understudy;

/// Supervises the target until it ends, then ends this process in the same way. Returns only if
/// supervision could not start.
///
/// This process must have one thread.
pub fn run(plan: SupervisionPlan) -> StartError {
    match start(plan) {
        Ok(end) => process::end_as(end),
        Err(error) => error,
    }
}

/// Supervises several targets, each in processes of its own, until one ends or this process is told
/// to end: then all end, and this process does. Returns only if supervision could not start.
///
/// This process must have one thread.
pub fn run_all(plans: Vec<SupervisionPlan>) -> StartError {
    match start_all(plans) {
        Ok(end) => process::end_as(end),
        Err(error) => error,
    }
}

fn start_all(plans: Vec<SupervisionPlan>) -> Result<End, StartError> {
    let parent = process::own_pid();
    let mut children = BTreeSet::new();
    for plan in plans {
        let Some(child) = process::fork().doing("start a process")? else {
            process::end_with(parent);
            let error = run(plan);
            supervisor::print(&error.to_string());
            process::end_as(End::Exit(1));
        };
        children.insert(child);
    }
    let mut signals = Signals::block().doing("wait for signals")?;
    let mut end = None;
    while !children.is_empty() {
        let _ = poll(&[signals.as_fd()], Some(LOOK_MILLIS));
        while let Some(signal) = signals.next() {
            if is_termination(signal.number) {
                end = end.or(Some(End::Exit(0)));
            }
        }
        while let Some((pid, _)) = process::reap() {
            // None ends by itself.
            end = end.or_else(|| children.contains(&pid).then_some(End::Exit(1)));
            children.remove(&pid);
        }
        if end.is_some() {
            children
                .iter()
                .for_each(|pid| process::signal(*pid, libc::SIGTERM));
        }
    }
    Ok(end.unwrap_or(End::Exit(1)))
}

fn start(mut plan: SupervisionPlan) -> Result<End, StartError> {
    match (&plan.target, &plan.rewrite) {
        (SupervisionTarget::Process(pid), None) => may_borrow(*pid)?,
        (SupervisionTarget::Chosen(_), None) => may_borrow_from_others()?,
        _ => {}
    }
    let signals = Signals::block().doing("wait for signals")?;
    process::inherit_orphans().doing("become the parent of orphans")?;
    let ledger = Ledger::new().doing("make a file in memory")?;
    let vitals = Vitals::new().doing("share a page of memory")?;
    // A pipe closes when its last writer ends: that is how each learns of the others' ends.
    let pipe = || process::pipe().doing("make a pipe");
    let [guard_messages, to_guard] = pipe()?;
    let [understudy_messages, to_understudy] = pipe()?;
    let [guard_lifeline, guard_alive] = pipe()?;
    let [understudy_lifeline, understudy_alive] = pipe()?;
    let [listener_taken, taken] = pipe()?;
    if process::fork().doing("start a process")?.is_some() {
        drop((to_guard, understudy_messages, to_understudy, guard_lifeline));
        drop((understudy_lifeline, understudy_alive, listener_taken));
        let guard = Guard {
            signals,
            messages: guard_messages,
            taken,
            alive: Some(guard_alive),
            ledger,
            vitals,
            root: plan.target.root(process::own_pid()),
        };
        return Ok(guard.run());
    }
    drop((guard_messages, guard_alive));
    // A fork that fails here ends this process, which the guard notices.
    if let Some(supervisor) = process::fork().doing("start a process")? {
        drop((to_understudy, guard_lifeline, understudy_lifeline, listener_taken));
        Understudy {
            signals,
            messages: understudy_messages,
            taken,
            to_guard,
            _alive: understudy_alive,
            ledger,
            vitals,
            root: plan.target.root(process::own_pid()),
            supervisor,
        }
        .run()
    }
    drop((understudy_messages, understudy_alive, taken));
    plan.profile.pid = std::process::id();
    let pipes = SupervisorPipes {
        to_guard,
        to_understudy,
        guard_lifeline,
        understudy_lifeline,
        listener_taken,
    };
    supervisor::run(plan, signals, pipes, ledger, vitals)
}

/// Whether sockets of processes that others have started can be borrowed.
fn may_borrow_from_others() -> Result<(), StartError> {
    /// `CAP_SYS_PTRACE`.
    const PTRACE: u32 = 19;
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|held| u64::from_str_radix(held.trim(), 16).ok());
    if matches!(yama.trim(), "" | "0") || held.is_some_and(|held| held >> PTRACE & 1 == 1) {
        return Ok(());
    }
    let why = "on this system only ancestors may inspect a process (kernel.yama.ptrace_scope); run nine \
               as root, or `sysctl -w kernel.yama.ptrace_scope=0`";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why)).doing("borrow sockets of running programs")
}

/// Whether sockets of this process can be borrowed.
fn may_borrow(pid: i32) -> Result<(), StartError> {
    let process = process::open_pidfd(pid).doing("find the process")?;
    match process::borrow(&process, 0) {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
            let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            let why = match yama.trim() {
                "" | "0" => {
                    "it is another user's, set-uid or not dumpable; run nine as root, or start the \
                     program with `nine -- CMD`"
                }
                _ => {
                    "on this system only ancestors may inspect a process \
                     (kernel.yama.ptrace_scope); start the program with `nine -- CMD`, run nine as \
                     root, or `sysctl -w kernel.yama.ptrace_scope=0`"
                }
            };
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why)).doing("borrow the process's sockets")
        }
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel is older than Linux 5.6",
        ))
        .doing("borrow the process's sockets"),
        // A process without standard input can be controlled all the same.
        _ => Ok(()),
    }
}
