//! Socket options and calls that the standard library does not offer.
#![expect(unsafe_code, reason = "socket options and ioctl are system calls")]

use super::check;
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Sets a socket option to these bytes.
fn set_option(socket: &impl AsFd, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and length are those of `value`.
    check(unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Chooses the congestion control of a TCP socket, by name.
pub(crate) fn set_congestion(socket: &impl AsFd, name: &str) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
}

/// What the kernel says of a TCP connection.
pub(crate) fn tcp_info(socket: &impl AsFd) -> io::Result<libc::tcp_info> {
    // SAFETY: all fields are integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `len` bytes, which are those of `info`.
    check(unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    })?;
    Ok(info)
}

/// Limits what the kernel holds of a TCP connection before it is on its way.
pub(crate) fn set_unsent_limit(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    set_option(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        &bytes.to_ne_bytes(),
    )
}

/// Sets the receive buffer of a socket, which disables autotuning.
pub(crate) fn set_receive_buffer(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes.to_ne_bytes())
}

/// A TCP connection from this address, which must be one of the calling thread's network namespace;
/// it fails if it is not made within `limit`.
pub(crate) fn connect_from(from: SocketAddr, to: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(
        &socket,
        libc::SOL_SOCKET,
        libc::SO_REUSEADDR,
        &1_i32.to_ne_bytes(),
    )?;
    let socket = TcpStream::from(socket);
    // The kernel limits `connect` by it, too.
    socket.set_write_timeout(Some(limit))?;
    let (name, len) = socket_name(from);
    // SAFETY: the pointer is to a live buffer of at least `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), name.as_ptr().cast(), len) })?;
    let (name, len) = socket_name(to);
    // SAFETY: as above.
    check(unsafe { libc::connect(socket.as_raw_fd(), name.as_ptr().cast(), len) })?;
    socket.set_write_timeout(None)?;
    Ok(socket)
}

/// An address as `struct sockaddr_in` or `sockaddr_in6`, with its length.
fn socket_name(address: SocketAddr) -> ([u32; 7], libc::socklen_t) {
    let mut words = [0; 7];
    let port = u32::from(address.port());
    let word = |octets: &[u8]| u32::from_ne_bytes([octets[0], octets[1], octets[2], octets[3]]);
    // The family in the machine's order, the port in the network's.
    let mut head = |family: i32| {
        let ([a, b], [.., c, d]) = ((family as u16).to_ne_bytes(), port.to_be_bytes());
        words[0] = u32::from_ne_bytes([a, b, c, d]);
    };
    match address.ip() {
        IpAddr::V4(ip) => {
            head(libc::AF_INET);
            words[1] = word(&ip.octets());
            (words, 16)
        }
        IpAddr::V6(ip) => {
            head(libc::AF_INET6);
            let octets = ip.octets();
            for (to, four) in words[2..6].iter_mut().zip(octets.chunks(4)) {
                *to = word(four);
            }
            (words, 28)
        }
    }
}

/// A multicast routing daemon's socket of IPv4 in the calling thread's network namespace, which has
/// one at most.
pub(crate) fn group_router() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_INET, kind, libc::IPPROTO_IGMP) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(&socket, libc::IPPROTO_IP, MRT_INIT, &1_i32.to_ne_bytes())?;
    Ok(socket)
}

const MRT_INIT: i32 = 200;
const MRT_ADD_VIF: i32 = 202;
const MRT_ADD_MFC: i32 = 204;
/// The interface of a `struct vifctl` is an index.
const VIFF_USE_IFINDEX: u8 = 8;
/// Interfaces of a multicast router.
pub(crate) const MAX_VIFS: usize = 32;

/// Gives a multicast router its interface of this number.
pub(crate) fn add_group_interface(router: &impl AsFd, number: u16, index: u32) -> io::Result<()> {
    // `struct vifctl`: number, flags, TTL threshold, rate limit, interface, remote address.
    let mut vif = [0; 16];
    vif[..2].copy_from_slice(&number.to_ne_bytes());
    (vif[2], vif[3]) = (VIFF_USE_IFINDEX, 1);
    vif[8..12].copy_from_slice(&index.to_ne_bytes());
    set_option(router, libc::IPPROTO_IP, MRT_ADD_VIF, &vif)
}

/// What a source sends to a group arrives by one of the interfaces and leaves by others, all by
/// number.
pub(crate) fn add_group_route(
    router: &impl AsFd,
    [source, group]: [Ipv4Addr; 2],
    from: u16,
    to: &[usize],
) -> io::Result<()> {
    // `struct mfcctl`: source, group, interface, a TTL threshold for each interface; then what the
    // kernel counts.
    let mut route = [0; 60];
    route[..4].copy_from_slice(&source.octets());
    route[4..8].copy_from_slice(&group.octets());
    route[8..10].copy_from_slice(&from.to_ne_bytes());
    to.iter().for_each(|number| route[10 + number] = 1);
    set_option(router, libc::IPPROTO_IP, MRT_ADD_MFC, &route)
}

/// Enables arrival timestamps, which [`receive_stamped`] returns.
pub(crate) fn stamp_arrivals(socket: &impl AsFd) -> io::Result<()> {
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPNS,
        &1_i32.to_ne_bytes(),
    )
}

/// Receives a datagram: its length, and when the kernel received it in nanoseconds since 1970, if
/// it reports that.
pub(crate) fn receive_stamped(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    // Room for one control message with a timespec, aligned for `struct cmsghdr`.
    let mut control = [0_u64; 8];
    let mut iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: an all-zero `msghdr` is valid; its pointers are to live buffers with their lengths.
    // The system's macros for control messages stay within `msg_controllen`; the timespec is read
    // unaligned.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let len = libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, 0);
        let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(part) = head.as_ref() {
            if (part.cmsg_level, part.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let time: libc::timespec = libc::CMSG_DATA(head).cast::<libc::timespec>().read_unaligned();
                let nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                return Ok((len, Some(nanos)));
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
        Ok((len, None))
    }
}

/// Sets an offload of an interface (an `ETHTOOL_S…` command with one value) in the calling thread's
/// network namespace.
pub(crate) fn ethtool_set(interface: &str, command: u32, value: u32) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    let mut argument = [command, value];
    // SAFETY: all-zero is a valid `ifreq`; during the call the kernel reads and writes the two
    // words of `argument` through it.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        let room = size_of::<[libc::c_char; libc::IFNAMSIZ]>() - 1;
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(room)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = argument.as_mut_ptr().cast();
        check(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCETHTOOL as _,
            &raw mut request,
        ))
        .map(drop)
    }
}
