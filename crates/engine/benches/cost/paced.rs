//! Pacing at 8 to 1,000,000 classes: the calendar of `pacer` against a binary heap, in turns in one
//! run.
//!
//! Twice: the structures alone, where a step takes the class whose time comes first and notes it
//! for one period later; and the whole discipline with packets, against the same one with a heap in
//! place of the calendar. Periods differ by up to three times and are as long as all classes take
//! to send a full packet each; they begin at random times. With packets the classes use 99 % of the
//! wire, each has two packets queued, and one that left is offered to its class again, as in the
//! other rows.
//!
//! For classes that all begin at one time there is a row of its own: their times come all at once
//! ever after, so that no structure for waiting has anything to do, and the heap of those who may
//! send has all.

use crate::Verdict;
use crate::disciplines::{MANY, WARM};
use engine::discipline::{Next, Reason, Sink};
use engine::disciplines::pacer;
use engine::kind::Kind;
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::Table;
use engine::structures::calendar::Calendar;
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant as Clock;

/// `pacer` with a binary heap of all classes that wait, in place of the calendar.
static ON_A_HEAP: Kind = Kind {
    name: "pacer on a heap",
    summary: pacer::KIND.summary,
    reference: pacer::KIND.reference,
    children: pacer::KIND.children,
    settings: pacer::KIND.settings,
    class_settings: pacer::KIND.class_settings,
    properties: pacer::KIND.properties,
    check: |check| pacer::plan_with(check, pacer::Waiting::Heap),
};

const LINK: Link = Link::new(Bandwidth::gbit(10), Bytes::new(1_514));
/// A full packet's bytes of wire, and their time.
const SLOT: u64 = 1_538;
const SLOT_TIME: Duration = Duration::from_nanos(1_231);
/// At 100,000 classes the calendar takes a third of the heap's time at most, alone and with
/// packets.
const BAR: f64 = 1.0 / 3.0;
const COMPARED: u32 = 100_000;

/// What is measured in turns: one step, many times.
trait Step {
    fn step(&mut self);
}

struct OfCalendar {
    periods: Vec<u64>,
    calendar: Calendar,
}

impl Step for OfCalendar {
    fn step(&mut self) {
        let now = self.calendar.next().unwrap_or(0);
        if let Some(class) = self.calendar.take(now) {
            let class = black_box(class);
            self.calendar.note(class, now + self.periods[class as usize]);
        }
    }
}

struct OfHeap {
    periods: Vec<u64>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Step for OfHeap {
    fn step(&mut self) {
        if let Some(Reverse((due, class))) = self.heap.pop() {
            let class = black_box(class);
            self.heap
                .push(Reverse((due + self.periods[class as usize], class)));
        }
    }
}

fn alone(classes: u32) -> [Box<dyn Step>; 2] {
    let mut rng = Seed(3).stream();
    let whole = u64::from(classes) * SLOT;
    let periods: Vec<u64> = (0..classes).map(|_| whole / 2 + rng.below(whole)).collect();
    let mut calendar = Calendar::new(classes as usize, whole * 3 / 2);
    let mut heap = BinaryHeap::new();
    for class in 0..classes {
        let due = rng.below(periods[class as usize]);
        calendar.note(class, due);
        heap.push(Reverse((due, class)));
    }
    [
        Box::new(OfCalendar {
            periods: periods.clone(),
            calendar,
        }),
        Box::new(OfHeap { periods, heap }),
    ]
}

/// Nothing is dropped here.
struct NoLoss;

impl Sink for NoLoss {
    fn drop(&mut self, packet: Packet, why: Reason) {
        panic!("{packet:?} was lost: {why}");
    }
}

struct Paced {
    queue: Queue,
    now: Instant,
}

impl Paced {
    /// `apart`: classes begin at random times, and not all at one.
    fn new(kind: &str, classes: u32, apart: bool) -> Self {
        let mut rng = Seed(4).stream();
        let weights: Vec<u64> = (0..classes).map(|_| 500 + rng.below(1_000)).collect();
        let part = u128::from(LINK.bandwidth.bits()) * 99 / 100;
        let sum: u64 = weights.iter().sum();
        let class = |class: u32| {
            let weight = if apart {
                weights[class as usize]
            } else {
                sum / u64::from(classes)
            };
            let rate = part * u128::from(weight) / u128::from(sum);
            ClassSpec {
                name: class.to_string().into(),
                default: class == 0,
                settings: Table::default().text("rate", &format!("{rate} bit/s")),
                ..ClassSpec::default()
            }
        };
        let spec = DisciplineSpec {
            settings: Table::default().text("basis", "wire"),
            classes: (0..classes).map(class).collect(),
            ..DisciplineSpec::new(kind)
        };
        let plan = spec.check(&Registry::builtin().with(&ON_A_HEAP), LINK);
        let plan = plan.unwrap_or_else(|problems| panic!("{kind}: {problems:?}"));
        let mut paced = Self {
            queue: plan.build(Seed(1)),
            now: Instant::START,
        };
        let period = if apart {
            SLOT_TIME.times(classes.into()).nanos()
        } else {
            1
        };
        let mut begins: Vec<_> = (0..classes).map(|class| (rng.below(period), class)).collect();
        begins.sort_unstable();
        for (begin, class) in begins {
            while paced.now.nanos() < begin {
                if !paced.send() {
                    paced.now = Instant::from_nanos(begin);
                }
            }
            (0..2).for_each(|_| paced.offer(Packet::new(LINK.mtu, paced.now, ClassId(class))));
        }
        paced
    }

