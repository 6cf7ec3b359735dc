//! Probes of this program's own that pass a path: echo requests of its [identifiers](crate::echo),
//! and their answers.
//!
//! They are to tell of the queue in the line, not of the one here, so they leave before what is
//! queued, as [neighbours' frames](crate::neighbours) do: short ones only, and so few that nobody
//! gains by a guess of the identifier.

use crate::echo::{ANSWER, REQUEST};
use engine::header::Headers;
use engine::units::{Duration, Instant};

/// Frames that leave first in each period: twice what one prober sends.
const MOST: u32 = 8;
const PERIOD: Duration = Duration::from_millis(100);
/// The longest of them, by the IP packet.
const LONGEST: u32 = 128;

/// The protocols: ICMP and ICMPv6.
const PROTOCOLS: [u8; 2] = [1, 58];

/// Counts such frames of one path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ProbeFrames {
    idents: Vec<u16>,
    period: u64,
    count: u32,
}

impl ProbeFrames {
    /// Those with these identifiers.
    pub(crate) fn of(idents: Vec<u16>) -> Self {
        Self {
            idents,
            ..Self::default()
        }
    }

    /// Whether this frame is to leave before those that are queued.
    pub(crate) fn goes_first(&mut self, now: Instant, headers: &Headers, frame: &[u8]) -> bool {
        if !PROTOCOLS.contains(&headers.key.protocol) || !self.is_one(headers, frame) {
            return false;
        }
        let period = now.nanos() / PERIOD.nanos();
        if period != self.period {
            (self.period, self.count) = (period, 0);
        }
        self.count += 1;
        // Each prober has an identifier in either version of IP.
        self.count <= MOST * (self.idents.len() as u32).div_ceil(2)
    }

    fn is_one(&self, headers: &Headers, frame: &[u8]) -> bool {
        let found = || {
            let header: &[u8; 6] = frame.get(usize::from(headers.l4?)..)?.first_chunk()?;
            let version = PROTOCOLS
                .iter()
                .position(|protocol| *protocol == headers.key.protocol)?;
            let kinds = [REQUEST[version], ANSWER[version]];
            let ident = u16::from_be_bytes([header[4], header[5]]);
            Some(kinds.contains(&header[0]) && self.idents.contains(&ident))
        };
        headers.l3_len <= LONGEST && found() == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of this length with an ICMP message.
    fn frame(len: u16, kind: u8, ident: u16) -> Vec<u8> {
        let mut frame = vec![0; 14 + usize::from(len)];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        (frame[22], frame[23], frame[34]) = (64, 1, kind);
        frame[38..40].copy_from_slice(&ident.to_be_bytes());
        frame
    }

    fn first(probes: &mut ProbeFrames, ms: u64, frame: &[u8]) -> bool {
        let now = Instant::START + Duration::from_millis(ms);
        probes.goes_first(now, &Headers::parse(frame, 0), frame)
    }

    #[test]
    fn requests_and_answers_of_ones_own_go_first_and_few_of_them() {
        let mut probes = ProbeFrames::of(vec![7, 9]);
        for (len, kind, ident, is) in [
            (84, 8, 7, true),
            (84, 0, 9, true),
            (84, 8, 8, false),
            (84, 3, 7, false),
            (129, 8, 7, false),
        ] {
            assert_eq!(
                first(&mut probes, 0, &frame(len, kind, ident)),
                is,
                "{len} {kind} {ident}"
            );
        }
        let own = frame(52, 8, 7);
        let went = (0..100).filter(|_| first(&mut probes, 250, &own)).count();
        assert_eq!(went, 8);
        assert!(first(&mut probes, 300, &own), "in the next period");
        assert!(!first(&mut ProbeFrames::default(), 300, &own), "nobody probes");
    }
}
