//! A link as a clock: each packet moves it on by its length over the bandwidth, exactly.
//!
//! In front of a port it is ALTQ's token-bucket regulator (altq(4), "token bucket regulator"), and
//! for the same reason: the bottleneck is often not the interface but a modem or a switch behind
//! it, where no policy rules. In the simulator it is the wire itself. The remainder of each
//! division is carried to the next packet, so that a discipline that keeps to the same bandwidth by
//! itself never has to wait here.
//!
//! `CreditClock` adds what `cbq` needs: a clock for credits that stands still while the link's
//! caller is too late.

use crate::units::{Bandwidth, Bytes, Duration, Instant};

const NANOS: u64 = 1_000_000_000;

/// A link of one bandwidth.
#[derive(Clone, Debug)]
pub struct LinkClock {
    rate: Bandwidth,
    /// How far a late caller may catch up.
    catch_up: Duration,
    free_at: Instant,
    /// The remainder of the last division, in nanobits; less than the rate.
    remainder: u64,
}

/// How busy a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusyLink {
    /// When the last packet is out, rounded down to a nanosecond.
    pub free_at: Instant,
    /// What that rounding left out, in nanobits.
    pub remainder: u64,
}

impl LinkClock {
    /// An idle link. `catch_up` is how far a late caller may catch up: zero for a wire, a tick of
    /// its clock for a program that is woken late.
    pub fn new(rate: Bandwidth, catch_up: Duration) -> Self {
        Self {
            rate,
            catch_up,
            free_at: Instant::START,
            remainder: 0,
        }
    }

    /// Its bandwidth.
    pub fn rate(&self) -> Bandwidth {
        self.rate
    }

    /// When the last packet is out, rounded down to a nanosecond; the remainder is carried.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// How busy it is, to go on elsewhere.
    pub fn state(&self) -> BusyLink {
        BusyLink {
            free_at: self.free_at,
            remainder: self.remainder,
        }
    }

    /// Goes on where a link of the same bandwidth was; `false` if no such link can be there.
    pub fn resume(&mut self, state: BusyLink) -> bool {
        let can = state.remainder < self.rate.bits().max(1);
        if can {
            (self.free_at, self.remainder) = (state.free_at, state.remainder);
        }
        can
    }

    /// Nothing was queued before `now`: unused time is gone.
    #[inline]
    pub fn start(&mut self, now: Instant) {
        if self.free_at < now {
            (self.free_at, self.remainder) = (now, 0);
        }
    }

    /// Takes another bandwidth at `now`. What was sent ahead of the bandwidth remains the same in
    /// bytes, rounded up, and so does what a late caller may catch up.
    pub fn retune(&mut self, rate: Bandwidth, now: Instant) {
        let (old, new) = (u128::from(self.rate.bits()), u128::from(rate.bits().max(1)));
        let scaled = |span: Duration| u128::from(span.nanos()) * old;
        let nanos = |span: u128| Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
        if rate != self.rate {
            self.free_at = if self.free_at > now {
                let ahead = scaled(self.free_at.since(now)) + u128::from(self.remainder);
                now + nanos(ahead.div_ceil(new))
            } else {
                let late = now.since(self.free_at).min(self.catch_up);
                now - nanos(scaled(late) / new).min(self.catch_up)
            };
            (self.rate, self.remainder) = (rate, 0);
        }
    }

    /// Forgives what was sent ahead of the bandwidth beyond `latest`.
    pub fn forgive(&mut self, latest: Instant) {
        if self.free_at > latest {
            (self.free_at, self.remainder) = (latest, 0);
        }
    }

    /// When the link becomes free, if it is busy at `now`.
    pub fn busy_until(&self, now: Instant) -> Option<Instant> {
        (self.free_at > now).then_some(self.free_at)
    }

    /// A packet leaves now.
    #[inline]
    pub fn send(&mut self, now: Instant, len: Bytes) {
        self.start(now - self.catch_up);
        // In 64 bits while they suffice, which is up to 2 GB a packet: the division is five times
        // faster.
        match len.get().checked_mul(8 * NANOS) {
            Some(nanobits) => self.advance(nanobits),
            None => self.advance_wide(u128::from(len.get()) * u128::from(8 * NANOS)),
        }
    }

