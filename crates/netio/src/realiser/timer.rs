//! The timer realiser: the worker sleeps until shortly before a packet's departure time, and spins
//! for the rest ([`Settings::guard`](crate::worker::Settings::guard)). It needs no support from the
//! port.

use super::catch_up::{CatchUp, LOOK};
use super::{Achieved, Punctuality, Realiser, RealiserRefusal, Step};
use crate::pool::Pool;
use crate::port::Port;
use engine::discipline::Pacing;
use engine::packet::Buffer;
use engine::queue::Queue;
use engine::units::{Duration, Instant};

/// The realiser that waits in the worker's thread.
#[derive(Debug)]
pub struct Timer {
    punctuality: Punctuality,
    catch_up: CatchUp,
    /// The clock, which is ahead of the queue's time after a hold-up.
    clock: Instant,
}

impl Timer {
    /// For this pacing: a packet is late by more than a full frame at the wire's rate. After a
    /// hold-up so much of the missed time is caught up, as a burst; a packet's time at the highest
    /// rate by default.
    pub fn new(pacing: Pacing, mtu: usize, catch_up: Option<Duration>) -> Self {
        Self {
            catch_up: CatchUp::new(pacing, catch_up),
            punctuality: Punctuality::new(pacing.wire, mtu),
            clock: Instant::START,
        }
    }
}

