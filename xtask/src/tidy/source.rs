//! A Rust file as the rules see it: its code, comments and quoted text, and which part is for
//! tests.
//!
//! A scanner of a hundred lines, not a parser: it recognises comments, literals and lifetimes,
//! but no grammar.

use super::{Tree, rust};
use std::collections::BTreeSet;

/// Code between comments and literals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part<'a> {
    Code(&'a str),
    /// With its slashes.
    Comment(&'a str),
    /// The text between the quotes, with its escapes.
    Quoted(&'a str),
}

/// A part and the line where it begins, from 1.
pub type Numbered<'a> = (usize, Part<'a>);

/// The parts of a file in their order.
pub fn parts(text: &str) -> Vec<Numbered<'_>> {
    let bytes = text.as_bytes();
    let (mut out, mut line, mut code, mut at) = (Vec::new(), 1, 0, 0);
    while at < bytes.len() {
        let Some((part, end)) = special(text, at) else {
            at += 1;
            continue;
        };
        let mut push = |part, length: &str| {
            out.push((line, part));
            line += length.matches('\n').count();
        };
        if code < at {
            push(Part::Code(&text[code..at]), &text[code..at]);
        }
        push(part, &text[at..end]);
        (at, code) = (end, end);
    }
    if code < bytes.len() {
        out.push((line, Part::Code(&text[code..])));
    }
    out
}

/// The comment or literal that begins here, and where it ends.
fn special(text: &str, at: usize) -> Option<(Part<'_>, usize)> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    let word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest[0] {
        b'/' if rest.starts_with(b"//") => {
            let end = rest
                .iter()
                .position(|b| *b == b'\n')
                .map_or(text.len(), |n| at + n);
            Some((Part::Comment(&text[at..end]), end))
        }
        b'/' if rest.starts_with(b"/*") => {
            let end = at + block(rest);
            Some((Part::Comment(&text[at..end]), end))
        }
        b'"' => {
            let close = at + 1 + closing(&rest[1..], b'"');
            let end = (close + 1).min(text.len());
            Some((Part::Quoted(&text[at + 1..close]), end))
        }
        b'r' if !word => raw(text, at, 1),
        b'b' | b'c' if !word && rest.get(1) == Some(&b'r') => raw(text, at, 2),
        // A character, and not a lifetime: `'a'`, `'\n'`, `'"'`.
        b'\'' => {
            let inner = text[at + 1..].chars().next()?;
            let end = if inner == '\\' {
                at + 2 + closing(&rest[1..], b'\'')
            } else {
                let end = at + 1 + inner.len_utf8();
                (bytes.get(end) == Some(&b'\'')).then_some(end + 1)?
            };
            Some((Part::Code(&text[at..end]), end))
        }
        _ => None,
    }
}

/// The length of a comment that nests.
fn block(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Where this quote closes; escapes are skipped.
fn closing(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at.min(rest.len())
}

/// A raw literal, whose quote follows after this many letters.
fn raw(text: &str, at: usize, letters: usize) -> Option<(Part<'_>, usize)> {
    let rest = &text[at + letters..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let inner = rest[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let length = inner.find(&close).unwrap_or(inner.len());
    let begin = at + letters + hashes + 1;
    let end = (begin + length + close.len()).min(text.len());
    Some((Part::Quoted(&inner[..length]), end))
}

/// Only the code: comments and quoted text become spaces; line numbers stay the same.
pub fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let blank = |part: &str| -> String { part.chars().map(|c| if c == '\n' { c } else { ' ' }).collect() };
    for (_, part) in parts(text) {
        match part {
            Part::Code(code) => out += code,
            Part::Comment(comment) => out += &blank(comment),
            Part::Quoted(inner) => {
                out.push('"');
                out += &blank(inner);
                out.push('"');
            }
        }
    }
    out
}

/// Whether the character may be part of a name.
pub fn in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The part of a source file before its tests, by the convention that they come last.
pub fn before_tests(text: &str) -> &str {
    let inline = |at: &usize| {
        let declared = text[*at..].lines().nth(1).unwrap_or("");
        declared.contains("mod ") && declared.contains('{')
    };
    let mark = "#[cfg(test)]\n";
    let begins = text.match_indices(mark).map(|(at, _)| at);
    let top = |at: &usize| *at == 0 || text.as_bytes()[*at - 1] == b'\n';
    text.split_at(begins.filter(top).find(inline).unwrap_or(text.len()))
        .0
}

/// Lines without their comments, numbered from 1.
pub fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split("//").next().unwrap_or(line)))
}

