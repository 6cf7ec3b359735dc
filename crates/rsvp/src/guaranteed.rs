//! The arithmetic of guaranteed service: the delay bound of a rate, the rate for a delay, and the
//! slack term.
//!
//! Follows RFC 2212. A path exports Ctot and Dtot, summed over its hops. The end-to-end queueing
//! delay of a flow with token bucket (r, b, p, M) and reserved rate R is at most
//!
//! - (b − M)/R × (p − R)/(p − r) + (M + C)/R + D while r ≤ R < p,
//! - (M + C)/R + D while R ≥ p.
//!
//! Delays and rates are rounded up, remaining slack is rounded down. A bucket smaller than M counts
//! as M.

use crate::traffic_control::ErrorTerms;
use crate::wire::{Adspec, Real, TokenBucket};
use engine::units::Duration;

const MICROS: f64 = 1e6;

/// r, b, p and M of a token bucket. All but p are finite.
fn parts(bucket: &TokenBucket) -> (f64, f64, f64, f64) {
    let largest = f64::from(bucket.maximum);
    let depth = f64::from(bucket.bucket.get()).max(largest);
    let (rate, peak) = (f64::from(bucket.rate.get()), f64::from(bucket.peak.get()));
    (rate, depth, peak, largest)
}

/// The delay of the burst beyond one packet, in seconds, at this rate.
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

/// The bound on the queueing delay over a path with these error terms at this reserved rate,
/// rounded up; at the greatest rate that can be had, the shortest delay that can. None where there
/// is no bound: the rate is zero, or below r.
pub fn delay(bucket: &TokenBucket, rate: Real, path: ErrorTerms) -> Option<Duration> {
    if !bucket.is_sound() || rate < bucket.rate || rate == Real::ZERO {
        return None;
    }
    let r = f64::from(rate.get());
    let dependent = (f64::from(bucket.maximum) + f64::from(path.rate_dependent)) / r;
    let seconds = burst(bucket, r) + dependent + f64::from(path.rate_independent) / MICROS;
    // A dozen rounding errors of 2⁻⁵³ each are far below this margin.
    let nanos = (seconds * 1e9 * (1.0 + 1e-14)).ceil();
    // The conversion saturates.
    Some(Duration::from_nanos(nanos as u64))
}

/// The least rate whose delay bound over a path with these error terms is within `wanted`. None
/// where no rate suffices: `wanted` is at most D.
pub fn rate_for(bucket: &TokenBucket, wanted: Duration, path: ErrorTerms) -> Option<Real> {
    let (r, depth, peak, largest) = parts(bucket);
    let left = wanted.nanos() as f64 / 1e9 - f64::from(path.rate_independent) / MICROS;
    if !bucket.is_sound() || left <= 0.0 {
        return None;
    }
    let packet = largest + f64::from(path.rate_dependent);
    // First for R < p, then for R ≥ p.
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
    // The formula is exact except for rounding errors, which a step or two make up for.
    for _ in 0..8 {
        if rate.is_finite() && delay(bucket, rate, path).is_some_and(|delay| delay <= wanted) {
            return Some(rate);
        }
        rate = Real::from_bits(rate.bits() + 1)?;
    }
    None
}

/// The slack that remains when a node reserves `less` than requested, rounded down (RFC 2212,
/// "Ordering and Merging"): S_out + b/R_out + C/R_out ≤ S_in + b/R_in + C/R_in, with C summed up to
/// this node. None where the slack does not suffice, or `less` is not between r and R_in.
pub fn slack_left(
    bucket: &TokenBucket,
    (requested, slack): (Real, u32),
    less: Real,
    rate_dependent: u32,
) -> Option<u32> {
    if less > requested || less < bucket.rate || less == Real::ZERO {
        return None;
    }
    let (_, depth, ..) = parts(bucket);
    let bytes = depth + f64::from(rate_dependent);
    let (requested, less) = (f64::from(requested.get()), f64::from(less.get()));
    let longer = (bytes / less - bytes / requested) * MICROS;
    let left = f64::from(slack) - longer * (1.0 + 1e-12);
    (left >= 0.0).then_some(left as u32)
}

/// Ctot and Dtot that a path exports. None where some hop does not offer guaranteed service, or its
/// terms are unknown.
pub fn exported(adspec: &Adspec) -> Option<ErrorTerms> {
    terms(adspec, (133, 134))
}

/// Csum and Dsum: the terms of the hops since the packets were last reshaped, by which bursts have
/// grown. None as for [`exported`].
pub fn since_reshaping(adspec: &Adspec) -> Option<ErrorTerms> {
    terms(adspec, (135, 136))
}

/// The rate-dependent and the rate-independent term with these parameter numbers.
fn terms(adspec: &Adspec, ids: (u8, u8)) -> Option<ErrorTerms> {
    const GUARANTEED: u8 = 2;
    let fragment = adspec
        .fragments()
        .iter()
        .find(|fragment| fragment.service == GUARANTEED)
        .filter(|_| adspec.offers(GUARANTEED))?;
    let word = |id| {
        let parameter = fragment.parameters.iter().find(|parameter| parameter.id == id)?;
        match (parameter.flags & 0x80, parameter.words.as_slice()) {
            // All ones: the sum has overflowed.
            (0, [word]) if *word != u32::MAX => Some(*word),
            _ => None,
        }
    };
    Some(ErrorTerms {
        rate_dependent: word(ids.0)?,
        rate_independent: word(ids.1)?,
    })
}
