//! Every type of object, field by field.

use crate::capture::{Packet, fields};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use engine::random::Seed;
use engine::units::Instant;
use rsvp::integrity::{
    Algorithm, IntegrityKey, IntegrityShim, InterfaceKeys, KeyLifetime, KeyOwner, Requirement, Settings,
};
use rsvp::traffic_control::{Advertised, ErrorTerms};
use rsvp::wire::{
    Adspec, Challenge, Content, Descriptors, ErrorSpec, Flowspec, Frame, Hop, Message, MessageId,
    MessageIdAck, MessageIdList, MessageIds, Opaque, Path, PathErr, PathTear, Real, Refresh, Resv, ResvConf,
    ResvErr, ResvTear, Scope, SenderDescriptor, SenderTemplate, Session, TokenBucket,
};
use std::collections::BTreeMap;

/// Addresses of one family.
pub(crate) struct Family {
    pub(crate) left: IpAddr,
    pub(crate) right: IpAddr,
    destination: IpAddr,
    sender: IpAddr,
    other: IpAddr,
}

const fn v4(net: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, net, host))
}

const fn v6(net: u16, host: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, host))
}

pub(crate) const V4: Family = Family {
    left: v4(0, 1),
    right: v4(0, 2),
    destination: v4(9, 2),
    sender: v4(8, 1),
    other: v4(8, 3),
};

pub(crate) const V6: Family = Family {
    left: v6(1, 1),
    right: v6(1, 2),
    destination: v6(9, 2),
    sender: v6(8, 1),
    other: v6(8, 3),
};

impl Family {
    fn session(&self) -> Session {
        Session {
            destination: self.destination,
            protocol: 17,
            port: 5000,
            police: true,
        }
    }

    fn hop(&self) -> Hop {
        Hop {
            address: self.left,
            lih: 7,
        }
    }

    fn sender(&self) -> SenderTemplate {
        SenderTemplate::Port {
            address: self.sender,
            port: 4000,
        }
    }

    fn others(&self) -> SenderTemplate {
        SenderTemplate::Port {
            address: self.other,
            port: 4001,
        }
    }

    fn error(&self, code: u8, value: u16) -> ErrorSpec {
        ErrorSpec {
            node: self.right,
            in_place: code != 0,
            not_guilty: code == 1,
            code,
            value,
        }
    }

    fn scope(&self) -> Option<Scope> {
        Some(match (self.sender, self.other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => Scope::V4(vec![a, b]),
            (IpAddr::V6(a), IpAddr::V6(b)) => Scope::V6(vec![a, b]),
            _ => panic!("mixed address families"),
        })
    }

    fn descriptor(&self) -> SenderDescriptor {
        let mut adspec = Adspec::at_sender(Real::nearest(12_500_000), 0, 9000);
        adspec.cross(&Advertised {
            bandwidth: Real::nearest(1_250_000),
            latency: 100,
            mtu: 1500,
            controlled_load: false,
            guaranteed: Some(ErrorTerms {
                rate_dependent: 1514,
                rate_independent: 1200,
            }),
        });
        SenderDescriptor {
            template: self.sender(),
            tspec: Content::Known(bucket(1000)),
            adspec: Some(Content::Known(adspec)),
        }
    }
}

/// Powers of two and their sums, which text shows exactly.
fn bucket(rate: u64) -> TokenBucket {
    TokenBucket {
        rate: Real::nearest(rate),
        bucket: Real::nearest(3000),
        peak: Real::nearest(4000),
        minimum: 64,
        maximum: 1500,
    }
}

fn controlled(rate: u64) -> Content<Flowspec> {
    Content::Known(Flowspec::ControlledLoad(bucket(rate)))
}

fn guaranteed() -> Content<Flowspec> {
    Content::Known(Flowspec::Guaranteed {
        bucket: bucket(1000),
        rate: Real::nearest(2000),
        slack: 50,
    })
}

fn frame(message: Message) -> Frame {
    Frame::plain(63, message)
}

fn encoded(frame: &Frame) -> Vec<u8> {
    frame.encode().expect("it fits")
}

