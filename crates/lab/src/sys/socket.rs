//! Sockets that the standard library does not make, and options that it does not set.
#![expect(unsafe_code, reason = "netlink, socket options and ioctl are system calls")]

use super::check;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A routing netlink socket of the calling thread's network namespace, with error texts switched on.
pub(crate) fn open_netlink() -> io::Result<OwnedFd> {
    // SAFETY: a plain call; the descriptor it returns is new and ours.
    let socket = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?)
    };
    for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
        set_option(&socket, libc::SOL_NETLINK, option, &1_i32.to_ne_bytes())?;
    }
    Ok(socket)
}

/// Sends one message.
pub(crate) fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and length are those of `message`.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    check(sent as i32).map(drop)
}

/// Receives one message; its length.
pub(crate) fn receive(socket: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of `into`.
    let got = unsafe { libc::recv(socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

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

/// Fixes the receive buffer of a socket.
pub(crate) fn set_receive_buffer(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes.to_ne_bytes())
}

/// Sets one of the offloads of an interface (an `ETHTOOL_S…` command with one value) in the calling thread's
/// network namespace.
pub(crate) fn ethtool_set(interface: &str, command: u32, value: u32) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    let mut argument = [command, value];
    // SAFETY: the structure is plain data, for which zeroes are valid; the kernel reads and writes the two
    // words of `argument` through it, during the call only.
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
