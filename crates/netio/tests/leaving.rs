//! A worker leaves its place to another one, each between ports in memory of its own.

use engine::link::Link;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::backlog::Backlog;
use netio::clock::{Moment, now};
use netio::handle::{Handle, NotLeft, WorkerSnapshot};
use netio::pool::{Offload, Slots};
use netio::port::Capabilities;
use netio::ports::memory::Memory;
use netio::worker::{Gate, PathId, PathSpec, PortId, Settings, Turn, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a gate was told last: whether the worker takes traffic.
#[derive(Clone, Default)]
struct Told(Arc<AtomicBool>);

impl Gate for Told {
    fn lapsed(&mut self, _now: Instant) -> bool {
        false
    }

    fn beat(&mut self, _now: Instant) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn stand_aside(&mut self, _now: Instant) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn take_from(&mut self, _moment: Moment) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn tells_by_arrival(&self) -> bool {
        true
    }

    fn leave_at(&mut self, _moment: Moment) {}
}

struct Rig {
    worker: Worker,
    handle: Handle,
    left: Memory,
    right: Memory,
    takes: Told,
}

/// A worker with one path, shaped to this rate; without one it sends at once.
fn rig(rate: Option<Bandwidth>, name: &str) -> Rig {
    let slots = Slots { small: 256, big: 16 };
    let settings = Settings {
        slots,
        ..Settings::default()
    };
    let (mut worker, handle) = Worker::new(settings).expect("a worker");
    let mut port = |name| {
        let [near, far] = Memory::pair([name, "far end"], Capabilities::plain(1500, 64)).expect("a wire");
        (worker.add_port(Box::new(near)), far)
    };
    let ((from, left), (to, right)) = (port("lan0"), port("wan0"));
    let takes = Told::default();
    worker.set_gate(Box::new(takes.clone()), &[from, to]);
    worker.add_path(path(from, to, rate, name));
    Rig {
        worker,
        handle,
        left,
        right,
        takes,
    }
}

fn path(from: PortId, to: PortId, bandwidth: Option<Bandwidth>, name: &str) -> PathSpec {
    let spec = DisciplineSpec {
        settings: Table::default().with("limit", Raw::Integer(200)),
        ..DisciplineSpec::new("fifo")
    };
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514));
    let plan = spec.check(&Registry::builtin(), link).expect("a plan");
    let queue = plan.build(Seed(1));
    PathSpec {
        plan: Some(plan),
        bandwidth,
        ..PathSpec::new(name, (from, to), queue)
    }
}

impl Rig {
    fn send(&self, numbers: std::ops::Range<u8>) {
        numbers.for_each(|n| self.left.send(&[n; 300], Offload::default()));
    }

    /// Turns the loop for so long.
    fn run(&mut self, span: Duration) {
        let until = now() + span;
        while now() < until {
            let _: Turn = self.worker.turn();
        }
    }

    fn sent(&self) -> Vec<u8> {
        std::iter::from_fn(|| self.right.take())
            .map(|frame| frame.bytes[0])
            .collect()
    }

    fn show(&mut self) -> WorkerSnapshot {
        self.worker.show(now())
    }

    /// Agrees on a moment soon, and turns until it has left. What it hands over.
    fn leave(&mut self) -> Backlog {
        let handle = self.handle.clone();
        let asked = std::thread::spawn(move || {
            let mut ahead = (0..).map(|n| Duration::from_millis(5 << n));
            // On a busy machine it may be late before it is asked.
            let agreed = ahead.find_map(|ahead| match handle.leave_at(Moment::after(ahead)) {
                Err(NotLeft::Late) => None,
                agreed => Some(agreed),
            });
            agreed.expect("it is tried for ever")?.wait()
        });
        while !asked.is_finished() {
            let _: Turn = self.worker.turn();
        }
        asked.join().expect("no panic").expect("it leaves")
    }
}

/// So slow that nothing leaves in a test but the first frame.
const SLOW: Bandwidth = Bandwidth::kbit(10);

