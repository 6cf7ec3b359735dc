//! Path and PathTear (RFC 2205, sections 3.1.3 and 3.1.5; RFC 2209, section 2), and the sender's calls.
//!
//! Departure: a Path that comes by another interface than the route back to its sender says is dropped, also for
//! receivers on this node, which RFC 2209 would let hear of it.

use super::agenda::Block;
use super::settle::{Push, Touched};
use super::state::{Before, Key, PathState, Refreshing};
use super::{CallError, Event, Node, REPAIR_WAIT, TTL, lifetime};
use crate::traffic_control::{InterfaceId, Route, Routing, TrafficControl};
use crate::wire::{
    Adspec, ErrorSpec, Hop, Message, Opaque, Path, PathErr, PathTear, Real, Sender, Session, TokenBucket,
    code,
};
use engine::units::Instant;

/// What a Path brings that is news when it differs.
#[derive(PartialEq)]
struct News<'a> {
    previous: Option<Before>,
    police: bool,
    tspec: &'a TokenBucket,
    adspec: Option<&'a Adspec>,
    policy: &'a [Opaque],
    forwarded: &'a [Opaque],
}

impl PathState {
    fn news(&self) -> News<'_> {
        News {
            previous: self.previous,
            police: self.police,
            tspec: &self.tspec,
            adspec: self.adspec.as_ref(),
            policy: &self.policy,
            forwarded: &self.forwarded,
        }
    }
}

