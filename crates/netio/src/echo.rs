//! Echo requests to a host on the other side of a line, and its answers: ICMP (RFC 792) and ICMPv6
//! (RFC 4443, section 4).
//!
//! A datagram socket for ICMP needs no privilege where `net.ipv4.ping_group_range` has the user's
//! group; elsewhere a raw socket does, with CAP_NET_RAW. Both are opened once. Afterwards they only
//! send and receive. Requests leave by an interface as each says, and not since the socket is bound
//! to it: one that is gone and comes back, as that of a modem, is another one.
//!
//! When an answer came is told by the kernel, so that a thread that wakes late takes nothing for a
//! delay of the line. An answer is known by a secret number that the request carries.

#![expect(
    unsafe_code,
    reason = "sockets for ICMP, addresses and control messages go by pointer"
)]

use crate::checksum;
use crate::clock;
use crate::sys;
use engine::units::{Duration, Instant};
use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::SystemTime;

/// Types, in ICMP and ICMPv6.
pub(crate) const REQUEST: [u8; 2] = [8, 128];
pub(crate) const ANSWER: [u8; 2] = [0, 129];
/// Type, code, checksum, identifier, sequence number.
const HEADER: usize = 8;
/// The secret, and the number of the request.
const PAYLOAD: usize = 16;
/// Option of a raw ICMPv6 socket, from the kernel's `icmpv6.h`: which types it does not get.
const ICMPV6_FILTER: i32 = 1;
/// The same for ICMP, from `icmp.h`; its level is that of raw sockets.
const ICMP_FILTER: i32 = 1;
/// Datagrams that are not answers and are skipped in one call at most.
const SKIPPED_AT_ONCE: usize = 64;
/// A time of arrival that is further back is a step of the clock.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EchoAnswer {
    /// The number of its request.
    pub number: u64,
    /// When it reached this host.
    pub arrived: Instant,
}

/// Asks hosts, by IPv4 and IPv6 as far as this host can.
#[derive(Debug)]
pub struct Echo {
    v4: Option<EchoSocket>,
    v6: Option<EchoSocket>,
    interface: Option<String>,
    secret: u64,
}

#[derive(Debug)]
struct EchoSocket {
    socket: OwnedFd,
    raw: bool,
    ident: u16,
}

impl Echo {
    /// Opens the sockets. Requests leave by this interface, if one is given, or else where routes
    /// lead. `secret` should be unpredictable: whoever knows it can answer in others' place.
    ///
    /// # Errors
    ///
    /// Returns an error if neither IPv4 nor IPv6 is possible.
    pub fn open(interface: Option<&str>, secret: u64) -> io::Result<Self> {
        let open = |version| EchoSocket::open(version, secret);
        match (open(Version::V4), open(Version::V6)) {
            (Err(why), Err(_)) => Err(why),
            (v4, v6) => Ok(Self {
                v4: v4.ok(),
                v6: v6.ok(),
                interface: interface.map(str::to_owned),
                secret,
            }),
        }
    }

    /// The identifiers in its requests.
    pub fn idents(&self) -> impl Iterator<Item = u16> {
        self.sockets().map(|socket| socket.ident)
    }

    fn sockets(&self) -> impl Iterator<Item = &EchoSocket> {
        self.v4.iter().chain(&self.v6)
    }

    /// Asks this host.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be sent: there is no route or no interface now, or
    /// the host's address is of a version of IP that is not possible here.
    pub fn ask(&self, target: IpAddr, number: u64) -> io::Result<()> {
        let socket = match target {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => &self.v6,
        };
        let socket = socket.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let version = Version::of(target);
        let request = request(version, socket.ident, self.secret, number);
        let interface = self.interface.as_deref();
        let index = interface.map(|name| sys::interface_index(socket.socket.as_fd(), name));
        socket.send(target, index.transpose()?.unwrap_or(0), &request)
    }

