//! The demo's result: configured and measured rate of each class, with the policy and with plain
//! FIFO.
//!
//! A class's rate is the bytes of its frames that left in its steady windows over their length:
//! between the joins of others, each from [`SETTLE`] after the join that begins it. Frames count as
//! the policy counts them, Ethernet header included. The goodput is shown beside it.

use super::run::RunTraces;
use engine::units::{Bandwidth, Duration, Instant};
use plot::PlotStyle;
use plot::chart::{Panel, picture};
use plot::html::{Cell, Page};
use plot::trace::{Line, Trace};
use serde_json::{Value, json};
use std::io::{self, Write};

/// The time in which a new flow reaches its rate and the others give way.
pub const SETTLE: Duration = Duration::from_secs(1);
/// The tolerance of a rate around the configured one, in per cent.
pub const TOLERANCE: f64 = 3.0;

/// A class's rates in one run.
#[derive(Clone, Debug)]
struct Share {
    name: String,
    target: Option<Bandwidth>,
    frames: Bandwidth,
    payload: Bandwidth,
}

impl Share {
    /// The deviation from the configured rate, in per cent; `None` without one.
    fn off(&self) -> Option<f64> {
        let target = self.target?.bits() as f64;
        Some((self.frames.bits() as f64 / target - 1.0) * 100.0)
    }

    fn meets_target(&self) -> bool {
        self.off().is_none_or(|off| off.abs() <= TOLERANCE)
    }
}

/// Both runs and their comparison.
#[derive(Debug)]
pub struct Comparison {
    policy: RunTraces,
    plain: RunTraces,
    by_policy: Vec<Share>,
    by_plain: Vec<Share>,
}

fn shares(outcome: &RunTraces) -> Vec<Share> {
    let last = outcome
        .frames
        .lines
        .iter()
        .map(|line| line.joined)
        .max()
        .unwrap_or(Instant::START);
    let pairs = outcome.frames.lines.iter().zip(&outcome.payload.lines);
    let measured = |trace: &Trace, line: &Line| {
        // The best-effort rate is meaningful once every class has joined.
        let from = if line.target.is_some() { line.joined } else { last };
        trace.measured(line, &trace.steady(from, SETTLE))
    };
    let share = |(frames, payload): (&Line, &Line)| Share {
        name: frames.name.clone(),
        target: frames.target,
        frames: measured(&outcome.frames, frames),
        payload: measured(&outcome.payload, payload),
    };
    pairs.map(share).collect()
}

impl Comparison {
    /// Compares the two runs, which have the same classes.
    pub fn of(policy: RunTraces, plain: RunTraces) -> Self {
        Self {
            by_policy: shares(&policy),
            by_plain: shares(&plain),
            policy,
            plain,
        }
    }

    fn guaranteed(shares: &[Share]) -> impl Iterator<Item = &Share> {
        shares.iter().filter(|share| share.target.is_some())
    }

    fn count(shares: &[Share]) -> (usize, usize) {
        let good = Self::guaranteed(shares)
            .filter(|share| share.meets_target())
            .count();
        (good, Self::guaranteed(shares).count())
    }

    /// Returns whether every configured rate was met with the policy, and not all with plain FIFO.
    pub fn is_as_expected(&self) -> bool {
        let ((good, all), (plain, _)) = (Self::count(&self.by_policy), Self::count(&self.by_plain));
        good == all && plain < all
    }

    /// The verdict in a sentence.
    fn sentence(&self) -> String {
        let ((good, all), (plain, _)) = (Self::count(&self.by_policy), Self::count(&self.by_plain));
        format!(
            "With the policy {good} of {all} classes got their configured rate, within {TOLERANCE} %; \
             with plain FIFO {plain} of {all}."
        )
    }

    fn table(&self) -> Vec<Vec<Cell>> {
        let mbit = |rate: Bandwidth| format!("{:.2}", rate.bits() as f64 / 1e6);
        let off = |share: &Share| {
            // Adding zero turns -0.0 into 0.0.
            let tenths = |off: f64| (off * 10.0).round() / 10.0 + 0.0;
            let text = share
                .off()
                .map_or("".into(), |off| format!("{:+.1} %", tenths(off)));
            if share.target.is_some() {
                Cell::judged(text, share.meets_target())
            } else {
                Cell::new(text)
            }
        };
        let row = |(ours, plain): (&Share, &Share)| {
            vec![
                Cell::new(&ours.name),
                Cell::new(ours.target.map_or("the rest".into(), mbit)),
                Cell::new(mbit(ours.frames)),
                off(ours),
                Cell::new(mbit(ours.payload)),
                Cell::new(mbit(plain.frames)),
                off(plain),
            ]
        };
        self.by_policy.iter().zip(&self.by_plain).map(row).collect()
    }

