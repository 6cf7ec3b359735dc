//! `suimon lab FILE [-- CMD]`: a made-up network from a topology file, and a program in one of its hosts.
//!
//! The file is read and checked before anything is made. Then the process goes into a box of namespaces, so
//! that nothing of the lab is left behind, however it ends.

use crate::exit::{Exit, Failure};
use crate::simulation::captures::Wanted;
use crate::source;
use clap::Args;
use control::policy::Interface;
use control::topology::{LinkConfig, LinkSettings, Topology};
use engine::classify::Classifier;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::settings::{Span, unknown};
use engine::tree::Registry;
use engine::units::{Bandwidth, Duration};
use lab::addressing::{self, Pair};
use lab::{Direction, Host, Lab, Link, Record};
use netio::classify::ByFilters;
use plot::colour;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Build a made-up network from a topology file, and run a program in it
#[derive(Debug, Args)]
pub struct LabVerb {
    /// The topology, a TOML file: hosts, and links with rate, delay, buffer and policy; `-` reads standard input
    file: String,
    /// The host to run the program in; the first one if not given
    #[arg(long = "in", value_name = "HOST")]
    host: Option<String>,
    /// The seed of everything random in the links' policies
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Capture what arrives at the far end of a link into a file of pcapng: 'alice > bob=down.pcapng'
    #[arg(long, value_name = "LINK=FILE")]
    pcap: Vec<Wanted>,
    /// Write what came to a link and what it sent, bin by bin, into a file of CSV when the program has ended
    #[arg(long, value_name = "LINK=FILE", requires = "command")]
    series: Vec<Wanted>,
    /// The length of a bin of the series
    #[arg(long, value_name = "TIME", default_value = "100us")]
    bin: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The program and its arguments; without one the lab stays until Ctrl-C
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// A lab that stands, and what to tell of it.
struct Built {
    lab: Lab,
    /// For each host its interfaces, with addresses and what they lead to.
    interfaces: Vec<Vec<InterfaceView>>,
}

struct InterfaceView {
    name: String,
    addresses: Pair,
    to: String,
}

/// A direction of a link: its number, and the end from which it leads.
type Way = (usize, usize);

/// What looks at links.
struct Instruments {
    captures: Vec<(Way, PathBuf)>,
    series: Vec<(Way, PathBuf, Record)>,
}

impl Instruments {
    /// The direction with those of its instruments.
    fn on(&self, way: Way, mut direction: Direction) -> Direction {
        for (_, file) in self.captures.iter().filter(|(of, _)| *of == way) {
            direction = direction.captured(file);
        }
        for (_, _, record) in self.series.iter().filter(|(of, ..)| *of == way) {
            direction = direction.recorded(record);
        }
        direction
    }

    /// Writes what is not written yet.
    fn write(&self) -> Result<(), Failure> {
        for (_, file, record) in &self.series {
            let failed = |e| Failure::at_run_time(format!("cannot write `{}`: {e}", file.display()));
            let mut out = File::create(file).map(BufWriter::new).map_err(failed)?;
            record
                .read()
                .write_csv(&mut out)
                .and_then(|()| out.flush())
                .map_err(failed)?;
        }
        Ok(())
    }
}

impl LabVerb {
    /// Builds the lab, runs the program or waits.
    pub fn run(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let topology = self.read()?;
        let host = self.host(&topology)?;
        lab::enter()?;
        let instruments = self.instruments(&topology)?;
        let built = build(&topology, &instruments, Seed(self.seed))?;
        let hosts = built.lab.hosts();
        if let Some((name, arguments)) = self.command.split_first() {
            let program = hosts[host].program(name).args(arguments);
            let program = built
                .variables()
                .into_iter()
                .fold(program, |p, (name, value)| p.env(name, value));
            let status = program.interactive()?;
            instruments.write()?;
            return if status.success() {
                Ok(Exit::Done)
            } else {
                Err(Failure::at_run_time(format!(
                    "`{name}` in host `{}` ended with {status}",
                    hosts[host].name()
                )))
            };
        }
        if self.json {
            writeln!(out, "{:#}", built.to_json())?;
        } else {
            built.describe(out)?;
        }
        out.flush()?;
        // Until a signal ends the process, and with it the lab.
        loop {
            std::thread::park();
        }
    }

