//! pf.conf(5): queues of ALTQ, as FreeBSD has them (`altq on IF cbq queue { … }`), and of OpenBSD
//! (`queue NAME on IF bandwidth …`), and the rules that put packets into them.
//!
//! A rule is about a connection: of one that comes in, the answers go out, and they have addresses
//! and ports exchanged. So each rule becomes filters of every interface that has its queue.
//!
//! Precedence is pf's: the first `quick` rule, otherwise the last one. A rule without a queue takes
//! packets to the default queue (ALTQ), or leaves them where an earlier one has put them (OpenBSD).

mod lists;
mod queues;
mod rules;

use crate::draft::Draft;
use crate::missing::Missing;
use crate::place::{ImportError, SourceFile, Word, Words, resplit, statements};
use lists::list;
use std::collections::HashMap;

/// The characters that are words of their own.
const OWN: &[char] = &['{', '}', '(', ')', ',', '=', '<', '>', '!'];
/// The most words of a statement with its macros: some thousands of addresses.
const LONGEST: usize = 100_000;

/// Reads the file.
pub(crate) fn read(source: SourceFile<'_>, missing: &Missing) -> Result<Draft, ImportError> {
    let mut draft = Draft::default();
    let mut macros: HashMap<String, Vec<Word>> = HashMap::new();
    let mut tables: HashMap<String, Vec<Word>> = HashMap::new();
    let (mut queues, mut rules) = (queues::Queues::default(), Vec::new());
    for mut words in joined(source.text) {
        if words.after() == Some("=") {
            let name = words.expect("a name")?;
            words.next();
            let value = expanded(resplit(words, OWN), &macros)?;
            macros.insert(name.text, value);
            continue;
        }
        let mut words = Words::new(expanded(words.rest(), &macros)?);
        let Some(first) = words.next() else { continue };
        match first.text.as_str() {
            "altq" => queues.altq(&mut words, missing, &mut draft)?,
            "queue" => queues.queue(&mut words, &mut draft)?,
            "pass" | "match" => rules.push(rules::read(first, words)?),
            "table" => {
                if let Some((name, addresses)) = table(&mut words) {
                    tables.insert(name, addresses);
                }
            }
            "anchor" | "include" | "load" => {
                draft.lost(
                    first.at,
                    format!("`{}`: the rules there are not read", first.text),
                );
            }
            "nat" | "rdr" | "binat" => draft.lost(
                first.at,
                format!(
                    "`{}`: filters ask for addresses as the interface shows them, translated",
                    first.text
                ),
            ),
            // What passes, and what is kept, is the firewall's affair: nothing is queued by it.
            "block" | "set" | "scrub" | "antispoof" | "no" | "state-policy" => {}
            _ => return Err(first.wrong("a statement of pf.conf")),
        }
    }
    let trees = queues.finish(missing, &mut draft)?;
    rules::apply(&rules, &tables, trees, &mut draft);
    Ok(draft)
}

/// The statements; one with a brace open goes on in the next line.
fn joined(text: &str) -> Vec<Words> {
    let mut all: Vec<Words> = Vec::new();
    let (mut open, mut pending) = (0_i32, Vec::new());
    for words in statements(text, OWN) {
        let words = words.rest();
        for word in &words {
            open += i32::from(word.text == "{") - i32::from(word.text == "}");
        }
        pending.extend(words);
        if open <= 0 {
            all.push(Words::new(std::mem::take(&mut pending)));
            open = 0;
        }
    }
    if !pending.is_empty() {
        all.push(Words::new(pending));
    }
    all
}

/// The words with macros in their places.
fn expanded(words: Vec<Word>, macros: &HashMap<String, Vec<Word>>) -> Result<Vec<Word>, ImportError> {
    let mut all = Vec::new();
    for word in words {
        let Some(name) = word.text.strip_prefix('$') else {
            all.push(word);
            continue;
        };
        let Some(value) = macros.get(name) else {
            return Err(ImportError::new(
                word.at,
                format!("macro `{name}` is not defined"),
            ));
        };
        all.extend(value.iter().map(|part| Word {
            text: part.text.clone(),
            at: word.at,
        }));
        if all.len() > LONGEST {
            let message = format!("with its macros it has more than {LONGEST} words");
            return Err(ImportError::new(word.at, message));
        }
    }
    Ok(all)
}

/// `<name> … { addresses }`.
fn table(words: &mut Words) -> Option<(String, Vec<Word>)> {
    words.take("<");
    let name = words.next()?;
    words.take(">");
    while words.peek()? != "{" {
        words.next();
    }
    Some((name.text, list(words)))
}