    /// Prints the table and the verdict for a terminal.
    ///
    /// # Errors
    ///
    /// Returns an error if writing to `out` fails.
    pub fn print(&self, out: &mut dyn Write, colour: bool) -> io::Result<()> {
        let head = HEAD.map(Cell::new).to_vec();
        let rows: Vec<Vec<Cell>> = std::iter::once(head).chain(self.table()).collect();
        let widths: Vec<usize> = (0..HEAD.len())
            .map(|column| {
                rows.iter()
                    .map(|row| row[column].text.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for row in &rows {
            let cells = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| match column {
                    0 => format!("{:<width$}", cell.text),
                    _ => paint(&format!("{:>width$}", cell.text), cell, colour),
                });
            writeln!(out, "  {}", cells.collect::<Vec<_>>().join("   "))?;
        }
        writeln!(out, "\n{}", self.sentence().replace("; ", ";\n"))
    }

    /// The result as JSON.
    pub fn json(&self) -> Value {
        let share = |share: &Share| {
            json!({
                "name": share.name,
                "target_bps": share.target.map(Bandwidth::bits),
                "got_bps": share.frames.bits(),
                "payload_bps": share.payload.bits(),
            })
        };
        let list = |shares: &[Share]| Self::guaranteed(shares).map(share).collect::<Vec<_>>();
        let rest = |shares: &[Share]| shares.iter().find(|s| s.target.is_none()).map(share);
        json!({
            "classes": list(&self.by_policy),
            "fifo": list(&self.by_plain),
            "background": rest(&self.by_policy),
            "fifo_background": rest(&self.by_plain),
            "link_bps": self.policy.frames.link.bits(),
            "basis": "frame",
            "tolerance_percent": TOLERANCE,
            "settle_seconds": SETTLE.as_secs_f64(),
            "as_expected": self.is_as_expected(),
        })
    }

    fn panels(&self, style: PlotStyle) -> [Panel<'_>; 2] {
        let panel = |letter: &str, outcome| {
            let RunTraces { frames, .. }: &RunTraces = outcome;
            Panel {
                caption: format!("({letter}) {}", frames.title),
                trace: frames,
                style,
                settle: SETTLE,
            }
        };
        [panel("a", &self.policy), panel("b", &self.plain)]
    }

    /// The chart: both runs as lines over time.
    pub fn svg(&self) -> String {
        picture(TITLE, &self.panels(PlotStyle::Lines))
    }

    /// The page, with the policy and the facts of the machine.
    pub fn html(&self, policy: &str, facts: &[(&str, String)]) -> String {
        let mut page = Page::new(TITLE);
        page.verdict(self.is_as_expected(), &self.sentence());
        page.table(&HEAD, &self.table());
        page.paragraph(
            "Rates in Mbit/s over each class's steady windows: between the joins of others, from 1 s after \
             the join that begins the window. Frames count as the policy charges them, Ethernet header \
             included; payload is what the receiving program read. The background has no configured rate: \
             it takes the rest, and is measured from the last join on.",
        );
        page.picture(
            &self.svg(),
            "Bandwidth of each class, sampled every 250 ms. Dashed: the configured rate. Triangles: a \
             connection joins. Beside each name: the rate in the last window, and the configured rate. The \
             paper's Fig. 8 is (a).",
        );
        page.picture(
            &picture(TITLE, &self.panels(PlotStyle::Bands)),
            "The same, stacked: together they fill the link.",
        );
        page.heading("Setup");
        let dropped = |outcome: &RunTraces| format!("{} packets", outcome.dropped);
        let mut facts = facts.to_vec();
        facts.push(("dropped with the policy", dropped(&self.policy)));
        facts.push(("dropped with plain FIFO", dropped(&self.plain)));
        page.facts(&facts);
        page.heading("The policy");
        page.listing(policy);
        page.finish()
    }
}

const TITLE: &str = "Five TCP connections share a link";
const HEAD: [&str; 7] = [
    "class",
    "configured",
    "measured",
    "deviation",
    "payload",
    "plain FIFO",
    "deviation",
];

fn paint(text: &str, cell: &Cell, colour: bool) -> String {
    use plot::html::Tone;
    match (cell.tone, colour) {
        (Tone::Good, true) => format!("\x1b[32m{text}\x1b[0m"),
        (Tone::Bad, true) => format!("\x1b[31m{text}\x1b[0m"),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Bytes;

    /// A run of 10 s in which `a`, configured at 80 kbit/s, sends this many bytes per 100 ms.
    fn run(bytes: u64) -> RunTraces {
        let mut frames = Trace::new("a course", Bandwidth::mbit(1));
        frames.line("rest", None, Instant::START);
        frames.line(
            "a",
            Some(Bandwidth::kbit(80)),
            Instant::START + Duration::from_secs(2),
        );
        for step in 0..=100 {
            let at = Instant::START + Duration::from_millis(step * 100);
            frames.read(
                at,
                &[
                    Bytes::new(step * 100),
                    Bytes::new(step.saturating_sub(20) * bytes),
                ],
            );
        }
        RunTraces {
            payload: frames.clone(),
            frames,
            dropped: 7,
        }
    }

    #[test]
    fn it_is_as_expected_only_if_the_policy_holds_and_plain_fifo_does_not() {
        assert!(Comparison::of(run(1000), run(1500)).is_as_expected());
        assert!(Comparison::of(run(1029), run(900)).is_as_expected());
        assert!(!Comparison::of(run(1031), run(1500)).is_as_expected());
        assert!(!Comparison::of(run(969), run(1500)).is_as_expected());
        assert!(!Comparison::of(run(1000), run(1000)).is_as_expected());
    }

    #[test]
    fn json_has_each_guaranteed_class_with_its_target_and_its_measured_rate() {
        let json = Comparison::of(run(1000), run(1500)).json();
        assert_eq!(json["classes"].as_array().map(Vec::len), Some(1));
        assert_eq!(json["classes"][0]["target_bps"], 80_000);
        assert_eq!(json["classes"][0]["got_bps"], 80_000);
        assert_eq!(json["fifo"][0]["got_bps"], 120_000);
        assert_eq!(json["background"]["got_bps"], 8_000);
    }

    #[test]
    fn the_table_is_aligned_and_shows_each_deviation() {
        let mut out = Vec::new();
        Comparison::of(run(1000), run(1500))
            .print(&mut out, false)
            .expect("written");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("+50.0 %") && text.contains("+0.0 %"), "{text}");
        let widths: Vec<usize> = text.lines().take(3).map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|w| w[0] == w[1]), "{text}");
    }
}
