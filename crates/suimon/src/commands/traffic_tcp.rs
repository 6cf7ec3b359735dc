//! `suimon traffic send|receive --tcp`: connections of the kernel's TCP, as fast as the way between
//! the hosts lets them, as iperf does it. The receiver counts the bytes of each; the sender shows
//! what its kernel says of them (`TCP_INFO`).

use crate::exit::{Exit, Failure};
use crate::instruments::{StreamSeries, address, clear_progress, resolve};
use engine::units::Duration;
use lab::traffic::payload_bins::PayloadBins;
use lab::traffic::tcp::{self, SentByTcp};
use measure::numbers;
use plot::AxisUnit;
use serde_json::{Value, json};
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration as Span, Instant};

/// How long the sender waits at the end for what is on its way.
const DRAIN: Span = Span::from_secs(5);
/// Between two looks for a new connection.
const PAUSE: Span = Span::from_millis(5);

/// Connections that are made at one time, and send.
#[derive(Clone, Debug)]
pub(super) struct TcpSender<'a> {
    pub(super) to: &'a str,
    pub(super) connections: u16,
    pub(super) congestion: Option<&'a str>,
    pub(super) time: Duration,
    pub(super) from: Option<IpAddr>,
    pub(super) json: bool,
}

/// What one connection has sent.
struct SentBy {
    sent: SentByTcp,
    /// Until all had arrived.
    took: Span,
    arrived: bool,
}

impl TcpSender<'_> {
    pub(super) fn run(&self, stop: &AtomicBool, out: &mut dyn Write) -> Result<Exit, Failure> {
        let to = resolve(self.to)?;
        let streams: Vec<TcpStream> = (0..self.connections)
            .map(|_| self.connect(to))
            .collect::<Result<_, _>>()?;
        let begin = Instant::now();
        let end = begin + Span::from_nanos(self.time.nanos());
        let over = || stop.load(Ordering::Relaxed) || Instant::now() >= end;
        let done: Vec<std::io::Result<SentBy>> = std::thread::scope(|scope| {
            let one = |mut stream: TcpStream| {
                let sent = tcp::send_on(&mut stream, u64::MAX, Some(Span::MAX), over)?;
                let arrived = drained(&mut stream)?;
                Ok(SentBy {
                    sent,
                    took: begin.elapsed(),
                    arrived,
                })
            };
            let threads: Vec<_> = streams
                .into_iter()
                .map(|stream| scope.spawn(move || one(stream)))
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        let done: Vec<SentBy> = done
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|e| Failure::at_run_time(format!("cannot send to {to}: {e}")))?;
        match self.json {
            true => writeln!(out, "{:#}", self.lines(to, &done))?,
            false => self.describe(to, &done, out)?,
        }
        Ok(Exit::Done)
    }

    fn connect(&self, to: SocketAddr) -> Result<TcpStream, Failure> {
        let from = self.from.map(|ip| SocketAddr::new(ip, 0));
        let stream = tcp::connect(to, from).map_err(|e| {
            Failure::at_run_time(format!(
                "cannot connect to {to}: {e}; is `suimon traffic receive PORT --tcp` running there?"
            ))
        })?;
        if let Some(name) = self.congestion {
            tcp::use_congestion(&stream, name)?;
        }
        Ok(stream)
    }

    fn lines(&self, to: SocketAddr, done: &[SentBy]) -> Value {
        let one = |of: &SentBy| {
            let sample = of.sent.samples.last();
            json!({
                "payload_bytes": of.sent.bytes,
                "seconds": of.took.as_secs_f64(),
                "rate_payload_bits_per_second": rate(of.sent.bytes, of.took),
                "all_arrived": of.arrived,
                "retransmitted_segments": sample.map(|sample| sample.retransmissions),
                "cwnd_bytes": sample.map(|sample| sample.cwnd),
                "rtt_ns": sample.map(|sample| sample.rtt.as_nanos() as u64),
            })
        };
        json!({ "to": to.to_string(), "connections": done.iter().map(one).collect::<Vec<_>>() })
    }

    fn describe(&self, to: SocketAddr, done: &[SentBy], out: &mut dyn Write) -> std::io::Result<()> {
        let bytes = done.iter().map(|of| of.sent.bytes).sum();
        let took = done.iter().map(|of| of.took).max().unwrap_or_default();
        writeln!(
            out,
            "{to}: {} in {} over {} of TCP, {} of payload",
            numbers::bytes(bytes),
            AxisUnit::Time.show(took.as_secs_f64()),
            match done.len() {
                1 => "a connection".to_owned(),
                many => format!("{many} connections"),
            },
            AxisUnit::Rate.show(rate(bytes, took)),
        )?;
        for of in done {
            let lost = if of.arrived {
                ""
            } else {
                "; its end did not arrive within 5 s"
            };
            if let Some(sample) = of.sent.samples.last() {
                writeln!(
                    out,
                    "    {}, {} segments sent again, at the end cwnd {} and a round trip of {}{lost}",
                    AxisUnit::Rate.show(rate(of.sent.bytes, of.took)),
                    sample.retransmissions,
                    numbers::bytes(sample.cwnd),
                    AxisUnit::Time.show(sample.rtt.as_secs_f64()),
                )?;
            }
        }
        Ok(())
    }
}

/// Ends the sending, and waits until the receiver has all, which it shows by closing.
fn drained(stream: &mut TcpStream) -> std::io::Result<bool> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(DRAIN))?;
    match stream.read(&mut [0]) {
        Ok(0) => Ok(true),
        Ok(_) => Ok(false),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
        Err(e) => Err(e),
    }
}

