//! Generations on a disk that fails at any write: which is in force then, and after a start.

use super::*;
use crate::generations::{Change, Generations};
use crate::state_folder::failing::{Failure, Power};
use control::protocol::SettingChange;
use netio::time::CallerTime;
use std::time::Duration;

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
    /// The computer's clock is set back by three hours.
    ClockGoesBack,
    Restart,
    Crash,
}

const STEPS: [Step; 12] = [
    Step::Apply,
    Step::ApplyToConfirm,
    Step::Confirm,
    Step::TimeOut,
    Step::Rollback,
    Step::Set,
    Step::SetForATime,
    Step::Class,
    Step::TimePasses,
    Step::ClockGoesBack,
    Step::Restart,
    Step::Crash,
];

/// What is in force: a text, and the changes since.
type Content = (String, Vec<Amendment>);

fn content(made_of: &MadeOf) -> Content {
    (made_of.text.whole().into_owned(), made_of.since.clone())
}

/// The lines around the one that differs in the texts of a world.
const AROUND: [&str; 2] = ["version = 1\n# text ", "\n# its end\n"];

/// A text of a world.
fn text(number: u32) -> String {
    let [before, after] = AROUND;
    format!("{before}{number}{after}")
}

/// This text of a world, as a file that has it is read while another is in force: now as an edit of
/// that, now as a text of its own.
fn read_beside(in_force: &MadeOf, number: u32) -> MadeOf {
    if number.is_multiple_of(3) {
        return MadeOf::text("FILE", text(number));
    }
    let [before, after] = AROUND.map(str::len);
    let at = before..in_force.text.base().len() - after;
    let with = number.to_string();
    let edited = in_force.text.edited(Edit { at, with });
    in_force.renewed("FILE", edited.expect("a part of each text"))
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
        quota: None,
        until_ms: None,
        reason: None,
    };
    (Amendment::Added(added), Amendment::Removed(removed))
}

const HOUR: u64 = 3_600_000;
/// When a world begins.
const DAY: u64 = 24 * HOUR;

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
    /// The file has a text that was refused: no generation has it.
    edited: bool,
    changes: u32,
    now_ms: u64,
    /// What is tried, for whom it fails.
    story: String,
}

fn start(power: &Power, file: &str, now_ms: u64) -> io::Result<(Generations, Content)> {
    let kept = Kept::read(Box::new(power.clone()))?;
    let (made_of, _) = kept.choose("FILE", file, now_ms)?;
    let begun = content(&made_of);
    Ok((
        Generations::new(Vec::new(), Some(kept), made_of, CallerTime::default())?,
        begun,
    ))
}

