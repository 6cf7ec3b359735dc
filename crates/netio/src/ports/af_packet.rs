//! A port on any network interface: a packet socket (packet(7)) with the virtio-net header.
//!
//! The header is what lets super-frames and unfinished checksums pass unharmed, at the speed of the
//! kernel's own bridge. Frames come by `recvmmsg` into big slots and leave by `sendmmsg`, past the
//! interface's queueing discipline (`PACKET_QDISC_BYPASS`), since the queueing is ours; what this
//! host sends by itself is not heard (`PACKET_IGNORE_OUTGOING`). A VLAN tag that the kernel keeps
//! beside the frame is put back into it.
//!
//! **The transmit ring.** Depth is counted in frames of the MTU, a super-frame as its segments.
//! What is handed to the kernel and not yet sent is what `SIOCOUTQ` tells of this socket, in the
//! kernel's own accounting of memory; the socket's buffer is sized so that the kernel wakes us when
//! it falls below the depth. Honest limits: a driver that lets go of frames before they are on the
//! wire (veth does at once, some do early) hides what it holds; the frames in a hardware ring that
//! a *previous* owner left are not counted; and what is behind the interface (a modem, a switch)
//! cannot be seen at all. There the policy's bandwidth must keep the queue here.

use super::{Kind, Open, Opened, Opening};
use crate::clock;
use crate::interface::Interface;
use crate::messages::{BATCH, Message, Messages, Outgoing};
use crate::pool::{Offload, Pool};
use crate::port::{Capabilities, Counters, ETHERNET, Fault, PacedPort, Port, PortError, TAG, Wake};
use crate::realiser::launch;
use crate::sys;
use crate::vnet;
use engine::packet::Buffer;
use engine::port_kind::{Needs, PortKind};
use engine::units::{Duration, Instant};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Packet sockets.
pub static KIND: Kind = Kind {
    declared: PortKind {
        name: "af_packet",
        summary: "packet sockets: works on every interface, and passes super-frames",
        needs: Needs::TwoInterfaces,
        has_wire: true,
        settings: &[],
    },
    open: Open::Between(between),
};

fn between(names: [&str; 2], opening: &Opening<'_>) -> Result<Opened, PortError> {
    let open = |name| {
        AfPacket::open(Settings {
            transmit_ring: opening.transmit_ring,
            ..Settings::new(name)
        })
    };
    super::bump(names, [open(names[0])?, open(names[1])?], opening)
}

/// How soon to try again when the driver's ring was full, which wakes nobody.
const RETRY: Duration = Duration::from_micros(50);

/// Bytes of received frames that may wait in the kernel while this thread does not run.
const RECEIVE_BUFFER: usize = 16 << 20;

/// Bytes to receive at once, as far as the last batch tells: they are copied out again while they
/// are in the cache.
const BATCH_BYTES: usize = 256 << 10;

/// Calls of `recvmmsg` that failed on a single frame, in one batch at most.
const BAD_FRAMES: usize = 16;

/// Settings of the port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The interface.
    pub interface: String,
    /// Frames handed to the kernel and not yet sent at most; see the head of this file.
    pub transmit_ring: usize,
    /// Whether to hear frames for other hosts: needed between two interfaces, not for what this
    /// host sends.
    pub promiscuous: bool,
    /// Whether to receive at all.
    pub receive: bool,
    /// Whether to tell when each frame arrived, and not only when it was taken in.
    pub arrival_times: bool,
}

impl Settings {
    /// For a bump in the wire on this interface.
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.into(),
            transmit_ring: 64,
            promiscuous: true,
            receive: true,
            arrival_times: false,
        }
    }
}

/// A port on a network interface.
#[derive(Debug)]
pub struct AfPacket {
    settings: Settings,
    socket: OwnedFd,
    index: u32,
    capabilities: Capabilities,
    /// The kernel's price of a frame of the MTU.
    frame_cost: usize,
    messages: Messages,
    /// Big slots to receive into.
    spare: Vec<Buffer>,
    /// How many frames to receive at once.
    batch: usize,
    /// Frames to send, their headers in front, and their sum in frames of the MTU.
    staged: VecDeque<Staged>,
    staged_frames: usize,
    /// The frame of gaps, a header in front.
    gap: Box<[u8]>,
    launch: Option<Foreign>,
    /// The clock of arrivals, where they are told.
    arrivals: Option<Foreign>,
    /// Frames with the kernel when it was last asked.
    outstanding: Cell<usize>,
    /// The driver's ring was full.
    congested: bool,
    counters: Counters,
    missed: Cell<u64>,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug)]
