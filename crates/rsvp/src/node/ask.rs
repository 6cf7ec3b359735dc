//! A request is taken into the state, or leaves it as it was; and the calls of receivers on this host.

use super::agenda::Block;
use super::settle::{Confirm, Push, Touched};
use super::state::{Asked, Filter, Key, Spec, State};
use super::status::Asker;
use super::{CallError, Event, Node, Receiver};
use crate::traffic_control::{Refused, Routing, TrafficControl};
use crate::wire::{Content, Descriptors, Flowspec, Opaque, Sender, Session, Style, code, value};
use core::net::IpAddr;
use engine::units::Instant;
use std::collections::BTreeSet;

/// One request: one flow descriptor, with what else came along.
pub(super) struct Ask<'a> {
    pub asker: Asker,
    pub style: Style,
    pub flowspec: Flowspec,
    pub filters: Vec<Filter>,
    pub scope: Option<Vec<IpAddr>>,
    pub policy: &'a [Opaque],
    pub forwarded: &'a [Opaque],
    pub expires: Instant,
    pub confirm: Option<Confirm>,
}

impl Ask<'_> {
    pub fn descriptors(&self) -> Descriptors<Content<Flowspec>> {
        let specs: Vec<_> = self
            .filters
            .iter()
            .map(|filter| (*filter, self.flowspec))
            .collect();
        super::refresh::descriptors(self.style, &specs)
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

/// Why a request is not taken.
pub(super) struct NotTaken {
    pub code: u8,
    pub value: u16,
    /// What was in force before is so still.
    pub in_place: bool,
}

impl State {
    /// What stands in the way of a request, before traffic control is asked.
    fn objection(&self, ask: &Ask<'_>) -> Option<(u8, u16)> {
        let others = || self.asked.iter().filter(|(asker, _)| **asker != ask.asker);
        if let Some(style) = self.style().filter(|style| *style != ask.style) {
            // The value is the lower half of the style that is in place (RFC 2205, appendix B).
            let [.., high, low] = style.options().to_be_bytes();
            return Some((code::CONFLICTING_STYLE, u16::from_be_bytes([high, low])));
        }
        let guaranteed = |flowspec: &Flowspec| matches!(flowspec, Flowspec::Guaranteed { .. });
        let mut same_traffic = others().flat_map(|(_, asked)| {
            let specs = asked.specs.iter();
            specs.filter(|(filter, _)| ask.style != Style::Fixed || ask.filters.contains(filter))
        });
        let differs = |spec: &Spec| guaranteed(&spec.flowspec) != guaranteed(&ask.flowspec);
        same_traffic
            .any(|(_, spec)| differs(spec))
            .then_some((code::TRAFFIC_CONTROL, value::SERVICE_CONFLICT))
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Takes a request, has traffic control promise it, and asks the nodes before for it.
    pub(super) fn take(&mut self, now: Instant, key: Key, ask: &Ask<'_>) -> Result<(), NotTaken> {
        if self.is_refresh(key, ask) {
            self.prolong(key, ask);
            self.confirm_at_once(key, ask);
            return Ok(());
        }
        let known = self.state(key).and_then(|state| state.asked.get(&ask.asker));
        // Another style of one's own, whose end was lost on the way, is no part of this and dies in its time.
        let known = known.filter(|asked| asked.style == ask.style);
        let has = |filter: &Filter| known.is_some_and(|asked| asked.specs.contains_key(filter));
        let in_place = ask.filters.iter().any(&has);
        let more = ask.filters.iter().filter(|filter| !has(filter)).count();
        let refuse = |(code, value)| NotTaken {
            code,
            value,
            in_place,
        };
        if let Some(objection) = self.state(key).and_then(|state| state.objection(ask)) {
            self.prolong(key, ask);
            return Err(refuse(objection));
        }
        if self.requests + more > self.settings.most_reservations {
            self.prolong(key, ask);
            return Err(refuse((code::SYSTEM, 0)));
        }
        let always =
            known.is_some_and(|asked| asked.policy != ask.policy || asked.forwarded != ask.forwarded);
        let before = self.put(key, ask);
        if let Err(refused) = self.promise_for(key, ask) {
            self.put_back(key, ask, before);
            self.prolong(key, ask);
            self.tell_refused(key, ask, refused);
            return Err(refuse((refused.code, refused.value)));
        }
        let touched = match ask.filters.as_slice() {
            [Some(sender)] => Touched::Sender(*sender),
            _ => Touched::All,
        };
        let confirm = ask.confirm;
        if !self.settle(now, key, touched, Push { confirm, always }) {
            self.confirm_at_once(key, ask);
        }
        Ok(())
    }

    /// Whether a request says nothing new.
    fn is_refresh(&self, key: Key, ask: &Ask<'_>) -> bool {
        let known = self.state(key).and_then(|state| state.asked.get(&ask.asker));
        known.is_some_and(|asked| {
            let same = |filter| {
                asked
                    .specs
                    .get(filter)
                    .is_some_and(|spec| spec.flowspec == ask.flowspec)
            };
            asked.style == ask.style
                && ask.filters.iter().all(same)
                && asked.scope == ask.scope
                && asked.policy == ask.policy
                && asked.forwarded == ask.forwarded
        })
    }

    /// What is there of a request's filters lives on, also when more has been refused: its receiver is alive.
    fn prolong(&mut self, key: Key, ask: &Ask<'_>) {
        let state = self.sessions.0.get_mut(&key);
        let asked = state.and_then(|state| state.asked.get_mut(&ask.asker));
        let Some(asked) = asked.filter(|asked| asked.style == ask.style) else {
            return;
        };
        for filter in &ask.filters {
            if let Some(spec) = asked.specs.get_mut(filter) {
                spec.expires = ask.expires;
            }
        }
        let due = asked.due();
        self.agenda
            .arm(key, Block::Request(ask.asker), &mut asked.armed, due);
    }

    /// Puts a request into the state; returns what was there.
    fn put(&mut self, key: Key, ask: &Ask<'_>) -> Option<Box<Asked>> {
        let state = self.sessions.0.entry(key).or_default();
        let before = state.asked.get(&ask.asker).cloned();
        let asked = state
            .asked
            .entry(ask.asker)
            .or_insert_with(|| Box::new(Asked::new(ask.style)));
        let count = asked.specs.len();
        if ask.style != Style::Fixed {
            for spec in asked.specs.values_mut() {
                spec.flowspec = ask.flowspec;
            }
        }
        let spec = Spec {
            flowspec: ask.flowspec,
            expires: ask.expires,
        };
        asked
            .specs
            .extend(ask.filters.iter().map(|filter| (*filter, spec)));
        asked.scope.clone_from(&ask.scope);
        asked.policy = ask.policy.to_vec();
        asked.forwarded = ask.forwarded.to_vec();
        if ask.confirm == Some(Confirm::Here) {
            asked.unconfirmed.extend(ask.filters.iter().copied());
        }
        self.requests += asked.specs.len() - count;
        let due = asked.due();
        self.agenda
            .arm(key, Block::Request(ask.asker), &mut asked.armed, due);
        before
    }

    /// Takes it back.
    fn put_back(&mut self, key: Key, ask: &Ask<'_>, before: Option<Box<Asked>>) {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let Some(failed) = state.asked.remove(&ask.asker) else {
            return;
        };
        self.requests -= failed.specs.len();
        self.agenda.disarm(key, Block::Request(ask.asker), failed.armed);
        if let Some(before) = before {
            self.requests += before.specs.len();
            let asked = state.asked.entry(ask.asker).or_insert(before);
            asked.armed = Instant::NEVER;
            let due = asked.due();
            self.agenda
                .arm(key, Block::Request(ask.asker), &mut asked.armed, due);
        }
    }

    /// Only what leaves by an interface needs a promise.
    fn promise_for(&mut self, key: Key, ask: &Ask<'_>) -> Result<(), Refused> {
        match (ask.asker, ask.filters.as_slice()) {
            (Asker::Here(_), _) => Ok(()),
            (Asker::Next(hop), [filter @ Some(_)]) if ask.style == Style::Fixed => {
                self.promise(key, hop.interface, *filter)
            }
            (Asker::Next(hop), _) => self.promise(key, hop.interface, None),
        }
    }

    fn tell_refused(&mut self, key: Key, ask: &Ask<'_>, refused: Refused) {
        if let Asker::Next(hop) = ask.asker {
            self.events.push_back(Event::Refused {
                session: key.session(),
                interface: hop.interface,
                next: hop.address,
                wanted: ask.known(),
                refused,
            });
        }
    }

    /// A program on this host reserves for senders that it has heard of; again to have something else instead. The
    /// answer is an event: [`Event::Confirmed`] or [`Event::ReservationFailed`]. The request stays until
    /// [`Node::release`], also while its senders are not heard of.
    pub fn reserve(
        &mut self,
        now: Instant,
        receiver: Receiver,
        session: &Session,
        wanted: Descriptors<Flowspec>,
    ) -> Result<(), CallError> {
        let (key, asker) = (Key::from(session), Asker::Here(receiver));
        let style = wanted.style();
        let list: Vec<(Flowspec, Vec<Filter>)> = match wanted {
            Descriptors::Wildcard(flowspec) => vec![(flowspec, vec![None])],
            Descriptors::SharedExplicit(flowspec, senders) => {
                vec![(flowspec, senders.into_iter().map(Some).collect())]
            }
            Descriptors::Fixed(list) => list
                .into_iter()
                .map(|(flowspec, sender)| (flowspec, vec![Some(sender)]))
                .collect(),
            Descriptors::Unknown(..) => return Err(CallError::Style(style)),
        };
        let kept: BTreeSet<Filter> = list.iter().flat_map(|(_, filters)| filters.clone()).collect();
        let Some(state) = self.state(key) else {
            return Err(CallError::NoPath);
        };
        let heard = |sender: &Sender| state.reaches(sender, &asker);
        if !kept.iter().any(|filter| match filter {
            Some(sender) => heard(sender),
            None => state.paths.keys().any(heard),
        }) {
            return Err(CallError::NoPath);
        }
        // One's own style can be changed: the old requests end first.
        let alone = state.asked.keys().all(|other| *other == asker);
        match state.style().filter(|old| *old != style) {
            Some(_) if alone => self.release(now, receiver, session),
            Some(old) => return Err(CallError::Style(old)),
            None => {}
        }
        let asks: Vec<Ask<'_>> = list
            .into_iter()
            .map(|(flowspec, filters)| Ask {
                asker,
                style,
                flowspec,
                filters,
                scope: None,
                policy: &[],
                forwarded: &[],
                expires: Instant::NEVER,
                confirm: Some(Confirm::Here),
            })
            .collect();
        let objection = |ask: &Ask<'_>| self.state(key).and_then(|state| state.objection(ask));
        if asks.iter().find_map(objection).is_some() {
            return Err(CallError::Service);
        }
        let known = self.state(key).and_then(|state| state.asked.get(&asker));
        let had: Vec<Filter> = known.map_or(Vec::new(), |asked| asked.specs.keys().copied().collect());
        if self.requests + kept.len() > self.settings.most_reservations + had.len() {
            return Err(CallError::Full);
        }
        for filter in had.iter().filter(|filter| !kept.contains(filter)) {
            self.drop_spec(key, asker, *filter);
        }
        if had.iter().any(|filter| !kept.contains(filter)) {
            self.settle(now, key, Touched::All, Push::default());
        }
        for ask in &asks {
            // Nothing is promised for what stays here, and objections have been looked for.
            let _ = self.take(now, key, ask);
        }
        Ok(())
    }

    /// A program on this host no longer wants what it has reserved.
    pub fn release(&mut self, now: Instant, receiver: Receiver, session: &Session) {
        let (key, asker) = (Key::from(session), Asker::Here(receiver));
        let asked = self.state(key).and_then(|state| state.asked.get(&asker));
        let filters: Vec<Filter> = asked.map_or(Vec::new(), |asked| asked.specs.keys().copied().collect());
        for filter in &filters {
            self.drop_spec(key, asker, *filter);
        }
        if !filters.is_empty() {
            self.settle(now, key, Touched::All, Push::default());
        }
    }
}
