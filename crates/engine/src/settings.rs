//! Settings, declared once: the declaration provides the reader, the check, the help and the
//! documentation.
//!
//! The text of a policy comes in as a neutral [`Table`] whose entries record their position, so
//! that a [`Problem`] can point at line and column. The file format is the control plane's affair.

use crate::units::{Bandwidth, Bytes, Duration, Probability, Rate, patterns};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A range of bytes in the text of a policy. Each entry of very many has two: in 32 bits, which
/// count 4 GB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// From this byte to before another.
    pub fn new(start: usize, end: usize) -> Self {
        let within = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        Self {
            start: within(start),
            end: within(end),
        }
    }

    /// The first byte.
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// After the last byte.
    pub fn end(self) -> usize {
        self.end as usize
    }

    /// The bytes.
    pub fn range(self) -> Range<usize> {
        self.start()..self.end()
    }
}

/// Something wrong in a policy: where, what, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where it stands.
    pub at: Span,
    /// What is wrong, and what was expected.
    pub message: String,
    /// What to do about it, where more can be said.
    pub help: Option<String>,
}

impl Problem {
    /// A problem without further help.
    pub fn new(at: Span, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
            help: None,
        }
    }

    /// The same with advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A value as the policy's text gave it.
#[derive(Clone, PartialEq, Debug)]
pub enum Raw {
    /// A quoted text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// A rate, from code: no text is made of it.
    Bandwidth(Bandwidth),
    /// A length, from code.
    Bytes(Bytes),
    /// A time, from code.
    Duration(Duration),
    /// Anything else, by the name of its type.
    Other(&'static str),
}

impl fmt::Display for Raw {
    /// As a policy writes it, without quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(is) => is.fmt(f),
            Self::Bandwidth(rate) => rate.fmt(f),
            Self::Bytes(length) => length.fmt(f),
            Self::Duration(time) => time.fmt(f),
            Self::Other(what) => write!(f, "a {what}"),
        }
    }
}

impl From<Bandwidth> for Raw {
    fn from(rate: Bandwidth) -> Self {
        Self::Bandwidth(rate)
    }
}

impl From<Bytes> for Raw {
    fn from(length: Bytes) -> Self {
        Self::Bytes(length)
    }
}

impl From<Duration> for Raw {
    fn from(time: Duration) -> Self {
        Self::Duration(time)
    }
}

impl From<u32> for Raw {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

/// One `key = value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The key; that of a declared setting is its name.
    pub key: Cow<'static, str>,
    /// Where the key stands.
    pub key_at: Span,
    /// The value.
    pub value: Raw,
    /// Where the value stands.
    pub at: Span,
}

/// The entries of one section, in order, and where the section is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Where to point when something is missing.
    pub at: Span,
}

impl Table {
    /// Where a setting stands; all of them, if it is not given.
    pub fn place(&self, key: &str) -> Span {
        self.get(key).map_or(self.at, |entry| entry.at)
    }

    /// Whether both have the same settings in the same order, wherever they stand.
    pub fn says_as(&self, other: &Self) -> bool {
        let alike = |(old, new): (&Entry, &Entry)| old.key == new.key && old.value == new.value;
        self.entries.len() == other.entries.len() && self.entries.iter().zip(&other.entries).all(alike)
    }

    /// The table whose keys are the names of these settings, where they are: of very many tables
    /// none keeps a text of its own.
    #[must_use]
    pub fn declared_by(mut self, settings: &[Setting]) -> Self {
        for entry in &mut self.entries {
            if let Some(setting) = settings.iter().find(|setting| setting.name == entry.key) {
                entry.key = Cow::Borrowed(setting.name);
            }
        }
        self
    }

    /// The entry of this key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The table with this entry set, for tests, tools and changes at run time.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Raw>) -> Self {
        let value = value.into();
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => entry.value = value,
            None => self.entries.push(Entry {
                key: key.to_owned().into(),
                key_at: self.at,
                value,
                at: self.at,
            }),
        }
        self
    }

    /// The table with this text set.
    #[must_use]
    pub fn text(self, key: &str, value: &str) -> Self {
        self.with(key, Raw::Text(value.into()))
    }
}

