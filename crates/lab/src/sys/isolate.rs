//! Moves the process into new namespaces, by two forks: a small process 1 is in between.
//!
//! ```text
//! outer (waits) ── init (process 1 of a new PID namespace; reaps) ── the caller continues here
//! ```
//!
//! If any of the three is killed, also by SIGKILL, everything ends: `init` has a parent-death
//! signal from `outer`, exits when the caller ends, and the kernel kills a PID namespace whose
//! process 1 has ended.
//!
//! All of this may run between fork and exec of a process with several threads, so nothing here
//! allocates, locks or panics.
#![expect(unsafe_code, reason = "fork, unshare, mount and signals are system calls")]

use super::check;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::atomic::{AtomicI32, Ordering};

/// The innermost process's PID outside.
static OUTSIDE: AtomicI32 = AtomicI32::new(0);

/// The step that failed, and its error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) step: &'static str,
    pub(crate) source: io::Error,
}

trait Step<T> {
    fn step(self, step: &'static str) -> Result<T, Failure>;
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, step: &'static str) -> Result<T, Failure> {
        self.map_err(|source| Failure { step, source })
    }
}

/// Moves the calling process into new namespaces; returns in the innermost of three processes. With
/// `drop_to`, it becomes that user and group first.
///
/// The calling process must have one thread.
pub(crate) fn isolate(drop_to: Option<u32>) -> Result<(), Failure> {
    if let Some(id) = drop_to {
        become_user(id).step("become an unprivileged user")?;
    }
    let mask = block_signals();
    unshare_all()?;
    // SAFETY: this process has one thread, so the child may call any function.
    let init = check(unsafe { libc::fork() }).step("fork")?;
    if init != 0 {
        supervise(init);
    }
    // SAFETY: a plain call without pointers. When the parent dies, this process is killed.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: as above.
    let inner = check(unsafe { libc::fork() }).step("fork")?;
    if inner != 0 {
        supervise(inner);
    }
    OUTSIDE.store(pid_in_proc(), Ordering::Relaxed);
    // SAFETY: the strings are zero-terminated constants. Some containers refuse to mount the new
    // PID namespace's proc file system; only listing processes needs it, so an error is ignored.
    unsafe {
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        libc::mount(
            c"proc".as_ptr(),
            c"/proc".as_ptr(),
            c"proc".as_ptr(),
            flags,
            null(),
        );
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
    }
    Ok(())
}

/// This process's PID in the mounted proc file system, which is that of the PID namespace outside
/// until ours is mounted.
fn pid_in_proc() -> i32 {
    let mut text = [0_u8; 16];
    // SAFETY: the path is zero-terminated; the pointer and length are those of `text`.
    let len = unsafe { libc::readlink(c"/proc/self".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    let digits = text.iter().take(usize::try_from(len).unwrap_or(0));
    digits.fold(0, |n, digit| n * 10 + i32::from(digit.wrapping_sub(b'0') % 10))
}

/// The innermost process's PID outside; 0 before [`isolate`], or in a program started by it.
pub(crate) fn pid_outside() -> i32 {
    OUTSIDE.load(Ordering::Relaxed)
}

fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: plain calls; the group list is empty, so its pointer is not read. The raw system
    // calls change one thread, and there is only one.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, 0, null::<libc::gid_t>()) as i32)?;
        check(libc::syscall(libc::SYS_setresgid, id, id, id) as i32)?;
        check(libc::syscall(libc::SYS_setresuid, id, id, id) as i32)?;
        // A change of user makes /proc/self inaccessible, but the ID maps are written there.
        check(libc::prctl(libc::PR_SET_DUMPABLE, 1))?;
    }
    Ok(())
}

