//! Classes that may carry so much in a day, a week or a month: what they have carried, and what is
//! to be set when that is used up.
//!
//! Twice a second the counters of what left are read, of policies with quotas alone; the packet
//! loop does nothing for it. What a policy states for a class afterwards is set as `suimon set …
//! until` sets it: so it ends by itself, and a restart goes on with it. Once it was set under a
//! policy's text, somebody who sets or undoes otherwise is not contradicted until another text
//! comes.
//!
//! Counts are in the folder of the generations, where there is one: written once a minute, when a
//! quota is used up, and at an orderly end. A crash forgets a minute of traffic at most.

use control::calendar;
use control::policy::InterfacePolicy;
use control::port_config::PortConfig;
use control::protocol::{SettingChange, SettingChanges};
use control::quota::{Quota, QuotaView};
use engine::packet::ClassId;
use engine::port_kind::{Attachment, opposite};
use engine::tree::TreePlan;
use engine::units::{Duration, Instant};
use measure::numbers;
use netio::ClassMeter;
use netio::handle::WorkerSnapshot;
use netio::worker::PathId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often counts are written.
const WRITE: Duration = Duration::from_secs(60);
/// After a refusal what is used up is tried again.
const AGAIN: Duration = Duration::from_secs(60);
/// So many are set at once: each is a change of what is in force, and is written.
const AT_ONCE: usize = 16;

/// An interface and a class.
type Place = (String, String);

/// A count as it stands on the disk.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Record {
    interface: String,
    class: String,
    per: String,
    used_bytes: u64,
    ends_ms: u64,
}

/// What a class has carried.
#[derive(Clone, Debug)]
struct Tally {
    per: String,
    used: u64,
    ends_ms: u64,
    /// Whether it was told that the quota is used up.
    told: bool,
    /// The policy's text under which what comes after was set.
    set_under: Option<Arc<str>>,
    /// It was refused, and is tried again then.
    again: Option<Instant>,
}

#[derive(Debug, Default)]
struct Tallies {
    of: BTreeMap<Place, Tally>,
    /// What classes had sent when that was read last.
    seen: HashMap<Place, u64>,
    /// Whether there was a look: what was counted before the first one is of this run.
    looked: bool,
    /// When they were written, if there is a change since.
    written: Option<Instant>,
    is_changed: bool,
    /// Why they cannot be written, as it was told.
    unwritten: Option<String>,
}

/// An interface that is managed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carrying<'a> {
    /// Its policy.
    pub(crate) policy: &'a InterfacePolicy,
    /// The tree that runs.
    pub(crate) plan: &'a TreePlan,
    /// The worker's path.
    pub(crate) path: PathId,
}

/// A quota that is used up.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct UsedUp {
    /// What is to be set.
    pub(crate) change: SettingChanges,
}

/// The quotas of all interfaces.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    port: Option<PortConfig>,
    tallies: Mutex<Tallies>,
}

impl Quotas {
    /// Goes on with what an earlier run has written.
    pub(crate) fn new(port: Option<PortConfig>, written: Option<&[u8]>) -> Self {
        let read = written.map_or(Ok(Vec::new()), serde_json::from_slice::<Vec<Record>>);
        let records = read.unwrap_or_else(|why| {
            tracing::error!("what quotas have counted cannot be read, and is counted anew: {why}");
            Vec::new()
        });
        let of = records.into_iter().map(|record| {
            let tally = Tally {
                per: record.per,
                used: record.used_bytes,
                ends_ms: record.ends_ms,
                told: false,
                set_under: None,
                again: None,
            };
            ((record.interface, record.class), tally)
        });
        let tallies = Tallies {
            of: of.collect(),
            ..Tallies::default()
        };
        Self {
            port,
            tallies: Mutex::new(tallies),
        }
    }