/// How a setting behaves when it is not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// It must be given.
    Required,
    /// This value, as text.
    Value(&'static str),
    /// A value that follows from others, as described.
    Derived(&'static str),
}

/// The declaration of one setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Its unit or its choices.
    pub unit: &'static str,
    /// What holds if it is not given.
    pub default: Fallback,
    /// What a value that is too small, or too large, does.
    pub effect: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
    /// Whether a value can be read; the error says what was expected.
    pub accepts: fn(&Raw) -> Result<(), String>,
    /// What a text must look like, as a regular expression; none where only reading it tells.
    pub pattern: fn() -> Option<String>,
}

/// A type that a setting can have.
pub trait SettingValue: Sized {
    /// The unit or the choices, human-readable.
    const UNIT: &'static str;
    /// Reads a value; the error says what was expected.
    fn from_raw(raw: &Raw) -> Result<Self, String>;
    /// What a text must look like, as a regular expression of ECMA-262, for editors; none where
    /// only reading it tells.
    fn pattern() -> Option<String> {
        None
    }
}

/// How a value of the wrong type looks in a message.
pub fn describe(raw: &Raw) -> String {
    match raw {
        Raw::Text(text) => format!("the text \"{text}\""),
        Raw::Integer(n) => format!("the number {n}"),
        Raw::Boolean(b) => format!("{b}"),
        Raw::Bandwidth(rate) => format!("the rate {rate}"),
        Raw::Bytes(length) => format!("the length {length}"),
        Raw::Duration(time) => format!("the time {time}"),
        Raw::Other(kind) => format!("a {kind}"),
    }
}

macro_rules! quantity {
    ($($type:ty: $unit:literal, $pattern:expr $(, $typed:ident => $from:expr)?;)*) => {$(
        impl SettingValue for $type {
            const UNIT: &'static str = $unit;
            fn pattern() -> Option<String> {
                $pattern
            }
            fn from_raw(raw: &Raw) -> Result<Self, String> {
                match raw {
                    Raw::Text(text) => text.parse().map_err(|e: crate::units::UnitError| e.to_string()),
                    $(Raw::$typed(value) => Ok($from(*value)),)?
                    other => Err(format!("expected {}, as a quoted text with its unit; found {}", $unit, describe(other))),
                }
            }
        }
    )*};
}
quantity! {
    Bandwidth: "a rate such as \"20 Mbit/s\"", Some(patterns::rate()), Bandwidth => std::convert::identity;
    Rate: "a rate such as \"20 Mbit/s\", or a share of the link such as \"40 %\"", Some(patterns::rate_or_share()), Bandwidth => Rate::Absolute;
    Duration: "a time such as \"5 ms\"", Some(patterns::time()), Duration => std::convert::identity;
    Bytes: "a length such as \"1500 B\"", Some(patterns::length()), Bytes => std::convert::identity;
    Probability: "a share such as \"10 %\" or \"0.1\"", Some(patterns::probability());
}

impl SettingValue for String {
    const UNIT: &'static str = "a text in quotes";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) => Ok(text.clone()),
            other => Err(format!("expected a text in quotes; found {}", describe(other))),
        }
    }
}

impl SettingValue for u32 {
    const UNIT: &'static str = "a whole number";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Integer(n) => Self::try_from(*n)
                .map_err(|_| format!("expected a whole number from 0 to {}; found {n}", Self::MAX)),
            other => Err(format!(
                "expected a whole number without quotes; found {}",
                describe(other)
            )),
        }
    }
}

impl SettingValue for bool {
    const UNIT: &'static str = "true or false";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Boolean(b) => Ok(*b),
            other => Err(format!(
                "expected true or false, without quotes; found {}",
                describe(other)
            )),
        }
    }
}

