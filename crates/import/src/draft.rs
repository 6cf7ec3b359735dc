//! A policy as it is put together from another program's file, and its text: each part with a
//! comment that says what it came from, and in its head what is lost.

use crate::place::{ImportError, Place, in_a_line};
use engine::framing::{Framing, Linklayer, Overhead};
use engine::units::{Bandwidth, Bytes, Duration};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A value of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DraftValue {
    /// Text, written in quotes.
    Text(String),
    /// A whole number.
    Integer(u64),
    /// `true` or `false`.
    Boolean(bool),
    /// Settings, written in braces.
    Table(Settings),
}

impl DraftValue {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            // TOML has no greater one, and no setting takes so great a one.
            Self::Integer(number) => (*number).min(i64::MAX as u64).to_string(),
            Self::Boolean(is) => is.to_string(),
            Self::Table(settings) => {
                let pair = |(key, value): &(&str, Self)| format!("{key} = {}", value.shown());
                let pairs: Vec<String> = settings.iter().map(pair).collect();
                format!("{{ {} }}", pairs.join(", "))
            }
        }
    }
}

impl From<Bandwidth> for DraftValue {
    fn from(rate: Bandwidth) -> Self {
        Self::Text(rate.to_string())
    }
}

impl From<Bytes> for DraftValue {
    fn from(length: Bytes) -> Self {
        // As people write it: 1514 B, 32 MiB.
        Self::Text(match length.get() {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
            bytes if bytes < 10_000 => format!("{bytes} B"),
            bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
            _ => length.to_string(),
        })
    }
}

impl From<Duration> for DraftValue {
    fn from(time: Duration) -> Self {
        Self::Text(time.to_string())
    }
}

impl From<u64> for DraftValue {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for DraftValue {
    fn from(is: bool) -> Self {
        Self::Boolean(is)
    }
}

impl From<&str> for DraftValue {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// Settings in the order in which they are written.
pub type Settings = Vec<(&'static str, DraftValue)>;

/// Of what a file sets twice the last counts, as for the program that it is for.
fn last_of_each(settings: &Settings) -> impl Iterator<Item = &(&'static str, DraftValue)> {
    let of_each = settings.iter().enumerate();
    let last = of_each.filter(|(n, one)| settings[n + 1..].iter().all(|later| later.0 != one.0));
    last.map(|(_, one)| one)
}

/// A key that has two values, of which the last must not count alone.
fn of_two_values(fields: &Settings) -> Option<&'static str> {
    let has_another = |&(n, one): &(usize, &(&str, DraftValue))| {
        let mut later = fields[n + 1..].iter();
        later.any(|later| later.0 == one.0 && later.1 != one.1)
    };
    fields.iter().enumerate().find(has_another).map(|(_, one)| one.0)
}

/// A discipline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DisciplineDraft {
    /// Its kind.
    pub kind: &'static str,
    /// Its settings.
    pub settings: Settings,
    /// The discipline below it.
    pub child: Option<Box<DisciplineDraft>>,
}

impl DisciplineDraft {
    pub(crate) fn of(kind: &'static str) -> Self {
        Self {
            kind,
            settings: Vec::new(),
            child: None,
        }
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl Into<DraftValue>) -> Self {
        self.settings.push((key, value.into()));
        self
    }

    pub(crate) fn over(mut self, child: Self) -> Self {
        self.child = Some(Box::new(child));
        self
    }

    fn shown(&self) -> String {
        if self.settings.is_empty() && self.child.is_none() {
            return quoted(self.kind);
        }
        let mut out = format!("{{ kind = {}", quoted(self.kind));
        for (key, value) in last_of_each(&self.settings) {
            let _ = write!(out, ", {key} = {}", value.shown());
        }
        if let Some(child) = &self.child {
            let _ = write!(out, ", child = {}", child.shown());
        }
        out + " }"
    }
}

/// A class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassDraft {
    /// Its name in the policy.
    pub name: String,
    /// The class above it.
    pub parent: Option<String>,
    /// Whether it takes what no filter takes.
    pub default: bool,
    /// What it is guaranteed, or its share, for what is computed of it.
    pub rate: Bandwidth,
    /// The settings of a class of its discipline.
    pub settings: Settings,
    /// Its queue.
    pub discipline: Option<DisciplineDraft>,
    /// Where it comes from.
    pub at: Place,
}

