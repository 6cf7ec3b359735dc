//! What a snapshot has of an interface without classes, and what its JSON may leave out.

use control::policy::Policy;
use control::protocol::Request;
use control::snapshot::{
    ClassReading, ClassView, ExperienceOfInterface, InterfaceReading, InterfaceView, Reading, Snapshot,
    StatusDetail,
};
use engine::inspect::View;
use engine::packet::ClassId;
use engine::queue::{Count, Stats};
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use measure::delay::Delays;
use measure::hold_ups::HoldUps;
use measure::round_trips::ExperienceCounts;
use std::collections::HashMap;
use std::sync::Arc;

/// A reading of a queue without classes after so many seconds, which has sent so much, with delays
/// of so many milliseconds.
fn reading(seconds: u64, (packets, bytes): (u64, u64), delays_ms: &[u64]) -> Reading {
    let text = "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"fifo\"\n";
    let read = Policy::read("test", text, &Registry::builtin(), &[]);
    let mut policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
    let bytes = Bytes::new(bytes);
    let sent = Count { packets, bytes };
    let mut delays = Delays::default();
    delays_ms
        .iter()
        .for_each(|ms| delays.record(Duration::from_millis(*ms)));
    let class = |class, delays| ClassReading {
        class: ClassId(class),
        sent,
        short: Count::default(),
        delays,
        held_up: None,
    };
    let interface = InterfaceReading {
        totals: Stats {
            offered: sent,
            sent,
            ..Stats::default()
        },
        views: vec![View::default()],
        classes: vec![class(0, delays)],
        ..InterfaceReading::of(Arc::new(policy.interfaces.remove(0)))
    };
    Reading {
        at: Instant::START + Duration::from_secs(seconds),
        policy: "t".into(),
        interfaces: vec![interface],
        unconfined: Vec::new(),
    }
}

fn view(earlier: &Reading, now: &Reading) -> InterfaceView {
    now.snapshot(Some(earlier)).interfaces.remove(0)
}

#[test]
fn a_rate_is_that_of_the_bytes_since_and_of_all_once_either_counter_is_less() {
    let earlier = reading(1, (10, 10_000), &[]);
    let rate = |packets, bytes| view(&earlier, &reading(2, (packets, bytes), &[])).traffic.got_bps;
    assert_eq!(rate(10, 10_000), Some(0));
    assert_eq!(rate(11, 10_000), Some(0));
    assert_eq!(rate(10, 10_500), Some(4_000));
    assert_eq!(rate(12, 12_000), Some(16_000));
    assert_eq!(rate(9, 10_500), Some(84_000), "fewer packets: it began anew");
    assert_eq!(rate(11, 9_999), Some(79_992), "fewer bytes: it began anew");
    assert_eq!(rate(5, 5_000), Some(40_000));
}

#[test]
fn delays_of_a_queue_without_classes_are_those_of_the_interval() {
    let earlier = reading(1, (3, 3_000), &[40, 40, 40]);
    let mut now = reading(2, (5, 5_000), &[40, 40, 40, 5, 5]);
    let max = |now: &Reading| view(&earlier, now).traffic.delay.expect("a delay").max_ns;
    assert!((5_000_000..6_000_000).contains(&max(&now)), "{}", max(&now));
    now.interfaces[0].classes[0].class = ClassId(1);
    assert!(
        max(&now) >= 40_000_000,
        "of another queue nothing is known from before"
    );
}

#[test]
fn the_experience_of_a_queue_without_classes_is_that_of_the_interval() {
    let with = |seconds, class, segments, repeated| {
        let mut reading = reading(seconds, (1, 1_000), &[1]);
        let counts = ExperienceCounts {
            segments,
            repeated,
            ..ExperienceCounts::default()
        };
        reading.interfaces[0].experience = Some(ExperienceOfInterface {
            classes: HashMap::from([(ClassId(class), counts)]),
            hosts: Vec::new(),
        });
        reading
    };
    let experience = |earlier: &Reading| {
        let view = view(earlier, &with(2, 0, 300, 30)).traffic.experience;
        let view = view.expect("it is measured");
        (view.segments, view.repeated, view.loss)
    };
    assert_eq!(experience(&with(1, 0, 200, 28)), (300, 30, 0.02));
    assert_eq!(
        experience(&with(1, 7, 200, 28)),
        (300, 30, 0.1),
        "another queue's"
    );
}

#[test]
fn what_an_older_program_does_not_say_of_an_interface_is_what_it_did() {
    let now = reading(1, (1, 1_000), &[1]).snapshot(None);
    let mut json = serde_json::to_value(&now).expect("JSON");
    let interface = json["interfaces"][0].as_object_mut().expect("an interface");
    assert!(!interface.contains_key("hold_ups"), "it was never held up");
    assert_eq!(interface.remove("linklayer"), Some("ethernet".into()));
    let again: Snapshot = serde_json::from_value(json).expect("a snapshot");
    assert_eq!(again, now);
}

#[test]
fn hold_ups_are_written_once_there_was_one() {
    let mut reading = reading(1, (1, 1_000), &[1]);
    reading.interfaces[0].hold_ups = HoldUps::once(Duration::from_millis(3));
    let json = serde_json::to_value(reading.snapshot(None)).expect("JSON");
    assert_eq!(
        json["interfaces"][0]["hold_ups"],
        serde_json::json!({ "times": 1, "longest_ns": 3_000_000, "all_ns": 3_000_000 })
    );
}

#[test]
fn of_a_class_the_schema_requires_the_name_alone() {
    let schema = schemars::schema_for!(ClassView);
    let required = schema.get("required").expect("something is required");
    assert_eq!(*required, serde_json::json!(["name"]));
}

#[test]
fn a_request_says_the_detail_of_a_status_unless_it_is_full() {
    let json = |detail| {
        let request = Request::Status {
            interval_ms: 0,
            follow: false,
            detail,
        };
        serde_json::to_value(request).expect("JSON")
    };
    assert_eq!(json(StatusDetail::Full).get("detail"), None);
    assert_eq!(json(StatusDetail::Brief)["detail"], "brief");
}
