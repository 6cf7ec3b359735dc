//! `af_xdp`: frames by AF_XDP sockets, one for each receive queue of the interface.
//!
//! Cheaper per packet than a packet socket, but without super-frames. Differences from the default
//! port:
//!
//! - **Unfinished checksums.** A veth or virtio peer passes TCP and UDP with only the
//!   pseudo-header's sum in the checksum field, and XDP does not report it. If the field is exactly
//!   that sum, the checksum is taken to be unfinished, and the sending port completes it. (A
//!   finished checksum with that value stays the same.) A wrong checksum stays wrong, for the
//!   receiver to detect. Unfinished checksums of SCTP and inside tunnels are not recognised.
//! - **Super-frames.** In native mode a veth peer stops sending them by itself. In generic mode
//!   they are too long and dropped: use `ethtool -K PEER tso off gso off` at the sender. On a card:
//!   `lro off` and `rx-gro-hw off`.
//! - **Long frames.** Above [`ONE_FRAME`] bytes a packet takes several UMEM frames (Linux 6.6).
//! - **Copies.** Frames are copied between the UMEM and the pool, twice each. In return there is
//!   one pool for all ports, and long queues do not starve the receive ring.
//! - **Queues.** Frames on a receive queue without a socket would bypass the shaper. So every queue
//!   in use when the port opens gets one, or the port does not open.
//! - **Busy polling** pays only if the interface's `napi_defer_hard_irqs` is set (2) and its
//!   `gro_flush_timeout` is short (20000 ns): with 200 µs, a packet without traffic around it waits
//!   that long.

pub mod ring;
pub mod socket;
pub mod umem;

use super::{Kind, Open, Opened, Opening};
use crate::bpf::programs::TO_SOCKET;
use crate::bpf::syscall::{self, Hook};
use crate::bpf::{Attached, Heartbeat};
use crate::checksum;
use crate::checksum::Unfinished;
use crate::fail_open::Capture;
use crate::interface::Interface;
use crate::pool::{Offload, Pool};
use crate::port::{Capabilities, Counters, ETHERNET, Port, PortError, TAG, Wake};
use engine::header::{Family, Headers};
use engine::packet::Buffer;
use engine::port_kind::{Needs, PortKind};
use engine::settings::{Raw, SettingValue};
use engine::units::Duration;
use engine::{choices, settings};
use socket::{Shape, Socket, Watch};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

/// The longest frame that is guaranteed to fit one UMEM frame: the kernel reserves 256 bytes before
/// it, and drivers some after it.
pub const ONE_FRAME: usize = 3072;

/// Frames received from each socket at once.
const BATCH: usize = 64;

/// When to look for room again.
const ROOM_RETRY: Duration = Duration::from_micros(50);

choices! {
    /// Where the program runs.
    pub enum XdpMode {
        /// In the driver if it supports XDP, else generic.
        Auto = "auto",
        /// In the driver.
        Native = "native",
        /// After the driver, in the network stack.
        Generic = "generic",
    }
}

settings! {
    /// The settings of this kind of port alone.
    pub struct PolicySettings {
        /// Where the program of an af_xdp port runs
        xdp_mode: XdpMode = default "auto",
            "native: refused where the driver cannot; generic: works everywhere, and drops super-frames",
            "the driver's own mode needs no copy before the program";
        /// Packets that may wait to be received
        receive_ring: RingSize = default "1024",
            "too small: bursts are dropped before they are classified; too large: memory",
            "about 12 ms of full frames at 1 Gbit/s";
        /// Whether to spin for packets rather than sleep
        busy_poll: bool = default "false",
            "true: a processor core is busy all the time, for some microseconds less delay",
            "a core is worth more than microseconds on most links";
    }
}

/// Packets that fit a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingSize(u32);

impl SettingValue for RingSize {
    const UNIT: &'static str = "a whole number from 1 to 65536";

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match u32::from_raw(raw)? {
            size @ 1..=65_536 => Ok(Self(size)),
            size => Err(format!("expected {}; found {size}", Self::UNIT)),
        }
    }
}

