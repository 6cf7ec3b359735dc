//! What the digest covers; no part of it can be altered.

use crate::arbitrary::single;
use crate::pair::{LEFT, NOW, RIGHT, dropped, guard, hear, key, protected, protection, settings, tear};
use core::net::IpAddr;
use engine::units::Duration;
use proptest::prelude::*;
use rsvp::integrity::{
    Algorithm, BadKey, DropSource, IntegrityFailure, IntegrityKey, IntegrityShim, IntegrityVerdict,
    KeyLifetime, KeyOwner, Requirement,
};
use rsvp::wire::Frame;

/// A PathTear with INTEGRITY in front: checksum and digest zero, handshake flag set, key
/// 0x010203040506, sequence number 0x018bcfe56800.
fn by_hand(digest: usize) -> Vec<u8> {
    let length = u8::try_from(68 - 4 + digest).expect("it is short");
    let object = u8::try_from(20 + digest).expect("it is short");
    [
        &[0x10, 5, 0, 0, 63, 0, 0, length][..],
        &[0, object, 4, 1, 0x80, 0, 1, 2, 3, 4, 5, 6],
        &[0, 0, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00],
        &vec![0; digest],
        &[0, 12, 1, 1, 10, 0, 9, 2, 17, 0, 0x13, 0x88],
        &[0, 12, 3, 1, 10, 0, 0, 1, 0, 0, 0, 7],
        &[0, 12, 11, 1, 10, 0, 0, 1, 0, 0, 0x0f, 0xa0],
    ]
    .concat()
}

/// Digests of these bytes, computed with another implementation (Python's hmac and hashlib).
const VECTORS: [(Algorithm, &str); 2] = [
    (
        Algorithm::HmacSha256,
        "1e366678354287280700044ffddb8102276c4447318edfb89b955201000ba2c6",
    ),
    (Algorithm::HmacMd5, "078fb907d0e2a49d4fcca31a711515a5"),
];

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digit).collect()
}

#[test]
fn rfc_2747_2_the_digest_is_over_the_message_with_checksum_and_digest_zero() {
    for (algorithm, digest) in VECTORS {
        let digest = bytes_of(digest);
        let mut expected = by_hand(digest.len());
        expected[28..28 + digest.len()].copy_from_slice(&digest);

        let secret = b"Suimon opens and closes";
        let key = IntegrityKey::new(
            0x0102_0304_0506,
            algorithm,
            secret,
            KeyLifetime::ALWAYS,
            KeyOwner::Shared,
        );
        let mut settings = settings();
        settings.sequence = 0x018b_cfe5_6800;
        settings.answer_challenges = true;
        let mut guard = guard(LEFT, settings, vec![key.expect("a valid key")]);
        let head = [&[0x10, 5, 0, 0, 63, 0, 0, 44][..], &expected[28 + digest.len()..]].concat();
        let mut bytes = guard.outgoing(NOW, 0, head).expect("it fits");
        Frame::decode(&bytes).expect("the checksum is right");
        bytes[2..4].fill(0);
        assert_eq!(bytes, expected);
    }
}

#[test]
fn a_message_is_accepted_with_the_secret_and_only_with_it() {
    let mut left = guard(LEFT, settings(), vec![key(1)]);
    let mut right = guard(RIGHT, settings(), vec![key(1)]);
    assert_eq!(hear(&mut right, &protected(&mut left, 1)), IntegrityVerdict::Pass);
    let wrong = IntegrityKey::new(
        1,
        Algorithm::HmacSha256,
        b"a Secret",
        KeyLifetime::ALWAYS,
        KeyOwner::Shared,
    );
    let mut other = guard(RIGHT, settings(), vec![wrong.expect("a valid key")]);
    assert_eq!(
        hear(&mut other, &protected(&mut left, 1)),
        dropped(IntegrityFailure::Digest)
    );
    let md5 = IntegrityKey::new(
        1,
        Algorithm::HmacMd5,
        b"a secret",
        KeyLifetime::ALWAYS,
        KeyOwner::Shared,
    );
    let mut other = guard(RIGHT, settings(), vec![md5.expect("a valid key")]);
    assert_eq!(
        hear(&mut other, &protected(&mut left, 1)),
        dropped(IntegrityFailure::Digest)
    );
    let mut other = guard(RIGHT, settings(), vec![key(2)]);
    assert_eq!(
        hear(&mut other, &protected(&mut left, 1)),
        dropped(IntegrityFailure::UnknownKey)
    );
    assert_eq!(other.drop_counts().get(&IntegrityFailure::UnknownKey), Some(&1));
}

#[test]
fn a_message_without_integrity_is_accepted_where_none_is_required() {
    let mut right = guard(RIGHT, settings(), vec![key(1)]);
    let plain = tear(LEFT, 1);
    assert_eq!(hear(&mut right, &plain), dropped(IntegrityFailure::Missing));
    let mut optional = protection(RIGHT, vec![key(1)]);
    optional.requirement = Requirement::Optional;
    right.set_interface(0, optional.clone());
    assert_eq!(hear(&mut right, &plain), IntegrityVerdict::Pass);
    optional.neighbours.insert(LEFT, Requirement::Required);
    right.set_interface(0, optional);
    assert_eq!(hear(&mut right, &plain), dropped(IntegrityFailure::Missing));
    // The guard ignores an interface that is not protected.
    assert_eq!(right.incoming(NOW, 1, LEFT, &plain), IntegrityVerdict::Pass);
    assert_eq!(right.outgoing(NOW, 1, plain.clone()), Ok(plain));
}

