//! Bytes over time.
//!
//! A packet's bytes are apportioned to the bins in which its bits are on the wire, as GNET-1 does.
//! With bins of a few packets, counting whole packets would add steps of its own.

use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// Bytes over time in bins of equal length. Bytes before the first bin or after the end are left
/// out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ByteSeries {
    origin: Instant,
    end: Instant,
    bin: Duration,
    bytes: Vec<u64>,
}

impl ByteSeries {
    /// An empty series that begins at `origin`.
    pub fn new(origin: Instant, bin: Duration) -> Self {
        Self {
            origin,
            end: Instant::NEVER,
            bin: bin.max(Duration::from_nanos(1)),
            bytes: Vec::new(),
        }
    }

    /// An empty series with one bin for the window.
    pub fn window(from: Instant, to: Instant) -> Self {
        Self {
            end: to,
            ..Self::new(from, to.since(from))
        }
    }

    /// The beginning of the first bin.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// The length of a bin.
    pub fn bin(&self) -> Duration {
        self.bin
    }

    /// The bytes of each bin.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// The rate of each bin, with the bin's beginning.
    pub fn rates(&self) -> impl Iterator<Item = (Instant, Bandwidth)> + '_ {
        let begin = |index| self.origin + self.bin.times(index as u64);
        let rate = |bytes| Bandwidth::of(Bytes::new(bytes), self.bin);
        self.bytes
            .iter()
            .enumerate()
            .map(move |(index, &bytes)| (begin(index), rate(bytes)))
    }

    /// The bytes of all bins.
    pub fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The bytes in `from..to`. Exact at bin borders; part of a bin counts as that part of its
    /// bytes.
    pub fn between(&self, from: Instant, to: Instant) -> u64 {
        let (from, to) = (from.since(self.origin).nanos(), to.since(self.origin).nanos());
        let upto = |ns: u64| -> u64 {
            let (whole, part) = ((ns / self.bin.nanos()) as usize, ns % self.bin.nanos());
            let before: u64 = self.bytes[..whole.min(self.bytes.len())].iter().sum();
            let inside = u128::from(self.bytes.get(whole).copied().unwrap_or(0)) * u128::from(part);
            before + (inside / u128::from(self.bin.nanos())) as u64
        };
        upto(to).saturating_sub(upto(from))
    }

    /// The mean rate in `from..to`, computed as [`ByteSeries::between`] does.
    pub fn rate(&self, from: Instant, to: Instant) -> Bandwidth {
        Bandwidth::of(Bytes::new(self.between(from, to)), to.since(from))
    }

    /// Adds bytes at one instant.
    pub fn add(&mut self, at: Instant, bytes: u64) {
        if at >= self.origin && at < self.end {
            *self.bin_at(at.since(self.origin).nanos() / self.bin.nanos()) += bytes;
        }
    }

    /// Spreads bytes evenly over a span. The parts are whole bytes with an exact sum, also across
    /// series whose windows meet within the span.
    pub fn spread(&mut self, from: Instant, to: Instant, bytes: u64) {
        if from >= to {
            return self.add(from, bytes);
        }
        let (begin, end) = (from.max(self.origin), to.min(self.end));
        if begin >= end {
            return;
        }
        if begin == from && end == to && self.spread_in_last(from, to, bytes) {
            return;
        }
        let bin = self.bin.nanos();
        let first = begin.since(self.origin).nanos() / bin;
        let last = (end.since(self.origin).nanos() - 1) / bin;
        if first == last && begin == from && end == to {
            *self.bin_at(first) += bytes;
            return;
        }
        let span = u128::from(to.since(from).nanos());
        let part = |at: Instant| (u128::from(bytes) * u128::from(at.since(from).nanos()) / span) as u64;
        let mut before = part(begin);
        for index in first..=last {
            let until = part((self.origin + Duration::from_nanos((index + 1).saturating_mul(bin))).min(end));
            *self.bin_at(index) += until - before;
            before = until;
        }
    }

    /// The usual case, without a division: the whole span is in the last bin.
    #[inline]
    fn spread_in_last(&mut self, from: Instant, to: Instant, bytes: u64) -> bool {
        let before = (self.bytes.len() as u64).saturating_sub(1);
        let begin = self.origin + self.bin.times(before);
        match self.bytes.last_mut() {
            Some(last) if begin <= from && to <= begin + self.bin => {
                *last += bytes;
                true
            }
            _ => false,
        }
    }

    /// Adds another series with the same bins.
    pub fn merge(&mut self, other: &Self) {
        if self.bytes.len() < other.bytes.len() {
            self.bytes.resize(other.bytes.len(), 0);
        }
        self.bytes
            .iter_mut()
            .zip(&other.bytes)
            .for_each(|(mine, theirs)| *mine += theirs);
    }

    #[inline]
    fn bin_at(&mut self, index: u64) -> &mut u64 {
        let index = index as usize;
        if index >= self.bytes.len() {
            self.bytes.resize(index + 1, 0);
        }
        &mut self.bytes[index]
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
        let mut series = ByteSeries::new(at(100), Duration::from_nanos(10));
        series.spread(at(105), at(125), 1001);
        assert_eq!(series.bytes(), [250, 500, 251]);
        series.spread(at(120), at(130), 7);
        assert_eq!(series.bytes(), [250, 500, 258]);
        series.add(at(141), 3);
        assert_eq!(series.bytes(), [250, 500, 258, 0, 3]);
    }

    #[test]
    fn a_packet_that_takes_no_time_is_counted_in_its_bin() {
        let mut series = ByteSeries::new(at(0), Duration::from_nanos(10));
        series.spread(at(20), at(20), 5);
        assert_eq!(series.bytes(), [0, 0, 5]);
    }

    #[test]
    fn windows_that_meet_share_a_packet_without_loss_and_what_is_outside_is_left_out() {
        let mut windows = [(0, 7), (7, 13), (13, 20)].map(|(from, to)| ByteSeries::window(at(from), at(to)));
        for window in &mut windows {
            window.spread(at(5), at(15), 1001);
            window.add(at(13), 7);
        }
        let bytes = windows.each_ref().map(|window| window.bytes()[0]);
        assert_eq!(bytes, [200, 600, 208]);
        let mut late = ByteSeries::window(at(30), at(40));
        late.spread(at(5), at(15), 1001);
        assert_eq!(late.total(), 0);
    }

    #[test]
    fn a_part_of_a_bin_counts_as_its_part_of_the_bins_bytes() {
        let mut series = ByteSeries::new(at(100), Duration::from_nanos(10));
        for (time, bytes) in [(100, 10), (110, 20), (120, 40)] {
            series.add(at(time), bytes);
        }
        let found = [(100, 130), (110, 120), (105, 125), (0, 1_000), (125, 125)]
            .map(|(from, to)| series.between(at(from), at(to)));
        assert_eq!(found, [70, 20, 45, 70, 0]);
        assert_eq!(series.rate(at(110), at(120)).bits(), 16_000_000_000);
    }
}
