//! P8: six hosts over a bottleneck of 300 MB/s, in pairs, each paced to 87.5 MB/s or not (Takano et
//! al. 2004, section 1, Figs. 1 and 2: file transfers between Japan and the United States at
//! SC2003).
//!
//! ```text
//!   host ─┐ GbE
//!   host ─┴─ pair ── GbE, paced or not ──┐
//!            … three pairs ──────────────┴─ router ── 300 MB/s, tail drop, 70.5 ms ──► far
//! ```

use crate::Error;
use crate::long_pipe::{DATA, FRAME, connection, gigabit, host_queue, key};
use crate::{ChartFile, Experiment, ExperimentOutcome, Options, Progress, Row, points};
use engine::framing::Framing;
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use plot::{Level, PlotStyle, Series, picture, rates_over_time};
use sim::link::{LinkQueue, LinkSpec};
use sim::simulation::{FlowId, Simulation};
use sim::tcp::{self, congestion::highspeed};

/// The experiment.
pub const P8: Experiment = Experiment {
    id: "P8",
    title: "Six hosts over 300 MB/s and 141 ms, pairs paced to 87.5 MB/s or not",
    reference: "Takano et al. 2004, section 1, Figs. 1 and 2",
    run,
};

/// OC-48 as the paper counts it: 300 MB/s.
const BOTTLENECK: Bandwidth = Bandwidth::mbit(2_400);
const PAIR: Bandwidth = Bandwidth::mbit(700);
const PAIRS: usize = 3;
const DELAY: Duration = Duration::from_micros(70_500);
/// The paper's socket buffers.
const WINDOW: Bytes = Bytes::new(8 << 20);
/// The router's buffer, which the paper does not give.
const BUFFER: Bytes = Bytes::new(2 << 20);
const END: u64 = 30;
/// Slow start is over from here on, in seconds.
const SETTLED: u64 = 5;
const BIN: Duration = Duration::from_millis(100);

/// The bottleneck's rate in each bin, in bit/s of frames; its drops; and the total goodput from
/// `SETTLED` on, in MB/s.
struct PipeRun {
    rates: Vec<f64>,
    dropped: u64,
    received: f64,
}

fn second(n: u64) -> Instant {
    Instant::START + Duration::from_secs(n)
}

impl PipeRun {
    fn run(paced: bool) -> Result<Self, Error> {
        let mut sim = Simulation::new(Seed(1));
        let [router, far] = ["router", "far"].map(|name| sim.node(name));
        let wire = LinkSpec::new(BOTTLENECK, DELAY).framing(Framing::add(4));
        let out = sim.link(router, far, wire.queue(LinkQueue::TailDrop(BUFFER)));
        sim.watch(out, BIN);
        let mut flows: Vec<FlowId> = Vec::new();
        for pair in 0..PAIRS {
            let node = sim.node(&format!("pair-{pair}"));
            sim.link(
                node,
                router,
                gigabit(Duration::ZERO).queue(host_queue(paced.then_some(PAIR))?),
            );
            for host in 0..2 {
                let host_node = sim.node(&format!("host-{pair}-{host}"));
                sim.link(host_node, node, gigabit(Duration::ZERO));
                sim.link(far, host_node, gigabit(DELAY));
                let number = 1 + flows.len() as u16;
                // Programs started by hand.
                let start = Instant::START + Duration::from_millis(37 * u64::from(number));
                let settings = connection(&highspeed::CONTROL, WINDOW);
                let flow = sim.flow([host_node, far], key(number), start, tcp::pair(&settings));
                flows.push(flow.map_err(|e| Error::new(e.to_string()))?);
            }
        }
        let received = |sim: &Simulation| -> u64 {
            let of = |flow: &FlowId| sim.delivered(*flow, sim::simulation::End::Responder).bytes.get();
            flows.iter().map(of).sum()
        };
        sim.run_until(second(SETTLED));
        let before = received(&sim);
        sim.run_until(second(END));
        let after = received(&sim);
        let total = sim.meter(out).map(|meter| meter.whole().total());
        let rates = total
            .as_ref()
            .map(|total| total.series.rates().map(|(_, rate)| rate.bits() as f64).collect());
        Ok(Self {
            rates: rates.unwrap_or_default(),
            dropped: total.map_or(0, |total| total.dropped.packets),
            received: (after - before) as f64 / 1e6 / (END - SETTLED) as f64,
        })
    }

