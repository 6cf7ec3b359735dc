//! The rules of pf.conf that name a queue, and what they do to others.

use super::lists::{bracketed, list};
use super::queues::Tree;
use crate::draft::{Draft, DraftValue, FilterDraft, Settings, prefix};
use crate::place::{ImportError, Place, Word, Words};
use std::collections::HashMap;
use std::net::IpAddr;

/// The most filters of a rule on an interface.
const MOST: usize = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    In,
    Out,
    Both,
}

/// A rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    at: Place,
    way: Way,
    quick: bool,
    /// `match` only sets what later rules may set again.
    is_match: bool,
    interfaces: Vec<String>,
    family: Option<&'static str>,
    protocols: Vec<Word>,
    from: Vec<Word>,
    from_ports: Vec<Word>,
    to: Vec<Word>,
    to_ports: Vec<Word>,
    dscp: Option<DraftValue>,
    queue: Option<Word>,
    second: Option<Word>,
    stateless: bool,
    /// What of it cannot be asked for.
    odd: Option<Word>,
}

/// Reads a rule behind its first word.
pub(super) fn read(first: Word, mut words: Words) -> Result<Rule, ImportError> {
    let mut rule = Rule {
        at: first.at,
        way: Way::Both,
        quick: false,
        is_match: first.text == "match",
        interfaces: Vec::new(),
        family: None,
        protocols: Vec::new(),
        from: Vec::new(),
        from_ports: Vec::new(),
        to: Vec::new(),
        to_ports: Vec::new(),
        dscp: None,
        queue: None,
        second: None,
        stateless: false,
        odd: None,
    };
    while let Some(word) = words.next() {
        rule.word(&word, &mut words)?;
    }
    Ok(rule)
}

impl Rule {
    fn word(&mut self, word: &Word, words: &mut Words) -> Result<(), ImportError> {
        match word.text.as_str() {
            "in" => self.way = Way::In,
            "out" => self.way = Way::Out,
            "quick" => self.quick = true,
            "on" => self.interfaces = list(words).into_iter().map(|word| word.text).collect(),
            "inet" => self.family = Some("ipv4"),
            "inet6" => self.family = Some("ipv6"),
            "proto" => self.protocols = list(words),
            "from" => (self.from, self.from_ports) = end(words),
            "to" => (self.to, self.to_ports) = end(words),
            "queue" => self.queue(words),
            "set" => self.set(words),
            "tos" => {
                let value = words.expect("a TOS")?;
                let number = match value.text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).ok(),
                    None => value.text.parse().ok(),
                };
                self.dscp = Some(match (value.text.as_str(), number.filter(|tos| *tos < 256)) {
                    (_, Some(tos)) => (tos >> 2).into(),
                    ("lowdelay", _) => 4u64.into(),
                    ("throughput", _) => 2u64.into(),
                    ("reliability", _) => 1u64.into(),
                    (name, _) => name.to_ascii_lowercase().as_str().into(),
                });
            }
            // The rest of a connection is as its beginning.
            "flags" | "label" | "tag" | "rtable" | "max-pkt-rate" | "divert-to" | "rdr-to" | "nat-to"
            | "binat-to" | "route-to" | "reply-to" | "dup-to" => {
                if bracketed(words).is_empty() {
                    list(words);
                }
                if word.text.ends_with("-to") && word.text != "divert-to" {
                    words.take("port");
                }
            }
            "keep" | "modulate" | "synproxy" => {
                words.take("state");
                bracketed(words);
            }
            "no" => {
                words.take("state");
                self.stateless = true;
            }
            "log" | "pass" => {
                bracketed(words);
            }
            "all" | "allow-opts" | "static-port" | "fragment" => {}
            _ => {
                self.odd.get_or_insert_with(|| word.clone());
                if !bracketed(words).is_empty() {
                    return Ok(());
                }
                if words.peek() == Some("{") {
                    list(words);
                }
            }
        }
        Ok(())
    }

    fn queue(&mut self, words: &mut Words) {
        let mut names = bracketed(words).into_iter().filter(|word| word.text != ",");
        self.queue = names.next();
        self.second = names.next();
        if self.queue.is_none() {
            self.queue = words.next();
        }
    }

    /// `set queue q`, `set ( queue q, prio 5 )`.
    fn set(&mut self, words: &mut Words) {
        let inside = bracketed(words);
        let mut inside = match inside.is_empty() {
            false => Words::new(inside),
            true if words.take("queue") => return self.queue(words),
            true => {
                words.next();
                if bracketed(words).is_empty() {
                    words.next();
                }
                return;
            }
        };
        while let Some(word) = inside.next() {
            if word.text == "queue" {
                self.queue(&mut inside);
            }
        }
    }

    /// The ways in which its packets leave by this interface: as the rule says, and as answers.
    fn directions(&self, interface: &str) -> Vec<bool> {
        let here = self.interfaces.is_empty() || self.interfaces.iter().any(|name| name == interface);
        let elsewhere = self.interfaces.is_empty() || self.interfaces.iter().any(|name| name != interface);
        let (out, coming) = (self.way != Way::In, self.way != Way::Out);
        let forward = (here && out) || (elsewhere && coming);
        let answers = !self.stateless && ((here && coming) || (elsewhere && out));
        let both = [(forward, false), (answers, true)];
        both.into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, answer)| answer)
            .collect()
    }
}

