//! `suimon sim FILE…`: runs scenarios in the simulator, shows the results, and compares them
//! with the expectations.
//!
//! A sweep can be split: `--shard i/n` runs every n-th point, on any machine; `--merge` joins the
//! outputs, byte for byte as one run would have printed them.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::explained::{Which, show_live};
use crate::kept_points::{KeptPoints, RememberingFiles};
use crate::source;
use clap::Args;
use control::explained::ExplainRequest;
use engine::tree::Registry;
use gateway::supervise::handle_signals;
use measure::numbers;
use plot::colour;
use plot::progress::ProgressLine;
use plot::terminal::{Abilities, still};
use scenario::brought::OwnParts;
use scenario::folder::{Files, Folder};
use scenario::report::sweep::PlotRequest;
use scenario::report::tcp::{TcpPlace, TcpRequest};
use scenario::report::{alone, csv, json, merge, page, pictures, series, table};
use scenario::run::captures::CaptureRequest;
use scenario::run::outcome::Outcome;
use scenario::run::points::{Done, Job, Shard};
use scenario::{Scenario, Scenarios};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Run scenarios in the simulator: the same engine and policies; expectations decide the exit
/// code
#[derive(Debug, Args)]
pub struct Sim {
    /// Scenarios, TOML files; `-` reads standard input. With --merge: outputs of --json
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Print one JSON object on one line for each point
    #[arg(long)]
    json: bool,
    /// Write throughput over time into this file, a line for each bin
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write pages with tables and charts into this directory, and for a sweep a CSV file with a
    /// line for each point
    #[arg(long, value_name = "DIRECTORY")]
    report: Option<PathBuf>,
    /// Write one stand-alone chart into this file, which the scenario's `picture` names; of one
    /// point
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Write congestion window, round-trip time and retransmissions of TCP flows over time into
    /// this file, as a chart (.svg) or a line for each sample (.csv); of one point
    #[arg(long, value_name = "FILE")]
    tcp: Option<TcpRequest>,
    /// Draw a chart of a sweep into an SVG file: a swept list, a measured value by its name in the
    /// table, and a list of which each value is a line; means over all else that is swept, as
    /// "rate,flow tcp: rate,flows=fig.svg"
    #[arg(long, value_name = "X,Y[,BY]=FILE")]
    plot: Vec<PlotRequest>,
    /// Write the packets on a link's wire into a pcapng file, such as "server >
    /// home=down.pcapng"; of one point
    #[arg(long, value_name = "LINK=FILE")]
    pcap: Vec<CaptureRequest>,
    /// Tell why packets waited on this link, such as "server > home"; of one point
    #[arg(long, value_name = "LINK")]
    explain: Option<String>,
    #[command(flatten)]
    which: Which,
    /// Threads for the points of a sweep; by default one per processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Run one of n parts of the points only, such as 2/8
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Keep the finished points of a sweep in this file, and go on from those in it: a sweep that
    /// was killed ends with the bytes of one that was not
    #[arg(long, value_name = "FILE", requires = "json", conflicts_with_all = ["csv", "report", "picture", "tcp", "plot", "pcap", "explain", "merge"])]
    resume: Option<PathBuf>,
    /// Join the --json outputs of all shards in the order of the points
    #[arg(long, conflicts_with_all = ["csv", "report", "picture", "tcp", "plot", "pcap", "jobs", "shard"])]
    merge: bool,
}

