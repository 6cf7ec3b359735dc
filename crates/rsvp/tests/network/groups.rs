//! Groups: reverse paths, loops, several receivers on a host, confirmations.

use crate::rig::{Network, SECOND, TestNode, bucket, controlled_load, group, receiver};
use crate::topology::Topology;
use core::net::IpAddr;
use engine::units::{Bandwidth, Duration, Probability};
use rsvp::node::{CallError, Event, ReceiverId};
use rsvp::wire::{Descriptors, Flowspec, Frame, Message, SenderTemplate, Style};

const TEN: Bandwidth = Bandwidth::mbit(10);

fn one(n: u64, sender: SenderTemplate) -> Descriptors<Flowspec> {
    Descriptors::Fixed(vec![(controlled_load(Bandwidth::mbit(n)), sender)])
}

#[test]
fn a_path_that_fails_the_reverse_path_check_is_dropped() {
    let mut network = Network::on(Topology::mesh(), Bandwidth::gbit(1), 1);
    network.join(&[5]);
    network.log = Some(Vec::new());
    network.send(4, TEN);
    let log = network.log.take().expect("it is kept");
    let (_, expected, ttl, bytes) = log
        .iter()
        .find(|(to, ..)| *to == 2)
        .expect("it arrives at router 2");
    let other = network.topology.interface(2, 1);
    assert_ne!(*expected, other);
    let fresh = |network: &mut Network| {
        network.restart(2);
        assert_eq!(network.nodes[2].senders(), 0);
    };
    for (by, senders) in [(other, 0), (*expected, 1)] {
        fresh(&mut network);
        let now = network.now;
        assert_eq!(network.nodes[2].handle_packet(now, by, *ttl, bytes), Ok(()));
        assert_eq!(network.nodes[2].senders(), senders);
    }
}

#[test]
fn a_group_s_path_is_forwarded_only_towards_members() {
    let mut network = Network::on(Topology::dumbbell(), Bandwidth::gbit(1), 1);
    network.join(&[1, 2]);
    network.send(0, TEN);
    assert_eq!(network.senders(), [1, 1, 1, 0, 1, 1]);
    network.join(&[1, 3]);
    // A changed tree needs two seconds to settle.
    network.run(Duration::from_millis(2010));
    assert_eq!(network.senders(), [1, 1, 1, 1, 1, 1]);
    network.run(Duration::from_millis(5300));
    assert_eq!(network.senders(), [1, 1, 0, 1, 1, 1]);
    assert!(matches!(
        network.events_at(2).last(),
        Some(Event::PathEnded { .. })
    ));
}

/// Five routers in a ring with senders and receivers behind all of them; then the receivers die.
fn ring_without_receivers(tamper: Option<fn(Vec<u8>) -> Vec<u8>>) -> Network {
    let mut network = Network::on(Topology::pentagon(), Bandwidth::gbit(1), 1);
    network.shared_tree = false;
    network.tamper = tamper;
    let hosts: Vec<usize> = (5..10).collect();
    network.join(&hosts);
    for host in &hosts {
        network.send(*host, TEN);
    }
    for host in &hosts {
        network.member_requests(*host, Descriptors::Wildcard(controlled_load(TEN)));
    }
    network.run(SECOND.times(10));
    // Both directions of the ring, and to the host; and from each host.
    assert_eq!(network.reservations(), [3, 3, 3, 3, 3, 1, 1, 1, 1, 1]);
    for host in &hosts {
        network.nodes[*host].release(network.now, receiver(1), &group());
    }
    network.run(SECOND.times(60));
    network
}

#[test]
fn rfc_2205_3_4_wildcard_loops_in_a_ring_end_with_their_receivers() {
    let network = ring_without_receivers(None);
    assert_eq!(network.reservations(), [0; 10]);
}

#[test]
fn rfc_2205_3_4_without_scope_they_refresh_themselves_forever() {
    let strip = |bytes: Vec<u8>| match Frame::decode(&bytes) {
        Ok(mut frame) => {
            if let Message::Resv(resv) = &mut frame.message {
                resv.scope = None;
            }
            frame.encode().expect("it fits")
        }
        Err(_) => bytes,
    };
    let network = ring_without_receivers(Some(strip));
    assert_ne!(network.reservations(), [0; 10]);
}