pub(crate) fn path(family: &Family) -> Vec<u8> {
    let mut path = frame(Message::Path(Path {
        session: family.session(),
        hop: family.hop(),
        refresh: Refresh::millis(30_000),
        policy: vec![Opaque {
            class: 14,
            c_type: 1,
            data: vec![1, 2, 3, 4],
        }],
        sender: family.descriptor(),
    }));
    path.message_id = Some(MessageId {
        ack_desired: true,
        epoch: 0x0a_0b0c,
        id: 77,
    });
    path.acknowledgements = vec![MessageIdAck {
        known: true,
        epoch: 0x0d_0e0f,
        id: 66,
    }];
    path.forwarded = vec![Opaque {
        class: 252,
        c_type: 3,
        data: vec![9, 8, 7, 6],
    }];
    encoded(&path)
}

fn resv(family: &Family, scope: Option<Scope>, descriptors: Descriptors<Content<Flowspec>>) -> Vec<u8> {
    encoded(&frame(Message::Resv(Resv {
        session: family.session(),
        hop: family.hop(),
        refresh: Refresh::millis(15_000),
        confirm: Some(family.destination),
        scope,
        policy: Vec::new(),
        descriptors,
    })))
}

pub(crate) fn resv_ff(family: &Family) -> Vec<u8> {
    let list = vec![
        (controlled(1000), family.sender()),
        (controlled(2000), family.others()),
    ];
    resv(family, None, Descriptors::Fixed(list))
}

pub(crate) fn resv_se(family: &Family) -> Vec<u8> {
    let senders = vec![family.sender(), family.others()];
    resv(family, None, Descriptors::SharedExplicit(guaranteed(), senders))
}

pub(crate) fn resv_wf(family: &Family) -> Vec<u8> {
    resv(family, family.scope(), Descriptors::Wildcard(controlled(1000)))
}

pub(crate) fn path_err(family: &Family) -> Vec<u8> {
    encoded(&frame(Message::PathErr(PathErr {
        session: family.session(),
        error: family.error(21, 4),
        policy: Vec::new(),
        sender: family.descriptor(),
    })))
}

pub(crate) fn resv_err(family: &Family) -> Vec<u8> {
    encoded(&frame(Message::ResvErr(ResvErr {
        session: family.session(),
        hop: family.hop(),
        error: family.error(1, 2),
        scope: None,
        policy: Vec::new(),
        descriptors: Descriptors::Fixed(vec![(controlled(1000), family.sender())]),
    })))
}

pub(crate) fn path_tear(family: &Family) -> Vec<u8> {
    encoded(&frame(Message::PathTear(PathTear {
        session: family.session(),
        hop: family.hop(),
        sender: family.sender(),
    })))
}

pub(crate) fn resv_tear(family: &Family) -> Vec<u8> {
    encoded(&frame(Message::ResvTear(ResvTear {
        session: family.session(),
        hop: family.hop(),
        scope: None,
        descriptors: Descriptors::SharedExplicit((), vec![family.sender(), family.others()]),
    })))
}

pub(crate) fn resv_conf(family: &Family) -> Vec<u8> {
    encoded(&frame(Message::ResvConf(ResvConf {
        session: family.session(),
        error: family.error(0, 0),
        confirm: family.destination,
        descriptors: Descriptors::Wildcard(controlled(1000)),
    })))
}

pub(crate) fn bundle(family: &Family) -> Vec<u8> {
    let mut bundle = frame(Message::Bundle(vec![path_tear(family), resv_tear(family)]));
    bundle.refresh_reduction = true;
    encoded(&bundle)
}

pub(crate) fn ack() -> Vec<u8> {
    let mut ack = frame(Message::Ack);
    ack.acknowledgements = [true, false]
        .map(|known| MessageIdAck {
            known,
            epoch: 0x0d_0e0f,
            id: 66 + u32::from(known),
        })
        .to_vec();
    encoded(&ack)
}

pub(crate) fn srefresh() -> Vec<u8> {
    encoded(&frame(Message::Srefresh(vec![MessageIdList {
        epoch: 0x0a_0b0c,
        ids: MessageIds::Neighbour(vec![77, 78]),
    }])))
}

fn the_challenge() -> Challenge {
    Challenge {
        key: 0x0102_0304_0506,
        cookie: vec![1, 2, 3, 4],
    }
}

