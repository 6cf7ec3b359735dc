//! PathErr and ResvErr (RFC 2205, sections 3.1.7 and 3.1.8; RFC 2209, section 2). Neither changes state.

use super::state::{Key, Way};
use super::{Event, Node};
use crate::traffic_control::{InterfaceId, Routing, TrafficControl};
use crate::wire::{
    Content, Descriptors, ErrorSpec, Flowspec, Frame, Hop, Message, Objection, PathErr, Resv, ResvErr,
};

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
        self.tell(interface, resv.hop.address, message);
    }

    /// A PathErr came: on towards the sender.
    pub(super) fn path_err(&mut self, error: PathErr) {
        let flow = (Key::from(&error.session), error.sender.template);
        let Some(path) = self.state.path(flow) else {
            return;
        };
        match path.previous {
            Some((hop, interface)) => self.tell(interface, hop.address, Message::PathErr(error)),
            None => self.events.push_back(Event::PathFailed {
                session: error.session,
                sender: flow.1,
                error: error.error,
            }),
        }
    }

    /// A ResvErr came by this interface: on towards the receiver, sender by sender.
    pub(super) fn resv_err(&mut self, interface: InterfaceId, error: ResvErr) {
        let Descriptors::Fixed(list) = &error.descriptors else {
            return;
        };
        for (flowspec, sender) in list {
            let flow = (Key::from(&error.session), *sender);
            let Some(path) = self.state.path(flow) else {
                continue;
            };
            // Only from where our own Resv went.
            if path.previous.is_none_or(|(_, towards)| towards != interface) {
                continue;
            }
            let Some(reservation) = &path.reservation else {
                continue;
            };
            match (reservation.next, path.route) {
                (None, _) => {
                    // What failed is not what is asked now.
                    let guilty = *flowspec == Content::Known(reservation.flowspec);
                    let spec = ErrorSpec {
                        not_guilty: !guilty,
                        ..error.error
                    };
                    self.events.push_back(Event::ReservationFailed {
                        session: error.session,
                        receiver: reservation.receiver,
                        failed: Descriptors::Fixed(vec![(flowspec.clone(), *sender)]),
                        error: spec,
                    });
                }
                (Some(next), Way::By(out)) => {
                    let Some(address) = self.settings.address(out, next.address) else {
                        continue;
                    };
                    let message = Message::ResvErr(ResvErr {
                        hop: Hop {
                            address,
                            interface: out,
                        },
                        descriptors: Descriptors::Fixed(vec![(flowspec.clone(), *sender)]),
                        ..error.clone()
                    });
                    self.tell(out, next.address, message);
                }
                (Some(_), _) => {}
            }
        }
    }
}
