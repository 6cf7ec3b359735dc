//! The flows of Kusaka and Sugano under the engine's own rule, whose bounds hold: every packet of a
//! flow that conforms to its arrival curve is within its bound, behind a ring or not.

use crate::delay_runs::{AdmissionRule, FlowDelays, NodeModel, PACKETS, measure};
use crate::delay_tables::{FRAME_TIME, Measurement, rounded};
use crate::{ClaimVerdict, Error, Row, RowValue};
use engine::units::Duration;

/// How it is measured.
pub const REMARK: &str = "Sound rule: the same flows with `rule = \"sound\"`, the default, which also counts the packets of the ring and the \
    bursts that flows of shorter delays send meanwhile. Each flow asks for its bound in whole milliseconds. A packet's time \
    runs from its last bit at the node to its last bit at the receiver, as the receivers see it; the counters of `ips` take no part. The bounds \
    are longer than the delays that the paper promised: those cannot be promised to these flows.";

/// The rows behind one ring, of a measurement with guaranteed delays.
///
/// # Errors
///
/// Returns an error if the policy is refused.
pub fn rows(measurement: &Measurement, ring: u32, name: &str) -> Result<Vec<Row>, Error> {
    let policy = measurement.policy(AdmissionRule::Sound(ring));
    let results = measure(&policy, NodeModel::ring(ring))?;
    let mut rows = Vec::new();
    for (flow, _) in measurement.flow_delays {
        rows.extend(bounded(*flow, &results[flow - 1], name)?);
    }
    let lost = measurement
        .flow_delays
        .iter()
        .map(|(flow, _)| results[flow - 1].loss);
    let lost = lost.fold(0.0, f64::max);
    rows.push(Row::rounded(
        format!("sound rule, {name}: greatest loss of a guaranteed flow"),
        RowValue::Nothing,
        lost,
        "%",
        lost == 0.0,
        "Required: none. They conform to their arrival curves.",
    ));
    Ok(rows)
}

fn bounded(flow: usize, result: &FlowDelays, name: &str) -> Result<[Row; 2], Error> {
    let bound = result
        .bound
        .ok_or_else(|| Error::new(format!("flow {flow} has no bound")))?;
    let at_sender = Duration::from_nanos(FRAME_TIME);
    let within = result.within(bound + at_sender);
    let longest = result.delays.iter().max().copied().unwrap_or_default();
    let longest = Duration::from_nanos(longest.saturating_sub(FRAME_TIME));
    let millis = |time: Duration| rounded(time.nanos() as f64 / 1e6);
    let enough = result.delays.len() * 2 >= PACKETS;
    Ok([
        Row::rounded(
            format!(
                "sound rule, {name}: flow {flow} within its bound of {} ms",
                millis(bound)
            ),
            RowValue::Nothing,
            within,
            "%",
            within >= 100.0 && enough,
            "Required: every packet.",
        ),
        Row::rounded(
            format!("sound rule, {name}: longest delay of flow {flow}"),
            RowValue::Nothing,
            millis(longest),
            "ms",
            ClaimVerdict::Orientation,
            "",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay_tables::MEASUREMENTS;

    #[test]
    fn bounds_of_the_engine_are_those_computed_by_hand() {
        for (measurement, ring) in MEASUREMENTS.iter().take(3).flat_map(|m| [(m, 1), (m, 3)]) {
            let policy = measurement.policy(AdmissionRule::Sound(ring));
            let results = measure(&policy, NodeModel::ring(ring)).expect("it runs");
            for (flow, _) in measurement.flow_delays {
                let by_hand = measurement.bound(flow - 1, ring).expect("a guaranteed flow");
                let stated = results[flow - 1].bound.expect("a bound").nanos() as f64 / 1e6;
                assert!(
                    stated >= by_hand && stated < by_hand * 1.005,
                    "flow {flow}, ring {ring}: {stated} ms, by hand {by_hand}"
                );
            }
        }
    }

    #[test]
    fn a_late_packet_or_a_lost_one_is_not_shown() {
        let result = |delays: Vec<u64>| FlowDelays {
            delays,
            loss: 0.0,
            rate: 1.0,
            rates: Vec::new(),
            late: 0,
            bound: Some(Duration::from_millis(10)),
        };
        let shown = |delays| bounded(1, &result(delays), "no ring").expect("rows")[0].is_shown();
        let limit = 10_000_000 + FRAME_TIME;
        assert!(shown(vec![limit; PACKETS]));
        assert!(!shown([vec![limit; PACKETS - 1], vec![limit + 1]].concat()));
        // Nothing that arrived is not "every packet".
        assert!(!shown(Vec::new()));
    }
}
