//! The control plane with 10 to 100,000 classes of several kinds and a filter each, by the program
//! itself on a veth pair: `check`, `run` until it answers, `status`, one class set, added and
//! removed, by name and by `apply` of a file, and the memory; each beside its goal. How long the
//! packet loop pauses meanwhile is measured by `cargo bench -p gateway --bench changes`.
//!
//! `cargo bench --package suimon --bench control_plane [-- CLASSES…]`. Medians; and the most, of
//! the largest policy. Requests are timed at the client, over the socket. Generations are not kept
//! on a disk.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use control::difference::Breaking;
use control::protocol::{AddedClass, RemovedClass, Reply, Request, SettingChange, SettingChanges};
use control::snapshot::StatusDetail;
use control::socket::Client;
use lab::{Host, Lab, Running};
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const INTERVAL: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: usize = 5;

const SIZES: [usize; 3] = [10, 10_000, 100_000];
/// A kind, and a setting of a class with two values.
const KINDS: [Classes; 4] = [
    Classes {
        kind: "drr",
        key: "weight",
        values: ["1", "2"],
    },
    Classes {
        kind: "hfsc",
        key: "linkshare",
        values: ["50 kbit/s", "90 kbit/s"],
    },
    Classes {
        kind: "cbq",
        key: "rate",
        values: ["50 kbit/s", "90 kbit/s"],
    },
    Classes {
        kind: "wrr",
        key: "weight",
        values: ["1", "2"],
    },
];

/// The classes of a policy.
struct Classes {
    kind: &'static str,
    key: &'static str,
    values: [&'static str; 2],
}

impl Classes {
    /// So many, of each address, which a filter names; class `other` has the second value.
    fn text(&self, classes: usize, other: Option<usize>) -> String {
        let mut text = format!(
            "version = 1\n[port]\negress = \"eth0\"\n[interface.eth0]\nbandwidth = \"10 Gbit/s\"\n\
             discipline = \"{}\"\n",
            self.kind
        );
        for class in 0..classes {
            let default = class == 0;
            let value = self.values[usize::from(other == Some(class))];
            let quote = if value.parse::<u64>().is_ok() { "" } else { "\"" };
            let _ = write!(
                text,
                "[[interface.eth0.class]]\nname = \"c{class}\"\ndefault = {default}\ndiscipline = \"fifo\"\n\
                 {} = {quote}{value}{quote}\n\
                 [[interface.eth0.filter]]\nclass = \"c{class}\"\ndestination = \"{}\"\n",
                self.key,
                address(class)
            );
        }
        text
    }
}

fn address(class: usize) -> String {
    let [_, b, c, d] = u32::try_from(class).unwrap_or(u32::MAX).to_be_bytes();
    format!("10.{b}.{c}.{d}")
}

fn word(key: &str, value: &str) -> (String, SettingChange) {
    (key.to_owned(), SettingChange::from_word(value))
}

/// Times of one thing.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn time<T>(&mut self, act: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let start = Instant::now();
        let done = act()?;
        self.0.push(start.elapsed());
        Ok(done)
    }

    /// Beyond what was waited for.
    fn beyond(mut self, waited: Duration) -> Self {
        self.0
            .iter_mut()
            .for_each(|time| *time = time.saturating_sub(waited));
        self
    }

    fn row(mut self, what: &'static str, goal: Duration) -> Row {
        self.0.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Row {
            what,
            median: ms(self.0[self.0.len() / 2]),
            most: ms(self.0[self.0.len() - 1]),
            goal: ms(goal),
            unit: "ms",
        }
    }
}

/// What was measured of one thing.
struct Row {
    what: &'static str,
    median: f64,
    most: f64,
    goal: f64,
    unit: &'static str,
}

