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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic_control::Advertised;

    fn request(rate: u64, burst: Option<u64>, packet: u32) -> SenderRequest {
        SenderRequest {
            rate: Bandwidth::bits_per_sec(rate),
            burst: burst.map(Bytes::new),
            packet,
        }
    }

    #[test]
    fn a_burst_is_ten_ms_at_the_rate_and_at_least_two_full_packets_unless_it_is_given() {
        for (rate, burst, depth) in [
            (2_400_000, None, 3_000),
            (2_400_800, None, 3_001),
            (80_000_000, None, 100_000),
            (0, None, 3_000),
            (80_000_000, Some(20_000), 20_000),
            (80_000_000, Some(1_500), 1_500),
            (80_000_000, Some(1_499), 1_500),
        ] {
            let tspec = request(rate, burst, 64).tspec(1_500);
            assert_eq!(tspec.bucket, Real::nearest(depth), "{rate} {burst:?}");
            assert_eq!(tspec.rate, Real::nearest(rate.div_ceil(8)));
            assert_eq!((tspec.peak, tspec.maximum), (Real::INFINITE, 1_500));
        }
        assert_eq!(request(9, None, 64).tspec(1_500).rate, Real::nearest(2));
        for (packet, minimum) in [
            (0, 20),
            (19, 20),
            (20, 20),
            (21, 21),
            (1_500, 1_500),
            (1_501, 1_500),
        ] {
            assert_eq!(request(8_000, None, packet).tspec(1_500).minimum, minimum);
        }
    }

    /// A path of this MTU and these error terms.
    fn adspec(mtu: u32, guaranteed: Option<ErrorTerms>) -> Adspec {
        let mut adspec = Adspec::at_sender(Real::INFINITE, 0, 9_000);
        adspec.cross(&Advertised {
            bandwidth: Real::INFINITE,
            latency: 0,
            mtu,
            controlled_load: true,
            guaranteed,
        });
        adspec
    }

    const TERMS: ErrorTerms = ErrorTerms {
        rate_dependent: 1_500,
        rate_independent: 2_000,
    };

    #[test]
    fn packets_beyond_the_mtu_of_the_path_are_not_requested() {
        let tspec = request(8_000_000, Some(10_000), 1_200).tspec(1_500);
        for (mtu, minimum, maximum) in [
            (1_000, 1_000, 1_000),
            (1_300, 1_200, 1_300),
            (9_000, 1_200, 1_500),
        ] {
            let expected = TokenBucket {
                minimum,
                maximum,
                ..tspec
            };
            let found = flowspec(&tspec, Some(&adspec(mtu, None)), None);
            assert_eq!(found, Ok(Flowspec::ControlledLoad(expected)));
        }
        assert_eq!(flowspec(&tspec, None, None), Ok(Flowspec::ControlledLoad(tspec)));
    }

    #[test]
    fn the_bound_of_what_is_requested_for_a_delay_is_that_delay() {
        let tspec = request(8_000_000, Some(10_000), 64).tspec(1_500);
        let path = adspec(1_500, Some(TERMS));
        let wanted = Duration::from_millis(7);
        let asked = flowspec(&tspec, Some(&path), Some(wanted)).expect("it can be had");
        // 11,500 B in the 5 ms that the path leaves.
        let Flowspec::Guaranteed { bucket, rate, slack } = asked else {
            panic!("{asked:?}");
        };
        assert_eq!((bucket, slack), (tspec, 0));
        assert!((2_300_000.0..2_300_001.0).contains(&rate.get()), "{rate:?}");
        let bound = bound(&asked, Some(&path)).expect("a bound");
        assert!(
            bound <= wanted && bound.nanos() + 1_000 >= wanted.nanos(),
            "{bound:?}"
        );
    }

    #[test]
    fn there_is_no_bound_of_controlled_load_or_without_the_terms_of_the_path() {
        let tspec = request(8_000_000, Some(10_000), 64).tspec(1_500);
        let asked = Flowspec::Guaranteed {
            bucket: tspec,
            rate: tspec.rate,
            slack: 0,
        };
        let (known, unknown) = (adspec(1_500, Some(TERMS)), adspec(1_500, None));
        assert!(bound(&asked, Some(&known)).is_some());
        assert_eq!(bound(&asked, Some(&unknown)), None);
        assert_eq!(bound(&asked, None), None);
        assert_eq!(bound(&Flowspec::ControlledLoad(tspec), Some(&known)), None);
    }

    #[test]
    fn a_delay_that_cannot_be_had_and_a_service_that_is_not_offered_are_different_errors() {
        let tspec = request(8_000_000, Some(10_000), 64).tspec(1_500);
        let ask = |adspec: Option<&Adspec>, micros| {
            flowspec(&tspec, adspec, Some(Duration::from_micros(micros))).map(|_| ())
        };
        let known = adspec(1_500, Some(TERMS));
        let unsupported = Err(ErrorCode::new(code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED));
        assert_eq!(ask(Some(&adspec(1_500, None)), 9_000), unsupported);
        assert_eq!(ask(None, 9_000), unsupported);
        assert_eq!(
            ask(Some(&known), 2_000),
            Err(ErrorCode::new(code::ADMISSION, value::DELAY))
        );
        assert_eq!(ask(Some(&known), 2_001), Ok(()));
    }
}
