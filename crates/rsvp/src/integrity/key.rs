//! Keys with their times, and which of several is used (RFC 2747, sections 2 and 5).

use core::fmt;
use core::net::IpAddr;
use engine::units::Instant;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha2::Sha256;

/// How a digest is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// HMAC-SHA-256 (RFC 6234), 32 bytes.
    HmacSha256,
    /// HMAC-MD5 (RFC 2104), 16 bytes: for neighbours that know no other.
    HmacMd5,
}

impl Algorithm {
    /// The length of its digests in bytes.
    pub const fn length(self) -> usize {
        match self {
            Self::HmacSha256 => 32,
            Self::HmacMd5 => 16,
        }
    }
}

/// When a key is used: from the first time on, until before the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lifetime {
    /// To send.
    pub send: (Instant, Instant),
    /// To accept; wider than to send, for clocks differ and messages take time.
    pub accept: (Instant, Instant),
}

impl Lifetime {
    /// From the beginning and without an end.
    pub const ALWAYS: Self = Self {
        send: (Instant::START, Instant::NEVER),
        accept: (Instant::START, Instant::NEVER),
    };

    /// Whether it is in its time to send.
    pub fn sends(&self, now: Instant) -> bool {
        self.send.0 <= now && now < self.send.1
    }

    /// Whether it is in its time to accept.
    pub fn accepts(&self, now: Instant) -> bool {
        self.accept.0 <= now && now < self.accept.1
    }
}

/// Whose key it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Of all nodes on the link, this one too.
    Shared,
    /// This node's alone: it sends with it.
    Ours,
    /// This neighbour's alone: what it sends is verified with it.
    Of(IpAddr),
}

/// Why there is no such key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadKey {
    /// An identifier has 48 bits.
    Identifier,
    /// A secret is not empty.
    Empty,
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identifier => "the identifier of a key has 48 bits: give one below 281474976710656",
            Self::Empty => "the secret of a key is empty: give at least one byte, better 32 random ones",
        })
    }
}

impl core::error::Error for BadKey {}

/// A state of the digest with the secret in it already, to be copied for each message.
#[derive(Clone)]
enum Digest {
    Sha256(Hmac<Sha256>),
    Md5(Hmac<Md5>),
}

/// A secret with its name. Its text does not show the secret.
#[derive(Clone)]
pub struct Key {
    id: u64,
    algorithm: Algorithm,
    digest: Digest,
    lifetime: Lifetime,
    whose: Use,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .field("lifetime", &self.lifetime)
            .field("whose", &self.whose)
            .finish_non_exhaustive()
    }
}

impl Key {
    /// A key of these 48 bits' name.
    pub fn new(
        id: u64,
        algorithm: Algorithm,
        secret: &[u8],
        lifetime: Lifetime,
        whose: Use,
    ) -> Result<Self, BadKey> {
        if id >> 48 != 0 {
            return Err(BadKey::Identifier);
        }
        if secret.is_empty() {
            return Err(BadKey::Empty);
        }
        // HMAC takes secrets of every length; if it did not, that would be a bad key too.
        let digest = match algorithm {
            Algorithm::HmacSha256 => Hmac::new_from_slice(secret).map(Digest::Sha256),
            Algorithm::HmacMd5 => Hmac::new_from_slice(secret).map(Digest::Md5),
        };
        Ok(Self {
            id,
            algorithm,
            digest: digest.map_err(|_| BadKey::Empty)?,
            lifetime,
            whose,
        })
    }

    /// Its name, 48 bits.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// How its digests are made.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// When it is used.
    pub const fn lifetime(&self) -> &Lifetime {
        &self.lifetime
    }

    /// Whether this node sends with it at some time.
    pub(super) const fn sends(&self) -> bool {
        matches!(self.whose, Use::Shared | Use::Ours)
    }

    /// Whether someone's messages are verified with it.
    pub(super) const fn accepts_anyone(&self) -> bool {
        matches!(self.whose, Use::Shared | Use::Of(_))
    }

    /// Whether this neighbour's are.
    pub(super) fn accepts(&self, from: IpAddr) -> bool {
        match self.whose {
            Use::Shared => true,
            Use::Ours => false,
            Use::Of(neighbour) => neighbour == from,
        }
    }

    /// The digest of a message.
    pub(super) fn digest(&self, message: &[u8]) -> Vec<u8> {
        match &self.digest {
            Digest::Sha256(mac) => mac.clone().chain_update(message).finalize().into_bytes().to_vec(),
            Digest::Md5(mac) => mac.clone().chain_update(message).finalize().into_bytes().to_vec(),
        }
    }

    /// Whether this is the digest of a message. Takes as long for a wrong one as for the right one.
    pub(super) fn verifies(&self, message: &[u8], digest: &[u8]) -> bool {
        let verified = match &self.digest {
            Digest::Sha256(mac) => mac.clone().chain_update(message).verify_slice(digest),
            Digest::Md5(mac) => mac.clone().chain_update(message).verify_slice(digest),
        };
        verified.is_ok()
    }
}

/// The key to send with: of those whose time it is the one that began last; when there is none, the one that ended last.
pub(super) fn sending(keys: &[Key], now: Instant) -> Option<&Key> {
    let begun = |key: &&Key| key.sends() && key.lifetime.send.0 <= now;
    let begun = keys.iter().filter(begun);
    let in_time = begun.clone().filter(|key| key.lifetime.sends(now));
    in_time
        .max_by_key(|key| (key.lifetime.send.0, key.id))
        .or_else(|| begun.max_by_key(|key| (key.lifetime.send.1, key.id)))
}

/// Whether messages with this key are accepted: in its time, and beyond it while there is no other for them.
pub(super) fn in_force(keys: &[Key], key: &Key, now: Instant) -> bool {
    if key.lifetime.accepts(now) {
        return true;
    }
    let alike = |other: &&Key| key.whose == other.whose;
    let begun = |other: &&Key| other.lifetime.accept.0 <= now;
    let last = keys
        .iter()
        .filter(alike)
        .filter(begun)
        .max_by_key(|other| (other.lifetime.accept.1, other.id));
    last.is_some_and(|last| last.id == key.id)
}
