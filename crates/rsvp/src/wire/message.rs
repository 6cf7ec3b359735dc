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

/// One message with what any message may carry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The IP TTL that it was sent with; a hop without RSVP shows in the difference.
    pub send_ttl: u8,
    /// Its sender understands refresh reduction.
    pub refresh_reduction: bool,
    /// Who vouches for it.
    pub integrity: Option<Integrity>,
    /// What its sender has, or has not, seen of ours.
    pub acknowledgements: Vec<MessageIdAck>,
    /// Its name.
    pub message_id: Option<MessageId>,
    /// What it says.
    pub message: Message,
    /// Objects of unknown classes that are to be sent on.
    pub forwarded: Vec<Opaque>,
}

impl Frame {
    /// A message with nothing else in its frame.
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

/// What a message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A sender describes its traffic, towards the receivers.
    Path(Path),
    /// A receiver asks, towards the senders.
    Resv(Resv),
    /// A Path failed; towards the sender.
    PathErr(PathErr),
    /// A Resv failed; towards the receivers.
    ResvErr(ResvErr),
    /// A sender ends.
    PathTear(PathTear),
    /// A reservation ends.
    ResvTear(ResvTear),
    /// A reservation is there, as was asked to be confirmed.
    ResvConf(ResvConf),
    /// Messages in one datagram, split but not read: each is decoded by itself. None is a bundle.
    Bundle(Vec<Vec<u8>>),
    /// Acknowledgements alone; at least one.
    Ack,
    /// State named by these is refreshed; at least one list.
    Srefresh(Vec<MessageIdList>),
    /// Asks a neighbour for its place in its sequence of messages (RFC 2747, section 4.3; number of RFC 3097).
    Challenge(Challenge),
    /// The answer: the same challenge, with INTEGRITY.
    Response(Challenge),
}

/// A sender and its traffic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SenderDescriptor {
    /// Who sends.
    pub template: SenderTemplate,
    /// How much.
    pub tspec: Content<TokenBucket>,
    /// What the path offers.
    pub adspec: Option<Content<Adspec>>,
}

/// Path: RFC 2205, section 3.1.3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// Where the data go.
    pub session: Session,
    /// The node before.
    pub hop: Hop,
    /// How often it is repeated.
    pub refresh: Refresh,
    /// Carried unread.
    pub policy: Vec<Opaque>,
    /// Whose data.
    pub sender: SenderDescriptor,
}

/// Resv: RFC 2205, section 3.1.4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resv {
    /// What for.
    pub session: Session,
    /// The node behind, with the interface handle of the node that this goes to.
    pub hop: Hop,
    /// How often it is repeated.
    pub refresh: Refresh,
    /// The receiver that wants to hear of success.
    pub confirm: Option<IpAddr>,
    /// The senders that a wildcard is meant for.
    pub scope: Option<Scope>,
    /// Carried unread.
    pub policy: Vec<Opaque>,
    /// What is asked.
    pub descriptors: Descriptors<Content<Flowspec>>,
}

/// PathTear: RFC 2205, section 3.1.5. A Tspec or Adspec in it is read and forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathTear {
    /// Where the data went.
    pub session: Session,
    /// The node before.
    pub hop: Hop,
    /// Who sent.
    pub sender: SenderTemplate,
}

/// ResvTear: RFC 2205, section 3.1.6. Flowspecs in it are read and forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResvTear {
    /// What it was for.
    pub session: Session,
    /// The node behind.
    pub hop: Hop,
    /// The senders that a wildcard was meant for.
    pub scope: Option<Scope>,
    /// What ends.
    pub descriptors: Descriptors<()>,
}

/// PathErr: RFC 2205, section 3.1.7.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathErr {
    /// Of the Path.
    pub session: Session,
    /// What went wrong.
    pub error: ErrorSpec,
    /// Carried unread.
    pub policy: Vec<Opaque>,
    /// Of the Path.
    pub sender: SenderDescriptor,
}

/// ResvErr: RFC 2205, section 3.1.8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResvErr {
    /// Of the Resv.
    pub session: Session,
    /// The node that sends this.
    pub hop: Hop,
    /// What went wrong.
    pub error: ErrorSpec,
    /// Of the Resv.
    pub scope: Option<Scope>,
    /// Carried unread.
    pub policy: Vec<Opaque>,
    /// What failed.
    pub descriptors: Descriptors<Content<Flowspec>>,
}

/// ResvConf: RFC 2205, section 3.1.9.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResvConf {
    /// Of the Resv.
    pub session: Session,
    /// Code 0, and the node that confirms.
    pub error: ErrorSpec,
    /// The receiver that asked.
    pub confirm: IpAddr,
    /// What is confirmed.
    pub descriptors: Descriptors<Content<Flowspec>>,
}

impl Message {
    /// Its number in the common header.
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
