//! The nines of one user on one link act as one: they share what is left to them by weight, and none takes another's traffic for
//! traffic to yield to. One of them leads: it asks all for readings at each tick, lets the laws decide, and gives
//! each its orders. Who holds the lock leads; when it ends, however it ends, the lock is free, and another takes it.
//!
//! Each borrows the sockets of its own command: where only ancestors may (Yama), nobody else could. Nines in different
//! network namespaces have different links, and different leaders.

mod leader;
mod line;
pub mod message;

use crate::actuator::Holder;
use crate::law::INTERVAL;
use crate::reading::FlowReading;
use crate::sys::now;
use engine::units::{Duration, Instant};
use leader::Leader;
use line::Lines;
use message::{Command, FromLeader, Profile, Reading, Readings, Status, ToLeader};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// How long a follower waits for its leader before it lets everything go and looks for another.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// The time between two ticks while nobody has connections.
const IDLE: Duration = Duration::from_millis(250);

/// Where the nines of a user meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meeting {
    lock: PathBuf,
    socket: PathBuf,
    /// Where what is known of links is looked up, in this order.
    words: Vec<PathBuf>,
}

impl Meeting {
    /// In this directory, which is the user's alone, for the network namespace of this process.
    pub fn new(directory: &Path, words: Vec<PathBuf>) -> Self {
        let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |metadata| metadata.ino());
        let file = |ending: &str| directory.join(format!("nine-{namespace}.{ending}"));
        Self {
            lock: file("lock"),
            socket: file("sock"),
            words,
        }
    }

    /// What the nines do now; none if there are none.
    pub fn status(&self) -> io::Result<Option<Status>> {
        let until = now() + PATIENCE;
        loop {
            let Ok(stream) = UnixStream::connect(&self.socket) else {
                return Ok(None);
            };
            match ask(stream, until) {
                Ok(status) => return Ok(Some(status)),
                Err(e) if e.kind() == io::ErrorKind::TimedOut => return Err(e),
                // It has just ended. Another may lead by now, or soon.
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(100)),
            }
        }
    }
}

fn ask(stream: UnixStream, until: Instant) -> io::Result<Status> {
    let mut lines = Lines::new(stream)?;
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

/// One nine's part.
#[derive(Debug)]
pub(crate) struct Part {
    meeting: Meeting,
    profile: Profile,
    role: Role,
}

#[derive(Debug)]
enum Role {
    /// Neither leads nor has found who does.
    Seeking,
    Leading(Box<Leader>),
    Following {
        leader: Lines,
        heard: Instant,
    },
}

impl Part {
    pub(crate) fn new(meeting: Meeting, profile: Profile) -> Self {
        Self {
            meeting,
            profile,
            role: Role::Seeking,
        }
    }

    /// What to wait for.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match &self.role {
            Role::Seeking => Vec::new(),
            Role::Leading(leader) => leader.descriptors(),
            Role::Following { leader, .. } => vec![leader.as_fd()],
        }
    }

    /// Does what is due: at a tick, or when something has come.
    pub(crate) fn step(&mut self, at: Instant, is_tick: bool, sockets: &mut dyn Holder) -> io::Result<()> {
        match &mut self.role {
            Role::Seeking => {
                if is_tick {
                    self.role = self.seek(at)?;
                }
            }
            Role::Leading(leader) => {
                leader.receive();
                if is_tick {
                    leader.begin(at);
                }
                if leader.is_complete(at) {
                    let own = readings(sockets, at, leader.tick())?;
                    let orders = leader.conclude(&self.profile, own);
                    sockets.apply(&orders)?;
                }
            }
            Role::Following { leader, heard } => {
                let followed = follow(leader, heard, at, sockets);
                if followed.is_err() || at.since(*heard) > PATIENCE {
                    if at.since(*heard) > PATIENCE {
                        sockets.release()?;
                    }
                    self.role = Role::Seeking;
                }
            }
        }
        Ok(())
    }

    fn seek(&self, at: Instant) -> io::Result<Role> {
        if let Ok(stream) = UnixStream::connect(&self.meeting.socket) {
            let mut leader = Lines::new(stream)?;
            if leader.send(&ToLeader::Join(self.profile.clone())).is_ok() {
                return Ok(Role::Following { leader, heard: at });
            }
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.meeting.lock)?;
        match lock.try_lock() {
            Ok(()) => {}
            // It leads soon.
            Err(TryLockError::WouldBlock) => return Ok(Role::Seeking),
            Err(TryLockError::Error(e)) => return Err(e),
        }
        // A former leader's, which is gone: the lock says so.
        let _ = fs::remove_file(&self.meeting.socket);
        let listener = UnixListener::bind(&self.meeting.socket)?;
        listener.set_nonblocking(true)?;
        let leader = Leader::new(lock, listener, self.meeting.words.clone());
        Ok(Role::Leading(Box::new(leader)))
    }

    /// Takes part no more; another will lead, if this one did.
    pub(crate) fn leave(&mut self) {
        self.role = Role::Seeking;
    }

    /// The time until the next tick: longer while nobody has connections, as far as this one knows.
    pub(crate) fn interval(&self) -> Duration {
        match &self.role {
            Role::Leading(leader) if leader.is_idle() => IDLE,
            Role::Leading(leader) => leader.interval(),
            Role::Seeking | Role::Following { .. } => INTERVAL,
        }
    }
}

/// Answers the leader and does what it says.
fn follow(leader: &mut Lines, heard: &mut Instant, at: Instant, sockets: &mut dyn Holder) -> io::Result<()> {
    for message in leader.receive()? {
        *heard = at;
        match message {
            FromLeader::Read { tick } => {
                let readings = readings(sockets, at, tick)?;
                leader.send(&ToLeader::Readings(readings))?;
            }
            FromLeader::Hold(commands) => {
                let orders: Vec<_> = commands.iter().map(Command::order).collect();
                sockets.apply(&orders)?;
            }
            FromLeader::Status(_) => {}
        }
    }
    Ok(())
}

/// Of all connections that have both their ends.
fn readings(sockets: &mut dyn Holder, at: Instant, tick: u64) -> io::Result<Readings> {
    let read: Vec<FlowReading> = sockets.readings(at)?;
    let seen = sockets.seen();
    let with_ends = |reading: &FlowReading| {
        let seen = seen.iter().find(|seen| seen.id == reading.id)?;
        Some(Reading::new(reading, seen))
    };
    Ok(Readings {
        tick,
        flows: read.iter().filter_map(with_ends).collect(),
        out_of_reach: sockets.out_of_reach().into_iter().map(Into::into).collect(),
    })
}
