//! From a packet's headers to its class and flow, by the engine's filters.

use engine::classify::Classifier;
use engine::header::{FlowHasher, Headers};
use engine::packet::{ClassId, Packet};
use engine::random::Seed;
use engine::tree::TreePlan;
use std::fmt;

/// Chooses a packet's class and computes its flow, once, from headers that were read once.
pub trait Classify: Send {
    /// Writes [`Packet::class`] and [`Packet::flow`].
    fn classify(&mut self, headers: &Headers, packet: &mut Packet);
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
}
