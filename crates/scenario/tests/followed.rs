//! A policy with `autorate` in a scenario: its rate follows a line whose rate changes, so that a
//! call beside transfers does not wait; at a fixed rate it waits for the line's whole buffer.

#[path = "stubs/outcome.rs"]
mod simulated;

use engine::tree::Registry;
use engine::units::Duration;
use scenario::Scenarios;
use scenario::folder::Folder;
use scenario::run::outcome::Outcome;

/// Where the shaper is: what leaves it enters the line, or what enters it has left the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Before,
    Behind,
}

/// 20, 8 and again 20 Mbit/s, each for ten seconds, with a buffer of 1 MB.
fn scenario(place: Place, policy: &str) -> String {
    let (between, ruled) = match place {
        Place::Before => (["home", "server"], "router"),
        Place::Behind => (["server", "home"], "modem"),
    };
    let [from, to] = between;
    format!(
        r#"
version = 1
duration = "30 s"
bin = "100 ms"
hosts = ["home", "router", "modem", "server"]
[host.server]
address = "192.0.2.1"
[host.home]
address = "192.0.2.2"
[[link]]
between = ["home", "router"]
rate = "1 Gbit/s"
[[link]]
between = ["router", "modem"]
rate = "1 Gbit/s"
[link.policy.{ruled}]
discipline = "fq_codel"
{policy}
[[link]]
between = ["modem", "server"]
rate = "20 Mbit/s"
delay = "10 ms"
buffer = "1 MB"
[[change]]
at = "10 s"
link = "modem > server"
rate = "8 Mbit/s"
[[change]]
at = "20 s"
link = "modem > server"
rate = "20 Mbit/s"
[[change]]
at = "10 s"
link = "server > modem"
rate = "8 Mbit/s"
[[change]]
at = "20 s"
link = "server > modem"
rate = "20 Mbit/s"
[[flow]]
name = "bulk"
between = ["{from}", "{to}"]
kind = "tcp"
control = "cubic"
count = 4
[[flow]]
name = "call"
between = ["{from}", "{to}"]
kind = "constant"
rate = "100 kbit/s"
frame = "214 B"
[[expect]]
flow = "call"
metric = "delay-p99"
within = ["0 s", "1 h"]
from = "13 s"
to = "20 s"
"#
    )
}

fn outcome(place: Place, policy: &str) -> Outcome {
    simulated::outcome(&scenario(place, policy))
}

/// What the transfers got from one time to another, in Mbit/s.
fn rate(outcome: &Outcome, from: usize, to: usize) -> f64 {
    let bulk = outcome.flows.iter().find(|flow| flow.name == "bulk");
    let series = &bulk.expect("a flow of this name").series;
    let bytes: u64 = series[from * 10..to * 10].iter().sum();
    bytes as f64 * 8e-6 / (to - from) as f64
}

/// The call's delay at 8 Mbit/s.
fn delay(outcome: &Outcome) -> Duration {
    Duration::from_nanos(outcome.expectations[0].value)
}

#[test]
fn the_rate_of_a_policy_follows_a_line_in_either_direction() {
    for (place, line) in [(Place::Before, "ahead"), (Place::Behind, "behind")] {
        let followed = outcome(
            place,
            &format!(
                "bandwidth = \"50 Mbit/s\"\n\
                 autorate = {{ targets = [\"192.0.2.9\", \"192.0.2.1\"], min = \"1 Mbit/s\", line = \"{line}\" }}\n"
            ),
        );
        let fixed = outcome(place, "bandwidth = \"19 Mbit/s\"\n");
        let rates = [(4, 10), (13, 20), (24, 30)].map(|(from, to)| rate(&followed, from, to));
        eprintln!(
            "{place:?}: {rates:?} Mbit/s, {}, and at a fixed rate {}",
            delay(&followed),
            delay(&fixed)
        );
        for (rate, line) in rates.into_iter().zip([20.0, 8.0, 20.0]) {
            assert!(
                (0.75..0.97).contains(&(rate / line)),
                "{place:?}: {rate} of {line}"
            );
        }
        assert!(
            delay(&followed) < Duration::from_millis(60),
            "{place:?}: {}",
            delay(&followed)
        );
        assert!(
            delay(&fixed) > Duration::from_millis(400),
            "{place:?}: {}",
            delay(&fixed)
        );
    }
}

#[test]
fn a_scenario_without_the_host_that_is_asked_is_refused() {
    let policy = "bandwidth = \"50 Mbit/s\"\nautorate = { targets = [\"192.0.2.9\"] }\n";
    let text = scenario(Place::Before, policy);
    let wrong = Scenarios::read("test.toml", &text, &Registry::builtin(), &Folder::of(""));
    let wrong = wrong.expect_err("nobody is asked").to_string();
    assert!(
        wrong.contains("nobody is asked") && wrong.contains("[host.NAME]"),
        "{wrong}"
    );
}
