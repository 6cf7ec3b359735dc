//! Confirmations: RESV_CONFIRM and ResvConf (RFC 2205, sections 2.6 and 3.1.9).
//!
//! A request that changes nothing upstream is confirmed by the node that finds so. From there on it
//! is in force, unless the larger request that it merged into fails later. While that one is known
//! to have failed, nothing is confirmed.

use super::flow_descriptor::FlowDescriptor;
use super::merge::{blockades, covers};
use super::neighbour::NextHop;
use super::reconcile::ConfirmTo;
use super::resv_refresh::flow_descriptors;
use super::state::{FilterSpec, SessionKey};
use super::transmit::IpFields;
use super::{Event, Node, TTL};
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{
    Content, Descriptors, ErrorCode, ErrorSpec, Flowspec, Message, Opaque, ResvConf, Style, code,
};
use core::net::IpAddr;

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Confirms a request for which no previous hop has to be sent a Resv.
    pub(super) fn confirm_here(&mut self, key: SessionKey, descriptor: &FlowDescriptor<'_>) {
        let (Some(confirm), Some(state)) = (descriptor.confirm, self.state(key)) else {
            return;
        };
        let reached = |filter: &&FilterSpec| state.any_reaches(filter, &descriptor.nhop);
        let filters: Vec<FilterSpec> = descriptor.filters.iter().filter(reached).copied().collect();
        for filter in &filters {
            for phop in state.phops(&descriptor.nhop, filter) {
                let bsb = state.bsbs.get(&(phop, *filter));
                if bsb.is_some_and(|bsb| blockades(&bsb.flowspec, &descriptor.flowspec)) {
                    return;
                }
            }
        }
        match confirm {
            ConfirmTo::Local => self.confirm_local(key, descriptor.style, &filters, &descriptor.flowspec),
            ConfirmTo::Receiver(receiver) => {
                self.send_resv_conf(key, receiver, descriptor.descriptors());
            }
        }
    }

    fn send_resv_conf(
        &mut self,
        key: SessionKey,
        receiver: IpAddr,
        descriptors: Descriptors<Content<Flowspec>>,
    ) {
        let route = self.tape.route(&self.routing, None, receiver);
        let Some(interface) = route.outgoing.first().copied() else {
            return;
        };
        let Some(node) = self.settings.address(interface, receiver) else {
            return;
        };
        let message = Message::ResvConf(ResvConf {
            session: key.session(),
            error: ErrorSpec::new(node, ErrorCode::new(code::CONFIRMATION, 0)),
            confirm: receiver,
            descriptors,
        });
        let ip = IpFields {
            interface,
            source: node,
            destination: receiver,
            router_alert: true,
            ttl: TTL,
        };
        self.send(ip, message, Vec::new());
    }

    /// RESV_CONF MESSAGE ARRIVES: it is for a receiver on this host, or goes on.
    pub(super) fn resv_conf_arrives(&mut self, ttl: u8, confirmation: ResvConf, forwarded: Vec<Opaque>) {
        let route = self.tape.route(&self.routing, None, confirmation.confirm);
        if route.local {
            self.confirm_descriptors(&confirmation);
            return;
        }
        let (Some(interface), ttl @ 1..) = (route.outgoing.first().copied(), ttl.saturating_sub(1)) else {
            return;
        };
        // Hop by hop, so that each neighbour protects it with its own key (RFC 2205, section 3.1.9;
        // RFC 2747, section 3).
        let Some(own) = self.settings.address(interface, confirmation.confirm) else {
            return;
        };
        let ip = IpFields {
            interface,
            source: own,
            destination: confirmation.confirm,
            router_alert: true,
            ttl,
        };
        self.send(ip, Message::ResvConf(confirmation), forwarded);
    }

    fn confirm_descriptors(&mut self, confirmation: &ResvConf) {
        let key = SessionKey::from(&confirmation.session);
        let style = confirmation.descriptors.style();
        match &confirmation.descriptors {
            Descriptors::Wildcard(Content::Known(flowspec)) => {
                self.confirm_local(key, style, &[None], flowspec);
            }
            Descriptors::SharedExplicit(Content::Known(flowspec), senders) => {
                let filters: Vec<_> = senders.iter().copied().map(Some).collect();
                self.confirm_local(key, style, &filters, flowspec);
            }
            Descriptors::Fixed(list) => {
                for (flowspec, sender) in list {
                    if let Content::Known(flowspec) = flowspec {
                        self.confirm_local(key, style, &[Some(*sender)], flowspec);
                    }
                }
            }
            _ => {}
        }
    }

    /// RESV_CONFIRM upcalls to the local receivers that await one and that this flowspec covers.
    fn confirm_local(&mut self, key: SessionKey, style: Style, filters: &[FilterSpec], flowspec: &Flowspec) {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        for (nhop, rsb) in &mut state.rsbs {
            let NextHop::Local(receiver) = *nhop else {
                continue;
            };
            let covered = |filter: &FilterSpec| {
                let entry = rsb.entries.get(filter);
                entry.is_some_and(|entry| covers(flowspec, &entry.flowspec))
            };
            let awaited = filters.iter().filter(|filter| rsb.unconfirmed.contains(filter));
            let confirmed: Vec<FilterSpec> = awaited.filter(|filter| covered(filter)).copied().collect();
            let Some(entry) = confirmed.first().and_then(|filter| rsb.entries.get(filter)) else {
                continue;
            };
            let list: Vec<_> = confirmed.iter().map(|filter| (*filter, entry.flowspec)).collect();
            for filter in &confirmed {
                rsb.unconfirmed.remove(filter);
            }
            self.events.push_back(Event::Confirmed {
                session: key.session(),
                receiver,
                confirmed: flow_descriptors(style, &list),
            });
        }
    }
}
