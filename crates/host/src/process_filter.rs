//! Processes chosen by what the system says of them, whoever started them: program, user, and
//! control group; and by the hour.
//!
//! A control group's path names units and containers: systemd gives each unit a group with the
//! unit's name, and Docker, Podman, containerd and CRI-O each container one with its identifier of
//! 64 hexadecimal digits; LXC and systemd-nspawn use names. Names that only a daemon knows, such as
//! Docker's, are not in the path.

use crate::process_tree;
use crate::sys;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::str::FromStr;

/// Digits of a container's identifier.
const IDENTIFIER: usize = 64;
/// Digits of it that must be given: fewer might be meant otherwise.
const FEWEST_DIGITS: usize = 6;
/// Where control groups are mounted: a path below is understood too.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// Control groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlGroup {
    /// The one of this path, and those below it.
    Path(String),
    /// That of a systemd unit, of the system or of a user. `*` stands for any characters.
    Unit(String),
    /// That of a container: its identifier, or the beginning of it; or its name in LXC and
    /// systemd-nspawn.
    Container(String),
}

impl ControlGroup {
    /// A path as `/proc/PID/cgroup` has it, or below `/sys/fs/cgroup`.
    ///
    /// # Errors
    ///
    /// If it is not absolute, or holds every process.
    pub fn at(path: &str) -> Result<Self, String> {
        let below = MOUNTS.iter().find_map(|mount| {
            let rest = path.strip_prefix(mount)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        });
        let group = below.unwrap_or(path).trim_end_matches('/');
        match group {
            "" if path.is_empty() => Err("a control group's path is missing".into()),
            "" => Err(format!("every process is in {path}: name a group below it")),
            _ if group.starts_with('/') => Ok(Self::Path(group.into())),
            _ => Err(format!(
                "`{path}` is not a control group's path, which begins with `/` \
                 (`cat /proc/PID/cgroup` shows that of a process)"
            )),
        }
    }

    /// A unit by its name; without an ending it is a service, as for `systemctl`.
    ///
    /// # Errors
    ///
    /// If it cannot be a unit with processes.
    pub fn unit(name: &str) -> Result<Self, String> {
        const ENDINGS: [&str; 3] = [".service", ".scope", ".slice"];
        if name.is_empty() || name.contains('/') {
            return Err(format!(
                "`{name}` is not a unit's name (`systemctl status PID` shows it)"
            ));
        }
        let without = [".timer", ".socket", ".target", ".mount", ".path"];
        if let Some(ending) = without.iter().find(|ending| name.ends_with(**ending)) {
            return Err(format!(
                "a unit of the type `{ending}` has no processes: name the service"
            ));
        }
        let ending = match ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            true => "",
            false => ENDINGS[0],
        };
        Ok(Self::Unit(format!("{name}{ending}")))
    }

    /// A container.
    ///
    /// # Errors
    ///
    /// If it is neither the beginning of an identifier nor a name.
    pub fn container(name: &str) -> Result<Self, String> {
        let is_short = name.len() < FEWEST_DIGITS && is_identifier(name);
        if name.is_empty() || name.contains('/') || is_short {
            return Err(format!(
                "`{name}` names no container: give {FEWEST_DIGITS} or more digits of its identifier \
                 (`docker ps`), or its name in LXC or systemd-nspawn"
            ));
        }
        Ok(Self::Container(name.into()))
    }

    /// Whether a process in the group of this path belongs to it.
    fn holds(&self, path: &str) -> bool {
        match self {
            Self::Path(group) => path
                .strip_prefix(group.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            Self::Unit(name) => path.split('/').any(|part| matches(name, part)),
            Self::Container(name) => path.split('/').any(|part| is_container(part, name)),
        }
    }
}

impl fmt::Display for ControlGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "cgroup {path}"),
            Self::Unit(name) => write!(f, "unit {name}"),
            Self::Container(name) => write!(f, "container {name}"),
        }
    }
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether this part of a path is the group of that container.
fn is_container(part: &str, name: &str) -> bool {
    // `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`; without
    // systemd `ID` and `libpod-ID`.
    let stem = part.strip_suffix(".scope").unwrap_or(part);
    let identifier = stem.rsplit('-').next().unwrap_or(stem);
    if identifier.len() == IDENTIFIER && is_identifier(identifier) {
        return identifier.starts_with(name);
    }
    let by_name = [
        part.strip_prefix("lxc.payload."),
        stem.strip_prefix("machine-"),
        part.strip_prefix("systemd-nspawn@")
            .and_then(|rest| rest.strip_suffix(".service")),
    ];
    by_name.contains(&Some(name))
}

