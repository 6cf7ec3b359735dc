//! Describes a scenario without running it: hosts with their addresses, links, and the class of
//! each flow.

use crate::folder::Folder;
use crate::language::{DirectionConfig, FlowConfig};
use crate::{Scenario, Scenarios};
use control::diagnostics::Diagnostics;
use engine::classify::Classifier;
use engine::random::Seed;
use engine::tree::Registry;
use measure::numbers;
use plot::colour;
use plot::text::{self, Align};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Checks the scenario at this path, prints its description or its mistakes, and returns whether it
/// is accepted.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to; a scenario with mistakes gives `false`.
pub fn check(
    path: &str,
    text: &str,
    registry: &Registry,
    as_json: bool,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let folder = Folder::of(path);
    let read = Scenarios::read(path, text, registry, &folder);
    let read = read.and_then(|all| Ok((all.point(1, &folder)?, all)));
    let colour = colour::wanted(&io::stdout());
    match &read {
        _ if as_json => writeln!(out, "{:#}", to_json(path, &read))?,
        Ok((scenario, all)) => {
            write!(out, "{}", all.warnings.render(colour))?;
            show(out, path, scenario, all)?;
        }
        Err(diagnostics) => write!(out, "{}", diagnostics.render(colour))?,
    }
    Ok(read.is_ok())
}

fn counted(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

fn show(out: &mut dyn Write, path: &str, scenario: &Scenario, all: &Scenarios) -> io::Result<()> {
    let parts = [
        counted(scenario.hosts.len(), "host"),
        counted(scenario.directions.len() / 2, "link"),
        counted(scenario.flows.len(), "flow"),
        counted(scenario.changes.len(), "change"),
        counted(scenario.expectations.len(), "expectation"),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.starts_with("0 ")).collect();
    let duration = scenario.settings.duration;
    writeln!(
        out,
        "{path}: valid: a scenario of {duration} with {}",
        parts.join(", ")
    )?;
    if !all.sweep.is_empty() {
        let points = all.sweep.points();
        writeln!(
            out,
            "a sweep of {}; what follows is the first",
            counted(points, "point")
        )?;
    }
    let hosts = scenario.hosts.iter();
    let rows: Vec<Vec<String>> = hosts
        .map(|host| vec![host.name.clone(), host.address.to_string()])
        .collect();
    section(out, &rows, &[Align::Left; 2])?;
    let link = |direction: &DirectionConfig| {
        let ruled = match &direction.policy {
            Some(policy) => format!("{} at {}", policy.plan.root.kind.name, policy.settings.bandwidth),
            None => format!("a buffer of {}", numbers::bytes(direction.buffer().get())),
        };
        let settings = &direction.settings;
        let rate = match (&settings.trace, &direction.trace) {
            (Some(file), _) => format!("{} on average, by {file}", settings.rate),
            (None, Some(_)) => format!("{}, and changes", settings.rate),
            (None, None) => settings.rate.to_string(),
        };
        vec![
            direction.name.clone(),
            rate,
            settings.delay.to_string(),
            ruled,
            unmatched(direction).map_or_else(String::new, |class| format!("unmatched → {class}")),
        ]
    };
    let rows: Vec<Vec<String>> = scenario.directions.iter().map(link).collect();
    section(
        out,
        &rows,
        &[Align::Left, Align::Right, Align::Right, Align::Left, Align::Left],
    )?;
    let flow = |flow: &FlowConfig| {
        let [from, to] = flow.between.map(|host| scenario.hosts[host].name.as_str());
        let classes: Vec<String> = classes(scenario, flow)
            .into_iter()
            .map(|(_, class)| class.to_owned())
            .collect();
        let class = if classes.is_empty() {
            String::new()
        } else {
            format!("in {}", classes.join(", "))
        };
        let copies = if flow.settings.count > 1 {
            format!("x {}", flow.settings.count)
        } else {
            String::new()
        };
        vec![
            flow.name.clone(),
            flow.source.label(),
            copies,
            format!("{from} > {to}"),
            class,
        ]
    };
    let rows: Vec<Vec<String>> = scenario.flows.iter().map(flow).collect();
    section(out, &rows, &[Align::Left; 5])
}

fn section(out: &mut dyn Write, rows: &[Vec<String>], align: &[Align]) -> io::Result<()> {
    writeln!(out)?;
    text::table(rows, align)
        .into_iter()
        .try_for_each(|line| writeln!(out, "{line}"))
}

/// The class of what no filter of a direction takes, if it has a policy with classes.
fn unmatched(direction: &DirectionConfig) -> Option<&str> {
    let plan = &direction.policy.as_ref()?.plan;
    plan.info(plan.class_of(None)).map(|info| info.name.as_str())
}

/// The links with policies on the path of a flow, and its class there.
fn classes<'a>(scenario: &'a Scenario, flow: &FlowConfig) -> Vec<(&'a str, &'a str)> {
    let path = scenario.path(flow.between);
    let ruled = path.into_iter().filter_map(|index| {
        let direction = &scenario.directions[index];
        let policy = direction.policy.as_ref()?;
        let classifier = Classifier::new(policy.filters.iter().copied(), Seed(0));
        let class = policy.plan.class_of(classifier.classify(&flow.key));
        Some((direction.name.as_str(), policy.plan.info(class)?.name.as_str()))
    });
    ruled.collect()
}

fn to_json(path: &str, read: &Result<(Scenario, Scenarios), Diagnostics>) -> Value {
    let diagnostics = match read {
        Ok((_, all)) => &all.warnings,
        Err(diagnostics) => diagnostics,
    };
    let flow = |scenario: &Scenario, flow: &FlowConfig| {
        let classes = classes(scenario, flow)
            .into_iter()
            .map(|(link, class)| json!({ "link": link, "class": class }));
        json!({ "name": flow.name, "kind": flow.source.label(), "copies": flow.settings.count,
                "classes": classes.collect::<Vec<_>>() })
    };
    let scenario = read.as_ref().ok().map(|(scenario, all)| {
        let hosts = scenario
            .hosts
            .iter()
            .map(|host| json!({ "name": host.name, "address": host.address.to_string() }));
        let links = scenario.directions.iter().map(|direction| {
            json!({ "name": direction.name, "bandwidth_bps": direction.settings.rate.bits(),
                    "delay_ns": direction.settings.delay.nanos(),
                    "discipline": direction.policy.as_ref().map(|policy| policy.plan.root.kind.name),
                    "unmatched": unmatched(direction) })
        });
        json!({ "duration_ns": scenario.settings.duration.nanos(), "points": all.sweep.points(),
                "hosts": hosts.collect::<Vec<_>>(), "links": links.collect::<Vec<_>>(),
                "flows": scenario.flows.iter().map(|f| flow(scenario, f)).collect::<Vec<_>>(),
                "expectations": scenario.expectations.len() })
    });
    json!({
        "scenario": path,
        "accepted": read.is_ok(),
        "mistakes": diagnostics.mistakes(),
        "diagnostics": diagnostics.places(),
        "means": scenario,
    })
}
