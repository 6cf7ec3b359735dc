//! The coupling and the ramp by numbers; the rest with senders that answer marks and losses.

use super::*;
use crate::packet::ClassId;
use crate::random::Seed;
use crate::settings::Table;
use crate::units::Bandwidth;

/// A packet of 1,000 bytes takes 0.1 ms.
const LINK: Link = Link {
    bandwidth: Bandwidth::mbit(80),
    mtu: Bytes::new(1000),
};

#[derive(Default)]
struct Lost(Vec<(u32, Reason)>);

impl Sink for Lost {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.0.push((packet.flow.full, why));
    }
}

fn dual(table: Table) -> Dual {
    let settings = Settings::read(&table, &[], &mut Vec::new()).expect("good settings");
    let plan = DualPlan::new(&settings, LINK).expect("good settings");
    Dual::new(plan, Seed(8).stream())
}

fn packet(now: Instant, flow: u32, ecn: Ecn) -> Packet {
    let mut packet = Packet::new(Bytes::new(1000), now, ClassId(0));
    (packet.ecn, packet.flow.full) = (ecn, flow);
    packet
}

fn slot(n: u64) -> Instant {
    Instant::from_nanos(n * 100_000)
}

/// The share of packets that are hit at a standing p', nothing waiting long.
fn hits(chance: u64, ecn: Ecn) -> f64 {
    let (mut dual, mut lost, n) = (dual(Table::default()), Lost::default(), 100_000u64);
    for _ in 0..n {
        dual.chance = chance;
        while dual.low.packets.len() + dual.classic.packets.len() < 10 {
            let _ = dual.enqueue(slot(0), packet(slot(0), 0, ecn), &mut lost);
        }
        let _ = dual.dequeue(slot(0), &mut lost);
    }
    let lost = dual.lost.iter().sum::<u64>();
    (dual.marks.iter().sum::<u64>() + lost) as f64 / (n + lost) as f64
}

#[test]
fn the_chances_are_coupled_as_the_square_of_the_kth_part() {
    for p in [0.02, 0.1, 0.2, 0.3, 0.45] {
        let chance = (p * ONE as f64) as u64;
        let mut one = dual(Table::default());
        one.chance = chance;
        let (classic, coupled) = (square(chance) as f64 / ONE as f64, one.coupled() as f64 / ONE as f64);
        assert!((classic - (coupled / 2.0).powi(2)).abs() < 1e-12);
        // And so are the hits: L's evenly spread, C's by chance.
        assert!((hits(chance, Ecn::Ect1) - 2.0 * p).abs() < 1e-4);
        for ecn in [Ecn::Ect0, Ecn::NotEct] {
            let found = hits(chance, ecn);
            assert!((found - p * p).abs() < 0.03 * p + 0.0005, "{ecn:?} at {p}: {found}");
        }
    }
}

#[test]
fn packets_are_told_apart_by_their_ecn_field() {
    let (mut dual, mut lost) = (dual(Table::default()), Lost::default());
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        let _ = dual.enqueue(slot(0), packet(slot(0), 0, ecn), &mut lost);
    }
    assert_eq!((dual.low.packets.len(), dual.classic.packets.len()), (2, 2));
    let _ = dual.dequeue(slot(0), &mut lost);
    assert_eq!(dual.low.packets.len(), 1, "L goes first");
}

#[test]
fn the_native_chance_is_a_ramp_and_without_one_a_step() {
    let plan = dual(Table::default()).plan;
    let at = |plan: &DualPlan, us: u64| plan.native(Duration::from_micros(us)) as f64 / ONE as f64;
    assert_eq!([0, 800, 900, 1_000, 1_200, 9_999].map(|us| at(&plan, us)), [0.0, 0.0, 0.25, 0.5, 1.0, 1.0]);
    let step = dual(Table::default().text("ramp", "0 s").text("step", "1 ms")).plan;
    assert_eq!([999, 1_000, 1_001].map(|us| at(&step, us)), [0.0, 0.0, 1.0]);
}

