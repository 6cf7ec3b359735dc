//! The delay bounds of guaranteed service beside textbook examples of network calculus whose exact
//! values are known: never below the exact value, and at most 5 % above it.
//!
//! The examples are of Le Boudec and Thiran, "Network calculus", 2001, in fluid form, with numbers
//! of our own; each test derives its exact value. The engine's are in
//! `crates/engine/tests/calculus.rs`.

use engine::units::Duration;
use rsvp::guaranteed::{delay, rate_for};
use rsvp::traffic_control::ErrorTerms;
use rsvp::wire::{Real, TokenBucket};

/// Not below the exact value, and at most 5 % above it.
fn assert_tight(what: &str, bound: u64, exact: u64) {
    assert!(bound >= exact, "{what}: {bound} is less than the exact {exact}");
    assert!(
        bound * 100 <= exact * 105,
        "{what}: {bound} is more than 5 % above the exact {exact}"
    );
}

/// 1 Mbit/s with bursts of 10,500 B, in packets of up to 1,500 B, in bytes and bytes per second.
fn sender(peak: Real) -> TokenBucket {
    TokenBucket {
        rate: Real::nearest(125_000),
        bucket: Real::nearest(10_500),
        peak,
        minimum: 64,
        maximum: 1_500,
    }
}

fn bound(sender: &TokenBucket, rate: u64, path: ErrorTerms) -> u64 {
    let bound = delay(sender, Real::nearest(rate), path);
    bound.expect("a rate above the sender's").nanos()
}

/// Section 1.4.3, "pay bursts only once". Two servers with *R* and *Tᵢ* = *Cᵢ*/*R* + *Dᵢ* are
/// together one with *R* and *T₁* + *T₂*, so the burst is waited for once: *b*/*R* + *T₁* + *T₂*,
/// attained by a sender that is greedy from 0 on. Bounds of each hop added up wait for it twice,
/// and for what *T₁* adds to it: *T₁* + *b*/*R* + *T₂* + (*b* + *r* *T₁*)/*R*.
#[test]
fn a_burst_delays_a_flow_once_on_a_path_of_two_servers() {
    let sender = sender(Real::INFINITE);
    // C of 1,500 B and D of 3 ms, C of 3,000 B and D of 1 ms; R = 2 Mbit/s. T is 9 and 13 ms.
    let path = ErrorTerms {
        rate_dependent: 4_500,
        rate_independent: 4_000,
    };
    // 10,500 B at 2 Mbit/s are 42 ms.
    let exact = 42_000_000 + 9_000_000 + 13_000_000;
    assert_tight("the path", bound(&sender, 250_000, path), exact);
    let hop = |c, d| ErrorTerms {
        rate_dependent: c,
        rate_independent: d,
    };
    // The second hop's burst: r for 9 ms more.
    let second = TokenBucket {
        bucket: Real::nearest(10_500 + 1_125),
        ..sender
    };
    let added = bound(&sender, 250_000, hop(1_500, 3_000)) + bound(&second, 250_000, hop(3_000, 1_000));
    assert_tight("hop by hop", added, exact + 42_000_000 + 4_500_000);
}

/// Section 1.4.2, a flow of RFC 2212's TSpec: min(*M* + *p t*, *b* + *r t*) bends at θ =
/// (*b* − *M*)/(*p* − *r*). Through *R* (*t* − *T*) with *r* ≤ *R* < *p* the curves are furthest
/// apart there: *T* + (*M* + *p* θ)/*R* − θ. With *R* ≥ *p* they are at 0: *T* + *M*/*R*.
#[test]
fn a_sender_with_a_peak_rate_through_a_rate_latency_server() {
    // 10 Mbit/s: θ = 9,000 B / 1,125,000 B/s = 8 ms. T = 1,500 B / R + 2 ms.
    let sender = sender(Real::nearest(1_250_000));
    let server = ErrorTerms {
        rate_dependent: 1_500,
        rate_independent: 2_000,
    };
    // R = 2 Mbit/s: T = 8 ms; M + p θ = 11,500 B: 46 ms.
    assert_tight("R < p", bound(&sender, 250_000, server), 46_000_000);
    // R = 4 Mbit/s: T = 5 ms; 23 ms.
    assert_tight("R < p", bound(&sender, 500_000, server), 20_000_000);
    // R = 12 Mbit/s: T = 3 ms; M takes 1 ms.
    assert_tight("R ≥ p", bound(&sender, 1_500_000, server), 4_000_000);
    // The other way round: the least rate for 46 ms is 2 Mbit/s.
    let rate = rate_for(&sender, Duration::from_millis(46), server).expect("a rate");
    assert_tight("the rate", f64::from(rate.get()).ceil() as u64, 250_000);
}
