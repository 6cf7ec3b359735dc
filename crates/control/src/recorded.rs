//! A policy as a recording has it: the tree that ran, with every class by the number that it had,
//! and what became of it. Not the policy's text: what ran also has places for classes that may
//! come, and RSVP's reservations.
//!
//! Its filters decide nothing, as a tape has their answers: they tell which were asked.

use crate::difference::GenerationView;
use crate::experienced::ExperienceSetting;
use crate::filter_list::FilterList;
use crate::policy::{InterfacePolicy, InterfaceSettings, Reserve};
use crate::recorded_filter::{MOST, RecordedFilter};
use engine::framing::{Framing, Linklayer, MinimumUnit, Overhead};
use engine::link::Link;
use engine::reserved::{Reservable, ReserveSettings};
use engine::settings::Span;
use engine::settings::{Problem, Raw, SettingValue, Table};
use engine::tree::{ArrivalCurveSpec, ClassSpec, DisciplineSpec, ParentSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::sync::Arc;

/// A recording as a file, in parts.
#[derive(Clone, Debug)]
pub struct RecordingFile(pub Vec<Arc<Vec<u8>>>);

impl RecordingFile {
    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|part| part.len() as u64).sum()
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// Returns what `out` says.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.0.iter().try_for_each(|part| out.write_all(part))
    }
}

/// What a recording says beside its tape.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingHead {
    /// The interface.
    pub interface: String,
    /// The version of the program that wrote it.
    pub program: String,
    /// When it was written, in nanoseconds by the clock of the tape.
    pub saved_ns: u64,
    /// The same in milliseconds since 1970.
    pub saved_ms: u64,
    /// Since when, by the tape's clock, what came is not in it: nothing could go to make room.
    pub full_ns: Option<u64>,
    /// Parts that follow each other. All but the first begin with nothing queued.
    pub stretches: Vec<Stretch>,
    /// What was in force, change by change.
    pub generations: Vec<GenerationView>,
    /// What RSVP heard, was told and did; none if the program does not speak it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signalling: Option<RecordedSignalling>,
}

/// What a recording says of RSVP beside its tape, which is behind those of the stretches.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedSignalling {
    /// Bytes of its tape.
    pub tape_bytes: u64,
    /// Since when, by the tape's clock, what came is not in it: it was full, and some state was
    /// never gone.
    pub full_ns: Option<u64>,
    /// The names of interfaces, by their numbers.
    pub interfaces: Vec<String>,
    /// What may be reserved by which policies, by the numbers that the tape has.
    pub policies: Vec<RecordedPolicy>,
}

/// A part of a recording that can be done again by itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// Bytes of its older part, in short form, before the rest of its tape.
    #[serde(default, skip_serializing_if = "is_none")]
    pub short_bytes: u64,
    /// Bytes of its tape.
    pub tape_bytes: u64,
    /// The seed that its tree was built with.
    pub seed: u64,
    /// What ran when it began.
    pub policy: RecordedPolicy,
    /// What replaced it, in order.
    pub changes: Vec<RecordedChange>,
}

impl Stretch {
    /// Bytes of all of its tape.
    pub fn bytes(&self) -> u64 {
        self.short_bytes.saturating_add(self.tape_bytes)
    }
}

fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

/// A change of what ran.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedChange {
    /// What ran then.
    pub policy: RecordedPolicy,
    /// The seed of a tree that had to be built anew.
    pub seed: u64,
    /// The class that alone got other settings, by its number.
    pub class: Option<u32>,
    /// Whether classes had other numbers or filters than before.
    pub reclassified: bool,
    /// Another bandwidth of the link.
    pub bandwidth_bps: Option<u64>,
    /// In what the policy differs from the one before.
    pub changes: Vec<String>,
}

/// A tree and its link.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPolicy {
    bandwidth_bps: u64,
    mtu: u64,
    overhead: i16,
    /// What a frame takes at least, in bytes.
    #[serde(default, skip_serializing_if = "is_none")]
    mpu: u64,
    /// In which units the link carries bytes, if not as Ethernet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    linklayer: Option<String>,
    ring: u32,
    /// By how much whoever moves the packets may be late.
    #[serde(default)]
    lateness_ns: u64,
    tree: DisciplineForm,
    /// In their order, if there are not too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    filters: Vec<RecordedFilter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserve: Option<Vec<(String, ValueForm)>>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DisciplineForm {
    kind: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    settings: Vec<(String, ValueForm)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child: Option<Box<Self>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    classes: Vec<ClassForm>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassForm {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    default: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    vacant: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    settings: Vec<(String, ValueForm)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    discipline: Option<DisciplineForm>,
    /// The arrival curve of its senders: ρ, and σ in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sends: Option<(ValueForm, u64)>,
}

