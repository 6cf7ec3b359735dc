//! Frames of our own that meet a hook of an interface, and are seen again behind it: whether what
//! is attached there does what it is to do.
//!
//! They are written into a TAP whose program hands them to the hook, as if they had just arrived or
//! been sent there, without any mark: to the hook they are like any other. What comes out of it is
//! seen by a packet socket: of received frames, what goes up the stack; of sent ones, what the
//! interface is given to send. Each is of 64 bytes, from the interface to itself, of the EtherType
//! for local experiments (IEEE 802), so that nobody answers.

use super::presence;
use super::tap::Tap;
use crate::bpf::programs::HAND_BACK;
use crate::bpf::syscall::{self, Hook};
use crate::bpf::{Attached, Heartbeat, Means};
use crate::clock;
use crate::interface::Interface;
use crate::port::PortError;
use crate::sys::{self, Receive};
use engine::units::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const EXPERIMENT: u16 = 0x88b5;
const LENGTH: usize = 64;
/// Where the name of the probe begins, and the number of the frame.
const NAME: usize = 14;
const NUMBER: usize = NAME + 8;
/// Frames of others that may wait before one of ours, where all are seen.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Sends such frames, and sees them.
#[derive(Debug)]
pub struct HookProbe {
    /// First, so that it is dropped first.
    _hands_over: Attached,
    _cell: Heartbeat,
    tap: Tap,
    seen: OwnedFd,
    frame: [u8; LENGTH],
}

impl HookProbe {
    /// Before and behind this hook of this interface.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the TAP, its program or the socket cannot
    /// be made.
    pub fn open(interface: &str, hook: Hook) -> Result<Self, PortError> {
        let fail = |doing: &'static str| move |e: io::Error| PortError::new(interface, doing, e);
        let place = Interface::named(interface).map_err(fail("looking for it"))?;
        let (tap, index) = presence::own_tap(1)?;
        let seen = Self::watch(&place, hook).map_err(fail("watching it"))?;
        let hand = || -> io::Result<(Attached, Heartbeat)> {
            // Its program does not ask whether anybody is alive.
            let cell = Heartbeat::new(Duration::ZERO)?;
            cell.hand_back_to(place.index, hook, 0);
            let mut attached = Attached::to(index, Means::Best);
            let program = syscall::load("suimon_probe", Hook::Ingress, false, &HAND_BACK, cell.map(), None)?;
            attached.add(&program)?;
            Ok((attached, cell))
        };
        let (attached, cell) = hand().map_err(fail("attaching the program of a probe"))?;
        let mut frame = [0; LENGTH];
        frame[..6].copy_from_slice(&place.address);
        frame[6..12].copy_from_slice(&place.address);
        frame[12..NAME].copy_from_slice(&EXPERIMENT.to_be_bytes());
        let name = clock::now().nanos() ^ u64::from(std::process::id()) << 40;
        frame[NAME..NUMBER].copy_from_slice(&name.to_be_bytes());
        Ok(Self {
            _hands_over: attached,
            _cell: cell,
            tap,
            seen,
            frame,
        })
    }

    fn watch(place: &Interface, hook: Hook) -> io::Result<OwnedFd> {
        let socket = sys::packet_socket()?;
        sys::set_buffers(socket.as_fd(), RECEIVE_BUFFER, LENGTH)?;
        let receive = match hook {
            Hook::Egress => Receive::Everything,
            _ => Receive::Type(EXPERIMENT),
        };
        sys::bind_packet(socket.as_fd(), place.index, receive)?;
        Ok(socket)
    }

    /// Puts the frame with this number before the hook.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses it.
    pub fn send(&mut self, number: u32) -> io::Result<()> {
        self.frame[NUMBER..][..4].copy_from_slice(&number.to_be_bytes());
        self.tap.write_plain(&self.frame)
    }

    /// The number of the next frame that was seen behind the hook, if there is one now.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be read.
    pub fn next_seen(&mut self) -> io::Result<Option<u32>> {
        let mut read = [0; LENGTH];
        loop {
            match sys::read(self.seen.as_fd(), &mut read) {
                Ok(_) if read[12..NUMBER] == self.frame[12..NUMBER] => {
                    let number = read[NUMBER..].first_chunk().copied().unwrap_or_default();
                    return Ok(Some(u32::from_be_bytes(number)));
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }
}
