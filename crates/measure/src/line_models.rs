//! Models of lines that vary, each made from a seed, so that anybody can make the same trace again.
//! No measurement is in them; each has what is typical of such a line, with round figures that are
//! this project's choice.
//!
//! A line of a trace is a tenth of a second with its rate and delay in one direction. Sums,
//! products and comparisons alone make them, so that they are the same bytes on every machine.

use engine::random::{Rng, Seed};
use std::fmt::Write;

/// Tenths of a second: two minutes.
const LINES: usize = 1200;
/// The seed of the traces in `scenarios/traces`.
pub const SEED: Seed = Seed(22);

/// A line: Mbit/s, and the delay in ms.
type Line = (f64, f64);
type Model = fn(&mut Rng) -> Vec<Line>;

/// Name and model.
const MODELS: [(&str, Model); 5] = [
    ("lte", lte),
    ("wifi", wifi),
    ("starlink", starlink),
    ("train", train),
    ("dsl", dsl),
];

/// Every model's trace of this seed by its name, as CSV for
/// [`LinkTrace::read`](crate::link_trace::LinkTrace::read).
pub fn traces(seed: Seed) -> impl Iterator<Item = (&'static str, String)> {
    MODELS.into_iter().map(move |(name, model)| {
        let lines = model(&mut seed.fork(name).stream());
        let mut text = String::from("time (s),rate (Mbit/s),delay (ms)\n");
        for (index, (rate, delay)) in lines.into_iter().enumerate() {
            // Writing into memory does not fail.
            let _ = writeln!(text, "{}.{},{rate:.2},{delay:.1}", index / 10, index % 10);
        }
        (name, text)
    })
}

/// From 0 to 1.
fn uniform(rng: &mut Rng) -> f64 {
    rng.below(1 << 32) as f64 / (1_u64 << 32) as f64
}

/// Of mean 0 and variance 1: the sum of twelve, less six.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
}

/// Whether something begins in this tenth of a second that begins every so many seconds on average.
fn begins(rng: &mut Rng, seconds: f64) -> bool {
    uniform(rng) * seconds * 10.0 < 1.0
}

/// A cell that others use: 30 Mbit/s on average, varying by a third with a memory of two seconds;
/// every twenty seconds a fade to two fifths for a second or two.
fn lte(rng: &mut Rng) -> Vec<Line> {
    let (mut drift, mut fade) = (0.0, 0_u64);
    let line = |_| {
        drift = 0.95 * drift + 0.31 * normal(rng);
        if fade == 0 && begins(rng, 20.0) {
            fade = 10 + rng.below(10);
        }
        let faded = if fade > 0 { 0.4 } else { 1.0 };
        fade = fade.saturating_sub(1);
        ((30.0 * (1.0 + 0.33 * drift)).clamp(4.0, 75.0) * faded, 25.0)
    };
    (0..LINES).map(line).collect()
}

/// A station that moves about a house: one of six rates, from one to a neighbour every second and a
/// half on average; every five seconds others take half of the air for 200 ms.
fn wifi(rng: &mut Rng) -> Vec<Line> {
    const RATES: [f64; 6] = [18.0, 30.0, 45.0, 65.0, 90.0, 120.0];
    let (mut place, mut shared) = (3_usize, 0_u64);
    let line = |_| {
        if begins(rng, 1.5) {
            let up = rng.below(2) == 1;
            place = if up {
                (place + 1).min(5)
            } else {
                place.saturating_sub(1)
            };
        }
        if shared == 0 && begins(rng, 5.0) {
            shared = 2;
        }
        let part = if shared > 0 { 0.5 } else { 1.0 };
        shared = shared.saturating_sub(1);
        (RATES[place] * part, 2.0)
    };
    (0..LINES).map(line).collect()
}

/// A satellite after the other every fifteen seconds, with a rate and a delay of its own, after a
/// tenth of a second without any; meanwhile the rate varies by an eighth.
fn starlink(rng: &mut Rng) -> Vec<Line> {
    let (mut level, mut delay, mut drift) = (110.0, 22.0, 0.0);
    let line = |index: usize| {
        if index.is_multiple_of(150) && index > 0 {
            (level, delay) = (60.0 + 110.0 * uniform(rng), 16.0 + 12.0 * uniform(rng));
            return (0.0, delay);
        }
        drift = 0.9 * drift + 0.43 * normal(rng);
        (level * (1.0 + 0.12 * drift).clamp(0.5, 1.5), delay)
    };
    (0..LINES).map(line).collect()
}

/// A train along cells of twenty seconds: from 8 Mbit/s at the edge to 48 in the middle, a third of
/// a second without a cell between two; after forty and eighty seconds a tunnel, 2 Mbit/s for two
/// seconds.
fn train(rng: &mut Rng) -> Vec<Line> {
    let line = |index: usize| {
        let within = index % 200;
        if within < 3 && index > 3 {
            return (0.0, 30.0);
        }
        if [400, 800]
            .iter()
            .any(|tunnel| (tunnel + 50..tunnel + 70).contains(&index))
        {
            return (2.0, 30.0);
        }
        let from_edge = within.min(199 - within) as f64 / 100.0;
        (
            (8.0 + 40.0 * from_edge) * (1.0 + 0.08 * normal(rng)).clamp(0.7, 1.3),
            30.0,
        )
    };
    (0..LINES).map(line).collect()
}

/// A line of 50 Mbit/s that loses synchronism after 45 seconds, is back after two with 32, and
/// goes up in steps of 3 every ten seconds.
fn dsl(_rng: &mut Rng) -> Vec<Line> {
    let line = |index: usize| match index {
        ..450 => (50.0, 8.0),
        450..470 => (0.0, 8.0),
        _ => ((32.0 + 3.0 * ((index - 470) / 100) as f64).min(50.0), 8.0),
    };
    (0..LINES).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link_trace::LinkTrace;

    #[test]
    fn every_model_makes_a_trace_that_can_be_read_and_another_for_another_seed() {
        for ((name, text), (_, other)) in traces(SEED).zip(traces(Seed(1))) {
            let trace = LinkTrace::read(&text).expect("a trace");
            let [mean, peak] = [trace.mean(), trace.peak()].map(|rate| rate.bits() / 1_000_000);
            assert!(mean > 15 && peak > mean && peak < 300, "{name}: {mean}, {peak}");
            assert_eq!(
                text == other,
                name == "dsl",
                "{name}: nothing of a dsl is by chance"
            );
        }
    }
}
