//! One flow descriptor of a reservation request: checked for conflicts, installed in the RSB,
//! admitted by traffic control; or rejected, with the state as it was.

use super::limits::rsb_places;
use super::neighbour::NextHop;
use super::reconcile::{Affected, ConfirmTo, ResvOptions};
use super::resv_refresh::flow_descriptors;
use super::state::{FilterSpec, Rsb, RsbEntry, SessionKey, SessionState};
use super::timers::Timer;
use super::{Event, Node};
use crate::traffic_control::{AdmissionFailure, Routing, TrafficControl};
use crate::wire::{Content, Descriptors, ErrorCode, Flowspec, Opaque, Style, code, value};
use core::net::IpAddr;
use engine::units::Instant;

/// One flow descriptor, with the objects of its message that apply to it.
pub(super) struct FlowDescriptor<'a> {
    pub nhop: NextHop,
    pub style: Style,
    pub flowspec: Flowspec,
    pub filters: Vec<FilterSpec>,
    pub scope: Option<Vec<IpAddr>>,
    pub policy: &'a [Opaque],
    pub forwarded: &'a [Opaque],
    pub expires: Instant,
    pub confirm: Option<ConfirmTo>,
}

impl FlowDescriptor<'_> {
    /// As messages carry it.
    pub fn descriptors(&self) -> Descriptors<Content<Flowspec>> {
        let list: Vec<_> = self
            .filters
            .iter()
            .map(|filter| (*filter, self.flowspec))
            .collect();
        flow_descriptors(self.style, &list)
    }

    /// The places of an RSB with this many entries and the objects of this one.
    fn places(&self, entries: usize) -> usize {
        let scope = self.scope.as_ref().map_or(0, Vec::len);
        rsb_places(entries, scope, &[self.policy, self.forwarded])
    }

    fn known(&self) -> Descriptors<Flowspec> {
        let senders = self.filters.iter().filter_map(|filter| *filter);
        match self.style {
            Style::Wildcard => Descriptors::Wildcard(self.flowspec),
            Style::SharedExplicit => Descriptors::SharedExplicit(self.flowspec, senders.collect()),
            _ => Descriptors::Fixed(senders.map(|sender| (self.flowspec, sender)).collect()),
        }
    }
}

/// Why a flow descriptor is rejected.
pub(super) struct Rejected {
    pub error: ErrorCode,
    /// InPlace: an earlier reservation stays in force.
    pub in_place: bool,
}

