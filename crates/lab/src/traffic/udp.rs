//! UDP at a constant rate. Every datagram carries its number and the time at which it was sent, on the clock
//! that the receiver reads too: both are threads of one process.

use crate::error::{Doing, Error, Result};
use crate::host::Host;
use crate::traffic::tcp::is_timeout;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const GLANCE: Duration = Duration::from_millis(50);
/// How long the receiver waits for stragglers after the last datagram was sent.
const GRACE: Duration = Duration::from_millis(500);
/// Number and time.
const LEAST_PAYLOAD: usize = 16;
/// Datagrams of one stream at most: what the receiver remembers.
const MOST: u64 = 10_000_000;

/// A stream that is to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// Where the receiver listens: an address of the receiving host. Port 0 chooses one.
    pub to: SocketAddr,
    /// Datagrams a second.
    pub rate: u32,
    /// Bytes of payload in each, at least 16.
    pub payload: usize,
    /// How long it lasts.
    pub duration: Duration,
}

/// One datagram that arrived. Times are since the stream's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its number, from 0.
    pub number: u64,
    /// When it was sent.
    pub sent: Duration,
    /// When it arrived.
    pub arrived: Duration,
}

impl Arrival {
    /// Its one-way delay.
    pub fn delay(&self) -> Duration {
        self.arrived.saturating_sub(self.sent)
    }
}

/// What a stream came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamReport {
    /// Datagrams sent.
    pub sent: u64,
    /// What arrived, in order of arrival.
    pub arrivals: Vec<Arrival>,
    /// Datagrams that arrived a second time.
    pub duplicates: u64,
    /// Datagrams that arrived after one with a higher number.
    pub reordered: u64,
}

impl StreamReport {
    /// Datagrams that never arrived.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrivals.len() as u64)
    }

    /// The longest time between two arrivals: how long nothing got through.
    pub fn longest_outage(&self) -> Duration {
        let gaps = self
            .arrivals
            .windows(2)
            .map(|w| w[1].arrived.saturating_sub(w[0].arrived));
        gaps.max().unwrap_or_default()
    }

    /// The delay that this share of the datagrams (0 to 1) does not exceed; none if nothing arrived.
    pub fn delay(&self, share: f64) -> Option<Duration> {
        let mut delays: Vec<Duration> = self.arrivals.iter().map(Arrival::delay).collect();
        quantile(&mut delays, share)
    }
}

/// The value that this share of the values does not exceed.
pub(crate) fn quantile(values: &mut [Duration], share: f64) -> Option<Duration> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    let at = (last as f64 * share.clamp(0.0, 1.0)).round() as usize;
    values.get(at).copied()
}

/// A stream that is being sent. Dropped, it is abandoned.
#[derive(Debug)]
pub struct StreamRun {
    shared: Arc<Shared>,
    sender: Option<JoinHandle<Result<Result<u64>>>>,
    receiver: Option<JoinHandle<Result<Result<StreamReport>>>>,
}

#[derive(Debug, Default)]
struct Shared {
    arrived: AtomicU64,
    stop: AtomicBool,
    /// Set when the sender has ended.
    ended: AtomicBool,
}

impl Stream {
    /// Starts the receiver in one host, then the sender in the other.
    pub fn start(self, from: &Host, to: &Host) -> Result<StreamRun> {
        let doing = || format!("listen on {} in host `{}`", self.to, to.name());
        let socket = to.call(|| UdpSocket::bind(self.to))?.doing(doing)?;
        let address = socket.local_addr().doing(doing)?;
        let shared = Arc::new(Shared::default());
        let begin = Instant::now();
        let receiver = {
            let shared = Arc::clone(&shared);
            let last = begin + self.duration + Duration::from_secs(5);
            to.spawn("udp-receiver", move || {
                receive(&socket, begin, last, &shared).doing(|| format!("receive on {address}"))
            })?
        };
        let sender = {
            let shared = Arc::clone(&shared);
            from.spawn("udp-sender", move || {
                let outcome = send(&self, address, begin, &shared);
                shared.ended.store(true, Ordering::Release);
                outcome
            })?
        };
        Ok(StreamRun {
            shared,
            sender: Some(sender),
            receiver: Some(receiver),
        })
    }
}

impl StreamRun {
    /// Datagrams that have arrived so far.
    pub fn arrived(&self) -> u64 {
        self.shared.arrived.load(Ordering::Relaxed)
    }

    /// Lets the sender end now.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end.
    pub fn finish(mut self) -> Result<StreamReport> {
        let (Some(sender), Some(receiver)) = (self.sender.take(), self.receiver.take()) else {
            return Err(Error::other("finish a stream", "it is finished"));
        };
        let join_sender = sender
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let join_receiver = receiver
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (sent, mut report) = (join_sender??, join_receiver??);
        report.sent = sent;
        Ok(report)
    }
}

