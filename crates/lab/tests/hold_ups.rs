//! What a late thread adds to delays is counted apart: two links behind each other, by workers
//! between ports in memory, on a clock of the test's own. A worker that is not called is held up.

use engine::units::{Bandwidth, Bytes, Duration, Instant};
use lab::traffic::datagram::{Head, Stamp};
use lab::{CableSwitch, EmulatedLink, TraceBegin};
use netio::checksum;
use netio::pool::{Offload, Slots};
use netio::port::Capabilities;
use netio::ports::memory::Memory;
use netio::worker::{PathSpec, PortId, Settings, Worker};
use std::ops::Range;

/// Where UDP begins in a frame, and its payload.
const UDP: usize = 34;
const PAYLOAD: usize = 42;

/// How often the workers are called.
const STEP: u64 = 50;
/// Datagrams of the flow, and from one to the next.
const COUNT: u64 = 300;
const INTERVAL: u64 = 1_000;
/// The frames of others.
const OTHERS: usize = 1_500;
/// What both links take if they are idle: 15 ms of flight, twice 200 bytes at 16 Mbit/s.
const PUNCTUAL: u64 = 15_200;

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

/// A link and its worker, and where frames go in and come out.
struct Line {
    worker: Worker,
    input: Memory,
    output: Memory,
    held: Range<u64>,
}

impl Line {
    fn new(delay_ms: u64, held: Range<u64>) -> Self {
        let able = Capabilities::plain(1_500, 10_000);
        let [input, near] = Memory::pair(["in", "near"], able).expect("a wire");
        let [far, output] = Memory::pair(["far", "out"], able).expect("a wire");
        let settings = Settings {
            slots: Slots {
                small: 4_096,
                ..Slots::default()
            },
            ..Settings::default()
        };
        let (mut worker, _) = Worker::new(settings).expect("a worker");
        worker.add_port(Box::new(near));
        worker.add_port(Box::new(far));
        let link = EmulatedLink::new(Bandwidth::mbit(16))
            .delay(Duration::from_millis(delay_ms))
            .buffer(Bytes::new(1_000_000));
        let plan = engine::tree::DisciplineSpec::new("fifo").check(
            &engine::tree::Registry::builtin(),
            engine::link::Link::new(link.rate, Bytes::new(1_514)),
        );
        let queue = plan.expect("a plan").build(engine::random::Seed(1));
        worker.add_path(PathSpec {
            wire: Some(link.wire(true, None, CableSwitch::default(), TraceBegin::default())),
            ..PathSpec::new("line", (PortId(0), PortId(1)), queue)
        });
        Self {
            worker,
            input,
            output,
            held,
        }
    }

    fn turn(&mut self, us: u64) {
        if !self.held.contains(&us) {
            self.worker.turn_at(at(us));
        }
    }
}

/// A frame of UDP over IPv4 with a checksum: ours with a stamp, or another's.
fn frame(len: usize, number: Option<u64>, us: u64) -> Vec<u8> {
    let mut frame = vec![0x5a; len];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..UDP].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    frame[UDP..PAYLOAD].copy_from_slice(&[0x30, 0x39, 0x23, 0x28, 0, 0, 0, 0]);
    frame[UDP + 4..UDP + 6].copy_from_slice(&((len - UDP) as u16).to_be_bytes());
    if let Some(number) = number {
        let head = Head {
            stream: 7,
            number,
            sent: us * 1_000,
            end: false,
        };
        head.write(&mut frame[PAYLOAD..]);
        let stamp = Stamp {
            handed: at(us),
            held: Duration::ZERO,
            conforms: None,
        };
        stamp.write(&mut frame[PAYLOAD..]);
    }
    let sum = !sum(&frame);
    frame[UDP + 6..UDP + 8].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The sum that a receiver forms over a datagram: 0xffff if its checksum is right.
fn sum(frame: &[u8]) -> u16 {
    let pseudo = checksum::add(17 + (frame.len() - UDP) as u64, &frame[26..UDP]);
    checksum::fold(checksum::add(pseudo, &frame[UDP..]))
}

/// Delays of the flow in microseconds, in order, each with what of it was a hold-up. `burst` frames
/// of another come to the second link after 50 ms, and then one with each datagram of the flow.
fn delays(held: [Range<u64>; 2], burst: u64) -> Vec<(u64, u64)> {
    let [first, second] = held;
    let mut lines = [Line::new(10, first), Line::new(5, second)];
    let mut got = Vec::new();
    for us in (0..COUNT * INTERVAL + 500_000).step_by(STEP as usize) {
        let sends = us % INTERVAL == 0 && us / INTERVAL < COUNT;
        if sends {
            let bytes = frame(200, Some(us / INTERVAL), us);
            lines[0].input.send(&bytes, Offload::default());
        }
        let others = match us {
            50_000 => burst,
            _ => u64::from(burst > 0 && us > 50_000 && us % INTERVAL == 0),
        };
        for _ in 0..others {
            lines[1].input.send(&frame(OTHERS, None, us), Offload::default());
        }
        lines[0].turn(us);
        while let Some(passed) = lines[0].output.take() {
            lines[1].input.send(&passed.bytes, passed.offload);
        }
        lines[1].turn(us);
        while let Some(passed) = lines[1].output.take() {
            assert_eq!(sum(&passed.bytes), 0xffff, "its checksum");
            let payload = &passed.bytes[PAYLOAD..];
            if let (Some(head), Some(stamp)) = (Head::read(payload), Stamp::read(payload)) {
                let held = stamp.held_by(at(us)).nanos() / 1_000;
                got.push((us - head.sent / 1_000, held));
            }
        }
    }
    assert_eq!(got.len() as u64, COUNT);
    got
}

/// Held up for 20 ms, at any of the two: without that, every packet was as punctual as ever.
#[test]
fn a_packet_that_a_thread_held_up_has_been_by_that_time() {
    let never = 0..0;
    let usual = delays([never.clone(), never.clone()], 0);
    assert!(
        usual
            .iter()
            .all(|(delay, held)| (PUNCTUAL..PUNCTUAL + 3 * STEP).contains(delay) && *held == 0)
    );
    let held = 100_000..120_000;
    for held in [
        [held.clone(), never.clone()],
        [never, held.clone()],
        [held.clone(), held],
    ] {
        let got = delays(held.clone(), 0);
        let longest = got.iter().map(|(delay, _)| *delay).max().expect("packets");
        assert!(longest > PUNCTUAL + 18_000, "{longest}");
        let mut late = 0;
        for (delay, held_up) in &got {
            // Below a millisecond at each place it is not counted, and those that come together are
            // sent one after another.
            let without = delay - held_up;
            assert!(
                (PUNCTUAL..PUNCTUAL + 5_000).contains(&without),
                "{held:?}: {delay} less {held_up}"
            );
            late += u64::from(*held_up > 0);
        }
        assert!((18..=40).contains(&late), "{late} late packets");
    }
}

/// Behind a burst of others the second link is busy from 50 to 250 ms: packets are late without a
/// hold-up, and one of the first link meanwhile excuses none, since they would have waited anyway.
#[test]
fn a_late_packet_without_a_hold_up_stays_late_and_so_does_one_that_would_have_waited() {
    for held in [0..0, 100_000..120_000] {
        let got = delays([held.clone(), 0..0], 40);
        assert!(got.iter().all(|(_, held_up)| *held_up == 0), "{held:?}: {got:?}");
        let late = got.iter().filter(|(delay, _)| *delay > PUNCTUAL + 5_000);
        assert!(late.count() > 100, "{held:?}: {got:?}");
    }
}
