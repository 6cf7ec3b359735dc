//! Models of lines that vary, each made from a seed, so that anybody can make the same trace again.
//! No measurement is in them; each has what is typical of such a line, with round figures that are
//! this project's choice.
//!
//! A line of a trace is a tenth of a second with its rate and delay in one direction. Sums,
//! products and comparisons alone make them, so that they are the same bytes on every machine.
//!
//! Links name a model in place of a file ([`LineModel`]): `model 5g, seed 7, at 20 %`.

use crate::link_trace::LinkTrace;
use engine::random::{Rng, Seed};
use engine::units::Probability;
use std::fmt::{self, Write};

/// Tenths of a second: two minutes.
const LINES: usize = 1200;
/// The seed of the traces in `scenarios/traces`.
pub const SEED: Seed = Seed(22);

/// A line: Mbit/s, and the delay in ms.
type Line = (f64, f64);
type Model = fn(&mut Rng) -> Vec<Line>;

/// Name and model; those of `scenarios/traces` first.
const MODELS: [(&str, Model); 6] = [
    ("lte", lte),
    ("wifi", wifi),
    ("starlink", starlink),
    ("train", train),
    ("dsl", dsl),
    ("5g", five_g),
];
/// The number of those of `scenarios/traces`.
const FILES: usize = 5;

/// The traces of `scenarios/traces` of this seed by their names, as CSV for [`LinkTrace::read`].
pub fn traces(seed: Seed) -> impl Iterator<Item = (&'static str, String)> {
    let files = MODELS.into_iter().take(FILES);
    files.map(move |(name, model)| (name, csv(name, model, seed, Probability::ONE)))
}

/// The names of the models.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.into_iter().map(|(name, _)| name)
}

/// What a model makes of a seed, with this part of its rates.
fn csv(name: &str, model: Model, seed: Seed, part: Probability) -> String {
    let lines = model(&mut seed.fork(name).stream());
    let part = part.parts() as f64 / Probability::ONE.parts() as f64;
    let mut text = String::from("time (s),rate (Mbit/s),delay (ms)\n");
    for (index, (rate, delay)) in lines.into_iter().enumerate() {
        let (seconds, tenth, rate) = (index / 10, index % 10, rate * part);
        // Writing into memory does not fail.
        let _ = writeln!(text, "{seconds}.{tenth},{rate:.2},{delay:.1}");
    }
    text
}

/// A trace that a model makes: which, of what seed, and what part of its rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineModel {
    /// Its place in the list of models.
    model: usize,
    seed: Seed,
    part: Probability,
}

impl LineModel {
    /// What the text of one begins with.
    const WORD: &'static str = "model ";

    /// Reads `model NAME`, perhaps followed by `, seed N` and `, at PART`. None if the text names
    /// no model but a file.
    pub fn read(text: &str) -> Option<Result<Self, String>> {
        let text = text.trim().strip_prefix(Self::WORD)?;
        Some(Self::read_words(text))
    }

    fn read_words(text: &str) -> Result<Self, String> {
        let mut words = text.split(',').map(str::trim);
        let wanted = words.next().unwrap_or_default();
        let found = names().position(|name| name == wanted);
        let model = found.ok_or_else(|| {
            let all: Vec<&str> = names().collect();
            format!("there is no model `{wanted}`; there are {}", all.join(", "))
        })?;
        let mut read = Self {
            model,
            seed: SEED,
            part: Probability::ONE,
        };
        for word in words {
            let wrong = || format!("expected `seed 7` or `at 20 %` after the model; found `{word}`");
            if let Some(seed) = word.strip_prefix("seed ") {
                read.seed = Seed(seed.trim().parse().map_err(|_| wrong())?);
            } else {
                let part = word.strip_prefix("at ").ok_or_else(wrong)?;
                read.part = part.parse().map_err(|_| wrong())?;
            }
        }
        if read.part < Probability::ratio(1, 100) {
            return Err("a part of a model's rates is at least 1 %".into());
        }
        Ok(read)
    }

