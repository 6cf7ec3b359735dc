//! Which worker carries which direction.
//!
//! One worker carries everything, or each direction has its own. Ports that a lane connects are of
//! one worker. So are both directions of an interface whose connections yield: acknowledgments are
//! clamped by what the other direction has seen.

use control::policy::{InterfacePolicy, Policy};
use control::port_config::{AttachedPort, PortConfig, Workers};
use engine::port_kind::opposite;
use netio::port::Port;
use netio::ports::Lane;
use std::thread::available_parallelism;

/// From so many processors on each direction has its own worker, unless the policy says otherwise:
/// the kernel's part of the work needs some too.
const PROCESSORS: usize = 4;

/// Whether each direction is to have its own worker.
pub(crate) fn is_per_direction(workers: Workers) -> bool {
    match workers {
        Workers::One => false,
        Workers::PerDirection => true,
        Workers::Auto => available_parallelism().is_ok_and(|count| count.get() >= PROCESSORS),
    }
}

/// How many parts the memory for frames has at most.
pub(crate) fn parts(config: &PortConfig) -> u64 {
    let directions = |port: &AttachedPort| port.interfaces().len().max(1) as u64;
    match is_per_direction(config.settings.workers) {
        true => config.attached.iter().map(directions).sum(),
        false => 1,
    }
}

/// Whether the traffic that this interface's policy manages takes this lane.
pub(crate) fn manages(lane: &Lane, interface: &str) -> bool {
    lane.interface.as_ref().is_none_or(|name| name == interface)
}

/// The lanes of an interface whose connections yield: that of its data, and that of the
/// acknowledgments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clamped<'a> {
    pub(crate) interface: &'a InterfacePolicy,
    pub(crate) data: usize,
    pub(crate) back: usize,
}

/// The lane of an interface's traffic, and that of the other direction.
pub(crate) fn both_ways(interface: &str, ports: &[Box<dyn Port>], lanes: &[Lane]) -> Option<[usize; 2]> {
    let ends = |lane: &Lane| [ports[lane.from].name(), ports[lane.to].name()];
    let data = lanes.iter().position(|lane| manages(lane, interface))?;
    let [from, to] = ends(&lanes[data]);
    // Between two interfaces, or the other direction of one.
    let other = opposite(interface);
    let back = lanes.iter().position(|lane| match from == to {
        true => lane.interface.as_deref() == Some(&*other),
        false => ends(lane) == [to, from],
    })?;
    Some([data, back])
}

/// Every interface whose connections can be clamped.
pub(crate) fn clamped<'a>(policy: &'a Policy, ports: &[Box<dyn Port>], lanes: &[Lane]) -> Vec<Clamped<'a>> {
    let yielding = policy.interfaces.iter().filter(|one| !one.yields.is_empty());
    let find = |interface: &'a InterfacePolicy| {
        let [data, back] = both_ways(&interface.name, ports, lanes)?;
        Some(Clamped {
            interface,
            data,
            back,
        })
    };
    yielding.filter_map(find).collect()
}

/// The worker of each port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Groups {
    of_port: Vec<usize>,
    /// How many workers there are.
    pub(crate) count: usize,
}

impl Groups {
    /// The worker of each of so many ports. `per_direction`: see [`is_per_direction`].
    pub(crate) fn of(ports: usize, lanes: &[Lane], clamped: &[Clamped<'_>], per_direction: bool) -> Self {
        let mut of_port: Vec<usize> = (0..ports)
            .map(|port| if per_direction { port } else { 0 })
            .collect();
        let mut join = |a: usize, b: usize| {
            let (old, new) = (of_port[a].max(of_port[b]), of_port[a].min(of_port[b]));
            of_port
                .iter_mut()
                .filter(|group| **group == old)
                .for_each(|group| *group = new);
        };
        lanes.iter().for_each(|lane| join(lane.from, lane.to));
        clamped
            .iter()
            .for_each(|pair| join(lanes[pair.data].from, lanes[pair.back].from));
        let mut groups = of_port.clone();
        groups.sort_unstable();
        groups.dedup();
        let number = |group: &usize| groups.binary_search(group).unwrap_or_default();
        Self {
            of_port: of_port.iter().map(number).collect(),
            count: groups.len().max(1),
        }
    }

    /// The worker of this port.
    pub(crate) fn of_port(&self, port: usize) -> usize {
        self.of_port[port]
    }

    /// Why directions share a worker although the policy asks for one each.
    pub(crate) fn shared(&self, lanes: &[Lane], clamped: &[Clamped<'_>], config: &PortConfig) -> Vec<String> {
        if config.settings.workers != Workers::PerDirection {
            return Vec::new();
        }
        let shares = |index: usize| {
            let lane = &lanes[index];
            let first = lanes[..index]
                .iter()
                .position(|other| self.of_port[other.from] == self.of_port[lane.from])?;
            let names = [&lanes[first], lane].map(|lane| lane.interface.clone().unwrap_or_default());
            let yields = clamped.iter().any(|pair| [pair.data, pair.back].contains(&index));
            let why = match yields {
                true => "classes yield there".to_owned(),
                false => {
                    let port = config.of_interface(&names[1]);
                    let kind = port.map_or("the port", |port| port.kind_name());
                    format!("{kind} sends and receives by the same memory")
                }
            };
            let [a, b] = names;
            Some(format!("{a} and {b} share a worker: {why}"))
        };
        (1..lanes.len()).filter_map(shares).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(from: usize, to: usize) -> Lane {
        Lane {
            from,
            to,
            interface: None,
        }
    }

    #[test]
    fn ports_that_a_lane_connects_have_one_worker() {
        let bump = [lane(0, 1), lane(1, 0)];
        assert_eq!(Groups::of(2, &bump, &[], true).of_port, [0, 0]);
        let apart = [lane(0, 1), lane(2, 3), lane(4, 4)];
        let groups = Groups::of(5, &apart, &[], true);
        assert_eq!((&groups.of_port[..], groups.count), (&[0, 0, 1, 1, 2][..], 3));
        assert_eq!(Groups::of(5, &apart, &[], false).count, 1);
    }
}
