//! The arithmetic of flowspecs: ordering, LUB and GLB.
//!
//! Follows the sections "Ordering and Merging" of RFC 2211 and RFC 2212. A merged Tspec takes the
//! largest rates and bucket, and the *smallest* m and M: a packet larger than the MTU of one path
//! is best effort for all. In M it differs from the "least common" Tspec.
//!
//! Sums are rounded up; nothing else is rounded. Requests for different services are not merged
//! (error 21/1, service conflict), although RFC 2205 would allow it.

use crate::wire::{Flowspec, Real, TokenBucket};

/// Requests for different services meet: traffic control error, service conflict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceConflict;

/// The largest finite number: the limit of sums.
const MOST: Real = match Real::from_bits(Real::INFINITE.bits() - 1) {
    Some(most) => most,
    None => Real::INFINITE,
};

impl TokenBucket {
    /// Whether this is a substitute for `other`: traffic that conforms to `other` conforms to this.
    pub fn substitutes(&self, other: &Self) -> bool {
        self.rate >= other.rate
            && self.bucket >= other.bucket
            && self.peak >= other.peak
            && self.minimum <= other.minimum
            && self.maximum >= other.maximum
    }

    /// The merged Tspec: the LUB for requests towards senders.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        Self {
            maximum: self.maximum.min(other.maximum),
            ..self.least_common(other)
        }
    }

    /// The least common Tspec: describes either flow. As [`TokenBucket::merged`], with the larger
    /// M.
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

    /// The sum: describes both flows together.
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

    /// The minimum: the smaller one where they are ordered, else component by component; but the
    /// larger bucket, without which the smaller rate would drop the other's bursts.
    #[must_use]
    pub fn minimum(&self, other: &Self) -> Self {
        if self.substitutes(other) {
            *other
        } else if other.substitutes(self) {
            *self
        } else {
            self.component_minimum(other)
        }
    }

    fn component_minimum(&self, other: &Self) -> Self {
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
    /// Whether this is a substitute for `other`: it provides at least what `other` requests. Equal
    /// flowspecs substitute each other.
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

    /// The LUB of flowspecs, for the previous hops and for traffic control. Guaranteed service
    /// takes the largest R and the smallest S. `None` of none.
    ///
    /// # Errors
    ///
    /// If the flowspecs are for different services.
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

    /// The GLB of flowspecs, for when all requests are blockaded: the one that all others
    /// substitute, or else the minimum component by component. Does not depend on the order. `None`
    /// of none.
    ///
    /// # Errors
    ///
    /// If the flowspecs are for different services.
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
            so_far.together(next, TokenBucket::component_minimum, Real::min, u32::max)
        })?;
        let smallest = all
            .clone()
            .find(|one| all.clone().all(|other| other.substitutes(one)));
        Ok(Some(smallest.copied().unwrap_or(parts)))
    }

    /// The effective flowspec: the request limited by the senders' Tspec `path` (RFC 2209, section
    /// 2). R of guaranteed service is the receiver's choice, and stays.
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
