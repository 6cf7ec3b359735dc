//! N1 and N2: low-priority downloads limited by their windows (Shiokawa, Honda and Yuba, "A
//! realization of QoS by TCP flow-control at OS level", section 4 and Fig. 4), between the kernels'
//! TCP in a lab.
//!
//! N1 is the paper's figure: two downloads, one with an ever smaller advertised window. N2 is its
//! second experiment and what it leaves open: how the laws treat a low-priority download that is
//! alone, that meets a normal one, and that is alone again.

use super::downloads::{Bed, Download, DownloadBytes, WindowRule, run};
use super::installed::{self, ALONE, ALONE_AGAIN, HIGH_BESIDE, TOGETHER};
use super::rounds::Rounds;
use super::{ChartFile, ClaimVerdict, Experiment, ExperimentOutcome, Options, Progress, Row, RowValue};
use crate::Error;
use engine::units::{Bandwidth, Bytes, Duration};
use host::law::{FullLinkClamp, Law, Scavenger};
use host::{Bottleneck, DataDirection, FlowLimit, LawInput, LimitOrder, LimitReason, Member, MemberId};
use plot::{Axis, AxisUnit, Plot, PlotStyle, Series, picture, rates_over_time};

/// The paper's Fig. 4.
pub const N1: Experiment = Experiment {
    id: "N1",
    title: "Two downloads at 10 Mbit/s, one with windows from 32767 bytes down to 80",
    reference: "Shiokawa, Honda and Yuba, section 4, Fig. 4",
    run: figure,
};

/// The paper's law, and others.
pub const N2: Experiment = Experiment {
    id: "N2",
    title: "Laws for a low-priority download that meets a normal one, at 10 and 100 Mbit/s",
    reference: "Shiokawa, Honda and Yuba, section 4",
    run: laws,
};

const WINDOWS: [Option<u64>; 9] = [
    None,
    Some(32_767),
    Some(8_000),
    Some(2_000),
    Some(1_000),
    Some(500),
    Some(400),
    Some(200),
    Some(80),
];
const QUICK: [Option<u64>; 4] = [None, Some(8_000), Some(400), Some(80)];

/// One window for the member's connections from their SYN on; `None`: not clamped.
struct Clamp(Option<u64>);

impl Law for Clamp {
    fn tick(&mut self, tick: &LawInput<'_>) -> Vec<LimitOrder> {
        let order = |flow: &host::FlowSample| LimitOrder {
            flow: flow.id,
            direction: DataDirection::Download,
            limit: self
                .0
                .map_or(FlowLimit::Free, |bytes| FlowLimit::Window(Bytes::new(bytes))),
            reason: LimitReason::LinkIsFull,
        };
        tick.flows.iter().map(order).collect()
    }
}

const HOW: &str = "The kernel's TCP (cubic senders) between network namespaces, over a link that Suimon \
    emulates. A BPF program rewrites the windows in the ACKs that leave the receiving host. The law runs \
    every 50 ms, or sooner at its own request.";

fn figure(options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    if let Err(why) = &options.lab {
        return Ok(missing(why));
    }
    let (windows, seconds): (&[_], f64) = if options.quick {
        (&QUICK, 4.0)
    } else {
        (&WINDOWS, 10.0)
    };
    let mut points = Vec::new();
    for (n, &window) in windows.iter().enumerate() {
        let what = window.map_or("no clamp".into(), |window| format!("{window} bytes"));
        let bed =
            Bed::new(Bandwidth::mbit(10), Duration::from_millis(2), Bytes::new(64_000))?.without_scaling()?;
        let [free, clamped] = [None, Some(0)].map(|member| Download {
            member,
            from: 0.0,
            until: seconds,
        });
        let rule = WindowRule {
            law: Some(Box::new(Clamp(window))),
            members: vec![Member::new(MemberId(0))],
            bottleneck: Bottleneck::Unknown,
            congestion: "cubic",
        };
        progress.show(n as f64 / windows.len() as f64 * 0.6, &what);
        let counted = match run(&bed, &[free, clamped], rule, seconds) {
            Ok(counted) => counted,
            Err(e) if n == 0 => return Ok(missing(&e.to_string())),
            Err(e) => return Err(e),
        };
        let rates = [0, 1].map(|download| counted.rate(download, 1.0, seconds));
        points.push((window, rates));
    }
    let mut rows = curve(&points);
    rows.extend(installed_windows(options.quick, progress)?);
    Ok(ExperimentOutcome {
        rows,
        charts: vec![ChartFile {
            name: "windows".into(),
            svg: drawn(&points),
        }],
        remarks: vec![
            HOW.into(),
            "10 Mbit/s, a buffer of 64 kB, a round-trip time of 2 ms, window scaling off so that windows \
             are exact to the byte. Payload after the first second. The paper transfers 30 MB; here each \
             point has a fixed duration."
                .into(),
            INSTALLED.into(),
        ],
    })
}

