//! Changes of the policy in force: of a class, or of all that a file says.
//!
//! Each is checked as a whole before the worker gets it, so an invalid one is refused and nothing
//! changes. The worker adopts it while packets flow: in place where the classes stay, otherwise as
//! a new tree, into which packets move, each into the class where it would now go.

use crate::generations::{Change, Generation, Generations};
use crate::in_force::{InForce, InterfaceInForce};
use crate::kept::{Kept, MadeOf};
use crate::signalling::speaker::SpeakerHandle;
use control::difference::{Difference, GenerationView};
use control::policy::{InterfacePolicy, Policy};
use control::port_config::PortConfig;
use control::protocol::{Refusal, SettingChange};
use control::rsvp_config::RsvpConfig;
use control::text_file;
use engine::port_kind::PortKind;
use engine::settings::Raw;
use netio::handle::Adopted;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Changes of what is in force, one at a time.
#[derive(Debug)]
pub struct PolicyChanges {
    in_force: Arc<InForce>,
    speaker: Option<SpeakerHandle>,
    port: Option<PortConfig>,
    rsvp: Option<RsvpConfig>,
    /// Held during a change: each is made of what the one before left.
    generations: Mutex<Generations>,
}

impl PolicyChanges {
    /// Of the interfaces in force, whose ports and RSVP settings stay those of `policy`. The
    /// generations are kept on disk where an origin is given, from there on with what is in force.
    ///
    /// # Errors
    ///
    /// Returns an error if that cannot be written.
    pub fn new(
        in_force: Arc<InForce>,
        speaker: Option<SpeakerHandle>,
        policy: &Policy,
        origin: Option<(Kept, MadeOf)>,
    ) -> io::Result<Self> {
        let generations = Generations::new(policies(&in_force), origin)?;
        Ok(Self {
            in_force,
            speaker,
            port: policy.port.clone(),
            rsvp: policy.rsvp.clone(),
            generations: Mutex::new(generations),
        })
    }

