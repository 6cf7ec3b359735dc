//! The ALTQ paper's test bed (Cho 1999, section 5, Fig. 3), simulated: three hosts in a row, the
//! middle one is the router.
//!
//! ```text
//!   a ═══ ATM ═══ b ── one of four kinds of link ── c
//!                 └ the policy manages what leaves b for c
//! ```
//!
//! The policy is the text of a policy file, parsed as `suimon run` does. The links are full duplex
//! (the paper's 10baseT was a shared medium). Their delay stands for the wire and the host at its
//! end.

use crate::Error;
use control::policy::{InterfacePolicy, Policy};
use engine::framing::Framing;
use engine::header::{Family, FlowKey};
use engine::packet::ClassId;
use engine::random::Seed;
use engine::tree::Registry;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::simulation::{FlowId, LinkId, NodeId, Simulation};
use sim::tcp;

/// A kind of link in the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wire {
    /// The paper's name.
    pub name: &'static str,
    /// Bits per second on the wire, framing included.
    pub rate: Bandwidth,
    /// The longest IP packet.
    pub mtu: u64,
    /// The overhead of the wire.
    pub framing: Framing,
    /// The bandwidth in the policy.
    pub bandwidth: Bandwidth,
    /// The overhead per frame in the policy.
    pub overhead: u64,
}

/// The usual delay of each link.
pub const DELAY: Duration = Duration::from_micros(20);
const ETHERNET_HEADER: u64 = 14;

/// The serial line of 128 kbit/s.
pub const SERIAL: Wire = Wire {
    name: "serial 128 kbit/s",
    rate: Bandwidth::kbit(128),
    mtu: 1_500,
    framing: Framing::PLAIN,
    bandwidth: Bandwidth::kbit(128),
    overhead: 0,
};

/// Ethernet, counted with preamble, FCS and gap, so that 100 % is the whole wire.
const fn ethernet(name: &'static str, rate: Bandwidth) -> Wire {
    Wire {
        name,
        rate,
        mtu: 1_500,
        framing: Framing::ETHERNET,
        bandwidth: rate,
        overhead: 24,
    }
}

/// 10baseT.
pub const TEN: Wire = ethernet("10baseT", Bandwidth::mbit(10));
/// 100baseT.
pub const HUNDRED: Wire = ethernet("100baseT", Bandwidth::mbit(100));

/// ATM of 155 Mbit/s: 149.76 without SONET's overhead, cells included. The paper configures 134
/// Mbit/s.
pub const ATM: Wire = Wire {
    name: "ATM 155",
    rate: Bandwidth::kbit(149_760),
    mtu: 9_180,
    framing: Framing::ATM,
    bandwidth: Bandwidth::mbit(134),
    overhead: 0,
};

/// The lab's link: the same with Ethernet frames.
pub const LAB: Wire = Wire {
    mtu: 1_500,
    framing: Framing::PLAIN,
    ..ATM
};

impl Wire {
    /// The link, without a policy.
    fn spec(&self, delay: Duration) -> LinkSpec {
        LinkSpec::new(self.rate, delay).framing(self.framing)
    }

    /// The maximum frame length.
    pub fn frame(&self) -> u64 {
        self.mtu + ETHERNET_HEADER
    }

    /// The head of a policy for this link's egress; classes and filters are to follow.
    pub fn policy(&self, discipline: &str) -> String {
        format!(
            "version = 1\n[interface.c]\nbandwidth = \"{} bit/s\"\noverhead = \"{} B\"\nmax_frame = \"{} B\"\n\
             discipline = {discipline}\n",
            self.bandwidth.bits(),
            self.overhead,
            self.frame(),
        )
    }
}

/// The filters of a policy: class and TCP port.
pub fn filters(ports: &[(&str, u16)]) -> String {
    let filter = |(class, port): &(&str, u16)| {
        format!(
            "[[interface.c.filter]]\nclass = \"{class}\"\nprotocol = \"tcp\"\ndestination_port = \"{port}\"\n"
        )
    };
    ports.iter().map(filter).collect()
}

