//! Arithmetic of what is asked for: which request is more, what serves several, what serves none too much.
//!
//! Follows the sections "Ordering and Merging" of RFC 2211 and RFC 2212. A merged request takes what is largest of
//! rates and bucket, and the *smallest* of both packet sizes: a packet that is larger than the MTU of one of the paths
//! is best effort for all. That is what tells "merged" from "least common" there.
//!
//! Rounding is always up, towards more being asked for; where nothing is added nothing is rounded. Requests of
//! different services are not merged (error 21/1, service conflict), though RFC 2205 would allow it.

use crate::wire::{Flowspec, Real, TokenBucket};

/// Requests of different services meet: traffic control error, service conflict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceConflict;

/// The largest finite number: a rate that is summed up may come here and no further.
const MOST: Real = match Real::from_bits(Real::INFINITE.bits() - 1) {
    Some(most) => most,
    None => Real::INFINITE,
};

impl TokenBucket {
    /// Whether traffic that is within `other` is within this: as much rate, bucket and peak, as small and as large packets.
    pub fn substitutes(&self, other: &Self) -> bool {
        self.rate >= other.rate
            && self.bucket >= other.bucket
            && self.peak >= other.peak
            && self.minimum <= other.minimum
            && self.maximum >= other.maximum
    }

    /// What is asked of a path that serves both, one at a time: the LUB of merging towards senders.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        Self {
            maximum: self.maximum.min(other.maximum),
            ..self.least_common(other)
        }
    }

    /// What describes any one of both: as [`TokenBucket::merged`], with the larger of the largest packets.
    #[must_use]
    pub fn least_common(&self, other: &Self) -> Self {
        Self {
            rate: self.rate.max(other.rate),
            bucket: self.bucket.max(other.bucket),
            peak: self.peak.max(other.peak),
            minimum: self.minimum.min(other.minimum),
            maximum: self.maximum.max(other.maximum),
        }
    }

    /// What describes both at the same time.
    #[must_use]
    pub fn sum(&self, other: &Self) -> Self {
        Self {
            rate: self.rate.plus(other.rate).min(MOST),
            bucket: self.bucket.plus(other.bucket).min(MOST),
            peak: self.peak.plus(other.peak),
            minimum: self.minimum.min(other.minimum),
            maximum: self.maximum.max(other.maximum),
        }
    }

    /// What neither exceeds: the smaller one where one is smaller, else part by part; but the larger bucket, without
    /// which the smaller rate would lose the other's bursts.
    #[must_use]
    pub fn minimum(&self, other: &Self) -> Self {
        if self.substitutes(other) {
            *other
        } else if other.substitutes(self) {
            *self
        } else {
            self.parts_minimum(other)
        }
    }

    fn parts_minimum(&self, other: &Self) -> Self {
        Self {
            rate: self.rate.min(other.rate),
            bucket: self.bucket.max(other.bucket),
            peak: self.peak.min(other.peak),
            minimum: self.minimum.min(other.minimum),
            maximum: self.maximum.min(other.maximum),
        }
    }
}

impl Flowspec {
    /// Whether whoever gets this has what `other` asks for. Equal requests substitute each other; "strictly more" is
    /// this and not equal.
    pub fn substitutes(&self, other: &Self) -> bool {
        let service = match (self, other) {
            (Self::ControlledLoad(_), Self::ControlledLoad(_)) => true,
            (
                Self::Guaranteed { rate, slack, .. },
                Self::Guaranteed {
                    rate: wanted,
                    slack: given,
                    ..
                },
            ) => rate >= wanted && slack <= given,
            _ => false,
        };
        service && self.bucket().substitutes(other.bucket())
    }

    /// One request for all of these (LUB): what goes on towards senders, and what traffic control is asked for. In
    /// guaranteed service it has the largest rate and the smallest slack. `None` of none.
    pub fn merged<'a>(requests: impl IntoIterator<Item = &'a Self>) -> Result<Option<Self>, ServiceConflict> {
        let mut requests = requests.into_iter();
        let Some(first) = requests.next() else {
            return Ok(None);
        };
        let all = requests.try_fold(*first, |so_far, next| {
            so_far.together(next, TokenBucket::merged, Real::max, u32::min)
        })?;
        Ok(Some(all))
    }

    /// The least of these (GLB), for senders all of whose requests are blockaded: one that all others substitute, or
    /// else the least part by part. It does not depend on the order. `None` of none.
    pub fn glb<'a, I>(requests: I) -> Result<Option<Self>, ServiceConflict>
    where
        I: IntoIterator<Item = &'a Self>,
        I::IntoIter: Clone,
    {
        let mut requests = requests.into_iter();
        let all = requests.clone();
        let Some(first) = requests.next() else {
            return Ok(None);
        };
        let parts = requests.try_fold(*first, |so_far, next| {
            so_far.together(next, TokenBucket::parts_minimum, Real::min, u32::max)
        })?;
        let smallest = all
            .clone()
            .find(|one| all.clone().all(|other| other.substitutes(one)));
        Ok(Some(smallest.copied().unwrap_or(parts)))
    }

    /// What traffic control has to keep for this request when the senders say that they send no more than `path`: the
    /// "effective flowspec" (RFC 2209, section 2). The rate of guaranteed service is the receiver's, and stays.
    #[must_use]
    pub fn effective(&self, path: &TokenBucket) -> Self {
        match *self {
            Self::ControlledLoad(bucket) => Self::ControlledLoad(bucket.minimum(path)),
            Self::Guaranteed { bucket, rate, slack } => Self::Guaranteed {
                bucket: bucket.minimum(path),
                rate,
                slack,
            },
        }
    }

    fn together(
        &self,
        other: &Self,
        buckets: impl Fn(&TokenBucket, &TokenBucket) -> TokenBucket,
        rates: impl Fn(Real, Real) -> Real,
        slacks: impl Fn(u32, u32) -> u32,
    ) -> Result<Self, ServiceConflict> {
        match (self, other) {
            (Self::ControlledLoad(a), Self::ControlledLoad(b)) => Ok(Self::ControlledLoad(buckets(a, b))),
            (
                Self::Guaranteed { bucket, rate, slack },
                Self::Guaranteed {
                    bucket: other,
                    rate: other_rate,
                    slack: other_slack,
                },
            ) => Ok(Self::Guaranteed {
                bucket: buckets(bucket, other),
                rate: rates(*rate, *other_rate),
                slack: slacks(*slack, *other_slack),
            }),
            _ => Err(ServiceConflict),
        }
    }
}
