//! A player of adaptive video: segments of one duration, each at a bitrate of a ladder that a rule
//! chooses; a buffer of what is not yet played; a stall when that is empty.
//!
//! Playback begins, and goes on after a stall, when enough is buffered. The next segment is asked
//! for when there is room for it. A segment has as many bytes as its bitrate says. The player is at
//! the receiver, and hears of the last byte of a segment when the sender hears its ACK: with a
//! handshake from the sender, that is when a player that opened the connection itself would have
//! it.

use super::responses::{ResponseClient, Wish};
use crate::agent::Others;
use engine::choices;
use engine::units::{Bandwidth, Duration, Instant};
use std::collections::VecDeque;

choices! {
    /// How the bitrate of the next segment is chosen.
    pub enum Adaptation {
        /// By the level of the buffer alone: BBA-0, algorithm 1 of Huang et al., "A buffer-based
        /// approach to rate adaptation" (SIGCOMM 2014).
        BufferBased = "bba-0",
        /// The highest below the harmonic mean of the throughput of the last five segments: RB of
        /// Yin et al., "A control-theoretic approach for dynamic adaptive video streaming over
        /// HTTP" (SIGCOMM 2015).
        RateBased = "rate",
    }
}

/// The segments whose throughput counts, by Yin et al.
const REMEMBERED: usize = 5;

/// What is played, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VideoModel {
    /// The bitrates, ascending; at least one.
    pub ladder: Vec<Bandwidth>,
    /// The duration of each segment.
    pub segment: Duration,
    /// What is buffered at most.
    pub buffer: Duration,
    /// What must be buffered for playback to begin, and to go on after a stall: with a segment more
    /// it must fit the buffer.
    pub startup: Duration,
    /// The number of segments.
    pub segments: u64,
    /// The rule.
    pub adaptation: Adaptation,
    /// BBA-0: up to this level the lowest bitrate.
    pub reservoir: Duration,
    /// BBA-0: the highest from the reservoir and this on.
    pub cushion: Duration,
}

impl VideoModel {
    /// The bytes of a segment of this bitrate.
    fn bytes(&self, rate: Bandwidth) -> u64 {
        rate.bytes_in(self.segment).get()
    }

    /// BBA-0's next place in the ladder after `last`, with so much in the buffer.
    fn by_buffer(&self, last: usize, level: Duration) -> usize {
        let top = self.ladder.len() - 1;
        let (above, below) = ((last + 1).min(top), last.saturating_sub(1));
        if level <= self.reservoir {
            return 0;
        }
        if level >= self.reservoir + self.cushion {
            return top;
        }
        // f(B): a line from the lowest bitrate to the highest.
        let [least, most] = [self.ladder[0], self.ladder[top]].map(|rate| u128::from(rate.bits()));
        let part = u128::from((level - self.reservoir).nanos());
        let cushion = u128::from(self.cushion.nanos().max(1));
        let mapped = Bandwidth::bits_per_sec((least + (most - least) * part / cushion) as u64);
        if mapped >= self.ladder[above] {
            // max{R: R < f(B)}
            self.ladder
                .partition_point(|rate| *rate < mapped)
                .saturating_sub(1)
        } else if below < last && mapped <= self.ladder[below] {
            // min{R: R > f(B)}
            self.ladder.partition_point(|rate| *rate <= mapped).min(top)
        } else {
            last
        }
    }

    /// The highest place in the ladder below this throughput, or the lowest.
    fn below(&self, throughput: Bandwidth) -> usize {
        self.ladder
            .partition_point(|rate| *rate < throughput)
            .saturating_sub(1)
    }
}

/// What has become of playing: sums, so that two readings tell what was between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Playback {
    /// The players.
    pub players: u64,
    /// Those of them whose playback has begun.
    pub begun: u64,
    /// Segments that have arrived.
    pub segments: u64,
    /// The bits per second of each of these, summed.
    pub bitrates: u128,
    /// Segments of another bitrate than the one before.
    pub switches: u64,
    /// How often playback stopped for want of segments, the start apart.
    pub stalls: u64,
    /// For how long, in all.
    pub stalled: Duration,
    /// From the beginning until playback began; while it has not, until now: the longest.
    pub startup: Duration,
}

impl Playback {
    /// The sums with those of another player; the longest start, and whether all have begun.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            players: self.players + other.players,
            begun: self.begun + other.begun,
            segments: self.segments + other.segments,
            bitrates: self.bitrates + other.bitrates,
            switches: self.switches + other.switches,
            stalls: self.stalls + other.stalls,
            stalled: self.stalled + other.stalled,
            startup: self.startup.max(other.startup),
        }
    }

    /// What has been added since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            segments: self.segments - earlier.segments,
            bitrates: self.bitrates - earlier.bitrates,
            switches: self.switches - earlier.switches,
            stalls: self.stalls - earlier.stalls,
            stalled: self.stalled - earlier.stalled,
            ..*self
        }
    }

    /// The mean bitrate of the segments; nothing without any.
    pub fn bitrate(&self) -> Bandwidth {
        let mean = self.bitrates / u128::from(self.segments.max(1));
        Bandwidth::bits_per_sec(u64::try_from(mean).unwrap_or(u64::MAX))
    }
}

