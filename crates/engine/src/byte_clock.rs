//! Time in bytes: what a packet occupies on an Ethernet wire, when the next one of a rate may
//! follow, and which nanosecond that is. All in integers, the remainder of each division carried
//! on.
//!
//! The unit is the byte-time, in which the wire carries one byte: 8 ns at 1 Gbit/s, 0.02 ns at 400
//! Gbit/s. A frame takes its slot (IEEE 802.3): preamble and start 8, the frame with its tags
//! padded to 60, FCS 4, and the inter-packet gap of 12.
//!
//! PSPacer (Takano et al. 2004, section 3.3) chooses the inter-packet gap of equal packets, in
//! bytes of Gigabit Ethernet's 125 MB/s, with Hd1 = 18 (Ethernet header and FCS) and Hd2 = 26 (with
//! the preamble):
//!
//! ```text
//! IPG' = (MTU + Hd1) · 125 / TargetRate − (MTU + Hd2)
//! ```
//!
//! MTU + Hd2 + IPG' is the time from one start to the next, *P*, and MTU + Hd1 are the bytes *B*
//! that the rate counts ([`Basis::FrameFcs`]). With a link *C* in place of 125 MB/s and a rate *R*,
//! the equation becomes
//!
//! ```text
//! P = B C / R       for each packet, whatever its length
//! ```
//!
//! in byte-times ([`BytePace`]), and the gap is what *P* has left beyond the packet. The time *E*
//! from which the next packet may start is kept as whole byte-times and a remainder below *R*, and
//! advances by what was sent, never by when it was sent: so no error adds up, and the rate is exact
//! for any ratio of integers.

use crate::units::{Bytes, Instant};

/// Preamble, start of frame, FCS and the inter-packet gap.
pub const WIRE_OVERHEAD: u64 = 24;
/// The shortest frame without FCS.
pub const SHORTEST_FRAME: u64 = 60;
/// The shortest slot: no gap frame is shorter.
pub const SHORTEST_SLOT: u64 = SHORTEST_FRAME + WIRE_OVERHEAD;
const FCS: u64 = 4;
const ETHERNET_HEADER: u64 = 14;
const TAG: u64 = 4;
/// Bits × nanoseconds in a byte × second.
const NANOBITS: u64 = 8_000_000_000;

crate::choices! {
    /// Which bytes of a packet a rate counts.
    pub enum Basis {
        /// The whole slot: preamble, FCS, padding and gap included.
        Wire = "wire",
        /// The frame with its FCS, as the PSPacer paper and switches' counters do.
        FrameFcs = "frame-fcs",
        /// The frame without FCS, as Linux does.
        Frame = "frame",
        /// The IP packet, without padding.
        Ip = "ip",
    }
}

/// From a packet's length in the engine to its bytes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireSlots {
    /// How much longer the lengths are than the frames.
    pub overhead: u64,
    /// VLAN tags that the device inserts.
    pub tags: u64,
    /// The longest frame; a longer one is a super-frame, and leaves as full frames and a last one.
    pub longest: u64,
}

impl WireSlots {
    /// The number of frames that a packet leaves as, and their bytes in sum, without tags.
    #[inline]
    fn frames(self, len: Bytes) -> (u64, u64) {
        let frame = len.get().saturating_sub(self.overhead).max(1);
        let number = if frame > self.longest {
            frame.div_ceil(self.longest)
        } else {
            1
        };
        (number, frame)
    }

    /// The byte-times that a packet takes.
    #[inline]
    pub fn slot(self, len: Bytes) -> u64 {
        let (number, frame) = self.frames(len);
        (frame + number * TAG * self.tags).max(SHORTEST_FRAME) + number * WIRE_OVERHEAD
    }

    /// The bytes of a packet that a rate of this basis counts.
    #[inline]
    pub fn counted(self, len: Bytes, basis: Basis) -> u64 {
        let (number, frame) = self.frames(len);
        let around = match basis {
            Basis::Wire => 0,
            Basis::FrameFcs => WIRE_OVERHEAD - FCS,
            Basis::Frame => WIRE_OVERHEAD,
            Basis::Ip => return frame.saturating_sub(number * ETHERNET_HEADER).max(1),
        };
        self.slot(len) - number * around
    }

