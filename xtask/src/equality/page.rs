//! The page `docs/measurements/equality.md`, all of it made from `equality.json` beside it.

use super::cases::{self, SECONDS, Setting};
use crate::compare::measured::{FlowFigures, Side};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const PAGE: &str = "docs/measurements/equality.md";
const DATA: &str = "docs/measurements/equality.json";

/// What is claimed, in per mille of the simulator's figure.
const MEAN: u64 = 30;
const P99: u64 = 100;

/// A side whose senders were later than this had other arrivals, and is left out.
const LATE_US: u64 = 100_000;

/// One case in all places.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Programs that wanted to run, on the average of the minute before, by processors.
    pub load: f64,
    /// By the place's name; without those that do not have the discipline.
    pub places: BTreeMap<String, Side>,
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
cargo xtask equality codel cake@10x100
```

It needs root, for the namespaces; without Debian's package `user-mode-linux` the column of Linux is kept as it was. A case takes a minute.

Arrivals are prescribed: Poisson processes of 80 % (`full`, frames of 1,514 bytes), 21 % (`some`) and 2 % (`sparse`, 214 bytes) of the
line, which react to nothing. So what differs is the queue and not the sender. Disciplines are set for the line's bandwidth-delay
product: `interval` is the round-trip time, queues of classes hold one product; `htb` is ours by the name `cbq`. Delays are from the sending to the
receiving program. Behind `run` is no line but a fast pair of interfaces, so the time of a packet's own bits on the line is added to its figures, as the
others have it; Linux's are as measured (its `tbf` waits for that time, its `htb` and `cake` do not). Of ours all percentiles are counted in the same steps, up to 1/16 too long; Linux's are exact.

What is left between ours is mostly one constant: a datagram takes 0.07 to 0.12 ms longer to a program that has to be woken than in the simulator.
That is more than 3 % of a delay below 3 ms. The rest is chaos: where a decision depends on the last one (`codel` at a standing load), an arrival that is late by
0.1 ms leads to another course, and runs of one place differ as much (`codel@10x100`, `full`, three times in the lab: 22.6, 26.5 and 24.7 ms; in Linux
22.1, 22.8 and 25.6 ms). A side whose senders were later than 100 ms is left out: User-Mode Linux
cannot send 40 Mbit/s here.

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
    let judged = || rows.iter().filter(|row| !row.verdicts.is_empty());
    let equal = judged().filter(|row| row.verdicts.iter().all(Verdict::holds));
    let _ = writeln!(
        text,
        "**{} of {} rows are equal** in all of our places by that measure. While this was measured {:.1} programs wanted to run for each processor: \
         a busy machine lets programs wait, which `lab` and `run` show and the simulator does not.",
        equal.count(),
        judged().count(),
        data.values().map(|measured| measured.load).sum::<f64>() / data.len().max(1) as f64,
    );
    for discipline in &cases::DISCIPLINES {
        let _ = writeln!(
            text,
            "\n## {}\n\n| line, product | flow | | sim | lab | run | Linux | ours |\n|---|---|---|---|---|---|---|---|",
            discipline.name
        );
        let own = |row: &&Row| row.discipline == discipline.name;
        rows.iter().filter(own).for_each(|row| text += &row.text);
    }
    let _ = writeln!(
        text,
        "\n## How late the senders were\n\nWith senders late by as much as a discipline's delay, arrivals are others than the simulator's.\n\n\
         | case | lab: 99 % within, at most | run | Linux |\n|---|---|---|---|"
    );
    for (name, measured) in data {
        let late = |place: &str| {
            let side = measured.places.get(place)?;
            Some(format!("{}, {}", ms(side.late_p99_us?), ms(side.late_max_us?)))
        };
        let [lab, run, linux] = ["lab", "run", "Linux"].map(|place| late(place).unwrap_or_default());
        let _ = writeln!(text, "| {name} | {lab} | {run} | {linux} |");
    }
    let _ = writeln!(text, "\nSenders send for {SECONDS} s in each case.");
    text
}

/// A place beside the simulator.
struct Verdict {
    place: &'static str,
    /// In per mille, and in microseconds, of the mean and of the 99th percentile.
    mean: (i64, i64),
    p99: (i64, i64),
}

impl Verdict {
    fn new(place: &'static str, sim: &FlowFigures, other: &FlowFigures) -> Self {
        let beside = |sim: u64, other: u64| {
            let more = other.cast_signed() - sim.cast_signed();
            (more * 1_000 / sim.max(1).cast_signed(), more)
        };
        Self {
            place,
            mean: beside(sim.mean_us, other.mean_us),
            p99: beside(sim.p99_us, other.p99_us),
        }
    }

    fn holds(&self) -> bool {
        self.mean.0.unsigned_abs() <= MEAN && self.p99.0.unsigned_abs() <= P99
    }

    fn said(&self) -> String {
        let mut parts = Vec::new();
        for (name, (part, us), most) in [("mean", self.mean, MEAN), ("99 %", self.p99, P99)] {
            if part.unsigned_abs() > most {
                let (per_cent, ms) = (part as f64 / 10.0, us as f64 / 1e3);
                parts.push(format!("{} {name} {per_cent:+.1} % ({ms:+.2} ms)", self.place));
            }
        }
        parts.join(", ")
    }
}

struct Row {
    discipline: &'static str,
    verdicts: Vec<Verdict>,
    text: String,
}

fn rows(setting: Setting, measured: &Measured) -> Vec<Row> {
    let figures = |place: &str, number: usize| {
        let side = measured.places.get(place)?;
        let in_time = side.late_p99_us.is_none_or(|late| late <= LATE_US);
        let mut flow = side.flows.get(number).filter(|_| in_time)?.clone();
        if place == "run" {
            let own = flow_bits(setting, number) / setting.line.mbit;
            (flow.mean_us, flow.p99_us) = (flow.mean_us + own, flow.p99_us + own);
        }
        Some(flow)
    };
    let row = |(number, flow): (usize, &crate::compare::traffic::Flow)| {
        let sim = figures("sim", number);
        let verdict = |place| Some(Verdict::new(place, sim.as_ref()?, &figures(place, number)?));
        let verdicts: Vec<Verdict> = ["lab", "run"].into_iter().filter_map(verdict).collect();
        let cells = |of: fn(&FlowFigures) -> u64| {
            let cell = |place| figures(place, number).map_or("-".into(), |flow| ms(of(&flow)));
            ["sim", "lab", "run", "Linux"].map(cell).join(" | ")
        };
        let said: Vec<String> = verdicts
            .iter()
            .filter(|one| !one.holds())
            .map(Verdict::said)
            .collect();
        let said = match said.is_empty() {
            true => "equal".to_owned(),
            false => said.join("; "),
        };
        let line = format!(
            "{} Mbit/s, {} ms: {} kB",
            setting.line.mbit,
            setting.line.round_trip_ms,
            setting.product() / 1_000
        );
        Row {
            discipline: setting.discipline.name,
            verdicts,
            text: format!(
                "| {line} | {} | mean | {} | {said} |\n| | | 99 % | {} | |\n",
                flow.name,
                cells(|flow| flow.mean_us),
                cells(|flow| flow.p99_us)
            ),
        }
    };
    setting.flows().iter().enumerate().map(row).collect()
}

/// The bits of a frame of this flow.
fn flow_bits(setting: Setting, number: usize) -> u64 {
    setting.flows()[number].frame * 8
}

fn ms(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_equal_up_to_the_claim_and_says_by_how_much_it_is_not() {
        let flow = |mean_us, p99_us| FlowFigures {
            mean_us,
            p99_us,
            ..FlowFigures::default()
        };
        let sim = flow(10_000, 20_000);
        assert!(Verdict::new("lab", &sim, &flow(10_300, 22_000)).holds());
        assert!(Verdict::new("lab", &sim, &flow(9_700, 18_000)).holds());
        let late = Verdict::new("run", &sim, &flow(10_400, 22_300));
        assert!(!late.holds());
        assert_eq!(
            late.said(),
            "run mean +4.0 % (+0.40 ms), run 99 % +11.5 % (+2.30 ms)"
        );
    }
}