enum Staged {
    Frame(Buffer),
    /// So many bytes of the frame of gaps, the header in front included.
    Gap(usize),
}

/// Another of the kernel's clocks.
#[derive(Clone, Copy, Debug)]
struct Foreign {
    clock: fn() -> u64,
    /// What it is ahead of ours, and when that was read.
    offset: i64,
    read: Instant,
}

impl Foreign {
    /// It may be set meanwhile.
    const VALID: Duration = Duration::from_secs(1);

    fn new(clock: fn() -> u64) -> Self {
        let (before, theirs, after) = (clock::now(), clock(), clock::now());
        Self {
            clock,
            offset: launch::offset(before.nanos(), theirs, after.nanos()),
            read: after,
        }
    }

    /// Reads it again, if that is long ago.
    fn refresh(&mut self) {
        if clock::now().since(self.read) > Self::VALID {
            *self = Self::new(self.clock);
        }
    }
}

/// The kernel's price of a frame: its buffer with the shared part, rounded up, and the descriptor.
fn cost(mtu: usize) -> usize {
    (mtu + ETHERNET + TAG + 320 + 16).next_power_of_two() + 256
}

impl AfPacket {
    /// Opens the port.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses the packet socket or
    /// one of its settings.
    pub fn open(settings: Settings) -> Result<Self, PortError> {
        let fail = |doing: &'static str| {
            let name = settings.interface.clone();
            move |e: io::Error| PortError::new(&name, doing, e)
        };
        let socket = sys::packet_socket().map_err(fail("opening a packet socket"))?;
        let index = sys::interface_index(socket.as_fd(), &settings.interface).map_err(fail("opening"))?;
        let mtu =
            sys::interface_mtu(socket.as_fd(), &settings.interface).map_err(fail("asking for its MTU"))?;
        let speed = sys::interface_speed(socket.as_fd(), &settings.interface);
        for option in [
            libc::PACKET_VNET_HDR,
            libc::PACKET_AUXDATA,
            libc::PACKET_QDISC_BYPASS,
            libc::PACKET_IGNORE_OUTGOING,
        ] {
            sys::set_packet_option(socket.as_fd(), option).map_err(fail("setting up the packet socket"))?;
        }
        let transmit_ring = settings.transmit_ring.max(1);
        sys::set_buffers(socket.as_fd(), RECEIVE_BUFFER, transmit_ring * cost(mtu))
            .map_err(fail("sizing the socket's buffers"))?;
        if settings.promiscuous {
            sys::set_promiscuous(socket.as_fd(), index).map_err(fail("switching to promiscuous mode"))?;
        }
        if settings.arrival_times {
            sys::set_arrival_times(socket.as_fd()).map_err(fail("asking for times of arrival"))?;
        }
        sys::bind_packet(socket.as_fd(), index, settings.receive)
            .map_err(fail("binding to the interface"))?;
        Ok(Self {
            index,
            capabilities: Capabilities {
                mtu,
                speed,
                checksum: true,
                tcp_gso: true,
                udp_gso: true,
                transmit_ring,
            },
            frame_cost: cost(mtu),
            messages: Messages::new(),
            spare: Vec::with_capacity(BATCH),
            batch: BATCH,
            staged: VecDeque::with_capacity(2 * BATCH),
            staged_frames: 0,
            gap: Box::default(),
            launch: None,
            arrivals: settings.arrival_times.then(|| Foreign::new(sys::realtime)),
            outstanding: Cell::new(0),
            congested: false,
            counters: Counters::default(),
            missed: Cell::new(0),
            settings,
            socket,
        })
    }

    /// The error, told apart by what has become of the interface.
    fn error(&self, doing: &'static str, source: io::Error) -> PortError {
        let mut error = PortError::new(&self.settings.interface, doing, source);
        if let (Fault::Down, Err(now)) = (error.fault, self.state()) {
            error.fault = now;
        }
        error
    }

    /// Whether the interface that the socket is bound to is there and up.
    fn state(&self) -> Result<(), Fault> {
        match sys::interface_index(self.socket.as_fd(), &self.settings.interface) {
            Ok(index) if index == self.index => {}
            _ => return Err(Fault::Gone),
        }
        match sys::interface_is_up(self.socket.as_fd(), &self.settings.interface) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Fault::Down),
            Err(_) => Err(Fault::Gone),
        }
    }

    /// A frame's length in frames of the MTU.
    fn frames(&self, len: usize) -> usize {
        len.div_ceil(self.capabilities.mtu + ETHERNET + TAG)
    }

    fn ask_outstanding(&self) {
        let bytes = sys::unsent(self.socket.as_fd()).unwrap_or(0);
        // A bare socket is accounted one byte.
        self.outstanding
            .set((bytes.saturating_sub(1)).div_ceil(self.frame_cost));
    }

    /// Makes a received slot a frame: reads the header before it, puts the tag back.
    fn finish(&mut self, pool: &mut Pool, slot: Buffer, message: Message) -> Option<Buffer> {
        let len = message
            .len
            .checked_sub(vnet::LEN)
            .filter(|_| !message.truncated)?;
        pool.set_len(slot, len);
        let mut offload = vnet::decode(pool.front(slot))?;
        if let Some(tag) = message.tag {
            put_tag(pool, slot, tag, &mut offload)?;
        }
        pool.set_offload(slot, offload);
        if let (Some(clock), Some(arrived)) = (self.arrivals, message.arrived) {
            let ours = launch::carried(Instant::from_nanos(arrived), -clock.offset);
            pool.set_arrived(slot, Instant::from_nanos(ours));
        }
        self.counters.received += 1;
        self.counters.received_bytes += pool.len(slot) as u64;
        Some(pool.shrink(slot))
    }

    /// Gives up what was to be sent.
    fn drop_staged(&mut self, pool: &mut Pool) {
        self.counters.dropped += self.staged.len() as u64;
        for staged in self.staged.drain(..) {
            if let Staged::Frame(frame) = staged {
                pool.free(frame);
            }
        }
        self.staged_frames = 0;
    }

    /// Takes the first staged frame out.
    fn unstage(&mut self, pool: &mut Pool) -> usize {
        let len = match self.staged.pop_front() {
            None => return 0,
            Some(Staged::Gap(len)) => len - vnet::LEN,
            Some(Staged::Frame(frame)) => {
                let len = pool.len(frame) - vnet::LEN;
                pool.free(frame);
                len
            }
        };
        self.staged_frames -= self.frames(len);
        len
    }
}

