//! The unprivileged actuator: sockets borrowed from the programs that own them.
//!
//! A connection is found when its program calls `connect` (a seccomp notification), or by a
//! periodic scan of its processes' descriptors. The scan finds sockets that were accepted,
//! inherited or passed on, and those connected in ways that bypass the filter (io_uring).
//!
//! The actuator keeps the process, descriptor and cookie of each. To read or limit a connection it
//! duplicates the descriptor (`pidfd_getfd`), checks the cookie, and closes the duplicate at once:
//! while it is open, the program's own close sends no FIN.

mod flow;

use crate::actuator::Actuator;
use crate::guest_link::GuestLink;
use crate::ledger::{Ledger, LedgerEntry};
use crate::member_actuator::{ConnectionInfo, MemberActuator, Scan, Uncontrolled};
use crate::order::{FlowLimit, LimitOrder};
use crate::process_root::ProcessRoot;
use crate::process_tree;
use crate::sys::socket::{self, Kind};
use crate::sys::{now, process};
use crate::tick::{ConnectionId, DataDirection, FlowSample, MemberId};
use engine::units::{Bandwidth, Duration, Instant};
use flow::BorrowedFlow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

/// How long a new connection is checked between ticks. On its first full-sized segments the kernel
/// recomputes the clamp.
const NEW_FOR: Duration = Duration::from_secs(3);

/// The clamp of a socket before its SYN, which determines the window scale: windows are then
/// multiples of 128 bytes, as with the kernel's default buffers. On hosts with larger buffers the
/// unit would be 1024 bytes or more, too coarse for windows of a segment or two. The kernel
/// replaces this clamp when it enlarges the buffer; the window can grow to 8 MB.
const SYN_CLAMP: u32 = (8 << 20) - 1;

/// How long a missing connection is searched for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two scans of all descriptors: at least this, and at least [`SPARING`] times
/// what a scan takes.
const SCAN_INTERVAL: Duration = Duration::from_millis(500);
const SPARING: u64 = 50;

/// How long after the last order a new connection is limited before its SYN.
const LIMITED_FOR: Duration = Duration::from_secs(3);

/// Before the first order, a capped member's windows are as if it had this round trip.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(20);

/// Its first window at least: two full segments.
const FIRST_WINDOW: u32 = 3_000;

/// Why UDP is not controlled, and what to do about it.
pub(crate) const WHY_NOT_UDP: &str =
    "UDP and QUIC have no window that this host could clamp: let the program use TCP";

/// What is uncontrolled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum UncontrolledKey {
    Process(i32),
    /// By inode: several processes may share it.
    Socket(u64),
}

/// The connections of one member, in all its processes.
#[derive(Debug)]
pub(crate) struct BorrowedSockets {
    member: MemberId,
    root: ProcessRoot,
    flows: BTreeMap<ConnectionId, BorrowedFlow>,
    processes: BTreeMap<i32, OwnedFd>,
    /// Sockets that were examined and are not TCP connections.
    not_tcp: BTreeSet<u64>,
    uncontrolled: BTreeMap<UncontrolledKey, Uncontrolled>,
    /// This process's network namespace, where the kernel tells it.
    namespace: Option<u64>,
    in_flight: Option<InFlight>,
    /// The member's cap: its connections begin limited from the first one on.
    cap: Option<Bandwidth>,
    ledger: Ledger,
    next_scan: Instant,
}

/// What all limited connections of the member may have in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct InFlight {
    at: Instant,
    windows: u64,
}

impl BorrowedSockets {
    pub(crate) fn new(member: MemberId, root: ProcessRoot, ledger: Ledger) -> Self {
        Self {
            member,
            root,
            flows: BTreeMap::new(),
            processes: BTreeMap::new(),
            not_tcp: BTreeSet::new(),
            uncontrolled: BTreeMap::new(),
            namespace: socket::namespace().ok(),
            in_flight: None,
            cap: None,
            ledger,
            next_scan: Instant::START,
        }
    }

