//! The worker's loop, between ports in memory.

use engine::discipline::{Discipline, Next, Reason, Sink, Verdict};
use engine::header::Headers;
use engine::link::Link as LinkFacts;
use engine::packet::{ClassId, Packet};
use engine::portion::Portion;
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::capture_file::Writer;
use netio::classify::{Classify, Everything};
use netio::clock::{Moment, now};
use netio::handle::{Adopted, Aside, Handle, Retune, Unanswered, WorkerSnapshot};
use netio::inspection::{Detail, SLICE};
use netio::pool::{Gso, Offload, Slots};
use netio::port::Capabilities;
use netio::ports::memory::{LinkState, Memory};
use netio::ports::pcap::{Pcap, ReplayPace};
use netio::worker::{Gate, PathId, PathSpec, PortId, Settings, Turn, Worker};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

fn checked(spec: &DisciplineSpec) -> TreePlan {
    let link = LinkFacts::new(Bandwidth::mbit(10), Bytes::new(1514));
    spec.check(&Registry::builtin(), link).expect("a plan")
}

fn fifo(limit: i64) -> TreePlan {
    let settings = Table::default().with("limit", Raw::Integer(limit));
    checked(&DisciplineSpec {
        settings,
        ..DisciplineSpec::new("fifo")
    })
}

fn path(from: PortId, to: PortId, queue: Queue) -> PathSpec {
    PathSpec::new("test", (from, to), queue)
}

fn planned(from: PortId, to: PortId, plan: TreePlan) -> PathSpec {
    let queue = plan.build(Seed(1));
    PathSpec {
        plan: Some(plan),
        ..path(from, to, queue)
    }
}

fn plain() -> Capabilities {
    Capabilities::plain(1500, 64)
}

/// A worker with two ports, and the far ends of their wires.
struct Rig {
    worker: Worker,
    handle: Handle,
    from: PortId,
    to: PortId,
    left: Memory,
    right: Memory,
}

/// A port of the worker, and the far end of its wire.
fn port(worker: &mut Worker, name: &str, capabilities: Capabilities) -> (PortId, Memory) {
    let [near, far] = Memory::pair([name, "far end"], capabilities).expect("a wire");
    (worker.add_port(Box::new(near)), far)
}

fn rig(slots: Slots, to: Capabilities) -> Rig {
    let (mut worker, handle) = Worker::new(Settings {
        slots,
        ..Settings::default()
    })
    .expect("a worker");
    let able = Capabilities {
        checksum: true,
        tcp_gso: true,
        ..Capabilities::plain(9000, 64)
    };
    let (from, left) = port(&mut worker, "lan0", able);
    let (to, right) = port(&mut worker, "wan0", to);
    Rig {
        worker,
        handle,
        from,
        to,
        left,
        right,
    }
}

fn usual() -> Rig {
    rig(Slots { small: 256, big: 16 }, plain())
}

impl Rig {
    /// Turns the loop until there is nothing to do now.
    fn settle(&mut self) {
        let mut turns = (0..10_000).map(|_| self.worker.turn());
        assert!(turns.any(|turn| matches!(turn, Turn::Idle(_))), "it never idles");
    }

    fn show(&mut self) -> WorkerSnapshot {
        self.worker.show(now())
    }

    fn gate(&mut self, gate: impl Gate + 'static) {
        self.worker.set_gate(Box::new(gate), &[self.from, self.to]);
    }
}

/// An ECN-capable IPv4 packet of this length with a number in it.
fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x02]);
    frame[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 253]);
    let sum = !netio::checksum::fold(netio::checksum::add(0, &frame[14..34]));
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..38].copy_from_slice(&number.to_be_bytes());
    frame
}

fn send(end: &Memory, numbers: std::ops::Range<u32>) {
    numbers.for_each(|n| end.send(&numbered(n, 60 + n as usize % 1400), Offload::default()));
}

fn arrived(end: &Memory) -> Vec<u32> {
    let number = |frame: Vec<u8>| u32::from_be_bytes([frame[34], frame[35], frame[36], frame[37]]);
    std::iter::from_fn(|| end.take())
        .map(|frame| number(frame.bytes))
        .collect()
}

/// Waits at most ten seconds until the condition is true.
fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while std::time::Instant::now() < until {
        if condition() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    false
}

/// Waits for this many frames.
fn await_frames(end: &Memory, count: usize) -> Vec<u32> {
    let mut got = Vec::new();
    eventually(|| {
        got.extend(arrived(end));
        got.len() >= count
    });
    got
}

fn run(worker: Worker) -> JoinHandle<WorkerSnapshot> {
    std::thread::spawn(move || worker.run())
}

/// Releases nothing before a time; marks ECN-capable packets, and sets DSCP 46.
#[derive(Debug)]
struct Until(Instant, VecDeque<Packet>);