impl World {
    fn new(failure: Failure) -> Self {
        let power = Power::new(failure);
        let (generations, begun) = start(&power, &text(0), DAY).expect("power");
        Self {
            power,
            file: text(0),
            generations,
            history: vec![begun.clone()],
            confirmed: begun,
            waits: false,
            edited: false,
            changes: 0,
            now_ms: DAY,
            story: String::new(),
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

    /// Makes a change after which this is in force, if it is made; the model follows the answer.
    fn make(&mut self, change: Change, content: Content, waits: bool) -> Result<(), ()> {
        match self.generations.make(change, || Ok(((), Vec::new()))) {
            Ok(()) => self.now(content, waits),
            Err(why) if why.message.starts_with("nothing was changed") => return Err(()),
            // In force, until a restart undoes it.
            Err(_) => self.now(content, true),
        }
        Ok(())
    }

    fn assert_in_force(&self) {
        let found = self::content(self.generations.made_of());
        assert_eq!(Some(&found), self.history.last(), "{}", self.story);
    }

    fn begins_anew(&mut self, in_order: bool) {
        self.confirmed = left(&self.confirmed, self.now_ms);
        let empty = self.power.failure() == Failure::Gone && self.power.is_off();
        self.power.goes_off_after(None);
        let (generations, begun) = start(&self.power, &self.file, self.now_ms).expect("power");
        if empty || in_order && self.edited && !self.waits {
            // The file is another, and no generation was; or there is none.
            self.confirmed = (self.file.clone(), Vec::new());
        }
        assert_eq!(
            begun, self.confirmed,
            "{}: the start goes on with the last confirmed",
            self.story
        );
        self.edited = self.edited && begun.0 != self.file;
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
        match step {
            Step::Apply | Step::ApplyToConfirm if !self.waits => {
                self.changes += 1;
                self.file = text(self.changes);
                let waits = step == Step::ApplyToConfirm;
                let change = Change {
                    made_of: read_beside(self.generations.made_of(), self.changes),
                    confirm_within: waits.then_some(Duration::ZERO),
                    ..Change::by("apply", Provenance::default())
                };
                let content = (self.file.clone(), Vec::new());
                self.edited = self.make(change, content, waits).is_err();
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
                let _ = self.make(change, changed, false);
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
                let _ = self.make(change, changed, false);
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
                    let _ = self.make(change, ended, false);
                }
            }
            Step::ClockGoesBack => self.now_ms -= 3 * HOUR,
            Step::Confirm if self.waits && self.generations.confirm().is_ok() => {
                self.confirmed = last;
                self.waits = false;
            }
            Step::TimeOut if self.waits => {
                // None if only a restart undoes it.
                if let Some(back_to) = self.generations.overdue() {
                    self.goes_back(back_to);
                }
            }
            Step::Rollback if self.history.len() > 1 => {
                let before = self.generations.earlier().next();
                let before = before.map(|before| before.head.number);
                let before = self.generations.waits_before().or(before);
                before.into_iter().for_each(|before| self.goes_back(before));
            }
            Step::Restart => {
                let _ = self.generations.ended();
                if !self.power.is_off() {
                    self.begins_anew(true);
                }
            }
            Step::Crash => self.begins_anew(false),
            _ => {}
        }
        self.assert_in_force();
    }

    fn goes_back(&mut self, to: u64) {
        let found = self.generations.find(to).expect("it is kept");
        let made_of = found.made_of.clone().at(self.now_ms);
        let back = content(&made_of);
        let change = Change {
            made_of,
            back_to: Some(to),
            ..Change::by("rollback", Provenance::default())
        };
        let _ = self.make(change, back, false);
    }
}

/// The steps, of which the last is cut off after some writes. Whether it was.
fn cut_off(steps: &[Step], writes: usize) -> bool {
    let mut world = World::new(Failure::Off);
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

/// All sequences of so many steps.
fn sequences<const LEN: usize>() -> impl Iterator<Item = [Step; LEN]> {
    let digit = |number: usize, place: usize| STEPS[number / STEPS.len().pow(place as u32) % STEPS.len()];
    (0..STEPS.len().pow(LEN as u32)).map(move |number| std::array::from_fn(|place| digit(number, place)))
}

#[test]
fn every_interleaving_with_a_crash_at_any_write_ends_in_the_last_confirmed_generation() {
    let mut crashes = 0;
    for steps in sequences::<4>() {
        crashes += (1..100).take_while(|writes| cut_off(&steps, *writes)).count();
    }
    assert!(crashes > 5_000, "{crashes} crashes");
}

/// Some steps, of which the last finds a disk that fails after some writes; then the disk works
/// again, another step is taken, and the program ends. Whether it failed.
fn fails(failure: Failure, steps: &[Step], writes: usize, [then, end]: [Step; 2]) -> bool {
    let mut world = World::new(failure);
    world.story = format!("{failure:?} after {writes}: {steps:?}, then {then:?}, {end:?}");
    let (last, first) = steps.split_last().expect("a step");
    first.iter().for_each(|step| world.step(*step));
    world.power.goes_off_after(Some(writes));
    world.step(*last);
    let failed = world.power.is_off();
    if failure != Failure::Gone {
        world.power.goes_off_after(None);
    }
    world.step(then);
    world.step(end);
    failed
}

#[test]
fn a_disk_that_is_full_at_any_write_leaves_the_last_confirmed_generation() {
    let mut failures = 0;
    for [steps @ .., then] in sequences::<4>() {
        // Nobody starts with a full disk: the start says so. And what has ended by itself, which
        // could not be written, has not if the clock goes back.
        let [.., last] = &steps;
        let starts = [Step::Restart, Step::Crash].contains(last);
        if starts || steps.contains(&Step::ClockGoesBack) || then == Step::ClockGoesBack {
            continue;
        }
        for end in [Step::Restart, Step::Crash] {
            let fails = |writes: &usize| fails(Failure::Full, &steps, *writes, [then, end]);
            failures += (1..100).take_while(fails).count();
        }
    }
    assert!(failures > 5_000, "{failures} failures");
}

#[test]
fn a_state_folder_that_is_removed_at_any_write_changes_nothing_until_the_next_start() {
    let mut failures = 0;
    for [steps @ .., then] in sequences::<3>() {
        if steps
            .iter()
            .chain([&then])
            .any(|step| [Step::Restart, Step::Crash].contains(step))
        {
            continue;
        }
        let fails = |writes: &usize| fails(Failure::Gone, &steps, *writes, [then, Step::Crash]);
        failures += (1..100).take_while(fails).count();
    }
    assert!(failures > 300, "{failures} failures");
}

#[test]
fn what_was_undone_while_the_disk_was_full_is_not_begun_with() {
    let mut world = World::new(Failure::Full);
    world.step(Step::ApplyToConfirm);
    world.power.goes_off_after(Some(0));
    world.step(Step::TimeOut);
    world.power.goes_off_after(None);
    world.step(Step::Set);
    // The file still has what nobody confirmed.
    world.step(Step::Restart);
    assert_eq!(world.confirmed.0, text(0));
}

#[test]
fn a_state_folder_that_another_has_replaced_is_not_written_to() {
    let path = std::env::temp_dir().join(format!("suimon-state-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let mut disk = Disk::open(&path).expect("a folder");
    replace(&mut disk, "a", b"text").expect("it is written");
    fs::remove_dir_all(&path).expect("it is removed");
    let refused = |disk: &mut Disk| {
        replace(disk, "a", b"text")
            .expect_err("it is not there")
            .to_string()
    };
    let gone = refused(&mut disk);
    fs::create_dir(&path).expect("another folder");
    let replaced = refused(&mut disk);
    let left = fs::read_dir(&path).expect("a folder").count();
    fs::remove_dir(&path).expect("it is empty");
    assert!(
        gone.contains("removed or replaced") && gone == replaced,
        "{gone}; {replaced}"
    );
    assert_eq!(left, 0);
}

#[test]
fn a_file_that_was_edited_counts_after_an_orderly_end_alone() {
    let mut world = World::new(Failure::Off);
    world.step(Step::Set);
    let (_, begun) = start(&world.power, "edited", DAY).expect("power");
    assert_eq!(begun, world.confirmed, "the program was cut off");
    let (mut generations, _) = start(&world.power, &text(0), DAY).expect("power");
    generations.ended().expect("power");
    drop(generations);
    let (mut generations, begun) = start(&world.power, "edited", DAY).expect("power");
    assert_eq!(begun, ("edited".to_owned(), Vec::new()));
    // What was before it is still known, by its number.
    let before = generations.earlier().next().expect("there is one before");
    assert_eq!(content(&before.made_of), world.confirmed);
    generations.ended().expect("power");
}

#[test]
fn what_is_undone_needs_no_disk() {
    let mut world = World::new(Failure::Off);
    let first = world.confirmed.clone();
    world.step(Step::ApplyToConfirm);
    world.power.goes_off_after(Some(0));
    world.step(Step::TimeOut);
    assert_eq!(content(world.generations.made_of()), first);
    world.power.goes_off_after(None);
    let (_, begun) = start(&world.power, &world.file, DAY).expect("power");
    assert_eq!(begun, first);
}

#[test]
fn a_change_that_cannot_be_written_is_not_made() {
    let mut world = World::new(Failure::Off);
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
    let mut world = World::new(Failure::Off);
    for _ in 0..100 {
        world.step(Step::Apply);
        world.step(Step::Set);
    }
    let names = Folder::names(&world.power).expect("power");
    assert!(names.len() < 60, "{names:?}");
    world.begins_anew(false);
    assert_eq!(world.generations.show().len(), 32);
}

#[test]
fn of_a_text_that_differs_in_a_part_only_that_is_written() {
    let mut world = World::new(Failure::Off);
    world.step(Step::Apply);
    world.step(Step::Apply);
    world.step(Step::Set);
    let mut names = Folder::names(&world.power).expect("power");
    names.retain(|name| name.starts_with("policy-"));
    assert_eq!(names, ["policy-1.toml"]);
    let record = Folder::read(&world.power, "generation-3.json").expect("power");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    assert_eq!(
        (&record["edit_of"], &record["edit"]["with"]),
        (&1.into(), &"2".into())
    );
    assert!(
        record.get("text_of").is_none(),
        "a former version would read the whole as it was"
    );
    world.begins_anew(false);
    let all: Vec<_> = world
        .generations
        .earlier()
        .map(|one| one.made_of.clone())
        .collect();
    let in_force = world.generations.made_of();
    assert_eq!(all.len(), 3);
    assert!(
        all.iter().all(|one| one.text.shares_base(&in_force.text)),
        "it is read once"
    );
    // The same for a program that takes the place.
    let heir = MadeOf::in_force(in_force.handed_over());
    assert!(heir.reads_as(in_force));
    let kept = Kept::read(Box::new(world.power.clone())).expect("power");
    let its = Generations::new(Vec::new(), Some(kept), heir, CallerTime::default()).expect("power");
    assert_eq!(its.number(), world.generations.number(), "it goes on");
    assert_eq!(its.made_of(), in_force);
}

/// A soak of the simulated router found it: their texts stayed.
#[test]
fn a_full_disk_leaves_nothing_of_generations_that_were_not_written() {
    let mut world = World::new(Failure::Full);
    for _ in 0..100 {
        for writes in 1..4 {
            world.power.goes_off_after(Some(writes));
            world.step(Step::Apply);
            world.power.goes_off_after(None);
            world.step(Step::Confirm);
            world.step(Step::Set);
        }
    }
    let names = Folder::names(&world.power).expect("power");
    let texts = world.generations.show().len() + 2;
    assert!(names.len() <= 2 * texts, "{names:?}");
}

#[test]
fn counts_of_quotas_that_cannot_be_read_are_not_taken_for_none() {
    let folder = std::env::temp_dir().join(format!("suimon-kept-{}", std::process::id()));
    let kept = || {
        let begun = Kept::begin(&folder, "policy.toml", "version = 1\n").expect("a folder");
        begun.0
    };
    assert_eq!(kept().quotas().expect("none is no error"), None);
    kept().keep_quotas(b"[]").expect("it is written");
    assert_eq!(kept().quotas().expect("it is read"), Some(b"[]".to_vec()));
    fs::remove_file(folder.join(QUOTAS)).expect("it was written");
    fs::create_dir(folder.join(QUOTAS)).expect("in its place");
    let why = kept().quotas().expect_err("nobody can read a folder").to_string();
    assert!(why.starts_with("quotas.json: "), "{why}");
    fs::remove_dir_all(&folder).expect("it is removed");
}
