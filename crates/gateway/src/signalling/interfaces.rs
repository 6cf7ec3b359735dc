//! The interfaces on which the node speaks RSVP, with their sockets.
//!
//! An interface keeps its identifier for the life of the node, since neighbours have stored it as
//! our LIH. One that is missing or does not work is tried again when interfaces or addresses
//! change, and every second. Received messages are rate-limited (RFC 6398, section 5): any host can
//! send messages with Router Alert.

use super::context::{MessageSocket, NodeContext};
use engine::units::{Duration, Instant};
use netio::routes::OwnAddress;
use rsvp::node;
use rsvp::wire::Refresh;
use std::net::IpAddr;

/// One interface.
#[derive(Debug)]
pub struct SignallingInterface {
    /// Its name.
    pub name: String,
    /// The kernel's index, while the interface exists.
    pub index: Option<u32>,
    /// Its sockets, while they work.
    pub signalling: Option<Box<dyn MessageSocket>>,
    /// Our addresses there, link-local ones last.
    pub addresses: Vec<IpAddr>,
    /// The MTU: the longest IP datagram.
    pub mtu: u32,
    /// The error that keeps it from working, if there is one.
    pub error: Option<String>,
    /// The start of the current second, and the number of messages received in it.
    second: (Instant, u32),
}

impl SignallingInterface {
    /// An interface of this name, not opened yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            index: None,
            signalling: None,
            addresses: Vec::new(),
            mtu: 1500,
            error: None,
            second: (Instant::START, 0),
        }
    }

    /// Updates it from the present state of what is around, and opens its sockets if needed.
    pub fn refresh(&mut self, around: &dyn NodeContext, all: &[OwnAddress]) {
        let found = match around.named(&self.name) {
            Ok(found) => found,
            Err(error) => {
                *self = Self {
                    error: Some(format!("{}: {error}", self.name)),
                    ..Self::new(&self.name)
                };
                return;
            }
        };
        if self.index != Some(found.index) {
            // Another interface of the same name: the sockets are bound to the old one.
            self.signalling = None;
        }
        (self.index, self.mtu) = (Some(found.index), u32::try_from(found.mtu).unwrap_or(u32::MAX));
        let own = all.iter().filter(|own| own.interface == found.index);
        self.addresses = own.map(|own| own.address).collect();
        self.addresses
            .sort_by_key(|address| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()));
        self.error = None;
        if self.signalling.is_none() {
            match around.open(&self.name, found.index) {
                Ok(signalling) => self.signalling = Some(signalling),
                Err(error) => self.error = Some(format!("{}: cannot speak RSVP: {error}", self.name)),
            }
        }
    }

    /// The node's view of it.
    pub fn as_interface(&self, refresh: Duration) -> node::RsvpInterface {
        node::RsvpInterface {
            addresses: self.addresses.clone(),
            refresh: as_refresh(refresh),
        }
    }

    /// Whether one more message is within the rate limit.
    pub fn admits(&mut self, now: Instant, limit: u32) -> bool {
        const SECOND: Duration = Duration::from_secs(1);
        if now.since(self.second.0) >= SECOND {
            self.second = (now, 0);
        }
        self.second.1 = self.second.1.saturating_add(1);
        self.second.1 <= limit
    }
}

/// A refresh period as TIME_VALUES carries it.
pub fn as_refresh(period: Duration) -> Refresh {
    let millis = period.nanos() / 1_000_000;
    Refresh::millis(u32::try_from(millis).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::context::KernelContext;
    use super::*;

    #[test]
    fn received_messages_are_limited_by_the_second() {
        let mut interface = SignallingInterface::new("lo");
        let at = |ms: u64| Instant::START + Duration::from_millis(5_000 + ms);
        let admitted = (0..500).filter(|ms| interface.admits(at(*ms), 100)).count();
        assert_eq!(admitted, 100);
        assert!(interface.admits(at(1_000), 100));
    }

    #[test]
    fn a_missing_interface_has_an_error() {
        let mut interface = SignallingInterface::new("no-such-thing");
        let around = KernelContext::watch().expect("changes of the kernel's routes");
        interface.refresh(&around, &[]);
        assert!(
            interface
                .error
                .is_some_and(|error| error.contains("no-such-thing"))
                && interface.index.is_none()
        );
    }
}
