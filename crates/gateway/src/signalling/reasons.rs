//! Texts of error codes (RFC 2205, appendix B), and of failed integrity checks (RFC 2747), with
//! advice.

use rsvp::integrity::IntegrityFailure;
use rsvp::wire::{code, value};

/// The meaning of an error code and its value.
pub fn reason(code: u8, value: u16) -> String {
    let known = match (code, value) {
        (code::CONFIRMATION, _) => "no error",
        (code::ADMISSION, value::DELAY) => "the delay cannot be guaranteed on this path",
        (code::ADMISSION, value::BANDWIDTH) => "the bandwidth is not available",
        (code::ADMISSION, value::MTU) => "the longest packet exceeds the MTU of the link",
        (code::ADMISSION, _) => "admission control refused",
        (code::POLICY, _) => "a rule of the receiver or of a router's administrator forbids it",
        (code::NO_PATH, _) => "there is no path state",
        (code::NO_SENDER, _) => "there is no path state for the sender",
        (code::CONFLICTING_STYLE, _) => "there are reservations of another style",
        (code::UNKNOWN_STYLE, _) => "unknown style",
        (code::CONFLICTING_DESTINATION_PORTS, _) => {
            "there are reservations for the same host both with and without ports"
        }
        (code::CONFLICTING_SENDER_PORTS, _) => "a source port without a destination port",
        (code::PREEMPTED, _) => "it was preempted by a more important reservation",
        (code::UNKNOWN_CLASS, _) => "an object of an unknown class",
        (code::UNKNOWN_C_TYPE, _) => "an object of an unknown type",
        (code::TRAFFIC_CONTROL, value::SERVICE_CONFLICT) => "another service is reserved for the same flow",
        (code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED) => {
            "the service is not offered: a delay needs `drr` or `cbq` with a `delay`, and any service a managed interface"
        }
        (code::TRAFFIC_CONTROL, _) => "traffic control does not accept the request",
        (code::TRAFFIC_CONTROL_SYSTEM, _) => "traffic control has failed",
        (code::SYSTEM, _) => "the node has failed or is at its limit",
        _ => return format!("error {code}, value {value}"),
    };
    known.into()
}

/// Why messages of a neighbour are dropped: a machine-readable keyword, and its meaning with
/// advice.
pub const fn dropped(reason: IntegrityFailure) -> (&'static str, &'static str) {
    match reason {
        IntegrityFailure::Malformed => ("malformed", "they are not RSVP messages"),
        IntegrityFailure::Missing => (
            "missing",
            "they carry no INTEGRITY object, which is required: give that node the key (`keys`), or list it in `unprotected` here",
        ),
        IntegrityFailure::UnknownKey => (
            "unknown-key",
            "this node has no key with their identifier: both nodes need it in their key files",
        ),
        IntegrityFailure::KeyNotValid => (
            "key-not-in-force",
            "their key is not yet or no longer valid: check `begins` and `ends`, and the clocks of both nodes",
        ),
        IntegrityFailure::Digest => (
            "wrong-key",
            "the digest is wrong: give both nodes the same secret (or the messages are altered in transit)",
        ),
        IntegrityFailure::WrongNeighbour => (
            "foreign",
            "their key belongs to another neighbour: check `whose` in the key file",
        ),
        IntegrityFailure::Reflected => (
            "reflected",
            "they claim to come from this node: they are reflected",
        ),
        IntegrityFailure::Replayed => (
            "replayed",
            "they were received before: they are replayed, or that node's clock has gone back; then correct the clock, or give the node a new key",
        ),
        IntegrityFailure::Unsynchronised => (
            "unsynchronised",
            "that node has not responded to our challenge yet: does it receive our messages?",
        ),
        IntegrityFailure::Challenge => ("challenge", "unexpected responses, or too many challenges"),
        IntegrityFailure::Full => ("full", "the limit of neighbours is reached"),
    }
}
