//! The control plane with 100,000 classes of `drr` and a filter each, by the program itself on a
//! veth pair: `check`, `run` until it answers, `status`, one class set, added and removed, and the
//! memory; each beside its goal. How long the packet loop pauses meanwhile is measured by `cargo
//! bench -p gateway --bench changes`.
//!
//! `cargo bench --package suimon --bench control_plane [-- CLASSES]`. Medians, with the most.
//! Requests are timed at the client, over the socket. Generations are not kept on a disk.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

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

/// A class of each address, which its filter names.
fn policy_text(classes: usize) -> String {
    let mut text = "version = 1\n[port]\negress = \"eth0\"\n[interface.eth0]\nbandwidth = \"10 Gbit/s\"\n\
                    discipline = \"drr\"\n"
        .to_owned();
    for class in 0..classes {
        let default = class == 0;
        let _ = write!(
            text,
            "[[interface.eth0.class]]\nname = \"c{class}\"\ndefault = {default}\ndiscipline = \"fifo\"\n\
             [[interface.eth0.filter]]\nclass = \"c{class}\"\ndestination = \"{}\"\n",
            address(class)
        );
    }
    text
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

    fn show(mut self, what: &str, goal: Duration) {
        self.0.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (median, most) = (self.0[self.0.len() / 2], self.0[self.0.len() - 1]);
        let (median, most, goal) = (ms(median), ms(most), ms(goal));
        println!("{what:<52} {median:>8.1} {most:>8.1} {goal:>8.0}  ms");
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
    fn new(classes: usize) -> Outcome<Self> {
        let mut lab = Lab::new();
        let (host, peer) = (lab.host("a")?, lab.host("b")?);
        lab.veth((&host, "eth0"), (&peer, "eth0"))?;
        host.address("eth0", "10.200.0.1/24".parse()?)?;
        let folder = std::env::temp_dir().join(format!("suimon-control-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("policy.toml"), policy_text(classes))?;
        Ok(Self {
            _lab: lab,
            host,
            folder,
        })
    }

    fn policy(&self) -> PathBuf {
        self.folder.join("policy.toml")
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
fn one_class(client: &mut Client, classes: usize) -> Outcome<[Times; 3]> {
    let [mut set, mut added, mut removed] = [(); 3].map(|()| Times::default());
    let interface = || "eth0".to_owned();
    for round in 0..4 * ROUNDS {
        let class = format!("c{}", classes / 2 + round);
        let request = Request::Set(SettingChanges {
            interface: interface(),
            class: Some(class),
            changes: [word("weight", "2")].into(),
            until_ms: None,
            reason: None,
        });
        set.time(|| ask(client, &request))?;
        let class = format!("new{round}");
        let request = Request::AddClass(AddedClass {
            interface: interface(),
            class: class.clone(),
            settings: [word("weight", "2"), word("discipline", "fifo")].into(),
            filters: vec![[word("destination", &address(classes + round))].into()],
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

fn measure(classes: usize) -> Outcome {
    let rig = Rig::new(classes)?;
    let ms = Duration::from_millis;
    println!("{classes} classes of drr, a filter each               median     most     goal");
    let mut check = Times::default();
    for _ in 0..ROUNDS {
        check.time(|| rig.verb(&[Path::new("check"), &rig.policy()]))?;
    }
    check.show("check", ms(1_000));
    let mut ready = Times::default();
    for _ in 1..ROUNDS {
        ready.time(|| rig.run())?.kill()?;
        let _ = std::fs::remove_file(rig.socket());
    }
    let program = ready.time(|| rig.run())?;
    ready.show("run, until its socket answers", ms(2_000));
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
    server
        .beyond(INTERVAL)
        .show("status, beyond its interval: request and reply", ms(300));
    verb.beyond(INTERVAL)
        .show("status, beyond its interval: the whole verb", ms(300));
    let [set, added, removed] = one_class(&mut rig.client()?, classes)?;
    set.show("one class set", ms(5));
    added.show("one class added, with a filter", ms(5));
    removed.show("one class removed", ms(5));
    let ended = memory(program.id())?;
    for (what, memory) in [
        ("memory in force, at the start", begun.0),
        ("memory after all these requests", ended.0),
        ("memory, the most it ever had", ended.1),
    ] {
        println!("{what:<52} {memory:>8} {:>8} {:>8}  MB", "", 250);
    }
    program.kill()?;
    Ok(())
}

fn main() -> Outcome {
    let said = std::env::args().find_map(|word| word.parse().ok());
    measure(said.unwrap_or(100_000))
}
