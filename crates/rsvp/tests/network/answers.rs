//! Errors in messages are answered with the codes of RFC 2205, appendix B.

use crate::rig::{
    A, HOST_A, HOST_B, Network, R1, TestAdmission, TestNode, bucket, node, receiver, sender, session,
};
use crate::topology::Topology;
use core::net::{IpAddr, Ipv6Addr};
use engine::random::Seed;
use engine::units::{Bandwidth, Instant};
use rsvp::node::{CallError, Node, RsvpInterface, Settings};
use rsvp::traffic_control::{Route, Routing};
use rsvp::wire::{
    Content, DecodeError, Descriptors, ErrorSpec, Flowspec, Frame, Hop, Message, Opaque, Path, PathTear,
    Refresh, Resv, ResvConf, ResvTear, SenderDescriptor, SenderTemplate, Session, code,
};

const TEN: Bandwidth = Bandwidth::mbit(10);

fn framed(message: Message) -> Vec<u8> {
    let frame = Frame::plain(63, message);
    frame.encode().expect("it fits")
}

fn path(session: Session, sender: SenderTemplate) -> Vec<u8> {
    framed(Message::Path(Path {
        session,
        hop: Hop {
            address: HOST_A,
            lih: 0,
        },
        refresh: Refresh::millis(1000),
        policy: Vec::new(),
        sender: SenderDescriptor {
            template: sender,
            tspec: Content::Known(bucket(TEN)),
            adspec: Some(Content::Known(rsvp::wire::Adspec::at_sender(
                rsvp::wire::Real::INFINITE,
                0,
                1500,
            ))),
        },
    }))
}

fn resv(descriptors: Descriptors<Content<Flowspec>>) -> Vec<u8> {
    framed(Message::Resv(Resv {
        session: session(),
        hop: Hop {
            address: HOST_B,
            lih: 1,
        },
        refresh: Refresh::millis(1000),
        confirm: None,
        scope: None,
        policy: Vec::new(),
        descriptors,
    }))
}

fn flowspec() -> Content<Flowspec> {
    Content::Known(Flowspec::ControlledLoad(bucket(TEN)))
}

fn router() -> TestNode {
    node(R1, Bandwidth::mbit(100), Seed(1))
}

/// The message with which the node replies to these bytes, and its destination.
fn answer(node: &mut TestNode, interface: u32, bytes: &[u8]) -> Option<(IpAddr, Message)> {
    assert_eq!(node.handle_packet(Instant::START, interface, 63, bytes), Ok(()));
    let transmit = node.poll_transmit()?;
    assert_eq!(node.poll_transmit(), None, "one reply");
    let message = match Frame::decode(&transmit.bytes) {
        Ok(frame) => frame.message,
        // An error about an unknown object contains the unknown object.
        Err(DecodeError::Reportable(_, frame)) => frame.message,
        Err(DecodeError::Unreadable(unreadable)) => panic!("not decoded: {unreadable:?}"),
        Err(DecodeError::Malformed(flaw)) => panic!("our own message is malformed: {flaw:?}"),
    };
    Some((transmit.destination, message))
}

#[track_caller]
fn refused(node: &mut TestNode, interface: u32, bytes: &[u8], expected: u8) {
    match answer(node, interface, bytes) {
        Some((HOST_A, Message::PathErr(error))) => assert_eq!(error.error.code, expected),
        Some((HOST_B, Message::ResvErr(error))) => assert_eq!(error.error.code, expected),
        other => panic!("not an error message to the neighbour: {other:?}"),
    }
}

#[test]
fn a_resv_without_path_sender_or_known_style_is_answered() {
    let mut node = router();
    let fixed = |port| Descriptors::Fixed(vec![(flowspec(), sender(port))]);
    refused(&mut node, 1, &resv(fixed(1)), code::NO_PATH);
    answer(&mut node, 0, &path(session(), sender(1)));
    refused(&mut node, 1, &resv(fixed(2)), code::NO_SENDER);
    let strange = resv(Descriptors::Unknown(0x99, Vec::new()));
    refused(&mut node, 1, &strange, code::UNKNOWN_STYLE);
    assert!(node.traffic_control().reserved.is_empty());
    let passed = answer(&mut node, 1, &resv(fixed(1)));
    assert!(matches!(passed, Some((HOST_A, Message::Resv(_)))), "{passed:?}");
}

