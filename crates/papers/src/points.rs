//! Runs the independent points of an experiment on all processors.

use super::Progress;
use crate::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Runs `work` for each of `points`. Returns the results in their order, or the first error.
///
/// # Errors
///
/// Returns the error of a point whose `work` failed.
pub fn all<P: Sync, A: Send>(
    points: &[P],
    progress: &mut dyn Progress,
    name: impl Fn(&P) -> String,
    work: impl Fn(&P) -> Result<A, Error> + Sync,
) -> Result<Vec<A>, Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(points.len()) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((index, point)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    points.get(index).map(|point| (index, point))
                } {
                    if sender.send((index, work(point))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut results: Vec<Option<A>> = points.iter().map(|_| None).collect();
        for (done, (index, result)) in receiver.iter().enumerate() {
            progress.show((done + 1) as f64 / points.len() as f64, &name(&points[index]));
            results[index] = Some(result?);
        }
        Ok(results.into_iter().flatten().collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl Progress for Silent {
        fn show(&mut self, _done: f64, _what: &str) {}
    }

    #[test]
    fn results_are_in_the_order_of_the_points() {
        let points: Vec<u64> = (0..50).collect();
        let work = |&point: &u64| {
            std::thread::sleep(std::time::Duration::from_micros((50 - point) * 20));
            Ok(point * point)
        };
        let results = all(&points, &mut Silent, u64::to_string, work).expect("results");
        assert!(
            results
                .iter()
                .zip(0..50)
                .all(|(result, point)| *result == point * point)
        );
    }

    #[test]
    fn the_first_failure_is_returned() {
        let work = |&point: &u64| match point {
            7 => Err(Error::new("seven")),
            _ => Ok(point),
        };
        let failure = all(&[1, 7, 9], &mut Silent, u64::to_string, work).expect_err("seven fails");
        assert_eq!(failure.to_string(), "seven");
    }
}