impl Discipline for Until {
    fn enqueue(&mut self, _now: Instant, mut packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if packet.mark() {
            sink.mark(&packet, Reason::Early);
        }
        packet.dscp.remark(46);
        self.1.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        match self.1.is_empty() {
            false if now < self.0 => Next::Wait(self.0),
            _ => self.1.pop_front().map_or(Next::Empty, Next::Ready),
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        portion.flush(sink, || self.1.pop_front());
    }
}

fn blocked_until(at: Instant) -> Queue {
    Queue::new("until", Box::new(Until(at, VecDeque::new())))
}

fn blocked_for_an_hour() -> Queue {
    blocked_until(now() + Duration::from_secs(3600))
}

/// An answer that waits in a full queue is too late: the neighbour counts as gone, and what the
/// other direction sends to it is dropped.
#[test]
fn frames_by_which_neighbours_are_found_leave_before_a_full_queue_and_a_flood_of_them_does_not() {
    let arp = |number: u32| {
        let mut frame = numbered(number, 60);
        frame[12..14].copy_from_slice(&[0x08, 0x06]);
        frame
    };
    let discovery = |kind: u8| {
        let mut frame = vec![0; 86];
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        frame[18..22].copy_from_slice(&[0, 32, 58, 255]);
        (frame[54], frame[37]) = (kind, 9);
        frame
    };
    let mut rig = rig(Slots { small: 1024, big: 16 }, plain());
    let blocked = path(rig.from, rig.to, blocked_for_an_hour());
    rig.worker.add_path(blocked);
    send(&rig.left, 0..20);
    rig.settle();
    for frame in [arp(7), discovery(136), discovery(128)] {
        rig.left.send(&frame, Offload::default());
    }
    rig.settle();
    let kinds = std::iter::from_fn(|| rig.right.take()).map(|frame| (frame.bytes[13], frame.bytes[54]));
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [(0x06, 0), (0xdd, 136)],
        "an echo request waits"
    );
    // Ten in each tenth of a second; some of these may end in between.
    for number in 0..300 {
        rig.left.send(&arp(number), Offload::default());
    }
    let mut first = 0;
    // The port has room for 64.
    for _ in 0..5 {
        rig.settle();
        first += arrived(&rig.right).len();
    }
    assert!((8..=100).contains(&first), "{first}");
    assert_eq!(rig.show().paths[0].totals.dropped.packets, 0);
}

#[test]
fn packets_leave_in_order_or_are_counted_as_dropped() {
    let mut rig = usual();
    rig.worker.add_path(planned(rig.from, rig.to, fifo(20)));
    let mut got = Vec::new();
    for round in 0..50 {
        send(&rig.left, round * 30..round * 30 + 30);
        rig.settle();
        got.extend(arrived(&rig.right));
    }
    let view = rig.show();
    let totals = view.paths[0].totals;
    assert!(got.is_sorted() && got.len() >= 50 * 20, "{}", got.len());
    assert_eq!(totals.offered.packets, 1500);
    assert_eq!(
        (totals.sent.packets, totals.backlog().packets),
        (got.len() as u64, 0)
    );
    assert_eq!(totals.dropped.packets, totals.dropped_for(Reason::Full));
    assert_eq!(view.paths[0].classes[0].delays.count(), got.len() as u64);
    assert_eq!(view.pool.map(|slots| slots.used), [0, 0]);
}

#[test]
fn a_port_is_never_given_more_than_fits_its_ring() {
    let mut rig = rig(Slots { small: 64, big: 1 }, Capabilities::plain(1500, 3));
    rig.worker.add_path(planned(rig.from, rig.to, fifo(50)));
    send(&rig.left, 0..10);
    rig.settle();
    assert_eq!(arrived(&rig.right), [0, 1, 2]);
    rig.settle();
    assert_eq!(arrived(&rig.right), [3, 4, 5]);
}

#[test]
fn a_mark_and_a_new_dscp_are_in_the_header_when_the_packet_leaves() {
    let mut rig = usual();
    rig.worker
        .add_path(path(rig.from, rig.to, blocked_until(Instant::START)));
    send(&rig.left, 0..1);
    rig.settle();
    let frame = rig.right.take().expect("it left").bytes;
    assert_eq!(frame[15], 46 << 2 | 3, "not marked, or not remarked");
    assert_eq!(
        netio::checksum::fold(netio::checksum::add(0, &frame[14..34])),
        0xffff
    );
    assert_eq!(rig.show().paths[0].totals.marked, 1);
}

#[test]
fn switching_off_sends_the_backlog_and_drops_nothing() {
    let mut rig = usual();
    let id = rig.worker.add_path(path(rig.from, rig.to, blocked_for_an_hour()));
    send(&rig.left, 0..20);
    rig.settle();
    assert_eq!(arrived(&rig.right), []);
    let thread = run(rig.worker);
    rig.handle.switch(id, false).expect("an answer");
    send(&rig.left, 20..40);
    assert_eq!(await_frames(&rig.right, 40), (0..40).collect::<Vec<u32>>());
    rig.handle.stop();
    let totals = thread.join().expect("an orderly end").paths[0].totals;
    assert_eq!((totals.sent.packets, totals.dropped.packets), (40, 0));
}

