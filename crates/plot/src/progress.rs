//! The progress of a long run: one line on standard error that is redrawn and finally erased.
//!
//! It appears only if standard error is a terminal, not for runs of less than a second, and at most
//! ten times a second: nobody reads faster, and terminals are slow.

use crate::colour;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Shorter runs need no line.
const SHORT: Duration = Duration::from_secs(1);
/// The minimum time between two redraws.
const PAUSE: Duration = Duration::from_millis(100);
const CELLS: usize = 24;

/// What to draw and when: everything but the clock and the terminal.
#[derive(Debug, Default)]
struct Pace {
    drawn: Option<Duration>,
}

impl Pace {
    /// What to write after this much time, if anything.
    fn draw(&mut self, since: Duration, line: impl FnOnce() -> String) -> Option<String> {
        let due = self.drawn.map_or(SHORT, |drawn| drawn + PAUSE);
        if since < due {
            return None;
        }
        self.drawn = Some(since);
        Some(format!("\r{}\x1b[K", line()))
    }

    /// The control sequence that erases the line, if it is shown.
    fn erase(&mut self) -> Option<&'static str> {
        self.drawn.take().map(|_| "\r\x1b[K")
    }
}

/// A bar filled to this fraction, with the time left and a text beside it, no wider than `width`.
fn line(part: f64, since: Duration, text: &str, width: usize) -> String {
    let full = (part.clamp(0.0, 1.0) * CELLS as f64 * 8.0).round() as usize;
    let cell = |index: usize| match full.saturating_sub(index * 8) {
        0 => '░',
        eighths @ 1..8 => ['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths - 1],
        _ => '█',
    };
    let bar: String = (0..CELLS).map(cell).collect();
    let percent = (part.clamp(0.0, 1.0) * 100.0).floor();
    let left = left(part, since).map_or_else(String::new, |left| format!("{left} left, "));
    format!("{bar} {percent:>3} %  {left}{text}")
        .chars()
        .take(width.saturating_sub(1))
        .collect()
}

/// The time left if what is missing takes as long as what is done; none at the beginning, when
/// nobody knows, and at the end.
fn left(part: f64, since: Duration) -> Option<String> {
    const KNOWN: f64 = 0.01;
    if !(KNOWN..1.0).contains(&part) {
        return None;
    }
    let seconds = (since.as_secs_f64() * (1.0 - part) / part).ceil() as u64;
    Some(match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    })
}

/// The progress line on standard error. Dropping it erases it.
#[derive(Debug)]
pub struct ProgressLine {
    begun: Instant,
    /// The terminal's width, if standard error is a terminal.
    width: Option<usize>,
    pace: Pace,
}

impl ProgressLine {
    /// Begins a run now.
    pub fn begin() -> Self {
        let width = || ratatui::crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        Self {
            begun: Instant::now(),
            width: colour::is_capable(&io::stderr()).then(width),
            pace: Pace::default(),
        }
    }

    /// The time since the beginning.
    pub fn since(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Shows the fraction that is done and what is going on, if a redraw is due.
    pub fn show(&mut self, part: f64, text: impl FnOnce() -> String) {
        if let Some(width) = self.width {
            let since = self.begun.elapsed();
            let drawn = self.pace.draw(since, || line(part, since, &text(), width));
            write(drawn.as_deref());
        }
    }

    /// Erases the line, so that later output stands alone.
    pub fn clear(&mut self) {
        write(self.pace.erase());
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Errors are ignored: a closed terminal needs no progress.
fn write(text: Option<&str>) {
    if let Some(text) = text {
        let mut out = io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_short_run_shows_nothing_and_leaves_nothing_to_erase() {
        let mut pace = Pace::default();
        assert_eq!(pace.draw(ms(999), String::new), None);
        assert_eq!(pace.erase(), None);
    }

    #[test]
    fn a_long_run_is_drawn_ten_times_a_second_and_erased_once() {
        let mut pace = Pace::default();
        let drawn = (0..3000u64).filter(|&n| pace.draw(ms(n), || "x".into()).is_some());
        assert_eq!(drawn.count(), 20);
        assert_eq!(pace.erase(), Some("\r\x1b[K"));
        assert_eq!(pace.erase(), None);
    }

    #[test]
    fn the_bar_is_as_full_as_the_run_is_far_and_the_line_fits() {
        assert_eq!(
            line(0.0, ms(0), "A5", 80),
            format!("{}   0 %  A5", "░".repeat(24))
        );
        assert_eq!(
            line(1.0, ms(0), "A5", 80),
            format!("{} 100 %  A5", "█".repeat(24))
        );
        assert!(line(0.5, ms(0), "", 80).starts_with(&("█".repeat(12) + "░")));
        assert!(line(1.0 / 48.0, ms(0), "", 80).starts_with("▌░"));
        for odd in [f64::NAN, -1.0, 7.0] {
            assert_eq!(
                line(odd, ms(0), &"long ".repeat(40), 60).chars().count(),
                59,
                "{odd}"
            );
        }
    }

    #[test]
    fn the_time_left_is_that_of_the_part_that_is_missing() {
        let after = |part, seconds| left(part, Duration::from_secs(seconds));
        assert_eq!(after(0.25, 10).as_deref(), Some("30 s"));
        assert_eq!(after(0.5, 200).as_deref(), Some("3 min 20 s"));
        assert_eq!(after(0.1, 900).as_deref(), Some("2 h 15 min"));
        for unknown in [0.0, 0.001, 1.0, 1.5, f64::NAN] {
            assert_eq!(after(unknown, 10), None, "{unknown}");
        }
        let drawn = line(0.5, ms(4000), "A5", 80);
        assert!(drawn.ends_with(" 50 %  4 s left, A5"), "{drawn}");
    }
}
