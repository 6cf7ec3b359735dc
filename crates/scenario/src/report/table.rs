//! Outcomes as tables for the terminal: one point in full, or a sweep with a line for each point.

use super::replications;
use crate::Scenario;
use crate::run::outcome::LiveOutcome;
use crate::run::outcome::{
    ClassOutcome, FlowOutcome, Judgement, KeptContract, LinkOutcome, MediumOutcome, Outcome, Passed,
    ReservationOutcome,
};
use crate::run::reserved_flows::promised;
use engine::units::{Duration, Instant};
use measure::delay::FineDelays;
use measure::impairments::ImpairmentCounts;
use measure::numbers;
use plot::text::{self, Align};
use sim::medium::MediumCounts;
use sim::tcp::video::Playback;
use std::io::{self, Write};

/// Prints one point in full.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn point(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} simulated, {} events",
        outcome.scenario,
        outcome.duration,
        numbers::count(outcome.events)
    )?;
    for link in outcome.links.iter().filter(|link| link.total.packets > 0) {
        writeln!(out)?;
        show_link(out, link)?;
    }
    if !outcome.media.is_empty() {
        writeln!(out)?;
    }
    for medium in &outcome.media {
        writeln!(out, "{}", on_medium(medium, outcome.duration))?;
    }
    writeln!(out)?;
    show_reservations(out, &outcome.reservations)?;
    flows_and_verdicts(out, &outcome.flows, &outcome.expectations)
}

/// What happened on a medium, on a line.
fn on_medium(medium: &MediumOutcome, duration: Duration) -> String {
    let MediumCounts {
        transmissions,
        collisions,
        given_up,
        busy,
    } = medium.counts;
    let mut line = format!(
        "{}: busy for {} of the time, {} transmissions, {} collisions",
        medium.name,
        numbers::share(busy.as_secs_f64() / duration.as_secs_f64()),
        numbers::count(transmissions),
        numbers::count(collisions),
    );
    if given_up > 0 {
        line += &format!(", {} packets given up", numbers::count(given_up));
    }
    line
}

/// Prints what a scenario promises, before it runs: the rate and the delay of each reservation for
/// guaranteed service.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn promises(out: &mut dyn Write, scenario: &Scenario) -> io::Result<()> {
    for reservation in &scenario.signalling.reservations {
        let Some((delay, flight)) = promised(scenario, reservation) else {
            continue;
        };
        writeln!(
            out,
            "promised to {}: {} from end to end, and at most {} in queues beside {} of propagation: {} in all",
            reservation.name,
            numbers::rate(reservation.settings.rate.bits()),
            numbers::time(delay.nanos()),
            numbers::time(flight.nanos()),
            numbers::time((delay + flight).nanos()),
        )?;
    }
    out.flush()
}

/// Prints what a lab measured.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn live(out: &mut dyn Write, outcome: &LiveOutcome) -> io::Result<()> {
    writeln!(out, "{}: {} in the lab\n", outcome.scenario, outcome.duration)?;
    show_reservations(out, &outcome.reservations)?;
    flows_and_verdicts(out, &outcome.flows, &outcome.expectations)?;
    // A thread that wakes up a little late is no news.
    const USUAL: Duration = Duration::from_millis(1);
    match &outcome.held_up {
        Some((link, late)) if *late > USUAL => {
            let late = numbers::time(late.nanos());
            writeln!(
                out,
                "\nThis machine was held up: the thread of {link} was late by {late} once; the delays of flows include that, \
                 their expectations count it apart."
            )
        }
        _ => Ok(()),
    }
}

fn flows_and_verdicts(
    out: &mut dyn Write,
    flows: &[FlowOutcome],
    expectations: &[Judgement],
) -> io::Result<()> {
    show_flows(out, flows)?;
    if !expectations.is_empty() {
        writeln!(out)?;
    }
    expectations
        .iter()
        .try_for_each(|judgement| show_judgement(out, judgement))
}

