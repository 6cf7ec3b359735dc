//! Malformed messages are rejected with the reason; errors that RFC 2205 answers are returned as
//! objections.

use rsvp::wire::{Content, DecodeError, ErrorCode, Frame, Malformed, Message, Real};

const SESSION: &[u8] = &[0, 12, 1, 1, 10, 0, 9, 2, 17, 0, 0x13, 0x88];
const HOP: &[u8] = &[0, 12, 3, 1, 10, 0, 0, 1, 0, 0, 0, 7];
const TIME: &[u8] = &[0, 8, 5, 1, 0, 0, 0x75, 0x30];
const TEMPLATE: &[u8] = &[0, 12, 11, 1, 10, 0, 0, 1, 0, 0, 0x0f, 0xa0];
const FILTER: &[u8] = &[0, 12, 10, 1, 10, 0, 0, 1, 0, 0, 0x0f, 0xa0];
const FF: &[u8] = &[0, 8, 8, 1, 0, 0, 0, 0x0a];

fn message(kind: u8, objects: &[&[u8]]) -> Vec<u8> {
    let body = objects.concat();
    let length = u8::try_from(body.len() + 8).expect("it is short");
    let mut bytes = vec![0x10, kind, 0, 0, 63, 0, 0, length];
    bytes.extend(body);
    bytes
}

/// A token bucket parameter with these five words.
fn bucket(words: [u32; 5]) -> Vec<u8> {
    let mut bytes = vec![127, 0, 0, 5];
    bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    bytes
}

fn good() -> [u32; 5] {
    let rate = Real::nearest(1000).bits();
    [rate, rate, rate, 64, 1500]
}

fn tspec(words: [u32; 5]) -> Vec<u8> {
    [vec![0, 36, 12, 2, 0, 0, 0, 7, 1, 0, 0, 6], bucket(words)].concat()
}

fn flowspec(service: u8, words: [u32; 5]) -> Vec<u8> {
    [vec![0, 36, 9, 2, 0, 0, 0, 7, service, 0, 0, 6], bucket(words)].concat()
}

/// A Path with one more object before its sender.
fn path_with(object: &[u8]) -> Vec<u8> {
    message(1, &[SESSION, HOP, TIME, object, TEMPLATE, &tspec(good())])
}

#[track_caller]
fn flawed(bytes: &[u8], flaw: Malformed) {
    assert_eq!(Frame::decode(bytes), Err(DecodeError::Malformed(flaw)));
}

#[track_caller]
fn objected(bytes: &[u8], code: u8, value: u16) -> Frame {
    match Frame::decode(bytes) {
        Err(DecodeError::Reportable(objection, frame)) => {
            assert_eq!(objection, ErrorCode { code, value });
            *frame
        }
        other => panic!("no objection: {other:?}"),
    }
}

#[test]
fn rfc_2205_3_10_unknown_classes_are_rejected_ignored_or_forwarded_by_their_top_bits() {
    let whole = Frame::decode(&path_with(&[])).expect("a Path");
    for class in [2, 16, 63, 127] {
        let frame = objected(
            &path_with(&[0, 8, class, 9, 1, 2, 3, 4]),
            13,
            u16::from_be_bytes([class, 9]),
        );
        assert_eq!(frame, whole, "the known part is available for the reply");
    }
    for class in [128, 191] {
        assert_eq!(
            Frame::decode(&path_with(&[0, 8, class, 9, 1, 2, 3, 4])).as_ref(),
            Ok(&whole)
        );
    }
    for class in [192, 255] {
        let frame = Frame::decode(&path_with(&[0, 8, class, 9, 1, 2, 3, 4])).expect("a Path");
        let [object] = frame.forwarded.as_slice() else {
            panic!("class {class} is not forwarded");
        };
        assert_eq!(
            (object.class, object.c_type, object.data.as_slice()),
            (class, 9, &[1, 2, 3, 4][..])
        );
        assert_eq!(frame.message, whole.message);
    }
}