/// A setting's value, by its type; with units, in bit/s, bytes and nanoseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ValueForm {
    Text(String),
    Integer(i64),
    Boolean(bool),
    Rate(u64),
    Length(u64),
    Time(u64),
}

impl From<&Raw> for ValueForm {
    fn from(value: &Raw) -> Self {
        match value {
            Raw::Text(text) => Self::Text(text.clone()),
            Raw::Integer(number) => Self::Integer(*number),
            Raw::Boolean(is) => Self::Boolean(*is),
            Raw::Bandwidth(rate) => Self::Rate(rate.bits()),
            Raw::Bytes(length) => Self::Length(length.get()),
            Raw::Duration(time) => Self::Time(time.nanos()),
            // No checked tree has one.
            Raw::Other(what) => Self::Text((*what).to_owned()),
        }
    }
}

/// A rate as it was configured: a share stays one.
fn raw_rate(rate: Rate) -> Raw {
    match rate {
        Rate::Absolute(rate) => Raw::Bandwidth(rate),
        Rate::Share(share) => Raw::Text(share.to_string()),
    }
}

/// What is not as a rate is written is no curve.
fn curve((rate, burst): &(ValueForm, u64)) -> Option<ArrivalCurveSpec> {
    let rate = match rate {
        ValueForm::Rate(bits) => Rate::Absolute(Bandwidth::bits_per_sec(*bits)),
        ValueForm::Text(share) => share.parse().ok()?,
        _ => return None,
    };
    Some(ArrivalCurveSpec {
        rate,
        burst: Bytes::new(*burst),
    })
}

fn settings_form(table: &Table) -> Vec<(String, ValueForm)> {
    let entries = table.entries.iter();
    entries
        .map(|entry| (entry.key.to_string(), ValueForm::from(&entry.value)))
        .collect()
}

/// What may be reserved, as settings.
fn reserve_form(settings: &ReserveSettings) -> Vec<(String, ValueForm)> {
    let ReserveSettings {
        share,
        smallest,
        largest,
        delay,
        class,
    } = settings;
    let rates = [
        ("share", Some(*share)),
        ("smallest", Some(*smallest)),
        ("largest", *largest),
    ];
    let rates = rates
        .into_iter()
        .filter_map(|(key, rate)| Some((key, raw_rate(rate?))));
    let delay = delay.iter().map(|delay| ("delay", Raw::Duration(*delay)));
    let class = class.iter().map(|class| ("class", Raw::Text(class.clone())));
    let all = rates.chain(delay).chain(class);
    all.map(|(key, value)| (key.to_owned(), ValueForm::from(&value)))
        .collect()
}

fn table(settings: &[(String, ValueForm)]) -> Table {
    settings.iter().fold(Table::default(), |table, (key, value)| {
        table.with(
            key,
            match value {
                ValueForm::Text(text) => Raw::Text(text.clone()),
                ValueForm::Integer(number) => Raw::Integer(*number),
                ValueForm::Boolean(is) => Raw::Boolean(*is),
                ValueForm::Rate(bits) => Raw::Bandwidth(Bandwidth::bits_per_sec(*bits)),
                ValueForm::Length(bytes) => Raw::Bytes(Bytes::new(*bytes)),
                ValueForm::Time(nanos) => Raw::Duration(Duration::from_nanos(*nanos)),
            },
        )
    })
}

impl From<&DisciplineSpec> for DisciplineForm {
    fn from(spec: &DisciplineSpec) -> Self {
        let class = |class: &ClassSpec| ClassForm {
            name: class.name.to_string(),
            parent: class.parent.as_ref().map(|parent| parent.name.clone()),
            default: class.default,
            vacant: class.vacant,
            settings: settings_form(&class.settings),
            discipline: class.discipline.as_ref().map(Self::from),
            sends: class
                .sends
                .map(|sends| (ValueForm::from(&raw_rate(sends.rate)), sends.burst.get())),
        };
        Self {
            kind: spec.kind.to_string(),
            settings: settings_form(&spec.settings),
            child: spec.child.as_deref().map(|child| Box::new(Self::from(child))),
            classes: spec.classes.iter().map(class).collect(),
        }
    }
}

