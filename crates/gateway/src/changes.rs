//! Changes of the policy in force: of a class, or of all that a file says.
//!
//! Each is checked as a whole before the worker gets it, so an invalid one is refused and nothing
//! changes. The worker adopts it while packets flow: in place where the classes stay, otherwise as
//! a new tree, into which packets move, each into the class where it would now go.

use crate::in_force::{InForce, InterfaceInForce};
use crate::signalling::speaker::SpeakerHandle;
use control::difference::Difference;
use control::policy::{InterfacePolicy, Policy};
use control::port_config::PortConfig;
use control::protocol::Refusal;
use control::rsvp_config::RsvpConfig;
use engine::settings::Raw;
use netio::handle::Adopted;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Changes of what is in force, one at a time.
#[derive(Debug)]
pub struct PolicyChanges {
    in_force: Arc<InForce>,
    speaker: Option<SpeakerHandle>,
    port: Option<PortConfig>,
    rsvp: Option<RsvpConfig>,
    /// Held during a change: each is made of what the one before left.
    changing: Mutex<()>,
}

impl PolicyChanges {
    /// Of the interfaces in force, whose ports and RSVP settings stay those of `policy`.
    pub fn new(in_force: Arc<InForce>, speaker: Option<SpeakerHandle>, policy: &Policy) -> Self {
        Self {
            in_force,
            speaker,
            port: policy.port.clone(),
            rsvp: policy.rsvp.clone(),
            changing: Mutex::default(),
        }
    }

    fn alone(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a class of an interface other settings. How many packets that dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the whole tree with them is refused; then nothing has changed.
    pub fn set_class(&self, interface: &str, class: &str, changes: &[(&str, Raw)]) -> Result<u64, Refusal> {
        let _alone = self.alone();
        let managed = self.in_force.all().into_iter();
        let found = managed
            .map(|managed| managed.policy)
            .find(|policy| policy.name == interface);
        let policy = found.ok_or_else(|| Refusal::new(format!("{interface} is no longer managed")))?;
        let changed = policy.with_class_settings(self.in_force.registry(), class, changes)?;
        self.put(changed, |changed| self.in_force.put_class(changed, class))
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
        Ok(self.differences(&self.read(file)?))
    }

    fn differences(&self, new: &Policy) -> Difference {
        let in_force = self.in_force.all();
        let policies = in_force.iter().map(|managed| &managed.policy);
        Difference::between(policies, self.port.as_ref(), self.rsvp.as_ref(), new)
    }

    fn read(&self, file: &Path) -> Result<Policy, Refusal> {
        let shown = file.display().to_string();
        let unread = |why| Refusal::new(format!("cannot read the policy `{shown}`: {why}"));
        let text = std::fs::read_to_string(file).map_err(unread)?;
        let ports = match &self.port {
            Some(_) => netio::ports::declared(),
            None => Vec::new(),
        };
        let read = Policy::read(&shown, &text, self.in_force.registry(), &ports);
        read.map_err(|mistakes| Refusal::new(format!("{shown} is not in force:\n{}", mistakes.render(false))))
    }

    /// Puts the policy of this file into force, as a whole. What changed, and what it cost.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, has a mistake, or differs in what a running
    /// program cannot change; then nothing has changed.
    pub fn apply(&self, file: &Path) -> Result<String, Refusal> {
        let _alone = self.alone();
        let new = self.read(file)?;
        let difference = self.differences(&new);
        if !difference.needs_restart.is_empty() {
            let list = difference.needs_restart.join("\n  ");
            return Err(Refusal {
                message: format!(
                    "nothing was changed; these differ, and a running program cannot change them:\n  {list}"
                ),
                help: Some("end it, and run it with this policy".into()),
            });
        }
        if difference.is_empty() {
            return Ok(format!("{} is in force already", file.display()));
        }
        let dropped = self.put_all(&new)?;
        let lost = match dropped {
            0 => "no packet was dropped by the change".into(),
            1 => "1 packet did not fit and was dropped".into(),
            n => format!("{n} packets did not fit and were dropped"),
        };
        let changes = difference.changes.join("\n");
        Ok(format!("{changes}\n{} is in force; {lost}", file.display()))
    }

    /// Puts all that differ into force; if one is refused, those before it are put back.
    fn put_all(&self, new: &Policy) -> Result<u64, Refusal> {
        let mut done: Vec<InterfacePolicy> = Vec::new();
        let mut dropped = 0;
        let plainly = |policy: InterfacePolicy| self.in_force.put(policy.clone(), policy);
        for InterfaceInForce { policy: old, .. } in self.in_force.all() {
            let Some(new) = new.interface(&old.name) else {
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
