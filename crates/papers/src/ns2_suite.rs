//! A9 and A10: CBQ's older modes beside ns-2's CBQ, over ns-2's own test suite
//! (`tcl/test/test-suite-cbq.tcl`; Floyd, "Notes on CBQ and guaranteed service", 1995).
//!
//! ```text
//!   s1 ─┐ 10 Mbit/s, 5 ms
//!   s2 ─┼─ r1 ══ 1.5 Mbit/s, CBQ ══ r2
//!   s3 ─┘
//! ```
//!
//! Sources of constant rate, each as fast as the link or faster, pause in turn. What ns-2 says of
//! each second is pinned in `ns2_windows.txt`; nothing of ns-2 is needed. Ours is the discipline on
//! a virtual clock, with the arrivals of ns-2's network. ns-2 gives a class its maxidle; here
//! `maxburst`, `root_maxburst` say the same in packets. The cases with an extra delay (Min6) and
//! those of formal sharing are not here: ours has no such delay, and its formal rule is another.

use super::testbed::interface;
use super::{ChartFile, Experiment, ExperimentOutcome, Progress, Row};
use crate::Error;
use control::policy::InterfacePolicy;
use engine::discipline::{Next, Reason, Sink};
use engine::packet::{ClassId, Packet};
use engine::random::Seed;
use engine::units::{Bytes, Instant};
use plot::{Plot, PlotStyle, Series, picture, rates_over_time};

/// A9: ancestors-only.
pub const A9: Experiment = Experiment {
    id: "A9",
    title: "Ancestors-only link sharing, second by second beside ns-2's CBQ test suite",
    reference: "ns-2.35, test-suite-cbq, ancestor-only; Floyd and Jacobson 1995, section 3",
    run: |_, progress| run(&ANCESTORS_ONLY, progress),
};

/// A10: top-level.
pub const A10: Experiment = Experiment {
    id: "A10",
    title: "Top-level link sharing, second by second beside ns-2's CBQ test suite",
    reference: "ns-2.35, test-suite-cbq, top-level; Floyd and Jacobson 1995, section 3",
    run: |_, progress| run(&TOP_LEVEL, progress),
};

const WINDOWS: &str = include_str!("ns2_windows.txt");
/// The link's bandwidth, in bits per second.
const LINK: u64 = 1_500_000;
/// The sources' links: nanoseconds a byte, and their delay.
const BYTE: u64 = 800;
const DELAY: u64 = 5_000_000;
const SECOND: u64 = 1_000_000_000;
/// The required closeness, in percentage points of the link: three packets of 1,000 bytes a second.
const POINTS: f64 = 1.5;

/// The classes of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tree {
    /// Two agencies, with video and data each.
    Agencies,
    /// Audio, video and data.
    Three { audio_borrows: bool },
    /// Audio of 1 % and data of 99 %.
    Two,
}

/// A case of the suite.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// As in `ns2_windows.txt`.
    name: &'static str,
    sharing: &'static str,
    round_robin: &'static str,
    /// The root's rate in per cent, and its burst.
    root: u32,
    root_maxburst: u32,
    tree: Tree,
}

const fn case(name: &'static str, root: u32, root_maxburst: u32, tree: Tree) -> Case {
    Case {
        name,
        sharing: "ancestors-only",
        round_robin: "packet",
        root,
        root_maxburst,
        tree,
    }
}

const ANCESTORS_ONLY: [Case; 5] = [
    Case {
        round_robin: "weighted",
        ..case("AO", 97, 64, Tree::Agencies)
    },
    case("TwoAO", 98, 141, Tree::Two),
    case("TwoAO2", 98, 59, Tree::Two),
    case("TwoAO3", 99, 64, Tree::Two),
    case("MIN4", 98, 64, Tree::Three { audio_borrows: false }),
];

const TOP_LEVEL: [Case; 3] = [
    Case {
        sharing: "top-level",
        round_robin: "weighted",
        ..case("TL", 97, 30, Tree::Agencies)
    },
    Case {
        sharing: "top-level",
        ..case("TwoTL", 100, 64, Tree::Two)
    },
    Case {
        sharing: "top-level",
        round_robin: "weighted",
        ..case("WRR", 98, 64, Tree::Three { audio_borrows: true })
    },
];