/// Declares an enum whose values are chosen by name in a policy.
#[macro_export]
macro_rules! choices {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// The name in a policy.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl $crate::settings::SettingValue for $name {
            const UNIT: &'static str = concat!("one of", $(" \"", $text, "\""),+);
            fn from_raw(raw: &$crate::settings::Raw) -> Result<Self, String> {
                use $crate::settings::{describe, nearest, Raw};
                match raw {
                    $(Raw::Text(text) if text == $text => Ok(Self::$variant),)+
                    Raw::Text(text) => {
                        let near = nearest(text, [$($text),+]).map(|n| format!("; did you mean \"{n}\"?"));
                        Err(format!("expected {}; found \"{text}\"{}", Self::UNIT, near.unwrap_or_default()))
                    }
                    other => Err(format!("expected {}; found {}", Self::UNIT, describe(other))),
                }
            }
        }
    };
}

/// Makes a list of named statics the values of a setting: `choices_of!(Kind in KINDS)` reads a
/// `&'static Kind` by its field `name`. Unlike the variants of [`choices!`](crate::choices), each
/// value is declared in a file of its own.
#[macro_export]
macro_rules! choices_of {
    ($type:ident in $list:expr) => {
        impl $crate::settings::SettingValue for &'static $type {
            const UNIT: &'static str = {
                const NAMES: [&str; $list.len()] = {
                    let (mut names, mut i) = ([""; $list.len()], 0);
                    while i < names.len() {
                        names[i] = $list[i].name;
                        i += 1;
                    }
                    names
                };
                const TEXT: [u8; $crate::settings::choices_len(&NAMES)] =
                    $crate::settings::choices_text(&NAMES);
                match std::str::from_utf8(&TEXT) {
                    Ok(text) => text,
                    Err(_) => panic!("names are UTF-8, and the rest is ASCII"),
                }
            };

            fn from_raw(raw: &$crate::settings::Raw) -> Result<Self, String> {
                let names = $list.iter().map(|item| item.name);
                Ok($list[$crate::settings::choose(raw, names, Self::UNIT)?])
            }
        }
    };
}

/// What stands before the names of choices.
const CHOICES: &[u8] = b"one of";

/// The length of [`choices_text`].
#[doc(hidden)]
pub const fn choices_len(names: &[&str]) -> usize {
    let (mut len, mut i) = (CHOICES.len(), 0);
    while i < names.len() {
        len += " \"\"".len() + names[i].len();
        i += 1;
    }
    len
}

/// `one of "a" "b"`, as `choices!` writes it.
#[doc(hidden)]
pub const fn choices_text<const LEN: usize>(names: &[&str]) -> [u8; LEN] {
    // What is not overwritten is a quotation mark.
    let mut text = [b'"'; LEN];
    let mut at = copy(CHOICES, &mut text, 0);
    let mut i = 0;
    while i < names.len() {
        text[at] = b' ';
        at = copy(names[i].as_bytes(), &mut text, at + 2) + 1;
        i += 1;
    }
    text
}

/// Copies into the text at this position; returns the position behind it.
const fn copy(from: &[u8], text: &mut [u8], at: usize) -> usize {
    let mut i = 0;
    while i < from.len() {
        text[at + i] = from[i];
        i += 1;
    }
    at + from.len()
}

/// The position of the name that a value chooses; the error suggests the nearest.
///
/// # Errors
///
/// Returns an error if the value is not text, or not one of the names.
#[doc(hidden)]
pub fn choose<'a>(
    raw: &Raw,
    names: impl Iterator<Item = &'a str> + Clone,
    unit: &str,
) -> Result<usize, String> {
    let Raw::Text(text) = raw else {
        return Err(format!("expected {unit}; found {}", describe(raw)));
    };
    names.clone().position(|name| name == text).ok_or_else(|| {
        let near = nearest(text, names).map(|near| format!("; did you mean \"{near}\"?"));
        format!("expected {unit}; found \"{text}\"{}", near.unwrap_or_default())
    })
}

