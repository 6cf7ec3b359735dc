//! `suimon replay`: what another policy would do with the packets of a capture, or of a recording.
//!
//! With `--closed` its TCP connections are made again as senders ([`closed_loop`]).
//!
//! Otherwise open loop: packets arrive when they were captured, whatever becomes of those before
//! them. A sender that would have slowed down, or sped up, does not. So drops and delays of traffic
//! that answers to them are those of the first moments, not of what would settle; the output says
//! so.

use crate::captured::{self, CaptureRead};
use crate::closed_loop::{self, Flows, Senders};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::recreated;
use clap::Args;
use control::policy::InterfacePolicy;
use control::what_if::Figures;
use engine::random::Seed;
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use gateway::what_if::{ClassFigures, candidate, figures};
use measure::numbers;
use netio::replay::candidate::Candidate;
use plot::html::{Cell, Page};
use plot::text::{self, Align};
use serde_json::{Value, json};
use sim::tcp::congestion::{CONTROLS, of_most_hosts};
use sim::tcp::control::ControlKind;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Send the packets of a capture or a recording through a policy, in simulated time, and compare
/// what each class gets with another policy. Or do a recording again, packet by packet, as it was
#[derive(Debug, Args)]
pub struct Replay {
    /// The capture, pcap or pcapng; headers suffice. Or a recording of `suimon record save`
    #[arg(value_name = "CAPTURE|RECORDING")]
    capture: PathBuf,
    /// The policy to try; without one a recording is done again by its own
    #[arg(long, value_name = "NEW")]
    policy: Option<String>,
    /// Show the packets of a recording around this moment: a time of the day, a date and time, or
    /// how long after its beginning
    #[arg(long, value_name = "TIME", conflicts_with_all = ["policy", "against", "interface", "report", "closed"])]
    at: Option<String>,
    /// How long before and after it
    #[arg(long, value_name = "TIME", default_value = "10 ms", requires = "at")]
    around: Duration,
    /// Make the TCP connections of the capture again as senders that answer to delays and losses
    #[arg(long)]
    closed: bool,
    /// Their congestion control, which a capture does not tell; by default that of most hosts
    #[arg(long, value_name = "NAME", default_value = of_most_hosts().name, requires = "closed")]
    control: String,
    /// The policy to compare it with
    #[arg(long, value_name = "OLD")]
    against: Option<String>,
    /// The interface of the policies whose packets the capture has; by default the only one
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page with tables and charts into this directory
    #[arg(long, value_name = "DIRECTORY")]
    report: Option<PathBuf>,
    /// The seed of what disciplines draw at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What was in the capture, and who sent it, where they answer.
struct Seen {
    read: CaptureRead,
    senders: Option<Senders>,
}

/// One policy and what it did.
struct Tried {
    file: String,
    interface: InterfacePolicy,
    classes: Vec<ClassFigures>,
}

/// What an open loop cannot tell.
const OPEN_LOOP: &str = "Open loop: packets arrive as they were captured. What a sender would have \
                         done with other delays and losses is not known, nor what was lost before \
                         the capture, nor what other interfaces or queues added to a delay.";

impl Replay {
    /// Replays it.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let tries = self.policy.is_some() || self.against.is_some() || self.closed;
        if !tries && recreated::is_recording(&self.capture) {
            let moment = self.at.as_deref().map(|at| (at, self.around));
            return recreated::show(&self.capture, moment, self.json, cx);
        }
        let Some(policy) = self.policy.as_ref().filter(|_| self.at.is_none()) else {
            let shown = self.capture.display();
            return Err(Failure::usage(match recreated::is_recording(&self.capture) {
                true => "say with --policy what is to be tried with the packets of this recording".into(),
                false => format!(
                    "{shown} is no recording of suimon: say with --policy what is to be tried with this capture"
                ),
            }));
        };
        let files = [self.against.as_ref(), Some(policy)];
        let files = files.into_iter().flatten();
        let mut tried = Vec::new();
        for file in files {
            let interface = captured::interface(file, self.interface.as_deref(), cx.registry)?;
            tried.push((file.clone(), interface));
        }
        let (seen, tried) = match self.closed {
            true => self.close(tried, cx.registry)?,
            false => self.open(tried, cx.registry)?,
        };
        if self.json {
            writeln!(cx.out, "{}", to_json(&seen, &tried))?;
        } else {
            show(cx.out, &seen, &tried)?;
        }
        if let Some(directory) = &self.report {
            self.report(directory, &seen, &tried)?;
        }
        Ok(Exit::Done)
    }

