//! Wireshark reads our messages as they are meant: every kind of message and object, IPv4 and IPv6,
//! field by field.
//!
//! `packages.sh` installs tshark for `./test`. Where it is missing these tests say so and hold
//! nothing.

#[path = "tshark/capture.rs"]
mod capture;
#[path = "tshark/kinds.rs"]
mod kinds;
#[path = "tshark/objects.rs"]
mod objects;
