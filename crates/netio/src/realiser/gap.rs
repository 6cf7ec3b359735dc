//! The gap-frame realiser of the PSPacer paper (Takano et al., SWoPP 2004, section 3): gap frames
//! between packets keep the wire busy while a packet waits, so that the wire's own bytes are the
//! clock.
//!
//! The gap frame is prepared once; the port sends as many of its first bytes as a gap needs. It is
//! either a PAUSE of IEEE 802.3 annex 31B with time 0, which the first switch port discards, or a
//! void frame from an address to itself, which a switch does not forward because its destination is
//! on the ingress port ([`GapFrame`]).
//!
//! The queue's time is that of the wire. While the ring is not empty, it is the clock's time, but
//! at most the end of the bytes given to the wire at its nominal rate. Otherwise a wire slower than
//! nominal (oscillators may differ by 100 ppm) would seem to have idled, and gaps would be too
//! short. If the ring was found empty while a packet waited, the wire was idle: the gap became
//! longer, no packet is early, and the event is counted as dry. A full frame's time of that is
//! caught up; beyond it the queue's time stands still, so that no burst follows a hold-up.
//!
//! Limits. Gap frames order packets only within one transmit ring. They fill the link up to the
//! first switch. A PAUSE with time 0 tells the neighbour to resume, so it cancels a real PAUSE of
//! this host's card. Some cards drop flow-control frames that the host sends; the self-test
//! compares the card's own counter. This has not been tested on a physical card: there was none.

use super::{Achieved, Punctuality, Realiser, RealiserRefusal, Step, full_frame};
use crate::clock;
use crate::pool::Pool;
use crate::port::{PacedPort, Port, PortError};
use engine::byte_clock::{SHORTEST_FRAME, WIRE_OVERHEAD};
use engine::link_clock::LinkClock;
use engine::packet::Buffer;
use engine::queue::Queue;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// The kind of frame that fills a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapFrame {
    /// 802.3 PAUSE with time 0: the neighbour discards it, and goes on sending.
    Pause,
    /// From this interface's address to the same address: switches do not forward it, and a
    /// neighbouring host ignores it.
    Void,
}

impl GapFrame {
    /// A gap frame from this address of `len` bytes without FCS.
    pub fn bytes(self, from: [u8; 6], len: usize) -> Vec<u8> {
        const PAUSE_GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x01];
        const MAC_CONTROL: [u8; 2] = [0x88, 0x08];
        const PAUSE: [u8; 2] = [0, 1];
        /// IEEE 802 Local Experimental EtherType 1.
        const LOCAL_EXPERIMENT: [u8; 2] = [0x88, 0xb5];
        let mut frame = match self {
            // The pause time after the opcode is 0, like the padding.
            Self::Pause => [&PAUSE_GROUP[..], &from, &MAC_CONTROL, &PAUSE].concat(),
            Self::Void => [&from[..], &from, &LOCAL_EXPERIMENT].concat(),
        };
        frame.resize(len.max(SHORTEST_FRAME as usize), 0);
        frame
    }
}

/// The realiser that fills gaps with frames.
#[derive(Debug)]
pub struct GapFrames {
    kind: GapFrame,
    from: [u8; 6],
    frame: usize,
    wire: LinkClock,
    punctuality: Punctuality,
    last: Instant,
    /// How far the queue's time is behind the clock: what was not caught up since the queue was
    /// last empty.
    behind: Duration,
    /// The wire was given a frame, and the queue has not been empty since.
    busy: bool,
    /// The ring was found empty.
    dry: bool,
}

/// The self-test sends this many times the transmit ring, but at least for this long.
const RINGS: u64 = 2;
const AT_LEAST: Duration = Duration::from_millis(5);
/// The self-test's limit, beside four times the nominal duration.
const TRIAL_LIMIT: Duration = Duration::from_secs(2);
/// How far a wire may be from its nominal rate in the self-test, in per cent: the precision of the
/// measurement.
const TOLERANCE: u64 = 5;
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_micros(20);

impl GapFrames {
    /// For a wire of this rate, from an interface with this address and MTU.
    pub fn new(kind: GapFrame, from: [u8; 6], wire: Bandwidth, mtu: usize) -> Self {
        Self {
            kind,
            from,
            frame: full_frame(mtu),
            wire: LinkClock::new(wire, Duration::ZERO),
            punctuality: Punctuality::new(wire, mtu),
            last: Instant::START,
            behind: Duration::ZERO,
            busy: false,
            dry: true,
        }
    }

    fn slot(&self) -> Bytes {
        Bytes::new(self.frame as u64 + WIRE_OVERHEAD)
    }

