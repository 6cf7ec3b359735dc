//! Layout of a plot: places every element so that none overlap.
//!
//! The width of a text depends on the reader's fonts. It is estimated on the wide side.

use crate::axis::{Scale, Tick};
use crate::svg::{Anchor, FAINT, GREY, INK, PALETTE, PAPER, Paint, Svg};
use crate::thin::{averaged, thin};
use crate::{Plot, PlotStyle, Series, Stroke};

/// The width of every chart, in pixels.
pub const WIDTH: f64 = 760.0;
const AREA: f64 = 206.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 48.0;
const MARGIN: f64 = 10.0;
const LINE_HEIGHT: f64 = 15.0;
/// The number of ticks that fit on the y axis, about.
const LEVELS: usize = 7;
/// The maximum width of a name.
const NAME: f64 = 220.0;
/// The number of series that are named. Nobody reads a longer list.
const NAMED: usize = 24;
/// The maximum number of points in a chart, so that its file stays below 200 kB.
const POINTS: usize = 11_000;
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// Draws these panels one below the other, aligned.
pub fn picture(title: &str, plots: &[Plot]) -> String {
    let panels: Vec<Panel<'_>> = plots.iter().map(Panel::of).collect();
    let left = panels.iter().map(Panel::left).fold(0.0, f64::max);
    let right = panels.iter().map(Panel::right).fold(0.0, f64::max);
    let height = panels.iter().map(Panel::height).sum::<f64>() + MARGIN;
    let series: usize = plots.iter().map(|plot| plot.series.len()).sum();
    let mut svg = Svg::new(WIDTH, height, title);
    svg.rect((0.0, 0.0), (WIDTH, height), PAPER);
    let mut top = 0.0;
    for panel in &panels {
        let frame = Frame {
            left,
            right: WIDTH - right,
            ceiling: top + TOP,
            floor: top + panel.height() - BOTTOM,
            most: POINTS / series.max(1),
        };
        panel.draw(&mut svg, &frame);
        top += panel.height();
    }
    svg.finish()
}

/// The maximum width of a text of 12 pixels.
pub fn width(text: &str) -> f64 {
    text.chars().map(advance).sum()
}

fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 4.0,
        ' ' | 'f' | 'r' | 't' | 'I' | '(' | ')' | '/' | '-' => 5.0,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 11.5,
        c if c.is_ascii_uppercase() => 9.0,
        c if c.is_ascii() => 7.5,
        c if c >= '\u{2e80}' => 13.0,
        _ => 8.0,
    }
}

/// The text, shortened to this width.
pub fn shortened(text: &str, most: f64) -> String {
    if width(text) <= most {
        return text.into();
    }
    let mut sum = advance('…');
    let fits = |c: &char| {
        sum += advance(*c);
        sum <= most
    };
    let kept: String = text.chars().take_while(fits).collect();
    kept.trim_end().to_string() + "…"
}

/// The drawing area of a panel.
struct Frame {
    left: f64,
    right: f64,
    ceiling: f64,
    floor: f64,
    most: usize,
}

/// A name at the right edge: its position, its line sample and its text.
struct Name {
    y: f64,
    series: Option<usize>,
    text: String,
}

struct Panel<'a> {
    plot: &'a Plot,
    x: Scale,
    y: Scale,
    paints: Vec<Paint>,
    /// The points as drawn; for bands their upper edges.
    drawn: Vec<Vec<(f64, f64)>>,
    names: Vec<(Option<usize>, String)>,
}

