//! Delays of a flow in the lab, judged apart from what this machine held its packets up for.
//!
//! Each datagram tells how much sooner it would have come, at least, had no thread of this machine
//! been late ([`lab::hold_ups`]). Expectations are judged by the delays less that, and tell both.
//! So a hold-up excuses a packet by no more than it delayed it.
//!
//! A stamp does not tell what a packet waited behind others that came together since a link was
//! late. So packets on whose way the machine stood still ([`lab::stood_still`]) are counted apart,
//! as long as they are [few](control::judged::are_few).

use super::judge::{delay, verdict};
use super::outcome::{CountedApart, FlowHoldUps, Judgement};
use crate::language::Expectation;
use engine::units::Duration;
use lab::stood_still::StoodStill;
use measure::delay::FineDelays;

/// The delay of a packet, and how much of it was a hold-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delayed {
    /// From socket to socket.
    pub delay: Duration,
    /// How much less it would have been, at least.
    pub held: Duration,
    /// The machine stood still on its way, or just before.
    pub apart: bool,
}

impl Delayed {
    /// Of a packet that no machine held up.
    pub const fn by_itself(delay: Duration) -> Self {
        Self {
            delay,
            held: Duration::ZERO,
            apart: false,
        }
    }
}

/// Judges an expectation of these delays, by a machine that stood still at these times.
pub fn judge(
    expectation: &Expectation,
    packets: impl Iterator<Item = Delayed>,
    still: &StoodStill,
) -> Judgement {
    let (mut measured, mut without, mut others) = (
        FineDelays::default(),
        FineDelays::default(),
        FineDelays::default(),
    );
    let mut apart = CountedApart {
        times: still.count(),
        longest: still.longest(),
        ..CountedApart::default()
    };
    let (mut held, mut longest) = (0, Duration::ZERO);
    for packet in packets {
        measured.record(packet.delay);
        let own = packet.delay - packet.held;
        without.record(own);
        match packet.apart {
            true => apart.packets += 1,
            false => others.record(own),
        }
        apart.of += 1;
        held += u64::from(packet.held > Duration::ZERO);
        longest = longest.max(packet.held);
    }
    let value = delay(expectation.metric, &measured);
    apart.others = delay(expectation.metric, &others);
    let judged = if apart.are_few() { &others } else { &without };
    Judgement {
        held_up: (held + apart.packets > 0).then(|| FlowHoldUps {
            packets: held,
            longest,
            got: expectation.metric.unit().rounded(value),
            value,
            apart,
        }),
        ..verdict(expectation, delay(expectation.metric, judged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::{Metric, Subject};
    use control::expectations::Bounds;
    use engine::units::Instant;
    use measure::hold_ups::HoldUp;

    const MS: u64 = 1_000_000;

    /// Packets with these delays and hold-ups, of which the longest delay is to be 5 to 10 ms; the
    /// machine stood still on the way of the first of them.
    fn judged_apart(metric: Metric, packets: &[(u64, u64)], apart: usize) -> Judgement {
        let expectation = Expectation {
            what: "flow call".into(),
            subject: Subject::Flow(0),
            metric,
            from: Instant::START,
            to: Instant::from_nanos(1_000 * MS),
            bounds: Bounds {
                at_least: Some(5 * MS),
                at_most: Some(10 * MS),
            },
        };
        let packets = packets.iter().enumerate().map(|(n, (delay, held))| Delayed {
            delay: Duration::from_millis(*delay),
            held: Duration::from_millis(*held),
            apart: n < apart,
        });
        let stood = HoldUp {
            from: Instant::START,
            until: Instant::from_nanos(3 * MS),
        };
        let still = if apart > 0 { vec![stood] } else { Vec::new() };
        judge(&expectation, packets, &StoodStill::of(still))
    }

    fn judged(metric: Metric, packets: &[(u64, u64)]) -> Judgement {
        judged_apart(metric, packets, 0)
    }

    /// What stood behind late packets of others carries no stamp, and is left out if it is little.
    #[test]
    fn few_packets_on_whose_way_the_machine_stood_still_are_counted_apart_and_many_are_not() {
        let packets: Vec<(u64, u64)> = (0..100).map(|n| if n < 5 { (12, 0) } else { (6, 0) }).collect();
        let few = judged_apart(Metric::DelayMax, &packets, 5);
        assert!(few.met && few.value == 6 * MS, "{few:?}");
        assert_eq!(
            few.held_up.map(|held_up| held_up.words()).as_deref(),
            Some(
                "12 ms with 0 packets that this machine held up, by up to 0 ns, \
                 and apart from 5 of 100 as it stood still (1 times in all, for up to 3 ms)"
            )
        );
        assert!(
            !judged_apart(Metric::DelayMax, &packets, 4).met,
            "one more is late"
        );
        let many = judged_apart(Metric::DelayMax, &packets, 6);
        assert!(!many.met && many.value == 12 * MS, "{many:?}");
        let words = many.held_up.map(|held_up| held_up.words()).unwrap_or_default();
        assert!(
            words.ends_with("too many to judge the others alone, which had 6 ms"),
            "{words}"
        );
        // A stamp counts for those that are left.
        let late = [&[(6, 0); 99][..], &[(31, 21)]].concat();
        assert!(judged_apart(Metric::DelayMax, &late, 1).met);
        assert!(!judged_apart(Metric::DelayMax, &[&late[..], &[(31, 20)]].concat(), 1).met);
    }

    #[test]
    fn a_hold_up_excuses_a_packet_by_what_it_delayed_it_and_no_other() {
        let longest = |packets: &[(u64, u64)]| {
            let judged = judged(Metric::DelayMax, packets);
            (judged.met, judged.held_up)
        };
        assert_eq!(longest(&[(8, 0), (10, 0)]), (true, None));
        assert_eq!(longest(&[(8, 0), (11, 0)]), (false, None), "late by itself");
        let told = |packets, of, longest, got: u64, others| {
            Some(FlowHoldUps {
                packets,
                longest: Duration::from_millis(longest),
                got: format!("{got} ms"),
                value: got * MS,
                apart: CountedApart {
                    of,
                    others: others * MS,
                    ..CountedApart::default()
                },
            })
        };
        assert_eq!(longest(&[(8, 0), (31, 21)]), (true, told(1, 2, 21, 31, 10)));
        assert_eq!(
            longest(&[(8, 0), (31, 20)]),
            (false, told(1, 2, 20, 31, 11)),
            "and late"
        );
        assert_eq!(
            longest(&[(11, 0), (31, 21), (9, 2)]),
            (false, told(2, 3, 21, 31, 11)),
            "another is late by itself"
        );
        assert_eq!(
            longest(&[(9, 6)]),
            (false, told(1, 1, 6, 9, 3)),
            "too little without it"
        );
    }

    #[test]
    fn every_metric_of_delays_is_judged_so_and_says_both() {
        let packets: Vec<(u64, u64)> = (0..100).map(|n| if n < 90 { (6, 0) } else { (96, 90) }).collect();
        for metric in [Metric::DelayMean, Metric::DelayP99, Metric::DelayMax] {
            let judged = judged(metric, &packets);
            assert!(judged.met, "{judged:?}");
            let with = judged.held_up.expect("ten were").value;
            assert!(with > 10 * MS, "{metric:?}: {with}");
        }
        let judged = judged(Metric::DelayMax, &packets);
        assert_eq!(
            judged.held_up.map(|held_up| held_up.words()).as_deref(),
            Some("96 ms with 10 packets that this machine held up, by up to 90 ms")
        );
    }
}
