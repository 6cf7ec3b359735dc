//! Time as those have it who ask a worker from outside, and wait for its answers: the machine's, or
//! a simulation's, in which nothing goes on unless somebody waits.

use crate::clock;
use engine::units::{self, Instant};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

/// The time of a simulation.
pub trait SimulatedTime: Send + Sync + fmt::Debug {
    /// The present time.
    fn now(&self) -> Instant;
    /// The computer's clock, in milliseconds since 1970. It may be set.
    fn now_ms(&self) -> u64;
    /// Lets some time pass, in which workers run.
    fn pass(&self);
}

/// The time of whoever asks; the machine's unless another is given.
#[derive(Clone, Debug, Default)]
pub struct CallerTime(Option<Arc<dyn SimulatedTime>>);

impl CallerTime {
    /// A simulation's.
    pub fn simulated(time: Arc<dyn SimulatedTime>) -> Self {
        Self(Some(time))
    }

    /// The present time, which nobody sets.
    pub fn now(&self) -> Instant {
        self.0.as_ref().map_or_else(clock::now, |time| time.now())
    }

    /// The computer's clock, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.0.as_ref().map_or_else(clock::unix_ms, |time| time.now_ms())
    }

    /// When so long has passed.
    pub fn after(&self, span: Duration) -> Instant {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.now() + units::Duration::from_nanos(nanos)
    }

    /// Waits for so long.
    pub fn sleep(&self, span: Duration) {
        match &self.0 {
            None => std::thread::sleep(span),
            Some(time) => {
                let end = self.after(span);
                while time.now() < end {
                    time.pass();
                }
            }
        }
    }

    /// Waits for what is sent, for so long at most.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing came, or nothing can come any more.
    pub fn receive<T>(&self, from: &Receiver<T>, patience: Duration) -> Result<T, RecvTimeoutError> {
        let Some(time) = &self.0 else {
            return from.recv_timeout(patience);
        };
        let end = self.after(patience);
        loop {
            match from.try_recv() {
                Ok(sent) => return Ok(sent),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if time.now() >= end => return Err(RecvTimeoutError::Timeout),
                Err(TryRecvError::Empty) => time.pass(),
            }
        }
    }
}
