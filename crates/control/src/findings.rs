//! What is wrong, or surprising, in a policy: each finding with file, line, column, expectation and advice.
//!
//! Shown in the manner of rustc, since people can already read that. A policy is checked in one go: a
//! newcomer with three mistakes learns of three, not of the first.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use engine::settings::{Problem, Span};
use serde::Serialize;
use std::fmt;

/// Whether a finding stands in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The policy cannot be used.
    Mistake,
    /// The policy can be used, and may not do what its author thinks.
    Warning,
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where, what, and what to do.
    pub problem: Problem,
}

/// All findings in one policy, in the order of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Findings {
    path: String,
    text: String,
    list: Vec<Finding>,
}

/// A finding as JSON has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Place<'a> {
    /// How bad it is.
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

impl Findings {
    /// No findings in the text that stands at this path.
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
            list: Vec::new(),
        }
    }

    /// Adds problems of this severity.
    pub fn fill(&mut self, severity: Severity, problems: Vec<Problem>) {
        self.list
            .extend(problems.into_iter().map(|problem| Finding { severity, problem }));
        // Two checks may find the same fault in the same words.
        let order = |f: &Finding| (f.problem.at.start, f.problem.message.clone());
        self.list.sort_by_cached_key(order);
        self.list.dedup();
    }

    /// The findings.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.list.iter()
    }

    /// How many stand in the way.
    pub fn mistakes(&self) -> usize {
        self.iter().filter(|f| f.severity == Severity::Mistake).count()
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The findings with line and column, for JSON.
    pub fn places(&self) -> Vec<Place<'_>> {
        let place = |finding: &'_ Finding| {
            let Problem { at, .. } = finding.problem;
            let (line, column) = self.line_and_column(at.start);
            (finding.severity, line, column)
        };
        let all = self.list.iter().map(|finding| {
            let (severity, line, column) = place(finding);
            Place {
                severity,
                file: &self.path,
                line,
                column,
                message: &finding.problem.message,
                help: finding.problem.help.as_deref(),
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

    /// The nearest place at or before `offset` where a character starts.
    fn boundary(&self, offset: usize) -> usize {
        (0..=offset.min(self.text.len()))
            .rev()
            .find(|&i| self.text.is_char_boundary(i))
            .unwrap_or(0)
    }

    /// The findings as a person reads them; with colour for a terminal.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut out = String::new();
        for Finding { severity, problem } in &self.list {
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

    /// One line that says how many there are; nothing if there are none.
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

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Findings {}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str, start: usize, end: usize) -> Findings {
        let mut findings = Findings::new("p.toml", text);
        let at = Span { start, end };
        findings.fill(
            Severity::Mistake,
            vec![Problem::new(at, "wrong").help("do it right")],
        );
        findings
    }

    #[test]
    fn a_finding_points_at_line_and_column_in_characters() {
        let findings = findings("a = 1\nü = 2\n", 11, 12);
        let place = &findings.places()[0];
        assert_eq!((place.line, place.column), (2, 5));
        assert!(findings.render(false).contains("p.toml:2:5"), "{findings}");
    }

    #[test]
    fn a_place_beyond_the_text_or_within_a_character_is_shown_and_does_not_panic() {
        for (start, end) in [(7, 7), (500, 600), (1, 1), (2, 0)] {
            assert!(findings("ü = 1", start, end).render(false).contains("wrong"));
        }
        assert!(findings("", 0, 0).render(true).contains("wrong"));
    }
}
