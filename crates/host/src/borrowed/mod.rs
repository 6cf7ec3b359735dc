//! The actuator without privilege: sockets borrowed from the programs that own them.
//!
//! A connection is learnt when its program asks to connect (a notification), or by looking through the descriptors of the
//! program's processes, from time to time: sockets that were accepted, handed over, inherited, or connected by ways that
//! ask nobody. What is kept is its place, process and descriptor, and its cookie. To read it or to hold it, the descriptor
//! is duplicated (`pidfd_getfd`), checked, used, and the duplicate closed at once: while it is open, the program's own close
//! sends no FIN.

mod flow;
pub(crate) mod ledger;
pub(crate) mod tree;

use crate::actuator::{Actuator, Holder, OutOfReach, Seen};
use crate::order::{Hold, Order};
use crate::reading::{FlowId, FlowReading, MemberId};
use crate::sys::socket::{self, Kind};
use crate::sys::{now, process};
use engine::units::{Duration, Instant};
use flow::Flow;
use ledger::{Entry, Ledger};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

/// How long after its beginning a connection is looked at between ticks: its first full segments make the kernel reckon its
/// clamp anew.
const YOUNG: Duration = Duration::from_secs(3);

/// The largest clamp with which a connection is begun: its windows are then multiples of 128 bytes, as with the kernel's
/// default buffers, and not of 1024 or more, as on hosts with larger ones, where no window is less than a segment. The
/// kernel replaces it when it enlarges the buffer; the window can grow to 8 MB.
const FINE: u32 = (8 << 20) - 1;

/// How long a connection that is not where it was is looked for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two looks through all descriptors: at least this, and this many times what a look takes.
const LOOK: Duration = Duration::from_millis(500);
const SPARING: u64 = 50;

/// Why UDP is not controlled, and what to do.
pub(crate) const WHY_NOT_UDP: &str =
    "UDP and QUIC have no window that this host could hold: let the program use TCP";

/// What it is that is out of reach.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Process(i32),
    /// By inode: several processes may have it.
    Socket(u64),
}

/// Whose sockets are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Root {
    /// Everything below this process, which is ours.
    Below(i32),
    /// This process and everything below it.
    At(i32),
}

impl Root {
    /// The processes that there are now.
    pub(crate) fn processes(self) -> Vec<i32> {
        match self {
            Self::Below(root) => tree::below(root),
            Self::At(root) => {
                let alive = tree::process_of(root).is_some();
                let mut pids = tree::below(root);
                if alive {
                    pids.push(root);
                }
                pids
            }
        }
    }
}

/// The connections of one member, in whichever of its processes.
#[derive(Debug)]
pub(crate) struct Borrowed {
    member: MemberId,
    root: Root,
    flows: BTreeMap<FlowId, Flow>,
    processes: BTreeMap<i32, OwnedFd>,
    /// Sockets that were looked at and are no TCP connections.
    others: BTreeSet<u64>,
    out_of_reach: BTreeMap<Key, OutOfReach>,
    ledger: Ledger,
    next_look: Instant,
}

impl Borrowed {
    pub(crate) fn new(member: MemberId, root: Root, ledger: Ledger) -> Self {
        Self {
            member,
            root,
            flows: BTreeMap::new(),
            processes: BTreeMap::new(),
            others: BTreeSet::new(),
            out_of_reach: BTreeMap::new(),
            ledger,
            next_look: Instant::START,
        }
    }

    fn forbidden(&mut self, pid: i32) {
        let name = tree::name_of(pid);
        self.out_of_reach
            .entry(Key::Process(pid))
            .or_insert_with(|| {
                OutOfReach {
            pid,
            policed: None,
            what: name,
            why:
                "the kernel forbids to borrow its sockets (set-uid, not dumpable, or Yama): run nine as root"
                    .into(),
        }
            });
    }

    /// Keeps a socket that is new.
    fn note(&mut self, pid: i32, fd: i32, socket: &OwnedFd) {
        let Some(inode) = socket::inode(socket) else {
            return;
        };
        let kind = socket::kind(socket);
        match kind {
            Kind::Tcp => {}
            Kind::Other => {
                self.others.insert(inode);
                return;
            }
            Kind::Udp | Kind::Mptcp => {
                let name = if kind == Kind::Udp { "UDP" } else { "MPTCP" };
                let what = match socket::ends(socket)[1] {
                    Some(remote) => format!("{name} to {remote}"),
                    None => name.to_string(),
                };
                let why = match kind {
                    Kind::Udp => WHY_NOT_UDP,
                    _ => "multipath TCP cannot be held yet: let the program use plain TCP",
                };
                let why = why.to_string();
                self.out_of_reach.insert(
                    Key::Socket(inode),
                    OutOfReach {
                        pid,
                        what,
                        why,
                        policed: None,
                    },
                );
                return;
            }
        }
        let (Ok(cookie), Ok(info)) = (socket::cookie(socket), socket::info(socket)) else {
            return;
        };
        if info.state == socket::LISTEN {
            self.others.insert(inode);
            return;
        }
        if info.state == socket::CLOSED && socket::clamp(socket).is_ok_and(|clamp| clamp == 0) {
            // Finer windows are a help, and no condition.
            let _ = socket::set_clamp(socket, FINE);
        }
        let id = FlowId(cookie);
        let flow = self
            .flows
            .entry(id)
            .or_insert_with(|| Flow::new(pid, fd, inode, now()));
        if flow.lost.is_some() {
            flow.moved(id, pid, fd, &mut self.ledger);
        }
    }

