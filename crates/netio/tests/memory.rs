//! The memory of frames: whatever the policy and whatever the flood, classes with a guarantee are
//! sent all of what they send within it.

use engine::discipline::Reason;
use engine::header::Headers;
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes};
use netio::classify::Classify;
use netio::clock::now;
use netio::pool::{Gso, Offload, Slots};
use netio::port::Capabilities;
use netio::ports::memory::Memory;
use netio::worker::{PathSpec, Settings, Worker};

const VOICE: u32 = 0;

/// The class is the last part of the source address.
struct BySource;

impl Classify for BySource {
    fn classify(&mut self, headers: &Headers, packet: &mut Packet) {
        packet.class = ClassId(headers.key.source as u32);
    }
}

fn frame(class: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    frame[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    frame[26..30].copy_from_slice(&class.to_be_bytes());
    frame[46] = 5 << 4;
    frame
}

fn class_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[26], frame[27], frame[28], frame[29]])
}

/// `voice`, and so many others, each with these settings.
fn tree(kind: &str, voice: Table, others: u32, other: impl Fn(u32) -> Table, limit: i64) -> TreePlan {
    let long = DisciplineSpec {
        settings: Table::default().with("limit", Raw::Integer(limit)),
        ..DisciplineSpec::new("fifo")
    };
    let class = |name: String, settings: &Table, discipline: Option<DisciplineSpec>| ClassSpec {
        default: name == "other0",
        name: name.into(),
        settings: settings.clone(),
        discipline,
        ..ClassSpec::default()
    };
    let mut classes = vec![class("voice".into(), &voice, None)];
    classes.extend((0..others).map(|n| class(format!("other{n}"), &other(n), Some(long.clone()))));
    let spec = DisciplineSpec {
        classes: classes.into(),
        ..DisciplineSpec::new(kind)
    };
    let link = Link::new(Bandwidth::gbit(1), Bytes::new(1514));
    spec.check(&Registry::builtin(), link).expect("a plan")
}

/// What a flood is made of.
#[derive(Clone, Copy, Debug)]
enum Flood {
    Small,
    Super,
    Mixed,
}

/// After so many frames of flood, a thousand packets for `voice` while the flood goes on: how many
/// were sent.
fn voice_beside(plan: TreePlan, others: u32, flood: Flood, frames: u32, bandwidth: Bandwidth) -> u32 {
    // Of priq no class has a rate.
    let guaranteed = plan.root.kind.name != "priq";
    let (mut worker, _handle) = Worker::new(Settings {
        slots: Slots {
            small: 4_096,
            big: 256,
        },
        ..Settings::default()
    })
    .expect("a worker");
    let able = Capabilities {
        checksum: true,
        tcp_gso: true,
        ..Capabilities::plain(1500, 64)
    };
    let mut port = |name| {
        let [near, far] = Memory::pair([name, "far end"], able).expect("a wire");
        (worker.add_port(Box::new(near)), far)
    };
    let ((from, left), (to, right)) = (port("lan0"), port("wan0"));
    let rates = [(ClassId(VOICE), Bandwidth::mbit(20))];
    let guarantees = rates.into_iter().filter(|_| guaranteed).collect();
    let queue = plan.build(Seed(1));
    worker.add_path(PathSpec {
        classify: Box::new(BySource),
        plan: Some(plan),
        bandwidth: Some(bandwidth),
        guarantees,
        ..PathSpec::new("wan0", (from, to), queue)
    });
    let (mut sent, mut flooded) = (0, 0);
    let mut send_flood = || {
        let class = 1 + flooded % others;
        let whole = match flood {
            Flood::Small => false,
            Flood::Super => true,
            Flood::Mixed => flooded % 3 == 0,
        };
        flooded += 1;
        let offload = Offload {
            gso: whole.then_some(Gso::Tcp4),
            segment: if whole { 1446 } else { 0 },
            ..Offload::default()
        };
        left.send(&frame(class, if whole { 30_000 } else { 100 }), offload);
    };
    for _ in 0..frames {
        send_flood();
    }
    let mut turn = |worker: &mut Worker| {
        let _ = worker.turn();
        let got = std::iter::from_fn(|| right.take());
        sent += got.filter(|frame| class_of(&frame.bytes) == VOICE).count() as u32;
        sent
    };
    for _ in 0..frames.div_ceil(64) {
        turn(&mut worker);
    }
    let mut voice = 0;
    for _ in 0..50 {
        for _ in 0..200 {
            send_flood();
        }
        for _ in 0..20 {
            left.send(&frame(VOICE, 100), Offload::default());
        }
        voice += 20;
        let until = now() + engine::units::Duration::from_millis(40);
        while turn(&mut worker) < voice && now() < until {}
    }
    let sent = turn(&mut worker);
    let view = worker.show(now());
    let totals = view.paths[0].totals;
    assert_eq!(
        totals.offered.packets,
        totals.sent.packets + totals.dropped.packets + totals.backlog().packets
    );
    assert_eq!(totals.dropped_for(Reason::Stale), 0);
    sent
}

#[test]
fn one_long_class_takes_no_frame_of_a_guaranteed_class() {
    let voice = || {
        Table::default()
            .text("rate", "100 Mbit/s")
            .with("priority", Raw::Integer(7))
    };
    let bulk = Table::default()
        .text("rate", "500 kbit/s")
        .with("borrow", Raw::Boolean(false));
    for flood in [Flood::Small, Flood::Super, Flood::Mixed] {
        let plan = tree("cbq", voice(), 1, |_| bulk.clone(), 50_000);
        assert_eq!(
            voice_beside(plan, 1, flood, 8_000, Bandwidth::gbit(1)),
            1_000,
            "{flood:?}"
        );
    }
}

#[test]
fn four_hundred_short_classes_take_no_frame_of_a_guaranteed_class() {
    let voice = Table::default()
        .text("rate", "20 Mbit/s")
        .with("priority", Raw::Integer(7));
    let other = Table::default()
        .text("rate", "10 kbit/s")
        .with("borrow", Raw::Boolean(false));
    let plan = tree("cbq", voice, 400, |_| other.clone(), 100);
    assert_eq!(
        voice_beside(plan, 400, Flood::Small, 40_000, Bandwidth::gbit(1)),
        1_000
    );
}

#[test]
fn any_kind_that_guarantees_keeps_its_guarantee_under_any_flood() {
    for flood in [Flood::Small, Flood::Super, Flood::Mixed] {
        let voice = Table::default().text("realtime", "20 Mbit/s");
        let other = Table::default()
            .text("linkshare", "1 Mbit/s")
            .text("upperlimit", "1 Mbit/s");
        let plan = tree("hfsc", voice, 30, |_| other.clone(), 10_000);
        let sent = voice_beside(plan, 30, flood, 8_000, Bandwidth::gbit(1));
        assert_eq!(sent, 1_000, "hfsc, {flood:?}");
        let level = |n: u32| Table::default().with("priority", Raw::Integer(i64::from(n)));
        let plan = tree("priq", level(200), 7, level, 10_000);
        let sent = voice_beside(plan, 7, flood, 8_000, Bandwidth::mbit(20));
        assert_eq!(sent, 1_000, "priq, {flood:?}");
    }
}
