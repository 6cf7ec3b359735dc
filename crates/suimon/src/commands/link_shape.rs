//! The link that a command, or an interface that is there already, is behind: its options, and
//! links that were measured.
//!
//! The options become a topology, read as one from a file is: the same checks, the same messages.

use crate::exit::Failure;
use clap::{Args, ValueEnum};
use engine::tree::Registry;
use plot::colour;
use scenario::folder::Folder;
use scenario::topology::Topology;
use std::fmt::Write;

/// What a link without a rate has: more than this computer forwards.
const NO_LIMIT: &str = "10 Gbit/s";
/// Whom a policy is for: the host whose packets it queues.
pub(super) const WAYS: [(&str, &str); 2] = [("down", "outside"), ("up", "inside")];

/// The options of a link.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "The link")]
pub struct LinkShape {
    /// A link that was measured, or one that varies by a model; the other options override what it
    /// stands for
    #[arg(long, value_name = "NAME")]
    link: Option<MeasuredLink>,
    /// The rate in both directions; without one the link is not limited
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// The rate of what the command receives
    #[arg(long, value_name = "RATE")]
    down: Option<String>,
    /// The rate of what the command sends
    #[arg(long, value_name = "RATE")]
    up: Option<String>,
    /// Its rate over time, in place of the rates: a packet-delivery trace of Mahimahi, CSV, or
    /// "model train, seed 7, at 20%"; down=FILE or up=FILE in one direction
    #[arg(long, value_name = "FILE")]
    trace: Vec<String>,
    /// The delay in each direction: half of what it adds to a round trip
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// What is added to the delay: at most this, uniformly distributed; or "normal 10ms, deviation
    /// 2ms", "exponential 2ms", "pareto 2ms"; packets keep their order, unless ", unordered"
    /// follows
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// Packets that others overtake, and how much later they come: "1% by 5ms", or "packets 20 by
    /// 1ms"; which, as of --loss
    #[arg(long, value_name = "WHICH by TIME")]
    reorder: Option<String>,
    /// What is lost in each direction: "1%", "1% in bursts of 5", "gilbert-elliott 1%, 25%, 80%,
    /// 0.1%" (from good to bad, back, loss in bad, loss in good), "every 100", or "packets 7,
    /// 12-15"
    #[arg(long, value_name = "LOSS")]
    loss: Option<String>,
    /// Packets that arrive with a flipped bit, as of --loss: who receives them drops them
    #[arg(long, value_name = "WHICH")]
    corrupt: Option<String>,
    /// Packets that arrive twice, as of --loss
    #[arg(long, value_name = "WHICH")]
    duplicate: Option<String>,
    /// The buffer before the link, in bytes [default: 100 ms at the rate]
    #[arg(long, value_name = "LENGTH")]
    buffer: Option<String>,
}

/// Links that were measured, and models of links that vary. Their sources: docs/bad-links.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum MeasuredLink {
    /// --down 1.5Mbit/s --up 384kbit/s --delay 25ms
    Dsl,
    /// --down 5Mbit/s --up 1Mbit/s --delay 14ms
    Cable,
    /// --down 12Mbit/s --up 12Mbit/s --delay 35ms
    Lte,
    /// --down 105Mbit/s --up 12Mbit/s --delay 20ms
    Starlink,
    /// --down 19.3Mbit/s --up 2.54Mbit/s --delay 372ms
    Geo,
    /// --trace "down=model 5g" --trace "up=model 5g, at 20%"
    #[value(name = "5g")]
    FiveG,
    /// --trace "down=model wifi" --trace "up=model wifi, at 80%"
    Wifi,
    /// --trace "down=model train" --trace "up=model train, at 30%"
    Train,
}

/// What a preset is in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PresetWay {
    Rate(&'static str),
    Trace(&'static str),
}

impl PresetWay {
    /// The key and the value of a link that say so.
    fn said(self) -> (&'static str, String) {
        match self {
            Self::Rate(rate) => ("rate", rate.to_owned()),
            Self::Trace(trace) => ("trace", trace.to_owned()),
        }
    }
}

impl MeasuredLink {
    /// What it is down and up.
    const fn ways(self) -> [PresetWay; 2] {
        use PresetWay::{Rate, Trace};
        match self {
            Self::Dsl => [Rate("1.5Mbit/s"), Rate("384kbit/s")],
            Self::Cable => [Rate("5Mbit/s"), Rate("1Mbit/s")],
            Self::Lte => [Rate("12Mbit/s"), Rate("12Mbit/s")],
            Self::Starlink => [Rate("105Mbit/s"), Rate("12Mbit/s")],
            Self::Geo => [Rate("19.3Mbit/s"), Rate("2.54Mbit/s")],
            Self::FiveG => [Trace("model 5g"), Trace("model 5g, at 20%")],
            Self::Wifi => [Trace("model wifi"), Trace("model wifi, at 80%")],
            Self::Train => [Trace("model train"), Trace("model train, at 30%")],
        }
    }

    /// Its delay, where no trace has it.
    const fn delay(self) -> Option<&'static str> {
        match self {
            Self::Dsl => Some("25ms"),
            Self::Cable => Some("14ms"),
            Self::Lte => Some("35ms"),
            Self::Starlink => Some("20ms"),
            Self::Geo => Some("372ms"),
            Self::FiveG | Self::Wifi | Self::Train => None,
        }
    }

    /// The options that it stands for.
    fn options(self) -> String {
        let ways = ["down", "up"].into_iter().zip(self.ways());
        let ways = ways.map(|(way, is)| match is {
            PresetWay::Rate(rate) => format!("--{way} {rate}"),
            PresetWay::Trace(trace) => format!("--trace \"{way}={trace}\""),
        });
        let delay = self.delay().map(|delay| format!("--delay {delay}"));
        ways.chain(delay).collect::<Vec<_>>().join(" ")
    }
}

