//! Delays of a flow in the lab, judged apart from what this machine held its packets up for.
//!
//! Each datagram tells how much sooner it would have come, at least, had no thread of this machine
//! been late ([`lab::hold_ups`]). Expectations are judged by the delays less that, and tell both.
//! So a hold-up excuses a packet by no more than it delayed it.

use super::judge::{delay, verdict};
use super::outcome::{HoldUps, Judgement};
use crate::language::Expectation;
use engine::units::Duration;
use measure::delay::Delays;

/// The delay of a packet, and how much of it was a hold-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delayed {
    /// From socket to socket.
    pub delay: Duration,
    /// How much less it would have been, at least.
    pub held: Duration,
}

/// Judges an expectation of these delays.
pub fn judge(expectation: &Expectation, packets: impl Iterator<Item = Delayed>) -> Judgement {
    let (mut measured, mut without) = (Delays::default(), Delays::default());
    let (mut held, mut longest) = (0, Duration::ZERO);
    for packet in packets {
        measured.record(packet.delay);
        without.record(packet.delay - packet.held);
        held += u64::from(packet.held > Duration::ZERO);
        longest = longest.max(packet.held);
    }
    let value = delay(expectation.metric, &measured);
    Judgement {
        held_up: (held > 0).then(|| HoldUps {
            packets: held,
            longest,
            got: expectation.metric.unit().rounded(value),
            value,
        }),
        ..verdict(expectation, delay(expectation.metric, &without))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::{Metric, Subject};
    use control::expectations::Bounds;
    use engine::units::Instant;

    const MS: u64 = 1_000_000;

    /// Packets with these delays and hold-ups, of which the longest delay is to be 5 to 10 ms.
    fn judged(metric: Metric, packets: &[(u64, u64)]) -> Judgement {
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
        let packets = packets.iter().map(|(delay, held)| Delayed {
            delay: Duration::from_millis(*delay),
            held: Duration::from_millis(*held),
        });
        judge(&expectation, packets)
    }

    #[test]
    fn a_hold_up_excuses_a_packet_by_what_it_delayed_it_and_no_other() {
        let longest = |packets: &[(u64, u64)]| {
            let judged = judged(Metric::DelayMax, packets);
            (judged.met, judged.held_up)
        };
        assert_eq!(longest(&[(8, 0), (10, 0)]), (true, None));
        assert_eq!(longest(&[(8, 0), (11, 0)]), (false, None), "late by itself");
        let told = |packets, longest, got: u64| {
            Some(HoldUps {
                packets,
                longest: Duration::from_millis(longest),
                got: format!("{got} ms"),
                value: got * MS,
            })
        };
        assert_eq!(longest(&[(8, 0), (31, 21)]), (true, told(1, 21, 31)));
        assert_eq!(longest(&[(8, 0), (31, 20)]), (false, told(1, 20, 31)), "and late");
        assert_eq!(
            longest(&[(11, 0), (31, 21), (9, 2)]),
            (false, told(2, 21, 31)),
            "another is late by itself"
        );
        assert_eq!(
            longest(&[(9, 6)]),
            (false, told(1, 6, 9)),
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
