//! A1: TCP throughput through CBQ with three classes, against FIFO (Cho 1999, section 5.1.1, Table
//! 1).

use super::beside;
use super::cost_treatments::Treatment;
use super::cost_wire::LabWire;
use super::rounds::Rounds;
use super::{Experiment, ExperimentOutcome, Options, Progress, Row};
use crate::Error;
use engine::link::Link;
use engine::units::{Bandwidth, Bytes};
use lab::traffic::tcp::BulkRun;
use netio::clock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The experiment.
pub const A1: Experiment = Experiment {
    id: "A1",
    title: "TCP throughput through CBQ with three classes, against FIFO",
    reference: "Cho, \"Traffic management by alternate queueing\", 1999, section 5.1.1, Table 1",
    run,
};

/// A row of the paper's table.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    mtu: u64,
    /// None: limited by the processors only.
    rate: Option<Bandwidth>,
    /// Mbit/s through FIFO and through CBQ, and the overhead in per cent.
    paper: [f64; 3],
}

const fn case(name: &'static str, mtu: u64, rate: Option<Bandwidth>, paper: [f64; 3]) -> Case {
    Case {
        name,
        mtu,
        rate,
        paper,
    }
}

const CASES: [Case; 6] = [
    case("ATM", 9_180, Some(Bandwidth::mbit(135)), [132.98, 132.77, 0.16]),
    case("10baseT", 1_500, Some(Bandwidth::mbit(10)), [6.52, 6.45, 1.07]),
    case(
        "100baseT",
        1_500,
        Some(Bandwidth::mbit(100)),
        [93.11, 92.74, 0.40],
    ),
    case("no link, MTU 16384", 16_384, None, [366.20, 334.77, 8.58]),
    case("no link, MTU 9180", 9_180, None, [337.96, 314.04, 7.08]),
    case("no link, MTU 1500", 1_500, None, [239.21, 185.07, 22.63]),
];

/// The maximum overhead on a link with its own rate, in per cent: one packet in a hundred.
const MOST: f64 = 1.0;

/// The minimum goodput on such a link, as a fraction of its rate without headers.
const FULL: f64 = 0.9;

/// The settling time after a change.
const SETTLE: Duration = Duration::from_millis(20);
/// The time in which a new connection reaches the link's rate.
const START: Duration = Duration::from_millis(400);

impl Case {
    fn link(&self) -> Link {
        Link::new(
            self.rate.unwrap_or(Bandwidth::gbit(800)),
            Bytes::new(self.mtu + netio::port::ETHERNET as u64),
        )
    }

    /// Rounds, and the measuring time of either discipline in a round.
    fn effort(&self, quick: bool) -> (usize, Duration) {
        match (self.rate.is_some(), quick) {
            (true, true) => (4, Duration::from_millis(400)),
            (true, false) => (10, Duration::from_millis(700)),
            (false, true) => (32, Duration::from_millis(50)),
            (false, false) => (90, Duration::from_millis(80)),
        }
    }

    fn unmeasured(&self, why: &str) -> [Row; 3] {
        let [fifo, cbq, overhead] = self.paper;
        [
            (fifo, "FIFO", "Mbit/s"),
            (cbq, "CBQ", "Mbit/s"),
            (overhead, "overhead", "%"),
        ]
        .map(|(paper, what, unit)| Row::unmeasured(format!("{}, {what}", self.name), paper.into(), unit, why))
    }
}

fn run(options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let mut outcome = ExperimentOutcome::default();
    for (index, case) in CASES.iter().enumerate() {
        let rows = match &options.lab {
            Err(why) => case.unmeasured(why),
            Ok(()) => {
                let effort = case.effort(options.quick);
                let parts = CASES.len() as f64;
                let rounds = measure(case, effort, &mut |done| {
                    progress.show((index as f64 + done) / parts, case.name);
                })?;
                rows(case, &rounds)
            }
        };
        outcome.rows.extend(rows);
    }
    let title = "Throughput that CBQ costs TCP, against FIFO";
    outcome.charts = vec![beside::chart(
        "beside",
        title,
        "overhead",
        outcome.rows.iter().filter(|row| row.unit == "%"),
    )];
    outcome.remarks = REMARKS.map(String::from).to_vec();
    Ok(outcome)
}

const REMARKS: [&str; 3] = [
    "One TCP connection between two hosts of a lab, through the worker and the ports of `suimon run`. \
     While it runs, the queue alternates between FIFO, which parses nothing, and CBQ with three classes \
     and their filters, where one class may borrow all the bandwidth. Throughput is the payload that the \
     receiver read. The result is the median of the rounds' ratios, each of two neighbouring turns.",
    "ATM, 10baseT and 100baseT are only rates and MTUs here, kept by the worker's link clock with FIFO and \
     CBQ alike; the paper used real links. A real 10baseT loses a third of its rate to collisions with \
     ACKs.",
    "No link: the paper's loopback, where one processor does everything, so its throughput measures the \
     whole cost. Here sender, worker and receiver may run on several processors, so the payload is divided \
     by the processor time of the whole process, kernel included, instead of elapsed time. Packets are of \
     the MTU, without super-frames, which would hide the cost of each.",
];

/// A turn: payload over elapsed time and over processor time, in Mbit/s.
#[derive(Clone, Copy, Debug)]
struct TransferSample {
    received: u64,
    at: Instant,
    processor: engine::units::Duration,
}

impl TransferSample {
    fn of(bulk: &BulkRun) -> Self {
        Self {
            received: bulk.received(),
            at: Instant::now(),
            processor: clock::processor_time(),
        }
    }