    fn offer(&mut self, packet: Packet) {
        let _ = black_box(self.queue.enqueue(self.now, packet, &mut NoLoss));
    }

    /// Sends a packet, if one may leave now, and offers it again when the wire is free.
    fn send(&mut self) -> bool {
        match self.queue.dequeue(self.now, &mut NoLoss) {
            Next::Ready(mut packet) => {
                self.now = self.now + SLOT_TIME;
                packet.arrived = self.now;
                self.offer(packet);
                true
            }
            _ => false,
        }
    }
}

impl Step for Paced {
    fn step(&mut self) {
        loop {
            match self.queue.dequeue(self.now, &mut NoLoss) {
                Next::Ready(mut packet) => {
                    self.now = self.now + SLOT_TIME;
                    packet.arrived = self.now;
                    return self.offer(packet);
                }
                Next::Wait(until) => self.now = until,
                Next::Empty => panic!("its packets are gone"),
            }
        }
    }
}

/// Measures in turns, and prints a row each; the medians.
fn race(names: &[&str], racers: &mut [Box<dyn Step>], classes: u32, full: bool) -> Vec<f64> {
    // Rounds are shorter than a time slice, so that most are undisturbed on a machine that others
    // use.
    let (rounds, steps) = if full { (201, 5_000) } else { (1, 500) };
    let mut figures = vec![Vec::new(); racers.len()];
    // Every class sends twice, so that their backlogs are where they stay.
    let all = if full { 2 * classes } else { steps };
    racers
        .iter_mut()
        .for_each(|racer| (0..all).for_each(|_| racer.step()));
    // As in the other rows, what the other racer took out of the cache is back.
    let warm = if classes < MANY { WARM * classes } else { 0 };
    for _ in 0..rounds {
        for (racer, figures) in racers.iter_mut().zip(&mut figures) {
            (0..warm.max(steps / 4)).for_each(|_| racer.step());
            let start = Clock::now();
            (0..steps).for_each(|_| racer.step());
            figures.push(start.elapsed().as_nanos() as f64 / f64::from(steps));
        }
    }
    let median = |(figures, what): (&mut Vec<f64>, &&str)| {
        figures.sort_by(f64::total_cmp);
        let (median, least) = (figures[figures.len() / 2], figures[0]);
        let most = figures[figures.len() - 1];
        println!("| {what} | {classes} | {median:.1} ({least:.1}–{most:.1}) |");
        median
    };
    figures.iter_mut().zip(names).map(median).collect()
}

/// `pacer` with so many classes, and its step.
pub(crate) fn of(classes: u32) -> (u32, Box<dyn FnMut()>) {
    let mut paced = Paced::new("pacer", classes, true);
    (classes, Box::new(move || paced.step()))
}

/// Prints the rows, and judges.
pub(crate) fn rows(full: bool) -> Vec<Verdict> {
    let sizes: &[u32] = if full {
        &[8, 1_000, COMPARED, 1_000_000]
    } else {
        &[8, 2_000]
    };
    let mut verdicts = Vec::new();
    let mut judge = |what: &str, classes: u32, medians: Vec<f64>| {
        if classes == COMPARED {
            verdicts.push(Verdict {
                what: format!("{what}: calendar against binary heap, {classes} classes"),
                ratio: medians[0] / medians[1],
                bar: BAR,
            });
        }
    };
    for &classes in sizes {
        let names = [
            "next class and advance it, calendar",
            "next class and advance it, binary heap",
        ];
        let medians = race(&names, &mut alone(classes), classes, full);
        judge("next class and advance it", classes, medians);
    }
    for &classes in sizes {
        let kinds = ["pacer", "pacer on a heap"];
        let mut pacers = kinds.map(|kind| Box::new(Paced::new(kind, classes, true)) as Box<dyn Step>);
        let medians = race(
            &["pacer", "pacer, a binary heap in it"],
            &mut pacers,
            classes,
            full,
        );
        judge("pacer with packets", classes, medians);
        let mut at_once: [Box<dyn Step>; 1] = [Box::new(Paced::new("pacer", classes, false))];
        race(&["pacer, all classes at one time"], &mut at_once, classes, full);
    }
    verdicts
}
