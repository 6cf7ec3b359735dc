//! Thinning: fewer points that draw the same chart. A line may have a million points, a chart has
//! some hundred columns. Each column keeps its first, least, greatest and last point, so no extreme
//! is dropped and the line stays connected. The upper edge of a band is averaged instead: a band is
//! read by its area, and the extremes of stacked bands occur at different times, so their sum never
//! existed.

/// Thins these points (in pixels, from left to right) to about `most`.
pub fn thin(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let straight = without_middles(points);
    let (Some(first), Some(last)) = (straight.first(), straight.last()) else {
        return straight;
    };
    if straight.len() <= most {
        return straight;
    }
    let columns = (most / 4).max(1);
    let width = ((last.0 - first.0) / columns as f64).max(1e-9);
    let column = |point: &(f64, f64)| (((point.0 - first.0) / width) as usize).min(columns - 1);
    let mut thinned = Vec::with_capacity(columns * 4);
    for group in straight.chunk_by(|a, b| column(a) == column(b)) {
        let of = |better: fn(&f64, &f64) -> bool| {
            (1..group.len()).fold(0, |best, index| {
                if better(&group[index].1, &group[best].1) {
                    index
                } else {
                    best
                }
            })
        };
        let mut kept = [0, of(f64::lt), of(f64::gt), group.len() - 1];
        kept.sort_unstable();
        for (place, &index) in kept.iter().enumerate() {
            if place == 0 || kept[place - 1] != index {
                thinned.push(group[index]);
            }
        }
    }
    thinned
}

/// Averages these points down to `most`; the first and the last keep their x position.
pub fn averaged(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let straight = without_middles(points);
    if straight.len() <= most {
        return straight;
    }
    let group = points.len().div_ceil(most.max(2) - 1);
    let mean = |group: &[(f64, f64)]| {
        let count = group.len() as f64;
        let sum = group.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
        (sum.0 / count, sum.1 / count)
    };
    let mut means: Vec<(f64, f64)> = points.chunks(group).map(mean).collect();
    if let (Some(first), Some(begin)) = (means.first_mut(), points.first()) {
        first.0 = begin.0;
    }
    if let (Some(last), Some(end)) = (means.last_mut(), points.last()) {
        last.0 = end.0;
    }
    means
}

/// Drops points between two others of the same height.
fn without_middles(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::with_capacity(points.len());
    let same = |a: f64, b: f64| (a - b).abs() < 0.02;
    for &point in points {
        if let [.., before, last] = kept[..]
            && same(before.1, last.1)
            && same(before.1, point.1)
        {
            kept.pop();
        }
        kept.push(point);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_spike_among_a_million_points_survives() {
        let mut points: Vec<(f64, f64)> = (0..1_000_000)
            .map(|n| (f64::from(n) / 2000.0, f64::from(n % 7)))
            .collect();
        points[123_456].1 = 99.0;
        points[765_432].1 = -99.0;
        let thinned = thin(&points, 2000);
        assert!(thinned.len() <= 2000, "{}", thinned.len());
        assert!(thinned.contains(&points[123_456]) && thinned.contains(&points[765_432]));
        assert_eq!((thinned.first(), thinned.last()), (points.first(), points.last()));
        assert!(thinned.windows(2).all(|w| w[0].0 <= w[1].0));
    }

    #[test]
    fn averages_keep_the_area_and_the_ends() {
        let points: Vec<(f64, f64)> = (0..10_000)
            .map(|n| (f64::from(n) / 10.0, f64::from(n % 2)))
            .collect();
        let few = averaged(&points, 500);
        assert!(few.len() <= 500, "{}", few.len());
        assert!(few.iter().all(|p| (p.1 - 0.5).abs() < 0.03), "{few:?}");
        assert_eq!((few[0].0, few[few.len() - 1].0), (0.0, 999.9));
        assert_eq!(averaged(&points[..3], 500), points[..3]);
    }

    #[test]
    fn few_points_stay_and_the_middles_of_level_lines_go() {
        let points = [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (4.0, 1.0)];
        assert_eq!(thin(&points, 100), [points[0], points[2], points[3], points[4]]);
        assert_eq!(thin(&[], 100), []);
        assert_eq!(thin(&[(1.0, 1.0)], 0), [(1.0, 1.0)]);
    }

    #[test]
    fn many_points_above_one_place_are_one_stroke() {
        let points: Vec<(f64, f64)> = (0..1000).map(|n| (5.0, f64::from(n % 10))).collect();
        let thinned = thin(&points, 40);
        assert!(thinned.len() <= 4, "{thinned:?}");
        assert!(thinned.iter().any(|p| p.1 == 9.0) && thinned.iter().any(|p| p.1 == 0.0));
    }
}
