//! The filters of an interface: which packets go into which class.
//!
//! Precedence is that of the classifier: first the higher `rule`, then the more specific filter,
//! then the later one.
//!
//! A section may give a list where one address, port, protocol or code point would do: it stands
//! for one filter of each combination, in the order of the lists.

use crate::filter_list::FilterList;
use crate::sections::Section;
use crate::values::TomlValue;
use engine::choices;
use engine::classify::{DscpPattern, Filter, FlagPattern, Lengths, Ports, Prefix};
use engine::header::{Family, FlowKey};
use engine::packet::ClassId;
use engine::settings;
use engine::settings::{Problem, Raw, SettingValue, Span, Table, describe, nearest, unknown};
use engine::tree::{ClassSpec, DisciplineSpec, TreePlan};
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

choices! {
    /// The network protocol.
    pub enum FamilyName {
        /// IPv4.
        V4 = "ipv4",
        /// IPv6.
        V6 = "ipv6",
    }
}

/// Declares a field of a filter: a wrapper of the engine's type, the expected format, and a parser.
macro_rules! field {
    ($(#[$doc:meta])* $name:ident($type:ty), $unit:literal, $read:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name(pub $type);

        impl SettingValue for $name {
            const UNIT: &'static str = $unit;
            fn from_raw(raw: &Raw) -> Result<Self, String> {
                let read: fn(&Raw) -> Result<$type, Option<String>> = $read;
                read(raw).map(Self).map_err(|why| {
                    why.unwrap_or_else(|| format!("expected {}; found {}", $unit, describe(raw)))
                })
            }
        }
    };
}

field! {
    /// The name of a class.
    ClassName(String), "the name of a class in quotes", |raw| match raw {
        Raw::Text(text) => Ok(text.clone()),
        _ => Err(None),
    }
}

field! {
    /// An address or a prefix.
    Addresses(Prefix), "an address or a prefix such as \"10.0.0.0/8\" or \"2001:db8::/32\"", |raw| match raw {
        Raw::Text(text) => text.parse().map_err(|e: engine::classify::FilterError| Some(e.0)),
        _ => Err(None),
    }
}

field! {
    /// A port or a range of ports.
    PortRange(Ports), "a port such as 53, or a range such as \"5060-5070\"", |raw| match raw {
        Raw::Text(text) => text.parse().map_err(|e: engine::classify::FilterError| {
            let swapped = text.split_once('-').map(|(low, high)| format!("{}-{}", high.trim(), low.trim()));
            let swapped = swapped.filter(|swapped| swapped.parse::<Ports>().is_ok());
            Some(swapped.map_or(e.0, |swapped| format!("the range is reversed; did you mean \"{swapped}\"?")))
        }),
        Raw::Integer(n) => u16::try_from(*n).map(Ports::one).map_err(|_| None),
        _ => Err(None),
    }
}

field! {
    /// A length or a range of lengths.
    LengthRange(Lengths), "a length in bytes such as 40, or a range such as \"0-128\"", |raw| match raw {
        Raw::Text(text) => text.parse().map_err(|e: engine::classify::FilterError| Some(e.0)),
        Raw::Integer(n) => u16::try_from(*n).map(Lengths::one).map_err(|_| None),
        _ => Err(None),
    }
}

field! {
    /// Control bits of TCP.
    TcpFlags(FlagPattern), "flags of TCP such as \"syn\" or \"ack, !syn\"", |raw| match raw {
        Raw::Text(text) => text.parse().map_err(|e: engine::classify::FilterError| Some(e.0)),
        _ => Err(None),
    }
}

field! {
    /// A transport protocol.
    Protocol(u8), "a protocol such as \"tcp\", or its number from 0 to 255", |raw| match raw {
        Raw::Text(text) => by_name(text, PROTOCOLS, "protocol"),
        Raw::Integer(n) => u8::try_from(*n).map_err(|_| None),
        _ => Err(None),
    }
}

field! {
    /// A differentiated services code point.
    CodePoint(DscpPattern), "a code point such as \"ef\", or its number from 0 to 63", |raw| match raw {
        Raw::Text(text) => by_name(text, CODE_POINTS, "code point").and_then(|n| DscpPattern::one(n).ok_or(None)),
        Raw::Integer(n) => u8::try_from(*n).ok().and_then(DscpPattern::one).ok_or(None),
        _ => Err(None),
    }
}

field! {
    /// A flow label.
    FlowLabel(u32), "a flow label from 0 to 1048575 (0xfffff)", |raw| match raw {
        Raw::Integer(n) => u32::try_from(*n).ok().filter(|label| *label < 1 << 20).ok_or(None),
        _ => Err(None),
    }
}

const TCP: u8 = 6;

/// Protocols by name, as in IANA's list.
const PROTOCOLS: &[(&str, u8)] = &[
    ("tcp", TCP),
    ("udp", 17),
    ("icmp", 1),
    ("icmpv6", 58),
    ("sctp", 132),
    ("dccp", 33),
    ("udplite", 136),
    ("esp", 50),
    ("ah", 51),
    ("gre", 47),
    ("ipip", 4),
    ("rsvp", 46),
    ("igmp", 2),
    ("ospf", 89),
];

/// The name of a protocol, or its number.
pub fn protocol_name(number: u8) -> String {
    let found = PROTOCOLS.iter().find(|(_, of)| *of == number);
    found.map_or_else(|| number.to_string(), |(name, _)| (*name).into())
}

/// Whether a protocol has ports.
pub fn has_ports(protocol: u8) -> bool {
    WITH_PORTS.contains(&protocol)
}

/// The protocol of this name or number, as in a filter.
///
/// # Errors
///
/// Returns an error if the text is neither a number below 256 nor the name of a known protocol.
pub fn protocol_number(text: &str) -> Result<u8, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    by_name(text, PROTOCOLS, "protocol").map_err(Option::unwrap_or_default)
}