impl SessionState {
    /// The conflict of style or service with reservations of other next hops, if there is one.
    fn conflict(&self, descriptor: &FlowDescriptor<'_>) -> Option<ErrorCode> {
        if let Some(style) = self.style().filter(|style| *style != descriptor.style) {
            // The value is the low half of the option vector in place (RFC 2205, appendix B).
            let [.., high, low] = style.options().to_be_bytes();
            let value = u16::from_be_bytes([high, low]);
            return Some(ErrorCode::new(code::CONFLICTING_STYLE, value));
        }
        let guaranteed = |flowspec: &Flowspec| matches!(flowspec, Flowspec::Guaranteed { .. });
        let others = self.rsbs.iter().filter(|(nhop, _)| **nhop != descriptor.nhop);
        let mut same_traffic = others.flat_map(|(_, rsb)| {
            let entries = rsb.entries.iter();
            entries
                .filter(|(filter, _)| descriptor.style != Style::Fixed || descriptor.filters.contains(filter))
        });
        let differs = |entry: &RsbEntry| guaranteed(&entry.flowspec) != guaranteed(&descriptor.flowspec);
        same_traffic
            .any(|(_, entry)| differs(entry))
            .then_some(ErrorCode::new(code::TRAFFIC_CONTROL, value::SERVICE_CONFLICT))
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    pub(super) fn conflict(&self, key: SessionKey, descriptor: &FlowDescriptor<'_>) -> Option<ErrorCode> {
        self.state(key).and_then(|state| state.conflict(descriptor))
    }

    /// Installs a flow descriptor in the RSB of its next hop, has traffic control admit it, and
    /// forwards it to the previous hops.
    pub(super) fn process_flow_descriptor(
        &mut self,
        now: Instant,
        key: SessionKey,
        descriptor: &FlowDescriptor<'_>,
    ) -> Result<(), Rejected> {
        if self.is_refresh(key, descriptor) {
            self.restart_lifetimes(key, descriptor);
            self.confirm_here(key, descriptor);
            return Ok(());
        }
        let rsb = self.state(key).and_then(|state| state.rsbs.get(&descriptor.nhop));
        // An RSB of the same next hop in another style, whose ResvTear was lost, times out by
        // itself.
        let rsb = rsb.filter(|rsb| rsb.style == descriptor.style);
        let has = |filter: &FilterSpec| rsb.is_some_and(|rsb| rsb.entries.contains_key(filter));
        let in_place = descriptor.filters.iter().any(&has);
        let more = descriptor.filters.iter().filter(|filter| !has(filter)).count();
        let reject = |error| Rejected { error, in_place };
        if let Some(conflict) = self.conflict(key, descriptor) {
            self.restart_lifetimes(key, descriptor);
            return Err(reject(conflict));
        }
        let before = rsb.map_or(0, |rsb| rsb.places());
        let entries = rsb.map_or(0, |rsb| rsb.entries.len());
        let after = descriptor.places(entries + more);
        if self.exceeds_session(key, descriptor)
            || !self.admit_rsb(descriptor.nhop, after.saturating_sub(before))
        {
            self.restart_lifetimes(key, descriptor);
            return Err(reject(ErrorCode::new(code::SYSTEM, 0)));
        }
        let rsb = self.state(key).and_then(|state| state.rsbs.get(&descriptor.nhop));
        let rsb = rsb.filter(|rsb| rsb.style == descriptor.style);
        let force =
            rsb.is_some_and(|rsb| rsb.policy != descriptor.policy || rsb.forwarded != descriptor.forwarded);
        let saved = self.install(key, descriptor);
        if let Err(failure) = self.admit(key, descriptor) {
            self.roll_back(key, descriptor, saved);
            self.restart_lifetimes(key, descriptor);
            self.report_admission_failure(key, descriptor, failure);
            return Err(reject(failure.error));
        }
        let affected = match descriptor.filters.as_slice() {
            [Some(sender)] => Affected::Sender(*sender),
            _ => Affected::All,
        };
        let confirm = descriptor.confirm;
        if !self.reconcile(now, key, affected, ResvOptions { confirm, force }) {
            self.confirm_here(key, descriptor);
        }
        Ok(())
    }

    /// Whether a session has too many next hops for one more, or too many senders for a shared
    /// reservation.
    fn exceeds_session(&self, key: SessionKey, descriptor: &FlowDescriptor<'_>) -> bool {
        self.state(key).is_some_and(|state| {
            let is_new = !state.rsbs.contains_key(&descriptor.nhop);
            let is_shared = descriptor.style != Style::Fixed;
            (is_new && state.rsbs.len() >= self.settings.max_next_hops)
                || (is_new && is_shared && state.psbs.len() > self.settings.max_shared_senders)
        })
    }

    /// Whether a flow descriptor only refreshes what the RSB holds.
    fn is_refresh(&self, key: SessionKey, descriptor: &FlowDescriptor<'_>) -> bool {
        let rsb = self.state(key).and_then(|state| state.rsbs.get(&descriptor.nhop));
        rsb.is_some_and(|rsb| {
            let same = |filter| {
                let entry = rsb.entries.get(filter);
                entry.is_some_and(|entry| entry.flowspec == descriptor.flowspec)
            };
            rsb.style == descriptor.style
                && descriptor.filters.iter().all(same)
                && rsb.scope == descriptor.scope
                && rsb.policy == descriptor.policy
                && rsb.forwarded == descriptor.forwarded
        })
    }

    /// Restarts the lifetimes of the entries that a flow descriptor names; also when the change
    /// that it asks for was rejected, since its next hop is alive.
    fn restart_lifetimes(&mut self, key: SessionKey, descriptor: &FlowDescriptor<'_>) {
        let state = self.sessions.0.get_mut(&key);
        let rsb = state.and_then(|state| state.rsbs.get_mut(&descriptor.nhop));
        let Some(rsb) = rsb.filter(|rsb| rsb.style == descriptor.style) else {
            return;
        };
        for filter in &descriptor.filters {
            if let Some(entry) = rsb.entries.get_mut(filter) {
                entry.expires = descriptor.expires;
            }
        }
        let due = rsb.due();
        self.timers
            .arm(key, Timer::Rsb(descriptor.nhop), &mut rsb.armed, due);
    }

    /// Writes a flow descriptor into its RSB; returns the RSB as it was.
    fn install(&mut self, key: SessionKey, descriptor: &FlowDescriptor<'_>) -> Option<Box<Rsb>> {
        let state = self.sessions.0.entry(key).or_default();
        let saved = state.rsbs.get(&descriptor.nhop).cloned();
        let before = saved.as_ref().map_or(0, |saved| saved.places());
        let rsb = state
            .rsbs
            .entry(descriptor.nhop)
            .or_insert_with(|| Box::new(Rsb::new(descriptor.style)));
        let count = rsb.entries.len();
        if descriptor.style != Style::Fixed {
            for entry in rsb.entries.values_mut() {
                entry.flowspec = descriptor.flowspec;
            }
        }
        let entry = RsbEntry {
            flowspec: descriptor.flowspec,
            expires: descriptor.expires,
        };
        rsb.entries
            .extend(descriptor.filters.iter().map(|filter| (*filter, entry)));
        rsb.scope.clone_from(&descriptor.scope);
        rsb.policy = descriptor.policy.to_vec();
        rsb.forwarded = descriptor.forwarded.to_vec();
        if descriptor.confirm == Some(ConfirmTo::Local) {
            rsb.unconfirmed.extend(descriptor.filters.iter().copied());
        }
        let more = rsb.entries.len() - count;
        self.occupancy.rsb_changed(descriptor.nhop, before, rsb.places());
        self.reservations += more;
        if matches!(descriptor.nhop, NextHop::Local(_)) {
            self.local_reservations += more;
        }
        let due = rsb.due();
        self.timers
            .arm(key, Timer::Rsb(descriptor.nhop), &mut rsb.armed, due);
        saved
    }

    /// Restores the RSB after a refused admission.
    fn roll_back(&mut self, key: SessionKey, descriptor: &FlowDescriptor<'_>, saved: Option<Box<Rsb>>) {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let Some(failed) = state.rsbs.remove(&descriptor.nhop) else {
            return;
        };
        // Only the request of a neighbour can fail admission.
        self.reservations -= failed.entries.len();
        let places = saved.as_ref().map_or(0, |saved| saved.places());
        self.occupancy
            .rsb_changed(descriptor.nhop, failed.places(), places);
        let timer = Timer::Rsb(descriptor.nhop);
        self.timers.disarm(key, timer, failed.armed);
        if let Some(saved) = saved {
            self.reservations += saved.entries.len();
            let rsb = state.rsbs.entry(descriptor.nhop).or_insert(saved);
            rsb.armed = Instant::NEVER;
            let due = rsb.due();
            self.timers.arm(key, timer, &mut rsb.armed, due);
        }
    }