#[test]
fn rfc_2205_3_2_conflicting_ports_are_answered() {
    let portless = Session { port: 0, ..session() };
    let mut node = router();
    refused(
        &mut node,
        0,
        &path(portless, sender(1)),
        code::CONFLICTING_SENDER_PORTS,
    );
    answer(&mut node, 0, &path(session(), sender(1)));
    refused(
        &mut node,
        0,
        &path(portless, sender(0)),
        code::CONFLICTING_DESTINATION_PORTS,
    );
    let mut node = router();
    answer(&mut node, 0, &path(portless, sender(0)));
    refused(
        &mut node,
        0,
        &path(session(), sender(1)),
        code::CONFLICTING_DESTINATION_PORTS,
    );
    assert_eq!(node.senders(), 1);
}

#[test]
fn one_host_does_not_send_to_a_session_both_with_and_without_a_port() {
    let mut node = router();
    answer(&mut node, 0, &path(session(), sender(1)));
    refused(
        &mut node,
        0,
        &path(session(), sender(0)),
        code::CONFLICTING_SENDER_PORTS,
    );
    answer(&mut node, 0, &path(session(), sender(2)));
    assert_eq!(node.senders(), 2);
}

#[test]
fn a_session_with_one_style_rejects_another() {
    let mut node = router();
    answer(&mut node, 0, &path(session(), sender(1)));
    answer(
        &mut node,
        1,
        &resv(Descriptors::Fixed(vec![(flowspec(), sender(1))])),
    );
    for other in [
        Descriptors::Wildcard(flowspec()),
        Descriptors::SharedExplicit(flowspec(), vec![sender(1)]),
    ] {
        let Some((HOST_B, Message::ResvErr(error))) = answer(&mut node, 1, &resv(other)) else {
            panic!("no ResvErr");
        };
        assert_eq!(
            (error.error.code, error.error.value),
            (code::CONFLICTING_STYLE, 0x0a)
        );
    }
    assert_eq!(node.traffic_control().reserved.len(), 1);
}

#[test]
fn missing_senders_of_a_shared_request_are_answered_and_the_others_served() {
    let mut node = router();
    answer(&mut node, 0, &path(session(), sender(1)));
    let bytes = resv(Descriptors::SharedExplicit(
        flowspec(),
        vec![sender(1), sender(2)],
    ));
    assert_eq!(node.handle_packet(Instant::START, 1, 63, &bytes), Ok(()));
    let mut sent = Vec::new();
    while let Some(transmit) = node.poll_transmit() {
        let frame = Frame::decode(&transmit.bytes).expect("it is sound");
        sent.push((transmit.destination, frame.message));
    }
    let [(HOST_B, Message::ResvErr(error)), (HOST_A, Message::Resv(onward))] = sent.as_slice() else {
        panic!("{sent:?}");
    };
    assert_eq!(error.error.code, code::NO_SENDER);
    let of = |port| Descriptors::SharedExplicit(flowspec(), vec![sender(port)]);
    assert_eq!((&error.descriptors, &onward.descriptors), (&of(2), &of(1)));
}

#[test]
fn rfc_2205_3_10_unknown_objects_are_stored_with_the_state_and_forwarded_once_each() {
    let opaque = |byte| Opaque {
        class: 200,
        c_type: 1,
        data: vec![byte; 4],
    };
    let with = |bytes: &[u8], forwarded| {
        let mut frame = Frame::decode(bytes).expect("it is sound");
        frame.forwarded = forwarded;
        frame.encode().expect("it fits")
    };
    let mut node = router();
    let mut sent = |interface, bytes: &[u8]| {
        assert_eq!(node.handle_packet(Instant::START, interface, 63, bytes), Ok(()));
        let transmit = node.poll_transmit()?;
        Some(Frame::decode(&transmit.bytes).expect("it is sound").forwarded)
    };
    let bytes = with(&path(session(), sender(1)), vec![opaque(1)]);
    assert_eq!(sent(0, &bytes), Some(vec![opaque(1)]));
    let plain = resv(Descriptors::Fixed(vec![(flowspec(), sender(1))]));
    let bytes = with(&plain, vec![opaque(2), opaque(2), opaque(3)]);
    assert_eq!(sent(1, &bytes), Some(vec![opaque(2), opaque(3)]));
    // A changed forwarded object triggers a message at once, as any change.
    let bytes = with(&plain, vec![opaque(4)]);
    assert_eq!(sent(1, &bytes), Some(vec![opaque(4)]));
    assert_eq!(sent(1, &bytes), None);
}

