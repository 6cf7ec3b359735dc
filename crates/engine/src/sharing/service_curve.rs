//! Service curves of two pieces: a slope *m1* for a time *d*, then a slope *m2*.
//!
//! Concave (m1 > m2) gives a short delay to a class with a small rate; convex (m1 < m2) delays a
//! class; a straight line is both. Cruz, "Service burstiness and dynamic burstiness measures",
//! 1992, for the curves; Stoica, Zhang and Ng, "A hierarchical fair service curve algorithm",
//! SIGCOMM 1997, for two pieces and the operations on them.
//!
//! Scale: time in ns, service in nanobits, rate (bit/s) × time (ns), so service at a time is exact;
//! only the time at which some service is reached is rounded, up to a whole ns, and never from a
//! rounded one. Both have 128 bits: at 800 Gbit/s for 10 years they are below 2¹⁰⁰, and so is a
//! virtual time that runs 10⁸ times as fast (a class of 8 kbit/s alone on that link).

use crate::settings::{Raw, SettingValue, describe};
use crate::sharing::credit::NANOBITS;
use crate::units::{Bandwidth, Bytes, Duration, Rate};
use std::collections::BTreeMap;

/// A curve as a policy writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceCurve {
    /// A rate.
    Line(Rate),
    /// A rate for some time, then another.
    Pieces(Rate, Duration, Rate),
    /// This many bytes within some time, then a rate: the delay of a packet of this length.
    Packet(Bytes, Duration, Rate),
}

impl SettingValue for ServiceCurve {
    const UNIT: &'static str = "a rate, or a curve such as \"5 Mbit/s for 10 ms, then 1 Mbit/s\" or \"160 B in 5 ms, then 64 kbit/s\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = || format!("expected {}; found {}", Self::UNIT, describe(raw));
        let text = match raw {
            Raw::Text(text) => text,
            Raw::Bandwidth(rate) => return Ok(Self::Line(Rate::Absolute(*rate))),
            _ => return Err(wrong()),
        };
        fn read<T: SettingValue>(text: &str) -> Result<T, String> {
            T::from_raw(&Raw::Text(text.trim().into()))
        }
        let Some((first, then)) = text.split_once(',') else {
            return read(text)
                .map(Self::Line)
                .map_err(|why| format!("{why}, or {}", Self::UNIT));
        };
        let m2 = read(then.trim().strip_prefix("then ").ok_or_else(wrong)?)?;
        if let Some((m1, d)) = first.split_once(" for ") {
            return Ok(Self::Pieces(read(m1)?, read(d)?, m2));
        }
        let (bytes, d) = first.split_once(" in ").ok_or_else(wrong)?;
        Ok(Self::Packet(read(bytes)?, read(d)?, m2))
    }
}

impl ServiceCurve {
    /// The slopes on a link of this bandwidth.
    pub(crate) fn on(self, link: Bandwidth) -> Slopes {
        let bits = |rate: Rate| rate.on(link).bits();
        match self {
            Self::Line(rate) => Slopes {
                m1: bits(rate),
                d: 0,
                m2: bits(rate),
            },
            Self::Pieces(m1, d, m2) => Slopes {
                m1: bits(m1),
                d: d.nanos(),
                m2: bits(m2),
            },
            Self::Packet(bytes, d, rate) => {
                let (work, m2) = (u128::from(bytes.get()) * NANOBITS as u128, bits(rate));
                let m1 = work.div_ceil(u128::from(d.nanos().max(1)));
                if m1 > u128::from(m2) {
                    let m1 = u64::try_from(m1).unwrap_or(u64::MAX);
                    return Slopes { m1, d: d.nanos(), m2 };
                }
                // The rate alone is fast enough; it may begin this much later.
                let needs = u64::try_from(work.div_ceil(u128::from(m2.max(1)))).unwrap_or(u64::MAX);
                let d = d.nanos().saturating_sub(needs);
                Slopes { m1: 0, d, m2 }
            }
        }
    }
}

/// A curve in bits per second and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slopes {
    pub(crate) m1: u64,
    pub(crate) d: u64,
    pub(crate) m2: u64,
}

impl Slopes {
    /// The service at a time.
    pub(crate) fn at(&self, time: u128) -> u128 {
        let first = time.min(u128::from(self.d));
        let then = u128::from(self.m2).saturating_mul(time - first);
        (u128::from(self.m1) * first).saturating_add(then)
    }
}