/// Addresses, and ports if they follow.
fn end(words: &mut Words) -> (Vec<Word>, Vec<Word>) {
    let mut addresses = Vec::new();
    if words.peek() != Some("port") {
        addresses = match words.peek() {
            Some("{") => list(words),
            Some("!") => {
                let not = words.next();
                let mut all: Vec<Word> = not.into_iter().collect();
                all.extend(end_word(words));
                all
            }
            _ => end_word(words),
        };
    }
    let mut ports = Vec::new();
    if words.take("port") {
        ports = match words.peek() {
            Some("{") => list(words),
            _ => port_words(words),
        };
    }
    (addresses, ports)
}

/// `<table>`, `(em0)`, or a word.
fn end_word(words: &mut Words) -> Vec<Word> {
    if words.take("<") {
        let name = words.next();
        words.take(">");
        return name
            .into_iter()
            .map(|word| Word {
                text: format!("<{}>", word.text),
                ..word
            })
            .collect();
    }
    let inside = bracketed(words);
    if !inside.is_empty() {
        return inside;
    }
    words.next().into_iter().collect()
}

/// `80`, `= 80`, `> 1023`, `1000 >< 2000`, `1000:2000`: as one word.
fn port_words(words: &mut Words) -> Vec<Word> {
    const SIGNS: [&str; 4] = ["=", "!", "<", ">"];
    let mut text = String::new();
    let mut at = None;
    while let Some(next) = words.peek() {
        let is_sign = SIGNS.contains(&next);
        if !text.is_empty() && !is_sign && !text.ends_with(['=', '!', '<', '>']) {
            break;
        }
        let Some(word) = words.next() else { break };
        at.get_or_insert(word.at);
        text += &word.text;
    }
    at.map(|at| Word { text, at }).into_iter().collect()
}

/// The port, or the range, as a policy writes it.
fn port(word: &Word) -> Option<DraftValue> {
    let number = |text: &str| text.parse::<u16>().ok().or_else(|| service(text));
    let range = |low: u16, high: u16| (low <= high).then(|| DraftValue::text(format!("{low}-{high}")));
    let text = word.text.strip_prefix('=').unwrap_or(&word.text);
    if let Some(port) = number(text) {
        return Some(u64::from(port).into());
    }
    if let Some((low, high)) = text.split_once("><") {
        return range(number(low)?.checked_add(1)?, number(high)?.checked_sub(1)?);
    }
    if let Some((low, high)) = text.split_once(':') {
        return range(number(low)?, number(high)?);
    }
    if let Some(low) = text.strip_prefix(">=") {
        return range(number(low)?, u16::MAX);
    }
    if let Some(low) = text.strip_prefix('>') {
        return range(number(low)?.checked_add(1)?, u16::MAX);
    }
    if let Some(high) = text.strip_prefix("<=") {
        return range(0, number(high)?);
    }
    let high = text.strip_prefix('<')?;
    range(0, number(high)?.checked_sub(1)?)
}

