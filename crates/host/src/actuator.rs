//! What takes readings from a kernel and puts orders into effect.

use crate::borrowed::ledger::Ledger;
use crate::order::Order;
use crate::reading::{FlowId, FlowReading};
use engine::units::{Bandwidth, Instant};
use std::io;
use std::net::SocketAddr;

/// A way to hold connections: borrowed sockets, or windows rewritten in outgoing acknowledgments.
pub trait Actuator {
    /// The connections of all members that there are, as they are now.
    fn readings(&mut self, now: Instant) -> io::Result<Vec<FlowReading>>;

    /// Puts these orders into effect, and keeps them in effect until the next call: what the kernel undoes by itself is the
    /// actuator's to do again. A connection that has ended since the readings is no error. Orders that change
    /// nothing cost nothing.
    fn apply(&mut self, orders: &[Order]) -> io::Result<()>;

    /// Undoes everything for every connection. Dropping an actuator does the same, as far as it can.
    fn release(&mut self) -> io::Result<()>;
}

/// A socket or a process that is out of reach, and what to say of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OutOfReach {
    /// The process.
    pub pid: i32,
    /// What it is: the protocol and the other end, or the program.
    pub what: String,
    /// Why it is not controlled, and what can be done.
    pub why: String,
    /// The rate that it is held to nevertheless, if it is.
    pub policed: Option<Bandwidth>,
}

/// A connection as people see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) id: FlowId,
    /// Its process; 0 for another host's.
    pub(crate) pid: i32,
    /// The end whose windows are held, and the other one.
    pub(crate) ends: [SocketAddr; 2],
    /// The link's interface, where the first end's address does not tell.
    pub(crate) interface: Option<String>,
}

/// An actuator for the connections of one member, and what it is to be told and can tell of them.
pub(crate) trait Holder: Actuator + std::fmt::Debug {
    /// This thread is about to connect this descriptor. Quick: the thread waits.
    fn connecting(&mut self, _thread: i32, _fd: i32) {}

    /// Looks for what nobody has told of, if it is time; `Some(false)` if there is nobody left to hold.
    fn look(&mut self, at: Instant) -> Option<bool>;

    /// Whether a connection is so young that it must be looked at between ticks.
    fn has_young(&self, _at: Instant) -> bool {
        false
    }

    /// Does again, for young connections, what the kernel has undone.
    fn assert_young(&mut self, _at: Instant) {}

    /// The connections, for people.
    fn seen(&self) -> Vec<Seen>;

    /// What is out of reach.
    fn out_of_reach(&self) -> Vec<OutOfReach>;

    /// What is to be undone on sockets by others when this process dies.
    fn ledger(&self) -> &Ledger;
}
