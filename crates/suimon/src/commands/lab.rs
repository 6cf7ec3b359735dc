//! `suimon lab FILE [-- CMD]`: builds a network from a topology or a scenario, and runs a program
//! in one of its hosts. Without a program, a scenario's flows run as real sockets, and its
//! expectations are judged. `suimon lab [OPTIONS] -- CMD`, without a file, runs a command behind
//! one link: `lab_link`.
//!
//! The file is read and checked before anything is created. Then the process enters a sandbox of
//! namespaces, so that nothing of the lab is left behind, however it ends.

use crate::commands::Context;
use crate::commands::lab_link::LinkOptions;
use crate::exit::{Exit, Failure};
use crate::source;
use clap::Args;
use control::diagnostics::Diagnostics;
use control::documents::Document;
use engine::random::Seed;
use engine::settings::{Span, unknown};
use engine::tree::Registry;
use engine::units::Duration;
use lab::{HeldSignals, Host, Record};
use plot::colour;
use scenario::folder::Folder;
use scenario::lab::{Built, HostInterface, Instruments, build, build_scenario};
use scenario::lab_policies::LinkDirection;
use scenario::report::tcp::{TcpPlace, TcpRequest};
use scenario::report::{json, junit, table};
use scenario::run::captures::CaptureRequest;
use scenario::run::outcome::{LiveOutcome, Outcome, Point};
use scenario::run::{ScenarioRun, live};
use scenario::topology::Topology;
use scenario::{Scenario, Scenarios};
use serde_json::{Value, json as object};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Run a command behind a link with this rate, delay and loss, or build a network from a file and
/// run a program in it; no root needed
#[derive(Debug, Args)]
#[command(
    override_usage = "suimon lab [--link NAME] [--rate RATE] [--delay TIME] [--loss SHARE] [...] -- CMD...\n       \
                      suimon lab [OPTIONS] FILE [-- CMD...]",
    after_help = "The exit status is the command's; 127 if it is not found, 126 if it cannot be started."
)]
pub struct Lab {
    /// A topology, a TOML file: hosts, and links with rate, delay, buffer and policy; or a
    /// scenario, whose flows run as real sockets; `-` reads standard input. Without a file the
    /// command runs behind one link
    // The options of a group that contains another do not count as that group's: each is named.
    #[arg(conflicts_with_all = ["LinkShape", "script", "policy", "report", "listen", "internet"])]
    file: Option<String>,
    #[command(flatten)]
    link: LinkOptions,
    /// The host to run the program in; by default the first one
    #[arg(long = "in", value_name = "HOST", requires = "file")]
    host: Option<String>,
    /// The seed of everything random in the links' policies [default: 1]; a scenario has its own
    #[arg(long)]
    seed: Option<u64>,
    /// Capture the packets that arrive at the far end of a link into a pcapng file: 'alice >
    /// bob=down.pcapng'
    #[arg(long, value_name = "LINK=FILE")]
    pcap: Vec<CaptureRequest>,
    /// When the program has ended, write a link's arrivals and departures, bin by bin, into a CSV
    /// file
    #[arg(long, value_name = "LINK=FILE", requires = "command")]
    series: Vec<CaptureRequest>,
    /// The length of a bin of the series
    #[arg(long, value_name = "TIME", default_value = "100us")]
    bin: Duration,
    /// Print JSON
    #[arg(long, requires = "file", conflicts_with = "command")]
    json: bool,
    /// Write the expectations of a scenario and what its programs printed as JUnit XML into this
    /// file
    #[arg(long, value_name = "FILE", requires = "file", conflicts_with = "command")]
    junit: Option<PathBuf>,
    /// Write congestion window, round-trip time and retransmissions of a scenario's TCP flows over
    /// time into this file, the kernel's and those of a simulation, as a chart (.svg) or a line for
    /// each sample (.csv)
    #[arg(long, value_name = "FILE", requires = "file", conflicts_with = "command")]
    tcp: Option<TcpRequest>,
    /// The program and its arguments; without one the lab of a file runs until Ctrl-C
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Lab {
    /// Builds the lab, runs the program or waits.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        let Some(file) = &self.file else {
            return self.behind_link(cx.registry);
        };
        let text = source::load("topology", file)?;
        let scenario = (Document::of(&text) == Some(Document::Scenario))
            .then(|| Self::scenario(file, &text, cx.registry))
            .transpose()?;
        if scenario.is_some() && self.seed.is_some() {
            return Err(Failure::usage(format!(
                "--seed: {file} is a scenario, which has its own; write `seed` in it"
            )));
        }
        if let (Some(scenario), true) = (&scenario, self.command.is_empty()) {
            return self.live(file, scenario, cx.registry, out);
        }
        let of_scenario = [
            (self.junit.is_some(), "--junit", "expectations"),
            (self.tcp.is_some(), "--tcp", "flows"),
        ];
        if let Some((_, option, what)) = of_scenario.iter().find(|(given, ..)| *given) {
            return Err(Failure::usage(format!(
                "{option}: {file} is a topology, which has no {what}; write a scenario"
            )));
        }
        let topology = match &scenario {
            Some(scenario) => Topology::of(scenario),
            None => Self::read(file, &text, cx.registry)?,
        };
        if let Some(idle) = scenario.as_ref().and_then(idle_with_program) {
            eprintln!("suimon: warning: {idle}");
        }
        let host = self.host(&topology)?;
        lab::enter()?;
        let held = (!self.command.is_empty()).then(HeldSignals::hold);
        let instruments = self.instruments(&topology)?;
        let built = match &scenario {
            Some(scenario) => build_scenario(scenario, cx.registry, &instruments)?,
            None => build(&topology, cx.registry, &instruments, self.seed())?,
        };
        instruments.begin.set(netio::clock::now());
        let host = &built.lab.hosts()[host];
        if let Some(held) = held {
            let exit = self.in_host(host, built.variables(), &held)?;
            instruments.write()?;
            return match exit {
                Exit::Passed(0) => Ok(Exit::Done),
                exit => Err(Failure {
                    exit,
                    message: format!(
                        "`{}` in host `{}` ended with exit status: {}",
                        self.command[0],
                        host.name(),
                        exit.code()
                    ),
                }),
            };
        }
        if self.json {
            writeln!(out, "{:#}", Self::to_json(&built))?;
        } else {
            Self::describe(&built, out)?;
        }
        out.flush()?;
        // Until a signal ends the process, and with it the lab.
        loop {
            std::thread::park();
        }
    }

    /// Runs the command behind one link.
    fn behind_link(&self, registry: &Registry) -> Result<Exit, Failure> {
        if self.command.is_empty() && !self.link.listens() {
            return Err(Failure::usage(
                "what is to run behind the link? Write `-- CMD` at the end, --listen for a port that leads through \
                 it, or name the FILE of a lab",
            ));
        }
        // Clap excuses `requires = "file"` beside options that a file excludes.
        if self.host.is_some() {
            return Err(Failure::usage(
                "--in: only `inside` is behind the link; name the FILE of a lab with several hosts",
            ));
        }
        let topology = self.link.topology(registry)?;
        let prepared = self.link.prepare()?;
        lab::enter()?;
        let held = HeldSignals::hold();
        let mut instruments = self.instruments(&topology)?;
        let records = self.link.observe(&mut instruments);
        let (link, variables) = prepared.build(&topology, registry, &instruments, self.seed())?;
        instruments.begin.set(netio::clock::now());
        let exit = match self.command.is_empty() {
            true => until_told(&held),
            false => self.in_host(&link.built.behind.inside, variables, &held)?,
        };
        instruments.write()?;
        self.link.report(&link.built, records, &self.command, exit)?;
        Ok(exit)
    }

    fn seed(&self) -> Seed {
        Seed(self.seed.unwrap_or(1))
    }

    /// Runs the command in a host to its end, with signals passed on to it.
    fn in_host(
        &self,
        host: &Host,
        variables: Vec<(String, String)>,
        held: &HeldSignals,
    ) -> Result<Exit, Failure> {
        let program = host.program(&self.command[0]).args(&self.command[1..]);
        let program = variables
            .into_iter()
            .fold(program, |program, (name, value)| program.env(name, value));
        program.interactive(held).map(Exit::from).map_err(|error| {
            let exit = match error.kind() {
                ErrorKind::NotFound => Exit::Passed(127),
                ErrorKind::PermissionDenied => Exit::Passed(126),
                _ => Exit::Failed,
            };
            let message = error.to_string();
            Failure { exit, message }
        })
    }

    /// Reads a scenario for the lab.
    fn scenario(file: &str, text: &str, registry: &Registry) -> Result<Scenario, Failure> {
        let folder = Folder::of(file);
        let colour = colour::wanted(&std::io::stderr());
        let refused = |diagnostics: Diagnostics| {
            let why = diagnostics.render(colour);
            Failure::usage(format!("{file} cannot be run in the lab:\n{why}"))
        };
        let read = Scenarios::read_for_lab(file, text, registry, &folder).map_err(refused)?;
        if !read.warnings.is_empty() {
            eprint!("{}", read.warnings.render(colour));
        }
        read.point(1, &folder).map_err(refused)
    }

    /// Runs a scenario with real sockets, and judges its expectations.
    fn live(
        &self,
        file: &str,
        scenario: &Scenario,
        registry: &Registry,
        out: &mut dyn Write,
    ) -> Result<Exit, Failure> {
        if !self.pcap.is_empty() || self.host.is_some() {
            return Err(Failure::usage(
                "--pcap and --in belong to a program in the lab: write `-- CMD`, or leave them out",
            ));
        }
        if self.tcp.is_some() && !scenario.has_tcp() {
            return Err(Failure::usage(format!("--tcp: no flow of {file} is of TCP")));
        }
        lab::enter()?;
        let stem = Path::new(file).file_stem();
        let name = stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let simulated = self
            .tcp
            .is_some()
            .then(|| simulated(&name, scenario))
            .transpose()?;
        if !self.json {
            table::promises(out, scenario)?;
        }
        let outcome = live::run(&name, scenario, registry)?;
        if self.json {
            writeln!(out, "{}", json::live(&outcome))?;
        } else {
            table::live(out, &outcome)?;
        }
        if let Some(file) = &self.junit {
            std::fs::write(file, junit::live(&outcome))
                .map_err(|why| Failure::at_run_time(format!("cannot write {}: {why}", file.display())))?;
        }
        if let Some((tcp, simulated)) = self.tcp.as_ref().zip(simulated) {
            write_tcp(tcp, &outcome, &simulated)?;
        }
        let met = outcome.expectations.iter().all(|judgement| judgement.met);
        Ok(if met { Exit::Done } else { Exit::Missed })
    }

    fn read(file: &str, text: &str, registry: &Registry) -> Result<Topology, Failure> {
        let colour = colour::wanted(&std::io::stderr());
        let topology = Topology::read(file, text, registry, &Folder::of(file)).map_err(|diagnostics| {
            let why = diagnostics.render(colour);
            Failure::usage(format!("{file} cannot be built:\n{why}"))
        })?;
        if !topology.warnings.is_empty() {
            eprint!("{}", topology.warnings.render(colour));
        }
        Ok(topology)
    }

    /// The captures and series, with their links resolved by name.
    fn instruments(&self, topology: &Topology) -> Result<Instruments, Failure> {
        if self.bin == Duration::ZERO {
            return Err(Failure::usage("--bin 0: a bin has a length, such as 100us"));
        }
        let find = |wanted: &CaptureRequest| -> Result<LinkDirection, Failure> {
            let mut names = Vec::new();
            for (number, link) in topology.links.iter().enumerate() {
                for side in [0, 1] {
                    let [from, to] = [side, 1 - side].map(|end| &topology.hosts[link.between[end]]);
                    let name = format!("{from} > {to}");
                    let emulated = link.settings[side].rate.is_some();
                    if name == wanted.link() && emulated {
                        return Ok((number, side));
                    }
                    names.extend(emulated.then_some(name));
                }
            }
            let names = names.iter().map(String::as_str);
            Err(unknown("link with a rate", wanted.link(), Span::default(), names).into())
        };
        let begin = netio::clock::now();
        let record =
            |wanted: &CaptureRequest| Ok((find(wanted)?, wanted.file().into(), Record::new(begin, self.bin)));
        let capture = |wanted: &CaptureRequest| Ok((find(wanted)?, wanted.file().into()));
        Ok(Instruments {
            captures: self.pcap.iter().map(capture).collect::<Result<_, Failure>>()?,
            series: self.series.iter().map(record).collect::<Result<_, Failure>>()?,
            ..Instruments::default()
        })
    }

    /// The host to run the program in.
    fn host(&self, topology: &Topology) -> Result<usize, Failure> {
        let Some(name) = &self.host else { return Ok(0) };
        let index = topology.hosts.iter().position(|host| host == name);
        index.ok_or_else(|| {
            let hosts = topology.hosts.iter().map(String::as_str);
            unknown("host", name, Span::default(), hosts).into()
        })
    }
}

