//! Timing: R per interface and its changes, lifetimes that follow the message's R, unsynchronised
//! refreshes.

use crate::rig::{Network, R1, R2, SECOND};
use core::net::IpAddr;
use engine::units::{Bandwidth, Duration, Instant};
use rsvp::node::RsvpInterface;
use rsvp::wire::{Frame, Message};

/// The R, in ms, of the Paths that reach R2, with the time since the previous one.
fn periods(network: &mut Network, span: Duration) -> Vec<(u32, Duration)> {
    network.log = Some(Vec::new());
    let mut list: Vec<(u32, Instant)> = Vec::new();
    let end = network.now + span;
    while network.now < end {
        network.run(Duration::from_millis(1));
        for (to, _, _, bytes) in network.log.replace(Vec::new()).into_iter().flatten() {
            if let (
                R2,
                Ok(Frame {
                    message: Message::Path(path),
                    ..
                }),
            ) = (to, Frame::decode(&bytes))
            {
                list.push((path.refresh.as_millis(), network.now));
            }
        }
    }
    let times = list.windows(2);
    times
        .map(|pair| (pair[1].0, pair[1].1.since(pair[0].1)))
        .collect()
}

fn set(network: &mut Network, millis: u32) {
    let addresses: Vec<IpAddr> = network.topology.addresses(R1);
    network.nodes[R1].set_interface(
        1,
        RsvpInterface {
            addresses: vec![addresses[1]],
            refresh: rsvp::wire::Refresh::millis(millis),
        },
    );
}

#[test]
fn rfc_2205_3_7_refresh_intervals_are_random_from_a_half_to_one_and_a_half_r() {
    let mut network = Network::new(Bandwidth::mbit(100), 1);
    network.reserve(1, Bandwidth::mbit(1));
    let list = periods(&mut network, SECOND.times(400));
    let waits: Vec<u64> = list.iter().map(|(_, wait)| wait.nanos() / 1_000_000).collect();
    assert!(waits.iter().all(|ms| (499..=1501).contains(ms)), "{waits:?}");
    let mean = waits.iter().sum::<u64>() / waits.len() as u64;
    assert!((960..1040).contains(&mean), "{mean} ms on average");
    assert!(waits.iter().any(|ms| *ms < 550) && waits.iter().any(|ms| *ms > 1450));
}

#[test]
fn rfc_2205_3_7_r_grows_by_thirty_percent_a_refresh_and_shrinks_at_once() {
    let mut network = Network::new(Bandwidth::mbit(100), 1);
    network.reserve(1, Bandwidth::mbit(1));
    set(&mut network, 10_000);
    let list = periods(&mut network, SECOND.times(120));
    let grown: Vec<u32> = list.iter().map(|(r, _)| *r).collect();
    for pair in grown.windows(2) {
        assert!(pair[1] <= pair[0] * 13 / 10 + 1, "{grown:?}");
    }
    assert_eq!(grown.last(), Some(&10_000));
    assert_eq!(network.reservations(), [1, 1, 1, 0], "no node has timed us out");
    set(&mut network, 500);
    let list = periods(&mut network, SECOND.times(30));
    assert_eq!(list[1].0, 500);
    assert_eq!(network.reservations(), [1, 1, 1, 0]);
}

#[test]
fn rfc_2205_3_7_a_lifetime_follows_the_r_of_the_message() {
    let mut network = Network::new(Bandwidth::mbit(100), 1);
    set(&mut network, 4000);
    network.reserve(1, Bandwidth::mbit(1));
    network.dead.insert(R1);
    network.run(SECOND.times(6));
    // R1 sends R = 4 s to R2, which sends 1 s.
    assert_eq!(network.senders()[2..], [1, 1]);
    network.run(Duration::from_millis(15_000));
    assert_eq!(
        network.senders()[2..],
        [0, 0],
        "three and a half times one and a half of 4 s"
    );
}
