//! UDP streams, even or in bursts, between two hosts of a lab. Every datagram carries its sequence
//! number and its time of sending. Sender and receiver are threads of one process, so they read the
//! same clock. The report lists every arrival, with what the machine held it up for on its way over
//! links of the lab.

use crate::error::{Doing, Error, Result};
use crate::hold_ups;
use crate::host::Host;
use crate::traffic::datagram::{Head, Stamp};
use crate::traffic::generator::{self, SendReport, TrafficShape};
use crate::traffic::tally::Tally;
use crate::traffic::tcp::is_timeout;
use netio::hold_ups::HoldUp;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The receive timeout, and the bin of the tally's series.
const TIMEOUT: Duration = Duration::from_millis(50);
/// How long the receiver waits for stragglers after the last datagram was sent.
const GRACE: Duration = Duration::from_millis(500);
/// Datagrams of one stream at most, which bounds the receiver's memory.
const MAX_DATAGRAMS: u64 = 10_000_000;

/// The settings of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The receiver's address in its host. Port 0 chooses a port.
    pub to: SocketAddr,
    /// Sizes and times of its datagrams.
    pub shape: TrafficShape,
}

/// One datagram that arrived. Times are from the start of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpArrival {
    /// Its sequence number, from 0.
    pub number: u64,
    /// When it was sent.
    pub sent: Duration,
    /// When it arrived.
    pub arrived: Duration,
    /// How much sooner it would have arrived, at least, had no thread of this machine been late.
    pub held: Duration,
    /// Whether the first link that promises anything to its class found it to keep to the curve of
    /// that; none if no link promised anything.
    pub conforms: Option<bool>,
}

impl UdpArrival {
    /// Its one-way delay.
    pub fn delay(&self) -> Duration {
        self.arrived.saturating_sub(self.sent)
    }
}

/// The results of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamReport {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived, in order of arrival.
    pub arrivals: Vec<UdpArrival>,
    /// Datagrams that arrived a second time.
    pub duplicates: u64,
    /// Datagrams that arrived after one with a higher number.
    pub reordered: u64,
    /// The sender's lateness: its 99th percentile and its maximum.
    pub late: [Duration; 2],
    /// When the sender was held up.
    pub hold_ups: Vec<HoldUp>,
}

impl StreamReport {
    /// Datagrams that never arrived.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrivals.len() as u64)
    }

    /// The longest time between two arrivals.
    pub fn longest_outage(&self) -> Duration {
        let gaps = self
            .arrivals
            .windows(2)
            .map(|w| w[1].arrived.saturating_sub(w[0].arrived));
        gaps.max().unwrap_or_default()
    }

    /// The quantile (0 to 1) of delays; none if nothing arrived.
    pub fn delay(&self, share: f64) -> Option<Duration> {
        let mut delays: Vec<Duration> = self.arrivals.iter().map(UdpArrival::delay).collect();
        quantile(&mut delays, share)
    }
}

/// The quantile (0 to 1) of values.
pub(crate) fn quantile(values: &mut [Duration], share: f64) -> Option<Duration> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    let at = (last as f64 * share.clamp(0.0, 1.0)).round() as usize;
    values.get(at).copied()
}

/// A running stream. Dropping it aborts the stream.
#[derive(Debug)]
pub struct StreamRun {
    shared: Arc<Shared>,
    sender: Option<JoinHandle<Result<Result<SendReport>>>>,
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
    ///
    /// # Errors
    ///
    /// Returns an error if a host cannot be entered, a thread cannot be started, or the address
    /// cannot be bound.
    pub fn start(self, from: &Host, to: &Host) -> Result<StreamRun> {
        self.start_from(None, from, to)
    }

