//! The page `docs/disciplines/beside-linux.md`: authors write what differs and why; the tables
//! between the marks are generated. The same numbers are beside it as JSON, by the case's name.

use super::cases::{ALL, Case};
use super::measured::{FlowFigures, Side};
use crate::marked;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const PAGE: &str = "docs/disciplines/beside-linux.md";
const DATA: &str = "docs/disciplines/beside-linux.json";
const END: &str = "<!-- end of measured -->";

/// Writes one case into both files; a case that is not on the page is appended.
pub fn write(root: &Path, case: &Case, kernel: &Side, ours: &Side) -> Result<(), String> {
    let path = root.join(PAGE);
    let mark = format!("<!-- measured: {}, by `cargo xtask compare` -->", case.name);
    let mut page =
        std::fs::read_to_string(&path).unwrap_or_else(|_| "# Beside the Linux kernel\n".to_owned());
    if !page.contains(&mark) {
        let _ = write!(page, "\n## {}\n\n{mark}\n{END}\n", case.name);
    }
    let page = marked::replaced(&page, &mark, END, &text(case, kernel, ours))
        .ok_or_else(|| format!("{PAGE}: `{mark}` has no `{END}`"))?;
    std::fs::write(&path, page).map_err(|e| format!("{PAGE}: {e}"))?;

    let path = root.join(DATA);
    let old = std::fs::read_to_string(&path).unwrap_or_else(|_| "{}".to_owned());
    let mut data: Value = serde_json::from_str(&old).map_err(|e| format!("{DATA}: {e}"))?;
    data[case.name] = serde_json::json!({
        "tc": case.tc_lines(),
        "policy": case.policy,
        "round_trip_ms": case.round_trip_ms,
        "seconds": case.seconds,
        "linux": kernel,
        "suimon": ours,
    });
    let data = serde_json::to_string_pretty(&data).map_err(|e| format!("{DATA}: {e}"))?;
    std::fs::write(&path, data + "\n").map_err(|e| format!("{DATA}: {e}"))
}

/// The cases that are not on the page.
pub fn missing(root: &Path) -> Vec<&'static str> {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let mark = |name: &str| format!("<!-- measured: {name}, ");
    ALL.iter()
        .map(|case| case.name)
        .filter(|name| !page.contains(&mark(name)))
        .collect()
}

/// The tables of one case.
pub fn text(case: &Case, kernel: &Side, ours: &Side) -> String {
    let mut text = String::from(
        "| flow | | offered packets | lost | Mbit/s | mean delay | half within | 99 % within | longest |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (theirs, own) in kernel.flows.iter().zip(&ours.flows) {
        let _ = writeln!(text, "{}\n{}", row("Linux", theirs), row("Suimon", own));
    }
    let _ = writeln!(
        text,
        "\nDropped and marked in all: Linux {} and {}, Suimon {} and {}. {}: 99 % of the datagrams were sent within {} of their time, \
         the latest after {}.",
        kernel.dropped,
        kernel.marked,
        ours.dropped,
        ours.marked,
        kernel.what,
        milliseconds(kernel.late_p99_us.unwrap_or(0)),
        milliseconds(kernel.late_max_us.unwrap_or(0)),
    );
    if !case.policy.is_empty() {
        let tc = case.tc_lines().join("\n");
        let _ = writeln!(text, "\n```sh\n{tc}\n```\n\n```toml\n{}\n```", case.policy);
    }
    text.trim_end().to_owned()
}

fn row(side: &str, flow: &FlowFigures) -> String {
    let name = &flow.name;
    let rate = flow.rate_bps as f64 / 1e6;
    if flow.sent == 0 {
        return format!("| {name} | {side} | | | {rate:.2} | | | | |");
    }
    let delays = [flow.mean_us, flow.p50_us, flow.p99_us, flow.max_us].map(milliseconds);
    format!(
        "| {name} | {side} | {} | {} | {rate:.2} | {} |",
        flow.sent,
        flow.lost(),
        delays.join(" | ")
    )
}

fn milliseconds(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1e3)
}