/// A filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterDraft {
    /// The class that takes the packets.
    pub class: String,
    /// The conditions.
    pub fields: Settings,
    /// Where it comes from.
    pub at: Place,
}

impl FilterDraft {
    pub(crate) fn field(&mut self, key: &'static str, value: impl Into<DraftValue>) {
        self.fields.push((key, value.into()));
    }
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceDraft {
    /// Its name, with `:in` for what arrives.
    pub name: String,
    /// Its rate.
    pub bandwidth: Bandwidth,
    /// What the link carries for a frame.
    pub framing: Framing,
    /// Whether hosts behind it are told apart where it translates addresses.
    pub nat: bool,
    /// Its discipline.
    pub discipline: DisciplineDraft,
    /// Its classes.
    pub classes: Vec<ClassDraft>,
    /// Its filters, the one that decides first at the end.
    pub filters: Vec<FilterDraft>,
    /// Where it comes from.
    pub at: Place,
}

impl InterfaceDraft {
    pub(crate) fn new(name: &str, bandwidth: Bandwidth, discipline: DisciplineDraft, at: Place) -> Self {
        Self {
            name: name.into(),
            bandwidth,
            framing: Framing::PLAIN,
            nat: false,
            discipline,
            classes: Vec::new(),
            filters: Vec::new(),
            at,
        }
    }
}

/// A link of a lab, from `here` to a host; the other way is plain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkDraft {
    /// That host.
    pub to: String,
    /// Its settings from here to there, the first its rate.
    pub settings: Settings,
    /// Where it comes from.
    pub at: Place,
}

/// What a policy does not say as the file did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LossNote {
    /// Where the file says it.
    pub at: Place,
    /// What is lost, or by what it is approximated.
    pub what: String,
}

/// A policy that is put together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    /// The key and the interfaces of each entry of `[port]`.
    pub port: Vec<(&'static str, Vec<String>)>,
    /// The interfaces.
    pub interfaces: Vec<InterfaceDraft>,
    /// Links, in place of interfaces: then it is the topology of a lab.
    pub links: Vec<LinkDraft>,
    /// What is lost or approximated.
    pub losses: Vec<LossNote>,
}

impl Draft {
    pub(crate) fn lost(&mut self, at: Place, what: impl Into<String>) {
        let what = what.into();
        self.losses.push(LossNote { at, what });
    }

    /// Adds the interface to what the port is attached to.
    pub(crate) fn attach(&mut self, key: &'static str, interface: &str) {
        match self.port.iter_mut().find(|(known, _)| *known == key) {
            Some((_, names)) if names.iter().any(|name| name == interface) => {}
            Some((_, names)) => names.push(interface.into()),
            None => self.port.push((key, vec![interface.into()])),
        }
    }

    /// Makes of it what a policy may be: packets go to leaves, and one leaf takes the rest.
    pub(crate) fn finish(&mut self) -> Result<(), ImportError> {
        if self.interfaces.is_empty() && self.links.is_empty() {
            let message = "nothing here limits or orders packets";
            return Err(ImportError::new(Place::default(), message));
        }
        let mut names = BTreeSet::new();
        if let Some(again) = self.interfaces.iter().find(|one| !names.insert(&one.name)) {
            let message = format!("`{}` is there a second time: leave one of both out", again.name);
            return Err(ImportError::new(again.at, message));
        }
        let mut losses = Vec::new();
        for interface in &mut self.interfaces {
            interface.filters.retain(|filter| {
                let key = of_two_values(&filter.fields);
                losses.extend(key.map(|key| LossNote {
                    at: filter.at,
                    what: format!("a filter by two of `{key}` at once: a policy has one of each"),
                }));
                key.is_none()
            });
            drop_empty(interface, &mut losses);
            own_queues(interface, &mut losses);
            rest(interface, &mut losses);
            number(&mut interface.filters);
        }
        self.losses.extend(losses);
        self.bare_interfaces();
        self.losses.sort_by_key(|loss| loss.at);
        self.losses.dedup();
        Ok(())
    }

