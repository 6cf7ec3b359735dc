//! RSVP in a scenario: messages cost time and are lost, state is refreshed and times out, and what
//! was refused says why.

#[path = "stubs/outcome.rs"]
mod simulated;

use engine::tree::Registry;
use engine::units::Duration;
use scenario::Scenarios;
use scenario::folder::Folder;
use scenario::run::outcome::{ClassOutcome, Outcome};
use simulated::outcome;

/// A host, a router that is or is not an RSVP node, and a host, over links with this loss and one
/// refresh a second; a flow of 4 Mbit/s beside one of 12 on a link of 10.
fn scenario(loss: &str, nodes: &str, reserve: &str) -> String {
    format!(
        r#"
version = 1
duration = "30 s"
hosts = ["a", "r", "b"]
rsvp = {{ refresh = "1 s", nodes = [{nodes}] }}
reserve = [{reserve}]
flow = [
    {{ name = "video", between = ["a", "b"], kind = "constant", rate = "4 Mbit/s", frame = "1214 B" }},
    {{ name = "bulk", between = ["a", "b"], kind = "constant", rate = "12 Mbit/s", frame = "1514 B", destination_port = 7 }},
]
[[link]]
between = ["a", "r"]
rate = "100 Mbit/s"
delay = "2 ms"
loss = "{loss}"
[[link]]
between = ["r", "b"]
rate = "10 Mbit/s"
delay = "3 ms"
loss = "{loss}"
[link.policy.r]
bandwidth = "10 Mbit/s"
discipline = "drr"
reserve = {{ share = "50 %", delay = "20 ms" }}
class = [{{ name = "rest", default = true, discipline = "fifo" }}]
"#
    )
}

const ALL: &str = r#""a", "r", "b""#;

fn events(outcome: &Outcome) -> Vec<&str> {
    let events = outcome.reservations[0].events.iter();
    events.map(|(_, what)| what.as_str()).collect()
}

fn class<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a ClassOutcome> {
    let link = outcome
        .links
        .iter()
        .find(|link| link.name == "r > b")
        .expect("a link");
    link.classes.iter().find(|class| class.name == name)
}

#[test]
fn a_delay_is_reported_as_promised_as_bounded_and_as_measured() {
    let asked = r#"{ flow = "video", rate = "4 Mbit/s", packet = "1200 B", delay = "60 ms" }"#;
    let promised = outcome(&scenario("nothing", ALL, asked)).reservations[0].delay;
    let promised = promised.expect("guaranteed service");
    let [bound, measured] = [promised.bound, promised.measured].map(|time| time.expect("known"));
    // 60 ms in queues, and 5 ms of propagation.
    assert_eq!(promised.promised, Duration::from_millis(65));
    // r exports 20 ms beyond a burst of two packets at 4 Mbit/s, or a little more.
    let burst = Duration::from_millis(5 + 20 + 6);
    assert!(bound >= burst && bound <= promised.promised, "{bound}");
    assert!(
        measured > Duration::from_millis(6) && measured <= bound,
        "{measured} of {bound}"
    );
    let without = r#"{ flow = "video", rate = "4 Mbit/s", packet = "1200 B" }"#;
    assert_eq!(
        outcome(&scenario("nothing", ALL, without)).reservations[0].delay,
        None
    );
}

#[test]
fn a_reservation_takes_a_round_trip_and_serves_the_flow_from_then_on() {
    let reserve =
        r#"{ flow = "video", rate = "4 Mbit/s", packet = "1200 B", start = "10 s", stop = "20 s" }"#;
    let outcome = outcome(&scenario("nothing", ALL, reserve));
    assert_eq!(
        events(&outcome),
        ["in force: 4 Mbit/s, controlled load", "withdrawn by its sender"]
    );
    // The Path and the Resv pass 5 ms of propagation each; nothing makes them wait for long.
    let at = outcome.reservations[0].events[0].0.nanos();
    assert!((10_010_000_000..10_016_000_000).contains(&at), "{at}");
    let reserved = class(&outcome, "resv-1")
        .expect("a class of its own")
        .passed
        .bytes
        * 8;
    // 10 s of 4 Mbit/s.
    assert!((39_800_000..40_400_000).contains(&reserved), "{reserved}");
}

#[test]
fn lost_messages_are_made_up_for_by_refreshes_and_state_survives_them() {
    let reserve = r#"{ flow = "video", rate = "4 Mbit/s", packet = "1200 B" }"#;
    let outcome = outcome(&scenario("20 %", ALL, reserve));
    // Setting it up took refreshes: with one lost of five on four hops, often more than one.
    let in_force = outcome.reservations[0].in_force.as_secs_f64();
    assert!(
        (20.0..29.99).contains(&in_force),
        "{in_force}: {:?}",
        outcome.reservations
    );
}

#[test]
fn what_does_not_fit_is_refused_with_numbers_and_gets_no_class() {
    let reserve = r#"{ flow = "video", rate = "6 Mbit/s", packet = "1200 B" }"#;
    let outcome = outcome(&scenario("nothing", ALL, reserve));
    let events = events(&outcome);
    assert_eq!(
        events,
        [
            "r > b: refused: the bandwidth is not available; requested 6.07 Mbit/s, available 5 Mbit/s",
            "refused by r: the bandwidth is not available"
        ]
    );
    assert_eq!(outcome.reservations[0].in_force.nanos(), 0);
    assert!(class(&outcome, "resv-1").is_none());
}

#[test]
fn a_router_that_does_not_speak_rsvp_forwards_the_messages_and_protects_nothing() {
    let reserve = r#"{ flow = "video", rate = "4 Mbit/s", packet = "1200 B" }"#;
    let outcome = outcome(&scenario("nothing", r#""a", "b""#, reserve));
    assert!(
        outcome.reservations[0].in_force.as_secs_f64() > 29.9,
        "{:?}",
        outcome.reservations
    );
    assert!(class(&outcome, "resv-1").is_none());
    let video = outcome.flows[0].rate.bits();
    assert!(video < 3_500_000, "{video}");
}

#[test]
fn mistakes_in_reservations_are_found_when_the_scenario_is_read() {
    let cases = [
        (
            ALL,
            r#"{ flow = "vidoe", rate = "4 Mbit/s" }"#,
            "unknown flow `vidoe`",
        ),
        (
            ALL,
            r#"{ flow = "video", rate = "0 bit/s" }"#,
            "a rate of 0 needs no reservation",
        ),
        (
            ALL,
            r#"{ flow = "video", rate = "4 Mbit/s", start = "30 s" }"#,
            "never reserved",
        ),
        (
            ALL,
            r#"{ flow = "video", rate = "4 Mbit/s", packet = "2 kB" }"#,
            "`packet` must be",
        ),
        (
            r#""a", "r""#,
            r#"{ flow = "video", rate = "4 Mbit/s" }"#,
            "`b` does not speak RSVP",
        ),
        (
            r#""a", "c""#,
            r#"{ flow = "video", rate = "4 Mbit/s" }"#,
            "unknown host `c`",
        ),
        (ALL, "", "[rsvp] has no effect"),
    ];
    for (nodes, reserve, expected) in cases {
        let text = scenario("nothing", nodes, reserve);
        let read = Scenarios::read("test.toml", &text, &Registry::builtin(), &Folder::of(""));
        let wrong = read.map(|_| ()).expect_err(reserve).to_string();
        assert!(wrong.contains(expected), "{reserve}: {wrong}");
    }
}
