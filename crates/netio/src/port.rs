//! A port receives and sends frames. Every kind of port is one file in [`crate::ports`].
//!
//! The worker checks for room *before* it dequeues a packet, so no packet is ever put back. (ALTQ's
//! drivers had to; section 4.2.8 of its paper is about device buffers that undo scheduling.) Calls
//! never block; the worker waits on the descriptors of all its ports at once.

use crate::pool::Pool;
use engine::packet::Buffer;
use engine::units::{Bandwidth, Duration};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

/// Bytes of a VLAN tag, which the MTU does not count.
pub const TAG: usize = 4;

/// What a port can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The longest IP packet, as `ip link` shows it: without Ethernet header and tags.
    pub mtu: usize,
    /// The speed of the link, if known.
    pub speed: Option<Bandwidth>,
    /// Whether it accepts frames with an unfinished checksum.
    pub checksum: bool,
    /// Whether it accepts super-frames of TCP; implies `checksum`.
    pub tcp_gso: bool,
    /// Whether it accepts super-frames of UDP; implies `checksum`.
    pub udp_gso: bool,
    /// Frames that it may buffer after the scheduler, as far as it can tell.
    pub transmit_ring: usize,
}

impl Capabilities {
    /// A port without any offload.
    pub const fn plain(mtu: usize, transmit_ring: usize) -> Self {
        Self {
            mtu,
            speed: None,
            checksum: false,
            tcp_gso: false,
            udp_gso: false,
            transmit_ring,
        }
    }
}

/// The counters of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames received. A super-frame is one.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that it had accepted and could not send: the interface failed.
    pub dropped: u64,
    /// Frames that the kernel dropped before they could be received, where it counts them.
    pub missed: u64,
    /// Frames that could not be received: no slot was free or long enough, or their header was not
    /// understood.
    pub refused: u64,
}

/// What to wait for on a port's descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Wake<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// Events of `poll(2)`.
    pub events: i16,
    /// A frame or room may appear without an event: poll the port again after this time.
    pub retry: Option<Duration>,
}

/// Receives and sends frames.
pub trait Port: Send + fmt::Debug {
    /// The interface's name, for messages.
    fn name(&self) -> &str;

    /// What the port can do now.
    fn capabilities(&self) -> Capabilities;

    /// Receives a batch: appends the frames that are there to `into`, up to a bound of the port's
    /// own. It is no error if there are none. The pool describes super-frames and unfinished
    /// checksums. Frames that were appended before an error are good.
    ///
    /// # Errors
    /// If the interface fails, or the input has ended.
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError>;

    /// How many frames [`transmit`](Self::transmit) accepts now.
    fn room(&self) -> usize;

    /// Takes a frame to be sent with the next [`kick`](Self::kick). Cannot fail while there is
    /// room; the frame must be one that the [`capabilities`](Self::capabilities) allow. The port
    /// gives the slot back.
    fn transmit(&mut self, pool: &mut Pool, frame: Buffer);

    /// Sends what it has taken, with as few system calls as it can. What does not fit stays with
    /// the port (and out of its room) until the next kick.
    ///
    /// # Errors
    /// If the interface fails; then what was taken is dropped and counted.
    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError>;

    /// Frames that it has taken and could not send yet: they would go with the port.
    fn unsent(&self) -> usize {
        0
    }

    /// What to wait for: arrivals, and room if `room` is set. `None` if the port never wakes
    /// anybody.
    fn wake(&self, room: bool) -> Option<Wake<'_>>;

    /// Tries to work again after an error.
    ///
    /// # Errors
    /// If it still does not.
    fn revive(&mut self, pool: &mut Pool) -> Result<(), PortError>;

    /// Its counters.
    fn counters(&self) -> Counters;

    /// Another program has such a port in its place, or no longer: what this one has set up at the
    /// interface, beyond its own programs, is that one's meanwhile.
    fn hand_over(&mut self, _to_another: bool) {}

    /// Whether frames pass it by, though it sends and receives: a program that feeds it, or takes
    /// what it hands back, was taken away. Asked a few times a second.
    fn bypassed(&self) -> bool {
        false
    }

