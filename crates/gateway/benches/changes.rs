//! One class of 10 to 100,000 added with a filter, removed, set, and each of these by `apply` of a
//! file, a 20th of all classes that come, go and are set in one `apply`, planned before, the whole
//! tree made one of another kind, and one class more right after that, while the packet loop runs:
//! how long the loop pauses at most, and what the whole request takes; and the same of a `status`.
//! Each beside its goal.
//!
//! `cargo bench -p gateway --bench changes [-- CLASSES… KINDS…]`. A pause is the part of a turn of
//! the loop before it asks for packets; beside it the whole turn. Each is the processor time of its
//! thread, so that other work on the machine does not count, and no more than the time that passed:
//! the kernel charges a thread in lumps, so that a turn of 9 µs was seen to have taken 2.4 ms of
//! processor time. Both are the longest of many turns, so what takes longer meets more of the
//! machine's own hiccups, where a host takes the processor away unseen: `nothing` lasts 50 ms,
//! `another program` a second beside one that computes and touches no memory, and `policy read` is
//! what the loop has while the file is only read, for about as long as an `apply`. With
//! traffic, frames for all classes arrive faster than they leave, so that as many classes are
//! backlogged as the memory has room for. The whole request is all that the server does for it
//! (`suimon class add`, `class remove`, `set`, `apply`) until it is a generation in force, without
//! a disk. Medians of the rounds.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers")]

use control::difference::Breaking;
use control::policy::Policy;
use control::protocol::{AddedClass, Amendment, RemovedClass, SettingChange, SettingChanges};
use control::provenance::Provenance;
use engine::packet::Buffer;
use engine::tree::Registry;
use gateway::changes::PolicyChanges;
use gateway::direction;
use gateway::in_force::InForce;
use gateway::kept::MadeOf;
use gateway::vacancies::laid_out;
use netio::handle::Handle;
use netio::pool::{Offload, Pool};
use netio::port::{Capabilities, Counters, Port, PortError, Wake};
use netio::worker::{Settings, Worker};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const SIZES: [usize; 3] = [10, 10_000, 100_000];
/// Of the longest pause, and of the whole request.
const GOALS: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(5)];

thread_local! {
    /// When this turn of the loop first asked for packets.
    static ASKED: Cell<Option<Moment>> = const { Cell::new(None) };
}
/// A kind, and a setting of a class with two values.
const KINDS: [(&str, &str, [&str; 2]); 4] = [
    ("drr", "weight", ["1", "2"]),
    ("hfsc", "linkshare", ["50 kbit/s", "90 kbit/s"]),
    ("cbq", "rate", ["50 kbit/s", "90 kbit/s"]),
    ("wrr", "weight", ["1", "2"]),
];

/// A port that gives frames to all classes in a scattered order, or none, and sends nothing on.
#[derive(Debug)]
struct Scattering {
    classes: u64,
    given: u64,
    frame: Vec<u8>,
}

impl Scattering {
    fn new(classes: u64) -> Self {
        let mut frame = vec![0; 114];
        frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
        frame[16..18].copy_from_slice(&100u16.to_be_bytes());
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..30].copy_from_slice(&[192, 0, 2, 1]);
        let given = 0;
        Self {
            classes,
            given,
            frame,
        }
    }
}