impl Sim {
    /// Runs them.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        if self.merge {
            let outputs = self
                .files
                .iter()
                .map(|path| Ok((path.clone(), source::load_output(path)?)));
            let outputs = outputs.collect::<Result<Vec<_>, Failure>>()?;
            let met = merge::merge(&outputs, out)?;
            return Ok(if met { Exit::Done } else { Exit::Missed });
        }
        let read: Vec<Read> = self
            .files
            .iter()
            .map(|path| Read::new(path, cx.registry, self.resume.is_some()))
            .collect::<Result<_, _>>()?;
        self.one_capture(&read)?;
        read.iter().try_for_each(|read| self.plots_are_of(read))?;
        if self.resume.is_some() && read.len() > 1 {
            return Err(Failure::usage(
                "--resume keeps the points of one scenario: run one at a time",
            ));
        }
        let mut csv = self.csv()?;
        let end = Arc::new(AtomicBool::new(false));
        let mut met = true;
        for (index, read) in read.iter().enumerate() {
            if index > 0 && !self.json {
                writeln!(out)?;
            }
            met &= self.scenario(read, out, csv.as_mut(), &end)?;
        }
        if let Some(csv) = &mut csv {
            csv.flush()?;
        }
        Ok(if met { Exit::Done } else { Exit::Missed })
    }

    /// Refuses captures and charts of several points, which would overwrite each other.
    fn one_capture(&self, read: &[Read]) -> Result<(), Failure> {
        let points = |read: &Read| {
            self.shard
                .unwrap_or(Shard::WHOLE)
                .points(read.scenarios.sweep.points())
                .len()
        };
        let all: usize = read.iter().map(points).sum();
        let what = match (&self.picture, self.pcap.is_empty()) {
            _ if all <= 1 => return Ok(()),
            _ if self.explain.is_some() => "--explain explains",
            _ if self.tcp.is_some() => "--tcp shows",
            (_, false) => "--pcap captures",
            (Some(_), true) => "--picture draws",
            (None, true) => return Ok(()),
        };
        let why = format!("{what} one point, but the scenario has {all}; choose one with --shard I/{all}");
        Err(Failure::usage(why))
    }

    /// The packets that are to be explained, by the name of their link as scenarios have it.
    fn explained(&self) -> Option<ExplainRequest> {
        let link = self.explain.as_ref()?;
        let name: Vec<&str> = link.split('>').map(str::trim).collect();
        Some(self.which.clone().request(name.join(" > "), 0))
    }

    fn csv(&self) -> Result<Option<BufWriter<File>>, Failure> {
        let Some(path) = &self.csv else {
            return Ok(None);
        };
        let file = File::create(path);
        let file = file.map_err(|error| {
            Failure::at_run_time(format!(
                "cannot write `{}`: {error}; choose another path with --csv",
                path.display()
            ))
        })?;
        let mut file = BufWriter::new(file);
        file.write_all(series::HEADER.as_bytes())?;
        Ok(Some(file))
    }

    /// Runs all points of a scenario, until `end`. Returns whether its expectations were met.
    fn scenario(
        &self,
        read: &Read,
        out: &mut dyn Write,
        mut csv: Option<&mut BufWriter<File>>,
        end: &Arc<AtomicBool>,
    ) -> Result<bool, Failure> {
        let all = read.scenarios.sweep.points();
        let chosen = self.shard.unwrap_or(Shard::WHOLE).points(all);
        let mut resumed = self.resumed(read, all)?;
        let kept = |point: &usize| resumed.as_ref().is_some_and(|resumed| resumed.has(*point));
        let points: Vec<usize> = chosen.iter().copied().filter(|point| !kept(point)).collect();
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let job = Job {
            name: &read.name,
            scenarios: &read.scenarios,
            files: &read.folder,
            points: &points,
            jobs: self.jobs.map_or_else(processors, usize::from),
            captures: &self.pcap,
            explain: self.explained(),
            own: &OwnParts::default(),
            tcp: self.tcp.is_some(),
            end,
        };
        let first = points.first().map(|&first| read.point(first)).transpose()?;
        self.has_tcp(read, first.as_ref())?;
        let length = first
            .as_ref()
            .map_or(0, |scenario| scenario.settings.duration.nanos());
        if let (Some(scenario), 1, false) = (&first, points.len(), self.json) {
            table::promises(out, scenario)?;
        }
        if points.len() > 1 {
            handle_signals(end).map_err(|e| Failure::at_run_time(format!("cannot handle signals: {e}")))?;
        }
        let mut progress = ProgressLine::begin();
        let total = length.saturating_mul(points.len() as u64);
        let mut met = true;
        let mut finished = 0;
        let mut kept: Vec<Outcome> = Vec::new();
        let mut report = |outcome: Outcome| {
            met &= outcome.expectations.iter().all(|judgement| judgement.met);
            finished += 1;
            if let Some(csv) = &mut csv {
                series::write(csv, &outcome)?;
            }
            if let Some(path) = &self.picture {
                write_to(path, &alone::picture(&outcome), "--picture")?;
            }
            self.write_tcp(&outcome)?;
            if self.json {
                let line = json::point(&outcome).to_string();
                if let Some(resumed) = &mut resumed {
                    resumed.keep(&line)?;
                    met &= show_kept(out, resumed.take_until(&chosen, outcome.point.number))?;
                }
                writeln!(out, "{line}")?;
            }
            if !self.json || self.report.is_some() || !self.plot.is_empty() {
                kept.push(outcome);
            }
            Ok(())
        };
        let ran: Result<(), Failure> = job.run(
            &mut |done| show(&mut progress, done, total, points.len()),
            &mut report,
        );
        progress.clear();
        ran?;
        if let Some(mut resumed) = resumed.filter(|_| finished == points.len()) {
            met &= show_kept(out, resumed.take_until(&chosen, all))?;
        }
        match kept.as_slice() {
            _ if self.json => {}
            [] => {}
            [only] if all == 1 => {
                graphs(out, only)?;
                table::point(out, only)?;
                if let Some(explained) = &only.explained {
                    writeln!(out)?;
                    show_live(out, explained, self.which.are_dropped())?;
                }
            }
            several => table::sweep(out, several)?,
        }
        self.report(read, &kept)?;
        self.plots(&kept)?;
        if finished < points.len() {
            out.flush()?;
            return Err(interrupted(csv, finished, points.len())?);
        }
        Ok(met)
    }

    /// Refuses to show TCP's variables where there is none.
    fn has_tcp(&self, read: &Read, scenario: Option<&Scenario>) -> Result<(), Failure> {
        if self.tcp.is_some() && scenario.is_some_and(|scenario| !scenario.has_tcp()) {
            let why = format!("--tcp: no flow of {} is of TCP", read.name);
            return Err(Failure::usage(why));
        }
        Ok(())
    }

    /// Writes TCP's variables over time, if they are wanted.
    fn write_tcp(&self, outcome: &Outcome) -> Result<(), Failure> {
        let Some(tcp) = &self.tcp else { return Ok(()) };
        let place = TcpPlace {
            name: "simulator",
            flows: &outcome.flows,
        };
        let text = tcp.text(&outcome.scenario, outcome.duration, &[place]);
        write_to(tcp.file(), &text, "--tcp")
    }

    /// The points of this sweep that were finished before.
    fn resumed(&self, read: &Read, points: usize) -> Result<Option<KeptPoints>, Failure> {
        let open = |(path, digest): (&PathBuf, u64)| KeptPoints::open(path, &read.name, points, digest);
        self.resume.as_ref().zip(read.digest).map(open).transpose()
    }

    /// Refuses plots of lists that this does not sweep, before it is run.
    fn plots_are_of(&self, read: &Read) -> Result<(), Failure> {
        let values = read.scenarios.sweep.values(1);
        let swept = self
            .plot
            .iter()
            .try_for_each(|plot| plot.swept(&values).map(drop));
        swept.map_err(|why| Failure::usage(format!("--plot: {why}")))
    }

    /// Draws what is wanted of a sweep.
    fn plots(&self, outcomes: &[Outcome]) -> Result<(), Failure> {
        for plot in &self.plot {
            let drawn = plot.drawn(outcomes);
            let drawn = drawn.map_err(|why| Failure::usage(format!("--plot: {why}")))?;
            write_to(plot.file(), &drawn, "--plot")?;
        }
        Ok(())
    }

    /// Writes the page of a scenario, and the table of a sweep.
    fn report(&self, read: &Read, outcomes: &[Outcome]) -> Result<(), Failure> {
        let (Some(directory), false) = (&self.report, outcomes.is_empty()) else {
            return Ok(());
        };
        let write = |ending: &str, text: &str| {
            let path = directory.join(format!("{}.{ending}", read.name));
            fs::create_dir_all(directory)?;
            write_to(&path, text, "--report")
        };
        let texts = [("The scenario".to_owned(), read.text.clone())];
        write("html", &page::page(outcomes, &texts))?;
        if read.scenarios.sweep.is_empty() {
            return Ok(());
        }
        write("csv", &csv::points(outcomes))
    }
}