    /// For a member with this cap, if any.
    pub(crate) fn capped(mut self, cap: Option<Bandwidth>) -> Self {
        self.cap = cap;
        self
    }

    /// Reports a process whose sockets the kernel refused to lend, unless it is just ending.
    fn forbidden(&mut self, pid: i32) {
        if process_tree::is_ending(pid) {
            return;
        }
        let name = process_tree::name_of(pid);
        self.uncontrolled
            .entry(UncontrolledKey::Process(pid))
            .or_insert_with(|| {
                Uncontrolled {
            pid,
            policed: None,
            what: name,
            why:
                "the kernel forbids borrowing its sockets (set-uid, not dumpable, or Yama): run nine as root"
                    .into(),
        }
            });
    }

    /// Registers a new socket.
    fn register(&mut self, pid: i32, fd: i32, socket: &OwnedFd) {
        let Some(inode) = socket::inode(socket) else {
            return;
        };
        let kind = socket::kind(socket);
        match kind {
            Kind::Tcp => {}
            Kind::Other => {
                self.not_tcp.insert(inode);
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
                    _ => "multipath TCP is not supported yet: let the program use plain TCP",
                };
                let why = why.to_string();
                self.uncontrolled.insert(
                    UncontrolledKey::Socket(inode),
                    Uncontrolled {
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
            self.not_tcp.insert(inode);
            return;
        }
        let mut first_window = None;
        if info.state == socket::CLOSED && socket::clamp(socket).is_ok_and(|clamp| clamp == 0) {
            // Finer windows help, but are not required.
            let _ = socket::set_clamp(socket, SYN_CLAMP);
            first_window = self.first_window();
        }
        let id = ConnectionId(cookie);
        let is_guest = match (self.namespace, socket::namespace_of(socket)) {
            (Some(own), Ok(its)) => its != own,
            _ => false,
        };
        let flow = self
            .flows
            .entry(id)
            .or_insert_with(|| BorrowedFlow::new(pid, fd, inode, now()).guest(is_guest));
        if flow.missing_since.is_some() {
            flow.found_at(id, pid, fd, &mut self.ledger);
        }
        if let Some(window) = first_window.filter(|_| !flow.is_modified()) {
            // Where it fails, the connection is limited from its first tick on.
            let _ = flow.open_with(socket, id, window, &mut self.ledger);
        }
    }

    /// What a new connection may tell with its SYN while the member's connections are limited, or
    /// are about to be: the mean of what they and it have together.
    fn first_window(&self) -> Option<u32> {
        let last = self.in_flight.filter(|last| now().since(last.at) < LIMITED_FOR);
        let capped = || self.cap.map(|cap| cap.bytes_in(FIRST_ROUND_TRIP).get());
        let windows = last.map(|last| last.windows).or_else(capped)?;
        let is_limited = |flow: &&BorrowedFlow| {
            let begins = flow.awaits_first_order() || flow.limits[0] != FlowLimit::Free;
            flow.missing_since.is_none() && !flow.is_over() && begins
        };
        let limited = self.flows.values().filter(is_limited);
        let mean = windows / (limited.count() as u64 + 1);
        let window = u32::try_from(mean).unwrap_or(u32::MAX).max(FIRST_WINDOW);
        // A SYN tells no more than this in any case.
        (window < u32::from(u16::MAX)).then_some(window)
    }

    /// Remembers what the member's connections may have in flight together.
    fn remember(&mut self, orders: &[LimitOrder]) {
        let downloads = orders
            .iter()
            .filter(|order| order.direction == DataDirection::Download);
        let windows = downloads.map(|order| match order.limit {
            FlowLimit::Window(bytes) => Some(bytes.get()),
            FlowLimit::Parked => Some(0),
            FlowLimit::Free | FlowLimit::Pace(_) => None,
        });
        let windows: Vec<Option<u64>> = windows.collect();
        if windows.is_empty() {
            // None is open. The next one is limited as the last ones were.
            return;
        }
        self.in_flight = windows.iter().any(Option::is_some).then(|| InFlight {
            at: now(),
            windows: windows.iter().flatten().sum(),
        });
    }

    /// Reports a connection whose link is not this host's, and leaves it alone.
    fn disclaim(&mut self, id: ConnectionId) {
        let Some(mut flow) = self.flows.remove(&id) else {
            return;
        };
        flow.strike_off(&mut self.ledger);
        let Some([_, remote]) = flow.ends else {
            return;
        };
        let one = Uncontrolled {
            pid: flow.pid,
            policed: None,
            what: format!("TCP to {remote}"),
            why: "it is in another network namespace, and its way out is not through this one: run nine \
                  in that namespace"
                .into(),
        };
        self.uncontrolled.insert(UncontrolledKey::Socket(flow.inode), one);
    }

    /// A duplicate of a descriptor of that process.
    fn borrow(&mut self, pid: i32, fd: i32) -> io::Result<OwnedFd> {
        if let Some(process) = self.processes.get(&pid) {
            match process::borrow(process, fd) {
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                answer => return answer,
            }
            // It has ended, and its number may have been reused.
            self.processes.remove(&pid);
        }
        let process = process::open_pidfd(pid)?;
        let socket = process::borrow(&process, fd);
        self.processes.insert(pid, process);
        socket
    }

    /// A duplicate of a connection's socket, if its process still has it at this descriptor.
    fn socket_of(&mut self, id: ConnectionId) -> Option<OwnedFd> {
        let flow = self.flows.get(&id)?;
        let (pid, fd) = (flow.pid, flow.fd);
        let socket = self.borrow(pid, fd).ok();
        let socket = socket.filter(|socket| socket::cookie(socket).ok() == Some(id.0));
        if let (None, Some(flow)) = (&socket, self.flows.get_mut(&id))
            && flow.missing_since.is_none()
        {
            flow.missing_since = Some(now());
            // Closed, or passed to another process: a scan will tell.
            self.next_scan = self.next_scan.min(now() + Duration::from_millis(20));
        }
        socket
    }

    fn scan_process(&mut self, pid: i32, sockets: &[(i32, u64)], present: &mut BTreeSet<u64>) {
        let tracked: BTreeMap<u64, bool> = self
            .flows
            .values()
            .map(|flow| (flow.inode, flow.missing_since.is_some()))
            .collect();
        for &(fd, inode) in sockets {
            present.insert(inode);
            let is_tracked = tracked.get(&inode).is_some_and(|missing| !missing);
            // A notification comes before the socket has a remote end. A second look finds it.
            let has_remote = self
                .uncontrolled
                .get(&UncontrolledKey::Socket(inode))
                .is_some_and(|one| one.what.contains(" to "));
            if is_tracked || has_remote || self.not_tcp.contains(&inode) {
                continue;
            }
            match self.borrow(pid, fd) {
                Ok(socket) if socket::inode(&socket) == Some(inode) => {
                    // A socket that is not connected yet is examined again later.
                    let idle = socket::kind(&socket) == Kind::Tcp
                        && socket::info(&socket).is_ok_and(|info| info.state == socket::CLOSED);
                    if !idle {
                        self.register(pid, fd, &socket);
                    }
                }
                Err(e) if e.raw_os_error() == Some(libc::EPERM) => self.forbidden(pid),
                _ => {}
            }
        }
    }

    /// Drops connections that have been missing for too long.
    fn drop_missing(&mut self, at: Instant) {
        let gone = |flow: &BorrowedFlow| flow.missing_since.is_some_and(|since| at.since(since) > PATIENCE);
        for flow in self.flows.values_mut().filter(|flow| gone(flow)) {
            flow.strike_off(&mut self.ledger);
        }
        self.flows.retain(|_, flow| !gone(flow));
    }
}

fn is_new(flow: &BorrowedFlow, at: Instant) -> bool {
    flow.is_open() && flow.limits[0] != FlowLimit::Free && at.since(flow.born) < NEW_FOR
}

impl Actuator for BorrowedSockets {
    fn samples(&mut self, at: Instant) -> io::Result<Vec<FlowSample>> {
        let ids: Vec<ConnectionId> = self.flows.keys().copied().collect();
        let mut readings = Vec::new();
        for id in ids {
            let Some(socket) = self.socket_of(id) else {
                continue;
            };
            let Some(flow) = self.flows.get_mut(&id) else {
                continue;
            };
            flow.update(&socket)?;
            let is_over = flow.is_modified() && flow.info.state == socket::CLOSED;
            if is_over || flow.opens_in_vain(at) {
                let _ = flow.release(&socket, &mut self.ledger);
            }
            drop(socket);
            if flow.link() == Some(&GuestLink::Apart) {
                self.disclaim(id);
            } else if flow.is_open() {
                readings.push(flow.sample(id, self.member));
            } else if flow.is_over() && at.since(flow.born) > PATIENCE {
                flow.strike_off(&mut self.ledger);
                self.flows.remove(&id);
            }
        }
        Ok(readings)
    }

    fn apply(&mut self, orders: &[LimitOrder]) -> io::Result<()> {
        self.remember(orders);
        for order in orders {
            match self.flows.get_mut(&order.flow) {
                Some(flow) if flow.is_in_force(order) => {
                    flow.record(order);
                    continue;
                }
                Some(_) => {}
                None => continue,
            }
            if let Some(socket) = self.socket_of(order.flow)
                && let Some(flow) = self.flows.get_mut(&order.flow)
                && flow.is_open()
            {
                // A connection that is just closing refuses, and carries nothing more.
                let _ = flow.carry_out(&socket, order.flow, order, &mut self.ledger);
            }
        }
        Ok(())
    }

    fn release(&mut self) -> io::Result<()> {
        // First find those that have moved.
        if self
            .flows
            .values()
            .any(|flow| flow.is_modified() && flow.missing_since.is_some())
        {
            self.next_scan = Instant::START;
            self.scan(now());
        }
        let touched: Vec<ConnectionId> = self
            .flows
            .iter()
            .filter(|(_, flow)| flow.is_modified())
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

impl MemberActuator for BorrowedSockets {
    fn connecting(&mut self, thread: i32, fd: i32, waits: &dyn Fn() -> bool) {
        let (pid, socket) = match self.borrow(thread, fd) {
            Ok(socket) => (thread, socket),
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                if waits() {
                    self.forbidden(thread);
                }
                return;
            }
            // A thread other than the main one.
            Err(_) => {
                let found =
                    process_tree::process_of(thread).and_then(|pid| Some((pid, self.borrow(pid, fd).ok()?)));
                let Some(found) = found else { return };
                found
            }
        };
        // The process was found by a number. If the thread has ended meanwhile, the number may be
        // another's, and so the socket.
        if waits() {
            self.register(pid, fd, &socket);
        } else {
            self.processes.remove(&pid);
        }
    }

    fn scan(&mut self, at: Instant) -> Scan {
        if at < self.next_scan {
            return Scan::NotDue;
        }
        let pids = self.root.processes();
        let mut present = BTreeSet::new();
        for &pid in &pids {
            match process_tree::sockets_of(pid) {
                Ok(sockets) => self.scan_process(pid, &sockets, &mut present),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => self.forbidden(pid),
                Err(_) => {}
            }
        }
        self.not_tcp.retain(|inode| present.contains(inode));
        self.uncontrolled.retain(|key, _| match key {
            UncontrolledKey::Process(pid) => pids.contains(pid),
            UncontrolledKey::Socket(inode) => present.contains(inode),
        });
        self.processes.retain(|pid, _| pids.contains(pid));
        self.drop_missing(at);
        let took = now().since(at);
        self.next_scan = now() + SCAN_INTERVAL.max(took.times(SPARING));
        self.root.scanned(&pids)
    }

    fn has_new(&self, at: Instant) -> bool {
        self.flows.values().any(|flow| is_new(flow, at))
    }

    fn is_opening(&self, at: Instant) -> bool {
        let opens = |flow: &BorrowedFlow| {
            let is_young = at.since(flow.born) < NEW_FOR && flow.missing_since.is_none();
            is_young && !flow.is_open() && !flow.is_over()
        };
        self.flows.values().any(opens)
    }

    fn reassert_new(&mut self, at: Instant) {
        let young = |(id, flow): (&ConnectionId, &BorrowedFlow)| is_new(flow, at).then_some(*id);
        let young: Vec<ConnectionId> = self.flows.iter().filter_map(young).collect();
        for id in young {
            if let Some(socket) = self.socket_of(id)
                && let Some(flow) = self.flows.get_mut(&id)
            {
                // One that has just closed cannot be clamped, and need not be.
                let _ = flow.assert_window(&socket, id, &mut self.ledger);
            }
        }
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        let open = self
            .flows
            .iter()
            .filter(|(_, flow)| flow.is_open() && flow.missing_since.is_none());
        let seen = |(id, flow): (&ConnectionId, &BorrowedFlow)| {
            Some(ConnectionInfo {
                id: *id,
                pid: flow.pid,
                ends: flow.ends?,
                interface: flow.link().and_then(GuestLink::interface),
            })
        };
        open.filter_map(seen).collect()
    }

    fn uncontrolled(&self) -> Vec<Uncontrolled> {
        self.uncontrolled.values().cloned().collect()
    }
}

impl Drop for BorrowedSockets {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

/// Restores the sockets in the ledger of a process that has died. Those that have moved are
/// searched for among the processes of `root`.
pub(crate) fn undo(ledger: &Ledger, root: &ProcessRoot) {
    let mut missing: Vec<LedgerEntry> = Vec::new();
    let restore = |pid: i32, fd: i32, entry: &LedgerEntry| {
        let socket = process::open_pidfd(pid).and_then(|process| process::borrow(&process, fd));
        let socket = socket
            .ok()
            .filter(|socket| socket::cookie(socket).ok() == Some(entry.cookie));
        socket.is_some_and(|socket| entry.saved.restore(&socket).is_ok())
    };
    for entry in ledger.entries() {
        if !restore(entry.pid, entry.fd, &entry) {
            missing.push(entry);
        }
    }
    if missing.is_empty() {
        return;
    }
    for pid in root.processes() {
        for (fd, _) in process_tree::sockets_of(pid).unwrap_or_default() {
            missing.retain(|entry| !restore(pid, fd, entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    /// Its number may be another process's by then, and the descriptor another socket.
    #[test]
    fn a_socket_of_a_thread_that_waits_no_more_is_left_alone() {
        let own = std::process::id().cast_signed();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket =
            std::net::TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let after = |waits: bool| {
            let ledger = Ledger::new().expect("a ledger");
            let mut sockets = BorrowedSockets::new(MemberId(1), ProcessRoot::Below(own), ledger);
            sockets.connecting(own, socket.as_raw_fd(), &|| waits);
            (sockets.flows.len(), sockets.processes.len())
        };
        assert_eq!(after(true), (1, 1));
        assert_eq!(after(false), (0, 0));
    }

    #[test]
    fn a_program_that_has_ended_is_not_reported_as_forbidden() {
        let own = std::process::id().cast_signed();
        let ledger = Ledger::new().expect("a ledger");
        let mut sockets = BorrowedSockets::new(MemberId(1), ProcessRoot::Below(own), ledger);
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat runs");
        let pid = child.id().cast_signed();
        sockets.forbidden(pid);
        assert_eq!(sockets.uncontrolled().len(), 1, "one that runs is reported");
        sockets.uncontrolled.clear();
        // Ends without being waited for: a zombie, as among the programs of a shell.
        drop(child.stdin.take());
        while !process_tree::is_ending(pid) {
            std::thread::yield_now();
        }
        sockets.forbidden(pid);
        assert_eq!(sockets.uncontrolled(), []);
        child.wait().expect("its status");
        sockets.forbidden(pid);
        assert_eq!(sockets.uncontrolled(), []);
    }
}
