//! The datagrams of a command's processes, held to a rate at the link's interface, as root ([`netio::bpf::police`]): UDP has no window, and
//! what is beyond the rate is lost.

use crate::actuator::{Actuator, Holder, OutOfReach, Seen};
use crate::borrowed::ledger::Ledger;
use crate::borrowed::{Root, tree};
use crate::order::Order;
use crate::reading::FlowReading;
use crate::sockets;
use crate::sys::now;
use engine::units::{Bandwidth, Duration, Instant};
use netio::bpf::Means;
use netio::bpf::police::Police;
use std::io;

/// How long datagrams stay held after the last look. A supervisor that hangs holds nobody.
const HELD: Duration = Duration::from_secs(2);
/// The time between two looks: at least this, and this many times what a look takes.
const LOOK: Duration = Duration::from_millis(250);
const SPARING: u64 = 20;

/// What holds the command's connections, and its datagrams beside.
#[derive(Debug)]
pub(crate) struct WithDatagrams {
    connections: Box<dyn Holder>,
    police: Police,
    rate: Bandwidth,
    root: Root,
    next_look: Instant,
}

impl WithDatagrams {
    /// Of these processes, at this interface.
    pub(crate) fn new(
        connections: Box<dyn Holder>,
        root: Root,
        interface: &str,
        rate: Bandwidth,
    ) -> io::Result<Self> {
        Ok(Self {
            connections,
            police: Police::attach(interface, rate, HELD, Means::Best)?,
            rate,
            root,
            next_look: Instant::START,
        })
    }

    /// Notes the ports of all UDP sockets that the processes have now.
    fn choose(&mut self) {
        let all = sockets::all();
        let pids = self.root.processes();
        let of = pids
            .iter()
            .flat_map(|pid| tree::sockets_of(*pid).unwrap_or_default());
        let udp = of
            .filter_map(|(_, inode)| all.get(&inode))
            .filter(|socket| !socket.tcp);
        let ports = udp.map(|socket| socket.ends[0].port()).filter(|port| *port > 0);
        // Too many: those that were chosen stay, and the others pass.
        let _ = self.police.choose(ports.collect());
        self.police.beat(netio::clock::now());
    }
}

impl Actuator for WithDatagrams {
    fn readings(&mut self, now: Instant) -> io::Result<Vec<FlowReading>> {
        self.connections.readings(now)
    }

    fn apply(&mut self, orders: &[Order]) -> io::Result<()> {
        self.connections.apply(orders)
    }

    fn release(&mut self) -> io::Result<()> {
        self.police.silence();
        self.connections.release()
    }
}

impl Holder for WithDatagrams {
    fn connecting(&mut self, thread: i32, fd: i32) {
        self.connections.connecting(thread, fd);
    }

    fn look(&mut self, at: Instant) -> Option<bool> {
        if at >= self.next_look {
            self.choose();
            let took = now().since(at);
            self.next_look = now() + LOOK.max(took.times(SPARING));
        }
        self.connections.look(at)
    }

    fn has_young(&self, at: Instant) -> bool {
        self.connections.has_young(at)
    }

    fn assert_young(&mut self, at: Instant) {
        self.connections.assert_young(at);
    }

    fn seen(&self) -> Vec<Seen> {
        self.connections.seen()
    }

    fn out_of_reach(&self) -> Vec<OutOfReach> {
        let lost: u64 = self.police.counted().iter().map(|way| way.lost).sum();
        let policed = |one: OutOfReach| match one.what.starts_with("UDP") {
            true => OutOfReach {
                policed: Some(self.rate),
                why: format!("what is beyond is lost, {lost} so far"),
                ..one
            },
            false => one,
        };
        self.connections.out_of_reach().into_iter().map(policed).collect()
    }

    fn ledger(&self) -> &Ledger {
        self.connections.ledger()
    }
}
