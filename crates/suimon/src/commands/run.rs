//! `suimon run`: a policy on real interfaces, until it is told to end.

use crate::daemon::assemble::{Assembly, assemble};
use crate::daemon::claim::Claim;
use crate::daemon::direction::secret_seed;
use crate::daemon::facts::{self, Facts};
use crate::daemon::in_force::InForce;
use crate::daemon::selfcheck::{self, Managed};
use crate::daemon::service::Service;
use crate::daemon::supervise::{heed_signals, supervise};
use crate::daemon::yielding;
use crate::exit::{Exit, Failure};
use crate::signalling::alone;
use crate::signalling::beacon::Beacon;
use crate::signalling::protection::KeyFile;
use crate::signalling::speaker::{self, Setup};
use crate::source;
use clap::Args;
use control::policy::{Interface, Policy};
use control::port_config::{Place, PortConfig, PortKind, XdpMode};
use control::socket::{Server, path_of};
use engine::tree::Registry;
use engine::units::Bytes;
use netio::handle::Snapshot;
use plot::colour;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

/// Put a policy into force on real interfaces, until SIGINT, SIGTERM or `suimon detach`
#[derive(Debug, Args)]
pub struct Run {
    /// The policy, a TOML file (see `suimon check`); `-` reads standard input
    policy: String,
    /// Name or path of the control socket; the policy file's name if not given
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
}

impl Run {
    /// Runs it.
    pub fn run(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let policy = self.read()?;
        let name = self.name();
        let socket = self.socket.as_deref().unwrap_or(&name);
        enforce(&policy, &name, socket, out, &mut |_, _| Ok(()))
    }

    fn read(&self) -> Result<Policy, Failure> {
        let path = self.policy.as_str();
        let text = source::load("policy", path)?;
        let colour = colour::wanted(&io::stderr());
        let policy = Policy::read(path, &text, &Registry::builtin()).map_err(|findings| {
            Failure::usage(format!("{path} is not in force:\n{}", findings.render(colour)))
        })?;
        if !policy.warnings.is_empty() {
            eprint!("{}", policy.warnings.render(colour));
        }
        Ok(policy)
    }

    /// The policy's name: its file's, without the ending.
    fn name(&self) -> String {
        match Path::new(&self.policy).file_stem() {
            Some(stem) if self.policy != "-" => stem.to_string_lossy().into_owned(),
            _ => "policy".into(),
        }
    }
}

/// Puts a policy into force until it is told to end. `watch` is shown what is to be seen twice a second.
pub fn enforce(
    policy: &Policy,
    name: &str,
    socket: &str,
    out: &mut dyn Write,
    watch: &mut dyn FnMut(&Snapshot, &mut dyn Write) -> io::Result<()>,
) -> Result<Exit, Failure> {
    let missing = || Failure::usage("the policy has no [port] section, which says between which interfaces");
    let config = policy.port.as_ref().ok_or_else(missing)?;
    let warnings = look(policy, config)?;
    let keys = policy.rsvp.as_ref().map(KeyFile::of).transpose();
    let keys = keys.map_err(Failure::usage)?.flatten();
    let _claim = Claim::on(&config.interfaces()).map_err(Failure::at_run_time)?;
    let socket = path_of(socket);
    let beacon = policy.rsvp.as_ref().map(|_| Beacon::light(&socket)).transpose();
    let _beacon = beacon.map_err(Failure::at_run_time)?;
    let end = Arc::new(AtomicBool::new(false));
    heed_signals(&end).map_err(|e| Failure::at_run_time(format!("cannot heed signals: {e}")))?;
    let Assembly {
        worker,
        handle,
        paths,
        without_us,
        realised,
    } = assemble(policy, config)?;
    let managed: Vec<_> = paths.into_iter().zip(policy.interfaces.iter().cloned()).collect();
    let in_force = Arc::new(InForce::new(handle.clone(), managed.clone()));
    introduce(out, policy, config, &without_us)?;
    for line in realised {
        writeln!(out, "{line}")?;
    }
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let worker = std::thread::Builder::new()
        .name("worker".into())
        .spawn(move || worker.run())
        .map_err(|e| Failure::at_run_time(format!("cannot start the packet loop: {e}")))?;
    // Only now: it puts its first tree into force, which takes a worker that answers.
    let speaker = speak(policy, keys, &in_force).inspect_err(|_| handle.stop())?;
    let (_yields, yielding) = yielding::start(&handle, &managed).inspect_err(|_| handle.stop())?;
    let asked = speaker.as_ref().map(|(asked, _)| asked.clone());
    let service = Service::new(name, handle.clone(), in_force, asked, yielding, Arc::clone(&end));
    let server = Server::start(&socket, Arc::new(service)).map_err(|e| {
        handle.stop();
        Failure::at_run_time(format!(
            "cannot serve the control socket {}: {e}",
            socket.display()
        ))
    })?;
    writeln!(out, "running; control socket {}", server.path().display())?;
    out.flush()?;
    let last = supervise(&handle, worker, &end, out, watch)?;
    if let Some((speaker, thread)) = speaker {
        speaker.stop();
        let _ = thread.join();
    }
    farewell(out, &last)?;
    Ok(Exit::Done)
}

