//! A2: the round-trip time of requests and responses through CBQ, against FIFO (Cho 1999, section
//! 5.1.2, Table 2).

use super::beside;
use super::cost_engine::{self, Contender, Effort};
use super::cost_treatments::Treatment;
use super::cost_wire::LabWire;
use super::rounds::{self, Rounds};
use super::{Experiment, ExperimentOutcome, Options, Progress, Row, number};
use crate::Error;
use engine::link::Link;
use engine::units::{Bandwidth, Bytes};

/// The experiment.
pub const A2: Experiment = Experiment {
    id: "A2",
    title: "Latency of requests and responses through CBQ, minus FIFO's",
    reference: "Cho, \"Traffic management by alternate queueing\", 1999, section 5.1.2, Table 2",
    run,
};

/// A link of the paper's table.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    mtu: u64,
    rate: Bandwidth,
    /// Bytes of request and response, and by how many µs CBQ's round trip was longer.
    sizes: &'static [(usize, usize, f64)],
}

const CASES: [Case; 2] = [
    Case {
        name: "ATM",
        mtu: 9_180,
        rate: Bandwidth::mbit(135),
        sizes: &[(1, 1, 10.3), (64, 64, 11.2), (1024, 64, 11.9), (8192, 64, 10.2)],
    },
    Case {
        name: "10baseT",
        mtu: 1_500,
        rate: Bandwidth::mbit(10),
        sizes: &[(1, 1, 10.3), (64, 64, 9.0), (1024, 64, 10.8)],
    },
];

/// The fraction of the whole by which the cost may vary with the size.
const EVEN: f64 = 0.2;

impl Case {
    fn link(&self) -> Link {
        Link::new(self.rate, Bytes::new(self.mtu + netio::port::ETHERNET as u64))
    }
}

fn run(options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let mut outcome = ExperimentOutcome::default();
    progress.show(0.0, "in the engine");
    let atm = &CASES[0];
    outcome.rows = engine_rows(atm, &in_engine(atm, Effort::of(options.quick)));
    let mut noise = Vec::new();
    for case in &CASES {
        for &(request, answer, paper) in case.sizes {
            let what = format!("{}, {request}/{answer} bytes, through the port", case.name);
            let row = match &options.lab {
                Err(why) => Row::unmeasured(what, paper.into(), "µs", why),
                Ok(()) => {
                    progress.show(outcome.rows.len() as f64 / 12.0, &what);
                    let turns = if options.quick { 30 } else { 120 };
                    let rounds = through_port(case, (request, answer), turns, 20)?;
                    noise.push(rounds.more(2, 0).abs());
                    port_row(what, paper, &rounds)
                }
            };
            outcome.rows.push(row);
        }
    }
    let title = "Extra round-trip time of CBQ over FIFO";
    outcome.charts = vec![beside::chart("beside", title, "time", &outcome.rows)];
    outcome.remarks = REMARKS.map(String::from).to_vec();
    if let Some(most) = noise.into_iter().reduce(f64::max) {
        outcome.remarks.push(format!(
            "FIFO measured against itself in the same rounds differed by up to {} µs. Differences through \
             the port up to that size are noise.",
            number(most)
        ));
    }
    Ok(outcome)
}

const REMARKS: [&str; 2] = [
    "Through the port: one host of a lab sends one request at a time, through the worker and the ports of \
     `suimon run`, to another host, which responds. A turn gives the median of 20 round trips; turns \
     alternate between FIFO and CBQ with three classes, and the result is the median of the differences of \
     neighbouring turns. One direction is managed, as in the paper. The links have the paper's rates and \
     MTUs, kept by the worker's link clock, and no request finds the link busy.",
    "In the engine: parse the headers, choose the class, one packet in and out with CBQ, minus one packet \
     in and out with FIFO. A packet's round trip can grow by this much, which is far less than the scatter \
     of sockets.",
];

/// Per round, in ns: for each size FIFO, then CBQ.
fn in_engine(case: &Case, effort: Effort) -> Vec<Rounds> {
    let treatments = [Treatment::fifo(case.link()), Treatment::cbq(case.link())];
    let of_size = |&(request, _, _): &(usize, usize, f64)| {
        let mut contenders = treatments.each_ref().map(Contender::by);
        cost_engine::measure(&mut contenders, &cost_engine::frame(request), effort)
    };
    case.sizes.iter().map(of_size).collect()
}

