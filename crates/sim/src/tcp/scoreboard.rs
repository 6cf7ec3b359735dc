//! The SACK scoreboard: which sent bytes are acknowledged, SACKed, lost, retransmitted, and when
//! they were sent.
//!
//! It keeps ranges in place of RFC 6675's rules for each octet. SACKed data is never reneged on
//! here, and what is sent first has the lower numbers, so all holes below one limit are lost, and
//! the limit only rises. So `pipe`, the estimate of bytes in the network, is a sum of a few
//! counters and costs the same for 10 segments and for 80,000. Two rules raise the limit:
//!
//! - RFC 6675: more than two segments of bytes, or three separate SACK blocks, have arrived above.
//! - RACK (RFC 8985): a segment that was sent later has arrived, and the time is up.
//!
//! RFC 6675 leaves a lost retransmission to the timer. Here it is always detected by time, as RFC
//! 8985 does (Linux did so before RACK, too). Times of first transmissions are kept in runs: what
//! was sent at one instant is one entry.

use super::rack::Transmitted;
use super::ranges::RangeSet;
use crate::packet::ByteRange;
use engine::units::Instant;
use std::collections::VecDeque;

/// The segments by which FACK lets a packet be displaced: Linux's `tcp_reordering`.
const REORDERING: u64 = 3;

/// The rule by which a first transmission is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LossRule {
    /// RFC 6675's DupThresh.
    DupThresh,
    /// RACK's time.
    Time,
    /// Linux 2.4's FACK: all that is more than three segments below the highest that arrived.
    Forward,
    /// Without SACK, what the sender says: the first segment, after duplicate ACKs (RFC 6582).
    Told,
}

/// Segments are lost that were sent before this one, and not after this time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overdue {
    pub(crate) before: Transmitted,
    pub(crate) by: Instant,
}

impl Overdue {
    /// Whether a transmission precedes the one that arrived; at one instant, lower numbers go
    /// first.
    fn overtaken(self, sent: Instant, end: u64) -> bool {
        Transmitted { sent, end } < self.before
    }
}

/// What an ACK changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckSummary {
    /// Bytes by which SND.UNA advanced.
    pub(crate) acked: u64,
    /// Bytes newly known to have arrived.
    pub(crate) delivered: u64,
    /// Ends of two segments among those, 0 if none: of the first that was cumulatively acknowledged
    /// (without holes, of the last), and of the highest new SACK block.
    pub(crate) ends: [u64; 2],
    /// When the last of the cumulatively acknowledged bytes was first sent.
    pub(crate) first_sent: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Retransmission {
    range: ByteRange,
    sent: Instant,
}

#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    rule: LossRule,
    mss: u64,
    /// The first unacknowledged byte.
    snd_una: u64,
    /// The next byte to be sent for the first time.
    snd_nxt: u64,
    /// The first byte of the last new segment.
    tail: u64,
    /// First transmissions that are not cumulatively acknowledged, up to which byte and when.
    first_sent: VecDeque<Transmitted>,
    /// Arrived out of order.
    sacked: RangeSet,
    /// Without SACK: bytes that arrived out of order, by the number of duplicate ACKs.
    duplicates: u64,
    /// Bytes below this that have not arrived are lost.
    lost_below: u64,
    /// With FACK: no bytes from here on are lost yet, whatever arrives.
    lost_before: u64,
    /// The number of lost bytes, retransmitted or not.
    lost: u64,
    /// Of those, the bytes whose retransmission is in the network.
    retransmitted: RangeSet,
    /// Something was deemed lost since this was last asked.
    newly_lost: bool,
    /// All lost bytes below this have been retransmitted.
    cursor: u64,
    /// Bytes whose retransmission is lost.
    lost_retransmissions: VecDeque<ByteRange>,
    /// Retransmissions in the order of their sending.
    retransmissions: VecDeque<Retransmission>,
    /// What was deemed lost since this was last asked, for controls that are told of it.
    losses: Option<Vec<ByteRange>>,
}

impl Scoreboard {
    pub(crate) fn new(mss: u64, rule: LossRule) -> Self {
        Self {
            rule,
            mss,
            snd_una: 0,
            snd_nxt: 0,
            tail: 0,
            first_sent: VecDeque::new(),
            sacked: RangeSet::default(),
            duplicates: 0,
            lost_below: 0,
            lost_before: u64::MAX,
            lost: 0,
            retransmitted: RangeSet::default(),
            newly_lost: false,
            cursor: 0,
            lost_retransmissions: VecDeque::new(),
            retransmissions: VecDeque::new(),
            losses: None,
        }
    }