/// Who asks the node, and its thread.
type Speaking = (speaker::Handle, JoinHandle<()>);

/// Starts to speak RSVP, if the policy says so.
fn speak(
    policy: &Policy,
    keys: Option<KeyFile>,
    in_force: &Arc<InForce>,
) -> Result<Option<Speaking>, Failure> {
    let Some(rsvp) = &policy.rsvp else { return Ok(None) };
    let setup = Setup {
        config: rsvp.clone(),
        everywhere: false,
        keys,
        trees: Box::new(Arc::clone(in_force)),
        seed: secret_seed(),
        log: Box::new(|line| eprintln!("rsvp: {line}")),
    };
    speaker::start(setup)
        .map(Some)
        .map_err(|e| alone::cannot_speak(&e))
}

/// Looks at the interfaces; what will not hold is warned of, what cannot work is refused.
fn look(policy: &Policy, config: &PortConfig) -> Result<Vec<String>, Failure> {
    let between = match &config.place {
        Place::Between(a, b) => Some((a.as_str(), b.as_str())),
        Place::Egress(_) | Place::Files { .. } => None,
    };
    // A TAP is made when it is opened, and files are no interfaces.
    if matches!(config.kind, PortKind::Tap | PortKind::Pcap) {
        return Ok(Vec::new());
    }
    let managed = |interface: &'_ Interface| {
        let settings = &interface.settings;
        (interface.name.clone(), settings.bandwidth, settings.max_frame)
    };
    let managed: Vec<_> = policy.interfaces.iter().map(managed).collect();
    let managed: Vec<Managed<'_>> = managed
        .iter()
        .map(|(interface, bandwidth, max_frame)| Managed {
            interface,
            bandwidth: *bandwidth,
            max_frame: *max_frame,
        })
        .collect();
    let mut outcome = selfcheck::check(&Facts::of, &facts::names(), between, &managed);
    if config.settings.xdp_mode == XdpMode::Generic && config.kind == PortKind::AfXdp {
        outcome.warnings.push(
            "in generic mode super-frames are lost: switch them off at the senders, `ethtool -K IF tso off gso off`, \
             or use af_packet"
                .into(),
        );
    }
    match outcome.mistakes.is_empty() {
        true => Ok(outcome.warnings),
        false => Err(Failure::usage(outcome.mistakes.join("; "))),
    }
}

/// Says what is going to be enforced, and where.
fn introduce(out: &mut dyn Write, policy: &Policy, config: &PortConfig, without_us: &str) -> io::Result<()> {
    let names = config.interfaces();
    let kind = config.kind.name();
    for interface in &policy.interfaces {
        let settings = &interface.settings;
        let from = match &config.place {
            Place::Between(a, b) if *b == interface.name => format!("from {a}, by {kind}"),
            Place::Between(_, b) => format!("from {b}, by {kind}"),
            Place::Egress(_) => "what this host sends".into(),
            Place::Files { read, write } => format!("from {read} to {write}"),
        };
        writeln!(
            out,
            "{}: at most {} ({}) by {}: {} classes, {} filters; {from}",
            interface.name,
            settings.bandwidth,
            basis(settings.overhead),
            interface.spec.kind,
            interface.plan.classes.len(),
            interface.filters.len(),
        )?;
    }
    for name in names
        .iter()
        .filter(|name| policy.interface(name).is_none() && names.len() > 1)
    {
        writeln!(out, "{name}: not managed; what leaves by it passes in order")?;
    }
    if let Some(rsvp) = &policy.rsvp {
        let of = |interface: &&Interface| interface.reserve.is_some();
        let reservable: Vec<String> = policy
            .interfaces
            .iter()
            .filter(of)
            .filter_map(|interface| {
                Some(format!(
                    "{} of {}",
                    interface.reserve.as_ref()?.room.capacity(),
                    interface.name
                ))
            })
            .collect();
        let what = if reservable.is_empty() {
            "nothing".into()
        } else {
            reservable.join(", ")
        };
        writeln!(out, "RSVP on {}; reservable: {what}", rsvp.interfaces.join(", "))?;
    }
    writeln!(out, "without suimon: {without_us}")
}

/// What lengths and rates count.
fn basis(overhead: Bytes) -> String {
    if overhead == Bytes::ZERO {
        "frames".into()
    } else {
        format!("frames and {overhead} each")
    }
}

/// What was done.
fn farewell(out: &mut dyn Write, last: &Snapshot) -> io::Result<()> {
    for path in &last.paths {
        let totals = &path.totals;
        let (sent, dropped) = (totals.sent.packets, totals.dropped.packets);
        writeln!(
            out,
            "{}: detached; sent {sent} packets, dropped {dropped}",
            path.name
        )?;
    }
    if last.turns.lapses > 0 {
        let times = match last.turns.lapses {
            1 => "once".into(),
            n => format!("{n} times"),
        };
        writeln!(
            out,
            "the kernel took over {times}, since the loop was held up for too long"
        )?;
    }
    Ok(())
}
