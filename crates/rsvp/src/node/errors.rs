//! PathErr and ResvErr (RFC 2205, sections 3.1.7 and 3.1.8; RFC 2209, section 2). They change no state but blockades.

use super::blockade::{blocks, covers};
use super::refresh::descriptors;
use super::settle::{Push, Touched};
use super::state::{Before, Filter, Key, State};
use super::status::Asker;
use super::{Event, Node};
use crate::traffic_control::{InterfaceId, Routing, TrafficControl};
use crate::wire::{
    Content, Descriptors, ErrorSpec, Flowspec, Frame, Hop, Message, Objection, Opaque, PathErr, Resv,
    ResvErr, Scope, Sender, Style, code,
};
use core::net::IpAddr;
use engine::units::Instant;

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Answers what the message's reader objected to.
    pub fn handle_objection(&mut self, interface: InterfaceId, objection: Objection, frame: Frame) {
        match frame.message {
            Message::Path(path) => self.refuse_path(interface, path, objection.code, objection.value),
            Message::Resv(resv) => {
                let descriptors = resv.descriptors.clone();
                self.refuse_resv(&resv, descriptors, (objection.code, objection.value), false);
            }
            // An error or an end is never answered.
            _ => {}
        }
    }

    /// Answers a part of a Resv with an error.
    pub(super) fn refuse_resv(
        &mut self,
        resv: &Resv,
        descriptors: Descriptors<Content<Flowspec>>,
        (code, value): (u8, u16),
        in_place: bool,
    ) {
        let interface = resv.hop.interface;
        // A handle that we never gave out has no interface to answer by.
        let Some(node) = self.settings.address(interface, resv.hop.address) else {
            return;
        };
        let message = Message::ResvErr(ResvErr {
            session: resv.session,
            hop: Hop {
                address: node,
                interface,
            },
            error: ErrorSpec {
                node,
                in_place,
                not_guilty: false,
                code,
                value,
            },
            scope: resv.scope.clone(),
            policy: resv.policy.clone(),
            descriptors,
        });
        self.tell(interface, resv.hop.address, message, Vec::new());
    }

    /// Tells a next hop that something it asked for has failed.
    pub(super) fn resv_err_to(
        &mut self,
        key: Key,
        next: Hop,
        error: ErrorSpec,
        carried: Option<(Option<Scope>, &[Opaque], &[Opaque])>,
        descriptors: Descriptors<Content<Flowspec>>,
    ) {
        let interface = next.interface;
        let Some(address) = self.settings.address(interface, next.address) else {
            return;
        };
        let (scope, policy, forwarded) = carried.unwrap_or((None, &[], &[]));
        let message = Message::ResvErr(ResvErr {
            session: key.session(),
            hop: Hop { address, interface },
            error,
            scope,
            policy: policy.to_vec(),
            descriptors,
        });
        self.tell(interface, next.address, message, forwarded.to_vec());
    }

    /// A PathErr came: on towards the sender.
    pub(super) fn path_err(&mut self, error: PathErr, forwarded: Vec<Opaque>) {
        let (key, sender) = (Key::from(&error.session), error.sender.template);
        let Some(path) = self.state(key).and_then(|state| state.paths.get(&sender)) else {
            return;
        };
        match path.previous {
            Some((hop, interface)) => {
                self.tell(interface, hop.address, Message::PathErr(error), forwarded);
            }
            None => self.events.push_back(Event::PathFailed {
                session: error.session,
                sender,
                error: error.error,
            }),
        }
    }

    /// A ResvErr came by this interface: on towards the receivers who have part in it.
    pub(super) fn resv_err(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        error: &ResvErr,
        forwarded: &[Opaque],
    ) {
        let key = Key::from(&error.session);
        let from = (error.hop.address, interface);
        let Some(state) = self.state(key) else {
            return;
        };
        // Only in the style that was asked.
        if state.style() != Some(error.descriptors.style()) {
            return;
        }
        match &error.descriptors {
            Descriptors::Fixed(list) => {
                for (flowspec, sender) in list {
                    self.resv_failed(now, (key, from), error, forwarded, flowspec, &[Some(*sender)]);
                }
            }
            Descriptors::SharedExplicit(flowspec, senders) => {
                let filters: Vec<_> = senders.iter().copied().map(Some).collect();
                self.resv_failed(now, (key, from), error, forwarded, flowspec, &filters);
            }
            Descriptors::Wildcard(flowspec) => {
                self.resv_failed(now, (key, from), error, forwarded, flowspec, &[None]);
            }
            Descriptors::Unknown(..) => {}
        }
    }

    /// One flow descriptor of a ResvErr.
    fn resv_failed(
        &mut self,
        now: Instant,
        (key, from): (Key, (IpAddr, InterfaceId)),
        error: &ResvErr,
        forwarded: &[Opaque],
        flowspec: &Content<Flowspec>,
        filters: &[Filter],
    ) {
        let Some(state) = self.state(key) else {
            return;
        };
        let befores = state.befores_at(from, filters);
        if befores.is_empty() {
            return;
        }
        let concerned = state.concerned(from, error.scope.as_ref(), filters);
        let failed = flowspec.known();
        let admission = error.error.code == code::ADMISSION;
        let guilty = |request: &Flowspec| failed.is_none_or(|failed| blocks(failed, request));
        let any_guilty = concerned.iter().any(|one| guilty(&one.flowspec));
        // What is in place stays, so that only those who asked for too much have to know.
        let guilty_alone = admission && error.error.in_place && any_guilty;
        for one in concerned {
            if guilty_alone && !guilty(&one.flowspec) {
                continue;
            }
            let specs: Vec<_> = one.filters.iter().map(|filter| (*filter, one.flowspec)).collect();
            let mut list = descriptors(one.style, &specs);
            put_flowspec(&mut list, flowspec);
            match one.asker {
                Asker::Here(receiver) => {
                    let strictly_more =
                        |failed: &Flowspec| covers(failed, &one.flowspec) && !covers(&one.flowspec, failed);
                    self.events.push_back(Event::ReservationFailed {
                        session: key.session(),
                        receiver,
                        failed: list,
                        error: ErrorSpec {
                            not_guilty: failed.is_some_and(strictly_more),
                            ..error.error
                        },
                    });
                }
                // Not back to where it came from.
                Asker::Next(hop) if hop.interface == from.1 => {}
                Asker::Next(hop) => {
                    let carried = (one.scope, error.policy.as_slice(), forwarded);
                    self.resv_err_to(key, hop, error.error, Some(carried), list);
                }
            }
        }
        if let (true, Some(failed)) = (admission, failed.copied()) {
            for (before, filter) in befores {
                self.blockade(now, key, (before, filter), failed);
            }
            self.settle(now, key, Touched::All, Push::default());
        }
    }
}

