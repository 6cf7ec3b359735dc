//! The program: begun from its disk and its policy's file, polled, asked, ended and cut off. All of
//! it is the program's own functions; what is simulated is around them.

use super::kernel::{Cell, Frames, NAMES, Socket, leaves_by, locked};
use super::machine::World;
use super::signalling::{ROUTER, wire};
use crate::assemble::{Assembly, Ports, assemble_with};
use crate::changes::PolicyChanges;
use crate::enforce::{Watched, names_of, put_in_force, settle, watching, with_places};
use crate::enforced::{Enforcement, Looker};
use crate::in_force::InForce;
use crate::kept::{Kept, MadeOf};
use crate::service::ControlService;
use crate::signalling::handle::SpeakerHandle;
use crate::state_folder::failing::Power;
use crate::supervise::{POLL_INTERVAL, Watchman};
use crate::workers::is_per_direction;
use crate::yielding::Yielding;
use control::difference::Difference;
use control::policy::Policy;
use control::port_config::PortConfig;
use control::socket::Handler;
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use netio::fail_open::{Heart, Pulse};
use netio::handle::{Handle, WorkerSnapshot};
use netio::ports::{GateOver, Lane, Opened};
use netio::time::{CallerTime, SimulatedTime};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A program that runs.
pub(super) struct Program {
    handle: Handle,
    pub(super) in_force: Arc<InForce>,
    pub(super) changes: Arc<PolicyChanges>,
    pub(super) service: Arc<ControlService>,
    pub(super) speaker: Option<SpeakerHandle>,
    watched: Watched,
    watchman: Watchman,
    since_poll: Duration,
    law: Yielding,
    /// When the law is run next, unless it has ended.
    law_turns: Instant,
}

/// The machine, the disk, and the program on it.
pub(super) struct Router {
    pub(super) world: Arc<World>,
    pub(super) disk: Power,
    pub(super) file: PathBuf,
    registry: Registry,
    /// Bytes for frames.
    memory: u64,
    pub(super) program: Option<Program>,
}

fn opened(world: &World, config: &PortConfig, copies: bool) -> Result<Ports, crate::Error> {
    let kernel = Arc::clone(&world.machine().kernel);
    let limit = config.settings.fail_open_after;
    let cell = |number| -> Arc<dyn Heart> {
        Arc::new(Cell {
            kernel: Arc::clone(&kernel),
            number,
            limit,
        })
    };
    let port = |number, receives| Socket::open(&kernel, number, receives).map(|port| Box::new(port) as _);
    let lane = |from, to, number: usize| Lane {
        from,
        to,
        interface: Some(NAMES[number].into()),
    };
    let gate = |numbers: &[usize], ports| GateOver {
        gate: Box::new(Pulse::new(
            numbers.iter().map(|number| cell(*number)).collect(),
            copies,
        )),
        ports,
    };
    let (ports, lanes, gates) = match is_per_direction(config.settings.workers) {
        true => (
            vec![port(0, true)?, port(1, false)?, port(1, true)?, port(0, false)?],
            vec![lane(0, 1, 1), lane(2, 3, 0)],
            vec![gate(&[0], 0..2), gate(&[1], 2..4)],
        ),
        false => (
            vec![port(0, true)?, port(1, true)?],
            vec![lane(0, 1, 1), lane(1, 0, 0)],
            vec![gate(&[0, 1], 0..2)],
        ),
    };
    let mut all = Ports::default();
    let (without_us, warnings) = (String::new(), Vec::new());
    let opened = Opened {
        ports,
        lanes,
        gates,
        without_us,
        warnings,
    };
    all.add(opened, None);
    Ok(all)
}

