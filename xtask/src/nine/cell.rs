//! A cell of the matrix: a line and a sender, under each setting, beside the same without nine.

use super::play::{Beside, Line, Low, Play, Received, Way};
use std::fmt;

/// The other transfer begins and ends at these seconds; the run ends at the last.
const BEGINS: f64 = 10.0;
const ENDS: f64 = 18.0;
const OVER: f64 = 26.0;
/// A lone transfer is judged from this second on: slow starts over long paths are over.
const SETTLED: f64 = 4.0;

/// A setting of nine: its name in the tables, what is stated as part of the line's rate, and whose
/// the other transfer is.
pub type Setting = (&'static str, Option<f64>, Beside);

/// The settings of downloads.
const OF_DOWNLOADS: [Setting; 5] = [
    ("auto", None, Beside::SameHost),
    ("stated right", Some(1.0), Beside::SameHost),
    ("stated twice", Some(2.0), Beside::SameHost),
    ("stated half", Some(0.5), Beside::SameHost),
    ("auto, other host", None, Beside::OtherHost),
];

/// The settings of uploads.
const OF_UPLOADS: [Setting; 2] = [
    ("auto", None, Beside::SameHost),
    ("auto, other host", None, Beside::OtherHost),
];

/// The settings of what goes this way, in the sequence of the tables.
pub fn settings(way: Way) -> &'static [Setting] {
    match way {
        Way::Download => &OF_DOWNLOADS,
        Way::Upload => &OF_UPLOADS,
    }
}

/// A line and a sender.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cell {
    line: Line,
    /// The buffer in bandwidth-delay products.
    buffer: &'static str,
}

/// What the two transfers have, as parts of what they have without nine.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Figures {
    /// The lower one alone.
    pub lone: f64,
    /// The other one, once it has had its time to begin; beside what it has alone.
    pub newcomer: f64,
    /// Both together.
    pub total: f64,
    /// Seconds until the other one has 80 % of what it has alone at that time.
    pub t80: Option<f64>,
    /// Seconds until the lower one has 80 % again.
    pub back: Option<f64>,
    /// The lower one's sender would not send at 80 % when the goal's time comes, whatever its
    /// window: it has not raised its own again since losses, or since it was limited.
    pub sender_is_slow: bool,
}

/// A cell's figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Both without nine.
    pub plain: Figures,
    /// With nine, in the sequence of [`settings`], and what misses its goal.
    pub nine: Vec<(Figures, Vec<&'static str>)>,
}

/// All cells: downloads, then uploads.
pub fn all() -> impl Iterator<Item = Cell> {
    [Way::Download, Way::Upload].into_iter().flat_map(of_way)
}

fn of_way(way: Way) -> impl Iterator<Item = Cell> {
    let rates = [10.0, 100.0].into_iter();
    rates.flat_map(move |mbit| {
        [5.0, 20.0, 50.0, 100.0]
            .into_iter()
            .flat_map(move |rtt_ms| of_path(way, mbit, rtt_ms))
    })
}

fn of_path(way: Way, mbit: f64, rtt_ms: f64) -> impl Iterator<Item = Cell> {
    let buffers = [("1/4", 0.25), ("1", 1.0), ("8", 8.0)].into_iter();
    buffers.flat_map(move |(buffer, products)| {
        ["cubic", "reno", "bbr"].into_iter().map(move |control| {
            let bytes = (mbit * rtt_ms * 125.0 * products) as u64;
            Cell {
                line: Line {
                    way,
                    mbit,
                    rtt_ms,
                    buffer: bytes.max(LEAST_BUFFER),
                    control,
                    falls: None,
                },
                buffer,
            }
        })
    })
}

/// The part of a full frame that is data.
const PAYLOAD: f64 = 1_448.0 / 1_514.0;
/// No buffer holds less than four packets.
const LEAST_BUFFER: u64 = 6_056;

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line {
            way,
            mbit,
            rtt_ms,
            control,
            ..
        } = self.line;
        let way = match way {
            Way::Download => "",
            Way::Upload => "upload ",
        };
        write!(f, "{way}{mbit}Mbit/s {rtt_ms}ms {} {control}", self.buffer)
    }
}

/// What one run showed.
struct Seen {
    low: Received,
    other: Received,
}

impl Cell {
    /// Which way its data go.
    pub fn way(&self) -> Way {
        self.line.way
    }

    /// The time within which a newcomer has the line, and the lower one has it back, in seconds.
    fn within(&self) -> f64 {
        (self.line.rtt_ms / 100.0).max(1.0)
    }

    fn play(&self, low: Low, beside: Beside) -> Result<Seen, String> {
        let play = Play {
            line: self.line,
            low,
            beside,
            from: BEGINS,
            to: ENDS,
            end: OVER,
        };
        let [low, other] = play.run()?;
        Ok(Seen { low, other })
    }