type Point = (Option<u64>, [f64; 2]);

fn curve(points: &[Point]) -> Vec<Row> {
    let of = |window| {
        points
            .iter()
            .find(|point| point.0 == window)
            .map_or([0.0; 2], |point| point.1)
    };
    let total = |point: &Point| point.1[0] + point.1[1];
    let least = points.iter().map(total).fold(f64::MAX, f64::min);
    let ordered = points.windows(2).all(|two| two[1].1[1] <= two[0].1[1] + 1.5);
    let sum = of(None)[0] + of(None)[1];
    vec![
        Row::rounded(
            "no clamp: both together",
            8.6,
            sum,
            "Mbit/s",
            sum >= 9.3,
            "The paper has 4.30 Mbit/s each on a shared 10 Mbit/s Ethernet, half duplex. How two cubic \
             flows share a tail-drop buffer differs from run to run.",
        ),
        Row::rounded(
            "8000 bytes: the unclamped flow",
            RowValue::Nothing,
            of(Some(8_000))[0],
            "Mbit/s",
            of(Some(8_000))[0] >= 6.5,
            "The knee is where the window equals the unclamped flow's backlog in the buffer, tens of kB, \
             and not at the paper's 400 bytes: its unclamped flow had a window of at most 32 kB.",
        ),
        Row::rounded(
            "400 bytes: the unclamped flow",
            "gains",
            of(Some(400))[0],
            "Mbit/s",
            of(Some(400))[0] >= 9.0,
            "Below one segment a sender falls back on its persist timer: the clamped flow nearly stops.",
        ),
        Row::rounded(
            "80 bytes: the clamped flow",
            RowValue::Nothing,
            of(Some(80))[1],
            "Mbit/s",
            of(Some(80))[1] < 0.2,
            "",
        ),
        Row::rounded(
            "lowest total at any window",
            "falls below 80 B",
            least,
            "Mbit/s",
            least >= 9.3,
            "The paper's collapse below 80 bytes is gone: a modern sender does not cut its stream into segments as small as the window.",
        ),
        Row {
            what: "the clamped flow's rate falls with each smaller window".into(),
            paper: "yes".into(),
            ours: if ordered { "yes" } else { "no" }.into(),
            unit: String::new(),
            verdict: ordered.into(),
            note: "Within 1.5 Mbit/s, as windows above the other's part of the buffer do not limit it."
                .into(),
        },
    ]
}

fn drawn(points: &[Point]) -> String {
    // No clamp is drawn at 64 kB, the largest window without scaling.
    let x = |window: Option<u64>| (window.unwrap_or(65_535) as f64).log10();
    let line = |which: fn(&[f64; 2]) -> f64| {
        points
            .iter()
            .rev()
            .map(|(w, rates)| (x(*w), which(rates) * 1e6))
            .collect()
    };
    let plot = Plot {
        title: "Two downloads at 10 Mbit/s, by the window of one of them".into(),
        x: Axis::new(
            "log10 of the window in bytes; 4.8: not clamped",
            AxisUnit::Number(""),
        ),
        y: Axis::new("", AxisUnit::Rate),
        series: vec![
            Series::marked("free", line(|rates| rates[0])),
            Series::marked("clamped", line(|rates| rates[1])),
            Series::dashed("together", line(|rates| rates[0] + rates[1])),
        ],
        style: PlotStyle::Lines,
        ..rates_over_time("", PlotStyle::Lines, Vec::new())
    };
    picture("Windows and rates", &[plot])
}

