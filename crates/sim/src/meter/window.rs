//! What passed a link within a window of time, per class and, if configured, per stream.
//!
//! A packet counts in the window in which its first bit goes onto the wire, its bytes in the
//! windows in which their bits do, a drop or a mark in the window in which it happens.

use super::backlog::{Backlog, BacklogLevels};
use super::records::{Departure, DropRecord};
use engine::discipline::Reason;
use engine::queue::Count;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::FineDelays;
use measure::series::ByteSeries;

/// What passed of one class or of one stream. An inner class has no counts of its own except its
/// backlog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterTally {
    /// Frames whose first bit went onto the wire.
    pub sent: Count,
    /// Bytes of frames over time, by the time of their bits; a window has one bin.
    pub series: ByteSeries,
    /// Queueing delays: from arrival at the queue to the first bit on the wire.
    pub queueing_delays: FineDelays,
    /// Node delays: from arrival at the queue to the last bit on the wire.
    pub node_delays: FineDelays,
    /// Frames dropped.
    pub dropped: Count,
    /// Packets dropped, by the number of their [`Reason`].
    pub drops_by_reason: [u64; Reason::ALL.len()],
    /// Packets marked.
    pub marked: u64,
    /// The backlog over time: of classes, inner ones included, and not of streams.
    pub backlog: BacklogLevels,
}

impl MeterTally {
    fn new(series: ByteSeries) -> Self {
        Self {
            sent: Count::default(),
            series,
            queueing_delays: FineDelays::default(),
            node_delays: FineDelays::default(),
            dropped: Count::default(),
            drops_by_reason: [0; Reason::ALL.len()],
            marked: 0,
            backlog: BacklogLevels::default(),
        }
    }

    /// Packets dropped for this reason.
    pub fn dropped_for(&self, why: Reason) -> u64 {
        self.drops_by_reason[why as usize]
    }

    /// A packet departs; `begun`: in the window of this tally.
    fn departed(&mut self, packet: &Departure, begun: bool) {
        self.series
            .spread(packet.start, packet.finish, packet.frame.get());
        if begun {
            self.sent += packet.frame;
            self.queueing_delays.record(packet.start.since(packet.arrived));
            self.node_delays.record(packet.finish.since(packet.arrived));
        }
    }

    /// Adds another with the same bins, but for the backlog: percentiles do not add up.
    fn merge(&mut self, other: &Self) {
        let counts = [(&mut self.sent, other.sent), (&mut self.dropped, other.dropped)];
        for (mine, theirs) in counts {
            mine.packets += theirs.packets;
            mine.bytes += theirs.bytes;
        }
        self.series.merge(&other.series);
        self.queueing_delays.merge(&other.queueing_delays);
        self.node_delays.merge(&other.node_delays);
        self.marked += other.marked;
        let reasons = self.drops_by_reason.iter_mut().zip(other.drops_by_reason);
        reasons.for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// What passed from one time to before another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterWindow {
    pub(super) from: Instant,
    pub(super) to: Instant,
    empty: ByteSeries,
    /// Of all classes together, if there are several.
    backlog: BacklogLevels,
    classes: Vec<MeterTally>,
    /// Empty if streams are not tallied.
    streams: Vec<MeterTally>,
}

impl MeterWindow {
    pub(super) fn new(from: Instant, to: Instant, bin: Option<Duration>, classes: usize) -> Self {
        let empty = match bin {
            Some(bin) => ByteSeries::new(from, bin),
            None => ByteSeries::window(from, to),
        };
        Self {
            from,
            to,
            backlog: BacklogLevels::default(),
            classes: vec![MeterTally::new(empty.clone()); classes],
            streams: Vec::new(),
            empty,
        }
    }

    /// One more class, which nothing has passed.
    pub(super) fn add_class(&mut self) {
        if let [only] = self.classes.as_slice() {
            self.backlog = only.backlog.clone();
        }
        self.classes.push(MeterTally::new(self.empty.clone()));
    }

    /// When it begins.
    pub fn from(&self) -> Instant {
        self.from
    }

    /// When it ends.
    pub fn to(&self) -> Instant {
        self.to
    }

    /// Each class, by its row; without a policy there is one.
    pub fn classes(&self) -> &[MeterTally] {
        &self.classes
    }

    /// Each stream seen, by its number, if streams are tallied. The initiator's stream has twice
    /// the number of its flow, the responder's one more.
    pub fn streams(&self) -> &[MeterTally] {
        &self.streams
    }

    /// All classes together.
    pub fn total(&self) -> MeterTally {
        let mut total = MeterTally::new(self.empty.clone());
        self.classes.iter().for_each(|class| total.merge(class));
        total.backlog = self.backlog().clone();
        total
    }

    /// The backlog of all classes together.
    pub fn backlog(&self) -> &BacklogLevels {
        match self.classes.as_slice() {
            [only] => &only.backlog,
            _ => &self.backlog,
        }
    }

    /// The mean rate of one of its tallies. The window must have an end.
    pub fn rate(&self, tally: &MeterTally) -> Bandwidth {
        Bandwidth::of(Bytes::new(tally.series.total()), self.to.since(self.from))
    }

    fn contains(&self, at: Instant) -> bool {
        self.from <= at && at < self.to
    }

    /// Counts in the tallies of a class and of its stream.
    #[inline]
    fn tally(&mut self, class: usize, stream: Option<usize>, count: impl Fn(&mut MeterTally)) {
        self.classes.get_mut(class).into_iter().for_each(&count);
        if let Some(stream) = stream {
            if self.streams.len() <= stream {
                let empty = &self.empty;
                self.streams
                    .resize_with(stream + 1, || MeterTally::new(empty.clone()));
            }
            count(&mut self.streams[stream]);
        }
    }

    pub(super) fn departed(&mut self, packet: &Departure, stream: Option<usize>) {
        let begun = self.contains(packet.start);
        self.tally(packet.class.0 as usize, stream, |tally| {
            tally.departed(packet, begun);
        });
    }

    pub(super) fn dropped(&mut self, at: Instant, record: &DropRecord, stream: Option<usize>) {
        if self.contains(at) {
            self.tally(record.class.0 as usize, stream, |tally| {
                tally.dropped += record.frame;
                tally.drops_by_reason[record.why as usize] += 1;
            });
        }
    }

    pub(super) fn marked(&mut self, at: Instant, class: usize, stream: Option<usize>) {
        if self.contains(at) {
            self.tally(class, stream, |tally| tally.marked += 1);
        }
    }

    /// Settles what is known of backlogs, so that they can be read.
    pub(super) fn settle(&mut self) {
        self.backlog.settle();
        self.classes.iter_mut().for_each(|tally| tally.backlog.settle());
    }

    /// The part of the time from `since` to `now` that lies in the window.
    fn part(&self, since: Instant, now: Instant) -> Duration {
        now.min(self.to).since(since.max(self.from))
    }

    pub(super) fn record_all(&mut self, backlog: Backlog, now: Instant) {
        let part = self.part(backlog.since, now);
        self.backlog.record(backlog.count, part);
    }

    pub(super) fn record_class(&mut self, class: usize, backlog: Backlog, now: Instant) {
        let part = self.part(backlog.since, now);
        if let Some(tally) = self.classes.get_mut(class) {
            tally.backlog.record(backlog.count, part);
        }
    }
}