const COLUMNS: [(&str, Align); 11] = [
    ("class", Align::Left),
    ("configured", Align::Right),
    ("measured", Align::Right),
    ("share", Align::Right),
    ("p50", Align::Right),
    ("p99", Align::Right),
    ("max", Align::Right),
    ("backlog", Align::Right),
    ("drops", Align::Right),
    ("marks", Align::Right),
    ("borrowed", Align::Right),
];

fn write_table(out: &mut dyn Write, rows: &mut [Vec<String>], align: &[Align]) -> io::Result<()> {
    // Omit empty columns with their titles.
    for column in 0..align.len() {
        if rows.iter().skip(1).all(|row| row[column].is_empty()) {
            rows[0][column].clear();
        }
    }
    text::table(rows, align)
        .into_iter()
        .try_for_each(|line| writeln!(out, "{line}"))
}

fn show_link(out: &mut dyn Write, link: &LinkOutcome) -> io::Result<()> {
    let what = link.discipline.unwrap_or("plain buffer");
    writeln!(
        out,
        "{} · {} · {what}",
        link.name,
        numbers::rate(link.rate.bits())
    )?;
    let mut rows = vec![COLUMNS.map(|(title, _)| title.to_owned()).to_vec()];
    let mut order = Vec::new();
    down(&link.classes, None, 0, &mut order);
    let depths: Vec<usize> = order.iter().map(|(_, depth)| *depth).collect();
    for ((index, _), branch) in order.iter().zip(text::branches(&depths)) {
        let class = &link.classes[*index];
        let configured = class
            .target
            .map_or_else(String::new, |target| numbers::rate(target.bits()));
        let borrowed = class.borrowed.filter(|bytes| bytes.get() > 0);
        let borrowed = borrowed.map_or_else(String::new, |bytes| numbers::bytes(bytes.get()));
        rows.push(row(
            format!("{branch}{}", class.name),
            configured,
            &class.passed,
            link,
            borrowed,
        ));
    }
    rows.push(row("all".into(), String::new(), &link.total, link, String::new()));
    write_table(out, &mut rows, &COLUMNS.map(|(_, align)| align))?;
    show_wire(out, &link.impaired)
}

/// What befell packets on a wire, if anything did.
fn show_wire(out: &mut dyn Write, impaired: &ImpairmentCounts) -> io::Result<()> {
    let ImpairmentCounts {
        lost,
        corrupted,
        duplicated,
        overtaken,
    } = *impaired;
    let all = [
        (lost, "lost"),
        (corrupted, "corrupted"),
        (duplicated, "twice"),
        (overtaken, "overtaken"),
    ];
    let told = all.iter().filter(|(n, _)| *n > 0);
    let told: Vec<String> = told
        .map(|(n, what)| format!("{} {what}", numbers::count(*n)))
        .collect();
    match told.is_empty() {
        true => Ok(()),
        false => writeln!(out, "on the wire: {}", told.join(", ")),
    }
}

/// The classes with their depths, depth first.
fn down(classes: &[ClassOutcome], parent: Option<usize>, depth: usize, order: &mut Vec<(usize, usize)>) {
    for (index, _) in classes
        .iter()
        .enumerate()
        .filter(|(_, class)| class.parent == parent)
    {
        order.push((index, depth));
        down(classes, Some(index), depth + 1, order);
    }
}

fn row(
    name: String,
    configured: String,
    passed: &Passed,
    link: &LinkOutcome,
    borrowed: String,
) -> Vec<String> {
    let some = |n: u64| if n > 0 { numbers::count(n) } else { String::new() };
    let share = passed.bytes as f64 / link.total.bytes.max(1) as f64;
    let [p50, p99, max] = delay_cells(&passed.waited);
    let rate = numbers::rate(passed.rate.bits());
    let most = passed.backlog.most().bytes.get();
    let backlog = if most > 0 {
        numbers::bytes(most)
    } else {
        String::new()
    };
    vec![
        name,
        configured,
        rate,
        numbers::share(share),
        p50,
        p99,
        max,
        backlog,
        some(passed.drops()),
        some(passed.marked),
        borrowed,
    ]
}