    /// The difference between the greatest and the least bin once settled, in per cent of the
    /// bottleneck.
    fn range(&self) -> f64 {
        let bins = self
            .rates
            .iter()
            .skip((SETTLED * 10) as usize)
            .take(((END - SETTLED) * 10) as usize - 1);
        let (least, most) = bins.fold((f64::INFINITY, 0f64), |(least, most), &rate| {
            (least.min(rate), most.max(rate))
        });
        (most - least).max(0.0) * 100.0 / BOTTLENECK.bits() as f64
    }
}

fn run(_options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let both = [true, false];
    let name = |paced: &bool| if *paced { "paced" } else { "not paced" }.to_string();
    let results = points::all(&both, progress, name, |&paced| PipeRun::run(paced))?;
    let (paced, free) = (&results[0], &results[1]);
    let due = 3.0 * PAIR.bits() as f64 / 8e6 * DATA / FRAME;
    let note = format!(
        "Required: within 1 % of the {due:.1} MB/s of data that three pairs can send; from 5 to 30 \
            s."
    );
    let sent: f64 = free.rates.iter().map(|rate| rate * BIN.as_secs_f64() / 8.0).sum();
    let lost = free.dropped as f64 * FRAME / sent * 100.0;
    let rows = vec![
        Row::rounded(
            "paced: packets dropped",
            "none",
            paced.dropped as f64,
            "packets",
            paced.dropped == 0,
            "Required: none.",
        ),
        Row::rounded(
            "paced: data received",
            "stable",
            paced.received,
            "MB/s",
            (paced.received / due - 1.0).abs() <= 0.01,
            &note,
        ),
        Row::rounded(
            "paced: range of the bins of 100 ms",
            "stable",
            paced.range(),
            "% of the bottleneck",
            paced.range() <= 1.0,
            "Required: at most 1 %.",
        ),
        Row::rounded(
            "not paced: packets dropped",
            "losses",
            free.dropped as f64,
            "packets",
            free.dropped > 0 && lost <= 1.0,
            format!(
                "Required: at least one, and at most 1 % of what the bottleneck sends; it was {lost:.2} %."
            ),
        ),
        Row::rounded(
            "not paced: range of the bins of 100 ms",
            "swings",
            free.range(),
            "% of the bottleneck",
            (5.0..=100.5).contains(&free.range()),
            "Required: at least 5 %, and no more than the bottleneck has.",
        ),
        Row::rounded(
            "not paced: data received",
            "unstable",
            free.received,
            "MB/s",
            (0.5 * due..0.99 * due).contains(&free.received),
            "Required: less than paced, by more than 1 %, and at least half of it. Six windows of 8 MB exceed the pipe's capacity.",
        ),
    ];
    Ok(ExperimentOutcome {
        rows,
        charts: vec![ChartFile {
            name: "sum".into(),
            svg: drawn(paced, free),
        }],
        remarks: vec![
            "HighSpeed TCP with windows of 8 MB, as in the paper; 30 s. A pair's traffic is paced where it \
             leaves the pair's switch, as GNET-1 did. The paper does not give the router's buffer; here it \
             is 2 MiB. With the model's ideal SACK, losses are repaired within a few round trips, so the \
             sum varies less than the paper's, whose hosts fell back to timeouts."
                .into(),
        ],
    })
}

fn drawn(paced: &PipeRun, free: &PipeRun) -> String {
    let line = |run: &PipeRun, name: &str| {
        let points = run
            .rates
            .iter()
            .enumerate()
            .map(|(n, &rate)| ((n as f64 + 0.5) * BIN.as_secs_f64(), rate));
        Series::new(name, points.collect())
    };
    let mut plot = rates_over_time(
        "",
        PlotStyle::Lines,
        vec![line(paced, "paced"), line(free, "not paced")],
    );
    plot.levels.push(Level {
        at: BOTTLENECK.bits() as f64,
        name: "bottleneck".into(),
    });
    picture(
        "Six hosts over 300 MB/s: throughput of the bottleneck, in bins of 100 ms",
        &[plot],
    )
}
