//! The answer to a Path or Resv that cannot be decoded because of an unknown C-Type: a PathErr or
//! ResvErr with error 14, in which the objects stand as they came (RFC 2205, sections 3.1.7, 3.1.8
//! and 3.10).
//!
//! Without this a neighbour that speaks another RSVP, such as RSVP-TE with its C-Type 7 of SESSION,
//! would not hear why nothing is reserved.

use super::class;
use super::encode::{TooLong, assemble};
use super::error_spec::{ErrorCode, ErrorSpec};
use super::hop::Hop;
use super::object::{Opaque, Raw};
use super::reader::Reader;
use core::net::IpAddr;

/// A Path or Resv with an object that cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadableMessage {
    /// The error, with the class and C-Type of the object.
    pub error: ErrorCode,
    /// The node that sent it: the answer goes there.
    pub hop: Hop,
    is_resv: bool,
    session: Opaque,
    /// The objects that the answer has behind ERROR_SPEC.
    rest: Vec<Opaque>,
}

const PATH: u8 = 1;
const RESV: u8 = 2;
const PATH_ERR: u8 = 3;
const RESV_ERR: u8 = 4;

impl UnreadableMessage {
    /// From the objects of a message of this type; none if it is not answered, or names no hop that
    /// could be.
    pub(super) fn read(kind: u8, mut body: Reader<'_>, error: ErrorCode) -> Option<Self> {
        if kind != PATH && kind != RESV {
            return None;
        }
        let (mut session, mut hop, mut rest) = (None, None, Vec::new());
        let mut behind_style = false;
        while !body.is_empty() {
            let raw = Raw::next(&mut body).ok()?;
            behind_style |= raw.class == class::STYLE;
            match raw.class {
                class::SESSION => session = Some(raw.opaque()),
                class::HOP => hop = Some(raw.read::<Hop>().ok()?),
                class::POLICY_DATA => rest.push(raw.opaque()),
                class::SENDER_TEMPLATE | class::SENDER_TSPEC | class::ADSPEC if kind == PATH => {
                    rest.push(raw.opaque());
                }
                class::SCOPE if kind == RESV => rest.push(raw.opaque()),
                _ if behind_style => rest.push(raw.opaque()),
                _ => {}
            }
        }
        Some(Self {
            error,
            hop: hop?,
            is_resv: kind == RESV,
            session: session?,
            rest,
        })
    }

    /// The interface of ours that the sender of a Resv names.
    pub const fn lih(&self) -> Option<u32> {
        if self.is_resv { Some(self.hop.lih) } else { None }
    }

    /// The answer of this node, with this TTL.
    ///
    /// # Errors
    ///
    /// If the answer is longer than a message may be.
    pub fn answer(&self, node: IpAddr, ttl: u8) -> Result<Vec<u8>, TooLong> {
        let kind = if self.is_resv { RESV_ERR } else { PATH_ERR };
        let hop = self.is_resv.then_some(Hop {
            address: node,
            lih: self.hop.lih,
        });
        assemble(kind, ttl, |out| {
            out.opaque(core::slice::from_ref(&self.session));
            out.maybe(class::HOP, hop.as_ref());
            out.put(class::ERROR_SPEC, &ErrorSpec::new(node, self.error));
            out.opaque(&self.rest);
        })
    }
}
