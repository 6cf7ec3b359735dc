//! Reservations as paced classes, for a kind whose classes never exceed their rate (`pacer`).
//!
//! A paced class gets its reserved rate and not more, at even distances, so a flow that keeps to
//! its reservation stays as even as the wire permits. Rates are counted here as the pacer's `basis`
//! counts them, for the shortest packets of the flow.

use crate::disciplines::drr::keep_signalling_apart;
use crate::disciplines::pacer;
use crate::reservation::{RequestedShare, ReservableTree, ReservedClass, Reserves};
use crate::settings::{Problem, Table};
use crate::sharing::reserved_classes::{guaranteed, leaf, refuse_oversold};
use crate::spec::DisciplineSpec;
use crate::units::{Bandwidth, Bytes};

/// Reservations as paced classes at the top.
#[derive(Debug)]
pub(crate) struct ByPace;

impl Reserves for ByPace {
    fn bounds_delays(&self) -> bool {
        false
    }

    /// Framing takes a part of the wire that depends on the lengths of packets.
    fn refuses(&self) -> bool {
        true
    }

    fn capacity(&self, requested: &RequestedShare<'_>, problems: &mut Vec<Problem>) -> Bandwidth {
        let classes = requested
            .spec
            .classes
            .iter()
            .filter(|class| class.parent.is_none());
        let link = requested.link.bandwidth;
        refuse_oversold(requested, guaranteed(classes, "rate", link), problems);
        requested.share
    }

    fn counts(&self, _tree: &ReservableTree, rate: Bandwidth) -> Bandwidth {
        rate
    }

    fn add(&self, tree: &ReservableTree, spec: &mut DisciplineSpec, reservations: &[ReservedClass]) {
        keep_signalling_apart(spec);
        for reserved in reservations {
            let least = reserved.least.min(tree.link.mtu).max(Bytes::new(1));
            let counted = pacer::counted(&spec.settings, tree.link, least);
            let bits = u128::from(reserved.rate.bits()) * u128::from(counted.get());
            let bits = bits.div_ceil(u128::from(least.get()));
            let rate = Bandwidth::bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX));
            let settings = Table::default().with("rate", rate).with("packet", least);
            spec.classes.push(leaf(reserved, settings));
        }
    }
}
