//! Socket options of borrowed sockets: TCP_INFO, window clamp, buffer lock, pacing rate.
#![expect(unsafe_code, reason = "socket options are system calls")]

use super::check;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Which buffers the kernel may not resize by itself (`SO_BUF_LOCK`, Linux 5.15).
const SO_BUF_LOCK: i32 = 72;
/// The receive buffer's bit.
pub(crate) const RECEIVE_LOCK: u32 = 2;
const SO_COOKIE: i32 = 57;

/// Bytes of `struct tcp_info` (`/usr/include/linux/tcp.h`) that are read; glibc's is shorter.
const INFO: usize = 256;

fn get<const N: usize>(socket: &OwnedFd, level: i32, option: i32) -> io::Result<([u8; N], usize)> {
    let mut value = [0_u8; N];
    let mut len = N as libc::socklen_t;
    // SAFETY: the pointer and length are those of `value`.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    })?;
    Ok((value, len as usize))
}

fn set(socket: &OwnedFd, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and length are those of `value`.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    })
    .map(drop)
}

fn get_word(socket: &OwnedFd, level: i32, option: i32) -> io::Result<u32> {
    get::<4>(socket, level, option).map(|(value, _)| u32::from_ne_bytes(value))
}

/// A socket's protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Tcp,
    Udp,
    /// Multipath TCP: its subflows are not sockets of the program.
    Mptcp,
    /// Not an internet socket, or one that cannot load a link.
    Other,
}

/// The protocol of this socket.
pub(crate) fn kind(socket: &OwnedFd) -> Kind {
    let of = |option| get_word(socket, libc::SOL_SOCKET, option).map(u32::cast_signed);
    let (Ok(domain), Ok(protocol)) = (of(libc::SO_DOMAIN), of(libc::SO_PROTOCOL)) else {
        return Kind::Other;
    };
    match protocol {
        _ if domain != libc::AF_INET && domain != libc::AF_INET6 => Kind::Other,
        libc::IPPROTO_TCP => Kind::Tcp,
        libc::IPPROTO_UDP => Kind::Udp,
        libc::IPPROTO_MPTCP => Kind::Mptcp,
        _ => Kind::Other,
    }
}

/// The socket's cookie: unique until the machine reboots.
pub(crate) fn cookie(socket: &OwnedFd) -> io::Result<u64> {
    get::<8>(socket, libc::SOL_SOCKET, SO_COOKIE).map(|(value, _)| u64::from_ne_bytes(value))
}

/// The cookie of this process's network namespace (`SO_NETNS_COOKIE`, Linux 5.14).
pub(crate) fn namespace() -> io::Result<u64> {
    namespace_of(&std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.into())
}

/// The cookie of a socket's network namespace.
pub(crate) fn namespace_of(socket: &OwnedFd) -> io::Result<u64> {
    const SO_NETNS_COOKIE: i32 = 71;
    get::<8>(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE).map(|(value, _)| u64::from_ne_bytes(value))
}

/// The socket's inode, by which `/proc` lists it.
pub(crate) fn inode(socket: &OwnedFd) -> Option<u64> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the call fills the structure, for which zeroes are valid too.
    unsafe {
        check(libc::fstat(socket.as_raw_fd(), status.as_mut_ptr())).ok()?;
        Some(status.assume_init().st_ino)
    }
}

/// The local and the remote end, where the socket has them.
pub(crate) fn ends(socket: &OwnedFd) -> [Option<SocketAddr>; 2] {
    let address = |call: unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32| {
        let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        // SAFETY: the pointer and length are those of `storage`, for which zeroes are valid.
        unsafe {
            check(call(
                socket.as_raw_fd(),
                storage.as_mut_ptr().cast(),
                &raw mut len,
            ))
            .ok()?;
            address_of(&storage.assume_init())
        }
    };
    [address(libc::getsockname), address(libc::getpeername)]
}

/// An internet address from the kernel's form. An IPv4-mapped IPv6 address is IPv4.
pub(super) fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let pointer: *const libc::sockaddr_storage = storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family tells the type, which is smaller and aligned less strictly.
            let v4 = unsafe { &*pointer.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some((ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*pointer.cast::<libc::sockaddr_in6>() };
            let ip: IpAddr = Ipv6Addr::from(v6.sin6_addr.s6_addr).to_canonical();
            Some((ip, u16::from_be(v6.sin6_port)).into())
        }
        _ => None,
    }
}

