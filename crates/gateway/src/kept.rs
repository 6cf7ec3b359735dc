//! Generations on disk: which of them a start puts into force, whatever ended the program.
//!
//! `suimon run FILE --state FOLDER` has them. A generation is a file of what it was made of: a
//! policy's text as it was read, and what was set, added and removed since, class by class. The
//! file `confirmed` names the one that a crash returns to; it is written last, so what nobody has
//! confirmed, and what was cut off in the middle, is never in force after a crash.

use crate::state_folder::{Disk, Folder, UNFINISHED, replace};
use control::calendar::now_ms;
use control::policy::Policy;
use control::protocol::{
    AddedClass, Amendment, PolicyInForce, Refusal, RemovedClass, SettingChange, SettingChanges, UsedUp,
};
use control::provenance::Provenance;
use control::shared_text::{Edit, SharedText};
use control::{policy_text, text_file};
use engine::port_kind::PortKind;
use engine::tree::Registry;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

/// Names the confirmed generation.
const CONFIRMED: &str = "confirmed";
/// Is there from the start of a program to its orderly end.
const RUNNING: &str = "running";
/// What quotas have counted.
const QUOTAS: &str = "quotas.json";

/// What a generation is made of.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MadeOf {
    /// The name of the policy's file, as it was given.
    file: String,
    text: SharedText,
    /// The generation beside which the text without its edit is kept; 0 if beside none yet.
    text_of: u64,
    /// What was changed since, in order; of settings each key by itself. What ends by itself comes
    /// after what it covers.
    since: Vec<Amendment>,
}

