//! `suimon verify HOST`: what a line does to round trips while it is full, before and after a
//! shaper, as one grade. `suimon verify --listen` is the peer behind the line.
//!
//! What the figures are, and where they depart from their drafts: `measure::experience`.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::instruments::{address, clear_progress};
use crate::source;
use clap::Args;
use engine::units::Duration;
use gateway::supervise::handle_signals;
use lab::traffic::under_load::{LineReport, LineTest, PORT, Phase, Responder};
use measure::experience::{CALL, GAME, Grade, PAGE, QualityRequirement, RoundTrips, Sampled, responsiveness};
use measure::numbers;
use plot::text::Align;
use plot::{Axis, AxisUnit, Plot, PlotStyle, Series};
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Span;

/// How long the line is full before it is measured.
const WARM_UP: Span = Span::from_secs(3);
/// How long it is idle.
const IDLE: Span = Span::from_secs(3);
/// Fewer round trips are no measurement.
const LEAST: usize = 20;

/// Measure how much longer round trips take while a line is full, and give it a grade; `--listen`
/// is the peer behind the line
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("end").required(true).args(["peer", "listen"]))]
pub struct Verify {
    /// The peer behind the line, where `suimon verify --listen` runs: HOST, or HOST:PORT
    peer: Option<String>,
    /// Be the peer: at PORT, or ADDRESS:PORT; without one at 9477 of all addresses
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "9477")]
    listen: Option<String>,
    /// A second peer on this side of the line, such as the router: tells Wi-Fi and line apart
    #[arg(long, value_name = "HOST", conflicts_with = "listen")]
    near: Option<String>,
    /// Connections that fill the line
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16), conflicts_with = "listen")]
    streams: u8,
    /// How long the full line is measured, in each direction; at most 1min
    #[arg(
        long = "for",
        value_name = "TIME",
        default_value = "10 s",
        conflicts_with = "listen"
    )]
    time: Duration,
    /// End with 4 if the grade is worse
    #[arg(long, value_name = "GRADE", value_parser = Grade::read, conflicts_with = "listen")]
    at_least: Option<Grade>,
    /// An earlier result by `--json`, to show what has changed
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    before: Option<String>,
    /// Write a picture as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    picture: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "listen")]
    json: bool,
}

impl Verify {
    /// Runs one end.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        handle_signals(&stop).map_err(|e| Failure::at_run_time(format!("cannot handle signals: {e}")))?;
        match (&self.listen, &self.peer) {
            (Some(at), _) => listen(at, &stop, cx.out),
            (None, Some(peer)) => self.measure(peer, &stop, cx.out),
            (None, None) => Err(Failure::usage("a peer, or `--listen`")),
        }
    }

    fn measure(&self, peer: &str, stop: &AtomicBool, out: &mut dyn Write) -> Result<Exit, Failure> {
        let before = self.before.as_deref().map(Before::read).transpose()?;
        let loaded = Span::from_nanos(self.time.nanos());
        if loaded < Span::from_secs(1) || loaded > Span::from_secs(60) {
            return Err(Failure::usage(format!("--for {}: from 1 s to 1 min", self.time)));
        }
        let test = LineTest {
            to: resolve(peer)?,
            near: self.near.as_deref().map(resolve).transpose()?,
            streams: usize::from(self.streams),
            idle: IDLE,
            warm_up: WARM_UP,
            loaded,
        };
        let report = test.run(stop, progress);
        clear_progress();
        let report = report.map_err(|e| {
            Failure::at_run_time(format!(
                "{e}\n  is `suimon verify --listen` running at {}?",
                test.to
            ))
        })?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Exit::Interrupted);
        }
        let verdict = Verdict::of(&report).ok_or_else(|| {
            let answered = report.idle.pings.answered();
            let at = test.to;
            Failure::at_run_time(format!(
                "{at} answered {answered} datagrams on the idle line: too few; is UDP let through to its port, as TCP is?"
            ))
        })?;
        if let Some(path) = &self.picture {
            fs::write(path, picture(&report, &verdict))
                .map_err(|e| Failure::at_run_time(format!("{path}: {e}")))?;
        }
        match self.json {
            true => writeln!(out, "{:#}", json(&report, &verdict))?,
            false => describe(&test, &report, &verdict, before.as_ref(), out)?,
        }
        let missed = self.at_least.is_some_and(|least| verdict.grade > least);
        Ok(if missed { Exit::Missed } else { Exit::Done })
    }
}

