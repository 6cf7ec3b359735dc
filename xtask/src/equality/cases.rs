//! The cases: six disciplines on four lines, each a bandwidth with a round-trip time.

use crate::compare::cases::Case;
use crate::compare::traffic::{Flow, Source};
use std::time::Duration;

/// How long senders send.
pub const SECONDS: u64 = 10;

/// A line whose bandwidth-delay product the disciplines are set for.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub mbit: u64,
    pub round_trip_ms: u64,
}

/// Four products, of 31, 125, 250 and 1,000 kB.
pub const LINES: [Line; 4] = [
    Line {
        mbit: 5,
        round_trip_ms: 50,
    },
    Line {
        mbit: 10,
        round_trip_ms: 100,
    },
    Line {
        mbit: 20,
        round_trip_ms: 100,
    },
    Line {
        mbit: 40,
        round_trip_ms: 200,
    },
];

/// A discipline of ours and the kernel's. In texts `{rate}`, `{interval}`, `{target}` and
/// `{product}` stand for what follows from the line, and `{at}` for the section of our policy.
#[derive(Debug)]
pub struct Discipline {
    pub name: &'static str,
    pub ours: &'static str,
    /// Whether flows have classes.
    classes: bool,
    /// Modules, the lines of `tc`, and the qdisc with the classes.
    kernel: Option<(&'static [&'static str], &'static str, &'static str)>,
}

