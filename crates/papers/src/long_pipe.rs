//! The PSPacer paper's network (Takano et al. 2004, section 4.1, Fig. 5), simulated: a host on
//! Gigabit Ethernet, a bottleneck of 62.5 MB/s with a tail-drop buffer, 200 ms round-trip time.
//!
//! ```text
//!   host ── GbE, paced or not ──► GNET-1: 62.5 MB/s, tail drop, 100 ms ──► far
//!     ◄───────────────────────── GbE, 100 ms ─────────────────────────────┘
//! ```
//!
//! The bottleneck's rate counts frames with FCS, as GNET-1 does. The engine's `pacer` over gap
//! frames paces the host's link. The policy is parsed as `suimon run` does.

use crate::Error;
use crate::testbed::interface;
use engine::framing::Framing;
use engine::header::{Family, FlowKey};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::simulation::{FlowId, LinkId, NodeId, Simulation};
use sim::tcp::{self, ControlKind};

/// Gigabit Ethernet.
pub const GBE: Bandwidth = Bandwidth::gbit(1);
/// The bottleneck: 62.5 MB/s.
pub const NARROW: Bandwidth = Bandwidth::mbit(500);
/// Half the round-trip time.
pub const HALF: Duration = Duration::from_millis(100);
/// How often a card interrupts its host at most: 8,000 times a second, the default of its drivers
/// in those years.
pub const INTERRUPTS: Duration = Duration::from_micros(125);
/// The length of a frame with FCS and 1500 bytes of IP.
pub const FRAME: f64 = 1_518.0;
/// TCP's data in it, with timestamps.
pub const DATA: f64 = 1_448.0;
/// The byte times of a frame on the wire.
pub const SLOT: f64 = 1_538.0;

/// The queue of a Gigabit Ethernet link: a policy that paces to this rate by gap frames, or the
/// bare wire.
///
/// # Errors
///
/// Returns an error if the policy is invalid.
pub fn host_queue(rate: Option<Bandwidth>) -> Result<LinkQueue, Error> {
    let Some(rate) = rate else {
        return Ok(LinkQueue::TailDrop(Bytes::new(u64::MAX)));
    };
    // The host's queue never fills, as in the paper (section 4.1, WAD_IFQ).
    let policy = format!(
        "version = 1\n[interface.out]\nbandwidth = \"1 Gbit/s\"\nmax_frame = \"1514 B\"\n\
         discipline = {{ kind = \"pacer\", gap = \"frames\" }}\n\
         [[interface.out.class]]\nname = \"far\"\ndefault = true\nrate = \"{} bit/s\"\n\
         discipline = {{ kind = \"fifo\", limit = 1000000 }}\n",
        rate.bits()
    );
    let policy = interface(&policy)?;
    Ok(LinkQueue::Policy(Box::new(PolicyQueue {
        plan: policy.plan,
        filters: policy.filters.to_vec(),
        driver: Driver {
            gaps: true,
            ..Driver::default()
        },
    })))
}

/// A link of Gigabit Ethernet.
pub fn gigabit(delay: Duration) -> LinkSpec {
    LinkSpec::new(GBE, delay).framing(Framing::ETHERNET)
}

/// The addresses and ports of the connection with this port.
pub fn key(port: u16) -> FlowKey {
    FlowKey {
        family: Family::V4,
        protocol: 6,
        source: u128::from(port),
        destination: 9,
        source_port: Some(port),
        destination_port: Some(port),
        ..FlowKey::default()
    }
}

/// A connection as in the paper's time: an initial window of 2 packets, losses by DupThresh,
/// neither RACK nor probes, a receive buffer of this size.
pub fn connection(control: &'static ControlKind, window: Bytes) -> tcp::Settings {
    tcp::Settings {
        control,
        initial_window: 2,
        receive_window: window,
        rack: false,
        tlp: false,
        ..tcp::Settings::default()
    }
}

/// The network with one connection.
#[derive(Debug)]
pub struct LongPipe {
    /// The simulation.
    pub sim: Simulation,
    /// The host's link.
    pub out: LinkId,
    /// The bottleneck.
    pub narrow: LinkId,
    /// The connection.
    pub flow: FlowId,
}

impl LongPipe {
    /// A buffer of this many bytes at the bottleneck; the host is paced to it or not.
    ///
    /// # Errors
    ///
    /// Returns an error if the policy is invalid.
    pub fn new(settings: &tcp::Settings, buffer: u64, paced: bool) -> Result<Self, Error> {
        Self::with_interrupts(settings, buffer, paced, Duration::ZERO)
    }

    /// The same with cards that interrupt their hosts this often at most.
    ///
    /// # Errors
    ///
    /// Returns an error if the policy is invalid.
    pub fn with_interrupts(
        settings: &tcp::Settings,
        buffer: u64,
        paced: bool,
        every: Duration,
    ) -> Result<Self, Error> {
        let mut sim = Simulation::new(Seed(1));
        let [host, gnet, far]: [NodeId; 3] = ["host", "gnet", "far"].map(|name| sim.node(name));
        let out = sim.link(
            host,
            gnet,
            gigabit(Duration::ZERO).queue(host_queue(paced.then_some(NARROW))?),
        );
        let fcs = Framing::add(4);
        let wire = LinkSpec::new(NARROW, HALF)
            .framing(fcs)
            .interrupts(every)
            .queue(LinkQueue::TailDrop(Bytes::new(buffer)));
        let narrow = sim.link(gnet, far, wire);
        sim.link(far, host, gigabit(HALF).interrupts(every));
        sim.watch(narrow, Duration::from_millis(100));
        let flow = sim.flow([host, far], key(1), Instant::START, tcp::pair(settings));
        let flow = flow.map_err(|e| Error::new(e.to_string()))?;
        Ok(Self {
            sim,
            out,
            narrow,
            flow,
        })
    }

    /// Frames that the bottleneck dropped.
    pub fn drops(&self) -> u64 {
        self.sim
            .meter(self.narrow)
            .map_or(0, |meter| meter.whole().total().dropped.packets)
    }
}

/// TCP's maximum goodput over the bottleneck, in MB/s.
pub fn possible() -> f64 {
    NARROW.bits() as f64 / 8e6 * DATA / FRAME
}