    /// The slot of the longest frame.
    pub fn longest_slot(self) -> u64 {
        self.slot(Bytes::new(self.longest + self.overhead))
    }
}

/// The wire slots of the gap frames for a gap: the first of as few as possible, all of nearly the
/// same length, none longer than `longest` (at least 167) and none shorter than a slot can be. So a
/// gap of 1 to 83 is filled with 84.
#[inline]
pub fn gap_slot(gap: u64, longest: u64) -> u64 {
    if gap <= SHORTEST_SLOT {
        return SHORTEST_SLOT;
    }
    gap.div_ceil(gap.div_ceil(longest))
}

/// The spacing of packets of one rate: *E*, in units of the ratio of the link's rate to theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BytePace {
    /// The time from which the next packet may start is this, rounded up,
    whole: u64,
    /// and this many `rate`-ths of a byte-time.
    remainder: u64,
    rate: u64,
}

impl BytePace {
    /// For this rate, in the unit of the link's; not zero.
    pub fn new(rate: u64) -> Self {
        Self {
            whole: 0,
            remainder: 0,
            rate: rate.max(1),
        }
    }

    /// The rate.
    #[inline]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// The first byte-time at which the next packet may start.
    #[inline]
    pub fn eligible(&self) -> u64 {
        self.whole.saturating_add(u64::from(self.remainder > 0))
    }

    /// Nothing was queued before `at`: unused time is gone.
    #[inline]
    pub fn not_before(&mut self, at: u64) {
        if self.whole < at {
            (self.whole, self.remainder) = (at, 0);
        }
    }

    /// A packet of this many counted bytes is sent.
    #[inline]
    pub fn send(&mut self, bytes: u64, link: u64) {
        let (span, remainder) = match bytes
            .checked_mul(link)
            .and_then(|work| work.checked_add(self.remainder))
        {
            Some(work) => (work / self.rate, work % self.rate),
            None => {
                let work = u128::from(bytes) * u128::from(link) + u128::from(self.remainder);
                let span = u64::try_from(work / u128::from(self.rate)).unwrap_or(u64::MAX);
                (span, (work % u128::from(self.rate)) as u64)
            }
        };
        (self.whole, self.remainder) = (self.whole.saturating_add(span), remainder);
    }

    /// The pace after a packet of this many bytes: its time is the deadline of that packet.
    #[inline]
    #[must_use]
    pub fn after(mut self, bytes: u64, link: u64) -> Self {
        self.send(bytes, link);
        self
    }

    /// When the packet after one of this many bytes may start: the deadline of this one.
    #[inline]
    pub fn deadline(self, bytes: u64, link: u64) -> u64 {
        self.after(bytes, link).eligible()
    }

    /// The `rate`-ths of a byte-time by which its time is after a whole one.
    #[inline]
    pub fn remainder(&self) -> u64 {
        self.remainder
    }

    /// The pace at a time that was rounded up, with the remainder before it was.
    #[inline]
    #[must_use]
    pub fn at(self, eligible: u64, remainder: u64) -> Self {
        Self {
            whole: eligible - u64::from(remainder > 0),
            remainder,
            ..self
        }
    }

    /// The bytes sent ahead of the rate at `now`, rounded up.
    pub fn deficit(&self, now: u64, link: u64) -> u64 {
        let span = u128::from(self.eligible().saturating_sub(now));
        u64::try_from((span * u128::from(self.rate)).div_ceil(u128::from(link.max(1)))).unwrap_or(u64::MAX)
    }

    /// The bytes by which it is late at `now`, rounded down, and at most `most`.
    pub fn lateness(&self, now: u64, link: u64, most: u64) -> u64 {
        let span = u128::from(now.saturating_sub(self.eligible()));
        let bytes = span * u128::from(self.rate) / u128::from(link.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX).min(most)
    }

    /// Becomes eligible this many bytes before `now`, rounded down.
    pub fn be_late(&mut self, bytes: u64, now: u64, link: u64) {
        let span = u128::from(bytes) * u128::from(link) / u128::from(self.rate);
        let span = u64::try_from(span).unwrap_or(u64::MAX);
        (self.whole, self.remainder) = (now.saturating_sub(span), 0);
    }