    /// Says where no port attaches.
    fn bare_interfaces(&mut self) {
        const BARE: &[&str] = &["ppp", "wg", "tun", "gif", "gre", "sit"];
        let names = self.port.iter().flat_map(|(_, names)| names);
        let bare: BTreeSet<String> = names
            .filter(|name| BARE.iter().any(|bare| name.starts_with(bare)))
            .cloned()
            .collect();
        for name in bare {
            let what = format!(
                "{name}: no port attaches to an interface whose packets have no Ethernet header: name the one \
                 towards the devices instead, where directions are exchanged"
            );
            self.lost(Place::default(), what);
        }
    }

    /// The policy's text. `sources` are the names of the files.
    pub fn text(&self, sources: &[String]) -> String {
        let mut out = format!("# From {}.\n", in_a_line(&sources.join(" and ")));
        if self.losses.is_empty() {
            out += "# Nothing of it is lost.\n";
        } else {
            out += "#\n# Lost or approximated:\n";
        }
        for line in self.loss_lines(sources) {
            let _ = writeln!(out, "# - {line}");
        }
        out += "version = 1\n";
        if !self.port.is_empty() {
            out += "\n[port]\n";
        }
        for (key, names) in &self.port {
            let list: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            let value = match list.as_slice() {
                [one] => one.clone(),
                several => format!("[{}]", several.join(", ")),
            };
            let _ = writeln!(out, "{key} = {value}");
        }
        for interface in &self.interfaces {
            write_interface(&mut out, interface, sources);
        }
        if !self.links.is_empty() {
            write_links(&mut out, &self.links, sources);
        }
        out
    }

    /// What is lost, a line each.
    pub fn loss_lines(&self, sources: &[String]) -> Vec<String> {
        let line = |loss: &LossNote| format!("{}: {}", loss.at.short(sources), in_a_line(&loss.what));
        self.losses.iter().map(line).collect()
    }
}

/// What a link does in one direction only, with what it is without.
const ONE_WAY: [(&str, &str); 7] = [
    ("delay", "0 s"),
    ("jitter", "0 s"),
    ("loss", "nothing"),
    ("corrupt", "nothing"),
    ("duplicate", "nothing"),
    ("reorder", "nothing"),
    ("rate", "10 Gbit/s"),
];

fn write_links(out: &mut String, links: &[LinkDraft], sources: &[String]) {
    let names = links.iter().map(|link| quoted(&link.to));
    let names: Vec<String> = names.collect();
    let _ = writeln!(out, "hosts = [\"here\", {}]", names.join(", "));
    for link in links {
        let _ = writeln!(
            out,
            "\n[[link]]   # {}\nbetween = [\"here\", {}]",
            link.at.short(sources),
            quoted(&link.to)
        );
        for (key, value) in last_of_each(&link.settings) {
            let _ = writeln!(out, "{key} = {}", value.shown());
        }
        let said = |key: &str| link.settings.iter().any(|(own, _)| *own == key);
        let back = ONE_WAY.iter().filter(|(key, _)| said(key));
        let back: Vec<String> = back
            .map(|(key, without)| format!("{key} = {}", quoted(without)))
            .collect();
        let _ = writeln!(out, "back = {{ {} }}", back.join(", "));
    }
}

