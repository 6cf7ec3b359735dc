//! Builds the workers with their ports and paths from a checked policy. No packet moves yet.
//!
//! Sockets are opened first and kernel programs attached last; until the worker's first turn the
//! kernel forwards by itself.

use crate::Error;
use crate::direction;
use crate::experience::{self, ExperienceReaders, WatchedLanes};
use crate::nat::{SeenBehind, seen_behind};
use crate::realise::{self, Chosen};
use crate::workers::{self, Groups, manages};
use control::policy::Policy;
use control::port_config::{PortConfig, Split};
use engine::units::{Bytes, Duration};
use netio::experience::Direction;
use netio::handle::Handle;
use netio::nat::{BehindNat, NatWatch};
use netio::pool::Slots;
use netio::port::Port;
use netio::ports::{self, GateOver, Lane, Opened, Opening};
use netio::worker::{PathId, PathSpec, PortId, Settings, Worker};
use std::sync::Arc;

/// Workers that are ready to run.
#[derive(Debug)]
pub struct Assembly {
    /// Move the packets.
    pub workers: Vec<Worker>,
    /// Sends commands and queries to them, as if they were one.
    pub handle: Handle,
    /// The path of each of the policy's interfaces, in their order.
    pub paths: Vec<PathId>,
    /// How traffic is forwarded without this process: for each port what follows "without suimon".
    pub without_us: Vec<String>,
    /// The realisers of pacing disciplines, human-readable.
    pub realised: Vec<String>,
    /// Reads what is measured of connections that pass.
    pub experience: ExperienceReaders,
    /// Hears of the connections of hosts behind this one, if any path is to see those.
    pub behind: Option<NatWatch>,
    /// Warnings: things that work, but perhaps not as expected.
    pub warnings: Vec<String>,
}

/// All ports of a policy, open, and the lanes between them.
#[derive(Default)]
pub(crate) struct Ports {
    ports: Vec<Box<dyn Port>>,
    lanes: Vec<Lane>,
    gates: Vec<GateOver>,
    without_us: Vec<String>,
    warnings: Vec<String>,
}

impl Ports {
    /// Adds one that has been opened. `name` tells it from others, if there are others.
    pub(crate) fn add(&mut self, opened: Opened, name: Option<String>) {
        let first = self.ports.len();
        self.ports.extend(opened.ports);
        let shifted = |lane: Lane| Lane {
            from: lane.from + first,
            to: lane.to + first,
            ..lane
        };
        self.lanes.extend(opened.lanes.into_iter().map(shifted));
        self.gates.extend(opened.gates.into_iter().map(|over| GateOver {
            ports: over.ports.start + first..over.ports.end + first,
            ..over
        }));
        let name = name.map_or_else(String::new, |name| format!(", {name}"));
        self.without_us.push(format!("{name}: {}", opened.without_us));
        self.warnings.extend(opened.warnings);
    }
}

/// Opens the ports, perhaps beside those of a program whose place is taken, and builds the paths.
///
/// # Errors
///
/// Returns an error if a port cannot be opened, a realiser cannot work there, there is no memory
/// for packets, or an interface of the policy is not one of the port's.
pub fn assemble(policy: &Policy, config: &PortConfig, takes_over: bool) -> Result<Assembly, Error> {
    assemble_with(policy, config, |config| open(config, takes_over))
}

