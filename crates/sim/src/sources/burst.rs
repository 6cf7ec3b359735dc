//! Bursts: a number of frames a gap apart, every period.

use super::datagram_source::Timing;
use engine::units::{Bytes, Duration};

/// Bursts of packets.
#[derive(Clone, Debug)]
pub struct Burst {
    frames: u64,
    gap: Duration,
    /// From a burst's last frame to the next burst's first.
    pause: Duration,
    sent: u64,
}

impl Burst {
    /// `frames` frames, their first bits `gap` apart, every `period`; without a pause if a burst
    /// lasts longer than a period.
    pub fn every(period: Duration, frames: u64, gap: Duration) -> Self {
        let gap = gap.max(Duration::from_nanos(u64::from(period == Duration::ZERO)));
        let inside = gap.times(frames.saturating_sub(1));
        Self {
            frames,
            gap,
            pause: (period - inside).max(gap),
            sent: 0,
        }
    }

    /// `frames` frames, their first bits `gap` apart, with `pause` between the first bits of a
    /// burst's last frame and of the next burst's first.
    pub fn apart(pause: Duration, frames: u64, gap: Duration) -> Self {
        Self::every(pause + gap.times(frames.saturating_sub(1)), frames, gap)
    }
}

impl Timing for Burst {
    fn first(&mut self) -> Option<Duration> {
        self.sent = 0;
        (self.frames > 0).then_some(Duration::ZERO)
    }

    fn next(&mut self, _sent: Bytes) -> Option<Duration> {
        self.sent = (self.sent + 1) % self.frames;
        Some(if self.sent == 0 { self.pause } else { self.gap })
    }
}
