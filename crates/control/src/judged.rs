//! Judges the expectations of a running policy by two readings of its counters.

use crate::expectations::{ExpectationView, Metric, WatchedExpectation};
use crate::snapshot::{Delay, InterfaceView, State, Traffic};
use engine::units::Probability;

/// Judges an expectation by the counters at the beginning and at the end of its time; `now` has the
/// rates and delays of that time.
pub fn judge(of: &WatchedExpectation, before: &InterfaceView, now: &InterfaceView) -> ExpectationView {
    let none = of.not_judged();
    let unit = of.metric.unit();
    match measure(of, before, now).filter(|_| now.state == State::Enabled) {
        None => none,
        Some(value) => ExpectationView {
            measured: Some(unit.rounded(value)),
            value: Some(value),
            met: of.bounds.has(value),
            ..none
        },
    }
}

fn measure(of: &WatchedExpectation, before: &InterfaceView, now: &InterfaceView) -> Option<u64> {
    let (earlier, own) = (traffic(of, before)?, traffic(of, now)?);
    let since = |of: fn(&Traffic) -> u64| of(own).checked_sub(of(earlier));
    let delay = |of: fn(&Delay) -> u64| own.delay.as_ref().map(of);
    let part = |whole: u64| Some(Probability::ratio(own.got_bps?.min(whole), whole).parts());
    // One that asks for less than it is to get misses nothing.
    let wants_more =
        own.backlog_packets > 0 || since(|of| of.dropped_packets).is_none_or(|dropped| dropped > 0);
    let counts = |value: &u64| wants_more || of.bounds.at_least.is_none_or(|least| *value >= least);
    match of.metric {
        Metric::Rate => own.got_bps.filter(counts),
        Metric::Share => part(now.traffic.got_bps.filter(|all| *all > 0)?).filter(counts),
        Metric::Load => part(now.bandwidth_bps).filter(counts),
        Metric::DelayMean => delay(|of| of.mean_ns),
        Metric::DelayP50 => delay(|of| of.p50_ns),
        Metric::DelayP99 => delay(|of| of.p99_ns),
        Metric::DelayMax => delay(|of| of.max_ns),
        Metric::Packets => since(|of| of.sent_packets),
        Metric::Drops => since(|of| of.dropped_packets),
        Metric::Marks => since(|of| of.marked_packets),
        Metric::BacklogMax
        | Metric::BacklogP99
        | Metric::Retransmissions
        | Metric::Timeouts
        | Metric::Borrowed
        | Metric::Jain
        | Metric::InForce => None,
    }
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
    use crate::policy::Policy;
    use crate::snapshot::{ClassView, FrameCounts};
    use engine::tree::Registry;

    fn expectation(expect: &str) -> WatchedExpectation {
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"drr\"\n\
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
                gauges: Vec::new(),
            }],
            frames: FrameCounts::default(),
            expectations: Vec::new(),
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
}
