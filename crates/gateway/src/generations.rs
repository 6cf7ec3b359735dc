//! What was in force, change by change, so that one can be undone.
//!
//! A generation is what is in force after a change. The latest [`KEPT`] are kept, in memory and,
//! where a folder is given, on disk; of very many classes fewer. A change that was to be confirmed
//! and was not is undone in time, and by a restart.

use crate::kept::{Head, Kept, MadeOf};
use control::difference::GenerationView;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use control::provenance::Provenance;
use engine::units::Instant;
use netio::time::CallerTime;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

/// How many generations are kept.
const KEPT: usize = 32;
/// How many classes they have together, but for the last two.
const CLASSES: usize = 200_000;

/// What is in force after a change.
#[derive(Clone, Debug)]
pub(crate) struct Generation {
    pub(crate) head: Head,
    /// Empty in one of an earlier run, which is read again from what it was made of.
    pub(crate) policies: Vec<InterfacePolicy>,
    pub(crate) made_of: MadeOf,
    /// The generations that it undid.
    undoes: Vec<u64>,
}

/// A change to be made.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The request.
    pub(crate) by: String,
    pub(crate) changes: Vec<String>,
    /// Who asked for it, and why.
    pub(crate) provenance: Provenance,
    pub(crate) made_of: MadeOf,
    /// The generation that it goes back to.
    pub(crate) back_to: Option<u64>,
    pub(crate) confirm_within: Option<Duration>,
    /// A whole policy comes, whatever was set since the one before.
    pub(crate) is_whole: bool,
    /// What was set for a time is over: a start does the same, so it needs no disk.
    pub(crate) ends_by_itself: bool,
}

/// Whether a change has to be on disk before it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lasting {
    /// It has.
    Must,
    /// A start does the same.
    ByItself,
}

/// A change that is undone unless it is confirmed.
#[derive(Clone, Copy, Debug)]
struct Unconfirmed {
    /// None if only a restart undoes it: it could not be written that it is confirmed.
    until: Option<Instant>,
    back_to: u64,
}

/// The generations; the last is in force.
#[derive(Debug)]
pub(crate) struct Generations {
    kept: VecDeque<Generation>,
    /// Those that the last change has left no room for: of very many classes it takes longer to
    /// give back their memory than to make a change of one class.
    gone: Vec<Generation>,
    unconfirmed: Option<Unconfirmed>,
    on_disk: Option<Kept>,
    /// Those that were undone by a change that could not be written: the next that is written says
    /// so, too.
    undone: Vec<u64>,
    /// Another program takes over, or has: it has what is in force now, and nothing changes.
    handing_over: bool,
    time: CallerTime,
}

impl Generations {
    /// The first of this run: these policies, in force and confirmed.
    ///
    /// # Errors
    ///
    /// Returns an error if that cannot be written where generations are kept on disk.
    pub(crate) fn new(
        policies: Vec<InterfacePolicy>,
        on_disk: Option<Kept>,
        made_of: MadeOf,
        time: CallerTime,
    ) -> io::Result<Self> {
        let mut all = Self {
            kept: VecDeque::with_capacity(KEPT),
            gone: Vec::new(),
            unconfirmed: None,
            on_disk: None,
            undone: Vec::new(),
            handing_over: false,
            time,
        };
        let since_ms = all.time.now_ms();
        let run = |number, whole| Change::by("run", Provenance::default()).head(number, whole, since_ms);
        let Some(mut kept) = on_disk else {
            all.push(run(1, 1), policies, made_of, Vec::new());
            return Ok(all);
        };
        let (undoes, confirmed) = (kept.unconfirmed(), kept.last_confirmed(&made_of)?);
        // A start goes on with what was confirmed, if that is what it begins with.
        let begins = |confirmed: &&MadeOf| undoes.is_empty() && confirmed.reads_as(&made_of);
        let goes_on = confirmed.as_ref().filter(begins);
        let number = kept.last() + u64::from(goes_on.is_none());
        let made_of = goes_on.unwrap_or(&made_of).clone();
        for record in kept.records().iter().filter(|record| record.head.number < number) {
            let before = all.kept.back().map(|before| &before.made_of);
            let known = before.or(confirmed.as_ref()).unwrap_or(&made_of);
            all.kept.push_back(Generation {
                head: record.head.clone(),
                policies: Vec::new(),
                made_of: kept.made_of(record, known)?,
                undoes: record.undoes.clone(),
            });
        }
        let (head, made_of, undoes) = match kept.find(number) {
            Some(record) => (record.head.clone(), made_of, record.undoes.clone()),
            None => {
                let head = run(number, kept.whole_of(&made_of).unwrap_or(number));
                (head.clone(), kept.write(head, undoes.clone(), made_of)?, undoes)
            }
        };
        kept.running()?;
        all.push(head, policies, made_of, undoes);
        kept.confirm(number, all.first())?;
        all.on_disk = Some(kept);
        Ok(all)
    }

