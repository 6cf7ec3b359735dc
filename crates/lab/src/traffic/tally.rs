//! Counts a stream at its receiver in bounded memory: loss, duplicates, reordering, delay, jitter,
//! and throughput over time.
//!
//! Reordering is that of RFC 4737: a datagram is reordered if one with a higher number arrived
//! before it. Jitter is that of RFC 3550 (section 6.4.1), the smoothed difference of delays. Delays
//! are differences of two clocks: between two hosts only their variation is meaningful. Duplicates
//! are detected among the last 65,536 numbers; older ones count as reordered.

use crate::traffic::datagram::Head;
use crate::traffic::payload_bins::PayloadBins;
use crate::traffic::sample::Sample;

/// The numbers below the highest for which arrivals are tracked.
const WINDOW: u64 = 1 << 16;

/// Sequence numbers are below this; greater ones are not from our generators.
const MAX_NUMBERS: u64 = 1 << 62;

/// The counts of one stream.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Datagrams received, without duplicates.
    pub received: u64,
    /// Their payload, in bytes.
    pub bytes: u64,
    /// Datagrams received again.
    pub duplicates: u64,
    /// Datagrams received after one with a higher number.
    pub reordered: u64,
    /// The largest reordering extent, in sequence numbers.
    pub furthest: u64,
    /// Delays in nanoseconds, as differences of two clocks.
    pub delays: Sample,
    /// Jitter in nanoseconds, times 16.
    jitter: u64,
    /// The delay of the previous datagram.
    before: Option<i64>,
    highest: Option<u64>,
    /// A bitmap of the last [`WINDOW`] numbers.
    seen: Vec<u64>,
    /// The number of datagrams that the sender announced at the end.
    announced: Option<u64>,
    /// When the first and the last arrived.
    span: Option<(u64, u64)>,
    series: PayloadBins,
}

impl Tally {
    /// An empty tally, with throughput in bins of this many nanoseconds.
    pub fn new(stream: u64, bin: u64) -> Self {
        Self {
            received: 0,
            bytes: 0,
            duplicates: 0,
            reordered: 0,
            furthest: 0,
            delays: Sample::new(stream),
            jitter: 0,
            before: None,
            highest: None,
            seen: vec![0; (WINDOW / 64) as usize],
            announced: None,
            span: None,
            series: PayloadBins::new(bin),
        }
    }

    /// Counts a datagram of this payload, received at this time in nanoseconds; returns whether it
    /// is new.
    pub fn take(&mut self, head: &Head, payload: usize, arrived: u64) -> bool {
        if head.end {
            self.announced = Some(head.number);
            return false;
        }
        if head.number >= MAX_NUMBERS {
            return false;
        }
        if !self.is_new(head.number) {
            self.duplicates += 1;
            return false;
        }
        self.received += 1;
        self.bytes += payload as u64;
        self.add_delay(arrived.wrapping_sub(head.sent).cast_signed());
        self.add_bytes(arrived, payload as u64);
        true
    }

    /// Records the number; returns whether it is new.
    fn is_new(&mut self, number: u64) -> bool {
        let next = self.highest.map_or(0, |highest| highest + 1);
        if number >= next {
            // Clear the bits of the numbers that were skipped.
            for skipped in next.max(number.saturating_sub(WINDOW - 1))..=number {
                self.mark(skipped, false);
            }
            self.highest = Some(number);
            self.mark(number, true);
            return true;
        }
        let behind = next - 1 - number;
        if behind < WINDOW && self.mark(number, true) {
            return false;
        }
        self.reordered += 1;
        self.furthest = self.furthest.max(behind);
        true
    }

    /// Sets a number's bit; returns its former value.
    fn mark(&mut self, number: u64, to: bool) -> bool {
        let index = number % WINDOW;
        let (word, bit) = (&mut self.seen[(index / 64) as usize], 1 << (index % 64));
        let was = *word & bit != 0;
        *word = if to { *word | bit } else { *word & !bit };
        was
    }

    fn add_delay(&mut self, delay: i64) {
        self.delays.take(delay);
        if let Some(before) = self.before {
            // J += (|D| - J) / 16, with 16 J as an integer, as in RFC 3550, appendix A.8.
            self.jitter = self.jitter + delay.abs_diff(before) - ((self.jitter + 8) >> 4);
        }
        self.before = Some(delay);
    }

    fn add_bytes(&mut self, arrived: u64, payload: u64) {
        let (first, last) = self.span.unwrap_or((arrived, arrived));
        self.span = Some((first, last.max(arrived)));
        self.series.add(arrived.saturating_sub(first), payload);
    }