/// The same message with another C-Type of its object of this class, and without a checksum.
fn with_c_type(mut bytes: Vec<u8>, class: u8, c_type: u8) -> Vec<u8> {
    bytes[2..4].fill(0);
    let mut at = 8;
    while at < bytes.len() {
        if bytes[at + 2] == class {
            bytes[at + 3] = c_type;
        }
        at += usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    }
    bytes
}

/// The objects of a message: class, C-Type and contents.
fn objects(bytes: &[u8]) -> Vec<(u8, u8, Vec<u8>)> {
    let mut objects = Vec::new();
    let mut rest = &bytes[8..];
    while let [high, low, class, c_type, ..] = *rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        objects.push((class, c_type, rest[4..length].to_vec()));
        rest = &rest[length..];
    }
    objects
}

#[test]
fn rfc_2205_3_10_an_unknown_c_type_of_a_needed_object_is_answered_with_error_14() {
    const SESSION: u8 = 1;
    const TIME_VALUES: u8 = 5;
    const ERROR_SPEC: u8 = 6;
    const STYLE: u8 = 8;
    const FILTER_SPEC: u8 = 10;
    const SENDER_TEMPLATE: u8 = 11;
    /// That of RSVP-TE's SESSION and SENDER_TEMPLATE (RFC 3209).
    const LSP_TUNNEL_IPV4: u8 = 7;
    let fixed = resv(Descriptors::Fixed(vec![(flowspec(), sender(1))]));
    let path = path(session(), sender(1));
    for (bytes, class, kind, interface, to) in [
        (&path, SESSION, 3, 0, HOST_A),
        (&path, SENDER_TEMPLATE, 3, 0, HOST_A),
        (&path, TIME_VALUES, 3, 0, HOST_A),
        (&fixed, SESSION, 4, 1, HOST_B),
        (&fixed, STYLE, 4, 1, HOST_B),
        (&fixed, FILTER_SPEC, 4, 1, HOST_B),
    ] {
        let mut node = router();
        let strange = with_c_type(bytes.clone(), class, LSP_TUNNEL_IPV4);
        let read = node.handle_packet(Instant::START, interface, 63, &strange);
        assert_eq!(read, Ok(()), "class {class}");
        let sent = node.poll_transmit().expect("an error message");
        assert_eq!(
            (sent.destination, sent.interface, sent.bytes[1]),
            (to, interface, kind)
        );
        let found = objects(&sent.bytes);
        let error = found
            .iter()
            .find(|object| object.0 == ERROR_SPEC)
            .expect("ERROR_SPEC");
        assert_eq!(
            error.2[5..],
            [code::UNKNOWN_C_TYPE, class, LSP_TUNNEL_IPV4],
            "class {class}"
        );
        // The sender recognises its message by the objects as they came.
        let told = objects(&strange);
        for told in told
            .into_iter()
            .filter(|told| [SESSION, STYLE, FILTER_SPEC, SENDER_TEMPLATE].contains(&told.0))
        {
            assert!(found.contains(&told), "{told:?} in {found:?}");
        }
        assert_eq!(node.poll_transmit(), None);
        assert_eq!(node.senders(), 0);
    }
    // An error is never answered.
    let mut node = router();
    let mut error = with_c_type(fixed.clone(), STYLE, LSP_TUNNEL_IPV4);
    error[1] = 6;
    assert!(node.handle_packet(Instant::START, 1, 63, &error).is_err());
    assert_eq!(node.poll_transmit(), None);
    let strange = with_c_type(path.clone(), SESSION, LSP_TUNNEL_IPV4);
    let mut error = strange.clone();
    error[1] = 5;
    assert!(node.handle_packet(Instant::START, 0, 63, &error).is_err());
    assert_eq!(node.poll_transmit(), None);
}

#[test]
fn the_state_of_a_node_is_bounded() {
    let mut node = router();
    let fixed = |flowspec, port| resv(Descriptors::Fixed(vec![(flowspec, sender(port))]));
    let kbits = |n| Content::Known(Flowspec::ControlledLoad(bucket(Bandwidth::kbit(n))));
    for port in 1..=60 {
        answer(&mut node, 0, &path(session(), sender(port)));
    }
    for port in 1..=50 {
        answer(&mut node, 1, &fixed(kbits(1), port));
    }
    refused(&mut node, 1, &fixed(kbits(1), 51), code::SYSTEM);
    assert_eq!(node.reservations(), 50);
    // A change of existing state adds none.
    let changed = answer(&mut node, 1, &fixed(kbits(2), 50));
    assert!(matches!(changed, Some((HOST_A, Message::Resv(_)))), "{changed:?}");
}

