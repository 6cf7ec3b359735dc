//! Bounds on random classes and packets: lateness, best effort, idle time, changes of rates,
//! bottlenecks.

use crate::rig::{Rig, check, class, frames, timer};
use engine::units::Bandwidth;
use proptest::prelude::*;

const GBE: (Bandwidth, u64) = (Bandwidth::gbit(1), 1_514);
const BITS: u64 = 1_000_000_000;
const SLOT: u64 = 1_538;

/// Byte-times that these counted bytes take at this rate.
fn due(counted: u64, rate: u64) -> u64 {
    (u128::from(counted) * u128::from(BITS)).div_ceil(rate.into()) as u64
}

fn counted(len: u64) -> u64 {
    len.max(60) + 4
}

/// Classes as (rate, packet length) that use this many millionths of the wire.
fn shares(weights: &[(u64, usize)], used: u64) -> Vec<(u64, u64)> {
    let sum: u64 = weights.iter().map(|weight| weight.0).sum();
    weights
        .iter()
        .map(|&(weight, size)| {
            let len = [60, 124, 590, 1_514][size];
            let wire = u128::from(BITS) * u128::from(used) / 1_000_000 * u128::from(weight) / u128::from(sum);
            (
                (wire * u128::from(counted(len)) / u128::from(counted(len) + 20)) as u64,
                len,
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn up_to_99_9_percent_of_the_wire_no_packet_is_later_than_its_period_and_a_slot(
        weights in prop::collection::vec((1u64..1_000, 0usize..4), 2..24),
        used in 900_000u64..=999_000,
        filled: bool,
    ) {
        let shares = shares(&weights, used);
        let classes: Vec<_> = (shares.iter().enumerate())
            .map(|(i, (rate, len))| class(&i.to_string(), "", &format!("{rate} bit/s"), *len))
            .collect();
        let mut rig = Rig::new(if filled { frames() } else { timer() }, GBE, &classes);
        shares.iter().enumerate().for_each(|(i, &(_, len))| rig.start(i as u32, len));
        rig.run(3_000_000);
        for (i, &(rate, len)) in shares.iter().enumerate() {
            let period = due(counted(len), rate);
            for (n, at) in rig.starts(i as u32).into_iter().enumerate() {
                let eligible = due(n as u64 * counted(len), rate);
                prop_assert!(at >= eligible, "class {i}: packet {n} at {at}, before {eligible}");
                let late = at - eligible;
                prop_assert!(late < period + SLOT + if filled { 84 } else { 0 }, "class {i} ({rate}, {len}): {late}");
            }
        }
    }

    #[test]
    fn a_flood_of_best_effort_moves_a_paced_packet_by_less_than_a_slot_and_strictly_by_nothing(
        rate in 1_000_000u64..980_000_000,
        len in 60u64..=1_514,
        flood in 60u64..=1_514,
        filled: bool,
        strict: bool,
    ) {
        let settings = if filled { frames() } else { timer() };
        let mode = if strict { "strict" } else { "work-conserving" };
        let classes = [class("a", "", &format!("{rate} bit/s"), len), class("b", "", "", len)];
        prop_assume!(check(settings.clone(), GBE, &classes).is_ok());
        let mut rig = Rig::new(settings.text("best_effort", mode), GBE, &classes);
        rig.start(0, len);
        rig.start(1, flood);
        rig.run(2_000_000);
        let slot = flood.max(60) + 24;
        for (n, at) in rig.starts(0).into_iter().enumerate() {
            let eligible = due(n as u64 * counted(len), rate);
            prop_assert!(at >= eligible);
            // In both modes a gap of less than 84 is one of 84 where frames make it.
            let least = if filled { 84 } else { 1 };
            prop_assert!(at - eligible < if strict { least } else { slot.max(least) }, "packet {n} at {at}, not {eligible}");
        }
        if !strict {
            let ends = rig.log.windows(2).map(|pair| pair[0].at + pair[0].len.max(60) + 24 == pair[1].at);
            prop_assert!(ends.fold(true, |all, one| all & one), "the wire idles");
        }
    }

    #[test]
    fn a_class_that_was_idle_stores_no_burst(
        rate in 1_000_000u64..980_000_000,
        arrivals in prop::collection::vec((0u32..21, any::<u64>(), 60u64..1_515, 1usize..5), 1..80),
    ) {
        // By the wire's bytes no packet takes longer than its period, so that none has to wait for
        // the wire.
        let settings = timer().text("basis", "wire");
        let mut rig = Rig::new(settings, GBE, &[class("a", "", &format!("{rate} bit/s"), 1_514)]);
        let counted = |len: u64| len.max(60) + 24;
        let mut arrival = 0;
        for (bits, pause, len, number) in arrivals {
            arrival = rig.at.max(arrival + (pause & ((1 << bits) - 1)));
            rig.run(arrival);
            rig.at = rig.at.max(arrival);
            (0..number).for_each(|_| rig.offer(0, len));
        }
        rig.run(u64::MAX);
        for pair in rig.log.windows(2) {
            let least = u128::from(counted(pair[0].len)) * u128::from(BITS) / u128::from(rate);
            prop_assert!(u128::from(pair[1].at - pair[0].at) >= least.max(1) - 1, "{pair:?} at {rate}");
        }
        // Nor over any number of packets: those from any one on never take less than their periods.
        let mut level = 0i128;
        for pair in rig.log.windows(2) {
            level = (level - i128::from(pair[1].at - pair[0].at) * i128::from(rate)
                + i128::from(counted(pair[0].len)) * i128::from(BITS)).max(0);
            prop_assert!(level <= i128::from(rate), "{level}");
        }
    }

    #[test]
    fn changes_of_the_rate_never_make_a_packet_early(
        changes in prop::collection::vec((0u32..17, any::<u64>(), 1_000_000u64..900_000_000), 1..40),
        filled: bool,
    ) {
        let plan = |rate: u64| {
            let settings = if filled { frames() } else { timer() };
            check(settings, GBE, &[class("a", "", &format!("{rate} bit/s"), 1_514)]).expect("a good plan")
        };
        let mut rig = Rig::new(if filled { frames() } else { timer() }, GBE, &[class("a", "", "500 Mbit/s", 1_514)]);
        rig.start(0, 1_514);
        let (mut rates, mut end) = (vec![(0u64, 500_000_000u64)], 0);
        for (bits, span, rate) in changes {
            end = rig.at.max(end + (span & ((1 << bits) - 1)));
            rig.run(end);
            rig.at = rig.at.max(end);
            rates.push((rig.at, rate));
            prop_assert!(rig.queue.retune(rig.now(), plan(rate).root.plan.as_ref()));
        }
        rig.run(end + 10_000_000);
        // What the rates of the time allow between two starts, in bits × byte-times.
        let allowed = |from: u64, to: u64| -> u128 {
            let ends = rates.iter().skip(1).map(|change| change.0).chain([u64::MAX]);
            rates.iter().zip(ends).map(|(&(begin, rate), end)| {
                u128::from(to.min(end).saturating_sub(from.max(begin))) * u128::from(rate)
            }).sum()
        };
        prop_assert!(rig.log.len() > 2);
        for (i, first) in rig.log.iter().enumerate().step_by(7) {
            let mut sent = 0u128;
            for start in &rig.log[i + 1..] {
                sent += 1_518 * u128::from(BITS);
                // One that was late, by a gap frame or a part of a byte, may be followed by one
                // that is in time.
                let slack = if filled { 84 } else { 1 } * 900_000_000;
                prop_assert!(allowed(first.at, start.at) + slack >= sent, "{first:?} to {start:?}");
            }
        }
    }

    #[test]
    fn the_classes_of_a_bottleneck_together_keep_to_its_rate_and_get_theirs(
        parts in prop::collection::vec(1u64..100, 1..12),
        rate in 10_000_000u64..600_000_000,
        filled: bool,
    ) {
        let sum: u64 = parts.iter().sum();
        let rates: Vec<u64> = parts.iter().map(|part| (rate * part / sum).max(1)).collect();
        let mut classes = vec![
            class("site", "", &format!("{rate} bit/s"), 1_514),
            class("beside", "", "300 Mbit/s", 1_514),
        ];
        for (i, rate) in rates.iter().enumerate() {
            classes.push(class(&i.to_string(), "site", &format!("{rate} bit/s"), 1_514));
        }
        let mut rig = Rig::new(if filled { frames() } else { timer() }, GBE, &classes);
        (1..classes.len()).for_each(|class| rig.start(class as u32, 1_514));
        let end = 20_000_000;
        rig.run(end);
        let site: Vec<_> = rig.log.iter().filter(|start| start.class > 1).collect();
        let mut level = 0i128;
        for pair in site.windows(2) {
            level = (level - i128::from(pair[1].at - pair[0].at) * i128::from(rate) + 1_518 * i128::from(BITS)).max(0);
            prop_assert!(level <= i128::from(SLOT + 84) * i128::from(rate), "{level}");
        }
        for (i, &rate) in rates.iter().enumerate() {
            let sent = rig.starts(i as u32 + 2).len() as u64;
            let whole = end * rate / BITS / 1_518;
            // The first of each comes at once where the site has room for one, and the last may be
            // on its way.
            prop_assert!(sent + 2 >= whole && sent <= whole + 2, "class {i}: {sent} of {whole}");
        }
    }

    #[test]
    fn classes_of_a_bottleneck_that_come_go_and_change_their_rates_never_make_a_packet_early(
        changes in prop::collection::vec((8u32..17, any::<u64>(), 100_000_000u64..600_000_000, 1u64..100, 0usize..4), 1..25),
        filled: bool,
    ) {
        // Two classes share a site; each of them may be gone for a while.
        let settings = || if filled { frames() } else { timer() };
        let specs = |rate: u64, percent: u64, missing: usize| -> Vec<(&str, u64)> {
            let part = (rate * percent / 100).max(1_000_000);
            let all = [("site", rate), ("a", part), ("b", (rate - part).max(1_000_000)), ("other", 100_000_000)];
            all.into_iter().enumerate().filter(|&(i, _)| i == 0 || i != missing).map(|(_, one)| one).collect()
        };
        let classes = |specs: &[(&str, u64)]| -> Vec<_> {
            let above = |name| if matches!(name, "a" | "b") { "site" } else { "" };
            specs.iter().map(|&(name, rate)| class(name, above(name), &format!("{rate} bit/s"), 1_514)).collect()
        };
        let first = specs(500_000_000, 50, 0);
        let mut rig = Rig::new(settings(), GBE, &classes(&first));
        // The rates of the time, and what started: by name, as numbers change.
        let (mut rates, mut starts, mut end) = (vec![(0u64, first)], Vec::new(), 0);
        for (bits, span, rate, percent, missing) in changes.into_iter().chain([(16, u64::MAX, 500_000_000, 50, 0)]) {
            for i in 0..rig.names.len() {
                if rig.names[i] != "site" {
                    rig.start(i as u32, 1_514);
                }
            }
            end = rig.at.max(end + (span & ((1 << bits) - 1)));
            rig.run(end);
            rig.at = rig.at.max(end);
            let log = std::mem::take(&mut rig.log);
            starts.extend(log.into_iter().map(|start| (start.at, rig.names[start.class as usize].clone())));
            let new = specs(rate, percent, missing);
            let plan = check(settings(), GBE, &classes(&new)).expect("a good plan");
            // By one way where it can be, by the other where classes come or go.
            let same = plan.classes.iter().map(|class| &class.name).eq(rig.names.iter());
            if !same || !rig.queue.retune(rig.now(), plan.root.plan.as_ref()) {
                prop_assert!(!same);
                rig.replace(settings(), GBE, &classes(&new));
            }
            rates.push((rig.at, new));
        }
        for node in ["site", "a", "b", "other"] {
            let rate = |specs: &[(&str, u64)]| specs.iter().find(|one| one.0 == node).map_or(0, |one| one.1);
            let allowed = |from: u64, to: u64| -> u128 {
                let ends = rates.iter().skip(1).map(|change| change.0).chain([u64::MAX]);
                rates.iter().zip(ends).map(|((begin, specs), end)| {
                    u128::from(to.min(end).saturating_sub(from.max(*begin))) * u128::from(rate(specs))
                }).sum()
            };
            let below = |name: &str| name == node || (node == "site" && matches!(name, "a" | "b"));
            let own: Vec<u64> = starts.iter().filter(|start| below(&start.1)).map(|start| start.0).collect();
            for (i, &first) in own.iter().enumerate().step_by(5) {
                let mut sent = 0u128;
                for &start in &own[i + 1..] {
                    sent += 1_518 * u128::from(BITS);
                    // A packet that was late, by one slot or a gap frame and for its own period,
                    // may be followed by one in time; and a class that was gone begins anew.
                    let back = rates.iter().filter(|(at, _)| *at > first && *at <= start).count() as u128;
                    let gone = rates.iter().any(|(at, specs)| *at > first && *at <= start && rate(specs) == 0);
                    let late = (4 * u128::from(SLOT) + 2 * back) * 600_000_000 + 1_518 * u128::from(BITS);
                    let anew = if gone { back * 1_518 * u128::from(BITS) } else { 0 };
                    prop_assert!(allowed(first, start) + late + anew >= sent, "{node}: {first} to {start}");
                }
            }
        }
    }

    #[test]
    fn many_classes_that_change_their_rates_are_never_ahead_of_the_integral_of_their_rates(
        first in prop::collection::vec((1u64..50, 3usize..4), 12..40),
        changes in prop::collection::vec((12u32..20, any::<u64>(), 0usize..40, 1u64..10_000, any::<bool>()), 1..40),
        filled: bool,
    ) {
        // Together they take 999 thousandths of the wire. At each change one gets a new part of it,
        // of a hundred-thousandth to nearly all, and the others what remains.
        let settings = || if filled { frames() } else { timer() };
        let mut weights = first;
        let plan = |weights: &[(u64, usize)]| -> (Vec<_>, Vec<u64>) {
            let rates: Vec<u64> = shares(weights, 999_000).iter().map(|share| share.0.max(1)).collect();
            let each = rates.iter().enumerate();
            (each.map(|(i, rate)| class(&i.to_string(), "", &format!("{rate} bit/s"), 1_514)).collect(), rates)
        };
        let (classes, rates) = plan(&weights);
        let mut rig = Rig::new(settings(), GBE, &classes);
        (0..classes.len()).for_each(|class| rig.start(class as u32, 1_514));
        let (mut periods, mut end) = (vec![(0, rates)], 0);
        for (bits, span, which, weight, replaced) in changes.into_iter().chain([(20, u64::MAX, 0, 1, false)]) {
            end = rig.at.max(end + (span & ((1 << bits) - 1)));
            rig.run(end);
            rig.at = rig.at.max(end);
            let which = which % weights.len();
            weights[which].0 = weight;
            let (classes, rates) = plan(&weights);
            if replaced {
                let greedy = rig.greedy.clone();
                rig.replace(settings(), GBE, &classes);
                rig.greedy = greedy;
            } else {
                let plan = check(settings(), GBE, &classes).expect("a good plan");
                prop_assert!(rig.queue.retune(rig.now(), plan.root.plan.as_ref()));
            }
            periods.push((rig.at, rates));
        }
        // The settling in of the last change.
        rig.run(end + 20_000_000);
        const PACKET: i128 = 1_518 * BITS as i128;
        for one in 0..weights.len() {
            // In bits × byte-times: what the rates allow up to a start, and what has left before.
            let (mut passed, mut allowed, mut sent, mut level) = (0, 0, 0i128, 0i128);
            let mut at = periods[0].0;
            for start in rig.starts(one as u32) {
                let before = allowed;
                while at < start {
                    let until = periods.get(passed + 1).map_or(u64::MAX, |period| period.0).min(start);
                    allowed += i128::from(until - at) * i128::from(periods[passed].1[one]);
                    at = until;
                    passed += usize::from(at < start);
                }
                prop_assert!(sent <= allowed, "{one} is {} B ahead at {start}", (sent - allowed) / i128::from(BITS));
                level = (level - (allowed - before)).max(0) + PACKET;
                prop_assert!(level <= 3 * PACKET, "{one}: {} B at once at {start}", level / i128::from(BITS));
                sent += PACKET;
            }
        }
    }
}

/// Gigabit Ethernet is used up to 999 thousandths by a fast class and 60 of 1 Mbit/s. Then one of
/// the slow gets 400 Mbit/s, in a packet interval of which it has its place for 12 ms.
#[test]
fn a_late_class_that_gets_a_faster_rate_does_not_spend_its_lateness_at_that_rate() {
    let plan = |fast: &str, last: &str| -> Vec<_> {
        let slow = (0..60).map(|i| {
            class(
                &format!("s{i}"),
                "",
                if i == 59 { last } else { "1 Mbit/s" },
                1_514,
            )
        });
        [class("fast", "", fast, 1_514)].into_iter().chain(slow).collect()
    };
    let mut rig = Rig::new(timer(), GBE, &plan("925 Mbit/s", "1 Mbit/s"));
    (0..61).for_each(|class| rig.start(class, 1_514));
    let change = 11_500_000 / 8;
    rig.run(change);
    rig.at = rig.at.max(change);
    let new = check(timer(), GBE, &plan("1 Mbit/s", "400 Mbit/s")).expect("a good plan");
    assert!(rig.queue.retune(rig.now(), new.root.plan.as_ref()));
    rig.run(change + 5_000_000);
    let starts: Vec<u64> = rig.starts(60).into_iter().filter(|at| *at >= change).collect();
    let mut runs: Vec<usize> = vec![1];
    for pair in starts.windows(2) {
        match runs.last_mut() {
            Some(run) if pair[1] - pair[0] == SLOT => *run += 1,
            _ => runs.push(1),
        }
    }
    let longest = runs.iter().max().copied().unwrap_or(0);
    assert!(longest <= 3, "{longest} packets back to back");
    let sent = starts.len() as u64 * 1_518 * 8;
    let allowed = 400 * 5_000_000 * 8 / 1_000 + 2 * 1_518 * 8;
    assert!(sent <= allowed, "{sent} bits, {allowed} allowed");
}

/// What a tree holds moves into the next one in pieces: by then time has passed, in which its
/// classes would have sent.
#[test]
fn a_backlog_that_moves_into_another_tree_later_loses_no_time() {
    let plan = || -> Vec<_> {
        let paced = |i: u64| class(&format!("c{i}"), "", &format!("{} Mbit/s", 40 + 7 * i), 1_514);
        (0..6).map(paced).chain([class("rest", "", "", 1_514)]).collect()
    };
    let change = 10_000_000 / 8;
    let end = change + 20_000_000 / 8;
    // A ninth of a millisecond.
    let later = 111_000 / 8;
    let run = |later: u64| {
        let mut rig = Rig::new(timer(), GBE, &plan());
        (0..6).for_each(|class| (0..400).for_each(|_| rig.offer(class, 1_514)));
        rig.run(change);
        rig.at = rig.at.max(change);
        rig.replace_and_move(timer(), GBE, &plan(), later);
        rig.run(end);
        rig
    };
    let (at_once, moved) = (run(0), run(later));
    for class in 0..6 {
        let starts = |rig: &Rig| -> Vec<u64> {
            let starts = rig.starts(class).into_iter();
            starts.filter(|at| *at > change + 10 * later).collect()
        };
        let (expected, found) = (starts(&at_once), starts(&moved));
        assert!(expected.len() > 50, "{} packets", expected.len());
        let apart = expected.iter().zip(&found).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(
            expected.len().abs_diff(found.len()) <= 1 && apart.is_some_and(|apart| apart <= 6 * SLOT),
            "class {class}: {apart:?} byte-times apart; {} packets and {}",
            expected.len(),
            found.len()
        );
    }
}