#[test]
fn what_waits_is_handed_over_as_bytes_and_leaves_by_the_other_in_order() {
    let mut former = rig(Some(SLOW), "wan0");
    former.send(0..40);
    former.run(Duration::from_millis(2));
    let gone = former.sent();
    let backlog = former.leave();
    assert_eq!(backlog.packets() + gone.len(), 40);
    let view = former.show();
    let totals = view.paths[0].totals;
    assert_eq!(
        totals.offered, totals.sent,
        "what is handed over was never offered"
    );
    assert_eq!(view.pool.map(|slots| slots.used), [0, 0]);
    assert!(
        !former.takes.0.load(Ordering::Relaxed),
        "the kernel is told that it takes nothing"
    );
    // As another program reads it.
    let mut bytes = Vec::new();
    backlog.write(&mut bytes).expect("memory");
    let mut read = Backlog::read(&mut &bytes[..]).expect("a backlog");
    let mut next = rig(None, "wan0");
    // What it has heard before the moment is not its own; what it has heard since waits behind.
    next.send(200..203);
    next.worker.discard();
    next.worker.take_from(Moment::after(Duration::ZERO), true);
    assert!(next.takes.0.load(Ordering::Relaxed));
    next.send(100..103);
    assert_eq!(next.worker.inherit(&mut read), 0);
    next.run(Duration::from_millis(2));
    let all: Vec<u8> = gone.into_iter().chain(next.sent()).collect();
    let expected: Vec<u8> = (0..40).chain(100..103).collect();
    assert_eq!(all, expected);
    let totals = next.show().paths[0].totals;
    assert_eq!(totals.offered, totals.sent);
}

#[test]
fn a_path_that_is_off_stays_off_and_one_that_the_other_has_not_is_left_out() {
    let mut former = rig(Some(SLOW), "wan0");
    former.run(Duration::from_millis(1));
    let handle = former.handle.clone();
    let switched = std::thread::spawn(move || handle.switch(PathId(0), false));
    while !switched.is_finished() {
        former.run(Duration::from_millis(1));
    }
    switched.join().expect("no panic").expect("it answers");
    let mut backlog = former.leave();
    let mut next = rig(None, "wan0");
    next.worker.inherit(&mut backlog);
    assert!(!next.show().paths[0].enabled);
    let mut other = rig(None, "lan0");
    assert_eq!(other.worker.inherit(&mut backlog), 0);
    assert!(other.show().paths[0].enabled);
}

#[test]
fn a_worker_whose_place_is_not_taken_goes_on_with_its_discipline() {
    let mut former = rig(None, "wan0");
    former.run(Duration::from_millis(1));
    let _lost = former.leave();
    former.send(0..3);
    former.run(Duration::from_millis(1));
    former.handle.take_back();
    former.run(Duration::from_millis(1));
    former.send(3..6);
    former.run(Duration::from_millis(1));
    assert!(former.sent().ends_with(&[3, 4, 5]));
    assert!(former.takes.0.load(Ordering::Relaxed));
    assert!(former.show().paths[0].enabled);
    assert_eq!(former.leave().packets(), 0, "it can leave again");
}

#[test]
fn a_moment_that_has_passed_or_a_second_one_is_refused_and_changes_nothing() {
    let mut former = rig(None, "wan0");
    let handle = former.handle.clone();
    let late = std::thread::spawn(move || handle.leave_at(Moment::after(Duration::ZERO)).err());
    while !late.is_finished() {
        former.run(Duration::from_millis(1));
    }
    assert_eq!(late.join().expect("no panic"), Some(NotLeft::Late));
    former.send(0..3);
    former.run(Duration::from_millis(1));
    assert_eq!(former.sent(), [0, 1, 2]);
    former.leave();
    let handle = former.handle.clone();
    let twice = std::thread::spawn(move || {
        let moment = Moment::after(Duration::from_secs(1));
        handle.leave_at(moment).err()
    });
    while !twice.is_finished() {
        former.run(Duration::from_millis(1));
    }
    assert_eq!(twice.join().expect("no panic"), Some(NotLeft::Leaving));
}
