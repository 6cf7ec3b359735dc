//! The reservations of RFC 2205, section 1.4: what is in force on each interface, and what is
//! forwarded to each previous hop.

use crate::rig::{Network, SECOND, bucket, controlled_load, group};
use crate::topology::Topology;
use engine::units::Bandwidth;
use rsvp::node::SessionStatus;
use rsvp::traffic_control::PoliceFlags;
use rsvp::wire::{Descriptors, Flowspec, Real, SenderTemplate, TokenBucket};
use std::collections::BTreeSet;

const ROUTER: usize = 0;
const S1: usize = 1;
const S2: usize = 2;
const S3: usize = 3;
const R1: usize = 4;
const R2: usize = 5;
const R3: usize = 6;
/// Links of the router.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;

fn times(n: u64) -> Flowspec {
    controlled_load(Bandwidth::mbit(n))
}

fn mbits(flowspec: &Flowspec) -> u64 {
    flowspec.bucket().rate.ceil() * 8 / 1_000_000
}

/// The figure's network, with path state everywhere.
fn figure() -> (Network, [SenderTemplate; 3]) {
    let mut network = Network::on(Topology::figure_3(), Bandwidth::gbit(1), 1);
    network.join(&[R1, R2, R3]);
    let senders = [S1, S2, S3].map(|host| network.send(host, Bandwidth::mbit(1)));
    (network, senders)
}

fn status(network: &Network) -> SessionStatus {
    network.nodes[ROUTER]
        .status_of(&group())
        .expect("the router has the session")
}

/// What the router has in force on a link: senders and Mbit/s.
fn in_force(network: &Network, link: usize) -> BTreeSet<(Vec<SenderTemplate>, u64)> {
    let interface = network.topology.interface(ROUTER, link);
    let tcsbs = status(network).tcsbs.into_iter();
    tcsbs
        .filter(|tcsb| tcsb.interface == interface)
        .map(|tcsb| (tcsb.senders, mbits(&tcsb.request.flowspec)))
        .collect()
}

/// What it has requested over a link: for which sender, and Mbit/s.
fn forwarded(network: &Network, link: usize) -> BTreeSet<(Option<SenderTemplate>, u64)> {
    let interface = network.topology.interface(ROUTER, link);
    let sent = status(network).sent_resvs.into_iter();
    sent.filter(|sent| sent.phop.interface == interface)
        .map(|sent| (sent.sender, mbits(&sent.flowspec)))
        .collect()
}

#[test]
fn rfc_2205_figure_4_wildcard_filter() {
    let (mut network, [s1, s2, s3]) = figure();
    network.member_requests(R1, Descriptors::Wildcard(times(4)));
    network.member_requests(R2, Descriptors::Wildcard(times(3)));
    network.member_requests(R3, Descriptors::Wildcard(times(2)));
    let all = vec![s1, s2, s3];
    assert_eq!(in_force(&network, C), BTreeSet::from([(all.clone(), 4)]));
    assert_eq!(in_force(&network, D), BTreeSet::from([(all, 3)]));
    assert_eq!(forwarded(&network, A), BTreeSet::from([(None, 4)]));
    assert_eq!(forwarded(&network, B), BTreeSet::from([(None, 4)]));
}

#[test]
fn rfc_2205_figure_5_fixed_filter() {
    let (mut network, [s1, s2, s3]) = figure();
    network.member_requests(R1, Descriptors::Fixed(vec![(times(4), s1), (times(5), s2)]));
    network.member_requests(R2, Descriptors::Fixed(vec![(times(3), s1), (times(1), s3)]));
    network.member_requests(R3, Descriptors::Fixed(vec![(times(1), s1)]));
    let one = |sender, n| (vec![sender], n);
    assert_eq!(in_force(&network, C), BTreeSet::from([one(s1, 4), one(s2, 5)]));
    assert_eq!(in_force(&network, D), BTreeSet::from([one(s1, 3), one(s3, 1)]));
    assert_eq!(forwarded(&network, A), BTreeSet::from([(Some(s1), 4)]));
    assert_eq!(
        forwarded(&network, B),
        BTreeSet::from([(Some(s2), 5), (Some(s3), 1)])
    );
}

#[test]
fn rfc_2205_figure_6_shared_explicit() {
    let (mut network, [s1, s2, s3]) = figure();
    network.member_requests(R1, Descriptors::SharedExplicit(times(1), vec![s1, s2]));
    network.member_requests(R2, Descriptors::SharedExplicit(times(3), vec![s1, s3]));
    network.member_requests(R3, Descriptors::SharedExplicit(times(2), vec![s2]));
    assert_eq!(in_force(&network, C), BTreeSet::from([(vec![s1, s2], 1)]));
    assert_eq!(in_force(&network, D), BTreeSet::from([(vec![s1, s2, s3], 3)]));
    assert_eq!(forwarded(&network, A), BTreeSet::from([(Some(s1), 3)]));
    assert_eq!(
        forwarded(&network, B),
        BTreeSet::from([(Some(s2), 3), (Some(s3), 3)])
    );
}