#[test]
fn rfc_2205_3_10_an_unknown_c_type_is_answered_with_class_and_c_type() {
    objected(&path_with(&[0, 8, 13, 1, 0, 0, 0, 0]), 14, 0x0d01);
    let bytes = message(
        2,
        &[
            SESSION,
            HOP,
            TIME,
            &[0, 8, 7, 9, 0, 0, 0, 0],
            FF,
            &flowspec(5, good()),
            FILTER,
        ],
    );
    objected(&bytes, 14, 0x0709);
}

#[test]
fn the_null_class_is_ignored_whatever_it_contains() {
    let whole = Frame::decode(&path_with(&[]));
    assert_eq!(Frame::decode(&path_with(&[0, 8, 0, 77, 1, 2, 3, 4])), whole);
}

#[test]
fn rfc_2210_contents_out_of_range_are_a_bad_tspec_or_flowspec() {
    let [rate, infinite] = [Real::nearest(1000).bits(), Real::INFINITE.bits()];
    let (nan, negative) = (f32::NAN.to_bits(), (-1.0f32).to_bits());
    for words in [
        [nan, rate, rate, 64, 1500],
        [rate, negative, rate, 64, 1500],
        [infinite, rate, infinite, 64, 1500],
        [rate, infinite, rate, 64, 1500],
        [rate, rate, Real::nearest(999).bits(), 64, 1500],
        [rate, rate, rate, 1501, 1500],
    ] {
        let frame = objected(&message(1, &[SESSION, HOP, TIME, TEMPLATE, &tspec(words)]), 21, 4);
        let Message::Path(path) = frame.message else {
            panic!("not a Path");
        };
        assert!(matches!(path.sender.tspec, Content::Raw { .. }));
        objected(
            &message(2, &[SESSION, HOP, TIME, FF, &flowspec(5, words), FILTER]),
            21,
            3,
        );
    }
    objected(
        &message(2, &[SESSION, HOP, TIME, FF, &flowspec(99, good()), FILTER]),
        21,
        2,
    );
}

#[test]
fn an_unknown_style_is_answered_with_the_received_objects() {
    let style: &[u8] = &[0, 8, 8, 1, 0, 0, 0, 0x1f];
    objected(
        &message(2, &[SESSION, HOP, TIME, style, &flowspec(5, good()), FILTER]),
        6,
        0,
    );
}

#[test]
fn malformed_messages_are_rejected_with_the_reason() {
    let tspec = tspec(good());
    let flow = flowspec(5, good());
    flawed(&[0x10, 1, 0, 0], Malformed::Truncated);
    flawed(&[0x20, 1, 0, 0, 0, 0, 0, 8], Malformed::Version(2));
    flawed(&[0x10, 99, 0, 0, 0, 0, 0, 8], Malformed::MessageType(99));
    flawed(&[0x10, 1, 0, 0, 0, 0, 0, 12], Malformed::Length);
    flawed(&[0x10, 1, 0, 1, 0, 0, 0, 8], Malformed::Checksum);
    flawed(&message(1, &[&[0, 0, 1, 1]]), Malformed::Length);
    flawed(&message(1, &[&[0, 200, 1, 1]]), Malformed::Length);
    flawed(&message(1, &[&[0, 8, 1, 1, 0, 0, 0, 0]]), Malformed::Contents(1));
    flawed(&message(1, &[SESSION, HOP, TIME]), Malformed::Missing(11));
    flawed(
        &message(1, &[SESSION, HOP, TIME, TEMPLATE]),
        Malformed::Missing(12),
    );
    flawed(&message(1, &[SESSION, SESSION]), Malformed::Duplicate(1));
    flawed(
        &message(1, &[SESSION, TIME, TEMPLATE, &tspec]),
        Malformed::Missing(3),
    );
    flawed(
        &message(1, &[SESSION, HOP, TIME, TEMPLATE, &tspec, FF]),
        Malformed::Misplaced(8),
    );
    flawed(
        &message(2, &[SESSION, HOP, TIME, FF, FILTER]),
        Malformed::Missing(9),
    );
    flawed(
        &message(2, &[SESSION, HOP, TIME, FF, &flow]),
        Malformed::Missing(10),
    );
    flawed(
        &message(2, &[SESSION, HOP, TIME, &flow, FILTER, FF]),
        Malformed::Misplaced(9),
    );
    flawed(&message(13, &[]), Malformed::Missing(24));
    flawed(&message(15, &[]), Malformed::Missing(25));
}

