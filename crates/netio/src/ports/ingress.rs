//! `ingress`: what this host, or a router, receives on an interface.
//!
//! A program at the interface's ingress hook (tcx, or clsact before Linux 6.6) redirects every
//! frame, including ARP, into a TAP of ours. We read the TAP, and write the frames back into it in
//! the order and at the rate of the policy. A program at the TAP's own ingress hook hands them back
//! to the interface, as if they had just arrived there, with a mark by which the first program
//! knows them: it takes the mark off and lets them pass. So hosts, routes, filters and addresses
//! are those of the interface. Sent frames are not touched.
//!
//! The queue at the other end of the line is the provider's. This one shortens it by being a little
//! slower than the line: packets then wait here, where the policy applies, and TCP's senders
//! follow.
//!
//! The first program checks the heartbeat; if it has expired, frames take their usual path. When
//! the process dies, the kernel detaches the program (a clsact filter stays, and lets frames pass)
//! and removes the TAP.
//!
//! Costs: the frames of the interface are seen twice by packet sockets on it (tcpdump, DHCP
//! clients), on arrival and when they are handed back.

use super::presence::Presence;
use super::tap::Tap;
use super::{Kind, Lane, Open, Opened, Opening, presence};
use crate::bpf::programs::{HAND_BACK, RECEIVED_TO_TAP};
use crate::bpf::syscall::{self, Hook};
use crate::bpf::{Attached, Heartbeat, Means};
use crate::fail_open::{self, Capture};
use crate::pool::Pool;
use crate::port::{Capabilities, Counters, Port, PortError, Wake};
use engine::packet::Buffer;
use engine::port_kind::{Needs, PortKind, device};
use std::io;

/// What this host receives on an interface.
pub static KIND: Kind = Kind {
    declared: PortKind {
        name: "ingress",
        summary: "what this host receives on an interface, redirected through a TAP device of ours",
        needs: Needs::Received,
        has_wire: false,
        settings: &[],
    },
    open: Open::Ingress(on),
};

fn on(managed: &str, opening: &Opening<'_>) -> Result<Opened, PortError> {
    let limit = opening.fail_open_after;
    let port = Ingress::open(device(managed), opening.transmit_ring)?;
    let tap = port.tap.name().to_owned();
    let (port, pulse) = fail_open::single(port, limit, Means::Best)?;
    let without_us = fail_open::takeover(limit, port.attached());
    Ok(Opened {
        ports: vec![Box::new(port)],
        lanes: vec![Lane {
            from: 0,
            to: 0,
            interface: Some(managed.into()),
        }],
        gates: vec![super::over(pulse, 0..1)],
        without_us: format!("{without_us}; received frames pass through {tap}"),
        warnings: Vec::new(),
    })
}

/// A port that receives what an interface receives, and hands it back to that interface.
#[derive(Debug)]
pub struct Ingress {
    tap: Tap,
    tap_index: u32,
    interface: Presence,
    /// The TAP's program.
    back: Option<Attached>,
}

impl Ingress {
    /// Opens the TAP. Frames arrive once [`crate::fail_open::single`] has attached the programs.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the TAP cannot be made or brought up.
    pub fn open(interface: &str, transmit_ring: usize) -> Result<Self, PortError> {
        let interface = Presence::of(interface)?;
        let (tap, tap_index) = presence::own_tap(transmit_ring)?;
        Ok(Self {
            tap,
            tap_index,
            interface,
            back: None,
        })
    }
}

impl Port for Ingress {
    fn name(&self) -> &str {
        self.interface.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.tap.capabilities()
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        self.tap.receive(pool, into)
    }

    fn room(&self) -> usize {
        self.tap.room()
    }

    fn unsent(&self) -> usize {
        self.tap.unsent()
    }

    fn bypassed(&self) -> bool {
        self.back.as_ref().is_some_and(|back| !back.is_whole())
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        self.tap.transmit(pool, frame);
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.tap.kick(pool)?;
        self.interface.check("receiving")
    }

    fn wake(&self, room: bool) -> Option<Wake<'_>> {
        self.tap.wake(room)
    }

    fn revive(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.tap.revive(pool)?;
        self.interface.find()
    }

    fn counters(&self) -> Counters {
        self.tap.counters()
    }
}

impl Capture for Ingress {
    const COPIES: bool = false;

    fn attach(&mut self, own: &Heartbeat, to: &mut Attached) -> io::Result<()> {
        own.point_to(self.tap_index);
        own.hand_back_to(self.interface.index());
        let program = |name, code| syscall::load(name, Hook::Ingress, false, code, own.map(), None);
        // First the way back.
        self.back = None;
        let mut back = Attached::to(self.tap_index, to.means());
        back.add(&program("suimon_hand_back", &HAND_BACK[..])?)?;
        self.back = Some(back);
        to.add(&program("suimon_received", &RECEIVED_TO_TAP[..])?)
    }
}
