//! Sockets that the standard library does not make, and options that it does not set.
#![expect(unsafe_code, reason = "socket options and ioctl are system calls")]

use super::check;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

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