    /// How many were sent: as the sender announced, or else by the highest number.
    pub fn sent(&self) -> u64 {
        self.announced
            .unwrap_or_else(|| self.highest.map_or(0, |highest| highest + 1))
    }

    /// Whether the sender has announced the end.
    pub const fn ended(&self) -> bool {
        self.announced.is_some()
    }

    /// Datagrams that did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent().saturating_sub(self.received)
    }

    /// The jitter, in nanoseconds.
    pub const fn jitter(&self) -> u64 {
        self.jitter >> 4
    }

    /// When the first and the last arrived, in nanoseconds on the receiver's clock.
    pub const fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// The length of a bin in nanoseconds, and the bytes of payload in each since the first
    /// datagram.
    pub fn series(&self) -> (u64, &[u64]) {
        self.series.bins()
    }

    /// The rate of payload in bit/s: what arrived after the first datagram, over the time from the
    /// first to the last.
    pub fn rate(&self) -> Option<f64> {
        let (first, last) = self.span?;
        let others = self
            .received
            .checked_sub(1)
            .filter(|&others| others > 0 && last > first)?;
        let bytes = self.bytes as f64 * others as f64 / self.received as f64;
        Some(bytes * 8e9 / (last - first) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::payload_bins::MAX_BINS;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn head(number: u64, sent: u64) -> Head {
        Head {
            stream: 1,
            number,
            sent,
            end: false,
        }
    }

    fn numbers(numbers: &[u64]) -> Tally {
        let mut tally = Tally::new(1, 1_000);
        for (at, &number) in numbers.iter().enumerate() {
            tally.take(&head(number, 0), 100, at as u64);
        }
        tally
    }

    #[test]
    fn duplicates_reordering_and_loss_are_distinguished() {
        let mut tally = numbers(&[0, 3, 1, 3, 4]);
        assert_eq!((tally.sent(), tally.lost()), (5, 1), "2 is missing");
        let end = Head {
            number: 6,
            end: true,
            ..head(0, 0)
        };
        tally.take(&end, 32, 9);
        assert!(tally.ended());
        assert_eq!(
            (tally.duplicates, tally.reordered, tally.furthest, tally.lost()),
            (1, 1, 2, 2)
        );
        assert_eq!((tally.received, tally.bytes), (4, 400));
    }

    #[test]
    fn a_huge_number_takes_no_memory_and_little_time() {
        let tally = numbers(&[0, u64::MAX, MAX_NUMBERS - 1, 1]);
        assert_eq!((tally.received, tally.reordered, tally.duplicates), (3, 1, 0));
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        // Delays 10, 26, 10 µs: J = 0 → 16/16 = 1 → 1 + (16 - 1)/16 = 1.9375 µs.
        let mut tally = Tally::new(1, 1_000);
        for (number, delay) in [10_000, 26_000, 10_000].into_iter().enumerate() {
            let sent = number as u64 * 50_000;
            tally.take(&head(number as u64, sent), 100, sent + delay);
        }
        assert!(tally.jitter().abs_diff(1_937) <= 1, "{}", tally.jitter());
    }

    #[test]
    fn a_receiver_whose_clock_is_behind_sees_negative_delays() {
        let mut tally = Tally::new(1, 1_000);
        tally.take(&head(0, 5_000), 100, 3_000);
        assert_eq!(tally.delays.least(), Some(-2_000));
    }

    #[test]
    fn the_series_counts_every_byte_however_long_it_lasts() {
        let mut tally = Tally::new(1, 10);
        for number in 0..200_000 {
            tally.take(&head(number, 0), 3, 1_000 + number * 7);
        }
        let (bin, bins) = tally.series();
        assert!(bin > 10 && bins.len() <= MAX_BINS);
        assert_eq!(bins.iter().sum::<u64>(), 600_000);
        let rate = tally.rate().expect("many arrived");
        assert!((rate - 24e9 / 7.0).abs() < 1.0, "{rate}");
    }

    proptest! {
        /// The counts are those of a set of all arrivals, if none is further back than the window.
        #[test]
        fn counts_are_those_of_a_set(steps in prop::collection::vec(0_u64..2_000, 1..400)) {
            let tally = numbers(&steps);
            let mut seen = BTreeSet::new();
            let (mut duplicates, mut reordered) = (0, 0);
            for number in steps {
                let behind = seen.last().is_some_and(|&highest| number < highest);
                match seen.insert(number) {
                    false => duplicates += 1,
                    true => reordered += u64::from(behind),
                }
            }
            prop_assert_eq!(tally.received, seen.len() as u64);
            prop_assert_eq!((tally.duplicates, tally.reordered), (duplicates, reordered));
        }
    }
}