impl LinkShape {
    /// The topology that the options describe, with more settings of its link.
    pub fn topology(&self, more: &[(String, &str)], registry: &Registry) -> Result<Topology, Failure> {
        self.one_course_each()?;
        if let Some(link) = self.link {
            let name = link.to_possible_value().map(|value| value.get_name().to_owned());
            let name = name.unwrap_or_default();
            eprintln!("suimon: --link {name} is {}", link.options());
        }
        let text = self.text(more);
        let read = Topology::read("the options as a topology", &text, registry, &Folder::of(""));
        read.map_err(|diagnostics| {
            let why = diagnostics.render(colour::wanted(&std::io::stderr()));
            Failure::usage(format!("there is no such link:\n{why}"))
        })
    }

    /// What is said of each direction: the rate or the trace, the delay and what befalls packets.
    pub fn said(&self) -> String {
        let link = self.link.map(MeasuredLink::options);
        let named = [
            ("rate", &self.rate),
            ("down", &self.down),
            ("up", &self.up),
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("reorder", &self.reorder),
            ("loss", &self.loss),
            ("corrupt", &self.corrupt),
            ("duplicate", &self.duplicate),
            ("buffer", &self.buffer),
        ];
        let traces = self.trace.iter().map(|trace| format!("trace {trace}"));
        let named = named
            .iter()
            .filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?)));
        link.into_iter()
            .chain(traces)
            .chain(named)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Refuses what says twice what a way's rate is.
    fn one_course_each(&self) -> Result<(), Failure> {
        let traced = |host: &str| {
            let traces = self.trace.iter().flat_map(|trace| by_way(trace));
            traces.filter(|(of, _)| *of == host).count()
        };
        let counts = WAYS.map(|(_, host)| traced(host));
        for ((way, _), (traces, own)) in WAYS.iter().zip(counts.into_iter().zip([&self.down, &self.up])) {
            if traces > 1 || traces == 1 && own.is_some() {
                let message = format!("--trace: {way} has two courses; leave out one of --trace and --{way}");
                return Err(Failure::usage(message));
            }
        }
        if self.rate.is_some() && counts.iter().all(|traces| *traces == 1) {
            let message = "--trace has the rates of both directions; leave out one of --trace and --rate";
            return Err(Failure::usage(message));
        }
        Ok(())
    }

    /// The options as a topology.
    pub fn text(&self, more: &[(String, &str)]) -> String {
        let course = |way: usize, own: &Option<String>| {
            let mut traces = self.trace.iter().flat_map(|trace| by_way(trace));
            if let Some((_, file)) = traces.rfind(|(of, _)| *of == WAYS[way].1) {
                return ("trace", file.to_owned());
            }
            let stated = own.as_ref().or(self.rate.as_ref());
            let preset = || self.link.map(|link| link.ways()[way].said());
            stated
                .map(|rate| ("rate", rate.clone()))
                .or_else(preset)
                .unwrap_or_else(|| ("rate", NO_LIMIT.into()))
        };
        let [down, up] = [course(0, &self.down), course(1, &self.up)];
        let mut text = format!(
            "version = 1\nhosts = [\"outside\", \"inside\"]\n[[link]]\nbetween = [\"outside\", \"inside\"]\n{} = {}\n",
            down.0,
            quoted(&down.1)
        );
        if up != down {
            // Writing into memory does not fail.
            let _ = writeln!(text, "back = {{ {} = {} }}", up.0, quoted(&up.1));
        }
        let mut set = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{name} = {}", quoted(value));
            }
        };
        let delay = self.delay.as_deref();
        set("delay", delay.or_else(|| self.link.and_then(MeasuredLink::delay)));
        set("jitter", self.jitter.as_deref());
        set("reorder", self.reorder.as_deref());
        set("loss", self.loss.as_deref());
        set("corrupt", self.corrupt.as_deref());
        set("duplicate", self.duplicate.as_deref());
        set("buffer", self.buffer.as_deref());
        for (name, value) in more {
            set(name, Some(value));
        }
        text
    }
}

/// The files of an option, each with the host whose packets it is for: `FILE` of both ways,
/// `down=FILE` or `up=FILE` of one.
pub(super) fn by_way(option: &str) -> Vec<(&'static str, &str)> {
    let of_way = |(way, host): (&str, &'static str)| {
        let file = option.strip_prefix(way)?.strip_prefix('=')?;
        Some(vec![(host, file)])
    };
    let both = || WAYS.map(|(_, host)| (host, option)).to_vec();
    WAYS.into_iter().find_map(of_way).unwrap_or_else(both)
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    // What JSON escapes, TOML escapes alike.
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Bandwidth;

    #[test]
    fn every_measured_link_is_a_link_and_its_help_says_what_it_is() {
        for link in MeasuredLink::value_variants() {
            let options = LinkShape {
                link: Some(*link),
                ..LinkShape::default()
            };
            let topology = options.topology(&[], &Registry::builtin()).expect("a link");
            let [down, up] = &topology.links[0].settings;
            assert!(
                down.rate >= up.rate && down.rate < Some(Bandwidth::gbit(1)),
                "{link:?}"
            );
            let varies = topology.links[0].traces.each_ref().map(Option::is_some);
            assert_eq!(varies, [link.delay().is_none(); 2], "{link:?}");
            let value = link.to_possible_value().expect("a value");
            let help = value.get_help().expect("its help").to_string();
            assert_eq!(help, link.options());
        }
    }
}
