//! One run of two transfers over a line, in the simulator, and what each had when.
//!
//! ```text
//! server ── half of the RTT ── provider ── the line, its buffer ── router ── home
//!                                                                       └─── other
//! ```
//!
//! A download comes from the server, an upload goes there.

use engine::tree::Registry;
use scenario::Scenarios;
use scenario::folder::Folder;
use scenario::run::ScenarioRun;
use scenario::run::outcome::{FlowOutcome, Point};
use std::fmt::Write;

/// The bins in which received bytes are counted, in seconds.
const BIN: f64 = 0.05;

/// Which way data go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From the server.
    Download,
    /// To it.
    Upload,
}

/// A line and its senders.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line {
    /// The way of both transfers.
    pub way: Way,
    /// Its rate in Mbit/s.
    pub mbit: f64,
    /// The RTT without a queue, in ms.
    pub rtt_ms: f64,
    /// Its buffer in bytes.
    pub buffer: u64,
    /// The congestion control.
    pub control: &'static str,
    /// It has this rate, in Mbit/s, from the first to the second of these seconds.
    pub falls: Option<(f64, f64, f64)>,
}

/// What the lower transfer is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Low {
    /// It does not exist.
    Absent,
    /// Without nine.
    Plain,
    /// Under nine, with this rate stated, in Mbit/s; without one, by the estimate.
    Nine(Option<f64>),
}

/// Whose the other transfer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// The same host's.
    SameHost,
    /// That of another one behind the line.
    OtherHost,
}

/// A run: the lower transfer all the time, the other one from and to these seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Play {
    pub line: Line,
    pub low: Low,
    pub beside: Beside,
    pub from: f64,
    pub to: f64,
    pub end: f64,
}

/// What a transfer received, and how its sender did.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Received {
    /// Bytes in each bin.
    bins: Vec<u64>,
    /// The sender's congestion window in bytes, at these seconds.
    cwnd: Vec<(f64, u64)>,
}

impl Received {
    /// Mbit/s between these seconds.
    pub fn rate(&self, from: f64, to: f64) -> f64 {
        let bin = |seconds: f64| ((seconds / BIN).round() as usize).min(self.bins.len());
        let bytes: u64 = self.bins[bin(from)..bin(to)].iter().sum();
        bytes as f64 * 8e-6 / (to - from)
    }

    /// The sender's congestion window at this second, in bytes.
    pub fn cwnd(&self, at: f64) -> Option<u64> {
        let last = self.cwnd.iter().rfind(|(second, _)| *second <= at);
        last.map(|(_, bytes)| *bytes)
    }

    /// The seconds from `from` on until it has this rate for half a second; none before `until`.
    pub fn has(&self, from: f64, until: f64, wanted: impl Fn(f64, f64) -> f64) -> Option<f64> {
        let steps = ((until - from - HELD) / BIN).round() as usize;
        let after = (0..=steps).map(|step| step as f64 * BIN);
        after.into_iter().find(|past| {
            let (from, to) = (from + past, from + past + HELD);
            self.rate(from, to) >= wanted(from, to)
        })
    }
}

/// For how long a rate is held until it counts, in seconds.
const HELD: f64 = 0.5;

impl Play {
    /// What the lower and the other transfer received.
    pub fn run(&self) -> Result<[Received; 2], String> {
        let text = self.scenario();
        let registry = Registry::builtin();
        let folder = Folder::of("");
        let wrong = |what: String| format!("{what} in\n{text}");
        let scenarios =
            Scenarios::read("nine", &text, &registry, &folder).map_err(|e| wrong(format!("{e:?}")))?;
        let scenario = scenarios.point(1, &folder).map_err(|e| wrong(format!("{e:?}")))?;
        let point = Point {
            number: 1,
            of: 1,
            values: Vec::new(),
        };
        let run = ScenarioRun::begin(&scenario, &[], None).map_err(|e| wrong(format!("{e:?}")))?;
        let run = run.sampling_tcp(&scenario);
        let outcome = run.to_end("nine", &scenario, point, &mut |_, _| ());
        let outcome = outcome.map_err(|e| wrong(format!("{e:?}")))?;
        let series = |name: &str| {
            let flow = outcome.flows.iter().find(|flow: &&FlowOutcome| flow.name == name);
            let mut bins = flow.map_or_else(Vec::new, |flow| flow.series.clone());
            bins.resize((self.end / BIN).round() as usize, 0);
            let samples = flow.into_iter().flat_map(|flow| &flow.tcp);
            let cwnd = samples.map(|sample| (sample.at.nanos() as f64 / 1e9, sample.cwnd.get()));
            Received {
                bins,
                cwnd: cwnd.collect(),
            }
        };
        Ok([series("low"), series("other")])
    }

