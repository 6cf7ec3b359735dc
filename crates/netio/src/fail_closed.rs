//! What an interface may send without us, where that is worse than nothing: a site that has bought
//! a bandwidth, or shares a pipe by agreement, wants senders that keep to it when the process that
//! paces them has died.
//!
//! A token bucket of the kernel (`tbf`) becomes the root of the interface's qdiscs. Our own frames
//! bypass qdiscs, and what the host sends is redirected to us before it reaches one, so the bucket
//! is idle while we live. After SIGKILL or a panic it stays, and limits what the kernel sends; the
//! next start takes it over, and leaves it there if that start fails. A clean end removes it. It
//! counts frames as on an Ethernet wire, with preamble, FCS and inter-frame gap; a super-frame
//! within its burst counts these once, so that TCP may exceed a fast limit by up to 1.6 %.

use crate::netlink::{Netlink, NetlinkRequest, attribute, text, word};
use engine::byte_clock::WIRE_OVERHEAD;
use engine::units::{Bandwidth, Bytes, Duration};
use std::io;

/// Our qdisc, by its handle: the letters "Su".
const HANDLE: u32 = 0x5375_0000;
/// `TC_H_ROOT`.
const ROOT: u32 = 0xffff_ffff;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TBF: &str = "tbf";
const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_BURST: u16 = 6;
const TBF_PBURST: u16 = 7;
/// `TC_LINKLAYER_ETHERNET`.
const ETHERNET: u8 = 1;

/// What may leave back to back, and wait: the bucket serves hosts with coarse timers, too.
const BURST: Duration = Duration::from_millis(1);
const BACKLOG: Duration = Duration::from_millis(100);
/// At least two frames of an ordinary MTU, with a tag.
const SMALLEST_BURST: Bytes = Bytes::new(3_100);
const SMALLEST_BACKLOG: Bytes = Bytes::new(32_768);

/// The root qdisc of an interface.
struct Root {
    handle: u32,
    kind: String,
    rate: Option<Bandwidth>,
}

/// A limit of the kernel's for one interface. Dropping it removes the limit, but not in a panic,
/// nor one that a killed process left before [`FailClosed::served`].
#[derive(Debug)]
pub struct FailClosed {
    netlink: Netlink,
    interface: u32,
    rate: Bandwidth,
    /// A killed process left it, and nothing has been sent since.
    inherited: bool,
    /// Another program limits the interface now.
    handed_over: bool,
}

impl FailClosed {
    /// From now on the kernel's own path sends no faster than this.
    ///
    /// # Errors
    /// If the interface has a root qdisc that somebody has chosen, or the kernel refuses.
    pub fn at(interface: u32, rate: Bandwidth) -> io::Result<Self> {
        let netlink = Netlink::open()?;
        let inherited = root(&netlink, interface)?.is_some_and(|root| root.is_ours());
        let closed = Self {
            netlink,
            interface,
            rate,
            inherited,
            handed_over: false,
        };
        closed.install()?;
        Ok(closed)
    }

    /// Frames are sent by us from now on: the end of that is for us to say.
    pub fn served(&mut self) {
        self.inherited = false;
    }

    /// Another program limits the interface from now on; or does no longer, and has removed its
    /// limit if it ended in order.
    pub fn hand_over(&mut self, to_another: bool) {
        self.handed_over = to_another;
        if !to_another {
            // Where the kernel refuses, it is said when it is looked whether the limit is there.
            let _ = self.install();
        }
    }

    /// The same at the interface of this index, which may be a new one of the same name.
    ///
    /// # Errors
    /// As [`FailClosed::at`].
    pub fn renew(&mut self, interface: u32) -> io::Result<()> {
        self.interface = interface;
        self.install()
    }

    fn install(&self) -> io::Result<()> {
        if let Some(other) = root(&self.netlink, self.interface)?.filter(|root| !root.is_replaceable()) {
            let text = format!(
                "the interface has the qdisc `{}` ({:x}:), which `fail_closed` would replace; remove it with \
                 `tc qdisc del dev IF root`, or leave `fail_closed` out",
                other.kind,
                other.handle >> 16
            );
            return Err(io::Error::other(text));
        }
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let fixed = head(self.interface, HANDLE, ROOT);
        let burst = self.rate.bytes_in(BURST).max(SMALLEST_BURST);
        let rate = self.rate.bits() / 8;
        let request = NetlinkRequest::new(libc::RTM_NEWQDISC, flags, &fixed)
            .text(TCA_KIND, TBF)
            .nest(TCA_OPTIONS, |options| {
                options
                    .with(TBF_PARMS, &parameters(self.rate))
                    .with(TBF_RATE64, &rate.to_ne_bytes())
                    .with(TBF_BURST, &small(burst.get()).to_ne_bytes())
                    .with(TBF_PBURST, &0_u32.to_ne_bytes())
            });
        self.netlink.ask(request).map(drop).map_err(|e| {
            let missing = e.raw_os_error() == Some(libc::ENOENT);
            let hint = if missing {
                ": the kernel has no tbf (module sch_tbf)"
            } else {
                ""
            };
            io::Error::new(e.kind(), format!("making a tbf qdisc{hint}: {e}"))
        })
    }
}

