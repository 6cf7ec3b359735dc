//! The list of pages beside each: tasks first, then what is looked up, then how it is known.

use super::page::{Page, escaped};
use super::{is_markdown, place, relative};
use std::collections::BTreeMap;

/// A page of the list: its path, what it is called here, and what those who search read of it, in
/// their words; its first paragraph, if there are none.
struct Listed(&'static str, &'static str, &'static str);

/// The parts, with their pages in order; a folder stands for its pages.
const PARTS: &[(&str, &[Listed])] = &[
    (
        "Begin",
        &[
            Listed(
                "README.md",
                "What it is",
                "Suimon shapes network traffic on Linux: SQM and AQM against bufferbloat, QoS classes, low latency under load; one engine in a simulator, a lab and on real links.",
            ),
            Listed(super::simulator::PLACE, "The simulator, in the browser", ""),
            Listed(
                "docs/home.md",
                "A home in five minutes",
                "Cure bufferbloat at home in five minutes: SQM with CAKE on a Linux router or computer, fair to each device, low latency under load, one command.",
            ),
            Listed(
                "docs/isp.md",
                "An ISP with 2,000 circuits",
                "Traffic shaping for an ISP: 2,000 subscriber circuits with minimum and maximum rates, from LibreQoS files, on a bridge that fails open.",
            ),
            Listed(
                "docs/bad-links.md",
                "An app on a bad link, in CI",
                "Network emulation in CI without root: run an app behind a slow link with delay, jitter, loss and reordering, and judge it by its exit code.",
            ),
            Listed(
                "docs/classroom.md",
                "A classroom",
                "Teach queueing, AQM, QoS and congestion control: simulate a discipline, rehearse it with real TCP in namespaces, without root or kernel modules.",
            ),
            Listed(
                "docs/lecture.md",
                "A lecture of 90 minutes",
                "A lecture on queueing, bufferbloat, fair shares, AQM and guaranteed delay: files and commands that run on every student's computer, without root.",
            ),
            Listed(
                "docs/python.md",
                "A paper's figure, in a notebook",
                "Network simulation in Python: queueing disciplines, AQM and TCP congestion control from Jupyter; sweeps into pandas, figures with matplotlib.",
            ),
            Listed(
                "docs/coming-from/README.md",
                "Coming from elsewhere",
                "Migrate from tc (HTB, HFSC, fq_codel, CAKE), OpenWrt SQM, ALTQ, pf queues, LibreQoS or WireGuard: import the files, see what is lost.",
            ),
        ],
    ),
    (
        "Reference",
        &[
            Listed("docs/policy.md", "Policies", ""),
            Listed("docs/disciplines/", "Disciplines", ""),
            Listed("docs/operating.md", "Running it", ""),
            Listed("docs/what-if.md", "What if", ""),
            Listed("docs/nine.md", "nine and bottlenet", ""),
            Listed("docs/scenarios.md", "Scenarios", ""),
            Listed("docs/rsvp.md", "RSVP", ""),
            Listed("docs/rsvp-protocol.md", "RSVP's protocol", ""),
            Listed("docs/socket.md", "The control socket", ""),
            Listed("docs/security.md", "Security", ""),
            Listed("docs/coming-from/", "Coming from …", ""),
            Listed("docs/glossary.md", "Glossary", ""),
        ],
    ),
    (
        "How it is known",
        &[
            Listed("docs/performance.md", "What it costs", ""),
            Listed("docs/benchmarks.md", "Benchmarks", ""),
            Listed("docs/measurements/", "Measurements", ""),
            Listed("docs/reproductions/", "Papers done again", ""),
        ],
    ),
    (
        "How it is made",
        &[
            Listed("ARCHITECTURE.md", "Architecture", ""),
            Listed("CONTRIBUTING.md", "Contributing", ""),
            Listed("docs/decisions/", "Decisions", ""),
        ],
    ),
];

/// What those who search read of a page, if it has words of its own.
pub(super) fn description(path: &str) -> Option<&'static str> {
    let all = PARTS.iter().flat_map(|(_, pages)| pages.iter());
    let own = all.into_iter().find(|Listed(own, _, _)| *own == path);
    own.map(|Listed(_, _, words)| *words)
        .filter(|words| !words.is_empty())
}

/// The list as the page at this path has it.
pub(super) fn of(here: &str, pages: &BTreeMap<String, Page>) -> String {
    let part = |(title, listed): &(&str, &[Listed])| {
        let items: String = listed.iter().map(|listed| item(here, listed, pages)).collect();
        format!("<h2>{title}</h2>\n<ul>\n{items}</ul>\n")
    };
    PARTS.iter().map(part).collect()
}

fn item(here: &str, Listed(path, name, _): &Listed, pages: &BTreeMap<String, Page>) -> String {
    if !path.ends_with('/') {
        // A part of the sources alone, as in a test, has not all pages.
        return match pages.contains_key(*path) {
            true => format!("<li>{}</li>\n", link(here, path, name)),
            false => String::new(),
        };
    }
    let inside = pages
        .iter()
        .filter(|(page, _)| page.starts_with(path) && is_markdown(page));
    let (first, others): (Vec<_>, Vec<_>) = inside.partition(|(page, _)| page.ends_with("/README.md"));
    let all = first.into_iter().chain(others);
    let links: String = all
        .map(|(page, of)| format!("<li>{}</li>\n", link(here, page, &of.title)))
        .collect();
    if links.is_empty() {
        return String::new();
    }
    let open = if here.starts_with(path) { " open" } else { "" };
    format!("<li><details{open}><summary>{name}</summary>\n<ul>\n{links}</ul></details></li>\n")
}

fn link(here: &str, to: &str, name: &str) -> String {
    let current = if here == to { " aria-current=\"page\"" } else { "" };
    let way = relative(&place(here), &place(to));
    format!("<a href=\"{}\"{current}>{}</a>", escaped(&way), escaped(name))
}
