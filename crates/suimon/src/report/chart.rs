//! Pictures of a trace: class bandwidth over time, as lines (cbqmonitor's view, Cho 1999, Fig. 8) or as
//! bands that add up to the link.
//!
//! Each class is named where its line ends, with what it got and what it asked for, so that the picture can
//! be read without colours. Dashed lines are what was asked for. Small triangles on the time axis are joins.

use super::svg::{Anchor, FAINT, GREY, INK, PALETTE, PAPER, Paint, Svg};
use super::trace::{Line, Trace, Window};
use engine::units::{Bandwidth, Duration, Instant};

/// How classes are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// A line each, from zero.
    Lines,
    /// A band each, on top of each other.
    Bands,
}

/// One panel: a trace, and what to call it.
#[derive(Debug)]
pub struct Panel<'a> {
    /// Above the panel.
    pub caption: String,
    /// What is drawn.
    pub trace: &'a Trace,
    /// How.
    pub style: Style,
    /// How long a newcomer may take to settle, for the averages beside the names.
    pub settle: Duration,
}

const WIDTH: f64 = 760.0;
const PANEL: f64 = 290.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 186.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 42.0;
const LINE_HEIGHT: f64 = 15.0;

/// The picture with these panels, one below the other.
pub fn picture(title: &str, panels: &[Panel<'_>]) -> String {
    let height = PANEL * panels.len() as f64;
    let mut svg = Svg::new(WIDTH, height, title);
    svg.rect((0.0, 0.0), (WIDTH, height), PAPER);
    for (index, panel) in panels.iter().enumerate() {
        let scale = Scale::of(panel.trace, PANEL * index as f64);
        axes(&mut svg, &scale, panel);
        match panel.style {
            Style::Lines => lines(&mut svg, &scale, panel.trace),
            Style::Bands => bands(&mut svg, &scale, panel.trace),
        }
        labels(&mut svg, &scale, panel);
    }
    svg.finish()
}

/// The paint of each of the trace's lines.
pub fn paints(trace: &Trace) -> Vec<Paint> {
    let (rest, colours) = (PALETTE[PALETTE.len() - 1], PALETTE.len() - 1);
    let mut next = 0..;
    let choose = |line: &Line| match line.target {
        Some(_) => PALETTE[next.next().unwrap_or(0) % colours],
        None => rest,
    };
    trace.lines.iter().map(choose).collect()
}

/// From time and rate to a place in the picture.
struct Scale {
    top: f64,
    end: f64,
    highest: f64,
    tick: f64,
    unit: (&'static str, f64),
}

impl Scale {
    fn of(trace: &Trace, top: f64) -> Self {
        let peak = trace
            .lines
            .iter()
            .flat_map(|line| trace.rates(line))
            .map(|(_, rate)| rate.bits());
        let highest = peak.max().unwrap_or(0).max(trace.link.bits()).max(1) as f64;
        let unit = unit(trace.link);
        let tick = step(highest / unit.1 / 5.0) * unit.1;
        // The link's rate is the picture's ceiling; a reading a little above it must not squeeze the rest.
        let highest = (trace.link.bits() as f64)
            .max(highest.min(trace.link.bits() as f64 * 1.1))
            .max(1.0);
        Self {
            top,
            end: seconds(trace.end()).max(1.0),
            highest: highest * 1.04,
            tick,
            unit,
        }
    }

    fn x(&self, at: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * at / self.end
    }

    fn y(&self, bits: f64) -> f64 {
        let height = PANEL - TOP - BOTTOM;
        self.top + TOP + height * (1.0 - (bits / self.highest).clamp(0.0, 1.0))
    }
}

/// The unit that suits this link, and how many bits per second it is.
fn unit(link: Bandwidth) -> (&'static str, f64) {
    match link.bits() {
        0..2_000_000 => ("kbit/s", 1e3),
        2_000_000..2_000_000_000 => ("Mbit/s", 1e6),
        _ => ("Gbit/s", 1e9),
    }
}

/// The round number (1, 2 or 5 times a power of ten) nearest above.
fn step(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.max(1e-9).log10().floor());
    let rounds = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
    rounds
        .into_iter()
        .find(|&round| round >= at_least)
        .unwrap_or(rounds[3])
}

fn seconds(at: Instant) -> f64 {
    at.since(Instant::START).as_secs_f64()
}

fn axes(svg: &mut Svg, scale: &Scale, panel: &Panel<'_>) {
    let (left, right, floor) = (LEFT, WIDTH - RIGHT, scale.y(0.0));
    svg.text((left, scale.top + 20.0), Anchor::Start, INK, &panel.caption);
    let mut level = 0.0;
    while level <= scale.highest {
        let y = scale.y(level);
        svg.line((left, y), (right, y), FAINT, 1.0, "");
        let label = format!("{}", (level / scale.unit.1 * 100.0).round() / 100.0);
        svg.text((left - 7.0, y + 4.0), Anchor::End, GREY, &label);
        level += scale.tick;
    }
    svg.text((left - 7.0, scale.top + 20.0), Anchor::End, GREY, scale.unit.0);
    let every = step(scale.end / 8.0);
    let mut at = 0.0;
    while at <= scale.end + 1e-6 {
        let x = scale.x(at);
        svg.line((x, floor), (x, floor + 4.0), INK, 1.0, "");
        svg.text(
            (x, floor + 18.0),
            Anchor::Middle,
            GREY,
            &format!("{}", (at * 100.0).round() / 100.0),
        );
        at += every;
    }
    svg.text((right, floor + 36.0), Anchor::End, GREY, "seconds");
    svg.line((left, floor), (right, floor), INK, 1.0, "");
    let link = panel.trace.link.bits() as f64;
    svg.line((left, scale.y(link)), (right, scale.y(link)), INK, 1.0, "1.5 3");
    svg.text(
        (right + 8.0, scale.y(link) - 3.0),
        Anchor::Start,
        GREY,
        &format!("link {}", panel.trace.link),
    );
    for (line, paint) in panel.trace.lines.iter().zip(paints(panel.trace)) {
        let x = scale.x(seconds(line.joined));
        svg.polygon(
            &[(x, floor), (x - 4.0, floor + 8.0), (x + 4.0, floor + 8.0)],
            paint,
            1.0,
        );
    }
}

fn lines(svg: &mut Svg, scale: &Scale, trace: &Trace) {
    for (line, paint) in trace.lines.iter().zip(paints(trace)) {
        if let Some(target) = line.target {
            let y = scale.y(target.bits() as f64);
            svg.line(
                (scale.x(seconds(line.joined)), y),
                (WIDTH - RIGHT, y),
                paint,
                1.0,
                "5 4",
            );
        }
        let points: Vec<(f64, f64)> = trace
            .rates(line)
            .filter(|(at, _)| *at >= line.joined)
            .map(|(at, rate)| (scale.x(seconds(at)), scale.y(rate.bits() as f64)))
            .collect();
        svg.polyline(&points, paint, 1.8);
    }
}

fn bands(svg: &mut Svg, scale: &Scale, trace: &Trace) {
    let mut below: Vec<(f64, f64)> = trace.lines.first().map_or(Vec::new(), |line| {
        trace.rates(line).map(|(at, _)| (seconds(at), 0.0)).collect()
    });
    for (line, paint) in trace.lines.iter().zip(paints(trace)) {
        let above: Vec<(f64, f64)> = below
            .iter()
            .zip(trace.rates(line))
            .map(|(&(at, sum), (_, rate))| (at, sum + rate.bits() as f64))
            .collect();
        let outline = above.iter().chain(below.iter().rev());
        let outline: Vec<(f64, f64)> = outline.map(|&(at, bits)| (scale.x(at), scale.y(bits))).collect();
        svg.polygon(&outline, paint, 0.9);
        below = above;
    }
}

/// The names at the right edge, each beside its line or band, moved apart where they would overlap.
fn labels(svg: &mut Svg, scale: &Scale, panel: &Panel<'_>) {
    let trace = panel.trace;
    let mut sum = 0.0;
    let mut places: Vec<(f64, usize, String)> = Vec::new();
    for (index, line) in trace.lines.iter().enumerate() {
        let windows = trace.steady(line.joined, panel.settle);
        let last: Vec<Window> = windows.last().copied().into_iter().collect();
        let got = trace.got(line, &last).bits() as f64;
        let level = match panel.style {
            Style::Lines => got,
            Style::Bands => sum + got / 2.0,
        };
        sum += got;
        places.push((scale.y(level) + 4.0, index, label(line, got, scale.unit)));
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ys: Vec<f64> = places.iter().map(|p| p.0).collect();
    let (floor, ceiling) = (scale.y(0.0) + 4.0, scale.top + TOP + LINE_HEIGHT);
    let ys = apart(&ys, ceiling, floor);
    let paints = paints(trace);
    for ((_, index, text), y) in places.iter().zip(ys) {
        svg.rect((WIDTH - RIGHT + 8.0, y - 9.0), (9.0, 9.0), paints[*index]);
        svg.text((WIDTH - RIGHT + 22.0, y), Anchor::Start, INK, text);
    }
}

fn label(line: &Line, got: f64, unit: (&str, f64)) -> String {
    let got = got / unit.1;
    match line.target {
        Some(target) => format!("{}  {got:.1} of {}", line.name, target.bits() as f64 / unit.1),
        None => format!("{}  {got:.1}", line.name),
    }
}

/// Moves rising places apart by a line's height, keeping them between these bounds where they fit.
fn apart(ys: &[f64], ceiling: f64, floor: f64) -> Vec<f64> {
    let mut placed = Vec::with_capacity(ys.len());
    let mut least = ceiling;
    for &y in ys {
        placed.push(y.max(least));
        least = placed[placed.len() - 1] + LINE_HEIGHT;
    }
    let mut most = floor;
    for y in placed.iter_mut().rev() {
        *y = y.min(most);
        most = *y - LINE_HEIGHT;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Bytes;

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
    fn the_picture_names_each_class_with_what_it_got_and_asked_for() {
        let trace = trace();
        for style in [Style::Lines, Style::Bands] {
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
        for style in [Style::Lines, Style::Bands] {
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

    #[test]
    fn names_never_overlap_and_stay_inside() {
        let placed = apart(&[10.0, 11.0, 98.0, 99.0, 99.5], 0.0, 100.0);
        assert!(
            placed.windows(2).all(|w| w[1] - w[0] >= LINE_HEIGHT - 1e-9),
            "{placed:?}"
        );
        assert!(placed.iter().all(|&y| (0.0..=100.0).contains(&y)), "{placed:?}");
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!([0.03, 1.0, 21.0, 24.8].map(step), [0.05, 1.0, 50.0, 50.0]);
    }
}
