//! The one link of `suimon lab [OPTIONS] -- CMD`: its options, links that were measured, the way
//! out, and a report.
//!
//! The options become a topology, read as one from a file is: the same checks, the same messages.

use crate::exit::{Exit, Failure};
use clap::{Args, ValueEnum};
use engine::random::Seed;
use engine::tree::Registry;
use engine::units::Duration;
use lab::Record;
use lab::nesting::FarSide;
use lab::way_out::{self, PreparedWayOut, WayOut};
use plot::colour;
use scenario::behind::{self, BuiltLink};
use scenario::folder::Folder;
use scenario::lab::Instruments;
use scenario::report::behind::{LinkReport, WayReport};
use scenario::topology::Topology;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;

/// What a link without a rate has: more than this computer forwards.
const NO_LIMIT: &str = "10 Gbit/s";
/// The length of a bin of the report.
const BIN: Duration = Duration::from_millis(100);
/// Whom a policy is for: the host whose packets it queues.
const WAYS: [(&str, &str); 2] = [("down", "outside"), ("up", "inside")];

/// The options of the link that a command is behind.
#[derive(Debug, Args)]
#[command(next_help_heading = "The link that the command is behind")]
pub struct LinkOptions {
    /// A link that was measured, or one that varies by a model; the other options override what it
    /// stands for
    #[arg(long, value_name = "NAME")]
    link: Option<MeasuredLink>,
    /// The rate in both directions; without one the link is not limited
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// The rate of what the command receives
    #[arg(long, value_name = "RATE")]
    down: Option<String>,
    /// The rate of what the command sends
    #[arg(long, value_name = "RATE")]
    up: Option<String>,
    /// Its rate over time, in place of the rates: a packet-delivery trace of Mahimahi, CSV, or
    /// "model train, seed 7, at 20%"; down=FILE or up=FILE in one direction
    #[arg(long, value_name = "FILE")]
    trace: Vec<String>,
    /// The delay in each direction: half of what it adds to a round trip
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// What is added to the delay: at most this, uniformly distributed; or "normal 10ms, deviation
    /// 2ms", "exponential 2ms", "pareto 2ms"; packets keep their order, unless ", unordered"
    /// follows
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// Packets that others overtake, and how much later they come: "1% by 5ms", or "packets 20 by
    /// 1ms"; which, as of --loss
    #[arg(long, value_name = "WHICH by TIME")]
    reorder: Option<String>,
    /// What is lost in each direction: "1%", "1% in bursts of 5", "gilbert-elliott 1%, 25%, 80%,
    /// 0.1%" (from good to bad, back, loss in bad, loss in good), "every 100", or "packets 7,
    /// 12-15"
    #[arg(long, value_name = "LOSS")]
    loss: Option<String>,
    /// Packets that arrive with a flipped bit, as of --loss: who receives them drops them
    #[arg(long, value_name = "WHICH")]
    corrupt: Option<String>,
    /// Packets that arrive twice, as of --loss
    #[arg(long, value_name = "WHICH")]
    duplicate: Option<String>,
    /// What befalls single packets in each direction, by their numbers: "drop 7, 12-15; swap 20,
    /// 21; duplicate 30; corrupt 40; delay 50 by 20ms"
    #[arg(long, value_name = "SCRIPT")]
    script: Option<String>,
    /// The buffer before the link, in bytes [default: 100 ms at the rate]
    #[arg(long, value_name = "LENGTH")]
    buffer: Option<String>,
    /// A policy in place of the buffer: FILE, or "FILE: INTERFACE" of one with several; down=FILE
    /// or up=FILE in one direction
    #[arg(long, value_name = "FILE")]
    policy: Vec<String>,
    /// Write a page with what passed the link, and its rates as CSV, into this directory
    #[arg(long, value_name = "DIRECTORY")]
    report: Option<PathBuf>,
    /// A way out to the internet, by slirp4netns; $SUIMON_COMPUTER is then this computer's loopback
    /// address
    #[arg(long)]
    internet: bool,
}

/// Links that were measured, and models of links that vary. Their sources: docs/bad-links.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum MeasuredLink {
    /// --down 1.5Mbit/s --up 384kbit/s --delay 25ms
    Dsl,
    /// --down 5Mbit/s --up 1Mbit/s --delay 14ms
    Cable,
    /// --down 12Mbit/s --up 12Mbit/s --delay 35ms
    Lte,
    /// --down 105Mbit/s --up 12Mbit/s --delay 20ms
    Starlink,
    /// --down 19.3Mbit/s --up 2.54Mbit/s --delay 372ms
    Geo,
    /// --trace "down=model 5g" --trace "up=model 5g, at 20%"
    #[value(name = "5g")]
    FiveG,
    /// --trace "down=model wifi" --trace "up=model wifi, at 80%"
    Wifi,
    /// --trace "down=model train" --trace "up=model train, at 30%"
    Train,
}