fn write_interface(out: &mut String, interface: &InterfaceDraft, sources: &[String]) {
    let key = key(&interface.name);
    let from = |at: Place| match at.line {
        0 => String::new(),
        _ => format!("   # {}", at.short(sources)),
    };
    let _ = writeln!(
        out,
        "\n[interface.{key}]{}\nbandwidth = {}",
        from(interface.at),
        DraftValue::from(interface.bandwidth).shown()
    );
    let framing = interface.framing;
    if framing.overhead() != Overhead::default() {
        let _ = writeln!(out, "overhead = \"{}\"", framing.overhead());
    }
    if framing.mpu().get() > 0 {
        let _ = writeln!(out, "mpu = \"{} B\"", framing.mpu().get());
    }
    if framing.linklayer() != Linklayer::Ethernet {
        let _ = writeln!(out, "linklayer = \"{}\"", framing.linklayer().name());
    }
    if interface.nat {
        let _ = writeln!(out, "nat = true");
    }
    let _ = writeln!(out, "discipline = {}", interface.discipline.shown());
    for class in &interface.classes {
        let _ = writeln!(
            out,
            "\n[[interface.{key}.class]]{}\nname = {}",
            from(class.at),
            quoted(&class.name)
        );
        if let Some(parent) = &class.parent {
            let _ = writeln!(out, "parent = {}", quoted(parent));
        }
        for (key, value) in last_of_each(&class.settings) {
            let _ = writeln!(out, "{key} = {}", value.shown());
        }
        if class.default {
            out.push_str("default = true\n");
        }
        if let Some(discipline) = &class.discipline {
            let _ = writeln!(out, "discipline = {}", discipline.shown());
        }
    }
    for filter in &interface.filters {
        let _ = writeln!(
            out,
            "\n[[interface.{key}.filter]]{}\nclass = {}",
            from(filter.at),
            quoted(&filter.class)
        );
        for (key, value) in last_of_each(&filter.fields) {
            let _ = writeln!(out, "{key} = {}", value.shown());
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.into(),
        false => quoted(name),
    }
}

/// A filter without conditions, before all others, takes everything: its class is the default one.
/// Behind it nothing is decided.
fn drop_empty(interface: &mut InterfaceDraft, losses: &mut Vec<LossNote>) {
    let Some(last) = interface
        .filters
        .iter()
        .rposition(|filter| filter.fields.is_empty())
    else {
        return;
    };
    let class = interface.filters[last].class.clone();
    let behind = interface.filters.drain(..=last);
    losses.extend(behind.take(last).map(|filter| LossNote {
        at: filter.at,
        what: "never decides: a filter without conditions precedes it".into(),
    }));
    for own in &mut interface.classes {
        own.default = own.name == class;
    }
}

/// Gives a class that has classes below it, and takes packets itself, a leaf of its own for these.
fn own_queues(interface: &mut InterfaceDraft, losses: &mut Vec<LossNote>) {
    let mut taken: Vec<String> = interface
        .filters
        .iter()
        .map(|filter| filter.class.clone())
        .collect();
    let default = interface.classes.iter().find(|class| class.default);
    taken.extend(default.map(|class| class.name.clone()));
    taken.sort();
    taken.dedup();
    let parents = interface.classes.iter().filter_map(|class| class.parent.clone());
    let parents: HashSet<String> = parents.collect();
    taken.retain(|name| parents.contains(name));
    for name in &taken {
        let mut all = interface.classes.iter();
        let Some(class) = all.find(|class| class.name == *name).cloned() else {
            continue;
        };
        let children = interface.classes.iter();
        let children = children.filter(|child| child.parent.as_ref() == Some(name));
        let used: u64 = children.map(|child| child.rate.bits()).sum();
        let rate = Bandwidth::bits_per_sec(class.rate.bits().saturating_sub(used));
        let own = ClassDraft {
            name: fresh(interface, &format!("{name}-own")),
            parent: Some(name.clone()),
            rate,
            settings: own_settings(interface.discipline.kind, rate, &class),
            ..class.clone()
        };
        losses.push(LossNote {
            at: class.at,
            what: format!(
                "`{name}` has classes below it and takes packets itself: `{}` takes those",
                own.name
            ),
        });
        for filter in interface
            .filters
            .iter_mut()
            .filter(|filter| filter.class == *name)
        {
            filter.class.clone_from(&own.name);
        }
        for class in interface.classes.iter_mut().filter(|class| class.name == *name) {
            class.default = false;
            class.discipline = None;
        }
        interface.classes.push(own);
    }
}

/// The settings of a class's own leaf: those of the class, with what its children leave of the
/// rate.
fn own_settings(kind: &str, left: Bandwidth, class: &ClassDraft) -> Settings {
    if kind != "cbq" {
        return rest_settings(kind, left, class.rate);
    }
    let mut settings = class.settings.clone();
    for (_, value) in settings.iter_mut().filter(|(key, _)| *key == "rate") {
        *value = left.into();
    }
    for (_, value) in settings.iter_mut().filter(|(key, _)| *key == "borrow") {
        *value = true.into();
    }
    settings
}

/// The settings of a class that takes what is left.
fn rest_settings(kind: &str, left: Bandwidth, of: Bandwidth) -> Settings {
    match kind {
        "cbq" => vec![("rate", left.into())],
        "hfsc" => {
            let least = Bandwidth::bits_per_sec(of.bits() / 100).max(Bandwidth::kbit(8));
            vec![("linkshare", left.max(least).into())]
        }
        _ => Vec::new(),
    }
}

fn fresh(interface: &InterfaceDraft, wanted: &str) -> String {
    let taken: HashSet<&str> = interface
        .classes
        .iter()
        .map(|class| class.name.as_str())
        .collect();
    let mut numbered = (2..).map(|nth| format!("{wanted}-{nth}"));
    match taken.contains(wanted) {
        true => numbered
            .find(|name| !taken.contains(name.as_str()))
            .unwrap_or_default(),
        false => wanted.into(),
    }
}

/// Adds a class for what no filter takes, where there are classes and none is the default.
fn rest(interface: &mut InterfaceDraft, losses: &mut Vec<LossNote>) {
    if interface.classes.is_empty() || interface.classes.iter().any(|class| class.default) {
        return;
    }
    let top = interface.classes.iter().filter(|class| class.parent.is_none());
    let used: u64 = top.map(|class| class.rate.bits()).sum();
    let left = Bandwidth::bits_per_sec(interface.bandwidth.bits().saturating_sub(used));
    let name = fresh(interface, "others");
    let mut settings = rest_settings(interface.discipline.kind, left, interface.bandwidth);
    if interface.discipline.kind == "priq" {
        settings.push(("priority", 0.into()));
    }
    losses.push(LossNote {
        at: interface.at,
        what: format!("no class takes what no filter takes: `{name}` does, with what the others leave"),
    });
    interface.classes.push(ClassDraft {
        name,
        parent: None,
        default: true,
        rate: left,
        settings,
        discipline: None,
        at: Place::default(),
    });
}

/// Filters in the order of their precedence, the first that decides at the end: as rule numbers.
fn number(filters: &mut [FilterDraft]) {
    if filters.len() < 2 {
        return;
    }
    for (rule, filter) in (1..).zip(filters) {
        filter.fields.push(("rule", DraftValue::Integer(rule)));
    }
}

/// A service curve as a policy writes it.
pub(crate) fn service_curve(first: Bandwidth, time: Duration, second: Bandwidth) -> DraftValue {
    match time == Duration::ZERO || first == second {
        true => second.into(),
        false => DraftValue::text(format!("{first} for {time}, then {second}")),
    }
}

/// The prefix with host bits cleared.
pub(crate) fn prefix(address: IpAddr, length: u32) -> String {
    let network = match address {
        IpAddr::V4(v4) => IpAddr::from(Ipv4Addr::from_bits(
            v4.to_bits() & u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0),
        )),
        IpAddr::V6(v6) => IpAddr::from(Ipv6Addr::from_bits(
            v6.to_bits() & u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0),
        )),
    };
    format!("{network}/{length}")
}

