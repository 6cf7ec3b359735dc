//! Reservations as classes with a rate, a burst and a delay, for a kind that admits such classes
//! itself (`ips`).
//!
//! Departs from Kusaka and Sugano in who asks: there a flow states the delay that it needs, here it
//! follows from the reserved rate (RFC 2212). A reservation without a guaranteed delay is policed
//! to its rate and goes after all that have one.

use crate::reservation::{RequestedShare, ReservableTree, ReservedClass, Reserves, SIGNALLING};
use crate::settings::{Problem, Table};
use crate::sharing::reserved_classes::{
    class, guaranteed, refuse_oversold, signalling_beside, without_signalling,
};
use crate::spec::DisciplineSpec;
use crate::units::{Bandwidth, Duration};

/// Reservations as flows that ask for a delay.
#[derive(Debug)]
pub(crate) struct ByDelays;

/// The burst of the signalling, in packets.
const SIGNALLING_BURST: u64 = 4;
/// The delay of the signalling: much less than the time between refreshes.
const SIGNALLING_DELAY: Duration = Duration::from_millis(1_000);
/// The delay of what asks for a rate alone: longer than any that is asked for.
const RATE_ALONE: Duration = Duration::from_millis(10_000);

impl Reserves for ByDelays {
    fn bounds_delays(&self) -> bool {
        true
    }

    fn refuses(&self) -> bool {
        true
    }

    fn capacity(&self, requested: &RequestedShare<'_>, problems: &mut Vec<Problem>) -> Bandwidth {
        let classes = requested.spec.classes.iter();
        let link = requested.link.bandwidth;
        refuse_oversold(requested, guaranteed(classes, "rate", link), problems);
        without_signalling(requested.share)
    }

    fn counts(&self, _tree: &ReservableTree, rate: Bandwidth) -> Bandwidth {
        rate
    }

    fn add(&self, tree: &ReservableTree, spec: &mut DisciplineSpec, reservations: &[ReservedClass]) {
        let packet = tree.link.mtu;
        let signalling = signalling_beside(tree.capacity);
        let flow = |name: &str, rate: Bandwidth, burst, delay: Duration| {
            let settings = Table::default().with("rate", rate).with("burst", burst);
            class(name, settings.with("delay", delay))
        };
        let burst = packet.times(SIGNALLING_BURST);
        spec.classes
            .push(flow(SIGNALLING, signalling, burst, SIGNALLING_DELAY));
        for reserved in reservations {
            let delay = reserved.delay().unwrap_or(RATE_ALONE);
            let burst = reserved.sends.burst.max(packet);
            spec.classes
                .push(flow(&reserved.name(), reserved.rate, burst, delay));
        }
    }
}
