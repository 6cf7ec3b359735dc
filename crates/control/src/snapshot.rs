//! The metrics model: counters, rates, delays and backlog of every class.
//!
//! A packet loop returns a [`Reading`]: the current values of monotonic counters. A [`Snapshot`] is
//! what clients display: names instead of class numbers, and rates and delays over the interval
//! between two readings. Each client chooses its own interval; the packet loop stores nothing for
//! it. ALTQ's cbqprobe worked the same way: it computed rates from two readings.
//!
//! Lengths and rates count frames as the interface reports them, in the framing of the policy's
//! link ([`BASIS`]). In JSON the name of a number ends with its unit.

use crate::autorate::AutorateView;
use crate::expectations::ExpectationView;
use crate::experienced::{self, ExperienceView, HostView};
use crate::policy::InterfacePolicy;
use crate::quota::QuotaView;
use engine::discipline::Reason;
use engine::framing::Linklayer;
use engine::inspect::{Value, View};
use engine::packet::ClassId;
use engine::queue::{Count, Stats};
use engine::settings::SettingValue;
use engine::tree::{ClassSpec, ClassSpecs};
use engine::units::{Bandwidth, Duration, Instant, Probability, Rate};
use measure::delay::Delays;
use measure::hold_ups::{HeldUpDelays, HoldUps};
use measure::round_trips::ExperienceCounts;
use schemars::{JsonSchema, Schema};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// The version of the model. It is incremented when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// What lengths and rates count: whole frames.
pub const BASIS: &str = "frame";

/// The gauge of a class whose connections yield.
pub const YIELDS: &str = "yields";

/// The gauge of what a class has borrowed.
pub const BORROWED: &str = "borrowed";

/// Whether the policy is applied to the packets that leave by an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The policy is applied.
    Enabled,
    /// Bypass: packets pass through this program in order, without the policy, on request.
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

/// The packets of one class that were sent since the start, and their queueing delays.
#[derive(Clone, Debug)]
pub struct ClassReading {
    /// The class.
    pub class: ClassId,
    /// Packets and bytes sent.
    pub sent: Count,
    /// What was dropped before it was queued, since memory was short.
    pub short: Count,
    /// Their queueing delays.
    pub delays: Delays,
    /// What of them was the host's doing, if anything was.
    pub held_up: Option<HeldUpDelays>,
}

/// The counters of one interface, as its packet loop returns them.
#[derive(Clone, Debug)]
pub struct InterfaceReading {
    /// The policy in force.
    pub policy: Arc<InterfacePolicy>,
    /// Whether it is applied.
    pub state: State,
    /// The error that keeps the interface from working, if there is one.
    pub error: Option<String>,
    /// Why the policy is not enforced; `None`: it is.
    pub not_enforced: Option<String>,
    /// Packets offered, sent and dropped since the start.
    pub totals: Stats,
    /// The state of the tree as a whole, then of each class.
    pub views: Vec<View>,
    /// What was sent, class by class.
    pub classes: Vec<ClassReading>,
    /// Frames that reached no queue, and the memory for frames.
    pub frames: FrameCounts,
    /// How often and how long the host held the packet loops up.
    pub hold_ups: HoldUps,
    /// How the policy's expectations stand.
    pub expectations: Vec<ExpectationView>,
    /// What its classes and hosts have of it, if that is measured.
    pub experience: Option<ExperienceOfInterface>,
    /// How its rate follows its line, if it does.
    pub autorate: Option<AutorateView>,
    /// How the quotas of its classes stand, by class.
    pub quotas: BTreeMap<String, QuotaView>,
    /// What is known of the connections of hosts behind this one, if its policy has `nat`.
    pub nat: Option<NatView>,
}

/// What is known of the connections of hosts behind this one, where it translates addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NatView {
    /// Connections whose host is known now.
    pub connections: u64,
    /// How often one found no room since the start: its packets count as this host's own.
    pub without_room: u64,
    /// How often since the start the kernel could not tell all that happened, and was asked for all
    /// that it has.
    pub listed_again: u64,
}

