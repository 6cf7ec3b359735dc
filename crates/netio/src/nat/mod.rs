//! Hosts behind this one, where it translates addresses (NAT): on the line their packets have this
//! host's address, and a queue of the line would take them all for one.
//!
//! The kernel tells of each connection that begins and ends (`connections`); a thread keeps those
//! that are translated in a table (`table`), and a path that has [`BehindNat`] sees packets with
//! the address of the host behind. By that they get their classes, their flows' hashes and their
//! hosts. What is in the packets, and what is sent, is not changed.
//!
//! As `nat` of cake (tc-cake(8)), but for three things. The kernel tells of a connection when its
//! first packet has been translated, so that packet, and what leaves in the moment until it is
//! told, is this host's own. Packets of connections without ports (ICMP, tunnels) and fragments are
//! too. And filters see hosts behind, not only fair shares.

mod connections;
mod table;

pub use table::NatTable;

use crate::beside::ThreadBeside;
use crate::sys;
use connections::Connections;
use engine::header::{FlowKey, Fragment, Headers};
use engine::random::Seed;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// How many connections the kernel keeps at most.
const MOST: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// Whether it tells of connections: 0 if not.
const TELLS: &str = "/proc/sys/net/netfilter/nf_conntrack_events";

/// How long the thread waits for events before it looks whether it is to end.
const PATIENCE_NS: u64 = 100_000_000;

/// Where packets of a path have the addresses of hosts behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NatSide {
    /// In the source: they leave by the line.
    Source,
    /// In the destination: they have arrived by it.
    Destination,
}

/// What a path knows of hosts behind this one.
#[derive(Clone, Debug)]
pub struct BehindNat {
    table: Arc<NatTable>,
    side: NatSide,
}

impl BehindNat {
    /// By this table.
    pub fn new(table: Arc<NatTable>, side: NatSide) -> Self {
        Self { table, side }
    }

    /// The headers as they would be without translation, if they are of a host behind.
    #[inline]
    pub fn seen(&self, headers: &Headers) -> Option<Headers> {
        let key = &headers.key;
        if key.fragment != Fragment::Whole || key.source_port.is_none() || key.destination_port.is_none() {
            return None;
        }
        let mut inside = *headers;
        match self.side {
            NatSide::Source => inside.key.source = self.table.host(key)?,
            NatSide::Destination => inside.key.destination = self.table.host(&turned(key))?,
        }
        Some(inside)
    }
}

/// The key of a packet in the other direction.
fn turned(key: &FlowKey) -> FlowKey {
    FlowKey {
        source: key.destination,
        destination: key.source,
        source_port: key.destination_port,
        destination_port: key.source_port,
        ..*key
    }
}

/// Who hears of connections, and the table.
#[derive(Debug)]
pub struct NatWatch {
    connections: Connections,
    table: Arc<NatTable>,
}

impl NatWatch {
    /// Of the calling thread's network. The kernel begins to tell now.
    ///
    /// # Errors
    ///
    /// Returns an error if this kernel tells of no connections, or not this program.
    pub fn open(seed: Seed) -> io::Result<Self> {
        let connections = Connections::open()?;
        // The subscription has loaded what has these files, if it is a module.
        let number = |file| std::fs::read_to_string(file).ok()?.trim().parse::<usize>().ok();
        if number(TELLS) == Some(0) {
            return Err(io::Error::other(
                "the kernel is set to tell of no connections: sysctl -w net.netfilter.nf_conntrack_events=1",
            ));
        }
        let table = Arc::new(NatTable::new(number(MOST).unwrap_or_default(), seed));
        connections.read_all(&table)?;
        Ok(Self { connections, table })
    }

    /// What it keeps up to date.
    pub fn table(&self) -> Arc<NatTable> {
        Arc::clone(&self.table)
    }

    /// Follows the kernel from now on, in a thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub fn start(self) -> io::Result<ThreadBeside> {
        ThreadBeside::start("nat", move |ended| {
            let events = self.connections.as_fd().as_raw_fd();
            while !ended() {
                let mut waits = [sys::interest(events, libc::POLLIN)];
                // Where it cannot wait, or be read, the table stays as it is until it can.
                let came = sys::wait(&mut waits, PATIENCE_NS).is_ok();
                if !came || self.connections.follow(&self.table).is_err() {
                    std::thread::sleep(std::time::Duration::from_nanos(PATIENCE_NS));
                }
            }
        })
    }
}
