//! The fields of a TCP segment by which round trips are measured (RFC 9293, RFC 7323).

use engine::header::{Fragment, Headers};

const TCP: u8 = 6;
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;
/// NOP, NOP, timestamps: how common kernels begin the options of a segment without SYN once both
/// sides have agreed on timestamps.
const FIRST: [u8; 4] = [1, 1, 8, 10];

/// A segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) flags: u8,
    /// Source and destination.
    pub(super) ports: [u16; 2],
    /// The number of its first byte.
    pub(super) number: u32,
    /// The number that it acknowledges.
    pub(super) acknowledged: u32,
    /// Bytes of data.
    pub(super) data: u32,
    /// Its timestamp, and the one that it echoes.
    pub(super) stamps: Option<Stamps>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamps {
    pub(super) own: u32,
    pub(super) echo: u32,
}

impl Segment {
    /// The segment in a frame with these headers; none unless it is TCP, whole, and its header is
    /// there.
    #[inline(always)]
    pub(super) fn of(headers: &Headers, frame: &[u8]) -> Option<Self> {
        if headers.key.protocol != TCP || headers.key.fragment != Fragment::Whole {
            return None;
        }
        let (l3, l4) = (usize::from(headers.l3?), usize::from(headers.l4?));
        let rest = frame.get(l4..)?;
        let fixed: &[u8; 20] = rest.first_chunk()?;
        let header = usize::from(fixed[12] >> 4) * 4;
        let data = (headers.l3_len as usize).checked_sub(l4 - l3 + header)?;
        let stamps = match rest.get(20..32) {
            _ if header < 30 => None,
            Some(options) if options[..4] == FIRST => Some(Stamps {
                own: word(options, 4),
                echo: word(options, 8),
            }),
            _ => stamps_among(rest.get(20..header)?),
        };
        Some(Self {
            flags: fixed[13],
            ports: [
                u16::from_be_bytes([fixed[0], fixed[1]]),
                u16::from_be_bytes([fixed[2], fixed[3]]),
            ],
            number: word(fixed, 4),
            acknowledged: word(fixed, 8),
            data: u32::try_from(data).ok()?,
            stamps,
        })
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// The timestamps among these options, as far as they are complete.
#[cold]
fn stamps_among(mut options: &[u8]) -> Option<Stamps> {
    while let [kind, rest @ ..] = options {
        match (*kind, rest.first().map(|len| usize::from(*len))) {
            (0, _) => return None,
            (1, _) => options = rest,
            (8, Some(10)) if options.len() >= 10 => {
                return Some(Stamps {
                    own: word(options, 2),
                    echo: word(options, 6),
                });
            }
            (_, Some(len)) if (2..=options.len()).contains(&len) => options = &options[len..],
            _ => return None,
        }
    }
    None
}
