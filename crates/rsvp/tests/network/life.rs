//! A reservation's life: made, kept, changed, ended, forgotten.

use crate::rig::{A, B, Network, R1, R2, SECOND, receiver, sender, session};
use engine::units::{Bandwidth, Duration};
use rsvp::node::Event;
use std::collections::BTreeSet;

const TEN: Bandwidth = Bandwidth::mbit(10);

fn reserved() -> Network {
    let mut network = Network::new(Bandwidth::mbit(100), 1);
    network.reserve(4000, TEN);
    network
}

#[test]
fn a_reservation_is_made_on_every_hop_and_both_ends_hear_of_it() {
    let mut network = reserved();
    assert_eq!(network.promises(), [1, 1, 1, 0]);
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
fn rfc_2205_3_7_refreshes_keep_it_and_come_once_in_r_on_average() {
    let mut network = reserved();
    let before = network.sent;
    network.run(SECOND.times(600));
    assert_eq!(network.promises(), [1, 1, 1, 0]);
    let sent = network.sent - before;
    // Three hops of Path and three of Resv, each 600 times.
    assert!((3_500..3_700).contains(&sent), "{sent} messages");
    assert_eq!(network.events_at(A).len(), 1, "refreshes are no news");
}

#[test]
fn a_change_is_forwarded_at_once() {
    let mut network = reserved();
    network.ask(4000, Bandwidth::mbit(25));
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
    assert_eq!(network.promises(), [0, 0, 0, 0]);
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
    assert_eq!((network.promises(), network.senders()), (vec![0; 4], vec![0; 4]));
    assert!(matches!(
        network.events_at(B).last(),
        Some(Event::PathEnded { .. })
    ));
    assert!(network.nodes.iter().all(|node| node.poll_timeout().is_none()));
}

#[test]
fn rfc_2205_3_7_a_sender_that_dies_is_forgotten_after_the_lifetime_and_not_before() {
    let mut network = reserved();
    network.dead.insert(A);
    // The last refresh came as A began, at time 0.
    network.run(Duration::from_millis(5200));
    assert_eq!(network.promises()[1..], [1, 1, 0]);
    network.run(Duration::from_millis(50));
    assert_eq!(
        (&network.promises()[1..], &network.senders()[1..]),
        (&[0; 3][..], &[0; 3][..])
    );
}

#[test]
fn rfc_2205_3_7_a_receiver_that_dies_is_forgotten_and_the_path_stays() {
    let mut network = reserved();
    network.dead.insert(B);
    // The last refresh came as B asked, 20 ms ago.
    network.run(Duration::from_millis(5200));
    assert_eq!(network.promises()[..3], [1, 1, 1]);
    network.run(Duration::from_millis(50));
    assert_eq!(network.promises()[..3], [0, 0, 0]);
    assert_eq!(network.senders()[..3], [1, 1, 1]);
}

#[test]
fn a_router_that_restarts_has_the_reservation_back_within_two_refresh_periods() {
    for seed in 0..100 {
        let mut network = Network::new(Bandwidth::mbit(100), seed);
        network.reserve(4000, TEN);
        network.run(SECOND.times(3));
        network.restart(R2);
        network.run(Duration::from_millis(3010));
        assert_eq!(network.promises(), [1, 1, 1, 0], "seed {seed}");
    }
}

#[test]
fn rfc_2205_3_6_a_changed_route_takes_the_reservation_along() {
    let mut network = reserved();
    network.reroute(&[1], &BTreeSet::new());
    let on = |network: &Network, at: usize| {
        let promised = network.nodes[at].traffic_control().promised.values();
        promised.map(|(interface, _)| *interface).collect::<Vec<_>>()
    };
    let changed = network.now;
    while on(&network, R1) == [1] {
        network.run(Duration::from_millis(1));
    }
    assert!(
        network.now.since(changed) <= SECOND.times(2),
        "routes settle in two seconds"
    );
    assert!(on(&network, R1).is_empty(), "no promise where no data pass");
    // The next hop sees another previous hop and does not wait for its refresh.
    network.run(Duration::from_millis(3));
    assert_eq!(on(&network, R1), [2]);
    network.run(SECOND.times(60));
    assert_eq!(
        (on(&network, R1), network.promises()),
        (vec![2], vec![1, 1, 1, 0])
    );
}

#[test]
fn who_has_heard_nothing_is_told_all_again_at_once() {
    let mut network = reserved();
    network.restart(R1);
    let (now, link) = (network.now, 0);
    let towards = network.topology.interface(A, link);
    network.nodes[A].resynchronise(now, towards);
    network.run(Duration::from_millis(5));
    assert_eq!(network.senders(), [1, 1, 1, 1], "the Path at once");
    assert_eq!(network.promises(), [1, 0, 1, 0], "the request not yet");
    let (now, towards) = (network.now, network.topology.interface(R2, 1));
    network.nodes[R2].resynchronise(now, towards);
    network.run(Duration::from_millis(5));
    assert_eq!(network.promises(), [1, 1, 1, 0]);
    let before = network.sent;
    network.run(SECOND.times(100));
    let sent = network.sent - before;
    assert!(
        (550..650).contains(&sent),
        "refreshes go on at their pace: {sent}"
    );
}

#[test]
fn an_end_that_is_lost_with_a_router_is_made_up_for_by_age() {
    let mut network = reserved();
    network.reserve(4001, TEN);
    assert_eq!(network.promises(), [2, 2, 2, 0]);
    let now = network.now;
    network.nodes[A].remove_sender(now, &session(), sender(4001));
    // The PathTear is under way when R1 dies, which comes back with nothing.
    network.dead.insert(R1);
    network.run(Duration::from_millis(20));
    network.restart(R1);
    network.dead.remove(&R1);
    network.run(SECOND.times(3));
    assert_eq!(
        network.promises(),
        [1, 1, 2, 0],
        "R1 cannot end at R2 what it does not know"
    );
    assert_eq!(network.senders(), [1, 1, 2, 2]);
    network.run(SECOND.times(3));
    assert_eq!(
        (network.promises(), network.senders()),
        (vec![1, 1, 1, 0], vec![1; 4])
    );
}