/// The protocols that have ports.
pub const WITH_PORTS: &[u8] = &[6, 17, 33, 132, 136];

/// Code points by name (RFC 2474, 2597, 3246, 5865, 8622).
const CODE_POINTS: &[(&str, u8)] = &[
    ("be", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

fn by_name(text: &str, names: &[(&str, u8)], what: &str) -> Result<u8, Option<String>> {
    let found = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|&(_, number)| number).ok_or_else(|| {
        let all = names.iter().map(|(name, _)| *name);
        let help = match nearest(text, all.clone()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("one of {}, or a number", all.collect::<Vec<_>>().join(", ")),
        };
        Some(format!("unknown {what} \"{text}\"; {help}"))
    })
}

settings! {
    /// The settings of a filter. A field that is not given matches any packet.
    pub struct FilterSettings {
        /// The class that takes the packets
        class: ClassName = required, "", "";
        /// The rule number: the highest of those that match decides
        rule: u32 = default "0",
            "without numbers the more specific filter goes first, then the later one", "";
        /// The network protocol
        family: FamilyName = derived "any", "", "";
        /// Source addresses
        source: Addresses = derived "any", "a list takes any of them", "";
        /// Destination addresses
        destination: Addresses = derived "any", "a list takes any of them", "";
        /// Transport protocol
        protocol: Protocol = derived "any", "a list takes any of them", "";
        /// Source ports
        source_port: PortRange = derived "any",
            "a list takes any of them; later fragments have no ports: they do not match", "";
        /// Destination ports
        destination_port: PortRange = derived "any",
            "a list takes any of them; later fragments have no ports: they do not match", "";
        /// Flags of TCP that are set, and with `!` that are not
        tcp_flags: TcpFlags = derived "any", "later fragments have none: they do not match", "RFC 9293, section 3.1";
        /// Length of the IP packet, its headers included
        length: LengthRange = derived "any", "of a super-frame, that of the whole", "";
        /// Differentiated services code point
        dscp: CodePoint = derived "any", "a list takes any of them", "RFC 2474";
        /// IPv6 flow label
        flow_label: FlowLabel = derived "any", "", "RFC 6437";
        /// Mark of the receiving interface
        mark: u32 = derived "any", "", "";
    }
}

impl FilterSettings {
    /// The filter for the class of this number.
    fn filter(&self, class: ClassId) -> Filter {
        Filter {
            class,
            rule: self.rule,
            family: self.family.map(|family| match family {
                FamilyName::V4 => Family::V4,
                FamilyName::V6 => Family::V6,
            }),
            source: self.source.as_ref().map(|a| a.0),
            destination: self.destination.as_ref().map(|a| a.0),
            protocol: self.protocol.as_ref().map(|p| p.0),
            source_port: self.source_port.as_ref().map(|p| p.0),
            destination_port: self.destination_port.as_ref().map(|p| p.0),
            tcp_flags: self.tcp_flags.as_ref().map(|f| f.0),
            length: self.length.as_ref().map(|l| l.0),
            dscp: self.dscp.as_ref().map(|d| d.0),
            flow_label: self.flow_label.as_ref().map(|f| f.0),
            mark: self.mark,
        }
    }
}

/// Keys that take a list too.
pub(crate) const LISTS: [&str; 6] = [
    "source",
    "destination",
    "protocol",
    "source_port",
    "destination_port",
    "dscp",
];

/// Filters that a section with lists stands for at most.
const MOST: usize = 4096;

/// Filters that an interface has at most: `check` of so many takes some 500 MB. Without lists a
/// policy of the longest text has about as many; lists stand for thousands in a line.
pub(crate) const MOST_OF_ALL: usize = 1 << 20;

/// How many more filters an interface may have.
struct Room(usize);

impl Room {
    /// Takes those that a section stands for; `false` if there are too many, which is reported.
    fn take(&mut self, section: &Section<'_>, problems: &mut Vec<Problem>) -> bool {
        let lists = section.iter().filter(|pair| LISTS.contains(&&*pair.key));
        let lengths = lists.filter_map(|pair| pair.value.items().map(|items| items.len()));
        // More than a section may have is told where it is read.
        let filters = lengths.fold(1, usize::saturating_mul).min(MOST);
        let rest = self.0.checked_sub(filters);
        self.0 = rest.unwrap_or_default();
        if rest.is_none() {
            let message = format!(
                "from here on there are more than {MOST_OF_ALL} filters; a list stands for one of each value, several for each combination"
            );
            let help = "write prefixes and ranges in the place of single addresses and ports, or one long list in the place of several";
            problems.push(Problem::new(section.at, message).help(help));
        }
        rest.is_some()
    }
}

/// The settings of each filter that a section stands for; none if a problem was reported.
fn all_settings(section: &Section<'_>, problems: &mut Vec<Problem>) -> Vec<FilterSettings> {
    let mut tables = vec![section.table(|_| true)];
    let lists = section.iter().enumerate();
    let lists = lists.filter(|(_, pair)| LISTS.contains(&&*pair.key));
    for (place, pair) in lists {
        let Some(items) = pair.value.items() else { continue };
        if items.is_empty() {
            let problem = Problem::new(
                pair.value.at,
                format!("`{}` is an empty list: no packet matches", pair.key),
            );
            problems.push(problem.help("leave it out, if all packets are meant"));
            return Vec::new();
        }
        if tables.len() * items.len() > MOST {
            let message = format!("the lists of this filter have more than {MOST} combinations");
            problems.push(Problem::new(pair.value.at, message).help("write several filters"));
            return Vec::new();
        }
        let with = |table: &Table, item: &TomlValue<'_>| {
            let mut table = table.clone();
            (table.entries[place].value, table.entries[place].at) = (item.raw(), item.at);
            table
        };
        let each = |table: &Table| items.iter().map(|item| with(table, item)).collect::<Vec<_>>();
        tables = tables.iter().flat_map(each).collect();
    }
    // A mistake in one list is found again beside each value of the others: diagnostics are told
    // once.
    let read = |table: &Table| FilterSettings::read(table, &[], problems);
    let settings: Option<Vec<_>> = tables.iter().map(read).collect();
    settings.unwrap_or_default()
}