    /// Makes a change: what `adopt` puts into force, and the policies that then are.
    ///
    /// On disk it is written before, and named as confirmed after; so a crash in between undoes it.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written, or is refused; then nothing has changed. Or, and
    /// this is said, if it is in force and cannot be named as confirmed.
    pub(crate) fn make<T>(
        &mut self,
        mut change: Change,
        adopt: impl FnOnce() -> Result<(T, Vec<InterfacePolicy>), Refusal>,
    ) -> Result<T, Refusal> {
        if self.handing_over {
            return Err(Refusal {
                message: "nothing was changed: another program is taking over".into(),
                help: Some("ask again in a moment".into()),
            });
        }
        let before = self.number();
        let number = before + 1;
        let whole = match change.is_whole || change.back_to.is_some() {
            true => number,
            false => self.whole(),
        };
        let head = change.head(number, whole, self.time.now_ms());
        let undone = change.undoes(head.number);
        let written = self.write(&head, &undone, &mut change);
        // What goes back to the generation that a crash returns to needs no disk.
        let undoes = self
            .unconfirmed
            .is_some_and(|waiting| change.back_to == Some(waiting.back_to));
        if let Err(why) = &written
            && !undoes
            && !change.ends_by_itself
        {
            return Err(Refusal {
                message: format!("nothing was changed: the generation cannot be written: {why}"),
                help: None,
            });
        }
        let (done, policies) = adopt().inspect_err(|_| {
            if let Some(kept) = &mut self.on_disk {
                kept.discard(head.number);
            }
        })?;
        match &written {
            Ok(()) => self.undone.clear(),
            Err(_) => self.undone.extend(&undone),
        }
        let back_to = self.unconfirmed.take().map_or(before, |waiting| waiting.back_to);
        self.push(head, policies, change.made_of, undone);
        match change.confirm_within {
            Some(time) => {
                let until = Some(self.time.after(time));
                self.unconfirmed = Some(Unconfirmed { until, back_to });
            }
            None if written.is_ok() => {
                self.unconfirmed = Some(Unconfirmed { until: None, back_to });
                self.confirm()?;
            }
            None => {}
        }
        Ok(done)
    }

    /// Makes a change of the policy's own, which is nobody's to undo and so no generation: that in
    /// force is made of this from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if it must be on disk and cannot be written, or is refused; then nothing
    /// has changed.
    pub(crate) fn amend<T>(
        &mut self,
        made_of: MadeOf,
        lasting: Lasting,
        adopt: impl FnOnce() -> Result<(T, Vec<InterfacePolicy>), Refusal>,
    ) -> Result<T, Refusal> {
        let before = self.made_of().clone();
        let made_of = match (self.amend_on_disk(&made_of), lasting) {
            (Ok(written), _) => written,
            (Err(_), Lasting::ByItself) => made_of,
            (Err(why), Lasting::Must) => {
                return Err(Refusal::new(format!(
                    "nothing was changed: the generation cannot be written: {why}"
                )));
            }
        };
        let adopted = adopt();
        let (done, policies) = adopted.map_err(|why| match self.amend_on_disk(&before) {
            Ok(_) => why,
            Err(also) => Refusal::new(format!("{why}; and a start tries it again: {also}")),
        })?;
        if let Some(last) = self.kept.back_mut() {
            (last.policies, last.made_of) = (policies, made_of);
        }
        Ok(done)
    }

