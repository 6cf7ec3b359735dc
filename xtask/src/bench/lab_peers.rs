//! `cargo xtask bench lab-peers`: the link of `suimon lab` beside those of others, in turns in one
//! run, and beside what such a link does in theory: Rattan's, which emulates paths in user space
//! too, and the kernel's token bucket, `tbf`, which has no delay.
//!
//! The same stream of datagrams goes through each; the receiver's kernel stamps its arrivals. All
//! of it runs as an ordinary user, in the namespaces of a lab; where root runs the bench, before
//! what else the machine does. Rattan comes from crates.io into `target/peers`; the workspace does
//! not depend on it.

use super::peers::{middle, printed};
use lab::published::Published;
use serde_json::Value;
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const RATTAN: &str = "0.1.1";
/// The profile of the program that is measured, as of the wheel's and the page's comparisons.
const PROFILE: &str = "release-tests";
const SCRIPT: &str = include_str!("lab_peers.sh");
/// How often each has its turn.
const TURNS: usize = 5;
/// What a stream lasts, in seconds.
const TIME: u64 = 5;
/// Bytes of a datagram's payload, of its IP packet, and of its frame without FCS.
const PAYLOAD: u64 = 1_222;
const PACKET: u64 = PAYLOAD + 28;
const FRAME: u64 = PACKET + 14;
/// The rate may be off by so much, in per cent.
const OFF: f64 = 0.1;
/// Of SCHED_FIFO.
const PRIORITY: &str = "10";
/// An ordinary user, where root runs the bench.
const NOBODY: u32 = 65_534;

/// Whose link it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Emulator {
    Suimon,
    Rattan,
    Tbf,
}

const EMULATORS: [Emulator; 3] = [Emulator::Suimon, Emulator::Rattan, Emulator::Tbf];

impl Emulator {
    const fn name(self) -> &'static str {
        match self {
            Self::Suimon => "suimon",
            Self::Rattan => "rattan",
            Self::Tbf => "tbf",
        }
    }

    /// What of a datagram takes time on the link: Rattan counts IP packets.
    const fn counted(self) -> u64 {
        match self {
            Self::Rattan => PACKET,
            Self::Suimon | Self::Tbf => FRAME,
        }
    }
}

/// A link, and what is offered to it.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Both in bit/s.
    rate: u64,
    offered: u64,
    /// In milliseconds, each way.
    delay: u64,
}

/// Overloaded, its rate is seen; half loaded, its delay.
const CASES: [Case; 4] = [
    Case::new(12, 18),
    Case::new(12, 6),
    Case::new(100, 130),
    Case::new(100, 50),
];

impl Case {
    /// A link of so many Mbit/s, and as many that are offered.
    const fn new(rate: u64, offered: u64) -> Self {
        Self {
            rate: rate * 1_000_000,
            offered: offered * 1_000_000,
            delay: 20,
        }
    }

    const fn is_overloaded(self) -> bool {
        self.offered > self.rate
    }

    /// A tenth of a second.
    const fn buffer(self) -> u64 {
        self.rate / 80
    }
}

/// What the receiver counted of one stream.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Received {
    /// The rate of its IP packets, in bit/s.
    rate: f64,
    /// In nanoseconds.
    median: f64,
    p99: f64,
}

impl Received {
    /// From the receiver's JSON.
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("the receiver printed\n{text}");
        let all: Value = serde_json::from_str(text).map_err(|_| wrong())?;
        let stream = all.as_array().and_then(|streams| streams.first());
        let stream = stream.or_else(|| all["streams"].get(0)).ok_or_else(wrong)?;
        let number = |value: &Value| value.as_f64().ok_or_else(wrong);
        Ok(Self {
            rate: number(&stream["rate_payload_bits_per_second"])? * PACKET as f64 / PAYLOAD as f64,
            median: number(&stream["delay_ns"]["median"])?,
            p99: number(&stream["delay_ns"]["p99"])?,
        })
    }

    /// How far the rate is from what the link carries, in per cent.
    fn rate_off(self, case: Case, emulator: Emulator) -> f64 {
        let carried = case.rate as f64 * PACKET as f64 / emulator.counted() as f64;
        (self.rate / carried - 1.0) * 100.0
    }

    /// What the median and 99 of 100 datagrams took beyond the link's own time, in microseconds.
    fn beyond(self, case: Case, emulator: Emulator) -> [f64; 2] {
        let delay = if emulator == Emulator::Tbf { 0 } else { case.delay };
        let own = delay as f64 * 1e6 + emulator.counted() as f64 * 8e9 / case.rate as f64;
        [self.median, self.p99].map(|took| (took - own) / 1e3)
    }
}

/// The programs, where an ordinary user may run them.
struct Programs {
    files: Published,
    suimon: String,
    rattan: String,
}

