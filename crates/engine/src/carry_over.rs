//! Deficits that are carried across a change of the tree.
//!
//! A new tree that replaces a running one must not let a class send early: what the class had sent
//! ahead of its rate in the former tree is handed to its successor, which waits for it.

use crate::packet::ClassId;
use crate::units::Instant;

/// What a class has sent ahead of its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deficit {
    /// The class.
    pub class: ClassId,
    /// Bytes as its rate counts them, rounded up.
    pub bytes: u64,
}

/// A discipline whose classes keep their deficits when another tree takes its place.
pub trait CarryOver {
    /// The deficits at `now`; classes without one are left out.
    fn deficits(&mut self, now: Instant) -> Vec<Deficit>;

    /// Starts the classes of a new tree with these deficits: none sends before it would have in the
    /// former tree.
    fn start_with(&mut self, now: Instant, deficits: &[Deficit]);
}