/// Fields of `struct tcp_info`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Info {
    pub(crate) state: u8,
    pub(crate) receive_scale: u8,
    pub(crate) receive_mss: u32,
    pub(crate) send_mss: u32,
    /// `tcpi_rcv_ssthresh`: the clamp on the window that the kernel advertises now.
    pub(crate) rcv_ssthresh: u32,
    /// RTT in microseconds, as sender and as receiver of data.
    pub(crate) send_rtt: u32,
    pub(crate) receive_rtt: u32,
    /// `tcpi_min_rtt`, the handshake included; `u32::MAX` if there is none.
    pub(crate) min_rtt: u32,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_acked: u64,
    /// `tcpi_sacked`: segments beyond a hole that have arrived.
    pub(crate) sacked: u32,
    pub(crate) segments_in: u32,
    pub(crate) segments_out: u32,
    pub(crate) data_segments_in: u32,
    pub(crate) out_of_order: u32,
    /// `tcpi_total_retrans`: segments sent again.
    pub(crate) retransmissions: u32,
    pub(crate) window: u32,
}

/// `TCP_ESTABLISHED`.
pub(crate) const ESTABLISHED: u8 = 1;
/// `TCP_SYN_SENT`.
pub(crate) const SYN_SENT: u8 = 2;
/// `TCP_TIME_WAIT`.
pub(crate) const TIME_WAIT: u8 = 6;
/// `TCP_CLOSE`: not connected.
pub(crate) const CLOSED: u8 = 7;
/// `TCP_CLOSE_WAIT`: the peer has closed, this side may still send.
pub(crate) const CLOSE_WAIT: u8 = 8;
/// `TCP_LISTEN`.
pub(crate) const LISTEN: u8 = 10;

/// Reads TCP_INFO. Fields that this kernel lacks are zero.
pub(crate) fn info(socket: &OwnedFd) -> io::Result<Info> {
    let (raw, _) = get::<INFO>(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    let word = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    let long = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&raw[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    // Two bit fields of four bits. The first is the lower half on little-endian machines only.
    let scales = raw[6];
    let receive_scale = if cfg!(target_endian = "little") {
        scales >> 4
    } else {
        scales & 15
    };
    Ok(Info {
        state: raw[0],
        receive_scale,
        send_mss: word(16),
        receive_mss: word(20),
        rcv_ssthresh: word(64),
        send_rtt: word(68),
        receive_rtt: word(92),
        min_rtt: word(148),
        bytes_received: long(128),
        segments_out: word(136),
        segments_in: word(140),
        data_segments_in: word(152),
        bytes_sent: long(200),
        bytes_acked: long(120),
        sacked: word(28),
        out_of_order: word(224),
        retransmissions: word(100),
        window: word(232),
    })
}

/// The largest window that the socket may advertise (`TCP_WINDOW_CLAMP`).
pub(crate) fn clamp(socket: &OwnedFd) -> io::Result<u32> {
    get_word(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)
}

/// Sets the clamp. The kernel's lower limit is about 1152 bytes.
pub(crate) fn set_clamp(socket: &OwnedFd, bytes: u32) -> io::Result<()> {
    let bytes = bytes.clamp(1, 1 << 30);
    set(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_WINDOW_CLAMP,
        &bytes.to_ne_bytes(),
    )
}

/// The receive buffer in bytes of memory (`SO_RCVBUF`).
pub(crate) fn receive_buffer(socket: &OwnedFd) -> io::Result<u32> {
    get_word(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)
}

/// Sets the receive buffer to twice this, which the kernel counts with its overhead, and locks it.
pub(crate) fn set_receive_buffer(socket: &OwnedFd, bytes: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes.to_ne_bytes())
}

/// Which buffers are locked.
pub(crate) fn lock(socket: &OwnedFd) -> io::Result<u32> {
    get_word(socket, libc::SOL_SOCKET, SO_BUF_LOCK)
}

/// Whether this kernel has buffer locks.
pub(crate) fn can_lock() -> bool {
    let any = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    any.is_ok_and(|socket| lock(&socket.into()).is_ok())
}

/// Locks these buffers and unlocks the others.
pub(crate) fn set_lock(socket: &OwnedFd, bits: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, SO_BUF_LOCK, &bits.to_ne_bytes())
}

/// The pacing rate in bytes a second (`SO_MAX_PACING_RATE`); `u64::MAX` if there is no limit.
pub(crate) fn pacing(socket: &OwnedFd) -> io::Result<u64> {
    let (value, len) = get::<8>(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)?;
    let long = u64::from_ne_bytes(value);
    Ok(if len == 4 {
        long & u64::from(u32::MAX)
    } else {
        long
    })
}

/// Sets the pacing rate.
pub(crate) fn set_pacing(socket: &OwnedFd, bytes_per_second: u64) -> io::Result<()> {
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        &bytes_per_second.to_ne_bytes(),
    )
}
