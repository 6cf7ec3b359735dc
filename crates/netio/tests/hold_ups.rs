//! What the host makes late is told apart, and nothing else is: workers between ports in memory, on
//! a clock of the test's own, in a process that is stopped, and with a port that is slow.

use engine::discipline::{Discipline, Next, Sink, Verdict};
use engine::link::Link;
use engine::packet::Packet;
use engine::portion::Portion;
use engine::queue::Queue;
use engine::random::Seed;
use engine::tree::{DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::ClassMeter;
use netio::handle::{Handle, Turns};
use netio::pool::{Offload, Pool, Slots};
use netio::port::{Capabilities, Counters, Port, PortError, Wake};
use netio::ports::memory::Memory;
use netio::worker::{PathSpec, Settings, Turn, Worker};
use std::collections::VecDeque;
use std::ops::Range;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const ZERO: Duration = Duration::ZERO;
/// 1,250 bytes at 10 Mbit/s.
const PACKET: Duration = Duration::from_millis(1);
/// That a FIFO takes.
const PACKETS: usize = 100;

/// One test after another: one of them stops the process.
static TURN: Mutex<()> = Mutex::new(());

fn fifo() -> Queue {
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1_514));
    let plan = DisciplineSpec::new("fifo").check(&Registry::builtin(), link);
    plan.expect("a plan").build(Seed(1))
}

/// A worker at 10 Mbit/s, the far ends of its ports, and what `near` makes of the one that it
/// sends by.
struct Line {
    worker: Worker,
    handle: Handle,
    input: Memory,
    output: Memory,
}

impl Line {
    fn new(queue: Queue, near: impl FnOnce(Memory) -> Box<dyn Port>) -> Self {
        let able = Capabilities::plain(1_500, 64);
        let [input, from] = Memory::pair(["in", "near"], able).expect("a wire");
        let [to, output] = Memory::pair(["far", "out"], able).expect("a wire");
        let settings = Settings {
            slots: Slots { small: 512, big: 1 },
            ..Settings::default()
        };
        let (mut worker, handle) = Worker::new(settings).expect("a worker");
        let from = worker.add_port(Box::new(from));
        let to = worker.add_port(near(to));
        worker.add_path(PathSpec {
            bandwidth: Some(Bandwidth::mbit(10)),
            ..PathSpec::new("line", (from, to), queue)
        });
        Self {
            worker,
            handle,
            input,
            output,
        }
    }

    fn send(&self) {
        let mut frame = vec![0; 1_250];
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        self.input.send(&frame, Offload::default());
    }

    /// Five packets every 10 ms for a second, with a worker that is not called meanwhile.
    fn run(mut self, held: Range<u64>) -> (ClassMeter, Turns) {
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let mut next = Instant::NEVER;
        for us in (0..1_100_000).step_by(10) {
            let arrives = us < 1_000_000 && us % 10_000 == 0;
            (0..if arrives { 5 } else { 0 }).for_each(|_| self.send());
            if held.contains(&us) || !(arrives || at(us) >= next || us == held.end) {
                continue;
            }
            next = loop {
                match self.worker.turn_at(at(us)) {
                    Turn::Busy => {}
                    Turn::Idle(until) => break until,
                    Turn::Done => panic!("nobody stopped it"),
                }
            };
            std::iter::from_fn(|| self.output.take()).for_each(drop);
        }
        let shown = self.worker.show(at(1_100_000));
        let meter = shown.paths[0].classes[0].clone();
        assert_eq!(meter.sent.packets, 500);
        (meter, shown.turns)
    }
}

/// The burst of 100 ms is being sent when the loop stops.
#[test]
fn a_late_loop_tells_what_it_made_late_apart_and_excuses_no_more_than_it_was_late() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let line = || Line::new(fifo(), |port| Box::new(port));
    let (usual, turns) = line().run(0..0);
    assert!(usual.held_up.is_none() && turns.held_up.times == 0, "{turns:?}");
    let longest = usual.delays.longest();
    assert!(
        longest >= PACKET.times(4) && longest < PACKET.times(5),
        "{longest}"
    );
    for ms in [3, 7, 25] {
        let held = 102_500..102_500 + ms * 1_000;
        let (late, turns) = line().run(held);
        let hold = turns.held_up;
        assert_eq!(hold.times, 1);
        let length = Duration::from_millis(ms);
        assert!(
            length >= hold.longest && hold.longest + PACKET > length,
            "{hold:?} of {length}"
        );
        let apart = late.held_up.expect("some were late");
        assert_eq!(apart.by.longest(), hold.longest, "what was queued then");
        // Those of this burst, and of the next while the queue is not empty.
        assert!((2..=50).contains(&apart.by.count()), "{}", apart.by.count());
        assert!(late.delays.longest() > longest, "{ms}");
        assert_eq!(apart.without.count(), 500);
        assert!(apart.without.longest() <= longest, "{}", apart.without.longest());
    }
    // What is usual is in the delays, and excuses nothing.
    let (late, turns) = line().run(102_500..103_400);
    assert!(late.held_up.is_none() && turns.held_up.times == 0, "{turns:?}");
}

