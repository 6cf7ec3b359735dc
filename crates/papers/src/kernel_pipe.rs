//! P3 in the lab: the kernel's TCP over the paper's network ([`long_pipe_lab`]), paced by timers or
//! unpaced, with the paper's buffers.

use super::long_pipe::possible;
use super::long_pipe_lab::{self, COUNTED, Trial, TrialResult};
use super::{ChartFile, ExperimentOutcome, Options, Progress, Row, RowValue};
use crate::Error;
use measure::numbers;
use plot::{PlotStyle, Series, picture, rates_over_time};

const BUFFERS: [u64; 4] = [512, 1_024, 2_048, 4_096];
const QUICK: [u64; 2] = [512, 4_096];

/// The trials: each congestion control, with the seconds it needs. `reno` doubles cwnd until a
/// loss. `cubic` leaves slow start at half the pipe (HyStart) and takes half a minute to fill it.
fn trials(quick: bool) -> Vec<Trial> {
    let (controls, buffers): (&[(&str, u64)], &[u64]) = if quick {
        (&[("reno", 12)], &QUICK)
    } else {
        (&[("reno", 15), ("cubic", 45)], &BUFFERS)
    };
    let mut trials = Vec::new();
    for &(control, seconds) in controls {
        for paced in [true, false] {
            trials.extend(buffers.iter().map(|&kb| Trial {
                control,
                kb,
                paced,
                seconds,
            }));
        }
    }
    trials
}

/// Adds the lab's rows, or why there are none.
///
/// # Errors
///
/// Returns an error if a trial fails.
pub fn add(
    outcome: &mut ExperimentOutcome,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let trials = trials(options.quick);
    if let Err(why) = &options.lab {
        let missing =
            |trial: &Trial| Row::unmeasured(format!("lab: {}", name(*trial)), RowValue::Nothing, "", why);
        outcome.rows.extend(trials.iter().map(missing));
        return Ok(());
    }
    let total: u64 = trials.iter().map(|trial| trial.seconds).sum();
    let (mut passed, mut runs) = (0, Vec::new());
    for trial in trials {
        progress.show(passed as f64 / total as f64, &format!("lab: {}", name(trial)));
        let reading = long_pipe_lab::run(trial)?;
        passed += trial.seconds;
        outcome.rows.extend(judged(trial, &reading));
        runs.push((trial, reading));
    }
    outcome.remarks.push(remark(&runs));
    outcome.charts.push(ChartFile {
        name: "lab".into(),
        svg: drawn(&runs),
    });
    Ok(())
}

fn name(trial: Trial) -> String {
    let paced = if trial.paced { "paced" } else { "not paced" };
    format!(
        "{} s of {}, {} KB, {paced}",
        trial.seconds, trial.control, trial.kb
    )
}

fn judged(trial: Trial, reading: &TrialResult) -> Vec<Row> {
    let row = |what: &str, ours: f64, unit: &str, holds: bool, note: String| Row {
        what: format!("lab: {}: {what}", name(trial)),
        paper: RowValue::Nothing,
        ours: ours.into(),
        unit: unit.into(),
        verdict: holds.into(),
        note,
    };
    let drops = reading.drops as f64;
    let rate = (reading.rate * 100.0).round() / 100.0;
    if !trial.paced {
        let note = format!(
            "Required: at least one in every run. Data in the last {COUNTED} s: {rate} MB/s; backlog at \
             most {}.",
            numbers::bytes(reading.recorded.deepest.get())
        );
        return vec![row("drops", drops, "packets", reading.drops > 0, note)];
    }
    let required = format!(
        "Required: at least 95 % of the {:.1} MB/s of data that the link can carry, in the last {COUNTED} \
         s.",
        possible()
    );
    let realised = reading.realised.as_ref().map(|realised| &realised.achieved);
    let late = realised.map_or_else(String::new, |achieved| {
        let time = |per_mille| numbers::time(achieved.lateness.quantile(per_mille).nanos());
        format!(
            " Packets started late by {} at the median, {} at the 99th percentile, {} at most; the machine \
             delayed the worker for {} in all.",
            time(500),
            time(990),
            numbers::time(achieved.lateness.longest().nanos()),
            numbers::time(achieved.held_up.nanos())
        )
    });
    let waited = numbers::bytes(reading.recorded.deepest.get());
    let none = format!("Required: none. Backlog at most {waited}.{late}");
    vec![
        row(
            "bandwidth",
            rate,
            "MB/s",
            reading.rate >= possible() * 0.95,
            required,
        ),
        row("drops", drops, "packets", reading.drops == 0, none),
    ]
}

