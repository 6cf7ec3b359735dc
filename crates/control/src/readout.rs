//! Text forms of a snapshot's values: drops by reason, borrowed bytes, gauges with their units; and
//! of disciplines with their settings.

use crate::autorate::AutorateView;
use crate::calendar;
use crate::experienced::{ExperienceView, QualityView, RoundTripView};
use crate::quota::QuotaView;
use crate::setting_change::assignments;
use crate::snapshot::{BORROWED, ClassView, FrameCounts, Gauge, InterfaceView, NatView, Traffic};
use engine::settings::Table;
use engine::tree::DisciplineSpec;
use measure::numbers;

/// The part of a link that a rate is.
pub fn part(bps: u64, link_bps: u64) -> f64 {
    bps as f64 / link_bps.max(1) as f64
}

/// Why packets were dropped, such as `12 full, 3 early`; empty if none were.
pub fn drops(traffic: &Traffic) -> String {
    let each = traffic.drops.iter();
    let each = each.map(|(why, n)| format!("{} {why}", numbers::count(*n)));
    each.collect::<Vec<_>>().join(", ")
}

/// What became of frames outside the queues, such as `missed 12, memory exhausted 5 times`; empty
/// if every frame reached a queue.
pub fn frames(frames: &FrameCounts) -> String {
    let counts = [
        ("missed", frames.missed),
        ("refused", frames.refused),
        ("unsent", frames.unsent),
    ];
    let counts = counts.iter().filter(|(_, n)| *n > 0);
    let mut all: Vec<String> = counts
        .map(|(what, n)| format!("{what} {}", numbers::count(*n)))
        .collect();
    if frames.exhausted > 0 {
        all.push(format!(
            "memory exhausted {} times",
            numbers::count(frames.exhausted)
        ));
    }
    all.join(", ")
}

/// How the host held packets up, such as `12 times, longest 3 ms; 85 packets late by up to 3 ms,
/// p99 without that 1 ms`; empty if it never did.
pub fn hold_ups(interface: &InterfaceView) -> String {
    let all = interface.hold_ups;
    if all.times == 0 {
        return String::new();
    }
    let times = match all.times {
        1 => "once".into(),
        n => format!("{} times", numbers::count(n)),
    };
    let mut text = format!("{times}, longest {}", numbers::time(all.longest_ns));
    if let Some(packets) = interface.traffic.held_up {
        text += &format!(
            "; {} packets late by up to {}, p99 without that {}",
            numbers::count(packets.packets),
            numbers::time(packets.longest_ns),
            numbers::time(packets.without.p99_ns)
        );
    }
    text
}

/// What connections have, such as `round trip 40 ms, p99 44 ms (10 ms ahead, 30 ms behind), 0.5 %
/// repeated, 1500 rpm, call 100, game 100, page 100`; empty if nothing was measured.
pub fn experience(of: &ExperienceView) -> String {
    let mut all = Vec::new();
    let time = |of: Option<RoundTripView>| of.map(|of| numbers::time(of.p50_ns));
    let sides = [(time(of.ahead), "ahead"), (time(of.behind), "behind")];
    let sides: Vec<String> = sides
        .into_iter()
        .filter_map(|(time, side)| Some(format!("{} {side}", time?)))
        .collect();
    let sides = sides.join(", ");
    match of.whole {
        Some(whole) => {
            let [p50, p99] = [whole.p50_ns, whole.p99_ns].map(numbers::time);
            all.push(format!("round trip {p50}, p99 {p99} ({sides})"));
        }
        None if !sides.is_empty() => all.push(format!("round trip {sides}")),
        None => {}
    }
    if of.loss > 0.0 {
        all.push(format!("{} repeated", numbers::share(of.loss)));
    }
    all.extend(of.rpm.map(|rpm| format!("{} rpm", numbers::count(rpm))));
    all.extend(of.quality.map(|of| {
        let QualityView { call, game, page } = of;
        format!("call {call}, game {game}, page {page}")
    }));
    all.join(", ")
}

