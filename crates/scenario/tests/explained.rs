//! A packet that waited on a simulated link is explained: a case whose answer the scenario says.

use control::explained::ExplainRequest;
use engine::tree::Registry;
use scenario::folder::Folder;
use scenario::run::outcome::Point;
use scenario::{Scenarios, run};

/// For four seconds calls ask for more than the link; the rest gets nothing meanwhile.
#[test]
fn a_packet_of_the_rest_waits_for_the_calls_of_four_seconds() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/disciplines/priq.toml"
    );
    let text = std::fs::read_to_string(path).expect("the scenario");
    let (registry, folder) = (Registry::builtin(), Folder::of(path));
    let all =
        Scenarios::read("priq.toml", &text, &registry, &folder).unwrap_or_else(|wrong| panic!("{wrong}"));
    let scenario = all.point(1, &folder).expect("it was checked");
    let explain = |link: &str, drops: bool| {
        let point = Point {
            number: 1,
            of: 1,
            values: Vec::new(),
        };
        let wanted = ExplainRequest {
            interface: link.into(),
            class: Some(if drops { "calls" } else { "rest" }.into()),
            drops,
            packets: 3,
            for_ms: 0,
        };
        run::run_explained("test", &scenario, point, &[], Some(&wanted), &mut |_, _| {})
    };
    let outcome = explain("router > away", false).expect("it runs");
    let explained = outcome.explained.expect("it was asked for");
    assert_eq!(
        (explained.interface.as_str(), explained.packets.len()),
        ("router > away", 3)
    );
    let packet = &explained.packets[0];
    let parts = packet.busy_ns + packet.before_ns + packet.held_ns + packet.held_up_ns;
    assert_eq!(parts, packet.wait_ns, "{packet:?}");
    assert!(
        (3_950_000_000..4_050_000_000).contains(&packet.wait_ns),
        "{packet:?}"
    );
    // 10 Mbit/s of four seconds, and nothing else held it.
    let calls = &packet.before[0];
    assert_eq!(
        (calls.class.as_str(), &calls.why[..]),
        ("calls", "its priority 7 is above 0")
    );
    assert!((4_900_000..5_050_000).contains(&calls.bytes), "{packet:?}");
    assert!(packet.held_ns + packet.held_up_ns < 2_000_000, "{packet:?}");
    assert!(
        packet.filters[0].misses.iter().any(|miss| miss.contains("ef")),
        "{packet:?}"
    );
    let drops = explain("router > away", true)
        .expect("it runs")
        .explained
        .expect("asked for");
    let drop = drops.packets[2].dropped.as_ref().expect("a drop");
    assert_eq!(drop.reason, "full");
    assert_eq!(drops.packets[2].on_arrival[0].backlog_packets, 20, "{drops:?}");
    assert!(explain("router > nowhere", false).is_err());
}
