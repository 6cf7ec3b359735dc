//! The launch-time realiser: the device receives packets ahead of time, each with the time at which
//! to start it (SO_TXTIME; on cards that support it, with an `etf` qdisc with `offload` on the
//! queue).
//!
//! The queue's time is ahead of the clock: at least by [`LEAD`], so that a packet reaches the card
//! in time, and at most by [`HORIZON`], so that the worker can sleep. Packets that arrive meanwhile
//! are treated as arriving at that later time. Launch times are passed to the kernel on its TAI
//! clock, by which cards are set.
//!
//! The self-test sends one frame with a launch time in [`TRIAL`] and measures how long the device
//! keeps it. A driver that ignores launch times (veth and most others) sends it at once. This has
//! not been tested on a card that supports them: there was none.

use super::catch_up::{CatchUp, LOOK};
use super::{Achieved, Punctuality, Realiser, RealiserRefusal, Step, gap::GapFrame};
use crate::clock;
use crate::pool::{Offload, Pool};
use crate::port::Port;
use engine::discipline::Pacing;
use engine::packet::Buffer;
use engine::queue::Queue;
use engine::units::{Duration, Instant};
use std::io;

/// A packet goes to the device at least this long before its launch time.
pub const LEAD: Duration = Duration::from_micros(200);
/// A packet goes to the device at most this long before its launch time.
pub const HORIZON: Duration = Duration::from_millis(1);
/// The launch time of the self-test's frame, from now.
pub const TRIAL: Duration = Duration::from_millis(20);
/// The self-test fails if the frame has not left by then.
const TRIAL_LIMIT: Duration = Duration::from_millis(500);
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_micros(20);

/// Converts a time to another clock that is `offset` nanoseconds ahead.
pub fn convert(at: Instant, offset: i64) -> u64 {
    at.nanos().saturating_add_signed(offset)
}

/// By how much the other clock is ahead of the data plane's, which was read before and after it:
/// relative to the middle of both.
pub fn offset(before: u64, other: u64, after: u64) -> i64 {
    let middle = before + after.saturating_sub(before) / 2;
    i64::try_from(i128::from(other) - i128::from(middle)).unwrap_or(0)
}

/// The realiser that passes launch times to the device.
#[derive(Debug)]
pub struct LaunchTime {
    from: [u8; 6],
    punctuality: Punctuality,
    catch_up: CatchUp,
    now: Instant,
}

impl LaunchTime {
    /// For this pacing, from an interface with this address and MTU. After a hold-up so much of the
    /// missed time is caught up; a packet's time at the highest rate by default.
    pub fn new(from: [u8; 6], pacing: Pacing, mtu: usize, catch_up: Option<Duration>) -> Self {
        Self {
            from,
            punctuality: Punctuality::new(pacing.wire, mtu),
            catch_up: CatchUp::new(pacing, catch_up),
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
        let remedy = "drivers that support launch times (igb for i210, igc, stmmac, enetc …) need `tc qdisc replace dev IF parent \
                      100:1 etf offload clockid CLOCK_TAI delta 200000` on the queue";
        enable(port)
            .map_err(|e| RealiserRefusal(format!("the socket supports no launch times ({e}); {remedy}")))?;
        let trial = GapFrame::Pause.bytes(self.from, 60);
        let frame = pool.put(&trial, Offload::default());
        let frame =
            frame.ok_or_else(|| RealiserRefusal("the pool has no free slot for the test frame".into()))?;
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
                        "launch times are ignored: a frame due after {TRIAL} left after {took}; {remedy}"
                    )));
                }
                0 => {
                    return Ok(format!("a frame due after {TRIAL} left after {took}"));
                }
                _ if took > TRIAL_LIMIT => {
                    return Err(RealiserRefusal(format!(
                        "a frame due after {TRIAL} had not left after {took}; {remedy}"
                    )));
                }
                _ => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    fn attach(&mut self, port: &mut dyn Port) -> Result<(), RealiserRefusal> {
        enable(port).map_err(|e| RealiserRefusal(format!("the socket supports no launch times: {e}")))
    }

    fn time(&mut self, now: Instant, idle: bool) -> Instant {
        self.now = self.now.max(now);
        let achieved = &mut self.punctuality.achieved;
        self.catch_up.time(self.now + LEAD, idle, achieved)
    }

    fn wait(&mut self, until: Instant, _queue: &mut Queue, _port: &mut dyn Port) -> Step {
        let due = self.catch_up.wait(until);
        self.punctuality.due = Some(due);
        if due <= self.now + HORIZON {
            return Step::Ask(self.catch_up.show(until));
        }
        // Late enough that several packets will be due within the horizon.
        Step::Sleep(due - Duration::from_nanos(HORIZON.nanos() / 2))
    }

    fn send(&mut self, pool: &mut Pool, frame: Buffer) {
        let at = self.catch_up.send();
        pool.set_launch(frame, at);
        self.punctuality.start(at);
    }

    fn wait_for_room(&mut self) -> Instant {
        self.catch_up.wait_for_room(self.now + LEAD);
        self.now + LOOK
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

    #[test]
    fn times_are_converted_by_an_offset_to_the_middle_of_two_readings() {
        // TAI is decades ahead of a clock that starts at boot, and may be set back.
        let ahead = offset(1_000, 1_700_000_037_000_001_050, 1_100);
        assert_eq!(ahead, 1_700_000_037_000_000_000);
        assert_eq!(
            convert(Instant::from_nanos(5_000), ahead),
            1_700_000_037_000_005_000
        );
        let behind = offset(1_000, 400, 1_001);
        assert_eq!(
            (behind, convert(Instant::from_nanos(5_000), behind)),
            (-600, 4_400)
        );
        assert_eq!(
            convert(Instant::from_nanos(100), behind),
            0,
            "no time is negative"
        );
    }
}