impl<'a> Panel<'a> {
    fn of(plot: &'a Plot) -> Self {
        let drawn = match plot.style {
            PlotStyle::Lines => plot.series.iter().map(|s| s.points.clone()).collect(),
            PlotStyle::Bands => edges(&plot.series),
        };
        let points = drawn.iter().flatten();
        let ranges = plot.series.iter().flat_map(|s| &s.ranges);
        let levels = plot.levels.iter().map(|level| level.at);
        let xs = points.clone().map(|p| p.0).chain(ranges.clone().map(|r| r.0));
        let ys = points.map(|p| p.1).chain(ranges.flat_map(|r| [r.1, r.2]));
        let mut x_axis = plot.x.clone();
        if !x_axis.logarithmic && x_axis.to.is_none() {
            // The time axis ends at the last point; only the y axis needs headroom.
            x_axis.to = xs.clone().filter(|x| x.is_finite()).reduce(f64::max);
        }
        Self {
            x: Scale::of(&x_axis, xs),
            y: Scale::of(&plot.y, ys.chain(levels)),
            paints: paints(&plot.series),
            names: names(plot),
            drawn,
            plot,
        }
    }

    fn left(&self) -> f64 {
        let ticks = self.y.ticks(LEVELS);
        let widest = ticks.iter().map(|tick| width(&tick.text)).fold(0.0, f64::max);
        (MARGIN + widest + 8.0).max(36.0)
    }

    fn right(&self) -> f64 {
        let widest = self.names.iter().map(|(_, name)| width(name)).fold(0.0, f64::max);
        if widest == 0.0 { 30.0 } else { widest + 44.0 }
    }

    fn height(&self) -> f64 {
        AREA.max(self.names.len() as f64 * LINE_HEIGHT) + TOP + BOTTOM
    }

    fn draw(&self, svg: &mut Svg, frame: &Frame) {
        let top = frame.ceiling - TOP;
        svg.heading(
            (MARGIN, top + 22.0),
            &shortened(&self.plot.title, WIDTH - 8.0 * MARGIN),
        );
        svg.text((MARGIN, top + 40.0), Anchor::Start, GREY, &self.y.name());
        match self.plot.style {
            PlotStyle::Lines => {
                self.grid(svg, frame, 1.0);
                self.lines(svg, frame);
            }
            PlotStyle::Bands => {
                self.bands(svg, frame);
                self.grid(svg, frame, 0.35);
            }
        }
        self.bottom(svg, frame);
        self.name(svg, frame);
        if self.drawn.iter().all(Vec::is_empty) {
            let middle = (
                f64::midpoint(frame.left, frame.right),
                f64::midpoint(frame.ceiling, frame.floor),
            );
            svg.text(middle, Anchor::Middle, GREY, "nothing was measured");
        }
    }

    fn place(&self, frame: &Frame, (x, y): (f64, f64)) -> (f64, f64) {
        let x = frame.left + (frame.right - frame.left) * self.x.place(x);
        (x, frame.floor - (frame.floor - frame.ceiling) * self.y.place(y))
    }

    fn grid(&self, svg: &mut Svg, frame: &Frame, opacity: f64) {
        let mut above = f64::INFINITY;
        for tick in self.y.ticks(LEVELS) {
            let (_, y) = self.place(frame, (0.0, tick.at));
            let to = if tick.text.is_empty() {
                frame.left + 4.0
            } else {
                frame.right
            };
            svg.line((frame.left, y), (to, y), FAINT, opacity, "");
            if !tick.text.is_empty() && above - y >= LINE_HEIGHT {
                svg.text((frame.left - 7.0, y + 4.0), Anchor::End, GREY, &tick.text);
                above = y;
            }
        }
        for level in &self.plot.levels {
            let (_, y) = self.place(frame, (0.0, level.at));
            svg.line((frame.left, y), (frame.right, y), INK, 1.0, "1.5 3");
        }
    }