/// Puts a VLAN tag back where it was: behind the two addresses.
fn put_tag(
    pool: &mut Pool,
    slot: Buffer,
    [protocol, content]: [u16; 2],
    offload: &mut Offload,
) -> Option<()> {
    if pool.len(slot) < 12 {
        return None;
    }
    pool.grow_front(slot, TAG);
    let bytes = pool.bytes_mut(slot);
    bytes.copy_within(TAG..TAG + 12, 0);
    bytes[12..14].copy_from_slice(&protocol.to_be_bytes());
    bytes[14..16].copy_from_slice(&content.to_be_bytes());
    if let Some(unfinished) = &mut offload.checksum {
        unfinished.start += TAG as u16;
    }
    if offload.gso.is_some() {
        offload.header = offload.header.saturating_add(TAG as u16);
    }
    Some(())
}

impl Port for AfPacket {
    fn name(&self) -> &str {
        &self.settings.interface
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        // The slots that were given back last come first: their memory is still in the cache.
        let missing = self.batch.saturating_sub(self.spare.len());
        let fresh = std::iter::from_fn(|| pool.take_big()).take(missing);
        self.spare.splice(0..0, fresh);
        if self.spare.is_empty() {
            // Frames wait in the kernel until slots come back, and are missed if that takes too
            // long.
            return Ok(());
        }
        self.arrivals.iter_mut().for_each(Foreign::refresh);
        for _ in 0..BAD_FRAMES {
            match self.messages.receive(
                self.socket.as_fd(),
                pool,
                &self.spare[..self.batch.min(self.spare.len())],
                vnet::LEN,
            ) {
                Ok(count) => {
                    let before = self.counters.received_bytes;
                    for index in 0..count {
                        let slot = self.spare[index];
                        match self.finish(pool, slot, self.messages.message(index)) {
                            Some(frame) => into.push(frame),
                            None => {
                                self.counters.refused += 1;
                                pool.free(slot);
                            }
                        }
                    }
                    self.spare.drain(..count);
                    let mean = (self.counters.received_bytes - before) as usize / count.max(1);
                    self.batch = (BATCH_BYTES / mean.max(1)).clamp(1, BATCH);
                    return Ok(());
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => return Ok(()),
                    // A super-frame that the header cannot describe; it is gone, and the next may
                    // be good.
                    Some(libc::EINVAL) => self.counters.refused += 1,
                    _ => return Err(self.error("receiving", e)),
                },
            }
        }
        Ok(())
    }