#[test]
fn switching_off_takes_the_backlog_out_in_pieces_and_what_arrives_meanwhile_passes_behind_it() {
    let mut rig = rig(Slots { small: 4_096, big: 1 }, Capabilities::plain(1500, 64));
    let slow = PathSpec {
        bandwidth: Some(Bandwidth::bits_per_sec(80)),
        ..planned(rig.from, rig.to, fifo(1_000))
    };
    let id = rig.worker.add_path(slow);
    for first in (0..900).step_by(100) {
        send(&rig.left, first..first + 100);
        rig.settle();
    }
    assert_eq!(arrived(&rig.right), [0]);
    let handle = rig.handle.clone();
    let switching = std::thread::spawn(move || handle.switch(id, false));
    let (mut all, mut most, mut before, mut turns) = (vec![0], 0, 0, 0);
    while all.len() < 950 {
        let _ = rig.worker.turn();
        all.extend(arrived(&rig.right));
        let view = rig.show().paths.remove(0);
        if view.enabled {
            continue;
        }
        // What arrives while the queue holds packets is not taken out of it.
        let queued = view.views[0].stats.backlog().packets;
        if turns == 0 {
            send(&rig.left, 900..950);
            before = 899;
        }
        (most, before, turns) = (most.max(before - queued), queued, turns + 1);
        assert!(turns < 10_000, "{} have left", all.len());
    }
    switching.join().expect("no panic").expect("an answer");
    assert_eq!(all, (0..950).collect::<Vec<u32>>());
    assert!((1..=256).contains(&most), "{most} in one turn");
}

/// A class of everything with room, in a discipline of this kind.
fn alone_in(kind: &str) -> TreePlan {
    let one = Raw::Integer(1);
    let settings = match kind {
        "priq" => Table::default().with("priority", one),
        "drr" | "wrr" => Table::default().with("weight", one),
        "hfsc" => Table::default().text("linkshare", "1 Mbit/s"),
        _ => Table::default().text("rate", "1 Mbit/s"),
    };
    let roomy = DisciplineSpec {
        settings: Table::default().with("limit", Raw::Integer(1_000)),
        ..DisciplineSpec::new("fifo")
    };
    let class = ClassSpec {
        name: "all".into(),
        default: true,
        settings,
        discipline: Some(roomy),
        ..ClassSpec::default()
    };
    checked(&DisciplineSpec {
        classes: [class].into_iter().collect(),
        ..DisciplineSpec::new(kind)
    })
}

/// A backlog that ends where a piece does is out, but the discipline is not told so by that piece.
#[test]
fn a_discipline_that_was_switched_off_with_a_backlog_of_whole_pieces_works_when_switched_on() {
    for kind in ["priq", "drr", "wrr", "hfsc", "cbq"] {
        // The first packet leaves at once; a piece is 256.
        for many in [256, 257, 258, 513] {
            let mut rig = rig(Slots { small: 4_096, big: 1 }, Capabilities::plain(1500, 1_024));
            let slow = PathSpec {
                bandwidth: Some(Bandwidth::bits_per_sec(80)),
                ..planned(rig.from, rig.to, alone_in(kind))
            };
            let id = rig.worker.add_path(slow);
            let asked = |rig: &mut Rig, ask: fn(Handle, PathId)| {
                let handle = rig.handle.clone();
                let asking = std::thread::spawn(move || ask(handle, id));
                while !asking.is_finished() {
                    let _ = rig.worker.turn();
                }
                asking.join().expect("an answer");
            };
            for first in (0..many).step_by(50) {
                send(&rig.left, first..(first + 50).min(many));
                rig.settle();
            }
            asked(&mut rig, |handle, id| handle.switch(id, false).expect("switched"));
            rig.settle();
            assert_eq!(arrived(&rig.right), (0..many).collect::<Vec<u32>>(), "{kind}");
            asked(&mut rig, |handle, id| handle.switch(id, true).expect("switched"));
            // Its link has been busy since the first packet.
            asked(&mut rig, |handle, id| {
                let _ = handle.shape(id, Some(Bandwidth::gbit(10))).expect("shaped");
            });
            send(&rig.left, many..many + 1);
            rig.settle();
            assert_eq!(arrived(&rig.right), [many], "{kind}, {many}");
        }
    }
}

#[test]
fn a_new_plan_takes_effect_under_traffic_and_packets_stay() {
    let mut rig = rig(Slots { small: 64, big: 1 }, Capabilities::plain(1500, 1));
    let id = rig.worker.add_path(planned(rig.from, rig.to, fifo(30)));
    send(&rig.left, 0..30);
    rig.settle();
    let thread = run(rig.worker);
    let new = |plan| Retune {
        plan,
        seed: Seed(2),
        classify: None,
        bandwidth: None,
        guarantees: Vec::new(),
    };
    assert_eq!(rig.handle.retune(id, new(fifo(40))), Ok(Adopted::InPlace));
    let red = checked(&DisciplineSpec::new("red"));
    assert_eq!(
        rig.handle.retune(id, new(red)),
        Ok(Adopted::Rebuilt { dropped: 0 })
    );
    let view = rig.handle.inspect().expect("an answer");
    assert_eq!(
        (view.paths[0].kind, view.paths[0].totals.dropped.packets),
        ("red", 0)
    );
    assert_eq!(await_frames(&rig.right, 30), (0..30).collect::<Vec<u32>>());
    assert!(rig.handle.retune(PathId(7), new(fifo(1))).is_err());
    rig.handle.stop();
    thread.join().expect("an orderly end");
}

