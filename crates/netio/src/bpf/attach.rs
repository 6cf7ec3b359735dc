//! Attaching a port's programs by the best that the kernel has.

use super::clsact::Clsact;
use super::syscall::{self, BpfProgram, Link};
use std::fmt;
use std::io;

/// By what programs are attached where the kernel's network stack takes in and sends frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Means {
    /// By tcx links, since Linux 6.6; before, by filters.
    #[default]
    Best,
    /// By filters even if there are tcx links, so that a new kernel can test what old ones get.
    Filters,
}

/// The programs attached to one interface. Dropped, they are detached.
#[derive(Debug)]
pub struct Attached {
    links: Vec<Link>,
    clsact: Option<Clsact>,
    interface: u32,
    means: Means,
}

impl Attached {
    /// None yet, to the interface of this number.
    pub fn to(interface: u32, means: Means) -> Self {
        Self {
            links: Vec::new(),
            clsact: None,
            interface,
            means,
        }
    }

    /// Attaches a program, behind those that are there already.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to attach the program, or another qdisc has clsact's
    /// place where it is needed.
    pub fn add(&mut self, program: &BpfProgram) -> io::Result<()> {
        if program.hook().is_xdp() || (self.means == Means::Best && self.clsact.is_none()) {
            match syscall::link(program, self.interface) {
                Ok(link) => {
                    self.links.push(link);
                    return Ok(());
                }
                // What older kernels say to an attach type that they do not know.
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
