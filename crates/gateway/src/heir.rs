//! This program takes the place of another that runs ([`control::hand_over`]), while packets flow.
//!
//! It opens its ports beside the other's, with programs of its own at the same hooks. Both agree on
//! a moment: what arrives before it is the other's, and from it on this one's. What waits then in
//! the other's queues comes over the control socket, and is queued here before anything else. The
//! other stands by until this one has looked whether all that it runs has effect; if not, or if
//! this one dies, it takes its place back.

use crate::Error;
use crate::kept::{Kept, MadeOf};
use control::protocol::{HandOverOffer, Refusal, Reply, Request};
use control::snapshot::StatusDetail;
use control::socket::Client;
use engine::units;
use netio::backlog::Backlog;
use netio::bpf::attach::stand_beside_each_other;
use netio::clock::{self, Moment};
use netio::worker::Worker;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How far ahead the moment is: what both have to do before it takes far less.
const AHEAD: units::Duration = units::Duration::from_millis(50);

/// How long before the moment ports take over that are given what arrives: it waits in them.
const SHORTLY: Duration = Duration::from_millis(5);

/// How often another moment is tried, where this program was held up.
const TRIES: usize = 5;

/// How long the other may take to end.
const ENDS: Duration = Duration::from_secs(10);

/// The place of a program that runs.
#[derive(Debug)]
pub struct Heir {
    client: Client,
    offer: HandOverOffer,
    /// Interfaces that had no effect in the other either.
    without_effect: Vec<String>,
}

impl Heir {
    /// Asks the program that serves this socket for its place: nothing changes there from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing serves it, or it cannot hand over.
    pub fn of(socket: Option<&str>) -> Result<Self, Refusal> {
        let beside = stand_beside_each_other();
        let beside = beside.map_err(|why| Refusal::new(format!("cannot take over: {why}")))?;
        if !beside {
            return Err(Refusal {
                message: "a program takes over where those of two can be at one hook: from Linux 6.6 on"
                    .into(),
                help: Some(
                    "end the one that runs, and begin the other: the kernel forwards meanwhile".into(),
                ),
            });
        }
        let mut client = Client::connect(socket)?;
        let status = client.status_with(Duration::ZERO, false, StatusDetail::Brief)?;
        let without_effect = status.interfaces.into_iter();
        let without_effect = without_effect
            .filter(|one| one.not_enforced.is_some())
            .map(|one| one.name);
        let without_effect = without_effect.collect();
        match client.ask(&Request::HandOver {})? {
            Reply::HandOver(offer) => Ok(Self {
                client,
                offer: *offer,
                without_effect,
            }),
            other => Err(unexpected(other)),
        }
    }

    /// What the other has said.
    pub fn offer(&self) -> &HandOverOffer {
        &self.offer
    }

    /// The other's policy.
    pub fn made_of(&self) -> MadeOf {
        MadeOf::in_force(self.offer.policy.clone())
    }

    /// The other's policy file.
    pub fn file(&self) -> Option<PathBuf> {
        self.offer.file.as_ref().map(PathBuf::from)
    }

    /// The other's generations, where they are on disk.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be used.
    pub fn generations(&self) -> Result<Option<Kept>, String> {
        let folder = self.offer.state.as_ref();
        folder
            .map(|folder| Kept::of_running(Path::new(folder)))
            .transpose()
    }

    /// Takes the place: these workers have what waited, and get what arrives once they run. How
    /// many packets there were.
    pub(crate) fn take_place(&mut self, workers: &mut [Worker]) -> Result<usize, Error> {
        let moment = self.agree(workers)?;
        let mut take = |by_arrival| {
            workers
                .iter_mut()
                .for_each(|one| one.take_from(moment, by_arrival))
        };
        take(true);
        if clock::now() >= moment.at {
            return Err(Error::HandOver("this program was held up; try again".into()));
        }
        let left = moment.at.since(clock::now());
        std::thread::sleep(Duration::from_nanos(left.nanos()).saturating_sub(SHORTLY));
        take(false);
        let mut backlog = self.backlog()?;
        let packets = backlog.packets();
        let lost: usize = workers
            .iter_mut()
            .map(|worker| worker.inherit(&mut backlog))
            .sum();
        if lost > 0 {
            tracing::error!("{lost} packets were lost: there was no memory for them");
        }
        Ok(packets)
    }

    /// A moment that both keep to.
    fn agree(&mut self, workers: &mut [Worker]) -> Result<Moment, Error> {
        let mut why = None;
        for _ in 0..TRIES {
            // What was heard until now is the other's.
            workers.iter_mut().for_each(Worker::discard);
            let moment = Moment::after(AHEAD);
            let leave = Request::Leave {
                at_ns: moment.at.nanos(),
                realtime_ns: moment.realtime,
            };
            match self.client.ask(&leave).map_err(Error::Refused)? {
                Reply::Done { .. } => return Ok(moment),
                other => why = Some(unexpected(other)),
            }
        }
        Err(Error::Refused(why.unwrap_or_else(|| {
            Refusal::new("the other program does not hand over")
        })))
    }

    /// What waited, after the moment.
    fn backlog(&mut self) -> Result<Backlog, Error> {
        let failed = |why: io::Error| Error::HandOver(format!("what waited did not come: {why}"));
        let bytes = match self.client.ask(&Request::Left {}).map_err(Error::Refused)? {
            Reply::Backlog { bytes } => bytes,
            other => return Err(Error::Refused(unexpected(other))),
        };
        let mut read = Vec::new();
        self.client.take_bytes(bytes, &mut read).map_err(failed)?;
        Backlog::read(&mut &read[..]).map_err(failed)
    }

    /// Whether this line is of an interface that had no effect in the other either.
    pub(crate) fn had(&self, line: &str) -> bool {
        let mut names = self.without_effect.iter();
        names.any(|name| line.starts_with(&format!("{name}: ")))
    }

    /// All is in force here: the other ends, and its place is free when it has.
    pub(crate) fn end_former(&mut self) -> Result<(), Error> {
        match self.client.ask(&Request::TakenOver {}).map_err(Error::Refused)? {
            Reply::Done { .. } if self.client.wait_for_end(ENDS) => Ok(()),
            Reply::Done { .. } => Err(Error::HandOver("the other program does not end".into())),
            other => Err(Error::Refused(unexpected(other))),
        }
    }
}

fn unexpected(reply: Reply) -> Refusal {
    match reply {
        Reply::Refused(why) => why,
        _ => Refusal {
            message: "the program that runs does not hand over".into(),
            help: Some("it may be another version of suimon".into()),
        },
    }
}
