//! What `cake` guarantees: shares by host and by flow, an exact rate without bursts, thresholds of
//! tins, little flows first, and queues that stay short whoever fills them.

use engine::discipline::{Next, Reason, Sink};
use engine::inspect::{Inspection, Value, View};
use engine::link::Link;
use engine::packet::{ClassId, Dscp, Ecn, FlowHashes, Packet};
use engine::queue::Queue;
use engine::random::{Rng, Seed};
use engine::settings::{Raw, Table};
use engine::tree::{DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::collections::HashMap;

const LINK: Link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));
const L: u64 = 1_514;

/// Counts what is dropped and marked.
#[derive(Default)]
struct Drops {
    reasons: HashMap<Reason, u64>,
    marks: u64,
}

impl Sink for Drops {
    fn drop(&mut self, _packet: Packet, why: Reason) {
        *self.reasons.entry(why).or_default() += 1;
    }
    fn mark(&mut self, _packet: &Packet, _why: Reason) {
        self.marks += 1;
    }
}

/// A sender: its flow, its marks, and how long its packets are.
#[derive(Clone, Copy)]
struct Sender {
    flow: FlowHashes,
    dscp: u8,
    ecn: Ecn,
    len: (u64, u64),
}

impl Sender {
    fn new(source: u32, destination: u32, port: u32) -> Self {
        let full = source << 20 | destination << 10 | port;
        Self {
            flow: FlowHashes {
                source,
                destination,
                full,
            },
            dscp: 0,
            ecn: Ecn::NotEct,
            len: (64, L),
        }
    }

    fn packet(&self, rng: &mut Rng, now: Instant) -> Packet {
        let (from, to) = self.len;
        let len = Bytes::new(from + rng.below(to - from + 1));
        Packet {
            flow: self.flow,
            dscp: Dscp::arrived(self.dscp),
            ecn: self.ecn,
            ..Packet::new(len, now, ClassId(0))
        }
    }
}

/// A queue of `cake` with senders.
struct Rig {
    queue: Queue,
    dropped: Drops,
    rng: Rng,
    now: Instant,
    senders: Vec<Sender>,
    /// Bytes sent, by sender.
    sent: Vec<u64>,
}

impl Rig {
    fn new(settings: Table, senders: Vec<Sender>) -> Self {
        let spec = DisciplineSpec {
            settings,
            ..DisciplineSpec::new("cake")
        };
        let plan = spec.check(&Registry::builtin(), LINK).expect("good settings");
        Self {
            queue: plan.build(Seed(5)),
            dropped: Drops::default(),
            rng: Seed(6).stream(),
            now: Instant::START + Duration::from_secs(1),
            sent: vec![0; senders.len()],
            senders,
        }
    }

    fn put(&mut self, sender: usize) {
        let packet = self.senders[sender].packet(&mut self.rng, self.now);
        let _ = self.queue.enqueue(self.now, packet, &mut self.dropped);
    }

    /// Each has this many packets queued.
    fn fill(mut self, packets: usize) -> Self {
        for _ in 0..packets {
            (0..self.senders.len()).for_each(|sender| self.put(sender));
        }
        self
    }

    /// The next packet, when it may leave; its sender.
    fn next(&mut self) -> (usize, Packet) {
        loop {
            match self.queue.dequeue(self.now, &mut self.dropped) {
                Next::Ready(packet) => {
                    let of = |sender: &Sender| sender.flow.full == packet.flow.full;
                    let sender = self.senders.iter().position(of).expect("a sender");
                    self.sent[sender] += packet.len.get();
                    return (sender, packet);
                }
                Next::Wait(at) => self.now = at,
                Next::Empty => panic!("nothing waits"),
            }
        }
    }

    /// One packet leaves, and its sender has another.
    fn step(&mut self) -> (usize, Packet) {
        let (sender, packet) = self.next();
        self.put(sender);
        (sender, packet)
    }

    /// What these sent.
    fn sum(&self, of: impl Fn(&Sender) -> bool) -> u64 {
        let all = self.senders.iter().zip(&self.sent);
        all.filter(|(sender, _)| of(sender)).map(|(_, sent)| sent).sum()
    }

