//! UDP of a command's processes, policed at the link's interface as root ([`netio::bpf::police`]).
//!
//! UDP has no window, so the excess over the rate is dropped.

use crate::actuator::Actuator;
use crate::member_actuator::{ConnectionInfo, MemberActuator, Scan, Uncontrolled};
use crate::order::LimitOrder;
use crate::process_root::ProcessRoot;
use crate::process_tree;
use crate::sockets;
use crate::sys::now;
use crate::tick::FlowSample;
use engine::units::{Bandwidth, Duration, Instant};
use netio::bpf::Means;
use netio::bpf::police::Police;
use std::io;

/// How long the policer works after the last scan. A supervisor that hangs polices nobody.
const LIFETIME: Duration = Duration::from_secs(2);
/// The time between two scans for UDP sockets: at least this, and at least [`SPARING`] times what
/// a scan takes.
const SCAN_INTERVAL: Duration = Duration::from_millis(250);
const SPARING: u64 = 20;

/// An actuator for a command's TCP connections, with a policer for its UDP beside it.
#[derive(Debug)]
pub(crate) struct WithUdpPolicer {
    connections: Box<dyn MemberActuator>,
    police: Police,
    rate: Bandwidth,
    root: ProcessRoot,
    next_scan: Instant,
}

impl WithUdpPolicer {
    /// For these processes, at this interface.
    pub(crate) fn new(
        connections: Box<dyn MemberActuator>,
        root: ProcessRoot,
        interface: &str,
        rate: Bandwidth,
    ) -> io::Result<Self> {
        Ok(Self {
            connections,
            police: Police::attach(interface, rate, LIFETIME, Means::Best)?,
            rate,
            root,
            next_scan: Instant::START,
        })
    }

    /// Polices the ports of all UDP sockets that the processes have now.
    fn choose_ports(&mut self) {
        let all = sockets::all();
        let pids = self.root.processes();
        let descriptors = pids
            .iter()
            .flat_map(|pid| process_tree::sockets_of(*pid).unwrap_or_default());
        let udp = descriptors
            .filter_map(|(_, inode)| all.get(&inode))
            .filter(|socket| !socket.tcp);
        let ports = udp.map(|socket| socket.ends[0].port()).filter(|port| *port > 0);
        // If there are too many, the ports of the last scan stay and the others pass.
        let _ = self.police.choose(ports.collect());
        self.police.beat(netio::clock::now());
    }
}

impl Actuator for WithUdpPolicer {
    fn samples(&mut self, now: Instant) -> io::Result<Vec<FlowSample>> {
        self.connections.samples(now)
    }

    fn apply(&mut self, orders: &[LimitOrder]) -> io::Result<()> {
        self.connections.apply(orders)
    }

    fn release(&mut self) -> io::Result<()> {
        self.police.silence();
        self.connections.release()
    }
}

impl MemberActuator for WithUdpPolicer {
    fn connecting(&mut self, thread: i32, fd: i32, waits: &dyn Fn() -> bool) {
        self.connections.connecting(thread, fd, waits);
    }

    fn scan(&mut self, at: Instant) -> Scan {
        if at >= self.next_scan {
            self.choose_ports();
            let took = now().since(at);
            self.next_scan = now() + SCAN_INTERVAL.max(took.times(SPARING));
        }
        self.connections.scan(at)
    }

    fn has_new(&self, at: Instant) -> bool {
        self.connections.has_new(at)
    }

    fn is_opening(&self, at: Instant) -> bool {
        self.connections.is_opening(at)
    }

    fn reassert_new(&mut self, at: Instant) {
        self.connections.reassert_new(at);
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.connections.connections()
    }

    fn uncontrolled(&self) -> Vec<Uncontrolled> {
        let dropped: u64 = self.police.counters().iter().map(|way| way.dropped).sum();
        let policed = |one: Uncontrolled| match one.what.starts_with("UDP") {
            true => Uncontrolled {
                policed: Some(self.rate),
                why: format!("the excess is dropped, {dropped} packets so far"),
                ..one
            },
            false => one,
        };
        self.connections.uncontrolled().into_iter().map(policed).collect()
    }
}
