//! Each message is accepted once, in order or nearly so; a restart of either side does not change
//! that.

use crate::pair::{LEFT, NOW, RIGHT, dropped, guard, hear, key, protected, settings, tear};
use engine::random::Seed;
use engine::units::{Duration, Instant};
use proptest::prelude::*;
use rsvp::integrity::{DropSource, IntegrityFailure, IntegrityShim, IntegrityVerdict, Settings};
use rsvp::wire::{Challenge, Frame, Message};
use std::collections::BTreeSet;

#[test]
fn a_message_is_accepted_once() {
    let mut left = guard(LEFT, settings(), vec![key(1)]);
    let mut right = guard(RIGHT, settings(), vec![key(1)]);
    let messages: Vec<_> = (0..10).map(|port| protected(&mut left, port)).collect();
    for bytes in &messages {
        assert_eq!(hear(&mut right, bytes), IntegrityVerdict::Pass);
    }
    for bytes in &messages {
        assert_eq!(hear(&mut right, bytes), dropped(IntegrityFailure::Replayed));
    }
    assert_eq!(right.drop_counts().get(&IntegrityFailure::Replayed), Some(&10));
}

#[test]
fn a_message_may_be_overtaken_by_fewer_than_the_window() {
    let mut left = guard(LEFT, settings(), vec![key(1)]);
    let mut right = guard(RIGHT, settings(), vec![key(1)]);
    let messages: Vec<_> = (0..9).map(|port| protected(&mut left, port)).collect();
    assert_eq!(hear(&mut right, &messages[0]), IntegrityVerdict::Pass);
    for overtaking in [2, 3, 4] {
        assert_eq!(hear(&mut right, &messages[overtaking]), IntegrityVerdict::Pass);
    }
    assert_eq!(hear(&mut right, &messages[1]), IntegrityVerdict::Pass);
    for overtaking in [6, 7, 8] {
        assert_eq!(hear(&mut right, &messages[overtaking]), IntegrityVerdict::Pass);
    }
    assert_eq!(hear(&mut right, &messages[5]), IntegrityVerdict::Pass);
    assert_eq!(
        hear(&mut right, &messages[5]),
        dropped(IntegrityFailure::Replayed)
    );

    let mut strict = settings();
    strict.window = 1;
    let mut right = guard(RIGHT, strict, vec![key(1)]);
    for (port, accepted) in [
        (0, IntegrityVerdict::Pass),
        (2, IntegrityVerdict::Pass),
        (1, dropped(IntegrityFailure::Replayed)),
    ] {
        assert_eq!(hear(&mut right, &messages[port]), accepted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn in_any_order_none_is_accepted_twice_and_none_in_the_window_is_dropped(
        order in prop::collection::vec(0usize..30, 1..80),
        window in 1usize..10,
    ) {
        let mut left = guard(LEFT, settings(), vec![key(1)]);
        let mut settings = settings();
        settings.window = window;
        let mut right = guard(RIGHT, settings, vec![key(1)]);
        let messages: Vec<_> = (0..31).map(|port| protected(&mut left, port)).collect();
        prop_assert_eq!(hear(&mut right, &messages[0]), IntegrityVerdict::Pass);
        let mut accepted = BTreeSet::new();
        for next in order {
            let next = next + 1;
            let overtaken_by = accepted.iter().filter(|other| **other > next).count();
            let verdict = hear(&mut right, &messages[next]);
            let new = !accepted.contains(&next) && overtaken_by < window;
            prop_assert_eq!(verdict == IntegrityVerdict::Pass, new, "{} after {:?}", next, &accepted);
            if new {
                accepted.insert(next);
            }
        }
    }
}

fn handshaking(start: u64) -> Settings {
    Settings {
        sequence: 1_700_000_000_000_000_000 + start,
        answer_challenges: true,
        send_challenges: true,
        seed: Seed(start),
        ..settings()
    }
}

/// Delivers the guards' own messages until there are none. Returns their number.
fn exchange(now: Instant, left: &mut IntegrityShim, right: &mut IntegrityShim) -> usize {
    for count in 0.. {
        if let Some(transmit) = left.poll_transmit() {
            assert_eq!((transmit.source, transmit.destination), (LEFT, RIGHT));
            assert_eq!(
                right.incoming(now, 0, LEFT, &transmit.bytes),
                IntegrityVerdict::Consumed
            );
        } else if let Some(transmit) = right.poll_transmit() {
            assert_eq!((transmit.source, transmit.destination), (RIGHT, LEFT));
            assert_eq!(
                left.incoming(now, 0, RIGHT, &transmit.bytes),
                IntegrityVerdict::Consumed
            );
        } else {
            return count;
        }
    }
    0
}

#[test]
fn after_a_restart_a_neighbour_is_challenged_and_old_messages_stay_old() {
    let mut left = guard(LEFT, handshaking(0), vec![key(1)]);
    let mut right = guard(RIGHT, handshaking(0), vec![key(1)]);
    assert_eq!(
        hear(&mut right, &protected(&mut left, 1)),
        dropped(IntegrityFailure::Unsynchronised)
    );
    assert_eq!(exchange(NOW, &mut left, &mut right), 2);
    let accepted: Vec<_> = (2..5).map(|port| protected(&mut left, port)).collect();
    for bytes in &accepted {
        assert_eq!(hear(&mut right, bytes), IntegrityVerdict::Pass);
    }

    // The receiver restarts: messages that it accepted must not be accepted again, before and after
    // the handshake.
    let mut right = guard(RIGHT, handshaking(50), vec![key(1)]);
    for bytes in &accepted {
        assert_eq!(hear(&mut right, bytes), dropped(IntegrityFailure::Unsynchronised));
    }
    let later = NOW + Duration::from_millis(10);
    assert_eq!(exchange(later, &mut left, &mut right), 2);
    for bytes in &accepted {
        assert_eq!(hear(&mut right, bytes), dropped(IntegrityFailure::Replayed));
    }
    assert_eq!(hear(&mut right, &protected(&mut left, 6)), IntegrityVerdict::Pass);

    // The sender restarts: its clock has advanced, so no challenge is needed.
    let mut left = guard(LEFT, handshaking(1_000_000), vec![key(1)]);
    assert_eq!(hear(&mut right, &protected(&mut left, 7)), IntegrityVerdict::Pass);
    assert_eq!(exchange(NOW, &mut left, &mut right), 0);
}

#[test]
fn both_may_restart_at_once() {
    let mut left = guard(LEFT, handshaking(7), vec![key(1)]);
    let mut right = guard(RIGHT, handshaking(8), vec![key(1)]);
    assert_eq!(
        hear(&mut right, &protected(&mut left, 1)),
        dropped(IntegrityFailure::Unsynchronised)
    );
    let back = right.outgoing(NOW, 0, tear(RIGHT, 1)).expect("it fits");
    assert_eq!(
        left.incoming(NOW, 0, RIGHT, &back),
        dropped(IntegrityFailure::Unsynchronised)
    );
    assert_eq!(exchange(NOW, &mut left, &mut right), 4);
    let back = right.outgoing(NOW, 0, tear(RIGHT, 1)).expect("it fits");
    assert_eq!(left.incoming(NOW, 0, RIGHT, &back), IntegrityVerdict::Pass);
    assert_eq!(hear(&mut right, &protected(&mut left, 1)), IntegrityVerdict::Pass);
}

#[test]
fn a_lost_challenge_is_repeated_but_not_for_every_message() {
    let mut left = guard(LEFT, handshaking(0), vec![key(1)]);
    let mut right = guard(RIGHT, handshaking(0), vec![key(1)]);
    for port in 0..20 {
        assert_eq!(
            hear(&mut right, &protected(&mut left, port)),
            dropped(IntegrityFailure::Unsynchronised)
        );
    }
    let first = right.poll_transmit().expect("a challenge");
    assert_eq!(right.poll_transmit(), None);
    let later = NOW + Duration::from_secs(1);
    let bytes = protected(&mut left, 1);
    assert_eq!(
        right.incoming(later, 0, LEFT, &bytes),
        dropped(IntegrityFailure::Unsynchronised)
    );
    let second = right.poll_transmit().expect("a challenge");
    assert_eq!(first.bytes, second.bytes, "a response to the first is enough");
    assert_eq!(
        left.incoming(later, 0, RIGHT, &second.bytes),
        IntegrityVerdict::Consumed
    );
    assert_eq!(exchange(later, &mut left, &mut right), 1);
    assert_eq!(hear(&mut right, &protected(&mut left, 1)), IntegrityVerdict::Pass);
}

#[test]
fn an_old_or_unsolicited_response_is_ignored() {
    let mut left = guard(LEFT, handshaking(0), vec![key(1)]);
    let mut right = guard(RIGHT, handshaking(0), vec![key(1)]);
    let old = protected(&mut left, 1);
    assert_eq!(hear(&mut right, &old), dropped(IntegrityFailure::Unsynchronised));
    let challenge = right.poll_transmit().expect("a challenge");
    assert_eq!(
        left.incoming(NOW, 0, RIGHT, &challenge.bytes),
        IntegrityVerdict::Consumed
    );
    let answer = left.poll_transmit().expect("an answer").bytes;
    assert_eq!(hear(&mut right, &answer), IntegrityVerdict::Consumed);
    assert_eq!(hear(&mut right, &answer), dropped(IntegrityFailure::Challenge));

    // It restarts and sends a new challenge, which the recorded response does not match.
    let mut right = guard(RIGHT, handshaking(50), vec![key(1)]);
    assert_eq!(hear(&mut right, &old), dropped(IntegrityFailure::Unsynchronised));
    assert_eq!(hear(&mut right, &answer), dropped(IntegrityFailure::Challenge));
    assert_ne!(right.poll_transmit().expect("a challenge").bytes, challenge.bytes);
}

#[test]
fn challenges_are_answered_with_the_handshake_flag_with_known_keys_and_rate_limited() {
    let challenge = |key| {
        let message = Message::Challenge(Challenge {
            key,
            cookie: vec![1, 2, 3, 4],
        });
        let frame = Frame::plain(64, message);
        frame.encode().expect("it fits")
    };
    let mut silent = guard(LEFT, settings(), vec![key(1)]);
    assert_eq!(
        silent.incoming(NOW, 0, RIGHT, &challenge(1)),
        dropped(IntegrityFailure::Challenge)
    );
    let mut left = guard(LEFT, handshaking(0), vec![key(1)]);
    assert_eq!(
        left.incoming(NOW, 0, RIGHT, &challenge(2)),
        dropped(IntegrityFailure::Challenge)
    );
    assert_eq!(
        left.incoming(NOW, 0, RIGHT, &challenge(1)),
        IntegrityVerdict::Consumed
    );
    assert_eq!(
        left.incoming(NOW, 0, RIGHT, &challenge(1)),
        dropped(IntegrityFailure::Challenge)
    );
    let answer = left.poll_transmit().expect("an answer");
    let frame = Frame::decode(&answer.bytes).expect("an answer");
    assert!(matches!(frame.message, Message::Response(found) if found.cookie == [1, 2, 3, 4]));
    assert!(frame.integrity.is_some_and(|integrity| integrity.handshake));
}

#[test]
fn neighbours_are_stored_up_to_a_limit() {
    let mut few = settings();
    few.max_neighbours = 2;
    let mut right = guard(RIGHT, few, vec![key(1)]);
    for last in 3..6 {
        let from = core::net::IpAddr::from([10, 0, 0, last]);
        let mut left = guard(from, settings(), vec![key(1)]);
        let bytes = left.outgoing(NOW, 0, tear(from, 1)).expect("it fits");
        let expected = if last < 5 {
            IntegrityVerdict::Pass
        } else {
            dropped(IntegrityFailure::Full)
        };
        assert_eq!(right.incoming(NOW, 0, from, &bytes), expected);
    }
}

#[test]
fn a_challenged_neighbour_is_reported_and_drops_until_then_are_not_a_lasting_report() {
    let mut left = guard(LEFT, handshaking(0), vec![key(1)]);
    let mut right = guard(RIGHT, handshaking(0), vec![key(1)]);
    hear(&mut right, &protected(&mut left, 1));
    assert_eq!((left.poll_challenged(), right.poll_challenged()), (None, None));
    let source = DropSource {
        interface: 0,
        neighbour: LEFT,
        failure: IntegrityFailure::Unsynchronised,
    };
    assert_eq!(right.poll_drop_source(), Some(source));
    assert!(right.drop_sources().contains_key(&source));
    exchange(NOW, &mut left, &mut right);
    assert_eq!((left.poll_challenged(), left.poll_challenged()), (Some(0), None));
    assert!(right.drop_sources().is_empty(), "{:?}", right.drop_sources());
}

#[test]
fn a_challenge_with_integrity_is_answered_like_one_without_if_its_digest_is_right() {
    let frame = Frame::plain(
        64,
        Message::Challenge(Challenge {
            key: 1,
            cookie: vec![1, 2, 3, 4],
        }),
    );
    let bytes = frame.encode().expect("it fits");
    let mut right = guard(RIGHT, handshaking(0), vec![key(1)]);
    let challenge = right.outgoing(NOW, 0, bytes).expect("it fits");
    let mut left = guard(LEFT, handshaking(0), vec![key(1)]);
    let mut wrong = challenge.clone();
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    wrong[2..4].fill(0);
    assert_eq!(
        left.incoming(NOW, 0, RIGHT, &wrong),
        dropped(IntegrityFailure::Digest)
    );
    assert_eq!(left.poll_transmit(), None);
    assert_eq!(
        left.incoming(NOW, 0, RIGHT, &challenge),
        IntegrityVerdict::Consumed
    );
    let answer = left.poll_transmit().expect("an answer");
    let frame = Frame::decode(&answer.bytes).expect("an answer");
    assert!(matches!(frame.message, Message::Response(found) if found.cookie == [1, 2, 3, 4]));
}

#[test]
fn no_two_challenges_have_the_same_cookie() {
    let mut right = guard(RIGHT, handshaking(0), vec![key(1)]);
    let mut cookies = BTreeSet::new();
    for last in 3..8 {
        let from = core::net::IpAddr::from([10, 0, 0, last]);
        let mut left = guard(from, handshaking(0), vec![key(1)]);
        let bytes = left.outgoing(NOW, 0, tear(from, 1)).expect("it fits");
        assert_eq!(
            right.incoming(NOW, 0, from, &bytes),
            dropped(IntegrityFailure::Unsynchronised)
        );
        let challenge = right.poll_transmit().expect("a challenge");
        match Frame::decode(&challenge.bytes).expect("a challenge").message {
            Message::Challenge(challenge) => assert!(cookies.insert(challenge.cookie), "{last}"),
            other => panic!("{other:?}"),
        }
    }
}
