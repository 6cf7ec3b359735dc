//! The supervisor's sign of life, and the connect that it is answering, in a page that all of
//! nine's processes share.
//!
//! The kernel writes each notification into the page itself, so a supervisor that is killed or
//! stopped before it has answered leaves its number to whoever stands in for it.
#![expect(unsafe_code, reason = "mmap is a system call")]

use engine::units::{Duration, Instant};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limits apply for this long after a sign of life.
const LEASE: Duration = Duration::from_secs(1);

/// Words of a notification (`struct seccomp_notif`).
const NOTIFICATION: usize = 10;

#[derive(Debug)]
struct Page {
    sign_of_life: AtomicU64,
    notification: [AtomicU64; NOTIFICATION],
}

/// The page. Forked processes share it; it exists as long as one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vitals(&'static Page);

/// Whether limits may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lease {
    Valid,
    /// There was no sign of life in time.
    Expired,
}

impl Vitals {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a new mapping, aligned to pages and never unmapped. The kernel fills it with
        // zeroes, which are valid.
        let page = unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                size_of::<Page>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if page == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            &*page.cast::<Page>()
        };
        Ok(Self(page))
    }

    /// A sign of life. Returns whether the last one was given in time.
    pub(crate) fn give_sign(self, at: Instant) -> Lease {
        let lease = self.lease(at);
        self.0.sign_of_life.store(at.nanos().max(1), Ordering::Relaxed);
        lease
    }

    /// Whether the last sign is recent. Before the first one nothing is limited.
    pub(crate) fn lease(self, at: Instant) -> Lease {
        match self.0.sign_of_life.load(Ordering::Relaxed) {
            0 => Lease::Valid,
            last if at.since(Instant::from_nanos(last)) > LEASE => Lease::Expired,
            _ => Lease::Valid,
        }
    }

    /// Where the kernel writes the next notification: zeroes, as it demands.
    pub(super) fn empty_notification(self) -> *mut u64 {
        for word in &self.0.notification {
            word.store(0, Ordering::Relaxed);
        }
        self.0.notification[0].as_ptr()
    }

    /// The number of the last notification, answered or not.
    pub(super) fn last_request(self) -> Option<u64> {
        Some(self.0.notification[0].load(Ordering::Relaxed)).filter(|id| *id != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_expires_a_second_after_the_last_sign_of_life() {
        let vitals = Vitals::new().expect("a page");
        let at = |millis| Instant::START + Duration::from_millis(millis);
        assert_eq!(vitals.lease(at(90_000)), Lease::Valid, "nothing is limited yet");
        assert_eq!(vitals.give_sign(at(90_000)), Lease::Valid);
        assert_eq!(vitals.lease(at(91_000)), Lease::Valid);
        assert_eq!(vitals.lease(at(91_001)), Lease::Expired);
        assert_eq!(vitals.give_sign(at(95_000)), Lease::Expired);
        assert_eq!(vitals.lease(at(95_001)), Lease::Valid);
    }
}