    #[inline]
    fn advance(&mut self, nanobits: u64) {
        let Some(work) = nanobits.checked_add(self.remainder) else {
            return self.advance_wide(nanobits.into());
        };
        let rate = self.rate.bits().max(1);
        self.free_at = self.free_at + Duration::from_nanos(work / rate);
        self.remainder = work % rate;
    }

    #[cold]
    fn advance_wide(&mut self, nanobits: u128) {
        let (work, rate) = (
            nanobits + u128::from(self.remainder),
            u128::from(self.rate.bits().max(1)),
        );
        let span = u64::try_from(work / rate).unwrap_or(u64::MAX);
        self.free_at = self.free_at + Duration::from_nanos(span);
        self.remainder = (work % rate) as u64;
    }
}

/// A link whose idle time earns credit only as far as a late caller may catch up: beyond that its
/// clock stands still, as if the time had not passed. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct CreditClock {
    link: LinkClock,
    /// Since when somebody may send, if anybody may.
    ready: u64,
    /// How far the clock is behind: the time by which callers were later than they may catch up.
    behind: u64,
}

impl CreditClock {
    /// For an idle link.
    pub(crate) fn new(rate: Bandwidth, catch_up: Duration) -> Self {
        Self {
            link: LinkClock::new(rate, catch_up),
            ready: 0,
            behind: 0,
        }
    }

    /// Since when somebody may send, if anybody may.
    #[inline]
    pub(crate) fn ready(&self) -> u64 {
        self.ready
    }

    /// From now on somebody may send: since this time.
    #[inline]
    pub(crate) fn set_ready(&mut self, since: u64) {
        self.ready = since;
    }

    /// How far the clock is behind the time, and stays.
    #[inline]
    pub(crate) fn behind(&self) -> u64 {
        self.behind
    }

    /// The clock at `now` while nobody could send.
    #[inline]
    pub(crate) fn idle(&self, now: u64) -> u64 {
        now - self.behind
    }

    /// The clock at `now`. `since`: when somebody could first have sent.
    #[inline]
    pub(crate) fn at(&mut self, now: u64, since: u64) -> u64 {
        let catch_up = self.link.catch_up.nanos();
        let latest = since.max(self.link.free_at.nanos()).saturating_add(catch_up);
        if now > latest {
            self.behind += now - latest;
            (self.link.free_at, self.link.remainder) = (Instant::from_nanos(now - catch_up), 0);
        }
        now - self.behind
    }

    /// A packet of this many nanobits leaves, after [`CreditClock::at`] at the same time. On a link
    /// that another paces, one that runs ahead of the bandwidth is not stopped: the excess is
    /// forgiven.
    #[inline]
    pub(crate) fn send(&mut self, now: u64, nanobits: u64, shaped: bool) {
        self.link.start(Instant::from_nanos(self.ready));
        self.link.advance(nanobits);
        if !shaped {
            let latest = Instant::from_nanos(now + self.link.catch_up.nanos());
            self.link.free_at = self.link.free_at.min(latest);
        }
    }

    /// The first nanosecond in which the link is free.
    #[inline]
    pub(crate) fn free_at(&self) -> u64 {
        self.link.free_at.nanos() + u64::from(self.link.remainder > 0)
    }