impl DisciplineForm {
    fn spec(&self) -> DisciplineSpec {
        let class = |class: &ClassForm| ClassSpec {
            name: class.name.as_str().into(),
            parent: class.parent.as_deref().map(ParentSpec::from),
            default: class.default,
            vacant: class.vacant,
            settings: table(&class.settings),
            discipline: class.discipline.as_ref().map(Self::spec),
            sends: class.sends.as_ref().and_then(curve),
            ..ClassSpec::default()
        };
        DisciplineSpec {
            settings: table(&self.settings),
            child: self.child.as_deref().map(|child| Box::new(child.spec())),
            classes: self.classes.iter().map(class).collect::<Vec<_>>().into(),
            ..DisciplineSpec::new(&self.kind)
        }
    }
}

impl From<&InterfacePolicy> for RecordedPolicy {
    fn from(policy: &InterfacePolicy) -> Self {
        let link = policy.link();
        Self {
            bandwidth_bps: link.bandwidth.bits(),
            mtu: link.mtu.get(),
            overhead: link.framing.overhead().get(),
            mpu: link.framing.mpu().get(),
            linklayer: Some(link.framing.linklayer())
                .filter(|linklayer| *linklayer != Linklayer::Ethernet)
                .map(|linklayer| linklayer.name().to_owned()),
            ring: link.ring,
            lateness_ns: link.lateness.nanos(),
            tree: DisciplineForm::from(&*policy.spec),
            filters: match policy.filters.len() {
                ..=MOST => policy.filters.iter().map(RecordedFilter::from).collect(),
                _ => Vec::new(),
            },
            reserve: None,
        }
    }
}

impl RecordedPolicy {
    /// The same with what may be reserved of it; only of a tree that has no reservations.
    pub fn reservable(policy: &InterfacePolicy) -> Self {
        Self {
            reserve: policy
                .reserve
                .as_ref()
                .map(|reserve| reserve_form(&reserve.settings)),
            filters: Vec::new(),
            ..Self::from(policy)
        }
    }

    fn framing(&self) -> Result<Framing, String> {
        let linklayer = match &self.linklayer {
            Some(name) => Linklayer::from_raw(&Raw::Text(name.clone()))?,
            None => Linklayer::Ethernet,
        };
        let mpu = MinimumUnit::from_raw(&Raw::Bytes(Bytes::new(self.mpu)))?;
        Ok(Framing::of(Overhead::new(self.overhead), mpu, linklayer))
    }

    /// The policy of this interface, checked again.
    ///
    /// # Errors
    ///
    /// Returns what is wrong: it is of another version, or was changed.
    pub fn policy(&self, interface: &str, registry: &Registry) -> Result<InterfacePolicy, Vec<Problem>> {
        let framing = self
            .framing()
            .map_err(|why| vec![Problem::new(Span::default(), why)])?;
        let link = Link {
            bandwidth: Bandwidth::bits_per_sec(self.bandwidth_bps),
            mtu: Bytes::new(self.mtu),
            framing,
            ring: self.ring,
            lateness: Duration::from_nanos(self.lateness_ns),
        };
        let spec = self.tree.spec();
        let reserve = match &self.reserve {
            Some(settings) => Some(reserve(settings, &spec, link, registry)?),
            None => None,
        };
        let filters: Option<FilterList> = self.filters.iter().map(RecordedFilter::filter).collect();
        let none = || vec![Problem::new(Span::default(), "a filter is none")];
        Ok(InterfacePolicy {
            name: interface.into(),
            settings: InterfaceSettings {
                bandwidth: link.bandwidth,
                overhead: framing.overhead(),
                mpu: framing.mpu(),
                linklayer: framing.linklayer(),
                max_frame: framing.longest_within(link.mtu),
                nat: false,
                experience: ExperienceSetting::Off,
            },
            autorate: None,
            plan: spec.check(registry, link)?,
            spec: Arc::new(spec),
            filters: Arc::new(filters.ok_or_else(none)?),
            reserve,
            yields: Vec::new(),
            quotas: Default::default(),
            expectations: Default::default(),
        })
    }
}

