//! Lists of words: in braces, and in round brackets.

use crate::place::{Word, Words};

/// One word, or those in braces without commas.
pub(super) fn list(words: &mut Words) -> Vec<Word> {
    if !words.take("{") {
        return words.next().into_iter().collect();
    }
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "}" => break,
            "," => {}
            _ => all.push(word),
        }
    }
    all
}

/// What stands between round brackets, if they come next.
pub(super) fn bracketed(words: &mut Words) -> Vec<Word> {
    let mut all = Vec::new();
    if !words.take("(") {
        return all;
    }
    let mut open = 1;
    while let Some(word) = words.next() {
        open += i32::from(word.text == "(") - i32::from(word.text == ")");
        if open == 0 {
            break;
        }
        all.push(word);
    }
    all
}
