//! `suimon nine -- CMD`, also as `nine`: runs a command whose TCP connections yield to all other
//! traffic of the host while the link is busy (the paper's `nine -WINDOW COMMAND`, by Shiokawa,
//! Honda and Yuba). `nine -p PID` controls a running process. `nine top` is in `nine_top`.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::run_directory;
use control::text_file;
use engine::units::Bandwidth;
use host::coordinate::Rendezvous;
use host::coordinate::message::MemberProfile;
use host::interface;
use host::process_filter::{ControlGroup, ProcessFilter};
use host::rules;
use host::supervise::{self, SupervisionPlan, SupervisionTarget, UdpPolicer};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory of root's bottlenet settings, for all users.
const HOST_DIRECTORY: &str = "/run/suimon-host";
/// A window below this is less than one segment.
const SEGMENT: u64 = 1_448;
/// The largest window that the paper's system allows.
const MAX_WINDOW: u64 = 32_767;

/// Run a command whose TCP connections yield to all other traffic while the link is busy; no root
/// needed
#[derive(Debug, Args)]
#[command(
    override_usage = "suimon nine [-WINDOW | --weight W | --cap RATE | --floor RATE] [--] CMD...\n       \
                      suimon nine [...] -p PID\n       suimon nine [...] --unit NAME\n       \
                      suimon nine [...] --container ID\n       suimon nine [...] --cgroup PATH\n       \
                      suimon nine [...] --behind NAME\n       suimon nine --service FILE [--systemd]\n       suimon nine top [--json]",
    after_help = "The exit status is the command's; 127 if it is not found, 126 if it cannot be started."
)]
pub struct Nine {
    /// Control a running process and its descendants, until it ends or you press ctrl-c
    #[arg(short, long, value_name = "PID", group = "running")]
    pid: Option<i32>,
    /// Control the processes of a systemd unit, until you press ctrl-c; `*` stands for any
    /// characters
    #[arg(long, value_name = "NAME", group = "running", value_parser = ControlGroup::unit)]
    unit: Option<ControlGroup>,
    /// Control the processes of a container, by 6 or more digits of its identifier
    #[arg(long, value_name = "ID", group = "running", value_parser = ControlGroup::container)]
    container: Option<ControlGroup>,
    /// Control the processes of a control group and of those below it
    #[arg(long, value_name = "PATH", group = "running", value_parser = ControlGroup::at)]
    cgroup: Option<ControlGroup>,
    /// Its weight relative to other commands under nine
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    weight: u32,
    /// Its maximum rate, also while the link is free
    #[arg(long, value_name = "RATE")]
    cap: Option<Bandwidth>,
    /// The rate below which it need not yield
    #[arg(long, value_name = "RATE")]
    floor: Option<Bandwidth>,
    /// The paper's law: clamp windows to this many bytes while the link (bottlenet) is full; also
    /// as -WINDOW
    #[arg(long, value_name = "WINDOW", value_parser = clap::value_parser!(u64).range(1..=MAX_WINDOW),
          conflicts_with_all = ["weight", "cap", "floor"])]
    window: Option<u64>,
    /// As root: lower windows in the ACKs that leave by the link's interface, and borrow no sockets
    #[arg(long)]
    rewrite: bool,
    /// Control the programs that the rules of this file choose, until you press ctrl-c: a rule is a
    /// line such as `program restic borg` or `unit apt-daily* hours 08:00-18:00 cap 5Mbit/s`
    #[arg(long, value_name = "FILE", group = "running",
          conflicts_with_all = ["weight", "cap", "floor", "window", "rewrite", "udp", "interface"])]
    service: Option<PathBuf>,
    /// Print a systemd unit that runs this service, once its file is found right
    #[arg(long, requires = "service")]
    systemd: bool,
    /// As root: control all connections of the hosts behind this interface, until you press ctrl-c
    #[arg(long, value_name = "NAME", group = "running")]
    behind: Option<String>,
    /// As root: police its UDP, QUIC included, at this rate in each direction; the excess is
    /// dropped
    #[arg(long, value_name = "RATE", conflicts_with = "behind")]
    udp: Option<Bandwidth>,
    /// The link's interface, with --rewrite, --behind or --udp [default: that of the default route]
    #[arg(short, long, value_name = "NAME")]
    interface: Option<String>,
    /// The command and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "CMD",
        required_unless_present = "running",
        conflicts_with = "running"
    )]
    command: Vec<OsString>,
}

