//! RSVP messages as bytes and as types: [`Frame::decode`] and [`Frame::encode`] are inverses.
//!
//! Follows RFC 2205, section 3.1 and appendix A (header, messages, objects) and section 3.10
//! (unknown classes), RFC 2210 (IntServ contents), RFCs 2747 and 3097 (INTEGRITY, challenges) and
//! RFC 2961 (MESSAGE_ID).
//!
//! Decoding is strict: a wrong length, an invalid field or a misplaced object makes the message
//! [`Malformed`], and a malformed message is not answered. What RFC 2205 wants answered (an unknown
//! class or C-Type, IntServ contents out of range, an unknown style) is
//! [`DecodeError::Reportable`]; the rest of the message comes with it, so that an error message can
//! be made from it. Where an object that the message needs has an unknown C-Type, it is
//! [`DecodeError::Unreadable`], with the objects as they came. All allocation is bounded by the
//! 64 KiB of a message.
//!
//! Departures: objects may come in any order, except that INTEGRITY is first and that STYLE and the
//! flow descriptors are last. A Path must have a SENDER_TEMPLATE. A duplicate object, or one that
//! does not belong to the message type, makes the message malformed.

mod adspec;
mod checksum;
mod class;
mod decode;
mod encode;
mod error_spec;
mod hop;
mod integrity;
mod intserv;
mod message;
mod object;
pub(crate) mod protected;
mod reader;
mod reduction;
mod session;
mod style;
mod unreadable;

pub use adspec::{Adspec, AdspecFragment, Parameter};
pub use decode::{DecodeError, Malformed};
pub use encode::TooLong;
pub use error_spec::{ErrorCode, ErrorSpec, code, value};
pub use hop::{Hop, Refresh, Scope};
pub use integrity::{Challenge, Integrity};
pub use intserv::{Content, Flowspec, Real, TokenBucket};
pub use message::{
    Frame, Message, Path, PathErr, PathTear, Resv, ResvConf, ResvErr, ResvTear, SenderDescriptor,
};
pub use object::Opaque;
pub use reduction::{MessageId, MessageIdAck, MessageIdList, MessageIds};
pub use session::{SenderTemplate, Session};
pub use style::{Descriptors, Style};
pub use unreadable::UnreadableMessage;
