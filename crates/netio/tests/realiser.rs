//! Packets leave at a pacer's departure times: exactly, by gap frames and by launch times on a
//! modelled wire; never early, by timers. Realisers that cannot work on a port are refused.
//!
//! If this machine delays the worker, gaps become longer, which is counted; only "never early" is
//! asserted then.

use engine::byte_clock::WIRE_OVERHEAD;
use engine::link::Link;
use engine::random::Seed;
use engine::settings::Table;
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::clock;
use netio::handle::Realised;
use netio::pool::{Offload, Pool, Slots};
use netio::port::{Capabilities, Port};
use netio::ports::memory::Memory;
use netio::ports::model_wire::{ModelWire, SentFrame};
use netio::realiser::Realiser;
use netio::realiser::gap::{GapFrame, GapFrames};
use netio::realiser::launch::LaunchTime;
use netio::realiser::timer::Timer;
use netio::worker::{PathSpec, PortId, Settings, Turn, Worker};

/// 800 ns per byte.
const WIRE: Bandwidth = Bandwidth::mbit(10);
const FROM: [u8; 6] = [2, 0, 0, 0, 0, 9];
const MTU: usize = 1_500;
/// 1518 bytes at 5 of 10 Mbit/s: 3036 byte-times.
const PERIOD: u64 = 3_036 * 800;
const PACKETS: usize = 30;

fn pacer(gap: &str) -> TreePlan {
    let class = ClassSpec {
        default: true,
        settings: Table::default().text("rate", "5 Mbit/s"),
        name: "all".into(),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        settings: Table::default().text("gap", gap),
        classes: vec![class].into(),
        ..DisciplineSpec::new("pacer")
    };
    let link = Link::new(WIRE, Bytes::new(1_514));
    spec.check(&Registry::builtin(), link).expect("a plan")
}

fn timer(catch_up: Option<Duration>) -> Timer {
    let pacing = pacer("timer").root.plan.pacing().expect("it paces");
    Timer::new(pacing, MTU, catch_up)
}

fn launch() -> LaunchTime {
    let pacing = pacer("timer").root.plan.pacing().expect("it paces");
    LaunchTime::new(FROM, pacing, MTU, Some(engine::shaped_queue::CATCH_UP))
}

/// A path that sends everything through a pacer, with this realiser.
fn out(from: PortId, to: PortId, gap: &str, realiser: Box<dyn Realiser>) -> PathSpec {
    let plan = pacer(gap);
    let queue = plan.build(Seed(1));
    PathSpec {
        plan: Some(plan),
        bandwidth: Some(WIRE),
        realiser: Some(realiser),
        ..PathSpec::new("out", (from, to), queue)
    }
}

