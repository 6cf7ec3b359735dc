//! A small SVG writer: elements with escaped attributes, nothing else.
//!
//! Colours are given twice. Attributes suit paper, and every viewer and converter supports them. A
//! class lets the embedded style sheet change them if the reader prefers dark pages.

use std::fmt::{Display, Write};

/// A chart being written.
#[derive(Debug)]
pub struct Svg {
    text: String,
}

/// The anchor of a text relative to its point.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// The point is its beginning.
    Start,
    /// The point is its middle.
    Middle,
    /// The point is its end.
    End,
}

/// A colour for light pages, and what the style sheet makes of it on dark ones.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// The class in the style sheet.
    pub class: &'static str,
    /// The colour without a style sheet.
    pub light: &'static str,
    /// The colour on dark pages.
    pub dark: &'static str,
}

/// The background.
pub const PAPER: Paint = Paint {
    class: "paper",
    light: "#ffffff",
    dark: "#16191d",
};
/// Text and axes.
pub const INK: Paint = Paint {
    class: "ink",
    light: "#1d2127",
    dark: "#e4e7eb",
};
/// Secondary text.
pub const GREY: Paint = Paint {
    class: "grey",
    light: "#5b626b",
    dark: "#a4acb6",
};
/// Grid lines.
pub const FAINT: Paint = Paint {
    class: "faint",
    light: "#dde1e6",
    dark: "#333a43",
};

/// Class colours, distinguishable with colour vision deficiency (after Okabe and Ito, "Color
/// universal design", 2008; the blue is lighter on dark pages, and grey is for the best-effort
/// class).
pub const PALETTE: [Paint; 7] = [
    Paint {
        class: "c0",
        light: "#0072b2",
        dark: "#4aa8e0",
    },
    Paint {
        class: "c1",
        light: "#d55e00",
        dark: "#f0813a",
    },
    Paint {
        class: "c2",
        light: "#009e73",
        dark: "#2fc79b",
    },
    Paint {
        class: "c3",
        light: "#b8559a",
        dark: "#d98cc0",
    },
    Paint {
        class: "c4",
        light: "#c98a00",
        dark: "#edb334",
    },
    Paint {
        class: "c5",
        light: "#3b9fd6",
        dark: "#8ccbf0",
    },
    Paint {
        class: "rest",
        light: "#7b8490",
        dark: "#8f98a3",
    },
];

