//! The page `docs/measurements/equality.md`, all of it made from `equality.json` beside it.

use super::cases::{self, SECONDS, Setting};
use super::ends::PROBE_FRAME;
use crate::compare::measured::{FlowFigures, Side};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const PAGE: &str = "docs/measurements/equality.md";
const DATA: &str = "docs/measurements/equality.json";

/// What is claimed, in per cent of the simulator's figure.
const MEAN: f64 = 3.0;
const P99: f64 = 10.0;

/// A side whose senders were later than this had other arrivals, and is left out.
const LATE_US: u64 = 100_000;

/// One case in all places.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Programs that wanted to run, on the average of the minute before, by processors; those that
    /// keep processors awake for the case before among them.
    pub load: f64,
    /// The kernel, under the arrivals of the first seed, if it has the discipline.
    pub linux: Option<Side>,
    /// Ours, under each seed.
    pub seeds: Vec<Seed>,
}

/// Our places under the same arrivals, by name; and the simulator under those that a place's
/// senders really sent.
pub type Seed = BTreeMap<String, Side>;

/// The name of the simulator under the arrivals as this place's senders sent them.
pub fn as_sent(place: &str) -> String {
    format!("sim, as sent in {place}")
}

/// All cases, by name.
pub type Data = BTreeMap<String, Measured>;

pub fn read(root: &Path) -> Result<Data, String> {
    match std::fs::read_to_string(root.join(DATA)) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| format!("{DATA}: {e}")),
        Err(_) => Ok(Data::new()),
    }
}

/// Writes both files.
pub fn write(root: &Path, data: &Data) -> Result<(), String> {
    let json = serde_json::to_string_pretty(data).map_err(|e| format!("{DATA}: {e}"))?;
    std::fs::write(root.join(DATA), json + "\n").map_err(|e| format!("{DATA}: {e}"))?;
    std::fs::write(root.join(PAGE), text(data)).map_err(|e| format!("{PAGE}: {e}"))
}

const HEAD: &str = "\
# How equal the places are

<!-- made by `cargo xtask equality`, from equality.json; edit xtask/src/equality/page.rs -->

The same policies under the same arrivals in the simulator (`sim`), on a link of a lab (`lab`), in a running suimon between two network
namespaces (`run`), and the kernel's disciplines (`Linux`, in User-Mode Linux). Claimed among ours: the mean delay within 3 %, and
what 99 of 100 packets keep within 10 %, of the simulator's. To repeat all or some:

```sh
cargo xtask equality
cargo xtask equality --seeds 12 codel cake@10x100
```

It needs root, for the namespaces; the column of Linux is kept as it was, but with `--linux`, which needs Debian's package
`user-mode-linux`. A case takes half a minute for four lists of arrivals, at 40 Mbit/s a minute.

Arrivals are prescribed: Poisson processes of 80 % (`full`, frames of 1,514 bytes), 21 % (`some`) and 2 % (`sparse`, 214 bytes) of the
line, which react to nothing. So what differs is the queue and not the sender. Disciplines are set for the line's bandwidth-delay
product: `interval` is the round-trip time, queues of classes hold one product; `htb` is ours by the name `cbq`. Delays are from the sending program
to the receiving kernel (`SO_TIMESTAMPNS`); in Linux's column to the receiving program. Behind `run` is no line but a fast pair of interfaces, so the time of a packet's own bits on the line is added to its figures, as the
others have it; Linux's are as measured (its `tbf` waits for that time, its `htb` and `cake` do not). Of ours all percentiles are counted in the same steps, up to 1/16 too long; Linux's are exact.

**A place's own time.** A place takes a while that is no queue's: a link or a worker has to wake for a packet that comes alone. It is measured in each run,
meanwhile: the mean of a thousand probes that go the other way, 10 ms apart, where nothing else does, less the time of their bits on the line. Figures of
`lab` and `run` are given as measured, and *net* of that time. A processor that sleeps between the probes and not between a line's packets
would make it too long by 0.01 to 0.02 ms; so a program of the idle class, which gives way to all others, keeps each processor awake. Even so a probe always finds the link's or worker's thread
asleep, and a packet only where none waits: it takes none of a place's own time, or all, or what is between. So there is no difference where the simulator's figure is between the net and the measured one;
otherwise the difference is from the nearer of the two. At 40 Mbit/s, where `sparse` takes 0.2 ms, those 0.04 ms are 20 %.

