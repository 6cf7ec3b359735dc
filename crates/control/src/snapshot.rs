//! The metrics model: what every class got, at an instant and over the interval before it.
//!
//! A packet mover gives a [`Reading`]: counters that only grow, as they stand. A [`Snapshot`] is
//! what is shown and sent: names instead of numbers, and rates and delays over the time between two
//! readings. Each reader takes its own interval; nothing is kept in the packet mover for it. ALTQ's
//! cbqprobe did the same, and derived its rates from two looks.
//!
//! Lengths and rates are counted in frames as the interface shows them plus the policy's overhead
//! ([`BASIS`]). In JSON the unit of a number is part of its name.

use crate::policy::InterfacePolicy;
use engine::discipline::Reason;
use engine::inspect::{Value, View};
use engine::packet::ClassId;
use engine::queue::{Count, Stats};
use engine::settings::SettingValue;
use engine::tree::DisciplineSpec;
use engine::units::{Bandwidth, Duration, Instant, Probability, Rate};
use measure::delay::Delays;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The version of the model. It rises when a field changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// What lengths and rates count.
pub const BASIS: &str = "frame";

/// Whether the policy rules what leaves by an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The policy rules.
    Enabled,
    /// Packets pass in order through this program, unmanaged, because somebody asked for it.
    Disabled,
}

impl State {
    /// The name in JSON and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}

/// What left of one class since the start, and how long it had waited.
#[derive(Clone, Debug)]
pub struct ClassReading {
    /// The class.
    pub class: ClassId,
    /// What left.
    pub sent: Count,
    /// How long packets waited.
    pub delays: Delays,
}

/// One interface as its packet mover sees it.
#[derive(Clone, Debug)]
pub struct InterfaceReading {
    /// The policy in force.
    pub policy: Arc<InterfacePolicy>,
    /// Whether it rules.
    pub state: State,
    /// Why the interface does not work, if it does not.
    pub error: Option<String>,
    /// What went in, came out and was lost since the start.
    pub totals: Stats,
    /// The tree: as a whole, then class by class.
    pub views: Vec<View>,
    /// What left, class by class.
    pub classes: Vec<ClassReading>,
}

/// All that there is to see, as it stands.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// The policy's name.
    pub policy: String,
    /// The interfaces that are managed.
    pub interfaces: Vec<InterfaceReading>,
}

/// The metrics at an instant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`VERSION`].
    pub version: u32,
    /// The policy's name.
    pub policy: String,
    /// On the clock of the program, which starts with it.
    pub at_ns: u64,
    /// The time over which rates and delays are taken; none if there was no earlier reading: then
    /// there are no rates, and delays are since the start.
    pub interval_ns: Option<u64>,
    /// What lengths and rates count: [`BASIS`].
    pub basis: String,
    /// The interfaces that are managed.
    pub interfaces: Vec<InterfaceView>,
}

/// One interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InterfaceView {
    /// Its name.
    pub name: String,
    /// Whether the policy rules.
    pub state: State,
    /// Why it does not work, if it does not.
    pub error: Option<String>,
    /// The kind of its discipline.
    pub discipline: String,
    /// The rate of the link.
    pub bandwidth_bps: u64,
    /// Added to each frame.
    pub overhead_bytes: u64,
    /// What passed, all classes together.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The discipline's own state.
    pub gauges: Vec<Gauge>,
    /// Its classes, each parent before its children and followed by them.
    pub classes: Vec<ClassView>,
}

/// One class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClassView {
    /// Its name.
    pub name: String,
    /// Its parent's name; none at the top.
    pub parent: Option<String>,
    /// How many classes are above it.
    pub depth: usize,
    /// Whether it holds packets itself.
    pub leaf: bool,
    /// The kind of its discipline; empty if it has classes.
    pub discipline: String,
    /// The rate that the policy gives it, if it gives rates.
    pub asked_bps: Option<u64>,
    /// The same as a share of the link.
    pub share: Option<f64>,
    /// What passed; of an interior class: through all classes below it.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Its discipline's own state.
    pub gauges: Vec<Gauge>,
}

/// What passed through a place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// The rate at which it left, over the interval.
    pub got_bps: Option<u64>,
    /// Left since the start.
    pub sent_packets: u64,
    /// Left since the start.
    pub sent_bytes: u64,
    /// Held now.
    pub backlog_packets: u64,
    /// Held now.
    pub backlog_bytes: u64,
    /// How long packets waited; none if none left.
    pub delay: Option<Delay>,
    /// Lost since the start.
    pub dropped_packets: u64,
    /// Lost since the start.
    pub dropped_bytes: u64,
    /// Packets lost, by reason; reasons that did not occur are absent.
    pub drops: BTreeMap<String, u64>,
    /// Packets marked (ECN) since the start.
    pub marked_packets: u64,
}

