//! Diagnostics of a policy: each error or warning with file, line, column, expectation and advice.
//!
//! They are rendered in the style of rustc. One pass reports all mistakes of a policy, not only the
//! first. Those that are alike (the same words) are told once, with the places of the others.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use engine::settings::Problem;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How many that differ are rendered, of mistakes and of warnings: the rest is counted.
const MOST_SHOWN: usize = 50;
/// How many places of others that are alike are rendered with one.
const MOST_PLACES: usize = 20;

/// How severe a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
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
    text: Arc<str>,
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

/// Diagnostics of the same words.
struct Alike<'a> {
    first: &'a Diagnostic,
    excerpt: Excerpt<'a>,
    /// How many more there are.
    more: usize,
    /// Where the first of these are.
    places: Vec<String>,
}

impl Excerpt<'_> {
    /// Where the span starts, in characters from 1.
    fn column(&self) -> usize {
        self.lines[..self.span.start].chars().count() + 1
    }

    /// `line:column`.
    fn place(&self) -> String {
        format!("{}:{}", self.line, self.column())
    }
}

impl Alike<'_> {
    /// Where the others are.
    fn note(&self) -> Option<String> {
        let places = self.places.join(", ");
        match self.more - self.places.len() {
            _ if self.more == 0 => None,
            0 => Some(format!("{} more of the same, at {places}", self.more)),
            unnamed => Some(format!(
                "{} more of the same, at {places} and {unnamed} more places",
                self.more
            )),
        }
    }

    /// As it is rendered.
    fn group<'a>(&'a self, path: &'a str, note: Option<&'a str>) -> Group<'a> {
        let Problem { message, help, .. } = &self.first.problem;
        let level = match self.first.severity {
            Severity::Mistake => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let snippet = Snippet::source(self.excerpt.lines)
            .line_start(self.excerpt.line)
            .path(path)
            .annotation(AnnotationKind::Primary.span(self.excerpt.span.clone()));
        let help = help.iter().map(|help| Level::HELP.message(help.as_str()));
        let note = note.into_iter().map(|note| Level::NOTE.message(note));
        let group = level.primary_title(message.as_str()).element(snippet);
        group.elements(help).elements(note)
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

    /// The same, to be kept for long: without anything to show, the text is let go.
    #[must_use]
    pub fn kept(self) -> Self {
        let text = if self.list.is_empty() {
            "".into()
        } else {
            self.text
        };
        Self { text, ..self }
    }

    /// Adds problems with this severity.
    pub fn fill(&mut self, severity: Severity, problems: Vec<Problem>) {
        self.list.extend(
            problems
                .into_iter()
                .map(|problem| Diagnostic { severity, problem }),
        );
        // Two checks may report the same mistake.
        let order = |f: &Diagnostic| (f.problem.at.start(), f.problem.message.clone());
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
            let at = diagnostic.problem.at;
            let start = self.boundary(at.start());
            let end = self.boundary(at.end()).max(start);
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

    /// Those that are alike together, in the order of the first of each.
    fn alike(&self) -> Vec<Alike<'_>> {
        let (mut all, mut known) = (Vec::<Alike<'_>>::new(), HashMap::new());
        for (diagnostic, excerpt) in self.excerpts() {
            let Problem { message, help, .. } = &diagnostic.problem;
            let nth = *known
                .entry((diagnostic.severity, message, help))
                .or_insert(all.len());
            let Some(alike) = all.get_mut(nth) else {
                all.push(Alike {
                    first: diagnostic,
                    excerpt,
                    more: 0,
                    places: Vec::new(),
                });
                continue;
            };
            alike.more += 1;
            if alike.places.len() < MOST_PLACES {
                alike.places.push(excerpt.place());
            }
        }
        all
    }

    /// The diagnostics in human-readable form; with colour for a terminal. Of mistakes, and of
    /// warnings, 50 that differ are shown, and with each 20 places of others of the same words; the
    /// rest is counted.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut out = String::new();
        let (mut met, mut hidden) = (HashMap::new(), Vec::new());
        for alike in self.alike() {
            let of_its_severity = met.entry(alike.first.severity).or_insert(0);
            *of_its_severity += 1;
            if *of_its_severity > MOST_SHOWN {
                hidden.push(alike);
                continue;
            }
            out.push_str(&renderer.render(&[alike.group(&self.path, alike.note().as_deref())]));
            out.push_str("\n\n");
        }
        if let Some(first) = hidden.first() {
            let number: usize = hidden.iter().map(|alike| 1 + alike.more).sum();
            let place = first.excerpt.place();
            out.push_str(&format!(
                "{number} more not shown, from {place} on: `suimon check --json` lists each\n\n"
            ));
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
    use engine::settings::Span;

    fn diagnostics(text: &str, start: usize, end: usize) -> Diagnostics {
        let mut diagnostics = Diagnostics::new("p.toml", text);
        let at = Span::new(start, end);
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
                Problem::new(Span::new(start, end), "it gets no packets")
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

    /// As a text editor shows them: in words, and how often.
    fn rendered(messages: impl Iterator<Item = (Severity, String)>) -> String {
        let line = "abc = 1\n";
        let messages: Vec<_> = messages.collect();
        let mut diagnostics = Diagnostics::new("p.toml", &line.repeat(messages.len()));
        for (nth, (severity, message)) in messages.into_iter().enumerate() {
            let start = nth * line.len() + 4;
            let at = Span::new(start, start + 1);
            diagnostics.fill(severity, vec![Problem::new(at, message)]);
        }
        diagnostics.render(false)
    }

    #[test]
    fn alike_diagnostics_are_told_once_and_counted_exactly() {
        let alike = |number: usize| rendered((0..number).map(|_| (Severity::Mistake, "wrong".into())));
        let all = |number: usize| {
            let places: Vec<String> = (2..=number).map(|line| format!("{line}:5")).collect();
            places.join(", ")
        };
        assert!(!alike(1).contains("of the same"), "{}", alike(1));
        for number in [2, 21] {
            let text = alike(number);
            let note = format!("= note: {} more of the same, at {}\n", number - 1, all(number));
            assert!(text.contains(&note), "{text}");
            assert_eq!(text.matches("error: wrong").count(), 1, "{text}");
            assert!(text.ends_with(&format!("p.toml: {number} mistakes\n")), "{text}");
        }
        let (text, named) = (alike(1_000), all(21));
        let note = format!("= note: 999 more of the same, at {named} and 979 more places\n");
        assert!(text.contains(&note), "{text}");
        assert!(text.ends_with("p.toml: 1000 mistakes\n"), "{text}");
    }

    #[test]
    fn what_differs_is_told_apart_and_no_mistake_hides_behind_warnings() {
        let differ = |severity, number: usize| (0..number).map(move |nth| (severity, format!("word {nth}.")));
        let text = rendered(differ(Severity::Warning, 50));
        assert!(text.contains("word 49.") && !text.contains("not shown"), "{text}");
        let warnings = differ(Severity::Warning, 70).chain(differ(Severity::Warning, 70));
        let text = rendered(warnings.chain(differ(Severity::Mistake, 1)));
        assert_eq!(text.matches("warning: word").count(), 50, "{text}");
        assert!(text.contains("error: word 0."), "{text}");
        let rest = "40 more not shown, from 51:5 on: `suimon check --json` lists each\n";
        assert!(text.contains(rest), "{text}");
        assert!(text.ends_with("p.toml: 1 mistake and 140 warnings\n"), "{text}");
    }

    #[test]
    fn a_position_beyond_the_text_or_within_a_character_does_not_panic() {
        for (start, end) in [(7, 7), (500, 600), (1, 1), (2, 0)] {
            assert!(diagnostics("ü = 1", start, end).render(false).contains("wrong"));
        }
        assert!(diagnostics("", 0, 0).render(true).contains("wrong"));
    }
}