    /// Its trace.
    ///
    /// # Panics
    ///
    /// If a model makes what is no trace; a test reads all.
    pub fn trace(&self) -> LinkTrace {
        let (name, model) = MODELS[self.model];
        let text = csv(name, model, self.seed, self.part);
        LinkTrace::read(&text).unwrap_or_else(|mistake| panic!("model {name}: {mistake}"))
    }
}

impl fmt::Display for LineModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, seed, part } = self;
        let (name, _) = MODELS[*model];
        write!(f, "{}{name}, seed {}, at {part}", Self::WORD, seed.0)
    }
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

/// A cell of 5G below 6 GHz: 180 Mbit/s on average over cells of 90 to 270, varying by a quarter
/// with a memory of a second. A handover every twenty seconds on average, for a tenth or two of a
/// second without data, to a cell with a level of its own; every fifteen seconds something stands
/// in the way, half a second to two with a sixth of the rate and ten milliseconds more.
fn five_g(rng: &mut Rng) -> Vec<Line> {
    let (mut level, mut drift) = (180.0, 0.0);
    let (mut handover, mut blocked) = (0_u64, 0_u64);
    let line = |_| {
        if handover == 0 && begins(rng, 20.0) {
            (handover, blocked) = (1 + rng.below(2), 0);
            level = 90.0 + 180.0 * uniform(rng);
        } else if blocked == 0 && begins(rng, 15.0) {
            blocked = 5 + rng.below(15);
        }
        drift = 0.9 * drift + 0.43 * normal(rng);
        let rate = level * (1.0 + 0.25 * drift).clamp(0.3, 1.7);
        if handover > 0 {
            handover -= 1;
            return (0.0, 12.0);
        }
        if blocked > 0 {
            blocked -= 1;
            return (rate / 6.0, 22.0);
        }
        (rate, 12.0)
    };
    (0..LINES).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LineModel, String> {
        LineModel::read(text).expect("a model")
    }

    #[test]
    fn a_model_is_named_with_its_seed_and_the_part_of_its_rates() {
        for name in names() {
            let plain = read(&format!("model {name}")).expect(name);
            assert_eq!(read(&plain.to_string()), Ok(plain));
            let [mean, peak] = [plain.trace().mean(), plain.trace().peak()].map(|rate| rate.bits());
            assert!(
                mean > 15_000_000 && peak > mean && peak < 600_000_000,
                "{name}: {mean}"
            );
            let fifth = read(&format!("model {name}, at 20 %")).expect(name);
            let mean_of_fifth = fifth.trace().mean().bits();
            assert!(
                mean_of_fifth.abs_diff(mean / 5) < mean / 1_000,
                "{name}: {mean_of_fifth} of {mean}"
            );
            let other = read(&format!("model {name}, seed 7, at 100%")).expect(name);
            assert_eq!(other.trace() == plain.trace(), name == "dsl", "{name}");
        }
        let (_, file) = traces(SEED).next().expect("one");
        assert_eq!(
            LinkTrace::read(&file),
            Ok(read("model lte").expect("lte").trace())
        );
        assert!(LineModel::read("traces/lte.csv").is_none());
        for (wrong, why) in [
            (
                "model 6g",
                "there is no model `6g`; there are lte, wifi, starlink, train, dsl, 5g",
            ),
            ("model lte, seed", "found `seed`"),
            ("model lte, 20 %", "found `20 %`"),
            ("model lte, at 0.5 %", "at least 1 %"),
        ] {
            let said = read(wrong).expect_err(wrong);
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }

    /// Handovers of 5G are as many and as long as the model states, whatever the seed.
    #[test]
    fn handovers_come_by_the_seed_as_often_as_stated() {
        let (mut handovers, mut silent) = (0, 0);
        for seed in 0..100 {
            let lines = five_g(&mut Seed(seed).stream());
            silent += lines.iter().filter(|(rate, _)| *rate == 0.0).count();
            handovers += lines
                .windows(2)
                .filter(|pair| pair[0].0 > 0.0 && pair[1].0 == 0.0)
                .count();
        }
        // Six in two minutes, a little fewer since none begins within one; a tenth and a half each.
        assert!((520..=680).contains(&handovers), "{handovers}");
        let mean = silent as f64 / handovers as f64;
        assert!((1.4..1.65).contains(&mean), "{mean}");
    }

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