fn delay_cells(delays: &FineDelays) -> [String; 3] {
    if delays.count() == 0 {
        return Default::default();
    }
    [delays.quantile(500), delays.quantile(990), delays.longest()].map(|delay| numbers::time(delay.nanos()))
}

fn show_flows(out: &mut dyn Write, flows: &[FlowOutcome]) -> io::Result<()> {
    const TITLES: [(&str, Align); 10] = [
        ("flow", Align::Left),
        ("kind", Align::Left),
        ("from", Align::Left),
        ("to", Align::Left),
        ("", Align::Right),
        ("received", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("counted", Align::Left),
    ];
    let mut rows = vec![TITLES.map(|(title, _)| title.to_owned()).to_vec()];
    for flow in flows {
        let [p50, p99, max] = flow.delays.as_ref().map(delay_cells).unwrap_or_default();
        let copies = flow.copies.len();
        let copies = if copies > 1 {
            format!("x {copies}")
        } else {
            String::new()
        };
        let counts = flow.counts.iter().filter(|(_, n)| *n > 0);
        let counts = counts.map(|(name, n)| format!("{} {name}", numbers::count(*n)));
        let counts: Vec<String> = counts.chain(flow.playback.iter().flat_map(played)).collect();
        rows.push(vec![
            flow.name.clone(),
            flow.kind.clone(),
            flow.from.clone(),
            flow.to.clone(),
            copies,
            numbers::rate(flow.rate.bits()),
            p50,
            p99,
            max,
            counts.join(", "),
        ]);
    }
    write_table(out, &mut rows, &TITLES.map(|(_, align)| align))
}

/// What has become of playing video.
fn played(played: &Playback) -> Vec<String> {
    let mut told = vec![format!(
        "{} segments of {} in the mean",
        numbers::count(played.segments),
        numbers::rate(played.bitrate().bits())
    )];
    if played.switches > 0 {
        told.push(format!("{} switches", numbers::count(played.switches)));
    }
    if played.stalls > 0 {
        let stalled = numbers::time(played.stalled.nanos());
        told.push(format!("{} stalls for {stalled}", numbers::count(played.stalls)));
    }
    let startup = numbers::time(played.startup.nanos());
    told.push(match played.players - played.begun {
        0 => format!("plays after {startup}"),
        waiting => format!("{waiting} not playing yet after {startup}"),
    });
    told
}

fn show_reservations(out: &mut dyn Write, reservations: &[ReservationOutcome]) -> io::Result<()> {
    let mut rows = Vec::new();
    for reservation in reservations {
        let in_force = format!("in force for {}", numbers::time(reservation.in_force.nanos()));
        rows.push(vec![
            format!("reservation {}", reservation.name),
            String::new(),
            in_force,
        ]);
        if let Some(delay) = reservation.delay {
            let time = |time: Option<Duration>| time.map_or("-".into(), |time| numbers::time(time.nanos()));
            let [promised, bound, measured] = [Some(delay.promised), delay.bound, delay.measured].map(time);
            let told = format!("delay: promised {promised}, bound {bound}, measured {measured} at most");
            rows.push(vec![String::new(), String::new(), told]);
        }
        let told = reservation.contract.iter().flat_map(contract);
        rows.extend(told.map(|told| vec![String::new(), String::new(), told]));
        rows.extend(reservation.events.iter().map(|(at, event)| {
            let at = numbers::time(at.since(Instant::START).nanos());
            vec![String::new(), at, event.clone()]
        }));
    }
    if rows.is_empty() {
        return Ok(());
    }
    text::table(&rows, &[Align::Left, Align::Right, Align::Left])
        .into_iter()
        .try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out)
}

