//! How a reservation becomes a class: the budget of a managed interface, and the installer of its
//! tree.

use control::begins_anew::ClassesAnew;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use engine::reserved::ReservedLayout;
use rsvp::admission::{InterfaceBudget, ManagedInterface};

/// Installs class trees where packets are queued.
pub trait Trees: Send {
    /// The managed interfaces, by the policy in force.
    fn managed(&self) -> Vec<InterfacePolicy>;
    /// Installs this tree on the interface of this policy. The classes that begin anew.
    ///
    /// # Errors
    ///
    /// Only if packets are no longer forwarded.
    fn adopt(&self, policy: &InterfacePolicy, layout: ReservedLayout) -> Result<Vec<ClassesAnew>, Refusal>;
}

/// No trees: a host that sends through the kernel's own queues.
#[derive(Clone, Copy, Debug)]
pub struct NoTrees;

impl Trees for NoTrees {
    fn managed(&self) -> Vec<InterfacePolicy> {
        Vec::new()
    }

    fn adopt(&self, policy: &InterfacePolicy, _layout: ReservedLayout) -> Result<Vec<ClassesAnew>, Refusal> {
        Err(Refusal::new(format!("{} is not managed", policy.name)))
    }
}

/// The budget of an interface, if its policy has `reserve`.
pub fn budget(policy: &InterfacePolicy) -> Option<InterfaceBudget> {
    let reserve = policy.reserve.as_ref()?;
    let managed = ManagedInterface::new(
        reserve.room.clone(),
        &reserve.settings,
        policy.plan.clone(),
        policy.filters.to_vec(),
        policy.settings.max_frame,
    );
    Some(InterfaceBudget::Managed(Box::new(managed)))
}
