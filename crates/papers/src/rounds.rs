//! Fair comparison on a shared machine: the contenders take turns in short rounds, each round is
//! compared in itself, and the median of the comparisons counts. What costs less than the rounds
//! scatter is not judged.

use crate::ClaimVerdict;

/// The median; NaN without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Values of several contenders: one of each in every round.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rounds(Vec<Vec<f64>>);

impl Rounds {
    /// Adds a round.
    pub fn push(&mut self, round: Vec<f64>) {
        self.0.push(round);
    }

    /// The median value of this contender.
    pub fn of(&self, index: usize) -> f64 {
        median(self.0.iter().filter_map(|round| round.get(index).copied()))
    }

    /// The median difference of two contenders' values in the same round.
    pub fn more(&self, index: usize, than: usize) -> f64 {
        self.compared(index, than, |a, b| a - b)
    }

    /// The median ratio of two contenders' values in the same round.
    pub fn times(&self, index: usize, of: usize) -> f64 {
        self.compared(index, of, |a, b| a / b)
    }

    /// The uncertainty of [`more`](Self::more) from the rounds' scatter: half of the usual notch of
    /// a box plot (McGill, Tukey and Larsen 1978), 1.57 times the interquartile range over the root
    /// of the number of rounds.
    pub fn doubt(&self, index: usize, than: usize) -> f64 {
        notch(self.pairs(index, than, |a, b| a - b))
    }

    /// The uncertainty of [`times`](Self::times), in the same way.
    pub fn doubt_of_times(&self, index: usize, of: usize) -> f64 {
        notch(self.pairs(index, of, |a, b| a / b))
    }

    fn compared(&self, index: usize, with: usize, how: impl Fn(f64, f64) -> f64) -> f64 {
        median(self.pairs(index, with, how))
    }

    fn pairs(&self, index: usize, with: usize, how: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let pairs = self
            .0
            .iter()
            .filter_map(|round| Some((*round.get(index)?, *round.get(with)?)));
        pairs
            .map(|(a, b)| how(a, b))
            .filter(|value| value.is_finite())
            .collect()
    }
}

/// What a measured cost, with the uncertainty of it, says of a claim that it is at most so much.
/// Less than nothing, by more than that uncertainty, is not a cost but a disturbance.
pub fn at_most(cost: f64, doubt: f64, most: f64) -> ClaimVerdict {
    if cost - doubt > most {
        ClaimVerdict::NotShown
    } else if cost + doubt <= most && cost + doubt >= 0.0 {
        ClaimVerdict::Shown
    } else {
        ClaimVerdict::CannotBeShown
    }
}

fn notch(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => 1.57 * (values[(n - 1) * 3 / 4] - values[(n - 1) / 4]) / (n as f64).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_judged_only_where_the_scatter_leaves_a_judgement() {
        for (cost, doubt, verdict) in [
            (2.0, 1.0, ClaimVerdict::Shown),
            (-0.5, 1.0, ClaimVerdict::Shown),
            (9.5, 1.0, ClaimVerdict::CannotBeShown),
            (10.5, 1.0, ClaimVerdict::CannotBeShown),
            (11.5, 1.0, ClaimVerdict::NotShown),
            (-1.5, 1.0, ClaimVerdict::CannotBeShown),
            (2.0, 20.0, ClaimVerdict::CannotBeShown),
            (f64::NAN, 1.0, ClaimVerdict::CannotBeShown),
        ] {
            assert_eq!(at_most(cost, doubt, 10.0), verdict, "{cost} ± {doubt}");
        }
    }

    #[test]
    fn a_disturbance_that_hits_a_whole_round_or_one_reading_changes_no_comparison() {
        let mut rounds = Rounds::default();
        for disturbance in [1.0, 1.0, 7.0, 1.0, 30.0] {
            rounds.push(vec![10.0 * disturbance, 11.0 * disturbance]);
        }
        rounds.push(vec![10.0, 500.0]);
        rounds.push(vec![10.0, 11.0]);
        assert_eq!((rounds.of(0), rounds.more(1, 0)), (10.0, 1.0));
        assert!((rounds.times(1, 0) - 1.1).abs() < 1e-9);
    }

    #[test]
    fn rounds_that_agree_leave_no_doubt_and_more_of_them_leave_less() {
        let rounds = |n: u32, scatter: f64| {
            let round = |i| vec![1.0, 2.0 + scatter * f64::from(i % 5)];
            Rounds((0..n).map(round).collect())
        };
        assert!(rounds(20, 0.0).doubt(1, 0) == 0.0 && Rounds::default().doubt(1, 0).is_nan());
        assert!(rounds(20, 1.0).doubt(1, 0) > rounds(80, 1.0).doubt(1, 0));
        assert!(rounds(20, 1.0).doubt_of_times(1, 0) > rounds(20, 0.5).doubt_of_times(1, 0));
    }

    #[test]
    fn the_median_of_nothing_is_not_a_number() {
        assert!(median([]).is_nan() && median([f64::NAN]).is_nan());
        assert_eq!(median([3.0, 1.0]), 2.0);
    }
}
