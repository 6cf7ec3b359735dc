//! One AF_XDP socket: a receive queue of an interface, in copy mode, with its rings and its UMEM.
//!
//! Copy mode works with every driver and XDP mode; zero-copy would need a physical card to be
//! tested on. System calls are made only when the kernel requests them (need-wakeup), or for busy
//! polling.

#![expect(unsafe_code, reason = "socket calls take structures by address")]

use super::ring::{Consumer, Descriptor, Producer, RingLayout};
use super::umem::{Loan, Umem, UmemFrame};
use crate::mapping::Mapping;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long the socket of a dead process may still occupy its queue (measured: 55 to 70 ms).
const REBIND: Duration = Duration::from_millis(200);
/// The packet continues in the next entry.
const CONTINUES: u32 = libc::XDP_PKT_CONTD;

/// The parameters of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The interface's index.
    pub interface: u32,
    /// Its receive queue.
    pub queue: u32,
    /// Entries of the receive ring, a power of two.
    pub receive: u32,
    /// Entries of the transmit ring, a power of two.
    pub transmit: u32,
    /// Bytes of a UMEM frame.
    pub frame: usize,
    /// Whether packets may take several frames.
    pub fragments: bool,
    /// Packets that the kernel takes from the device per busy poll, instead of by interrupts.
    pub busy_poll: Option<u32>,
}

/// A bound socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    receive: Consumer<2>,
    transmit: Producer<2>,
    fill: Producer<1>,
    completion: Consumer<1>,
    umem: Umem,
    busy_poll: bool,
}

impl Socket {
    /// Opens and binds a socket; frames arrive once it is in the map of an attached program.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the socket, its memory or its rings, or to bind it to
    /// the queue.
    pub fn open(shape: &Shape) -> io::Result<Self> {
        // SAFETY: no addresses in it.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let umem = Umem::new(shape.receive + shape.transmit, shape.frame)?;
        register(&fd, &umem)?;
        let rings = [
            (libc::XDP_UMEM_FILL_RING, shape.receive),
            (libc::XDP_UMEM_COMPLETION_RING, shape.transmit),
            (libc::XDP_RX_RING, shape.receive),
            (libc::XDP_TX_RING, shape.transmit),
        ];
        for (ring, size) in rings {
            set_option(&fd, libc::SOL_XDP, ring, &size)?;
        }
        let at = offsets(&fd)?;
        let map = |at: &libc::xdp_ring_offset, size: u32, words: usize, page: i64| {
            let layout = layout(at)?;
            let len = layout.entries + size as usize * words * 8;
            Ok::<_, io::Error>((Mapping::of(fd.as_fd(), len, page)?, layout, size))
        };
        let (memory, layout, size) = map(&at.fr, shape.receive, 1, libc::XDP_UMEM_PGOFF_FILL_RING as i64)?;
        let fill = Producer::new(memory, layout, size)?;
        let page = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
        let (memory, layout, size) = map(&at.cr, shape.transmit, 1, page)?;
        let completion = Consumer::new(memory, layout, size)?;
        let (memory, layout, size) = map(&at.rx, shape.receive, 2, libc::XDP_PGOFF_RX_RING)?;
        let receive = Consumer::new(memory, layout, size)?;
        let (memory, layout, size) = map(&at.tx, shape.transmit, 2, libc::XDP_PGOFF_TX_RING)?;
        let transmit = Producer::new(memory, layout, size)?;
        if let Some(budget) = shape.busy_poll {
            prefer_busy_poll(&fd, budget)?;
        }
        bind(&fd, shape)?;
        let busy_poll = shape.busy_poll.is_some();
        let mut socket = Self {
            fd,
            receive,
            transmit,
            fill,
            completion,
            umem,
            busy_poll,
        };
        for _ in 0..shape.receive {
            if let Some(frame) = socket.umem.take() {
                socket.lend_for_receiving(frame);
            }
        }
        socket.fill.publish();
        Ok(socket)
    }

