//! `cargo xtask nine [--write] [WORD…]`: the law of `nine` in the simulator, over a matrix of
//! lines, senders and settings, downloads and uploads; each cell judged beside what the same flows
//! have without it. Words choose cells: those whose name has them all (`upload cubic 100ms`). With
//! `--write` the page is made anew. Deterministic; not part of CI, since it takes minutes of
//! processor time.

mod cell;
mod fall;
mod page;
mod play;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs the cells, or some.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (flags, words): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    let write = match flags.as_slice() {
        [] => false,
        [flag] if *flag == "--write" && words.is_empty() => true,
        _ => return Err("usage: cargo xtask nine [WORD...], or cargo xtask nine --write".into()),
    };
    let chosen = |name: String| words.iter().all(|word| name.split(' ').any(|part| part == *word));
    let cells: Vec<cell::Cell> = cell::all().filter(|cell| chosen(cell.to_string())).collect();
    let falls: Vec<fall::Fall> = fall::all().filter(|fall| chosen(fall.to_string())).collect();
    if cells.is_empty() && falls.is_empty() {
        return Err("there is no such cell; a name is such as `10Mbit/s 20ms 1 cubic`".into());
    }
    let rows = in_parallel(&cells, |cell| {
        let row = cell.measure()?;
        println!("{}", page::cell_line(cell, &row));
        Ok(row)
    })?;
    let fallen = in_parallel(&falls, |fall| {
        let row = fall.measure()?;
        println!("{}", page::fall_line(fall, &row));
        Ok(row)
    })?;
    let cells: Vec<(cell::Cell, cell::Row)> = cells.into_iter().zip(rows).collect();
    let falls: Vec<(fall::Fall, Vec<fall::Fell>)> = falls.into_iter().zip(fallen).collect();
    println!("\n{}", page::summary(&cells, &falls));
    match write {
        true => page::write(root, &cells, &falls),
        false => Ok(()),
    }
}

/// The results, in the sequence of the cases, from as many threads as there are processors.
fn in_parallel<C: Sync, R: Send>(
    cases: &[C],
    measure: impl Fn(&C) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<R, String>>>> = Mutex::new(cases.iter().map(|_| None).collect());
    let work = || {
        while let Some((number, case)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            cases.get(number).map(|case| (number, case))
        } {
            let result = measure(case);
            let mut results = results.lock().unwrap_or_else(|broken| broken.into_inner());
            results[number] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| _ = scope.spawn(work));
    });
    let results = results.into_inner().unwrap_or_else(|broken| broken.into_inner());
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> cell::Cell {
        let mut cells = cell::all();
        cells.find(|cell| cell.to_string() == name).expect("a cell")
    }

    #[test]
    fn a_cell_is_judged_from_both_sides_and_repeats() {
        for name in ["10Mbit/s 20ms 8 cubic", "upload 10Mbit/s 20ms 8 cubic"] {
            let cell = named(name);
            let row = cell.measure().expect("it runs");
            assert_eq!(row.nine[0].1, [""; 0], "{name}: {row:?}");
            assert!(
                !cell.missed(&row.plain).is_empty(),
                "{name}: without nine the other one starves: {row:?}"
            );
            assert_eq!(Ok(row), cell.measure());
        }
    }

    /// Formerly it had 45, 51 and 94 %, and the lower one was back after 1.45 s in the last: bursts
    /// within a round trip, the swings of another one's queue, and smoothed round trips hid it, or
    /// that it had gone.
    #[test]
    fn another_host_has_its_share_over_a_long_path_and_beside_a_saw_tooth_and_gives_it_back() {
        for (name, allowed) in [
            ("10Mbit/s 100ms 1 cubic", &["t80"][..]),
            ("10Mbit/s 20ms 1 reno", &[]),
            ("10Mbit/s 50ms 8 cubic", &[]),
        ] {
            let row = named(name).measure().expect("it runs");
            let (found, missed) = &row.nine[4];
            assert_eq!(missed, allowed, "{name}: {found:?}");
        }
    }
}
