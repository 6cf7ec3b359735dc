//! A TOML document as it is kept while it is read: its values, each with its position.
//!
//! The parser's own tables are maps with room for more entries: some 600 bytes for a table of two.
//! These take a fifth of it, which counts for a policy of 100,000 classes.

use engine::settings::{Problem, Raw, Span, describe};
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value.
#[derive(Clone, Debug)]
pub enum TomlContent<'a> {
    /// A string.
    Text(Cow<'a, str>),
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A number without use in a policy: its digits, and why.
    Number(Cow<'a, str>, UselessNumber),
    /// A date, a time, or both.
    Date,
    /// A list.
    List(Vec<TomlValue<'a>>),
    /// A table, in the order of the text.
    Table(Vec<KeyValue<'a>>),
}

/// A number that no setting takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UselessNumber {
    /// It has more than 63 bits.
    TooLarge,
    /// It has a fraction, or is none.
    Fraction,
}

impl UselessNumber {
    /// What a message calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "number that is too large",
            Self::Fraction => "number with a fraction",
        }
    }
}

/// A value with its position.
#[derive(Clone, Debug)]
pub struct TomlValue<'a> {
    /// The value.
    pub value: TomlContent<'a>,
    /// Its position.
    pub at: Span,
}

/// A key, its position, and its value.
#[derive(Clone, Debug)]
pub struct KeyValue<'a> {
    /// The key.
    pub key: Cow<'a, str>,
    /// The position of the key.
    pub key_at: Span,
    /// The value.
    pub value: TomlValue<'a>,
}

/// A range of bytes as the engine's [`Span`], of a text that begins at `start`.
pub(crate) fn span(range: Range<usize>, start: usize) -> Span {
    Span::new(range.start + start, range.end + start)
}

/// The entries of a table of a text that begins at `start`.
pub(crate) fn entries(table: DeTable<'_>, start: usize) -> Vec<KeyValue<'_>> {
    let entries = table.into_iter().map(|(key, value)| KeyValue {
        key_at: span(key.span(), start),
        key: key.into_inner(),
        value: kept(value, start),
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|entry| entry.key_at.start());
    entries
}

fn kept(value: Spanned<DeValue<'_>>, start: usize) -> TomlValue<'_> {
    let at = span(value.span(), start);
    let value = match value.into_inner() {
        DeValue::String(text) => TomlContent::Text(text),
        DeValue::Boolean(value) => TomlContent::Boolean(value),
        DeValue::Integer(number) => TomlContent::integer(number.as_str(), number.radix()),
        DeValue::Float(number) => TomlContent::fraction(number.as_str()),
        DeValue::Datetime(_) => TomlContent::Date,
        DeValue::Array(items) => TomlContent::List(items.into_iter().map(|item| kept(item, start)).collect()),
        DeValue::Table(table) => TomlContent::Table(entries(table, start)),
    };
    TomlValue { value, at }
}

impl<'a> TomlContent<'a> {
    /// The integer of these digits.
    pub(crate) fn integer(digits: &str, radix: u32) -> Self {
        match i64::from_str_radix(digits, radix) {
            Ok(value) => Self::Integer(value),
            Err(_) => Self::Number(digits.to_owned().into(), UselessNumber::TooLarge),
        }
    }

    /// A number with a fraction.
    pub(crate) fn fraction(digits: &str) -> Self {
        Self::Number(digits.to_owned().into(), UselessNumber::Fraction)
    }

    /// As a string; `None` if it has another type.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// As a Boolean; `None` if it has another type.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// As the entries of a table; `None` if it has another type.
    pub fn as_table(&self) -> Option<&[KeyValue<'a>]> {
        match self {
            Self::Table(entries) => Some(entries),
            _ => None,
        }
    }
}

impl<'a> TomlValue<'a> {
    /// As the engine's neutral value.
    pub fn raw(&self) -> Raw {
        match &self.value {
            TomlContent::Text(text) => Raw::Text(text.to_string()),
            TomlContent::Boolean(value) => Raw::Boolean(*value),
            TomlContent::Integer(number) => Raw::Integer(*number),
            TomlContent::Number(_, what) => Raw::Other(what.name()),
            TomlContent::Date => Raw::Other("date"),
            TomlContent::List(_) => Raw::Other("list"),
            TomlContent::Table(_) => Raw::Other("table"),
        }
    }

    /// The items of a list; `None` if it has another type.
    pub fn items(&self) -> Option<&[TomlValue<'a>]> {
        match &self.value {
            TomlContent::List(items) => Some(items),
            _ => None,
        }
    }

    /// A problem about a value of the wrong type.
    pub fn wrong(&self, expected: &str) -> Problem {
        Problem::new(self.at, format!("{expected}; found {}", describe(&self.raw())))
    }
}