/// What a preset is in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PresetWay {
    Rate(&'static str),
    Trace(&'static str),
}

impl PresetWay {
    /// The key and the value of a link that say so.
    fn said(self) -> (&'static str, String) {
        match self {
            Self::Rate(rate) => ("rate", rate.to_owned()),
            Self::Trace(trace) => ("trace", trace.to_owned()),
        }
    }
}

impl MeasuredLink {
    /// What it is down and up.
    const fn ways(self) -> [PresetWay; 2] {
        use PresetWay::{Rate, Trace};
        match self {
            Self::Dsl => [Rate("1.5Mbit/s"), Rate("384kbit/s")],
            Self::Cable => [Rate("5Mbit/s"), Rate("1Mbit/s")],
            Self::Lte => [Rate("12Mbit/s"), Rate("12Mbit/s")],
            Self::Starlink => [Rate("105Mbit/s"), Rate("12Mbit/s")],
            Self::Geo => [Rate("19.3Mbit/s"), Rate("2.54Mbit/s")],
            Self::FiveG => [Trace("model 5g"), Trace("model 5g, at 20%")],
            Self::Wifi => [Trace("model wifi"), Trace("model wifi, at 80%")],
            Self::Train => [Trace("model train"), Trace("model train, at 30%")],
        }
    }

    /// Its delay, where no trace has it.
    const fn delay(self) -> Option<&'static str> {
        match self {
            Self::Dsl => Some("25ms"),
            Self::Cable => Some("14ms"),
            Self::Lte => Some("35ms"),
            Self::Starlink => Some("20ms"),
            Self::Geo => Some("372ms"),
            Self::FiveG | Self::Wifi | Self::Train => None,
        }
    }

    /// The options that it stands for.
    fn options(self) -> String {
        let ways = ["down", "up"].into_iter().zip(self.ways());
        let ways = ways.map(|(way, is)| match is {
            PresetWay::Rate(rate) => format!("--{way} {rate}"),
            PresetWay::Trace(trace) => format!("--trace \"{way}={trace}\""),
        });
        let delay = self.delay().map(|delay| format!("--delay {delay}"));
        ways.chain(delay).collect::<Vec<_>>().join(" ")
    }
}

/// What had to be done before the lab was entered.
#[derive(Debug)]
pub struct PreparedLink {
    around: FarSide,
    way_out: Option<PreparedWayOut>,
}

/// A link with its way out.
#[derive(Debug)]
pub struct OpenLink {
    pub built: BuiltLink,
    _way_out: Option<WayOut>,
}

impl LinkOptions {
    /// The topology that the options describe.
    pub fn topology(&self, registry: &Registry) -> Result<Topology, Failure> {
        self.one_course_each()?;
        if let Some(link) = self.link {
            let name = link.to_possible_value().map(|value| value.get_name().to_owned());
            let name = name.unwrap_or_default();
            eprintln!("suimon: --link {name} is {}", link.options());
        }
        let text = self.text();
        let read = Topology::read("the options as a topology", &text, registry, &Folder::of(""));
        read.map_err(|diagnostics| {
            let why = diagnostics.render(colour::wanted(&std::io::stderr()));
            Failure::usage(format!("there is no such link:\n{why}"))
        })
    }

    /// Refuses what says twice what a way's rate is.
    fn one_course_each(&self) -> Result<(), Failure> {
        let traced = |host: &str| {
            let traces = self.trace.iter().flat_map(|trace| by_way(trace));
            traces.filter(|(of, _)| *of == host).count()
        };
        let counts = WAYS.map(|(_, host)| traced(host));
        for ((way, _), (traces, own)) in WAYS.iter().zip(counts.into_iter().zip([&self.down, &self.up])) {
            if traces > 1 || traces == 1 && own.is_some() {
                let message = format!("--trace: {way} has two courses; leave out one of --trace and --{way}");
                return Err(Failure::usage(message));
            }
        }
        if self.rate.is_some() && counts.iter().all(|traces| *traces == 1) {
            let message = "--trace has the rates of both directions; leave out one of --trace and --rate";
            return Err(Failure::usage(message));
        }
        Ok(())
    }

