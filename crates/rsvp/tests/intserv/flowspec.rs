//! RFC 2211 and RFC 2212, "Ordering and Merging".

use crate::arbitrary::{bucket, flowspec, real};
use proptest::prelude::*;
use rsvp::flowspec::ServiceConflict;
use rsvp::wire::{Flowspec, Real, TokenBucket};

fn controlled() -> impl Strategy<Value = Flowspec> {
    bucket().prop_map(Flowspec::ControlledLoad)
}

/// Requests of one service.
fn alike() -> impl Strategy<Value = Vec<Flowspec>> {
    let guaranteed = || flowspec().prop_filter("guaranteed", |f| matches!(f, Flowspec::Guaranteed { .. }));
    prop_oneof![
        prop::collection::vec(controlled(), 1..6),
        prop::collection::vec(guaranteed(), 1..6),
    ]
}

fn sound(request: &Flowspec) -> bool {
    let rate = match request {
        Flowspec::ControlledLoad(_) => true,
        Flowspec::Guaranteed { bucket, rate, .. } => rate.is_finite() && *rate >= bucket.rate,
    };
    rate && request.bucket().is_sound()
}

/// The same without the maximum packet size, where a merged request is not more but less.
fn without_maximum(request: &Flowspec) -> Flowspec {
    let all = |bucket: &TokenBucket| TokenBucket {
        maximum: u32::MAX,
        ..*bucket
    };
    match request {
        Flowspec::ControlledLoad(bucket) => Flowspec::ControlledLoad(all(bucket)),
        Flowspec::Guaranteed { bucket, rate, slack } => Flowspec::Guaranteed {
            bucket: all(bucket),
            rate: *rate,
            slack: *slack,
        },
    }
}

/// Real numbers: typical ones, whose sums are rounded as usual, and arbitrary ones.
fn number() -> impl Strategy<Value = Real> {
    prop_oneof![(0u64..1 << 40).prop_map(Real::nearest), real()]
}

/// Exact arithmetic: a finite wire number in units of the smallest, 2⁻¹⁴⁹, as words of 32 bits.
fn exact(number: Real) -> [u64; 10] {
    let (exponent, fraction) = (number.bits() >> 23, number.bits() & 0x007f_ffff);
    let (mantissa, shift) = match exponent {
        0 => (fraction, 0),
        _ => (fraction | 0x0080_0000, exponent - 1),
    };
    let mut words = [0; 10];
    let (word, bit) = ((shift / 32) as usize, shift % 32);
    let placed = u64::from(mantissa) << bit;
    words[word] = placed & 0xffff_ffff;
    words[word + 1] = placed >> 32;
    words
}

fn exact_sum(a: Real, b: Real) -> [u64; 10] {
    let (a, b) = (exact(a), exact(b));
    let mut carry = 0;
    let mut sum = [0; 10];
    for (word, (a, b)) in a.into_iter().zip(b).enumerate() {
        let total = a + b + carry;
        sum[word] = total & 0xffff_ffff;
        carry = total >> 32;
    }
    sum
}

/// The words, highest first, so that arrays compare correctly.
fn ordered(mut words: [u64; 10]) -> [u64; 10] {
    words.reverse();
    words
}