fn missing(why: &str) -> ExperimentOutcome {
    ExperimentOutcome {
        rows: vec![Row::unmeasured(
            "lab: downloads limited by windows",
            RowValue::Nothing,
            "Mbit/s",
            why,
        )],
        ..ExperimentOutcome::default()
    }
}

/// A law under trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trial {
    None,
    /// The same as `None`, with BBR senders.
    NoneBbr,
    FullLinkClamp,
    Scavenger,
    Auto,
    Delay,
    Bbr,
    Twenty,
}

const TRIALS: [Trial; 8] = [
    Trial::None,
    Trial::NoneBbr,
    Trial::FullLinkClamp,
    Trial::Scavenger,
    Trial::Auto,
    Trial::Delay,
    Trial::Bbr,
    Trial::Twenty,
];
const FEW: [Trial; 3] = [Trial::None, Trial::FullLinkClamp, Trial::Scavenger];

impl Trial {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::NoneBbr => "none, BBR senders",
            Self::FullLinkClamp => "the paper's, 6000 bytes",
            Self::Scavenger => "default",
            Self::Auto => "default, rate unknown",
            Self::Delay => "by delay",
            Self::Bbr => "default, BBR senders",
            Self::Twenty => "default, 20 downloads",
        }
    }

    fn rule(self, rate: Bandwidth) -> WindowRule {
        let modern = || -> Box<dyn Law + Send> { Box::new(Scavenger::new(DataDirection::Download)) };
        let mut member = Member::new(MemberId(0));
        member.window = Some(Bytes::new(6_000));
        WindowRule {
            law: match self {
                Self::None | Self::NoneBbr => None,
                Self::FullLinkClamp => Some(Box::new(FullLinkClamp::default())),
                _ => Some(modern()),
            },
            members: vec![member],
            bottleneck: match self {
                Self::Auto => Bottleneck::Auto,
                Self::Delay => Bottleneck::Unknown,
                _ => Bottleneck::Stated(rate),
            },
            congestion: match self {
                Self::Bbr | Self::NoneBbr => "bbr",
                _ => "cubic",
            },
        }
    }

    /// Its baseline: the same senders without a law.
    fn free(self) -> Self {
        match self {
            Self::Bbr => Self::NoneBbr,
            _ => Self::None,
        }
    }
}

/// The schedule, in seconds: the low-priority download alone, with the high-priority one, alone
/// again.
const SCHEDULE: [f64; 3] = [8.0, 18.0, 22.0];
const SHORT: [f64; 3] = [4.0, 9.0, 11.0];

/// The result of one run; rates in per cent of the link's payload rate.
#[derive(Clone, Copy, PartialEq, Debug)]
struct LawResult {
    trial: Trial,
    mbit: u64,
    alone: f64,
    high: f64,
    /// From a second after its beginning on.
    later: f64,
    total: f64,
    /// The time until the high one had 80 % for half a second; and from its last byte until the low
    /// one had.
    reached: Option<f64>,
    back: Option<f64>,
}

/// The payload rate of a link of this rate: 1448 of each 1514 bytes.
fn carries(mbit: u64) -> f64 {
    mbit as f64 * 1_448.0 / 1_514.0
}

