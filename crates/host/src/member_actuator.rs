//! The actuator of one member's connections: it also finds them, and tells which it cannot control.

use crate::actuator::Actuator;
use crate::tick::ConnectionId;
use engine::units::{Bandwidth, Instant};
use std::net::SocketAddr;

/// A socket or a process that cannot be controlled.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Uncontrolled {
    /// The process.
    pub pid: i32,
    /// The protocol and remote end, or the program.
    pub what: String,
    /// Why, and what to do about it.
    pub why: String,
    /// The rate at which it is policed, if it is.
    pub policed: Option<Bandwidth>,
}

/// A connection as the status shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionInfo {
    pub(crate) id: ConnectionId,
    /// Its process; 0 for another host's connection.
    pub(crate) pid: i32,
    /// The end whose windows are clamped, and the other one.
    pub(crate) ends: [SocketAddr; 2],
    /// The link's interface, where the first end's address does not determine it.
    pub(crate) interface: Option<String>,
}

/// The result of a scan for connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scan {
    /// It was not due.
    NotDue,
    /// There are processes to control.
    Processes,
    /// No process is left.
    Nobody,
}

/// An actuator for the connections of one member.
pub(crate) trait MemberActuator: Actuator + std::fmt::Debug {
    /// This thread is about to connect this descriptor. Must be quick: the thread waits. As long as
    /// `waits` says so, its number is not another's.
    fn connecting(&mut self, _thread: i32, _fd: i32, _waits: &dyn Fn() -> bool) {}

    /// Scans for connections that no notification has reported, if a scan is due.
    fn scan(&mut self, at: Instant) -> Scan;

    /// Whether a connection is so new that its clamp must be checked between ticks.
    fn has_new(&self, _at: Instant) -> bool {
        false
    }

    /// Whether a connection is about to be established, which no sample shows yet.
    fn is_opening(&self, _at: Instant) -> bool {
        false
    }

    /// Reasserts the clamps of new connections where the kernel has undone them.
    fn reassert_new(&mut self, _at: Instant) {}

    /// The connections, for the status.
    fn connections(&self) -> Vec<ConnectionInfo>;

    /// What it cannot control.
    fn uncontrolled(&self) -> Vec<Uncontrolled>;
}