/// Makes the namespaces: with privilege directly, otherwise in a user namespace that grants it.
fn unshare_all() -> Result<(), Failure> {
    const INNER: i32 = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWNET;
    // SAFETY: plain calls without pointers.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: as above.
    let privileged = uid == 0 && unsafe { libc::unshare(INNER) } == 0;
    if !privileged {
        // SAFETY: as above.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER | INNER) }).step("make a user namespace")?;
        write_file(c"/proc/self/setgroups", format_args!("deny")).step("set up the user namespace")?;
        write_file(c"/proc/self/uid_map", format_args!("0 {uid} 1")).step("map the user id")?;
        write_file(c"/proc/self/gid_map", format_args!("0 {gid} 1")).step("map the group id")?;
    }
    separate(c"/")
        .or_else(|e| match e.raw_os_error() {
            // Under chroot the root may be no mount point. /proc is all that is mounted here.
            Some(libc::EINVAL) => separate(c"/proc"),
            _ => Err(e),
        })
        .step("separate the mounts")
}

/// Makes the mounts at and below this path private, so that changes do not propagate outside.
fn separate(path: &std::ffi::CStr) -> io::Result<()> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the path is zero-terminated, and the other pointers may be null.
    check(unsafe { libc::mount(null(), path.as_ptr(), null(), flags, null()) }).map(drop)
}

fn write_file(path: &std::ffi::CStr, text: std::fmt::Arguments<'_>) -> io::Result<()> {
    let mut buffer = [0_u8; 64];
    let mut rest = &mut buffer[..];
    rest.write_fmt(text)?;
    let len = 64 - rest.len();
    // SAFETY: the path is zero-terminated; the buffer has `len` bytes; the descriptor is closed
    // once.
    unsafe {
        let fd = check(libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC))?;
        let written = libc::write(fd, buffer.as_ptr().cast(), len);
        let outcome = check(written as i32);
        libc::close(fd);
        outcome.map(drop)
    }
}

/// Blocks the signals that [`supervise`] waits for; returns the former mask. Those of job control
/// stay unblocked, so that a shell can stop and continue all processes.
fn block_signals() -> libc::sigset_t {
    let mut former = MaybeUninit::uninit();
    // SAFETY: both sets are ours, and the call fills the second one.
    unsafe {
        libc::pthread_sigmask(
            libc::SIG_BLOCK,
            &raw const *waited_for().as_ptr(),
            former.as_mut_ptr(),
        );
        former.assume_init()
    }
}

fn waited_for() -> MaybeUninit<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initialises the set.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGCONT] {
            libc::sigdelset(set.as_mut_ptr(), signal);
        }
    }
    set
}

/// Waits for this child, forwards signals that were sent to this process alone, and exits with the
/// child's status.
fn supervise(child: libc::pid_t) -> ! {
    let set = waited_for();
    // SAFETY: the innermost process has its own copies of the descriptors above 2; open copies here
    // would keep the caller's pipes open. `set` and `info` are ours.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32);
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            let signal = libc::sigwaitinfo(set.as_ptr(), info.as_mut_ptr());
            if signal == libc::SIGCHLD {
                reap(child);
            } else if signal > 0 && info.assume_init_ref().si_code <= 0 {
                // Sent by a process: the terminal's signals go to the whole group anyway.
                libc::kill(child, signal);
            }
        }
    }
}

/// Reaps ended processes; exits if `child` is one of them.
fn reap(child: libc::pid_t) {
    let mut status = 0;
    loop {
        // SAFETY: `status` is ours.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if ended <= 0 {
            return;
        }
        if ended == child {
            let code = if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                128 + libc::WTERMSIG(status)
            };
            // SAFETY: exits without running the caller's exit handlers.
            unsafe { libc::_exit(code) };
        }
    }
}

/// Makes `command` isolate itself before it becomes its program.
pub(crate) fn isolate_before_exec(command: &mut std::process::Command, drop_to: Option<u32>) {
    use std::os::unix::process::CommandExt;
    // SAFETY: `isolate` may run between fork and exec: see the top of this file.
    unsafe {
        command.pre_exec(move || isolate(drop_to).map_err(|failure| failure.source));
    }
}

/// The parent's PID in this PID namespace.
pub(crate) fn parent() -> i32 {
    // SAFETY: a plain call without pointers.
    unsafe { libc::getppid() }
}