/// The rows of each size, beside each other.
fn show(classes: &Classes, sizes: &[usize], rows: &[Vec<Row>]) {
    let heads: String = sizes.iter().map(|size| format!(" {size:>8}")).collect();
    let title = format!("classes of {}, a filter each", classes.kind);
    println!("{title:<50}{heads}     most     goal");
    for (index, largest) in rows[rows.len() - 1].iter().enumerate() {
        let Row { what, most, goal, .. } = *largest;
        let medians = || rows.iter().map(|of| of[index].median);
        let shown: String = medians().map(|median| format!(" {median:>8.1}")).collect();
        let met = medians().all(|median| median <= goal);
        let verdict = if met { "met" } else { "missed" };
        println!(
            "{what:<50}{shown} {most:>8.1} {goal:>8.0} {} {verdict}",
            largest.unit
        );
    }
}

/// A host with the program.
struct Rig {
    _lab: Lab,
    host: Host,
    folder: PathBuf,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Rig {
    fn new(classes: &Classes, many: usize) -> Outcome<Self> {
        let mut lab = Lab::new();
        let (host, peer) = (lab.host("a")?, lab.host("b")?);
        lab.veth((&host, "eth0"), (&peer, "eth0"))?;
        host.address("eth0", "10.200.0.1/24".parse()?)?;
        let folder = std::env::temp_dir().join(format!("suimon-control-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let file = |name: &str, many, other| std::fs::write(folder.join(name), classes.text(many, other));
        file("policy.toml", many, None)?;
        file("other.toml", many, Some(many / 2))?;
        file("more.toml", many + 1, None)?;
        Ok(Self {
            _lab: lab,
            host,
            folder,
        })
    }

    fn policy(&self) -> PathBuf {
        self.folder.join("policy.toml")
    }

    fn apply(&self, client: &mut Client, file: &str) -> Outcome<Reply> {
        let request = Request::Apply {
            file: self.folder.join(file).display().to_string(),
            confirm_within_ms: None,
            break_reservations: Breaking::Refused,
            reason: None,
        };
        ask(client, &request)
    }

    fn socket(&self) -> String {
        self.folder.join("bench.sock").display().to_string()
    }

    /// Runs a verb to its end.
    fn verb(&self, arguments: &[&Path]) -> Outcome {
        let program = self.host.program(env!("CARGO_BIN_EXE_suimon"));
        let output = program.args(arguments).limit(PATIENCE).output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{arguments:?}: {}", output.err).into()),
        }
    }

    /// Begins `run`, and waits until it answers.
    fn run(&self) -> Outcome<Running> {
        let program = self.host.program(env!("CARGO_BIN_EXE_suimon"));
        let policy = self.policy().display().to_string();
        let running = program
            .args(["run", &policy, "--socket", &self.socket()])
            .limit(10 * PATIENCE)
            .start()?;
        let until = Instant::now() + PATIENCE;
        while self
            .client()
            .and_then(|mut client| ask(&mut client, &Request::Version {}))
            .is_err()
        {
            if !running.is_running() || Instant::now() > until {
                return Err(running.kill()?.err.into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(running)
    }

    fn client(&self) -> Outcome<Client> {
        Client::connect(Some(&self.socket())).map_err(|why| why.to_string().into())
    }
}

fn ask(client: &mut Client, request: &Request) -> Outcome<Reply> {
    match client.ask(request).map_err(|why| why.to_string())? {
        Reply::Refused(why) => Err(why.to_string().into()),
        reply => Ok(reply),
    }
}

/// Memory of a process: what it has, and the most it had, in MB.
fn memory(process: u32) -> Outcome<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let of = |key: &str| -> Outcome<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        Ok(kilobytes.ok_or("no such line")?.parse::<u64>()? * 1024 / 1_000_000)
    };
    Ok((of("VmRSS:")?, of("VmHWM:")?))
}

/// One class set, added and removed.
fn one_class(client: &mut Client, classes: &Classes, many: usize) -> Outcome<[Times; 3]> {
    let [mut set, mut added, mut removed] = [(); 3].map(|()| Times::default());
    let interface = || "eth0".to_owned();
    for round in 0..4 * ROUNDS {
        let class = format!("c{}", (many / 2 + round) % many);
        let request = Request::Set(SettingChanges {
            interface: interface(),
            class: Some(class),
            changes: [word(classes.key, classes.values[1 - round / many % 2])].into(),
            until_ms: None,
            reason: None,
        });
        set.time(|| ask(client, &request))?;
        let class = format!("new{round}");
        let request = Request::AddClass(AddedClass {
            interface: interface(),
            class: class.clone(),
            settings: [word(classes.key, classes.values[1]), word("discipline", "fifo")].into(),
            filters: vec![[word("destination", &address(many + round))].into()],
            quota: None,
            until_ms: None,
            reason: None,
        });
        added.time(|| ask(client, &request))?;
        let request = Request::RemoveClass(RemovedClass {
            interface: interface(),
            class,
            until_ms: None,
            reason: None,
        });
        removed.time(|| ask(client, &request))?;
    }
    Ok([set, added, removed])
}

/// One class set, added and removed by another text of the file.
fn one_class_of_a_file(rig: &Rig, client: &mut Client) -> Outcome<[Times; 3]> {
    let [mut set, mut added, mut removed] = [(); 3].map(|()| Times::default());
    for _ in 0..ROUNDS {
        added.time(|| rig.apply(client, "more.toml"))?;
        removed.time(|| rig.apply(client, "policy.toml"))?;
        set.time(|| rig.apply(client, "other.toml"))?;
        rig.apply(client, "policy.toml")?;
    }
    Ok([set, added, removed])
}

fn measure(classes: &Classes, many: usize) -> Outcome<Vec<Row>> {
    let rig = Rig::new(classes, many)?;
    let ms = Duration::from_millis;
    let mut check = Times::default();
    for _ in 0..ROUNDS {
        check.time(|| rig.verb(&[Path::new("check"), &rig.policy()]))?;
    }
    let mut ready = Times::default();
    for _ in 1..ROUNDS {
        ready.time(|| rig.run())?.kill()?;
        let _ = std::fs::remove_file(rig.socket());
    }
    let program = ready.time(|| rig.run())?;
    let begun = memory(program.id())?;
    let [mut server, mut verb] = [(); 2].map(|()| Times::default());
    for _ in 0..ROUNDS {
        let mut client = rig.client()?;
        server.time(|| {
            let status = client.status_with(INTERVAL, false, StatusDetail::Brief);
            status.map(drop).map_err(|why| why.to_string().into())
        })?;
        let socket = rig.socket();
        verb.time(|| rig.verb(&[Path::new("status"), Path::new("--socket"), Path::new(&socket)]))?;
    }
    let (server, verb) = (server.beyond(INTERVAL), verb.beyond(INTERVAL));
    let mut client = rig.client()?;
    let applied = one_class_of_a_file(&rig, &mut client)?;
    let [set, added, removed] = one_class(&mut client, classes, many)?;
    let ended = memory(program.id())?;
    // It differs in all that was set by name.
    rig.apply(&mut client, "policy.toml")?;
    let most = memory(program.id())?.1;
    program.kill()?;
    let [set_by_file, added_by_file, removed_by_file] = applied;
    let mut rows = vec![
        check.row("check", ms(1_000)),
        ready.row("run, until its socket answers", ms(2_000)),
        server.row("status, beyond its interval: request and reply", ms(300)),
        verb.row("status, beyond its interval: the whole verb", ms(300)),
        set.row("one class set", ms(5)),
        added.row("one class added, with a filter", ms(5)),
        removed.row("one class removed", ms(5)),
        set_by_file.row("one class set, by apply of a file", ms(5)),
        added_by_file.row("one class added, by apply of a file", ms(5)),
        removed_by_file.row("one class removed, by apply of a file", ms(5)),
    ];
    let memory = [
        ("memory in force, at the start", begun.0),
        ("memory after all these requests", ended.0),
        ("memory, the most until then", ended.1),
        ("memory, the most beside an apply of the whole", most),
    ];
    rows.extend(memory.map(|(what, megabytes)| Row {
        what,
        median: megabytes as f64,
        most: megabytes as f64,
        goal: 250.0,
        unit: "MB",
    }));
    Ok(rows)
}

fn main() -> Outcome {
    let said: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let sizes = if said.is_empty() { SIZES.to_vec() } else { said };
    for classes in &KINDS {
        let rows: Result<Vec<_>, _> = sizes.iter().map(|&many| measure(classes, many)).collect();
        show(classes, &sizes, &rows?);
    }
    Ok(())
}
