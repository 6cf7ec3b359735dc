//! A6: four classes with a guaranteed rate each, over best-effort traffic that takes the remainder
//! (Cho 1999, section 5.3, Fig. 8).
//!
//! As in the paper, the sources join 5 s apart, and classes 0 and 2 send from the router itself.
//! The paper gives the default class 95 % and lets it borrow. Admission here does not guarantee
//! more than the link has, so the class has the remaining 34 Mbit/s and may borrow while the others
//! are absent.

use super::testbed::{ATM, LAB, Wire, filters, interface};
use super::timeline::{AMPLE, Source, at, in_lab, simulated};
use super::{ChartFile, Experiment, ExperimentOutcome, Options, Progress, Row};
use crate::Error;
use engine::units::{Bandwidth, Duration, Instant};
use plot::PlotStyle;
use plot::chart::{Panel, picture};
use plot::trace::{Line, Trace};

/// The experiment.
pub const A6: Experiment = Experiment {
    id: "A6",
    title: "Four classes of 10, 20, 30 and 40 Mbit/s, each with a greedy TCP, over a background TCP",
    reference: "Cho 1999, section 5.3, Fig. 8",
    run,
};

const CLASSES: [(&str, u64, u16); 4] = [
    ("class-0", 10, 5010),
    ("class-1", 20, 5020),
    ("class-2", 30, 5030),
    ("class-3", 40, 5040),
];
const SETTLE: Duration = Duration::from_secs(1);

fn policy(wire: &Wire) -> String {
    let class = |(name, rate, _): (&str, u64, u16)| {
        format!(
            "[[interface.c.class]]\nname = \"{name}\"\nrate = \"{rate} Mbit/s\"\nborrow = false\ndiscipline = \"fifo\"\n"
        )
    };
    let background = "[[interface.c.class]]\nname = \"background\"\nrate = \"34 Mbit/s\"\npriority = 0\ndefault = true\ndiscipline = \"fifo\"\n";
    let classes: String = CLASSES.into_iter().map(class).collect();
    let filters = filters(&CLASSES.map(|(name, _, port)| (name, port)));
    format!("{}{classes}{background}{filters}", wire.policy("\"cbq\""))
}

/// Best effort from the beginning, the others joining this many seconds apart, until as long after
/// the last join.
fn sources(apart: f64) -> (Vec<Source>, Instant) {
    let end = at(apart * 6.0);
    let joining = CLASSES
        .iter()
        .enumerate()
        .map(|(index, &(class, rate, port))| Source {
            class,
            port,
            at_router: index % 2 == 0,
            target: Some(Bandwidth::mbit(rate)),
            spans: vec![(at(apart * (index + 1) as f64), end)],
        });
    let background = Source {
        class: "background",
        port: 5000,
        at_router: false,
        target: None,
        spans: vec![(Instant::START, end)],
    };
    (joining.chain([background]).collect(), end)
}

fn run(options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let (joining, end) = sources(5.0);
    let simulation = simulated("simulated", &interface(&policy(&ATM))?, &joining, end, AMPLE)?;
    let mut rows = judged(&simulation, "simulated", 1.0, SIMULATED);
    let mut traces = vec![simulation];
    match &options.lab {
        Err(why) => rows.extend(missing(why)),
        Ok(()) => {
            let (joining, end) = sources(if options.quick { 2.0 } else { 3.0 });
            let whole = end.since(Instant::START).as_secs_f64();
            let mut watch = |now: Instant| {
                progress.show(now.since(Instant::START).as_secs_f64() / whole, "TCP in the lab")
            };
            let trace = in_lab(
                "in the lab",
                &interface(&policy(&LAB))?,
                &joining,
                end,
                &mut watch,
            )?;
            rows.extend(judged(&trace, "lab", 3.0, LABORATORY));
            traces.push(trace);
        }
    }
    Ok(ExperimentOutcome {
        rows,
        charts: vec![ChartFile {
            name: "guarantees".into(),
            svg: drawn(&traces),
        }],
        remarks: vec![REMARK.into()],
    })
}

const SIMULATED: &str = "Required: within 1 % in each window between two joins, from 1 s after the first \
    of the two. Shown: the mean over all windows. Frames count with their Ethernet header, as in the \
    policy.";
const LABORATORY: &str = "The kernel's TCP (cubic) between network namespaces, through the worker and the \
    port of `suimon run`. Required: within 3 % over all its windows, since a shared machine delays \
    programs.";
const REMARK: &str = "The link is ATM (149.76 Mbit/s of cells, MTU 9180), declared as 134 Mbit/s. Counters \
    are read every 400 ms. The background is the default class: it has 34 Mbit/s of its own and the lowest \
    priority, and may borrow.";