/// A sum of curves that begin together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CurveSum {
    /// The slope at the beginning.
    first: i128,
    /// By time: what the slope changes then.
    bends: BTreeMap<u64, i128>,
}

impl CurveSum {
    /// Adds a curve.
    pub(crate) fn add(&mut self, curve: &Slopes) {
        self.change(curve, 1);
    }

    /// Takes out a curve that was added.
    pub(crate) fn remove(&mut self, curve: &Slopes) {
        self.change(curve, -1);
    }

    fn change(&mut self, curve: &Slopes, times: i128) {
        let (m1, m2) = (i128::from(curve.m1), i128::from(curve.m2));
        self.first += times * m1;
        if m1 == m2 {
            return;
        }
        let bend = self.bends.entry(curve.d).or_default();
        *bend += times * (m2 - m1);
        if *bend == 0 {
            self.bends.remove(&curve.d);
        }
    }

    /// The slope in the long run.
    pub(crate) fn rate(&self) -> i128 {
        self.first + self.bends.values().sum::<i128>()
    }

    /// The first of its bends, or the bound's, at which it exceeds a bound; no time if it does only
    /// in the limit.
    pub(crate) fn exceeds(&self, bound: &Slopes) -> Option<Option<u64>> {
        let mut bends = self.bends.clone();
        bends.entry(bound.d).or_default();
        let (mut slope, mut sum, mut last) = (self.first, 0i128, 0u64);
        for (time, change) in bends {
            sum = sum.saturating_add(slope.saturating_mul(i128::from(time - last)));
            if sum > i128::try_from(bound.at(time.into())).unwrap_or(i128::MAX) {
                return Some(Some(time));
            }
            (slope, last) = (slope + change, time);
        }
        (slope > i128::from(bound.m2)).then_some(None)
    }
}

/// A curve from its last anchor: *x*, and the service *done* since, which is less than 2⁶⁴.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Curve {
    /// The upper and the lower half of a time; in halves, so that a curve takes 56 bytes.
    x: [u64; 2],
    done: u64,
    /// How long the first piece is, from `x`; at most `shape.d`.
    dx: u64,
    pub(crate) shape: Slopes,
}

/// Beyond it the anchor moves along, so that the service done since fits 64 bits, and divisions are
/// fast.
const FAR: u64 = 1 << 62;

/// The most service of a first piece, in nanobits: some 500 MB.
pub(crate) const LONGEST_PIECE: u128 = FAR as u128;

fn div_up(service: u128, rate: u64) -> u128 {
    match u64::try_from(service) {
        Ok(service) => u128::from(service.div_ceil(rate.max(1))),
        Err(_) => service.div_ceil(u128::from(rate.max(1))),
    }
}

impl Curve {
    /// From `x` on, nothing done.
    pub(crate) fn new(shape: Slopes, x: u128) -> Self {
        Self {
            x: [(x >> 64) as u64, x as u64],
            done: 0,
            dx: shape.d,
            shape,
        }
    }

    #[inline]
    fn x(&self) -> u128 {
        u128::from(self.x[0]) << 64 | u128::from(self.x[1])
    }

    /// The service of the first piece. It fits: no first piece brings more than [`LONGEST_PIECE`].
    #[inline]
    fn knee(&self) -> u64 {
        self.shape.m1.wrapping_mul(self.dx)
    }

    /// When the curve reaches the service done and `more`.
    #[inline]
    pub(crate) fn time_of(&self, more: u128) -> u128 {
        let (knee, dx) = (self.knee(), u128::from(self.dx));
        // As a rule it is the second piece, and fits 64 bits.
        if let Ok(more) = u64::try_from(more)
            && let Some(target) = self.done.checked_add(more)
            && target > knee
        {
            return self.x() + dx + u128::from((target - knee).div_ceil(self.shape.m2.max(1)));
        }
        let (target, knee) = (u128::from(self.done) + more, u128::from(knee));
        match target <= knee {
            true if self.shape.m1 == 0 => self.x() + dx,
            true => self.x() + div_up(target, self.shape.m1),
            false => self.x() + dx + div_up(target - knee, self.shape.m2),
        }
    }

    /// Whether it is its own eligible curve: a packet may be served early from the deadline of the
    /// one before on.
    #[inline]
    pub(crate) fn is_eligible_curve(&self) -> bool {
        self.shape.m1 >= self.shape.m2 || self.shape.d == 0
    }

