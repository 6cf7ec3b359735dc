//! What a datagram of RSVP looks like (RFC 2205, section 3.2; RFC 8200; RFC 2711), and what is
//! known of one that arrived.

use std::net::IpAddr;

/// RSVP's protocol number.
pub(super) const RSVP: u8 = 46;
pub(super) const IPV6_HEADER: usize = 40;
/// IPv6's number of the hop-by-hop header.
pub(super) const HOP_BY_HOP: u8 = 0;
/// The IPv6 hop-by-hop header with the option, padded; without its first byte, the next header.
pub(super) const ALERT_V6: [u8; 7] = [0, 5, 2, 0, 1, 1, 0];

/// A received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its source address.
    pub source: IpAddr,
    /// Its destination address, which may be another host's; none for IPv6 messages addressed to
    /// us.
    pub destination: Option<IpAddr>,
    /// Its TTL, or hop limit.
    pub ttl: u8,
}
