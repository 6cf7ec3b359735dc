//! RESV REFRESH: the reservation requests sent to the previous hops (RFC 2205, sections 3.4 and
//! 3.5; RFC 2209, section 2).

use super::Node;
use super::merge::merge_unblockaded;
use super::neighbour::PreviousHop;
use super::reconcile::{ConfirmTo, ResvOptions};
use super::state::{FilterSpec, RefreshTimer, SentResv, SessionKey, SessionState};
use super::timers::Timer;
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{
    Content, Descriptors, Flowspec, Hop, Message, Opaque, Resv, ResvTear, Scope, SenderTemplate, Style,
};
use core::net::IpAddr;
use engine::units::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// FF flow descriptors in one message, and SE filter specs: they fit the 1500 bytes of Ethernet.
const FIXED_PER_MESSAGE: usize = 16;
const SHARED_PER_MESSAGE: usize = 48;

/// The Resv state that a previous hop should have been sent.
#[derive(Default)]
struct WantedResv {
    flowspecs: BTreeMap<FilterSpec, Flowspec>,
    scope: Option<Vec<IpAddr>>,
}

impl SessionState {
    /// The Resv state that this previous hop should have been sent.
    fn wanted_resv(&self, phop: PreviousHop) -> WantedResv {
        match self.style() {
            Some(Style::Fixed) => {
                let senders = self.psbs.iter().filter(|(_, psb)| psb.phop == Some(phop));
                let flowspecs =
                    senders.filter_map(|(sender, _)| Some((Some(*sender), self.wanted_fixed(phop, sender)?)));
                WantedResv {
                    flowspecs: flowspecs.collect(),
                    scope: None,
                }
            }
            Some(_) => self.wanted_shared(phop),
            None => WantedResv::default(),
        }
    }

    /// In style FF, for one of its senders.
    fn wanted_fixed(&self, phop: PreviousHop, sender: &SenderTemplate) -> Option<Flowspec> {
        let requests = self.requests_for(sender)?;
        match self.bsbs.get(&(phop, Some(*sender))) {
            Some(bsb) => merge_unblockaded(&[bsb.flowspec], &requests),
            None => self.merge_forwarded(Some(*sender), &requests),
        }
    }

    /// In the styles SE and WF, for all of its senders.
    fn wanted_shared(&self, phop: PreviousHop) -> WantedResv {
        let mut requests = Vec::new();
        let mut senders: BTreeSet<SenderTemplate> = BTreeSet::new();
        let mut scoped = false;
        for (nhop, rsb) in &self.rsbs {
            scoped |= rsb.scope.is_some();
            let served: Vec<_> = self
                .served(nhop, rsb)
                .filter(|sender| self.psbs[sender].phop == Some(phop) && rsb.in_scope(sender))
                .collect();
            if let Some(entry) = served.first().and_then(|sender| rsb.entry(sender)) {
                requests.push((*nhop, entry.flowspec));
                senders.extend(served);
            }
        }
        let filters: Vec<FilterSpec> = match self.style() {
            Some(Style::Wildcard) => vec![None],
            _ => senders.iter().copied().map(Some).collect(),
        };
        let bsbs = filters
            .iter()
            .filter_map(|filter| self.bsbs.get(&(phop, *filter)));
        let failed: Vec<Flowspec> = bsbs.map(|bsb| bsb.flowspec).collect();
        let merged = if failed.is_empty() {
            self.merge_forwarded(None, &requests)
        } else {
            merge_unblockaded(&failed, &requests)
        };
        let Some(flowspec) = merged else {
            return WantedResv::default();
        };
        // With a single previous hop there can be no loop (RFC 2205, section 3.4).
        let wildcard = self.style() == Some(Style::Wildcard);
        let scoped = wildcard && (scoped || self.all_phops().len() > 1);
        let addresses: BTreeSet<IpAddr> = senders.iter().map(SenderTemplate::address).collect();
        WantedResv {
            flowspecs: filters.into_iter().map(|filter| (filter, flowspec)).collect(),
            scope: scoped.then(|| addresses.into_iter().collect()),
        }
    }

