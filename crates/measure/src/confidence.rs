//! How sure a mean of independent runs or a share is, and whether values grow: confidence intervals
//! of 95 %.

/// The two-sided 95 % points of Student's distribution, from 1 degree of freedom on.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// That of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// The point for so many degrees of freedom. Beyond the table by the first terms of its expansion
/// (Fisher and Cornish 1960), which are right to four digits there.
fn student(degrees: usize) -> f64 {
    let in_table = degrees.checked_sub(1).and_then(|at| STUDENT.get(at));
    in_table.copied().unwrap_or_else(|| {
        let (z, n) = (NORMAL, degrees as f64);
        let (z3, z5) = (z.powi(3), z.powi(5));
        z + (z3 + z) / (4.0 * n) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
    })
}

/// A mean of independent values, and half the width of its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SureMean {
    /// The mean.
    pub mean: f64,
    /// In 95 of 100 cases the true mean is no further away; none of a single value.
    pub within: Option<f64>,
}

impl SureMean {
    /// Of these; none without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let within = (values.len() > 1).then(|| {
            let deviation = (squares / (count - 1.0)).sqrt();
            student(values.len() - 1) * deviation / count.sqrt()
        });
        Some(Self { mean, within })
    }
}

/// A share of independent cases, and its interval (Wilson 1927), which is right for few cases and
/// near 0 and 1 too.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SureShare {
    /// The share, from 0 to 1; 0 without any case.
    pub share: f64,
    /// In 95 of 100 cases the true share is not less.
    pub least: f64,
    /// Nor more.
    pub most: f64,
}

impl SureShare {
    /// Of so many of all.
    pub fn of(some: u64, all: u64) -> Self {
        if all == 0 {
            return Self {
                share: 0.0,
                least: 0.0,
                most: 1.0,
            };
        }
        let (n, z2) = (all as f64, NORMAL * NORMAL);
        let share = some as f64 / n;
        let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = NORMAL / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
        Self {
            share,
            least: (middle - half).max(0.0),
            most: (middle + half).min(1.0),
        }
    }
}

/// A straight line through values at equal distances, by least squares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StraightLine {
    /// The mean of all values.
    pub mean: f64,
    /// From one value to the next.
    pub slope: f64,
    /// Half of the interval that contains the slope in 95 of 100 cases.
    pub within: f64,
    /// How many values.
    pub count: usize,
}

impl StraightLine {
    /// Through three values or more.
    pub fn through(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let (mean, middle) = (values.iter().sum::<f64>() / count, (count - 1.0) / 2.0);
        let points = || {
            values
                .iter()
                .enumerate()
                .map(|(at, value)| (at as f64 - middle, value - mean))
        };
        let spread: f64 = points().map(|(at, _)| at * at).sum();
        let slope = points().map(|(at, value)| at * value).sum::<f64>() / spread;
        let rest: f64 = points().map(|(at, value)| (value - slope * at).powi(2)).sum();
        Self {
            mean,
            slope,
            within: NORMAL * (rest / (count - 2.0) / spread).sqrt(),
            count: values.len(),
        }
    }

    /// What the values have grown by at least, in 97 of 100 cases: nothing, if it is not more than
    /// zero.
    pub fn sure_growth(&self) -> f64 {
        (self.slope - self.within) * self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variates::{VARIATE_BITS, exponential, normal};
    use engine::random::{Rng, Seed};

    #[test]
    fn a_share_has_its_interval_also_at_the_ends() {
        for (some, all, least, most) in [
            (5, 10, 0.2366, 0.7634),
            (0, 10, 0.0, 0.2775),
            (10, 10, 0.7225, 1.0),
        ] {
            let found = SureShare::of(some, all);
            assert!((found.least - least).abs() < 1e-4, "{found:?}");
            assert!((found.most - most).abs() < 1e-4, "{found:?}");
        }
        assert_eq!((SureShare::of(0, 0).least, SureShare::of(0, 0).most), (0.0, 1.0));
    }

    #[test]
    fn a_known_sample_has_its_interval() {
        // Student's own example of the sleep that a drug adds, in hours (Biometrika 1908).
        let hours = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let found = SureMean::of(&hours).expect("values");
        assert!((found.mean - 2.33).abs() < 1e-9, "{found:?}");
        assert!(
            (found.within.expect("several") - 1.4323).abs() < 1e-3,
            "{found:?}"
        );
        let one = SureMean::of(&[3.0]).expect("a value");
        assert_eq!((one.mean, one.within), (3.0, None));
        assert_eq!(SureMean::of(&[]), None);
        // The table and what follows it meet.
        assert!((student(31) - 2.0395).abs() < 2e-4 && (student(100) - 1.9840).abs() < 2e-4);
    }

    #[test]
    fn the_true_mean_is_within_in_95_of_100_cases() {
        let mut rng = Seed(8).stream();
        let covered = |runs: usize, rng: &mut Rng, draw: fn(&mut Rng) -> f64, truth: f64| {
            let cases = 4_000;
            let hit = (0..cases).filter(|_| {
                let values: Vec<f64> = (0..runs).map(|_| draw(rng)).collect();
                let found = SureMean::of(&values).expect("values");
                (found.mean - truth).abs() <= found.within.expect("several")
            });
            hit.count() as f64 / f64::from(cases)
        };
        for runs in [2, 5, 20, 50] {
            let normal = |rng: &mut Rng| normal(rng) as f64 / f64::from(2).powi(VARIATE_BITS as i32);
            let found = covered(runs, &mut rng, normal, 0.0);
            assert!((found - 0.95).abs() < 0.015, "{runs}: {found}");
        }
        // Of what is far from normal less, with few runs.
        let skewed = |rng: &mut Rng| exponential(rng) as f64 / 2f64.powi(64);
        let found = covered(50, &mut rng, skewed, 1.0);
        assert!((0.91..0.96).contains(&found), "{found}");
    }

    #[test]
    fn the_slope_of_what_grows_is_found_and_that_of_noise_is_not_told_from_none() {
        let noise = |at: usize| f64::from((at as u32).wrapping_mul(2_654_435_761) >> 25) - 64.0;
        let values = |slope: f64| {
            (0..100)
                .map(|at| 5_000.0 + slope * at as f64 + noise(at))
                .collect::<Vec<_>>()
        };
        let [still, growing] = [0.0, 10.0].map(|slope| StraightLine::through(&values(slope)));
        assert!(
            still.slope.abs() < still.within && still.within < 1.0,
            "{}",
            still.slope
        );
        assert!((growing.slope - 10.0).abs() < growing.within);
    }
}
