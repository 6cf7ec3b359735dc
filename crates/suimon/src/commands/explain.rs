//! `suimon explain`: which class a packet goes to by a policy, and why; and why packets of a
//! running suimon, or of a capture behind a policy, wait.

use super::target::Target;
use crate::captured;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::explained::{Which, show_live};
use crate::source;
use clap::Args;
use control::explained::{ExplainRequest, asked, explained};
use control::filters;
use control::policy::InterfacePolicy;
use control::protocol::{Reply, Request, SettingChange};
use control::{readout, snapshot};
use engine::classify::Filter;
use engine::header::FlowKey;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::settings::Table;
use engine::units::{Bytes, Duration, Instant};
use gateway::what_if::candidate;
use measure::numbers;
use measure::waits::Wanted;
use plot::text::{self, Align};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How long after the last packet of a capture those that are queued may leave.
const AFTER: Duration = Duration::from_secs(3_600);

/// Tell which class a packet goes to by a policy, and why: each filter that is asked, and what of
/// it the packet does not have. Or why packets waited or were dropped: with --live those of a
/// running suimon, with --capture those of a capture, sent through the policy in simulated time
#[derive(Debug, Args)]
pub struct Explain {
    /// The policy, a TOML file
    #[arg(required_unless_present = "live", conflicts_with = "live")]
    policy: Option<String>,
    /// The packet, by the keys of a filter: protocol=udp source=10.0.0.1 destination_port=5060
    #[arg(value_name = "KEY=VALUE", value_parser = property, conflicts_with_all = ["live", "capture"])]
    packet: Vec<(String, SettingChange)>,
    /// The interface that it leaves by; by default each
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Explain packets that a running suimon sends by this interface
    #[arg(long, value_name = "INTERFACE")]
    live: Option<String>,
    /// Explain the packets of this capture, pcap or pcapng, as this policy would send them
    #[arg(long, value_name = "FILE", conflicts_with = "live")]
    capture: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
    /// How long to look
    #[arg(long = "for", value_name = "TIME", default_value = "10 s", requires = "live")]
    time: Duration,
    #[command(flatten)]
    target: Target,
}

fn property(word: &str) -> Result<(String, SettingChange), String> {
    SettingChange::assignment(word)
        .ok_or_else(|| "expected a key and its value, such as destination_port=5060".into())
}

impl Explain {
    /// Explains it.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        if let Some(interface) = self.live {
            let for_ms = self.time.nanos() / 1_000_000;
            return live(&self.target, self.which.request(interface, for_ms), cx.out);
        }
        let file = self.policy.as_deref().unwrap_or_default();
        if let Some(capture) = &self.capture {
            let interface = captured::interface(file, self.interface.as_deref(), cx.registry)?;
            return of_capture(capture, &interface, self.which, self.target.json, cx);
        }
        let policy = source::policy(file, cx.registry)?;
        let described = self.packet.iter().fold(Table::default(), |table, (key, value)| {
            table.with(key, value.raw())
        });
        let packet = filters::packet(&described).map_err(|problems| {
            let said = problems.into_iter().map(|problem| match problem.help {
                Some(help) => format!("{}; {help}", problem.message),
                None => problem.message,
            });
            Failure::usage(said.collect::<Vec<_>>().join("\n"))
        })?;
        let wanted =
            |interface: &&InterfacePolicy| self.interface.as_ref().is_none_or(|name| *name == interface.name);
        let chosen: Vec<&InterfacePolicy> = policy.interfaces.iter().filter(wanted).collect();
        if chosen.is_empty() {
            let names = policy.interfaces.iter().map(|interface| interface.name.as_str());
            let name = self.interface.unwrap_or_default();
            let unknown = engine::settings::unknown("interface", &name, Default::default(), names);
            return Err(unknown.into());
        }
        for interface in chosen {
            show(cx.out, interface, &packet)?;
        }
        Ok(Exit::Done)
    }
}

