//! `suimon traffic send|receive`: a generator of UDP streams and their analyser: the instruments of
//! Maeshima, Ito, Ishikura and Asami, "RSVP bandwidth reservation with
//! weighted round robin" (section 4); and with `--tcp` connections of TCP (`traffic_tcp.rs`).
//!
//! The sender numbers and stamps its datagrams, so that the receiver computes loss, reordering,
//! delay, jitter and throughput without feedback. Sizes are UDP payload, as in the paper;
//! configured rates count IP packets; both are shown.

use crate::commands::Context;
use crate::commands::traffic_tcp::{TcpReceiver, TcpSender};
use crate::exit::{Exit, Failure};
use crate::instruments::{StreamSeries, address, clear_progress, resolve};
use clap::{Args, Subcommand};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration};
use gateway::supervise::handle_signals;
use lab::traffic::analyser::{Analyser, ReceivedStream};
use lab::traffic::datagram::LEAST_PAYLOAD;
use lab::traffic::generator::{self, SendReport, TrafficShape};
use lab::traffic::stamped::wall_clock;
use lab::traffic::tally::Tally;
use plot::{self, AxisUnit, PlotStyle, Series};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Span, Instant};

/// Send numbered UDP datagrams at set times, or receive them and report loss, delay, jitter and
/// throughput; or connections of TCP
#[derive(Debug, Args)]
pub struct Traffic {
    #[command(subcommand)]
    end: End,
}

#[derive(Debug, Subcommand)]
enum End {
    Send(Send),
    Receive(Receive),
}

impl Traffic {
    /// Runs one end.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        let stop = Arc::new(AtomicBool::new(false));
        handle_signals(&stop).map_err(|e| Failure::at_run_time(format!("cannot handle signals: {e}")))?;
        match &self.end {
            End::Send(end) => end.run(&stop, out),
            End::Receive(end) => end.run(&stop, out),
        }
    }
}

/// Send datagrams: by default 1,468 bytes of payload every 309 µs for 10 s (the RSVP paper's
/// stream)
#[derive(Debug, Args)]
struct Send {
    /// Where `suimon traffic receive` listens: HOST:PORT
    to: String,
    /// Bytes of UDP payload in each datagram, at least 32
    #[arg(long, default_value = "1468 B")]
    size: Bytes,
    /// The interval between datagrams; "0 s" is as fast as possible
    #[arg(long, conflicts_with = "rate")]
    interval: Option<Duration>,
    /// A rate of IP packets instead: 37Mbit/s
    #[arg(long)]
    rate: Option<Bandwidth>,
    /// Datagrams per burst, `--interval` apart; needs `--every`
    #[arg(long, default_value_t = 1, requires = "every", value_parser = clap::value_parser!(u32).range(1..))]
    burst: u32,
    /// The time from the start of one burst to the start of the next
    #[arg(long, requires = "burst")]
    every: Option<Duration>,
    /// Stop after this many datagrams
    #[arg(long, conflicts_with = "time")]
    count: Option<u64>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", default_value = "10 s")]
    time: Duration,
    /// So many connections of TCP instead, each as fast as it can be
    #[arg(long, value_name = "CONNECTIONS", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_000))]
    #[arg(conflicts_with_all = ["size", "interval", "rate", "burst", "every", "count"])]
    tcp: Option<u16>,
    /// Their congestion control, of those that this host's kernel has
    #[arg(long, requires = "tcp", value_name = "NAME")]
    congestion: Option<String>,
    /// The address to send from
    #[arg(long)]
    from: Option<IpAddr>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The interval of the paper's measured stream.
const INTERVAL: Duration = Duration::from_micros(309);

/// Bytes of the UDP and IP headers.
const fn headers(to: SocketAddr) -> u64 {
    if to.is_ipv4() { 28 } else { 48 }
}

impl Send {
    fn run(&self, stop: &AtomicBool, out: &mut dyn Write) -> Result<Exit, Failure> {
        if let Some(connections) = self.tcp {
            return TcpSender {
                to: &self.to,
                connections,
                congestion: self.congestion.as_deref(),
                time: self.time,
                from: self.from,
                json: self.json,
            }
            .run(stop, out);
        }
        let to = resolve(&self.to)?;
        let shape = self.shape(to)?;
        let from = self.from.map(|ip| SocketAddr::new(ip, 0));
        let socket = generator::socket(to, from)?;
        let stream = Seed(wall_clock() ^ u64::from(std::process::id()) << 40)
            .stream()
            .bits();
        let stop = || stop.load(Ordering::Relaxed);
        let sent = generator::send(&socket, stream, &shape, wall_clock, |_| (), stop)
            .map_err(|e| Failure::at_run_time(format!("cannot send to {to}: {e}")))?;
        sent.check(to)?;
        let lines = self.lines(to, stream, &sent);
        match self.json {
            true => writeln!(out, "{lines:#}")?,
            false => self.describe(to, &sent, out)?,
        }
        Ok(Exit::Done)
    }