fn remark(runs: &[(Trial, TrialResult)]) -> String {
    let strayed: u64 = runs.iter().map(|(_, reading)| reading.strayed).sum();
    format!(
        "lab: the kernel's TCP between network namespaces, with windows up to 32 MB. A worker of `suimon \
         run` drives the host's Gigabit Ethernet, either with `pacer` and the timer realiser, without \
         spinning, or at the plain rate of its link. The bottleneck is an emulated link (62.5 MB/s of \
         frames with FCS, 100 ms each way); it computes with the times at which the kernel received the \
         packets. When this machine has delayed the worker, the worker catches up on at most 5 ms: 312 KB \
         of the buffer. Standard TCP (`reno`) doubles its cwnd until a packet is dropped; `cubic` leaves \
         slow start at half the pipe (HyStart detects an ACK train that lasts half a round trip) and takes \
         half a minute to fill the rest, so its first drop comes later. This kernel has no Scalable TCP. \
         {strayed} packets were lost between the worker and the bottleneck in all runs; such losses would \
         be this machine's fault."
    )
}

fn drawn(runs: &[(Trial, TrialResult)]) -> String {
    let panel = |title: &str, paced: bool| {
        let shown = runs
            .iter()
            .filter(|(trial, _)| trial.paced == paced && trial.control == "reno");
        let series = shown.map(|(trial, reading)| {
            let bins = reading.recorded.offered.bytes();
            let bin = reading.recorded.offered.bin();
            // A chart shows a tenth of a second at best.
            let many = (100_000_000 / bin.nanos().max(1)) as usize;
            let rate = |bytes: &[u64]| bytes.iter().sum::<u64>() as f64 * 80.0;
            let points = bins.chunks(many).enumerate();
            let points = points.map(|(n, bytes)| (n as f64 * 0.1 + 0.05, rate(bytes)));
            Series::new(&format!("{} KB", trial.kb), points.collect())
        });
        rates_over_time(title, PlotStyle::Lines, series.collect())
    };
    picture(
        "Arrivals at the bottleneck from the kernel's TCP (reno)",
        &[panel("(a) paced", true), panel("(b) not paced", false)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::{Duration, Instant};
    use lab::Record;

    fn reading(rate: f64, drops: u64) -> TrialResult {
        TrialResult {
            rate,
            drops,
            strayed: 0,
            realised: None,
            recorded: Record::new(Instant::START, Duration::from_millis(1)).read(),
        }
    }

    #[test]
    fn paced_requires_the_rate_without_a_drop_and_not_paced_some_drops() {
        let holds = |paced, reading: &TrialResult| {
            let trial = Trial {
                control: "reno",
                kb: 512,
                paced,
                seconds: 12,
            };
            judged(trial, reading)
                .iter()
                .map(|row| row.is_shown())
                .collect::<Vec<_>>()
        };
        assert_eq!(holds(true, &reading(59.0, 0)), [true, true]);
        assert_eq!(holds(true, &reading(56.0, 1)), [false, false]);
        assert_eq!(
            (holds(false, &reading(9.0, 1)), holds(false, &reading(59.0, 0))),
            (vec![true], vec![false])
        );
    }

    #[test]
    fn all_buffers_are_tried_both_ways() {
        let all = trials(false);
        assert_eq!(all.len(), 16);
        assert!(
            BUFFERS
                .iter()
                .all(|kb| all.iter().filter(|trial| trial.kb == *kb).count() == 4)
        );
    }
}