fn engine_rows(case: &Case, sizes: &[Rounds]) -> Vec<Row> {
    let ours: Vec<f64> = sizes.iter().map(|rounds| rounds.more(1, 0) / 1e3).collect();
    let row = |(&(request, answer, paper), &ours): (&(usize, usize, f64), &f64)| Row {
        what: format!("{}, {request}/{answer} bytes, in the engine", case.name),
        paper: paper.into(),
        ours: ours.into(),
        unit: "µs".into(),
        verdict: (LEAST..=paper).contains(&ours).into(),
        note:
            "Required: at most the paper's, which covers the whole round trip, and at least 10 ns: that is \
            less than what CBQ does for a packet takes."
                .into(),
    };
    let mut rows: Vec<Row> = case.sizes.iter().zip(&ours).map(row).collect();
    let paper = case.sizes.iter().map(|size| size.2);
    let apart = span(&ours);
    rows.push(Row {
        what: format!("{}, range over all sizes, in the engine", case.name),
        paper: ((span(&paper.collect::<Vec<_>>()) * 10.0).round() / 10.0).into(),
        ours: apart.into(),
        unit: "µs".into(),
        verdict: (apart <= EVEN * ours.iter().copied().fold(0.0, f64::max)).into(),
        note: "Required: the same at every size, within a fifth.".into(),
    });
    rows
}

/// What CBQ and its filters do for a packet takes more than this many microseconds.
const LEAST: f64 = 0.01;

/// The greatest value less the least.
fn span(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most - values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Per round, in µs: FIFO, CBQ, FIFO again.
fn through_port(
    case: &Case,
    (request, answer): (usize, usize),
    turns: usize,
    count: usize,
) -> Result<Rounds, Error> {
    let (fifo, cbq) = (Treatment::fifo(case.link()), Treatment::cbq(case.link()));
    let wire = LabWire::new(case.link(), Some(case.rate))?;
    let pair = wire.pair()?;
    let mut rounds = Rounds::default();
    for _ in 0..turns {
        let mut round = Vec::new();
        for treatment in [&fifo, &cbq, &fifo] {
            wire.take(Some(treatment))?;
            round.push(pair.round_trip(count, request, answer)?);
        }
        rounds.push(round);
    }
    Ok(rounds)
}

fn port_row(what: String, paper: f64, rounds: &Rounds) -> Row {
    let noise = rounds.more(2, 0).abs();
    let (ours, doubt) = (rounds.more(1, 0), rounds.doubt(1, 0).max(noise));
    Row {
        what,
        paper: paper.into(),
        ours: ours.into(),
        unit: "µs".into(),
        verdict: rounds::at_most(ours, doubt, paper),
        note: port_note(doubt),
    }
}

/// What is required of a cost through the port with this uncertainty, in µs.
pub(crate) fn port_note(doubt: f64) -> String {
    format!(
        "Required: at most the paper's, and not less than nothing, by all of the scatter, ± {doubt:.2} µs here: that of the \
         rounds, or the difference of the same queue from itself, whichever is more. It cannot be shown where \
         the scatter decides."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowValue;

    #[test]
    fn a_cost_that_depends_on_the_size_does_not_hold() {
        let sizes = |last: f64| {
            [100.0, 100.0, 101.0, last].map(|ns| {
                let mut rounds = Rounds::default();
                rounds.push(vec![20.0, 20.0 + ns]);
                rounds
            })
        };
        let last = |ns| {
            engine_rows(&CASES[0], &sizes(ns))
                .pop()
                .expect("a row")
                .is_shown()
        };
        assert!(last(105.0) && !last(200.0));
    }

    #[test]
    fn a_cost_of_nothing_does_not_hold() {
        let shown = |ns: f64| {
            let mut rounds = Rounds::default();
            rounds.push(vec![20.0, 20.0 + ns]);
            let sizes = vec![rounds; CASES[0].sizes.len()];
            engine_rows(&CASES[0], &sizes)[0].is_shown()
        };
        assert!(!shown(0.0) && !shown(9.0) && shown(11.0) && shown(10_300.0) && !shown(10_310.0));
    }

    #[test]
    fn every_size_has_a_value_in_the_engine() {
        let effort = Effort { rounds: 3, steps: 50 };
        let rows = engine_rows(&CASES[0], &in_engine(&CASES[0], effort));
        assert_eq!(rows.len(), CASES[0].sizes.len() + 1);
        assert!(rows.iter().all(|row| row.ours != RowValue::Nothing));
    }

    #[test]
    fn requests_of_every_size_are_answered() {
        lab::isolated(|| {
            for case in &CASES {
                for &(request, answer, paper) in case.sizes {
                    let rounds = through_port(case, (request, answer), 1, 3).expect("answers");
                    let row = port_row("a row".into(), paper, &rounds);
                    assert!(matches!(row.ours, RowValue::Number(ours) if ours.is_finite()));
                }
            }
        });
    }
}
