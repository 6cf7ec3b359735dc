//! The worst case of each class of a policy, as `suimon check` shows it: the delay and the
//! backlog.

use control::policy::InterfacePolicy;
use engine::bounds::{self, WorstCase};
use engine::units::{Bytes, Duration};
use plot::text::{self, Align};
use serde_json::{Value, json};

/// As text: a line for each class with a bound, and one for all that have none for the same
/// reason.
pub fn lines(interface: &InterfacePolicy) -> Vec<String> {
    let cases = interface.bounds();
    let bounded: Vec<Vec<String>> = cases.iter().filter_map(|case| row(interface, case)).collect();
    let mut lines = Vec::new();
    if !bounded.is_empty() {
        lines.push(of_what(interface));
        lines.extend(text::table(&bounded, &[Align::Left, Align::Right, Align::Right]));
    }
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for case in &cases {
        let Err(why) = &case.bound else { continue };
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(name(interface, case)),
            None => reasons.push((why, vec![name(interface, case)])),
        }
    }
    let reason = |(why, names): (&str, Vec<String>)| match names.len() == cases.len() {
        true => format!("no bound on delays: {why}"),
        false => format!("no bound for {}: {why}", names.join(", ")),
    };
    lines.extend(reasons.into_iter().map(reason));
    lines
}

/// What the bounds of an interface include.
fn of_what(interface: &InterfacePolicy) -> String {
    let (ring, lateness) = (interface.link().ring, interface.link().lateness);
    let packets = if ring == 1 { "packet" } else { "packets" };
    let from = format!(
        "at worst, from arrival to the last bit on the link, with {ring} {packets} in the transmit ring"
    );
    match lateness {
        Duration::ZERO => format!("{from}:"),
        _ => format!(
            "{from} and a packet loop that is up to {lateness} late (more is told as held up by the host):"
        ),
    }
}

fn name(interface: &InterfacePolicy, case: &WorstCase) -> String {
    let info = case.class.and_then(|class| interface.plan.info(class));
    info.map_or("all".into(), |info| info.name.to_string())
}

fn row(interface: &InterfacePolicy, case: &WorstCase) -> Option<Vec<String>> {
    let bound = case.bound.as_ref().ok()?;
    Some(vec![
        format!("  {}", name(interface, case)),
        bounds::shown(bound.delay).to_string(),
        match bound.shortest {
            Bytes::ZERO => format!("{} backlog", bound.backlog),
            shortest => format!(
                "{} backlog, while no packet is shorter than {shortest}",
                bound.backlog
            ),
        },
    ])
}

/// As JSON, for each class: `class` (null for a discipline without classes), and `delay_ns` and
/// `backlog_bytes`, and the shortest packets under which they hold (0: any), `shortest_bytes`; or
/// `none`, the reason.
pub fn json(interface: &InterfacePolicy) -> Value {
    let case = |case: &WorstCase| {
        let class = case
            .class
            .and_then(|class| interface.plan.info(class))
            .map(|info| info.name.as_str());
        match &case.bound {
            Ok(bound) => json!({ "class": class, "delay_ns": bound.delay.nanos(),
                                 "backlog_bytes": bound.backlog.get(),
                                 "shortest_bytes": bound.shortest.get(), "none": null }),
            Err(why) => json!({ "class": class, "delay_ns": null, "backlog_bytes": null,
                                "shortest_bytes": null, "none": why }),
        }
    };
    interface.bounds().iter().map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::policy::Policy;
    use engine::tree::Registry;

    const PORT: &str = "version = 1\n[port]\nbetween = [\"lan0\", \"wan0\"]\ntransmit_ring = 4\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\n";

    fn policy(text: &str) -> Policy {
        Policy::read("a policy", &format!("{PORT}{text}"), &Registry::builtin(), &[]).expect("a good policy")
    }

    fn shown(text: &str) -> Vec<String> {
        let policy = policy(text);
        lines(&policy.interfaces[0])
    }

    const VOICE: &str = "discipline = \"ips\"
[[interface.wan0.class]]
name = \"voice\"
rate = \"2 Mbit/s\"
burst = \"6 kB\"
delay = \"12 ms\"
jitter = \"0 s\"
[[interface.wan0.class]]
name = \"rest\"
default = true
";

    #[test]
    fn the_worst_case_is_shown_and_why_there_is_none() {
        let expected = [
            "at worst, from arrival to the last bit on the link, with 4 packets in the transmit ring and a packet loop that is up \
             to 1 ms late (more is told as held up by the host):",
            "  voice  10.645 ms  7.462 kB backlog",
            "no bound for rest: best effort: no guarantee",
        ];
        assert_eq!(shown(VOICE), expected);
        let priq = "discipline = \"priq\"
[[interface.wan0.class]]
name = \"voice\"
priority = 7
sends = { rate = \"2 Mbit/s\", burst = \"6 kB\" }
[[interface.wan0.class]]
name = \"rest\"
priority = 1
default = true
";
        assert_eq!(shown(priq)[1], expected[1]);
        assert_eq!(
            shown("discipline = \"wfq\"\n"),
            [
                "no bound on delays: a packet is delayed by all backlogged flows, and nothing bounds how many there are \
              or which share a queue"
            ]
        );
    }

    #[test]
    fn json_has_numbers_or_a_reason_for_every_class() {
        let policy = policy(VOICE);
        let value = json(&policy.interfaces[0]);
        assert_eq!(
            value[0],
            json!({ "class": "voice", "delay_ns": 10_644_800, "backlog_bytes": 7_462, "shortest_bytes": 0, "none": null })
        );
        assert_eq!(value[1]["none"], "best effort: no guarantee");
    }

    #[test]
    fn a_change_at_run_time_that_would_break_a_guarantee_is_refused_with_the_numbers() {
        let policy = policy(VOICE);
        let set = |key: &str, value: &str| {
            let changes = [(key, engine::settings::Raw::Text(value.into()))];
            policy.interfaces[0].with_class_settings(&Registry::builtin(), "voice", &changes)
        };
        assert!(set("delay", "11 ms").is_ok());
        let problems = set("burst", "10 kB").expect_err("13.8 ms");
        assert_eq!(
            problems[0].message,
            "`voice` asks for 12 ms, and 13.845 ms is possible"
        );
        let help = problems[0].help.as_deref().unwrap_or_default();
        assert!(help.contains("a delay of 13.845 ms"), "{help}");
    }

    #[test]
    fn a_bound_that_is_printed_beside_an_admitted_delay_is_within_it() {
        let voice = |delay: &str| VOICE.replace("12 ms", delay);
        assert_eq!(
            shown(&voice("10.645 ms"))[1],
            "  voice  10.645 ms  7.462 kB backlog"
        );
        let refused = Policy::read(
            "a policy",
            &format!("{PORT}{}", voice("10.644 ms")),
            &Registry::builtin(),
            &[],
        );
        let text = refused.expect_err("a microsecond less").render(false);
        assert!(
            text.contains("asks for 10.644 ms, and 10.645 ms is possible"),
            "{text}"
        );
    }
}
