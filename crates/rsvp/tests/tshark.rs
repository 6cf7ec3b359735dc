//! Wireshark decodes our messages as intended: every type of message and object, IPv4 and IPv6,
//! field by field.
//!
//! `packages.sh` installs tshark for `./test`. Without it these tests are reported as skipped and
//! assert nothing.

#[path = "tshark/capture.rs"]
mod capture;
#[path = "tshark/kinds.rs"]
mod kinds;
#[path = "tshark/objects.rs"]
mod objects;
