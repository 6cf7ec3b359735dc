//! The counters of a running suimon as OpenMetrics text, which Prometheus reads.
//!
//! Base units, as Prometheus advises: bytes and seconds. The labels are `interface`, `class` and,
//! of drops, `reason`; the address of a host is one only where [`HostMetrics`] asks for it. Delays
//! are those since the start, which the program keeps as percentiles.

use crate::experience_metrics::{ExperienceMetrics, HostMetrics, NANOS, set};
use control::autorate::AutorateView;
use control::snapshot::{ClassView, InterfaceView, NatView, Snapshot, Traffic};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::atomic::AtomicU64;

/// The type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const BITS: f64 = 8.0;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfInterface {
    interface: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfExpectation {
    interface: String,
    expectation: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfClass {
    interface: String,
    class: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfDrop {
    interface: String,
    class: String,
    reason: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfPercentile {
    interface: String,
    class: String,
    percentile: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfFrame {
    interface: String,
    fate: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfProgram {
    version: &'static str,
    policy: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfHost {
    interface: String,
    host: String,
}

type Count<L> = Family<L, Counter>;
type Level<L> = Family<L, Gauge<f64, AtomicU64>>;

/// Every metric.
#[derive(Default)]
struct Metrics {
    info: Level<OfProgram>,
    enforced: Level<OfInterface>,
    expectation_met: Level<OfExpectation>,
    bandwidth: Level<OfInterface>,
    frames: Count<OfFrame>,
    slots_used: Level<OfInterface>,
    slots: Level<OfInterface>,
    rate: Level<OfClass>,
    packets: Count<OfClass>,
    bytes: Count<OfClass>,
    dropped: Count<OfDrop>,
    marked: Count<OfClass>,
    backlog_packets: Level<OfClass>,
    backlog_bytes: Level<OfClass>,
    delay: Level<OfPercentile>,
    hold_ups: Count<OfInterface>,
    held_up_seconds: Level<OfInterface>,
    held_up_packets: Count<OfClass>,
    delay_without: Level<OfPercentile>,
    quota_bytes: Level<OfClass>,
    quota_used_bytes: Level<OfClass>,
    quota_ends_seconds: Level<OfClass>,
    classes: ExperienceMetrics<OfClass>,
    hosts: ExperienceMetrics<OfHost>,
    autorate: Level<OfInterface>,
    autorate_queue: Level<OfInterface>,
    autorate_blind: Level<OfInterface>,
    nat_connections: Level<OfInterface>,
    nat_without_room: Count<OfInterface>,
    nat_listed_again: Count<OfInterface>,
}

/// The text.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub fn text(now: &Snapshot, hosts: HostMetrics) -> Result<String, fmt::Error> {
    let metrics = Metrics::default();
    let program = OfProgram {
        version: env!("CARGO_PKG_VERSION"),
        policy: now.policy.clone(),
    };
    metrics.info.get_or_create(&program).set(1.0);
    now.interfaces
        .iter()
        .for_each(|interface| metrics.interface(interface));
    if hosts == HostMetrics::ByAddress {
        now.interfaces
            .iter()
            .for_each(|interface| metrics.hosts(interface));
    }
    let mut out = String::new();
    text::encode(&mut out, &metrics.registered())?;
    Ok(out)
}

impl Metrics {
    /// Where each has its name and its help. Counters get `_total` behind their names.
    fn registered(&self) -> Registry {
        let mut all = Registry::with_prefix("suimon");
        let registry = &mut all;
        registry.register(
            "build_info",
            "The program's version, and its policy's name; always 1",
            self.info.clone(),
        );
        registry.register(
            "enforced",
            "Whether the policy of the interface is enforced",
            self.enforced.clone(),
        );
        registry.register(
            "expectation_met",
            "Whether the policy keeps what it is expected to, by the last time that has ended",
            self.expectation_met.clone(),
        );
        registry.register(
            "interface_bandwidth_bytes_per_second",
            "The rate of the link by the policy",
            self.bandwidth.clone(),
        );
        registry.register(
            "interface_unqueued_frames",
            "Frames that reached no queue",
            self.frames.clone(),
        );
        registry.register(
            "memory_frames_used",
            "Memory for frames in use, of all interfaces",
            self.slots_used.clone(),
        );
        registry.register(
            "memory_frames",
            "Memory for frames, of all interfaces",
            self.slots.clone(),
        );
        registry.register(
            "class_configured_bytes_per_second",
            "The rate that the policy gives the class",
            self.rate.clone(),
        );
        registry.register("class_packets", "Packets sent", self.packets.clone());
        registry.register("class_bytes", "Bytes sent, by frames", self.bytes.clone());
        registry.register("class_dropped_packets", "Packets dropped", self.dropped.clone());
        registry.register(
            "class_marked_packets",
            "Packets marked (ECN)",
            self.marked.clone(),
        );
        registry.register(
            "class_backlog_packets",
            "Packets queued",
            self.backlog_packets.clone(),
        );
        registry.register("class_backlog_bytes", "Bytes queued", self.backlog_bytes.clone());
        registry.register(
            "class_delay_seconds",
            "Queueing delay since the start; 1 is the longest",
            self.delay.clone(),
        );
        self.register_hold_ups(registry);
        self.register_quotas(registry);
        self.classes.register("class", registry);
        self.hosts.register("host", registry);
        self.register_autorate(registry);
        self.register_nat(registry);
        all
    }

    fn register_hold_ups(&self, registry: &mut Registry) {
        registry.register(
            "hold_ups",
            "How often the host let the packet loops run late by more than a millisecond",
            self.hold_ups.clone(),
        );
        registry.register(
            "longest_hold_up_seconds",
            "The longest of these times",
            self.held_up_seconds.clone(),
        );
        registry.register(
            "class_held_up_packets",
            "Packets that were late for that",
            self.held_up_packets.clone(),
        );
        registry.register(
            "class_delay_without_hold_ups_seconds",
            "Queueing delay since the start, less what the host held packets up for; absent if it held none up",
            self.delay_without.clone(),
        );
    }

    fn register_quotas(&self, registry: &mut Registry) {
        registry.register(
            "class_quota_bytes",
            "What the class may carry in the day, week or month",
            self.quota_bytes.clone(),
        );
        registry.register(
            "class_quota_used_bytes",
            "What it has carried since that began, in both directions",
            self.quota_used_bytes.clone(),
        );
        registry.register(
            "class_quota_ends_timestamp_seconds",
            "When it begins anew, in seconds since 1970",
            self.quota_ends_seconds.clone(),
        );
    }

    fn register_nat(&self, registry: &mut Registry) {
        registry.register(
            "nat_connections",
            "Connections of hosts behind this one that are told apart",
            self.nat_connections.clone(),
        );
        registry.register(
            "nat_connections_without_room",
            "How often one found no room, and counts as this host's own",
            self.nat_without_room.clone(),
        );
        registry.register(
            "nat_listed_again",
            "How often the kernel could not tell all that happened, and was asked for all",
            self.nat_listed_again.clone(),
        );
    }

    fn nat(&self, interface: &OfInterface, of: &NatView) {
        self.nat_connections
            .get_or_create(interface)
            .set(of.connections as f64);
        set(&self.nat_without_room.get_or_create(interface), of.without_room);
        set(&self.nat_listed_again.get_or_create(interface), of.listed_again);
    }

    fn register_autorate(&self, registry: &mut Registry) {
        registry.register(
            "autorate_bytes_per_second",
            "What is sent at most now on a line that varies",
            self.autorate.clone(),
        );
        registry.register(
            "autorate_queue_seconds",
            "By how much the last round trip over the line was longer than without a queue",
            self.autorate_queue.clone(),
        );
        registry.register(
            "autorate_blind",
            "Whether it is not seen what the line carries",
            self.autorate_blind.clone(),
        );
    }

    fn autorate(&self, interface: &OfInterface, of: &AutorateView) {
        for (family, value) in [
            (&self.autorate, of.rate_bps as f64 / BITS),
            (&self.autorate_queue, of.queue_ns as f64 / NANOS),
            (&self.autorate_blind, f64::from(u8::from(of.blind))),
        ] {
            family.get_or_create(interface).set(value);
        }
    }

    fn interface(&self, of: &InterfaceView) {
        let interface = || OfInterface {
            interface: of.name.clone(),
        };
        let enforced = of.not_enforced.is_none();
        self.enforced
            .get_or_create(&interface())
            .set(f64::from(u8::from(enforced)));
        for expectation in &of.expectations {
            let label = OfExpectation {
                interface: of.name.clone(),
                expectation: format!("{}: {}", expectation.what, expectation.expected),
            };
            let met = f64::from(u8::from(expectation.met));
            self.expectation_met.get_or_create(&label).set(met);
        }
        self.bandwidth
            .get_or_create(&interface())
            .set(of.bandwidth_bps as f64 / BITS);
        if let Some(autorate) = &of.autorate {
            self.autorate(&interface(), autorate);
        }
        if let Some(nat) = &of.nat {
            self.nat(&interface(), nat);
        }
        self.slots_used
            .get_or_create(&interface())
            .set(of.frames.used_slots as f64);
        self.slots.get_or_create(&interface()).set(of.frames.slots as f64);
        for (fate, count) in [
            ("missed", of.frames.missed),
            ("refused", of.frames.refused),
            ("unsent", of.frames.unsent),
        ] {
            let frame = OfFrame {
                interface: of.name.clone(),
                fate,
            };
            set(&self.frames.get_or_create(&frame), count);
        }
        set(&self.hold_ups.get_or_create(&interface()), of.hold_ups.times);
        let longest = of.hold_ups.longest_ns as f64 / NANOS;
        self.held_up_seconds.get_or_create(&interface()).set(longest);
        if of.classes.is_empty() {
            // A discipline without classes.
            self.traffic(&of.name, "", &of.traffic);
        }
        of.classes.iter().for_each(|class| self.class(&of.name, class));
    }

    fn hosts(&self, of: &InterfaceView) {
        for host in &of.hosts {
            let label = OfHost {
                interface: of.name.clone(),
                host: host.address.to_string(),
            };
            self.hosts.tell(&label, &host.experience);
        }
    }

    fn class(&self, interface: &str, class: &ClassView) {
        if let Some(rate) = class.asked_bps {
            self.rate
                .get_or_create(&of_class(interface, &class.name))
                .set(rate as f64 / BITS);
        }
        if let Some(quota) = &class.quota {
            let of = of_class(interface, &class.name);
            for (family, value) in [
                (&self.quota_bytes, quota.volume_bytes as f64),
                (&self.quota_used_bytes, quota.used_bytes as f64),
                (&self.quota_ends_seconds, quota.ends_ms as f64 / 1e3),
            ] {
                family.get_or_create(&of).set(value);
            }
        }
        // What an interior class has is that of its leaves, and would be counted twice.
        if class.leaf {
            self.traffic(interface, &class.name, &class.traffic);
        }
    }

    fn traffic(&self, interface: &str, class: &str, traffic: &Traffic) {
        let of = of_class(interface, class);
        set(&self.packets.get_or_create(&of), traffic.sent_packets);
        set(&self.bytes.get_or_create(&of), traffic.sent_bytes);
        set(&self.marked.get_or_create(&of), traffic.marked_packets);
        self.backlog_packets
            .get_or_create(&of)
            .set(traffic.backlog_packets as f64);
        self.backlog_bytes
            .get_or_create(&of)
            .set(traffic.backlog_bytes as f64);
        for (reason, count) in &traffic.drops {
            let drop = OfDrop {
                interface: interface.into(),
                class: class.into(),
                reason: reason.clone(),
            };
            set(&self.dropped.get_or_create(&drop), *count);
        }
        let packets = traffic.held_up.map_or(0, |held_up| held_up.packets);
        set(&self.held_up_packets.get_or_create(&of), packets);
        let without = traffic.held_up.map(|held_up| held_up.without);
        for (family, delay) in [(&self.delay, traffic.delay), (&self.delay_without, without)] {
            let Some(delay) = delay else { continue };
            for (percentile, nanos) in [("50", delay.p50_ns), ("99", delay.p99_ns), ("100", delay.max_ns)] {
                let of = OfPercentile {
                    interface: interface.into(),
                    class: class.into(),
                    percentile,
                };
                family.get_or_create(&of).set(nanos as f64 / NANOS);
            }
        }
        if let Some(experience) = &traffic.experience {
            self.classes.tell(&of, experience);
        }
    }
}

fn of_class(interface: &str, class: &str) -> OfClass {
    OfClass {
        interface: interface.into(),
        class: class.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const STATUS: &str = r#"{"version":1,"policy":"home","at_ns":5,"interval_ns":null,"basis":"frame","interfaces":[
        {"name":"wan0","state":"enabled","error":null,"not_enforced":"it is down","discipline":"cbq",
         "bandwidth_bps":20000000,"overhead_bytes":0,"got_bps":null,"sent_packets":7,"sent_bytes":700,
         "backlog_packets":0,"backlog_bytes":0,"delay":null,"dropped_packets":0,"dropped_bytes":0,"drops":{},
         "marked_packets":0,"gauges":[],
         "frames":{"missed":3,"refused":0,"unsent":0,"exhausted":0,"used_slots":2,"slots":100},
         "hold_ups":{"times":6,"longest_ns":3000000,"all_ns":9000000},
         "expectations":[{"what":"class all: drops over 10 s","expected":"at most 0","measured":"3","value":3,"unit":"","met":false}],
         "classes":[
            {"name":"all","asked_bps":8000000,"sent_packets":7,"sent_bytes":700},
            {"name":"a \"b\"","parent":"all","depth":1,"leaf":true,"asked_bps":4000000,"sent_packets":7,"sent_bytes":700,
             "delay":{"mean_ns":1,"p50_ns":500000,"p99_ns":2000000,"max_ns":3000000000},
             "held_up":{"packets":2,"longest_ns":3000000,"without":{"mean_ns":1,"p50_ns":500000,"p99_ns":1000000,"max_ns":2000000000}},
             "drops":{"full":4},"dropped_packets":4,
             "quota":{"volume_bytes":50000000000,"per":"month","used_bytes":1200000000,"ends_ms":1796083200000,"used_up":false},
             "experience":{"ahead":{"samples":3,"p50_ns":10000000,"p99_ns":30000000},"offered_bytes":5,
              "segments":90,"repeated":9,"loss":0.1,"rpm":1200,"quality":{"call":1,"game":2,"page":99}}}],
         "autorate":{"rate_bps":7600000,"min_bps":2000000,"max_bps":20000000,"state":"following","blind":false,
          "target":"10.1.2.4","base_ns":24000000,"queue_ns":1500000},
         "nat":{"connections":12,"without_room":3,"listed_again":1},
         "hosts":[{"address":"10.1.2.3","offered_bytes":5,"segments":90,"repeated":9,"loss":0.1,"rpm":600,
           "whole":{"samples":3,"p50_ns":20000000,"p99_ns":40000000}}]}]}"#;

    #[test]
    fn counters_levels_and_delays_are_in_base_units_and_a_sum_counts_once() {
        let now: Snapshot = serde_json::from_str(STATUS).expect("a status");
        let text = text(&now, HostMetrics::Absent).expect("a text");
        for line in [
            "suimon_enforced{interface=\"wan0\"} 0.0",
            "suimon_expectation_met{interface=\"wan0\",expectation=\"class all: drops over 10 s: at most 0\"} 0.0",
            "suimon_interface_bandwidth_bytes_per_second{interface=\"wan0\"} 2500000.0",
            "suimon_interface_unqueued_frames_total{interface=\"wan0\",fate=\"missed\"} 3",
            "suimon_class_configured_bytes_per_second{interface=\"wan0\",class=\"all\"} 1000000.0",
            "suimon_hold_ups_total{interface=\"wan0\"} 6",
            "suimon_longest_hold_up_seconds{interface=\"wan0\"} 0.003",
            "suimon_class_held_up_packets_total{interface=\"wan0\",class=\"a \\\"b\\\"\"} 2",
            "suimon_class_delay_without_hold_ups_seconds{interface=\"wan0\",class=\"a \\\"b\\\"\",percentile=\"99\"} 0.001",
            "suimon_class_bytes_total{interface=\"wan0\",class=\"a \\\"b\\\"\"} 700",
            "suimon_class_dropped_packets_total{interface=\"wan0\",class=\"a \\\"b\\\"\",reason=\"full\"} 4",
            "suimon_class_delay_seconds{interface=\"wan0\",class=\"a \\\"b\\\"\",percentile=\"99\"} 0.002",
            "suimon_class_delay_seconds{interface=\"wan0\",class=\"a \\\"b\\\"\",percentile=\"100\"} 3.0",
            "suimon_class_round_trip_seconds{interface=\"wan0\",class=\"a \\\"b\\\"\",side=\"ahead\",percentile=\"99\"} 0.03",
            "suimon_class_quota_bytes{interface=\"wan0\",class=\"a \\\"b\\\"\"} 50000000000.0",
            "suimon_class_quota_used_bytes{interface=\"wan0\",class=\"a \\\"b\\\"\"} 1200000000.0",
            "suimon_class_quota_ends_timestamp_seconds{interface=\"wan0\",class=\"a \\\"b\\\"\"} 1796083200.0",
            "suimon_autorate_bytes_per_second{interface=\"wan0\"} 950000.0",
            "suimon_autorate_queue_seconds{interface=\"wan0\"} 0.0015",
            "suimon_autorate_blind{interface=\"wan0\"} 0.0",
            "suimon_nat_connections{interface=\"wan0\"} 12.0",
            "suimon_nat_connections_without_room_total{interface=\"wan0\"} 3",
            "suimon_nat_listed_again_total{interface=\"wan0\"} 1",
            "suimon_class_tcp_offered_bytes_total{interface=\"wan0\",class=\"a \\\"b\\\"\"} 5",
            "suimon_class_tcp_repeated_segments_total{interface=\"wan0\",class=\"a \\\"b\\\"\"} 9",
            "suimon_class_round_trips_per_minute{interface=\"wan0\",class=\"a \\\"b\\\"\"} 1200.0",
            "suimon_class_quality_of_outcome{interface=\"wan0\",class=\"a \\\"b\\\"\",application=\"page\"} 99.0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(
            !text.contains("class_bytes_total{interface=\"wan0\",class=\"all\""),
            "{text}"
        );
        assert!(
            !text.contains("10.1.2."),
            "an address of a host is a label: {text}"
        );
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    /// A host has what `status --json` has of it, under its address, and only if that is asked for.
    #[test]
    fn hosts_are_told_apart_only_where_that_is_asked_for() {
        let now: Snapshot = serde_json::from_str(STATUS).expect("a status");
        let without = text(&now, HostMetrics::Absent).expect("a text");
        assert!(
            !without.contains("suimon_host_") || !without.contains("host=\""),
            "{without}"
        );
        let with = text(&now, HostMetrics::ByAddress).expect("a text");
        let of = "{interface=\"wan0\",host=\"10.1.2.3\"";
        let told: Vec<&str> = with.lines().filter(|line| line.contains("host=")).collect();
        let expected = [
            format!("suimon_host_round_trip_seconds{of},side=\"whole\",percentile=\"50\"}} 0.02"),
            format!("suimon_host_round_trip_seconds{of},side=\"whole\",percentile=\"99\"}} 0.04"),
            format!("suimon_host_tcp_offered_bytes_total{of}}} 5"),
            format!("suimon_host_tcp_segments_total{of}}} 90"),
            format!("suimon_host_tcp_repeated_segments_total{of}}} 9"),
            format!("suimon_host_round_trips_per_minute{of}}} 600.0"),
        ];
        let told: BTreeSet<&str> = told.into_iter().collect();
        assert_eq!(told, expected.iter().map(String::as_str).collect());
        let others = |text: &str| -> BTreeSet<String> {
            let lines = text.lines().filter(|line| !line.contains("suimon_host_"));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(others(&without), others(&with), "nothing else changes");
    }

    #[test]
    fn the_board_and_the_alerts_ask_for_metrics_that_there_are() {
        let now: Snapshot = serde_json::from_str(STATUS).expect("a status");
        let text = text(&now, HostMetrics::Absent).expect("a text");
        let there: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("suimon_")?.split(['{', ' ']).next())
            .collect();
        for file in [
            include_str!("../../../packaging/monitoring/grafana-suimon.json"),
            include_str!("../../../packaging/monitoring/suimon.rules.yml"),
        ] {
            let asked: BTreeSet<&str> = file
                .split("suimon_")
                .skip(1)
                .filter_map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next())
                .collect();
            assert!(asked.len() > 5, "{asked:?}");
            let unknown: Vec<_> = asked.difference(&there).collect();
            assert!(unknown.is_empty(), "{unknown:?} are not among {there:?}");
        }
        let board = include_str!("../../../packaging/monitoring/grafana-suimon.json");
        serde_json::from_str::<serde_json::Value>(board).expect("JSON");
    }
}