/// Parses a policy with one interface.
///
/// # Errors
///
/// Returns an error if the policy is invalid.
pub fn interface(text: &str) -> Result<InterfacePolicy, Error> {
    let policy = Policy::read("policy of the experiment", text, &Registry::builtin(), &[]);
    let policy = policy.map_err(|diagnostics| Error::new(diagnostics.render(false)))?;
    let first = policy.interfaces.into_iter().next();
    first.ok_or_else(|| Error::new("the experiment's policy manages no interface"))
}

/// The same interface behind a device with a ring of this depth.
///
/// # Errors
///
/// Returns an error if the policy cannot run behind such a ring.
pub fn behind(interface: &InterfacePolicy, ring: u32) -> Result<InterfacePolicy, Error> {
    let registry = Registry::builtin();
    interface.behind(&registry, ring).map_err(|problems| {
        let words: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
        Error::new(words.join("; "))
    })
}

/// The three hosts, simulated.
#[derive(Debug)]
pub struct Testbed {
    /// The simulation.
    pub sim: Simulation,
    /// The source.
    pub a: NodeId,
    /// The router.
    pub b: NodeId,
    /// The destination.
    pub c: NodeId,
    /// The link from b to c.
    pub out: LinkId,
    framing: Framing,
    mtu: u64,
    classes: usize,
}

impl Testbed {
    /// The hosts, and this policy on this kind of link, behind this driver. Every link has this
    /// delay.
    pub fn new(wire: &Wire, policy: &InterfacePolicy, driver: Driver, delay: Duration) -> Self {
        let mut sim = Simulation::new(Seed(1));
        let [a, b, c] = ["a", "b", "c"].map(|name| sim.node(name));
        sim.duplex(a, b, &ATM.spec(delay));
        let ruled = PolicyQueue {
            plan: policy.plan.clone(),
            filters: policy.filters.to_vec(),
            driver,
        };
        let out = sim.link(b, c, wire.spec(delay).queue(LinkQueue::Policy(Box::new(ruled))));
        sim.link(c, b, wire.spec(delay));
        sim.watch(out, Duration::from_millis(100));
        Self {
            sim,
            a,
            b,
            c,
            out,
            framing: policy.link().framing,
            mtu: wire.mtu,
            classes: policy.plan.classes.len(),
        }
    }

    /// A greedy TCP connection from a host to c, to this port, starting at `start`.
    ///
    /// # Errors
    ///
    /// Returns an error if the simulation rejects the connection.
    pub fn tcp(
        &mut self,
        from: NodeId,
        port: u16,
        start: Instant,
        settings: tcp::Settings,
    ) -> Result<FlowId, Error> {
        let key = FlowKey {
            family: Family::V4,
            protocol: 6,
            source: 1,
            destination: 3,
            source_port: Some(port),
            destination_port: Some(port),
            ..FlowKey::default()
        };
        let settings = tcp::Settings {
            mtu: Bytes::new(self.mtu),
            ..settings
        };
        let flow = self.sim.flow([from, self.c], key, start, tcp::pair(&settings));
        flow.map_err(|e| Error::new(e.to_string()))
    }

    /// The bytes of each class that have left, as the policy counts them.
    pub fn departed(&self) -> Vec<Bytes> {
        let Some(meter) = self.sim.meter(self.out) else {
            return vec![Bytes::ZERO; self.classes];
        };
        let counted =
            |class: &sim::meter::MeterTally| self.framing.of_frames(class.sent.bytes, class.sent.packets);
        meter.classes().iter().map(counted).collect()
    }

    /// The bytes of one class that have left.
    pub fn departed_of(&self, class: ClassId) -> Bytes {
        self.departed()
            .get(class.0 as usize)
            .copied()
            .unwrap_or(Bytes::ZERO)
    }
}
