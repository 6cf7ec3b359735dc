//! Topologies in GraphML files, as those of the Internet Topology Zoo (Knight et al., "The Internet
//! Topology Zoo", IEEE JSAC 29(9), 2011).
//!
//! Of a file this is read: its nodes with their `label`, `Latitude` and `Longitude`, and its edges
//! with their `LinkSpeedRaw` (bits per second), `delay` (a text with its unit) and `cost`. Where an
//! edge has no `delay` but both of its nodes have coordinates, its delay is that of light in a
//! fibre along the great circle: 200,000 km a second, on a sphere of 6,371 km. Real cables are
//! longer, by half and more.
//!
//! Directions of edges have no meaning, and of several edges between the same nodes the first
//! counts. Hyperedges, ports and graphs within graphs are refused.

use engine::units::{Bandwidth, Duration};
use roxmltree::{Document, Node};
use std::collections::{BTreeSet, HashMap};

/// What a file says of an edge.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Edge {
    /// The names of its nodes: their labels, if all nodes have one and no two the same; otherwise
    /// their identifiers.
    pub(super) ends: [String; 2],
    /// The rate, in a text with its unit.
    pub(super) rate: Option<String>,
    /// The delay, in a text with its unit.
    pub(super) delay: Option<String>,
    /// The cost.
    pub(super) cost: Option<u32>,
    /// Where it stands: line and column.
    pub(super) at: String,
}

/// A node of a graph.
struct Place {
    label: Option<String>,
    coordinates: Option<[f64; 2]>,
}

/// The names of data by the identifiers that they have in a file.
type Keys<'t> = HashMap<&'t str, &'t str>;

