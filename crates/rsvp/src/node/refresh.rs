//! What is asked of the nodes before (RFC 2205, sections 3.4 and 3.5; RFC 2209, section 2, RESV REFRESH).

use super::Node;
use super::agenda::Block;
use super::blockade::combined;
use super::settle::{Confirm, Push};
use super::state::{Before, Filter, Key, Refreshing, Sent, State};
use super::status::Asker;
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{
    Content, Descriptors, Flowspec, Hop, Message, Opaque, Resv, ResvTear, Scope, Sender, Style,
};
use core::net::IpAddr;
use engine::units::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Flow descriptors of style FF in one message, and filters of style SE: they fit the 1500 bytes of Ethernet.
const FIXED_AT_ONCE: usize = 16;
const SHARED_AT_ONCE: usize = 48;

/// What should be asked of a node before.
#[derive(Default)]
struct Wanted {
    specs: BTreeMap<Filter, Flowspec>,
    scope: Option<Vec<IpAddr>>,
}

impl State {
    /// Shared reservations are one, whatever the filter.
    pub(super) fn shared_as(&self, filter: &Filter) -> Filter {
        filter.filter(|_| self.style() == Some(Style::Fixed))
    }

    /// What should be asked of this node before.
    fn wanted(&self, before: Before) -> Wanted {
        match self.style() {
            Some(Style::Fixed) => {
                let here = |path: &super::state::PathState| path.previous == Some(before);
                let senders = self.paths.iter().filter(|(_, path)| here(path));
                let specs =
                    senders.filter_map(|(sender, _)| Some((Some(*sender), self.wanted_for(before, sender)?)));
                Wanted {
                    specs: specs.collect(),
                    scope: None,
                }
            }
            Some(_) => self.wanted_together(before),
            None => Wanted::default(),
        }
    }

    /// In style FF, for one of its senders.
    fn wanted_for(&self, before: Before, sender: &Sender) -> Option<Flowspec> {
        let path = self.paths.get(sender)?;
        let asked = self.asked.iter().filter(|(asker, _)| path.reaches(asker));
        let picks: Vec<_> = asked
            .filter_map(|(asker, asked)| Some((*asker, asked.spec(sender)?.flowspec)))
            .collect();
        match self.blockades.get(&(before, Some(*sender))) {
            Some(blockade) => combined(&[blockade.flowspec], &picks),
            None => self.together(Some(*sender), &picks),
        }
    }

    /// In styles SE and WF, for all of its senders.
    fn wanted_together(&self, before: Before) -> Wanted {
        let mut picks = Vec::new();
        let mut senders: BTreeSet<Sender> = BTreeSet::new();
        let mut scoped = false;
        for (asker, asked) in &self.asked {
            scoped |= asked.scope.is_some();
            let served: Vec<_> = self
                .served(asker, asked)
                .filter(|sender| self.paths[sender].previous == Some(before) && asked.means(sender))
                .collect();
            if let Some(spec) = served.first().and_then(|sender| asked.spec(sender)) {
                picks.push((*asker, spec.flowspec));
                senders.extend(served);
            }
        }
        let filters: Vec<Filter> = match self.style() {
            Some(Style::Wildcard) => vec![None],
            _ => senders.iter().copied().map(Some).collect(),
        };
        let failed = filters
            .iter()
            .filter_map(|filter| self.blockades.get(&(before, *filter)));
        let failed: Vec<Flowspec> = failed.map(|blockade| blockade.flowspec).collect();
        let all = if failed.is_empty() {
            self.together(None, &picks)
        } else {
            combined(&failed, &picks)
        };
        let Some(flowspec) = all else {
            return Wanted::default();
        };
        // One previous hop alone cannot be part of a loop (RFC 2205, section 3.4).
        let previous: BTreeSet<Before> = self.paths.values().filter_map(|path| path.previous).collect();
        let scoped = self.style() == Some(Style::Wildcard) && (scoped || previous.len() > 1);
        let addresses: BTreeSet<IpAddr> = senders.iter().map(Sender::address).collect();
        Wanted {
            specs: filters.into_iter().map(|filter| (filter, flowspec)).collect(),
            scope: scoped.then(|| addresses.into_iter().collect()),
        }
    }

    /// Whether a program on this host waits to hear of any of these.
    fn awaited(&self, specs: &[(Filter, Flowspec)]) -> bool {
        let mut asked = self.asked.values();
        asked.any(|asked| specs.iter().any(|(filter, _)| asked.unconfirmed.contains(filter)))
    }

    /// Objects that requests for this node before carry, each once.
    fn carried(&self, before: Before) -> (Vec<Opaque>, Vec<Opaque>) {
        let (mut policy, mut forwarded) = (Vec::new(), Vec::new());
        for (asker, asked) in &self.asked {
            if asked.policy.is_empty() && asked.forwarded.is_empty() {
                continue;
            }
            let mut served = self.served(asker, asked);
            if served.any(|sender| self.paths[sender].previous == Some(before)) {
                union(&mut policy, &asked.policy);
                union(&mut forwarded, &asked.forwarded);
            }
        }
        (policy, forwarded)
    }
}

