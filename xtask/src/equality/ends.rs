//! The ends of a case between real sockets: one process sends every flow's datagrams at their
//! times, another receives them. They share the machine's clock.

use super::cases::{SECONDS, Setting};
use crate::compare::inside::DRAIN;
use crate::compare::measured::{FlowFigures, Side, quantile};
use crate::compare::traffic::{Flow, HEADERS, PORT};
use engine::units::{Duration as Span, Instant as Time};
use measure::delay::Delays;
use netio::clock;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

/// How long the receivers listen before the senders start.
pub const LEAD: Duration = Duration::from_millis(500);

/// What the sending end reports.
#[derive(Debug, Serialize, Deserialize)]
struct Sent {
    packets: Vec<u64>,
    late_p99_us: u64,
    late_max_us: u64,
}

/// Runs one end, and writes what it saw into this file.
pub fn run(setting: &Setting, end: &str, to: &str, file: &Path) -> Result<(), String> {
    let fail = |error: io::Error| format!("{end}: {error}");
    let text = match end {
        "send" => serde_json::to_string(&send(setting, to).map_err(fail)?),
        _ => serde_json::to_string(&receive(setting).map_err(fail)?),
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

fn send(setting: &Setting, to: &str) -> io::Result<Sent> {
    let begin = clock::now() + Span::from_millis(200);
    let flows = setting.flows();
    let late = each(&flows, |number, flow| {
        let port = PORT + number as u16;
        let socket = UdpSocket::bind(("0.0.0.0", 40_001 + number as u16))?;
        sockopt::set_socket_send_buffer_size(&socket, 4 << 20)?;
        socket.connect((to, port))?;
        let mut payload = vec![0; (flow.frame - HEADERS) as usize];
        let mut late = Vec::new();
        for due in flow.times(number, SECONDS) {
            let due = begin + Span::from_nanos(due.as_nanos() as u64);
            let wait = due.since(clock::now());
            if wait > Span::ZERO {
                std::thread::sleep(Duration::from_nanos(wait.nanos()));
            }
            let now = clock::now();
            payload[..8].copy_from_slice(&now.nanos().to_be_bytes());
            // An error here is a drop on the way, which the receiver's count shows.
            let _ = socket.send(&payload);
            late.push(now.since(due).nanos() / 1_000);
        }
        Ok(late)
    })?;
    let packets = late.iter().map(|late| late.len() as u64).collect();
    let mut late = late.concat();
    late.sort_unstable();
    Ok(Sent {
        packets,
        late_p99_us: quantile(&late, 990),
        late_max_us: late.last().copied().unwrap_or(0),
    })
}

fn receive(setting: &Setting) -> io::Result<Vec<FlowFigures>> {
    let listens = LEAD + Duration::from_secs(SECONDS) + DRAIN;
    let last = clock::now() + Span::from_nanos(listens.as_nanos() as u64);
    each(&setting.flows(), |number, flow| {
        let socket = UdpSocket::bind(("0.0.0.0", PORT + number as u16))?;
        sockopt::set_socket_recv_buffer_size(&socket, 16 << 20)?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let (mut delays, mut buffer) = (Delays::default(), vec![0; 64 << 10]);
        while clock::now() < last {
            match socket.recv(&mut buffer) {
                Ok(some) if some >= 8 => {
                    let mut sent = [0; 8];
                    sent.copy_from_slice(&buffer[..8]);
                    delays.record(clock::now().since(Time::from_nanos(u64::from_be_bytes(sent))));
                }
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) => return Err(e),
            }
        }
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
    })
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
    })
}