    /// Gives the capture's packets to each.
    fn open(
        &self,
        policies: Vec<(String, InterfacePolicy)>,
        registry: &Registry,
    ) -> Result<(Seen, Vec<Tried>), Failure> {
        let candidates = policies
            .iter()
            .map(|(_, interface)| candidate(interface, Seed(self.seed)));
        let mut candidates = candidates.collect::<io::Result<Vec<Candidate>>>()?;
        let read = captured::read(&self.capture, registry, &mut |at, frame, bytes| {
            for candidate in &mut candidates {
                let arrived = candidate.arrive(at, Bytes::new(frame.into()), bytes, &mut |_| {});
                arrived.map_err(|why| Failure::at_run_time(why.to_string()))?;
            }
            Ok(())
        })?;
        let end = Instant::START + read.span;
        candidates
            .iter_mut()
            .for_each(|candidate| candidate.run_until(end, &mut |_| {}));
        let tried = policies.into_iter().zip(&mut candidates);
        let tried = tried.map(|((file, interface), candidate)| Tried {
            classes: figures(&interface, &candidate.show(), read.span),
            file,
            interface,
        });
        let tried = tried.collect();
        Ok((Seen { read, senders: None }, tried))
    }

    /// Makes the capture's senders again before each.
    fn close(
        &self,
        policies: Vec<(String, InterfacePolicy)>,
        registry: &Registry,
    ) -> Result<(Seen, Vec<Tried>), Failure> {
        let control = self.control()?;
        let mut flows = Flows::default();
        let read = captured::read(&self.capture, registry, &mut |at, frame, bytes| {
            flows.add(at, frame, bytes);
            Ok(())
        })?;
        let senders = Some(Senders::of(&flows, control));
        let tried = policies.into_iter().map(|(file, interface)| Tried {
            classes: closed_loop::run(&flows, &interface, control, Seed(self.seed)),
            file,
            interface,
        });
        Ok((Seen { read, senders }, tried.collect()))
    }

    fn control(&self) -> Result<&'static ControlKind, Failure> {
        let names = || CONTROLS.iter().map(|control| control.name);
        let found = CONTROLS.iter().find(|control| control.name == self.control);
        found.copied().ok_or_else(|| {
            engine::settings::unknown("congestion control", &self.control, Default::default(), names()).into()
        })
    }

    fn report(&self, directory: &Path, seen: &Seen, tried: &[Tried]) -> Result<(), Failure> {
        let name = self.capture.file_stem().unwrap_or_default().to_string_lossy();
        let path = directory.join(format!("{name}.html"));
        let written = fs::create_dir_all(directory).and_then(|()| fs::write(&path, page(&name, seen, tried)));
        written.map_err(|why| {
            let path = path.display();
            Failure::at_run_time(format!(
                "cannot write `{path}`: {why}; choose another directory with --report"
            ))
        })
    }
}

/// The classes of all, in the order of the last policy, with what each policy did.
fn joined(tried: &[Tried]) -> Vec<(String, Vec<Option<&ClassFigures>>)> {
    let mut names: Vec<&str> = Vec::new();
    for class in tried.iter().rev().flat_map(|tried| &tried.classes) {
        if !names.contains(&class.class.as_str()) {
            names.push(&class.class);
        }
    }
    let of = |tried: &'_ Tried, name: &str| tried.classes.iter().position(|class| class.class == name);
    let row = |name: &str| {
        let all = tried.iter().map(|one| of(one, name).map(|at| &one.classes[at]));
        (name.to_owned(), all.collect())
    };
    names.into_iter().map(row).collect()
}

