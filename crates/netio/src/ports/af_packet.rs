//! A port on any network interface: a packet socket (packet(7)) with the virtio-net header.
//!
//! With the header, super-frames and unfinished checksums pass unharmed, at the speed of the
//! kernel's own bridge. Frames are received by `recvmmsg` into big slots. They are sent by
//! `sendmmsg` and bypass the interface's qdisc (`PACKET_QDISC_BYPASS`), since the queueing is ours.
//! What this host itself sends is not received (`PACKET_IGNORE_OUTGOING`). A VLAN tag that the
//! kernel passes beside the frame is inserted again.
//!
//! **The transmit ring.** Its depth is in frames of the MTU; a super-frame counts as its segments.
//! The backlog in the kernel is that of `SIOCOUTQ`, in the kernel's own memory accounting; the
//! socket's buffer is sized so that the kernel wakes us when the backlog falls below the depth.
//! Limits: a driver that frees frames before they are on the wire (veth at once, others early)
//! hides its backlog; frames that a *previous* owner left in a hardware ring are not counted;
//! queues beyond the interface (a modem, a switch) are invisible. In that last case the policy's
//! bandwidth must keep the queue here.

use super::{Kind, Open, Opened, Opening};
use crate::clock;
use crate::interface::Interface;
use crate::messages::{BATCH, Message, Messages, Outgoing};
use crate::pool::{Offload, Pool};
use crate::port::{Capabilities, Counters, ETHERNET, Fault, PacedPort, Port, PortError, TAG, Wake};
use crate::realiser::launch;
use crate::sys::{self, Receive};
use crate::vnet;
use engine::packet::Buffer;
use engine::port_kind::{Needs, PortKind};
use engine::units::{Duration, Instant};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

/// Packet sockets.
pub static KIND: Kind = Kind {
    declared: PortKind {
        name: "af_packet",
        summary: "packet sockets: works on every interface, and passes super-frames",
        needs: Needs::TwoInterfaces,
        has_wire: true,
        alone: None,
        settings: &[],
    },
    open: Open::Between(between),
};

fn between(names: [&str; 2], opening: &Opening<'_>) -> Result<Opened, PortError> {
    let open = |name, receive| {
        AfPacket::open(Settings {
            transmit_ring: opening.transmit_ring,
            receive,
            promiscuous: receive,
            ..Settings::new(name)
        })
    };
    let [a, b] = names;
    let receiving = [open(a, true)?, open(b, true)?];
    match opening.by_direction {
        true => super::bumps(names, receiving, [open(a, false)?, open(b, false)?], opening),
        false => super::bump(names, receiving, opening),
    }
}

/// When to try again after the driver's ring was full: no event reports room in it.
const RETRY: Duration = Duration::from_micros(50);

/// Bytes of received frames that the kernel may queue while this thread does not run.
const RECEIVE_BUFFER: usize = 16 << 20;

/// Bytes to receive at once, estimated from the last batch: they are to be copied while they are
/// in the cache.
const BATCH_BYTES: usize = 256 << 10;

/// Calls of `recvmmsg` per batch that may fail on a single frame.
const BAD_FRAMES: usize = 16;

/// Settings of the port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The interface.
    pub interface: String,
    /// Frames handed to the kernel and not yet sent at most; see the head of this file.
    pub transmit_ring: usize,
    /// Whether to receive frames for other hosts: needed between two interfaces, not for what this
    /// host sends.
    pub promiscuous: bool,
    /// Whether to receive at all.
    pub receive: bool,
    /// Whether to use the kernel's arrival timestamp of each frame rather than the time of reading.
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
    /// The kernel's memory charge for a frame of the MTU.
    frame_cost: usize,
    messages: Messages,
    /// Big slots to receive into.
    spare: Vec<Buffer>,
    /// How many frames to receive at once.
    batch: usize,
    /// Frames to send, with their headers in front, and their number in frames of the MTU.
    staged: VecDeque<Staged>,
    staged_frames: usize,
    /// The gap frame, with its header in front.
    gap: Box<[u8]>,
    /// The clock of launch times, if enabled.
    launch: Option<ClockOffset>,
    /// The clock of arrival timestamps, if enabled.
    arrivals: Option<ClockOffset>,
    /// The arrival timestamps of frames that are not to be discarded, if others are.
    taken: Option<Range<u64>>,
    /// Frames in the kernel when it was last read.
    outstanding: Cell<usize>,
    /// The driver's ring is full.
    congested: bool,
    counters: Counters,
    missed: Cell<u64>,
}

/// A frame to send.
#[derive(Clone, Copy, Debug)]
enum Staged {
    Frame(Buffer),
    /// This many bytes of the gap frame, including the header in front.
    Gap(usize),
}

/// Another kernel clock, and its offset from the data plane's.
#[derive(Clone, Copy, Debug)]
struct ClockOffset {
    clock: fn() -> u64,
    /// By how much it is ahead, and when that was measured.
    offset: i64,
    read: Instant,
}

impl ClockOffset {
    /// An offset is measured again after this time, since the clock may be set.
    const VALID: Duration = Duration::from_secs(1);

    fn new(clock: fn() -> u64) -> Self {
        let (before, theirs, after) = (clock::now(), clock(), clock::now());
        Self {
            clock,
            offset: launch::offset(before.nanos(), theirs, after.nanos()),
            read: after,
        }
    }

    /// Measures the offset again if it is too old.
    fn refresh(&mut self) {
        if clock::now().since(self.read) > Self::VALID {
            *self = Self::new(self.clock);
        }
    }
}

