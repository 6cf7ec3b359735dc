//! The interfaces on which RSVP is spoken, with their sockets.
//!
//! An interface keeps its number as long as the node lives, as neighbours were told it. One that is not there, or does not work,
//! is tried again when links or addresses change. What comes in is limited by the second (RFC 6398, section 5): anybody
//! can send what is caught on its way.

use engine::units::{Duration, Instant};
use netio::interface::Interface;
use netio::routes::OwnAddress;
use netio::signalling::Signalling;
use rsvp::node;
use rsvp::wire::Refresh;
use std::net::IpAddr;

/// One interface.
#[derive(Debug)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The kernel's number, while it is there.
    pub index: Option<u32>,
    /// Its sockets, while they work.
    pub signalling: Option<Signalling>,
    /// Our addresses there, those for everybody first.
    pub addresses: Vec<IpAddr>,
    /// The longest IP datagram.
    pub mtu: u32,
    /// Why it does not work, if it does not.
    pub error: Option<String>,
    /// The present second, and what was heard in it.
    second: (Instant, u32),
}

impl Link {
    /// One of this name, not looked at yet.
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

    /// Looks at what the kernel says of it now, and opens its sockets if need be.
    pub fn refresh(&mut self, all: &[OwnAddress]) {
        let found = match Interface::named(&self.name) {
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
            // Another interface of the same name: sockets are bound to the old one.
            self.signalling = None;
        }
        (self.index, self.mtu) = (Some(found.index), u32::try_from(found.mtu).unwrap_or(u32::MAX));
        let own = all.iter().filter(|own| own.interface == found.index);
        self.addresses = own.map(|own| own.address).collect();
        self.addresses
            .sort_by_key(|address| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()));
        self.error = None;
        if self.signalling.is_none() {
            match Signalling::open(&self.name, found.index) {
                Ok(signalling) => self.signalling = Some(signalling),
                Err(error) => self.error = Some(format!("{}: cannot speak RSVP: {error}", self.name)),
            }
        }
    }

    /// As the node sees it.
    pub fn as_interface(&self, refresh: Duration) -> node::RsvpInterface {
        let millis = refresh.nanos() / 1_000_000;
        node::RsvpInterface {
            addresses: self.addresses.clone(),
            refresh: Refresh::millis(u32::try_from(millis).unwrap_or(u32::MAX)),
        }
    }

    /// Whether one more message may be heard in this second.
    pub fn admits(&mut self, now: Instant, most: u32) -> bool {
        const SECOND: Duration = Duration::from_secs(1);
        if now.since(self.second.0) >= SECOND {
            self.second = (now, 0);
        }
        self.second.1 = self.second.1.saturating_add(1);
        self.second.1 <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_is_limited_by_the_second() {
        let mut link = Link::new("lo");
        let at = |ms: u64| Instant::START + Duration::from_millis(5_000 + ms);
        let heard = (0..500).filter(|ms| link.admits(at(*ms), 100)).count();
        assert_eq!(heard, 100);
        assert!(link.admits(at(1_000), 100));
    }

    #[test]
    fn an_interface_that_is_not_there_says_so() {
        let mut link = Link::new("no-such-thing");
        link.refresh(&[]);
        assert!(link.error.is_some_and(|error| error.contains("no-such-thing")) && link.index.is_none());
    }
}