    /// Notes an orderly end.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn ended(&self) -> io::Result<()> {
        self.alone().ended()
    }

    fn alone(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a class of an interface other settings. How many packets that dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the whole tree with them is refused; then nothing has changed.
    pub fn set_class(
        &self,
        interface: &str,
        class: &str,
        changes: &BTreeMap<String, SettingChange>,
    ) -> Result<u64, Refusal> {
        let mut generations = self.alone();
        generations.refuse_unconfirmed()?;
        let found = policies(&self.in_force)
            .into_iter()
            .find(|policy| policy.name == interface);
        let policy = found.ok_or_else(|| Refusal::new(format!("{interface} is no longer managed")))?;
        let raw: Vec<(&str, Raw)> = changes.iter().map(|(key, value)| (&**key, value.raw())).collect();
        let changed = policy.with_class_settings(self.in_force.registry(), class, &raw)?;
        let list = changes.iter().map(|(key, value)| format!("{key} = {value}"));
        let what = format!("{interface}: {class}: {}", list.collect::<Vec<_>>().join(", "));
        let set = |made_of: MadeOf| {
            let changes = changes.iter();
            changes.fold(made_of, |made, (key, value)| {
                made.with(interface, class, key, value)
            })
        };
        let change = Change {
            changes: vec![what],
            made_of: generations.made_of().map(set),
            ..Change::by("set")
        };
        generations.make(change, || {
            let dropped = self.put(changed, |changed| self.in_force.put_class(changed, class))?;
            Ok((dropped, policies(&self.in_force)))
        })
    }

    /// Puts the policy of an interface into force: by the RSVP node where that keeps classes in its
    /// tree. How many packets that dropped.
    fn put(
        &self,
        policy: InterfacePolicy,
        plainly: impl FnOnce(InterfacePolicy) -> Result<Adopted, Refusal>,
    ) -> Result<u64, Refusal> {
        let adopted = match &self.speaker {
            Some(speaker) if policy.reserve.is_some() => {
                speaker.change_policy(policy)?;
                Adopted::InPlace
            }
            _ => plainly(policy)?,
        };
        Ok(match adopted {
            Adopted::InPlace => 0,
            Adopted::Rebuilt { dropped } => dropped,
        })
    }

    /// What the policy of this file differs in from the one in force.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or has a mistake.
    pub fn plan(&self, file: &Path) -> Result<Difference, Refusal> {
        Ok(self.differences(&self.read(file)?.0))
    }

    fn differences(&self, new: &Policy) -> Difference {
        let in_force = self.in_force.all();
        let policies = in_force.iter().map(|managed| &managed.policy);
        Difference::between(policies, self.port.as_ref(), self.rsvp.as_ref(), new)
    }

    /// The policy of this file, and its text.
    fn read(&self, file: &Path) -> Result<(Policy, String), Refusal> {
        let shown = file.display().to_string();
        let unread = |why| Refusal::new(format!("cannot read the policy `{shown}`: {why}"));
        let text = text_file::read(file, text_file::LONGEST).map_err(unread)?;
        let read = Policy::read(&shown, &text, self.in_force.registry(), &self.ports());
        let policy = read.map_err(|mistakes| {
            Refusal::new(format!("{shown} is not in force:\n{}", mistakes.render(false)))
        })?;
        Ok((policy, text))
    }

    fn ports(&self) -> Vec<&'static PortKind> {
        match &self.port {
            Some(_) => netio::ports::declared(),
            None => Vec::new(),
        }
    }

    /// Puts the policy of this file into force, as a whole. What changed, and what it cost.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, has a mistake, or differs in what a running
    /// program cannot change, or a change waits to be confirmed; then nothing has changed.
    pub fn apply(&self, file: &Path, confirm_within: Option<Duration>) -> Result<String, Refusal> {
        let mut generations = self.alone();
        generations.refuse_unconfirmed()?;
        let (new, text) = self.read(file)?;
        let difference = self.differences(&new);
        refuse_restart(&difference)?;
        if difference.is_empty() {
            return Ok(format!("{} is in force already", file.display()));
        }
        let changes = difference.changes.join("\n");
        let shown = file.display().to_string();
        let on_disk = generations.are_on_disk();
        let change = Change {
            changes: difference.changes,
            made_of: on_disk.then(|| MadeOf::text(&shown, &text)),
            confirm_within,
            ..Change::by(format!("apply {shown}"))
        };
        let dropped = generations.make(change, || {
            let dropped = self.put_all(&new.interfaces)?;
            Ok((dropped, policies(&self.in_force)))
        })?;
        let lost = lost(dropped);
        let waits = confirm_within.map_or_else(String::new, |time| {
            format!(
                "; it is undone after {} s, unless you `suimon confirm`",
                time.as_secs_f64()
            )
        });
        Ok(format!(
            "{changes}\n{} is in force; {lost}{waits}",
            file.display()
        ))
    }

    /// Keeps a change that would be undone otherwise.
    ///
    /// # Errors
    ///
    /// Returns an error if no change waits for it.
    pub fn confirm(&self) -> Result<String, Refusal> {
        let number = self.alone().confirm()?;
        Ok(format!("generation {number} stays"))
    }

    /// Puts back the generation of this number; without one that before the last change.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not kept, or the worker does not respond.
    pub fn rollback(&self, to: Option<u64>) -> Result<String, Refusal> {
        self.return_to(&mut self.alone(), to)
    }

    fn return_to(&self, generations: &mut Generations, to: Option<u64>) -> Result<String, Refusal> {
        let found = generations.find(to)?;
        let back = self.policies_of(&found)?;
        let pairs = policies(&self.in_force);
        let pairs = pairs
            .iter()
            .zip(&back)
            .filter(|(now, back)| now.name == back.name);
        let changes: Vec<String> = pairs
            .flat_map(|(now, back)| Difference::of(now, back).changes)
            .collect();
        let said = changes
            .iter()
            .fold(String::new(), |said, change| said + change + "\n");
        let number = found.head.number;
        let change = Change {
            changes,
            made_of: found.made_of,
            back_to: Some(number),
            ..Change::by(format!("rollback to {number}"))
        };
        let dropped = generations.make(change, || {
            let dropped = self.put_all(&back)?;
            Ok((dropped, policies(&self.in_force)))
        })?;
        let lost = lost(dropped);
        Ok(format!(
            "{said}generation {number} is in force again, as {}; {lost}",
            generations.number()
        ))
    }

    /// The policies of a generation: one of an earlier run is read again.
    fn policies_of(&self, generation: &Generation) -> Result<Vec<InterfacePolicy>, Refusal> {
        match &generation.made_of {
            Some(made_of) if generation.policies.is_empty() => {
                let number = generation.head.number;
                let read = made_of.policy(self.in_force.registry(), &self.ports(), false);
                let why = |why| Refusal::new(format!("generation {number} cannot be read again: {why}"));
                let policy = read.map_err(why)?;
                refuse_restart(&self.differences(&policy))?;
                Ok(policy.interfaces)
            }
            _ => Ok(generation.policies.clone()),
        }
    }

    /// Undoes a change that nobody has confirmed in time. To be called many times a second.
    pub fn undo_unconfirmed(&self) -> Option<String> {
        let mut generations = self.alone();
        let back_to = generations.overdue()?;
        let done = self.return_to(&mut generations, Some(back_to));
        // Tried once: what cannot be put back now cannot be a moment later.
        generations.give_up();
        Some(match done {
            Ok(done) => format!("nobody has confirmed the change:\n{done}"),
            Err(why) => format!("nobody has confirmed the change, and it cannot be undone: {why}"),
        })
    }

    /// What was in force, change by change.
    pub fn history(&self) -> Vec<GenerationView> {
        self.alone().show()
    }

    /// Puts all that differ into force; if one is refused, those before it are put back.
    fn put_all(&self, new: &[InterfacePolicy]) -> Result<u64, Refusal> {
        let mut done: Vec<InterfacePolicy> = Vec::new();
        let mut dropped = 0;
        let plainly = |policy: InterfacePolicy| self.in_force.put(policy.clone(), policy);
        for InterfaceInForce { policy: old, .. } in self.in_force.all() {
            let Some(new) = new.iter().find(|new| new.name == old.name) else {
                continue;
            };
            if Difference::of(&old, new).is_empty() {
                continue;
            }
            match self.put(new.clone(), plainly) {
                Ok(lost) => dropped += lost,
                Err(why) => {
                    let back = done
                        .into_iter()
                        .try_for_each(|old| self.put(old, plainly).map(drop));
                    return Err(match back {
                        Ok(()) => why,
                        Err(also) => {
                            Refusal::new(format!("{why}; and what was changed before it stays: {also}"))
                        }
                    });
                }
            }
            done.push(old);
        }
        Ok(dropped)
    }
}

/// Refuses what only another start can put into force.
fn refuse_restart(difference: &Difference) -> Result<(), Refusal> {
    if difference.needs_restart.is_empty() {
        return Ok(());
    }
    let list = difference.needs_restart.join("\n  ");
    Err(Refusal {
        message: format!(
            "nothing was changed; these differ, and a running program cannot change them:\n  {list}"
        ),
        help: Some("end it, and run it with this policy".into()),
    })
}

/// The policies in force.
fn policies(in_force: &InForce) -> Vec<InterfacePolicy> {
    in_force.all().into_iter().map(|managed| managed.policy).collect()
}

/// What a change cost.
pub(crate) fn lost(packets: u64) -> String {
    match packets {
        0 => "no packet was dropped by the change".into(),
        1 => "1 packet did not fit and was dropped".into(),
        n => format!("{n} packets did not fit and were dropped"),
    }
}