    fn room(&self) -> usize {
        let ring = self.capabilities.transmit_ring;
        if self.outstanding.get() > 0 && ring <= self.outstanding.get() + self.staged_frames {
            self.ask_outstanding();
        }
        if self.congested {
            0
        } else {
            ring.saturating_sub(self.outstanding.get() + self.staged_frames)
        }
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        self.staged_frames += self.frames(pool.len(frame));
        let header = vnet::encode(&pool.offload(frame));
        pool.grow_front(frame, vnet::LEN);
        pool.bytes_mut(frame)[..vnet::LEN].copy_from_slice(&header);
        self.staged.push_back(Staged::Frame(frame));
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        if self.staged.is_empty() {
            self.congested = false;
            return Ok(());
        }
        self.congested = false;
        self.launch.iter_mut().for_each(Foreign::refresh);
        while !self.staged.is_empty() {
            let launch = self.launch;
            let time = |frame| Some(launch::carried(pool.launch(frame)?, launch?.offset));
            let frames = self.staged.iter().map(|staged| match *staged {
                Staged::Frame(frame) => Outgoing::Frame(frame, time(frame)),
                Staged::Gap(len) => Outgoing::Bytes(&self.gap[..len]),
            });
            match self.messages.send(self.socket.as_fd(), pool, frames) {
                Ok(count) => {
                    self.counters.sent += count as u64;
                    for _ in 0..count {
                        self.counters.sent_bytes += self.unstage(pool) as u64;
                    }
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => break,
                    // The driver's ring is full. The kernel dropped its copy; ours is still here.
                    Some(libc::ENOBUFS | libc::ENOMEM) => {
                        self.congested = true;
                        break;
                    }
                    Some(libc::EMSGSIZE | libc::EINVAL) => {
                        self.counters.dropped += 1;
                        self.unstage(pool);
                    }
                    _ => {
                        self.drop_staged(pool);
                        return Err(self.error("sending", e));
                    }
                },
            }
        }
        self.ask_outstanding();
        Ok(())
    }

    fn wake(&self, room: bool) -> Option<Wake<'_>> {
        let events = if room && !self.congested {
            libc::POLLIN | libc::POLLOUT
        } else {
            libc::POLLIN
        };
        let retry = (self.congested || !self.staged.is_empty()).then_some(RETRY);
        Some(Wake {
            fd: self.socket.as_fd(),
            events,
            retry,
        })
    }

    fn revive(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.drop_staged(pool);
        match self.state() {
            Ok(()) => {}
            Err(Fault::Gone) => {
                let fresh = Self::open(self.settings.clone())?;
                let old = std::mem::replace(self, fresh);
                old.spare.into_iter().for_each(|slot| pool.free(slot));
                (self.counters, self.missed, self.gap) = (old.counters, old.missed, old.gap);
                if old.launch.is_some() {
                    // Where it could be asked of the former interface, it can of this one.
                    let _ = self.enable_launch_times();
                }
                self.state()
                    .map_err(|fault| PortError::fault(&self.settings.interface, "opening again", fault))?;
            }
            Err(fault) => return Err(PortError::fault(&self.settings.interface, "opening again", fault)),
        }
        if let Ok(mtu) = sys::interface_mtu(self.socket.as_fd(), &self.settings.interface) {
            self.capabilities.mtu = mtu;
        }
        Ok(())
    }

    fn paced(&mut self) -> Option<&mut dyn PacedPort> {
        Some(self)
    }

    fn counters(&self) -> Counters {
        self.missed
            .set(self.missed.get() + sys::packet_drops(self.socket.as_fd()));
        Counters {
            missed: self.missed.get(),
            ..self.counters
        }
    }
}

impl PacedPort for AfPacket {
    fn outstanding(&self) -> usize {
        self.ask_outstanding();
        self.outstanding.get() + self.staged_frames
    }

    fn transmit_rings(&self) -> usize {
        let interface = Interface::numbered(self.index);
        let rings = interface.and_then(|interface| interface.transmit_queues());
        rings.map_or(1, |rings| rings as usize)
    }

    fn device_sent(&self) -> Option<u64> {
        Interface::numbered(self.index).ok()?.sent
    }

    fn prepare_gap(&mut self, frame: &[u8]) {
        self.gap = [&vnet::encode(&Offload::default())[..], frame].concat().into();
    }

    fn transmit_gap(&mut self, len: usize) {
        let len = (len + vnet::LEN).min(self.gap.len());
        self.staged_frames += self.frames(len - vnet::LEN);
        self.staged.push_back(Staged::Gap(len));
    }

    fn enable_launch_times(&mut self) -> io::Result<()> {
        sys::set_launch_times(self.socket.as_fd())?;
        self.launch = Some(Foreign::new(sys::tai));
        Ok(())
    }
}
