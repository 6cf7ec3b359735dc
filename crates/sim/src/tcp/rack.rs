//! RACK (RFC 8985, as Linux has it): a segment is lost if one that was sent later has arrived, and
//! more than the RTT of that one and a reordering window have passed since it was sent.
//!
//! - **The reordering window** is a quarter of the least RTT, at most SRTT. It is zero during
//!   recovery and once three segments are SACKed, until reordering has been seen. A DSACK widens
//!   it by a quarter of the least RTT, once per round trip; it returns to one quarter after 16
//!   recoveries without.
//! - **The reordering timer** declares lost what the window still spares when the last ACK arrives.
//!
//! The echoed timestamp is the exact time at which the arrived segment was sent, so a
//! retransmission is never confused with its original (RFC 8985, section 6.2, step 2, guesses where
//! timestamps are coarse), and an ACK for an earlier transmission than the last is reordering.

use engine::units::{Duration, Instant};

/// Recoveries for which a widened window stays.
const PERSIST: u32 = 16;

/// When a segment was sent last, and its last byte's successor: the order of transmissions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Transmitted {
    pub(crate) sent: Instant,
    pub(crate) end: u64,
}

/// Which of the segments that arrived was sent last, and the reordering window.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq; `None`: nothing has arrived.
    newest: Option<Transmitted>,
    /// RACK.rtt.
    rtt: Duration,
    reordering_seen: bool,
    /// RACK.reo_wnd_mult.
    quarters: u32,
    /// RACK.reo_wnd_persist.
    persist: u32,
    /// A DSACK counts again when this byte is acknowledged (RACK.dsack_round).
    dsack_round: Option<u64>,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            reordering_seen: false,
            quarters: 1,
            persist: PERSIST,
            dsack_round: None,
        }
    }
}

impl Rack {
    /// A segment arrived that was sent then.
    pub(crate) fn on_delivered(&mut self, now: Instant, arrived: Transmitted) {
        match self.newest {
            Some(newest) if arrived.sent < newest.sent => self.reordering_seen = true,
            Some(newest) if arrived < newest => {}
            _ => {
                self.newest = Some(arrived);
                self.rtt = now.since(arrived.sent);
            }
        }
    }

    /// The receiver reported a duplicate: a retransmission was needless.
    pub(crate) fn on_dsack(&mut self, snd_una: u64, snd_nxt: u64) {
        if self.dsack_round.is_none_or(|end| snd_una >= end) {
            self.dsack_round = Some(snd_nxt);
            self.quarters = self.quarters.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// A recovery ended.
    pub(crate) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// The reordering window; `eager` in recovery, or with three SACKed segments.
    pub(crate) fn window(&self, eager: bool, min_rtt: Duration, srtt: Duration) -> Duration {
        if eager && !self.reordering_seen {
            return Duration::ZERO;
        }
        let quarter = Duration::from_nanos(min_rtt.nanos() / 4);
        quarter.times(self.quarters.into()).min(srtt)
    }

    /// The segment that was sent last among those that arrived.
    pub(crate) fn newest(&self) -> Option<Transmitted> {
        self.newest
    }

    /// Its round-trip time.
    pub(crate) fn rtt(&self) -> Duration {
        self.rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn sent(at: u64, end: u64) -> Transmitted {
        Transmitted {
            sent: Instant::START + ms(at),
            end,
        }
    }

    #[test]
    fn the_window_is_a_quarter_of_the_least_rtt_and_zero_once_losses_are_sure() {
        let rack = Rack::default();
        assert_eq!(rack.window(false, ms(100), ms(120)), ms(25));
        assert_eq!(rack.window(true, ms(100), ms(120)), Duration::ZERO);
    }

    #[test]
    fn reordering_keeps_the_window_open_and_dsacks_widen_it_up_to_srtt() {
        let mut rack = Rack::default();
        let now = Instant::START + ms(200);
        rack.on_delivered(now, sent(100, 2));
        rack.on_delivered(now, sent(90, 1));
        assert_eq!(rack.rtt(), ms(100), "of the segment that was sent last");
        assert_eq!(rack.window(true, ms(100), ms(120)), ms(25));
        rack.on_dsack(10, 20);
        rack.on_dsack(15, 25);
        assert_eq!(rack.window(true, ms(100), ms(120)), ms(50), "once per round trip");
        for round in 2..10 {
            rack.on_dsack(10 * round, 10 * round + 10);
        }
        assert_eq!(rack.window(true, ms(100), ms(120)), ms(120));
        (0..PERSIST).for_each(|_| rack.on_recovered());
        assert_eq!(rack.window(true, ms(100), ms(120)), ms(25));
    }
}
