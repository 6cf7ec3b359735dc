//! Hosts restart and routes change in a scenario: what a router kept in memory is gone, soft state
//! brings it back, and RSVP follows the data.

#[path = "stubs/outcome.rs"]
mod simulated;

use scenario::run::outcome::{FlowOutcome, Outcome};
use simulated::outcome;

/// A call with a reservation beside bulk, from `a` to `b` by `r`, or by `s`. Both ways have room
/// for 10 of their 14 Mbit/s.
fn reserved(seed: u32, refresh: &str, failures: &str) -> Outcome {
    let way = |router: &str| {
        format!(
            r#"
[[link]]
between = ["a", "{router}"]
rate = "100 Mbit/s"
delay = "2 ms"
[[link]]
between = ["{router}", "b"]
rate = "10 Mbit/s"
delay = "3 ms"
[link.policy.{router}]
bandwidth = "10 Mbit/s"
discipline = "drr"
reserve = {{ share = "50 %" }}
class = [{{ name = "rest", default = true, discipline = "fifo" }}]
"#
        )
    };
    outcome(&format!(
        r#"
version = 1
duration = "40 s"
seed = {seed}
bin = "100 ms"
hosts = ["a", "r", "s", "b"]
rsvp = {{ refresh = "{refresh}" }}
reserve = [{{ flow = "call", rate = "2.2 Mbit/s", packet = "500 B" }}]
flow = [
    {{ name = "call", between = ["a", "b"], kind = "constant", rate = "2 Mbit/s", frame = "514 B" }},
    {{ name = "bulk", between = ["a", "b"], kind = "constant", rate = "12 Mbit/s", frame = "1514 B", destination_port = 7 }},
]
{failures}
{}{}
"#,
        way("r"),
        way("s")
    ))
}

/// What happened to the reservation, and when in seconds.
fn events(outcome: &Outcome) -> Vec<(f64, &str)> {
    let events = outcome.reservations[0].events.iter();
    events
        .map(|(at, what)| (at.nanos() as f64 / 1e9, what.as_str()))
        .collect()
}

/// The rate between two times in seconds, in Mbit/s.
fn rate(flow: &FlowOutcome, from: f64, to: f64) -> f64 {
    let bins = flow.series.iter().skip((from * 10.0).ceil() as usize);
    let whole = ((to - from) * 10.0).floor() as usize;
    let bytes: u64 = bins.take(whole).sum();
    bytes as f64 * 8e-6 / (whole as f64 / 10.0)
}

#[test]
fn a_router_that_restarts_learns_its_reservations_from_the_next_refreshes() {
    for seed in 1..=6 {
        let outcome = reserved(
            seed,
            "4 s",
            "failure = [{ host = \"r\", from = \"10 s\", to = \"10.5 s\" }]",
        );
        let events = events(&outcome);
        let [_, (lost, gone), (found, again)] = events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(
            (gone, again),
            ("r does not have it", "in force again at each node")
        );
        // A Path within 1.5 times 4 s, and a Resv within as much.
        assert!(
            (lost - 10.0).abs() < 1e-6 && found > 10.5 && found < 10.5 + 12.0,
            "{events:?}"
        );
        let call = &outcome.flows[0];
        assert!((rate(call, 2.0, 10.0) / 2.0 - 1.0).abs() < 0.01);
        assert!(rate(call, 10.1, 10.5) < 1e-9);
        if found > 12.0 {
            let without = rate(call, 11.0, found);
            assert!((1.0..1.6).contains(&without), "{without} without a reservation");
        }
        assert!((rate(call, found + 0.5, 40.0) / 2.0 - 1.0).abs() < 0.01);
    }
}

#[test]
fn a_router_that_comes_back_after_the_state_of_others_has_ended_is_told_anew() {
    let failures = "failure = [{ host = \"r\", from = \"10 s\", to = \"20 s\" }]";
    let outcome = reserved(1, "1 s", failures);
    let words: Vec<&str> = events(&outcome).into_iter().map(|(_, what)| what).collect();
    let expected = [
        "in force: 2.2 Mbit/s, controlled load",
        "r does not have it",
        "no longer in force",
        "in force: 2.2 Mbit/s, controlled load",
    ];
    let mut left = words.iter();
    assert!(
        expected.iter().all(|word| left.any(|found| found == word)),
        "{words:?}"
    );
    assert!((rate(&outcome.flows[0], 24.0, 40.0) / 2.0 - 1.0).abs() < 0.01);
}

/// The routes change two seconds before local repair, and no refresh comes in between.
#[test]
fn a_reservation_follows_the_route_after_two_seconds() {
    let failures = "failure = [{ host = \"r\", from = \"10 s\", to = \"20 s\", reroute = \"1 s\" }]";
    let outcome = reserved(1, "100 s", failures);
    let call = &outcome.flows[0];
    assert!(rate(call, 10.1, 11.0) < 1e-9);
    for (from, repaired) in [(11.0, 13.0), (21.0, 23.0)] {
        let without = rate(call, from + 0.5, repaired);
        assert!((1.0..1.6).contains(&without), "{without} from {from} s on");
        let with = rate(call, repaired + 0.5, repaired + 7.0);
        assert!((with / 2.0 - 1.0).abs() < 0.01, "{with} from {repaired} s on");
    }
}

/// A gateway knows only connections whose beginning it has seen.
#[test]
fn after_a_restart_a_gateway_leaves_the_connections_alone_that_it_has_not_seen_begin() {
    let page_beside = |failures: &str| {
        let outcome = outcome(&format!(
            r#"
version = 1
duration = "16 s"
bin = "100 ms"
hosts = ["server", "router", "home"]
{failures}
flow = [
    {{ name = "backup", between = ["server", "home"], kind = "tcp", destination_port = 5001 }},
    {{ name = "page", between = ["server", "home"], kind = "tcp", destination_port = 5002, start = "7 s" }},
]
[[link]]
between = ["server", "router"]
rate = "100 Mbit/s"
delay = "10 ms"
[[link]]
between = ["router", "home"]
rate = "10 Mbit/s"
delay = "1 ms"
[link.policy.router]
bandwidth = "10 Mbit/s"
discipline = "drr"
class = [
    {{ name = "backup", yields = {{}}, discipline = "fq_codel" }},
    {{ name = "rest", default = true, discipline = "fq_codel" }},
]
filter = [{{ class = "backup", protocol = "tcp", destination_port = 5001 }}]
"#
        ));
        rate(&outcome.flows[1], 9.0, 16.0)
    };
    let yielded_to = page_beside("");
    assert!(yielded_to > 8.3, "{yielded_to}");
    let shared = page_beside("failure = [{ host = \"router\", from = \"3 s\", to = \"3.2 s\" }]");
    assert!((4.0..5.5).contains(&shared), "{shared}");
}
