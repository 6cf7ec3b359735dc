//! A line that falls from 20 to 5 Mbit/s and rises again, as radio links do.

use super::play::{Beside, Line, Low, Play, Received, Way};
use std::fmt;

/// The line has its lower rate between these seconds.
const FALLS: f64 = 8.0;
const RISES: f64 = 24.0;
/// Within this time the law is right.
const RIGHT: f64 = 3.0;
/// The other download begins and ends, while the line is slow.
const BEGINS: f64 = 14.0;
const ENDS: f64 = 20.0;
const OVER: f64 = 32.0;

/// The settings, by their names in the table.
pub const SETTINGS: [(&str, Option<f64>); 2] = [("auto", None), ("stated 20", Some(20.0))];

/// A path and a sender.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fall(Line);

/// What the two had, as parts of what they had without nine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fell {
    /// The lower one alone on the slow line, from 3 s after the fall on.
    pub slow: f64,
    /// The other one beside it, from its second second on; beside what it has alone.
    pub newcomer: f64,
    /// The lower one alone, from 3 s after the rise on.
    pub risen: f64,
}

impl Fell {
    /// What misses its goal.
    pub fn missed(&self) -> Vec<&'static str> {
        let checks = [
            ("slow", self.slow < 0.97),
            ("newcomer", self.newcomer < 0.92),
            ("risen", self.risen < 0.97),
        ];
        checks
            .into_iter()
            .filter_map(|(name, missed)| missed.then_some(name))
            .collect()
    }
}

/// All of them: buffers of one and eight bandwidth-delay products of 20 Mbit/s and 20 ms, and one
/// of 100 ms.
pub fn all() -> impl Iterator<Item = Fall> {
    let paths = [(20.0, 50_000), (20.0, 400_000), (100.0, 250_000)].into_iter();
    paths.flat_map(|(rtt_ms, buffer)| {
        ["cubic", "reno", "bbr"].into_iter().map(move |control| {
            Fall(Line {
                way: Way::Download,
                mbit: 20.0,
                rtt_ms,
                buffer,
                control,
                falls: Some((5.0, FALLS, RISES)),
            })
        })
    })
}

impl fmt::Display for Fall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line {
            rtt_ms,
            buffer,
            control,
            ..
        } = self.0;
        write!(f, "falls {rtt_ms}ms {}kB {control}", buffer / 1_000)
    }
}

impl Fall {
    fn play(&self, low: Low) -> Result<[Received; 2], String> {
        let play = Play {
            line: self.0,
            low,
            beside: Beside::SameHost,
            from: BEGINS,
            to: ENDS,
            end: OVER,
        };
        play.run()
    }

    /// Runs it under each setting.
    pub fn measure(&self) -> Result<Vec<Fell>, String> {
        let [_, alone] = self.play(Low::Absent)?;
        let [plain, _] = self.play(Low::Plain)?;
        let of = |(_, stated): (&str, Option<f64>)| {
            let [low, other] = self.play(Low::Nine(stated))?;
            let part = |had: &Received, without: &Received, from: f64, to: f64| {
                had.rate(from, to) / without.rate(from, to)
            };
            Ok(Fell {
                slow: part(&low, &plain, FALLS + RIGHT, BEGINS),
                newcomer: part(&other, &alone, BEGINS + 1.0, ENDS),
                risen: part(&low, &plain, RISES + RIGHT, OVER),
            })
        };
        SETTINGS.into_iter().map(of).collect()
    }
}