impl Programs {
    fn built(root: &Path) -> Result<Self, String> {
        let build = ["build", "--quiet", "--profile", PROFILE, "--package", "suimon"];
        printed(Command::new("cargo").args(build).current_dir(root))?;
        let path = |path: PathBuf| path.display().to_string();
        let suimon = path(root.join("target").join(PROFILE).join("suimon"));
        let rattan = path(rattan(root)?);
        Ok(Self {
            files: Published::new(&[&suimon, &rattan]),
            suimon,
            rattan,
        })
    }

    /// A command that an ordinary user runs.
    fn user(&self, program: &str) -> Command {
        let mut command = Command::new(self.files.path(program));
        command.current_dir(std::env::temp_dir()).stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command.env("NO_COLOR", "1");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn measured(&self, emulator: Emulator, case: Case) -> Result<Received, String> {
        let mut lab = self.user(&self.suimon);
        lab.args(["lab", "--", "sh", "-c", SCRIPT])
            .env("EMULATOR", emulator.name())
            .env("SUIMON", self.files.path(&self.suimon))
            .env("RATTAN", self.files.path(&self.rattan));
        for (name, value) in [
            ("RATE", case.rate),
            ("OFFERED", case.offered),
            ("DELAY", case.delay),
            ("BUFFER", case.buffer()),
            ("TIME", TIME),
            ("PAYLOAD", PAYLOAD),
        ] {
            lab.env(name, value.to_string());
        }
        let output = lab.output().map_err(|why| format!("{}: {why}", self.suimon))?;
        match output.status.success() {
            true => Received::read(&String::from_utf8_lossy(&output.stdout)),
            false => Err(format!("{emulator:?}, {case:?}: {}", told(&output))),
        }
    }

    /// What an ordinary user gets who runs each directly, for a ping through 20 ms.
    fn without_root(&self) -> String {
        let suimon = ["lab", "--delay", "20ms", "--", "ping", "-c", "1", "100.64.0.1"];
        let rattan = ["link", "--uplink-delay", "20ms", "--", "true"];
        [(&self.suimon, &suimon[..]), (&self.rattan, &rattan[..])]
            .map(|(program, arguments)| {
                let name = Path::new(program).file_name().unwrap_or_default().display();
                let arguments_text = arguments.join(" ");
                let outcome = match self.user(program).args(arguments).output() {
                    Ok(output) if output.status.success() => "works".to_owned(),
                    Ok(output) => format!("fails: {}", reason(&told(&output))),
                    Err(why) => why.to_string(),
                };
                format!("- As an ordinary user, `{name} {arguments_text}` {outcome}")
            })
            .join("\n")
    }
}

/// Rattan's program, built if it is not there yet.
fn rattan(root: &Path) -> Result<PathBuf, String> {
    let place = root.join("target/peers/rattan");
    let program = place.join("bin/rattan");
    let version = Command::new(&program).arg("--version").output();
    if version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(RATTAN)) {
        return Ok(program);
    }
    let mut install = Command::new("cargo");
    install.args(["install", "rattan", "--version", RATTAN, "--locked", "--root"]);
    printed(install.arg(&place))?;
    Ok(program)
}

/// The links of all, as a table.
pub fn table(root: &Path) -> Result<String, String> {
    let programs = Programs::built(root)?;
    let priority = before_others()?;
    let mut turns = CASES.map(|_| EMULATORS.map(|_| Vec::new()));
    for turn in 1..=TURNS {
        eprintln!("turn {turn} of {TURNS}");
        for (case, of_case) in CASES.into_iter().zip(&mut turns) {
            for (emulator, received) in EMULATORS.into_iter().zip(of_case) {
                received.push(programs.measured(emulator, case)?);
            }
        }
    }
    let mut text = format!(
        "A stream of datagrams of {PACKET} B over a link of 20 ms for {TIME} s, {TURNS} turns: the median of the turns, and the \
         least and the most. Rattan's rate counts IP packets, the others' frames; the kernel's `tbf` has no delay.{priority}\n\n\
         | link | offered | | `suimon lab` | Rattan {RATTAN} | kernel's `tbf` | |\n|---:|---:|---|---:|---:|---:|---|\n"
    );
    for (case, of_case) in CASES.into_iter().zip(&turns) {
        text += &rows(case, of_case);
    }
    let _ = write!(text, "\n{}", programs.without_root());
    Ok(text)
}

