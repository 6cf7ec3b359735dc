//! The test: its phases one after the other, and what each measured.

use super::ping::{self, Trip};
use super::streams::{self, Carried};
use crate::error::{Doing, Result};
use engine::units;
use measure::experience::RoundTrips;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

/// A test of the line to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineTest {
    /// The peer behind the line.
    pub to: SocketAddr,
    /// A second peer before the line, such as the home's router: what load adds up to it is that of
    /// the Wi-Fi or the cable.
    pub near: Option<SocketAddr>,
    /// Connections that fill the line.
    pub streams: usize,
    /// How long the idle line is measured.
    pub idle: Duration,
    /// How long the line is full before it is measured: slow start, and a buffer that fills.
    pub warm_up: Duration,
    /// How long the full line is measured, in each direction.
    pub loaded: Duration,
}

/// What a test measured.
#[derive(Clone, PartialEq, Debug)]
pub struct LineReport {
    /// The idle line.
    pub idle: Phase,
    /// With data from the peer.
    pub download: Phase,
    /// With data to the peer.
    pub upload: Phase,
    /// All datagrams of the test: seconds since its begin, and how many they took; not a number
    /// where one was lost.
    pub pings: Vec<(f64, f64)>,
}

/// What one phase measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Phase {
    /// From when to when, in seconds since the test's begin.
    pub between: (f64, f64),
    /// Datagrams.
    pub pings: RoundTrips,
    /// Datagrams to the near peer; none without one.
    pub near: RoundTrips,
    /// TCP handshakes.
    pub handshakes: RoundTrips,
    /// Requests on new connections.
    pub requests: RoundTrips,
    /// Requests on the connections that fill the line; none while it is idle.
    pub on_loaded: RoundTrips,
    /// Bits a second that arrived, of payload.
    pub bits_per_second: f64,
    /// The same over time, from the phase's begin with its warm-up: seconds since the test's begin.
    pub rates: Vec<(f64, f64)>,
}

/// The length of a step of [`Phase::rates`].
const STEP: Duration = Duration::from_millis(200);

/// One direction of data.
type Fill = fn(SocketAddr, &AtomicBool) -> io::Result<Carried>;

/// A phase as it ran: when it was measured, from when on the line was filled, and with what.
struct Ran {
    filled: Instant,
    from: Instant,
    to: Instant,
    carried: Vec<Carried>,
}

impl LineTest {
    /// Runs it: idle, full from the peer, full to the peer. `tell` is told each phase's name as it
    /// begins. If `stop` is set it ends early, with what was measured.
    ///
    /// # Errors
    ///
    /// Returns an error if the peer does not answer, or ends a connection.
    pub fn run(&self, stop: &AtomicBool, mut tell: impl FnMut(&str)) -> Result<LineReport> {
        let doing = || format!("measure the line to {}", self.to);
        let begin = Instant::now();
        let over = AtomicBool::new(false);
        scope(|scope| {
            let pings = |to: SocketAddr| {
                scope.spawn({
                    let over = &over;
                    move || ping::datagrams(to, over)
                })
            };
            let (far, near) = (pings(self.to), self.near.map(pings));
            let connections = scope.spawn(|| ping::connections(self.to, &over));
            let ran = self.phases(stop, &mut tell);
            over.store(true, Ordering::Relaxed);
            let far = joined(far).doing(doing)?;
            let near = near.map(joined).transpose().doing(doing)?.unwrap_or_default();
            let [handshakes, requests] = joined(connections);
            let ran = ran.doing(doing)?;
            let phase = |ran: &Ran| ran.phase(begin, [&far, &near, &handshakes, &requests]);
            let [idle, download, upload] = &ran;
            let seconds = |trip: &Trip| trip.took.map_or(f64::NAN, |took| took.as_secs_f64());
            Ok(LineReport {
                idle: phase(idle),
                download: phase(download),
                upload: phase(upload),
                pings: far
                    .iter()
                    .map(|trip| (since(begin, trip.at), seconds(trip)))
                    .collect(),
            })
        })
    }