    /// Keeps what is deemed lost, until it is taken.
    pub(crate) fn keep_losses(&mut self) {
        self.losses = Some(Vec::new());
    }

    /// What was deemed lost since this was last asked and has not arrived.
    pub(crate) fn take_losses(&mut self) -> Vec<ByteRange> {
        let mut left = Vec::new();
        for lost in self.losses.as_mut().map(std::mem::take).unwrap_or_default() {
            let mut start = lost.start.max(self.snd_una);
            while start < lost.end {
                let sacked = self
                    .sacked
                    .at_or_after(start)
                    .filter(|range| range.start < lost.end);
                let end = sacked.map_or(lost.end, |range| range.start.max(start));
                left.push(ByteRange::new(start, end));
                start = sacked.map_or(lost.end, |range| range.end);
            }
        }
        left.retain(|range| !range.is_empty());
        left
    }

    fn note_loss(&mut self, range: ByteRange) {
        if let Some(losses) = &mut self.losses {
            losses.push(range);
        }
    }

    pub(crate) fn snd_una(&self) -> u64 {
        self.snd_una
    }

    pub(crate) fn snd_nxt(&self) -> u64 {
        self.snd_nxt
    }

    /// Bytes sent and not cumulatively acknowledged (RFC 5681's FlightSize).
    pub(crate) fn flight_size(&self) -> u64 {
        self.snd_nxt - self.snd_una
    }

    /// The estimate of bytes in the network.
    pub(crate) fn pipe(&self) -> u64 {
        self.snd_nxt - self.arrived() - self.lost + self.retransmitted.bytes()
    }

    /// Bytes that are known to have arrived; a FIN counts as one.
    pub(crate) fn arrived(&self) -> u64 {
        self.snd_una + self.sacked.bytes() + self.duplicates
    }

    /// Whether any unacknowledged byte is deemed lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Whether nothing arrived out of order.
    pub(crate) fn in_order(&self) -> bool {
        self.sacked.is_empty()
    }

    /// Whether RFC 6675's DupThresh is reached: more than two segments of bytes, or three blocks.
    pub(crate) fn dup_thresh(&self) -> bool {
        self.sacked.bytes() > 2 * self.mss || self.sacked.backwards().nth(2).is_some()
    }

    /// A segment is sent for the first time.
    pub(crate) fn on_send(&mut self, bytes: u64, now: Instant) {
        self.tail = self.snd_nxt;
        self.snd_nxt += bytes;
        match self.first_sent.back_mut() {
            Some(run) if run.sent == now => run.end = self.snd_nxt,
            _ => self.first_sent.push_back(Transmitted {
                sent: now,
                end: self.snd_nxt,
            }),
        }
    }

    /// The last segment is sent again as a probe, though nothing is lost. Returns its bytes.
    pub(crate) fn on_probe(&mut self, now: Instant) -> ByteRange {
        let tail = self.tail.max(self.snd_una);
        // The run of that segment may have others before it.
        if let Some(run) = self.first_sent.pop_back() {
            let before = self.first_sent.back().map_or(self.snd_una, |earlier| earlier.end);
            if before < tail {
                self.first_sent.push_back(Transmitted { end: tail, ..run });
            }
        }
        let end = self.snd_nxt;
        self.first_sent.push_back(Transmitted { sent: now, end });
        ByteRange::new(tail, end)
    }

    /// When the first unacknowledged segment was sent last; unknown while its retransmission is
    /// due.
    pub(crate) fn head_sent(&self) -> Option<Instant> {
        if self.snd_una >= self.lost_below {
            return self.first_sent.front().map(|run| run.sent);
        }
        let head = self
            .retransmissions
            .iter()
            .find(|sent| sent.range.start <= self.snd_una && self.snd_una < sent.range.end)?;
        self.retransmitted
            .at_or_after(self.snd_una)
            .filter(|out| out.start <= self.snd_una)?;
        Some(head.sent)
    }

