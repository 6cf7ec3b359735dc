//! Commands to the thread that speaks RSVP, from any other thread.

use super::budgets::ChangedPolicy;
use super::local_senders::DoneSender;
use super::tried_policy::TriedPolicy;
use control::difference::Breaking;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use control::recorded::RecordedSignalling;
use control::reservation::{Lease, Notice, ReservationRequest, ReservationState, Reservations, RsvpStatus};
use netio::time::CallerTime;
use netio::wake::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};

/// The time limit for a reply of the thread, and for the path's reply to a change.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(6);

/// A command to the thread.
pub(super) enum Command {
    Reserve {
        number: u64,
        wanted: ReservationRequest,
        trial: bool,
        updates: Sender<ReservationState>,
        done: Sender<Result<(), Refusal>>,
    },
    Change {
        number: u64,
        rate_bps: u64,
        done: DoneSender,
    },
    Status {
        done: Sender<RsvpStatus>,
    },
    Record {
        done: Sender<Option<(RecordedSignalling, Vec<u8>)>>,
    },
    Watch {
        number: u64,
        updates: Sender<Notice>,
    },
    ChangePolicy {
        policy: Box<InterfacePolicy>,
        breaking: Breaking,
        done: Sender<Result<ChangedPolicy, Refusal>>,
    },
    TryPolicy {
        policy: Box<InterfacePolicy>,
        done: Sender<Option<TriedPolicy>>,
    },
    End {
        number: u64,
    },
    Stop,
}

/// Sends commands to the thread.
#[derive(Clone, Debug)]
pub struct SpeakerHandle {
    commands: Sender<Command>,
    waker: Waker,
    time: CallerTime,
    last: Arc<AtomicU64>,
}

/// Ends its reservation or watch when dropped.
struct EndOnDrop {
    handle: SpeakerHandle,
    number: u64,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let _ = self.handle.send(Command::End { number: self.number });
    }
}

impl SpeakerHandle {
    /// A handle with the sending end of the command channel, for those who wait by this time.
    pub(super) fn new(commands: Sender<Command>, waker: Waker, time: CallerTime) -> Self {
        Self {
            commands,
            waker,
            time,
            last: Arc::default(),
        }
    }

    fn send(&self, command: Command) -> Result<(), Refusal> {
        let gone = |_| Refusal::new("the thread that speaks RSVP has ended");
        self.commands.send(command).map_err(gone)?;
        self.waker.wake();
        Ok(())
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, Refusal> {
        let (done, answer) = mpsc::channel();
        self.send(command(done))?;
        self.time.receive(&answer, TIMEOUT).map_err(|_| Refusal {
            message: "the thread that speaks RSVP did not reply in time".into(),
            help: Some("`suimon reserve status` shows what is in force".into()),
        })
    }

    fn begin(
        &self,
        wanted: &ReservationRequest,
        trial: bool,
        updates: Sender<ReservationState>,
    ) -> Result<Lease, Refusal> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let wanted = wanted.clone();
        let lease = EndOnDrop {
            handle: self.clone(),
            number,
        };
        self.ask(|done| Command::Reserve {
            number,
            wanted,
            trial,
            updates,
            done,
        })??;
        Ok(Box::new(lease))
    }

    /// Replaces the policy of an interface: its tree is laid out again, with all reservations.
    ///
    /// # Errors
    ///
    /// If the new tree cannot be installed, or breaks what it may not; the old policy stays in
    /// force then.
    pub fn change_policy(
        &self,
        policy: InterfacePolicy,
        breaking: Breaking,
    ) -> Result<ChangedPolicy, Refusal> {
        self.ask(|done| Command::ChangePolicy {
            policy: Box::new(policy),
            breaking,
            done,
        })?
    }

    /// What a policy would do to the reservations of its interface; none if it takes none.
    ///
    /// # Errors
    ///
    /// If the thread does not reply.
    pub fn try_policy(&self, policy: InterfacePolicy) -> Result<Option<TriedPolicy>, Refusal> {
        self.ask(|done| Command::TryPolicy {
            policy: Box::new(policy),
            done,
        })
    }

    /// What RSVP heard, was told and did, as a recording has it, with its tape; none if nothing of
    /// it was written down.
    ///
    /// # Errors
    ///
    /// If the thread does not reply.
    pub fn recorded(&self) -> Result<Option<(RecordedSignalling, Vec<u8>)>, Refusal> {
        self.ask(|done| Command::Record { done })
    }

    /// Ends the thread after tearing down the reservations of programs.
    pub fn stop(&self) {
        let _ = self.send(Command::Stop);
    }
}

impl Reservations for SpeakerHandle {
    fn reserve(
        &self,
        wanted: &ReservationRequest,
        updates: Sender<ReservationState>,
    ) -> Result<Lease, Refusal> {
        self.begin(wanted, false, updates)
    }

    fn trial(
        &self,
        wanted: &ReservationRequest,
        updates: Sender<ReservationState>,
    ) -> Result<Lease, Refusal> {
        self.begin(wanted, true, updates)
    }

    fn change(&self, number: u64, rate_bps: u64) -> Result<String, Refusal> {
        self.ask(|done| Command::Change {
            number,
            rate_bps,
            done,
        })?
    }

    fn status(&self) -> Result<RsvpStatus, Refusal> {
        self.ask(|done| Command::Status { done })
    }

    fn watch(&self, updates: Sender<Notice>) -> Result<Lease, Refusal> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.send(Command::Watch { number, updates })?;
        Ok(Box::new(EndOnDrop {
            handle: self.clone(),
            number,
        }))
    }
}
