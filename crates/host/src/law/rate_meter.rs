//! Rates from running totals: the link's, each connection's, and the difference, which is other
//! traffic.
//!
//! An upload is counted where it enters the line's buffer, and more than the line carries while the
//! buffer fills or overflows. Its rate, and its part of the link's, is that of what was
//! acknowledged.

use crate::tick::{ConnectionId, DataDirection, FlowSample, LawInput};
use engine::units::{Bytes, Instant};
use std::collections::{BTreeMap, VecDeque};

/// Seconds of history: as long as a long round trip with a queue.
const HISTORY: f64 = 1.0;

/// Seconds for which an ended connection still counts.
const ENDED_COUNTS: f64 = 0.1;

/// Ticks closer than this are ignored, in seconds.
const MIN_SPAN: f64 = 0.004;

/// The measurement of one tick.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct TickSpan {
    seconds: f64,
    total: f64,
    /// Negative where connections read more than the link; a neighbouring tick makes up for it.
    others: f64,
}

/// The rates since the last tick, in bits per second.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TickRates {
    /// The time since the last tick, in seconds.
    pub seconds: f64,
    /// Each connection of the tick, in its sequence.
    pub flows: Vec<f64>,
}

/// The last sample of a connection and its recent rate: the last one, or the decayed remainder of a
/// higher one before, since rates of short ticks fluctuate.
#[derive(Clone, Copy, PartialEq, Debug)]
struct LastSample {
    at: Instant,
    totals: [Bytes; 2],
    rate: f64,
}

/// What it carried at the interface, and behind the bottleneck.
fn totals(sample: &FlowSample, direction: DataDirection) -> [Bytes; 2] {
    [sample.carried(direction), sample.delivered(direction)]
}

/// The remainder of the recent rate after a tick.
const REMAINDER: f64 = 0.7;

/// A connection that has ended.
#[derive(Clone, Copy, PartialEq, Debug)]
struct EndedFlow {
    rate: f64,
    /// For how long it still counts.
    seconds_left: f64,
}

/// Keeps the totals of the last tick and the measurements of recent ticks.
#[derive(Clone, Debug, Default)]
pub struct RateMeter {
    direction: DataDirection,
    last: Option<(Instant, Bytes)>,
    flows: BTreeMap<ConnectionId, LastSample>,
    /// Connections that have ended and still count.
    ended: Vec<EndedFlow>,
    spans: VecDeque<TickSpan>,
}

impl RateMeter {
    /// For this direction.
    pub fn new(direction: DataDirection) -> Self {
        Self {
            direction,
            ..Self::default()
        }
    }