    /// A duplicate of a descriptor of that process.
    fn borrow(&mut self, pid: i32, fd: i32) -> io::Result<OwnedFd> {
        if let Some(process) = self.processes.get(&pid) {
            match process::borrow(process, fd) {
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                answer => return answer,
            }
            // It has ended; the number may be another's by now.
            self.processes.remove(&pid);
        }
        let process = process::hold(pid)?;
        let socket = process::borrow(&process, fd);
        self.processes.insert(pid, process);
        socket
    }

    /// A duplicate of a connection's socket, if it is still where it was.
    fn socket_of(&mut self, id: FlowId) -> Option<OwnedFd> {
        let flow = self.flows.get(&id)?;
        let (pid, fd) = (flow.pid, flow.fd);
        let socket = self.borrow(pid, fd).ok();
        let socket = socket.filter(|socket| socket::cookie(socket).ok() == Some(id.0));
        if let (None, Some(flow)) = (&socket, self.flows.get_mut(&id))
            && flow.lost.is_none()
        {
            flow.lost = Some(now());
            // Closed, or handed to another process: a look will tell.
            self.next_look = self.next_look.min(now() + Duration::from_millis(20));
        }
        socket
    }

    fn look_at(&mut self, pid: i32, sockets: &[(i32, u64)], present: &mut BTreeSet<u64>) {
        let known: BTreeMap<u64, bool> = self
            .flows
            .values()
            .map(|flow| (flow.inode, flow.lost.is_some()))
            .collect();
        for &(fd, inode) in sockets {
            present.insert(inode);
            let is_known = known.get(&inode).is_some_and(|lost| !lost);
            // A notification comes before the socket has its other end: then a second look says which.
            let is_said = self
                .out_of_reach
                .get(&Key::Socket(inode))
                .is_some_and(|one| one.what.contains(" to "));
            if is_known || is_said || self.others.contains(&inode) {
                continue;
            }
            match self.borrow(pid, fd) {
                Ok(socket) if socket::inode(&socket) == Some(inode) => {
                    // One that nobody has connected yet is looked at again.
                    let idle = socket::kind(&socket) == Kind::Tcp
                        && socket::info(&socket).is_ok_and(|info| info.state == socket::CLOSED);
                    if !idle {
                        self.note(pid, fd, &socket);
                    }
                }
                Err(e) if e.raw_os_error() == Some(libc::EPERM) => self.forbidden(pid),
                _ => {}
            }
        }
    }

    /// Forgets connections that have not been found for a while.
    fn drop_lost(&mut self, at: Instant) {
        let gone = |flow: &Flow| flow.lost.is_some_and(|since| at.since(since) > PATIENCE);
        for flow in self.flows.values_mut().filter(|flow| gone(flow)) {
            flow.forget(&mut self.ledger);
        }
        self.flows.retain(|_, flow| !gone(flow));
    }
}

fn is_young(flow: &Flow, at: Instant) -> bool {
    flow.is_open() && flow.held[0].0 != Hold::Free && at.since(flow.born) < YOUNG
}

impl Actuator for Borrowed {
    fn readings(&mut self, at: Instant) -> io::Result<Vec<FlowReading>> {
        let ids: Vec<FlowId> = self.flows.keys().copied().collect();
        let mut readings = Vec::new();
        for id in ids {
            let Some(socket) = self.socket_of(id) else {
                continue;
            };
            let Some(flow) = self.flows.get_mut(&id) else {
                continue;
            };
            flow.take(&socket)?;
            drop(socket);
            if flow.is_open() {
                readings.push(flow.reading(id, self.member));
            } else if matches!(flow.info.state, socket::TIME_WAIT | socket::CLOSED)
                && at.since(flow.born) > PATIENCE
            {
                flow.forget(&mut self.ledger);
                self.flows.remove(&id);
            }
        }
        Ok(readings)
    }

