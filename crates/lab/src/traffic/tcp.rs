//! TCP bulk transfers: as fast as the network permits, counted by the receiver.

use crate::error::{Doing, Error, Result};
use crate::host::Host;
use crate::sys::socket::{connect_from, set_congestion, set_receive_buffer, tcp_info};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a read or write may block before the clock is checked again.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const CHUNK: usize = 64 << 10;

/// The end that initiates the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Connects {
    /// The sender, as in an upload to a server.
    #[default]
    Sender,
    /// The receiver, as in a download.
    Receiver,
}

/// The settings of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bulk {
    /// The address on which the other end listens, in its host. Port 0 chooses a port.
    pub to: SocketAddr,
    /// The end that connects.
    pub who: Connects,
    /// The address that it connects from; none leaves it to the kernel.
    pub from: Option<SocketAddr>,
    /// The sender's congestion control, such as "cubic" or "reno".
    pub congestion: String,
    /// How long the sender sends.
    pub duration: Duration,
    /// Bytes that it sends at most.
    pub most: u64,
    /// The length of one interval of the report.
    pub interval: Duration,
    /// The receiver's buffer; none leaves it to the kernel's autotuning.
    pub receive_buffer: Option<u32>,
    /// How often the kernel's variables of the sending socket are read; none: never.
    pub sampling: Option<Duration>,
}

/// What the kernel says of a sending socket (`TCP_INFO`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketSample {
    /// When it was read.
    pub at: Instant,
    /// cwnd in bytes: segments of the maximum size.
    pub cwnd: u64,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// Segments that were sent again so far.
    pub retransmissions: u64,
}

impl SocketSample {
    fn of(stream: &TcpStream) -> std::io::Result<Self> {
        let info = tcp_info(stream)?;
        Ok(Self {
            at: Instant::now(),
            cwnd: u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss),
            rtt: Duration::from_micros(info.tcpi_rtt.into()),
            retransmissions: info.tcpi_total_retrans.into(),
        })
    }
}

impl Bulk {
    /// A transfer to this address for this long: cubic, autotuned buffer, intervals of 100 ms.
    pub fn new(to: SocketAddr, duration: Duration) -> Self {
        Self {
            to,
            who: Connects::Sender,
            from: None,
            congestion: "cubic".into(),
            duration,
            most: u64::MAX,
            interval: Duration::from_millis(100),
            receive_buffer: None,
            sampling: None,
        }
    }

    /// Starts the receiver in one host, then the sender in the other.
    ///
    /// # Errors
    ///
    /// Returns an error if a host cannot be entered, a thread cannot be started, or the listener
    /// cannot be set up.
    pub fn start(self, from: &Host, to: &Host) -> Result<BulkRun> {
        let at = match self.who {
            Connects::Sender => to,
            Connects::Receiver => from,
        };
        let listener = at
            .call(|| TcpListener::bind(self.to))?
            .doing(|| format!("listen on {} in host `{}`", self.to, at.name()))?;
        if let Some(bytes) = self.receive_buffer {
            set_receive_buffer(&listener, bytes).doing(|| "set the receive buffer".into())?;
        }
        let address = listener
            .local_addr()
            .doing(|| "learn the listener's port".into())?;
        let listener = Arc::new(listener);
        let shared = Arc::new(Shared::default());
        let begin = Instant::now();
        let receiver = {
            let (shared, bulk, listener) = (Arc::clone(&shared), self.clone(), Arc::clone(&listener));
            to.spawn("tcp-receiver", move || {
                receive(&listener, &bulk, begin, &shared).doing(|| format!("receive on {address}"))
            })?
        };
        let sender = {
            let shared = Arc::clone(&shared);
            from.spawn("tcp-sender", move || {
                let outcome = send(&self, &listener, begin, &shared);
                shared.stop_sending.store(true, Ordering::Relaxed);
                if outcome.is_err() {
                    shared.abandon.store(true, Ordering::Relaxed);
                }
                outcome
            })?
        };
        Ok(BulkRun {
            shared,
            begin,
            receiver: Some(receiver),
            sender: Some(sender),
        })
    }
}