/// One who has part in a request that has failed.
struct Concerned {
    asker: Asker,
    style: Style,
    flowspec: Flowspec,
    filters: Vec<Filter>,
    scope: Option<Scope>,
}

impl State {
    /// The nodes before that an error can come from, with the filters that it is about.
    fn befores_at(
        &self,
        (address, interface): (IpAddr, InterfaceId),
        filters: &[Filter],
    ) -> Vec<(Before, Filter)> {
        let from = |before: &Before| before.0.address == address && before.1 == interface;
        let mut list = Vec::new();
        for filter in filters {
            let mut add = |before: Option<Before>| {
                let place = before.filter(from).map(|before| (before, *filter));
                list.extend(place.filter(|place| !list.contains(place)));
            };
            match filter {
                Some(sender) => add(self.paths.get(sender).and_then(|path| path.previous)),
                None => self.paths.values().for_each(|path| add(path.previous)),
            }
        }
        list
    }

    /// Who has asked for any of these filters for senders from there.
    fn concerned(
        &self,
        (address, interface): (IpAddr, InterfaceId),
        scope: Option<&Scope>,
        filters: &[Filter],
    ) -> Vec<Concerned> {
        let from = |sender: &Sender| {
            let previous = self.paths.get(sender).and_then(|path| path.previous);
            previous.is_some_and(|(hop, by)| hop.address == address && by == interface)
        };
        let meant = scope.map(super::resv::addresses);
        let mut list = Vec::new();
        for (asker, asked) in &self.asked {
            let served = self.served(asker, asked).filter(|sender| from(sender));
            let named = |sender: &&Sender| filters.contains(&None) || filters.contains(&Some(**sender));
            let meant = |sender: &&Sender| {
                let scope = meant.as_ref();
                scope.is_none_or(|scope| scope.binary_search(&sender.address()).is_ok())
            };
            let senders: Vec<Sender> = served.filter(named).filter(meant).copied().collect();
            let Some(spec) = senders.first().and_then(|sender| asked.spec(sender)) else {
                continue;
            };
            let wildcard = asked.style == Style::Wildcard;
            let addresses: Vec<IpAddr> = senders.iter().map(Sender::address).collect();
            list.push(Concerned {
                asker: *asker,
                style: asked.style,
                flowspec: spec.flowspec,
                filters: if wildcard {
                    vec![None]
                } else {
                    senders.into_iter().map(Some).collect()
                },
                scope: (wildcard && scope.is_some()).then(|| super::refresh::scope(&addresses)),
            });
        }
        list
    }
}

/// Errors show the request that failed, not the one of whom they reach.
fn put_flowspec(descriptors: &mut Descriptors<Content<Flowspec>>, flowspec: &Content<Flowspec>) {
    match descriptors {
        Descriptors::Wildcard(place) | Descriptors::SharedExplicit(place, _) => place.clone_from(flowspec),
        Descriptors::Fixed(list) => {
            for (place, _) in list {
                place.clone_from(flowspec);
            }
        }
        Descriptors::Unknown(..) => {}
    }
}
