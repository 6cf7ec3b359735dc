//! An interface of this host as the rewrite point: programs of the kernel rewrite there.

use super::{ConnectionLimit, ConnectionList, MemberConnection, NOT_COOKIES, RewritePoint};
use crate::tick::MemberId;
use engine::units::Duration;
use netio::bpf::Means;
use netio::bpf::windows::{Side, Windows};
use netio::tcp::{Connection, Ends};
use std::io;

/// How long windows stay clamped after the last orders. A supervisor that hangs clamps nobody.
const LIMIT_LIFETIME: Duration = Duration::from_secs(1);

/// Assigns a connection to a member; none for other traffic.
pub type MemberOf = Box<dyn FnMut(&Ends) -> Option<MemberId> + Send>;

/// An interface of this host as the rewrite point.
pub struct InterfaceRewriter {
    windows: Windows,
    member_of: MemberOf,
}

impl std::fmt::Debug for InterfaceRewriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterfaceRewriter").finish_non_exhaustive()
    }
}

impl InterfaceRewriter {
    /// Attaches to the interface next to the bottleneck, or to the one that leads to the hosts
    /// behind this one.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses the programs (`CAP_BPF` and
    /// `CAP_NET_ADMIN` are needed).
    pub fn new(interface: &str, side: Side, member_of: MemberOf) -> io::Result<Self> {
        let windows = Windows::attach(interface, side, LIMIT_LIFETIME, Means::Best)?;
        // From here on SYNs are recorded.
        windows.beat(netio::clock::now());
        Ok(Self { windows, member_of })
    }
}

impl RewritePoint for InterfaceRewriter {
    fn connections(&mut self) -> io::Result<ConnectionList> {
        self.windows.beat(netio::clock::now());
        let (all, at) = netio::clock::timed(|| self.windows.connections());
        let (closed, open): (Vec<Connection>, Vec<Connection>) = all.into_iter().partition(|c| c.closes);
        closed
            .iter()
            .for_each(|connection| self.windows.forget(&connection.ends));
        let assign = |connection: Connection| MemberConnection {
            connection,
            member: (self.member_of)(&connection.ends),
        };
        Ok(ConnectionList {
            at,
            connections: open.into_iter().map(assign).collect(),
        })
    }

    /// Offset by the process: nines of one user exchange such numbers.
    fn first_number(&self) -> u64 {
        NOT_COOKIES | u64::from(std::process::id()) << 32
    }

    fn set_limits(&mut self, limits: Vec<ConnectionLimit>) -> io::Result<()> {
        for ConnectionLimit { ends, limit } in limits {
            match limit {
                Some(limit) => self.windows.limit(&ends, limit)?,
                None => self.windows.free(&ends),
            }
        }
        self.windows.beat(netio::clock::now());
        Ok(())
    }
}
