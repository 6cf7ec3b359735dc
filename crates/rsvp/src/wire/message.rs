//! The messages (RFC 2205, section 3.1; RFC 2961, sections 3 to 5).

use super::adspec::Adspec;
use super::error_spec::ErrorSpec;
use super::hop::{Hop, Refresh, Scope};
use super::integrity::{Challenge, Integrity};
use super::intserv::{Content, Flowspec, TokenBucket};
use super::object::Opaque;
use super::reduction::{MessageId, MessageIdAck, MessageIdList};
use super::session::{SenderTemplate, Session};
use super::style::Descriptors;
use core::net::IpAddr;

/// A message, with the fields that any message may carry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Send_TTL: differs from the IP TTL after a hop without RSVP.
    pub send_ttl: u8,
    /// The refresh-reduction-capable flag of its sender (RFC 2961, section 2).
    pub refresh_reduction: bool,
    /// INTEGRITY.
    pub integrity: Option<Integrity>,
    /// MESSAGE_ID_ACK and MESSAGE_ID_NACK, for messages of ours.
    pub acknowledgements: Vec<MessageIdAck>,
    /// MESSAGE_ID.
    pub message_id: Option<MessageId>,
    /// The message itself.
    pub message: Message,
    /// Objects of unknown classes that are to be forwarded.
    pub forwarded: Vec<Opaque>,
}

impl Frame {
    /// A message without any of the optional fields.
    pub fn plain(send_ttl: u8, message: Message) -> Self {
        Self {
            send_ttl,
            refresh_reduction: false,
            integrity: None,
            acknowledgements: Vec::new(),
            message_id: None,
            message,
            forwarded: Vec::new(),
        }
    }
}

/// A message, by its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Path: a sender and its Tspec, towards the receivers.
    Path(Path),
    /// Resv: reservation requests, towards the senders.
    Resv(Resv),
    /// PathErr: a Path failed; towards the sender.
    PathErr(PathErr),
    /// ResvErr: a Resv failed; towards the receivers.
    ResvErr(ResvErr),
    /// PathTear: deletes path state.
    PathTear(PathTear),
    /// ResvTear: deletes reservation state.
    ResvTear(ResvTear),
    /// ResvConf: confirms a reservation whose Resv carried RESV_CONFIRM.
    ResvConf(ResvConf),
    /// Bundle: several messages, split but not decoded. None of them is a bundle.
    Bundle(Vec<Vec<u8>>),
    /// Ack: at least one acknowledgement.
    Ack,
    /// Srefresh: refreshes state by MESSAGE_ID; at least one list.
    Srefresh(Vec<MessageIdList>),
    /// Integrity Challenge: asks a neighbour for its sequence number (RFC 2747, section 4.3; type
    /// of RFC 3097).
    Challenge(Challenge),
    /// Integrity Response: the same CHALLENGE, with INTEGRITY.
    Response(Challenge),
}

/// A sender descriptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SenderDescriptor {
    /// SENDER_TEMPLATE.
    pub template: SenderTemplate,
    /// SENDER_TSPEC.
    pub tspec: Content<TokenBucket>,
    /// ADSPEC.
    pub adspec: Option<Content<Adspec>>,
}

/// Path: RFC 2205, section 3.1.3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// SESSION.
    pub session: Session,
    /// RSVP_HOP: the previous hop.
    pub hop: Hop,
    /// TIME_VALUES.
    pub refresh: Refresh,
    /// POLICY_DATA, not interpreted.
    pub policy: Vec<Opaque>,
    /// The sender descriptor.
    pub sender: SenderDescriptor,
}

/// Resv: RFC 2205, section 3.1.4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resv {
    /// SESSION.
    pub session: Session,
    /// RSVP_HOP: the next hop, with the LIH of the node that this goes to.
    pub hop: Hop,
    /// TIME_VALUES.
    pub refresh: Refresh,
    /// RESV_CONFIRM: the receiver that wants a confirmation.
    pub confirm: Option<IpAddr>,
    /// SCOPE.
    pub scope: Option<Scope>,
    /// POLICY_DATA, not interpreted.
    pub policy: Vec<Opaque>,
    /// STYLE and flow descriptors.
    pub descriptors: Descriptors<Content<Flowspec>>,
}

/// PathTear: RFC 2205, section 3.1.5. A Tspec or Adspec in it is ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathTear {
    /// SESSION.
    pub session: Session,
    /// RSVP_HOP: the previous hop.
    pub hop: Hop,
    /// SENDER_TEMPLATE.
    pub sender: SenderTemplate,
}

/// ResvTear: RFC 2205, section 3.1.6. Flowspecs in it are ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResvTear {
    /// SESSION.
    pub session: Session,
    /// RSVP_HOP: the next hop.
    pub hop: Hop,
    /// SCOPE.
    pub scope: Option<Scope>,
    /// STYLE and filter specs.
    pub descriptors: Descriptors<()>,
}

/// PathErr: RFC 2205, section 3.1.7.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathErr {
    /// SESSION of the Path.
    pub session: Session,
    /// ERROR_SPEC.
    pub error: ErrorSpec,
    /// POLICY_DATA, not interpreted.
    pub policy: Vec<Opaque>,
    /// The sender descriptor of the Path.
    pub sender: SenderDescriptor,
}

/// ResvErr: RFC 2205, section 3.1.8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResvErr {
    /// SESSION of the Resv.
    pub session: Session,
    /// RSVP_HOP: the node that sends this.
    pub hop: Hop,
    /// ERROR_SPEC.
    pub error: ErrorSpec,
    /// SCOPE of the Resv.
    pub scope: Option<Scope>,
    /// POLICY_DATA, not interpreted.
    pub policy: Vec<Opaque>,
    /// STYLE and the flow descriptors that failed.
    pub descriptors: Descriptors<Content<Flowspec>>,
}

/// ResvConf: RFC 2205, section 3.1.9.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResvConf {
    /// SESSION of the Resv.
    pub session: Session,
    /// ERROR_SPEC: code 0, and the node that confirms.
    pub error: ErrorSpec,
    /// RESV_CONFIRM: the receiver that asked for it.
    pub confirm: IpAddr,
    /// STYLE and the flow descriptors in force.
    pub descriptors: Descriptors<Content<Flowspec>>,
}

impl Message {
    /// Its type in the common header.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Path(_) => 1,
            Self::Resv(_) => 2,
            Self::PathErr(_) => 3,
            Self::ResvErr(_) => 4,
            Self::PathTear(_) => 5,
            Self::ResvTear(_) => 6,
            Self::ResvConf(_) => 7,
            Self::Bundle(_) => 12,
            Self::Ack => 13,
            Self::Srefresh(_) => 15,
            Self::Challenge(_) => 25,
            Self::Response(_) => 26,
        }
    }
}