/// What was measured of one link: its rate, or its delays.
fn rows(case: Case, received: &[Vec<Received>; 3]) -> String {
    let by_emulator = |of: &dyn Fn(Received, Emulator) -> f64| {
        let mut each = EMULATORS.into_iter().zip(received);
        let values = |(emulator, turns): (Emulator, &Vec<Received>)| {
            turns.iter().map(|&turn| of(turn, emulator)).collect()
        };
        std::array::from_fn::<Vec<f64>, 3, _>(|_| each.next().map_or_else(Vec::new, values))
    };
    let row = |what: &str, values: &[Vec<f64>; 3], digits: usize, verdict: &str| {
        let cells: Vec<String> = values.iter().map(|values| signed(values, digits)).collect();
        format!(
            "| {} Mbit/s | {} Mbit/s | {what} | {} | {verdict} |\n",
            case.rate / 1_000_000,
            case.offered / 1_000_000,
            cells.join(" | ")
        )
    };
    let judged = |met: bool| if met { "met" } else { "missed" };
    if case.is_overloaded() {
        let off = by_emulator(&|received, emulator| received.rate_off(case, emulator));
        let met = middle(&off[0]).abs() <= OFF;
        return row("rate, % off theory (goal: 0.1)", &off, 3, judged(met));
    }
    let [median, p99] =
        [0, 1].map(|which| by_emulator(&|received, emulator| received.beyond(case, emulator)[which]));
    let met = middle(&p99[0]) <= middle(&p99[1]);
    row("delay beyond theory, median, µs", &median, 0, "")
        + &row(
            "the same, 99 of 100 (goal: no more than Rattan's)",
            &p99,
            0,
            judged(met),
        )
}

/// The median, with the least and the most; zero has no sign.
fn signed(values: &[f64], digits: usize) -> String {
    let text = |value: f64| {
        let text = format!("{value:.digits$}");
        match text.trim_start_matches(['-', '0', '.']).is_empty() {
            true => text.trim_start_matches('-').to_owned(),
            false => text.replace('-', "−"),
        }
    };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} ({} to {})", text(middle(values)), text(least), text(most))
}

/// What it said to its user: Rattan logs to its output.
fn told(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr];
    texts
        .map(|text| String::from_utf8_lossy(text))
        .concat()
        .trim()
        .to_owned()
}

/// Its last line, without a log's time and level.
fn reason(text: &str) -> &str {
    let last = text.lines().next_back().unwrap_or_default();
    last.split_once(" ERROR ").map_or(last, |(_, reason)| reason)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// What this process starts from now on runs before all that has no real-time priority, where root
/// may say so: what else the machine does is not measured.
fn before_others() -> Result<String, String> {
    if !is_root() {
        return Ok(String::new());
    }
    let own = std::process::id().to_string();
    printed(Command::new("chrt").args(["--fifo", "--pid", PRIORITY, &own]))?;
    Ok(format!(
        " All of it had the real-time priority {PRIORITY} (SCHED_FIFO), before what else the machine did."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A payload of 9.776 Mbit/s is 10 Mbit/s of IP packets.
    const PRINTED: &str = r#"[{ "rate_payload_bits_per_second": 9776000.0,
        "delay_ns": { "median": 21000000, "p99": 22500000 } }]"#;

    #[test]
    fn rate_and_delay_are_held_against_what_each_link_counts() {
        let received = Received::read(PRINTED).expect("as printed");
        assert_eq!(received.rate, 10e6);
        let case = Case {
            rate: 10_000_000,
            offered: 20_000_000,
            delay: 20,
        };
        assert_eq!(received.rate_off(case, Emulator::Rattan), 0.0);
        let framed = received.rate_off(case, Emulator::Suimon);
        assert!((framed - 1.12).abs() < 1e-6, "{framed}");
        assert_eq!(received.beyond(case, Emulator::Rattan), [0.0, 1_500.0]);
        assert_eq!(received.beyond(case, Emulator::Tbf)[0], 21_000.0 - 1_011.2);
        assert!(Received::read("[]").is_err());
    }

    #[test]
    fn a_row_says_whether_the_goal_is_met() {
        let turn = |median, p99| {
            vec![Received {
                rate: 6e6,
                median,
                p99,
            }]
        };
        let slow = [turn(21e6, 22e6), turn(21e6, 23e6), turn(1e6, 2e6)];
        let half = Case::new(12, 6);
        assert!(rows(half, &slow).ends_with("| met |\n"), "{}", rows(half, &slow));
        let worse = [turn(21e6, 24e6), turn(21e6, 23e6), turn(1e6, 2e6)];
        assert!(rows(half, &worse).ends_with("| missed |\n"));
        let full = rows(Case::new(12, 18), &slow);
        assert!(
            full.contains("−49.440") && full.ends_with("| missed |\n"),
            "{full}"
        );
        assert_eq!(signed(&[-0.0001, -2.5, 1.0], 3), "0.000 (−2.500 to 1.000)");
        let log = "2026 WARN rattan: retrying\n2026 ERROR rattan: EPERM: no";
        assert_eq!(reason(log), "rattan: EPERM: no");
    }
}
