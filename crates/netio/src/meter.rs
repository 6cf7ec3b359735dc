//! Meters of the classes of a path: packets and bytes sent, the rate over the last second, and
//! queueing delays.

use engine::packet::ClassId;
use engine::queue::Count;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::Delays;

/// Parts of the second over which a rate is measured.
const PARTS: u64 = 10;
const PART: Duration = Duration::from_millis(1000 / PARTS);

/// Bytes of the last second, in tenths: the rate is at most a tenth of a second old.
#[derive(Clone, Debug, Default)]
struct Recent {
    /// One part more than is summed, as the current one is incomplete.
    parts: [u64; PARTS as usize + 1],
    current: u64,
}

impl Recent {
    /// Clears the parts that are older than a second.
    fn advance(&mut self, now: Instant) {
        let part = now.nanos() / PART.nanos();
        let past = part.saturating_sub(self.current).min(self.parts.len() as u64);
        for passed in 0..past {
            let index = (part - passed) % self.parts.len() as u64;
            self.parts[index as usize] = 0;
        }
        self.current = self.current.max(part);
    }

    fn add(&mut self, now: Instant, len: Bytes) {
        self.advance(now);
        self.parts[(self.current % self.parts.len() as u64) as usize] += len.get();
    }

    fn rate(&mut self, now: Instant) -> Bandwidth {
        self.advance(now);
        let current = self.parts[(self.current % self.parts.len() as u64) as usize];
        let complete = self.parts.iter().sum::<u64>() - current;
        Bandwidth::of(Bytes::new(complete), PART.times(PARTS))
    }
}

/// The meter of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    sent: Count,
    short: Count,
    delays: Delays,
    recent: Recent,
}

/// The meter of a class, as a snapshot shows it.
#[derive(Clone, Debug)]
pub struct ClassMeter {
    /// The class.
    pub class: ClassId,
    /// Packets and bytes sent since the path was made.
    pub sent: Count,
    /// What was dropped before it was queued, since memory was short ([`Reason::Memory`]).
    ///
    /// [`Reason::Memory`]: engine::discipline::Reason::Memory
    pub short: Count,
    /// The rate over the last full second.
    pub rate: Bandwidth,
    /// Queueing delays since the path was made.
    pub delays: Delays,
}

/// The meters of a path.
#[derive(Debug, Default)]
pub(crate) struct Meters(Vec<Meter>);

impl Meters {
    fn meter(&mut self, class: ClassId) -> &mut Meter {
        let index = class.0 as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Meter::default);
        }
        &mut self.0[index]
    }

    /// Counts a packet that is dropped since memory is short.
    pub(crate) fn short(&mut self, class: ClassId, len: Bytes) {
        self.meter(class).short += len;
    }

    /// Counts a departure. Allocates only at the first one of a class.
    pub(crate) fn depart(&mut self, now: Instant, class: ClassId, len: Bytes, delay: Duration) {
        let meter = self.meter(class);
        meter.sent += len;
        meter.delays.record(delay);
        meter.recent.add(now, len);
    }

    /// The meters of classes of which anything was sent or dropped.
    pub(crate) fn show(&mut self, now: Instant) -> Vec<ClassMeter> {
        let used = self
            .0
            .iter_mut()
            .enumerate()
            .filter(|(_, meter)| meter.sent.packets + meter.short.packets > 0);
        used.map(|(index, meter)| ClassMeter {
            class: ClassId(index as u32),
            sent: meter.sent,
            short: meter.short,
            rate: meter.recent.rate(now),
            delays: meter.delays.clone(),
        })
        .collect()
    }

    /// Renumbers the classes after a tree was replaced. The meter of a class without a new number
    /// is removed.
    pub(crate) fn renumber(&mut self, new: impl Fn(ClassId) -> Option<ClassId>) {
        let old = std::mem::take(&mut self.0);
        for (index, meter) in old.into_iter().enumerate() {
            let Some(class) = new(ClassId(index as u32)) else {
                continue;
            };
            let index = class.0 as usize;
            if index >= self.0.len() {
                self.0.resize_with(index + 1, Meter::default);
            }
            self.0[index] = meter;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_second_and_fades_without_traffic() {
        let mut recent = Recent::default();
        let at = |ms: u64| Instant::START + Duration::from_millis(5_000 + ms);
        for ms in 0..2_000 {
            recent.add(at(ms), Bytes::new(125));
        }
        assert_eq!(recent.rate(at(2_000)), Bandwidth::mbit(1));
        assert_eq!(recent.rate(at(2_550)), Bandwidth::kbit(500));
        assert_eq!(recent.rate(at(9_000)), Bandwidth::ZERO);
    }
}
