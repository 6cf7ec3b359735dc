//! Charts of a trace: class bandwidth over time, as lines (cbqmonitor's view, Cho 1999, Fig. 8) or
//! as bands that add up to the link.
//!
//! Each class is named where its line ends, with its measured and its configured rate, so the chart
//! is readable without colours. Dashed lines are configured rates. Small triangles on the time axis
//! mark joins.

use crate::svg::{PALETTE, Paint};
use crate::trace::{Line, TimeWindow, Trace};
use crate::{Level, Plot, PlotEvent, PlotStyle, Series, Stroke, rates_over_time};
use engine::units::{Duration, Instant};

/// One panel: a trace and its caption.
#[derive(Debug)]
pub struct Panel<'a> {
    /// The caption above the panel.
    pub caption: String,
    /// The trace.
    pub trace: &'a Trace,
    /// Lines or bands.
    pub style: PlotStyle,
    /// How long a new flow may take to settle; excluded from the averages beside the names.
    pub settle: Duration,
}

/// Draws these panels one below the other.
pub fn picture(title: &str, panels: &[Panel<'_>]) -> String {
    let plots: Vec<Plot> = panels.iter().map(Panel::plot).collect();
    crate::picture(title, &plots)
}

/// The paint of each line of the trace.
pub fn paints(trace: &Trace) -> Vec<Paint> {
    let (rest, colours) = (PALETTE[PALETTE.len() - 1], PALETTE.len() - 1);
    let mut next = 0..;
    let choose = |line: &Line| match line.target {
        Some(_) => PALETTE[next.next().unwrap_or(0) % colours],
        None => rest,
    };
    trace.lines.iter().map(choose).collect()
}

impl Panel<'_> {
    fn plot(&self) -> Plot {
        let trace = self.trace;
        let mut series = Vec::new();
        let mut events = Vec::new();
        for (line, paint) in trace.lines.iter().zip(paints(trace)) {
            if let (Some(target), PlotStyle::Lines) = (line.target, self.style) {
                let level = target.bits() as f64;
                let ends = [line.joined, trace.end()];
                series.push(Series {
                    paint: Some(paint),
                    stroke: Stroke::Dashed,
                    ..Series::new("", ends.map(|at| (seconds(at), level)).to_vec())
                });
            }
            series.push(Series::new(&self.name(line), self.points(line)).in_paint(paint));
            events.push(PlotEvent {
                at: seconds(line.joined),
                paint,
                name: format!("{} joins", line.name),
            });
        }
        let link = trace.link.bits() as f64;
        let mut plot = rates_over_time(&self.caption, self.style, series);
        plot.x = plot.x.between(0.0, seconds(trace.end()).max(1.0));
        plot.y = plot.y.between(0.0, self.highest() * 1.04);
        plot.levels.push(Level {
            at: link,
            name: format!("link {}", trace.link),
        });
        plot.events = events;
        plot
    }

    /// The link's rate is the top of the chart. A sample a little above it must not rescale the
    /// chart.
    fn highest(&self) -> f64 {
        let lines = self.trace.lines.iter();
        let rates = lines
            .flat_map(|line| self.trace.rates(line))
            .map(|(_, rate)| rate.bits());
        let (peak, link) = (rates.max().unwrap_or(0) as f64, self.trace.link.bits() as f64);
        link.max(peak.min(link * 1.1)).max(1.0)
    }

    fn points(&self, line: &Line) -> Vec<(f64, f64)> {
        let drawn = |at: Instant| self.style == PlotStyle::Bands || at >= line.joined;
        let rates = self.trace.rates(line).filter(|(at, _)| drawn(*at));
        rates
            .map(|(at, rate)| (seconds(at), rate.bits() as f64))
            .collect()
    }

    /// The class's name, its rate in the last window, and its configured rate.
    fn name(&self, line: &Line) -> String {
        let windows = self.trace.steady(line.joined, self.settle);
        let last: Vec<TimeWindow> = windows.last().copied().into_iter().collect();
        let factor = match self.trace.link.bits() {
            0..1_000_000 => 1e3,
            1_000_000..1_000_000_000 => 1e6,
            _ => 1e9,
        };
        let measured = self.trace.measured(line, &last).bits() as f64 / factor;
        match line.target {
            Some(target) => format!(
                "{}  {measured:.1} of {}",
                line.name,
                target.bits() as f64 / factor
            ),
            None => format!("{}  {measured:.1}", line.name),
        }
    }
}

fn seconds(at: Instant) -> f64 {
    at.since(Instant::START).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::{Bandwidth, Bytes};

    fn trace() -> Trace {
        let mut trace = Trace::new("trial", Bandwidth::mbit(100));
        trace.line("a", Some(Bandwidth::mbit(60)), Instant::START);
        trace.line("rest", None, Instant::START);
        for step in 0..=10u64 {
            let at = Instant::START + Duration::from_millis(step * 100);
            trace.read(at, &[Bytes::new(step * 750_000), Bytes::new(step * 500_000)]);
        }
        trace
    }

    #[test]
    fn the_chart_names_each_class_with_its_measured_and_configured_rate() {
        let trace = trace();
        for style in [PlotStyle::Lines, PlotStyle::Bands] {
            let panel = Panel {
                caption: "c".into(),
                trace: &trace,
                style,
                settle: Duration::ZERO,
            };
            let svg = picture("t", &[panel]);
            assert!(svg.contains("a  60.0 of 60"), "{svg}");
            assert!(svg.contains("rest  40.0<"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_trace_without_readings_is_an_empty_picture_and_no_panic() {
        let mut trace = Trace::new("empty", Bandwidth::ZERO);
        trace.line("a", None, Instant::START);
        for style in [PlotStyle::Lines, PlotStyle::Bands] {
            let panel = Panel {
                caption: String::new(),
                trace: &trace,
                style,
                settle: Duration::ZERO,
            };
            let svg = picture("t", &[panel]);
            assert!(!svg.contains("NaN"), "{svg}");
        }
    }
}
