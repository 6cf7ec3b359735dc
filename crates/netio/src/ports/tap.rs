//! A port on a TAP interface: it receives what the kernel sends there, and the reverse.
//!
//! With the virtio-net header and TCP segmentation offload, one read brings a super-frame of up to
//! 64 KiB: ten times the throughput of plain frames. A write delivers the frame within the call, so
//! there is no queue after the scheduler. In the receive direction the interface's own queue must
//! be read until it is empty, since the kernel drops at its tail.

use super::{Kind, Open, Opened, Opening};
use crate::pool::{Offload, Pool};
use crate::port::{Capabilities, Counters, Fault, Port, PortError, Wake};
use crate::sys;
use crate::vnet;
use engine::packet::Buffer;
use engine::port_kind::{Needs, PortKind};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// TAP devices.
pub static KIND: Kind = Kind {
    declared: PortKind {
        name: "tap",
        summary: "TAP devices of ours, between which nothing passes without us",
        needs: Needs::TwoInterfaces,
        has_wire: false,
        alone: Some("a TAP device is one program's"),
        settings: &[],
    },
    open: Open::Between(between),
};

fn between(names: [&str; 2], opening: &Opening<'_>) -> Result<Opened, PortError> {
    let open = |name| Tap::open(name, opening.transmit_ring);
    Ok(Opened {
        ports: vec![Box::new(open(names[0])?), Box::new(open(names[1])?)],
        lanes: super::both_lanes(names),
        gates: Vec::new(),
        without_us: "nothing passes: TAP interfaces need this process".into(),
        warnings: Vec::new(),
    })
}

/// Frames received at once.
const BATCH: usize = 64;

/// Offloads that the reader accepts: checksums, TCP over IPv4 and IPv6, with ECN.
const TCP_OFFLOADS: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// UDP over IPv4 and IPv6 too, since Linux 6.2.
const UDP_OFFLOADS: u32 = 0x20 | 0x40;

/// A port on a TAP interface.
#[derive(Debug)]
pub struct Tap {
    name: String,
    tap: OwnedFd,
    capabilities: Capabilities,
    spare: Option<Buffer>,
    staged: VecDeque<Buffer>,
    counters: Counters,
}

impl Tap {
    /// Opens the TAP of this name in the network namespace of this thread, and makes it if there is
    /// none. Unless it is persistent, it is removed with the port.
    ///
    /// # Errors
    ///
    /// Returns an error if the TAP cannot be opened or made, its MTU cannot be read, or it is
    /// unsuitable.
    pub fn open(name: &str, transmit_ring: usize) -> Result<Self, PortError> {
        let fail = |doing: &'static str| move |e: io::Error| PortError::new(name, doing, e);
        let (tap, name) = sys::open_tap(name).map_err(fail("opening a TAP interface"))?;
        let socket = sys::datagram_socket().map_err(fail("opening a socket"))?;
        let mtu = sys::interface_mtu(socket.as_fd(), &name).map_err(fail("reading its MTU"))?;
        Self::adopt(tap, mtu, transmit_ring)
    }

    /// Takes over an open TAP, possibly of another network namespace. It must have been made with
    /// `IFF_VNET_HDR` and `IFF_NO_PI`.
    ///
    /// # Errors
    ///
    /// Returns an error if it is no TAP made with these flags, or the kernel refuses to set it up.
    pub fn adopt(tap: OwnedFd, mtu: usize, transmit_ring: usize) -> Result<Self, PortError> {
        let (name, suitable) = sys::tap_name(tap.as_fd())
            .map_err(|e| PortError::new("tap", "adopting an open TAP interface", e))?;
        let fail = |doing: &'static str| move |name: &str, e: io::Error| PortError::new(name, doing, e);
        if !suitable {
            let reason = io::Error::other("it must have IFF_TAP, IFF_NO_PI and IFF_VNET_HDR");
            return Err(fail("adopting an open TAP interface")(&name, reason));
        }
        sys::set_nonblocking(tap.as_fd()).map_err(|e| fail("setting it up")(&name, e))?;
        let udp = sys::set_tap_offload(tap.as_fd(), vnet::LEN, TCP_OFFLOADS | UDP_OFFLOADS).is_ok();
        if !udp {
            sys::set_tap_offload(tap.as_fd(), vnet::LEN, TCP_OFFLOADS)
                .map_err(|e| fail("switching offloads on")(&name, e))?;
        }
        Ok(Self {
            name,
            tap,
            capabilities: Capabilities {
                mtu,
                speed: None,
                checksum: true,
                tcp_gso: true,
                udp_gso: udp,
                transmit_ring: transmit_ring.max(1),
            },
            spare: None,
            staged: VecDeque::new(),
            counters: Counters::default(),
        })
    }