/// Lets each packet go 15 ms after it came.
#[derive(Debug)]
struct Sluggish(VecDeque<Packet>);

impl Discipline for Sluggish {
    fn enqueue(&mut self, _now: Instant, packet: Packet, _sink: &mut dyn Sink) -> Verdict {
        self.0.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        let due = self
            .0
            .front()
            .map(|packet| packet.arrived + Duration::from_millis(15));
        match due {
            Some(due) if due > now => Next::Wait(due),
            _ => self.0.pop_front().map_or(Next::Empty, Next::Ready),
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        portion.flush(sink, || self.0.pop_front());
    }
}

#[test]
fn a_discipline_that_is_late_itself_is_excused_by_nothing_and_by_a_hold_up_as_far_as_that_went() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let sluggish = || {
        let queue = Queue::new("sluggish", Box::new(Sluggish(VecDeque::new())));
        Line::new(queue, |port| Box::new(port))
    };
    let (late, turns) = sluggish().run(0..0);
    assert!(late.held_up.is_none() && turns.held_up.times == 0, "{turns:?}");
    let longest = late.delays.longest();
    assert!(longest >= Duration::from_millis(15), "{longest}");
    let (held, turns) = sluggish().run(115_500..118_500);
    assert_eq!(turns.held_up.times, 1);
    let apart = held.held_up.expect("some were late");
    assert!(
        apart.by.longest() <= Duration::from_millis(3),
        "{}",
        apart.by.longest()
    );
    // All but those few are as late as they were.
    let without = apart.without;
    assert!(
        without.quantile(500) >= Duration::from_millis(15),
        "{}",
        without.quantile(500)
    );
    assert!(without.longest() >= longest, "{}", without.longest());
    assert!(apart.by.count() < 50, "{}", apart.by.count());
}

/// A port that takes its time, asleep, whenever the loop calls it.
#[derive(Debug)]
struct SlowPort(Memory);

impl Port for SlowPort {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<engine::packet::Buffer>) -> Result<(), PortError> {
        self.0.receive(pool, into)
    }

    fn room(&self) -> usize {
        self.0.room()
    }

    fn transmit(&mut self, pool: &mut Pool, frame: engine::packet::Buffer) {
        self.0.transmit(pool, frame);
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        std::thread::sleep(std::time::Duration::from_millis(6));
        self.0.kick(pool)
    }

    fn wake(&self, room: bool) -> Option<Wake<'_>> {
        std::thread::sleep(std::time::Duration::from_millis(6));
        self.0.wake(room)
    }

    fn revive(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.0.revive(pool)
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

/// Packets that come together, sent by a loop that runs by itself; how often and how long it was
/// held up.
fn by_itself(near: impl FnOnce(Memory) -> Box<dyn Port>, meanwhile: impl FnOnce()) -> (ClassMeter, Turns) {
    let line = Line::new(fifo(), near);
    (0..PACKETS).for_each(|_| line.send());
    let Line {
        worker,
        handle,
        input,
        output,
    } = line;
    let running = std::thread::spawn(move || worker.run());
    meanwhile();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let mut sent = 0;
    while sent < PACKETS && std::time::Instant::now() < until {
        sent += std::iter::from_fn(|| output.take()).count();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(sent, PACKETS);
    handle.stop();
    let last = running.join().expect("an orderly end");
    drop(input);
    (last.paths[0].classes[0].clone(), last.turns)
}

/// Each turn of it takes 12 ms. A loop that is busy all the while excuses nothing; the rest of the
/// machine may hold it up as well, but not each time.
#[test]
fn a_slow_port_excuses_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let excused = |_| {
        let (late, turns) = by_itself(|port| Box::new(SlowPort(port)), || {});
        assert!(late.delays.longest() > Duration::from_millis(90), "it is slow");
        eprintln!("{:?} in {} turns", turns.held_up, turns.turns);
        turns.held_up.all
    };
    let least = (0..5).map(excused).min().unwrap_or(ZERO);
    // Of some 100 ms in its calls.
    assert!(least < Duration::from_millis(30), "{least}");
}

/// The loop waits for its next packet most of the time: there the signal finds it.
#[test]
fn a_stopped_process_was_held_up_and_says_for_how_long() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let stopped = |_| {
        let stop = "kill -STOP $PPID; sleep 0.1; kill -CONT $PPID";
        let (late, turns) = by_itself(
            |port| Box::new(port),
            || {
                std::thread::sleep(std::time::Duration::from_millis(30));
                let status = Command::new("sh").args(["-c", stop]).status().expect("it runs");
                assert!(status.success());
            },
        );
        eprintln!("{:?}", turns.held_up);
        let apart = late
            .held_up
            .filter(|apart| apart.by.longest() >= Duration::from_millis(90));
        apart.is_some_and(|apart| {
            let waited = late.delays.longest() - apart.without.longest();
            turns.held_up.longest >= Duration::from_millis(90) && waited >= Duration::from_millis(80)
        })
    };
    assert!((0..3).any(stopped), "never told");
}
