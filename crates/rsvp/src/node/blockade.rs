//! Requests that have failed are kept from killing others (RFC 2205, section 3.5).
//!
//! What blockades what is RFC 2205's "not strictly greater", read as the order of requests: the failed request blockades
//! all that are not less than it. The RFC's example compares part by part, so that two requests with the same bucket
//! always blockade each other, and of three receivers the least alone would be served. Packet sizes do not count, which
//! merging may turn either way. And where requests that are not blockaded by themselves would be merged to one that
//! is (neither is more than the other), the least of them is asked for, as if they were.

use super::Node;
use super::agenda::Block;
use super::settle::{Push, Touched, merged};
use super::state::{Before, Blockade, Filter, Key};
use super::status::Asker;
use crate::traffic_control::{Routing, TrafficControl};
use crate::wire::{Flowspec, TokenBucket};
use engine::units::{Duration, Instant};

/// A request without its packet sizes.
fn sizeless(flowspec: &Flowspec) -> Flowspec {
    let bucket = TokenBucket {
        minimum: 0,
        maximum: 0,
        ..*flowspec.bucket()
    };
    match *flowspec {
        Flowspec::ControlledLoad(_) => Flowspec::ControlledLoad(bucket),
        Flowspec::Guaranteed { rate, slack, .. } => Flowspec::Guaranteed { bucket, rate, slack },
    }
}

/// Whether this has what `other` asks for, whatever the sizes of packets.
pub(super) fn covers(one: &Flowspec, other: &Flowspec) -> bool {
    sizeless(one).substitutes(&sizeless(other))
}

/// Whether a failed request keeps this one from others: it is not strictly greater.
pub(super) fn blocks(failed: &Flowspec, request: &Flowspec) -> bool {
    !covers(failed, request) || covers(request, failed)
}

/// What is asked for in spite of these failed requests.
pub(super) fn combined(failed: &[Flowspec], picks: &[(Asker, Flowspec)]) -> Option<Flowspec> {
    let blocked = |request: &Flowspec| failed.iter().any(|failed| blocks(failed, request));
    let all: Vec<Flowspec> = picks.iter().map(|(_, flowspec)| *flowspec).collect();
    let free: Vec<Flowspec> = all.iter().filter(|request| !blocked(request)).copied().collect();
    match merged(&free) {
        Some(together) if !blocked(&together) => Some(together),
        Some(_) => least(&free),
        None => least(&all),
    }
}

fn least(requests: &[Flowspec]) -> Option<Flowspec> {
    Flowspec::least(requests).ok().flatten()
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// A request has failed at a node before, or beyond it.
    pub(super) fn blockade(&mut self, now: Instant, key: Key, place: (Before, Filter), flowspec: Flowspec) {
        let ((_, interface), _) = place;
        let period = self.settings.refresh(interface).period();
        let wait = Duration::from_nanos(period.times(u64::from(self.settings.blockade)).nanos());
        let Some(state) = self.sessions.0.get_mut(&key) else {
            return;
        };
        let blockade = state.blockades.entry(place).or_insert(Blockade {
            flowspec,
            until: Instant::NEVER,
            armed: Instant::NEVER,
        });
        blockade.flowspec = flowspec;
        blockade.until = now + wait;
        let block = Block::Blockade(place.0, place.1);
        self.agenda.arm(key, block, &mut blockade.armed, blockade.until);
    }

    /// Ends a blockade.
    pub(super) fn lift(&mut self, key: Key, place: (Before, Filter)) {
        let state = self.sessions.0.get_mut(&key);
        if let Some(blockade) = state.and_then(|state| state.blockades.remove(&place)) {
            self.agenda
                .disarm(key, Block::Blockade(place.0, place.1), blockade.armed);
        }
    }

    /// A blockade may be over: what was kept back is tried again.
    pub(super) fn blockade_timeout(&mut self, now: Instant, key: Key, place: (Before, Filter)) {
        let state = self.sessions.0.get_mut(&key);
        let Some(blockade) = state.and_then(|state| state.blockades.get_mut(&place)) else {
            return;
        };
        blockade.armed = Instant::NEVER;
        if blockade.until > now {
            let block = Block::Blockade(place.0, place.1);
            self.agenda.arm(key, block, &mut blockade.armed, blockade.until);
            return;
        }
        self.lift(key, place);
        self.settle(now, key, Touched::All, Push::default());
    }
}