pub(crate) fn challenge() -> Vec<u8> {
    encoded(&frame(Message::Challenge(the_challenge())))
}

pub(crate) fn response() -> Vec<u8> {
    protected(encoded(&frame(Message::Response(the_challenge()))))
}

/// With INTEGRITY: key 0x010203040506, sequence number 99.
pub(crate) fn protected(message: Vec<u8>) -> Vec<u8> {
    let mut guard = IntegrityShim::new(Settings {
        sequence: 99,
        window: 1,
        answer_challenges: true,
        send_challenges: true,
        max_neighbours: 1,
        seed: Seed(1),
    });
    let key = IntegrityKey::new(
        0x0102_0304_0506,
        Algorithm::HmacSha256,
        b"a secret",
        KeyLifetime::ALWAYS,
        KeyOwner::Shared,
    );
    guard.set_interface(
        0,
        InterfaceKeys {
            addresses: vec![V4.left],
            requirement: Requirement::Required,
            neighbours: BTreeMap::new(),
            keys: vec![key.expect("a valid key")],
        },
    );
    guard.outgoing(Instant::START, 0, message).expect("it fits")
}

/// Fields and their values in one message; all other fields of the table must be absent.
type Expected<'a> = &'a [(&'a str, &'a str)];

fn same(name: &str, cases: &[(Vec<u8>, Expected<'_>)]) {
    let names: Vec<&str> = {
        let all = cases
            .iter()
            .flat_map(|(_, expected)| expected.iter().map(|(field, _)| *field));
        let set: std::collections::BTreeSet<&str> = all.collect();
        set.into_iter().collect()
    };
    let packets: Vec<Packet> = cases
        .iter()
        .map(|(message, _)| Packet {
            source: V4.left,
            destination: V4.right,
            router_alert: false,
            message: message.clone(),
        })
        .collect();
    let Some(rows) = fields(name, &packets, &names) else {
        return;
    };
    assert_eq!(rows.len(), cases.len());
    for (at, (row, (_, expected))) in rows.iter().zip(cases).enumerate() {
        let expected: BTreeMap<&str, &str> = expected.iter().copied().collect();
        for (field, found) in names.iter().zip(row) {
            let expected = expected.get(field).copied().unwrap_or("");
            assert_eq!(found, expected, "{field} in message {at} of {name}");
        }
    }
}

const SENDS: Expected<'_> = &[
    ("rsvp.tspec.service_header", "1"),
    ("rsvp.tspec.token_bucket_rate", "1000"),
    ("rsvp.tspec.token_bucket_size", "3000"),
    ("rsvp.tspec.peak_data_rate", "4000"),
    ("rsvp.minimum_policed_unit", "64"),
    ("rsvp.maximum_packet_size", "1500"),
    ("rsvp.adspec.service_header", "1,2,5"),
    ("rsvp.adspec.break_bit", "0,0,1"),
    ("rsvp.adspec.type", "4,6,8,10,133,134,135,136"),
    ("rsvp.adspec.uint", "1,100,1500,1514,1200,1514,1200"),
    ("rsvp.adspec.float", "1.25e+06"),
];

const PATH: Expected<'_> = &[
    ("rsvp.object", "24,23,1,3,5,14,252,11,12,13"),
    ("rsvp.message_id.flags", "1"),
    ("rsvp.message_id.epoch", "658188"),
    ("rsvp.message_id.message_id", "77"),
    ("rsvp.ctype.message_id_ack", "1"),
    ("rsvp.message_id_ack.epoch", "855567"),
    ("rsvp.message_id_ack.message_id", "66"),
    ("rsvp.refresh_interval", "30000"),
    ("rsvp.policy.data", "01020304"),
];

/// Controlled load of FF, as both senders have it.
const FIXED: Expected<'_> = &[
    ("rsvp.object", "1,3,5,15,8,9,10,9,10"),
    ("rsvp.refresh_interval", "15000"),
    ("rsvp.style.style", "0x00000a"),
    ("rsvp.flowspec.service_header", "5,5"),
    ("rsvp.flowspec.token_bucket_rate", "1000,2000"),
    ("rsvp.flowspec.token_bucket_size", "3000,3000"),
    ("rsvp.flowspec.peak_data_rate", "4000,4000"),
    ("rsvp.minimum_policed_unit", "64,64"),
    ("rsvp.maximum_packet_size", "1500,1500"),
];