fn union(all: &mut Vec<Opaque>, more: &[Opaque]) {
    for object in more {
        if !all.contains(object) {
            all.push(object.clone());
        }
    }
}

pub(super) fn scope(addresses: &[IpAddr]) -> Scope {
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

/// Flow descriptors as messages have them.
pub(super) fn descriptors(style: Style, specs: &[(Filter, Flowspec)]) -> Descriptors<Content<Flowspec>> {
    let known = |flowspec: &Flowspec| Content::Known(*flowspec);
    let senders = specs.iter().filter_map(|(filter, _)| *filter);
    match (style, specs) {
        (Style::SharedExplicit, [(_, flowspec), ..]) => {
            Descriptors::SharedExplicit(known(flowspec), senders.collect())
        }
        (Style::Wildcard, [(_, flowspec), ..]) => Descriptors::Wildcard(known(flowspec)),
        _ => {
            let each = specs
                .iter()
                .filter_map(|(filter, flowspec)| Some((known(flowspec), (*filter)?)));
            Descriptors::Fixed(each.collect())
        }
    }
}

/// The same in a tear.
fn ends(style: Style, filters: &[Filter]) -> Descriptors<()> {
    let senders = filters.iter().filter_map(|filter| *filter);
    match style {
        Style::Wildcard => Descriptors::Wildcard(()),
        Style::SharedExplicit => Descriptors::SharedExplicit((), senders.collect()),
        _ => Descriptors::Fixed(senders.map(|sender| ((), sender)).collect()),
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Asks the nodes before, or that of one sender, for what they have not been asked for yet, and ends what is no
    /// longer wanted. Says whether any was asked.
    pub(super) fn settle_asked(&mut self, now: Instant, key: Key, only: Option<Sender>, push: Push) -> bool {
        let Some(state) = self.state(key) else {
            return false;
        };
        if let Some(sender) = only {
            let Some(before) = state.paths.get(&sender).and_then(|path| path.previous) else {
                return false;
            };
            let wanted = state.wanted_for(before, &sender);
            let specs = wanted.map(|flowspec| (Some(sender), flowspec));
            let wanted = Wanted {
                specs: specs.into_iter().collect(),
                scope: None,
            };
            return self.ask(now, key, before, (wanted, only), push);
        }
        let mut all: BTreeSet<Before> = state.paths.values().filter_map(|path| path.previous).collect();
        all.extend(state.sent.keys());
        let mut asked = false;
        for before in all {
            let Some(state) = self.state(key) else {
                return asked;
            };
            let wanted = state.wanted(before);
            asked |= self.ask(now, key, before, (wanted, None), push);
        }
        asked
    }

    /// Asks one node before for what it has not been asked for, in all or for one sender.
    fn ask(
        &mut self,
        now: Instant,
        key: Key,
        before: Before,
        (wanted, only): (Wanted, Option<Sender>),
        push: Push,
    ) -> bool {
        let Some(state) = self.state(key) else {
            return false;
        };
        let style = state.style().unwrap_or(Style::Fixed);
        let mut ended = Vec::new();
        let mut news: Vec<(Filter, Flowspec)> = wanted.specs.iter().map(|(f, q)| (*f, *q)).collect();
        let mut always = push.always;
        let mut old_style = style;
        if let Some(sent) = state.sent.get(&before) {
            old_style = sent.style;
            let kept = |filter: &Filter| style == sent.style && wanted.specs.contains_key(filter);
            let mine = |filter: &&Filter| only.is_none() || **filter == only;
            ended = sent
                .specs
                .keys()
                .filter(mine)
                .filter(|f| !kept(f))
                .copied()
                .collect();
            let known = |(filter, flowspec): &(Filter, Flowspec)| {
                style == sent.style && sent.specs.get(filter) == Some(flowspec)
            };
            // A list of shared filters is one whole.
            always |= sent.scope != wanted.scope;
            always |= style != Style::Fixed && !news.iter().all(known);
            news.retain(|one| always || !known(one));
        }
        self.tear(key, before, old_style, &ended);
        if news.is_empty() {
            return false;
        }
        self.note(key, before, style, &wanted, &news);
        let whole = only.is_none() && news.len() == wanted.specs.len();
        self.send_resv(now, key, before, &news, whole, push.confirm);
        true
    }

    /// Notes what is being asked of a node before.
    fn note(&mut self, key: Key, before: Before, style: Style, wanted: &Wanted, news: &[(Filter, Flowspec)]) {
        let Some(state) = self.state_mut(key) else {
            return;
        };
        let sent = state.sent.entry(before).or_insert_with(|| {
            Box::new(Sent {
                style,
                specs: BTreeMap::new(),
                scope: None,
                refresh: Refreshing::NONE,
                armed: Instant::NEVER,
            })
        });
        sent.style = style;
        sent.scope.clone_from(&wanted.scope);
        sent.specs.extend(news.iter().copied());
    }

    /// Sends requests to a node before; all that there are, or only some, which does not count as a refresh.
    fn send_resv(
        &mut self,
        now: Instant,
        key: Key,
        before: Before,
        specs: &[(Filter, Flowspec)],
        whole: bool,
        confirm: Option<Confirm>,
    ) {
        let (hop, interface) = before;
        let Some(sent) = self.state(key).and_then(|state| state.sent.get(&before)) else {
            return;
        };
        let (style, last, first) = (sent.style, sent.refresh.period, sent.refresh.period.is_none());
        let next = self.again(now, interface, last);
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let (policy, forwarded) = state.carried(before);
        // Asked for again until it is heard: the request or the answer may have been lost.
        let confirm = confirm.or_else(|| state.awaited(specs).then_some(Confirm::Here));
        let Some(sent) = state.sent.get_mut(&before) else {
            return;
        };
        let scope = sent.scope.as_ref().map(|addresses| scope(addresses));
        let refresh = next.period.unwrap_or(self.settings.refresh(interface));
        if whole || first {
            sent.refresh = next;
            self.agenda
                .arm(key, Block::Before(before), &mut sent.armed, sent.refresh.at);
        }
        let Some(address) = self.settings.address(interface, hop.address) else {
            return;
        };
        let confirm = confirm.map(|confirm| match confirm {
            Confirm::Here => address,
            Confirm::At(receiver) => receiver,
        });
        let at_once = match style {
            Style::Fixed => FIXED_AT_ONCE,
            _ => SHARED_AT_ONCE,
        };
        for some in specs.chunks(at_once) {
            let message = Message::Resv(Resv {
                session: key.session(),
                hop: Hop {
                    address,
                    interface: hop.interface,
                },
                refresh,
                confirm,
                scope: scope.clone(),
                policy: policy.clone(),
                descriptors: descriptors(style, some),
            });
            self.tell(interface, hop.address, message, forwarded.clone());
        }
    }

    /// Ends some of what was asked of a node before. It is told unless it has forgotten the sender first.
    fn tear(&mut self, key: Key, before: Before, style: Style, ended: &[Filter]) {
        let (hop, interface) = before;
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let Some(sent) = state.sent.get_mut(&before) else {
            return;
        };
        for filter in ended {
            sent.specs.remove(filter);
        }
        if sent.specs.is_empty() {
            self.agenda.disarm(key, Block::Before(before), sent.armed);
            state.sent.remove(&before);
        }
        let told: Vec<Filter> = ended
            .iter()
            .copied()
            .filter(|f| state.still_at(before, f))
            .collect();
        let Some(address) = self.settings.address(interface, hop.address) else {
            return;
        };
        for some in told.chunks(SHARED_AT_ONCE) {
            let message = Message::ResvTear(ResvTear {
                session: key.session(),
                hop: Hop {
                    address,
                    interface: hop.interface,
                },
                // It would mean nothing (RFC 2205, section 3.1.6).
                scope: None,
                descriptors: ends(style, some),
            });
            self.tell(interface, hop.address, message, Vec::new());
        }
    }

    /// A sender is no longer heard of from this node before, which knows that itself.
    pub(super) fn forget_asked(&mut self, key: Key, before: Before, sender: &Sender) {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let hears = state.hears(before);
        let Some(sent) = state.sent.get_mut(&before) else {
            return;
        };
        sent.specs.remove(&Some(*sender));
        if sent.specs.is_empty() || !hears {
            self.agenda.disarm(key, Block::Before(before), sent.armed);
            state.sent.remove(&before);
        }
    }

    /// A refresh is due.
    pub(super) fn sent_timeout(&mut self, now: Instant, key: Key, before: Before) {
        let Some(sent) = self.state_mut(key).and_then(|state| state.sent.get_mut(&before)) else {
            return;
        };
        sent.armed = Instant::NEVER;
        if sent.refresh.at > now {
            self.arm_sent(key, before);
            return;
        }
        let specs: Vec<_> = sent
            .specs
            .iter()
            .map(|(filter, flowspec)| (*filter, *flowspec))
            .collect();
        self.send_resv(now, key, before, &specs, true, None);
    }

    pub(super) fn arm_sent(&mut self, key: Key, before: Before) {
        let state = self.sessions.0.get_mut(&key);
        if let Some(sent) = state.and_then(|state| state.sent.get_mut(&before)) {
            self.agenda
                .arm(key, Block::Before(before), &mut sent.armed, sent.refresh.at);
        }
    }
}

impl State {
    /// Whether the node before still knows a sender that the filter is for.
    fn still_at(&self, before: Before, filter: &Filter) -> bool {
        match filter {
            Some(sender) => self
                .paths
                .get(sender)
                .is_some_and(|path| path.previous == Some(before)),
            None => self.hears(before),
        }
    }

    /// Where one's request for a filter goes: the nodes before its senders.
    pub(super) fn befores(&self, asker: &Asker, filter: &Filter) -> BTreeSet<Before> {
        let paths = self
            .paths
            .iter()
            .filter(|(sender, path)| path.reaches(asker) && filter.is_none_or(|filter| filter == **sender));
        paths.filter_map(|(_, path)| path.previous).collect()
    }
}
