//! Files that differ from a known text anywhere are read as what they are.

use super::*;
use engine::random::{Rng, Seed};
use std::path::PathBuf;

/// A file that is removed at the end.
struct Written(PathBuf);

impl Written {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("control-shared-text-{name}-{}", std::process::id())))
    }

    fn read(&self, bytes: &[u8], known: &SharedText) -> Result<SharedText, String> {
        std::fs::write(&self.0, bytes).expect("a file");
        SharedText::read(&self.0, 1 << 20, known)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Characters of one to four bytes, few enough that what is removed or inserted looks as what is
/// beside it.
fn drawn(rng: &mut Rng, many: u64) -> String {
    (0..many)
        .map(|_| ['a', 'b', '\n', 'ä', '水', '😀'][rng.below(6) as usize])
        .collect()
}

#[test]
fn a_file_is_read_as_it_is_whatever_is_known() {
    let file = Written::new("any");
    let mut rng = Seed(3).stream();
    let (mut shared, mut own) = (0, 0);
    for round in 0..600 {
        let many = if round % 20 == 0 { 60_000 } else { rng.below(60) };
        let first = drawn(&mut rng, many);
        let mut known = SharedText::from(first.as_str());
        for _ in 0..4 {
            let mut chars: Vec<char> = known.whole().chars().collect();
            let at = rng.below(chars.len() as u64 + 1) as usize;
            let end = (at + rng.below(6) as usize).min(chars.len());
            let many = rng.below(6);
            chars.splice(at..end, drawn(&mut rng, many).chars());
            let text: String = chars.into_iter().collect();
            let read = file.read(text.as_bytes(), &known).expect("a text");
            assert_eq!(read.whole(), text);
            assert!(read == SharedText::from(text.as_str()));
            assert_eq!(read == known, text == known.whole());
            match read.shares_base(&known) {
                true => {
                    shared += 1;
                    assert!(
                        read.edit()
                            .is_none_or(|edit| edit.with.len() <= read.base().len() / PART)
                    );
                }
                false => own += 1,
            }
            known = read;
        }
    }
    assert!(shared > 500 && own > 100, "{shared} shared, {own} of their own");
}

#[test]
fn of_a_long_text_that_differs_in_a_word_the_word_alone_is_kept() {
    let file = Written::new("word");
    let line = "a line of a long text\n";
    let known = SharedText::from(line.repeat(30_000));
    let new = known
        .whole()
        .replacen("line", "word", 20_000)
        .replacen("word", "line", 19_999);
    let read = file.read(new.as_bytes(), &known).expect("a text");
    assert!(read.shares_base(&known) && read.whole() == new);
    assert_eq!(read.edit().map(|edit| &*edit.with), Some("word"));
    let back = file.read(known.whole().as_bytes(), &read).expect("a text");
    assert!(back == known && back.edit().is_none());
}

#[test]
fn what_is_no_text_or_too_long_is_refused_wherever_it_differs() {
    let file = Written::new("no-text");
    let known = SharedText::from("a ä b\n".repeat(100));
    let mut bytes = known.whole().as_bytes().to_vec();
    // The second half of a character.
    bytes.remove(7 * 50 + 2);
    assert_eq!(
        file.read(&bytes, &known).err().as_deref(),
        Some("it is not UTF-8 text")
    );
    let long = vec![b'a'; (1 << 20) + 1];
    let refused = file.read(&long, &known).expect_err("it is too long");
    assert_eq!(refused, "it is longer than 1 MB, the most that is read");
    let missing = SharedText::read(Path::new("/no/such/file"), 1, &known);
    assert_eq!(missing.err().as_deref(), Some("no such file"));
}

#[test]
fn an_edit_of_no_part_of_the_base_is_none() {
    let base = SharedText::from("aä");
    let edit = |at: Range<usize>| base.edited(Edit { at, with: "b".into() });
    assert!(edit(0..1).is_some_and(|text| text.whole() == "bä"));
    assert!(edit(3..3).is_some_and(|text| text.whole() == "aäb"));
    assert!(edit(1..2).is_none() && edit(0..4).is_none());
}

#[test]
fn whether_an_edited_text_is_in_tables_is_as_if_it_were_read_as_a_whole() {
    let base = "version = 1\n[interface.a]\nx = 1\n[[interface.a.class]]\nname = \"x\"\n".repeat(3);
    let base = SharedText::from(base);
    let mut rng = Seed(5).stream();
    let (mut are, mut are_not) = (0, 0);
    for _ in 0..3_000 {
        let [a, b] = [0, 1].map(|_| rng.below(base.base().len() as u64 + 1) as usize);
        let with = ["", "\n", "[", " ", "\"\"", "\"", "''", "]]", "x", "# [\n"][rng.below(10) as usize];
        let at = a.min(b)..a.max(b);
        let edited = base
            .edited(Edit {
                at,
                with: with.into(),
            })
            .expect("ASCII");
        let expected = class_tables::is_in_tables(&edited.whole());
        assert_eq!(edited.is_in_tables(), expected, "{}", edited.whole());
        *(if expected { &mut are } else { &mut are_not }) += 1;
    }
    assert!(are > 300 && are_not > 300, "{are} are, {are_not} are not");
}