/// A sender of this host, which goes nowhere yet.
const fn own(tspec: TokenBucket, adspec: Adspec) -> PathState {
    PathState {
        previous: None,
        police: true,
        tspec,
        adspec: Some(adspec),
        policy: Vec::new(),
        forwarded: Vec::new(),
        ttl: TTL.saturating_add(1),
        gap: false,
        here: false,
        by: Vec::new(),
        reroute_at: Instant::NEVER,
        expires: Instant::NEVER,
        reserved: None,
        armed: Instant::NEVER,
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// This host sends: Paths go out until [`Node::stop_sending`]; again to change what is sent.
    pub fn send(
        &mut self,
        now: Instant,
        session: Session,
        sender: Sender,
        tspec: TokenBucket,
    ) -> Result<(), CallError> {
        let key = Key::from(&session);
        if self.sessions.ports_conflict(key) || !self.ports_agree(key, &sender) {
            return Err(CallError::Ports);
        }
        let route = self.routing.route(Some(sender.address()), session.destination);
        if !route.is_some() {
            return Err(CallError::NoRoute);
        }
        let known = self.state(key).and_then(|state| state.paths.get(&sender));
        if known.is_none() && self.senders >= self.settings.most_senders {
            return Err(CallError::Full);
        }
        let path = own(tspec, Adspec::at_sender(Real::INFINITE, 0, u32::MAX));
        self.heard(now, (key, sender), path, route);
        Ok(())
    }

    /// This host no longer sends.
    pub fn stop_sending(&mut self, now: Instant, session: &Session, sender: Sender) {
        let key = Key::from(session);
        let path = self.state(key).and_then(|state| state.paths.get(&sender));
        if path.is_some_and(|path| path.previous.is_none()) {
            self.end_path(now, key, sender);
        }
    }

    /// A Path came by this interface, with this TTL, and perhaps over nodes that do not speak RSVP.
    pub(super) fn path(
        &mut self,
        now: Instant,
        (interface, ttl, gap): (InterfaceId, u8, bool),
        path: Path,
        forwarded: Vec<Opaque>,
    ) {
        let (key, sender) = (Key::from(&path.session), path.sender.template);
        if let Some((code, value)) = self.path_trouble(key, &sender) {
            self.refuse_path(interface, path, code, value);
            return;
        }
        // Our own, come back; or someone says that it is a sender of this host.
        let known = self.state(key).and_then(|state| state.paths.get(&sender));
        let own = known.is_some_and(|known| known.previous.is_none());
        if own || self.settings.is_own(path.hop.address) {
            return;
        }
        let mut route = self.routing.route(Some(sender.address()), key.destination);
        if route.expected.is_some_and(|expected| expected != interface) {
            return;
        }
        route.by.retain(|by| *by != interface);
        // Unknown contents have been objected to.
        let Some(tspec) = path.sender.tspec.known().copied() else {
            return;
        };
        let adspec = path.sender.adspec.as_ref().and_then(|adspec| adspec.known());
        let mut adspec = adspec.cloned();
        if let Some(adspec) = adspec.as_mut().filter(|_| gap) {
            adspec.break_general();
        }
        let heard = PathState {
            previous: Some((path.hop, interface)),
            police: path.session.police,
            tspec,
            adspec,
            policy: path.policy,
            forwarded,
            ttl,
            gap,
            here: false,
            by: Vec::new(),
            reroute_at: Instant::NEVER,
            expires: now + lifetime(path.refresh.period()),
            reserved: None,
            armed: Instant::NEVER,
        };
        self.heard(now, (key, sender), heard, route);
    }

    /// A sender says this, and its packets go there.
    fn heard(&mut self, now: Instant, (key, sender): (Key, Sender), heard: PathState, route: Route) {
        let state = self.sessions.0.entry(key).or_default();
        let mut changed = true;
        let mut traffic_changed = true;
        if let Some(known) = state.paths.get_mut(&sender) {
            changed = known.news() != heard.news();
            let moved = known.previous != heard.previous;
            traffic_changed = moved || known.tspec != heard.tspec || known.police != heard.police;
            let old = moved.then_some(known.previous).flatten();
            **known = PathState {
                here: known.here,
                by: core::mem::take(&mut known.by),
                reroute_at: known.reroute_at,
                reserved: known.reserved,
                armed: known.armed,
                ..heard
            };
            if let Some(old) = old {
                self.forget_asked(key, old, &sender);
            }
        } else {
            state.paths.insert(sender, Box::new(heard));
            self.senders += 1;
        }
        let rerouted = self.route_path(now, key, sender, route, changed);
        if changed && let Some(event) = self.path_event(key, sender) {
            self.events.push_back(event);
        }
        if traffic_changed || rerouted {
            self.settle(now, key, Touched::Sender(sender), Push::default());
        }
        self.arm_path(key, sender);
    }

    fn path_event(&self, key: Key, sender: Sender) -> Option<Event> {
        let path = self.state(key)?.paths.get(&sender)?;
        path.here.then(|| Event::Path {
            session: key.session(),
            sender,
            tspec: path.tspec,
            adspec: path.adspec.clone(),
        })
    }

    /// A sender's packets go there from now on: Paths go to new places at once, and everywhere if they bring news.
    /// Says whether the places have changed.
    fn route_path(&mut self, now: Instant, key: Key, sender: Sender, route: Route, news: bool) -> bool {
        let state = self.sessions.0.get_mut(&key);
        let Some(path) = state.and_then(|state| state.paths.get_mut(&sender)) else {
            return false;
        };
        path.reroute_at = Instant::NEVER;
        let before = path.by.len();
        path.by.retain(|(by, _)| route.by.contains(by));
        let mut rerouted = path.by.len() != before;
        let mut fresh = Vec::new();
        for by in route.by {
            if !path.leaves_by(by) {
                path.by.push((by, Refreshing::NONE));
                fresh.push(by);
                rerouted = true;
            }
        }
        let was_here = core::mem::replace(&mut path.here, route.here);
        if news {
            fresh = path.by.iter().map(|(by, _)| *by).collect();
        }
        for by in fresh {
            self.path_refresh(now, key, sender, by);
        }
        match (was_here, route.here) {
            (true, false) => self.events.push_back(Event::PathEnded {
                session: key.session(),
                sender,
            }),
            (false, true) if !news => self.events.extend(self.path_event(key, sender)),
            _ => {}
        }
        rerouted || was_here != route.here
    }

    fn arm_path(&mut self, key: Key, sender: Sender) {
        let state = self.sessions.0.get_mut(&key);
        if let Some(path) = state.and_then(|state| state.paths.get_mut(&sender)) {
            let due = path.due();
            self.agenda.arm(key, Block::Path(sender), &mut path.armed, due);
        }
    }

    /// What keeps a Path from being accepted (RFC 2209, section 2, PATH message arrives).
    fn path_trouble(&self, key: Key, sender: &Sender) -> Option<(u8, u16)> {
        let known = self.state(key).and_then(|state| state.paths.get(sender));
        if self.sessions.ports_conflict(key) {
            Some((code::CONFLICTING_DESTINATION_PORTS, 0))
        } else if !self.ports_agree(key, sender) {
            Some((code::CONFLICTING_SENDER_PORTS, 0))
        } else if known.is_none() && self.senders >= self.settings.most_senders {
            Some((code::SYSTEM, 0))
        } else {
            None
        }
    }

    /// Whether these ports go together (RFC 2205, section 3.2): no destination port, no source port; and one host does
    /// not send with and without a port to one session.
    fn ports_agree(&self, key: Key, sender: &Sender) -> bool {
        let Sender::Port { address, port } = *sender else {
            return true;
        };
        let range = if port == 0 { 1..=u16::MAX } else { 0..=0 };
        let [first, last] = [*range.start(), *range.end()].map(|port| Sender::Port { address, port });
        let other = |state: &super::State| state.paths.range(first..=last).next().is_some();
        (key.port != 0 || port == 0) && !self.state(key).is_some_and(other)
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
        let message = Message::PathErr(error);
        self.tell(interface, path.hop.address, message, Vec::new());
    }

    /// Sends a Path on by this interface (RFC 2209, section 2, PATH REFRESH).
    fn path_refresh(&mut self, now: Instant, key: Key, sender: Sender, interface: InterfaceId) {
        let state = self.sessions.0.get(&key);
        let Some(path) = state.and_then(|state| state.paths.get(&sender)) else {
            return;
        };
        let last = path.by.iter().find(|(by, _)| *by == interface);
        let last = last.and_then(|(_, refresh)| refresh.period);
        let next = self.again(now, interface, last);
        let refresh = next.period.unwrap_or(self.settings.refresh(interface));
        let state = self.sessions.0.get_mut(&key);
        let Some(path) = state.and_then(|state| state.paths.get_mut(&sender)) else {
            return;
        };
        if let Some((_, place)) = path.by.iter_mut().find(|(by, _)| *by == interface) {
            *place = next;
        }
        let address = self.settings.address(interface, key.destination);
        let (Some(address), ttl @ 1..) = (address, path.ttl.saturating_sub(1)) else {
            return;
        };
        let mut descriptor = crate::wire::SenderDescriptor {
            template: sender,
            tspec: crate::wire::Content::Known(path.tspec),
            adspec: path.adspec.clone().map(crate::wire::Content::Known),
        };
        if let Some(crate::wire::Content::Known(adspec)) = &mut descriptor.adspec {
            adspec.cross(&self.traffic_control.advertise(interface));
        }
        let message = Message::Path(Path {
            session: Session {
                // A router polices what it is told to, so that those behind it need not.
                police: path.police && path.previous.is_none(),
                ..key.session()
            },
            hop: Hop { address, interface },
            refresh,
            policy: path.policy.clone(),
            sender: descriptor,
        });
        let forwarded = path.forwarded.clone();
        let addresses = (sender.address(), key.destination);
        self.send_as(interface, addresses, (true, ttl), message, forwarded);
    }

    /// A PathTear came.
    pub(super) fn path_tear(&mut self, now: Instant, interface: InterfaceId, tear: &PathTear) {
        let key = Key::from(&tear.session);
        let path = self.state(key).and_then(|state| state.paths.get(&tear.sender));
        // Only who the Path came from may end it; after a change of route an old neighbour may not.
        if path.is_some_and(|path| path.previous == Some((tear.hop, interface))) {
            self.end_path(now, key, tear.sender);
        }
    }

    /// Forgets a sender and tells those behind.
    fn end_path(&mut self, now: Instant, key: Key, sender: Sender) {
        let state = self.sessions.0.get_mut(&key);
        let Some(path) = state.and_then(|state| state.paths.remove(&sender)) else {
            return;
        };
        self.senders -= 1;
        self.agenda.disarm(key, Block::Path(sender), path.armed);
        let session = key.session();
        if path.here {
            self.events.push_back(Event::PathEnded { session, sender });
        }
        if path.reserved.is_some() {
            self.events.push_back(Event::Unreserved { session, sender });
        }
        for (interface, _) in path.by {
            let address = self.settings.address(interface, key.destination);
            let (Some(address), ttl @ 1..) = (address, path.ttl.saturating_sub(1)) else {
                continue;
            };
            let message = Message::PathTear(PathTear {
                session,
                hop: Hop { address, interface },
                sender,
            });
            let addresses = (sender.address(), key.destination);
            self.send_as(interface, addresses, (true, ttl), message, Vec::new());
        }
        if let Some(previous) = path.previous {
            self.forget_asked(key, previous, &sender);
        }
        self.settle(now, key, Touched::Sender(sender), Push::default());
    }

    /// Routes are not what they were: Paths go where they lead now when they have settled (RFC 2205, section 3.6).
    pub fn routes_changed(&mut self, now: Instant) {
        let mut moved = Vec::new();
        for (key, state) in &mut self.sessions.0 {
            for (sender, path) in &mut state.paths {
                let mut route = self.routing.route(Some(sender.address()), key.destination);
                let came_by = path.previous.map(|(_, interface)| interface);
                route.by.retain(|by| Some(*by) != came_by);
                let same = route.here == path.here
                    && route.by.len() == path.by.len()
                    && route.by.iter().all(|by| path.leaves_by(*by));
                if !same {
                    path.reroute_at = path.reroute_at.min(now + REPAIR_WAIT);
                    moved.push((*key, *sender));
                }
            }
        }
        for (key, sender) in moved {
            self.arm_path(key, sender);
        }
    }

    /// A neighbour behind this interface has heard nothing of what was said so far: all that is told by it is told again
    /// now, and then at its times.
    pub fn say_again(&mut self, now: Instant, interface: InterfaceId) {
        let (mut paths, mut requests) = (Vec::new(), Vec::new());
        for (key, state) in &mut self.sessions.0 {
            for (sender, path) in &mut state.paths {
                if let Some((_, refresh)) = path.by.iter_mut().find(|(by, _)| *by == interface) {
                    refresh.at = now;
                    paths.push((*key, *sender));
                }
            }
            for (before, sent) in state.sent.iter_mut().filter(|((_, by), _)| *by == interface) {
                sent.refresh.at = now;
                requests.push((*key, *before));
            }
        }
        for (key, sender) in paths {
            self.arm_path(key, sender);
        }
        for (key, before) in requests {
            self.arm_sent(key, before);
        }
        self.handle_timeout(now);
    }

    /// What is due of a sender's path.
    pub(super) fn path_timeout(&mut self, now: Instant, key: Key, sender: Sender) {
        let state = self.sessions.0.get_mut(&key);
        let Some(path) = state.and_then(|state| state.paths.get_mut(&sender)) else {
            return;
        };
        path.armed = Instant::NEVER;
        if path.expires <= now {
            self.end_path(now, key, sender);
            return;
        }
        let due = path.by.iter().filter(|(_, refresh)| refresh.at <= now);
        let due: Vec<InterfaceId> = due.map(|(by, _)| *by).collect();
        if path.reroute_at <= now || !due.is_empty() {
            let came_by = path.previous.map(|(_, interface)| interface);
            let mut route = self.routing.route(Some(sender.address()), key.destination);
            route.by.retain(|by| Some(*by) != came_by);
            if self.route_path(now, key, sender, route, false) {
                self.settle(now, key, Touched::Sender(sender), Push::default());
            }
        }
        for by in due {
            let path = self.state(key).and_then(|state| state.paths.get(&sender));
            if path.is_some_and(|path| path.leaves_by(by)) {
                self.path_refresh(now, key, sender, by);
            }
        }
        self.arm_path(key, sender);
    }
}
