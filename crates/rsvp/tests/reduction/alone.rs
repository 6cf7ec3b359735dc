//! One shim by itself, message by message: when it sends what, and what it remembers.

use core::net::{IpAddr, Ipv4Addr};
use engine::units::{Duration, Instant};
use rsvp::node::Transmit;
use rsvp::places::Places;
use rsvp::reduction::{ReductionShim, Settings};
use rsvp::wire::{
    Content, Descriptors, Flowspec, Frame, Hop, Message, MessageId, MessageIdAck, MessageIdList, MessageIds,
    Path, PathTear, Real, Refresh, Resv, ResvTear, SenderDescriptor, SenderTemplate, Session, TokenBucket,
};

const US: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const TTL: u8 = 63;
const EPOCH: u32 = 5;
/// That of the neighbours.
const THEIRS: u32 = 9;

const fn neighbour(end: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, end))
}

const THEM: IpAddr = neighbour(2);

const fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn settings() -> Settings {
    Settings {
        assume_capable: true,
        ..Settings::new(vec![vec![US]], EPOCH)
    }
}

const fn session(port: u16) -> Session {
    Session {
        destination: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)),
        protocol: 17,
        port,
        police: false,
    }
}

const fn sender(port: u16) -> SenderTemplate {
    SenderTemplate::Port {
        address: IpAddr::V4(Ipv4Addr::new(10, 8, 0, 1)),
        port,
    }
}

fn bucket() -> TokenBucket {
    TokenBucket {
        rate: Real::nearest(125_000),
        bucket: Real::nearest(3000),
        peak: Real::INFINITE,
        minimum: 64,
        maximum: 1500,
    }
}

/// A Path of this sender, with R in milliseconds.
fn path(hop: IpAddr, port: u16, refresh: u32) -> Message {
    Message::Path(Path {
        session: session(1),
        hop: Hop { address: hop, lih: 7 },
        refresh: Refresh::millis(refresh),
        policy: Vec::new(),
        sender: SenderDescriptor {
            template: sender(port),
            tspec: Content::Known(bucket()),
            adspec: None,
        },
    })
}

fn path_tear(hop: IpAddr, port: u16) -> Message {
    Message::PathTear(PathTear {
        session: session(1),
        hop: Hop { address: hop, lih: 7 },
        sender: sender(port),
    })
}

fn resv(in_session: u16, ports: &[u16]) -> Message {
    let flowspec = Content::Known(Flowspec::ControlledLoad(bucket()));
    let each = ports.iter().map(|port| (flowspec.clone(), sender(*port)));
    Message::Resv(Resv {
        session: session(in_session),
        hop: Hop { address: US, lih: 7 },
        refresh: Refresh::millis(1000),
        confirm: None,
        scope: None,
        policy: Vec::new(),
        descriptors: Descriptors::Fixed(each.collect()),
    })
}

fn resv_tear(in_session: u16, ports: &[u16]) -> Message {
    Message::ResvTear(ResvTear {
        session: session(in_session),
        hop: Hop { address: US, lih: 7 },
        scope: None,
        descriptors: Descriptors::Fixed(ports.iter().map(|port| ((), sender(*port))).collect()),
    })
}

/// The node sends this to a neighbour.
fn send_to(shim: &mut ReductionShim, now: Instant, to: IpAddr, message: Message) {
    let bytes = Frame::plain(TTL, message).encode().expect("it fits");
    let transmit = Transmit {
        interface: 0,
        source: US,
        destination: to,
        router_alert: false,
        ttl: TTL,
        bytes,
    };
    shim.outgoing(now, transmit);
}

fn send(shim: &mut ReductionShim, now: Instant, message: Message) {
    send_to(shim, now, THEM, message);
}

/// What the shim sends now.
fn sent(shim: &mut ReductionShim) -> Vec<Frame> {
    let sent = core::iter::from_fn(|| shim.poll_transmit());
    sent.map(|sent| Frame::decode(&sent.bytes).expect("it is sound"))
        .collect()
}