impl Nine {
    /// Runs the command to its end, then ends this process with the same status.
    ///
    /// # Errors
    ///
    /// If the arguments are wrong or supervision cannot start.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        if let Some(file) = &self.service {
            return self.serve(file, cx);
        }
        if let (Some(floor), Some(cap)) = (self.floor, self.cap)
            && floor > cap
        {
            return Err(Failure::usage(format!(
                "the floor of {floor} is above the cap of {cap}"
            )));
        }
        if let Some(window) = self.window.filter(|window| *window < SEGMENT) {
            eprintln!(
                "nine: a window of {window} bytes is less than a segment of {SEGMENT}: almost nothing passes \
                 while the link is full"
            );
        }
        let directory = make_directory(&directory())?;
        let link = self.link()?;
        let (target, command) = self.target()?;
        let profile = MemberProfile {
            pid: std::process::id(),
            command,
            weight: self.weight,
            cap_bps: self.cap.map(Bandwidth::bits),
            floor_bps: self.floor.map(Bandwidth::bits),
            window: self.window,
            chosen: matches!(target, SupervisionTarget::Chosen(_)),
        };
        let error = supervise::run(SupervisionPlan {
            target,
            profile,
            rendezvous: Rendezvous::new(&directory, setting_directories()),
            police: link
                .clone()
                .zip(self.udp)
                .map(|(interface, rate)| UdpPolicer { interface, rate }),
            rewrite: link.filter(|_| self.rewrite || self.behind.is_some()),
        });
        Err(Failure::at_run_time(error.to_string()))
    }

    /// Runs the rules of a file, each in processes of its own, or prints a unit that does.
    fn serve(&self, file: &Path, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let text = text_file::read(file, text_file::LONGEST)
            .map_err(|e| Failure::usage(format!("cannot read {}: {e}", file.display())))?;
        let rules = rules::parse(&text).map_err(|mistakes| {
            let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            Failure::usage(format!("{}: {}", file.display(), mistakes.join("\n  ")))
        })?;
        if self.systemd {
            return print_unit(file, cx);
        }
        let directory = make_directory(&directory())?;
        let plan = |rule: rules::ServiceRule| SupervisionPlan {
            target: SupervisionTarget::Chosen(rule.filter),
            profile: MemberProfile {
                pid: std::process::id(),
                command: format!("rule {}: {}", rule.line, rule.text),
                weight: rule.weight,
                cap_bps: rule.cap.map(Bandwidth::bits),
                floor_bps: rule.floor.map(Bandwidth::bits),
                window: None,
                chosen: true,
            },
            rendezvous: Rendezvous::new(&directory, setting_directories()),
            police: None,
            rewrite: None,
        };
        let error = supervise::run_all(rules.into_iter().map(plan).collect());
        Err(Failure::at_run_time(error.to_string()))
    }

    /// What to control, and how it is shown.
    fn target(&self) -> Result<(SupervisionTarget, String), Failure> {
        if let Some(name) = &self.behind {
            let target = SupervisionTarget::Behind(name.clone());
            return Ok((target, format!("hosts behind {name}")));
        }
        if let Some(group) = [&self.unit, &self.container, &self.cgroup]
            .into_iter()
            .flatten()
            .next()
        {
            let filter = ProcessFilter {
                groups: vec![group.clone()],
                ..ProcessFilter::default()
            };
            let shown = group.to_string();
            return Ok((SupervisionTarget::Chosen(filter), shown));
        }
        if let Some(pid) = self.pid {
            let line = fs::read(format!("/proc/{pid}/cmdline"));
            let line = line.map_err(|_| Failure::usage(format!("there is no process {pid}")))?;
            let command = String::from_utf8_lossy(&line)
                .trim_end_matches('\0')
                .replace('\0', " ");
            return Ok((SupervisionTarget::Process(pid), command));
        }
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        let shown = words.join(" ");
        Ok((SupervisionTarget::Command(self.command.clone()), shown))
    }

    /// The link's interface, if an option needs it.
    fn link(&self) -> Result<Option<String>, Failure> {
        if !self.rewrite && self.behind.is_none() && self.udp.is_none() {
            return match &self.interface {
                Some(_) => Err(Failure::usage("--interface needs --rewrite, --behind or --udp")),
                None => Ok(None),
            };
        }
        if let Some(behind) = &self.behind {
            interface::choose(Some(behind)).map_err(Failure::usage)?;
        }
        let interface = interface::choose(self.interface.as_deref()).map_err(Failure::usage)?;
        if self.behind.as_ref() == Some(&interface) {
            return Err(Failure::usage(format!(
                "{interface} is the link's interface: --behind names the one where the hosts are"
            )));
        }
        Ok(Some(interface))
    }
}

