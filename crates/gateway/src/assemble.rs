//! From a checked policy to a worker with its ports and paths, nothing moving yet.
//!
//! Sockets are opened first and kernel programs attached last; until the worker's first turn the
//! kernel goes on by itself.

use crate::Error;
use crate::direction;
use crate::realise::{self, Chosen};
use control::policy::Policy;
use control::port_config::{PortConfig, Split};
use engine::units::Duration;
use netio::handle::Handle;
use netio::ports::{self, Lane, Opened, Opening};
use netio::worker::{PathId, Settings, Worker};

/// A worker that is ready to run.
#[derive(Debug)]
pub struct Assembly {
    /// Moves the packets.
    pub worker: Worker,
    /// By which it is asked.
    pub handle: Handle,
    /// The path of each of the policy's interfaces, in their order.
    pub paths: Vec<PathId>,
    /// How traffic goes on without us, human-readable.
    pub without_us: String,
    /// What makes the times of pacing disciplines come true, human-readable.
    pub realised: Vec<String>,
    /// What works and may surprise.
    pub warnings: Vec<String>,
}

/// Whether what this interface's policy rules takes this lane.
fn rules(lane: &Lane, interface: &str) -> bool {
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
        let lane = opened.lanes.iter().find(|lane| rules(lane, &interface.name));
        realisers.push(match chosen.zip(lane) {
            None => None,
            Some(((mut realiser, found), lane)) => {
                realise::attach(&interface.name, realiser.as_mut(), opened.ports[lane.to].as_mut())?;
                let how = realise::words(realiser.name());
                let found = found.map_or_else(String::new, |found| format!(": {found}"));
                realised.push(format!("{}: {how}{found}", interface.name));
                Some(realiser)
            }
        });
    }
    let settings = Settings {
        guard: config.settings.spin,
        realtime: config.settings.realtime,
        heartbeat: heartbeat(config.settings.fail_open_after),
        split_above: split_above(config.settings.split),
        ..Settings::default()
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
            .position(|interface| rules(lane, &interface.name))
        {
            Some(place) => {
                let mut path = direction::managed(&policy.interfaces[place], from, to);
                path.realiser = realisers[place].take();
                let id = worker.add_path(path);
                paths[place] = Some(id);
                lanes.push(id);
            }
            None => {
                let name = lane.interface.as_deref().unwrap_or_default();
                lanes.push(worker.add_path(direction::unmanaged(name, from, to)));
            }
        }
    }
    hold(&mut worker, policy, &opened.lanes, &lanes);
    if let Some(gate) = opened.gate {
        worker.set_gate(gate);
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

/// Lets the worker hold the connections of classes that yield, where acknowledgments come back
/// through it.
fn hold(worker: &mut Worker, policy: &Policy, lanes: &[Lane], paths: &[PathId]) {
    for interface in policy
        .interfaces
        .iter()
        .filter(|interface| !interface.yields.is_empty())
    {
        let data = lanes.iter().position(|lane| rules(lane, &interface.name));
        let back = data.and_then(|data| {
            let turned = |lane: &Lane| lane.from == lanes[data].to && lane.to == lanes[data].from;
            lanes.iter().position(|lane| turned(lane) && lane.from != lane.to)
        });
        if let Some((data, back)) = data.zip(back) {
            let classes = interface.yields.iter().map(|yields| yields.class.clone());
            worker.hold(paths[data], paths[back], classes.collect());
        }
    }
}

/// Often enough that a beat that comes late is not yet a hang.
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

fn open(config: &PortConfig) -> Result<Opened, Error> {
    let opening = Opening {
        transmit_ring: config.settings.transmit_ring as usize,
        fail_open_after: config.settings.fail_open_after,
        own: &config.own,
    };
    Ok(ports::open(
        config.kind.ok_or(Error::NoKindsOfPort)?,
        &config.attachment,
        &opening,
    )?)
}