#[derive(Debug, Default)]
struct Shared {
    received: AtomicU64,
    stop_sending: AtomicBool,
    abandon: AtomicBool,
}

/// A running transfer. Dropping it aborts the transfer.
#[derive(Debug)]
pub struct BulkRun {
    shared: Arc<Shared>,
    begin: Instant,
    receiver: Option<JoinHandle<Result<Result<Vec<u64>>>>>,
    sender: Option<JoinHandle<Result<Result<SentByTcp>>>>,
}

/// The results of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BulkReport {
    /// The start of the first interval.
    pub begin: Instant,
    /// Bytes of payload received in each interval.
    pub intervals: Vec<u64>,
    /// Bytes of payload received in all.
    pub received: u64,
    /// Bytes that the sender's kernel accepted.
    pub sent: u64,
    /// The kernel's variables of the sending socket, if they were asked for, in order of time; the
    /// last of the end of sending.
    pub samples: Vec<SocketSample>,
}

/// What a sender has done.
#[derive(Clone, Debug, Default)]
pub struct SentByTcp {
    /// Bytes that its kernel accepted.
    pub bytes: u64,
    /// The kernel's variables of its socket.
    pub samples: Vec<SocketSample>,
}

impl BulkRun {
    /// Bytes of payload received so far.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Stops the sender now; data in flight still arrives.
    pub fn stop(&self) {
        self.shared.stop_sending.store(true, Ordering::Relaxed);
    }

    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// Returns an error if the sender or the receiver failed, for example because no connection
    /// was established.
    pub fn finish(mut self) -> Result<BulkReport> {
        let SentByTcp { bytes: sent, samples } = join(self.sender.take())?;
        let intervals = join(self.receiver.take())?;
        Ok(BulkReport {
            begin: self.begin,
            received: intervals.iter().sum(),
            intervals,
            sent,
            samples,
        })
    }
}

fn join<T>(thread: Option<JoinHandle<Result<Result<T>>>>) -> Result<T> {
    let Some(thread) = thread else {
        return Err(Error::other("finish a transfer", "it is finished"));
    };
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?
}

impl Drop for BulkRun {
    fn drop(&mut self) {
        self.stop();
        self.shared.abandon.store(true, Ordering::Relaxed);
        // Both threads check the flags at every interval, so this does not take long.
        let _ = self.sender.take().map(JoinHandle::join);
        let _ = self.receiver.take().map(JoinHandle::join);
    }
}

/// Gives a connection this congestion control of the kernel's.
///
/// # Errors
///
/// Returns an error if the kernel has none of that name.
pub fn use_congestion(stream: &TcpStream, name: &str) -> Result<()> {
    set_congestion(stream, name)
        .doing(|| format!("use the congestion control `{name}`"))
        .map_err(|e| e.help("the available ones are in /proc/sys/net/ipv4/tcp_available_congestion_control"))
}

/// Connects, from this address if one is given; it waits for 10 s at most.
///
/// # Errors
///
/// Returns an error if no connection comes about.
pub fn connect(to: SocketAddr, from: Option<SocketAddr>) -> std::io::Result<TcpStream> {
    match from {
        None => TcpStream::connect_timeout(&to, CONNECT_LIMIT),
        Some(from) => connect_from(from, to, CONNECT_LIMIT),
    }
}

/// Sends until the duration is over, the amount is sent, or the run is stopped.
fn send(bulk: &Bulk, listener: &TcpListener, begin: Instant, shared: &Shared) -> Result<SentByTcp> {
    let to = listener
        .local_addr()
        .doing(|| "learn the listener's port".into())?;
    let stream = match bulk.who {
        Connects::Sender => Some(connect(to, bulk.from)),
        Connects::Receiver => {
            let over = || begin.elapsed() >= bulk.duration || shared.abandon.load(Ordering::Relaxed);
            accept(listener, over).transpose()
        }
    };
    let Some(stream) = stream else {
        return Ok(SentByTcp::default());
    };
    let mut stream = stream.doing(|| format!("connect to {to}"))?;
    use_congestion(&stream, &bulk.congestion)?;
    let over = || begin.elapsed() >= bulk.duration || shared.stop_sending.load(Ordering::Relaxed);
    send_on(&mut stream, bulk.most, bulk.sampling, over).doing(|| format!("send to {to}"))
}

