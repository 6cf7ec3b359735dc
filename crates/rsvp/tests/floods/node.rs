//! Invented sessions, senders and next hops at a node with two interfaces.

use crate::admit_all::AdmitAll;
use crate::paths::{TTL, bucket, invented, path, session};
use core::net::{IpAddr, Ipv4Addr};
use engine::random::Seed;
use engine::units::{Duration, Instant};
use rsvp::node::{Event, LimitOutcome, LimitedState, Node, RsvpInterface, SessionStatus, Settings};
use rsvp::places::{Places, Shortage};
use rsvp::traffic_control::{InterfaceId, Route, Routing};
use rsvp::wire::{
    Content, Descriptors, Flowspec, Frame, Hop, Message, Opaque, PathErr, Refresh, Resv, SenderTemplate, code,
};

pub(crate) const FRIEND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const R: Refresh = Refresh::millis(30_000);
const OUT: InterfaceId = 2;

/// Everything leaves through the third interface.
pub(crate) struct Onwards;

impl Routing for Onwards {
    fn route(&self, _: Option<IpAddr>, _: IpAddr) -> Route {
        Route::through(OUT)
    }
}

pub(crate) type TestNode = Node<AdmitAll, Onwards>;

/// A node with so many places.
pub(crate) fn node(places: usize) -> TestNode {
    let interface = |end: u8| RsvpInterface {
        addresses: vec![IpAddr::V4(Ipv4Addr::new(10, end, 0, 1))],
        refresh: R,
    };
    let settings = Settings {
        max_senders: Places::of(places),
        max_reservations: Places::of(places),
        ..Settings::new((0..3).map(interface).collect(), Seed(1))
    };
    Node::new(settings, AdmitAll::default(), Onwards)
}

pub(crate) const fn sender(port: u16) -> SenderTemplate {
    SenderTemplate::Port {
        address: FRIEND,
        port,
    }
}

pub(crate) fn status(node: &TestNode, port: u16) -> SessionStatus {
    node.status_of(&session(port)).expect("there is state")
}

/// A Path of this neighbour on an interface.
fn send(node: &mut TestNode, now: Instant, interface: InterfaceId, hop: IpAddr, flow: (u16, SenderTemplate)) {
    let path = path(session(flow.0), flow.1, hop, R);
    node.handle_frame(now, interface, TTL, Frame::plain(TTL, Message::Path(path)));
}

/// A next hop reserves for a sender.
pub(crate) fn reserve(
    node: &mut TestNode,
    now: Instant,
    port: u16,
    from: u16,
    nhop: IpAddr,
    refresh: Refresh,
) {
    let resv = Resv {
        session: session(port),
        hop: Hop {
            address: nhop,
            lih: OUT,
        },
        refresh,
        confirm: None,
        scope: None,
        policy: Vec::new(),
        descriptors: Descriptors::Fixed(vec![(
            Content::Known(Flowspec::ControlledLoad(bucket())),
            sender(from),
        )]),
    };
    node.handle_frame(now, OUT, TTL, Frame::plain(TTL, Message::Resv(resv)));
}

/// The limits that were reached, and the codes of the errors that were sent.
fn outcomes(node: &mut TestNode) -> (Vec<(LimitedState, LimitOutcome)>, Vec<u8>) {
    let events = core::iter::from_fn(|| node.poll_event());
    let limits = events
        .filter_map(|event| match event {
            Event::Limited { state, outcome, .. } => Some((state, outcome)),
            _ => None,
        })
        .collect();
    let sent = core::iter::from_fn(|| node.poll_transmit());
    let errors = sent
        .filter_map(|sent| match Frame::decode(&sent.bytes).ok()?.message {
            Message::PathErr(PathErr { error, .. }) => Some(error.code),
            Message::ResvErr(error) => Some(error.error.code),
            _ => None,
        })
        .collect();
    (limits, errors)
}

#[test]
fn one_neighbour_that_floods_has_its_share_and_leaves_the_rest_to_others() {
    let mut node = node(1000);
    for port in 1..=2000 {
        send(&mut node, Instant::START, 0, invented(1), (1, sender(port)));
    }
    assert_eq!(node.senders(), 250);
    let (limits, errors) = outcomes(&mut node);
    let refused = LimitOutcome::Refused(Shortage::Neighbour);
    assert_eq!(limits, vec![(LimitedState::Senders, refused); 1750]);
    assert_eq!(errors, vec![code::SYSTEM; 1750]);
    for interface in [0, 1] {
        let port = 10 + interface as u16;
        send(&mut node, Instant::START, interface, FRIEND, (port, sender(port)));
        reserve(&mut node, Instant::START, port, port, invented(2), R);
        assert_eq!(status(&node, port).tcsbs.len(), 1);
    }
    assert_eq!(outcomes(&mut node), (vec![], vec![]));
}