/// Declares the settings of a discipline or of a class: a struct, its reader, and its
/// documentation.
///
/// Each field is `name: Type = required`, `= default "text"` or `= derived "what it follows from"`
/// (the field is then an `Option`), followed by the effect of too small and too large a value and
/// the source. A default is written as it would stand in a policy, without outer quotes.
#[macro_export]
macro_rules! settings {
    ($(#[$doc:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $help:literal])+ $field:ident: $type:ty = $how:ident $($text:literal)?, $effect:literal, $source:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        $vis struct $name { $($(#[doc = $help])+ pub $field: $crate::settings!(@type $how $type)),* }

        impl $name {
            /// The declarations, for help and documentation.
            pub const SETTINGS: &'static [$crate::settings::Setting] = &[$($crate::settings::Setting {
                name: stringify!($field),
                help: concat!($($help),+).trim_ascii(),
                unit: <$type as $crate::settings::SettingValue>::UNIT,
                default: $crate::settings!(@default $how $($text)?),
                effect: $effect,
                source: $source,
                accepts: |raw| <$type as $crate::settings::SettingValue>::from_raw(raw).map(drop),
                pattern: <$type as $crate::settings::SettingValue>::pattern,
            }),*];

            /// Reads them from a table, reporting every problem; `also` names keys that others
            /// read.
            pub fn read(
                table: &$crate::settings::Table,
                also: &[&str],
                problems: &mut Vec<$crate::settings::Problem>,
            ) -> Option<Self> {
                $crate::settings::refuse_unknown(table, Self::SETTINGS, also, problems);
                $(let $field = $crate::settings!(@read $how table, stringify!($field), $type, problems $(, $text)?);)*
                Some(Self { $($field: $field?),* })
            }
        }
    };
    (@type derived $type:ty) => { Option<$type> };
    (@type $how:ident $type:ty) => { $type };
    (@default required) => { $crate::settings::Fallback::Required };
    (@default default $text:literal) => { $crate::settings::Fallback::Value($text) };
    (@default derived $text:literal) => { $crate::settings::Fallback::Derived($text) };
    (@read required $table:expr, $name:expr, $type:ty, $problems:expr) => {
        $crate::settings::required::<$type>($table, $name, $problems)
    };
    (@read default $table:expr, $name:expr, $type:ty, $problems:expr, $text:literal) => {
        $crate::settings::or_default::<$type>($table, $name, $problems, $text)
    };
    (@read derived $table:expr, $name:expr, $type:ty, $problems:expr, $text:literal) => {
        $crate::settings::optional::<$type>($table, $name, $problems)
    };
}