const SHARED: Expected<'_> = &[
    ("rsvp.object", "1,3,5,15,8,9,10,10"),
    ("rsvp.refresh_interval", "15000"),
    ("rsvp.style.style", "0x000012"),
    ("rsvp.flowspec.service_header", "2"),
    ("rsvp.flowspec.token_bucket_rate", "1000"),
    ("rsvp.flowspec.token_bucket_size", "3000"),
    ("rsvp.flowspec.peak_data_rate", "4000"),
    ("rsvp.flowspec.rate", "2000"),
    ("rsvp.flowspec.slack_term", "50"),
    ("rsvp.minimum_policed_unit", "64"),
    ("rsvp.maximum_packet_size", "1500"),
];

/// One flowspec of controlled load.
const ONE: Expected<'_> = &[
    ("rsvp.flowspec.service_header", "5"),
    ("rsvp.flowspec.token_bucket_rate", "1000"),
    ("rsvp.flowspec.token_bucket_size", "3000"),
    ("rsvp.flowspec.peak_data_rate", "4000"),
    ("rsvp.minimum_policed_unit", "64"),
    ("rsvp.maximum_packet_size", "1500"),
];

const WILDCARD: Expected<'_> = &[
    ("rsvp.object", "1,3,5,15,7,8,9"),
    ("rsvp.refresh_interval", "15000"),
    ("rsvp.style.style", "0x000011"),
];

fn error(code: &'static str, value: &'static str, flags: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![
        ("rsvp.error.error_code", code),
        ("rsvp.error_value", value),
        ("rsvp.error_flags", flags),
    ]
}

/// Fields of both families, with tshark's name in each.
struct Names {
    family: &'static Family,
    session: Expected<'static>,
    hop: Expected<'static>,
    node: (&'static str, &'static str),
    confirm: (&'static str, &'static str),
    scope: (&'static str, &'static str),
    sender: Expected<'static>,
    senders: Expected<'static>,
}

const NAMES_4: Names = Names {
    family: &V4,
    session: &[
        ("rsvp.session.ip", "10.0.9.2"),
        ("rsvp.session.proto", "17"),
        ("rsvp.session.port", "5000"),
        ("rsvp.session.flags", "0x01"),
    ],
    hop: &[
        ("rsvp.hop.neighbor_address_ipv4", "10.0.0.1"),
        ("rsvp.hop.logical_interface", "7"),
    ],
    node: ("rsvp.error.error_node_ipv4", "10.0.0.2"),
    confirm: ("rsvp.confirm.receiver_address_ipv4", "10.0.9.2"),
    scope: ("rsvp.scope.ipv4_address", "10.0.8.1,10.0.8.3"),
    sender: &[("rsvp.sender.ip", "10.0.8.1"), ("rsvp.sender.port", "4000")],
    senders: &[
        ("rsvp.sender.ip", "10.0.8.1,10.0.8.3"),
        ("rsvp.sender.port", "4000,4001"),
    ],
};

const NAMES_6: Names = Names {
    family: &V6,
    session: &[
        ("rsvp.session.destination_address", "2001:db8:0:9::2"),
        ("rsvp.session.protocol", "17"),
        ("rsvp.session.destination_port", "5000"),
        ("rsvp.session.flags", "0x01"),
    ],
    hop: &[
        ("rsvp.neighbor_address_ipv6", "2001:db8:0:1::1"),
        ("rsvp.hop.logical_interface", "7"),
    ],
    node: ("rsvp.error.error_node_ipv6", "2001:db8:0:1::2"),
    confirm: ("rsvp.confirm.receiver_address_ipv6", "2001:db8:0:9::2"),
    scope: ("rsvp.scope.ipv6_address", "2001:db8:0:8::1,2001:db8:0:8::3"),
    sender: &[
        ("rsvp.template_filter.source_address_ipv6", "2001:db8:0:8::1"),
        ("rsvp.template_filter.source_port", "4000"),
    ],
    senders: &[
        (
            "rsvp.template_filter.source_address_ipv6",
            "2001:db8:0:8::1,2001:db8:0:8::3",
        ),
        ("rsvp.template_filter.source_port", "4000,4001"),
    ],
};