#[test]
fn unordered_requests_are_merged_part_by_part() {
    let (mut network, [s1, ..]) = figure();
    let with = |rate, size, peak, minimum, maximum| {
        Flowspec::ControlledLoad(TokenBucket {
            rate: Real::nearest(rate),
            bucket: Real::nearest(size),
            peak: Real::nearest(peak),
            minimum,
            maximum,
        })
    };
    let (fast, bursty) = (
        with(4_000_000, 3000, 9_000_000, 100, 1500),
        with(1_000_000, 60_000, 5_000_000, 64, 1000),
    );
    network.member_requests(R2, Descriptors::Fixed(vec![(fast, s1)]));
    network.member_requests(R3, Descriptors::Fixed(vec![(bursty, s1)]));
    // The largest rates and bucket; the smallest of both packet sizes (RFC 2211).
    let both = with(4_000_000, 60_000, 9_000_000, 64, 1000);
    let status = status(&network);
    assert_eq!(status.tcsbs[0].request.flowspec, both);
    assert_eq!(status.sent_resvs[0].flowspec, both);
}

#[test]
fn rfc_2205_3_8_flags_mark_where_to_police() {
    let (mut network, [s1, s2, _]) = figure();
    network.member_requests(R1, Descriptors::SharedExplicit(times(1), vec![s1]));
    network.member_requests(R2, Descriptors::SharedExplicit(times(3), vec![s1, s2]));
    let police = |network: &Network, link: usize| {
        let interface = network.topology.interface(ROUTER, link);
        let mut reservations = status(network).tcsbs.into_iter();
        let one = reservations.find(|reservation| reservation.interface == interface);
        one.expect("it is in force").request.police
    };
    // S1's own router is the first to police; S2 has another before this one.
    let on = |entry, merge, branch| PoliceFlags { entry, merge, branch };
    assert_eq!(police(&network, C), on(true, false, true));
    assert_eq!(police(&network, D), on(true, true, false));
    network.member_requests(R1, Descriptors::SharedExplicit(times(3), vec![s2]));
    assert_eq!(police(&network, C), on(false, false, false));
}

#[test]
fn sharing_senders_are_passed_to_traffic_control_as_their_sum() {
    let (mut network, [s1, s2, _]) = figure();
    network.member_requests(R2, Descriptors::SharedExplicit(times(1), vec![s1, s2]));
    let request = status(&network).tcsbs[0].request;
    assert_eq!(
        request.tspec,
        bucket(Bandwidth::mbit(1)).sum(&bucket(Bandwidth::mbit(1)))
    );
}

#[test]
fn two_branches_of_a_group_are_merged_for_their_sender_until_one_leaves() {
    let (mut network, [s1, ..]) = figure();
    network.member_requests(R1, Descriptors::Fixed(vec![(times(4), s1)]));
    network.member_requests(R2, Descriptors::Fixed(vec![(times(3), s1)]));
    let one = |n| BTreeSet::from([(vec![s1], n)]);
    assert_eq!((in_force(&network, C), in_force(&network, D)), (one(4), one(3)));
    assert_eq!(forwarded(&network, A), BTreeSet::from([(Some(s1), 4)]));
    // The larger request leaves, with its receiver and the branch that led to it.
    network.nodes[R1].release(network.now, crate::rig::receiver(1), &group());
    network.join(&[R2, R3]);
    network.run(SECOND.times(20));
    assert_eq!(
        (in_force(&network, C), in_force(&network, D)),
        (BTreeSet::new(), one(3))
    );
    assert_eq!(forwarded(&network, A), BTreeSet::from([(Some(s1), 3)]));
    assert_eq!(network.senders()[R1], 0, "its Path goes there no more");
}

#[test]
fn the_remaining_requests_are_in_force_at_once_when_one_ends() {
    let (mut network, [s1, s2, s3]) = figure();
    network.member_requests(R1, Descriptors::Wildcard(times(4)));
    network.member_requests(R2, Descriptors::Wildcard(times(3)));
    network.member_requests(R3, Descriptors::Wildcard(times(2)));
    let now = network.now;
    network.nodes[R1].release(now, crate::rig::receiver(1), &group());
    network.run(engine::units::Duration::from_millis(5));
    assert_eq!(in_force(&network, C), BTreeSet::new());
    assert_eq!(in_force(&network, D), BTreeSet::from([(vec![s1, s2, s3], 3)]));
    assert_eq!(forwarded(&network, A), BTreeSet::from([(None, 3)]));
    network.nodes[S1].remove_sender(network.now, &group(), s1);
    network.run(engine::units::Duration::from_millis(5));
    assert_eq!(in_force(&network, D), BTreeSet::from([(vec![s2, s3], 3)]));
    assert_eq!(forwarded(&network, A), BTreeSet::new());
    network.run(SECOND.times(20));
    assert_eq!(in_force(&network, D), BTreeSet::from([(vec![s2, s3], 3)]));
}