/// Sends full packets through a pacer with this realiser: when they began to arrive, what went onto
/// the wire, and how precise the realiser was.
fn paced(gap: &str, wire: ModelWire, mut realiser: Box<dyn Realiser>) -> (Instant, Vec<SentFrame>, Realised) {
    let mut wire: Box<ModelWire> = Box::new(wire);
    let log = wire.log();
    realiser.attach(wire.as_mut()).expect("a port that can");
    let slots = Slots { small: 256, big: 4 };
    let settings = Settings {
        slots,
        ..Settings::default()
    };
    let (mut worker, handle) = Worker::new(settings).expect("a worker");
    let [near, far] = Memory::pair(["in", "source"], Capabilities::plain(MTU, 64)).expect("a wire");
    let (from, to) = (worker.add_port(Box::new(near)), worker.add_port(wire));
    worker.add_path(out(from, to, gap, realiser));
    let begin = clock::now();
    for n in 0..PACKETS {
        far.send(&[n as u8; 1_514], Offload::default());
    }
    let running = std::thread::spawn(move || worker.run());
    let realised = loop {
        let snapshot = handle.inspect().expect("it runs");
        if snapshot.paths[0].totals.sent.packets == PACKETS as u64 {
            break snapshot.paths[0].realised.clone().expect("a realiser");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    handle.stop();
    let _ = running.join().expect("no panic");
    (begin, log.take(), realised)
}

fn is_pause(sent: &SentFrame) -> bool {
    sent.bytes.starts_with(&[1, 0x80, 0xc2, 0, 0, 1])
}

/// Asserts that packets are in order, and that packet n starts no earlier than n periods after the
/// first arrival. If the host did not disturb them, all after the first are exact to the
/// nanosecond; the first one leaves when the worker sees it.
fn assert_paced(begin: Instant, packets: &[&SentFrame], undisturbed: bool) {
    assert_eq!(packets.len(), PACKETS);
    let second = packets[1].at;
    for (n, sent) in packets.iter().enumerate() {
        assert_eq!(sent.bytes, [n as u8; 1_514]);
        let after = sent.at.since(begin).nanos();
        assert!(after >= n as u64 * PERIOD, "packet {n} is early: {after} ns");
        if undisturbed && n > 0 {
            assert_eq!(
                sent.at.since(second).nanos(),
                (n as u64 - 1) * PERIOD,
                "packet {n}"
            );
        }
    }
}

#[test]
fn gap_frames_fill_the_wire_and_packets_start_to_the_byte() {
    let wire = ModelWire::new("eth0", WIRE, 8).expect("a wire");
    let gaps = GapFrames::new(GapFrame::Pause, FROM, WIRE, MTU);
    let (begin, sent, realised) = paced("frames", wire, Box::new(gaps));
    let achieved = realised.achieved;
    assert_eq!((realised.by, achieved.late), ("gap", 0), "{achieved:?}");
    let packets: Vec<&SentFrame> = sent.iter().filter(|sent| !is_pause(sent)).collect();
    assert_paced(begin, &packets, achieved.dry == 0);
    eprintln!(
        "dry {} times, lateness at most {}",
        achieved.dry,
        achieved.lateness.longest()
    );
    let mut bytes = 0;
    for gap in sent.iter().filter(|sent| is_pause(sent)) {
        assert_eq!(gap.bytes[6..18], [2, 0, 0, 0, 0, 9, 0x88, 8, 0, 1, 0, 0]);
        assert!(gap.bytes[18..].iter().all(|byte| *byte == 0) && (60..=1_514).contains(&gap.bytes.len()));
        bytes += gap.bytes.len() as u64 + WIRE_OVERHEAD;
    }
    assert_eq!(achieved.gaps.bytes, Bytes::new(bytes));
    if achieved.dry == 0 {
        // Of 3036 byte-times the packet takes 1538, and one gap frame the rest. The first gap is
        // shorter by how late the worker saw the first packet.
        let gaps: Vec<u64> = sent
            .iter()
            .filter(|sent| is_pause(sent))
            .map(|gap| gap.bytes.len() as u64 + WIRE_OVERHEAD)
            .collect();
        assert_eq!((gaps.len(), &gaps[1..]), (PACKETS - 1, &[1_498; PACKETS - 2][..]));
        // The wire was never idle.
        for pair in sent.windows(2) {
            let slot = (pair[0].bytes.len() as u64 + WIRE_OVERHEAD) * 800;
            assert_eq!(pair[1].at.since(pair[0].at), Duration::from_nanos(slot));
        }
    }
}

#[test]
fn a_device_with_launch_times_starts_packets_at_them() {
    let wire = ModelWire::new("eth0", WIRE, 8).expect("a wire");
    let launch = launch();
    let (begin, sent, realised) = paced("timer", wire.keeping_launch_times(), Box::new(launch));
    let longest = realised.achieved.lateness.longest();
    eprintln!("given to the device at most {longest} after their times");
    assert_paced(begin, &sent.iter().collect::<Vec<_>>(), longest == Duration::ZERO);
    assert_eq!((realised.by, realised.achieved.gaps.packets), ("launch", 0));
}

#[test]
fn a_timer_is_never_early_and_reports_its_lateness() {
    let wire = ModelWire::new("eth0", WIRE, 8).expect("a wire");
    let (begin, sent, realised) = paced(
        "timer",
        wire,
        Box::new(timer(Some(engine::shaped_queue::CATCH_UP))),
    );
    assert_paced(begin, &sent.iter().collect::<Vec<_>>(), false);
    let lateness = realised.achieved.lateness;
    assert!(realised.by == "timer" && lateness.count() > 0);
    eprintln!(
        "late by {} at the median, {} at most",
        lateness.quantile(500),
        lateness.longest()
    );
}

fn proved(realiser: &dyn Realiser, port: &mut dyn Port) -> Result<String, String> {
    let mut pool = Pool::new(Slots { small: 8, big: 1 }).expect("memory");
    let result = realiser.prove(port, &mut pool);
    assert_eq!(pool.usage()[0].used, 0, "all test frames are freed");
    result.map_err(|refusal| refusal.to_string())
}

#[test]
fn gap_frames_are_proved_on_a_wire_that_takes_time_for_its_bytes() {
    // A delayed host lets the ring run empty, and the self-test then fails.
    let trial = |wire| {
        let mut port = ModelWire::new("eth0", wire, 64).expect("a wire");
        proved(&GapFrames::new(GapFrame::Pause, FROM, wire, MTU), &mut port)
    };
    let tries: Vec<_> = (0..5).map(|_| trial(Bandwidth::mbit(100))).collect();
    eprintln!("{tries:?}");
    let measured = tries.iter().flatten().next().expect("it works");
    assert!(
        measured.contains("frames of 1514 B took") && measured.contains("at 100 Mbit/s"),
        "{measured}"
    );
}

#[test]
fn gap_frames_are_refused_with_a_reason_where_they_cannot_work() {
    let gaps = GapFrames::new(GapFrame::Pause, FROM, Bandwidth::mbit(100), MTU);
    let mut slower = ModelWire::new("eth0", WIRE, 8).expect("a wire");
    let why = proved(&gaps, &mut slower).expect_err("another rate");
    assert!(
        why.contains("the configured rate is 100 Mbit/s, but the interface runs at 10 Mbit/s"),
        "{why}"
    );
    let [mut memory, _far] = Memory::pair(["near", "far"], Capabilities::plain(MTU, 8)).expect("a wire");
    let why = proved(&gaps, &mut memory).expect_err("no such frames");
    assert!(why.contains("does not send gap frames"), "{why}");
}

#[test]
fn launch_times_are_proved_by_a_frame_that_leaves_on_time_and_refused_by_one_that_leaves_at_once() {
    let launch = launch();
    let mut keeps = ModelWire::new("eth0", WIRE, 8)
        .expect("a wire")
        .keeping_launch_times();
    let measured = proved(&launch, &mut keeps).expect("it keeps them");
    assert!(
        measured.contains("a frame due after 20 ms left after"),
        "{measured}"
    );
    let mut ignores = ModelWire::new("eth0", WIRE, 8).expect("a wire");
    let why = proved(&launch, &mut ignores).expect_err("it does not");
    assert!(why.contains("launch times are ignored"), "{why}");
    let [mut memory, _far] = Memory::pair(["near", "far"], Capabilities::plain(MTU, 8)).expect("a wire");
    let why = proved(&launch, &mut memory).expect_err("it has no launch times");
    assert!(why.contains("the socket supports no launch times"), "{why}");
}

#[test]
fn a_path_that_is_switched_off_bypasses_its_realiser() {
    let (mut worker, handle) = Worker::new(Settings {
        slots: Slots { small: 64, big: 1 },
        ..Settings::default()
    })
    .expect("a worker");
    let [near, far] = Memory::pair(["in", "source"], Capabilities::plain(MTU, 64)).expect("a wire");
    let mut wire = ModelWire::new("eth0", Bandwidth::gbit(100), 64).expect("a wire");
    let log = wire.log();
    let (from, to) = (worker.add_port(Box::new(near)), worker.add_port(Box::new(wire)));
    let realiser = Box::new(timer(Some(engine::shaped_queue::CATCH_UP)));
    let path = worker.add_path(out(from, to, "timer", realiser));
    for _ in 0..PACKETS {
        far.send(&[7; 1_514], Offload::default());
    }
    let switching = std::thread::spawn(move || handle.switch(path, false));
    while !switching.is_finished() {
        let _ = worker.turn();
    }
    switching.join().expect("no panic").expect("a path");
    while worker.turn() == Turn::Busy {}
    // At 5 Mbit/s they would take 73 ms; all leave at once.
    assert_eq!(log.take().len(), PACKETS);
}
