//! The ports, one file each, and the one list of the kinds that a policy can name.
//!
//! To add a kind: a file here that implements [`Port`] and declares its `KIND`, its `mod` line and
//! its entry in [`KINDS`] below. Nothing else in the workspace names a kind.
//!
//! [`memory`] and [`model_wire`] are for tests and measurements; [`captured`] adds a capture file
//! to any port. Policies cannot name these.

use crate::bpf::Means;
use crate::fail_open::{self, Capture, Pulse};
use crate::port::{Port, PortError};
use crate::worker::Gate;
use engine::port_kind::{Attachment, PortKind};
use engine::settings::Table;
use engine::units::Duration;
use std::fmt;
use std::io;
use std::ops::Range;

pub mod af_packet;
pub mod af_xdp;
pub mod captured;
pub mod detour;
pub mod egress;
pub mod hook_probe;
pub mod ingress;
pub mod memory;
pub mod model_wire;
pub mod pcap;
mod presence;
pub mod tap;

/// Every kind of port that a policy can name. If a policy names none, the first that fits its
/// attachment is used.
pub static KINDS: &[&Kind] = &[
    &af_packet::KIND,
    &af_xdp::KIND,
    &tap::KIND,
    &egress::KIND,
    &ingress::KIND,
    &pcap::KIND,
];

/// A kind of port: its declaration, and how it is opened.
#[derive(Debug)]
pub struct Kind {
    /// Its declaration for policies.
    pub declared: PortKind,
    /// Opens it.
    pub open: Open,
}

