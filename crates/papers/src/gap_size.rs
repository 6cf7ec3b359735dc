//! P1 and P2: bandwidth over gap size, and packet intervals (Takano et al. 2004, sections 3.3 and
//! 4.2, Figs. 6 and 7).

use crate::Error;
use crate::long_pipe::{DATA, FRAME, GBE, INTERRUPTS, LongPipe, SLOT, connection, gigabit, host_queue, key};
use crate::{
    ChartFile, ClaimVerdict, Experiment, ExperimentOutcome, Options, Progress, Row, RowValue, points,
};
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
    title: "Bandwidth against the gap size, 0 … 12000 B",
    reference: "Takano et al. 2004, sections 3.3 and 4.2, Fig. 6",
    run: sizes,
};

/// P2: packet intervals.
pub const P2: Experiment = Experiment {
    id: "P2",
    title: "Packet intervals at 62.5 MB/s, paced and not paced, and the slope of sequence numbers",
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
    let results = points::all(&gaps, progress, name, |&gap| {
        let rate = GBE.bits() as f64 * FRAME / (FRAME_AND_PREAMBLE + gap.max(12) as f64);
        measured(Bandwidth::bits_per_sec(rate as u64))
    })?;
    let off: Vec<(u64, f64)> = gaps
        .iter()
        .zip(&results)
        .map(|(&gap, result)| (gap, result.0 - formula(gap)))
        .collect();
    let largest_deviation = |large: bool| {
        let some = off.iter().filter(|(gap, _)| (*gap >= 6_000) == large);
        some.fold(0.0, |most: f64, (_, off)| most.max(off.abs()))
    };
    let row = |what: &str, paper: RowValue, ours: f64, unit: &str, holds: bool, note: &str| Row {
        what: what.into(),
        paper,
        ours: ((ours * 1e4).round() / 1e4).into(),
        unit: unit.into(),
        verdict: holds.into(),
        note: note.into(),
    };
    let near = "Required: at most 0.01 MB/s. Rates are whole bits per second, and 200 ms are whole packets.";
    let idle = gaps
        .iter()
        .zip(&results)
        .map(|(&gap, result)| (result.1 - gap.max(12) as f64).abs());
    let idle = idle.fold(0.0, f64::max);
    let mut rows = vec![
        row(
            "gaps below 6000 B: largest deviation from the formula",
            "follows the formula".into(),
            largest_deviation(false),
            "MB/s",
            largest_deviation(false) <= 0.01,
            near,
        ),
        row(
            "gaps of 6000 B and more: largest deviation from the formula",
            2.5.into(),
            largest_deviation(true),
            "MB/s",
            largest_deviation(true) <= 0.01,
            near,
        ),
        row(
            "idle time between frames: largest deviation from the gap",
            RowValue::Nothing,
            idle,
            "B",
            idle <= 0.1,
            "Required: at most 0.1 byte-times on average.",
        ),
    ];
    // The paper's module: a buffer of IPG' bytes, to which the device adds 4 and the wire 20.
    let period = SLOT + (FRAME * 2.0 - FRAME_AND_PREAMBLE) + 24.0;
    let (original, _) = measured(Bandwidth::bits_per_sec(
        (GBE.bits() as f64 * FRAME / period) as u64,
    ))?;
    rows.push(row(
        "62.5 MB/s configured, the gap frame's own 24 B not counted",
        61.8.into(),
        original,
        "MB/s",
        (original - 61.8).abs() < 0.05,
        "The original's limit, by its footnote: 61.8 on the wire. Here those bytes count, so 62.5 \
         configured is 62.5 on the wire.",
    ));
    Ok(ExperimentOutcome {
        rows,
        charts: vec![ChartFile {
            name: "gaps".into(),
            svg: drawn(&gaps, &results),
        }],
        remarks: vec![
            "Datagrams of 1500 B at more than the interface's speed, paced by gap frames on a wire that is \
             never idle, for 200 ms. A gap is the paper's IPG: all bytes between a frame's FCS and the \
             next preamble, at least 12."
                .into(),
        ],
    })
}

