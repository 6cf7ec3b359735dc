//! Who gets what is left over, and in which order.

use crate::rig::{Rig, With, class, near};
use engine::inspect::Value;
use engine::settings::Table;
use engine::tree::ClassSpec;
use engine::units::{Bandwidth, Duration};

const LINK: Bandwidth = Bandwidth::mbit(10);
const SECOND: Duration = Duration::from_secs(1);

/// Two organisations of 70 % and 30 %, each with data and with interactive traffic (Cho 1999, Fig.
/// 9).
fn organisations() -> Vec<ClassSpec> {
    vec![
        class("x", "", "70 %"),
        class("y", "", "30 %"),
        class("x-data", "x", "40 %").number("priority", 3),
        class("x-live", "x", "30 %").number("priority", 4),
        class("y-data", "y", "20 %").number("priority", 3),
        class("y-live", "y", "10 %").number("priority", 4),
    ]
}

const LEAVES: [&str; 4] = ["x-data", "x-live", "y-data", "y-live"];

#[test]
fn an_organisation_keeps_its_share_whichever_of_its_sources_pauses() {
    for excess in ["share", "priority"] {
        for paused in LEAVES {
            let mut rig = Rig::new(Table::default().text("excess", excess), LINK, &organisations());
            rig.start(&LEAVES, 1_000);
            rig.run(Duration::from_millis(500));
            near(
                &rig.rates(&LEAVES, SECOND),
                &[4_000.0, 3_000.0, 2_000.0, 1_000.0],
                3.0,
            );
            rig.stop(&[paused]);
            // What its first bursts have cost the organisation is paid back before it lends.
            rig.run(SECOND);
            let got = rig.rates(&LEAVES, SECOND);
            near(&[got[0] + got[1], got[2] + got[3]], &[7_000.0, 3_000.0], 1.0);
            rig.start(&[paused], 1_000);
            rig.run(Duration::from_millis(500));
            near(
                &rig.rates(&LEAVES, SECOND),
                &[4_000.0, 3_000.0, 2_000.0, 1_000.0],
                3.0,
            );
        }
    }
}

#[test]
fn excess_is_shared_by_allotment_whatever_the_priority() {
    let mut rig = Rig::new(Table::default(), LINK, &organisations());
    rig.start(&["x-live", "y-data", "y-live"], 1_000);
    rig.run(SECOND);
    rig.stop(&["x-live"]);
    rig.run(SECOND);
    // X is silent: its 70 % go to Y, there as 2 to 1.
    near(
        &rig.rates(&["y-data", "y-live"], SECOND),
        &[6_667.0, 3_333.0],
        2.0,
    );
}

#[test]
fn excess_goes_by_the_allotments_of_those_that_send_however_large_an_idle_one_is() {
    for sharing in ["formal", "top-level", "ancestors-only"] {
        let classes = [
            class("one", "", "1 %"),
            class("two", "", "2 %"),
            class("five", "", "5 %"),
            class("idle", "", "90 %"),
        ];
        let mut rig = Rig::new(Table::default().text("sharing", sharing), LINK, &classes);
        rig.start(&["one", "two", "five"], 1_000);
        rig.run(SECOND);
        let got = rig.rates(&["one", "two", "five"], Duration::from_secs(4));
        near(&got, &[1_250.0, 2_500.0, 6_250.0], 1.0);
    }
}

#[test]
fn a_small_allotment_gets_no_more_of_the_excess_than_its_part() {
    for sharing in ["formal", "top-level", "ancestors-only"] {
        let small = ["a", "b", "c"];
        let mut classes: Vec<ClassSpec> = small.map(|name| class(name, "", "0.1 %")).into();
        classes.extend([class("large", "", "30 %"), class("idle", "", "69.7 %")]);
        let mut rig = Rig::new(Table::default().text("sharing", sharing), LINK, &classes);
        rig.start(&small, 1_000);
        rig.start(&["large"], 1_000);
        // The older modes charge borrowers for what they borrow: the first bursts are paid back.
        rig.run(Duration::from_secs(20));
        let got = rig.rates(&["a", "b", "c", "large"], Duration::from_secs(20));
        near(&got, &[33.0, 33.0, 33.0, 9_901.0], 3.0);
    }
}

#[test]
fn excess_goes_to_the_highest_priority_if_asked_for() {
    let settings = Table::default().text("excess", "priority");
    let mut rig = Rig::new(settings, LINK, &organisations());
    rig.start(&["y-data", "y-live"], 1_000);
    rig.run(SECOND);
    // The allotment of the lower priority stays, all else goes to the higher.
    near(
        &rig.rates(&["y-data", "y-live"], SECOND),
        &[2_000.0, 8_000.0],
        2.0,
    );
}

