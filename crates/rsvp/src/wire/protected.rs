//! Inserts INTEGRITY into encoded messages, and finds it there (RFC 2747, sections 2 and 4).
//!
//! The digest covers the whole message, with the checksum and the digest itself zero. The checksum
//! is computed afterwards, so that it is correct for receivers that check it first.

use super::hop::Hop;
use super::integrity::Integrity;
use super::object::{Object, Raw};
use super::reader::Reader;
use super::{Malformed, TooLong, checksum, class};
use core::net::IpAddr;

/// The offset of the digest: common header, object header, and the fields before it.
const BEFORE_DIGEST: usize = 8 + 4 + 16;

/// The INTEGRITY of a message.
pub(crate) struct Protected {
    /// The object.
    pub integrity: Integrity,
    /// The bytes that the digest covers.
    pub covered: Vec<u8>,
}

/// The type of an encoded message.
pub(crate) fn message_type(message: &[u8]) -> Option<u8> {
    message.get(1).copied()
}

/// Finds INTEGRITY in a message; none unless it is the first object.
pub(crate) fn find(message: &[u8]) -> Result<Option<Protected>, Malformed> {
    let header: [u8; 8] = *message.first_chunk().ok_or(Malformed::Truncated)?;
    if header[0] >> 4 != 1 {
        return Err(Malformed::Version(header[0] >> 4));
    }
    if usize::from(u16::from_be_bytes([header[6], header[7]])) != message.len() {
        return Err(Malformed::Length);
    }
    let mut body = Reader(&message[8..]);
    // The header of a bundle may be followed by a message, which starts with the version and not
    // with a length.
    if body.0.first().is_none_or(|byte| byte >> 4 != 0) {
        return Ok(None);
    }
    let raw = Raw::next(&mut body).map_err(|_| Malformed::Length)?;
    if raw.class != class::INTEGRITY {
        return Ok(None);
    }
    let integrity: Integrity = raw.read().map_err(|_| Malformed::Contents(class::INTEGRITY))?;
    let mut covered = message.to_vec();
    covered[2..4].fill(0);
    covered[BEFORE_DIGEST..BEFORE_DIGEST + integrity.digest.len()].fill(0);
    Ok(Some(Protected { integrity, covered }))
}

/// Inserts INTEGRITY into a message that has none. Its digest is zeros of the right length;
/// `digest` computes the real one.
pub(crate) fn protect(
    message: &[u8],
    integrity: &Integrity,
    digest: impl FnOnce(&[u8]) -> Vec<u8>,
) -> Result<Vec<u8>, TooLong> {
    let (header, body) = message.split_at_checked(8).ok_or(TooLong)?;
    let mut contents = Vec::new();
    integrity.write(&mut contents);
    let object = u16::try_from(contents.len() + 4).map_err(|_| TooLong)?;
    let length = u16::try_from(message.len() + contents.len() + 4).map_err(|_| TooLong)?;
    let mut out = Vec::with_capacity(usize::from(length));
    out.extend(header);
    out[2..4].fill(0);
    out[6..8].copy_from_slice(&length.to_be_bytes());
    out.extend(object.to_be_bytes());
    out.extend([class::INTEGRITY, integrity.c_type()]);
    out.extend(contents);
    out.extend(body);
    let computed = digest(&out);
    out[BEFORE_DIGEST..BEFORE_DIGEST + computed.len()].copy_from_slice(&computed);
    let sum = checksum::of(&out);
    out[2..4].copy_from_slice(&sum.to_be_bytes());
    Ok(out)
}

/// The neighbour that a message names in RSVP_HOP.
pub(crate) fn hop(message: &[u8]) -> Option<IpAddr> {
    let mut body = Reader(message.get(8..)?);
    if body.0.first()? >> 4 != 0 {
        return None;
    }
    while let Ok(raw) = Raw::next(&mut body) {
        if raw.class == class::HOP {
            return raw.read::<Hop>().ok().map(|hop| hop.address);
        }
    }
    None
}