    /// When the next packet may be served early: a convex curve without its first piece (the
    /// eligible curve).
    #[inline]
    pub(crate) fn eligible(&self) -> u128 {
        match self.shape.m1 > self.shape.m2 {
            true => self.time_of(0),
            false => self.x() + u128::from(self.done.div_ceil(self.shape.m2.max(1))),
        }
    }

    /// Records service, less than 2⁶³ nanobits.
    #[inline]
    pub(crate) fn advance(&mut self, service: u64) {
        self.done += service;
        let knee = self.knee();
        // No first piece brings more than [`LONGEST_PIECE`].
        if self.done > FAR {
            // Along the second piece, by whole nanoseconds: exact.
            let by = (self.done - knee) / self.shape.m2.max(1);
            self.put_off(by.into());
            self.done -= by * self.shape.m2;
        }
    }

    /// Shifts the curve later.
    pub(crate) fn put_off(&mut self, by: u128) {
        let x = self.x() + by;
        self.x = [(x >> 64) as u64, x as u64];
    }

    /// The same as far from another time as it is from this one.
    pub(crate) fn moved(mut self, from: u128, to: u128) -> Self {
        let x = self.x().wrapping_sub(from).wrapping_add(to);
        self.x = [(x >> 64) as u64, x as u64];
        self
    }

    /// The service done beyond what the curve allows by this time.
    pub(crate) fn ahead(&self, time: u128) -> u64 {
        let allowed = u64::try_from(self.value(time)).unwrap_or(u64::MAX);
        self.done.saturating_sub(allowed)
    }

    fn value(&self, time: u128) -> u128 {
        let time = time.saturating_sub(self.x());
        Slopes {
            d: self.dx,
            ..self.shape
        }
        .at(time)
    }

