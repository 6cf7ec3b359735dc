//! An example snapshot for tests: a link of 20 Mbit/s with the classes `office` (`voice`, `work`)
//! and `rest`.

use control::quota::QuotaView;
use control::snapshot::{
    BASIS, ClassView, Delay, FrameCounts, Gauge, HeldUp, HostHoldUps, InterfaceView, Snapshot, State,
    Traffic, VERSION,
};

/// The snapshot.
pub fn snapshot() -> Snapshot {
    Snapshot {
        unconfined: Vec::new(),
        version: VERSION,
        policy: "office".into(),
        at_ns: 60_000_000_000,
        interval_ns: Some(1_000_000_000),
        basis: BASIS.into(),
        interfaces: vec![InterfaceView {
            name: "wan0".into(),
            state: State::Enabled,
            error: None,
            not_enforced: None,
            discipline: "cbq".into(),
            bandwidth_bps: 20_000_000,
            overhead_bytes: 0,
            mpu_bytes: 0,
            linklayer: "ethernet".into(),
            traffic: traffic(19_000_000),
            gauges: Vec::new(),
            expectations: Vec::new(),
            hosts: Vec::new(),
            autorate: None,
            nat: None,
            frames: FrameCounts {
                missed: 12,
                exhausted: 5,
                used_slots: 42,
                slots: 34_800,
                ..FrameCounts::default()
            },
            hold_ups: HostHoldUps {
                times: 3,
                longest_ns: 2_500_000,
                all_ns: 6_000_000,
            },
            classes: vec![
                class("office", None, 16_000_000, 15_000_000),
                class("voice", Some("office"), 2_000_000, 1_000_000),
                class("work", Some("office"), 14_000_000, 14_000_000),
                class("rest", None, 4_000_000, 4_000_000),
            ],
        }],
    }
}

fn class(name: &str, parent: Option<&str>, configured: u64, measured: u64) -> ClassView {
    let leaf = name != "office";
    let gauge = |name: &'static str, value: serde_json::Value, unit: &'static str| Gauge {
        name: name.into(),
        value,
        unit: unit.into(),
    };
    let gauges = if name == "work" {
        vec![
            gauge("average", 12.5.into(), ""),
            gauge("borrowed", 4_500_000.into(), "B"),
        ]
    } else {
        Vec::new()
    };
    ClassView {
        name: name.into(),
        parent: parent.map(Into::into),
        depth: usize::from(parent.is_some()),
        leaf,
        discipline: if leaf { "fifo".into() } else { String::new() },
        asked_bps: Some(configured),
        share: Some(configured as f64 / 20_000_000.0),
        traffic: traffic(measured),
        quota: (name == "work").then(quota),
        gauges,
    }
}

fn quota() -> QuotaView {
    QuotaView {
        volume_bytes: 50_000_000_000,
        per: "month".into(),
        used_bytes: 12_500_000_000,
        ends_ms: 1_796_083_200_000,
        used_up: false,
        then: Default::default(),
    }
}

fn traffic(measured: u64) -> Traffic {
    Traffic {
        offered_bps: Some(measured + 500_000),
        got_bps: Some(measured),
        sent_packets: 1_000,
        sent_bytes: 1_500_000,
        backlog_packets: 42,
        backlog_bytes: 63_000,
        delay: Some(Delay {
            mean_ns: 4_200_000,
            p50_ns: 4_000_000,
            p99_ns: 9_500_000,
            max_ns: 11_000_000,
        }),
        held_up: Some(HeldUp {
            packets: 9,
            longest_ns: 2_500_000,
            without: Delay {
                mean_ns: 4_100_000,
                p50_ns: 4_000_000,
                p99_ns: 7_500_000,
                max_ns: 9_000_000,
            },
        }),
        dropped_packets: 15,
        dropped_bytes: 22_500,
        drops: [("full".to_owned(), 12), ("early".to_owned(), 3)].into(),
        marked_packets: 7,
        experience: None,
    }
}
