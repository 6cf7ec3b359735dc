//! IntServ contents: SENDER_TSPEC and FLOWSPEC (RFC 2210, section 3; services of RFC 2211 and RFC
//! 2212).
//!
//! Numbers are IEEE single precision, in bytes and bytes per second of IP datagrams. NaN, negative
//! values, an infinite rate or bucket, a peak below the rate, and m above M are invalid; an
//! infinite peak is valid.

use super::object::Object;
use super::reader::{Misread, Reader};
use core::fmt;

pub(super) const GENERAL: u8 = 1;
pub(super) const GUARANTEED: u8 = 2;
pub(super) const CONTROLLED_LOAD: u8 = 5;
const TOKEN_BUCKET: u8 = 127;
const RSPEC: u8 = 130;

/// A single-precision number: zero, positive or infinite. Stored as its bits, which have the same
/// order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Real(u32);

impl Real {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Infinity.
    pub const INFINITE: Self = Self(0x7f80_0000);

    /// From its bits, unless it is negative or NaN.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits <= Self::INFINITE.0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// The nearest representable number.
    pub fn nearest(n: u64) -> Self {
        Self((n as f32).to_bits())
    }

    /// Its bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether it is finite.
    pub const fn is_finite(self) -> bool {
        self.0 < Self::INFINITE.0
    }

    /// Its value.
    pub const fn get(self) -> f32 {
        f32::from_bits(self.0)
    }

    /// The least representable number that is not below this; none if it is negative or NaN.
    pub fn at_least(value: f64) -> Option<Self> {
        let nearest = Self::of(value)?;
        // The next number up has the next bits; infinity follows the largest.
        let up = u32::from(f64::from(nearest.get()) < value);
        Some(Self(nearest.0 + up))
    }

    /// The greatest representable number that is not above this; none if it is negative or NaN.
    pub fn at_most(value: f64) -> Option<Self> {
        let nearest = Self::of(value)?;
        let down = u32::from(f64::from(nearest.get()) > value);
        Some(Self(nearest.0 - down))
    }

    fn of(value: f64) -> Option<Self> {
        // Adding zero turns the negative zero into the positive one.
        let nearest = (value as f32 + 0.0).to_bits();
        Self::from_bits(nearest).filter(|_| value >= 0.0)
    }

    /// The sum, rounded up.
    pub fn plus(self, other: Self) -> Self {
        let (a, b) = (f64::from(self.get()), f64::from(other.get()));
        let sum = a + b;
        // The rounding error of the sum (Knuth's two-sum, exact for finite numbers).
        let error = (a - (sum - b)) + (b - (sum - a));
        match Self::at_least(sum) {
            Some(up) if error > 0.0 && f64::from(up.get()) == sum => Self(up.0 + 1),
            Some(up) => up,
            None => Self::INFINITE,
        }
    }

    /// Rounded down to an integer; saturates at `u64::MAX`.
    pub fn floor(self) -> u64 {
        self.get() as u64
    }

    /// Rounded up to an integer; saturates at `u64::MAX`.
    pub fn ceil(self) -> u64 {
        // The conversion saturates.
        f64::from(self.get()).ceil() as u64
    }
}

impl fmt::Debug for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

fn real(body: &mut Reader<'_>) -> Result<Real, Misread> {
    Real::from_bits(body.u32()?).ok_or(Misread::Value)
}

/// TOKEN_BUCKET_TSPEC: a description of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TokenBucket {
    /// r: the token rate, in bytes per second.
    pub rate: Real,
    /// b: the bucket depth, in bytes.
    pub bucket: Real,
    /// p: the peak rate, in bytes per second; may be infinite.
    pub peak: Real,
    /// m: the minimum policed unit; smaller packets count as this many bytes.
    pub minimum: u32,
    /// M: the maximum packet size; larger packets do not conform.
    pub maximum: u32,
}

impl TokenBucket {
    /// Whether the parameters are consistent.
    pub fn is_sound(&self) -> bool {
        self.rate.is_finite()
            && self.bucket.is_finite()
            && self.rate <= self.peak
            && self.minimum <= self.maximum
    }