    fn gauge(&self, name: &str) -> Value {
        let mut views: Vec<View> = Vec::new();
        self.queue.inspect(&mut Inspection::new(&mut views));
        let found = views[0].gauges.iter().find(|(other, _)| *other == name);
        found.expect("the gauge").1
    }
}

/// One tin, fair in this way, without a rate, and a CoDel law that never drops.
fn plain(fair: &str) -> Table {
    Table::default()
        .text("rate", "unlimited")
        .text("fair", fair)
        .text("tins", "besteffort")
        .text("target", "3 s")
        .text("interval", "4 s")
        .text("limit_bytes", "100 MB")
}

/// What these groups sent, in per cent.
fn shares(rig: &Rig, groups: &[fn(&Sender) -> bool]) -> Vec<u64> {
    let all: u64 = rig.sent.iter().sum();
    let percent = |of: &fn(&Sender) -> bool| (rig.sum(of) * 100 + all / 2) / all;
    groups.iter().map(percent).collect()
}

#[test]
fn a_host_with_32_flows_gets_what_a_host_with_one_gets_to_33_packets_of_any_lengths() {
    for (seed, lens) in [(64, L), (1_514, 1_514), (64, 64), (900, 1_000)]
        .into_iter()
        .enumerate()
    {
        for fair in ["triple", "dual-srchost"] {
            let mut many: Vec<Sender> = (0..32).map(|port| Sender::new(1, port, port)).collect();
            many.push(Sender::new(2, 99, 99));
            many.iter_mut().for_each(|sender| sender.len = lens);
            // The single flow's lengths differ from the others'.
            many[32].len = if seed == 0 { (1_514, 1_514) } else { (64, 1_514) };
            let mut rig = Rig::new(plain(fair), many).fill(3);
            // All have become bulk flows.
            (0..200).for_each(|_| drop(rig.step()));
            rig.sent.fill(0);
            for _ in 0..40_000 {
                let _ = rig.step();
                let (one, other) = (rig.sum(|s| s.flow.source == 1), rig.sum(|s| s.flow.source == 2));
                assert!(one.abs_diff(other) <= 33 * L, "{fair}: {one} and {other} B");
            }
            let within = |a: u64, b: u64| a.abs_diff(b) <= 2 * L;
            assert!(
                (0..32).all(|flow| within(rig.sent[flow], rig.sent[0])),
                "flows of one host: {:?}",
                rig.sent
            );
        }
    }
}

#[test]
fn triple_isolation_counts_the_host_with_more_flows_on_either_side() {
    let mut all: Vec<Sender> = (0..8).map(|port| Sender::new(1, 11, port)).collect();
    all.push(Sender::new(2, 12, 0));
    all.extend((0..4).map(|host| Sender::new(21 + host, 13, 0)));
    let mut rig = Rig::new(plain("triple"), all).fill(3);
    (0..60_000).for_each(|_| drop(rig.step()));
    let groups: &[fn(&Sender) -> bool] = &[
        |s| s.flow.destination == 11,
        |s| s.flow.destination == 12,
        |s| s.flow.destination == 13,
    ];
    assert_eq!(shares(&rig, groups), [33, 33, 33]);
}

#[test]
fn each_way_is_fair_among_what_it_names() {
    let groups: &[fn(&Sender) -> bool] = &[
        |s| s.flow.source == 1 && s.flow.destination == 11,
        |s| s.flow.source == 1 && s.flow.destination == 12,
        |s| s.flow.source == 2 && s.flow.destination == 11,
    ];
    let expected = [
        ("flows", [60, 20, 20]),
        ("hosts", [33, 33, 33]),
        ("dual-srchost", [38, 13, 50]),
        ("dual-dsthost", [38, 50, 13]),
        // One host has four of the flows on each side, so all are equal.
        ("triple", [60, 20, 20]),
    ];
    let senders = || {
        let mut all: Vec<Sender> = (0..3).map(|port| Sender::new(1, 11, port)).collect();
        all.extend([Sender::new(1, 12, 7), Sender::new(2, 11, 8)]);
        all
    };
    for (fair, parts) in expected {
        let mut rig = Rig::new(plain(fair), senders()).fill(5);
        (0..60_000).for_each(|_| drop(rig.step()));
        let found = shares(&rig, groups);
        assert!(
            found.iter().zip(parts).all(|(a, b)| a.abs_diff(b) <= 1),
            "{fair}: {found:?}, not {parts:?}"
        );
    }
    for (fair, one) in [("srchost", groups[2]), ("dsthost", groups[1])] {
        let mut rig = Rig::new(plain(fair), senders()).fill(5);
        (0..60_000).for_each(|_| drop(rig.step()));
        assert_eq!(shares(&rig, &[one]), [50], "{fair}");
    }
}

