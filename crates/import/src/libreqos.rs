//! LibreQoS: ShapedDevices.csv, a line for each device of a circuit, and network.json, the tree of
//! sites. Rates are in Mbit/s.
//!
//! Suimon is a bump in the wire between the interface towards the devices and that towards the
//! internet. Both directions have the same tree. A circuit's minimum is its share, as in LibreQoS
//! (HTB), and its maximum its limit.

use crate::draft::{
    ClassDraft, DisciplineDraft, Draft, DraftValue, FilterDraft, InterfaceDraft, Names, Settings,
};
use crate::missing::Missing;
use crate::place::{ImportError, Place, SourceFile};
use crate::rates;
use engine::units::Bandwidth;
use serde_json::Value as Json;
use std::collections::{HashMap, HashSet};

/// The deepest tree of sites.
const DEEPEST: usize = 32;
/// The columns by the beginning of their names, and whether they must be there.
const COLUMNS: [(&str, bool); 9] = [
    ("Circuit ID", true),
    ("Circuit Name", false),
    ("Parent Node", false),
    ("IPv4", false),
    ("IPv6", false),
    ("Download Min", true),
    ("Upload Min", true),
    ("Download Max", true),
    ("Upload Max", true),
];

/// A site or a circuit, in both directions: download first.
struct Node {
    name: String,
    parent: Option<String>,
    least: [Bandwidth; 2],
    most: [Bandwidth; 2],
    addresses: Vec<String>,
    is_circuit: bool,
    at: Place,
}

/// Reads the files: of each, what it is, is told by its text.
pub(crate) fn read(sources: &[SourceFile<'_>], missing: &Missing) -> Result<Draft, ImportError> {
    let is_tree = |source: &SourceFile<'_>| source.text.trim_start().starts_with('{');
    let mut draft = Draft::default();
    let (mut nodes, mut names) = (Vec::new(), Names::default());
    let mut sites = HashMap::new();
    for (file, source) in sources.iter().enumerate().filter(|(_, source)| is_tree(source)) {
        let tree: Json = serde_json::from_str(source.text).map_err(|error| {
            let at = Place {
                file,
                line: error.line(),
                column: error.column(),
            };
            ImportError::new(at, format!("this is not JSON: {error}"))
        })?;
        let mut reader = Tree {
            file,
            text: source.text,
            nodes: &mut nodes,
            names: &mut names,
            sites: &mut sites,
        };
        reader.children(&tree, None, 0, &mut draft)?;
    }
    for (file, source) in sources.iter().enumerate().filter(|(_, source)| !is_tree(source)) {
        circuits(file, source.text, &mut nodes, &mut names, &sites, &mut draft)?;
    }
    if !nodes.iter().any(|node| node.is_circuit) {
        return Err(ImportError::new(
            Place::default(),
            "no circuit: ShapedDevices.csv is missing, or empty",
        ));
    }
    interfaces(&nodes, missing, &mut draft);
    Ok(draft)
}

struct Tree<'a> {
    file: usize,
    text: &'a str,
    nodes: &'a mut Vec<Node>,
    names: &'a mut Names,
    sites: &'a mut HashMap<String, String>,
}

impl Tree<'_> {
    fn children(
        &mut self,
        of: &Json,
        parent: Option<&str>,
        depth: usize,
        draft: &mut Draft,
    ) -> Result<(), ImportError> {
        let Json::Object(children) = of else { return Ok(()) };
        for (site, about) in children {
            let quoted = format!("\"{site}\"");
            let at = self.text.find(&quoted).map_or(
                Place {
                    file: self.file,
                    ..Place::default()
                },
                |byte| Place::of(self.file, self.text, byte),
            );
            let rate = |keys: [&str; 2]| {
                let value = keys.iter().find_map(|key| about.get(*key));
                value.and_then(|value| rates::libreqos(&value.to_string()))
            };
            let down = rate(["downloadBandwidthMbps", "downloadBandwidth"]);
            let up = rate(["uploadBandwidthMbps", "uploadBandwidth"]);
            let (Some(down), Some(up)) = (down, up) else {
                let message = format!(
                    "site `{site}`: `downloadBandwidthMbps` or `uploadBandwidthMbps` is missing, or no number"
                );
                return Err(ImportError::new(at, message));
            };
            if depth > DEEPEST {
                return Err(ImportError::new(at, format!("more than {DEEPEST} sites deep")));
            }
            let name = self.names.of(site);
            self.sites.insert(site.clone(), name.clone());
            self.nodes.push(Node {
                name: name.clone(),
                parent: parent.map(str::to_owned),
                least: [down, up],
                most: [down, up],
                addresses: Vec::new(),
                is_circuit: false,
                at,
            });
            if about.get("virtual").and_then(Json::as_bool) == Some(true) {
                draft.lost(
                    at,
                    format!("site `{site}` is virtual in LibreQoS; here it limits"),
                );
            }
            if let Some(children) = about.get("children") {
                self.children(children, Some(&name), depth + 1, draft)?;
            }
        }
        Ok(())
    }
}