/// What passing connections show of the classes of an interface, and of the hosts behind it.
#[derive(Clone, Debug, Default)]
pub struct ExperienceOfInterface {
    /// Class by class.
    pub classes: HashMap<ClassId, ExperienceCounts>,
    /// Host by host.
    pub hosts: Vec<(IpAddr, ExperienceCounts)>,
}

/// What became of frames outside the queues, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FrameCounts {
    /// The kernel dropped them before they could be received, at the port that packets come from.
    pub missed: u64,
    /// They could not be received: no memory was free, or their header was not understood.
    pub refused: u64,
    /// They were given to the interface, which could not send them.
    pub unsent: u64,
    /// How often no memory for a frame was free, at any port.
    pub exhausted: u64,
    /// Slots for frames in use now, by all interfaces.
    pub used_slots: u64,
    /// All slots.
    pub slots: u64,
}

/// How often the host let the packet loops run later than they had said, by more than a
/// millisecond; since the start, of all interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostHoldUps {
    /// How often.
    pub times: u64,
    /// The longest.
    pub longest_ns: u64,
    /// All together.
    pub all_ns: u64,
}

impl HostHoldUps {
    fn is_none(&self) -> bool {
        self.times == 0
    }
}

impl From<HoldUps> for HostHoldUps {
    fn from(of: HoldUps) -> Self {
        Self {
            times: of.times,
            longest_ns: of.longest.nanos(),
            all_ns: of.all.nanos(),
        }
    }
}

/// The counters of all interfaces at one instant.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When they were read.
    pub at: Instant,
    /// The policy's name.
    pub policy: String,
    /// The managed interfaces.
    pub interfaces: Vec<InterfaceReading>,
    /// What could not be taken away from the program, each a sentence.
    pub unconfined: Vec<String>,
}

/// The metrics at an instant. Whoever writes them down can make the classes `C` of each interface
/// one by one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Snapshot", description = "The metrics at an instant.")]
pub struct Snapshot<C = Vec<ClassView>> {
    /// [`VERSION`].
    #[schemars(
        description = "The version of the metrics; a field that goes or means another thing increments it."
    )]
    pub version: u32,
    /// The policy's name.
    pub policy: String,
    /// When it was taken: the time since the program started.
    pub at_ns: u64,
    /// The interval of rates and delays. `None` without an earlier reading: there are no rates
    /// then, and delays cover the time since the start.
    pub interval_ns: Option<u64>,
    /// What lengths and rates count: [`BASIS`].
    #[schemars(description = "What lengths and rates count: `frame`, whole frames.")]
    pub basis: String,
    /// The managed interfaces.
    pub interfaces: Vec<InterfaceView<C>>,
    /// What could not be taken away from the program, since its kernel cannot, each a sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfined: Vec<String>,
}

/// One interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InterfaceView")]
pub struct InterfaceView<C = Vec<ClassView>> {
    /// Its name.
    pub name: String,
    /// Whether the policy is applied.
    pub state: State,
    /// The error that keeps it from working, if there is one.
    pub error: Option<String>,
    /// Why the policy is not enforced, and `None` if it is: it is disabled, the port has failed, or
    /// something around it has changed.
    #[serde(default)]
    pub not_enforced: Option<String>,
    /// The kind of its discipline.
    pub discipline: String,
    /// The link rate.
    pub bandwidth_bps: u64,
    /// The bytes that the link adds to each frame, or leaves out.
    pub overhead_bytes: i16,
    /// The bytes that a frame takes at least on it.
    #[serde(default)]
    pub mpu_bytes: u64,
    /// In which units it carries them: `ethernet`, `atm` or `ptm`.
    #[serde(default = "ethernet")]
    pub linklayer: String,
    /// The traffic of all classes together.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The discipline's own state.
    pub gauges: Vec<Gauge>,
    /// Its classes, depth first: each parent is followed by its children.
    pub classes: C,
    /// Frames that reached no queue, and the memory for frames.
    #[serde(default)]
    pub frames: FrameCounts,
    /// How often and how long the host held the packet loops up; absent if it never did.
    #[serde(default, skip_serializing_if = "HostHoldUps::is_none")]
    pub hold_ups: HostHoldUps,
    /// How the policy's expectations stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<ExpectationView>,
    /// What the hosts behind it have, if that is measured; those that were offered most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostView>,
    /// How its rate follows a line that varies, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autorate: Option<AutorateView>,
    /// What is known of the connections of hosts behind this one, if its policy has `nat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<NatView>,
}

