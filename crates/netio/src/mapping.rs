//! Memory shared with the kernel: rings, the heartbeat cell, frames.
//!
//! Memory that the kernel may change at any time is accessible only as atomics, so that rings and
//! cells are safe code. On the machines in question a relaxed load or store compiles to a plain
//! one.

#![expect(unsafe_code, reason = "mmap(2), and views of what it returned")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A mapped region, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the region belongs to this value, not to a thread. Shared access is by atomics alone;
// callers that use the raw start justify it themselves.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file from `offset`, shared.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to map this part of the file.
    pub fn of(fd: BorrowedFd<'_>, len: usize, offset: i64) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    /// Zeroed, page-aligned memory of this process. It is a shared mapping: pages that the kernel
    /// has pinned must stay the same when the process forks.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses so much memory.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let flags = match cfg!(miri) {
            // Miri maps no other memory.
            true => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            false => libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
        };
        Self::map(len, flags, -1, 0)
    }

    fn map(len: usize, flags: i32, fd: i32, offset: i64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap gave address 0"))?;
        Ok(Self { start, len })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty (never: mmap refuses a length of 0).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The region as 64-bit cells.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped readable and writable for `len` bytes as long as `self` lives;
        // page-aligned; any bit pattern is a number; the kernel and other views change it only
        // atomically.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 8) }
    }

    /// The region as 32-bit cells.
    pub fn halves(&self) -> &[AtomicU32] {
        // SAFETY: as `words`. Each location is used in one width only, by the ring layouts.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 4) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap returned, and no view outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    /// The same memory, mapped twice.
    pub(crate) fn twice(len: usize) -> [Mapping; 2] {
        // SAFETY: a zero-terminated name.
        let fd = unsafe { libc::memfd_create(c"shared".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: no pointers are passed.
        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), len as i64) }, 0);
        [(); 2].map(|()| Mapping::of(fd.as_fd(), len, 0).unwrap())
    }

    #[test]
    fn one_view_loads_what_the_other_stores() {
        use std::sync::atomic::Ordering::Relaxed;
        let [one, other] = twice(64);
        one.words()[7].store(42, Relaxed);
        assert_eq!(other.words()[7].load(Relaxed), 42);
        assert_eq!((one.words().len(), one.halves().len()), (8, 16));
    }
}