/// AF_XDP sockets.
pub static KIND: Kind = Kind {
    declared: PortKind {
        name: "af_xdp",
        summary: "AF_XDP sockets: faster where the driver supports it; no super-frames",
        needs: Needs::TwoInterfaces,
        has_wire: true,
        alone: Some("a receive queue of the interface has one socket"),
        settings: PolicySettings::SETTINGS,
    },
    open: Open::Between(between),
};

fn between(names: [&str; 2], opening: &Opening<'_>) -> Result<Opened, PortError> {
    /// Frames to take from the device per poll.
    const BUSY_POLL_BATCH: u32 = 64;
    let own = PolicySettings::read(opening.own, &[], &mut Vec::new());
    let own = own.ok_or_else(|| super::unreadable(names[0]))?;
    let settings = Settings {
        mode: own.xdp_mode,
        transmit_ring: opening.transmit_ring,
        receive_ring: own.receive_ring.0.next_power_of_two(),
        busy_poll: own.busy_poll.then_some(BUSY_POLL_BATCH),
    };
    let open = |name| AfXdp::open(name, settings);
    let mut opened = super::bump(names, [open(names[0])?, open(names[1])?], opening)?;
    if own.xdp_mode == XdpMode::Generic {
        let warning = "in generic mode super-frames are dropped: switch them off at the senders, `ethtool -K IF tso off gso off`, \
             or use af_packet";
        opened.warnings.push(warning.into());
    }
    Ok(opened)
}

/// Settings of the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Where the program runs.
    pub mode: XdpMode,
    /// Frames that may be queued after the scheduler.
    pub transmit_ring: usize,
    /// UMEM frames that the kernel may fill before we read them; a power of two.
    pub receive_ring: u32,
    /// Frames to take from the device per busy poll, instead of by interrupts.
    pub busy_poll: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: XdpMode::Auto,
            transmit_ring: 64,
            receive_ring: 2048,
            busy_poll: None,
        }
    }
}

/// An interface by AF_XDP.
#[derive(Debug)]
pub struct AfXdp {
    name: String,
    settings: Settings,
    open: OpenSockets,
    counters: Counters,
    /// Frames missed by sockets that are closed by now.
    missed_before: u64,
    /// A packet of several UMEM frames, as far as it was read.
    partial: Vec<u8>,
}

/// What is reopened when the interface comes back.
#[derive(Debug)]
struct OpenSockets {
    sockets: Vec<Socket>,
    map: OwnedFd,
    /// If there are several sockets, one descriptor for all of them.
    watch: Option<Watch>,
    mtu: usize,
    /// UMEM frames of the longest packet.
    pieces: usize,
}

impl OpenSockets {
    fn new(name: &str, settings: &Settings) -> io::Result<Self> {
        let interface = Interface::named(name)?;
        let queues = interface.receive_queues()?;
        let longest = interface.mtu + ETHERNET + TAG;
        let frame = if longest <= 1536 { 2048 } else { 4096 };
        let pieces = if longest <= ONE_FRAME {
            1
        } else {
            longest.div_ceil(frame)
        };
        let transmit = (settings.transmit_ring.max(1) * pieces).next_power_of_two();
        let map = syscall::new_socket_map(queues)?;
        let mut sockets = Vec::new();
        for queue in 0..queues {
            let shape = Shape {
                interface: interface.index,
                queue,
                receive: settings.receive_ring,
                transmit: u32::try_from(transmit).map_err(io::Error::other)?,
                frame,
                fragments: pieces > 1,
                busy_poll: settings.busy_poll,
            };
            let socket = Socket::open(&shape)?;
            syscall::set_socket(map.as_fd(), queue, socket.fd())?;
            sockets.push(socket);
        }
        let watch = if queues > 1 {
            Some(Watch::new(sockets.iter().map(Socket::fd))?)
        } else {
            None
        };
        Ok(Self {
            sockets,
            map,
            watch,
            mtu: interface.mtu,
            pieces,
        })
    }
}

impl AfXdp {
    /// Opens sockets on all receive queues. Frames arrive once [`crate::fail_open`] has attached
    /// the programs.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses a socket or their map.
    pub fn open(name: &str, settings: Settings) -> Result<Self, PortError> {
        let open = OpenSockets::new(name, &settings)
            .map_err(|e| PortError::new(name, "opening AF_XDP sockets", e))?;
        Ok(Self {
            name: name.into(),
            settings,
            open,
            counters: Counters::default(),
            missed_before: 0,
            partial: Vec::new(),
        })
    }

