//! Changes of the policy in force: of settings, for good or for a time, or of all that a file says.
//!
//! Each is checked as a whole before the worker gets it, so an invalid one is refused and nothing
//! changes. The worker adopts it while packets flow: in place where the classes stay, otherwise as
//! a new tree, into which packets move, each into the class where it would now go.

use crate::ends::{After, Changing, Ends};
use crate::generations::{Change, Generation, Generations, Lasting};
use crate::in_force::{Adoption, InForce, InterfaceInForce};
use crate::kept::{Kept, MadeOf};
use crate::signalling::budgets::ChangedPolicy;
use crate::signalling::speaker::SpeakerHandle;
use crate::vacancies::as_written;
use control::begins_anew::ClassesAnew;
use control::calendar;
use control::class_change::ClassChanged;
use control::difference::{Applied, Breaking, Difference, GenerationView};
use control::one_class::{ClassBecomes, OneClass, Otherwise, otherwise};
use control::policy::{InterfacePolicy, Policy};
use control::port_config::PortConfig;
use control::promises;
use control::protocol::{Amendment, Refusal, SettingChange, SettingChanges, UsedUp};
use control::provenance::Provenance;
use control::rsvp_config::RsvpConfig;
use control::shared_text::SharedText;
use control::text_file;
use engine::packet::ClassId;
use engine::port_kind::PortKind;
use engine::settings::Raw;
use engine::units;
use netio::handle::Adopted;
use netio::time::CallerTime;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Help where a policy cannot be written.
const WRITES_THERE: &str = "it writes in the folder of the policy that `run` began with (docs/security.md): begin with \
                            this file, or copy it there";

/// Changes of what is in force, one at a time.
#[derive(Debug)]
pub struct PolicyChanges {
    in_force: Arc<InForce>,
    speaker: Option<SpeakerHandle>,
    port: Option<PortConfig>,
    rsvp: Option<RsvpConfig>,
    /// Held during a change: each is made of what the one before left.
    generations: Mutex<Generations>,
    /// Of the generation in force, if they are known.
    ends: Mutex<Ends>,
    /// What was set for a time could not be ended: when that is tried again.
    ends_again: Mutex<Option<units::Instant>>,
}

/// After this time it is tried again to end what was set for a time, or to undo what nobody has
/// confirmed.
const AGAIN: Duration = Duration::from_secs(60);