fn listen(at: &str, stop: &AtomicBool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let at = address(at).or_else(|_| resolve(at))?;
    let failed = |e: &dyn std::fmt::Display| Failure::at_run_time(e.to_string());
    let responder = Responder::bind(at).map_err(|e| failed(&e))?;
    let at = responder.address().map_err(|e| failed(&e))?;
    writeln!(
        out,
        "answers tests of the line at {at} (TCP and UDP), until Ctrl-C"
    )?;
    out.flush()?;
    responder.run(stop).map_err(|e| failed(&e))?;
    Ok(Exit::Done)
}

fn resolve(peer: &str) -> Result<SocketAddr, Failure> {
    let found = match peer.to_socket_addrs() {
        Ok(found) => Ok(found),
        Err(_) => (peer.trim_matches(['[', ']']), PORT).to_socket_addrs(),
    };
    let found = found
        .map_err(|e| e.to_string())
        .and_then(|mut found| found.next().ok_or_else(|| "no address".into()));
    found.map_err(|why| Failure::usage(format!("{peer}: {why}; expected HOST or HOST:PORT")))
}

fn progress(phase: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{phase} …");
    }
}

/// What is made of a report.
struct Verdict {
    grade: Grade,
    /// What load adds to a round trip, in nanoseconds: the worse direction.
    added: u64,
    /// Of that, what is added before the near peer; `None` without one.
    near: Option<u64>,
}

impl Verdict {
    /// `None` if too little was answered to judge by.
    fn of(report: &LineReport) -> Option<Self> {
        let enough = [&report.idle, &report.download, &report.upload];
        let answered = enough.iter().all(|phase| phase.pings.answered() >= LEAST);
        let (added, near) = [&report.download, &report.upload]
            .into_iter()
            .filter_map(|loaded| {
                let near = added(&report.idle.near, &loaded.near);
                Some((added(&report.idle.pings, &loaded.pings)?, near))
            })
            .max()?;
        answered.then(|| Self {
            grade: Grade::of(Duration::from_nanos(added)),
            added,
            near,
        })
    }
}

/// How much longer 95 of 100 round trips take than the median of the idle line, in nanoseconds.
fn added(idle: &RoundTrips, loaded: &RoundTrips) -> Option<u64> {
    let (usual, long) = (idle.quantile(500)?, loaded.quantile(950)?);
    Some(long.nanos().saturating_sub(usual.nanos()))
}

fn rpm(phase: &Phase) -> Option<u64> {
    responsiveness(&phase.handshakes, &phase.requests, &phase.on_loaded)
}

/// The outcome of an application in the worse direction.
fn outcome(of: QualityRequirement, report: &LineReport) -> Option<u8> {
    [&report.download, &report.upload]
        .into_iter()
        .filter_map(|phase| of.outcome(&phase.pings, phase.pings.loss()))
        .min()
}

const APPLICATIONS: [QualityRequirement; 3] = [CALL, GAME, PAGE];

fn json(report: &LineReport, verdict: &Verdict) -> Value {
    let nanos = |of: &RoundTrips, per_mille| of.quantile(per_mille).map(Duration::nanos);
    let phase = |phase: &Phase| {
        json!({
            "from_s": phase.between.0, "to_s": phase.between.1,
            "payload_bits_per_second": phase.bits_per_second.round(),
            "ping_ns": { "p50": nanos(&phase.pings, 500), "p95": nanos(&phase.pings, 950), "p99": nanos(&phase.pings, 990) },
            "pings": phase.pings.answered(), "lost": phase.pings.loss(),
            "near_ping_ns": nanos(&phase.near, 950).map(|p95| json!({ "p50": nanos(&phase.near, 500), "p95": p95 })),
            "handshake_ns": nanos(&phase.handshakes, 500), "request_ns": nanos(&phase.requests, 500),
            "request_on_loaded_ns": nanos(&phase.on_loaded, 500),
            "round_trips_per_minute": rpm(phase),
        })
    };
    let outcomes: Map<String, Value> = APPLICATIONS
        .iter()
        .map(|of| (of.name.to_owned(), json!(outcome(*of, report))))
        .collect();
    json!({
        "grade": verdict.grade.to_string(), "added_ns": verdict.added, "added_before_near_ns": verdict.near,
        "quality_of_outcome": outcomes,
        "idle": phase(&report.idle), "download": phase(&report.download), "upload": phase(&report.upload),
    })
}