/// One class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(
    transform = requires_the_name_alone,
    description = "One class. In a brief status what is zero, empty or null is absent."
)]
#[serde(from = "ClassFields")]
pub struct ClassView {
    /// Its name.
    pub name: String,
    /// Its parent's name; `None` at the top.
    pub parent: Option<String>,
    /// Its depth in the tree: 0 at the top.
    pub depth: usize,
    /// Whether it is a leaf, which has a queue of its own.
    pub leaf: bool,
    /// The kind of its discipline; empty for an interior class.
    pub discipline: String,
    /// The configured rate, if its discipline has rates.
    pub asked_bps: Option<u64>,
    /// The configured rate as a share of the link rate.
    pub share: Option<f64>,
    /// Its traffic; for an interior class that of all classes below it.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// How its quota stands, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaView>,
    /// Its discipline's own state.
    pub gauges: Vec<Gauge>,
}

/// See [`StatusDetail::Brief`].
fn requires_the_name_alone(schema: &mut Schema) {
    schema.insert("required".into(), ["name"].as_slice().into());
}

/// How much a status says of each class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StatusDetail {
    /// Every field.
    #[default]
    Full,
    /// What is not zero, empty or absent, nor `share`, which the rates say; gauges only of the
    /// interface, of classes that yield, and what a class has borrowed. Of very many classes, most
    /// of which are idle, that is little.
    Brief,
}

impl StatusDetail {
    pub(crate) fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

/// The fields of a class as they are read: side by side, since serde stores those of a flattened
/// part before it reads them, and absent if they are zero or empty ([`StatusDetail::Brief`]).
#[derive(Deserialize, JsonSchema)]
struct ClassFields {
    name: String,
    #[serde(default)]
    parent: Option<String>,
    #[serde(default)]
    depth: usize,
    #[serde(default)]
    leaf: bool,
    #[serde(default)]
    discipline: String,
    #[serde(default)]
    asked_bps: Option<u64>,
    #[serde(default)]
    share: Option<f64>,
    #[serde(default)]
    offered_bps: Option<u64>,
    #[serde(default)]
    got_bps: Option<u64>,
    #[serde(default)]
    sent_packets: u64,
    #[serde(default)]
    sent_bytes: u64,
    #[serde(default)]
    backlog_packets: u64,
    #[serde(default)]
    backlog_bytes: u64,
    #[serde(default)]
    delay: Option<Delay>,
    #[serde(default)]
    held_up: Option<HeldUp>,
    #[serde(default)]
    dropped_packets: u64,
    #[serde(default)]
    dropped_bytes: u64,
    #[serde(default)]
    drops: BTreeMap<String, u64>,
    #[serde(default)]
    marked_packets: u64,
    #[serde(default)]
    experience: Option<ExperienceView>,
    #[serde(default)]
    quota: Option<QuotaView>,
    #[serde(default)]
    gauges: Vec<Gauge>,
}

impl From<ClassFields> for ClassView {
    fn from(fields: ClassFields) -> Self {
        Self {
            name: fields.name,
            parent: fields.parent,
            depth: fields.depth,
            leaf: fields.leaf,
            discipline: fields.discipline,
            asked_bps: fields.asked_bps,
            share: fields.share,
            traffic: Traffic {
                offered_bps: fields.offered_bps,
                got_bps: fields.got_bps,
                sent_packets: fields.sent_packets,
                sent_bytes: fields.sent_bytes,
                backlog_packets: fields.backlog_packets,
                backlog_bytes: fields.backlog_bytes,
                delay: fields.delay,
                held_up: fields.held_up,
                dropped_packets: fields.dropped_packets,
                dropped_bytes: fields.dropped_bytes,
                drops: fields.drops,
                marked_packets: fields.marked_packets,
                experience: fields.experience,
            },
            quota: fields.quota,
            gauges: fields.gauges,
        }
    }
}

/// A class of which only what is not zero, empty or absent is written.
struct BriefClass(ClassView);

impl Serialize for BriefClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (class, traffic) = (&self.0, &self.0.traffic);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &class.name)?;
        macro_rules! unless_default {
            ($from:ident: $($field:ident),+) => {
                $(write_unless_default(&mut map, stringify!($field), &$from.$field)?;)+
            };
        }
        unless_default!(class: parent, depth, leaf, discipline, asked_bps);
        unless_default!(traffic: offered_bps, got_bps, sent_packets, sent_bytes, backlog_packets, backlog_bytes);
        unless_default!(traffic: delay, held_up);
        unless_default!(traffic: dropped_packets, dropped_bytes, drops, marked_packets, experience);
        unless_default!(class: quota, gauges);
        map.end()
    }
}

