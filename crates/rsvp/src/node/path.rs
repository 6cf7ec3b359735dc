//! Path and PathTear (RFC 2205, section 3.1.3 and 3.1.5; RFC 2209, section 2), and the sender's calls.

use super::state::{Flow, Key, PathState, Way};
use super::{CallError, Event, Node, TTL, lifetime};
use crate::traffic_control::{InterfaceId, Routing, TrafficControl};
use crate::wire::{
    Adspec, ErrorSpec, Hop, Message, Opaque, Path, PathErr, PathTear, Real, Sender, Session, TokenBucket,
    code,
};
use engine::units::Instant;

/// Whether these ports go together (RFC 2205, section 3.2): no destination port, no source port.
const fn ports_agree(session: &Session, sender: &Sender) -> bool {
    !matches!(sender, Sender::Port { port, .. } if session.port == 0 && *port != 0)
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// This host sends: Paths go out until [`Node::stop_sending`].
    pub fn send(
        &mut self,
        now: Instant,
        session: Session,
        sender: Sender,
        tspec: TokenBucket,
    ) -> Result<(), CallError> {
        let flow = (Key::from(&session), sender);
        if !ports_agree(&session, &sender) || self.state.ports_conflict(flow.0) {
            return Err(CallError::Ports);
        }
        let route @ Way::By(_) = self.way(session.destination) else {
            return Err(CallError::NoRoute);
        };
        if let Some(path) = self.state.path_mut(flow) {
            path.tspec = tspec;
            self.describe(flow);
        } else if self.state.len() >= self.settings.most_senders {
            return Err(CallError::Full);
        } else {
            let adspec = Adspec::at_sender(Real::INFINITE, 0, u32::MAX);
            let mut path = block(session, sender, tspec, route);
            path.session.police = true;
            path.adspec = Some(adspec);
            path.ttl = TTL.saturating_add(1);
            self.state.insert(flow, path);
        }
        self.path_refresh(now, flow);
        self.state.arm(flow);
        Ok(())
    }

    /// This host no longer sends.
    pub fn stop_sending(&mut self, _now: Instant, session: &Session, sender: Sender) {
        let flow = (Key::from(session), sender);
        if self.state.path(flow).is_some_and(|path| path.previous.is_none()) {
            self.end_path(flow);
        }
    }

    /// A Path came.
    pub(super) fn path(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        ttl: u8,
        heard: bool,
        path: Path,
        forwarded: Vec<Opaque>,
    ) {
        let flow = (Key::from(&path.session), path.sender.template);
        if let Some((code, value)) = self.path_trouble(flow, &path) {
            self.refuse_path(interface, path, code, value);
            return;
        }
        // Unknown contents have been objected to.
        let Some(tspec) = path.sender.tspec.known().copied() else {
            return;
        };
        let mut adspec = path
            .sender
            .adspec
            .as_ref()
            .and_then(|adspec| adspec.known())
            .cloned();
        if !heard && let Some(adspec) = &mut adspec {
            adspec.break_general();
        }
        let previous = Some((path.hop, interface));
        let route = self.way(path.session.destination);
        let known = self.state.path(flow);
        if known.is_some_and(|known| known.previous.is_none()) {
            // Someone else says that it is a sender of this host.
            return;
        }
        let new = known.is_none();
        let traffic_changed =
            known.is_some_and(|known| known.tspec != tspec || known.session != path.session);
        let moved = known.is_some_and(|known| known.previous != previous);
        let changed = known.is_none_or(|known| {
            moved
                || known.tspec != tspec
                || known.adspec != adspec
                || known.route != route
                || known.session != path.session
                || known.policy != path.policy
                || known.forwarded != forwarded
        });
        if new {
            self.state.insert(flow, block(path.session, flow.1, tspec, route));
        }
        let Some(block) = self.state.path_mut(flow) else {
            return;
        };
        block.session = path.session;
        block.previous = previous;
        block.tspec = tspec;
        block.adspec = adspec.clone();
        block.policy = path.policy;
        block.forwarded = forwarded;
        block.ttl = ttl;
        block.expires = now + lifetime(path.refresh.period());
        if traffic_changed {
            self.describe(flow);
        }
        if changed {
            self.path_refresh(now, flow);
            if route == Way::Here {
                self.events.push_back(Event::Path {
                    session: path.session,
                    sender: flow.1,
                    tspec,
                    adspec,
                });
            }
        }
        if moved {
            self.resv_refresh(now, flow, None);
        }
        self.state.arm(flow);
    }

    /// What keeps a Path from being accepted (RFC 2209, section 2, PATH message arrives).
    fn path_trouble(&self, flow: Flow, path: &Path) -> Option<(u8, u16)> {
        if self.state.ports_conflict(flow.0) {
            Some((code::CONFLICTING_DESTINATION_PORTS, 0))
        } else if !ports_agree(&path.session, &flow.1) {
            Some((code::CONFLICTING_SENDER_PORTS, 0))
        } else if self.state.path(flow).is_none() && self.state.len() >= self.settings.most_senders {
            Some((code::SYSTEM, 0))
        } else {
            None
        }
    }

    /// Answers a Path with an error.
    pub(super) fn refuse_path(&mut self, interface: InterfaceId, path: Path, code: u8, value: u16) {
        let Some(node) = self.settings.address(interface, path.hop.address) else {
            return;
        };
        let error = PathErr {
            session: path.session,
            error: ErrorSpec {
                node,
                in_place: false,
                not_guilty: false,
                code,
                value,
            },
            policy: path.policy,
            sender: path.sender,
        };
        self.tell(interface, path.hop.address, Message::PathErr(error));
    }

    /// Sends a Path on, by the route of the moment (RFC 2209, section 2, PATH REFRESH).
    pub(super) fn path_refresh(&mut self, now: Instant, flow: Flow) {
        let at = self.next_refresh(now, 0);
        let Some(path) = self.state.path(flow) else {
            return;
        };
        let route = self.way(path.session.destination);
        if route != path.route {
            self.leave(flow, route);
        }
        let Some(path) = self.state.path_mut(flow) else {
            return;
        };
        path.refresh_at = if route == Way::Here { Instant::NEVER } else { at };
        let (Way::By(interface), ttl @ 1..) = (route, path.ttl.saturating_sub(1)) else {
            return;
        };
        if path.previous.is_some_and(|(_, came_by)| came_by == interface) {
            return;
        }
        let refresh = self.settings.refresh(interface);
        let Some(address) = self.settings.address(interface, path.session.destination) else {
            return;
        };
        let mut sender = path.descriptor();
        if let Some(crate::wire::Content::Known(adspec)) = &mut sender.adspec {
            let link = self.traffic_control.advertise(interface);
            adspec.cross(link.bandwidth, link.latency, link.mtu);
        }
        let mut session = path.session;
        // A router polices what it is told to, so that those behind it need not.
        session.police &= path.previous.is_none();
        let message = Message::Path(Path {
            session,
            hop: Hop { address, interface },
            refresh,
            policy: path.policy.clone(),
            sender,
        });
        let addresses = (flow.1.address(), session.destination);
        let forwarded = path.forwarded.clone();
        self.send_as(interface, addresses, true, ttl, message, forwarded);
    }

    /// The route has changed: what was promised where the data no longer pass ends.
    fn leave(&mut self, flow: Flow, route: Way) {
        let Some(mut path) = self.state.remove(flow) else {
            return;
        };
        let reserved = path.reservation.is_some();
        self.undo(&mut path);
        path.route = route;
        if reserved && path.previous.is_none() {
            self.events.push_back(Event::Unreserved {
                session: path.session,
                sender: path.sender,
            });
        }
        self.state.insert(flow, path);
    }

    /// A PathTear came.
    pub(super) fn path_tear(&mut self, interface: InterfaceId, tear: &PathTear) {
        let flow = (Key::from(&tear.session), tear.sender);
        let from = Some((tear.hop, interface));
        // Only who the Path came from may end it; after a change of route an old neighbour may not.
        if self.state.path(flow).is_some_and(|path| path.previous == from) {
            self.end_path(flow);
        }
    }

    /// Forgets a sender and tells those behind.
    fn end_path(&mut self, flow: Flow) {
        let Some(path) = self.forget(flow) else {
            return;
        };
        match path.route {
            Way::Here => self.events.push_back(Event::PathEnded {
                session: path.session,
                sender: path.sender,
            }),
            Way::By(interface) => {
                let address = self.settings.address(interface, path.session.destination);
                let (Some(address), ttl @ 1..) = (address, path.ttl.saturating_sub(1)) else {
                    return;
                };
                let message = Message::PathTear(PathTear {
                    session: path.session,
                    hop: Hop { address, interface },
                    sender: path.sender,
                });
                let addresses = (path.sender.address(), path.session.destination);
                self.send_as(interface, addresses, true, ttl, message, Vec::new());
            }
            Way::None => {}
        }
    }

    /// What is due of a sender's path.
    pub(super) fn path_timeout(&mut self, now: Instant, flow: Flow) {
        let Some(path) = self.state.path(flow) else {
            return;
        };
        if path.expires <= now {
            self.end_path(flow);
        } else if path.refresh_at <= now {
            self.path_refresh(now, flow);
        }
    }
}

/// A sender that has just been heard of. It never expires by itself, and is due at once.
fn block(session: Session, sender: Sender, tspec: TokenBucket, route: Way) -> PathState {
    PathState {
        session,
        sender,
        previous: None,
        tspec,
        adspec: None,
        policy: Vec::new(),
        forwarded: Vec::new(),
        ttl: TTL,
        route,
        expires: Instant::NEVER,
        refresh_at: Instant::NEVER,
        reservation: None,
        handle: None,
        resv_refresh_at: Instant::NEVER,
        armed: Instant::NEVER,
    }
}