/// Names of classes: what a policy allows, each once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    known: HashMap<String, String>,
}

impl Names {
    /// The name for what the file calls this.
    pub(crate) fn of(&mut self, called: &str) -> String {
        if let Some(known) = self.known.get(called) {
            return known.clone();
        }
        let name = self.another(called);
        self.known.insert(called.into(), name.clone());
        name
    }

    /// A name for another thing that may be called as one before.
    pub(crate) fn another(&mut self, called: &str) -> String {
        let odd = |c: char| c.is_whitespace() || c.is_control();
        let mut base: String = called
            .trim()
            .chars()
            .map(|c| if odd(c) { '-' } else { c })
            .collect();
        while base.len() > 56 {
            base.pop();
        }
        if base.is_empty() {
            base.push_str("class");
        }
        // Names that RSVP takes for its own.
        if base == "rsvp" || base == "reserved" || base.starts_with("resv-") {
            base.insert(0, '_');
        }
        let mut name = base.clone();
        let mut nth = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{base}-{nth}");
            nth += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_filter_has_twice_is_found() {
        let once = Settings::from([("protocol", 6.into()), ("dscp", 0.into())]);
        let with = |protocol: u64| [once.clone(), Settings::from([("protocol", protocol.into())])].concat();
        assert_eq!(
            [&once, &with(17), &with(6)].map(of_two_values),
            [None, Some("protocol"), None]
        );
    }
}
