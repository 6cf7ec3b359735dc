//! Reads JSON and words into the same objects.

use super::filters;
use super::json::Node;
use super::objects::{Class, Handle, Objects, Options, Qdisc};
use crate::place::{ImportError, Place, Word, Words, statements};
use serde_json::value::RawValue;

/// Words of options that have no value.
const FLAGS: &[&str] = &[
    "ecn",
    "noecn",
    "harddrop",
    "adaptive",
    "nodrop",
    "offload",
    "headdrop",
    "bytemode",
    "nobytemode",
    "besteffort",
    "diffserv3",
    "diffserv4",
    "diffserv5",
    "diffserv8",
    "precedence",
    "flowblind",
    "srchost",
    "dsthost",
    "hosts",
    "flows",
    "dual-srchost",
    "dual-dsthost",
    "triple-isolate",
    "nat",
    "nonat",
    "wash",
    "nowash",
    "ack-filter",
    "ack-filter-aggressive",
    "no-ack-filter",
    "split-gso",
    "no-split-gso",
    "ingress",
    "egress",
    "raw",
    "conservative",
    "atm",
    "noatm",
    "ptm",
    "ethernet",
    "docsis",
    "autorate-ingress",
    "unlimited",
    "root",
    "dp_ecn",
    "no_dq_rate",
    "dq_rate_estimator",
    "no_dq_rate_estimator",
    "bridged-llcsnap",
    "pppoe-vcmux",
    "pppoe-llcsnap",
    "pppoe-ptm",
    "bridged-ptm",
    "ether-vlan",
    "redundant",
];

/// Reads the file: JSON where a line begins with a bracket, words otherwise.
pub(super) fn read(text: &str) -> Result<Objects, ImportError> {
    let mut objects = Objects::default();
    let lines = Lines::of(text);
    let mut from = 0;
    while let Some(begin) = text[from..]
        .find(|c: char| !c.is_whitespace())
        .map(|skip| from + skip)
    {
        if text[begin..].starts_with('[') {
            let mut stream = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<Vec<&RawValue>>();
            match stream.next() {
                Some(Ok(items)) => json(text, &lines, &items, &mut objects)?,
                Some(Err(error)) => {
                    let at = lines.place(text, begin);
                    let line = at.line + error.line().saturating_sub(1);
                    let column = if error.line() > 1 {
                        error.column()
                    } else {
                        at.column + error.column().saturating_sub(1)
                    };
                    return Err(ImportError::new(
                        Place { line, column, ..at },
                        format!("this is not JSON: {error}"),
                    ));
                }
                None => break,
            }
            from = begin + stream.byte_offset().max(1);
        } else {
            // Until JSON begins, or to the end.
            let mut end = begin;
            for line in text[begin..].split_inclusive('\n') {
                if line.trim_start().starts_with('[') {
                    break;
                }
                end += line.len();
            }
            let first = lines.place(text, begin).line;
            words(&text[begin..end], first, &mut objects)?;
            from = end;
        }
    }
    Ok(objects)
}

fn json(text: &str, lines: &Lines, items: &[&RawValue], objects: &mut Objects) -> Result<(), ImportError> {
    for item in items {
        let start = item.get().as_ptr() as usize - text.as_ptr() as usize;
        let at = lines.place(text, start);
        let wrong = |error: serde_json::Error| ImportError::new(at, format!("this is not JSON: {error}"));
        let node: Node = serde_json::from_str(item.get()).map_err(wrong)?;
        let word = |key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
        let handle = |key: &str| word(key).as_deref().and_then(Handle::read);
        let device = word("dev");
        let named = node.get("options").map_or(&[][..], Node::entries).to_vec();
        let options = Options { list: named, at };
        if node.get("class").is_some() {
            let missing = || ImportError::new(at, "a class without `handle`");
            let list = node.entries().iter().chain(&options.list).cloned().collect();
            objects.classes.push(Class {
                device,
                handle: handle("handle").ok_or_else(missing)?,
                parent: handle("parent"),
                options: Options { list, at },
                at,
            });
        } else if node.get("protocol").is_some() {
            objects.filters.extend(filters::of_json(&node, device, &options));
        } else if let Some(kind) = word("kind") {
            let missing = || ImportError::new(at, "a qdisc without `handle`");
            let device = device.unwrap_or_else(|| unnamed_device(objects, at));
            objects.qdiscs.push(Qdisc {
                device,
                kind,
                handle: handle("handle").ok_or_else(missing)?,
                parent: handle("parent"),
                options,
                at,
            });
        }
    }
    Ok(())
}

/// The device of a qdisc that names none, as `tc -j qdisc show dev eth0` shows it.
fn unnamed_device(objects: &mut Objects, at: Place) -> String {
    objects.unnamed.get_or_insert(at);
    String::new()
}

/// Where lines begin: a file of many objects is not searched for each.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(end, _)| end + 1);
        Self(std::iter::once(0).chain(ends).collect())
    }

    fn place(&self, text: &str, byte: usize) -> Place {
        let line = self.0.partition_point(|start| *start <= byte);
        let start = self.0[line.saturating_sub(1)];
        let column = text.get(start..byte).map_or(0, |before| before.chars().count()) + 1;
        Place {
            file: 0,
            line,
            column,
        }
    }
}