/// The filters of these settings for one class; those that take no packet, since their addresses
/// are of different families, are left out if others are not. None if a problem was reported.
fn filters_of(
    all: &[FilterSettings],
    class: ClassId,
    section: &Section<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Filter> {
    let mut filters: Vec<Filter> = all.iter().map(|settings| settings.filter(class)).collect();
    if !filters.iter().all(mixes_families) {
        filters.retain(|filter| !mixes_families(filter));
    }
    match filters
        .iter()
        .any(|filter| contradiction(filter, section, problems))
    {
        true => Vec::new(),
        false => filters,
    }
}

/// A class of a tree.
#[derive(Clone, Copy, Debug)]
struct Class {
    leaf: bool,
    /// Its number; 0 without a plan.
    id: ClassId,
}

/// The classes of a tree by name.
type Classes<'a> = HashMap<&'a str, Class>;

/// Reads the filters of an interface. Class names are looked up in the spec, so that filters are
/// checked even if the tree has mistakes; class numbers come from the plan. The class `reserved`
/// gets packets without a filter.
pub fn read_all<'a>(
    sections: impl Iterator<Item = Section<'a>>,
    spec: &DisciplineSpec,
    plan: Option<&TreePlan>,
    reserved: Option<&str>,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) -> Vec<Filter> {
    let classes = plan.map_or_else(|| declared(spec), planned);
    // Most sections are of one filter.
    let many = sections.size_hint().1.unwrap_or(0);
    let (mut filters, mut places) = (Vec::with_capacity(many), Vec::with_capacity(many));
    let mut named = HashSet::with_capacity(classes.len());
    named.extend(reserved);
    let mut room = Room(MOST_OF_ALL);
    for section in sections {
        if !room.take(&section, problems) {
            break;
        }
        let settings = all_settings(&section, problems);
        let Some(first) = settings.first() else {
            // Already reported; if its class can be read, that class does have a filter.
            named.extend(section.get("class").and_then(|pair| pair.value.value.as_str()));
            continue;
        };
        let class_at = section.get("class").map_or(section.at, |pair| pair.value.at);
        let Some((name, class)) = known(&first.class.0, class_at, &classes, problems) else {
            continue;
        };
        named.insert(name);
        if !class.leaf {
            continue;
        }
        let read = filters_of(&settings, class.id, &section, problems);
        places.extend(read.iter().map(|_| (name, section.at)));
        filters.extend(read);
    }
    shadowed(&filters, &places, warnings);
    unreached(spec, true, &named, warnings);
    filters
}

