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