    fn tallies(&self) -> MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what has left since the last look, at this time of the computer's clock.
    pub(crate) fn count(&self, interfaces: &[Carrying<'_>], snapshot: &WorkerSnapshot, now_ms: u64) {
        let mut tallies = self.tallies();
        let carried = tallies.carried(interfaces, snapshot);
        let quotas = interfaces
            .iter()
            .flat_map(|of| of.policy.quotas.iter().map(|quota| (&of.policy.name, quota)));
        for (interface, quota) in quotas {
            let sides = [Some(interface.clone()), self.other_side(interface)];
            let of = |side: String| carried.get(&(side, quota.class.clone()));
            let bytes: u64 = sides.into_iter().flatten().filter_map(of).sum();
            tallies.add(interface, quota, bytes, now_ms);
        }
        // Of a quota that is no longer in the policy the count stays, should it come again.
        tallies.of.retain(|_, tally| now_ms < tally.ends_ms);
        tallies.looked = true;
    }

    /// The interface that packets of the other direction leave by.
    fn other_side(&self, interface: &str) -> Option<String> {
        let port = self.port.as_ref()?.of_interface(interface)?;
        match &port.attachment {
            Attachment::Between(a, b) if a == interface => Some(b.clone()),
            Attachment::Between(a, _) => Some(a.clone()),
            Attachment::Egress(_) | Attachment::Ingress(_) => Some(opposite(interface)),
            Attachment::Files { .. } => None,
        }
    }

    /// What is used up and has other settings then, which `is_set` finds not to be set, under this
    /// text of the policy. What is used up is told once.
    pub(crate) fn used_up(
        &self,
        interfaces: &[Carrying<'_>],
        now: Instant,
        text: &Arc<str>,
        is_set: impl Fn(&SettingChanges) -> bool,
    ) -> Vec<UsedUp> {
        let mut tallies = self.tallies();
        let mut all = Vec::new();
        for of in interfaces {
            let interface = &of.policy.name;
            for quota in of.policy.quotas.iter() {
                let place = (interface.clone(), quota.class.clone());
                let Some(tally) = tallies.of.get_mut(&place) else {
                    continue;
                };
                if !tally.tell(interface, quota) || quota.then.is_empty() || all.len() >= AT_ONCE {
                    continue;
                }
                let waits = tally.again.is_some_and(|again| now < again);
                if waits || tally.set_under.as_ref() == Some(text) {
                    continue;
                }
                let change = afterwards(interface, quota, tally.ends_ms);
                match is_set(&change) {
                    true => tally.set_under = Some(Arc::clone(text)),
                    false => all.push(UsedUp { change }),
                }
            }
        }
        all
    }

    /// What was used up was set under this text, or was refused.
    pub(crate) fn was_set(&self, used_up: &UsedUp, text: Result<&Arc<str>, Instant>) {
        let SettingChanges { interface, class, .. } = &used_up.change;
        let mut tallies = self.tallies();
        tallies.is_changed = true;
        tallies.written = None;
        let place = (interface.clone(), class.clone().unwrap_or_default());
        if let Some(tally) = tallies.of.get_mut(&place) {
            match text {
                Ok(text) => (tally.set_under, tally.again) = (Some(Arc::clone(text)), None),
                Err(now) => tally.again = Some(now + AGAIN),
            }
        }
    }

    /// Writes the counts, if it is time, or at the end; why they cannot be written is told once.
    pub(crate) fn write(&self, now: Instant, at_end: bool, keep: impl FnOnce(&[u8]) -> io::Result<()>) {
        let mut tallies = self.tallies();
        let is_due = tallies.written.is_none_or(|written| now.since(written) >= WRITE);
        if !tallies.is_changed || !(is_due || at_end) {
            return;
        }
        let records = tallies.of.iter().map(|((interface, class), tally)| Record {
            interface: interface.clone(),
            class: class.clone(),
            per: tally.per.clone(),
            used_bytes: tally.used,
            ends_ms: tally.ends_ms,
        });
        let records: Vec<Record> = records.collect();
        let written = serde_json::to_vec(&records).map_err(io::Error::other);
        let why = written.and_then(|bytes| keep(&bytes)).err();
        let why = why.map(|why| why.to_string());
        if let Some(why) = why
            .as_ref()
            .filter(|why| tallies.unwritten.as_ref() != Some(*why))
        {
            tracing::error!("what quotas have counted cannot be written, and a restart forgets it: {why}");
        }
        tallies.is_changed = why.is_some();
        tallies.unwritten = why;
        tallies.written = Some(now);
    }

    /// How the quotas of this policy stand at this time, by class.
    pub(crate) fn of(&self, policy: &InterfacePolicy, now_ms: u64) -> BTreeMap<String, QuotaView> {
        if policy.quotas.is_empty() {
            return BTreeMap::new();
        }
        let tallies = self.tallies();
        let view = |quota: &Quota| {
            let tally = tallies.of.get(&(policy.name.clone(), quota.class.clone()));
            let volume = quota.settings.volume;
            // Before the first look nothing is counted.
            let (used, ends_ms) = match tally {
                Some(tally) => (tally.used, tally.ends_ms),
                None => (0, calendar::end_of(volume.per, now_ms)?),
            };
            let view = QuotaView {
                volume_bytes: volume.bytes.get(),
                per: volume.per.name().into(),
                used_bytes: used,
                ends_ms,
                used_up: used >= volume.bytes.get(),
            };
            Some((quota.class.clone(), view))
        };
        policy.quotas.iter().filter_map(view).collect()
    }
}

/// What a class has once its quota is used up.
fn afterwards(interface: &str, quota: &Quota, ends_ms: u64) -> SettingChanges {
    let changes = quota.then.iter();
    let changes = changes.filter_map(|(key, value)| Some((key.clone(), SettingChange::of(value)?)));
    SettingChanges {
        interface: interface.into(),
        class: Some(quota.class.clone()),
        changes: changes.collect(),
        until_ms: Some(ends_ms),
        reason: Some(format!("{} are used up", quota.settings.volume)),
    }
}

impl Tally {
    /// Whether the quota is used up, which is told when it comes to be.
    fn tell(&mut self, interface: &str, quota: &Quota) -> bool {
        let used_up = self.used >= quota.settings.volume.bytes.get();
        if used_up && !self.told {
            let class = quota.class.as_str();
            let anew = calendar::shown(self.ends_ms);
            tracing::warn!(
                interface,
                class,
                "{interface}: {class} has used up {}: {} since; it begins anew {anew}",
                quota.settings.volume,
                numbers::bytes(self.used)
            );
        }
        self.told = used_up;
        used_up
    }
}

impl Tallies {
    /// What each class has carried since the last look.
    fn carried(&mut self, interfaces: &[Carrying<'_>], snapshot: &WorkerSnapshot) -> HashMap<Place, u64> {
        let (mut carried, mut seen) = (HashMap::new(), HashMap::new());
        let quotas = interfaces.iter().flat_map(|of| of.policy.quotas.iter());
        let wanted: HashSet<&str> = quotas.map(|quota| quota.class.as_str()).collect();
        for of in interfaces {
            let meters = snapshot
                .paths
                .get(of.path.0)
                .map_or(&[][..], |path| &*path.classes);
            for (class, sent) in sent_by_class(of.plan, meters, &wanted) {
                let place = (of.policy.name.clone(), class);
                // A class that is not known yet came with a policy: what it carried was another's.
                let before = self.seen.get(&place).copied();
                let before = before.unwrap_or(if self.looked { sent } else { 0 });
                // A counter that began anew has all of it.
                let more = if sent < before { sent } else { sent - before };
                carried.insert(place.clone(), more);
                seen.insert(place, sent);
            }
        }
        self.seen = seen;
        carried
    }

    fn add(&mut self, interface: &str, quota: &Quota, bytes: u64, now_ms: u64) {
        let volume = quota.settings.volume;
        let place = (interface.to_owned(), quota.class.clone());
        let goes_on = |tally: &&mut Tally| now_ms < tally.ends_ms && tally.per == volume.per.name();
        if let Some(tally) = self.of.get_mut(&place).filter(goes_on) {
            tally.used = tally.used.saturating_add(bytes);
            self.is_changed |= bytes > 0;
            return;
        }
        let Some(ends_ms) = calendar::end_of(volume.per, now_ms) else {
            return;
        };
        let tally = Tally {
            per: volume.per.name().into(),
            used: bytes,
            ends_ms,
            told: false,
            set_under: None,
            again: None,
        };
        self.of.insert(place, tally);
        self.is_changed = true;
    }
}

/// What each of these classes has sent, with the classes below it.
fn sent_by_class(plan: &TreePlan, meters: &[ClassMeter], wanted: &HashSet<&str>) -> Vec<(String, u64)> {
    let mut sent = vec![0_u64; plan.classes.len()];
    for meter in meters {
        if let Some(own) = sent.get_mut(meter.class.0 as usize) {
            *own = own.saturating_add(meter.sent.bytes.get());
        }
    }
    let order = control::snapshot::depth_first(plan);
    for &(index, _) in order.iter().rev() {
        if let Some(ClassId(parent)) = plan.classes[index].parent {
            sent[parent as usize] = sent[parent as usize].saturating_add(sent[index]);
        }
    }
    let named = order
        .iter()
        .map(|&(index, _)| (&plan.classes[index].name, sent[index]));
    named
        .filter(|(name, _)| wanted.contains(name.as_str()))
        .map(|(name, sent)| (name.to_string(), sent))
        .collect()
}