#[test]
fn scopes_list_the_senders_on_the_side_to_which_a_wildcard_is_forwarded() {
    let mut network = Network::on(Topology::dumbbell(), Bandwidth::gbit(1), 1);
    network.join(&[0, 1, 2, 3]);
    for host in 0..4 {
        network.send(host, TEN);
    }
    network.log = Some(Vec::new());
    network.member_requests(2, Descriptors::Wildcard(controlled_load(TEN)));
    let log = network.log.take().expect("it is kept");
    let scopes = log.iter().filter_map(|(to, _, _, bytes)| {
        let Ok(Frame {
            message: Message::Resv(resv),
            ..
        }) = Frame::decode(bytes)
        else {
            return None;
        };
        Some((*to, resv.scope))
    });
    let addresses = |hosts: &[usize]| {
        let all = hosts.iter().map(|host| network.topology.host(*host));
        let v4 = all.filter_map(|address| match address {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        });
        Some(rsvp::wire::Scope::V4(v4.collect()))
    };
    let mut scopes: Vec<_> = scopes.collect();
    scopes.sort_by_key(|(to, _)| *to);
    let expected = [
        (0, addresses(&[0])),
        (1, addresses(&[1])),
        (3, addresses(&[3])),
        (4, addresses(&[0, 1])),
        // Behind a single router a host has one previous hop, and no loop.
        (5, None),
    ];
    assert_eq!(scopes, expected);
}

fn confirmed(network: &mut Network, at: usize) -> Vec<ReceiverId> {
    let events = network.events_at(at).into_iter();
    events
        .filter_map(|event| match event {
            Event::Confirmed { receiver, .. } => Some(receiver),
            _ => None,
        })
        .collect()
}

#[test]
fn several_receivers_on_one_host_have_one_reservation_that_serves_all() {
    let mut network = Network::on(Topology::dumbbell(), Bandwidth::gbit(1), 1);
    network.join(&[2]);
    let sender = network.send(0, TEN);
    let ask = |network: &mut Network, program: u64, n: u64| {
        let now = network.now;
        let request = network.nodes[2].reserve(now, ReceiverId(program), &group(), one(n, sender));
        request.expect("the host has path state");
        let sent = network.sent;
        network.run(Duration::from_millis(10));
        network.sent - sent
    };
    // Three hops there, and the confirmation back.
    assert_eq!(ask(&mut network, 1, 10), 6);
    assert_eq!(confirmed(&mut network, 2), [ReceiverId(1)]);
    // In force already.
    assert_eq!(ask(&mut network, 2, 5), 0);
    assert_eq!(confirmed(&mut network, 2), [ReceiverId(2)]);
    assert_eq!(ask(&mut network, 3, 20), 6);
    assert_eq!(confirmed(&mut network, 2), [ReceiverId(3)]);
    assert_eq!(network.rates_on(4, 2), [20]);
    let release = |network: &mut Network, program: u64| {
        network.nodes[2].release(network.now, ReceiverId(program), &group());
        network.run(Duration::from_millis(10));
        network.rates_on(4, 2)
    };
    assert_eq!(release(&mut network, 3), [10]);
    assert_eq!(release(&mut network, 1), [5]);
    assert_eq!(release(&mut network, 2), [0; 0]);
}

#[test]
fn rfc_2205_2_6_a_request_in_force_upstream_is_confirmed_where_it_merges() {
    let mut network = Network::on(Topology::ethernet(), Bandwidth::gbit(1), 1);
    network.join(&[4, 5]);
    let sender = network.send(0, TEN);
    network.member_requests(4, one(10, sender));
    assert_eq!(confirmed(&mut network, 4).len(), 1);
    network.log = Some(Vec::new());
    network.member_requests(5, one(5, sender));
    assert_eq!(confirmed(&mut network, 5).len(), 1);
    let log = network.log.take().expect("it is kept");
    assert!(log.iter().all(|(to, ..)| *to != 0), "the sender is not involved");
    let by = log
        .iter()
        .find_map(|(_, _, _, bytes)| match Frame::decode(bytes) {
            Ok(Frame {
                message: Message::ResvConf(confirmation),
                ..
            }) => Some(confirmation.error.node),
            _ => None,
        });
    assert!(by.is_some_and(|by| network.topology.addresses(1).contains(&by)));
}