/// Reads a value that may be absent. The outer `None` means a problem was reported.
#[doc(hidden)]
pub fn optional<T: SettingValue>(
    table: &Table,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Option<Option<T>> {
    let Some(entry) = table.get(name) else {
        return Some(None);
    };
    match T::from_raw(&entry.value) {
        Ok(value) => Some(Some(value)),
        Err(message) => {
            problems.push(Problem::new(entry.at, format!("`{name}`: {message}")));
            None
        }
    }
}

#[doc(hidden)]
pub fn required<T: SettingValue>(table: &Table, name: &str, problems: &mut Vec<Problem>) -> Option<T> {
    let value = optional(table, name, problems)?;
    if value.is_none() && !is_misspelt(table, name, problems) {
        problems.push(Problem::new(
            table.at,
            format!("`{name}` is missing: {}", T::UNIT),
        ));
    }
    value
}

/// Whether it was told that a key of this table probably means this one.
fn is_misspelt(table: &Table, name: &str, problems: &[Problem]) -> bool {
    let meant = did_you_mean(name);
    let of_table = |at: Span| table.entries.iter().any(|entry| entry.key_at == at);
    problems
        .iter()
        .any(|problem| problem.help.as_ref() == Some(&meant) && of_table(problem.at))
}

fn did_you_mean(word: &str) -> String {
    format!("did you mean `{word}`?")
}

#[doc(hidden)]
pub fn or_default<T: SettingValue>(
    table: &Table,
    name: &str,
    problems: &mut Vec<Problem>,
    text: &'static str,
) -> Option<T> {
    match optional(table, name, problems)? {
        Some(value) => Some(value),
        None => Some(from_default(text)),
    }
}

/// The value of a default's text: a number, a boolean, or a text.
///
/// # Panics
/// If the declaration is wrong; a test reads every default of every kind.
fn from_default<T: SettingValue>(text: &'static str) -> T {
    let raw = match (text.parse(), text.parse()) {
        (Ok(n), _) => Raw::Integer(n),
        (_, Ok(b)) => Raw::Boolean(b),
        _ => Raw::Text(text.into()),
    };
    match T::from_raw(&raw) {
        Ok(value) => value,
        Err(e) => panic!("the declared default {text:?} is wrong: {e}"),
    }
}

/// Checks a table against the declarations alone, with the messages of reading it: a value that
/// cannot be read, and a required setting that is absent.
pub fn refuse_wrong(table: &Table, settings: &[Setting], problems: &mut Vec<Problem>) {
    for setting in settings {
        match table.get(setting.name) {
            Some(entry) => problems.extend((setting.accepts)(&entry.value).err().map(|why| {
                let message = format!("`{}`: {why}", setting.name);
                Problem::new(entry.at, message)
            })),
            None if setting.default == Fallback::Required && !is_misspelt(table, setting.name, problems) => {
                let message = format!("`{}` is missing: {}", setting.name, setting.unit);
                problems.push(Problem::new(table.at, message));
            }
            None => {}
        }
    }
}

#[doc(hidden)]
pub fn refuse_unknown(table: &Table, settings: &[Setting], also: &[&str], problems: &mut Vec<Problem>) {
    let known = || settings.iter().map(|s| s.name).chain(also.iter().copied());
    for entry in &table.entries {
        if !known().any(|name| name == entry.key) {
            problems.push(unknown("setting", &entry.key, entry.key_at, known()));
        }
    }
}

/// The problem of an unknown word: suggests the nearest known one, or lists all of them.
pub fn unknown<'a>(what: &str, word: &str, at: Span, known: impl IntoIterator<Item = &'a str>) -> Problem {
    let known: Vec<&str> = known.into_iter().collect();
    let problem = Problem::new(at, format!("unknown {what} `{word}`"));
    match nearest(word, known.iter().copied()) {
        Some(near) => problem.help(did_you_mean(near)),
        None if known.is_empty() => problem.help(format!("no {what} is possible here")),
        None => problem.help(format!("possible here: {}", known.join(", "))),
    }
}

/// The nearest known word, if it is near enough to have been meant (a third of its letters).
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let within = word.chars().count().max(3) / 3;
    let word = letters(word);
    let near = |known: &str| {
        let known = letters(known);
        // So many are to be inserted or deleted at least.
        let least = known.len().abs_diff(word.len());
        let near = (least <= within).then(|| distance(&word, &known));
        near.filter(|d| *d <= within)
    };
    known
        .into_iter()
        .filter_map(|k| Some((near(k)?, k)))
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

fn letters(word: &str) -> Vec<char> {
    word.to_lowercase().chars().collect()
}