/// How a kind of port is opened, by what it is attached to.
#[derive(Clone, Copy, Debug)]
pub enum Open {
    /// Forwards between these two interfaces.
    Between(fn([&str; 2], &Opening<'_>) -> Result<Opened, PortError>),
    /// For what this host itself sends on this interface.
    Egress(fn(&str, &Opening<'_>) -> Result<Opened, PortError>),
    /// For what this host receives, by the name under which a policy manages it.
    Ingress(fn(&str, &Opening<'_>) -> Result<Opened, PortError>),
    /// From the first file into the second.
    Files(fn([&str; 2], &Opening<'_>) -> Result<Opened, PortError>),
}

/// The settings with which a port is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Frames that may be queued in the interface's transmit ring.
    pub transmit_ring: usize,
    /// Traffic takes the kernel's own path if the worker has not beaten for this long.
    pub fail_open_after: Duration,
    /// Whether each direction gets ports and a gate of its own, so that a worker of its own can
    /// carry it. Some kinds cannot do that.
    pub by_direction: bool,
    /// Whether it takes another program's place, which has such a port at the same interface.
    pub takes_over: bool,
    /// The kind's own settings, checked against its declaration.
    pub own: &'a Table,
}

/// Open ports, and the lanes between them.
pub struct Opened {
    /// The ports.
    pub ports: Vec<Box<dyn Port>>,
    /// The directions in which packets are moved.
    pub lanes: Vec<Lane>,
    /// What lets the kernel take over when the worker does not beat, where that is possible.
    pub gates: Vec<GateOver>,
    /// What happens to traffic without this process, as text.
    pub without_us: String,
    /// Limits of this configuration that may surprise.
    pub warnings: Vec<String>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("ports", &self.ports)
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}

/// A gate, and the ports that it covers (indices into [`Opened::ports`]).
pub struct GateOver {
    /// The gate.
    pub gate: Box<dyn Gate>,
    /// The ports.
    pub ports: Range<usize>,
}

/// One direction: from a port, to a port (indices into [`Opened::ports`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lane {
    /// The port that receives.
    pub from: usize,
    /// The port that sends.
    pub to: usize,
    /// The interface that sends; `None` for a file, whose name the policy may choose.
    pub interface: Option<String>,
}

/// The declarations of all kinds, for the reader of policies.
pub fn declared() -> Vec<&'static PortKind> {
    KINDS.iter().map(|kind| &kind.declared).collect()
}

/// Opens a port of this kind.
///
/// # Errors
/// If an interface or a file cannot be opened; the error says why and what to do.
///
/// # Panics
/// If the kind is not in [`KINDS`], or needs another attachment: the reader of policies refuses
/// that.
pub fn open(kind: &PortKind, attachment: &Attachment, opening: &Opening<'_>) -> Result<Opened, PortError> {
    let kind = KINDS.iter().find(|known| known.declared.name == kind.name);
    match (kind.map(|kind| kind.open), attachment) {
        (Some(Open::Between(open)), Attachment::Between(a, b)) => open([a, b], opening),
        (Some(Open::Egress(open)), Attachment::Egress(interface)) => open(interface, opening),
        (Some(Open::Ingress(open)), Attachment::Ingress(managed)) => open(managed, opening),
        (Some(Open::Files(open)), Attachment::Files { read, write }) => open([read, write], opening),
        (kind, attachment) => unreachable!("{kind:?} does not open {attachment:?}"),
    }
}

/// Both directions between two ports.
fn both_lanes([a, b]: [&str; 2]) -> Vec<Lane> {
    vec![lane(0, 1, b), lane(1, 0, a)]
}

fn lane(from: usize, to: usize, interface: &str) -> Lane {
    Lane {
        from,
        to,
        interface: Some(interface.into()),
    }
}

/// A bump in the wire that fails open: programs let the kernel's bridge take over when the worker
/// does not beat.
fn bump<P: Capture + 'static>(
    names: [&str; 2],
    ports: [P; 2],
    opening: &Opening<'_>,
) -> Result<Opened, PortError> {
    let limit = opening.fail_open_after;
    let ([a, b], pulse) = fail_open::bump(ports, limit, Means::Best)?;
    let without_us = fail_open::takeover(limit, a.attached());
    Ok(Opened {
        ports: vec![Box::new(a), Box::new(b)],
        lanes: both_lanes(names),
        gates: vec![over(pulse, 0..2)],
        without_us,
        warnings: Vec::new(),
    })
}

/// The same with ports of its own for each direction: a guarded one that only receives, and one
/// that only sends.
fn bumps<P: Capture + 'static>(
    names: [&str; 2],
    receiving: [P; 2],
    sending: [P; 2],
    opening: &Opening<'_>,
) -> Result<Opened, PortError> {
    let limit = opening.fail_open_after;
    let ([from_a, from_b], [pulse_a, pulse_b]) = fail_open::bumps(receiving, limit, Means::Best)?;
    let ([to_a, to_b], [a, b]) = (sending, names);
    let without_us = fail_open::takeover(limit, from_a.attached());
    Ok(Opened {
        ports: vec![Box::new(from_a), Box::new(to_b), Box::new(from_b), Box::new(to_a)],
        lanes: vec![lane(0, 1, b), lane(2, 3, a)],
        gates: vec![over(pulse_a, 0..2), over(pulse_b, 2..4)],
        without_us,
        warnings: Vec::new(),
    })
}

fn over(pulse: Pulse, ports: Range<usize>) -> GateOver {
    let gate = Box::new(pulse);
    GateOver { gate, ports }
}

/// The error for a kind's own settings that cannot be read although they were checked.
fn unreadable(interface: &str) -> PortError {
    let why = io::Error::other("the policy's settings of this port are wrong");
    PortError::new(interface, "reading its settings", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::port_kind::Needs;
    use std::path::{Path, PathBuf};

    #[test]
    fn each_kind_is_opened_by_what_it_needs() {
        for kind in KINDS {
            let opened_by = match kind.open {
                Open::Between(_) => Needs::TwoInterfaces,
                Open::Egress(_) => Needs::OneInterface,
                Open::Ingress(_) => Needs::Received,
                Open::Files(_) => Needs::TwoFiles,
            };
            assert_eq!(kind.declared.needs, opened_by, "{}", kind.declared.name);
        }
    }

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true if path.ends_with("target") => {}
                true => sources(&path, found),
                false if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
                false => {}
            }
        }
    }

    /// Adding or renaming a kind changes its own file, and the list above (which has no quotes).
    #[test]
    fn the_name_of_a_kind_stands_in_quotes_in_its_own_file_alone() {
        /// Names of kinds that mean something else in this file.
        const OTHERWISE: &[(&str, &str)] = &[
            // The keys of what a port is attached to.
            ("egress", "control/src/port_config.rs"),
            ("ingress", "control/src/port_config.rs"),
            ("egress", "control/src/schema.rs"),
            ("ingress", "control/src/schema.rs"),
            ("egress", "gateway/src/simulated/policies.rs"),
            // The kernel's qdisc.
            ("ingress", "engine/src/tree.rs"),
            ("ingress", "engine/src/tree/tests.rs"),
            // The setting of `cake` that SQM's users know by this name.
            ("ingress", "engine/src/disciplines/cake.rs"),
            ("ingress", "suimon/src/tc_commands.rs"),
            // The kind of a traffic source.
            ("pcap", "scenario/src/sources/pcap.rs"),
            // An option of the command line.
            ("pcap", "suimon/src/commands/sim.rs"),
        ];
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for krate in std::fs::read_dir(&crates).expect("the crates") {
            let krate = krate.expect("a crate").path();
            let directory = krate.join("src");
            // `import` reads other programs' words, and writes the keys of what a port is
            // attached to.
            if directory.is_dir() && !krate.ends_with("import") {
                sources(&directory, &mut files);
            }
        }
        assert!(files.len() > 200, "only {} sources were found", files.len());
        for kind in KINDS {
            let name = kind.declared.name;
            let own = [format!("ports/{name}.rs"), format!("ports/{name}/mod.rs")];
            let quoted = format!("\"{name}\"");
            let other = |path: &&PathBuf| {
                let excused = |(word, place): &(&str, &str)| *word == name && path.ends_with(place);
                !own.iter().any(|own| path.ends_with(own)) && !OTHERWISE.iter().any(excused)
            };
            for path in files.iter().filter(other) {
                let text = std::fs::read_to_string(path).expect("a source");
                let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
                let line = code
                    .lines()
                    .find(|line| line.contains(&quoted) && !line.trim().starts_with("//"));
                assert_eq!(line, None, "{} names the kind {name}", path.display());
            }
        }
    }
}
