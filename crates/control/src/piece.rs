//! A TOML text without faults, read into what is kept of it while its events come.
//!
//! The parser's own document has a hashed map for each table, and is copied into
//! [values](crate::values) afterwards: of a policy of 100,000 classes that was half of the work of
//! reading it. What has a fault, a dotted key or a date is left to that parser.

use crate::values::{self, KeyValue, TomlContent, TomlValue};
use engine::settings::Span;
use std::borrow::Cow;
use std::collections::HashSet;
use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::parser::{EventReceiver, RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{ErrorSink, Source};

/// Tables and lists within each other at most, as the whole parser has it.
const DEPTH: u32 = 80;

/// The entries of a text that begins at `start` of a longer one; `None` if it is left to the whole
/// parser.
pub(crate) fn entries(text: &str, start: usize) -> Option<Vec<KeyValue<'_>>> {
    let source = Source::new(text);
    let tokens = source.lex().into_vec();
    let mut reader = Reader {
        source,
        start,
        root: Vec::new(),
        header: None,
        in_header: false,
        table: Vec::new(),
        open: Vec::new(),
        key: None,
        readable: true,
    };
    let mut faults = Vec::new();
    let mut checked = ValidateWhitespace::new(&mut reader, source);
    parse_document(
        &tokens,
        &mut RecursionGuard::new(&mut checked, DEPTH),
        &mut faults,
    );
    reader.finish_table();
    (reader.readable && faults.is_empty()).then_some(reader.root)
}

/// A key with its position.
struct Key<'a> {
    text: Cow<'a, str>,
    at: Span,
}

/// `[path]` or `[[path]]`.
struct Header<'a> {
    path: Vec<Key<'a>>,
    at: Span,
    is_of_list: bool,
}

/// A list or a table in brackets or braces, which is not closed yet.
struct Open<'a> {
    /// Of which key it is the value; none of an item of a list.
    key: Option<Key<'a>>,
    start: usize,
    content: TomlContent<'a>,
}

struct Reader<'a> {
    source: Source<'a>,
    start: usize,
    root: Vec<KeyValue<'a>>,
    /// That of the table that is being read.
    header: Option<Header<'a>>,
    /// Whether its brackets are still open.
    in_header: bool,
    table: Vec<KeyValue<'a>>,
    /// The innermost last.
    open: Vec<Open<'a>>,
    /// The key whose value comes.
    key: Option<Key<'a>>,
    readable: bool,
}