/// A source of constant rate.
#[derive(Clone, Copy, Debug)]
struct ConstantRate {
    class: &'static str,
    /// The host that it shares with others.
    host: usize,
    /// A packet of so many bytes every so many microseconds.
    bytes: u64,
    every_us: u64,
    /// From and to these seconds it is silent.
    pauses: &'static [(u64, u64)],
}

const AGENCIES: [ConstantRate; 4] = [
    source("a-video", 0, 190, 1_000, &[(12, 16), (36, 40)]),
    source("a-data", 1, 1_000, 5_000, &[(20, 24)]),
    source("b-video", 2, 500, 2_000, &[(4, 8), (36, 40)]),
    source("b-data", 2, 1_000, 5_000, &[(28, 32)]),
];
const THREE: [ConstantRate; 3] = [
    source("audio", 0, 190, 1_000, &[(20, 24)]),
    source("video", 1, 500, 2_000, &[(12, 18)]),
    source("data", 2, 1_000, 5_000, &[(4, 8)]),
];
const TWO: [ConstantRate; 2] = [
    source("audio", 0, 190, 1_000, &[]),
    source("data", 1, 500, 2_000, &[]),
];

const fn source(
    class: &'static str,
    host: usize,
    bytes: u64,
    every_us: u64,
    pauses: &'static [(u64, u64)],
) -> ConstantRate {
    ConstantRate {
        class,
        host,
        bytes,
        every_us,
        pauses,
    }
}

/// A class that has a queue: its priority is ns-2's, where 1 goes before 2.
fn leaf(name: &str, parent: &str, rate: u32, priority: u32, more: &str) -> String {
    let parent = match parent {
        "" => String::new(),
        name => format!("parent = \"{name}\"\n"),
    };
    format!(
        "[[interface.c.class]]\nname = \"{name}\"\n{parent}rate = \"{rate} %\"\npriority = {}\n\
         maxburst = {}\nminburst = 1\npacket_size = \"1024 B\"\n{more}\
         discipline = {{ kind = \"fifo\", limit = 20 }}\n",
        8 - priority,
        8 * priority,
    )
}

fn agency(name: &str, rate: u32) -> String {
    format!(
        "[[interface.c.class]]\nname = \"{name}\"\nrate = \"{rate} %\"\nmaxburst = 64\n\
         packet_size = \"1024 B\"\n"
    )
}

impl Tree {
    fn sources(self) -> &'static [ConstantRate] {
        match self {
            Self::Agencies => &AGENCIES,
            Self::Three { .. } => &THREE,
            Self::Two => &TWO,
        }
    }

    fn classes(self) -> String {
        const LAST: &str = "default = true\n";
        match self {
            Self::Agencies => [
                agency("a", 69),
                agency("b", 29),
                leaf("a-video", "a", 30, 1, ""),
                leaf("b-video", "b", 10, 1, ""),
                leaf("a-data", "a", 40, 2, ""),
                leaf("b-data", "b", 20, 2, LAST),
            ]
            .concat(),
            Self::Three { audio_borrows } => [
                leaf("video", "", 32, 1, ""),
                leaf("audio", "", 3, 1, &format!("borrow = {audio_borrows}\n")),
                leaf("data", "", 65, 2, LAST),
            ]
            .concat(),
            Self::Two => [leaf("audio", "", 1, 1, ""), leaf("data", "", 99, 2, LAST)].concat(),
        }
    }
}

impl Case {
    fn policy(&self) -> Result<InterfacePolicy, Error> {
        let Self {
            sharing,
            round_robin,
            root,
            root_maxburst,
            tree,
            ..
        } = self;
        interface(&format!(
            "version = 1\n[interface.c]\nbandwidth = \"{LINK} bit/s\"\noverhead = \"0 B\"\n\
             max_frame = \"1024 B\"\ndiscipline = {{ kind = \"cbq\", sharing = \"{sharing}\", \
             round_robin = \"{round_robin}\", root_rate = \"{root} %\", \
             root_maxburst = {root_maxburst}, overbook = true }}\n{}",
            tree.classes(),
        ))
    }