fn tried(
    trial: Trial,
    mbit: u64,
    schedule: [f64; 3],
    progress: &mut dyn Progress,
    done: f64,
) -> Result<(LawResult, DownloadBytes), Error> {
    progress.show(done, &format!("{mbit} Mbit/s, {}", trial.name()));
    let rate = Bandwidth::mbit(mbit);
    let buffer = if mbit == 10 { 64_000 } else { 256_000 };
    let bed = Bed::new(rate, Duration::from_millis(20), Bytes::new(buffer))?;
    let [joins, leaves, end] = schedule;
    let low = Download {
        member: Some(0),
        from: 0.0,
        until: end,
    };
    let lows = if trial == Trial::Twenty { 20 } else { 1 };
    let mut downloads = vec![low; lows];
    downloads.push(Download {
        member: None,
        from: joins,
        until: leaves,
    });
    let counted = run(&bed, &downloads, trial.rule(rate), end)?;
    let (low, high) = (0..lows, lows..lows + 1);
    let link = carries(mbit);
    let percent =
        |downloads: std::ops::Range<usize>, from, to| counted.rates(downloads, from, to) / link * 100.0;
    let results = LawResult {
        trial,
        mbit,
        alone: percent(low.clone(), 2.0, joins),
        high: percent(high.clone(), joins, leaves),
        later: percent(high.clone(), joins + 1.0, leaves),
        total: percent(0..lows + 1, joins, leaves),
        reached: counted.reached(high, 0.8 * link, joins, leaves),
        back: counted.reached(low, 0.8 * link, counted.ended(lows), end),
    };
    Ok((results, counted))
}

fn laws(options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    if let Err(why) = &options.lab {
        return Ok(missing(why));
    }
    let (trials, schedule): (&[Trial], _) = if options.quick {
        (&FEW, SHORT)
    } else {
        (&TRIALS, SCHEDULE)
    };
    let (mut results, mut plots) = (Vec::new(), Vec::new());
    // The last tenth is the installed programs'.
    let steps = (trials.len() * 2) as f64 / 0.9;
    for mbit in [10, 100] {
        for &trial in trials {
            let done = results.len() as f64 / steps;
            let mut run = || tried(trial, mbit, schedule, progress, done);
            let (one, counted) = match steadied(&results, &mut run) {
                Err(e)
                    if results.iter().all(|one: &LawResult| one.trial == Trial::None)
                        && trial != Trial::None =>
                {
                    return Ok(missing(&e.to_string()));
                }
                other => other?,
            };
            if FEW.contains(&trial) {
                let title = format!("{mbit} Mbit/s, law: {}", trial.name());
                let series = vec![
                    Series::new("low", counted.curve(0..1, 0.2)),
                    Series::new("high", counted.curve(1..2, 0.2)),
                ];
                plots.push(rates_over_time(&title, PlotStyle::Lines, series));
            }
            results.push(one);
        }
    }
    let mut remarks = vec![
        HOW.into(),
        format!(
            "Round-trip time 20 ms; buffer 64 kB at 10 Mbit/s, 256 kB at 100. The low-priority download \
             (low) runs from 0 s, the high-priority one (high) from {} to {} s. The sender's kernel still \
             has data queued at the end, so the low one's recovery counts from high's last byte. Rates are \
             in per cent of the link's payload rate. One run each, or the medians of three where the first \
             missed something: only the first two digits are significant.",
            schedule[0], schedule[1]
        ),
    ];
    remarks.extend(results.iter().map(summary));
    remarks.push(INSTALLED.into());
    let mut rows = judged(&results);
    rows.extend(installed_laws(options.quick, progress)?);
    Ok(ExperimentOutcome {
        rows,
        charts: vec![ChartFile {
            name: "laws".into(),
            svg: picture("Laws for a low-priority download", &plots),
        }],
        remarks,
    })
}

/// A run that missed something is made three times, of which the medians count: others use this
/// machine too, and one disturbance must not decide.
fn steadied(
    before: &[LawResult],
    run: &mut impl FnMut() -> Result<(LawResult, DownloadBytes), Error>,
) -> Result<(LawResult, DownloadBytes), Error> {
    let (first, counted) = run()?;
    let missed = |results: &[LawResult]| {
        let rows = judged(results);
        rows.iter()
            .filter(|row| row.verdict == ClaimVerdict::NotShown)
            .count()
    };
    match missed(&[before, &[first]].concat()) > missed(before) {
        false => Ok((first, counted)),
        true => Ok((medians([first, run()?.0, run()?.0]), counted)),
    }
}

