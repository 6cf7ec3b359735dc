//! Reservation requests of next hops: RESV MESSAGE ARRIVES and RTEAR MESSAGE ARRIVES (RFC 2205,
//! sections 3.1.4 and 3.1.6; RFC 2209, section 2).

use super::Node;
use super::flow_descriptor::{FlowDescriptor, Rejected};
use super::neighbour::NextHop;
use super::reconcile::{Affected, ConfirmTo, ResvOptions};
use super::resv_refresh::flow_descriptors;
use super::state::{FilterSpec, SessionKey};
use super::timers::Timer;
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{
    Content, Descriptors, ErrorCode, Flowspec, Opaque, Resv, ResvTear, Scope, SenderTemplate, code,
};
use core::net::IpAddr;
use engine::units::Instant;

/// The addresses of a SCOPE object, in order and each once.
pub(super) fn addresses(scope: &Scope) -> Vec<IpAddr> {
    let mut list: Vec<IpAddr> = match scope {
        Scope::V4(list) => list.iter().copied().map(IpAddr::V4).collect(),
        Scope::V6(list) => list.iter().copied().map(IpAddr::V6).collect(),
    };
    list.sort_unstable();
    list.dedup();
    list
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// RESV MESSAGE ARRIVES. The outgoing interface is the one whose handle its RSVP_HOP returns,
    /// whichever interface the message arrived on.
    pub(super) fn resv_arrives(&mut self, now: Instant, resv: &Resv, forwarded: &[Opaque]) {
        let nhop = NextHop::Remote(resv.hop);
        if self.settings.is_own(resv.hop.address) {
            return;
        }
        let state = self.state(SessionKey::from(&resv.session));
        if !state.is_some_and(|state| state.any_reaches(&None, &nhop)) {
            let error = ErrorCode::new(code::NO_PATH, 0);
            self.reject_resv(resv, resv.descriptors.clone(), error, false);
            return;
        }
        match &resv.descriptors {
            Descriptors::Fixed(list) => {
                for (flowspec, sender) in list {
                    self.resv_descriptor(now, resv, forwarded, flowspec, vec![Some(*sender)]);
                }
            }
            Descriptors::SharedExplicit(flowspec, senders) => {
                let filters = senders.iter().copied().map(Some).collect();
                self.resv_descriptor(now, resv, forwarded, flowspec, filters);
            }
            Descriptors::Wildcard(flowspec) => {
                self.resv_descriptor(now, resv, forwarded, flowspec, vec![None]);
            }
            // Was answered with a ResvErr.
            Descriptors::Unknown(..) => {}
        }
    }

    /// Processes one flow descriptor of a Resv.
    fn resv_descriptor(
        &mut self,
        now: Instant,
        resv: &Resv,
        forwarded: &[Opaque],
        flowspec: &Content<Flowspec>,
        filters: Vec<FilterSpec>,
    ) {
        let key = SessionKey::from(&resv.session);
        let nhop = NextHop::Remote(resv.hop);
        // Contents that could not be decoded were answered with a ResvErr.
        let (Some(flowspec), Some(state)) = (flowspec.known().copied(), self.state(key)) else {
            return;
        };
        let matches = |filter: &FilterSpec| filter.is_none_or(|sender| state.reaches(&sender, &nhop));
        let (filters, missing): (Vec<_>, Vec<_>) = filters.into_iter().partition(matches);
        let style = resv.descriptors.style();
        if !missing.is_empty() {
            let list: Vec<_> = missing.into_iter().map(|filter| (filter, flowspec)).collect();
            let error = ErrorCode::new(code::NO_SENDER, 0);
            self.reject_resv(resv, flow_descriptors(style, &list), error, false);
        }
        if filters.is_empty() {
            return;
        }
        let descriptor = FlowDescriptor {
            nhop,
            style,
            flowspec,
            filters,
            scope: resv.scope.as_ref().map(addresses),
            policy: &resv.policy,
            forwarded,
            expires: now + self.settings.lifetime(resv.refresh),
            confirm: resv.confirm.map(ConfirmTo::Receiver),
        };
        if let Err(Rejected { error, in_place }) = self.process_flow_descriptor(now, key, &descriptor) {
            self.reject_resv(resv, descriptor.descriptors(), error, in_place);
        }
    }

    /// RTEAR MESSAGE ARRIVES.
    pub(super) fn resv_tear_arrives(&mut self, now: Instant, tear: &ResvTear) {
        let (key, nhop) = (SessionKey::from(&tear.session), NextHop::Remote(tear.hop));
        let rsb = self.state(key).and_then(|state| state.rsbs.get(&nhop));
        if rsb.is_none_or(|rsb| rsb.style != tear.descriptors.style()) {
            return;
        }
        let some = |senders: &mut dyn Iterator<Item = SenderTemplate>| senders.map(Some).collect();
        let filters: Vec<FilterSpec> = match &tear.descriptors {
            Descriptors::Wildcard(()) => vec![None],
            Descriptors::Fixed(list) => some(&mut list.iter().map(|((), sender)| *sender)),
            Descriptors::SharedExplicit((), list) => some(&mut list.iter().copied()),
            Descriptors::Unknown(..) => return,
        };
        self.remove_rsb_entries(now, key, nhop, &filters);
    }

    /// Deletes a next hop's entries for these filter specs, and all that follows from them.
    fn remove_rsb_entries(&mut self, now: Instant, key: SessionKey, nhop: NextHop, filters: &[FilterSpec]) {
        let mut removed = Vec::new();
        for filter in filters {
            if self.remove_rsb_entry(key, nhop, *filter) {
                removed.push(*filter);
            }
        }
        let affected = match removed.as_slice() {
            [] => return,
            [Some(sender)] => Affected::Sender(*sender),
            _ => Affected::All,
        };
        self.reconcile(now, key, affected, ResvOptions::default());
    }

    /// A lifetime in an RSB runs out.
    pub(super) fn rsb_timeout(&mut self, now: Instant, key: SessionKey, nhop: NextHop) {
        let rsb = self.state_mut(key).and_then(|state| state.rsbs.get_mut(&nhop));
        let Some(rsb) = rsb else {
            return;
        };
        rsb.armed = Instant::NEVER;
        let entries = rsb.entries.iter();
        let expired: Vec<FilterSpec> = entries
            .filter(|(_, entry)| entry.expires <= now)
            .map(|(filter, _)| *filter)
            .collect();
        self.remove_rsb_entries(now, key, nhop, &expired);
        let state = self.sessions.0.get_mut(&key);
        if let Some(rsb) = state.and_then(|state| state.rsbs.get_mut(&nhop)) {
            let due = rsb.due();
            self.timers.arm(key, Timer::Rsb(nhop), &mut rsb.armed, due);
        }
    }
}