    fn scenario(&self) -> String {
        let Line {
            way,
            mbit,
            rtt_ms,
            buffer,
            control,
            falls,
        } = self.line;
        let mut text = format!(
            "version = 1\nduration = \"{} s\"\nbin = \"{} ms\"\n\
             [[link]]\nbetween = [\"server\", \"provider\"]\nrate = \"1 Gbit/s\"\ndelay = \"{} us\"\nbuffer = \"100 MB\"\n",
            self.end,
            BIN * 1e3,
            rtt_ms * 500.0
        );
        match falls {
            None => {
                let _ = writeln!(
                    text,
                    "[[link]]\nbetween = [\"provider\", \"router\"]\nrate = \"{mbit} Mbit/s\"\nbuffer = \"{buffer} B\""
                );
            }
            Some((less, at, again)) => {
                let _ = writeln!(
                    text,
                    "[[link]]\nbetween = [\"provider\", \"router\"]\nrate = \"1 Gbit/s\"\n\
                     [link.policy.provider]\nbandwidth = \"1 Gbit/s\"\ndiscipline = \"hfsc\"\n\
                     class = [{{ name = \"line\", linkshare = \"{mbit} Mbit/s\", upperlimit = \"{mbit} Mbit/s\", default = true, \
                     discipline = {{ kind = \"fifo\", limit = 100000, limit_bytes = \"{buffer} B\" }} }}]\n\
                     [[change]]\nat = \"{at} s\"\nclass = \"line\"\nupperlimit = \"{less} Mbit/s\"\n\
                     [[change]]\nat = \"{again} s\"\nclass = \"line\"\nupperlimit = \"{mbit} Mbit/s\""
                );
            }
        }
        for host in ["home", "other"] {
            let _ = writeln!(
                text,
                "[[link]]\nbetween = [\"router\", \"{host}\"]\nrate = \"1 Gbit/s\"\nbuffer = \"100 MB\""
            );
        }
        text + &self.flows(way, control)
    }

    fn flows(&self, way: Way, control: &str) -> String {
        let control = match control {
            // Linux's CUBIC has it.
            "cubic" => "control = \"cubic\"\nhystart = true".to_owned(),
            other => format!("control = \"{other}\""),
        };
        let flow = |name: &str, host: &str| {
            let [from, to] = match way {
                Way::Download => ["server", host],
                Way::Upload => [host, "server"],
            };
            format!(
                "[[flow]]\nname = \"{name}\"\nbetween = [\"{from}\", \"{to}\"]\nkind = \"tcp\"\n{control}\nreceive_window = \"32 MiB\"\nwhole_cwnd = true\n"
            )
        };
        let mut text = match self.low {
            Low::Absent => String::new(),
            Low::Plain | Low::Nine(_) => flow("low", "home"),
        };
        if let Low::Nine(stated) = self.low {
            text += match way {
                Way::Download => "nine = true\n",
                Way::Upload => "nine = \"sender\"\n",
            };
            if let Some(stated) = stated {
                let _ = writeln!(text, "bottlenet = \"{stated} Mbit/s\"");
            }
        }
        let host = match self.beside {
            Beside::SameHost => "home",
            Beside::OtherHost => "other",
        };
        text += &flow("other", host);
        let _ = writeln!(text, "start = \"{} s\"\nstop = \"{} s\"", self.from, self.to);
        text
    }
}