    /// Runs it under each setting.
    pub fn measure(&self) -> Result<Row, String> {
        let alone = self.play(Low::Absent, Beside::SameHost)?.other;
        let without = self.play(Low::Plain, Beside::SameHost)?;
        let figures = |seen: &Seen| self.figures(seen, &without, &alone);
        let mut nine: Vec<(Figures, Vec<&'static str>)> = Vec::new();
        for &(_, stated, beside) in settings(self.way()) {
            let stated = stated.map(|ratio| ratio * self.line.mbit);
            let found = figures(&self.play(Low::Nine(stated), beside)?);
            let auto = nine.first().map_or(found, |(auto, _)| *auto);
            let wrong = stated.is_some_and(|stated| stated != self.line.mbit);
            let goals = self.goals(beside, wrong.then_some(auto));
            nine.push((found, goals.missed(&found)));
        }
        let plain = figures(&without);
        Ok(Row { plain, nine })
    }

    fn figures(&self, seen: &Seen, without: &Seen, alone: &Received) -> Figures {
        let Seen { low, other } = seen;
        // What arrived beyond a hole before counts when the hole is filled: a reference is no more
        // than what the line carries.
        let most = self.line.mbit * PAYLOAD;
        let lone = without.low.rate(SETTLED, BEGINS).min(most);
        let both = |seen: &Seen| seen.low.rate(BEGINS, ENDS) + seen.other.rate(BEGINS, ENDS);
        let settled = BEGINS + self.within();
        Figures {
            lone: low.rate(SETTLED, BEGINS) / lone,
            newcomer: other.rate(settled, ENDS) / alone.rate(settled, ENDS),
            total: both(seen) / both(without).min(most),
            t80: other.has(BEGINS, ENDS, |from, to| 0.8 * alone.rate(from, to)),
            back: low.has(ENDS, OVER, |_, _| 0.8 * lone),
            sender_is_slow: self.is_slow(low),
        }
    }

    /// Whether this sender's own window carries less than 80 % of the line's rate when the lower
    /// transfer should have it back. BBR's is two bandwidth-delay products of the rate that it
    /// knows.
    fn is_slow(&self, low: &Received) -> bool {
        let Line {
            mbit,
            rtt_ms,
            control,
            ..
        } = self.line;
        let products = if control == "bbr" { 2.0 } else { 1.0 };
        let cwnd = low.cwnd(ENDS + self.within());
        cwnd.is_some_and(|bytes| (bytes as f64) < 0.8 * products * mbit * rtt_ms * 125.0)
    }

    /// What of these figures misses the goals of `auto`.
    #[cfg(test)]
    pub fn missed(&self, found: &Figures) -> Vec<&'static str> {
        self.goals(Beside::SameHost, None).missed(found)
    }

    /// The goals; beside a rate that is stated wrong, no more than what the estimate reached.
    fn goals(&self, beside: Beside, auto: Option<Figures>) -> Goals {
        let less = match beside {
            Beside::SameHost => 0.0,
            Beside::OtherHost => 0.05,
        };
        let part = |goal: f64, auto: Option<f64>| auto.map_or(goal, |auto| goal.min(auto - 0.02));
        let time = |auto: Option<Option<f64>>| match auto {
            None => self.within(),
            Some(auto) => auto.map_or(f64::INFINITY, |auto| auto + 0.1).max(self.within()),
        };
        Goals {
            lone: part(0.97 - less, auto.map(|auto| auto.lone)),
            newcomer: part(0.92 - less, auto.map(|auto| auto.newcomer)),
            total: part(0.97 - less, auto.map(|auto| auto.total)),
            t80: time(auto.map(|auto| auto.t80)),
            back: time(auto.map(|auto| auto.back)),
        }
    }
}

/// What figures have to reach: parts at least, times at most.
struct Goals {
    lone: f64,
    newcomer: f64,
    total: f64,
    t80: f64,
    back: f64,
}

impl Goals {
    fn missed(&self, found: &Figures) -> Vec<&'static str> {
        // Times are multiples of a bin; they are compared with half of one to spare.
        let late =
            |time: Option<f64>, goal: f64| goal.is_finite() && time.is_none_or(|time| time > goal + 0.025);
        let checks = [
            ("lone", found.lone < self.lone - 0.0005),
            ("newcomer", found.newcomer < self.newcomer - 0.0005),
            ("total", found.total < self.total - 0.0005),
            ("t80", late(found.t80, self.t80)),
            ("back", late(found.back, self.back)),
        ];
        checks
            .into_iter()
            .filter_map(|(name, missed)| missed.then_some(name))
            .collect()
    }
}
