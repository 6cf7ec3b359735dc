//! System calls with safe signatures, each wrapped once.
#![expect(unsafe_code, reason = "system calls and mapped memory; nothing else is here")]

use engine::units::Bandwidth;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

/// The result of a call that returns −1 and sets `errno`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_PROCESS_CPUTIME_ID` in nanoseconds.
pub(crate) fn processor_time() -> u64 {
    nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// `CLOCK_THREAD_CPUTIME_ID` in nanoseconds.
pub(crate) fn thread_time() -> u64 {
    nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// `CLOCK_TAI` in nanoseconds, the clock of launch times.
pub(crate) fn tai() -> u64 {
    nanoseconds(libc::CLOCK_TAI)
}

/// `CLOCK_REALTIME` in nanoseconds, the clock of arrival timestamps.
pub(crate) fn realtime() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable. The call cannot fail for the clocks above.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Gives freed memory back to the kernel, where the allocator keeps it.
pub(crate) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers are passed; the allocator locks itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets the end of each thread's heap go back to the kernel from so many bytes on, when something
/// at that end is freed; and blocks of fewer than `apart` bytes come from heaps.
pub(crate) fn limit_ends_of_heaps(end: i32, apart: i32) {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers are passed. Both are hints, and what is out of range is refused.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, end);
        libc::mallopt(libc::M_MMAP_THRESHOLD, apart);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = (end, apart);
}

/// Anonymous memory, whose pages are allocated on first access.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to this value alone, like a `Vec`'s.
unsafe impl Send for Region {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes of zeros.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        // Miri has no such flag.
        let sparing = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | sparing;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len.max(1), access, flags, -1, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self {
                start,
                len: len.max(1),
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// These bytes.
    pub(crate) fn bytes(&self, from: usize, len: usize) -> &[u8] {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: inside the mapping (asserted), initialised (zeros), and borrowed with it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(from), len) }
    }

    /// These bytes, to write.
    pub(crate) fn bytes_mut(&mut self, from: usize, len: usize) -> &mut [u8] {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: inside the mapping (asserted), initialised (zeros), and borrowed exclusively with
        // it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(from), len) }
    }

    /// The address of a byte at which the kernel may read or write `len` bytes.
    pub(crate) fn address(&self, from: usize, len: usize) -> *mut u8 {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: inside the mapping (asserted).
        unsafe { self.start.as_ptr().add(from) }
    }

    /// Copies within the region, between ranges that do not overlap.
    pub(crate) fn copy(&mut self, from: usize, to: usize, len: usize) {
        let inside = |at: usize| at.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside(from) && inside(to) && from.abs_diff(to) >= len);
        let start = self.start.as_ptr();
        // SAFETY: both ranges are inside the mapping and do not overlap (asserted).
        unsafe { std::ptr::copy_nonoverlapping(start.add(from), start.add(to), len) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no reference outlives the owner.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// An eventfd, by which another thread makes a descriptor readable: a bell.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes. It fails only if the counter is full; it is readable then.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it unreadable again.
    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes. It fails only if the bell did not ring.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One descriptor to wait for.
pub(crate) fn interest(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Waits for a descriptor, at most `nanos`; a signal ends the wait like a time-out.
pub(crate) fn wait(fds: &mut [libc::pollfd], nanos: u64) -> io::Result<usize> {
    let time = libc::timespec {
        // At most 2^35 seconds; C libraries differ in its type.
        tv_sec: (nanos / 1_000_000_000) as _,
        tv_nsec: (nanos % 1_000_000_000).cast_signed(),
    };
    let count = fds.len() as libc::nfds_t;
    // SAFETY: `fds` is valid for its length, `time` is read, and no signal mask is given.
    match check(unsafe { libc::ppoll(fds.as_mut_ptr(), count, &raw const time, std::ptr::null()) }) {
        Ok(ready) => Ok(usize::try_from(ready).unwrap_or(0)),
        Err(e) if e.raw_os_error() == Some(libc::EINTR) => Ok(0),
        Err(e) => Err(e),
    }
}

/// Sets this thread's timer slack: how late the kernel may fire timers to batch them.
pub(crate) fn set_timer_slack(nanos: libc::c_ulong) {
    // SAFETY: no pointers are passed. It cannot fail for a value above zero.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos) };
}

/// Runs this thread under `SCHED_FIFO`.
pub(crate) fn set_realtime(priority: libc::c_int) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sched_param`.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // By the system call, since musl's function only fails.
    // SAFETY: zero means the calling thread; the parameters are read.
    let set = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO,
            &raw const parameters,
        )
    };
    check(set as libc::c_int).map(drop)
}

// Packet sockets and interfaces.

/// A packet socket that receives nothing yet.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket for ioctls about interfaces.
pub(crate) fn datagram_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to a plain value.
fn set_option<T: Copy>(socket: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of a value of that size.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            len,
        )
    })
    .map(drop)
}

/// Switches on an option of packet sockets.
pub(crate) fn set_packet_option(socket: BorrowedFd<'_>, option: i32) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, option, &1i32)
}

/// Sizes a socket's buffers, above the system's limits if permitted. The kernel doubles both.
pub(crate) fn set_buffers(socket: BorrowedFd<'_>, receive: usize, send: usize) -> io::Result<()> {
    set_receive_buffer(socket, receive)?;
    set_buffer(socket, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], send)
}

/// The same of the buffer for what is received.
pub(crate) fn set_receive_buffer(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    set_buffer(socket, [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF], bytes)
}

fn set_buffer(socket: BorrowedFd<'_>, [force, plain]: [i32; 2], bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
    set_option(socket, libc::SOL_SOCKET, force, &bytes)
        .or_else(|_| set_option(socket, libc::SOL_SOCKET, plain, &bytes))
}

/// Receives frames for other hosts too, until the socket is closed.
pub(crate) fn set_promiscuous(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// What a packet socket of an interface receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Receive {
    /// Frames of any EtherType, as they arrive and as they are sent.
    Everything,
    /// Frames of this one that go up the stack.
    Type(u16),
    Nothing,
}

/// Binds a packet socket to an interface.
pub(crate) fn bind_packet(socket: BorrowedFd<'_>, interface: u32, receive: Receive) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = match receive {
        Receive::Everything => (libc::ETH_P_ALL as u16).to_be(),
        Receive::Type(number) => number.to_be(),
        Receive::Nothing => 0,
    };
    address.sll_ifindex = interface.cast_signed();
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of a value of that size.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}

/// Timestamps the messages of this socket on arrival, by `CLOCK_REALTIME`.
pub(crate) fn set_arrival_times(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)
}

/// Lets messages of this socket carry launch times of `CLOCK_TAI`.
pub(crate) fn set_launch_times(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sock_txtime`.
    let mut option: libc::sock_txtime = unsafe { std::mem::zeroed() };
    option.clockid = libc::CLOCK_TAI;
    set_option(socket, libc::SOL_SOCKET, libc::SO_TXTIME, &option)
}

/// The memory, in bytes, of this socket's frames that have not been sent yet.
pub(crate) fn unsent(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Frames that a packet socket had no room for, since the last call.
pub(crate) fn packet_drops(socket: BorrowedFd<'_>) -> u64 {
    // `tpacket_stats`: packets, drops.
    let mut counts = [0u32; 2];
    let mut len = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes.
    let result = unsafe {
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            counts.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result == 0 { u64::from(counts[1]) } else { 0 }
}

/// A request about an interface, by name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    Ok(request)
}

/// Makes an ioctl about an interface, in the network namespace of the socket.
fn ask(socket: BorrowedFd<'_>, name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut request = request(name)?;
    // SAFETY: the kernel reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) })?;
    Ok(request)
}

/// The index of an interface.
pub(crate) fn interface_index(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let answer = ask(socket, name, libc::SIOCGIFINDEX as _)?;
    // SAFETY: the request fills this member.
    Ok(unsafe { answer.ifr_ifru.ifru_ifindex }.cast_unsigned())
}

/// The MTU of an interface.
pub(crate) fn interface_mtu(socket: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    let answer = ask(socket, name, libc::SIOCGIFMTU as _)?;
    // SAFETY: the request fills this member.
    Ok(usize::try_from(unsafe { answer.ifr_ifru.ifru_mtu }).unwrap_or(0))
}

/// Whether an interface is up.
pub(crate) fn interface_is_up(socket: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    let answer = ask(socket, name, libc::SIOCGIFFLAGS as _)?;
    // SAFETY: the request fills this member.
    Ok(i32::from(unsafe { answer.ifr_ifru.ifru_flags }) & libc::IFF_UP != 0)
}

/// The speed of an interface, if its driver reports it: `ETHTOOL_GSET`.
pub(crate) fn interface_speed(socket: BorrowedFd<'_>, name: &str) -> Option<Bandwidth> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // `struct ethtool_cmd`: the command first, the speed in Mbit/s in two halves.
    let mut command = [0u16; 22];
    command[0] = 1;
    let mut request = request(name).ok()?;
    request.ifr_ifru.ifru_data = command.as_mut_ptr().cast();
    // SAFETY: the kernel reads one `ifreq`, and reads and writes the 44 bytes of the command.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) }).ok()?;
    let speed = u32::from(command[6]) | u32::from(command[14]) << 16;
    (speed != 0 && speed != u32::MAX && speed != u32::from(u16::MAX)).then(|| Bandwidth::mbit(speed.into()))
}

// TAP interfaces.

/// Opens a TAP interface of this name with the virtio-net header, and makes it if there is none.
pub(crate) fn open_tap(name: &str) -> io::Result<(OwnedFd, String)> {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
    // SAFETY: the kernel reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
    Ok((file.into(), interface_name(&request)))
}

fn interface_name(request: &libc::ifreq) -> String {
    let bytes = request
        .ifr_name
        .iter()
        .map(|c| c.cast_unsigned())
        .take_while(|c| *c != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// The name of an open TAP interface, and whether the virtio-net header is its only header.
pub(crate) fn tap_name(tap: BorrowedFd<'_>) -> io::Result<(String, bool)> {
    // SAFETY: all-zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `ifreq`.
    check(unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNGETIFF as _, &raw mut request) })?;
    // SAFETY: the request fills this member.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
    let wanted = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    Ok((interface_name(&request), flags & wanted == wanted))
}

/// Sets the length of a TAP's header and the offloads that its reader accepts.
pub(crate) fn set_tap_offload(tap: BorrowedFd<'_>, header: usize, offloads: u32) -> io::Result<()> {
    let len = header as libc::c_int;
    // SAFETY: the kernel reads one integer.
    check(unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const len) })?;
    // SAFETY: the argument is a plain number.
    check(unsafe {
        libc::ioctl(
            tap.as_raw_fd(),
            libc::TUNSETOFFLOAD as _,
            libc::c_ulong::from(offloads),
        )
    })
    .map(drop)
}

/// Makes a descriptor non-blocking.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: no pointers are passed.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Reads one message.
pub(crate) fn read(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `into` is valid for its length.
    let len = unsafe { libc::read(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// Writes one message.
pub(crate) fn write(fd: BorrowedFd<'_>, from: &[u8]) -> io::Result<usize> {
    // SAFETY: `from` is valid for its length.
    let len = unsafe { libc::write(fd.as_raw_fd(), from.as_ptr().cast(), from.len()) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}
