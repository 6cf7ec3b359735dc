//! Decoding reverses encoding; no bytes make decoding panic.

use crate::arbitrary::single;
use proptest::prelude::*;
use rsvp::wire::{DecodeError, Frame, Malformed, Message};

/// The message in these bytes, even if it has objections; none if an object is unreadable.
fn decoded(bytes: &[u8]) -> Result<Frame, Malformed> {
    match Frame::decode(bytes) {
        Ok(frame) => Ok(frame),
        Err(DecodeError::Reportable(_, frame)) => Ok(*frame),
        Err(DecodeError::Unreadable(_)) => Err(Malformed::Truncated),
        Err(DecodeError::Malformed(flaw)) => Err(flaw),
    }
}

/// Any message.
fn frame() -> impl Strategy<Value = Frame> {
    let encoded = single().prop_map(|frame| frame.encode().expect("it fits"));
    let bundle = (
        any::<u8>(),
        any::<bool>(),
        proptest::option::of(single()),
        prop::collection::vec(encoded, 1..4),
    )
        .prop_map(|(send_ttl, refresh_reduction, vouched, messages)| Frame {
            send_ttl,
            refresh_reduction,
            integrity: vouched.and_then(|frame| frame.integrity),
            acknowledgements: Vec::new(),
            message_id: None,
            message: Message::Bundle(messages),
            forwarded: Vec::new(),
        });
    prop_oneof![8 => single(), 1 => bundle]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_message_is_decoded_as_it_was_encoded(frame in frame()) {
        let bytes = frame.encode().expect("it fits");
        prop_assert_eq!(decoded(&bytes), Ok(frame));
    }

    #[test]
    fn no_message_survives_truncation(frame in single(), cut: prop::sample::Index) {
        let bytes = frame.encode().expect("it fits");
        let cut = cut.index(bytes.len());
        prop_assert!(decoded(&bytes[..cut]).is_err());
    }

    #[test]
    fn one_wrong_bit_is_always_detected(frame in single(), bit: prop::sample::Index) {
        let mut bytes = frame.encode().expect("it fits");
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        // A changed bit changes the checksum, unless it makes the field zero, which means no
        // checksum.
        prop_assert!(bytes[2..4] == [0, 0] || decoded(&bytes).is_err());
    }

    #[test]
    fn what_decodes_without_a_checksum_encodes_to_the_same_message(
        frame in single(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut bytes = frame.encode().expect("it fits");
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes[2..4].fill(0);
        if let Ok(frame) = decoded(&bytes) {
            let again = frame.encode().expect("no longer than received");
            prop_assert!(again.len() <= bytes.len());
            prop_assert_eq!(decoded(&again), Ok(frame));
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(kind in 0u8..30, mut bytes in prop::collection::vec(any::<u8>(), 8..200)) {
        bytes.truncate(bytes.len() / 4 * 4);
        let length = u16::try_from(bytes.len()).expect("it is short");
        bytes[..4].copy_from_slice(&[0x10, kind, 0, 0]);
        bytes[6..8].copy_from_slice(&length.to_be_bytes());
        let _ = Frame::decode(&bytes);
    }
}
