//! Enforces a checked policy on real interfaces, from the first check of them to the end.

use crate::Error;
use crate::assemble::{Assembly, assemble};
use crate::autorate::{self, AutorateGauges, Prober};
use crate::changes::PolicyChanges;
use crate::claim::Claim;
use crate::confined::{self, Sandbox};
use crate::direction::secret_seed;
use crate::enforced::Enforcement;
use crate::expected::Expected;
use crate::facts::{self, Facts};
use crate::heir::Heir;
use crate::in_force::InForce;
use crate::kept::{Kept, MadeOf};
use crate::memory;
use crate::selfcheck::{self, ManagedDirection};
use crate::service::ControlService;
use crate::service_manager;
use crate::signalling::beacon::Beacon;
use crate::signalling::key_file::KeyFile;
use crate::signalling::speaker::{self, Setup};
use crate::supervise::{HangUpSignal, RunningWorker, handle_signals, supervise};
use crate::vacancies;
use crate::yielding::{self, YieldGauges};
use confine::{Confinement, Role};
use control::difference::{Applied, Breaking};
use control::policy::{InterfacePolicy, Policy};
use control::port_config::{AttachedPort, PortConfig};
use control::provenance::Provenance;
use control::socket::{Handler, Server, path_of};
use engine::discipline::Reason;
use engine::port_kind::{Attachment, device};
use engine::queue::Count;
use engine::tree::Registry;
use netio::beside::ThreadBeside;
use netio::handle::{Aside, Handle, PortView, WorkerSnapshot};
use netio::inspection::Detail;
use netio::nat::NatWatch;
use netio::worker::{PathId, Worker};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Where a policy comes from.
#[derive(Debug, Default)]
pub struct Origin<'a> {
    /// The file that it was read from, if from one: SIGHUP has it read again.
    pub file: Option<&'a Path>,
    /// Where its generations are kept, if on disk.
    pub state: Option<Kept>,
    /// What it was made of.
    pub made_of: MadeOf,
    /// Whether it gives up rights once all is open.
    pub sandbox: Sandbox,
    /// The program whose place is taken, if one runs.
    pub heir: Option<Heir>,
}

