//! Inputs, mutated from a corpus.
//!
//! The mutations are those of the established fuzzers: bits, interesting numbers, blocks copied,
//! removed and exchanged, two files spliced, words of a dictionary. The dictionary is taken from
//! the corpus itself. Texts are mutated by lines and words, so that most of what results still has
//! the shape of its language.

use engine::random::{Rng, Seed};
use std::collections::BTreeSet;

/// What the bytes of an input are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputShape {
    /// A message or file in a binary format, of so many bytes at most.
    Binary(usize),
    /// A text, of so many bytes at most.
    Text(usize),
    /// Decisions of a sequence of operations, of so many bytes at most. Any bytes are valid.
    Choices(usize),
}

impl InputShape {
    /// So many bytes at most.
    pub fn longest(self) -> usize {
        match self {
            Self::Binary(longest) | Self::Text(longest) | Self::Choices(longest) => longest,
        }
    }
}

/// Numbers at which fields and limits break.
const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    15,
    16,
    19,
    20,
    31,
    32,
    39,
    40,
    63,
    64,
    127,
    128,
    255,
    256,
    1499,
    1500,
    1514,
    4095,
    4096,
    32_767,
    32_768,
    65_535,
    65_536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Makes the inputs of one target.
#[derive(Debug)]
pub struct Mutator {
    shape: InputShape,
    corpus: Vec<Vec<u8>>,
    dictionary: Vec<Vec<u8>>,
}

/// A number of this run: below the bound, which may be 0.
fn below(rng: &mut Rng, bound: usize) -> usize {
    match bound {
        0 => 0,
        _ => rng.below(bound as u64) as usize,
    }
}

impl Mutator {
    /// Makes inputs of this shape from a corpus.
    pub fn new(shape: InputShape, corpus: Vec<Vec<u8>>) -> Self {
        let dictionary = match shape {
            InputShape::Text(_) => words(&corpus),
            InputShape::Binary(_) | InputShape::Choices(_) => Vec::new(),
        };
        Self {
            shape,
            corpus,
            dictionary,
        }
    }

    /// The input of this run.
    pub fn input(&self, seed: u64, run: u64) -> Vec<u8> {
        let mut rng = Seed(seed.wrapping_add(run.wrapping_mul(0x9e37_79b9_7f4a_7c15))).stream();
        let mut input = self.seed(&mut rng);
        // Mostly little is changed: what is broken early hides what comes later.
        let changes = match rng.below(8) {
            0..=3 => 1 + rng.below(2),
            4..=6 => 1 + rng.below(6),
            _ => 1 + rng.below(32),
        };
        for _ in 0..changes {
            match self.shape {
                InputShape::Text(_) if rng.below(6) > 0 => self.change_text(&mut rng, &mut input),
                _ => self.change_bytes(&mut rng, &mut input),
            }
            input.truncate(self.shape.longest());
        }
        input
    }

    fn seed(&self, rng: &mut Rng) -> Vec<u8> {
        let choices = matches!(self.shape, InputShape::Choices(_));
        if self.corpus.is_empty() || (choices && rng.below(4) > 0) {
            let len = match rng.below(4) {
                0 => below(rng, 64),
                _ => below(rng, self.shape.longest()).min(below(rng, self.shape.longest())),
            };
            return (0..len).map(|_| rng.bits() as u8).collect();
        }
        // Of a short one more is changed in the same time, and less hides it.
        let (one, other) = (self.any_file(rng), self.any_file(rng));
        if other.len() < one.len() { other } else { one }.to_vec()
    }

    fn any_file(&self, rng: &mut Rng) -> &[u8] {
        match self.corpus.is_empty() {
            true => &[],
            false => &self.corpus[below(rng, self.corpus.len())],
        }
    }

    fn change_bytes(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        let at = below(rng, input.len());
        match rng.below(10) {
            0 if at < input.len() => input[at] ^= 1 << rng.below(8),
            1 if at < input.len() => input[at] = rng.bits() as u8,
            2 | 3 => put_number(rng, input, at),
            4 => {
                let end = at + below(rng, (input.len() - at).min(64) + 1);
                input.drain(at..end);
            }
            5 => {
                let end = at + below(rng, (input.len() - at).min(64) + 1);
                let copied = input[at..end].to_vec();
                let to = below(rng, input.len() + 1);
                input.splice(to..to, copied);
            }
            6 => {
                let random: Vec<u8> = (0..1 + rng.below(16)).map(|_| rng.bits() as u8).collect();
                input.splice(at..at, random);
            }
            7 => self.splice(rng, input),
            8 => input.truncate(at),
            _ => self.overwrite(rng, input),
        }
    }

    /// The beginning of this one and the end of another.
    fn splice(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        let cut = below(rng, input.len() + 1);
        let other = self.any_file(rng);
        // Fields of two messages of one kind stand at the same places.
        let from = match rng.below(2) {
            0 => cut.min(other.len()),
            _ => below(rng, other.len() + 1),
        };
        input.truncate(cut);
        input.extend_from_slice(&other[from..]);
    }

    /// Some bytes of another file, at their place there.
    fn overwrite(&self, rng: &mut Rng, input: &mut [u8]) {
        let other = self.any_file(rng);
        let len = input.len().min(other.len());
        let from = below(rng, len);
        let to = from + below(rng, (len - from).min(32) + 1);
        input[from..to].copy_from_slice(&other[from..to]);
    }