/// The types and MESSAGE_IDs of what the shim sends at this time.
fn sent_at(shim: &mut ReductionShim, now: Instant) -> Vec<(u8, Option<u32>)> {
    shim.handle_timeout(now);
    let ids = sent(shim).into_iter().map(|frame| {
        let id = frame.message_id.map(|id| {
            assert_eq!((id.ack_desired, id.epoch), (true, EPOCH));
            id.id
        });
        (frame.message.kind(), id)
    });
    ids.collect()
}

/// A message of a neighbour that supports refresh reduction.
fn numbered(message: Message, id: u32) -> Frame {
    Frame {
        refresh_reduction: true,
        message_id: Some(MessageId {
            ack_desired: true,
            epoch: THEIRS,
            id,
        }),
        ..Frame::plain(TTL, message)
    }
}

const fn ack(id: u32) -> MessageIdAck {
    MessageIdAck {
        known: true,
        epoch: EPOCH,
        id,
    }
}

fn with_acks(message: Message, acknowledgements: Vec<MessageIdAck>) -> Frame {
    Frame {
        refresh_reduction: true,
        acknowledgements,
        ..Frame::plain(TTL, message)
    }
}

fn summary(ids: &[u32]) -> Frame {
    let list = MessageIdList {
        epoch: THEIRS,
        ids: MessageIds::Neighbour(ids.to_vec()),
    };
    Frame {
        refresh_reduction: true,
        ..Frame::plain(TTL, Message::Srefresh(vec![list]))
    }
}

#[test]
fn rfc_2961_6_state_is_retransmitted_after_half_a_second_and_one_second_and_given_up_two_later() {
    let mut shim = ReductionShim::new(settings());
    send(&mut shim, at(0), path(US, 1, 1000));
    assert_eq!(sent_at(&mut shim, at(0)), [(1, Some(1))]);
    for (due, last) in [(500, false), (1_500, true)] {
        assert_eq!(shim.poll_timeout(), Some(at(due)));
        assert_eq!(sent_at(&mut shim, at(due) - Duration::from_nanos(1)), []);
        assert_eq!(sent_at(&mut shim, at(due)), [(1, Some(1))]);
        assert_eq!(shim.counts().retransmitted, 1 + u64::from(last));
    }
    assert_eq!(shim.poll_timeout(), Some(at(3_500)));
    assert_eq!(sent_at(&mut shim, at(3_500)), []);
    assert_eq!((shim.counts().retransmitted, shim.counts().given_up), (2, 1));
    // Its identifier stays for the lifetime of its state: 5.25 R.
    assert_eq!(shim.poll_timeout(), Some(at(8_750)));
    assert_eq!(sent_at(&mut shim, at(8_750)), []);
    assert_eq!((shim.poll_timeout(), shim.counts().given_up), (None, 1));
}

#[test]
fn a_tear_is_retransmitted_as_often_and_then_forgotten() {
    let mut shim = ReductionShim::new(settings());
    for round in 0..2 {
        let start = round * 10_000;
        send(&mut shim, at(start), path_tear(US, 1));
        let id = Some(1 + round as u32);
        assert_eq!(sent_at(&mut shim, at(start)), [(5, id)]);
        assert_eq!(sent_at(&mut shim, at(start + 500)), [(5, id)]);
        assert_eq!(sent_at(&mut shim, at(start + 1_500)), [(5, id)]);
        assert_eq!(shim.poll_timeout(), Some(at(start + 3_500)));
        assert_eq!(sent_at(&mut shim, at(start + 3_500)), []);
        let counts = shim.counts();
        assert_eq!(
            (counts.retransmitted, counts.given_up),
            (2 * (round + 1), round + 1)
        );
        assert_eq!(shim.poll_timeout(), None);
    }
}