impl MadeOf {
    /// A policy as this file has it; `-` if it is from none.
    pub fn text(file: &str, text: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            text: text.into().into(),
            ..Self::default()
        }
    }

    /// A policy as this file has it, which may have been read like this one.
    pub(crate) fn renewed(&self, file: &str, text: SharedText) -> Self {
        Self {
            file: file.into(),
            text_of: if text.shares_base(&self.text) {
                self.text_of
            } else {
                0
            },
            text,
            since: Vec::new(),
        }
    }

    /// The text of a policy's file; if that is most of it, it shares what both have with this one.
    pub(crate) fn read_like(&self, file: &Path) -> Result<SharedText, String> {
        SharedText::read(file, text_file::LONGEST, &self.text)
    }

    /// Where its text is on disk.
    fn text_of(&self) -> TextOf {
        match self.text.edit().cloned() {
            Some(edit) => TextOf::Edited {
                edit_of: self.text_of,
                edit,
            },
            None => TextOf::Whole {
                text_of: self.text_of,
            },
        }
    }

    /// Looks up what the first change of its text would have to: where a reading of the whole has
    /// taken longer, it is not felt.
    pub(crate) fn expect_changes(&self) {
        let _ = self.text.is_in_tables();
    }

    /// The text, if nothing was changed since it was read.
    pub(crate) fn unchanged_text(&self) -> Option<&SharedText> {
        self.since.is_empty().then_some(&self.text)
    }

    /// What is in force in a program whose place is taken.
    pub(crate) fn in_force(policy: PolicyInForce) -> Self {
        let PolicyInForce {
            file,
            text,
            text_of,
            since,
        } = policy;
        Self {
            file,
            text: text.into(),
            text_of,
            since,
        }
    }

    /// The same for the program that takes the place.
    pub(crate) fn handed_over(&self) -> PolicyInForce {
        PolicyInForce {
            file: self.file.clone(),
            text: self.text.whole().into_owned(),
            text_of: if self.text.edit().is_none() {
                self.text_of
            } else {
                0
            },
            since: self.since.clone(),
        }
    }

    /// With another change. Settings that end by themselves uncover then what was set before, or
    /// what a quota has brought; settings that stay replace all of these. Of a class that goes for
    /// good nothing is left.
    #[must_use]
    pub(crate) fn with(mut self, change: &Amendment) -> Self {
        match change {
            Amendment::Set(set) => self.set(&set.changes, change, |changes| {
                Amendment::Set(SettingChanges {
                    changes,
                    reason: None,
                    ..set.clone()
                })
            }),
            Amendment::UsedUp(used_up) => self.set(&used_up.changes, change, |changes| {
                Amendment::UsedUp(UsedUp {
                    changes,
                    ..used_up.clone()
                })
            }),
            Amendment::Added(added) => self.since.push(Amendment::Added(AddedClass {
                reason: None,
                ..added.clone()
            })),
            Amendment::Removed(removed) => self.remove(removed),
        }
        self
    }

    /// Puts each of these settings of a change; `alone` is that change with these alone.
    fn set(
        &mut self,
        settings: &BTreeMap<String, SettingChange>,
        change: &Amendment,
        alone: impl Fn(BTreeMap<String, SettingChange>) -> Amendment,
    ) {
        for (key, value) in settings {
            let (timed, by_quota) = (change.until_ms().is_some(), change.is_by_quota());
            let replaced = |old: &Amendment| {
                (old.interface(), old.class()) == (change.interface(), change.class())
                    && old.settings().is_some_and(|settings| settings.contains_key(key))
                    && match old.is_by_quota() == by_quota {
                        true => old.until_ms().is_some() || !timed,
                        // Whichever ends first uncovers the other.
                        false => !timed,
                    }
            };
            self.since.retain(|old| !replaced(old));
            self.since.push(alone([(key.clone(), value.clone())].into()));
        }
    }

    fn remove(&mut self, removed: &RemovedClass) {
        let is_of = |old: &Amendment| {
            (old.interface(), old.class()) == (removed.interface.as_str(), Some(removed.class.as_str()))
        };
        let stays = |old: &Amendment| !is_of(old) || matches!(old, Amendment::Removed(_));
        let came = |old: &Amendment| is_of(old) && matches!(old, Amendment::Added(_));
        let for_good = removed.until_ms.is_none();
        let came = for_good && self.since.iter().any(came);
        if for_good {
            // One that was removed before it came again is still to be removed.
            self.since.retain(stays);
        }
        if !came {
            self.since.push(Amendment::Removed(RemovedClass {
                reason: None,
                ..removed.clone()
            }));
        }
    }

    /// As it is at this moment: without what is over.
    #[must_use]
    pub(crate) fn at(mut self, now_ms: u64) -> Self {
        self.since.retain(|change| !is_over(change, now_ms));
        self
    }

    /// Whether all of this is set, and ends with it.
    pub(crate) fn has_used_up(&self, used_up: &UsedUp) -> bool {
        let mut settings = used_up.changes.iter();
        settings.all(|(key, value)| {
            let changes = [(key.clone(), value.clone())].into();
            let one = UsedUp {
                changes,
                ..used_up.clone()
            };
            self.since.contains(&Amendment::UsedUp(one))
        })
    }

    /// With what quotas have brought into another of the same text: what somebody goes back to does
    /// not give a class more than its quota. A class that came or went in either is left out.
    #[must_use]
    pub(crate) fn with_quotas_of(mut self, other: &Self) -> Self {
        if self.text != other.text {
            return self;
        }
        let is_settled = |used_up: &Amendment| {
            let place = (used_up.interface(), used_up.class());
            let mut all = self.since.iter().chain(&other.since);
            !all.any(|old| (old.interface(), old.class()) == place && old.settings().is_none())
        };
        let brought = other
            .since
            .iter()
            .filter(|change| change.is_by_quota() && !self.since.contains(change) && is_settled(change));
        let brought: Vec<Amendment> = brought.cloned().collect();
        self.since.extend(brought);
        self
    }

    /// Whether all that is over at this moment was brought by quotas.
    pub(crate) fn quotas_alone_end_by(&self, now_ms: u64) -> bool {
        let mut over = self.since.iter().filter(|change| is_over(change, now_ms));
        over.all(Amendment::is_by_quota)
    }

    /// Whether it says the same, wherever it was read.
    pub(crate) fn reads_as(&self, other: &Self) -> bool {
        self.text == other.text && self.since == other.since
    }

    /// Whether some of it is over at this moment.
    pub(crate) fn is_over_by(&self, now_ms: u64) -> bool {
        self.since.iter().any(|change| is_over(change, now_ms))
    }

    /// How many parts of it end by themselves.
    pub(crate) fn timed(&self) -> usize {
        let ends = |change: &&Amendment| change.until_ms().is_some();
        self.since.iter().filter(ends).count()
    }

    /// When settings end by themselves, in order.
    pub(crate) fn ends(&self) -> BTreeSet<u64> {
        self.since.iter().filter_map(Amendment::until_ms).collect()
    }

    /// With what was set, and stays, in the text. The file's name and the text that it must have
    /// now, and will have.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such file, or nothing to write into it.
    pub(crate) fn saved(&self) -> Result<(Self, Saving), Refusal> {
        if self.file == "-" {
            return Err(Refusal::new(
                "what runs was not read from a file that could be written",
            ));
        }
        let (ends, stays): (Vec<_>, Vec<_>) = self
            .since
            .iter()
            .cloned()
            .partition(|change| change.until_ms().is_some());
        if stays.is_empty() {
            let file = &self.file;
            return Err(Refusal::new(format!(
                "nothing was set that is not in {file}, and stays"
            )));
        }
        let text = policy_text::with(&self.text.whole(), &stays).map_err(Refusal::new)?;
        let saving = Saving {
            file: self.file.clone(),
            from: self.text.clone(),
            to: text.into(),
        };
        let saved = Self {
            text: saving.to.clone(),
            text_of: 0,
            since: ends,
            ..self.clone()
        };
        Ok((saved, saving))
    }

    /// The policy's text, with what was changed since it was read.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be written so.
    pub(crate) fn written(&self) -> Result<Cow<'_, str>, String> {
        match self.since.is_empty() {
            true => Ok(self.text.whole()),
            false => policy_text::with(&self.text.whole(), &self.since).map(Cow::Owned),
        }
    }

    /// The policy.
    ///
    /// # Errors
    ///
    /// Returns the mistakes in it, as people read them.
    pub fn policy(
        &self,
        registry: &Registry,
        ports: &[&'static PortKind],
        colour: bool,
    ) -> Result<Policy, String> {
        Policy::read(&self.file, &self.written()?, registry, ports)
            .map_err(|mistakes| mistakes.render(colour))
    }
}

