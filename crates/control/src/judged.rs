//! Judges the expectations of a running policy by two readings of its counters.
//!
//! A delay is judged without what the host held packets up for, as long as that were few
//! ([`are_few`]). Both are told.

use crate::expectations::{ExpectationView, HeldUpView, Metric, WatchedExpectation};
use crate::experienced::{ExperienceView, QualityView};
use crate::snapshot::{Delay, InterfaceView, State, Traffic};
use engine::units::Probability;

/// The part of all packets, in per cent, that may be judged without what held them up. With more,
/// a policy that is late would not be told from a host that is.
const MOST_APART: u64 = 5;

/// Whether so many of these packets are few enough to judge the others alone: at most 5 %.
pub const fn are_few(packets: u64, of: u64) -> bool {
    packets * 100 <= of * MOST_APART
}

/// Judges an expectation by the counters at the beginning and at the end of its time; `now` has the
/// rates and delays of that time.
pub fn judge(of: &WatchedExpectation, before: &InterfaceView, now: &InterfaceView) -> ExpectationView {
    let none = of.not_judged();
    let unit = of.metric.unit();
    let Some(whole) = measure(of, before, now).filter(|_| now.state == State::Enabled) else {
        return none;
    };
    let apart = without(of, before, now);
    let value = match apart {
        Some((without, few, _)) if few => without,
        _ => whole,
    };
    ExpectationView {
        measured: Some(unit.rounded(value)),
        value: Some(value),
        met: of.bounds.has(value),
        held_up: apart.map(|(_, apart, (packets, longest_ns))| HeldUpView {
            packets,
            longest_ns,
            measured: unit.rounded(whole),
            value: whole,
            apart,
        }),
        ..none
    }
}

/// A delay without what the host held packets up for, if it did; whether they are few; how many
/// they are, and by how much at most.
fn without(
    of: &WatchedExpectation,
    before: &InterfaceView,
    now: &InterfaceView,
) -> Option<(u64, bool, (u64, u64))> {
    let (earlier, own) = (traffic(of, before)?, traffic(of, now)?);
    let held_up = own.held_up?;
    let value = of_delay(of.metric, &held_up.without)?;
    let sent = own.sent_packets.checked_sub(earlier.sent_packets)?;
    let few = are_few(held_up.packets, sent);
    Some((value, few, (held_up.packets, held_up.longest_ns)))
}

/// This metric of a delay; none if it is of something else.
fn of_delay(metric: Metric, delay: &Delay) -> Option<u64> {
    match metric {
        Metric::DelayMean => Some(delay.mean_ns),
        Metric::DelayP50 => Some(delay.p50_ns),
        Metric::DelayP99 => Some(delay.p99_ns),
        Metric::DelayMax => Some(delay.max_ns),
        _ => None,
    }
}

fn measure(of: &WatchedExpectation, before: &InterfaceView, now: &InterfaceView) -> Option<u64> {
    let (earlier, own) = (traffic(of, before)?, traffic(of, now)?);
    let since = |of: fn(&Traffic) -> u64| of(own).checked_sub(of(earlier));
    let part = |whole: u64| Some(Probability::ratio(own.got_bps?.min(whole), whole).parts());
    // One that asks for less than it is to get misses nothing.
    let wants_more =
        own.backlog_packets > 0 || since(|of| of.dropped_packets).is_none_or(|dropped| dropped > 0);
    let counts = |value: &u64| wants_more || of.bounds.at_least.is_none_or(|least| *value >= least);
    match of.metric {
        Metric::Rate => own.got_bps.filter(counts),
        Metric::Share => part(now.traffic.got_bps.filter(|all| *all > 0)?).filter(counts),
        Metric::Load => part(now.bandwidth_bps).filter(counts),
        Metric::DelayMean | Metric::DelayP50 | Metric::DelayP99 | Metric::DelayMax => {
            of_delay(of.metric, own.delay.as_ref()?)
        }
        Metric::Packets => since(|of| of.sent_packets),
        Metric::Drops => since(|of| of.dropped_packets),
        Metric::Marks => since(|of| of.marked_packets),
        Metric::RoundTripP50 => Some(own.experience.as_ref()?.whole?.p50_ns),
        Metric::RoundTripP99 => Some(own.experience.as_ref()?.whole?.p99_ns),
        Metric::Repeated => {
            let segments = |of: &Traffic| of.experience.as_ref().map_or(0, |of| of.segments);
            (segments(own) > segments(earlier))
                .then(|| own.experience.as_ref().map(ExperienceView::loss_parts))?
        }
        Metric::RoundTripsAMinute => own.experience.as_ref()?.rpm,
        Metric::QualityCall => quality(own, |of| of.call),
        Metric::QualityGame => quality(own, |of| of.game),
        Metric::QualityPage => quality(own, |of| of.page),
        Metric::BacklogMax
        | Metric::BacklogP99
        | Metric::Retransmissions
        | Metric::Timeouts
        | Metric::Borrowed
        | Metric::Jain
        | Metric::Bitrate
        | Metric::Switches
        | Metric::Stalls
        | Metric::Stalled
        | Metric::Startup
        | Metric::InForce => None,
    }
}

