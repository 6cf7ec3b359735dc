//! Limits: exact rates, bursts, the link itself, and callers that are late.

use crate::rig::{MTU, Rig, With, class, near};
use engine::discipline::Next;
use engine::settings::Table;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// Instants at which a regulated class was let go again, each with what it had sent before.
fn wakes(rig: &Rig, len: u64) -> Vec<(Instant, u64)> {
    let pairs = rig.log.windows(2).enumerate();
    let gap = |a: Instant, b: Instant| b.since(a) > rig.plan.link.bandwidth.time_to_send(Bytes::new(MTU * 2));
    pairs
        .filter(|(_, p)| gap(p[0].0, p[1].0))
        .map(|(i, p)| (p[1].0, (i as u64 + 1) * len))
        .collect()
}

#[test]
fn a_class_that_may_not_borrow_gets_its_rate_to_a_millionth_from_8_kbit_to_800_gbit() {
    for (rate, link) in [
        ("8 kbit/s", Bandwidth::mbit(1)),
        ("64001 bit/s", Bandwidth::mbit(10)),
        ("3333333 bit/s", Bandwidth::mbit(100)),
        ("700000001 bit/s", Bandwidth::gbit(10)),
        ("4294967297 bit/s", Bandwidth::gbit(40)),
        ("123456789123 bit/s", Bandwidth::gbit(800)),
        ("800 Gbit/s", Bandwidth::gbit(1_600)),
    ] {
        let mut rig = Rig::new(Table::default(), link, &[class("limited", "", rate).limited()]);
        rig.start(&["limited"], MTU);
        while rig.log.len() < 1_000_000 {
            if let Next::Wait(at) = rig.take() {
                rig.now = at;
            }
        }
        let wakes = wakes(&rig, MTU);
        assert!(wakes.len() > 1_000, "{rate}: {:?}", &rig.log[999_900..]);
        let (first, last) = (wakes[0], wakes[wakes.len() - 1]);
        let got = (last.1 - first.1) as f64 * 8e9 / last.0.since(first.0).nanos() as f64;
        let asked = rate.parse::<Bandwidth>().expect("a rate").bits() as f64;
        assert!((got / asked - 1.0).abs() < 1e-6, "{rate}: got {got}");
    }
}

#[test]
fn the_link_is_exact_when_its_packets_take_no_whole_nanoseconds() {
    let link = Bandwidth::bits_per_sec(777_777_777_777);
    let mut rig = Rig::new(Table::default(), link, &[class("all", "", "100 %")]);
    rig.start(&["all"], 1_499);
    while rig.log.len() < 1_000_000 {
        if let Next::Wait(at) = rig.take() {
            rig.now = at;
        }
    }
    let got = 999_999.0 * 1_499.0 * 8e9 / rig.log[999_999].0.since(rig.log[0].0).nanos() as f64;
    assert!((got / 777_777_777_777.0 - 1.0).abs() < 1e-6, "got {got}");
}

/// Lengths of the bursts: packets that left without a pause of more than two packet times.
fn bursts(rig: &Rig) -> Vec<usize> {
    let pause = rig.plan.link.bandwidth.time_to_send(Bytes::new(MTU * 2));
    rig.log
        .chunk_by(|a, b| b.0.since(a.0) <= pause)
        .map(<[_]>::len)
        .collect()
}

#[test]
fn maxburst_packets_leave_after_idling_and_minburst_after_waiting() {
    for rate in ["1 %", "10 %", "30 %"] {
        for (maxburst, minburst) in [(16, 2), (1, 1), (40, 5)] {
            let limited = class("limited", "", rate).limited();
            let limited = limited.number("maxburst", maxburst).number("minburst", minburst);
            let mut rig = Rig::new(Table::default(), Bandwidth::mbit(100), &[limited]);
            rig.start(&["limited"], MTU);
            rig.run(Duration::from_secs(2));
            rig.stop(&["limited"]);
            rig.run(Duration::from_secs(2));
            rig.log.clear();
            rig.start(&["limited"], MTU);
            rig.run(Duration::from_secs(1));
            let bursts = bursts(&rig);
            assert_eq!(bursts[0] as i64, maxburst, "{rate}: {bursts:?}");
            let later = &bursts[1..bursts.len() - 1];
            assert!(
                later.len() > 2 && later.iter().all(|n| *n as i64 == minburst),
                "{rate}: {bursts:?}"
            );
        }
    }
}