    /// The next answer that has come.
    pub fn answer(&self) -> Option<EchoAnswer> {
        let sockets = [(Version::V4, &self.v4), (Version::V6, &self.v6)];
        let mut sockets = sockets
            .into_iter()
            .filter_map(|(version, socket)| Some((version, socket.as_ref()?)));
        sockets.find_map(|(version, socket)| self.answer_from(version, socket))
    }

    fn answer_from(&self, version: Version, socket: &EchoSocket) -> Option<EchoAnswer> {
        for _ in 0..SKIPPED_AT_ONCE {
            let mut buffer = [0; 256];
            let (len, arrived) = socket.receive(&mut buffer)?;
            let message = buffer.get(..len).unwrap_or_default();
            let message = match (version, socket.raw) {
                // The IP header is there too.
                (Version::V4, true) => message
                    .first()
                    .and_then(|first| message.get(usize::from(first & 15) * 4..)),
                _ => Some(message),
            };
            let number = message.and_then(|message| number_in(version, self.secret, message));
            if let Some(number) = number {
                return Some(EchoAnswer { number, arrived });
            }
        }
        None
    }
}

/// Waits until an answer may have come to one of these, or for so long.
///
/// # Errors
///
/// Returns an error if the system cannot wait.
pub fn wait(all: &[&Echo], most: Duration) -> io::Result<()> {
    let sockets = all.iter().flat_map(|echo| echo.sockets());
    let mut fds: Vec<libc::pollfd> = sockets
        .map(|socket| sys::interest(socket.socket.as_raw_fd(), libc::POLLIN))
        .collect();
    sys::wait(&mut fds, most.nanos()).map(drop)
}

/// Of IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V4,
    V6,
}

impl Version {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    fn family(self) -> i32 {
        [libc::AF_INET, libc::AF_INET6][self as usize]
    }

    fn protocol(self) -> i32 {
        [libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6][self as usize]
    }
}

