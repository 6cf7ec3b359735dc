//! Key lifetimes: keys begin and end, and a rollover drops no message.

use crate::pair::{LEFT, NOW, RIGHT, dropped, guard, hear, protected, protection, settings, tear};
use engine::units::{Duration, Instant};
use rsvp::integrity::{
    Algorithm, IntegrityFailure, IntegrityKey, IntegrityShim, IntegrityVerdict, KeyLifetime, KeyOwner,
};

const MINUTE: Duration = Duration::from_secs(60);

fn at(minute: u64) -> Instant {
    Instant::START + MINUTE.times(minute)
}

/// A key for sending from one minute to another, accepted a minute longer at both ends.
fn lasting(id: u64, from: u64, until: u64) -> IntegrityKey {
    let lifetime = KeyLifetime {
        send: (at(from), at(until)),
        accept: (at(from) - MINUTE, at(until + 1)),
    };
    let secret = id.to_be_bytes();
    IntegrityKey::new(id, Algorithm::HmacSha256, &secret, lifetime, KeyOwner::Shared).expect("a valid key")
}

fn receive_at(guard: &mut IntegrityShim, now: Instant, bytes: &[u8]) -> IntegrityVerdict {
    guard.incoming(now, 0, LEFT, bytes)
}

fn key_of(bytes: &[u8]) -> u8 {
    bytes[19]
}

#[test]
fn a_new_key_takes_over_while_the_old_one_is_still_accepted() {
    let keys = || vec![lasting(1, 0, 10), lasting(2, 10, 20)];
    let mut left = guard(LEFT, settings(), keys());
    // Its own clock is a minute late.
    let mut right = guard(RIGHT, settings(), keys());
    let behind = |now: Instant| now - MINUTE + Duration::from_nanos(1);
    for minute in 0..20 {
        let now = at(minute) + MINUTE.times(1) - Duration::from_nanos(1);
        let bytes = left.outgoing(now, 0, tear(LEFT, 1)).expect("it fits");
        assert_eq!(key_of(&bytes), if minute < 10 { 1 } else { 2 }, "minute {minute}");
        assert_eq!(
            receive_at(&mut right, behind(now), &bytes),
            IntegrityVerdict::Pass,
            "minute {minute}"
        );
    }
}

#[test]
fn a_key_outside_its_lifetime_is_not_accepted_if_there_is_another() {
    let keys = || vec![lasting(1, 0, 10), lasting(2, 10, 20)];
    let mut left = guard(LEFT, settings(), vec![lasting(1, 0, 10)]);
    let old = left.outgoing(at(5), 0, tear(LEFT, 1)).expect("it fits");
    let mut right = guard(RIGHT, settings(), keys());
    assert_eq!(
        receive_at(&mut right, at(11), &old),
        dropped(IntegrityFailure::KeyNotValid)
    );
    assert_eq!(receive_at(&mut right, at(10), &old), IntegrityVerdict::Pass);

    let mut left = guard(LEFT, settings(), vec![lasting(2, 0, 20)]);
    let early = left.outgoing(at(5), 0, tear(LEFT, 1)).expect("it fits");
    assert_eq!(
        receive_at(&mut right, at(5), &early),
        dropped(IntegrityFailure::KeyNotValid)
    );
}

#[test]
fn rfc_2747_5_the_last_key_stays_in_use_and_the_host_is_notified() {
    let keys = || vec![lasting(1, 0, 10), lasting(2, 5, 20)];
    let mut left = guard(LEFT, settings(), keys());
    let mut right = guard(RIGHT, settings(), keys());
    assert_eq!(left.expired_keys(at(19)).count(), 0);
    let bytes = left.outgoing(at(500), 0, tear(LEFT, 1)).expect("it fits");
    assert_eq!(key_of(&bytes), 2);
    assert_eq!(left.expired_keys(at(500)).collect::<Vec<_>>(), [0]);
    assert_eq!(receive_at(&mut right, at(500), &bytes), IntegrityVerdict::Pass);
}

#[test]
fn each_direction_may_have_its_own_key() {
    let new = |id, secret: &[u8], whose| {
        IntegrityKey::new(id, Algorithm::HmacSha256, secret, KeyLifetime::ALWAYS, whose).expect("a valid key")
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
fn received_messages_cannot_be_replayed_after_a_key_rollover() {
    let mut left = guard(LEFT, settings(), vec![lasting(1, 0, 10)]);
    let mut right = guard(RIGHT, settings(), vec![lasting(1, 0, 10)]);
    let bytes = protected(&mut left, 1);
    assert_eq!(hear(&mut right, &bytes), IntegrityVerdict::Pass);
    right.set_interface(0, protection(RIGHT, vec![lasting(1, 0, 10), lasting(2, 5, 20)]));
    assert_eq!(hear(&mut right, &bytes), dropped(IntegrityFailure::Replayed));
}

#[test]
fn a_key_is_valid_from_its_first_moment_until_just_before_its_last() {
    let lifetime = KeyLifetime {
        send: (at(10), at(20)),
        accept: (at(9), at(21)),
    };
    let moment = Duration::from_nanos(1);
    for (now, sends, accepts) in [
        (at(9) - moment, false, false),
        (at(9), false, true),
        (at(10) - moment, false, true),
        (at(10), true, true),
        (at(20) - moment, true, true),
        (at(20), false, true),
        (at(21) - moment, false, true),
        (at(21), false, false),
    ] {
        assert_eq!(
            (lifetime.sends(now), lifetime.accepts(now)),
            (sends, accepts),
            "{now:?}"
        );
    }
}

#[test]
fn a_key_protects_messages_from_its_first_moment_on() {
    let moment = Duration::from_nanos(1);
    let mut one = guard(LEFT, settings(), vec![lasting(1, 10, 20)]);
    let plain = tear(LEFT, 1);
    let mut sent = |now| one.outgoing(now, 0, plain.clone()).expect("it fits");
    // Before, there is no key to protect it with.
    assert_eq!(sent(at(10) - moment), plain);
    assert_eq!(key_of(&sent(at(10))), 1);
    let mut two = guard(LEFT, settings(), vec![lasting(1, 0, 15), lasting(2, 10, 20)]);
    let mut sent = |now| key_of(&two.outgoing(now, 0, plain.clone()).expect("it fits"));
    for (now, key) in [
        (at(10) - moment, 1),
        (at(10), 2),
        (at(20) - moment, 2),
        (at(20), 2),
    ] {
        assert_eq!(sent(now), key, "{now:?}");
    }
    // Of keys that have ended, the one that ended last.
    let mut ended = guard(LEFT, settings(), vec![lasting(1, 0, 15), lasting(2, 5, 12)]);
    let bytes = ended.outgoing(at(30), 0, plain.clone()).expect("it fits");
    assert_eq!(key_of(&bytes), 1);
    assert_eq!(ended.expired_keys(at(14)).count(), 0);
    assert_eq!(ended.expired_keys(at(15)).collect::<Vec<_>>(), [0]);
}