/// The median of each.
fn medians(of: [LawResult; 3]) -> LawResult {
    let middle = |get: fn(&LawResult) -> f64| {
        let mut values = of.each_ref().map(get);
        values.sort_by(f64::total_cmp);
        values[1]
    };
    let time = |get: fn(&LawResult) -> f64| Some(middle(get)).filter(|time| time.is_finite());
    LawResult {
        alone: middle(|one| one.alone),
        high: middle(|one| one.high),
        later: middle(|one| one.later),
        total: middle(|one| one.total),
        reached: time(|one| one.reached.unwrap_or(f64::INFINITY)),
        back: time(|one| one.back.unwrap_or(f64::INFINITY)),
        ..of[0]
    }
}

fn summary(results: &LawResult) -> String {
    let time = |time: Option<f64>| time.map_or("never".into(), |time| format!("after {time:.1} s"));
    format!(
        "{} Mbit/s, law {}: low alone {:.1} %; high {:.1} % ({:.1} % after its first second); together \
         {:.1} %; high at 80 % {}; low recovered {}.",
        results.mbit,
        results.trial.name(),
        results.alone,
        results.high,
        results.later,
        results.total,
        time(results.reached),
        time(results.back)
    )
}

fn judged(results: &[LawResult]) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in results {
        let what = |of: &str| format!("{} Mbit/s, law {}: {of}", one.mbit, one.trial.name());
        let percent = |of: &str, ours: f64, least: Option<f64>, note: &str| {
            let verdict = least.map_or(ClaimVerdict::Orientation, |least| {
                (least..=EVERYTHING).contains(&ours).into()
            });
            Row::rounded(what(of), RowValue::Nothing, ours, "%", verdict, note)
        };
        let none = results
            .iter()
            .find(|other| other.trial == one.trial.free() && other.mbit == one.mbit);
        let alone = none.map_or(0.0, |none| one.alone / none.alone * 100.0);
        match one.trial {
            Trial::None => rows.push(Row::rounded(
                what("high"),
                50.0,
                one.high,
                "%",
                (20.0..=80.0).contains(&one.high),
                "Equal rates in the paper: 4.30 Mbit/s each. Required: 20 to 80 %; how two cubic flows share a tail-drop buffer \
                 differs from run to run.",
            )),
            Trial::NoneBbr => rows.push(percent("high", one.high, None, "For comparison.")),
            Trial::FullLinkClamp => rows.push(Row::rounded(
                what("high"),
                73.9,
                one.high,
                "%",
                one.high > none.map_or(0.0, |none| none.high) && (70.0..=EVERYTHING).contains(&one.high),
                "The paper: 6.03 of 8.16 Mbit/s. Required: at least 70 %, more than without a law, and no more than the link. A \
                 lone low-priority download is clamped too.",
            )),
            Trial::Delay => rows.push(percent(
                "high",
                one.high,
                None,
                "For comparison. It has no configured \
                rate, and yields late.",
            )),
            _ => {
                let back = one.back.unwrap_or(f64::INFINITY);
                let reached = one.reached.unwrap_or(f64::INFINITY);
                let least = if one.trial == Trial::Auto { 90.0 } else { 97.0 };
                rows.push(percent(
                    "low alone, relative to no law",
                    alone,
                    Some(least),
                    "Required: 97 %; 90 % \
                    while the rate has to be estimated.",
                ));
                rows.push(Row::rounded(
                    what("high at 80 % after"),
                    RowValue::Nothing,
                    reached,
                    "s",
                    reached <= 1.0,
                    "Required: \
                    within 1 s.",
                ));
                rows.push(percent("together", one.total, Some(97.0), "Required: 97 %."));
                rows.push(Row::rounded(
                    what("low recovered after"),
                    RowValue::Nothing,
                    back,
                    "s",
                    back <= 1.0,
                    "Required: \
                    within 1 s.",
                ));
            }
        }
    }
    rows
}

const INSTALLED: &str = "Installed: `bottlenet 10Mbit/s` and `nine` as an ordinary user runs them, without any capability, \
    around a shell that downloads; round-trip time 20 ms, a buffer of 64 kB. The other download joins \
    after 4 s and leaves after 10 s; a second after each is left out. The median of three rounds, in per \
    cent of the link's payload rate. Such a user's windows are set by the receiving socket, and the \
    kernel's least one is 1152 bytes on common machines: N1's smaller ones are rewritten in ACKs.";

