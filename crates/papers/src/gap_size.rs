//! P1 and P2: bandwidth over gap size, and packet intervals (Takano et al. 2004, sections 3.3 and
//! 4.2, Figs. 6 and 7).

use crate::Error;
use crate::long_pipe::{DATA, FRAME, GBE, LongPipe, SLOT, connection, gigabit, host_queue, key};
use crate::{ChartFile, Experiment, ExperimentOutcome, Options, Progress, Row, RowValue, points};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use plot::{Axis, AxisUnit, Plot, Series, picture};
use sim::agent::Agent;
use sim::simulation::Simulation;
use sim::sources::{Constant, DatagramSource, Listener};
use sim::tcp::congestion::scalable;

/// P1: bandwidth by gap size.
pub const P1: Experiment = Experiment {
    id: "P1",
    title: "The size of the gap, 0 … 12000 B, against the bandwidth",
    reference: "Takano et al. 2004, sections 3.3 and 4.2, Fig. 6",
    run: sizes,
};

/// P2: packet intervals.
pub const P2: Experiment = Experiment {
    id: "P2",
    title: "How far packets are apart at 62.5 MB/s, paced and not, and the slope of sequence numbers",
    reference: "Takano et al. 2004, section 4.2, Fig. 7",
    run: intervals,
};

/// The frame length in the paper's formula: the MTU plus 26 for header, FCS and preamble.
const FRAME_AND_PREAMBLE: f64 = 1_526.0;

/// The rate for a gap, in MB/s, by the paper's formula: IPG = (MTU + 18) 125 / rate − (MTU + 26),
/// at least 12.
fn formula(gap: u64) -> f64 {
    FRAME * 125.0 / (FRAME_AND_PREAMBLE + gap.max(12) as f64)
}

/// The rate of frames with FCS on the host's wire when paced to this rate, in MB/s, and the idle
/// time between frames, in bytes.
fn measured(rate: Bandwidth) -> Result<(f64, f64), Error> {
    let mut sim = Simulation::new(Seed(1));
    let [host, far] = ["host", "far"].map(|name| sim.node(name));
    let out = sim.link(host, far, gigabit(Duration::ZERO).queue(host_queue(Some(rate))?));
    sim.link(far, host, gigabit(Duration::ZERO));
    sim.capture(out, usize::MAX);
    let agents: [Box<dyn Agent>; 2] = [
        Box::new(DatagramSource::new(
            Bytes::new(1_514),
            Constant::every(Duration::from_micros(12)),
        )),
        Box::new(Listener::default()),
    ];
    let flow = sim.flow([host, far], key(1), Instant::START, agents);
    flow.map_err(|e| Error::new(e.to_string()))?;
    sim.run_until(Instant::START + Duration::from_millis(200));
    let starts: Vec<u64> = sim
        .captured(out)
        .into_iter()
        .flat_map(|capture| capture.frames().map(|frame| frame.at.nanos()))
        .collect();
    let (first, last) = (
        starts.first().copied().unwrap_or(0),
        starts.last().copied().unwrap_or(0),
    );
    let period = last.saturating_sub(first) as f64 / starts.len().saturating_sub(1).max(1) as f64;
    // A byte takes 8 ns.
    Ok((FRAME * 1e3 / period, period / 8.0 - FRAME_AND_PREAMBLE))
}

