//! Generations on disk: which of them a start puts into force, whatever ended the program.
//!
//! `suimon run FILE --state FOLDER` has them. A generation is a file of what it was made of: a
//! policy's text as it was read, and what was set, added and removed since, class by class. The
//! file `confirmed` names the one that a crash returns to; it is written last, so what nobody has
//! confirmed, and what was cut off in the middle, is never in force after a crash.

use crate::state_folder::{Disk, Folder, UNFINISHED, replace};
use control::calendar::now_ms;
use control::policy::Policy;
use control::protocol::{AddedClass, Amendment, Refusal, RemovedClass, SettingChanges};
use control::provenance::Provenance;
use control::{policy_text, text_file};
use engine::port_kind::PortKind;
use engine::tree::Registry;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names the confirmed generation.
const CONFIRMED: &str = "confirmed";
/// Is there from the start of a program to its orderly end.
const RUNNING: &str = "running";

/// What a generation is made of.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MadeOf {
    /// The name of the policy's file, as it was given.
    file: String,
    text: Arc<str>,
    /// The generation beside which the text is kept; 0 if beside none yet.
    text_of: u64,
    /// What was changed since, in order; of settings each key by itself. What ends by itself comes
    /// after what it covers.
    since: Vec<Amendment>,
}

impl MadeOf {
    /// A policy as this file has it; `-` if it is from none.
    pub fn text(file: &str, text: &str) -> Self {
        Self {
            file: file.into(),
            text: text.into(),
            text_of: 0,
            since: Vec::new(),
        }
    }

    /// With another change. Settings that end by themselves uncover then what was set before;
    /// settings that stay replace both. Of a class that goes for good nothing is left.
    #[must_use]
    pub(crate) fn with(mut self, change: &Amendment) -> Self {
        match change {
            Amendment::Set(set) => self.set(set),
            Amendment::Added(added) => self.since.push(Amendment::Added(AddedClass {
                reason: None,
                ..added.clone()
            })),
            Amendment::Removed(removed) => self.remove(removed),
        }
        self
    }

