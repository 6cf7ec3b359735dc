//! The nines of one user on one link act as one.
//!
//! They share what is left to them by weight, and none takes another's traffic for traffic to
//! yield to. One of them leads: at each tick it asks all for samples, runs the control laws, and
//! sends each its orders. The holder of a lock file leads. When it ends, for whatever reason, the
//! kernel frees the lock and another nine takes it.
//!
//! Each nine borrows the sockets of its own command, since under Yama only ancestors may. Nines in
//! different network namespaces have different links, and so different leaders.

mod claims;
mod json_lines;
mod leader;
mod leader_lock;
pub mod message;
mod totals;

use crate::interface;
use crate::law::INTERVAL;
use crate::member_actuator::MemberActuator;
use crate::sys::now;
use crate::tick::FlowSample;
use engine::units::{Duration, Instant};
use json_lines::JsonLines;
use leader::Leader;
use leader_lock::LeaderLock;
use message::{FlowReport, FromLeader, MemberProfile, MemberReport, NineStatus, ToLeader, WireOrder};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// How long a follower waits for its leader before it lifts all limits and looks for another.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// The time between two ticks while nobody has connections.
const IDLE: Duration = Duration::from_millis(250);

/// The files by which the nines of a user find each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendezvous {
    lock: PathBuf,
    socket: PathBuf,
    /// The directories of bottlenet settings, in order of precedence.
    settings: Vec<PathBuf>,
}

impl Rendezvous {
    /// In this directory, which belongs to the user alone, for this process's network namespace.
    pub fn new(directory: &Path, settings: Vec<PathBuf>) -> Self {
        let namespace = interface::namespace();
        let file = |ending: &str| directory.join(format!("nine-{namespace}.{ending}"));
        Self {
            lock: file("lock"),
            socket: file("sock"),
            settings,
        }
    }

    /// The state of the nines; none if no nine runs.
    ///
    /// # Errors
    ///
    /// If the leader does not reply in time.
    pub fn status(&self) -> io::Result<Option<NineStatus>> {
        let until = now() + PATIENCE;
        loop {
            let Ok(stream) = UnixStream::connect(&self.socket) else {
                return Ok(None);
            };
            match ask(stream, until) {
                Ok(status) => return Ok(Some(status)),
                Err(e) if e.kind() == io::ErrorKind::TimedOut => return Err(e),
                // The leader has just ended. Another takes over now or soon.
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(100)),
            }
        }
    }
}

fn ask(stream: UnixStream, until: Instant) -> io::Result<NineStatus> {
    let mut lines = JsonLines::new(stream)?;
    lines.send(&ToLeader::Status)?;
    while now() < until {
        crate::sys::poll(&[lines.as_fd()], Some(50))?;
        for message in lines.receive()? {
            if let FromLeader::Status(status) = message {
                return Ok(status);
            }
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "the nine that leads does not answer",
    ))
}

/// Why a participant is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wakeup {
    /// A tick is due.
    Tick,
    /// A message may have arrived.
    Message,
}

/// One nine as a leader or follower.
#[derive(Debug)]
pub(crate) struct Participant {
    rendezvous: Rendezvous,
    profile: MemberProfile,
    role: Role,
}

#[derive(Debug)]
enum Role {
    /// Neither leads nor has found a leader.
    Seeking,
    Leading(Box<Leader>),
    Following {
        leader: JsonLines,
        last_heard: Instant,
    },
}

impl Participant {
    pub(crate) fn new(rendezvous: Rendezvous, profile: MemberProfile) -> Self {
        Self {
            rendezvous,
            profile,
            role: Role::Seeking,
        }
    }

    /// The descriptors to poll.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match &self.role {
            Role::Seeking => Vec::new(),
            Role::Leading(leader) => leader.descriptors(),
            Role::Following { leader, .. } => vec![leader.as_fd()],
        }
    }

    /// Does what is due.
    pub(crate) fn step(
        &mut self,
        at: Instant,
        wakeup: Wakeup,
        actuator: &mut dyn MemberActuator,
    ) -> io::Result<()> {
        match &mut self.role {
            Role::Seeking => {
                if wakeup == Wakeup::Tick {
                    self.role = self.seek(at)?;
                }
            }
            Role::Leading(leader) => {
                leader.receive();
                if wakeup == Wakeup::Tick {
                    leader.begin(at);
                }
                if leader.is_complete(at) {
                    let own = report(actuator, at, leader.tick())?;
                    let orders = leader.conclude(&self.profile, own);
                    actuator.apply(&orders)?;
                }
            }
            Role::Following { leader, last_heard } => {
                let followed = follow(leader, last_heard, at, actuator);
                if followed.is_err() || at.since(*last_heard) > PATIENCE {
                    if at.since(*last_heard) > PATIENCE {
                        actuator.release()?;
                    }
                    self.role = Role::Seeking;
                }
            }
        }
        Ok(())
    }

    fn seek(&self, at: Instant) -> io::Result<Role> {
        if let Ok(stream) = UnixStream::connect(&self.rendezvous.socket) {
            let mut leader = JsonLines::new(stream)?;
            if leader.send(&ToLeader::Join(self.profile.clone())).is_ok() {
                return Ok(Role::Following {
                    leader,
                    last_heard: at,
                });
            }
        }
        let Some(lock) = LeaderLock::take(&self.rendezvous.lock, &self.rendezvous.socket)? else {
            // Its holder will listen soon.
            return Ok(Role::Seeking);
        };
        let listener = lock.listen()?;
        let leader = Leader::new(lock, listener, self.rendezvous.settings.clone());
        Ok(Role::Leading(Box::new(leader)))
    }

    /// What the user should be told, each once.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        match &mut self.role {
            Role::Leading(leader) => leader.take_notices(),
            Role::Seeking | Role::Following { .. } => Vec::new(),
        }
    }

    /// Stops taking part. If this nine led, another will.
    pub(crate) fn leave(&mut self) {
        self.role = Role::Seeking;
    }

    /// The time until the next tick: longer while no nine has connections, as far as this one
    /// can tell.
    pub(crate) fn interval(&self) -> Duration {
        match &self.role {
            Role::Leading(leader) if leader.is_idle() => IDLE,
            Role::Leading(leader) => leader.interval(),
            Role::Seeking | Role::Following { .. } => INTERVAL,
        }
    }
}

/// Replies to the leader and applies its orders.
fn follow(
    leader: &mut JsonLines,
    last_heard: &mut Instant,
    at: Instant,
    actuator: &mut dyn MemberActuator,
) -> io::Result<()> {
    for message in leader.receive()? {
        *last_heard = at;
        match message {
            FromLeader::Sample { tick } => {
                let report = report(actuator, at, tick)?;
                leader.send(&ToLeader::Report(report))?;
            }
            FromLeader::Apply(orders) => {
                let orders: Vec<_> = orders.iter().map(WireOrder::order).collect();
                actuator.apply(&orders)?;
            }
            FromLeader::Status(_) => {}
        }
    }
    Ok(())
}

/// Samples of all connections whose two ends are known.
fn report(actuator: &mut dyn MemberActuator, at: Instant, tick: u64) -> io::Result<MemberReport> {
    let samples: Vec<FlowSample> = actuator.samples(at)?;
    let connections = actuator.connections();
    let with_ends = |sample: &FlowSample| {
        let info = connections.iter().find(|info| info.id == sample.id)?;
        Some(FlowReport::new(sample, info))
    };
    Ok(MemberReport {
        tick,
        flows: samples.iter().filter_map(with_ends).collect(),
        uncontrolled: actuator.uncontrolled().into_iter().map(Into::into).collect(),
    })
}
