//! Classes that may carry so much in a day, a week or a month: what they have carried, and what is
//! to be set when that is used up.
//!
//! Twice a second the counters of what left are read, of classes with quotas and those below them
//! alone; the packet loop does nothing more for it. What a policy states for a class afterwards is
//! set as `suimon set … until` sets it, but for nobody: so it ends by itself, and a restart goes on
//! with it, but it is no generation. Once it was set, somebody who sets otherwise is not
//! contradicted until another policy comes, or one is gone back to.
//!
//! Counts are in the folder of the generations, where there is one: written once a minute, when a
//! quota is used up, and at an orderly end. A crash forgets a minute of traffic at most.

use control::calendar;
use control::policy::InterfacePolicy;
use control::port_config::PortConfig;
use control::protocol::UsedUp;
use control::quota::{Quota, QuotaView};
use engine::packet::ClassId;
use engine::port_kind::{Attachment, opposite};
use engine::structures::shared_list::SharedList;
use engine::tree::{ClassInfo, ClassName, TreePlan};
use engine::units::{Duration, Instant};
use measure::numbers;
use netio::handle::{Handle, WorkerSnapshot};
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set_under: Option<u64>,
}

/// What a class has carried.
#[derive(Clone, Debug)]
struct Tally {
    per: String,
    used: u64,
    ends_ms: u64,
    /// Whether it was told that the quota is used up.
    told: bool,
    /// The generation that had put the policy into force under which what comes after was set.
    set_under: Option<u64>,
    /// It was refused, and is tried again then.
    again: Option<Instant>,
}