/// Whether it plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Playing {
    /// It has not begun.
    NotYet,
    Yes,
    /// It stopped at this time, with segments to come.
    Stalled(Instant),
    /// All has been played.
    Done,
}

/// The player.
#[derive(Clone, Debug)]
pub struct VideoPlayer {
    model: VideoModel,
    /// When it was switched on.
    begin: Instant,
    /// Up to when what follows holds.
    now: Instant,
    /// What is buffered.
    level: Duration,
    playing: Playing,
    /// The place in the ladder of the segment that is asked for, or the last one.
    chosen: usize,
    /// When the outstanding segment was asked for.
    asked: Instant,
    /// Nanoseconds that a bit of each of the last segments took, with 32 bits of fraction.
    took: VecDeque<u128>,
    counts: Playback,
}

impl VideoPlayer {
    /// A player that is switched on at this time.
    pub fn new(model: VideoModel, begin: Instant) -> Self {
        Self {
            model,
            begin,
            now: begin,
            level: Duration::ZERO,
            playing: Playing::NotYet,
            chosen: 0,
            asked: begin,
            took: VecDeque::new(),
            counts: Playback {
                players: 1,
                ..Playback::default()
            },
        }
    }

    /// What has become of playing by now.
    pub fn playback(&self, now: Instant) -> Playback {
        let mut at = Self {
            took: VecDeque::new(),
            ..self.clone()
        };
        at.advance(now);
        let mut counts = at.counts;
        match at.playing {
            Playing::NotYet => counts.startup = now.since(self.begin),
            Playing::Stalled(since) => counts.stalled += now.since(since),
            Playing::Yes | Playing::Done => {}
        }
        counts
    }

    /// Plays up to this time.
    fn advance(&mut self, now: Instant) {
        let passed = now.since(self.now);
        if self.playing == Playing::Yes {
            if passed > self.level {
                self.playing = if self.counts.segments == self.model.segments {
                    Playing::Done
                } else {
                    self.counts.stalls += 1;
                    Playing::Stalled(self.now + self.level)
                };
            }
            self.level -= passed;
        }
        self.now = self.now.max(now);
    }

    /// Whether enough is buffered for playback.
    fn has_enough(&self) -> bool {
        self.level >= self.model.startup || self.counts.segments == self.model.segments
    }

    fn choose(&self) -> usize {
        if self.took.is_empty() {
            // Nothing is known, and nothing is buffered.
            return 0;
        }
        match self.model.adaptation {
            Adaptation::BufferBased => self.model.by_buffer(self.chosen, self.level),
            Adaptation::RateBased => {
                // The harmonic mean of throughputs is over the mean of what a bit took.
                let sum: u128 = self.took.iter().sum();
                let mean = ((self.took.len() as u128 * 1_000_000_000) << 32) / sum.max(1);
                let mean = u64::try_from(mean).unwrap_or(u64::MAX);
                self.model.below(Bandwidth::bits_per_sec(mean))
            }
        }
    }
}

impl ResponseClient for VideoPlayer {
    fn wish(&mut self, now: Instant) -> Wish {
        self.advance(now);
        if self.counts.segments == self.model.segments {
            return Wish::Nothing;
        }
        let room = self.model.buffer - self.model.segment;
        if self.level > room {
            return Wish::At(now + (self.level - room));
        }
        let last = self.chosen;
        self.chosen = self.choose();
        if self.counts.segments > 0 && self.chosen != last {
            self.counts.switches += 1;
        }
        self.asked = now;
        Wish::Bytes(self.model.bytes(self.model.ladder[self.chosen]))
    }