    /// Another bandwidth or catch-up from `now` on. Time that a smaller catch-up would not allow
    /// has been credited already: the clock must not turn back.
    pub(crate) fn retune(&mut self, rate: Bandwidth, catch_up: Duration, now: u64) {
        self.link.retune(rate, Instant::from_nanos(now));
        self.link.catch_up = catch_up;
        self.link
            .start(Instant::from_nanos(now.saturating_sub(catch_up.nanos())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATCH_UP: Duration = Duration::from_millis(5);

    #[test]
    fn a_change_of_the_bandwidth_keeps_what_is_ahead_and_what_is_late_in_bytes() {
        let at = |us: u64| Instant::START + Duration::from_micros(1_000_000 + us);
        let mut link = LinkClock::new(Bandwidth::mbit(1), CATCH_UP);
        link.start(at(0));
        link.send(at(0), Bytes::new(1_000));
        assert_eq!(link.free_at(), at(8_000));
        // 4 ms at 1 Mbit/s are 500 bytes: 10 us at 400 Mbit/s, 40 ms at 100 kbit/s.
        let changed = |now: u64, rate: Bandwidth| {
            let mut link = link.clone();
            link.retune(rate, at(now));
            link.free_at()
        };
        assert_eq!(changed(4_000, Bandwidth::mbit(400)), at(4_010));
        assert_eq!(changed(4_000, Bandwidth::kbit(100)), at(44_000));
        assert_eq!(changed(12_000, Bandwidth::mbit(400)), at(11_990));
        // Never more than a late caller may catch up.
        assert_eq!(changed(12_000, Bandwidth::kbit(100)), at(7_000));
        assert_eq!(changed(900_000, Bandwidth::mbit(1)), at(8_000));
    }

    /// Bytes that leave in `span` if asked every `every`, packets of 1000 B always waiting.
    fn sent(rate: Bandwidth, span: Duration, every: Duration) -> u64 {
        let mut link = LinkClock::new(rate, CATCH_UP);
        let (mut now, mut bytes) = (Instant::START + Duration::from_secs(9), 0);
        let end = now + span;
        while now < end {
            while link.busy_until(now).is_none() {
                link.send(now, Bytes::new(1000));
                bytes += 1000;
            }
            now = now + every;
        }
        bytes
    }

    #[test]
    fn what_leaves_is_the_bandwidth_exactly_plus_the_first_burst() {
        let rate = Bandwidth::bits_per_sec(333_333_337);
        let second = Duration::from_secs(1);
        let burst = rate.bytes_in(CATCH_UP).get();
        let bytes = sent(rate, second, Duration::from_micros(3));
        assert!(
            bytes.abs_diff(rate.bytes_in(second).get() + burst) <= 1000,
            "{bytes}"
        );
    }

    #[test]
    fn a_caller_late_within_the_burst_wastes_nothing_and_one_later_still_does() {
        let rate = Bandwidth::mbit(80);
        let second = Duration::from_secs(1);
        let full = rate.bytes_in(second).get();
        assert!(sent(rate, second, Duration::from_millis(4)) >= full);
        assert!(sent(rate, second, Duration::from_millis(10)) <= full * 6 / 10);
    }

    #[test]
    fn a_million_packets_back_to_back_end_within_a_nanosecond_of_their_time() {
        let mut link = LinkClock::new(Bandwidth::bits_per_sec(7_777_777_777), Duration::ZERO);
        for _ in 0..1_000_000 {
            link.send(link.free_at(), Bytes::new(1538));
        }
        let all = Bandwidth::bits_per_sec(7_777_777_777).time_to_send(Bytes::new(1_538_000_000));
        assert!(all.nanos() - link.free_at().nanos() <= 1);
    }

    #[test]
    fn a_start_saves_nothing_up_and_what_was_sent_too_early_can_be_let_off() {
        let (second, late) = (Duration::from_secs(1), Instant::START + Duration::from_secs(5));
        let mut link = LinkClock::new(Bandwidth::mbit(8), Duration::from_secs(100));
        link.send(Instant::START, Bytes::new(2_000_000));
        link.start(Instant::START + second);
        assert_eq!(
            link.free_at(),
            Instant::START + second + second,
            "it was not free yet"
        );
        link.start(late);
        assert_eq!(link.free_at(), late);
        link.send(late, Bytes::new(3_000_000));
        link.forgive(late + second);
        assert_eq!(link.free_at(), late + second);
    }

    #[test]
    fn a_packet_too_long_for_64_bits_of_nanobits_takes_its_time() {
        let mut link = LinkClock::new(Bandwidth::gbit(8), Duration::ZERO);
        link.send(Instant::START, Bytes::new(10_000_000_000));
        assert_eq!(link.free_at(), Instant::START + Duration::from_secs(10));
    }

    #[test]
    fn a_link_goes_on_where_another_of_its_bandwidth_can_have_been() {
        let mut link = LinkClock::new(Bandwidth::bits_per_sec(3), Duration::ZERO);
        let state = |remainder| BusyLink {
            free_at: Instant::from_nanos(7),
            remainder,
        };
        assert!(!link.resume(state(3)));
        assert_eq!(
            (link.free_at(), link.rate()),
            (Instant::START, Bandwidth::bits_per_sec(3))
        );
        assert!(link.resume(state(2)));
        assert_eq!(link.state(), state(2));
        let mut none = LinkClock::new(Bandwidth::ZERO, Duration::ZERO);
        assert!(none.resume(state(0)) && !none.resume(state(1)));
    }

    /// 8 · 10¹⁹ nanobits at 3 Gbit/s are 26,666,666,666 ns and two thirds.
    #[test]
    fn the_remainder_of_a_very_long_packet_is_carried_too() {
        let mut link = LinkClock::new(Bandwidth::gbit(3), Duration::ZERO);
        let state = |free_at, remainder| BusyLink {
            free_at: Instant::from_nanos(free_at),
            remainder,
        };
        link.send(Instant::START, Bytes::new(10_000_000_000));
        assert_eq!(link.state(), state(26_666_666_666, 2_000_000_000));
        link.send(Instant::START, Bytes::new(10_000_000_000));
        assert_eq!(link.state(), state(53_333_333_333, 1_000_000_000));
        // As much as 64 bits hold, and the remainder beyond that.
        link.advance(u64::MAX);
        let work = u128::from(u64::MAX) + 1_000_000_000;
        let free_at = 53_333_333_333 + (work / 3_000_000_000) as u64;
        assert_eq!(link.state(), state(free_at, (work % 3_000_000_000) as u64));
    }

    #[test]
    fn a_link_is_busy_until_it_is_free_and_a_late_caller_catches_up_so_far() {
        let ns = Instant::from_nanos;
        let mut link = LinkClock::new(Bandwidth::gbit(8), Duration::from_nanos(50));
        link.send(ns(1_000), Bytes::new(10));
        assert_eq!(link.free_at(), ns(960));
        link.send(ns(1_000), Bytes::new(100));
        assert_eq!(link.busy_until(ns(1_059)), Some(ns(1_060)));
        assert_eq!(link.busy_until(ns(1_060)), None);
        link.forgive(ns(1_060));
        assert_eq!(link.free_at(), ns(1_060));
        link.start(ns(1_060));
        link.start(ns(1_059));
        assert_eq!(link.free_at(), ns(1_060));
    }

    /// 1 byte a nanosecond; a caller may be 100 ns late.
    fn credits() -> CreditClock {
        CreditClock::new(Bandwidth::gbit(8), Duration::from_nanos(100))
    }

    const BYTE: u64 = 8_000_000_000;

    #[test]
    fn the_clock_of_credits_stands_still_while_its_caller_is_too_late() {
        let mut clock = credits();
        assert_eq!(clock.at(1_100, 1_000), 1_100, "just in time");
        assert_eq!((clock.behind(), clock.idle(1_100)), (0, 1_100));
        assert_eq!(clock.at(1_130, 1_000), 1_100);
        assert_eq!((clock.behind(), clock.idle(1_200)), (30, 1_170));
        assert_eq!(clock.free_at(), 1_030);
        // From when the link is free.
        clock.set_ready(1_130);
        assert_eq!(clock.ready(), 1_130);
        clock.send(1_130, 500 * BYTE, true);
        assert_eq!(clock.free_at(), 1_630);
        assert_eq!((clock.at(1_730, 1_130), clock.at(1_731, 1_130)), (1_700, 1_700));
        assert_eq!((clock.behind(), clock.free_at()), (31, 1_631));
    }

    #[test]
    fn what_runs_ahead_of_a_link_that_another_paces_is_forgiven() {
        for (shaped, free_at) in [(true, 1_500), (false, 1_100)] {
            let mut clock = credits();
            clock.set_ready(1_000);
            clock.send(1_000, 500 * BYTE, shaped);
            assert_eq!(clock.free_at(), free_at);
        }
        let mut clock = credits();
        clock.send(0, BYTE / 2, true);
        assert_eq!(clock.free_at(), 1, "half a nanosecond, rounded up");
    }

    #[test]
    fn another_bandwidth_of_the_clock_of_credits_keeps_what_is_ahead_and_credits_nothing_twice() {
        let mut clock = credits();
        clock.send(0, 500 * BYTE, true);
        clock.retune(Bandwidth::gbit(16), Duration::from_nanos(10), 100);
        assert_eq!(clock.free_at(), 100 + 200);
        clock.retune(Bandwidth::gbit(8), Duration::from_nanos(10), 400);
        assert_eq!(clock.free_at(), 400 - 10);
        assert_eq!(clock.at(401, 380), 401 - 1, "the new catch-up holds");
    }
}
