//! Bursts against single packets: two queues of one plan and one seed get the same arrivals, and
//! are asked for packets at the same times; one by single calls, the other by bursts.

use crate::exam::Subject;
use engine::discipline::{Build, Next, Outlet, Reason, Sink};
use engine::link_clock::LinkClock;
use engine::packet::{Buffer, ClassId, Dscp, Ecn, FlowHashes, Packet};
use engine::random::{Rng, Seed};
use engine::shaped_queue::{CATCH_UP, ShapedQueue};
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// Packets of a burst at most.
const BURST: u64 = 32;

/// What became of packets, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Sent(u32, Ecn),
    Dropped(u32, Reason),
    Marked(u32, Reason),
}

/// Takes packets up to a number, and notes what it sees.
#[derive(Default)]
pub struct Seen {
    pub events: Vec<Event>,
    /// How many more it wants.
    wanted: u64,
}

impl Sink for Seen {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.events.push(Event::Dropped(packet.buffer.0, why));
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.events.push(Event::Marked(packet.buffer.0, why));
    }
}

impl Outlet for Seen {
    fn send(&mut self, packet: Packet) -> bool {
        self.events.push(Event::Sent(packet.buffer.0, packet.ecn));
        self.wanted -= 1;
        self.wanted > 0
    }
}

/// A queue, and what was seen of it.
pub struct Side {
    pub queue: ShapedQueue,
    pub seen: Seen,
}

impl Side {
    pub fn new(subject: &Subject, seed: Seed, bandwidth: Option<Bandwidth>) -> Self {
        let queue = subject.queue.build(&Build::new(seed));
        let clock = bandwidth.map(|bandwidth| LinkClock::new(bandwidth, CATCH_UP));
        Self {
            queue: ShapedQueue::new(queue, clock),
            seen: Seen::default(),
        }
    }

    /// As many as are wanted, by single calls; then the answer of a burst.
    pub fn send_one_by_one(&mut self, now: Instant, wanted: u64) -> Next<()> {
        for _ in 0..wanted {
            self.seen.wanted = 1;
            match self.queue.dequeue(now, &mut self.seen) {
                Next::Ready(packet) => _ = self.seen.send(packet),
                Next::Wait(until) => return Next::Wait(until),
                Next::Empty => return Next::Empty,
            }
        }
        Next::Ready(())
    }

    fn send_burst(&mut self, now: Instant, wanted: u64) -> Next<()> {
        self.seen.wanted = wanted;
        self.queue.dequeue_burst(now, &mut self.seen)
    }
}

pub fn packet(rng: &mut Rng, id: u32, arrived: Instant, classes: u32) -> Packet {
    let len = match rng.below(32) {
        0 => 1,
        1 => 65_226,
        2..=12 => 1_514,
        _ => 40 + rng.below(1_475),
    };
    let flow = rng.below(12) as u32;
    let kinds = [[Ecn::NotEct, Ecn::Ect0], [Ecn::Ect1, Ecn::Ce]];
    Packet {
        flow: FlowHashes {
            source: flow % 3,
            destination: flow % 4,
            full: flow,
        },
        ecn: kinds[flow as usize % 2][rng.below(2) as usize],
        dscp: Dscp::arrived([0, 46, 10, 14, 8, 34][flow as usize % 6]),
        buffer: Buffer(id),
        ..Packet::new(
            Bytes::new(len),
            arrived,
            ClassId(rng.below(u64::from(classes) + 2) as u32),
        )
    }
}

/// How long until the next arrivals or departures: often nothing, or until the queue has a packet.
pub fn pause(rng: &mut Rng, now: Instant, due: Option<Instant>) -> Duration {
    match rng.below(8) {
        0..=2 => Duration::ZERO,
        3 => Duration::from_nanos(rng.below(1_500)),
        4 => Duration::from_nanos(rng.below(1_000_000)),
        5 => Duration::from_nanos(rng.below(100_000_000)),
        _ => due.map_or(Duration::ZERO, |due| due.since(now)),
    }
}

/// Runs both through so many bursts of arrivals and departures. The error says what differed.
pub fn compare(subject: &Subject, seed: Seed, bursts: u32) -> Result<(), String> {
    let mut rng = seed.fork("bursts").stream();
    let bandwidth = (rng.below(2) == 0).then(|| Bandwidth::mbit(1 + rng.below(1_000)));
    let [mut singles, mut burst] = [(); 2].map(|()| Side::new(subject, seed.fork("queue"), bandwidth));
    let (mut now, mut due, mut packets, mut id) = (Instant::START, None, Vec::new(), 0);
    for number in 0..bursts {
        for _ in 0..rng.below(BURST + 1) {
            now = now + Duration::from_nanos(rng.below(2) * rng.below(20_000));
            let seed = rng.bits();
            let [one, other] = [(); 2].map(|()| packet(&mut Seed(seed).stream(), id, now, subject.classes));
            let _ = singles.queue.enqueue(now, one, &mut singles.seen);
            packets.push(other);
            id += 1;
        }
        burst.queue.enqueue_burst(&mut packets, &mut burst.seen);
        now = now + pause(&mut rng, now, due);
        if rng.below(8) == 0 {
            for side in [&mut singles, &mut burst] {
                let _ = side.queue.queue_mut().peek(now, &mut side.seen);
            }
        }
        let wanted = 1 + rng.below(BURST + 8);
        let one = singles.send_one_by_one(now, wanted);
        let other = burst.send_burst(now, wanted);
        if one != other {
            return Err(format!(
                "burst {number} at {now} ended with {other:?}, single calls with {one:?}"
            ));
        }
        due = match one {
            Next::Wait(until) => Some(until),
            _ => None,
        };
        if singles.seen.events != burst.seen.events {
            let pairs = singles.seen.events.iter().zip(&burst.seen.events);
            let same = pairs.take_while(|(one, other)| one == other).count();
            let (one, other) = (singles.seen.events.get(same), burst.seen.events.get(same));
            return Err(format!(
                "burst {number} at {now}: {other:?}, by single calls {one:?}"
            ));
        }
        let [one, other] = [&singles, &burst].map(|side| side.queue.queue().stats());
        if one != other {
            return Err(format!(
                "after burst {number} the counts are {other:?}, by single calls {one:?}"
            ));
        }
    }
    Ok(())
}