fn request(version: Version, ident: u16, secret: u64, number: u64) -> [u8; HEADER + PAYLOAD] {
    let mut message = [0; HEADER + PAYLOAD];
    message[0] = REQUEST[version as usize];
    message[4..6].copy_from_slice(&ident.to_be_bytes());
    message[6..8].copy_from_slice(&(number as u16).to_be_bytes());
    message[8..16].copy_from_slice(&secret.to_be_bytes());
    message[16..24].copy_from_slice(&number.to_be_bytes());
    // That of ICMPv6 covers addresses, and is the kernel's.
    if version == Version::V4 {
        let sum = !checksum::fold(checksum::add(0, &message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

/// The number of the request that this message answers, if it answers one of ours.
fn number_in(version: Version, secret: u64, message: &[u8]) -> Option<u64> {
    let eight = |at: usize| message.get(at..)?.first_chunk().copied().map(u64::from_be_bytes);
    let is_answer = message.first() == Some(&ANSWER[version as usize]);
    (is_answer && eight(HEADER)? == secret)
        .then(|| eight(HEADER + 8))
        .flatten()
}

impl EchoSocket {
    fn open(version: Version, secret: u64) -> io::Result<Self> {
        let (opened, raw) = match socket(version, libc::SOCK_DGRAM) {
            Ok(opened) => (opened, false),
            Err(_) => (socket(version, libc::SOCK_RAW)?, true),
        };
        let mut made = Self {
            socket: opened,
            raw,
            ident: secret as u16,
        };
        let on: i32 = 1;
        made.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on.to_ne_bytes())?;
        match raw {
            true => made.refuse_others(version)?,
            false => made.ident = made.choose_ident(version)?,
        }
        Ok(made)
    }

    /// A raw socket gets answers alone.
    fn refuse_others(&self, version: Version) -> io::Result<()> {
        let answer = ANSWER[version as usize];
        match version {
            Version::V4 => {
                let others: u32 = !(1 << answer);
                self.set(libc::SOL_RAW, ICMP_FILTER, &others.to_ne_bytes())
            }
            Version::V6 => {
                let mut others = [0xff; 32];
                let (word, bit) = (usize::from(answer) / 32, answer % 32);
                let kept: u32 = !(1 << bit);
                others[4 * word..4 * word + 4].copy_from_slice(&kept.to_ne_bytes());
                self.set(libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &others)
            }
        }
    }

    /// Of a datagram socket the kernel chooses the identifier, as it does ports.
    fn choose_ident(&self, version: Version) -> io::Result<u16> {
        // SAFETY: all-zero is valid for an address.
        let mut address: libc::sockaddr_in6 = unsafe { mem::zeroed() };
        address.sin6_family = version.family() as libc::sa_family_t;
        let mut len = address_len(version);
        let fd = self.socket.as_raw_fd();
        // SAFETY: the address is valid for the length, which is at most its own.
        let bound = unsafe { libc::bind(fd, (&raw const address).cast(), len) };
        // SAFETY: as above; the kernel writes at most that many bytes.
        let told =
            bound == 0 && unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) } == 0;
        match told {
            // The port stands at the same place in both forms of address.
            true => Ok(u16::from_be(address.sin6_port)),
            false => Err(io::Error::last_os_error()),
        }
    }

    fn set(&self, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
        let (bytes, len) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
        // SAFETY: the kernel reads as many bytes of the value as there are.
        let done = unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, option, bytes, len) };
        match done {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// By the interface with this index; 0: where routes lead.
    fn send(&self, target: IpAddr, interface: u32, message: &[u8]) -> io::Result<()> {
        let version = Version::of(target);
        let mut to = address_of(target);
        let mut part = libc::iovec {
            iov_base: message.as_ptr().cast_mut().cast(),
            iov_len: message.len(),
        };
        let mut control = [0u64; 8];
        // SAFETY: all-zero is valid for this structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        (header.msg_name, header.msg_namelen) = ((&raw mut to).cast(), address_len(version));
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        if interface > 0 {
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control) as _;
            header.msg_controllen = leaves_by(&header, version, interface) as _;
        }
        // SAFETY: every pointer in the header is valid for the length beside it, and the kernel
        // only reads.
        let put = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        match put {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A message's length, and when it came; none if there is none.
    fn receive(&self, buffer: &mut [u8]) -> Option<(usize, Instant)> {
        let mut control = [0u64; 8];
        // SAFETY: all-zero is valid for this structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: every pointer in the header is valid for the length beside it.
        let received = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        let len = usize::try_from(received).ok()?;
        let (now, wall) = (clock::now(), SystemTime::now());
        let mut waited = Duration::ZERO;
        // SAFETY: the kernel has filled in the control messages and their length; the macros stay
        // within it.
        unsafe {
            let mut each = libc::CMSG_FIRSTHDR(&raw const header);
            while !each.is_null() {
                if ((*each).cmsg_level, (*each).cmsg_type) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) {
                    let stamp: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(each).cast());
                    waited = since(stamp, wall);
                }
                each = libc::CMSG_NXTHDR(&raw const header, each);
            }
        }
        Some((len, now - waited))
    }
}

/// An address of either version; that of IPv4 is shorter.
fn address_of(target: IpAddr) -> libc::sockaddr_in6 {
    // SAFETY: all-zero is valid for addresses.
    let (mut of_v4, mut made): (libc::sockaddr_in, libc::sockaddr_in6) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    match target {
        IpAddr::V4(address) => {
            of_v4.sin_family = libc::AF_INET as libc::sa_family_t;
            of_v4.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
            // SAFETY: the one form is shorter than the other, and both are plain bytes.
            unsafe { (&raw mut made).cast::<libc::sockaddr_in>().write(of_v4) };
        }
        IpAddr::V6(address) => {
            made.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            made.sin6_addr.s6_addr = address.octets();
        }
    }
    made
}