impl Realiser for Timer {
    fn name(&self) -> &'static str {
        "timer"
    }

    fn prove(&self, _port: &mut dyn Port, _pool: &mut Pool) -> Result<String, RealiserRefusal> {
        Ok("timers work on every port".into())
    }

    fn attach(&mut self, _port: &mut dyn Port) -> Result<(), RealiserRefusal> {
        Ok(())
    }

    fn time(&mut self, now: Instant, idle: bool) -> Instant {
        self.clock = now;
        self.catch_up.time(now, idle, &mut self.punctuality.achieved)
    }

    fn wait(&mut self, until: Instant, _queue: &mut Queue, _port: &mut dyn Port) -> Step {
        let due = self.catch_up.wait(until);
        self.punctuality.due = Some(due);
        Step::Sleep(due)
    }

    fn send(&mut self, _pool: &mut Pool, _frame: Buffer) {
        self.catch_up.send();
        // By the clock: the queue's time stands still in a hold-up, and nothing would seem late.
        self.punctuality.start(self.clock);
    }

    fn wait_for_room(&mut self) -> Instant {
        self.catch_up.wait_for_room(self.clock);
        self.clock + LOOK
    }

    fn rest(&mut self) {
        self.catch_up.rest();
        self.punctuality.due = None;
    }

    fn repace(&mut self, pacing: Pacing) {
        self.catch_up.repace(pacing);
    }

    fn achieved(&self) -> &Achieved {
        &self.punctuality.achieved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::{Bandwidth, Bytes};

    /// Full frames at this rate, on Gigabit Ethernet.
    fn pacing(rate: u64) -> Pacing {
        Pacing {
            wire: Bandwidth::gbit(1),
            frames: false,
            period: Bandwidth::mbit(rate).time_to_send(Bytes::new(1_518)),
        }
    }

    fn at(us: u64) -> Instant {
        Instant::START + Duration::from_micros(1_000_000 + us)
    }

    fn waiting(until: Instant) -> Timer {
        let catch_up = Some(Duration::from_millis(5));
        let mut timer = Timer::new(pacing(900), 1_500, catch_up);
        timer.punctuality.due = Some(timer.catch_up.wait(until));
        timer
    }

    #[test]
    fn a_short_delay_of_the_host_is_caught_up_and_a_stall_only_in_part() {
        let mut timer = waiting(at(0));
        assert_eq!(timer.time(at(3_000), false), at(3_000));
        let mut timer = waiting(at(0));
        assert_eq!(timer.time(at(30_000), false), at(5_000));
        assert_eq!(timer.achieved().held_up, Duration::from_millis(25));
        // The queue's time stands still until a packet is sent, and goes on from there.
        assert_eq!(timer.time(at(30_100), false), at(5_000));
        timer.catch_up.wait(at(5_000));
        assert_eq!(timer.time(at(31_000), false), at(5_900));
        assert_eq!(timer.achieved().held_up, Duration::from_micros(25_100));
        // An empty queue has nothing to catch up.
        assert_eq!(timer.time(at(31_001), true), at(31_001));
    }

    /// Packets that leave at once after a hold-up of 30 ms, of a class whose packets are due every
    /// 13.5 us (900 Mbit/s).
    fn burst(catch_up: Option<Duration>) -> usize {
        let mut timer = Timer::new(pacing(900), 1_500, catch_up);
        let mut pool = Pool::new(crate::pool::Slots { small: 1, big: 1 }).expect("memory");
        let frame = pool
            .put(&[0; 60], crate::pool::Offload::default())
            .expect("a slot");
        timer.punctuality.due = Some(timer.catch_up.wait(at(0)));
        let (mut sent, mut due) = (0, at(0));
        let mut shown = timer.time(at(30_000), false);
        // As the queue does: the next is late, or is waited for.
        while due <= shown {
            timer.send(&mut pool, frame);
            due = due + Duration::from_nanos(13_493);
            sent += 1;
            if due > shown {
                break;
            }
            shown = timer.time(at(30_000), false);
        }
        sent
    }

    #[test]
    fn after_a_hold_up_one_packet_is_caught_up_or_as_much_as_is_set() {
        assert_eq!(burst(None), 2);
        assert_eq!(burst(Some(Duration::from_millis(5))), 371);
    }

    /// A class on a host whose timers are late by this much: packets in a second, and the longest
    /// lateness.
    fn with_late_timers(rate: u64, late: Duration) -> (u64, Duration, u64) {
        let period = pacing(rate).period;
        let mut timer = Timer::new(pacing(rate), 1_500, None);
        let mut pool = Pool::new(crate::pool::Slots { small: 1, big: 1 }).expect("memory");
        let frame = pool
            .put(&[0; 60], crate::pool::Offload::default())
            .expect("a slot");
        let (mut sent, mut due, mut now) = (0, at(0), at(0));
        while now < at(1_000_000) {
            let by_clock = timer.catch_up.wait(due);
            timer.punctuality.due = Some(by_clock);
            now = now.max(by_clock) + late;
            while due <= timer.time(now, false) {
                timer.send(&mut pool, frame);
                (sent, due) = (sent + 1, due + period);
            }
        }
        let achieved = timer.achieved();
        (sent, achieved.lateness.longest(), achieved.late)
    }

    #[test]
    fn timers_late_by_less_than_a_packets_time_cost_no_rate() {
        // 100 Mbit/s are 8,234 packets a second, one every 121 us; 4 Mbit/s are 329.
        let late = Duration::from_micros(40);
        assert!((8_234..=8_236).contains(&with_late_timers(100, late).0));
        assert!((329..=331).contains(&with_late_timers(4, Duration::from_millis(2)).0));
    }

    #[test]
    fn a_late_packet_is_late_by_the_clock_however_little_is_caught_up() {
        let late = Duration::from_micros(400);
        let (_, longest, packets) = with_late_timers(100, late);
        assert!(longest >= late && packets > 1_000, "{longest}, {packets}");
    }

    #[test]
    fn lateness_is_of_packets_that_waited_and_late_is_more_than_a_full_slot() {
        let mut pool = Pool::new(crate::pool::Slots { small: 1, big: 1 }).expect("memory");
        let frame = pool
            .put(&[0; 60], crate::pool::Offload::default())
            .expect("a slot");
        let mut timer = waiting(at(0));
        for us in [12, 13] {
            timer.punctuality.due = Some(at(0));
            let _ = timer.time(at(us), false);
            timer.send(&mut pool, frame);
            timer.send(&mut pool, frame);
        }
        let achieved = timer.achieved();
        assert_eq!(
            (achieved.lateness.count(), achieved.late),
            (2, 1),
            "1538 B take 12.3 us"
        );
        assert_eq!(achieved.lateness.longest(), Duration::from_micros(13));
    }
}
