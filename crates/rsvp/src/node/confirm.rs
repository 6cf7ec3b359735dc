//! ResvConf (RFC 2205, sections 2.6 and 3.1.9).
//!
//! A request that changes nothing further on is confirmed where that is found: it is in force from there on, unless
//! the larger one that it vanishes in fails later. While that one is known to have failed nothing is confirmed.

use super::ask::Ask;
use super::blockade::{blocks, covers};
use super::settle::Confirm;
use super::state::{Filter, Key};
use super::status::Asker;
use super::{Event, Node, TTL};
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{Content, Descriptors, ErrorSpec, Flowspec, Message, Opaque, ResvConf, Style, code};
use core::net::IpAddr;

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Confirms a request that nobody further on has to be asked for.
    pub(super) fn confirm_at_once(&mut self, key: Key, ask: &Ask<'_>) {
        let (Some(confirm), Some(state)) = (ask.confirm, self.state(key)) else {
            return;
        };
        let reached = |filter: &&Filter| state.is_reached(&ask.asker, filter);
        let filters: Vec<Filter> = ask.filters.iter().filter(reached).copied().collect();
        for filter in &filters {
            for before in state.befores(&ask.asker, filter) {
                let blockade = state.blockades.get(&(before, *filter));
                if blockade.is_some_and(|blockade| blocks(&blockade.flowspec, &ask.flowspec)) {
                    return;
                }
            }
        }
        match confirm {
            Confirm::Here => self.confirmed(key, ask.style, &filters, &ask.flowspec),
            Confirm::At(receiver) => self.confirm_to(key, receiver, ask.descriptors()),
        }
    }

    fn confirm_to(&mut self, key: Key, receiver: IpAddr, descriptors: Descriptors<Content<Flowspec>>) {
        let route = self.routing.route(None, receiver);
        let Some(interface) = route.by.first().copied() else {
            return;
        };
        let Some(node) = self.settings.address(interface, receiver) else {
            return;
        };
        let message = Message::ResvConf(ResvConf {
            session: key.session(),
            error: ErrorSpec {
                node,
                in_place: false,
                not_guilty: false,
                code: code::CONFIRMATION,
                value: 0,
            },
            confirm: receiver,
            descriptors,
        });
        self.send_as(interface, (node, receiver), (true, TTL), message, Vec::new());
    }

    /// A ResvConf passes, or is for us.
    pub(super) fn resv_conf(&mut self, ttl: u8, confirmation: ResvConf, forwarded: Vec<Opaque>) {
        let route = self.routing.route(None, confirmation.confirm);
        if route.here {
            let key = Key::from(&confirmation.session);
            let style = confirmation.descriptors.style();
            match &confirmation.descriptors {
                Descriptors::Wildcard(Content::Known(flowspec)) => {
                    self.confirmed(key, style, &[None], flowspec);
                }
                Descriptors::SharedExplicit(Content::Known(flowspec), senders) => {
                    let filters: Vec<_> = senders.iter().copied().map(Some).collect();
                    self.confirmed(key, style, &filters, flowspec);
                }
                Descriptors::Fixed(list) => {
                    for (flowspec, sender) in list {
                        if let Content::Known(flowspec) = flowspec {
                            self.confirmed(key, style, &[Some(*sender)], flowspec);
                        }
                    }
                }
                _ => {}
            }
            return;
        }
        let (Some(interface), ttl @ 1..) = (route.by.first().copied(), ttl.saturating_sub(1)) else {
            return;
        };
        // From hop to hop, so that each neighbour can vouch for it (RFC 2205, section 3.1.9; RFC 2747, section 3).
        let Some(own) = self.settings.address(interface, confirmation.confirm) else {
            return;
        };
        let addresses = (own, confirmation.confirm);
        let message = Message::ResvConf(confirmation);
        self.send_as(interface, addresses, (true, ttl), message, forwarded);
    }

    /// The programs on this host that wait for it hear that this is in force.
    fn confirmed(&mut self, key: Key, style: Style, filters: &[Filter], flowspec: &Flowspec) {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        for (asker, asked) in &mut state.asked {
            let Asker::Here(receiver) = *asker else {
                continue;
            };
            let within = |filter: &Filter| {
                let spec = asked.specs.get(filter);
                spec.is_some_and(|spec| covers(flowspec, &spec.flowspec))
            };
            let mine = filters.iter().filter(|filter| asked.unconfirmed.contains(filter));
            let mine: Vec<Filter> = mine.filter(|filter| within(filter)).copied().collect();
            let Some(spec) = mine.first().and_then(|filter| asked.specs.get(filter)) else {
                continue;
            };
            let specs: Vec<_> = mine.iter().map(|filter| (*filter, spec.flowspec)).collect();
            for filter in &mine {
                asked.unconfirmed.remove(filter);
            }
            self.events.push_back(Event::Confirmed {
                session: key.session(),
                receiver,
                confirmed: super::refresh::descriptors(style, &specs),
            });
        }
    }
}
