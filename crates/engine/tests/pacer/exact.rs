//! Departure times in byte-times, worked out by hand; and long runs against exact ratios.

use crate::rig::{Rig, check, class, frames, timer};
use engine::settings::Table;
use engine::units::Bandwidth;

const GBE: (Bandwidth, u64) = (Bandwidth::gbit(1), 1_514);

/// What packets of these lengths, all there at the beginning, start at.
fn starts(settings: Table, link: (Bandwidth, u64), rate: &str, lens: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let shortest = lens.iter().min().copied().unwrap_or(60);
    let mut rig = Rig::new(settings, link, &[class("a", "", rate, shortest)]);
    lens.iter().for_each(|&len| rig.offer(0, len));
    rig.run(u64::MAX);
    (rig.starts(0), rig.gaps)
}

#[test]
fn full_packets_at_half_of_gigabit_ethernet_are_3036_apart() {
    // 1518 × 125 / 62.5 = 3036; the slot is 1538; the gap frame's slot 1498, so 1478 with FCS.
    for settings in [frames(), timer()] {
        let (found, gaps) = starts(settings, GBE, "62.5 MB/s", &[1_514; 4]);
        assert_eq!(found, [0, 3_036, 6_072, 9_108]);
        assert!(gaps.iter().all(|&gap| gap == 1_498));
    }
}

#[test]
fn in_the_dither_zone_gaps_are_0_or_84_and_lateness_is_below_84() {
    // At 120 MB/s E is 1581.25 further each time: 1582, 3163, 4744, 6325, 7907, 9488.
    let (found, gaps) = starts(frames(), GBE, "120 MB/s", &[1_514; 7]);
    // 0 ends at 1538, 44 to go: 84. 1622 ends at 3160, 3 to go: 84. 3244 ends at 4782: late. 4782
    // ends at 6320, 5 to go: 84. 6404 ends at 7942: late. 7942 ends at 9480, 8 to go: 84.
    assert_eq!(found, [0, 1_622, 3_244, 4_782, 6_404, 7_942, 9_564]);
    assert_eq!(gaps, [84; 4]);
    let (found, _) = starts(timer(), GBE, "120 MB/s", &[1_514; 7]);
    assert_eq!(found, [0, 1_582, 3_163, 4_744, 6_325, 7_907, 9_488]);
}

#[test]
fn remainders_are_carried() {
    // 1518 × 125 / 87.5 = 2168 4/7; seven of them are 15180.
    let (found, gaps) = starts(frames(), GBE, "87.5 MB/s", &[1_514; 8]);
    assert_eq!(found, [0, 2_169, 4_338, 6_506, 8_675, 10_843, 13_012, 15_180]);
    assert_eq!(gaps, [631, 631, 630, 631, 630, 631, 630]);
}

#[test]
fn mixed_sizes_pay_for_their_own_bytes() {
    // 1518, 64, 594 and 64 bytes at 2 byte-times each: E = 0, 3036, 3164, 4352, 4480.
    let lens = [1_514, 60, 590, 40, 60];
    let (found, gaps) = starts(frames(), GBE, "62.5 MB/s", &lens);
    // 3036 ends at 3120, 44 to go: 84. 3204 ends at 3818, 534 to go. 4352 ends at 4436, 44 to go:
    // 84.
    assert_eq!(found, [0, 3_036, 3_204, 4_352, 4_520]);
    assert_eq!(gaps, [1_498, 84, 534, 84]);
    let (found, _) = starts(timer(), GBE, "62.5 MB/s", &lens);
    assert_eq!(found, [0, 3_036, 3_164, 4_352, 4_480]);
}