#[test]
fn styles_and_services_of_one_session_do_not_mix() {
    let mut network = Network::on(Topology::dumbbell(), Bandwidth::gbit(1), 1);
    network.join(&[2, 3]);
    let sender = network.send(0, TEN);
    network.member_requests(2, one(10, sender));
    let wildcard = Descriptors::Wildcard(controlled_load(TEN));
    let guaranteed = Descriptors::Fixed(vec![(
        Flowspec::Guaranteed {
            bucket: bucket(TEN),
            rate: bucket(TEN).rate,
            slack: 0,
        },
        sender,
    )]);
    let now = network.now;
    let on_host = |node: &mut TestNode, wanted| node.reserve(now, ReceiverId(9), &group(), wanted);
    assert_eq!(
        on_host(&mut network.nodes[2], wildcard.clone()),
        Err(CallError::Style(Style::Fixed))
    );
    assert_eq!(
        on_host(&mut network.nodes[2], guaranteed.clone()),
        Err(CallError::Service)
    );
    // Another host cannot know; the router where they merge reports it.
    for (wanted, expected) in [(wildcard, (5, 0x0a)), (guaranteed, (21, 1))] {
        network.member_requests(3, wanted);
        let events = network.events_at(3).into_iter();
        let errors: Vec<_> = events
            .filter_map(|event| match event {
                Event::ReservationFailed { error, .. } => Some((error.code, error.value)),
                _ => None,
            })
            .collect();
        assert_eq!(errors, [expected]);
        network.nodes[3].release(network.now, receiver(1), &group());
        network.run(Duration::from_millis(20));
        network.events_at(3);
    }
    // A receiver can change its own style.
    network.member_requests(2, Descriptors::Wildcard(controlled_load(TEN)));
    assert_eq!(network.rates_on(0, 0), [10]);
    let style = network.nodes[0]
        .status_of(&group())
        .and_then(|status| status.style);
    assert_eq!(style, Some(Style::Wildcard));
}

#[test]
fn a_preempted_receiver_is_notified_and_requests_again() {
    let mut network = Network::on(Topology::dumbbell(), Bandwidth::gbit(1), 1);
    network.join(&[2]);
    let sender = network.send(0, TEN);
    network.member_requests(2, one(10, sender));
    network.events_at(2);
    let now = network.now;
    let books = network.nodes[4].traffic_control_mut();
    let (handle, _) = books.reserved.pop_first().expect("it is reserved");
    books.filters.clear();
    network.nodes[4].preempted(now, handle);
    network.run(Duration::from_millis(10));
    let events = network.events_at(2);
    let [Event::ReservationFailed { error, .. }] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(error.code, rsvp::wire::code::PREEMPTED);
    assert_eq!((network.rates_on(4, 2), network.rates_on(0, 0)), (vec![], vec![]));
    network.run(SECOND.times(2));
    assert_eq!(
        (network.rates_on(4, 2), network.rates_on(0, 0)),
        (vec![10], vec![10])
    );
}

#[test]
fn a_style_whose_tear_was_lost_times_out_and_makes_room() {
    let mut network = Network::on(Topology::dumbbell(), Bandwidth::gbit(1), 1);
    network.join(&[2]);
    let sender = network.send(0, TEN);
    network.member_requests(2, one(10, sender));
    network.loss = Probability::ratio(1, 1);
    network.nodes[2].release(network.now, receiver(1), &group());
    network.run(Duration::from_millis(2));
    network.loss = Probability::ZERO;
    network.member_requests(2, Descriptors::SharedExplicit(controlled_load(TEN), vec![sender]));
    let style = |network: &Network| {
        let status = network.nodes[4].status_of(&group());
        status.and_then(|status| status.style)
    };
    assert_eq!(style(&network), Some(Style::Fixed));
    network.run(Duration::from_millis(5300 + 1500));
    assert_eq!(style(&network), Some(Style::SharedExplicit));
    assert_eq!(network.rates_on(0, 0), [10]);
}

#[test]
fn a_program_gets_its_confirmation_even_after_loss_or_with_a_later_sender() {
    let mut network = Network::on(Topology::dumbbell(), Bandwidth::gbit(1), 1);
    network.join(&[2]);
    let first = network.send(0, TEN);
    let second = SenderTemplate::Port {
        address: network.topology.host(1),
        port: 4000,
    };
    network.loss = Probability::ratio(1, 1);
    let each = |sender| (controlled_load(TEN), sender);
    network.member_requests(2, Descriptors::Fixed(vec![each(first), each(second)]));
    network.loss = Probability::ZERO;
    assert_eq!(confirmed(&mut network, 2), []);
    network.run(SECOND.times(3));
    assert_eq!(confirmed(&mut network, 2), [receiver(1)]);
    assert_eq!(network.send(1, TEN), second);
    network.run(Duration::from_millis(20));
    assert_eq!(confirmed(&mut network, 2), [receiver(1)]);
    network.run(SECOND.times(10));
    assert_eq!(confirmed(&mut network, 2), []);
}
