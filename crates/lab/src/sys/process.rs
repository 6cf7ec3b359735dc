//! Child processes: entering a namespace before exec, waiting with a time limit, killing a group.
#![expect(unsafe_code, reason = "setns before exec, pidfd and kill are system calls")]

use super::check;
use super::namespace::enter_network;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Makes `command` enter this network namespace before it becomes its program.
pub(crate) fn enter_before_exec(command: &mut Command, namespace: Arc<OwnedFd>) {
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(move || enter_network(namespace.as_fd()));
    }
}

/// Waits at most `limit` until the child has ended; returns whether it has.
pub(crate) fn wait_for(pid: u32, limit: Duration) -> io::Result<bool> {
    // SAFETY: a plain call without pointers; the descriptor it returns is new and ours.
    let fd = unsafe {
        let fd = check(libc::syscall(libc::SYS_pidfd_open, pid.cast_signed(), 0) as i32)?;
        OwnedFd::from_raw_fd(fd)
    };
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let millis = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one descriptor, ours.
    match check(unsafe { libc::poll(&raw mut poll, 1, millis) }) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        answer => answer.map(|ready| ready > 0),
    }
}

/// Sets the calling thread's timer slack to 1 ns, so that sleeps end on time; the kernel's default
/// is 50 µs. If that is not permitted, sleeps stay as they are.
pub(crate) fn minimise_timer_slack() {
    // SAFETY: a plain call with numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Kills every process of the group that this child leads. The child must not have been reaped yet.
pub(crate) fn kill_group(leader: u32) {
    // SAFETY: a plain call. The child is not reaped yet, so its PID is not reused.
    unsafe { libc::kill(-leader.cast_signed(), libc::SIGKILL) };
}