fn sizes(_options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let gaps: Vec<u64> = (0..=24).map(|n| n * 500).collect();
    let name = |gap: &u64| format!("a gap of {gap} B");
    let found = points::all(&gaps, progress, name, |&gap| {
        let rate = GBE.bits() as f64 * FRAME / (FRAME_AND_PREAMBLE + gap.max(12) as f64);
        measured(Bandwidth::bits_per_sec(rate as u64))
    })?;
    let off: Vec<(u64, f64)> = gaps
        .iter()
        .zip(&found)
        .map(|(&gap, found)| (gap, found.0 - formula(gap)))
        .collect();
    let furthest = |large: bool| {
        let some = off.iter().filter(|(gap, _)| (*gap >= 6_000) == large);
        some.fold(0.0, |most: f64, (_, off)| most.max(off.abs()))
    };
    let row = |what: &str, paper: RowValue, ours: f64, unit: &str, holds: bool, note: &str| Row {
        what: what.into(),
        paper,
        ours: ((ours * 1e4).round() / 1e4).into(),
        unit: unit.into(),
        holds,
        note: note.into(),
    };
    let near = "Asked: at most 0.01 MB/s. Rates are whole bits per second, and 200 ms are whole packets.";
    let idle = gaps
        .iter()
        .zip(&found)
        .map(|(&gap, found)| (found.1 - gap.max(12) as f64).abs());
    let idle = idle.fold(0.0, f64::max);
    let mut rows = vec![
        row(
            "gaps below 6000 B: furthest from the formula",
            "follows it".into(),
            furthest(false),
            "MB/s",
            furthest(false) <= 0.01,
            near,
        ),
        row(
            "gaps of 6000 B and more: furthest from the formula",
            2.5.into(),
            furthest(true),
            "MB/s",
            furthest(true) <= 0.01,
            near,
        ),
        row(
            "idle time between frames: furthest from the gap",
            RowValue::Nothing,
            idle,
            "B",
            idle <= 0.1,
            "Asked: at most 0.1 byte-times on average.",
        ),
    ];
    // The paper's module: a buffer of IPG' bytes, to which the device adds 4 and the wire 20.
    let period = SLOT + (FRAME * 2.0 - FRAME_AND_PREAMBLE) + 24.0;
    let (original, _) = measured(Bandwidth::bits_per_sec(
        (GBE.bits() as f64 * FRAME / period) as u64,
    ))?;
    rows.push(row(
        "62.5 MB/s asked, the gap frame's own 24 B not counted",
        61.8.into(),
        original,
        "MB/s",
        (original - 61.8).abs() < 0.05,
        "The original's limit, as its footnote has it: 61.8 on the wire. Here those bytes count, so that 62.5 is 62.5.",
    ));
    Ok(ExperimentOutcome {
        rows,
        pictures: vec![ChartFile {
            name: "gaps".into(),
            svg: drawn(&gaps, &found),
        }],
        remarks: vec![
            "Datagrams of 1500 B at more than the interface's speed, paced by gap frames on a wire that is never idle, for 200 ms. A gap is what \
             the paper calls IPG: all bytes between a frame's FCS and the next preamble, 12 at least."
                .into(),
        ],
    })
}

fn drawn(gaps: &[u64], found: &[(f64, f64)]) -> String {
    let line = |value: &dyn Fn(usize, u64) -> f64| -> Vec<(f64, f64)> {
        gaps.iter()
            .enumerate()
            .map(|(n, &gap)| (gap as f64, value(n, gap)))
            .collect()
    };
    let plot = Plot {
        x: Axis::new("gap", AxisUnit::Number("B")),
        y: Axis::new("frames with FCS", AxisUnit::Number("MB/s")),
        series: vec![
            Series::marked("measured", line(&|n, _| found[n].0)),
            Series::dashed("formula", line(&|_, gap| formula(gap))),
        ],
        ..Plot::default()
    };
    picture(
        "Bandwidth by the size of the gap, MTU 1500, Gigabit Ethernet",
        &[plot],
    )
}

/// Frame start times on the host's wire in slow start with large windows, and the slope of their
/// data.
struct SlowStartRun {
    starts: Vec<u64>,
}

impl SlowStartRun {
    /// From 1.4 to 2.2 s: the last rounds before cwnd fills the pipe.
    fn run(paced: bool) -> Result<Self, Error> {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        // 18 MB, as a port of GNET-1 has: no drops. The window is for 62.5 MB/s and 200 ms.
        let settings = connection(&scalable::CONTROL, Bytes::new(12_500_000));
        let mut pipe = LongPipe::new(&settings, 18_000_000, paced)?;
        pipe.sim.run_until(at(1_400));
        pipe.sim.capture(pipe.out, usize::MAX);
        pipe.sim.run_until(at(2_200));
        let starts = pipe
            .sim
            .captured(pipe.out)
            .into_iter()
            .flat_map(|capture| capture.frames().map(|frame| frame.at.nanos()));
        Ok(Self {
            starts: starts.collect(),
        })
    }