/// Prints points that were finished before; whether their expectations were met.
fn show_kept(out: &mut dyn Write, lines: Vec<String>) -> io::Result<bool> {
    let mut met = true;
    for line in lines {
        writeln!(out, "{line}")?;
        let value: serde_json::Value = serde_json::from_str(&line)?;
        met &= value["met"] != serde_json::Value::Bool(false);
    }
    Ok(met)
}

/// What was done of a sweep is shown; it says how much that is.
fn interrupted(csv: Option<&mut BufWriter<File>>, done: usize, of: usize) -> io::Result<Failure> {
    if let Some(csv) = csv {
        csv.flush()?;
    }
    Ok(Failure {
        exit: Exit::Interrupted,
        message: format!("interrupted: {done} of {of} points are done, and shown"),
    })
}

fn write_to(path: &Path, text: &str, option: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| {
        let path = path.display();
        Failure::at_run_time(format!(
            "cannot write `{path}`: {error}; choose another path with {option}"
        ))
    })
}

/// The links' throughput over time, as far as the terminal has room.
fn graphs(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let abilities = Abilities::of(&io::stdout());
    for link in pictures::busy(outcome) {
        let lines = still(&pictures::trace(outcome, link), abilities);
        if !lines.is_empty() {
            writeln!(out, "{}\n{}\n", link.name, lines.join("\n"))?;
        }
    }
    Ok(())
}