/// Asks a running suimon, which looks for that long.
fn live(target: &Target, wanted: ExplainRequest, out: &mut dyn Write) -> Result<Exit, Failure> {
    let drops = wanted.drops;
    let reply = target.ask(&Request::Explain(wanted))?;
    let exit = match reply {
        Reply::Refused(_) => Exit::Usage,
        _ => Exit::Done,
    };
    match reply {
        _ if target.json => writeln!(out, "{}", serde_json::json!(reply))?,
        Reply::Explained(explained) => show_live(out, &explained, drops)?,
        Reply::Refused(why) => return Err(Failure::usage(why.to_string())),
        other => {
            let other = serde_json::json!(other);
            return Err(Failure::at_run_time(format!("unexpected reply: {other}")));
        }
    }
    Ok(exit)
}

/// Sends a capture's or a recording's packets by this policy, in simulated time, each when it was
/// captured.
fn of_capture(
    capture: &Path,
    interface: &InterfacePolicy,
    which: Which,
    json: bool,
    cx: &mut Context<'_>,
) -> Result<Exit, Failure> {
    let wanted = which.request(interface.name.clone(), 0);
    let drops = wanted.drops;
    let mut candidate = candidate(interface, Seed(1))?;
    candidate.begin_explaining(Wanted {
        class: wanted
            .class_of(interface)
            .map_err(|why| Failure::usage(why.to_string()))?,
        drops,
        keep: wanted.packets,
        since: Instant::START,
        until: Instant::NEVER,
    });
    let read = captured::read(capture, cx.registry, &mut |at, frame, bytes| {
        let arrived = candidate.arrive(at, Bytes::new(frame.into()), bytes, &mut |_| {});
        arrived.map_err(|why| Failure::at_run_time(why.to_string()))
    })?;
    // What is queued at its end leaves, too: nothing arrives any more.
    candidate.run_until(Instant::START + read.span + AFTER, &mut |_| {});
    let views = candidate.show().views;
    let recorded = candidate.end_explaining();
    let explained = recorded.map(|recorded| explained(interface, &recorded, &views));
    let explained = explained.ok_or_else(|| Failure::at_run_time("nothing was recorded"))?;
    match json {
        true => writeln!(cx.out, "{}", serde_json::json!(explained))?,
        false => show_live(cx.out, &explained, drops)?,
    }
    let mut missing = read.missing().into_iter().filter(|_| !json);
    missing.try_for_each(|said| writeln!(cx.out, "{said}"))?;
    Ok(Exit::Done)
}

fn show(out: &mut dyn Write, interface: &InterfacePolicy, packet: &FlowKey) -> io::Result<()> {
    let plan = &interface.plan;
    writeln!(
        out,
        "{}  {}  {}",
        interface.name,
        numbers::rate(interface.settings.bandwidth.bits()),
        readout::discipline(&interface.spec)
    )?;
    if plan.classes.is_empty() {
        return writeln!(out, "  it has no classes: every packet goes to its one queue");
    }
    let (asked, taken) = asked(&interface.filters, packet);
    let name = |class: ClassId| plan.info(class).map_or("", |info| info.name.as_str());
    let row = |(filter, misses): &(&Filter, Vec<String>)| {
        let verdict = match misses.is_empty() {
            true => "it does".to_owned(),
            false => format!("no: it is not {}", misses.join(", nor ")),
        };
        vec![
            format!("  {}", filters::words(filter)),
            format!("→ {}", name(filter.class)),
            verdict,
        ]
    };
    if !asked.is_empty() {
        writeln!(out, "filters, in the order in which they are asked:")?;
    }
    let rows: Vec<Vec<String>> = asked.iter().map(row).collect();
    for line in text::table(&rows, &[Align::Left; 3]) {
        writeln!(out, "{line}")?;
    }
    let class = plan.class_of(taken.map(|filter| filter.class));
    let why = match taken {
        Some(_) => "by that filter",
        None => "as the default class: no filter takes it",
    };
    writeln!(out, "it goes to {}, {why}", name(class))?;
    path(out, interface, class)
}

