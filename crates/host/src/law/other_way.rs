//! Counted traffic of the other direction, whose queue is in every round trip, too.
//!
//! A round trip is the way there and the way back. While an upload fills the buffer of a home's
//! modem, RTTs of downloads grow by half a second, and nothing of that is a queue of the
//! download's link. What the interface counts in the other direction tells when that may be so.
//! What RTTs have in addition is then taken for the way back, unless the link is full: windows are
//! as long as the way is, and the queue is nobody's that has to be yielded to.
//!
//! Whether the other direction is full, nobody says: its rate is not stated. It is taken for full
//! while it carries at least half of the most that it has carried lately, more than the ACKs of
//! what comes, and more than a trifle. So a call is no upload where uploads are known; where none
//! has been seen yet, it is, and meanwhile hosts that are not counted are not yielded to.

use super::rate_meter::RateMeter;
use crate::tick::{DataDirection, LawInput};

/// Over this many seconds, as the link's rate is estimated.
const MEAN: f64 = 0.4;
/// The part of what comes that its acknowledgments are at most: 94 bytes for each full frame
/// beyond a hole.
pub(super) const ACKNOWLEDGMENTS: f64 = 0.065;
/// What else goes is a trifle below this part of the link's rate, and below this many bits per
/// second.
const TRIFLE: f64 = 0.01;
const TRIFLE_BITS: f64 = 100_000.0;
/// Full from this part of the most that was seen on. A slow start overshoots, by up to twice.
const FULL: f64 = 0.5;
/// The most that was seen is forgotten by half in this many seconds: lines become slower, too.
const FORGETS: f64 = 120.0;
/// The queue of the other direction may last this many seconds after what filled it.
const DRAINS: f64 = 2.0;

/// What the other direction carries.
#[derive(Clone, Debug)]
pub(super) struct OtherWay {
    meter: RateMeter,
    most: f64,
    /// Seconds since it was last full.
    since: f64,
}

impl OtherWay {
    /// Of a law for this direction.
    pub(super) fn new(of: DataDirection) -> Self {
        Self {
            meter: RateMeter::new(of.other()),
            most: 0.0,
            since: f64::INFINITY,
        }
    }

    /// Takes a tick in, in which the link of this rate carries `total`, both in bits per second.
    pub(super) fn read(&mut self, tick: &LawInput<'_>, total: f64, rate: f64) {
        let Some(read) = self.meter.read(&LawInput { flows: &[], ..*tick }) else {
            return;
        };
        let carries = self.meter.total(MEAN);
        let more = carries - ACKNOWLEDGMENTS * total;
        let counts = more >= TRIFLE_BITS.max(TRIFLE * rate);
        self.most *= 0.5_f64.powf(read.seconds / FORGETS);
        if counts {
            self.most = self.most.max(carries);
        }
        self.since = match counts && carries >= FULL * self.most {
            true => 0.0,
            false => self.since + read.seconds,
        };
    }

    /// Whether a queue may grow there.
    pub(super) fn is_full(&self) -> bool {
        self.since == 0.0
    }

    /// Whether a queue may still stand there.
    pub(super) fn may_be_queued(&self) -> bool {
        self.since <= DRAINS
    }
}