#[test]
fn the_rate_is_exact_over_a_long_time_and_there_is_never_a_burst() {
    let rate = Bandwidth::bits_per_sec(7_777_777);
    let mut rig = Rig::new(
        plain("triple").text("rate", "7777777 bit/s"),
        vec![Sender::new(1, 2, 3)],
    )
    .fill(3);
    let start = rig.now;
    let (mut bytes, mut last) = (0, None);
    for round in 0..100_000 {
        let (_, packet) = rig.step();
        if let Some((at, len)) = last {
            let apart = rig.now.since(at);
            let least = rate.time_to_send(len).nanos() - 1;
            assert!(apart.nanos() >= least, "{len} and the next are {apart} apart");
        }
        last = Some((rig.now, packet.len));
        bytes += packet.len.get();
        if round == 50_000 {
            // A long pause saves nothing.
            let all = rate.time_to_send(Bytes::new(bytes - packet.len.get()));
            assert!(
                rig.now.since(start).nanos().abs_diff(all.nanos()) <= 1,
                "exact so far"
            );
            (0..3).for_each(|_| drop(rig.next()));
            let before = rig.now;
            rig.now = rig.now + Duration::from_secs(100);
            rig = rig.fill(3);
            last = None;
            assert!(rig.now.since(before) == Duration::from_secs(100));
        }
    }
}

#[test]
fn a_host_that_is_late_catches_up_by_5_ms_and_not_more() {
    let settings = || plain("triple").text("rate", "8 Mbit/s");
    for (every, least, most) in [(4, 996_000, 1_001_000), (10, 495_000, 601_000)] {
        let mut sender = Sender::new(1, 2, 3);
        sender.len = (1_000, 1_000);
        let mut rig = Rig::new(settings(), vec![sender]).fill(20);
        let start = rig.now;
        while rig.now < start + Duration::from_secs(1) {
            while let Next::Ready(packet) = rig.queue.dequeue(rig.now, &mut rig.dropped) {
                rig.sent[0] += packet.len.get();
                rig.put(0);
            }
            rig.now = rig.now + Duration::from_millis(every);
        }
        assert!(
            (least..=most).contains(&rig.sent[0]),
            "every {every} ms: {} B",
            rig.sent[0]
        );
    }
}

/// Senders of best effort, bulk, video and voice.
fn tins() -> Vec<Sender> {
    [0, 8, 34, 46]
        .map(|dscp| Sender {
            dscp,
            ..Sender::new(1, 2, dscp.into())
        })
        .to_vec()
}

#[test]
fn a_tin_goes_first_up_to_its_threshold_and_has_what_is_left_above_it() {
    let settings = |tins: &str| plain("triple").text("rate", "16 Mbit/s").text("tins", tins);
    // Percentages of best effort, bulk, video and voice, of those that send.
    let cases: [(&str, &[usize], [u64; 4]); 5] = [
        ("diffserv4", &[0, 1, 2, 3], [19, 6, 50, 25]),
        ("diffserv4", &[0, 3], [75, 0, 0, 25]),
        ("diffserv4", &[0, 1], [94, 6, 0, 0]),
        ("diffserv4", &[3], [0, 0, 0, 100]),
        ("diffserv3", &[0, 1, 3], [69, 6, 0, 25]),
    ];
    for (kind, busy, expected) in cases {
        let mut rig = Rig::new(settings(kind), tins());
        for _ in 0..3 {
            busy.iter().for_each(|&sender| rig.put(sender));
        }
        (0..60_000).for_each(|_| drop(rig.step()));
        let all: u64 = rig.sent.iter().sum();
        let found: Vec<u64> = rig.sent.iter().map(|sent| (sent * 100 + all / 2) / all).collect();
        assert!(
            found.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 1),
            "{kind} {busy:?}: {found:?}"
        );
    }
}

