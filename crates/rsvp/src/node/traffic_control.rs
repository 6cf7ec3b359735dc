//! UPDATE TRAFFIC CONTROL (RFC 2209, section 2): the reservations that traffic control installs.

use super::Node;
use super::merge::merge;
use super::neighbour::NextHop;
use super::reconcile::{Affected, ResvOptions};
use super::resv_refresh::flow_descriptors;
use super::state::{FilterSpec, Psb, SessionKey, SessionState, Tcsb, TcsbKey};
use crate::guaranteed::since_reshaping;
use crate::traffic_control::{
    AdmissionFailure, InterfaceId, PoliceFlags, RHandle, Routing, TcRequest, TrafficControl,
};
use crate::wire::{ErrorCode, ErrorSpec, Flowspec, SenderTemplate, code};
use engine::units::Instant;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The flowspec that the next hops behind an interface request together, and the senders it is for.
type MergedRequest = (Flowspec, BTreeSet<SenderTemplate>);

impl SessionState {
    /// What the next hops behind each interface request for this sender, or for all in the shared
    /// styles, merged by interface.
    fn merged_by_interface(&self, filter: FilterSpec) -> BTreeMap<InterfaceId, MergedRequest> {
        let mut all: BTreeMap<InterfaceId, (Vec<Flowspec>, BTreeSet<SenderTemplate>)> = BTreeMap::new();
        for (nhop, rsb) in &self.rsbs {
            let NextHop::Remote(hop) = nhop else {
                continue;
            };
            let served: Vec<SenderTemplate> = match filter {
                Some(sender) if rsb.entry(&sender).is_some() && self.reaches(&sender, nhop) => vec![sender],
                Some(_) => continue,
                None => self.served(nhop, rsb).copied().collect(),
            };
            let entry = served.first().and_then(|sender| rsb.entry(sender));
            if let Some(entry) = entry {
                let (flowspecs, senders) = all.entry(hop.lih).or_default();
                flowspecs.push(entry.flowspec);
                senders.extend(served);
            }
        }
        all.into_iter()
            .filter_map(|(interface, (flowspecs, senders))| Some((interface, (merge(&flowspecs)?, senders))))
            .collect()
    }

    /// TC_Flowspec, Path_Te and the police flags for one interface, and the filter specs.
    fn tc_request(&self, (interface, filter): TcsbKey) -> Option<(TcRequest, BTreeSet<SenderTemplate>)> {
        let mut all = self.merged_by_interface(filter);
        let (flowspec, senders) = all.remove(&interface)?;
        let mut psbs = senders.iter().filter_map(|sender| self.psbs.get(sender));
        let first = psbs.next()?;
        let before = |psb: &Psb| psb.adspec.as_ref().and_then(since_reshaping).unwrap_or_default();
        let (mut tspec, mut entry, mut grown) = (first.tspec, first.police, before(first));
        for psb in psbs {
            tspec = tspec.sum(&psb.tspec);
            entry |= psb.police;
            grown = grown.max(before(psb));
        }
        let police = PoliceFlags {
            entry,
            merge: senders.len() > 1,
            branch: all.values().any(|(other, _)| !flowspec.substitutes(other)),
        };
        let request = TcRequest {
            flowspec,
            tspec,
            police,
            before: grown,
        };
        Some((request, senders))
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Updates traffic control for a whole session, or for one sender. No request grows here except
    /// with a sender's Tspec or the terms of the hops before. If traffic control refuses that, the
    /// old reservation stays and nobody is notified.
    pub(super) fn update_all_traffic_control(&mut self, key: SessionKey, only: Option<SenderTemplate>) {
        let Some(state) = self.state(key) else {
            return;
        };
        let mut all: BTreeSet<TcsbKey> = BTreeSet::new();
        let affected = |filter: &FilterSpec| only.is_none() || *filter == only;
        all.extend(state.tcsbs.keys().filter(|(_, filter)| affected(filter)));
        for (nhop, rsb) in &state.rsbs {
            if let NextHop::Remote(hop) = nhop {
                let filters = rsb.entries.keys().map(|filter| state.tcsb_filter(filter));
                all.extend(filters.filter(affected).map(|filter| (hop.lih, filter)));
            }
        }
        for tcsb in all {
            let _ = self.update_traffic_control(key, tcsb);
        }
    }

    /// UPDATE TRAFFIC CONTROL for one TCSB: adds, modifies or deletes its reservation. After a
    /// refusal everything is as it was.
    pub(super) fn update_traffic_control(
        &mut self,
        key: SessionKey,
        at: TcsbKey,
    ) -> Result<(), AdmissionFailure> {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return Ok(());
        };
        let Some((request, senders)) = state.tc_request(at) else {
            self.remove_tcsb(key, at);
            return Ok(());
        };
        let tcsb = match state.tcsbs.entry(at) {
            Entry::Vacant(vacant) => {
                let granted = self.traffic_control.add_flowspec(at.0, &request)?;
                vacant.insert(Box::new(Tcsb {
                    rhandle: granted.rhandle,
                    request,
                    fwd_flowspec: granted.fwd_flowspec,
                    senders: BTreeSet::new(),
                }))
            }
            Entry::Occupied(occupied) => {
                let tcsb = occupied.into_mut();
                if tcsb.request != request {
                    tcsb.fwd_flowspec = self.traffic_control.modify_flowspec(tcsb.rhandle, &request)?;
                    tcsb.request = request;
                }
                tcsb
            }
        };
        let session = key.session();
        for sender in senders.difference(&tcsb.senders) {
            self.traffic_control.add_filter(tcsb.rhandle, &session, sender);
        }
        for sender in tcsb.senders.difference(&senders) {
            self.traffic_control.delete_filter(tcsb.rhandle, &session, sender);
        }
        tcsb.senders = senders;
        Ok(())
    }

