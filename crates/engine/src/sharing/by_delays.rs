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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::reserved_classes::trials::{capacity, reserved, tree};
    use crate::units::Bytes;

    #[test]
    fn the_rates_of_all_classes_are_guaranteed_beside_the_share() {
        assert!(ByDelays.bounds_delays() && ByDelays.refuses());
        let fifty = Bandwidth::mbit(50);
        assert_eq!(
            capacity(&ByDelays, "rate", fifty),
            (Bandwidth::kbit(49_500), vec![])
        );
        let more = fifty + Bandwidth::bits_per_sec(1);
        assert_eq!(capacity(&ByDelays, "rate", more).1.len(), 1);
        assert_eq!(ByDelays.counts(&tree(fifty), more), more);
    }

    #[test]
    fn a_reservation_is_a_class_with_its_delay_or_the_longest() {
        let (tree, ten) = (tree(Bandwidth::mbit(99)), Bandwidth::mbit(10));
        let quick = ReservedClass {
            number: 2,
            latency: Some(Duration::from_millis(1)),
            ..reserved(ten, 10_000)
        };
        let mut spec = DisciplineSpec::new("any");
        ByDelays.add(&tree, &mut spec, &[reserved(ten, 100), quick]);
        let told: Vec<_> = spec
            .classes
            .iter()
            .map(|class| (class.name.as_str(), class.settings.clone()))
            .collect();
        let settings = |rate: Bandwidth, burst, millis| {
            let settings = Table::default()
                .with("rate", rate)
                .with("burst", Bytes::new(burst));
            settings.with("delay", Duration::from_millis(millis))
        };
        assert_eq!(
            told,
            [
                ("rsvp", settings(Bandwidth::mbit(1), 6_000, 1_000)),
                ("resv-1", settings(ten, 1_500, 10_000)),
                // 10,000 bytes take 8 ms.
                ("resv-2", settings(ten, 10_000, 9)),
            ]
        );
    }
}
