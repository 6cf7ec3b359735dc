//! What `hfsc` guarantees, on a link that is simulated exactly: each packet starts when the last
//! one is out, or when the queue said that one may leave.

use engine::discipline::{Next, Reason, Sink, Verdict};
use engine::inspect::{Inspection, Value, View};
use engine::link::Link;
use engine::link_clock::LinkClock;
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::random::{Rng, Seed};
use engine::settings::{Problem, Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

struct Nowhere;

impl Sink for Nowhere {
    fn drop(&mut self, packet: Packet, why: Reason) {
        panic!("lost: {packet:?}, {why}");
    }
}

/// A class: its parent, and its curves as (key, text).
type Class<'a> = (Option<usize>, &'a [(&'a str, &'a str)]);

fn check(rate: u64, classes: &[Class<'_>]) -> Result<Queue, Vec<Problem>> {
    plan(rate, classes).map(|plan| plan.build(Seed(1)))
}

fn plan(rate: u64, classes: &[Class<'_>]) -> Result<TreePlan, Vec<Problem>> {
    let is_parent = |index: usize| classes.iter().any(|(parent, _)| *parent == Some(index));
    let fifo = || DisciplineSpec {
        settings: Table::default().with("limit", Raw::Integer(10_000_000)),
        ..DisciplineSpec::new("fifo")
    };
    let first_leaf = (0..classes.len()).find(|&index| !is_parent(index));
    let class = |(index, (parent, curves)): (usize, &Class<'_>)| ClassSpec {
        name: index.to_string().into(),
        parent: parent.map(|parent| parent.to_string().as_str().into()),
        default: first_leaf == Some(index),
        settings: curves
            .iter()
            .fold(Table::default(), |table, (key, text)| table.text(key, text)),
        discipline: (!is_parent(index)).then(fifo),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        classes: classes.iter().enumerate().map(class).collect(),
        ..DisciplineSpec::new("hfsc")
    };
    let link = Link::new(Bandwidth::bits_per_sec(rate), Bytes::new(1_500));
    spec.check(&Registry::builtin(), link)
}

/// A packet on its way: it came at `came`, started at `start`, and was out at `end`.
#[derive(Clone, Copy, Debug)]
struct Sent {
    class: usize,
    len: u64,
    came: u64,
    start: u64,
    end: u64,
}

/// Packets to come: (time, class, length).
type Arrivals = Vec<(u64, usize, u64)>;

/// Lets the arrivals come and serves them on the link until a time.
fn run(queue: &mut Queue, rate: u64, arrivals: &Arrivals, until: u64) -> Vec<Sent> {
    let mut link = LinkClock::new(Bandwidth::bits_per_sec(rate), Duration::ZERO);
    let (mut now, mut next, mut sent) = (0, 0, Vec::new());
    while now < until {
        while let Some(&(at, class, len)) = arrivals.get(next).filter(|arrival| arrival.0 <= now) {
            let at = Instant::from_nanos(at);
            let packet = Packet::new(Bytes::new(len), at, ClassId(class as u32));
            assert_eq!(queue.enqueue(at, packet, &mut Nowhere), Verdict::Queued);
            next += 1;
        }
        let arrival = arrivals.get(next).map_or(u64::MAX, |arrival| arrival.0);
        now = match queue.dequeue(Instant::from_nanos(now), &mut Nowhere) {
            Next::Ready(packet) => {
                link.send(Instant::from_nanos(now), packet.len);
                let (class, len) = (packet.class.0 as usize, packet.len.get());
                let (came, start, end) = (packet.arrived.nanos(), now, link.free_at().nanos());
                sent.push(Sent {
                    class,
                    len,
                    came,
                    start,
                    end,
                });
                // What comes meanwhile comes at its own time, before the next packet is chosen.
                end
            }
            Next::Wait(at) => at.nanos().min(arrival),
            Next::Empty => arrival,
        };
    }
    sent
}

/// A class that always has packets of this length, until a time, at a link of this rate.
fn bulk(class: usize, len: u64, from: u64, rate: u64, until: u64) -> Arrivals {
    let all = (u128::from(rate) * u128::from(until - from) / 8 / u128::from(SECOND)) as u64 / len + 2;
    (0..all).map(|_| (from, class, len)).collect()
}

fn sorted(parts: Vec<Arrivals>) -> Arrivals {
    let mut all: Arrivals = parts.into_iter().flatten().collect();
    all.sort_by_key(|arrival| arrival.0);
    all
}

/// Bytes of each class that were out within a time.
fn bytes(sent: &[Sent], classes: usize, from: u64, until: u64) -> Vec<u64> {
    let mut sums = vec![0; classes];
    for packet in sent.iter().filter(|sent| sent.end > from && sent.end <= until) {
        sums[packet.class] += packet.len;
    }
    sums
}

/// A curve in nanobits, by its slopes.
#[derive(Clone, Copy, Debug)]
struct Slopes {
    m1: u64,
    d: u64,
    m2: u64,
}

impl Slopes {
    fn at(self, time: u64) -> i128 {
        let first = time.min(self.d);
        i128::from(self.m1) * i128::from(first) + i128::from(self.m2) * i128::from(time - first)
    }

    fn text(self) -> String {
        let Self { m1, d, m2 } = self;
        format!("{m1} bit/s for {d} ns, then {m2} bit/s")
    }
}

const NANOBITS: i128 = 8_000_000_000;

/// Random arrivals: each class comes and goes, with packets of its own style, asking for more or
/// less than its rate.
fn traffic(rng: &mut Rng, rates: &[u64], until: u64) -> Arrivals {
    let one = |(class, &rate): (usize, &u64)| {
        let (mut now, mut all) = (rng.below(until / 4), Vec::new());
        let longest = 64 + rng.below(1_437);
        while now < until {
            // A train: at once, or spread; then a pause.
            let (packets, gap) = (1 + rng.below(40), rng.below(3));
            for _ in 0..packets {
                let len = 40 + rng.below(longest - 39);
                all.push((now, class, len));
                now += gap * rng.below(len * 8 * SECOND / rate.max(1) + 1);
            }
            now += rng.below(1 + 3 * packets * longest * 8 * SECOND / rate.max(1)) * rng.below(2);
        }
        all
    };
    sorted(rates.iter().enumerate().map(one).collect())
}

/// The departure that is furthest behind a class's curve, in nanobits: at the end of a packet, over
/// the backlogged periods, of which one must hold: what was sent since its beginning, less the
/// curve. Times are `late` later.
fn worst(sent: &[Sent], class: usize, curve: Slopes, late: u64) -> i128 {
    let (mut starts, mut total, mut idle_from, mut worst) = (Vec::new(), 0i128, 0, i128::MAX);
    let own: Vec<&Sent> = sent.iter().filter(|sent| sent.class == class).collect();
    for packet in own {
        // It was idle when this one arrived: a period begins.
        if starts.is_empty() || packet.came >= idle_from {
            starts.push((packet.came, total));
        }
        total += i128::from(packet.len) * NANOBITS;
        idle_from = packet.start;
        let since =
            |&(start, done): &(u64, i128)| total - done - curve.at((packet.end - start).saturating_sub(late));
        worst = worst.min(starts.iter().map(since).max().expect("a period"));
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Curves are drawn at random and shrunk until they fit the link; traffic is random.
    #[test]
    fn every_backlogged_class_gets_its_curve_less_one_packet(
        parts in prop::collection::vec((0u64..100, 0u64..40, 1u64..100), 1..7),
        rate in prop_oneof![Just(1_000_000u64), Just(100_000_000), 2_000_000..40_000_000_000u64],
        seed in any::<u64>(),
    ) {
        let frame = 1_500 * 8 * SECOND / rate;
        let mut scale = 100;
        let (mut queue, slopes) = loop {
            let slopes: Vec<Slopes> = parts.iter().map(|&(m1, d, m2)| Slopes {
                m1: rate / 10_000 * m1 * scale,
                d: d * frame,
                m2: (rate / 10_000 * m2 * scale).max(1),
            }).collect();
            let texts: Vec<String> = slopes.iter().map(|slopes| slopes.text()).collect();
            let curve = |text| [("realtime", text), ("linkshare", "1 bit/s")];
            let curves: Vec<_> = texts.iter().map(|text| curve(text.as_str())).collect();
            let mut classes: Vec<Class<'_>> = curves.iter().map(|curves| (None, &curves[..])).collect();
            // It takes the whole excess, and more if it can.
            let greedy = [("linkshare", "100 %")];
            classes.push((None, &greedy));
            match check(rate, &classes) {
                Ok(queue) => break (queue, slopes),
                Err(_) => scale -= 1,
            }
        };
        // As large as fits: nearly the whole link is guaranteed.
        let mut rng = Seed(seed).stream();
        let rates: Vec<u64> = slopes.iter().map(|slopes| slopes.m1.max(slopes.m2)).collect();
        let until = 2_000 * frame;
        let greedy = bulk(slopes.len(), 1_500, 0, rate, until);
        let arrivals = sorted(vec![greedy, traffic(&mut rng, &rates, until)]);
        let sent = run(&mut queue, rate, &arrivals, until * 2);
        for (class, &slopes) in slopes.iter().enumerate() {
            // A packet may be late by the longest packet, and by roundings of 1 ns.
            let worst = worst(&sent, class, slopes, frame + 4);
            prop_assert!(worst >= 0, "class {class}, {slopes:?}: {} bytes behind", -worst / NANOBITS);
        }
    }

    /// Over any time, also across the link's idle times.
    #[test]
    fn no_class_is_ever_above_its_upper_limit(
        percents in prop::collection::vec((1u64..60, 1u64..60, 0u64..20), 2..6),
        seed in any::<u64>(),
    ) {
        let rate = 100_000_000;
        let slopes: Vec<Slopes> = percents
            .iter()
            .map(|&(m1, m2, d)| Slopes { m1: m1.max(m2) * rate / 100, d: d * MS, m2: m2 * rate / 100 })
            .collect();
        let texts: Vec<String> = slopes.iter().map(|slopes| slopes.text()).collect();
        let curves: Vec<_> =
            texts.iter().map(|text| [("linkshare", "10 Mbit/s"), ("upperlimit", text.as_str())]).collect();
        let mut classes: Vec<Class<'_>> = curves.iter().map(|curves| (Some(0), &curves[..])).collect();
        // All in one class, which has a limit too.
        let all = Slopes { m1: rate * 7 / 10, d: 0, m2: rate * 7 / 10 };
        let text = all.text();
        let above = [("linkshare", "100 %"), ("upperlimit", text.as_str())];
        classes.insert(0, (None, &above));
        let mut queue = check(rate, &classes).expect("a good plan");
        let rates = vec![rate / 3; classes.len()];
        let arrivals = traffic(&mut Seed(seed).stream(), &rates, SECOND / 2);
        let arrivals = arrivals.into_iter().filter(|arrival| arrival.1 > 0).collect();
        let sent = run(&mut queue, rate, &arrivals, SECOND);
        for class in 0..classes.len() {
            let limit = if class == 0 { all } else { slopes[class - 1] };
            let own: Vec<&Sent> = sent.iter().filter(|sent| class == 0 || sent.class == class).collect();
            let slack = (limit.at(5 * MS) + 1_500 * NANOBITS).max(i128::from(limit.m2) * 5 * i128::from(MS) + 1_500 * NANOBITS);
            for (i, first) in own.iter().enumerate().step_by(11) {
                let mut total = 0;
                for last in own[i..].iter().take(1_000) {
                    total += i128::from(last.len) * NANOBITS;
                    let may = limit.at(last.start - first.start) + slack;
                    prop_assert!(total <= may, "class {class}: {} bytes too many", (total - may) / NANOBITS);
                }
            }
        }
    }
}

/// The longest delay of voice, 160 bytes each 20 ms, beside bulk that takes all it can on 10
/// Mbit/s.
fn voice_delay(curve: &str) -> u64 {
    let rate = 10_000_000;
    let voice = [("realtime", curve), ("linkshare", "1 kbit/s")];
    let bulk_curves = [("realtime", "9.5 Mbit/s"), ("linkshare", "10 Mbit/s")];
    let mut queue = check(rate, &[(None, &voice), (None, &bulk_curves)]).expect("a good plan");
    let until = 5 * SECOND;
    let calls = (0..240).map(|i| (i * 20 * MS + 3 * MS, 0, 160)).collect();
    let sent = run(
        &mut queue,
        rate,
        &sorted(vec![calls, bulk(1, 1_500, 0, rate, until)]),
        until,
    );
    let voice = sent.iter().filter(|sent| sent.class == 0);
    assert!(voice.clone().count() >= 239);
    voice.map(|sent| sent.end - sent.came).max().expect("voice")
}

#[test]
fn delay_and_rate_are_decoupled_voice_with_a_small_rate_has_a_small_delay_beside_bulk() {
    let frame = 1_500 * 8 * SECOND / 10_000_000;
    let curve = voice_delay("160 B in 3 ms, then 64 kbit/s");
    assert!(curve <= 3 * MS + frame, "{curve} ns");
    // With the rate alone a packet has 20 ms, and is made to wait for most of them.
    let line = voice_delay("64 kbit/s");
    assert!((12 * MS..=20 * MS + frame).contains(&line), "{line} ns");
}

#[test]
fn what_is_not_promised_is_shared_by_link_share_and_those_who_were_idle_get_nothing_back() {
    let rate = 100_000_000;
    let share = |text: &'static str| [("linkshare", text)];
    let (one, two, five) = (share("1 Mbit/s"), share("2 Mbit/s"), share("5 Mbit/s"));
    let mut queue = check(rate, &[(None, &one), (None, &two), (None, &five)]).expect("a good plan");
    // The third comes after a second in which the others had all; the lengths differ.
    let parts = vec![
        bulk(0, 300, 0, rate, 3 * SECOND),
        bulk(1, 1_500, 0, rate, 3 * SECOND),
        bulk(2, 700, SECOND, rate, 3 * SECOND),
    ];
    let sent = run(&mut queue, rate, &sorted(parts), 2 * SECOND);
    let near = |bytes: &[u64], ratios: &[u64]| {
        let unit = bytes.iter().sum::<u64>() as f64 / ratios.iter().sum::<u64>() as f64;
        for (bytes, ratio) in bytes.iter().zip(ratios) {
            assert!(
                (*bytes as f64 - unit * *ratio as f64).abs() <= 3_100.0,
                "{bytes} of {}",
                unit * *ratio as f64
            );
        }
    };
    near(&bytes(&sent, 3, 0, SECOND), &[1, 2, 0]);
    near(&bytes(&sent, 3, SECOND, SECOND + 20 * MS), &[1, 2, 5]);
    near(&bytes(&sent, 3, SECOND, 2 * SECOND), &[1, 2, 5]);
}

#[test]
fn excess_stays_inside_an_organisation_before_it_leaves_it() {
    let rate = 100_000_000;
    let share = |text: &'static str| [("linkshare", text)];
    let (big, small, half) = (share("70 %"), share("30 %"), share("10 %"));
    let classes: [Class<'_>; 5] = [
        (None, &big),
        (None, &small),
        (Some(0), &half),
        (Some(0), &half),
        (Some(1), &half),
    ];
    let mut queue = check(rate, &classes).expect("a good plan");
    let parts = vec![
        bulk(2, 1_000, 0, rate, 2 * SECOND),
        bulk(3, 1_000, SECOND, rate, 2 * SECOND),
        bulk(4, 1_000, 0, rate, 2 * SECOND),
    ];
    let sent = run(&mut queue, rate, &sorted(parts), 2 * SECOND);
    let percent = |from, until| -> Vec<u64> {
        let bytes = bytes(&sent, 5, from, until);
        let sum: u64 = bytes.iter().sum();
        bytes
            .iter()
            .map(|bytes| (bytes * 1_000 / sum).div_ceil(10))
            .collect()
    };
    assert_eq!(percent(0, SECOND), [0, 0, 70, 0, 30]);
    assert_eq!(percent(SECOND, 2 * SECOND), [0, 0, 35, 35, 30]);
}

#[test]
fn a_class_at_its_upper_limit_gets_all_of_it_and_the_link_idles_if_nobody_else_is_there() {
    let rate = 100_000_000;
    let limited = [("linkshare", "50 %"), ("upperlimit", "33 Mbit/s")];
    let other = [("linkshare", "50 %")];
    let mut queue = check(rate, &[(None, &limited), (None, &other)]).expect("a good plan");
    let parts = vec![
        bulk(0, 1_500, 0, rate, 2 * SECOND),
        bulk(1, 1_500, SECOND, rate, 2 * SECOND),
    ];
    let sent = run(&mut queue, rate, &sorted(parts), 2 * SECOND);
    for (from, other) in [(0, 0), (SECOND, 67_000_000 / 8)] {
        let bytes = bytes(&sent, 2, from, from + SECOND);
        assert!(bytes[0].abs_diff(33_000_000 / 8) <= 3_000, "{bytes:?}");
        assert!(bytes[1].abs_diff(other) <= 4_500, "{bytes:?}");
    }
}

#[test]
fn rates_from_8_kbit_to_800_gbit_share_one_link_without_overflow() {
    let rate = 800_000_000_000;
    let slow = [("realtime", "8 kbit/s"), ("linkshare", "8 kbit/s")];
    let fast = [("realtime", "700 Gbit/s"), ("linkshare", "700 Gbit/s")];
    // Alone for a while, the slow one's virtual time runs a hundred million times as fast as the
    // clock.
    let mut queue = check(rate, &[(None, &slow), (None, &fast)]).expect("a good plan");
    let parts = vec![
        bulk(0, 1_500, 0, rate, 20 * MS),
        bulk(1, 1_500, 5 * MS, rate, 20 * MS),
    ];
    let sent = run(&mut queue, rate, &sorted(parts), 10 * MS);
    let [slow, fast] = bytes(&sent, 2, 5 * MS, 10 * MS)[..] else {
        panic!("two classes")
    };
    assert!(slow <= 3_000 && fast >= 499_990_000, "{slow} {fast}");
    // A year later.
    let year = Instant::from_nanos(365 * 86_400 * SECOND);
    assert!(matches!(queue.dequeue(year, &mut Nowhere), Next::Ready(_)));
}

fn refusal(classes: &[Class<'_>]) -> String {
    let problems = check(100_000_000, classes).expect_err("cannot work");
    let Problem { message, help, .. } = &problems[0];
    format!("{message} ({})", help.as_deref().unwrap_or_default())
}

#[test]
fn real_time_curves_that_do_not_fit_the_link_at_any_time_are_refused() {
    let sixty = [("realtime", "60 Mbit/s")];
    let message = refusal(&[(None, &sixty), (None, &sixty)]);
    assert!(
        message.contains("do not fit the link (100 Mbit/s)") && message.contains("120 Mbit/s"),
        "{message}"
    );
    // The rates fit, the first pieces do not: 60 + 50 for 10 ms.
    let steep = [("realtime", "50 Mbit/s for 10 ms, then 1 Mbit/s")];
    let message = refusal(&[(None, &sixty), (None, &steep)]);
    assert!(message.contains("by 10 ms they guarantee more"), "{message}");
    // A steep first piece fits beside one that begins late.
    let later = [("realtime", "40 Mbit/s for 10 ms, then 90 Mbit/s")];
    assert!(check(100_000_000, &[(None, &later), (None, &steep)]).is_ok());
}

#[test]
fn curves_that_cannot_work_are_refused_with_a_reason() {
    let (none, share, zero) = (
        [],
        [("linkshare", "1 %")],
        [("linkshare", "1 % for 1 ms, then 0 bit/s")],
    );
    let real = [("realtime", "2 Mbit/s")];
    let limit = [("linkshare", "1 %"), ("upperlimit", "1 Mbit/s")];
    let cases: [(&[Class<'_>], &str); 4] = [
        (&[(None, &none)], "has no curve"),
        (&[(None, &zero)], "must end with a rate"),
        (&[(None, &real), (Some(0), &share)], "has child classes"),
        (
            &[(None, &limit), (Some(0), &real)],
            "of `0` do not fit its upper limit",
        ),
    ];
    for (classes, expected) in cases {
        let message = refusal(classes);
        assert!(message.contains(expected), "{message}");
    }
}

/// 1500 bytes at 100 kbit/s are 120 ms. What was sent ahead of the old limit stays charged: ten
/// changes a second let no packet go early.
#[test]
fn changes_of_an_upper_limit_let_no_packet_go_early() {
    let limited = |limit: &str| -> TreePlan {
        let class: Class<'_> = (None, &[("linkshare", "100 kbit/s"), ("upperlimit", limit)]);
        plan(100_000_000, &[class]).expect("a good plan")
    };
    let mut queue = limited("100 kbit/s").build(Seed(1));
    for _ in 0..100 {
        let packet = Packet::new(Bytes::new(1_500), Instant::START, ClassId(0));
        assert_eq!(
            queue.enqueue(Instant::START, packet, &mut Nowhere),
            Verdict::Queued
        );
    }
    let mut sent = 0u64;
    for ms in 0..3_000u64 {
        let now = Instant::from_nanos(ms * MS);
        if ms % 100 == 50 {
            let limit = if ms % 200 == 50 {
                "101 kbit/s"
            } else {
                "100 kbit/s"
            };
            assert!(queue.retune(now, limited(limit).root.plan.as_ref()));
        }
        while let Next::Ready(_) = queue.dequeue(now, &mut Nowhere) {
            sent += 1;
        }
    }
    // Three seconds of 101 kbit/s, the packet at the start, and what a late caller may catch up.
    let most = 101_000 * 3 / (8 * 1_500) + 2;
    assert!(sent <= most, "{sent} packets, {most} allowed");
}

/// What the host held a packet up for is left out of `late`, and no more; `held-up` has it.
#[test]
fn what_is_late_since_the_host_held_it_up_is_told_apart() {
    struct HeldUp(u64);
    impl Sink for HeldUp {
        fn drop(&mut self, packet: Packet, why: Reason) {
            panic!("lost: {packet:?}, {why}");
        }

        fn held_up(&self, _arrived: Instant, _now: Instant) -> Duration {
            Duration::from_nanos(self.0)
        }
    }
    // 1500 bytes at 1 Mbit/s are due after 12 ms; so many nanoseconds later each of these leaves.
    let told = |packets: &[(u64, u64)]| {
        let real: Class<'_> = (None, &[("realtime", "1 Mbit/s")]);
        let mut queue = check(100_000_000, &[real]).expect("a good plan");
        for (second, &(late, held_up)) in (1..).zip(packets) {
            let came = Instant::from_nanos(second * SECOND);
            let packet = Packet::new(Bytes::new(1_500), came, ClassId(0));
            let mut sink = HeldUp(held_up);
            assert_eq!(queue.enqueue(came, packet, &mut sink), Verdict::Queued);
            let left = Instant::from_nanos(second * SECOND + 12 * MS + late);
            assert!(matches!(queue.dequeue(left, &mut sink), Next::Ready(_)));
        }
        let mut views: Vec<View> = Vec::new();
        queue.inspect(&mut Inspection::new(&mut views));
        ["late", "held-up"].map(|name| {
            let of_class = views.iter().find(|view| view.class == Some(ClassId(0)));
            let mut gauges = of_class.expect("a class").gauges.iter();
            match gauges.find(|gauge| gauge.0 == name) {
                Some((_, Value::Duration(time))) => time.nanos(),
                other => panic!("{other:?}"),
            }
        })
    };
    assert_eq!(told(&[(0, 9 * MS)]), [0, 0], "in time");
    assert_eq!(told(&[(4 * MS, 0)]), [4 * MS, 0], "nobody held it up");
    assert_eq!(told(&[(4 * MS, 4 * MS)]), [0, 4 * MS]);
    assert_eq!(
        told(&[(4 * MS, 9 * MS)]),
        [0, 4 * MS],
        "for longer than it is late"
    );
    assert_eq!(told(&[(4 * MS, 3 * MS)]), [MS, 4 * MS], "no more is excused");
    assert_eq!(told(&[(2 * MS, 0), (7 * MS, 6 * MS), (MS, MS)]), [2 * MS, 7 * MS]);
}

/// The packet that has a deadline may be flushed, and a shorter one sent in its place.
#[test]
fn after_a_flush_a_shorter_packet_is_eligible_by_its_own_length() {
    let classes: [Class<'_>; 2] = [
        (None, &[("realtime", "2 Mbit/s")]),
        (None, &[("realtime", "1 Mbit/s")]),
    ];
    let plan = plan(100_000_000, &classes).expect("a good plan");
    let mut queue = plan.build(Seed(1));
    let offer = |queue: &mut Queue, class, len| {
        let packet = Packet::new(Bytes::new(len), Instant::START, ClassId(class));
        assert_eq!(
            queue.enqueue(Instant::START, packet, &mut Nowhere),
            Verdict::Queued
        );
    };
    let send = |queue: &mut Queue, ms: u64| match queue.dequeue(Instant::from_nanos(ms * MS), &mut Nowhere) {
        Next::Ready(packet) => (packet.class.0, packet.len.get()),
        other => panic!("{other:?} at {ms} ms"),
    };
    offer(&mut queue, 0, 1_500);
    offer(&mut queue, 1, 1_500);
    assert_eq!(send(&mut queue, 0), (0, 1_500), "its deadline is earlier");
    let empty = plan.build_class(ClassId(1), Seed(1)).expect("a leaf");
    let former = queue.exchange_queue(Instant::START, ClassId(1), empty);
    assert_eq!(former.expect("it is exchanged").held().packets, 1);
    offer(&mut queue, 1, 100);
    offer(&mut queue, 1, 100);
    // The second is eligible after 800 bits at 1 Mbit/s, so that neither is link sharing.
    assert_eq!([0, 1].map(|ms| send(&mut queue, ms)), [(1, 100); 2]);
    let mut views: Vec<View> = Vec::new();
    queue.inspect(&mut Inspection::new(&mut views));
    let view = views.iter().find(|view| view.class == Some(ClassId(1)));
    let gauges = &view.expect("it is shown").gauges;
    let real = gauges.iter().find(|(name, _)| *name == "realtime");
    assert_eq!(
        real.map(|(_, value)| *value),
        Some(Value::Bytes(Bytes::new(200))),
        "{gauges:?}"
    );
}
