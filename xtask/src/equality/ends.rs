//! The ends of a case between real sockets: one process sends every flow's datagrams at their
//! times, another receives them. They share the machine's clock. Meanwhile probes go the other way,
//! where nothing else does: what they take is the place's own, and no queue's. An arrival is when
//! the kernel has it, not when the program that reads it is awake.

use super::cases::{SECONDS, Setting};
use crate::compare::measured::{FlowFigures, Side, quantile};
use crate::compare::traffic::{Flow, HEADERS, PORT};
use engine::units::{Duration as Span, Instant as Time};
use lab::traffic::stamped::{StampedSocket, wall_clock};
use measure::delay::FineDelays;
use netio::clock;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// How long the receivers listen before the senders start.
pub const LEAD: Duration = Duration::from_millis(500);

/// From one probe to the next. Each finds the way empty, and the machine as busy as it is.
const PROBES_APART: Duration = Duration::from_millis(10);

/// The length of a probe's frame, and its port.
pub const PROBE_FRAME: u64 = 214;
const PROBE_PORT: u16 = PORT - 1;

/// From the start of the sending end to the first packet.
const BEFORE: Duration = Duration::from_millis(200);

/// After the last packet was sent; no queue here keeps one as long.
const DRAIN: Duration = Duration::from_secs(1);

/// From the start of the receiving end until the last packet has arrived.
pub const LASTS: Duration = LEAD
    .saturating_add(BEFORE)
    .saturating_add(Duration::from_secs(SECONDS))
    .saturating_add(DRAIN);

/// What the sending end reports.
#[derive(Debug, Serialize, Deserialize)]
struct Sent {
    packets: Vec<u64>,
    late_p99_us: u64,
    late_max_us: u64,
    /// The mean of the probes' delays.
    empty_us: u64,
    /// When each flow's packets were sent, in nanoseconds since the beginning.
    times_ns: Vec<Vec<u64>>,
}

/// When each flow's packets were sent, by what the sending end wrote into this file.
pub fn sent_at(file: &Path) -> Result<Vec<Vec<Duration>>, String> {
    let text = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let sent: Sent = serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let flows = sent.times_ns.into_iter();
    Ok(flows
        .map(|flow| flow.into_iter().map(Duration::from_nanos).collect())
        .collect())
}

/// Runs one end, and writes what it saw into this file.
/// `other` is the address of the other one.
pub fn run(setting: &Setting, end: &str, other: &str, file: &Path) -> Result<(), String> {
    let fail = |error: io::Error| format!("{end}: {error}");
    let text = match end {
        "send" => serde_json::to_string(&send(setting, other).map_err(fail)?),
        _ => serde_json::to_string(&receive(setting, other).map_err(fail)?),
    };
    let text = text.map_err(|e| format!("{end}: {e}"))?;
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

/// Runs `work` for each flow in a thread of its own.
fn each<T: Send>(flows: &[Flow], work: impl Fn(usize, &Flow) -> io::Result<T> + Sync) -> io::Result<Vec<T>> {
    std::thread::scope(|scope| {
        let start = |(number, flow)| {
            scope.spawn({
                let work = &work;
                move || work(number, flow)
            })
        };
        let threads: Vec<_> = flows.iter().enumerate().map(start).collect();
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        });
        ended.collect()
    })
}

/// A datagram of this frame's length, sent now.
fn stamped(payload: &mut [u8]) -> &[u8] {
    payload[..8].copy_from_slice(&wall_clock().to_be_bytes());
    payload
}

/// How long this datagram took that arrived then; none if it is not one of ours.
fn taken(datagram: &[u8], arrived: u64) -> Option<Span> {
    let sent = u64::from_be_bytes(*datagram.first_chunk()?);
    Some(Span::from_nanos(arrived.saturating_sub(sent)))
}

fn probe(to: &str, last: Time) -> io::Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect((to, PROBE_PORT))?;
    let mut payload = [0; (PROBE_FRAME - HEADERS) as usize];
    while clock::now() < last {
        std::thread::sleep(PROBES_APART);
        // The receiver counts what arrives.
        let _ = socket.send(stamped(&mut payload));
    }
    Ok(())
}