fn words(text: &str, first: usize, objects: &mut Objects) -> Result<(), ImportError> {
    for words in statements(text, &[]) {
        let moved = words.rest().into_iter().map(|word| Word {
            at: Place {
                line: word.at.line + first - 1,
                ..word.at
            },
            ..word
        });
        statement(Words::new(moved.collect()), objects)?;
    }
    Ok(())
}

fn statement(mut words: Words, objects: &mut Objects) -> Result<(), ImportError> {
    let mut first = words.expect("tc")?;
    if first.text == "tc" || first.text.ends_with("/tc") {
        first = words.expect("qdisc, class or filter")?;
        while first.text.starts_with('-') {
            first = words.expect("qdisc, class or filter")?;
        }
    }
    let command = ["add", "replace", "change", "del", "delete", "show", "ls", "link"]
        .into_iter()
        .find(|verb| words.peek() == Some(verb));
    if command.is_some() {
        words.next();
    }
    match (first.text.as_str(), command) {
        (_, Some("del" | "delete" | "show" | "ls")) => Ok(()),
        ("qdisc" | "class", _) => object(&first, words, command.is_some(), objects),
        ("filter", Some(_)) => {
            objects.filters.push(filters::of_words(first.at, words)?);
            Ok(())
        }
        ("filter", None) => Err(first.wrong("`tc -j filter show`, whose output is JSON")),
        _ => Err(first.wrong("a command of tc, or what `tc -j` prints")),
    }
}

/// A qdisc or a class: of a command, where its kind follows the words that all kinds have, or as it
/// is shown, where its kind comes first.
fn object(what: &Word, mut words: Words, is_command: bool, objects: &mut Objects) -> Result<(), ImportError> {
    let (mut device, mut handle, mut parent, mut kind) = (None, None, None, None);
    let read = |word: &Word| Handle::read(&word.text).ok_or_else(|| word.wrong("a handle such as 1:10"));
    if !is_command {
        kind = Some(words.expect("a kind")?);
        handle = Some(read(&words.expect("a handle")?)?);
    }
    while let Some(next) = words.peek().map(str::to_owned) {
        match next.as_str() {
            "dev" => {
                words.next();
                let word = words.expect("an interface")?;
                if word.text.starts_with('$') {
                    return Err(word.wrong("an interface, not a variable: read what `tc -j` prints instead"));
                }
                device = Some(word.text);
            }
            "handle" | "classid" => {
                words.next();
                handle = Some(read(&words.expect("a handle")?)?);
            }
            "parent" => {
                words.next();
                parent = Some(read(&words.expect("a handle")?)?);
            }
            "root" => {
                words.next();
            }
            "ingress" | "clsact" if is_command && kind.is_none() => kind = words.next(),
            "refcnt" | "leaf" | "offloaded" => {
                words.next();
                words.next();
            }
            _ if kind.is_none() => kind = words.next(),
            _ => break,
        }
    }
    let kind = kind.map_or_else(
        || words.expect("a kind such as htb").map(|word| word.text),
        |word| Ok(word.text),
    )?;
    let at = what.at;
    let options = Options {
        list: options(&kind, &mut words)?,
        at,
    };
    if what.text == "class" {
        let handle = handle.ok_or_else(|| ImportError::new(at, "a class without `classid`"))?;
        objects.classes.push(Class {
            device,
            handle,
            parent,
            options,
            at,
        });
        return Ok(());
    }
    let device = match device {
        Some(device) => device,
        None if is_command => return Err(ImportError::new(at, "a qdisc without `dev`")),
        None => unnamed_device(objects, at),
    };
    // The kernel chooses one where none is given.
    let handle = handle.unwrap_or(Handle {
        major: 0x8000,
        minor: 0,
    });
    objects
        .qdiscs
        .retain(|known| known.device != device || known.parent != parent);
    objects.qdiscs.push(Qdisc {
        device,
        kind,
        handle,
        parent,
        options,
        at,
    });
    Ok(())
}

/// Keys with their values.
fn options(kind: &str, words: &mut Words) -> Result<Vec<(String, Node)>, ImportError> {
    let mut list = Vec::new();
    while let Some(word) = words.next() {
        let key = word.text.clone();
        let curve = kind == "hfsc" && ["sc", "rt", "ls", "ul"].contains(&key.as_str());
        if curve {
            list.push((key, service_curve(words)?));
            continue;
        }
        if key == "priomap" {
            let mut bands = Vec::new();
            while let Some(band) = words.peek().and_then(|word| word.parse().ok()) {
                bands.push(Node::Whole(band));
                words.next();
            }
            list.push((key, Node::List(bands)));
            continue;
        }
        // `flows` is a word of cake, and a number in fq_codel.
        let is_flag = FLAGS.contains(&key.as_str()) && !(key == "flows" && kind != "cake");
        let value = match is_flag {
            true => Node::Boolean(true),
            false => Node::Text(words.expect("a value")?.text),
        };
        list.push((key, value));
    }
    Ok(list)
}

/// `m1 RATE d TIME m2 RATE`, or `umax SIZE dmax TIME rate RATE`, in any part.
fn service_curve(words: &mut Words) -> Result<Node, ImportError> {
    let mut entries = Vec::new();
    while let Some(key) = words
        .peek()
        .filter(|key| ["m1", "d", "m2", "umax", "dmax", "rate"].contains(key))
    {
        let key = key.to_owned();
        words.next();
        entries.push((key, Node::Text(words.expect("a value")?.text)));
    }
    Ok(Node::Object(entries))
}
