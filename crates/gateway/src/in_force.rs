//! What is in force on each managed interface: the current policy, and the reservations added to
//! it.
//!
//! A change is always a whole checked tree. The worker adopts it while packets flow; the backlog
//! moves into the classes of the same names.

use crate::direction::{by_filters, secret_seed};
use crate::signalling::trees::Trees;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use engine::reserved::ReservedLayout;
use engine::tree::Registry;
use engine::units::Bandwidth;
use netio::handle::{Adopted, ClassAdopted, ClassRetune, Handle, Retune, Unanswered};
use netio::worker::PathId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A managed interface.
#[derive(Clone, Debug)]
pub struct InterfaceInForce {
    /// The worker's path.
    pub path: PathId,
    /// The policy, with all changes since the start.
    pub policy: InterfacePolicy,
    /// The same plus the reservations: what the worker runs.
    pub whole: Arc<InterfacePolicy>,
}

/// All managed interfaces.
#[derive(Debug)]
pub struct InForce {
    handle: Handle,
    registry: Registry,
    managed: Mutex<Vec<InterfaceInForce>>,
}

impl InForce {
    /// These interfaces, with the worker's path of each; changes are checked with these kinds.
    pub fn new(
        handle: Handle,
        registry: Registry,
        managed: impl IntoIterator<Item = (PathId, InterfacePolicy)>,
    ) -> Self {
        let managed = managed.into_iter().map(|(path, policy)| InterfaceInForce {
            path,
            whole: Arc::new(policy.clone()),
            policy,
        });
        Self {
            handle,
            registry,
            managed: Mutex::new(managed.collect()),
        }
    }

    /// The kinds that policies may name.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    fn lock(&self) -> MutexGuard<'_, Vec<InterfaceInForce>> {
        self.managed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current state.
    pub fn all(&self) -> Vec<InterfaceInForce> {
        self.lock().clone()
    }

    /// Makes the worker run `whole` on the interface of this policy.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface is no longer managed, or the worker does not respond.
    pub fn put(&self, policy: InterfacePolicy, whole: InterfacePolicy) -> Result<Adopted, Refusal> {
        // The lock is held until the worker has replied, so that two changes cannot overtake each
        // other.
        let mut all = self.lock();
        let gone = || Refusal::new(format!("{} is no longer managed", policy.name));
        let managed = all
            .iter_mut()
            .find(|managed| managed.policy.name == policy.name)
            .ok_or_else(gone)?;
        let retune = Retune {
            plan: whole.plan.clone(),
            seed: secret_seed(),
            // The classes may have new numbers now.
            classify: (!managed.whole.plan.has_classes_of(&whole.plan)
                || !Arc::ptr_eq(&managed.whole.filters, &whole.filters)
                    && managed.whole.filters != whole.filters)
                .then(|| by_filters(&whole)),
            bandwidth: Some(whole.link().bandwidth)
                .filter(|bandwidth| *bandwidth != managed.whole.link().bandwidth),
            guarantees: whole.guarantees(),
        };
        let adopted = self.handle.retune(managed.path, retune).map_err(refused)?;
        (managed.policy, managed.whole) = (policy, Arc::new(whole));
        netio::heap::give_back();
        Ok(adopted)
    }

    /// Makes the worker run a policy that was changed in the settings of this class alone, on an
    /// interface without reservations.
    ///
    /// # Errors
    ///
    /// As [`InForce::put`].
    pub fn put_class(&self, changed: InterfacePolicy, class: &str) -> Result<Adopted, Refusal> {
        if !self.adopts_class(&changed, class)? {
            return self.put(changed.clone(), changed);
        }
        Ok(Adopted::InPlace)
    }

    /// Whether the worker has adopted the class by itself.
    fn adopts_class(&self, changed: &InterfacePolicy, class: &str) -> Result<bool, Refusal> {
        let mut all = self.lock();
        let managed = all.iter_mut().find(|managed| managed.policy.name == changed.name);
        let Some((managed, class)) = managed.zip(changed.plan.class(class)) else {
            return Ok(false);
        };
        let before = &managed.whole;
        if !before.plan.is_amended_by(&changed.plan) {
            return Ok(false);
        }
        let retune = ClassRetune {
            plan: changed.plan.clone(),
            class,
            guarantee: changed.guarantee(class).unwrap_or(Bandwidth::ZERO),
        };
        let adopted = self.handle.retune_class(managed.path, retune).map_err(refused)?;
        if adopted == ClassAdopted::WholeOnly {
            return Ok(false);
        }
        (managed.policy, managed.whole) = (changed.clone(), Arc::new(changed.clone()));
        Ok(true)
    }
}

impl Trees for Arc<InForce> {
    fn managed(&self) -> Vec<InterfacePolicy> {
        self.lock().iter().map(|managed| managed.policy.clone()).collect()
    }

    fn adopt(&self, policy: &InterfacePolicy, layout: ReservedLayout) -> Result<(), Refusal> {
        self.put(policy.clone(), policy.with_reservations(layout))
            .map(drop)
    }
}

/// The refusal if the worker does not execute a command.
pub fn refused(why: Unanswered) -> Refusal {
    Refusal::new(why.to_string())
}