impl Drop for StreamRun {
    fn drop(&mut self) {
        self.stop();
        let _ = self.sender.take().map(JoinHandle::join);
        let _ = self.receiver.take().map(JoinHandle::join);
    }
}

fn send(stream: &Stream, to: SocketAddr, begin: Instant, shared: &Shared) -> Result<u64> {
    let doing = || format!("send to {to}");
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).doing(doing)?;
    socket.connect(to).doing(doing)?;
    // Where nobody takes frames off the interface, the socket's buffer stays full.
    socket.set_write_timeout(Some(GLANCE)).doing(doing)?;
    let mut payload = vec![0; stream.payload.max(LEAST_PAYLOAD)];
    let gap = 1e9 / f64::from(stream.rate.max(1));
    let total = (stream.duration.as_nanos() as f64 / gap) as u64;
    let mut number = 0;
    while number < total.min(MOST) && !shared.stop.load(Ordering::Relaxed) {
        let due = Duration::from_nanos((number as f64 * gap) as u64);
        let now = begin.elapsed();
        if due > now {
            std::thread::sleep(due - now);
        }
        let sent = begin.elapsed().as_nanos() as u64;
        payload[..8].copy_from_slice(&number.to_be_bytes());
        payload[8..16].copy_from_slice(&sent.to_be_bytes());
        match socket.send(&payload) {
            Ok(_) => {}
            // A full buffer loses this one, as a network would; a port that nobody listens on any more, too.
            Err(e) if is_passing(&e) => {}
            Err(e) => return Err(Error::new(doing(), e)),
        }
        number += 1;
    }
    Ok(number)
}

fn is_passing(error: &std::io::Error) -> bool {
    let passing = [
        libc::ENOBUFS,
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::ENETDOWN,
    ];
    error.raw_os_error().is_some_and(|n| passing.contains(&n)) || is_timeout(error.kind())
}

fn receive(
    socket: &UdpSocket,
    begin: Instant,
    last: Instant,
    shared: &Shared,
) -> std::io::Result<StreamReport> {
    socket.set_read_timeout(Some(GLANCE))?;
    let mut buffer = vec![0; 64 << 10];
    let mut report = StreamReport::default();
    let mut seen: Vec<bool> = Vec::new();
    let mut heard = Instant::now();
    while Instant::now() < last {
        match socket.recv(&mut buffer) {
            Ok(len) if len >= LEAST_PAYLOAD => {
                heard = Instant::now();
                take(&buffer, heard - begin, &mut seen, &mut report);
                shared
                    .arrived
                    .store(report.arrivals.len() as u64, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(e) if is_timeout(e.kind()) => {
                if shared.ended.load(Ordering::Acquire) && heard.elapsed() > GRACE {
                    break;
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(report)
}

/// Notes one datagram.
fn take(datagram: &[u8], arrived: Duration, seen: &mut Vec<bool>, report: &mut StreamReport) {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&datagram[at..at + 8]);
        u64::from_be_bytes(bytes)
    };
    let number = word(0);
    let Some(index) = usize::try_from(number).ok().filter(|_| number < MOST) else {
        return;
    };
    if seen.len() <= index {
        seen.resize(index + 1, false);
    } else if seen[index] {
        report.duplicates += 1;
        return;
    } else {
        report.reordered += 1;
    }
    seen[index] = true;
    report.arrivals.push(Arrival {
        number,
        sent: Duration::from_nanos(word(8)),
        arrived,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(number: u64) -> Vec<u8> {
        [number.to_be_bytes(), 5_u64.to_be_bytes()].concat()
    }

    #[test]
    fn duplicates_and_disorder_are_told_apart_from_loss() {
        let (mut seen, mut report) = (Vec::new(), StreamReport::default());
        for (at, number) in [0, 3, 1, 3, 4].into_iter().enumerate() {
            take(
                &datagram(number),
                Duration::from_millis(at as u64),
                &mut seen,
                &mut report,
            );
        }
        report.sent = 6;
        assert_eq!((report.duplicates, report.reordered, report.lost()), (1, 1, 2));
        assert_eq!(
            report.longest_outage(),
            Duration::from_millis(2),
            "where the duplicate came"
        );
    }

    #[test]
    fn a_wild_number_does_not_fill_the_memory() {
        let (mut seen, mut report) = (Vec::new(), StreamReport::default());
        take(&datagram(u64::MAX), Duration::ZERO, &mut seen, &mut report);
        assert!(seen.is_empty() && report.arrivals.is_empty());
    }
}
