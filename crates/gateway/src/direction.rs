//! Builds one direction of a worker from a policy: the classifier and the queue of an interface's
//! egress.

use control::policy::InterfacePolicy;
use engine::classify::Classifier;
use engine::disciplines::fifo;
use engine::link::Link;
use engine::random::Seed;
use engine::tree::{DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes};
use netio::classify::{ByFilters, Classify};
use netio::worker::{PathSpec, PortId};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// An unpredictable seed.
pub fn secret_seed() -> Seed {
    #[cfg(test)]
    if let Some(drawn) = crate::simulated::rng::drawn() {
        return drawn;
    }
    Seed(RandomState::new().build_hasher().finish())
}

/// Chooses the classes of packets by the policy's filters.
///
/// Flows have the same hashes as long as the program runs: filters change while packets of flows
/// that they do not concern are queued, and a flow with another hash could overtake itself.
pub fn by_filters(interface: &InterfacePolicy) -> Box<dyn Classify> {
    static SEED: OnceLock<Seed> = OnceLock::new();
    #[cfg(test)]
    if crate::simulated::rng::is_drawn() {
        return by_filters_with(interface, Seed(1));
    }
    by_filters_with(interface, *SEED.get_or_init(secret_seed))
}

/// The same with this seed.
pub fn by_filters_with(interface: &InterfacePolicy, seed: Seed) -> Box<dyn Classify> {
    let classifier = Classifier::of_list(interface.filters.places().clone(), seed);
    Box::new(ByFilters::new(classifier, &interface.plan, seed))
}

/// The direction that the policy manages.
pub fn managed(interface: &InterfacePolicy, from: PortId, to: PortId) -> PathSpec {
    let queue = interface.plan.build(secret_seed());
    PathSpec {
        classify: by_filters(interface),
        plan: Some(interface.plan.clone()),
        bandwidth: Some(interface.link().bandwidth),
        framing: interface.link().framing,
        guarantees: interface.guarantees(),
        ..PathSpec::new(&interface.name, (from, to), queue)
    }
}

/// The same direction with one plain queue, as without a policy. Packets are still classified, so
/// that classes can be counted, but treated alike.
pub fn plain(interface: &InterfacePolicy, from: PortId, to: PortId) -> PathSpec {
    let plan = fifo(interface.link());
    PathSpec {
        queue: plan.build(Seed(0)),
        plan: None,
        ..managed(interface, from, to)
    }
}

/// A direction that the policy does not manage.
pub fn unmanaged(name: &str, from: PortId, to: PortId) -> PathSpec {
    let plan = fifo(Link::new(
        Bandwidth::gbit(800),
        Bytes::new(u64::from(u16::MAX) + 64),
    ));
    PathSpec::new(name, (from, to), plan.build(Seed(0)))
}

/// The plain queue of every interface, with its default length.
fn fifo(link: Link) -> TreePlan {
    let fifo = DisciplineSpec::of(&fifo::KIND).check(&Registry::builtin(), link);
    fifo.unwrap_or_else(|problems| panic!("fifo without settings is refused: {problems:?}"))
}