    /// A deadline of this pace's `former` one: what it is beyond the time at which the next packet
    /// may start remains what it is in bytes, rounded up.
    pub fn carried(&self, former: Self, deadline: u64) -> u64 {
        let beyond = u128::from(deadline.saturating_sub(former.eligible()));
        let beyond = (beyond * u128::from(former.rate)).div_ceil(u128::from(self.rate));
        let beyond = u64::try_from(beyond).unwrap_or(u64::MAX);
        self.eligible().saturating_add(beyond)
    }

    /// Takes another rate at a time between these two byte-times. A deficit and a lateness both
    /// remain what they are in bytes, rounded to the later side, and the lateness is at most `most`
    /// bytes: so the output never exceeds what the rates of the time allow. A lateness kept as time
    /// would be spent at the new rate, in a burst.
    pub fn change(&mut self, rate: u64, [low, high]: [u64; 2], link: u64, most: u64) {
        let rate = rate.max(1);
        if rate == self.rate {
            return;
        }
        let eligible = self.eligible();
        let (old, new) = (u128::from(self.rate), u128::from(rate));
        let at = |now: u64| {
            if eligible > now {
                let longer = (u128::from(eligible - now) * old).div_ceil(new);
                now.saturating_add(u64::try_from(longer).unwrap_or(u64::MAX))
            } else {
                let late = u128::from(now - eligible) * old;
                let longer = late.min(u128::from(most) * u128::from(link)) / new;
                now.saturating_sub(u64::try_from(longer).unwrap_or(u64::MAX))
            }
        };
        (self.whole, self.remainder) = (at(low).max(at(high)), 0);
        self.rate = rate;
    }
}

/// Nanoseconds and byte-times of a link, exact: the remainder of each conversion is carried on.
#[derive(Clone, Debug)]
pub struct WireTime {
    bits: u64,
    now: Instant,
    /// The byte-times passed by `now`, and the nanobits of the next byte.
    whole: u64,
    remainder: u64,
}

impl WireTime {
    /// Of a link of this many bits per second, from [`Instant::START`] on.
    pub fn new(bits: u64) -> Self {
        Self {
            bits: bits.max(1),
            now: Instant::START,
            whole: 0,
            remainder: 0,
        }
    }

    /// The link's bits per second.
    #[inline]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Advances to `now`: the byte-times that have passed, rounded down, and rounded up.
    #[inline]
    pub fn at(&mut self, now: Instant) -> (u64, u64) {
        let span = now.since(self.now).nanos();
        if span > 0 {
            self.now = now;
            let (whole, remainder) = match span
                .checked_mul(self.bits)
                .and_then(|work| work.checked_add(self.remainder))
            {
                Some(work) => (work / NANOBITS, work % NANOBITS),
                None => {
                    let work = u128::from(span) * u128::from(self.bits) + u128::from(self.remainder);
                    let whole = u64::try_from(work / u128::from(NANOBITS)).unwrap_or(u64::MAX);
                    (whole, (work % u128::from(NANOBITS)) as u64)
                }
            };
            (self.whole, self.remainder) = (self.whole.saturating_add(whole), remainder);
        }
        (self.whole, self.whole + u64::from(self.remainder > 0))
    }