#[test]
fn turns_by_bytes_or_by_packets() {
    for (round_robin, expected) in [("weighted", [5_000.0, 5_000.0]), ("packet", [7_500.0, 2_500.0])] {
        let settings = Table::default().text("round_robin", round_robin);
        let mut rig = Rig::new(
            settings,
            LINK,
            &[class("long", "", "0 bit/s"), class("short", "", "0 bit/s")],
        );
        rig.start(&["long"], 1_500);
        rig.start(&["short"], 500);
        near(&rig.rates(&["long", "short"], SECOND), &expected, 1.0);
    }
}

#[test]
fn what_is_borrowed_is_not_missing_later() {
    let classes = [class("greedy", "", "50 %"), class("other", "", "50 %")];
    let mut rig = Rig::new(Table::default(), LINK, &classes);
    rig.start(&["greedy"], 1_000);
    rig.run(SECOND);
    rig.start(&["other"], 1_000);
    let got = rig.rates(&["greedy"], Duration::from_millis(200));
    assert!(got[0] > 4_500.0, "{got:?}");
}

#[test]
fn a_class_without_a_rate_gets_only_what_is_left() {
    let classes = [
        class("sure", "", "6 Mbit/s").limited(),
        class("rest", "", "0 bit/s"),
    ];
    let mut rig = Rig::new(Table::default(), LINK, &classes);
    rig.start(&["sure", "rest"], 1_000);
    rig.run(SECOND);
    near(&rig.rates(&["sure", "rest"], SECOND), &[6_000.0, 4_000.0], 1.0);
}

/// The rates of two classes, 70 % at the lower and 10 % at the higher priority, both always
/// backlogged and borrowing: from the link, or from an organisation that has all of it.
fn starvation(sharing: &str, parent: &str) -> Vec<f64> {
    let mut classes = vec![
        class("low", parent, "70 %").number("priority", 1),
        class("high", parent, "10 %").number("priority", 5),
    ];
    if !parent.is_empty() {
        classes.insert(0, class(parent, "", "100 %"));
    }
    let settings = Table::default().text("sharing", sharing).text("excess", "share");
    let mut rig = Rig::new(settings, LINK, &classes);
    rig.start(&["low", "high"], 1_000);
    rig.run(SECOND);
    rig.rates(&["low", "high"], SECOND)
}

#[test]
fn the_older_modes_starve_a_backlogged_class_and_formal_sharing_does_not() {
    near(&starvation("formal", "x"), &[8_750.0, 1_250.0], 2.0);
    near(&starvation("top-level", "x"), &[0.0, 10_000.0], 0.1);
    near(&starvation("ancestors-only", "x"), &[0.0, 10_000.0], 0.1);
}

#[test]
fn a_busy_link_lends_only_what_it_would_lose_and_by_priority() {
    for sharing in ["top-level", "ancestors-only"] {
        near(&starvation(sharing, ""), &[7_000.0, 3_000.0], 2.0);
    }
}

#[test]
fn the_older_modes_share_by_organisation_while_all_have_one_priority() {
    for sharing in ["top-level", "ancestors-only"] {
        let classes: Vec<ClassSpec> = organisations()
            .into_iter()
            .map(|c| c.number("priority", 2))
            .collect();
        let mut rig = Rig::new(Table::default().text("sharing", sharing), LINK, &classes);
        rig.start(&LEAVES, 1_000);
        rig.run(SECOND);
        near(
            &rig.rates(&LEAVES, SECOND),
            &[4_000.0, 3_000.0, 2_000.0, 1_000.0],
            12.0,
        );
    }
}

#[test]
fn a_higher_priority_waits_for_one_packet_at_most_while_it_is_within_its_rate() {
    let classes = [
        class("bulk", "", "90 %"),
        class("live", "", "10 %").number("priority", 7),
    ];
    let mut rig = Rig::new(Table::default(), LINK, &classes);
    rig.start(&["bulk"], 1_500);
    let live = rig.number("live");
    for _ in 0..100 {
        rig.run(Duration::from_micros(10_300));
        rig.offer(live, 500);
        let (offered, sent) = (rig.now, rig.log.len());
        rig.run(Duration::from_millis(3));
        let left = rig.log[sent..]
            .iter()
            .find(|(_, class)| *class == live as u32)
            .expect("it left")
            .0;
        assert!(
            left.since(offered) <= Duration::from_micros(1_200),
            "it waited {}",
            left.since(offered)
        );
    }
}

