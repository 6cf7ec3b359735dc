//! Requests and responses over UDP, to measure round-trip times as programs see them.

use crate::error::{Doing, Result};
use crate::host::Host;
use crate::traffic::tcp::is_timeout;
use crate::traffic::udp::quantile;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A series of requests, sent one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The responder's address in its host. Port 0 chooses a port.
    pub to: SocketAddr,
    /// Number of requests.
    pub count: u32,
    /// Bytes of payload in each, at least 8.
    pub payload: usize,
    /// The pause before each.
    pub pause: Duration,
    /// How long to wait for a response.
    pub limit: Duration,
}

/// The results of a probe.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeReport {
    /// The round-trip times of the requests with a response, in order.
    pub round_trips: Vec<Duration>,
    /// The number of requests without a response.
    pub unanswered: u32,
}

impl ProbeReport {
    /// The quantile (0 to 1) of round-trip times; none if there was no response.
    pub fn round_trip(&self, share: f64) -> Option<Duration> {
        quantile(&mut self.round_trips.clone(), share)
    }
}

impl Probe {
    /// This many small requests, 5 ms apart, each with a limit of one second for its response.
    pub fn new(to: SocketAddr, count: u32) -> Self {
        Self {
            to,
            count,
            payload: 64,
            pause: Duration::from_millis(5),
            limit: Duration::from_secs(1),
        }
    }

    /// Starts a responder in one host, sends requests from the other, and waits for the end.
    ///
    /// # Errors
    ///
    /// Returns an error if a host cannot be entered, the responder's address cannot be bound, or
    /// either side's socket fails.
    pub fn run(self, from: &Host, to: &Host) -> Result<ProbeReport> {
        let doing = || format!("probe {} in host `{}`", self.to, to.name());
        let responder = to.call(|| UdpSocket::bind(self.to))?.doing(doing)?;
        let address = responder.local_addr().doing(doing)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = Arc::clone(&stop);
            to.spawn("responder", move || respond(&responder, &stop))?
        };
        let report = from.call(|| request(&self, address));
        stop.store(true, Ordering::Relaxed);
        let answered = thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let report = report?.doing(doing)?;
        answered?.doing(doing)?;
        Ok(report)
    }
}

fn respond(socket: &UdpSocket, stop: &AtomicBool) -> std::io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut buffer = vec![0; 64 << 10];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((len, peer)) => drop(socket.send_to(&buffer[..len], peer)),
            Err(e) if is_timeout(e.kind()) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn request(probe: &Probe, to: SocketAddr) -> std::io::Result<ProbeReport> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(probe.limit))?;
    let mut request = vec![0; probe.payload.max(8)];
    let mut answer = vec![0; 64 << 10];
    let mut report = ProbeReport::default();
    for number in 0..u64::from(probe.count) {
        std::thread::sleep(probe.pause);
        request[..8].copy_from_slice(&number.to_be_bytes());
        let begin = Instant::now();
        socket.send(&request)?;
        loop {
            match socket.recv(&mut answer) {
                Ok(len) if answer[..len].starts_with(&request[..8]) => {
                    report.round_trips.push(begin.elapsed());
                    break;
                }
                // A late response to an earlier request.
                Ok(_) if begin.elapsed() < probe.limit => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(_) => {
                    report.unanswered += 1;
                    break;
                }
                Err(e) if is_timeout(e.kind()) => {
                    report.unanswered += 1;
                    break;
                }
                Err(e) => return Err(e),
            }
        }
    }
    Ok(report)
}
