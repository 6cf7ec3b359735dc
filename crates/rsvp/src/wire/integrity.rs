//! INTEGRITY and CHALLENGE (RFC 2747, sections 2 and 4.3). [`crate::integrity`] computes the
//! digest.

use super::object::Object;
use super::reader::{Misread, Reader};

/// INTEGRITY: key, sequence number and digest of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Integrity {
    /// The handshake flag: the sender answers challenges.
    pub handshake: bool,
    /// The key identifier, 48 bits, unique to the sender.
    pub key: u64,
    /// The sequence number; grows with each message, against replay.
    pub sequence: u64,
    /// The keyed digest, in whole words.
    pub digest: Vec<u8>,
}

const HANDSHAKE: u8 = 0x80;

/// CHALLENGE: asks a neighbour for its sequence number, or comes back in the response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// The identifier of the key in question, 48 bits.
    pub key: u64,
    /// The challenge cookie: unpredictable and never repeated, so that no old response fits; in
    /// whole words.
    pub cookie: Vec<u8>,
}

fn write_key(key: u64, out: &mut Vec<u8>) {
    out.extend(&key.to_be_bytes()[2..]);
}

fn read_key(body: &mut Reader<'_>) -> Result<u64, Misread> {
    let [a, b, c, d, e, f] = body.array::<6>()?;
    Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

/// The rest, which must not be empty.
fn rest(body: &mut Reader<'_>) -> Result<Vec<u8>, Misread> {
    match body.take(body.0.len())? {
        [] => Err(Misread::Length),
        rest => Ok(rest.to_vec()),
    }
}

impl Object for Challenge {
    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend([0, 0]);
        write_key(self.key, out);
        out.extend(&self.cookie);
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        if c_type != 1 {
            return Err(Misread::CType);
        }
        let _reserved = body.u16()?;
        let key = read_key(body)?;
        let cookie = rest(body)?;
        Ok(Self { key, cookie })
    }
}

impl Object for Integrity {
    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend([if self.handshake { HANDSHAKE } else { 0 }, 0]);
        write_key(self.key, out);
        out.extend(self.sequence.to_be_bytes());
        out.extend(&self.digest);
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        if c_type != 1 {
            return Err(Misread::CType);
        }
        let (flags, _reserved) = (body.u8()?, body.u8()?);
        let key = read_key(body)?;
        let sequence = body.u64()?;
        let digest = rest(body)?;
        Ok(Self {
            handshake: flags & HANDSHAKE != 0,
            key,
            sequence,
            digest,
        })
    }
}