fn drawn(gaps: &[u64], results: &[(f64, f64)]) -> String {
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
            Series::marked("measured", line(&|n, _| results[n].0)),
            Series::dashed("formula", line(&|_, gap| formula(gap))),
        ],
        ..Plot::default()
    };
    picture("Bandwidth by gap size, MTU 1500, Gigabit Ethernet", &[plot])
}

/// Frame start times on the host's wire in the steady state.
struct SteadyRun {
    starts: Vec<u64>,
}

/// How a host sends: paced or not, and how often its card interrupts it at most.
const SENDERS: [(&str, bool, Duration); 3] = [
    ("paced", true, INTERRUPTS),
    ("not paced", false, INTERRUPTS),
    ("not paced, cards that interrupt at once", false, Duration::ZERO),
];

/// Slow start has ended after 3 s.
const STEADY: Duration = Duration::from_secs(5);
/// Two round trips.
const SHOWN: Duration = Duration::from_millis(400);
/// Packets of one burst are closer than this.
const TOGETHER: u64 = 13_000;

impl SteadyRun {
    fn run(paced: bool, interrupts: Duration) -> Result<Self, Error> {
        // 18 MB, as a port of GNET-1 has: no drops. The window is for 62.5 MB/s and 200 ms.
        let settings = connection(&scalable::CONTROL, Bytes::new(12_500_000));
        let mut pipe = LongPipe::with_interrupts(&settings, 18_000_000, paced, interrupts)?;
        pipe.sim.run_until(Instant::START + STEADY);
        pipe.sim.capture(pipe.out, usize::MAX);
        pipe.sim.run_until(Instant::START + STEADY + SHOWN);
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

    /// The slope of the sequence numbers over all, in MB/s.
    fn slope(&self) -> f64 {
        let span = self.spans().sum::<u64>();
        (self.starts.len().max(1) - 1) as f64 * DATA * 1e3 / span.max(1) as f64
    }

    /// The slope within bursts, and the mean number of packets in a burst.
    fn bursts(&self) -> (f64, f64) {
        let (inside, span) = self
            .spans()
            .filter(|&span| span < TOGETHER)
            .fold((0u64, 0u64), |(number, sum), span| (number + 1, sum + span));
        let pauses = self.spans().filter(|&span| span >= TOGETHER).count();
        let slope = inside as f64 * DATA * 1e3 / span.max(1) as f64;
        (slope, self.starts.len() as f64 / (pauses + 1) as f64)
    }

    /// The longest interval, in µs.
    fn longest(&self) -> f64 {
        self.spans().max().unwrap_or(0) as f64 / 1e3
    }

    /// The most frequent interval, in µs, and its share of all, in per cent.
    fn most_frequent(&self) -> (f64, f64) {
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
    let name = |(name, ..): &(&str, bool, Duration)| name.to_string();
    let results = points::all(&SENDERS, progress, name, |&(_, paced, every)| {
        SteadyRun::run(paced, every)
    })?;
    let mut rows = evenly(&results[0]);
    rows.extend(in_bursts(&results[1]));
    rows.extend(at_once(&results[2]));
    Ok(ExperimentOutcome {
        rows,
        charts: vec![ChartFile {
            name: "sequence".into(),
            svg: sequence(&results),
        }],
        remarks: vec![STEADY_STATE.into()],
    })
}

const STEADY_STATE: &str = "Scalable TCP, a window of 12.5 MB, a buffer of 18 MB at the bottleneck, so nothing is dropped; 400 ms of \
    the steady state, from 5 s on. The cards of both hosts interrupt at most 8,000 times a second, as Intel's did by default: what has arrived \
    since the last interrupt is handed over together. So the ACKs of 125 µs release their packets at once, and an unpaced host sends them \
    at the interface's speed and is silent until the next interrupt. With a card that interrupts for each packet the ACKs release pairs, as \
    every second packet is acknowledged. Earlier editions of this page had no such card, and showed the bursts of slow start.";

fn evenly(paced: &SteadyRun) -> Vec<Row> {
    let (even, part) = paced.most_frequent();
    let least = paced.spans().min().unwrap_or(0) as f64 / 1e3;
    vec![
        Row::rounded(
            "paced: most frequent interval",
            24.0,
            even,
            "µs",
            even == 24.288,
            format!("Required: exactly 1518 B at 62.5 MB/s. {part:.1} % of all intervals have this length."),
        ),
        Row::rounded(
            "paced: shortest interval",
            24.0,
            least,
            "µs",
            least >= 24.288,
            "Required: not less.",
        ),
        Row::rounded(
            "paced: longest interval",
            24.0,
            paced.longest(),
            "µs",
            paced.longest() <= 36.5,
            "Required: at most half a packet's time more: it does not pause.",
        ),
        Row::rounded(
            "paced: slope of sequence numbers",
            60.0,
            paced.slope(),
            "MB/s",
            (paced.slope() - 59.6).abs() < 0.1,
            "Required: 59.6 MB/s of data, within 0.1.",
        ),
    ]
}

fn in_bursts(free: &SteadyRun) -> Vec<Row> {
    let (interval, part) = free.most_frequent();
    let (slope, packets) = free.bursts();
    vec![
        Row::rounded(
            "not paced: most frequent interval",
            12.0,
            interval,
            "µs",
            interval == 12.304 && part > 60.0,
            format!(
                "Required: 1538 B at 125 MB/s, back to back, in most cases. {part:.1} % of all intervals have this length."
            ),
        ),
        Row::rounded(
            "not paced: slope of sequence numbers in bursts",
            120.0,
            slope,
            "MB/s",
            (slope - 117.7).abs() < 0.1,
            "Required: 117.7 MB/s of data, within 0.1.",
        ),
        Row::rounded(
            "not paced: packets in a burst",
            "sends and pauses in turn",
            packets,
            "packets",
            (4.0..=7.0).contains(&packets),
            "Required: from 4 to 7; 125 µs of the bottleneck are 5.1 packets.",
        ),
        Row::rounded(
            "not paced: longest pause between two packets",
            "sends and pauses in turn",
            free.longest(),
            "µs",
            (50.0..=250.0).contains(&free.longest()),
            "Required: from 50 to 250 µs, about the rest of an interrupt's time.",
        ),
        Row::rounded(
            "not paced: slope of sequence numbers over all",
            60.0,
            free.slope(),
            "MB/s",
            (free.slope() - 59.6).abs() < 0.6,
            "Required: the bottleneck's 59.6 MB/s, within 1 %.",
        ),
    ]
}

fn at_once(free: &SteadyRun) -> Vec<Row> {
    let (_, packets) = free.bursts();
    vec![Row::rounded(
        format!("{}: packets in a burst", SENDERS[2].0),
        RowValue::Nothing,
        packets,
        "packets",
        ClaimVerdict::Orientation,
        "",
    )]
}

/// Four milliseconds.
fn sequence(results: &[SteadyRun]) -> String {
    const MOST: u64 = 4_000_000;
    let line = |(run, (name, ..)): (&SteadyRun, &(&str, bool, Duration))| {
        let first = run.starts.first().copied().unwrap_or(0);
        let starts = run.starts.iter().take_while(|&&at| at - first < MOST);
        let points = starts
            .enumerate()
            .map(|(n, at)| ((at - first) as f64 / 1e9, n as f64 * DATA / 1e3));
        Series::new(name, points.collect())
    };
    let plot = Plot {
        x: Axis::new("time", AxisUnit::Time),
        y: Axis::new("data sent", AxisUnit::Number("kB")),
        series: results.iter().zip(&SENDERS).take(2).map(line).collect(),
        ..Plot::default()
    };
    picture(
        "Data sent in the steady state, paced to 62.5 MB/s and not",
        &[plot],
    )
}