impl PolicyChanges {
    /// Of the interfaces in force, whose ports and RSVP settings stay those of `policy`, which was
    /// made of this. The generations are kept on disk as well, where one is given.
    ///
    /// # Errors
    ///
    /// Returns an error if that cannot be written.
    pub fn new(
        in_force: Arc<InForce>,
        speaker: Option<SpeakerHandle>,
        policy: &Policy,
        on_disk: Option<Kept>,
        made_of: MadeOf,
    ) -> io::Result<Self> {
        let generations = Generations::new(policies(&in_force), on_disk, made_of, in_force.time().clone())?;
        generations.made_of().expect_changes();
        Ok(Self {
            in_force,
            speaker,
            port: policy.port.clone(),
            rsvp: policy.rsvp.clone(),
            generations: Mutex::new(generations),
            ends: Mutex::default(),
            ends_again: Mutex::default(),
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

    fn time(&self) -> &CallerTime {
        self.in_force.time()
    }

    fn alone(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes settings, for good or for a time.
    ///
    /// # Errors
    ///
    /// Returns an error if the whole tree with them is refused, or that without them when they end;
    /// then nothing has changed.
    pub fn set(&self, wanted: &SettingChanges, by: Provenance) -> Result<Changed, Refusal> {
        let mut generations = self.alone();
        generations.refuse_unconfirmed()?;
        if wanted.until_ms.is_some_and(|until| until <= self.time().now_ms()) {
            return Err(Refusal::new(format!(
                "nothing was changed: {wanted} is over already"
            )));
        }
        let what = wanted.to_string();
        let amendment = Amendment::Set(wanted.clone());
        let change = Change {
            changes: vec![what.clone()],
            // What is over and not ended yet stays in it, since it is still in force.
            made_of: generations.made_of().clone().with(&amendment),
            ..Change::by("set", by)
        };
        let cost = match &wanted.class {
            Some(class) => {
                let changed = self.with_settings(&wanted.interface, class, &wanted.changes)?;
                changed.refuse_wrong_then(self.in_force.registry())?;
                self.make(&mut generations, &amendment, change, || {
                    self.adopt_class(changed, class)
                })?
            }
            None => self.set_interface(&mut generations, &amendment, change)?,
        };
        Ok(Changed::new(what, &cost))
    }

    /// Adds a class, or removes one, for good or for a time.
    ///
    /// # Errors
    ///
    /// As [`PolicyChanges::set`].
    pub fn change_class(&self, wanted: &Amendment, by: Provenance) -> Result<Changed, Refusal> {
        let mut generations = self.alone();
        generations.refuse_unconfirmed()?;
        if wanted
            .until_ms()
            .is_some_and(|until| until <= self.time().now_ms())
        {
            return Err(Refusal::new(format!(
                "nothing was changed: {wanted} is over already"
            )));
        }
        let what = wanted.to_string();
        let request = match wanted {
            Amendment::Removed(_) => "class remove",
            _ => "class add",
        };
        let change = Change {
            changes: vec![what.clone()],
            made_of: generations.made_of().clone().with(wanted),
            ..Change::by(request, by)
        };
        let policy = self.in_force.policy_of(wanted.interface())?;
        let cost = match policy.with_class_change(self.in_force.registry(), wanted) {
            Some(changed) => {
                changed.policy.refuse_wrong_then(self.in_force.registry())?;
                self.make(&mut generations, wanted, change, || self.adopt_renewed(changed))?
            }
            // All classes have to be looked at.
            None => self.set_interface(&mut generations, wanted, change)?,
        };
        Ok(Changed::new(what, &cost))
    }

    /// Sets what a quota states for a class that has used it up, until it begins anew. That is no
    /// generation: nobody has asked for it, so nobody undoes it, and what is gone back to has it,
    /// too. A change that waits to be confirmed gets it as any other.
    ///
    /// # Errors
    ///
    /// As [`PolicyChanges::set`].
    pub(crate) fn use_up(&self, used_up: &UsedUp) -> Result<Changed, Refusal> {
        let mut generations = self.alone();
        let amendment = Amendment::UsedUp(used_up.clone());
        let made_of = generations.made_of().clone().with(&amendment);
        let after = self.after_ends(&generations, &amendment, &made_of)?;
        let changed = self.with_settings(&used_up.interface, &used_up.class, &used_up.changes)?;
        let cost = generations.amend(made_of, Lasting::Must, || {
            self.adopt_class(changed, &used_up.class)
        })?;
        self.keep_ends(&generations, after);
        Ok(Changed::new(amendment.to_string(), &cost))
    }

    /// The policy in force with these settings of a class.
    fn with_settings(
        &self,
        interface: &str,
        class: &str,
        settings: &BTreeMap<String, SettingChange>,
    ) -> Result<InterfacePolicy, Refusal> {
        let policy = self.in_force.policy_of(interface)?;
        let raw = settings.iter().map(|(key, value)| (&**key, value.raw()));
        let raw: Vec<(&str, Raw)> = raw.collect();
        Ok(policy.with_class_settings(self.in_force.registry(), class, &raw)?)
    }

    /// Puts a policy into force in which this class has other settings.
    fn adopt_class(
        &self,
        changed: InterfacePolicy,
        class: &str,
    ) -> Result<(Cost, Vec<InterfacePolicy>), Refusal> {
        let plainly = |changed| self.in_force.put_class(changed, class);
        let cost = self.put(changed, Breaking::Refused, plainly)?;
        Ok((cost, policies(&self.in_force)))
    }

    /// Puts a policy into force in which a class has come or gone.
    fn adopt_renewed(&self, changed: ClassChanged) -> Result<(Cost, Vec<InterfacePolicy>), Refusal> {
        let policy = changed.policy.clone();
        let cost = self.put(policy, Breaking::Refused, |_| self.in_force.put_changed(changed))?;
        Ok((cost, policies(&self.in_force)))
    }

    fn set_interface(
        &self,
        generations: &mut Generations,
        wanted: &Amendment,
        change: Change,
    ) -> Result<Cost, Refusal> {
        let changed = self.policy_of(&change.made_of)?;
        refuse_restart(&self.differences(&changed))?;
        self.make(generations, wanted, change, || {
            self.adopt(&changed.interfaces, Breaking::Refused)
        })
    }

    /// Makes a change that nothing speaks against, now or when something ends by itself.
    fn make(
        &self,
        generations: &mut Generations,
        wanted: &Amendment,
        change: Change,
        adopt: impl FnOnce() -> Result<(Cost, Vec<InterfacePolicy>), Refusal>,
    ) -> Result<Cost, Refusal> {
        let after = self.after_ends(generations, wanted, &change.made_of)?;
        let cost = generations.make(change, adopt)?;
        self.keep_ends(generations, after);
        Ok(cost)
    }

    fn keep_ends(&self, generations: &Generations, after: After) {
        let generation = generations.number();
        *self.known_ends() = Ends { generation, after };
    }

    fn known_ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn policy_of(&self, made_of: &MadeOf) -> Result<Policy, Refusal> {
        self.remade(made_of)
            .map_err(|why| Refusal::new(format!("nothing was changed:\n{why}")))
    }

    /// Reads again what a generation was made of.
    fn remade(&self, made_of: &MadeOf) -> Result<Policy, String> {
        made_of.policy(self.in_force.registry(), &self.ports(), false)
    }

    /// What will be in force when settings end by themselves; refuses what would leave something
    /// wrong behind.
    fn after_ends(
        &self,
        generations: &Generations,
        change: &Amendment,
        made_of: &MadeOf,
    ) -> Result<After, Refusal> {
        let policies = policies(&self.in_force);
        let changing = Changing {
            change,
            generation: generations.number(),
            policies: &policies,
            from: generations.made_of(),
            to: made_of,
        };
        let read = |end: u64| {
            let left = self.remade(&made_of.clone().at(end));
            left.map(|policy| policy.interfaces).map_err(|why| Refusal {
                message: format!(
                    "nothing was changed: what is in force after {} would be wrong:\n{why}",
                    calendar::shown(end)
                ),
                help: Some("set first what may stay, then what ends by itself".into()),
            })
        };
        self.known_ends().with(&changing, self.in_force.registry(), read)
    }

    /// Writes what was set, but for what ends by itself, into the policy's file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such file, it was edited since, or cannot be written; what
    /// is in force stays so.
    pub fn save(&self, by: Provenance) -> Result<String, Refusal> {
        let mut generations = self.alone();
        generations.refuse_unconfirmed()?;
        let (made_of, saving) = generations.made_of().saved()?;
        saving.refuse_edited()?;
        let file = &saving.file;
        let change = Change {
            changes: vec![format!("what was set is in {file}")],
            made_of,
            ..Change::by("save", by)
        };
        // A crash in between, before or after, leaves the same in force.
        generations.make(change, || {
            let unwritten = |why: io::Error| Refusal {
                message: format!("{file} stays as it is: it cannot be written: {why}"),
                help: (why.kind() == io::ErrorKind::PermissionDenied).then(|| WRITES_THERE.into()),
            };
            saving.write().map_err(unwritten)?;
            Ok(((), policies(&self.in_force)))
        })?;
        Ok(format!("{file} has what was set"))
    }

    /// Puts the policy of an interface into force: by the RSVP node where that keeps classes in its
    /// tree.
    fn put(
        &self,
        policy: InterfacePolicy,
        breaking: Breaking,
        plainly: impl FnOnce(InterfacePolicy) -> Result<(Adoption, Option<ClassId>), Refusal>,
    ) -> Result<Cost, Refusal> {
        match &self.speaker {
            Some(speaker) if policy.reserve.is_some() => {
                let ChangedPolicy { breaks, begins_anew } = speaker.change_policy(policy, breaking)?;
                Ok(Cost {
                    breaks,
                    begins_anew,
                    ..Cost::default()
                })
            }
            _ => {
                let (Adoption { adopted, begins_anew }, alone) = plainly(policy)?;
                let dropped = match adopted {
                    Adopted::InPlace => 0,
                    Adopted::Rebuilt { dropped } => dropped,
                };
                Ok(Cost {
                    dropped,
                    alone,
                    begins_anew,
                    ..Cost::default()
                })
            }
        }
    }

    /// What the policy of this file differs in from the one in force. Given up if whoever asked
    /// does not wait any more (`stop`).
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or has a mistake.
    pub fn plan(&self, file: &Path, stop: &dyn Fn() -> bool) -> Result<Difference, Refusal> {
        let new = self.policy_in(file)?;
        refuse_unasked(stop)?;
        let mut difference = self.differences(&new);
        for whole in self.judge(&new, &mut difference)? {
            refuse_unasked(stop)?;
            difference.begins_anew.extend(self.in_force.foresee(whole)?);
        }
        Ok(difference)
    }

    /// Says what the change does to promises, those of reservations included. The trees that would
    /// run, with their reservations, of interfaces that differ.
    fn judge(&self, new: &Policy, difference: &mut Difference) -> Result<Vec<InterfacePolicy>, Refusal> {
        let mut trees = Vec::new();
        for managed in self.in_force.all() {
            let Some(new) = new.interface(&managed.policy.name) else {
                continue;
            };
            if Difference::of(&managed.policy, new).is_empty() {
                continue;
            }
            let takes = |_: &&SpeakerHandle| managed.policy.reserve.is_some() && new.reserve.is_some();
            let tried = match self.speaker.as_ref().filter(takes) {
                Some(speaker) => speaker.try_policy(new.clone())?,
                None => None,
            };
            let new = match tried {
                Some(tried) => {
                    difference.breaks.extend(tried.breaks);
                    difference.short.extend(tried.short);
                    tried.whole
                }
                None => Some(new.clone()),
            };
            let promised = as_written(&managed.promised, self.in_force.registry());
            if let Some(new) = &new {
                difference.add_promises(promises::changes(&promised, new));
            }
            trees.extend(new);
        }
        Ok(trees)
    }

    fn differences(&self, new: &Policy) -> Difference {
        let in_force = self.in_force.all();
        let policies = in_force.iter().map(|managed| &managed.policy);
        Difference::between(policies, self.port.as_ref(), self.rsvp.as_ref(), new)
    }

    /// The policy of this file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or has a mistake.
    pub fn policy_in(&self, file: &Path) -> Result<Policy, Refusal> {
        let text = text_file::read(file, text_file::LONGEST).map_err(|why| unread(file, &why))?;
        self.read(file, &text)
    }

    /// The policy that this text of a file states.
    fn read(&self, file: &Path, text: &str) -> Result<Policy, Refusal> {
        let shown = file.display().to_string();
        let read = Policy::read(&shown, text, self.in_force.registry(), &self.ports());
        read.map_err(|mistakes| Refusal::new(format!("{shown} is not in force:\n{}", mistakes.render(false))))
    }

    fn ports(&self) -> Vec<&'static PortKind> {
        match &self.port {
            Some(_) => netio::ports::declared(),
            None => Vec::new(),
        }
    }

    /// Puts the policy of this file into force as a whole. What changed, and what it cost. Given up
    /// if whoever asked does not wait any more (`stop`), until it begins to be put into force: then
    /// it is.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, has a mistake, or differs in what a running
    /// program cannot change, or breaks reservations and may not, or a change waits to be
    /// confirmed; then nothing has changed.
    pub fn apply(
        &self,
        file: &Path,
        confirm_within: Option<Duration>,
        breaking: Breaking,
        by: Provenance,
        stop: &dyn Fn() -> bool,
    ) -> Result<AppliedFile, Refusal> {
        let mut generations = self.alone();
        generations.refuse_unconfirmed()?;
        let text = generations.made_of().read_like(file);
        let text = text.map_err(|why| unread(file, &why))?;
        let shown = file.display().to_string();
        let wanted = |text| Wanted {
            file: &shown,
            text,
            confirm_within,
            by,
            stop,
        };
        match self.otherwise(&generations, &text) {
            Some(Otherwise::Nothing) => Ok(wanted(text).already()),
            Some(Otherwise::Class(one)) => self.apply_class(&mut generations, wanted(text), *one),
            None => {
                let new = self.read(file, &text.whole())?;
                self.apply_whole(&mut generations, wanted(text), &new, breaking)
            }
        }
    }

    /// What a text says otherwise than what is in force, if that is one class; `None` if only a
    /// reading of the whole can tell.
    fn otherwise(&self, generations: &Generations, text: &SharedText) -> Option<Otherwise> {
        let in_force = generations.made_of().unchanged_text()?;
        otherwise(
            (in_force, text),
            &policies(&self.in_force),
            self.in_force.registry(),
        )
    }

    fn apply_whole(
        &self,
        generations: &mut Generations,
        wanted: Wanted<'_>,
        new: &Policy,
        breaking: Breaking,
    ) -> Result<AppliedFile, Refusal> {
        let mut difference = self.differences(new);
        refuse_restart(&difference)?;
        if difference.is_empty() {
            return Ok(wanted.already());
        }
        self.judge(new, &mut difference)?;
        let adopt = || self.adopt(&new.interfaces, breaking);
        let (applied, _) = wanted.make(generations, difference, adopt)?;
        generations.made_of().expect_changes();
        Ok(AppliedFile { applied, alone: None })
    }

    /// The same of a text that differs in one class alone.
    fn apply_class(
        &self,
        generations: &mut Generations,
        wanted: Wanted<'_>,
        one: OneClass,
    ) -> Result<AppliedFile, Refusal> {
        let OneClass { class, becomes } = one;
        let new = becomes.policy();
        let interface = new.name.clone();
        let old = self.in_force.policy_of(&interface)?;
        let mut difference = Difference::of_class(&old, new, &class, becomes.filters(&old));
        if difference.is_empty() {
            return Ok(wanted.already());
        }
        let promised = promises::changes_of_class(&old, new, &class).unwrap_or_else(|| {
            let [old, new] = [&old, new].map(|policy| as_written(policy, self.in_force.registry()));
            promises::changes(&old, &new)
        });
        difference.add_promises(promised);
        let adopt = || match becomes {
            ClassBecomes::Renewed(changed) => self.adopt_renewed(changed),
            ClassBecomes::Amended(policy) => self.adopt_class(policy, &class),
        };
        let (applied, alone) = wanted.make(generations, difference, adopt)?;
        let alone = alone.map(|class| (interface, class));
        Ok(AppliedFile { applied, alone })
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

    /// Puts back the generation of this number. Without one a change that waits to be confirmed is
    /// undone; if none waits, the latest generation is put back that differs from what is in force
    /// and was not undone, so that a rollback after a rollback goes further back.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not kept, or breaks reservations and may not, or the worker does
    /// not respond.
    pub fn rollback(&self, to: Option<u64>, breaking: Breaking, by: Provenance) -> Result<String, Refusal> {
        let mut generations = self.alone();
        let back = match to.or_else(|| generations.waits_before()) {
            Some(number) => self.back_to(generations.find(number)?, generations.made_of())?,
            None => self.last_that_differs(&generations)?,
        };
        self.return_to(&mut generations, back, breaking, by)
    }

    /// What a generation is made of at this moment, in place of what is in force.
    fn left_of(&self, generation: &Generation, in_force: &MadeOf) -> MadeOf {
        let left = generation.made_of.clone().at(self.time().now_ms());
        left.with_quotas_of(in_force)
    }

    /// What going back to a generation comes to now.
    fn back_to(&self, generation: &Generation, in_force: &MadeOf) -> Result<Back, Refusal> {
        let made_of = self.left_of(generation, in_force);
        let policies = self.policies_of(generation, &made_of)?;
        Ok(Back {
            number: generation.head.number,
            changes: self.changes_to(&policies),
            policies,
            made_of,
        })
    }

    /// The latest generation that going back to would change something.
    fn last_that_differs(&self, generations: &Generations) -> Result<Back, Refusal> {
        let in_force = generations.made_of();
        for generation in generations.earlier() {
            if self.left_of(generation, in_force).reads_as(in_force) {
                continue;
            }
            let back = self.back_to(generation, in_force)?;
            if !back.changes.is_empty() {
                return Ok(back);
            }
        }
        Err(generations.refusal("nothing that was in force before is kept and differs"))
    }

    fn return_to(
        &self,
        generations: &mut Generations,
        back: Back,
        breaking: Breaking,
        by: Provenance,
    ) -> Result<String, Refusal> {
        let said = back
            .changes
            .iter()
            .fold(String::new(), |said, change| said + change + "\n");
        let number = back.number;
        let change = Change {
            changes: back.changes,
            made_of: back.made_of,
            back_to: Some(number),
            ..Change::by(format!("rollback to {number}"), by)
        };
        let cost = generations.make(change, || self.adopt(&back.policies, breaking))?;
        Ok(format!(
            "{said}generation {number} is in force again, as {}; {cost}",
            generations.number()
        ))
    }

    /// In what these policies differ from those in force.
    fn changes_to(&self, new: &[InterfacePolicy]) -> Vec<String> {
        let now = policies(&self.in_force);
        let pairs = now.iter().zip(new).filter(|(now, new)| now.name == new.name);
        pairs
            .flat_map(|(now, new)| Difference::of(now, new).changes)
            .collect()
    }

    /// The policies of a generation, of which this is left: one of an earlier run is read again,
    /// and one of which something is over.
    fn policies_of(&self, generation: &Generation, left: &MadeOf) -> Result<Vec<InterfacePolicy>, Refusal> {
        if *left == generation.made_of && !generation.policies.is_empty() {
            return Ok(generation.policies.clone());
        }
        let number = generation.head.number;
        let why = |why| Refusal::new(format!("generation {number} cannot be read again: {why}"));
        let policy = self.remade(left).map_err(why)?;
        refuse_restart(&self.differences(&policy))?;
        Ok(policy.interfaces)
    }

    /// Does what is due by itself: undoes what nobody has confirmed in time, and ends what was set
    /// for a time. To be called many times a second. What was done, or why it cannot be; none if
    /// nothing was due.
    pub fn settle(&self) -> Option<Result<String, String>> {
        let gone = self.alone().take_gone();
        drop(gone);
        self.undo_unconfirmed().or_else(|| self.end_timed())
    }

    fn end_timed(&self) -> Option<Result<String, String>> {
        let mut generations = self.alone();
        let now = self.time().now_ms();
        let rest = generations.rest(now)?;
        let mut again = self.ends_again.lock().unwrap_or_else(PoisonError::into_inner);
        if again.is_some_and(|again| self.time().now() < again) {
            return None;
        }
        *again = None;
        Some(match self.end(&mut generations, rest, now) {
            Ok(done) => Ok(format!("what was set for a time is over:\n{done}")),
            Err(why) => {
                *again = Some(self.time().after(AGAIN));
                Err(format!(
                    "what was set for a time is over and cannot be ended; it is tried again in a minute: {why}"
                ))
            }
        })
    }

    fn end(&self, generations: &mut Generations, rest: MadeOf, now: u64) -> Result<String, Refusal> {
        let known = self
            .known_ends()
            .after(generations.number(), now)
            .map(<[_]>::to_vec);
        let (new, later) = match known {
            Some(new) => (new, self.known_ends().after.split_off(&(now + 1))),
            None => (self.policy_of(&rest)?.interfaces, After::new()),
        };
        let changes = self.changes_to(&new);
        let said = changes.join("\n");
        // Whoever set it was told when it ends.
        let adopt = || self.adopt(&new, Breaking::Allowed);
        let cost = match generations.made_of().quotas_alone_end_by(now) {
            true => generations.amend(rest, Lasting::ByItself, adopt)?,
            false => {
                let change = Change {
                    changes,
                    made_of: rest,
                    ends_by_itself: true,
                    ..Change::by("the end of a set", Provenance::default())
                };
                generations.make(change, adopt)?
            }
        };
        self.keep_ends(generations, later);
        Ok(format!("{said}\n{cost}"))
    }

    fn undo_unconfirmed(&self) -> Option<Result<String, String>> {
        let mut generations = self.alone();
        let (back_to, number) = (generations.overdue()?, generations.number());
        let back = generations
            .find(back_to)
            .and_then(|generation| self.back_to(generation, generations.made_of()));
        let done = back.and_then(|back| {
            self.return_to(&mut generations, back, Breaking::Allowed, Provenance::default())
        });
        // It may be undone, though that could not be written.
        let is_undone = done.is_ok() || generations.number() != number;
        let again = match is_undone {
            true => {
                generations.waits_no_longer();
                ""
            }
            // Reservations that have come since may be in its way, which end.
            false => {
                generations.waits_again(AGAIN);
                "; that is tried again in a minute"
            }
        };
        Some(match done {
            Ok(done) => Ok(format!("nobody has confirmed the change:\n{done}")),
            Err(why) => Err(format!(
                "nobody has confirmed the change, and it cannot be undone{again}: {why}"
            )),
        })
    }

    /// From now on nothing changes, as another program takes over: what is in force. Or again as
    /// always.
    ///
    /// # Errors
    ///
    /// Returns an error if a change waits to be confirmed, or another program is taking over
    /// already.
    pub(crate) fn hand_over(&self, begins: bool) -> Result<MadeOf, Refusal> {
        let mut generations = self.alone();
        generations.hand_over(begins)?;
        Ok(generations.made_of().clone())
    }

    /// From now on the folder of the generations is this program's alone: the one before has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if it is another's.
    pub(crate) fn own_folder(&self) -> io::Result<()> {
        self.alone().on_disk().map_or(Ok(()), Kept::own)
    }

    /// Where the generations are kept, if on disk.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.alone().on_disk()?.path.clone()
    }

    /// What quotas have counted before this run, where that is kept.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be read.
    pub(crate) fn kept_quotas(&self) -> io::Result<Option<Vec<u8>>> {
        match self.alone().on_disk() {
            Some(kept) => kept.quotas(),
            None => Ok(None),
        }
    }

    /// Keeps what quotas have counted, where generations are kept.
    pub(crate) fn keep_quotas(&self, counted: &[u8]) -> io::Result<()> {
        match self.alone().on_disk() {
            Some(kept) => kept.keep_quotas(counted),
            None => Ok(()),
        }
    }

    /// The port of the policy, which no change of it changes.
    pub(crate) fn port(&self) -> Option<&PortConfig> {
        self.port.as_ref()
    }

    /// What is in force was made of this; and the number of the generation that put a whole policy
    /// into force, which that amends.
    pub(crate) fn standing(&self) -> (MadeOf, u64) {
        let generations = self.alone();
        (generations.made_of().clone(), generations.whole())
    }

    /// What was in force, change by change.
    pub fn history(&self) -> Vec<GenerationView> {
        self.alone().show()
    }

    /// The policy in force as text: with what was set, added and removed since its file was read.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written so.
    pub fn policy_text(&self) -> Result<String, Refusal> {
        let made_of = self.alone().made_of().clone();
        let written = made_of.written().map_err(Refusal::new)?;
        Ok(written.into_owned())
    }

    /// Puts these into force. What that cost, and what is in force then.
    fn adopt(
        &self,
        new: &[InterfacePolicy],
        breaking: Breaking,
    ) -> Result<(Cost, Vec<InterfacePolicy>), Refusal> {
        let cost = self.put_all(new, breaking)?;
        Ok((cost, policies(&self.in_force)))
    }

    /// Puts all that differ into force; if one is refused, those before it are put back.
    fn put_all(&self, new: &[InterfacePolicy], breaking: Breaking) -> Result<Cost, Refusal> {
        let mut done: Vec<InterfacePolicy> = Vec::new();
        let mut all = Cost::default();
        let plainly = |policy: InterfacePolicy| Ok((self.in_force.put(policy.clone(), policy)?, None));
        for InterfaceInForce { policy: old, .. } in self.in_force.all() {
            let Some(new) = new.iter().find(|new| new.name == old.name) else {
                continue;
            };
            if Difference::of(&old, new).is_empty() {
                continue;
            }
            match self.put(new.clone(), breaking, plainly) {
                Ok(cost) => {
                    all.dropped += cost.dropped;
                    all.breaks.extend(cost.breaks);
                    all.begins_anew.extend(cost.begins_anew);
                }
                Err(why) => {
                    let back = done
                        .into_iter()
                        .try_for_each(|old| self.put(old, Breaking::Allowed, plainly).map(drop));
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
        Ok(all)
    }
}

/// A policy's text that is to be put into force.
struct Wanted<'a> {
    file: &'a str,
    text: SharedText,
    confirm_within: Option<Duration>,
    by: Provenance,
    stop: &'a dyn Fn() -> bool,
}

impl Wanted<'_> {
    /// There is nothing to do.
    fn already(&self) -> AppliedFile {
        let message = format!("{} is in force already", self.file);
        let difference = Difference::default();
        AppliedFile {
            applied: Applied { message, difference },
            alone: None,
        }
    }

    /// Makes the change, in which what is in force differs so from what it will be.
    fn make(
        self,
        generations: &mut Generations,
        mut difference: Difference,
        adopt: impl FnOnce() -> Result<(Cost, Vec<InterfacePolicy>), Refusal>,
    ) -> Result<(Applied, Option<ClassId>), Refusal> {
        let file = self.file;
        let change = Change {
            changes: difference.changes.clone(),
            made_of: generations.made_of().renewed(file, self.text),
            confirm_within: self.confirm_within,
            is_whole: true,
            ..Change::by(format!("apply {file}"), self.by)
        };
        refuse_unasked(self.stop)?;
        let cost = generations.make(change, adopt)?;
        let waits = self.confirm_within.map_or_else(String::new, |time| {
            format!(
                "; it is undone after {} s, unless you `suimon confirm`",
                time.as_secs_f64()
            )
        });
        let (changes, lost) = (difference.changes.join("\n"), lost(cost.dropped));
        // One may have been made since it was judged.
        difference.breaks = cost.breaks;
        difference.begins_anew = cost.begins_anew;
        let message = format!("{changes}\n{file} is in force; {lost}{waits}");
        Ok((Applied { message, difference }, cost.alone))
    }
}

/// Says why a policy's file cannot be read.
fn unread(file: &Path, why: &str) -> Refusal {
    Refusal::new(format!("cannot read the policy `{}`: {why}", file.display()))
}

/// What going back to a generation comes to.
struct Back {
    number: u64,
    /// In what it differs from what is in force.
    changes: Vec<String>,
    policies: Vec<InterfacePolicy>,
    made_of: MadeOf,
}

/// What a change cost.
#[derive(Debug, Default)]
struct Cost {
    /// Packets that did not fit.
    dropped: u64,
    /// What reservations in force lost of what they were promised, a line each.
    breaks: Vec<String>,
    /// Classes that stay and have begun anew.
    begins_anew: Vec<ClassesAnew>,
    /// The class that was adopted alone.
    alone: Option<ClassId>,
}

/// A file's policy that was put into force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppliedFile {
    /// What was done.
    pub applied: Applied,
    /// The interface and the class, if that alone was adopted: nothing else has changed.
    pub alone: Option<(String, ClassId)>,
}

/// Settings that were changed, or a class that came or went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// In words.
    pub message: String,
    /// The class that was adopted alone: nothing else has changed.
    pub alone: Option<ClassId>,
}

impl Changed {
    fn new(what: String, cost: &Cost) -> Self {
        let lost = match cost.dropped {
            0 => what,
            n => format!("{what}; {}", lost(n)),
        };
        let anew = cost.begins_anew.iter();
        let message = anew.fold(lost, |said, anew| format!("{said}\n{anew}"));
        Self {
            message,
            alone: cost.alone,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&lost(self.dropped))?;
        self.breaks.iter().try_for_each(|line| write!(f, "\n{line}"))?;
        self.begins_anew.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

/// Refuses what nobody waits for any more.
fn refuse_unasked(stop: &dyn Fn() -> bool) -> Result<(), Refusal> {
    match stop() {
        true => Err(Refusal::new(
            "nothing was changed: whoever asked for it does not wait any more",
        )),
        false => Ok(()),
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

#[cfg(test)]
mod tests;
