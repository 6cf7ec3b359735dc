//! I1 to I5: a flow with a guaranteed delay among bursts that fill the link (Kusaka and Sugano, "An
//! evaluation of delay controlled communication service", Table 3).
//!
//! Four flows of bursts of full frames arrive at 100 Mbit/s each and leave at 10 Mbit/s. Together
//! they are 100.37 % of it, as in the paper. Table 2 includes the frame gaps in the periods of
//! flows 1 and 4, but not of 2 and 3. Only this reading gives its rates, so the flows are sent this
//! way. Frames have 1,518 bytes, FCS included, on the wire as in the policy.
//!
//! The delay runs from a packet's first bit at its sender to its last bit at the receiver, of
//! 10,000 packets of flow 1.

use crate::Error;
use crate::delay_runs::{AdmissionRule, FlowDelays, NodeModel, measure};
use crate::delay_tables::{
    BurstFlow, DelayRequirement, FLOWS, MEASUREMENTS, Measurement, SHOWN, WITHIN, rounded,
};
use crate::testbed::interface;
use crate::{
    ChartFile, ClaimVerdict, Experiment, ExperimentOutcome, Options, Progress, Row, RowValue, delay_bounds,
    delay_causes, delay_guarantees_lab, points,
};
use engine::units::Duration;
use plot::{self, Axis, AxisUnit, Plot, PlotStyle, Series, cumulated, picture, rates_over_time};

const REFERENCE: &str =
    "Kusaka and Sugano, \"An evaluation of delay controlled communication service\", Tables 2 and 3";

macro_rules! measurement {
    ($name:ident, $index:literal, $title:literal) => {
        /// The experiment.
        pub const $name: Experiment = Experiment {
            id: stringify!($name),
            title: $title,
            reference: REFERENCE,
            run: |options: &Options, progress| run(&MEASUREMENTS[$index], options, progress),
        };
    };
}

measurement!(
    I1,
    0,
    "A flow with a guaranteed delay of 10 ms, the shortest, among bursts that fill the link"
);
measurement!(
    I2,
    1,
    "A flow with a guaranteed delay of 20 ms, with one burst before it"
);
measurement!(
    I3,
    2,
    "A flow with a guaranteed delay of 40 ms, with two bursts before it"
);
measurement!(
    I4,
    3,
    "The same flow with a guaranteed rate (CBQ) and no guaranteed delay"
);
measurement!(I5, 4, "The same flow in one FIFO with all others");

const RINGS: [u32; 2] = [1, 3];

