//! 10 000 sessions between two neighbours: how refreshes are spread over time, their cost, and
//! the memory of the state.
//!
//! `cargo bench -p rsvp`. Time is simulated, R is 30 s; CPU time and memory are of both ends
//! together.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers")]

#[path = "../tests/network/admit_all.rs"]
mod admit_all;
#[path = "../tests/reduction/pair.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod pair;

use engine::units::Duration;
use pair::Pair;
use std::time::Instant;

const SESSIONS: u16 = 10_000;
const SPAN: usize = 300;

/// Resident bytes of this process; zero where there is no /proc.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

fn measure(name: &str, shim: bool) {
    let before = resident();
    let mut pair = Pair::with_refresh([shim, shim], true, 1, 30_000);
    for port in 1..=SESSIONS {
        pair.send(port);
    }
    pair.run(Duration::from_secs(1));
    for port in 1..=SESSIONS {
        assert!(pair.reserve(port, 1000));
    }
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.reservations(), usize::from(SESSIONS));
    let memory = resident().saturating_sub(before) / u64::from(SESSIONS);

    let mut counts: Vec<usize> = Vec::new();
    pair.bytes = 0;
    let start = Instant::now();
    for _ in 0..SPAN * 10 {
        pair.sent.clear();
        pair.run(Duration::from_millis(100));
        counts.push(pair.sent.values().sum());
    }
    let spent = start.elapsed();
    assert_eq!(pair.reservations(), usize::from(SESSIONS));
    counts.sort_unstable();
    let messages: usize = counts.iter().sum();
    // A Path and a Resv for each session in each R.
    let refreshes = 2.0 * f64::from(SESSIONS) * SPAN as f64 / 30.0;
    let at = |share: usize| counts[(counts.len() - 1) * share / 100];
    println!(
        "{name}: {:.1} messages/s, {:.1} kB/s; in 100 ms minimum {}, median {}, 99 % {}, maximum {}; \
         {:.2} µs per refresh, {memory} B per session",
        messages as f64 / SPAN as f64,
        pair.bytes as f64 / SPAN as f64 / 1000.0,
        at(0),
        at(50),
        at(99),
        at(100),
        spent.as_secs_f64() * 1e6 / refreshes,
    );
}

fn main() {
    measure("plain", false);
    measure("named", true);
}
