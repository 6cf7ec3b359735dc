//! A file with all its mutants in it, of which a number chooses one when the program runs, or none:
//! one build serves them all. Text is only put in, never taken out; where a compiler then
//! complains, [`Woven::blamed`] says of which mutants.

use super::sites::{Form, Site};
use std::ops::Range;

/// Tells a program which mutant is alive.
pub const ALIVE: &str = "SUIMON_MUTANT_ALIVE";
/// Tells a program to write the sites that it reaches into this file.
pub const SEEN: &str = "SUIMON_MUTANTS_SEEN";

/// What chooses, at the end of a crate's root. `at` is 0, or which of the `count` mutants from
/// `first` on is alive.
pub fn chooser() -> String {
    CHOOSER.replace("$ALIVE", ALIVE).replace("$SEEN", SEEN)
}

const CHOOSER: &str = r#"
#[doc(hidden)]
pub(crate) mod mutants {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
    const UNREAD: u32 = u32::MAX;
    const LISTENS: u32 = u32::MAX - 1;
    static ALIVE: AtomicU32 = AtomicU32::new(UNREAD);
    static SEEN: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];
    #[inline]
    pub(crate) fn at(first: u32, count: u32) -> u32 {
        let alive = ALIVE.load(Relaxed);
        let which = alive.wrapping_sub(first);
        if which < count {
            return which + 1;
        }
        if alive >= LISTENS { seldom(first, count) } else { 0 }
    }
    #[cold]
    fn seldom(first: u32, count: u32) -> u32 {
        if ALIVE.load(Relaxed) == UNREAD {
            let read = |name: &str| std::env::var(name).ok();
            let number = read("$ALIVE").and_then(|text| text.parse().ok());
            let listens = read("$SEEN").is_some();
            ALIVE.store(number.unwrap_or(if listens { LISTENS } else { 0 }), Relaxed);
            return at(first, count);
        }
        if !SEEN[first as usize].load(Relaxed) && !SEEN[first as usize].swap(true, Relaxed) {
            let file = std::env::var("$SEEN").unwrap_or_default();
            let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
            let _ = file.and_then(|mut file| file.write_all(format!("{first}\n").as_bytes()));
        }
        0
    }
}
"#;

/// A site with numbers for its mutants.
#[derive(Debug)]
pub struct NumberedSite {
    pub site: Site,
    /// That of its first; the others follow.
    pub first: u32,
    /// Whether each alternative compiles, as far as is known.
    pub builds: Vec<bool>,
}

/// Numbers sites from `next` on, which then is the next that is free.
pub fn numbered(sites: Vec<Site>, next: &mut u32) -> Vec<NumberedSite> {
    sites
        .into_iter()
        .map(|site| {
            let (first, count) = (*next, site.alternatives.len());
            *next += count as u32;
            NumberedSite {
                site,
                first,
                builds: vec![true; count],
            }
        })
        .collect()
}

/// A site that is in the text.
#[derive(Debug)]
struct Part {
    /// The mutants' numbers: as many as there are alternatives.
    first: u32,
    /// Where all of it stands in the new text.
    range: Range<usize>,
    /// Where each alternative stands.
    alternatives: Vec<Range<usize>>,
}

/// A file with its mutants.
#[derive(Debug)]
pub struct Woven {
    pub text: String,
    parts: Vec<Part>,
}

/// Text that is put in somewhere. What ends comes before what begins.
struct Put {
    at: usize,
    begins: bool,
    text: String,
    part: usize,
    alternatives: Vec<Range<usize>>,
}

/// Weaves those that build into a text.
pub fn weave(text: &str, sites: &[NumberedSite]) -> Woven {
    let mut begins = Vec::new();
    let mut ends: Vec<Put> = Vec::new();
    for (part, numbered) in sites.iter().enumerate() {
        if numbered.builds.contains(&true) {
            let (begin, end) = puts(numbered, part);
            begins.push(begin);
            ends.extend(end);
        }
    }
    // Of two that end at one place the inner, which came later, ends first.
    ends.reverse();
    let mut all: Vec<Put> = ends.into_iter().chain(begins).collect();
    all.sort_by_key(|put| (put.at, put.begins));
    let mut woven = Woven {
        text: String::with_capacity(text.len() * 4),
        parts: sites
            .iter()
            .map(|numbered| Part {
                first: numbered.first,
                range: 0..0,
                alternatives: Vec::new(),
            })
            .collect(),
    };
    let mut done = 0;
    for put in all {
        woven.text.push_str(&text[done..put.at]);
        done = put.at;
        let start = woven.text.len();
        woven.text.push_str(&put.text);
        let part = &mut woven.parts[put.part];
        match put.begins {
            true => {
                part.range = start..woven.text.len();
                let moved = |range: &Range<usize>| start + range.start..start + range.end;
                part.alternatives = put.alternatives.iter().map(moved).collect();
            }
            false => part.range.end = woven.text.len(),
        }
    }
    woven.text.push_str(&text[done..]);
    woven
}