/// Prints a unit for a user's systemd, or root's.
fn print_unit(file: &Path, cx: &mut Context<'_>) -> Result<Exit, Failure> {
    let program = std::env::current_exe()?;
    let file = fs::canonicalize(file)?;
    let wanted_by = if is_root() {
        "multi-user.target"
    } else {
        "default.target"
    };
    writeln!(
        cx.out,
        "[Unit]\n\
         Description=Programs that yield to other traffic, by the rules of {file}\n\
         \n\
         [Service]\n\
         ExecStart=\"{program}\" nine --service \"{file}\"\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         \n\
         [Install]\n\
         WantedBy={wanted_by}",
        // A percent sign begins a specifier.
        file = file.display().to_string().replace('%', "%%"),
        program = program.display().to_string().replace('%', "%%"),
    )?;
    Ok(Exit::Done)
}

/// The directory of this user's nines and bottlenet settings.
pub fn directory() -> PathBuf {
    run_directory::of_session().unwrap_or_else(run_directory::directory)
}

/// The directories of bottlenet settings, in order of precedence.
pub fn setting_directories() -> Vec<PathBuf> {
    vec![directory(), PathBuf::from(HOST_DIRECTORY)]
}

/// The directory for this user's bottlenet settings; root's apply to the host, unless it is in a
/// network namespace apart.
pub fn own_directory() -> PathBuf {
    let namespace = |of: &str| {
        fs::metadata(format!("/proc/{of}/ns/net"))
            .map(|found| found.ino())
            .ok()
    };
    if is_root() && namespace("1") == namespace("self") {
        PathBuf::from(HOST_DIRECTORY)
    } else {
        directory()
    }
}

/// Root of the machine, not of a user namespace.
fn is_root() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0);
    root && !lab::isolation::in_user_namespace()
}

/// Creates the directory if it does not exist.
///
/// # Errors
///
/// If it cannot be created, or belongs to another user.
pub fn make_directory(path: &Path) -> Result<PathBuf, Failure> {
    let mode = if path == Path::new(HOST_DIRECTORY) {
        0o755
    } else {
        0o700
    };
    run_directory::prepare_with_mode(path, mode).map_err(|e| {
        Failure::at_run_time(format!(
            "cannot use {}: {e}; set XDG_RUNTIME_DIR to a directory of your own",
            path.display()
        ))
    })?;
    Ok(path.to_path_buf())
}

/// Translates the command line for clap: the program names `nine` and `bottlenet` become verbs,
/// `nine -500` the paper's window, and `nine top` a verb of its own.
pub fn rewrite(typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = typed.into_iter().collect();
    let called = words.first().map(PathBuf::from);
    let name = called
        .as_deref()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str());
    if let Some(verb @ ("nine" | "bottlenet")) = name {
        words.splice(..1, ["suimon".into(), verb.into()]);
    }
    if words.get(1).is_none_or(|verb| verb != "nine") {
        return words;
    }
    match words.get(2).and_then(|word| word.to_str()) {
        Some("top") => {
            words.splice(1..3, ["nine-top".into()]);
        }
        Some(word) => {
            if let Some(digits) = word
                .strip_prefix('-')
                .filter(|digits| digits.parse::<u64>().is_ok())
            {
                words[2] = format!("--window={digits}").into();
            }
        }
        None => {}
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(typed: &str) -> String {
        let words = rewrite(typed.split(' ').map(OsString::from));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn program_names_are_verbs_and_a_number_is_the_papers_window() {
        for (typed, meant) in [
            ("/usr/bin/nine -500 ftp host", "suimon nine --window=500 ftp host"),
            ("suimon nine -500 ftp -20", "suimon nine --window=500 ftp -20"),
            ("bottlenet 8Mbit/s", "suimon bottlenet 8Mbit/s"),
            ("nine top --json", "suimon nine-top --json"),
            ("nine -- top", "suimon nine -- top"),
            ("nine -p 12", "suimon nine -p 12"),
            ("nine", "suimon nine"),
            ("suimon top", "suimon top"),
        ] {
            assert_eq!(rewritten(typed), meant);
        }
    }
}