    fn change_text(&self, rng: &mut Rng, input: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> = input
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        let at = below(rng, lines.len());
        match rng.below(10) {
            0 if !lines.is_empty() => drop(lines.remove(at)),
            1 if !lines.is_empty() => lines.insert(at, lines[at].clone()),
            2 if !lines.is_empty() => {
                let other = below(rng, lines.len());
                lines.swap(at, other);
            }
            3 => {
                let file = self.any_file(rng);
                let theirs: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
                if !theirs.is_empty() {
                    let from = below(rng, theirs.len());
                    let to = (from + 1 + below(rng, 4)).min(theirs.len());
                    let theirs = theirs[from..to].iter().map(|line| line.to_vec());
                    lines.splice(at..at, theirs.collect::<Vec<_>>());
                }
            }
            4 if !lines.is_empty() => {
                let depth = 1 << rng.below(9);
                let bracket: &[u8] = [&b"["[..], b"{a=", b"(", b"\"", b"'''"][below(rng, 5)];
                let place = below(rng, lines[at].len());
                lines[at].splice(place..place, bracket.repeat(depth));
            }
            _ if !lines.is_empty() => self.change_word(rng, &mut lines[at]),
            _ => {}
        }
        *input = lines.concat();
    }

    /// Replaces, removes or repeats a word of the line.
    fn change_word(&self, rng: &mut Rng, line: &mut Vec<u8>) {
        let places = word_places(line);
        let place = match places.is_empty() {
            true => 0..0,
            false => places[below(rng, places.len())].clone(),
        };
        let word = line[place.clone()].to_vec();
        let replacement = match rng.below(8) {
            0 => Vec::new(),
            1 => [word.as_slice(), b" ", &word].concat(),
            2 | 3 => number_word(rng),
            4 if word.iter().any(u8::is_ascii_digit) => {
                let unit: &[u8] =
                    [&b"s"[..], b"ms", b"bit/s", b"Gbit/s", b"%", b"B", b"kB", b""][below(rng, 8)];
                [number_word(rng).as_slice(), unit].concat()
            }
            _ if self.dictionary.is_empty() => Vec::new(),
            _ => self.dictionary[below(rng, self.dictionary.len())].clone(),
        };
        line.splice(place, replacement);
    }
}

/// An interesting number or a small change, in one of the widths and orders of binary formats.
fn put_number(rng: &mut Rng, input: &mut [u8], at: usize) {
    let width = 1 << rng.below(4);
    let Some(field) = input.get_mut(at..at + width) else {
        return;
    };
    let big = rng.below(2) == 0;
    if !big {
        field.reverse();
    }
    let old = field
        .iter()
        .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let value = match rng.below(3) {
        0 => old.wrapping_add(rng.below(9)).wrapping_sub(4),
        1 => NUMBERS[below(rng, NUMBERS.len())],
        _ => NUMBERS[below(rng, NUMBERS.len())].wrapping_neg(),
    };
    field.copy_from_slice(&value.to_be_bytes()[8 - width..]);
    if !big {
        field.reverse();
    }
}

fn number_word(rng: &mut Rng) -> Vec<u8> {
    let number = NUMBERS[below(rng, NUMBERS.len())];
    match rng.below(6) {
        0 => format!("-{number}"),
        1 => format!("{number}.5"),
        2 => format!("{}", rng.below(1_000)),
        3 => format!("{number}e{}", rng.below(40)),
        _ => format!("{number}"),
    }
    .into_bytes()
}

fn word_places(line: &[u8]) -> Vec<std::ops::Range<usize>> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte) || *byte >= 128;
    let mut places = Vec::new();
    let mut start = None;
    for (at, byte) in line.iter().enumerate() {
        match (is_word(byte), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                places.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    places.extend(start.map(|from| from..line.len()));
    places
}

fn words(corpus: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let of = |text: &Vec<u8>| -> Vec<Vec<u8>> {
        let places = word_places(text);
        places.into_iter().map(|place| text[place].to_vec()).collect()
    };
    let all: BTreeSet<Vec<u8>> = corpus.iter().flat_map(of).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_function_of_seed_and_run_and_seldom_the_same_twice() {
        for shape in [
            InputShape::Binary(64),
            InputShape::Text(64),
            InputShape::Choices(64),
        ] {
            let made = || Mutator::new(shape, vec![b"rate = 5\nburst = 7\n".to_vec(), vec![0; 40]]);
            let (one, other) = (made(), made());
            let inputs: Vec<Vec<u8>> = (0..1_000).map(|run| one.input(1, run)).collect();
            assert!((0..1_000).all(|run| inputs[run as usize] == other.input(1, run)));
            let distinct: BTreeSet<&Vec<u8>> = inputs.iter().collect();
            assert!(
                (500..=1_000).contains(&distinct.len()),
                "{shape:?}: {}",
                distinct.len()
            );
            assert!(inputs.iter().all(|input| input.len() <= 64));
        }
    }

    #[test]
    fn words_of_the_corpus_come_to_other_places() {
        let mutator = Mutator::new(
            InputShape::Text(99),
            vec![b"rate = 5\n".to_vec(), b"burst = 7\n".to_vec()],
        );
        let mixed = (0..1_000).filter(|run| {
            let text = mutator.input(1, *run);
            let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
            has(b"rate") && has(b"burst")
        });
        assert!(mixed.count() > 50);
    }
}