/// How a rate follows its line, such as `7.6 Mbit/s of 2 Mbit/s to 20 Mbit/s, following; 1.2 ms of
/// queue beside 24 ms to 192.0.2.1`.
pub fn autorate(of: &AutorateView) -> String {
    let [rate, min, max] = [of.rate_bps, of.min_bps, of.max_bps].map(numbers::rate);
    let queue = numbers::time(of.queue_ns);
    let seen = match of.base_ns {
        Some(base) => format!("{queue} of queue beside {} to {}", numbers::time(base), of.target),
        None => format!("{} has not answered yet", of.target),
    };
    format!("{rate} of {min} to {max}, {}; {seen}", of.state)
}

/// What is known of hosts behind this one, such as `412 connections of hosts behind this one; 3
/// times no room for another, which counts as this host's own`.
pub fn nat(of: &NatView) -> String {
    let mut all = format!(
        "{} connections of hosts behind this one",
        numbers::count(of.connections)
    );
    for (times, what) in [
        (
            of.without_room,
            "no room for another, which counts as this host's own",
        ),
        (
            of.listed_again,
            "the kernel could not tell all at once, and was asked again",
        ),
    ] {
        if times > 0 {
            all.push_str(&format!("; {} times {what}", numbers::count(times)));
        }
    }
    all
}

/// How a quota stands, such as `12.5 GB of 50 GB per month, which begins anew 2026-12-01 00:00:00;
/// when used up: upperlimit = 1 Mbit/s`.
pub fn quota(of: &QuotaView) -> String {
    let [used, volume] = [of.used_bytes, of.volume_bytes].map(numbers::bytes);
    let used_up = if of.used_up { "used up: " } else { "" };
    let anew = calendar::shown(of.ends_ms);
    let then = match of.then.is_empty() {
        true => String::new(),
        false => format!("; when used up: {}", assignments(&of.then)),
    };
    format!(
        "{used_up}{used} of {volume} per {}, which begins anew {anew}{then}",
        of.per
    )
}

/// What part of its quota a class has used, such as `25 %`; empty without a quota.
pub fn quota_share(class: &ClassView) -> String {
    let share = |of: &QuotaView| of.used_bytes as f64 / of.volume_bytes.max(1) as f64;
    class
        .quota
        .as_ref()
        .map(share)
        .map(numbers::share)
        .unwrap_or_default()
}

/// The bytes that a class has borrowed; empty if none, or if its discipline does not lend.
pub fn borrowed(class: &ClassView) -> String {
    let found = class.gauges.iter().find(|gauge| gauge.name == BORROWED);
    let found = found.filter(|gauge| gauge.value.as_u64() != Some(0));
    found.map(gauge).unwrap_or_default()
}

/// Whether the interface is paced, by a realiser.
pub fn is_paced(interface: &InterfaceView) -> bool {
    interface.gauges.iter().any(|gauge| gauge.name == "realiser")
}

/// A gauge's value, formatted by its unit.
pub fn gauge(gauge: &Gauge) -> String {
    let value = &gauge.value;
    match (&*gauge.unit, value.as_u64(), value.as_f64(), value.as_str()) {
        (_, _, _, Some(text)) => text.to_owned(),
        ("B", Some(n), ..) => numbers::bytes(n),
        ("B", None, Some(x), _) => format!("-{}", numbers::bytes(x.abs() as u64)),
        ("bit/s", Some(n), ..) => numbers::rate(n),
        ("ns", Some(n), ..) => numbers::time(n),
        ("share", _, Some(x), _) => numbers::share(x),
        (_, Some(n), ..) => numbers::count(n),
        (_, None, Some(x), _) => numbers::digits(x, 4),
        _ => value.to_string(),
    }
}

/// `red ecn=true over fifo`: a discipline with its settings and what it wraps, classes aside.
pub fn discipline(spec: &DisciplineSpec) -> String {
    let mut text = spec.kind.to_string();
    let own = settings(&spec.settings, &[]);
    if !own.is_empty() {
        text = format!("{text} {own}");
    }
    match &spec.child {
        Some(child) => format!("{text} over {}", discipline(child)),
        None => text,
    }
}