/// Towards host 1 through interface 0, to all others through interface 1.
struct Straight;

const fn v6(end: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, end))
}

impl Routing for Straight {
    fn route(&self, _: Option<IpAddr>, to: IpAddr) -> Route {
        Route::through(u32::from(to != v6(1)))
    }
}

#[test]
fn ipv6_works_as_ipv4_does() {
    let interface = |end: u16| RsvpInterface {
        addresses: vec![IpAddr::from([10, 0, 0, 9]), v6(end)],
        refresh: Refresh::millis(1000),
    };
    let settings = Settings::new(vec![interface(2), interface(3)], Seed(1));
    let mut node = Node::new(settings, TestAdmission::new(Bandwidth::mbit(100)), Straight);
    let mut pass = |interface, message| {
        let read = node.handle_packet(Instant::START, interface, 63, &framed(message));
        assert_eq!(read, Ok(()));
        let transmit = node.poll_transmit().expect("it is forwarded");
        let frame = Frame::decode(&transmit.bytes).expect("it is sound");
        (transmit.source, transmit.destination, frame.message)
    };
    let session = Session {
        destination: v6(4),
        ..session()
    };
    let sender = SenderTemplate::FlowLabel {
        address: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        label: 77,
    };
    let hop = |end, lih| Hop {
        address: v6(end),
        lih,
    };
    let path = Message::Path(Path {
        session,
        hop: hop(1, 7),
        refresh: Refresh::millis(1000),
        policy: Vec::new(),
        sender: SenderDescriptor {
            template: sender,
            tspec: Content::Known(bucket(TEN)),
            adspec: None,
        },
    });
    let (source, destination, Message::Path(path)) = pass(0, path) else {
        panic!("not a Path");
    };
    assert_eq!((source, destination, path.hop), (v6(1), v6(4), hop(3, 1)));
    let resv = Message::Resv(Resv {
        session,
        hop: hop(4, 1),
        refresh: Refresh::millis(1000),
        confirm: None,
        scope: None,
        policy: Vec::new(),
        descriptors: Descriptors::Fixed(vec![(flowspec(), sender)]),
    });
    let (source, destination, Message::Resv(resv)) = pass(1, resv) else {
        panic!("not a Resv");
    };
    assert_eq!((source, destination, resv.hop), (v6(2), v6(1), hop(2, 7)));
}

#[test]
fn rfc_2205_3_10_an_unknown_class_is_answered_and_changes_nothing() {
    let mut node = router();
    let mut bytes = path(session(), sender(1));
    bytes.extend([0, 8, 99, 1, 0, 0, 0, 0]);
    let length = u16::try_from(bytes.len()).expect("it is short");
    bytes[6..8].copy_from_slice(&length.to_be_bytes());
    bytes[2..4].fill(0);
    refused(&mut node, 0, &bytes, code::UNKNOWN_CLASS);
    assert_eq!(node.senders(), 0);
}

#[test]
fn senders_beyond_the_limit_are_refused() {
    let mut node = router();
    for port in 1..=100 {
        answer(&mut node, 0, &path(session(), sender(port)));
    }
    refused(&mut node, 0, &path(session(), sender(101)), code::SYSTEM);
    assert_eq!(node.senders(), 100);
}

#[test]
fn rfc_2205_2_9_a_hop_without_rsvp_shows_in_the_ttl_and_breaks_the_adspec() {
    let broken = |ttl: u8| {
        let mut node = router();
        let bytes = path(session(), sender(1));
        assert_eq!(node.handle_packet(Instant::START, 0, ttl, &bytes), Ok(()));
        let sent = node.poll_transmit().expect("the Path is forwarded");
        assert_eq!(
            (sent.ttl, sent.source, sent.destination),
            (ttl - 1, HOST_A, HOST_B)
        );
        assert!(sent.router_alert);
        let Ok(Frame {
            message: Message::Path(path),
            send_ttl,
            ..
        }) = Frame::decode(&sent.bytes)
        else {
            panic!("not a Path");
        };
        assert_eq!(send_ttl, sent.ttl);
        let adspec = path.sender.adspec.as_ref().and_then(Content::known).cloned();
        adspec.expect("it is carried").fragments()[0].broken
    };
    assert!(!broken(63));
    assert!(broken(60));
}