/// Reads the edges of a file's graph.
///
/// # Errors
///
/// Returns what is wrong, behind its line and column.
pub(super) fn read(text: &str) -> Result<Vec<Edge>, String> {
    let document = Document::parse(text).map_err(|wrong| {
        let at = wrong.pos();
        format!("{}:{}: not XML: {wrong}", at.row, at.col)
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "graphml" {
        return Err(refused(root, "expected `<graphml>`"));
    }
    let graph = children(root, "graph").next();
    let graph = graph.ok_or_else(|| refused(root, "there is no `<graph>`"))?;
    if let Some(second) = children(root, "graph").nth(1) {
        return Err(refused(second, "a second `<graph>`: expected one"));
    }
    let keys: Keys<'_> = children(root, "key")
        .filter_map(|key| key.attribute("id").zip(key.attribute("attr.name")))
        .collect();
    let mut places = HashMap::new();
    for node in children(graph, "node") {
        if let Some(inner) = children(node, "graph").next() {
            return Err(refused(inner, "a graph within a node is not supported"));
        }
        let id = needed(node, "id")?;
        if places.insert(id, place(node, &keys)?).is_some() {
            return Err(refused(node, &format!("a second node `{id}`")));
        }
    }
    if let Some(hyper) = children(graph, "hyperedge").next() {
        return Err(refused(
            hyper,
            "an edge between more than two nodes is not supported",
        ));
    }
    let by_label = has_distinct_labels(&places);
    let (mut edges, mut seen) = (Vec::new(), BTreeSet::new());
    for node in children(graph, "edge") {
        let [a, b] = [needed(node, "source")?, needed(node, "target")?];
        if a == b {
            return Err(refused(node, &format!("an edge from `{a}` to itself")));
        }
        if seen.insert([a.min(b), a.max(b)]) {
            edges.push(edge(node, [a, b], &keys, &places, by_label)?);
        }
    }
    if edges.is_empty() {
        return Err(refused(graph, "the graph has no edge"));
    }
    Ok(edges)
}

fn children<'a, 't>(node: Node<'a, 't>, name: &'static str) -> impl Iterator<Item = Node<'a, 't>> {
    node.children()
        .filter(move |child| child.tag_name().name() == name)
}

fn position(node: Node<'_, '_>) -> String {
    let at = node.document().text_pos_at(node.range().start);
    format!("{}:{}", at.row, at.col)
}

fn refused(node: Node<'_, '_>, why: &str) -> String {
    format!("{}: {why}", position(node))
}

fn needed<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, String> {
    let found = node.attribute(name).filter(|value| !value.is_empty());
    found.ok_or_else(|| refused(node, &format!("`{name}` is missing")))
}

/// The data of this name that a node or an edge has, without spaces around.
fn data<'a, 't>(of: Node<'a, 't>, name: &str, keys: &Keys<'_>) -> Option<(Node<'a, 't>, &'a str)> {
    let is_named = |data: &Node<'_, '_>| data.attribute("key").and_then(|key| keys.get(key)) == Some(&name);
    let found = children(of, "data").find(is_named)?;
    let text = found.text().map(str::trim).filter(|text| !text.is_empty())?;
    Some((found, text))
}

fn number(of: Node<'_, '_>, name: &str, keys: &Keys<'_>) -> Result<Option<f64>, String> {
    let Some((at, text)) = data(of, name, keys) else {
        return Ok(None);
    };
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let wrong = || refused(at, &format!("`{name}`: expected a number, found `{text}`"));
    number.map(Some).ok_or_else(wrong)
}

fn place(node: Node<'_, '_>, keys: &Keys<'_>) -> Result<Place, String> {
    let latitude = number(node, "Latitude", keys)?;
    let longitude = number(node, "Longitude", keys)?;
    Ok(Place {
        label: data(node, "label", keys).map(|(_, label)| in_name(label)),
        coordinates: latitude.zip(longitude).map(|(north, east)| [north, east]),
    })
}

/// A label as a part of a host's name.
fn in_name(label: &str) -> String {
    let good = |c: char| if c.is_alphanumeric() { c } else { '-' };
    label.chars().map(good).collect()
}

fn has_distinct_labels(places: &HashMap<&str, Place>) -> bool {
    let labels: BTreeSet<&String> = places.values().filter_map(|place| place.label.as_ref()).collect();
    labels.len() == places.len()
}

fn edge(
    node: Node<'_, '_>,
    ends: [&str; 2],
    keys: &Keys<'_>,
    places: &HashMap<&str, Place>,
    by_label: bool,
) -> Result<Edge, String> {
    let of = |id: &str| {
        let unknown = || refused(node, &format!("there is no node `{id}`"));
        places.get(id).ok_or_else(unknown)
    };
    let both = [of(ends[0])?, of(ends[1])?];
    let name = |end: usize| match &both[end].label {
        Some(label) if by_label => label.clone(),
        _ => in_name(ends[end]),
    };
    let rate = match number(node, "LinkSpeedRaw", keys)? {
        Some(rate) if super::links::RATES.contains(&Bandwidth::bits_per_sec(rate.max(0.0) as u64)) => {
            Some(format!("{} bit/s", rate as u64))
        }
        Some(rate) => {
            let why = format!("`LinkSpeedRaw`: {rate} bit/s is not from 8 kbit/s to 800 Gbit/s");
            return Err(refused(node, &why));
        }
        None => None,
    };
    let stated = match data(node, "delay", keys) {
        Some((at, text)) => {
            let delay = text.parse::<Duration>();
            delay.map_err(|wrong| refused(at, &format!("`delay`: {wrong}")))?;
            Some(text.to_owned())
        }
        None => None,
    };
    let by_distance = || Some(great_circle(both[0].coordinates?, both[1].coordinates?));
    let cost = match data(node, "cost", keys) {
        Some((at, text)) => {
            let cost = text.parse::<u32>().ok().filter(|cost| *cost > 0);
            let wrong = || {
                refused(
                    at,
                    &format!("`cost`: expected a whole number from 1, found `{text}`"),
                )
            };
            Some(cost.ok_or_else(wrong)?)
        }
        None => None,
    };
    Ok(Edge {
        ends: [name(0), name(1)],
        rate,
        delay: stated.or_else(by_distance),
        cost,
        at: position(node),
    })
}

/// The delay of light in a fibre between two places, in whole microseconds.
fn great_circle(a: [f64; 2], b: [f64; 2]) -> String {
    const RADIUS_KM: f64 = 6_371.0;
    const KM_PER_US: f64 = 0.2;
    let [[south, west], [north, east]] = [a, b].map(|place| place.map(f64::to_radians));
    let half = |angle: f64| (angle / 2.0).sin().powi(2);
    // The haversine formula, which is exact for short distances, too.
    let chord = half(north - south) + south.cos() * north.cos() * half(east - west);
    let km = 2.0 * RADIUS_KM * chord.clamp(0.0, 1.0).sqrt().asin();
    format!("{} us", (km / KM_PER_US).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: &str, edges: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
             <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
             <key attr.name=\"LinkSpeedRaw\" attr.type=\"double\" for=\"edge\" id=\"r\" />\n\
             <key attr.name=\"delay\" for=\"edge\" id=\"w\" />\n\
             <key attr.name=\"cost\" for=\"edge\" id=\"c\" />\n\
             <key attr.name=\"label\" for=\"node\" id=\"l\" />\n\
             <key attr.name=\"Latitude\" for=\"node\" id=\"n\" />\n\
             <key attr.name=\"Longitude\" for=\"node\" id=\"e\" />\n\
             <graph edgedefault=\"undirected\">\n{nodes}\n{edges}\n</graph>\n</graphml>\n"
        )
    }

    fn place(id: &str, label: &str, [north, east]: [f64; 2]) -> String {
        format!(
            "<node id=\"{id}\"><data key=\"n\">{north}</data><data key=\"e\">{east}</data>\
             <data key=\"l\">{label}</data></node>"
        )
    }

    #[test]
    fn rates_and_delays_are_those_of_the_file_or_of_the_distance() {
        let nodes = place("0", "New York", [40.71, -74.01]) + &place("1", "London", [51.51, -0.13]);
        let edge = "<edge source=\"0\" target=\"1\"><data key=\"r\">155000000.0</data></edge>";
        let edges = read(&graph(&nodes, edge)).expect("a graph");
        assert_eq!(edges[0].ends, ["New-York", "London"]);
        assert_eq!(edges[0].rate.as_deref(), Some("155000000 bit/s"));
        // 5,570 km.
        let delay: Duration = edges[0]
            .delay
            .as_deref()
            .expect("a delay")
            .parse()
            .expect("a time");
        assert!(delay.nanos().abs_diff(27_850_000) < 50_000, "{delay}");
        let edge =
            "<edge source=\"0\" target=\"1\"><data key=\"w\"> 40 ms </data><data key=\"c\">7</data></edge>";
        let edges = read(&graph(&nodes, edge)).expect("a graph");
        assert_eq!(edges[0].delay.as_deref(), Some("40 ms"));
        assert_eq!((edges[0].rate.as_deref(), edges[0].cost), (None, Some(7)));
    }

    #[test]
    fn half_around_the_earth_and_nowhere_are_distances() {
        for (places, micros) in [
            ([[0.0, 0.0], [0.0, 180.0]], 100_075),
            ([[90.0, 0.0], [-90.0, 77.0]], 100_075),
            ([[0.0, 179.5], [0.0, -179.5]], 556),
            ([[10.0, 10.0], [10.0, 10.0]], 0),
        ] {
            assert_eq!(great_circle(places[0], places[1]), format!("{micros} us"));
        }
    }

    #[test]
    fn labels_that_are_not_distinct_give_way_to_identifiers_and_parallel_edges_are_one() {
        let nodes = place("a", "None", [1.0, 1.0]) + &place("b", "None", [1.0, 2.0]);
        let edges = "<edge source=\"a\" target=\"b\"><data key=\"r\">1e6</data></edge>\
                     <edge source=\"b\" target=\"a\"><data key=\"r\">2e6</data></edge>";
        let edges = read(&graph(&nodes, edges)).expect("a graph");
        assert_eq!(
            (edges.len(), &edges[0].ends),
            (1, &["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(edges[0].rate.as_deref(), Some("1000000 bit/s"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let nodes = place("0", "a", [1.0, 1.0]) + "\n" + &place("1", "b", [1.0, 2.0]);
        let of = |edge: &str| read(&graph(&nodes, edge)).expect_err(edge);
        for (edge, wrong) in [
            (
                "<edge source=\"0\" target=\"0\"/>",
                "12:1: an edge from `0` to itself",
            ),
            ("<edge source=\"0\" target=\"9\"/>", "12:1: there is no node `9`"),
            ("<edge source=\"0\"/>", "12:1: `target` is missing"),
            (
                " <hyperedge/>",
                "12:2: an edge between more than two nodes is not supported",
            ),
            ("", "9:1: the graph has no edge"),
            (
                "<edge source=\"0\" target=\"1\"><data key=\"r\">fast</data></edge>",
                "12:29: `LinkSpeedRaw`: expected a number, found `fast`",
            ),
            (
                "<edge source=\"0\" target=\"1\"><data key=\"r\">-5</data></edge>",
                "12:1: `LinkSpeedRaw`: -5 bit/s is not from 8 kbit/s to 800 Gbit/s",
            ),
            (
                "<edge source=\"0\" target=\"1\"><data key=\"c\">0</data></edge>",
                "12:29: `cost`: expected a whole number from 1, found `0`",
            ),
        ] {
            assert_eq!(of(edge), wrong);
        }
        let unit = of("<edge source=\"0\" target=\"1\"><data key=\"w\">5</data></edge>");
        assert!(unit.starts_with("12:29: `delay`: "), "{unit}");
        assert!(read("<graphml><graph>").expect_err("open").contains("not XML"));
        assert_eq!(read("<svg/>").expect_err("SVG"), "1:1: expected `<graphml>`");
        // Entities that would grow without end are not read at all.
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aa\">]><graphml/>";
        assert!(read(bomb).expect_err("a DTD").contains("not XML"));
    }
}
