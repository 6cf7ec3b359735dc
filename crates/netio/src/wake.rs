//! Waits for several descriptors, and for a bell that other threads can ring.

use crate::sys;
use engine::units::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

/// Wakes a thread that sleeps in [`Sleeper::sleep`]. Clones ring the same bell.
#[derive(Clone, Debug)]
pub struct Waker(Arc<sys::Bell>);

impl Waker {
    /// Ends the current sleep, or the next.
    pub fn wake(&self) {
        self.0.ring();
    }
}

/// Sleeps until something happens.
#[derive(Debug)]
pub struct Sleeper(Arc<sys::Bell>);

impl Sleeper {
    /// A sleeper, and the waker that rings its bell.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the bell's descriptor.
    pub fn new() -> io::Result<(Self, Waker)> {
        let bell = Arc::new(sys::Bell::new()?);
        Ok((Self(Arc::clone(&bell)), Waker(bell)))
    }

    /// Sleeps until one of these is readable, the bell rings, or `longest` has passed.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to wait for these descriptors.
    pub fn sleep<'a>(
        &self,
        descriptors: impl Iterator<Item = BorrowedFd<'a>>,
        longest: Duration,
    ) -> io::Result<()> {
        let bell = std::iter::once(self.0.as_fd().as_raw_fd());
        let others = descriptors.map(|fd| fd.as_raw_fd());
        let mut all: Vec<libc::pollfd> = bell
            .chain(others)
            .map(|fd| sys::interest(fd, libc::POLLIN))
            .collect();
        sys::wait(&mut all, longest.nanos())?;
        self.0.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_that_rang_before_ends_the_next_sleep() {
        let (sleeper, waker) = Sleeper::new().unwrap();
        waker.wake();
        let begin = std::time::Instant::now();
        sleeper
            .sleep(std::iter::empty(), Duration::from_secs(100))
            .unwrap();
        assert!(begin.elapsed().as_secs() < 50);
        sleeper
            .sleep(std::iter::empty(), Duration::from_millis(1))
            .unwrap();
    }
}
