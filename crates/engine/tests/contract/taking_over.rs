//! A queue that takes over from another one of its plan, against one that goes on: both get the
//! same arrivals and are asked for packets at the same times, and nothing that becomes of a packet
//! tells which of them is which.

use crate::bursts::{Side, packet, pause};
use crate::exam::Subject;
use engine::discipline::{Build, Next, Reason, Sink};
use engine::packet::{ClassId, Packet};
use engine::portion::Portion;
use engine::random::Seed;
use engine::tree::{DisciplineSpec, Registry};
use engine::units::{Duration, Instant};
use std::collections::VecDeque;

/// What a queue hands over.
#[derive(Default)]
struct Handed(VecDeque<Packet>);

impl Sink for Handed {
    fn drop(&mut self, packet: Packet, why: Reason) {
        assert_eq!(why, Reason::Flushed);
        self.0.push_back(packet);
    }

    fn hands_over(&self) -> bool {
        true
    }
}

/// Whether a queue of this says that it takes over all that another one knows.
pub fn takes_over(registry: &Registry, spec: &DisciplineSpec) -> bool {
    let kind = registry.find(&spec.kind);
    kind.is_some_and(|kind| kind.properties.takes_over)
        && spec
            .child
            .as_deref()
            .is_none_or(|child| takes_over(registry, child))
}

/// Whether a tree of this says that its classes keep their turns, and their queues all that they
/// know. Left out are queues that do not only order or refuse what arrives: the next packet of one
/// of those is judged again; and what is not kept exactly: the order of turns of `cbq`, the polls
/// of `wrr`.
pub fn keeps_turns(registry: &Registry, spec: &DisciplineSpec) -> bool {
    // One that drops its oldest may drop all, and keeps its turn for what comes.
    let is_plain = |queue: &DisciplineSpec| queue.kind == "fifo" && queue.settings.get("drop").is_none();
    let kind = registry.find(&spec.kind);
    let is_exact = spec.kind != "cbq" && spec.settings.get("mode").is_none();
    kind.is_some_and(|kind| kind.properties.keeps_turns)
        && is_exact
        && spec
            .classes
            .iter()
            .all(|class| class.discipline.as_ref().is_none_or(is_plain))
}

/// Another queue of the plan takes over in portions, as packets are moved while others pass.
fn hand_over(side: &mut Side, subject: &Subject, now: Instant, seed: Seed) {
    let queue = subject.queue.build(&Build::new(seed));
    let mut former = side.queue.renew(queue);
    let heir = side.queue.queue_mut().discipline_mut();
    heir.take_over(now, former.discipline_mut());
    for class in (0..subject.classes).map(ClassId) {
        side.queue.take_over(now, former.discipline_mut(), (class, class));
    }
    let mut handed = Handed::default();
    loop {
        let mut portion = Portion::of(7, 5);
        former.flush(&mut portion, &mut handed);
        if !portion.is_spent() {
            break;
        }
    }
    assert!(former.is_empty());
    for packet in handed.0 {
        assert!(packet.handed_on);
        let _ = side.queue.enqueue(now, packet, &mut side.seen);
    }
}

/// Runs both through so many bursts. The error says what differed.
pub fn compare(subject: &Subject, seed: Seed, bursts: u32) -> Result<(), String> {
    let mut rng = seed.fork("taking over").stream();
    let [mut stays, mut changes] = [(); 2].map(|()| Side::new(subject, seed.fork("queue"), None));
    let (mut now, mut due, mut id) = (Instant::START, None, 0);
    for number in 0..bursts {
        for _ in 0..rng.below(40) {
            now = now + Duration::from_nanos(rng.below(2) * rng.below(20_000));
            let seed = rng.bits();
            for side in [&mut stays, &mut changes] {
                let packet = packet(&mut Seed(seed).stream(), id, now, subject.classes);
                let _ = side.queue.enqueue(now, packet, &mut side.seen);
            }
            id += 1;
        }
        now = now + pause(&mut rng, now, due);
        if rng.below(3) == 0 {
            hand_over(&mut changes, subject, now, seed.fork(&number.to_string()));
        }
        let wanted = 1 + rng.below(40);
        let [one, other] = [&mut stays, &mut changes].map(|side| side.send_one_by_one(now, wanted));
        let [seen, found] = [&stays, &changes].map(|side| &side.seen.events);
        let pairs = seen.iter().zip(found);
        let same = pairs.take_while(|(one, other)| one == other).count();
        if one != other || seen.len() > same || found.len() > same {
            return Err(format!(
                "after burst {number} at {now} one that took over: {:?}, {other:?}; one that went on: {:?}, {one:?}",
                found.get(same),
                seen.get(same)
            ));
        }
        due = match one {
            Next::Wait(until) => Some(until),
            _ => None,
        };
    }
    Ok(())
}
