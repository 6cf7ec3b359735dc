//! A stacked chart of bandwidth over time: one column per sample, the newest at the right.
//!
//! A cell has eight steps: a block character shows the lower band in the foreground colour and the
//! upper one in the background colour. Without colours a band is filled with its class's letter.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::Widget;

/// The colours of classes, in the order of the list.
pub const COLOURS: [Color; 8] = [
    Color::Blue,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::Cyan,
    Color::Red,
    Color::LightBlue,
    Color::LightGreen,
];

const STEPS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The letter of a class, for screens without colours.
pub fn letter(index: usize) -> char {
    char::from(b'a' + u8::try_from(index % 26).unwrap_or(0))
}

/// The chart.
#[derive(Debug)]
pub struct Bands<'a> {
    /// The columns, newest first; in each, the rates from the bottom up.
    pub columns: &'a [Vec<u64>],
    /// The rate at the top.
    pub top: u64,
    /// Whether to use colours.
    pub colour: bool,
}

impl Bands<'_> {
    /// The upper ends of the bands of a column, in eighths of a cell.
    fn ends(&self, column: &[u64], height: u16) -> Vec<u64> {
        let full = u64::from(height) * 8;
        let mut sum = 0u64;
        let ends = column.iter().map(|rate| {
            sum = sum.saturating_add(*rate);
            let eighths = u128::from(sum) * u128::from(full) / u128::from(self.top.max(1));
            u64::try_from(eighths).unwrap_or(full).min(full)
        });
        ends.collect()
    }

    fn cell(&self, ends: &[u64], bottom: u64) -> (String, Style) {
        let band_at = |step: u64| ends.iter().position(|end| *end > step);
        let Some(lower) = band_at(bottom) else {
            return (" ".into(), Style::new());
        };
        if !self.colour {
            // The band at the middle of the cell fills it.
            let middle = band_at(bottom + 4);
            return (middle.map_or(' ', letter).into(), Style::new());
        }
        let steps = (ends[lower] - bottom).min(8) as usize;
        let style = Style::new().fg(COLOURS[lower % COLOURS.len()]);
        let style = match band_at(ends[lower]).filter(|_| steps < 8) {
            Some(upper) => style.bg(COLOURS[upper % COLOURS.len()]),
            None => style,
        };
        (STEPS[steps].into(), style)
    }
}

impl Widget for Bands<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        for (column, x) in self.columns.iter().zip((area.left()..area.right()).rev()) {
            let ends = self.ends(column, area.height);
            for (row, y) in (area.top()..area.bottom()).rev().enumerate() {
                let (symbol, style) = self.cell(&ends, row as u64 * 8);
                buffer[(x, y)].set_symbol(&symbol).set_style(style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(column: Vec<u64>, colour: bool) -> Vec<(String, Color, Color)> {
        let area = Rect::new(0, 0, 1, 4);
        let mut buffer = Buffer::empty(area);
        let bands = Bands {
            columns: &[column],
            top: 32,
            colour,
        };
        bands.render(area, &mut buffer);
        let cell = |y| {
            let cell = &buffer[(0, y)];
            (cell.symbol().to_owned(), cell.fg, cell.bg)
        };
        (0..4).rev().map(cell).collect()
    }

    #[test]
    fn bands_are_stacked_in_steps_of_an_eighth() {
        let cells = drawn(vec![4, 12, 2], true);
        assert_eq!(cells[0], ("▄".into(), COLOURS[0], COLOURS[1]));
        assert_eq!(cells[1], ("█".into(), COLOURS[1], Color::Reset));
        assert_eq!(cells[2], ("▂".into(), COLOURS[2], Color::Reset));
        assert_eq!(cells[3].0, " ");
    }

    #[test]
    fn rates_above_the_link_are_cut_off_at_the_top() {
        let cells = drawn(vec![u64::MAX, 7], true);
        assert!(cells.iter().all(|cell| cell.0 == "█"), "{cells:?}");
    }

    #[test]
    fn without_colours_a_band_is_filled_with_its_letter() {
        let symbols: Vec<String> = drawn(vec![8, 8, 8], false)
            .into_iter()
            .map(|cell| cell.0)
            .collect();
        assert_eq!(symbols, ["a", "b", "c", " "]);
    }
}
