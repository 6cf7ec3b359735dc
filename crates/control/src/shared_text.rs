//! A policy's text, which shares with another all but where they differ.
//!
//! A policy of very many classes is megabytes, edited in a place or two. A text is a base and, if
//! it was read [like](SharedText::read) another of the same base, what stands in place of one part
//! of that. So a file is compared with what is known while it is read, and what is new is all that
//! is kept of it, in memory and on disk.

use crate::class_tables;
use crate::text_file;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Bytes that are read and compared at once: the caches hold them.
const BLOCK: usize = 64 << 10;
/// What stands in place of something is at most this part of the base: a longer one is a text of
/// its own.
const PART: usize = 4;

/// A text that may share most of it with others.
#[derive(Clone, Debug, Default)]
pub struct SharedText {
    base: Arc<Base>,
    edit: Option<Arc<Edit>>,
}

#[derive(Debug, Default)]
struct Base {
    text: String,
    /// Looked up once.
    in_tables: OnceLock<bool>,
}

/// What stands in place of a part of another text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Edit {
    /// The part, in bytes.
    pub at: Range<usize>,
    /// What stands there.
    pub with: String,
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        let in_tables = OnceLock::new();
        Self {
            base: Arc::new(Base { text, in_tables }),
            edit: None,
        }
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        match self.part_apart(other) {
            Some(part) => self.between(part.clone()) == other.between(part),
            None => self.whole() == other.whole(),
        }
    }
}

impl SharedText {
    /// The text of a file of at most `longest` bytes. It shares all but where they differ with a
    /// known one, if that is most of it.
    ///
    /// # Errors
    ///
    /// As [`text_file::read`].
    pub fn read(path: &Path, longest: u64, known: &Self) -> Result<Self, String> {
        let (file, length) = text_file::open(path)?;
        let shared = (length <= longest).then(|| known.edited_to(file, length));
        match shared.flatten() {
            Some(shared) => Ok(shared),
            None => text_file::read(path, longest).map(Self::from),
        }
    }

    /// The same base with what a file of this length has in place of a part of it. None if that is
    /// long or no text, or the file has become shorter meanwhile.
    fn edited_to(&self, mut file: File, length: u64) -> Option<Self> {
        let base = self.base();
        let length = usize::try_from(length).ok()?;
        let shorter = length.min(base.len());
        let mut start = alike(&mut file, base.as_bytes(), 0..shorter, false).ok()?;
        while !base.is_char_boundary(start) {
            start -= 1;
        }
        // Of the rest, from the end on; so much longer the file is.
        let rest = &base.as_bytes()[base.len() - (shorter - start)..];
        let mut alike = alike(&mut file, rest, length - rest.len()..length, true).ok()?;
        while !base.is_char_boundary(base.len() - alike) {
            alike -= 1;
        }
        let new = length - alike - start;
        if new > base.len() / PART {
            return None;
        }
        let mut with = vec![0; new];
        file.seek(SeekFrom::Start(start as u64)).ok()?;
        file.read_exact(&mut with).ok()?;
        self.edited(Edit {
            at: start..base.len() - alike,
            with: String::from_utf8(with).ok()?,
        })
    }

    /// The base alone.
    #[must_use]
    pub fn unedited(&self) -> Self {
        Self {
            base: Arc::clone(&self.base),
            edit: None,
        }
    }

    /// The same base with this in place of a part of it; none if there is no such part.
    #[must_use]
    pub fn edited(&self, edit: Edit) -> Option<Self> {
        self.base().get(edit.at.clone())?;
        let changes = edit.with != self.base()[edit.at.clone()];
        Some(Self {
            edit: changes.then(|| Arc::new(edit)),
            ..self.unedited()
        })
    }

    /// The text without its edit.
    pub fn base(&self) -> &str {
        &self.base.text
    }

    /// What stands in place of a part of the base; none if the text is its base.
    pub fn edit(&self) -> Option<&Edit> {
        self.edit.as_deref()
    }

    /// Whether both are edits of one text.
    pub fn shares_base(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.base, &other.base)
    }

    /// All of it.
    pub fn whole(&self) -> Cow<'_, str> {
        match self.edit() {
            None => Cow::Borrowed(self.base()),
            Some(_) => Cow::Owned(self.between(0..self.base().len()).into_owned()),
        }
    }

    /// The part of the base in which all is that two texts of it differ in; none if they are of
    /// two.
    pub(crate) fn part_apart(&self, other: &Self) -> Option<Range<usize>> {
        let edits = || [self, other].into_iter().filter_map(Self::edit);
        let start = edits().map(|edit| edit.at.start).min().unwrap_or(0);
        let end = edits().map(|edit| edit.at.end).max().unwrap_or(0);
        self.shares_base(other).then_some(start..end)
    }

    /// What stands in place of a part of the base in which all of the edit is.
    pub(crate) fn between(&self, part: Range<usize>) -> Cow<'_, str> {
        let base = self.base();
        match self.edit() {
            None => Cow::Borrowed(&base[part]),
            Some(Edit { at, with }) => {
                Cow::Owned([&base[part.start..at.start], with, &base[at.end..part.end]].concat())
            }
        }
    }

    /// Whether it is [in tables](class_tables::is_in_tables).
    pub fn is_in_tables(&self) -> bool {
        let base = self.base();
        let of_base = *(self.base.in_tables).get_or_init(|| class_tables::is_in_tables(base));
        let of_lines = |edit: &Edit| {
            let first = base[..edit.at.start].rfind('\n').map_or(0, |end| end + 1);
            let last = base[edit.at.end..].find('\n');
            let last = last.map_or(base.len(), |end| edit.at.end + end);
            class_tables::is_in_tables(&self.between(first..last))
        };
        of_base && self.edit().is_none_or(of_lines)
    }
}

/// How many bytes of a part of a file are as these, counted from its begin or from its end; it is
/// as long as they are.
fn alike(file: &mut File, known: &[u8], part: Range<usize>, from_end: bool) -> io::Result<usize> {
    let mut block = vec![0; BLOCK.min(known.len())];
    let mut alike = 0;
    while alike < known.len() {
        let length = BLOCK.min(known.len() - alike);
        let at = match from_end {
            false => alike,
            true => known.len() - alike - length,
        };
        let (read, known) = (&mut block[..length], &known[at..at + length]);
        if from_end || alike == 0 {
            file.seek(SeekFrom::Start((part.start + at) as u64))?;
        }
        file.read_exact(read)?;
        if read != known {
            let pairs = || read.iter().zip(known);
            let same = |(read, known): &(&u8, &u8)| read == known;
            return Ok(alike
                + match from_end {
                    false => pairs().take_while(same).count(),
                    true => pairs().rev().take_while(same).count(),
                });
        }
        alike += length;
    }
    Ok(alike)
}

#[cfg(test)]
mod tests;
