//! From running totals to rates: the link's, each connection's, and what is left, the other traffic's.

use crate::reading::{Direction, FlowId, FlowReading, Tick};
use engine::units::{Bytes, Instant};
use std::collections::{BTreeMap, VecDeque};

/// So many ticks are remembered.
const REMEMBERED: usize = 8;

/// For so many ticks a connection counts after its end.
const ENDED_COUNTS: usize = 2;

/// Readings closer than this say nothing, in seconds.
const SHORTEST: f64 = 0.004;

/// What one tick came to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Span {
    seconds: f64,
    total: f64,
    others: f64,
}

/// Rates since the last tick, in bits per second.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rates {
    /// The time since the last tick, in seconds.
    pub seconds: f64,
    /// Each connection of the tick, in its sequence.
    pub flows: Vec<f64>,
}

/// Keeps the totals of the last tick.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    direction: Direction,
    last: Option<(Instant, Bytes)>,
    /// Totals, and the rates of the last tick.
    flows: BTreeMap<FlowId, (Bytes, f64)>,
    /// Connections that have ended: their rates, in the ticks for which they still count.
    ended: VecDeque<f64>,
    spans: VecDeque<Span>,
}

impl Meter {
    /// Of this direction.
    pub fn new(direction: Direction) -> Self {
        Self {
            direction,
            ..Self::default()
        }
    }

    /// The rates since the last tick; none at the first, and where no time has passed.
    pub fn read(&mut self, tick: &Tick<'_>) -> Option<Rates> {
        let link = tick.link.carried(self.direction);
        let Some((at, before)) = self.last else {
            self.last = Some((tick.now, link));
            self.flows = self.totals(tick.flows, &[]);
            return None;
        };
        let seconds = tick.now.since(at).as_secs_f64();
        if seconds < SHORTEST {
            return None;
        }
        let rate = |bytes: Bytes| bytes.get() as f64 * 8.0 / seconds;
        let total = rate(link - before);
        // A connection that begins has no total before. One that was taken over while it ran has a large one: it did not carry
        // more than the link.
        let flow = |reading: &FlowReading| {
            let now = reading.carried(self.direction);
            let known = self.flows.get(&reading.id);
            rate(known.map_or_else(|| now.min(link - before), |(before, _)| now - *before))
        };
        let flows: Vec<f64> = tick.flows.iter().map(flow).collect();
        // One that has ended went on for a part of the time, and what was on its way arrives after that: it counts as before for
        // two ticks, since what is missing would look like other traffic that begins.
        let is_gone = |(id, _): &(&FlowId, &(Bytes, f64))| tick.flows.iter().all(|flow| flow.id != **id);
        let gone: f64 = self.flows.iter().filter(is_gone).map(|(_, (_, rate))| rate).sum();
        self.ended.push_front(gone);
        self.ended.truncate(ENDED_COUNTS);
        let ended: f64 = self.ended.iter().sum();
        let others = (total - flows.iter().sum::<f64>() - ended).max(0.0);
        self.last = Some((tick.now, link));
        self.flows = self.totals(tick.flows, &flows);
        self.spans.push_front(Span {
            seconds,
            total,
            others,
        });
        self.spans.truncate(REMEMBERED);
        Some(Rates { seconds, flows })
    }

    fn totals(&self, flows: &[FlowReading], rates: &[f64]) -> BTreeMap<FlowId, (Bytes, f64)> {
        let rates = rates.iter().copied().chain(std::iter::repeat(0.0));
        flows
            .iter()
            .zip(rates)
            .map(|(flow, rate)| (flow.id, (flow.carried(self.direction), rate)))
            .collect()
    }

    /// The link's rate over the last `ticks` ticks.
    pub fn total(&self, ticks: usize) -> f64 {
        self.mean(ticks, |span| span.total)
    }

    /// The other traffic's rate over the last `ticks` ticks.
    pub fn others(&self, ticks: usize) -> f64 {
        self.mean(ticks, |span| span.others)
    }

    fn mean(&self, ticks: usize, what: impl Fn(&Span) -> f64) -> f64 {
        let of = |weight: &dyn Fn(&Span) -> f64| self.spans.iter().take(ticks).map(weight).sum::<f64>();
        let seconds = of(&|span| span.seconds);
        if seconds > 0.0 {
            of(&|span| span.seconds * what(span)) / seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{Bottleneck, LinkReading, MemberId};
    use engine::units::Duration;

    fn reading(id: u64, received: u64) -> FlowReading {
        FlowReading {
            id: FlowId(id),
            member: MemberId(0),
            at: Instant::START,
            received: Bytes::new(received),
            sent: Bytes::ZERO,
            rtt: None,
            mss: Bytes::new(1448),
            scale: 7,
            window: Bytes::ZERO,
        }
    }

    fn read(meter: &mut Meter, ms: u64, link: u64, flows: &[FlowReading]) -> Option<Rates> {
        meter.read(&Tick {
            now: Instant::START + Duration::from_millis(ms),
            link: LinkReading {
                received: Bytes::new(link),
                sent: Bytes::ZERO,
            },
            bottleneck: Bottleneck::Unknown,
            members: &[],
            flows,
        })
    }

    #[test]
    fn what_is_not_a_members_is_other_traffic() {
        let mut meter = Meter::new(Direction::Download);
        assert_eq!(read(&mut meter, 0, 1000, &[reading(1, 500)]), None);
        let rates = read(&mut meter, 1000, 4000, &[reading(1, 1500)]).expect("a second tick");
        assert_eq!(rates.flows, [8000.0]);
        assert_eq!((meter.total(1), meter.others(1)), (24_000.0, 16_000.0));
        assert_eq!(
            read(&mut meter, 1001, 9000, &[reading(1, 1500)]),
            None,
            "too soon to say"
        );
        let _ = read(&mut meter, 4000, 4000, &[reading(1, 1500)]);
        assert_eq!(meter.others(2), 4_000.0, "ticks count by their length");
    }

    #[test]
    fn the_last_bytes_of_one_that_ended_are_not_other_traffic() {
        let mut meter = Meter::new(Direction::Download);
        let _ = read(&mut meter, 0, 0, &[reading(1, 0)]);
        let _ = read(&mut meter, 1000, 1000, &[reading(1, 1000)]);
        let _ = read(&mut meter, 2000, 1800, &[]);
        assert_eq!(meter.others(1), 0.0);
        let _ = read(&mut meter, 3000, 2800, &[]);
        assert_eq!(meter.others(1), 0.0);
        let _ = read(&mut meter, 4000, 3800, &[]);
        assert_eq!(meter.others(1), 8_000.0, "but not for long");
    }

    #[test]
    fn a_connection_that_is_taken_over_carried_no_more_than_the_link() {
        let mut meter = Meter::new(Direction::Download);
        let _ = read(&mut meter, 0, 0, &[]);
        let rates = read(&mut meter, 1000, 2000, &[reading(1, 1_000_000)]).expect("rates");
        assert_eq!((rates.flows, meter.others(1)), (vec![16_000.0], 0.0));
    }
}