fn circuits(
    file: usize,
    text: &str,
    nodes: &mut Vec<Node>,
    names: &mut Names,
    sites: &HashMap<String, String>,
    draft: &mut Draft,
) -> Result<(), ImportError> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let place = |position: Option<&csv::Position>| Place {
        file,
        line: position.map_or(1, |position| {
            usize::try_from(position.line()).unwrap_or(usize::MAX)
        }),
        column: 1,
    };
    let broken =
        |error: &csv::Error| ImportError::new(place(error.position()), format!("this is not CSV: {error}"));
    let head = reader.headers().map_err(|error| broken(&error))?.clone();
    let mut columns = [None; COLUMNS.len()];
    for (own, (name, required)) in columns.iter_mut().zip(COLUMNS) {
        *own = head.iter().position(|title| title.starts_with(name));
        if own.is_none() && required {
            let at = Place {
                file,
                line: 1,
                column: 1,
            };
            return Err(ImportError::new(at, format!("column `{name} …` is missing")));
        }
    }
    let mut circuits: HashMap<String, usize> = HashMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| broken(&error))?;
        let at = place(record.position());
        let cell = |nth: usize| columns[nth].and_then(|column| record.get(column)).unwrap_or("");
        let rate = |nth: usize| {
            let wrong = || {
                ImportError::new(
                    at,
                    format!(
                        "`{} …`: expected Mbit/s, a number alone; found `{}`",
                        COLUMNS[nth].0,
                        cell(nth)
                    ),
                )
            };
            rates::libreqos(cell(nth)).ok_or_else(wrong)
        };
        let (least, most) = ([rate(5)?, rate(6)?], [rate(7)?, rate(8)?]);
        let mut addresses = prefixes(cell(3), at)?;
        addresses.extend(prefixes(cell(4), at)?);
        if let Some(known) = circuits.get(cell(0)) {
            nodes[*known].addresses.extend(addresses);
            continue;
        }
        if addresses.is_empty() {
            draft.lost(
                at,
                format!("circuit `{}` has no address: it gets no packets", cell(0)),
            );
            continue;
        }
        let parent = match cell(2) {
            "" | "none" => None,
            site => {
                let known = sites.get(site).cloned();
                if known.is_none() {
                    draft.lost(
                        at,
                        format!("site `{site}` is not in network.json: the circuit stands at the top"),
                    );
                }
                known
            }
        };
        circuits.insert(cell(0).into(), nodes.len());
        let called = if cell(1).is_empty() { cell(0) } else { cell(1) };
        // Two circuits may be called alike.
        let name = names.another(called);
        nodes.push(Node {
            name,
            parent,
            least,
            most,
            addresses,
            is_circuit: true,
            at,
        });
    }
    Ok(())
}

/// The prefixes of a cell.
fn prefixes(cell: &str, at: Place) -> Result<Vec<String>, ImportError> {
    let bare = |one: &str| one.trim().trim_matches(['[', ']', '\'', '"']).to_owned();
    let all = cell.split(',').map(bare).filter(|one| !one.is_empty());
    let wrong = |one: &str| {
        let message = format!("expected an address or a prefix; found `{one}`");
        ImportError::new(at, message)
    };
    all.map(|one| prefix(&one).ok_or_else(|| wrong(&one))).collect()
}

/// The prefix with host bits cleared.
fn prefix(text: &str) -> Option<String> {
    let (host, length) = text.split_once('/').unwrap_or((text, ""));
    let address: std::net::IpAddr = host.parse().ok()?;
    let wide = if address.is_ipv4() { 32 } else { 128 };
    let length = if length.is_empty() {
        wide
    } else {
        length.parse().ok().filter(|length| *length <= wide)?
    };
    Some(crate::draft::prefix(address, length))
}

fn interfaces(nodes: &[Node], missing: &Missing, draft: &mut Draft) {
    let (inside, outside) = match missing.interfaces.as_slice() {
        [inside, outside, ..] => (inside.clone(), outside.clone()),
        _ => {
            draft.lost(Place::default(), "the interfaces are in lqos.conf: `lan0` is towards the devices, `wan0` towards the internet; `--interface` names them");
            ("lan0".into(), "wan0".into())
        }
    };
    draft
        .port
        .push(("between", vec![inside.clone(), outside.clone()]));
    let given = [missing.down, missing.up];
    let parents: HashSet<&str> = nodes.iter().filter_map(|node| node.parent.as_deref()).collect();
    for (which, name) in [(0, inside), (1, outside)] {
        let top = nodes.iter().filter(|node| node.parent.is_none());
        let sum: u64 = top
            .map(|node| node.most[which].bits())
            .fold(0, u64::saturating_add);
        let link = given[which].unwrap_or(Bandwidth::bits_per_sec(sum));
        if given[which].is_none() {
            let option = ["--down", "--up"][which];
            draft.lost(
                Place::default(),
                format!("the link's rate is in lqos.conf: {link} is the sum at the top; `{option}` says it"),
            );
        }
        let mut made = InterfaceDraft::new(&name, link, DisciplineDraft::of("hfsc"), Place::default());
        for node in nodes {
            let least = node.least[which].max(Bandwidth::kbit(8));
            let queue = DisciplineDraft::of("cake")
                .with("tins", "diffserv4")
                .with("rate", "unlimited");
            let mut settings = Settings::from([("linkshare", least.into())]);
            if node.most[which] < link {
                settings.push(("upperlimit", node.most[which].into()));
            }
            if !node.is_circuit && !parents.contains(node.name.as_str()) {
                continue;
            }
            made.classes.push(ClassDraft {
                name: node.name.clone(),
                parent: node.parent.clone(),
                default: false,
                rate: least,
                settings,
                discipline: node.is_circuit.then_some(queue),
                at: node.at,
            });
            let key = ["destination", "source"][which];
            made.filters
                .extend(node.addresses.iter().map(|address| FilterDraft {
                    class: node.name.clone(),
                    fields: Settings::from([(key, DraftValue::text(address.as_str()))]),
                    at: node.at,
                }));
        }
        draft.interfaces.push(made);
    }
}