fn is_over(change: &Amendment, now_ms: u64) -> bool {
    change.until_ms().is_some_and(|until| until <= now_ms)
}

/// A policy's file that gets another text.
#[derive(Debug)]
pub(crate) struct Saving {
    pub(crate) file: String,
    from: SharedText,
    to: SharedText,
}

impl Saving {
    /// Refuses it if the file has another text by now.
    pub(crate) fn refuse_edited(&self) -> Result<(), Refusal> {
        let file = &self.file;
        let found = SharedText::read(Path::new(file), text_file::LONGEST, &self.from)
            .map_err(|why| Refusal::new(format!("cannot read {file}: {why}")))?;
        if found == self.from {
            return Ok(());
        }
        Err(Refusal {
            message: format!("{file} was edited since it was put into force; it stays as it is"),
            help: Some(format!(
                "`suimon plan {file}` shows the difference, `suimon apply {file}` puts the file into force"
            )),
        })
    }

    /// Writes it: whoever reads it meanwhile has the old or the new text as a whole.
    pub(crate) fn write(&self) -> io::Result<()> {
        // A link stays one.
        let path = fs::canonicalize(&self.file)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(UNFINISHED);
        let unfinished = path.with_file_name(name);
        let old = fs::metadata(&path)?;
        let mut file = File::create(&unfinished)?;
        let written = file
            .write_all(self.to.whole().as_bytes())
            .and_then(|()| file.set_permissions(old.permissions()))
            .and_then(|()| chown(&unfinished, Some(old.uid()), Some(old.gid())))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&unfinished, &path));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }
}

