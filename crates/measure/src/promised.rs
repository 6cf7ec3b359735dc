//! Which packets that come to a link keep to the arrival curve of what is promised to their class.
//!
//! A link, simulated or of a lab, tells it from the times at which packets reach its queue, by a
//! [meter](engine::conformance) that shares nothing with the disciplines that police. It writes it
//! into packets, and counts what came and what the queue refused: so what was policed can be held
//! against what did not conform, and a receiver knows which packets were promised anything.

use crate::promise::ClassPromise;
use engine::conformance::ConformanceMeter;
use engine::packet::{ClassId, Packet};
use engine::tree::TreePlan;
use engine::units::{Duration, Instant};
use std::collections::HashMap;

/// Packets whose times are kept that exceeded a curve.
const MOST_TIMES: usize = 100_000;

/// The classes of a link that something is promised to.
#[derive(Debug, Default)]
pub struct PromisedCurves {
    classes: Vec<PromisedClass>,
    /// What was found of packets in the queue, by their frames.
    found: HashMap<u32, bool>,
}

#[derive(Debug)]
struct PromisedClass {
    name: String,
    /// Its number in the present plan.
    number: Option<ClassId>,
    /// None if it is promised whatever is sent.
    meter: Option<ConformanceMeter>,
}

/// What was found of a packet that comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundArrival<'a> {
    /// Its class.
    pub class: &'a str,
    /// By how much it is too early, if it is.
    pub early: Option<Duration>,
}

impl PromisedCurves {
    /// These are promised to classes of this plan.
    pub fn promised(&mut self, plan: &TreePlan, promises: &[ClassPromise]) {
        for promise in promises {
            let Some(info) = plan.info(promise.class) else {
                continue;
            };
            let curve = promise.bound.arrivals;
            match self.classes.iter_mut().find(|class| class.name == info.name) {
                Some(class) => ConformanceMeter::renew(&mut class.meter, curve),
                None => self.classes.push(PromisedClass {
                    name: info.name.to_string(),
                    number: None,
                    meter: curve.map(ConformanceMeter::new),
                }),
            }
        }
        self.renumbered(plan);
    }

    /// Classes have these numbers now.
    pub fn renumbered(&mut self, plan: &TreePlan) {
        for class in &mut self.classes {
            class.number = plan.class(&class.name);
        }
    }

    /// A packet comes to the queue; nothing is found if its class is promised nothing.
    pub fn comes(&mut self, now: Instant, packet: &Packet) -> Option<FoundArrival<'_>> {
        if self.classes.is_empty() {
            return None;
        }
        // Its frame may have been that of a packet that was dropped in the queue.
        self.found.remove(&packet.buffer.0);
        let own = |class: &&mut PromisedClass| class.number == Some(packet.class);
        let class = self.classes.iter_mut().find(own)?;
        let early = class
            .meter
            .as_mut()
            .and_then(|meter| meter.arrives(now, packet.len));
        self.found.insert(packet.buffer.0, early.is_none());
        Some(FoundArrival {
            class: &class.name,
            early,
        })
    }

    /// A packet moves from one tree into another. If it came before anything was promised to
    /// its class, nothing is promised to it; but it takes of the curve as of its arrival, as of
    /// a policer's tokens.
    pub fn moved(&mut self, packet: &Packet) {
        if !self.found.contains_key(&packet.buffer.0) && self.comes(packet.arrived, packet).is_some() {
            self.leaves(packet);
        }
    }

    /// What was found of a packet that leaves the queue.
    pub fn leaves(&mut self, packet: &Packet) -> Option<bool> {
        match self.found.is_empty() {
            true => None,
            false => self.found.remove(&packet.buffer.0),
        }
    }
}

/// What came to the queue of a link for a class that something is promised to, held against the
/// arrival curve of that by the times at which it came.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PromisedArrivals {
    /// All packets.
    pub packets: u64,
    /// When those came that exceeded the curve; of very many the first.
    pub exceeded_at: Vec<Instant>,
    /// How many these are.
    pub exceeded: u64,
    /// By how much one of them was too early at most.
    pub earliest: Duration,
    /// Those of them that the queue refused.
    pub policed: u64,
    /// Those that kept to the curve, and were refused all the same.
    pub refused: u64,
}

impl PromisedArrivals {
    /// These and those of another class of the same flow.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.packets += other.packets;
        self.exceeded_at.extend(other.exceeded_at);
        self.exceeded += other.exceeded;
        self.earliest = self.earliest.max(other.earliest);
        self.policed += other.policed;
        self.refused += other.refused;
        self
    }

    /// A packet came, too early by so much; the queue refused it or not.
    pub fn comes(&mut self, now: Instant, early: Option<Duration>, refused: bool) {
        self.packets += 1;
        let Some(early) = early else {
            self.refused += u64::from(refused);
            return;
        };
        self.exceeded += 1;
        self.policed += u64::from(refused);
        self.earliest = self.earliest.max(early);
        if self.exceeded_at.len() < MOST_TIMES {
            self.exceeded_at.push(now);
        }
    }
}
