//! The connections of one member whose windows are rewritten: those of a command's processes,
//! found by their descriptors and the kernel's socket table, or those of the hosts behind an
//! interface.

use super::{InterfaceRewriter, MemberOf, RewritePoint, WindowRewriter};
use crate::actuator::Actuator;
use crate::interface::{self, LinkTable};
use crate::member_actuator::{ConnectionInfo, MemberActuator, Scan, Uncontrolled};
use crate::order::LimitOrder;
use crate::process_root::ProcessRoot;
use crate::process_tree;
use crate::sockets::{self, Socket};
use crate::sys::now;
use crate::tick::{ConnectionId, FlowSample, MemberId};
use engine::units::{Duration, Instant};
use netio::bpf::windows::Side;
use netio::tcp::Ends;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The time between two scans of all descriptors: at least this, and at least [`SPARING`] times
/// what a scan takes; less after a connect.
const SCAN_INTERVAL: Duration = Duration::from_millis(500);
const SPARING: u64 = 50;
const SPARING_AT_CONNECT: u64 = 4;

/// The process of each connection of the command.
type Owners = Arc<Mutex<BTreeMap<Ends, i32>>>;

impl<P: RewritePoint> WindowRewriter<P> {
    /// The ends of a connection of the last sample.
    fn ends(&self, flow: ConnectionId) -> Option<Ends> {
        self.limitable.get(&flow).map(|flow| flow.ends)
    }

    /// Whether a connection between these ends is tracked, of whichever member.
    fn tracks(&self, ends: &Ends) -> bool {
        self.history.contains_key(ends)
    }
}

/// The connections of one member, limited at an interface.
#[derive(Debug)]
pub(crate) struct RewrittenMember {
    rewrite: WindowRewriter<InterfaceRewriter>,
    /// The link's interface.
    interface: String,
    /// Its processes; none for hosts behind an interface.
    root: Option<ProcessRoot>,
    owners: Owners,
    flows: Vec<ConnectionId>,
    uncontrolled: Vec<Uncontrolled>,
    /// The command's connections that the rewriter did not track at the last scan.
    untracked: BTreeSet<Ends>,
    next_scan: Instant,
    /// From here on a connect makes a scan due.
    scan_at_connect: Instant,
}

impl RewrittenMember {
    /// For these processes, in ACKs that leave by the link's interface.
    pub(crate) fn of(root: ProcessRoot, interface: &str, member: MemberId) -> io::Result<Self> {
        let owners = Owners::default();
        let known = Arc::clone(&owners);
        let member_of = move |ends: &Ends| {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.contains_key(ends).then_some(member)
        };
        let point = InterfaceRewriter::new(interface, Side::Leaving, Box::new(member_of))?;
        Ok(Self::new(point, interface, Some(root), owners))
    }

    /// For the hosts behind an interface; `interface` is the link's.
    pub(crate) fn behind(behind: &str, interface: &str, member: MemberId) -> io::Result<Self> {
        let own = interface::addresses()?;
        // Traffic between this host and them does not use the link.
        let member_of: MemberOf =
            Box::new(move |ends| (!own.contains_key(&ends.there.ip())).then_some(member));
        let point = InterfaceRewriter::new(behind, Side::Behind, member_of)?;
        Ok(Self::new(point, interface, None, Owners::default()))
    }

    fn new(point: InterfaceRewriter, interface: &str, root: Option<ProcessRoot>, owners: Owners) -> Self {
        Self {
            rewrite: WindowRewriter::at(point),
            interface: interface.into(),
            root,
            owners,
            flows: Vec::new(),
            uncontrolled: Vec::new(),
            untracked: BTreeSet::new(),
            next_scan: Instant::START,
            scan_at_connect: Instant::START,
        }
    }