/// The delays of what arrives at this port until then, when the kernel has it.
fn arriving(port: u16, last: Time) -> io::Result<FineDelays> {
    let socket = StampedSocket::listen((Ipv4Addr::UNSPECIFIED, port).into()).map_err(io::Error::other)?;
    let (mut delays, mut buffer) = (FineDelays::default(), vec![0; 64 << 10]);
    while clock::now() < last {
        if let Some((len, arrived)) = socket.receive(&mut buffer).map_err(io::Error::other)?
            && let Some(delay) = taken(&buffer[..len], arrived)
        {
            delays.record(delay);
        }
    }
    Ok(delays)
}

fn send(setting: &Setting, to: &str) -> io::Result<Sent> {
    let begin = clock::now() + Span::from_nanos(BEFORE.as_nanos() as u64);
    let sent = begin + Span::from_secs(SECONDS);
    let probes = std::thread::spawn(move || arriving(PROBE_PORT, sent));
    let flows = setting.flows();
    let late = each(&flows, |number, flow| {
        let port = PORT + number as u16;
        let socket = UdpSocket::bind(("0.0.0.0", 40_001 + number as u16))?;
        sockopt::set_socket_send_buffer_size(&socket, 4 << 20)?;
        socket.connect((to, port))?;
        let mut payload = vec![0; (flow.frame - HEADERS) as usize];
        let (mut late, mut times) = (Vec::new(), Vec::new());
        for due in setting.times(number, flow) {
            let due = begin + Span::from_nanos(due.as_nanos() as u64);
            let wait = due.since(clock::now());
            if wait > Span::ZERO {
                std::thread::sleep(Duration::from_nanos(wait.nanos()));
            }
            let now = clock::now();
            // An error here is a drop on the way, which the receiver's count shows.
            let _ = socket.send(stamped(&mut payload));
            late.push(now.since(due).nanos() / 1_000);
            times.push(now.since(begin).nanos());
        }
        Ok((late, times))
    })?;
    let (late, times_ns): (Vec<Vec<u64>>, Vec<Vec<u64>>) = late.into_iter().unzip();
    let probes = probes
        .join()
        .map_err(|_| io::Error::other("a thread panicked"))??;
    let expected = SECONDS * 1_000 / PROBES_APART.as_millis() as u64;
    if probes.count() < expected / 2 {
        let arrived = probes.count();
        return Err(io::Error::other(format!(
            "{arrived} of {expected} probes arrived"
        )));
    }
    let packets = late.iter().map(|late| late.len() as u64).collect();
    let mut late = late.concat();
    late.sort_unstable();
    Ok(Sent {
        packets,
        late_p99_us: quantile(&late, 990),
        late_max_us: late.last().copied().unwrap_or(0),
        empty_us: probes.mean().nanos() / 1_000,
        times_ns,
    })
}

fn receive(setting: &Setting, from: &str) -> io::Result<Vec<FlowFigures>> {
    let last = clock::now() + Span::from_nanos(LASTS.as_nanos() as u64);
    let from = from.to_owned();
    let probes = std::thread::spawn(move || probe(&from, last));
    let flows = each(&setting.flows(), |number, flow| {
        let delays = arriving(PORT + number as u16, last)?;
        let us = |delay: Span| delay.nanos() / 1_000;
        Ok(FlowFigures {
            name: flow.name.into(),
            sent: 0,
            received: delays.count(),
            rate_bps: delays.count() * flow.frame * 8 / SECONDS,
            mean_us: us(delays.mean()),
            p50_us: us(delays.quantile(500)),
            p99_us: us(delays.quantile(990)),
            max_us: us(delays.longest()),
        })
    })?;
    probes
        .join()
        .map_err(|_| io::Error::other("a thread panicked"))??;
    Ok(flows)
}

/// What both ends wrote into these files.
pub fn side(what: &str, sent: &Path, received: &Path) -> Result<Side, String> {
    let read = |path: &Path| std::fs::read(path).map_err(|e| format!("{what}: no result ({e})"));
    let wrong = |e: serde_json::Error| format!("{what}: {e}");
    let sent: Sent = serde_json::from_slice(&read(sent)?).map_err(wrong)?;
    let mut flows: Vec<FlowFigures> = serde_json::from_slice(&read(received)?).map_err(wrong)?;
    for (flow, packets) in flows.iter_mut().zip(&sent.packets) {
        flow.sent = *packets;
    }
    let dropped = flows.iter().map(FlowFigures::lost).sum();
    Ok(Side {
        what: what.into(),
        flows,
        dropped,
        marked: 0,
        late_p99_us: Some(sent.late_p99_us),
        late_max_us: Some(sent.late_max_us),
        empty_us: Some(sent.empty_us),
    })
}
