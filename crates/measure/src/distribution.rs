//! Distributions of lengths and times that are drawn, in integers throughout: the same draws on
//! every machine.
//!
//! Each but the empirical and the uniform one is said by its mean. Exponential variates are [von
//! Neumann's](crate::variates); of these come Pareto's (a power of e) and Weibull's (a power), and
//! of normal ones the lognormal ones.

use crate::fixed_point::{BITS, LOG2_E, ONE, gamma, log2, over, power_of_two, times};
use crate::variates::{exponential, normal};
use engine::random::Rng;
use engine::settings::{Raw, SettingValue, describe};
use engine::units::{Bytes, Duration, Probability};
use std::marker::PhantomData;
use std::sync::Arc;

/// No draw is greater.
const MOST: i128 = 1 << 60;

/// A distribution of whole numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distribution(Shape);

/// Numbers like shapes are fractions with 32 bits.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Shape {
    Fixed(u64),
    Uniform {
        least: u64,
        most: u64,
    },
    Exponential {
        mean: u64,
    },
    Pareto {
        least: i128,
        shape: i128,
    },
    Lognormal {
        median: i128,
        sigma: i128,
    },
    Weibull {
        scale: i128,
        shape: i128,
    },
    /// Up to each number so many of 2³².
    Empirical(Arc<[(u64, i128)]>),
}

impl Distribution {
    /// Always this.
    pub fn fixed(value: u64) -> Self {
        Self(Shape::Fixed(value))
    }

    /// The number, if it is always the same.
    pub fn always(&self) -> Option<u64> {
        match self.0 {
            Shape::Fixed(value) => Some(value),
            _ => None,
        }
    }

    /// Pareto's from its least value on, of this mean; the shape is more than 1.
    fn pareto(mean: u64, shape: i128) -> Self {
        let least = i128::from(mean) * (shape - ONE) * ONE / shape;
        Self(Shape::Pareto { least, shape })
    }

    /// Lognormal of this mean; sigma is the standard deviation of the logarithm.
    fn lognormal(mean: u64, sigma: i128) -> Self {
        let below = power_of_two(-times(times(sigma, sigma) / 2, LOG2_E));
        let median = i128::from(mean) * below;
        Self(Shape::Lognormal { median, sigma })
    }

    /// Weibull's of this mean.
    fn weibull(mean: u64, shape: i128) -> Self {
        let scale = over(i128::from(mean) << BITS, gamma(ONE + over(ONE, shape)));
        Self(Shape::Weibull { scale, shape })
    }

    /// A number.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        // What is scaled is less than 2⁷⁷ with its fraction of 32 bits, and the factor 2⁶² at most.
        let scaled = |scale: i128, exponent: i128| {
            let factor = power_of_two(exponent).min(1 << 62);
            ((scale >> 16) * factor) >> (2 * BITS - 16)
        };
        let drawn = match &self.0 {
            Shape::Fixed(value) => return *value,
            Shape::Uniform { least, most } => i128::from(least + rng.below(most - least + 1)),
            Shape::Exponential { mean } => (i128::from(*mean) * of_one(rng)) >> BITS,
            Shape::Pareto { least, shape } => scaled(*least, over(times(of_one(rng), LOG2_E), *shape)),
            Shape::Lognormal { median, sigma } => {
                let deviation = times(i128::from(normal(rng)), *sigma);
                scaled(*median, times(deviation, LOG2_E))
            }
            Shape::Weibull { scale, shape } => scaled(*scale, over(log2(of_one(rng)), *shape)),
            Shape::Empirical(points) => between(points, i128::from(rng.bits() >> BITS)),
        };
        drawn.clamp(0, MOST) as u64
    }
}

/// An exponential variate of mean 1.
fn of_one(rng: &mut Rng) -> i128 {
    (exponential(rng) >> BITS) as i128
}

/// The number below which so many are, between the points by a straight line.
fn between(points: &[(u64, i128)], part: i128) -> i128 {
    let above = points.partition_point(|(_, up_to)| *up_to <= part);
    let value = |at: usize| points.get(at).map(|(value, up_to)| (i128::from(*value), *up_to));
    match (above.checked_sub(1).and_then(value), value(above)) {
        (Some((low, from)), Some((high, to))) => low + (high - low) * (part - from) / (to - from),
        (None, Some((first, _))) => first,
        (Some((last, _)), None) => last,
        (None, None) => 0,
    }
}

/// What numbers of a distribution are.
trait Amount: SettingValue {
    fn number(&self) -> u64;
}

impl Amount for Bytes {
    fn number(&self) -> u64 {
        self.get()
    }
}

impl Amount for Duration {
    fn number(&self) -> u64 {
        self.nanos()
    }
}

/// A whole number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrawnCount(pub u64);

impl SettingValue for DrawnCount {
    const UNIT: &'static str = "a whole number";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let number = match raw {
            Raw::Integer(number) => u64::try_from(*number).ok(),
            // Within a distribution.
            Raw::Text(text) => text.parse().ok(),
            _ => None,
        };
        number
            .map(Self)
            .ok_or_else(|| format!("expected {}; found {}", Self::UNIT, describe(raw)))
    }
}