/// Writes into the control messages of a header, which have room for one, that it leaves by this
/// interface. Returns their length.
fn leaves_by(header: &libc::msghdr, version: Version, interface: u32) -> usize {
    // SAFETY: all-zero is valid for these structures.
    let (mut v4, mut v6): (libc::in_pktinfo, libc::in6_pktinfo) = unsafe { (mem::zeroed(), mem::zeroed()) };
    v4.ipi_ifindex = interface.cast_signed() as _;
    v6.ipi6_ifindex = interface as _;
    let (level, kind, bytes, len) = match version {
        Version::V4 => (
            libc::IPPROTO_IP,
            libc::IP_PKTINFO,
            (&raw const v4).cast::<u8>(),
            size_of_val(&v4),
        ),
        Version::V6 => (
            libc::IPPROTO_IPV6,
            libc::IPV6_PKTINFO,
            (&raw const v6).cast(),
            size_of_val(&v6),
        ),
    };
    // SAFETY: the caller has room for the longer of both messages, and the source is as long as is
    // copied.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        ((*first).cmsg_level, (*first).cmsg_type) = (level, kind);
        (*first).cmsg_len = libc::CMSG_LEN(len as libc::c_uint) as _;
        std::ptr::copy_nonoverlapping(bytes, libc::CMSG_DATA(first), len);
        libc::CMSG_SPACE(len as libc::c_uint) as usize
    }
}

/// The time since a stamp of the wall clock; zero if that clock was set meanwhile.
fn since(stamp: libc::timespec, wall: SystemTime) -> Duration {
    let [seconds, nanos] = [stamp.tv_sec, stamp.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    let at = SystemTime::UNIX_EPOCH
        + std::time::Duration::from_secs(seconds)
        + std::time::Duration::from_nanos(nanos);
    let waited = wall.duration_since(at).unwrap_or_default();
    let waited = Duration::from_nanos(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX));
    if waited > LONGEST_WAIT {
        Duration::ZERO
    } else {
        waited
    }
}

fn address_len(version: Version) -> libc::socklen_t {
    [size_of::<libc::sockaddr_in>(), size_of::<libc::sockaddr_in6>()][version as usize] as libc::socklen_t
}

fn socket(version: Version, kind: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(version.family(), kind, version.protocol()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_secret_and_by_nothing_else() {
        for version in [Version::V4, Version::V6] {
            let mut message = request(version, 7, 0x1234_5678_9abc_def0, 70_000);
            let number = |message: &[u8]| number_in(version, 0x1234_5678_9abc_def0, message);
            assert_eq!(number(&message), None, "a request");
            message[0] = ANSWER[version as usize];
            assert_eq!(number(&message), Some(70_000));
            assert_eq!(number_in(version, 1, &message), None, "another's");
            for len in 0..message.len() {
                assert_eq!(number(&message[..len]), None, "cut off at {len}");
            }
        }
    }

    #[test]
    fn a_request_has_the_checksum_of_rfc_1071() {
        let message = request(Version::V4, 0xabcd, u64::MAX - 5, 3);
        assert_eq!(checksum::fold(checksum::add(0, &message)), 0xffff);
        let sums = request(Version::V6, 0xabcd, 5, 3);
        assert_eq!(sums[2..4], [0, 0], "the kernel's");
    }

    #[test]
    fn this_host_answers_itself_and_the_kernel_says_when() {
        let Ok(echo) = Echo::open(None, 0x5eed) else {
            return skips::skipped("no ICMP socket is given to this user");
        };
        for target in ["127.0.0.1", "::1"] {
            let target: IpAddr = target.parse().expect("an address");
            let begin = clock::now();
            if let Err(why) = echo.ask(target, 9) {
                skips::skipped(format!("no ICMP to {target}: {why}"));
                continue;
            }
            let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
            let answer = loop {
                wait(&[&echo], Duration::from_millis(100)).expect("it waits");
                match echo.answer() {
                    Some(answer) => break answer,
                    None => assert!(std::time::Instant::now() < limit, "{target} does not answer"),
                }
            };
            assert_eq!(answer.number, 9);
            assert!(
                begin <= answer.arrived && answer.arrived <= clock::now(),
                "{answer:?}"
            );
            assert_eq!(echo.answer(), None, "one only");
        }
    }
}