fn write_unless_default<M: SerializeMap, T: Serialize + Default + PartialEq>(
    map: &mut M,
    name: &'static str,
    value: &T,
) -> Result<(), M::Error> {
    match *value == T::default() {
        true => Ok(()),
        false => map.serialize_entry(name, value),
    }
}

/// The traffic of an interface or a class.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// The rate over the interval at which packets arrived for it; with `got_bps`, what was not
    /// sent or waits still. `None` also where only departures were read.
    #[serde(default)]
    pub offered_bps: Option<u64>,
    /// The measured rate over the interval.
    pub got_bps: Option<u64>,
    /// Packets sent since the start.
    pub sent_packets: u64,
    /// Bytes sent since the start.
    pub sent_bytes: u64,
    /// Packets in the queue.
    pub backlog_packets: u64,
    /// Bytes in the queue.
    pub backlog_bytes: u64,
    /// The queueing delay; `None` if no packet was sent.
    pub delay: Option<Delay>,
    /// What of it was the host's doing, over the same time; absent if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_up: Option<HeldUp>,
    /// Packets dropped since the start.
    pub dropped_packets: u64,
    /// Bytes dropped since the start.
    pub dropped_bytes: u64,
    /// Packets dropped, by reason; reasons that did not occur are absent.
    pub drops: BTreeMap<String, u64>,
    /// Packets marked (ECN) since the start.
    pub marked_packets: u64,
    /// What its connections have, if that is measured and there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experience: Option<ExperienceView>,
}

/// Queueing delay. Quantiles are at most 1/16 too high.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Delay {
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

/// Packets that the host held up, since it let the packet loop run late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeldUp {
    /// How many.
    pub packets: u64,
    /// By how much, at most.
    pub longest_ns: u64,
    /// The queueing delay of all packets, those less what they were held up by.
    pub without: Delay,
}

/// A number of a discipline's state, with its unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Gauge {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: serde_json::Value,
    /// `B`, `bit/s`, `ns`, `share` (of 1), or nothing for plain numbers and states.
    pub unit: Cow<'static, str>,
}

impl Reading {
    /// The snapshot of this reading; with rates if there is an earlier reading.
    pub fn snapshot(&self, earlier: Option<&Self>) -> Snapshot {
        let Snapshot {
            version,
            policy,
            at_ns,
            interval_ns,
            basis,
            interfaces,
            unconfined,
        } = self.streamed(earlier, StatusDetail::Full);
        let interfaces = interfaces.into_iter().map(InterfaceView::collected);
        Snapshot {
            version,
            policy,
            at_ns,
            interval_ns,
            basis,
            interfaces: interfaces.collect(),
            unconfined,
        }
    }

