//! The descent into new namespaces: two forks, so that a small process 1 stands between.
//!
//! ```text
//! outer (waits) ── init (process 1 of a new PID namespace; reaps) ── the caller goes on here
//! ```
//!
//! Whichever of the three is killed, also by SIGKILL, everything ends: `init` has a parent-death
//! signal from `outer`, leaves when the caller ends, and the kernel kills a PID namespace whose
//! process 1 is gone.
//!
//! All of it may run between fork and exec of a process with several threads, so nothing here
//! allocates, locks or panics.
#![expect(unsafe_code, reason = "fork, unshare, mount and signals are system calls")]

use super::check;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::atomic::{AtomicI32, Ordering};

/// The innermost process's number outside.
static OUTSIDE: AtomicI32 = AtomicI32::new(0);

/// Which step failed, and how.
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
/// `drop_to`, becomes that user and group first.
///
/// The calling process must have one thread.
pub(crate) fn isolate(drop_to: Option<u32>) -> Result<(), Failure> {
    if let Some(id) = drop_to {
        become_user(id).step("become an unprivileged user")?;
    }
    let mask = block_signals();
    unshare_all()?;
    // SAFETY: this process has one thread, so the child may go on as it likes.
    let init = check(unsafe { libc::fork() }).step("fork")?;
    if init != 0 {
        stand_over(init);
    }
    // SAFETY: a plain call without pointers. When the process above dies, this one is killed.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: as above.
    let inner = check(unsafe { libc::fork() }).step("fork")?;
    if inner != 0 {
        stand_over(inner);
    }
    OUTSIDE.store(number_in_proc(), Ordering::Relaxed);
    // SAFETY: the strings are constants that end in zero. Without a proc file system of the new PID
    // namespace everything but listing processes works, and some containers refuse one, so failure
    // is no failure.
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

/// This process's number as the mounted proc file system has it: of the PID namespace outside,
/// before ours is mounted.
fn number_in_proc() -> i32 {
    let mut text = [0_u8; 16];
    // SAFETY: the path ends in zero; the pointer and length are those of `text`.
    let len = unsafe { libc::readlink(c"/proc/self".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    let digits = text.iter().take(usize::try_from(len).unwrap_or(0));
    digits.fold(0, |n, digit| n * 10 + i32::from(digit.wrapping_sub(b'0') % 10))
}

/// The innermost process's number outside; 0 before [`isolate`], or in a program started by it.
pub(crate) fn number_outside() -> i32 {
    OUTSIDE.load(Ordering::Relaxed)
}

fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: plain calls; the group list is empty, so its pointer is not read. The raw system
    // calls change this one thread, which is all there is.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, 0, null::<libc::gid_t>()) as i32)?;
        check(libc::syscall(libc::SYS_setresgid, id, id, id) as i32)?;
        check(libc::syscall(libc::SYS_setresuid, id, id, id) as i32)?;
        // A change of user hides /proc/self from oneself, where the maps are to be written.
        check(libc::prctl(libc::PR_SET_DUMPABLE, 1))?;
    }
    Ok(())
}

/// With privilege, namespaces alone; without, a user namespace in which we have it.
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
            // Under chroot the root need not be a mount. What is mounted below is /proc.
            Some(libc::EINVAL) => separate(c"/proc"),
            _ => Err(e),
        })
        .step("separate the mounts")
}

/// Keeps what is mounted at this place, and below it, from spreading to the machine.
fn separate(place: &std::ffi::CStr) -> io::Result<()> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the path ends in zero, and the other pointers may be null.
    check(unsafe { libc::mount(null(), place.as_ptr(), null(), flags, null()) }).map(drop)
}

fn write_file(path: &std::ffi::CStr, text: std::fmt::Arguments<'_>) -> io::Result<()> {
    let mut buffer = [0_u8; 64];
    let mut rest = &mut buffer[..];
    rest.write_fmt(text)?;
    let len = 64 - rest.len();
    // SAFETY: the path ends in zero; the buffer has `len` bytes; the descriptor is closed once.
    unsafe {
        let fd = check(libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC))?;
        let written = libc::write(fd, buffer.as_ptr().cast(), len);
        let outcome = check(written as i32);
        libc::close(fd);
        outcome.map(drop)
    }
}

/// Blocks the signals that [`stand_over`] waits for; the former mask. Those of job control stay as
/// they are, so that a shell can stop and continue the whole.
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

/// Waits for this child, passing on signals that were sent to us alone; leaves with its status.
fn stand_over(child: libc::pid_t) -> ! {
    let set = waited_for();
    // SAFETY: descriptors above 2 belong to the innermost process, which has copies; keeping ours
    // open would keep pipes of the caller's from ending. `set` and `info` are ours.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32);
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            let signal = libc::sigwaitinfo(set.as_ptr(), info.as_mut_ptr());
            if signal == libc::SIGCHLD {
                reap(child);
            } else if signal > 0 && info.assume_init_ref().si_code <= 0 {
                // Sent by a process. What the terminal sends, the whole group has received.
                libc::kill(child, signal);
            }
        }
    }
}

/// Collects ended processes; leaves if `child` is one of them.
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
            // SAFETY: ends this process without running what the caller registered for its own end.
            unsafe { libc::_exit(code) };
        }
    }
}

/// Makes `command` isolate itself before it becomes its program.
pub(crate) fn isolate_before_exec(command: &mut std::process::Command, drop_to: Option<u32>) {
    use std::os::unix::process::CommandExt;
    // SAFETY: `isolate` is made to run between fork and exec: see the head of this file.
    unsafe {
        command.pre_exec(move || isolate(drop_to).map_err(|failure| failure.source));
    }
}

/// The process id of the parent, within this PID namespace.
pub(crate) fn parent() -> i32 {
    // SAFETY: a plain call without pointers.
    unsafe { libc::getppid() }
}