    /// The first nanosecond of a byte-time to come.
    #[inline]
    pub fn nanos(&self, at: u64) -> Instant {
        let span = at.saturating_sub(self.whole);
        let whole = match span.checked_mul(NANOBITS) {
            Some(work) => work.saturating_sub(self.remainder).div_ceil(self.bits),
            None => {
                let work = u128::from(span) * u128::from(NANOBITS) - u128::from(self.remainder);
                u64::try_from(work.div_ceil(u128::from(self.bits))).unwrap_or(u64::MAX)
            }
        };
        Instant::from_nanos(self.now.nanos().saturating_add(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bandwidth;
    use proptest::prelude::*;

    const PLAIN: WireSlots = WireSlots {
        overhead: 0,
        tags: 0,
        longest: 1_514,
    };
    const BASES: [Basis; 4] = [Basis::Wire, Basis::FrameFcs, Basis::Frame, Basis::Ip];

    #[test]
    fn a_full_frame_a_short_one_a_tagged_one_and_a_super_frame_take_their_slots() {
        let counted = |slots: WireSlots, len| {
            let len = Bytes::new(len);
            (slots.slot(len), BASES.map(|basis| slots.counted(len, basis)))
        };
        // 1500 of IP: 14 + 1500 + 4 = 1518, and 20 around it.
        assert_eq!(counted(PLAIN, 1_514), (1_538, [1_538, 1_518, 1_514, 1_500]));
        // 28 of IP are padded to 46, but IP's rate counts 28.
        assert_eq!(counted(PLAIN, 42), (84, [84, 64, 60, 28]));
        assert_eq!(counted(PLAIN, 60), (84, [84, 64, 60, 46]));
        assert_eq!(counted(PLAIN, 61), (85, [85, 65, 61, 47]));
        let tagged = WireSlots { tags: 2, ..PLAIN };
        assert_eq!(counted(tagged, 1_514), (1_546, [1_546, 1_526, 1_522, 1_500]));
        // Where the interface's overhead is the whole slot.
        let whole = WireSlots {
            overhead: 24,
            ..PLAIN
        };
        assert_eq!(counted(whole, 1_538), (1_538, [1_538, 1_518, 1_514, 1_500]));
        // 3000 bytes leave as 1514 and 1486.
        assert_eq!(counted(PLAIN, 3_000), (3_048, [3_048, 3_008, 3_000, 2_972]));
    }

    #[test]
    fn gaps_are_filled_exactly_from_84_on_and_the_frames_are_alike() {
        assert_eq!([1, 83, 84, 85].map(|gap| gap_slot(gap, 1_538)), [84, 84, 84, 85]);
        for longest in [167, 168, 1_538, 9_038] {
            for gap in (84..4_000).chain([100_000, 1 << 40]) {
                let (mut left, mut frames, mut lengths) = (gap, 0, (u64::MAX, 0));
                while left > 0 && frames < 1_000 {
                    let slot = gap_slot(left, longest);
                    assert!((84..=longest).contains(&slot) && slot <= left, "{slot} of {left}");
                    lengths = (slot.min(lengths.0), slot.max(lengths.1));
                    (left, frames) = (left - slot, frames + 1);
                }
                assert!(lengths.1 - lengths.0 <= 1 && frames <= gap.div_ceil(longest).min(1_000));
            }
        }
    }

    #[test]
    fn ten_million_packets_at_awkward_rates_are_never_early_and_never_a_byte_late() {
        // 1000/3, 333333337/1000 and the like: ratios of whole numbers, both sides scaled.
        for (rate, link) in [
            (1_000u64, 3 * 125_000u64),
            (333_333_337, 1_000_000_000),
            (7, 22),
            (399_999_999_989, 400_000_000_000),
        ] {
            let (mut pace, mut bytes, mut late) = (BytePace::new(rate), 0u64, 0);
            for n in 0..10_000_000u64 {
                // The difference between eligible() and the time at which this many bytes are due:
                // B C / R.
                let due = u128::from(bytes) * u128::from(link);
                let started = u128::from(pace.eligible()) * u128::from(rate);
                assert!(
                    started >= due && started - due < u128::from(rate),
                    "packet {n} at {rate} of {link}"
                );
                late = late.max(((started - due) * 1_000 / u128::from(rate)) as u64);
                let len = 64 + n * 7_919 % 1_455;
                pace.send(len, link);
                bytes += len;
            }
            assert!(late < 1_000);
        }
    }

    #[test]
    fn what_is_owed_is_paid_at_the_new_rate() {
        let mut pace = BytePace::new(125);
        pace.send(1_000, 1_000);
        assert_eq!(pace.eligible(), 8_000);
        // 3,000 are over, 5,000 at 125 are 625 bytes: 2,500 byte-times at 250.
        pace.change(250, [3_000; 2], 1_000, 1_000);
        assert_eq!(pace.eligible(), 5_500);
        pace.change(125, [5_000; 2], 1_000, 1_000);
        assert_eq!(pace.eligible(), 6_000);
    }

    #[test]
    fn a_lateness_stays_the_same_in_bytes_and_is_at_most_what_is_given() {
        let late = || {
            let mut pace = BytePace::new(125);
            pace.send(1_000, 1_000);
            assert_eq!(pace.lateness(16_000, 1_000, u64::MAX), 1_000);
            pace
        };
        // 8,000 late at 125 are 1,000 bytes: 4,000 byte-times at 250, and 2,000,000 at 1/2000.
        for (rate, most, eligible) in [
            (250, 1_000, 12_000),
            (250, 500, 14_000),
            (1_000, 1_000, 15_000),
            (1, 10, 6_000),
        ] {
            let mut pace = late();
            pace.change(rate, [16_000; 2], 1_000, most);
            assert_eq!(pace.eligible(), eligible, "{rate}, {most}");
            let mut successor = BytePace::new(rate);
            successor.be_late(late().lateness(16_000, 1_000, most), 16_000, 1_000);
            assert_eq!(successor, pace);
        }
    }

    proptest! {
        #[test]
        fn nanoseconds_and_byte_times_agree_on_any_link(
            bits in prop_oneof![Just(10_000_000u64), Just(2_500_000_000), Just(400_000_000_000), 8_000u64..800_000_000_000],
            steps in prop::collection::vec((0u32..45, any::<u64>()), 1..60),
        ) {
            let (mut time, mut now) = (WireTime::new(bits), 0u64);
            for (size, step) in steps {
                now += step & ((1 << size) - 1);
                let exact = u128::from(now) * u128::from(bits);
                let (floor, ceil) = time.at(Instant::from_nanos(now));
                prop_assert_eq!(u128::from(floor), exact / u128::from(NANOBITS));
                prop_assert_eq!(u128::from(ceil), exact.div_ceil(u128::from(NANOBITS)));
                let later = floor + 1 + (step >> (63 - size));
                let when = u128::from(time.nanos(later).nanos());
                prop_assert_eq!(when, (u128::from(later) * u128::from(NANOBITS)).div_ceil(u128::from(bits)));
            }
        }
    }

    #[test]
    fn byte_times_of_the_usual_links() {
        let slot = |mbit| {
            let mut time = WireTime::new(Bandwidth::mbit(mbit).bits());
            let _ = time.at(Instant::START);
            time.nanos(1_538).nanos()
        };
        assert_eq!(
            [10, 100, 1_000, 2_500, 10_000, 25_000, 100_000, 400_000].map(slot),
            [1_230_400, 123_040, 12_304, 4_922, 1_231, 493, 124, 31]
        );
    }

    /// 4/3 byte-times a byte: (3·10¹² + 1) bytes are 4·10¹² + 4/3.
    #[test]
    fn a_pace_is_exact_beyond_64_bits_too() {
        let (rate, link) = (300_000_000_000, 400_000_000_000);
        let mut pace = BytePace::new(rate);
        pace.send(3_000_000_000_001, link);
        assert_eq!(
            (pace.eligible(), pace.remainder()),
            (4_000_000_000_002, 100_000_000_000)
        );
        pace.send(3_000_000_000_001, link);
        assert_eq!(
            (pace.eligible(), pace.remainder()),
            (8_000_000_000_003, 200_000_000_000)
        );
        pace.send(3_000_000_000_001, link);
        assert_eq!((pace.eligible(), pace.remainder()), (12_000_000_000_004, 0));
        pace.send(u64::MAX, u64::MAX);
        assert_eq!(pace.eligible(), u64::MAX, "no more than fits");
    }

    #[test]
    fn unused_time_is_gone_and_time_that_was_used_is_not() {
        let mut pace = BytePace::new(3);
        assert_eq!((pace.rate(), BytePace::new(0).rate()), (3, 1));
        pace.send(5, 4);
        assert_eq!((pace.eligible(), pace.remainder()), (7, 2));
        pace.not_before(6);
        assert_eq!((pace.eligible(), pace.remainder()), (7, 2));
        pace.not_before(7);
        assert_eq!((pace.eligible(), pace.remainder()), (7, 0));
        assert_eq!((pace.deadline(3, 4), pace.after(4, 4).remainder()), (11, 1));
        assert_eq!(pace.eligible(), 7, "it was only asked");
        assert_eq!(pace.at(12, 1), pace.after(4, 4).at(12, 1));
        assert_eq!((pace.at(12, 1).eligible(), pace.at(12, 0).eligible()), (12, 12));
        assert_eq!(pace.at(13, 1), pace.after(4, 4));
    }

    /// An eighth of the link: 1,000 bytes are 8,000 byte-times.
    fn eighth() -> BytePace {
        BytePace::new(125).after(1_000, 1_000)
    }

    #[test]
    fn a_deficit_is_rounded_up_and_a_lateness_down() {
        let pace = eighth();
        let deficit = |now| pace.deficit(now, 1_000);
        assert_eq!(
            [3_000, 3_001, 7_999, 8_000, 9_000].map(deficit),
            [625, 625, 1, 0, 0]
        );
        let late = |now| pace.lateness(now, 1_000, 5);
        assert_eq!(
            [7_000, 8_000, 8_007, 8_008, 8_039, 8_040, 9_000].map(late),
            [0, 0, 0, 1, 4, 5, 5]
        );
        assert_eq!(
            (pace.deficit(0, 0), pace.lateness(8_001, 0, 500)),
            (1_000_000, 125)
        );
        let mut pace = eighth().after(1, 7);
        pace.be_late(10, 1_000, 1_000);
        assert_eq!((pace.eligible(), pace.remainder()), (920, 0));
        pace.be_late(10, 79, 1_000);
        assert_eq!(pace.eligible(), 0);
    }

    #[test]
    fn a_deadline_is_carried_to_another_pace_in_bytes() {
        let to = BytePace::new(250).after(1_000, 1_000);
        let carried = |deadline| to.carried(eighth(), deadline);
        assert_eq!(
            [7_000, 8_000, 8_100, 8_101].map(carried),
            [4_000, 4_000, 4_050, 4_051]
        );
    }

    #[test]
    fn a_change_between_two_times_takes_the_later_of_both() {
        let changed = |rate, low, high, most| {
            let mut pace = eighth();
            pace.change(rate, [low, high], 1_000, most);
            (pace.eligible(), pace.rate())
        };
        assert_eq!(changed(250, 3_000, 9_000, 1_000), (8_500, 250));
        assert_eq!(
            changed(1_000, 7_000, 8_000, 1_000),
            (8_000, 1_000),
            "neither early nor late"
        );
        assert_eq!(changed(1_000, 7_000, 7_992, 1_000), (7_993, 1_000));
        assert_eq!(changed(50, 7_900, 8_000, 1_000), (8_150, 50), "the earlier one");
        assert_eq!(changed(300, 7_999, 7_999, 0), (8_000, 300), "rounded up");
        assert_eq!(changed(125, 3_000, 9_000, 1_000), (8_000, 125));
        assert_eq!(changed(0, 7_999, 7_999, 0), (7_999 + 125, 1));
    }

    #[test]
    fn a_wire_counts_whole_bytes_and_goes_on_within_one() {
        let ns = Instant::from_nanos;
        // 2.5 ns a byte.
        let mut wire = WireTime::new(3_200_000_000);
        assert_eq!((wire.bits(), WireTime::new(0).bits()), (3_200_000_000, 1));
        assert_eq!((wire.at(ns(2)), wire.at(ns(2))), ((0, 1), (0, 1)));
        assert_eq!((wire.at(ns(1)), wire.at(ns(4))), ((0, 1), (1, 2)));
        assert_eq!(
            (wire.nanos(0), wire.nanos(1), wire.nanos(2)),
            (ns(4), ns(4), ns(5))
        );
        assert_eq!(wire.at(ns(5)), (2, 2));
        assert_eq!(
            (wire.nanos(2), wire.nanos(3), wire.nanos(4)),
            (ns(5), ns(8), ns(10))
        );
        // Beyond 64 bits of nanobits.
        assert_eq!(wire.at(ns(10_000_000_007)), (4_000_000_002, 4_000_000_003));
        assert_eq!(wire.nanos(14_000_000_002), ns(35_000_000_005));
    }

    #[test]
    fn a_longest_frame_takes_the_longest_slot_and_a_shortest_one_the_shortest() {
        let tagged = WireSlots {
            overhead: 4,
            tags: 1,
            longest: 1_000,
        };
        assert_eq!((PLAIN.longest_slot(), tagged.longest_slot()), (1_538, 1_028));
        assert_eq!(
            (tagged.slot(Bytes::new(0)), tagged.slot(Bytes::new(60))),
            (84, 84)
        );
        assert_eq!(
            (tagged.slot(Bytes::new(61)), tagged.slot(Bytes::new(1_004))),
            (85, 1_028)
        );
        assert_eq!(tagged.slot(Bytes::new(1_005)), 1_001 + 2 * 28);
        assert_eq!(tagged.counted(Bytes::new(10), Basis::Ip), 1);
    }
}
