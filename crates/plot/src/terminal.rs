//! The graph in the terminal: bands of class bandwidth that add up to the link, live or afterwards.
//!
//! A cell has eight steps of height: block characters show the lower band in the foreground colour
//! and the band above in the background colour. Without colours a band is filled with its class's
//! number. If the output is not a terminal, there is one plain line per second.

use crate::axis::{Axis, AxisUnit, Scale, digits};
use crate::colour;
use crate::trace::Trace;
use engine::units::{Duration, Instant};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

/// The abilities of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// It is a terminal and can be redrawn.
    pub redraw: bool,
    /// It supports colours, and the user wants them.
    pub colour: bool,
    /// Its width in characters.
    pub width: usize,
}

impl Abilities {
    /// Detects the abilities of this output.
    pub fn of(output: &impl IsTerminal) -> Self {
        let width = ratatui::crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        Self {
            redraw: colour::is_capable(output),
            colour: colour::wanted(output),
            width: width.clamp(50, 120),
        }
    }
}

/// A live graph of a run.
#[derive(Debug)]
pub struct Live {
    abilities: Abilities,
    length: Duration,
    drawn: usize,
    printed: u64,
}

const ROWS: usize = 12;
const SCALE: usize = 5;
const LEGEND: usize = 29;
/// A narrower graph shows nothing that the table does not.
const WIDE: usize = 72;
/// The 256-colour codes nearest to the charts' palette that show on light and dark backgrounds.
const COLOURS: [u8; 6] = [32, 202, 36, 169, 178, 75];
const REST: u8 = 245;

impl Live {
    /// A graph for a run of this length.
    pub fn new(abilities: Abilities, length: Duration) -> Self {
        Self {
            abilities,
            length,
            drawn: 0,
            printed: 0,
        }
    }

    /// Redraws the graph from the trace, with `note` below it.
    ///
    /// # Errors
    ///
    /// Returns an error if writing to `out` fails.
    pub fn show(&mut self, out: &mut dyn Write, trace: &Trace, note: &str) -> io::Result<()> {
        if !self.abilities.redraw {
            return self.print_seconds(out, trace);
        }
        let mut text = String::new();
        if self.drawn > 0 {
            let _ = write!(text, "\x1b[{}A", self.drawn);
        }
        let mut lines = graph(trace, self.length, self.abilities, RateSpan::Now);
        lines.push(note.to_string());
        for line in &lines {
            let _ = writeln!(text, "\r{line}\x1b[K");
        }
        self.drawn = lines.len();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Writes one line for each second that has passed.
    fn print_seconds(&mut self, out: &mut dyn Write, trace: &Trace) -> io::Result<()> {
        let second = trace.end().nanos() / 1_000_000_000;
        if second <= self.printed {
            return Ok(());
        }
        let (from, to) = (at(self.printed as f64), at(second as f64));
        self.printed = second;
        write!(out, "{second:>4} s")?;
        for line in &trace.lines {
            if line.joined >= to {
                write!(out, "  {} -", line.name)?;
            } else {
                let rate = (trace.counter(line, to) - trace.counter(line, from)) * 8.0;
                write!(
                    out,
                    "  {} {:.1}",
                    line.name,
                    rate / to.since(from).as_secs_f64() / 1e6
                )?;
            }
        }
        writeln!(out, "  Mbit/s")?;
        out.flush()
    }
}

/// The graph of a whole run; empty if the terminal is too narrow for it.
pub fn still(trace: &Trace, abilities: Abilities) -> Vec<String> {
    if !abilities.redraw || abilities.width < WIDE {
        return Vec::new();
    }
    let length = trace.end().since(Instant::START);
    graph(trace, length, abilities, RateSpan::Mean)
}

/// The rates beside the names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RateSpan {
    /// The rates of the last second.
    Now,
    /// The rates of the whole run.
    Mean,
}

fn at(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9) as u64)
}

/// The lines of the graph: bands, time axis, and the legend beside them.
fn graph(trace: &Trace, length: Duration, abilities: Abilities, span_of_rates: RateSpan) -> Vec<String> {
    let columns = abilities.width.saturating_sub(SCALE + 2 + LEGEND).max(16);
    let column = length.as_secs_f64().max(1e-3) / columns as f64;
    let full = trace.link.bits().max(1) as f64;
    let stacks: Vec<Vec<usize>> = (0..columns)
        .map(|c| stack(trace, column * c as f64, column * (c + 1) as f64, full))
        .collect();
    let legend = legend(trace, abilities, span_of_rates);
    let (_, unit) = unit(trace);
    let mut lines = Vec::with_capacity(ROWS + 3);
    for row in (0..ROWS).rev() {
        let from_top = ROWS - 1 - row;
        let level = full * (row + 1) as f64 / ROWS as f64 / unit;
        let mut text = match from_top % 3 {
            0 => format!("{:>SCALE$} ┤", digits(level)),
            _ => format!("{:SCALE$} │", ""),
        };
        for stack in &stacks {
            cell(&mut text, trace, stack, row, abilities.colour);
        }
        if abilities.colour {
            text.push_str("\x1b[0m");
        }
        text.push_str(legend.get(from_top).map_or("", String::as_str));
        lines.push(text);
    }
    lines.extend(axis(trace, length, columns));
    lines
}

