//! The daemon in a simulation: one seed runs a whole router.
//!
//! The packet loops, the gates, requests, generations, time-outs, what `status` tells, and the node
//! that speaks RSVP are the program's own; simulated are the [kernel and the wires](kernel), the
//! [time](machine) in which they go, the disk, and the [links](signalling) to the hosts beside the
//! router, whose programs [reserve](reservations). A seed draws [steps](steps): traffic, changes,
//! and faults, each of which is judged by a ledger of all frames and by a model of what is in
//! force. What fails is shrunk, and told with its seed and a trace.

mod connections;
mod kernel;
mod machine;
mod policies;
mod quotas;
mod reservations;
pub(crate) mod rng;
mod router;
mod signalling;
mod soak;
mod steps;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use steps::{Kind, Shown, Step};

/// Seeds in CI; `SUIMON_DAEMON` says otherwise.
const SEEDS: u64 = 2_000;
/// Threads, each with seeds of its own.
const THREADS: usize = 2;
/// Is set where no other test of the process opens or closes a descriptor meanwhile.
const ALONE: &str = "SUIMON_DAEMON_ALONE";
/// How often fewer steps are tried.
const SHRINKS: usize = 400;

/// Does these steps; what was wrong if something was, panics included.
fn tried(seed: u64, steps: &[Step], file: &Path) -> Result<Shown, (String, Vec<String>)> {
    let run = AssertUnwindSafe(|| steps::run(seed, steps, file));
    catch_unwind(run).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Err((format!("panicked: {}", said.unwrap_or("?")), Vec::new()))
    })
}

