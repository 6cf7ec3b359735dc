//! Diagnostics of a policy: each error or warning with file, line, column, expectation and advice.
//!
//! They are rendered in the style of rustc. One pass reports all mistakes of a policy, not only the
//! first.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use engine::settings::{Problem, Span};
use serde::Serialize;
use std::fmt;
use std::ops::Range;

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

/// The lines of a diagnostic's span.
struct Excerpt<'a> {
    /// The number of the first, from 1.
    line: usize,
    lines: &'a str,
    /// The span in them.
    span: Range<usize>,
}

impl Excerpt<'_> {
    /// Where the span starts, in characters from 1.
    fn column(&self) -> usize {
        self.lines[..self.span.start].chars().count() + 1
    }
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
        let mut all = Vec::with_capacity(self.list.len());
        for (Diagnostic { severity, problem }, excerpt) in self.excerpts() {
            all.push(LocatedDiagnostic {
                severity: *severity,
                file: &self.path,
                line: excerpt.line,
                column: excerpt.column(),
                message: &problem.message,
                help: problem.help.as_deref(),
            });
        }
        all
    }

    /// Each diagnostic with the lines of its span. Whatever is done for each is done with these
    /// alone: who walks through all of the text for each takes time with the square of its length.
    fn excerpts(&self) -> impl Iterator<Item = (&Diagnostic, Excerpt<'_>)> {
        let ends = self.text.match_indices('\n').map(|(end, _)| end + 1);
        let starts: Vec<usize> = std::iter::once(0).chain(ends).collect();
        self.list.iter().map(move |diagnostic| {
            let Span { start, end } = diagnostic.problem.at;
            let start = self.boundary(start);
            let end = self.boundary(end).max(start);
            let line = starts.partition_point(|first| *first <= start).max(1);
            let first = starts[line - 1];
            let last = starts.partition_point(|line| *line <= end);
            let last = starts.get(last).copied().unwrap_or(self.text.len());
            let excerpt = Excerpt {
                line,
                lines: &self.text[first..last],
                span: start - first..end - first,
            };
            (diagnostic, excerpt)
        })
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
        let mut out = String::new();
        for (Diagnostic { severity, problem }, excerpt) in self.excerpts() {
            let level = match severity {
                Severity::Mistake => Level::ERROR,
                Severity::Warning => Level::WARNING,
            };
            let group: Group<'_> = level.primary_title(problem.message.as_str()).element(
                Snippet::source(excerpt.lines)
                    .line_start(excerpt.line)
                    .path(self.path.as_str())
                    .annotation(AnnotationKind::Primary.span(excerpt.span)),
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

    /// The work for a diagnostic is that for its lines.
    #[test]
    fn the_work_for_diagnostics_grows_with_their_number_and_not_with_its_square() {
        let line = "name = \"some class or other\"\n";
        let work = |number: usize| {
            let mut diagnostics = Diagnostics::new("p.toml", &line.repeat(number));
            let problem = |nth: usize| {
                let start = nth * line.len() + 7;
                let end = start + 5;
                Problem::new(Span { start, end }, "it gets no packets")
            };
            diagnostics.fill(Severity::Warning, (0..number).map(problem).collect());
            let of_each = diagnostics.excerpts().map(|(_, excerpt)| excerpt.lines.len());
            of_each.sum::<usize>()
        };
        assert_eq!(
            [500, 2_000].map(work),
            [500, 2_000].map(|number| number * line.len())
        );
    }

    #[test]
    fn a_position_beyond_the_text_or_within_a_character_does_not_panic() {
        for (start, end) in [(7, 7), (500, 600), (1, 1), (2, 0)] {
            assert!(diagnostics("ü = 1", start, end).render(false).contains("wrong"));
        }
        assert!(diagnostics("", 0, 0).render(true).contains("wrong"));
    }
}