    /// The queue's time when it would be this but for the wire.
    fn time_of_wire(&mut self, time: Instant) -> Instant {
        let free = self.wire.free_at();
        match (self.dry, self.busy) {
            (false, _) => time.min(free),
            (true, false) => time,
            (true, true) => {
                let latest = free + self.wire.rate().time_to_send(self.slot());
                let skipped = time.since(latest);
                self.behind += skipped;
                self.punctuality.achieved.held_up += skipped;
                time.min(latest)
            }
        }
    }

    /// Gives the wire a slot of this length.
    fn occupy(&mut self, slot: Bytes) {
        let start = self.wire.free_at().max(self.last);
        self.wire.send(start, slot);
        self.busy = true;
    }

    /// Measures whether frames take as long as the wire needs for their bytes.
    fn measure(&self, port: &mut dyn Port, pool: &mut Pool) -> Result<String, RealiserRefusal> {
        let wire = self.wire.rate();
        let slot = wire.time_to_send(self.slot());
        let ring = port.capabilities().transmit_ring as u64;
        let frames = (ring * RINGS).max(AT_LEAST.nanos() / slot.nanos().max(1));
        let begin = clock::now();
        let deadline = begin + TRIAL_LIMIT + slot.times(frames * 4);
        let counted = paced(port)?.device_sent();
        // When the ring was first full, and the frames that had left by then.
        let (mut sent, mut full) = (0u64, None::<(Instant, u64)>);
        let failed = |e: PortError| RealiserRefusal(format!("gap frames cannot be sent: {e}"));
        let (took, left) = loop {
            let room = port.room() as u64;
            let now = clock::now();
            let gone = sent - (paced(port)?.outstanding() as u64).min(sent);
            if let Some((since, before)) = full {
                if gone - before >= frames {
                    break (now.since(since), gone - before);
                }
            } else if room == 0 {
                full = Some((now, gone));
            } else if sent >= ring + frames {
                // The ring never filled: frames leave as fast as they are given.
                let (took, needed) = (now.since(begin), slot.times(sent));
                return Err(RealiserRefusal(format!(
                    "this interface does not serialise frames: {sent} frames of {} B, which take {needed} at {wire}, \
                     left within {took}",
                    self.frame
                )));
            }
            if now > deadline {
                return Err(RealiserRefusal(format!(
                    "{sent} gap frames did not leave within {}",
                    now.since(begin)
                )));
            }
            let gaps = paced(port)?;
            (0..room).for_each(|_| gaps.transmit_gap(self.frame));
            sent += room;
            port.kick(pool).map_err(failed)?;
            if room == 0 {
                std::thread::sleep(POLL_INTERVAL);
            }
        };
        drain(port, pool, deadline).map_err(failed)?;
        if let (Some(before), Some(after)) = (counted, paced(port)?.device_sent())
            && after.saturating_sub(before) < sent
        {
            let counted = after.saturating_sub(before);
            return Err(RealiserRefusal(format!(
                "the card counts {counted} of {sent} gap frames as sent: it drops flow-control frames of the host; try void frames"
            )));
        }
        let (took, needed) = (took.nanos(), slot.times(left).nanos().max(1));
        if took.abs_diff(needed) * 100 > needed * TOLERANCE {
            let (took, needed) = (Duration::from_nanos(took), Duration::from_nanos(needed));
            let why = if took < needed {
                "this is not the rate of the wire"
            } else {
                "this is not the rate of the wire, or the host cannot keep the wire busy"
            };
            return Err(RealiserRefusal(format!(
                "{left} frames of {} B took {took}, but need {needed} at {wire}: {why}",
                self.frame
            )));
        }
        Ok(format!(
            "{left} frames of {} B took {}, and need {} at {wire}",
            self.frame,
            Duration::from_nanos(took),
            Duration::from_nanos(needed)
        ))
    }
}

/// The port's interface for gap frames.
fn paced(port: &mut dyn Port) -> Result<&mut dyn PacedPort, RealiserRefusal> {
    let refusal = || RealiserRefusal("this kind of port does not send gap frames".into());
    port.paced().ok_or_else(refusal)
}

