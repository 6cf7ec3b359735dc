//! Reservations as classes with their rate, for a kind whose classes have a rate and a burst
//! (`cbq`).

use crate::reservation::{PARENT, RequestedShare, ReservableTree, ReservedClass, Reserves, SIGNALLING};
use crate::settings::{Problem, Raw, SettingValue, Table};
use crate::sharing::reserved_classes;
use crate::spec::{ClassSpec, DisciplineSpec, ParentSpec};
use crate::units::{Bandwidth, Rate};

/// Reservations as classes with their rate, below one class for all of them.
#[derive(Debug)]
pub(crate) struct ByRates;

/// Bursts in nanobits fit in 63 bits.
pub(crate) const LONGEST_BURST: u64 = 1_000_000_000;
/// The priority of the signalling.
const FIRST: u32 = 7;
/// Of the reservable part of a link, one of so many for the signalling.
const SIGNALLING_PART: u64 = 100;

impl Reserves for ByRates {
    fn is_exact(&self) -> bool {
        true
    }

    fn capacity(&self, requested: &RequestedShare<'_>, problems: &mut Vec<Problem>) -> Bandwidth {
        let RequestedShare {
            spec,
            link,
            share,
            at,
        } = *requested;
        let rate = |class: &ClassSpec| {
            let rate = class
                .settings
                .get("rate")
                .and_then(|entry| Rate::from_raw(&entry.value).ok());
            rate.map_or(Bandwidth::ZERO, |rate| rate.on(link.bandwidth))
        };
        let guaranteed: Bandwidth = spec
            .classes
            .iter()
            .filter(|class| class.parent.is_none())
            .map(rate)
            .sum();
        if guaranteed + share > link.bandwidth {
            let message = format!(
                "the policy's classes are guaranteed {guaranteed}, and {share} can be reserved: more than the link's {}",
                link.bandwidth
            );
            let left = link.bandwidth - guaranteed.min(link.bandwidth);
            problems.push(Problem::new(at, message).help(format!(
                "{left} can be reserved beside the classes; or give them lower rates: what is not used is lent"
            )));
        }
        share - Bandwidth::bits_per_sec(share.bits() / SIGNALLING_PART)
    }

    fn counts(&self, _tree: &ReservableTree, rate: Bandwidth) -> Bandwidth {
        rate
    }

    fn add(&self, tree: &ReservableTree, spec: &mut DisciplineSpec, reservations: &[ReservedClass]) {
        let rated = |rate: Bandwidth| Table::default().with("rate", rate);
        // The capacity is what the share leaves after it.
        let signalling = Bandwidth::bits_per_sec(tree.capacity.bits() / (SIGNALLING_PART - 1));
        let parent = Some(ParentSpec::from(PARENT));
        let whole = rated(tree.capacity + signalling);
        spec.classes.push(reserved_classes::class(PARENT, whole));
        spec.classes.push(ClassSpec {
            parent: parent.clone(),
            ..reserved_classes::class(SIGNALLING, rated(signalling).with("priority", FIRST))
        });
        let packet = tree.link.mtu.get().max(1);
        for reserved in reservations {
            // One packet more than the burst: the last of it may overdraw the credit.
            let burst = (reserved.sends.burst.get().min(LONGEST_BURST / 2).div_ceil(packet) + 1).max(2);
            let settings = rated(reserved.rate)
                .with("priority", reserved.priority)
                .with("maxburst", Raw::Integer(burst.cast_signed()));
            spec.classes.push(ClassSpec {
                parent: parent.clone(),
                ..reserved_classes::leaf(reserved, settings)
            });
        }
    }
}
