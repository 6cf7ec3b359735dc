//! Another program takes this one's place ([`control::hand_over`]): the side of the one that runs.
//! The other side is [`heir`](crate::heir).

use crate::changes::PolicyChanges;
use crate::service_manager;
use control::hand_over::HandingOver;
use control::protocol::{HandOverOffer, Refusal};
use engine::units::Instant;
use netio::clock::Moment;
use netio::handle::{AgreedLeave, Handle, NotLeft};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The process that has taken the place; none yet.
#[derive(Debug, Default)]
pub(crate) struct TakenBy(AtomicI32);

impl TakenBy {
    /// The process, if there is one.
    pub(crate) fn process(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Acquire)).filter(|process| *process != 0)
    }
}

/// Why a policy's program cannot hand over; none if it can.
pub(crate) fn hinders(changes: &PolicyChanges, has_rsvp: bool) -> Option<Refusal> {
    let mut ports = changes.port().into_iter().flat_map(|port| &port.attached);
    let alone =
        ports.find_map(|port| Some(format!("the port is {}: {}", port.kind_name(), port.kind?.alone?)));
    let message = match has_rsvp {
        true => Some("it speaks RSVP, and reservations are not handed over".to_owned()),
        false => alone,
    };
    message.map(|message| Refusal {
        message,
        help: Some(RESTART.into()),
    })
}

/// What to do instead.
const RESTART: &str =
    "end it, and begin the other: what is queued is sent first, and the kernel forwards meanwhile";

/// The place that another program takes.
pub(crate) struct LeavingPlace<'a> {
    /// Counts what has left until now, and keeps it.
    keep: Box<dyn Fn() + Send + 'a>,
    changes: &'a PolicyChanges,
    handle: &'a Handle,
    taken_by: &'a TakenBy,
    end: &'a AtomicBool,
    offer: HandOverOffer,
    agreed: Option<AgreedLeave>,
    /// Nothing is taken back any more.
    is_over: bool,
}

impl<'a> LeavingPlace<'a> {
    /// Of this program, in which nothing changes from now on.
    pub(crate) fn of(
        keep: Box<dyn Fn() + Send + 'a>,
        (changes, handle): (&'a PolicyChanges, &'a Handle),
        (taken_by, end): (&'a TakenBy, &'a AtomicBool),
        offer: HandOverOffer,
    ) -> Self {
        Self {
            keep,
            changes,
            handle,
            taken_by,
            end,
            offer,
            agreed: None,
            is_over: false,
        }
    }
}

impl HandingOver for LeavingPlace<'_> {
    fn offer(&self) -> HandOverOffer {
        self.offer.clone()
    }

    fn agree(&mut self, at_ns: u64, realtime_ns: u64) -> Result<(), Refusal> {
        let moment = Moment {
            at: Instant::from_nanos(at_ns),
            realtime: realtime_ns,
        };
        self.agreed = Some(self.handle.leave_at(moment).map_err(not_left)?);
        Ok(())
    }

    fn left(&mut self) -> Result<Vec<u8>, Refusal> {
        let agreed = self.agreed.take();
        let agreed = agreed.ok_or_else(|| Refusal::new("no moment was agreed on"))?;
        let backlog = agreed.wait().map_err(not_left)?;
        // The other goes on counting from there.
        (self.keep)();
        let mut bytes = Vec::new();
        let written = backlog.write(&mut bytes);
        written.map_err(|why| Refusal::new(format!("what waits cannot be handed over: {why}")))?;
        tracing::info!("handed over, with {} packets that waited", backlog.packets());
        Ok(bytes)
    }

    fn end(mut self: Box<Self>, process: i32) -> String {
        self.is_over = true;
        self.taken_by.0.store(process, Ordering::Release);
        service_manager::hands_over(process);
        self.end.store(true, Ordering::Relaxed);
        format!("process {process} manages all")
    }
}

impl Drop for LeavingPlace<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.handle.take_back();
        // That it was handed over until now is known.
        let _ = self.changes.hand_over(false);
        tracing::warn!("the other program has not taken over; this one goes on");
    }
}

fn not_left(why: NotLeft) -> Refusal {
    Refusal::new(format!("it cannot hand over now: {why}"))
}