/// Puts a policy into force until a signal or a client ends it. Changes are
/// checked with the kinds of `registry`. `watch` gets a snapshot without classes twice a second.
/// What happens is logged.
///
/// # Errors
///
/// Returns an error if the policy has no usable port, something that it needs cannot be set up, or
/// the packet loop panics.
pub fn enforce(
    policy: &Policy,
    registry: &Registry,
    origin: Origin<'_>,
    name: &str,
    socket: &str,
    watch: &mut dyn FnMut(&WorkerSnapshot) -> io::Result<()>,
) -> Result<(), Error> {
    let config = policy.port.as_ref().ok_or(Error::NoPort)?;
    let warnings = warnings_of(policy, registry, config, origin.state.is_some())?;
    let keys = policy.rsvp.as_ref().map(KeyFile::of).transpose();
    let keys = keys.map_err(Error::Keys)?.flatten();
    let takes_over = origin.heir.is_some();
    // What another program has, it has until it ends.
    let claim = (!takes_over).then(|| Claim::on(&config.devices())).transpose();
    let claim = claim.map_err(Error::Claimed)?;
    let socket = path_of(socket);
    let state = origin.state.as_ref().and_then(|state| state.path.as_deref());
    let confinement = confined::of(origin.sandbox, origin.file, state, policy.rsvp.as_ref(), &socket)?;
    let rsvp = policy.rsvp.as_ref();
    let beacon = rsvp.map(|rsvp| Beacon::announce(&socket, &rsvp.interfaces));
    let _beacon = beacon.transpose().map_err(Error::Beacon)?;
    let end = Arc::new(AtomicBool::new(false));
    handle_signals(&end).map_err(Error::Signals)?;
    let hang_up = HangUpSignal::handled().map_err(Error::Signals)?;
    // What reading the policy took, before as much is taken for what runs.
    netio::heap::give_back();
    let running = with_places(policy, registry);
    let assembly = assemble(&running, config, takes_over)?;
    introduce(policy, config, &assembly);
    let Assembly {
        mut workers,
        handle,
        paths,
        warnings: surprises,
        experience,
        behind,
        ..
    } = assembly;
    let (managed, in_force) = put_in_force(policy, running, paths, &handle, registry);
    let probers = autorate::open(&managed, config).map_err(Error::Probes)?;
    // All is open, and no thread has started: what is given up now, none of them has.
    let unconfined = confinement.enter(Role::Program);
    let lacking = unconfined.iter();
    for warning in warnings.iter().chain(&surprises).chain(lacking) {
        tracing::warn!("{warning}");
    }
    let Origin {
        file,
        state,
        made_of,
        sandbox,
        mut heir,
    } = origin;
    if let Some(heir) = &mut heir {
        let packets = heir.take_place(&mut workers)?;
        tracing::info!("took over, with {packets} packets that waited");
    }
    let workers = start_workers(workers, &handle, &confinement)?;
    // Only now: it installs its first tree, which needs a running worker.
    let speaker = confinement.within(Role::Rsvp, || start_speaker(policy, keys, &in_force));
    let speaker = speaker.inspect_err(|_| handle.stop())?;
    let table = behind.as_ref().map(NatWatch::table);
    let laws = start_laws(&managed, probers, behind, &in_force, &handle, &confinement);
    let laws = laws.map_err(Error::Thread).inspect_err(|_| handle.stop())?;
    let rsvp = speaker.as_ref().map(|(handle, _)| handle.clone());
    let changes = PolicyChanges::new(Arc::clone(&in_force), rsvp.clone(), policy, state, made_of);
    let changes = Arc::new(changes.map_err(Error::State).inspect_err(|_| handle.stop())?);
    let (own, detach) = (Arc::clone(&changes), Arc::clone(&end));
    let (yielding, following) = (laws.yielding.clone(), laws.following.clone());
    let service = ControlService::new(
        name,
        handle.clone(),
        Arc::clone(&in_force),
        own,
        rsvp,
        yielding,
        detach,
    );
    let service = service.begun(file, sandbox).unconfined(unconfined);
    let service = service.connections(experience, table).following(following);
    let (service, watched) = watching(service, Enforcement::new(config, names_of(policy)));
    let program = Program {
        handle,
        in_force,
        changes,
        service,
        watched,
    };
    let (_claim, workers) = match heir {
        None => (claim, workers),
        Some(heir) => program.succeed(heir, workers, config)?,
    };
    let server = serve(&socket, Arc::clone(&program.service), &confinement);
    let server = server.inspect_err(|_| program.handle.stop())?;
    runs(name, &server);
    let reload = || match file.filter(|_| !hang_up.terminal_is_gone()) {
        None => end.store(true, Ordering::Relaxed),
        Some(file) => reload(&program.changes, &program.service, file),
    };
    let last = program.supervise(workers, &end, &|| hang_up.came().then(reload), watch)?;
    program.end(speaker, last)
}

/// All is in force, and asked at this socket.
fn runs(name: &str, server: &Server) {
    // What checking and building took.
    netio::heap::give_back();
    let at = server.path().display();
    tracing::info!(socket = %at, "running; control socket {at}");
    service_manager::runs(name);
}

/// What is to be known before anything is opened; refuses what cannot work.
fn warnings_of(
    policy: &Policy,
    registry: &Registry,
    config: &PortConfig,
    is_kept: bool,
) -> Result<Vec<String>, Error> {
    let mut warnings = check_interfaces(policy, config)?;
    let memory = memory::warnings(policy, registry);
    warnings.extend(memory.into_iter().map(|problem| problem.message));
    warnings.extend(forgotten(policy, is_kept));
    Ok(warnings)
}

/// All of a program that runs, but for its workers.
struct Program {
    handle: Handle,
    in_force: Arc<InForce>,
    changes: Arc<PolicyChanges>,
    service: Arc<ControlService>,
    watched: Watched,
}