    /// An ACK arrived.
    pub(crate) fn on_ack(&mut self, ack: u64, sack: &[ByteRange]) -> AckSummary {
        let mut summary = AckSummary::default();
        let ack = ack.min(self.snd_nxt);
        if ack > self.snd_una {
            let known = self.sacked.bytes();
            summary.acked = ack - self.snd_una;
            summary.ends[0] = if known == 0 { ack } else { self.snd_una + 1 };
            self.snd_una = ack;
            while let Some(&run) = self.first_sent.front() {
                summary.first_sent = Some(run.sent);
                if run.end <= ack {
                    self.first_sent.pop_front();
                }
                if run.end >= ack {
                    break;
                }
            }
            while self
                .retransmissions
                .front()
                .is_some_and(|sent| sent.range.end <= ack)
            {
                self.retransmissions.pop_front();
            }
            self.sacked.trim(ack);
            self.retransmitted.trim(ack);
            summary.delivered = summary.acked - (known - self.sacked.bytes());
        }
        let mut changed = false;
        for block in sack {
            let block = ByteRange::new(block.start.max(self.snd_una), block.end.min(self.snd_nxt));
            if block.is_empty() || self.sacked.covers(block) {
                continue;
            }
            let known = self.sacked.bytes();
            self.sacked.insert(block);
            self.retransmitted.remove(block);
            summary.delivered += self.sacked.bytes() - known;
            summary.ends[1] = summary.ends[1].max(block.end);
            changed = true;
        }
        if changed && matches!(self.rule, LossRule::DupThresh | LossRule::Forward) {
            self.raise_lost_below();
        }
        if changed || self.lost > 0 {
            self.count_lost();
        }
        summary
    }

    /// Without SACK: a duplicate ACK says that a segment arrived. Returns its bytes.
    pub(crate) fn on_duplicate(&mut self) -> u64 {
        let possible = self.flight_size() - self.lost - self.duplicates;
        let arrived = self.mss.min(possible);
        self.duplicates += arrived;
        arrived
    }

    /// The bytes of duplicate ACKs.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Without SACK: of this many bytes that an ACK covers, a segment filled a hole and the others
    /// had been told of by duplicates. Returns how many of them are new.
    pub(crate) fn settle_duplicates(&mut self, acked: u64) -> u64 {
        let known = self.duplicates.min(acked - acked.min(self.mss));
        self.duplicates -= known;
        acked - known
    }

    /// Duplicates no longer count.
    pub(crate) fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// Without SACK: the first segment is lost.
    pub(crate) fn lose_head(&mut self) {
        self.raise_to(self.snd_nxt.min(self.snd_una + self.mss));
        self.count_lost();
        self.duplicates = self.duplicates.min(self.flight_size() - self.lost);
    }

    /// Raises the limit below which all that has not arrived is lost.
    fn raise_lost_below(&mut self) {
        if self.rule == LossRule::Forward {
            let highest = self.sacked.backwards().next();
            let limit = highest.map_or(0, |block| block.end.saturating_sub(REORDERING * self.mss));
            return self.raise_to(limit.min(self.lost_before));
        }
        let mut above = 0;
        let limit = self.sacked.backwards().enumerate().find_map(|(blocks, block)| {
            above += block.len();
            (above > 2 * self.mss || blocks == 2).then_some(block.start)
        });
        if let Some(limit) = limit {
            self.raise_to(limit);
        }
    }

    /// With FACK: a recovery begins that judges only what is outstanding, or ends.
    pub(crate) fn judge_before(&mut self, end: Option<u64>) {
        self.lost_before = end.unwrap_or(u64::MAX);
        if self.rule == LossRule::Forward && end.is_none() {
            self.raise_lost_below();
            self.count_lost();
        }
    }

    fn raise_to(&mut self, limit: u64) {
        if limit > self.lost_below {
            self.newly_lost = true;
            self.note_loss(ByteRange::new(self.lost_below, limit));
            self.lost_below = limit;
        }
    }

    /// Whether anything was deemed lost since this was last asked.
    pub(crate) fn take_newly_lost(&mut self) -> bool {
        std::mem::take(&mut self.newly_lost)
    }

    fn count_lost(&mut self) {
        let limit = self.lost_below;
        let above: u64 = self
            .sacked
            .backwards()
            .take_while(|range| range.end > limit)
            .map(|range| range.end - range.start.max(limit))
            .sum();
        self.lost = limit.saturating_sub(self.snd_una + (self.sacked.bytes() - above));
    }

    /// Declares lost what is overdue. Returns when the last of what was sent earlier than the
    /// segment that arrived was sent, if it is not overdue yet.
    pub(crate) fn detect_lost(&mut self, overdue: Overdue) -> Option<Instant> {
        let again = self.detect_lost_retransmissions(overdue);
        if self.rule != LossRule::Time {
            return None;
        }
        again.max(self.detect_lost_first_transmissions(overdue))
    }

    fn detect_lost_retransmissions(&mut self, overdue: Overdue) -> Option<Instant> {
        while let Some(oldest) = self.retransmissions.front()
            && overdue.overtaken(oldest.sent, oldest.range.end)
        {
            let Retransmission { range, sent } = *oldest;
            let out = |board: &Self| {
                board
                    .retransmitted
                    .at_or_after(range.start)
                    .filter(|out| out.start < range.end)
            };
            if out(self).is_some() && sent > overdue.by {
                // Later ones may have arrived, so this waits rather too long than too short.
                let earlier = |other: &Retransmission| other.sent <= overdue.before.sent;
                let waiting = self.retransmissions.partition_point(earlier);
                return self.retransmissions.get(waiting - 1).map(|last| last.sent);
            }
            self.retransmissions.pop_front();
            while let Some(out) = out(self) {
                let lost = out.intersection(range);
                self.retransmitted.remove(lost);
                self.lost_retransmissions.push_back(lost);
                self.note_loss(lost);
                self.newly_lost = true;
            }
        }
        None
    }

