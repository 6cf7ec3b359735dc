//! What passed a link within some time: of each class, and of each stream if somebody wants to know.
//!
//! A packet belongs to the window in which its first bit goes onto the wire, its bytes to the windows in which its bits
//! do, a loss or a mark to that in which it happens.

use super::levels::{Held, Levels};
use super::{Departure, Loss, Series};
use engine::discipline::Reason;
use engine::queue::Count;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::Delays;

/// What passed of one class, or of one stream. A class that has classes has nothing of its own but its queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Frames whose first bit went onto the wire.
    pub sent: Count,
    /// Bytes of frames over time, by the time of their bits; of a window, one bin.
    pub series: Series,
    /// From being offered until the first bit went onto the wire.
    pub waited: Delays,
    /// From being offered until the last bit had: the way through the node.
    pub passed: Delays,
    /// Frames lost.
    pub lost: Count,
    /// Packets lost, by [`Reason`]'s number.
    pub dropped: [u64; Reason::ALL.len()],
    /// Packets marked.
    pub marked: u64,
    /// What waited, over time. Of classes only, but of those that have classes, too.
    pub queue: Levels,
}

impl Tally {
    fn new(series: Series) -> Self {
        Self {
            sent: Count::default(),
            series,
            waited: Delays::default(),
            passed: Delays::default(),
            lost: Count::default(),
            dropped: [0; Reason::ALL.len()],
            marked: 0,
            queue: Levels::default(),
        }
    }

    /// Packets lost for this reason.
    pub fn dropped_for(&self, why: Reason) -> u64 {
        self.dropped[why as usize]
    }

    /// Adds another of the same bins, except for what waited: queues do not add up by percentiles.
    fn merge(&mut self, other: &Self) {
        let counts = [(&mut self.sent, other.sent), (&mut self.lost, other.lost)];
        for (mine, theirs) in counts {
            mine.packets += theirs.packets;
            mine.bytes += theirs.bytes;
        }
        self.series.merge(&other.series);
        self.waited.merge(&other.waited);
        self.passed.merge(&other.passed);
        self.marked += other.marked;
        let reasons = self.dropped.iter_mut().zip(other.dropped);
        reasons.for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// What passed from one time to before another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    pub(super) from: Instant,
    pub(super) to: Instant,
    empty: Series,
    /// Of all classes together, if there are several.
    queue: Levels,
    classes: Vec<Tally>,
    /// Empty if nobody asked for streams.
    streams: Vec<Tally>,
}

impl Window {
    pub(super) fn new([from, to]: [Instant; 2], bin: Option<Duration>, classes: usize) -> Self {
        let empty = match bin {
            Some(bin) => Series::new(from, bin),
            None => Series::window(from, to),
        };
        Self {
            from,
            to,
            queue: Levels::default(),
            classes: vec![Tally::new(empty.clone()); classes],
            streams: Vec::new(),
            empty,
        }
    }

    /// When it begins.
    pub fn from(&self) -> Instant {
        self.from
    }

    /// When it ends.
    pub fn to(&self) -> Instant {
        self.to
    }

    /// Each class, by its number; the only one, where no policy rules.
    pub fn classes(&self) -> &[Tally] {
        &self.classes
    }

    /// Each stream that has been seen, by its number (twice its flow's, one more for what the answerer sends), if
    /// streams are watched.
    pub fn streams(&self) -> &[Tally] {
        &self.streams
    }

    /// All classes together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::new(self.empty.clone());
        self.classes.iter().for_each(|class| total.merge(class));
        total.queue = self.queue().clone();
        total
    }

    /// What waited in all classes together.
    pub fn queue(&self) -> &Levels {
        match self.classes.as_slice() {
            [only] => &only.queue,
            _ => &self.queue,
        }
    }

    /// The mean rate of one of its tallies. It takes a window that ends.
    pub fn rate(&self, tally: &Tally) -> Bandwidth {
        Bandwidth::of(Bytes::new(tally.series.total()), self.to.since(self.from))
    }

    fn contains(&self, at: Instant) -> bool {
        self.from <= at && at < self.to
    }

    /// The tallies of a class and of its stream.
    fn tallies(&mut self, class: usize, stream: Option<usize>) -> impl Iterator<Item = &mut Tally> {
        if let Some(stream) = stream
            && self.streams.len() <= stream
        {
            let empty = &self.empty;
            self.streams.resize_with(stream + 1, || Tally::new(empty.clone()));
        }
        let stream = stream.and_then(|stream| self.streams.get_mut(stream));
        self.classes.get_mut(class).into_iter().chain(stream)
    }

    pub(super) fn departed(&mut self, packet: &Departure, stream: Option<usize>) {
        let begun = self.contains(packet.start);
        for tally in self.tallies(packet.class.0 as usize, stream) {
            tally
                .series
                .spread(packet.start, packet.finish, packet.frame.get());
            if begun {
                tally.sent += packet.frame;
                tally.waited.record(packet.start.since(packet.arrived));
                tally.passed.record(packet.finish.since(packet.arrived));
            }
        }
    }

    pub(super) fn dropped(&mut self, at: Instant, loss: &Loss, stream: Option<usize>) {
        if self.contains(at) {
            for tally in self.tallies(loss.class.0 as usize, stream) {
                tally.lost += loss.frame;
                tally.dropped[loss.why as usize] += 1;
            }
        }
    }

    pub(super) fn marked(&mut self, at: Instant, class: usize, stream: Option<usize>) {
        if self.contains(at) {
            self.tallies(class, stream).for_each(|tally| tally.marked += 1);
        }
    }

    /// The part of a time since `since` and until `now` that lies in the window.
    fn part(&self, since: Instant, now: Instant) -> Duration {
        now.min(self.to).since(since.max(self.from))
    }

    pub(super) fn held(&mut self, held: Held, now: Instant) {
        let part = self.part(held.since, now);
        self.queue.held(held.count, part);
    }

    pub(super) fn class_held(&mut self, class: usize, held: Held, now: Instant) {
        let part = self.part(held.since, now);
        if let Some(tally) = self.classes.get_mut(class) {
            tally.queue.held(held.count, part);
        }
    }
}