    fn set(&mut self, changes: &SettingChanges) {
        for (key, value) in &changes.changes {
            let replaced = |old: &SettingChanges| {
                (&old.interface, &old.class) == (&changes.interface, &changes.class)
                    && old.changes.contains_key(key)
                    && (old.until_ms.is_some() || changes.until_ms.is_none())
            };
            self.since
                .retain(|old| !matches!(old, Amendment::Set(old) if replaced(old)));
            self.since.push(Amendment::Set(SettingChanges {
                changes: [(key.clone(), value.clone())].into(),
                reason: None,
                ..changes.clone()
            }));
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
        self.since
            .retain(|change| change.until_ms().is_none_or(|until| until > now_ms));
        self
    }

    /// Whether some of it is over at this moment.
    pub(crate) fn is_over_by(&self, now_ms: u64) -> bool {
        let over = |change: &Amendment| change.until_ms().is_some_and(|until| until <= now_ms);
        self.since.iter().any(over)
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
        let text = policy_text::with(&self.text, &stays).map_err(Refusal::new)?;
        let saving = Saving {
            file: self.file.clone(),
            from: Arc::clone(&self.text),
            to: text.into(),
        };
        let saved = Self {
            text: Arc::clone(&saving.to),
            text_of: 0,
            since: ends,
            ..self.clone()
        };
        Ok((saved, saving))
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
        let text = match self.since.is_empty() {
            true => None,
            false => Some(policy_text::with(&self.text, &self.since)?),
        };
        let text = text.as_deref().unwrap_or(&self.text);
        Policy::read(&self.file, text, registry, ports).map_err(|mistakes| mistakes.render(colour))
    }
}

/// A policy's file that gets another text.
#[derive(Debug)]
pub(crate) struct Saving {
    pub(crate) file: String,
    from: Arc<str>,
    to: Arc<str>,
}

impl Saving {
    /// Refuses it if the file has another text by now.
    pub(crate) fn refuse_edited(&self) -> Result<(), Refusal> {
        let file = &self.file;
        let found = text_file::read(Path::new(file), text_file::LONGEST)
            .map_err(|why| Refusal::new(format!("cannot read {file}: {why}")))?;
        if found == *self.from {
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
            .write_all(self.to.as_bytes())
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
}

/// A generation as it stands on the disk, but for its text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) head: Head,
    /// The generations that it undoes: a start does not put their text into force again.
    undoes: Vec<u64>,
    file: String,
    text_of: u64,
    /// Formerly of settings alone.
    #[serde(rename = "set")]
    since: Vec<Amendment>,
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
        let begun = Self::read(Box::new(disk)).and_then(|mut kept| {
            kept.path = Some(folder.into());
            let (made_of, news) = kept.choose(file, text, now_ms())?;
            Ok((kept, made_of, news))
        });
        begun.map_err(|why| {
            let shown = folder.display();
            format!("cannot use the state in {shown}: {why}; without that folder, {file} is begun with")
        })
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
        let Some(confirmed) = self.find(self.confirmed).cloned() else {
            return Ok((MadeOf::text(file, text), None));
        };
        let kept = self.made_of(&confirmed)?.at(now_ms);
        if *kept.text == *text {
            let news = (!kept.since.is_empty()).then(|| {
                let set = kept.since.iter().map(ToString::to_string);
                format!("{file}, and as set since: {}", set.collect::<Vec<_>>().join("; "))
            });
            return Ok((kept, news));
        }
        let number = confirmed.head.number;
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
            if counts && *self.made_of(record)?.text == *text {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What this generation was made of.
    pub(crate) fn made_of(&self, record: &Record) -> io::Result<MadeOf> {
        let text =
            String::from_utf8(self.folder.read(&text_name(record.text_of))?).map_err(io::Error::other)?;
        Ok(MadeOf {
            file: record.file.clone(),
            text: text.into(),
            text_of: record.text_of,
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

    /// What is in force now: the one confirmed, if a start goes on with it.
    pub(crate) fn goes_on(&self, made_of: &MadeOf) -> bool {
        let confirmed = self.find(self.confirmed);
        let same = |record: &Record| (record.text_of, &record.since) == (made_of.text_of, &made_of.since);
        confirmed.is_some_and(same) && self.unconfirmed().is_empty()
    }

    /// A program runs from now on; until its end is noted, it counts as cut off.
    pub(crate) fn running(&mut self) -> io::Result<()> {
        replace(&mut *self.folder, RUNNING, b"")
    }

    /// The program ends in order.
    pub(crate) fn ended(&mut self) -> io::Result<()> {
        self.folder.remove(RUNNING)
    }

    /// Writes a generation before it is in force. What it was made of, with the place of its text.
    pub(crate) fn write(&mut self, head: Head, undoes: Vec<u64>, mut made_of: MadeOf) -> io::Result<MadeOf> {
        if made_of.text_of == 0 {
            replace(
                &mut *self.folder,
                &text_name(head.number),
                made_of.text.as_bytes(),
            )?;
            made_of.text_of = head.number;
        }
        let record = Record {
            head,
            undoes,
            file: made_of.file.clone(),
            text_of: made_of.text_of,
            since: made_of.since.clone(),
        };
        let bytes = serde_json::to_vec(&record).map_err(io::Error::other)?;
        replace(&mut *self.folder, &record.name(), &bytes)?;
        self.records.push(record);
        Ok(made_of)
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
        let texts =
            |records: &[Record]| -> BTreeSet<u64> { records.iter().map(|record| record.text_of).collect() };
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
mod tests {
    use super::*;
    use crate::generations::{Change, Generations};
    use control::protocol::SettingChange;
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    type Files = BTreeMap<String, Vec<u8>>;

    /// A disk whose power goes off after some writes; what was being written then is cut short.
    #[derive(Clone, Debug, Default)]
    struct Power(Arc<Mutex<(Files, Option<usize>)>>);

    impl Power {
        fn with<T>(&self, act: impl FnOnce(&mut Files, &mut Option<usize>) -> T) -> T {
            let mut disk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (files, left) = &mut *disk;
            act(files, left)
        }

        fn goes_off_after(&self, writes: Option<usize>) {
            self.with(|_, left| *left = writes);
        }

        fn is_off(&self) -> bool {
            self.with(|_, left| *left == Some(0))
        }

        /// One write; `cut` is what is left of it if the power goes off now.
        fn write(&self, cut: impl FnOnce(&mut Files), whole: impl FnOnce(&mut Files)) -> io::Result<()> {
            self.with(|files, left| {
                match left {
                    Some(0) => return Err(io::Error::other("no power")),
                    Some(1) => {
                        *left = Some(0);
                        cut(files);
                        return Err(io::Error::other("no power"));
                    }
                    Some(more) => *more -= 1,
                    None => {}
                }
                whole(files);
                Ok(())
            })
        }
    }

    impl Folder for Power {
        fn names(&self) -> io::Result<Vec<String>> {
            Ok(self.with(|files, _| files.keys().cloned().collect()))
        }

        fn read(&self, name: &str) -> io::Result<Vec<u8>> {
            let found = self.with(|files, _| files.get(name).cloned());
            found.ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
            let part = bytes[..bytes.len() / 2].to_vec();
            self.write(
                |files| drop(files.insert(name.into(), part)),
                |files| drop(files.insert(name.into(), bytes.to_vec())),
            )
        }

        fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
            let moved = |files: &mut Files| {
                let bytes = files.remove(from).expect("it is there");
                files.insert(to.into(), bytes);
            };
            self.write(|_| (), moved)
        }

        fn remove(&mut self, name: &str) -> io::Result<()> {
            self.write(|_| (), |files| drop(files.remove(name)))
        }
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Step {
        Apply,
        ApplyToConfirm,
        Confirm,
        TimeOut,
        Rollback,
        Set,
        /// Until an hour later.
        SetForATime,
        /// One that a request has added goes, or comes.
        Class,
        /// Two hours.
        TimePasses,
        Restart,
        Crash,
    }

    const STEPS: [Step; 11] = [
        Step::Apply,
        Step::ApplyToConfirm,
        Step::Confirm,
        Step::TimeOut,
        Step::Rollback,
        Step::Set,
        Step::SetForATime,
        Step::Class,
        Step::TimePasses,
        Step::Restart,
        Step::Crash,
    ];

    /// What is in force: a text, and the changes since.
    type Content = (String, Vec<Amendment>);

    fn content(made_of: &MadeOf) -> Content {
        (made_of.text.to_string(), made_of.since.clone())
    }

    /// What is left of it at this moment.
    fn left(content: &Content, now_ms: u64) -> Content {
        let (text, since) = content.clone();
        let stays = |change: &Amendment| change.until_ms().is_none_or(|until| until > now_ms);
        (text, since.into_iter().filter(stays).collect())
    }

    /// A class that comes, and that goes again.
    fn a_class() -> (Amendment, Amendment) {
        let (interface, class) = ("wan0".to_owned(), "b".to_owned());
        let removed = RemovedClass {
            interface: interface.clone(),
            class: class.clone(),
            until_ms: None,
            reason: None,
        };
        let added = AddedClass {
            interface,
            class,
            settings: [("weight".to_owned(), SettingChange::Integer(2))].into(),
            filters: vec![[("dscp".to_owned(), SettingChange::Integer(8))].into()],
            until_ms: None,
            reason: None,
        };
        (Amendment::Added(added), Amendment::Removed(removed))
    }

    const HOUR: u64 = 3_600_000;

    /// A program with its policy file and its disk, and beside it what must be in force.
    struct World {
        power: Power,
        file: String,
        generations: Generations,
        /// What was in force, change by change; the last is.
        history: Vec<Content>,
        /// What was confirmed last; while a change waits, not what is in force.
        confirmed: Content,
        waits: bool,
        changes: u32,
        now_ms: u64,
    }

    fn start(power: &Power, file: &str, now_ms: u64) -> io::Result<(Generations, Content)> {
        let kept = Kept::read(Box::new(power.clone()))?;
        let (made_of, _) = kept.choose("FILE", file, now_ms)?;
        let begun = content(&made_of);
        Ok((Generations::new(Vec::new(), Some(kept), made_of)?, begun))
    }

    impl World {
        fn new() -> Self {
            let power = Power::default();
            let (generations, begun) = start(&power, "text 0", 0).expect("power");
            Self {
                power,
                file: "text 0".into(),
                generations,
                history: vec![begun.clone()],
                confirmed: begun,
                waits: false,
                changes: 0,
                now_ms: 0,
            }
        }

        /// What is in force from now on, and whether it waits.
        fn now(&mut self, content: Content, waits: bool) {
            self.history.push(content.clone());
            if !waits {
                self.confirmed = content;
            }
            self.waits = waits;
        }

        fn begins_anew(&mut self) {
            self.power.goes_off_after(None);
            let (generations, begun) = start(&self.power, &self.file, self.now_ms).expect("power");
            self.confirmed = left(&self.confirmed, self.now_ms);
            assert_eq!(begun, self.confirmed, "the start goes on with the last confirmed");
            self.generations = generations;
            let last = self.history.last().expect("there is one").clone();
            if last != begun {
                self.history.push(begun);
            }
            self.waits = false;
        }

        /// Does it, if it can be done now; the model follows.
        fn step(&mut self, step: Step) {
            let last = self.history.last().expect("there is one").clone();
            let adopted = || Ok(((), Vec::new()));
            match step {
                Step::Apply | Step::ApplyToConfirm if !self.waits => {
                    self.changes += 1;
                    self.file = format!("text {}", self.changes);
                    let waits = step == Step::ApplyToConfirm;
                    let change = Change {
                        made_of: MadeOf::text("FILE", &self.file),
                        confirm_within: waits.then_some(Duration::ZERO),
                        ..Change::by("apply", Provenance::default())
                    };
                    let _ = self.generations.make(change, adopted);
                    self.now((self.file.clone(), Vec::new()), waits);
                }
                Step::Set | Step::SetForATime if !self.waits => {
                    self.changes += 1;
                    let value = SettingChange::Integer(i64::from(self.changes));
                    let for_a_time = step == Step::SetForATime;
                    let wanted = SettingChanges {
                        interface: "wan0".into(),
                        class: Some("a".into()),
                        changes: [("weight".to_owned(), value)].into(),
                        until_ms: for_a_time.then_some(self.now_ms + HOUR),
                        reason: None,
                    };
                    let made_of = self.generations.made_of().clone().with(&Amendment::Set(wanted));
                    let changed = content(&made_of);
                    let change = Change {
                        made_of,
                        ..Change::by("set", Provenance::default())
                    };
                    let _ = self.generations.make(change, adopted);
                    self.now(changed, false);
                }
                Step::Class if !self.waits => {
                    let made_of = self.generations.made_of().clone();
                    let (added, removed) = a_class();
                    let is_there = made_of.since.contains(&added);
                    let made_of = made_of.with(if is_there { &removed } else { &added });
                    // One that came and went leaves nothing.
                    assert_eq!(made_of.since.contains(&added), !is_there);
                    assert!(!made_of.since.contains(&removed));
                    let changed = content(&made_of);
                    let change = Change {
                        made_of,
                        ..Change::by("class", Provenance::default())
                    };
                    let _ = self.generations.make(change, adopted);
                    self.now(changed, false);
                }
                Step::TimePasses => {
                    self.now_ms += 2 * HOUR;
                    if let Some(rest) = self.generations.rest(self.now_ms) {
                        let ended = content(&rest);
                        let change = Change {
                            made_of: rest,
                            ends_by_itself: true,
                            ..Change::by("end", Provenance::default())
                        };
                        let _ = self.generations.make(change, adopted);
                        self.now(ended, false);
                    }
                }
                Step::Confirm if self.waits => {
                    let _ = self.generations.confirm();
                    self.confirmed = last;
                    self.waits = false;
                }
                Step::TimeOut if self.waits => {
                    let back_to = self.generations.overdue();
                    self.goes_back(back_to.expect("its time is over"));
                }
                Step::Rollback if self.history.len() > 1 => {
                    let before = self.generations.find(None).expect("there is one before");
                    self.goes_back(before.head.number);
                }
                Step::Restart => {
                    let _ = self.generations.ended();
                    if !self.power.is_off() {
                        self.begins_anew();
                    }
                }
                Step::Crash => self.begins_anew(),
                _ => {}
            }
        }

        fn goes_back(&mut self, to: u64) {
            let found = self.generations.find(Some(to)).expect("it is kept");
            let made_of = found.made_of.at(self.now_ms);
            let back = content(&made_of);
            let change = Change {
                made_of,
                back_to: Some(to),
                ..Change::by("rollback", Provenance::default())
            };
            let _ = self.generations.make(change, || Ok(((), Vec::new())));
            self.now(back, false);
        }
    }

    /// The steps, of which the last is cut off after some writes. Whether it was.
    fn cut_off(steps: &[Step], writes: usize) -> bool {
        let mut world = World::new();
        let (last, first) = steps.split_last().expect("a step");
        first.iter().for_each(|step| world.step(*step));
        let before = world.confirmed.clone();
        world.power.goes_off_after(Some(writes));
        world.step(*last);
        let cut = world.power.is_off();
        world.power.goes_off_after(None);
        let now = world.now_ms;
        let (_, begun) = start(&world.power, &world.file, now).expect("power");
        // Cut off in the middle it is done or it is not; otherwise it is done.
        let good = begun == left(&world.confirmed, now) || cut && begun == left(&before, now);
        assert!(good, "{steps:?}, cut after {writes}: {begun:?}");
        let (_, again) = start(&world.power, &world.file, now).expect("power");
        assert_eq!(again, begun, "{steps:?}, cut after {writes}: the second crash");
        cut
    }

    #[test]
    fn every_interleaving_with_a_crash_at_any_write_ends_in_the_last_confirmed_generation() {
        let mut crashes = 0;
        for number in 0..STEPS.len().pow(4) {
            let digit = |place: u32| STEPS[number / STEPS.len().pow(place) % STEPS.len()];
            let steps: Vec<Step> = (0..4).map(digit).collect();
            crashes += (1..100).take_while(|writes| cut_off(&steps, *writes)).count();
        }
        assert!(crashes > 5_000, "{crashes} crashes");
    }

    #[test]
    fn a_file_that_was_edited_counts_after_an_orderly_end_alone() {
        let mut world = World::new();
        world.step(Step::Set);
        let (_, begun) = start(&world.power, "edited", 0).expect("power");
        assert_eq!(begun, world.confirmed, "the program was cut off");
        let (mut generations, _) = start(&world.power, "text 0", 0).expect("power");
        generations.ended().expect("power");
        drop(generations);
        let (mut generations, begun) = start(&world.power, "edited", 0).expect("power");
        assert_eq!(begun, ("edited".to_owned(), Vec::new()));
        // What was before it is still known, by its number.
        let before = generations.find(None).expect("there is one before");
        assert_eq!(content(&before.made_of), world.confirmed);
        generations.ended().expect("power");
    }

    #[test]
    fn what_is_undone_needs_no_disk() {
        let mut world = World::new();
        let first = world.confirmed.clone();
        world.step(Step::ApplyToConfirm);
        world.power.goes_off_after(Some(0));
        world.step(Step::TimeOut);
        assert_eq!(content(world.generations.made_of()), first);
        world.power.goes_off_after(None);
        let (_, begun) = start(&world.power, &world.file, 0).expect("power");
        assert_eq!(begun, first);
    }

    #[test]
    fn a_change_that_cannot_be_written_is_not_made() {
        let mut world = World::new();
        world.power.goes_off_after(Some(0));
        let change = Change {
            made_of: MadeOf::text("FILE", "other"),
            ..Change::by("apply", Provenance::default())
        };
        let adopted = || -> Result<((), _), _> { panic!("it is put into force") };
        let why = world.generations.make(change, adopted).expect_err("no power");
        assert!(why.message.starts_with("nothing was changed"), "{why}");
    }

    #[test]
    fn old_generations_and_their_texts_are_removed() {
        let mut world = World::new();
        for _ in 0..100 {
            world.step(Step::Apply);
            world.step(Step::Set);
        }
        let names = Folder::names(&world.power).expect("power");
        assert!(names.len() < 60, "{names:?}");
        world.begins_anew();
        assert_eq!(world.generations.show().len(), 32);
    }
}
