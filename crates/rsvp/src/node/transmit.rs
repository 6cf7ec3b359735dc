//! Messages out of the node, and the times of their refreshes.

use super::state::RefreshTimer;
use super::{Node, TTL, Transmit};
use crate::traffic_control::{InterfaceId, Routing, TrafficControl};
use crate::wire::{Frame, Message, Opaque, Refresh};
use core::net::IpAddr;
use engine::units::{Duration, Instant};

/// A growing R is at most this much of the previous one (1 + Slew.Max of RFC 2205, section 3.7), in
/// percent.
const SLEW: u64 = 130;

/// The IP header fields of a message, and the interface that it leaves through.
pub(super) struct IpFields {
    pub interface: InterfaceId,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub router_alert: bool,
    pub ttl: u8,
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Sends a message to a neighbour from our own address.
    pub(super) fn send_to_neighbour(
        &mut self,
        interface: InterfaceId,
        destination: IpAddr,
        message: Message,
        forwarded: Vec<Opaque>,
    ) {
        let Some(source) = self.settings.address(interface, destination) else {
            return;
        };
        let ip = IpFields {
            interface,
            source,
            destination,
            router_alert: false,
            ttl: TTL,
        };
        self.send(ip, message, forwarded);
    }

    pub(super) fn send(&mut self, ip: IpFields, message: Message, forwarded: Vec<Opaque>) {
        let frame = Frame {
            forwarded,
            ..Frame::plain(ip.ttl, message)
        };
        // A message that came in fits, and merged requests are sent in pieces. Only the forwarded
        // objects of several neighbours together may be too long; such a message is not sent.
        if let Ok(bytes) = frame.encode() {
            self.transmits.push_back(Transmit {
                interface: ip.interface,
                source: ip.source,
                destination: ip.destination,
                router_alert: ip.router_alert,
                ttl: ip.ttl,
                bytes,
            });
        }
    }

    /// When a refresh that is sent now is repeated, and the R that it carries. The interval is
    /// random between 0.5 R and 1.5 R, so that nodes do not synchronise. R itself grows slowly, so
    /// that a neighbour that still uses the old R does not time the state out.
    pub(super) fn next_refresh(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        last: Option<Refresh>,
    ) -> RefreshTimer {
        let configured = self.settings.refresh(interface);
        let period = match last {
            Some(last) if last < configured => {
                let most = u64::from(last.as_millis()) * SLEW / 100;
                let most = u32::try_from(most).unwrap_or(u32::MAX).max(last.as_millis() + 1);
                configured.min(Refresh::millis(most))
            }
            _ => configured,
        };
        let nanos = period.period().nanos();
        RefreshTimer {
            at: now + Duration::from_nanos(nanos / 2 + self.rng.below(nanos + 1)),
            period: Some(period),
        }
    }
}
