//! `cargo xtask bench [PART…]`: runs the benches and writes what they print into
//! `docs/benchmarks.md`, with the date, the commit, the machine and its limits. Other documents
//! refer to that page for figures.
//!
//! Peers run in turn with ours inside each bench, as the bench says; the parts `peers` and
//! `lab-peers`, which need programs of others, only where they are named. Not part of CI: it needs
//! a quiet machine, root for network namespaces, and some ten minutes.

mod lab_peers;
mod peers;

use crate::{instructions, marked};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = "docs/benchmarks.md";
/// What measures the machine's limits.
const LIMITS: &[&str] = &["--package", "measure", "--bench", "limits"];
const END: &str = "<!-- end of measured -->";

/// A bench, and what it measures.
struct Part {
    name: &'static str,
    title: &'static str,
    measured: By,
}

/// What measures a part.
enum By {
    /// `cargo bench` with these arguments.
    Bench(&'static [&'static str]),
    /// A function, with programs of others.
    Peers(fn(&Path) -> Result<String, String>),
}

const PARTS: [Part; 12] = [
    Part {
        name: "engine",
        title: "Disciplines, pacing, classification: ns for one enqueue and one dequeue, or one lookup",
        measured: By::Bench(&["--package", "engine", "--bench", "cost"]),
    },
    Part {
        name: "simulator",
        title: "The simulator",
        measured: By::Bench(&["--package", "sim", "--bench", "dumbbell"]),
    },
    Part {
        name: "rsvp",
        title: "RSVP sessions",
        measured: By::Bench(&["--package", "rsvp", "--bench", "sessions"]),
    },
    Part {
        name: "directions",
        title: "Two directions by one worker, and by a worker each",
        measured: By::Bench(&["--package", "gateway", "--bench", "directions"]),
    },
    Part {
        name: "changes",
        title: "A class added, removed and changed while the packet loop runs",
        measured: By::Bench(&["--package", "gateway", "--bench", "changes"]),
    },
    Part {
        name: "control",
        title: "The control plane, beside its goals",
        measured: By::Bench(&["--package", "suimon", "--bench", "control_plane"]),
    },
    Part {
        name: "tape",
        title: "What a tape and a shadow cost the packet loop",
        measured: By::Bench(&["--package", "netio", "--bench", "tape"]),
    },
    Part {
        name: "experience",
        title: "What it takes to watch users' connections (goal: 30 ns a packet)",
        measured: By::Bench(&["--package", "netio", "--bench", "experience"]),
    },
    Part {
        name: "wire",
        title: "The bump in the wire, beside the kernel's bridge and HTB",
        measured: By::Bench(&["--package", "suimon", "--bench", "bridge"]),
    },
    Part {
        name: "nine",
        title: "nine, beside plain TCP",
        measured: By::Bench(&["--package", "suimon", "--bench", "nine"]),
    },
    Part {
        name: "peers",
        title: "Beside DPDK's scheduler: ns a packet, in bursts",
        measured: By::Peers(peers::table),
    },
    Part {
        name: "lab-peers",
        title: "A link of the lab, beside Rattan's and the kernel's",
        measured: By::Peers(lab_peers::table),
    },
];

/// Runs the named parts, or all, and writes each into the page when it is done.
pub fn run(root: &Path, names: &[String]) -> Result<(), String> {
    let unknown = names
        .iter()
        .find(|name| PARTS.iter().all(|part| part.name != **name));
    if let Some(name) = unknown {
        let all: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        return Err(format!("there is no part `{name}`; there are {}", all.join(", ")));
    }
    let chosen = |part: &&Part| match names.is_empty() {
        true => matches!(part.measured, By::Bench(_)),
        false => names.iter().any(|name| name == part.name),
    };
    write(root, "machine", "The machine", &machine(root)?)?;
    for part in PARTS.iter().filter(chosen) {
        let before = load();
        let printed = match part.measured {
            By::Bench(arguments) => measured(root, part.name, arguments)?,
            By::Peers(table) => table(root)?,
        };
        let text = format!("{}\n\n{printed}", when(root, before)?);
        write(root, part.name, part.title, &text)?;
    }
    Ok(())
}

/// The date, the version, and how many processes were running before and are now.
pub fn when(root: &Path, before: f64) -> Result<String, String> {
    let root = root.display().to_string();
    Ok(format!(
        "{}; commit {}; processes that were running: {before:.1} before, {:.1} at the end.",
        output("date", &["-u", "+%Y-%m-%d"])?,
        output("git", &["-C", &root, "describe", "--always", "--dirty"])?,
        load(),
    ))
}

/// What a bench prints, shown as it comes.
fn measured(root: &Path, name: &str, arguments: &[&str]) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("{name}: {e}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut bench = Command::new(cargo)
        .arg("bench")
        .args(arguments)
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut printed = String::new();
    for line in bench
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
    {
        let line = line.map_err(failed)?;
        println!("{line}");
        printed += line.trim_end();
        printed.push('\n');
    }
    match bench.wait().map_err(failed)?.success() {
        true => Ok(fenced(&printed)),
        false => Err(format!("{name}: the bench failed")),
    }
}

/// Markdown tables as they are, other text as it was printed.
fn fenced(printed: &str) -> String {
    match printed.starts_with('|') {
        true => printed.trim_end().to_owned(),
        false => format!("```text\n{}\n```", printed.trim_end()),
    }
}

/// Writes one part into the page; one that is not there yet is appended.
fn write(root: &Path, name: &str, title: &str, text: &str) -> Result<(), String> {
    let path = root.join(PAGE);
    let mark = format!("<!-- measured: {name}, by `cargo xtask bench` -->");
    let mut page = std::fs::read_to_string(&path).unwrap_or_else(|_| "# Benchmarks\n".to_owned());
    if !page.contains(&mark) {
        page += &format!("\n## {title}\n\n{mark}\n{END}\n");
    }
    let page = marked::replaced(&page, &mark, END, text)
        .ok_or_else(|| format!("{PAGE}: `{mark}` has no `{END}`"))?;
    std::fs::write(&path, page).map_err(|e| format!("{PAGE}: {e}"))
}

/// The processor, the kernel, and what no program can do faster here.
fn machine(root: &Path) -> Result<String, String> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| cpuinfo.lines().find(|line| line.starts_with(key));
    let model = of("model name")
        .and_then(|line| line.split_once(": "))
        .map_or("unknown", |(_, model)| model);
    let processors = cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let hypervisor = of("flags").is_some_and(|flags| flags.contains(" hypervisor"));
    let guest = if hypervisor { ", a virtual machine" } else { "" };
    Ok(format!(
        "{model}, {processors} processors{guest}, Linux {}, {}.\n\n{}",
        output("uname", &["-r"])?,
        instructions::compiler()?,
        measured(root, "machine", LIMITS)?
    ))
}

/// How many processes were running or ready on average over the last minute.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or(f64::NAN)
}

pub fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}