impl Router {
    pub(super) fn new(world: Arc<World>, file: &Path, memory: u64) -> Self {
        Self {
            world,
            disk: Power::default(),
            file: file.into(),
            registry: Registry::builtin(),
            memory,
            program: None,
        }
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The policy of a text.
    pub(super) fn read(&self, made_of: &MadeOf) -> Result<Policy, String> {
        made_of.policy(&self.registry, &netio::ports::declared(), false)
    }

    /// Begins, as `suimon run FILE --state FOLDER` does.
    pub(super) fn begin(&mut self, copies: bool) -> Result<(), String> {
        let text = std::fs::read_to_string(&self.file).map_err(|why| why.to_string())?;
        let file = self.file.display().to_string();
        let begun = Kept::begin_in(Box::new(self.disk.clone()), &file, &text, self.world.now_ms());
        let (kept, made_of, _) = begun.map_err(|why| why.to_string())?;
        let policy = self.read(&made_of)?;
        let mut config = policy.port.clone().ok_or("a port")?;
        // Less than a policy may have: so that it runs out.
        config.settings.memory = Bytes::new(self.memory);
        let config = &config;
        locked(&self.world.machine().kernel).begun();
        wire(&self.world.wire).errors.clear();
        let running = with_places(&policy, &self.registry);
        let world = Arc::clone(&self.world);
        let assembled = assemble_with(&running, config, |config| opened(&world, config, copies));
        let Assembly {
            workers,
            handle,
            paths,
            ..
        } = assembled.map_err(|why| why.to_string())?;
        let time: Arc<dyn SimulatedTime> = world.clone();
        let handle = handle.in_time(CallerTime::simulated(time));
        let (managed, in_force) = put_in_force(&policy, running, paths, &handle, &self.registry);
        world.machine().begin(workers);
        let rsvp = policy.rsvp.clone();
        let speaker = rsvp.map(|rsvp| world.stations.begin_router(&world, rsvp, &in_force));
        let speaker = speaker.transpose().map_err(|why| why.to_string())?;
        let rsvp = speaker.clone();
        let law = Yielding::new(&handle, &managed);
        let changes = PolicyChanges::new(Arc::clone(&in_force), rsvp.clone(), &policy, Some(kept), made_of);
        let changes = Arc::new(changes.map_err(|why| why.to_string())?);
        let service = ControlService::new(
            "simulated",
            handle.clone(),
            Arc::clone(&in_force),
            Arc::clone(&changes),
            rsvp,
            law.gauges(),
            Arc::default(),
        );
        let kernel = Arc::clone(&world.machine().kernel);
        let looker = Looker::by(move |name| locked(&kernel).standing(name));
        let enforcement = Enforcement::looking(looker, config, names_of(&policy));
        let (service, watched) = watching(service, enforcement);
        self.program = Some(Program {
            handle,
            in_force,
            changes,
            service,
            speaker,
            watched,
            watchman: Watchman::default(),
            since_poll: Duration::ZERO,
            law_turns: match law.has_none() {
                true => Instant::NEVER,
                false => world.now_here(),
            },
            law,
        });
        Ok(())
    }

    /// Time passes, in which the program polls.
    pub(super) fn run(&mut self, span: Duration, stopped: bool) {
        let every = Duration::from_nanos(POLL_INTERVAL.as_nanos() as u64);
        let mut left = span;
        while left > Duration::ZERO {
            let Some(program) = self.program.as_mut().filter(|_| !stopped) else {
                self.world.stations.stopped.store(stopped, Ordering::Relaxed);
                self.world.run(left);
                self.world.stations.stopped.store(false, Ordering::Relaxed);
                return;
            };
            let begun = self.world.now_here();
            let law = program.law_turns.since(begun);
            self.world.run(left.min(every - program.since_poll).min(law));
            if self.world.now_here() >= program.law_turns {
                program.turn_law(&self.world);
            }
            // Where a law waits for a worker, time passes.
            let took = self.world.now_here().since(begun);
            left -= took.min(left);
            program.since_poll = every.min(program.since_poll + took);
            if program.since_poll >= every {
                program.since_poll = Duration::ZERO;
                program.poll();
            }
        }
    }

    /// The program is cut off: nothing of it is left but what the disk has.
    pub(super) fn crash(&mut self, at_once: bool) {
        self.program = None;
        self.world.stations.cut_off(ROUTER);
        let mut machine = self.world.machine();
        let alive = locked(&machine.kernel).alive();
        machine.end();
        // The programs in the kernel go at once, or find that the heart beats no more.
        locked(&machine.kernel).crashed(if at_once { None } else { Some(alive) });
    }

    /// An orderly end. The last snapshots.
    pub(super) fn end(&mut self) -> Result<Vec<WorkerSnapshot>, String> {
        let Some(program) = self.program.take() else {
            return Ok(Vec::new());
        };
        program.handle.stop();
        for _ in 0..2_000 {
            self.world.machine().wake_all();
            self.world.run(Duration::from_millis(1));
            if self.world.machine().has_ended() {
                break;
            }
        }
        if !self.world.machine().has_ended() {
            return Err("the workers do not end".into());
        }
        if let Some(speaker) = &program.speaker {
            speaker.stop();
            self.world.run(Duration::from_millis(1));
            if !self.world.stations.has_ended(ROUTER) {
                return Err("the node that speaks RSVP does not end".into());
            }
        }
        let mut machine = self.world.machine();
        let last = machine.last();
        drop(machine);
        if let Some(whole) = WorkerSnapshot::joined(last.clone()) {
            program.service.end_quotas(&whole);
        }
        // Not writing that it has ended is told, and counts as cut off.
        let _ = program.changes.ended();
        self.world.machine().end();
        Ok(last)
    }

    /// Counts of the workers that contradict what the kernel has given and got, and how many
    /// packets are held.
    pub(super) fn accounts(&self) -> (Vec<String>, u64) {
        let shown = self.world.machine().show();
        shown.map_or_else(Default::default, |shown| accounts(&shown, &self.world))
    }

    /// Segments of connections that their hosts have got.
    pub(super) fn segments(&self) -> u64 {
        let machine = self.world.machine();
        machine.connections.as_ref().map_or(0, |all| all.received)
    }

    pub(super) fn frames(&self) -> Frames {
        locked(&self.world.machine().kernel).frames
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // They have the machine, which has them.
        self.world.stations.cut_all_off();
    }
}

impl Program {
    fn turn_law(&mut self, world: &World) {
        // What it sets is in force before it has heard so.
        let turned = |at| locked(&world.machine().kernel).law_turned = at;
        let begun = world.now_here();
        turned(begun);
        let next = self.law.turn();
        let now = world.now_here();
        turned(now);
        self.law_turns = next.map_or(Instant::NEVER, |next| now.max(begun + next));
    }

