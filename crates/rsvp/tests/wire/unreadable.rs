//! The answer to a message with an object of an unknown C-Type: the objects that an error message
//! of that kind may have, as they came, and no others.

use core::net::{IpAddr, Ipv4Addr};
use rsvp::wire::{DecodeError, ErrorCode, Frame, Hop, Malformed, UnreadableMessage};

const PATH: u8 = 1;
const RESV: u8 = 2;
/// SESSION of RSVP-TE, C-Type 7 (RFC 3209, section 4.6.1.1).
const TUNNEL: &[u8] = &[0, 16, 1, 7, 10, 0, 9, 2, 0, 0, 0, 5, 10, 0, 0, 1];
const SESSION: &[u8] = &[0, 12, 1, 1, 10, 0, 9, 2, 17, 0, 0x13, 0x88];
const HOP: &[u8] = &[0, 12, 3, 1, 10, 0, 0, 1, 0, 0, 0, 7];
const TIME: &[u8] = &[0, 8, 5, 1, 0, 0, 0x75, 0x30];
const SCOPE: &[u8] = &[0, 8, 7, 1, 10, 0, 8, 1];
const POLICY: &[u8] = &[0, 8, 14, 1, 1, 2, 3, 4];
const CONFIRM: &[u8] = &[0, 8, 15, 1, 10, 0, 9, 2];
const FORWARDED: &[u8] = &[0, 8, 200, 1, 5, 6, 7, 8];
const TEMPLATE: &[u8] = &[0, 12, 11, 7, 10, 0, 0, 1, 0, 0, 0x0f, 0xa0];
const TSPEC: &[u8] = &[0, 8, 12, 2, 9, 9, 9, 9];
const ADSPEC: &[u8] = &[0, 8, 13, 2, 8, 8, 8, 8];
/// A STYLE that nobody knows, and what comes after it.
const STYLE: &[u8] = &[0, 8, 8, 9, 0, 0, 0, 0x0a];
const FLOWSPEC: &[u8] = &[0, 8, 9, 2, 7, 7, 7, 7];
const FILTER: &[u8] = &[0, 12, 10, 7, 10, 0, 0, 1, 0, 0, 0x0f, 0xa0];

const US: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// A message of this type, without a checksum.
fn message(kind: u8, objects: &[&[u8]]) -> Vec<u8> {
    let body = objects.concat();
    let length = u8::try_from(body.len() + 8).expect("it is short");
    let mut bytes = vec![0x10, kind, 0, 0, 63, 0, 0, length];
    bytes.extend(body);
    bytes
}

#[track_caller]
fn unreadable(bytes: &[u8]) -> UnreadableMessage {
    match Frame::decode(bytes) {
        Err(DecodeError::Unreadable(unreadable)) => *unreadable,
        other => panic!("it is readable: {other:?}"),
    }
}

/// Asserts that the answer is a message of this type with these objects, and its checksum.
#[track_caller]
fn answered(unreadable: &UnreadableMessage, kind: u8, objects: &[&[u8]]) {
    let mut answer = unreadable.answer(US, 64).expect("it fits");
    assert_ne!(answer[2..4], [0, 0]);
    answer[2..4].fill(0);
    let mut expected = message(kind, objects);
    expected[4] = 64;
    assert_eq!(answer, expected);
}

fn error(class: u8, c_type: u8) -> Vec<u8> {
    vec![0, 12, 6, 1, 10, 0, 0, 2, 0, 14, class, c_type]
}

#[test]
fn rfc_2205_3_1_7_the_answer_to_a_path_has_its_policy_and_its_sender() {
    // Neither TIME_VALUES nor SCOPE nor RESV_CONFIRM belongs into a PathErr.
    let objects = [
        TUNNEL, HOP, TIME, SCOPE, CONFIRM, POLICY, FORWARDED, TEMPLATE, TSPEC, ADSPEC,
    ];
    let unreadable = unreadable(&message(PATH, &objects));
    assert_eq!(
        unreadable.error,
        ErrorCode {
            code: 14,
            value: 0x0107
        }
    );
    let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(
        (unreadable.hop, unreadable.lih()),
        (Hop { address, lih: 7 }, None)
    );
    let error = error(1, 7);
    answered(&unreadable, 3, &[TUNNEL, &error, POLICY, TEMPLATE, TSPEC, ADSPEC]);
}

#[test]
fn rfc_2205_3_1_8_the_answer_to_a_resv_has_its_scope_and_its_flow_descriptors() {
    // A sender descriptor does not belong into a ResvErr.
    let objects = [
        SESSION, HOP, TIME, CONFIRM, SCOPE, TSPEC, ADSPEC, POLICY, STYLE, FLOWSPEC, FILTER,
    ];
    let unreadable = unreadable(&message(RESV, &objects));
    assert_eq!((unreadable.error.value, unreadable.lih()), (0x0809, Some(7)));
    let ours: &[u8] = &[0, 12, 3, 1, 10, 0, 0, 2, 0, 0, 0, 7];
    let error = error(8, 9);
    let rest = [SCOPE, POLICY, STYLE, FLOWSPEC, FILTER];
    answered(&unreadable, 4, &[&[SESSION, ours, &error][..], &rest].concat());
}

#[test]
fn what_names_no_hop_or_no_session_is_not_answered() {
    for (objects, missing) in [(&[TUNNEL, TIME, TEMPLATE][..], 1), (&[HOP, TIME, TEMPLATE], 1)] {
        assert_eq!(
            Frame::decode(&message(PATH, objects)),
            Err(DecodeError::Malformed(Malformed::Missing(missing)))
        );
    }
    // Nor is anything but a Path or a Resv.
    for kind in [3, 4, 5, 6, 7] {
        let bytes = message(kind, &[TUNNEL, HOP, &error(1, 7), TEMPLATE, TSPEC]);
        assert_eq!(
            Frame::decode(&bytes),
            Err(DecodeError::Malformed(Malformed::Missing(1))),
            "{kind}"
        );
    }
}