/// The number of letters to change, insert, delete or swap with a neighbour to turn one word into
/// the other (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1)
                .min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    settings! {
        /// For the tests.
        struct Trial {
            /// The rate.
            rate: Rate = required, "", "";
            /// How many.
            count: u32 = default "7", "", "";
            /// The delay.
            wait: Duration = derived "from the rate", "", "";
        }
    }

    fn read(table: &Table) -> Result<Trial, Vec<String>> {
        let mut problems = Vec::new();
        let trial = Trial::read(table, &["name"], &mut problems);
        trial.filter(|_| problems.is_empty()).ok_or_else(|| {
            problems
                .into_iter()
                .map(|p| p.message + &p.help.map(|h| format!(" ({h})")).unwrap_or_default())
                .collect()
        })
    }

    #[test]
    fn a_value_from_code_is_taken_as_it_is() {
        let table = Table::default()
            .with("rate", Bandwidth::bits_per_sec(7))
            .with("wait", Duration::from_nanos(3));
        let trial = read(&table).expect("a good table");
        assert_eq!(trial.rate, Rate::Absolute(Bandwidth::bits_per_sec(7)));
        assert_eq!(trial.wait, Some(Duration::from_nanos(3)));
        let wrong = read(&table.with("wait", Bytes::new(9))).expect_err("a length is no time");
        assert!(wrong[0].contains("found the length 9 B"), "{wrong:?}");
    }

    #[test]
    fn a_misspelt_setting_is_told_once_and_not_as_missing_too() {
        let wrong = read(&Table::default().text("rtae", "40 %")).expect_err("there is no such setting");
        assert_eq!(wrong, ["unknown setting `rtae` (did you mean `rate`?)"]);
        let wrong = read(&Table::default().text("elsewhere", "40 %")).expect_err("nor such");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }

    #[test]
    fn declared_once_read_everywhere() {
        let table = Table::default().text("rate", "40 %").text("name", "x");
        let trial = read(&table).expect("a good table");
        assert_eq!((trial.count, trial.wait), (7, None));
        assert_eq!(Trial::SETTINGS.len(), 3);
        assert_eq!(Trial::SETTINGS[0].help, "The rate.");
    }

    #[test]
    fn the_declarations_alone_find_what_reading_finds() {
        let table = Table::default().with("wait", Raw::Integer(5)).text("count", "7");
        let (mut reading, mut declared) = (Vec::new(), Vec::new());
        let _ = Trial::read(&table, &[], &mut reading);
        refuse_wrong(&table, Trial::SETTINGS, &mut declared);
        assert_eq!((reading.len(), reading), (3, declared));
    }

    #[test]
    fn every_mistake_is_reported_with_the_nearest_name() {
        let table = Table::default()
            .with("cuont", Raw::Integer(1))
            .with("wait", Raw::Integer(5));
        let problems = read(&table).expect_err("three mistakes");
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("did you mean `count`?"), "{problems:?}");
        assert!(problems[1].contains("`rate` is missing"), "{problems:?}");
        assert!(problems[2].contains("\"5 ms\""), "{problems:?}");
    }

    #[test]
    fn a_distance_counts_changed_inserted_deleted_and_swapped_letters() {
        for (a, b, letters) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "ABC", 0),
            ("a", "b", 1),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("abcd", "abdc", 1),
            ("abcd", "badc", 2),
            ("ca", "abc", 3),
            ("abcdef", "acbdef", 1),
            ("xaby", "xbay", 1),
            ("rate", "rtae", 1),
            ("flaw", "lawn", 2),
            ("abcd", "xbyd", 2),
        ] {
            let (one, other) = (super::letters(a), super::letters(b));
            let both = (distance(&one, &other), distance(&other, &one));
            assert_eq!(both, (letters, letters), "{a} {b}");
        }
    }

    #[test]
    fn a_word_is_meant_by_another_if_a_third_of_its_letters_or_one_differ() {
        let near = |word| nearest(word, ["rate", "limit", "ceiling"]);
        assert_eq!(
            (near("rate"), near("rte"), near("xy")),
            (Some("rate"), Some("rate"), None)
        );
        assert_eq!((near("raxx"), near("ratexx")), (None, Some("rate")));
        assert_eq!(nearest("ac", ["ab", "ad"]), Some("ab"), "of equals the first");
        assert_eq!(nearest("abcd", ["abxd", "abcd"]), Some("abcd"));
        let help =
            |known: &[&'static str]| unknown("word", "zzz", Span::default(), known.iter().copied()).help;
        assert_eq!(help(&[]).as_deref(), Some("no word is possible here"));
        assert_eq!(help(&["a", "b"]).as_deref(), Some("possible here: a, b"));
        assert_eq!(help(&["a", "zzy"]).as_deref(), Some("did you mean `zzy`?"));
    }

    #[test]
    fn the_declarations_alone_ask_for_what_is_required_and_not_for_what_is_misspelt() {
        let wrong = |table: &Table, mut problems: Vec<Problem>| {
            let before = problems.len();
            refuse_wrong(table, Trial::SETTINGS, &mut problems);
            let told = problems[before..].iter().map(|problem| problem.message.clone());
            told.collect::<Vec<_>>()
        };
        let missing = wrong(&Table::default(), Vec::new());
        assert_eq!(missing.len(), 1, "only `rate` is required: {missing:?}");
        assert!(missing[0].starts_with("`rate` is missing"), "{missing:?}");
        assert!(wrong(&Table::default().text("rate", "40 %"), Vec::new()).is_empty());
        let mut misspelt = Table::default().text("rtae", "40 %");
        misspelt.entries[0].key_at = Span::new(5, 9);
        let mut told = Vec::new();
        refuse_unknown(&misspelt, Trial::SETTINGS, &[], &mut told);
        assert!(wrong(&misspelt, told.clone()).is_empty());
        // The same told of another table, or another word told of this one.
        let elsewhere = Problem {
            at: Span::new(6, 9),
            ..told[0].clone()
        };
        assert_eq!(wrong(&misspelt, vec![elsewhere]).len(), 1);
        let other = told[0].clone().help("did you mean `count`?");
        assert_eq!(wrong(&misspelt, vec![other]).len(), 1);
    }

    #[test]
    fn tables_that_differ_in_a_key_a_value_or_their_length_do_not_say_the_same() {
        let base = Table::default()
            .with("a", Raw::Integer(1))
            .with("b", Raw::Integer(2));
        let mut elsewhere = base.clone();
        elsewhere.entries[0].at = Span::new(3, 4);
        elsewhere.at = Span::new(1, 9);
        assert!(base.says_as(&elsewhere) && elsewhere.says_as(&base));
        let one = Table::default().with("a", Raw::Integer(1));
        for other in [
            base.clone().with("b", Raw::Integer(3)),
            one.clone().with("c", Raw::Integer(2)),
            one.clone(),
            base.clone().with("c", Raw::Integer(3)),
        ] {
            assert!(!base.says_as(&other) && !other.says_as(&base), "{other:?}");
        }
        assert_eq!(base.with("a", Raw::Integer(1)).entries.len(), 2);
    }

    #[test]
    fn a_setting_is_pointed_at_where_its_value_stands_and_else_where_the_table_does() {
        let mut table = Table::default().with("a", Raw::Integer(1));
        (table.at, table.entries[0].at) = (Span::new(1, 9), Span::new(3, 4));
        assert_eq!(
            (table.place("a"), table.place("b")),
            (Span::new(3, 4), Span::new(1, 9))
        );
        let span = Span::new(3, usize::MAX);
        assert_eq!(
            (span.start(), span.end(), Span::new(3, 4).range()),
            (3, u32::MAX as usize, 3..4)
        );
    }

    #[test]
    fn what_is_found_is_described_by_its_kind() {
        let raws = [
            (Raw::Text("x".into()), "the text \"x\"", "x"),
            (Raw::Integer(-3), "the number -3", "-3"),
            (Raw::Boolean(true), "true", "true"),
            (
                Raw::Bandwidth(Bandwidth::mbit(2)),
                "the rate 2 Mbit/s",
                "2 Mbit/s",
            ),
            (Raw::Bytes(Bytes::new(2)), "the length 2 B", "2 B"),
            (Raw::Duration(Duration::from_nanos(2)), "the time 2 ns", "2 ns"),
            (Raw::Other("list"), "a list", "a list"),
        ];
        for (raw, described, shown) in raws {
            assert_eq!(
                (describe(&raw), raw.to_string()),
                (described.into(), shown.into())
            );
        }
    }

    #[test]
    fn numbers_and_truth_values_are_read_without_quotes() {
        assert_eq!(u32::from_raw(&Raw::Integer(4_294_967_295)), Ok(u32::MAX));
        assert!(u32::from_raw(&Raw::Integer(4_294_967_296)).is_err());
        assert!(u32::from_raw(&Raw::Integer(-1)).is_err() && u32::from_raw(&Raw::Text("1".into())).is_err());
        let truth = [true, false].map(|is| bool::from_raw(&Raw::Boolean(is)));
        assert_eq!(truth, [Ok(true), Ok(false)]);
        assert!(bool::from_raw(&Raw::Text("true".into())).is_err());
        assert_eq!(String::from_raw(&Raw::Text("x".into())), Ok("x".into()));
        assert!(String::from_raw(&Raw::Integer(1)).is_err());
        assert_eq!(
            (from_default::<u32>("7"), from_default::<bool>("true")),
            (7, true)
        );
        assert_eq!(from_default::<Duration>("5 ms"), Duration::from_millis(5));
    }
}