    /// The options as a topology.
    fn text(&self) -> String {
        let course = |way: usize, own: &Option<String>| {
            let mut traces = self.trace.iter().flat_map(|trace| by_way(trace));
            if let Some((_, file)) = traces.rfind(|(of, _)| *of == WAYS[way].1) {
                return ("trace", file.to_owned());
            }
            let stated = own.as_ref().or(self.rate.as_ref());
            let preset = || self.link.map(|link| link.ways()[way].said());
            stated
                .map(|rate| ("rate", rate.clone()))
                .or_else(preset)
                .unwrap_or_else(|| ("rate", NO_LIMIT.into()))
        };
        let [down, up] = [course(0, &self.down), course(1, &self.up)];
        let mut text = format!(
            "version = 1\nhosts = [\"outside\", \"inside\"]\n[[link]]\nbetween = [\"outside\", \"inside\"]\n{} = {}\n",
            down.0,
            quoted(&down.1)
        );
        if up != down {
            // Writing into memory does not fail.
            let _ = writeln!(text, "back = {{ {} = {} }}", up.0, quoted(&up.1));
        }
        let mut set = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{name} = {}", quoted(value));
            }
        };
        let delay = self.delay.as_deref();
        set("delay", delay.or_else(|| self.link.and_then(MeasuredLink::delay)));
        set("jitter", self.jitter.as_deref());
        set("reorder", self.reorder.as_deref());
        set("loss", self.loss.as_deref());
        set("corrupt", self.corrupt.as_deref());
        set("duplicate", self.duplicate.as_deref());
        set("script", self.script.as_deref());
        set("buffer", self.buffer.as_deref());
        for policy in &self.policy {
            for (host, file) in by_way(policy) {
                set(&format!("policy.{host}"), Some(file));
            }
        }
        text
    }

    /// Does what must be done before the lab is entered.
    pub fn prepare(&self) -> Result<PreparedLink, Failure> {
        let around = FarSide::look()?;
        if let (FarSide::Enclosing(..), true) = (&around, self.internet) {
            return Err(Failure::usage(
                "--internet belongs to the outermost `suimon lab`: those within have its way out",
            ));
        }
        let way_out = self.internet.then(PreparedWayOut::new).transpose()?;
        Ok(PreparedLink { around, way_out })
    }

    /// Records both directions, if there is to be a report.
    pub fn observe(&self, instruments: &mut Instruments) -> Option<[Record; 2]> {
        self.report.as_ref()?;
        let begin = netio::clock::now();
        let records = [Record::new(begin, BIN), Record::new(begin, BIN)];
        let placed = [0, 1].map(|side| ((0, side), records[side].clone()));
        instruments.records.extend(placed);
        Some(records)
    }

    /// Writes the report.
    pub fn report(
        &self,
        built: &BuiltLink,
        records: Option<[Record; 2]>,
        command: &[String],
        exit: Exit,
    ) -> Result<(), Failure> {
        let (Some(directory), Some(records)) = (&self.report, records) else {
            return Ok(());
        };
        let snapshot = built.behind.lab.links()[0].inspect();
        let snapshot = snapshot.map_err(|why| Failure::at_run_time(format!("the link: {why}")))?;
        let ways = [0, 1].map(|side| WayReport {
            name: WAYS[side].0,
            recorded: records[side].read(),
            stats: snapshot.paths[side].totals,
            impaired: snapshot.paths[side].impaired.unwrap_or_default(),
        });
        let report = LinkReport {
            command: command.join(" "),
            exit: exit.code(),
            topology: self.text(),
            ways,
        };
        Ok(report.write(directory)?)
    }
}

impl PreparedLink {
    /// Builds the link, and opens the way out; with what the command finds in its environment.
    pub fn build(
        self,
        topology: &Topology,
        registry: &Registry,
        instruments: &Instruments,
        seed: Seed,
    ) -> Result<(OpenLink, Vec<(String, String)>), Failure> {
        let built = behind::build(topology, registry, instruments, seed, self.around)?;
        let mut variables = vec![("SUIMON_OUTSIDE", built.behind.outside_address)];
        let outside = &built.behind.outside;
        let way_out = self.way_out.map(|way_out| way_out.open(outside)).transpose()?;
        if way_out.is_some() {
            variables.push(("SUIMON_COMPUTER", IpAddr::V4(way_out::COMPUTER)));
        }
        let named = variables.into_iter();
        let variables = named.map(|(name, address)| (name.to_owned(), address.to_string()));
        let variables = variables.collect();
        let link = OpenLink {
            built,
            _way_out: way_out,
        };
        Ok((link, variables))
    }
}

/// The files of an option, each with the host whose packets it is for: `FILE` of both ways,
/// `down=FILE` or `up=FILE` of one.
fn by_way(option: &str) -> Vec<(&'static str, &str)> {
    let of_way = |(way, host): (&str, &'static str)| {
        let file = option.strip_prefix(way)?.strip_prefix('=')?;
        Some(vec![(host, file)])
    };
    let both = || WAYS.map(|(_, host)| (host, option)).to_vec();
    WAYS.into_iter().find_map(of_way).unwrap_or_else(both)
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    // What JSON escapes, TOML escapes alike.
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Bandwidth;

    #[test]
    fn every_measured_link_is_a_link_and_its_help_says_what_it_is() {
        for link in MeasuredLink::value_variants() {
            let options = LinkOptions {
                link: Some(*link),
                rate: None,
                down: None,
                up: None,
                trace: Vec::new(),
                delay: None,
                jitter: None,
                reorder: None,
                loss: None,
                corrupt: None,
                duplicate: None,
                script: None,
                buffer: None,
                policy: Vec::new(),
                report: None,
                internet: false,
            };
            let topology = options.topology(&Registry::builtin()).expect("a link");
            let [down, up] = &topology.links[0].settings;
            assert!(
                down.rate >= up.rate && down.rate < Some(Bandwidth::gbit(1)),
                "{link:?}"
            );
            let varies = topology.links[0].traces.each_ref().map(Option::is_some);
            assert_eq!(varies, [link.delay().is_none(); 2], "{link:?}");
            let value = link.to_possible_value().expect("a value");
            let help = value.get_help().expect("its help").to_string();
            assert_eq!(help, link.options());
        }
    }
}