    /// The interface by which a realiser paces frames; `None`: only timers work on this port.
    fn paced(&mut self) -> Option<&mut dyn PacedPort> {
        None
    }
}

/// A port by which frames can be paced: by gap frames, or by launch times that the device keeps.
pub trait PacedPort {
    /// Frames that it was given and that have not left yet, as far as it can tell; read anew.
    fn outstanding(&self) -> usize;

    /// Transmit rings over which frames are spread.
    fn transmit_rings(&self) -> usize;

    /// The device's own counter of frames sent, by any process; `None`: it has none.
    fn device_sent(&self) -> Option<u64>;

    /// Prepares the frame that [`transmit_gap`](Self::transmit_gap) sends in part.
    fn prepare_gap(&mut self, frame: &[u8]);

    /// Takes the first `len` bytes of the prepared frame to be sent, as [`Port::transmit`] takes a
    /// frame.
    fn transmit_gap(&mut self, len: usize);

    /// From now on frames leave at the launch times that were [set in the pool](Pool::set_launch),
    /// if the device supports launch times.
    ///
    /// # Errors
    /// If the socket does not support them.
    fn enable_launch_times(&mut self) -> io::Result<()>;
}

/// How a port failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The interface is down. It may come up again.
    Down,
    /// The interface does not exist, or no longer. One of the same name may appear.
    Gone,
    /// The process may not do that.
    Forbidden,
    /// The end of the input was reached (files).
    Ended,
    /// The output is the file that is read, and would be overwritten.
    SameFile,
    /// Something else.
    Other,
}

/// Why a port does not work; its message names the interface, the operation and the remedy.
#[derive(Debug)]
pub struct PortError {
    /// The interface.
    pub interface: String,
    /// The operation that failed.
    pub doing: &'static str,
    /// How it failed.
    pub fault: Fault,
    /// The system's reason.
    pub source: Option<io::Error>,
}

impl PortError {
    /// From a system error.
    pub fn new(interface: &str, doing: &'static str, source: io::Error) -> Self {
        let fault = match source.raw_os_error() {
            Some(libc::ENETDOWN) => Fault::Down,
            Some(libc::ENODEV | libc::ENXIO | libc::EBADFD) => Fault::Gone,
            Some(libc::EPERM | libc::EACCES) => Fault::Forbidden,
            _ => Fault::Other,
        };
        Self {
            interface: interface.into(),
            doing,
            fault,
            source: Some(source),
        }
    }

    /// Without a system error.
    pub fn fault(interface: &str, doing: &'static str, fault: Fault) -> Self {
        Self {
            interface: interface.into(),
            doing,
            fault,
            source: None,
        }
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            interface,
            doing,
            fault,
            source,
        } = self;
        write!(f, "{interface}: {doing}: ")?;
        match fault {
            Fault::Down => write!(
                f,
                "the interface is down; bring it up with `ip link set {interface} up`"
            ),
            Fault::Gone => write!(f, "there is no such interface; `ip link` lists the interfaces"),
            Fault::Forbidden => write!(
                f,
                "not permitted; run as root, or with CAP_NET_RAW and CAP_NET_ADMIN"
            ),
            Fault::Ended => write!(f, "the input has ended"),
            Fault::SameFile => write!(
                f,
                "packets come from this file, and it would be overwritten; write to another file"
            ),
            Fault::Other => write!(f, "failed"),
        }?;
        source.as_ref().map_or(Ok(()), |source| write!(f, " ({source})"))
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_interface_and_what_to_do() {
        let down = PortError::new("wan0", "sending", io::Error::from_raw_os_error(libc::ENETDOWN));
        assert_eq!(down.fault, Fault::Down);
        assert!(
            down.to_string()
                .starts_with("wan0: sending: the interface is down; bring it up")
        );
        let gone = PortError::new("wan0", "opening", io::Error::from_raw_os_error(libc::ENODEV));
        assert_eq!(gone.fault, Fault::Gone);
    }
}
