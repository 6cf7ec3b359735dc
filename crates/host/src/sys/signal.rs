//! Signals read from a descriptor (signalfd), so that they can be polled beside others.
#![expect(unsafe_code, reason = "signal masks and signalfd are system calls")]

use super::check;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

/// All signals except those of job control, blocked and readable until this is dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    file: File,
    former: libc::sigset_t,
}

/// A signal that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Signal {
    pub(crate) number: i32,
    /// A process sent it to this one; otherwise the terminal or the kernel sent it to the group.
    pub(crate) sent: bool,
}

impl Signals {
    /// Blocks them for this thread.
    pub(crate) fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        let mut former = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the calls fill the sets, which are ours; the descriptor is new and ours.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGCONT] {
                libc::sigdelset(set.as_mut_ptr(), signal);
            }
            let fd = check(libc::signalfd(
                -1,
                set.as_ptr(),
                libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
            ))?;
            let file = File::from_raw_fd(fd);
            check(libc::sigprocmask(
                libc::SIG_BLOCK,
                set.as_ptr(),
                former.as_mut_ptr(),
            ))?;
            Ok(Self {
                file,
                former: former.assume_init(),
            })
        }
    }

    /// Restores the former signal mask, for a child that is about to exec.
    pub(crate) fn restore(&self) {
        // SAFETY: the set is ours.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.former, std::ptr::null_mut()) };
    }

    /// The next signal, if one has arrived.
    pub(crate) fn next(&mut self) -> Option<Signal> {
        let mut raw = [0_u8; size_of::<libc::signalfd_siginfo>()];
        self.file.read_exact(&mut raw).ok()?;
        let word = |at: usize| i32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        // `signalfd_siginfo`: ssi_signo at 0, ssi_code at 8.
        Some(Signal {
            number: word(0),
            sent: word(8) <= 0,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
