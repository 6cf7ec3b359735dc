//! The connections of one nine whose windows are rewritten: those of a command's processes, found through their descriptors
//! and the kernel's table of sockets, or all those of the hosts behind an interface.

use super::{AtInterface, Rewrite, Whose};
use crate::actuator::{Actuator, Holder, OutOfReach, Seen};
use crate::borrowed::ledger::Ledger;
use crate::borrowed::{Root, tree};
use crate::link;
use crate::order::Order;
use crate::reading::{FlowId, FlowReading, MemberId};
use crate::sockets::{self, Socket};
use crate::sys::now;
use engine::units::{Duration, Instant};
use netio::bpf::windows::Side;
use netio::tcp::Ends;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The time between two looks through all descriptors: at least this, and this many times what a look takes; less after a connect.
const LOOK: Duration = Duration::from_millis(500);
const SPARING: u64 = 50;
const SPARING_AT_CONNECT: u64 = 4;

/// The process of each connection of the command.
type Owners = Arc<Mutex<BTreeMap<Ends, i32>>>;

/// The connections of one member, held at an interface.
#[derive(Debug)]
pub(crate) struct Rewritten {
    rewrite: Rewrite<AtInterface>,
    /// The link's interface.
    interface: String,
    /// The processes; none for hosts behind an interface.
    root: Option<Root>,
    owners: Owners,
    flows: Vec<FlowId>,
    out_of_reach: Vec<OutOfReach>,
    /// Those of the command's that were not known at the last look.
    unknown: BTreeSet<Ends>,
    next_look: Instant,
    /// From when on a connect is reason enough for a look.
    rested: Instant,
    ledger: Ledger,
}

impl Rewritten {
    /// Of these processes, in what leaves by the link's interface.
    pub(crate) fn of(root: Root, interface: &str, member: MemberId, ledger: Ledger) -> io::Result<Self> {
        let owners = Owners::default();
        let known = Arc::clone(&owners);
        let whose = move |ends: &Ends| {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.contains_key(ends).then_some(member)
        };
        let place = AtInterface::new(interface, Side::Leaving, Box::new(whose))?;
        Ok(Self::new(place, interface, Some(root), owners, ledger))
    }

    /// Of the hosts behind an interface; the link is that of the other one.
    pub(crate) fn behind(
        behind: &str,
        interface: &str,
        member: MemberId,
        ledger: Ledger,
    ) -> io::Result<Self> {
        let own = link::addresses()?;
        // What this host itself speaks with them does not come by the link.
        let whose: Whose = Box::new(move |ends| (!own.contains_key(&ends.there.ip())).then_some(member));
        let place = AtInterface::new(behind, Side::Behind, whose)?;
        Ok(Self::new(place, interface, None, Owners::default(), ledger))
    }

    fn new(place: AtInterface, interface: &str, root: Option<Root>, owners: Owners, ledger: Ledger) -> Self {
        Self {
            rewrite: Rewrite::at(place),
            interface: interface.into(),
            root,
            owners,
            flows: Vec::new(),
            out_of_reach: Vec::new(),
            unknown: BTreeSet::new(),
            next_look: Instant::START,
            rested: Instant::START,
            ledger,
        }
    }

    /// Notes whose connections are whose, and what cannot be held.
    fn take(&mut self, pids: &[i32]) {
        let all = sockets::all();
        let (mut owners, mut out_of_reach, mut others) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for &pid in pids {
            match tree::sockets_of(pid) {
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
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => out_of_reach.push(OutOfReach {
                    pid,
                    policed: None,
                    what: tree::name_of(pid),
                    why: "the system hides its sockets: run nine as root of this machine".into(),
                }),
                Err(_) => {}
            }
        }
        out_of_reach.extend(others.into_values().map(|(pid, socket)| udp(pid, &socket)));
        out_of_reach.extend(self.strangers(&owners));
        self.out_of_reach = out_of_reach;
        let owners = owners.into_iter().map(|(ends, (pid, _))| (ends, pid)).collect();
        *self.owners.lock().unwrap_or_else(PoisonError::into_inner) = owners;
    }

    /// Connections of the command that the programs do not know: they began before, or go another way.
    fn strangers(&mut self, owners: &BTreeMap<Ends, (i32, Socket)>) -> Vec<OutOfReach> {
        let addresses = link::addresses().unwrap_or_default();
        let before = std::mem::take(&mut self.unknown);
        let mut found = Vec::new();
        for (ends, (pid, socket)) in owners {
            if !socket.established || self.rewrite.knows(ends) {
                continue;
            }
            let Some(by) = link::interface_of(&addresses, ends.here.ip(), ends.there.ip()) else {
                continue;
            };
            self.unknown.insert(*ends);
            // One that has just begun is known a tick later.
            if !before.contains(ends) {
                continue;
            }
            let why = if by == self.interface {
                "it began before nine did, which must see a connection's first segments to know its scale: new ones are held"
                    .to_string()
            } else {
                format!("it goes by {by}, and windows are rewritten at {}", self.interface)
            };
            found.push(OutOfReach {
                policed: None,
                pid: *pid,
                what: format!("TCP to {}", ends.there),
                why,
            });
        }
        found
    }
}

fn udp(pid: i32, socket: &Socket) -> OutOfReach {
    let remote = socket.ends[1];
    OutOfReach {
        policed: None,
        pid,
        what: match remote.port() {
            0 => "UDP".into(),
            _ => format!("UDP to {remote}"),
        },
        why: crate::borrowed::WHY_NOT_UDP.into(),
    }
}

impl Actuator for Rewritten {
    fn readings(&mut self, now: Instant) -> io::Result<Vec<FlowReading>> {
        let readings = self.rewrite.readings(now)?;
        self.flows = readings.iter().map(|reading| reading.id).collect();
        Ok(readings)
    }

    fn apply(&mut self, orders: &[Order]) -> io::Result<()> {
        self.rewrite.apply(orders)
    }

    fn release(&mut self) -> io::Result<()> {
        self.rewrite.release()
    }
}

impl Holder for Rewritten {
    fn connecting(&mut self, _thread: i32, _fd: i32) {
        // Its ends are in the table when it has connected: soon.
        self.next_look = self.next_look.min(self.rested);
    }

    fn look(&mut self, at: Instant) -> Option<bool> {
        let root = self.root.filter(|_| at >= self.next_look)?;
        let pids = root.processes();
        self.take(&pids);
        let took = now().since(at);
        self.next_look = now() + LOOK.max(took.times(SPARING));
        self.rested = now() + took.times(SPARING_AT_CONNECT);
        Some(!pids.is_empty())
    }

    fn seen(&self) -> Vec<Seen> {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = |id: &FlowId| {
            let ends = self.rewrite.ends(*id)?;
            Some(Seen {
                id: *id,
                pid: owners.get(&ends).copied().unwrap_or(0),
                ends: [ends.here, ends.there],
                interface: Some(self.interface.clone()),
            })
        };
        self.flows.iter().filter_map(seen).collect()
    }

    fn out_of_reach(&self) -> Vec<OutOfReach> {
        self.out_of_reach.clone()
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}