impl Svg {
    /// A chart of this size, with a description for screen readers.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self { text: String::new() };
        let _ = write!(
            svg.text,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" font-family="Helvetica, Arial, 'Liberation Sans', sans-serif" font-size="12"><title>{}</title><style>{}</style>"#,
            escape(title),
            style(),
        );
        svg.text.push('\n');
        svg
    }

    /// Adds an element without content.
    pub fn element(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.start(name, attributes);
        self.text.push_str("/>\n");
    }

    /// Adds a text.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, paint: Paint, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let class = format!("{}-fill", paint.class);
        self.start(
            "text",
            &[
                ("x", &number(x)),
                ("y", &number(y)),
                ("text-anchor", &anchor),
                ("class", &class),
                ("fill", &paint.light),
            ],
        );
        let _ = writeln!(self.text, ">{}</text>", escape(text));
    }

    /// Adds a straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), paint: Paint, width: f64, dash: &str) {
        let class = format!("{}-stroke", paint.class);
        let ends = [number(from.0), number(from.1), number(to.0), number(to.1)];
        let mut attributes: Vec<(&str, &dyn Display)> = vec![
            ("x1", &ends[0]),
            ("y1", &ends[1]),
            ("x2", &ends[2]),
            ("y2", &ends[3]),
            ("class", &class),
            ("stroke", &paint.light),
            ("stroke-width", &width),
        ];
        if !dash.is_empty() {
            attributes.push(("stroke-dasharray", &dash));
        }
        self.element("line", &attributes);
    }

    /// Adds a title within the chart.
    pub fn heading(&mut self, (x, y): (f64, f64), text: &str) {
        let (x, y, class) = (number(x), number(y), format!("{}-fill", INK.class));
        self.start(
            "text",
            &[
                ("x", &x),
                ("y", &y),
                ("class", &class),
                ("fill", &INK.light),
                ("font-size", &"13"),
                ("font-weight", &"600"),
            ],
        );
        let _ = writeln!(self.text, ">{}</text>", escape(text));
    }

    /// Adds a line through these points; dashed unless `dash` is empty.
    pub fn polyline(&mut self, points: &[(f64, f64)], paint: Paint, width: f64, dash: &str) {
        let (class, points) = (format!("{}-stroke", paint.class), join(points));
        let mut attributes: Vec<(&str, &dyn Display)> = vec![
            ("points", &points),
            ("fill", &"none"),
            ("class", &class),
            ("stroke", &paint.light),
            ("stroke-width", &width),
            ("stroke-linejoin", &"round"),
        ];
        if !dash.is_empty() {
            attributes.push(("stroke-dasharray", &dash));
        }
        self.element("polyline", &attributes);
    }

    /// Adds a mark at a point. Four shapes take turns.
    pub fn mark(&mut self, (x, y): (f64, f64), shape: usize, paint: Paint) {
        let r = 3.6;
        let corners: &[(f64, f64)] = match shape % 4 {
            0 => {
                let (x, y, class) = (number(x), number(y), format!("{}-fill", paint.class));
                let (r, fill) = (number(r), paint.light);
                return self.element(
                    "circle",
                    &[
                        ("cx", &x),
                        ("cy", &y),
                        ("r", &r),
                        ("class", &class),
                        ("fill", &fill),
                    ],
                );
            }
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
            _ => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        };
        let corners: Vec<_> = corners.iter().map(|c| (x + c.0 * r, y + c.1 * r)).collect();
        self.polygon(&corners, paint, 1.0);
    }

    /// Groups what `draw` draws under a name that viewers show as a tooltip.
    pub fn named(&mut self, name: &str, draw: impl FnOnce(&mut Self)) {
        let _ = write!(self.text, "<g><title>{}</title>", escape(name));
        draw(self);
        self.text.push_str("</g>\n");
    }

    /// Adds a filled polygon.
    pub fn polygon(&mut self, points: &[(f64, f64)], paint: Paint, opacity: f64) {
        let (class, points) = (format!("{}-fill", paint.class), join(points));
        self.element(
            "polygon",
            &[
                ("points", &points),
                ("class", &class),
                ("fill", &paint.light),
                ("fill-opacity", &opacity),
            ],
        );
    }

    /// Adds a filled rectangle.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), paint: Paint) {
        let class = format!("{}-fill", paint.class);
        let sides = [number(x), number(y), number(width), number(height)];
        self.element(
            "rect",
            &[
                ("x", &sides[0]),
                ("y", &sides[1]),
                ("width", &sides[2]),
                ("height", &sides[3]),
                ("class", &class),
                ("fill", &paint.light),
            ],
        );
    }

    /// The finished document.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn start(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        let _ = write!(self.text, "<{name}");
        for (key, value) in attributes {
            let _ = write!(self.text, " {key}=\"{}\"", escape(&value.to_string()));
        }
    }
}

/// The style rules for dark pages, for every paint.
fn style() -> String {
    let mut rules = String::from("@media (prefers-color-scheme:dark){");
    for paint in [PAPER, INK, GREY, FAINT].iter().chain(&PALETTE) {
        let (class, dark) = (paint.class, paint.dark);
        let _ = write!(
            rules,
            ".{class}-fill{{fill:{dark}}}.{class}-stroke{{stroke:{dark}}}"
        );
    }
    rules + "}"
}

/// Escapes text for XML and HTML.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            // XML 1.0, section 2.2, allows no other control characters.
            c if c.is_control() && !matches!(c, '\n' | '\t' | '\r') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A resolution of a tenth of a pixel is enough.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), Into::into)
}

fn join(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points
        .iter()
        .map(|&(x, y)| format!("{},{}", number(x), number(y)))
        .collect();
    points.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_name_contains_the_picture_stays_well_formed() {
        let mut svg = Svg::new(10.0, 10.0, "a <b> & \"c\"");
        svg.element("rect", &[("id", &"x\"><script>")]);
        svg.text((0.0, 1.25), Anchor::Start, INK, "</text>\u{1}");
        let text = svg.finish();
        assert!(!text.contains("<script>"), "{text}");
        assert!(text.contains("&lt;/text&gt;\u{fffd}"), "{text}");
    }

    #[test]
    fn every_paint_has_a_rule_for_dark_pages() {
        for paint in PALETTE {
            assert!(style().contains(&format!(".{}-fill{{fill:{}}}", paint.class, paint.dark)));
        }
    }
}
