//! Why Kusaka and Sugano measured other delays than the simulator: what is different, one thing
//! at a time.

use crate::delay_runs::{AdmissionRule, FlowDelays, NodeModel, measure};
use crate::delay_tables::{Measurement, WITHIN, rounded};
use crate::{ClaimVerdict, Error, Progress, Row, RowValue, points};
use engine::units::{Duration, Probability};
use sim::link::Loss;

/// The mean length of a burst of losses: as long as the flows' bursts, which have 8 to 32 packets.
const BURST: u32 = 16;
/// The packets that fit into the paper's card.
const RING: u32 = 3;
/// How far the six shares may be from the paper's on average, in points.
const NEAR: f64 = 5.0;

/// What was found, for the page of the measurement without guarantees.
pub const FOUND: &str = "Why ours differ from the paper's: its losses. It lost 8 to 10 % of the packets in every measurement, with \
    guarantees, without, and with a FIFO, where the excess over the link's rate is 0.37 %. So they were lost before the queue, by the computer, as \
    the paper says itself; the 1.7 Mbit/s of its Graph 2 are the 1.91 of Table 2 less that loss. The link then carries nine tenths of \
    what is sent, and queues that would fill up run empty again and again. With the paper's loss before our queue, in bursts of 16 packets on \
    average, the six shares are 3.4 points from the paper's on average instead of 16.4 (within 10 ms: 37.9 % instead of 15.8, the paper 38.5); \
    the same assumption brings I3, behind the ring, from 9.1 points to 2.1. Lost one by one, packets free the link too evenly: 45 %. What else was tried stays \
    7 to 30 points away: the rule of borrowing, the turns among classes of one priority, the bursts of a class, and coarse timers. \
    Nearest, at 7.2, is the other reading of Table 2, in which all periods include the frame gaps; but then flows 2 and 3 do not have the \
    table's rates. How long the paper's bursts of losses were it does not tell: 16 is our choice, between the flows' 8 and 32. Still open is the \
    tail: beyond 40 ms the paper has 10 % of its packets, we have 3 to 5 %.";

/// A difference from the measurement as configured.
struct Cause {
    name: &'static str,
    /// What is put in place of what in the policy.
    policy: [&'static str; 2],
    /// The share of packets lost before the queue, in bursts of this mean length.
    loss: (f64, u32),
    all_gaps: bool,
}

impl Cause {
    const fn none(name: &'static str) -> Self {
        Self {
            name,
            policy: ["", ""],
            loss: (0.0, 1),
            all_gaps: false,
        }
    }

    const fn policy(name: &'static str, policy: [&'static str; 2]) -> Self {
        Self {
            policy,
            ..Self::none(name)
        }
    }

    const fn loss(name: &'static str, share: f64, burst: u32) -> Self {
        Self {
            loss: (share, burst),
            ..Self::none(name)
        }
    }

    fn run(&self, measurement: &Measurement) -> Result<[f64; 6], Error> {
        let policy = measurement.policy(AdmissionRule::Paper);
        let policy = match self.policy {
            ["", _] => policy,
            [from, to] => policy.replace(from, to),
        };
        let (share, burst) = self.loss;
        let share = Probability::ratio((share * 1e6) as u64, 1_000_000);
        let node = NodeModel {
            loss: match burst {
                1 => Loss::Random(share),
                _ => Loss::Bursts(share, burst),
            },
            all_gaps: self.all_gaps,
            ..NodeModel::ring(RING)
        };
        Ok(shares(&measure(&policy, node)?[0]))
    }
}

/// The shares of packets within the paper's six times.
fn shares(flow: &FlowDelays) -> [f64; 6] {
    WITHIN.map(|micros| rounded(flow.within(Duration::from_micros(micros))))
}

/// The mean difference of the six shares from the paper's, in points.
fn difference(measurement: &Measurement, ours: &[f64; 6]) -> f64 {
    let each = measurement.paper.iter().zip(ours);
    let off = each.filter_map(|(paper, ours)| Some((ours - (*paper)?).abs()));
    rounded(off.sum::<f64>() / 6.0)
}

const SETTINGS: [&str; 2] = ["\"cbq\"", "[[interface.c.filter]]"];

