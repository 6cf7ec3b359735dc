//! Resv, ResvTear and ResvConf (RFC 2205, sections 3.1.4, 3.1.6 and 3.1.9; RFC 2209, section 2), and the receiver's calls.

use super::state::{Flow, Key, Reservation, Way};
use super::{CallError, Event, Node, Receiver, TTL, lifetime};
use crate::traffic_control::{Handle, InterfaceId, Police, Refused, Request, Routing, TrafficControl};

use crate::wire::{
    Content, Descriptors, ErrorSpec, Flowspec, Hop, Message, Opaque, Resv, ResvConf, ResvTear, Sender,
    Session, Style, code,
};
use core::net::IpAddr;
use engine::units::Instant;

/// One flow descriptor of a Resv, with what else the Resv says.
struct Asked<'a> {
    resv: &'a Resv,
    forwarded: &'a [Opaque],
    flowspec: Flowspec,
    sender: Sender,
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// This host, which is the session's destination, reserves for a sender that it has heard of; again to change it.
    /// The answer is an event: [`Event::Confirmed`] or [`Event::ReservationFailed`].
    pub fn reserve(
        &mut self,
        now: Instant,
        receiver: Receiver,
        session: &Session,
        wanted: Descriptors<Flowspec>,
    ) -> Result<(), CallError> {
        let Descriptors::Fixed(wanted) = wanted else {
            return Err(CallError::Style(Style::Fixed));
        };
        for (flowspec, sender) in wanted {
            self.reserve_one(now, receiver, session, (flowspec, sender))?;
        }
        Ok(())
    }

    fn reserve_one(
        &mut self,
        now: Instant,
        receiver: Receiver,
        session: &Session,
        (flowspec, sender): (Flowspec, Sender),
    ) -> Result<(), CallError> {
        let flow = (Key::from(session), sender);
        let here = |path: &&mut super::state::PathState| path.route == Way::Here;
        let path = self.state.path_mut(flow).filter(here).ok_or(CallError::NoPath)?;
        path.reservation = Some(Reservation {
            next: None,
            receiver,
            flowspec,
            policy: Vec::new(),
            forwarded: Vec::new(),
            expires: Instant::NEVER,
        });
        self.resv_refresh(now, flow, Some(session.destination));
        self.state.arm(flow);
        Ok(())
    }

    /// This host no longer wants its reservation.
    pub fn release(&mut self, _now: Instant, receiver: Receiver, session: &Session) {
        let key = Key::from(session);
        for flow in self.state.flows() {
            let mine = |path: &super::state::PathState| {
                path.route == Way::Here && path.reservation.as_ref().is_some_and(|r| r.receiver == receiver)
            };
            if flow.0 == key && self.state.path(flow).is_some_and(mine) {
                self.end_reservation(flow);
                self.state.arm(flow);
            }
        }
    }

    /// A Resv came. Its interface is the one that its hop object names, whichever it came by.
    pub(super) fn resv(&mut self, now: Instant, resv: Resv, forwarded: Vec<Opaque>) {
        let Descriptors::Fixed(list) = &resv.descriptors else {
            let descriptors = resv.descriptors.clone();
            self.refuse_resv(&resv, descriptors, (code::UNKNOWN_STYLE, 0), false);
            return;
        };
        if !self.state.has_session(Key::from(&resv.session)) {
            let descriptors = resv.descriptors.clone();
            self.refuse_resv(&resv, descriptors, (code::NO_PATH, 0), false);
            return;
        }
        for (flowspec, sender) in list {
            if let Content::Known(flowspec) = flowspec {
                let asked = Asked {
                    resv: &resv,
                    forwarded: &forwarded,
                    flowspec: *flowspec,
                    sender: *sender,
                };
                self.resv_for(now, &asked);
            }
        }
    }

    /// One sender's part of a Resv.
    fn resv_for(&mut self, now: Instant, asked: &Asked<'_>) {
        let resv = asked.resv;
        let flow = (Key::from(&resv.session), asked.sender);
        let descriptors = || Descriptors::Fixed(vec![(Content::Known(asked.flowspec), asked.sender)]);
        let interface = resv.hop.interface;
        let Some(path) = self
            .state
            .path(flow)
            .filter(|path| path.route == Way::By(interface))
        else {
            self.refuse_resv(resv, descriptors(), (code::NO_SENDER, 0), false);
            return;
        };
        let known = path.reservation.as_ref();
        let same = |known: &Reservation| {
            known.flowspec == asked.flowspec
                && known.policy == resv.policy
                && known.forwarded == asked.forwarded
        };
        let changed = !known.is_some_and(same);
        let expires = now + lifetime(resv.refresh.period());
        match self.promise(flow, interface, asked.flowspec) {
            Ok(handle) => {
                let Some(path) = self.state.path_mut(flow) else {
                    return;
                };
                path.handle = Some(handle);
                path.reservation = Some(Reservation {
                    next: Some(resv.hop),
                    receiver: Receiver(0),
                    flowspec: asked.flowspec,
                    policy: resv.policy.clone(),
                    forwarded: asked.forwarded.to_vec(),
                    expires,
                });
                self.accepted(now, flow, asked, changed);
            }
            Err(refused) => {
                let in_place = self.keep(flow, expires);
                self.events.push_back(Event::Refused {
                    session: resv.session,
                    interface,
                    next: resv.hop.address,
                    wanted: Descriptors::Fixed(vec![(asked.flowspec, asked.sender)]),
                    refused,
                });
                self.refuse_resv(resv, descriptors(), (refused.code, refused.value), in_place);
            }
        }
        self.state.arm(flow);
    }

    /// A larger request has failed: the one in place stays, and stays alive, for its receiver is.
    fn keep(&mut self, flow: Flow, expires: Instant) -> bool {
        let reservation = self
            .state
            .path_mut(flow)
            .and_then(|path| path.reservation.as_mut());
        match reservation {
            Some(reservation) => {
                reservation.expires = expires;
                true
            }
            None => false,
        }
    }

    /// Has traffic control promise this, unless it has already (RFC 2209, section 2, UPDATE TRAFFIC CONTROL).
    fn promise(&mut self, flow: Flow, interface: InterfaceId, flowspec: Flowspec) -> Result<Handle, Refused> {
        let Some(path) = self.state.path(flow) else {
            return Err(Refused {
                code: code::SYSTEM,
                value: 0,
                asked: Default::default(),
                available: Default::default(),
            });
        };
        let request = Request {
            flowspec,
            tspec: path.tspec,
            police: Police {
                entry: path.session.police,
                ..Police::default()
            },
        };
        match path.handle {
            Some(handle) if path.reservation.as_ref().is_some_and(|r| r.flowspec == flowspec) => Ok(handle),
            Some(handle) => self.traffic_control.modify(handle, &request).map(|_| handle),
            None => {
                let handle = self.traffic_control.add(interface, &request)?.handle;
                self.traffic_control
                    .add_filter(handle, &path.session, &path.sender);
                Ok(handle)
            }
        }
    }

    /// The sender sends something else now: traffic control is told. If it cannot do that, what it does stays.
    pub(super) fn describe(&mut self, flow: Flow) {
        let Some(path) = self.state.path(flow) else {
            return;
        };
        if let (Some(handle), Some(reservation)) = (path.handle, &path.reservation) {
            let request = Request {
                flowspec: reservation.flowspec,
                tspec: path.tspec,
                police: Police {
                    entry: path.session.police,
                    ..Police::default()
                },
            };
            // A refusal changes nothing, and there is nobody whom it should be told.
            let _ = self.traffic_control.modify(handle, &request);
        }
    }

    /// A request is in force here: it goes on towards the sender, or its receiver hears that all is well.
    fn accepted(&mut self, now: Instant, flow: Flow, asked: &Asked<'_>, changed: bool) {
        let at_sender = self.state.path(flow).is_some_and(|path| path.previous.is_none());
        if changed && at_sender {
            self.events.push_back(Event::Reserved {
                session: asked.resv.session,
                sender: asked.sender,
                style: Style::Fixed,
                flowspec: asked.flowspec,
            });
        }
        if changed && !at_sender {
            self.resv_refresh(now, flow, asked.resv.confirm);
        } else if let Some(receiver) = asked.resv.confirm {
            self.confirm(asked, receiver);
        }
    }

    fn confirm(&mut self, asked: &Asked<'_>, receiver: IpAddr) {
        let Way::By(interface) = self.way(receiver) else {
            return;
        };
        let Some(node) = self.settings.address(interface, receiver) else {
            return;
        };
        let message = Message::ResvConf(ResvConf {
            session: asked.resv.session,
            error: ErrorSpec {
                node,
                in_place: false,
                not_guilty: false,
                code: code::CONFIRMATION,
                value: 0,
            },
            confirm: receiver,
            descriptors: Descriptors::Fixed(vec![(Content::Known(asked.flowspec), asked.sender)]),
        });
        self.send_as(interface, (node, receiver), true, TTL, message, Vec::new());
    }

    /// Sends a reservation on to the node before (RFC 2209, section 2, RESV REFRESH).
    pub(super) fn resv_refresh(&mut self, now: Instant, flow: Flow, confirm: Option<IpAddr>) {
        let at = self.next_refresh(now, 0);
        let Some(path) = self.state.path_mut(flow) else {
            return;
        };
        let (Some((hop, interface)), Some(reservation)) = (path.previous, &path.reservation) else {
            return;
        };
        path.resv_refresh_at = at;
        let refresh = self.settings.refresh(interface);
        let Some(address) = self.settings.address(interface, hop.address) else {
            return;
        };
        let message = Message::Resv(Resv {
            session: path.session,
            hop: Hop {
                address,
                interface: hop.interface,
            },
            refresh,
            confirm,
            scope: None,
            policy: reservation.policy.clone(),
            descriptors: Descriptors::Fixed(vec![(Content::Known(reservation.flowspec), path.sender)]),
        });
        let forwarded = reservation.forwarded.clone();
        self.send_as(interface, (address, hop.address), false, TTL, message, forwarded);
    }

    /// A ResvTear came.
    pub(super) fn resv_tear(&mut self, tear: &ResvTear) {
        let Descriptors::Fixed(list) = &tear.descriptors else {
            return;
        };
        for ((), sender) in list {
            let flow = (Key::from(&tear.session), *sender);
            let reservation = self.state.path(flow).and_then(|path| path.reservation.as_ref());
            if reservation.is_some_and(|reservation| reservation.next == Some(tear.hop)) {
                self.end_reservation(flow);
                self.state.arm(flow);
            }
        }
    }

    /// Ends a reservation here and tells those before.
    fn end_reservation(&mut self, flow: Flow) {
        let Some(mut path) = self.state.remove(flow) else {
            return;
        };
        let reserved = path.reservation.is_some();
        self.undo(&mut path);
        let (session, sender, previous) = (path.session, path.sender, path.previous);
        self.state.insert(flow, path);
        match previous {
            _ if !reserved => {}
            None => self.events.push_back(Event::Unreserved { session, sender }),
            Some((hop, interface)) => {
                let Some(address) = self.settings.address(interface, hop.address) else {
                    return;
                };
                let message = Message::ResvTear(ResvTear {
                    session,
                    hop: Hop {
                        address,
                        interface: hop.interface,
                    },
                    scope: None,
                    descriptors: Descriptors::Fixed(vec![((), sender)]),
                });
                self.tell(interface, hop.address, message);
            }
        }
    }

    /// A ResvConf passes, or is for us.
    pub(super) fn resv_conf(&mut self, ttl: u8, confirmation: ResvConf) {
        match self.way(confirmation.confirm) {
            Way::Here => {
                if let Descriptors::Fixed(list) = &confirmation.descriptors {
                    let session = confirmation.session;
                    for (flowspec, sender) in list {
                        let flow = (Key::from(&session), *sender);
                        let path = self.state.path(flow);
                        let Some(reservation) = path.and_then(|path| path.reservation.as_ref()) else {
                            continue;
                        };
                        self.events.push_back(Event::Confirmed {
                            session,
                            receiver: reservation.receiver,
                            confirmed: Descriptors::Fixed(vec![(flowspec.clone(), *sender)]),
                        });
                    }
                }
            }
            Way::By(interface) => {
                let addresses = (confirmation.error.node, confirmation.confirm);
                let ttl = ttl.saturating_sub(1);
                if ttl > 0 {
                    let message = Message::ResvConf(confirmation);
                    self.send_as(interface, addresses, true, ttl, message, Vec::new());
                }
            }
            Way::None => {}
        }
    }

    /// What is due of a reservation.
    pub(super) fn resv_timeout(&mut self, now: Instant, flow: Flow) {
        let Some(path) = self.state.path(flow) else {
            return;
        };
        if path.reservation.as_ref().is_some_and(|r| r.expires <= now) {
            self.end_reservation(flow);
        } else if path.resv_refresh_at <= now {
            self.resv_refresh(now, flow, None);
        }
    }
}