fn run(
    measurement: &Measurement,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<ExperimentOutcome, Error> {
    let policy = measurement.policy(AdmissionRule::Paper);
    let name = |ring: &u32| format!("a ring of {ring}");
    let results = points::all(&RINGS, progress, name, |&ring| {
        measure(&policy, NodeModel::ring(ring))
    })?;
    let mut rows = Vec::new();
    for (&ring, result) in RINGS.iter().zip(&results) {
        rows.extend(within(measurement, ring, &result[0]));
        rows.push(loss(measurement, ring, &result[0]));
    }
    rows.extend(rates(&results[0]));
    let mut remarks = vec![REMARK.into(), RING.into()];
    if !measurement.flow_delays.is_empty() {
        rows.extend(counted(measurement, &results));
        let name = |ring: &u32| format!("sound rule, a ring of {ring}");
        let sound = points::all(&RINGS, progress, name, |&ring| {
            delay_bounds::rows(measurement, ring, &ring_name(ring))
        })?;
        rows.extend(sound.into_iter().flatten());
        remarks.push(delay_bounds::REMARK.into());
    }
    rows.extend(delay_causes::rows(measurement, progress)?);
    if measurement.plain == "cbq" {
        remarks.push(delay_causes::FOUND.into());
    }
    let policy = interface(&policy)?;
    rows.extend(delay_guarantees_lab::rows(
        measurement,
        &policy,
        options,
        progress,
    )?);
    remarks.push(delay_guarantees_lab::REMARK.into());
    Ok(ExperimentOutcome {
        rows,
        charts: vec![ChartFile {
            name: "delays".into(),
            svg: drawn(measurement, &results),
        }],
        remarks,
    })
}

const REMARK: &str = "Simulated: 60 s to settle, then 10,000 packets of flow 1. Each flow has its own \
    sender and its own link of 100 Mbit/s, so the flows do not shape each other. I1 to I3: `ips` with the \
    paper's rule over `cbq`; the flows without a guarantee are best effort. I4: `cbq` with the flows' \
    rates. I5: a FIFO of 50 packets.";
const RING: &str = "The paper attributes the packets beyond the guarantee to its computer. The ring of its \
    card has room for three frames; a packet of flow 1 cannot overtake the frames that were handed over \
    before it arrived: up to 3.6 ms, which the paper's rule does not count. With that ring alone, some \
    packets are late here too, on an ideal computer. The ring explains neither the rest of the paper's \
    late packets, nor its losses of 8 to 10 %, which are the same with a FIFO. What those losses do to the \
    delays is on the page of I4.";

fn ring_name(ring: u32) -> String {
    match ring {
        1 => "no ring".into(),
        n => format!("ring of {n}"),
    }
}

const KEPT: &str = "Required: every packet. The paper's rule ignores the packet on the wire, but the frame \
    gaps compensate for it.";
const NEAR: &str =
    "Required: less than 100 %, and within 5 points of the paper's value: its ring alone explains it.";
const NOT_KEPT: &str = "Required: less than 100 %, and within 5 points of the paper's value, with a ring or without: the paper's \
    rule ignores that flow 2 sends its next burst within 40 ms.";
const SCATTERED: &str =
    "Required: less than the paper has with this delay guaranteed, 84.1, 94.4 and 98.6 %.";

/// The verdict on a simulated share of packets.
fn judged(requirement: DelayRequirement, ring: u32, ours: f64) -> (ClaimVerdict, &'static str) {
    use DelayRequirement::{Kept, NotKept, Nothing, Scattered};
    let near = |paper: f64| (ours < 100.0 && (ours - paper).abs() <= 5.0).into();
    match (requirement, ring) {
        (Kept(_), 1) => ((ours >= 100.0).into(), KEPT),
        (Kept(Some(paper)), _) => (near(paper), NEAR),
        (NotKept(paper), _) => (near(paper), NOT_KEPT),
        (Scattered(guaranteed), _) => ((ours < guaranteed).into(), SCATTERED),
        (Kept(None) | Nothing, _) => (ClaimVerdict::Orientation, SHOWN),
    }
}

/// A row for each threshold.
fn within(measurement: &Measurement, ring: u32, result: &FlowDelays) -> Vec<Row> {
    let row = |(index, &micros): (usize, &u64)| {
        let ours = rounded(result.within(Duration::from_micros(micros)));
        let (verdict, note) = judged(measurement.requirement(index), ring, ours);
        Row {
            what: format!("{}: within {} ms", ring_name(ring), micros as f64 / 1_000.0),
            paper: measurement.paper[index].map_or(RowValue::Nothing, RowValue::Number),
            ours: ours.into(),
            unit: "%".into(),
            verdict,
            note: note.into(),
        }
    };
    WITHIN.iter().enumerate().map(row).collect()
}

/// The excess of all flows over the link's rate, in per cent.
const EXCESS: f64 = 0.37;

fn loss(measurement: &Measurement, ring: u32, result: &FlowDelays) -> Row {
    let (shown, note) = match measurement.plain {
        "fifo" => (
            (result.loss - EXCESS).abs() <= 0.1,
            "Required: the flow's part of the excess over the link's rate, 0.37 %, within a tenth of a point.",
        ),
        "cbq" => (
            result.loss == 0.0,
            "Required: none. It does not exceed its guaranteed rate; the flows that do bear the excess.",
        ),
        _ => (
            result.loss == 0.0,
            "Required: none for a flow with a guaranteed delay that conforms to its arrival curve.",
        ),
    };
    Row {
        what: format!("{}: loss of flow 1", ring_name(ring)),
        paper: measurement.loss.into(),
        ours: rounded(result.loss).into(),
        unit: "%".into(),
        verdict: shown.into(),
        note: note.into(),
    }
}

fn rates(flows: &[FlowDelays]) -> Vec<Row> {
    let row = |((index, flow), FlowDelays { rate, .. }): ((usize, &BurstFlow), &FlowDelays)| Row {
        what: format!("no ring: rate of flow {}, as IP", index + 1),
        paper: flow.paper.into(),
        ours: rounded(*rate).into(),
        unit: "Mbit/s".into(),
        verdict: ((rate / flow.paper - 1.0).abs() < 0.02).into(),
        note: "Required: within 2 % of Table 2: a guaranteed delay takes no bandwidth from other flows. \
            All flows together send 0.37 % more than the link carries."
            .into(),
    };
    FLOWS.iter().enumerate().zip(flows).map(row).collect()
}

/// The counters of `ips`.
fn counted(measurement: &Measurement, results: &[Vec<FlowDelays>]) -> Vec<Row> {
    let row = |(&ring, flows): (&u32, &Vec<FlowDelays>)| {
        let late: u64 = flows.iter().map(|flow| flow.late).sum();
        let (shown, note) = match (ring, measurement.guaranteed) {
            (1, [_, ..]) => (late == 0, "Required: none, as no packet of flow 1 is late."),
            (1, []) => (
                late > 0,
                "Required: at least one: the engine detects that the guarantee of the paper's rule is not kept.",
            ),
            _ => (
                late > 0,
                "Required: at least one: the engine detects that a ring breaks the guarantee of the \
                 paper's rule.",
            ),
        };
        Row {
            what: format!("{}: late packets that `ips` counted", ring_name(ring)),
            paper: RowValue::Nothing,
            ours: (late as f64).into(),
            unit: "packets".into(),
            verdict: shown.into(),
            note: note.into(),
        }
    };
    RINGS.iter().zip(results).map(row).collect()
}

/// The graphs of the paper: how often each delay was (Graph 1), and the rates over time (Graph 2);
/// and the delays cumulated.
fn drawn(measurement: &Measurement, results: &[Vec<FlowDelays>]) -> String {
    let of_flow_1 = || RINGS.iter().zip(results).map(|(&ring, flows)| (ring, &flows[0]));
    let often: Vec<Series> = of_flow_1().map(|(ring, flow)| frequencies(ring, flow)).collect();
    let lines: Vec<(String, Vec<(f64, f64)>)> = of_flow_1()
        .map(|(ring, flow)| (ring_name(ring), cumulated(&in_steps(flow, 100_000))))
        .collect();
    let lines: Vec<(&str, Vec<(f64, f64)>)> = lines
        .iter()
        .map(|(name, points)| (name.as_str(), points.clone()))
        .collect();
    let rates = results[0].iter().enumerate();
    let rates = rates.map(|(index, flow)| Series::new(&format!("flow {}", index + 1), flow.rates.clone()));
    let often = Plot {
        title: "from first bit sent to last bit received".into(),
        x: Axis::new("delay", AxisUnit::Time),
        y: Axis::new("packets of each millisecond", AxisUnit::Percent),
        series: often,
        ..Plot::default()
    };
    let title = format!("Measurement {}: delays of flow 1, and rates", measurement.number);
    let rates = rates_over_time("IP packets, no ring", PlotStyle::Lines, rates.collect());
    picture(&title, &[often, plot::delays("cumulated", &lines), rates])
}

/// The delays in steps of so many nanoseconds: the end of each step in seconds, and the packets.
fn in_steps(flow: &FlowDelays, step: u64) -> Vec<(f64, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for &nanos in &flow.delays {
        *counts.entry(nanos.div_ceil(step)).or_insert(0u64) += 1;
    }
    let in_seconds = step as f64 / 1e9;
    let counted = counts.into_iter();
    counted.map(|(at, n)| (at as f64 * in_seconds, n)).collect()
}

/// Of each millisecond of delay, the per cent of the packets.
fn frequencies(ring: u32, flow: &FlowDelays) -> Series {
    const MILLISECOND: f64 = 1e-3;
    let counted = in_steps(flow, 1_000_000);
    let last = counted
        .last()
        .map_or(0, |(end, _)| (end / MILLISECOND).round() as usize);
    let edges: Vec<f64> = (0..=last).map(|at| at as f64 * MILLISECOND).collect();
    let mut values = vec![0.0; last];
    for (end, packets) in counted {
        let place = (end / MILLISECOND).round() as usize;
        values[place.saturating_sub(1)] = packets as f64 * 100.0 / flow.delays.len() as f64;
    }
    Series::steps(&ring_name(ring), &edges, &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_each_packet_in_the_millisecond_of_its_delay() {
        let flow = FlowDelays {
            delays: vec![500_000, 1_000_000, 1_000_001, 3_000_000],
            loss: 0.0,
            rate: 1.0,
            rates: Vec::new(),
            late: 0,
            bound: None,
        };
        let series = frequencies(3, &flow);
        let steps: Vec<(f64, f64)> = series.points.chunks(2).map(|step| step[0]).collect();
        assert_eq!(steps, [(0.0, 50.0), (1e-3, 25.0), (2e-3, 25.0)]);
        assert_eq!(series.name, "ring of 3");
    }
}