    /// Writes what that in force is made of. That, with the place of its text.
    fn amend_on_disk(&mut self, made_of: &MadeOf) -> io::Result<MadeOf> {
        let (number, first) = (self.number(), self.first());
        let Generation { head, undoes, .. } = self.last();
        let (head, undoes) = (head.clone(), undoes.clone());
        let Some(kept) = &mut self.on_disk else {
            return Ok(made_of.clone());
        };
        if kept.amend(number, made_of)? {
            return Ok(made_of.clone());
        }
        // It could not be written when it was made.
        let undoes = self.undone.iter().copied().chain(undoes).collect();
        let written = kept.write(head, undoes, made_of.clone())?;
        if self.unconfirmed.is_none() {
            kept.confirm(number, first)?;
        }
        self.undone.clear();
        Ok(written)
    }

    /// Writes the generation, where generations are kept on disk.
    fn write(&mut self, head: &Head, undone: &[u64], change: &mut Change) -> io::Result<()> {
        let Some(kept) = &mut self.on_disk else {
            return Ok(());
        };
        let undoes = self.undone.iter().chain(undone).copied().collect();
        change.made_of = kept.write(head.clone(), undoes, change.made_of.clone())?;
        Ok(())
    }

    /// From now on these policies are in force.
    fn push(&mut self, head: Head, policies: Vec<InterfacePolicy>, made_of: MadeOf, undoes: Vec<u64>) {
        let classes = |policies: &[InterfacePolicy]| -> usize {
            policies.iter().map(|policy| policy.plan.classes.len()).sum()
        };
        let mut all: usize = self.kept.iter().map(|kept| classes(&kept.policies)).sum();
        all += classes(&policies);
        self.gone.clear();
        while self.kept.len() >= KEPT || self.kept.len() > 1 && all > CLASSES {
            let first = self.kept.pop_front();
            all -= first.as_ref().map_or(0, |first| classes(&first.policies));
            self.gone.extend(first);
        }
        self.kept.push_back(Generation {
            head,
            policies,
            made_of,
            undoes,
        });
    }

    /// Those that there was no room for, to be dropped where nobody waits for it.
    pub(crate) fn take_gone(&mut self) -> Vec<Generation> {
        std::mem::take(&mut self.gone)
    }

    /// Where they are kept on disk, if they are.
    pub(crate) fn on_disk(&mut self) -> Option<&mut Kept> {
        self.on_disk.as_mut()
    }

    /// What is in force was made of this.
    pub(crate) fn made_of(&self) -> &MadeOf {
        &self.last().made_of
    }

    fn last(&self) -> &Generation {
        self.kept
            .back()
            .expect("the first is pushed by `new`, and the last is never removed")
    }

    /// What stays of that, if what was set for a time is over; not while a change waits, which may
    /// be undone.
    pub(crate) fn rest(&self, now_ms: u64) -> Option<MadeOf> {
        let ends = self.unconfirmed.is_none() && !self.handing_over && self.made_of().is_over_by(now_ms);
        ends.then(|| self.made_of().clone().at(now_ms))
    }

    fn first(&self) -> u64 {
        self.kept.front().map_or(0, |first| first.head.number)
    }

    /// The number of the one that put a whole policy into force, which that in force amends, or
    /// is.
    pub(crate) fn whole(&self) -> u64 {
        self.last().head.whole
    }

    /// The number of the one in force.
    pub(crate) fn number(&self) -> u64 {
        self.last().head.number
    }

    /// The one of this number.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not kept.
    pub(crate) fn find(&self, number: u64) -> Result<&Generation, Refusal> {
        let mut kept = self.kept.iter();
        let found = kept.find(|generation| generation.head.number == number);
        found.ok_or_else(|| self.refusal(&format!("generation {number} is not kept")))
    }

    /// The generation that the undoing of a change goes back to that waits to be confirmed; none if
    /// none waits.
    pub(crate) fn waits_before(&self) -> Option<u64> {
        self.unconfirmed.map(|waiting| waiting.back_to)
    }