    fn write(&self, out: &mut Vec<u8>) {
        let words = [
            self.rate.bits(),
            self.bucket.bits(),
            self.peak.bits(),
            self.minimum,
            self.maximum,
        ];
        out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, Misread> {
        parameter(body, TOKEN_BUCKET, 5)?;
        let bucket = Self {
            rate: real(body)?,
            bucket: real(body)?,
            peak: real(body)?,
            minimum: body.u32()?,
            maximum: body.u32()?,
        };
        if bucket.is_sound() {
            Ok(bucket)
        } else {
            Err(Misread::Value)
        }
    }
}

/// Reads the IntServ message header: version 0, and the length of the rest in words.
pub(super) fn header(body: &mut Reader<'_>) -> Result<(), Misread> {
    let (version, words) = (body.u16()? >> 12, usize::from(body.u16()?));
    if version != 0 {
        return Err(Misread::Value);
    }
    if words * 4 == body.0.len() {
        Ok(())
    } else {
        Err(Misread::Length)
    }
}

/// Reads a per-service header and checks the length of its data; returns the service number.
fn service(body: &mut Reader<'_>) -> Result<u8, Misread> {
    let (service, _flags, words) = (body.u8()?, body.u8()?, usize::from(body.u16()?));
    if words * 4 == body.0.len() {
        Ok(service)
    } else {
        Err(Misread::Length)
    }
}

fn parameter(body: &mut Reader<'_>, id: u8, words: u16) -> Result<(), Misread> {
    let (found, _flags, length) = (body.u8()?, body.u8()?, body.u16()?);
    if found == id && length == words {
        Ok(())
    } else {
        Err(Misread::Value)
    }
}

/// Writes a header word: number, flags, and length in words.
pub(super) fn head(number: u8, flags: u8, words: u16, out: &mut Vec<u8>) {
    out.extend([number, flags]);
    out.extend(words.to_be_bytes());
}

impl Object for TokenBucket {
    fn c_type(&self) -> u8 {
        2
    }

    fn write(&self, out: &mut Vec<u8>) {
        head(0, 0, 7, out);
        head(GENERAL, 0, 6, out);
        head(TOKEN_BUCKET, 0, 5, out);
        Self::write(self, out);
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        if c_type != 2 {
            return Err(Misread::CType);
        }
        header(body)?;
        if service(body)? != GENERAL {
            return Err(Misread::Value);
        }
        Self::read(body)
    }
}

/// FLOWSPEC: the service that a receiver requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flowspec {
    /// Controlled load: service as on an unloaded network (RFC 2211).
    ControlledLoad(TokenBucket),
    /// Guaranteed service: a bound on the queueing delay (RFC 2212).
    Guaranteed {
        /// The receiver Tspec.
        bucket: TokenBucket,
        /// R: the reserved rate, in bytes per second; at least r.
        rate: Real,
        /// S: the slack term, in microseconds, which routers may use up.
        slack: u32,
    },
}

impl Flowspec {
    /// The receiver Tspec.
    pub const fn bucket(&self) -> &TokenBucket {
        match self {
            Self::ControlledLoad(bucket) | Self::Guaranteed { bucket, .. } => bucket,
        }
    }
}

impl Object for Flowspec {
    fn c_type(&self) -> u8 {
        2
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (number, words) = match self {
            Self::ControlledLoad(_) => (CONTROLLED_LOAD, 6),
            Self::Guaranteed { .. } => (GUARANTEED, 9),
        };
        head(0, 0, words + 1, out);
        head(number, 0, words, out);
        head(TOKEN_BUCKET, 0, 5, out);
        self.bucket().write(out);
        if let Self::Guaranteed { rate, slack, .. } = self {
            head(RSPEC, 0, 2, out);
            out.extend(rate.bits().to_be_bytes());
            out.extend(slack.to_be_bytes());
        }
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        if c_type != 2 {
            return Err(Misread::CType);
        }
        header(body)?;
        match service(body)? {
            CONTROLLED_LOAD => TokenBucket::read(body).map(Self::ControlledLoad),
            GUARANTEED => {
                let bucket = TokenBucket::read(body)?;
                parameter(body, RSPEC, 2)?;
                let (rate, slack) = (real(body)?, body.u32()?);
                if rate.is_finite() && rate >= bucket.rate {
                    Ok(Self::Guaranteed { bucket, rate, slack })
                } else {
                    Err(Misread::Value)
                }
            }
            _ => Err(Misread::Service),
        }
    }
}

/// IntServ contents: decoded, or kept undecoded so that an error message can return them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content<T> {
    /// Decoded and valid.
    Known(T),
    /// Invalid or unknown; an error is reported.
    Raw {
        /// The C-Type.
        c_type: u8,
        /// The contents, in whole words.
        data: Vec<u8>,
    },
}

impl<T> Content<T> {
    /// The decoded contents.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(content) => Some(content),
            Self::Raw { .. } => None,
        }
    }
}

impl<T: Object> Object for Content<T> {
    fn c_type(&self) -> u8 {
        match self {
            Self::Known(content) => content.c_type(),
            Self::Raw { c_type, .. } => *c_type,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Known(content) => content.write(out),
            Self::Raw { data, .. } => out.extend(data),
        }
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        T::read(c_type, body).map(Self::Known)
    }
}
