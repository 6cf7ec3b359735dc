//! What RSVP hears, is told and does at a router is recorded, and done again from the file: by the
//! messages of real sockets, and through another policy and a local reservation.

use crate::rig::{LONG, Plan, Rig, in_turn, kill, until};
use serde_json::Value;
use std::time::Duration;

#[test]
fn what_rsvp_heard_and_was_told_is_done_again_from_a_recording() {
    in_turn(|| lab::isolated(|| Rig::start(&Plan::default()).into_iter().for_each(recorded)));
}

fn recorded(rig: Rig) {
    let socket = rig.socket(Rig::at("r1"));
    let done = |arguments: &[&str]| {
        let output = rig.output("r1", &[arguments, &["--socket", &socket]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    let first = rig.hold("10.0.3.2:5000", "8M");
    until("it is reserved", LONG, || rig.reserved("r1", 5000).len() == 1);
    let early = rig.files.join("early.rec").display().to_string();
    done(&["record", "save", &early]);
    is_of_rsvp_alone(&rig, &early);
    done(&["record", "start", "--memory", "1MiB"]);
    // Less may be reserved of another bandwidth: half of 36 Mbit/s.
    done(&["set", "wan0", "bandwidth=36Mbit/s"]);
    let refused = ["reserve", "--to", "10.0.3.2:5001", "--rate", "11M", "--", "true"];
    assert_eq!(rig.output("a", &refused).status.code(), Some(6));
    // A program on the router itself.
    let local = [
        "reserve",
        "--to",
        "10.0.3.2:5002",
        "--rate",
        "2M",
        "--socket",
        &socket,
    ];
    let local = rig.suimon("r1", &local).args(["--", "sleep", "100"]);
    let local = local.limit(Duration::from_secs(60)).start().expect("it starts");
    until("both are reserved", LONG, || rig.classes("r1").len() == 2);
    rig.udp(5000, 200, Duration::from_millis(500))
        .finish()
        .expect("a report");
    kill(first.id(), "TERM");
    let _ = first.wait();
    until("one is left", LONG, || rig.classes("r1").len() == 1);
    let wan0 = |view: &control::reservation::RsvpInterfaceView| view.name == "wan0";
    let live = rig.status("r1").interfaces.into_iter().find(wan0);
    let live = live.and_then(|view| view.reserved_bps).expect("it is managed");
    let file = rig.files.join("r1.rec").display().to_string();
    done(&["record", "save", &file]);

    is_done_again(&rig, &file, live);
    local.kill().expect("its end");
}

/// No packet was recorded: what RSVP did is done again, and shown around a moment of it.
fn is_of_rsvp_alone(rig: &Rig, file: &str) {
    let whole = rig.output("r1", &["replay", file]);
    assert!(whole.status.success(), "{whole:?}");
    let lines: Vec<&str> = whole.out.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("RSVP: "), "{whole:?}");
    let around = |at: &str| rig.output("r1", &["replay", file, "--at", at, "--around", "1h"]);
    let shown = around("0s");
    assert!(shown.status.success(), "{shown:?}");
    assert!(
        shown
            .out
            .contains("RSVP lan0 heard: Path 10.0.1.1 -> 10.0.3.2:5000 udp"),
        "{shown:?}"
    );
    let late = around("40h");
    assert!(late.err.contains("it has no packets"), "{late:?}");
}

/// From the file, with the reservations that the router showed live at its end.
fn is_done_again(rig: &Rig, file: &str, live: u64) {
    let again = rig.output("r1", &["replay", file, "--json"]);
    assert!(again.status.success(), "{again:?}");
    let lines = again
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let counted = lines
        .filter_map(|line| line.get("rsvp").cloned())
        .next()
        .expect("of RSVP");
    assert!(counted["heard"].as_u64() > Some(5), "{counted}");
    assert!(counted["sent"].as_u64() > Some(5), "{counted}");
    assert_eq!(
        (&counted["asked"], &counted["ended"]),
        (&1.into(), &0.into()),
        "{counted}"
    );

    let all = rig.output("r1", &["replay", file, "--at", "0s", "--around", "1h", "--json"]);
    assert!(all.status.success(), "{all:?}");
    let steps = all
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let steps: Vec<Value> = steps.filter(|step| step.get("rsvp").is_some()).collect();
    let of = |what: &str, on: Option<&str>, words: &str| {
        let found = steps.iter().filter(|step| {
            step["rsvp"] == what
                && step["interface"].as_str() == on
                && step["words"].as_str().is_some_and(|said| said.contains(words))
        });
        found.count()
    };
    assert!(
        of(
            "heard",
            Some("lan0"),
            "Path 10.0.1.1 -> 10.0.3.2:5000 udp, 8 Mbit/s"
        ) >= 1,
        "{steps:#?}"
    );
    assert!(
        of("heard", Some("wan0"), "Resv 10.0.1.1 -> 10.0.3.2:5000 udp") >= 1,
        "{steps:#?}"
    );
    assert!(
        of(
            "sent",
            Some("lan0"),
            "Resv 10.0.1.1 -> 10.0.3.2:5000 udp to 10.0.1.1"
        ) >= 1,
        "{steps:#?}"
    );
    assert!(
        of("told", None, "10.0.1.1 -> 10.0.3.2:5001 udp: refused on wan0") >= 1,
        "{steps:#?}"
    );
    assert_eq!(
        of("asked", None, "Path 10.0.2.1 -> 10.0.3.2:5002 udp, 2 Mbit/s"),
        1,
        "{steps:#?}"
    );
    assert!(
        of("heard", Some("lan0"), "PathTear 10.0.1.1 -> 10.0.3.2:5000 udp") == 1,
        "{steps:#?}"
    );
    let reserved = steps
        .iter()
        .rfind(|step| step["rsvp"] == "reserved")
        .expect("one is left");
    let left = format!(
        "{} in 1 reservations",
        engine::units::Bandwidth::bits_per_sec(live)
    );
    assert_eq!(reserved["words"], left);
    let text = rig.output("r1", &["replay", file]);
    assert!(text.out.contains("each as it was"), "{text:?}");
}
