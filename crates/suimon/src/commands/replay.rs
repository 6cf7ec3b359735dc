//! `suimon replay`: what another policy would do with the packets of a capture.
//!
//! With `--closed` its TCP connections are made again as senders ([`closed_loop`]).
//!
//! Otherwise open loop: packets arrive when they were captured, whatever becomes of those before
//! them. A sender that would have slowed down, or sped up, does not. So drops and delays of traffic
//! that answers to them are those of the first moments, not of what would settle; the output says
//! so.

use crate::closed_loop::{self, Flows, Senders};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::recreated;
use crate::source;
use clap::Args;
use control::policy::InterfacePolicy;
use control::what_if::Figures;
use engine::random::Seed;
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use gateway::what_if::{ClassFigures, candidate, figures};
use measure::numbers;
use netio::ports::pcap::{PcapRecord, Reader};
use netio::replay::candidate::Candidate;
use plot::html::{Cell, Page};
use plot::text::{self, Align};
use serde_json::{Value, json};
use sim::tcp::congestion::{CONTROLS, of_most_hosts};
use sim::tcp::control::ControlKind;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

/// Send the packets of a capture through a policy, in simulated time, and compare what each class
/// gets with another policy. Or do a recording again, packet by packet, as it was
#[derive(Debug, Args)]
pub struct Replay {
    /// The capture, pcap or pcapng; headers suffice. Or a recording of `suimon record save`
    #[arg(value_name = "CAPTURE|RECORDING")]
    capture: PathBuf,
    /// The policy; a recording has its own
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

/// One policy and what it did.
struct Tried {
    file: String,
    interface: InterfacePolicy,
    classes: Vec<ClassFigures>,
}

/// What was in the capture.
#[derive(Default)]
struct Seen {
    packets: u64,
    bytes: u64,
    /// Of packets whose captured part ends before their ports.
    blind: u64,
    span: Duration,
    /// Who sent it, where they answer.
    senders: Option<Senders>,
}

/// What is done with a packet: its time, the length of its frame, and its beginning.
type Each<'a> = dyn FnMut(Instant, u32, &[u8]) -> Result<(), Failure> + 'a;

/// What an open loop cannot tell.
const OPEN_LOOP: &str = "Open loop: packets arrive as they were captured. What a sender would have \
                         done with other delays and losses is not known, nor what was lost before \
                         the capture, nor what other interfaces or queues added to a delay.";

/// The longest frame, tag included.
const LONGEST_FRAME: u32 = 65_535 + 18;

impl Replay {
    /// Replays it.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        if recreated::is_recording(&self.capture) {
            if self.policy.is_some() || self.against.is_some() || self.closed {
                return Err(Failure::usage(
                    "a recording is done again by the policies in it; another policy takes a capture",
                ));
            }
            let moment = self.at.as_deref().map(|at| (at, self.around));
            return recreated::show(&self.capture, moment, self.json, cx);
        }
        let Some(policy) = self.policy.as_ref().filter(|_| self.at.is_none()) else {
            let shown = self.capture.display();
            return Err(Failure::usage(format!(
                "{shown} is no recording of suimon: say with --policy what is to be tried with this capture"
            )));
        };
        let files = [self.against.as_ref(), Some(policy)];
        let files = files.into_iter().flatten();
        let mut tried = Vec::new();
        for file in files {
            let interface = self.interface(file, cx.registry)?;
            if interface.autorate.is_some() {
                return Err(Failure::usage(format!(
                    "in {file} the rate of {} follows its line (`autorate`), which no capture has: leave that out to try the rest",
                    interface.name
                )));
            }
            tried.push((file.clone(), interface));
        }
        let (seen, tried) = match self.closed {
            true => self.close(tried)?,
            false => self.open(tried)?,
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

    fn interface(&self, file: &str, registry: &Registry) -> Result<InterfacePolicy, Failure> {
        let policy = source::policy(file, registry)?;
        let names = || policy.interfaces.iter().map(|interface| interface.name.as_str());
        match (&self.interface, policy.interfaces.as_slice()) {
            (None, [only]) => Ok(only.clone()),
            (None, _) => {
                let names: Vec<&str> = names().collect();
                Err(Failure::usage(format!(
                    "{file} manages {}; say with --interface whose packets the capture has",
                    names.join(", ")
                )))
            }
            (Some(name), _) => policy.interface(name).cloned().ok_or_else(|| {
                engine::settings::unknown("interface", name, Default::default(), names()).into()
            }),
        }
    }

    /// Gives the capture's packets to each.
    fn open(&self, policies: Vec<(String, InterfacePolicy)>) -> Result<(Seen, Vec<Tried>), Failure> {
        let candidates = policies
            .iter()
            .map(|(_, interface)| candidate(interface, Seed(self.seed)));
        let mut candidates = candidates.collect::<io::Result<Vec<Candidate>>>()?;
        let seen = self.read(&mut |at, frame, bytes| {
            for candidate in &mut candidates {
                let arrived = candidate.arrive(at, Bytes::new(frame.into()), bytes, &mut |_| {});
                arrived.map_err(|why| Failure::at_run_time(why.to_string()))?;
            }
            Ok(())
        })?;
        let end = Instant::START + seen.span;
        candidates
            .iter_mut()
            .for_each(|candidate| candidate.run_until(end, &mut |_| {}));
        let tried = policies.into_iter().zip(&mut candidates);
        let tried = tried.map(|((file, interface), candidate)| Tried {
            classes: figures(&interface, &candidate.show(), seen.span),
            file,
            interface,
        });
        let tried = tried.collect();
        Ok((seen, tried))
    }

    /// Makes the capture's senders again before each.
    fn close(&self, policies: Vec<(String, InterfacePolicy)>) -> Result<(Seen, Vec<Tried>), Failure> {
        let control = self.control()?;
        let mut flows = Flows::default();
        let mut seen = self.read(&mut |at, frame, bytes| {
            flows.add(at, frame, bytes);
            Ok(())
        })?;
        seen.senders = Some(Senders::of(&flows, control));
        let tried = policies.into_iter().map(|(file, interface)| Tried {
            classes: closed_loop::run(&flows, &interface, control, Seed(self.seed)),
            file,
            interface,
        });
        Ok((seen, tried.collect()))
    }

    fn control(&self) -> Result<&'static ControlKind, Failure> {
        let names = || CONTROLS.iter().map(|control| control.name);
        let found = CONTROLS.iter().find(|control| control.name == self.control);
        found.copied().ok_or_else(|| {
            engine::settings::unknown("congestion control", &self.control, Default::default(), names()).into()
        })
    }

