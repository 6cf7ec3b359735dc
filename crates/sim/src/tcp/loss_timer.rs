//! The one retransmission timer and what it stands for, and the tail loss probe (RFC 8985, section
//! 7), as Linux has both.
//!
//! With several losses at the end of a flight no later segment arrives that would show them. After
//! two round trips without an ACK the sender sends one segment more: new data if there is any, or
//! the last segment again. Its SACK shows what is missing, and RACK repairs it without a timeout.
//! The probe takes the place of the retransmission timeout, which starts anew behind it.

use super::rtt::RttEstimator;
use engine::units::{Duration, Instant};

/// The least timeout of a probe or of reordering: two jiffies at 1000 Hz (`TCP_TIMEOUT_MIN`).
const LEAST: Duration = Duration::from_millis(2);

/// What the timer stands for (`icsk_pending`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimerKind {
    /// The retransmission timeout; with nothing in flight, the probe of a zero window.
    Rto,
    /// The tail loss probe.
    LossProbe,
    /// RACK's reordering window.
    Reordering,
}

/// The timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossTimer {
    pub(super) at: Instant,
    pub(super) kind: TimerKind,
}

impl LossTimer {
    pub(super) const OFF: Self = Self {
        at: Instant::NEVER,
        kind: TimerKind::Rto,
    };

    pub(super) fn is_off(self) -> bool {
        self.at == Instant::NEVER
    }

    /// The retransmission timeout, from this time.
    pub(super) fn rto(from: Instant, rtt: &RttEstimator) -> Self {
        Self {
            at: from + rtt.rto(),
            kind: TimerKind::Rto,
        }
    }

    /// The timeout in place of this timer: from now, but from the first segment's transmission
    /// where a probe or reordering was awaited, since they began no new timeout.
    pub(super) fn back_to_rto(self, now: Instant, head_sent: Option<Instant>, rtt: &RttEstimator) -> Self {
        match (self.kind, head_sent) {
            (TimerKind::LossProbe | TimerKind::Reordering, Some(sent)) if !self.is_off() => {
                let rto = Self::rto(sent, rtt);
                Self {
                    at: rto.at.max(now),
                    ..rto
                }
            }
            _ => Self::rto(now, rtt),
        }
    }

    /// The end of the reordering window, but not later than the retransmission timeout.
    pub(super) fn reordering(at: Instant, rto_at: Instant) -> Self {
        Self {
            at: (at + LEAST).min(rto_at),
            kind: TimerKind::Reordering,
        }
    }

    /// The probe: two round trips from now. A lone segment may wait for a delayed ACK. Not later
    /// than the retransmission timeout.
    pub(super) fn probe(now: Instant, alone: bool, rto_at: Instant, rtt: &RttEstimator) -> Self {
        let longer = if alone { rtt.min_rto() } else { LEAST };
        let timeout = rtt
            .srtt()
            .map_or(Duration::from_secs(1), |srtt| srtt.times(2) + longer);
        let at = now + timeout;
        Self {
            at: if rto_at > now { at.min(rto_at) } else { at },
            kind: TimerKind::LossProbe,
        }
    }
}

/// A probe that was sent and is not accounted for yet (`tlp_high_seq`, `tlp_retrans`).
#[derive(Clone, Copy, Debug)]
pub(super) struct LossProbe {
    /// SND.NXT when it was sent.
    pub(super) end: u64,
    /// It was the last segment again, not new data.
    pub(super) again: bool,
}

/// What an ACK says about a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProbeOutcome {
    /// Nothing yet.
    Unknown,
    /// It arrived, and nothing was lost before it.
    NothingLost,
    /// It repaired a loss, which nothing else has shown: the loss counts as congestion.
    Repaired,
}

impl LossProbe {
    /// RFC 8985, section 7.4.2. `duplicate`: a DSACK reported the probe; `pure`: the ACK has
    /// nothing new.
    pub(super) fn outcome(self, ack: u64, duplicate: bool, pure: bool) -> ProbeOutcome {
        if ack < self.end {
            ProbeOutcome::Unknown
        } else if !self.again || duplicate {
            ProbeOutcome::NothingLost
        } else if ack > self.end {
            ProbeOutcome::Repaired
        } else if pure {
            ProbeOutcome::NothingLost
        } else {
            ProbeOutcome::Unknown
        }
    }
}