/// Waits until everything has left.
fn drain(port: &mut dyn Port, pool: &mut Pool, deadline: Instant) -> Result<(), PortError> {
    while port.paced().is_some_and(|paced| paced.outstanding() > 0) && clock::now() < deadline {
        port.kick(pool)?;
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

impl Realiser for GapFrames {
    fn name(&self) -> &'static str {
        "gap"
    }

    fn prove(&self, port: &mut dyn Port, pool: &mut Pool) -> Result<String, RealiserRefusal> {
        let capabilities = port.capabilities();
        if let Some(speed) = capabilities.speed.filter(|speed| *speed != self.wire.rate()) {
            return Err(RealiserRefusal(format!(
                "the configured rate is {}, but the interface runs at {speed}: all gaps would be wrong",
                self.wire.rate()
            )));
        }
        let rings = paced(port)?.transmit_rings();
        if rings > 1 {
            return Err(RealiserRefusal(format!(
                "the interface spreads frames over {rings} transmit rings, but gap frames order packets only within one: \
                 `ethtool -L {} combined 1`",
                port.name()
            )));
        }
        paced(port)?.prepare_gap(&self.kind.bytes(self.from, self.frame));
        self.measure(port, pool)
    }

    fn attach(&mut self, port: &mut dyn Port) -> Result<(), RealiserRefusal> {
        paced(port)?.prepare_gap(&self.kind.bytes(self.from, self.frame));
        Ok(())
    }

    fn time(&mut self, now: Instant, idle: bool) -> Instant {
        let time = if idle {
            self.behind = Duration::ZERO;
            now
        } else {
            self.time_of_wire(now - self.behind)
        };
        self.last = self.last.max(time);
        self.last
    }

    fn begin(&mut self, now: Instant, idle: bool, port: &mut dyn Port) -> Instant {
        self.dry = port.paced().is_none_or(|paced| paced.outstanding() == 0);
        if self.dry && self.busy && !idle {
            self.punctuality.achieved.dry += 1;
        }
        self.time(now, idle)
    }

    fn keeps_wire(&self) -> bool {
        true
    }

    fn wait(&mut self, until: Instant, queue: &mut Queue, port: &mut dyn Port) -> Step {
        self.punctuality.due = Some(until);
        let Some(slot) = queue.gap(self.slot()) else {
            // The queue waits for something other than the wire.
            self.busy = false;
            return Step::Sleep(until);
        };
        if let Some(paced) = port.paced() {
            paced.transmit_gap(slot.get().saturating_sub(WIRE_OVERHEAD) as usize);
        }
        self.occupy(slot);
        self.punctuality.achieved.gaps += slot;
        Step::Ask(self.last)
    }

    fn send(&mut self, pool: &mut Pool, frame: Buffer) {
        let start = self.wire.free_at().max(self.last);
        self.punctuality.start(start);
        let frame = (pool.len(frame) as u64).max(SHORTEST_FRAME);
        self.occupy(Bytes::new(frame + WIRE_OVERHEAD));
    }

    fn rest(&mut self) {
        self.busy = false;
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
    fn gap_frames_follow_the_standards() {
        let from = [2, 0, 0, 0, 0, 7];
        let pause = GapFrame::Pause.bytes(from, 1_514);
        assert_eq!(pause.len(), 1_514);
        let head = [1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 8, 0, 1, 0, 0];
        assert_eq!(pause[..18], head);
        assert!(pause[18..].iter().all(|byte| *byte == 0));
        let void = GapFrame::Void.bytes(from, 10);
        assert_eq!((void.len(), &void[..6], &void[6..12]), (60, &from[..], &from[..]));
    }

    #[test]
    fn a_wire_slower_than_nominal_is_not_taken_to_be_idle() {
        let mut gaps = GapFrames::new(GapFrame::Pause, [0; 6], Bandwidth::mbit(10), 1_500);
        let at = |us: u64| Instant::from_nanos(1_000_000_000 + us * 1_000);
        assert_eq!(gaps.time(at(0), true), at(0));
        // 1538 bytes at 10 Mbit/s last until 1230.4 us.
        gaps.occupy(Bytes::new(1_538));
        gaps.dry = false;
        assert_eq!(gaps.time(at(1_000), false), at(1_000));
        assert_eq!(gaps.time(at(1_400), false).nanos(), at(1_230).nanos() + 400);
        gaps.dry = true;
        assert_eq!(gaps.time(at(1_400), false), at(1_400));
    }

    #[test]
    fn a_frames_time_is_caught_up_after_the_ring_ran_dry_and_no_more() {
        let mut gaps = GapFrames::new(GapFrame::Pause, [0; 6], Bandwidth::mbit(10), 1_500);
        let at = |us: u64| Instant::from_nanos(1_000_000_000 + us * 1_000);
        assert_eq!(gaps.time(at(0), true), at(0));
        // 1538 bytes at 10 Mbit/s: 1230.4 us.
        gaps.occupy(Bytes::new(1_538));
        gaps.dry = true;
        assert_eq!(gaps.time(at(50_000), false).nanos(), at(2_460).nanos() + 800);
        let held_up = gaps.achieved().held_up.nanos();
        assert_eq!(held_up, (50_000 - 2_460) * 1_000 - 800);
        // From there it goes on with the clock, and an empty queue is at the clock's time again.
        gaps.occupy(Bytes::new(1_538));
        assert_eq!(gaps.time(at(50_100), false).nanos(), at(2_560).nanos() + 800);
        assert_eq!(gaps.time(at(60_000), true), at(60_000));
    }
}
