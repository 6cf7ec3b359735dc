//! What a running process of a test holds, and whether it grows.

use std::fs;

/// How many descriptors the process has, and how much memory of its own is resident, in KiB.
///
/// # Panics
///
/// If there is no such process.
pub fn of(id: u32) -> (usize, u64) {
    let descriptors = fs::read_dir(format!("/proc/{id}/fd")).expect("its descriptors");
    let maps = fs::read_to_string(format!("/proc/{id}/smaps")).expect("its memory");
    (descriptors.count(), own_memory(&maps))
}

/// What the descriptors of the process are, in the order of their numbers.
///
/// # Panics
///
/// If there is no such process.
pub fn descriptors(id: u32) -> Vec<String> {
    let all = fs::read_dir(format!("/proc/{id}/fd")).expect("its descriptors");
    let what = |path: std::path::PathBuf| {
        let number = path.file_name().unwrap_or_default().display().to_string();
        let is = fs::read_link(&path).unwrap_or_default();
        format!("{number} {}", is.display())
    };
    all.flatten().map(|entry| what(entry.path())).collect()
}

/// What is resident, in KiB, of memory that no file has, but for the memory for frames: that has a
/// fixed size, and is touched as it is needed.
fn own_memory(maps: &str) -> u64 {
    const FRAMES: u64 = 12 << 10;
    let (mut all, mut is_own, mut size) = (0, false, 0);
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = || words.get(1).and_then(|word| word.parse::<u64>().ok());
        match words[..] {
            ["Size:", ..] => size = number().unwrap_or(0),
            ["Rss:", ..] if is_own && size < FRAMES => all += number().unwrap_or(0),
            // The line that a mapping begins with: addresses, rights, and at last its name.
            [addresses, _, _, _, _, ref name @ ..] if addresses.contains('-') => {
                is_own = name.is_empty() || name[0].starts_with('[');
            }
            _ => {}
        }
    }
    all
}

/// A straight line through values at equal distances, by least squares.
pub struct Line {
    /// The mean of all values.
    pub mean: f64,
    /// From one value to the next.
    pub slope: f64,
    /// Half of the interval that contains the slope in 95 of 100 cases.
    pub within: f64,
}

impl Line {
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
            within: 1.96 * (rest / (count - 2.0) / spread).sqrt(),
        }
    }
}

#[test]
fn the_slope_of_what_grows_is_found_and_that_of_noise_is_not_told_from_none() {
    let noise = |at: usize| f64::from((at as u32).wrapping_mul(2_654_435_761) >> 25) - 64.0;
    let values = |slope: f64| {
        (0..100)
            .map(|at| 5_000.0 + slope * at as f64 + noise(at))
            .collect::<Vec<_>>()
    };
    let [still, growing] = [0.0, 10.0].map(|slope| Line::through(&values(slope)));
    assert!(
        still.slope.abs() < still.within && still.within < 1.0,
        "{}",
        still.slope
    );
    assert!((growing.slope - 10.0).abs() < growing.within);
}