    fn missed(&self) -> u64 {
        self.open.sockets.iter().map(Socket::missed).sum()
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The unfinished checksum of a frame; none unless its field is the pseudo-header's sum.
fn unfinished(frame: &[u8]) -> Option<Unfinished> {
    let headers = Headers::parse(frame, 0);
    let offset = match headers.key.protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    let (network, transport) = (usize::from(headers.l3?), headers.l4?);
    let end = network + headers.l3_len as usize;
    let length = end.checked_sub(usize::from(transport))?;
    let addresses = match headers.key.family {
        Family::V6 => frame.get(network + 8..network + 40)?,
        _ => frame.get(network + 12..network + 20)?,
    };
    let sum = checksum::add(u64::from(headers.key.protocol) + length as u64, addresses);
    let field = usize::from(transport) + offset;
    let value = u16::from_be_bytes([*frame.get(field)?, *frame.get(field + 1)?]);
    (value == checksum::fold(sum)).then_some(Unfinished {
        start: transport,
        offset: offset as u16,
    })
}

/// Copies a received packet into the pool.
fn deliver(pool: &mut Pool, bytes: &[u8], counters: &mut Counters, into: &mut Vec<Buffer>) {
    let offload = Offload {
        checksum: unfinished(bytes),
        ..Offload::default()
    };
    match pool.put(bytes, offload) {
        Some(buffer) => {
            counters.received += 1;
            counters.received_bytes += bytes.len() as u64;
            into.push(buffer);
        }
        None => counters.refused += 1,
    }
}

impl Port for AfXdp {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(self.open.mtu, self.settings.transmit_ring)
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        let before = into.len();
        let Self {
            open,
            partial,
            counters,
            ..
        } = self;
        for socket in &mut open.sockets {
            let end = into.len() + BATCH;
            socket.receive(|bytes, continues| {
                if continues || !partial.is_empty() {
                    partial.extend_from_slice(bytes);
                    if !continues {
                        deliver(pool, partial, counters, into);
                        partial.clear();
                    }
                } else {
                    deliver(pool, bytes, counters, into);
                }
                into.len() < end
            });
        }
        if into.len() == before {
            // Nothing arrived: check that the interface still works.
            for socket in &self.open.sockets {
                socket
                    .check()
                    .map_err(|e| PortError::new(&self.name, "receiving", e))?;
            }
        }
        Ok(())
    }

    fn room(&self) -> usize {
        let room = self.open.sockets.first().map_or(0, Socket::room);
        (room / self.open.pieces).min(self.settings.transmit_ring)
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        let bytes = pool.bytes(frame);
        let taken = self
            .open
            .sockets
            .first_mut()
            .is_some_and(|socket| socket.transmit(bytes));
        if taken {
            self.counters.sent += 1;
            self.counters.sent_bytes += bytes.len() as u64;
        } else {
            self.counters.dropped += 1;
        }
        pool.free(frame);
    }

    fn unsent(&self) -> usize {
        let pending = self.open.sockets.first().map_or(0, Socket::pending);
        pending as usize / self.open.pieces
    }

    fn kick(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        let Some(socket) = self.open.sockets.first_mut() else {
            return Ok(());
        };
        socket.kick().map_err(|e| {
            self.counters.dropped += u64::from(socket.pending()) / self.open.pieces as u64;
            PortError::new(&self.name, "sending", e)
        })
    }

    fn wake(&self, room: bool) -> Option<Wake<'_>> {
        let fd = match &self.open.watch {
            Some(watch) => watch.as_fd(),
            None => self.open.sockets.first()?.fd(),
        };
        Some(Wake {
            fd,
            events: libc::POLLIN,
            retry: room.then_some(ROOM_RETRY),
        })
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        self.missed_before += self.missed();
        // The old sockets occupy the queues until they are closed.
        self.open.sockets.clear();
        self.open = OpenSockets::new(&self.name, &self.settings)
            .map_err(|e| PortError::new(&self.name, "reopening AF_XDP sockets", e))?;
        self.partial.clear();
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters {
            missed: self.missed_before + self.missed(),
            ..self.counters
        }
    }
}

