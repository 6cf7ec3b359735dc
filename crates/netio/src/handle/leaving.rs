//! Has all workers leave their places to those of another program.

use super::{Command, Handle, Unanswered};
use crate::backlog::Backlog;
use crate::clock::Moment;
use crate::worker::leaving::{Leave, PlaceWish};
use std::fmt;
use std::sync::mpsc::{Receiver, channel};

/// Why a worker does not leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotLeft {
    /// The moment has passed.
    Late,
    /// What passes is recorded, or another policy runs beside.
    Taped,
    /// It leaves already, or ends.
    Leaving,
    /// It does not answer.
    Unanswered(Unanswered),
}

impl fmt::Display for NotLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Late => "the agreed moment had passed",
            Self::Taped => "what passes is recorded, or another policy runs beside: end that first",
            Self::Leaving => "it ends, or hands over to another program already",
            Self::Unanswered(why) => return why.fmt(f),
        })
    }
}

impl std::error::Error for NotLeft {}

/// All workers leave at a moment; what they hand over comes after it.
#[derive(Debug)]
pub struct AgreedLeave {
    handle: Handle,
    left: Vec<Receiver<Vec<crate::backlog::PathBacklog>>>,
}

impl AgreedLeave {
    /// Waits for the moment, and for what all workers then hand over.
    ///
    /// # Errors
    /// If a worker ends or does not answer; then the others take their places back.
    pub fn wait(self) -> Result<Backlog, NotLeft> {
        let Self { handle, left } = self;
        let mut all = Backlog::default();
        for left in &left {
            match handle.await_from(left) {
                Ok(paths) => all.0.extend(paths),
                Err(why) => {
                    handle.take_back();
                    return Err(NotLeft::Unanswered(why));
                }
            }
        }
        Ok(all)
    }
}

impl Handle {
    /// Has all workers leave at this moment to those of another program, which takes what arrives
    /// from then on.
    ///
    /// # Errors
    /// If one of them cannot; then none does.
    pub fn leave_at(&self, moment: Moment) -> Result<AgreedLeave, NotLeft> {
        let mut agreed = Vec::new();
        let mut all_left = Vec::new();
        for line in self.workers.iter() {
            let (agreed_by, is_agreed) = channel();
            let (left_by, left) = channel();
            let leave = Leave {
                moment,
                agreed: agreed_by,
                left: left_by,
            };
            agreed.push(
                line.tell(Command::Place(PlaceWish::Leave(leave)))
                    .map(|()| is_agreed),
            );
            all_left.push(left);
        }
        let answer = |is_agreed: Result<Receiver<_>, _>| {
            let answer = is_agreed.and_then(|agreed| self.await_from(&agreed));
            answer.unwrap_or_else(|why| Err(NotLeft::Unanswered(why)))
        };
        let answers: Vec<Result<(), NotLeft>> = agreed.into_iter().map(answer).collect();
        let Some(why) = answers.iter().find_map(|answer| answer.err()) else {
            return Ok(AgreedLeave {
                handle: self.clone(),
                left: all_left,
            });
        };
        for (line, _) in self
            .workers
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| answer.is_ok())
        {
            let _ = line.tell(Command::Place(PlaceWish::TakeBack));
        }
        Err(why)
    }

    /// Has all workers take their places back, or not leave them.
    pub fn take_back(&self) {
        for line in self.workers.iter() {
            // One that has ended has no place.
            let _ = line.tell(Command::Place(PlaceWish::TakeBack));
        }
    }
}