**As sent.** Senders sleep, and wake late: by less than 0.1 ms in 99 of 100 cases, and by some milliseconds each second, as this virtual machine stands still. What was due meanwhile is sent at once, and waits behind
itself. So each place is compared with the simulator under the arrivals that this place's senders really sent, by their clock; the column `sim` has those that were due. By how much that changes the delays themselves, the simulator
tells: `cake` at 40 Mbit/s whose senders are late by 0.025 ms on average, and stand still for 6 ms once a second, gives `some` 3.1 % more on average and 13.8 % more at 99 %; for 16 ms once in
addition, 6.0 and 26.7 %. Rows of cases that were measured before this page did so are compared with the arrivals that were due: they are marked *due*. The others were measured while compilers ran,
with all threads of the measurement in real time (`chrt -f 2 cargo xtask equality`).

**Chaos.** Where a decision depends on the last one (`codel` at a standing load), an arrival that is late by 0.1 ms leads to another course, and runs of one
place differ by 10 % and more. So each case has several lists of arrivals (seeds), the same in all places. Figures are means over the seeds, and a difference is
the mean of the differences under each seed, with its 95 % confidence (Student's *t*). A row is *equal* if all four differences are within what is claimed; it
*differs* if one is beyond, and its confidence as well; else it is *open*: so few seeds cannot tell.
A side whose senders were later than 100 ms is left out: User-Mode Linux cannot send 40 Mbit/s here. Linux has the arrivals of the first seed only.

**TCP** would add its own difference: the lab has the kernel's, the simulator a model. It is measured [beside Linux](../disciplines/beside-linux.md)
(`codel-tcp`, `fq_codel-tcp`, `pie-tcp`, `cake-tcp`) and in [one system](one-system.md): rates within 2 %.

";

/// The page.
pub fn text(data: &Data) -> String {
    let mut text = String::from(HEAD);
    let rows: Vec<Row> = cases::all()
        .filter_map(|setting| Some((setting, data.get(&setting.name())?)))
        .flat_map(|(setting, measured)| rows(setting, measured))
        .collect();
    let count = |verdict| rows.iter().filter(|row| row.verdict == Some(verdict)).count();
    let [equal, open, differs] = [Verdict::Equal, Verdict::Open, Verdict::Differs].map(count);
    let measured = || data.values().filter(|measured| !measured.seeds.is_empty());
    let _ = writeln!(
        text,
        "**Of {} rows {equal} are equal** in all of our places by that measure, {differs} differ, and {open} are open. While this was measured {:.1} programs wanted to run for each \
         processor, the one that keeps it awake among them: a busy machine lets programs wait, which `lab` and `run` show and the simulator does not.",
        equal + open + differs,
        measured().map(|measured| measured.load).sum::<f64>() / measured().count().max(1) as f64,
    );
    for discipline in &cases::DISCIPLINES {
        let _ = writeln!(
            text,
            "\n## {}\n\n| line, product | flow | | sim | lab, net | run, net | Linux | ours, net |\n|---|---|---|---|---|---|---|---|",
            discipline.name
        );
        let own = |row: &&Row| row.discipline == discipline.name;
        rows.iter().filter(own).for_each(|row| text += &row.text);
    }
    let _ = writeln!(
        text,
        "\n## How late the senders were, and the places' own time\n\nWith senders late by as much as a discipline's delay, arrivals are others than the simulator's. \
         Of ours the worst of all seeds, and the mean of the own times.\n\n\
         | case | seeds | lab: 99 % within, at most; own | run | Linux |\n|---|---|---|---|---|"
    );
    for (name, measured) in data {
        let Some(setting) = cases::find(name) else {
            continue;
        };
        let late = |sides: &[&Side]| {
            let worst = |of: fn(&Side) -> Option<u64>| sides.iter().filter_map(|side| of(side)).max();
            let (p99, max) = (worst(|side| side.late_p99_us)?, worst(|side| side.late_max_us)?);
            Some(format!("{}, {}", ms(p99 as f64), ms(max as f64)))
        };
        let ours = |place: &str| {
            let sides: Vec<&Side> = measured.seeds.iter().filter_map(|seed| seed.get(place)).collect();
            let own: Vec<f64> = sides
                .iter()
                .filter_map(|side| own_time(setting, place, side))
                .collect();
            Some(format!("{}; {}", late(&sides)?, ms(mean(&own))))
        };
        let [lab, run] = ["lab", "run"].map(|place| ours(place).unwrap_or_default());
        let linux = measured.linux.as_ref().and_then(|side| late(&[side]));
        let _ = writeln!(
            text,
            "| {name} | {} | {lab} | {run} | {} |",
            measured.seeds.len(),
            linux.unwrap_or_default()
        );
    }
    let _ = writeln!(text, "\nSenders send for {SECONDS} s in each case.");
    text
}

/// What a place adds to each packet by itself, in microseconds: what probes took where nothing
/// waited, less the time of their bits where there is a line.
fn own_time(setting: Setting, place: &str, side: &Side) -> Option<f64> {
    let bits = match place {
        "run" => 0,
        _ => PROBE_FRAME * 8 / setting.line.mbit,
    };
    Some(side.empty_us? as f64 - bits as f64)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The factor of the standard error that a mean of so many values keeps to in 95 of 100 cases:
/// Student's t, rounded up.
fn student(values: usize) -> f64 {
    const BY_FREEDOM: [f64; 12] = [
        12.71, 4.31, 3.19, 2.78, 2.58, 2.45, 2.37, 2.31, 2.27, 2.23, 2.21, 2.18,
    ];
    let freedom = values.saturating_sub(1).clamp(1, BY_FREEDOM.len());
    BY_FREEDOM[freedom - 1]
}

/// How far the simulator's figure is from those of a place, of which up to all of the place's own
/// time is in each: nothing between the net and the measured one.
fn beyond([sim, raw, own]: &[f64; 3]) -> f64 {
    (raw - own - sim).max(0.0) + (raw - sim).min(0.0)
}

/// How a place stands beside the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Equal,
    Open,
    Differs,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Open => "open",
            Self::Differs => "**differs**",
        }
    }
}