/// The same scenario in the simulator, with the variables of its TCP.
fn simulated(name: &str, scenario: &Scenario) -> Result<Outcome, Failure> {
    let run = ScenarioRun::begin(scenario, &[], None)?.sampling_tcp(scenario);
    Ok(run.to_end(name, scenario, Point::only(), &mut |_, _| {})?)
}

/// Writes the variables of the kernel's TCP beside those of the simulator's.
fn write_tcp(tcp: &TcpRequest, outcome: &LiveOutcome, simulated: &Outcome) -> Result<(), Failure> {
    let places = [("kernel", &outcome.flows), ("simulator", &simulated.flows)];
    let places = places.map(|(name, flows)| TcpPlace { name, flows });
    let text = tcp.text(&outcome.scenario, outcome.duration, &places);
    let file = tcp.file().display();
    std::fs::write(tcp.file(), text).map_err(|why| {
        Failure::at_run_time(format!(
            "cannot write `{file}`: {why}; choose another path with --tcp"
        ))
    })
}

/// Waits for a signal that ends a program.
fn until_told(held: &HeldSignals) -> Exit {
    while !held.told_to_end(std::time::Duration::MAX) {}
    Exit::Done
}

/// What of a scenario does not happen while a program runs in place of its flows.
fn idle_with_program(scenario: &Scenario) -> Option<String> {
    let parts = [
        (scenario.signalling.reservations.is_empty(), "reserved"),
        (scenario.changes.is_empty(), "changed"),
        (scenario.failures.is_empty(), "broken"),
        (scenario.programs.is_empty(), "run besides"),
        (scenario.expectations.is_empty(), "judged"),
    ];
    let idle: Vec<&str> = parts
        .iter()
        .filter_map(|(none, what)| (!none).then_some(*what))
        .collect();
    (!idle.is_empty()).then(|| {
        let idle = idle.join(", ");
        format!("with a program in place of the flows nothing is {idle}")
    })
}

impl Lab {
    fn describe(built: &Built, out: &mut dyn Write) -> std::io::Result<()> {
        for (host, interfaces) in built.lab.hosts().iter().zip(&built.interfaces) {
            writeln!(out, "{}", host.name())?;
            for HostInterface {
                name, addresses, to, ..
            } in interfaces
            {
                let [v4, v6] = addresses;
                writeln!(out, "    {name:<6} {v4:<16} {v6:<20} to {to}")?;
            }
            writeln!(out, "    enter: {}", built.enter(host).join(" "))?;
        }
        writeln!(out, "\nThe lab runs until Ctrl-C.")
    }

    fn to_json(built: &Built) -> Value {
        let interface = |view: &HostInterface| {
            object!({ "name": view.name, "to": view.to,
                    "addresses": view.addresses.map(|a| a.to_string()) })
        };
        let hosts = built
            .lab
            .hosts()
            .iter()
            .zip(&built.interfaces)
            .map(|(host, interfaces)| {
                let interfaces: Vec<Value> = interfaces.iter().map(interface).collect();
                object!({ "name": host.name(), "interfaces": interfaces, "enter": built.enter(host) })
            });
        object!({ "hosts": hosts.collect::<Vec<_>>() })
    }
}