fn addressed(name: &str, names: &Names) {
    let Names {
        family,
        session,
        hop,
        sender,
        senders,
        ..
    } = *names;
    let all = |parts: &[Expected<'static>]| [&[session][..], parts].concat().concat();
    let plain: Expected<'_> = &[("rsvp.object", "1,3,11")];
    let ended: Expected<'_> = &[("rsvp.object", "1,3,8,10,10"), ("rsvp.style.style", "0x000012")];
    let path_error: Expected<'_> = &[("rsvp.object", "1,6,11,12,13")];
    let resv_error: Expected<'_> = &[("rsvp.object", "1,3,6,8,9,10"), ("rsvp.style.style", "0x00000a")];
    let confirmed: Expected<'_> = &[("rsvp.object", "1,6,15,8,9"), ("rsvp.style.style", "0x000011")];
    let (node, confirm, scope) = ([names.node], [names.confirm], [names.scope]);
    let cases = [
        (path(family), [all(&[hop, sender, SENDS, PATH])].concat()),
        (
            resv_ff(family),
            [all(&[hop, senders, FIXED]), confirm.to_vec()].concat(),
        ),
        (
            resv_se(family),
            [all(&[hop, senders, SHARED]), confirm.to_vec()].concat(),
        ),
        (
            resv_wf(family),
            [all(&[hop, WILDCARD, ONE]), confirm.to_vec(), scope.to_vec()].concat(),
        ),
        (
            path_err(family),
            [
                all(&[sender, SENDS, path_error]),
                node.to_vec(),
                error("21", "4", "0x01"),
            ]
            .concat(),
        ),
        (
            resv_err(family),
            [
                all(&[hop, sender, ONE, resv_error]),
                node.to_vec(),
                error("1", "2", "0x03"),
            ]
            .concat(),
        ),
        (path_tear(family), all(&[hop, sender, plain])),
        (resv_tear(family), all(&[hop, senders, ended])),
        (
            resv_conf(family),
            [
                all(&[ONE, confirmed]),
                node.to_vec(),
                confirm.to_vec(),
                error("0", "0", "0x00"),
            ]
            .concat(),
        ),
    ];
    let cases = cases
        .each_ref()
        .map(|(message, expected)| (message.clone(), expected.as_slice()));
    same(name, &cases);
}

#[test]
fn objects_of_ipv4() {
    addressed("objects-4", &NAMES_4);
}

#[test]
fn objects_of_ipv6() {
    addressed("objects-6", &NAMES_6);
}

/// Objects without addresses. tshark does not decode class 64, CHALLENGE, and shows it as bytes.
/// The handshake flag of INTEGRITY is the highest bit (RFC 2747, section 2), although tshark
/// names the lowest.
#[test]
fn message_ids_and_integrity() {
    same(
        "objects-0",
        &[
            (
                ack(),
                &[
                    ("rsvp.object", "24,24"),
                    ("rsvp.ctype.message_id_ack", "1,2"),
                    ("rsvp.message_id_ack.epoch", "855567,855567"),
                    ("rsvp.message_id_ack.message_id", "67,66"),
                ],
            ),
            (
                srefresh(),
                &[
                    ("rsvp.object", "25"),
                    ("rsvp.message_id_list.epoch", "658188"),
                    ("rsvp.message_id_list.message_id", "77,78"),
                ],
            ),
            (
                challenge(),
                &[
                    ("rsvp.object", "64"),
                    ("rsvp.unknown.data", "000001020304050601020304"),
                ],
            ),
            (
                response(),
                &[
                    ("rsvp.object", "4,64"),
                    ("rsvp.unknown.data", "000001020304050601020304"),
                    ("rsvp.integrity.flags", "0x80"),
                    ("rsvp.integrity.key_identifier", "010203040506"),
                    ("rsvp.integrity.sequence_number", "99"),
                ],
            ),
        ],
    );
}
