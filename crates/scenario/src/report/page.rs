//! The HTML page of a simulation: expectations, traffic of links, rates of flows, and the scenario
//! itself.
//!
//! A sweep has a table of its points and a curve for each measured value. Of its points, those that
//! missed an expectation, and the first, are shown in full. [`super::pictures`] draws,
//! `super::sweep` compares points.

use super::{pictures, replications, sweep};
use crate::run::outcome::{ClassOutcome, FlowOutcome, LinkOutcome, Outcome, Passed};
use measure::delay::FineDelays;
use measure::numbers;
use plot::html::{Cell, Page};

/// The maximum number of points of a sweep that are shown in full.
const SHOWN: usize = 4;
/// The page of these points of a scenario. `texts` are the names and contents of the files that
/// were run.
pub fn page(outcomes: &[Outcome], texts: &[(String, String)]) -> String {
    let Some(first) = outcomes.first() else {
        return Page::new("Nothing was simulated").finish();
    };
    let mut page = Page::new(&first.scenario);
    verdict(&mut page, outcomes);
    if first.point.of > 1 {
        sweep::show(&mut page, outcomes);
        replications::show(&mut page, outcomes);
        for outcome in chosen(outcomes) {
            let summary = format!("Point {}: {}", outcome.point.number, values(outcome));
            page.folded(&summary, outcome.missed() > 0, |page| point(page, outcome));
        }
    } else {
        point(&mut page, first);
    }
    page.heading("What was run");
    let events: u64 = outcomes.iter().map(|outcome| outcome.events).sum();
    let mut facts = vec![
        ("simulated", first.duration.to_string()),
        ("events", numbers::count(events)),
        ("bin width of the charts", numbers::time(first.bin.nanos())),
        (
            "basis",
            "links and classes count frames, Ethernet header included; flows count what the receiving program got"
                .into(),
        ),
    ];
    if first.point.of > 1 {
        facts[0].1 = format!("{} of each point", first.duration);
        facts.insert(1, ("points", format!("{} of {}", outcomes.len(), first.point.of)));
    }
    page.facts(&facts);
    for (name, text) in texts {
        page.heading(name);
        page.listing(text);
    }
    page.finish()
}

/// The points that are shown in full: first those that missed an expectation.
fn chosen(outcomes: &[Outcome]) -> Vec<&Outcome> {
    let (bad, good): (Vec<_>, Vec<_>) = outcomes.iter().partition(|outcome| outcome.missed() > 0);
    let mut chosen: Vec<&Outcome> = bad.into_iter().chain(good).take(SHOWN).collect();
    chosen.sort_by_key(|outcome| outcome.point.number);
    chosen
}

fn values(outcome: &Outcome) -> String {
    let values = outcome.point.values.iter();
    let texts: Vec<String> = values.map(|(name, value)| format!("{name} {value}")).collect();
    texts.join(", ")
}

fn verdict(page: &mut Page, outcomes: &[Outcome]) {
    let all: usize = outcomes.iter().map(|outcome| outcome.expectations.len()).sum();
    let missed: usize = outcomes.iter().map(Outcome::missed).sum();
    if all == 0 {
        return page.paragraph("The scenario has no expectations.");
    }
    let text = match missed {
        0 if all == 1 => "The expectation was met.".into(),
        0 => format!("All {all} expectations were met."),
        _ => format!("{missed} of {all} expectations were missed."),
    };
    page.verdict(missed == 0, &text);
}

fn point(page: &mut Page, outcome: &Outcome) {
    if !outcome.expectations.is_empty() {
        page.heading("Expectations");
        expectations(page, outcome);
    }
    for link in outcome.links.iter().filter(|link| link.total.packets > 0) {
        let discipline = link.discipline.unwrap_or("plain buffer");
        let rate = numbers::rate(link.rate.bits());
        page.heading(&format!("{} · {rate} · {discipline}", link.name));
        page.table(&COLUMNS, &classes(link));
        page.folded("Pictures", pictures::is_busy(link), |page| {
            page.picture(
                &pictures::link(outcome, link),
                "The rates of the classes, stacked, and how long packets waited before their first bit was sent. \
                 Percentiles are never too low, and at most 1/64 too high.",
            );
        });
    }
    if !outcome.flows.is_empty() {
        page.heading("Flows");
        page.table(&FLOW_COLUMNS, &flows(outcome));
        page.picture(
            &pictures::flows(outcome),
            "The rate at which the receiving program of each flow got data. When a TCP retransmission fills a gap, the \
             program gets all data behind the gap at once: the spikes.",
        );
    }
}

