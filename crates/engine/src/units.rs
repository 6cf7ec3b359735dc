//! Quantities as types: a length cannot be mistaken for a rate, and every text carries its unit.
//!
//! | type | unit inside | text | finest step |
//! |---|---|---|---|
//! | [`Instant`], [`Duration`] | nanoseconds | `5 ms` | 1 ns |
//! | [`Bytes`] | bytes | `1500 B`, `64 KiB` | 1 B |
//! | [`Bandwidth`] | bits per second | `20 Mbit/s`, `62.5 MB/s` | 1 bit/s |
//! | [`Probability`] | parts of 2³² | `40 %`, `0.1` | 2⁻³² |
//! | [`Share`] | parts of 10¹² | `40 %` | 10⁻¹⁰ % |
//! | [`Rate`] | a bandwidth, or a share of the link | `20 Mbit/s`, `40 %` | as above |
//!
//! Text is read exactly or refused: `0.5 ns` is an error and not 0 or 1. Only [`Probability`]
//! rounds (to the nearest 2⁻³²), since decimal fractions have no exact binary form. What is printed
//! reads back as the same value. Decimal prefixes are powers of 1000, `Ki`/`Mi`/`Gi` powers of
//! 1024.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

/// A point on the engine's clock: nanoseconds since its host started it. Hosts make them (a real
/// clock, the simulator, a test); disciplines compare and add.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Instant(u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Duration(u64);

/// A length in bytes. Of a packet: its length on the wire, the link's overhead included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Bytes(u64);

/// Bits per second. Built only by named constructors, so that bits and bytes cannot be mixed up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Bandwidth(u64);

/// A probability or a share from 0 to 1, in parts of 2³².
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Probability(u64);

/// A share of a link, from 0 to 1, in parts of 10¹²: decimal, so that twenty times 5 % is all of
/// it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Share(u64);

/// A rate as people give it: absolute, or a share of the link's bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// `20 Mbit/s`
    Absolute(Bandwidth),
    /// `40 %`
    Share(Share),
}

const NANOS: u64 = 1_000_000_000;

impl Instant {
    /// When the host started its clock.
    pub const START: Self = Self(0);
    /// Later than any event.
    pub const NEVER: Self = Self(u64::MAX);

    /// `ns` nanoseconds after the start.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * NANOS)
    }

    /// The length in nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Seconds, for display and statistics only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS as f64
    }

    /// This many times the span, saturating.
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// `n` bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The length as a number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// This many times the length, saturating.
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Bandwidth {
    /// Nothing per second.
    pub const ZERO: Self = Self(0);

    /// `n` bits per second.
    pub const fn bits_per_sec(n: u64) -> Self {
        Self(n)
    }

    /// `n` thousand bits per second.
    pub const fn kbit(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// `n` million bits per second.
    pub const fn mbit(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// `n` thousand million bits per second.
    pub const fn gbit(n: u64) -> Self {
        Self(n * NANOS)
    }

    /// The rate in bits per second.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The time that `len` takes at this rate, rounded up: a shaper must never run fast.
    /// [`Duration`]'s largest value at rate zero, or where the time does not fit.
    pub const fn time_to_send(self, len: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration(u64::MAX);
        }
        let nanobits = len.0 as u128 * 8 * NANOS as u128;
        let ns = nanobits.div_ceil(self.0 as u128);
        Duration(if ns > u64::MAX as u128 {
            u64::MAX
        } else {
            ns as u64
        })
    }

    /// Whole bytes that fit in `span` at this rate, rounded down, saturating.
    pub const fn bytes_in(self, span: Duration) -> Bytes {
        let bytes = self.0 as u128 * span.0 as u128 / (8 * NANOS as u128);
        Bytes(if bytes > u64::MAX as u128 {
            u64::MAX
        } else {
            bytes as u64
        })
    }

    /// The rate at which `len` is sent in `span`, rounded down; zero for an empty span. For
    /// statistics.
    pub const fn of(len: Bytes, span: Duration) -> Self {
        if span.0 == 0 {
            return Self(0);
        }
        let bits = len.0 as u128 * 8 * NANOS as u128 / span.0 as u128;
        Self(if bits > u64::MAX as u128 {
            u64::MAX
        } else {
            bits as u64
        })
    }

    /// A share of this rate, rounded down to a whole bit per second.
    pub const fn share(self, share: Share) -> Self {
        Self((self.0 as u128 * share.0 as u128 / Share::ALL.0 as u128) as u64)
    }
}

impl Probability {
    /// Never; nothing.
    pub const ZERO: Self = Self(0);
    /// Always; all of it.
    pub const ONE: Self = Self(1 << 32);

    /// `numerator / denominator`, rounded to the nearest part; at most one. Zero for `0 / 0`.
    pub const fn ratio(numerator: u64, denominator: u64) -> Self {
        if denominator == 0 {
            return if numerator == 0 { Self::ZERO } else { Self::ONE };
        }
        let parts = ((numerator as u128 * (1 << 32)) + denominator as u128 / 2) / denominator as u128;
        Self(if parts > 1 << 32 { 1 << 32 } else { parts as u64 })
    }

    /// From parts of 2³², at most one.
    pub const fn from_parts(parts: u64) -> Self {
        Self(if parts > 1 << 32 { 1 << 32 } else { parts })
    }

    /// In parts of 2³².
    pub const fn parts(self) -> u64 {
        self.0
    }

    /// As a number from 0 to 1, for display and statistics.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 4_294_967_296.0
    }
}