/// How long packets waited. Quantiles are at most a sixteenth too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Delay {
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// What 99 of 100 did not exceed.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A number of a discipline's state, with its unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gauge {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: serde_json::Value,
    /// `B`, `bit/s`, `ns`, `share` (of 1), or nothing for plain numbers and states.
    pub unit: String,
}

impl Reading {
    /// What is to be shown; with rates, if there is an earlier reading.
    pub fn snapshot(&self, earlier: Option<&Self>) -> Snapshot {
        let interval = earlier
            .map(|earlier| self.at.since(earlier.at))
            .filter(|interval| *interval > Duration::ZERO);
        let before = |name: &str| {
            let mut interfaces = earlier?.interfaces.iter();
            interfaces.find(|interface| interface.policy.name == name)
        };
        let views = self
            .interfaces
            .iter()
            .map(|now| now.view(before(&now.policy.name).zip(interval)));
        Snapshot {
            version: VERSION,
            policy: self.policy.clone(),
            at_ns: self.at.nanos(),
            interval_ns: interval.map(Duration::nanos),
            basis: BASIS.into(),
            interfaces: views.collect(),
        }
    }
}

/// What is known of a place, before it is put into words.
#[derive(Clone, Debug, Default)]
struct Sum {
    /// Of its queue, or of all queues below it.
    stats: Stats,
    /// What left since the start.
    sent: Count,
    /// What left within the interval.
    recent: Count,
    /// How long that had waited.
    delays: Delays,
}

fn add(mine: &mut Count, theirs: Count) {
    mine.packets += theirs.packets;
    mine.bytes += theirs.bytes;
}

impl Sum {
    fn add_sent(&mut self, other: &Self) {
        add(&mut self.sent, other.sent);
        add(&mut self.recent, other.recent);
        self.delays.merge(&other.delays);
    }

    fn traffic(&self, interval: Option<Duration>) -> Traffic {
        let held = self.stats.backlog();
        let drops = Reason::ALL
            .iter()
            .map(|why| (why.name().to_owned(), self.stats.dropped_for(*why)));
        Traffic {
            got_bps: interval.map(|interval| Bandwidth::of(self.recent.bytes, interval).bits()),
            sent_packets: self.sent.packets,
            sent_bytes: self.sent.bytes.get(),
            backlog_packets: held.packets,
            backlog_bytes: held.bytes.get(),
            delay: delay(&self.delays),
            dropped_packets: self.stats.dropped.packets,
            dropped_bytes: self.stats.dropped.bytes.get(),
            drops: drops.filter(|(_, n)| *n > 0).collect(),
            marked_packets: self.stats.marked,
        }
    }
}

fn delay(delays: &Delays) -> Option<Delay> {
    (delays.count() > 0).then(|| Delay {
        mean_ns: delays.mean().nanos(),
        p50_ns: delays.quantile(500).nanos(),
        p99_ns: delays.quantile(990).nanos(),
        max_ns: delays.longest().nanos(),
    })
}

/// What was counted since; all of it, if the counters have begun anew.
fn since(now: Count, before: Count) -> Count {
    if now.packets < before.packets || now.bytes < before.bytes {
        return now;
    }
    now - before
}

impl InterfaceReading {
    fn view(&self, earlier: Option<(&Self, Duration)>) -> InterfaceView {
        let interval = earlier.map(|(_, interval)| interval);
        let mut sums = self.sums(earlier.map(|(earlier, _)| earlier));
        let plan = &self.policy.plan;
        let order = depth_first(plan);
        let mut whole = Sum::default();
        // Children come after their parents, so backwards each is complete when it is added.
        for &(index, _) in order.iter().rev() {
            let sum = std::mem::take(&mut sums[index]);
            match plan.classes[index].parent.map(|parent| parent.0 as usize) {
                Some(parent) => sums[parent].add_sent(&sum),
                None => whole.add_sent(&sum),
            }
            sums[index] = sum;
        }
        if plan.classes.is_empty() {
            for class in &self.classes {
                let earlier = earlier.and_then(|(earlier, _)| earlier.class(class.class));
                whole.add_sent(&class.since(earlier));
            }
        }
        let before = earlier.map_or_else(Count::default, |(earlier, _)| earlier.totals.sent);
        whole.stats = self.totals;
        whole.sent = self.totals.sent;
        whole.recent = since(self.totals.sent, before);
        let link = self.policy.link();
        let mut asked = HashMap::new();
        rates(&self.policy.spec, link.bandwidth, &mut asked);
        let views: HashMap<ClassId, &View> = self
            .views
            .iter()
            .filter_map(|view| Some((view.class?, view)))
            .collect();
        let classes = order.iter().map(|&(index, depth)| {
            let info = &plan.classes[index];
            let asked = asked.get(info.name.as_str()).copied();
            let view = views.get(&id(index));
            ClassView {
                name: info.name.clone(),
                parent: info
                    .parent
                    .and_then(|parent| plan.info(parent))
                    .map(|p| p.name.clone()),
                depth,
                leaf: info.leaf,
                discipline: view.map_or("", |view| view.kind).into(),
                asked_bps: asked.map(Bandwidth::bits),
                share: asked.map(|asked| Probability::ratio(asked.bits(), link.bandwidth.bits()).as_f64()),
                traffic: sums[index].traffic(interval),
                gauges: view.map(|view| gauges(view)).unwrap_or_default(),
            }
        });
        let whole_view = self.views.iter().find(|view| view.class.is_none());
        InterfaceView {
            name: self.policy.name.clone(),
            state: self.state,
            error: self.error.clone(),
            discipline: self.policy.spec.kind.clone(),
            bandwidth_bps: link.bandwidth.bits(),
            overhead_bytes: self.policy.settings.overhead.get(),
            classes: classes.collect(),
            traffic: whole.traffic(interval),
            gauges: whole_view.map(gauges).unwrap_or_default(),
        }
    }

