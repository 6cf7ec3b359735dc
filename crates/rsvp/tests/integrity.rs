//! INTEGRITY: only messages with the key are accepted, and each only once.

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