/// Ports by the names that services(5) has for them, as far as rules use to have them.
fn service(name: &str) -> Option<u16> {
    const SERVICES: &[(&str, u16)] = &[
        ("ftp-data", 20),
        ("ftp", 21),
        ("ssh", 22),
        ("telnet", 23),
        ("smtp", 25),
        ("domain", 53),
        ("bootps", 67),
        ("bootpc", 68),
        ("tftp", 69),
        ("http", 80),
        ("www", 80),
        ("kerberos", 88),
        ("pop3", 110),
        ("auth", 113),
        ("ntp", 123),
        ("imap", 143),
        ("snmp", 161),
        ("bgp", 179),
        ("ldap", 389),
        ("https", 443),
        ("submissions", 465),
        ("isakmp", 500),
        ("syslog", 514),
        ("submission", 587),
        ("ldaps", 636),
        ("rsync", 873),
        ("imaps", 993),
        ("pop3s", 995),
        ("openvpn", 1194),
        ("nfsd", 2049),
        ("mysql", 3306),
        ("sip", 5060),
        ("postgresql", 5432),
        ("nat-t", 4500),
    ];
    SERVICES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, port)| *port)
}

/// Puts the filters of the rules into the interfaces.
pub(super) fn apply(
    rules: &[Rule],
    tables: &HashMap<String, Vec<Word>>,
    trees: Vec<Tree>,
    draft: &mut Draft,
) {
    for rule in rules {
        let named = |queue: &Word| {
            trees
                .iter()
                .any(|tree| tree.classes.iter().any(|(name, _)| *name == queue.text))
        };
        let queues = [&rule.queue, &rule.second].into_iter().flatten();
        for queue in queues.filter(|queue| !named(queue)) {
            draft.lost(queue.at, format!("queue `{}` is not defined", queue.text));
        }
    }
    for mut tree in trees {
        // The first to decide at the end.
        let ordinary = rules.iter().filter(|rule| !rule.quick);
        let quick = rules.iter().rev().filter(|rule| rule.quick);
        for rule in ordinary.chain(quick) {
            of_rule(rule, tables, &mut tree, draft);
        }
        draft.interfaces.push(tree.draft);
    }
}

fn of_rule(rule: &Rule, tables: &HashMap<String, Vec<Word>>, tree: &mut Tree, draft: &mut Draft) {
    let class = match &rule.queue {
        Some(queue) => tree.classes.iter().find(|(name, _)| *name == queue.text),
        // With ALTQ the rule that passes a packet says its queue: none is the default one.
        None if tree.altq && !rule.is_match => {
            let default = tree.draft.classes.iter().find(|class| class.default);
            default.and_then(|default| tree.classes.iter().find(|(_, name)| *name == default.name))
        }
        None => None,
    };
    let Some((_, class)) = class else {
        if rule.queue.is_none() && rule.quick && !tree.altq {
            draft.lost(
                rule.at,
                "a `quick` rule without a queue ends the search; here later rules still match",
            );
        }
        return;
    };
    let class = class.clone();
    let second = rule.second.as_ref();
    let second = second.and_then(|second| tree.classes.iter().find(|(name, _)| *name == second.text));
    let second = second.map(|(_, class)| class.clone());
    let filter = |class: &str, fields: Settings| FilterDraft {
        class: class.into(),
        fields,
        at: rule.at,
    };
    for answers in rule.directions(&tree.draft.name) {
        match filters(rule, tables, answers) {
            Ok(all) => {
                let of_second = second.iter().flat_map(|second| {
                    let urgent = all.iter().flat_map(urgent);
                    urgent.map(|fields| filter(second, fields))
                });
                let of_second: Vec<FilterDraft> = of_second.collect();
                let into = &mut tree.draft.filters;
                into.extend(all.into_iter().map(|fields| filter(&class, fields)));
                into.extend(of_second);
            }
            Err((at, what)) => draft.lost(at, what),
        }
    }
}

