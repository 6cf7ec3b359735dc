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
        let position = |diagnostic: &'_ Diagnostic| {
            let Problem { at, .. } = diagnostic.problem;
            let (line, column) = self.line_and_column(at.start);
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

    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.boundary(offset)];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (
            before.matches('\n').count() + 1,
            before[start..].chars().count() + 1,
        )
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
        for Diagnostic { severity, problem } in &self.list {
            let level = match severity {
                Severity::Mistake => Level::ERROR,
                Severity::Warning => Level::WARNING,
            };
            let Span { start, end } = problem.at;
            let start = self.boundary(start);
            let span = start..self.boundary(end).max(start);
            let group: Group<'_> = level.primary_title(problem.message.as_str()).element(
                Snippet::source(self.text.as_str())
                    .path(self.path.as_str())
                    .annotation(AnnotationKind::Primary.span(span)),
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
    fn a_position_beyond_the_text_or_within_a_character_does_not_panic() {
        for (start, end) in [(7, 7), (500, 600), (1, 1), (2, 0)] {
            assert!(diagnostics("ü = 1", start, end).render(false).contains("wrong"));
        }
        assert!(diagnostics("", 0, 0).render(true).contains("wrong"));
    }
}