    /// Each class's own counts.
    fn sums(&self, earlier: Option<&Self>) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); self.policy.plan.classes.len()];
        for view in &self.views {
            if let Some(sum) = view.class.and_then(|class| sums.get_mut(class.0 as usize)) {
                sum.stats = view.stats;
            }
        }
        // By name, since a class may have had another number.
        let before: HashMap<&str, &ClassReading> = earlier
            .into_iter()
            .flat_map(|earlier| earlier.classes.iter().map(move |class| (earlier, class)))
            .filter_map(|(earlier, class)| {
                Some((earlier.policy.plan.info(class.class)?.name.as_str(), class))
            })
            .collect();
        for class in &self.classes {
            let Some(info) = self.policy.plan.info(class.class) else {
                continue;
            };
            let sum = class.since(before.get(info.name.as_str()).copied());
            sums[class.class.0 as usize].add_sent(&sum);
        }
        sums
    }

    fn class(&self, class: ClassId) -> Option<&ClassReading> {
        self.classes.iter().find(|reading| reading.class == class)
    }
}

impl ClassReading {
    /// What it counted, and what of it since an earlier reading.
    fn since(&self, earlier: Option<&Self>) -> Sum {
        Sum {
            stats: Stats::default(),
            sent: self.sent,
            recent: since(
                self.sent,
                earlier.map_or_else(Count::default, |earlier| earlier.sent),
            ),
            delays: match earlier {
                Some(earlier) => self.delays.since(&earlier.delays),
                None => self.delays.clone(),
            },
        }
    }
}

fn id(index: usize) -> ClassId {
    ClassId(u32::try_from(index).unwrap_or(u32::MAX))
}

/// The classes with their depths, each parent followed by its children.
pub fn depth_first(plan: &engine::tree::TreePlan) -> Vec<(usize, usize)> {
    let mut children = vec![Vec::new(); plan.classes.len()];
    let mut stack = Vec::new();
    for (index, info) in plan.classes.iter().enumerate() {
        match info.parent {
            Some(parent) => children[parent.0 as usize].push(index),
            None => stack.push((index, 0)),
        }
    }
    stack.reverse();
    let mut order = Vec::with_capacity(plan.classes.len());
    while let Some((index, depth)) = stack.pop() {
        order.push((index, depth));
        stack.extend(children[index].iter().rev().map(|&child| (child, depth + 1)));
    }
    order
}

/// The rates that a policy gives to classes.
pub fn rates<'a>(spec: &'a DisciplineSpec, link: Bandwidth, out: &mut HashMap<&'a str, Bandwidth>) {
    for class in &spec.classes {
        if let Some(Ok(rate)) = class
            .settings
            .get("rate")
            .map(|entry| Rate::from_raw(&entry.value))
        {
            out.insert(&class.name, rate.on(link));
        }
        if let Some(inner) = &class.discipline {
            rates(inner, link, out);
        }
    }
    if let Some(child) = &spec.child {
        rates(child, link, out);
    }
}

fn gauges(view: &View) -> Vec<Gauge> {
    let gauge = |&(name, value): &(&str, Value)| {
        let (value, unit): (serde_json::Value, &str) = match value {
            Value::Count(n) => (n.into(), ""),
            Value::Bytes(bytes) => (bytes.get().into(), "B"),
            Value::Credit(bytes) => (bytes.into(), "B"),
            Value::Bandwidth(rate) => (rate.bits().into(), "bit/s"),
            Value::Duration(span) => (span.nanos().into(), "ns"),
            Value::Share(share) => (share.as_f64().into(), "share"),
            Value::Real(x) => (x.into(), ""),
            Value::State(name) => (name.into(), ""),
        };
        Gauge {
            name: name.into(),
            value,
            unit: unit.into(),
        }
    };
    view.gauges.iter().map(gauge).collect()
}
