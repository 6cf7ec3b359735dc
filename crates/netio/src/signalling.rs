//! RSVP messages on an interface: sending them, and receiving also those addressed to other hosts.
//!
//! A message is an IP datagram of protocol 46 (RFC 2205, section 3.2). Messages to other hosts
//! carry the Router Alert option (RFC 2113, RFC 2711). The kernel delivers them to a raw socket
//! that requested such packets, instead of forwarding them. This requires a route to their
//! destination, and forwarding enabled. In netfilter they pass the hook before routing, but neither
//! input nor forward.
//!
//! In IPv4 one raw socket of protocol 46 receives both. In IPv6 intercepted packets arrive with
//! their headers at a raw socket of protocol 255, and those addressed to us without headers at one
//! of protocol 46. The former sets `IPV6_ROUTER_ALERT_ISOLATE`; without it, it would receive the
//! packets of every network namespace on the machine.
//!
//! All sockets are bound to the interface. Messages are sent with IP headers made here, as a
//! forwarded message keeps its original source address. The
//! kernel does not fragment these datagrams; one longer than the MTU goes out in fragments that are
//! made here. It does not reassemble intercepted IPv6 fragments either; that is done here too.

#![expect(
    unsafe_code,
    reason = "raw sockets take addresses and control messages by pointer"
)]

pub mod datagram;
pub mod fragments;
pub mod reassembly;

use crate::clock;
use crate::interface::Interface;
pub use datagram::{Arrival, Envelope};
use datagram::{RSVP, datagram_v4, datagram_v6, read_v4, read_v6};
use reassembly::{Reassembled, Reassembly};
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Datagrams that are no messages and are skipped in one call at most.
const SKIPPED_AT_ONCE: usize = 64;
/// The longest datagram.
const LONGEST: usize = 65_536;
/// Not in `libc`; from the kernel's `in6.h`.
const IPV6_ROUTER_ALERT: i32 = 22;
const IPV6_ROUTER_ALERT_ISOLATE: i32 = 30;
/// The value of the IPv6 Router Alert option for RSVP.
const ALERT_RSVP: i32 = 1;
/// The result of one read.
enum Received {
    Nothing,
    Other,
    Message(Arrival, Range<usize>),
}

/// The raw sockets of one interface.
#[derive(Debug)]
pub struct Signalling {
    index: u32,
    /// The identification of the last datagram that was fragmented.
    fragmented: AtomicU32,
    v4: OwnedFd,
    v6: Option<V6>,
    buffer: Vec<u8>,
    /// Intercepted IPv6 messages of which fragments are missing.
    incomplete: Reassembly,
}

#[derive(Debug)]
struct V6 {
    /// Receives intercepted messages, and sends.
    intercepted: OwnedFd,
    /// Receives messages addressed to us.
    local: OwnedFd,
}

impl Signalling {
    /// Opens the sockets on this interface; those of IPv6 unless the kernel has none. Needs
    /// CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a raw socket, its options, or to bind it to this
    /// interface.
    pub fn open(name: &str, index: u32) -> io::Result<Self> {
        let v4 = raw(libc::AF_INET, RSVP.into(), name)?;
        set(v4.as_fd(), libc::IPPROTO_IP, libc::IP_HDRINCL, 1)?;
        set(v4.as_fd(), libc::IPPROTO_IP, libc::IP_ROUTER_ALERT, 1)?;
        // Otherwise the kernel's multicast routes would forward a copy of what we send.
        set(v4.as_fd(), libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0)?;
        let v6 = match open_v6(name) {
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
            other => Some(other?),
        };
        Ok(Self {
            index,
            fragmented: AtomicU32::new(std::process::id()),
            v4,
            v6,
            buffer: vec![0; LONGEST],
            incomplete: Reassembly::default(),
        })
    }

