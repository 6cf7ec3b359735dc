//! Texts of error codes (RFC 2205, appendix B).

use crate::wire::{code, value};

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
            "the service is not offered: a delay needs `drr`, `cbq`, `hfsc`, `ips` or `pacer` with a `delay`, and any \
             service a managed interface"
        }
        (code::TRAFFIC_CONTROL, _) => "traffic control does not accept the request",
        (code::TRAFFIC_CONTROL_SYSTEM, _) => "traffic control has failed",
        (code::SYSTEM, _) => "the node has failed or is at its limit",
        _ => return format!("error {code}, value {value}"),
    };
    known.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_2205_b_each_code_has_its_own_text() {
        for (code, value, words) in [
            (0, 0, "no error"),
            (1, 1, "the delay cannot be guaranteed"),
            (1, 2, "the bandwidth is not available"),
            (1, 3, "exceeds the MTU"),
            (1, 0, "admission control refused"),
            (1, 4, "admission control refused"),
            (2, 0, "administrator forbids it"),
            (3, 0, "there is no path state"),
            (4, 0, "there is no path state for the sender"),
            (5, 0x0a, "another style"),
            (6, 0, "unknown style"),
            (7, 0, "with and without ports"),
            (8, 0, "a source port without a destination port"),
            (12, 0, "preempted"),
            (13, 0x6301, "an object of an unknown class"),
            (14, 0x0107, "an object of an unknown type"),
            (21, 1, "another service is reserved for the same flow"),
            (21, 2, "the service is not offered"),
            (21, 0, "traffic control does not accept the request"),
            (21, 3, "traffic control does not accept the request"),
            (22, 0, "traffic control has failed"),
            (23, 0, "the node has failed or is at its limit"),
        ] {
            let text = reason(code, value);
            assert!(text.contains(words), "{code}/{value}: {text}");
        }
        assert_eq!(reason(3, 0), "there is no path state");
    }

    #[test]
    fn an_unknown_code_is_told_in_numbers() {
        for (code, value) in [(9, 0), (11, 2), (15, 1), (20, 0), (24, 0), (255, 513)] {
            assert_eq!(reason(code, value), format!("error {code}, value {value}"));
        }
    }
}