#[test]
fn every_basis_tags_and_every_speed_of_link() {
    let jumbo = |bits| (bits, 9_014);
    let text = |key: &str, value: &str| frames().text(key, value);
    type Case = (Table, (Bandwidth, u64), &'static str, u64, [u64; 3]);
    let cases: [Case; 10] = [
        // 1538, 1518, 1514 and 1500 counted bytes at half of the link.
        (text("basis", "wire"), GBE, "62.5 MB/s", 1_514, [0, 3_076, 6_152]),
        (text("basis", "frame"), GBE, "62.5 MB/s", 1_514, [0, 3_028, 6_056]),
        (text("basis", "ip"), GBE, "62.5 MB/s", 1_514, [0, 3_000, 6_000]),
        // 28 of IP at 10 of 125 MB/s: 350, though the slot is 84.
        (text("basis", "ip"), GBE, "10 MB/s", 42, [0, 350, 700]),
        // A tag makes 1522.
        (
            frames().with("tags", engine::settings::Raw::Integer(1)),
            GBE,
            "62.5 MB/s",
            1_514,
            [0, 3_044, 6_088],
        ),
        (
            frames(),
            (Bandwidth::mbit(10), 1_514),
            "1 Mbit/s",
            1_514,
            [0, 15_180, 30_360],
        ),
        // 1518 × 2.5 / 0.7 = 5421 3/7.
        (
            frames(),
            (Bandwidth::mbit(2_500), 1_514),
            "700 Mbit/s",
            1_514,
            [0, 5_422, 10_843],
        ),
        // 9018 × 10 / 9.7 = 9296.907…
        (
            frames(),
            jumbo(Bandwidth::gbit(10)),
            "9.7 Gbit/s",
            9_014,
            [0, 9_297, 18_594],
        ),
        (
            frames(),
            jumbo(Bandwidth::gbit(100)),
            "30 Gbit/s",
            9_014,
            [0, 30_060, 60_120],
        ),
        // 9018 × 400 / 7 = 515314 2/7.
        (
            frames(),
            jumbo(Bandwidth::gbit(400)),
            "7 Gbit/s",
            9_014,
            [0, 515_315, 1_030_629],
        ),
    ];
    for (settings, link, rate, len, expected) in cases {
        assert_eq!(
            starts(settings, link, rate, &[len; 3]).0,
            expected,
            "{rate} of {}",
            link.0
        );
    }
}

#[test]
fn a_gap_longer_than_a_frame_is_cut_into_as_few_as_can_be() {
    // 1518 × 20 − 1538 = 28822 in 19 frames: ⌈28822 / 1538⌉.
    let (found, gaps) = starts(frames(), GBE, "50 Mbit/s", &[1_514; 2]);
    assert_eq!(found, [0, 30_360]);
    assert_eq!((gaps.len(), gaps.iter().sum::<u64>()), (19, 28_822));
    assert!(gaps.iter().all(|gap| (1_516..=1_517).contains(gap)), "{gaps:?}");
}

#[test]
fn at_one_time_the_earlier_deadline_goes_first_then_the_class_declared_first() {
    let classes = [
        class("slow", "", "10 MB/s", 60),
        class("a", "", "20 MB/s", 60),
        class("b", "", "20 MB/s", 60),
    ];
    let mut rig = Rig::new(frames(), GBE, &classes);
    for class in [2, 1, 0] {
        rig.offer(class, 60);
    }
    rig.run(u64::MAX);
    let order: Vec<_> = rig.log.iter().map(|start| (start.class, start.at)).collect();
    assert_eq!(order, [(1, 0), (2, 84), (0, 168)]);
}

#[test]
fn ten_million_packets_at_an_awkward_rate_keep_it_to_a_millionth_and_are_less_than_84_late() {
    // The first in the dither zone, the second far below it.
    for rate in [948_999_937u64, 123_456_789] {
        let mut rig = Rig::new(frames(), GBE, &[class("a", "", &format!("{rate} bit/s"), 1_514)]);
        rig.start(0, 1_514);
        let (mut packets, mut counted, mut last) = (0u64, 0u128, 0);
        while packets < 10_000_000 {
            assert!(rig.step(u64::MAX));
            rig.gaps.clear();
            for start in rig.log.drain(..) {
                let due = (counted * 1_000_000_000).div_ceil(rate.into()) as u64;
                assert!(
                    (due..due + 84).contains(&start.at),
                    "packet {packets} is due at {due}, starts at {}",
                    start.at
                );
                (packets, counted, last) = (packets + 1, counted + 1_518, start.at);
            }
        }
        let asked = last as f64 * rate as f64 / 1e9;
        let sent = (counted - 1_518) as f64;
        assert!((sent / asked - 1.0).abs() < 1e-6, "{sent} for {asked}");
    }
}

#[test]
fn two_times_half_of_gigabit_ethernet_is_refused_with_the_numbers() {
    let halves = [
        class("a", "", "62.5 MB/s", 1_514),
        class("b", "", "62.5 MB/s", 1_514),
    ];
    let problems = check(timer(), GBE, &halves).expect_err("126.65 of 125 MB/s");
    // 2 × 62.5 × 1538 / 1518
    assert_eq!(
        problems[0].message,
        "the paced classes need 126.65 MB/s of the wire, which carries 125.00 MB/s"
    );
    let help = problems[0].help.as_deref().unwrap_or_default();
    assert!(
        help.contains("`a`: 62.50 MB/s of frame-fcs bytes") && help.contains("are 63.32 MB/s"),
        "{help}"
    );
    // On the wire's own bytes they fit, and nothing more does.
    assert!(check(timer().text("basis", "wire"), GBE, &halves).is_ok());
    let more = [&halves[..], &[class("c", "", "1 bit/s", 1_514)]].concat();
    assert!(check(timer().text("basis", "wire"), GBE, &more).is_err());
}

#[test]
fn what_cannot_work_is_refused_with_a_reason() {
    let cases = [
        (vec![class("a", "", "0 bit/s", 60)], "rate of 0"),
        (
            vec![class("a", "", "", 60), class("b", "a", "1 MB/s", 60)],
            "has no rate",
        ),
        (
            vec![class("a", "", "1 MB/s", 60), class("b", "a", "", 60)],
            "has no rate",
        ),
        (
            vec![class("a", "", "1 MB/s", 60), class("b", "a", "2 MB/s", 60)],
            "rates of 2.00 MB/s in sum, more than its 1.00 MB/s",
        ),
        (vec![class("a", "", "1 MB/s", 2_000)], "longest packet"),
        // 40 bytes of IP in a slot of 84.
        (vec![class("a", "", "100 MB/s", 54)], "need 131.25 MB/s"),
    ];
    for (classes, message) in cases {
        let problems = check(frames(), GBE, &classes).expect_err("cannot work");
        assert!(
            problems.iter().any(|problem| problem.message.contains(message)),
            "{problems:?}"
        );
    }
}
