//! Topologies, generated or from a file: a section `[[topology]]` becomes ordinary links before the
//! text is read.
//!
//! - `fat-tree`: Al-Fares et al., "A scalable, commodity data center network architecture" (SIGCOMM
//!   2008), section 3.
//! - `random`: Waxman, "Routing of multipoint connections" (IEEE JSAC 6(9), 1988): hosts at random
//!   points of a square with the diagonal *L*, a link between two at distance *d* with probability
//!   `density` · *e*^(−*d* / (`reach` · *L*)). It departs in one thing: parts that no link joins
//!   are joined by the shortest link that does, so that there is a route between any two.

use super::graphml::{self, Edge};
use crate::folder::Files;
use control::sections::Section;
use control::values::{KeyValue, TomlContent, TomlValue};
use engine::random::Seed;
use engine::settings::{Problem, Span};
use engine::units::Probability;
use engine::{choices, settings};
use measure::variates::exponential;
use std::collections::HashSet;

choices! {
    /// The shape of a topology.
    pub enum TopologyShape {
        /// A middle, and hosts around it.
        Star = "star",
        /// Hosts in a row.
        Line = "line",
        /// Two routers with a link between them, and hosts at each.
        Dumbbell = "dumbbell",
        /// A root, and below each host as many others.
        Tree = "tree",
        /// Core, aggregation and edge switches, all with as many ports, and hosts.
        FatTree = "fat-tree",
        /// Links at random, the likelier the shorter.
        Random = "random",
        /// What a GraphML file says.
        GraphMl = "graphml",
    }
}

settings! {
    /// The settings of a topology; all others are of each of its links.
    pub struct TopologySettings {
        /// The beginning of the names of its hosts
        name: String = required, "", "";
        /// Its shape
        shape: TopologyShape = required, "", "";
        /// The number of hosts: around the middle, in the row, at each side of a dumbbell, in all
        /// of a random one
        hosts: u32 = derived "must be given there", "", "";
        /// How many are below each host of a tree
        fanout: u32 = derived "must be given there", "", "";
        /// The levels of a tree below its root
        depth: u32 = derived "must be given there", "", "";
        /// The ports of each switch of a fat tree, an even number: it has ports³/4 hosts
        ports: u32 = derived "must be given there", "", "";
        /// The probability of a very short link, of a random one
        density: Probability = derived "40 %", "too small: a tree, by the links that join its parts", "";
        /// How far links lead, as a part of the diagonal, of a random one
        reach: Probability = derived "20 %", "too large: distance does not matter", "";
        /// The seed of a random one
        seed: u32 = derived "1", "", "any value works";
        /// The GraphML file, with a path relative to the scenario
        file: String = derived "must be given there", "", "";
    }
}

/// The links of a topology at most.
const MOST: usize = 20_000;

/// Two hosts that a link joins: the first is nearer to the middle, the root or the core.
type Ends = [String; 2];

/// A shape's links: those between routers of a dumbbell apart.
#[derive(Debug, Default)]
struct Links {
    links: Vec<Ends>,
    bottleneck: Option<Ends>,
    /// What a file says of each link.
    stated: Vec<Edge>,
}

/// Puts the links of all topologies behind those that the text has.
pub(super) fn expand(root: &mut Vec<KeyValue<'_>>, files: Files<'_>, problems: &mut Vec<Problem>) {
    let Some(pair) = root.iter().find(|pair| pair.key == "topology").cloned() else {
        return;
    };
    let Some(items) = pair.value.items() else {
        problems.push(pair.value.wrong("expected sections [[topology]]"));
        return;
    };
    let mut links = Vec::new();
    let mut taken = HashSet::new();
    for item in items {
        let Some(section) = item.section() else {
            problems.push(item.wrong("expected a section [[topology]]"));
            continue;
        };
        let Some(settings) = read(&section, problems) else {
            continue;
        };
        let made = match settings.shape {
            TopologyShape::GraphMl => from_file(&settings, &section, files, problems),
            _ => Some(made(&settings)),
        };
        let Some(made) = made else { continue };
        if made.links.len() > MOST {
            let message = format!("this topology has {} links, more than {MOST}", made.links.len());
            problems.push(Problem::new(section.at, message).help("write a smaller `density` or `reach`"));
            continue;
        }
        let ends = made.links.iter().chain(&made.bottleneck);
        let hosts: HashSet<&String> = ends.flatten().collect();
        if let Some(host) = hosts.iter().filter(|host| taken.contains(**host)).min() {
            let at = section.get("name").map_or(section.at, |pair| pair.value.at);
            let message = format!("a host `{host}` is made by another topology, too");
            problems.push(Problem::new(at, message).help("give one of them another `name`"));
        }
        let hosts: Vec<String> = hosts.into_iter().cloned().collect();
        taken.extend(hosts);
        let own = item.value.as_table().unwrap_or_default();
        links.extend(made.links.iter().enumerate().map(|(number, ends)| {
            let stated = made.stated.get(number);
            let differing = stated.map(|edge| stated_by(edge, own, item.at));
            link(ends, own, &differing.unwrap_or_default(), item.at)
        }));
        let differing = own.iter().find(|pair| pair.key == BOTTLENECK);
        let differing = differing.and_then(|pair| pair.value.value.as_table());
        let differing = differing.unwrap_or_default();
        links.extend(
            made.bottleneck
                .iter()
                .map(|ends| link(ends, own, differing, item.at)),
        );
    }
    match root.iter_mut().find(|pair| pair.key == "link") {
        Some(KeyValue {
            value: TomlValue {
                value: TomlContent::List(all),
                ..
            },
            ..
        }) => all.extend(links),
        // What it is instead is reported where links are read.
        Some(_) => {}
        None => root.push(KeyValue {
            key: "link".into(),
            value: TomlValue {
                value: TomlContent::List(links),
                at: pair.value.at,
            },
            key_at: pair.key_at,
        }),
    }
}