fn rate(bytes: u64, took: Span) -> f64 {
    bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9)
}

/// The other end.
#[derive(Clone, Debug)]
pub(super) struct TcpReceiver<'a> {
    pub(super) on: &'a str,
    pub(super) streams: Option<usize>,
    pub(super) time: Option<Span>,
    pub(super) bin: Span,
    pub(super) json: bool,
}

/// What one connection has brought.
#[derive(Clone, Debug)]
struct Received {
    from: SocketAddr,
    begin: Instant,
    last: Instant,
    bytes: u64,
    series: PayloadBins,
    /// The other end has said that this is all.
    ended: bool,
    error: Option<String>,
}

impl TcpReceiver<'_> {
    /// Receives until it is over; what came is shown, and returned as series.
    pub(super) fn run(&self, stop: &AtomicBool, out: &mut dyn Write) -> Result<Vec<StreamSeries>, Failure> {
        let on = address(self.on)?;
        let failed = |e: std::io::Error| Failure::at_run_time(format!("cannot listen on {on}: {e}"));
        let listener = TcpListener::bind(on).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        eprintln!(
            "suimon: listening on {} (TCP)",
            listener.local_addr().map_err(failed)?
        );
        let (begin, all, full) = (Instant::now(), Mutex::new(Vec::new()), AtomicBool::new(false));
        let over = || {
            stop.load(Ordering::Relaxed)
                || full.load(Ordering::Relaxed)
                || self.time.is_some_and(|time| begin.elapsed() >= time)
        };
        std::thread::scope(|scope| {
            while !over() {
                match listener.accept() {
                    Ok((stream, from)) => {
                        let (all, over) = (&all, &over);
                        scope.spawn(move || self.hear(stream, from, all, over));
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                    Err(e) => return Err(failed(e)),
                }
                let all = all.lock().unwrap_or_else(PoisonError::into_inner);
                let ended = all.iter().filter(|of: &&Received| of.ended).count();
                full.store(self.streams.is_some_and(|most| ended >= most), Ordering::Relaxed);
                progress(&all);
            }
            Ok(())
        })?;
        clear_progress();
        let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.report(&all, out)?;
        Ok(series(&all))
    }

    /// One connection, by a thread of its own.
    fn hear(
        &self,
        stream: TcpStream,
        from: SocketAddr,
        all: &Mutex<Vec<Received>>,
        over: &impl Fn() -> bool,
    ) {
        let now = Instant::now();
        let change = |at: usize, act: &mut dyn FnMut(&mut Received)| {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            act(&mut all[at]);
        };
        let at = {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(Received {
                from,
                begin: now,
                last: now,
                bytes: 0,
                series: PayloadBins::new(nanos(self.bin)),
                ended: false,
                error: None,
            });
            all.len() - 1
        };
        let ended = stream.set_nonblocking(false).and_then(|()| {
            let mut stream = stream;
            tcp::receive_on(&mut stream, over, |bytes| {
                change(at, &mut |of| of.hear(bytes));
            })
        });
        change(at, &mut |of| match &ended {
            Ok(ended) => of.ended = *ended,
            // A connection that broke has ended, too.
            Err(e) => (of.ended, of.error) = (true, Some(e.to_string())),
        });
    }

    fn report(&self, all: &[Received], out: &mut dyn Write) -> std::io::Result<()> {
        if self.json {
            let all: Vec<Value> = all.iter().map(Received::lines).collect();
            return writeln!(out, "{:#}", Value::from(all));
        }
        if all.is_empty() {
            writeln!(out, "no connection came")?;
        }
        for of in all {
            let end = match (&of.error, of.ended) {
                (Some(error), _) => format!("; it broke: {error}"),
                (None, true) => String::new(),
                (None, false) => "; it had not ended".into(),
            };
            writeln!(
                out,
                "{}: {} in {}, {} of payload{end}",
                of.from,
                numbers::bytes(of.bytes),
                AxisUnit::Time.show(of.took().as_secs_f64()),
                AxisUnit::Rate.show(rate(of.bytes, of.took())),
            )?;
        }
        Ok(())
    }
}

impl Received {
    fn hear(&mut self, bytes: u64) {
        self.last = Instant::now();
        self.bytes += bytes;
        self.series.add(nanos(self.last - self.begin), bytes);
    }

    fn took(&self) -> Span {
        self.last - self.begin
    }

    fn lines(&self) -> Value {
        let (bin, bins) = self.series.bins();
        json!({
            "from": self.from.to_string(),
            "payload_bytes": self.bytes,
            "seconds": self.took().as_secs_f64(),
            "rate_payload_bits_per_second": rate(self.bytes, self.took()),
            "end_heard": self.ended && self.error.is_none(),
            "error": self.error,
            "bin_ns": bin,
            "payload_bytes_in_bins": bins,
        })
    }
}

/// The series of each connection, on the time since the first.
fn series(all: &[Received]) -> Vec<StreamSeries> {
    let first = all.iter().map(|of| of.begin).min();
    let of = |of: &Received| {
        let begin = first.map_or(0, |first| nanos(of.begin - first));
        StreamSeries::of(of.from.to_string(), begin, of.series.bins())
    };
    all.iter().map(of).collect()
}

fn nanos(span: Span) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Shows on a terminal, during the run, how much has arrived.
fn progress(all: &[Received]) {
    if std::io::stderr().is_terminal() {
        let bytes: u64 = all.iter().map(|of| of.bytes).sum();
        eprint!(
            "\r\x1b[K{} connections, {} received",
            all.len(),
            numbers::bytes(bytes)
        );
    }
}
