//! TCP connections observed on the path: shared by the two ways to clamp windows, the programs at
//! an interface ([`crate::bpf::windows`]) and the packet loop ([`crate::window_clamp`]).
//!
//! RFC 9293 (the header), RFC 7323 (window scale and timestamps).

use engine::units::{Bytes, Duration};
use std::net::SocketAddr;

/// The two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Ends {
    /// The clamped side, which advertises the windows.
    pub here: SocketAddr,
    /// Its peer, whose data is slowed down.
    pub there: SocketAddr,
}

/// The counters of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carried {
    /// Bytes of frames; the headers of a super-frame are counted once.
    pub bytes: Bytes,
    /// Frames; a super-frame is one.
    pub frames: u64,
    /// Segments.
    pub segments: u64,
}

/// A tracked connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Its ends.
    pub ends: Ends,
    /// What the clamped side sent.
    pub sent: Carried,
    /// What the clamped side received.
    pub received: Carried,
    /// The window scale of the clamped side: zero unless both SYNs had the option (RFC 7323).
    pub scale: u8,
    /// The largest payload of a segment, by both SYNs and less the timestamp option.
    pub mss: u16,
    /// The window advertised last, in bytes, after clamping.
    pub window: Bytes,
    /// The time from the clamped side's SYN or SYN-ACK to the peer's answer; none until that was
    /// seen. At an interface ([`crate::bpf::windows`]) also none if the peer sent the first SYN.
    pub handshake: Option<Duration>,
    /// Round trips measured by timestamps: the sum of all so far, and their number.
    pub round_trips: (Duration, u64),
    /// Whether the peer's FIN or an RST of either side was seen: no more data comes. The clamped
    /// side's own FIN does not count, as that side may go on receiving.
    pub closes: bool,
}

/// The limit of a connection's windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The largest window in bytes; rounded up to the scale's unit.
    pub window: Bytes,
    /// The connection's window scale.
    pub scale: u8,
    /// Whether the right edge of the window must not move left.
    pub polite: bool,
}

impl Limit {
    /// The limit as a window field.
    pub(crate) fn field(&self) -> u16 {
        let unit = 1_u64 << self.scale.min(14);
        self.window.get().div_ceil(unit).min(0xffff) as u16
    }
}

/// The options of a SYN that are used here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Options {
    mss: Option<u16>,
    scale: Option<u8>,
    timestamps: bool,
}

/// What both SYNs have negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Agreed {
    /// The window scale of the clamped side.
    pub(crate) scale: u8,
    /// The largest payload of a segment.
    pub(crate) mss: u16,
}

impl Options {
    /// Parses the options of a TCP header, as far as they are complete.
    pub(crate) fn read(header: &[u8]) -> Self {
        let mut options = Self::default();
        let len = header.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
        let mut rest = header.get(20..len.min(header.len())).unwrap_or_default();
        while let [kind, more @ ..] = rest {
            if *kind == 0 {
                break;
            }
            if *kind == 1 {
                rest = more;
                continue;
            }
            let Some(len) = more
                .first()
                .map(|len| usize::from(*len))
                .filter(|len| (2..=rest.len()).contains(len))
            else {
                break;
            };
            match rest[..len] {
                [2, 4, a, b] => options.mss = Some(u16::from_be_bytes([a, b])),
                [3, 3, scale] => options.scale = Some(scale.min(14)),
                [8, 10, ..] => options.timestamps = true,
                _ => {}
            }
            rest = &rest[len..];
        }
        options
    }

    /// What the SYN of the clamped side, with these options, and the peer's SYN negotiate.
    pub(crate) fn agree(self, there: Self) -> Agreed {
        let stamps = if self.timestamps && there.timestamps {
            12
        } else {
            0
        };
        let mss = self.mss.unwrap_or(536).min(there.mss.unwrap_or(536));
        Agreed {
            scale: self.scale.filter(|_| there.scale.is_some()).unwrap_or(0),
            mss: mss.saturating_sub(stamps).max(64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_far_as_they_are_complete() {
        // Data offset 10: MSS 1460, SACK permitted, timestamps, NOP, scale 7.
        let mut header = vec![0; 20];
        header[12] = 0xa0;
        header.extend([2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]);
        let whole = Options {
            mss: Some(1460),
            scale: Some(7),
            timestamps: true,
        };
        assert_eq!(Options::read(&header), whole);
        for len in 0..header.len() {
            let _ = Options::read(&header[..len]);
        }
        header[22] = 0;
        header[21] = 0;
        assert_eq!(
            Options::read(&header),
            Options::default(),
            "a length of zero ends the options"
        );
    }

    #[test]
    fn windows_are_scaled_only_if_both_syns_have_the_option() {
        let with = |scale, timestamps| Options {
            mss: Some(1460),
            scale,
            timestamps,
        };
        let agreed = with(Some(7), true).agree(with(Some(2), true));
        assert_eq!(agreed, Agreed { scale: 7, mss: 1448 });
        let agreed = with(Some(7), true).agree(with(None, false));
        assert_eq!(agreed, Agreed { scale: 0, mss: 1460 });
        assert_eq!(with(None, false).agree(Options::default()).mss, 536);
    }
}