/// The links that a topology's file has.
fn from_file(
    settings: &TopologySettings,
    section: &Section<'_>,
    files: Files<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Links> {
    let path = settings.file.as_deref()?;
    let at = section.get("file").map_or(section.at, |pair| pair.value.at);
    let read = match files.text(path) {
        Ok(text) => graphml::read(&text).map_err(|wrong| format!("{path}:{wrong}")),
        Err(why) => Err(format!("`file`: cannot read `{path}`: {why}")),
    };
    let edges = match read {
        Ok(edges) => edges,
        Err(wrong) => {
            problems.push(Problem::new(at, wrong));
            return None;
        }
    };
    let has_rate = ["rate", "trace"].iter().any(|key| section.get(key).is_some());
    if let Some(edge) = edges.iter().find(|edge| edge.rate.is_none() && !has_rate) {
        let message = format!("{path}:{}: an edge without a `LinkSpeedRaw`", edge.at);
        let help = "write `rate = \"1 Gbit/s\"`, for all edges without one";
        problems.push(Problem::new(at, message).help(help));
        return None;
    }
    let name = |end: &String| format!("{}-{end}", settings.name);
    Some(Links {
        links: edges.iter().map(|edge| edge.ends.each_ref().map(name)).collect(),
        bottleneck: None,
        stated: edges,
    })
}

/// The settings of a link that a file states. A `trace` is in place of any rate.
fn stated_by<'i>(edge: &Edge, own: &[KeyValue<'i>], at: Span) -> Vec<KeyValue<'i>> {
    let follows_trace = own.iter().any(|pair| pair.key == "trace");
    let text = |text: &String| TomlContent::Text(text.clone().into());
    let stated = [
        ("rate", edge.rate.as_ref().filter(|_| !follows_trace).map(text)),
        ("delay", edge.delay.as_ref().map(text)),
        ("cost", edge.cost.map(|cost| TomlContent::Integer(cost.into()))),
    ];
    let pairs = stated.into_iter().filter_map(|(key, value)| {
        Some(KeyValue {
            key: key.into(),
            key_at: at,
            value: TomlValue { value: value?, at },
        })
    });
    pairs.collect()
}

/// A link between these, with the settings of its topology and what differs.
fn link<'i>(ends: &Ends, own: &[KeyValue<'i>], differing: &[KeyValue<'i>], at: Span) -> TomlValue<'i> {
    let value = |value| TomlValue { value, at };
    let put = |key: &'static str, content| KeyValue {
        key: key.into(),
        key_at: at,
        value: value(content),
    };
    let names = ends
        .iter()
        .map(|end| value(TomlContent::Text(end.clone().into())));
    let mut entries = vec![put("between", TomlContent::List(names.collect()))];
    let is_own = |key: &str| is_setting(key) || key == BOTTLENECK;
    let differs = |key: &str| differing.iter().any(|pair| pair.key == key);
    let kept = own
        .iter()
        .filter(|pair| !is_own(&pair.key) && !differs(&pair.key));
    for pair in kept.chain(differing) {
        // A policy is that of either end.
        if pair.key == "policy" {
            let each = ends.iter().map(|end| KeyValue {
                key: end.clone().into(),
                ..pair.clone()
            });
            entries.push(KeyValue {
                value: value(TomlContent::Table(each.collect())),
                ..pair.clone()
            });
        } else {
            entries.push(pair.clone());
        }
    }
    value(TomlContent::Table(entries))
}

