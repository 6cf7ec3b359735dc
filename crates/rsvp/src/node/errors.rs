//! PathErr and ResvErr (RFC 2205, sections 3.1.7 and 3.1.8; RFC 2209, section 2). They change no
//! state but blockade state.

use super::merge::{blockades, covers};
use super::neighbour::{NextHop, PreviousHop};
use super::reconcile::{Affected, ResvOptions};
use super::resv::addresses;
use super::resv_refresh::{flow_descriptors, scope_of};
use super::state::{FilterSpec, SessionKey, SessionState};
use super::{Event, Node, TTL, Transmit};
use crate::traffic_control::{InterfaceId, Routing, TrafficControl};
use crate::wire::{
    Content, Descriptors, ErrorCode, ErrorSpec, Flowspec, Frame, Hop, Message, Opaque, PathErr, Resv,
    ResvErr, Scope, SenderTemplate, Style, UnreadableMessage, code,
};
use core::net::IpAddr;
use engine::units::Instant;

/// The objects of a ResvErr that go on with it.
pub(super) struct Carried<'a> {
    pub scope: Option<Scope>,
    pub policy: &'a [Opaque],
    pub forwarded: &'a [Opaque],
}

/// Where a ResvErr came from: the address of its sender, and our interface.
#[derive(Clone, Copy)]
struct ErrorSource {
    address: IpAddr,
    interface: InterfaceId,
}

