//! Suimon's RSVP: bandwidth that hosts ask for along a path, kept as soft state in every router on it.
//!
//! Follows RFC 2205 with the IntServ objects of RFC 2210, the message identifiers of RFC 2961 and the protection of
//! messages of RFC 2747. The crate does no input and output and knows no clock: bytes and times come in as arguments,
//! bytes go out. What is promised is kept in [`books`], over the engine's disciplines.

#![forbid(unsafe_code)]

pub mod books;
pub mod flowspec;
pub mod guaranteed;
pub mod integrity;
pub mod node;
pub mod reduction;
pub mod traffic_control;
pub mod wire;