    /// The same, sent from this address.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); the sender reports an address that it cannot bind.
    pub fn start_from(self, source: Option<SocketAddr>, from: &Host, to: &Host) -> Result<StreamRun> {
        let doing = || format!("listen on {} in host `{}`", self.to, to.name());
        let socket = to.call(|| UdpSocket::bind(self.to))?.doing(doing)?;
        let address = socket.local_addr().doing(doing)?;
        let shared = Arc::new(Shared::default());
        let begin = Instant::now();
        let receiver = {
            let shared = Arc::clone(&shared);
            let count = self.shape.count.min(MAX_DATAGRAMS);
            let last = begin + self.shape.due(count) + Duration::from_secs(5);
            to.spawn("udp-receiver", move || {
                receive(&socket, begin, last, &shared).doing(|| format!("receive on {address}"))
            })?
        };
        let sender = {
            let shared = Arc::clone(&shared);
            from.spawn("udp-sender", move || {
                let outcome = send(&self, source, address, begin, &shared);
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

    /// Stops the sender now.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// Returns an error if the sender or the receiver failed.
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
        let nanos = |late: Option<i64>| Duration::from_nanos(late.unwrap_or(0).max(0) as u64);
        report.sent = sent.datagrams;
        report.late = [
            nanos(sent.late.quantiles(&[990]).first().copied()),
            nanos(sent.late.greatest()),
        ];
        report.hold_ups = sent.hold_ups;
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

fn send(
    stream: &Stream,
    source: Option<SocketAddr>,
    to: SocketAddr,
    begin: Instant,
    shared: &Shared,
) -> Result<SendReport> {
    let socket = generator::socket(to, source)?;
    let shape = TrafficShape {
        count: stream.shape.count.min(MAX_DATAGRAMS),
        ..stream.shape
    };
    let clock = || begin.elapsed().as_nanos() as u64;
    let stop = || shared.stop.load(Ordering::Relaxed);
    generator::send(&socket, 0, &shape, clock, hold_ups::begin, stop).doing(|| format!("send to {to}"))
}

fn receive(
    socket: &UdpSocket,
    begin: Instant,
    last: Instant,
    shared: &Shared,
) -> std::io::Result<StreamReport> {
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut buffer = vec![0; 64 << 10];
    let mut tally = Tally::new(0, TIMEOUT.as_nanos() as u64);
    let mut arrivals = Vec::new();
    let mut last_arrival = Instant::now();
    while Instant::now() < last {
        match socket.recv(&mut buffer) {
            Ok(len) => {
                last_arrival = Instant::now();
                let arrived = last_arrival - begin;
                let now = netio::clock::now();
                let Some(head) = Head::read(&buffer[..len]) else {
                    continue;
                };
                if tally.take(&head, len, arrived.as_nanos() as u64) {
                    let stamp = Stamp::read(&buffer[..len]);
                    arrivals.push(UdpArrival {
                        number: head.number,
                        sent: Duration::from_nanos(head.sent),
                        arrived,
                        held: stamp.map_or(Duration::ZERO, |stamp| {
                            Duration::from_nanos(stamp.held_by(now).nanos())
                        }),
                        conforms: stamp.and_then(|stamp| stamp.conforms),
                    });
                    shared.arrived.store(arrivals.len() as u64, Ordering::Relaxed);
                }
            }
            Err(e) if is_timeout(e.kind()) => {
                if shared.ended.load(Ordering::Acquire) && last_arrival.elapsed() > GRACE {
                    break;
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(StreamReport {
        sent: tally.sent(),
        arrivals,
        duplicates: tally.duplicates,
        reordered: tally.reordered,
        late: Default::default(),
        hold_ups: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_outage_is_between_two_arrivals() {
        let arrival = |millis| UdpArrival {
            number: millis,
            sent: Duration::ZERO,
            arrived: Duration::from_millis(millis),
            held: Duration::ZERO,
            conforms: None,
        };
        let report = StreamReport {
            sent: 9,
            arrivals: [0, 1, 2, 4].map(arrival).to_vec(),
            ..StreamReport::default()
        };
        assert_eq!(report.longest_outage(), Duration::from_millis(2));
        assert_eq!(report.lost(), 5);
    }
}
