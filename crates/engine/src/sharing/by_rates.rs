//! Reservations as classes with their rate, for kinds whose classes are guaranteed one (`cbq`, and
//! `hfsc` by real-time curves that are lines).

use crate::link::Link;
use crate::reservation::{PARENT, RequestedShare, ReservableTree, ReservedClass, Reserves, SIGNALLING};
use crate::settings::{Problem, Raw, Table};
use crate::sharing::reserved_classes::{
    self, guaranteed, refuse_oversold, signalling_beside, without_signalling,
};
use crate::spec::{ClassSpec, DisciplineSpec, ParentSpec};
use crate::units::Bandwidth;

/// Reservations as classes with their rate, below one class for all of them.
#[derive(Debug)]
pub(crate) struct ByRates {
    /// The setting that guarantees a leaf its rate.
    pub(crate) leaf: &'static str,
    /// The setting that gives a class with classes below it its part.
    pub(crate) parent: &'static str,
    /// Whether leaves have a priority and a credit, and the classes above them hold their rates;
    /// otherwise the leaves alone hold any.
    pub(crate) credits: bool,
}

/// Bursts in nanobits fit in 63 bits.
pub(crate) const LONGEST_BURST: u64 = 1_000_000_000;
/// The priority of the signalling.
const FIRST: u32 = 7;

impl Reserves for ByRates {
    fn bounds_delays(&self) -> bool {
        true
    }

    fn capacity(&self, requested: &RequestedShare<'_>, problems: &mut Vec<Problem>) -> Bandwidth {
        let top = |class: &&ClassSpec| !self.credits || class.parent.is_none();
        let classes = requested.spec.classes.iter().filter(top);
        let link = requested.link.bandwidth;
        refuse_oversold(requested, guaranteed(classes, self.leaf, link), problems);
        without_signalling(requested.share)
    }

    fn counts(&self, _tree: &ReservableTree, rate: Bandwidth) -> Bandwidth {
        rate
    }

    fn add(&self, tree: &ReservableTree, spec: &mut DisciplineSpec, reservations: &[ReservedClass]) {
        let rated = |rate: Bandwidth| Table::default().with(self.leaf, rate);
        let signalling = signalling_beside(tree.capacity);
        let parent = Some(ParentSpec::from(PARENT));
        let whole = Table::default().with(self.parent, tree.capacity + signalling);
        spec.classes.push(reserved_classes::class(PARENT, whole));
        let first = match self.credits {
            true => rated(signalling).with("priority", FIRST),
            false => rated(signalling),
        };
        spec.classes.push(ClassSpec {
            parent: parent.clone(),
            ..reserved_classes::class(SIGNALLING, first)
        });
        for reserved in reservations {
            let settings = match self.credits {
                true => rated(reserved.rate)
                    .with("priority", reserved.priority)
                    .with("maxburst", Raw::Integer(covering(reserved, tree.link))),
                false => rated(reserved.rate),
            };
            spec.classes.push(ClassSpec {
                parent: parent.clone(),
                ..reserved_classes::leaf(reserved, settings)
            });
        }
    }
}