/// A figure of a place beside the simulator's, over the seeds, in microseconds.
struct Compared {
    place: &'static str,
    /// Whether with the simulator under the arrivals as they were sent.
    as_sent: bool,
    raw: f64,
    net: f64,
    /// The difference from the simulator's, and its confidence, in per cent of that.
    more: f64,
    within: f64,
}

impl Compared {
    /// From the simulator's figure, the place's, and its own time, under each seed; none if there
    /// are too few.
    fn new(place: &'static str, as_sent: bool, seeds: &[[f64; 3]]) -> Option<Self> {
        if seeds.len() < 2 {
            return None;
        }
        let mean_of = |of: fn(&[f64; 3]) -> f64| mean(&seeds.iter().map(of).collect::<Vec<_>>());
        let sim = mean_of(|[sim, ..]| *sim).max(1.0);
        let more = mean_of(beyond);
        let squares: f64 = seeds.iter().map(|seed| (beyond(seed) - more).powi(2)).sum();
        let count = seeds.len() as f64;
        let error = (squares / (count - 1.0) / count).sqrt();
        Some(Self {
            place,
            as_sent,
            raw: mean_of(|[_, raw, _]| *raw),
            net: mean_of(|[_, raw, own]| raw - own),
            more: more / sim * 100.0,
            within: error * student(seeds.len()) / sim * 100.0,
        })
    }

    fn verdict(&self, claimed: f64) -> Verdict {
        match self.more.abs() {
            more if more <= claimed => Verdict::Equal,
            more if more - self.within > claimed => Verdict::Differs,
            _ => Verdict::Open,
        }
    }
}

struct Row {
    discipline: &'static str,
    /// None if too few seeds were measured.
    verdict: Option<Verdict>,
    text: String,
}

/// The figures of one flow in all places.
struct FlowRow<'a> {
    setting: Setting,
    measured: &'a Measured,
    number: usize,
}

impl FlowRow<'_> {
    /// What this place had under a seed, if its senders were in time.
    fn figures(&self, side: &Side) -> Option<FlowFigures> {
        let in_time = side.late_p99_us.is_none_or(|late| late <= LATE_US);
        side.flows.get(self.number).filter(|_| in_time).cloned()
    }

    fn compared(&self, place: &'static str, of: fn(&FlowFigures) -> u64) -> Option<Compared> {
        let bits = match place {
            "run" => self.setting.flows()[self.number].frame * 8 / self.setting.line.mbit,
            _ => 0,
        };
        let reference = as_sent(place);
        let is_there = self
            .measured
            .seeds
            .iter()
            .all(|seed| seed.contains_key(&reference));
        let reference = if is_there { reference.as_str() } else { "sim" };
        let seed = |seed: &Seed| {
            let side = seed.get(place)?;
            let sim = of(&self.figures(seed.get(reference)?)?) as f64;
            let raw = (of(&self.figures(side)?) + bits) as f64;
            Some([sim, raw, own_time(self.setting, place, side)?])
        };
        let seeds: Vec<_> = self.measured.seeds.iter().filter_map(seed).collect();
        Compared::new(place, is_there, &seeds)
    }

    /// The cells of this figure, and how it is judged.
    fn line(&self, of: fn(&FlowFigures) -> u64, claimed: f64) -> (String, String, Option<Verdict>) {
        let simulated = |seed: &Seed| Some(of(&self.figures(seed.get("sim")?)?) as f64);
        let sim: Vec<f64> = self.measured.seeds.iter().filter_map(simulated).collect();
        let linux = self.measured.linux.as_ref().and_then(|side| self.figures(side));
        let places = ["lab", "run"].map(|place| self.compared(place, of));
        let [lab, run] = places.each_ref().map(|one| {
            one.as_ref()
                .map_or("-".into(), |one| format!("{}, {}", ms(one.raw), ms(one.net)))
        });
        let sim = if sim.is_empty() {
            "-".into()
        } else {
            ms(mean(&sim))
        };
        let linux = linux.map_or("-".into(), |flow| ms(of(&flow) as f64));
        let said: Vec<String> = places
            .iter()
            .flatten()
            .map(|one| {
                let due = if one.as_sent { "" } else { ", due" };
                format!("{} {:+.1} ± {:.1} %{due}", one.place, one.more, one.within)
            })
            .collect();
        let verdict = places.iter().flatten().map(|one| one.verdict(claimed)).max();
        (
            format!("{sim} | {lab} | {run} | {linux}"),
            said.join(", "),
            verdict,
        )
    }
}

