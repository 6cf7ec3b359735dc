//! Resv and ResvTear (RFC 2205, sections 3.1.4 and 3.1.6; RFC 2209, section 2).

use super::ask::{Ask, NotTaken};
use super::settle::{Confirm, Push, Touched};
use super::state::{Filter, Key};
use super::status::Asker;
use super::{Node, lifetime};
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{Content, Descriptors, Flowspec, Opaque, Resv, ResvTear, Scope, Sender, code};
use core::net::IpAddr;
use engine::units::Instant;

/// The addresses of a scope, in order and each once.
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
    /// A Resv came. Its interface is the one that its hop object names, whichever it came by.
    pub(super) fn resv(&mut self, now: Instant, resv: &Resv, forwarded: &[Opaque]) {
        let asker = Asker::Next(resv.hop);
        if self.settings.is_own(resv.hop.address) {
            return;
        }
        let state = self.state(Key::from(&resv.session));
        if !state.is_some_and(|state| state.paths.values().any(|path| path.reaches(&asker))) {
            self.refuse_resv(resv, resv.descriptors.clone(), (code::NO_PATH, 0), false);
            return;
        }
        match &resv.descriptors {
            Descriptors::Fixed(list) => {
                for (flowspec, sender) in list {
                    self.resv_for(now, resv, forwarded, flowspec, vec![Some(*sender)]);
                }
            }
            Descriptors::SharedExplicit(flowspec, senders) => {
                let filters = senders.iter().copied().map(Some).collect();
                self.resv_for(now, resv, forwarded, flowspec, filters);
            }
            Descriptors::Wildcard(flowspec) => self.resv_for(now, resv, forwarded, flowspec, vec![None]),
            // Has been objected to.
            Descriptors::Unknown(..) => {}
        }
    }

    /// One flow descriptor of a Resv.
    fn resv_for(
        &mut self,
        now: Instant,
        resv: &Resv,
        forwarded: &[Opaque],
        flowspec: &Content<Flowspec>,
        filters: Vec<Filter>,
    ) {
        let key = Key::from(&resv.session);
        let asker = Asker::Next(resv.hop);
        // Unknown contents have been objected to.
        let (Some(flowspec), Some(state)) = (flowspec.known().copied(), self.state(key)) else {
            return;
        };
        let there = |filter: &Filter| filter.is_none_or(|sender| state.reaches(&sender, &asker));
        let (filters, missing): (Vec<_>, Vec<_>) = filters.into_iter().partition(there);
        let style = resv.descriptors.style();
        if !missing.is_empty() {
            let specs: Vec<_> = missing.into_iter().map(|filter| (filter, flowspec)).collect();
            let descriptors = super::refresh::descriptors(style, &specs);
            self.refuse_resv(resv, descriptors, (code::NO_SENDER, 0), false);
        }
        if filters.is_empty() {
            return;
        }
        let ask = Ask {
            asker,
            style,
            flowspec,
            filters,
            scope: resv.scope.as_ref().map(addresses),
            policy: &resv.policy,
            forwarded,
            expires: now + lifetime(resv.refresh.period()),
            confirm: resv.confirm.map(Confirm::At),
        };
        if let Err(NotTaken {
            code,
            value,
            in_place,
        }) = self.take(now, key, &ask)
        {
            self.refuse_resv(resv, ask.descriptors(), (code, value), in_place);
        }
    }

    /// A ResvTear came.
    pub(super) fn resv_tear(&mut self, now: Instant, tear: &ResvTear) {
        let (key, asker) = (Key::from(&tear.session), Asker::Next(tear.hop));
        let asked = self.state(key).and_then(|state| state.asked.get(&asker));
        if asked.is_none_or(|asked| asked.style != tear.descriptors.style()) {
            return;
        }
        let some = |senders: &mut dyn Iterator<Item = Sender>| senders.map(Some).collect();
        let filters: Vec<Filter> = match &tear.descriptors {
            Descriptors::Wildcard(()) => vec![None],
            Descriptors::Fixed(list) => some(&mut list.iter().map(|((), sender)| *sender)),
            Descriptors::SharedExplicit((), list) => some(&mut list.iter().copied()),
            Descriptors::Unknown(..) => return,
        };
        self.end_requests(now, key, asker, &filters);
    }

    /// What one asks for these filters ends.
    fn end_requests(&mut self, now: Instant, key: Key, asker: Asker, filters: &[Filter]) {
        let mut ended = Vec::new();
        for filter in filters {
            if self.drop_spec(key, asker, *filter) {
                ended.push(*filter);
            }
        }
        match ended.as_slice() {
            [] => {}
            [Some(sender)] => {
                self.settle(now, key, Touched::Sender(*sender), Push::default());
            }
            _ => {
                self.settle(now, key, Touched::All, Push::default());
            }
        }
    }

    /// What was asked may not have been repeated for too long.
    pub(super) fn asked_timeout(&mut self, now: Instant, key: Key, asker: Asker) {
        let asked = self.state_mut(key).and_then(|state| state.asked.get_mut(&asker));
        let Some(asked) = asked else {
            return;
        };
        asked.armed = Instant::NEVER;
        let specs = asked.specs.iter();
        let old: Vec<Filter> = specs
            .filter(|(_, spec)| spec.expires <= now)
            .map(|(filter, _)| *filter)
            .collect();
        self.end_requests(now, key, asker, &old);
        let state = self.sessions.0.get_mut(&key);
        if let Some(asked) = state.and_then(|state| state.asked.get_mut(&asker)) {
            let due = asked.due();
            self.agenda
                .arm(key, super::Block::Request(asker), &mut asked.armed, due);
        }
    }
}
