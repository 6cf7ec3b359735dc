//! A flush in portions of very many classes: none does more than it may, all do together what one
//! flush of the whole does, and no class is looked at again for each portion.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "stubs/counted.rs"]
mod counted;

use counted::{COUNTED, VISITED};
use engine::discipline::{Next, Reason, Sink};
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::portion::Portion;
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Instant};
use std::sync::atomic::Ordering;

/// The classes and flows of packets, in order.
#[derive(Default)]
struct Flushed(Vec<(u32, u32)>);

impl Sink for Flushed {
    fn drop(&mut self, packet: Packet, why: Reason) {
        assert_eq!(why, Reason::Flushed);
        self.0.push((packet.class.0, packet.flow.full));
    }
}

/// Packets in each class that holds any: the first, some in the middle, and the last.
fn held(class: u32, classes: u32) -> u32 {
    match class {
        0 => 1,
        _ if class + 1 == classes => 700,
        _ if class.is_multiple_of(997) => 3,
        _ => 0,
    }
}

/// A tree of so many classes. Those that hold no packets count how often they are asked.
fn tree(kind: &str, settings: &Table, of_class: &Table, classes: u32) -> Queue {
    let class = |number: u32| ClassSpec {
        name: format!("c{number}").into(),
        default: number == 0,
        settings: match kind {
            "priq" => of_class.clone().with("priority", Raw::Integer(i64::from(number))),
            _ => of_class.clone(),
        },
        discipline: Some(match held(number, classes) {
            0 => DisciplineSpec::new("counted"),
            _ => DisciplineSpec {
                settings: Table::default().with("limit", Raw::Integer(1_000)),
                ..DisciplineSpec::new("fifo")
            },
        }),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        settings: settings.clone(),
        classes: (0..classes).map(class).collect(),
        ..DisciplineSpec::new(kind)
    };
    let link = Link::new(Bandwidth::mbit(1_000), Bytes::new(1_514));
    let plan = spec.check(&Registry::builtin().with(&COUNTED), link);
    let mut queue = plan
        .unwrap_or_else(|problems| panic!("{kind}: {:?}", problems.first()))
        .build(Seed(1));
    let mut flow = 0;
    for number in 0..classes {
        for _ in 0..held(number, classes) {
            flow += 1;
            let mut packet = Packet::new(Bytes::new(500), Instant::START, ClassId(number));
            packet.flow.full = flow;
            let _ = queue.enqueue(Instant::START, packet, &mut Flushed::default());
        }
    }
    // One of them is on its way out.
    assert!(matches!(
        queue.peek(Instant::START, &mut Flushed::default()),
        Next::Ready(_)
    ));
    queue
}

#[test]
fn a_flush_of_very_many_classes_is_done_in_portions_and_looks_at_each_class_once() {
    let none = Table::default();
    let text = |name: &str, value: &str| Table::default().text(name, value);
    let rate = text("rate", "20 kbit/s");
    let older = [
        text("sharing", "top-level"),
        text("sharing", "top-level").text("root_rate", "98 %"),
    ];
    let trees = [
        ("drr", none.clone(), none.clone(), 10_000),
        ("wrr", none.clone(), none.clone(), 10_000),
        ("hfsc", none.clone(), text("linkshare", "20 kbit/s"), 10_000),
        ("cbq", none.clone(), rate.clone(), 10_000),
        ("cbq", older[0].clone(), rate.clone(), 10_000),
        ("cbq", older[1].clone(), rate.clone(), 10_000),
        ("pacer", none.clone(), rate, 10_000),
        ("priq", none.clone(), none, 256),
    ];
    const PACKETS: usize = 256;
    for (kind, settings, of_class, classes) in trees {
        let looks = (classes / 5) as usize;
        let build = || tree(kind, &settings, &of_class, classes);
        let (mut queue, mut all) = (build(), Flushed::default());
        let backlog = queue.backlog();
        queue.flush(&mut Portion::whole(), &mut all);
        assert_eq!(all.0.len() as u64, backlog.packets, "{kind}");
        let (mut queue, mut flushed, mut portions) = (build(), Flushed::default(), 0);
        loop {
            let (before, visited) = (flushed.0.len(), VISITED.load(Ordering::Relaxed));
            let mut portion = Portion::of(PACKETS as u32, looks as u32);
            queue.flush(&mut portion, &mut flushed);
            portions += 1;
            let visited = VISITED.load(Ordering::Relaxed) - visited;
            assert!(flushed.0.len() - before <= PACKETS, "{kind}");
            assert!(
                visited <= looks,
                "{kind}: {visited} classes in portion {portions}"
            );
            assert_eq!(
                queue.backlog().packets,
                backlog.packets - flushed.0.len() as u64,
                "{kind}"
            );
            if !portion.is_spent() {
                break;
            }
        }
        assert!(flushed.0 == all.0, "{kind}: another order");
        // A look at each class; at each order of classes and each node, where there are such.
        let most = 3 * classes as usize / looks + flushed.0.len() / PACKETS + 3;
        assert!(
            (flushed.0.len() / PACKETS..=most).contains(&portions),
            "{kind}: {portions} portions, {most} at most"
        );
        // What was empty at last is as good as new.
        let mut packet = Packet::new(Bytes::new(500), Instant::START, ClassId(classes - 1));
        packet.flow.full = 7;
        let _ = queue.enqueue(Instant::START, packet, &mut flushed);
        queue.flush(&mut Portion::whole(), &mut flushed);
        assert_eq!(flushed.0.last(), Some(&(classes - 1, 7)), "{kind}");
    }
}
