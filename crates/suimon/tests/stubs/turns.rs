//! Turns of tests in real time: so many run at once as the machine can do without one holding up
//! another. They wait for most of their time.

use std::sync::{Condvar, Mutex, PoisonError};

/// So many turns that nobody has.
pub struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

/// One of them, until it is dropped.
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// So many at once.
    pub const fn new(at_once: usize) -> Self {
        Self {
            free: Mutex::new(at_once),
            given_back: Condvar::new(),
        }
    }

    /// Waits for one.
    pub fn take(&self) -> Turn<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .given_back
            .wait_while(free, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}
