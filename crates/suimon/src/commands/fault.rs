//! `suimon fault TARGET`: what runs already is behind a bad link for a time: a process, a
//! container, or an interface.
//!
//! The target is a network namespace and an interface in it; this process moves into the namespace,
//! and stays there. The fault ([`lab::fault`]) is proven before "applied" is said, and ends with
//! this process, however that ends.

use super::link_shape::LinkShape;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use engine::random::Seed;
use engine::units::Duration;
use gateway::facts;
use lab::fault::{FaultProof, WAYS};
use lab::{HeldSignals, Host, LinkFault};
use measure::numbers;
use netio::handle::WorkerSnapshot;
use netio::interface::Interface;
use scenario::behind;
use scenario::lab::Instruments;
use serde_json::json;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration as StdDuration, Instant as StdInstant};

/// Put a running process, a container or an interface behind a bad link for a time
#[derive(Debug, Args)]
#[command(
    after_help = "Faults of one target add up. Each ends with its process, also by kill -9, within a \
                        second. It needs root, Linux 6.6 and /dev/net/tun, and no module of the kernel."
)]
pub struct Fault {
    /// A process by its id, whose network namespace is meant; an interface here; or a container of
    /// docker or podman, also as container:NAME
    target: String,
    /// The interface in the namespace of the process or container; by default the only one
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// When it ends; by default by Ctrl-C
    #[arg(long = "for", value_name = "TIME")]
    lasts: Option<Duration>,
    /// The seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON, an object when it is applied and one when it has ended
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    link: LinkShape,
}

/// How often to look whether the target is still there.
const LOOK: StdDuration = StdDuration::from_millis(200);
/// How our own TAPs are called.
const OURS: &str = "suimon";
/// What comes back from a detour there has a source that the kernel takes for a forged one.
const LOOPBACK: &str = "lo";

/// What a target is.
enum Place {
    /// An interface of the namespace that we are in.
    Here,
    /// The namespace of this process, which is told so.
    Process(u32, String),
}

