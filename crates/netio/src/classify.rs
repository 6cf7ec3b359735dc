//! From a packet's headers to its class and flow, by the engine's filters.

use engine::classify::{Classifier, Filter, FilterId, FilterSum};
use engine::header::{FlowHasher, Headers};
use engine::packet::{ClassId, Packet};
use engine::random::Seed;
use engine::tree::TreePlan;
use std::fmt;

/// Chooses a packet's class and computes its flow, once, from headers that were read once.
pub trait Classify: Send {
    /// Writes [`Packet::class`] and [`Packet::flow`].
    fn classify(&mut self, headers: &Headers, packet: &mut Packet);

    /// Whether it can [adopt](Self::amend) these in a time that does not grow with the number of
    /// filters. The default: it cannot, and is replaced by another.
    fn amends(&self, _few: &FewFilters) -> bool {
        false
    }

    /// Adopts these, if [it can](Self::amends).
    fn amend(&mut self, _few: &FewFilters) {}

    /// By what it classifies, to be compared with what it should. The default: it does not tell.
    fn classifies_by(&self) -> Option<ClassifiesBy> {
        None
    }
}

/// By what packets get their classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassifiesBy {
    /// The filters.
    pub filters: FilterSum,
    /// The class of packets that none of them takes.
    pub unmatched: ClassId,
}

/// A few filters that go and come: those that stay keep their numbers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FewFilters {
    /// The numbers of those that go.
    pub gone: Vec<FilterId>,
    /// Those that come, with numbers later than all others.
    pub come: Vec<(FilterId, Filter)>,
}

impl FewFilters {
    /// So many at most are adopted between two batches.
    const MOST: usize = 16;
}

/// Puts every packet into one class, and leaves its flow at zero.
#[derive(Clone, Copy, Debug)]
pub struct Everything(pub ClassId);

impl Classify for Everything {
    fn classify(&mut self, _headers: &Headers, packet: &mut Packet) {
        packet.class = self.0;
    }
}

/// Puts packets into the classes of filters, and what no filter matches into a default class.
pub struct ByFilters {
    classifier: Classifier,
    unmatched: ClassId,
    hasher: FlowHasher,
}

impl ByFilters {
    /// Into the classes of this plan. Flow hashes are keyed by the seed.
    pub fn new(classifier: Classifier, plan: &TreePlan, seed: Seed) -> Self {
        Self {
            classifier,
            unmatched: plan.class_of(None),
            hasher: FlowHasher::new(seed),
        }
    }
}

impl fmt::Debug for ByFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByFilters")
            .field("unmatched", &self.unmatched)
            .finish_non_exhaustive()
    }
}

impl Classify for ByFilters {
    fn classify(&mut self, headers: &Headers, packet: &mut Packet) {
        packet.class = self.classifier.classify(&headers.key).unwrap_or(self.unmatched);
        packet.flow = self.hasher.flow(&headers.key);
    }

    fn amends(&self, few: &FewFilters) -> bool {
        let FewFilters { gone, come } = few;
        gone.len() + come.len() <= FewFilters::MOST
            && gone.iter().all(|id| self.classifier.removes_in_place(*id))
            && come
                .iter()
                .all(|(_, filter)| self.classifier.adds_in_place(filter))
    }

    fn amend(&mut self, few: &FewFilters) {
        for id in &few.gone {
            self.classifier.remove(*id);
        }
        for (id, filter) in &few.come {
            self.classifier.add_as(*id, *filter);
        }
    }

    fn classifies_by(&self) -> Option<ClassifiesBy> {
        Some(ClassifiesBy {
            filters: self.classifier.sum(),
            unmatched: self.unmatched,
        })
    }
}
