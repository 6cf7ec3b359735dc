//! What a sender would like of a receiver that answers by rule: a delay, or only to know what the path offers.
//!
//! RSVP leaves the choice of service to the receiver, and has no word for it in a Path. So it is said in an object of a
//! private class (RFC 3936, section 2.3: 252 to 255, an enterprise number first), which nodes that do not know it send on
//! unread, and receivers that do not know it ignore. The number is the one for examples (RFC 5612): there is none of our own.

use rsvp::wire::{Frame, Message, Opaque};

const CLASS: u8 = 252;
const C_TYPE: u8 = 1;
const ENTERPRISE: u32 = 32_473;
const TRIAL: u32 = 1;

/// What a sender would like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Want {
    /// Not to reserve, but to answer at once with what has been gathered on the way.
    pub trial: bool,
    /// Microseconds from end to end, at most.
    pub delay: Option<u32>,
}

impl Want {
    /// Whether there is anything to say.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// As an object.
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

    /// What an object says, if it is one of these.
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

    /// What a message says.
    pub fn of(frame: &Frame) -> Self {
        frame.forwarded.iter().find_map(Self::read).unwrap_or_default()
    }

    /// A Path of ours, with this said in it.
    pub fn add(&self, mut frame: Frame) -> Frame {
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
    fn what_is_said_is_read_and_nothing_else_is() {
        for want in [
            Want {
                trial: true,
                delay: None,
            },
            Want {
                trial: false,
                delay: Some(20_000),
            },
        ] {
            assert_eq!(Want::read(&want.object()), Some(want));
        }
        let object = Want {
            trial: true,
            delay: Some(1),
        }
        .object();
        assert_eq!(
            Want::read(&Opaque {
                class: 253,
                ..object.clone()
            }),
            None
        );
        for len in 0..object.data.len() {
            assert_eq!(
                Want::read(&Opaque {
                    data: object.data[..len].to_vec(),
                    ..object.clone()
                }),
                None
            );
        }
    }
}