#[test]
fn the_families_of_one_message_agree() {
    let hop = [&[0, 24, 3, 2][..], &[0; 20]].concat();
    flawed(&message(5, &[SESSION, &hop, TEMPLATE]), Malformed::MixedFamilies);
}

#[test]
fn a_refresh_period_of_zero_is_malformed() {
    let time: &[u8] = &[0, 8, 5, 1, 0, 0, 0, 0];
    flawed(
        &message(1, &[SESSION, HOP, time, TEMPLATE, &tspec(good())]),
        Malformed::Contents(5),
    );
}

#[test]
fn rfc_2961_3_a_bundle_does_not_nest() {
    let inner = message(12, &[&message(5, &[SESSION, HOP, TEMPLATE])]);
    flawed(&message(12, &[&inner]), Malformed::MessageType(12));
}

#[test]
fn rfc_2205_3_1_5_a_path_tear_may_carry_a_tspec_that_is_ignored() {
    let with = message(5, &[SESSION, HOP, TEMPLATE, &tspec([u32::MAX; 5])]);
    let without = message(5, &[SESSION, HOP, TEMPLATE]);
    assert!(Frame::decode(&with).is_ok());
    assert_eq!(Frame::decode(&with), Frame::decode(&without));
}

#[test]
fn one_address_of_another_family_among_several_is_enough() {
    let (v4, v6) = (address_objects(1), address_objects(2));
    for position in 0..3 {
        for (most, other) in [(&v4, &v6), (&v6, &v4)] {
            let mut objects: Vec<&[u8]> = most.iter().map(Vec::as_slice).collect();
            assert!(Frame::decode(&message(5, &objects)).is_ok());
            objects[position] = &other[position];
            flawed(&message(5, &objects), Malformed::MixedFamilies);
        }
    }
    // A sender with a flow label is IPv6.
    let label = [&[0, 24, 11, 3][..], &[0; 20]].concat();
    assert!(Frame::decode(&message(5, &[&v6[0], &v6[1], &label])).is_ok());
    flawed(&message(5, &[&v4[0], &v4[1], &label]), Malformed::MixedFamilies);
}

/// SESSION, RSVP_HOP and SENDER_TEMPLATE of this C-Type: 1 is IPv4, 2 is IPv6.
fn address_objects(c_type: u8) -> [Vec<u8>; 3] {
    let address = vec![7; if c_type == 1 { 4 } else { 16 }];
    [(1, [17, 0, 0, 9]), (3, [0, 0, 0, 7]), (11, [0, 0, 0, 9])].map(|(class, rest)| {
        let length = 8 + address.len() as u8;
        [&[0, length, class, c_type][..], &address, &rest].concat()
    })
}