#[test]
fn a_flood_of_invented_neighbours_leaves_room_for_others_on_the_same_interface() {
    const EACH: u32 = 20_000;
    let mut node = node(1000);
    send(&mut node, Instant::START, 0, FRIEND, (1, sender(1)));
    reserve(&mut node, Instant::START, 1, 1, invented(0), R);
    let mut peak = 0;
    for number in 0..EACH {
        let now = Instant::START + Duration::from_micros(500).times(number.into());
        let from = SenderTemplate::Port {
            address: invented(number),
            port: 7,
        };
        send(&mut node, now, 0, invented(number), (2, from));
        if number % 1000 == 999 {
            let port = 100 + (number / 1000) as u16;
            send(&mut node, now, 0, FRIEND, (port, sender(port)));
            reserve(&mut node, now, port, port, invented(0), R);
            assert_eq!(status(&node, port).tcsbs.len(), 1, "the flood has sent {number}");
        }
        peak = peak.max(node.senders());
        while node.poll_transmit().is_some() {}
        node.handle_timeout(now);
    }
    assert!(peak <= 500, "{peak} senders");
    assert_eq!(status(&node, 1).tcsbs.len(), 1, "what was reserved before stays");
    for port in 100..100 + (EACH / 1000) as u16 {
        assert_eq!(status(&node, port).tcsbs.len(), 1);
    }
    let (limits, _) = outcomes(&mut node);
    assert!(
        limits
            .iter()
            .all(|limit| *limit == (LimitedState::Senders, LimitOutcome::Evicted))
    );
    assert!(limits.len() > 19_000);
}

#[test]
fn reserved_and_refreshed_path_state_does_not_make_room() {
    let mut node = node(8);
    for port in 1..=2 {
        send(&mut node, Instant::START, 0, FRIEND, (port, sender(port)));
        reserve(&mut node, Instant::START, port, port, invented(0), R);
        send(
            &mut node,
            Instant::START,
            0,
            invented(1),
            (10 + port, sender(port)),
        );
        reserve(&mut node, Instant::START, 10 + port, port, invented(3), R);
    }
    outcomes(&mut node);
    send(&mut node, Instant::START, 0, invented(2), (9, sender(9)));
    let refused = LimitOutcome::Refused(Shortage::Interface);
    let (limits, errors) = outcomes(&mut node);
    assert_eq!(
        (limits, errors),
        (vec![(LimitedState::Senders, refused)], vec![code::SYSTEM])
    );
    assert_eq!((node.senders(), node.reservations()), (4, 4));
}

#[test]
fn invented_next_hops_leave_reservations_for_others() {
    let mut node = node(4000);
    for port in [1, 2] {
        send(&mut node, Instant::START, 0, FRIEND, (port, sender(port)));
    }
    outcomes(&mut node);
    for number in 0..1000 {
        reserve(&mut node, Instant::START, 1, 1, invented(number), R);
    }
    assert_eq!(node.reservations(), 256);
    let (_, errors) = outcomes(&mut node);
    assert_eq!(errors, vec![code::SYSTEM; 744]);
    reserve(&mut node, Instant::START, 2, 2, FRIEND, R);
    assert_eq!(status(&node, 2).tcsbs.len(), 1);
}

#[test]
fn objects_that_are_only_carried_count_by_their_length() {
    let mut node = node(400);
    for port in 1..=200 {
        let mut path = path(session(1), sender(port), invented(1), R);
        path.policy = vec![Opaque {
            class: 14,
            c_type: 1,
            data: vec![0; 60_000],
        }];
        node.handle_frame(Instant::START, 0, TTL, Frame::plain(TTL, Message::Path(path)));
        while node.poll_transmit().is_some() {}
    }
    assert_eq!(node.senders(), 1, "59 places each, of 100 for a neighbour");
}

#[test]
fn all_places_come_back_with_the_state_that_took_them() {
    let mut node = node(100);
    for round in 0..50_u64 {
        let now = Instant::START + Duration::from_secs(200).times(round);
        node.handle_timeout(now);
        assert_eq!((node.senders(), node.reservations()), (0, 0));
        for port in 1..=25 {
            send(&mut node, now, 0, FRIEND, (port, sender(port)));
            // The previous hop changes, and its place with it.
            send(&mut node, now, 1, invented(1), (port, sender(port)));
            reserve(&mut node, now, port, port, invented(0), R);
        }
        assert_eq!((node.senders(), node.reservations()), (25, 25), "round {round}");
        while node.poll_transmit().is_some() {}
        assert!(outcomes(&mut node).0.is_empty());
    }
}
