//! How the thread that speaks RSVP is asked, from any other.

use super::programs::Outcome;
use control::policy::Interface;
use control::protocol::Refusal;
use control::reservation::{Held, Notice, Progress, Reservations, Status, Wanted};
use netio::wake::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};

/// How long an answer of the thread is waited for, and how long the path's answer to a change.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(6);

/// What is asked of the thread.
pub(super) enum Command {
    Reserve {
        number: u64,
        wanted: Wanted,
        trial: bool,
        tell: Sender<Progress>,
        done: Sender<Result<(), Refusal>>,
    },
    Change {
        number: u64,
        rate_bps: u64,
        done: Outcome,
    },
    Status {
        done: Sender<Status>,
    },
    Watch {
        number: u64,
        tell: Sender<Notice>,
    },
    Reshape {
        policy: Box<Interface>,
        done: Outcome,
    },
    End {
        number: u64,
    },
    Stop,
}

/// Asks the thread, from any other.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: Sender<Command>,
    waker: Waker,
    last: Arc<AtomicU64>,
}

/// Ends what it stands for when it goes.
struct Ticket {
    handle: Handle,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let _ = self.handle.send(Command::End { number: self.number });
    }
}

impl Handle {
    /// One whose commands go there, and ring there.
    pub(super) fn new(commands: Sender<Command>, waker: Waker) -> Self {
        Self {
            commands,
            waker,
            last: Arc::default(),
        }
    }

    fn send(&self, command: Command) -> Result<(), Refusal> {
        let gone = |_| Refusal::new("RSVP is not spoken any more: the thread has ended");
        self.commands.send(command).map_err(gone)?;
        self.waker.wake();
        Ok(())
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, Refusal> {
        let (done, answer) = mpsc::channel();
        self.send(command(done))?;
        answer.recv_timeout(PATIENCE).map_err(|_| Refusal {
            message: "no answer came".into(),
            help: Some("`suimon reserve status` shows what is in force".into()),
        })
    }

    fn begin(&self, wanted: &Wanted, trial: bool, tell: Sender<Progress>) -> Result<Held, Refusal> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let wanted = wanted.clone();
        let ticket = Ticket {
            handle: self.clone(),
            number,
        };
        self.ask(|done| Command::Reserve {
            number,
            wanted,
            trial,
            tell,
            done,
        })??;
        Ok(Box::new(ticket))
    }

    /// The policy of an interface has changed: its tree is laid out anew, with all that is reserved, or nothing changes.
    pub fn reshape(&self, policy: Interface) -> Result<String, Refusal> {
        self.ask(|done| Command::Reshape {
            policy: Box::new(policy),
            done,
        })?
    }

    /// Ends the thread after saying goodbye.
    pub fn stop(&self) {
        let _ = self.send(Command::Stop);
    }
}

impl Reservations for Handle {
    fn reserve(&self, wanted: &Wanted, tell: Sender<Progress>) -> Result<Held, Refusal> {
        self.begin(wanted, false, tell)
    }

    fn trial(&self, wanted: &Wanted, tell: Sender<Progress>) -> Result<Held, Refusal> {
        self.begin(wanted, true, tell)
    }

    fn change(&self, number: u64, rate_bps: u64) -> Result<String, Refusal> {
        self.ask(|done| Command::Change {
            number,
            rate_bps,
            done,
        })?
    }

    fn status(&self) -> Result<Status, Refusal> {
        self.ask(|done| Command::Status { done })
    }

    fn watch(&self, tell: Sender<Notice>) -> Result<Held, Refusal> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.send(Command::Watch { number, tell })?;
        Ok(Box::new(Ticket {
            handle: self.clone(),
            number,
        }))
    }
}