#[test]
fn the_backlog_moves_into_the_classes_of_a_new_tree_by_its_filters() {
    let mut rig = rig(Slots { small: 64, big: 1 }, Capabilities::plain(1500, 1));
    let id = rig.worker.add_path(planned(rig.from, rig.to, fifo(30)));
    send(&rig.left, 0..30);
    rig.settle();
    let thread = run(rig.worker);
    let class = |name: &str, default| ClassSpec {
        name: name.into(),
        default,
        settings: Table::default().with("priority", Raw::Integer(i64::from(default))),
        ..ClassSpec::default()
    };
    let plan = checked(&DisciplineSpec {
        classes: vec![class("default", true), class("chosen", false)].into(),
        ..DisciplineSpec::new("priq")
    });
    let new = Retune {
        plan,
        seed: Seed(2),
        classify: Some(Box::new(Everything(ClassId(1)))),
        bandwidth: None,
        guarantees: Vec::new(),
    };
    assert_eq!(rig.handle.retune(id, new), Ok(Adopted::Rebuilt { dropped: 0 }));
    let view = rig.handle.inspect().expect("an answer");
    let offered = |class| {
        let mut views = view.paths[0].views.iter();
        let found = views.find(|view| view.class == Some(class));
        found.map(|view| view.stats.offered.packets)
    };
    assert_eq!(offered(ClassId(0)), Some(0));
    assert!(offered(ClassId(1)).is_some_and(|packets| packets > 20));
    assert_eq!(await_frames(&rig.right, 30), (0..30).collect::<Vec<u32>>());
    rig.handle.stop();
    thread.join().expect("an orderly end");
}

#[test]
fn a_super_frame_is_cut_for_a_port_that_cannot_take_it() {
    let mut rig = usual();
    rig.worker.add_path(planned(rig.from, rig.to, fifo(50)));
    let mut frame = numbered(0, 54 + 3000);
    frame[23] = 6;
    frame[46] = 5 << 4;
    let offload = Offload {
        gso: Some(Gso::Tcp4),
        segment: 1000,
        ..Offload::default()
    };
    rig.left.send(&frame, offload);
    rig.settle();
    let got: Vec<_> = std::iter::from_fn(|| rig.right.take()).collect();
    assert_eq!(got.iter().map(|f| f.bytes.len()).collect::<Vec<_>>(), [1054; 3]);
    assert!(got.iter().all(|f| f.offload == Offload::default()));
    let view = rig.show();
    assert_eq!(
        (view.paths[0].split, view.paths[0].totals.sent.packets),
        ((1, 3), 3)
    );
}

#[test]
fn a_frame_too_long_for_the_destination_is_dropped_with_that_reason() {
    let mut rig = usual();
    rig.worker.add_path(planned(rig.from, rig.to, fifo(50)));
    rig.left.send(&numbered(1, 1600), Offload::default());
    rig.left.send(&numbered(2, 1514), Offload::default());
    rig.settle();
    assert_eq!(arrived(&rig.right), [2]);
    assert_eq!(rig.show().paths[0].totals.dropped_for(Reason::TooLong), 1);
}

#[test]
fn a_port_that_fails_is_reported_and_other_ports_go_on() {
    let mut rig = usual();
    let (other_from, other_left) = port(&mut rig.worker, "lan1", plain());
    let (other_to, other_right) = port(&mut rig.worker, "wan1", plain());
    rig.worker.add_path(path(rig.from, rig.to, blocked_for_an_hour()));
    rig.worker.add_path(path(rig.to, rig.from, blocked_for_an_hour()));
    rig.worker.add_path(planned(other_from, other_to, fifo(50)));
    send(&rig.left, 0..5);
    rig.settle();
    let thread = run(rig.worker);
    rig.right.set_link(LinkState::Gone);
    let look = || rig.handle.inspect().expect("an answer");
    assert!(eventually(|| look().ports[1].error.is_some()));
    let view = look();
    let error = view.ports[1].error.as_deref().expect("an error");
    assert!(
        error.contains("wan0") && error.contains("no such interface"),
        "{error}"
    );
    assert_eq!(view.paths[0].totals.dropped_for(Reason::Port), 5);
    send(&rig.left, 5..8);
    send(&other_left, 0..50);
    assert_eq!(await_frames(&other_right, 50), (0..50).collect::<Vec<u32>>());
    assert!(eventually(
        || look().paths[0].totals.dropped_for(Reason::Port) == 8
    ));
    rig.right.set_link(LinkState::Up);
    assert!(eventually(|| look().ports[1].error.is_none()), "it stays dead");
    rig.handle.stop();
    let view = thread.join().expect("an orderly end");
    assert_eq!(view.pool.map(|slots| slots.used), [0, 0]);
}

/// A gate that has lapsed until the next beat.
#[derive(Clone)]
struct Lapsed(Arc<AtomicBool>);