#[test]
fn each_style_has_its_own_flow_descriptors() {
    const WF: &[u8] = &[0, 8, 8, 1, 0, 0, 0, 0x11];
    const SE: &[u8] = &[0, 8, 8, 1, 0, 0, 0, 0x12];
    let flow = flowspec(5, good());
    let resv = |end: &[&[u8]]| Frame::decode(&message(2, &[&[SESSION, HOP, TIME], end].concat()));
    let wrong = |end: &[&[u8]], flaw| {
        assert_eq!(resv(end), Err(DecodeError::Malformed(flaw)), "{end:?}");
    };
    for end in [
        &[WF, &flow][..],
        &[SE, &flow, FILTER],
        &[SE, &flow, FILTER, FILTER],
        &[FF, &flow, FILTER],
        &[FF, &flow, FILTER, &flow, FILTER],
    ] {
        assert!(resv(end).is_ok(), "{end:?}");
    }
    wrong(&[WF, &flow, FILTER], Malformed::Misplaced(10));
    wrong(&[WF, &flow, &flow], Malformed::Duplicate(9));
    wrong(&[WF], Malformed::Missing(9));
    wrong(&[SE, &flow], Malformed::Missing(10));
    wrong(&[SE, &flow, FILTER, &flow, FILTER], Malformed::Duplicate(9));
    wrong(&[SE], Malformed::Missing(9));
    wrong(&[FF, &flow, FILTER, &flow], Malformed::Missing(10));
    wrong(&[FF, &flow, &flow, FILTER], Malformed::Missing(10));
    wrong(&[FF, FILTER, &flow], Malformed::Missing(9));
    wrong(&[WF, &flow, WF], Malformed::Duplicate(8));
    // The flowspecs of a ResvTear may be absent; its filter specs may not.
    let tear = |end: &[&[u8]]| Frame::decode(&message(6, &[&[SESSION, HOP], end].concat()));
    for end in [
        &[WF][..],
        &[WF, &flow],
        &[SE, FILTER],
        &[FF, FILTER],
        &[FF, &flow, FILTER],
    ] {
        assert!(tear(end).is_ok(), "{end:?}");
    }
    for (end, flaw) in [
        (&[WF, FILTER][..], Malformed::Misplaced(10)),
        (&[SE], Malformed::Missing(10)),
        (&[FF, &flow], Malformed::Missing(10)),
    ] {
        assert_eq!(tear(end), Err(DecodeError::Malformed(flaw)), "{end:?}");
    }
}

#[test]
fn rfc_2961_3_a_bundle_holds_whole_messages_of_at_least_a_header() {
    let header = |kind, length| vec![0x10, kind, 0, 0, 63, 0, 0, length];
    let bundle = |parts: &[&[u8]]| Frame::decode(&message(12, parts));
    let (first, second) = (header(13, 8), message(5, &[SESSION, HOP, TEMPLATE]));
    let frame = bundle(&[&first, &second]).expect("two messages");
    assert_eq!(frame.message, Message::Bundle(vec![first, second.clone()]));
    let wrong = Err(DecodeError::Malformed(Malformed::Length));
    assert_eq!(bundle(&[&header(13, 4)]), wrong);
    assert_eq!(bundle(&[&header(13, 0)]), wrong);
    // One that ends behind the bundle, is no whole words, or is cut off in its header.
    assert_eq!(bundle(&[&second, &header(13, 12)]), wrong);
    assert_eq!(bundle(&[&header(13, 10), &[0; 4]]), wrong);
    assert_eq!(bundle(&[&second, &header(13, 8)[..4]]), wrong);
    assert_eq!(bundle(&[]), wrong);
}

#[test]
fn rfc_2210_3_the_contents_have_version_0_whatever_their_reserved_bits() {
    for (first, second, known) in [
        (0x00, 0, true),
        (0x0f, 0xff, true),
        (0x10, 0, false),
        (0x80, 0, false),
    ] {
        let mut tspec = tspec(good());
        tspec[4..6].copy_from_slice(&[first, second]);
        let bytes = message(1, &[SESSION, HOP, TIME, TEMPLATE, &tspec]);
        if known {
            assert!(Frame::decode(&bytes).is_ok(), "{first:#x}");
        } else {
            objected(&bytes, 21, 4);
        }
    }
}

#[test]
fn rfc_2212_the_reserved_rate_is_finite_and_at_least_the_token_rate() {
    let infinite = Real::INFINITE.bits();
    let largest = infinite - 1;
    for (rate, known) in [
        (Real::nearest(999).bits(), false),
        (Real::nearest(1000).bits(), true),
        (Real::nearest(1001).bits(), true),
        (largest, true),
        (infinite, false),
    ] {
        let flowspec = [
            &[0, 48, 9, 2, 0, 0, 0, 10, 2, 0, 0, 9][..],
            &bucket(good()),
            &[130, 0, 0, 2],
            &rate.to_be_bytes(),
            &[0, 0, 0, 50],
        ];
        let bytes = message(2, &[SESSION, HOP, TIME, FF, &flowspec.concat(), FILTER]);
        if known {
            assert!(Frame::decode(&bytes).is_ok(), "{rate:#x}");
        } else {
            objected(&bytes, 21, 3);
        }
    }
}