    /// The same, whose classes are made when they are written: in memory they take several times
    /// what their counters do.
    pub fn streamed(&self, earlier: Option<&Self>, detail: StatusDetail) -> Snapshot<ClassStream<'_>> {
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
            .map(|now| now.view(before(&now.policy.name).zip(interval), detail));
        Snapshot {
            version: VERSION,
            policy: self.policy.clone(),
            at_ns: self.at.nanos(),
            interval_ns: interval.map(Duration::nanos),
            basis: BASIS.into(),
            interfaces: views.collect(),
            unconfined: self.unconfined.clone(),
        }
    }
}

/// The sums of an interface or a class, from which its [`Traffic`] is made. Each of very many
/// classes has one: what few have stands elsewhere.
#[derive(Clone, Debug, Default)]
struct Sum {
    /// Sent since the start.
    sent: Count,
    /// Sent within the interval.
    recent: Count,
    /// The queueing delays of those.
    delays: Delays,
    held_up: Option<Box<HeldUpDelays>>,
    /// What was dropped before it reached its queue.
    short: Count,
    /// What its connections have: now, and at the beginning of the interval.
    experience: Option<Box<(ExperienceCounts, ExperienceCounts)>>,
}

fn add(mine: &mut Count, theirs: Count) {
    mine.packets += theirs.packets;
    mine.bytes += theirs.bytes;
}

impl Sum {
    fn add_sent(&mut self, other: &Self) {
        add(&mut self.sent, other.sent);
        add(&mut self.recent, other.recent);
        add(&mut self.short, other.short);
        let (mine, theirs) = (self.held_up.take(), other.held_up.as_deref());
        let held_up = HeldUpDelays::merged((&self.delays, mine.as_deref()), (&other.delays, theirs));
        self.held_up = held_up.map(Box::new);
        self.delays.merge(&other.delays);
        if let Some((now, before)) = other.experience.as_deref() {
            let (own, own_before) = &mut **self.experience.get_or_insert_default();
            own.merge(now);
            own_before.merge(before);
        }
    }

