//! What a tape costs the packet loop, and a candidate beside it: full frames from memory to memory
//! through a `drr` of 20 classes.
//!
//! `cargo bench -p netio --bench tape`. Without a tape, with one that is read and thrown away, and
//! with a candidate of the same policy that is run by another thread; in turn, medians of all
//! rounds. What counts is the loop's processor time, whatever else the machine does; caches and
//! memory the candidate shares with it.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers")]

use engine::classify::{Classifier, Filter, Prefix};
use engine::framing::Framing;
use engine::link::Link;
use engine::packet::{Buffer, ClassId};
use engine::random::Seed;
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes};
use netio::classify::ByFilters;
use netio::clock;
use netio::handle::TapeWish;
use netio::pool::{Offload, Pool};
use netio::port::{Capabilities, Counters, Fault, Port, PortError, Wake};
use netio::replay::Beginning;
use netio::replay::candidate::Candidate;
use netio::replay::event::{Events, TapeEvent};
use netio::replay::tape::{Read, tape};
use netio::worker::{PathId, PathSpec, Settings, Worker};
use std::io;
use std::thread;
use std::time::Duration;

const FRAMES: u64 = 500_000;
const BATCH: u64 = 32;
const ROUNDS: usize = 7;
const CLASSES: u8 = 20;
/// A candidate leaves more than this of the rate.
const LEAST: f64 = 0.7;

/// A port that gives full frames to one of twenty addresses after the other, until none are left,
/// and copies what it is to send over its own.
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
        Self { left, sent: 0, frame }
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
            let mut error = PortError::new(self.name(), "receiving", io::ErrorKind::UnexpectedEof.into());
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

fn plan() -> TreePlan {
    let class = |class: u8| ClassSpec {
        name: format!("c{class}").into(),
        default: class == 0,
        ..ClassSpec::default()
    };
    let mut spec = DisciplineSpec::new("drr");
    spec.classes = (0..CLASSES).map(class).collect::<Vec<_>>().into();
    let link = Link::new(Bandwidth::gbit(800), Bytes::new(1514));
    spec.check(&Registry::builtin(), link).expect("a plan")
}

fn classify(plan: &TreePlan) -> Box<ByFilters> {
    let filter = |class: u8| Filter {
        destination: Prefix::new([10, 0, 0, class].into(), 32),
        ..Filter::new(ClassId(class.into()))
    };
    let filters: Vec<Filter> = (0..CLASSES).map(filter).collect();
    Box::new(ByFilters::new(Classifier::new(filters, Seed(1)), plan, Seed(1)))
}

/// What is done beside the loop.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Beside {
    Nothing,
    Tape,
    Candidate,
}

/// The processor time that the loop takes for all frames, and how many of them the candidate had
/// when the tape ended or tore.
fn time(beside: Beside) -> (engine::units::Duration, u64) {
    let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
    let from = worker.add_port(Box::new(Copying::new(FRAMES)));
    let to = worker.add_port(Box::new(Copying::new(0)));
    let plan = plan();
    worker.add_path(PathSpec {
        classify: classify(&plan),
        plan: Some(plan.clone()),
        bandwidth: Some(plan.link.bandwidth),
        ..PathSpec::new("bench", (from, to), plan.build(Seed(1)))
    });
    let (writer, reader) = tape();
    let asking = (beside != Beside::Nothing).then(|| {
        let wish = TapeWish::Start(writer);
        thread::spawn(move || handle.tape(PathId(0), wish).expect("an answer"))
    });
    let reading = thread::spawn(move || {
        let mut candidate = Candidate::new(Beginning {
            name: "candidate".into(),
            classify: classify(&plan),
            seed: Seed(1),
            bandwidth: Some(plan.link.bandwidth),
            framing: Framing::PLAIN,
            guarantees: Vec::new(),
            plan,
        })
        .expect("memory");
        let mut arrived = 0;
        loop {
            match reader.read(Duration::from_millis(20)) {
                Read::Chunk(chunk) => {
                    for event in Events::new(&chunk).filter(|_| beside == Beside::Candidate) {
                        if let TapeEvent::Arrival(arrival) = event.expect("a whole tape") {
                            arrived += 1;
                            candidate
                                .arrive_too(&arrival, Framing::PLAIN, &mut |_| {})
                                .expect("room");
                        }
                    }
                    reader.give_back(chunk);
                }
                Read::Nothing => {}
                Read::Torn | Read::Ended => return arrived,
            }
        }
    });
    // The loop looks for questions before frames: it is there by then, and so is the candidate.
    thread::sleep(Duration::from_millis(50));
    let start = clock::thread_time();
    let last = worker.run();
    let took = clock::thread_time() - start;
    if let Some(asking) = asking {
        asking.join().expect("an orderly end");
    }
    assert_eq!(last.ports[1].counters.sent, FRAMES, "{:?}", last.paths[0].totals);
    (took, reading.join().expect("an orderly end"))
}

fn main() {
    let ways = [Beside::Nothing, Beside::Tape, Beside::Candidate];
    let mut all = [const { Vec::new() }; 3];
    let mut least = u64::MAX;
    for _ in 0..ROUNDS {
        for (way, times) in ways.iter().zip(&mut all) {
            let (took, arrived) = time(*way);
            times.push(FRAMES as f64 / took.nanos() as f64 * 1e3);
            if *way == Beside::Candidate {
                least = least.min(arrived);
            }
        }
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let rates = all.each_mut().map(median);
    println!("| beside the loop | million frames/s, median | of the rate without |");
    println!("|---|---:|---:|");
    for (way, rate) in ["nothing", "a tape", "a candidate"].iter().zip(rates) {
        println!("| {way} | {rate:.2} | {:.0} % |", rate / rates[0] * 100.0);
    }
    let left = rates[2] / rates[0];
    assert!(
        left > LEAST,
        "a candidate leaves {:.0} % of the rate",
        left * 100.0
    );
    println!(
        "\nThe candidate had at least {least} of {FRAMES} frames before the end, or before it was dropped."
    );
}
