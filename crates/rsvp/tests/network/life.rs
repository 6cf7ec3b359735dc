//! The life of a reservation: made, refreshed, changed, torn down, timed out.

use crate::rig::{A, B, Network, R1, R2, SECOND, bucket, controlled_load, receiver, sender, session};
use crate::topology::Topology;
use engine::units::{Bandwidth, Duration};
use rsvp::node::Event;
use rsvp::wire::{Descriptors, SenderTemplate, Session};
use std::collections::BTreeSet;

const TEN: Bandwidth = Bandwidth::mbit(10);

fn reserved() -> Network {
    let mut network = Network::new(Bandwidth::mbit(100), 1);
    network.reserve(4000, TEN);
    network
}

#[test]
fn a_reservation_is_made_on_every_hop_and_both_ends_are_notified() {
    let mut network = reserved();
    assert_eq!(network.reservations(), [1, 1, 1, 0]);
    assert_eq!(network.rates(R2), [10_000_000]);
    let at_a = network.events_at(A);
    assert!(matches!(at_a.as_slice(), [Event::Reserved { .. }]), "{at_a:?}");
    let at_b = network.events_at(B);
    let [
        Event::Path {
            adspec: Some(adspec), ..
        },
        Event::Confirmed { .. },
    ] = at_b.as_slice()
    else {
        panic!("{at_b:?}");
    };
    assert_eq!(adspec.hops(), Some(3));
    assert_eq!(adspec.bandwidth().map(|b| b.ceil()), Some(12_500_000));
    assert_eq!(adspec.mtu(), Some(1499));
    assert!(!adspec.fragments()[0].broken);
}

#[test]
fn rfc_2205_3_7_refreshes_keep_it_and_are_sent_once_per_r_on_average() {
    let mut network = reserved();
    let before = network.sent;
    network.run(SECOND.times(600));
    assert_eq!(network.reservations(), [1, 1, 1, 0]);
    let sent = network.sent - before;
    // Three hops of Path and three of Resv, each 600 times.
    assert!((3_500..3_700).contains(&sent), "{sent} messages");
    assert_eq!(network.events_at(A).len(), 1, "refreshes cause no events");
}

#[test]
fn a_change_is_forwarded_at_once() {
    let mut network = reserved();
    network.request(4000, Bandwidth::mbit(25));
    network.run(Duration::from_millis(5));
    for at in [A, R1, R2] {
        assert_eq!(network.rates(at), [25_000_000]);
    }
}

#[test]
fn rfc_2205_3_1_6_a_receiver_that_releases_frees_every_hop_at_once() {
    let mut network = reserved();
    let now = network.now;
    network.nodes[B].release(now, receiver(4000), &session());
    network.run(Duration::from_millis(5));
    assert_eq!(network.reservations(), [0, 0, 0, 0]);
    assert_eq!(network.senders(), [1, 1, 1, 1], "the path stays");
    assert!(matches!(
        network.events_at(A).last(),
        Some(Event::Unreserved { .. })
    ));
}

#[test]
fn rfc_2205_3_1_5_a_sender_that_stops_frees_every_hop_at_once() {
    let mut network = reserved();
    let now = network.now;
    network.nodes[A].remove_sender(now, &session(), sender(4000));
    network.run(Duration::from_millis(5));
    assert_eq!(
        (network.reservations(), network.senders()),
        (vec![0; 4], vec![0; 4])
    );
    assert!(matches!(
        network.events_at(B).last(),
        Some(Event::PathEnded { .. })
    ));
    assert!(network.nodes.iter().all(|node| node.poll_timeout().is_none()));
}

#[test]
fn rfc_2205_3_7_a_dead_sender_times_out_after_the_lifetime_and_not_before() {
    let mut network = reserved();
    network.dead.insert(A);
    // The last refresh was sent when A began, at time 0.
    network.run(Duration::from_millis(5200));
    assert_eq!(network.reservations()[1..], [1, 1, 0]);
    network.run(Duration::from_millis(50));
    assert_eq!(
        (&network.reservations()[1..], &network.senders()[1..]),
        (&[0; 3][..], &[0; 3][..])
    );
}

#[test]
fn rfc_2205_3_7_a_dead_receiver_times_out_and_the_path_stays() {
    let mut network = reserved();
    network.dead.insert(B);
    // The last refresh was sent with B's request, 20 ms ago.
    network.run(Duration::from_millis(5200));
    assert_eq!(network.reservations()[..3], [1, 1, 1]);
    network.run(Duration::from_millis(50));
    assert_eq!(network.reservations()[..3], [0, 0, 0]);
    assert_eq!(network.senders()[..3], [1, 1, 1]);
}

#[test]
fn a_restarted_router_has_the_reservation_again_within_two_refresh_periods() {
    for seed in 0..100 {
        let mut network = Network::new(Bandwidth::mbit(100), seed);
        network.reserve(4000, TEN);
        network.run(SECOND.times(3));
        network.restart(R2);
        network.run(Duration::from_millis(3010));
        assert_eq!(network.reservations(), [1, 1, 1, 0], "seed {seed}");
    }
}