    /// The rates since the last tick; none at the first tick, or if too little time has passed.
    pub fn read(&mut self, tick: &LawInput<'_>) -> Option<TickRates> {
        let link = tick.link.carried(self.direction);
        let Some((at, before)) = self.last else {
            self.last = Some((tick.now, link));
            self.flows = self.last_samples(tick.flows, &[]);
            return None;
        };
        let seconds = tick.now.since(at).as_secs_f64();
        if seconds < MIN_SPAN {
            return None;
        }
        let rate = |bytes: Bytes, seconds: f64| bytes.get() as f64 * 8.0 / seconds;
        let counted = rate(link - before, seconds);
        // Each over the time between its own samples. The first sample of a connection that ran
        // before has a large total: it did not carry more than the link.
        let flow = |sample: &FlowSample| {
            let now = totals(sample, self.direction);
            let Some(last) = self.flows.get(&sample.id) else {
                return now.map(|now| rate(now.min(link - before), seconds));
            };
            let span = match sample.at > last.at {
                true => sample.at.since(last.at).as_secs_f64(),
                false => seconds,
            };
            [0, 1].map(|of| rate(now[of] - last.totals[of], span))
        };
        let flows: Vec<[f64; 2]> = tick.flows.iter().map(flow).collect();
        let [carried, delivered] = [0, 1].map(|of| flows.iter().map(|rates| rates[of]).collect::<Vec<f64>>());
        // A connection that has ended carried data for part of the tick, and data in flight arrive
        // later. It counts at its recent rate for a while: otherwise these data would look like
        // the onset of other traffic.
        let is_gone = |(id, _): &(&ConnectionId, &LastSample)| tick.flows.iter().all(|flow| flow.id != **id);
        let gone = self.flows.iter().filter(is_gone).map(|(_, last)| EndedFlow {
            rate: last.rate,
            seconds_left: ENDED_COUNTS,
        });
        self.ended.extend(gone);
        let ended: f64 = self.ended.iter().map(|flow| flow.rate).sum();
        self.ended
            .iter_mut()
            .for_each(|flow| flow.seconds_left -= seconds);
        self.ended.retain(|flow| flow.seconds_left > 0.0);
        // When a connection ended is not known. What was counted too much for it must not make
        // others negative.
        let present = counted - carried.iter().sum::<f64>();
        let others = if ended > 0.0 {
            (present - ended).max(0.0)
        } else {
            present
        };
        self.last = Some((tick.now, link));
        self.flows = self.last_samples(tick.flows, &carried);
        self.spans.push_front(TickSpan {
            seconds,
            total: present + delivered.iter().sum::<f64>(),
            others,
        });
        let mut remembered = 0.0;
        self.spans.retain(|span| {
            remembered += span.seconds;
            remembered - span.seconds < HISTORY
        });
        Some(TickRates {
            seconds,
            flows: delivered,
        })
    }

    fn last_samples(&self, flows: &[FlowSample], rates: &[f64]) -> BTreeMap<ConnectionId, LastSample> {
        let rates = rates.iter().copied().chain(std::iter::repeat(0.0));
        let last = |(flow, rate): (&FlowSample, f64)| {
            let before = self.flows.get(&flow.id).map_or(0.0, |last| last.rate);
            let last = LastSample {
                at: flow.at,
                totals: totals(flow, self.direction),
                rate: rate.max(REMAINDER * before),
            };
            (flow.id, last)
        };
        flows.iter().zip(rates).map(last).collect()
    }

    /// The link's rate behind its buffer over the last `seconds`, and at least over the last tick.
    pub fn total(&self, seconds: f64) -> f64 {
        self.mean(seconds, |span| span.total)
    }

    /// The other traffic's rate over the last `seconds`, and at least over the last tick.
    pub fn others(&self, seconds: f64) -> f64 {
        self.mean(seconds, |span| span.others).max(0.0)
    }

    /// How long the last tick was.
    pub fn last(&self) -> f64 {
        self.spans.front().map_or(0.0, |span| span.seconds)
    }

