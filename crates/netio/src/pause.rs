//! Waiting: the thread sleeps until shortly before the due time, then spins until it.
//!
//! Sleep alone is late by timer slack and scheduling. Spinning alone burns a processor, and under
//! `SCHED_FIFO` the kernel throttles a thread that never sleeps for 5 % of each second. So the time
//! to spin is what the timer needs here, and no more: its own lateness is measured, and the thread
//! sleeps until shortly before the due time, so that [`LATENESS_QUANTILE`] per cent of sleeps end
//! in time; the setting is the upper bound. And the thread's duty cycle is bounded: if it was busy
//! for more than [`DUTY`] of the last 100 ms, it sleeps right up to the due time.

use crate::clock;
use crate::hold_ups::HoldUp;
use crate::port::Port;
use crate::sys::{self, Bell};
use engine::units::{Duration, Instant};
use std::os::fd::{AsFd, AsRawFd};

/// The largest busy part of a window, in per cent.
const DUTY: u64 = 90;

/// This part of sleeps, in per cent, ends in time: the median of packets is exact, and the tail is
/// that of the machine in any case.
const LATENESS_QUANTILE: u64 = 90;
/// The estimate of the timer's lateness moves by this times the part of sleeps on the other side.
const LATENESS_STEP: Duration = Duration::from_nanos(20);

const WINDOW: Duration = Duration::from_millis(100);

/// How long it polls before it sleeps, under heavy traffic.
const LINGER: Duration = Duration::from_micros(30);

/// Waits, and tracks how busy the thread was.
#[derive(Debug)]
pub(crate) struct Pause {
    /// The longest time to spin, and the one that the timer needs.
    guard: Duration,
    lateness: Duration,
    /// What is later than this has been held up.
    usual: Duration,
    window_began: Instant,
    slept_in_window: Duration,
    may_spin: bool,
    last_sleep: Duration,
    fds: Vec<libc::pollfd>,
    /// Descriptors whose ports must be polled again even without an event.
    retries: Vec<usize>,
}

/// How the time of a wait was spent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) asleep: Duration,
    pub(crate) spun: Duration,
    pub(crate) wait: Wait,
}

/// A wait, until there is something to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Since when there was nothing to do but to wait.
    pub(crate) began: Instant,
    /// When that ended.
    pub(crate) ended: Instant,
    /// It went on later than it was to.
    pub(crate) held_up: Option<HoldUp>,
}

impl Wait {
    /// What the host held it up for: beyond the time that it was to end at, or that the first of
    /// what it waited for arrived at. If that had come before, it was to end at once.
    pub(crate) fn held_up(&self, first: Option<Instant>, usual: Duration) -> Option<HoldUp> {
        let since = first.map(|first| first.max(self.began));
        let came = since.and_then(|since| HoldUp::noticed(since, self.ended, usual));
        match (self.held_up, came) {
            (Some(one), Some(other)) => Some(one.with(other)),
            (one, other) => one.or(other),
        }
    }
}

/// How a moment of polling ended.
enum Lingered {
    /// There is something to do.
    Ended(Waited),
    /// There was nothing until now.
    Until(Instant),
}

impl Pause {
    /// One that spins for this time at most, and is held up beyond the lateness that is usual.
    pub(crate) fn new(guard: Duration, usual: Duration) -> Self {
        Self {
            guard,
            lateness: guard,
            usual,
            window_began: clock::now(),
            slept_in_window: Duration::ZERO,
            may_spin: true,
            last_sleep: Duration::from_secs(1),
            fds: Vec::new(),
            retries: Vec::new(),
        }
    }

    /// Prepares the thread: the smallest timer slack, and real-time scheduling if requested.
    /// Returns whether it runs in real time; without the permission it stays an ordinary thread,
    /// and is less punctual.
    pub(crate) fn prepare(&self, realtime: bool) -> bool {
        sys::set_timer_slack(1);
        realtime && sys::set_realtime(1).is_ok()
    }

    /// Waits for any of the ports (each with whether to wait for room), the bell, or `until`, at
    /// most for `longest`. It spins only for `until`. Afterwards [`is_ready`](Self::is_ready)
    /// reports by index which ports may have something.
    pub(crate) fn wait<'a>(
        &mut self,
        until: Instant,
        longest: Duration,
        bell: &Bell,
        ports: impl Iterator<Item = Option<(&'a dyn Port, bool)>>,
    ) -> Waited {
        let mut retry_after = None;
        self.fds.clear();
        self.retries.clear();
        self.fds
            .push(sys::interest(bell.as_fd().as_raw_fd(), libc::POLLIN));
        for port in ports {
            let wake = port.and_then(|(port, room)| port.wake(room));
            if let Some(retry) = wake.and_then(|wake| wake.retry) {
                retry_after = Some(retry_after.map_or(retry, |first: Duration| first.min(retry)));
                self.retries.push(self.fds.len());
            }
            // poll(2) ignores negative descriptors.
            let (fd, events) = wake.map_or((-1, 0), |wake| (wake.fd.as_raw_fd(), wake.events));
            self.fds.push(sys::interest(fd, events));
        }
        // What the ports took until now is not the host's.
        let began = clock::now();
        let wake_at = retry_after.map_or(until, |retry| until.min(began + retry));
        let asked = match self.linger(began, wake_at, bell) {
            Lingered::Ended(waited) => return waited,
            Lingered::Until(now) => now,
        };
        let guard = if self.may_spin {
            self.lateness
        } else {
            Duration::ZERO
        };
        let sleep = (wake_at.since(asked) - guard).min(longest);
        let woken = sys::wait(&mut self.fds, sleep.nanos()).unwrap_or(0);
        if self.fds[0].revents != 0 {
            bell.clear();
        }
        let slept_until = clock::now();
        if woken == 0 && sleep > Duration::ZERO {
            self.learn(slept_until.since(asked + sleep));
        }
        let mut held_up = HoldUp::noticed(asked + sleep, slept_until, self.usual);
        let mut now = slept_until;
        let near = wake_at.since(now) <= guard;
        while woken == 0 && near && now < wake_at {
            std::hint::spin_loop();
            let next = clock::now();
            held_up = held_up.or(HoldUp::noticed(now, next, self.usual));
            now = next;
        }
        let waited = Waited {
            asleep: slept_until.since(asked),
            spun: now.since(slept_until) + asked.since(began),
            wait: Wait {
                began,
                ended: now,
                held_up,
            },
        };
        self.last_sleep = waited.asleep;
        self.account(now, waited.asleep);
        waited
    }