/// The kernel's memory charge for a frame: its buffer with `skb_shared_info`, rounded up, and the
/// `sk_buff`.
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
        let mtu = sys::interface_mtu(socket.as_fd(), &settings.interface).map_err(fail("reading its MTU"))?;
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
            sys::set_arrival_times(socket.as_fd()).map_err(fail("enabling arrival timestamps"))?;
        }
        let receive = match settings.receive {
            true => Receive::Everything,
            false => Receive::Nothing,
        };
        sys::bind_packet(socket.as_fd(), index, receive).map_err(fail("binding to the interface"))?;
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
            arrivals: settings.arrival_times.then(|| ClockOffset::new(sys::realtime)),
            taken: None,
            outstanding: Cell::new(0),
            congested: false,
            counters: Counters::default(),
            missed: Cell::new(0),
            settings,
            socket,
        })
    }

    /// From now on frames with other arrival timestamps (of `CLOCK_REALTIME`) are discarded.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the socket option.
    pub fn take_only(&mut self, arrived: Range<u64>) -> io::Result<()> {
        if self.taken.replace(arrived).is_none() {
            sys::set_arrival_times(self.socket.as_fd())?;
        }
        Ok(())
    }

    /// Whether a frame with this arrival timestamp is to be discarded.
    fn is_foreign(&self, arrived: Option<u64>) -> bool {
        let taken = self.taken.as_ref().zip(arrived);
        taken.is_some_and(|(taken, arrived)| !taken.contains(&arrived))
    }

    /// The error, with the fault according to the interface's current state.
    fn error(&self, doing: &'static str, source: io::Error) -> PortError {
        let mut error = PortError::new(&self.settings.interface, doing, source);
        if let (Fault::Down, Err(now)) = (error.fault, self.state()) {
            error.fault = now;
        }
        error
    }

    /// Whether the interface that the socket is bound to still exists and is up.
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

    fn read_outstanding(&self) {
        let bytes = sys::unsent(self.socket.as_fd()).unwrap_or(0);
        // The kernel charges one byte for the socket itself.
        self.outstanding
            .set((bytes.saturating_sub(1)).div_ceil(self.frame_cost));
    }

    /// Turns a received slot into a frame: decodes the header before it, inserts the VLAN tag.
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
            let ours = launch::convert(Instant::from_nanos(arrived), -clock.offset);
            pool.set_arrived(slot, Instant::from_nanos(ours));
        }
        self.counters.received += 1;
        self.counters.received_bytes += pool.len(slot) as u64;
        Some(pool.shrink(slot))
    }

    /// Receives into the spare slots.
    fn receive_batch(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        self.arrivals.iter_mut().for_each(ClockOffset::refresh);
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
                        let (slot, message) = (self.spare[index], self.messages.message(index));
                        if self.is_foreign(message.arrived) {
                            pool.free(slot);
                            continue;
                        }
                        match self.finish(pool, slot, message) {
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
                    // A super-frame that the header cannot describe. It is gone; the next may be
                    // good.
                    Some(libc::EINVAL) => self.counters.refused += 1,
                    _ => return Err(self.error("receiving", e)),
                },
            }
        }
        Ok(())
    }

    /// Drops all staged frames.
    fn drop_staged(&mut self, pool: &mut Pool) {
        self.counters.dropped += self.staged.len() as u64;
        for staged in self.staged.drain(..) {
            if let Staged::Frame(frame) = staged {
                pool.free(frame);
            }
        }
        self.staged_frames = 0;
    }

    /// Removes the first staged frame; returns its length.
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

/// Inserts a VLAN tag where it was: after the two addresses.
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
        // The slots that were freed last come first: their memory is still in the cache.
        let missing = self.batch.saturating_sub(self.spare.len());
        let fresh = std::iter::from_fn(|| pool.take_big()).take(missing);
        self.spare.splice(0..0, fresh);
        if self.spare.is_empty() {
            // Small frames go on, and a long one is refused. Where there are no small slots either,
            // frames queue in the kernel, and are missed if that takes too long.
            self.spare
                .extend(std::iter::from_fn(|| pool.take_any()).take(self.batch));
        }
        if self.spare.is_empty() {
            return Ok(());
        }
        let result = self.receive_batch(pool, into);
        // What is kept for the next batch is big.
        self.spare.retain(|&slot| {
            let big = pool.is_big(slot);
            if !big {
                pool.free(slot);
            }
            big
        });
        result
    }

    fn room(&self) -> usize {
        let ring = self.capabilities.transmit_ring;
        if self.outstanding.get() > 0 && ring <= self.outstanding.get() + self.staged_frames {
            self.read_outstanding();
        }
        if self.congested {
            0
        } else {
            ring.saturating_sub(self.outstanding.get() + self.staged_frames)
        }
    }

    fn unsent(&self) -> usize {
        self.staged.len()
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
        self.launch.iter_mut().for_each(ClockOffset::refresh);
        while !self.staged.is_empty() {
            let launch = self.launch;
            let time = |frame| Some(launch::convert(pool.launch(frame)?, launch?.offset));
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
                    // The driver's ring is full. The kernel dropped its copy; the frame is still
                    // staged.
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
        self.read_outstanding();
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
                if let Some(taken) = old.taken {
                    self.take_only(taken)
                        .map_err(|e| self.error("enabling arrival timestamps", e))?;
                }
                if old.launch.is_some() {
                    // It worked on the former interface, so it works on this one.
                    let _ = self.enable_launch_times();
                }
                self.state()
                    .map_err(|fault| PortError::fault(&self.settings.interface, "reopening", fault))?;
            }
            Err(fault) => return Err(PortError::fault(&self.settings.interface, "reopening", fault)),
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
        self.read_outstanding();
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
        self.launch = Some(ClockOffset::new(sys::tai));
        Ok(())
    }
}
