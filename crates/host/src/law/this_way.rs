//! Which connections carry data in a law's direction.
//!
//! A law for downloads sees the connections of uploads, too: of them, acknowledgments arrive. Their
//! round trips show the queue that the uploads fill, and their losses are of what was sent, so they
//! are no evidence of this direction, and there is nothing to limit. A connection that carries in
//! this direction no more than the acknowledgments of what it carries in the other one is left out,
//! until it carries more.

use super::other_way::ACKNOWLEDGMENTS;
use crate::tick::{ConnectionId, DataDirection, FlowSample, LawInput};
use engine::units::{Bytes, Instant};
use std::collections::BTreeMap;

/// What begins counts as of this direction until it has carried so many bytes in the other one
/// alone.
const ALONE: f64 = 30_000.0;
/// What was carried is forgotten by half in this many seconds: acknowledgments come later than what
/// they acknowledge.
const FORGETS: f64 = 1.0;
/// Less than a full frame, in bytes, is no data.
const FRAME: f64 = 1_514.0;

/// What a connection carries this way and the other one, in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Carried {
    at: Instant,
    totals: [Bytes; 2],
    lately: [f64; 2],
    /// The other way, since it last carried data this way.
    alone: f64,
}

impl Carried {
    /// Of a connection that is not known yet.
    fn nothing(at: Instant) -> Self {
        Self {
            at,
            totals: [Bytes::ZERO; 2],
            lately: [0.0; 2],
            alone: 0.0,
        }
    }

    /// With these totals at this time.
    fn and(self, at: Instant, totals: [Bytes; 2]) -> Self {
        let kept = 0.5_f64.powf(at.since(self.at).as_secs_f64() / FORGETS);
        let more = [0, 1].map(|way| totals[way].get().saturating_sub(self.totals[way].get()) as f64);
        let lately = [0, 1].map(|way| self.lately[way] * kept + more[way]);
        let has_data = lately[0] > ACKNOWLEDGMENTS * lately[1] + FRAME;
        Self {
            at,
            totals,
            lately,
            alone: if has_data { 0.0 } else { self.alone + more[1] },
        }
    }
}

/// The connections of a law, and what each carries.
#[derive(Clone, Debug)]
pub(super) struct ThisWay {
    direction: DataDirection,
    connections: BTreeMap<ConnectionId, Carried>,
}

impl ThisWay {
    /// Of a law for this direction.
    pub(super) fn new(direction: DataDirection) -> Self {
        Self {
            direction,
            connections: BTreeMap::new(),
        }
    }

    /// Takes a tick in.
    pub(super) fn read(&mut self, tick: &LawInput<'_>) {
        let known = std::mem::take(&mut self.connections);
        let carried = |sample: &FlowSample| {
            let totals = [self.direction, self.direction.other()].map(|way| sample.carried(way));
            let before = known.get(&sample.id).copied();
            let before = before.unwrap_or(Carried::nothing(sample.at));
            (sample.id, before.and(sample.at, totals))
        };
        self.connections = tick.flows.iter().map(carried).collect();
    }

    /// Whether it was there at the last tick.
    pub(super) fn knows(&self, id: ConnectionId) -> bool {
        self.connections.contains_key(&id)
    }

    /// Whether it carries data in this direction, or may begin to.
    pub(super) fn has(&self, sample: &FlowSample) -> bool {
        let carried = self.connections.get(&sample.id);
        carried.is_none_or(|carried| carried.alone < ALONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::{Bottleneck, LinkCounters, MemberId};
    use engine::units::Duration;

    /// Whether a law for downloads has a connection, after each of these ticks of 50 ms in which it
    /// received and sent so many bytes.
    fn has(ticks: &[[u64; 2]]) -> Vec<bool> {
        let mut ways = ThisWay::new(DataDirection::Download);
        let (mut at, mut totals) = (Instant::START, [0, 0]);
        let tick = |[received, sent]: &[u64; 2]| {
            at = at + Duration::from_millis(50);
            totals = [totals[0] + received, totals[1] + sent];
            let [received, sent] = totals.map(Bytes::new);
            let sample = FlowSample {
                received,
                sent,
                ..FlowSample::new(ConnectionId(1), MemberId(0), at)
            };
            ways.read(&LawInput {
                now: at,
                link: LinkCounters { received, sent },
                bottleneck: Bottleneck::Auto,
                members: &[],
                flows: &[sample],
            });
            ways.has(&sample)
        };
        ticks.iter().map(tick).collect()
    }

    /// An upload in a tick, with an ACK for every second segment, or for each with a hole reported.
    const UPLOAD: [u64; 2] = [1_320, 60_560];
    const LOSSES: [u64; 2] = [3_760, 60_560];

    #[test]
    fn an_upload_is_none_of_this_direction_once_it_is_known() {
        assert_eq!(has(&[[74, 78], [1_000, 15_140], UPLOAD]), [true, true, false]);
        assert!(has(&[LOSSES; 100])[1..].iter().all(|has| !has));
        assert!(!has(&[[500_000, 20_000_000]])[0], "one that ran before");
    }

    #[test]
    fn a_download_and_what_carries_both_ways_are() {
        assert!(has(&[[60_560, 1_320]; 100]).iter().all(|has| *has));
        assert!(has(&[[60_560, 60_560]; 100]).iter().all(|has| *has));
        assert!(has(&[[500, 1_000]; 20]).iter().all(|has| *has), "a conversation");
    }

    #[test]
    fn an_answer_after_an_upload_is_and_late_acknowledgments_are_not() {
        let late = [[UPLOAD; 20].as_slice(), &[[1_320, 0]; 10], &[[0, 0]; 100]].concat();
        assert!(has(&late)[1..].iter().all(|has| !has));
        let answer = [[UPLOAD; 20].as_slice(), &[[30_000, 660]; 3]].concat();
        assert!(has(&answer)[22], "within three ticks");
    }
}
