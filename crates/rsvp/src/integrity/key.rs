//! Keys with their lifetimes, and the choice among several (RFC 2747, sections 2 and 5).

use core::fmt;
use core::net::IpAddr;
use engine::units::Instant;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha2::Sha256;

/// The algorithm of the keyed message digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// HMAC-SHA-256 (RFC 6234), 32 bytes.
    HmacSha256,
    /// HMAC-MD5 (RFC 2104), 16 bytes: for neighbours that support nothing else.
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

/// When a key is valid: from the first time, until just before the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyLifetime {
    /// For sending (KeyStartValid and KeyEndValid).
    pub send: (Instant, Instant),
    /// For receiving; wider than for sending, since clocks differ and messages take time.
    pub accept: (Instant, Instant),
}

impl KeyLifetime {
    /// Always valid.
    pub const ALWAYS: Self = Self {
        send: (Instant::START, Instant::NEVER),
        accept: (Instant::START, Instant::NEVER),
    };

    /// Whether the key is valid for sending.
    pub fn sends(&self, now: Instant) -> bool {
        self.send.0 <= now && now < self.send.1
    }

    /// Whether the key is valid for receiving.
    pub fn accepts(&self, now: Instant) -> bool {
        self.accept.0 <= now && now < self.accept.1
    }
}

/// Who sends with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyOwner {
    /// All nodes on the link, including this one.
    Shared,
    /// This node only.
    Local,
    /// This neighbour only.
    Neighbour(IpAddr),
}

/// Why a key is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadKey {
    /// The identifier exceeds 48 bits.
    Identifier,
    /// The secret is empty.
    Empty,
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identifier => "a key identifier has 48 bits: use one below 281474976710656",
            Self::Empty => "the secret of a key is empty: use at least one byte, better 32 random ones",
        })
    }
}

impl core::error::Error for BadKey {}

/// The HMAC state with the secret mixed in, cloned for each message.
#[derive(Clone)]
enum Digest {
    Sha256(Hmac<Sha256>),
    Md5(Hmac<Md5>),
}

/// A key: identifier, algorithm, secret and lifetime. `Debug` omits the secret.
#[derive(Clone)]
pub struct IntegrityKey {
    id: u64,
    algorithm: Algorithm,
    digest: Digest,
    lifetime: KeyLifetime,
    owner: KeyOwner,
}

impl fmt::Debug for IntegrityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntegrityKey")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .field("lifetime", &self.lifetime)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl IntegrityKey {
    /// A key with this 48-bit identifier.
    ///
    /// # Errors
    ///
    /// If the identifier is too large or the secret is empty.
    pub fn new(
        id: u64,
        algorithm: Algorithm,
        secret: &[u8],
        lifetime: KeyLifetime,
        owner: KeyOwner,
    ) -> Result<Self, BadKey> {
        if id >> 48 != 0 {
            return Err(BadKey::Identifier);
        }
        if secret.is_empty() {
            return Err(BadKey::Empty);
        }
        // HMAC accepts secrets of any length; if it did not, that would be a bad key too.
        let digest = match algorithm {
            Algorithm::HmacSha256 => Hmac::new_from_slice(secret).map(Digest::Sha256),
            Algorithm::HmacMd5 => Hmac::new_from_slice(secret).map(Digest::Md5),
        };
        Ok(Self {
            id,
            algorithm,
            digest: digest.map_err(|_| BadKey::Empty)?,
            lifetime,
            owner,
        })
    }

    /// The identifier, 48 bits.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The digest algorithm.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The lifetime.
    pub const fn lifetime(&self) -> &KeyLifetime {
        &self.lifetime
    }

    /// Whether this node ever sends with the key.
    pub(super) const fn sends(&self) -> bool {
        matches!(self.owner, KeyOwner::Shared | KeyOwner::Local)
    }

    /// Whether any neighbour's messages are verified with the key.
    pub(super) const fn verifies_any(&self) -> bool {
        matches!(self.owner, KeyOwner::Shared | KeyOwner::Neighbour(_))
    }

    /// Whether this neighbour's messages are verified with the key.
    pub(super) fn verifies_from(&self, from: IpAddr) -> bool {
        match self.owner {
            KeyOwner::Shared => true,
            KeyOwner::Local => false,
            KeyOwner::Neighbour(neighbour) => neighbour == from,
        }
    }

    /// The digest of a message.
    pub(super) fn digest(&self, message: &[u8]) -> Vec<u8> {
        match &self.digest {
            Digest::Sha256(mac) => mac.clone().chain_update(message).finalize().into_bytes().to_vec(),
            Digest::Md5(mac) => mac.clone().chain_update(message).finalize().into_bytes().to_vec(),
        }
    }

    /// Whether this is the digest of a message; compares in constant time.
    pub(super) fn verifies(&self, message: &[u8], digest: &[u8]) -> bool {
        let verified = match &self.digest {
            Digest::Sha256(mac) => mac.clone().chain_update(message).verify_slice(digest),
            Digest::Md5(mac) => mac.clone().chain_update(message).verify_slice(digest),
        };
        verified.is_ok()
    }
}

/// The key to send with: of the valid keys the one with the latest start; without a valid key, the
/// one that ended last.
pub(super) fn sending(keys: &[IntegrityKey], now: Instant) -> Option<&IntegrityKey> {
    let begun = |key: &&IntegrityKey| key.sends() && key.lifetime.send.0 <= now;
    let begun = keys.iter().filter(begun);
    let valid = begun.clone().filter(|key| key.lifetime.sends(now));
    valid
        .max_by_key(|key| (key.lifetime.send.0, key.id))
        .or_else(|| begun.max_by_key(|key| (key.lifetime.send.1, key.id)))
}

/// Whether messages with this key are accepted: while it is valid, and afterwards as long as no
/// other key of the same owner has taken over.
pub(super) fn in_force(keys: &[IntegrityKey], key: &IntegrityKey, now: Instant) -> bool {
    if key.lifetime.accepts(now) {
        return true;
    }
    let same_owner = |other: &&IntegrityKey| key.owner == other.owner;
    let begun = |other: &&IntegrityKey| other.lifetime.accept.0 <= now;
    let last = keys
        .iter()
        .filter(same_owner)
        .filter(begun)
        .max_by_key(|other| (other.lifetime.accept.1, other.id));
    last.is_some_and(|last| last.id == key.id)
}
