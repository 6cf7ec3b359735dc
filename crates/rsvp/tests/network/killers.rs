//! A request that cannot be granted must not remove or block those that can (RFC 2205,
//! sections 2.5 and 3.5).

use crate::rig::{Network, SECOND, bucket, controlled_load, group};
use crate::topology::Topology;
use engine::units::{Bandwidth, Duration};
use rsvp::node::Event;
use rsvp::traffic_control::TcRequest;
use rsvp::wire::{Descriptors, ErrorSpec, Flowspec, Real, SenderTemplate, TokenBucket, code};

const SENDER: usize = 0;
const ROUTER: usize = 1;
const SMALL: usize = 4;
const BIG: usize = 5;
/// From the sender to the router, and the Ethernet behind it.
const UP: usize = 0;
const DOWN: usize = 1;

fn one(n: u64, sender: SenderTemplate) -> Descriptors<Flowspec> {
    Descriptors::Fixed(vec![(controlled_load(Bandwidth::mbit(n)), sender)])
}

/// A sender, a router, and two receivers behind routers of their own on one Ethernet.
fn network() -> (Network, SenderTemplate) {
    let mut network = Network::on(Topology::ethernet(), Bandwidth::gbit(1), 1);
    network.join(&[SMALL, BIG]);
    let sender = network.send(SENDER, Bandwidth::mbit(100));
    (network, sender)
}

fn narrow(network: &mut Network, at: usize) {
    network.nodes[at].traffic_control_mut().capacity = Bandwidth::mbit(50);
}

fn failures(network: &mut Network, at: usize) -> Vec<ErrorSpec> {
    let events = network.events_at(at).into_iter();
    events
        .filter_map(|event| match event {
            Event::ReservationFailed { error, .. } => Some(error),
            _ => None,
        })
        .collect()
}

#[test]
fn killer_reservation_1_at_the_merge_point() {
    let (mut network, sender) = network();
    narrow(&mut network, ROUTER);
    network.member_requests(SMALL, one(10, sender));
    network.member_requests(BIG, one(100, sender));
    for _ in 0..200 {
        assert_eq!(
            (network.rates_on(ROUTER, DOWN), network.rates_on(SENDER, UP)),
            (vec![10], vec![10])
        );
        network.run(Duration::from_millis(100));
    }
    assert_eq!(failures(&mut network, SMALL), []);
    let failed = failures(&mut network, BIG);
    assert!(
        failed
            .iter()
            .all(|error| error.code == code::ADMISSION && !error.in_place)
    );
    // Once at the request and once per refresh.
    assert!((15..30).contains(&failed.len()), "{}", failed.len());
}

#[test]
fn killer_reservation_1_beyond_the_merge_point() {
    let (mut network, sender) = network();
    narrow(&mut network, SENDER);
    network.member_requests(SMALL, one(10, sender));
    network.member_requests(BIG, one(100, sender));
    for _ in 0..200 {
        assert_eq!(network.rates_on(SENDER, UP), [10]);
        network.run(Duration::from_millis(100));
    }
    // The existing reservation stays, so only the receiver that requested too much is notified.
    assert_eq!(failures(&mut network, SMALL), []);
    let failed = failures(&mut network, BIG);
    assert!(failed.iter().all(|error| error.in_place && !error.not_guilty));
    // Each blockade is four refresh periods long.
    assert!((4..=6).contains(&failed.len()), "{}", failed.len());
}

#[test]
fn killer_reservation_2() {
    let (mut network, sender) = network();
    narrow(&mut network, SENDER);
    network.member_requests(BIG, one(100, sender));
    network.run(SECOND.times(3));
    assert_eq!(network.rates_on(SENDER, UP), [0; 0]);
    network.member_requests(SMALL, one(10, sender));
    for _ in 0..200 {
        assert_eq!(network.rates_on(SENDER, UP), [10]);
        network.run(Duration::from_millis(100));
    }
    assert!(!failures(&mut network, BIG).is_empty());
    network.member_requests(BIG, one(40, sender));
    assert_eq!(network.rates_on(SENDER, UP), [40]);
}

#[test]
fn of_three_requests_only_the_largest_is_blockaded() {
    let mut network = Network::on(Topology::figure_3(), Bandwidth::gbit(1), 1);
    network.join(&[4, 5, 6]);
    let sender = network.send(1, Bandwidth::mbit(100));
    narrow(&mut network, 1);
    for (host, n) in [(4, 100), (5, 40), (6, 10)] {
        network.member_requests(host, one(n, sender));
    }
    for _ in 0..200 {
        assert_eq!(network.rates_on(1, 0), [40]);
        network.run(Duration::from_millis(100));
    }
}

#[test]
fn a_shared_reservation_is_not_killed_either() {
    for style in [true, false] {
        let (mut network, sender) = network();
        narrow(&mut network, SENDER);
        let wanted = |n| match style {
            true => Descriptors::Wildcard(controlled_load(Bandwidth::mbit(n))),
            false => Descriptors::SharedExplicit(controlled_load(Bandwidth::mbit(n)), vec![sender]),
        };
        network.member_requests(BIG, wanted(100));
        network.run(SECOND.times(3));
        network.member_requests(SMALL, wanted(10));
        for _ in 0..200 {
            assert_eq!(network.rates_on(SENDER, UP), [10]);
            network.run(Duration::from_millis(100));
        }
    }
}

#[test]
fn requests_that_fail_only_together_leave_the_smallest() {
    let (mut network, sender) = network();
    let together = |request: &TcRequest| {
        let bucket = request.flowspec.bucket();
        bucket.rate.ceil() >= 5_000_000 && bucket.bucket.ceil() >= 50_000
    };
    network.nodes[SENDER].traffic_control_mut().refuses = Some(together);
    let wanted = |n, size| {
        let bucket = TokenBucket {
            bucket: Real::nearest(size),
            ..bucket(Bandwidth::mbit(n))
        };
        Descriptors::Fixed(vec![(Flowspec::ControlledLoad(bucket), sender)])
    };
    network.member_requests(BIG, wanted(40, 3000));
    network.member_requests(SMALL, wanted(10, 60_000));
    network.run(SECOND.times(2));
    assert_eq!(network.rates_on(SENDER, UP), [10]);
    for _ in 0..200 {
        // After the blockade both are tried again, and the existing reservation stays.
        assert_eq!(network.rates_on(SENDER, UP), [10]);
        network.run(Duration::from_millis(100));
    }
}

#[test]
fn rfc_2205_3_5_a_blockade_ends_kb_refresh_periods_after_the_last_error() {
    let (mut network, sender) = network();
    narrow(&mut network, SENDER);
    network.member_requests(SMALL, one(10, sender));
    network.run(SECOND);
    let asked_at = network.now;
    network.member_requests(BIG, one(100, sender));
    let blockades = |network: &Network| {
        let status = network.nodes[ROUTER].status_of(&group());
        status.expect("it has the session").bsbs
    };
    let [blockade] = blockades(&network).try_into().expect("one blockade");
    assert_eq!(blockade.flowspec, controlled_load(Bandwidth::mbit(100)));
    let after = blockade.until.since(asked_at);
    // The request and the error cross three links and one.
    assert_eq!(after, Duration::from_millis(4004));
    // The receiver gives up; the others are requested again as soon as the blockade ends.
    network.nodes[BIG].release(network.now, crate::rig::receiver(1), &group());
    network.run(Duration::from_millis(3950));
    assert_eq!(blockades(&network).len(), 1);
    network.run(Duration::from_millis(50));
    assert_eq!(blockades(&network), []);
    assert_eq!(network.rates_on(SENDER, UP), [10]);
}