impl ErrorSource {
    fn is(self, phop: &PreviousHop) -> bool {
        phop.hop.address == self.address && phop.interface == self.interface
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Answers a message whose decoder found an error that its sender has to be told.
    pub fn report_error(&mut self, interface: InterfaceId, error: ErrorCode, frame: Frame) {
        match frame.message {
            Message::Path(path) => self.send_path_err(interface, path, error),
            Message::Resv(resv) => {
                let descriptors = resv.descriptors.clone();
                self.reject_resv(&resv, descriptors, error, false);
            }
            // Errors and tears are never answered.
            _ => {}
        }
    }

    /// Answers a message that cannot be decoded because of an unknown C-Type.
    pub fn answer_unreadable(&mut self, interface: InterfaceId, unreadable: &UnreadableMessage) {
        let interface = unreadable.lih().unwrap_or(interface);
        let hop = unreadable.hop.address;
        let Some(node) = self.settings.address(interface, hop) else {
            return;
        };
        // Our own message, looped back.
        if self.settings.is_own(hop) {
            return;
        }
        if let Ok(bytes) = unreadable.answer(node, TTL) {
            self.transmits.push_back(Transmit {
                interface,
                source: node,
                destination: hop,
                router_alert: false,
                ttl: TTL,
                bytes,
            });
        }
    }

    /// Rejects a part of a Resv with a ResvErr.
    pub(super) fn reject_resv(
        &mut self,
        resv: &Resv,
        descriptors: Descriptors<Content<Flowspec>>,
        error: ErrorCode,
        in_place: bool,
    ) {
        let interface = resv.hop.lih;
        // A handle that we never gave out names no interface through which to answer.
        let Some(node) = self.settings.address(interface, resv.hop.address) else {
            return;
        };
        let message = Message::ResvErr(ResvErr {
            session: resv.session,
            hop: Hop {
                address: node,
                lih: interface,
            },
            error: ErrorSpec {
                in_place,
                ..ErrorSpec::new(node, error)
            },
            scope: resv.scope.clone(),
            policy: resv.policy.clone(),
            descriptors,
        });
        self.send_to_neighbour(interface, resv.hop.address, message, Vec::new());
    }

    /// Sends a ResvErr to a next hop.
    pub(super) fn send_resv_err(
        &mut self,
        key: SessionKey,
        nhop: Hop,
        error: ErrorSpec,
        carried: Option<Carried<'_>>,
        descriptors: Descriptors<Content<Flowspec>>,
    ) {
        let interface = nhop.lih;
        let Some(address) = self.settings.address(interface, nhop.address) else {
            return;
        };
        let carried = carried.unwrap_or(Carried {
            scope: None,
            policy: &[],
            forwarded: &[],
        });
        let message = Message::ResvErr(ResvErr {
            session: key.session(),
            hop: Hop {
                address,
                lih: interface,
            },
            error,
            scope: carried.scope,
            policy: carried.policy.to_vec(),
            descriptors,
        });
        self.send_to_neighbour(interface, nhop.address, message, carried.forwarded.to_vec());
    }

    /// PERR MESSAGE ARRIVES: forwarded to the previous hop, or delivered to the sender's
    /// application.
    pub(super) fn path_err_arrives(&mut self, error: PathErr, forwarded: Vec<Opaque>) {
        let (key, sender) = (SessionKey::from(&error.session), error.sender.template);
        let Some(psb) = self.state(key).and_then(|state| state.psbs.get(&sender)) else {
            return;
        };
        match psb.phop {
            Some(PreviousHop { hop, interface }) => {
                self.send_to_neighbour(interface, hop.address, Message::PathErr(error), forwarded);
            }
            None => self.events.push_back(Event::PathFailed {
                session: error.session,
                sender,
                error: error.error,
            }),
        }
    }

    /// RERR MESSAGE ARRIVES: forwarded to the next hops whose requests it concerns.
    pub(super) fn resv_err_arrives(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        error: &ResvErr,
        forwarded: &[Opaque],
    ) {
        let key = SessionKey::from(&error.session);
        let Some(state) = self.state(key) else {
            return;
        };
        // Only an error in the style of our requests concerns us.
        if state.style() != Some(error.descriptors.style()) {
            return;
        }
        let from = ErrorSource {
            address: error.hop.address,
            interface,
        };
        match &error.descriptors {
            Descriptors::Fixed(list) => {
                for (flowspec, sender) in list {
                    self.resv_failed(now, from, error, forwarded, flowspec, &[Some(*sender)]);
                }
            }
            Descriptors::SharedExplicit(flowspec, senders) => {
                let filters: Vec<_> = senders.iter().copied().map(Some).collect();
                self.resv_failed(now, from, error, forwarded, flowspec, &filters);
            }
            Descriptors::Wildcard(flowspec) => {
                self.resv_failed(now, from, error, forwarded, flowspec, &[None]);
            }
            Descriptors::Unknown(..) => {}
        }
    }

    /// Processes one flow descriptor of a ResvErr.
    fn resv_failed(
        &mut self,
        now: Instant,
        from: ErrorSource,
        error: &ResvErr,
        forwarded: &[Opaque],
        flowspec: &Content<Flowspec>,
        filters: &[FilterSpec],
    ) {
        let key = SessionKey::from(&error.session);
        let Some(state) = self.state(key) else {
            return;
        };
        let phops = state.phops_at(from, filters);
        if phops.is_empty() {
            return;
        }
        let concerned = state.concerned(from, error.scope.as_ref(), filters);
        let failed = flowspec.known();
        let admission = error.error.code == code::ADMISSION;
        let guilty = |request: &Flowspec| failed.is_none_or(|failed| blockades(failed, request));
        let any_guilty = concerned.iter().any(|one| guilty(&one.flowspec));
        // With InPlace the old reservation stays, so only those who requested too much are told.
        let guilty_alone = admission && error.error.in_place && any_guilty;
        for one in concerned {
            if guilty_alone && !guilty(&one.flowspec) {
                continue;
            }
            let list: Vec<_> = one.filters.iter().map(|filter| (*filter, one.flowspec)).collect();
            let mut descriptors = flow_descriptors(one.style, &list);
            set_flowspec(&mut descriptors, flowspec);
            match one.nhop {
                NextHop::Local(receiver) => {
                    let strictly_greater =
                        |failed: &Flowspec| covers(failed, &one.flowspec) && !covers(&one.flowspec, failed);
                    self.events.push_back(Event::ReservationFailed {
                        session: key.session(),
                        receiver,
                        failed: descriptors,
                        error: ErrorSpec {
                            not_guilty: failed.is_some_and(strictly_greater),
                            ..error.error
                        },
                    });
                }
                // Never back through the interface on which it arrived.
                NextHop::Remote(hop) if hop.lih == from.interface => {}
                NextHop::Remote(hop) => {
                    let carried = Carried {
                        scope: one.scope,
                        policy: &error.policy,
                        forwarded,
                    };
                    self.send_resv_err(key, hop, error.error, Some(carried), descriptors);
                }
            }
        }
        if let (true, Some(failed)) = (admission, failed.copied()) {
            for at in phops {
                self.blockade(now, key, at, failed);
            }
            self.reconcile(now, key, Affected::All, ResvOptions::default());
        }
    }
}

/// A next hop whose request is part of one that has failed.
struct ConcernedHop {
    nhop: NextHop,
    style: Style,
    flowspec: Flowspec,
    filters: Vec<FilterSpec>,
    scope: Option<Scope>,
}

impl SessionState {
    /// The previous hops that an error can come from, each with the filter spec that failed.
    fn phops_at(&self, from: ErrorSource, filters: &[FilterSpec]) -> Vec<(PreviousHop, FilterSpec)> {
        let mut list = Vec::new();
        for filter in filters {
            let mut add = |phop: Option<PreviousHop>| {
                let at = phop.filter(|phop| from.is(phop)).map(|phop| (phop, *filter));
                list.extend(at.filter(|at| !list.contains(at)));
            };
            match filter {
                Some(sender) => add(self.psbs.get(sender).and_then(|psb| psb.phop)),
                None => self.psbs.values().for_each(|psb| add(psb.phop)),
            }
        }
        list
    }

