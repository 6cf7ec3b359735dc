//! From TOML to the engine's format-neutral tables: every key and value keeps its position in the
//! text.
//!
//! The reader recovers from an unquoted string (`rate = 20 Mbit/s`) and from a duplicate key, so
//! that the rest of the policy is checked in the same pass. After other syntax errors it stops,
//! since many of the further messages would be consequences.

use crate::pieces;
use engine::settings::{Entry, Problem, Raw, Span, Table};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with its position.
#[derive(Clone, Debug)]
pub struct TomlValue<'a> {
    /// The TOML value.
    pub value: &'a DeValue<'a>,
    /// Its position.
    pub at: Span,
    /// Where the piece of the text begins that it was read from.
    piece: usize,
    /// What later pieces add to a table or an array, if they do: most values are of one piece.
    more: Option<Box<Additions<'a>>>,
}

/// The parts of a table or an array in later pieces.
#[derive(Clone, Debug, Default)]
struct Additions<'a>(Vec<TomlValue<'a>>);

/// A key, its position, and its value.
#[derive(Clone, Debug)]
pub struct KeyValue<'a> {
    /// The key.
    pub key: &'a str,
    /// The position of the key.
    pub key_at: Span,
    /// The value.
    pub value: TomlValue<'a>,
}

/// A table with its position.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// The position of its header, or of its braces.
    pub at: Span,
    pairs: Vec<KeyValue<'a>>,
}

/// A range of bytes as the engine's [`Span`].
pub fn span(range: Range<usize>) -> Span {
    Span {
        start: range.start,
        end: range.end,
    }
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
    let Some(pieces) = pieces::read(text, length) else {
        return parse_amended(text, problems, |_, _| {}, read);
    };
    let tables = pieces.iter().map(|piece| (piece.start, &piece.table));
    read(Section::new(tables, Span::default()), problems)
}

/// Like [`parse`], after `amend` has changed values; each keeps the position of the old value.
pub fn parse_amended<T>(
    text: &str,
    problems: &mut Vec<Problem>,
    amend: impl FnOnce(&mut DeTable<'_>, &mut Vec<Problem>),
    read: impl FnOnce(Section<'_>, &mut Vec<Problem>) -> Option<T>,
) -> Option<T> {
    let (mut document, faults) = DeTable::parse_recoverable(text);
    let mut readable = true;
    for fault in faults {
        let at = fault.span().map_or_else(Span::default, span);
        let quoted = text.get(at.start..at.end).unwrap_or_default();
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
    amend(document.get_mut(), problems);
    let whole = [(0, document.get_ref())];
    read(Section::new(whole, Span::default()), problems)
}

impl<'a> Section<'a> {
    /// A table, or what several pieces of a text have of it, each with its beginning.
    fn new(parts: impl IntoIterator<Item = (usize, &'a DeTable<'a>)>, at: Span) -> Self {
        let mut parts = parts.into_iter();
        let first = parts.next().map(|(piece, table)| entries(piece, table));
        let mut pairs: Vec<_> = first.map(Iterator::collect).unwrap_or_default();
        for pair in parts.flat_map(|(piece, table)| entries(piece, table)) {
            match pairs.iter_mut().find(|known| known.key == pair.key) {
                Some(known) => known.value.more.get_or_insert_default().0.push(pair.value),
                None => pairs.push(pair),
            }
        }
        pairs.sort_by_key(|pair| pair.key_at.start);
        Self { at, pairs }
    }

    /// Its entries in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &KeyValue<'a>> {
        self.pairs.iter()
    }

    /// The entry of this key.
    pub fn get(&self, key: &str) -> Option<&KeyValue<'a>> {
        self.iter().find(|pair| pair.key == key)
    }

    /// The entries whose keys `keep` accepts, as the engine's table.
    pub fn table(&self, keep: impl Fn(&str) -> bool) -> Table {
        let entries = self
            .iter()
            .filter(|pair| keep(pair.key))
            .map(|pair| Entry {
                key: pair.key.into(),
                key_at: pair.key_at,
                value: pair.value.raw(),
                at: pair.value.at,
            })
            .collect();
        Table { entries, at: self.at }
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
        let mut items = pair.and_then(|pair| pair.value.items()).unwrap_or_default();
        let is_list = |pair: &&KeyValue<'_>| pair.value.value.is_array();
        let no_tables = items.iter().filter(|item| !item.value.is_table());
        let wrong = pair.filter(|pair| !is_list(pair)).map(|pair| &pair.value);
        for value in wrong.into_iter().chain(no_tables) {
            let expected = format!("`{key}`: expected tables, each headed [[{header}]]");
            problems.push(value.wrong(&expected));
        }
        items.retain(|item| item.value.is_table());
        items.into_iter().filter_map(|item| item.section())
    }
}

fn entries<'a>(piece: usize, table: &'a DeTable<'a>) -> impl Iterator<Item = KeyValue<'a>> {
    table.iter().map(move |(key, value)| KeyValue {
        key: key.get_ref(),
        key_at: shifted(piece, key.span()),
        value: located(piece, value),
    })
}

fn located<'a>(piece: usize, value: &'a Spanned<DeValue<'a>>) -> TomlValue<'a> {
    TomlValue {
        value: value.get_ref(),
        at: shifted(piece, value.span()),
        piece,
        more: None,
    }
}

/// A range of a piece as a range of the text.
fn shifted(piece: usize, range: Range<usize>) -> Span {
    span(range.start + piece..range.end + piece)
}

impl<'a> TomlValue<'a> {
    /// As the engine's neutral value.
    pub fn raw(&self) -> Raw {
        match self.value {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Boolean(b) => Raw::Boolean(*b),
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
                .map_or(Raw::Other("number that is too large"), Raw::Integer),
            DeValue::Float(_) => Raw::Other("number with a fraction"),
            DeValue::Datetime(_) => Raw::Other("date"),
            DeValue::Array(_) => Raw::Other("list"),
            DeValue::Table(_) => Raw::Other("table"),
        }
    }

    /// As a table; `None` if it has another type.
    pub fn section(&self) -> Option<Section<'a>> {
        let tables = self
            .parts()
            .map_while(|part| Some((part.piece, part.value.as_table()?)));
        // The parts of a table are tables.
        self.value.is_table().then(|| Section::new(tables, self.at))
    }

    /// Itself, and what later pieces add.
    fn parts(&self) -> impl Iterator<Item = &TomlValue<'a>> {
        std::iter::once(self).chain(self.more.iter().flat_map(|more| &more.0))
    }

    /// The items of a list; `None` if it has another type.
    pub fn items(&self) -> Option<Vec<TomlValue<'a>>> {
        let mut all = Vec::new();
        for part in self.parts() {
            let DeValue::Array(items) = part.value else {
                return None;
            };
            all.extend(items.iter().map(|item| located(part.piece, item)));
        }
        Some(all)
    }

    /// A problem about a value of the wrong type.
    pub fn wrong(&self, expected: &str) -> Problem {
        Problem::new(
            self.at,
            format!("{expected}; found {}", engine::settings::describe(&self.raw())),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Every key and value below a section, with the positions that messages show.
    fn dump(section: &Section<'_>, out: &mut String) {
        for pair in section.iter() {
            write!(out, "{}@{} ", pair.key, pair.key_at.start).expect("memory");
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
        write!(out, "at {}..{};", value.at.start, value.at.end).expect("memory");
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
            let count = pieces::read(text, 1).map_or(1, |pieces| pieces.len());
            assert_eq!(count > 1, cut, "{text} in {count} pieces");
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
}
