//! A snapshot of a node's state blocks, for management and tests.

use super::Node;
use super::neighbour::{NextHop, PreviousHop};
use super::state::{SessionKey, SessionState};
use crate::traffic_control::{InterfaceId, RHandle, TcRequest};
use crate::wire::{Adspec, Flowspec, SenderTemplate, Session, Style, TokenBucket};
use engine::units::Instant;

/// One session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionStatus {
    /// The session.
    pub session: Session,
    /// The style of its reservations; none without reservations.
    pub style: Option<Style>,
    /// Its path state.
    pub psbs: Vec<PsbStatus>,
    /// Its reservation state.
    pub rsbs: Vec<RsbStatus>,
    /// What traffic control has installed.
    pub tcsbs: Vec<TcsbStatus>,
    /// The Resv state last sent to the previous hops.
    pub sent_resvs: Vec<SentResvStatus>,
    /// Its blockade state.
    pub bsbs: Vec<BsbStatus>,
}

/// Path state of one sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PsbStatus {
    /// The sender.
    pub sender: SenderTemplate,
    /// Its Tspec.
    pub tspec: TokenBucket,
    /// What the path up to here offers.
    pub adspec: Option<Adspec>,
    /// The previous hop; none for a sender on this host.
    pub phop: Option<PreviousHop>,
    /// Whether there are nodes without RSVP between the previous hop and this one.
    pub non_rsvp_hop: bool,
    /// The interfaces through which its data leaves.
    pub outgoing: Vec<InterfaceId>,
    /// Whether its data is delivered on this host.
    pub local: bool,
    /// When the state times out unless it is refreshed; never for a sender on this host.
    pub expires: Instant,
}

/// One filter spec of a reservation request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RsbStatus {
    /// The next hop that requests it.
    pub nhop: NextHop,
    /// The filter spec; none for all senders.
    pub sender: Option<SenderTemplate>,
    /// The flowspec.
    pub flowspec: Flowspec,
    /// When the state times out unless it is refreshed; never for an application on this host.
    pub expires: Instant,
}

/// One reservation that traffic control has installed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcsbStatus {
    /// The interface.
    pub interface: InterfaceId,
    /// The handle from traffic control.
    pub rhandle: RHandle,
    /// The senders whose packets it serves.
    pub senders: Vec<SenderTemplate>,
    /// What was requested of traffic control.
    pub request: TcRequest,
}

/// One filter spec of the Resv state sent to a previous hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentResvStatus {
    /// The previous hop.
    pub phop: PreviousHop,
    /// The filter spec; none for all senders.
    pub sender: Option<SenderTemplate>,
    /// The flowspec.
    pub flowspec: Flowspec,
}

/// Blockade state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BsbStatus {
    /// The previous hop that rejected the request, or passed on a rejection.
    pub phop: PreviousHop,
    /// The filter spec; none for all senders.
    pub sender: Option<SenderTemplate>,
    /// Qb: requests that are not smaller are left out of merging.
    pub flowspec: Flowspec,
    /// When the blockade ends.
    pub until: Instant,
}

impl<T, R> Node<T, R> {
    /// All sessions.
    pub fn status(&self) -> Vec<SessionStatus> {
        let all = self.sessions.0.iter();
        all.map(|(key, state)| state.status(*key)).collect()
    }

    /// One session; its E_Police flag is ignored.
    pub fn status_of(&self, session: &Session) -> Option<SessionStatus> {
        let key = SessionKey::from(session);
        self.sessions.0.get(&key).map(|state| state.status(key))
    }
}

impl SessionState {
    fn status(&self, key: SessionKey) -> SessionStatus {
        SessionStatus {
            session: key.session(),
            style: self.style(),
            psbs: self.psb_status(),
            rsbs: self.rsb_status(),
            tcsbs: self.tcsb_status(),
            sent_resvs: self.sent_resv_status(),
            bsbs: self.bsb_status(),
        }
    }

    fn psb_status(&self) -> Vec<PsbStatus> {
        let all = self.psbs.iter().map(|(sender, psb)| PsbStatus {
            sender: *sender,
            tspec: psb.tspec,
            adspec: psb.adspec.clone(),
            phop: psb.phop,
            non_rsvp_hop: psb.non_rsvp_hop,
            outgoing: psb.outgoing.iter().map(|(interface, _)| *interface).collect(),
            local: psb.local,
            expires: psb.expires,
        });
        all.collect()
    }

    fn rsb_status(&self) -> Vec<RsbStatus> {
        let all = self.rsbs.iter().flat_map(|(nhop, rsb)| {
            rsb.entries.iter().map(|(sender, entry)| RsbStatus {
                nhop: *nhop,
                sender: *sender,
                flowspec: entry.flowspec,
                expires: entry.expires,
            })
        });
        all.collect()
    }

    fn tcsb_status(&self) -> Vec<TcsbStatus> {
        let all = self.tcsbs.iter().map(|((interface, _), tcsb)| TcsbStatus {
            interface: *interface,
            rhandle: tcsb.rhandle,
            senders: tcsb.senders.iter().copied().collect(),
            request: tcsb.request,
        });
        all.collect()
    }

    fn sent_resv_status(&self) -> Vec<SentResvStatus> {
        let all = self.sent_resvs.iter().flat_map(|(phop, sent)| {
            sent.flowspecs.iter().map(|(sender, flowspec)| SentResvStatus {
                phop: *phop,
                sender: *sender,
                flowspec: *flowspec,
            })
        });
        all.collect()
    }

    fn bsb_status(&self) -> Vec<BsbStatus> {
        let all = self.bsbs.iter().map(|((phop, sender), bsb)| BsbStatus {
            phop: *phop,
            sender: *sender,
            flowspec: bsb.flowspec,
            until: bsb.until,
        });
        all.collect()
    }
}