/// Whether no two entries have the same key.
fn are_distinct(entries: &[KeyValue<'_>]) -> bool {
    let mut seen = HashSet::new();
    match entries {
        [] | [_] => true,
        few if few.len() <= 16 => {
            (1..few.len()).all(|end| !few[..end].iter().any(|pair| pair.key == few[end].key))
        }
        many => many.iter().all(|pair| seen.insert(&pair.key)),
    }
}

impl<'a> Reader<'a> {
    fn span(&self, span: toml_parser::Span) -> Span {
        values::span(span.start()..span.end(), self.start)
    }

    /// The whole parser is asked.
    fn give_up(&mut self) {
        self.readable = false;
    }

    /// A value is complete.
    fn value(&mut self, value: TomlContent<'a>, at: Span) {
        let value = TomlValue { value, at };
        let into = self.open.last_mut().map(|open| &mut open.content);
        let table = match into {
            Some(TomlContent::List(items)) => return items.push(value),
            Some(TomlContent::Table(entries)) => entries,
            _ => &mut self.table,
        };
        let Some(Key {
            text: key,
            at: key_at,
        }) = self.key.take()
        else {
            return self.give_up();
        };
        table.push(KeyValue { key, key_at, value });
    }

    fn begin(&mut self, span: toml_parser::Span, content: TomlContent<'a>) {
        self.open.push(Open {
            key: self.key.take(),
            start: self.span(span).start(),
            content,
        });
    }

    fn end(&mut self, span: toml_parser::Span) {
        let Some(Open { key, start, content }) = self.open.pop() else {
            return self.give_up();
        };
        if content.as_table().is_some_and(|entries| !are_distinct(entries)) {
            self.give_up();
        }
        self.key = key;
        let end = self.span(span).end();
        self.value(content, Span::new(start, end));
    }

    fn begin_header(&mut self, span: toml_parser::Span, is_of_list: bool) {
        self.finish_table();
        self.in_header = true;
        self.header = Some(Header {
            path: Vec::new(),
            at: self.span(span),
            is_of_list,
        });
    }

    fn end_header(&mut self, span: toml_parser::Span) {
        self.in_header = false;
        let end = self.span(span).end();
        let Some(header) = &mut self.header else {
            return self.give_up();
        };
        header.at = Span::new(header.at.start(), end);
    }

    /// Puts the table that was read where its header says.
    fn finish_table(&mut self) {
        let table = std::mem::take(&mut self.table);
        let placed = match self.header.take() {
            Some(header) => self.place(header, table),
            None => {
                self.root = table;
                are_distinct(&self.root).then_some(())
            }
        };
        if placed.is_none() {
            self.give_up();
        }
    }

    fn place(&mut self, header: Header<'a>, mut table: Vec<KeyValue<'a>>) -> Option<()> {
        let Header {
            mut path,
            at,
            is_of_list,
        } = header;
        let Key {
            text: key,
            at: key_at,
        } = path.pop()?;
        let parent = descend(&mut self.root, path, self.source, self.start)?;
        let known = parent.iter().position(|pair| pair.key == key);
        if is_of_list {
            table.shrink_to_fit();
            let is_sound = are_distinct(&table);
            let value = TomlContent::Table(table);
            let item = TomlValue { value, at };
            match known {
                Some(known) => list_of_headers(&mut parent[known].value)?.push(item),
                None => {
                    let value = TomlContent::List(vec![item]);
                    let value = TomlValue { value, at };
                    parent.push(KeyValue { key, key_at, value });
                }
            }
            return is_sound.then_some(());
        }
        // Its tables may have come before it; then they stand before its own entries.
        if let Some(known) = known {
            let KeyValue { key_at, value, .. } = parent.remove(known);
            let TomlContent::Table(mut inner) = value.value else {
                return None;
            };
            if value.at != key_at {
                return None;
            }
            inner.append(&mut table);
            table = inner;
        }
        let is_sound = are_distinct(&table);
        let value = TomlContent::Table(table);
        let value = TomlValue { value, at };
        parent.push(KeyValue { key, key_at, value });
        is_sound.then_some(())
    }
}

/// The tables of a list that is made of headers, which has the position of the first of them.
fn list_of_headers<'t, 'a>(value: &'t mut TomlValue<'a>) -> Option<&'t mut Vec<TomlValue<'a>>> {
    let at = value.at;
    match &mut value.value {
        TomlContent::List(items) if items.first()?.at == at => Some(items),
        _ => None,
    }
}

/// The table of this path. One that only a path names has the position of its key there.
fn descend<'t, 'a>(
    mut table: &'t mut Vec<KeyValue<'a>>,
    path: Vec<Key<'a>>,
    source: Source<'a>,
    start: usize,
) -> Option<&'t mut Vec<KeyValue<'a>>> {
    for Key {
        text: key,
        at: key_at,
    } in path
    {
        let known = table.iter().position(|pair| pair.key == key);
        let place = known.unwrap_or_else(|| {
            let value = TomlContent::Table(Vec::new());
            let value = TomlValue { value, at: key_at };
            table.push(KeyValue { key, key_at, value });
            table.len() - 1
        });
        let mut value = &mut table[place].value;
        if value.items().is_some() {
            value = list_of_headers(value)?.last_mut()?;
        }
        // A table in braces is closed.
        let first = source.input().as_bytes().get(value.at.start() - start);
        if first == Some(&b'{') {
            return None;
        }
        let TomlContent::Table(entries) = &mut value.value else {
            return None;
        };
        table = entries;
    }
    Some(table)
}

impl EventReceiver for Reader<'_> {
    fn std_table_open(&mut self, span: toml_parser::Span, _: &mut dyn ErrorSink) {
        self.begin_header(span, false);
    }

    fn std_table_close(&mut self, span: toml_parser::Span, _: &mut dyn ErrorSink) {
        self.end_header(span);
    }

    fn array_table_open(&mut self, span: toml_parser::Span, _: &mut dyn ErrorSink) {
        self.begin_header(span, true);
    }

    fn array_table_close(&mut self, span: toml_parser::Span, _: &mut dyn ErrorSink) {
        self.end_header(span);
    }

    fn inline_table_open(&mut self, span: toml_parser::Span, _: &mut dyn ErrorSink) -> bool {
        self.begin(span, TomlContent::Table(Vec::new()));
        true
    }

    fn inline_table_close(&mut self, span: toml_parser::Span, _: &mut dyn ErrorSink) {
        self.end(span);
    }

    fn array_open(&mut self, span: toml_parser::Span, _: &mut dyn ErrorSink) -> bool {
        self.begin(span, TomlContent::List(Vec::new()));
        true
    }

    fn array_close(&mut self, span: toml_parser::Span, _: &mut dyn ErrorSink) {
        self.end(span);
    }

    fn simple_key(&mut self, span: toml_parser::Span, kind: Option<Encoding>, faults: &mut dyn ErrorSink) {
        let Some(raw) = self.source.get(span) else {
            return self.give_up();
        };
        let mut text = Cow::Borrowed("");
        let raw = toml_parser::Raw::new_unchecked(raw.as_str(), kind, span);
        raw.decode_key(&mut text, faults);
        let key = Key {
            text,
            at: self.span(span),
        };
        match &mut self.header {
            Some(header) if self.in_header && header.path.len() >= DEPTH as usize => self.give_up(),
            Some(header) if self.in_header => header.path.push(key),
            _ => self.key = Some(key),
        }
    }

    fn key_sep(&mut self, _: toml_parser::Span, _: &mut dyn ErrorSink) {
        if !self.in_header {
            self.give_up();
        }
    }

    fn scalar(&mut self, span: toml_parser::Span, kind: Option<Encoding>, faults: &mut dyn ErrorSink) {
        let Some(raw) = self.source.get(span) else {
            return self.give_up();
        };
        let mut text = Cow::Borrowed("");
        let raw = toml_parser::Raw::new_unchecked(raw.as_str(), kind, span);
        let content = match raw.decode_scalar(&mut text, faults) {
            ScalarKind::String => TomlContent::Text(text),
            ScalarKind::Boolean(value) => TomlContent::Boolean(value),
            ScalarKind::Integer(radix) => TomlContent::integer(&text, radix.value()),
            ScalarKind::Float => TomlContent::fraction(&text),
            ScalarKind::DateTime => return self.give_up(),
        };
        let at = self.span(span);
        self.value(content, at);
    }

    fn error(&mut self, _: toml_parser::Span, _: &mut dyn ErrorSink) {
        self.give_up();
    }
}
