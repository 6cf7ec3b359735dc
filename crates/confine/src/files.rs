//! Files, and connections by TCP (Landlock, landlock(7)): which each role keeps.
//!
//! Files that are open stay usable. No role may execute a file, make a device, or listen or connect
//! by TCP: what listens does so already.

use crate::Role;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The newest rights that are used: those of Linux 6.10.
const RIGHTS: ABI = ABI::V5;

/// Where the data plane reads of interfaces, their queues and neighbours.
const OF_INTERFACES: [&str; 2] = ["/sys", "/proc"];

/// A place, and what may be done there.
type Rule = (PathBuf, BitFlags<AccessFs>);

fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn changing() -> BitFlags<AccessFs> {
    reading()
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::MakeSock
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::Refer
}

/// A TAP that is opened again, and the switches of its interface.
fn of_ports() -> [Rule; 2] {
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let switches = reading() | AccessFs::WriteFile | AccessFs::Truncate;
    [
        ("/dev/net/tun".into(), device),
        ("/proc/sys/net".into(), switches),
    ]
}

fn rules(role: Role, change: &[PathBuf], read: &[PathBuf]) -> Vec<Rule> {
    let mut rules = Vec::new();
    let everything = || (PathBuf::from("/"), reading());
    let changed = || change.iter().map(|folder| (folder.clone(), changing()));
    let interfaces = OF_INTERFACES.map(|path| (PathBuf::from(path), reading()));
    let terminal = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    match role {
        Role::Program => {
            rules.push(everything());
            rules.extend(of_ports());
            rules.extend(changed());
        }
        Role::DataPlane => {
            rules.extend(interfaces);
            rules.extend(of_ports());
        }
        Role::Control => {
            rules.push(everything());
            rules.extend(changed());
        }
        Role::Rsvp => {
            rules.extend(interfaces);
            rules.extend(read.iter().map(|path| (path.clone(), reading())));
        }
        Role::Law | Role::Probe | Role::Connections => {}
        Role::Web => rules.extend(read.iter().map(|path| (path.clone(), reading()))),
        Role::Viewer => {
            rules.extend(read.iter().map(|path| (path.clone(), reading())));
            rules.extend(["/dev/tty", "/dev/pts"].map(|path| (path.into(), terminal | AccessFs::ReadDir)));
            // Names of terminals, and sizes of processors.
            rules.extend(
                ["/usr/share/terminfo", "/lib/terminfo", "/etc/terminfo", "/sys"]
                    .map(|path| (path.into(), reading())),
            );
        }
    }
    rules
}

/// Adds a place; one that is not there needs no rule.
fn allow(ruleset: RulesetCreated, (path, rights): Rule) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(place) = PathFd::new(&path) else {
        return Ok(ruleset);
    };
    let rights = match path.is_dir() {
        true => rights,
        false => rights & AccessFs::from_file(RIGHTS),
    };
    ruleset.add_rule(PathBeneath::new(place, rights))
}

fn handled() -> Result<Ruleset, landlock::RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(RIGHTS))?
        .handle_access(AccessNet::from_all(RIGHTS))
}

/// Takes away everything else.
pub(crate) fn keep(role: Role, change: &[PathBuf], read: &[PathBuf]) -> Result<(), String> {
    let restrict = || {
        let mut ruleset = handled()?.create()?;
        for rule in rules(role, change, read) {
            ruleset = allow(ruleset, rule)?;
        }
        ruleset.restrict_self()
    };
    let done =
        restrict().map_err(|why: landlock::RulesetError| format!("files cannot be ruled out: {why}"))?;
    match done.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced => Err(OLD.into()),
        RulesetStatus::NotEnforced => Err(NONE.into()),
    }
}

const OLD: &str = "files and TCP are ruled out in part: Landlock of this kernel is older than Linux 6.10";
const NONE: &str =
    "files and TCP are not ruled out: this kernel has no Landlock, or it is not in its list of `lsm=`";

/// What this kernel lacks.
pub(crate) fn lacking() -> Option<String> {
    let wholly = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(RIGHTS))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(RIGHTS)))
        .and_then(Ruleset::create);
    let partly = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create);
    match (wholly, partly) {
        (Ok(_), _) => None,
        (Err(_), Ok(_)) => Some(OLD.into()),
        (Err(_), Err(_)) => Some(NONE.into()),
    }
}

/// Whether it belongs to another user, so that root needs its privilege to change it.
pub(crate) fn is_foreign(path: &Path) -> bool {
    let us = rustix::process::geteuid().as_raw();
    fs::metadata(path).is_ok_and(|file| file.uid() != us)
}