    /// What was in force before, the latest first. Not what was undone, nor what undid it if that
    /// was undone: so one undoing after another goes further back.
    pub(crate) fn earlier(&self) -> impl Iterator<Item = &Generation> {
        let mut undone = BTreeSet::<u64>::new();
        let counts = move |generation: &&Generation| {
            let counts = !undone.contains(&generation.head.number);
            if counts {
                undone.extend(&generation.undoes);
            }
            counts
        };
        self.kept.iter().rev().filter(counts).skip(1)
    }

    /// Refuses to go back, for this reason.
    pub(crate) fn refusal(&self, why: &str) -> Refusal {
        Refusal {
            message: format!("{why}: {} to {} are", self.first(), self.number()),
            help: Some("`suimon history` shows them".into()),
        }
    }

    /// Before a change: refuses it while another one waits to be confirmed.
    pub(crate) fn refuse_unconfirmed(&self) -> Result<(), Refusal> {
        let Some(Unconfirmed { back_to, .. }) = self.unconfirmed else {
            return Ok(());
        };
        Err(Refusal {
            message: format!("generation {} waits to be confirmed", self.number()),
            help: Some(format!(
                "`suimon confirm` keeps it, `suimon rollback` returns to {back_to}"
            )),
        })
    }

    /// Confirms what is in force.
    ///
    /// # Errors
    ///
    /// Returns an error if no change waits for it, or it cannot be written; then it still waits.
    pub(crate) fn confirm(&mut self) -> Result<u64, Refusal> {
        let (number, first) = (self.number(), self.first());
        if self.unconfirmed.is_none() {
            return Err(Refusal::new("no change waits to be confirmed"));
        }
        if let Some(kept) = &mut self.on_disk {
            kept.confirm(number, first).map_err(|why| Refusal {
                message: format!(
                    "generation {number} is in force, but a restart undoes it: that it is confirmed cannot be \
                     written: {why}"
                ),
                help: Some("`suimon confirm` tries again".into()),
            })?;
        }
        self.unconfirmed = None;
        Ok(number)
    }

    /// From now on nothing changes, or again as always.
    ///
    /// # Errors
    ///
    /// Returns an error if a change waits to be confirmed, or another program is taking over
    /// already.
    pub(crate) fn hand_over(&mut self, begins: bool) -> Result<(), Refusal> {
        if begins {
            self.refuse_unconfirmed()?;
            if self.handing_over {
                return Err(Refusal::new("another program is taking over already"));
            }
        }
        self.handing_over = begins;
        Ok(())
    }

    /// Waits no longer.
    pub(crate) fn waits_no_longer(&mut self) {
        self.unconfirmed = None;
    }

    /// Waits for so long again: what nobody has confirmed could not be undone.
    pub(crate) fn waits_again(&mut self, time: Duration) {
        let until = Some(self.time.after(time));
        self.unconfirmed
            .iter_mut()
            .for_each(|waiting| waiting.until = until);
    }

    /// Notes an orderly end; not while a change waits, which is not to begin with then.
    pub(crate) fn ended(&mut self) -> io::Result<()> {
        // What another program has taken over runs on.
        match (&mut self.on_disk, self.unconfirmed) {
            (Some(kept), None) if !self.handing_over => kept.ended(),
            _ => Ok(()),
        }
    }

    /// The generation to return to, if nobody has confirmed in time.
    pub(crate) fn overdue(&self) -> Option<u64> {
        let now = self.time.now();
        let overdue = |waiting: &Unconfirmed| waiting.until.is_some_and(|until| until <= now);
        self.unconfirmed.filter(overdue).map(|waiting| waiting.back_to)
    }

    /// All that are kept, the latest last.
    pub(crate) fn show(&self) -> Vec<GenerationView> {
        let (now, now_ms) = (self.time.now(), self.time.now_ms());
        let until = self.unconfirmed.and_then(|waiting| waiting.until);
        let left = until.map(|until| until.since(now).nanos() / 1_000_000);
        let view = |generation: &Generation| GenerationView {
            number: generation.head.number,
            age_ms: now_ms.saturating_sub(generation.head.since_ms),
            by: generation.head.by.clone(),
            provenance: generation.head.provenance.clone(),
            changes: generation.head.changes.clone(),
            in_force: generation.head.number == self.number(),
            unconfirmed_ms: left.filter(|_| generation.head.number == self.number()),
        };
        self.kept.iter().map(view).collect()
    }
}