#[derive(Debug, Default)]
struct Tallies {
    of: BTreeMap<Place, Tally>,
    /// What classes had sent when that was read last, by interface.
    seen: HashMap<String, HashMap<ClassName, u64>>,
    /// Which classes count, by interface, as long as trees and quotas are those.
    counting: HashMap<String, Counting>,
    quotas: Vec<Arc<[Quota]>>,
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

/// The classes of an interface that count.
#[derive(Debug)]
struct Counting {
    /// The tree in which they have these numbers.
    tree: Arc<SharedList<ClassInfo>>,
    classes: Vec<ClassId>,
    /// The place of each in that list, with a class that has a quota: itself, or one above.
    parts: Vec<(usize, ClassName)>,
}

/// Who tells what classes have sent.
#[derive(Debug)]
pub(crate) enum Counters<'a> {
    /// The workers.
    Running(&'a Handle),
    /// Their last snapshot.
    Ended(&'a WorkerSnapshot),
}

/// The quotas of all interfaces.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    port: Option<PortConfig>,
    tallies: Mutex<Tallies>,
}

impl Quotas {
    /// Goes on with what an earlier run has written.
    pub(crate) fn new(port: Option<PortConfig>, written: io::Result<Option<Vec<u8>>>) -> Self {
        let read = written.and_then(|bytes| {
            let records = bytes.map(|bytes| serde_json::from_slice::<Vec<Record>>(&bytes));
            records.unwrap_or(Ok(Vec::new())).map_err(io::Error::other)
        });
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
                set_under: record.set_under,
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
    pub(crate) fn count(&self, interfaces: &[Carrying<'_>], counters: &Counters<'_>, now_ms: u64) {
        let mut tallies = self.tallies();
        tallies.look_up(interfaces);
        let mut carried = HashMap::new();
        for of in interfaces {
            // What is not told now is counted at the next look.
            if let Some(by_class) = tallies.carried(of, counters) {
                carried.insert(of.policy.name.as_str(), by_class);
            }
        }
        let quotas = interfaces
            .iter()
            .flat_map(|of| of.policy.quotas.iter().map(|quota| (&of.policy.name, quota)));
        for (interface, quota) in quotas {
            let sides = [Some(interface.clone()), self.other_side(interface)];
            let of = |side: String| carried.get(&*side)?.get(&*quota.class).copied();
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

    /// What is used up and has other settings then, which `is_set` finds not to be set, under the
    /// policy that this generation has put into force. What is used up is told once.
    pub(crate) fn used_up(
        &self,
        interfaces: &[Carrying<'_>],
        now: Instant,
        whole: u64,
        is_set: impl Fn(&UsedUp) -> bool,
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
                if waits || tally.set_under == Some(whole) {
                    continue;
                }
                let used_up = afterwards(interface, quota, tally.ends_ms);
                match is_set(&used_up) {
                    true => tally.set_under = Some(whole),
                    false => all.push(used_up),
                }
            }
        }
        all
    }

    /// What was used up was set under the policy of this generation, or was refused at this time.
    pub(crate) fn was_set(&self, used_up: &UsedUp, under: Result<u64, Instant>) {
        let mut tallies = self.tallies();
        tallies.is_changed = true;
        tallies.written = None;
        let place = (used_up.interface.clone(), used_up.class.clone());
        if let Some(tally) = tallies.of.get_mut(&place) {
            match under {
                Ok(whole) => (tally.set_under, tally.again) = (Some(whole), None),
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
            set_under: tally.set_under,
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
                then: quota.afterwards(),
            };
            Some((quota.class.clone(), view))
        };
        policy.quotas.iter().filter_map(view).collect()
    }
}

/// What a class has once its quota is used up.
fn afterwards(interface: &str, quota: &Quota, ends_ms: u64) -> UsedUp {
    UsedUp {
        quota: quota.settings.volume.to_string(),
        interface: interface.into(),
        class: quota.class.clone(),
        changes: quota.afterwards(),
        until_ms: ends_ms,
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
    /// Looks up which classes count, where a tree or the quotas are others now.
    fn look_up(&mut self, interfaces: &[Carrying<'_>]) {
        let same = |(old, of): (&Arc<[Quota]>, &Carrying<'_>)| Arc::ptr_eq(old, &of.policy.quotas);
        if self.quotas.len() != interfaces.len() || !self.quotas.iter().zip(interfaces).all(same) {
            self.quotas = interfaces
                .iter()
                .map(|of| Arc::clone(&of.policy.quotas))
                .collect();
            self.counting.clear();
        }
        let quotas = interfaces.iter().flat_map(|of| of.policy.quotas.iter());
        let wanted: HashSet<&str> = quotas.map(|quota| quota.class.as_str()).collect();
        for of in interfaces {
            let known = self.counting.get(&of.policy.name);
            if known.is_none_or(|known| !Arc::ptr_eq(&known.tree, &of.plan.classes)) {
                let counting = Counting::of(of.plan, &wanted);
                self.counting.insert(of.policy.name.clone(), counting);
            }
        }
    }

    /// What the classes of an interface that have quotas have carried since the last look, with
    /// those below them. `None` if nobody can tell now.
    fn carried(&mut self, of: &Carrying<'_>, counters: &Counters<'_>) -> Option<HashMap<ClassName, u64>> {
        let Counting { tree, classes, parts } = self.counting.get(&of.policy.name)?;
        let sent = counters.sent(of.path, tree, classes)?;
        let before = self.seen.get(&of.policy.name);
        let (mut seen, mut more) = (HashMap::with_capacity(sent.len()), Vec::with_capacity(sent.len()));
        for (class, sent) in classes.iter().zip(sent) {
            let name = &tree.get(class.0 as usize)?.name;
            // A class that is not known yet came with a policy: what it carried was another's.
            let before = before.and_then(|before| before.get(name).copied());
            let before = before.unwrap_or(if self.looked { sent } else { 0 });
            // A counter that began anew has all of it.
            more.push(if sent < before { sent } else { sent - before });
            seen.insert(name.clone(), sent);
        }
        let mut carried = HashMap::new();
        for (place, class) in parts {
            let sum: &mut u64 = carried.entry(class.clone()).or_default();
            *sum = sum.saturating_add(more[*place]);
        }
        self.seen.insert(of.policy.name.clone(), seen);
        Some(carried)
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

impl Counting {
    /// Those of a tree for which a class of these names counts: itself, or one above.
    fn of(plan: &TreePlan, wanted: &HashSet<&str>) -> Self {
        let tree = Arc::clone(&plan.classes);
        let (mut classes, mut parts) = (Vec::new(), Vec::new());
        if wanted.is_empty() {
            return Self { tree, classes, parts };
        }
        for (class, _) in (0..)
            .map(ClassId)
            .zip(tree.iter())
            .filter(|(_, info)| !info.vacant)
        {
            let before = parts.len();
            let mut above = tree.get(class.0 as usize);
            while let Some(info) = above {
                if wanted.contains(info.name.as_str()) {
                    parts.push((classes.len(), info.name.clone()));
                }
                above = info.parent.and_then(|parent| tree.get(parent.0 as usize));
            }
            if parts.len() > before {
                classes.push(class);
            }
        }
        Self { tree, classes, parts }
    }
}

impl Counters<'_> {
    /// The bytes that these classes of this tree have sent; `None` if nobody can tell now.
    fn sent(&self, path: PathId, tree: &SharedList<ClassInfo>, classes: &[ClassId]) -> Option<Vec<u64>> {
        match self {
            Self::Running(handle) => {
                let sent = handle.sent_by(path, tree, classes).ok()??;
                Some(sent.iter().map(|sent| sent.bytes.get()).collect())
            }
            Self::Ended(snapshot) => {
                let meters = &snapshot.paths.get(path.0)?.classes;
                let sent = meters.iter().map(|meter| (meter.class, meter.sent.bytes.get()));
                let sent: HashMap<ClassId, u64> = sent.collect();
                let of = |class| sent.get(class).copied().unwrap_or(0);
                Some(classes.iter().map(of).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::policy::Policy;
    use engine::tree::Registry;

    /// However many others there are.
    #[test]
    fn classes_with_quotas_and_those_below_them_are_looked_at_and_no_others() {
        let class = |name: &str, rest: &str| format!("[[interface.wan0.class]]\nname = \"{name}\"\n{rest}");
        let mut text =
            "version = 1\n[interface.wan0]\nbandwidth = \"1 Gbit/s\"\ndiscipline = \"hfsc\"\n".to_owned();
        text += &class(
            "home",
            "linkshare = \"1 Mbit/s\"\nquota = { volume = \"1 GB per day\" }\n",
        );
        text += &class(
            "anna",
            "parent = \"home\"\nlinkshare = \"1 Mbit/s\"\nquota = { volume = \"1 GB per day\" }\n",
        );
        text += &class("guests", "parent = \"home\"\nlinkshare = \"1 Mbit/s\"\n");
        for number in 0..1_000 {
            text += &class(&format!("site-{number}"), "linkshare = \"1 kbit/s\"\n");
        }
        text += "default = true\n";
        let read = Policy::read("test", &text, &Registry::builtin(), &[]);
        let policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
        let policy = &policy.interfaces[0];
        let carrying = [Carrying {
            policy,
            plan: &policy.plan,
            path: PathId(0),
        }];
        let mut tallies = Tallies::default();
        tallies.look_up(&carrying);
        let Counting { classes, parts, .. } = &tallies.counting["wan0"];
        assert_eq!(classes, &[0, 1, 2].map(ClassId));
        let mut parts: Vec<(usize, &str)> = parts.iter().map(|(at, name)| (*at, name.as_str())).collect();
        parts.sort_unstable();
        assert_eq!(parts, [(0, "home"), (1, "anna"), (1, "home"), (2, "home")]);
    }
}