/// What is put in before and after a site.
fn puts(numbered: &NumberedSite, part: usize) -> (Put, Option<Put>) {
    let NumberedSite { site, first, builds } = numbered;
    let count = site.alternatives.len();
    let mut before = match site.form {
        Form::Expression => format!("(match crate::mutants::at({first}, {count}) {{ "),
        Form::Body => format!(" match crate::mutants::at({first}, {count}) {{ "),
        Form::Pattern => format!(" if crate::mutants::at({first}, {count}) == 0"),
    };
    let mut alternatives = Vec::new();
    for (at, (alternative, builds)) in site.alternatives.iter().zip(builds).enumerate() {
        let start = before.len();
        if *builds && site.form != Form::Pattern {
            let returns = if site.form == Form::Body { "return " } else { "" };
            before.push_str(&format!("{} => {returns}{}, ", at + 1, alternative.text));
        }
        alternatives.push(start..before.len());
    }
    let (at, after) = match site.form {
        Form::Expression => {
            before.push_str("_ => ");
            (site.range.start, Some(" })"))
        }
        Form::Body => {
            before.push_str("_ => {} }");
            (site.range.start + 1, Some(""))
        }
        Form::Pattern => (site.range.end, None),
    };
    let begin = Put {
        at,
        begins: true,
        text: before,
        part,
        alternatives,
    };
    let end = after.map(|text| Put {
        at: site.range.end,
        begins: false,
        text: text.to_owned(),
        part,
        alternatives: Vec::new(),
    });
    (begin, end)
}

impl Woven {
    /// The mutants that a complaint about these bytes is about: one alternative, or all of the
    /// smallest site around.
    pub fn blamed(&self, bytes: &Range<usize>) -> Vec<u32> {
        let holds = |range: &Range<usize>| range.start <= bytes.start && bytes.end <= range.end;
        let around = self.parts.iter().filter(|part| holds(&part.range));
        let Some(part) = around.min_by_key(|part| part.range.len()) else {
            return Vec::new();
        };
        let numbers = part.first..part.first + part.alternatives.len() as u32;
        match part.alternatives.iter().position(holds) {
            Some(at) => vec![part.first + at as u32],
            None => numbers.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sites;
    use super::*;

    fn woven(text: &str) -> Woven {
        let found = sites::of(text).expect("Rust");
        weave(text, &numbered(found.sites, &mut 1))
    }

    #[test]
    fn sites_within_sites_stay_where_they_are() {
        let woven = woven("fn f(a: i32) -> bool { a + 1 == 2 }");
        assert_eq!(
            woven.text,
            "fn f(a: i32) -> bool { match crate::mutants::at(1, 2) { 1 => return true, 2 => return false, _ => {} } \
             (match crate::mutants::at(3, 1) { 1 => (a + 1) != (2), _ => \
             (match crate::mutants::at(4, 2) { 1 => (a) - (1), 2 => (a) * (1), _ => a + 1 }) == 2 }) }"
        );
    }

    #[test]
    fn a_complaint_is_about_the_alternative_or_the_site() {
        let woven = woven("fn f(a: i32) -> bool { a + 1 == 2 }");
        let at = |part: &str| {
            let start = woven.text.find(part).expect("a part");
            start..start + part.len()
        };
        assert_eq!(woven.blamed(&at("(a) * (1)")), [5]);
        assert_eq!(woven.blamed(&at("return false")), [2]);
        assert_eq!(woven.blamed(&at("_ => a + 1")), [4, 5]);
        assert_eq!(woven.blamed(&at("f(a")), [0; 0]);
    }

    #[test]
    fn an_arm_is_guarded() {
        let woven = woven("fn f(a: i32) { match a { 1 | 2 => {} _ => {} } }");
        assert!(
            woven
                .text
                .contains("1 | 2 if crate::mutants::at(2, 1) == 0 => {}"),
            "{}",
            woven.text
        );
    }
}
