//! The same case as a scenario of `suimon sim`.

use super::cases::Case;
use super::inside::DRAIN;
use super::measured::{FlowFigures, Side};
use super::traffic::{Flow, PORT, Source};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Runs the case in the simulator.
pub fn measure(case: &Case, program: &Path, scratch: &Path) -> Result<Side, String> {
    for (number, flow) in case.flows.iter().enumerate() {
        let path = scratch.join(format!("{number}.trace"));
        std::fs::write(&path, flow.trace(number, case.seconds))
            .map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let path = scratch.join("case.toml");
    let text = scenario(case);
    std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    let done = Command::new(program)
        .args(["sim", "--json"])
        .arg(&path)
        .output()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    if !done.status.success() {
        return Err(format!(
            "{text}\n{}",
            String::from_utf8_lossy(&done.stderr).trim()
        ));
    }
    let outcome: Value = serde_json::from_slice(&done.stdout).map_err(|e| format!("suimon sim: {e}"))?;
    Ok(figures(case, &outcome))
}

/// The scenario: the two hosts, the discipline at the place of the kernel's router, and the flows.
fn scenario(case: &Case) -> String {
    let seconds = case.seconds + DRAIN.as_secs();
    let mut text = format!(
        "version = 1\nduration = \"{seconds} s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Gbit/s\"\n\
         back = {{ delay = \"{} ms\", buffer = \"100 MB\" }}\n",
        case.round_trip_ms
    );
    if !case.policy.is_empty() {
        // Disciplines that shape by themselves have their own rate.
        let bandwidth = match case.policy.starts_with("bandwidth") {
            true => "",
            false => "bandwidth = \"1 Gbit/s\"\n",
        };
        let _ = writeln!(text, "[link.policy.a]\n{bandwidth}{}", case.policy);
    }
    for (number, flow) in case.flows.iter().enumerate() {
        let port = PORT + number as u16;
        if let Some((class, _)) = flow.class {
            let _ = writeln!(
                text,
                "[[link.policy.a.filter]]\nclass = \"{class}\"\ndestination_port = {port}"
            );
        }
    }
    for (number, flow) in case.flows.iter().enumerate() {
        let port = PORT + number as u16;
        let (from, to) = flow.span(case.seconds);
        let _ = writeln!(
            text,
            "[[flow]]\nname = \"{}\"\nbetween = [\"a\", \"b\"]\ndestination_port = {port}\necn = {}\ndscp = {}",
            flow.name, flow.ecn, flow.dscp
        );
        let (source, destination) = flow.addresses();
        let _ = writeln!(text, "source = \"{source}\"\ndestination = \"{destination}\"");
        let _ = match flow.source {
            Source::Tcp => writeln!(
                text,
                "kind = \"tcp\"\nstart = \"{} s\"\nstop = \"{} s\"",
                from.as_secs(),
                to.as_secs()
            ),
            // The times of a trace are relative to its first packet.
            _ => writeln!(
                text,
                "kind = \"trace\"\nfile = \"{number}.trace\"\nstart = \"{} s\"",
                from.as_secs()
            ),
        };
    }
    text
}

fn figures(case: &Case, outcome: &Value) -> Side {
    let flow = |(value, (number, flow)): (&Value, (usize, &Flow))| {
        let (from, to) = flow.span(case.seconds);
        let tcp = matches!(flow.source, Source::Tcp);
        let bytes = value["received_bytes"].as_u64().unwrap_or(0);
        let received = value["counts"]["packets"].as_u64().filter(|_| !tcp).unwrap_or(0);
        let delay = |name: &str| value["delay"][name].as_u64().unwrap_or(0) / 1_000;
        FlowFigures {
            name: flow.name.to_owned(),
            sent: flow.times(number, case.seconds).len() as u64,
            received,
            rate_bps: bytes * 8 / (to - from).as_secs().max(1),
            mean_us: delay("mean_ns"),
            p50_us: delay("p50_ns"),
            p99_us: delay("p99_ns"),
            max_us: delay("max_ns"),
        }
    };
    let flows = outcome["flows"].as_array().into_iter().flatten();
    let link = &outcome["links"][0];
    Side {
        what: "suimon sim".into(),
        flows: flows.zip(case.flows.iter().enumerate()).map(flow).collect(),
        dropped: link["dropped_packets"].as_u64().unwrap_or(0),
        marked: link["marked_packets"].as_u64().unwrap_or(0),
        late_p99_us: None,
        late_max_us: None,
        empty_us: None,
    }
}