    /// With the counters of its queue, or of all queues below it, and what those were offered
    /// before the interval.
    fn traffic(&self, stats: &Stats, before: Option<Count>, interval: Option<Duration>) -> Traffic {
        let backlog = stats.backlog();
        let short = |why| {
            if why == Reason::Memory {
                self.short.packets
            } else {
                0
            }
        };
        let drops = Reason::ALL
            .iter()
            .map(|why| (why.name(), stats.dropped_for(*why) + short(*why)));
        let drops = drops.filter(|(_, n)| *n > 0);
        let offered = before.map(|before| since(stats.offered, before));
        let experience = self.experience.as_deref();
        Traffic {
            offered_bps: offered
                .zip(interval)
                .map(|(offered, interval)| Bandwidth::of(offered.bytes, interval).bits()),
            got_bps: interval.map(|interval| Bandwidth::of(self.recent.bytes, interval).bits()),
            sent_packets: self.sent.packets,
            sent_bytes: self.sent.bytes.get(),
            backlog_packets: backlog.packets,
            backlog_bytes: backlog.bytes.get(),
            delay: delay(&self.delays),
            held_up: self.held_up.as_deref().and_then(held_up),
            dropped_packets: stats.dropped.packets + self.short.packets,
            dropped_bytes: (stats.dropped.bytes + self.short.bytes).get(),
            drops: drops.map(|(why, n)| (why.to_owned(), n)).collect(),
            marked_packets: stats.marked,
            experience: experience.map(|(now, before)| ExperienceView::of(now, Some(before))),
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

fn held_up(of: &HeldUpDelays) -> Option<HeldUp> {
    delay(&of.without).map(|without| HeldUp {
        packets: of.by.count(),
        longest_ns: of.by.longest().nanos(),
        without,
    })
}

/// The increase of a counter; the whole counter if it was reset in between.
fn since(now: Count, before: Count) -> Count {
    if now.packets < before.packets || now.bytes < before.bytes {
        return now;
    }
    now - before
}

impl InterfaceReading {
    /// An interface whose policy is applied, of which nothing was counted and nothing is measured.
    pub fn of(policy: Arc<InterfacePolicy>) -> Self {
        Self {
            policy,
            state: State::Enabled,
            error: None,
            not_enforced: None,
            totals: Stats::default(),
            views: Vec::new(),
            classes: Vec::new(),
            frames: FrameCounts::default(),
            hold_ups: HoldUps::default(),
            expectations: Vec::new(),
            experience: None,
            autorate: None,
            quotas: BTreeMap::new(),
            nat: None,
        }
    }

    fn view(
        &self,
        earlier: Option<(&Self, Duration)>,
        detail: StatusDetail,
    ) -> InterfaceView<ClassStream<'_>> {
        let interval = earlier.map(|(_, interval)| interval);
        let mut sums = self.sums(earlier.map(|(earlier, _)| earlier));
        let plan = &self.policy.plan;
        let order = depth_first(plan);
        let mut whole = Sum::default();
        // Parents precede their children, so in reverse order each sum is complete when it is
        // added.
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
            whole.experience = self.undivided(earlier.map(|(earlier, _)| earlier)).map(Box::new);
        }
        let before = earlier.map_or_else(Count::default, |(earlier, _)| earlier.totals.sent);
        // The totals have all that was dropped.
        whole.short = Count::default();
        whole.sent = self.totals.sent;
        whole.recent = since(self.totals.sent, before);
        let link = self.policy.link();
        let mut views: Vec<Option<&View>> = vec![None; plan.classes.len()];
        for view in &self.views {
            if let Some(place) = view.class.and_then(|class| views.get_mut(class.0 as usize)) {
                *place = Some(view);
            }
        }
        let offered_before = self.offered_before(earlier.map(|(earlier, _)| earlier));
        let whole_view = self.views.iter().find(|view| view.class.is_none());
        InterfaceView {
            name: self.policy.name.clone(),
            state: self.state,
            error: self.error.clone(),
            not_enforced: self.not_enforced.clone(),
            discipline: self.policy.spec.kind.to_string(),
            bandwidth_bps: link.bandwidth.bits(),
            overhead_bytes: link.framing.overhead().get(),
            mpu_bytes: link.framing.mpu().get(),
            linklayer: link.framing.linklayer().name().into(),
            traffic: whole.traffic(
                &self.totals,
                earlier.map(|(earlier, _)| earlier.totals.offered),
                interval,
            ),
            gauges: whole_view.map(gauges).unwrap_or_default(),
            frames: self.frames,
            hold_ups: self.hold_ups.into(),
            expectations: self.expectations.clone(),
            hosts: self.hosts(earlier.map(|(earlier, _)| earlier)),
            autorate: self.autorate.clone(),
            nat: self.nat,
            classes: ClassStream {
                policy: &self.policy,
                interval,
                detail,
                order,
                sums,
                views,
                offered_before,
                classes: self.policy.spec.class_specs(),
                quotas: &self.quotas,
            },
        }
    }

    fn hosts(&self, earlier: Option<&Self>) -> Vec<HostView> {
        let of = |reading: &'_ Self| {
            let measured = reading.experience.as_ref();
            measured.map_or_else(Vec::new, |measured| measured.hosts.clone())
        };
        experienced::hosts(&of(self), &earlier.map(of).unwrap_or_default())
    }

    /// What each class's queue had been offered by an earlier reading of the same tree.
    fn offered_before(&self, earlier: Option<&Self>) -> Vec<Option<Count>> {
        let mut all = vec![None; self.policy.plan.classes.len()];
        let same = |earlier: &&Self| earlier.policy.plan.has_classes_of(&self.policy.plan);
        for view in earlier.filter(same).iter().flat_map(|earlier| &earlier.views) {
            if let Some(place) = view.class.and_then(|class| all.get_mut(class.0 as usize)) {
                *place = Some(view.stats.offered);
            }
        }
        all
    }