impl Fault {
    /// Applies it, proves it, and keeps it until its time is over, a signal comes or the target
    /// ends.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let said = self.link.said();
        if said.is_empty() {
            return Err(Failure::usage(
                "what is to be wrong with the link? Say --delay 100ms, --loss 1%, --rate 5Mbit/s or --link lte",
            ));
        }
        if self.target == LOOPBACK || self.interface.as_deref() == Some(LOOPBACK) {
            return Err(Failure::usage(
                "loopback stays as it is; a client of a server on this computer is behind a link by `suimon lab \
                 --listen PORT:localhost:PORT`",
            ));
        }
        let topology = self.link.topology(&[], cx.registry)?;
        let place = self.place()?;
        let held = HeldSignals::hold();
        let (interface, whose) = self.enter(&place)?;
        let instruments = Instruments::default();
        let ways = behind::directions(&topology, &instruments, Seed(self.seed))?;
        let fault = LinkFault::begin(&interface, ways)?;
        instruments.begin.set(netio::clock::now());
        let proof = fault.prove()?;
        self.applied(&whose, &interface, &said, &proof, cx.out)?;
        let why = self.last(&place, &fault, &held)?;
        let passed = fault.end();
        self.ended(&why, passed.as_ref(), cx.out)?;
        Ok(Exit::Done)
    }

    /// What the target is. Of a name, an interface comes before a container.
    fn place(&self) -> Result<Place, Failure> {
        let target = self.target.as_str();
        if let Some(container) = target.strip_prefix("container:") {
            return container_of(container).map(|id| Place::Process(id, format!("container {container}")));
        }
        if let Ok(id) = target.parse::<u32>() {
            return Ok(Place::Process(id, format!("process {id}")));
        }
        if Interface::named(target).is_ok() {
            return match &self.interface {
                None => Ok(Place::Here),
                Some(_) => Err(Failure::usage(format!(
                    "{target} is an interface; --interface belongs to a process or a container"
                ))),
            };
        }
        container_of(target).map(|id| Place::Process(id, format!("container {target}")))
    }

    /// Moves into the namespace; the interface, and whose it is.
    fn enter(&self, place: &Place) -> Result<(String, String), Failure> {
        let Place::Process(id, name) = place else {
            return Ok((self.target.clone(), "this computer".to_owned()));
        };
        let file = network_of(*id);
        let unread = |why: std::io::Error| match why.kind() {
            ErrorKind::NotFound => Failure::usage(format!("there is no process {id}")),
            ErrorKind::PermissionDenied => Failure::at_run_time(format!(
                "cannot look at the network of {name}: {why}; it needs root: run it by sudo"
            )),
            _ => Failure::at_run_time(format!("cannot look at the network of {name}: {why}")),
        };
        let namespace = File::open(&file).map_err(unread)?;
        let own = std::fs::metadata("/proc/self/ns/net").map_err(unread)?;
        let theirs = namespace.metadata().map_err(unread)?;
        if (own.dev(), own.ino()) == (theirs.dev(), theirs.ino()) {
            return Err(Failure::usage(format!(
                "{name} has no network of its own: everything here would be behind the link; name an interface \
                 ({}), or start the program by `suimon lab`",
                managed().join(", ")
            )));
        }
        let entered = Host::existing(name, namespace.into()).and_then(|host| host.enter());
        entered.map_err(|why| Failure::at_run_time(format!("{why}; it needs root: run it by sudo")))?;
        let all = managed();
        let interface = match (&self.interface, all.as_slice()) {
            (Some(interface), _) => interface.clone(),
            (None, [only]) => only.clone(),
            (None, []) => {
                return Err(Failure::usage(format!(
                    "{name} has no interface but loopback, which stays as it is"
                )));
            }
            (None, several) => {
                return Err(Failure::usage(format!(
                    "{name} has several interfaces: choose one by --interface: {}",
                    several.join(", ")
                )));
            }
        };
        Ok((interface, name.clone()))
    }

    /// Waits until it is to end; why it does.
    fn last(&self, place: &Place, fault: &LinkFault, held: &HeldSignals) -> Result<String, Failure> {
        let begin = StdInstant::now();
        let lasts = self.lasts.map(|time| StdDuration::from_nanos(time.nanos()));
        loop {
            let left = lasts.map(|lasts| lasts.saturating_sub(begin.elapsed()));
            if left == Some(StdDuration::ZERO) {
                return Ok("its time is over".to_owned());
            }
            if held.told_to_end(left.map_or(LOOK, |left| left.min(LOOK))) {
                return Ok("a signal came".to_owned());
            }
            if let Place::Process(id, name) = place
                && !network_of(*id).exists()
            {
                return Ok(format!("{name} has ended"));
            }
            let trouble = fault.inspect()?.ports.iter().find_map(|port| port.trouble());
            if let Some(trouble) = trouble {
                return Err(Failure::at_run_time(format!("the fault is gone: {trouble}")));
            }
        }
    }

    fn applied(
        &self,
        whose: &str,
        interface: &str,
        said: &str,
        proof: &[FaultProof; 2],
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if self.json {
            let way = |proof: &FaultProof| {
                let times = proof.took.map(|took| took.map(Duration::nanos));
                json!({ "probes": proof.probes, "came": proof.came, "took_ns": times })
            };
            let applied = json!({ "of": whose, "interface": interface, "link": said,
                WAYS[0]: way(&proof[0]), WAYS[1]: way(&proof[1]) });
            writeln!(out, "{}", json!({ "applied": applied }))?;
        } else {
            let lasts = match self.lasts {
                Some(time) => format!("for {time}"),
                None => "until Ctrl-C".to_owned(),
            };
            writeln!(
                out,
                "applied to {interface} of {whose}: {said}, each way, {lasts}"
            )?;
            for (way, FaultProof { probes, came, took }) in WAYS.iter().zip(proof) {
                let times = took.map(|[least, most]| {
                    let [least, most] = [least, most].map(|time| numbers::time(time.nanos()));
                    format!(", after {least} to {most}")
                });
                writeln!(
                    out,
                    "    {way:<9} {came} of {probes} probes came{}",
                    times.unwrap_or_default()
                )?;
            }
        }
        Ok(out.flush()?)
    }

    fn ended(&self, why: &str, passed: Option<&WorkerSnapshot>, out: &mut dyn Write) -> Result<(), Failure> {
        let ways = passed.map(|passed| {
            [0, 1].map(|way| {
                let totals = &passed.paths[way].totals;
                (totals.offered.packets, totals.dropped.packets)
            })
        });
        if self.json {
            let ways =
                ways.map(|ways| ways.map(|(packets, lost)| json!({ "packets": packets, "lost": lost })));
            let [received, sent] = ways.unwrap_or_default();
            writeln!(
                out,
                "{}",
                json!({ "ended": { "why": why, WAYS[0]: received, WAYS[1]: sent } })
            )?;
        } else {
            writeln!(out, "ended: {why}")?;
            for (way, (packets, lost)) in WAYS.iter().zip(ways.into_iter().flatten()) {
                writeln!(
                    out,
                    "    {way:<9} {packets} packets, {lost} lost, the probes among them"
                )?;
            }
        }
        Ok(())
    }
}

fn network_of(process: u32) -> PathBuf {
    format!("/proc/{process}/ns/net").into()
}

/// The interfaces with Ethernet headers here that are up, without TAPs of ours.
fn managed() -> Vec<String> {
    let usable = |name: &String| {
        !name.starts_with(OURS)
            && name != LOOPBACK
            && Interface::named(name).is_ok_and(|found| found.ethernet && found.up)
    };
    facts::names().into_iter().filter(usable).collect()
}

/// The first process of a container of docker or podman.
fn container_of(name: &str) -> Result<u32, Failure> {
    let mut said = Vec::new();
    for program in ["docker", "podman"] {
        let asked = Command::new(program)
            .args([
                "inspect",
                "--type",
                "container",
                "--format",
                "{{.State.Pid}}",
                name,
            ])
            .output();
        let answer = match asked {
            Err(why) if why.kind() == ErrorKind::NotFound => continue,
            Err(why) => return Err(Failure::at_run_time(format!("cannot run {program}: {why}"))),
            Ok(answer) => answer,
        };
        let text = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        match (answer.status.success(), text.parse()) {
            (true, Ok(0)) => return Err(Failure::usage(format!("container {name} does not run"))),
            (true, Ok(id)) => return Ok(id),
            _ => said.push(format!(
                "{program}: {}",
                String::from_utf8_lossy(&answer.stderr).trim()
            )),
        }
    }
    let asked = match said.is_empty() {
        true => "neither docker nor podman is here".to_owned(),
        false => said.join("; "),
    };
    Err(Failure::usage(format!(
        "there is no interface {name} ({}), and no such container: {asked}",
        managed().join(", ")
    )))
}
