//! How a kind of discipline gives classes to reservations.
//!
//! The contract, and the types that it is about; [`reserved`](crate::reserved) lays out a policy's
//! tree with it.

use crate::bounds::ArrivalCurve;
use crate::classify::Filter;
use crate::link::Link;
use crate::settings::{Problem, Span};
use crate::spec::DisciplineSpec;
use crate::units::{Bandwidth, Bytes, Duration};
use std::fmt;

/// The class of the signalling's own messages, by the name of its protocol.
pub const SIGNALLING: &str = "rsvp";
/// With `cbq` and `hfsc`: the parent class of all reservations.
pub const PARENT: &str = "reserved";
/// The names of reservations' classes begin with it.
pub const PREFIX: &str = "resv-";

/// The class of a reservation.
#[derive(Clone, PartialEq, Debug)]
pub struct ReservedClass {
    /// The reservation's number, which becomes the class's name: see [`ReservedClass::name`].
    pub number: u64,
    /// Its guaranteed rate, as the kind [counts](Reserves::counts) it.
    pub rate: Bandwidth,
    /// The arrival curve of its senders, as they arrive here.
    pub sends: ArrivalCurve,
    /// The shortest packets that it sends many of.
    pub least: Bytes,
    /// What it may wait here beyond its own rate, D of RFC 2212; none if no delay is guaranteed.
    pub latency: Option<Duration>,
    /// Limit of its queue, in packets.
    pub limit: u32,
    /// Its priority under `cbq`, from 0 to 6; 7 is the signalling's.
    pub priority: u32,
    /// Its filters; the class that they name is ignored.
    pub filters: Vec<Filter>,
}

impl ReservedClass {
    /// Its name.
    pub fn name(&self) -> String {
        class_name(self.number)
    }

    /// The guaranteed delay of its packets: D and the time that its burst takes at its rate (RFC
    /// 2212, section 2). None if none is guaranteed, or it does not fit.
    pub fn delay(&self) -> Option<Duration> {
        let bits = u128::from(self.rate.bits());
        let burst = (u128::from(self.sends.burst.get()) * NANOBITS).checked_div(bits)?;
        Some(self.latency? + Duration::from_nanos(u64::try_from(burst).ok()?))
    }
}

/// Nanobits of a byte.
const NANOBITS: u128 = 8_000_000_000;

/// The name of the class of the reservation of this number.
pub fn class_name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// How a kind of discipline gives classes to reservations. A kind states it in its
/// [`properties`](crate::kind::Properties::reserves).
pub trait Reserves: fmt::Debug + Sync {
    /// Whether a class has a bound, so that a delay can be guaranteed.
    fn bounds_delays(&self) -> bool;

    /// Whether the tree itself refuses what does not fit: requests are tried in it, those without a
    /// guaranteed delay too. The default: what is within the capacity fits.
    fn refuses(&self) -> bool {
        false
    }

    /// The sum of all reservations that the tree admits, as it [counts](Self::counts) them; reports
    /// what the tree cannot give.
    fn capacity(&self, requested: &RequestedShare<'_>, problems: &mut Vec<Problem>) -> Bandwidth;

    /// What a reservation of this rate takes of the capacity: never less than the rate, to a bit
    /// per second.
    fn counts(&self, tree: &ReservableTree, rate: Bandwidth) -> Bandwidth;

    /// Adds the classes of these reservations to a copy of the policy's tree.
    fn add(&self, tree: &ReservableTree, spec: &mut DisciplineSpec, reservations: &[ReservedClass]);

    /// The worst delay of a packet that finds its own class empty, whatever other reservations are
    /// admitted. The default: none is known.
    fn worst_delay(&self, _tree: &ReservableTree) -> Option<Duration> {
        None
    }
}

/// The part of a link that a policy sets aside for reservations.
#[derive(Clone, Copy, Debug)]
pub struct RequestedShare<'a> {
    /// The policy's tree.
    pub spec: &'a DisciplineSpec,
    /// The link.
    pub link: Link,
    /// The part.
    pub share: Bandwidth,
    /// Where the policy states it.
    pub at: Span,
}

/// A policy's tree, and what of its link can be reserved.
#[derive(Clone, Debug)]
pub struct ReservableTree {
    /// The policy's tree.
    pub spec: DisciplineSpec,
    /// The link.
    pub link: Link,
    /// The sum of all reservations at most, as the kind counts them.
    pub capacity: Bandwidth,
    /// What a reservation counts as at least.
    pub smallest: Bandwidth,
    /// The largest reservation.
    pub largest: Bandwidth,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(bits: u64, burst: u64, latency: Option<u64>) -> ReservedClass {
        let rate = Bandwidth::bits_per_sec(bits);
        ReservedClass {
            number: 12,
            rate,
            sends: ArrivalCurve {
                rate,
                burst: Bytes::new(burst),
            },
            least: Bytes::new(64),
            latency: latency.map(Duration::from_nanos),
            limit: 5,
            priority: 0,
            filters: Vec::new(),
        }
    }

    #[test]
    fn the_guaranteed_delay_is_the_latency_and_what_the_burst_takes_at_the_rate() {
        let delay = |bits, burst, latency| {
            let delay = reserved(bits, burst, latency).delay();
            delay.map(Duration::nanos)
        };
        assert_eq!(delay(1_000_000, 1_000, Some(5)), Some(8_000_005));
        assert_eq!(delay(3, 1, Some(0)), Some(2_666_666_666));
        assert_eq!(delay(1_000_000, 1_000, None), None);
        assert_eq!(delay(0, 1_000, Some(5)), None);
        assert_eq!(delay(1, u64::MAX, Some(5)), None, "it does not fit");
        assert_eq!(reserved(1, 1, None).name(), "resv-12");
    }

    /// A kind that says only what it must.
    #[derive(Debug)]
    struct Terse;

    impl Reserves for Terse {
        fn bounds_delays(&self) -> bool {
            false
        }
        fn capacity(&self, requested: &RequestedShare<'_>, _: &mut Vec<Problem>) -> Bandwidth {
            requested.share
        }
        fn counts(&self, _: &ReservableTree, rate: Bandwidth) -> Bandwidth {
            rate
        }
        fn add(&self, _: &ReservableTree, _: &mut DisciplineSpec, _: &[ReservedClass]) {}
    }

    #[test]
    fn a_kind_that_says_nothing_of_it_refuses_nothing_and_knows_no_delay() {
        let tree = ReservableTree {
            spec: DisciplineSpec::new("terse"),
            link: Link::new(Bandwidth::mbit(1), Bytes::new(1_500)),
            capacity: Bandwidth::ZERO,
            smallest: Bandwidth::ZERO,
            largest: Bandwidth::ZERO,
        };
        assert_eq!((Terse.refuses(), Terse.worst_delay(&tree)), (false, None));
    }
}
