//! Where something stands in the files that are read, what is wrong there, and the words of a line.

use std::fmt;

/// A file that is read.
#[derive(Clone, Copy, Debug)]
pub struct SourceFile<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What a file says, in a comment or on a terminal: characters that control either are written as
/// escapes.
pub(crate) fn in_a_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line
}

/// A place in one of the files; line 0 is the file as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    /// The number of the file, from 0.
    pub file: usize,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Place {
    /// A line of the first file.
    pub(crate) const fn line(line: usize) -> Self {
        Self {
            file: 0,
            line,
            column: 1,
        }
    }

    /// The place of this byte of a text.
    pub(crate) fn of(file: usize, text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            file,
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
        }
    }

    /// As messages show it, with the line alone.
    pub(crate) fn short(self, sources: &[String]) -> String {
        let name = in_a_line(sources.get(self.file).map_or("", String::as_str));
        match self.line {
            0 => name,
            line => format!("{name}:{line}"),
        }
    }
}

/// Why a file is not read: where, what, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportError {
    /// Where it stands.
    pub at: Place,
    /// What is wrong.
    pub message: String,
}

impl ImportError {
    pub(crate) fn new(at: Place, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
        }
    }

    /// With the name of the file, the line and the column.
    pub fn shown(&self, sources: &[SourceFile<'_>]) -> String {
        let Place { file, line, column } = self.at;
        let name = sources.get(file).map_or("", |source| source.name);
        in_a_line(&match line {
            0 => format!("{name}: {}", self.message),
            _ => format!("{name}:{line}:{column}: {}", self.message),
        })
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ImportError {}

/// A word of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) at: Place,
}

impl Word {
    /// An error about it.
    pub(crate) fn wrong(&self, expected: &str) -> ImportError {
        ImportError::new(self.at, format!("expected {expected}; found `{}`", self.text))
    }
}

/// The words of a statement, from left to right.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    list: Vec<Word>,
    next: usize,
}

impl Words {
    pub(crate) fn new(list: Vec<Word>) -> Self {
        Self { list, next: 0 }
    }

    /// Where the statement begins.
    pub(crate) fn start(&self) -> Place {
        self.list.first().map(|word| word.at).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<&str> {
        self.list.get(self.next).map(|word| word.text.as_str())
    }

    /// The word after the next one.
    pub(crate) fn after(&self) -> Option<&str> {
        self.list.get(self.next + 1).map(|word| word.text.as_str())
    }

    /// What is left of it.
    pub(crate) fn rest(mut self) -> Vec<Word> {
        self.list.split_off(self.next.min(self.list.len()))
    }

    pub(crate) fn next(&mut self) -> Option<Word> {
        let word = self.list.get(self.next)?.clone();
        self.next += 1;
        Some(word)
    }

    /// The next word if it is this one.
    pub(crate) fn take(&mut self, wanted: &str) -> bool {
        let is = self.peek() == Some(wanted);
        self.next += usize::from(is);
        is
    }

    /// The next word; what is expected there is named where the statement ends.
    pub(crate) fn expect(&mut self, what: &str) -> Result<Word, ImportError> {
        self.next().ok_or_else(|| {
            let last = self.list.last();
            let at = last.map_or(Place::default(), |word| Place {
                column: word.at.column + word.text.chars().count(),
                ..word.at
            });
            ImportError::new(at, format!("expected {what}; the line ends here"))
        })
    }
}

/// The statements of a text: a line each, `#` begins a comment, a backslash at the end continues a
/// line; these characters are words of their own, and text in double quotes is one word.
pub(crate) fn statements(text: &str, own: &[char]) -> Vec<Words> {
    let (mut all, mut words) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let continued = line.trim_end().ends_with('\\');
        split(line, number + 1, own, &mut words);
        if continued && words.last().is_some_and(|word| word.text == "\\") {
            words.pop();
        }
        if !continued && !words.is_empty() {
            all.push(Words::new(std::mem::take(&mut words)));
        }
    }
    if !words.is_empty() {
        all.push(Words::new(words));
    }
    all
}

/// The words again, those in quotes as several.
pub(crate) fn resplit(words: Words, own: &[char]) -> Vec<Word> {
    let mut all = Vec::new();
    for word in words.rest() {
        let from = all.len();
        split(&word.text, word.at.line, own, &mut all);
        all[from..].iter_mut().for_each(|part| part.at = word.at);
    }
    all
}

fn split(line: &str, number: usize, own: &[char], words: &mut Vec<Word>) {
    let mut word = String::new();
    let (mut begun, mut quoted) = (0, false);
    let mut end = |word: &mut String, begun: usize| {
        if !word.is_empty() {
            let at = Place {
                file: 0,
                line: number,
                column: begun,
            };
            words.push(Word {
                text: std::mem::take(word),
                at,
            });
        }
    };
    for (column, c) in (1..).zip(line.chars()) {
        if word.is_empty() {
            begun = column;
        }
        match c {
            '"' if !quoted => quoted = true,
            '"' => {
                quoted = false;
                end(&mut word, begun);
            }
            _ if quoted => word.push(c),
            '#' => break,
            _ if c.is_whitespace() => end(&mut word, begun),
            '\\' if line.trim_end().chars().count() == column => {
                end(&mut word, begun);
                word.push(c);
                end(&mut word, column);
            }
            _ if own.contains(&c) => {
                end(&mut word, begun);
                word.push(c);
                end(&mut word, column);
            }
            _ => word.push(c),
        }
    }
    end(&mut word, begun);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_a_line_or_several_and_each_word_has_its_place() {
        let text = "a  b{c}  # d\n\n  e \"f g\" \\\n h\n";
        let all = statements(text, &['{', '}']);
        let shown: Vec<Vec<String>> = all
            .iter()
            .map(|words| {
                let word = |word: &Word| format!("{}@{}:{}", word.text, word.at.line, word.at.column);
                words.list.iter().map(word).collect()
            })
            .collect();
        assert_eq!(
            shown,
            [
                vec!["a@1:1", "b@1:4", "{@1:5", "c@1:6", "}@1:7"],
                vec!["e@3:3", "f g@3:6", "h@4:2"],
            ]
        );
    }

    #[test]
    fn a_place_counts_characters() {
        let at = Place::of(0, "ü\nüb", 5);
        assert_eq!((at.line, at.column), (2, 2));
    }
}
