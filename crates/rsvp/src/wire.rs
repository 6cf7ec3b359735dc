//! Messages as bytes and as types: [`Frame::decode`] and [`Frame::encode`] are each other's inverse.
//!
//! Follows RFC 2205 section 3.1 and appendix A (header, messages, objects), section 3.10 (classes that are not
//! known), RFC 2210 (IntServ contents), RFC 2747 and 3097 (INTEGRITY, challenges) and RFC 2961 (message identifiers).
//!
//! Reading is strict: a length, a reserved word that carries meaning, or an object out of its place makes the message
//! malformed, and a malformed message is not answered. What RFC 2205 wants answered (an unknown class or C-Type,
//! IntServ contents out of range, an unknown style) is an [`ErrorCode`] and comes with the rest of the message, so
//! that an error message can be made from it. All that is allocated is bounded by the 64 KiB of a message.
//!
//! Departures: objects may come in any order except that INTEGRITY is first and that STYLE and what follows it are
//! last. A Path must name its sender. An object twice, or one that its message does not have, is malformed.

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

pub use adspec::{Adspec, Fragment, Parameter};
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
