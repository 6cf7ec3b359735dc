//! The checks of `run` before it forwards a packet: what will be enforced, and what will not
//! work. Nothing is worse for users than a shaper that starts and has no effect, so every known
//! cause of that is checked.

use super::facts::Facts;
use control::protocol::Refusal;
use engine::settings::{Span, unknown};
use engine::units::{Bandwidth, Bytes};

/// One direction that the policy manages.
#[derive(Clone, Copy, Debug)]
pub struct ManagedDirection<'a> {
    /// The outgoing interface.
    pub interface: &'a str,
    /// The rate of its link, from the policy.
    pub bandwidth: Bandwidth,
    /// The longest frame, from the policy.
    pub max_frame: Bytes,
}

/// The diagnostics: a mistake stops `run`, a warning is printed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SelfcheckReport {
    /// Reasons not to start.
    pub mistakes: Vec<String>,
    /// Warnings: what will not work as expected.
    pub warnings: Vec<String>,
}

/// Looks up the facts of an interface.
pub type FactsLookup<'a> = &'a dyn Fn(&str) -> Option<Facts>;

/// Checks the ends of bumps in the wire, and the interfaces that are managed. `known` are the names
/// of all interfaces.
pub fn check(
    look: FactsLookup<'_>,
    known: &[String],
    between: &[(&str, &str)],
    managed: &[ManagedDirection<'_>],
) -> SelfcheckReport {
    let mut outcome = SelfcheckReport::default();
    let mut names: Vec<&str> = between.iter().flat_map(|(a, b)| [*a, *b]).collect();
    names.extend(managed.iter().map(|m| m.interface));
    names.sort_unstable();
    names.dedup();
    for name in names {
        match look(name) {
            None => outcome.mistakes.push(missing(known, name)),
            Some(found) if !found.up => {
                let remedy = format!("switch it on with `ip link set {name} up`");
                outcome
                    .warnings
                    .push(format!("{name} is down, so nothing passes; {remedy}"));
            }
            Some(_) => {}
        }
    }
    for direction in managed {
        if let Some(found) = look(direction.interface) {
            link(&mut outcome.warnings, direction, &found);
        }
    }
    for &(a, b) in between {
        let (Some(of_a), Some(of_b)) = (look(a), look(b)) else {
            continue;
        };
        outcome.warnings.extend(fail_open(look, (a, &of_a), (b, &of_b)));
        if of_a.mtu != of_b.mtu {
            outcome.warnings.push(format!(
                "{a} has an MTU of {} and {b} of {}; longer packets than the smaller are dropped",
                of_a.mtu, of_b.mtu
            ));
        }
    }
    outcome
}

/// The message for a missing interface, with the nearest name.
pub fn missing(known: &[String], name: &str) -> String {
    let known = known.iter().map(String::as_str);
    Refusal::from(unknown("interface", name, Span::default(), known)).to_string()
}

fn link(warnings: &mut Vec<String>, direction: &ManagedDirection<'_>, found: &Facts) {
    let ManagedDirection {
        interface,
        bandwidth,
        max_frame,
    } = direction;
    if let Some(speed) = found.speed.filter(|speed| speed < bandwidth) {
        warnings.push(format!(
            "{interface} has a link of {speed}, less than the policy's {bandwidth}: packets will queue where no policy applies; set `bandwidth` to a few per cent below {speed}"
        ));
    }
    let longest = found.longest_frame();
    if *max_frame < longest {
        warnings.push(format!(
            "{interface} carries frames of {longest}, but the policy expects at most {max_frame}; set `max_frame`"
        ));
    }
}

/// Why the kernel would not forward between the two without this process, if it would not.
fn fail_open(look: FactsLookup<'_>, a: (&str, &Facts), b: (&str, &Facts)) -> Option<String> {
    let consequence = "so no traffic passes between them while this program does not run";
    let (a_name, b_name) = (a.0, b.0);
    let remedy = |bridge: &str| {
        format!(
            "`ip link set {a_name} master {bridge}; ip link set {b_name} master {bridge}; ip link set {bridge} up`"
        )
    };
    let bridge = match (&a.1.master, &b.1.master) {
        (Some(of_a), Some(of_b)) if of_a == of_b => of_a,
        (None, None) => {
            return Some(format!(
                "{a_name} and {b_name} are in no bridge, {consequence}; make one: `ip link add br0 type bridge`, {}",
                remedy("br0")
            ));
        }
        (Some(bridge), _) | (_, Some(bridge)) => {
            let remedy = remedy(bridge);
            return Some(format!(
                "{a_name} and {b_name} are not in the same bridge, {consequence}; put both into one: {remedy}"
            ));
        }
    };
    if look(bridge).is_some_and(|found| !found.up) {
        return Some(format!(
            "the bridge {bridge} is down, {consequence}; `ip link set {bridge} up`"
        ));
    }
    let blocked = [a, b]
        .into_iter()
        .find(|(_, found)| found.forwarding == Some(false))?
        .0;
    Some(format!(
        "the bridge {bridge} does not forward on {blocked} (yet), {consequence}; wait, or check its STP"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(master: Option<&str>) -> Facts {
        Facts {
            up: true,
            speed: Some(Bandwidth::mbit(100)),
            mtu: Bytes::new(1500),
            master: master.map(Into::into),
            forwarding: Some(true),
        }
    }

    fn report(lan0: &Facts, wan0: &Facts, bandwidth: Bandwidth) -> SelfcheckReport {
        let look = |name: &str| match name {
            "lan0" => Some(lan0.clone()),
            "wan0" => Some(wan0.clone()),
            "br0" => Some(facts(None)),
            _ => None,
        };
        let managed = ManagedDirection {
            interface: "wan0",
            bandwidth,
            max_frame: Bytes::new(1514),
        };
        check(&look, &[], &[("lan0", "wan0")], &[managed])
    }

    #[test]
    fn two_ports_of_one_bridge_and_a_slower_policy_are_fine() {
        let both = facts(Some("br0"));
        assert_eq!(
            report(&both, &both, Bandwidth::mbit(95)),
            SelfcheckReport::default()
        );
    }

    #[test]
    fn every_cause_of_no_effect_is_reported() {
        let good = facts(Some("br0"));
        let slow = Bandwidth::mbit(95);
        let cases = [
            (facts(None), facts(None), slow, "in no bridge"),
            (facts(Some("br1")), good.clone(), slow, "not in the same bridge"),
            (
                good.clone(),
                good.clone(),
                Bandwidth::mbit(200),
                "less than the policy's",
            ),
            (
                good.clone(),
                Facts {
                    up: false,
                    ..good.clone()
                },
                slow,
                "wan0 is down",
            ),
            (
                Facts {
                    forwarding: Some(false),
                    ..good.clone()
                },
                good.clone(),
                slow,
                "does not forward on lan0",
            ),
            (
                good.clone(),
                Facts {
                    mtu: Bytes::new(9000),
                    ..good.clone()
                },
                slow,
                "set `max_frame`",
            ),
        ];
        for (lan0, wan0, bandwidth, expected) in cases {
            let outcome = report(&lan0, &wan0, bandwidth);
            let all = outcome.warnings.join("\n");
            assert!(all.contains(expected), "{expected}: {all}");
            assert!(outcome.mistakes.is_empty(), "{outcome:?}");
        }
    }

    #[test]
    fn a_missing_interface_stops_it_and_the_nearest_is_named() {
        let managed = ManagedDirection {
            interface: "wan0",
            bandwidth: Bandwidth::mbit(1),
            max_frame: Bytes::new(1514),
        };
        let outcome = check(&|_| None, &["lo".into(), "wan1".into()], &[], &[managed]);
        assert_eq!(
            outcome.mistakes,
            ["unknown interface `wan0`; did you mean `wan1`?"]
        );
    }
}
