//! Messages out of the node.

use super::state::Refreshing;
use super::{Node, TTL, Transmit};
use crate::traffic_control::{InterfaceId, Routing, TrafficControl};
use crate::wire::{Frame, Message, Opaque, Refresh};
use core::net::IpAddr;
use engine::units::{Duration, Instant};

/// A growing R is at most this much longer than the one before (Slew.Max of RFC 2205, section 3.7), in percent.
const SLEW: u64 = 130;

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Sends a message to a neighbour from our own address.
    pub(super) fn tell(
        &mut self,
        interface: InterfaceId,
        destination: IpAddr,
        message: Message,
        forwarded: Vec<Opaque>,
    ) {
        let Some(source) = self.settings.address(interface, destination) else {
            return;
        };
        self.send_as(interface, (source, destination), (false, TTL), message, forwarded);
    }

    pub(super) fn send_as(
        &mut self,
        interface: InterfaceId,
        (source, destination): (IpAddr, IpAddr),
        (router_alert, ttl): (bool, u8),
        message: Message,
        forwarded: Vec<Opaque>,
    ) {
        let frame = Frame {
            forwarded,
            ..Frame::plain(ttl, message)
        };
        // What came in fits, and what is gathered is sent in pieces; what neighbours had forwarded may be too long
        // together, and is then not sent at all.
        if let Ok(bytes) = frame.encode() {
            self.transmits.push_back(Transmit {
                interface,
                source,
                destination,
                router_alert,
                ttl,
                bytes,
            });
        }
    }

    /// When a refresh that is sent now comes again, and the R to say with it. At random from half to one and a half
    /// times R, so that nodes do not fall into step; R itself grows slowly, so that a neighbour that still reckons with
    /// the old one does not forget us.
    pub(super) fn again(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        last: Option<Refresh>,
    ) -> Refreshing {
        let wanted = self.settings.refresh(interface);
        let period = match last {
            Some(last) if last < wanted => {
                let most = u64::from(last.as_millis()) * SLEW / 100;
                let most = u32::try_from(most).unwrap_or(u32::MAX).max(last.as_millis() + 1);
                wanted.min(Refresh::millis(most))
            }
            _ => wanted,
        };
        let nanos = period.period().nanos();
        Refreshing {
            at: now + Duration::from_nanos(nanos / 2 + self.luck.below(nanos + 1)),
            period: Some(period),
        }
    }
}