/// A figure: what it is called, and how it is shown.
type Figure = (&'static str, fn(&Figures) -> String);

const FIGURES: &[Figure] = &[
    ("rate", |f| numbers::rate(f.rate_bps)),
    ("p50", |f| numbers::time(f.p50_ns)),
    ("p99", |f| numbers::time(f.p99_ns)),
    ("drops", |f| numbers::count(f.dropped)),
];

/// The table: a figure of one policy, or `old → new`.
fn rows(tried: &[Tried]) -> Vec<Vec<String>> {
    let mut rows = vec![vec!["class".to_owned()]];
    rows[0].extend(FIGURES.iter().map(|(name, ..)| (*name).to_owned()));
    for (class, all) in joined(tried) {
        let mut row = vec![class];
        for (_, shown) in FIGURES {
            let each: Vec<String> = all
                .iter()
                .map(|figures| figures.map_or_else(|| "-".to_owned(), |class| shown(&class.figures)))
                .collect();
            row.push(match each.as_slice() {
                [old, new] if old != new => format!("{old} → {new}"),
                all => all.last().cloned().unwrap_or_default(),
            });
        }
        rows.push(row);
    }
    rows
}

fn summary(seen: &Seen, tried: &[Tried]) -> String {
    let policies: Vec<String> = tried
        .iter()
        .map(|tried| format!("{} ({})", tried.file, tried.interface.name))
        .collect();
    format!(
        "{} packets, {} in {}; {}",
        numbers::count(seen.read.packets),
        numbers::bytes(seen.read.bytes),
        numbers::time(seen.read.span.nanos()),
        policies.join(" → ")
    )
}

/// What is estimated, assumed, and not known.
fn limits(seen: &Seen) -> Vec<String> {
    match &seen.senders {
        Some(senders) => senders.lines(),
        None => vec![OPEN_LOOP.into()],
    }
}

fn show(out: &mut dyn Write, seen: &Seen, tried: &[Tried]) -> io::Result<()> {
    writeln!(out, "{}", summary(seen, tried))?;
    let columns = [
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ];
    for line in text::table(&rows(tried), &columns) {
        writeln!(out, "{line}")?;
    }
    (seen.read.missing())
        .into_iter()
        .chain(limits(seen))
        .try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(())
}

fn to_json(seen: &Seen, tried: &[Tried]) -> Value {
    let of = |class: &Option<&ClassFigures>| class.map(|class| class.figures);
    let classes = joined(tried)
        .into_iter()
        .map(|(class, all)| match all.as_slice() {
            [old, new] => json!({"class": class, "against": of(old), "policy": of(new)}),
            all => json!({"class": class, "policy": all.last().and_then(of)}),
        });
    json!({
        "packets": seen.read.packets,
        "bytes": seen.read.bytes,
        "span_ns": seen.read.span.nanos(),
        "without_ports": seen.read.blind,
        "without_headers": seen.read.forgotten,
        "loop": if seen.senders.is_some() { "closed" } else { "open" },
        "senders": seen.senders.as_ref().map(Senders::to_json),
        "classes": classes.collect::<Vec<_>>(),
    })
}

fn page(name: &str, seen: &Seen, tried: &[Tried]) -> String {
    let mut page = Page::new(&format!("What if: {name}"));
    page.paragraph(&summary(seen, tried));
    let rows = rows(tried);
    let head: Vec<&str> = rows[0].iter().map(String::as_str).collect();
    let body: Vec<Vec<Cell>> = rows[1..]
        .iter()
        .map(|row| row.iter().map(Cell::new).collect())
        .collect();
    page.table(&head, &body);
    for tried in tried {
        let curves: Vec<(&str, Vec<(f64, f64)>)> = tried
            .classes
            .iter()
            .filter(|class| class.figures.sent > 0)
            .map(|class| (class.class.as_str(), plot::cumulated(&class.steps())))
            .collect();
        let title = format!("Delays by {}", tried.file);
        page.heading(&title);
        page.picture(
            &plot::picture(&title, &[plot::delays(&title, &curves)]),
            "packets of each class that waited at most so long",
        );
    }
    let said = seen.read.missing().into_iter().chain(limits(seen));
    said.for_each(|said| page.paragraph(&said));
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use netio::capture_file::Writer;
    use std::fs::File;

    const FRAME: u16 = 1_500;

    /// 10 s of 12 Mbit/s to port 80 and 1.2 Mbit/s to port 5060, in a folder of its own.
    fn capture(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("suimon-replay-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("evening.pcapng");
        let mut writer = Writer::new(File::create(&path).expect("a file"), &["eth0"]).expect("a capture");
        for number in 0..11_000u64 {
            let port = if number % 11 == 10 { 5_060 } else { 80 };
            let at = 1_700_000_000_000_000_000 + number * 10_000_000_000 / 11_000;
            let headers = captured::headers(port, FRAME);
            writer.beginning(at, 0, &headers, FRAME.into()).expect("written");
        }
        writer.flush().expect("written");
        path
    }

    fn policy(folder: &Path, name: &str, discipline: &str) -> String {
        let path = folder.join(name);
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"{discipline}\"\n\
             [[interface.wan0.class]]\nname = \"calls\"\nrate = \"20 %\"\ndiscipline = \"fifo\"\n\
             [[interface.wan0.class]]\nname = \"rest\"\nrate = \"80 %\"\ndefault = true\n\
             discipline = {{ kind = \"fifo\", limit = 40 }}\n\
             [[interface.wan0.filter]]\nclass = \"calls\"\ndestination_port = 5060\n"
        );
        fs::write(&path, text).expect("written");
        path.to_string_lossy().into_owned()
    }

    fn plain(folder: &Path) -> String {
        let path = folder.join("plain.toml");
        let text = "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\n\
                    discipline = { kind = \"fifo\", limit = 100 }\n";
        fs::write(&path, text).expect("written");
        path.to_string_lossy().into_owned()
    }

    fn replayed(replay: &Replay) -> Result<String, String> {
        let registry = Registry::builtin();
        let mut out = Vec::new();
        let done = replay.run(&mut Context {
            registry: &registry,
            out: &mut out,
        });
        done.map(|_| String::from_utf8(out).expect("text"))
            .map_err(|failure| failure.message)
    }

    /// A command line of this verb.
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        replay: Replay,
    }

    #[test]
    fn senders_have_the_control_of_most_hosts_unless_another_is_named() {
        let control = |more: &[&str]| {
            let line = [
                &["replay", "evening.pcap", "--policy", "new.toml", "--closed"],
                more,
            ]
            .concat();
            Line::parse_from(line).replay.control().expect("there is one")
        };
        assert!(control(&[]).default_of.contains(&"Linux"));
        for named in CONTROLS {
            assert_eq!(control(&["--control", named.name]), *named);
        }
    }

    fn replay(capture: PathBuf, policy: String) -> Replay {
        Replay {
            closed: false,
            control: of_most_hosts().name.into(),
            capture,
            policy: Some(policy),
            at: None,
            around: Duration::from_millis(10),
            against: None,
            interface: None,
            json: true,
            report: None,
            seed: 1,
        }
    }

    /// The link sends 10 of 13.2 Mbit/s offered: who loses what is known beforehand.
    #[test]
    fn each_class_has_what_its_policy_gives_it() {
        let capture = capture("classes");
        let folder = capture.parent().expect("a folder").to_owned();
        let mut replay = replay(capture, policy(&folder, "new.toml", "cbq"));
        replay.against = Some(plain(&folder));
        replay.report = Some(folder.clone());
        let read: Value = serde_json::from_str(&replayed(&replay).expect("played")).expect("JSON");
        let class = |name: &str| {
            let all = read["classes"].as_array().expect("classes");
            let found = all.iter().find(|class| class["class"] == name);
            found.unwrap_or_else(|| panic!("{name} in {read}")).clone()
        };
        let (calls, rest, all) = (class("calls"), class("rest"), class("all"));
        let near = |value: &Value, wanted: f64, part: f64| {
            let value = value.as_f64().expect("a number");
            assert!(
                (value - wanted).abs() <= wanted * part,
                "{value}, not {wanted}: {read}"
            );
        };
        near(&calls["policy"]["rate_bps"], 1_200_000.0, 0.01);
        assert_eq!(calls["policy"]["dropped"], 0);
        near(&rest["policy"]["rate_bps"], 8_800_000.0, 0.01);
        // 3.2 of 12 Mbit/s for 10 s, but for the 40 packets that are queued.
        near(&rest["policy"]["dropped"], 3.2e7 / 12_000.0 - 40.0, 0.01);
        // A full queue of 40 at its rate; a packet of the other class waits for one at most.
        near(&rest["policy"]["p50_ns"], 40.0 * 12_000.0 / 8.8e6 * 1e9, 0.05);
        assert!(
            calls["policy"]["p99_ns"].as_u64().expect("a time") < 3_000_000,
            "{read}"
        );
        // Everything in one queue of 100 waits for it.
        near(&all["against"]["rate_bps"], 10_000_000.0, 0.01);
        near(&all["against"]["p50_ns"], 0.120e9, 0.03);
        near(&all["against"]["dropped"], 3.2e7 / 12_000.0 - 100.0, 0.01);
        assert_eq!(read["packets"], 11_000);
        let page = fs::read_to_string(folder.join("evening.html")).expect("a page");
        assert!(page.contains("calls") && page.contains("Open loop"), "{page}");
        replay.json = false;
        let table = replayed(&replay).expect("played");
        assert!(table.contains("calls") && table.contains("Open loop"), "{table}");
        // Datagrams answer to nobody: the closed loop finds the same.
        (replay.json, replay.closed) = (true, true);
        let closed: Value = serde_json::from_str(&replayed(&replay).expect("played")).expect("JSON");
        assert_eq!(
            (&closed["loop"], &closed["senders"]["tcp_senders"]),
            (&json!("closed"), &json!(0))
        );
        for (one, other) in [(&closed, &read), (&read, &closed)] {
            let (one, other) = (&one["classes"], &other["classes"]);
            let figure =
                |of: &Value, class: usize, key: &str| of[class]["policy"][key].as_f64().expect("a number");
            for class in 0..2 {
                assert_eq!(one[class]["class"], other[class]["class"]);
                for key in ["rate_bps", "p50_ns", "p99_ns", "dropped"] {
                    let (one, other) = (figure(one, class, key), figure(other, class, key));
                    assert!(one <= other * 1.05 + 1.0, "{class}, {key}: {one} and {other}");
                }
            }
        }
        replay.json = false;
        let table = replayed(&replay).expect("played");
        assert!(
            table.contains("Closed loop") && table.contains(of_most_hosts().name),
            "{table}"
        );
        replay.control = "cubik".into();
        let said = replayed(&replay).expect_err("no such control");
        assert!(said.contains("did you mean `cubic`?"), "{said}");
        fs::remove_dir_all(folder).expect("removed");
    }

    /// A recording that overloads its queue, tried with other policies: its packets are those that
    /// it has, however they fared.
    #[test]
    fn the_packets_of_a_recording_are_tried_with_another_policy_in_both_loops() {
        let folder = std::env::temp_dir().join(format!("suimon-replay-recorded-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/recordings/");
        let new = policy(&folder, "new.toml", "cbq");
        let mut tried = replay(Path::new(corpus).join("drops"), new.clone());
        tried.against = Some(plain(&folder));
        for closed in [false, true] {
            tried.closed = closed;
            let read: Value = serde_json::from_str(&replayed(&tried).expect("played")).expect("JSON");
            // 20 of them left, and 20 were dropped.
            assert_eq!(
                (&read["packets"], &read["without_headers"]),
                (&json!(40), &json!(0)),
                "{read}"
            );
            assert_eq!(read["loop"], if closed { "closed" } else { "open" });
            let sent = |of: &str| -> u64 {
                let all = read["classes"].as_array().expect("classes").iter();
                all.filter_map(|class| class[of]["sent"].as_u64()).sum()
            };
            assert!(sent("policy") > 0 && sent("against") > 0, "{read}");
        }
        // Of its older packets it has the lengths alone.
        let read = replayed(&replay(Path::new(corpus).join("drops-short"), new)).expect("played");
        let read: Value = serde_json::from_str(&read).expect("JSON");
        let [with, without] = ["packets", "without_headers"].map(|key| read[key].as_u64().expect("a number"));
        assert!(without > 0 && with + without == 40, "{read}");
        tried.policy = None;
        let said = replayed(&tried).expect_err("no policy");
        assert!(said.contains("--policy"), "{said}");
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn what_is_no_capture_or_names_no_interface_is_refused() {
        let capture = capture("refused");
        let folder = capture.parent().expect("a folder").to_owned();
        let new = policy(&folder, "new.toml", "cbq");
        let mut other = replay(PathBuf::from(&new), new.clone());
        let said = replayed(&other).expect_err("no capture");
        assert!(said.contains("new.toml") && said.contains("pcap"), "{said}");
        other.capture = capture;
        other.interface = Some("wan1".into());
        let said = replayed(&other).expect_err("no such interface");
        assert!(said.contains("did you mean `wan0`?"), "{said}");
        fs::remove_dir_all(folder).expect("removed");
    }
}
