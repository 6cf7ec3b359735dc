//! RFC 2212: delay, rate and slack.

use crate::arbitrary::bucket;
use engine::units::Duration;
use proptest::prelude::*;
use rsvp::guaranteed::{delay, exported, rate_for, since_reshaping, slack_left};
use rsvp::traffic_control::{Advertised, ErrorTerms};
use rsvp::wire::{Adspec, Real, TokenBucket};

fn terms() -> impl Strategy<Value = ErrorTerms> {
    (0u32..100_000, 0u32..1_000_000).prop_map(|(rate_dependent, rate_independent)| ErrorTerms {
        rate_dependent,
        rate_independent,
    })
}

/// Realistic traffic: 1 kB/s to 1 GB/s.
fn traffic() -> impl Strategy<Value = TokenBucket> {
    let peak = prop_oneof![(1u64..100).prop_map(Some), Just(None)];
    (1_000u64..1_000_000_000, 1u64..10_000_000, peak, 64u32..9000).prop_map(
        |(rate, depth, times, maximum)| TokenBucket {
            rate: Real::nearest(rate),
            bucket: Real::nearest(depth),
            peak: times.map_or(Real::INFINITE, |times| Real::nearest(rate * times)),
            minimum: 64,
            maximum,
        },
    )
}

fn next(rate: Real, steps: i64) -> Option<Real> {
    let bits = i64::from(rate.bits()) + steps;
    u32::try_from(bits).ok().and_then(Real::from_bits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_rate_for_a_delay_meets_it_and_a_slightly_lower_rate_does_not(
        bucket in traffic(),
        path in terms(),
        micros in 1u64..10_000_000,
    ) {
        let wanted = Duration::from_micros(micros);
        match rate_for(&bucket, wanted, path) {
            None => prop_assert!(micros <= u64::from(path.rate_independent), "{micros} {path:?}"),
            Some(rate) => {
                prop_assert!(rate >= bucket.rate);
                prop_assert!(delay(&bucket, rate, path).expect("a bound") <= wanted);
                if let Some(less) = next(rate, -16).filter(|less| *less >= bucket.rate) {
                    let longer = delay(&bucket, less, path).expect("a bound");
                    // Bounds are whole nanoseconds, so two rates may have the same bound.
                    prop_assert!(longer >= wanted || wanted.nanos() - longer.nanos() <= 2, "{longer:?} {wanted:?}");
                }
            }
        }
    }

    #[test]
    fn more_rate_is_never_more_delay(bucket in traffic(), path in terms(), times in 1u64..1000, more in 1u64..1000) {
        let rate = |times| Real::nearest(bucket.rate.ceil() * times).max(bucket.rate);
        let (slow, fast) = (delay(&bucket, rate(times), path), delay(&bucket, rate(times + more), path));
        prop_assert!(fast.expect("a bound") <= slow.expect("a bound"));
    }

    #[test]
    fn consumed_slack_is_added_delay(
        bucket in traffic(),
        path in terms(),
        times in 2u64..50,
        slack in 0u32..10_000_000,
    ) {
        let unpaced = TokenBucket { peak: Real::INFINITE, ..bucket };
        let requested = Real::nearest(bucket.rate.ceil() * times);
        let less = Real::nearest(bucket.rate.ceil() * (times - 1)).max(bucket.rate);
        let before = delay(&unpaced, requested, path).expect("a bound").nanos() + u64::from(slack) * 1000;
        let after = delay(&unpaced, less, path).expect("a bound").nanos();
        match slack_left(&bucket, (requested, slack), less, path.rate_dependent) {
            // Each bound is rounded by up to a nanosecond.
            Some(left) => prop_assert!(after + u64::from(left) * 1000 <= before + 2),
            None => prop_assert!(after + 2 >= before),
        }
    }

    #[test]
    fn no_wire_numbers_give_an_invalid_bound(bucket in bucket(), path in terms(), nanos: u64) {
        let wanted = Duration::from_nanos(nanos);
        if let Some(rate) = rate_for(&bucket, wanted, path) {
            prop_assert!(rate.is_finite() && rate >= bucket.rate);
            prop_assert!(delay(&bucket, rate, path).expect("a bound") <= wanted);
        }
    }
}

#[test]
fn rfc_2212_the_delay_computed_by_hand() {
    let bucket = TokenBucket {
        rate: Real::nearest(1000),
        bucket: Real::nearest(5000),
        peak: Real::nearest(4000),
        minimum: 64,
        maximum: 1000,
    };
    let path = ErrorTerms {
        rate_dependent: 3000,
        rate_independent: 250_000,
    };
    // 4000/2000 × 2000/3000 + 4000/2000 + 0.25 = 3.58333… s.
    let at = delay(&bucket, Real::nearest(2000), path)
        .expect("a bound")
        .nanos();
    assert!((3_583_333_334..3_583_333_336).contains(&at), "{at}");
    // 4000/8000 + 0.25 s.
    let fast = delay(&bucket, Real::nearest(8000), path)
        .expect("a bound")
        .nanos();
    assert!((750_000_000..=750_000_001).contains(&fast), "{fast}");
    assert_eq!(delay(&bucket, Real::nearest(999), path), None);
    assert_eq!(rate_for(&bucket, Duration::from_millis(250), path), None);
    // 6 ms of slack at 1 MB/s: (5000 + 3000) bytes take 8 ms, at 800 kB/s 10 ms.
    let of = |rate| Real::nearest(rate);
    assert_eq!(
        slack_left(&bucket, (of(1_000_000), 6000), of(800_000), 3000),
        Some(3999)
    );
    assert_eq!(
        slack_left(&bucket, (of(1_000_000), 1999), of(800_000), 3000),
        None
    );
    assert_eq!(
        slack_left(&bucket, (of(1_000_000), 6000), of(2_000_000), 3000),
        None
    );
    assert_eq!(
        slack_left(&bucket, (of(1_000_000), u32::MAX), of(999), 3000),
        None
    );
}

#[test]
fn a_path_exports_sums_and_nothing_if_a_node_does_not_offer_the_service() {
    let mut adspec = Adspec::at_sender(Real::INFINITE, 0, u32::MAX);
    let link = |guaranteed| Advertised {
        bandwidth: Real::nearest(1_000_000),
        latency: 10,
        mtu: 1500,
        controlled_load: true,
        guaranteed,
    };
    for hop in 1..=3 {
        adspec.cross(&link(Some(ErrorTerms {
            rate_dependent: 1500,
            rate_independent: 100 * hop,
        })));
    }
    let sum = ErrorTerms {
        rate_dependent: 4500,
        rate_independent: 600,
    };
    assert_eq!(exported(&adspec), Some(sum));
    adspec.cross(&link(None));
    assert_eq!(exported(&adspec), None);
}

#[test]
fn a_bound_is_the_next_whole_nanosecond_also_above_a_whole_one() {
    let bucket = TokenBucket {
        rate: Real::nearest(1000),
        bucket: Real::nearest(5000),
        peak: Real::INFINITE,
        minimum: 64,
        maximum: 1000,
    };
    let path = ErrorTerms {
        rate_dependent: 3000,
        rate_independent: 250_000,
    };
    // 8000 B at the rate, and 250 ms.
    for (rate, nanos) in [
        (1000, 8_250_000_001),
        (4000, 2_250_000_001),
        (7000, 1_392_857_143),
        (9000, 1_138_888_889),
        (1_000_000, 258_000_001),
    ] {
        let bound = delay(&bucket, Real::nearest(rate), path);
        assert_eq!(bound, Some(Duration::from_nanos(nanos)), "{rate}");
    }
}

#[test]
fn no_rate_suffices_for_a_delay_that_the_path_has_without_queues() {
    let empty = TokenBucket {
        rate: Real::ZERO,
        bucket: Real::ZERO,
        peak: Real::INFINITE,
        minimum: 0,
        maximum: 0,
    };
    let none = ErrorTerms::default();
    assert_eq!(rate_for(&empty, Duration::ZERO, none), None);
    let unsound = TokenBucket { minimum: 1, ..empty };
    assert_eq!(rate_for(&unsound, Duration::from_millis(1), none), None);
    assert_eq!(delay(&unsound, Real::nearest(1), none), None);
    let path = ErrorTerms {
        rate_dependent: 0,
        rate_independent: 1000,
    };
    let one = TokenBucket {
        bucket: Real::nearest(1000),
        maximum: 1000,
        ..empty
    };
    for (micros, found) in [(999, false), (1000, false), (1001, true), (2000, true)] {
        let rate = rate_for(&one, Duration::from_micros(micros), path);
        assert_eq!(rate.is_some(), found, "{micros}");
    }
    let rate = rate_for(&one, Duration::from_millis(2), path).expect("a rate");
    assert!((1_000_000.0..1_000_001.0).contains(&rate.get()), "{rate:?}");
}

#[test]
fn the_whole_slack_is_left_where_no_less_is_reserved_than_requested() {
    let bucket = TokenBucket {
        rate: Real::nearest(1000),
        bucket: Real::nearest(5000),
        peak: Real::INFINITE,
        minimum: 64,
        maximum: 1000,
    };
    let of = Real::nearest;
    for slack in [0, 1, 77, u32::MAX] {
        assert_eq!(
            slack_left(&bucket, (of(2000), slack), of(2000), 3000),
            Some(slack)
        );
    }
    // At r itself: 8000 B take 8 s instead of 4.
    assert_eq!(
        slack_left(&bucket, (of(2000), 4_000_001), of(1000), 3000),
        Some(0)
    );
    assert_eq!(slack_left(&bucket, (of(2000), 3_999_999), of(1000), 3000), None);
    let idle = TokenBucket {
        rate: Real::ZERO,
        ..bucket
    };
    assert_eq!(slack_left(&idle, (of(2000), u32::MAX), Real::ZERO, 3000), None);
}

#[test]
fn rfc_2212_terms_that_have_overflowed_or_are_marked_invalid_are_unknown() {
    let crossed = |rate_dependent, rate_independent| {
        let mut adspec = Adspec::at_sender(Real::INFINITE, 0, 1500);
        adspec.cross(&Advertised {
            bandwidth: Real::INFINITE,
            latency: 0,
            mtu: 1500,
            controlled_load: true,
            guaranteed: Some(ErrorTerms {
                rate_dependent,
                rate_independent,
            }),
        });
        adspec
    };
    let most = u32::MAX - 1;
    let largest = ErrorTerms {
        rate_dependent: most,
        rate_independent: most,
    };
    assert_eq!(exported(&crossed(most, most)), Some(largest));
    assert_eq!(since_reshaping(&crossed(most, most)), Some(largest));
    for overflowed in [crossed(u32::MAX, 0), crossed(0, u32::MAX)] {
        assert_eq!(
            (exported(&overflowed), since_reshaping(&overflowed)),
            (None, None)
        );
    }
    for (flagged, both) in [(133, (true, false)), (136, (false, true))] {
        let mut fragments = crossed(1, 2).fragments().to_vec();
        let parameters = fragments.iter_mut().flat_map(|fragment| &mut fragment.parameters);
        for parameter in parameters.filter(|parameter| parameter.id == flagged) {
            parameter.flags = 0x80;
        }
        let adspec = Adspec::new(fragments).expect("the general fragment is first");
        let unknown = (exported(&adspec).is_none(), since_reshaping(&adspec).is_none());
        assert_eq!(unknown, both);
    }
}
