//! The calls of applications on this host (RFC 2205, section 3.11.1): SENDER, RESERVE and RELEASE.
//! The upcalls are [`Event`](super::Event)s.

use super::flow_descriptor::FlowDescriptor;
use super::neighbour::NextHop;
use super::reconcile::{Affected, ConfirmTo, ResvOptions};
use super::state::{FilterSpec, Psb, SessionKey};
use super::{CallError, Node, ReceiverId, TTL};
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{Adspec, Descriptors, Flowspec, Real, SenderTemplate, Session, TokenBucket};
use engine::units::Instant;
use std::collections::BTreeSet;

/// Path state of a sender on this host, without routes yet.
const fn local_psb(tspec: TokenBucket, adspec: Adspec) -> Psb {
    Psb {
        phop: None,
        former: None,
        police: true,
        tspec,
        adspec: Some(adspec),
        policy: Vec::new(),
        forwarded: Vec::new(),
        ttl: TTL.saturating_add(1),
        non_rsvp_hop: false,
        local: false,
        outgoing: Vec::new(),
        reroute_at: Instant::NEVER,
        expires: Instant::NEVER,
        reported: None,
        ticket: 0,
        refreshed: false,
        armed: Instant::NEVER,
    }
}

/// A request by filter spec: FF has a flowspec for each.
fn by_flowspec(wanted: Descriptors<Flowspec>) -> Option<Vec<(Flowspec, Vec<FilterSpec>)>> {
    Some(match wanted {
        Descriptors::Wildcard(flowspec) => vec![(flowspec, vec![None])],
        Descriptors::SharedExplicit(flowspec, senders) => {
            vec![(flowspec, senders.into_iter().map(Some).collect())]
        }
        Descriptors::Fixed(list) => list
            .into_iter()
            .map(|(flowspec, sender)| (flowspec, vec![Some(sender)]))
            .collect(),
        Descriptors::Unknown(..) => return None,
    })
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Defines a sender on this host, or changes its Tspec. Path messages go out until
    /// [`Node::remove_sender`].
    ///
    /// # Errors
    ///
    /// [`CallError::Ports`], [`CallError::NoRoute`] or [`CallError::Full`]; nothing has changed
    /// then.
    pub fn add_sender(
        &mut self,
        now: Instant,
        session: Session,
        sender: SenderTemplate,
        tspec: TokenBucket,
    ) -> Result<(), CallError> {
        self.tape.add_sender(now, session, sender, tspec);
        let key = SessionKey::from(&session);
        if self.sessions.ports_conflict(key) || !self.ports_agree(key, &sender) {
            return Err(CallError::Ports);
        }
        let route = self
            .tape
            .route(&self.routing, Some(sender.address()), session.destination);
        if !route.is_reachable() {
            return Err(CallError::NoRoute);
        }
        let known = self.state(key).and_then(|state| state.psbs.get(&sender));
        if known.is_none() && self.local_senders >= self.settings.max_senders.total {
            return Err(CallError::Full);
        }
        let psb = local_psb(tspec, Adspec::at_sender(Real::INFINITE, 0, u32::MAX));
        self.update_psb(now, (key, sender), psb, route);
        Ok(())
    }

    /// Removes a sender on this host; PathTear messages go out.
    pub fn remove_sender(&mut self, now: Instant, session: &Session, sender: SenderTemplate) {
        self.tape.remove_sender(now, *session, sender);
        let key = SessionKey::from(session);
        let psb = self.state(key).and_then(|state| state.psbs.get(&sender));
        if psb.is_some_and(|psb| psb.phop.is_none()) {
            self.remove_psb(now, key, sender);
        }
    }

    /// Reserves for senders whose path state is here, in place of what this receiver reserved
    /// before. [`Event::Confirmed`](super::Event::Confirmed) or
    /// [`Event::ReservationFailed`](super::Event::ReservationFailed) follows. The request stays
    /// until [`Node::release`], even while there is no path state for its senders.
    ///
    /// # Errors
    ///
    /// Any [`CallError`] but [`CallError::NoRoute`] and [`CallError::Ports`]; nothing has changed
    /// then, except that a receiver's own request in another style has been released.
    pub fn reserve(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        session: &Session,
        wanted: Descriptors<Flowspec>,
    ) -> Result<(), CallError> {
        self.tape.reserve(now, receiver, *session, &wanted);
        let (key, nhop) = (SessionKey::from(session), NextHop::Local(receiver));
        let style = wanted.style();
        let Some(list) = by_flowspec(wanted) else {
            return Err(CallError::Style(style));
        };
        let kept: BTreeSet<FilterSpec> = list.iter().flat_map(|(_, filters)| filters.clone()).collect();
        let Some(state) = self.state(key) else {
            return Err(CallError::NoPath);
        };
        if !kept.iter().any(|filter| state.any_reaches(filter, &nhop)) {
            return Err(CallError::NoPath);
        }
        // A receiver may change its own style: the old request ends first.
        let alone = state.rsbs.keys().all(|other| *other == nhop);
        match state.style().filter(|old| *old != style) {
            Some(_) if alone => self.release_all(now, receiver, session),
            Some(old) => return Err(CallError::Style(old)),
            None => {}
        }
        let descriptors: Vec<FlowDescriptor<'_>> = list
            .into_iter()
            .map(|(flowspec, filters)| FlowDescriptor {
                nhop,
                style,
                flowspec,
                filters,
                scope: None,
                policy: &[],
                forwarded: &[],
                expires: Instant::NEVER,
                confirm: Some(ConfirmTo::Local),
            })
            .collect();
        if descriptors.iter().any(|one| self.conflict(key, one).is_some()) {
            return Err(CallError::Service);
        }
        let had = self.requested_filters(key, nhop);
        let full = self.settings.max_reservations.total + had.len();
        if self.local_reservations + kept.len() > full {
            return Err(CallError::Full);
        }
        for filter in had.iter().filter(|filter| !kept.contains(filter)) {
            self.remove_rsb_entry(key, nhop, *filter);
        }
        if had.iter().any(|filter| !kept.contains(filter)) {
            self.reconcile(now, key, Affected::All, ResvOptions::default());
        }
        for descriptor in &descriptors {
            // Cannot be rejected: conflicts were ruled out, and nothing is installed for local
            // delivery.
            let _ = self.process_flow_descriptor(now, key, descriptor);
        }
        Ok(())
    }

    /// Releases what this receiver has reserved in the session.
    pub fn release(&mut self, now: Instant, receiver: ReceiverId, session: &Session) {
        self.tape.release(now, receiver, *session);
        self.release_all(now, receiver, session);
    }

    fn release_all(&mut self, now: Instant, receiver: ReceiverId, session: &Session) {
        let (key, nhop) = (SessionKey::from(session), NextHop::Local(receiver));
        let filters = self.requested_filters(key, nhop);
        for filter in &filters {
            self.remove_rsb_entry(key, nhop, *filter);
        }
        if !filters.is_empty() {
            self.reconcile(now, key, Affected::All, ResvOptions::default());
        }
    }

    /// The filter specs that a next hop requests.
    fn requested_filters(&self, key: SessionKey, nhop: NextHop) -> Vec<FilterSpec> {
        let rsb = self.state(key).and_then(|state| state.rsbs.get(&nhop));
        rsb.map_or(Vec::new(), |rsb| rsb.entries.keys().copied().collect())
    }
}