impl Amount for DrawnCount {
    fn number(&self) -> u64 {
        self.0
    }
}

/// A length, a time or a number that is drawn, as a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drawn<T> {
    /// In bytes, in nanoseconds, or a number.
    pub distribution: Distribution,
    of: PhantomData<T>,
}

impl<T> Drawn<T> {
    fn of(distribution: Distribution) -> Self {
        Self {
            distribution,
            of: PhantomData,
        }
    }
}

/// A number from 0.05 to 20 in decimal digits.
fn fraction(text: &str) -> Option<i128> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let all = format!("{whole}{digits}");
    let plain = all.len() <= 9 && !whole.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit());
    let number: i128 = all.parse().ok().filter(|_| plain)?;
    let value = number * ONE / 10_i128.pow(digits.len() as u32);
    (ONE / 20..=20 * ONE).contains(&value).then_some(value)
}

/// A part of the whole in per cent, as so many of 2³².
fn percent(text: &str) -> Option<i128> {
    let part: Probability = text.trim().ends_with('%').then(|| text.parse().ok())??;
    Some(part.parts().into())
}

fn read<T: Amount>(text: &str) -> Option<Distribution> {
    let amount = |text: &str| {
        let read = T::from_raw(&Raw::Text(text.trim().into())).ok()?;
        Some(read.number()).filter(|number| i128::from(*number) <= MOST >> BITS << 16)
    };
    let (name, rest) = text.trim().split_once(' ')?;
    let of = |key: &str| {
        let (mean, shape) = rest.split_once(',')?;
        let shape = fraction(shape.trim().strip_prefix(key)?.trim())?;
        Some((amount(mean)?, shape))
    };
    Some(match name {
        "exponential" => Distribution(Shape::Exponential { mean: amount(rest)? }),
        "uniform" => {
            let (least, most) = rest.split_once(" to ")?;
            let (least, most) = (amount(least)?, amount(most)?);
            Distribution(Shape::Uniform {
                least,
                most: Some(most).filter(|most| *most >= least)?,
            })
        }
        "pareto" => {
            let (mean, shape) = of("shape")?;
            Distribution::pareto(mean, Some(shape).filter(|shape| *shape > ONE)?)
        }
        "weibull" => of("shape").map(|(mean, shape)| Distribution::weibull(mean, shape))?,
        "lognormal" => {
            let (mean, sigma) = of("sigma")?;
            Distribution::lognormal(mean, Some(sigma).filter(|sigma| *sigma <= 4 * ONE)?)
        }
        "empirical" => {
            let point = |point: &str| {
                let (value, up_to) = point.split_once(" at ")?;
                Some((amount(value)?, percent(up_to)?))
            };
            let points: Vec<(u64, i128)> = rest.split(',').map(point).collect::<Option<_>>()?;
            let grow = points
                .windows(2)
                .all(|two| two[0].0 <= two[1].0 && two[0].1 < two[1].1);
            let whole = points.last().is_some_and(|(_, up_to)| *up_to == ONE);
            Distribution(Shape::Empirical(Some(points).filter(|_| grow && whole)?.into()))
        }
        _ => return None,
    })
}

/// Whether a text begins with the name of a distribution.
fn is_named(text: &str) -> bool {
    let names = [
        "exponential",
        "uniform",
        "pareto",
        "weibull",
        "lognormal",
        "empirical",
    ];
    names.iter().any(|name| text.trim_start().starts_with(name))
}

fn setting<T: Amount>(raw: &Raw, unit: &str) -> Result<Drawn<T>, String> {
    match raw {
        Raw::Text(text) if is_named(text) => match read::<T>(text) {
            Some(distribution) => Ok(Drawn::of(distribution)),
            None => Err(format!("expected {unit}; found {}", describe(raw))),
        },
        raw => T::from_raw(raw).map(|value| Drawn::of(Distribution::fixed(value.number()))),
    }
}

macro_rules! drawn {
    ($($type:ty, $unit:literal;)*) => {$(
        impl SettingValue for Drawn<$type> {
            const UNIT: &'static str = $unit;
            fn from_raw(raw: &Raw) -> Result<Self, String> {
                setting(raw, $unit)
            }
        }
    )*};
}

