//! Path state: PATH MESSAGE ARRIVES, PTEAR MESSAGE ARRIVES, PATH REFRESH and local repair (RFC
//! 2205, sections 3.1.3, 3.1.5 and 3.6; RFC 2209, section 2).
//!
//! Departure: a Path that arrives by another interface than routing expects is dropped, also for
//! receivers on this node; RFC 2209 keeps it for them (Local_Only).

use super::neighbour::PreviousHop;
use super::reconcile::{Affected, ResvOptions};
use super::state::{Psb, RefreshTimer, SessionKey, SessionState};
use super::timers::Timer;
use super::transmit::IpFields;
use super::{Event, Node, REPAIR_WAIT};
use crate::traffic_control::{InterfaceId, Route, Routing, TrafficControl};
use crate::wire::{
    Adspec, Content, ErrorCode, ErrorSpec, Hop, Message, Opaque, Path, PathErr, PathTear, SenderDescriptor,
    SenderTemplate, Session, Style, TokenBucket, code,
};
use engine::units::Instant;

/// How a Path arrived.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub interface: InterfaceId,
    pub ttl: u8,
    /// The IP TTL differs from Send_TTL: there are nodes without RSVP in between.
    pub non_rsvp_hop: bool,
}

/// The part of a PSB that goes on downstream at once when it changes.
#[derive(PartialEq)]
struct PathContents<'a> {
    phop: Option<PreviousHop>,
    police: bool,
    tspec: &'a TokenBucket,
    adspec: Option<&'a Adspec>,
    policy: &'a [Opaque],
    forwarded: &'a [Opaque],
}

impl Psb {
    fn contents(&self) -> PathContents<'_> {
        PathContents {
            phop: self.phop,
            police: self.police,
            tspec: &self.tspec,
            adspec: self.adspec.as_ref(),
            policy: &self.policy,
            forwarded: &self.forwarded,
        }
    }

    /// The interface by which its Path arrives.
    fn incoming(&self) -> Option<InterfaceId> {
        self.phop.map(|phop| phop.interface)
    }
}