/// A row for each class, and one for best effort.
fn judged(trace: &Trace, place: &str, most: f64, note: &str) -> Vec<Row> {
    let each = place == "simulated";
    let mut rows: Vec<Row> = trace
        .lines
        .iter()
        .filter_map(|line| Some((line, line.target?)))
        .map(|(line, target)| {
            let windows = trace.steady(line.joined, SETTLE);
            let configured = target.bits() as f64;
            let off = |measured: Bandwidth| (measured.bits() as f64 / configured - 1.0).abs() * 100.0;
            let mean = trace.measured(line, &windows);
            let largest = windows
                .iter()
                .map(|window| off(trace.measured(line, &[*window])))
                .fold(0.0, f64::max);
            Row::rounded(
                format!("{place}: {}", line.name),
                configured / 1e6,
                mean.bits() as f64 / 1e6,
                "Mbit/s",
                mean.bits() > 0 && if each { largest <= most } else { off(mean) <= most },
                note,
            )
        })
        .collect();
    rows.extend(
        trace
            .lines
            .iter()
            .filter(|line| line.target.is_none())
            .map(|line| remainder(trace, line, place, most)),
    );
    rows
}

/// The best-effort class's share of what the others left, in the windows between the joins.
fn remainder(trace: &Trace, line: &Line, place: &str, most: f64) -> Row {
    let windows = trace.steady(line.joined, SETTLE);
    let off = windows.iter().map(|window| {
        let present = trace.lines.iter().filter(|other| other.joined < window.from);
        let guaranteed: u64 = present
            .filter_map(|other| other.target)
            .map(Bandwidth::bits)
            .sum();
        let left = trace.link.bits().saturating_sub(guaranteed) as f64;
        (trace.measured(line, &[*window]).bits() as f64 / left - 1.0) * 100.0
    });
    let largest = off.fold(
        0.0,
        |most: f64, off| if off.abs() > most.abs() { off } else { most },
    );
    Row::rounded(
        format!("{place}: background, largest deviation from the remainder"),
        "the remainder",
        largest,
        "%",
        largest.abs() <= most,
        format!(
            "Required: within {most} % in each window. The remainder falls from 134 to 34 Mbit/s as the \
             others join."
        ),
    )
}

fn missing(why: &str) -> Vec<Row> {
    let rates = CLASSES
        .map(|(name, rate, _)| Row::unmeasured(format!("lab: {name}"), (rate as f64).into(), "Mbit/s", why));
    rates.into()
}

fn drawn(traces: &[Trace]) -> String {
    let panels: Vec<Panel<'_>> = traces
        .iter()
        .zip(["(a)", "(b)"])
        .map(|(trace, letter)| Panel {
            caption: format!("{letter} {}", trace.title),
            trace,
            style: PlotStyle::Lines,
            settle: SETTLE,
        })
        .collect();
    picture(
        "Four classes with a guaranteed rate, and background traffic",
        &panels,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Bytes;

    /// The sources' joins, and the configured rates; the first class is off by this, in per cent.
    fn trace(off: u64) -> Trace {
        let (joining, end) = sources(5.0);
        let mut trace = Trace::new("trial", Bandwidth::mbit(134));
        for source in &joining {
            let joins = source.spans.first().map_or(Instant::START, |span| span.0);
            trace.line(source.class, source.target, joins);
        }
        let seconds = end.since(Instant::START).as_secs_f64() as u64;
        for second in 0..=seconds {
            let sent = |index: u64| second.saturating_sub(5 * (index + 1)) * (index + 1) * 1_250_000;
            let mut counters: Vec<Bytes> = (0..4).map(|index| Bytes::new(sent(index))).collect();
            let others: u64 = (0..4).map(sent).sum();
            counters[0] = Bytes::new(sent(0) * (100 + off) / 100);
            counters.push(Bytes::new(second * 16_750_000 - others));
            trace.read(at(second as f64), &counters);
        }
        trace
    }

    #[test]
    fn configured_rates_hold_and_a_deviating_one_does_not() {
        assert!(
            judged(&trace(0), "simulated", 1.0, "")
                .iter()
                .all(|row| row.is_shown())
        );
        let rows = judged(&trace(2), "simulated", 1.0, "");
        let missed: Vec<&str> = rows
            .iter()
            .filter(|row| !row.is_shown())
            .map(|row| row.what.as_str())
            .collect();
        assert_eq!(missed, ["simulated: class-0"]);
    }

    #[test]
    fn without_a_lab_each_of_its_classes_is_reported_as_unmeasured() {
        let rows = missing("no namespaces");
        assert!(
            rows.len() == 4
                && rows
                    .iter()
                    .all(|row| !row.is_shown() && row.note.contains("no namespaces"))
        );
    }
}
