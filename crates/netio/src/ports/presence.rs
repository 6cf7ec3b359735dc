//! Whether the interface of a port that reads a TAP is still the same one, and the TAP: neither it,
//! nor a socket that does not receive, reports that the interface was removed.

use super::tap::Tap;
use crate::clock;
use crate::interface::Interface;
use crate::port::{Fault, PortError};
use engine::units::{Duration, Instant};
use std::io;

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(100);

/// The kernel replaces `%d` with the first free number.
const TAP: &str = "suimon%d";

/// An interface, and when it was seen last.
#[derive(Debug)]
pub(super) struct Presence {
    name: String,
    index: u32,
    seen: Instant,
}

impl Presence {
    /// The interface of this name.
    pub(super) fn of(name: &str) -> Result<Self, PortError> {
        let mut found = Self {
            name: name.into(),
            index: 0,
            seen: Instant::START,
        };
        found.find()?;
        Ok(found)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Finds the interface of this name, perhaps another one than before.
    pub(super) fn find(&mut self) -> Result<(), PortError> {
        let interface = Interface::named(&self.name);
        let interface = interface.map_err(|e| PortError::new(&self.name, "looking for it", e))?;
        if !interface.ethernet {
            let why = "its packets have no Ethernet header (tun, WireGuard, PPP); manage the interface \
                       below it, or the one towards the devices";
            let why = io::Error::new(io::ErrorKind::Unsupported, why);
            return Err(PortError::new(&self.name, "managing it", why));
        }
        (self.index, self.seen) = (interface.index, clock::now());
        Ok(())
    }

    /// Looks, if it is time to, whether it is still the same one. `doing`: what fails otherwise.
    pub(super) fn check(&mut self, doing: &'static str) -> Result<(), PortError> {
        if clock::now().since(self.seen) <= INTERVAL {
            return Ok(());
        }
        let before = self.index;
        self.find()?;
        match self.index == before {
            true => Ok(()),
            false => Err(PortError::fault(&self.name, doing, Fault::Gone)),
        }
    }
}

/// A TAP of our own that is up, and its index.
pub(super) fn own_tap(transmit_ring: usize) -> Result<(Tap, u32), PortError> {
    let tap = Tap::open(TAP, transmit_ring)?;
    let name = crate::port::Port::name(&tap).to_owned();
    let index = set_up(&name).map_err(|e| PortError::new(&name, "setting it up", e))?;
    Ok((tap, index))
}

/// Brings the TAP up with IPv6 disabled: the kernel's own packets on it would go out on the wire.
fn set_up(name: &str) -> io::Result<u32> {
    let disable_ipv6 = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
    match std::fs::write(disable_ipv6, "1") {
        // A kernel without IPv6.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }?;
    let tap = Interface::named(name)?;
    tap.bring_up()?;
    Ok(tap.index)
}
