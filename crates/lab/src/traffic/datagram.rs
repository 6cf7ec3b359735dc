//! The header of our test datagrams: stream, sequence number, and time of sending.
//!
//! 32 bytes in network byte order: a magic number, flags, the stream's number, the sequence number
//! from 0, and the time in nanoseconds on the sender's clock. The rest of the payload is padding.
//! The datagram that ends a stream has the number of datagrams sent before it as its sequence
//! number.
//!
//! In a lab, 16 bytes more may follow: a [`Stamp`], which every link of the lab brings up to date.

use engine::units::{Duration, Instant};
use std::ops::Range;

/// The shortest payload, in bytes.
pub const LEAST_PAYLOAD: usize = 32;

/// The magic number "SuiT"; the second byte of the flags is the format's version.
const MAGIC: u32 = 0x5375_6954;
const VERSION: u32 = 1 << 8;
const END: u32 = 1;
/// A [`Stamp`] follows.
const STAMPED: u32 = 2;
/// Where the flags and the stamp are.
const FLAGS: Range<usize> = 4..8;
const STAMP: Range<usize> = LEAST_PAYLOAD..LEAST_PAYLOAD + 16;

/// The header of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The stream, a random number of its sender.
    pub stream: u64,
    /// The sequence number from 0; in the last datagram, the number of datagrams before it.
    pub number: u64,
    /// When it was sent, in nanoseconds on the sender's clock.
    pub sent: u64,
    /// Whether the stream ends with it.
    pub end: bool,
}

impl Head {
    /// Writes it to the start of a payload of at least [`LEAST_PAYLOAD`] bytes.
    pub fn write(&self, payload: &mut [u8]) {
        payload[..4].copy_from_slice(&MAGIC.to_be_bytes());
        payload[FLAGS].copy_from_slice(&(VERSION | u32::from(self.end)).to_be_bytes());
        for (at, word) in [(8, self.stream), (16, self.number), (24, self.sent)] {
            payload[at..at + 8].copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Reads it; none if the datagram is not one of ours.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_be_bytes(payload.get(at..at + 8)?.try_into().ok()?));
        let first = word(0)?;
        let flags = first as u32;
        ((first >> 32) as u32 == MAGIC && flags & !(END | STAMPED) == VERSION).then_some(())?;
        Some(Self {
            stream: word(8)?,
            number: word(16)?,
            sent: word(24)?,
            end: flags & END != 0,
        })
    }
}

/// What this machine held a datagram up for: see [`hold_ups`](crate::hold_ups); and whether the
/// first link that promises it anything found it to keep to the curve of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// When a thread of this machine handed it over last, on the clock of the data plane.
    pub handed: Instant,
    /// How much sooner it would have been, at least, had no thread been late.
    pub held: Duration,
    /// Whether what is promised was promised to it; none if no link has promised anything.
    pub conforms: Option<bool>,
}

/// Of the word with the time, the upper two bits are for what was found: nothing, no, or yes.
const FOUND: u32 = 62;

impl Stamp {
    /// Writes it behind the [`Head`] of a payload, if that has the room.
    pub fn write(&self, payload: &mut [u8]) {
        let Some(place) = payload.get_mut(STAMP) else {
            return;
        };
        place[..8].copy_from_slice(&self.handed.nanos().to_be_bytes());
        let found = self.conforms.map_or(0, |conforms| 1 + u64::from(conforms));
        let held = self.held.nanos().min((1 << FOUND) - 1);
        place[8..].copy_from_slice(&(found << FOUND | held).to_be_bytes());
        payload[FLAGS.end - 1] |= STAMPED as u8;
    }

    /// Its bytes in a payload; none if that has no room for them.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "the links of a lab are of Linux")
    )]
    pub(crate) fn bytes(payload: &[u8]) -> &[u8] {
        payload.get(STAMP).unwrap_or_default()
    }

    /// Reads it; none if the datagram has none.
    pub fn read(payload: &[u8]) -> Option<Self> {
        Head::read(payload)?;
        let word = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        let place = payload
            .get(STAMP)
            .filter(|_| payload[FLAGS.end - 1] & STAMPED as u8 != 0)?;
        let last = word(&place[8..])?;
        Some(Self {
            handed: Instant::from_nanos(word(&place[..8])?),
            held: Duration::from_nanos(last & ((1 << FOUND) - 1)),
            conforms: (last >> FOUND).checked_sub(1).map(|found| found > 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_foreign_datagrams_are_not() {
        let mut payload = [0xee; 40];
        for end in [false, true] {
            let head = Head {
                stream: u64::MAX - 1,
                number: 7,
                sent: 1 << 60,
                end,
            };
            head.write(&mut payload);
            assert_eq!(Head::read(&payload), Some(head));
        }
        assert_eq!(Head::read(&payload[..31]), None, "truncated");
        payload[6] ^= 2;
        assert_eq!(Head::read(&payload), None, "another version");
        assert_eq!(Head::read(&[0; 64]), None);
    }

    #[test]
    fn a_stamp_stands_behind_the_head_where_there_is_room() {
        let head = Head {
            stream: 1,
            number: 2,
            sent: 3,
            end: false,
        };
        let stamp = Stamp {
            handed: Instant::from_nanos(u64::MAX - 7),
            held: Duration::from_millis(3),
            conforms: Some(true),
        };
        for conforms in [None, Some(false)] {
            let mut payload = vec![0xee; 48];
            head.write(&mut payload);
            let stamp = Stamp { conforms, ..stamp };
            stamp.write(&mut payload);
            assert_eq!(Stamp::read(&payload), Some(stamp));
        }
        for (length, read) in [(47, None), (48, Some(stamp)), (1_000, Some(stamp))] {
            let mut payload = vec![0xee; length];
            head.write(&mut payload);
            assert_eq!(Stamp::read(&payload), None, "{length}: not stamped");
            stamp.write(&mut payload);
            assert_eq!((Head::read(&payload), Stamp::read(&payload)), (Some(head), read));
        }
    }
}