    fn answered(&mut self, now: Instant) -> Others {
        self.advance(now);
        let rate = self.model.ladder[self.chosen];
        let bits = u128::from(self.model.bytes(rate)) * 8;
        let took = u128::from(now.since(self.asked).nanos());
        self.took.push_back((took << 32) / bits.max(1));
        if self.took.len() > REMEMBERED {
            self.took.pop_front();
        }
        self.counts.segments += 1;
        self.counts.bitrates += u128::from(rate.bits());
        self.level += self.model.segment;
        if self.has_enough() {
            match self.playing {
                Playing::NotYet => {
                    self.counts.startup = now.since(self.begin);
                    self.counts.begun = 1;
                    self.playing = Playing::Yes;
                }
                Playing::Stalled(since) => {
                    self.counts.stalled += now.since(since);
                    self.playing = Playing::Yes;
                }
                Playing::Yes | Playing::Done => {}
            }
        }
        Others::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn at(n: u64) -> Instant {
        Instant::START + secs(n)
    }

    /// Bitrates of 1, 2, 4 and 8 Mbit/s in segments of 4 s, and Huang's buffer of 240 s.
    fn model(adaptation: Adaptation) -> VideoModel {
        VideoModel {
            ladder: [1, 2, 4, 8].map(Bandwidth::mbit).to_vec(),
            segment: secs(4),
            buffer: secs(240),
            startup: secs(8),
            segments: 100,
            adaptation,
            reservoir: secs(90),
            cushion: secs(126),
        }
    }

    #[test]
    fn the_buffer_chooses_as_algorithm_1_of_huang_says() {
        let model = model(Adaptation::BufferBased);
        // f(B) is 1 Mbit/s at 90 s, 2 at 108 s, 4 at 144 s, 8 at 216 s.
        for (last, level, next) in [
            (3, 90, 0),
            (0, 91, 0),
            // f ≥ Rate+: the highest bitrate below f.
            (0, 107, 0),
            (0, 109, 1),
            (0, 150, 2),
            (1, 143, 1),
            (1, 145, 2),
            (2, 215, 2),
            (2, 216, 3),
            // f ≤ Rate-: the lowest above f.
            (3, 145, 3),
            (3, 143, 2),
            (3, 107, 1),
            (2, 109, 2),
            (2, 107, 1),
            // In between it stays.
            (2, 120, 2),
            (1, 120, 1),
        ] {
            assert_eq!(model.by_buffer(last, secs(level)), next, "{last} at {level} s");
        }
        let one = VideoModel {
            ladder: vec![Bandwidth::mbit(3)],
            ..model
        };
        assert!(
            [0, 91, 150, 230]
                .iter()
                .all(|level| one.by_buffer(0, secs(*level)) == 0)
        );
    }

    /// Asks for a segment at one time, and gets it at another; returns its bytes.
    fn segment(player: &mut VideoPlayer, asked: u64, got: u64) -> u64 {
        let Wish::Bytes(bytes) = player.wish(at(asked)) else {
            panic!("no wish at {asked} s");
        };
        player.answered(at(got));
        bytes
    }

    #[test]
    fn stalls_and_the_start_are_counted_as_they_are_by_hand() {
        let mut player = VideoPlayer::new(model(Adaptation::BufferBased), at(1));
        assert_eq!(player.playback(at(3)).startup, secs(2));
        // Two segments by 5 s: playback begins with 8 s, and is empty at 13 s.
        assert_eq!(segment(&mut player, 1, 3), 500_000);
        segment(&mut player, 3, 5);
        assert_eq!(
            (player.playback(at(13)).stalls, player.playback(at(99)).startup),
            (0, secs(4))
        );
        let now = player.playback(at(15));
        assert_eq!((now.stalls, now.stalled), (1, secs(2)));
        // One segment is not enough to go on; the second, at 20 s, is.
        segment(&mut player, 5, 16);
        segment(&mut player, 16, 20);
        let now = player.playback(at(25));
        assert_eq!((now.stalls, now.stalled, now.segments), (1, secs(7), 4));
        assert_eq!((now.switches, now.bitrates), (0, 4_000_000));
        // From 28 s on it stands still again.
        assert_eq!(player.playback(at(30)).stalled, secs(9));
    }

    #[test]
    fn the_rate_is_below_the_harmonic_mean_of_the_last_five_segments() {
        let mut player = VideoPlayer::new(model(Adaptation::RateBased), at(0));
        let mut bytes = |asked, got| segment(&mut player, asked, got);
        // 4 Mbit in 1 s: 2 Mbit/s are below.
        assert_eq!([bytes(0, 1), bytes(1, 7)], [500_000, 1_000_000]);
        // 8 Mbit in 6 s: 1/4 and 3/4 µs a bit, 2 Mbit/s in the mean (arithmetically 2.7), and 1 is
        // below.
        assert_eq!(bytes(7, 8), 500_000);
        // Five of 4 Mbit in half a second each: the first ones are forgotten.
        for at in 8..13 {
            bytes(at, at);
        }
        assert_eq!(bytes(13, 14), 4_000_000);
    }

    #[test]
    fn a_full_buffer_waits_and_the_end_is_no_stall() {
        let mut player = VideoPlayer::new(
            VideoModel {
                buffer: secs(16),
                segments: 5,
                ..model(Adaptation::RateBased)
            },
            at(0),
        );
        for _ in 0..4 {
            segment(&mut player, 1, 1);
        }
        // 16 s are buffered: at 5 s there is room for 4 s.
        assert_eq!(player.wish(at(1)), Wish::At(at(5)));
        segment(&mut player, 5, 6);
        assert_eq!(player.wish(at(6)), Wish::Nothing);
        let end = player.playback(at(60));
        assert_eq!((end.stalls, end.stalled, end.segments), (0, secs(0), 5));
    }
}