    /// The timer ended a sleep late by this much: moves the estimate of the quantile.
    fn learn(&mut self, late: Duration) {
        let step = |per_cent: u64| LATENESS_STEP.times(per_cent);
        self.lateness = if late > self.lateness {
            (self.lateness + step(LATENESS_QUANTILE)).min(self.guard)
        } else {
            self.lateness - step(100 - LATENESS_QUANTILE)
        };
    }

    /// Polls for a moment if the last sleep was short: under heavy traffic the next packet comes
    /// soon, and waking a thread costs more than the wait. Not if spinning is switched off.
    fn linger(&mut self, began: Instant, wake_at: Instant, bell: &Bell) -> Lingered {
        let mut now = began;
        if !self.may_spin || self.guard == Duration::ZERO || self.last_sleep > LINGER {
            return Lingered::Until(now);
        }
        let end = wake_at.min(began + LINGER);
        while now < end {
            let something = sys::wait(&mut self.fds, 0).unwrap_or(0) > 0;
            let next = clock::now();
            let held_up = HoldUp::noticed(now, next, self.usual);
            now = next;
            if something || held_up.is_some() {
                if self.fds[0].revents != 0 {
                    bell.clear();
                }
                self.account(now, Duration::ZERO);
                return Lingered::Ended(Waited {
                    asleep: Duration::ZERO,
                    spun: now.since(began),
                    wait: Wait {
                        began,
                        ended: now,
                        held_up,
                    },
                });
            }
        }
        Lingered::Until(now)
    }

    /// Whether the port with this index may have had something when the last wait ended.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.retries.contains(&(index + 1)) || self.fds.get(index + 1).is_some_and(|fd| fd.revents != 0)
    }

    /// Decides at the end of each window whether the next may spin.
    fn account(&mut self, now: Instant, asleep: Duration) {
        self.slept_in_window += asleep;
        let window = now.since(self.window_began);
        if window >= WINDOW {
            let idle = self.slept_in_window.nanos().saturating_mul(100) / window.nanos();
            self.may_spin = idle >= 100 - DUTY;
            (self.window_began, self.slept_in_window) = (now, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::link::LATENESS;

    /// It sleeps from 100 to 104 ms, and was to wake at 102 or when something came.
    #[test]
    fn a_wait_is_held_up_since_the_first_that_it_waited_for_came() {
        let at = |ms: u64| Instant::START + Duration::from_millis(ms);
        let wait = |held_up| Wait {
            began: at(100),
            ended: at(104),
            held_up,
        };
        let timer = HoldUp::noticed(at(102), at(104), LATENESS);
        let from = |wait: Wait, first| wait.held_up(first, LATENESS).map(|one| (one.from, one.until));
        assert_eq!(from(wait(None), Some(at(101))), Some((at(101), at(104))));
        assert_eq!(from(wait(timer), Some(at(101))), Some((at(101), at(104))));
        assert_eq!(from(wait(timer), None), Some((at(102), at(104))));
        assert_eq!(from(wait(timer), Some(at(103))), Some((at(102), at(104))));
        assert_eq!(from(wait(None), Some(at(103))), None, "as late as is usual");
        assert_eq!(
            from(wait(None), Some(at(99))),
            Some((at(100), at(104))),
            "nothing to wait for"
        );
        assert_eq!(from(wait(None), Some(at(105))), None, "that came after it");
    }

    #[test]
    fn it_spins_for_as_long_as_the_timer_is_late_here_and_at_most_as_long_as_is_set() {
        let mut pause = Pause::new(Duration::from_micros(60), LATENESS);
        // 5 us late, and one in twenty 40 us: nine of ten are in time with a little more than 5.
        for nth in 0..4_000 {
            pause.learn(Duration::from_micros(if nth % 20 == 0 { 40 } else { 5 }));
        }
        let learnt = pause.lateness;
        assert!(
            learnt >= Duration::from_micros(4) && learnt < Duration::from_micros(9),
            "{learnt}"
        );
        for _ in 0..1_000 {
            pause.learn(Duration::from_millis(1));
        }
        assert_eq!(pause.lateness, Duration::from_micros(60));
        let mut pause = Pause::new(Duration::ZERO, LATENESS);
        pause.learn(Duration::from_millis(1));
        assert_eq!(pause.lateness, Duration::ZERO, "spinning is switched off");
    }
}