impl Program {
    /// Looks whether all that was taken over has effect; then the former program ends, and this one
    /// has what was that one's alone. If it has not, all that was taken over leaves first, and the
    /// former program goes on.
    fn succeed(
        &self,
        mut heir: Heir,
        workers: Vec<RunningWorker>,
        config: &PortConfig,
    ) -> Result<(Option<Claim>, Vec<RunningWorker>), Error> {
        let mut not_so = Vec::new();
        for _ in 0..LOOKS {
            std::thread::sleep(BETWEEN_LOOKS);
            if let Ok(snapshot) = self.handle.inspect_to(Detail::Paths) {
                self.look(&snapshot);
            }
            not_so = self.service.verify();
            not_so.retain(|line| !heir.had(line));
        }
        let ended = match not_so.is_empty() {
            true => heir.end_former(),
            false => Err(Error::HandOver(not_so.join("; "))),
        };
        if let Err(why) = ended {
            self.handle.stop();
            workers.into_iter().for_each(|worker| drop(worker.join()));
            return Err(why);
        }
        let claim = once_free(|| Claim::on(&config.devices())).map_err(Error::Claimed)?;
        once_free(|| self.changes.own_folder()).map_err(Error::State)?;
        Ok((Some(claim), workers))
    }

    fn look(&self, snapshot: &WorkerSnapshot) {
        self.watched
            .look(&self.service, &self.in_force, &self.handle, snapshot);
    }

    /// Supervises the workers until the end. `hangs_up` does what SIGHUP asks for, if it came.
    fn supervise(
        &self,
        workers: Vec<RunningWorker>,
        end: &AtomicBool,
        hangs_up: &dyn Fn() -> Option<()>,
        watch: &mut dyn FnMut(&WorkerSnapshot) -> io::Result<()>,
    ) -> Result<WorkerSnapshot, Error> {
        let mut each = || {
            hangs_up();
            settle(&self.changes, &self.service);
        };
        let mut watch = |snapshot: &WorkerSnapshot| {
            service_manager::lives();
            let is_anothers = |port: &PortView| port.aside == Some(Aside::HandedOver);
            if !snapshot.ports.iter().any(is_anothers) {
                self.look(snapshot);
            }
            watch(snapshot)
        };
        supervise(&self.handle, workers, end, &mut watch, &mut each)
    }

    /// Ends in order; or another program goes on.
    fn end(self, speaker: Option<RunningSpeaker>, last: WorkerSnapshot) -> Result<(), Error> {
        if let Some(process) = self.service.taken_by() {
            tracing::info!("process {process} goes on in its place");
            return Ok(());
        }
        service_manager::ends();
        if let Some((speaker, thread)) = speaker {
            speaker.stop();
            let _ = thread.join();
        }
        self.service.end_quotas(&last);
        farewell(&last);
        self.changes.ended().map_err(Error::State)
    }
}