#[test]
fn the_controller_follows_its_law() {
    let plan = dual(Table::default()).plan;
    for (delay, former) in [(0, 0), (15, 15), (30, 15), (10, 40), (200, 0)] {
        let found = plan.change(Duration::from_millis(delay), Duration::from_millis(former)) as f64 / ONE as f64;
        // α = 0.1 · 16 ms / (100 ms)² = 0.16 Hz and β = 0.3 / 100 ms = 3 Hz.
        let (delay, former) = (delay as f64 / 1e3, former as f64 / 1e3);
        let expected = 0.16 * (delay - 0.015) + 3.0 * (delay - former);
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
}

#[test]
fn updates_made_late_are_those_a_timer_would_have_made() {
    let run = |step: usize| {
        let (mut dual, mut lost) = (dual(Table::default()), Lost::default());
        for _ in 0..3 {
            let _ = dual.enqueue(slot(0), packet(slot(0), 0, Ecn::NotEct), &mut lost);
        }
        (0..=3_000).step_by(step).for_each(|at| dual.catch_up(slot(at)));
        dual.flush(&mut lost);
        (3_000..=6_000).step_by(step).for_each(|at| dual.catch_up(slot(at)));
        (dual.chance, dual.delay, dual.next_update)
    };
    assert_eq!(run(1), run(3_000));
    assert!(run(1).0 > 0);
}

/// A sender that keeps a window in flight over a round trip of 20 ms and the queue.
struct Sender {
    ecn: Ecn,
    window: f64,
    in_flight: f64,
    /// Answers to a loss or mark once in a round trip.
    deaf_until: u64,
    /// L4S: the moving share of marks, and when it was last used.
    share: f64,
    marked: f64,
    answered: f64,
}

impl Sender {
    fn new(ecn: Ecn) -> Self {
        Self { ecn, window: 10.0, in_flight: 0.0, deaf_until: 0, share: 0.0, marked: 0.0, answered: 0.0 }
    }

    /// An answer comes back: Reno for classic senders, DCTCP for L4S ones.
    fn hear(&mut self, now: u64, hit: bool) {
        self.in_flight -= 1.0;
        self.window += 1.0 / self.window;
        self.answered += 1.0;
        self.marked += f64::from(u8::from(hit));
        if self.ecn != Ecn::Ect1 {
            if hit && now >= self.deaf_until {
                (self.window, self.deaf_until) = (self.window / 2.0, now + 350);
            }
        } else if now >= self.deaf_until {
            self.share += (self.marked / self.answered - self.share) / 16.0;
            if self.marked > 0.0 {
                self.window *= 1.0 - self.share / 2.0;
            }
            (self.marked, self.answered, self.deaf_until) = (0.0, 0.0, now + 200);
        }
        self.window = self.window.max(2.0);
    }
}

/// What senders got: the mean wait in ms of each kind, classic and L4S, and each sender's packets.
fn run(table: Table, senders: &mut [Sender]) -> ([f64; 2], Vec<u64>) {
    let mut dual = dual(table);
    let mut answers: VecDeque<(u64, usize, bool)> = VecDeque::new();
    let (mut waits, mut sent) = ([(0.0, 0u32); 2], vec![0; senders.len()]);
    let (warm, end) = (100_000, 400_000);
    for at in 0..end {
        while let Some((_, sender, hit)) = answers.pop_front_if(|(due, ..)| *due <= at) {
            senders[sender].hear(at, hit);
        }
        let mut lost = Lost::default();
        for (i, sender) in senders.iter_mut().enumerate() {
            // At most four at once, as paced senders.
            for _ in 0..4 {
                if sender.in_flight + 1.0 <= sender.window {
                    sender.in_flight += 1.0;
                    let _ = dual.enqueue(slot(at), packet(slot(at), i as u32, sender.ecn), &mut lost);
                }
            }
        }
        if let Next::Ready(packet) = dual.dequeue(slot(at), &mut lost) {
            let sender = packet.flow.full as usize;
            let kind = usize::from(senders[sender].ecn == Ecn::Ect1);
            answers.push_back((at + 200, sender, packet.ecn == Ecn::Ce));
            if at >= warm {
                waits[kind].0 += slot(at).since(packet.arrived).nanos() as f64 / 1e6;
                waits[kind].1 += 1;
                sent[sender] += 1;
            }
        }
        answers.extend(lost.0.iter().map(|&(sender, _)| (at + 200, sender as usize, true)));
    }
    (waits.map(|(sum, n)| sum / f64::from(n.max(1))), sent)
}

#[test]
fn the_delay_of_classic_senders_comes_to_the_target() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let mut senders: Vec<_> = (0..10).map(|_| Sender::new(ecn)).collect();
        let ([classic, _], sent) = run(Table::default(), &mut senders);
        assert!((11.0..19.0).contains(&classic), "{ecn:?}: {classic} ms");
        assert!(sent.iter().sum::<u64>() > 290_000, "the link is used");
    }
}