impl Change {
    /// One that this request makes.
    pub(crate) fn by(request: impl Into<String>, provenance: Provenance) -> Self {
        Self {
            by: request.into(),
            provenance,
            ..Self::default()
        }
    }

    /// The generations that it undoes, as the one of this number.
    fn undoes(&self, number: u64) -> Vec<u64> {
        self.back_to
            .map_or_else(Vec::new, |to| (to + 1..number).collect())
    }

    /// What is said of the generation of this number that it makes at this time, which amends the
    /// one of number `whole`, or is it.
    fn head(&self, number: u64, whole: u64, since_ms: u64) -> Head {
        Head {
            number,
            whole,
            since_ms,
            by: self.by.clone(),
            provenance: self.provenance.clone(),
            changes: self.changes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(all: &mut Generations, change: Change) {
        all.make(change, || Ok(((), Vec::new()))).expect("a change");
    }

    #[test]
    fn the_latest_generations_are_kept_and_found_by_their_numbers() {
        let mut all =
            Generations::new(Vec::new(), None, MadeOf::default(), CallerTime::default()).expect("no disk");
        assert_eq!(all.earlier().count(), 0, "there is none before the first");
        for n in 2..=100 {
            let changes = vec![format!("what {n} changed")];
            let change = Change::by(format!("change {n}"), Provenance::default());
            made(&mut all, Change { changes, ..change });
        }
        let shown = all.show();
        let numbers: Vec<u64> = shown.iter().map(|view| view.number).collect();
        assert_eq!(numbers, (69..=100).collect::<Vec<_>>());
        assert!(shown.iter().all(|view| view.in_force == (view.number == 100)));
        assert_eq!(all.earlier().next().map(|found| found.head.number), Some(99));
        let by = |number| all.find(number).map(|found| found.head.by.as_str()).ok();
        assert_eq!(by(69), Some("change 69"));
        let why = all.find(68).expect_err("it is no longer kept");
        assert_eq!(why.message, "generation 68 is not kept: 69 to 100 are");
    }

    #[test]
    fn what_was_undone_is_not_gone_back_to_unless_its_undoing_was_undone() {
        let mut all =
            Generations::new(Vec::new(), None, MadeOf::default(), CallerTime::default()).expect("no disk");
        let earlier = |all: &Generations| -> Vec<u64> {
            all.earlier().map(|generation| generation.head.number).collect()
        };
        let change = || Change::by("set", Provenance::default());
        let back = |to| Change {
            back_to: Some(to),
            ..change()
        };
        (2..=4).for_each(|_| made(&mut all, change()));
        assert_eq!(earlier(&all), [3, 2, 1]);
        made(&mut all, back(2));
        assert_eq!(earlier(&all), [2, 1]);
        made(&mut all, change());
        assert_eq!(earlier(&all), [5, 2, 1]);
        made(&mut all, back(4));
        assert_eq!(
            earlier(&all),
            [4, 3, 2, 1],
            "5 and 6 are undone, and what 5 undid counts"
        );
        assert_eq!(all.waits_before(), None);
        let confirm_within = Some(Duration::from_secs(9));
        made(
            &mut all,
            Change {
                confirm_within,
                ..change()
            },
        );
        assert_eq!(all.waits_before(), Some(7), "it waits");
        assert_eq!(earlier(&all).first(), Some(&7));
    }

    #[test]
    fn a_change_that_waits_is_overdue_in_time_unless_it_is_confirmed() {
        let mut all =
            Generations::new(Vec::new(), None, MadeOf::default(), CallerTime::default()).expect("no disk");
        let apply = |seconds| Change {
            confirm_within: Some(Duration::from_secs(seconds)),
            ..Change::by("apply", Provenance::default())
        };
        made(&mut all, apply(0));
        assert_eq!(all.overdue(), Some(1));
        all.refuse_unconfirmed().expect_err("it waits");
        assert_eq!(all.confirm().ok(), Some(2));
        all.confirm().expect_err("it is confirmed");
        assert_eq!(all.overdue(), None);
        all.refuse_unconfirmed().expect("it is settled");
        made(&mut all, apply(3600));
        assert_eq!(all.overdue(), None);
    }
}
