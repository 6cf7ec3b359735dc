//! By how much longer than its delay a packet is under way over a wire.
//!
//! An addition is uniform from zero to a bound, or of a mean: normal (below zero counts as zero),
//! exponential, or Pareto's with the shape 3 from zero on ([`variates`](crate::variates)). Packets
//! keep their order, as on a single path: one that would overtake arrives with its predecessor.
//! Without order, each arrives by its own addition.

use crate::variates::{self, MOST_OF_PARETO, VARIATE_BITS};
use engine::random::{Rng, Seed};
use engine::settings::{Raw, SettingValue, describe};
use engine::units::Duration;
use std::fmt;

/// The greatest exponential addition, in means: one of 10¹³ would be greater.
const MOST_OF_EXPONENTIAL: u64 = 30;
/// Standard deviations that a normal addition is from its mean at most.
const MOST_OF_NORMAL: u64 = 6;

/// The distribution of what is added to a wire's delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jitter {
    /// How long the additions are.
    pub spread: Spread,
    /// What it does to the order of packets.
    pub order: PacketOrder,
}

/// How long additions to a delay are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// There are none.
    #[default]
    None,
    /// From zero to this.
    Uniform(Duration),
    /// Normal.
    Normal {
        /// The mean.
        mean: Duration,
        /// The standard deviation.
        deviation: Duration,
    },
    /// Exponential, of this mean.
    Exponential(Duration),
    /// Pareto's, of this mean.
    Pareto(Duration),
}

/// Whether packets overtake each other by their additions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacketOrder {
    /// They do not.
    #[default]
    Kept,
    /// They do.
    Free,
}

const UNORDERED: &str = ", unordered";

impl Jitter {
    /// The longest.
    pub const LONGEST: Duration = Duration::from_secs(60);

    /// The greatest addition.
    pub fn most(&self) -> Duration {
        match self.spread {
            Spread::None => Duration::ZERO,
            Spread::Uniform(most) => most,
            Spread::Normal { mean, deviation } => mean + deviation.times(MOST_OF_NORMAL),
            Spread::Exponential(mean) => mean.times(MOST_OF_EXPONENTIAL),
            Spread::Pareto(mean) => mean.times(MOST_OF_PARETO),
        }
    }
}

impl From<Duration> for Jitter {
    /// Uniform up to this.
    fn from(most: Duration) -> Self {
        let spread = match most {
            Duration::ZERO => Spread::None,
            most => Spread::Uniform(most),
        };
        Self {
            spread,
            order: PacketOrder::Kept,
        }
    }
}

impl Spread {
    fn read(text: &str) -> Option<Self> {
        let time = |text: &str| text.trim().parse::<Duration>().ok();
        let spread = if let Some(rest) = text.strip_prefix("normal ") {
            let (mean, deviation) = rest.split_once(", deviation ")?;
            let (mean, deviation) = (time(mean)?, time(deviation)?);
            match (mean, deviation) {
                (Duration::ZERO, Duration::ZERO) => Self::None,
                _ => Self::Normal { mean, deviation },
            }
        } else if let Some(mean) = text.strip_prefix("exponential ") {
            Self::Exponential(time(mean)?)
        } else if let Some(mean) = text.strip_prefix("pareto ") {
            Self::Pareto(time(mean)?)
        } else {
            Self::Uniform(time(text)?)
        };
        Some(match spread {
            Self::Uniform(Duration::ZERO)
            | Self::Exponential(Duration::ZERO)
            | Self::Pareto(Duration::ZERO) => Self::None,
            other => other,
        })
    }
}

impl SettingValue for Jitter {
    const UNIT: &'static str = "a time such as \"5 ms\": uniform, up to that; or \"normal 10 ms, deviation 2 ms\", \"exponential 2 ms\" or \
         \"pareto 2 ms\", of that mean; packets keep their order, unless \", unordered\" follows";

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = || format!("expected {}; found {}", Self::UNIT, describe(raw));
        let text = match raw {
            Raw::Duration(most) => return Ok((*most).into()),
            Raw::Text(text) => text.trim(),
            _ => return Err(wrong()),
        };
        let (spread, order) = match text.strip_suffix(UNORDERED) {
            Some(spread) => (spread, PacketOrder::Free),
            None => (text, PacketOrder::Kept),
        };
        let spread = Spread::read(spread).ok_or_else(wrong)?;
        let jitter = match spread {
            Spread::None => Self::default(),
            spread => Self { spread, order },
        };
        if jitter.most() > Self::LONGEST {
            let (most, longest) = (jitter.most(), Self::LONGEST);
            return Err(format!(
                "at most {longest} may be added, and this adds up to {most}"
            ));
        }
        Ok(jitter)
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spread {
            Spread::None => write!(f, "{}", Duration::ZERO),
            Spread::Uniform(most) => write!(f, "{most}"),
            Spread::Normal { mean, deviation } => write!(f, "normal {mean}, deviation {deviation}"),
            Spread::Exponential(mean) => write!(f, "exponential {mean}"),
            Spread::Pareto(mean) => write!(f, "pareto {mean}"),
        }?;
        match self.order {
            PacketOrder::Kept => Ok(()),
            PacketOrder::Free => f.write_str(UNORDERED),
        }
    }
}