    /// The descriptors to wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let v6 = self
            .v6
            .iter()
            .flat_map(|v6| [v6.intercepted.as_fd(), v6.local.as_fd()]);
        std::iter::once(self.v4.as_fd()).chain(v6)
    }

    /// The next message and its bytes; none if there is none. Never blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if a socket cannot be read.
    pub fn receive(&mut self) -> io::Result<Option<(Arrival, &[u8])>> {
        // Intercepted packets that are no messages, or not yet, are skipped.
        for _ in 0..SKIPPED_AT_ONCE {
            match self.datagram()? {
                Received::Nothing => break,
                Received::Other => {}
                Received::Message(arrival, body) => return Ok(Some((arrival, &self.buffer[body]))),
            }
        }
        Ok(None)
    }

    fn datagram(&mut self) -> io::Result<Received> {
        let read = |read: Option<(Arrival, Range<usize>)>| match read {
            Some((arrival, body)) => Received::Message(arrival, body),
            None => Received::Other,
        };
        if let Some((len, _)) = receive(self.v4.as_fd(), &mut self.buffer)? {
            return Ok(read(read_v4(&self.buffer[..len.min(LONGEST)])));
        }
        let Some(v6) = &self.v6 else {
            return Ok(Received::Nothing);
        };
        // First those addressed to us: an intercepted message may be accepted only because of one
        // that was received before it.
        if let Some((len, from)) = receive(v6.local.as_fd(), &mut self.buffer)? {
            let (source, ttl) = from.unwrap_or((Ipv6Addr::UNSPECIFIED, 0));
            let arrival = Arrival {
                source: source.into(),
                destination: None,
                ttl,
            };
            return Ok(Received::Message(arrival, 0..len.min(LONGEST)));
        }
        let Some((len, _)) = receive(v6.intercepted.as_fd(), &mut self.buffer)? else {
            return Ok(Received::Nothing);
        };
        let datagram = &self.buffer[..len.min(LONGEST)];
        if let Some(fragment) = reassembly::read(datagram) {
            let whole = self.incomplete.add(clock::now(), fragment);
            return Ok(read(whole.map(|Reassembled { arrival, body }| {
                self.buffer[..body.len()].copy_from_slice(&body);
                (arrival, 0..body.len())
            })));
        }
        Ok(read(read_v6(datagram)))
    }

    /// Sends a message on this interface.
    ///
    /// # Errors
    ///
    /// Returns an error if the addresses are of two families, there is no IPv6, the message is too
    /// long, or the kernel refuses it.
    pub fn send(&self, envelope: &Envelope, message: &[u8]) -> io::Result<()> {
        match (envelope.source, envelope.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let datagram = datagram_v4(envelope, source, destination, message)?;
                // SAFETY: all-zero is a valid address structure.
                let mut to: libc::sockaddr_in = unsafe { mem::zeroed() };
                to.sin_family = libc::AF_INET as u16;
                to.sin_addr.s_addr = u32::from_ne_bytes(destination.octets());
                match send(self.v4.as_fd(), &datagram, &to) {
                    Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                        // Its low half is the identification.
                        let pieces = fragments::v4(&datagram, self.mtu()?, self.identify() as u16)?;
                        pieces
                            .iter()
                            .try_for_each(|piece| send(self.v4.as_fd(), piece, &to))
                    }
                    other => other,
                }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let Some(v6) = &self.v6 else {
                    return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
                };
                let datagram = datagram_v6(envelope, source, destination, message)?;
                // SAFETY: all-zero is a valid address structure.
                let mut to: libc::sockaddr_in6 = unsafe { mem::zeroed() };
                to.sin6_family = libc::AF_INET6 as u16;
                to.sin6_addr.s6_addr = destination.octets();
                if destination.is_unicast_link_local() {
                    to.sin6_scope_id = self.index;
                }
                match send(v6.intercepted.as_fd(), &datagram, &to) {
                    Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                        let pieces = fragments::v6(&datagram, self.mtu()?, self.identify())?;
                        pieces
                            .iter()
                            .try_for_each(|piece| send(v6.intercepted.as_fd(), piece, &to))
                    }
                    other => other,
                }
            }
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "addresses of two families",
            )),
        }
    }

    fn mtu(&self) -> io::Result<usize> {
        Interface::numbered(self.index).map(|interface| interface.mtu)
    }

    /// The identification of the next datagram that is fragmented.
    fn identify(&self) -> u32 {
        self.fragmented.fetch_add(1, Ordering::Relaxed)
    }
}

fn open_v6(name: &str) -> io::Result<V6> {
    let intercepted = raw(libc::AF_INET6, libc::IPPROTO_RAW, name)?;
    // Isolation first: otherwise packets of other namespaces may arrive between the two calls.
    set(
        intercepted.as_fd(),
        libc::IPPROTO_IPV6,
        IPV6_ROUTER_ALERT_ISOLATE,
        1,
    )?;
    set(
        intercepted.as_fd(),
        libc::IPPROTO_IPV6,
        IPV6_ROUTER_ALERT,
        ALERT_RSVP,
    )?;
    let local = raw(libc::AF_INET6, RSVP.into(), name)?;
    set(local.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
    Ok(V6 { intercepted, local })
}

/// A raw socket bound to an interface.
fn raw(family: i32, protocol: i32, name: &str) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(family, kind, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the kernel reads as many bytes of the name as there are.
    let bound = unsafe {
        let (value, len) = (name.as_ptr().cast(), name.len() as libc::socklen_t);
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            value,
            len,
        )
    };
    if bound < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(socket)
    }
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads the four bytes of the value.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), 4) };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Receives a datagram: its length, and in IPv6 its source and hop limit; none if there is none.
#[expect(
    clippy::type_complexity,
    reason = "a length, and an address with a hop limit, used three times here"
)]
fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<(usize, Option<(Ipv6Addr, u8)>)>> {
    let mut control = [0u64; 16];
    // SAFETY: all-zero is valid for these structures.
    let (mut header, mut from): (libc::msghdr, libc::sockaddr_in6) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    header.msg_name = (&raw mut from).cast();
    header.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: every pointer in the header is valid for the length beside it.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    let Ok(len) = usize::try_from(received) else {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    };
    if i32::from(from.sin6_family) != libc::AF_INET6 {
        return Ok(Some((len, None)));
    }
    let mut limit = 0;
    // SAFETY: the kernel has filled in the control messages and their length; the macros stay
    // within it.
    unsafe {
        let mut each = libc::CMSG_FIRSTHDR(&raw const header);
        while !each.is_null() {
            if ((*each).cmsg_level, (*each).cmsg_type) == (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) {
                let value: libc::c_int = std::ptr::read_unaligned(libc::CMSG_DATA(each).cast());
                limit = u8::try_from(value).unwrap_or(0);
            }
            each = libc::CMSG_NXTHDR(&raw const header, each);
        }
    }
    Ok(Some((len, Some((Ipv6Addr::from(from.sin6_addr.s6_addr), limit)))))
}

fn send<T>(socket: BorrowedFd<'_>, datagram: &[u8], to: &T) -> io::Result<()> {
    let (bytes, len) = (datagram.as_ptr().cast(), datagram.len());
    let size = size_of::<T>() as libc::socklen_t;
    let address = std::ptr::from_ref(to).cast();
    // SAFETY: the datagram and the address are valid for their lengths.
    let put = unsafe { libc::sendto(socket.as_raw_fd(), bytes, len, libc::MSG_DONTWAIT, address, size) };
    if put < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
