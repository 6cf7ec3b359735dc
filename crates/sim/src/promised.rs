//! Whether a link keeps what is promised to classes of its policy: the same code as of the lab's
//! links and of the worker ([`measure::promised`], [`measure::promise`]).
//!
//! The first link on a packet's way that has a promise for its class writes into it whether it
//! keeps to that, and its receiver tells apart what was promised anything.

use engine::discipline::Verdict;
use engine::packet::{ClassId, Packet};
use engine::tree::TreePlan;
use engine::units::{Duration, Instant};
use measure::promise::{ClassPromise, KeptPromise, PromiseTally};
use measure::promised::{PromisedArrivals, PromisedCurves};
use std::collections::BTreeMap;

/// What a link promises, and how it keeps that. Reservations number classes anew, so classes are
/// known by name.
#[derive(Debug, Default)]
pub struct LinkPromises {
    curves: PromisedCurves,
    /// By the class.
    classes: BTreeMap<String, OfClass>,
    /// The names of classes by their numbers in the present plan.
    names: BTreeMap<ClassId, String>,
}

#[derive(Debug)]
struct OfClass {
    came: PromisedArrivals,
    kept: KeptPromise,
}

impl LinkPromises {
    /// These are promised to classes of this plan.
    pub(crate) fn promised(&mut self, plan: &TreePlan, promises: &[ClassPromise]) {
        self.curves.promised(plan, promises);
        for promise in promises {
            let Some(info) = plan.info(promise.class) else {
                continue;
            };
            match self.classes.get_mut(&*info.name) {
                Some(class) => class.kept.renew(*promise),
                None => {
                    let class = OfClass {
                        came: PromisedArrivals::default(),
                        kept: KeptPromise::new(*promise),
                    };
                    self.classes.insert(info.name.to_string(), class);
                }
            }
        }
        self.renumbered(plan);
    }

    /// Classes have these numbers now.
    pub(crate) fn renumbered(&mut self, plan: &TreePlan) {
        self.curves.renumbered(plan);
        let named = self.classes.keys();
        let numbers = named.filter_map(|name| Some((plan.class(name)?, name.clone())));
        self.names = numbers.collect();
    }

    /// A packet comes to the queue. Returns by how much it is too early, if it is, where its class
    /// is promised anything.
    pub(crate) fn comes(&mut self, now: Instant, packet: &Packet) -> Option<Option<Duration>> {
        self.curves.comes(now, packet).map(|found| found.early)
    }

    /// A packet moves from one tree to the next.
    pub(crate) fn moved(&mut self, packet: &Packet) {
        self.curves.moved(packet);
    }

    /// So the queue answered to it.
    pub(crate) fn answered(
        &mut self,
        (now, class): (Instant, ClassId),
        early: Option<Duration>,
        verdict: Verdict,
    ) {
        if let Some(of) = self.names.get(&class).and_then(|name| self.classes.get_mut(name)) {
            of.came.comes(now, early, verdict != Verdict::Queued);
        }
    }

    /// A packet leaves the queue, and goes onto the link then.
    pub(crate) fn leaves(&mut self, packet: &Packet, start: Instant) {
        let of = self.names.get(&packet.class);
        let of = of.and_then(|name| self.classes.get_mut(name));
        // Nothing was promised to what came before.
        if let (Some(of), Some(_)) = (of, self.curves.leaves(packet)) {
            of.kept
                .departs(packet.len, (packet.arrived, start), Duration::ZERO);
        }
    }

    /// What has come for these classes.
    pub fn came(&self, classes: impl IntoIterator<Item = impl AsRef<str>>) -> PromisedArrivals {
        let of = classes
            .into_iter()
            .filter_map(|class| self.classes.get(class.as_ref()));
        of.fold(PromisedArrivals::default(), |all, one| all.with(one.came.clone()))
    }

    /// How the promise to a class has been kept, if anything was promised to it.
    pub fn kept(&self, class: &str) -> Option<PromiseTally> {
        self.classes.get(class).map(|of| of.kept.tally())
    }
}