#[test]
fn the_l4s_queue_stays_short_beside_a_classic_one_and_both_get_like_rates() {
    for schedule in ["wrr", "time-shift"] {
        let kinds = [Ecn::NotEct, Ecn::Ect1].into_iter().cycle().take(8);
        let mut senders: Vec<_> = kinds.map(Sender::new).collect();
        let ([classic, low], sent) = run(Table::default().text("schedule", schedule), &mut senders);
        assert!(low < 1.5 && (10.0..22.0).contains(&classic), "{schedule}: {low} ms and {classic} ms");
        let of = |kind: usize| sent.iter().skip(kind).step_by(2).sum::<u64>() as f64;
        let ratio = of(1) / of(0);
        assert!((0.4..2.5).contains(&ratio), "{schedule}: L4S gets {ratio} of classic, {sent:?}");
    }
}

/// Two packets for every one that the link can send, of senders that never yield; what is held in the end, and losses.
fn overload(ecns: [Ecn; 2]) -> (Dual, Vec<u32>) {
    let (mut dual, mut lost) = (dual(Table::default()), Lost::default());
    for at in 0..200_000 {
        for (flow, ecn) in (0..).zip(ecns) {
            let _ = dual.enqueue(slot(at), packet(slot(at), flow, ecn), &mut lost);
        }
        let _ = dual.dequeue(slot(at), &mut lost);
    }
    let losses = [0, 1].map(|flow| lost.0.iter().filter(|&&l| l == (flow, Reason::Early)).count() as u32);
    (dual, losses.to_vec())
}

#[test]
fn in_an_overload_both_queues_lose_packets_and_stay_near_the_target() {
    for ecns in [[Ecn::Ect1; 2], [Ecn::Ect0; 2], [Ecn::NotEct; 2]] {
        let (dual, losses) = overload(ecns);
        assert_eq!(dual.coupled(), ONE, "{ecns:?}");
        // 20 s of twice the link: half is lost, and by chance, not by the limit.
        assert!(losses.iter().all(|&n| (90_000..105_000).contains(&n)), "{ecns:?}: {losses:?}");
        assert!(dual.delay < Duration::from_millis(25), "{ecns:?}: {:?}", dual.delay);
    }
}

#[test]
fn classic_packets_get_their_share_beside_l4s_senders_that_never_yield() {
    let (mut dual, mut lost, mut classic) = (dual(Table::default()), Lost::default(), 0);
    for at in 0..2_000 {
        // Both queues wait all the time.
        dual.chance = 0;
        let _ = dual.enqueue(slot(at), packet(slot(at), 0, Ecn::Ect1), &mut lost);
        let _ = dual.enqueue(slot(at), packet(slot(at), 1, Ecn::NotEct), &mut lost);
        if let Next::Ready(packet) = dual.dequeue(slot(at), &mut lost) {
            classic += packet.flow.full;
        }
    }
    assert!((195..=200).contains(&classic), "{classic} of 2,000 for a share of 10 %");
}