/// What became of the packets that something was promised to, and what of those that exceeded it.
fn contract(contract: &KeptContract) -> Vec<String> {
    let KeptContract {
        at,
        packets,
        exceeded,
        earliest,
        policed,
        held_up,
        longest,
        lost,
        late,
        hops,
    } = contract;
    let [kept, exceeded_by, policed_of, held] =
        [packets - exceeded, *exceeded, *policed, *held_up].map(numbers::count);
    let all = numbers::count(*packets);
    let mut told = vec![format!(
        "{kept} of {all} packets kept to what is reserved at {at}; of these {lost} lost, {late} later than the bound"
    )];
    if *exceeded > 0 {
        let [earliest, longest] = [earliest, longest].map(|time| numbers::time(time.nanos()));
        let since = match held_up {
            0 => String::new(),
            _ => format!(
                "; {held} came after this machine had held the sender or a link up, for up to {longest}"
            ),
        };
        told.push(format!(
            "{exceeded_by} exceeded it, by up to {earliest}, and {policed_of} of them were policed{since}"
        ));
    }
    told.extend(hops.iter().map(|hop| {
        let [bound, worst] = [hop.bound, hop.worst].map(|time| numbers::time(time.nanos()));
        let [late, exceeded] = [hop.late, hop.exceeded].map(numbers::count);
        format!(
            "at {}: bound {bound}, measured {worst} at most; {late} late, {exceeded} exceeded it there",
            hop.at
        )
    }));
    told
}

fn show_judgement(out: &mut dyn Write, judgement: &Judgement) -> io::Result<()> {
    let Judgement {
        what,
        expected,
        got,
        met,
        missed_by,
        held_up,
        ..
    } = judgement;
    let apart = held_up.as_ref().map(|held_up| format!("; {}", held_up.words()));
    let apart = apart.unwrap_or_default();
    if *met {
        writeln!(out, "met     {what}: expected {expected}, measured {got}{apart}")
    } else {
        writeln!(
            out,
            "MISSED  {what}: expected {expected}, measured {got}: {missed_by}{apart}"
        )
    }
}

/// Prints a sweep: a line for each point with the values of its expectations, or without any, the
/// rates of its flows.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn sweep(out: &mut dyn Write, outcomes: &[Outcome]) -> io::Result<()> {
    let Some(first) = outcomes.first() else {
        return Ok(());
    };
    writeln!(
        out,
        "{}: {} of {} points, {} simulated each",
        first.scenario,
        outcomes.len(),
        first.point.of,
        first.duration
    )?;
    let judged = !first.expectations.is_empty();
    let mut titles = vec!["point".to_owned()];
    titles.extend(first.point.values.iter().map(|(name, _)| name.clone()));
    if judged {
        titles.extend(first.expectations.iter().map(|judgement| judgement.what.clone()));
    } else {
        titles.extend(first.flows.iter().map(|flow| flow.name.clone()));
    }
    let mut rows = vec![titles];
    for outcome in outcomes {
        let mut row = vec![outcome.point.number.to_string()];
        row.extend(outcome.point.values.iter().map(|(_, value)| value.clone()));
        if judged {
            let cell = |judgement: &Judgement| match judgement.met {
                true => judgement.got.clone(),
                false => format!("MISSED {}", judgement.got),
            };
            row.extend(outcome.expectations.iter().map(cell));
        } else {
            row.extend(outcome.flows.iter().map(|flow| numbers::rate(flow.rate.bits())));
        }
        rows.push(row);
    }
    let align = vec![Align::Right; rows[0].len()];
    writeln!(out)?;
    text::table(&rows, &align)
        .into_iter()
        .try_for_each(|line| writeln!(out, "{line}"))?;
    if let Some((head, rows)) = replications::rows(outcomes) {
        let align = vec![Align::Right; head.len()];
        writeln!(out, "\nmeans over all seeds, with their intervals of 95 %:")?;
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
        text::table(&rows, &align)
            .into_iter()
            .try_for_each(|line| writeln!(out, "{line}"))?;
    }
    for outcome in outcomes {
        for missed in outcome.expectations.iter().filter(|judgement| !judgement.met) {
            write!(out, "point {}: ", outcome.point.number)?;
            show_judgement(out, missed)?;
        }
    }
    Ok(())
}