    /// How many of the first runs are early, if the early ones are first. Mostly none is, which the
    /// first tells without a search.
    fn early_runs(&self, early: impl Fn(&Transmitted) -> bool) -> usize {
        match self.first_sent.front() {
            Some(first) if early(first) => self.first_sent.partition_point(early),
            _ => 0,
        }
    }

    fn detect_lost_first_transmissions(&mut self, overdue: Overdue) -> Option<Instant> {
        let (first_sent, Transmitted { sent, end }) = (&self.first_sent, overdue.before);
        // The bytes that were sent before those that arrived: up to here.
        let at = self.early_runs(|run| run.sent < sent);
        let mut limit = at
            .checked_sub(1)
            .map_or(self.snd_una, |last| first_sent[last].end);
        if let Some(same) = first_sent.get(at).filter(|run| run.sent == sent) {
            limit = limit.max(end.min(same.end));
        }
        let at = self.early_runs(|run| run.sent <= overdue.by);
        let late = at
            .checked_sub(1)
            .map_or(self.snd_una, |last| first_sent[last].end);
        if late.min(limit) > self.lost_below {
            self.raise_to(late.min(limit));
            self.count_lost();
        }
        // The last of the others that has not arrived.
        let arrived = limit
            .checked_sub(1)
            .and_then(|last| self.sacked.at_or_after(last));
        let last = arrived.map_or(limit, |block| block.start.min(limit));
        if last <= self.lost_below.max(self.snd_una) {
            return None;
        }
        let at = self.first_sent.partition_point(|run| run.end < last);
        self.first_sent.get(at).map(|run| run.sent)
    }

    /// The next lost bytes to retransmit, at most a segment.
    pub(crate) fn next_lost(&mut self) -> Option<ByteRange> {
        if self.lost == 0 {
            return None;
        }
        while let Some(front) = self.lost_retransmissions.front() {
            let range = ByteRange::new(front.start.max(self.snd_una), front.end);
            if !range.is_empty() && !self.sacked.covers(range) {
                return Some(range);
            }
            self.lost_retransmissions.pop_front();
        }
        let mut start = self.cursor.max(self.snd_una);
        let found = loop {
            if start >= self.lost_below {
                break None;
            }
            let mut end = self.lost_below.min(start + self.mss);
            let mut jump = None;
            for range in [
                self.sacked.at_or_after(start),
                self.retransmitted.at_or_after(start),
            ]
            .into_iter()
            .flatten()
            {
                if range.start <= start {
                    jump = Some(range.end);
                } else {
                    end = end.min(range.start);
                }
            }
            match jump {
                Some(to) => start = to,
                None => break Some(ByteRange::new(start, end)),
            }
        };
        self.cursor = start;
        found
    }

    /// Lost bytes are retransmitted.
    pub(crate) fn on_retransmit(&mut self, range: ByteRange, now: Instant) {
        if let Some(front) = self.lost_retransmissions.front()
            && front.end == range.end
        {
            self.lost_retransmissions.pop_front();
        } else {
            self.cursor = range.end;
        }
        self.retransmitted.insert(range);
        self.retransmissions
            .push_back(Retransmission { range, sent: now });
    }

    /// The retransmission timer expired: the first segment is lost, and all that was sent by then
    /// and not SACKed.
    pub(crate) fn on_rto(&mut self, by: Instant) {
        let at = self.first_sent.partition_point(|run| run.sent <= by);
        let late = at.checked_sub(1).map_or(0, |last| self.first_sent[last].end);
        let head = self.snd_nxt.min(self.snd_una + self.mss);
        self.duplicates = 0;
        let limit = self.lost_below.max(head).max(late);
        self.note_loss(ByteRange::new(self.lost_below, limit));
        self.lost_below = limit;
        self.cursor = self.snd_una;
        self.retransmitted.trim(head);
        let in_network = &mut self.retransmitted;
        self.retransmissions.retain(|Retransmission { range, sent }| {
            let late = *sent <= by || range.start < head;
            if late {
                in_network.remove(*range);
                if let Some(losses) = &mut self.losses {
                    losses.push(*range);
                }
            }
            !late
        });
        self.lost_retransmissions.clear();
        self.count_lost();
    }
}