/// The filters of this class that a section says; none if a problem was reported.
pub(crate) fn read(section: &Section<'_>, class: ClassId, problems: &mut Vec<Problem>) -> Vec<Filter> {
    let settings = all_settings(section, problems);
    filters_of(&settings, class, section, problems)
}

/// The classes of a checked tree.
fn planned(plan: &TreePlan) -> Classes<'_> {
    let all = plan.classes.iter().zip(0..).map(|(info, id)| {
        let (leaf, id) = (info.leaf, ClassId(id));
        (info.name.as_str(), Class { leaf, id })
    });
    all.collect()
}

/// The classes of a tree as written.
fn declared(spec: &DisciplineSpec) -> Classes<'_> {
    let mut classes = Classes::new();
    gather(spec, &mut classes);
    classes
}

fn gather<'a>(spec: &'a DisciplineSpec, classes: &mut Classes<'a>) {
    let parents: HashSet<&str> = parents(spec);
    for class in &spec.classes {
        let leaf = !parents.contains(class.name.as_str());
        classes.insert(&class.name, Class { leaf, id: ClassId(0) });
    }
    let inner = spec.classes.iter().filter_map(|class| class.discipline.as_ref());
    inner
        .chain(spec.child.as_deref())
        .for_each(|spec| gather(spec, classes));
}

fn parents(spec: &DisciplineSpec) -> HashSet<&str> {
    let parents = spec.classes.iter().filter_map(|class| class.parent.as_ref());
    parents.map(|parent| parent.name.as_str()).collect()
}

