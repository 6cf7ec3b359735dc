//! Two directions by one worker, and by a worker each on two processors: full frames from memory to
//! memory, through 20 filters and a `cbq` of 20 classes, as `run` builds them from a policy.
//!
//! `cargo bench -p gateway`. Both ways in turn, with the same frames; medians and ranges of all
//! rounds. A port copies each frame in and out, as a packet socket does, without the kernel.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers")]

use control::policy::Policy;
use engine::packet::Buffer;
use engine::tree::Registry;
use gateway::direction;
use netio::pool::{Offload, Pool};
use netio::port::{Capabilities, Counters, Fault, Port, PortError, Wake};
use netio::worker::{Settings, Worker};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Frames in each direction.
const FRAMES: u64 = 1_000_000;
const BATCH: u64 = 32;
const ROUNDS: usize = 11;
const CLASSES: u8 = 20;

/// A port that gives full frames of UDP to one of twenty addresses after the other until none are
/// left, and copies what it is to send over its own.
#[derive(Debug)]
struct Copying {
    left: u64,
    sent: u64,
    frame: Vec<u8>,
}

impl Copying {
    fn new(left: u64) -> Self {
        let mut frame = vec![0; 1514];
        frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
        frame[16..18].copy_from_slice(&1500u16.to_be_bytes());
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..34].copy_from_slice(&[10, 1, 0, 1, 10, 0, 0, 0]);
        let sent = 0;
        Self { left, sent, frame }
    }
}

impl Port for Copying {
    fn name(&self) -> &'static str {
        "copying"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(1500, 64)
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        if self.left == 0 {
            let ended = io::ErrorKind::UnexpectedEof.into();
            let mut error = PortError::new(self.name(), "receiving", ended);
            error.fault = Fault::Ended;
            return Err(error);
        }
        for _ in 0..BATCH.min(self.left) {
            self.left -= 1;
            self.frame[33] = (self.left % u64::from(CLASSES)) as u8;
            into.extend(pool.put(&self.frame, Offload::default()));
        }
        Ok(())
    }

    fn room(&self) -> usize {
        64
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        self.frame.copy_from_slice(pool.bytes(frame));
        self.sent += 1;
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
        Counters {
            sent: self.sent,
            ..Counters::default()
        }
    }
}

fn policy() -> Policy {
    let mut text =
        "version = 1\n[interface.wan0]\nbandwidth = \"800 Gbit/s\"\ndiscipline = \"cbq\"\n".to_owned();
    for class in 0..CLASSES {
        let rate = "rate = \"5 %\"\ndiscipline = { kind = \"fifo\", limit = 1000 }";
        text += &format!("[[interface.wan0.class]]\nname = \"c{class}\"\n{rate}\n");
        if class == 0 {
            text += "default = true\n";
        }
        text +=
            &format!("[[interface.wan0.filter]]\nclass = \"c{class}\"\ndestination = \"10.0.0.{class}\"\n");
    }
    Policy::read("bench", &text, &Registry::builtin(), &[]).expect("a policy")
}

/// A worker that carries so many directions.
fn worker(policy: &Policy, directions: usize) -> Worker {
    let (mut worker, _) = Worker::new(Settings::default()).expect("a worker");
    for _ in 0..directions {
        let from = worker.add_port(Box::new(Copying::new(FRAMES)));
        let to = worker.add_port(Box::new(Copying::new(0)));
        worker.add_path(direction::managed(&policy.interfaces[0], from, to));
    }
    worker
}

/// The time that these workers take for all their frames, a thread each.
fn time(workers: Vec<Worker>) -> Duration {
    let start = Instant::now();
    let started = workers
        .into_iter()
        .map(|worker| thread::spawn(move || worker.run()));
    let started: Vec<_> = started.collect();
    for running in started {
        let last = running.join().expect("an orderly end");
        let sent = last.ports.iter().map(|port| port.counters.sent);
        let expected = FRAMES * last.paths.len() as u64;
        assert_eq!(sent.sum::<u64>(), expected, "{:?}", last.paths[0].totals);
    }
    start.elapsed()
}

fn median(mut all: Vec<f64>) -> String {
    all.sort_by(f64::total_cmp);
    format!(
        "{:.2} ({:.2}–{:.2})",
        all[all.len() / 2],
        all[0],
        all[all.len() - 1]
    )
}

fn main() {
    let policy = policy();
    let (mut one, mut two, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let by_one = time(vec![worker(&policy, 2)]).as_secs_f64();
        let by_two = time(vec![worker(&policy, 1), worker(&policy, 1)]).as_secs_f64();
        let millions = |time: f64| 2.0 * FRAMES as f64 / time / 1e6;
        one.push(millions(by_one));
        two.push(millions(by_two));
        ratio.push(by_one / by_two);
    }
    println!("| two directions | million frames/s, both together, median (min–max) |");
    println!("|---|---:|");
    println!("| one worker | {} |", median(one));
    println!("| a worker each | {} |", median(two));
    println!("\na worker each against one: {} times (goal: 1.7)", median(ratio));
}