    /// The descriptor, for the map and for polling.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn lend_for_receiving(&mut self, frame: UmemFrame) {
        let address = self.umem.lend(frame, Loan::Receive);
        // The ring has an entry for each of its frames, so there is room.
        self.fill.push([address]);
    }

    /// Passes the pieces of received packets to `take`: their bytes, and whether the packet
    /// continues in the next piece. Stops after a complete packet once `take` has returned `false`.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], bool) -> bool) {
        // The result does not matter: `check` reports errors when nothing arrives.
        if self.busy_poll {
            let _ = self.wake_receiver();
        }
        while let Some(words) = self.receive.pop() {
            let Descriptor {
                address,
                len,
                options,
            } = Descriptor::from_words(words);
            let continues = options & CONTINUES != 0;
            let Some((frame, place)) = self.umem.claim(address, Loan::Receive) else {
                continue;
            };
            let go_on = match self.umem.bytes(&frame, place, len as usize) {
                Some(bytes) => take(bytes, continues),
                None => true,
            };
            self.lend_for_receiving(frame);
            if !go_on && !continues {
                break;
            }
        }
        self.receive.release();
        self.fill.publish();
        if !self.busy_poll && self.fill.wants_wakeup() {
            let _ = self.wake_receiver();
        }
    }

    /// UMEM frames that can be sent now.
    pub fn room(&self) -> usize {
        self.umem.unused().min(self.transmit.room() as usize)
    }

    /// Takes a packet to send, in as many UMEM frames as it needs. `false` if there is no room.
    pub fn transmit(&mut self, packet: &[u8]) -> bool {
        let pieces = packet.len().div_ceil(self.umem.frame_len());
        if pieces > self.room() || packet.is_empty() {
            return false;
        }
        for (i, piece) in packet.chunks(self.umem.frame_len()).enumerate() {
            let Some(frame) = self.umem.take() else {
                return false;
            };
            if let Some(to) = self.umem.bytes_mut(&frame, 0, piece.len()) {
                to.copy_from_slice(piece);
            }
            let options = if i + 1 < pieces { CONTINUES } else { 0 };
            let address = self.umem.lend(frame, Loan::Transmit);
            self.transmit.push(
                Descriptor {
                    address,
                    len: piece.len() as u32,
                    options,
                }
                .words(),
            );
        }
        true
    }

    /// Makes the kernel send what was taken. What it cannot send now stays in the ring.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to send for a reason that is not temporary.
    pub fn kick(&mut self) -> io::Result<()> {
        self.transmit.publish();
        self.reclaim();
        // In copy mode one call sends a few dozen packets at most.
        let mut before = u32::MAX;
        let mut pending = self.transmit.pending();
        while pending > 0 && pending < before {
            // SAFETY: an empty message to the socket itself.
            let sent = unsafe {
                let nobody = std::ptr::null();
                libc::sendto(
                    self.fd.as_raw_fd(),
                    nobody,
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            let error = io::Error::last_os_error();
            let later = [libc::EAGAIN, libc::EBUSY, libc::ENOBUFS, libc::EINTR];
            if sent < 0 && !error.raw_os_error().is_some_and(|e| later.contains(&e)) {
                self.reclaim();
                return Err(error);
            }
            self.reclaim();
            (before, pending) = (pending, self.transmit.pending());
        }
        Ok(())
    }

    /// Entries that the kernel has not sent yet.
    pub fn pending(&self) -> u32 {
        self.transmit.pending()
    }

    /// Frees the UMEM frames that have been sent.
    pub fn reclaim(&mut self) {
        while let Some([address]) = self.completion.pop() {
            if let Some((frame, _)) = self.umem.claim(address, Loan::Transmit) {
                self.umem.give_back(frame);
            }
        }
        self.completion.release();
    }

    /// Packets that the kernel could not deliver, since this socket was opened.
    pub fn missed(&self) -> u64 {
        let mut statistics = [0u64; 6];
        let read = get_option(&self.fd, libc::XDP_STATISTICS, &mut statistics);
        // Dropped for other reasons, ring full, fill ring empty.
        if read.is_ok() {
            statistics[0] + statistics[3] + statistics[4]
        } else {
            0
        }
    }

    /// Whether frames can arrive: the interface exists and is up.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface is gone or down.
    pub fn check(&self) -> io::Result<()> {
        match self.wake_receiver() {
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENXIO | libc::ENETDOWN)) => Err(e),
            _ => Ok(()),
        }
    }

    fn wake_receiver(&self) -> io::Result<()> {
        let nowhere = std::ptr::null_mut();
        // SAFETY: an empty receive.
        let answer = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                nowhere,
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                nowhere.cast(),
            )
        };
        if answer < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