/// What is said of a generation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) number: u64,
    /// Since when it is in force, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// The request that made it.
    pub(crate) by: String,
    #[serde(flatten)]
    pub(crate) provenance: Provenance,
    pub(crate) changes: Vec<String>,
    /// The one that put a whole policy into force, which this amends, or this; 0 in records of
    /// former versions.
    #[serde(default)]
    pub(crate) whole: u64,
}

/// A generation as it stands on the disk, but for its text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) head: Head,
    /// The generations that it undoes: a start does not put their text into force again.
    pub(crate) undoes: Vec<u64>,
    file: String,
    #[serde(flatten)]
    text: TextOf,
    /// Formerly of settings alone.
    #[serde(rename = "set")]
    since: Vec<Amendment>,
}

/// Where a record's text is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum TextOf {
    /// Beside this generation, but for what stands in place of a part of it. By a name of its own,
    /// so that a former version does not take what is there for the text.
    Edited { edit_of: u64, edit: Edit },
    /// Beside this generation.
    Whole { text_of: u64 },
}

impl TextOf {
    /// The generation beside which it is.
    fn number(&self) -> u64 {
        match self {
            Self::Edited { edit_of: number, .. } | Self::Whole { text_of: number } => *number,
        }
    }

    fn edit(&self) -> Option<&Edit> {
        match self {
            Self::Edited { edit, .. } => Some(edit),
            Self::Whole { .. } => None,
        }
    }
}

impl Record {
    fn name(&self) -> String {
        format!("generation-{}.json", self.head.number)
    }
}

fn text_name(number: u64) -> String {
    format!("policy-{number}.toml")
}

/// The generations of a folder.
#[derive(Debug)]
pub struct Kept {
    folder: Box<dyn Folder>,
    /// Where it is; none if it is not on a disk.
    pub(crate) path: Option<PathBuf>,
    /// By their numbers.
    records: Vec<Record>,
    /// What a crash returns to; 0 if nothing was ever confirmed.
    confirmed: u64,
}

impl Kept {
    /// Opens the folder, and says what a start with this file puts into force, and in a line why,
    /// if it is not what the file says.
    ///
    /// # Errors
    ///
    /// Returns an error with a remedy if the folder cannot be used.
    pub fn begin(folder: &Path, file: &str, text: &str) -> Result<(Self, MadeOf, Option<String>), String> {
        let disk = Disk::open(folder)?;
        let begun = Self::begin_in(Box::new(disk), file, text, now_ms()).map(|(mut kept, made_of, news)| {
            kept.path = Some(folder.into());
            (kept, made_of, news)
        });
        begun.map_err(|why| {
            let shown = folder.display();
            format!("cannot use the state in {shown}: {why}; without that folder, {file} is begun with")
        })
    }

    /// The folder of a program that runs, and whose place is taken.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be used.
    pub(crate) fn of_running(folder: &Path) -> Result<Self, String> {
        let read = Disk::of_another(folder).and_then(|disk| Self::read(Box::new(disk)));
        let kept = read.map_err(|why| format!("cannot use the state in {}: {why}", folder.display()))?;
        Ok(Self {
            path: Some(folder.into()),
            ..kept
        })
    }

    /// From now on the folder is this program's alone.
    ///
    /// # Errors
    ///
    /// Returns an error if it is another's.
    pub(crate) fn own(&mut self) -> io::Result<()> {
        self.folder.own()
    }

    /// The same in any folder, at this time.
    pub(crate) fn begin_in(
        folder: Box<dyn Folder>,
        file: &str,
        text: &str,
        now_ms: u64,
    ) -> io::Result<(Self, MadeOf, Option<String>)> {
        let kept = Self::read(folder)?;
        let (made_of, news) = kept.choose(file, text, now_ms)?;
        Ok((kept, made_of, news))
    }

