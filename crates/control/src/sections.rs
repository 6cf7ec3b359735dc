//! From TOML to the engine's format-neutral tables: every key and value keeps its position in the
//! text.
//!
//! The reader recovers from an unquoted string (`rate = 20 Mbit/s`) and from a duplicate key, so
//! that the rest of the policy is checked in the same pass. After other syntax errors it stops,
//! since many of the further messages would be consequences.

use crate::pieces;
use crate::values::{self, KeyValue, TomlValue};
use engine::settings::{Entry, Problem, Span, Table};
use std::slice;
use toml::de::DeTable;

/// A table with its position.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// The position of its header, or of its braces.
    pub at: Span,
    entries: &'a [KeyValue<'a>],
}

/// Parses the text; `None` after a syntax error from which the reader cannot recover.
pub fn parse<T>(
    text: &str,
    problems: &mut Vec<Problem>,
    read: impl FnOnce(Section<'_>, &mut Vec<Problem>) -> Option<T>,
) -> Option<T> {
    parse_in_pieces(text, pieces::PIECE, problems, read)
}

fn parse_in_pieces<T>(
    text: &str,
    length: usize,
    problems: &mut Vec<Problem>,
    read: impl FnOnce(Section<'_>, &mut Vec<Problem>) -> Option<T>,
) -> Option<T> {
    match pieces::read(text, length) {
        Some(entries) => read(Section::root(&entries), problems),
        None => parse_amended(text, problems, |_, _| {}, read),
    }
}

/// Like [`parse`], after `amend` has changed values; each keeps the position of the old value.
pub fn parse_amended<T>(
    text: &str,
    problems: &mut Vec<Problem>,
    amend: impl FnOnce(&mut Vec<KeyValue<'_>>, &mut Vec<Problem>),
    read: impl FnOnce(Section<'_>, &mut Vec<Problem>) -> Option<T>,
) -> Option<T> {
    let (document, faults) = DeTable::parse_recoverable(text);
    if let (Some(other), false) = (other_format(text), faults.is_empty()) {
        problems.push(other);
        return None;
    }
    let mut readable = true;
    for fault in faults {
        let at = fault
            .span()
            .map_or_else(Span::default, |range| values::span(range, 0));
        let quoted = text.get(at.range()).unwrap_or_default();
        let problem = match fault.message() {
            "duplicate key" => Problem::new(at, format!("`{quoted}` is given a second time"))
                .help("keep one of them, or merge their contents"),
            message if message.starts_with("string values must be quoted") && !quoted.is_empty() => {
                Problem::new(at, "a text must be in quotes").help(format!("write \"{quoted}\""))
            }
            message if message.starts_with("invalid boolean") => {
                readable = false;
                Problem::new(
                    at,
                    "a text must be in quotes; only true and false are written without",
                )
                .help(format!("write \"{quoted}\""))
            }
            message => {
                readable = false;
                Problem::new(at, format!("this is not TOML: {message}"))
            }
        };
        problems.push(problem);
    }
    if !readable {
        return None;
    }
    let mut entries = values::entries(document.into_inner(), 0);
    amend(&mut entries, problems);
    read(Section::root(&entries), problems)
}

/// The problem of a text in another format, once: a parser of TOML objects to every line of it.
fn other_format(text: &str) -> Option<Problem> {
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with(['#', '-']);
    let first = text.lines().find(code)?;
    let is_key = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
    let yaml = |line: &str| {
        let (key, rest) = line.trim().split_once(':')?;
        (is_key(key) && (rest.is_empty() || rest.starts_with(' '))).then_some(())
    };
    let format = match first.trim_start().starts_with('{') {
        true => "JSON",
        false => yaml(first).map(|()| "YAML")?,
    };
    let begin = text.find(first)?;
    let at = Span::new(begin, begin + first.len());
    let problem = Problem::new(at, format!("this is {format}, not TOML"));
    Some(problem.help(
        "write `version = 1`, a section as [interface.wan0], a list of sections as [[interface.wan0.class]]",
    ))
}

impl<'a> Section<'a> {
    fn root(entries: &'a [KeyValue<'a>]) -> Self {
        let at = Span::default();
        Self { at, entries }
    }

    /// Its entries in the order of the text.
    pub fn iter(&self) -> slice::Iter<'a, KeyValue<'a>> {
        self.entries.iter()
    }

    /// The entry of this key.
    pub fn get(&self, key: &str) -> Option<&'a KeyValue<'a>> {
        self.iter().find(|pair| pair.key == key)
    }

    /// The entries whose keys `keep` accepts, as the engine's table.
    pub fn table(&self, keep: impl Fn(&str) -> bool) -> Table {
        let mut entries: Vec<Entry> = self
            .iter()
            .filter(|pair| keep(&pair.key))
            .map(|pair| Entry {
                key: pair.key.to_string().into(),
                key_at: pair.key_at,
                value: pair.value.raw(),
                at: pair.value.at,
            })
            .collect();
        // Very many are kept, of few entries each, and a list grows in fours.
        entries.shrink_to_fit();
        Table { entries, at: self.at }
    }

    /// The entries of `over`, and those of this section that it lacks, but those of these keys.
    pub fn overridden(&self, over: &Section<'_>, but: &[&str]) -> Table {
        let own = |key: &str| over.get(key).is_none() && !but.contains(&key);
        let mut both = over.table(|_| true);
        both.entries.extend(self.table(own).entries);
        both
    }

    /// The string value of this key; reports a problem if the value has another type.
    pub fn text(&self, key: &str, problems: &mut Vec<Problem>) -> Option<(&'a str, Span)> {
        let pair = self.get(key)?;
        let text = pair.value.value.as_str().map(|text| (text, pair.value.at));
        if text.is_none() {
            problems.push(pair.value.wrong(&format!("`{key}`: expected a text in quotes")));
        }
        text
    }

    /// The table of this key; reports a problem if the value has another type.
    pub fn section(&self, key: &str, problems: &mut Vec<Problem>) -> Option<Section<'a>> {
        let pair = self.get(key)?;
        pair.value.section().or_else(|| {
            problems.push(
                pair.value
                    .wrong(&format!("`{key}`: expected a table such as [{key}]")),
            );
            None
        })
    }

    /// The tables of this key, none if it is absent; reports a problem for each item that is no
    /// table.
    pub fn sections(&self, key: &str, header: &str, problems: &mut Vec<Problem>) -> Vec<Section<'a>> {
        self.each_section(key, header, problems).collect()
    }

    /// The same, each made when it is its turn: all of very many take much memory.
    pub fn each_section(
        &self,
        key: &str,
        header: &str,
        problems: &mut Vec<Problem>,
    ) -> impl Iterator<Item = Section<'a>> + use<'a> {
        let pair = self.get(key);
        let items = pair.and_then(|pair| pair.value.items()).unwrap_or_default();
        let no_tables = items.iter().filter(|item| item.value.as_table().is_none());
        let wrong = pair
            .map(|pair| &pair.value)
            .filter(|value| value.items().is_none());
        for value in wrong.into_iter().chain(no_tables) {
            let expected = format!("`{key}`: expected tables, each headed [[{header}]]");
            problems.push(value.wrong(&expected));
        }
        items.iter().filter_map(TomlValue::section)
    }
}

impl<'a> TomlValue<'a> {
    /// As a table; `None` if it has another type.
    pub fn section(&'a self) -> Option<Section<'a>> {
        let entries = self.value.as_table()?;
        Some(Section { at: self.at, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Every key and value below a section, with the positions that messages show.
    fn dump(section: &Section<'_>, out: &mut String) {
        for pair in section.iter() {
            write!(out, "{}@{} ", pair.key, pair.key_at.start()).expect("memory");
            dump_value(&pair.value, out);
        }
    }

    fn dump_value(value: &TomlValue<'_>, out: &mut String) {
        if let Some(section) = value.section() {
            out.push('{');
            dump(&section, out);
            out.push('}');
        } else if let Some(items) = value.items() {
            out.push('[');
            items.iter().for_each(|item| dump_value(item, out));
            out.push(']');
        } else {
            write!(out, "{:?} ", value.raw()).expect("memory");
        }
        write!(out, "at {}..{};", value.at.start(), value.at.end()).expect("memory");
    }

    fn read(text: &str, length: usize) -> (Option<String>, Vec<Problem>) {
        let mut problems = Vec::new();
        let read = parse_in_pieces(text, length, &mut problems, |root, _| {
            let mut out = String::new();
            dump(&root, &mut out);
            Some(out)
        });
        (read, problems)
    }

    /// Texts whose pieces are, and are not, enough to tell what the whole means.
    const TEXTS: [(&str, bool); 16] = [
        (
            "a = 1\n[x.y]\nb = 2\n[[x.y.c]]\nn = 1\n[[x.y.c]]\nn = 2\n[[x.y.c]]\nn = 3\n",
            true,
        ),
        (
            "[[x.c]]\nn = [\n[1],\n[2]]\n[[x.f]]\nc = \"[[x.c]]\"\n[[x.c]]\nn = '[['\n[[x.f]]\nq = 1.5\n",
            true,
        ),
        (
            "[[x.c]]\nn = \"\"\"\n[[x.c]]\n\"\"\"\n[x.c.d]\nk = 1\n[[x.c]]\nm = {a = 1, b = [2]}\n[x.c.d]\nk = 2\n",
            true,
        ),
        (
            "[[x.c]]\nn = 1\n[y]\nk = 1\n[[x.c]]\nn = 2 # [\n[z]\n[[ x . c ]]\nn = 3\n",
            true,
        ),
        // A table is opened twice.
        ("[p]\nk = 1\n[[x.c]]\nn = 1\n[[x.c]]\nn = 2\n[p]\nl = 2\n", false),
        // A key is given twice.
        (
            "[x]\nk = 1\n[[x.c]]\nn = 1\n[[x.c]]\nn = 2\n[[x.k]]\nn = 3\n",
            false,
        ),
        (
            "[x]\nc = [{n = 0}]\n[[y]]\nn = 1\n[[x.c]]\nn = 2\n[[x.c]]\nn = 3\n",
            false,
        ),
        // A table in braces is closed: no header adds to it.
        ("[x]\nd = {k = 1}\n[[c]]\nn = 1\n[x.d]\nl = 2\n", false),
        ("[x]\nd = {k = 1}\n[[c]]\nn = 1\n[[x.d.e]]\nl = 2\n", false),
        ("x = {k = 1}\n[[c]]\nn = 1\n[x.d]\nl = 2\n", false),
        // What follows belongs to a table of an earlier piece.
        (
            "[[x.c]]\nn = 1\n[[x.f]]\nn = 2\n[[x.f]]\nn = 3\n[x.c.d]\nk = 1\n",
            false,
        ),
        // Faults.
        (
            "[[x.c]]\nn = 1\n[[x.c]]\nn = oops\n[[x.c]]\nn = 3\nn = 4\n",
            false,
        ),
        ("[[x.c]]\nn = 1\n[[x.c]\nn = 2\n[[x.c]]\nn = [3\n", false),
        // Quoted and dotted keys.
        ("[[x.\"c\"]]\nn = 1\n[[x.c]]\nn = 2\n[[x.c]]\n", false),
        ("x.y = 1\n[[c]]\nn = 1\n[[c]]\nn = 2\n[[c]]\n", false),
        ("a.b = 1\n[[c]]\nn = 1\n[a]\nk = 2\n[[c]]\n", false),
    ];

    #[test]
    fn pieces_mean_what_the_whole_text_means() {
        for (text, cut) in TEXTS {
            let whole = read(text, usize::MAX);
            for length in 1..text.len() {
                let pieces = read(text, length);
                assert_eq!(pieces.0, whole.0, "{text} in pieces of {length}");
                assert_eq!(format!("{:?}", pieces.1), format!("{:?}", whole.1), "{text}");
            }
            assert_eq!(pieces::read(text, 1).is_some(), cut, "{text}");
        }
    }

    const LINES: [&str; 16] = [
        "[x]",
        "[y]",
        "[x.c.d]",
        "[x.f]",
        "[[x.c]]",
        "[[x.c]]",
        "[[x.c]]",
        "[[x.f]]",
        "[[x.c.e]]",
        "[[y]]",
        "k = 1",
        "l = \"[[x.c]]\" # ]",
        "c = [\n[1],\n{a = 2}]",
        "m = \"\"\"\n[[x.c]]\n\"\"\"",
        "k.l = 2",
        "",
    ];

    #[test]
    fn pieces_of_random_texts_mean_what_the_whole_text_means() {
        let mut random = engine::random::Seed(1).stream();
        let mut cut = 0;
        for _ in 0..3000 {
            let lines = 3 + random.below(12);
            let line = |_| LINES[random.below(LINES.len() as u64) as usize];
            let text = (0..lines).map(line).collect::<Vec<_>>().join("\n");
            let (whole, length) = (read(&text, usize::MAX), 1 + text.len() / 4);
            for length in [1, length] {
                cut += usize::from(pieces::read(&text, length).is_some());
                assert_eq!(read(&text, length), whole, "{text}\nin pieces of {length}");
            }
        }
        assert!((400..4000).contains(&cut), "{cut} of 6000 were cut");
    }

    #[test]
    fn what_overrides_a_section_stands_before_what_it_lacks() {
        let text = "[own]\na = 1\nb = 2\nc = 3\n[over]\nb = 4\nd = 5\n";
        let read = parse_in_pieces(text, usize::MAX, &mut Vec::new(), |root, problems| {
            let (own, over) = (root.section("own", problems)?, root.section("over", problems)?);
            Some(own.overridden(&over, &["c", "d"]))
        });
        let table = read.expect("two sections");
        let entries: Vec<_> = table
            .entries
            .iter()
            .map(|entry| (&*entry.key, entry.value.to_string()))
            .collect();
        let expected = [("b", "4"), ("d", "5"), ("a", "1")];
        assert_eq!(entries, expected.map(|(key, value)| (key, value.to_owned())));
    }

    #[test]
    fn another_format_is_told_by_its_first_line() {
        let told = |text: &str| other_format(text).map(|problem| problem.message);
        let yaml = || Some("this is YAML, not TOML".to_owned());
        assert_eq!(told("# A comment.\n---\nversion: 1\n"), yaml());
        assert_eq!(told("interface:\n"), yaml());
        assert_eq!(told("{ \"version\": 1 }"), Some("this is JSON, not TOML".into()));
        for none in [
            "version = 1\n",
            "a b: 1\n",
            ": 1\n",
            "10:30\n",
            "",
            "# A: comment.\n",
        ] {
            assert_eq!(told(none), None, "{none}");
        }
    }
}
