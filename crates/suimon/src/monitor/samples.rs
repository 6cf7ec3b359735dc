//! The history of snapshots: the last one, and the rates and delays of the leaves over time.

use control::snapshot::{InterfaceView, Snapshot, Traffic};
use std::collections::{BTreeMap, VecDeque};

/// Samples kept: more than any screen has columns.
const SAMPLES: usize = 1024;

/// What a leaf had at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeafSample {
    /// Its rate, in bit/s.
    pub rate: u64,
    /// The delay of 99 of 100 packets, in ns.
    pub delay: u64,
}

/// The leaves of one interface at one time, by name.
pub type LeafSamples = BTreeMap<String, LeafSample>;

/// The history.
#[derive(Debug, Default)]
pub struct History {
    /// The last snapshot.
    pub last: Option<Snapshot>,
    samples: BTreeMap<String, VecDeque<LeafSamples>>,
}

impl History {
    /// Adds a snapshot.
    pub fn add(&mut self, snapshot: Snapshot) {
        for interface in &snapshot.interfaces {
            let samples = self.samples.entry(interface.name.clone()).or_default();
            if samples.len() == SAMPLES {
                samples.pop_front();
            }
            samples.push_back(sample(interface));
        }
        self.last = Some(snapshot);
    }

    /// The samples of an interface, oldest first.
    pub fn samples(&self, interface: &str) -> impl DoubleEndedIterator<Item = &LeafSamples> {
        self.samples.get(interface).into_iter().flatten()
    }

    /// The interface at this index of the list; the index wraps around.
    pub fn interface(&self, index: usize) -> Option<&InterfaceView> {
        let interfaces = &self.last.as_ref()?.interfaces;
        interfaces.get(index % interfaces.len().max(1))
    }
}

fn sample(interface: &InterfaceView) -> LeafSamples {
    let of = |traffic: &Traffic| LeafSample {
        rate: traffic.got_bps.unwrap_or(0),
        delay: traffic.delay.map_or(0, |delay| delay.p99_ns),
    };
    if interface.classes.is_empty() {
        return [(interface.name.clone(), of(&interface.traffic))].into();
    }
    let leaves = interface.classes.iter().filter(|class| class.leaf);
    leaves
        .map(|class| (class.name.clone(), of(&class.traffic)))
        .collect()
}