/// Sends on a connection until it is over, or so many bytes are sent; `sampling`: how often the
/// kernel's variables are read, besides at the end.
///
/// # Errors
///
/// Returns an error if the connection fails.
pub fn send_on(
    stream: &mut TcpStream,
    most: u64,
    sampling: Option<Duration>,
    over: impl Fn() -> bool,
) -> std::io::Result<SentByTcp> {
    let every = sampling.unwrap_or(Duration::MAX);
    let blocks = CHECK_INTERVAL.min(every.max(Duration::from_millis(1)));
    stream.set_write_timeout(Some(blocks))?;
    let chunk = vec![0x5a; CHUNK];
    let mut sent = SentByTcp::default();
    let mut sampled = Instant::now();
    while sent.bytes < most && !over() {
        if sampled.elapsed() >= every {
            sent.samples.push(SocketSample::of(stream)?);
            sampled = Instant::now();
        }
        let len = usize::try_from(most - sent.bytes).map_or(CHUNK, |left| left.min(CHUNK));
        match stream.write(&chunk[..len]) {
            Ok(n) => sent.bytes += n as u64,
            Err(e) if is_timeout(e.kind()) => {}
            Err(e) => return Err(e),
        }
    }
    if sampling.is_some() {
        sent.samples.push(SocketSample::of(stream)?);
    }
    Ok(sent)
}

/// Receives until the sender has closed; returns the bytes of each interval. It gives up after
/// twice the duration of the transfer, the limit for connecting, and 5 s.
fn receive(
    listener: &TcpListener,
    bulk: &Bulk,
    begin: Instant,
    shared: &Shared,
) -> std::io::Result<Vec<u64>> {
    let last = begin + bulk.duration.saturating_mul(2) + CONNECT_LIMIT + Duration::from_secs(5);
    let over = || Instant::now() >= last || shared.abandon.load(Ordering::Relaxed);
    let stream = match bulk.who {
        Connects::Sender => accept(listener, over)?,
        Connects::Receiver => Some(connect(listener.local_addr()?, bulk.from)?),
    };
    let Some(mut stream) = stream else {
        return Ok(Vec::new());
    };
    let mut intervals = Vec::new();
    receive_on(&mut stream, over, |bytes| {
        let which = begin.elapsed().as_nanos() / bulk.interval.as_nanos().max(1);
        let which = usize::try_from(which).unwrap_or(usize::MAX);
        if intervals.len() <= which {
            intervals.resize(which + 1, 0);
        }
        intervals[which] += bytes;
        shared.received.fetch_add(bytes, Ordering::Relaxed);
    })?;
    Ok(intervals)
}

/// Receives on a connection until the other end has closed it, which it says, or it is over.
/// `heard` is told how many bytes have come.
///
/// # Errors
///
/// Returns an error if the connection fails.
pub fn receive_on(
    stream: &mut TcpStream,
    over: impl Fn() -> bool,
    mut heard: impl FnMut(u64),
) -> std::io::Result<bool> {
    stream.set_read_timeout(Some(CHECK_INTERVAL))?;
    let mut buffer = vec![0; 4 * CHUNK];
    while !over() {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(n) => heard(n as u64),
            Err(e) if is_timeout(e.kind()) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}

/// Accepts the next connection; none if `over` becomes true before one arrives.
pub(crate) fn accept(listener: &TcpListener, over: impl Fn() -> bool) -> std::io::Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(Some(stream));
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock && !over() => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e),
        }
    }
}

pub(crate) fn is_timeout(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