#[test]
fn the_police_flag_is_set_by_the_sender_and_cleared_by_the_first_router() {
    let mut network = Network::new(Bandwidth::mbit(100), 1);
    network.reserve(1, TEN);
    let police = |at: usize| {
        let reserved = &network.nodes[at].traffic_control().reserved;
        reserved
            .values()
            .next()
            .is_some_and(|(_, request)| request.police.entry)
    };
    assert_eq!([police(A), police(1), police(2)], [true, true, false]);
}

#[test]
fn invalid_calls_return_the_reason() {
    let mut node = router();
    let now = Instant::START;
    let nowhere = Session {
        destination: IpAddr::from([10, 9, 9, 9]),
        ..session()
    };
    assert_eq!(
        node.add_sender(now, nowhere, sender(1), bucket(TEN)),
        Err(CallError::NoRoute)
    );
    let portless = Session { port: 0, ..session() };
    assert_eq!(
        node.add_sender(now, portless, sender(1), bucket(TEN)),
        Err(CallError::Ports)
    );
    let requested = Flowspec::ControlledLoad(bucket(TEN));
    assert_eq!(
        node.reserve(
            now,
            receiver(1),
            &session(),
            Descriptors::Fixed(vec![(requested, sender(1))])
        ),
        Err(CallError::NoPath)
    );
}

#[test]
fn only_the_neighbour_that_created_state_may_tear_it_down() {
    let mut node = router();
    let stranger = IpAddr::from([10, 0, 7, 7]);
    let fixed = || Descriptors::Fixed(vec![(flowspec(), sender(1))]);
    answer(&mut node, 0, &path(session(), sender(1)));
    answer(&mut node, 1, &resv(fixed()));
    let path_tear = |address| {
        framed(Message::PathTear(PathTear {
            session: session(),
            hop: Hop { address, lih: 0 },
            sender: sender(1),
        }))
    };
    let resv_tear = |address| {
        framed(Message::ResvTear(ResvTear {
            session: session(),
            hop: Hop { address, lih: 1 },
            scope: None,
            descriptors: Descriptors::Fixed(vec![((), sender(1))]),
        }))
    };
    assert_eq!(answer(&mut node, 0, &path_tear(stranger)), None);
    assert_eq!(
        answer(&mut node, 2, &path_tear(HOST_A)),
        None,
        "through another interface"
    );
    assert_eq!(answer(&mut node, 1, &resv_tear(stranger)), None);
    assert_eq!((node.senders(), node.traffic_control().reserved.len()), (1, 1));
    let passed = answer(&mut node, 1, &resv_tear(HOST_B));
    assert!(
        matches!(passed, Some((HOST_A, Message::ResvTear(_)))),
        "{passed:?}"
    );
    assert!(answer(&mut node, 0, &path_tear(HOST_A)).is_some());
    assert_eq!((node.senders(), node.traffic_control().reserved.len()), (0, 0));
}

#[test]
fn rfc_2205_3_1_9_a_confirmation_is_sent_hop_by_hop_from_each_hops_address() {
    let mut node = router();
    let confirmation = ResvConf {
        session: session(),
        error: ErrorSpec {
            node: HOST_A,
            in_place: false,
            not_guilty: false,
            code: code::CONFIRMATION,
            value: 0,
        },
        confirm: HOST_B,
        descriptors: Descriptors::Fixed(vec![(flowspec(), sender(4000))]),
    };
    let bytes = framed(Message::ResvConf(confirmation.clone()));
    assert_eq!(node.handle_packet(Instant::START, 0, 63, &bytes), Ok(()));
    let sent = node.poll_transmit().expect("it is forwarded");
    let own = Topology::row().addresses(R1)[1];
    assert_eq!((sent.source, sent.destination), (own, HOST_B));
    assert_eq!((sent.interface, sent.ttl, sent.router_alert), (1, 62, true));
    let message = Frame::decode(&sent.bytes).map(|frame| frame.message);
    assert!(matches!(message, Ok(Message::ResvConf(sent)) if sent == confirmation));
}