    /// The next hops that request any of these filter specs for senders behind that previous hop.
    fn concerned(
        &self,
        from: ErrorSource,
        scope: Option<&Scope>,
        filters: &[FilterSpec],
    ) -> Vec<ConcernedHop> {
        let behind = |sender: &SenderTemplate| {
            let phop = self.psbs.get(sender).and_then(|psb| psb.phop);
            phop.is_some_and(|phop| from.is(&phop))
        };
        let in_scope = scope.map(addresses);
        let mut list = Vec::new();
        for (nhop, rsb) in &self.rsbs {
            let served = self.served(nhop, rsb).filter(|sender| behind(sender));
            let named =
                |sender: &&SenderTemplate| filters.contains(&None) || filters.contains(&Some(**sender));
            let in_scope = |sender: &&SenderTemplate| {
                let scope = in_scope.as_ref();
                scope.is_none_or(|scope| scope.binary_search(&sender.address()).is_ok())
            };
            let senders: Vec<SenderTemplate> = served.filter(named).filter(in_scope).copied().collect();
            let Some(entry) = senders.first().and_then(|sender| rsb.entry(sender)) else {
                continue;
            };
            let wildcard = rsb.style == Style::Wildcard;
            let addresses: Vec<IpAddr> = senders.iter().map(SenderTemplate::address).collect();
            list.push(ConcernedHop {
                nhop: *nhop,
                style: rsb.style,
                flowspec: entry.flowspec,
                filters: if wildcard {
                    vec![None]
                } else {
                    senders.into_iter().map(Some).collect()
                },
                scope: (wildcard && scope.is_some()).then(|| scope_of(&addresses)),
            });
        }
        list
    }
}

/// A ResvErr carries the flowspec that failed, not that of the next hop it goes to.
fn set_flowspec(descriptors: &mut Descriptors<Content<Flowspec>>, failed: &Content<Flowspec>) {
    match descriptors {
        Descriptors::Wildcard(flowspec) | Descriptors::SharedExplicit(flowspec, _) => {
            flowspec.clone_from(failed);
        }
        Descriptors::Fixed(list) => {
            for (flowspec, _) in list {
                flowspec.clone_from(failed);
            }
        }
        Descriptors::Unknown(..) => {}
    }
}