/// The fewest steps found that still fail, and how.
fn shrunk(seed: u64, steps: &[Step], file: &Path) -> (Vec<Step>, String, Vec<String>) {
    let mut few = steps.to_vec();
    let mut tries = SHRINKS;
    let (mut why, mut trace) = tried(seed, &few, file).err().unwrap_or_default();
    let mut size = few.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < few.len() && tries > 0 {
            tries -= 1;
            let mut fewer = few.clone();
            fewer.drain(at..(at + size).min(few.len()));
            match tried(seed, &fewer, file) {
                Err((other, told)) => (few, why, trace) = (fewer, other, told),
                Ok(_) => at += size,
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    (few, why, trace)
}

/// What all seeds have shown.
#[derive(Default)]
struct All {
    seeds: u64,
    steps: u64,
    kinds: BTreeMap<Kind, u64>,
    shown: Shown,
}

impl All {
    fn add(&mut self, shown: &Shown) {
        self.seeds += 1;
        for (kind, times) in &shown.kinds {
            *self.kinds.entry(*kind).or_default() += times;
            self.steps += times;
        }
        let (all, one) = (&mut self.shown, shown);
        all.turns += one.turns;
        all.virtual_ms += one.virtual_ms;
        all.done += one.done;
        all.refused += one.refused;
        all.crashes_in_writes += one.crashes_in_writes;
        all.hold_ups += one.hold_ups;
        all.frames.sent += one.frames.sent;
        all.frames.forwarded += one.frames.forwarded;
        all.frames.lost += one.frames.lost;
        all.frames.garbage += one.frames.garbage;
        all.frames.bounded += one.frames.bounded;
        all.frames.reserved += one.frames.reserved;
        all.frames.lowered += one.frames.lowered;
        all.segments += one.segments;
        all.reserved.add(&one.reserved);
    }
}

/// A number of the environment.
fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A file of this process for the policy.
fn policy_file(which: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("suimon-daemon-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the policy");
    folder.join(format!("{which}.toml"))
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[test]
fn a_router_keeps_its_promises_whatever_a_seed_has_in_store() {
    let seeds = asked("SUIMON_DAEMON").unwrap_or(SEEDS);
    let first = asked("SUIMON_DAEMON_FIRST").unwrap_or(0);
    let next = AtomicU64::new(0);
    let (all, begun) = (Mutex::new(All::default()), Instant::now());
    let before = descriptors();
    let failed = Mutex::new(None::<u64>);
    let work = |thread: usize| {
        let file = policy_file(&thread.to_string());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= seeds || failed.lock().expect("not poisoned").is_some() {
                return;
            }
            let seed = first + number;
            match tried(seed, &steps::drawn(seed), &file) {
                Ok(shown) => all.lock().expect("not poisoned").add(&shown),
                Err(_) => {
                    let mut failed = failed.lock().expect("not poisoned");
                    *failed = Some(failed.map_or(seed, |other| other.min(seed)));
                }
            }
            if number.is_multiple_of(1_000) && number > 0 && seeds > SEEDS {
                let left = begun.elapsed().as_secs() * (seeds - number) / number;
                // A campaign shows what comes by this way as it comes.
                let _ = writeln!(io::stdout(), "{number} of {seeds} seeds; {left} s left");
            }
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| {
            let work = &work;
            scope.spawn(move || work(thread));
        });
    });
    if let Some(seed) = *failed.lock().expect("not poisoned") {
        fails(seed, &policy_file("shrunk"));
    }
    let all = all.into_inner().expect("not poisoned");
    tell(&all);
    if std::env::var_os(ALONE).is_some() {
        assert_eq!(descriptors(), before, "descriptors are left open");
    }
    if seeds >= SEEDS {
        for (kind, _) in steps::KINDS {
            assert!(all.kinds.contains_key(&kind), "no seed has {kind:?}");
        }
        assert!(all.shown.frames.bounded > 1_000, "{:?}", all.shown.frames);
        assert!(
            all.shown.crashes_in_writes > 100,
            "{}",
            all.shown.crashes_in_writes
        );
        let reserved = all.shown.reserved;
        assert!(reserved.reserved > 500 && reserved.lost > 20, "{reserved:?}");
        assert!(reserved.refused > 100 && reserved.again > 300, "{reserved:?}");
        assert!(all.shown.frames.reserved > 500, "{:?}", all.shown.frames);
        assert!(all.shown.frames.lowered > 1_000, "{:?}", all.shown.frames);
        let messages = reserved.messages;
        assert!(messages.lost.min(messages.repeated) > 100, "{messages:?}");
        assert!(messages.mutilated.min(messages.forged) > 100, "{messages:?}");
        assert!(messages.passed_by.min(messages.errors) > 50, "{messages:?}");
        // Of a loop that had nothing to do, none is told.
        assert!(all.shown.hold_ups > 100, "{} hold-ups", all.shown.hold_ups);
        assert!(all.shown.frames.forwarded > 10_000, "{:?}", all.shown.frames);
    }
}

fn fails(seed: u64, file: &Path) -> ! {
    let (few, why, trace) = shrunk(seed, &steps::drawn(seed), file);
    let steps: Vec<String> = few.iter().map(|step| format!("{step:?}")).collect();
    panic!(
        "seed {seed}: {why}\n{} steps are enough: [{}]\n{}\nagain: SUIMON_DAEMON_FIRST={seed} SUIMON_DAEMON=1",
        few.len(),
        steps.join(", "),
        trace.join("\n"),
    );
}

fn tell(all: &All) {
    let shown = &all.shown;
    let frames = shown.frames;
    eprintln!(
        "daemon: {} seeds, {} steps, {} turns of the packet loops, {} s of virtual time",
        all.seeds,
        all.steps,
        shown.turns,
        shown.virtual_ms / 1_000
    );
    eprintln!(
        "daemon: {} frames sent by the program, {} forwarded by the kernel in its place, {} lost by the kernel or \
         an interface; {} of noise; {} of a promised flow held against its bound",
        frames.sent, frames.forwarded, frames.lost, frames.garbage, frames.bounded
    );
    eprintln!(
        "daemon: {} requests done, {} refused; {} crashes within a write; {} hold-ups told",
        shown.done, shown.refused, shown.crashes_in_writes, shown.hold_ups
    );
    eprintln!(
        "daemon: {} segments of connections in classes that yield have come to their hosts; {} windows lowered",
        shown.segments, frames.lowered
    );
    let reserved = shown.reserved;
    eprintln!(
        "daemon: {} reservations asked for, {} times told to be in force, {} refused, {} lost, {} changed; {} of \
         their frames held against a bound; {} tapes of signalling done again",
        reserved.asked,
        reserved.reserved,
        reserved.refused,
        reserved.lost,
        reserved.changed,
        frames.reserved,
        reserved.again
    );
    let messages = reserved.messages;
    eprintln!(
        "daemon: {} messages heard, {} lost, {} repeated, {} mutilated, {} passed by, {} of noise, {} of them \
         forged; {} errors of \
         their sockets",
        messages.heard,
        messages.lost,
        messages.repeated,
        messages.mutilated,
        messages.passed_by,
        messages.garbage,
        messages.forged,
        messages.errors
    );
    let kinds: Vec<String> = all
        .kinds
        .iter()
        .map(|(kind, times)| format!("{kind:?} {times}"))
        .collect();
    eprintln!("daemon: steps by kind: {}", kinds.join(", "));
}

/// In a process of its own: other tests of this one have descriptors, too.
#[test]
fn no_seed_leaves_a_descriptor_open() {
    let own = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(own)
        .args(["whatever_a_seed_has_in_store", "--test-threads=1"])
        .env("SUIMON_DAEMON", "50")
        .env(ALONE, "")
        .output()
        .expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_seed_does_the_same_again() {
    let file = policy_file("again");
    for seed in 0..20 {
        let steps = steps::drawn(seed);
        let once = || {
            tried(seed, &steps, &file)
                .map(|shown| shown.digest)
                .map_err(|(why, _)| why)
        };
        assert_eq!(once(), once(), "seed {seed}");
    }
}
