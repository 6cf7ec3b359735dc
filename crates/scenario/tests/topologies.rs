//! Generated topologies are ordinary links: as many as the formulas say, with routes between all
//! hosts, the same for the same seed; and what is wrong with one is told once, where it stands.

use engine::tree::Registry;
use engine::units::Bandwidth;
use scenario::folder::Folder;
use scenario::{Scenario, Scenarios};
use std::collections::BTreeSet;

fn text(topologies: &str, between: [&str; 2]) -> String {
    format!(
        "version = 1\nduration = \"1 s\"\n{topologies}\n\
         [[flow]]\nbetween = {between:?}\nkind = \"constant\"\nrate = \"1 Mbit/s\"\n"
    )
}

fn read(topologies: &str, between: [&str; 2]) -> Result<Scenario, String> {
    let (registry, folder) = (Registry::builtin(), Folder::of("s.toml"));
    let text = text(topologies, between);
    let all = Scenarios::read("s.toml", &text, &registry, &folder).map_err(|wrong| wrong.to_string())?;
    assert!(all.warnings.is_empty(), "{}", all.warnings);
    all.point(1, &folder).map_err(|wrong| wrong.to_string())
}

fn topology(settings: &str) -> String {
    format!("[[topology]]\nname = \"n\"\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"\n{settings}\n")
}

#[test]
fn each_shape_has_the_links_that_its_formula_says_and_routes_between_all_hosts() {
    for (settings, between, hosts, links, hops) in [
        ("shape = \"star\"\nhosts = 5", ["n-1", "n-5"], 6, 5, 2),
        ("shape = \"line\"\nhosts = 5", ["n-1", "n-5"], 5, 4, 4),
        (
            "shape = \"dumbbell\"\nhosts = 3",
            ["n-left-1", "n-right-3"],
            8,
            7,
            3,
        ),
        (
            "shape = \"tree\"\nfanout = 3\ndepth = 3",
            ["n-1-1-1", "n-3-3-3"],
            1 + 3 + 9 + 27,
            3 + 9 + 27,
            6,
        ),
        (
            "shape = \"fat-tree\"\nports = 4",
            ["n-1-1-1", "n-4-2-2"],
            16 + 20,
            48,
            6,
        ),
        (
            "shape = \"fat-tree\"\nports = 4",
            ["n-1-1-1", "n-1-2-2"],
            16 + 20,
            48,
            4,
        ),
    ] {
        let scenario = read(&topology(settings), between).expect(settings);
        assert_eq!(scenario.hosts.len(), hosts, "{settings}");
        assert_eq!(scenario.directions.len(), 2 * links, "{settings}");
        assert_eq!(scenario.path(scenario.flows[0].between).len(), hops, "{settings}");
        let all = || 0..scenario.hosts.len();
        let apart = all()
            .flat_map(|a| all().map(move |b| [a, b]))
            .filter(|[a, b]| a != b);
        assert!(
            apart.clone().all(|between| !scenario.path(between).is_empty()),
            "{settings}"
        );
        let rate = |way: &scenario::language::DirectionConfig| way.settings.rate == Bandwidth::mbit(10);
        assert!(scenario.directions.iter().all(rate), "{settings}");
    }
    // Each switch of a fat tree has its four ports.
    let tree = read(
        &topology("shape = \"fat-tree\"\nports = 4"),
        ["n-1-1-1", "n-4-2-2"],
    )
    .expect("a tree");
    for (number, host) in tree.hosts.iter().enumerate() {
        let ports = tree.directions.iter().filter(|way| way.from == number).count();
        let is_switch = ["core", "aggr", "edge"]
            .iter()
            .any(|kind| host.name.contains(kind));
        assert_eq!(ports, if is_switch { 4 } else { 1 }, "{}", host.name);
    }
}

#[test]
fn a_bottleneck_differs_and_a_policy_and_what_is_back_are_of_each_link() {
    let settings = "shape = \"dumbbell\"\nhosts = 2\nbottleneck = { rate = \"2 Mbit/s\", delay = \"20 ms\" }\n\
                    back = { rate = \"5 Mbit/s\" }\npolicy = { bandwidth = \"1 Mbit/s\", discipline = \"fifo\" }";
    let scenario = read(&topology(settings), ["n-left-1", "n-right-1"]).expect("a scenario");
    assert!(scenario.directions.iter().all(|way| way.policy.is_some()));
    let of = |name: &str| {
        let way = scenario
            .directions
            .iter()
            .find(|way| way.name == name)
            .expect(name);
        (way.settings.rate, way.settings.delay.nanos() / 1_000_000)
    };
    assert_eq!(of("n-left > n-right"), (Bandwidth::mbit(2), 20));
    assert_eq!(of("n-right > n-left"), (Bandwidth::mbit(5), 20));
    assert_eq!(of("n-left > n-left-2"), (Bandwidth::mbit(10), 1));
    assert_eq!(of("n-left-2 > n-left"), (Bandwidth::mbit(5), 1));
}

/// The links of a random topology.
fn random(settings: &str) -> BTreeSet<String> {
    let settings = format!("shape = \"random\"\nhosts = 60\n{settings}");
    let scenario = read(&topology(&settings), ["n-1", "n-60"]).expect("a scenario");
    let forward = scenario.directions.iter().step_by(2);
    forward.map(|way| way.name.clone()).collect()
}

#[test]
fn a_random_topology_is_its_seeds_and_the_denser_the_more_links_it_has() {
    assert_eq!(random("seed = 1"), random(""));
    assert_ne!(random("seed = 2"), random("seed = 1"));
    // None at random: a tree, by the links that join the parts.
    assert_eq!(random("density = \"0 %\"").len(), 59);
    let far = random("reach = \"100 %\"\ndensity = \"100 %\"").len();
    // The mean of e^(-d/L) over two random points of a square with the diagonal L is 0.70, of 1,770
    // pairs; the standard deviation by places and draws is about 0.02 of it.
    assert!((1_100..1_380).contains(&far), "{far}");
    let near = random("reach = \"10 %\"\ndensity = \"100 %\"").len();
    assert!(59 <= near && near < far / 3, "{near} {far}");
}

#[test]
fn topologies_and_links_meet_at_hosts_that_both_name() {
    let link = "[[link]]\nbetween = [\"world\", \"n\"]\nrate = \"1 Mbit/s\"\n";
    let star = topology("shape = \"star\"\nhosts = 2");
    let scenario = read(&format!("{link}{star}"), ["world", "n-2"]).expect("a scenario");
    assert_eq!((scenario.hosts.len(), scenario.directions.len()), (4, 6));
    assert_eq!(scenario.path(scenario.flows[0].between).len(), 2);
}

#[test]
fn the_lab_reads_them_too() {
    let text = text(&topology("shape = \"star\"\nhosts = 2"), ["n-1", "n-2"]);
    let read = Scenarios::read_for_lab("s.toml", &text, &Registry::builtin(), &Folder::of("s.toml"));
    read.expect("a scenario for the lab");
}

#[test]
fn what_is_wrong_is_said_once_where_it_stands() {
    let twice = format!("{0}{0}", topology("shape = \"star\"\nhosts = 2"));
    assert!(
        read(&twice, ["n-1", "n-2"])
            .expect_err("a clash")
            .contains("made by another topology")
    );
    for (settings, said) in [
        ("shape = \"star\"", "`hosts` is missing"),
        ("shape = \"star\"\nhosts = 0", "`hosts` must be 1 at least"),
        ("shape = \"star\"\nhosts = 3\nports = 4", "`ports` does not apply"),
        ("shape = \"star\"\nhosts = 3\nseed = 4", "`seed` does not apply"),
        ("shape = \"fat-tree\"\nports = 5", "an even number"),
        (
            "shape = \"fat-tree\"\nports = 4294967294",
            "more than 20000 links",
        ),
        (
            "shape = \"tree\"\nfanout = 1000\ndepth = 4294967295",
            "more than 20000 links",
        ),
        (
            "shape = \"random\"\nhosts = 500\ndensity = \"100 %\"\nreach = \"100 %\"",
            "more than 20000",
        ),
        ("shape = \"ring\"\nhosts = 3", "shape"),
        ("shape = \"star\"\nhosts = 3\nloss = \"200 %\"", "loss"),
        ("shape = \"star\"\nhosts = 3\nrates = \"200 %\"", "rates"),
    ] {
        let mistakes = read(&topology(settings), ["n-1", "n-2"]).expect_err(settings);
        assert!(mistakes.contains(said), "{settings}: {mistakes}");
        let many = mistakes.matches("more of the same").count();
        assert_eq!(many, 0, "{settings}: {mistakes}");
    }
}

/// A random topology of which each link costs something else, and what each costs.
fn with_costs(seed: u32, most: u32) -> Scenario {
    let bare = topology(&format!(
        "shape = \"random\"\nhosts = 30\nreach = \"60 %\"\nseed = {seed}"
    ));
    let plain = read(&bare, ["n-1", "n-30"]).expect("a scenario");
    let links = plain.directions.chunks(2).enumerate().map(|(number, ways)| {
        let ends = [ways[0].from, ways[0].to].map(|host| plain.hosts[host].name.clone());
        let cost = |factor: usize| (number * factor + seed as usize) as u32 % most + 1;
        format!(
            "[[link]]\nbetween = {ends:?}\nrate = \"10 Mbit/s\"\ncost = {}\nback = {{ cost = {} }}\n",
            cost(7_919),
            cost(104_729)
        )
    });
    read(&links.collect::<String>(), ["n-1", "n-30"]).expect("a scenario")
}

/// The least cost between any two hosts without some links, by Floyd and Warshall.
fn least_costs(scenario: &Scenario, without: &BTreeSet<usize>) -> Vec<Vec<u64>> {
    let hosts = scenario.hosts.len();
    let mut least = vec![vec![u64::MAX / 4; hosts]; hosts];
    for (index, way) in scenario.directions.iter().enumerate() {
        if !without.contains(&(index / 2)) {
            least[way.from][way.to] = way.settings.cost.into();
        }
    }
    for by in 0..hosts {
        least[by][by] = 0;
        for from in 0..hosts {
            for to in 0..hosts {
                least[from][to] = least[from][to].min(least[from][by] + least[by][to]);
            }
        }
    }
    least
}

#[test]
fn packets_take_the_path_of_the_least_cost_also_around_failed_links() {
    for (seed, most) in [(1, 2), (2, 10), (3, 1_000), (4, 1)] {
        let scenario = with_costs(seed, most);
        let hosts = scenario.hosts.len();
        for without in [BTreeSet::new(), BTreeSet::from([0, 3, 5])] {
            let least = least_costs(&scenario, &without);
            for [from, to] in (0..hosts).flat_map(|from| (0..hosts).map(move |to| [from, to])) {
                if from == to || least[from][to] >= u64::MAX / 4 {
                    continue;
                }
                let path = scenario.path_around([from, to], &without);
                let mut at = from;
                for &index in &path {
                    assert!(!without.contains(&(index / 2)));
                    assert_eq!(scenario.directions[index].from, at);
                    at = scenario.directions[index].to;
                }
                let costs = path
                    .iter()
                    .map(|&index| u64::from(scenario.directions[index].settings.cost));
                assert_eq!(
                    (at, costs.sum::<u64>()),
                    (to, least[from][to]),
                    "{from} to {to}, seed {seed}"
                );
            }
        }
    }
}

#[test]
fn of_equal_costs_the_fewest_links_win_then_the_nearer_and_then_those_that_stand_first() {
    let link = |a: &str, b: &str, cost: u32| {
        format!("[[link]]\nbetween = [{a:?}, {b:?}]\nrate = \"10 Mbit/s\"\ncost = {cost}\n")
    };
    let by = |links: &[String]| {
        let scenario = read(&links.concat(), ["a", "d"]).expect("a scenario");
        let path = scenario.path(scenario.flows[0].between);
        path.iter()
            .map(|&index| scenario.directions[index].name.clone())
            .collect::<Vec<_>>()
    };
    let round = [
        link("a", "b", 1),
        link("b", "c", 1),
        link("c", "d", 1),
        link("a", "d", 3),
    ];
    assert_eq!(by(&round), ["a > d"]);
    // The one whose last link begins nearer.
    let two = [
        link("a", "c", 2),
        link("a", "b", 1),
        link("b", "d", 2),
        link("c", "d", 1),
    ];
    assert_eq!(by(&two), ["a > b", "b > d"]);
    let even = [
        link("a", "c", 1),
        link("a", "b", 1),
        link("b", "d", 1),
        link("c", "d", 1),
    ];
    assert_eq!(by(&even), ["a > c", "c > d"]);
    let free = read(&link("a", "d", 0), ["a", "d"]).expect_err("no cost");
    assert!(free.contains("`cost` must be 1 at least"), "{free}");
}

#[test]
fn a_graphml_file_that_is_not_there_or_lacks_a_rate_is_told_at_the_scenarios_line() {
    let missing = read(
        "[[topology]]\nname = \"n\"\nshape = \"graphml\"\nfile = \"none.graphml\"\n",
        ["n-a", "n-b"],
    );
    let missing = missing.expect_err("no file");
    assert!(
        missing.contains("s.toml:6") && missing.contains("none.graphml"),
        "{missing}"
    );
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/topologies/backbone.graphml"
    );
    let of = |more: &str| {
        let text = format!("[[topology]]\nname = \"n\"\nshape = \"graphml\"\nfile = {file:?}\n{more}\n");
        read(&text, ["n-London", "n-Vienna"])
    };
    let bare = of("").expect_err("an edge without a rate");
    assert!(bare.contains("backbone.graphml:20:5: an edge without"), "{bare}");
    let read = of("rate = \"50 Mbit/s\"").expect("a scenario");
    let rates: Vec<Bandwidth> = read
        .directions
        .iter()
        .step_by(2)
        .map(|way| way.settings.rate)
        .collect();
    assert_eq!(rates[..5], [Bandwidth::mbit(100); 5]);
    assert_eq!(rates[5], Bandwidth::mbit(50));
    let hosts = of("rate = \"50 Mbit/s\"\nhosts = 3").expect_err("hosts");
    assert!(hosts.contains("`hosts` does not apply"), "{hosts}");
}
