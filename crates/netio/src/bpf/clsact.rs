//! Attaches programs by filters of the clsact qdisc, for kernels without tcx links (before Linux
//! 6.6).
//!
//! A cls_bpf filter in direct-action mode uses the program's return value as its verdict, with the
//! same numbers as tcx. The filter belongs to the interface, not to the process. After SIGKILL it
//! stays and keeps its program and the heartbeat cell alive; the cell expires, and the program then
//! lets everything pass. The next start replaces the program in place. A clean exit removes the
//! filters, and then the qdisc if it was made here and has no other filter.

use super::syscall::{BpfProgram, Hook};
use crate::netlink::{Netlink, NetlinkRequest, attribute, text, word};
use std::io;

/// After the filters whose priority the kernel chose (49152 and less), as tcx links are appended to
/// those that exist.
const PRIORITY: u32 = 0xd000;

/// `TC_H_CLSACT`, and the parents of its filters.
const PARENT: u32 = 0xffff_fff1;
const HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const BPF_FD: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
const BPF_ID: u16 = 11;
const DIRECT_ACTION: u32 = 1;

/// Length of `struct tcmsg`.
const HEAD: usize = 20;

fn head(interface: u32, handle: u32, parent: u32, info: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    for (at, value) in [(4, interface), (8, handle), (12, parent), (16, info)] {
        head[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    head
}

/// Our priority, for frames of every protocol.
fn info() -> u32 {
    PRIORITY << 16 | u32::from((libc::ETH_P_ALL as u16).to_be())
}

/// A filter as the kernel reports it.
struct Filter {
    info: u32,
    handle: u32,
    name: String,
    /// The program's ID.
    program: Option<u32>,
}

/// Reads one filter; none for a message about a priority alone.
fn read_filter(answer: &[u8]) -> Option<Filter> {
    let (handle, info) = (word(answer, 8)?, word(answer, 16)?);
    let rest = answer.get(HEAD..)?;
    let options = attribute(rest, TCA_OPTIONS).unwrap_or_default();
    let is_bpf = attribute(rest, TCA_KIND).map(text).as_deref() == Some("bpf");
    (handle != 0).then(|| Filter {
        info,
        handle,
        name: attribute(options, BPF_NAME)
            .filter(|_| is_bpf)
            .map(text)
            .unwrap_or_default(),
        program: attribute(options, BPF_ID).and_then(|id| word(id, 0)),
    })
}

fn filters(netlink: &Netlink, interface: u32, parent: u32) -> io::Result<Vec<Filter>> {
    let request = NetlinkRequest::new(libc::RTM_GETTFILTER, 0, &head(interface, 0, parent, 0));
    Ok(netlink
        .list(request)?
        .iter()
        .filter_map(|answer| read_filter(answer))
        .collect())
}

/// The kind of the qdisc that occupies clsact's place.
fn occupant(netlink: &Netlink, interface: u32) -> io::Result<Option<String>> {
    let request = NetlinkRequest::new(libc::RTM_GETQDISC, 0, &head(interface, 0, 0, 0));
    let all = netlink.list(request)?;
    let there = |answer: &&Vec<u8>| word(answer, 4) == Some(interface) && word(answer, 12) == Some(PARENT);
    let kind = |answer: &Vec<u8>| attribute(answer.get(HEAD..)?, TCA_KIND).map(text);
    Ok(all.iter().find(there).and_then(kind))
}

/// The names of the BPF filters on an interface, ingress before egress; none if it has no clsact
/// qdisc.
///
/// # Errors
///
/// Returns an error if the kernel does not list the interface's qdiscs or filters.
pub fn names(interface: u32) -> io::Result<Option<Vec<String>>> {
    let netlink = Netlink::open()?;
    if occupant(&netlink, interface)?.as_deref() != Some("clsact") {
        return Ok(None);
    }
    let mut all = filters(&netlink, interface, INGRESS)?;
    all.extend(filters(&netlink, interface, EGRESS)?);
    Ok(Some(all.into_iter().map(|filter| filter.name).collect()))
}

/// The programs at one interface. Dropping it removes them.
#[derive(Debug)]
pub(super) struct Clsact {
    netlink: Netlink,
    interface: u32,
    /// The qdisc was made here.
    made: bool,
    filters: Vec<OwnFilter>,
}

#[derive(Debug)]
struct OwnFilter {
    parent: u32,
    handle: u32,
    program: Option<u32>,
}

impl Clsact {
    /// Makes the qdisc if there is none yet.
    pub(super) fn at(interface: u32) -> io::Result<Self> {
        let netlink = Netlink::open()?;
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = NetlinkRequest::new(libc::RTM_NEWQDISC, flags, &head(interface, HANDLE, PARENT, 0));
        let made = match netlink.ask(request.text(TCA_KIND, "clsact")) {
            Ok(_) => true,
            // An ingress qdisc occupies the same place, and would run egress filters at ingress.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                match occupant(&netlink, interface)?.as_deref() {
                    Some("clsact") => false,
                    other => return Err(taken(other.unwrap_or("another"))),
                }
            }
            Err(e) => return Err(refused("making a clsact qdisc", "sch_ingress", &e)),
        };
        Ok(Self {
            netlink,
            interface,
            made,
            filters: Vec::new(),
        })
    }

    /// Attaches a program. It replaces one of the same name that a killed process left behind.
    pub(super) fn add(&mut self, program: &BpfProgram) -> io::Result<()> {
        let parent = match program.hook() {
            Hook::Egress => EGRESS,
            _ => INGRESS,
        };
        let stale = self
            .ours(parent, program.name())?
            .map_or(0, |filter| filter.handle);
        let fixed = head(self.interface, stale, parent, info());
        let request = NetlinkRequest::new(libc::RTM_NEWTFILTER, libc::NLM_F_CREATE, &fixed)
            .text(TCA_KIND, "bpf")
            .nest(TCA_OPTIONS, |options| {
                options
                    .with(BPF_FD, &program.number().to_ne_bytes())
                    .text(BPF_NAME, program.name())
                    .with(BPF_FLAGS, &DIRECT_ACTION.to_ne_bytes())
            });
        let what = "attaching the BPF program as a filter";
        self.netlink
            .ask(request)
            .map_err(|e| refused(what, "cls_bpf", &e))?;
        let filter = self.ours(parent, program.name())?;
        let filter = filter.ok_or_else(|| io::Error::other(format!("{what}: it is not there afterwards")))?;
        self.filters.push(OwnFilter {
            parent,
            handle: filter.handle,
            program: filter.program,
        });
        Ok(())
    }

    fn ours(&self, parent: u32, name: &str) -> io::Result<Option<Filter>> {
        let all = filters(&self.netlink, self.interface, parent)?;
        Ok(all
            .into_iter()
            .find(|filter| filter.info == info() && filter.name == name))
    }

    /// Whether a filter is still ours: another process may have removed or replaced it.
    fn has(&self, own: &OwnFilter) -> io::Result<bool> {
        let all = filters(&self.netlink, self.interface, own.parent)?;
        let is_own = |filter: &Filter| {
            filter.info == info() && filter.handle == own.handle && filter.program == own.program
        };
        Ok(all.iter().any(is_own))
    }

    /// Whether all filters are still ours, as far as the kernel tells.
    pub(super) fn is_whole(&self) -> bool {
        self.filters.iter().all(|own| self.has(own).unwrap_or(true))
    }

    /// Removes the filters that are still ours.
    fn remove(&self) -> io::Result<()> {
        for own in &self.filters {
            if self.has(own)? {
                let fixed = head(self.interface, own.handle, own.parent, info());
                let request = NetlinkRequest::new(libc::RTM_DELTFILTER, 0, &fixed);
                self.netlink.ask(request.text(TCA_KIND, "bpf"))?;
            }
        }
        let is_empty = |parent| filters(&self.netlink, self.interface, parent).map(|all| all.is_empty());
        if self.made && is_empty(INGRESS)? && is_empty(EGRESS)? {
            let fixed = head(self.interface, HANDLE, PARENT, 0);
            self.netlink
                .ask(NetlinkRequest::new(libc::RTM_DELQDISC, 0, &fixed))?;
        }
        Ok(())
    }
}