#[test]
fn what_a_tin_took_of_an_idle_link_is_not_held_against_it() {
    let mut rig = Rig::new(
        plain("triple")
            .text("rate", "16 Mbit/s")
            .text("tins", "diffserv4"),
        tins(),
    );
    (0..3).for_each(|_| rig.put(3));
    // Voice has the link for itself for a while: four times its threshold.
    (0..20_000).for_each(|_| drop(rig.step()));
    (0..3).for_each(|_| rig.put(0));
    rig.sent.fill(0);
    (0..200).for_each(|_| drop(rig.step()));
    let part = rig.sent[3] * 100 / (rig.sent[0] + rig.sent[3]);
    assert!((23..=28).contains(&part), "{part} %");
}

#[test]
fn without_a_rate_tins_take_turns_in_proportion_to_their_thresholds() {
    let mut rig = Rig::new(plain("triple").text("tins", "diffserv4"), tins()).fill(3);
    (0..100_000).for_each(|_| drop(rig.step()));
    let part = rig.sent.iter().sum::<u64>() / 29;
    let parts: Vec<u64> = rig.sent.iter().map(|sent| (sent + part / 2) / part).collect();
    assert_eq!(parts, [16, 1, 8, 4]);
}

#[test]
fn a_packet_of_a_little_flow_waits_for_one_other_packet_only() {
    let mut all: Vec<Sender> = (0..100).map(|port| Sender::new(1 + port % 7, 9, port)).collect();
    all.iter_mut().for_each(|sender| sender.len = (L, L));
    all.push(Sender {
        len: (200, 200),
        ..Sender::new(50, 60, 0)
    });
    let rate = Bandwidth::mbit(10);
    let mut rig = Rig::new(plain("triple").text("rate", "10 Mbit/s"), all);
    for _ in 0..3 {
        (0..100).for_each(|sender| rig.put(sender));
    }
    (0..500).for_each(|_| drop(rig.step()));
    let longest = rate.time_to_send(Bytes::new(L));
    for _ in 0..200 {
        // Every 20 ms, in the middle of a packet.
        rig.put(100);
        let due = rig.now + longest;
        let (sender, _) = rig.next();
        assert_eq!(sender, 100);
        assert!(rig.now <= due, "left at {}, not by {due}", rig.now);
        let until = rig.now + Duration::from_millis(20);
        while rig.now < until {
            let _ = rig.step();
        }
    }
}

#[test]
fn a_flow_that_pauses_to_seem_little_gets_its_share_and_a_quantum_at_most() {
    let all: Vec<Sender> = (0..10)
        .map(|port| Sender {
            len: (L, L),
            ..Sender::new(port, 20 + port, port)
        })
        .collect();
    let mut rig = Rig::new(plain("triple"), all);
    for _ in 0..3 {
        (1..10).for_each(|sender| rig.put(sender));
    }
    (0..100).for_each(|_| drop(rig.step()));
    rig.sent.fill(0);
    // Flow 0 has one packet at a time, and the next as soon as that is gone.
    rig.put(0);
    (0..20_000).for_each(|_| drop(rig.step()));
    let others = rig.sent[1..].iter().min().expect("nine");
    assert!(
        rig.sent[0] <= others + 4 * L,
        "{} B, others {others}",
        rig.sent[0]
    );
    assert!(rig.sent[0] + 4 * L >= *others, "nor less");
}

#[test]
fn a_flow_that_does_not_listen_soon_stops_overflowing_and_its_queue_is_drained() {
    let settings = Table::default()
        .text("rate", "8 Mbit/s")
        .text("limit_bytes", "100 kB");
    let mut sender = Sender::new(1, 2, 3);
    sender.len = (1_000, 1_000);
    let mut rig = Rig::new(settings, vec![sender]);
    let full = |rig: &Rig| rig.dropped.reasons.get(&Reason::Longest).copied().unwrap_or(0);
    let (mut overflow, mut waited) = (Vec::new(), Duration::ZERO);
    for second in 0..10 {
        let before = full(&rig);
        // 12 Mbit/s for a rate of 8, whatever is dropped: three arrive for each two that may leave.
        for packet in 0..1_500 {
            rig.now = Instant::START + Duration::from_secs(10 + second) + Duration::from_micros(packet * 667);
            rig.put(0);
            while let Next::Ready(packet) = rig.queue.dequeue(rig.now, &mut rig.dropped) {
                rig.sent[0] += packet.len.get();
                waited = rig.now.since(packet.arrived);
            }
        }
        overflow.push(full(&rig) - before);
    }
    assert!(overflow[0] > 0, "it begins with overflow: {overflow:?}");
    let later: u64 = overflow[5..].iter().sum();
    assert!(later < 25, "of 7,500 packets: {overflow:?}");
    assert!(
        waited < Duration::from_millis(20),
        "the last packet waited for {waited}"
    );
    assert!(
        rig.dropped.reasons[&Reason::Early] > 500,
        "{:?}",
        rig.dropped.reasons
    );
    assert!(rig.sent[0] >= 9_700_000, "the link stays busy: {} B", rig.sent[0]);
}