impl Lapsed {
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Gate for Lapsed {
    fn lapsed(&mut self, _now: Instant) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn beat(&mut self, _now: Instant) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn stand_aside(&mut self, _now: Instant) {}

    fn take_from(&mut self, _moment: Moment) {}

    fn tells_by_arrival(&self) -> bool {
        true
    }

    fn leave_at(&mut self, _moment: Moment) {}
}

#[test]
fn packets_that_arrived_during_a_lapse_are_dropped_as_stale_and_later_ones_are_not() {
    let mut rig = usual();
    rig.worker.add_path(planned(rig.from, rig.to, fifo(500)));
    rig.gate(Lapsed::new());
    send(&rig.left, 0..150);
    rig.settle();
    send(&rig.left, 150..155);
    // As if packets had arrived and ended a sleep.
    let thread = run(rig.worker);
    assert_eq!(await_frames(&rig.right, 5), [150, 151, 152, 153, 154]);
    rig.handle.stop();
    let view = thread.join().expect("an orderly end");
    assert_eq!(view.paths[0].totals.dropped_for(Reason::Stale), 150);
    assert_eq!(view.turns.lapses, 0, "the start is no lapse");
}

#[test]
fn a_lapse_without_arrivals_drops_nothing() {
    let mut rig = usual();
    rig.worker.add_path(planned(rig.from, rig.to, fifo(500)));
    let gate = Lapsed::new();
    rig.gate(gate.clone());
    rig.settle();
    gate.0.store(true, Ordering::Relaxed);
    rig.settle();
    send(&rig.left, 0..5);
    rig.settle();
    assert_eq!(arrived(&rig.right), [0, 1, 2, 3, 4]);
    assert_eq!(rig.show().turns.lapses, 1);
}

#[test]
fn a_full_pool_leaves_no_frame_unaccounted_for() {
    let mut rig = rig(Slots { small: 4, big: 1 }, plain());
    rig.worker.add_path(path(rig.from, rig.to, blocked_for_an_hour()));
    send(&rig.left, 0..9);
    rig.settle();
    let view = rig.show();
    assert_eq!(view.ports[0].counters.refused, 4);
    assert_eq!(view.paths[0].totals.backlog().packets, 5);
    assert!(view.pool[1].exhausted >= 4);
}

#[test]
fn packets_leave_at_their_due_time_and_never_before_it() {
    let mut rig = usual();
    let due = now() + Duration::from_millis(50);
    rig.worker.add_path(path(rig.from, rig.to, blocked_until(due)));
    send(&rig.left, 0..3);
    let thread = run(rig.worker);
    let got = await_frames(&rig.right, 3);
    assert!(now() >= due);
    assert_eq!(got, [0, 1, 2]);
    rig.handle.stop();
    let view = thread.join().expect("an orderly end");
    assert_eq!(view.paths[0].lateness.count(), 1);
    assert!(view.turns.asleep > Duration::ZERO);
}

#[test]
fn the_backlog_is_sent_after_the_input_has_ended_without_spinning_until_then() {
    let folder = std::env::temp_dir().join(format!("suimon-ended-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (input, output) = (folder.join("in.pcapng"), folder.join("out.pcapng"));
    let mut capture = Vec::new();
    let mut writer = Writer::new(&mut capture, &["in"]).expect("a capture");
    (0..20).for_each(|n| writer.frame(n, 0, &numbered(0, 1250), None).expect("a capture"));
    std::fs::write(&input, &capture).expect("a file");
    let (mut worker, _handle) = Worker::new(Settings::default()).expect("a worker");
    // One port replays and records; 20 packets of 10,000 bits take 200 ms at 1 Mbit/s.
    let port = Pcap::open(Some((&input, ReplayPace::Fast)), Some(&output)).expect("a port");
    let port = worker.add_port(Box::new(port));
    worker.add_path(PathSpec {
        bandwidth: Some(Bandwidth::mbit(1)),
        ..planned(port, port, fifo(100))
    });
    let view = worker.run();
    assert_eq!(
        (view.ports[0].counters.received, view.ports[0].counters.sent),
        (20, 20)
    );
    assert!(view.turns.turns < 2_000, "{:?}", view.turns);
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn a_path_is_shaped_while_on_and_has_no_deficit_from_the_time_while_off() {
    let mut rig = usual();
    let slow = PathSpec {
        bandwidth: Some(Bandwidth::bits_per_sec(80)),
        ..planned(rig.from, rig.to, fifo(50))
    };
    let id = rig.worker.add_path(slow);
    let switch = |rig: &mut Rig, on| {
        let handle = rig.handle.clone();
        let switching = std::thread::spawn(move || handle.switch(id, on));
        while !switching.is_finished() {
            let _ = rig.worker.turn();
        }
        switching.join().expect("no panic").expect("an answer");
    };
    switch(&mut rig, false);
    send(&rig.left, 0..20);
    rig.settle();
    assert_eq!(arrived(&rig.right), (0..20).collect::<Vec<u32>>());
    switch(&mut rig, true);
    send(&rig.left, 20..22);
    rig.settle();
    assert_eq!(arrived(&rig.right), [20], "the second has to wait for its link");
}

#[test]
fn another_rate_of_a_path_leaves_its_tree_and_its_backlog_as_they_are() {
    let mut rig = usual();
    let slow = PathSpec {
        bandwidth: Some(Bandwidth::bits_per_sec(80)),
        ..planned(rig.from, rig.to, fifo(50))
    };
    let id = rig.worker.add_path(slow);
    let shape = |rig: &mut Rig, path, rate| {
        let handle = rig.handle.clone();
        let asking = std::thread::spawn(move || handle.shape(path, rate));
        while !asking.is_finished() {
            let _ = rig.worker.turn();
        }
        asking.join().expect("no panic")
    };
    send(&rig.left, 0..20);
    rig.settle();
    assert_eq!(arrived(&rig.right), [0], "the others wait for a link of 80 bit/s");
    let carried = shape(&mut rig, id, None).expect("an answer");
    assert!(carried.offered.get() > 20 * carried.sent.get(), "{carried:?}");
    rig.settle();
    assert!(arrived(&rig.right).is_empty(), "it was only asked");
    // What was sent ahead of the former rate still counts, in bytes.
    shape(&mut rig, id, Some(Bandwidth::gbit(10))).expect("an answer");
    let mut left = Vec::new();
    while left.len() < 19 {
        rig.settle();
        left.extend(arrived(&rig.right));
    }
    assert_eq!(left, (1..20).collect::<Vec<u32>>());
    let carried = shape(&mut rig, id, Some(Bandwidth::bits_per_sec(80))).expect("an answer");
    assert_eq!(carried.offered, carried.sent);
    let view = rig.show();
    assert_eq!(view.paths[0].totals.dropped.packets, 0);
    assert_eq!(view.paths[0].views[0].stats.offered.packets, 20, "the same tree");
    send(&rig.left, 20..23);
    rig.settle();
    assert_eq!(arrived(&rig.right), [20], "and slow again");
    assert_eq!(shape(&mut rig, PathId(7), None), Err(Unanswered::NoSuchPath));
}

#[test]
fn probes_of_ours_leave_before_a_full_queue_and_those_of_others_wait() {
    let echo = |kind: u8, ident: u16| {
        let mut frame = numbered(0, 66);
        frame[23] = 1;
        frame[34] = kind;
        frame[38..40].copy_from_slice(&ident.to_be_bytes());
        frame
    };
    let mut rig = usual();
    let id = rig.worker.add_path(path(rig.from, rig.to, blocked_for_an_hour()));
    let handle = rig.handle.clone();
    let telling = std::thread::spawn(move || handle.pass_probes(id, vec![7]));
    while !telling.is_finished() {
        let _ = rig.worker.turn();
    }
    telling.join().expect("no panic").expect("an answer");
    send(&rig.left, 0..20);
    for frame in [echo(8, 7), echo(8, 9), echo(0, 7)] {
        rig.left.send(&frame, Offload::default());
    }
    rig.settle();
    let left = std::iter::from_fn(|| rig.right.take()).map(|frame| (frame.bytes[34], frame.bytes[39]));
    assert_eq!(left.collect::<Vec<_>>(), [(8, 7), (0, 7)]);
    assert_eq!(rig.show().paths[0].totals.dropped.packets, 0);
}

#[test]
fn a_clean_end_sends_the_backlog_and_counts_what_it_gives_up() {
    let mut rig = usual();
    rig.worker.add_path(path(rig.from, rig.to, blocked_for_an_hour()));
    send(&rig.left, 0..60);
    rig.settle();
    assert_eq!(arrived(&rig.right), []);
    let thread = run(rig.worker);
    rig.handle.stop();
    let view = thread.join().expect("an orderly end");
    assert_eq!(arrived(&rig.right), (0..60).collect::<Vec<u32>>());
    let totals = view.paths[0].totals;
    assert_eq!((totals.sent.packets, totals.dropped.packets), (60, 0));
}

#[test]
fn a_clean_end_is_bounded_and_counts_what_it_gives_up() {
    let mut rig = rig(Slots { small: 256, big: 1 }, Capabilities::plain(1500, 3));
    rig.worker.add_path(path(rig.from, rig.to, blocked_for_an_hour()));
    send(&rig.left, 0..60);
    rig.settle();
    let (thread, since) = (run(rig.worker), std::time::Instant::now());
    rig.handle.stop();
    // The far end takes nothing.
    let view = thread.join().expect("an orderly end");
    assert!(since.elapsed() < std::time::Duration::from_secs(5));
    let totals = view.paths[0].totals;
    assert_eq!((totals.sent.packets, totals.dropped.packets), (3, 57));
    assert_eq!(totals.dropped_for(Reason::Flushed), 57);
}

#[test]
fn switching_off_counts_no_delivered_packet_as_dropped() {
    let mut rig = usual();
    let id = rig.worker.add_path(path(rig.from, rig.to, blocked_for_an_hour()));
    send(&rig.left, 0..20);
    rig.settle();
    let thread = run(rig.worker);
    rig.handle.switch(id, false).expect("an answer");
    assert_eq!(await_frames(&rig.right, 20).len(), 20);
    rig.handle.stop();
    let view = thread.join().expect("an orderly end");
    let dropped: u64 = view.paths[0]
        .views
        .iter()
        .map(|view| view.stats.dropped.packets)
        .sum();
    assert_eq!(dropped, 0);
}

/// Whether the kernel forwards, as it was told last.
#[derive(Clone)]
struct GateProbe(Arc<AtomicBool>);

impl Gate for GateProbe {
    fn lapsed(&mut self, _now: Instant) -> bool {
        false
    }

    fn beat(&mut self, _now: Instant) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn stand_aside(&mut self, _now: Instant) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn take_from(&mut self, _moment: Moment) {}

    fn tells_by_arrival(&self) -> bool {
        true
    }

    fn leave_at(&mut self, _moment: Moment) {}
}

#[test]
fn a_broken_port_leaves_traffic_to_the_kernel_until_it_works_again() {
    let mut rig = usual();
    rig.worker.add_path(planned(rig.from, rig.to, fifo(50)));
    let probe = GateProbe(Arc::new(AtomicBool::new(false)));
    let aside = || probe.0.load(Ordering::Relaxed);
    rig.gate(probe.clone());
    rig.settle();
    assert!(!aside());
    rig.right.set_link(LinkState::Gone);
    send(&rig.left, 0..1);
    let _ = rig.worker.turn();
    assert!(aside(), "it keeps frames that it cannot send");
    assert_eq!(rig.show().ports[rig.from.0].aside, Some(Aside::Port));
    rig.right.set_link(LinkState::Up);
    let thread = run(rig.worker);
    assert!(eventually(|| !aside()), "it does not take traffic back");
    rig.handle.stop();
    let last = thread.join().expect("an orderly end");
    assert_eq!(last.ports[rig.from.0].aside, None);
}

/// Of two pairs in one worker, the one that works stays managed.
#[test]
fn a_broken_port_leaves_the_traffic_of_other_gates_managed() {
    let mut rig = usual();
    rig.worker.add_path(planned(rig.from, rig.to, fifo(50)));
    let (from, left) = port(&mut rig.worker, "from2", plain());
    let (to, right) = port(&mut rig.worker, "to2", plain());
    rig.worker.add_path(planned(from, to, fifo(50)));
    let probes = [(); 2].map(|()| GateProbe(Arc::new(AtomicBool::new(false))));
    let [one, other] = probes.clone();
    rig.gate(one);
    rig.worker.set_gate(Box::new(other), &[from, to]);
    rig.settle();
    rig.right.set_link(LinkState::Gone);
    send(&rig.left, 0..1);
    let _ = rig.worker.turn();
    let aside = probes.each_ref().map(|probe| probe.0.load(Ordering::Relaxed));
    assert_eq!(aside, [true, false]);
    let ports = rig.show().ports;
    assert_eq!(
        [rig.from, from].map(|port| ports[port.0].aside),
        [Some(Aside::Port), None]
    );
    send(&left, 0..3);
    let _ = rig.worker.turn();
    assert_eq!(arrived(&right), [0, 1, 2]);
}

#[test]
fn a_pool_that_stays_exhausted_leaves_traffic_to_the_kernel_until_slots_are_free() {
    let mut rig = rig(Slots { small: 4, big: 1 }, plain());
    let id = rig.worker.add_path(path(rig.from, rig.to, blocked_for_an_hour()));
    let probe = GateProbe(Arc::new(AtomicBool::new(false)));
    let aside = || probe.0.load(Ordering::Relaxed);
    rig.gate(probe.clone());
    send(&rig.left, 0..9);
    rig.settle();
    assert!(!aside(), "at once: any burst would");
    let thread = run(rig.worker);
    assert!(
        eventually(aside),
        "nothing can be received, and nothing else forwards"
    );
    assert_eq!(
        rig.handle.inspect().expect("an answer").ports[rig.from.0].aside,
        Some(Aside::Memory)
    );
    rig.handle.switch(id, false).expect("an answer");
    assert!(eventually(|| !aside()), "it does not take traffic back");
    rig.handle.stop();
    thread.join().expect("an orderly end");
}

#[test]
fn several_workers_answer_as_one() {
    let rigs = [usual(), usual()];
    let (mut workers, mut handles, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (mut rig, name) in rigs.into_iter().zip(["up", "down"]) {
        let (from, to) = (rig.from, rig.to);
        rig.worker.add_path(PathSpec {
            name: name.into(),
            ..planned(from, to, fifo(100))
        });
        workers.push(rig.worker);
        handles.push(rig.handle);
        ends.push((rig.left, rig.right));
    }
    let handle = Handle::joined(&workers, &handles);
    let running: Vec<_> = workers.into_iter().map(run).collect();
    send(&ends[1].0, 0..5);
    assert_eq!(await_frames(&ends[1].1, 5), [0, 1, 2, 3, 4]);
    let shown = handle.inspect().expect("an answer");
    let names: Vec<_> = shown.paths.iter().map(|path| path.name.as_str()).collect();
    assert_eq!((names, shown.ports.len()), (vec!["up", "down"], 4));
    assert_eq!((shown.paths[1].from, shown.paths[1].to), (PortId(2), PortId(3)));
    let sent = |path: usize| shown.paths[path].totals.sent.packets;
    assert_eq!((sent(0), sent(1)), (0, 5));
    assert_eq!(shown.pool[0].total, 2 * 256);
    handle
        .switch(PathId(1), false)
        .expect("the second is switched off");
    let shown = handle.inspect_to(Detail::Paths).expect("an answer");
    assert_eq!((shown.paths[0].enabled, shown.paths[1].enabled), (true, false));
    assert_eq!(handle.switch(PathId(2), false), Err(Unanswered::NoSuchPath));
    handle.stop();
    let last = running
        .into_iter()
        .map(|thread| thread.join().expect("an orderly end"));
    let last = WorkerSnapshot::joined(last).expect("two");
    assert_eq!(last.paths[1].totals.sent.packets, 5);
}

/// A plan of so many classes.
fn many(classes: u32) -> TreePlan {
    many_of("drr", &Table::default(), classes)
}

/// Of this kind, with these settings each.
fn many_of(kind: &str, settings: &Table, classes: u32) -> TreePlan {
    let class = |n: u32| ClassSpec {
        name: format!("class{n}").into(),
        default: n == 0,
        settings: settings.clone(),
        ..ClassSpec::default()
    };
    checked(&DisciplineSpec {
        classes: (0..classes).map(class).collect(),
        ..DisciplineSpec::new(kind)
    })
}

/// Puts packets into so many classes in turn.
struct InTurn(u32, u32);

impl Classify for InTurn {
    fn classify(&mut self, _headers: &Headers, packet: &mut Packet) {
        packet.class = ClassId(self.0 % self.1);
        self.0 += 1;
    }
}

/// Slices are in the memory of the requester. Formerly the loop took some for each class, and the
/// requester gave it back.
#[test]
fn the_loop_takes_no_memory_for_a_slice() {
    const CLASSES: u32 = 1_000;
    let rate = |key| Table::default().text(key, "10 kbit/s");
    for (kind, settings) in [
        ("drr", Table::default()),
        ("wrr", Table::default()),
        ("hfsc", rate("linkshare")),
        ("cbq", rate("rate")),
    ] {
        let mut rig = rig(Slots { small: 2_048, big: 1 }, plain());
        rig.worker.add_path(PathSpec {
            classify: Box::new(InTurn(0, CLASSES)),
            ..planned(rig.from, rig.to, many_of(kind, &settings, CLASSES))
        });
        for _ in 0..CLASSES {
            send(&rig.left, 0..1);
            rig.settle();
        }
        let mut sent = 0;
        assert!(eventually(|| {
            rig.settle();
            sent += arrived(&rig.right).len();
            sent > 500
        }));
        // With the first the inbox and the list of inspections take theirs.
        for counted in [false, true] {
            let handle = rig.handle.clone();
            let asked = std::thread::spawn(move || handle.inspect());
            let (mut slices, mut taking) = (0, 0);
            while !asked.is_finished() {
                let mut turn = Turn::Done;
                let taken = allocation_counter::measure(|| turn = rig.worker.turn());
                slices += u32::from(turn == Turn::Busy);
                // The first packet of a class that leaves takes memory for its delays.
                let left = arrived(&rig.right).len();
                taking += u32::from(taken.count_total > 0 && left == 0);
            }
            let snapshot = asked.join().expect("no panic").expect("an answer");
            let path = &snapshot.paths[0];
            assert_eq!(path.views.len(), 1 + CLASSES as usize, "{kind}");
            assert!(
                path.classes.len() > 500,
                "{kind}: {} have sent",
                path.classes.len()
            );
            assert!(slices >= CLASSES / SLICE, "{kind}: {slices}");
            // The paths and ports as a whole, at the end.
            assert!(taking <= 1 || !counted, "{kind}: {taking} turns took memory");
        }
    }
}

#[test]
fn an_inspection_of_many_classes_takes_a_turn_for_each_slice_and_packets_pass_meanwhile() {
    const CLASSES: u32 = 1_000;
    let mut rig = rig(Slots { small: 64, big: 1 }, plain());
    rig.worker.add_path(planned(rig.from, rig.to, many(CLASSES)));
    rig.settle();
    let handle = rig.handle.clone();
    let asked = std::thread::spawn(move || handle.inspect());
    // The first slice.
    while rig.worker.turn() != Turn::Busy {}
    send(&rig.left, 0..1);
    for _ in 0..2 {
        assert_eq!(rig.worker.turn(), Turn::Busy);
    }
    assert_eq!(arrived(&rig.right), [0]);
    assert!(!asked.is_finished(), "a packet waited for the whole");
    let mut turns = 3;
    while !asked.is_finished() {
        // Nothing sleeps before the last slice.
        turns += u32::from(rig.worker.turn() == Turn::Busy);
    }
    let snapshot = asked.join().expect("no panic").expect("an answer");
    assert_eq!(snapshot.paths[0].views.len(), 1 + CLASSES as usize);
    assert!(turns >= CLASSES / SLICE, "{turns}");
}

#[test]
fn a_tree_that_is_replaced_during_an_inspection_is_read_anew() {
    let mut rig = rig(Slots { small: 64, big: 1 }, plain());
    let id = rig.worker.add_path(planned(rig.from, rig.to, many(500)));
    rig.settle();
    let (first, second) = (rig.handle.clone(), rig.handle.clone());
    let asked = std::thread::spawn(move || first.inspect());
    // Part of the first tree is read.
    while rig.worker.turn() != Turn::Busy {}
    let new = Retune {
        plan: many(300),
        seed: Seed(2),
        classify: None,
        bandwidth: None,
        guarantees: Vec::new(),
    };
    let changed = std::thread::spawn(move || second.retune(id, new));
    while !changed.is_finished() {
        rig.worker.turn();
    }
    while !asked.is_finished() {
        rig.worker.turn();
    }
    let snapshot = asked.join().expect("no panic").expect("an answer");
    // All of one tree: which, is decided by who was faster.
    assert!([301, 501].contains(&snapshot.paths[0].views.len()));
}

#[test]
fn a_snapshot_of_paths_alone_shows_no_class() {
    let mut rig = rig(Slots { small: 64, big: 1 }, plain());
    rig.worker.add_path(planned(rig.from, rig.to, many(500)));
    let handle = rig.handle.clone();
    let asked = std::thread::spawn(move || handle.inspect_to(Detail::Paths));
    while !asked.is_finished() {
        rig.worker.turn();
    }
    let snapshot = asked.join().expect("no panic").expect("an answer");
    assert!(snapshot.paths[0].views.is_empty());
}