    fn shape(&self, to: SocketAddr) -> Result<TrafficShape, Failure> {
        let most = 65_535 - headers(to);
        let payload = self.size.get();
        if payload < LEAST_PAYLOAD as u64 || payload > most {
            return Err(Failure::usage(format!(
                "--size {}: a datagram has {LEAST_PAYLOAD} to {most} bytes of payload",
                self.size
            )));
        }
        let packet = Bytes::new(payload + headers(to));
        let interval = match self.rate {
            Some(Bandwidth::ZERO) => return Err(Failure::usage("--rate 0: nothing would be sent")),
            Some(rate) => rate.time_to_send(packet),
            None => self.interval.unwrap_or(INTERVAL),
        };
        let period = self.every.unwrap_or(interval);
        let in_burst = interval.times(u64::from(self.burst - 1));
        if self.burst > 1 && period < in_burst {
            return Err(Failure::usage(format!(
                "--every {period}: a burst of {} takes {in_burst}",
                self.burst
            )));
        }
        let span = |d: Duration| Span::from_nanos(d.nanos());
        let mut shape = TrafficShape {
            payload: payload as usize,
            interval: span(interval),
            burst: self.burst,
            period: span(period),
            count: u64::MAX,
        };
        shape.count = match self.count {
            Some(count) => count,
            None if shape.period.is_zero() => u64::MAX,
            None => count_within(&shape, span(self.time)),
        };
        Ok(shape)
    }

    fn lines(&self, to: SocketAddr, stream: u64, sent: &SendReport) -> Value {
        let late = sent.late.quantiles(&[500, 990, 1000]);
        json!({
            "to": to.to_string(),
            "stream": format!("{stream:016x}"),
            "payload_bytes": self.size.get(),
            "sent": sent.datagrams,
            "refused": sent.refused,
            "seconds": sent.took.as_secs_f64(),
            "rate_ip_bits_per_second": self.rate_of(to, sent),
            "late_ns": { "median": late.first(), "p99": late.get(1), "most": late.get(2) },
        })
    }

    /// The rate in bit/s of IP packets: those after the first, over the time since the first.
    fn rate_of(&self, to: SocketAddr, sent: &SendReport) -> Option<f64> {
        let packets = sent.datagrams.checked_sub(1).filter(|&packets| packets > 0)?;
        let bits = packets as f64 * (self.size.get() + headers(to)) as f64 * 8.0;
        Some(bits / sent.took.as_secs_f64())
    }

