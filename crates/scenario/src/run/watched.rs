//! What is drawn of a run while it goes on: the rate and the delay of each class of the links with
//! a policy, of the other links, and of the flows, from one sample to the next.
//!
//! Rates and delays are those of the [`outcome`](super::outcome). Of very many classes or flows the
//! first have a row each, and the others one together.

use super::ScenarioRun;
use super::readings::Meters;
use crate::Scenario;
use crate::language::Subject;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::FineDelays;
use sim::simulation::End;

/// Rows of one group at most: a chart of more is not read.
const MOST_ROWS: usize = 24;

/// Samples of a run at most, for charts: the time between two is this part of its duration, or
/// more.
const MOST_SAMPLES: u64 = 400;

/// What a row is about, by its indices in the scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// A row of a link's meter.
    Class { link: usize, row: usize },
    /// All of a flow's copies.
    Flow(usize),
    /// One of them.
    Copy { flow: usize, copy: usize },
}

/// What belongs together in a chart: the classes of a link, or the flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchedGroup {
    /// The link, as `server > home`; none for the flows.
    pub link: Option<String>,
    /// What the rows of the chart are called.
    pub rows: Vec<String>,
}

/// A row, and what it had at the last sample.
#[derive(Clone, Debug)]
struct Row {
    parts: Vec<Part>,
    bytes: u64,
    delays: FineDelays,
}

/// A row from one sample to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedRow {
    /// The rate.
    pub rate: Bandwidth,
    /// The mean and the longest delay; none where no packet had one.
    pub delay: Option<(Duration, Duration)>,
}

/// The rows of a run.
#[derive(Clone, Debug)]
pub struct Watched {
    groups: Vec<WatchedGroup>,
    rows: Vec<Row>,
    last: Instant,
    /// The least time from one sample to the next.
    interval: Duration,
}

impl Watched {
    /// At the beginning of this run.
    pub fn new(running: &ScenarioRun, scenario: &Scenario) -> Self {
        let mut watched = Self {
            groups: Vec::new(),
            rows: Vec::new(),
            last: Instant::START,
            interval: Duration::from_nanos(scenario.settings.duration.nanos() / MOST_SAMPLES),
        };
        for (link, direction) in scenario.directions.iter().enumerate() {
            let of_class = |(row, name): (usize, String)| (name, Part::Class { link, row });
            let classes = classes(running, link).into_iter().map(of_class).collect();
            watched.put(Some(direction.name.clone()), classes);
        }
        let mut flows = Vec::new();
        for (number, flow) in scenario.flows.iter().enumerate() {
            match flow.settings.count as usize {
                copies @ 2..=MOST_ROWS => flows.extend((0..copies).map(|copy| {
                    let part = Part::Copy { flow: number, copy };
                    (format!("{} {}", flow.name, copy + 1), part)
                })),
                _ => flows.push((flow.name.clone(), Part::Flow(number))),
            }
        }
        watched.put(None, flows);
        watched
    }

    fn put(&mut self, link: Option<String>, mut parts: Vec<(String, Part)>) {
        let own = match parts.len() {
            all @ ..=MOST_ROWS => all,
            _ => MOST_ROWS - 1,
        };
        let others: Vec<Part> = parts.drain(own..).map(|(_, part)| part).collect();
        let mut rows: Vec<String> = Vec::new();
        let mut row = |name: String, parts: Vec<Part>| {
            rows.push(name);
            self.rows.push(Row {
                parts,
                bytes: 0,
                delays: FineDelays::default(),
            });
        };
        parts.into_iter().for_each(|(name, part)| row(name, vec![part]));
        if !others.is_empty() {
            row(format!("{} others", others.len()), others);
        }
        self.groups.push(WatchedGroup { link, rows });
    }

    /// The groups; a sample has the rows of the first, then of the next.
    pub fn groups(&self) -> &[WatchedGroup] {
        &self.groups
    }

