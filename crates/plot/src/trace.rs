//! A trace: samples of each class's byte counter over time, and the rates computed from them.
//!
//! It keeps counters, not rates, so the rate over any window is exact: the window's bytes over its
//! length, however uneven the sampling.

use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// The samples of one class.
#[derive(Clone, Debug)]
pub struct Line {
    /// The class.
    pub name: String,
    /// Its configured rate; `None` for a best-effort class.
    pub target: Option<Bandwidth>,
    /// When its source joined.
    pub joined: Instant,
    /// Its counter at each of the trace's times.
    pub bytes: Vec<Bytes>,
}

/// The samples of one run, of all classes at the same times.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The title of the run.
    pub title: String,
    /// The link's bandwidth, on the counters' basis.
    pub link: Bandwidth,
    /// The sampling times, ascending.
    pub times: Vec<Instant>,
    /// The classes.
    pub lines: Vec<Line>,
}

/// A time span without joins, after the last new flow has settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeWindow {
    /// Its beginning.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
}

impl Trace {
    /// A trace without samples.
    pub fn new(title: &str, link: Bandwidth) -> Self {
        Self {
            title: title.into(),
            link,
            times: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Adds a class, before the first sample.
    pub fn line(&mut self, name: &str, target: Option<Bandwidth>, joined: Instant) {
        self.lines.push(Line {
            name: name.into(),
            target,
            joined,
            bytes: Vec::new(),
        });
    }

    /// Adds a sample of all counters, in the order of the lines.
    pub fn read(&mut self, at: Instant, counters: &[Bytes]) {
        self.times.push(at);
        for (line, &bytes) in self.lines.iter_mut().zip(counters) {
            line.bytes.push(bytes);
        }
    }

    /// The time of the last sample.
    pub fn end(&self) -> Instant {
        self.times.last().copied().unwrap_or(Instant::START)
    }

    /// A class's rate between each two samples, at the midpoint of them.
    pub fn rates<'a>(&'a self, line: &'a Line) -> impl Iterator<Item = (Instant, Bandwidth)> + 'a {
        let steps = self.times.windows(2).zip(line.bytes.windows(2));
        steps.map(|(t, b)| {
            let span = t[1].since(t[0]);
            (
                t[0] + Duration::from_nanos(span.nanos() / 2),
                Bandwidth::of(b[1] - b[0], span),
            )
        })
    }

    /// The rate over the last `span`, or since the beginning if that is shorter.
    pub fn latest(&self, line: &Line, span: Duration) -> Bandwidth {
        self.measured(
            line,
            &[TimeWindow {
                from: self.end() - span,
                to: self.end(),
            }],
        )
    }

    /// A class's measured rate in these windows: the bytes between the outermost samples of each.
    pub fn measured(&self, line: &Line, windows: &[TimeWindow]) -> Bandwidth {
        let (mut bytes, mut span) = (Bytes::ZERO, Duration::ZERO);
        for window in windows {
            let first = self.times.partition_point(|&t| t < window.from);
            let after = self.times.partition_point(|&t| t <= window.to);
            if after > first + 1 {
                bytes += line.bytes[after - 1] - line.bytes[first];
                span += self.times[after - 1].since(self.times[first]);
            }
        }
        Bandwidth::of(bytes, span)
    }

    /// A class's counter at any time, interpolated linearly. For drawing.
    pub fn counter(&self, line: &Line, at: Instant) -> f64 {
        let after = self.times.partition_point(|&t| t <= at);
        let Some(before) = after.checked_sub(1) else {
            return line.bytes.first().map_or(0.0, |b| b.get() as f64);
        };
        let low = line.bytes[before].get() as f64;
        let Some(next) = self.times.get(after) else {
            return low;
        };
        let part = at.since(self.times[before]).as_secs_f64() / next.since(self.times[before]).as_secs_f64();
        low + (line.bytes[after].get() as f64 - low) * part
    }

    /// The steady windows of a class present from `joined` on: between the joins of others, each
    /// from `settle` after the join that begins it.
    pub fn steady(&self, joined: Instant, settle: Duration) -> Vec<TimeWindow> {
        let mut edges: Vec<Instant> = self
            .lines
            .iter()
            .map(|l| l.joined)
            .filter(|&j| j >= joined)
            .collect();
        edges.push(self.end());
        edges.sort_unstable();
        edges.dedup();
        let windows = edges.windows(2).map(|w| TimeWindow {
            from: w[0] + settle,
            to: w[1],
        });
        windows.filter(|w| w.from < w.to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    /// 1000 B in each of the first ten 100 ms, then 2000 B; a second class joins at 1 s.
    fn trace() -> Trace {
        let mut trace = Trace::new("trial", Bandwidth::mbit(1));
        trace.line("a", Some(Bandwidth::kbit(80)), at(0));
        trace.line("b", None, at(1000));
        let mut sum = 0;
        for step in 0..=20 {
            trace.read(at(step * 100), &[Bytes::new(sum), Bytes::ZERO]);
            sum += if step < 10 { 1000 } else { 2000 };
        }
        trace
    }

    #[test]
    fn a_rate_is_the_bytes_of_the_window_over_its_length() {
        let trace = trace();
        let first = TimeWindow {
            from: at(0),
            to: at(1000),
        };
        let second = TimeWindow {
            from: at(1000),
            to: at(2000),
        };
        assert_eq!(trace.measured(&trace.lines[0], &[first]), Bandwidth::kbit(80));
        assert_eq!(trace.measured(&trace.lines[0], &[second]), Bandwidth::kbit(160));
        assert_eq!(
            trace.measured(&trace.lines[0], &[first, second]),
            Bandwidth::kbit(120)
        );
        assert_eq!(
            trace.latest(&trace.lines[0], Duration::from_millis(500)),
            Bandwidth::kbit(160)
        );
    }

    #[test]
    fn steady_windows_leave_out_the_time_after_each_join() {
        let trace = trace();
        let settle = Duration::from_millis(300);
        let all = trace.steady(at(0), settle);
        assert_eq!(
            all,
            [
                TimeWindow {
                    from: at(300),
                    to: at(1000)
                },
                TimeWindow {
                    from: at(1300),
                    to: at(2000)
                }
            ]
        );
        assert_eq!(trace.steady(at(1000), settle), all[1..]);
    }

    #[test]
    fn between_readings_the_counter_is_on_a_straight_line() {
        let trace = trace();
        let counters = [0, 50, 100, 150, 5000].map(|ms| trace.counter(&trace.lines[0], at(ms)));
        assert_eq!(counters, [0.0, 500.0, 1000.0, 1500.0, 30_000.0]);
    }

    #[test]
    fn no_reading_is_no_rate() {
        let mut trace = Trace::new("empty", Bandwidth::mbit(1));
        trace.line("a", None, at(0));
        assert_eq!(
            trace.measured(&trace.lines[0], &trace.steady(at(0), Duration::ZERO)),
            Bandwidth::ZERO
        );
        assert_eq!(
            trace.latest(&trace.lines[0], Duration::from_millis(500)),
            Bandwidth::ZERO
        );
    }
}