impl Capture for AfXdp {
    const COPIES: bool = false;

    fn attach(&mut self, own: &Heartbeat, to: &mut Attached) -> io::Result<()> {
        let fragments = self.open.pieces > 1;
        let mut attach = |hook| -> io::Result<()> {
            let map = Some(self.open.map.as_fd());
            let program = syscall::load("suimon_socket", hook, fragments, &TO_SOCKET, own.map(), map)?;
            to.add(&program)
        };
        match self.settings.mode {
            XdpMode::Native => attach(Hook::XdpNative),
            XdpMode::Generic => attach(Hook::XdpGeneric),
            XdpMode::Auto => attach(Hook::XdpNative).or_else(|native| match native.kind() {
                ErrorKind::ResourceBusy | ErrorKind::AlreadyExists | ErrorKind::PermissionDenied => {
                    Err(native)
                }
                _ => attach(Hook::XdpGeneric),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame with `payload` of this protocol from 10.0.0.1 to 10.0.0.2; `tag` may be
    /// empty.
    fn v4(tag: &[u8], protocol: u8, payload: &[u8]) -> Vec<u8> {
        let len = (20 + payload.len()) as u16;
        let mut frame = [&[2; 12], tag, &[0x08, 0x00, 0x45, 0]].concat();
        frame.extend(len.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(payload);
        frame
    }

    fn v6(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
        frame.extend((payload.len() as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend([0xfd; 32]);
        frame.extend(payload);
        frame
    }

    /// The sum of the pseudo-header, as a sender leaves it in the field.
    fn pseudo(addresses: &[u8], protocol: u8, len: usize) -> [u8; 2] {
        let sum = checksum::add(u64::from(protocol) + len as u64, addresses);
        checksum::fold(sum).to_be_bytes()
    }

    const V4: [u8; 8] = [10, 0, 0, 1, 10, 0, 0, 2];

    #[test]
    fn a_checksum_that_was_left_to_the_hardware_is_recognised_and_completed() {
        let mut tcp = vec![7; 33];
        tcp[12] = 0x50;
        let mut udp = vec![9; 108];
        udp[4..6].copy_from_slice(&108u16.to_be_bytes());
        for (protocol, at, segment) in [(TCP, 16, tcp), (UDP, 6, udp)] {
            for (addresses, tag) in [
                (&V4[..], &[][..]),
                (&V4[..], &[0x81, 0, 0, 5]),
                (&[0xfd; 32][..], &[]),
            ] {
                let mut segment = segment.clone();
                let sum = pseudo(addresses, protocol, segment.len());
                segment[at..at + 2].copy_from_slice(&sum);
                let four = addresses.len() == 8;
                let mut frame = if four {
                    v4(tag, protocol, &segment)
                } else {
                    v6(protocol, &segment)
                };
                let offload = unfinished(&frame).expect("an unfinished checksum");
                assert_eq!(usize::from(offload.start), frame.len() - segment.len());
                assert!(checksum::finish(&mut frame, offload));
                let start = checksum::add(u64::from(protocol) + segment.len() as u64, addresses);
                let whole = checksum::add(start, &frame[frame.len() - segment.len()..]);
                assert_eq!(checksum::fold(whole), 0xffff);
                assert_eq!(unfinished(&frame), None, "finished once is enough");
            }
        }
    }

    #[test]
    fn a_wrong_or_absent_checksum_is_left_as_it_is() {
        let mut udp = vec![9; 28];
        udp[4..6].copy_from_slice(&28u16.to_be_bytes());
        assert_eq!(unfinished(&v4(&[], UDP, &udp)), None);
        udp[6..8].fill(0);
        assert_eq!(unfinished(&v4(&[], UDP, &udp)), None);
    }

    #[test]
    fn garbage_has_no_checksum_and_does_no_harm() {
        let frame = v4(&[], TCP, &[0x50; 40]);
        for len in 0..frame.len() {
            assert_eq!(unfinished(&frame[..len]), None);
        }
    }
}
