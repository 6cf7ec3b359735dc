//! A4: the delay that each discipline adds to a packet, against FIFO (Cho 1999, section 5.1.4,
//! Table 3).

use super::beside;
use super::cost_engine::{self, Contender, Effort};
use super::cost_latency;
use super::cost_treatments::Treatment;
use super::cost_wire::LabWire;
use super::rounds::{self, Rounds};
use super::{Experiment, ExperimentOutcome, Options, Progress, Row, RowValue};
use crate::Error;
use engine::link::Link;
use engine::units::{Bandwidth, Bytes};

/// The experiment.
pub const A4: Experiment = Experiment {
    id: "A4",
    title: "Delay that each discipline adds to a packet, against FIFO",
    reference: "Cho, \"Traffic management by alternate queueing\", 1999, section 5.1.4, Table 3",
    run,
};

/// The paper's ATM link: 135 Mbit/s of IP, MTU 9180.
const LINK: Link = Link::new(Bandwidth::mbit(135), Bytes::new(9_194));

/// The paper's table, in microseconds on a 200 MHz PentiumPro.
const PAPER: [(&str, f64); 5] = [
    ("FIFOQ", 0.14),
    ("RED", 1.62),
    ("WFQ", 1.95),
    ("CBQ", 10.72),
    ("CBQ+RED", 11.97),
];

fn treatments() -> [Treatment; 5] {
    [
        Treatment::fifo,
        Treatment::red,
        Treatment::wfq,
        Treatment::cbq,
        Treatment::cbq_red,
    ]
    .map(|treatment| treatment(LINK))
}

fn run(options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    progress.show(0.0, "in the engine");
    let mut outcome = ExperimentOutcome::default();
    let rounds = in_engine(Effort::of(options.quick));
    outcome.rows = engine_rows(&rounds);
    match &options.lab {
        Ok(()) => {
            let turns = if options.quick { 25 } else { 150 };
            let rounds = through_port(turns, 60, progress)?;
            outcome.rows.extend(port_rows(&rounds));
        }
        Err(why) => outcome.rows.extend(PAPER.map(|(name, paper)| {
            Row::unmeasured(format!("{name}, through the port"), paper.into(), "µs", why)
        })),
    }
    let title = "Delay that each discipline adds to a packet";
    outcome.charts = vec![beside::chart("beside", title, "time", &outcome.rows)];
    outcome.remarks = REMARKS.map(String::from).to_vec();
    Ok(outcome)
}

const REMARKS: [&str; 3] = [
    "In the engine: one packet of 106 bytes passes a nearly empty queue, including the work to find what \
     the discipline needs (WFQ the flow, CBQ the class by filters). The cost of a plain ring, which stands \
     for the macros of the original FIFO, is subtracted. Disciplines take turns in rounds of less than a \
     millisecond; the result is the median of the rounds' differences. CBQ has the paper's three classes.",
    "Through the port: requests and responses of 64 bytes between two hosts of a lab, through the worker \
     and the ports of `suimon run`. The discipline is replaced while packets flow, and compared with the \
     same worker without a discipline. A round trip through two hosts and the worker takes tens of \
     microseconds, and its scatter exceeds the cost of any of our disciplines.",
    "The paper's machine was a 200 MHz PentiumPro; one of its cycles takes as long as some fifteen of \
     today's. The rest of the difference: the clock is read once a batch, no filter list is searched, and \
     no timer is set.",
];

/// Per round, in ns: the plain ring, then each discipline.
fn in_engine(effort: Effort) -> Rounds {
    let mut contenders = vec![Contender::plain()];
    contenders.extend(treatments().iter().map(Contender::by));
    cost_engine::measure(&mut contenders, &cost_engine::frame(64), effort)
}

fn engine_rows(rounds: &Rounds) -> Vec<Row> {
    let ours: Vec<f64> = (1..=PAPER.len()).map(|index| rounds.more(index, 0)).collect();
    let each = PAPER.iter().zip(&ours).map(|((name, paper), &ours)| Row {
        what: format!("{name}, in the engine"),
        paper: (paper * 1e3).into(),
        ours: ours.into(),
        unit: "ns".into(),
        verdict: (ours > 0.0 && ours <= paper * 1e3).into(),
        note:
            "Required: something, and no more than the paper's. One packet in, one out, against a plain ring."
                .into(),
    });
    let mut rows: Vec<Row> = each.collect();
    rows.push(Row {
        what: "order by cost, in the engine".into(),
        paper: order(&PAPER.map(|(_, paper)| paper)).into(),
        ours: order(&ours).into(),
        unit: String::new(),
        verdict: (order(&ours) == order(&PAPER.map(|(_, paper)| paper))).into(),
        note: "Required: the paper's order.".into(),
    });
    rows
}

