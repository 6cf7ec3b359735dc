//! Bytes written by hand from the figures of the RFCs, compared with the types.

use core::net::{IpAddr, Ipv4Addr};
use rsvp::wire::{
    Adspec, Content, Descriptors, ErrorSpec, Flowspec, Frame, Hop, Integrity, Message, MessageIdList,
    MessageIds, Path, Real, Refresh, Resv, ResvConf, ResvErr, SenderDescriptor, SenderTemplate, Session,
    TokenBucket,
};

const HOST_A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const HOST_B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 9, 2));

/// A message of this type, without a checksum.
fn message(kind: u8, objects: &[&[u8]]) -> Vec<u8> {
    let body = objects.concat();
    let length = u8::try_from(body.len() + 8).expect("it is short");
    let mut bytes = vec![0x10, kind, 0, 0, 63, 0, 0, length];
    bytes.extend(body);
    bytes
}

fn plain(message: Message) -> Frame {
    Frame::plain(63, message)
}

/// Asserts that these bytes decode to this message and back; the checksum is compared separately.
#[track_caller]
fn same(bytes: &[u8], frame: &Frame) {
    assert_eq!(Frame::decode(bytes).as_ref(), Ok(frame));
    let mut encoded = frame.encode().expect("it fits");
    encoded[2..4].fill(0);
    assert_eq!(encoded, bytes);
}

const SESSION: &[u8] = &[0, 12, 1, 1, 10, 0, 9, 2, 17, 0, 0x13, 0x88];
const HOP: &[u8] = &[0, 12, 3, 1, 10, 0, 0, 1, 0, 0, 0, 7];
const TIME: &[u8] = &[0, 8, 5, 1, 0, 0, 0x75, 0x30];
const FILTER: &[u8] = &[0, 12, 10, 1, 10, 0, 0, 1, 0, 0, 0x0f, 0xa0];
const TEMPLATE: &[u8] = &[0, 12, 11, 1, 10, 0, 0, 1, 0, 0, 0x0f, 0xa0];
const ERROR: &[u8] = &[0, 12, 6, 1, 10, 0, 0, 1, 1, 1, 0, 2];
/// 5 000 000 B/s, 10 000 B, no peak, packets of 64 to 1500 B.
const BUCKET: &[u8] = &[
    127, 0, 0, 5, 0x4a, 0x98, 0x96, 0x80, 0x46, 0x1c, 0x40, 0, 0x7f, 0x80, 0, 0, 0, 0, 0, 64, 0, 0, 0x05,
    0xdc,
];

fn session() -> Session {
    Session {
        destination: HOST_B,
        protocol: 17,
        port: 5000,
        police: false,
    }
}

fn hop() -> Hop {
    Hop {
        address: HOST_A,
        lih: 7,
    }
}

fn sender() -> SenderTemplate {
    SenderTemplate::Port {
        address: HOST_A,
        port: 4000,
    }
}

fn bucket() -> TokenBucket {
    TokenBucket {
        rate: Real::nearest(5_000_000),
        bucket: Real::nearest(10_000),
        peak: Real::INFINITE,
        minimum: 64,
        maximum: 1500,
    }
}

fn controlled() -> Vec<u8> {
    [&[0, 36, 9, 2, 0, 0, 0, 7, 5, 0, 0, 6], BUCKET].concat()
}

#[test]
fn rfc_2205_3_1_3_path_with_tspec_and_adspec() {
    let tspec = [&[0, 36, 12, 2, 0, 0, 0, 7, 1, 0, 0, 6], BUCKET].concat();
    let adspec: &[u8] = &[
        0, 84, 13, 2, 0, 0, 0, 19, 1, 0, 0, 8, // general parameters
        4, 0, 0, 1, 0, 0, 0, 0, // hops
        6, 0, 0, 1, 0x4b, 0x3e, 0xbc, 0x20, // 12 500 000 B/s
        8, 0, 0, 1, 0, 0, 0, 100, // 100 µs
        10, 0, 0, 1, 0, 0, 0x05, 0xdc, // MTU
        2, 0, 0, 8, // guaranteed service
        133, 0, 0, 1, 0, 0, 0, 0, // C, total
        134, 0, 0, 1, 0, 0, 0, 0, // D, total
        135, 0, 0, 1, 0, 0, 0, 0, // C, since the last reshaping
        136, 0, 0, 1, 0, 0, 0, 0, // D, since the last reshaping
        5, 0, 0, 0, // controlled load
    ];
    let path = Path {
        session: session(),
        hop: hop(),
        refresh: Refresh::millis(30_000),
        policy: Vec::new(),
        sender: SenderDescriptor {
            template: sender(),
            tspec: Content::Known(bucket()),
            adspec: Some(Content::Known(Adspec::at_sender(
                Real::nearest(12_500_000),
                100,
                1500,
            ))),
        },
    };
    let bytes = message(1, &[SESSION, HOP, TIME, TEMPLATE, &tspec, adspec]);
    same(&bytes, &plain(Message::Path(path)));
}