    fn describe(&self, to: SocketAddr, sent: &SendReport, out: &mut dyn Write) -> std::io::Result<()> {
        let rate = self.rate_of(to, sent).map_or_else(String::new, |rate| {
            format!(", {} of IP packets", AxisUnit::Rate.show(rate))
        });
        writeln!(
            out,
            "{to}: {} datagrams of {} in {}{rate}",
            sent.datagrams,
            self.size,
            AxisUnit::Time.show(sent.took.as_secs_f64()),
        )?;
        if sent.refused > 0 {
            writeln!(
                out,
                "{} of them were rejected by this host's kernel: the interface's queue was full, or no receiver listens",
                sent.refused
            )?;
        }
        let late = sent.late.quantiles(&[500, 990, 1000]);
        let late: Vec<String> = late.into_iter().map(nanos).collect();
        match &late[..] {
            [median, high, most] => {
                writeln!(
                    out,
                    "late against the schedule: median {median}, 99 % {high}, maximum {most}"
                )
            }
            _ => Ok(()),
        }
    }
}

/// The number of datagrams that are due before this time.
fn count_within(shape: &TrafficShape, time: Span) -> u64 {
    // The greatest number that is due in time, by bisection: bursts and gaps need no special
    // case.
    let (mut known, mut beyond) = (0, u64::MAX >> 1);
    while known < beyond {
        let middle = known + (beyond - known) / 2;
        match shape.due(middle) < time {
            true => known = middle + 1,
            false => beyond = middle,
        }
    }
    known
}

/// Receive streams and report loss, reordering, delay, jitter and throughput of each
#[derive(Debug, Args)]
struct Receive {
    /// Where to listen: PORT, or ADDRESS:PORT; by default all addresses. Port 0 chooses one
    on: String,
    /// Connections of TCP instead
    #[arg(long, conflicts_with = "idle")]
    tcp: bool,
    /// End after this many streams have ended; without it, at Ctrl-C or after `--for`
    #[arg(long)]
    streams: Option<usize>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Duration>,
    /// A stream has ended when nothing arrives for this time
    #[arg(long, default_value = "5 s")]
    idle: Duration,
    /// Length of the intervals of the throughput series
    #[arg(long, default_value = "100 ms")]
    bin: Duration,
    /// Write the throughput series here, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<String>,
    /// Draw the throughput series here, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<String>,
    /// Print JSON: an array, a stream each
    #[arg(long)]
    json: bool,
}

impl Receive {
    fn run(&self, stop: &AtomicBool, out: &mut dyn Write) -> Result<Exit, Failure> {
        if self.bin == Duration::from_nanos(0) {
            return Err(Failure::usage("--bin 0: an interval must have a length"));
        }
        let span = |d: Duration| Span::from_nanos(d.nanos());
        if self.tcp {
            let receiver = TcpReceiver {
                on: &self.on,
                streams: self.streams,
                time: self.time.map(span),
                bin: span(self.bin),
                json: self.json,
            };
            self.save(receiver.run(stop, out)?)?;
            return Ok(Exit::Done);
        }
        let mut analyser = Analyser::listen(address(&self.on)?, span(self.bin))?;
        eprintln!("suimon: listening on {} (UDP)", analyser.address()?);
        let (begin, idle) = (Instant::now(), span(self.idle));
        let last = self.time.map(|time| begin + span(time));
        let mut shown = begin;
        while !stop.load(Ordering::Relaxed) && last.is_none_or(|last| Instant::now() < last) {
            analyser.turn()?;
            let now = Instant::now();
            if now - shown < Span::from_secs(1) / 4 {
                continue;
            }
            shown = now;
            let over = |heard: &&ReceivedStream| heard.over(now, idle);
            let ended = analyser.streams().values().filter(over).count();
            if self.streams.is_some_and(|streams| ended >= streams) {
                break;
            }
            progress(&analyser);
        }
        clear_progress();
        self.report(&analyser, out)
    }

    fn report(&self, analyser: &Analyser, out: &mut dyn Write) -> Result<Exit, Failure> {
        let streams: Vec<(u64, &Tally)> = analyser
            .streams()
            .iter()
            .map(|(name, heard)| (*name, &heard.tally))
            .collect();
        self.save(series(&streams))?;
        if self.json {
            let streams: Vec<Value> = streams.iter().map(|(name, tally)| of(*name, tally)).collect();
            writeln!(out, "{:#}", Value::from(streams))?;
            return Ok(Exit::Done);
        }
        if streams.is_empty() {
            writeln!(out, "nothing arrived")?;
        }
        for (name, tally) in streams {
            describe(name, tally, out)?;
        }
        if analyser.foreign() > 0 {
            writeln!(out, "{} other datagrams arrived", analyser.foreign())?;
        }
        Ok(Exit::Done)
    }

