//! From a checked policy to a worker with its ports and paths, nothing moving yet.
//!
//! Sockets are opened first and kernel programs attached last; until the worker's first turn the kernel goes
//! on by itself.

use crate::Error;
use crate::direction;
use crate::realise::{self, Chosen};
use control::policy::Policy;
use control::port_config::{Place, PortConfig, PortKind, PortSettings, Split, XdpMode};
use engine::units::Duration;
use netio::af_packet::{self, AfPacket};
use netio::af_xdp::{self, AfXdp, Mode};
use netio::bpf::{Attached, Means};
use netio::egress::Egress;
use netio::fail_open::{self, Capture};
use netio::handle::Handle;
use netio::pcap::{Pace, Pcap};
use netio::port::Port;
use netio::tap::Tap;
use netio::worker::{Gate, PathId, Settings, Worker};
use std::path::Path;

/// A worker that is ready to run.
#[derive(Debug)]
pub struct Assembly {
    /// Moves the packets.
    pub worker: Worker,
    /// By which it is asked.
    pub handle: Handle,
    /// The path of each of the policy's interfaces, in their order.
    pub paths: Vec<PathId>,
    /// How traffic goes on without us, for people.
    pub without_us: String,
    /// What makes the times of pacing disciplines come true, for people.
    pub realised: Vec<String>,
}

/// Open ports, and which way packets go.
struct Opened {
    ports: Vec<Box<dyn Port>>,
    ways: Vec<Way>,
    gate: Option<Box<dyn Gate>>,
    without_us: String,
}

/// One direction: from a port, to a port (by their places in the list), and the interface by which packets
/// leave.
struct Way {
    from: usize,
    to: usize,
    interface: Option<String>,
}

impl Way {
    /// Whether what this interface's policy rules goes this way.
    fn rules(&self, interface: &str) -> bool {
        self.interface.as_ref().is_none_or(|name| name == interface)
    }
}

