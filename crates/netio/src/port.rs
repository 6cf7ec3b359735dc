//! A port: where frames come from and go to. Every kind of port is one file beside this one.
//!
//! The worker asks for room *before* it takes a packet out of a queue, so nothing is ever put back
//! (ALTQ's drivers had to; the paper's section 4.2.8 is about the device buffer that undoes scheduling).
//! Calls never block; the worker waits on the descriptors of all its ports at once.

use crate::pool::Pool;
use engine::packet::Buffer;
use engine::units::{Bandwidth, Duration};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

/// Bytes of a VLAN tag, which may come on top of the MTU.
pub const TAG: usize = 4;

/// What a port can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The longest IP packet, as `ip link` shows it: without Ethernet header and tags.
    pub mtu: usize,
    /// The speed of the link, where it is known.
    pub speed: Option<Bandwidth>,
    /// Whether it takes frames with an unfinished checksum.
    pub checksum: bool,
    /// Whether it takes super-frames of TCP; implies `checksum`.
    pub tcp_gso: bool,
    /// Whether it takes super-frames of UDP; implies `checksum`.
    pub udp_gso: bool,
    /// Frames that it lets wait behind the scheduler's back at most, as far as it can know.
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

/// What has passed through a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames handed up. A super-frame is one.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames put out.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that had been accepted and could not be put out: the interface failed.
    pub lost: u64,
    /// Frames that the kernel dropped before they could be received, where it says so.
    pub missed: u64,
    /// Frames that could not be received: no slot was free, or not understood.
    pub refused: u64,
}

/// What to wait for on a port's descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Wake<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// Events of `poll(2)`.
    pub events: i16,
    /// Something may come without an event, an arrival or room: ask again after this time.
    pub retry: Option<Duration>,
}

/// Where frames come from and go to.
pub trait Port: Send + fmt::Debug {
    /// The interface's name, for people.
    fn name(&self) -> &str;

    /// What the port can do now.
    fn capabilities(&self) -> Capabilities;

    /// Receives a batch: frames that are there, up to a bound of the port's own, appended to `into`. Nothing there is
    /// no error. Super-frames and unfinished checksums are described in the pool. After an error the
    /// frames that were appended before it are good.
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError>;

    /// Frames that [`transmit`](Self::transmit) takes now.
    fn room(&self) -> usize;

    /// Takes a frame to be sent with the next [`kick`](Self::kick). Cannot fail while there is room; the
    /// frame must be one that [`capabilities`](Self::capabilities) allow. The port gives the slot back.
    fn transmit(&mut self, pool: &mut Pool, frame: Buffer);

    /// Puts what was taken on the wire, with as few system calls as can be. What does not fit now stays
    /// taken (and out of the room) until the next kick.
    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError>;

    /// What to wait for: arrivals, and room if `room` is asked for. `None` if the port never wakes anybody.
    fn wake(&self, room: bool) -> Option<Wake<'_>>;

    /// Tries to work again after an error. `Ok` if it does.
    fn revive(&mut self, pool: &mut Pool) -> Result<(), PortError>;

    /// What has passed.
    fn counters(&self) -> Counters;

    /// Frames that it was given and that have not left yet, as far as it can know; asked anew.
    fn outstanding(&self) -> usize {
        self.capabilities().transmit_ring.saturating_sub(self.room())
    }

    /// Transmit rings that frames are spread over.
    fn rings(&self) -> usize {
        1
    }

    /// Frames that the device counts as sent, whoever sent them, if it counts.
    fn counted(&self) -> Option<u64> {
        None
    }

    /// Prepares the frame whose beginnings [`transmit_gap`](Self::transmit_gap) is to send. `false`: it cannot. The default.
    fn prepare_gap(&mut self, _frame: &[u8]) -> bool {
        false
    }

    /// Takes the first `len` bytes of the prepared frame to be sent, as [`transmit`](Self::transmit) takes a frame.
    fn transmit_gap(&mut self, _len: usize) {}

    /// From now on frames leave at the launch times that the [pool](Pool::set_launch) has of them, if the device does so: an
    /// error only says that it cannot be asked to.
    fn keep_launch_times(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The same calls to the port inside, for a port around another; what is not named here is its own.
macro_rules! like_the_port_inside {
    ($port:ident) => {
        fn outstanding(&self) -> usize {
            self.$port.outstanding()
        }

        fn rings(&self) -> usize {
            self.$port.rings()
        }

        fn counted(&self) -> Option<u64> {
            self.$port.counted()
        }

        fn prepare_gap(&mut self, frame: &[u8]) -> bool {
            self.$port.prepare_gap(frame)
        }

        fn transmit_gap(&mut self, len: usize) {
            self.$port.transmit_gap(len);
        }

        fn keep_launch_times(&mut self) -> std::io::Result<()> {
            self.$port.keep_launch_times()
        }
    };
}
pub(crate) use like_the_port_inside;

/// How a port failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The interface is down. It may come up again.
    Down,
    /// The interface does not exist, or not any more. One of the same name may come.
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

/// Why a port does not work: where, what, and what to do.
#[derive(Debug)]
pub struct PortError {
    /// The interface.
    pub interface: String,
    /// What was being done.
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
            Fault::Gone => write!(
                f,
                "there is no such interface; `ip link` lists those that there are"
            ),
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
