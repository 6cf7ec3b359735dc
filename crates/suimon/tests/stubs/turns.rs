//! Turns of tests in real time. Most of them wait for most of their time, so two may run at once;
//! but where rates are judged closely, a test is alone.

use std::sync::{Condvar, Mutex, PoisonError};

/// How many tests run at once, if none has to be alone.
const AT_ONCE: usize = 2;

/// The turns that nobody has.
pub struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

/// So many of them, until it is dropped.
pub struct Turn<'a>(&'a Turns, usize);

impl Turns {
    /// All of them.
    pub const fn new() -> Self {
        Self {
            free: Mutex::new(AT_ONCE),
            given_back: Condvar::new(),
        }
    }

    /// Waits until no other test runs.
    pub fn alone(&self) -> Turn<'_> {
        self.take(AT_ONCE)
    }

    /// Waits until another test at most runs, and none that has to be alone.
    pub fn beside_another(&self) -> Turn<'_> {
        self.take(1)
    }

    fn take(&self, many: usize) -> Turn<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .given_back
            .wait_while(free, |free| *free < many)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= many;
        Turn(self, many)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += self.1;
        self.0.given_back.notify_all();
    }
}