#[test]
fn acknowledged_state_is_refreshed_by_its_identifier_an_eighth_of_r_or_half_a_second_later() {
    for (refresh, wait) in [(1_000, 125), (2_400, 300), (4_000, 500), (30_000, 500)] {
        let mut shim = ReductionShim::new(settings());
        send(&mut shim, at(0), path(US, 1, refresh));
        send(&mut shim, at(0), path(US, 2, refresh));
        assert_eq!(sent_at(&mut shim, at(0)), [(1, Some(1)), (1, Some(2))]);
        let acks = with_acks(Message::Ack, vec![ack(1), ack(2)]);
        assert!(shim.incoming(at(100), 0, THEM, TTL, acks).is_empty());
        assert_eq!(sent_at(&mut shim, at(900)), []);
        send(&mut shim, at(900), path(US, 1, refresh));
        send(&mut shim, at(901), path(US, 2, refresh));
        assert_eq!(sent_at(&mut shim, at(901)), []);
        assert_eq!(shim.poll_timeout(), Some(at(900 + wait)));
        shim.handle_timeout(at(900 + wait));
        let [frame] = sent(&mut shim).try_into().expect("one message");
        let list = MessageIdList {
            epoch: EPOCH,
            ids: MessageIds::Neighbour(vec![1, 2]),
        };
        assert_eq!(frame.message, Message::Srefresh(vec![list]));
        let counts = shim.counts();
        assert_eq!(
            (counts.summarised, counts.retransmitted, counts.given_up),
            (2, 0, 0)
        );
        // A changed message goes out whole, under another identifier.
        send(&mut shim, at(2_000), path(US, 1, refresh + 1));
        assert_eq!(sent_at(&mut shim, at(2_000)), [(1, Some(3))]);
    }
}

#[test]
fn messages_that_install_no_state_are_reliable_up_to_a_limit() {
    let mut shim = ReductionShim::new(Settings {
        max_unacknowledged: 2,
        ..settings()
    });
    for (port, id) in [(1, Some(1)), (2, Some(2)), (3, None)] {
        send(&mut shim, at(0), path_tear(US, port));
        assert_eq!(sent_at(&mut shim, at(0)), [(5, id)]);
    }
    // State does not count, and an acknowledged tear no longer.
    send(&mut shim, at(0), path(US, 4, 1000));
    assert_eq!(sent_at(&mut shim, at(0)), [(1, Some(3))]);
    shim.incoming(at(1), 0, THEM, TTL, with_acks(Message::Ack, vec![ack(1)]));
    for (port, id) in [(5, Some(4)), (6, None)] {
        send(&mut shim, at(1), path_tear(US, port));
        assert_eq!(sent_at(&mut shim, at(1)), [(5, id)]);
    }
}

#[test]
fn torn_state_is_not_retransmitted_and_other_state_is() {
    let mut shim = ReductionShim::new(settings());
    let now = at(0);
    for message in [
        path(US, 1, 1000),
        path(US, 2, 1000),
        resv(1, &[1]),
        resv(1, &[2]),
        resv(2, &[1]),
    ] {
        send(&mut shim, now, message);
    }
    send_to(&mut shim, now, neighbour(3), resv(1, &[1]));
    assert_eq!(sent(&mut shim).len(), 6);
    send(&mut shim, now, path_tear(US, 1));
    assert_eq!(sent_at(&mut shim, now), [(5, Some(7))]);
    // The second Path, all Resvs, and the tear.
    assert_eq!(
        sent_at(&mut shim, at(500)),
        [
            (1, Some(2)),
            (2, Some(3)),
            (2, Some(4)),
            (2, Some(5)),
            (2, Some(6)),
            (5, Some(7))
        ]
    );
    // All state of the session with this neighbour, whichever senders the tear names.
    send(&mut shim, at(600), resv_tear(1, &[1]));
    assert_eq!(sent_at(&mut shim, at(600)), [(6, Some(8))]);
    assert_eq!(sent_at(&mut shim, at(1_100)), [(6, Some(8))]);
    assert_eq!(
        sent_at(&mut shim, at(1_500)),
        [(1, Some(2)), (2, Some(5)), (2, Some(6)), (5, Some(7))]
    );
}

