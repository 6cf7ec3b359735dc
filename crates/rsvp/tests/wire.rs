//! The bytes of RSVP: any message survives encoding and decoding, arbitrary bytes do no harm, and
//! the layout follows the RFCs.

#[path = "wire/arbitrary.rs"]
mod arbitrary;
#[path = "wire/roundtrip.rs"]
mod roundtrip;
#[path = "wire/strict.rs"]
mod strict;
#[path = "wire/unreadable.rs"]
mod unreadable;
#[path = "wire/vectors.rs"]
mod vectors;