/// The `maxburst` whose [credit](crate::sharing::credit::Credit::full) covers the burst of a
/// reservation. Of *n* packets all but the last take from it, and while each but the first of these
/// is on the wire, the rate's part of a packet is regained.
fn covering(reserved: &ReservedClass, link: Link) -> i64 {
    let (part, whole) = (
        u128::from(reserved.rate.bits()),
        u128::from(link.bandwidth.bits()),
    );
    let packet = u128::from(link.mtu.get().max(1));
    let burst = u128::from(reserved.sends.burst.get().min(LONGEST_BURST / 2));
    let takes = (packet * whole.saturating_sub(part)).max(1);
    let more = (burst * whole).saturating_sub(packet * part).div_ceil(takes);
    let most = LONGEST_BURST / link.mtu.get().max(1);
    i64::try_from(more + 1)
        .unwrap_or(i64::MAX)
        .clamp(2, most.max(2).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::credit::Credit;
    use crate::sharing::reserved_classes::trials::{capacity, link, reserved, tree};
    use crate::units::Bytes;

    const CREDITED: ByRates = ByRates {
        leaf: "rate",
        parent: "rate",
        credits: true,
    };
    const PLAIN: ByRates = ByRates {
        leaf: "realtime",
        parent: "linkshare",
        credits: false,
    };

    /// What [`Credit::full`] covers of a class of so many packets.
    fn covers(rate: Bandwidth, packets: i64) -> u64 {
        Credit::full(rate, link().bandwidth, Bytes::new(1_500), (packets as u32, 2)).covers()
    }

    #[test]
    fn the_burst_of_a_reservation_is_covered_by_as_few_packets_as_do() {
        let half = Bandwidth::mbit(50);
        let covering = |rate, burst| covering(&reserved(rate, burst), link());
        assert_eq!((covering(half, 6_000), covering(half, 6_001)), (8, 9));
        assert_eq!((covers(half, 8), covers(half, 9)), (6_000, 6_750));
        assert_eq!((covering(half, 0), covering(half, 1_500)), (2, 2));
        assert_eq!(covering(half, 1_501), 3);
        for mbit in [0, 1, 33, 99] {
            let rate = Bandwidth::mbit(mbit);
            for burst in [1_501, 3_000, 3_001, 9_999, 150_000] {
                let packets = covering(rate, burst);
                assert!(covers(rate, packets) >= burst, "{mbit}: {burst}");
                assert!(covers(rate, packets - 1) <= burst, "{mbit}: {burst}");
            }
        }
    }

    #[test]
    fn a_burst_beyond_all_measure_is_cut_and_a_rate_of_the_whole_link_is_no_fault() {
        let covering = |mbit, burst| covering(&reserved(Bandwidth::mbit(mbit), burst), link());
        assert_eq!(covering(0, LONGEST_BURST / 2), 333_335);
        assert_eq!(covering(0, u64::MAX), 333_335);
        assert_eq!(covering(50, u64::MAX), 666_666, "10^9 bytes");
        assert_eq!(covering(100, 100_000), 666_666);
    }

    #[test]
    fn classes_with_others_below_them_hold_their_rates_or_the_leaves_alone_do() {
        let (seventy, fifty) = (Bandwidth::mbit(70), Bandwidth::mbit(50));
        let bit = Bandwidth::bits_per_sec(1);
        let left = Bandwidth::kbit(69_300);
        assert_eq!(capacity(&CREDITED, "rate", seventy), (left, vec![]));
        assert_eq!(capacity(&CREDITED, "rate", seventy + bit).1.len(), 1);
        let left = Bandwidth::kbit(49_500);
        assert_eq!(capacity(&PLAIN, "realtime", fifty), (left, vec![]));
        assert_eq!(capacity(&PLAIN, "realtime", fifty + bit).1.len(), 1);
        let told = &capacity(&CREDITED, "rate", Bandwidth::mbit(80)).1[0];
        assert_eq!(
            told.message,
            "the policy's classes are guaranteed 30 Mbit/s, and 80 Mbit/s can be reserved: more than the link's 100 Mbit/s"
        );
        let help = "70 Mbit/s can be reserved beside the classes; or give them lower rates";
        assert_eq!(told.help.as_deref(), Some(help));
        assert_eq!(told.at, crate::settings::Span::new(3, 4));
    }

    #[test]
    fn reservations_and_the_signalling_are_classes_below_one_for_all_of_them() {
        let tree = tree(Bandwidth::mbit(99));
        let (ten, mbit) = (Bandwidth::mbit(10), Bandwidth::mbit(1));
        for kind in [&CREDITED, &PLAIN] {
            assert!(kind.bounds_delays() && !kind.refuses());
            assert_eq!(kind.counts(&tree, ten), ten);
            let mut spec = DisciplineSpec::new("any");
            kind.add(&tree, &mut spec, &[reserved(ten, 3_000)]);
            let rated = |rate| Table::default().with(kind.leaf, rate);
            let whole = Table::default().with(kind.parent, Bandwidth::mbit(100));
            let (first, own) = match kind.credits {
                true => (
                    rated(mbit).with("priority", 7),
                    rated(ten).with("priority", 5).with("maxburst", Raw::Integer(4)),
                ),
                false => (rated(mbit), rated(ten)),
            };
            let told: Vec<_> = spec
                .classes
                .iter()
                .map(|class| (class.name.as_str(), class.parent_name(), class.settings.clone()))
                .collect();
            assert_eq!(
                told,
                [
                    ("reserved", None, whole),
                    ("rsvp", Some("reserved"), first),
                    ("resv-1", Some("reserved"), own)
                ]
            );
            let inner = spec.classes[2].discipline.as_ref().expect("a limit");
            assert_eq!(inner.settings, Table::default().with("limit", 50));
            assert_eq!(spec.classes[2].sends, Some(reserved(ten, 3_000).sends.into()));
        }
    }
}