/// What of a dumbbell's settings the link between its routers has otherwise.
const BOTTLENECK: &str = "bottleneck";

/// Whether this key is a setting of a topology, and not of its links.
fn is_setting(key: &str) -> bool {
    TopologySettings::SETTINGS
        .iter()
        .any(|setting| setting.name == key)
}

/// Reads and checks the settings.
fn read(section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<TopologySettings> {
    let settings = TopologySettings::read(&section.table(is_setting), &[], problems)?;
    let before = problems.len();
    let needed: &[&str] = match settings.shape {
        TopologyShape::Star | TopologyShape::Line | TopologyShape::Dumbbell => &["hosts"],
        TopologyShape::Tree => &["fanout", "depth"],
        TopologyShape::FatTree => &["ports"],
        TopologyShape::Random => &["hosts"],
        TopologyShape::GraphMl => &["file"],
    };
    let allowed = |key: &str| match (settings.shape, key) {
        (TopologyShape::Random, "density" | "reach" | "seed") | (TopologyShape::Dumbbell, BOTTLENECK) => true,
        _ => needed.contains(&key),
    };
    let shape = settings.shape.name();
    let names = TopologySettings::SETTINGS.iter().map(|setting| setting.name);
    let of_shapes = names.filter(|name| !["name", "shape"].contains(name));
    for key in of_shapes.chain([BOTTLENECK]) {
        match section.get(key) {
            Some(pair) if !allowed(key) => {
                let message = format!("`{key}` does not apply to a topology of shape `{shape}`");
                problems.push(Problem::new(pair.key_at, message).help("leave it out"));
            }
            None if needed.contains(&key) => {
                let message = format!("`{key}` is missing: a topology of shape `{shape}` needs it");
                problems.push(Problem::new(section.at, message));
            }
            _ => {}
        }
    }
    if let Some(pair) = section
        .get(BOTTLENECK)
        .filter(|pair| pair.value.section().is_none())
    {
        problems.push(
            pair.value
                .wrong("expected settings of a link: { rate = \"10 Mbit/s\" }"),
        );
    }
    let mut refuse = |key: &str, wrong: bool, message: &str| {
        if wrong {
            let at = section.get(key).map_or(section.at, |pair| pair.value.at);
            problems.push(Problem::new(at, message));
        }
    };
    let least = match settings.shape {
        TopologyShape::Line | TopologyShape::Random => 2,
        _ => 1,
    };
    let few = settings.hosts.is_some_and(|hosts| hosts < least);
    refuse("hosts", few, &format!("`hosts` must be {least} at least"));
    let many = settings.shape == TopologyShape::Random && settings.hosts.is_some_and(|hosts| hosts > 1_000);
    refuse("hosts", many, "a random topology has at most 1000 hosts");
    refuse(
        "fanout",
        settings.fanout == Some(0),
        "`fanout` must be 1 at least",
    );
    refuse("depth", settings.depth == Some(0), "`depth` must be 1 at least");
    let odd = settings.ports.is_some_and(|ports| ports < 2 || ports % 2 == 1);
    refuse("ports", odd, "`ports` must be an even number, 2 at least");
    let none = settings.reach.is_some_and(|reach| reach.parts() == 0);
    refuse("reach", none, "`reach` must be more than 0 %");
    let large = size(&settings) > MOST as u128;
    refuse(
        "shape",
        large,
        &format!("this topology has more than {MOST} links"),
    );
    (problems.len() == before).then_some(settings)
}

/// The number of its links; of a random one, and of a file's, nothing yet.
fn size(settings: &TopologySettings) -> u128 {
    let of = |number: Option<u32>| u128::from(number.unwrap_or(0));
    match settings.shape {
        TopologyShape::Star | TopologyShape::Line => of(settings.hosts),
        TopologyShape::Dumbbell => 2 * of(settings.hosts),
        TopologyShape::Tree => {
            let mut level: u128 = 1;
            let levels = (0..settings.depth.unwrap_or(0).min(MOST as u32)).map(|_| {
                level = level.saturating_mul(of(settings.fanout));
                level
            });
            levels.fold(0, u128::saturating_add)
        }
        // Three layers of links, ports³/4 each.
        TopologyShape::FatTree => 3 * of(settings.ports).pow(3) / 4,
        TopologyShape::Random | TopologyShape::GraphMl => 0,
    }
}

fn made(settings: &TopologySettings) -> Links {
    let name = &settings.name;
    let hosts = settings.hosts.unwrap_or(0);
    let links = match settings.shape {
        TopologyShape::Star => (1..=hosts)
            .map(|n| [name.clone(), format!("{name}-{n}")])
            .collect(),
        TopologyShape::Line => (1..hosts)
            .map(|n| [n, n + 1].map(|n| format!("{name}-{n}")))
            .collect(),
        TopologyShape::Dumbbell => {
            let sides = ["left", "right"].map(|side| format!("{name}-{side}"));
            let at = |side: &String| {
                let side = side.clone();
                (1..=hosts).map(move |n| [side.clone(), format!("{side}-{n}")])
            };
            return Links {
                links: sides.iter().flat_map(at).collect(),
                bottleneck: Some(sides),
                stated: Vec::new(),
            };
        }
        TopologyShape::Tree => {
            let (mut links, mut level) = (Vec::new(), vec![name.clone()]);
            for _ in 0..settings.depth.unwrap_or(0) {
                let below = |parent: &String| {
                    let parent = parent.clone();
                    (1..=settings.fanout.unwrap_or(0)).map(move |n| [parent.clone(), format!("{parent}-{n}")])
                };
                let next: Vec<Ends> = level.iter().flat_map(below).collect();
                level = next.iter().map(|[_, child]| child.clone()).collect();
                links.extend(next);
            }
            links
        }
        TopologyShape::FatTree => fat_tree(name, settings.ports.unwrap_or(0)),
        TopologyShape::Random => waxman(settings, hosts),
        // Its links are those of its file.
        TopologyShape::GraphMl => Vec::new(),
    };
    Links {
        links,
        ..Links::default()
    }
}

/// With k ports: (k/2)² core switches, and in each of k pods k/2 aggregation and k/2 edge switches,
/// with k/2 hosts at each edge.
fn fat_tree(name: &str, ports: u32) -> Vec<Ends> {
    let half = ports / 2;
    let mut links = Vec::new();
    for pod in 1..=ports {
        let aggregation = |n| format!("{name}-aggr-{pod}-{n}");
        let edge = |n| format!("{name}-edge-{pod}-{n}");
        for a in 1..=half {
            let cores = (1..=half).map(|n| format!("{name}-core-{}", (a - 1) * half + n));
            links.extend(cores.map(|core| [core, aggregation(a)]));
            links.extend((1..=half).map(|e| [aggregation(a), edge(e)]));
        }
        for e in 1..=half {
            links.extend((1..=half).map(|h| [edge(e), format!("{name}-{pod}-{e}-{h}")]));
        }
    }
    links
}

/// The side of the square in which hosts are.
const SIDE: u64 = 1 << 20;

/// Waxman's model.
fn waxman(settings: &TopologySettings, hosts: u32) -> Vec<Ends> {
    let seed = Seed(settings.seed.unwrap_or(1).into()).fork("waxman");
    let mut rng = seed.fork("places").stream();
    let mut place = |_| [rng.below(SIDE), rng.below(SIDE)];
    let places: Vec<[u64; 2]> = (0..hosts).map(&mut place).collect();
    let distance = |a: usize, b: usize| {
        let square = |axis: usize| places[a][axis].abs_diff(places[b][axis]).pow(2);
        (square(0) + square(1)).isqrt()
    };
    let density = settings.density.unwrap_or(Probability::ratio(2, 5));
    let reach = settings.reach.unwrap_or(Probability::ratio(1, 5));
    // reach · L, in the places' units.
    let scale = (u128::from((2 * SIDE * SIDE).isqrt()) * u128::from(reach.parts())) >> 32;
    let mut rng = seed.fork("links").stream();
    let all = places.len();
    let mut pairs: Vec<(u64, usize, usize)> = (0..all)
        .flat_map(|a| (a + 1..all).map(move |b| (a, b)))
        .map(|(a, b)| (distance(a, b), a, b))
        .collect();
    // e^-x is the probability that an exponential variate exceeds x.
    let drawn = |&(length, ..): &(u64, usize, usize)| {
        let far = u128::from(length) << 32;
        let within = (exponential(&mut rng) >> 32) * scale > far;
        rng.chance(density) && within
    };
    let chosen: Vec<bool> = pairs.iter().map(drawn).collect();
    let mut part: Vec<usize> = (0..all).collect();
    let mut links = Vec::new();
    let mut join = |a: usize, b: usize| {
        let (from, to) = (part[a], part[b]);
        part.iter_mut()
            .filter(|part| **part == from)
            .for_each(|part| *part = to);
        from != to
    };
    for (&(_, a, b), _) in pairs.iter().zip(&chosen).filter(|(_, chosen)| **chosen) {
        join(a, b);
        links.push((a, b));
    }
    pairs.sort_unstable();
    for (_, a, b) in pairs {
        if join(a, b) {
            links.push((a, b));
        }
    }
    let name = |n: usize| format!("{}-{}", settings.name, n + 1);
    links.into_iter().map(|(a, b)| [name(a), name(b)]).collect()
}
