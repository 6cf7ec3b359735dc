//! `egress`: what this host itself sends on an interface.
//!
//! A program at the interface's egress hook (tcx, or clsact before Linux 6.6) redirects every
//! frame, including ARP, into a TAP of ours. We read the TAP and send the frames by a packet
//! socket. Both use the virtio-net header, so super-frames and unfinished checksums pass unchanged.
//! There is no loop: the packet socket bypasses the qdisc and the hook before it. Received frames
//! are not touched.
//!
//! The program first checks the heartbeat; if it has expired, frames take their usual path. When
//! the process dies, the kernel detaches the program (a clsact filter stays, and lets frames pass)
//! and removes the TAP. With `fail_closed` a qdisc of the kernel limits that path
//! ([`crate::fail_closed`]).
//!
//! Costs of redirecting frames: about 10 µs more per round trip. And the kernel counts a frame as
//! sent once it is in our queue, so TCP small queues exert no back pressure, and a TCP sender fills
//! our queue up to its cwnd. Choose limits or an AQM accordingly. Super-frames can be kept short at
//! the source: `ip link set IF gso_max_segs N`.

use super::af_packet::{self, AfPacket};
use super::presence::Presence;
use super::tap::Tap;
use super::{Kind, Lane, Open, Opened, Opening, presence};
use crate::bpf::programs::TO_TAP;
use crate::bpf::syscall::{self, Hook};
use crate::bpf::{Attached, Heartbeat, Means};
use crate::fail_closed::{self, FailClosed};
use crate::fail_open::{self, Capture};
use crate::pool::Pool;
use crate::port::{Capabilities, Counters, PacedPort, Port, PortError, Wake};
use engine::packet::Buffer;
use engine::port_kind::{Needs, PortKind};
use engine::settings;
use engine::units::{Bandwidth, Duration};
use std::io;

/// What this host itself sends on an interface.
pub static KIND: Kind = Kind {
    declared: PortKind {
        name: "egress",
        summary: "what this host itself sends on an interface, redirected into a TAP device of ours",
        needs: Needs::OneInterface,
        has_wire: true,
        alone: None,
        settings: EgressSettings::SETTINGS,
    },
    open: Open::Egress(on),
};

settings! {
    /// The settings of this kind of port alone.
    pub struct EgressSettings {
        /// The rate, counted on the wire, that the interface keeps to while the program is dead or
        /// hangs, by a qdisc of the kernel
        fail_closed: Bandwidth = derived "traffic flows unlimited",
            "too high: what was promised elsewhere is exceeded; too low: hosts are slow until the program is back",
            "what was bought or agreed upon";
    }
}

fn on(interface: &str, opening: &Opening<'_>) -> Result<Opened, PortError> {
    let limit = opening.fail_open_after;
    let own = EgressSettings::read(opening.own, &[], &mut Vec::new());
    let own = own.ok_or_else(|| super::unreadable(interface))?;
    let mut port = Egress::open(interface, opening.transmit_ring)?;
    if let Some(rate) = own.fail_closed {
        port.fail_closed(rate)?;
    }
    let (tap, index) = (port.tap().to_owned(), port.interface.index());
    let (port, pulse) = fail_open::single(port, limit, Means::Best)?;
    let mut without_us = fail_open::takeover(limit, port.attached());
    if let Some(rate) = own.fail_closed {
        without_us += &format!(", at {rate} at most");
    }
    let left = (own.fail_closed.is_none()).then(|| fail_closed::rate_of(index).ok().flatten());
    let left = left.flatten().map(|rate| {
        format!(
            "{interface}: a killed program left a limit of {rate} for what the kernel sends: \
             `tc qdisc del dev {interface} root` removes it, `fail_closed` takes it over"
        )
    });
    Ok(Opened {
        ports: vec![Box::new(port)],
        lanes: vec![Lane {
            from: 0,
            to: 0,
            interface: Some(interface.into()),
        }],
        gates: vec![super::over(pulse, 0..1)],
        without_us: format!("{without_us}; sent frames pass through {tap}"),
        warnings: left.into_iter().collect(),
    })
}

