//! Dividing a rate by weights, with floors, caps, and what each one can use: what one leaves, the others get.

/// One who takes part.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim {
    /// Relative to the others' weights; more than zero.
    pub weight: f64,
    /// Given first, while there is enough.
    pub floor: f64,
    /// Never more than this: a cap, or what it was seen to use.
    pub most: f64,
}

/// What each gets of `total`: in proportion to weights, but at least the floor and at most the most. If floors are more than
/// there is, they are met all the same: a floor is a promise, and `total` a wish.
pub fn divide(total: f64, claims: &[Claim]) -> Vec<f64> {
    let mut given: Vec<Option<f64>> = vec![None; claims.len()];
    // Each round settles at least one who is at a bound; the level of the others is worked out anew.
    for _ in 0..=claims.len() {
        let open = || claims.iter().zip(&given).filter(|(_, given)| given.is_none());
        let weights: f64 = open().map(|(claim, _)| claim.weight).sum();
        let left = (total - given.iter().flatten().sum::<f64>()).max(0.0);
        if weights <= 0.0 {
            break;
        }
        let level = left / weights;
        let bound = |claim: &Claim| {
            (level * claim.weight)
                .max(claim.floor.min(claim.most))
                .min(claim.most)
        };
        let excess: f64 = open().map(|(claim, _)| bound(claim) - level * claim.weight).sum();
        // Too little for the floors: those at their floors are settled first; else those at their most.
        let settles = |claim: &Claim| {
            let change = bound(claim) - level * claim.weight;
            if excess > 0.0 { change > 0.0 } else { change < 0.0 }
        };
        let settled: Vec<usize> = (0..claims.len())
            .filter(|&i| given[i].is_none() && settles(&claims[i]))
            .collect();
        if settled.is_empty() {
            for (given, claim) in given.iter_mut().zip(claims) {
                given.get_or_insert(bound(claim));
            }
            break;
        }
        for i in settled {
            given[i] = Some(bound(&claims[i]));
        }
    }
    given.into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(weight: f64, floor: f64, most: f64) -> Claim {
        Claim { weight, floor, most }
    }

    const ANY: f64 = f64::INFINITY;

    #[test]
    fn weights_decide_where_nothing_else_does() {
        let three = [claim(1.0, 0.0, ANY), claim(2.0, 0.0, ANY), claim(4.0, 0.0, ANY)];
        assert_eq!(divide(7.0, &three), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn what_one_cannot_use_the_others_get_by_weight() {
        let three = [claim(1.0, 0.0, ANY), claim(2.0, 0.0, ANY), claim(4.0, 0.0, 1.0)];
        assert_eq!(divide(7.0, &three), [2.0, 4.0, 1.0]);
        assert_eq!(divide(7.0, &[claim(1.0, 0.0, 2.0)]), [2.0], "and nobody the rest");
    }

    #[test]
    fn floors_come_first_and_are_met_even_if_there_is_too_little() {
        let two = [claim(1.0, 4.0, ANY), claim(1.0, 0.0, ANY)];
        assert_eq!(divide(5.0, &two), [4.0, 1.0]);
        assert_eq!(divide(3.0, &two), [4.0, 0.0]);
        assert_eq!(divide(0.0, &[]), [0.0; 0]);
    }

    #[test]
    fn a_cap_below_the_floor_decides() {
        assert_eq!(
            divide(9.0, &[claim(1.0, 4.0, 3.0), claim(1.0, 0.0, ANY)]),
            [3.0, 6.0]
        );
    }
}
