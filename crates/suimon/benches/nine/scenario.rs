//! One course: low downloads from the start, another one from 6 to 14 s, what was seen of it every 50 ms, and what that came to.

use crate::rig::Rig;
use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

/// What of a full frame is payload.
const PAYLOAD: f64 = 1448.0 / 1514.0;
/// Between two looks.
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

/// What is run.
pub struct Course {
    pub name: String,
    pub mbit: u64,
    pub low: usize,
    pub port: u16,
    pub congestion: &'static str,
    pub under_nine: bool,
    pub stated: bool,
}

/// Of each step. Rates are payload that programs got, in Mbit/s.
#[derive(Default)]
pub struct Seen {
    pub low: Vec<f64>,
    pub other: Vec<f64>,
    /// What the interface took in, as frames.
    link: Vec<f64>,
    /// Bytes that waited before the link.
    waiting: Vec<u64>,
    /// Processor time of nine's two processes, in milliseconds a second.
    processor: Vec<f64>,
}

/// What a course's programs have got so far, and what it has cost.
#[derive(Clone, Copy, Default)]
struct Totals {
    low: u64,
    other: u64,
    link: u64,
    processor_ns: u64,
}

/// The programs of the low downloads leave their numbers in files.
fn low_script(rig: &Rig, course: &Course) -> String {
    format!(
        "for n in $(seq {}); do bash -c 'echo $$ >{}/low.$0; {}' $n & done; wait",
        course.low,
        rig.files.display(),
        Rig::download(course.port, "low")
    )
}

/// What they have read.
fn low_read(pids: &[u32]) -> u64 {
    let read = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
    };
    pids.iter().map(read).sum()
}

fn low_pids(rig: &Rig, course: &Course) -> Vec<u32> {
    let pid = |n: usize| {
        let text = fs::read_to_string(rig.files.join(format!("low.{n}"))).ok()?;
        text.trim().parse().ok()
    };
    (1..=course.low).filter_map(pid).collect()
}

/// The guard and the supervisor.
fn processor_ns(guard: u32) -> u64 {
    let children = fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).unwrap_or_default();
    let supervisor = children.split_whitespace().next().unwrap_or_default();
    let of = |pid: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        text.split_whitespace()
            .next()
            .and_then(|ns| ns.parse::<u64>().ok())
            .unwrap_or(0)
    };
    of(&guard.to_string()) + of(supervisor)
}

impl Course {
    pub fn run(&self) -> Seen {
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
        let mut seen = Seen::default();
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
            seen.take(before, now, seconds, rig.waiting());
            before = now;
        }
        seen
    }

    fn carries(&self) -> f64 {
        self.mbit as f64 * PAYLOAD
    }
}

impl Seen {
    fn take(&mut self, before: Totals, now: Totals, seconds: f64, waiting: u64) {
        let rate = |of: fn(&Totals) -> u64| of(&now).saturating_sub(of(&before)) as f64 * 8e-6 / seconds;
        self.low.push(rate(|totals| totals.low));
        self.other.push(rate(|totals| totals.other));
        self.link.push(rate(|totals| totals.link));
        self.waiting.push(waiting);
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
                self.waiting[step]
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

/// After how many seconds half a second has this rate; infinite if never.
fn reaches(rates: &[f64], rate: f64) -> f64 {
    let first = rates.windows(HALF).position(|half| mean(half) >= rate);
    first.map_or(f64::INFINITY, |first| first as f64 * STEP.as_secs_f64())
}

/// What a round came to: shares in per cent, times in seconds.
pub struct Found {
    alone: f64,
    other: f64,
    later: f64,
    both: f64,
    worst_second: f64,
    reached: f64,
    back: f64,
    processor: f64,
}

impl Found {
    pub fn of(course: &Course, seen: &Seen) -> Self {
        let share = |rates: &[f64]| 100.0 * mean(rates) / course.carries();
        let both = seen.both();
        let rate = 0.8 * course.carries();
        // It is told to end, and then what its sender's kernel has still comes.
        let ended = seen.other.iter().rposition(|rate| *rate > 0.0).unwrap_or(ENDS);
        // Of frames, from the second second on: the first has the onset, which `both` counts, and what programs get in a second swings with
        // every hole that a loss leaves.
        let seconds = seen.link[BEGINS + SECOND..ENDS].windows(SECOND);
        let seconds = seconds.map(|second| 100.0 * mean(second) / course.mbit as f64);
        Self {
            alone: share(&seen.low[2 * SECOND..BEGINS]),
            other: share(&seen.other[BEGINS..ENDS]),
            later: share(&seen.other[BEGINS + SECOND..ENDS]),
            both: share(&both[BEGINS..ENDS]),
            worst_second: seconds.fold(f64::MAX, f64::min),
            reached: reaches(&seen.other[BEGINS..ENDS], rate),
            back: reaches(&seen.low[ended..], rate),
            processor: mean(&seen.processor[2 * SECOND..]),
        }
    }

    /// Medians and worsts of some rounds.
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
