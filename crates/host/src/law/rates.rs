//! From running totals to rates: the link's, each connection's, and what is left, the other traffic's.

use crate::reading::{Direction, FlowId, FlowReading, Tick};
use engine::units::{Bytes, Instant};
use std::collections::{BTreeMap, VecDeque};

/// So many seconds are remembered.
const REMEMBERED: f64 = 0.5;

/// For so many seconds a connection counts after its end.
const ENDED_COUNTS: f64 = 0.1;

/// Readings closer than this say nothing, in seconds.
const SHORTEST: f64 = 0.004;

/// What one tick came to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Span {
    seconds: f64,
    total: f64,
    /// Below zero where connections were read to have carried more than the link: the next or the last tick has it back.
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

/// What was last read of a connection, and its rate of late: the last one, or what is left of a higher one before, as rates
/// of short ticks swing.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Known {
    at: Instant,
    carried: Bytes,
    rate: f64,
}

/// What is left of it after a tick.
const LEFT: f64 = 0.7;

/// Keeps the totals of the last tick.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    direction: Direction,
    last: Option<(Instant, Bytes)>,
    flows: BTreeMap<FlowId, Known>,
    /// Connections that have ended: their rates, and for how many seconds they still count.
    ended: Vec<(f64, f64)>,
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
            self.flows = self.known(tick.flows, &[]);
            return None;
        };
        let seconds = tick.now.since(at).as_secs_f64();
        if seconds < SHORTEST {
            return None;
        }
        let rate = |bytes: Bytes, seconds: f64| bytes.get() as f64 * 8.0 / seconds;
        let total = rate(link - before, seconds);
        // Each over the time between its own readings. A connection that begins has no total before; one that was taken over while it
        // ran has a large one: it did not carry more than the link.
        let flow = |reading: &FlowReading| {
            let now = reading.carried(self.direction);
            match self.flows.get(&reading.id) {
                Some(known) if reading.at > known.at => {
                    rate(now - known.carried, reading.at.since(known.at).as_secs_f64())
                }
                Some(known) => rate(now - known.carried, seconds),
                None => rate(now.min(link - before), seconds),
            }
        };
        let flows: Vec<f64> = tick.flows.iter().map(flow).collect();
        // One that has ended went on for a part of the time, and what was on its way arrives after that: it counts as before for
        // a while, since what is missing would look like other traffic that begins.
        let is_gone = |(id, _): &(&FlowId, &Known)| tick.flows.iter().all(|flow| flow.id != **id);
        let gone = self
            .flows
            .iter()
            .filter(is_gone)
            .map(|(_, known)| (known.rate, ENDED_COUNTS));
        self.ended.extend(gone);
        let ended: f64 = self.ended.iter().map(|(rate, _)| rate).sum();
        self.ended.iter_mut().for_each(|(_, left)| *left -= seconds);
        self.ended.retain(|(_, left)| *left > 0.0);
        // Nobody knows when in its time a connection ended: what is counted too much for it is not owed by others.
        let present = total - flows.iter().sum::<f64>();
        let others = if ended > 0.0 {
            (present - ended).max(0.0)
        } else {
            present
        };
        self.last = Some((tick.now, link));
        self.flows = self.known(tick.flows, &flows);
        self.spans.push_front(Span {
            seconds,
            total,
            others,
        });
        let mut remembered = 0.0;
        self.spans.retain(|span| {
            remembered += span.seconds;
            remembered - span.seconds < REMEMBERED
        });
        Some(Rates { seconds, flows })
    }

    fn known(&self, flows: &[FlowReading], rates: &[f64]) -> BTreeMap<FlowId, Known> {
        let rates = rates.iter().copied().chain(std::iter::repeat(0.0));
        let known = |(flow, rate): (&FlowReading, f64)| {
            let carried = flow.carried(self.direction);
            let before = self.flows.get(&flow.id).map_or(0.0, |known| known.rate);
            let (at, rate) = (flow.at, rate.max(LEFT * before));
            (flow.id, Known { at, carried, rate })
        };
        flows.iter().zip(rates).map(known).collect()
    }

    /// The link's rate over the last `seconds`, and at least over the last tick.
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

    fn mean(&self, over: f64, what: impl Fn(&Span) -> f64) -> f64 {
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
    use crate::reading::{Bottleneck, LinkReading, MemberId};
    use engine::units::Duration;

    fn reading(id: u64, at: u64, received: u64) -> FlowReading {
        FlowReading {
            id: FlowId(id),
            member: MemberId(0),
            at: Instant::START + Duration::from_millis(at),
            received: Bytes::new(received),
            sent: Bytes::ZERO,
            rtt: None,
            shortest: None,
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
        assert_eq!(read(&mut meter, 0, 1000, &[reading(1, 0, 500)]), None);
        let rates = read(&mut meter, 1000, 4000, &[reading(1, 1000, 1500)]).expect("a second tick");
        assert_eq!(rates.flows, [8000.0]);
        assert_eq!((meter.total(0.0), meter.others(0.0)), (24_000.0, 16_000.0));
        assert_eq!(
            read(&mut meter, 1001, 9000, &[reading(1, 1001, 1500)]),
            None,
            "too soon to say"
        );
    }

    #[test]
    fn means_are_over_time_and_not_over_ticks() {
        let mut meter = Meter::new(Direction::Download);
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
    fn a_connection_that_is_read_late_carried_no_more_for_that() {
        let mut meter = Meter::new(Direction::Download);
        let _ = read(&mut meter, 0, 0, &[reading(1, 0, 0)]);
        // At 10 bytes a millisecond, all that there is.
        let _ = read(&mut meter, 50, 500, &[reading(1, 58, 580)]);
        assert_eq!(meter.others(0.0), 0.0);
        let _ = read(&mut meter, 100, 1000, &[reading(1, 100, 1000)]);
        assert!(meter.others(0.0) < 1e-6, "{}", meter.others(0.0));
    }

    #[test]
    fn the_last_bytes_of_one_that_ended_are_not_other_traffic() {
        let mut meter = Meter::new(Direction::Download);
        let _ = read(&mut meter, 0, 0, &[reading(1, 0, 0)]);
        let _ = read(&mut meter, 50, 500, &[reading(1, 50, 500)]);
        let _ = read(&mut meter, 100, 900, &[]);
        assert_eq!(meter.others(0.0), 0.0);
        let _ = read(&mut meter, 150, 1400, &[]);
        assert_eq!(meter.others(0.0), 0.0);
        let _ = read(&mut meter, 200, 1900, &[]);
        assert!((meter.others(0.0) - 80_000.0).abs() < 1.0, "but not for long");
    }

    #[test]
    fn a_connection_that_is_taken_over_carried_no_more_than_the_link() {
        let mut meter = Meter::new(Direction::Download);
        let _ = read(&mut meter, 0, 0, &[]);
        let rates = read(&mut meter, 1000, 2000, &[reading(1, 1000, 1_000_000)]).expect("rates");
        assert_eq!((rates.flows, meter.others(0.0)), (vec![16_000.0], 0.0));
    }
}
