//! Where two texts of a policy differ, told by the tables of classes and filters without reading
//! either text as a whole.
//!
//! A long policy is a list of tables `[[interface.NAME.class]]` and `[[interface.NAME.filter]]`.
//! Two such texts are compared byte by byte; around each place where they differ the text is cut
//! before the headers of such tables, from one that both have to the next that both have. What
//! stands in between is read; all else is the same in both, and so it means the same.
//!
//! That holds of a text that is [in tables](is_in_tables), which is known of the text in force: no
//! string goes on over lines, so a line that begins with a header is one; and no header is below
//! that of a class or a filter, so what one table says ends with the next header. Whatever cannot
//! be told so is left to a reading of the whole.

use std::ops::Range;

/// What a table begins with before which a text is cut.
const BEGIN: &str = "[[interface.";
/// The same, after the line before.
const NEXT: &str = "\n[[interface.";
/// What such tables are of.
const KEYS: [&str; 2] = ["class", "filter"];
/// Tables that are looked at after a difference until both texts have the same again, at most.
const AHEAD: usize = 64;
/// Places that differ, at most.
const PLACES: usize = 8;
/// Bytes that are compared at once.
const BLOCK: usize = 1 << 12;

/// Where two texts differ: tables that the new one has in place of those of the old one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    pub(crate) old: Range<usize>,
    pub(crate) new: Range<usize>,
    /// Where the table before it begins, in the new text; 0 if there is none.
    pub(crate) before: usize,
}

/// Whether a text consists of lines whose tables can be told apart by their headers. It has been
/// read, and is a policy.
pub fn is_in_tables(text: &str) -> bool {
    !has_thrice(text, b'"') && !has_thrice(text, b'\'') && text.lines().all(is_plain)
}

/// Whether this byte is somewhere three times in a row. Without an early end, so that many bytes
/// are looked at side by side.
fn has_thrice(text: &str, byte: u8) -> bool {
    let first = text.as_bytes();
    let [second, third] = [1, 2].map(|skipped| first.get(skipped..).unwrap_or_default());
    let threes = third.iter().zip(second).zip(first);
    threes.fold(false, |found, ((c, b), a)| {
        found | ((*a == byte) & (*b == byte) & (*c == byte))
    })
}

/// Whether a line is no header, or one without quotes and spaces, and not below a class or filter.
fn is_plain(line: &str) -> bool {
    let Some(header) = line.trim_start().strip_prefix('[') else {
        return true;
    };
    if line.starts_with(char::is_whitespace) {
        return false;
    }
    let Some((path, rest)) = header.trim_start_matches('[').split_once(']') else {
        return false;
    };
    let rest = rest.trim_start_matches(']').trim_start();
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut keys = path.split('.');
    let is_below = (keys.next(), keys.nth(1), keys.next());
    let is_below = matches!(is_below, (Some("interface"), Some("class" | "filter"), Some(_)));
    path.chars().all(is_bare) && !is_below && (rest.is_empty() || rest.starts_with('#'))
}

/// Where the last table begins of those that begin before this place; 0 if there is none.
pub(crate) fn last_before(text: &str, at: usize) -> usize {
    text[..at].rfind(NEXT).map_or(0, |line| line + 1)
}

/// Where the first table begins after this place; the end of the text if there is none.
pub(crate) fn first_after(text: &str, at: usize) -> usize {
    text[at..].find(NEXT).map_or(text.len(), |line| at + line + 1)
}

/// Where a new text differs from an old one, which is [in tables](is_in_tables). `None` if that
/// cannot be told, or in too many places.
pub(crate) fn differences(old: &str, new: &str) -> Option<Vec<Difference>> {
    let (mut at, mut found) = ((0, 0), Vec::new());
    while (at.0, at.1) != (old.len(), new.len()) {
        let alike = common(&old[at.0..], &new[at.1..])?;
        let same = &new[at.1..at.1 + alike];
        // The table in which they differ begins in what both have, or where both were cut.
        let begin = match same.rfind(NEXT) {
            Some(line) => line + 1,
            None if !found.is_empty() => 0,
            None => return None,
        };
        let before = last_before(new, at.1 + begin);
        at = (at.0 + begin, at.1 + begin);
        let end = next_same((old, at.0), (new, at.1))?;
        found.push(Difference {
            old: at.0..end.0,
            new: at.1..end.1,
            before,
        });
        at = end;
        if found.len() > PLACES {
            return None;
        }
    }
    Some(found)
}

/// How many bytes two texts have in common at their begin, up to a boundary of characters in both.
/// All of both only if they are the same.
fn common(old: &str, new: &str) -> Option<usize> {
    let blocks = old.as_bytes().chunks(BLOCK).zip(new.as_bytes().chunks(BLOCK));
    let blocks = blocks.take_while(|(old, new)| old == new);
    let start: usize = blocks.map(|(block, _)| block.len()).sum();
    let rest = old.as_bytes()[start..].iter().zip(&new.as_bytes()[start..]);
    let mut alike = start + rest.take_while(|(old, new)| old == new).count();
    while !old.is_char_boundary(alike) || !new.is_char_boundary(alike) {
        alike = alike.checked_sub(1)?;
    }
    Some(alike)
}

/// Where both texts have the same table again, or both end, after tables that begin here.
fn next_same((old, in_old): (&str, usize), (new, in_new): (&str, usize)) -> Option<(usize, usize)> {
    let (before, after) = (tables(old, in_old), tables(new, in_new));
    // The fewest tables first, so that none is read that both have.
    (1..before.len() + after.len()).find_map(|sum| {
        let pairs = (0..=sum).filter_map(|skipped| Some((before.get(skipped)?, after.get(sum - skipped)?)));
        let mut same = pairs.filter(|(a, b)| old[a.start..a.end] == new[b.start..b.end]);
        same.next().map(|(a, b)| (a.start, b.start))
    })
}

/// The tables from here on, and an empty range at the end of the text; of very many the first.
fn tables(text: &str, from: usize) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut start = from;
    while all.len() < AHEAD {
        let end = first_after(text, start);
        all.push(start..end);
        if start == end {
            break;
        }
        start = end;
    }
    all
}

/// The interface whose classes and filters alone this text is of, each with a header as it is
/// written here; `None` if there is anything else. What is read of such a text alone, it means in a
/// text that is [in tables](is_in_tables) as well.
pub(crate) fn interface_of(text: &str) -> Option<&str> {
    let (interface, _) = text.strip_prefix(BEGIN)?.split_once('.')?;
    let headers = KEYS.map(|key| format!("{BEGIN}{interface}.{key}]]"));
    let mut lines = text.lines().filter(|line| line.trim_start().starts_with('['));
    let alone = lines.all(|line| headers.iter().any(|header| line.starts_with(header)));
    (alone && is_in_tables(text)).then_some(interface)
}

/// Whether a table of this key of an interface begins in this text, which is [in
/// tables](is_in_tables) and begins with a line.
pub(crate) fn has_table(text: &str, interface: &str, key: &str) -> bool {
    let next = format!("{NEXT}{interface}.{key}]]");
    text.starts_with(&next[1..]) || text.contains(&next)
}

#[cfg(test)]
mod tests;
