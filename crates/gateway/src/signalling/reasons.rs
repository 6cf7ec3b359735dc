//! RSVP's error codes in words (RFC 2205, appendix B), and why a message was not believed (RFC 2747), with what to do.

use rsvp::integrity::IntegrityFailure;
use rsvp::wire::{code, value};

/// What an error code and its value mean.
pub fn reason(code: u8, value: u16) -> String {
    let known = match (code, value) {
        (code::CONFIRMATION, _) => "no error",
        (code::ADMISSION, value::DELAY) => "the delay cannot be promised beside what others were promised",
        (code::ADMISSION, value::BANDWIDTH) => "there is not that much bandwidth left",
        (code::ADMISSION, value::MTU) => "the longest packet does not fit the link",
        (code::ADMISSION, _) => "admission was refused",
        (code::POLICY, _) => {
            "a rule forbids it: the receiver does not accept it, or a router's owner does not"
        }
        (code::NO_PATH, _) => "no Path has come there",
        (code::NO_SENDER, _) => "the sender is not known there",
        (code::CONFLICTING_STYLE, _) => "others have reserved in another style",
        (code::UNKNOWN_STYLE, _) => "the style is not known there",
        (code::CONFLICTING_DESTINATION_PORTS, _) => "others reserve for the same host with and without ports",
        (code::CONFLICTING_SENDER_PORTS, _) => "a source port without a destination port",
        (code::PREEMPTED, _) => "something more important has taken its place",
        (code::UNKNOWN_CLASS, _) => "an object of an unknown class",
        (code::UNKNOWN_C_TYPE, _) => "an object of an unknown type",
        (code::TRAFFIC_CONTROL, value::SERVICE_CONFLICT) => {
            "another kind of service is reserved for the same flow"
        }
        (code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED) => {
            "this kind of service is not offered: a delay needs `drr` or `cbq` with a `delay`, and any a managed interface"
        }
        (code::TRAFFIC_CONTROL, _) => "traffic control does not accept the request",
        (code::TRAFFIC_CONTROL_SYSTEM, _) => "traffic control has failed",
        (code::SYSTEM, _) => "the node has failed, or is full",
        _ => return format!("error {code}, value {value}"),
    };
    known.into()
}

/// Why messages of a neighbour are dropped: a word for programs, and what it means and what to do.
pub const fn dropped(reason: IntegrityFailure) -> (&'static str, &'static str) {
    match reason {
        IntegrityFailure::Malformed => ("malformed", "they are no RSVP"),
        IntegrityFailure::Missing => (
            "missing",
            "they have no key, and must: give that node the key (`keys`), or name it in `unprotected` here",
        ),
        IntegrityFailure::UnknownKey => (
            "unknown-key",
            "there is no key of their number here: both nodes need it in their files of keys",
        ),
        IntegrityFailure::KeyNotValid => (
            "key-not-in-force",
            "their key has not begun, or has ended: look at `begins` and `ends`, and at the clocks of both nodes",
        ),
        IntegrityFailure::Digest => (
            "wrong-key",
            "their key has another secret there than here: give both nodes the same one (or somebody alters them on the way)",
        ),
        IntegrityFailure::WrongNeighbour => (
            "foreign",
            "their key is another neighbour's: look at `whose` in the file of keys",
        ),
        IntegrityFailure::Reflected => (
            "reflected",
            "they claim to be this node's own: somebody sends them back",
        ),
        IntegrityFailure::Replayed => (
            "replayed",
            "they, or later ones, were heard before: somebody repeats them, or that node's clock has gone back; then set it \
             right, or give it a new key",
        ),
        IntegrityFailure::Unsynchronised => (
            "unsynchronised",
            "that node has not answered yet when asked where its count of messages is: does it hear this one?",
        ),
        IntegrityFailure::Challenge => ("challenge", "they answer what was not asked, or ask too often"),
        IntegrityFailure::Full => ("full", "as many neighbours as may be are remembered already"),
    }
}