/// A route without the interface by which the data arrives.
fn not_back(mut route: Route, incoming: Option<InterfaceId>) -> Route {
    route.outgoing.retain(|interface| Some(*interface) != incoming);
    route
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// PATH MESSAGE ARRIVES.
    pub(super) fn path_arrives(
        &mut self,
        now: Instant,
        arrival: Arrival,
        mut path: Path,
        forwarded: Vec<Opaque>,
    ) {
        let (key, sender) = (SessionKey::from(&path.session), path.sender.template);
        if let Some(error) = self.path_error(key, &sender) {
            self.send_path_err(arrival.interface, path, error);
            return;
        }
        // Our own Path, looped back; or somebody claims to be a sender on this host.
        let known = self.state(key).and_then(|state| state.psbs.get(&sender));
        let own = known.is_some_and(|known| known.phop.is_none());
        if own || self.settings.is_own(path.hop.address) {
            return;
        }
        let route = self
            .tape
            .route(&self.routing, Some(sender.address()), key.destination);
        if route
            .incoming
            .is_some_and(|expected| expected != arrival.interface)
        {
            return;
        }
        // Contents that could not be decoded were answered with a PathErr.
        let Some(tspec) = path.sender.tspec.known().copied() else {
            return;
        };
        let adspec = path.sender.adspec.as_ref().and_then(|adspec| adspec.known());
        let mut adspec = adspec.cloned();
        if let Some(adspec) = adspec.as_mut().filter(|_| arrival.non_rsvp_hop) {
            adspec.break_general();
        }
        let psb = Psb {
            phop: Some(PreviousHop {
                hop: path.hop,
                interface: arrival.interface,
            }),
            former: None,
            police: path.session.police,
            tspec,
            adspec,
            policy: core::mem::take(&mut path.policy),
            forwarded,
            ttl: arrival.ttl,
            non_rsvp_hop: arrival.non_rsvp_hop,
            local: false,
            outgoing: Vec::new(),
            reroute_at: Instant::NEVER,
            expires: now + self.settings.lifetime(path.refresh),
            reported: None,
            ticket: 0,
            refreshed: false,
            armed: Instant::NEVER,
        };
        if !self.admit_psb(now, key, sender, &psb) {
            let path = Path {
                policy: psb.policy,
                ..path
            };
            self.send_path_err(arrival.interface, path, ErrorCode::new(code::SYSTEM, 0));
            return;
        }
        let route = not_back(route, Some(arrival.interface));
        self.update_psb(now, (key, sender), psb, route);
    }

    /// Creates or updates a PSB from a Path or a local SENDER call, with the route of the data.
    pub(super) fn update_psb(
        &mut self,
        now: Instant,
        (key, sender): (SessionKey, SenderTemplate),
        new: Psb,
        route: Route,
    ) {
        let state = self.sessions.0.entry(key).or_default();
        let mut changed = true;
        let mut traffic_changed = true;
        if let Some(psb) = state.psbs.get_mut(&sender) {
            changed = psb.contents() != new.contents();
            let moved = psb.phop != new.phop;
            traffic_changed = moved || psb.tspec != new.tspec || psb.police != new.police;
            let old = moved.then_some(psb.phop).flatten();
            let former = old.map(|old| (old, psb.expires)).or(psb.former);
            self.occupancy.psb_removed(psb);
            self.local_senders -= usize::from(psb.phop.is_none());
            self.local_senders += usize::from(new.phop.is_none());
            **psb = Psb {
                former,
                local: psb.local,
                outgoing: core::mem::take(&mut psb.outgoing),
                reroute_at: psb.reroute_at,
                reported: psb.reported,
                refreshed: true,
                armed: psb.armed,
                ..new
            };
            self.occupancy.psb_added(key, sender, psb);
            if let Some(old) = old {
                self.forget_sent_resv(key, old, &sender);
            }
        } else {
            let mut psb = Box::new(new);
            self.occupancy.psb_added(key, sender, &mut psb);
            self.senders += 1;
            self.local_senders += usize::from(psb.phop.is_none());
            state.psbs.insert(sender, psb);
        }
        let rerouted = self.apply_route(now, key, sender, route, changed);
        if changed && let Some(event) = self.path_event(key, sender) {
            self.events.push_back(event);
        }
        if traffic_changed || rerouted {
            self.reconcile(now, key, Affected::Sender(sender), ResvOptions::default());
        }
        self.arm_psb(key, sender);
    }

    fn path_event(&self, key: SessionKey, sender: SenderTemplate) -> Option<Event> {
        let psb = self.state(key)?.psbs.get(&sender)?;
        psb.local.then(|| Event::Path {
            session: key.session(),
            sender,
            tspec: psb.tspec,
            adspec: psb.adspec.clone(),
        })
    }

    /// Sets the outgoing interfaces of a sender's data. A Path goes out at once through new
    /// interfaces, and through all of them if the contents changed. Returns whether the interfaces
    /// changed.
    fn apply_route(
        &mut self,
        now: Instant,
        key: SessionKey,
        sender: SenderTemplate,
        route: Route,
        contents_changed: bool,
    ) -> bool {
        let state = self.sessions.0.get_mut(&key);
        let Some(psb) = state.and_then(|state| state.psbs.get_mut(&sender)) else {
            return false;
        };
        psb.reroute_at = Instant::NEVER;
        let count = psb.outgoing.len();
        psb.outgoing
            .retain(|(interface, _)| route.outgoing.contains(interface));
        let mut rerouted = psb.outgoing.len() != count;
        let mut refresh = Vec::new();
        for interface in route.outgoing {
            if !psb.leaves_through(interface) {
                psb.outgoing.push((interface, RefreshTimer::NONE));
                refresh.push(interface);
                rerouted = true;
            }
        }
        let was_local = core::mem::replace(&mut psb.local, route.local);
        if contents_changed {
            refresh = psb.outgoing.iter().map(|(interface, _)| *interface).collect();
        }
        for interface in refresh {
            self.path_refresh(now, key, sender, interface);
        }
        match (was_local, route.local) {
            (true, false) => self.events.push_back(Event::PathEnded {
                session: key.session(),
                sender,
            }),
            (false, true) if !contents_changed => self.events.extend(self.path_event(key, sender)),
            _ => {}
        }
        rerouted || was_local != route.local
    }

    fn arm_psb(&mut self, key: SessionKey, sender: SenderTemplate) {
        let state = self.sessions.0.get_mut(&key);
        if let Some(psb) = state.and_then(|state| state.psbs.get_mut(&sender)) {
            let due = psb.due();
            self.timers.arm(key, Timer::Psb(sender), &mut psb.armed, due);
        }
    }

    /// The error with which a Path is rejected, if it is.
    fn path_error(&self, key: SessionKey, sender: &SenderTemplate) -> Option<ErrorCode> {
        if self.sessions.ports_conflict(key) {
            Some(ErrorCode::new(code::CONFLICTING_DESTINATION_PORTS, 0))
        } else if !self.ports_agree(key, sender) {
            Some(ErrorCode::new(code::CONFLICTING_SENDER_PORTS, 0))
        } else if self.exceeds_shared_senders(key, sender) {
            Some(ErrorCode::new(code::SYSTEM, 0))
        } else {
            None
        }
    }

    /// Whether one more sender is too many for the shared reservation of its session.
    fn exceeds_shared_senders(&self, key: SessionKey, sender: &SenderTemplate) -> bool {
        self.state(key).is_some_and(|state| {
            let shared = state.style().is_some_and(|style| style != Style::Fixed);
            let full = state.psbs.len() >= self.settings.max_shared_senders;
            shared && full && !state.psbs.contains_key(sender)
        })
    }

    /// Whether destination and source port agree (RFC 2205, section 3.2): without a destination
    /// port there is no source port, and one host does not send both with and without a port in one
    /// session.
    pub(super) fn ports_agree(&self, key: SessionKey, sender: &SenderTemplate) -> bool {
        let SenderTemplate::Port { address, port } = *sender else {
            return true;
        };
        let range = if port == 0 { 1..=u16::MAX } else { 0..=0 };
        let [first, last] = [*range.start(), *range.end()].map(|port| SenderTemplate::Port { address, port });
        let other = |state: &SessionState| state.psbs.range(first..=last).next().is_some();
        (key.port != 0 || port == 0) && !self.state(key).is_some_and(other)
    }

    /// Rejects a Path with a PathErr.
    pub(super) fn send_path_err(&mut self, interface: InterfaceId, path: Path, error: ErrorCode) {
        let Some(node) = self.settings.address(interface, path.hop.address) else {
            return;
        };
        let message = Message::PathErr(PathErr {
            session: path.session,
            error: ErrorSpec::new(node, error),
            policy: path.policy,
            sender: path.sender,
        });
        self.send_to_neighbour(interface, path.hop.address, message, Vec::new());
    }

    /// PATH REFRESH: sends a Path through this interface.
    fn path_refresh(
        &mut self,
        now: Instant,
        key: SessionKey,
        sender: SenderTemplate,
        interface: InterfaceId,
    ) {
        let state = self.sessions.0.get(&key);
        let Some(psb) = state.and_then(|state| state.psbs.get(&sender)) else {
            return;
        };
        let last = psb.outgoing.iter().find(|(outgoing, _)| *outgoing == interface);
        let last = last.and_then(|(_, refresh)| refresh.period);
        let next = self.next_refresh(now, interface, last);
        let refresh = next.period.unwrap_or(self.settings.refresh(interface));
        let state = self.sessions.0.get_mut(&key);
        let Some(psb) = state.and_then(|state| state.psbs.get_mut(&sender)) else {
            return;
        };
        let mut outgoing = psb.outgoing.iter_mut();
        if let Some((_, timer)) = outgoing.find(|(outgoing, _)| *outgoing == interface) {
            *timer = next;
        }
        let address = self.settings.address(interface, key.destination);
        let (Some(address), ttl @ 1..) = (address, psb.ttl.saturating_sub(1)) else {
            return;
        };
        let mut descriptor = SenderDescriptor {
            template: sender,
            tspec: Content::Known(psb.tspec),
            adspec: psb.adspec.clone().map(Content::Known),
        };
        if let Some(Content::Known(adspec)) = &mut descriptor.adspec {
            adspec.cross(&self.traffic_control.advertise(interface));
        }
        let message = Message::Path(Path {
            session: Session {
                // E_Police goes out only from the sender's host: the first router polices.
                police: psb.police && psb.phop.is_none(),
                ..key.session()
            },
            hop: Hop {
                address,
                lih: interface,
            },
            refresh,
            policy: psb.policy.clone(),
            sender: descriptor,
        });
        let forwarded = psb.forwarded.clone();
        let ip = IpFields {
            interface,
            source: sender.address(),
            destination: key.destination,
            router_alert: true,
            ttl,
        };
        self.send(ip, message, forwarded);
    }

    /// PTEAR MESSAGE ARRIVES.
    pub(super) fn path_tear_arrives(&mut self, now: Instant, interface: InterfaceId, tear: &PathTear) {
        let key = SessionKey::from(&tear.session);
        let from = PreviousHop {
            hop: tear.hop,
            interface,
        };
        let psb = self.state(key).and_then(|state| state.psbs.get(&tear.sender));
        // Only the previous hop may tear down; after a change of route the former one may not.
        let is_present = psb.is_some_and(|psb| psb.phop == Some(from));
        if is_present && !self.return_to_former(now, key, tear.sender) {
            self.remove_psb(now, key, tear.sender);
            return;
        }
        let state = self.sessions.0.get_mut(&key);
        if let Some(psb) = state.and_then(|state| state.psbs.get_mut(&tear.sender)) {
            psb.former = psb.former.filter(|(former, _)| *former != from);
        }
    }

    /// The previous hop has torn down, which a router on a path that data has left does once its
    /// state times out (RFC 2205, section 3.1.5). The one before is the previous hop again, if its
    /// state still lives. Returns whether it does.
    fn return_to_former(&mut self, now: Instant, key: SessionKey, sender: SenderTemplate) -> bool {
        let state = self.sessions.0.get_mut(&key);
        let Some(psb) = state.and_then(|state| state.psbs.get_mut(&sender)) else {
            return false;
        };
        let (torn, former) = (psb.phop, psb.former.take());
        let Some((former, expires)) = former.filter(|(_, expires)| *expires > now) else {
            return false;
        };
        self.occupancy.psb_removed(psb);
        psb.phop = Some(former);
        psb.expires = expires;
        self.occupancy.psb_added(key, sender, psb);
        if let Some(torn) = torn {
            self.forget_sent_resv(key, torn, &sender);
        }
        self.reconcile(now, key, Affected::Sender(sender), ResvOptions::default());
        self.arm_psb(key, sender);
        true
    }

    /// Deletes a PSB and sends PathTear downstream.
    pub(super) fn remove_psb(&mut self, now: Instant, key: SessionKey, sender: SenderTemplate) {
        let state = self.sessions.0.get_mut(&key);
        let Some(psb) = state.and_then(|state| state.psbs.remove(&sender)) else {
            return;
        };
        self.senders -= 1;
        self.local_senders -= usize::from(psb.phop.is_none());
        self.occupancy.psb_removed(&psb);
        self.timers.disarm(key, Timer::Psb(sender), psb.armed);
        let session = key.session();
        if psb.local {
            self.events.push_back(Event::PathEnded { session, sender });
        }
        if psb.reported.is_some() {
            self.events.push_back(Event::Unreserved { session, sender });
        }
        for (interface, _) in psb.outgoing {
            let address = self.settings.address(interface, key.destination);
            let (Some(address), ttl @ 1..) = (address, psb.ttl.saturating_sub(1)) else {
                continue;
            };
            let message = Message::PathTear(PathTear {
                session,
                hop: Hop {
                    address,
                    lih: interface,
                },
                sender,
            });
            let ip = IpFields {
                interface,
                source: sender.address(),
                destination: key.destination,
                router_alert: true,
                ttl,
            };
            self.send(ip, message, Vec::new());
        }
        if let Some(phop) = psb.phop {
            self.forget_sent_resv(key, phop, &sender);
        }
        self.reconcile(now, key, Affected::Sender(sender), ResvOptions::default());
    }

    /// PATH ROUTE CHANGE: routes have changed. Paths follow the new ones once they have settled
    /// (RFC 2205, section 3.6).
    pub fn routes_changed(&mut self, now: Instant) {
        self.tape.routes_changed(now);
        let mut moved = Vec::new();
        for (key, state) in &mut self.sessions.0 {
            for (sender, psb) in &mut state.psbs {
                let route = self
                    .tape
                    .route(&self.routing, Some(sender.address()), key.destination);
                let route = not_back(route, psb.incoming());
                let same = route.local == psb.local
                    && route.outgoing.len() == psb.outgoing.len()
                    && route.outgoing.iter().all(|by| psb.leaves_through(*by));
                if !same {
                    psb.reroute_at = psb.reroute_at.min(now + REPAIR_WAIT);
                    moved.push((*key, *sender));
                }
            }
        }
        for (key, sender) in moved {
            self.arm_psb(key, sender);
        }
    }

    /// Refreshes all state sent through this interface now: a neighbour there has missed what was
    /// sent so far. The periodic refreshes go on afterwards.
    pub fn resynchronise(&mut self, now: Instant, interface: InterfaceId) {
        self.tape.resynchronise(now, interface);
        let (mut psbs, mut resvs) = (Vec::new(), Vec::new());
        for (key, state) in &mut self.sessions.0 {
            for (sender, psb) in &mut state.psbs {
                let mut outgoing = psb.outgoing.iter_mut();
                if let Some((_, refresh)) = outgoing.find(|(outgoing, _)| *outgoing == interface) {
                    refresh.at = now;
                    psbs.push((*key, *sender));
                }
            }
            let sent = state.sent_resvs.iter_mut();
            for (phop, sent) in sent.filter(|(phop, _)| phop.interface == interface) {
                sent.refresh.at = now;
                resvs.push((*key, *phop));
            }
        }
        for (key, sender) in psbs {
            self.arm_psb(key, sender);
        }
        for (key, phop) in resvs {
            self.arm_resv_refresh(key, phop);
        }
        self.time_out(now);
    }

    /// A timer of a PSB runs out: lifetime, local repair or refresh.
    pub(super) fn psb_timeout(&mut self, now: Instant, key: SessionKey, sender: SenderTemplate) {
        let state = self.sessions.0.get_mut(&key);
        let Some(psb) = state.and_then(|state| state.psbs.get_mut(&sender)) else {
            return;
        };
        psb.armed = Instant::NEVER;
        if psb.expires <= now {
            self.remove_psb(now, key, sender);
            return;
        }
        let due = psb.outgoing.iter().filter(|(_, refresh)| refresh.at <= now);
        let due: Vec<InterfaceId> = due.map(|(interface, _)| *interface).collect();
        if psb.reroute_at <= now || !due.is_empty() {
            let route = self
                .tape
                .route(&self.routing, Some(sender.address()), key.destination);
            let route = not_back(route, psb.incoming());
            if self.apply_route(now, key, sender, route, false) {
                self.reconcile(now, key, Affected::Sender(sender), ResvOptions::default());
            }
        }
        for interface in due {
            let psb = self.state(key).and_then(|state| state.psbs.get(&sender));
            if psb.is_some_and(|psb| psb.leaves_through(interface)) {
                self.path_refresh(now, key, sender, interface);
            }
        }
        self.arm_psb(key, sender);
    }
}