    /// What ns-2 says: of each second, each source's part of the link in per cent.
    fn windows(&self) -> Vec<Vec<f64>> {
        let mut lines = WINDOWS.lines();
        let _ = lines.find(|line| line.strip_prefix("case ") == Some(self.name));
        let parts = |line: &str| -> Vec<f64> {
            let numbers = line.split(' ').filter_map(|number| number.parse().ok());
            numbers.skip(1).collect()
        };
        lines
            .take_while(|line| !line.starts_with("case "))
            .map(parts)
            .collect()
    }

    /// The same of ours.
    fn measured(&self, seconds: u64) -> Result<Vec<Vec<f64>>, Error> {
        let policy = self.policy()?;
        let number = |source: &ConstantRate| policy.plan.class(source.class);
        let classes: Option<Vec<ClassId>> = self.tree.sources().iter().map(number).collect();
        let classes = classes.ok_or_else(|| Error::new("a source without a class"))?;
        Ok(serve(
            &policy,
            &classes,
            &arrivals(self.tree.sources(), seconds),
            seconds,
        ))
    }
}

/// A packet that reaches the router.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: u64,
    source: usize,
    bytes: u64,
}

/// When packets reach the router, over the links of their hosts.
fn arrivals(sources: &[ConstantRate], seconds: u64) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let mut at = 0;
        while at < seconds * SECOND {
            let second = at / SECOND;
            match source
                .pauses
                .iter()
                .find(|pause| (pause.0..pause.1).contains(&second))
            {
                Some(pause) => at = pause.1 * SECOND,
                None => {
                    arrivals.push(Arrival {
                        at,
                        source: number,
                        bytes: source.bytes,
                    });
                    at += source.every_us * 1_000;
                }
            }
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    let mut free = [0; 3];
    for arrival in &mut arrivals {
        let source = &sources[arrival.source];
        let sent = arrival.at.max(free[source.host]) + source.bytes * BYTE;
        free[source.host] = sent;
        arrival.at = sent + DELAY;
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// Drops are not looked at: every source sends too much.
struct Lost;

impl Sink for Lost {
    fn drop(&mut self, _packet: Packet, _why: Reason) {}
}

/// Of each second, what each source had of the link, in per cent.
fn serve(policy: &InterfacePolicy, classes: &[ClassId], arrivals: &[Arrival], seconds: u64) -> Vec<Vec<f64>> {
    let mut queue = policy.plan.build(Seed(1));
    let sources = |class: ClassId| classes.iter().position(|&one| one == class);
    let mut windows = vec![vec![0.0; classes.len()]; seconds as usize];
    let (mut next, mut due) = (arrivals.iter().peekable(), Instant::NEVER);
    loop {
        let arrival = next.peek().map_or(u64::MAX, |arrival| arrival.at);
        let at = arrival.min(due.nanos());
        if at >= seconds * SECOND {
            return windows;
        }
        let now = Instant::from_nanos(at);
        if at == arrival
            && let Some(arrival) = next.next()
        {
            let packet = Packet::new(Bytes::new(arrival.bytes), now, classes[arrival.source]);
            let _ = queue.enqueue(now, packet, &mut Lost);
        }
        due = loop {
            match queue.dequeue(now, &mut Lost) {
                Next::Ready(packet) => {
                    let Some(source) = sources(packet.class) else {
                        continue;
                    };
                    let part = packet.len.get() as f64 * 8.0 * 100.0 / LINK as f64;
                    windows[(at / SECOND) as usize][source] += part;
                }
                Next::Wait(at) => break at,
                Next::Empty => break Instant::NEVER,
            }
        };
    }
}

/// A case, with ns-2's windows and ours.
struct Compared {
    case: &'static Case,
    theirs: Vec<Vec<f64>>,
    ours: Vec<Vec<f64>>,
}

impl Compared {
    /// The greatest difference of a source in a second, with the second and the source.
    fn greatest(&self) -> (f64, usize, usize) {
        let mut greatest = (0.0_f64, 0, 0);
        for (second, (ours, theirs)) in self.ours.iter().zip(&self.theirs).enumerate() {
            for (source, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                if (ours - theirs).abs() > greatest.0.abs() {
                    greatest = (ours - theirs, second, source);
                }
            }
        }
        greatest
    }

    /// The part of the link that a source has over all windows.
    fn mean(windows: &[Vec<f64>], source: usize) -> f64 {
        let sum: f64 = windows.iter().map(|window| window[source]).sum();
        sum / windows.len().max(1) as f64
    }

    fn rows(&self) -> Vec<Row> {
        let (off, second, source) = self.greatest();
        let sources = self.case.tree.sources();
        let seconds = self.theirs.len();
        let complete = seconds > 0 && seconds == self.ours.len();
        let note = "Required: every source in every second within 1.5 points of the link, three packets of \
            1,000 bytes; the column `paper` is ns-2.35.";
        let mut rows = vec![Row::rounded(
            format!(
                "{}: the greatest difference of a source in one of {seconds} seconds ({} in second {})",
                self.case.name,
                sources[source].class,
                second + 1
            ),
            0.0,
            off + 0.0,
            "points",
            complete && off.abs() <= POINTS,
            note,
        )];
        rows.extend(sources.iter().enumerate().map(|(number, source)| {
            let (ours, theirs) = (Self::mean(&self.ours, number), Self::mean(&self.theirs, number));
            Row::rounded(
                format!("{}: {}, mean of all seconds", self.case.name, source.class),
                (theirs * 100.0).round() / 100.0,
                ours,
                "% of the link",
                complete && (ours - theirs).abs() <= 0.5,
                "Required: within half a point of ns-2's.",
            )
        }));
        rows
    }

    fn plot(&self) -> Plot {
        let mut series = Vec::new();
        for (number, source) in self.case.tree.sources().iter().enumerate() {
            let points = |windows: &[Vec<f64>]| -> Vec<(f64, f64)> {
                let rate = |(second, window): (usize, &Vec<f64>)| {
                    (second as f64 + 0.5, window[number] / 100.0 * LINK as f64)
                };
                windows.iter().enumerate().map(rate).collect()
            };
            series.push(Series::new(source.class, points(&self.ours)));
            let name = format!("{}, ns-2", source.class);
            series.push(Series::dashed(&name, points(&self.theirs)));
        }
        let title = format!("{}, {}", self.case.name, self.case.sharing);
        rates_over_time(&title, PlotStyle::Lines, series)
    }
}

fn run(cases: &'static [Case], progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let name = |case: &Case| case.name.to_string();
    let compared = super::points::all(cases, progress, name, |case: &Case| {
        let theirs = case.windows();
        Ok((case.measured(theirs.len() as u64)?, theirs))
    })?;
    let compared: Vec<Compared> = cases
        .iter()
        .zip(compared)
        .map(|(case, (ours, theirs))| Compared { case, theirs, ours })
        .collect();
    let plots: Vec<Plot> = compared.iter().map(Compared::plot).collect();
    Ok(ExperimentOutcome {
        rows: compared.iter().flat_map(Compared::rows).collect(),
        charts: vec![ChartFile {
            name: "windows".into(),
            svg: picture(
                "Each source's rate in windows of a second, ours and ns-2's",
                &plots,
            ),
        }],
        remarks: vec![REMARK.into()],
    })
}

const REMARK: &str = "ns-2's windows are pinned in crates/papers/src/ns2_windows.txt, so ns-2 is not needed. \
    The link has 1.5 Mbit/s; the root class has 97 to 100 % of it, and an estimator; every queue holds 20 \
    packets. Ours is `cbq` with `root_rate`, `root_maxburst` and `overbook`, and priorities from 7 down where \
    ns-2's rise from 1. Without the extra delay of ns-2's case Min6, and without its formal sharing.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_shares_otherwise_is_detected() {
        let case = &TOP_LEVEL[0];
        let theirs = case.windows();
        assert_eq!((theirs.len(), theirs[0].len()), (40, 4));
        let without = Case {
            sharing: "ancestors-only",
            ..*case
        };
        let ours = without.measured(40).expect("a run");
        let compared = Compared { case, theirs, ours };
        assert!(compared.greatest().0.abs() > POINTS, "{:?}", compared.greatest());
        assert!(!compared.rows()[0].is_shown());
    }
}