    /// The x axis with as many ticks as fit, and the event marks.
    fn bottom(&self, svg: &mut Svg, frame: &Frame) {
        let floor = frame.floor;
        let span = frame.right - frame.left;
        for tick in fitting(&self.x, span) {
            let (x, _) = self.place(frame, (tick.at, 0.0));
            let length = if tick.text.is_empty() { 3.0 } else { 5.0 };
            svg.line((x, floor), (x, floor + length), INK, 1.0, "");
            svg.text((x, floor + 19.0), Anchor::Middle, GREY, &tick.text);
        }
        svg.text((frame.right, floor + 37.0), Anchor::End, GREY, &self.x.name());
        svg.line((frame.left, floor), (frame.right, floor), INK, 1.0, "");
        for event in self.plot.events.iter().filter(|event| self.x.has(event.at)) {
            let (x, _) = self.place(frame, (event.at, 0.0));
            let corners = [(x, floor), (x - 4.0, floor + 8.0), (x + 4.0, floor + 8.0)];
            svg.named(&event.name, |svg| svg.polygon(&corners, event.paint, 1.0));
        }
    }

    fn lines(&self, svg: &mut Svg, frame: &Frame) {
        for (index, series) in self.plot.series.iter().enumerate() {
            let paint = self.paints[index];
            let dash = self.dash(index);
            let mut marks = 0;
            for run in runs(&self.drawn[index], |point| self.x.has(point.0)) {
                let points: Vec<_> = run.iter().map(|&point| self.place(frame, point)).collect();
                let thinned = thin(&points, frame.most);
                let width = if series.stroke == Stroke::Dashed { 1.2 } else { 1.8 };
                svg.polyline(&thinned, paint, width, dash);
                // A mark means a measured point. On a thinned line marks would be misleading
                // clutter.
                marks += thinned.len();
                if series.stroke == Stroke::Marked && marks <= 100 {
                    points.iter().for_each(|&at| svg.mark(at, index, paint));
                }
            }
            for &(x, from, to) in series.ranges.iter().take(frame.most / 3) {
                let (low, high) = (self.place(frame, (x, from)), self.place(frame, (x, to)));
                svg.line(low, high, paint, 1.2, "");
                for (x, y) in [low, high] {
                    svg.line((x - 3.0, y), (x + 3.0, y), paint, 1.2, "");
                }
            }
        }
    }

    /// Fills each band from the floor to its upper edge, topmost first: a lower band covers the
    /// rest.
    fn bands(&self, svg: &mut Svg, frame: &Frame) {
        for (index, edge) in self.drawn.iter().enumerate().rev() {
            let inside = edge.iter().filter(|point| self.x.has(point.0));
            let points: Vec<_> = inside.map(|&point| self.place(frame, point)).collect();
            let columns = (frame.right - frame.left) as usize;
            let mut outline = averaged(&points, frame.most.min(columns));
            if let (Some(first), Some(last)) = (outline.first().copied(), outline.last().copied()) {
                outline.extend([(last.0, frame.floor), (first.0, frame.floor)]);
                svg.polygon(&outline, self.paints[index], 1.0);
            }
        }
    }

