//! Attaches a port's programs by the best means that the kernel has.

use super::clsact::Clsact;
use super::heartbeat::Heartbeat;
use super::programs::TO_TAP;
use super::syscall::{self, BpfProgram, Hook, HookPlace, Link};
use engine::units::Duration;
use std::fmt;
use std::io;

/// How programs are attached to the ingress and egress hooks of the network stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Means {
    /// By tcx links (Linux 6.6 and later), else by filters.
    #[default]
    Best,
    /// By filters even where there are tcx links: tests on a new kernel what an old one gets.
    Filters,
}

/// The programs attached to one interface. Dropping it detaches them.
#[derive(Debug)]
pub struct Attached {
    links: Vec<Link>,
    clsact: Option<Clsact>,
    interface: u32,
    means: Means,
}

impl Attached {
    /// Nothing attached yet to the interface with this index.
    pub fn to(interface: u32, means: Means) -> Self {
        Self {
            links: Vec::new(),
            clsact: None,
            interface,
            means,
        }
    }

    /// How programs are attached.
    pub fn means(&self) -> Means {
        self.means
    }

    /// Whether all programs are still attached. What the kernel does not tell counts as attached.
    pub fn is_whole(&self) -> bool {
        let clsact = self.clsact.as_ref();
        self.links.iter().all(Link::is_attached) && clsact.is_none_or(Clsact::is_whole)
    }

    /// Attaches a program before those that are already attached, by a link.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to attach the program, or has no such links.
    pub fn add_first(&mut self, program: &BpfProgram) -> io::Result<()> {
        let link = syscall::link(program, self.interface, HookPlace::First);
        self.links.push(link.map_err(|e| match e.raw_os_error() {
            Some(libc::EINVAL) => io::Error::new(
                io::ErrorKind::Unsupported,
                "attaching the BPF program: several at one hook need Linux 6.6 or later",
            ),
            _ => syscall::refused(program.hook(), &e),
        })?);
        Ok(())
    }

    /// Attaches a program after those that are already attached.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to attach the program, or clsact is needed and
    /// another qdisc occupies its place.
    pub fn add(&mut self, program: &BpfProgram) -> io::Result<()> {
        if program.hook().is_xdp() || (self.means == Means::Best && self.clsact.is_none()) {
            match syscall::link(program, self.interface, HookPlace::Last) {
                Ok(link) => {
                    self.links.push(link);
                    return Ok(());
                }
                // How older kernels refuse an unknown attach type.
                Err(e) if !program.hook().is_xdp() && e.raw_os_error() == Some(libc::EINVAL) => {}
                Err(e) => return Err(syscall::refused(program.hook(), &e)),
            }
        }
        let clsact = match self.clsact.take() {
            Some(clsact) => clsact,
            None => Clsact::at(self.interface)?,
        };
        self.clsact.insert(clsact).add(program)
    }
}

/// Whether programs of several processes can be at one hook, each by its own link (Linux 6.6): a
/// filter would replace that of the same name.
///
/// # Errors
///
/// Returns an error if bpf(2) is not permitted.
pub fn stand_beside_each_other() -> io::Result<bool> {
    // The loopback interface is the first of every network namespace. The program is let go at
    // once, and lets everything pass, as its cell has lapsed.
    const LOOPBACK: u32 = 1;
    let cell = Heartbeat::new(Duration::ZERO)?;
    let program = syscall::load("suimon_probe", Hook::Egress, false, &TO_TAP, cell.map(), None)?;
    match syscall::link(&program, LOOPBACK, HookPlace::Last) {
        Ok(_) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(e) => Err(e),
    }
}

impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.clsact, self.links.first()) {
            (Some(_), _) => "clsact filters",
            (None, Some(link)) if link.is_xdp() => "XDP links",
            (None, Some(_)) => "tcx links",
            (None, None) => "nothing",
        })
    }
}