/// The class and those above it: what each may send, and what it queues in.
fn path(out: &mut dyn Write, interface: &InterfacePolicy, class: ClassId) -> io::Result<()> {
    let plan = &interface.plan;
    let specs = interface.spec.class_specs();
    let above = std::iter::successors(Some(class), |class| plan.info(*class)?.parent);
    for (depth, class) in above.enumerate() {
        let Some(info) = plan.info(class) else { break };
        let spec = specs.find(class.0 as usize, &info.name);
        let rate = spec.and_then(|spec| snapshot::configured_rate(spec, interface.settings.bandwidth));
        let rate = rate.map(|rate| numbers::rate(rate.bits()));
        let settings = spec.map(|spec| readout::settings(&spec.settings, &["rate"]));
        let queue = spec
            .filter(|_| info.leaf)
            .and_then(|spec| spec.discipline.as_ref())
            .map(|queue| format!("queue: {}", readout::discipline(queue)));
        let said: Vec<String> = [rate, settings, queue]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        let lead = if depth == 0 { "  " } else { "  below " };
        writeln!(out, "{lead}{}: {}", info.name, said.join("; "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use engine::tree::Registry;
    use serde_json::Value;

    fn explained(words: &[&str]) -> Result<String, String> {
        let here = env!("CARGO_MANIFEST_DIR");
        let registry = Registry::builtin();
        let mut out = Vec::new();
        let explain = Explain {
            policy: Some(format!("{here}/../../examples/home-router.toml")),
            packet: words
                .iter()
                .map(|word| property(word).expect("a property"))
                .collect(),
            interface: Some("wan0".into()),
            live: None,
            capture: None,
            which: Which::default(),
            time: Duration::from_millis(1),
            target: Target {
                socket: None,
                json: false,
            },
        };
        let done = explain.run(&mut Context {
            registry: &registry,
            out: &mut out,
        });
        match done {
            Ok(_) => Ok(String::from_utf8(out).expect("text")),
            Err(failure) => Err(failure.message),
        }
    }

    #[test]
    fn the_class_is_that_of_the_first_filter_that_takes_the_packet() {
        let call = explained(&["protocol=udp", "dscp=ef"]).expect("a packet");
        assert!(call.contains("it goes to calls, by that filter"), "{call}");
        let other = explained(&["protocol=tcp", "destination_port=7"]).expect("a packet");
        assert!(
            other.contains("as the default class: no filter takes it"),
            "{other}"
        );
    }

    /// The classifier finds what this says, over many packets.
    #[test]
    fn what_is_explained_is_what_the_classifier_does() {
        let path = format!("{}/../../examples/home-router.toml", env!("CARGO_MANIFEST_DIR"));
        let policy = source::policy(&path, &Registry::builtin()).expect("a policy");
        for interface in &policy.interfaces {
            let classifier =
                engine::classify::Classifier::new(interface.filters.iter().copied(), engine::random::Seed(1));
            for number in 0..50_000u32 {
                let packet = FlowKey {
                    family: engine::header::Family::V4,
                    protocol: [6, 17, 1][number as usize % 3],
                    dscp: (number / 3 % 64) as u8,
                    source_port: Some((number * 7 % 65_536) as u16),
                    destination_port: Some((number * 13 % 65_536) as u16),
                    ..FlowKey::default()
                };
                let (_, taken) = asked(&interface.filters, &packet);
                assert_eq!(
                    taken.map(|filter| filter.class),
                    classifier.classify(&packet),
                    "{packet:?}"
                );
            }
        }
    }

    #[test]
    fn what_no_packet_has_is_refused() {
        for (words, why) in [
            (vec!["destination_prot=5"], "did you mean `destination_port`?"),
            (vec!["source=10.0.0.0/8"], "not a prefix"),
            (vec!["source_port=5-9"], "not a range"),
            (vec!["dscp=high"], "unknown code point"),
            (vec!["class=calls"], "unknown property of a packet `class`"),
        ] {
            let said = explained(&words).expect_err(why);
            assert!(said.contains(why), "{said}");
        }
    }

    /// Six full frames of bulk and then two of voice at one moment, before a link of 12 Mbit/s: a
    /// full frame takes 1 ms.
    fn of_burst(which: &[&str]) -> Result<String, String> {
        let folder = std::env::temp_dir().join(format!("suimon-explain-{}-{which:?}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let [policy, capture] = ["policy.toml", "burst.pcapng"].map(|name| folder.join(name));
        let text = "version = 1\n[interface.wan0]\nbandwidth = \"12 Mbit/s\"\ndiscipline = \"priq\"\n\
                    [[interface.wan0.class]]\nname = \"voice\"\npriority = 7\n\
                    [[interface.wan0.class]]\nname = \"bulk\"\npriority = 1\ndefault = true\n\
                    discipline = { kind = \"fifo\", limit = 4 }\n\
                    [[interface.wan0.filter]]\nclass = \"voice\"\ndestination_port = 5060\n";
        std::fs::write(&policy, text).expect("written");
        let file = std::fs::File::create(&capture).expect("a file");
        let mut writer = netio::capture_file::Writer::new(file, &["eth0"]).expect("a capture");
        for port in [80, 80, 80, 80, 80, 80, 5060, 5060] {
            let headers = captured::headers(port, 1_500);
            writer
                .beginning(1_700_000_000_000_000_000, 0, &headers, 1_500)
                .expect("written");
        }
        writer.flush().expect("written");
        let [policy, capture] = [policy, capture].map(|path| path.display().to_string());
        let line = [&["explain", &policy, "--capture", &capture], which].concat();
        let registry = Registry::builtin();
        let mut out = Vec::new();
        let done = Line::try_parse_from(line)
            .map_err(|why| why.to_string())
            .and_then(|line| {
                let mut cx = Context {
                    registry: &registry,
                    out: &mut out,
                };
                line.explain.run(&mut cx).map_err(|failure| failure.message)
            });
        std::fs::remove_dir_all(folder).expect("removed");
        done.map(|_| String::from_utf8(out).expect("text"))
    }

    /// A command line of this verb.
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        explain: Explain,
    }

    #[test]
    fn packets_of_a_capture_are_explained_as_the_policy_would_send_them() {
        let json = of_burst(&["--class", "bulk", "--slowest", "2", "--json"]).expect("explained");
        let told: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(told["interface"], "wan0");
        // One left at once, four were queued, and one was dropped.
        assert_eq!(
            (&told["seen_packets"], told["packets"].as_array().map(Vec::len)),
            (&5.into(), Some(2))
        );
        let slowest = &told["packets"][0];
        // The first, two of voice and three of its own class, each 1 ms.
        let numbers = ["wait_ns", "planned_ns", "held_ns", "held_up_ns"].map(|key| slowest[key].as_u64());
        assert_eq!(
            numbers,
            [Some(6_000_000), Some(6_000_000), Some(0), Some(0)],
            "{slowest}"
        );
        let before: Vec<_> = slowest["before"].as_array().expect("a list").iter().collect();
        assert!(
            before
                .iter()
                .any(|class| class["class"] == "voice" && class["packets"] == 2),
            "{slowest}"
        );
        assert_eq!(
            slowest["filters"][0]["misses"][0], "destination port 5060",
            "{slowest}"
        );
        let words = of_burst(&["--drops"]).expect("explained");
        assert!(words.contains("1 packets were dropped"), "{words}");
        assert!(
            words.contains("class bulk, 1.5 kB: dropped on arrival (full)"),
            "{words}"
        );
    }

    #[test]
    fn a_capture_goes_with_neither_a_described_packet_nor_a_running_suimon() {
        for more in [&["protocol=udp"][..], &["--live", "wan0"]] {
            of_burst(more).expect_err("one or the other");
        }
        let said = of_burst(&["--class", "voise"]).expect_err("no such class");
        assert!(said.contains("did you mean `voice`?"), "{said}");
    }
}
