//! Weighted division of a rate (max-min fair) with floors and caps: what one cannot use, the others
//! get.

/// One claim on the rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShareClaim {
    /// Its weight relative to the others; positive.
    pub weight: f64,
    /// Its floor, served first.
    pub floor: f64,
    /// Its cap, or its measured demand.
    pub most: f64,
}

/// The share of each claim in `total`: in proportion to weights, between `floor` and `most`. Floors
/// are met even where their sum exceeds `total`: a floor is guaranteed, `total` is a target.
pub fn divide(total: f64, claims: &[ShareClaim]) -> Vec<f64> {
    let mut given: Vec<Option<f64>> = vec![None; claims.len()];
    // Each round fixes at least one claim at a bound. The level of the others is computed anew.
    for _ in 0..=claims.len() {
        let open = || claims.iter().zip(&given).filter(|(_, given)| given.is_none());
        let weights: f64 = open().map(|(claim, _)| claim.weight).sum();
        let left = (total - given.iter().flatten().sum::<f64>()).max(0.0);
        if weights <= 0.0 {
            break;
        }
        let level = left / weights;
        let bound = |claim: &ShareClaim| {
            (level * claim.weight)
                .max(claim.floor.min(claim.most))
                .min(claim.most)
        };
        let excess: f64 = open().map(|(claim, _)| bound(claim) - level * claim.weight).sum();
        // If floors raise the sum, claims at their floors are fixed first; else those at their
        // most.
        let is_fixed = |claim: &ShareClaim| {
            let change = bound(claim) - level * claim.weight;
            if excess > 0.0 { change > 0.0 } else { change < 0.0 }
        };
        let fixed: Vec<usize> = (0..claims.len())
            .filter(|&i| given[i].is_none() && is_fixed(&claims[i]))
            .collect();
        if fixed.is_empty() {
            for (given, claim) in given.iter_mut().zip(claims) {
                given.get_or_insert(bound(claim));
            }
            break;
        }
        for i in fixed {
            given[i] = Some(bound(&claims[i]));
        }
    }
    given.into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(weight: f64, floor: f64, most: f64) -> ShareClaim {
        ShareClaim { weight, floor, most }
    }

    const ANY: f64 = f64::INFINITY;

    #[test]
    fn without_bounds_shares_follow_weights() {
        let three = [claim(1.0, 0.0, ANY), claim(2.0, 0.0, ANY), claim(4.0, 0.0, ANY)];
        assert_eq!(divide(7.0, &three), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn unused_share_goes_to_the_others_by_weight() {
        let three = [claim(1.0, 0.0, ANY), claim(2.0, 0.0, ANY), claim(4.0, 0.0, 1.0)];
        assert_eq!(divide(7.0, &three), [2.0, 4.0, 1.0]);
        assert_eq!(divide(7.0, &[claim(1.0, 0.0, 2.0)]), [2.0], "the rest is unused");
    }

    #[test]
    fn floors_are_met_even_if_the_total_is_too_small() {
        let two = [claim(1.0, 4.0, ANY), claim(1.0, 0.0, ANY)];
        assert_eq!(divide(5.0, &two), [4.0, 1.0]);
        assert_eq!(divide(3.0, &two), [4.0, 0.0]);
        assert_eq!(divide(0.0, &[]), [0.0; 0]);
    }

    #[test]
    fn a_cap_below_the_floor_takes_precedence() {
        assert_eq!(
            divide(9.0, &[claim(1.0, 4.0, 3.0), claim(1.0, 0.0, ANY)]),
            [3.0, 6.0]
        );
    }
}