    fn apply(&mut self, orders: &[Order]) -> io::Result<()> {
        for order in orders {
            match self.flows.get_mut(&order.flow) {
                Some(flow) if flow.keeps_to(order) => {
                    flow.note(order);
                    continue;
                }
                Some(_) => {}
                None => continue,
            }
            if let Some(socket) = self.socket_of(order.flow)
                && let Some(flow) = self.flows.get_mut(&order.flow)
                && flow.is_open()
            {
                // One that ends at this moment refuses; it carries nothing more either.
                let _ = flow.hold(&socket, order.flow, order, &mut self.ledger);
            }
        }
        Ok(())
    }

    fn release(&mut self) -> io::Result<()> {
        // Those that have moved are to be found first.
        if self
            .flows
            .values()
            .any(|flow| flow.is_touched() && flow.lost.is_some())
        {
            self.next_look = Instant::START;
            self.look(now());
        }
        let touched: Vec<FlowId> = self
            .flows
            .iter()
            .filter(|(_, flow)| flow.is_touched())
            .map(|(id, _)| *id)
            .collect();
        for id in touched {
            if let Some(socket) = self.socket_of(id)
                && let Some(flow) = self.flows.get_mut(&id)
            {
                let _ = flow.release(&socket, &mut self.ledger);
            }
        }
        Ok(())
    }
}

impl Holder for Borrowed {
    fn connecting(&mut self, thread: i32, fd: i32) {
        let pid = match self.borrow(thread, fd) {
            Ok(socket) => return self.note(thread, fd, &socket),
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => return self.forbidden(thread),
            // A thread that does not lead its process.
            Err(_) => tree::process_of(thread),
        };
        if let Some(pid) = pid
            && let Ok(socket) = self.borrow(pid, fd)
        {
            self.note(pid, fd, &socket);
        }
    }

    fn look(&mut self, at: Instant) -> Option<bool> {
        if at < self.next_look {
            return None;
        }
        let pids = self.root.processes();
        let mut present = BTreeSet::new();
        for &pid in &pids {
            match tree::sockets_of(pid) {
                Ok(sockets) => self.look_at(pid, &sockets, &mut present),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => self.forbidden(pid),
                Err(_) => {}
            }
        }
        self.others.retain(|inode| present.contains(inode));
        self.out_of_reach.retain(|key, _| match key {
            Key::Process(pid) => pids.contains(pid),
            Key::Socket(inode) => present.contains(inode),
        });
        self.processes.retain(|pid, _| pids.contains(pid));
        self.drop_lost(at);
        let took = now().since(at);
        self.next_look = now() + LOOK.max(took.times(SPARING));
        Some(!pids.is_empty())
    }

    fn has_young(&self, at: Instant) -> bool {
        self.flows.values().any(|flow| is_young(flow, at))
    }

    fn assert_young(&mut self, at: Instant) {
        let young = |(id, flow): (&FlowId, &Flow)| is_young(flow, at).then_some(*id);
        let young: Vec<FlowId> = self.flows.iter().filter_map(young).collect();
        for id in young {
            if let Some(socket) = self.socket_of(id)
                && let Some(flow) = self.flows.get_mut(&id)
            {
                // One that has just ended cannot be held, and need not be.
                let _ = flow.assert_window(&socket, id, &mut self.ledger);
            }
        }
    }

    fn seen(&self) -> Vec<Seen> {
        let open = self
            .flows
            .iter()
            .filter(|(_, flow)| flow.is_open() && flow.lost.is_none());
        let seen = |(id, flow): (&FlowId, &Flow)| {
            Some(Seen {
                id: *id,
                pid: flow.pid,
                ends: flow.ends?,
                interface: None,
            })
        };
        open.filter_map(seen).collect()
    }

    fn out_of_reach(&self) -> Vec<OutOfReach> {
        self.out_of_reach.values().cloned().collect()
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

/// Undoes what a process that has died has done, by its ledger. Sockets that have moved are looked for below `root`.
pub(crate) fn undo(ledger: &Ledger, root: Root) {
    let mut missing: Vec<Entry> = Vec::new();
    let restore = |pid: i32, fd: i32, entry: &Entry| {
        let socket = process::hold(pid).and_then(|process| process::borrow(&process, fd));
        let socket = socket
            .ok()
            .filter(|socket| socket::cookie(socket).ok() == Some(entry.cookie));
        socket.is_some_and(|socket| entry.former.restore(&socket).is_ok())
    };
    for entry in ledger.entries() {
        if !restore(entry.pid, entry.fd, &entry) {
            missing.push(entry);
        }
    }
    if missing.is_empty() {
        return;
    }
    let (Root::Below(pid) | Root::At(pid)) = root;
    for pid in tree::below(pid).into_iter().chain([pid]) {
        for (fd, _) in tree::sockets_of(pid).unwrap_or_default() {
            missing.retain(|entry| !restore(pid, fd, entry));
        }
    }
}
