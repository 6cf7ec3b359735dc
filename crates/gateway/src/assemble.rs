//! Builds a worker with its ports and paths from a checked policy. No packet moves yet.
//!
//! Sockets are opened first and kernel programs attached last; until the worker's first turn the
//! kernel forwards by itself.

use crate::Error;
use crate::direction;
use crate::realise::{self, Chosen};
use control::policy::Policy;
use control::port_config::{PortConfig, Split};
use engine::units::Duration;
use netio::handle::Handle;
use netio::pool::Slots;
use netio::port::Port;
use netio::ports::{self, Lane, Opened, Opening};
use netio::worker::{Gate, PathId, Settings, Worker};
use std::ops::Range;

/// A worker that is ready to run.
#[derive(Debug)]
pub struct Assembly {
    /// Moves the packets.
    pub worker: Worker,
    /// Sends commands and queries to the worker.
    pub handle: Handle,
    /// The path of each of the policy's interfaces, in their order.
    pub paths: Vec<PathId>,
    /// How traffic is forwarded without this process: for each port what follows "without suimon".
    pub without_us: Vec<String>,
    /// The realisers of pacing disciplines, human-readable.
    pub realised: Vec<String>,
    /// Warnings: things that work, but perhaps not as expected.
    pub warnings: Vec<String>,
}

/// All ports of a policy, open, and the lanes between them.
#[derive(Default)]
struct Ports {
    ports: Vec<Box<dyn Port>>,
    lanes: Vec<Lane>,
    gates: Vec<GateOver>,
    without_us: Vec<String>,
    warnings: Vec<String>,
}

/// A gate, and the ports that it covers.
struct GateOver {
    gate: Box<dyn Gate>,
    ports: Range<usize>,
}

impl Ports {
    /// Adds one that has been opened. `name` tells it from others, if there are others.
    fn add(&mut self, opened: Opened, name: Option<String>) {
        let first = self.ports.len();
        self.ports.extend(opened.ports);
        let ports = first..self.ports.len();
        let shifted = |lane: Lane| Lane {
            from: lane.from + first,
            to: lane.to + first,
            ..lane
        };
        self.lanes.extend(opened.lanes.into_iter().map(shifted));
        let gate = opened.gate.map(|gate| GateOver { gate, ports });
        self.gates.extend(gate);
        let name = name.map_or_else(String::new, |name| format!(", {name}"));
        self.without_us.push(format!("{name}: {}", opened.without_us));
        self.warnings.extend(opened.warnings);
    }
}

/// Whether the traffic that this interface's policy manages takes this lane.
fn manages(lane: &Lane, interface: &str) -> bool {
    lane.interface.as_ref().is_none_or(|name| name == interface)
}

/// Opens the ports and builds the paths.
///
/// # Errors
///
/// Returns an error if a port cannot be opened, a realiser cannot work there, there is no memory
/// for packets, or an interface of the policy is not one of the port's.
pub fn assemble(policy: &Policy, config: &PortConfig) -> Result<Assembly, Error> {
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
    let settings = Settings {
        slots: Slots::within(config.settings.memory),
        guard: config.settings.spin,
        realtime: config.settings.realtime,
        heartbeat: heartbeat(config.settings.fail_open_after),
        split_above: split_above(config.settings.split),
    };
    let room = Error::Memory;
    let (mut worker, handle) = Worker::new(settings).map_err(room)?;
    let ids: Vec<_> = opened
        .ports
        .into_iter()
        .map(|port| worker.add_port(port))
        .collect();
    let mut paths = vec![None; policy.interfaces.len()];
    let mut lanes = Vec::with_capacity(opened.lanes.len());
    for lane in &opened.lanes {
        let (from, to) = (ids[lane.from], ids[lane.to]);
        match policy
            .interfaces
            .iter()
            .position(|interface| manages(lane, &interface.name))
        {
            Some(index) => {
                let mut path = direction::managed(&policy.interfaces[index], from, to);
                path.realiser = realisers[index].take();
                let id = worker.add_path(path);
                paths[index] = Some(id);
                lanes.push(id);
            }
            None => {
                let name = lane.interface.as_deref().unwrap_or_default();
                lanes.push(worker.add_path(direction::unmanaged(name, from, to)));
            }
        }
    }
    clamp_connections(&mut worker, policy, &opened.lanes, &lanes);
    for GateOver { gate, ports } in opened.gates {
        worker.set_gate(gate, &ids[ports]);
    }
    let paths: Option<Vec<PathId>> = paths.into_iter().collect();
    Ok(Assembly {
        worker,
        handle,
        paths: paths.ok_or(Error::NotOfThePort)?,
        without_us: opened.without_us,
        realised,
        warnings: opened.warnings,
    })
}

/// Makes the worker clamp the connections of yielding classes if their ACKs return through it.
fn clamp_connections(worker: &mut Worker, policy: &Policy, lanes: &[Lane], paths: &[PathId]) {
    for interface in policy
        .interfaces
        .iter()
        .filter(|interface| !interface.yields.is_empty())
    {
        let data = lanes.iter().position(|lane| manages(lane, &interface.name));
        let back = data.and_then(|data| {
            let turned = |lane: &Lane| lane.from == lanes[data].to && lane.to == lanes[data].from;
            lanes.iter().position(|lane| turned(lane) && lane.from != lane.to)
        });
        if let Some((data, back)) = data.zip(back) {
            let classes = interface.yields.iter().map(|yields| yields.class.clone());
            worker.clamp(paths[data], paths[back], classes.collect());
        }
    }
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

fn open(config: &PortConfig) -> Result<Ports, Error> {
    let opening = Opening {
        transmit_ring: config.settings.transmit_ring as usize,
        fail_open_after: config.settings.fail_open_after,
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
