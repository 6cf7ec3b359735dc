//! Traffic control is told what to promise (RFC 2209, section 2, UPDATE TRAFFIC CONTROL).

use super::Node;
use super::settle::merged;
use super::state::{Filter, Key, Promise, State};
use super::status::Asker;
use crate::traffic_control::{Handle, InterfaceId, Police, Refused, Request, Routing, TrafficControl};
use crate::wire::{ErrorSpec, Flowspec, Sender, code};
use engine::units::Instant;
use std::collections::{BTreeMap, BTreeSet};

impl State {
    /// What is asked behind each interface for this sender, or for all that share: merged for each.
    fn by_interface(&self, filter: Filter) -> BTreeMap<InterfaceId, (Flowspec, BTreeSet<Sender>)> {
        let mut all: BTreeMap<InterfaceId, (Vec<Flowspec>, BTreeSet<Sender>)> = BTreeMap::new();
        for (asker, asked) in &self.asked {
            let Asker::Next(hop) = asker else {
                continue;
            };
            let served: Vec<Sender> = match filter {
                Some(sender) if asked.spec(&sender).is_some() && self.reaches(&sender, asker) => vec![sender],
                Some(_) => continue,
                None => self.served(asker, asked).copied().collect(),
            };
            let spec = served.first().and_then(|sender| asked.spec(sender));
            if let Some(spec) = spec {
                let (flowspecs, senders) = all.entry(hop.interface).or_default();
                flowspecs.push(spec.flowspec);
                senders.extend(served);
            }
        }
        all.into_iter()
            .filter_map(|(interface, (flowspecs, senders))| Some((interface, (merged(&flowspecs)?, senders))))
            .collect()
    }

    /// What traffic control should promise on this interface, and to whose packets.
    fn request(&self, interface: InterfaceId, filter: Filter) -> Option<(Request, BTreeSet<Sender>)> {
        let mut all = self.by_interface(filter);
        let (flowspec, senders) = all.remove(&interface)?;
        let mut paths = senders.iter().filter_map(|sender| self.paths.get(sender));
        let first = paths.next()?;
        let (mut tspec, mut entry) = (first.tspec, first.police);
        for path in paths {
            tspec = tspec.sum(&path.tspec);
            entry |= path.police;
        }
        let police = Police {
            entry,
            merge: senders.len() > 1,
            branch: all.values().any(|(other, _)| !flowspec.substitutes(other)),
        };
        let request = Request {
            flowspec,
            tspec,
            police,
        };
        Some((request, senders))
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// All promises of a session, or those for one sender. Nothing here asks for more than is promised already unless
    /// a sender sends more or less; if traffic control refuses that, what it does stays, and nobody has to be told.
    pub(super) fn settle_promises(&mut self, key: Key, only: Option<Sender>) {
        let Some(state) = self.state(key) else {
            return;
        };
        let mut places: BTreeSet<(InterfaceId, Filter)> = BTreeSet::new();
        let wanted = |filter: &Filter| only.is_none() || *filter == only;
        places.extend(state.promises.keys().filter(|(_, filter)| wanted(filter)));
        for (asker, asked) in &state.asked {
            if let Asker::Next(hop) = asker {
                let filters = asked.specs.keys().map(|filter| state.shared_as(filter));
                places.extend(filters.filter(wanted).map(|filter| (hop.interface, filter)));
            }
        }
        for (interface, filter) in places {
            let _ = self.promise(key, interface, filter);
        }
    }

    /// Has traffic control promise what is asked on one interface, or end what is not. Refused, all stays as it was.
    pub(super) fn promise(
        &mut self,
        key: Key,
        interface: InterfaceId,
        filter: Filter,
    ) -> Result<(), Refused> {
        let place = (interface, filter);
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return Ok(());
        };
        let Some((request, senders)) = state.request(interface, filter) else {
            self.end_promise(key, place);
            return Ok(());
        };
        let promise = match state.promises.entry(place) {
            std::collections::btree_map::Entry::Vacant(place) => {
                let granted = self.traffic_control.add(interface, &request)?;
                place.insert(Box::new(Promise {
                    handle: granted.handle,
                    request,
                    forward: granted.forward,
                    senders: BTreeSet::new(),
                }))
            }
            std::collections::btree_map::Entry::Occupied(place) => {
                let promise = place.into_mut();
                if promise.request != request {
                    promise.forward = self.traffic_control.modify(promise.handle, &request)?;
                    promise.request = request;
                }
                promise
            }
        };
        let session = key.session();
        for sender in senders.difference(&promise.senders) {
            self.traffic_control.add_filter(promise.handle, &session, sender);
        }
        for sender in promise.senders.difference(&senders) {
            self.traffic_control
                .delete_filter(promise.handle, &session, sender);
        }
        promise.senders = senders;
        Ok(())
    }

    fn end_promise(&mut self, key: Key, place: (InterfaceId, Filter)) {
        let state = self.sessions.0.get_mut(&key);
        let Some(promise) = state.and_then(|state| state.promises.remove(&place)) else {
            return;
        };
        for sender in &promise.senders {
            self.traffic_control
                .delete_filter(promise.handle, &key.session(), sender);
        }
        self.traffic_control.delete(promise.handle);
    }

    /// Traffic control has taken back a promise for something more important; its name means nothing any more. Those
    /// who asked are told, and may ask again.
    pub fn preempted(&mut self, now: Instant, handle: Handle) {
        let find = |state: &State| {
            let mut promises = state.promises.iter();
            promises.find_map(|(place, promise)| (promise.handle == handle).then_some(*place))
        };
        let mut all = self.sessions.0.iter();
        let Some((key, (interface, filter))) = all.find_map(|(key, state)| Some((*key, find(state)?))) else {
            return;
        };
        let Some(state) = self.state_mut(key) else {
            return;
        };
        state.promises.remove(&(interface, filter));
        let behind = |asker: &Asker| matches!(asker, Asker::Next(hop) if hop.interface == interface);
        let mut ended = Vec::new();
        for (asker, asked) in state.asked.iter().filter(|(asker, _)| behind(asker)) {
            let specs = asked.specs.iter();
            let mine = specs.filter(|(of, _)| filter.is_none() || filter == **of);
            let specs: Vec<_> = mine.map(|(of, spec)| (*of, spec.flowspec)).collect();
            ended.push((*asker, asked.style, specs));
        }
        for (asker, style, specs) in ended {
            let (Asker::Next(hop), false) = (asker, specs.is_empty()) else {
                continue;
            };
            for (filter, _) in &specs {
                self.drop_spec(key, asker, *filter);
            }
            if let Some(node) = self.settings.address(interface, hop.address) {
                let error = ErrorSpec {
                    node,
                    in_place: false,
                    not_guilty: false,
                    code: code::PREEMPTED,
                    value: 0,
                };
                self.resv_err_to(key, hop, error, None, super::refresh::descriptors(style, &specs));
            }
        }
        self.settle(
            now,
            key,
            super::settle::Touched::All,
            super::settle::Push::default(),
        );
    }
}
