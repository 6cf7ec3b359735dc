//! A hint from a sender to a receiver proxy: the delay that it wants, or that it only queries
//! what the path offers.
//!
//! RSVP leaves the choice of service to the receiver, so a Path has no field for it. The hint is an
//! object of a private class (RFC 3936, section 2.3: 252 to 255, starting with an enterprise
//! number), which other nodes forward and other receivers ignore. The enterprise number is the one
//! for examples (RFC 5612); we have none of our own.

use rsvp::wire::{Frame, Message, Opaque};

const CLASS: u8 = 252;
const C_TYPE: u8 = 1;
const ENTERPRISE: u32 = 32_473;
const TRIAL: u32 = 1;

/// The service that a sender wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServiceHint {
    /// A trial: reply at once with the ADSPEC, and do not reserve.
    pub trial: bool,
    /// The bound on the end-to-end queueing delay, in microseconds.
    pub delay: Option<u32>,
}

impl ServiceHint {
    /// Whether the hint is not empty.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Encodes it as an object.
    fn object(&self) -> Opaque {
        let flags = if self.trial { TRIAL } else { 0 };
        let words = [ENTERPRISE, flags, self.delay.unwrap_or(0)];
        let data = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        Opaque {
            class: CLASS,
            c_type: C_TYPE,
            data,
        }
    }

    /// Decodes an object, if it is a hint.
    fn read(object: &Opaque) -> Option<Self> {
        let word = |at: usize| {
            object
                .data
                .get(at..at + 4)?
                .try_into()
                .ok()
                .map(u32::from_be_bytes)
        };
        let ours = (object.class, object.c_type, word(0)?) == (CLASS, C_TYPE, ENTERPRISE);
        let delay = word(8)?;
        ours.then_some(Self {
            trial: word(4)? & TRIAL != 0,
            delay: (delay != 0).then_some(delay),
        })
    }

    /// The hint in a message.
    pub fn of(frame: &Frame) -> Self {
        frame.forwarded.iter().find_map(Self::read).unwrap_or_default()
    }

    /// Adds the hint to a Path of ours.
    pub fn add_to(&self, mut frame: Frame) -> Frame {
        if self.is_any() && matches!(frame.message, Message::Path(_)) {
            frame.forwarded.retain(|object| Self::read(object).is_none());
            frame.forwarded.push(self.object());
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_survives_encoding_and_nothing_else_is_a_hint() {
        for hint in [
            ServiceHint {
                trial: true,
                delay: None,
            },
            ServiceHint {
                trial: false,
                delay: Some(20_000),
            },
        ] {
            assert_eq!(ServiceHint::read(&hint.object()), Some(hint));
        }
        let object = ServiceHint {
            trial: true,
            delay: Some(1),
        }
        .object();
        assert_eq!(
            ServiceHint::read(&Opaque {
                class: 253,
                ..object.clone()
            }),
            None
        );
        for len in 0..object.data.len() {
            assert_eq!(
                ServiceHint::read(&Opaque {
                    data: object.data[..len].to_vec(),
                    ..object.clone()
                }),
                None
            );
        }
    }
}