#[test]
fn rfc_2205_3_6_a_reservation_follows_a_changed_route() {
    let mut network = reserved();
    network.reroute(&[1], &BTreeSet::new());
    let on = |network: &Network, at: usize| {
        let reserved = network.nodes[at].traffic_control().reserved.values();
        reserved.map(|(interface, _)| *interface).collect::<Vec<_>>()
    };
    let changed = network.now;
    while on(&network, R1) == [1] {
        network.run(Duration::from_millis(1));
    }
    assert!(
        network.now.since(changed) <= SECOND.times(2),
        "routes settle in two seconds"
    );
    assert!(on(&network, R1).is_empty(), "no reservation where no data flow");
    // The next hop sees a new previous hop and does not wait for a refresh.
    network.run(Duration::from_millis(3));
    assert_eq!(on(&network, R1), [2]);
    network.run(SECOND.times(60));
    assert_eq!(
        (on(&network, R1), network.reservations()),
        (vec![2], vec![1, 1, 1, 0])
    );
}

/// Host 5 behind router 0 sends to host 7 behind router 2: by router 1, or by 4 and 3.
fn around_a_ring(seed: u64) -> Network {
    let mut network = Network::on(Topology::pentagon(), Bandwidth::mbit(100), seed);
    let session = Session {
        destination: network.topology.host(7),
        ..session()
    };
    let sender = SenderTemplate::Port {
        address: network.topology.host(5),
        port: 4000,
    };
    let now = network.now;
    let added = network.nodes[5].add_sender(now, session, sender, bucket(TEN));
    added.expect("5 may send");
    network.run(Duration::from_millis(20));
    let wanted = Descriptors::Fixed(vec![(controlled_load(TEN), sender)]);
    let (now, node) = (network.now, &mut network.nodes[7]);
    let asked = node.reserve(now, receiver(1), &session, wanted);
    asked.expect("7 has path state");
    network.run(Duration::from_millis(20));
    network
}

#[test]
fn state_that_runs_out_on_a_former_path_tears_nothing_down_on_the_present_one() {
    for seed in 0..30 {
        let mut network = around_a_ring(seed);
        for (avoided, path) in [
            (&[0][..], [0, 4, 3, 2]),
            (&[], [0, 1, 2, 2]),
            (&[0], [0, 4, 3, 2]),
        ] {
            network.reroute(avoided, &BTreeSet::new());
            // Routes settle in two seconds, and a router on the path that has state already
            // passes on the Path with its next refresh, a second and a half later at most.
            network.run(Duration::from_millis(3_600));
            for step in 0..1_200 {
                network.run(Duration::from_millis(10));
                let reserved = network.reservations();
                assert!(
                    path.iter().all(|at| reserved[*at] == 1),
                    "seed {seed}, {avoided:?}, step {step}: {reserved:?}"
                );
            }
        }
    }
}

#[test]
fn a_sender_that_stops_after_its_path_has_moved_leaves_nothing_beyond_a_lifetime() {
    for seed in 0..30 {
        let mut network = around_a_ring(seed);
        network.reroute(&[0], &BTreeSet::new());
        network.run(Duration::from_millis(3_600));
        let (now, host) = (network.now, network.topology.host(5));
        let session = Session {
            destination: network.topology.host(7),
            ..session()
        };
        let sender = SenderTemplate::Port {
            address: host,
            port: 4000,
        };
        network.nodes[5].remove_sender(now, &session, sender);
        network.run(Duration::from_millis(5_300));
        assert_eq!(network.reservations(), vec![0; 10], "seed {seed}");
    }
}

#[test]
fn a_node_without_state_is_resynchronised_at_once() {
    let mut network = reserved();
    network.restart(R1);
    let (now, link) = (network.now, 0);
    let towards = network.topology.interface(A, link);
    network.nodes[A].resynchronise(now, towards);
    network.run(Duration::from_millis(5));
    assert_eq!(network.senders(), [1, 1, 1, 1], "the Path at once");
    assert_eq!(network.reservations(), [1, 0, 1, 0], "the request not yet");
    let (now, towards) = (network.now, network.topology.interface(R2, 1));
    network.nodes[R2].resynchronise(now, towards);
    network.run(Duration::from_millis(5));
    assert_eq!(network.reservations(), [1, 1, 1, 0]);
    let before = network.sent;
    network.run(SECOND.times(100));
    let sent = network.sent - before;
    assert!(
        (550..650).contains(&sent),
        "refreshes continue at their rate: {sent}"
    );
}

#[test]
fn a_tear_that_is_lost_with_a_router_is_replaced_by_a_timeout() {
    let mut network = reserved();
    network.reserve(4001, TEN);
    assert_eq!(network.reservations(), [2, 2, 2, 0]);
    let now = network.now;
    network.nodes[A].remove_sender(now, &session(), sender(4001));
    // The PathTear is in flight when R1 dies, which restarts without state.
    network.dead.insert(R1);
    network.run(Duration::from_millis(20));
    network.restart(R1);
    network.dead.remove(&R1);
    network.run(SECOND.times(3));
    assert_eq!(
        network.reservations(),
        [1, 1, 2, 0],
        "R1 cannot tear down at R2 what it has no state for"
    );
    assert_eq!(network.senders(), [1, 1, 2, 2]);
    network.run(SECOND.times(3));
    assert_eq!(
        (network.reservations(), network.senders()),
        (vec![1, 1, 1, 0], vec![1; 4])
    );
}