/// Takes what the former program has had: that it has ended is seen a moment before all of it is
/// free.
fn once_free<T, E>(mut take: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    const TRIES: usize = 200;
    for _ in 0..TRIES {
        if let Ok(taken) = take() {
            return Ok(taken);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    take()
}

/// How often it is looked whether what was taken over has effect, and what is between two looks.
const LOOKS: usize = 3;
const BETWEEN_LOOKS: std::time::Duration = std::time::Duration::from_millis(250);

/// The interfaces of a policy, each with the worker's path, and what is in force on them: what the
/// workers run there.
pub(crate) fn put_in_force(
    policy: &Policy,
    running: Policy,
    paths: Vec<PathId>,
    handle: &Handle,
    registry: &Registry,
) -> (Vec<(PathId, InterfacePolicy)>, Arc<InForce>) {
    let managed: Vec<_> = paths.into_iter().zip(policy.interfaces.iter().cloned()).collect();
    let wholes = managed.iter().cloned().zip(running.interfaces);
    let in_force = InForce::running(handle.clone(), registry.clone(), wholes);
    (managed, Arc::new(in_force))
}

pub(crate) fn names_of(policy: &Policy) -> impl Iterator<Item = &str> {
    policy.interfaces.iter().map(|interface| interface.name.as_str())
}

/// What is looked at again and again: whether what runs has effect, and keeps what it is expected
/// to.
#[derive(Debug)]
pub(crate) struct Watched {
    enforcement: Arc<Enforcement>,
    expected: Arc<Expected>,
}

impl Watched {
    /// Looks again, a moment after this snapshot.
    pub(crate) fn look(
        &self,
        service: &ControlService,
        in_force: &InForce,
        handle: &Handle,
        snapshot: &WorkerSnapshot,
    ) {
        // First, since it compares the snapshot with counters that are read now.
        look(&self.enforcement, in_force, handle, snapshot);
        let now = handle.time().now();
        self.expected
            .look(now, &in_force.expectations(), || service.read().ok());
        service.look_at_quotas();
    }
}

/// The service, and what it is told by whoever watches.
pub(crate) fn watching(service: ControlService, enforcement: Enforcement) -> (Arc<ControlService>, Watched) {
    let watched = Watched {
        enforcement: Arc::new(enforcement),
        expected: Arc::default(),
    };
    let Watched {
        enforcement,
        expected,
    } = &watched;
    let service = service.watching(Arc::clone(enforcement), Arc::clone(expected));
    (Arc::new(service), watched)
}

/// Looks whether what runs is enforced.
fn look(enforcement: &Enforcement, in_force: &InForce, handle: &Handle, snapshot: &WorkerSnapshot) {
    enforcement.look(
        |name| handed_over(in_force, snapshot, name),
        |name| handed_over(in_force, &handle.inspect_to(Detail::Paths).ok()?, name),
        snapshot.turns.lapses,
    );
}

/// What the path of this interface has handed over to it, as the interface counts: without the
/// policy's framing. Where that pads, or cuts into cells, this is at most as much more as it does.
fn handed_over(in_force: &InForce, snapshot: &WorkerSnapshot, name: &str) -> Option<Count> {
    let all = in_force.all();
    let managed = all.iter().find(|managed| managed.policy.name == name)?;
    // Gap frames are the realiser's, which does not count them there.
    let fills_gaps = managed
        .whole
        .plan
        .root
        .plan
        .pacing()
        .is_some_and(|pacing| pacing.frames);
    let sent = snapshot
        .paths
        .get(managed.path.0)
        .filter(|_| !fills_gaps)?
        .totals
        .sent;
    let framing = managed.policy.link().framing;
    Some(Count {
        bytes: framing.frames_within(sent.bytes, sent.packets),
        ..sent
    })
}

/// Does what is due by itself, and looks whether what is in force then runs.
pub(crate) fn settle(changes: &PolicyChanges, service: &ControlService) {
    match changes.settle() {
        Some(Ok(done)) => {
            tracing::info!("{done}");
            service.verify();
        }
        Some(Err(why)) => tracing::error!("{why}"),
        None => {}
    }
}

/// Puts the file into force as it is now.
fn reload(changes: &PolicyChanges, service: &ControlService, file: &Path) {
    service_manager::reloads();
    let done = changes.apply(file, None, Breaking::Refused, Provenance::default(), &|| false);
    service_manager::reloaded();
    match done {
        Ok(done) => {
            let Applied { message, difference } = service.verified_file(done);
            let effects = difference.effects();
            let lines = effects.iter().chain([&message]);
            lines.for_each(|line| tracing::info!("{line}"));
        }
        Err(why) => tracing::error!("the policy stays as it is: {why}"),
    }
}

/// Warns of quotas that the next start counts anew, since nothing is kept on disk.
fn forgotten(policy: &Policy, is_kept: bool) -> Option<String> {
    let mut quotas = policy.interfaces.iter().flat_map(|one| one.quotas.iter());
    let quota = quotas.next().filter(|_| !is_kept)?;
    Some(format!(
        "what `{}` has used of its quota is forgotten when suimon ends: `--state FOLDER` keeps it",
        quota.class
    ))
}

/// Starts the control socket, whose threads have the role of those that answer.
fn serve(socket: &Path, service: Arc<ControlService>, confinement: &Confinement) -> Result<Server, Error> {
    let server = confinement.within(Role::Control, || Server::start(socket, service));
    server.map_err(|why| Error::Socket {
        path: socket.into(),
        why,
    })
}

/// Starts a thread for each worker.
fn start_workers(
    workers: Vec<Worker>,
    handle: &Handle,
    confinement: &Confinement,
) -> Result<Vec<RunningWorker>, Error> {
    let start = |worker: Worker| {
        let (thread, confinement) = (std::thread::Builder::new(), confinement.clone());
        let run = move || {
            // What the kernel lacks was told for the program.
            let _ = confinement.enter(Role::DataPlane);
            worker.run()
        };
        thread.name("worker".into()).spawn(run).map_err(Error::Thread)
    };
    let started: Result<_, _> = workers.into_iter().map(start).collect();
    started.inspect_err(|_| handle.stop())
}

/// The threads beside the workers, of control laws and of who hears of connections, which end with
/// this, and what they show.
struct Laws {
    _threads: [Option<ThreadBeside>; 3],
    yielding: YieldGauges,
    following: AutorateGauges,
}

/// Starts those that the policy has.
fn start_laws(
    managed: &[(PathId, InterfacePolicy)],
    probers: Vec<Prober>,
    behind: Option<NatWatch>,
    in_force: &Arc<InForce>,
    handle: &Handle,
    confinement: &Confinement,
) -> io::Result<Laws> {
    let (yields, yielding) = confinement.within(Role::Law, || yielding::start(handle, managed))?;
    let paths: Vec<PathId> = managed.iter().map(|(path, _)| *path).collect();
    let follow = || autorate::start(probers, handle, in_force, paths);
    let (follows, following) = confinement.within(Role::Probe, follow)?;
    let hears = |watch: NatWatch| confinement.within(Role::Connections, || watch.start());
    let hears = behind.map(hears).transpose()?;
    Ok(Laws {
        _threads: [yields, follows, hears],
        yielding,
        following,
    })
}

/// The handle of the RSVP node, and its thread.
type RunningSpeaker = (speaker::SpeakerHandle, JoinHandle<()>);

/// Starts the RSVP node, if the policy has one.
fn start_speaker(
    policy: &Policy,
    keys: Option<KeyFile>,
    in_force: &Arc<InForce>,
) -> Result<Option<RunningSpeaker>, Error> {
    let Some(rsvp) = &policy.rsvp else { return Ok(None) };
    let setup = Setup {
        config: rsvp.clone(),
        everywhere: false,
        keys,
        trees: Box::new(Arc::clone(in_force)),
        seed: secret_seed(),
        log: Box::new(|line| tracing::info!("rsvp: {line}")),
    };
    speaker::start(setup).map(Some).map_err(Error::Speaker)
}

/// What the workers run of a policy.
pub(crate) fn with_places(policy: &Policy, registry: &Registry) -> Policy {
    let interfaces = policy.interfaces.iter();
    Policy {
        interfaces: interfaces
            .map(|policy| vacancies::laid_out(policy, registry))
            .collect(),
        ..policy.clone()
    }
}

/// Checks the interfaces. Returns warnings; refuses what cannot work.
fn check_interfaces(policy: &Policy, config: &PortConfig) -> Result<Vec<String>, Error> {
    // Ports without a wire (files, a TAP) have no interface, or none before they are opened.
    let wired = config.attached.iter().filter(|port| port.has_wire());
    let between: Vec<(&str, &str)> = wired
        .filter_map(|port| match &port.attachment {
            Attachment::Between(a, b) => Some((a.as_str(), b.as_str())),
            Attachment::Egress(_) | Attachment::Ingress(_) | Attachment::Files { .. } => None,
        })
        .collect();
    let is_there = |interface: &&InterfacePolicy| {
        let port = config.of_interface(&interface.name);
        port.is_some_and(|port| port.has_wire() || matches!(port.attachment, Attachment::Ingress(_)))
    };
    let managed = |interface: &'_ InterfacePolicy| {
        let settings = &interface.settings;
        (interface.name.clone(), settings.bandwidth, settings.max_frame)
    };
    let managed: Vec<_> = policy.interfaces.iter().filter(is_there).map(managed).collect();
    let managed: Vec<ManagedDirection<'_>> = managed
        .iter()
        .map(|(interface, bandwidth, max_frame)| ManagedDirection {
            interface: device(interface),
            bandwidth: *bandwidth,
            max_frame: *max_frame,
        })
        .collect();
    let outcome = selfcheck::check(&Facts::of, &facts::names(), &between, &managed);
    match outcome.mistakes.is_empty() {
        true => Ok(outcome.warnings),
        false => Err(Error::Unsuitable(outcome.mistakes)),
    }
}

/// Logs what is enforced, and where.
fn introduce(policy: &Policy, config: &PortConfig, assembly: &Assembly) {
    let names = config.interfaces();
    for interface in &policy.interfaces {
        let settings = &interface.settings;
        let port = config.of_interface(&interface.name);
        let from = port.map_or_else(String::new, |port| origin(port, &interface.name));
        tracing::info!(
            interface = interface.name,
            "{}: at most {} ({}) with {}: {} classes, {} filters; {from}",
            interface.name,
            settings.bandwidth,
            interface.link().framing,
            interface.spec.kind,
            interface.plan.classes.len(),
            interface.filters.len(),
        );
    }
    for name in names
        .iter()
        .filter(|name| policy.interface(name).is_none() && names.len() > 1)
    {
        tracing::info!(
            interface = name,
            "{name}: not managed; what takes it passes in order"
        );
    }
    if let Some(rsvp) = &policy.rsvp {
        let of = |interface: &&InterfacePolicy| interface.reserve.is_some();
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
        tracing::info!("RSVP on {}; reservable: {what}", rsvp.interfaces.join(", "));
    }
    let without_us = assembly.without_us.iter();
    without_us.for_each(|what| tracing::info!("without suimon{what}"));
    let realised = assembly.realised.iter();
    realised.for_each(|line| tracing::info!("{line}"));
}

/// Where the packets come from that leave through an interface of this port.
fn origin(port: &AttachedPort, interface: &str) -> String {
    let kind = port.kind_name();
    match &port.attachment {
        Attachment::Between(a, b) if *b == interface => format!("from {a}, by {kind}"),
        Attachment::Between(_, b) => format!("from {b}, by {kind}"),
        Attachment::Egress(_) => "the traffic that this host sends".into(),
        Attachment::Ingress(_) => "the traffic that this host receives".into(),
        Attachment::Files { read, write } => format!("from {read} to {write}"),
    }
}

/// Logs the totals at the end.
fn farewell(last: &WorkerSnapshot) {
    for path in &last.paths {
        let totals = &path.totals;
        let (sent, dropped) = (totals.sent.packets, totals.dropped.packets);
        let given_up = match totals.dropped_for(Reason::Flushed) {
            0 => String::new(),
            n => format!(", {n} of them at the end"),
        };
        tracing::info!(
            interface = path.name,
            "{}: detached; sent {sent} packets, dropped {dropped}{given_up}",
            path.name
        );
    }
    let unsent: usize = last.ports.iter().map(|port| port.unsent).sum();
    if unsent > 0 {
        tracing::info!("{unsent} of these packets were still with an interface, and are dropped");
    }
    if last.turns.lapses > 0 {
        let times = match last.turns.lapses {
            1 => "once".into(),
            n => format!("{n} times"),
        };
        tracing::warn!("the kernel took over {times}, since the loop was delayed for too long");
    }
}