/// `weight=2 quantum=3kB`: settings, but for those of these names.
pub fn settings(table: &Table, without: &[&str]) -> String {
    let shown = table
        .entries
        .iter()
        .filter(|entry| !without.contains(&&*entry.key));
    let text = shown.map(|entry| {
        let value = entry.value.to_string().replace(' ', "");
        format!("{}={value}", entry.key)
    });
    text.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_rate_follows_its_line_is_one_line() {
        let mut of = AutorateView {
            rate_bps: 7_600_000,
            min_bps: 2_000_000,
            max_bps: 20_000_000,
            state: "following".into(),
            blind: false,
            target: "192.0.2.1".into(),
            base_ns: Some(24_000_000),
            queue_ns: 1_200_000,
        };
        assert_eq!(
            autorate(&of),
            "7.6 Mbit/s of 2 Mbit/s to 20 Mbit/s, following; 1.2 ms of queue beside 24 ms to 192.0.2.1"
        );
        (of.rate_bps, of.base_ns, of.state) = (2_000_000, None, "blind: no answer".into());
        assert_eq!(
            autorate(&of),
            "2 Mbit/s of 2 Mbit/s to 20 Mbit/s, blind: no answer; 192.0.2.1 has not answered yet"
        );
    }

    #[test]
    fn the_experience_has_what_was_measured_and_no_more() {
        let trips = |ms: u64| {
            Some(RoundTripView {
                samples: 5,
                p50_ns: ms * 1_000_000,
                p99_ns: ms * 1_100_000,
            })
        };
        let mut of = ExperienceView::default();
        assert_eq!(experience(&of), "");
        of.ahead = trips(10);
        assert_eq!(experience(&of), "round trip 10 ms ahead");
        (of.behind, of.whole, of.loss) = (trips(30), trips(40), 0.005);
        assert_eq!(
            experience(&of),
            "round trip 40 ms, p99 44 ms (10 ms ahead, 30 ms behind), 0.5 % repeated"
        );
        (of.rpm, of.loss) = (Some(900), 0.0);
        of.quality = Some(QualityView {
            call: 60,
            game: 40,
            page: 95,
        });
        let told = experience(&of);
        assert!(
            told.ends_with("behind), 900 rpm, call 60, game 40, page 95"),
            "{told}"
        );
    }

    fn of_json<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
        serde_json::from_value(json).expect("a view")
    }

    #[test]
    fn drops_are_told_with_their_reasons_and_none_as_nothing() {
        let mut of = Traffic::default();
        assert_eq!(drops(&of), "");
        of.drops = [("full".into(), 12), ("early".into(), 3)].into();
        assert_eq!(drops(&of), "3 early, 12 full");
    }

    #[test]
    fn frames_that_reached_no_queue_are_told_and_others_not() {
        let mut of = FrameCounts::default();
        assert_eq!(frames(&of), "");
        of.unsent = 1;
        assert_eq!(frames(&of), "unsent 1");
        (of.missed, of.refused, of.exhausted) = (12, 2, 5);
        assert_eq!(
            frames(&of),
            "missed 12, refused 2, unsent 1, memory exhausted 5 times"
        );
    }

    /// An interface of which only this is said.
    fn interface(held_up: bool, times: u64, gauges: &[&str]) -> InterfaceView {
        let gauges = gauges.iter().map(|name| Gauge {
            name: (*name).to_owned().into(),
            value: 1.into(),
            unit: "".into(),
        });
        let without = serde_json::json!({ "mean_ns": 0, "p50_ns": 0, "p99_ns": 1_000_000, "max_ns": 0 });
        let mut view: InterfaceView = of_json(serde_json::json!({
            "name": "wan0", "state": "enabled", "error": null, "discipline": "fifo",
            "bandwidth_bps": 1, "overhead_bytes": 0, "got_bps": null, "sent_packets": 0,
            "sent_bytes": 0, "backlog_packets": 0, "backlog_bytes": 0, "delay": null,
            "dropped_packets": 0, "dropped_bytes": 0, "drops": {}, "marked_packets": 0,
            "gauges": [], "classes": [],
            "hold_ups": { "times": times, "longest_ns": 3_000_000, "all_ns": 9_000_000 },
        }));
        view.gauges = gauges.collect();
        view.traffic.held_up = held_up.then(|| {
            of_json(serde_json::json!({ "packets": 85, "longest_ns": 2_000_000, "without": without }))
        });
        view
    }

    #[test]
    fn what_the_host_held_up_is_told_with_the_packets_that_were_late() {
        let told = |held_up, times| hold_ups(&interface(held_up, times, &[]));
        assert_eq!(told(true, 0), "");
        assert_eq!(told(false, 1), "once, longest 3 ms");
        assert_eq!(
            told(true, 2),
            "2 times, longest 3 ms; 85 packets late by up to 2 ms, p99 without that 1 ms"
        );
    }

    #[test]
    fn an_interface_that_has_a_realiser_is_paced() {
        assert!(is_paced(&interface(false, 0, &["limit", "realiser"])));
        assert!(!is_paced(&interface(false, 0, &["limit"])));
        assert!(!is_paced(&interface(false, 0, &[])));
    }

    #[test]
    fn of_hosts_behind_only_what_went_wrong_is_told_beside_their_connections() {
        let mut of = NatView {
            connections: 412,
            without_room: 0,
            listed_again: 0,
        };
        assert_eq!(nat(&of), "412 connections of hosts behind this one");
        (of.without_room, of.listed_again) = (1, 2);
        assert_eq!(
            nat(&of),
            "412 connections of hosts behind this one; \
             1 times no room for another, which counts as this host's own; \
             2 times the kernel could not tell all at once, and was asked again"
        );
    }

    fn class(json: serde_json::Value) -> ClassView {
        let mut all = serde_json::json!({ "name": "calls" });
        let more = json.as_object().expect("fields").clone();
        all.as_object_mut().expect("fields").extend(more);
        of_json(all)
    }

    fn with_quota(used: u64, volume: u64) -> ClassView {
        class(serde_json::json!({ "quota": {
            "volume_bytes": volume, "per": "month", "used_bytes": used, "ends_ms": 0, "used_up": used >= volume,
        } }))
    }

    #[test]
    fn the_share_of_a_quota_is_what_was_used_of_its_volume() {
        assert_eq!(quota_share(&class(serde_json::json!({}))), "");
        assert_eq!(quota_share(&with_quota(0, 400)), "0 %");
        assert_eq!(quota_share(&with_quota(100, 400)), "25 %");
        assert_eq!(quota_share(&with_quota(500, 400)), "125 %");
        assert_eq!(quota_share(&with_quota(1, 0)), "100 %");
    }

    #[test]
    fn a_quota_is_told_with_what_comes_once_it_is_used_up() {
        let mut of = with_quota(12_500_000_000, 50_000_000_000).quota.expect("a quota");
        let anew = calendar::shown(0);
        assert_eq!(
            quota(&of),
            format!("12.5 GB of 50 GB per month, which begins anew {anew}")
        );
        of.used_up = true;
        of.then = [("rate".into(), crate::setting_change::SettingChange::Integer(7))].into();
        assert_eq!(
            quota(&of),
            format!("used up: 12.5 GB of 50 GB per month, which begins anew {anew}; when used up: rate = 7")
        );
    }

    #[test]
    fn borrowed_bytes_are_told_if_there_are_any() {
        let with = |gauges: serde_json::Value| borrowed(&class(serde_json::json!({ "gauges": gauges })));
        let of = |name: &str, n: u64| serde_json::json!({ "name": name, "value": n, "unit": "B" });
        assert_eq!(with(serde_json::json!([])), "");
        assert_eq!(with(serde_json::json!([of("lent", 5)])), "");
        assert_eq!(with(serde_json::json!([of(BORROWED, 0)])), "");
        assert_eq!(
            with(serde_json::json!([of("lent", 5), of(BORROWED, 1_500)])),
            "1.5 kB"
        );
    }

    #[test]
    fn a_gauge_is_told_in_its_unit() {
        let told = |unit: &'static str, value: serde_json::Value| {
            gauge(&Gauge {
                name: "any".into(),
                value,
                unit: unit.into(),
            })
        };
        for (unit, value, text) in [
            ("", "blocked".into(), "blocked"),
            ("B", 1_500.into(), "1.5 kB"),
            ("B", (-1_500).into(), "-1.5 kB"),
            ("bit/s", 2_000_000.into(), "2 Mbit/s"),
            ("ns", 1_200_000.into(), "1.2 ms"),
            ("share", 0.125.into(), "12.5 %"),
            ("", 20_000.into(), "20 k"),
            ("", 12.346.into(), "12.35"),
            ("", true.into(), "true"),
        ] {
            assert_eq!(told(unit, value), text, "{unit}");
        }
    }
}
