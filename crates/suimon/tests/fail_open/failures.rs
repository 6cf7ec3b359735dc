//! What goes wrong around a running program, how it is mended, and who carries traffic meanwhile.

use super::load::Load;
use super::tampering::{choose_a_qdisc, leave_the_bridge, remove_the_qdisc};
use super::{Rig, Side, introduce, to_b};
use control::socket::Client;
use engine::random::Rng;
use lab::host::OffloadFeature;
use netio::bpf::programs::TAKE;
use netio::bpf::syscall::{Hook, load};
use netio::bpf::{Attached, Heartbeat, Means};
use netio::interface::Interface;
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

/// A sort of failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Failure {
    Renamed,
    NoDescriptors,
    AttachRefused,
    Stopped,
    PoolExhausted,
    LeftTheBridge,
    BridgeDown,
    QdiscReplaced,
    OffloadSwitched,
    InterfaceDown,
    CarrierLost,
    MadeAnew,
}

/// Who carries traffic while it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    Kernel,
    Suimon,
    /// Suimon until it opens its sockets again, for which it needs the interface's name.
    Either,
    Nobody,
}

pub const ALL: [Failure; 12] = [
    Failure::Renamed,
    Failure::NoDescriptors,
    Failure::AttachRefused,
    Failure::Stopped,
    Failure::PoolExhausted,
    Failure::LeftTheBridge,
    Failure::BridgeDown,
    Failure::QdiscReplaced,
    Failure::OffloadSwitched,
    Failure::InterfaceDown,
    Failure::CarrierLost,
    Failure::MadeAnew,
];

/// What is to be undone at the end of a failure.
#[derive(Default)]
pub struct Made {
    attached: Option<Attached>,
}

/// An interface that is down or gone for so long is noticed by its packet socket.
const NOTICED: Duration = Duration::from_millis(250);

/// So many datagrams at once into a class of a tenth of a Mbit/s, with a queue for more than the
/// port has memory for: it gets its part of that, and others theirs.
const FLOOD: usize = 30_000;

impl Failure {
    pub fn name(self) -> &'static str {
        match self {
            Self::Renamed => "an interface renamed and back",
            Self::NoDescriptors => "no descriptors left, and a link that flaps",
            Self::AttachRefused => "programs refused at an interface made anew",
            Self::Stopped => "the process stopped and continued",
            Self::PoolExhausted => "a class that wants all memory for frames",
            Self::LeftTheBridge => "an interface taken out of the bridge",
            Self::BridgeDown => "the bridge down",
            Self::QdiscReplaced => "the qdisc replaced",
            Self::OffloadSwitched => "an offload switched",
            Self::InterfaceDown => "an interface down and up",
            Self::CarrierLost => "the carrier lost and back",
            Self::MadeAnew => "an interface removed and made anew",
        }
    }

    /// By this kind of port.
    pub fn carries(self, kind: &str) -> Carries {
        match self {
            Self::Renamed => Carries::Either,
            // One direction may go on: what it needs was not lost.
            Self::NoDescriptors | Self::AttachRefused if kind != "af_packet" => Carries::Either,
            Self::NoDescriptors | Self::AttachRefused | Self::Stopped => Carries::Kernel,
            Self::InterfaceDown | Self::CarrierLost | Self::MadeAnew => Carries::Nobody,
            _ => Carries::Suimon,
        }
    }

    /// How long it lasts, once links are up that go up with it: longer than `fail_open_after`, and
    /// than it takes until a port is tried again.
    pub fn lasts(self, random: &mut Rng) -> Duration {
        Duration::from_millis(250 + random.below(250))
    }

    /// Makes it at this side of the router.
    pub fn make(self, rig: &Rig, side: Side) -> Made {
        let name = side.router();
        let mut made = Made::default();
        match self {
            Self::Renamed => rename(rig, name, "other0"),
            Self::NoDescriptors => {
                descriptors(rig, 4);
                rig.link(|n| n.down(name));
                std::thread::sleep(NOTICED);
                rig.link(|n| n.up(name));
            }
            Self::AttachRefused => {
                rig.link(|n| n.delete(name));
                std::thread::sleep(NOTICED);
                made.attached = Some(rig.make_anew(side, |name| occupied(rig, name)));
            }
            Self::Stopped => rig.signal("STOP"),
            Self::PoolExhausted => flood(rig),
            Self::LeftTheBridge => rig.ask_kernel(|| leave_the_bridge(name)),
            Self::BridgeDown => rig.link(|n| n.down("br0")),
            Self::QdiscReplaced => rig.ask_kernel(|| choose_a_qdisc(name)),
            Self::OffloadSwitched => rig.offload(name, OffloadFeature::Gro, true),
            Self::InterfaceDown => rig.link(|n| n.down(name)),
            Self::CarrierLost => side.host(rig).netlink(|n| n.down("eth0")).expect("down"),
            Self::MadeAnew => rig.link(|n| n.delete(name)),
        }
        made
    }

    pub fn mend(self, rig: &Rig, side: Side, made: Made) {
        let name = side.router();
        match self {
            Self::Renamed => rename(rig, "other0", name),
            Self::NoDescriptors => descriptors(rig, 1_024),
            Self::AttachRefused => drop(made),
            Self::Stopped => rig.signal("CONT"),
            Self::PoolExhausted => {}
            Self::LeftTheBridge => rig.link(|n| n.enslave(name, "br0")),
            Self::BridgeDown => rig.link(|n| n.up("br0")),
            Self::QdiscReplaced => rig.ask_kernel(|| remove_the_qdisc(name)),
            Self::OffloadSwitched => rig.offload(name, OffloadFeature::Gro, false),
            Self::InterfaceDown => rig.link(|n| n.up(name)),
            Self::CarrierLost => {
                side.host(rig).netlink(|n| n.up("eth0")).expect("up");
                introduce(&rig.a, &rig.b);
            }
            Self::MadeAnew => rig.make_anew(side, |_| {}),
        }
    }
}

