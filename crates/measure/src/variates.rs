//! Random variates, in integers throughout: the same bits on every machine.
//!
//! Exponential variates are drawn by von Neumann's comparisons ("Various techniques used in
//! connection with random digits", 1951). They need no logarithm, whose last bits depend on the
//! machine's library. In uniform numbers u₁ > u₂ > …, the position of the first ascent is even with
//! probability e^−u₁; then u₁ is the fractional part, and the number of odd attempts before it the
//! integer part.
//!
//! Normal variates are the sum of twelve uniform ones, less six: their variance is 1, and none is
//! further than 6 from the mean. Pareto's are of the second kind (Lomax's), from zero on, with the
//! shape 3: a mean, a variance, and a heavy tail.

use engine::random::Rng;

/// The bits of the fraction of normal and Pareto variates.
pub const VARIATE_BITS: u32 = 32;
/// The greatest Pareto variate, in means: 1 of 130,000 would be greater.
pub const MOST_OF_PARETO: u64 = 100;

/// An exponential variate of mean 1, in units of 2⁻⁶⁴.
#[inline]
pub fn exponential(rng: &mut Rng) -> u128 {
    let mut whole = 0u128;
    loop {
        let first = rng.bits();
        let (mut last, mut even) = (first, true);
        loop {
            let next = rng.bits();
            if next >= last {
                break;
            }
            (last, even) = (next, !even);
        }
        if even {
            return whole << 64 | u128::from(first);
        }
        whole += 1;
    }
}

/// A normal variate of mean 0 and variance 1, in units of 2⁻³².
pub fn normal(rng: &mut Rng) -> i64 {
    let sum: u64 = (0..12).map(|_| rng.bits() >> 32).sum();
    // Each is half a unit too small on average: six units in all.
    sum as i64 + 6 - (6 << VARIATE_BITS)
}

/// A Pareto variate of mean 1 and shape 3, in units of 2⁻³²: 2 (u^(−1/3) − 1) for a uniform u.
pub fn pareto(rng: &mut Rng) -> u64 {
    let uniform = u128::from(rng.bits() >> 32) + 1;
    let root = cube_root(u128::MAX / uniform);
    (2 * (root - (1 << VARIATE_BITS))).min(MOST_OF_PARETO << VARIATE_BITS)
}

/// The cube root, rounded down but at least 2³², of a number of at least 2⁹⁶ − 1.
fn cube_root(of: u128) -> u64 {
    let (mut low, mut high) = (1_u128 << VARIATE_BITS, 1_u128 << 42);
    while high - low > 1 {
        let middle = (low + high) / 2;
        // 2⁴² cubed is within 126 bits.
        match middle * middle * middle <= of {
            true => low = middle,
            false => high = middle,
        }
    }
    low as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::random::Seed;

    const DRAWS: usize = 400_000;

    /// The mean and the variance, and the share above a bound.
    fn moments(draw: impl FnMut(usize) -> f64, bound: f64) -> [f64; 3] {
        let all: Vec<f64> = (0..DRAWS).map(draw).collect();
        let n = DRAWS as f64;
        let mean = all.iter().sum::<f64>() / n;
        let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        let above = all.iter().filter(|x| **x > bound).count() as f64 / n;
        [mean, variance, above]
    }

    fn near(what: &str, got: f64, expected: f64, by: f64) {
        assert!((got - expected).abs() < by, "{what}: {got}, expected {expected}");
    }

    #[test]
    fn an_exponential_variate_has_mean_one_and_variance_one() {
        let mut rng = Seed(1).stream();
        let unit = 2f64.powi(64);
        let [mean, variance, above] = moments(|_| exponential(&mut rng) as f64 / unit, 3.0);
        near("mean", mean, 1.0, 0.01);
        near("variance", variance, 1.0, 0.03);
        near("above 3", above, (-3f64).exp(), 0.002);
    }

    #[test]
    fn a_normal_variate_has_mean_zero_and_variance_one_and_is_within_six() {
        let mut rng = Seed(2).stream();
        let unit = 2f64.powi(32);
        let draw = |_| {
            let x = normal(&mut rng) as f64 / unit;
            assert!(x.abs() <= 6.0, "{x}");
            x
        };
        let [mean, variance, above] = moments(draw, 1.0);
        near("mean", mean, 0.0, 0.006);
        near("variance", variance, 1.0, 0.01);
        near("above 1", above, 0.1587, 0.004);
    }

    #[test]
    fn a_pareto_variate_has_mean_one_and_the_tail_of_shape_three() {
        let mut rng = Seed(3).stream();
        let unit = 2f64.powi(32);
        let draw = |_| {
            let x = pareto(&mut rng) as f64 / unit;
            assert!((0.0..=100.0).contains(&x), "{x}");
            x
        };
        let [mean, _, above] = moments(draw, 2.0);
        near("mean", mean, 1.0, 0.015);
        // P(X > x) = (1 + x / 2)^-3.
        near("above 2", above, 0.125, 0.003);
    }

    #[test]
    fn a_cube_root_is_that_of_the_next_smaller_cube() {
        for root in [1_u128 << 32, (1 << 32) + 1, 1_000 << 32, (1 << 42) - 1] {
            let cube = root * root * root;
            assert_eq!(u128::from(cube_root(cube)), root);
            assert_eq!(u128::from(cube_root(cube + 1)), root);
        }
        assert_eq!(cube_root((1 << 96) - 1), 1 << 32);
    }
}
