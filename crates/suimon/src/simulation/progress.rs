//! A line on the terminal that says how far a long run is.

use super::points::Done;
use crate::colour;
use control::figures;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Runs that are over before this need no line.
const SHORT: Duration = Duration::from_secs(1);
const WIDTH: usize = 24;

/// The line, where standard error is a terminal.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    wanted: bool,
    shown: bool,
    total: u64,
    points: usize,
}

impl Progress {
    /// For a run of so many points that simulates so many nanoseconds altogether.
    pub fn new(points: usize, total: u64) -> Self {
        let stderr = io::stderr();
        Self {
            begun: Instant::now(),
            wanted: stderr.is_terminal() && colour::is_capable(&stderr),
            shown: false,
            total: total.max(1),
            points,
        }
    }

    /// Draws the line anew, if the run is a long one.
    pub fn show(&mut self, done: &Done) {
        let since = self.begun.elapsed();
        if !self.wanted || since < SHORT {
            return;
        }
        self.shown = true;
        let simulated = done.simulated.load(Ordering::Relaxed);
        let events = done.events.load(Ordering::Relaxed) as f64 / since.as_secs_f64();
        let full = (u128::from(simulated) * WIDTH as u128 / u128::from(self.total)) as usize;
        let bar: String = (0..WIDTH)
            .map(|cell| if cell < full { '█' } else { '░' })
            .collect();
        let points = match self.points {
            1 => String::new(),
            all => format!("  {} of {all} points", done.points.load(Ordering::Relaxed)),
        };
        let (now, all) = (figures::time(simulated), figures::time(self.total));
        let line = format!(
            "{bar}  {now} of {all}{points}  {} events/s",
            figures::count(events as u64)
        );
        // A terminal that has gone away needs no progress.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }

    /// Takes the line away, so that what follows stands alone.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