#[test]
fn a_message_is_acknowledged_after_50_ms_from_the_address_of_its_interface() {
    let mut shim = ReductionShim::new(settings());
    let others = [1, 2, 4].map(|interface| IpAddr::from([10, interface, 0, 1]));
    shim.set_interface(1, vec![others[0]]);
    shim.set_interface(2, vec![US]);
    shim.set_interface(2, vec![others[1]]);
    // One that is further away leaves those between without an address.
    shim.set_interface(4, vec![others[2]]);
    for (interface, source) in [
        (0, Some(US)),
        (1, Some(others[0])),
        (2, Some(others[1])),
        (3, None),
        (4, Some(others[2])),
    ] {
        let now = at(1_000 * (1 + u64::from(interface)));
        let frame = numbered(path(THEM, 1, 1000), 77);
        assert_eq!(shim.incoming(now, interface, THEM, TTL, frame).len(), 1);
        assert_eq!(shim.poll_timeout(), Some(now + Duration::from_millis(50)));
        shim.handle_timeout(now + Duration::from_millis(50));
        let sent = shim.poll_transmit();
        assert_eq!(sent.as_ref().map(|sent| sent.source), source);
        if let Some(sent) = sent {
            assert_eq!((sent.interface, sent.destination), (interface, THEM));
            let frame = Frame::decode(&sent.bytes).expect("it is sound");
            let known = MessageIdAck {
                known: true,
                epoch: THEIRS,
                id: 77,
            };
            assert_eq!(
                (frame.message, frame.acknowledgements),
                (Message::Ack, vec![known])
            );
        }
        assert_eq!(shim.poll_transmit(), None);
    }
}

#[test]
fn an_acknowledgement_of_nothing_that_we_sent_leaves_no_trace() {
    let mut shim = ReductionShim::new(settings());
    send(&mut shim, at(0), path(US, 1, 1000));
    let ours = ack(1);
    for (interface, wrong) in [
        (0, MessageIdAck { epoch: 6, ..ours }),
        (0, MessageIdAck { id: 2, ..ours }),
        (0, MessageIdAck { known: false, ..ours }),
        (
            0,
            MessageIdAck {
                known: false,
                epoch: 6,
                ..ours
            },
        ),
        (1, ours),
    ] {
        shim.incoming(at(1), interface, THEM, TTL, with_acks(Message::Ack, vec![wrong]));
        assert_eq!(shim.neighbours(), 0, "{wrong:?}");
        assert_eq!(shim.poll_timeout(), Some(at(500)));
    }
    shim.incoming(at(1), 0, THEM, TTL, with_acks(Message::Ack, vec![ours]));
    assert_eq!(shim.neighbours(), 1);
    assert_eq!(shim.poll_timeout(), Some(at(5_251)));
}

#[test]
fn the_last_64_messages_without_state_are_known_again() {
    let mut shim = ReductionShim::new(settings());
    let mut heard = |id| {
        let frame = numbered(path_tear(THEM, 1), id);
        shim.incoming(at(0), 0, THEM, TTL, frame).len()
    };
    for id in 1..=64 {
        assert_eq!(heard(id), 1);
    }
    for id in 1..=64 {
        assert_eq!(heard(id), 0, "{id}");
    }
    assert_eq!(heard(65), 1);
    for id in 2..=65 {
        assert_eq!(heard(id), 0, "{id}");
    }
    assert_eq!(heard(1), 1);
    assert_eq!((heard(2), heard(65)), (1, 0));
}

#[test]
fn a_stored_message_has_its_place_until_it_is_replaced_or_its_lifetime_ends() {
    let mut shim = ReductionShim::new(Settings {
        max_stored: Places::unshared(2),
        ..settings()
    });
    let hear = |shim: &mut ReductionShim, now, port, id| {
        let frame = numbered(path(THEM, port, 1000), id);
        assert_eq!(shim.incoming(now, 0, THEM, TTL, frame).len(), 1);
        shim.handle_timeout(now);
    };
    for id in 1..=100 {
        hear(&mut shim, at(0), 1, id);
    }
    hear(&mut shim, at(1_000), 2, 200);
    // No place is left: it is processed, and will be refreshed whole.
    hear(&mut shim, at(1_000), 3, 201);
    shim.handle_timeout(at(1_100));
    sent(&mut shim);
    let refreshed = |shim: &mut ReductionShim, now, ids: &[u32]| {
        let frames = shim.incoming(now, 0, THEM, TTL, summary(ids));
        let ports = frames.into_iter().map(|(_, frame)| match frame.message {
            Message::Path(path) => path.sender.template,
            other => panic!("{other:?}"),
        });
        ports.collect::<Vec<_>>()
    };
    assert_eq!(
        refreshed(&mut shim, at(2_000), &[99, 200, 201, 100]),
        [sender(2), sender(1)]
    );
    assert_eq!(shim.counts().unknown_ids, 2);
    shim.handle_timeout(at(2_000));
    let [nacks] = sent(&mut shim).try_into().expect("one message");
    let unknown = nacks
        .acknowledgements
        .iter()
        .map(|ack| (ack.known, ack.epoch, ack.id));
    assert_eq!(
        unknown.collect::<Vec<_>>(),
        [(false, THEIRS, 99), (false, THEIRS, 201)]
    );
    // The first is refreshed again; the second ends 5.25 s after its last refresh.
    assert_eq!(refreshed(&mut shim, at(7_249), &[100]), [sender(1)]);
    assert_eq!(
        shim.poll_timeout(),
        Some(at(5_250)),
        "early, as refreshes move no timer"
    );
    shim.handle_timeout(at(7_249));
    assert_eq!(shim.poll_timeout(), Some(at(7_250)));
    shim.handle_timeout(at(7_250));
    assert_eq!(refreshed(&mut shim, at(7_250), &[200, 100]), [sender(1)]);
    // Its place is free.
    hear(&mut shim, at(7_250), 3, 202);
    assert_eq!(
        refreshed(&mut shim, at(7_250), &[202, 100]),
        [sender(3), sender(1)]
    );
}

