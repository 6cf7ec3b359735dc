//! A detour: what an interface receives, or what is sent on it, goes by a TAP of ours, and back to
//! where it was taken. [`super::ingress`] is one; several at one interface compose.
//!
//! A program at the interface's hook (tcx, or clsact before Linux 6.6) redirects every frame,
//! including ARP, into a TAP of ours. We read the TAP, and write the frames back into it. A program
//! at the TAP's own ingress hook hands them back to the interface, as if they had just arrived or
//! been sent there, with a mark by which the first program knows them: it takes the mark off and
//! lets them pass. So hosts, routes, filters and addresses are those of the interface. What goes
//! the other way is not touched.
//!
//! Each detour has its own mark, of the index of its TAP. One that is before others at the hook
//! takes a frame first, and hands it back to the hook: it then lets it pass to the next one, whose
//! frames it knows by the upper half of their marks. None knows of the others, so each can end at
//! any time.
//!
//! The first program checks the heartbeat; if it has expired, frames take their usual path. When
//! the process dies, the kernel detaches the program (a clsact filter stays, and lets frames pass)
//! and removes the TAP.
//!
//! Costs: packet sockets on the interface (tcpdump, DHCP clients) see each received frame twice, on
//! arrival and when it is handed back.

use super::presence::{self, Presence};
use super::tap::Tap;
use crate::bpf::programs::{DETOUR, HAND_BACK, HANDED_BACK};
use crate::bpf::syscall::{self, Hook, HookPlace};
use crate::bpf::{Attached, Heartbeat};
use crate::fail_open::Capture;
use crate::pool::Pool;
use crate::port::{Capabilities, Counters, Port, PortError, Wake};
use engine::packet::Buffer;
use std::io;

/// The longest packet that there is. What is redirected is not held to the TAP's MTU, and goes back
/// to the interface that it was taken from, whose MTU it has kept, whatever that is now.
const LONGEST: usize = 65_535;

/// A port that receives what an interface receives, or what is sent on it, and hands it back there.
#[derive(Debug)]
pub struct Detour {
    hook: Hook,
    place: HookPlace,
    tap: Tap,
    tap_index: u32,
    interface: Presence,
    /// The TAP's program.
    back: Option<Attached>,
}

impl Detour {
    /// The name of its TAP.
    pub fn tap(&self) -> &str {
        self.tap.name()
    }

    /// Opens the TAP of a detour at this hook. Frames arrive once [`crate::fail_open::single`] has
    /// attached the programs.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the TAP cannot be made or brought up.
    pub fn open(
        interface: &str,
        hook: Hook,
        place: HookPlace,
        transmit_ring: usize,
    ) -> Result<Self, PortError> {
        let interface = Presence::of(interface)?;
        let (tap, tap_index) = presence::own_tap(transmit_ring)?;
        Ok(Self {
            hook,
            place,
            tap,
            tap_index,
            interface,
            back: None,
        })
    }
}

impl Port for Detour {
    fn name(&self) -> &str {
        self.interface.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: LONGEST,
            ..self.tap.capabilities()
        }
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
        self.interface.check("redirecting")
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

impl Capture for Detour {
    const COPIES: bool = false;

    fn attach(&mut self, own: &Heartbeat, to: &mut Attached) -> io::Result<()> {
        let mark = HANDED_BACK << 16 | (self.tap_index & 0xffff);
        own.point_to(self.tap_index);
        own.hand_back_to(self.interface.index(), self.hook, mark);
        let program = |name, hook, code| syscall::load(name, hook, false, code, own.map(), None);
        // First the way back.
        self.back = None;
        let mut back = Attached::to(self.tap_index, to.means());
        back.add(&program("suimon_hand_back", Hook::Ingress, &HAND_BACK[..])?)?;
        self.back = Some(back);
        let name = match self.hook {
            Hook::Ingress => "suimon_received",
            _ => "suimon_sent",
        };
        let detour = program(name, self.hook, &DETOUR[..])?;
        match self.place {
            HookPlace::First => to.add_first(&detour),
            HookPlace::Last => to.add(&detour),
        }
    }
}