    /// The error; a TAP that is down reports EIO.
    fn error(&self, doing: &'static str, source: io::Error) -> PortError {
        let down = source.raw_os_error() == Some(libc::EIO);
        let mut error = PortError::new(&self.name, doing, source);
        if down {
            error.fault = Fault::Down;
        }
        error
    }

    /// Writes a whole frame that leaves nothing to the hardware.
    pub(super) fn write_plain(&self, frame: &[u8]) -> io::Result<()> {
        let plain = [&vnet::encode(&Offload::default())[..], frame].concat();
        sys::write(self.tap.as_fd(), &plain).map(drop)
    }

    /// Keeps a slot for the next frame, if it is long enough for any.
    fn keep(&mut self, pool: &mut Pool, slot: Buffer) {
        if pool.is_big(slot) {
            self.spare = Some(slot);
        } else {
            pool.free(slot);
        }
    }

    /// Reads one frame; `None` if there is none now.
    fn read(&mut self, pool: &mut Pool) -> io::Result<Option<Buffer>> {
        let Some(slot) = self.spare.take().or_else(|| pool.take_any()) else {
            return Ok(None);
        };
        pool.set_len(slot, pool.capacity(slot));
        pool.grow_front(slot, vnet::LEN);
        let read = sys::read(self.tap.as_fd(), pool.bytes_mut(slot));
        pool.cut_front(slot, vnet::LEN);
        let len = match read {
            Ok(len) => len.saturating_sub(vnet::LEN),
            Err(e) => {
                self.keep(pool, slot);
                return match e.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => Ok(None),
                    _ => Err(e),
                };
            }
        };
        // A frame that fills a small slot was longer.
        let truncated = len >= pool.capacity(slot) && !pool.is_big(slot);
        pool.set_len(slot, len);
        match vnet::decode(pool.front(slot)).filter(|_| !truncated) {
            Some(offload) => {
                pool.set_offload(slot, offload);
                self.counters.received += 1;
                self.counters.received_bytes += len as u64;
                Ok(Some(pool.shrink(slot)))
            }
            None => {
                self.counters.refused += 1;
                self.keep(pool, slot);
                Ok(None)
            }
        }
    }
}

impl Port for Tap {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        for _ in 0..BATCH {
            match self.read(pool) {
                Ok(Some(frame)) => into.push(frame),
                Ok(None) => break,
                Err(e) => return Err(self.error("receiving", e)),
            }
        }
        Ok(())
    }

    fn room(&self) -> usize {
        self.capabilities.transmit_ring.saturating_sub(self.staged.len())
    }

    fn unsent(&self) -> usize {
        self.staged.len()
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        let header = vnet::encode(&pool.offload(frame));
        pool.grow_front(frame, vnet::LEN);
        pool.bytes_mut(frame)[..vnet::LEN].copy_from_slice(&header);
        self.staged.push_back(frame);
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        while let Some(&frame) = self.staged.front() {
            let written = sys::write(self.tap.as_fd(), pool.bytes(frame));
            match written {
                Ok(_) => {
                    self.counters.sent += 1;
                    self.counters.sent_bytes += (pool.len(frame) - vnet::LEN) as u64;
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::EAGAIN) => return Ok(()),
                    // The kernel refuses this frame; the next may be good.
                    Some(libc::EINVAL | libc::ENOMEM | libc::EMSGSIZE) => self.counters.dropped += 1,
                    _ => {
                        self.counters.dropped += self.staged.len() as u64;
                        self.staged.drain(..).for_each(|frame| pool.free(frame));
                        return Err(self.error("sending", e));
                    }
                },
            }
            self.staged.pop_front();
            pool.free(frame);
        }
        Ok(())
    }

    fn wake(&self, room: bool) -> Option<Wake<'_>> {
        let events = if room {
            libc::POLLIN | libc::POLLOUT
        } else {
            libc::POLLIN
        };
        Some(Wake {
            fd: self.tap.as_fd(),
            events,
            retry: None,
        })
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        // This checks whether it exists; the next call shows whether it is up.
        sys::tap_name(self.tap.as_fd())
            .map(drop)
            .map_err(|e| self.error("reopening", e))
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