    /// Each class's own counts.
    fn sums(&self, earlier: Option<&Self>) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); self.policy.plan.classes.len()];
        let before = earlier.map(|earlier| EarlierClasses::of(earlier, self));
        for class in &self.classes {
            let Some(info) = self.policy.plan.info(class.class) else {
                continue;
            };
            let before = before
                .as_ref()
                .and_then(|before| before.find(class.class, &info.name));
            let sum = class.since(before);
            sums[class.class.0 as usize].add_sent(&sum);
        }
        self.add_experience(earlier, &mut sums);
        sums
    }

    fn add_experience(&self, earlier: Option<&Self>, sums: &mut [Sum]) {
        for (class, counts) in self.measured() {
            let (Some(sum), Some(info)) = (sums.get_mut(class.0 as usize), self.policy.plan.info(*class))
            else {
                continue;
            };
            let before = earlier.and_then(|earlier| {
                let class = earlier.policy.plan.class(&info.name)?;
                earlier.experience.as_ref()?.classes.get(&class).cloned()
            });
            sum.experience = Some(Box::new((counts.clone(), before.unwrap_or_default())));
        }
    }

    /// What connections have, class by class.
    fn measured(&self) -> impl Iterator<Item = (&ClassId, &ExperienceCounts)> {
        let measured = self.experience.iter();
        measured.flat_map(|measured| &measured.classes)
    }

    /// The experience of a discipline without classes, which counts all as one.
    fn undivided(&self, earlier: Option<&Self>) -> Option<(ExperienceCounts, ExperienceCounts)> {
        let (class, counts) = self.measured().next()?;
        let before = earlier.and_then(|earlier| earlier.measured().find(|(of, _)| *of == class));
        let before = before.map(|(_, counts)| counts.clone());
        Some((counts.clone(), before.unwrap_or_default()))
    }

    fn class(&self, class: ClassId) -> Option<&ClassReading> {
        self.classes.iter().find(|reading| reading.class == class)
    }
}

/// The classes of an earlier reading.
enum EarlierClasses<'a> {
    /// By number, if the tree has the same classes as now.
    Numbered(Vec<Option<&'a ClassReading>>),
    /// By name: a class may have had another number in the earlier tree.
    Named(HashMap<&'a str, &'a ClassReading>),
}

impl<'a> EarlierClasses<'a> {
    fn of(earlier: &'a InterfaceReading, now: &InterfaceReading) -> Self {
        let plan = &earlier.policy.plan;
        if !plan.has_classes_of(&now.policy.plan) {
            let name = |class: &'a ClassReading| Some((plan.info(class.class)?.name.as_str(), class));
            return Self::Named(earlier.classes.iter().filter_map(name).collect());
        }
        let mut numbered = vec![None; plan.classes.len()];
        for class in &earlier.classes {
            if let Some(place) = numbered.get_mut(class.class.0 as usize) {
                *place = Some(class);
            }
        }
        Self::Numbered(numbered)
    }

    fn find(&self, class: ClassId, name: &str) -> Option<&'a ClassReading> {
        match self {
            Self::Numbered(classes) => *classes.get(class.0 as usize)?,
            Self::Named(classes) => classes.get(name).copied(),
        }
    }
}

/// The classes of an interface, depth first, each made when it is asked for.
#[derive(Debug)]
pub struct ClassStream<'a> {
    policy: &'a InterfacePolicy,
    interval: Option<Duration>,
    detail: StatusDetail,
    /// The numbers of the classes, with their depths.
    order: Vec<(usize, usize)>,
    // The others by number.
    sums: Vec<Sum>,
    views: Vec<Option<&'a View>>,
    /// What each queue had been offered before the interval.
    offered_before: Vec<Option<Count>>,
    /// As the policy has them.
    classes: ClassSpecs<'a>,
    /// By name.
    quotas: &'a BTreeMap<String, QuotaView>,
}