fn rows(setting: Setting, measured: &Measured) -> Vec<Row> {
    let row = |(number, flow): (usize, &crate::compare::traffic::Flow)| {
        let row = FlowRow {
            setting,
            measured,
            number,
        };
        let (mean, mean_said, first) = row.line(|flow| flow.mean_us, MEAN);
        let (p99, p99_said, second) = row.line(|flow| flow.p99_us, P99);
        let verdict = first.max(second);
        let line = format!(
            "{} Mbit/s, {} ms: {} kB",
            setting.line.mbit,
            setting.line.round_trip_ms,
            setting.product() / 1_000
        );
        let said = match verdict {
            Some(verdict) => format!("{}: {mean_said}", verdict.word()),
            None => "not measured".into(),
        };
        Row {
            discipline: setting.discipline.name,
            verdict,
            text: format!(
                "| {line} | {} | mean | {mean} | {said} |\n| | | 99 % | {p99} | {p99_said} |\n",
                flow.name,
            ),
        }
    };
    setting.flows().iter().enumerate().map(row).collect()
}

fn ms(us: f64) -> String {
    format!("{:.2} ms", us / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences of 100 us and the rest, under seeds whose delays differ by far more.
    fn compared(rest: [f64; 4]) -> Compared {
        let seeds = [8_000.0, 12_000.0, 9_000.0, 11_000.0];
        let seed = |(sim, rest)| [sim, sim + 100.0 + rest, 100.0];
        let seeds: Vec<_> = seeds.into_iter().zip(rest).map(seed).collect();
        Compared::new("lab", true, &seeds).expect("four seeds")
    }

    #[test]
    fn a_places_own_time_is_no_difference_and_seeds_do_not_blur_what_they_share() {
        let equal = compared([0.0; 4]);
        assert_eq!((equal.raw, equal.net), (10_100.0, 10_000.0));
        assert!(equal.more.abs() < 1e-9 && equal.within < 1e-9);
        assert_eq!(equal.verdict(3.0), Verdict::Equal);
    }

    #[test]
    fn a_difference_counts_once_its_confidence_is_beyond_the_claim() {
        for (rest, verdict) in [
            ([290.0, 300.0, 305.0, 295.0], Verdict::Equal),
            ([-90.0, -50.0, -100.0, -10.0], Verdict::Equal),
            ([-500.0, -505.0, -510.0, -495.0], Verdict::Differs),
            ([400.0, 405.0, 410.0, 395.0], Verdict::Differs),
            ([2_000.0, -1_000.0, 1_500.0, -500.0], Verdict::Open),
            ([-2_000.0, 1_000.0, -1_500.0, 500.0], Verdict::Open),
        ] {
            assert_eq!(compared(rest).verdict(3.0), verdict, "{rest:?}");
        }
        assert!(
            Compared::new("lab", true, &[[1.0, 1.0, 0.0]]).is_none(),
            "one tells nothing"
        );
    }

    #[test]
    fn the_confidence_is_students() {
        // Differences of -1, 0, 1 us from their mean: a standard error of 1/sqrt(3).
        let seeds = [99.0, 100.0, 101.0].map(|raw| [100.0, raw, 0.0]);
        let compared = Compared::new("lab", true, &seeds).expect("three seeds");
        assert!((compared.within - 4.31 / 3.0_f64.sqrt()).abs() < 1e-9);
    }
}