/// The upper edges of the bands in one column, in eighths of a row. Empty where there is no sample
/// yet.
fn stack(trace: &Trace, from: f64, to: f64, full: f64) -> Vec<usize> {
    if at(to) > trace.end() {
        return Vec::new();
    }
    let mut sum = 0.0;
    let edge = |line| {
        sum += (trace.counter(line, at(to)) - trace.counter(line, at(from))) * 8.0 / (to - from);
        ((sum / full * (ROWS * 8) as f64).round() as usize).min(ROWS * 8)
    };
    trace.lines.iter().map(edge).collect()
}

/// One character: the two bands that fill most of the cell, the lower one in the foreground.
fn cell(text: &mut String, trace: &Trace, stack: &[usize], row: usize, colour: bool) {
    let (floor, ceiling) = (row * 8, row * 8 + 8);
    let mut low = 0;
    let mut parts: Vec<(usize, Option<usize>)> = Vec::new();
    for (class, &edge) in stack.iter().enumerate() {
        let part = edge.min(ceiling).saturating_sub(low.max(floor));
        low = low.max(edge);
        parts.push((part, Some(class)));
    }
    parts.push((ceiling.saturating_sub(low.max(floor)), None));
    while parts.iter().filter(|p| p.0 > 0).count() > 2 {
        if let Some(least) = parts.iter().filter(|p| p.0 > 0).map(|p| p.0).min()
            && let Some(index) = parts.iter().position(|p| p.0 == least)
        {
            parts.remove(index);
        }
    }
    parts.retain(|p| p.0 > 0);
    let (height, lower) = parts.first().copied().unwrap_or((0, None));
    let upper = parts.get(1).and_then(|p| p.1);
    match (lower, colour) {
        (None, true) => text.push_str("\x1b[0m "),
        (None, false) => text.push(' '),
        (Some(class), false) => {
            let class = if height >= 4 { Some(class) } else { upper };
            text.push(class.map_or(' ', |class| letter(trace, class)));
        }
        (Some(class), true) => {
            let scaled = if parts.len() == 1 {
                8
            } else {
                (height * 8 / (height + parts[1].0)).clamp(1, 7)
            };
            let block = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][scaled - 1];
            let behind = upper.map_or("49".into(), |class| format!("48;5;{}", shade(trace, class)));
            let _ = write!(text, "\x1b[38;5;{};{behind}m{block}", shade(trace, class));
        }
    }
}

fn shade(trace: &Trace, class: usize) -> u8 {
    match colour_of(trace, class) {
        Some(place) => COLOURS[place % COLOURS.len()],
        None => REST,
    }
}

fn letter(trace: &Trace, class: usize) -> char {
    match colour_of(trace, class) {
        Some(place) => char::from_digit((place as u32 + 1) % 36, 36).unwrap_or('?'),
        None => '.',
    }
}

/// A class's palette index; none for a single class without a configured rate.
fn colour_of(trace: &Trace, class: usize) -> Option<usize> {
    let takes_the_rest = |line: &&super::trace::Line| line.target.is_none();
    let rest = trace.lines.iter().filter(takes_the_rest).count() == 1;
    if rest && trace.lines[class].target.is_none() {
        return None;
    }
    let before = trace.lines[..class].iter();
    Some(before.filter(|line| !rest || line.target.is_some()).count())
}

/// The unit that suits the link, and its multiple of 1 bit/s.
fn unit(trace: &Trace) -> (&'static str, f64) {
    match trace.link.bits() {
        0..2_000_000 => ("kbit/s", 1e3),
        2_000_000..2_000_000_000 => ("Mbit/s", 1e6),
        _ => ("Gbit/s", 1e9),
    }
}

/// The legend, topmost band first: names with current or mean rates.
fn legend(trace: &Trace, abilities: Abilities, span_of_rates: RateSpan) -> Vec<String> {
    let (name, unit) = unit(trace);
    let (title, span) = match span_of_rates {
        RateSpan::Now => ("now", Duration::from_secs(1)),
        RateSpan::Mean => ("mean", trace.end().since(Instant::START)),
    };
    let mut lines = vec![format!("  {:14}{title:>6} {name}", "")];
    for (class, line) in trace.lines.iter().enumerate().rev() {
        let key = match abilities.colour {
            true => format!("\x1b[38;5;{}m█\x1b[0m", shade(trace, class)),
            false => letter(trace, class).to_string(),
        };
        let now = trace.latest(line, span);
        let configured = line.target.map_or(String::new(), |target| {
            format!("of {}", digits(target.bits() as f64 / unit))
        });
        let measured = if line.joined >= trace.end() {
            "-".into()
        } else {
            format!("{:.1}", now.bits() as f64 / unit)
        };
        let mut name: String = line.name.chars().take(12).collect();
        if name.len() < line.name.len() {
            name = name.chars().take(11).collect::<String>() + "…";
        }
        lines.push(format!("  {key} {name:<12}{measured:>6} {configured}"));
    }
    lines
}

