//! Blockade state, which keeps a failed request from holding up smaller ones: "killer reservations"
//! (RFC 2205, section 3.5). Which requests a BSB blockades is in `merge`.

use super::Node;
use super::neighbour::PreviousHop;
use super::reconcile::{Affected, ResvOptions};
use super::state::{Bsb, FilterSpec, SessionKey};
use super::timers::Timer;
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::Flowspec;
use engine::units::{Duration, Instant};

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Creates or renews a BSB: a previous hop, or a node upstream of it, has rejected a request.
    pub(super) fn blockade(
        &mut self,
        now: Instant,
        key: SessionKey,
        at: (PreviousHop, FilterSpec),
        flowspec: Flowspec,
    ) {
        let period = self.settings.refresh(at.0.interface).period();
        let kb = u64::from(self.settings.blockade_periods);
        let tb = Duration::from_nanos(period.times(kb).nanos());
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let bsb = state.bsbs.entry(at).or_insert(Bsb {
            flowspec,
            until: Instant::NEVER,
            armed: Instant::NEVER,
        });
        bsb.flowspec = flowspec;
        bsb.until = now + tb;
        self.timers
            .arm(key, Timer::Bsb(at.0, at.1), &mut bsb.armed, bsb.until);
    }

    /// Deletes a BSB.
    pub(super) fn remove_bsb(&mut self, key: SessionKey, at: (PreviousHop, FilterSpec)) {
        let state = self.sessions.0.get_mut(&key);
        if let Some(bsb) = state.and_then(|state| state.bsbs.remove(&at)) {
            self.timers.disarm(key, Timer::Bsb(at.0, at.1), bsb.armed);
        }
    }

    /// Tb may have run out: the blockaded requests are tried again.
    pub(super) fn bsb_timeout(&mut self, now: Instant, key: SessionKey, at: (PreviousHop, FilterSpec)) {
        let state = self.sessions.0.get_mut(&key);
        let Some(bsb) = state.and_then(|state| state.bsbs.get_mut(&at)) else {
            return;
        };
        bsb.armed = Instant::NEVER;
        if bsb.until > now {
            self.timers
                .arm(key, Timer::Bsb(at.0, at.1), &mut bsb.armed, bsb.until);
            return;
        }
        self.remove_bsb(key, at);
        self.reconcile(now, key, Affected::All, ResvOptions::default());
    }
}