    fn phases(&self, stop: &AtomicBool, tell: &mut impl FnMut(&str)) -> io::Result<[Ran; 3]> {
        tell("idle");
        let filled = Instant::now();
        wait(self.idle, stop);
        let idle = Ran {
            filled,
            from: filled,
            to: Instant::now(),
            carried: Vec::new(),
        };
        tell("download");
        let download = self.full(streams::download, stop)?;
        tell("upload");
        Ok([idle, download, self.full(streams::upload, stop)?])
    }

    /// Fills the line in one direction.
    fn full(&self, fill: Fill, stop: &AtomicBool) -> io::Result<Ran> {
        let over = AtomicBool::new(false);
        scope(|scope| {
            let filled = Instant::now();
            let run = || scope.spawn(|| fill(self.to, &over));
            let streams: Vec<_> = std::iter::repeat_with(run).take(self.streams).collect();
            wait(self.warm_up, stop);
            let from = Instant::now();
            wait(self.loaded, stop);
            let to = Instant::now();
            over.store(true, Ordering::Relaxed);
            Ok(Ran {
                filled,
                from,
                to,
                carried: streams.into_iter().map(joined).collect::<io::Result<_>>()?,
            })
        })
    }
}

impl Ran {
    fn phase(&self, begin: Instant, [far, near, handshakes, requests]: [&[Trip]; 4]) -> Phase {
        let within = |trips: &[Trip]| {
            let within = trips
                .iter()
                .filter(|trip| (self.from..self.to).contains(&trip.at));
            round_trips(within)
        };
        let asked = self.carried.iter().flat_map(|carried| &carried.trips);
        // One that began so late that its answer had no time is not lost.
        let asked = asked
            .filter(|trip| trip.at >= self.from && (trip.took.is_some() || trip.at + ping::LIMIT < self.to));
        Phase {
            between: (since(begin, self.from), since(begin, self.to)),
            pings: within(far),
            near: within(near),
            handshakes: within(handshakes),
            requests: within(requests),
            on_loaded: round_trips(asked),
            bits_per_second: self.rate(self.from, self.to),
            rates: self.rates(begin),
        }
    }

    /// Bits a second that arrived between two times.
    fn rate(&self, from: Instant, to: Instant) -> f64 {
        let until = |at: Instant| -> f64 {
            self.carried
                .iter()
                .map(|carried| arrived(carried, self.filled, at))
                .sum()
        };
        8.0 * (until(to) - until(from)) / (to - from).as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn rates(&self, begin: Instant) -> Vec<(f64, f64)> {
        let mut rates = Vec::new();
        let mut at = self.filled;
        while !self.carried.is_empty() && at + STEP <= self.to {
            rates.push((since(begin, at + STEP / 2), self.rate(at, at + STEP)));
            at += STEP;
        }
        rates
    }
}

/// Bytes that had arrived by then, between two notes in proportion.
fn arrived(carried: &Carried, filled: Instant, at: Instant) -> f64 {
    let later = carried.arrived.partition_point(|(noted, _)| *noted <= at);
    let (t0, b0) = later
        .checked_sub(1)
        .map_or((filled, 0), |earlier| carried.arrived[earlier]);
    let Some(&(t1, b1)) = carried.arrived.get(later) else {
        return b0 as f64;
    };
    let part = at.saturating_duration_since(t0).as_secs_f64() / (t1 - t0).as_secs_f64();
    b0 as f64 + part * (b1 - b0) as f64
}

fn round_trips<'a>(trips: impl Iterator<Item = &'a Trip>) -> RoundTrips {
    let (mut times, mut lost) = (Vec::new(), 0);
    for trip in trips {
        match trip.took {
            Some(took) => times.push(units::Duration::from_nanos(
                u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
            )),
            None => lost += 1,
        }
    }
    RoundTrips::new(times, lost)
}

fn since(begin: Instant, at: Instant) -> f64 {
    at.saturating_duration_since(begin).as_secs_f64()
}

fn wait(time: Duration, stop: &AtomicBool) {
    let end = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20).min(end.saturating_duration_since(Instant::now())));
    }
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