impl Drop for Clsact {
    /// A filter that cannot be removed is harmless once the cell has expired, and disappears with
    /// its interface.
    fn drop(&mut self) {
        drop(self.remove());
    }
}

fn taken(by: &str) -> io::Error {
    let text = format!(
        "a qdisc of kind {by} occupies the place of clsact, which attaches programs before Linux 6.6: \
         remove it first (`tc qdisc del dev INTERFACE {by}`)"
    );
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

/// The error with what was attempted and what is missing.
fn refused(what: &str, module: &str, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => format!(
            ": there are no tcx links before Linux 6.6, and this kernel lacks the module {module}, which would \
             do instead (port kind af_xdp with a bridge needs neither)"
        ),
        io::ErrorKind::PermissionDenied => ": needs the capability CAP_NET_ADMIN".into(),
        _ => String::new(),
    };
    io::Error::new(error.kind(), format!("{what}: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_off_filter_is_no_filter() {
        let whole: Vec<u8> = (1..=200).collect();
        for len in 0..whole.len() {
            let _ = read_filter(&whole[..len]);
        }
        assert!(read_filter(&whole[..HEAD - 1]).is_none());
        assert!(
            read_filter(&head(1, 0, INGRESS, info())).is_none(),
            "only a priority"
        );
        assert_eq!(
            read_filter(&head(1, 1, INGRESS, info()))
                .map(|f| f.name)
                .as_deref(),
            Some("")
        );
    }
}
