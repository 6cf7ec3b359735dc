//! The realiser that leaves it to the device: packets go to it ahead of their times, with the time
//! at which each is to start (SO_TXTIME; on cards that can, with an `etf` discipline with `offload`
//! on the queue).
//!
//! The queue is asked ahead of the clock: not before [`LEAD`], so that a packet reaches the card in
//! time, and up to [`HORIZON`], so that the worker can sleep. What arrives meanwhile is treated as
//! arriving at the end of that time. Times go to the kernel on its TAI clock, which is what cards
//! are set by.
//!
//! The self-test sends one frame that is to leave in [`TRIAL`] and looks at how long it stays with
//! the device. Where times are ignored (veth, and every driver without it) it is gone at once. Not
//! tried on a card that keeps them: there was none.

use super::{Achieved, Punctuality, Realiser, RealiserRefusal, Step, gap::GapFrame};
use crate::clock;
use crate::pool::{Offload, Pool};
use crate::port::Port;
use engine::packet::Buffer;
use engine::queue::Queue;
use engine::units::{Bandwidth, Duration, Instant};
use std::io;

/// A packet's time is at least so far ahead when it is given to the device.
pub const LEAD: Duration = Duration::from_micros(200);
/// And at most so far.
pub const HORIZON: Duration = Duration::from_millis(1);
/// How far ahead the frame of the self-test is to leave.
pub const TRIAL: Duration = Duration::from_millis(20);
/// A frame that has not left by then will not.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_micros(20);

/// A time of one clock, on another clock that is `offset` nanoseconds ahead.
pub fn carried(at: Instant, offset: i64) -> u64 {
    at.nanos().saturating_add_signed(offset)
}

/// By how much the other clock is ahead of the data plane's, which is read before and after it:
/// half way.
pub fn offset(before: u64, other: u64, after: u64) -> i64 {
    let middle = before + after.saturating_sub(before) / 2;
    i64::try_from(i128::from(other) - i128::from(middle)).unwrap_or(0)
}

/// The realiser that leaves times to the device.
#[derive(Debug)]
pub struct LaunchTime {
    from: [u8; 6],
    punctuality: Punctuality,
    /// The latest time that the queue has seen.
    last: Instant,
    now: Instant,
}

impl LaunchTime {
    /// For a wire of this rate, from an interface with this address and MTU.
    pub fn new(from: [u8; 6], wire: Bandwidth, mtu: usize) -> Self {
        Self {
            from,
            punctuality: Punctuality::new(wire, mtu),
            last: Instant::START,
            now: Instant::START,
        }
    }
}

fn enable(port: &mut dyn Port) -> io::Result<()> {
    let paced = port.paced().ok_or(io::ErrorKind::Unsupported)?;
    paced.enable_launch_times()
}

impl Realiser for LaunchTime {
    fn name(&self) -> &'static str {
        "launch"
    }

    fn prove(&self, port: &mut dyn Port, pool: &mut Pool) -> Result<String, RealiserRefusal> {
        let remedy = "drivers that keep launch times (igb for i210, igc, stmmac, enetc …) want `tc qdisc replace dev IF parent \
                      100:1 etf offload clockid CLOCK_TAI delta 200000` on the queue";
        enable(port)
            .map_err(|e| RealiserRefusal(format!("the socket takes no launch times ({e}); {remedy}")))?;
        let trial = GapFrame::Pause.bytes(self.from, 60);
        let frame = pool.put(&trial, Offload::default());
        let frame =
            frame.ok_or_else(|| RealiserRefusal("there is no room for a frame to try it with".into()))?;
        let begin = clock::now();
        pool.set_launch(frame, begin + TRIAL);
        port.transmit(pool, frame);
        loop {
            port.kick(pool).map_err(|e| {
                RealiserRefusal(format!(
                    "a frame with a launch time cannot be sent ({e}); {remedy}"
                ))
            })?;
            let took = clock::now().since(begin);
            match port.paced().map_or(0, |paced| paced.outstanding()) {
                0 if took + LEAD < TRIAL => {
                    return Err(RealiserRefusal(format!(
                        "launch times are ignored: a frame that was to leave after {TRIAL} was gone after {took}; {remedy}"
                    )));
                }
                0 => {
                    return Ok(format!(
                        "a frame that was to leave after {TRIAL} was gone after {took}"
                    ));
                }
                _ if took > PATIENCE => {
                    return Err(RealiserRefusal(format!(
                        "a frame that was to leave after {TRIAL} had not left after {took}; {remedy}"
                    )));
                }
                _ => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    fn attach(&mut self, port: &mut dyn Port) -> Result<(), RealiserRefusal> {
        enable(port).map_err(|e| RealiserRefusal(format!("the socket takes no launch times: {e}")))
    }

    fn time(&mut self, now: Instant, _idle: bool) -> Instant {
        self.now = self.now.max(now);
        self.last = self.last.max(self.now + LEAD);
        self.last
    }

    fn wait(&mut self, until: Instant, _queue: &mut Queue, _port: &mut dyn Port) -> Step {
        self.punctuality.due = Some(until);
        if until <= self.now + HORIZON {
            self.last = self.last.max(until);
            return Step::Ask(self.last);
        }
        // Late enough that several packets will be due within the horizon.
        Step::Sleep(until - Duration::from_nanos(HORIZON.nanos() / 2))
    }

    fn send(&mut self, pool: &mut Pool, frame: Buffer) {
        pool.set_launch(frame, self.last);
        self.punctuality.start(self.last);
    }

    fn rest(&mut self) {
        self.punctuality.due = None;
    }

    fn achieved(&self) -> &Achieved {
        &self.punctuality.achieved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_carried_to_the_other_clock_by_the_middle_of_two_readings() {
        // TAI is ahead of a clock that begins with the machine by decades, and may be set back.
        let ahead = offset(1_000, 1_700_000_037_000_001_050, 1_100);
        assert_eq!(ahead, 1_700_000_037_000_000_000);
        assert_eq!(
            carried(Instant::from_nanos(5_000), ahead),
            1_700_000_037_000_005_000
        );
        let behind = offset(1_000, 400, 1_001);
        assert_eq!(
            (behind, carried(Instant::from_nanos(5_000), behind)),
            (-600, 4_400)
        );
        assert_eq!(
            carried(Instant::from_nanos(100), behind),
            0,
            "before its beginning there is nothing"
        );
    }
}