    fn read(&self) -> Result<Topology, Failure> {
        let text = source::load("topology", &self.file)?;
        let colour = colour::wanted(&std::io::stderr());
        let topology = Topology::read(&self.file, &text, &Registry::builtin()).map_err(|findings| {
            Failure::usage(format!(
                "{} cannot be built:\n{}",
                self.file,
                findings.render(colour)
            ))
        })?;
        if !topology.warnings.is_empty() {
            eprint!("{}", topology.warnings.render(colour));
        }
        Ok(topology)
    }

    /// What looks at links, each found by its name.
    fn instruments(&self, topology: &Topology) -> Result<Instruments, Failure> {
        if self.bin == Duration::ZERO {
            return Err(Failure::usage("a bin is longer than 0: --bin 100us"));
        }
        let find = |wanted: &Wanted| -> Result<(usize, usize), Failure> {
            let mut names = Vec::new();
            for (number, link) in topology.links.iter().enumerate() {
                for side in [0, 1] {
                    let [from, to] = [side, 1 - side].map(|end| &topology.hosts[link.between[end]]);
                    let name = format!("{from} > {to}");
                    let emulated = link.settings.rate.is_some();
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
            |wanted: &Wanted| Ok((find(wanted)?, wanted.file().into(), Record::new(begin, self.bin)));
        let capture = |wanted: &Wanted| Ok((find(wanted)?, wanted.file().into()));
        Ok(Instruments {
            captures: self.pcap.iter().map(capture).collect::<Result<_, Failure>>()?,
            series: self.series.iter().map(record).collect::<Result<_, Failure>>()?,
        })
    }

    /// The host to run the program in.
    fn host(&self, topology: &Topology) -> Result<usize, Failure> {
        let Some(name) = &self.host else { return Ok(0) };
        let found = topology.hosts.iter().position(|host| host == name);
        found.ok_or_else(|| {
            let hosts = topology.hosts.iter().map(String::as_str);
            unknown("host", name, Span::default(), hosts).into()
        })
    }
}

/// Makes hosts and links, and gives them addresses and routes.
fn build(topology: &Topology, instruments: &Instruments, seed: Seed) -> lab::Result<Built> {
    let mut lab = Lab::new();
    let hosts: Vec<Host> = topology
        .hosts
        .iter()
        .map(|name| lab.host(name))
        .collect::<lab::Result<_>>()?;
    let mut interfaces: Vec<Vec<InterfaceView>> = hosts.iter().map(|_| Vec::new()).collect();
    for (number, link) in topology.links.iter().enumerate() {
        let names = link.between.map(|host| format!("eth{}", interfaces[host].len()));
        let [a, b] = link.between;
        join(
            &mut lab,
            [&hosts[a], &hosts[b]],
            &names,
            link,
            seed.fork(&number.to_string()),
            &|side, direction| instruments.on((number, side), direction),
        )?;
        // The reader of topologies allows 250 links.
        let addresses = addressing::of_link(number as u16);
        for (side, name) in names.into_iter().enumerate() {
            let host = link.between[side];
            for address in addresses[side] {
                hosts[host].address(&name, address)?;
            }
            interfaces[host].push(InterfaceView {
                name,
                addresses: addresses[side],
                to: topology.hosts[link.between[1 - side]].clone(),
            });
        }
    }
    for (host, interfaces) in hosts.iter().zip(&interfaces) {
        if interfaces.len() > 1 {
            host.forward()?;
        }
    }
    let ends: Vec<[usize; 2]> = topology.links.iter().map(|link| link.between).collect();
    for route in addressing::routes(hosts.len(), &ends) {
        hosts[route.host].route(route.to, route.by)?;
    }
    Ok(Built { lab, interfaces })
}

fn join(
    lab: &mut Lab,
    hosts: [&Host; 2],
    names: &[String; 2],
    link: &LinkConfig,
    seed: Seed,
    look: &dyn Fn(usize, Direction) -> Direction,
) -> lab::Result<()> {
    let (a, b) = ((hosts[0], names[0].as_str()), (hosts[1], names[1].as_str()));
    let Some(rate) = link.settings.rate else {
        return lab.veth(a, b);
    };
    let direction = |side: usize| {
        let seed = seed.fork(["forth", "back"][side]);
        let policy = link.policies[side].as_ref();
        look(side, direction(rate, &link.settings, policy, seed))
    };
    lab.link(a, b, direction(0), direction(1)).map(drop)
}

/// One direction of a link, ruled by a policy where there is one.
fn direction(rate: Bandwidth, settings: &LinkSettings, policy: Option<&Interface>, seed: Seed) -> Direction {
    let link = Link::new(rate).delay(settings.delay);
    let mut link = link.impaired(settings.loss, settings.jitter, seed);
    if let Some(buffer) = settings.buffer {
        link = link.buffer(buffer);
    }
    let Some(policy) = policy else {
        return link.into();
    };
    ruled(link, policy, seed)
}

/// One direction of a link that a policy rules: of the policy's bandwidth, which is at most the link's rate, so nothing would
/// wait behind it.
pub fn ruled(mut link: Link, policy: &Interface, seed: Seed) -> Direction {
    link.rate = policy.settings.bandwidth;
    let classifier = Classifier::new(policy.filters.iter().cloned(), seed);
    let default = policy.plan.default.unwrap_or(ClassId(0));
    let classify = ByFilters::new(classifier, default, seed);
    let direction = Direction::ruled(link, policy.plan.build(seed), Box::new(classify));
    direction.overhead(policy.settings.overhead)
}

impl Built {
    /// For the program: the first IPv4 address of each host, as SUIMON_ALICE.
    fn variables(&self) -> Vec<(String, String)> {
        let named = self.lab.hosts().iter().zip(&self.interfaces);
        let addressed = named.filter_map(|(host, interfaces)| {
            let name = host.name().to_uppercase().replace('-', "_");
            let first = interfaces.first()?;
            Some((format!("SUIMON_{name}"), first.addresses[0].ip.to_string()))
        });
        addressed.collect()
    }

    /// The command line that opens a shell in a host, from outside the lab.
    fn enter(&self, host: &Host) -> Vec<String> {
        let id = lab::isolation::id_outside();
        let mut command = vec!["nsenter".to_string()];
        if lab::isolation::in_user_namespace() {
            command.extend([
                "--preserve-credentials".into(),
                format!("--user=/proc/{id}/ns/user"),
            ]);
        }
        command.push(format!("--net=/proc/{id}/fd/{}", host.namespace().as_raw_fd()));
        command.push("bash".into());
        command
    }

    fn describe(&self, out: &mut dyn Write) -> std::io::Result<()> {
        for (host, interfaces) in self.lab.hosts().iter().zip(&self.interfaces) {
            writeln!(out, "{}", host.name())?;
            for InterfaceView { name, addresses, to } in interfaces {
                let [v4, v6] = addresses;
                writeln!(out, "    {name:<6} {v4:<16} {v6:<20} to {to}")?;
            }
            writeln!(out, "    enter: {}", self.enter(host).join(" "))?;
        }
        writeln!(out, "\nThe lab stands until Ctrl-C.")
    }

    fn to_json(&self) -> Value {
        let interface = |view: &InterfaceView| {
            json!({ "name": view.name, "to": view.to,
                    "addresses": view.addresses.map(|a| a.to_string()) })
        };
        let hosts = self
            .lab
            .hosts()
            .iter()
            .zip(&self.interfaces)
            .map(|(host, interfaces)| {
                let interfaces: Vec<Value> = interfaces.iter().map(interface).collect();
                json!({ "name": host.name(), "interfaces": interfaces, "enter": self.enter(host) })
            });
        json!({ "hosts": hosts.collect::<Vec<_>>() })
    }
}