    /// The rows since the last sample, if it is time for one at this stop of the run.
    pub fn sample(
        &mut self,
        running: &ScenarioRun,
        scenario: &Scenario,
        at: Instant,
    ) -> Option<Vec<WatchedRow>> {
        let span = at.since(self.last);
        let is_end = at == Instant::START + scenario.settings.duration;
        if span == Duration::ZERO || (span < self.interval && !is_end) {
            return None;
        }
        self.last = at;
        let of = |row: &mut Row| {
            let (bytes, delays) = now(running, scenario, &row.parts);
            let since = delays.since(&row.delays);
            let new = bytes - std::mem::replace(&mut row.bytes, bytes);
            row.delays = delays;
            WatchedRow {
                rate: Bandwidth::of(Bytes::new(new), span),
                delay: (since.count() > 0).then(|| (since.mean(), since.longest())),
            }
        };
        Some(self.rows.iter_mut().map(of).collect())
    }
}

/// The classes of a link that packets wait in, by their rows in its meter; of a plain buffer one.
fn classes(running: &ScenarioRun, link: usize) -> Vec<(usize, String)> {
    let Some(meter) = running.network.sim.meter(running.network.links[link]) else {
        return Vec::new();
    };
    let rows = meter.rows();
    let mut inner = vec![false; rows.len()];
    rows.iter()
        .filter_map(|row| row.parent)
        .for_each(|parent| inner[parent] = true);
    let leaves = rows.iter().enumerate().filter(|(row, _)| !inner[*row]);
    leaves.map(|(row, class)| (row, class.name.clone())).collect()
}