/// Whether a name fits a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(first) else {
        return false;
    };
    let starts = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    starts.into_iter().any(|at| matches(rest, &name[at..]))
}

/// Hours of each day, by the local clock: from one minute of the day to before another, perhaps
/// past midnight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DailyHours {
    from: u32,
    to: u32,
}

impl DailyHours {
    fn include(self, minute: u32) -> bool {
        match self.from <= self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

impl FromStr for DailyHours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let minute = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
            let is_time = minute < 60 && (hour < 24 || (hour, minute) == (24, 0));
            is_time.then(|| hour * 60 + minute)
        };
        let both = text
            .split_once('-')
            .and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
        let (from, to) = both
            .filter(|(from, to)| from != to)
            .ok_or_else(|| format!("hours: `{text}` is not HH:MM-HH:MM, as 22:00-06:00"))?;
        Ok(Self { from, to })
    }
}

/// Which processes are chosen: those that fit every kind that is given. Empty, it chooses none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessFilter {
    /// Those of a program with one of these names, and their descendants. `*` stands for any
    /// characters.
    pub programs: Vec<String>,
    /// Those in one of these.
    pub groups: Vec<ControlGroup>,
    /// Those of one of these users.
    pub users: Vec<u32>,
    /// In these hours; at other times none.
    pub hours: Option<DailyHours>,
    /// But none that one of these chooses.
    pub except: Vec<Self>,
}

impl ProcessFilter {
    /// The processes that are chosen now.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all: Vec<i32> = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        let minute = sys::minute_of_day();
        let mut chosen = self.chosen_of(&all, minute);
        for other in &self.except {
            let theirs = other.chosen_of(&all, minute);
            chosen.retain(|pid| !theirs.contains(pid));
        }
        chosen.into_iter().collect()
    }

    fn chosen_of(&self, all: &[i32], minute: u32) -> BTreeSet<i32> {
        if self.hours.is_some_and(|hours| !hours.include(minute)) {
            return BTreeSet::new();
        }
        let direct = all.iter().copied().filter(|pid| self.chooses(*pid));
        let mut chosen: BTreeSet<i32> = direct.collect();
        if !self.programs.is_empty() {
            // What a backup's script starts is the backup.
            let below: Vec<i32> = chosen.iter().flat_map(|pid| process_tree::below(*pid)).collect();
            chosen.extend(below);
        }
        chosen
    }

    /// One that has ended meanwhile fits nothing.
    fn chooses(&self, pid: i32) -> bool {
        let fits_group = || {
            let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            self.groups.iter().any(|group| is_in(group, &text))
        };
        let fits_user = || process_tree::user_of(pid).is_some_and(|user| self.users.contains(&user));
        let fits_program = || {
            let names = process_tree::program_names(pid);
            let fits = |pattern: &String| names.iter().any(|name| matches(pattern, name));
            self.programs.iter().any(fits)
        };
        let is_empty = self.groups.is_empty() && self.users.is_empty() && self.programs.is_empty();
        !is_empty
            && (self.groups.is_empty() || fits_group())
            && (self.users.is_empty() || fits_user())
            && (self.programs.is_empty() || fits_program())
    }
}