fn quality(of: &Traffic, part: fn(&QualityView) -> u8) -> Option<u64> {
    let quality = of.experience.as_ref()?.quality.as_ref()?;
    Some(part(quality).into())
}

/// The traffic that it is about; `None` if the class is not there.
fn traffic<'a>(of: &WatchedExpectation, interface: &'a InterfaceView) -> Option<&'a Traffic> {
    match &of.class {
        None => Some(&interface.traffic),
        Some(name) => {
            let class = interface.classes.iter().find(|class| class.name == *name);
            class.map(|class| &class.traffic)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experienced::RoundTripView;
    use crate::policy::Policy;
    use crate::snapshot::{ClassView, FrameCounts, HeldUp, HostHoldUps};
    use engine::tree::Registry;

    fn expectation(expect: &str) -> WatchedExpectation {
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"20 Mbit/s\"\nexperience = \"classes\"\ndiscipline = \"drr\"\n\
             [[interface.wan0.class]]\nname = \"calls\"\ndefault = true\n[[interface.wan0.expect]]\n{expect}\n"
        );
        let read = Policy::read("test.toml", &text, &Registry::builtin(), &[]);
        read.expect("a policy").interfaces[0].expectations[0].clone()
    }

    fn traffic(got_bps: u64, sent_packets: u64) -> Traffic {
        Traffic {
            got_bps: Some(got_bps),
            sent_packets,
            delay: (sent_packets > 0).then_some(Delay {
                mean_ns: 1,
                p50_ns: 2,
                p99_ns: 30_000_000,
                max_ns: 40_000_000,
            }),
            ..Traffic::default()
        }
    }

    fn view(traffic: Traffic, state: State) -> InterfaceView {
        InterfaceView {
            name: "wan0".into(),
            state,
            error: None,
            not_enforced: None,
            discipline: "drr".into(),
            bandwidth_bps: 20_000_000,
            overhead_bytes: 0,
            mpu_bytes: 0,
            linklayer: "ethernet".into(),
            traffic: Traffic {
                got_bps: Some(10_000_000),
                ..traffic.clone()
            },
            gauges: Vec::new(),
            classes: vec![ClassView {
                name: "calls".into(),
                parent: None,
                depth: 0,
                leaf: true,
                discipline: "fifo".into(),
                asked_bps: None,
                share: None,
                traffic,
                quota: None,
                gauges: Vec::new(),
            }],
            frames: FrameCounts::default(),
            hold_ups: HostHoldUps::default(),
            expectations: Vec::new(),
            hosts: Vec::new(),
            autorate: None,
            nat: None,
        }
    }

    /// What connections had in the time is judged, each figure by its own bounds; without any there
    /// is nothing to judge.
    #[test]
    fn the_experience_of_connections_is_judged() {
        let experience = ExperienceView {
            whole: Some(RoundTripView {
                samples: 9,
                p50_ns: 40_000_000,
                p99_ns: 90_000_000,
            }),
            segments: 1_000,
            loss: 0.02,
            rpm: Some(900),
            quality: Some(QualityView {
                call: 60,
                game: 40,
                page: 95,
            }),
            ..ExperienceView::default()
        };
        let with = |experience| {
            view(
                Traffic {
                    experience,
                    ..traffic(5_000_000, 600)
                },
                State::Enabled,
            )
        };
        let (none, now) = (with(None), with(Some(experience)));
        for (expect, met) in [
            ("metric = \"round-trip-p50\"\nat_most = \"40 ms\"", true),
            ("metric = \"round-trip-p50\"\nat_most = \"39 ms\"", false),
            (
                "metric = \"round-trip-p99\"\nwithin = [\"90 ms\", \"90 ms\"]",
                true,
            ),
            ("metric = \"repeated\"\nwithin = [\"1.9 %\", \"2.1 %\"]", true),
            ("metric = \"repeated\"\nat_most = \"1 %\"", false),
            ("metric = \"rpm\"\nat_least = 901", false),
            ("metric = \"rpm\"\nwithin = [900, 900]", true),
            ("metric = \"quality-call\"\nwithin = [60, 60]", true),
            ("metric = \"quality-game\"\nat_least = 41", false),
            ("metric = \"quality-page\"\nat_least = 95", true),
        ] {
            let expect = format!("class = \"calls\"\n{expect}");
            let (is, measured) = judged(&expect, &none, &now);
            assert_eq!(is, met, "{expect}: {measured:?}");
            assert!(measured.is_some(), "{expect}");
            assert_eq!(judged(&expect, &none, &none), (true, None), "{expect}");
        }
    }

    fn judged(expect: &str, before: &InterfaceView, now: &InterfaceView) -> (bool, Option<String>) {
        let view = judge(&expectation(expect), before, now);
        (view.met, view.measured)
    }

    #[test]
    fn what_was_measured_is_judged_from_both_sides() {
        let before = view(traffic(0, 100), State::Enabled);
        let now = view(traffic(5_000_000, 600), State::Enabled);
        for (expect, met) in [
            (
                "class = \"calls\"\nmetric = \"rate\"\nat_most = \"5 Mbit/s\"",
                true,
            ),
            (
                "class = \"calls\"\nmetric = \"rate\"\nat_most = \"4 Mbit/s\"",
                false,
            ),
            ("class = \"calls\"\nmetric = \"share\"\nat_most = \"50 %\"", true),
            ("class = \"calls\"\nmetric = \"share\"\nat_most = \"49 %\"", false),
            ("metric = \"load\"\nat_most = \"49 %\"", false),
            ("metric = \"packets\"\nwithin = [500, 500]", true),
            ("metric = \"packets\"\nat_least = 501", false),
            ("metric = \"delay-p99\"\nwithin = [\"30 ms\", \"30 ms\"]", true),
            ("metric = \"delay-max\"\nat_most = \"30 ms\"", false),
            ("metric = \"drops\"\nat_most = 0", true),
        ] {
            let (is, measured) = judged(expect, &before, &now);
            assert_eq!(is, met, "{expect}: {measured:?}");
            assert!(measured.is_some(), "{expect}");
        }
    }

    /// A class that has nothing more to send misses no lower bound of its rate; one with a backlog,
    /// or that lost packets, does.
    #[test]
    fn a_lower_bound_of_a_rate_is_judged_where_more_is_asked_for() {
        let expect = "class = \"calls\"\nmetric = \"rate\"\nat_least = \"6 Mbit/s\"";
        let before = view(traffic(0, 100), State::Enabled);
        let both = "class = \"calls\"\nmetric = \"rate\"\nwithin = [\"1 Mbit/s\", \"4 Mbit/s\"]";
        let much = view(traffic(5_000_000, 600), State::Enabled);
        assert!(
            !judged(both, &before, &much).0,
            "too much is too much of an idle class as well"
        );
        let now = |backlog_packets, dropped_packets| {
            let traffic = Traffic {
                backlog_packets,
                dropped_packets,
                ..traffic(5_000_000, 600)
            };
            judged(expect, &before, &view(traffic, State::Enabled)).0
        };
        assert!(now(0, 0));
        assert!(!now(1, 0));
        assert!(!now(0, 1));
    }

    /// A host that holds up few packets is told from a policy that is late; one that holds up many
    /// is not.
    #[test]
    fn a_delay_is_judged_without_few_packets_that_were_held_up_and_both_are_told() {
        let before = view(traffic(0, 100), State::Enabled);
        let judged = |packets, p99_ns, expect| {
            let without = Delay {
                mean_ns: 1,
                p50_ns: 2,
                p99_ns,
                max_ns: p99_ns,
            };
            let late = Traffic {
                held_up: Some(HeldUp {
                    packets,
                    longest_ns: 28_000_000,
                    without,
                }),
                ..traffic(5_000_000, 600)
            };
            judge(&expectation(expect), &before, &view(late, State::Enabled))
        };
        let most = "class = \"calls\"\nmetric = \"delay-p99\"\nat_most = \"10 ms\"";
        let met = judged(25, 2_000_000, most);
        assert!(met.met && met.value == Some(2_000_000), "{met:?}");
        assert_eq!(
            met.to_string(),
            "class calls: delay-p99 over 10 s: expected at most 10 ms, measured 2 ms; \
             30 ms with 25 packets that the host held up, by up to 28 ms"
        );
        assert!(
            !judged(25, 11_000_000, most).met,
            "the others are late by themselves"
        );
        let many = judged(26, 2_000_000, most);
        assert!(!many.met && many.value == Some(30_000_000), "{many:?}");
        assert!(many.to_string().ends_with(
            "measured 30 ms; with 26 packets that the host held up, by up to 28 ms: too many to judge without them"
        ));
        let of_others = judged(25, 2_000_000, "metric = \"packets\"\nat_most = 500");
        assert!(of_others.met && of_others.held_up.is_none(), "no delay");
    }

    #[test]
    fn what_cannot_be_judged_is_not_missed() {
        let expect = "class = \"calls\"\nmetric = \"delay-p99\"\nat_most = \"1 ms\"";
        let before = view(traffic(0, 0), State::Enabled);
        let idle = view(traffic(0, 0), State::Enabled);
        assert_eq!(judged(expect, &before, &idle), (true, None), "no packets");
        let disabled = view(traffic(5, 9), State::Disabled);
        assert_eq!(
            judged(expect, &before, &disabled),
            (true, None),
            "the policy is disabled"
        );
        let mut gone = view(traffic(5, 9), State::Enabled);
        gone.classes.clear();
        assert_eq!(judged(expect, &before, &gone), (true, None), "the class has gone");
    }

    #[test]
    fn a_share_is_of_what_was_sent_and_of_nothing_there_is_none() {
        let expect = "class = \"calls\"\nmetric = \"share\"\nat_most = \"100 %\"";
        let before = view(traffic(0, 100), State::Enabled);
        let of = |all: u64| {
            let mut now = view(traffic(5, 600), State::Enabled);
            now.traffic.got_bps = Some(all);
            judged(expect, &before, &now)
        };
        assert_eq!(of(0), (true, None));
        assert_eq!(of(1), (true, Some("100 %".into())));
        assert_eq!(of(10), (true, Some("50 %".into())));
    }

    #[test]
    fn what_was_repeated_is_judged_if_there_were_segments() {
        let expect = "class = \"calls\"\nmetric = \"repeated\"\nat_most = \"1 %\"";
        let with = |segments| {
            let experience = Some(ExperienceView {
                segments,
                loss: 0.02,
                ..ExperienceView::default()
            });
            view(
                Traffic {
                    experience,
                    ..traffic(5_000_000, 600)
                },
                State::Enabled,
            )
        };
        assert!(!judged(expect, &with(10), &with(11)).0);
        assert_eq!(judged(expect, &with(10), &with(10)), (true, None));
        assert_eq!(judged(expect, &with(10), &with(9)), (true, None));
    }
}
