//! The step after every change: derives from a session's state what should be installed and
//! requested, and makes up the difference.
//!
//! Takes the place of UPDATE TRAFFIC CONTROL, of triggered RESV REFRESH and of the clean-up that
//! RFC 2209, section 2, has in each of its sequences.

use super::neighbour::{NextHop, PreviousHop};
use super::state::{FilterSpec, SessionKey, SessionState};
use super::{Event, Node};
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{SenderTemplate, Style};
use core::net::IpAddr;
use engine::units::Instant;

/// Which part of a session has changed: in style FF senders do not affect each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Affected {
    Sender(SenderTemplate),
    All,
}

/// Who gets the confirmation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConfirmTo {
    /// A receiver application on this host.
    Local,
    /// The receiver that RESV_CONFIRM names.
    Receiver(IpAddr),
}

/// How Resv messages to the previous hops are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ResvOptions {
    /// Request a confirmation.
    pub confirm: Option<ConfirmTo>,
    /// Send even if the flowspecs are unchanged: the objects that the Resv carries have changed.
    pub force: bool,
}

impl SessionState {
    /// Whether there is nothing to merge, install or request.
    fn is_path_state_alone(&self) -> bool {
        let requested = !self.rsbs.is_empty() || !self.sent_resvs.is_empty();
        !requested && self.tcsbs.is_empty() && self.bsbs.is_empty()
    }

    /// The only sender that a change can affect, if there is one.
    fn only_sender(&self, affected: Affected) -> Option<SenderTemplate> {
        match affected {
            // Without any RSB, what is left of shared reservations has to go: all senders count.
            Affected::Sender(sender) if self.style() == Some(Style::Fixed) => Some(sender),
            _ => None,
        }
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Makes traffic control and the Resv state of the previous hops follow from the session's
    /// state. Returns whether a Resv was sent.
    pub(super) fn reconcile(
        &mut self,
        now: Instant,
        key: SessionKey,
        affected: Affected,
        options: ResvOptions,
    ) -> bool {
        let Some(state) = self.state(key) else {
            return false;
        };
        let only = match affected {
            // Path state alone: nothing but the sender itself can be concerned.
            Affected::Sender(sender) if state.is_path_state_alone() => {
                self.notify_senders(key, Some(sender));
                self.forget_if_empty(key);
                return false;
            }
            _ => state.only_sender(affected),
        };
        self.prune(key, only);
        self.update_all_traffic_control(key, only);
        let resv_sent = self.reconcile_resvs(now, key, only, options);
        self.notify_senders(key, only);
        self.forget_if_empty(key);
        resv_sent
    }

    fn forget_if_empty(&mut self, key: SessionKey) {
        let empty = |state: &SessionState| state.psbs.is_empty() && state.rsbs.is_empty();
        if self.state(key).is_some_and(empty) {
            self.sessions.0.remove(&key);
        }
    }

    /// Deletes RSB entries of neighbours for senders that have ended, or whose data no longer goes
    /// there, and BSBs of former previous hops. Entries of local receivers stay: the sender may
    /// come back.
    fn prune(&mut self, key: SessionKey, only: Option<SenderTemplate>) {
        let Some(state) = self.state(key) else {
            return;
        };
        let mut unreached: Vec<(NextHop, FilterSpec)> = Vec::new();
        for (nhop, rsb) in &state.rsbs {
            if matches!(nhop, NextHop::Local(_)) {
                continue;
            }
            let mut look = |filter: &FilterSpec| {
                if !state.any_reaches(filter, nhop) {
                    unreached.push((*nhop, *filter));
                }
            };
            match only {
                Some(sender) if rsb.entries.contains_key(&Some(sender)) => look(&Some(sender)),
                Some(_) => {}
                None => rsb.entries.keys().for_each(look),
            }
        }
        let stale: Vec<(PreviousHop, FilterSpec)> = state
            .bsbs
            .keys()
            .filter(|(phop, _)| !state.has_phop(*phop))
            .copied()
            .collect();
        for (nhop, filter) in unreached {
            self.remove_rsb_entry(key, nhop, filter);
        }
        for bsb in stale {
            self.remove_bsb(key, bsb);
        }
    }

    /// RESV_EVENT: the applications of local senders learn of changed reservations.
    fn notify_senders(&mut self, key: SessionKey, only: Option<SenderTemplate>) {
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let local = |sender: &&SenderTemplate| {
            let psb = state.psbs.get(sender);
            psb.is_some_and(|psb| psb.phop.is_none())
        };
        let senders: Vec<SenderTemplate> = match &only {
            Some(sender) => Some(sender).into_iter().filter(local).copied().collect(),
            None => state.psbs.keys().filter(local).copied().collect(),
        };
        for sender in senders {
            let reserved = state.reserved(&sender);
            let Some(psb) = state.psbs.get_mut(&sender) else {
                continue;
            };
            let reported = core::mem::replace(&mut psb.reported, reserved);
            let session = key.session();
            match reserved {
                Some((style, flowspec)) if reported != reserved => self.events.push_back(Event::Reserved {
                    session,
                    sender,
                    style,
                    flowspec,
                }),
                None if reported.is_some() => {
                    self.events.push_back(Event::Unreserved { session, sender });
                }
                _ => {}
            }
        }
    }
}