/// The class of this name; reports a problem if there is none, or it takes no packets.
fn known<'a>(
    name: &str,
    at: Span,
    classes: &Classes<'a>,
    problems: &mut Vec<Problem>,
) -> Option<(&'a str, Class)> {
    let found = classes.get_key_value(name).map(|(name, class)| (*name, *class));
    match found {
        Some((_, Class { leaf: true, .. })) => {}
        Some(_) => {
            let message = format!("class `{name}` has classes below it, so packets cannot be put into it");
            problems.push(Problem::new(at, message).help("name one of the classes below it"));
        }
        None => {
            let mut leaves: Vec<&str> = classes.iter().filter(|c| c.1.leaf).map(|c| *c.0).collect();
            leaves.sort_unstable();
            problems.push(unknown("class", name, at, leaves));
        }
    }
    found
}

/// Whether its addresses are of different families.
fn mixes_families(filter: &Filter) -> bool {
    let ends = filter.source.zip(filter.destination);
    ends.is_some_and(|(source, destination)| source.family() != destination.family())
}

/// Reports a filter without conditions, or one that no packet can match.
fn contradiction(filter: &Filter, section: &Section<'_>, problems: &mut Vec<Problem>) -> bool {
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    let unconditional = Filter {
        rule: filter.rule,
        ..Filter::new(filter.class)
    };
    if *filter == unconditional {
        let problem = Problem::new(section.at, "this filter has no conditions");
        problems.push(problem.help("add a field such as `protocol`, or write `default = true` in the class"));
        return true;
    }
    if mixes_families(filter) {
        let message = "`source` and `destination` are of different families: no packet has both";
        problems.push(Problem::new(at("destination"), message).help("write one filter for each family"));
        return true;
    }
    if let Some(protocol) = filter.protocol
        && !WITH_PORTS.contains(&protocol)
        && let Some(port) = ["source_port", "destination_port"]
            .iter()
            .find(|key| section.get(key).is_some())
    {
        let message = format!("`{port}` with a protocol that has no ports: no packet has both");
        problems.push(
            Problem::new(at("protocol"), message).help("ports are those of tcp, udp, sctp, dccp and udplite"),
        );
        return true;
    }
    if let (Some(protocol), Some(_)) = (filter.protocol, filter.tcp_flags)
        && protocol != TCP
    {
        let message = "`tcp_flags` with a protocol that is not TCP: no packet has both";
        problems.push(Problem::new(at("protocol"), message).help("leave out `protocol`, which flags imply"));
        return true;
    }
    let none = filter.families().next().is_none();
    if none {
        let key = if filter.flow_label.is_some() {
            "flow_label"
        } else {
            "family"
        };
        let message = "the fields of this filter belong to different families: no packet has them all";
        let problem = Problem::new(at(key), message);
        problems.push(problem.help("a flow label is IPv6's; addresses must be of the family named"));
    }
    none
}

/// A filter as it is compared with others: which packets it takes, for whatever class.
struct Conditions<'a>(&'a Filter);

impl Conditions<'_> {
    fn of(&self) -> Filter {
        Filter {
            class: ClassId(0),
            rule: 0,
            ..*self.0
        }
    }
}

impl PartialEq for Conditions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.of() == other.of()
    }
}

impl Eq for Conditions<'_> {}

impl Hash for Conditions<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of().hash(state);
    }
}

/// Warns of filters with the same conditions as one that takes precedence.
fn shadowed(filters: &[Filter], places: &[(&str, Span)], warnings: &mut Vec<Problem>) {
    // Among equal filters the higher rule takes precedence, then the later filter.
    let mut order: Vec<usize> = (0..filters.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse((filters[i].rule, i)));
    let mut first: HashMap<Conditions<'_>, usize> = HashMap::with_capacity(filters.len());
    for index in order {
        let winner = *first.entry(Conditions(&filters[index])).or_insert(index);
        if winner != index {
            let message = format!(
                "this filter never matches: the same filter for class `{}` takes precedence",
                places[winner].0
            );
            let help =
                "among equal filters the one with the higher `rule` takes precedence, then the later one";
            warnings.push(Problem::new(places[index].1, message).help(help));
        }
    }
}