impl Share {
    /// The whole link.
    pub const ALL: Self = Self(1_000_000_000_000);

    /// This many per cent, at most 100.
    pub const fn percent(n: u64) -> Self {
        Self(if n > 100 {
            Self::ALL.0
        } else {
            n * (Self::ALL.0 / 100)
        })
    }
}

impl Rate {
    /// The bandwidth that is meant on a link of this bandwidth.
    pub const fn on(self, link: Bandwidth) -> Bandwidth {
        match self {
            Self::Absolute(rate) => rate,
            Self::Share(share) => link.share(share),
        }
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    /// Saturating: beyond the end of the clock lies [`Instant::NEVER`].
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    /// Saturating at [`Instant::START`].
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

macro_rules! additive {
    ($($type:ident),*) => {$(
        impl Add for $type {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl Sub for $type {
            type Output = Self;
            /// Saturating at zero.
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl SubAssign for $type {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
        impl std::iter::Sum for $type {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self(0), |sum, one| sum + one)
            }
        }
    )*};
}
additive!(Duration, Bytes, Bandwidth);

impl Bytes {
    /// Adds a packet's length to a sum that the lengths of 18 EB of packets do not fit into.
    #[inline]
    pub(crate) fn count(&mut self, len: Self) {
        self.0 = self.0.wrapping_add(len.0);
    }

    /// Takes a length that was [counted](Self::count) out again.
    #[inline]
    pub(crate) fn uncount(&mut self, len: Self) {
        self.0 = self.0.wrapping_sub(len.0);
    }
}

// Reading and writing. A quantity is a decimal number, optional space, and a unit that is never
// optional.

/// Why a text is not a quantity: what was expected, with an example.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError(String);

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnitError {}

/// Units of one dimension: the spelling and what one of it is in the smallest unit, as a fraction.
type Units = [(&'static str, u64)];

const TIME: &Units = &[
    ("h", 3600 * NANOS),
    ("min", 60 * NANOS),
    ("s", NANOS),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// A time is shown in seconds.
const SHOWN_TIME: &Units = TIME.split_at(2).1;

const LENGTH: &Units = &[
    ("GB", NANOS),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

const BITRATE: &Units = &[
    ("Tbit/s", 1_000 * NANOS),
    ("Gbit/s", NANOS),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1_000),
    ("bit/s", 1),
    ("GB/s", 8 * NANOS),
    ("MB/s", 8_000_000),
    ("kB/s", 8_000),
    ("B/s", 8),
];

const PERCENT: &Units = &[("%", Share::ALL.0 / 100)];

/// Splits `20 Mbit/s` into its number (digits before and after the point) and its unit.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    (!whole.is_empty() && digits(whole) && digits(fraction)).then(|| (whole, fraction, unit.trim()))
}

/// Reads a quantity exactly, in steps of the smallest unit.
fn read(text: &str, units: &Units, what: &str, example: &str) -> Result<u64, UnitError> {
    let names = || {
        let all: Vec<&str> = units.iter().map(|u| u.0).filter(|u| u.is_ascii()).collect();
        all.join(", ")
    };
    let Some((whole, fraction, unit)) = split(text) else {
        return Err(UnitError(format!("expected {what} such as \"{example}\"")));
    };
    if unit.is_empty() {
        return Err(UnitError(format!(
            "the unit is missing: {what} is written like \"{example}\" ({})",
            names()
        )));
    }
    let found = units.iter().find(|u| u.0 == unit).or_else(|| {
        // Case does not matter where it cannot change the meaning: bits and bytes differ only by
        // it.
        let mut alike = units.iter().filter(|u| u.0.eq_ignore_ascii_case(unit));
        alike
            .next()
            .filter(|_| !unit.contains(['b', 'B']) || unit.to_ascii_lowercase().contains("bit"))
    });
    let Some(&(_, scale)) = found else {
        let meant = advice(unit, units).unwrap_or_default();
        return Err(UnitError(format!(
            "unknown unit \"{unit}\" for {what}; one of {}{meant}",
            names()
        )));
    };
    exact(whole, fraction, scale).ok_or_else(|| {
        let smallest = units.iter().min_by_key(|u| u.1).map_or("", |u| u.0);
        UnitError(format!(
            "\"{}\" is too large, or finer than 1 {smallest}",
            text.trim()
        ))
    })
}

/// The texts that are quantities, as regular expressions of ECMA-262: for editors, which know no
/// more. They accept all that is read, and besides what is too large, or finer than the smallest
/// unit.
pub mod patterns {
    use super::{BITRATE, LENGTH, PERCENT, TIME, Units};
    use std::fmt::Write;

    /// A rate.
    pub fn rate() -> String {
        quantity(&[BITRATE])
    }

    /// A rate, or a share of the link.
    pub fn rate_or_share() -> String {
        quantity(&[BITRATE, PERCENT])
    }

    /// A time.
    pub fn time() -> String {
        quantity(&[TIME])
    }

    /// A length.
    pub fn length() -> String {
        quantity(&[LENGTH])
    }

    /// A share from 0 to 1, or in per cent.
    pub fn probability() -> String {
        r"^\s*[0-9_]+(\.[0-9_]*)?\s*%?\s*$".into()
    }

    fn quantity(units: &[&Units]) -> String {
        let names = units.iter().flat_map(|units| units.iter());
        let names: Vec<String> = names.map(|unit| spellings(unit.0)).collect();
        format!(r"^\s*[0-9_]+(\.[0-9_]*)?\s*({})\s*$", names.join("|"))
    }

    /// The unit in every case that is read: bytes in theirs alone.
    fn spellings(unit: &str) -> String {
        if unit.contains('B') {
            return unit.into();
        }
        let mut out = String::new();
        for c in unit.chars() {
            let _ = match c.is_ascii_alphabetic() {
                true => write!(out, "[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
                false => write!(out, "{c}"),
            };
        }
        out
    }
}

/// What other programs write for a rate, where it is not what the same letters mean elsewhere.
const ELSEWHERE: &[(&str, &str)] = &[
    ("bps", "B/s"),
    ("kbps", "kB/s"),
    ("mbps", "MB/s"),
    ("gbps", "GB/s"),
];

/// The unit that was meant by one of another program, with what else the same letters mean there.
fn advice(unit: &str, units: &Units) -> Option<String> {
    let name = meant(unit, units)?;
    let tc = ELSEWHERE.iter().find(|(word, _)| *word == unit);
    let tc = tc.map_or_else(String::new, |(word, bytes)| {
        format!(" In tc, `{word}` is bytes: \"{bytes}\"")
    });
    Some(format!("; did you mean \"{name}\"?{tc}"))
}

/// The unit that was meant by one as other programs write rates: `mbps`, `Mb/s`, `kbit`, `MBps`,
/// and `M` alone.
fn meant(unit: &str, units: &Units) -> Option<&'static str> {
    if let Some(alone) = ["K", "M", "G", "T"]
        .iter()
        .position(|prefix| prefix.eq_ignore_ascii_case(unit))
    {
        let name = ["kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"][alone];
        return units.iter().map(|unit| unit.0).find(|known| *known == name);
    }
    let stem = ["ps", "/s", ""].iter().find_map(|end| unit.strip_suffix(end))?;
    let stem = stem.strip_suffix("it").unwrap_or(stem);
    let prefix = &stem[..stem
        .len()
        .checked_sub(1)
        .filter(|&at| stem.is_char_boundary(at))?];
    // Only a capital B after another letter is a byte: `Mbps` and `mbps` are bits.
    let base = match stem.ends_with('B') {
        true => "B/s",
        false if stem.ends_with('b') => "bit/s",
        false => return None,
    };
    let name = format!("{prefix}{base}");
    units
        .iter()
        .map(|unit| unit.0)
        .find(|known| known.eq_ignore_ascii_case(&name))
}

/// `whole.fraction × scale` if that is a whole number that fits.
fn exact(whole: &str, fraction: &str, scale: u64) -> Option<u64> {
    let number = |digits: &str| -> Option<u128> {
        let digits: String = digits.chars().filter(|c| *c != '_').collect();
        if digits.is_empty() {
            Some(0)
        } else {
            digits.parse().ok()
        }
    };
    let fraction = fraction.trim_end_matches('0');
    let divisor = 10u128.checked_pow(u32::try_from(fraction.chars().filter(|c| *c != '_').count()).ok()?)?;
    let part = number(fraction)?.checked_mul(u128::from(scale))?;
    if part % divisor != 0 {
        return None;
    }
    let total = number(whole)?
        .checked_mul(u128::from(scale))?
        .checked_add(part / divisor)?;
    u64::try_from(total).ok()
}

/// Writes `value` in the largest unit that needs at most three decimals, exactly.
fn write(f: &mut fmt::Formatter<'_>, value: u64, units: &Units) -> fmt::Result {
    let decimal = |u: &&(&str, u64)| u.0.is_ascii() && !u.0.contains('i') || u.0.contains("bit");
    let fits = |u: &&(&str, u64)| value >= u.1 && value.is_multiple_of((u.1 / 1_000).max(1));
    let unit = units.iter().filter(decimal).filter(fits).max_by_key(|u| u.1);
    let (name, scale) = unit
        .or_else(|| units.iter().min_by_key(|u| u.1))
        .copied()
        .unwrap_or(("", 1));
    let (whole, rest) = (value / scale, value % scale);
    let text = if rest == 0 {
        format!("{whole} {name}")
    } else {
        let thousandths = u128::from(rest) * 1_000 / u128::from(scale);
        let decimals = format!("{thousandths:03}");
        format!("{whole}.{} {name}", decimals.trim_end_matches('0'))
    };
    f.pad(&text)
}

impl FromStr for Duration {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        read(text, TIME, "a time", "5 ms").map(Self)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        read(text, LENGTH, "a length", "1500 B").map(Self)
    }
}

impl FromStr for Bandwidth {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        read(text, BITRATE, "a rate", "20 Mbit/s").map(Self)
    }
}

impl FromStr for Probability {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError("expected a share such as \"40 %\" or \"0.4\", from 0 to 1".into());
        let (whole, fraction, unit) = split(text).ok_or_else(wrong)?;
        let whole: u64 = whole.replace('_', "").parse().map_err(|_| wrong())?;
        let fraction = fraction.replace('_', "");
        let digits = u32::try_from(fraction.len()).map_err(|_| wrong())?;
        let decimals: u64 = if fraction.is_empty() {
            0
        } else {
            fraction.parse().map_err(|_| wrong())?
        };
        let (divisor, hundred) = match unit {
            "" => (1u64, 1u64),
            "%" => (100, 100),
            _ => return Err(wrong()),
        };
        let scale = 10u64.checked_pow(digits).ok_or_else(wrong)?;
        let numerator = whole
            .checked_mul(scale)
            .and_then(|n| n.checked_add(decimals))
            .ok_or_else(wrong)?;
        let denominator = scale.checked_mul(divisor).ok_or_else(wrong)?;
        if whole > hundred || numerator > denominator {
            return Err(wrong());
        }
        Ok(Self::ratio(numerator, denominator))
    }
}

impl FromStr for Share {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let share = read(text, PERCENT, "a share of the link", "40 %")?;
        let all = Self::ALL.0;
        let too_much = || UnitError(format!("\"{}\" is more than the whole link", text.trim()));
        if share > all {
            Err(too_much())
        } else {
            Ok(Self(share))
        }
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim().ends_with('%') {
            return text.parse().map(Self::Share);
        }
        text.parse().map(Self::Absolute)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, SHOWN_TIME)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, SHOWN_TIME)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, LENGTH)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Shown in bits, the field's habit, even where a whole number of bytes would be shorter.
        write(f, self.0, &BITRATE[..5])
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The shortest percentage that reads back as this value.
        for decimals in 0..12 {
            let text = format!("{:.decimals$} %", self.as_f64() * 100.0);
            if text.parse() == Ok(*self) {
                return f.pad(&text);
            }
        }
        f.pad(&format!("{:.12} %", self.as_f64() * 100.0))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = Self::ALL.0 / 100;
        let decimals = format!("{:010}", self.0 % one);
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        f.pad(&format!("{}{point}{decimals} %", self.0 / one))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(rate) => rate.fmt(f),
            Self::Share(share) => share.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_read_exactly_or_refused() {
        assert_eq!("20 Mbit/s".parse(), Ok(Bandwidth::mbit(20)));
        assert_eq!("20mbit/s".parse(), Ok(Bandwidth::mbit(20)));
        assert_eq!("62.5 MB/s".parse(), Ok(Bandwidth::mbit(500)));
        assert_eq!("0.8Tbit/s".parse(), Ok(Bandwidth::gbit(800)));
        assert_eq!("1.5 ms".parse(), Ok(Duration::from_micros(1500)));
        assert_eq!("64 KiB".parse(), Ok(Bytes::new(65536)));
        assert_eq!("40 %".parse(), Ok(Rate::Share(Share::percent(40))));
        for wrong in [
            "20",
            "0.5 bit/s",
            "20 Mb/s",
            "20 mB/s",
            "-1 bit/s",
            "",
            "fast",
            "1..2 bit/s",
            "9e9 bit/s",
        ] {
            assert!(wrong.parse::<Bandwidth>().is_err(), "{wrong} was accepted");
        }
        for wrong in ["101 %", "1.1", "40 bit/s", "%", "99999999999999999999 %"] {
            assert!(wrong.parse::<Probability>().is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_shaper_never_runs_fast() {
        let rate = Bandwidth::gbit(800);
        assert_eq!(rate.time_to_send(Bytes::new(64)), Duration::from_nanos(1));
        assert_eq!(rate.bytes_in(Duration::from_nanos(1)), Bytes::new(100));
        assert_eq!(
            Bandwidth::kbit(8).time_to_send(Bytes::new(1500)),
            Duration::from_millis(1500)
        );
        assert_eq!(Bandwidth::ZERO.time_to_send(Bytes::new(1)).nanos(), u64::MAX);
    }

    #[test]
    fn shares_add_up() {
        let link = Bandwidth::gbit(100);
        let twentieth: Rate = "5 %".parse().expect("a share");
        assert_eq!(twentieth.on(link), Bandwidth::gbit(5));
        assert_eq!(
            "33.3 %".parse::<Share>().map(|s| Bandwidth::mbit(10).share(s)),
            Ok(Bandwidth::kbit(3330))
        );
        for wrong in ["100.1 %", "0.00000000001 %", "5", "5 per cent"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_unit_as_others_write_it_is_refused_with_the_one_that_was_meant() {
        for (text, meant) in [
            ("20 Mb/s", "Mbit/s"),
            ("20 Gbps", "Gbit/s"),
            ("20 MBps", "MB/s"),
            ("20 kbit", "kbit/s"),
            ("20mbit", "Mbit/s"),
            ("20Mb", "Mbit/s"),
            ("20M", "Mbit/s"),
        ] {
            let why = text.parse::<Bandwidth>().expect_err("not our unit").to_string();
            assert!(
                why.ends_with(&format!("; did you mean \"{meant}\"?")),
                "{text}: {why}"
            );
        }
        let why = "20mbps".parse::<Bandwidth>().expect_err("ambiguous").to_string();
        let said = "; did you mean \"Mbit/s\"? In tc, `mbps` is bytes: \"MB/s\"";
        assert!(why.ends_with(said), "{why}");
        let why = "20 parsecs"
            .parse::<Bandwidth>()
            .expect_err("no unit")
            .to_string();
        assert!(!why.contains("did you mean"), "{why}");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(n: u64, parts in 0..=1u64 << 32, share in 0..=Share::ALL.0) {
            prop_assert_eq!(Duration(n).to_string().parse(), Ok(Duration(n)));
            prop_assert_eq!(Bytes(n).to_string().parse(), Ok(Bytes(n)));
            prop_assert_eq!(Bandwidth(n).to_string().parse(), Ok(Bandwidth(n)));
            prop_assert_eq!(Share(share).to_string().parse(), Ok(Share(share)));
            prop_assert_eq!(Probability(parts).to_string().parse(), Ok(Probability(parts)));
        }

        #[test]
        fn any_text_is_refused_without_panic(text: String) {
            let _ = (text.parse::<Rate>(), text.parse::<Duration>(), text.parse::<Bytes>());
        }
    }

    #[test]
    fn the_patterns_of_quantities_name_every_unit_in_every_case_that_is_read() {
        let around = |units: &str| format!(r"^\s*[0-9_]+(\.[0-9_]*)?\s*({units})\s*$");
        let bits = "[tT][bB][iI][tT]/[sS]|[gG][bB][iI][tT]/[sS]|[mM][bB][iI][tT]/[sS]|[kK][bB][iI][tT]/[sS]";
        let rates = format!("{bits}|[bB][iI][tT]/[sS]|GB/s|MB/s|kB/s|B/s");
        assert_eq!(patterns::rate(), around(&rates));
        assert_eq!(patterns::rate_or_share(), around(&format!("{rates}|%")));
        assert_eq!(patterns::length(), around("GB|MB|kB|B|GiB|MiB|KiB"));
        let times = "[hH]|[mM][iI][nN]|[sS]|[mM][sS]|[uU][sS]|µ[sS]|[nN][sS]";
        assert_eq!(patterns::time(), around(times));
        assert_eq!(patterns::probability(), r"^\s*[0-9_]+(\.[0-9_]*)?\s*%?\s*$");
    }

    #[test]
    fn a_quantity_is_shown_in_the_largest_unit_with_at_most_three_decimals() {
        let length = |n| Bytes(n).to_string();
        let shown = [0, 999, 1_000, 1_500, 1_001, 999_999, 1_000_000].map(length);
        assert_eq!(
            shown,
            ["0 B", "999 B", "1 kB", "1.5 kB", "1.001 kB", "999.999 kB", "1 MB"]
        );
        assert_eq!([1_234_567, 1_234_000].map(length), ["1234.567 kB", "1.234 MB"]);
        assert_eq!([1 << 30, 2_500_000_000].map(length), ["1073741.824 kB", "2.5 GB"]);
        let time = |n| Duration(n).to_string();
        assert_eq!(
            [0, 1, 1_000, 1_500_000].map(time),
            ["0 ns", "1 ns", "1 us", "1.5 ms"]
        );
        assert_eq!(time(90 * NANOS), "90 s");
        assert_eq!(Instant(1_050).to_string(), "1.05 us");
        let rate = |n| Bandwidth(n).to_string();
        assert_eq!(
            [7, 8_000, 64_000_000].map(rate),
            ["7 bit/s", "8 kbit/s", "64 Mbit/s"]
        );
        assert_eq!([NANOS, 1_500 * NANOS].map(rate), ["1 Gbit/s", "1.5 Tbit/s"]);
        assert_eq!(format!("{:>8}|", Bytes(5)), "     5 B|");
    }

    #[test]
    fn shares_and_probabilities_are_shown_in_per_cent() {
        let share = |n| Share(n).to_string();
        let tenth = Share::ALL.0 / 1_000;
        assert_eq!([0, tenth, 12 * tenth].map(share), ["0 %", "0.1 %", "1.2 %"]);
        assert_eq!([1, Share::ALL.0].map(share), ["0.0000000001 %", "100 %"]);
        assert_eq!(Rate::Share(Share::percent(40)).to_string(), "40 %");
        assert_eq!(Rate::Absolute(Bandwidth::mbit(2)).to_string(), "2 Mbit/s");
        let chance = |parts| Probability(parts).to_string();
        assert_eq!(
            [0, 1 << 31, 1 << 30, 1 << 32].map(chance),
            ["0 %", "50 %", "25 %", "100 %"]
        );
        assert_eq!(Probability::ratio(1, 8).to_string(), "12.5 %");
    }

    #[test]
    fn units_differ_by_case_only_where_it_cannot_change_the_meaning() {
        let rate = |text: &str| text.parse::<Bandwidth>().ok().map(Bandwidth::bits);
        assert_eq!((rate("1 GBIT/S"), rate("1 KBIT/s")), (Some(NANOS), Some(1_000)));
        assert_eq!(
            (rate("2 GB/s"), rate("2 kB/s"), rate("2 B/s")),
            (Some(16 * NANOS), Some(16_000), Some(16))
        );
        assert_eq!(
            (rate("2 gB/s"), rate("2 KB/s"), rate("2 b/s")),
            (None, None, None)
        );
        let time = |text: &str| text.parse::<Duration>().ok().map(Duration::nanos);
        assert_eq!(
            (time("1 H"), time("1 Min"), time("1 MS")),
            (Some(3_600 * NANOS), Some(60 * NANOS), Some(1_000_000))
        );
        assert_eq!(
            (time("3 µs"), time("3 us"), time("3 S")),
            (Some(3_000), Some(3_000), Some(3 * NANOS))
        );
        let length = |text: &str| text.parse::<Bytes>().ok().map(Bytes::get);
        assert_eq!(
            (length("1 GiB"), length("1 MiB"), length("1 GB")),
            (Some(1 << 30), Some(1 << 20), Some(NANOS))
        );
        assert_eq!(
            (length("1 kb"), length("1 gib"), length("1_000 B")),
            (None, None, Some(1_000))
        );
    }

    #[test]
    fn a_quantity_is_exact_or_told_to_be_too_large_or_too_fine() {
        let length = |text: &str| text.parse::<Bytes>().map_err(|why| why.to_string());
        assert_eq!(length("0.001 kB"), Ok(Bytes(1)));
        assert_eq!(length("1.0000 B"), Ok(Bytes(1)));
        assert_eq!(length("18446744073709551615 B"), Ok(Bytes(u64::MAX)));
        for wrong in ["18446744073709551616 B", "0.0001 kB", "18446744073709552 kB"] {
            let why = format!("\"{wrong}\" is too large, or finer than 1 B");
            assert_eq!(length(wrong), Err(why));
        }
        assert_eq!(length("x"), Err("expected a length such as \"1500 B\"".into()));
        let why = length("5").expect_err("no unit");
        assert_eq!(
            why,
            "the unit is missing: a length is written like \"1500 B\" (GB, MB, kB, B, GiB, MiB, KiB)"
        );
        let why = "5 x".parse::<Duration>().expect_err("no such unit").to_string();
        assert_eq!(why, "unknown unit \"x\" for a time; one of h, min, s, ms, us, ns");
    }

    #[test]
    fn a_probability_is_read_up_to_one() {
        let read = |text: &str| text.parse::<Probability>().ok().map(Probability::parts);
        assert_eq!(
            (read("1"), read("100 %"), read("1.0")),
            (Some(1 << 32), Some(1 << 32), Some(1 << 32))
        );
        assert_eq!(
            (read("0.25"), read("25 %"), read("0.5 %")),
            (Some(1 << 30), Some(1 << 30), Some(21_474_836))
        );
        assert_eq!(
            (read("1.01"), read("100.1 %"), read("2"), read("101 %")),
            (None, None, None, None)
        );
        assert_eq!(
            (read("1 %%"), read(".5"), read("0.5_0")),
            (None, None, Some(1 << 31))
        );
    }

    #[test]
    fn ratios_are_rounded_to_the_nearest_part_and_never_more_than_one() {
        let ratio = |a, b| Probability::ratio(a, b).parts();
        assert_eq!((ratio(1, 3), ratio(2, 3)), (1_431_655_765, 2_863_311_531));
        assert_eq!(
            (ratio(0, 0), ratio(1, 0), ratio(3, 2), ratio(2, 2)),
            (0, 1 << 32, 1 << 32, 1 << 32)
        );
        assert_eq!(
            (
                Probability::from_parts(7).parts(),
                Probability::from_parts(1 << 33).parts()
            ),
            (7, 1 << 32)
        );
        assert_eq!(
            (Probability::ONE.as_f64(), Probability(1 << 30).as_f64()),
            (1.0, 0.25)
        );
        assert_eq!(
            (Share::percent(100), Share::percent(101), Share::percent(1).0),
            (Share::ALL, Share::ALL, 10_000_000_000)
        );
        assert_eq!(Bandwidth(1_000).share(Share::percent(33)), Bandwidth(330));
        assert_eq!(Rate::Absolute(Bandwidth(7)).on(Bandwidth(1_000)), Bandwidth(7));
    }

    #[test]
    fn times_lengths_and_rates_follow_from_each_other() {
        let rate = Bandwidth::bits_per_sec(3);
        assert_eq!(rate.time_to_send(Bytes(1)), Duration(2_666_666_667));
        assert_eq!(rate.time_to_send(Bytes(u64::MAX)), Duration(u64::MAX));
        assert_eq!(
            (
                rate.bytes_in(Duration(2_666_666_666)),
                rate.bytes_in(Duration(2_666_666_667))
            ),
            (Bytes(0), Bytes(1))
        );
        assert_eq!(Bandwidth(u64::MAX).bytes_in(Duration(u64::MAX)), Bytes(u64::MAX));
        assert_eq!(Bandwidth::of(Bytes(1), Duration::from_secs(3)), Bandwidth(2));
        assert_eq!(Bandwidth::of(Bytes(1_500), Duration::ZERO), Bandwidth::ZERO);
        assert_eq!(Bandwidth::of(Bytes(u64::MAX), Duration(1)), Bandwidth(u64::MAX));
        assert_eq!(
            (Duration::from_secs(2), Duration::from_millis(2_000)),
            (Duration(2 * NANOS), Duration(2 * NANOS))
        );
        assert_eq!(
            (Duration(3).times(4), Bytes(3).times(4)),
            (Duration(12), Bytes(12))
        );
        assert_eq!(
            (Duration(3).times(u64::MAX), Bytes(3).times(u64::MAX)),
            (Duration(u64::MAX), Bytes(u64::MAX))
        );
        assert_eq!(Duration::from_millis(1_500).as_secs_f64(), 1.5);
    }

    #[test]
    fn sums_stay_within_what_fits() {
        assert_eq!(
            (Bytes(5) + Bytes(7), Bytes(7) - Bytes(5), Bytes(5) - Bytes(7)),
            (Bytes(12), Bytes(2), Bytes(0))
        );
        assert_eq!(Bytes(u64::MAX) + Bytes(1), Bytes(u64::MAX));
        assert_eq!(
            [Bytes(1), Bytes(2), Bytes(4)].into_iter().sum::<Bytes>(),
            Bytes(7)
        );
        let mut sum = Duration(5);
        sum += Duration(7);
        assert_eq!(sum, Duration(12));
        sum -= Duration(2);
        assert_eq!(sum, Duration(10));
        assert_eq!(
            (
                Instant(5) + Duration(7),
                Instant(7) - Duration(5),
                Instant(5) - Duration(7)
            ),
            (Instant(12), Instant(2), Instant(0))
        );
        assert_eq!(
            (Instant(7).since(Instant(5)), Instant(5).since(Instant(7))),
            (Duration(2), Duration(0))
        );
        let mut counted = Bytes(1);
        counted.count(Bytes(u64::MAX));
        assert_eq!(counted, Bytes(0));
        counted.uncount(Bytes(2));
        assert_eq!(counted, Bytes(u64::MAX - 1));
    }
}