    /// Writes the files that are asked for.
    fn save(&self, series: Vec<StreamSeries>) -> Result<(), Failure> {
        let save = |path: &str, text: String| {
            std::fs::write(path, text).map_err(|e| Failure::at_run_time(format!("cannot write {path}: {e}")))
        };
        if let Some(path) = &self.csv {
            save(path, csv(&series))?;
        }
        if let Some(path) = &self.picture {
            save(path, picture(series))?;
        }
        Ok(())
    }
}

/// Shows on a terminal, during the run, how much has arrived.
fn progress(analyser: &Analyser) {
    if std::io::stderr().is_terminal() {
        let received: u64 = analyser
            .streams()
            .values()
            .map(|heard| heard.tally.received)
            .sum();
        let lost: u64 = analyser.streams().values().map(|heard| heard.tally.lost()).sum();
        eprint!(
            "\r\x1b[K{} streams, {received} datagrams received, {lost} missing",
            analyser.streams().len()
        );
    }
}

/// Nanoseconds, human-readable; clock offsets may make them negative.
fn nanos(value: i64) -> String {
    match value {
        0 => "0".into(),
        value => AxisUnit::Time.show(value as f64 / 1e9),
    }
}

fn describe(name: u64, tally: &Tally, out: &mut dyn Write) -> std::io::Result<()> {
    let sent = tally.sent();
    writeln!(out, "stream {name:016x}")?;
    writeln!(
        out,
        "    {} of {sent} datagrams received, {} lost ({}), {} duplicated, {} out of order (at most by {}){}",
        tally.received,
        tally.lost(),
        AxisUnit::Percent.show(100.0 * tally.lost() as f64 / sent.max(1) as f64),
        tally.duplicates,
        tally.reordered,
        tally.furthest,
        if tally.ended() {
            ""
        } else {
            "; its end was not received"
        },
    )?;
    if let (Some(rate), Some((first, last))) = (tally.rate(), tally.span()) {
        let seconds = (last - first) as f64 / 1e9;
        writeln!(
            out,
            "    {} of payload in {}",
            AxisUnit::Rate.show(rate),
            AxisUnit::Time.show(seconds)
        )?;
    }
    let delays = &tally.delays;
    let quantiles = delays.quantiles(&[500, 950, 990]);
    if let (Some(least), Some(most), [median, high, higher]) =
        (delays.least(), delays.greatest(), &quantiles[..])
    {
        writeln!(
            out,
            "    one-way delay by the two clocks: minimum {}; above it: median {}, 95 % {}, 99 % {}, maximum {}",
            nanos(least),
            nanos(median - least),
            nanos(high - least),
            nanos(higher - least),
            nanos(most - least),
        )?;
        writeln!(out, "    jitter (RFC 3550) {}", nanos(tally.jitter() as i64))?;
    }
    Ok(())
}

fn of(name: u64, tally: &Tally) -> Value {
    let (bin, bins) = tally.series();
    let delays = &tally.delays;
    let quantiles = delays.quantiles(&[500, 950, 990]);
    json!({
        "name": format!("{name:016x}"),
        "sent": tally.sent(),
        "end_heard": tally.ended(),
        "received": tally.received,
        "lost": tally.lost(),
        "duplicates": tally.duplicates,
        "reordered": tally.reordered,
        "furthest_out_of_order": tally.furthest,
        "payload_bytes": tally.bytes,
        "rate_payload_bits_per_second": tally.rate(),
        "delay_ns": {
            "least": delays.least(), "mean": delays.mean(), "median": quantiles.first(),
            "p95": quantiles.get(1), "p99": quantiles.get(2), "most": delays.greatest(),
        },
        "jitter_ns": tally.jitter(),
        "bin_ns": bin,
        "payload_bytes_in_bins": bins,
    })
}

/// Time since the first datagram of all, stream, and payload in bit/s.
fn csv(series: &[StreamSeries]) -> String {
    let mut text = String::from("seconds,stream,payload_bits_per_second\n");
    for StreamSeries { name, points } in series {
        for (seconds, rate) in points {
            text += &format!("{seconds:.6},{name},{rate:.0}\n");
        }
    }
    text
}

/// The series of each stream, on the time since the first datagram of all.
fn series(streams: &[(u64, &Tally)]) -> Vec<StreamSeries> {
    let first = streams
        .iter()
        .filter_map(|(_, tally)| tally.span())
        .map(|(first, _)| first)
        .min();
    let first = first.unwrap_or_default();
    let of = |(name, tally): &(u64, &Tally)| {
        let begin = tally.span().map_or(0, |(begin, _)| begin - first);
        StreamSeries::of(format!("{name:016x}"), begin, tally.series())
    };
    streams.iter().map(of).collect()
}

fn picture(series: Vec<StreamSeries>) -> String {
    let series = series
        .into_iter()
        .map(|StreamSeries { name, points }| Series::new(&name, points));
    let plot = plot::rates_over_time("Payload of each stream", PlotStyle::Lines, series.collect());
    plot::picture("Received streams", &[plot])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_contains_the_datagrams_that_are_due_in_it() {
        let shape = |interval, burst, period| TrafficShape {
            payload: 100,
            interval: Span::from_micros(interval),
            burst,
            period: Span::from_micros(period),
            count: u64::MAX,
        };
        let count = |shape: TrafficShape, millis| count_within(&shape, Span::from_millis(millis));
        assert_eq!(count(shape(1000, 1, 1000), 10), 10, "at 0, 1, …, 9 ms");
        assert_eq!(count(shape(100, 8, 5000), 10), 16);
        assert_eq!(count(shape(0, 8, 5000), 6), 16);
    }
}