    fn remove_tcsb(&mut self, key: SessionKey, at: TcsbKey) {
        let state = self.sessions.0.get_mut(&key);
        let Some(tcsb) = state.and_then(|state| state.tcsbs.remove(&at)) else {
            return;
        };
        for sender in &tcsb.senders {
            self.traffic_control
                .delete_filter(tcsb.rhandle, &key.session(), sender);
        }
        self.traffic_control.delete_flowspec(tcsb.rhandle);
    }

    /// TC_Preempt: traffic control has withdrawn a reservation in favour of a more important one;
    /// its handle is no longer valid. The next hops that requested it get a ResvErr, and may
    /// request it again.
    pub fn preempted(&mut self, now: Instant, rhandle: RHandle) {
        let find = |state: &SessionState| {
            let mut tcsbs = state.tcsbs.iter();
            tcsbs.find_map(|(at, tcsb)| (tcsb.rhandle == rhandle).then_some(*at))
        };
        let mut all = self.sessions.0.iter();
        let Some((key, (interface, filter))) = all.find_map(|(key, state)| Some((*key, find(state)?))) else {
            return;
        };
        let Some(state) = self.state_mut(key) else {
            return;
        };
        state.tcsbs.remove(&(interface, filter));
        let behind = |nhop: &NextHop| matches!(nhop, NextHop::Remote(hop) if hop.lih == interface);
        let mut ended = Vec::new();
        for (nhop, rsb) in state.rsbs.iter().filter(|(nhop, _)| behind(nhop)) {
            let entries = rsb.entries.iter();
            let preempted = entries.filter(|(of, _)| filter.is_none() || filter == **of);
            let list: Vec<_> = preempted.map(|(of, entry)| (*of, entry.flowspec)).collect();
            ended.push((*nhop, rsb.style, list));
        }
        for (nhop, style, list) in ended {
            let (NextHop::Remote(hop), false) = (nhop, list.is_empty()) else {
                continue;
            };
            for (filter, _) in &list {
                self.remove_rsb_entry(key, nhop, *filter);
            }
            if let Some(node) = self.settings.address(interface, hop.address) {
                let error = ErrorSpec::new(node, ErrorCode::new(code::PREEMPTED, 0));
                self.send_resv_err(key, hop, error, None, flow_descriptors(style, &list));
            }
        }
        self.reconcile(now, key, Affected::All, ResvOptions::default());
    }
}