/// The names, ordered by their numbers.
fn order(costs: &[f64]) -> String {
    let mut named: Vec<(f64, &str)> = costs.iter().copied().zip(PAPER.map(|(name, _)| name)).collect();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    named
        .into_iter()
        .map(|(_, name)| name)
        .collect::<Vec<_>>()
        .join(" < ")
}

/// Per round, in µs: the worker with its discipline switched off, then each discipline, and none
/// again.
fn through_port(turns: usize, requests: usize, progress: &mut dyn Progress) -> Result<Rounds, Error> {
    let treatments = treatments();
    let wire = LabWire::new(LINK, None)?;
    let pair = wire.pair()?;
    let mut rounds = Rounds::default();
    for turn in 0..turns {
        progress.show(turn as f64 / turns as f64, "through the port");
        let mut round = Vec::new();
        let none = || std::iter::once(None);
        for treatment in none().chain(treatments.iter().map(Some)).chain(none()) {
            wire.take(treatment)?;
            round.push(pair.round_trip(requests, 64, 64)?);
        }
        rounds.push(round);
    }
    Ok(rounds)
}

fn port_rows(rounds: &Rounds) -> Vec<Row> {
    let noise = rounds.more(PAPER.len() + 1, 0).abs();
    let row = |(index, (name, paper)): (usize, &(&str, f64))| {
        let (ours, doubt) = (rounds.more(index + 1, 0), rounds.doubt(index + 1, 0).max(noise));
        Row {
            what: format!("{name}, through the port"),
            paper: RowValue::Number(*paper),
            ours: ours.into(),
            unit: "µs".into(),
            verdict: rounds::at_most(ours, doubt, *paper),
            note: cost_latency::port_note(doubt),
        }
    };
    PAPER.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_discipline_of_the_table_has_a_row_and_the_order_is_judged() {
        let effort = Effort { rounds: 3, steps: 50 };
        let rows = engine_rows(&in_engine(effort));
        assert_eq!(rows.len(), PAPER.len() + 1);
        assert!(rows.iter().all(|row| row.ours != RowValue::Nothing));
        let mut rounds = Rounds::default();
        rounds.push(vec![1.0, 2.0, 3.0, 5.0, 4.0, 6.0]);
        let rows = engine_rows(&rounds);
        assert!(
            rows[..5].iter().all(|row| row.is_shown()),
            "all are cheaper than in 1999"
        );
        assert_eq!(rows[5].ours, "FIFOQ < RED < CBQ < WFQ < CBQ+RED".into());
        assert!(!rows[5].is_shown());
        let mut free = Rounds::default();
        free.push(vec![1.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(!engine_rows(&free)[0].is_shown(), "for nothing");
    }

    #[test]
    fn without_a_lab_the_engine_is_measured_and_the_rest_reported_as_unmeasured() {
        struct Quiet;
        impl Progress for Quiet {
            fn show(&mut self, _done: f64, _what: &str) {}
        }
        let options = Options {
            quick: true,
            lab: Err("no namespaces here".into()),
        };
        let outcome = run(&options, &mut Quiet).expect("rows");
        let missing: Vec<&Row> = outcome
            .rows
            .iter()
            .filter(|row| row.ours == RowValue::Nothing)
            .collect();
        assert_eq!(missing.len(), PAPER.len());
        assert!(
            missing
                .iter()
                .all(|row| !row.is_shown() && row.note.contains("no namespaces here"))
        );
    }

    #[test]
    fn packets_pass_the_port_with_every_discipline_and_without() {
        lab::isolated(|| {
            struct Quiet;
            impl Progress for Quiet {
                fn show(&mut self, _done: f64, _what: &str) {}
            }
            let rounds = through_port(2, 5, &mut Quiet).expect("answers");
            let rows = port_rows(&rounds);
            assert!(
                rows.iter()
                    .all(|row| matches!(row.ours, RowValue::Number(ours) if ours.is_finite()))
            );
        });
    }
}