/// A row of a median that must be between two bounds.
fn between(what: &str, paper: RowValue, ours: f64, bounds: (f64, f64)) -> Row {
    let (least, most) = bounds;
    let note = match most < EVERYTHING {
        true => format!("Required: {least} to {most} %."),
        false => format!("Required: at least {least} %."),
    };
    let shown: ClaimVerdict = (least..=most).contains(&ours).into();
    Row::rounded(format!("installed: {what}"), paper, ours, "%", shown, &note)
}

/// No rate is above the link's, but for what the rounds' ends cut off.
const EVERYTHING: f64 = 102.0;

/// N2's claims by the installed programs.
fn installed_laws(quick: bool, progress: &mut dyn Progress) -> Result<Vec<Row>, Error> {
    let times = if quick { 1 } else { 3 };
    let mut run = |done: f64, what: &str, nine: Option<&[&str]>| {
        progress.show(done, &format!("installed: {what}"));
        installed::rounds(nine, times)
    };
    let none = run(0.9, "nobody under nine", None)?;
    let paper = run(0.93, "nine -6000", Some(&["-6000"]))?;
    let own = run(0.97, "nine", Some(&[]))?;
    Ok(law_rows(&none, &paper, &own))
}

fn law_rows(none: &Rounds, paper: &Rounds, own: &Rounds) -> Vec<Row> {
    let nothing = || RowValue::Nothing;
    vec![
        between(
            "nobody under nine: the other download",
            50.0.into(),
            none.of(HIGH_BESIDE),
            (20.0, 80.0),
        ),
        between(
            "nine -6000: the other download",
            73.9.into(),
            paper.of(HIGH_BESIDE),
            (70.0, EVERYTHING),
        ),
        between("nine: alone", nothing(), own.of(ALONE), (97.0, EVERYTHING)),
        between(
            "nine: the other download",
            nothing(),
            own.of(HIGH_BESIDE),
            (85.0, EVERYTHING),
        ),
        between("nine: together", nothing(), own.of(TOGETHER), (97.0, EVERYTHING)),
        between(
            "nine: alone again",
            nothing(),
            own.of(ALONE_AGAIN),
            (97.0, EVERYTHING),
        ),
    ]
}

/// The windows of N1 that an ordinary user's `nine` can set.
const ORDINARY: [u64; 4] = [32_767, 16_000, 8_000, 4_000];

/// N1's claim by the installed programs.
fn installed_windows(quick: bool, progress: &mut dyn Progress) -> Result<Vec<Row>, Error> {
    let times = if quick { 1 } else { 3 };
    let mut points = Vec::new();
    for (n, window) in ORDINARY.into_iter().enumerate() {
        progress.show(0.6 + 0.1 * n as f64, &format!("installed: nine -{window}"));
        let rounds = installed::rounds(Some(&[&format!("-{window}")]), times)?;
        points.push((window, rounds.of(HIGH_BESIDE), rounds.of(TOGETHER)));
    }
    Ok(window_rows(&points))
}

