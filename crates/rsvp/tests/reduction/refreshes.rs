//! RFC 2961 between two neighbours.

use crate::pair::{LEFT, Pair, RIGHT, session};
use engine::units::{Duration, Probability};
use rsvp::node::Event;

const SECOND: Duration = Duration::from_secs(1);

/// Twenty reservations that stand.
fn standing(layers: [bool; 2]) -> Pair {
    let mut pair = Pair::new(layers, false, 1);
    for port in 1..=20 {
        pair.send(port);
    }
    pair.run(Duration::from_millis(100));
    for port in 1..=20 {
        assert!(pair.reserve(port, 1000));
    }
    pair.run(SECOND.times(5));
    assert_eq!(pair.promises(), 20);
    pair
}

#[test]
fn refreshes_become_names_and_state_stays() {
    let mut pair = standing([true, true]);
    pair.sent.clear();
    pair.run(SECOND.times(60));
    assert_eq!(pair.promises(), 20);
    assert_eq!(
        (pair.of(1), pair.of(2)),
        (0, 0),
        "no Path and no Resv: {:?}",
        pair.sent
    );
    // Names are gathered for an eighth of R: at most 8 messages a second and side.
    assert!(pair.of(15) > 0 && pair.of(15) <= 2 * 8 * 60, "{:?}", pair.sent);
    let summarised = pair
        .layers
        .iter()
        .flatten()
        .map(|layer| layer.counts().summarised);
    assert!(summarised.sum::<u64>() > 2 * 20 * 40);
}

#[test]
fn one_who_cannot_gets_plain_rsvp() {
    for layers in [[true, false], [false, true]] {
        let mut pair = standing(layers);
        pair.run(SECOND.times(20));
        assert_eq!(pair.promises(), 20);
        assert_eq!((pair.of(13), pair.of(15)), (0, 0));
    }
}

#[test]
fn state_that_a_name_stands_for_still_dies_with_its_neighbour() {
    let mut pair = standing([true, true]);
    pair.restart(RIGHT, 2);
    pair.loss = Probability::ONE;
    // Refreshed up to 1.5 s and an eighth ago, it lives for 5.25 s.
    pair.run(Duration::from_millis(3500));
    assert_eq!(pair.promises(), 20);
    pair.run(SECOND.times(3));
    assert_eq!(pair.promises(), 0);
}

#[test]
fn a_neighbour_that_restarts_says_that_it_knows_nothing_and_is_told_all_at_once() {
    let mut pair = standing([true, true]);
    pair.restart(RIGHT, 2);
    pair.sent.clear();
    // The next names come within 1.5 R and an eighth.
    pair.run(Duration::from_millis(1700));
    assert_eq!(pair.nodes[RIGHT].senders(), 20);
    assert!(
        pair.layers[RIGHT]
            .as_ref()
            .is_some_and(|layer| layer.counts().unknown_ids > 0)
    );
    for port in 1..=20 {
        assert!(pair.reserve(port, 1000));
    }
    pair.run(SECOND.times(10));
    assert_eq!(pair.promises(), 20);
}

#[test]
fn a_change_goes_out_whole_and_an_end_ends_it() {
    let mut pair = standing([true, true]);
    pair.events.clear();
    assert!(pair.reserve(7, 2000));
    pair.run(Duration::from_millis(100));
    let changed = |(at, event): &(usize, Event)| {
        *at == LEFT && matches!(event, Event::Reserved { session: found, .. } if found.port == 7)
    };
    assert!(pair.events.iter().any(changed), "{:?}", pair.events);
    let now = pair.now;
    pair.nodes[LEFT].remove_sender(now, &session(7), crate::pair::sender(7));
    pair.run(Duration::from_millis(100));
    assert_eq!((pair.nodes[RIGHT].senders(), pair.promises()), (19, 19));
    pair.run(SECOND.times(20));
    assert_eq!((pair.nodes[RIGHT].senders(), pair.promises()), (19, 19));
}

/// How many of 200 set-ups stand after this many turns of 15 ms, with 30 % of messages lost.
fn set_up(layer: bool, turns: usize) -> usize {
    let stands = |seed: &u64| {
        let mut pair = Pair::new([layer, layer], true, *seed);
        pair.loss = Probability::ratio(3, 10);
        pair.send(1);
        let mut asked = false;
        for _ in 0..turns {
            pair.run(Duration::from_millis(15));
            asked = asked || pair.reserve(1, 1000);
        }
        pair.promises() == 1
    };
    (0..200).filter(stands).count()
}

#[test]
fn set_up_survives_loss_by_retransmission() {
    // Before the first refresh plain RSVP has one try of each message: 0.7 × 0.7 of 200 is 98.
    let plain = set_up(false, 30);
    assert!((80..=115).contains(&plain), "{plain}");
    let named = set_up(true, 250);
    assert!(named >= 195, "{named}");
}

#[test]
fn loss_of_a_third_leaves_reservations_standing() {
    let mut pair = standing([true, true]);
    pair.loss = Probability::ratio(3, 10);
    pair.run(SECOND.times(120));
    // A name is lost as a Path is; what dies of that comes back.
    pair.loss = Probability::ZERO;
    pair.run(SECOND.times(10));
    assert_eq!(pair.promises(), 20);
}

#[test]
fn what_is_said_again_goes_out_whole() {
    let mut pair = standing([true, true]);
    pair.sent.clear();
    let now = pair.now;
    if let Some(layer) = &mut pair.layers[LEFT] {
        layer.resynchronise(0);
    }
    pair.nodes[LEFT].resynchronise(now, 0);
    pair.run(Duration::from_millis(5));
    assert_eq!((pair.of(1), pair.of(15)), (20, 0), "{:?}", pair.sent);
    pair.sent.clear();
    pair.run(SECOND.times(20));
    assert_eq!((pair.of(1), pair.promises()), (0, 20), "then by name again");
}