    /// Whether a local receiver awaits the confirmation of any of these.
    fn awaits_confirmation(&self, list: &[(FilterSpec, Flowspec)]) -> bool {
        let mut rsbs = self.rsbs.values();
        rsbs.any(|rsb| list.iter().any(|(filter, _)| rsb.unconfirmed.contains(filter)))
    }

    /// POLICY_DATA and forwarded objects of the requests for this previous hop, each once.
    fn carried_objects(&self, phop: PreviousHop) -> (Vec<Opaque>, Vec<Opaque>) {
        let (mut policy, mut forwarded) = (Vec::new(), Vec::new());
        for (nhop, rsb) in &self.rsbs {
            if rsb.policy.is_empty() && rsb.forwarded.is_empty() {
                continue;
            }
            let mut served = self.served(nhop, rsb);
            if served.any(|sender| self.psbs[sender].phop == Some(phop)) {
                union(&mut policy, &rsb.policy);
                union(&mut forwarded, &rsb.forwarded);
            }
        }
        (policy, forwarded)
    }

    /// Whether a previous hop still has path state for a sender that the filter spec matches.
    fn phop_has_path(&self, phop: PreviousHop, filter: &FilterSpec) -> bool {
        match filter {
            Some(sender) => {
                let psb = self.psbs.get(sender);
                psb.is_some_and(|psb| psb.phop == Some(phop))
            }
            None => self.has_phop(phop),
        }
    }
}

fn union(all: &mut Vec<Opaque>, more: &[Opaque]) {
    for object in more {
        if !all.contains(object) {
            all.push(object.clone());
        }
    }
}

/// A SCOPE object.
pub(super) fn scope_of(addresses: &[IpAddr]) -> Scope {
    let v4: Vec<_> = addresses
        .iter()
        .filter_map(|address| match address {
            IpAddr::V4(v4) => Some(*v4),
            IpAddr::V6(_) => None,
        })
        .collect();
    if !v4.is_empty() {
        return Scope::V4(v4);
    }
    let v6 = addresses.iter().filter_map(|address| match address {
        IpAddr::V6(v6) => Some(*v6),
        IpAddr::V4(_) => None,
    });
    Scope::V6(v6.collect())
}

/// Flow descriptors as messages carry them.
pub(super) fn flow_descriptors(
    style: Style,
    list: &[(FilterSpec, Flowspec)],
) -> Descriptors<Content<Flowspec>> {
    let known = |flowspec: &Flowspec| Content::Known(*flowspec);
    let senders = list.iter().filter_map(|(filter, _)| *filter);
    match (style, list) {
        (Style::SharedExplicit, [(_, flowspec), ..]) => {
            Descriptors::SharedExplicit(known(flowspec), senders.collect())
        }
        (Style::Wildcard, [(_, flowspec), ..]) => Descriptors::Wildcard(known(flowspec)),
        _ => {
            let each = list
                .iter()
                .filter_map(|(filter, flowspec)| Some((known(flowspec), (*filter)?)));
            Descriptors::Fixed(each.collect())
        }
    }
}