/// What else could be different where only rates are guaranteed.
const OTHERS: [Cause; 12] = [
    Cause::none("as configured, nothing lost"),
    Cause::policy(
        "top-level sharing",
        [SETTINGS[0], "{ kind = \"cbq\", sharing = \"top-level\" }"],
    ),
    Cause::policy(
        "top-level sharing with an estimator of the link",
        [
            SETTINGS[0],
            "{ kind = \"cbq\", sharing = \"top-level\", root_rate = \"98 %\" }",
        ],
    ),
    Cause::policy(
        "ancestors-only sharing with an estimator of the link",
        [
            SETTINGS[0],
            "{ kind = \"cbq\", sharing = \"ancestors-only\", root_rate = \"98 %\" }",
        ],
    ),
    Cause::policy(
        "turns by packets",
        [SETTINGS[0], "{ kind = \"cbq\", round_robin = \"packet\" }"],
    ),
    Cause::policy(
        "timers of 10 ms",
        [SETTINGS[0], "{ kind = \"cbq\", tick = \"10 ms\" }"],
    ),
    Cause::policy(
        "classes that may not borrow",
        [SETTINGS[1], "borrow = false\n[[interface.c.filter]]"],
    ),
    Cause::policy(
        "bursts of 4 packets for a class",
        [SETTINGS[1], "maxburst = 4\n[[interface.c.filter]]"],
    ),
    Cause::policy(
        "bursts of 32 packets for a class",
        [SETTINGS[1], "maxburst = 32\n[[interface.c.filter]]"],
    ),
    Cause {
        all_gaps: true,
        ..Cause::none("all periods with their frame gaps")
    },
    Cause::loss("9.9 % lost before the queue, each for itself", 0.099, 1),
    Cause::loss("9.9 % lost before the queue, in bursts of 32", 0.099, 32),
];

/// The rows of a measurement for which the paper has shares.
///
/// # Errors
///
/// Returns an error if a policy is refused.
pub fn rows(measurement: &Measurement, progress: &mut dyn Progress) -> Result<Vec<Row>, Error> {
    if measurement.paper[0].is_none() {
        return Ok(Vec::new());
    }
    let lost = Cause::loss(
        "the paper's loss before the queue",
        measurement.loss / 100.0,
        BURST,
    );
    let ours = lost.run(measurement)?;
    let mut rows = vec![with_the_papers_loss(measurement, &ours)];
    let each = WITHIN.iter().zip(measurement.paper).zip(ours);
    rows.extend(each.map(|((micros, paper), ours)| {
        Row::rounded(
            format!("ring of 3, {}: within {} ms", lost.name, *micros as f64 / 1e3),
            paper.map_or(RowValue::Nothing, RowValue::Number),
            ours,
            "%",
            ClaimVerdict::Orientation,
            "",
        )
    }));
    if measurement.plain == "cbq" {
        let name = |cause: &Cause| cause.name.to_string();
        let all = points::all(&OTHERS, progress, name, |cause| cause.run(measurement))?;
        rows.extend(OTHERS.iter().zip(all).map(|(cause, ours)| {
            let all = ours.map(|share| format!("{share:.1}")).join(", ");
            Row::rounded(
                format!("{}: mean difference of the six shares", cause.name),
                0.0,
                difference(measurement, &ours),
                "points",
                ClaimVerdict::Orientation,
                format!("Within 10, 9.7, 20, 19.4, 40 and 38.8 ms: {all} %."),
            )
        }));
    }
    Ok(rows)
}

fn with_the_papers_loss(measurement: &Measurement, ours: &[f64; 6]) -> Row {
    let difference = difference(measurement, ours);
    Row::rounded(
        "ring of 3, the paper's loss before the queue: mean difference of the six shares",
        0.0,
        difference,
        "points",
        difference <= NEAR,
        format!(
            "Required: at most {NEAR} points. {} % of the packets are lost before the queue, as many as in the paper, in bursts of {BURST} \
             on average.",
            measurement.loss
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay_tables::MEASUREMENTS;

    #[test]
    fn a_cause_that_changes_the_policy_finds_what_it_replaces() {
        let policy = MEASUREMENTS[3].policy(AdmissionRule::Paper);
        for cause in OTHERS.iter().filter(|cause| !cause.policy[0].is_empty()) {
            assert!(policy.contains(cause.policy[0]), "{}", cause.name);
        }
    }

    #[test]
    fn shares_far_from_the_papers_are_not_shown() {
        let measurement = &MEASUREMENTS[3];
        let paper = measurement.paper.map(Option::unwrap_or_default);
        assert!(with_the_papers_loss(measurement, &paper.map(|share| share + 4.9)).is_shown());
        assert!(!with_the_papers_loss(measurement, &paper.map(|share| share - 5.1)).is_shown());
    }
}
