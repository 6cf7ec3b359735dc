//! One class with a filter added to a policy of 10 to 100,000 classes, and removed from it, while
//! the packet loop runs: how long the loop pauses at most, and what the whole change takes.
//!
//! `cargo bench -p gateway --bench changes`. A pause is a turn of the loop, in processor time of
//! its thread, so that other work on the machine does not count: what the loop takes without a
//! change beside what it takes with one. With traffic, frames for all classes arrive faster than
//! they leave, so that as many classes are backlogged as the memory has room for. The whole
//! change is from a checked policy until the worker has answered; reading and checking it beside.
//! Medians of the rounds. `rate`: another rate or weight for one class, checked as a whole.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers")]

use control::policy::{InterfacePolicy, Policy};
use engine::packet::Buffer;
use engine::tree::Registry;
use gateway::direction;
use gateway::in_force::InForce;
use gateway::vacancies::laid_out;
use netio::handle::Adopted;
use netio::pool::{Offload, Pool};
use netio::port::{Capabilities, Counters, Port, PortError, Wake};
use netio::worker::{Settings, Worker};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const SIZES: [usize; 3] = [10, 10_000, 100_000];
/// A kind, and a setting of a class.
const KINDS: [(&str, &str, &str); 4] = [
    ("drr", "weight = 1", "weight = 2"),
    ("hfsc", "linkshare = \"50 kbit/s\"", "linkshare = \"90 kbit/s\""),
    ("cbq", "rate = \"50 kbit/s\"", "rate = \"90 kbit/s\""),
    ("wrr", "weight = 1", "weight = 2"),
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

/// A policy of these classes; class *n* has this setting.
fn policy(kind: &str, classes: usize, setting: impl Fn(usize) -> &'static str) -> InterfacePolicy {
    let mut text =
        format!("version = 1\n[interface.wan0]\nbandwidth = \"10 Gbit/s\"\ndiscipline = \"{kind}\"\n");
    for class in 0..classes {
        let [a, b, c, d] = address(class);
        let default = class == 0;
        let _ = write!(
            text,
            "[[interface.wan0.class]]\nname = \"c{class}\"\ndefault = {default}\ndiscipline = \"fifo\"\n{}\n\
             [[interface.wan0.filter]]\nclass = \"c{class}\"\ndestination = \"{a}.{b}.{c}.{d}\"\n",
            setting(class)
        );
    }
    let read = Policy::read("bench", &text, &Registry::builtin(), &[]);
    read.unwrap_or_else(|why| panic!("{}", why.render(false)))
        .interfaces
        .remove(0)
}

/// Processor time of this thread.
fn busy() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The longest turn since it was asked last, and whether the loop is to end.
#[derive(Debug, Default)]
struct Longest {
    nanos: AtomicU64,
    end: AtomicBool,
}

impl Longest {
    fn take(&self) -> Duration {
        Duration::from_nanos(self.nanos.swap(0, Ordering::Relaxed))
    }
}

fn run(mut worker: Worker, longest: &Longest) {
    while !longest.end.load(Ordering::Relaxed) {
        let before = busy();
        let _ = worker.turn();
        let took = (busy() - before).as_nanos() as u64;
        longest.nanos.fetch_max(took, Ordering::Relaxed);
    }
    // What is queued is not sent.
    drop(worker);
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

/// What was measured of one kind of change.
#[derive(Default)]
struct Changed {
    pauses: Vec<Duration>,
    wholes: Vec<Duration>,
    rebuilt: usize,
}

impl Changed {
    fn make(&mut self, in_force: &InForce, longest: &Longest, policy: &InterfacePolicy) {
        longest.take();
        let start = Instant::now();
        let adopted = in_force.put(policy.clone(), policy.clone()).expect("a change");
        self.wholes.push(start.elapsed());
        std::thread::sleep(Duration::from_millis(20));
        self.pauses.push(longest.take());
        self.rebuilt += usize::from(adopted != Adopted::InPlace);
    }

    fn shown(self) -> String {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let rebuilt = if self.rebuilt > 0 { " rebuilt" } else { "" };
        format!(
            "{:>8.0} {:>8.1}{rebuilt}",
            us(median(self.pauses)),
            us(median(self.wholes)) / 1e3
        )
    }
}

fn measure(kind: (&str, &'static str, &'static str), classes: usize, traffic: bool) {
    let start = Instant::now();
    let base = policy(kind.0, classes, |_| kind.1);
    let read = start.elapsed();
    let more = policy(kind.0, classes + 1, |_| kind.1);
    let other = policy(kind.0, classes, |class| {
        if class == classes / 2 { kind.2 } else { kind.1 }
    });
    let registry = Registry::builtin();
    let whole = laid_out(&base, &registry);
    let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
    let arriving = if traffic { classes as u64 } else { 0 };
    let from = worker.add_port(Box::new(Scattering::new(arriving)));
    let to = worker.add_port(Box::new(Scattering::new(0)));
    let path = worker.add_path(direction::managed(&whole, from, to));
    let in_force = InForce::running(handle, registry, [((path, base.clone()), whole)]);
    let longest = Arc::new(Longest::default());
    let own = Arc::clone(&longest);
    let thread = std::thread::spawn(move || run(worker, &own));
    std::thread::sleep(Duration::from_millis(500));
    let mut quiet = Vec::new();
    let [mut added, mut removed, mut rate] = [(); 3].map(|()| Changed::default());
    for _ in 0..ROUNDS {
        longest.take();
        std::thread::sleep(Duration::from_millis(50));
        quiet.push(longest.take());
        added.make(&in_force, &longest, &more);
        removed.make(&in_force, &longest, &base);
        rate.make(&in_force, &longest, &other);
        let _ = in_force.put(base.clone(), base.clone());
    }
    longest.end.store(true, Ordering::Relaxed);
    thread.join().expect("an orderly end");
    println!(
        "{:<5} {classes:>7} {:<7} {:>7.0} {} {} {} {:>9.0}",
        kind.0,
        if traffic { "traffic" } else { "idle" },
        median(quiet).as_secs_f64() * 1e6,
        added.shown(),
        removed.shown(),
        rate.shown(),
        read.as_secs_f64() * 1e3,
    );
}

fn main() {
    println!("the longest turn of the loop in µs, and the whole change in ms");
    println!(
        "kind  classes         without      added            removed          rate             reading, ms"
    );
    for kind in KINDS {
        for classes in SIZES {
            for traffic in [false, true] {
                measure(kind, classes, traffic);
            }
        }
    }
}
