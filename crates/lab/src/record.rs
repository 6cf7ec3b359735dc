//! Records the bytes offered to an emulated link and sent by it, in time bins: the bandwidth meter
//! of the GNET-1 in the PSPacer paper.
//!
//! Offered bytes count in the bin in which the emulator received them. It reads its clock once per
//! batch, so a burst that arrived together counts in one bin. Sent bytes are spread exactly over
//! their transmission time.

use crate::promised::FoundArrival;
use engine::discipline::Verdict;
use engine::units::{Bytes, Duration, Instant};
use measure::delay::Delays;
use measure::series::ByteSeries;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bins at most; later bytes are not recorded.
const MAX_BINS: u64 = 10_000_000;
/// Packets whose times are kept that exceeded a curve.
const MOST_TIMES: usize = 100_000;

/// The contents of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Bytes offered, by the time of their arrival.
    pub offered: ByteSeries,
    /// Bytes sent, by their transmission time.
    pub sent: ByteSeries,
    /// The largest backlog, in bytes.
    pub deepest: Bytes,
    /// Queueing delays: from arrival until the first bit is on the wire.
    pub waited: Delays,
    /// What came for each class that something is promised to.
    pub promised: BTreeMap<String, PromisedArrivals>,
}

/// What came to the queue of a link for a class that something is promised to, held against the
/// arrival curve of that by the times at which it came.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PromisedArrivals {
    /// All packets.
    pub packets: u64,
    /// When those came that exceeded the curve; of very many the first.
    pub exceeded_at: Vec<Instant>,
    /// How many these are.
    pub exceeded: u64,
    /// By how much one of them was too early at most.
    pub earliest: Duration,
    /// Those of them that the queue refused.
    pub policed: u64,
    /// Those that kept to the curve, and were refused all the same.
    pub refused: u64,
}

/// A record that a link writes and others read. Clones share the same record.
#[derive(Clone, Debug)]
pub struct Record {
    end: Instant,
    inner: Arc<Mutex<Recorded>>,
}

impl Record {
    /// A record from this time on, in bins of this length.
    pub fn new(origin: Instant, bin: Duration) -> Self {
        let series = ByteSeries::new(origin, bin);
        let inner = Recorded {
            offered: series.clone(),
            sent: series,
            deepest: Bytes::ZERO,
            waited: Delays::default(),
            promised: BTreeMap::new(),
        };
        Self {
            end: origin + bin.times(MAX_BINS),
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Recorded> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn offered(&self, now: Instant, len: Bytes, backlog: Bytes) {
        if now < self.end {
            let mut inner = self.inner();
            inner.offered.add(now, len.get());
            inner.deepest = inner.deepest.max(backlog);
        }
    }

    pub(crate) fn sent(&self, arrived: Instant, from: Instant, to: Instant, len: Bytes) {
        if to < self.end {
            let mut inner = self.inner();
            inner.sent.spread(from, to, len.get());
            inner.waited.record(from.since(arrived));
        }
    }

    pub(crate) fn promised(&self, now: Instant, found: FoundArrival<'_>, verdict: Verdict) {
        let mut inner = self.inner();
        if !inner.promised.contains_key(found.class) {
            inner
                .promised
                .insert(found.class.to_owned(), PromisedArrivals::default());
        }
        if let Some(class) = inner.promised.get_mut(found.class) {
            class.comes(now, found.early, verdict != Verdict::Queued);
        }
    }

    /// Copies what was recorded so far.
    pub fn read(&self) -> Recorded {
        self.inner().clone()
    }
}

impl PromisedArrivals {
    /// These and those of another class of the same flow.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.packets += other.packets;
        self.exceeded_at.extend(other.exceeded_at);
        self.exceeded += other.exceeded;
        self.earliest = self.earliest.max(other.earliest);
        self.policed += other.policed;
        self.refused += other.refused;
        self
    }

    fn comes(&mut self, now: Instant, early: Option<Duration>, refused: bool) {
        self.packets += 1;
        let Some(early) = early else {
            self.refused += u64::from(refused);
            return;
        };
        self.exceeded += 1;
        self.policed += u64::from(refused);
        self.earliest = self.earliest.max(early);
        if self.exceeded_at.len() < MOST_TIMES {
            self.exceeded_at.push(now);
        }
    }
}

impl Recorded {
    /// Writes a line for each bin: its time in seconds, the offered and the sent rate in bit/s.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "time_s,offered_bps,sent_bps")?;
        let bins = self.offered.bytes().len().max(self.sent.bytes().len());
        let bin = self.offered.bin();
        let rate = |series: &ByteSeries, n: usize| {
            let bytes = series.bytes().get(n).copied().unwrap_or(0);
            engine::units::Bandwidth::of(Bytes::new(bytes), bin).bits()
        };
        for n in 0..bins {
            let at = bin.times(n as u64).as_secs_f64();
            writeln!(out, "{at:.6},{},{}", rate(&self.offered, n), rate(&self.sent, n))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offered_and_sent_bytes_are_recorded_in_bins() {
        let origin = Instant::from_nanos(1_000_000);
        let record = Record::new(origin, Duration::from_micros(100));
        record.offered(origin, Bytes::new(1_000), Bytes::new(1_000));
        record.offered(
            origin + Duration::from_micros(50),
            Bytes::new(500),
            Bytes::new(1_500),
        );
        record.sent(
            origin,
            origin + Duration::from_micros(50),
            origin + Duration::from_micros(250),
            Bytes::new(1_000),
        );
        let read = record.read();
        assert_eq!(read.deepest, Bytes::new(1_500));
        assert_eq!(read.waited.longest(), Duration::from_micros(50));
        let mut csv = Vec::new();
        read.write_csv(&mut csv).expect("memory");
        let expected = "time_s,offered_bps,sent_bps\n0.000000,120000000,20000000\n\
                        0.000100,0,40000000\n0.000200,0,20000000\n";
        assert_eq!(String::from_utf8(csv).expect("text"), expected);
    }
}