drawn! {
    Bytes, "a length such as \"20 kB\", or a distribution: \"exponential 20 kB\", \"pareto 20 kB, shape 1.2\", \"lognormal 20 kB, sigma 1.5\", \"weibull 20 kB, shape 0.7\", \"uniform 1 kB to 20 kB\", \"empirical 1 kB at 50 %, 1 MB at 100 %\"";
    DrawnCount, "a whole number, or a distribution: \"exponential 20\", \"pareto 20, shape 1.2\", \"lognormal 20, sigma 1.5\", \"weibull 20, shape 0.7\", \"uniform 1 to 20\", \"empirical 1 at 50 %, 100 at 100 %\"";
    Duration, "a time such as \"5 ms\", or a distribution: \"exponential 5 ms\", \"pareto 5 ms, shape 1.2\", \"lognormal 5 ms, sigma 1.5\", \"weibull 5 ms, shape 0.7\", \"uniform 1 ms to 20 ms\", \"empirical 1 ms at 50 %, 1 s at 100 %\"";
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::random::Seed;

    const DRAWS: usize = 200_000;

    fn bytes(text: &str) -> Result<Distribution, String> {
        let drawn: Drawn<Bytes> = SettingValue::from_raw(&Raw::Text(text.into()))?;
        Ok(drawn.distribution)
    }

    /// The mean of many draws, and which part of them is at most this.
    fn mean_and_part(text: &str, bound: u64) -> (f64, f64) {
        let (distribution, mut rng) = (bytes(text).expect("good"), Seed(4).stream());
        let draws: Vec<u64> = (0..DRAWS).map(|_| distribution.draw(&mut rng)).collect();
        let n = DRAWS as f64;
        let at_most = draws.iter().filter(|draw| **draw <= bound).count() as f64;
        (
            draws.iter().map(|draw| *draw as f64).sum::<f64>() / n,
            at_most / n,
        )
    }

    #[test]
    fn each_distribution_has_its_mean_and_its_shape() {
        let e = std::f64::consts::E;
        for (text, mean, bound, part) in [
            ("20 kB", 20e3, 20_000, 1.0),
            ("exponential 20 kB", 20e3, 20_000, 1.0 - 1.0 / e),
            ("uniform 10 kB to 30 kB", 20e3, 15_000, 0.25),
            // The least is mean (a - 1) / a; twice that is exceeded by 2^-a.
            ("pareto 20 kB, shape 2.5", 20e3, 24_000, 1.0 - 0.5_f64.powf(2.5)),
            // The median is mean e^(-s² / 2).
            ("lognormal 20 kB, sigma 0.5", 20e3, 17_650, 0.5),
            ("lognormal 20 kB, sigma 1", 20e3, 12_130, 0.5),
            // Γ(1 + 1 / 2) = √π / 2: up to the scale 1 - 1 / e.
            ("weibull 20 kB, shape 2", 20e3, 22_568, 1.0 - 1.0 / e),
            // Γ(3) = 2.
            ("weibull 20 kB, shape 0.5", 20e3, 10_000, 1.0 - 1.0 / e),
            // Half of them are 1 kB, the others evenly up to 9 kB.
            ("empirical 1 kB at 50 %, 9 kB at 100 %", 3e3, 5_000, 0.75),
        ] {
            let (found, at_most) = mean_and_part(text, bound);
            assert!((found / mean - 1.0).abs() < 0.015, "{text}: mean {found}");
            assert!((at_most - part).abs() < 0.005, "{text}: {at_most} up to {bound}");
        }
    }

    #[test]
    fn a_heavy_tail_is_as_heavy_as_its_shape_says() {
        let (distribution, mut rng) = (bytes("pareto 12 kB, shape 1.2").expect("good"), Seed(5).stream());
        // The least is 2 kB; x times that is exceeded by x^-1.2.
        let draws: Vec<u64> = (0..DRAWS).map(|_| distribution.draw(&mut rng)).collect();
        for (times, part) in [(10.0, 0.0631), (100.0, 0.00398), (1_000.0, 0.000251)] {
            let beyond = draws
                .iter()
                .filter(|draw| **draw as f64 > 2_000.0 * times)
                .count();
            let expected = part * DRAWS as f64;
            assert!(
                (beyond as f64 - expected).abs() < 4.0 * expected.sqrt() + 1.0,
                "{beyond} of {expected}"
            );
        }
        assert!(draws.iter().all(|draw| *draw >= 1_999));
    }

    #[test]
    fn draws_are_the_same_everywhere() {
        let first = |text: &str| -> Vec<u64> {
            let mut rng = Seed(6).stream();
            let distribution = bytes(text).expect("good");
            (0..3).map(|_| distribution.draw(&mut rng)).collect()
        };
        let texts = [
            "pareto 20 kB, shape 1.5",
            "lognormal 20 kB, sigma 1",
            "weibull 20 kB, shape 0.7",
        ];
        let found = texts.map(first);
        assert_eq!(found, SAME);
    }

    const SAME: [[u64; 3]; 3] = [
        [11_116, 78_888, 7_519],
        [16_014, 8_280, 5_241],
        [10_816, 102_669, 1_370],
    ];

    #[test]
    fn what_is_no_distribution_is_said() {
        for wrong in [
            "pareto 20 kB",
            "pareto 20 kB, shape 1",
            "pareto 20 ms, shape 2",
            "pareto 20 kB, shape 1.2.3",
            "pareto 20 kB, shape 1e3",
            "lognormal 20 kB, sigma 5",
            "lognormal 20 kB, shape 1",
            "weibull 20 kB, shape 0",
            "uniform 20 kB to 10 kB",
            "exponential",
            "empirical 1 kB at 50 %",
            "empirical 1 kB at 50 %, 2 kB at 40 %, 3 kB at 100 %",
            "empirical 3 kB at 50 %, 2 kB at 100 %",
            "empirical 1 kB at 150 %",
            "gaussian 20 kB",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