    /// Records the owner of each connection, and what cannot be controlled.
    fn record(&mut self, pids: &[i32]) {
        let all = sockets::all();
        let (mut owners, mut uncontrolled, mut others) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for &pid in pids {
            if process_tree::is_in_other_namespace(pid) {
                uncontrolled.push(Uncontrolled {
                    pid,
                    policed: None,
                    what: process_tree::name_of(pid),
                    why: "it is in another network namespace: control it without --rewrite, or the hosts \
                          behind its bridge (--behind NAME)"
                        .into(),
                });
                continue;
            }
            match process_tree::sockets_of(pid) {
                Ok(sockets) => {
                    for (inode, socket) in sockets
                        .iter()
                        .filter_map(|(_, inode)| Some((*inode, all.get(inode)?)))
                    {
                        let [here, there] = socket.ends;
                        if socket.tcp {
                            owners.insert(Ends { here, there }, (pid, *socket));
                        } else {
                            others.entry(inode).or_insert((pid, *socket));
                        }
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => uncontrolled.push(Uncontrolled {
                    pid,
                    policed: None,
                    what: process_tree::name_of(pid),
                    why: "the system hides its sockets: run nine as root of this machine".into(),
                }),
                Err(_) => {}
            }
        }
        uncontrolled.extend(others.into_values().map(|(pid, socket)| udp(pid, &socket)));
        uncontrolled.extend(self.find_untracked(&owners));
        self.uncontrolled = uncontrolled;
        let owners = owners.into_iter().map(|(ends, (pid, _))| (ends, pid)).collect();
        *self.owners.lock().unwrap_or_else(PoisonError::into_inner) = owners;
    }

    /// Connections of the command that the rewriter does not track: they began before it did, or
    /// use another interface.
    fn find_untracked(&mut self, owners: &BTreeMap<Ends, (i32, Socket)>) -> Vec<Uncontrolled> {
        let ends = owners.keys().map(|ends| [ends.here.ip(), ends.there.ip()]);
        let links = LinkTable::read(ends).unwrap_or_default();
        let before = std::mem::take(&mut self.untracked);
        let mut found = Vec::new();
        for (ends, (pid, socket)) in owners {
            if !socket.established || self.rewrite.tracks(ends) {
                continue;
            }
            let Some(by) = links.of([ends.here.ip(), ends.there.ip()]) else {
                continue;
            };
            self.untracked.insert(*ends);
            // One that has just begun is tracked a tick later.
            if !before.contains(ends) {
                continue;
            }
            let why = if by == self.interface {
                "it began before nine, which needs its SYN for the window scale: new connections are \
                 controlled"
                    .to_string()
            } else {
                format!("it uses {by}, and windows are rewritten at {}", self.interface)
            };
            found.push(Uncontrolled {
                policed: None,
                pid: *pid,
                what: format!("TCP to {}", ends.there),
                why,
            });
        }
        found
    }
}

fn udp(pid: i32, socket: &Socket) -> Uncontrolled {
    let remote = socket.ends[1];
    Uncontrolled {
        policed: None,
        pid,
        what: match remote.port() {
            0 => "UDP".into(),
            _ => format!("UDP to {remote}"),
        },
        why: crate::borrowed::WHY_NOT_UDP.into(),
    }
}

impl Actuator for RewrittenMember {
    fn samples(&mut self, now: Instant) -> io::Result<Vec<FlowSample>> {
        let readings = self.rewrite.samples(now)?;
        self.flows = readings.iter().map(|reading| reading.id).collect();
        Ok(readings)
    }

    fn apply(&mut self, orders: &[LimitOrder]) -> io::Result<()> {
        self.rewrite.apply(orders)
    }

    fn release(&mut self) -> io::Result<()> {
        self.rewrite.release()
    }
}

impl MemberActuator for RewrittenMember {
    fn connecting(&mut self, _thread: i32, _fd: i32, _waits: &dyn Fn() -> bool) {
        // Its ends will be in the socket table once it has connected.
        self.next_scan = self.next_scan.min(self.scan_at_connect);
    }

    fn scan(&mut self, at: Instant) -> Scan {
        let Some(root) = self.root.as_ref().filter(|_| at >= self.next_scan) else {
            return Scan::NotDue;
        };
        let pids = root.processes();
        let scanned = root.scanned(&pids);
        self.record(&pids);
        let took = now().since(at);
        self.next_scan = now() + SCAN_INTERVAL.max(took.times(SPARING));
        self.scan_at_connect = now() + took.times(SPARING_AT_CONNECT);
        scanned
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = |id: &ConnectionId| {
            let ends = self.rewrite.ends(*id)?;
            Some(ConnectionInfo {
                id: *id,
                pid: owners.get(&ends).copied().unwrap_or(0),
                ends: [ends.here, ends.there],
                interface: Some(self.interface.clone()),
            })
        };
        self.flows.iter().filter_map(seen).collect()
    }

    fn uncontrolled(&self) -> Vec<Uncontrolled> {
        self.uncontrolled.clone()
    }
}