    fn dash(&self, index: usize) -> &'static str {
        let series = &self.plot.series;
        match series[index].stroke {
            Stroke::Dashed => "5 4",
            _ => {
                let before = series[..index]
                    .iter()
                    .filter(|s| s.paint.is_none() && s.stroke != Stroke::Dashed);
                let round = before.count() / (PALETTE.len() - 1);
                match series[index].paint {
                    Some(_) => "",
                    None => DASHES[round % DASHES.len()],
                }
            }
        }
    }

    /// The names at the right edge, each beside the end of its line or band, moved apart where they
    /// would overlap.
    fn name(&self, svg: &mut Svg, frame: &Frame) {
        let mut levels = self.plot.levels.iter();
        let mut names: Vec<Name> = Vec::new();
        for (series, text) in &self.names {
            let y = match series {
                Some(index) => self.end(frame, *index),
                None => levels
                    .next()
                    .map_or(frame.floor, |level| self.place(frame, (0.0, level.at)).1),
            };
            names.push(Name {
                y: y + 4.0,
                series: *series,
                text: text.clone(),
            });
        }
        // Where series end together, the first one is topmost among lines and lowest among bands.
        if self.plot.style == PlotStyle::Bands {
            names.reverse();
        }
        names.sort_by(|a, b| a.y.total_cmp(&b.y));
        let ys: Vec<f64> = names.iter().map(|name| name.y).collect();
        let ys = apart(&ys, frame.ceiling + 4.0, frame.floor + 4.0);
        for (name, y) in names.iter().zip(ys) {
            let x = frame.right + 10.0;
            if let Some(index) = name.series {
                self.sample(svg, (x, y - 4.0), index);
            }
            let paint = if name.series.is_some() { INK } else { GREY };
            svg.text((x + 24.0, y), Anchor::Start, paint, &name.text);
        }
    }

    /// The line sample of a series, beside its name.
    fn sample(&self, svg: &mut Svg, (x, y): (f64, f64), index: usize) {
        let paint = self.paints[index];
        if self.plot.style == PlotStyle::Bands {
            return svg.rect((x + 4.0, y - 5.0), (12.0, 10.0), paint);
        }
        svg.polyline(&[(x, y), (x + 18.0, y)], paint, 2.2, self.dash(index));
        if self.plot.series[index].stroke == Stroke::Marked {
            svg.mark((x + 9.0, y), index, paint);
        }
    }

    /// The height at which a series ends; for a band, its middle.
    fn end(&self, frame: &Frame, index: usize) -> f64 {
        let last = |edge: &Vec<(f64, f64)>| {
            let inside = |p: &&(f64, f64)| self.x.has(p.0) && p.1.is_finite();
            edge.iter().rev().find(inside).map_or(0.0, |p| p.1)
        };
        let high = last(&self.drawn[index]);
        let low = match (self.plot.style, index.checked_sub(1)) {
            (PlotStyle::Bands, Some(below)) => last(&self.drawn[below]),
            (PlotStyle::Bands, None) => 0.0,
            (PlotStyle::Lines, _) => high,
        };
        f64::midpoint(self.place(frame, (0.0, high)).1, self.place(frame, (0.0, low)).1)
    }
}

/// The names to show: series with their index, then levels.
fn names(plot: &Plot) -> Vec<(Option<usize>, String)> {
    let named: Vec<_> = plot
        .series
        .iter()
        .enumerate()
        .filter(|(_, s)| !s.name.is_empty())
        .collect();
    let more = named.len().saturating_sub(NAMED);
    let mut names: Vec<_> = named
        .into_iter()
        .take(NAMED)
        .map(|(index, series)| (Some(index), shortened(&series.name, NAME)))
        .collect();
    names.extend(plot.levels.iter().map(|l| (None, shortened(&l.name, NAME))));
    if more > 0 {
        names.push((None, format!("and {more} more")));
    }
    names
}

/// The colour of each series: its own, or the next of the palette.
fn paints(series: &[Series]) -> Vec<Paint> {
    let colours = PALETTE.len() - 1;
    let mut next = (0..colours).cycle();
    let choose = |s: &Series| s.paint.unwrap_or_else(|| PALETTE[next.next().unwrap_or(0)]);
    series.iter().map(choose).collect()
}

/// The upper edge of each band. A series shorter than the first ends early.
fn edges(series: &[Series]) -> Vec<Vec<(f64, f64)>> {
    let Some(first) = series.iter().max_by_key(|s| s.points.len()) else {
        return Vec::new();
    };
    let mut sums: Vec<(f64, f64)> = first.points.iter().map(|p| (p.0, 0.0)).collect();
    let edge = |s: &Series| {
        for (sum, point) in sums.iter_mut().zip(&s.points) {
            sum.1 += if point.1.is_finite() { point.1 } else { 0.0 };
        }
        sums.clone()
    };
    series.iter().map(edge).collect()
}

/// The stretches without gaps.
fn runs(points: &[(f64, f64)], inside: impl Fn(&(f64, f64)) -> bool) -> Vec<&[(f64, f64)]> {
    let drawn = |p: &(f64, f64)| p.0.is_finite() && p.1.is_finite() && inside(p);
    points
        .split(|p| !drawn(p))
        .filter(|run| !run.is_empty())
        .collect()
}