    /// Has traffic control admit a flow descriptor. Local delivery needs no admission.
    fn admit(&mut self, key: SessionKey, descriptor: &FlowDescriptor<'_>) -> Result<(), AdmissionFailure> {
        match (descriptor.nhop, descriptor.filters.as_slice()) {
            (NextHop::Local(_), _) => Ok(()),
            (NextHop::Remote(hop), [filter @ Some(_)]) if descriptor.style == Style::Fixed => {
                self.update_traffic_control(key, (hop.lih, *filter))
            }
            (NextHop::Remote(hop), _) => self.update_traffic_control(key, (hop.lih, None)),
        }
    }

    fn report_admission_failure(
        &mut self,
        key: SessionKey,
        descriptor: &FlowDescriptor<'_>,
        failure: AdmissionFailure,
    ) {
        if let NextHop::Remote(hop) = descriptor.nhop {
            self.events.push_back(Event::AdmissionFailed {
                session: key.session(),
                interface: hop.lih,
                nhop: hop.address,
                requested: descriptor.known(),
                failure,
            });
        }
    }

    /// Deletes one filter spec of an RSB; returns whether it was there.
    pub(super) fn remove_rsb_entry(&mut self, key: SessionKey, nhop: NextHop, filter: FilterSpec) -> bool {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return false;
        };
        let Some(rsb) = state.rsbs.get_mut(&nhop) else {
            return false;
        };
        let before = rsb.places();
        let removed = rsb.entries.remove(&filter).is_some();
        rsb.unconfirmed.remove(&filter);
        self.reservations -= usize::from(removed);
        if matches!(nhop, NextHop::Local(_)) {
            self.local_reservations -= usize::from(removed);
        }
        let after = if rsb.entries.is_empty() { 0 } else { rsb.places() };
        self.occupancy.rsb_changed(nhop, before, after);
        if rsb.entries.is_empty() {
            self.timers.disarm(key, Timer::Rsb(nhop), rsb.armed);
            state.rsbs.remove(&nhop);
        }
        removed
    }
}
