//! System calls, each wrapped once, with safe signatures.
#![expect(unsafe_code, reason = "system calls and mapped memory; nothing else is here")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

/// The result of a call that returns −1 and sets `errno`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place to write to. The call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Anonymous memory that costs nothing until it is touched.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to this value alone, like a `Vec`'s.
unsafe impl Send for Region {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes of zeros.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len.max(1), access, flags, -1, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self {
                start,
                len: len.max(1),
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// These bytes.
    pub(crate) fn bytes(&self, from: usize, len: usize) -> &[u8] {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: inside the mapping (asserted), initialised (zeros), and borrowed with it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(from), len) }
    }

    /// These bytes, to write.
    pub(crate) fn bytes_mut(&mut self, from: usize, len: usize) -> &mut [u8] {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: inside the mapping (asserted), initialised (zeros), and borrowed exclusively with it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(from), len) }
    }

    /// The address of a byte, for the kernel to read or write `len` bytes at.
    pub(crate) fn address(&self, from: usize, len: usize) -> *mut u8 {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: inside the mapping (asserted).
        unsafe { self.start.as_ptr().add(from) }
    }

    /// Copies inside the region; the two places do not overlap.
    pub(crate) fn copy(&mut self, from: usize, to: usize, len: usize) {
        let inside = |at: usize| at.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside(from) && inside(to) && from.abs_diff(to) >= len);
        let start = self.start.as_ptr();
        // SAFETY: both places are inside the mapping and do not overlap (asserted).
        unsafe { std::ptr::copy_nonoverlapping(start.add(from), start.add(to), len) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no reference outlives the owner.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A counter in the kernel that makes a descriptor readable: a bell.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes. It fails only if the counter is full, and then it is readable.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it unreadable again.
    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes. It fails only if the bell was silent.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One descriptor to wait for.
pub(crate) fn interest(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Waits for a descriptor, at most `nanos`; an interruption by a signal ends the wait like a time-out.
pub(crate) fn wait(fds: &mut [libc::pollfd], nanos: u64) -> io::Result<usize> {
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(nanos / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: (nanos % 1_000_000_000).cast_signed(),
    };
    let count = fds.len() as libc::nfds_t;
    // SAFETY: `fds` is valid for its length, `time` is read, and no signal mask is given.
    match check(unsafe { libc::ppoll(fds.as_mut_ptr(), count, &raw const time, std::ptr::null()) }) {
        Ok(ready) => Ok(usize::try_from(ready).unwrap_or(0)),
        Err(e) if e.raw_os_error() == Some(libc::EINTR) => Ok(0),
        Err(e) => Err(e),
    }
}

/// Lets this thread's timers be late by at most `nanos` for the sake of batching.
pub(crate) fn set_timer_slack(nanos: libc::c_ulong) {
    // SAFETY: no pointers are passed. It cannot fail for a value above zero.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos) };
}

/// Runs this thread under `SCHED_FIFO`.
pub(crate) fn set_realtime(priority: libc::c_int) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sched_param`.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: zero means the calling thread; the parameters are read.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }).map(drop)
}