#[test]
fn codel_marks_flows_that_listen_and_drops_no_little_flow() {
    let mut all = vec![
        Sender {
            ecn: Ecn::Ect0,
            ..Sender::new(1, 2, 3)
        },
        Sender::new(4, 5, 6),
    ];
    all[1].len = (100, 100);
    let mut rig = Rig::new(Table::default().text("rate", "10 Mbit/s"), all);
    (0..60).for_each(|_| rig.put(0));
    for round in 0..4_000 {
        if rig.next().0 == 0 {
            rig.put(0);
        }
        if round % 10 == 0 {
            rig.put(1);
        }
    }
    assert!(rig.dropped.marks > 50, "{} marks", rig.dropped.marks);
    assert_eq!(rig.dropped.reasons, HashMap::new());
}

#[test]
fn no_two_flows_share_a_queue_while_there_are_as_many_queues() {
    let flows = |n: u32| {
        (0..n)
            .map(|port| Sender::new(port % 16, port % 9, port))
            .collect()
    };
    let mut rig = Rig::new(plain("triple").with("flows", Raw::Integer(1_000)), flows(1_000)).fill(3);
    (0..10_000).for_each(|_| drop(rig.step()));
    assert_eq!(rig.gauge("shared"), Value::Count(0));
    let mut rig = Rig::new(plain("triple").with("flows", Raw::Integer(100)), flows(300)).fill(1);
    assert_eq!(rig.gauge("shared"), Value::Count(200));
    (0..300).for_each(|_| drop(rig.next()));
    assert!(rig.queue.is_empty() && rig.sent.iter().all(|sent| *sent > 0));
}

#[test]
fn a_full_cake_takes_from_the_longest_queue_and_leaves_the_others_alone() {
    let all = vec![
        Sender {
            len: (L, L),
            ..Sender::new(1, 2, 3)
        },
        Sender {
            len: (500, 500),
            ..Sender::new(4, 5, 6)
        },
    ];
    let mut rig = Rig::new(plain("triple").text("limit_bytes", "20 kB"), all);
    (0..5).for_each(|_| rig.put(1));
    (0..100).for_each(|_| rig.put(0));
    assert_eq!(
        rig.dropped.reasons,
        HashMap::from([(Reason::Longest, 100 - (20_000 - 2_500) / L)])
    );
    while !rig.queue.is_empty() {
        let _ = rig.next();
    }
    assert_eq!(rig.sent[1], 2_500);
}

/// Bytes that are sent, and those that are not, of this many milliseconds in which a sender offers
/// `percent` of 8 Mbit/s.
fn offer(rig: &mut Rig, sender: usize, millis: u64, percent: u64) -> (u64, u64) {
    let start = rig.now;
    let (mut offered, mut sent) = (0, 0);
    for packet in 0..millis * percent / 100 {
        rig.now = start + Duration::from_micros(packet * 100_000 / percent);
        offered += 1_000;
        rig.put(sender);
        while let Next::Ready(packet) = rig.queue.dequeue(rig.now, &mut rig.dropped) {
            sent += packet.len.get();
        }
    }
    (sent, offered - sent)
}

/// `cake` at 8 Mbit/s, and two senders of packets of 1,000 B: one in each millisecond.
fn at_8_mbit(ingress: bool) -> Rig {
    let mut senders = vec![Sender::new(1, 2, 3), Sender::new(4, 5, 6)];
    senders.iter_mut().for_each(|sender| sender.len = (1_000, 1_000));
    let settings = Table::default()
        .text("rate", "8 Mbit/s")
        .text("limit_bytes", "100 kB")
        .with("ingress", Raw::Boolean(ingress));
    Rig::new(settings, senders)
}