    /// Reads the capture, packet by packet: the time since the first, the length of the frame, and
    /// its beginning.
    fn read(&self, each: &mut Each<'_>) -> Result<Seen, Failure> {
        let shown = self.capture.display();
        let wrong = |why: &dyn std::fmt::Display| Failure::usage(format!("{shown}: {why}"));
        let file = File::open(&self.capture).map_err(|why| wrong(&why))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(|why| wrong(&why))?;
        let mut seen = Seen::default();
        let (mut bytes, mut first, mut last) = (Vec::new(), None, 0);
        while let Some(record) = reader.next(&mut bytes).map_err(|why| wrong(&why))? {
            let PcapRecord { at, original, .. } = record;
            if original > LONGEST_FRAME {
                return Err(wrong(&format!(
                    "a packet of {original} bytes is longer than a frame can be"
                )));
            }
            let begin = *first.get_or_insert(at);
            if at < begin {
                return Err(wrong(
                    &"a packet is earlier than the first one; sort it: reordercap IN OUT",
                ));
            }
            last = last.max(at);
            seen.packets += 1;
            seen.bytes += u64::from(original);
            seen.blind += u64::from(is_blind(&bytes, original));
            let at = Instant::START + Duration::from_nanos(at - begin);
            bytes.truncate(netio::replay::event::KEPT);
            each(at, original.max(bytes.len() as u32), &bytes)?;
        }
        let Some(begin) = first else {
            return Err(wrong(&"no packet is in it"));
        };
        seen.span = Duration::from_nanos(last - begin);
        Ok(seen)
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

/// Whether a packet's ports may be beyond what was captured of it.
fn is_blind(bytes: &[u8], original: u32) -> bool {
    let parsed = engine::header::Headers::parse(bytes, 0);
    let has_ports = matches!(parsed.key.protocol, 6 | 17 | 132 | 33 | 136);
    (bytes.len() as u32) < original && has_ports && parsed.key.destination_port.is_none()
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
        numbers::count(seen.packets),
        numbers::bytes(seen.bytes),
        numbers::time(seen.span.nanos()),
        policies.join(" → ")
    )
}

fn blind(seen: &Seen) -> Option<String> {
    (seen.blind > 0).then(|| {
        format!(
            "{} packets were captured too short to have their ports: filters on ports do not take them; \
             capture 96 bytes of each",
            numbers::count(seen.blind)
        )
    })
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
    blind(seen)
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
        "packets": seen.packets,
        "bytes": seen.bytes,
        "span_ns": seen.span.nanos(),
        "without_ports": seen.blind,
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
    let said = blind(seen).into_iter().chain(limits(seen));
    said.for_each(|said| page.paragraph(&said));
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use netio::ports::pcap::Writer;

    const FRAME: u32 = 1_500;

    /// A frame of UDP to this port, of which the headers alone were captured.
    fn headers(port: u16) -> Vec<u8> {
        let mut frame = vec![0; 42];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&(FRAME as u16 - 14).to_be_bytes());
        (frame[22], frame[23]) = (64, 17);
        frame[26..30].copy_from_slice(&[10, 0, 0, 1]);
        frame[30..34].copy_from_slice(&[10, 0, 0, 2]);
        frame[34..36].copy_from_slice(&9_000u16.to_be_bytes());
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    }

    /// 10 s of 12 Mbit/s to port 80 and 1.2 Mbit/s to port 5060, in a folder of its own.
    fn capture(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("suimon-replay-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("evening.pcapng");
        let mut writer = Writer::new(File::create(&path).expect("a file"), &["eth0"]).expect("a capture");
        for number in 0..11_000u64 {
            let port = if number % 11 == 10 { 5_060 } else { 80 };
            let at = 1_700_000_000_000_000_000 + number * 10_000_000_000 / 11_000;
            writer.beginning(at, 0, &headers(port), FRAME).expect("written");
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