/// Filter specs as a ResvTear carries them.
fn torn_descriptors(style: Style, filters: &[FilterSpec]) -> Descriptors<()> {
    let senders = filters.iter().filter_map(|filter| *filter);
    match style {
        Style::Wildcard => Descriptors::Wildcard(()),
        Style::SharedExplicit => Descriptors::SharedExplicit((), senders.collect()),
        _ => Descriptors::Fixed(senders.map(|sender| ((), sender)).collect()),
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Sends each previous hop, or that of one sender, the requests that it lacks, and tears down
    /// those that are no longer wanted. Returns whether any Resv was sent.
    pub(super) fn reconcile_resvs(
        &mut self,
        now: Instant,
        key: SessionKey,
        only: Option<SenderTemplate>,
        options: ResvOptions,
    ) -> bool {
        let Some(state) = self.state(key) else {
            return false;
        };
        if let Some(sender) = only {
            let Some(phop) = state.psbs.get(&sender).and_then(|psb| psb.phop) else {
                return false;
            };
            let flowspec = state.wanted_fixed(phop, &sender);
            let flowspecs = flowspec.map(|flowspec| (Some(sender), flowspec));
            let wanted = WantedResv {
                flowspecs: flowspecs.into_iter().collect(),
                scope: None,
            };
            return self.reconcile_resv(now, (key, phop), &wanted, only, options);
        }
        let mut phops = state.all_phops();
        phops.extend(state.sent_resvs.keys());
        let mut resv_sent = false;
        for phop in phops {
            let Some(state) = self.state(key) else {
                return resv_sent;
            };
            let wanted = state.wanted_resv(phop);
            resv_sent |= self.reconcile_resv(now, (key, phop), &wanted, None, options);
        }
        resv_sent
    }

    /// The same for one previous hop, in all or for one of its senders.
    fn reconcile_resv(
        &mut self,
        now: Instant,
        (key, phop): (SessionKey, PreviousHop),
        wanted: &WantedResv,
        only: Option<SenderTemplate>,
        options: ResvOptions,
    ) -> bool {
        let Some(state) = self.state(key) else {
            return false;
        };
        let style = state.style().unwrap_or(Style::Fixed);
        let mut ended = Vec::new();
        let mut changed: Vec<(FilterSpec, Flowspec)> =
            wanted.flowspecs.iter().map(|(f, q)| (*f, *q)).collect();
        let mut force = options.force;
        let mut old_style = style;
        if let Some(sent) = state.sent_resvs.get(&phop) {
            old_style = sent.style;
            let kept = |filter: &FilterSpec| style == sent.style && wanted.flowspecs.contains_key(filter);
            let affected = |filter: &&FilterSpec| only.is_none() || **filter == only;
            ended = sent
                .flowspecs
                .keys()
                .filter(affected)
                .filter(|f| !kept(f))
                .copied()
                .collect();
            let was_sent = |(filter, flowspec): &(FilterSpec, Flowspec)| {
                style == sent.style && sent.flowspecs.get(filter) == Some(flowspec)
            };
            // The filter specs of a shared reservation go out together.
            force |= sent.scope != wanted.scope;
            force |= style != Style::Fixed && !changed.iter().all(was_sent);
            changed.retain(|one| force || !was_sent(one));
        }
        self.send_resv_tear(key, phop, old_style, &ended);
        if changed.is_empty() {
            return false;
        }
        self.record_sent(key, phop, style, wanted, &changed);
        let whole = only.is_none() && changed.len() == wanted.flowspecs.len();
        self.send_resv(now, (key, phop), &changed, whole, options.confirm);
        true
    }

    /// Records what a previous hop is being sent.
    fn record_sent(
        &mut self,
        key: SessionKey,
        phop: PreviousHop,
        style: Style,
        wanted: &WantedResv,
        changed: &[(FilterSpec, Flowspec)],
    ) {
        let Some(state) = self.state_mut(key) else {
            return;
        };
        let sent = state.sent_resvs.entry(phop).or_insert_with(|| {
            Box::new(SentResv {
                style,
                flowspecs: BTreeMap::new(),
                scope: None,
                refresh: RefreshTimer::NONE,
                armed: Instant::NEVER,
            })
        });
        sent.style = style;
        sent.scope.clone_from(&wanted.scope);
        sent.flowspecs.extend(changed.iter().copied());
    }

    /// Sends Resv messages to a previous hop: the whole state, which restarts the refresh timer, or
    /// a part, which does not.
    fn send_resv(
        &mut self,
        now: Instant,
        (key, phop): (SessionKey, PreviousHop),
        list: &[(FilterSpec, Flowspec)],
        whole: bool,
        confirm: Option<ConfirmTo>,
    ) {
        let PreviousHop { hop, interface } = phop;
        let Some(sent) = self.state(key).and_then(|state| state.sent_resvs.get(&phop)) else {
            return;
        };
        let (style, last, first) = (sent.style, sent.refresh.period, sent.refresh.period.is_none());
        let next = self.next_refresh(now, interface, last);
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let (policy, forwarded) = state.carried_objects(phop);
        // Requested with every refresh until it arrives: the Resv or the ResvConf may have been
        // lost.
        let confirm = confirm.or_else(|| state.awaits_confirmation(list).then_some(ConfirmTo::Local));
        let Some(sent) = state.sent_resvs.get_mut(&phop) else {
            return;
        };
        let scope = sent.scope.as_ref().map(|addresses| scope_of(addresses));
        let refresh = next.period.unwrap_or(self.settings.refresh(interface));
        if whole || first {
            sent.refresh = next;
            self.timers
                .arm(key, Timer::ResvRefresh(phop), &mut sent.armed, sent.refresh.at);
        }
        let Some(address) = self.settings.address(interface, hop.address) else {
            return;
        };
        let confirm = confirm.map(|confirm| match confirm {
            ConfirmTo::Local => address,
            ConfirmTo::Receiver(receiver) => receiver,
        });
        let per_message = match style {
            Style::Fixed => FIXED_PER_MESSAGE,
            _ => SHARED_PER_MESSAGE,
        };
        for some in list.chunks(per_message) {
            let message = Message::Resv(Resv {
                session: key.session(),
                hop: Hop {
                    address,
                    lih: hop.lih,
                },
                refresh,
                confirm,
                scope: scope.clone(),
                policy: policy.clone(),
                descriptors: flow_descriptors(style, some),
            });
            self.send_to_neighbour(interface, hop.address, message, forwarded.clone());
        }
    }

    /// Tears down requests at a previous hop. Those for senders that it has torn down itself need
    /// no message.
    fn send_resv_tear(&mut self, key: SessionKey, phop: PreviousHop, style: Style, ended: &[FilterSpec]) {
        let PreviousHop { hop, interface } = phop;
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let Some(sent) = state.sent_resvs.get_mut(&phop) else {
            return;
        };
        for filter in ended {
            sent.flowspecs.remove(filter);
        }
        if sent.flowspecs.is_empty() {
            self.timers.disarm(key, Timer::ResvRefresh(phop), sent.armed);
            state.sent_resvs.remove(&phop);
        }
        let torn: Vec<FilterSpec> = ended
            .iter()
            .copied()
            .filter(|filter| state.phop_has_path(phop, filter))
            .collect();
        let Some(address) = self.settings.address(interface, hop.address) else {
            return;
        };
        for some in torn.chunks(SHARED_PER_MESSAGE) {
            let message = Message::ResvTear(ResvTear {
                session: key.session(),
                hop: Hop {
                    address,
                    lih: hop.lih,
                },
                // Has no meaning in a ResvTear (RFC 2205, section 3.1.6).
                scope: None,
                descriptors: torn_descriptors(style, some),
            });
            self.send_to_neighbour(interface, hop.address, message, Vec::new());
        }
    }

    /// Forgets the request sent for a sender that no longer comes through this previous hop, which
    /// knows that itself.
    pub(super) fn forget_sent_resv(&mut self, key: SessionKey, phop: PreviousHop, sender: &SenderTemplate) {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let has_phop = state.has_phop(phop);
        let Some(sent) = state.sent_resvs.get_mut(&phop) else {
            return;
        };
        sent.flowspecs.remove(&Some(*sender));
        if sent.flowspecs.is_empty() || !has_phop {
            self.timers.disarm(key, Timer::ResvRefresh(phop), sent.armed);
            state.sent_resvs.remove(&phop);
        }
    }

    /// The refresh timer of a previous hop's Resv state runs out.
    pub(super) fn resv_refresh_timeout(&mut self, now: Instant, key: SessionKey, phop: PreviousHop) {
        let Some(sent) = self
            .state_mut(key)
            .and_then(|state| state.sent_resvs.get_mut(&phop))
        else {
            return;
        };
        sent.armed = Instant::NEVER;
        if sent.refresh.at > now {
            self.arm_resv_refresh(key, phop);
            return;
        }
        let list: Vec<_> = sent
            .flowspecs
            .iter()
            .map(|(filter, flowspec)| (*filter, *flowspec))
            .collect();
        self.send_resv(now, (key, phop), &list, true, None);
    }

    pub(super) fn arm_resv_refresh(&mut self, key: SessionKey, phop: PreviousHop) {
        let state = self.sessions.0.get_mut(&key);
        if let Some(sent) = state.and_then(|state| state.sent_resvs.get_mut(&phop)) {
            self.timers
                .arm(key, Timer::ResvRefresh(phop), &mut sent.armed, sent.refresh.at);
        }
    }
}
