//! How a reservation becomes a class: the budget of a managed interface, and the installer of its
//! tree.

use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use engine::reserved::ReservedLayout;
use engine::units::Bytes;
use rsvp::admission::{InterfaceBudget, ManagedInterface};

/// Installs class trees where packets are queued.
pub trait Trees: Send {
    /// The managed interfaces, by the policy in force.
    fn managed(&self) -> Vec<InterfacePolicy>;
    /// Installs this tree on the interface of this policy.
    ///
    /// # Errors
    ///
    /// Only if packets are no longer forwarded.
    fn adopt(&self, policy: &InterfacePolicy, layout: ReservedLayout) -> Result<(), Refusal>;
}

/// No trees: a host that sends through the kernel's own queues.
#[derive(Clone, Copy, Debug)]
pub struct NoTrees;

impl Trees for NoTrees {
    fn managed(&self) -> Vec<InterfacePolicy> {
        Vec::new()
    }

    fn adopt(&self, policy: &InterfacePolicy, _layout: ReservedLayout) -> Result<(), Refusal> {
        Err(Refusal::new(format!("{} is not managed", policy.name)))
    }
}

/// The Ethernet header, which the tree counts in each frame.
const ETHERNET: Bytes = Bytes::new(14);

/// The budget of an interface, if its policy has `reserve`.
pub fn budget(policy: &InterfacePolicy) -> Option<InterfaceBudget> {
    let reserve = policy.reserve.as_ref()?;
    let settings = &policy.settings;
    let delay = reserve.settings.delay.or_else(|| reserve.room.worst_delay());
    let mtu = settings.max_frame.get().saturating_sub(ETHERNET.get());
    Some(InterfaceBudget::Managed(Box::new(ManagedInterface {
        room: reserve.room.clone(),
        plan: policy.plan.clone(),
        filters: policy.filters.to_vec(),
        headers: policy.link().overhead + ETHERNET,
        mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
        delay: delay.filter(|_| reserve.room.is_exact()),
    })))
}