    fn mean(&self, over: f64, what: impl Fn(&TickSpan) -> f64) -> f64 {
        let over = over.max(self.last());
        let (mut seconds, mut sum) = (0.0, 0.0);
        for span in &self.spans {
            let part = span.seconds.min(over - seconds).max(0.0);
            seconds += part;
            sum += part * what(span);
        }
        if seconds > 0.0 { sum / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::{Bottleneck, LinkCounters, MemberId};
    use engine::units::Duration;

    fn sample(id: u64, at: u64, received: u64) -> FlowSample {
        let at = Instant::START + Duration::from_millis(at);
        FlowSample {
            received: Bytes::new(received),
            ..FlowSample::new(ConnectionId(id), MemberId(0), at)
        }
    }

    fn read(meter: &mut RateMeter, ms: u64, link: u64, flows: &[FlowSample]) -> Option<TickRates> {
        meter.read(&LawInput {
            now: Instant::START + Duration::from_millis(ms),
            link: LinkCounters {
                received: Bytes::new(link),
                sent: Bytes::ZERO,
            },
            bottleneck: Bottleneck::Unknown,
            members: &[],
            flows,
        })
    }

    #[test]
    fn the_rest_of_the_link_is_other_traffic() {
        let mut meter = RateMeter::new(DataDirection::Download);
        assert_eq!(read(&mut meter, 0, 1000, &[sample(1, 0, 500)]), None);
        let rates = read(&mut meter, 1000, 4000, &[sample(1, 1000, 1500)]).expect("a second tick");
        assert_eq!(rates.flows, [8000.0]);
        assert_eq!((meter.total(0.0), meter.others(0.0)), (24_000.0, 16_000.0));
        assert_eq!(
            read(&mut meter, 1001, 9000, &[sample(1, 1001, 1500)]),
            None,
            "too soon"
        );
    }

    #[test]
    fn means_are_over_time_and_not_over_ticks() {
        let mut meter = RateMeter::new(DataDirection::Download);
        for (ms, link) in [(0, 0), (100, 100), (120, 140), (220, 240)] {
            let _ = read(&mut meter, ms, link, &[]);
        }
        let close = |is: f64, should: f64| assert!((is - should).abs() < 1e-6 * should, "{is} {should}");
        close(meter.total(0.02), 8_000.0);
        close(meter.total(0.12), 140.0 * 8.0 / 0.12);
        close(meter.total(0.17), 190.0 * 8.0 / 0.17);
        close(meter.total(9.0), 240.0 * 8.0 / 0.22);
    }

    #[test]
    fn a_late_sample_does_not_raise_the_rate() {
        let mut meter = RateMeter::new(DataDirection::Download);
        let _ = read(&mut meter, 0, 0, &[sample(1, 0, 0)]);
        // At 10 bytes a millisecond, the whole load of the link.
        let _ = read(&mut meter, 50, 500, &[sample(1, 58, 580)]);
        assert_eq!(meter.others(0.0), 0.0);
        let _ = read(&mut meter, 100, 1000, &[sample(1, 100, 1000)]);
        assert!(meter.others(0.0) < 1e-6, "{}", meter.others(0.0));
    }

    #[test]
    fn uploads_count_as_what_was_acknowledged_and_others_as_what_was_sent() {
        let mut meter = RateMeter::new(DataDirection::Upload);
        // 1000 bytes of an upload in a tick of 100 ms, of which 400 are in the line's buffer or
        // lost, beside others' 200.
        for (ms, link, sent, unacknowledged) in [(0, 0, 0, 0), (100, 1_200, 1_000, 400)] {
            let upload = FlowSample {
                sent: Bytes::new(sent),
                unacknowledged: Bytes::new(unacknowledged),
                ..sample(1, ms, 0)
            };
            let rates = meter.read(&LawInput {
                now: upload.at,
                link: LinkCounters {
                    received: Bytes::ZERO,
                    sent: Bytes::new(link),
                },
                bottleneck: Bottleneck::Unknown,
                members: &[],
                flows: &[upload],
            });
            assert!(rates.is_none_or(|rates| rates.flows == [48_000.0]));
        }
        assert_eq!((meter.total(0.0), meter.others(0.0)), (64_000.0, 16_000.0));
    }

    #[test]
    fn the_last_bytes_of_an_ended_connection_are_not_other_traffic() {
        let mut meter = RateMeter::new(DataDirection::Download);
        let _ = read(&mut meter, 0, 0, &[sample(1, 0, 0)]);
        let _ = read(&mut meter, 50, 500, &[sample(1, 50, 500)]);
        let _ = read(&mut meter, 100, 900, &[]);
        assert_eq!(meter.others(0.0), 0.0);
        let _ = read(&mut meter, 150, 1400, &[]);
        assert_eq!(meter.others(0.0), 0.0);
        let _ = read(&mut meter, 200, 1900, &[]);
        assert!((meter.others(0.0) - 80_000.0).abs() < 1.0, "but not for long");
    }

    #[test]
    fn an_adopted_connection_carried_no_more_than_the_link() {
        let mut meter = RateMeter::new(DataDirection::Download);
        let _ = read(&mut meter, 0, 0, &[]);
        let rates = read(&mut meter, 1000, 2000, &[sample(1, 1000, 1_000_000)]).expect("rates");
        assert_eq!((rates.flows, meter.others(0.0)), (vec![16_000.0], 0.0));
    }
}
