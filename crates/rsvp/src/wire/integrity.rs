//! INTEGRITY and CHALLENGE (RFC 2747, sections 2 and 4.3). The digest is carried here; [`crate::integrity`] works it out.

use super::object::Object;
use super::reader::{Misread, Reader};

/// Who vouches for a message, its place in their sequence, and the digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Integrity {
    /// Set by nodes that answer challenges after a restart.
    pub handshake: bool,
    /// The key, 48 bits, unique to its sender.
    pub key: u64,
    /// Ever growing, against replay.
    pub sequence: u64,
    /// The keyed digest, in whole words.
    pub digest: Vec<u8>,
}

const HANDSHAKE: u8 = 0x80;

/// Asks for, or answers with, a place in a sequence: CHALLENGE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// The key whose sequence is asked for, 48 bits.
    pub key: u64,
    /// Unforeseeable and never used before, so that an old answer is of no use; in whole words.
    pub cookie: Vec<u8>,
}

fn write_key(key: u64, out: &mut Vec<u8>) {
    out.extend(&key.to_be_bytes()[2..]);
}

fn read_key(body: &mut Reader<'_>) -> Result<u64, Misread> {
    let [a, b, c, d, e, f] = body.array::<6>()?;
    Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

/// All that is left, and that is something.
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