/// The time axis, with a mark at each join.
fn axis(trace: &Trace, length: Duration, columns: usize) -> [String; 2] {
    let place = |seconds: f64| (seconds / length.as_secs_f64().max(1e-3) * columns as f64) as usize;
    let mut ticks = vec!['─'; columns];
    for line in &trace.lines {
        let column = place(line.joined.since(Instant::START).as_secs_f64());
        if let Some(tick) = ticks.get_mut(column) {
            *tick = '┴';
        }
    }
    let mut labels = String::new();
    let scale = Scale::of(
        &Axis::new("", AxisUnit::Time).between(0.0, length.as_secs_f64().max(1e-9)),
        std::iter::empty(),
    );
    for tick in scale.ticks(6) {
        let width = (scale.place(tick.at) * columns as f64) as usize;
        let _ = write!(
            labels,
            "{:width$}{}",
            "",
            tick.text,
            width = width.saturating_sub(labels.len())
        );
    }
    let name = scale.name();
    let ticks: String = ticks.into_iter().collect();
    [
        format!("{:SCALE$} └{ticks}", ""),
        format!("{:SCALE$}  {labels} {name}", ""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::{Bandwidth, Bytes};

    const PLAIN: Abilities = Abilities {
        redraw: true,
        colour: false,
        width: 80,
    };

    /// Over 10 s, `a` has 75 of 100 Mbit/s, the best-effort class 25.
    fn trace(seconds: u64) -> Trace {
        let mut trace = Trace::new("trial", Bandwidth::mbit(100));
        trace.line("a", Some(Bandwidth::mbit(75)), Instant::START);
        trace.line("rest", None, Instant::START);
        for step in 0..=seconds * 4 {
            let at = Instant::START + Duration::from_millis(step * 250);
            trace.read(at, &[Bytes::new(step * 2_343_750), Bytes::new(step * 781_250)]);
        }
        trace
    }

    #[test]
    fn bands_are_as_high_as_their_share() {
        let lines = graph(&trace(10), Duration::from_secs(10), PLAIN, RateSpan::Now);
        let column: String = lines[..ROWS]
            .iter()
            .filter_map(|line| line.chars().nth(SCALE + 10))
            .collect();
        assert_eq!(column, "...111111111");
    }

    #[test]
    fn the_future_is_blank() {
        let lines = graph(&trace(5), Duration::from_secs(10), PLAIN, RateSpan::Now);
        let bottom: Vec<char> = lines[ROWS - 1].chars().skip(SCALE + 2).take(44).collect();
        assert_eq!(bottom.iter().filter(|c| **c == '1').count(), 22, "{bottom:?}");
    }

    #[test]
    fn without_colours_no_colour_code_is_written_and_no_line_is_too_wide() {
        for line in graph(&trace(10), Duration::from_secs(10), PLAIN, RateSpan::Now) {
            assert!(!line.contains('\x1b'), "{line:?}");
            assert!(line.chars().count() <= 80, "{line:?}");
        }
    }

    #[test]
    fn a_still_graph_has_the_means_and_only_where_there_is_room() {
        let lines = still(&trace(600), PLAIN);
        assert!(lines[0].ends_with("mean Mbit/s"), "{lines:#?}");
        assert!(lines[2].ends_with("1 a             75.0 of 75"), "{lines:#?}");
        let labels: Vec<&str> = lines[ROWS + 1].split_whitespace().collect();
        assert_eq!(labels, ["0", "100", "200", "300", "400", "500", "600", "s"]);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        let narrow = Abilities { width: 60, ..PLAIN };
        assert!(still(&trace(600), narrow).is_empty());
    }

    #[test]
    fn where_nothing_can_be_redrawn_there_is_one_line_a_second() {
        let (mut out, trace) = (Vec::new(), trace(3));
        let abilities = Abilities {
            redraw: false,
            ..PLAIN
        };
        let mut live = Live::new(abilities, Duration::from_secs(3));
        let mut part = Trace {
            times: Vec::new(),
            ..trace.clone()
        };
        part.lines.iter_mut().for_each(|line| line.bytes.clear());
        for (index, &time) in trace.times.iter().enumerate() {
            let counters: Vec<Bytes> = trace.lines.iter().map(|line| line.bytes[index]).collect();
            part.read(time, &counters);
            live.show(&mut out, &part, "").expect("written");
        }
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(
            text.lines()
                .all(|line| line.ends_with("a 75.0  rest 25.0  Mbit/s")),
            "{text}"
        );
    }
}