/// Bytes and delays of these parts since the beginning.
fn now(running: &ScenarioRun, scenario: &Scenario, parts: &[Part]) -> (u64, FineDelays) {
    let network = &running.network;
    let meters = Meters { network, scenario };
    let (mut bytes, mut delays) = (0, FineDelays::default());
    for part in parts {
        match *part {
            Part::Class { link, row } => {
                let meter = network.sim.meter(network.links[link]);
                if let Some(tally) = meter.and_then(|meter| meter.whole().classes().get(row)) {
                    bytes += tally.series.total();
                    delays.merge(&tally.queueing_delays);
                }
            }
            Part::Flow(flow) => {
                let copies = network.flows[flow].iter();
                bytes += copies
                    .map(|&copy| network.sim.delivered(copy, End::Responder).bytes.get())
                    .sum::<u64>();
                delays.merge(&meters.reading(Subject::Flow(flow)).delays);
            }
            Part::Copy { flow, copy } => {
                for &one in meters.copies(flow).nth(copy).unwrap_or_default() {
                    bytes += network.sim.delivered(one, End::Responder).bytes.get();
                    if let Some(listener) = meters.listener(one) {
                        delays.merge(&listener.delays);
                    }
                }
            }
        }
    }
    (bytes, delays)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenarios;
    use crate::folder::Folder;
    use crate::run::outcome::{Outcome, Point};
    use engine::tree::Registry;

    /// Two classes and a plain link behind them, with three flows of which one is two copies.
    const TEXT: &str = r#"
version = 1
duration = "4 s"
[[link]]
between = ["server", "router"]
rate = "10 Mbit/s"
delay = "5 ms"
[link.policy.server]
bandwidth = "8 Mbit/s"
discipline = "drr"
class = [{ name = "big", weight = 3 }, { name = "small", weight = 1, default = true }]
filter = [{ class = "big", destination_port = 80 }]
[[link]]
between = ["router", "home"]
rate = "100 Mbit/s"
[[flow]]
name = "two"
between = ["server", "home"]
kind = "tcp"
count = 2
destination_port = 80
[[flow]]
name = "call"
between = ["server", "home"]
kind = "constant"
rate = "64 kbit/s"
frame = "200 B"
"#;

    type Samples = Vec<(Instant, Vec<WatchedRow>)>;

    fn run(text: &str) -> (Vec<WatchedGroup>, Samples, Outcome) {
        let (registry, folder) = (Registry::builtin(), Folder::of(""));
        let scenarios = Scenarios::read("test.toml", text, &registry, &folder);
        let scenarios = scenarios.unwrap_or_else(|why| panic!("{why}"));
        let scenario = scenarios.point(1, &folder).expect("a scenario");
        let mut running = ScenarioRun::begin(&scenario, &[], None).expect("a route");
        let mut watched = Watched::new(&running, &scenario);
        let mut samples = Vec::new();
        while let Some(at) = running.step(&scenario).expect("no capture") {
            samples.extend(watched.sample(&running, &scenario, at).map(|rows| (at, rows)));
        }
        let point = Point::only();
        (watched.groups, samples, running.end("test", &scenario, point))
    }

    #[test]
    fn the_samples_of_a_run_sum_up_to_its_outcome() {
        let (groups, samples, outcome) = run(TEXT);
        let named: Vec<(Option<&str>, Vec<&str>)> = groups
            .iter()
            .map(|group| {
                (
                    group.link.as_deref(),
                    group.rows.iter().map(String::as_str).collect(),
                )
            })
            .collect();
        let expected = [
            (Some("server > router"), vec!["big", "small"]),
            (Some("router > server"), vec![""]),
            (Some("router > home"), vec![""]),
            (Some("home > router"), vec![""]),
            (None, vec!["two 1", "two 2", "call"]),
        ];
        assert_eq!(named, expected);
        assert_eq!(samples.len(), 400);
        // Rates are rounded down: by less than a bit a second.
        let bytes = |row: usize| {
            let mut before = Instant::START;
            let mut sum = 0.0;
            for (at, rows) in &samples {
                sum += rows[row].rate.bits() as f64 / 8.0 * at.since(before).as_secs_f64();
                before = *at;
            }
            sum
        };
        let class = |name: &str| {
            let classes = &outcome.links[0].classes;
            &classes
                .iter()
                .find(|class| class.name == name)
                .expect(name)
                .passed
        };
        let [two, call] = [0, 1].map(|flow| &outcome.flows[flow]);
        for (row, total) in [
            (0, class("big").bytes),
            (1, class("small").bytes),
            (5, two.copies[0]),
            (6, two.copies[1]),
            (7, call.bytes),
        ] {
            assert!(total > 10_000, "{row}: {total}");
            assert!(
                (bytes(row) - total as f64).abs() < 2.0,
                "{row}: {} of {total}",
                bytes(row)
            );
        }
        let longest = |row: usize| {
            samples
                .iter()
                .filter_map(|(_, rows)| rows[row].delay)
                .map(|delay| delay.1)
                .max()
        };
        let big = class("big").waited.longest();
        // At most 1/64 too long where an earlier one was as long.
        assert!(longest(0).is_some_and(|got| got >= big && got.nanos() <= big.nanos() * 65 / 64));
        let heard = call.delays.as_ref().expect("datagrams").longest();
        assert!(longest(7).is_some_and(|got| got >= heard && got.nanos() <= heard.nanos() * 65 / 64));
        assert_eq!(longest(5), None, "TCP measures none");
    }

    #[test]
    fn of_many_the_first_have_rows_and_the_others_one() {
        let class = |n| format!("{{ name = \"c{n}\" }}, ");
        let classes: String = (0..39).map(class).collect();
        let text = format!(
            "version = 1\nduration = \"1 s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n\
             [link.policy.a]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"drr\"\n\
             class = [{classes}{{ name = \"c39\", default = true }}]\n\
             [[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"constant\"\nrate = \"1 Mbit/s\"\ncount = 30\n"
        );
        let (groups, samples, outcome) = run(&text);
        let rows = &groups[0].rows;
        assert_eq!(
            (rows.len(), rows[22].as_str(), rows[23].as_str()),
            (24, "c22", "17 others")
        );
        let last = &samples[399].1;
        assert_eq!(last[0].rate, Bandwidth::ZERO);
        assert!(last[23].rate >= Bandwidth::mbit(9), "{:?}", last[23]);
        assert_eq!(groups[2].rows, [outcome.flows[0].name.as_str()]);
    }
}
