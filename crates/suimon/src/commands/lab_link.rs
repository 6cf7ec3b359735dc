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
    /// A link that was measured; the other options override what it stands for
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
    /// Its rate over time, in place of the rates: a packet-delivery trace of Mahimahi, or CSV;
    /// down=FILE or up=FILE in one direction
    #[arg(long, value_name = "FILE")]
    trace: Vec<String>,
    /// The delay in each direction: half of what it adds to a round trip
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// The greatest addition to the delay, uniformly distributed; packets keep their order
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// Packets that others overtake, and how much later they come: "1% by 5ms", or "packets 20 by
    /// 1ms"; which, as of --loss
    #[arg(long, value_name = "WHICH by TIME")]
    reorder: Option<String>,
    /// What is lost in each direction: "1%", "1% in bursts of 5", "every 100", or "packets 7,
    /// 12-15"
    #[arg(long, value_name = "LOSS")]
    loss: Option<String>,
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

/// Links that were measured. Their sources: docs/bad-links.md.
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
}

impl MeasuredLink {
    /// The rate down, the rate up, and the delay.
    const fn values(self) -> [&'static str; 3] {
        match self {
            Self::Dsl => ["1.5Mbit/s", "384kbit/s", "25ms"],
            Self::Cable => ["5Mbit/s", "1Mbit/s", "14ms"],
            Self::Lte => ["12Mbit/s", "12Mbit/s", "35ms"],
            Self::Starlink => ["105Mbit/s", "12Mbit/s", "20ms"],
            Self::Geo => ["19.3Mbit/s", "2.54Mbit/s", "372ms"],
        }
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
            let [down, up, delay] = link.values();
            let name = link.to_possible_value().map(|value| value.get_name().to_owned());
            let name = name.unwrap_or_default();
            eprintln!("suimon: --link {name} is --down {down} --up {up} --delay {delay}");
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
        let measured = self.link.map(MeasuredLink::values);
        let of = |own: &[&Option<String>], place: Option<usize>| {
            let own = own.iter().find_map(|value| value.as_deref());
            own.or_else(|| measured.and_then(|values| place.map(|place| values[place])))
                .map(str::to_owned)
        };
        let rate = |own, place| of(&[own, &self.rate], Some(place)).unwrap_or_else(|| NO_LIMIT.into());
        let course = |host: &str, rate: String| {
            let mut traces = self.trace.iter().flat_map(|trace| by_way(trace));
            let last = traces.rfind(|(of, _)| *of == host);
            last.map_or(("rate", rate), |(_, file)| ("trace", file.to_owned()))
        };
        let [down, up] = [
            course("outside", rate(&self.down, 0)),
            course("inside", rate(&self.up, 1)),
        ];
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
        set("delay", of(&[&self.delay], Some(2)).as_deref());
        set("jitter", self.jitter.as_deref());
        set("reorder", self.reorder.as_deref());
        set("loss", self.loss.as_deref());
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
            let [of_down, of_up, delay] = link.values();
            let value = link.to_possible_value().expect("a value");
            let help = value.get_help().expect("its help").to_string();
            assert_eq!(help, format!("--down {of_down} --up {of_up} --delay {delay}"));
        }
    }
}
