//! System calls that the standard library lacks. All `unsafe` code of this crate is here.

pub(crate) mod address;
pub(crate) mod process;
pub(crate) mod seccomp;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod vitals;

use engine::units::Instant;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The result of a system call that returns -1 on failure.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The machine's monotonic clock, common to all processes.
#[expect(unsafe_code, reason = "clock_gettime is a system call")]
pub(crate) fn now() -> Instant {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the call fills the structure, for which zeroes are valid too.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    Instant::from_nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// The minute of the day by the local clock.
#[expect(unsafe_code, reason = "localtime_r is the C library's")]
pub(crate) fn minute_of_day() -> u32 {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: the calls read and fill what is ours, for which zeroes are valid. This process has
    // one thread, or only reads the environment.
    let parts = unsafe {
        let now = libc::time(std::ptr::null_mut());
        libc::localtime_r(&raw const now, parts.as_mut_ptr());
        parts.assume_init()
    };
    parts.tm_hour.unsigned_abs() * 60 + parts.tm_min.unsigned_abs()
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ready {
    /// Data, a connection or a notification can be read.
    pub(crate) readable: bool,
    /// The other end is closed.
    pub(crate) gone: bool,
}

/// Waits until one of these is ready, at most this many milliseconds (forever if none). Returns
/// what each is ready for.
#[expect(unsafe_code, reason = "poll is a system call")]
pub(crate) fn poll(descriptors: &[BorrowedFd<'_>], millis: Option<u64>) -> io::Result<Vec<Ready>> {
    let mut polls: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let millis = millis.map_or(-1, |millis| i32::try_from(millis).unwrap_or(i32::MAX));
    // SAFETY: the pointer and length are those of `polls`.
    match check(unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, millis) }) {
        Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
        _ => {}
    }
    let ready = |poll: &libc::pollfd| Ready {
        readable: poll.revents & libc::POLLIN != 0,
        gone: poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
    };
    Ok(polls.iter().map(ready).collect())
}
