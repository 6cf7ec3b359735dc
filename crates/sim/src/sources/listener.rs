//! The receiver of a source's datagrams: it counts them, and measures delay, jitter and reordering.
//!
//! It knows a duplicate by its number, which was received or is too old to be told from one: it
//! remembers the latest numbers that are missing.

use crate::agent::{Agent, Context};
use crate::packet::{Payload, SimPacket};
use engine::units::Duration;
use measure::delay::FineDelays;
use std::collections::VecDeque;

/// The missing numbers that it remembers at most.
const MISSING: usize = 1 << 16;

/// Receives datagrams.
#[derive(Clone, Debug, Default)]
pub struct Listener {
    /// One-way delays.
    pub delays: FineDelays,
    /// Packets received, without duplicates.
    pub packets: u64,
    /// Packets received again.
    pub duplicates: u64,
    /// The highest number received, plus one: numbers missing below it are lost.
    pub expected: u64,
    /// Packets received after one with a higher number (RFC 4737, section 3.3).
    pub reordered: u64,
    /// Of what something was promised to: whether it kept to that, and its delay.
    pub promised: Vec<(bool, Duration)>,
    /// The numbers below `expected` that have not come, ascending.
    missing: VecDeque<u64>,
    /// The delay of the previous packet.
    previous_delay: Option<Duration>,
    /// Sixteen times the jitter, in nanoseconds.
    jitter: u64,
}

impl Listener {
    /// Lost packets, as far as later ones reveal.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.packets)
    }

    /// The interarrival jitter: the smoothed difference of successive delays (RFC 3550, section
    /// 6.4.1).
    pub fn jitter(&self) -> Duration {
        Duration::from_nanos(self.jitter / 16)
    }

    /// Takes note of a number; returns whether it is the first of it.
    fn is_new(&mut self, number: u64) -> bool {
        if number >= self.expected {
            for skipped in self.expected..number {
                if self.missing.len() == MISSING {
                    self.missing.pop_front();
                }
                self.missing.push_back(skipped);
            }
            self.expected = number + 1;
            return true;
        }
        let place = self.missing.binary_search(&number);
        let is_new = place.is_ok_and(|place| self.missing.remove(place).is_some());
        self.reordered += u64::from(is_new);
        is_new
    }
}

impl Agent for Listener {
    fn wake(&mut self, _cx: &mut Context<'_>) {}

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        if let Payload::Datagram(number) = packet.payload
            && !self.is_new(number)
        {
            self.duplicates += 1;
            return;
        }
        let delay = cx.now().since(packet.sent);
        self.packets += 1;
        self.delays.record(delay);
        self.promised
            .extend(packet.conforms.map(|conforms| (conforms, delay)));
        if let Some(previous) = self.previous_delay.replace(delay) {
            // J := J + (|D| - J) / 16, in sixteenths.
            self.jitter += delay.nanos().abs_diff(previous.nanos());
            self.jitter -= (self.jitter + 8) / 16;
        }
        cx.deliver(packet.frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once_whatever_the_order() {
        let mut listener = Listener::default();
        let new = [0, 1, 1, 4, 3, 3, 2, 4, 0, 6].map(|number| listener.is_new(number));
        let expected = [true, true, false, true, true, false, true, false, false, true];
        assert_eq!(new, expected);
        assert_eq!((listener.reordered, listener.expected), (2, 7));
        assert_eq!(listener.missing, [5]);
    }

    #[test]
    fn the_latest_missing_numbers_are_remembered() {
        let mut listener = Listener::default();
        let last = 3 * MISSING as u64;
        assert!(listener.is_new(last));
        assert_eq!(listener.missing.len(), MISSING);
        assert!(listener.is_new(last - 1) && !listener.is_new(last - 1));
        assert!(!listener.is_new(5), "too old to be told from a duplicate");
    }
}