#[test]
fn a_neighbour_that_has_acknowledged_something_keeps_its_place_for_a_minute() {
    let mut shim = ReductionShim::new(Settings {
        max_neighbours: Places::unshared(1),
        ..settings()
    });
    send(&mut shim, at(0), path(US, 1, 1000));
    sent(&mut shim);
    let appear = |shim: &mut ReductionShim, millis, end, acks| {
        let frame = with_acks(path(neighbour(end), 1, 100_000), acks);
        assert_eq!(shim.incoming(at(millis), 0, neighbour(end), TTL, frame).len(), 1);
        let counts = shim.counts();
        (counts.without_place, counts.evicted_neighbours)
    };
    // Once and again is not less than once.
    assert_eq!(appear(&mut shim, 100, 2, vec![ack(1)]), (0, 0));
    assert_eq!(appear(&mut shim, 1_000, 2, vec![ack(1)]), (0, 0));
    assert_eq!(appear(&mut shim, 2_000, 3, vec![]), (1, 0));
    assert_eq!(appear(&mut shim, 60_999, 3, vec![]), (2, 0));
    assert_eq!(appear(&mut shim, 61_000, 3, vec![]), (2, 1));
    // One that has acknowledged nothing makes room at once.
    assert_eq!(appear(&mut shim, 61_000, 4, vec![]), (2, 2));
    assert_eq!(appear(&mut shim, 61_001, 2, vec![ack(1)]), (2, 3));
    assert_eq!(appear(&mut shim, 62_000, 2, vec![]), (2, 3));
    assert_eq!(appear(&mut shim, 63_000, 4, vec![]), (3, 3));
    assert_eq!(shim.neighbours(), 1);
}

#[test]
fn a_silent_neighbour_gives_back_the_share_of_its_interface() {
    let mut shim = ReductionShim::new(Settings {
        max_neighbours: Places {
            total: 2,
            interface: 1,
            neighbour: 1,
        },
        ..settings()
    });
    for round in 0..4 {
        let now = at(round * 30_000);
        shim.handle_timeout(now);
        assert_eq!(shim.neighbours(), 0);
        let from = neighbour(2 + round as u8);
        let frame = Frame::plain(TTL, path(from, 1, 1000));
        assert_eq!(shim.incoming(now, 0, from, TTL, frame).len(), 1);
        assert_eq!(shim.neighbours(), 1);
        // It is the only one, and supports no refresh reduction.
        let to = Transmit {
            interface: 0,
            source: US,
            destination: session(1).destination,
            router_alert: true,
            ttl: TTL,
            bytes: Frame::plain(TTL, path(US, 9, 1000)).encode().expect("it fits"),
        };
        shim.outgoing(now, to);
        assert_eq!(sent(&mut shim)[0].message_id, None);
    }
    let counts = shim.counts();
    assert_eq!((counts.without_place, counts.evicted_neighbours), (0, 0));
}