fn window_rows(points: &[(u64, f64, f64)]) -> Vec<Row> {
    /// What two runs of the same may differ by.
    const SCATTER: f64 = 3.0;
    let least = points.iter().map(|point| point.2).fold(f64::INFINITY, f64::min);
    let gains = points.windows(2).all(|two| two[1].1 >= two[0].1 - SCATTER);
    let (first, last) = (
        points.first().map_or(0.0, |p| p.1),
        points.last().map_or(0.0, |p| p.1),
    );
    let above = points.split_last().map_or(points, |(_, above)| above);
    let mut rows: Vec<Row> = above
        .iter()
        .map(|point| {
            let what = format!("installed: nine -{}: the other download", point.0);
            Row::rounded(
                what,
                RowValue::Nothing,
                point.1,
                "%",
                ClaimVerdict::Orientation,
                "",
            )
        })
        .collect();
    let more = gains && last >= first + 10.0;
    rows.push(Row {
        what: "installed: the other download has more with each smaller window".into(),
        paper: "yes".into(),
        ours: if more { "yes" } else { "no" }.into(),
        unit: String::new(),
        verdict: more.into(),
        note: "Within 3 points, and 10 points in all.".into(),
    });
    rows.push(between(
        "nine -4000: the other download",
        RowValue::Nothing,
        last,
        (85.0, EVERYTHING),
    ));
    let total = between(
        "together, with any window",
        RowValue::Nothing,
        least,
        (97.0, EVERYTHING),
    );
    rows.push(total);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two downloads that share the link, without a law.
    const NONE: LawResult = LawResult {
        trial: Trial::None,
        mbit: 10,
        alone: 100.0,
        high: 50.0,
        later: 50.0,
        total: 100.0,
        reached: None,
        back: None,
    };

    #[test]
    fn a_law_that_yields_late_or_taxes_a_lone_download_does_not_hold() {
        let good = LawResult {
            trial: Trial::Scavenger,
            alone: 98.0,
            high: 90.0,
            reached: Some(0.4),
            back: Some(0.3),
            ..NONE
        };
        let missed = |one: LawResult| judged(&[NONE, one]).iter().filter(|row| !row.is_shown()).count();
        assert_eq!(missed(good), 0);
        assert_eq!(missed(LawResult { alone: 90.0, ..good }), 1);
        assert_eq!(
            missed(LawResult {
                reached: None,
                back: Some(2.0),
                ..good
            }),
            2
        );
        assert_eq!(missed(LawResult { total: 95.0, ..good }), 1);
        let paper = LawResult {
            trial: Trial::FullLinkClamp,
            high: 40.0,
            ..NONE
        };
        assert_eq!(missed(paper), 1);
    }

    #[test]
    fn an_installed_nine_that_does_not_yield_or_taxes_a_lone_download_is_not_shown() {
        let rounds = |values: [f64; 4]| {
            let mut all = Rounds::default();
            all.push(values.into());
            all
        };
        let (none, paper) = (rounds([99.0, 45.0, 99.0, 99.0]), rounds([60.0, 90.0, 99.0, 60.0]));
        let missed = |values: [f64; 4]| {
            let rows = law_rows(&none, &paper, &rounds(values));
            rows.iter().filter(|row| !row.is_shown()).count()
        };
        assert_eq!(missed([99.0, 95.0, 99.0, 99.0]), 0);
        assert_eq!(missed([90.0, 45.0, 99.0, 99.0]), 2);
        let rows = |last: f64| window_rows(&[(32_767, 50.0, 99.0), (4_000, last, 99.0)]);
        let judged = |last| {
            rows(last)
                .iter()
                .filter(|row| row.verdict == ClaimVerdict::NotShown)
                .count()
        };
        assert_eq!((judged(92.0), judged(55.0)), (0, 2));
    }

    #[test]
    fn one_disturbed_run_does_not_decide_and_two_do() {
        let good = LawResult {
            trial: Trial::Scavenger,
            alone: 99.0,
            reached: Some(0.4),
            back: Some(0.3),
            ..NONE
        };
        let slow = LawResult {
            alone: 90.0,
            back: None,
            ..good
        };
        let of = |list: [LawResult; 3]| {
            let mut list = list.into_iter();
            let mut run = || Ok((list.next().expect("at most three"), DownloadBytes::default()));
            let found = steadied(&[NONE], &mut run).expect("it ran").0;
            (found.alone, found.back, list.count())
        };
        assert_eq!(of([good, slow, slow]), (99.0, Some(0.3), 2));
        assert_eq!(of([slow, good, good]), (99.0, Some(0.3), 0));
        assert_eq!(of([slow, good, slow]), (90.0, None, 0));
    }

    #[test]
    fn a_total_that_falls_is_seen() {
        let point = |window, clamped| (window, [9.5 - clamped, clamped]);
        let mut points = vec![
            point(None, 4.7),
            point(Some(8_000), 1.6),
            point(Some(400), 0.04),
            point(Some(80), 0.01),
        ];
        assert!(curve(&points).iter().all(|row| row.is_shown()));
        points[3].1[0] = 7.0;
        assert_eq!(curve(&points).iter().filter(|row| !row.is_shown()).count(), 1);
    }
}
