//! RSVP's error codes in words (RFC 2205, appendix B).

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
