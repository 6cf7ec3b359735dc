//! A self-contained HTML page: verdict, tables, charts, and what was run. It has no script or font
//! and fetches nothing, so it still reads the same in ten years and can be sent by mail.

use crate::svg::{INK, PAPER, escape};
use std::fmt::Write;

/// How a cell is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// Neutral.
    Plain,
    /// As expected.
    Good,
    /// Not as expected.
    Bad,
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// How the text is to be read.
    pub tone: Tone,
}

impl Cell {
    /// A neutral cell.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tone: Tone::Plain,
        }
    }

    /// A cell marked as good or bad.
    pub fn judged(text: impl Into<String>, good: bool) -> Self {
        Self {
            text: text.into(),
            tone: if good { Tone::Good } else { Tone::Bad },
        }
    }
}

/// A page.
#[derive(Debug, Default)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with this title.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.into(),
            body: format!("<h1>{}</h1>\n", escape(title)),
        }
    }

    /// Adds a section heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(text));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
    }

    /// Adds the verdict, in a box.
    pub fn verdict(&mut self, good: bool, text: &str) {
        let (class, word) = if good {
            ("good", "As configured.")
        } else {
            ("bad", "Not as configured.")
        };
        let _ = writeln!(
            self.body,
            "<p class=\"verdict {class}\"><b>{word}</b> {}</p>",
            escape(text)
        );
    }

    /// Adds a table. A column without a cell that begins with a number is text. Empty columns are
    /// left out.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<Cell>]) {
        let columns: Vec<(usize, &str)> = (0..head.len())
            .filter(|&column| rows.is_empty() || cells(rows, column).next().is_some())
            .map(|column| (column, if is_text(rows, column) { "text " } else { "" }))
            .collect();
        self.body.push_str("<div class=\"wide\"><table><thead><tr>");
        for (column, class) in &columns {
            let _ = write!(self.body, "<th class=\"{class}\">{}</th>", escape(head[*column]));
        }
        self.body.push_str("</tr></thead><tbody>\n");
        for row in rows {
            self.body.push_str("<tr>");
            for (cell, class) in columns
                .iter()
                .filter_map(|(column, class)| Some((row.get(*column)?, class)))
            {
                let tone = match cell.tone {
                    Tone::Plain => "",
                    Tone::Good => "good",
                    Tone::Bad => "bad",
                };
                let _ = write!(
                    self.body,
                    "<td class=\"{class}{tone}\">{}</td>",
                    escape(&cell.text)
                );
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// Adds what `draw` draws, folded behind a summary line unless `open`.
    pub fn folded(&mut self, summary: &str, open: bool, draw: impl FnOnce(&mut Self)) {
        let open = if open { " open" } else { "" };
        let summary = escape(summary);
        let _ = writeln!(self.body, "<details{open}><summary>{summary}</summary>");
        draw(self);
        self.body.push_str("</details>\n");
    }

    /// Adds a table of facts: name and value.
    pub fn facts(&mut self, rows: &[(&str, String)]) {
        self.body
            .push_str("<div class=\"wide\"><table class=\"facts\"><tbody>\n");
        for (what, is) in rows {
            let _ = writeln!(
                self.body,
                "<tr><td>{}</td><td>{}</td></tr>",
                escape(what),
                escape(is)
            );
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// Adds an SVG chart with a caption.
    pub fn picture(&mut self, svg: &str, caption: &str) {
        let _ = writeln!(
            self.body,
            "<figure><div class=\"wide\">{svg}</div>{}</figure>",
            match caption {
                "" => String::new(),
                caption => format!("<figcaption>{}</figcaption>", escape(caption)),
            }
        );
    }

    /// Adds preformatted text.
    pub fn listing(&mut self, text: &str) {
        let _ = writeln!(self.body, "<pre>{}</pre>", escape(text.trim_end()));
    }

    /// The finished page.
    pub fn finish(self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{}</title>\n<style>{}</style></head>\n<body>\n{}</body></html>\n",
            escape(&self.title),
            style(),
            self.body
        )
    }
}

/// The texts of a column.
fn cells(rows: &[Vec<Cell>], column: usize) -> impl Iterator<Item = &str> {
    let texts = rows
        .iter()
        .filter_map(move |row| Some(row.get(column)?.text.as_str()));
    texts.filter(|text| !text.is_empty())
}

fn is_text(rows: &[Vec<Cell>], column: usize) -> bool {
    let begins_a_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '–' | '<');
    column == 0 || !cells(rows, column).any(|text| text.starts_with(begins_a_number))
}

fn style() -> String {
    format!(
        ":root{{--paper:{};--ink:{};--line:#d5dae0;--soft:#f3f5f7;--good:#00724f;--bad:#b3350b}}\
         @media (prefers-color-scheme:dark){{:root{{--paper:{};--ink:{};--line:#3a424c;--soft:#20252b;\
         --good:#3fcf9f;--bad:#ff8a5c}}}}{}",
        PAPER.light, INK.light, PAPER.dark, INK.dark, RULES
    )
}

const RULES: &str = "\
body{background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,Helvetica,Arial,sans-serif;\
max-width:62rem;margin:2.5rem auto;padding:0 1.2rem}\
h1{font-size:1.7rem;line-height:1.2;margin:0 0 1rem}h2{font-size:1.2rem;margin:2.2rem 0 .6rem}\
.verdict{border-left:.3rem solid;padding:.5rem .9rem;background:var(--soft)}\
.verdict b{margin-right:.2rem}.verdict.good{border-color:var(--good)}.verdict.bad{border-color:var(--bad)}\
.verdict.good b,td.good{color:var(--good)}.verdict.bad b,td.bad{color:var(--bad)}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
table{font-size:.92rem}\
th,td{padding:.35rem .5rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}\
th{font-weight:600;font-size:.85rem;vertical-align:bottom}th.text,td.text,table.facts td{text-align:left}\
td.text+td.text,table.facts td{white-space:normal}\
table.facts td:first-child{white-space:nowrap;opacity:.8}\
th:first-child,td:first-child{padding-left:0}\
figure{margin:1rem 0}figure svg{width:100%;min-width:36rem;height:auto;display:block}\
details{margin:.6rem 0}summary{cursor:pointer;font-size:.92rem;padding:.25rem 0}\
figcaption{font-size:.88rem;opacity:.8;margin-top:.3rem}\
pre{background:var(--soft);padding:.9rem;overflow-x:auto;font-size:.82rem;line-height:1.4}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_escapes_what_it_shows() {
        let mut page = Page::new("a <title>");
        page.heading("h");
        page.verdict(true, "4 of 4");
        page.table(
            &["class", "got", "nobody fills this"],
            &[vec![Cell::new("<b>"), Cell::judged("1.0", false), Cell::new("")]],
        );
        page.picture("<svg></svg>", "caption");
        page.listing("rate = \"10 Mbit/s\"");
        let text = page.finish();
        assert!(
            text.contains("a &lt;title&gt;") && text.contains("<td class=\"text \">&lt;b&gt;</td>"),
            "{text}"
        );
        assert!(text.contains("<td class=\"bad\">1.0</td>"), "{text}");
        assert!(!text.contains("nobody fills this"), "{text}");
        for fetched in ["src=", "href=", "@import", "url(", "<script"] {
            assert!(!text.contains(fetched), "{fetched} in {text}");
        }
    }
}
