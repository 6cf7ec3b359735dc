//! Merging the requests of the next hops into one for traffic control or for a previous hop (RFC
//! 2205, sections 2.2 and 3.5; RFC 2209, section 2, RESV REFRESH).
//!
//! A failed flowspec Qb blockades the requests that are not strictly smaller. "Strictly smaller" is
//! read as the order of flowspecs, regardless of packet sizes, which merging may change either way.
//! The RFC's example compares component by component; then two requests with the same bucket always
//! blockade each other, and of three receivers only the smallest is served. Requests that are not
//! blockaded themselves may merge to one that is, when neither covers the other; then the GLB of
//! them goes on, as it does when all are blockaded.

use super::neighbour::NextHop;
use super::state::{FilterSpec, SessionState};
use crate::flowspec::ServiceConflict;
use crate::wire::{Flowspec, SenderTemplate, Style, TokenBucket};

/// The LUB of requests. Those of different services were rejected when they arrived.
pub(super) fn merge(requests: &[Flowspec]) -> Option<Flowspec> {
    match Flowspec::merged(requests) {
        Ok(all) => all,
        Err(ServiceConflict) => requests.first().copied(),
    }
}

/// A flowspec without its packet sizes.
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

/// Whether `one` substitutes `other`, regardless of packet sizes.
pub(super) fn covers(one: &Flowspec, other: &Flowspec) -> bool {
    sizeless(one).substitutes(&sizeless(other))
}

/// Whether a failed flowspec blockades a request: the request is not strictly smaller.
pub(super) fn blockades(failed: &Flowspec, request: &Flowspec) -> bool {
    !covers(failed, request) || covers(request, failed)
}

/// What is requested of a previous hop that has rejected these flowspecs.
pub(super) fn merge_unblockaded(failed: &[Flowspec], requests: &[(NextHop, Flowspec)]) -> Option<Flowspec> {
    let blockaded = |request: &Flowspec| failed.iter().any(|failed| blockades(failed, request));
    let all: Vec<Flowspec> = requests.iter().map(|(_, flowspec)| *flowspec).collect();
    let free: Vec<Flowspec> = all
        .iter()
        .filter(|request| !blockaded(request))
        .copied()
        .collect();
    match merge(&free) {
        Some(merged) if !blockaded(&merged) => Some(merged),
        Some(_) => glb(&free),
        None => glb(&all),
    }
}

fn glb(requests: &[Flowspec]) -> Option<Flowspec> {
    Flowspec::glb(requests).ok().flatten()
}

impl SessionState {
    /// The reservation of this sender, all interfaces merged.
    pub(super) fn reserved(&self, sender: &SenderTemplate) -> Option<(Style, Flowspec)> {
        let requests = self.requests_for(sender)?;
        Some((self.style()?, self.merge_forwarded(Some(*sender), &requests)?))
    }

    /// The next hops that request this sender's data, with their flowspecs.
    pub(super) fn requests_for(&self, sender: &SenderTemplate) -> Option<Vec<(NextHop, Flowspec)>> {
        let psb = self.psbs.get(sender)?;
        let rsbs = self.rsbs.iter().filter(|(nhop, _)| psb.reaches(nhop));
        let requests = rsbs.filter_map(|(nhop, rsb)| Some((*nhop, rsb.entry(sender)?.flowspec)));
        Some(requests.collect())
    }

    /// Merges requests for the previous hops, with Fwd_Flowspec where traffic control returned one.
    /// For one sender, or for all in the shared styles.
    pub(super) fn merge_forwarded(
        &self,
        filter: FilterSpec,
        requests: &[(NextHop, Flowspec)],
    ) -> Option<Flowspec> {
        let filter = self.tcsb_filter(&filter);
        let forwarded = requests.iter().map(|(nhop, flowspec)| {
            let tcsb = match nhop {
                NextHop::Remote(hop) => self.tcsbs.get(&(hop.lih, filter)),
                NextHop::Local(_) => None,
            };
            tcsb.and_then(|tcsb| tcsb.fwd_flowspec).unwrap_or(*flowspec)
        });
        merge(&forwarded.collect::<Vec<_>>())
    }
}