/// Draws additions.
#[derive(Clone, Debug)]
pub(super) struct JitterModel {
    spread: Spread,
    rng: Rng,
}

impl JitterModel {
    /// Its random numbers are those of this seed.
    pub(super) fn new(spread: Spread, seed: Seed) -> Self {
        let rng = seed.stream();
        Self { spread, rng }
    }

    /// Takes other additions from the next packet on.
    pub(super) fn becomes(&mut self, spread: Spread) {
        self.spread = spread;
    }

    /// What is added to the next packet's delay.
    pub(super) fn next(&mut self) -> Duration {
        let rng = &mut self.rng;
        let scaled = |mean: Duration, by: u128| {
            let nanos = (u128::from(mean.nanos()) * by) >> VARIATE_BITS;
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        match self.spread {
            Spread::None => Duration::ZERO,
            Spread::Uniform(most) => Duration::from_nanos(rng.below(most.nanos().saturating_add(1))),
            Spread::Normal { mean, deviation } => {
                let by = variates::normal(rng);
                let far = scaled(deviation, by.unsigned_abs().into());
                match by < 0 {
                    true => mean - far,
                    false => mean + far,
                }
            }
            Spread::Exponential(mean) => {
                let by = variates::exponential(rng) >> (64 - VARIATE_BITS);
                scaled(mean, by.min(u128::from(MOST_OF_EXPONENTIAL) << VARIATE_BITS))
            }
            Spread::Pareto(mean) => scaled(mean, variates::pareto(rng).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Jitter, String> {
        Jitter::from_raw(&Raw::Text(text.into()))
    }

    #[test]
    fn jitter_is_parsed_as_it_is_printed_and_nonsense_is_refused() {
        let ms = Duration::from_millis;
        for (text, spread) in [
            ("0 s", Spread::None),
            ("0 s, unordered", Spread::None),
            ("normal 0 s, deviation 0 s", Spread::None),
            ("5 ms", Spread::Uniform(ms(5))),
            (
                "normal 10 ms, deviation 2 ms",
                Spread::Normal {
                    mean: ms(10),
                    deviation: ms(2),
                },
            ),
            ("exponential 2 ms", Spread::Exponential(ms(2))),
            ("pareto 2 ms", Spread::Pareto(ms(2))),
        ] {
            let jitter = read(text).expect(text);
            assert_eq!(jitter.spread, spread, "{text}");
            assert_eq!(jitter.order, PacketOrder::Kept, "{text}");
            assert_eq!(read(&jitter.to_string()), Ok(jitter), "{jitter}");
            let free = read(&format!("{jitter}, unordered")).expect(text);
            assert_eq!(free.order == PacketOrder::Free, spread != Spread::None);
            assert_eq!(read(&free.to_string()), Ok(free), "{free}");
        }
        for wrong in [
            "",
            "5",
            "normal 10 ms",
            "normal 10 ms, deviation",
            "exponential",
            "pareto 2",
            "gaussian 5 ms",
            "5 ms unordered",
            "61 s",
            "normal 1 s, deviation 10 s",
            "pareto 601 ms",
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }

    /// The mean, the deviation and the greatest of many additions, in microseconds.
    fn of_many(text: &str) -> [u64; 3] {
        let jitter = read(text).expect(text);
        let mut model = JitterModel::new(jitter.spread, Seed(3));
        let all: Vec<f64> = (0..200_000).map(|_| model.next().nanos() as f64 / 1e3).collect();
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        let most = all.iter().fold(0.0, |most: f64, x| most.max(*x));
        assert!(most <= jitter.most().nanos() as f64 / 1e3, "{text}: {most}");
        [mean, variance.sqrt(), most].map(|x| x as u64)
    }

    #[test]
    fn additions_have_the_mean_and_the_deviation_of_their_distribution() {
        for (text, [mean, deviation, most]) in [
            ("10 ms", [4_950..5_050, 2_870..2_900, 9_990..10_001]),
            (
                "normal 10 ms, deviation 2 ms",
                [9_950..10_050, 1_980..2_020, 17_000..22_001],
            ),
            ("exponential 2 ms", [1_980..2_020, 1_960..2_040, 20_000..60_001]),
            ("pareto 2 ms", [1_950..2_050, 2_900..4_000, 60_000..200_001]),
        ] {
            let got = of_many(text);
            let within = mean.contains(&got[0]) && deviation.contains(&got[1]) && most.contains(&got[2]);
            assert!(within, "{text}: {got:?}");
        }
        // Below zero counts as zero: half of them.
        let [mean, ..] = of_many("normal 0 s, deviation 2 ms");
        assert!((780..815).contains(&mean), "2 ms / √(2π): {mean}");
    }
}
