//! The policies at the ends of a lab's links, in force as `suimon run` has them: settings change
//! while packets flow, reservations make classes, downloads yield, and rates follow a line that
//! varies. What differs from a router is the wire behind the queue, which the lab emulates.

use crate::topology::Topology;
use control::begins_anew::ClassesAnew;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use engine::reserved::ReservedLayout;
use engine::tree::Registry;
use gateway::autorate;
use gateway::in_force::InForce;
use gateway::signalling::trees::Trees;
use gateway::yielding;
use lab::{Host, Lab};
use netio::beside::ThreadBeside;
use netio::handle::Handle;
use netio::worker::PathId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A direction of a link: the number of the link, and its sending end (0 or 1).
pub type LinkDirection = (usize, usize);

/// The policies of a running lab.
#[derive(Debug, Default)]
pub struct LabPolicies {
    in_force: BTreeMap<LinkDirection, Arc<InForce>>,
    /// The threads of classes that yield, with the policies that have these classes.
    yields: Mutex<BTreeMap<LinkDirection, (InterfacePolicy, ThreadBeside)>>,
    /// The threads that follow lines.
    follow: Vec<ThreadBeside>,
}

impl LabPolicies {
    /// The policies of this topology, each named by the interface at its sending end.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread of classes that yield, or one that follows a line, cannot be
    /// started.
    pub(crate) fn start(
        lab: &Lab,
        hosts: &[&Host],
        topology: &Topology,
        registry: &Registry,
        interface: impl Fn(LinkDirection) -> String,
    ) -> std::io::Result<Self> {
        let emulated = |link: &&_| topology.is_emulated(link);
        let numbered = (0..).zip(&topology.links);
        let mut policies = Self::default();
        for ((number, link), emulator) in numbered.filter(|(_, link)| emulated(link)).zip(lab.links()) {
            for (side, policy) in link.policies.iter().enumerate() {
                let Some(policy) = policy else { continue };
                let policy = InterfacePolicy {
                    name: interface((number, side)),
                    ..policy.clone()
                };
                policies.yields_from(&emulator.handle(), (number, side), &policy)?;
                let host = hosts[link.between[side]];
                let prober = host
                    .call(|| autorate::open_here(PathId(side), &policy))
                    .map_err(std::io::Error::other)??;
                let in_force = InForce::new(emulator.handle(), registry.clone(), [(PathId(side), policy)]);
                let in_force = Arc::new(in_force);
                // Probes and their answers go over either way of the link.
                let ways = [PathId(0), PathId(1)];
                let probers = prober.into_iter().collect();
                let (thread, _) = autorate::start(probers, &emulator.handle(), &in_force, ways)?;
                policies.follow.extend(thread);
                policies.in_force.insert((number, side), in_force);
            }
        }
        Ok(policies)
    }

    /// From now on the law of the classes of this policy that yield runs, if there are any.
    fn yields_from(
        &self,
        handle: &Handle,
        direction: LinkDirection,
        policy: &InterfacePolicy,
    ) -> std::io::Result<()> {
        let (thread, _) = yielding::start(handle, &[(PathId(direction.1), policy.clone())])?;
        let mut yields = self.yields.lock().unwrap_or_else(PoisonError::into_inner);
        yields.extend(thread.map(|thread| (direction, (policy.clone(), thread))));
        Ok(())
    }

    /// The host at the sending end of a direction begins anew: its queue and its wire are empty,
    /// and it knows no connections. `handle` is that of the link.
    ///
    /// # Errors
    ///
    /// Returns an error if the link does not answer, or a thread cannot be started.
    pub(crate) fn restart(&self, handle: &Handle, direction: LinkDirection) -> std::io::Result<()> {
        let mut yields = self.yields.lock().unwrap_or_else(PoisonError::into_inner);
        let former = yields.remove(&direction).map(|(policy, _)| policy);
        drop(yields);
        handle
            .restart(PathId(direction.1))
            .map_err(std::io::Error::other)?;
        former.map_or(Ok(()), |policy| self.yields_from(handle, direction, &policy))
    }

    /// What is in force at the sending end of a direction; none if it has no policy.
    pub fn of(&self, direction: LinkDirection) -> Option<&Arc<InForce>> {
        self.in_force.get(&direction)
    }
}

/// The policies of the interfaces of one host, where its RSVP node installs classes.
pub struct HostTrees(pub Vec<Arc<InForce>>);

impl Trees for HostTrees {
    fn managed(&self) -> Vec<InterfacePolicy> {
        self.0.iter().flat_map(Trees::managed).collect()
    }

    fn adopt(&self, policy: &InterfacePolicy, layout: ReservedLayout) -> Result<Vec<ClassesAnew>, Refusal> {
        let has = |of: &&Arc<InForce>| of.managed().iter().any(|own| own.name == policy.name);
        let found = self.0.iter().find(has);
        found.map_or_else(
            || Err(Refusal::new(format!("{} is not managed", policy.name))),
            |of| of.adopt(policy, layout),
        )
    }
}
