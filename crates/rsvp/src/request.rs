//! What hosts ask for: the Tspec of a sender, and the flowspec with which a receiver answers it.

use crate::guaranteed;
use crate::traffic_control::ErrorTerms;
use crate::wire::{Adspec, ErrorCode, Flowspec, Real, TokenBucket, code, value};
use engine::units::{Bandwidth, Bytes, Duration};

/// What a sender sends, in bytes of IP datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SenderRequest {
    /// Its rate.
    pub rate: Bandwidth,
    /// Its bursts; none: 10 ms at the rate, at least two full packets.
    pub burst: Option<Bytes>,
    /// Its shortest packet, which determines the overhead of link headers.
    pub packet: u32,
}

impl SenderRequest {
    /// The Tspec, on a link with this MTU.
    pub fn tspec(&self, mtu: u32) -> TokenBucket {
        const TEN_MS: u64 = 100;
        let rate = self.rate.bits().div_ceil(8);
        let least = 2 * u64::from(mtu);
        let burst = match self.burst {
            None => (rate / TEN_MS).max(least),
            Some(burst) => burst.get().max(mtu.into()),
        };
        TokenBucket {
            rate: Real::nearest(rate),
            bucket: Real::nearest(burst),
            peak: Real::INFINITE,
            minimum: self.packet.clamp(20, mtu),
            maximum: mtu,
        }
    }
}

/// The flowspec to request for this Tspec over a path with this ADSPEC: controlled load, or for a
/// delay guaranteed service at the rate that keeps to it.
///
/// # Errors
/// The error to return to the sender: the path does not offer the service, or cannot keep to the
/// delay.
pub fn flowspec(
    tspec: &TokenBucket,
    adspec: Option<&Adspec>,
    delay: Option<Duration>,
) -> Result<Flowspec, ErrorCode> {
    let mtu = adspec.and_then(Adspec::mtu).unwrap_or(u32::MAX);
    let bucket = TokenBucket {
        maximum: tspec.maximum.min(mtu),
        minimum: tspec.minimum.min(mtu),
        ..*tspec
    };
    let Some(delay) = delay else {
        return Ok(Flowspec::ControlledLoad(bucket));
    };
    let unsupported = ErrorCode::new(code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED);
    let path: ErrorTerms = adspec.and_then(guaranteed::exported).ok_or(unsupported)?;
    let rate = guaranteed::rate_for(&bucket, delay, path);
    Ok(Flowspec::Guaranteed {
        bucket,
        rate: rate.ok_or(ErrorCode::new(code::ADMISSION, value::DELAY))?,
        slack: 0,
    })
}

/// The bound on the delay in the queues of a path with this ADSPEC, for what is requested there;
/// none of controlled load, or where the path does not tell its terms.
pub fn bound(flowspec: &Flowspec, adspec: Option<&Adspec>) -> Option<Duration> {
    let Flowspec::Guaranteed { bucket, rate, .. } = flowspec else {
        return None;
    };
    guaranteed::delay(bucket, *rate, guaranteed::exported(adspec?)?)
}