impl Port for Scattering {
    fn name(&self) -> &'static str {
        "scattering"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(1500, 64)
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        if ASKED.get().is_none() {
            ASKED.set(Some(Moment::now()));
        }
        for _ in 0..if self.classes > 0 { 32 } else { 0 } {
            self.given = self.given.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let class = (self.given >> 33) % self.classes;
            self.frame[30..34].copy_from_slice(&address(class as usize));
            into.extend(pool.put(&self.frame, Offload::default()));
        }
        Ok(())
    }

    fn room(&self) -> usize {
        64
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        pool.free(frame);
    }

    fn kick(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn wake(&self, _room: bool) -> Option<Wake<'_>> {
        None
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// The address of a class.
fn address(class: usize) -> [u8; 4] {
    (0x0a00_0000 + class as u32).to_be_bytes()
}

/// The text of a policy of these classes, each with this value of its setting.
fn text(
    (kind, key, _): (&str, &str, [&str; 2]),
    classes: impl Iterator<Item = usize>,
    value_of: impl Fn(usize) -> &'static str,
) -> String {
    let mut text =
        format!("version = 1\n[interface.wan0]\nbandwidth = \"10 Gbit/s\"\ndiscipline = \"{kind}\"\n");
    for class in classes {
        let [a, b, c, d] = address(class);
        let default = class == 0;
        let value = value_of(class);
        let value = match value.parse::<u64>() {
            Ok(number) => number.to_string(),
            Err(_) => format!("\"{value}\""),
        };
        let _ = write!(
            text,
            "[[interface.wan0.class]]\nname = \"c{class}\"\ndefault = {default}\ndiscipline = \"fifo\"\n{key} = {value}\n\
             [[interface.wan0.filter]]\nclass = \"c{class}\"\ndestination = \"{a}.{b}.{c}.{d}\"\n",
        );
    }
    text
}

/// One of so many classes comes, one goes, and one has another value, where many change at once.
const OF_MANY: usize = 20;

/// Policies in files: as it was, with another value of one class, with one class more, with very
/// many changes, and with another discipline.
struct Files {
    folder: PathBuf,
    base: PathBuf,
    other: PathBuf,
    more: PathBuf,
    many: PathBuf,
    kind: PathBuf,
}

impl Files {
    fn write(kind: (&'static str, &'static str, [&'static str; 2]), classes: usize) -> Self {
        let folder = std::env::temp_dir().join(format!("suimon-changes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for policies");
        let [value, another] = kind.2;
        let file = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("a policy's file");
            path
        };
        let changed = classes / 2;
        let one = |class| if class == changed { another } else { value };
        Self {
            base: file("base.toml", text(kind, 0..classes, |_| value)),
            other: file("other.toml", text(kind, 0..classes, one)),
            more: file("more.toml", text(kind, 0..classes + 1, |_| value)),
            many: {
                let stay = (0..classes).filter(|class| class % OF_MANY != 7);
                let come = classes..classes + classes.div_ceil(OF_MANY);
                let some = |class: usize| if class % OF_MANY == 3 { another } else { value };
                file("many.toml", text(kind, stay.chain(come), some))
            },
            kind: {
                let another = KINDS[usize::from(kind.0 == KINDS[0].0)];
                file("kind.toml", text(another, 0..classes, |_| another.2[0]))
            },
            folder,
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn read(text: &str) -> Policy {
    let read = Policy::read("bench", text, &Registry::builtin(), &[]);
    read.unwrap_or_else(|why| panic!("{}", why.render(false)))
}

/// A moment of a thread: by the clock, and by its processor time.
#[derive(Clone, Copy, Debug)]
struct Moment([Duration; 2]);

impl Moment {
    fn now() -> Self {
        Self([ClockId::Monotonic, ClockId::ThreadCPUTime].map(|clock| {
            let now = clock_gettime(clock);
            Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
        }))
    }

    /// What the thread took since then: neither what it did not have the processor for, nor what
    /// it was charged for and did not take.
    fn took_since(self, then: Self) -> Duration {
        let [passed, charged] = [0, 1].map(|clock| self.0[clock] - then.0[clock]);
        passed.min(charged)
    }
}

/// The longest turn and pause since they were asked for last, and whether the loop is to end.
#[derive(Debug, Default)]
struct Longest {
    turn: AtomicU64,
    pause: AtomicU64,
    end: AtomicBool,
}

impl Longest {
    fn take(&self) -> [Duration; 2] {
        [&self.turn, &self.pause].map(|nanos| Duration::from_nanos(nanos.swap(0, Ordering::Relaxed)))
    }
}

fn run(mut worker: Worker, longest: &Longest) {
    while !longest.end.load(Ordering::Relaxed) {
        let before = Moment::now();
        ASKED.set(None);
        let _ = worker.turn();
        let turn = Moment::now().took_since(before);
        let pause = ASKED.get().map_or(turn, |asked| asked.took_since(before));
        for (most, took) in [(&longest.turn, turn), (&longest.pause, pause)] {
            most.fetch_max(took.as_nanos() as u64, Ordering::Relaxed);
        }
    }
    // What is queued is not sent.
    drop(worker);
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

/// What was measured of one kind of request.
#[derive(Default)]
struct Measured {
    turns: Vec<Duration>,
    pauses: Vec<Duration>,
    wholes: Vec<Duration>,
}

impl Measured {
    fn make(&mut self, longest: &Longest, request: impl FnOnce()) {
        longest.take();
        let start = Instant::now();
        request();
        self.wholes.push(start.elapsed());
        std::thread::sleep(Duration::from_millis(20));
        let [turn, pause] = longest.take();
        self.turns.push(turn);
        self.pauses.push(pause);
    }

    /// The median of each.
    fn medians(self) -> [Duration; 3] {
        [self.turns, self.pauses, self.wholes].map(median)
    }
}

/// What is asked of the server, and whether there is a goal for the longest pause, and for the
/// whole.
const REQUESTS: [(&str, [bool; 2]); 14] = [
    ("nothing", [false; 2]),
    ("another program", [false; 2]),
    ("class added", [true; 2]),
    ("class removed", [true; 2]),
    ("class set", [true; 2]),
    ("apply: one added", [true; 2]),
    ("apply: one removed", [true; 2]),
    ("apply: one set", [true; 2]),
    ("plan: a 20th each", [true, false]),
    ("apply: a 20th each", [true, false]),
    ("apply: the whole", [true, false]),
    ("then one added", [true; 2]),
    ("status", [true, false]),
    ("policy read", [false; 2]),
];

/// A running program: its worker beside, and what changes it.
struct Program {
    changes: PolicyChanges,
    handle: Handle,
    longest: Arc<Longest>,
    thread: std::thread::JoinHandle<()>,
}

impl Program {
    fn start(text: &str, policy: &Policy, arriving: u64) -> Self {
        let registry = Registry::builtin();
        let base = &policy.interfaces[0];
        let whole = laid_out(base, &registry);
        let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
        let from = worker.add_port(Box::new(Scattering::new(arriving)));
        let to = worker.add_port(Box::new(Scattering::new(0)));
        let path = worker.add_path(direction::managed(&whole, from, to));
        let in_force = InForce::running(handle.clone(), registry, [((path, base.clone()), whole)]);
        let made_of = MadeOf::text("bench", text);
        let changes = PolicyChanges::new(Arc::new(in_force), None, policy, None, made_of).expect("no disk");
        let longest = Arc::new(Longest::default());
        let own = Arc::clone(&longest);
        let thread = std::thread::spawn(move || run(worker, &own));
        std::thread::sleep(Duration::from_millis(500));
        Self {
            changes,
            handle,
            longest,
            thread,
        }
    }

    fn end(self) {
        self.longest.end.store(true, Ordering::Relaxed);
        self.thread.join().expect("an orderly end");
    }

    fn set(&self, class: usize, key: &str, value: &str) {
        let wanted = SettingChanges {
            interface: "wan0".into(),
            class: Some(format!("c{class}")),
            changes: [(key.to_owned(), SettingChange::from_word(value))].into(),
            until_ms: None,
            reason: None,
        };
        self.changes
            .set(&wanted, Provenance::default())
            .expect("a change");
    }

    fn add(&self, class: usize, key: &str, value: &str) {
        let [a, b, c, d] = address(class);
        let word = |key: &str, value: &str| (key.to_owned(), SettingChange::from_word(value));
        let added = Amendment::Added(AddedClass {
            interface: "wan0".into(),
            class: format!("c{class}"),
            settings: [word(key, value), word("discipline", "fifo")].into(),
            filters: vec![[word("destination", &format!("{a}.{b}.{c}.{d}"))].into()],
            quota: None,
            until_ms: None,
            reason: None,
        });
        self.change_class(&added);
    }

    fn remove(&self, class: usize) {
        self.change_class(&Amendment::Removed(RemovedClass {
            interface: "wan0".into(),
            class: format!("c{class}"),
            until_ms: None,
            reason: None,
        }));
    }

    fn apply(&self, file: &Path) {
        self.changes
            .apply(file, None, Breaking::Refused, Provenance::default(), &|| false)
            .expect("a change");
    }

    /// The file, and what the server does between requests.
    fn apply_and_settle(&self, file: &Path) {
        self.apply(file);
        self.settle();
    }

    fn settle(&self) {
        assert!(self.changes.settle().is_none(), "nothing is due");
    }

    fn plan(&self, file: &Path) {
        let planned = self.changes.plan(file, &|| false).expect("a plan");
        assert!(!planned.is_empty());
    }

    fn change_class(&self, change: &Amendment) {
        self.changes
            .change_class(change, Provenance::default())
            .expect("a change");
    }
}

/// The word by which this bench is the other program.
const OTHER: &str = "compute-for-a-second";

/// Another program, in a process and memory of its own, computes for a second.
fn another_program() {
    let own = std::env::current_exe().expect("this bench's own path");
    let ended = std::process::Command::new(own).arg(OTHER).status();
    assert!(ended.expect("another program").success());
}

/// Computes for a second, in registers.
fn compute() {
    let began = Instant::now();
    let mut number = 1u64;
    while began.elapsed() < Duration::from_secs(1) {
        for _ in 0..10_000 {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// The medians of every request among so many classes, in the order of [`REQUESTS`].
fn measure(
    kind: (&'static str, &'static str, [&'static str; 2]),
    classes: usize,
    traffic: bool,
) -> [[Duration; 3]; REQUESTS.len()] {
    let (_, key, values) = kind;
    let text = text(kind, 0..classes, |_| values[0]);
    let policy = read(&text);
    let program = Program::start(&text, &policy, if traffic { classes as u64 } else { 0 });
    drop(policy);
    let longest = &program.longest;
    let mut all = [(); REQUESTS.len()].map(|()| Measured::default());
    let [
        quiet,
        beside,
        added,
        removed,
        set,
        more,
        fewer,
        other,
        planned,
        many,
        kinds,
        after_whole,
        status,
        only_read,
    ] = &mut all;
    for round in 0..ROUNDS {
        quiet.make(longest, || std::thread::sleep(Duration::from_millis(30)));
        beside.make(longest, another_program);
        added.make(longest, || program.add(classes, key, values[0]));
        removed.make(longest, || program.remove(classes));
        let class = classes / 2 + round;
        set.make(longest, || program.set(class, key, values[1]));
        status.make(longest, || drop(program.handle.inspect().expect("an answer")));
        only_read.make(longest, || drop(read(&text)));
    }
    let files = Files::write(kind, classes);
    program.apply_and_settle(&files.base);
    let changed = |measured: &mut Measured, file: &Path| {
        measured.make(longest, || program.apply(file));
        program.settle();
    };
    for _ in 0..ROUNDS {
        changed(more, &files.more);
        changed(fewer, &files.base);
        changed(other, &files.other);
        program.apply_and_settle(&files.base);
    }
    for _ in 0..ROUNDS {
        planned.make(longest, || program.plan(&files.many));
        changed(many, &files.many);
        program.apply_and_settle(&files.base);
        changed(kinds, &files.kind);
        program.apply_and_settle(&files.base);
        changed(after_whole, &files.more);
        program.apply_and_settle(&files.base);
    }
    program.end();
    all.map(Measured::medians)
}

/// What was measured of one request, by the number of classes, beside the goals.
fn show(name: &str, traffic: bool, request: usize, sizes: &[[[Duration; 3]; REQUESTS.len()]]) {
    let (what, has_goal) = REQUESTS[request];
    let times = |column: usize| sizes.iter().map(move |size| size[request][column]);
    let turns: String = times(0)
        .map(|time| format!(" {:>8.0}", time.as_secs_f64() * 1e6))
        .collect();
    let column = |which: usize, unit: f64, digits: usize| {
        let times = || times(which + 1);
        let shown = |time: Duration| format!(" {:>8.digits$}", time.as_secs_f64() * unit);
        let verdict = match times().all(|time| time <= GOALS[which]) {
            _ if !has_goal[which] => "",
            true => "met",
            false => "missed",
        };
        format!("{} {verdict:<7}", times().map(shown).collect::<String>())
    };
    let load = if traffic { "traffic" } else { "idle" };
    let columns = [turns, column(0, 1e6, 0), column(1, 1e3, 1)].concat();
    println!("{name:<5} {load:<7} {what:<18}{}", columns.trim_end());
}

fn main() {
    if std::env::args().any(|word| word == OTHER) {
        return compute();
    }
    let said: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let classes = if said.is_empty() { SIZES.to_vec() } else { said };
    let [pause, whole] = GOALS;
    println!(
        "among {classes:?} classes: the longest turn of the loop in µs, its longest pause in µs (goal: {}), and the whole request in ms (goal: {})",
        pause.as_micros(),
        whole.as_millis()
    );
    let named = |kind: &&(&str, &str, [&str; 2])| std::env::args().any(|word| word == kind.0);
    let all_of_them = !KINDS.iter().any(|kind| named(&kind));
    for kind in KINDS.into_iter().filter(|kind| all_of_them || named(&kind)) {
        for traffic in [false, true] {
            let sizes: Vec<_> = classes.iter().map(|&many| measure(kind, many, traffic)).collect();
            (0..REQUESTS.len()).for_each(|request| show(kind.0, traffic, request, &sizes));
        }
    }
}