/// What fails where the kernel cannot limit the interface.
const LIMITING: &str = "limiting what it sends without this program";

/// When to look for room in the packet socket: only the TAP's descriptor is waited for.
const ROOM_RETRY: Duration = Duration::from_micros(50);

/// A port that receives what this host sends on an interface, and sends on that interface.
#[derive(Debug)]
pub struct Egress {
    tap: Tap,
    tap_index: u32,
    wire: AfPacket,
    interface: Presence,
    closed: Option<FailClosed>,
}

impl Egress {
    /// Opens the socket and the TAP. Frames arrive once [`crate::fail_open::single`] has attached
    /// the program.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface cannot be found or opened, or the TAP cannot be made or
    /// brought up.
    pub fn open(interface: &str, transmit_ring: usize) -> Result<Self, PortError> {
        let wire = AfPacket::open(af_packet::Settings {
            transmit_ring,
            promiscuous: false,
            receive: false,
            ..af_packet::Settings::new(interface)
        })?;
        let (tap, tap_index) = presence::own_tap(transmit_ring)?;
        Ok(Self {
            tap,
            tap_index,
            wire,
            interface: Presence::of(interface)?,
            closed: None,
        })
    }

    /// While this process is dead or hangs, the interface sends no faster than this.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the qdisc, or somebody has chosen one.
    pub fn fail_closed(&mut self, rate: Bandwidth) -> Result<(), PortError> {
        let closed = FailClosed::at(self.interface.index(), rate);
        self.closed = Some(closed.map_err(|e| PortError::new(self.name(), LIMITING, e))?);
        Ok(())
    }

    /// The TAP's name.
    pub fn tap(&self) -> &str {
        self.tap.name()
    }
}

impl Port for Egress {
    fn name(&self) -> &str {
        self.wire.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.wire.capabilities()
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        self.tap.receive(pool, into)
    }

    fn room(&self) -> usize {
        self.wire.room()
    }

    fn unsent(&self) -> usize {
        self.wire.unsent()
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        self.wire.transmit(pool, frame);
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.wire.kick(pool)?;
        self.closed.iter_mut().for_each(FailClosed::served);
        self.interface.check("sending")
    }

    fn wake(&self, room: bool) -> Option<Wake<'_>> {
        let retry = self
            .wire
            .wake(room)
            .and_then(|wake| wake.retry)
            .or(room.then_some(ROOM_RETRY));
        self.tap.wake(false).map(|wake| Wake { retry, ..wake })
    }

    fn revive(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.tap.revive(pool)?;
        self.wire.revive(pool)?;
        self.interface.find()?;
        let renewed = match &mut self.closed {
            Some(closed) => closed.renew(self.interface.index()),
            None => Ok(()),
        };
        renewed.map_err(|e| PortError::new(self.name(), LIMITING, e))
    }

    fn counters(&self) -> Counters {
        let (from, to) = (self.tap.counters(), self.wire.counters());
        Counters {
            sent: to.sent,
            sent_bytes: to.sent_bytes,
            dropped: to.dropped,
            ..from
        }
    }

    fn hand_over(&mut self, to_another: bool) {
        self.closed
            .iter_mut()
            .for_each(|closed| closed.hand_over(to_another));
    }

    fn paced(&mut self) -> Option<&mut dyn PacedPort> {
        self.wire.paced()
    }
}

impl Capture for Egress {
    const COPIES: bool = false;

    fn attach(&mut self, own: &Heartbeat, to: &mut Attached) -> io::Result<()> {
        own.point_to(self.tap_index);
        let program = syscall::load("suimon_to_tap", Hook::Egress, false, &TO_TAP, own.map(), None)?;
        to.add(&program)
    }
}
