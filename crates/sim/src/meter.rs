//! Meters: what passed a link, class by class, and what a flow's end delivered.
//!
//! A packet's bytes are apportioned to bins by the time that its bits are on the wire (GNET-1's way), not counted whole
//! in one of them: at bins of a few packets, whole packets alone would make steps of their own.

use crate::packet::Packet;
use engine::delay::Delays;
use engine::discipline::Reason;
use engine::packet::ClassId;
use engine::queue::Count;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// A packet that goes onto a wire.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    /// Its class.
    pub class: ClassId,
    /// Its stream: twice its flow's number, one more for what the answerer sends.
    pub stream: u32,
    /// The packet.
    pub packet: &'a Packet,
    /// When it was offered to the link.
    pub arrived: Instant,
    /// When its first bit goes onto the wire.
    pub start: Instant,
    /// When its last bit has.
    pub finish: Instant,
}

/// Bytes over time, in bins of equal length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    origin: Instant,
    bin: Duration,
    bytes: Vec<u64>,
}

impl Series {
    /// Empty, from `origin` on.
    pub fn new(origin: Instant, bin: Duration) -> Self {
        Self {
            origin,
            bin: bin.max(Duration::from_nanos(1)),
            bytes: Vec::new(),
        }
    }

    /// The length of a bin.
    pub fn bin(&self) -> Duration {
        self.bin
    }

    /// Bytes in each bin.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// The rate in each bin, and when the bin begins.
    pub fn rates(&self) -> impl Iterator<Item = (Instant, Bandwidth)> + '_ {
        let begin = |index| self.origin + self.bin.times(index as u64);
        let rate = |bytes| Bandwidth::of(Bytes::new(bytes), self.bin);
        self.bytes
            .iter()
            .enumerate()
            .map(move |(index, &bytes)| (begin(index), rate(bytes)))
    }

    /// Adds bytes at one instant.
    pub fn add(&mut self, at: Instant, bytes: u64) {
        *self.bin_at(at.since(self.origin).nanos() / self.bin.nanos()) += bytes;
    }

    /// Adds bytes evenly over a span; the parts are whole bytes, and their sum is exact.
    pub fn spread(&mut self, from: Instant, to: Instant, bytes: u64) {
        let (from, to) = (from.since(self.origin).nanos(), to.since(self.origin).nanos());
        let bin = self.bin.nanos();
        let (first, last) = (from / bin, to.saturating_sub(1).max(from) / bin);
        if first == last {
            *self.bin_at(first) += bytes;
            return;
        }
        let span = u128::from(to - from);
        let mut before = 0;
        for index in first..=last {
            let end = ((index + 1) * bin).min(to) - from;
            let until = (u128::from(bytes) * u128::from(end) / span) as u64;
            *self.bin_at(index) += until - before;
            before = until;
        }
    }

    fn bin_at(&mut self, index: u64) -> &mut u64 {
        let index = index as usize;
        if index >= self.bytes.len() {
            self.bytes.resize(index + 1, 0);
        }
        &mut self.bytes[index]
    }
}

/// What passed of one class.
#[derive(Clone, Debug)]
pub struct ClassMeter {
    /// Frames that went onto the wire.
    pub sent: Count,
    /// Bytes of frames over time.
    pub series: Series,
    /// From being offered until the first bit went onto the wire.
    pub waited: Delays,
    /// Packets lost, by [`Reason`]'s number.
    pub dropped: [u64; Reason::ALL.len()],
    /// Packets marked.
    pub marked: u64,
}

/// What passed a link.
#[derive(Clone, Debug)]
pub struct LinkMeter {
    since: Instant,
    classes: Vec<ClassMeter>,
}

impl LinkMeter {
    pub(crate) fn new(since: Instant, bin: Duration, classes: usize) -> Self {
        let class = ClassMeter {
            sent: Count::default(),
            series: Series::new(since, bin),
            waited: Delays::default(),
            dropped: [0; Reason::ALL.len()],
            marked: 0,
        };
        Self {
            since,
            classes: vec![class; classes],
        }
    }

    /// Since when it looks.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Each class, by its number; the only one, where no policy rules.
    pub fn classes(&self) -> &[ClassMeter] {
        &self.classes
    }

    pub(crate) fn departed(&mut self, departure: &Departure<'_>) {
        let class = &mut self.classes[departure.class.0 as usize];
        let frame = departure.packet.frame;
        class.sent.packets += 1;
        class.sent.bytes += frame;
        class
            .series
            .spread(departure.start, departure.finish, frame.get());
        class.waited.record(departure.start.since(departure.arrived));
    }

    pub(crate) fn dropped(&mut self, class: ClassId, _frame: Bytes, why: Reason) {
        self.classes[class.0 as usize].dropped[why as usize] += 1;
    }

    pub(crate) fn marked(&mut self, class: ClassId) {
        self.classes[class.0 as usize].marked += 1;
    }

    pub(crate) fn backlog(&mut self, _now: Instant, _held: Count) {}
}

/// What a flow's end has delivered to its program.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// How many bytes.
    pub bytes: Bytes,
    /// Over time, if somebody wanted to know.
    pub series: Option<Series>,
}

impl Received {
    pub(crate) fn watched(since: Instant, bin: Duration) -> Self {
        Self {
            bytes: Bytes::ZERO,
            series: Some(Series::new(since, bin)),
        }
    }

    pub(crate) fn deliver(&mut self, now: Instant, bytes: Bytes) {
        self.bytes += bytes;
        if let Some(series) = &mut self.series {
            series.add(now, bytes.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn bytes_are_apportioned_to_bins_by_the_time_of_their_bits_and_none_is_lost() {
        let mut series = Series::new(at(100), Duration::from_nanos(10));
        series.spread(at(105), at(125), 1001);
        assert_eq!(series.bytes(), [250, 500, 251]);
        series.spread(at(120), at(130), 7);
        assert_eq!(series.bytes(), [250, 500, 258]);
        series.add(at(141), 3);
        assert_eq!(series.bytes(), [250, 500, 258, 0, 3]);
    }

    #[test]
    fn a_packet_that_takes_no_time_is_counted_in_its_bin() {
        let mut series = Series::new(at(0), Duration::from_nanos(10));
        series.spread(at(20), at(20), 5);
        assert_eq!(series.bytes(), [0, 0, 5]);
    }
}