    pub(crate) fn read(folder: Box<dyn Folder>) -> io::Result<Self> {
        let mut records = Vec::new();
        let mut confirmed = 0;
        for name in folder.names()? {
            let wrong = |why: String| io::Error::other(format!("{name}: {why}"));
            if name == CONFIRMED {
                let number = String::from_utf8(folder.read(&name)?).map_err(|why| wrong(why.to_string()))?;
                confirmed = number
                    .trim()
                    .parse()
                    .map_err(|_| wrong("it is no number".into()))?;
            } else if name.starts_with("generation-") && !name.ends_with(UNFINISHED) {
                let record = serde_json::from_slice(&folder.read(&name)?);
                records.push(record.map_err(|why| wrong(why.to_string()))?);
            }
        }
        records.sort_by_key(|record: &Record| record.head.number);
        Ok(Self {
            folder,
            path: None,
            records,
            confirmed,
        })
    }

    /// What a start with this text puts into force now.
    pub(crate) fn choose(&self, file: &str, text: &str, now_ms: u64) -> io::Result<(MadeOf, Option<String>)> {
        let Some(kept) = self.last_confirmed(&MadeOf::default())? else {
            return Ok((MadeOf::text(file, text), None));
        };
        let kept = kept.at(now_ms);
        if kept.text.whole() == text {
            let news = (!kept.since.is_empty()).then(|| {
                let set = kept.since.iter().map(ToString::to_string);
                format!("{file}, and as set since: {}", set.collect::<Vec<_>>().join("; "))
            });
            return Ok((kept, news));
        }
        let number = self.confirmed;
        let why = if self.is_undone(text)? {
            "is as in a generation that was undone or never confirmed"
        } else if self.folder.names()?.iter().any(|name| name == RUNNING) {
            "differs, and nobody has applied it before the last run was cut off"
        } else {
            return Ok((MadeOf::text(file, text), None));
        };
        let news = format!(
            "{file} {why}: generation {number}, the last that was confirmed, is put into force; \
             `suimon plan` shows the difference, `suimon apply` puts the file into force"
        );
        Ok((kept, Some(news)))
    }