/// While it is up, as kernels since Linux 6.2 permit; on others it is down meanwhile.
fn rename(rig: &Rig, from: &str, to: &str) {
    rig.link(|n| {
        n.rename(from, to).or_else(|_| {
            n.down(from)?;
            n.rename(from, to)?;
            n.up(to)
        })
    });
}

/// Of the running program.
fn descriptors(rig: &Rig, most: u32) {
    let done = Command::new("prlimit")
        .args([format!("--pid={}", rig.id()), format!("--nofile={most}:1024")])
        .status();
    assert!(done.is_ok_and(|status| status.success()), "prlimit");
}

/// Takes all places for programs at an interface. The programs let everything pass.
fn occupied(rig: &Rig, name: &str) -> Attached {
    let occupy = || -> std::io::Result<Attached> {
        let lapsed = Heartbeat::new(engine::units::Duration::from_millis(10))?;
        let mut attached = Attached::to(Interface::named(name)?.index, Means::Best);
        loop {
            // Each but once.
            let program = load("occupies", Hook::Ingress, false, &TAKE, lapsed.map(), None)?;
            if let Err(error) = attached.add(&program) {
                assert!(error.to_string().contains("out of range"), "{error}");
                return Ok(attached);
            }
        }
    };
    rig.r.call(occupy).expect("a call").expect("programs")
}

fn flood(rig: &Rig) {
    let socket = rig.a.call(|| UdpSocket::bind(("10.0.0.1", 0)).expect("a socket"));
    let socket = socket.expect("a host");
    for _ in 0..FLOOD {
        // What the kernel refuses, as while a queue of its own is full, is lost.
        let _ = socket.send_to(&[4; 20], to_b(super::HOG));
    }
    let mut client = Client::connect(Some(&rig.socket())).expect("it answers");
    let snapshot = client.status(Duration::ZERO, false).expect("a status");
    let mut classes = snapshot.interfaces[0].classes.iter();
    let hog = classes.find(|class| class.name == "hog").expect("it is shown");
    let drops = &hog.traffic.drops;
    assert!(
        drops.contains_key("memory"),
        "it had all that it wanted: {drops:?}"
    );
}

/// Waits until the filled class has its rate again. How long after `from`.
pub fn shaped_again(load: &Load, from: Instant, what: &str) -> Duration {
    let shaped = load.shaped_since(from, Duration::from_secs(12));
    shaped.unwrap_or_else(|| {
        let rate = load.rate_of_last(Duration::from_secs(1));
        panic!("{what}: not shaped again: {rate:.1} Mbit/s over the last second")
    })
}
