//! The one link of `suimon lab [OPTIONS] -- CMD`: what it has beside its [shape](LinkShape), the
//! way out, and a report.

use super::link_shape::{LinkShape, WAYS, by_way};
use crate::exit::{Exit, Failure};
use clap::Args;
use engine::random::Seed;
use engine::tree::Registry;
use engine::units::Duration;
use lab::Record;
use lab::nesting::FarSide;
use lab::relay::{PreparedRelays, RelaySpec};
use lab::way_out::{self, PreparedWayOut, WayOut};
use scenario::behind::{self, BuiltLink};
use scenario::lab::Instruments;
use scenario::report::behind::{LinkReport, WayReport};
use scenario::topology::Topology;
use std::net::IpAddr;
use std::path::PathBuf;

/// The length of a bin of the report.
const BIN: Duration = Duration::from_millis(100);

/// The options of the link that a command is behind.
#[derive(Debug, Args)]
#[command(next_help_heading = "The link")]
pub struct LinkOptions {
    #[command(flatten)]
    shape: LinkShape,
    /// What befalls single packets in each direction, by their numbers: "drop 7, 12-15; swap 20,
    /// 21; duplicate 30; corrupt 40; delay 50 by 20ms"
    #[arg(long, value_name = "SCRIPT")]
    script: Option<String>,
    /// A policy in place of the buffer: FILE, or "FILE: INTERFACE" of one with several; down=FILE
    /// or up=FILE in one direction
    #[arg(long, value_name = "FILE")]
    policy: Vec<String>,
    /// Write a page with what passed the link, and its rates as CSV, into this directory
    #[arg(long, value_name = "DIRECTORY")]
    report: Option<PathBuf>,
    /// A port of the loopback address that leads through the link, once or several times: to a
    /// server outside, as 5433:db:5432, or to one that the command is, as 8080:inside:8000. Port 0
    /// is any that is free. Without a command the link lasts until Ctrl-C
    #[arg(long, value_name = "PORT:HOST:PORT")]
    listen: Vec<RelaySpec>,
    /// A way out to the internet, by slirp4netns; $SUIMON_COMPUTER is then this computer's loopback
    /// address
    #[arg(long)]
    internet: bool,
}

/// What had to be done before the lab was entered.
#[derive(Debug)]
pub struct PreparedLink {
    around: FarSide,
    way_out: Option<PreparedWayOut>,
    relays: PreparedRelays,
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
        self.shape.topology(&self.more(), registry)
    }

    /// The settings that only such a link has.
    fn more(&self) -> Vec<(String, &str)> {
        let script = self
            .script
            .iter()
            .map(|script| ("script".to_owned(), script.as_str()));
        let policies = self.policy.iter().flat_map(|policy| by_way(policy));
        let policies = policies.map(|(host, file)| (format!("policy.{host}"), file));
        script.chain(policies).collect()
    }

    /// Whether it serves others, so that it needs no command.
    pub fn listens(&self) -> bool {
        !self.listen.is_empty()
    }

    /// Does what must be done before the lab is entered.
    pub fn prepare(&self) -> Result<PreparedLink, Failure> {
        self.report.as_deref().map(LinkReport::place).transpose()?;
        let around = FarSide::look()?;
        if let (FarSide::Enclosing(..), true) = (&around, self.internet) {
            return Err(Failure::usage(
                "--internet belongs to the outermost `suimon lab`: those within have its way out",
            ));
        }
        let way_out = self.internet.then(PreparedWayOut::new).transpose()?;
        let relays = PreparedRelays::new(&self.listen)?;
        Ok(PreparedLink {
            around,
            way_out,
            relays,
        })
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
            topology: self.shape.text(&self.more()),
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
        for (at, RelaySpec { host, to, .. }) in self.relays.open(&built.behind)? {
            eprintln!("suimon: {at} leads through the link to {host}:{to}");
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
