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

/// What the simulator judges of the reservation, by itself: what was not met.
fn broken(outcome: &Outcome) -> Vec<&str> {
    let all = outcome.expectations.iter().filter(|one| !one.met);
    all.map(|one| one.what.as_str()).collect()
}

const GUARANTEED: &str = r#"{ flow = "video", rate = "4 Mbit/s", packet = "1200 B", delay = "60 ms" }"#;

#[test]
fn of_packets_that_keep_to_it_none_is_lost_or_late_at_any_hop_and_that_is_judged_by_itself() {
    let outcome = outcome(&scenario("nothing", ALL, GUARANTEED));
    assert_eq!(outcome.expectations.len(), 3, "{:?}", outcome.expectations);
    assert_eq!(broken(&outcome), [""; 0]);
    let contract = outcome.reservations[0].contract.as_ref().expect("datagrams");
    assert_eq!(contract.at, "r > b");
    assert_eq!((contract.exceeded, contract.lost, contract.late), (0, 0, 0));
    // 30 s of 4 Mbit/s in frames of 1,214 bytes, but for what came before it was in force.
    assert!((12_300..=12_356).contains(&contract.packets), "{contract:?}");
    let [hop] = &contract.hops[..] else {
        panic!("{:?}", contract.hops)
    };
    assert!(
        hop.worst > Duration::from_millis(1) && hop.worst <= hop.bound,
        "{hop:?}"
    );
    assert_eq!((hop.at.as_str(), hop.late, hop.exceeded), ("r > b", 0, 0));
}

/// A fifth exceeds what is reserved. `ips` polices just that, so nothing else is late; `drr` does
/// not, so a sender that exceeds has its own packets wait, and that is told.
#[test]
fn what_exceeds_what_is_reserved_breaks_nothing_where_it_is_policed_and_delays_its_own_where_not() {
    let network = scenario("nothing", ALL, GUARANTEED);
    let constant = r#"kind = "constant", rate = "4 Mbit/s""#;
    let more = network.replace(constant, r#"kind = "constant", rate = "5 Mbit/s""#);
    assert_ne!(more, network);
    for (kind, polices) in [("ips", true), ("drr", false)] {
        let of = more.replace("discipline = \"drr\"", &format!("discipline = \"{kind}\""));
        let outcome = outcome(&of);
        let contract = outcome.reservations[0].contract.as_ref().expect("datagrams");
        let exceeded = contract.exceeded as f64 / contract.packets as f64;
        assert!((0.17..0.23).contains(&exceeded), "{kind}: {contract:?}");
        assert!(contract.earliest > Duration::ZERO);
        assert_eq!(
            contract.policed == contract.exceeded,
            polices,
            "{kind}: {contract:?}"
        );
        let told = (
            broken(&outcome).is_empty(),
            contract.lost == 0,
            contract.late == 0,
        );
        assert_eq!(told, (polices, polices, polices), "{kind}: {contract:?}");
    }
}

/// The policy promises what its wire cannot carry: nobody knows but who holds packets against it.
#[test]
fn a_hop_that_does_not_keep_its_promise_is_found_and_named() {
    let network = scenario("nothing", ALL, GUARANTEED);
    let slow = network.replace("rate = \"10 Mbit/s\"\ndelay", "rate = \"4 Mbit/s\"\ndelay");
    assert_ne!(slow, network);
    let outcome = outcome(&slow);
    let broken = broken(&outcome);
    assert!(
        broken.contains(&"reservation video: packets late at r > b"),
        "{broken:?}"
    );
    assert!(
        broken.contains(&"reservation video: the longest delay of these"),
        "{broken:?}"
    );
    let contract = outcome.reservations[0].contract.as_ref().expect("datagrams");
    assert!(
        contract.late > 0 && contract.hops[0].worst > contract.hops[0].bound,
        "{contract:?}"
    );
}

/// Losses of the wire are not the reservation's: they are told, and not judged.
#[test]
fn what_a_lossy_wire_takes_is_told_and_not_judged() {
    let outcome = outcome(&scenario("1 %", ALL, GUARANTEED));
    assert_eq!(outcome.expectations, []);
    let contract = outcome.reservations[0].contract.as_ref().expect("datagrams");
    // The second link's hundredth; what the first lost never came there.
    assert!((50..250).contains(&contract.lost), "{contract:?}");
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