/// What a second queue takes of the packets with these conditions: low delay by TOS, and ACKs
/// without data. These are at most so long, with timestamps and three blocks of SACK over IPv6.
fn urgent(fields: &Settings) -> impl Iterator<Item = Settings> + use<> {
    const LONGEST_ACK: &str = "0-100";
    let given = |key: &str| fields.iter().find(|(own, _)| *own == key).map(|(_, value)| value);
    let of_tcp = given("protocol").is_none_or(|protocol| *protocol == "tcp".into());
    let with = |more: &[(&'static str, DraftValue)]| [fields.as_slice(), more].concat();
    let acks = of_tcp.then(|| with(&[("tcp_flags", "ack".into()), ("length", LONGEST_ACK.into())]));
    let low_delay = given("dscp").is_none().then(|| with(&[("dscp", 4u64.into())]));
    acks.into_iter().chain(low_delay)
}

/// The conditions of a rule: every combination of what it lists.
fn filters(
    rule: &Rule,
    tables: &HashMap<String, Vec<Word>>,
    answers: bool,
) -> Result<Vec<Settings>, (Place, String)> {
    if let Some(odd) = &rule.odd {
        return Err((
            odd.at,
            format!("a rule with `{}`, which packets are not asked for", odd.text),
        ));
    }
    let addresses = |list: &[Word]| -> Result<Vec<DraftValue>, (Place, String)> {
        let mut all = Vec::new();
        for word in list.iter().filter(|word| word.text != "any") {
            let table = word
                .text
                .strip_prefix('<')
                .and_then(|name| name.strip_suffix('>'));
            let members = match table {
                None => std::slice::from_ref(word),
                Some(name) => tables
                    .get(name)
                    .map(Vec::as_slice)
                    .filter(|list| !list.is_empty())
                    .ok_or_else(|| {
                        (
                            word.at,
                            format!("a rule with table `{name}`, whose addresses are not in the file"),
                        )
                    })?,
            };
            for member in members {
                all.push(address(&member.text).ok_or_else(|| {
                    (
                        word.at,
                        format!("a rule with `{}`, which is no address", member.text),
                    )
                })?);
            }
        }
        Ok(all)
    };
    let ports = |list: &[Word]| -> Result<Vec<DraftValue>, (Place, String)> {
        let read =
            |word: &Word| port(word).ok_or_else(|| (word.at, format!("a rule with port `{}`", word.text)));
        list.iter().map(read).collect()
    };
    let protocol = |word: &Word| match word.text.parse::<u64>() {
        Ok(number) => DraftValue::Integer(number),
        Err(_) if word.text == "icmp6" => "icmpv6".into(),
        Err(_) => word.text.to_ascii_lowercase().as_str().into(),
    };
    let (source, destination) = match answers {
        false => ((&rule.from, &rule.from_ports), (&rule.to, &rule.to_ports)),
        true => ((&rule.to, &rule.to_ports), (&rule.from, &rule.from_ports)),
    };
    let lists: [(&'static str, Vec<DraftValue>); 7] = [
        ("family", rule.family.map(DraftValue::from).into_iter().collect()),
        ("protocol", rule.protocols.iter().map(protocol).collect()),
        ("source", addresses(source.0)?),
        ("source_port", ports(source.1)?),
        ("destination", addresses(destination.0)?),
        ("destination_port", ports(destination.1)?),
        ("dscp", rule.dscp.clone().into_iter().collect()),
    ];
    let mut all = vec![Settings::new()];
    for (key, values) in lists.iter().filter(|(_, values)| !values.is_empty()) {
        if all.len().saturating_mul(values.len()) > MOST {
            return Err((rule.at, format!("a rule that would be more than {MOST} filters")));
        }
        let with = |fields: &Settings, value: &DraftValue| {
            let mut fields = fields.clone();
            fields.push((*key, value.clone()));
            fields
        };
        all = all
            .iter()
            .flat_map(|fields| values.iter().map(move |value| with(fields, value)))
            .collect();
    }
    all.retain(consistent);
    Ok(all)
}

/// Whether a packet can have them all: no addresses of two families, and no ports without a
/// protocol that has them.
fn consistent(fields: &Settings) -> bool {
    let text = |key: &str| {
        fields
            .iter()
            .find(|(own, _)| *own == key)
            .and_then(|(_, value)| match value {
                DraftValue::Text(text) => Some(text.as_str()),
                _ => None,
            })
    };
    let families = ["source", "destination"].map(|key| text(key).map(|address| address.contains(':')));
    let family = text("family").map(|family| family == "ipv6");
    let mut known = families.into_iter().chain([family]).flatten();
    let first = known.next();
    known.all(|is_v6| Some(is_v6) == first)
}

fn address(text: &str) -> Option<DraftValue> {
    let (host, length) = match text.split_once('/') {
        Some((host, length)) => (host, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = host.parse().ok()?;
    let wide = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        Some(length) => length.parse().ok().filter(|length| *length <= wide)?,
        None => wide,
    };
    Some(DraftValue::text(prefix(address, length)))
}