    /// The law does not run before.
    pub(super) fn hold_law_up(&mut self, until: Instant) {
        if self.law_turns != Instant::NEVER {
            self.law_turns = self.law_turns.max(until);
        }
    }

    fn poll(&mut self) {
        let Self {
            handle,
            in_force,
            changes,
            service,
            watched,
            watchman,
            ..
        } = self;
        let mut watch = |snapshot: &WorkerSnapshot| {
            watched.look(service, in_force, handle, snapshot);
            Ok(())
        };
        let _ = watchman.poll(handle, &mut watch, &mut || settle(changes, service));
    }

    /// What contradicts what is said to be in force: in the workers, or in words.
    pub(super) fn contradictions(
        &self,
        router_reads: impl Fn(&MadeOf) -> Result<Policy, String>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        match self.in_force.unlike() {
            Ok(unlike) => found.extend(unlike.into_values().flatten()),
            Err(why) => found.push(why.to_string()),
        }
        match router_reads(&self.changes.standing().0) {
            Err(why) => found.push(format!("what is in force cannot be read: {why}")),
            Ok(said) => {
                for managed in self.in_force.all() {
                    let name = &managed.policy.name;
                    let Some(said) = said.interface(name) else {
                        found.push(format!("{name} is not in what is in force"));
                        continue;
                    };
                    found.extend(Difference::of(&managed.policy, said).changes);
                }
            }
        }
        found
    }

    /// Why the policies of interfaces are not enforced, by interface.
    pub(super) fn not_enforced(&self) -> Result<[Option<String>; 2], String> {
        let reading = self.service.read().map_err(|why| why.message)?;
        let mut why = [None, None];
        for interface in reading.interfaces {
            why[leaves_by(&interface.policy.name)] = interface.not_enforced;
        }
        Ok(why)
    }
}

/// What in a snapshot contradicts the ledger, and how many packets are held. To be called before
/// time passes.
pub(super) fn accounts(snapshot: &WorkerSnapshot, world: &World) -> (Vec<String>, u64) {
    let kernel = Arc::clone(&world.machine().kernel);
    let mut kernel = locked(&kernel);
    let (mut found, mut held) = (Vec::new(), 0);
    for path in &snapshot.paths {
        let number = leaves_by(&path.name);
        let (moved, totals) = (kernel.moved[number], path.totals);
        let unsent = snapshot.ports.get(path.to.0).map_or(0, |port| port.unsent as u64);
        let gone = moved.handed + moved.failed + unsent;
        if totals.offered.packets != moved.taken {
            found.push(format!(
                "{}: {} taken, {} offered",
                path.name, moved.taken, totals.offered.packets
            ));
        }
        if totals.sent.packets != gone {
            found.push(format!(
                "{}: {gone} handed over, {} sent",
                path.name, totals.sent.packets
            ));
        }
        let reasons: u64 = totals.reasons.iter().sum();
        if reasons != totals.dropped.packets {
            found.push(format!(
                "{}: {reasons} reasons for {} drops",
                path.name, totals.dropped.packets
            ));
        }
        let backlog = totals.backlog().packets;
        if backlog == 0 {
            kernel.is_idle(number);
        }
        held += backlog + unsent;
    }
    let used: u32 = snapshot.pool.iter().map(|usage| usage.used).sum();
    if u64::from(used) != held {
        found.push(format!("{used} slots are used for {held} packets"));
    }
    (found, held)
}