    /// Whether a generation of this text was undone, or waited in vain to be confirmed.
    fn is_undone(&self, text: &str) -> io::Result<bool> {
        let undone: BTreeSet<u64> = self
            .records
            .iter()
            .flat_map(|record| &record.undoes)
            .copied()
            .collect();
        for record in &self.records {
            let number = record.head.number;
            let counts = number > self.confirmed || undone.contains(&number);
            if counts && self.made_of(record, &MadeOf::default())?.text.whole() == text {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What this generation was made of. Its text is not read again, if that is beside the same
    /// generation as the text of a known one.
    pub(crate) fn made_of(&self, record: &Record, known: &MadeOf) -> io::Result<MadeOf> {
        let text_of = record.text.number();
        let name = text_name(text_of);
        let base = match known.text_of == text_of {
            true => known.text.clone(),
            false => String::from_utf8(self.folder.read(&name)?)
                .map_err(io::Error::other)?
                .into(),
        };
        let text = match record.text.edit() {
            Some(edit) => base.edited(edit.clone()),
            None => Some(base.unedited()),
        };
        let wrong = || io::Error::other(format!("{}: {name} has no such part", record.name()));
        Ok(MadeOf {
            file: record.file.clone(),
            text: text.ok_or_else(wrong)?,
            text_of,
            since: record.since.clone(),
        })
    }

    pub(crate) fn find(&self, number: u64) -> Option<&Record> {
        self.records.iter().find(|record| record.head.number == number)
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// The highest number there is.
    pub(crate) fn last(&self) -> u64 {
        self.records.last().map_or(0, |last| last.head.number)
    }

    /// Those that nobody has confirmed.
    pub(crate) fn unconfirmed(&self) -> Vec<u64> {
        self.records
            .iter()
            .map(|record| record.head.number)
            .filter(|number| *number > self.confirmed)
            .collect()
    }

    /// What a crash returns to, if anything was ever confirmed; see [`Kept::made_of`].
    pub(crate) fn last_confirmed(&self, known: &MadeOf) -> io::Result<Option<MadeOf>> {
        let record = self.find(self.confirmed);
        record.map(|record| self.made_of(record, known)).transpose()
    }

    /// A program runs from now on; until its end is noted, it counts as cut off.
    pub(crate) fn running(&mut self) -> io::Result<()> {
        replace(&mut *self.folder, RUNNING, b"")
    }

    /// The program ends in order.
    pub(crate) fn ended(&mut self) -> io::Result<()> {
        self.folder.remove(RUNNING)
    }

    /// What quotas have counted, if anything was written.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be read, though it is there.
    pub(crate) fn quotas(&self) -> io::Result<Option<Vec<u8>>> {
        match self.folder.read(QUOTAS) {
            Ok(counted) => Ok(Some(counted)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(io::Error::new(why.kind(), format!("{QUOTAS}: {why}"))),
        }
    }

    /// Writes what quotas have counted.
    pub(crate) fn keep_quotas(&mut self, counted: &[u8]) -> io::Result<()> {
        replace(&mut *self.folder, QUOTAS, counted)
    }

    /// Writes a generation before it is in force. What it was made of, with the place of its text.
    pub(crate) fn write(&mut self, head: Head, undoes: Vec<u64>, mut made_of: MadeOf) -> io::Result<MadeOf> {
        let is_there = |record: &Record| record.text.number() == made_of.text_of;
        let text_is_new = !self.records.iter().any(is_there);
        if text_is_new {
            let base = made_of.text.base().as_bytes();
            replace(&mut *self.folder, &text_name(head.number), base)?;
            made_of.text_of = head.number;
        }
        let record = Record {
            head,
            undoes,
            file: made_of.file.clone(),
            text: made_of.text_of(),
            since: made_of.since.clone(),
        };
        let bytes = serde_json::to_vec(&record).map_err(io::Error::other)?;
        if let Err(why) = replace(&mut *self.folder, &record.name(), &bytes) {
            if text_is_new {
                // No generation names it, so nothing would remove it later.
                let _ = self.folder.remove(&text_name(made_of.text_of));
            }
            return Err(why);
        }
        self.records.push(record);
        Ok(made_of)
    }

    /// Writes what the generation of this number is made of now; it stays confirmed, if it is.
    /// Whether there is one.
    pub(crate) fn amend(&mut self, number: u64, made_of: &MadeOf) -> io::Result<bool> {
        let Some(record) = self
            .records
            .iter_mut()
            .find(|record| record.head.number == number)
        else {
            return Ok(false);
        };
        let amended = Record {
            since: made_of.since.clone(),
            ..record.clone()
        };
        let bytes = serde_json::to_vec(&amended).map_err(io::Error::other)?;
        replace(&mut *self.folder, &amended.name(), &bytes)?;
        *record = amended;
        Ok(true)
    }

    /// The generation that this text was put into force by, if a start with it goes on from there.
    pub(crate) fn whole_of(&self, made_of: &MadeOf) -> Option<u64> {
        let confirmed = self.find(self.confirmed)?;
        (confirmed.text == made_of.text_of()).then_some(confirmed.head.whole)
    }

    /// From now on a crash returns to this generation. Those before number `first` are forgotten.
    pub(crate) fn confirm(&mut self, number: u64, first: u64) -> io::Result<()> {
        replace(&mut *self.folder, CONFIRMED, number.to_string().as_bytes())?;
        self.confirmed = number;
        self.forget(|record| record.head.number < first && record.head.number != number);
        Ok(())
    }

    /// Forgets a generation that was refused.
    pub(crate) fn discard(&mut self, number: u64) {
        self.forget(|record| record.head.number == number);
    }

    /// What cannot be removed stays, and harms nothing.
    fn forget(&mut self, these: impl Fn(&Record) -> bool) {
        let texts = |records: &[Record]| -> BTreeSet<u64> {
            records.iter().map(|record| record.text.number()).collect()
        };
        let before = texts(&self.records);
        for record in self.records.iter().filter(|record| these(record)) {
            let _ = self.folder.remove(&record.name());
        }
        self.records.retain(|record| !these(record));
        for text in before.difference(&texts(&self.records)) {
            let _ = self.folder.remove(&text_name(*text));
        }
    }
}

#[cfg(test)]
mod tests;
