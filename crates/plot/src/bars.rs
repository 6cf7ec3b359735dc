//! Bar charts: named values with their ranges, such as costs on several ports.
//!
//! The bars are horizontal, so names of any length are readable. Each bar has its value at its end.

use crate::axis::{Axis, Scale};
use crate::draw::{WIDTH, shortened, width};
use crate::svg::{Anchor, FAINT, GREY, INK, PALETTE, PAPER, Paint, Svg};

/// One bar.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// The name beside the bar.
    pub name: String,
    /// The length, in the axis's base unit.
    pub value: f64,
    /// The range of repeated measurements.
    pub range: Option<(f64, f64)>,
    /// The colour. Default: by the bar's index in its group.
    pub paint: Option<Paint>,
}

/// Bars to compare with each other.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The name above the group; may be empty.
    pub name: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A bar chart.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// The title above the chart.
    pub title: String,
    /// The axis of the lengths.
    pub axis: Axis,
    /// The bars.
    pub groups: Vec<Group>,
}

const ROW: f64 = 22.0;
const THICK: f64 = 14.0;
const HEAD: f64 = 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
const MARGIN: f64 = 10.0;
const NAME: f64 = 260.0;

impl Bars {
    /// Draws the chart as SVG.
    pub fn picture(&self) -> String {
        let height = TOP + self.groups.iter().map(Group::height).sum::<f64>() + BOTTOM;
        let mut svg = Svg::new(WIDTH, height, &self.title);
        svg.rect((0.0, 0.0), (WIDTH, height), PAPER);
        svg.heading((MARGIN, 22.0), &shortened(&self.title, WIDTH - 8.0 * MARGIN));
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let values = bars().flat_map(|bar| {
            let (low, high) = bar.range.unwrap_or((bar.value, bar.value));
            [bar.value, low, high]
        });
        let scale = Scale::of(&self.axis, values);
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let left = MARGIN + widest(&mut bars().map(|bar| width(&bar.name).min(NAME))) + 10.0;
        let right = WIDTH - MARGIN - widest(&mut bars().map(|b| width(&self.value(b)))) - 8.0;
        let place = |value: f64| left + (right - left) * scale.place(value);
        self.names(&mut svg, &scale, (left, right), height - BOTTOM);
        let mut y = TOP;
        for group in &self.groups {
            if !group.name.is_empty() {
                svg.heading((MARGIN, y + 16.0), &group.name);
                y += HEAD;
            }
            let rows = (y, y + ROW * group.bars.len() as f64);
            for tick in scale.ticks(5).iter().filter(|tick| !tick.text.is_empty()) {
                svg.line((place(tick.at), rows.0), (place(tick.at), rows.1), FAINT, 1.0, "");
            }
            svg.line((left, rows.0), (left, rows.1), INK, 1.0, "");
            for (index, bar) in group.bars.iter().enumerate() {
                let paint = bar.paint.unwrap_or(PALETTE[index % (PALETTE.len() - 1)]);
                let middle = y + ROW / 2.0;
                let name = shortened(&bar.name, NAME);
                svg.text((left - 8.0, middle + 4.0), Anchor::End, INK, &name);
                let end = place(bar.value);
                svg.rect((left, middle - THICK / 2.0), (end - left, THICK), paint);
                let mut after = end;
                if let Some((low, high)) = bar.range {
                    let (low, high) = (place(low), place(high));
                    svg.line((low, middle), (high, middle), INK, 1.2, "");
                    for x in [low, high] {
                        svg.line((x, middle - 4.0), (x, middle + 4.0), INK, 1.2, "");
                    }
                    after = after.max(high);
                }
                let value = self.value(bar);
                // Grid lines do not cross the number.
                svg.rect((after + 3.0, middle - 8.0), (width(&value) + 4.0, 16.0), PAPER);
                svg.text((after + 6.0, middle + 4.0), Anchor::Start, INK, &value);
                y += ROW;
            }
            y += GAP;
        }
        svg.finish()
    }

    fn value(&self, bar: &Bar) -> String {
        self.axis.unit.show(bar.value)
    }

    /// The numbers along the bottom, as many as fit.
    fn names(&self, svg: &mut Svg, scale: &Scale, (left, right): (f64, f64), floor: f64) {
        let mut last = f64::NEG_INFINITY;
        for tick in scale.ticks(5) {
            let x = left + (right - left) * scale.place(tick.at);
            let half = width(&tick.text) / 2.0;
            if x - half > last + 10.0 {
                svg.text((x, floor + 14.0), Anchor::Middle, GREY, &tick.text);
                last = x + half;
            }
        }
        svg.text((right, floor + 32.0), Anchor::End, GREY, &scale.name());
    }
}

const GAP: f64 = 8.0;

impl Group {
    fn height(&self) -> f64 {
        let head = if self.name.is_empty() { 0.0 } else { HEAD };
        head + ROW * self.bars.len() as f64 + GAP
    }
}