/// An earlier result.
struct Before {
    grade: String,
    added: u64,
}

impl Before {
    fn read(path: &str) -> Result<Self, Failure> {
        let text = source::load("result", path)?;
        let read = serde_json::from_str(&text).ok().and_then(|of: Value| {
            Some(Self {
                grade: of["grade"].as_str()?.to_owned(),
                added: of["added_ns"].as_u64()?,
            })
        });
        read.ok_or_else(|| Failure::usage(format!("{path}: no result of `suimon verify --json`")))
    }
}

fn describe(
    test: &LineTest,
    report: &LineReport,
    verdict: &Verdict,
    before: Option<&Before>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let time = |of: &RoundTrips, per_mille| {
        let found = of.quantile(per_mille);
        found.map_or_else(String::new, |time| numbers::time(time.nanos()))
    };
    let row = |name: &str, of: &Phase| {
        let rate = match of.rates.is_empty() {
            true => String::new(),
            false => numbers::rate(of.bits_per_second as u64),
        };
        let rpm = rpm(of).map_or_else(String::new, |rpm| rpm.to_string());
        [
            name.to_owned(),
            rate,
            time(&of.pings, 500),
            time(&of.pings, 950),
            time(&of.pings, 990),
            format!("{:.1} %", 100.0 * of.pings.loss()),
            rpm,
        ]
    };
    writeln!(
        out,
        "the line to {}, {} connections in each direction",
        test.to, test.streams
    )?;
    let head = ["", "payload", "ping p50", "p95", "p99", "lost", "round trips/min"].map(String::from);
    let rows = [
        head,
        row("idle", &report.idle),
        row("download", &report.download),
        row("upload", &report.upload),
    ];
    let align = [
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ];
    for line in plot::text::table(&rows.map(Vec::from), &align) {
        writeln!(out, "{line}")?;
    }
    let added = numbers::time(verdict.added);
    writeln!(
        out,
        "\ngrade {}: under load 95 of 100 pings take up to {added} longer",
        verdict.grade
    )?;
    if let Some(before) = before {
        writeln!(
            out,
            "before: {}, {} longer",
            before.grade,
            numbers::time(before.added)
        )?;
    }
    if let (Some(near), Some(at)) = (verdict.near, test.near) {
        let line = numbers::time(verdict.added.saturating_sub(near));
        writeln!(
            out,
            "of that {} before {at} (Wi-Fi, cable), {line} behind it",
            numbers::time(near)
        )?;
    }
    let outcomes = APPLICATIONS
        .iter()
        .filter_map(|of| Some(format!("{} {}", of.name, outcome(*of, report)?)));
    writeln!(
        out,
        "quality of outcome, of 100: {}",
        outcomes.collect::<Vec<_>>().join(", ")
    )
}

fn picture(report: &LineReport, verdict: &Verdict) -> String {
    let rates = |name: &str, phase: &Phase| Series::new(name, phase.rates.clone());
    let rates = plot::rates_over_time(
        "Payload",
        PlotStyle::Lines,
        vec![
            rates("download", &report.download),
            rates("upload", &report.upload),
        ],
    );
    let title = format!(
        "Ping: grade {}, up to {} longer under load",
        verdict.grade,
        numbers::time(verdict.added)
    );
    let pings = Plot {
        title,
        x: Axis::new("time", AxisUnit::Time),
        y: Axis::new("", AxisUnit::Time),
        series: vec![Series::new("ping", report.pings.clone())],
        ..Plot::default()
    };
    plot::picture("A line under load", &[rates, pings])
}