fn expectations(page: &mut Page, outcome: &Outcome) {
    let rows = outcome.expectations.iter().map(|judgement| {
        vec![
            Cell::new(&judgement.what),
            Cell::new(&judgement.expected),
            Cell::judged(&judgement.got, judgement.met),
            Cell::new(&judgement.missed_by),
        ]
    });
    page.table(
        &["metric", "expected", "measured", "missed by"],
        &rows.collect::<Vec<_>>(),
    );
}

const COLUMNS: [&str; 11] = [
    "class",
    "configured",
    "measured",
    "share",
    "delay p50",
    "p99",
    "max",
    "max backlog",
    "dropped",
    "marked",
    "borrowed",
];

fn classes(link: &LinkOutcome) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    below(link, None, 0, &mut rows);
    if rows.len() != 1 {
        rows.push(row("all".into(), None, &link.total, link));
    }
    rows
}

/// The rows of the classes below this one, depth first, indented by depth.
fn below(link: &LinkOutcome, parent: Option<usize>, depth: usize, rows: &mut Vec<Vec<Cell>>) {
    for (index, class) in link.classes.iter().enumerate() {
        if class.parent == parent {
            let name = "\u{2003}".repeat(depth) + &class.name;
            rows.push(row(name, Some(class), &class.passed, link));
            below(link, Some(index), depth + 1, rows);
        }
    }
}

fn row(name: String, class: Option<&ClassOutcome>, passed: &Passed, link: &LinkOutcome) -> Vec<Cell> {
    let configured = class.and_then(|class| class.target);
    let borrowed = class.and_then(|class| class.borrowed).map_or(0, |b| b.get());
    let share = passed.bytes as f64 / link.total.bytes.max(1) as f64;
    let reasons = passed.dropped.iter().filter(|(_, n)| *n > 0);
    let reasons: Vec<String> = reasons
        .map(|(why, n)| format!("{} {why}", numbers::count(*n)))
        .collect();
    let some = |n: u64, show: fn(u64) -> String| if n > 0 { show(n) } else { String::new() };
    let [p50, p99, longest] = delays(&passed.waited);
    let cells = [
        name,
        configured.map_or_else(String::new, |configured| numbers::rate(configured.bits())),
        numbers::rate(passed.rate.bits()),
        numbers::share(share),
        p50,
        p99,
        longest,
        some(passed.backlog.most().bytes.get(), numbers::bytes),
        reasons.join(", "),
        some(passed.marked, numbers::count),
        some(borrowed, numbers::bytes),
    ];
    cells.into_iter().map(Cell::new).collect()
}

fn delays(delays: &FineDelays) -> [String; 3] {
    if delays.count() == 0 {
        return Default::default();
    }
    [delays.quantile(500), delays.quantile(990), delays.longest()].map(|delay| numbers::time(delay.nanos()))
}

const FLOW_COLUMNS: [&str; 8] = [
    "flow",
    "kind",
    "path",
    "received",
    "delay p50",
    "p99",
    "max",
    "counted",
];

fn flows(outcome: &Outcome) -> Vec<Vec<Cell>> {
    let row = |flow: &FlowOutcome| {
        let copies = match flow.copies.len() {
            0 | 1 => flow.name.clone(),
            several => format!("{} × {several}", flow.name),
        };
        let counts = flow.counts.iter().filter(|(_, n)| *n > 0);
        let counts: Vec<String> = counts
            .map(|(name, n)| format!("{} {name}", numbers::count(*n)))
            .collect();
        let [p50, p99, longest] = flow.delays.as_ref().map(delays).unwrap_or_default();
        let cells = [
            copies,
            flow.kind.clone(),
            format!("{} > {}", flow.from, flow.to),
            numbers::rate(flow.rate.bits()),
            p50,
            p99,
            longest,
            counts.join(", "),
        ];
        cells.into_iter().map(Cell::new).collect()
    };
    outcome.flows.iter().map(row).collect()
}
