//! `suimon upgrade`: another program takes the place of the one that runs, while packets flow.
//!
//! It begins the other program, of its own version, which does the work ([`gateway::heir`]), and
//! waits until that manages all or has given up; then the one that ran goes on.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::log::LogOptions;
use crate::source;
use clap::Args;
use control::socket::{self, Client};
use engine::tree::Registry;
use gateway::Error;
use gateway::confined::Sandbox;
use gateway::enforce::{Origin, enforce};
use gateway::heir::Heir;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// What the program that took over says on its standard output.
const DONE: &str = "it manages all";

/// What a service manager has told the program that runs, and the next has to know.
const OF_THE_SERVICE: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "JOURNAL_STREAM"];

/// Replace the suimon that runs by this program, while packets flow: it takes over the interfaces,
/// the policy in force with what was set, and the packets that wait; if it does not work out, the
/// one that runs goes on
#[derive(Debug, Args)]
pub struct Upgrade {
    /// The running suimon, by name or by the path of its socket; by default the only one
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
    /// Do nothing if this program is the one that runs
    #[arg(long)]
    if_other: bool,
    /// Be the program that takes over, until it is ended, as `run` is; by default that is begun in
    /// the background
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    log: LogOptions,
}

impl Upgrade {
    /// Runs it.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let path = socket::find(self.socket.as_deref())?;
        let path = path.to_string_lossy().into_owned();
        match self.foreground {
            true => self.take_over(&path, cx),
            false => self.begin(&path, cx.out),
        }
    }

    /// Takes over, and manages from then on.
    fn take_over(&self, path: &str, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        self.log.begin();
        let (out, registry) = (&mut *cx.out, cx.registry);
        let mut told = false;
        let done = manage(path, registry, &mut || {
            if !std::mem::replace(&mut told, true) {
                // Whoever began it may not wait any more.
                let _ = writeln!(out, "{DONE}").and_then(|()| out.flush());
            }
        });
        done.map(|()| Exit::Done)
    }

    /// Begins the program that takes over, and waits for what comes of it.
    fn begin(&self, path: &str, out: &mut dyn Write) -> Result<Exit, Failure> {
        let former = Client::connect(Some(path))?.process();
        let former = former.ok_or_else(|| Failure::at_run_time("cannot tell which process runs there"))?;
        if self.if_other && is_this_program(former) {
            writeln!(out, "process {former} is this program already")?;
            return Ok(Exit::Done);
        }
        refuse_services(former)?;
        let mut next = Command::new(std::env::current_exe()?);
        next.args(["upgrade", "--foreground", "--socket", path])
            .args(self.log.arguments())
            .envs(of_the_service(former))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // What is typed at this terminal is not for it.
            .process_group(0);
        let mut next = next.spawn()?;
        let mut said = String::new();
        let stdout = next.stdout.take().map(BufReader::new);
        let read = stdout.map(|mut stdout| stdout.read_line(&mut said));
        if said.trim_end() == DONE {
            writeln!(
                out,
                "process {} manages in the place of process {former}",
                next.id()
            )?;
            return Ok(Exit::Done);
        }
        read.transpose()?;
        let ended = next.wait()?;
        Err(Failure::at_run_time(format!(
            "the program that was to take over has ended ({ended}), and process {former} goes on"
        )))
    }
}

/// Takes the place of the program that serves this socket, and manages until it is ended. `each` is
/// called again and again from then on.
fn manage(path: &str, registry: &Registry, each: &mut dyn FnMut()) -> Result<(), Failure> {
    let heir = Heir::of(Some(path))?;
    let made_of = heir.made_of();
    let policy = source::made(&made_of, registry)?;
    let state = heir.generations().map_err(Failure::at_run_time)?;
    let (file, name) = (heir.file(), heir.offer().name.clone());
    let sandbox = match heir.offer().confined {
        true => Sandbox::On,
        false => Sandbox::Off,
    };
    let origin = Origin {
        file: file.as_deref(),
        state,
        made_of,
        sandbox,
        heir: Some(heir),
    };
    let mut watch = |_: &_| -> io::Result<()> {
        each();
        Ok(())
    };
    enforce(&policy, registry, origin, &name, path, &mut watch).map_err(Error::into)
}

/// Whether a process runs the same program as this one: the same file, not another one of its name.
fn is_this_program(process: i32) -> bool {
    let file = |path: String| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let theirs = file(format!("/proc/{process}/exe"));
    theirs.is_some() && theirs == file("/proc/self/exe".into())
}

/// Refuses to take over from a service of systemd from outside it: that would lose the service's
/// limits, and be ended with the shell's session.
fn refuse_services(process: i32) -> Result<(), Failure> {
    let group = |of: &str| {
        let groups = fs::read_to_string(format!("/proc/{of}/cgroup")).unwrap_or_default();
        let last = groups.lines().last().and_then(|line| line.rsplit('/').next());
        last.unwrap_or_default().to_owned()
    };
    let (theirs, ours) = (group(&process.to_string()), group("self"));
    if !theirs.ends_with(".service") || theirs == ours {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "process {process} is {theirs}; `systemctl reload {theirs}` has the service do this itself"
    )))
}

/// What a process has from its service manager.
fn of_the_service(process: i32) -> Vec<(String, String)> {
    let all = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&all).into_owned();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(key, _)| OF_THE_SERVICE.contains(key))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