impl ClassStream<'_> {
    fn iter(&self) -> impl Iterator<Item = ClassView> + '_ {
        self.order.iter().map(|&(index, depth)| self.class(index, depth))
    }

    fn class(&self, index: usize, depth: usize) -> ClassView {
        let plan = &self.policy.plan;
        let (info, link) = (&plan.classes[index], plan.link.bandwidth);
        let class = self.classes.find(index, &info.name);
        let rate = class.and_then(|class| configured_rate(class, link));
        let parent = info.parent.and_then(|parent| plan.info(parent));
        let view = self.views[index];
        let none = Stats::default();
        let stats = view.map_or(&none, |view| &view.stats);
        ClassView {
            name: info.name.to_string(),
            parent: parent.map(|parent| parent.name.to_string()),
            depth,
            leaf: info.leaf,
            discipline: view.map_or("", |view| view.kind).into(),
            asked_bps: rate.map(Bandwidth::bits),
            share: rate.map(|rate| Probability::ratio(rate.bits(), link.bits()).as_f64()),
            traffic: self.sums[index].traffic(stats, self.offered_before[index], self.interval),
            quota: self.quotas.get(info.name.as_str()).cloned(),
            gauges: view.map(|view| self.gauges(view)).unwrap_or_default(),
        }
    }

    fn gauges(&self, view: &View) -> Vec<Gauge> {
        let has = |name| view.gauges.iter().any(|(known, _)| *known == name);
        match self.detail {
            StatusDetail::Brief if !has(YIELDS) => gauges(&view.with_gauges(&[BORROWED])),
            _ => gauges(view),
        }
    }
}

impl Serialize for ClassStream<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.detail {
            StatusDetail::Full => serializer.collect_seq(self.iter()),
            StatusDetail::Brief => serializer.collect_seq(self.iter().map(BriefClass)),
        }
    }
}

/// What runs without a say of it.
fn ethernet() -> String {
    Linklayer::Ethernet.name().into()
}

impl InterfaceView<ClassStream<'_>> {
    fn collected(self) -> InterfaceView {
        let Self {
            name,
            state,
            error,
            not_enforced,
            discipline,
            bandwidth_bps,
            overhead_bytes,
            mpu_bytes,
            linklayer,
            traffic,
            gauges,
            classes,
            frames,
            hold_ups,
            expectations,
            hosts,
            autorate,
            nat,
        } = self;
        InterfaceView {
            name,
            state,
            error,
            not_enforced,
            discipline,
            bandwidth_bps,
            overhead_bytes,
            mpu_bytes,
            linklayer,
            traffic,
            gauges,
            classes: classes.iter().collect(),
            frames,
            hold_ups,
            expectations,
            hosts,
            autorate,
            nat,
        }
    }
}

impl ClassReading {
    /// Its counts, in all and since an earlier reading.
    fn since(&self, earlier: Option<&Self>) -> Sum {
        Sum {
            sent: self.sent,
            recent: since(
                self.sent,
                earlier.map_or_else(Count::default, |earlier| earlier.sent),
            ),
            delays: match earlier {
                Some(earlier) => self.delays.since(&earlier.delays),
                None => self.delays.clone(),
            },
            held_up: self
                .held_up
                .as_ref()
                .and_then(|held| match earlier {
                    Some(earlier) => held.since((&earlier.delays, earlier.held_up.as_ref())),
                    None => Some(held.clone()),
                })
                .map(Box::new),
            short: self.short,
            experience: None,
        }
    }
}

/// The indices of the classes with their depths, each parent followed by its children.
pub fn depth_first(plan: &engine::tree::TreePlan) -> Vec<(usize, usize)> {
    let mut children = vec![Vec::new(); plan.classes.len()];
    let mut stack = Vec::new();
    let known = plan.classes.iter().enumerate();
    for (index, info) in known.filter(|(_, info)| !info.vacant) {
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

/// The rate that the settings of a class say, if its discipline has rates.
pub fn configured_rate(class: &ClassSpec, link: Bandwidth) -> Option<Bandwidth> {
    let rate = Rate::from_raw(&class.settings.get("rate")?.value).ok()?;
    Some(rate.on(link))
}

fn gauges(view: &View) -> Vec<Gauge> {
    view.gauges.iter().map(gauge).collect()
}

/// A gauge with its unit.
pub fn gauge(&(name, value): &(&'static str, Value)) -> Gauge {
    let (value, unit): (serde_json::Value, &'static str) = match value {
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
}
