//! A scenario: low-priority downloads from the start and another one from 6 to 14 s, sampled every
//! 50 ms, and its result.

use crate::rig::Rig;
use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

/// The payload fraction of a full frame.
const PAYLOAD: f64 = 1448.0 / 1514.0;
/// The time between two samples.
pub const STEP: Duration = Duration::from_millis(50);
/// When the other download begins and ends, and when all ends, in steps.
pub const BEGINS: usize = 120;
pub const ENDS: usize = 280;
pub const OVER: usize = 380;
/// A second and half a second, in steps.
const SECOND: usize = 20;
const HALF: usize = 10;

/// The buffer before a link: 51 ms at 10 Mbit/s, 20 ms at 100.
pub fn buffer(mbit: u64) -> u64 {
    if mbit > 50 { 256 << 10 } else { 64 << 10 }
}

/// The scenario.
pub struct YieldScenario {
    pub name: String,
    pub mbit: u64,
    pub low: usize,
    pub port: u16,
    pub congestion: &'static str,
    pub under_nine: bool,
    pub stated: bool,
}

/// The samples. Rates are of payload that programs received, in Mbit/s.
#[derive(Default)]
pub struct RoundSeries {
    pub low: Vec<f64>,
    pub other: Vec<f64>,
    /// The rate of frames at the interface.
    link: Vec<f64>,
    /// Bytes queued before the link.
    queued: Vec<u64>,
    /// Processor time of nine's three processes, in milliseconds a second.
    processor: Vec<f64>,
}

/// Running totals.
#[derive(Clone, Copy, Default)]
struct Totals {
    low: u64,
    other: u64,
    link: u64,
    processor_ns: u64,
}

/// The low-priority downloads. Each leaves its process number in a file.
fn low_script(rig: &Rig, scenario: &YieldScenario) -> String {
    format!(
        "for n in $(seq {}); do bash -c 'echo $$ >{}/low.$0; {}' $n & done; wait",
        scenario.low,
        rig.files.display(),
        Rig::download(scenario.port, "low")
    )
}

/// The bytes that they have read.
fn low_read(pids: &[u32]) -> u64 {
    let read = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
    };
    pids.iter().map(read).sum()
}

fn low_pids(rig: &Rig, scenario: &YieldScenario) -> Vec<u32> {
    let pid = |n: usize| {
        let text = fs::read_to_string(rig.files.join(format!("low.{n}"))).ok()?;
        text.trim().parse().ok()
    };
    (1..=scenario.low).filter_map(pid).collect()
}

/// The guard, the understudy and the supervisor.
fn processor_ns(guard: u32) -> u64 {
    let child = |pid: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_whitespace().next().unwrap_or_default().to_string()
    };
    let understudy = child(&guard.to_string());
    let supervisor = child(&understudy);
    let of = |pid: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        text.split_whitespace()
            .next()
            .and_then(|ns| ns.parse::<u64>().ok())
            .unwrap_or(0)
    };
    of(&guard.to_string()) + of(&understudy) + of(&supervisor)
}

impl YieldScenario {
    pub fn run(&self) -> RoundSeries {
        let rig = Rig::new(self.mbit, buffer(self.mbit));
        if self.stated {
            let rate = format!("{}Mbit/s", self.mbit);
            rig.suimon(&["bottlenet", &rate, "--interface", "eth0"]);
        }
        let script = low_script(&rig, self);
        let low = match self.under_nine {
            true => rig.nine(&["--", "bash", "-c", &script]),
            false => rig
                .home
                .program("bash")
                .args(["-c", &script])
                .start()
                .expect("bash runs"),
        };
        let mut series = RoundSeries::default();
        let (mut high, mut pids) = (None, Vec::new());
        let (mut before, mut at) = (
            Totals {
                link: rig.received(),
                ..Totals::default()
            },
            Instant::now(),
        );
        for step in 0..OVER {
            if pids.len() < self.low {
                pids = low_pids(&rig, self);
            }
            if step == BEGINS {
                high = Some(rig.high(self.congestion, STEP * (ENDS - BEGINS) as u32));
            }
            if step == ENDS
                && let Some(high) = &high
            {
                high.stop();
            }
            std::thread::sleep(STEP.saturating_sub(at.elapsed()));
            let seconds = at.elapsed().as_secs_f64();
            at = Instant::now();
            let now = Totals {
                low: low_read(&pids),
                other: high.as_ref().map_or(0, |high| high.received()),
                link: rig.received(),
                processor_ns: if self.under_nine {
                    processor_ns(low.id())
                } else {
                    0
                },
            };
            series.take(before, now, seconds, rig.waiting());
            before = now;
        }
        series
    }