    /// Mbit/s since an earlier turn: of the link, or without one of a processor.
    fn since(&self, before: &Self, by_processor: bool) -> f64 {
        let nanos = if by_processor {
            self.processor.nanos().saturating_sub(before.processor.nanos()) as f64
        } else {
            self.at.duration_since(before.at).as_nanos() as f64
        };
        (self.received - before.received) as f64 * 8e3 / nanos
    }
}

/// Per round: through FIFO, through CBQ.
fn measure(case: &Case, effort: (usize, Duration), watch: &mut dyn FnMut(f64)) -> Result<Rounds, Error> {
    let (turns, span) = effort;
    let link = case.link();
    let treatments = [Treatment::fifo(link), Treatment::cbq(link)];
    let wire = LabWire::new(link, case.rate)?;
    let whole = START + (span + SETTLE * 2) * 2 * u32::try_from(turns).unwrap_or(u32::MAX);
    let bulk = wire.bulk(whole * 2 + Duration::from_secs(5))?;
    sleep(START);
    let mut rounds = Rounds::default();
    for turn in 0..turns {
        watch(turn as f64 / turns as f64);
        let mut round = [f64::NAN; 2];
        // Each comes first equally often.
        for index in [turn % 2, 1 - turn % 2] {
            wire.take(Some(&treatments[index]))?;
            sleep(SETTLE);
            let before = TransferSample::of(&bulk);
            sleep(span);
            round[index] = TransferSample::of(&bulk).since(&before, case.rate.is_none());
        }
        rounds.push(round.to_vec());
    }
    Ok(rounds)
}

fn rows(case: &Case, rounds: &Rounds) -> [Row; 3] {
    let [fifo, cbq, overhead] = case.paper;
    let ours = (1.0 - rounds.times(1, 0)) * 100.0;
    let doubt = rounds.doubt_of_times(1, 0) * 100.0;
    let throughput = |what: &str, paper: f64, ours: f64| {
        Row {
        what: format!("{}, {what}", case.name),
        paper: paper.into(),
        ours: ours.into(),
        unit: "Mbit/s".into(),
        verdict: match case.rate {
            Some(rate) => (FULL..=1.0).contains(&(ours * 1e6 / rate.bits() as f64)),
            None => ours >= paper,
        }
        .into(),
        note: match case.rate {
            Some(_) => {
                "Required: nine tenths of the rate, since headers take a part of it, and no more than it. The \
                rates are the paper's; the links are not."
            }
            None => "Required: at least the paper's. Payload per processor time, both hosts included.",
        }
        .into(),
    }
    };
    let limit = if case.rate.is_some() { MOST } else { overhead };
    [
        throughput("FIFO", fifo, rounds.of(0)),
        throughput("CBQ", cbq, rounds.of(1)),
        Row {
            what: format!("{}, overhead", case.name),
            paper: overhead.into(),
            ours: ours.into(),
            unit: "%".into(),
            verdict: (ours - doubt <= limit && ours + doubt >= -MOST).into(),
            note: match case.rate {
                Some(_) => {
                    "Required: from -1 to 1 %, since a queue's work overlaps with the transmission of \
                    the previous packet. Values below zero are noise; the scatter of the rounds is allowed \
                    for."
                }
                None => {
                    "Required: at most the paper's, and at least -1 %; the scatter of the rounds is allowed for."
                }
            }
            .into(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowValue;

    fn rounds(pairs: &[[f64; 2]]) -> Rounds {
        let mut rounds = Rounds::default();
        pairs.iter().for_each(|pair| rounds.push(pair.to_vec()));
        rounds
    }

    #[test]
    fn a_link_may_cost_one_per_cent_and_a_processor_as_much_as_the_papers() {
        let holds = |case: usize, cbq: f64| {
            let rate = CASES[case].rate.map_or(1e4, |rate| rate.bits() as f64 / 1e6);
            rows(&CASES[case], &rounds(&[[rate, rate * cbq]])).map(|row| row.is_shown())
        };
        assert_eq!(holds(0, 0.995), [true, true, true]);
        assert_eq!(holds(0, 0.95), [true, true, false]);
        assert_eq!(holds(2, 0.8), [true, false, false]);
        // More than the link carries did not pass it; and what is cheaper than FIFO was not CBQ.
        assert_eq!(holds(2, 1.02), [true, false, false]);
        assert_eq!(holds(5, 1.02), [true, true, false]);
        assert_eq!(holds(5, 1.005), [true, true, true]);
        assert_eq!(holds(5, 0.8), [true, true, true]);
        assert_eq!(holds(4, 0.8), [true, true, false]);
    }

    #[test]
    fn tcp_passes_through_both_in_turns() {
        lab::isolated(|| {
            for case in [&CASES[2], &CASES[5]] {
                let effort = (2, Duration::from_millis(60));
                let rounds = measure(case, effort, &mut |_| ()).expect("a lab");
                assert!(
                    rounds.of(0) > 0.0 && rounds.of(1) > 0.0,
                    "{}: {rounds:?}",
                    case.name
                );
            }
        });
    }

    #[test]
    fn without_a_lab_every_line_of_the_table_is_reported_as_unmeasured() {
        let rows: Vec<Row> = CASES.iter().flat_map(|case| case.unmeasured("no box")).collect();
        assert_eq!(rows.len(), 3 * CASES.len());
        assert!(
            rows.iter()
                .all(|row| row.ours == RowValue::Nothing && !row.is_shown())
        );
    }
}
