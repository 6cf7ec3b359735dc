//! From TOML to the engine's format-neutral tables: every key and value keeps its position in the
//! text.
//!
//! The reader recovers from an unquoted string (`rate = 20 Mbit/s`) and from a duplicate key, so
//! that the rest of the policy is checked in the same pass. After other syntax errors it stops,
//! since many of the further messages would be consequences.

use engine::settings::{Entry, Problem, Raw, Span, Table};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A value with its position.
#[derive(Clone, Copy, Debug)]
pub struct TomlValue<'a> {
    /// The TOML value.
    pub value: &'a DeValue<'a>,
    /// Its position.
    pub at: Span,
}

/// A key, its position, and its value.
#[derive(Clone, Copy, Debug)]
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
    parse_amended(text, problems, |_, _| {}, read)
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
    read(Section::new(document.get_ref(), Span::default()), problems)
}

impl<'a> Section<'a> {
    fn new(table: &'a DeTable<'a>, at: Span) -> Self {
        let pairs = table.iter().map(|(key, value)| KeyValue {
            key: key.get_ref(),
            key_at: span(key.span()),
            value: TomlValue {
                value: value.get_ref(),
                at: span(value.span()),
            },
        });
        let mut pairs: Vec<_> = pairs.collect();
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
        let Some(pair) = self.get(key) else {
            return Vec::new();
        };
        let expected = format!("`{key}`: expected tables, each headed [[{header}]]");
        let Some(items) = pair.value.items() else {
            problems.push(pair.value.wrong(&expected));
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(items.len());
        for item in items {
            match item.section() {
                Some(section) => sections.push(section),
                None => problems.push(item.wrong(&expected)),
            }
        }
        sections
    }
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
        match self.value {
            DeValue::Table(table) => Some(Section::new(table, self.at)),
            _ => None,
        }
    }

    /// The items of a list; `None` if it has another type.
    pub fn items(&self) -> Option<Vec<TomlValue<'a>>> {
        let DeValue::Array(items) = self.value else {
            return None;
        };
        let items = items.iter().map(|item| TomlValue {
            value: item.get_ref(),
            at: span(item.span()),
        });
        Some(items.collect())
    }

    /// A problem about a value of the wrong type.
    pub fn wrong(&self, expected: &str) -> Problem {
        Problem::new(
            self.at,
            format!("{expected}; found {}", engine::settings::describe(&self.raw())),
        )
    }
}