/// Warns of leaves that no packet can reach.
fn unreached(spec: &DisciplineSpec, from_above: bool, named: &HashSet<&str>, warnings: &mut Vec<Problem>) {
    if let Some(child) = &spec.child {
        unreached(child, from_above, named, warnings);
    }
    let parents = parents(spec);
    let leaves = spec
        .classes
        .iter()
        .filter(|class| !parents.contains(class.name.as_str()));
    for class in leaves {
        let arrives = named.contains(class.name.as_str()) || class.default && from_above;
        if !arrives && !names_below(class, named) {
            let message = format!("class `{}` gets no packets: no filter names it", class.name);
            let help = "write a filter for it, or `default = true` if it is for unmatched packets";
            warnings.push(Problem::new(class.at, message).help(help));
        } else if let Some(inner) = &class.discipline {
            unreached(inner, arrives, named, warnings);
        }
    }
}

/// Whether a filter names a class inside the discipline of this class.
fn names_below(class: &ClassSpec, named: &HashSet<&str>) -> bool {
    let inside = class.discipline.as_ref().map(declared).unwrap_or_default();
    inside.keys().any(|name| named.contains(name))
}

/// A filter as text, without its class: `udp, destination port 5060-5070`.
pub fn words(filter: &Filter) -> String {
    let named = |names: &[(&'static str, u8)], number: u8| {
        let found = names.iter().find(|(_, n)| *n == number);
        found.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
    };
    let dscp = |dscp: DscpPattern| (0..64).find(|n| DscpPattern::one(*n) == Some(dscp));
    let parts = [
        filter.family.map(|family| match family {
            Family::V4 => "ipv4".to_owned(),
            Family::V6 => "ipv6".to_owned(),
            Family::Other => "not ip".to_owned(),
        }),
        filter.protocol.map(|protocol| match named(PROTOCOLS, protocol) {
            name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("protocol {name}"),
            name => name,
        }),
        filter.source.map(|prefix| format!("from {prefix}")),
        filter.destination.map(|prefix| format!("to {prefix}")),
        filter.source_port.map(|ports| format!("source port {ports}")),
        filter
            .destination_port
            .map(|ports| format!("destination port {ports}")),
        filter.tcp_flags.map(|flags| format!("tcp flags {flags}")),
        filter.length.map(|lengths| format!("length {lengths}")),
        filter
            .dscp
            .and_then(dscp)
            .map(|n| format!("dscp {}", named(CODE_POINTS, n))),
        filter.flow_label.map(|label| format!("flow label {label:#x}")),
        filter.mark.map(|mark| format!("mark {mark}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A packet by the same keys and values as a filter: `source = "10.0.0.1"`, `protocol = "udp"`.
///
/// # Errors
///
/// Returns every mistake in it: a key that filters do not have, a value that cannot be read, or one
/// that no packet has (a prefix, a range).
pub fn packet(described: &Table) -> Result<FlowKey, Vec<Problem>> {
    let mut problems = Vec::new();
    // A packet has no class and no rule.
    let keys = FilterSettings::SETTINGS
        .iter()
        .map(|setting| setting.name)
        .filter(|key| !["class", "rule"].contains(key));
    let mut known = described.clone();
    known.entries.retain(|entry| {
        let is_known = keys.clone().any(|key| key == entry.key);
        if !is_known {
            let what = "property of a packet";
            problems.push(unknown(what, &entry.key, entry.key_at, keys.clone()));
        }
        is_known
    });
    let read = FilterSettings::read(&known.text("class", "none"), &[], &mut problems);
    let Some(filter) = read.filter(|_| problems.is_empty()) else {
        return Err(problems);
    };
    let filter = filter.filter(ClassId(0));
    let mut one = |prefix: Option<Prefix>, key: &str| {
        let whole = |prefix: &Prefix| prefix.len() == if prefix.family() == Family::V4 { 32 } else { 128 };
        if prefix.is_some_and(|prefix| !whole(&prefix)) {
            problems.push(Problem::new(
                Span::default(),
                format!("`{key}`: a packet has one address, not a prefix"),
            ));
        }
        prefix.map_or(0, |prefix| prefix.bits())
    };
    let (source, destination) = (
        one(filter.source, "source"),
        one(filter.destination, "destination"),
    );
    let mut port = |ports: Option<Ports>, key: &str| {
        if ports.is_some_and(|ports| ports.low() != ports.high()) {
            problems.push(Problem::new(
                Span::default(),
                format!("`{key}`: a packet has one port, not a range"),
            ));
        }
        ports.map(|ports| ports.low())
    };
    let (source_port, destination_port) = (
        port(filter.source_port, "source_port"),
        port(filter.destination_port, "destination_port"),
    );
    if filter
        .length
        .is_some_and(|lengths| lengths.low() != lengths.high())
    {
        let message = "`length`: a packet has one length, not a range";
        problems.push(Problem::new(Span::default(), message));
    }
    let of_address = [filter.source, filter.destination].into_iter().flatten().next();
    let family = filter.family.or(of_address.map(|prefix| prefix.family()));
    let key = FlowKey {
        source,
        destination,
        family: family.unwrap_or(Family::V4),
        protocol: filter.protocol.or(filter.tcp_flags.map(|_| TCP)).unwrap_or(0),
        dscp: filter.dscp.map_or(0, |dscp| dscp.value()),
        tcp_flags: filter.tcp_flags.map(|flags| flags.set()),
        length: filter.length.map_or(0, |lengths| lengths.low()),
        source_port,
        destination_port,
        flow_label: filter.flow_label.unwrap_or(0),
        mark: filter.mark.unwrap_or(0),
        ..FlowKey::default()
    };
    match problems.is_empty() {
        true => Ok(key),
        false => Err(problems),
    }
}

/// What of this filter the packet does not have, each as text; nothing: it takes the packet.
pub fn mismatches(filter: &Filter, packet: &FlowKey) -> Vec<String> {
    let any = Filter::new(filter.class);
    let fields = [
        Filter {
            family: filter.family,
            ..any
        },
        Filter {
            protocol: filter.protocol,
            ..any
        },
        Filter {
            source: filter.source,
            ..any
        },
        Filter {
            destination: filter.destination,
            ..any
        },
        Filter {
            source_port: filter.source_port,
            ..any
        },
        Filter {
            destination_port: filter.destination_port,
            ..any
        },
        Filter {
            tcp_flags: filter.tcp_flags,
            ..any
        },
        Filter {
            length: filter.length,
            ..any
        },
        Filter {
            dscp: filter.dscp,
            ..any
        },
        Filter {
            flow_label: filter.flow_label,
            ..any
        },
        Filter {
            mark: filter.mark,
            ..any
        },
    ];
    let fails = |field: &Filter| !field.matches(packet);
    fields.iter().filter(|field| fails(field)).map(words).collect()
}

/// The filters in order of precedence.
pub fn in_order(filters: &FilterList) -> Vec<&Filter> {
    let mut order: Vec<(usize, &Filter)> = filters.iter().enumerate().collect();
    order.sort_by_key(|(index, filter)| std::cmp::Reverse((filter.rule, filter.fixed_bits(), *index)));
    order.into_iter().map(|(_, filter)| filter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections;

    /// How many more there may be after these sections, and what is told.
    fn after(room: usize, text: &str) -> (usize, Vec<String>) {
        let (mut problems, mut room) = (Vec::new(), Room(room));
        sections::parse(text, &mut problems, |root, problems| {
            let all = root.sections("filter", "filter", problems);
            all.iter()
                .all(|section| room.take(section, problems))
                .then_some(())
        });
        (
            room.0,
            problems.into_iter().map(|problem| problem.message).collect(),
        )
    }

    #[test]
    fn lists_stand_for_as_many_filters_as_they_have_combinations_and_there_is_an_end_to_them() {
        let text = "[[filter]]\nclass = \"a\"\n[[filter]]\nsource = [\"10.0.0.1\", \"10.0.0.2\"]\nsource_port = [1, 2, 3]\n";
        assert_eq!(after(10, text), (3, Vec::new()));
        assert_eq!(after(7, text), (0, Vec::new()));
        let (_, told) = after(6, text);
        assert!(
            told.len() == 1 && told[0].contains("more than 1048576 filters"),
            "{told:?}"
        );
    }
}