#[test]
fn rfc_2205_3_1_4_ff_flow_descriptors_may_leave_out_a_flowspec_that_repeats() {
    let style: &[u8] = &[0, 8, 8, 1, 0, 0, 0, 0x0a];
    let other: &[u8] = &[0, 12, 10, 1, 10, 0, 0, 2, 0, 0, 0, 1];
    let second = SenderTemplate::Port {
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        port: 1,
    };
    let flowspec = Content::Known(Flowspec::ControlledLoad(bucket()));
    let resv = plain(Message::Resv(Resv {
        session: session(),
        hop: hop(),
        refresh: Refresh::millis(30_000),
        confirm: Some(HOST_B),
        scope: None,
        policy: Vec::new(),
        descriptors: Descriptors::Fixed(vec![(flowspec.clone(), sender()), (flowspec, second)]),
    }));
    let confirm: &[u8] = &[0, 8, 15, 1, 10, 0, 9, 2];
    let head = [SESSION, HOP, TIME, confirm, style].concat();
    let flow = controlled();
    same(&message(2, &[&head, &flow, FILTER, other]), &resv);
    let full = message(2, &[&head, &flow, FILTER, &flow, other]);
    assert_eq!(Frame::decode(&full).as_ref(), Ok(&resv));
}

#[test]
fn rfc_2205_a_7_option_vectors_of_wildcard_and_shared_explicit() {
    let flowspec = Content::Known(Flowspec::ControlledLoad(bucket()));
    let resv = |descriptors| {
        plain(Message::Resv(Resv {
            session: session(),
            hop: hop(),
            refresh: Refresh::millis(30_000),
            confirm: None,
            scope: None,
            policy: Vec::new(),
            descriptors,
        }))
    };
    let flow = controlled();
    let head = [SESSION, HOP, TIME].concat();
    same(
        &message(2, &[&head, &[0, 8, 8, 1, 0, 0, 0, 0x11], &flow]),
        &resv(Descriptors::Wildcard(flowspec.clone())),
    );
    same(
        &message(2, &[&head, &[0, 8, 8, 1, 0, 0, 0, 0x12], &flow, FILTER]),
        &resv(Descriptors::SharedExplicit(flowspec, vec![sender()])),
    );
}

#[test]
fn rfc_2210_3_2_guaranteed_flowspec_in_a_resv_err() {
    let flowspec = [
        &[0, 48, 9, 2, 0, 0, 0, 10, 2, 0, 0, 9],
        BUCKET,
        &[130, 0, 0, 2, 0x4b, 0x18, 0x96, 0x80, 0, 0, 0, 50],
    ]
    .concat();
    let error = plain(Message::ResvErr(ResvErr {
        session: session(),
        hop: hop(),
        error: ErrorSpec {
            node: HOST_A,
            in_place: true,
            not_guilty: false,
            code: 1,
            value: 2,
        },
        scope: None,
        policy: Vec::new(),
        descriptors: Descriptors::Fixed(vec![(
            Content::Known(Flowspec::Guaranteed {
                bucket: bucket(),
                rate: Real::nearest(10_000_000),
                slack: 50,
            }),
            sender(),
        )]),
    }));
    let style: &[u8] = &[0, 8, 8, 1, 0, 0, 0, 0x0a];
    same(
        &message(4, &[SESSION, HOP, ERROR, style, &flowspec, FILTER]),
        &error,
    );
}

#[test]
fn rfc_2205_3_1_9_resv_conf() {
    let conf = plain(Message::ResvConf(ResvConf {
        session: session(),
        error: ErrorSpec {
            node: HOST_A,
            in_place: false,
            not_guilty: false,
            code: 0,
            value: 0,
        },
        confirm: HOST_B,
        descriptors: Descriptors::Wildcard(Content::Known(Flowspec::ControlledLoad(bucket()))),
    }));
    let error: &[u8] = &[0, 12, 6, 1, 10, 0, 0, 1, 0, 0, 0, 0];
    let confirm: &[u8] = &[0, 8, 15, 1, 10, 0, 9, 2];
    let style: &[u8] = &[0, 8, 8, 1, 0, 0, 0, 0x11];
    same(
        &message(7, &[SESSION, error, confirm, style, &controlled()]),
        &conf,
    );
}

#[test]
fn rfc_2961_5_summary_refresh_with_rfc_2747_integrity_in_front() {
    let mut frame = plain(Message::Srefresh(vec![MessageIdList {
        epoch: 0x0a_0b0c,
        ids: MessageIds::Neighbour(vec![1, 2]),
    }]));
    frame.integrity = Some(Integrity {
        handshake: true,
        key: 0x0102_0304_0506,
        sequence: 9,
        digest: vec![0xaa; 4],
    });
    let integrity: &[u8] = &[
        0, 24, 4, 1, 0x80, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 9, 0xaa, 0xaa, 0xaa, 0xaa,
    ];
    let list: &[u8] = &[0, 16, 25, 1, 0, 0x0a, 0x0b, 0x0c, 0, 0, 0, 1, 0, 0, 0, 2];
    same(&message(15, &[integrity, list]), &frame);
}

#[test]
fn rfc_2205_3_1_1_checksum_of_a_message_computed_by_hand() {
    let bytes = message(5, &[SESSION, HOP, TEMPLATE]);
    let frame = Frame::decode(&bytes).expect("a missing checksum is valid");
    let encoded = frame.encode().expect("it fits");
    let words: u32 = [
        0x1005, 0x3f00, 0x002c, // header
        0x000c, 0x0101, 0x0a00, 0x0902, 0x1100, 0x1388, // SESSION
        0x000c, 0x0301, 0x0a00, 0x0001, 0x0000, 0x0007, // RSVP_HOP
        0x000c, 0x0b01, 0x0a00, 0x0001, 0x0000, 0x0fa0, // SENDER_TEMPLATE
    ]
    .iter()
    .sum();
    let folded = (words & 0xffff) + (words >> 16);
    assert_eq!(
        u32::from(encoded[2]) << 8 | u32::from(encoded[3]),
        0xffff - folded
    );
}