/// Several sockets as one descriptor, readable when any of them is.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Watches these sockets as long as they are open.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses an epoll descriptor, or to add a socket to it.
    pub fn new<'a>(sockets: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<Self> {
        // SAFETY: no addresses in it.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        for socket in sockets {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: 0,
            };
            // SAFETY: `event` is valid until the call returns.
            let answer = unsafe {
                libc::epoll_ctl(
                    fd.as_raw_fd(),
                    libc::EPOLL_CTL_ADD,
                    socket.as_raw_fd(),
                    &raw mut event,
                )
            };
            if answer < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self(fd))
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set_option<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for its length.
    let answer =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Reads an option that consists of 64-bit numbers.
fn get_option<const N: usize>(fd: &OwnedFd, name: i32, value: &mut [u64; N]) -> io::Result<usize> {
    let mut len = size_of_val(value) as libc::socklen_t;
    // SAFETY: `value` is writable for `len` bytes, and consists of numbers.
    let answer = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(len as usize)
    }
}

fn register(fd: &OwnedFd, umem: &Umem) -> io::Result<()> {
    let (start, len) = umem.area();
    let area = libc::xdp_umem_reg {
        addr: start.as_ptr() as u64,
        len: len as u64,
        chunk_size: umem.frame_len() as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &area).map_err(|e| match e.raw_os_error() {
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            let text = format!("{e}: {len} bytes of locked memory are needed (raise the limit `ulimit -l`)");
            io::Error::new(e.kind(), text)
        }
        _ => e,
    })
}

/// The offsets in the memory of the four rings.
fn offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    let mut v = [0u64; 16];
    if get_option(fd, libc::XDP_MMAP_OFFSETS, &mut v)? != size_of_val(&v) {
        let text = "AF_XDP here has no wakeup flags: Linux 5.4 or later is needed";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let ring = |i: usize| libc::xdp_ring_offset {
        producer: v[i * 4],
        consumer: v[i * 4 + 1],
        desc: v[i * 4 + 2],
        flags: v[i * 4 + 3],
    };
    Ok(libc::xdp_mmap_offsets {
        rx: ring(0),
        tx: ring(1),
        fr: ring(2),
        cr: ring(3),
    })
}

fn layout(at: &libc::xdp_ring_offset) -> io::Result<RingLayout> {
    let place = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
    Ok(RingLayout {
        producer: place(at.producer)?,
        consumer: place(at.consumer)?,
        flags: place(at.flags)?,
        entries: place(at.desc)?,
    })
}

/// Enables preferred busy polling: our calls poll the device in place of interrupts, as far as its
/// settings `napi_defer_hard_irqs` and `gro_flush_timeout` (about 20 µs) allow it.
fn prefer_busy_poll(fd: &OwnedFd, budget: u32) -> io::Result<()> {
    const SO_PREFER_BUSY_POLL: i32 = 69;
    const SO_BUSY_POLL_BUDGET: i32 = 70;
    set_option(fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1i32)
        .and_then(|()| set_option(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &20i32))
        .and_then(|()| set_option(fd, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget))
        .map_err(|e| {
            io::Error::new(
                e.kind(),
                format!("{e}: preferred busy polling needs Linux 5.11 or later"),
            )
        })
}

fn bind(fd: &OwnedFd, shape: &Shape) -> io::Result<()> {
    let fragments = if shape.fragments { libc::XDP_USE_SG } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP | fragments,
        sxdp_ifindex: shape.interface,
        sxdp_queue_id: shape.queue,
        sxdp_shared_umem_fd: 0,
    };
    let since = Instant::now();
    loop {
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: `address` is valid for its length.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EBUSY) if since.elapsed() < REBIND => std::thread::sleep(Duration::from_millis(5)),
            Some(libc::EBUSY) => {
                let text = format!(
                    "{error}: another AF_XDP socket uses receive queue {}",
                    shape.queue
                );
                return Err(io::Error::new(error.kind(), text));
            }
            _ => return Err(error),
        }
    }
}
