//! RSVP: hosts reserve bandwidth along a path, and each router on it keeps the reservation as soft
//! state.
//!
//! Follows RFC 2205, with the IntServ objects of RFC 2210, the MESSAGE_ID extensions of RFC 2961
//! and the message authentication of RFC 2747. The crate does no I/O and has no clock: bytes and
//! times come in as arguments, bytes go out. [`admission`] enforces reservations through the
//! engine's disciplines.

#![forbid(unsafe_code)]

pub mod admission;
pub mod flowspec;
pub mod guaranteed;
pub mod integrity;
pub mod node;
pub mod places;
pub mod reasons;
pub mod reduction;
pub mod request;
pub mod tape;
pub mod traffic_control;
pub mod wire;