#[test]
fn what_is_dropped_of_what_has_arrived_counts_and_two_thirds_of_the_rate_leave_at_least() {
    for percent in [104, 110, 150, 1_000] {
        let (sent, _) = offer(&mut at_8_mbit(false), 0, 20_000, percent);
        assert!(sent >= 19_950_000, "{percent} %: {sent} B without");
        let (sent, _) = offer(&mut at_8_mbit(true), 0, 20_000, percent);
        let (least, most) = (20_000_000 * 2 / 3, 20_000_000 * 85 / 100);
        assert!((least - 5_000..most).contains(&sent), "{percent} %: {sent} B");
    }
}

#[test]
fn what_leaves_and_what_is_dropped_are_the_rate_together() {
    // 900 packets in 810 ms, of which CoDel drops some; then nothing arrives.
    for ingress in [false, true] {
        let mut rig = at_8_mbit(ingress);
        let start = rig.now;
        for packet in 0..900 {
            rig.now = start + Duration::from_micros(packet * 900);
            rig.put(0);
            while let Next::Ready(packet) = rig.queue.dequeue(rig.now, &mut rig.dropped) {
                rig.sent[0] += packet.len.get();
            }
        }
        while !rig.queue.is_empty() {
            let _ = rig.next();
        }
        let took = rig.now.since(start).nanos() / 1_000_000;
        let drops: u64 = rig.dropped.reasons.values().sum();
        let sent = rig.sent[0] / 1_000;
        assert_eq!(sent + drops, 900);
        assert!((5..90).contains(&drops), "{drops}");
        let charged = if ingress { 900 } else { sent };
        assert!(took.abs_diff(charged) <= 4, "{ingress}: {took} ms for {charged}");
    }
}

#[test]
fn a_flood_that_has_ended_is_not_held_against_others_for_longer_than_an_interval() {
    let mut rig = at_8_mbit(true);
    offer(&mut rig, 0, 60_000, 200);
    while !rig.queue.is_empty() {
        let _ = rig.next();
    }
    // 100 ms later another sender has all of the rate.
    rig.now = rig.now + Duration::from_millis(100);
    rig.dropped = Drops::default();
    let (sent, kept) = offer(&mut rig, 1, 1_000, 100);
    assert!(kept <= 1_000, "{sent} B of a second's");
    assert_eq!(rig.dropped.reasons, HashMap::new());
}

#[test]
fn a_flow_is_charged_for_what_is_dropped_of_it() {
    // Two hosts with a flow each, of which one does not listen: with `ingress` what is dropped of
    // it is taken from its own half.
    let share = |ingress| {
        let mut all = vec![Sender::new(1, 2, 3), Sender::new(4, 5, 6)];
        all.iter_mut().for_each(|sender| sender.len = (1_000, 1_000));
        all[1].ecn = Ecn::Ect0;
        let settings = Table::default()
            .text("rate", "8 Mbit/s")
            .with("ingress", Raw::Boolean(ingress));
        let mut rig = Rig::new(settings, all).fill(5);
        let start = rig.now;
        for packet in 0..20_000 {
            rig.now = start + Duration::from_micros(packet * 1_000);
            rig.put(0);
            while let Next::Ready(packet) = rig.queue.dequeue(rig.now, &mut rig.dropped) {
                let sender = usize::from(packet.flow.full == rig.senders[1].flow.full);
                rig.sent[sender] += packet.len.get();
                // The other one always has five packets.
                if sender == 1 {
                    rig.put(1);
                }
            }
        }
        rig.sent[0] * 100 / (rig.sent[0] + rig.sent[1])
    };
    let (without, with) = (share(false), share(true));
    assert!((47..=53).contains(&without), "{without} %");
    assert!(with + 8 < without, "{with} % instead of {without}");
}

#[test]
fn to_count_drops_takes_a_rate_to_count_them_against() {
    let spec = DisciplineSpec {
        settings: plain("triple").with("ingress", Raw::Boolean(true)),
        ..DisciplineSpec::new("cake")
    };
    let told = spec.check(&Registry::builtin(), LINK).expect_err("no rate");
    let told = format!("{told:?}");
    assert!(
        told.contains("`ingress` counts what is dropped against `rate`"),
        "{told}"
    );
}