    fn spans(&self) -> impl Iterator<Item = u64> + '_ {
        self.starts.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// The packets of the longest burst with intervals below 30 µs, and its length in ns.
    fn burst(&self) -> (usize, u64) {
        let (mut best, mut here) = ((0, 0), (0, 0));
        for span in self.spans() {
            here = if span < 30_000 {
                (here.0 + 1, here.1 + span)
            } else {
                (0, 0)
            };
            best = best.max(here);
        }
        best
    }

    /// The slope of its sequence numbers, in MB/s.
    fn slope(&self) -> f64 {
        let (packets, span) = self.burst();
        packets as f64 * DATA * 1e3 / span.max(1) as f64
    }

    /// The most frequent interval, in µs, and its share of all, in per cent.
    fn usual(&self) -> (f64, f64) {
        let mut spans: Vec<u64> = self.spans().collect();
        spans.sort_unstable();
        let usual = spans
            .chunk_by(|a, b| a == b)
            .max_by_key(|run| run.len())
            .unwrap_or(&[]);
        let span = usual.first().copied().unwrap_or(0);
        (
            span as f64 / 1e3,
            usual.len() as f64 * 100.0 / spans.len().max(1) as f64,
        )
    }
}

fn intervals(_options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let both = [true, false];
    let name = |paced: &bool| if *paced { "paced" } else { "not paced" }.to_string();
    let found = points::all(&both, progress, name, |&paced| SlowStartRun::run(paced))?;
    let (paced, free) = (&found[0], &found[1]);
    let (even, part) = paced.usual();
    let (burst, _) = free.usual();
    let least = paced.spans().min().unwrap_or(0) as f64 / 1e3;
    let rows = vec![
        Row::rounded(
            "paced: the usual interval",
            24.0,
            even,
            "µs",
            even == 24.288,
            format!("Asked: 1518 B at 62.5 MB/s, exactly. It is {part:.1} % of all."),
        ),
        Row::rounded(
            "paced: the shortest interval",
            24.0,
            least,
            "µs",
            least >= 24.288,
            "Asked: not less.",
        ),
        Row::rounded(
            "not paced: the usual interval",
            12.0,
            burst,
            "µs",
            burst == 12.304,
            "Asked: 1538 B at 125 MB/s: back to back.",
        ),
        Row::rounded(
            "paced: slope of sequence numbers",
            60.0,
            paced.slope(),
            "MB/s",
            (paced.slope() - 59.6).abs() < 0.1,
            "Asked: 59.6 MB/s of data within 0.1.",
        ),
        Row::rounded(
            "not paced: slope in the longest burst",
            120.0,
            free.slope(),
            "MB/s",
            (free.slope() - 117.7).abs() < 3.0,
            "Asked: 117.7 MB/s of data within 3.",
        ),
    ];
    let line = |run: &SlowStartRun, name: &str| {
        let first = run.starts.first().copied().unwrap_or(0);
        let points = run.starts.iter().enumerate().step_by(8);
        Series::new(
            name,
            points
                .map(|(n, at)| ((at - first) as f64 / 1e9, n as f64 * DATA / 1e6))
                .collect(),
        )
    };
    let plot = Plot {
        x: Axis::new("time", AxisUnit::Time),
        y: Axis::new("data sent", AxisUnit::Number("MB")),
        series: vec![line(paced, "paced"), line(free, "not paced")],
        ..Plot::default()
    };
    Ok(ExperimentOutcome {
        rows,
        pictures: vec![ChartFile {
            name: "sequence".into(),
            svg: picture("Data sent in slow start, paced to 62.5 MB/s and not", &[plot]),
        }],
        remarks: vec![
            "Scalable TCP, a window of 12.5 MB, a buffer of 18 MB at the bottleneck, so that nothing is lost; from 1.4 to 2.2 s, the last rounds of \
             slow start. The paper looks at the steady state, where its host without pacing sends at the interface's speed and stops in turn, \
             since the device joins acknowledgments into bursts. Our model has no such device: its steady state without pacing is spaced \
             by the bottleneck's acknowledgments, in pairs, and the bursts at the interface's speed are those of slow start."
                .into(),
        ],
    })
}
