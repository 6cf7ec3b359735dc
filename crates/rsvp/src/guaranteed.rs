//! Guaranteed service as arithmetic: the delay that a rate gives, the rate that a delay needs, and what slack is worth.
//!
//! Follows RFC 2212. A path exports C and D, summed over its nodes; a flow with token bucket (r, b, p, M) and reserved
//! rate R is queued end to end for at most
//!
//! - (b − M)/R × (p − R)/(p − r) + (M + C)/R + D while r ≤ R < p,
//! - (M + C)/R + D while R ≥ p.
//!
//! All results are on the safe side: a delay is rounded up, a rate that is to be reserved up, slack that is left down.
//! A bucket smaller than the largest packet counts as that packet.

use crate::traffic_control::ErrorTerms;
use crate::wire::{Adspec, Real, TokenBucket};
use engine::units::Duration;

const MICROS: f64 = 1e6;

/// The numbers of a bucket: r, b, p and M. All but p are finite.
fn parts(bucket: &TokenBucket) -> (f64, f64, f64, f64) {
    let largest = f64::from(bucket.maximum);
    let depth = f64::from(bucket.bucket.get()).max(largest);
    let (rate, peak) = (f64::from(bucket.rate.get()), f64::from(bucket.peak.get()));
    (rate, depth, peak, largest)
}

/// Seconds that the burst above one packet takes, at this rate.
fn burst(bucket: &TokenBucket, rate: f64) -> f64 {
    let (r, depth, peak, largest) = parts(bucket);
    if rate >= peak {
        0.0
    } else if peak.is_infinite() {
        (depth - largest) / rate
    } else {
        (depth - largest) / rate * ((peak - rate) / (peak - r))
    }
}

/// The longest that a packet is queued on a path with these error terms when this rate is reserved, rounded up. None
/// where there is no bound: the rate is zero, or below that of the bucket.
pub fn delay(bucket: &TokenBucket, rate: Real, path: ErrorTerms) -> Option<Duration> {
    if !bucket.is_sound() || rate < bucket.rate || rate == Real::ZERO {
        return None;
    }
    let r = f64::from(rate.get());
    let dependent = (f64::from(bucket.maximum) + f64::from(path.rate_dependent)) / r;
    let seconds = burst(bucket, r) + dependent + f64::from(path.rate_independent) / MICROS;
    // A dozen roundings of 2⁻⁵³ each are far below these.
    let nanos = (seconds * 1e9 * (1.0 + 1e-14)).ceil();
    // Conversion saturates.
    Some(Duration::from_nanos(nanos as u64))
}

/// The least rate that keeps this delay on a path with these error terms. None where no rate does: the delay is D or
/// shorter.
pub fn rate_for(bucket: &TokenBucket, wanted: Duration, path: ErrorTerms) -> Option<Real> {
    let (r, depth, peak, largest) = parts(bucket);
    let left = wanted.nanos() as f64 / 1e9 - f64::from(path.rate_independent) / MICROS;
    if !bucket.is_sound() || left <= 0.0 {
        return None;
    }
    let packet = largest + f64::from(path.rate_dependent);
    // With the peak above the rate, and with the peak at or below it.
    let bursting = if peak.is_infinite() {
        (depth - largest + packet) / left
    } else if peak > r {
        let span = (depth - largest) / (peak - r);
        (span * peak + packet) / (left + span)
    } else {
        f64::INFINITY
    };
    let rate = if bursting < peak {
        bursting
    } else {
        (packet / left).max(peak.min(f64::from(f32::MAX)))
    };
    let mut rate = Real::at_least(rate)?.max(bucket.rate);
    // The formula is exact but for its roundings: a step or two make up for them.
    for _ in 0..8 {
        if rate.is_finite() && delay(bucket, rate, path).is_some_and(|delay| delay <= wanted) {
            return Some(rate);
        }
        rate = Real::from_bits(rate.bits() + 1)?;
    }
    None
}

/// What is left of a slack when a node reserves less than it was asked for, rounded down (RFC 2212, "Ordering and
/// Merging"): S_out + b/R_out + C/R_out ≤ S_in + b/R_in + C/R_in, with the C of this node and those before it. None
/// where the slack does not suffice, or `less` is not from r to R_in.
pub fn slack_left(
    bucket: &TokenBucket,
    (asked, slack): (Real, u32),
    less: Real,
    rate_dependent: u32,
) -> Option<u32> {
    if less > asked || less < bucket.rate || less == Real::ZERO {
        return None;
    }
    let (_, depth, ..) = parts(bucket);
    let bytes = depth + f64::from(rate_dependent);
    let (asked, less) = (f64::from(asked.get()), f64::from(less.get()));
    let longer = (bytes / less - bytes / asked) * MICROS;
    let left = f64::from(slack) - longer * (1.0 + 1e-12);
    (left >= 0.0).then_some(left as u32)
}

/// What a path exports for guaranteed service. None where a node on it does not offer it, or did not say.
pub fn exported(adspec: &Adspec) -> Option<ErrorTerms> {
    const GUARANTEED: u8 = 2;
    /// C and D over the whole path.
    const TOTAL: (u8, u8) = (133, 134);
    let fragment = adspec
        .fragments()
        .iter()
        .find(|fragment| fragment.service == GUARANTEED)
        .filter(|_| adspec.offers(GUARANTEED))?;
    let word = |id| {
        let parameter = fragment.parameters.iter().find(|parameter| parameter.id == id)?;
        match (parameter.flags & 0x80, parameter.words.as_slice()) {
            // All ones: more than can be said.
            (0, [word]) if *word != u32::MAX => Some(*word),
            _ => None,
        }
    };
    Some(ErrorTerms {
        rate_dependent: word(TOTAL.0)?,
        rate_independent: word(TOTAL.1)?,
    })
}