impl Drop for FailClosed {
    fn drop(&mut self) {
        if self.inherited || self.handed_over || std::thread::panicking() {
            return;
        }
        // The interface may be gone; then so is the qdisc.
        let _ = remove_by(&self.netlink, self.interface);
    }
}

/// The rate to which the kernel limits an interface for us; `None`: it does not.
///
/// # Errors
/// If the kernel does not list the interface's qdiscs.
pub fn rate_of(interface: u32) -> io::Result<Option<Bandwidth>> {
    let root = root(&Netlink::open()?, interface)?;
    Ok(root.filter(Root::is_ours).and_then(|root| root.rate))
}

/// Removes a limit that a killed process has left; whoever calls this knows that none runs. Returns
/// its rate; `None` if there is none of ours.
///
/// # Errors
/// If the kernel does not list the interface's qdiscs, or does not remove it.
pub fn remove(interface: u32) -> io::Result<Option<Bandwidth>> {
    remove_by(&Netlink::open()?, interface)
}

fn remove_by(netlink: &Netlink, interface: u32) -> io::Result<Option<Bandwidth>> {
    // Somebody may have replaced it.
    let Some(root) = root(netlink, interface)?.filter(Root::is_ours) else {
        return Ok(None);
    };
    let fixed = head(interface, HANDLE, ROOT);
    netlink.ask(NetlinkRequest::new(libc::RTM_DELQDISC, 0, &fixed))?;
    Ok(root.rate)
}

/// The kind of the root qdisc of an interface; `None` if it has none.
///
/// # Errors
/// If the kernel does not list the interface's qdiscs.
pub fn root_kind(interface: u32) -> io::Result<Option<String>> {
    Ok(root(&Netlink::open()?, interface)?.map(|root| root.kind))
}

impl Root {
    fn is_ours(&self) -> bool {
        self.handle == HANDLE && self.kind == TBF
    }

    /// The kernel's own choices have no handle.
    fn is_replaceable(&self) -> bool {
        self.handle == 0 || self.is_ours()
    }
}

fn root(netlink: &Netlink, interface: u32) -> io::Result<Option<Root>> {
    let request = NetlinkRequest::new(libc::RTM_GETQDISC, 0, &head(interface, 0, 0));
    let all = netlink.list(request)?;
    let there = |answer: &&Vec<u8>| word(answer, 4) == Some(interface) && word(answer, 12) == Some(ROOT);
    Ok(all.iter().find(there).map(|answer| {
        let rest = answer.get(HEAD..).unwrap_or_default();
        Root {
            handle: word(answer, 8).unwrap_or_default(),
            kind: attribute(rest, TCA_KIND).map(text).unwrap_or_default(),
            rate: attribute(rest, TCA_OPTIONS).and_then(rate_in),
        }
    }))
}

/// The rate in the options of a tbf.
fn rate_in(options: &[u8]) -> Option<Bandwidth> {
    let long = attribute(options, TBF_RATE64).and_then(|rate| rate.try_into().ok().map(u64::from_ne_bytes));
    let short = || attribute(options, TBF_PARMS).and_then(|parms| word(parms, 8).map(u64::from));
    Some(Bandwidth::bits_per_sec(long.or_else(short)?.saturating_mul(8)))
}

/// Length of `struct tcmsg`.
const HEAD: usize = 20;

fn head(interface: u32, handle: u32, parent: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    for (at, value) in [(4, interface), (8, handle), (12, parent)] {
        head[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    head
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// `struct tc_tbf_qopt`: two `struct tc_ratespec` (rate, peak), limit, buffer in ticks (the burst
/// in bytes overrules it), MTU.
fn parameters(rate: Bandwidth) -> [u8; 36] {
    let mut parameters = [0; 36];
    parameters[1] = ETHERNET;
    parameters[2..4].copy_from_slice(&(WIRE_OVERHEAD as u16).to_ne_bytes());
    parameters[8..12].copy_from_slice(&small(rate.bits() / 8).to_ne_bytes());
    let backlog = rate.bytes_in(BACKLOG).max(SMALLEST_BACKLOG);
    parameters[24..28].copy_from_slice(&small(backlog.get()).to_ne_bytes());
    parameters
}
