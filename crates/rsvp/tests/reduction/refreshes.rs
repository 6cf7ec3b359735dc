//! RFC 2961 between two neighbours.

use crate::pair::{LEFT, Pair, RIGHT, session};
use engine::units::{Duration, Probability};
use rsvp::node::Event;

const SECOND: Duration = Duration::from_secs(1);

/// Twenty established reservations.
fn established(shims: [bool; 2]) -> Pair {
    let mut pair = Pair::new(shims, false, 1);
    for port in 1..=20 {
        pair.send(port);
    }
    pair.run(Duration::from_millis(100));
    for port in 1..=20 {
        assert!(pair.reserve(port, 1000));
    }
    pair.run(SECOND.times(5));
    assert_eq!(pair.reservations(), 20);
    pair
}

#[test]
fn refreshes_become_summaries_and_state_stays() {
    let mut pair = established([true, true]);
    pair.sent.clear();
    pair.run(SECOND.times(60));
    assert_eq!(pair.reservations(), 20);
    assert_eq!(
        (pair.of(1), pair.of(2)),
        (0, 0),
        "no Path and no Resv: {:?}",
        pair.sent
    );
    // MESSAGE_IDs are collected for an eighth of R: at most 8 messages per second and side.
    assert!(pair.of(15) > 0 && pair.of(15) <= 2 * 8 * 60, "{:?}", pair.sent);
    let summarised = pair.shims.iter().flatten().map(|shim| shim.counts().summarised);
    assert!(summarised.sum::<u64>() > 2 * 20 * 40);
}

#[test]
fn a_neighbour_without_support_gets_plain_rsvp() {
    for shims in [[true, false], [false, true]] {
        let mut pair = established(shims);
        pair.run(SECOND.times(20));
        assert_eq!(pair.reservations(), 20);
        assert_eq!((pair.of(13), pair.of(15)), (0, 0));
    }
}

#[test]
fn state_refreshed_by_message_id_still_times_out_with_its_neighbour() {
    let mut pair = established([true, true]);
    pair.restart(RIGHT, 2);
    pair.loss = Probability::ONE;
    // Refreshed up to 1.5 s and an eighth ago, it lives for 5.25 s.
    pair.run(Duration::from_millis(3500));
    assert_eq!(pair.reservations(), 20);
    pair.run(SECOND.times(3));
    assert_eq!(pair.reservations(), 0);
}

#[test]
fn a_restarted_neighbour_nacks_and_is_resynchronised_at_once() {
    let mut pair = established([true, true]);
    pair.restart(RIGHT, 2);
    pair.sent.clear();
    // The next summary arrives within 1.5 R plus an eighth.
    pair.run(Duration::from_millis(1700));
    assert_eq!(pair.nodes[RIGHT].senders(), 20);
    assert!(
        pair.shims[RIGHT]
            .as_ref()
            .is_some_and(|shim| shim.counts().unknown_ids > 0)
    );
    for port in 1..=20 {
        assert!(pair.reserve(port, 1000));
    }
    pair.run(SECOND.times(10));
    assert_eq!(pair.reservations(), 20);
}

#[test]
fn a_change_is_sent_in_full_and_a_tear_removes_it() {
    let mut pair = established([true, true]);
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
    assert_eq!((pair.nodes[RIGHT].senders(), pair.reservations()), (19, 19));
    pair.run(SECOND.times(20));
    assert_eq!((pair.nodes[RIGHT].senders(), pair.reservations()), (19, 19));
}

/// How many of 200 set-ups are complete after this many turns of 15 ms, with 30 % loss.
fn set_up(shim: bool, turns: usize) -> usize {
    let stands = |seed: &u64| {
        let mut pair = Pair::new([shim, shim], true, *seed);
        pair.loss = Probability::ratio(3, 10);
        pair.send(1);
        let mut requested = false;
        for _ in 0..turns {
            pair.run(Duration::from_millis(15));
            requested = requested || pair.reserve(1, 1000);
        }
        pair.reservations() == 1
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
fn loss_of_a_third_leaves_reservations_in_place() {
    let mut pair = established([true, true]);
    pair.loss = Probability::ratio(3, 10);
    pair.run(SECOND.times(120));
    // A summary is lost like a Path; state that times out because of it is restored.
    pair.loss = Probability::ZERO;
    pair.run(SECOND.times(10));
    assert_eq!(pair.reservations(), 20);
}

#[test]
fn a_retransmitted_message_is_sent_in_full() {
    let mut pair = established([true, true]);
    pair.sent.clear();
    let now = pair.now;
    if let Some(shim) = &mut pair.shims[LEFT] {
        shim.resynchronise(0);
    }
    pair.nodes[LEFT].resynchronise(now, 0);
    pair.run(Duration::from_millis(5));
    assert_eq!((pair.of(1), pair.of(15)), (20, 0), "{:?}", pair.sent);
    pair.sent.clear();
    pair.run(SECOND.times(20));
    assert_eq!(
        (pair.of(1), pair.reservations()),
        (0, 20),
        "then by MESSAGE_ID again"
    );
}