/// As many ticks as fit side by side on this many pixels.
fn fitting(scale: &Scale, span: f64) -> Vec<Tick> {
    let apart = |ticks: &[Tick]| {
        let named: Vec<&Tick> = ticks.iter().filter(|t| !t.text.is_empty()).collect();
        named.windows(2).all(|pair| {
            let distance = (scale.place(pair[1].at) - scale.place(pair[0].at)) * span;
            distance >= (width(&pair[0].text) + width(&pair[1].text)) / 2.0 + 12.0
        })
    };
    let wanted = (2..=10).rev().map(|about| scale.ticks(about));
    wanted
        .into_iter()
        .find(|ticks| apart(ticks))
        .unwrap_or_else(|| scale.ticks(1))
}

/// Moves ascending positions apart by a line's height, within the bounds where they fit.
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
    use crate::Axis;
    use crate::AxisUnit;

    #[test]
    fn names_never_overlap_and_stay_inside() {
        let placed = apart(&[10.0, 11.0, 98.0, 99.0, 99.5], 0.0, 100.0);
        let far = |w: &[f64]| w[1] - w[0] >= LINE_HEIGHT - 1e-9;
        assert!(placed.windows(2).all(far), "{placed:?}");
        assert!(placed.iter().all(|&y| (0.0..=100.0).contains(&y)), "{placed:?}");
    }

    #[test]
    fn ticks_have_room_however_long_their_texts_are() {
        let axes = [
            Axis::new("", AxisUnit::Number("")).between(1_000_000.0, 1_000_010.0),
            Axis::new("", AxisUnit::Time).logarithmic().between(1e-9, 1e3),
            Axis::new("", AxisUnit::Rate).logarithmic().between(8e3, 8e11),
            Axis::new("", AxisUnit::Percent).between(0.0, 100.0),
        ];
        for axis in axes {
            let scale = Scale::of(&axis, std::iter::empty());
            let ticks = fitting(&scale, 400.0);
            let named: Vec<&Tick> = ticks.iter().filter(|t| !t.text.is_empty()).collect();
            assert!(named.len() >= 2, "{axis:?}: {ticks:?}");
            for pair in named.windows(2) {
                let distance = (scale.place(pair[1].at) - scale.place(pair[0].at)) * 400.0;
                let texts = (width(&pair[0].text) + width(&pair[1].text)) / 2.0;
                assert!(distance > texts, "{axis:?}: {pair:?}");
            }
        }
    }

    #[test]
    fn a_long_name_is_shortened_and_a_wrong_one_is_escaped() {
        let name = "<&".repeat(60);
        let plot = Plot {
            title: "a <title>".into(),
            series: vec![Series::new(&name, vec![(0.0, 1.0), (1.0, 2.0)])],
            ..Plot::default()
        };
        let svg = picture("t", &[plot]);
        assert!(
            svg.contains("…</text>") && svg.contains("a &lt;title&gt;"),
            "{svg}"
        );
        assert!(!svg.contains("<&"), "{svg}");
        assert!(width(&shortened(&name, NAME)) <= NAME);
    }

    #[test]
    fn bands_lie_on_each_other_and_a_gap_is_nothing() {
        let points = |a: f64, b: f64| Series::new("", vec![(0.0, a), (1.0, b)]);
        let edges = edges(&[points(1.0, 2.0), points(f64::NAN, 3.0)]);
        assert_eq!(
            edges,
            [vec![(0.0, 1.0), (1.0, 2.0)], vec![(0.0, 1.0), (1.0, 5.0)]]
        );
    }

    #[test]
    fn a_line_has_a_gap_where_it_is_not_a_number_or_outside() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 1.0), (9.0, 1.0), (3.0, 1.0)];
        let runs = runs(&points, |p| p.0 < 5.0);
        assert_eq!(runs, [&points[..1], &points[2..3], &points[4..]]);
    }
}