/// Whether a process with this `/proc/PID/cgroup` is in a group: one line for each hierarchy,
/// `number:controllers:path`. Version 2 has one hierarchy.
fn is_in(group: &ControlGroup, text: &str) -> bool {
    let mut paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.any(|path| group.holds(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f2a9c0d1e4b5a697887f6e5d4c3b2a1908172635445362718091a2b3c4d5e6f";

    fn chosen(group: &Result<ControlGroup, String>, text: &str) -> bool {
        is_in(group.as_ref().expect("a group"), text)
    }

    #[test]
    fn a_path_holds_what_is_below_it_and_nothing_beside_it() {
        let group = ControlGroup::at("/sys/fs/cgroup/system.slice/backup.service/");
        assert_eq!(group, ControlGroup::at("/system.slice/backup.service"));
        for (text, is) in [
            ("0::/system.slice/backup.service\n", true),
            ("0::/system.slice/backup.service/worker\n", true),
            ("0::/system.slice/backup.service2\n", false),
            ("0::/system.slice\n", false),
            (
                "9:name=systemd:/system.slice/backup.service\n8:pids:/\n0::/\n",
                true,
            ),
            ("", false),
        ] {
            assert_eq!(chosen(&group, text), is, "{text}");
        }
        for (wrong, said) in [
            ("/", "every process"),
            ("/sys/fs/cgroup", "every process"),
            ("system.slice", "begins with `/`"),
            ("", "missing"),
        ] {
            let error = ControlGroup::at(wrong).expect_err("a mistake");
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_unit_is_found_in_the_system_and_below_a_user() {
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/";
        let backup = ControlGroup::unit("restic-backup");
        assert!(chosen(&backup, "0::/system.slice/restic-backup.service\n"));
        assert!(chosen(&backup, &format!("{user}restic-backup.service\n")));
        assert!(!chosen(&backup, "0::/system.slice/my-restic-backup.service\n"));
        let browser = ControlGroup::unit("app-*firefox*.scope");
        assert!(chosen(&browser, &format!("{user}app-gnome-firefox-4711.scope\n")));
        assert!(!chosen(&browser, &format!("{user}app-gnome-files-4711.scope\n")));
        let error = ControlGroup::unit("backup.timer").expect_err("a mistake");
        assert!(error.contains("name the service"), "{error}");
    }

    #[test]
    fn a_container_is_found_by_its_identifier_or_by_a_name_in_its_path() {
        let short = ControlGroup::container(&ID[..12]);
        for path in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/kubepods.slice/pod7.slice/cri-containerd-{ID}.scope"),
        ] {
            assert!(chosen(&short, &format!("0::{path}\n")), "{path}");
            assert!(!chosen(
                &ControlGroup::container("abcdef"),
                &format!("0::{path}\n")
            ));
        }
        let named = ControlGroup::container("web");
        for path in [
            "/lxc.payload.web",
            "/machine.slice/machine-web.scope",
            "/machine.slice/systemd-nspawn@web.service/payload",
        ] {
            assert!(chosen(&named, &format!("0::{path}\n")), "{path}");
        }
        assert!(!chosen(&named, "0::/system.slice/web.service\n"));
        assert!(ControlGroup::container("3f2").is_err());
    }

    /// Found by fuzzing: the product of such an hour and 60 has no place in 32 bits.
    #[test]
    fn an_hour_that_no_day_has_is_refused_however_large() {
        for wrong in ["147483647:0-1:00", "24:01-1:00", "25:00-1:00", "1:00-71582789:0"] {
            assert!(wrong.parse::<DailyHours>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn hours_may_pass_midnight() {
        let hours = |text: &str| text.parse::<DailyHours>();
        let night = hours("22:00-06:00").expect("hours");
        let day = hours("08:30-24:00").expect("hours");
        for (minute, at_night, by_day) in [
            (0, true, false),
            (6 * 60 - 1, true, false),
            (6 * 60, false, false),
            (8 * 60 + 30, false, true),
            (22 * 60, true, true),
        ] {
            assert_eq!(
                (night.include(minute), day.include(minute)),
                (at_night, by_day),
                "{minute}"
            );
        }
        for wrong in ["8-18", "08:00-08:00", "08:60-09:00", "25:00-26:00", "08:00"] {
            assert!(hours(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn programs_are_chosen_with_their_descendants_and_but_for_exceptions() {
        let own = std::process::id().cast_signed();
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .expect("sleep runs");
        let pid = child.id().cast_signed();
        // Until it has executed it bears this program's name.
        while process_tree::name_of(pid) != "sleep" {
            std::thread::yield_now();
        }
        let this = process_tree::program_names(own);
        let by = |programs: &[String]| ProcessFilter {
            programs: programs.to_vec(),
            ..ProcessFilter::default()
        };
        let both = by(&this).processes();
        assert!(both.contains(&own) && both.contains(&pid));
        let sleep = by(&["sle*p".into()]);
        assert!(sleep.processes().contains(&pid) && !sleep.processes().contains(&own));
        let without = ProcessFilter {
            except: vec![sleep.clone()],
            ..by(&this)
        };
        assert!(without.processes().contains(&own) && !without.processes().contains(&pid));
        let user = process_tree::user_of(own).expect("a user");
        let of_user = |users| ProcessFilter {
            users,
            ..sleep.clone()
        };
        assert!(of_user(vec![user]).processes().contains(&pid));
        assert!(!of_user(vec![user + 1]).processes().contains(&pid));
        assert_eq!(ProcessFilter::default().processes(), [0_i32; 0]);
        child.kill().expect("killed");
        child.wait().expect("its status");
    }
}
