//! INTEGRITY (RFC 2747, section 2). The digest is carried; its length tells the algorithms apart.

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

impl Object for Integrity {
    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend([if self.handshake { HANDSHAKE } else { 0 }, 0]);
        out.extend(&self.key.to_be_bytes()[2..]);
        out.extend(self.sequence.to_be_bytes());
        out.extend(&self.digest);
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        if c_type != 1 {
            return Err(Misread::CType);
        }
        let (flags, _reserved) = (body.u8()?, body.u8()?);
        let [a, b, c, d, e, f] = body.array::<6>()?;
        let sequence = body.u64()?;
        let digest = body.take(body.0.len())?.to_vec();
        if digest.is_empty() {
            return Err(Misread::Length);
        }
        Ok(Self {
            handshake: flags & HANDSHAKE != 0,
            key: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            sequence,
            digest,
        })
    }
}
