//! Keys begin and end, and one follows the other without a message lost.

use crate::pair::{LEFT, NOW, RIGHT, dropped, guard, hear, protected, protection, settings, tear};
use engine::units::{Duration, Instant};
use rsvp::integrity::{
    Algorithm, IntegrityFailure, IntegrityKey, IntegrityShim, IntegrityVerdict, KeyLifetime, KeyOwner,
};

const MINUTE: Duration = Duration::from_secs(60);

fn at(minute: u64) -> Instant {
    Instant::START + MINUTE.times(minute)
}

/// A key to send with from one minute to another, accepted a minute longer at both ends.
fn lasting(id: u64, from: u64, until: u64) -> IntegrityKey {
    let lifetime = KeyLifetime {
        send: (at(from), at(until)),
        accept: (at(from) - MINUTE, at(until + 1)),
    };
    let secret = id.to_be_bytes();
    IntegrityKey::new(id, Algorithm::HmacSha256, &secret, lifetime, KeyOwner::Shared).expect("a good key")
}

fn hear_at(guard: &mut IntegrityShim, now: Instant, bytes: &[u8]) -> IntegrityVerdict {
    guard.incoming(now, 0, LEFT, bytes)
}

fn key_of(bytes: &[u8]) -> u8 {
    bytes[19]
}

#[test]
fn a_new_key_takes_over_while_the_old_one_is_still_accepted() {
    let keys = || vec![lasting(1, 0, 10), lasting(2, 10, 20)];
    let mut left = guard(LEFT, settings(), keys());
    // A minute late by its own clock.
    let mut right = guard(RIGHT, settings(), keys());
    let behind = |now: Instant| now - MINUTE + Duration::from_nanos(1);
    for minute in 0..20 {
        let now = at(minute) + MINUTE.times(1) - Duration::from_nanos(1);
        let bytes = left.outgoing(now, 0, tear(LEFT, 1)).expect("it fits");
        assert_eq!(key_of(&bytes), if minute < 10 { 1 } else { 2 }, "minute {minute}");
        assert_eq!(
            hear_at(&mut right, behind(now), &bytes),
            IntegrityVerdict::Pass,
            "minute {minute}"
        );
    }
}

#[test]
fn a_key_whose_time_has_passed_or_not_come_is_not_accepted_when_there_is_another() {
    let keys = || vec![lasting(1, 0, 10), lasting(2, 10, 20)];
    let mut left = guard(LEFT, settings(), vec![lasting(1, 0, 10)]);
    let old = left.outgoing(at(5), 0, tear(LEFT, 1)).expect("it fits");
    let mut right = guard(RIGHT, settings(), keys());
    assert_eq!(
        hear_at(&mut right, at(11), &old),
        dropped(IntegrityFailure::KeyNotValid)
    );
    assert_eq!(hear_at(&mut right, at(10), &old), IntegrityVerdict::Pass);

    let mut left = guard(LEFT, settings(), vec![lasting(2, 0, 20)]);
    let early = left.outgoing(at(5), 0, tear(LEFT, 1)).expect("it fits");
    assert_eq!(
        hear_at(&mut right, at(5), &early),
        dropped(IntegrityFailure::KeyNotValid)
    );
}

#[test]
fn rfc_2747_5_the_last_key_goes_on_and_the_host_is_told() {
    let keys = || vec![lasting(1, 0, 10), lasting(2, 5, 20)];
    let mut left = guard(LEFT, settings(), keys());
    let mut right = guard(RIGHT, settings(), keys());
    assert_eq!(left.expired_keys(at(19)).count(), 0);
    let bytes = left.outgoing(at(500), 0, tear(LEFT, 1)).expect("it fits");
    assert_eq!(key_of(&bytes), 2);
    assert_eq!(left.expired_keys(at(500)).collect::<Vec<_>>(), [0]);
    assert_eq!(hear_at(&mut right, at(500), &bytes), IntegrityVerdict::Pass);
}

#[test]
fn each_direction_may_have_its_own_key() {
    let new = |id, secret: &[u8], whose| {
        IntegrityKey::new(id, Algorithm::HmacSha256, secret, KeyLifetime::ALWAYS, whose).expect("a good key")
    };
    let mut left = guard(
        LEFT,
        settings(),
        vec![
            new(1, b"left's", KeyOwner::Local),
            new(1 << 40, b"right's", KeyOwner::Neighbour(RIGHT)),
        ],
    );
    let mut right = guard(
        RIGHT,
        settings(),
        vec![
            new(1 << 40, b"right's", KeyOwner::Local),
            new(1, b"left's", KeyOwner::Neighbour(LEFT)),
        ],
    );
    assert_eq!(hear(&mut right, &protected(&mut left, 1)), IntegrityVerdict::Pass);
    let bytes = right.outgoing(NOW, 0, tear(RIGHT, 1)).expect("it fits");
    assert_eq!(left.incoming(NOW, 0, RIGHT, &bytes), IntegrityVerdict::Pass);
}

#[test]
fn what_was_heard_cannot_be_repeated_after_a_change_of_keys() {
    let mut left = guard(LEFT, settings(), vec![lasting(1, 0, 10)]);
    let mut right = guard(RIGHT, settings(), vec![lasting(1, 0, 10)]);
    let bytes = protected(&mut left, 1);
    assert_eq!(hear(&mut right, &bytes), IntegrityVerdict::Pass);
    right.set_interface(0, protection(RIGHT, vec![lasting(1, 0, 10), lasting(2, 5, 20)]));
    assert_eq!(hear(&mut right, &bytes), dropped(IntegrityFailure::Replayed));
}
