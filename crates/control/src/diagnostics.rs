//! Diagnostics of a policy: each error or warning with file, line, column, expectation and advice.
//!
//! They are rendered in the style of rustc. One pass reports all mistakes of a policy, not only the
//! first.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use engine::settings::{Problem, Span};
use serde::Serialize;
use std::fmt;

/// How severe a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The policy cannot be used.
    Mistake,
    /// The policy can be used, but may not do what its author intended.
    Warning,
}

/// One diagnostic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// Its position, message and advice.
    pub problem: Problem,
}

/// All diagnostics of one policy, in the order of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostics {
    path: String,
    text: String,
    list: Vec<Diagnostic>,
}

/// A diagnostic in JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LocatedDiagnostic<'a> {
    /// Its severity.
    pub severity: Severity,
    /// The policy's path.
    pub file: &'a str,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub message: &'a str,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'a str>,
}

impl Diagnostics {
    /// An empty list for the text at this path.
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
            list: Vec::new(),
        }
    }

    /// Adds problems with this severity.
    pub fn fill(&mut self, severity: Severity, problems: Vec<Problem>) {
        self.list.extend(
            problems
                .into_iter()
                .map(|problem| Diagnostic { severity, problem }),
        );
        // Two checks may report the same mistake.
        let order = |f: &Diagnostic| (f.problem.at.start, f.problem.message.clone());
        self.list.sort_by_cached_key(order);
        self.list.dedup();
    }

    /// The diagnostics.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// The number of mistakes.
    pub fn mistakes(&self) -> usize {
        self.iter().filter(|f| f.severity == Severity::Mistake).count()
    }

    /// Whether there are neither mistakes nor warnings.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The diagnostics with line and column, for JSON.
    pub fn places(&self) -> Vec<LocatedDiagnostic<'_>> {
        let lines = self.lines();
        let position = |diagnostic: &'_ Diagnostic| {
            let Problem { at, .. } = diagnostic.problem;
            let (line, column) = self.line_and_column(&lines, at.start);
            (diagnostic.severity, line, column)
        };
        let all = self.list.iter().map(|diagnostic| {
            let (severity, line, column) = position(diagnostic);
            LocatedDiagnostic {
                severity,
                file: &self.path,
                line,
                column,
                message: &diagnostic.problem.message,
                help: diagnostic.problem.help.as_deref(),
            }
        });
        all.collect()
    }

    /// Where each line starts.
    fn lines(&self) -> Vec<usize> {
        let ends = self.text.match_indices('\n').map(|(end, _)| end + 1);
        std::iter::once(0).chain(ends).collect()
    }

    fn line_and_column(&self, lines: &[usize], offset: usize) -> (usize, usize) {
        let at = self.boundary(offset);
        let line = lines.partition_point(|start| *start <= at).max(1);
        (line, self.text[lines[line - 1]..at].chars().count() + 1)
    }

    /// The nearest character boundary at or before `offset`.
    fn boundary(&self, offset: usize) -> usize {
        (0..=offset.min(self.text.len()))
            .rev()
            .find(|&i| self.text.is_char_boundary(i))
            .unwrap_or(0)
    }

    /// The diagnostics in human-readable form; with colour for a terminal.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let (mut out, lines) = (String::new(), self.lines());
        for Diagnostic { severity, problem } in &self.list {
            let level = match severity {
                Severity::Mistake => Level::ERROR,
                Severity::Warning => Level::WARNING,
            };
            let Span { start, end } = problem.at;
            let start = self.boundary(start);
            let end = self.boundary(end).max(start);
            // The renderer walks through all of the text that it is given, so it gets the lines of
            // the span alone.
            let (line, _) = self.line_and_column(&lines, start);
            let first = lines[line - 1];
            let last = lines.partition_point(|line| *line <= end);
            let last = lines.get(last).copied().unwrap_or(self.text.len());
            let group: Group<'_> = level.primary_title(problem.message.as_str()).element(
                Snippet::source(&self.text[first..last])
                    .line_start(line)
                    .path(self.path.as_str())
                    .annotation(AnnotationKind::Primary.span(start - first..end - first)),
            );
            let group = match &problem.help {
                Some(help) => group.element(Level::HELP.message(help.as_str())),
                None => group,
            };
            out.push_str(&renderer.render(&[group]));
            out.push_str("\n\n");
        }
        out.push_str(&self.sum());
        out
    }

    /// A line with the numbers of mistakes and warnings; empty if there are none.
    fn sum(&self) -> String {
        let mistakes = self.mistakes();
        let warnings = self.list.len() - mistakes;
        let counted = |n: usize, what: &str| match n {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{n} {what}s")),
        };
        let parts = [counted(mistakes, "mistake"), counted(warnings, "warning")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            return String::new();
        }
        format!("{}: {}\n", self.path, parts.join(" and "))
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostics(text: &str, start: usize, end: usize) -> Diagnostics {
        let mut diagnostics = Diagnostics::new("p.toml", text);
        let at = Span { start, end };
        diagnostics.fill(
            Severity::Mistake,
            vec![Problem::new(at, "wrong").help("do it right")],
        );
        diagnostics
    }

    #[test]
    fn a_diagnostic_has_line_and_column_in_characters() {
        let diagnostics = diagnostics("a = 1\nü = 2\n", 11, 12);
        let place = &diagnostics.places()[0];
        assert_eq!((place.line, place.column), (2, 5));
        assert!(diagnostics.render(false).contains("p.toml:2:5"), "{diagnostics}");
    }

    #[test]
    fn a_diagnostic_shows_all_lines_of_its_span_and_their_numbers() {
        let text = diagnostics("a = 1\nb = [\n  2,\n]\nc = 3\n", 10, 17).render(false);
        assert!(text.contains("p.toml:2:5"), "{text}");
        for line in ["2 | / b = [", "3 | |   2,", "4 | | ]"] {
            assert!(
                text.contains(line) || text.contains(&line.replacen("| /", "|  ", 1)),
                "{text}"
            );
        }
    }

    /// Times are compared with each other, so that a slow machine does not matter: four times as
    /// many take sixteen times as long if each of them walks through the whole text.
    #[test]
    fn the_time_to_render_grows_with_the_number_of_diagnostics_and_not_with_its_square() {
        let time = |number: usize| {
            let line = "name = \"some class or other\"\n";
            let mut diagnostics = Diagnostics::new("p.toml", &line.repeat(number));
            let problem = |nth: usize| {
                let start = nth * line.len() + 7;
                Problem::new(
                    Span {
                        start,
                        end: start + 5,
                    },
                    "it gets no packets",
                )
            };
            diagnostics.fill(Severity::Warning, (0..number).map(problem).collect());
            let best = (0..9).map(|_| {
                let began = std::time::Instant::now();
                assert_eq!(diagnostics.places().len(), number);
                assert!(diagnostics.render(false).len() > number * line.len());
                began.elapsed()
            });
            best.min().unwrap_or_default()
        };
        let (few, many) = (time(500), time(2_000));
        assert!(many < few * 11, "{few:?} for 500, {many:?} for 2000");
    }

    #[test]
    fn a_position_beyond_the_text_or_within_a_character_does_not_panic() {
        for (start, end) in [(7, 7), (500, 600), (1, 1), (2, 0)] {
            assert!(diagnostics("ü = 1", start, end).render(false).contains("wrong"));
        }
        assert!(diagnostics("", 0, 0).render(true).contains("wrong"));
    }
}