/// The source files outside tests, up to their test modules.
pub fn production(tree: &Tree) -> impl Iterator<Item = (&String, &str)> {
    let tests = test_files(tree);
    rust(tree)
        .filter(|(path, _)| path.contains("/src/") && !path.starts_with("xtask/"))
        .filter(move |(path, _)| !tests.iter().any(|test| path.starts_with(test.as_str())))
        .map(|(path, text)| (path, before_tests(text)))
}

/// The files that are modules under `#[cfg(test)]`: `a/tests.rs`, and `a/tests/`.
fn test_files(tree: &Tree) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for (path, text) in rust(tree) {
        let folder = match path.strip_suffix("/mod.rs").or(path.strip_suffix("/lib.rs")) {
            Some(folder) => folder,
            None => path
                .strip_suffix("/main.rs")
                .unwrap_or(path.trim_end_matches(".rs")),
        };
        for after in text.split("#[cfg(test)]\n").skip(1) {
            let declared = after.lines().next().unwrap_or("").trim();
            let name = declared.strip_suffix(';').and_then(|d| d.split("mod ").nth(1));
            if let Some(name) = name {
                files.extend([format!("{folder}/{name}.rs"), format!("{folder}/{name}/")]);
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn code_comments_and_quotes_are_distinguished() {
        let text =
            "let a = \"x // \\\" y\"; // it's\nlet b = '\"'; /* a\n/* b */ */ let c: &'a str = r#\"q\"q\"#;";
        let all = parts(text);
        let of = |wanted: fn(&Part<'_>) -> bool| all.iter().filter(move |(_, part)| wanted(part));
        let quoted: Vec<_> = of(|part| matches!(part, Part::Quoted(_))).collect();
        assert_eq!(
            quoted,
            [&(1, Part::Quoted("x // \\\" y")), &(3, Part::Quoted("q\"q"))]
        );
        let comments: Vec<_> = of(|part| matches!(part, Part::Comment(_))).collect();
        assert_eq!(
            comments,
            [
                &(1, Part::Comment("// it's")),
                &(2, Part::Comment("/* a\n/* b */ */"))
            ]
        );
        let code = code_only(text);
        assert_eq!(code.lines().count(), 3);
        assert!(!code.contains("it's") && code.contains("let c: &'a str = "));
    }

    #[test]
    fn test_code_is_left_out() {
        let tree = tree(&[
            (
                "crates/a/src/lib.rs",
                "mod b;\n#[cfg(test)]\nmod rig;\nfn f() {}\n",
            ),
            ("crates/a/src/rig.rs", "x"),
            ("crates/a/src/rig/deep.rs", "x"),
            ("crates/a/src/b.rs", "y\n#[cfg(test)]\nmod tests {\n}\n"),
            ("crates/a/tests/c.rs", "z"),
        ]);
        let kept: Vec<_> = production(&tree)
            .map(|(path, text)| (path.as_str(), text))
            .collect();
        assert_eq!(
            kept,
            [
                ("crates/a/src/b.rs", "y\n"),
                (
                    "crates/a/src/lib.rs",
                    "mod b;\n#[cfg(test)]\nmod rig;\nfn f() {}\n"
                )
            ]
        );
    }
}