    /// Becomes the minimum of itself and of the whole curve from `time` and the service done on: a
    /// new backlogged period.
    ///
    /// The minimum of two concave curves is concave. A knee that falls between two nanoseconds is
    /// rounded to the later one, or with `down` to the earlier one. The minimum of two convex
    /// curves has three pieces, so it becomes the one that is less in the end, after both first
    /// pieces. (ALTQ keeps the old one whenever that is less at first; a class that came back then
    /// had no first piece, and others missed their deadlines.)
    pub(crate) fn restart(&mut self, time: u128, down: bool) {
        let Slopes { m1, d, m2 } = self.shape;
        let (here, done) = (self.value(time), u128::from(self.done));
        if m1 > m2 && here <= done {
            return;
        }
        let whole = done + u128::from(m1) * u128::from(d);
        let mut dx = u128::from(d);
        if self.value(time + dx) < whole {
            if m1 <= m2 {
                return;
            }
            let (ahead, gain) = (here - done, u128::from(m1 - m2));
            let meets = if down { ahead / gain } else { ahead.div_ceil(gain) };
            let rest = (self.x() + u128::from(self.dx)).saturating_sub(time);
            dx = dx.min(meets.saturating_add(rest));
        }
        *self = Self {
            dx: dx as u64,
            ..Self::new(self.shape, time)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: Bandwidth = Bandwidth::mbit(100);

    fn read(text: &str) -> Result<Slopes, String> {
        ServiceCurve::from_raw(&Raw::Text(text.into())).map(|curve| curve.on(LINK))
    }

    #[test]
    fn a_curve_is_read_from_its_words() {
        let slopes = |m1, d, m2| Ok(Slopes { m1, d, m2 });
        assert_eq!(read("40 %"), slopes(40_000_000, 0, 40_000_000));
        assert_eq!(
            read("5 Mbit/s for 10 ms, then 1 Mbit/s"),
            slopes(5_000_000, 10_000_000, 1_000_000)
        );
        assert_eq!(
            read("160 B in 5 ms, then 64 kbit/s"),
            slopes(256_000, 5_000_000, 64_000)
        );
        // 1,500 bytes take 1.2 ms at 10 Mbit/s: 3.8 ms may pass before.
        assert_eq!(
            read("1500 B in 5 ms, then 10 Mbit/s"),
            slopes(0, 3_800_000, 10_000_000)
        );
        for wrong in [
            "5 Mbit/s for 10 ms",
            "5 ms",
            "160 B in 5 ms, 64 kbit/s",
            "5 Mbit/s for 3, then 2 bit/s",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    fn shapes() -> impl Strategy<Value = Slopes> {
        let rate =
            || (0u32..27, 1u64..800).prop_map(|(bits, n)| ((8_000u64 << bits) + n).min(800_000_000_000));
        (rate(), 0u64..200_000_000, rate()).prop_map(|(m1, d, m2)| Slopes { m1, d, m2 })
    }

    /// Those whose second slope is the steeper one, or the other way round: drawn so, since a test
    /// that refuses most of what it draws is given up now and then.
    fn bent(convex: bool) -> impl Strategy<Value = Slopes> {
        shapes().prop_map(move |Slopes { m1, d, m2 }| match (m1 <= m2) == convex {
            true => Slopes { m1, d, m2 },
            false => Slopes { m1: m2, d, m2: m1 },
        })
    }

    proptest! {
        #[test]
        fn the_time_of_some_service_is_the_first_with_as_much(shape in shapes(), done in 0u64..1 << 61, x in 0u128..1 << 80) {
            prop_assume!(u128::from(shape.m1) * u128::from(shape.d) < LONGEST_PIECE);
            let mut curve = Curve::new(shape, x);
            let (rounds, work) = (1 + u128::from(done % 5), done);
            let done = u128::from(done) * rounds;
            let time = curve.time_of(done) - x;
            prop_assert!(shape.at(time) >= done);
            prop_assert!(time == 0 || done == 0 || shape.at(time - 1) < done);
            // The anchor and the service done since may move along; nothing else changes.
            (0..rounds).for_each(|_| curve.advance(work));
            prop_assert_eq!(curve.time_of(12_000 * 8_000_000_000), Curve::new(shape, x).time_of(done + 12_000 * 8_000_000_000));
        }

        #[test]
        fn times_in_64_bits_are_those_of_the_wide_division(
            shape in shapes(), m1 in prop_oneof![Just(0u64), Just(1), Just(800_000_000_000)],
            done in 0u64..1 << 61, more in prop_oneof![0u128..1 << 47, 0u128..1 << 90], x in 0u128..1 << 80,
        ) {
            for shape in [shape, Slopes { m1, ..shape }, Slopes { d: 0, m1: shape.m2, ..shape }] {
                prop_assume!(u128::from(shape.m1) * u128::from(shape.d) < LONGEST_PIECE);
                let mut curve = Curve::new(shape, x);
                curve.advance(done);
                let knee = u128::from(shape.m1) * u128::from(shape.d);
                let wide = |target: u128| match (target <= knee, shape.m1) {
                    (true, 0) => u128::from(shape.d),
                    (true, m1) => target.div_ceil(m1.into()),
                    (false, _) => u128::from(shape.d) + (target - knee).div_ceil(shape.m2.into()),
                };
                for more in [0, more] {
                    prop_assert_eq!(curve.time_of(more) - x, wide(u128::from(done) + more));
                }
                let early = u128::from(done).div_ceil(shape.m2.into());
                let eligible = if shape.m1 > shape.m2 { wide(done.into()) } else { early };
                prop_assert_eq!(curve.eligible() - x, eligible);
            }
        }

        #[test]
        fn a_concave_curve_started_again_is_the_lesser_of_both(
            shape in bent(false),
            periods in prop::collection::vec((0u64..400_000_000, 0u128..100), 1..6),
        ) {
            prop_assume!(shape.m1 > shape.m2 && u128::from(shape.m1) * 3_000_000_000 < LONGEST_PIECE);
            let (mut curve, mut starts) = (Curve::new(shape, 0), vec![(0u128, 0u128)]);
            let (mut now, mut total) = (0u128, 0u128);
            let least = |starts: &[(u128, u128)], at: u128| starts.iter().map(|(x, y)| y + shape.at(at - x)).min();
            for (gap, percent) in periods {
                now += u128::from(gap);
                // Some of what the curve allows by then.
                let may = least(&starts, now).expect("a start").saturating_sub(total);
                curve.advance((may * percent / 100) as u64);
                total += may * percent / 100;
                curve.restart(now, false);
                starts.push((now, total));
                for after in [0u64, 1_000, 1_000_000, 50_000_000, 1_000_000_000] {
                    let at = now + u128::from(after);
                    let (own, model) = (curve.value(at) - u128::from(curve.done) + total, least(&starts, at).expect("a start"));
                    // The knee is rounded up to a whole nanosecond, at each start anew.
                    prop_assert!(own >= model && own - model <= u128::from(shape.m1) * starts.len() as u128, "{own} {model}");
                }
            }
        }

        #[test]
        fn a_convex_curve_started_again_asks_for_no_more_than_one_that_starts_and_no_less_than_the_least(
            shape in bent(true),
            periods in prop::collection::vec((0u64..400_000_000, 0u128..150), 1..6),
        ) {
            prop_assume!(shape.m1 <= shape.m2 && u128::from(shape.m2) * 4_000_000_000 < LONGEST_PIECE);
            let (mut curve, mut starts) = (Curve::new(shape, 0), vec![(0u128, 0u128)]);
            let (mut now, mut total) = (0u128, 0u128);
            for (gap, percent) in periods {
                now += u128::from(gap);
                // Up to what is eligible, which is more than the curve says; at times even more.
                let may = u128::from(shape.m2) * u128::from(gap) * percent / 100;
                curve.advance(may as u64);
                total += may;
                curve.restart(now, false);
                starts.push((now, total));
                for after in [0u64, 1_000, 1_000_000, 50_000_000, 1_000_000_000] {
                    let at = now + u128::from(after);
                    let own = (curve.value(at) + total).saturating_sub(u128::from(curve.done));
                    let least = starts.iter().map(|(x, y)| y + shape.at(at - x)).min().expect("a start");
                    prop_assert!(own.max(total) >= least, "{own} {least}");
                    prop_assert!(own <= total + shape.at(after.into()), "{own} from {total}");
                }
            }
        }

        #[test]
        fn curves_exceed_a_bound_where_their_sum_does(curves in prop::collection::vec(shapes(), 1..5), bound in shapes()) {
            let sum = |time: u128| curves.iter().map(|c| c.at(time)).sum::<u128>();
            let mut all = CurveSum::default();
            curves.iter().for_each(|curve| all.add(curve));
            let found = all.exceeds(&bound);
            if let Some(Some(time)) = found {
                prop_assert!(sum(time.into()) > bound.at(time.into()));
            }
            for time in [1u128, 1_000, 1_000_000, 10_000_000, 100_000_000, 300_000_000, 1 << 50] {
                prop_assert!(found.is_some() || sum(time) <= bound.at(time));
            }
        }
    }

    #[test]
    fn a_packet_that_its_rate_alone_brings_in_time_needs_no_first_piece() {
        let slopes = |m1, d, m2| Ok(Slopes { m1, d, m2 });
        // 160 bytes in 5 ms are 256 kbit/s.
        assert_eq!(read("160 B in 5 ms, then 256 kbit/s"), slopes(0, 0, 256_000));
        assert_eq!(
            read("160 B in 5 ms, then 255999 bit/s"),
            slopes(256_000, 5_000_000, 255_999)
        );
        assert_eq!(
            read("160 B in 5 ms, then 512 kbit/s"),
            slopes(0, 2_500_000, 512_000)
        );
    }

    #[test]
    fn a_sum_of_curves_has_the_slope_of_all_in_the_end_and_forgets_what_is_taken_out() {
        let (concave, convex) = (Slopes { m1: 5, d: 10, m2: 1 }, Slopes { m1: 2, d: 20, m2: 6 });
        let line = Slopes { m1: 7, d: 0, m2: 7 };
        let mut sum = CurveSum::default();
        sum.add(&concave);
        assert_eq!(sum.rate(), 1);
        sum.add(&convex);
        sum.add(&line);
        assert_eq!((sum.rate(), sum.first), (14, 14));
        assert_eq!(sum.bends, BTreeMap::from([(10, -4), (20, 4)]));
        sum.add(&convex);
        assert_eq!((sum.rate(), sum.bends[&20]), (20, 8));
        for curve in [convex, line, concave, convex] {
            sum.remove(&curve);
        }
        assert_eq!(sum, CurveSum::default());
    }

    #[test]
    fn the_first_bend_at_which_a_sum_exceeds_a_bound_is_told() {
        let sum = |curves: &[Slopes]| {
            let mut sum = CurveSum::default();
            curves.iter().for_each(|curve| sum.add(curve));
            sum
        };
        let (concave, line) = (Slopes { m1: 5, d: 10, m2: 1 }, Slopes { m1: 2, d: 0, m2: 2 });
        let bound = |m1, d, m2| Slopes { m1, d, m2 };
        assert_eq!(sum(&[concave]).exceeds(&bound(5, 0, 5)), None);
        assert_eq!(sum(&[concave]).exceeds(&bound(4, 0, 4)), Some(Some(10)));
        assert_eq!(
            sum(&[concave, line]).exceeds(&bound(7, 10, 3)),
            None,
            "it is reached"
        );
        assert_eq!(sum(&[concave, line]).exceeds(&bound(7, 9, 7)), None);
        assert_eq!(
            sum(&[concave, line]).exceeds(&bound(7, 20, 2)),
            Some(None),
            "in the limit"
        );
        assert_eq!(sum(&[line]).exceeds(&bound(1, 7, 9)), Some(Some(7)));
    }

    fn curve(m1: u64, d: u64, m2: u64, x: u128) -> Curve {
        Curve::new(Slopes { m1, d, m2 }, x)
    }

    #[test]
    fn a_curve_is_its_own_eligible_curve_unless_it_is_convex() {
        for (m1, d, m2, is) in [
            (3, 10, 1, true),
            (3, 10, 3, true),
            (3, 10, 4, false),
            (3, 0, 4, true),
            (3, 0, 1, true),
        ] {
            assert_eq!(curve(m1, d, m2, 0).is_eligible_curve(), is, "{m1} {d} {m2}");
        }
    }

    #[test]
    fn the_anchor_moves_along_once_more_is_done_than_is_far() {
        let mut line = curve(0, 0, 1_000, 5);
        line.advance(FAR);
        assert_eq!((line.x(), line.done), (5, FAR));
        line.advance(1_500);
        let all = u128::from(FAR) + 1_500;
        assert_eq!(line.x(), 5 + all / 1_000);
        assert_eq!(u128::from(line.done), all % 1_000);
        // The first piece stays in front of it.
        let mut bent = curve(7, 10, 1_000, 5);
        bent.advance(FAR);
        bent.advance(1_500);
        assert_eq!(bent.x(), 5 + (all - 70) / 1_000);
        assert_eq!(u128::from(bent.done), 70 + (all - 70) % 1_000);
    }

    #[test]
    fn a_curve_that_is_put_off_or_moved_keeps_its_shape() {
        let far = 1u128 << 70;
        let mut late = curve(2, 0, 2, far);
        late.advance(100);
        assert_eq!(late.time_of(0), far + 50);
        assert_eq!(
            (late.ahead(far + 30), late.ahead(far + 50), late.ahead(5)),
            (40, 0, 100)
        );
        late.put_off(7);
        assert_eq!((late.time_of(0), late.eligible()), (far + 57, far + 57));
        assert_eq!(late.moved(far, 3).time_of(0), 60);
        assert_eq!(late.moved(3, far).time_of(0), 2 * far + 54);
    }

    /// By hand: the curve at these times and service done, its start and its first piece then.
    #[test]
    fn a_new_backlogged_period_starts_the_lesser_of_two_curves() {
        let restarted = |(m1, m2), time: u128, done: u64, down| {
            let mut curve = curve(m1, 10, m2, 0);
            curve.advance(done);
            curve.restart(time, down);
            (curve.x(), curve.dx, curve.done)
        };
        let concave = (3, 1);
        // At 10 it allows 30. From 20 on the whole curve would be at 50 after 10 ns, and the old
        // one at 40: they meet at 35.
        assert_eq!(restarted(concave, 10, 20, false), (10, 5, 0));
        assert_eq!(restarted(concave, 10, 29, false), (10, 1, 0));
        assert_eq!(restarted(concave, 10, 29, true), (10, 0, 0));
        assert_eq!(
            restarted(concave, 10, 30, false),
            (0, 10, 30),
            "nothing is left of it"
        );
        assert_eq!(restarted(concave, 4, 2, false), (4, 10, 0), "the whole is less");
        assert_eq!(restarted(concave, 4, 6, false), (4, 9, 0));
        let convex = (1, 3);
        assert_eq!(restarted(convex, 20, 30, false), (20, 10, 0));
        assert_eq!(
            restarted(convex, 20, 60, false),
            (20, 10, 0),
            "both are the same in the end"
        );
        assert_eq!(restarted(convex, 20, 61, false), (0, 10, 61));
    }
}
