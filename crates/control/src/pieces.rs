//! A long TOML text, read in pieces.
//!
//! The parser holds all tokens and events of a text beside the growing document: three times the
//! memory of what is kept, 300 MB for a policy of 100,000 classes. Read in pieces of a megabyte,
//! cut before a `[[header]]`, by a few threads side by side, it holds those of one piece for each;
//! each piece is added to what came before it.
//!
//! The meaning is that of the whole text, or `None`: whatever cannot be told from the pieces alone
//! (a fault, a quoted or dotted key, a table that is opened in two pieces, an array that is not
//! made of headers) is left to a parser of the whole.

use crate::piece;
use crate::values::{KeyValue, TomlContent};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::available_parallelism;
use toml_parser::Source;
use toml_parser::lexer::{Token, TokenKind};

/// The length of a piece in bytes, or a little more.
pub(crate) const PIECE: usize = 1 << 20;

/// The text, read in pieces that are each `length` bytes long or a little more; `None` if there is
/// only one, or it has to be read as a whole.
pub(crate) fn read(text: &str, length: usize) -> Option<Vec<KeyValue<'_>>> {
    if text.len() <= length {
        return None;
    }
    let mut cuts = Cuts::new(length);
    cuts.read(text)?;
    if cuts.starts.len() == 1 {
        return None;
    }
    let many = cuts.starts.len();
    let readers = available_parallelism().map_or(1, NonZero::get).min(READERS);
    std::thread::scope(|scope| {
        let read = |reader: usize| {
            // One piece ahead of whoever takes them.
            let (sender, pieces) = sync_channel(1);
            let cuts = &cuts;
            scope.spawn(move || {
                let own = (reader..many).step_by(readers);
                // Nobody takes any more once one has a fault.
                own.map(|piece| sender.send(cuts.entries(text, piece)))
                    .take_while(Result::is_ok)
                    .for_each(drop);
            });
            pieces
        };
        let readers: Vec<Receiver<_>> = (0..readers).map(read).collect();
        let mut whole = Vec::new();
        for (piece, reader) in (0..many).zip(readers.iter().cycle()) {
            cuts.add("", &mut whole, reader.recv().ok()??, piece)?;
        }
        Some(whole)
    })
}

/// Threads that read pieces at most: each holds the tokens of one.
const READERS: usize = 4;

/// Where a text is cut, and what the headers say.
struct Cuts {
    length: usize,
    /// Where each piece begins.
    starts: Vec<usize>,
    /// The pieces in which a `[[header]]` of this path stands, in order.
    arrays: BTreeMap<String, BTreeSet<usize>>,
    /// The piece in which a `[header]` of this path, or any header below it, stands first: a table
    /// has the position of the former.
    tables: BTreeMap<String, usize>,
}

/// A line that begins with a bracket.
#[derive(Default)]
struct Header {
    brackets: usize,
    path: String,
}

impl Cuts {
    fn new(length: usize) -> Self {
        Self {
            length,
            starts: vec![0],
            arrays: BTreeMap::new(),
            tables: BTreeMap::new(),
        }
    }

    fn read(&mut self, text: &str) -> Option<()> {
        let (mut tokens, mut depth) = (Source::new(text).lex(), 0usize);
        let (mut begins_line, mut in_key) = (true, true);
        while let Some(token) = tokens.next() {
            match token.kind() {
                TokenKind::Newline => (begins_line, in_key) = (depth == 0, depth == 0),
                TokenKind::Whitespace | TokenKind::Comment | TokenKind::Eof => {}
                TokenKind::LeftSquareBracket if begins_line => {
                    self.header(token.span().start(), &header(text, &mut tokens)?)?;
                    (begins_line, in_key) = (true, true);
                }
                TokenKind::Dot if in_key => return None,
                TokenKind::Atom if in_key => begins_line = false,
                TokenKind::Equals => in_key = false,
                _ if in_key => return None,
                TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => depth += 1,
                TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                    depth = depth.checked_sub(1)?;
                }
                _ => {}
            }
        }
        Some(())
    }

    fn header(&mut self, at: usize, header: &Header) -> Option<()> {
        let path = &header.path;
        let above = path.match_indices('.').map(|(dot, _)| &path[..dot]);
        let mut arrays = above.clone().rev().filter_map(|above| self.arrays.get(above));
        let within = arrays.next();
        let mut piece = self.starts.len() - 1;
        match (header.brackets, within) {
            // It belongs to the last table of that array, which must be in the same piece.
            (_, Some(array)) if array.last() != Some(&piece) => return None,
            (2, None) if at - self.starts[piece] >= self.length => {
                self.starts.push(at);
                piece += 1;
            }
            (1, None) if *self.tables.entry(path.clone()).or_insert(piece) != piece => return None,
            _ => {}
        }
        for above in above.filter(|_| within.is_none()) {
            if !self.tables.contains_key(above) {
                self.tables.insert(above.to_owned(), piece);
            }
        }
        if header.brackets == 2 {
            self.arrays.entry(path.clone()).or_default().insert(piece);
        }
        Some(())
    }

    /// What is in a piece of the text; `None` if that has to be read as a whole.
    fn entries<'a>(&self, text: &'a str, piece: usize) -> Option<Vec<KeyValue<'a>>> {
        let start = self.starts[piece];
        let end = self.starts.get(piece + 1).copied().unwrap_or(text.len());
        piece::entries(&text[start..end], start)
    }

    /// The piece that this place of the text is in.
    fn piece(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }

    /// Adds what a piece has of the table of this path to what earlier ones have; `None` if
    /// together they may not mean what they mean in one.
    fn add<'a>(
        &self,
        path: &str,
        table: &mut Vec<KeyValue<'a>>,
        more: Vec<KeyValue<'a>>,
        piece: usize,
    ) -> Option<()> {
        let places = table.iter().enumerate();
        let places: HashMap<String, usize> = places
            .map(|(place, known)| (known.key.to_string(), place))
            .collect();
        for new in more {
            let Some(&place) = places.get(&*new.key) else {
                table.push(new);
                continue;
            };
            let known = &mut table[place];
            let path = match path {
                "" => new.key.to_string(),
                above => format!("{above}.{}", new.key),
            };
            let first = self.piece(known.key_at.start());
            match (&mut known.value.value, new.value.value) {
                // A table in braces, to which a later piece has a header, is closed.
                (TomlContent::Table(known), TomlContent::Table(more))
                    if self.tables.get(&path) == Some(&first) =>
                {
                    self.add(&path, known, more, piece)?;
                }
                (TomlContent::List(known), TomlContent::List(mut more)) => {
                    let headers = self.arrays.get(&path)?;
                    if !headers.contains(&first) || !headers.contains(&piece) {
                        return None;
                    }
                    known.append(&mut more);
                }
                _ => return None,
            }
        }
        Some(())
    }
}

/// The rest of a header, whose first bracket has been read.
fn header(text: &str, tokens: &mut impl Iterator<Item = Token>) -> Option<Header> {
    let mut header = Header {
        brackets: 1,
        ..Header::default()
    };
    for token in tokens {
        let (start, end) = (token.span().start(), token.span().end());
        match token.kind() {
            TokenKind::LeftSquareBracket if header.path.is_empty() => header.brackets += 1,
            TokenKind::Atom | TokenKind::Dot => header.path += &text[start..end],
            TokenKind::Whitespace | TokenKind::RightSquareBracket | TokenKind::Comment => {}
            TokenKind::Newline | TokenKind::Eof => return (header.brackets <= 2).then_some(header),
            _ => return None,
        }
    }
    Some(header)
}