fn previous(number: Real) -> Option<Real> {
    number.bits().checked_sub(1).and_then(Real::from_bits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_merged_request_serves_every_request_whose_packets_conform(requests in alike()) {
        let merged = Flowspec::merged(&requests).expect("one service").expect("there is one");
        prop_assert!(sound(&merged));
        for request in &requests {
            prop_assert!(without_maximum(&merged).substitutes(&without_maximum(request)));
            prop_assert!(merged.bucket().maximum <= request.bucket().maximum);
        }
        // And it requests nothing that no input requests.
        let parts = |f: &Flowspec| [f.bucket().rate, f.bucket().bucket, f.bucket().peak];
        for (part, value) in parts(&merged).iter().enumerate() {
            prop_assert!(requests.iter().any(|request| parts(request)[part] == *value));
        }
    }

    #[test]
    fn merging_and_the_glb_do_not_depend_on_order(requests in alike(), turn: prop::sample::Index) {
        let mut turned = requests.clone();
        turned.rotate_left(turn.index(requests.len()));
        prop_assert_eq!(Flowspec::merged(&requests), Flowspec::merged(&turned));
        prop_assert_eq!(Flowspec::glb(&requests), Flowspec::glb(&turned));
        turned.extend(requests.clone());
        prop_assert_eq!(Flowspec::merged(&requests), Flowspec::merged(&turned));
        prop_assert_eq!(Flowspec::glb(&requests), Flowspec::glb(&turned));
    }

    #[test]
    fn all_requests_substitute_the_glb_if_it_exists(requests in alike()) {
        let least = Flowspec::glb(&requests).expect("one service").expect("there is one");
        prop_assert!(sound(&least));
        let below_all = |one: &&Flowspec| requests.iter().all(|other| other.substitutes(one));
        if let Some(expected) = requests.iter().find(below_all) {
            prop_assert_eq!(least, *expected);
        } else {
            for request in &requests {
                prop_assert!(least.bucket().rate <= request.bucket().rate);
                prop_assert!(least.bucket().peak <= request.bucket().peak);
            }
        }
    }

    #[test]
    fn substitution_is_an_order(a in flowspec(), b in flowspec(), c in flowspec()) {
        prop_assert!(a.substitutes(&a));
        prop_assert!(!(a.substitutes(&b) && b.substitutes(&a)) || a == b);
        prop_assert!(!(a.substitutes(&b) && b.substitutes(&c)) || a.substitutes(&c));
    }

    #[test]
    fn traffic_control_reserves_no_more_rate_than_requested_or_sent(
        request in flowspec(),
        path in bucket(),
    ) {
        let effective = request.effective(&path);
        prop_assert!(sound(&effective));
        prop_assert!(effective.bucket().rate <= request.bucket().rate.min(path.rate));
        prop_assert!(effective.bucket().peak <= request.bucket().peak.min(path.peak));
    }

    #[test]
    fn a_sum_describes_both_and_is_sound(a in bucket(), b in bucket()) {
        let sum = a.sum(&b);
        prop_assert!(sum.is_sound());
        prop_assert!(sum.substitutes(&a) && sum.substitutes(&b));
        prop_assert_eq!(sum, b.sum(&a));
    }

    #[test]
    fn a_sum_of_reals_is_the_least_that_is_not_below_the_exact_one(a in number(), b in number()) {
        let sum = a.plus(b);
        let exact_sum = ordered(exact_sum(a, b));
        if sum.is_finite() {
            prop_assert!(ordered(exact(sum)) >= exact_sum);
        }
        let below = previous(sum).filter(|below| ordered(exact(*below)) >= exact_sum);
        prop_assert_eq!(below, None, "a smaller number suffices");
    }

    #[test]
    fn reals_are_rounded_in_the_given_direction(value in prop_oneof![0f64..1e12, 0f64..f64::MAX]) {
        let (up, down) = (Real::at_least(value).expect("a number"), Real::at_most(value).expect("a number"));
        prop_assert!(f64::from(down.get()) <= value && value <= f64::from(up.get()));
        prop_assert!(up.bits() - down.bits() <= 1);
        prop_assert_eq!(up == down, f64::from(up.get()) == value);
    }
}

#[test]
fn reals_are_neither_negative_nor_nan() {
    for value in [-1.0, -f64::MIN_POSITIVE, f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(
            (Real::at_least(value), Real::at_most(value)),
            (None, None),
            "{value}"
        );
    }
    assert_eq!(Real::at_most(-0.0), Some(Real::ZERO));
    assert_eq!(Real::at_least(f64::INFINITY), Some(Real::INFINITE));
    assert_eq!(Real::INFINITE.plus(Real::INFINITE), Real::INFINITE);
    assert_eq!(Real::nearest(7).floor(), 7);
}

#[test]
fn rfc_2212_the_minimum_of_two_unordered_requests_keeps_the_larger_bucket() {
    let [less, more] = [100, 200].map(Real::nearest);
    let bursty = TokenBucket {
        rate: less,
        bucket: more,
        peak: Real::INFINITE,
        minimum: 64,
        maximum: 1500,
    };
    let fast = TokenBucket {
        rate: more,
        bucket: less,
        peak: more,
        minimum: 100,
        maximum: 1000,
    };
    let minimum = TokenBucket {
        rate: less,
        bucket: more,
        peak: more,
        minimum: 64,
        maximum: 1000,
    };
    assert_eq!(bursty.minimum(&fast), minimum);
    assert_eq!(fast.minimum(&bursty), minimum);
    assert_eq!(
        bursty.merged(&fast),
        TokenBucket {
            rate: more,
            bucket: more,
            peak: Real::INFINITE,
            minimum: 64,
            maximum: 1000,
        }
    );
    assert_eq!(bursty.least_common(&fast).maximum, 1500);
}

#[test]
fn different_services_conflict() {
    let bucket = TokenBucket {
        rate: Real::nearest(1),
        bucket: Real::nearest(1),
        peak: Real::INFINITE,
        minimum: 1,
        maximum: 1,
    };
    let requests = [
        Flowspec::ControlledLoad(bucket),
        Flowspec::Guaranteed {
            bucket,
            rate: bucket.rate,
            slack: 0,
        },
    ];
    assert_eq!(Flowspec::merged(&requests), Err(ServiceConflict));
    assert_eq!(Flowspec::glb(&requests), Err(ServiceConflict));
    assert_eq!(Flowspec::merged([]), Ok(None));
    assert!(!requests[0].substitutes(&requests[1]));
}

#[test]
fn a_substitute_has_at_least_the_rate_and_at_most_the_slack_and_a_sufficient_bucket() {
    let bucket = TokenBucket {
        rate: Real::nearest(100),
        bucket: Real::nearest(200),
        peak: Real::nearest(300),
        minimum: 64,
        maximum: 1500,
    };
    let of = |rate, slack| Flowspec::Guaranteed {
        bucket,
        rate: Real::nearest(rate),
        slack,
    };
    for (rate, slack, substitutes) in [
        (150, 10, true),
        (151, 10, true),
        (150, 9, true),
        (151, 11, false),
        (149, 9, false),
        (149, 10, false),
        (150, 11, false),
    ] {
        assert_eq!(
            of(rate, slack).substitutes(&of(150, 10)),
            substitutes,
            "{rate} {slack}"
        );
    }
    let [less, more] = [-1, 1].map(|by| {
        let real = |at: i64| Real::nearest((at + by).unsigned_abs());
        [
            TokenBucket {
                rate: real(100),
                ..bucket
            },
            TokenBucket {
                bucket: real(200),
                ..bucket
            },
            TokenBucket {
                peak: real(300),
                ..bucket
            },
            TokenBucket {
                minimum: if by < 0 { 65 } else { 63 },
                ..bucket
            },
            TokenBucket {
                maximum: if by < 0 { 1499 } else { 1501 },
                ..bucket
            },
        ]
    });
    assert!(bucket.substitutes(&bucket));
    for (less, more) in less.iter().zip(&more) {
        assert!(more.substitutes(&bucket) && !bucket.substitutes(more), "{more:?}");
        assert!(bucket.substitutes(less) && !less.substitutes(&bucket), "{less:?}");
        let load = |bucket: &TokenBucket| Flowspec::ControlledLoad(*bucket);
        assert!(load(more).substitutes(&load(&bucket)) && !load(less).substitutes(&load(&bucket)));
    }
}