#[test]
fn our_own_messages_and_those_with_another_neighbours_key_are_dropped() {
    let mut left = guard(LEFT, settings(), vec![key(1)]);
    let bytes = protected(&mut left, 1);
    assert_eq!(hear(&mut left, &bytes), dropped(IntegrityFailure::Reflected));
    let theirs = IntegrityKey::new(
        1,
        Algorithm::HmacSha256,
        b"a secret",
        KeyLifetime::ALWAYS,
        KeyOwner::Neighbour(RIGHT),
    );
    let mut right = guard(RIGHT, settings(), vec![theirs.expect("a valid key")]);
    assert_eq!(
        hear(&mut right, &bytes),
        dropped(IntegrityFailure::WrongNeighbour)
    );
    let ours = IntegrityKey::new(
        1,
        Algorithm::HmacSha256,
        b"a secret",
        KeyLifetime::ALWAYS,
        KeyOwner::Local,
    );
    let mut right = guard(RIGHT, settings(), vec![ours.expect("a valid key")]);
    assert_eq!(hear(&mut right, &bytes), dropped(IntegrityFailure::UnknownKey));
}

#[test]
fn a_key_has_an_identifier_of_48_bits_and_hides_its_secret() {
    let new = |id, secret| {
        IntegrityKey::new(
            id,
            Algorithm::HmacSha256,
            secret,
            KeyLifetime::ALWAYS,
            KeyOwner::Shared,
        )
    };
    assert_eq!(new(1 << 48, b"x").map(|key| key.id()), Err(BadKey::Identifier));
    assert_eq!(new(1, b"").map(|key| key.id()), Err(BadKey::Empty));
    let shown = format!("{:?}", new(1, b"hush hush").expect("a valid key"));
    assert!(!shown.contains("hush") && !shown.contains("digest"), "{shown}");
}

/// A guard on the right that has received nothing yet.
fn fresh() -> IntegrityShim {
    guard(RIGHT, settings(), vec![key(1)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_protected_message_is_accepted_and_dropped_if_any_byte_is_altered(
        frame in single(),
        change in 1u8..,
        checksum: bool,
    ) {
        let mut frame = frame;
        frame.integrity = None;
        let bytes = frame.encode().expect("it fits");
        let mut left = guard(LEFT, settings(), vec![key(1)]);
        let bytes = left.outgoing(NOW, 0, bytes).expect("it fits");
        let challenge = matches!(bytes[1], 25 | 26);
        prop_assert!(Frame::decode(&bytes).is_ok() == Frame::decode(&frame.encode().expect("it fits")).is_ok());
        let verdict = hear(&mut fresh(), &bytes);
        prop_assert!(verdict == IntegrityVerdict::Pass || challenge && verdict == dropped(IntegrityFailure::Challenge), "{verdict:?}");
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= change;
            if !checksum {
                altered[2..4].fill(0);
            }
            // The digest does not cover the checksum, which the node checks anyway.
            if matches!(at, 2 | 3) {
                continue;
            }
            let verdict = hear(&mut fresh(), &altered);
            prop_assert!(matches!(verdict, IntegrityVerdict::Drop(_)), "byte {at} of {}: {verdict:?}", bytes.len());
        }
    }

    #[test]
    fn no_bytes_are_accepted_without_the_key_or_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(matches!(hear(&mut fresh(), &bytes), IntegrityVerdict::Drop(_)));
    }

    #[test]
    fn no_protected_message_survives_truncation(cut: prop::sample::Index) {
        let mut left = guard(LEFT, settings(), vec![key(1)]);
        let bytes = protected(&mut left, 1);
        let mut bytes = bytes[..cut.index(bytes.len())].to_vec();
        prop_assert!(matches!(hear(&mut fresh(), &bytes), IntegrityVerdict::Drop(_)));
        if let Some(length) = bytes.get_mut(6..8) {
            let rest = u16::try_from(cut.index(200)).expect("it is short");
            length.copy_from_slice(&rest.to_be_bytes());
        }
        prop_assert!(matches!(hear(&mut fresh(), &bytes), IntegrityVerdict::Drop(_)));
    }
}

#[test]
fn drops_are_counted_by_claimed_source_and_no_flood_of_sources_fills_the_memory() {
    let mut right = guard(RIGHT, settings(), vec![key(1)]);
    let later = |ms: u64| NOW + Duration::from_millis(ms);
    for ms in 0..3 {
        right.incoming(later(ms), 0, LEFT, &tear(LEFT, 1));
    }
    let source = DropSource {
        interface: 0,
        neighbour: LEFT,
        failure: IntegrityFailure::Missing,
    };
    let dropped = right.drop_sources()[&source];
    assert_eq!((dropped.count, dropped.last), (3, later(2)));
    assert_eq!(
        (right.poll_drop_source(), right.poll_drop_source()),
        (Some(source), None)
    );
    for n in 0..1000u64 {
        let claimed = IpAddr::from([10, 1, (n >> 8) as u8, n as u8]);
        right.incoming(later(10 + n), 0, LEFT, &tear(claimed, 1));
    }
    assert_eq!(right.drop_sources().len(), 64);
    assert!(
        !right.drop_sources().contains_key(&source),
        "the oldest is evicted"
    );
    assert_eq!(
        right.drop_counts()[&IntegrityFailure::Missing],
        1003,
        "the total is kept"
    );
}