/// The same, with ports that are opened so.
///
/// # Errors
///
/// As [`assemble`].
pub(crate) fn assemble_with(
    policy: &Policy,
    config: &PortConfig,
    open: impl FnOnce(&PortConfig) -> Result<Ports, Error>,
) -> Result<Assembly, Error> {
    let chosen: Vec<Option<Chosen>> = policy
        .interfaces
        .iter()
        .map(|interface| realise::choose(interface, config))
        .collect::<Result<_, _>>()?;
    let mut opened = open(config)?;
    let (mut realisers, mut realised) = (Vec::new(), Vec::new());
    for (interface, chosen) in policy.interfaces.iter().zip(chosen) {
        let lane = opened.lanes.iter().find(|lane| manages(lane, &interface.name));
        realisers.push(match chosen.zip(lane) {
            None => None,
            Some(((mut realiser, found), lane)) => {
                realise::attach(&interface.name, realiser.as_mut(), opened.ports[lane.to].as_mut())?;
                let how = realise::description(realiser.name());
                let found = found.map_or_else(String::new, |found| format!(": {found}"));
                realised.push(format!("{}: {how}{found}", interface.name));
                Some(realiser)
            }
        });
    }
    let clamped = workers::clamped(policy, &opened.ports, &opened.lanes);
    let per_direction = workers::is_per_direction(config.settings.workers);
    let groups = Groups::of(opened.ports.len(), &opened.lanes, &clamped, per_direction);
    let shared = groups.shared(&opened.lanes, &clamped, config);
    opened.warnings.extend(shared);
    let (watches, experience, blind) = experience::watches(policy, &opened.ports, &opened.lanes);
    opened.warnings.extend(blind);
    let (behind, unseen) = seen_behind(policy, &opened.lanes);
    opened.warnings.extend(unseen);
    let mut parts = parts(groups.count, config)?;
    let port = |(number, port): (usize, Box<dyn Port>)| parts[groups.of_port(number)].worker.add_port(port);
    let ports: Vec<PortId> = opened.ports.into_iter().enumerate().map(port).collect();
    let mut lanes = Vec::with_capacity(opened.lanes.len());
    for lane in &opened.lanes {
        let (from, to) = (ports[lane.from], ports[lane.to]);
        let mut interfaces = policy.interfaces.iter();
        let managed = interfaces.position(|interface| manages(lane, &interface.name));
        let spec = match managed {
            Some(index) => PathSpec {
                realiser: realisers[index].take(),
                ..direction::managed(&policy.interfaces[index], from, to)
            },
            None => direction::unmanaged(lane.interface.as_deref().unwrap_or_default(), from, to),
        };
        let part = groups.of_port(lane.from);
        let path = parts[part].worker.add_path(spec);
        lanes.push(LanePath { part, path, managed });
    }
    for pair in &clamped {
        let classes = pair.interface.yields.iter().map(|yields| yields.class.clone());
        let (data, back) = (&lanes[pair.data], &lanes[pair.back]);
        parts[data.part]
            .worker
            .clamp(data.path, back.path, classes.collect());
    }
    for WatchedLanes { watch, lanes: both } in watches {
        for (lane, direction) in both.into_iter().zip([Direction::There, Direction::Back]) {
            let LanePath { part, path, .. } = lanes[lane];
            let watch = Arc::clone(&watch);
            parts[part].worker.watch_experience(path, watch, direction);
        }
    }
    let behind = behind.map(|SeenBehind { watch, lanes: seen }| {
        for (lane, side) in seen {
            let LanePath { part, path, .. } = lanes[lane];
            let behind = BehindNat::new(watch.table(), side);
            parts[part].worker.look_behind(path, behind);
        }
        watch
    });
    for over in opened.gates {
        let part = &mut parts[groups.of_port(over.ports.start)];
        part.worker.set_gate(over.gate, &ports[over.ports]);
    }
    let (workers, handles): (Vec<Worker>, Vec<Handle>) =
        parts.into_iter().map(|part| (part.worker, part.handle)).unzip();
    Ok(Assembly {
        handle: Handle::joined(&workers, &handles),
        workers,
        paths: managed_paths(&lanes, policy.interfaces.len()).ok_or(Error::NotOfThePort)?,
        without_us: opened.without_us,
        realised,
        experience,
        behind,
        warnings: opened.warnings,
    })
}

/// A worker that is being built.
struct Part {
    worker: Worker,
    handle: Handle,
}

/// The path of a lane.
struct LanePath {
    /// Its worker.
    part: usize,
    /// Its number there.
    path: PathId,
    /// The policy's interface that manages it.
    managed: Option<usize>,
}

/// The path of each of the policy's interfaces, numbered one worker after the other as the joined
/// handle does; `None` if one has none.
fn managed_paths(lanes: &[LanePath], interfaces: usize) -> Option<Vec<PathId>> {
    let number = |lane: &LanePath| {
        let before = lanes.iter().filter(|other| other.part < lane.part).count();
        PathId(before + lane.path.0)
    };
    let of = |index| lanes.iter().rfind(|lane| lane.managed == Some(index)).map(number);
    (0..interfaces).map(of).collect()
}

/// So many workers, each with its part of the memory.
fn parts(count: usize, config: &PortConfig) -> Result<Vec<Part>, Error> {
    let settings = Settings {
        slots: Slots::within(Bytes::new(config.settings.memory.get() / count as u64)),
        guard: config.settings.spin,
        lateness: config.settings.lateness,
        realtime: config.settings.realtime,
        heartbeat: heartbeat(config.settings.fail_open_after),
        split_above: split_above(config.settings.split),
    };
    let part = |_| Worker::new(settings).map(|(worker, handle)| Part { worker, handle });
    (0..count)
        .map(part)
        .collect::<Result<_, _>>()
        .map_err(Error::Memory)
}

/// Short enough that one late beat is not taken for a hang.
fn heartbeat(limit: Duration) -> Duration {
    const BEATS: u64 = 8;
    Duration::from_nanos(limit.nanos() / BEATS)
}

fn split_above(split: Split) -> Duration {
    match split {
        Split::Auto => Settings::default().split_above,
        Split::Always => Duration::ZERO,
        Split::Never => Duration::from_nanos(u64::MAX),
    }
}

fn open(config: &PortConfig, takes_over: bool) -> Result<Ports, Error> {
    let opening = Opening {
        transmit_ring: config.settings.transmit_ring as usize,
        fail_open_after: config.settings.fail_open_after,
        by_direction: workers::is_per_direction(config.settings.workers),
        takes_over,
        own: &config.own,
    };
    let mut all = Ports::default();
    for attached in &config.attached {
        let kind = attached.kind.ok_or(Error::NoKindsOfPort)?;
        let opened = ports::open(kind, &attached.attachment, &opening)?;
        let name = (config.attached.len() > 1).then(|| attached.interfaces().join(" and "));
        all.add(opened, name);
    }
    Ok(all)
}
