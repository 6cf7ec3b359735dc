//! Deficits that are carried across a change of the tree.
//!
//! A new tree that replaces a running one must not let a class send early: what the class had sent
//! ahead of its rate in the former tree is handed to its successor, which waits for it. Nor must a
//! class lose a packet with each change: a lateness of up to one packet is handed over, too. Both
//! are bytes, as the rate may be another from then on.

use crate::packet::ClassId;
use crate::units::Instant;

/// What a class has sent ahead of its rate, or is late by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deficit {
    /// The class.
    pub class: ClassId,
    /// Bytes as its rate counts them, rounded up.
    pub bytes: u64,
    /// Bytes that it could have sent by now and has in its backlog, rounded down; at most one
    /// packet. At least one of the two is 0.
    pub late: u64,
}

/// A discipline whose classes keep their deficits when another tree takes its place.
pub trait CarryOver {
    /// The deficits and the lateness at `now`; classes with neither are left out.
    fn deficits(&mut self, now: Instant) -> Vec<Deficit>;

    /// Starts the classes of a new tree with these deficits: none sends before it would have in the
    /// former tree. A late class keeps its lateness if its backlog arrives at this `now`, or is
    /// [handed on](crate::packet::Packet::handed_on) by the former tree then or later.
    fn start_with(&mut self, now: Instant, deficits: &[Deficit]);
}