#[test]
fn the_cutoff_of_top_level_sharing_follows_every_class_that_comes_goes_and_sleeps() {
    // In a debug build, each move of the cutoff compares the count of unsatisfied leaves with the
    // leaves themselves.
    let mut classes: Vec<ClassSpec> = (0..4).map(|n| class(&format!("a{n}"), "", "20 %")).collect();
    for n in 0..40 {
        let parent = format!("a{}", n % 4);
        let mut one = class(&format!("c{n}"), &parent, ["0 %", "0.5 %", "2 %"][n % 3]);
        one = one
            .number("priority", [0, 1, 2, 3, 4][n % 5])
            .number("maxburst", 3);
        classes.push(if n % 6 == 1 { one.limited() } else { one });
    }
    let mut rig = Rig::new(Table::default().text("sharing", "top-level"), LINK, &classes);
    let (mut luck, mut offered, mut borrowed) = (7u64, 0, 0);
    for _ in 0..20_000 {
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (at, len) = (4 + (luck >> 33) as usize % 40, 64 + (luck >> 20) % 1_400);
        rig.offer(at, len);
        offered += 1;
        // On average as fast as they come; now and then the link idles, and a burst follows.
        rig.run(Duration::from_micros(luck >> 40 & 0x4ff));
    }
    rig.run(Duration::from_secs(60));
    for n in 0..40 {
        if let Value::Count(borrows) = rig.gauge(&format!("c{n}"), "borrows") {
            borrowed += borrows;
        }
    }
    let dropped = rig.dropped.0.len();
    assert_eq!(rig.log.len() + dropped, offered, "{dropped} dropped");
    assert!(borrowed > 1_000, "{borrowed}");
}

/// A number of all departures, by time and class, of a tree in which sources of every kind come
/// and go.
fn departures(seed: u64, sharing: &str) -> u64 {
    let mut luck = seed;
    let mut draw = |n: u64| {
        luck = luck
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (luck >> 33) % n
    };
    let mut classes: Vec<ClassSpec> = Vec::new();
    for agency in 0..4 {
        let name = format!("a{agency}");
        let parent = if agency == 3 { "a2" } else { "" };
        let one = class(&name, parent, if agency == 2 { "40 %" } else { "15 %" });
        classes.push(if draw(5) == 0 { one.limited() } else { one });
    }
    let leaves = 8 + draw(40);
    for n in 0..leaves {
        let parent = ["", "a0", "a1", "a2", "a3"][draw(5) as usize];
        let rates = ["0 %", "0.1 %", "0.2 %", "0.3 %"];
        let rate = draw(4) as usize;
        let one = class(&format!("c{n}"), parent, rates[rate])
            .number("priority", draw(3) as i64)
            .number("maxburst", 1 + draw(6) as i64)
            .number("minburst", 1);
        classes.push(if rate > 0 && draw(8) == 0 {
            one.limited()
        } else {
            one
        });
    }
    let round_robin = ["weighted", "packet"][draw(2) as usize];
    let mut settings = Table::default()
        .text("sharing", sharing)
        .text("round_robin", round_robin);
    if draw(4) == 0 {
        settings = settings.text("tick", "2 ms");
    }
    let mut rig = Rig::new(settings, LINK, &classes);
    let mut digest = 14_695_981_039_346_656_037u64;
    for step in 0..3_000 {
        let at = 4 + draw(leaves) as usize;
        match draw(20) {
            0 => rig.greedy[at] = 64 + draw(1_400),
            1 => rig.greedy[at] = 0,
            _ => (0..=draw(3)).for_each(|_| rig.offer(at, 64 + (step * 7 + at as u64) % 1_400)),
        }
        rig.run(Duration::from_micros(draw(1_500)));
        if draw(30) == 0 {
            // A caller that is late.
            rig.now = rig.now + Duration::from_millis(draw(20));
        }
    }
    for (at, class) in &rig.log {
        for word in [at.nanos(), u64::from(*class)] {
            digest = (digest ^ word).wrapping_mul(1_099_511_628_211);
        }
    }
    digest
}

#[test]
fn the_older_modes_choose_as_if_they_looked_at_every_class() {
    // The digests are of a version that did.
    for (sharing, known) in [
        ("top-level", 0x4ed1_3257_387d_5066),
        ("ancestors-only", 0x631c_1b87_73c2_4e6e),
        ("formal", 0x8bc7_34bc_3b5e_c13b),
    ] {
        let digest = (0..40).fold(0u64, |sum, seed| sum.rotate_left(7) ^ departures(seed, sharing));
        assert_eq!(digest, known, "{sharing}: the order of departures has changed");
    }
}
