//! What another policy of an interface would do to the reservations that are in force on it;
//! without side effects. They are judged by what they were promised when they were admitted.

use super::{AdmissionState, InterfaceBudget, ManagedInterface, Reservation};
use crate::traffic_control::{InterfaceId, RHandle};
use engine::reservation::ReservedClass;
use engine::reserved::ReservedLayout;
use engine::settings::Problem;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Duration};

/// The reservations of an interface in the tree of another policy.
#[derive(Debug)]
pub struct Tried {
    /// The tree with all reservations in it, or why it refuses them.
    pub layout: Result<ReservedLayout, Vec<Problem>>,
    /// Those that lose what they were promised.
    pub broken: Vec<(RHandle, BrokenPromise)>,
    /// What they take in all and what may be reserved, where that is less.
    pub over: Option<(Bandwidth, Bandwidth)>,
}

/// What a reservation loses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrokenPromise {
    /// The guaranteed delay; this was promised, and this is the new bound, if there is one.
    Delay {
        /// What was promised.
        promised: Duration,
        /// The bound.
        bound: Option<Duration>,
    },
    /// Its longest datagrams, of so many bytes, are longer than those that the interface takes.
    Datagrams(u32),
}

impl AdmissionState {
    /// What becomes of the reservations of an interface under this budget; none if it does not
    /// queue.
    pub fn tried(&self, interface: InterfaceId, new: &InterfaceBudget) -> Option<Tried> {
        let (InterfaceBudget::Managed(new), Some(InterfaceBudget::Managed(old))) =
            (new, self.budgets.get(&interface))
        else {
            return None;
        };
        let list: Vec<ReservedClass> = self
            .on(interface)
            .map(|(rhandle, reservation)| new.reserved(rhandle, reservation))
            .collect();
        let layout = new.lay_out(&list);
        let plan = layout.as_ref().ok().map(|layout| &layout.plan);
        let broken = self.on(interface).filter_map(|(rhandle, reservation)| {
            Some((rhandle, broken(rhandle, reservation, old, new, plan)?))
        });
        let broken = broken.collect();
        let taken: Bandwidth = self.on(interface).map(|(_, one)| one.link_rate).sum();
        let capacity = new.room.capacity();
        Some(Tried {
            broken,
            over: (taken > capacity).then_some((taken, capacity)),
            layout,
        })
    }
}

fn broken(
    rhandle: RHandle,
    reservation: &Reservation,
    old: &ManagedInterface,
    new: &ManagedInterface,
    plan: Option<&TreePlan>,
) -> Option<BrokenPromise> {
    let longest = reservation.request.flowspec.bucket().maximum;
    if longest > new.mtu {
        return Some(BrokenPromise::Datagrams(longest));
    }
    let was = old.reserved(rhandle, reservation);
    // No delay was promised, or nothing is known of a tree that does not exist.
    let (promised, plan) = was.delay().zip(plan)?;
    let class = plan.class(&was.name());
    let mut cases = plan.bounds().into_iter();
    let case = cases.find(|case| case.class == class);
    let bound = case.and_then(|case| case.bound.ok()).map(|bound| bound.delay);
    // Without a D of its own, a tree keeps no class of it from being delayed by the next request.
    let kept = new.delay.is_some() && bound.is_some_and(|bound| bound <= promised);
    (!kept).then_some(BrokenPromise::Delay { promised, bound })
}