#[test]
fn a_kernel_tick_limits_a_class_to_its_burst_in_two_ticks() {
    for (rate, expected) in [("5 %", 5_000.0), ("15 %", 9_600.0), ("55 %", 9_600.0)] {
        let settings = Table::default().text("tick", "10 ms");
        let mut rig = Rig::new(settings, Bandwidth::mbit(100), &[class("a5", "", rate).limited()]);
        rig.start(&["a5"], MTU);
        rig.run(Duration::from_secs(1));
        near(&rig.rates(&["a5"], Duration::from_secs(10)), &[expected], 1.0);
        let mut exact = Rig::new(
            Table::default(),
            Bandwidth::mbit(100),
            &[class("a5", "", rate).limited()],
        );
        exact.start(&["a5"], MTU);
        exact.run(Duration::from_secs(1));
        let share: f64 = rate.trim_end_matches(" %").parse().expect("a number");
        near(
            &exact.rates(&["a5"], Duration::from_secs(10)),
            &[share * 1_000.0],
            0.1,
        );
    }
}

/// Runs with a host that looks only every so often and then takes all that it may.
fn run_late(rig: &mut Rig, every: Duration, rounds: u64) -> f64 {
    let (start, before) = (rig.now, rig.sent.iter().sum::<u64>());
    for _ in 0..rounds {
        rig.now = rig.now + every;
        while matches!(rig.take(), Next::Ready(_)) {}
    }
    (rig.sent.iter().sum::<u64>() - before) as f64 * 8e6 / rig.now.since(start).nanos() as f64
}

#[test]
fn a_host_that_wakes_up_late_drops_nothing_within_the_bound() {
    let link = Bandwidth::mbit(100);
    for (one, expected) in [
        (class("one", "", "50 %"), 100_000.0),
        (class("one", "", "10 %").limited(), 10_000.0),
    ] {
        let mut rig = Rig::new(Table::default(), link, &[one]);
        rig.start(&["one"], MTU);
        run_late(&mut rig, Duration::from_millis(4), 50);
        near(
            &[run_late(&mut rig, Duration::from_millis(4), 500)],
            &[expected],
            0.3,
        );
    }
}

#[test]
fn a_host_that_stands_still_may_catch_up_no_further_than_the_bound() {
    let link = Bandwidth::mbit(100);
    for (one, expected) in [
        (class("one", "", "50 %"), 10_000.0),
        (class("one", "", "10 %").limited(), 1_440.0),
    ] {
        let mut rig = Rig::new(Table::default(), link, &[one]);
        rig.start(&["one"], MTU);
        run_late(&mut rig, Duration::from_millis(50), 2);
        // 5 ms of every 50; the limited class's time starts when it may send, 2.2 ms after its last
        // packet.
        near(
            &[run_late(&mut rig, Duration::from_millis(50), 100)],
            &[expected],
            8.0,
        );
    }
}

#[test]
fn an_idle_link_saves_up_no_burst() {
    let mut rig = Rig::new(
        Table::default(),
        Bandwidth::mbit(12),
        &[class("one", "", "100 %")],
    );
    rig.run(Duration::from_secs(1));
    (0..3).for_each(|_| rig.offer(0, MTU));
    assert!(matches!(rig.take(), Next::Ready(_)));
    assert_eq!(rig.take(), Next::Wait(rig.now + Duration::from_millis(1)));
}

#[test]
fn a_link_that_is_slower_than_declared_serves_all_in_proportion() {
    let classes = [
        class("low", "", "70 %").number("priority", 0),
        class("high", "", "30 %").number("priority", 7),
    ];
    let settings = Table::default().text("link", "port");
    let mut rig = Rig::new(settings, Bandwidth::mbit(100), &classes);
    rig.start(&["low", "high"], MTU);
    // A port of a third of the bandwidth.
    for _ in 0..10_000 {
        assert!(matches!(rig.take(), Next::Ready(_)));
        rig.now = rig.now + Duration::from_micros(360);
    }
    let total = (rig.sent[0] + rig.sent[1]) as f64;
    near(
        &[rig.sent[0] as f64 / total, rig.sent[1] as f64 / total],
        &[0.7, 0.3],
        3.0,
    );
}
