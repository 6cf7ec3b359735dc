//! INTEGRITY: only who knows the key is heard, and each message once.

#[path = "wire/arbitrary.rs"]
mod arbitrary;
#[path = "integrity/digest.rs"]
mod digest;
#[path = "integrity/keys.rs"]
mod keys;
#[path = "integrity/pair.rs"]
mod pair;
#[path = "integrity/sequence.rs"]
mod sequence;