pub const DISCIPLINES: [Discipline; 6] = [
    Discipline {
        name: "codel",
        ours: "discipline = { kind = \"codel\", target = \"{target} ms\", interval = \"{interval} ms\", limit = 1000 }",
        classes: false,
        kernel: Some((
            &["sch_tbf", "sch_codel"],
            "\
qdisc add root handle 1: tbf rate {rate}mbit burst 1600 limit 1000000
qdisc add parent 1:1 handle 10: codel limit 1000 target {target}ms interval {interval}ms",
            "10:",
        )),
    },
    Discipline {
        name: "fq_codel",
        ours: "discipline = { kind = \"fq_codel\", flows = 1024, quantum = \"1514 B\", target = \"{target} ms\", interval = \"{interval} ms\", limit = 10240 }",
        classes: false,
        kernel: Some((
            &["sch_tbf", "sch_fq_codel"],
            "\
qdisc add root handle 1: tbf rate {rate}mbit burst 1600 limit 1000000
qdisc add parent 1:1 handle 10: fq_codel limit 10240 flows 1024 quantum 1514 target {target}ms interval {interval}ms",
            "10:",
        )),
    },
    Discipline {
        name: "pie",
        ours: "discipline = { kind = \"pie\", target = \"15 ms\", update = \"30 ms\", limit = 1000 }",
        classes: false,
        kernel: Some((
            &["sch_tbf", "sch_pie"],
            "\
qdisc add root handle 1: tbf rate {rate}mbit burst 1600 limit 1000000
qdisc add parent 1:1 handle 10: pie limit 1000 target 15ms tupdate 20ms alpha 4 beta 20",
            "10:",
        )),
    },
    Discipline {
        name: "dualpi2",
        ours: "discipline = \"dualpi2\"",
        classes: false,
        kernel: None,
    },
    Discipline {
        name: "htb",
        ours: "\
discipline = { kind = \"cbq\" }
[[{at}.class]]
name = \"first\"
rate = \"60 %\"
maxburst = 2
default = true
discipline = { kind = \"fifo\", limit = 10000, limit_bytes = \"{product} B\" }
[[{at}.class]]
name = \"second\"
rate = \"40 %\"
maxburst = 2
discipline = { kind = \"fifo\", limit = 10000, limit_bytes = \"{product} B\" }",
        classes: true,
        kernel: Some((
            &["sch_htb", "cls_u32"],
            "\
qdisc add root handle 1: htb
class add parent 1: classid 1:1 htb rate {rate}mbit burst 3028 cburst 3028 quantum 1514
class add parent 1:1 classid 1:10 htb rate {first}kbit ceil {rate}mbit burst 3028 cburst 3028 quantum 4542
class add parent 1:1 classid 1:20 htb rate {second}kbit ceil {rate}mbit burst 3028 cburst 3028 quantum 3028
qdisc add parent 1:10 handle 110: bfifo limit {product}
qdisc add parent 1:20 handle 120: bfifo limit {product}",
            "1:",
        )),
    },
    Discipline {
        name: "cake",
        ours: "discipline = { kind = \"cake\", tins = \"besteffort\", limit_bytes = \"1 MB\" }",
        classes: false,
        kernel: Some((
            &["sch_cake"],
            "qdisc add root handle 1: cake bandwidth {rate}mbit besteffort triple-isolate memlimit 1500000",
            "1:",
        )),
    },
];

/// A discipline on a line, under one of its lists of arrivals.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub discipline: &'static Discipline,
    pub line: Line,
    /// Which arrivals: the first, 0, are also the kernel's.
    pub seed: usize,
}

/// All of them, in the order of the page.
pub fn all() -> impl Iterator<Item = Setting> {
    let lines = |discipline| {
        LINES.map(|line| Setting {
            discipline,
            line,
            seed: 0,
        })
    };
    DISCIPLINES.iter().flat_map(lines)
}

/// The one of this name.
pub fn find(name: &str) -> Option<Setting> {
    all().find(|setting| setting.name() == name)
}

impl Setting {
    pub fn name(&self) -> String {
        let Line { mbit, round_trip_ms } = self.line;
        format!("{}@{mbit}x{round_trip_ms}", self.discipline.name)
    }

    /// The same under other arrivals.
    pub fn seeded(self, seed: usize) -> Self {
        Self { seed, ..self }
    }

    /// How many seeds are measured beside each other: the processors carry them easily.
    pub fn at_once(self) -> usize {
        if self.line.mbit <= 20 { 4 } else { 2 }
    }

    /// When the flow of this number sends.
    pub fn times(&self, number: usize, flow: &Flow) -> Vec<Duration> {
        flow.times(self.stream(number), SECONDS)
    }

    /// The random numbers of a flow.
    fn stream(&self, number: usize) -> usize {
        number + self.seed * self.flows().len()
    }

    /// Bytes in flight on a full line.
    pub fn product(&self) -> u64 {
        self.line.mbit * self.line.round_trip_ms * 125
    }

    fn filled(&self, text: &str, at: &str) -> String {
        let Line { mbit, round_trip_ms } = self.line;
        // Two full packets at 5 Mbit/s.
        let target = (round_trip_ms / 20).max(5);
        [
            ("{rate}", mbit.to_string()),
            ("{first}", (mbit * 600).to_string()),
            ("{second}", (mbit * 400).to_string()),
            ("{target}", target.to_string()),
            ("{interval}", round_trip_ms.to_string()),
            ("{product}", self.product().to_string()),
            ("{at}", at.to_owned()),
        ]
        .iter()
        .fold(text.to_owned(), |text, (key, value)| text.replace(key, value))
    }

    /// Our policy for the interface or the link end of this section.
    pub fn policy(&self, at: &str) -> String {
        let discipline = self.filled(self.discipline.ours, at);
        let mut text = format!(
            "[{at}]\nbandwidth = \"{} Mbit/s\"\n{discipline}\n",
            self.line.mbit
        );
        for (number, flow) in self.flows().iter().enumerate() {
            if let Some((class, _)) = flow.class {
                let port = crate::compare::traffic::PORT + number as u16;
                text += &format!("[[{at}.filter]]\nclass = \"{class}\"\ndestination_port = {port}\n");
            }
        }
        text
    }

    /// Slightly more than the line carries, by processes that react to nothing.
    pub fn flows(&self) -> Vec<Flow> {
        let part = |name, percent: u64, frame| {
            let kbit = self.line.mbit * 10 * percent;
            Flow::new(name, Source::Poisson { kbit }, frame)
        };
        let flows = [
            part("full", 80, 1_514),
            part("some", 21, 1_014),
            part("sparse", 2, 214),
        ];
        if !self.discipline.classes {
            return flows.to_vec();
        }
        let [full, some, sparse] = flows;
        vec![
            full.in_class("first", "1:10"),
            some.in_class("second", "1:20"),
            sparse.in_class("second", "1:20"),
        ]
    }

    /// The same for the kernel, if it has the discipline. It lives as long as the program.
    pub fn kernel(&self) -> Option<&'static Case> {
        let (modules, tc, filter_at) = self.discipline.kernel?;
        Some(Box::leak(Box::new(Case {
            name: self.name().leak(),
            modules,
            tc: self.filled(tc, "").leak(),
            filter_at,
            policy: "",
            round_trip_ms: 0,
            seconds: SECONDS,
            flows: self.flows().leak(),
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_found_by_its_name_and_every_placeholder_is_filled() {
        assert_eq!(all().count(), 24);
        for setting in all() {
            assert_eq!(
                find(&setting.name()).map(|found| found.name()),
                Some(setting.name())
            );
            let tc = setting.kernel().map_or("", |case| case.tc);
            for text in [setting.policy("interface.r1").as_str(), tc] {
                assert!(!text.replace(" { ", "").replace(" }", "").contains('{'), "{text}");
            }
        }
    }

    #[test]
    fn each_seed_has_arrivals_of_its_own() {
        let setting = all().next().expect("a case");
        let flows = setting.flows();
        let mut all: Vec<_> = (0..4)
            .flat_map(|seed| (0..flows.len()).map(move |number| (seed, number)))
            .map(|(seed, number)| setting.seeded(seed).times(number, &flows[0]))
            .collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 4 * flows.len());
        assert_eq!(
            setting.times(1, &flows[1]),
            flows[1].times(1, SECONDS),
            "the kernel's"
        );
    }

    #[test]
    fn more_is_offered_than_the_line_carries() {
        for setting in all().flat_map(|setting| [setting, setting.seeded(7)]) {
            let bits = |(number, flow): (usize, &Flow)| {
                setting.times(number, flow).len() as u64 * flow.frame * 8 / SECONDS
            };
            let offered: u64 = setting.flows().iter().enumerate().map(bits).sum();
            assert!(
                offered > setting.line.mbit * 1_000_000,
                "{}: {offered}",
                setting.name()
            );
        }
    }
}