/// Shows the progress of all points.
fn show(progress: &mut ProgressLine, done: &Done, total: u64, points: usize) {
    let simulated = done.simulated.load(Ordering::Relaxed);
    let per_second = done.events.load(Ordering::Relaxed) as f64 / progress.since().as_secs_f64().max(0.001);
    let finished = done.points.load(Ordering::Relaxed);
    progress.show(simulated as f64 / total.max(1) as f64, || {
        let points = match points {
            1 => String::new(),
            all => format!(", {finished} of {all} points"),
        };
        let [now, all] = [simulated, total].map(numbers::time);
        format!(
            "{now} of {all}{points}, {} events/s",
            numbers::count(per_second as u64)
        )
    });
}

/// A scenario that has been read.
struct Read {
    /// The file's name without its ending.
    name: String,
    /// The directory of its files.
    folder: Folder,
    /// The file's text.
    text: String,
    /// Of the text and the files that it names, for a sweep that is to go on.
    digest: Option<u64>,
    scenarios: Scenarios,
}

impl Read {
    fn new(path: &str, registry: &Registry, resumes: bool) -> Result<Self, Failure> {
        let text = source::load("scenario", path)?;
        let file = Path::new(path);
        let name = match path {
            "-" => "scenario".to_owned(),
            _ => file
                .file_stem()
                .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()),
        };
        let folder = Folder::of(path);
        let remembering = resumes.then(|| RememberingFiles::of(&folder));
        let files: Files<'_> = match &remembering {
            Some(remembering) => remembering,
            None => &folder,
        };
        let scenarios = Scenarios::read(path, &text, registry, files);
        let scenarios = scenarios.map_err(|diagnostics| {
            let colour = colour::wanted(&io::stderr());
            Failure::usage(format!("{path} cannot be run:\n{}", diagnostics.render(colour)))
        })?;
        if !scenarios.warnings.is_empty() {
            eprint!("{}", scenarios.warnings.render(colour::wanted(&io::stderr())));
        }
        let digest = remembering.map(|files| files.digest(&text));
        Ok(Self {
            name,
            folder,
            text,
            digest,
            scenarios,
        })
    }

    fn point(&self, point: usize) -> Result<Scenario, Failure> {
        let scenario = self.scenarios.point(point, &self.folder);
        scenario.map_err(|diagnostics| Failure::usage(diagnostics.to_string()))
    }
}