    fn carries(&self) -> f64 {
        self.mbit as f64 * PAYLOAD
    }
}

impl RoundSeries {
    fn take(&mut self, before: Totals, now: Totals, seconds: f64, waiting: u64) {
        let rate = |of: fn(&Totals) -> u64| of(&now).saturating_sub(of(&before)) as f64 * 8e-6 / seconds;
        self.low.push(rate(|totals| totals.low));
        self.other.push(rate(|totals| totals.other));
        self.link.push(rate(|totals| totals.link));
        self.queued.push(waiting);
        self.processor
            .push(now.processor_ns.saturating_sub(before.processor_ns) as f64 * 1e-6 / seconds);
    }

    /// A line for each step.
    pub fn table(&self) -> String {
        let mut table = "s\tlow\tother\tlink\twaiting\n".to_string();
        for step in 0..self.low.len() {
            let _ = writeln!(
                table,
                "{:.2}\t{:.2}\t{:.2}\t{:.2}\t{}",
                STEP.as_secs_f64() * step as f64,
                self.low[step],
                self.other[step],
                self.link[step],
                self.queued[step]
            );
        }
        table
    }

    fn both(&self) -> Vec<f64> {
        self.low
            .iter()
            .zip(&self.other)
            .map(|(low, other)| low + other)
            .collect()
    }
}

pub fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// The time in seconds until half a second has this rate; infinite if never.
fn reaches(rates: &[f64], rate: f64) -> f64 {
    let first = rates.windows(HALF).position(|half| mean(half) >= rate);
    first.map_or(f64::INFINITY, |first| first as f64 * STEP.as_secs_f64())
}

/// The result of a round: shares in per cent, times in seconds.
pub struct RoundResult {
    alone: f64,
    other: f64,
    later: f64,
    both: f64,
    worst_second: f64,
    reached: f64,
    back: f64,
    processor: f64,
}

impl RoundResult {
    pub fn of(scenario: &YieldScenario, series: &RoundSeries) -> Self {
        let share = |rates: &[f64]| 100.0 * mean(rates) / scenario.carries();
        let both = series.both();
        let rate = 0.8 * scenario.carries();
        // After its end, data from its sender's kernel still arrive.
        let ended = series.other.iter().rposition(|rate| *rate > 0.0).unwrap_or(ENDS);
        // Of frames, since payload fluctuates with each sequence hole; and from the second second
        // on, since the first contains the onset, which `both` counts.
        let seconds = series.link[BEGINS + SECOND..ENDS].windows(SECOND);
        let seconds = seconds.map(|second| 100.0 * mean(second) / scenario.mbit as f64);
        Self {
            alone: share(&series.low[2 * SECOND..BEGINS]),
            other: share(&series.other[BEGINS..ENDS]),
            later: share(&series.other[BEGINS + SECOND..ENDS]),
            both: share(&both[BEGINS..ENDS]),
            worst_second: seconds.fold(f64::MAX, f64::min),
            reached: reaches(&series.other[BEGINS..ENDS], rate),
            back: reaches(&series.low[ended..], rate),
            processor: mean(&series.processor[2 * SECOND..]),
        }
    }

    /// The medians and the worst values of some rounds.
    pub fn line(all: &[Self]) -> String {
        let column = |of: fn(&Self) -> f64, worst: fn(f64, f64) -> f64| {
            let mut values: Vec<f64> = all.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            let number = |value: f64| {
                if value.is_finite() {
                    format!("{value:.2}")
                } else {
                    "never".into()
                }
            };
            let last = values.iter().copied().reduce(worst).unwrap_or_default();
            format!("{:>6}|{:<6}", number(values[values.len() / 2]), number(last))
        };
        [
            column(|one| one.alone, f64::min),
            column(|one| one.other, f64::min),
            column(|one| one.later, f64::min),
            column(|one| one.both, f64::min),
            column(|one| one.worst_second, f64::min),
            column(|one| one.reached, f64::max),
            column(|one| one.back, f64::max),
            column(|one| one.processor, f64::max),
        ]
        .join(" ")
    }
}