/// Opens the ports and builds the paths.
pub fn assemble(policy: &Policy, config: &PortConfig) -> Result<Assembly, Error> {
    let chosen: Vec<Option<Chosen>> = policy
        .interfaces
        .iter()
        .map(|interface| realise::choose(interface, config))
        .collect::<Result<_, _>>()?;
    let mut opened = open(config)?;
    let (mut realisers, mut realised) = (Vec::new(), Vec::new());
    for (interface, chosen) in policy.interfaces.iter().zip(chosen) {
        let way = opened.ways.iter().find(|way| way.rules(&interface.name));
        realisers.push(match chosen.zip(way) {
            None => None,
            Some(((mut realiser, found), way)) => {
                realise::attach(&interface.name, realiser.as_mut(), opened.ports[way.to].as_mut())?;
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
    let mut ways = Vec::with_capacity(opened.ways.len());
    for way in &opened.ways {
        let (from, to) = (ids[way.from], ids[way.to]);
        match policy
            .interfaces
            .iter()
            .position(|interface| way.rules(&interface.name))
        {
            Some(place) => {
                let mut path = direction::managed(&policy.interfaces[place], from, to);
                path.realiser = realisers[place].take();
                let id = worker.add_path(path);
                paths[place] = Some(id);
                ways.push(id);
            }
            None => {
                let name = way.interface.as_deref().unwrap_or_default();
                ways.push(worker.add_path(direction::unmanaged(name, from, to)));
            }
        }
    }
    hold(&mut worker, policy, &opened.ways, &ways);
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
    })
}

/// Lets the worker hold the connections of classes that yield, where acknowledgments come back through it.
fn hold(worker: &mut Worker, policy: &Policy, ways: &[Way], paths: &[PathId]) {
    for interface in policy
        .interfaces
        .iter()
        .filter(|interface| !interface.yields.is_empty())
    {
        let data = ways.iter().position(|way| way.rules(&interface.name));
        let back = data.and_then(|data| {
            let turned = |way: &Way| way.from == ways[data].to && way.to == ways[data].from;
            ways.iter().position(|way| turned(way) && way.from != way.to)
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
    let PortConfig {
        kind,
        place,
        settings,
    } = config;
    let transmit_ring = settings.transmit_ring as usize;
    match (kind, place) {
        (PortKind::AfPacket, Place::Between(a, b)) => {
            let open = |name| {
                AfPacket::open(af_packet::Settings {
                    transmit_ring,
                    ..af_packet::Settings::new(name)
                })
            };
            bump([a, b], [open(a)?, open(b)?], settings)
        }
        (PortKind::AfXdp, Place::Between(a, b)) => {
            let open = |name| AfXdp::open(name, af_xdp_settings(settings));
            bump([a, b], [open(a)?, open(b)?], settings)
        }
        (PortKind::Tap, Place::Between(a, b)) => Ok(Opened {
            ports: vec![
                Box::new(Tap::open(a, transmit_ring)?),
                Box::new(Tap::open(b, transmit_ring)?),
            ],
            ways: there_and_back([a, b]),
            gate: None,
            without_us: "nothing passes: TAP interfaces are ours alone".into(),
        }),
        (PortKind::Egress, Place::Egress(interface)) => {
            let port = Egress::open(interface, transmit_ring)?;
            let tap = port.tap().to_owned();
            let (port, pulse) = fail_open::single(port, settings.fail_open_after, Means::Best)?;
            let without_us = kernel_takes_over(settings, port.attached());
            Ok(Opened {
                ports: vec![Box::new(port)],
                ways: vec![Way {
                    from: 0,
                    to: 0,
                    interface: Some(interface.clone()),
                }],
                gate: Some(Box::new(pulse)),
                without_us: format!("{without_us}; what is sent passes by {tap}"),
            })
        }
        (PortKind::Pcap, Place::Files { read, write }) if is_same_file(read, write) => {
            Err(Error::SameFile(write.clone()))
        }
        (PortKind::Pcap, Place::Files { read, write }) => {
            // Two ports, since one that has come to the end of its input does not work any more.
            let input = Pcap::open(Some((Path::new(read), Pace::Recorded)), None)?;
            let output = Pcap::open(None, Some(Path::new(write)))?;
            Ok(Opened {
                ports: vec![Box::new(input), Box::new(output)],
                ways: vec![Way {
                    from: 0,
                    to: 1,
                    interface: None,
                }],
                gate: None,
                without_us: "there are only files".into(),
            })
        }
        (kind, _) => Err(Error::NoSuchPort(kind.name().into())),
    }
}

fn is_same_file(a: &str, b: &str) -> bool {
    let real = |path: &str| std::fs::canonicalize(path).ok();
    real(a).is_some_and(|a| real(b) == Some(a))
}

fn af_xdp_settings(settings: &PortSettings) -> af_xdp::Settings {
    const IN_ONE_GO: u32 = 64;
    af_xdp::Settings {
        mode: match settings.xdp_mode {
            XdpMode::Auto => Mode::Auto,
            XdpMode::Native => Mode::Native,
            XdpMode::Generic => Mode::Generic,
        },
        transmit_ring: settings.transmit_ring as usize,
        receive_ring: settings.receive_ring.next_power_of_two(),
        busy_poll: settings.busy_poll.then_some(IN_ONE_GO),
    }
}

/// A bump in the wire, with programs that let the kernel take over when the worker is silent.
fn bump<P: Capture + 'static>(
    names: [&String; 2],
    ports: [P; 2],
    settings: &PortSettings,
) -> Result<Opened, Error> {
    let ([a, b], pulse) = fail_open::bump(ports, settings.fail_open_after, Means::Best)?;
    let without_us = kernel_takes_over(settings, a.attached());
    Ok(Opened {
        ports: vec![Box::new(a), Box::new(b)],
        ways: there_and_back(names),
        gate: Some(Box::new(pulse)),
        without_us,
    })
}

fn there_and_back([a, b]: [&String; 2]) -> Vec<Way> {
    vec![
        Way {
            from: 0,
            to: 1,
            interface: Some(b.clone()),
        },
        Way {
            from: 1,
            to: 0,
            interface: Some(a.clone()),
        },
    ]
}

fn kernel_takes_over(settings: &PortSettings, attached: Option<&Attached>) -> String {
    let by = attached.map_or_else(String::new, |attached| format!(" (by {attached})"));
    format!(
        "the kernel's own path, at the end or after {} of silence{by}",
        settings.fail_open_after
    )
}
