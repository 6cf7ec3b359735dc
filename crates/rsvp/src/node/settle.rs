//! The one step after every change: what is promised and what is asked is made to follow from what is known.
//!
//! Takes the place of UPDATE TRAFFIC CONTROL, RESV REFRESH where something has triggered it, and the clean-up that
//! RFC 2209, section 2, has in each of its sequences.

use super::agenda::Block;
use super::state::{Before, Filter, Key, State};
use super::status::Asker;
use super::{Event, Node};
use crate::flowspec::ServiceConflict;
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{Flowspec, Sender, Style};
use core::net::IpAddr;
use engine::units::Instant;

/// What has changed: in style FF senders have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Touched {
    Sender(Sender),
    All,
}

/// Who is to hear when all is well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Confirm {
    /// A program on this host.
    Here,
    /// A receiver further on.
    At(IpAddr),
}

/// What goes along with what is asked of the nodes before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Push {
    /// It asks for a confirmation.
    pub confirm: Option<Confirm>,
    /// It is sent even if it asks for nothing else: what it carries along has changed.
    pub always: bool,
}

impl State {
    /// The only sender to look at, if there is one.
    fn only(&self, touched: Touched) -> Option<Sender> {
        match touched {
            // Without any request all that is left of shared ones has to go.
            Touched::Sender(sender) if self.style() == Some(Style::Fixed) => Some(sender),
            _ => None,
        }
    }

    /// Whether a request has any sender whose packets pass there.
    pub(super) fn is_reached(&self, asker: &Asker, filter: &Filter) -> bool {
        match filter {
            Some(sender) => self.reaches(sender, asker),
            None => self.paths.values().any(|path| path.reaches(asker)),
        }
    }

    /// What is promised to or asked for this sender, all interfaces together.
    fn reserved(&self, sender: &Sender) -> Option<(Style, Flowspec)> {
        let style = self.style()?;
        let path = self.paths.get(sender)?;
        let asked = self.asked.iter().filter(|(asker, _)| path.reaches(asker));
        let picks: Vec<_> = asked
            .filter_map(|(asker, asked)| Some((*asker, asked.spec(sender)?.flowspec)))
            .collect();
        Some((style, self.together(Some(*sender), &picks)?))
    }

    /// These requests merged, or what traffic control wants instead. For one sender, or for all in shared styles.
    pub(super) fn together(&self, filter: Filter, picks: &[(Asker, Flowspec)]) -> Option<Flowspec> {
        let filter = filter.filter(|_| self.style() == Some(Style::Fixed));
        let forwards = picks.iter().map(|(asker, flowspec)| {
            let promise = match asker {
                Asker::Next(hop) => self.promises.get(&(hop.interface, filter)),
                Asker::Here(_) => None,
            };
            promise.and_then(|promise| promise.forward).unwrap_or(*flowspec)
        });
        merged(&forwards.collect::<Vec<_>>())
    }
}

/// Requests merged. Those of different services were refused when they came.
pub(super) fn merged(requests: &[Flowspec]) -> Option<Flowspec> {
    match Flowspec::merged(requests) {
        Ok(all) => all,
        Err(ServiceConflict) => requests.first().copied(),
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Makes what is promised and asked follow from what is known. Says whether a node before was asked for anything.
    pub(super) fn settle(&mut self, now: Instant, key: Key, touched: Touched, push: Push) -> bool {
        let Some(state) = self.state(key) else {
            return false;
        };
        let only = state.only(touched);
        self.prune(key, only);
        self.settle_promises(key, only);
        let asked = self.settle_asked(now, key, only, push);
        self.tell_senders(key, only);
        let empty = |state: &State| state.paths.is_empty() && state.asked.is_empty();
        if self.state(key).is_some_and(empty) {
            self.sessions.0.remove(&key);
        }
        asked
    }

    /// Forgets what next hops ask for senders that are no longer there, or whose packets no longer pass there. What
    /// programs on this host ask for stays: the sender may come back.
    fn prune(&mut self, key: Key, only: Option<Sender>) {
        let Some(state) = self.state(key) else {
            return;
        };
        let mut gone: Vec<(Asker, Filter)> = Vec::new();
        for (asker, asked) in &state.asked {
            if matches!(asker, Asker::Here(_)) {
                continue;
            }
            let mut look = |filter: &Filter| {
                if !state.is_reached(asker, filter) {
                    gone.push((*asker, *filter));
                }
            };
            match only {
                Some(sender) if asked.specs.contains_key(&Some(sender)) => look(&Some(sender)),
                Some(_) => {}
                None => asked.specs.keys().for_each(look),
            }
        }
        let silent: Vec<(Before, Filter)> = state
            .blockades
            .keys()
            .filter(|(before, _)| !state.hears(*before))
            .copied()
            .collect();
        for (asker, filter) in gone {
            self.drop_spec(key, asker, filter);
        }
        for place in silent {
            self.lift(key, place);
        }
    }

    /// Forgets what one asks for one filter.
    pub(super) fn drop_spec(&mut self, key: Key, asker: Asker, filter: Filter) -> bool {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return false;
        };
        let Some(asked) = state.asked.get_mut(&asker) else {
            return false;
        };
        let removed = asked.specs.remove(&filter).is_some();
        asked.unconfirmed.remove(&filter);
        self.requests -= usize::from(removed);
        if asked.specs.is_empty() {
            self.agenda.disarm(key, Block::Request(asker), asked.armed);
            state.asked.remove(&asker);
        }
        removed
    }

    /// The users of senders on this host hear what is reserved for them.
    fn tell_senders(&mut self, key: Key, only: Option<Sender>) {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let own = |sender: &&Sender| {
            state
                .paths
                .get(sender)
                .is_some_and(|path| path.previous.is_none())
        };
        let senders: Vec<Sender> = match &only {
            Some(sender) => Some(sender).into_iter().filter(own).copied().collect(),
            None => state.paths.keys().filter(own).copied().collect(),
        };
        for sender in senders {
            let reserved = state.reserved(&sender);
            let Some(path) = state.paths.get_mut(&sender) else {
                continue;
            };
            let known = core::mem::replace(&mut path.reserved, reserved);
            let session = key.session();
            match reserved {
                Some((style, flowspec)) if known != reserved => self.events.push_back(Event::Reserved {
                    session,
                    sender,
                    style,
                    flowspec,
                }),
                None if known.is_some() => {
                    self.events.push_back(Event::Unreserved { session, sender });
                }
                _ => {}
            }
        }
    }
}
