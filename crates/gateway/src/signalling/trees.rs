//! How a promise becomes a class: the accounts of managed interfaces, and who puts a tree into force.

use control::policy::Interface;
use control::protocol::Refusal;
use engine::reserved::Layout;
use engine::units::Bytes;
use rsvp::admission::{InterfaceBudget, ManagedInterface};

/// Puts trees into force where packets are queued.
pub trait Trees: Send {
    /// The interfaces that are managed, as the policy says now.
    fn managed(&self) -> Vec<Interface>;
    /// From now on this tree holds on the interface of this policy. It refuses only when packets are no longer moved.
    fn adopt(&self, policy: &Interface, layout: Layout) -> Result<(), Refusal>;
}

/// Nothing is queued: a host that sends by the kernel's own queues.
#[derive(Clone, Copy, Debug)]
pub struct NoTrees;

impl Trees for NoTrees {
    fn managed(&self) -> Vec<Interface> {
        Vec::new()
    }

    fn adopt(&self, policy: &Interface, _layout: Layout) -> Result<(), Refusal> {
        Err(Refusal::new(format!("{} is not managed", policy.name)))
    }
}

/// What the tree counts of a frame that is not IP.
const ETHERNET: Bytes = Bytes::new(14);

/// The account of an interface, if anything of it may be reserved.
pub fn budget(policy: &Interface) -> Option<InterfaceBudget> {
    let reserve = policy.reserve.as_ref()?;
    let settings = &policy.settings;
    let delay = reserve.settings.delay.or_else(|| reserve.room.worst_delay());
    let mtu = settings.max_frame.get().saturating_sub(ETHERNET.get());
    Some(InterfaceBudget::Managed(Box::new(ManagedInterface {
        room: reserve.room.clone(),
        plan: policy.plan.clone(),
        filters: policy.filters.clone(),
        headers: policy.link().overhead + ETHERNET,
        mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
        delay: delay.filter(|_| reserve.room.is_exact()),
    })))
}
