//! Where packets go that do not leave by `dequeue`, and why: [`Sink`] and [`Reason`]; and where
//! those go that leave in a burst: [`Outlet`].

use crate::packet::Packet;
use crate::units::{Duration, Instant};
use std::fmt;

/// Why a packet was dropped or marked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Reason {
    /// The queue's limit was reached; the arriving packet was refused (tail drop).
    Full,
    /// The queue's limit was reached; the oldest packet made room (drop from the head).
    Head,
    /// The shared limit was reached; the longest queue dropped its oldest packet.
    Longest,
    /// Early notification by chance: the queue is longer than its target (RED, PIE, BLUE, DualPI2).
    Early,
    /// The average queue is above its upper threshold (RED).
    Forced,
    /// No class, and no default class, takes the packet.
    NoClass,
    /// The queue was flushed.
    Flushed,
    /// The port could not send it: its interface is down or gone.
    Port,
    /// It was longer than the interface can carry.
    TooLong,
    /// It had been forwarded by other means while the process was stopped.
    Stale,
    /// The queueing delay had been above its target for too long (CoDel).
    Delay,
    /// It exceeded its sender's traffic contract (a meter).
    Policed,
    /// The wire lost it (an emulated link).
    Wire,
    /// The memory for frames was short, and its class occupied its part of it.
    Memory,
}

impl Reason {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 14] = [
        Self::Full,
        Self::Head,
        Self::Longest,
        Self::Early,
        Self::Forced,
        Self::NoClass,
        Self::Flushed,
        Self::Port,
        Self::TooLong,
        Self::Stale,
        Self::Delay,
        Self::Policed,
        Self::Wire,
        Self::Memory,
    ];

    /// The name under which it is counted and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Head => "head",
            Self::Longest => "longest",
            Self::Early => "early",
            Self::Forced => "forced",
            Self::NoClass => "no-class",
            Self::Flushed => "flushed",
            Self::Port => "port",
            Self::TooLong => "too-long",
            Self::Stale => "stale",
            Self::Delay => "delay",
            Self::Policed => "policed",
            Self::Wire => "wire",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Takes packets out of the system, and is told of marks. Every drop, at any moment, comes here.
pub trait Sink {
    /// The packet is dropped, for this reason.
    fn drop(&mut self, packet: Packet, why: Reason);
    /// The packet was marked (ECN) and stays queued.
    fn mark(&mut self, _packet: &Packet, _why: Reason) {}
    /// Whether what is flushed into it goes on from here, and so counts as sent and not as dropped.
    fn hands_over(&self) -> bool {
        false
    }
    /// How much of the delay of a packet that arrived then, and leaves now, its host held it up
    /// for.
    fn held_up(&self, _arrived: Instant, _now: Instant) -> Duration {
        Duration::ZERO
    }
}

/// Takes the packets of a burst, one after the other; and those that are dropped meanwhile.
pub trait Outlet: Sink {
    /// The packet leaves. Whether another may follow it now; if not, it is not called again.
    fn send(&mut self, packet: Packet) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::ClassId;
    use crate::units::Bytes;

    /// Takes drops alone.
    struct Plainest;

    impl Sink for Plainest {
        fn drop(&mut self, _packet: Packet, _why: Reason) {}
    }

    #[test]
    fn a_plain_sink_hands_nothing_over_and_held_nothing_up() {
        let late = Instant::from_nanos(9);
        assert!(!Plainest.hands_over());
        assert_eq!(Plainest.held_up(Instant::START, late), Duration::ZERO);
        Plainest.mark(&Packet::new(Bytes::new(1), late, ClassId(0)), Reason::Delay);
    }

    #[test]
    fn every_reason_has_the_place_of_its_number_and_a_name_of_its_own() {
        let mut names: Vec<&str> = Reason::ALL.iter().map(|why| why.name()).collect();
        for (place, why) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
            assert_eq!(why.to_string(), names[place]);
        }
        assert_eq!(names[5], "no-class");
        assert_eq!(format!("{:>6}|", Reason::Full), "  full|");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 14);
    }
}