fn reserve(
    settings: &[(String, ValueForm)],
    spec: &DisciplineSpec,
    link: Link,
    registry: &Registry,
) -> Result<Reserve, Vec<Problem>> {
    let mut problems = Vec::new();
    let settings = ReserveSettings::read(&table(settings), &[], &mut problems);
    let settings = settings.filter(|_| problems.is_empty()).ok_or(problems)?;
    let at = Span::default();
    Ok(Reserve {
        room: Reservable::new(registry, spec, link, &settings, at)?,
        settings,
        at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    const CURVES: &str = "version = 1\n[interface.wan0]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"drr\"\n\
        [[interface.wan0.class]]\nname = \"calls\"\nsends = { rate = \"12.5 %\", burst = \"3 kB\" }\n\
        [[interface.wan0.class]]\nname = \"rest\"\ndefault = true\n\
        sends = { rate = \"3 Mbit/s\", burst = \"9 kB\" }\n";

    /// Every policy of the examples, written and read again, is the same tree.
    #[test]
    fn a_policy_that_is_written_and_read_again_builds_the_same_tree() {
        let (registry, mut read) = (Registry::builtin(), 0);
        let (mut reserves, mut curves) = (0, 0);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let files = std::fs::read_dir(folder).expect("examples");
        let files = files.map(|file| file.expect("a file").path());
        let texts = files.filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)));
        for (path, text) in texts.chain([("curves".into(), CURVES.into())]) {
            let Ok(policy) = Policy::read("example", &text, &registry, &[]) else {
                continue;
            };
            for interface in &policy.interfaces {
                let form = RecordedPolicy::reservable(interface);
                let json = serde_json::to_string(&form).expect("written");
                let again: RecordedPolicy = serde_json::from_str(&json).expect("read");
                assert_eq!(form, again, "{}", path.display());
                let again = again.policy(&interface.name, &registry).expect("a policy");
                let root = |policy: &InterfacePolicy| format!("{:?}", policy.plan.root);
                assert_eq!(root(&again), root(interface), "{}", path.display());
                assert_eq!(again.plan.classes.len(), interface.plan.classes.len());
                assert_eq!(again.plan.default, interface.plan.default);
                assert_eq!(again.link(), interface.link());
                let json = serde_json::to_string(&RecordedPolicy::from(interface)).expect("written");
                let whole: RecordedPolicy = serde_json::from_str(&json).expect("read");
                let whole = whole.policy(&interface.name, &registry).expect("a policy");
                assert_eq!(whole.filters, interface.filters, "{}", path.display());
                let reserve = |policy: &InterfacePolicy| {
                    let reserve = policy.reserve.as_ref()?;
                    Some((
                        reserve.settings.clone(),
                        reserve.room.capacity(),
                        reserve.room.largest(),
                    ))
                };
                assert_eq!(reserve(&again), reserve(interface), "{}", path.display());
                reserves += usize::from(interface.reserve.is_some());
                let arrivals = |policy: &InterfacePolicy| -> Vec<_> {
                    policy.plan.classes.iter().map(|class| class.arrivals).collect()
                };
                assert_eq!(arrivals(&again), arrivals(interface), "{}", path.display());
                curves += interface
                    .spec
                    .classes
                    .iter()
                    .filter(|class| class.sends.is_some())
                    .count();
                read += 1;
            }
        }
        assert!(
            read > 5 && reserves > 0 && curves > 0,
            "{read} interfaces, {reserves} that take reservations, {curves} arrival curves"
        );
    }

    #[test]
    fn a_recording_is_as_long_as_its_parts_and_is_written_in_their_order() {
        let file = RecordingFile(vec![
            Arc::new(b"abc".to_vec()),
            Arc::new(Vec::new()),
            Arc::new(b"de".to_vec()),
        ]);
        let mut out = Vec::new();
        file.write(&mut out).expect("memory");
        assert_eq!((file.bytes(), &*out), (5, &b"abcde"[..]));
        assert_eq!(RecordingFile(Vec::new()).bytes(), 0);
    }

    #[test]
    fn what_is_usual_of_a_link_is_not_written() {
        let registry = Registry::builtin();
        let json = |link: &str| {
            let text = format!("version = 1\n[interface.wan0]\nbandwidth = \"1 Mbit/s\"\n{link}");
            let policy = Policy::read("test", &text, &registry, &[]).expect("a policy");
            let form = RecordedPolicy::from(&policy.interfaces[0]);
            serde_json::to_value(&form).expect("JSON")
        };
        let usual = json("");
        assert!(
            usual.get("mpu").is_none() && usual.get("linklayer").is_none(),
            "{usual}"
        );
        let other = json("mpu = \"64 B\"\nlinklayer = \"atm\"\n");
        assert_eq!((&other["mpu"], &other["linklayer"]), (&64.into(), &"atm".into()));
    }
}
