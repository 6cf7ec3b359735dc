//! Processes: forks, descriptors borrowed from others, orphans, exit status.
#![expect(unsafe_code, reason = "fork, pidfd, prctl and wait are system calls")]

use super::check;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Forks: the child's number in the parent, none in the child.
///
/// The process must have one thread, since the child would lack the others.
pub(crate) fn fork() -> io::Result<Option<i32>> {
    // SAFETY: this process has one thread, so the child may go on as it likes.
    let child = check(unsafe { libc::fork() })?;
    Ok((child != 0).then_some(child))
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = check(result as libc::c_int)?;
    // SAFETY: the call has just given it, to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A pidfd: it refers to this process even after its number has been reused.
pub(crate) fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: a plain call without pointers.
    descriptor(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// A duplicate of a descriptor of that process. Close it at once: while it is open, the process's
/// own close has no effect on the file.
pub(crate) fn borrow(process: &OwnedFd, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: a plain call without pointers.
    descriptor(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// Makes this process a subreaper: orphans among its descendants become its children.
pub(crate) fn inherit_orphans() -> io::Result<()> {
    // SAFETY: a plain call without pointers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// Leaves the terminal's session, so that its signals no longer reach this process.
pub(crate) fn leave_session() -> io::Result<()> {
    // SAFETY: a plain call without pointers.
    check(unsafe { libc::setsid() }).map(drop)
}

/// A pipe: the read end and the write end.
pub(crate) fn pipe() -> io::Result<[File; 2]> {
    let mut ends = [0; 2];
    // SAFETY: the call fills the two numbers, which nobody else has.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok(ends.map(|end| File::from_raw_fd(end)))
    }
}

/// A file in memory, gone with its last descriptor.
pub(crate) fn memory_file() -> io::Result<File> {
    // SAFETY: the name ends in zero; the descriptor is new and ours.
    unsafe {
        let fd = check(libc::memfd_create(c"suimon-nine".as_ptr(), libc::MFD_CLOEXEC))?;
        Ok(File::from_raw_fd(fd))
    }
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Exit(i32),
    Signal(i32),
}

impl End {
    /// From a wait status.
    pub(crate) fn from_raw(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Exit(libc::WEXITSTATUS(status))
        }
    }

    /// As a wait status.
    pub(crate) fn to_raw(self) -> i32 {
        match self {
            Self::Exit(code) => code << 8,
            Self::Signal(signal) => signal,
        }
    }
}

/// One child that has ended, and how; none if none has.
pub(crate) fn reap() -> Option<(i32, End)> {
    let mut status = 0;
    // SAFETY: `status` is ours.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then(|| (pid, End::from_raw(status)))
}

/// Whether this process has children, ended ones included.
pub(crate) fn has_children() -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills the structure, for which zeroes are valid too.
    let answer = unsafe {
        let mut info = std::mem::MaybeUninit::zeroed();
        check(libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options))
    };
    !answer.is_err_and(|e| e.raw_os_error() == Some(libc::ECHILD))
}

/// Has this process terminated when its parent ends, which must be this one.
pub(crate) fn end_with(parent: i32) {
    // SAFETY: plain calls without pointers.
    let is_parent = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0);
        libc::getppid() == parent
    };
    if !is_parent {
        end_as(End::Exit(0));
    }
}

/// Gives this process another name, of at most 15 bytes.
pub(crate) fn set_name(name: &CStr) {
    // SAFETY: the kernel copies the name, which ends in zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Sends a signal.
pub(crate) fn signal(pid: i32, signal: i32) {
    // SAFETY: a plain call. The process is a child that has not been waited for, so its number is
    // its own.
    unsafe { libc::kill(pid, signal) };
}

/// Ends this process at once, with the same wait status for its parent.
pub(crate) fn end_as(end: End) -> ! {
    // SAFETY: plain calls; the sets and the limit are ours. The signal is unblocked and has its
    // default action, which ends the process. No core is dumped: the command's own exists.
    unsafe {
        if let End::Signal(signal) = end {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::signal(signal, libc::SIG_DFL);
            let mut set = std::mem::MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::raise(signal);
        }
        let code = match end {
            End::Exit(code) => code,
            End::Signal(signal) => 128 + signal,
        };
        libc::_exit(code)
    }
}

/// Closes the descriptors that were inherited from the shell, except the standard streams, so that
/// pipes end when the command does. Our own are close-on-exec, which tells them apart.
pub(crate) fn close_inherited() {
    let numbers = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: all descriptors that this program opens are close-on-exec, so none is closed
        // here.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == 0 {
                libc::close(number);
            }
        }
    }
}

/// Replaces all standard streams by `/dev/null`.
pub(crate) fn detach_streams() {
    (0..3).for_each(replace_stream);
}

/// This process's number.
pub(crate) fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

/// Replaces a standard stream by `/dev/null`.
pub(crate) fn replace_stream(stream: i32) {
    // SAFETY: the path ends in zero; the new descriptor is closed once, and the standard streams
    // stay open.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if nothing >= 0 {
            libc::dup2(nothing, stream);
            libc::close(nothing);
        }
    }
}
