//! Child processes: entering a namespace before exec, waiting with a time limit, passing signals
//! on, killing a group.
#![expect(unsafe_code, reason = "setns before exec, pidfd and kill are system calls")]

use super::check;
use super::namespace::enter_network;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

/// Makes `command` enter this network namespace, with no signal blocked, before it becomes its
/// program.
pub(crate) fn enter_before_exec(command: &mut Command, namespace: Arc<OwnedFd>) {
    // SAFETY: the closure makes system calls and allocates nothing; the set is initialised first.
    unsafe {
        command.pre_exec(move || {
            let mut none = MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
            enter_network(namespace.as_fd())
        });
    }
}

/// The signals that end a program or that it may understand, and the one that tells of its end.
fn passed_on() -> MaybeUninit<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGTERM,
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGCHLD,
        ] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
    }
    set
}

/// Blocks the signals that [`end_of`] passes on, in this thread and those it starts from now on.
pub(crate) fn hold_signals() {
    // SAFETY: the set is ours and initialised; the former mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, passed_on().as_ptr(), std::ptr::null_mut()) };
}

/// Waits for the end of a child, and passes on the signals that were sent to this process alone
/// meanwhile. They must be [held](hold_signals). Those of a terminal reach the child by themselves.
pub(crate) fn end_of(child: &mut Child) -> io::Result<ExitStatus> {
    let set = passed_on();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: set and info are ours. The child is not reaped yet, so its PID is not reused.
        unsafe {
            let signal = libc::sigwaitinfo(set.as_ptr(), info.as_mut_ptr());
            if signal > 0 && signal != libc::SIGCHLD && info.assume_init_ref().si_code <= 0 {
                libc::kill(child.id().cast_signed(), signal);
            }
        }
    }
}

/// Waits at most `limit` for one of the signals that end a program, which must be
/// [held](hold_signals); returns whether one came.
pub(crate) fn told_to_end(limit: Duration) -> bool {
    let mut set = MaybeUninit::uninit();
    let limit = libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: the first call initialises the set; what the signal was is not asked for.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::sigtimedwait(set.as_ptr(), std::ptr::null_mut(), &raw const limit) > 0
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
