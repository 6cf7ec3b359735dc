//! What one path does for its watch with each frame.

use super::segment::{ACK, FIN, RST, SYN, Segment};
use super::spin::{SpinSeen, Spinning};
use super::tally::{Concerned, Passed, Sample, Side, Tally, host};
use super::{APART, BY_STAMP, Direction, ExperienceWatch, FLOWS, HANDSHAKE, PATIENCE, Place, TICK};
use crate::window_clamp::FrameSize;
use engine::header::{FlowKey, Headers};
use engine::packet::ClassId;
use engine::units::{Duration, Instant};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Segments of a connection that are counted before they are handed on, unless one is watched.
const MOST: u32 = 256;

/// What this path alone knows of the connection in a place.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    tag: u32,
    /// The number behind the last byte that has passed.
    end: u32,
    /// The last timestamp that has passed.
    stamp: u32,
    passed: Passed,
}

/// A path's part of a watch.
#[derive(Debug)]
pub struct ExperienceObserver {
    watch: Arc<ExperienceWatch>,
    direction: Direction,
    seen: Box<[Seen]>,
    spins: Box<[SpinSeen]>,
    /// When it began to watch the last segment, in ticks.
    began: u32,
    /// Classes that are to be forgotten as soon as the lock is free: one, or all.
    stale: Vec<Option<ClassId>>,
}

impl Place {
    /// Whether no segment of this direction is watched, or none that is still waited for.
    #[inline]
    fn is_free(&self, of: Direction, now: u32) -> bool {
        let sent = &self.sent[of as usize];
        self.awaited[of as usize].load(Relaxed) == 0
            || now.wrapping_sub(sent.load(Relaxed) as u32) >= PATIENCE
    }
}

/// A frame at hand.
#[derive(Clone, Copy)]
struct Passing<'a> {
    key: &'a FlowKey,
    class: ClassId,
    /// When it arrived, in ticks.
    at: u32,
    tag: u32,
    place: usize,
}

impl<'a> Passing<'a> {
    fn new(at: Instant, key: &'a FlowKey, hash: u64, class: ClassId) -> Self {
        Self {
            key,
            class,
            at: (at.nanos() >> TICK) as u32,
            // Never 0, which is an empty place; the lowest bit is free.
            tag: ((hash >> 32) as u32 | 2) & !1,
            place: hash as usize % FLOWS,
        }
    }

    /// Who is concerned, seen from the interface that its path leads to.
    fn ahead(&self) -> Concerned {
        Concerned {
            class: Some(self.class),
            host: host(self.key, self.key.destination),
        }
    }

    /// The same from the interface that it comes from.
    fn behind(&self) -> Concerned {
        Concerned {
            class: None,
            host: host(self.key, self.key.source),
        }
    }
}

impl ExperienceObserver {
    /// The part of the path with this direction.
    pub fn new(watch: Arc<ExperienceWatch>, direction: Direction) -> Self {
        Self {
            watch,
            direction,
            seen: vec![Seen::default(); FLOWS].into(),
            spins: vec![SpinSeen::default(); FLOWS].into(),
            began: 0,
            stale: Vec::new(),
        }
    }

    /// A frame that arrived then, of this class. Most packets need no more than this: they answer
    /// nothing that is watched, carry new data, and another segment of their connection is watched.
    #[inline]
    pub fn see(&mut self, at: Instant, headers: &Headers, frame: &[u8], class: ClassId, size: FrameSize) {
        let Some(segment) = Segment::of(headers, frame) else {
            return self.see_datagram(at, headers, frame, class);
        };
        let hash = self.watch.hash(&headers.key, segment.ports);
        let passing = Passing::new(at, &headers.key, hash, class);
        let Passing { at: now, tag, .. } = passing;
        let place = &self.watch.places[passing.place];
        let answered = place.awaited[self.direction.other() as usize].load(Acquire);
        if (answered >> 32) as u32 & !1 == tag && segment.flags & ACK != 0 {
            self.answers(&passing, &segment, answered);
        }
        let seen = &mut self.seen[passing.place];
        let stamp = segment.stamps.map_or(0, |stamps| stamps.own);
        let is_new_stamp = segment.stamps.is_none() || stamp != seen.stamp;
        let end = segment.number.wrapping_add(segment.data);
        let plain = seen.tag == tag && segment.flags & (SYN | FIN | RST) == 0;
        if plain && segment.data == 0 {
            seen.stamp = stamp;
        } else if plain && end.wrapping_sub(seen.end).cast_signed() > 0 {
            (seen.stamp, seen.end) = (stamp, end);
            seen.passed.add(size);
            let due = is_new_stamp && now.wrapping_sub(self.began) >= APART;
            if seen.passed.segments >= MOST || due && place.is_free(self.direction, now) {
                self.begins(&passing, &segment, is_new_stamp);
            }
        } else {
            self.counts(&passing, &segment, is_new_stamp, size);
        }
    }

    /// The same of a frame that is no segment of TCP: a packet of QUIC whose bit turns over answers
    /// the other path's last such one, and is answered by its next.
    fn see_datagram(&mut self, at: Instant, headers: &Headers, frame: &[u8], class: ClassId) {
        let Some(spinning) = Spinning::of(headers, frame) else {
            return;
        };
        // Another hash than that of a connection of TCP between the same ports.
        let hash = !self.watch.hash(&headers.key, spinning.ports);
        let passing = Passing::new(at, &headers.key, hash, class);
        let Passing { at: now, tag, .. } = passing;
        let seen = &mut self.spins[passing.place];
        let Some(pause) = seen.pass(tag, now, spinning.value) else {
            return;
        };
        let place = &self.watch.places[passing.place];
        let (here, other) = (self.direction, self.direction.other() as usize);
        let is_ours = |awaited: u64| (awaited >> 32) as u32 == tag;
        let awaited = place.awaited[other].load(Acquire);
        let answers = is_ours(awaited) && spinning.answers(awaited & 1 != 0);
        let own = is_ours(place.awaited[here as usize].load(Relaxed));
        let is_free = place.is_free(here, now);
        let unanswered = own && !is_free;
        let spins = seen.edge(answers && !unanswered);
        let sent = place.sent[other].load(Relaxed);
        let took = now.wrapping_sub(sent as u32);
        let mine = answers
            && place.awaited[other]
                .compare_exchange(awaited, 0, AcqRel, Relaxed)
                .is_ok();
        if mine && spins && pause <= took / 2 {
            self.sample(&passing, place, sent);
        }
        if !own && !is_free {
            return;
        }
        // What came out of turn is no edge that could be answered.
        let next = u64::from(tag) << 32 | u64::from(spinning.value);
        place.sent[here as usize].store(u64::from(class.0) << 32 | u64::from(now), Relaxed);
        place.awaited[here as usize].store(if unanswered { 0 } else { next }, Release);
    }

    /// Whether it answers the segment that the other path watches.
    #[cold]
    fn answers(&self, passing: &Passing<'_>, segment: &Segment, awaited: u64) {
        let value = awaited as u32;
        let newer = match (awaited & BY_STAMP != 0, segment.stamps) {
            (true, Some(stamps)) => stamps.echo.wrapping_sub(value).cast_signed(),
            (true, None) => return,
            // What acknowledges more answers it as well.
            (false, _) => segment.acknowledged.wrapping_sub(value).cast_signed() >> 31,
        };
        if newer < 0 {
            return;
        }
        let other = self.direction.other() as usize;
        let place = &self.watch.places[passing.place];
        let sent = place.sent[other].load(Relaxed);
        let mine = place.awaited[other].compare_exchange(awaited, 0, AcqRel, Relaxed);
        // The echo of a later timestamp: that of this one was lost.
        if mine.is_ok() && newer == 0 {
            self.sample(passing, place, sent);
        }
    }

    /// Writes down the round trip of a segment of the other path that was sent then.
    #[cold]
    fn sample(&self, passing: &Passing<'_>, place: &Place, sent: u64) {
        let (here, other) = (self.direction, self.direction.other());
        let ticks = passing.at.wrapping_sub(sent as u32);
        // The other worker may have read its clock later.
        if ticks > PATIENCE {
            return;
        }
        let of_this = u64::from(passing.tag) << 32;
        place.last[other as usize].store(of_this | u64::from(ticks.max(1)), Relaxed);
        let back = place.last[here as usize].load(Relaxed);
        let time = |ticks: u64| Duration::from_nanos(ticks << TICK);
        let both = u64::from(ticks) + (back & u64::from(u32::MAX));
        let sample = Sample {
            time: time(ticks.into()),
            whole: (back >> 32 == of_this >> 32).then(|| time(both)),
            handshake: sent & HANDSHAKE != 0,
        };
        let Ok(mut tallies) = self.watch.tallies.try_lock() else {
            self.watch.given_up.fetch_add(1, Relaxed);
            return;
        };
        let watched_class = ClassId((sent >> 32) as u32 & !(1 << 31));
        let to_responder = Concerned {
            class: Some(watched_class),
            ..passing.behind()
        };
        let mut write = |of: Direction, concerned, side| {
            if let Some(tally) = &mut tallies[of as usize] {
                tally.sample(concerned, passing.at, sample, side);
            }
        };
        write(other, to_responder, Side::Ahead);
        write(here, passing.ahead(), Side::Behind);
    }

    /// Counts what begins or ends a connection, what is repeated, and the first that is seen of
    /// one.
    #[cold]
    fn counts(&mut self, passing: &Passing<'_>, segment: &Segment, is_new_stamp: bool, size: FrameSize) {
        let is_first = segment.flags & SYN != 0;
        let numbers = segment.data + u32::from(is_first);
        let ends = segment.flags & (FIN | RST) != 0;
        let seen = &mut self.seen[passing.place];
        if seen.tag != passing.tag {
            if numbers == 0 {
                return;
            }
            *seen = Seen {
                tag: passing.tag,
                end: segment.number,
                ..Seen::default()
            };
        }
        seen.stamp = segment.stamps.map_or(0, |stamps| stamps.own);
        let end = segment.number.wrapping_add(numbers);
        let beyond = end.wrapping_sub(seen.end).cast_signed() > 0;
        if beyond {
            seen.end = end;
        }
        // A probe of a byte (RFC 9293, section 3.8.4) repeats nothing that was lost.
        let repeats = !beyond && (segment.data > 1 || is_first);
        if segment.data > 0 {
            seen.passed.add(size);
            seen.passed.repeated += u32::from(repeats) * size.segments as u32;
        }
        if repeats {
            self.unwatch(passing, segment);
        }
        let due = passing.at.wrapping_sub(self.began) >= APART;
        if beyond && (is_first || due) {
            self.begins(passing, segment, is_new_stamp);
        }
        if ends {
            self.hand_on(passing);
        }
    }

    /// What is repeated may answer for the first time or for the second: it is not watched any
    /// longer, unless its timestamp tells.
    fn unwatch(&self, passing: &Passing<'_>, segment: &Segment) {
        let awaited = &self.watch.places[passing.place].awaited[self.direction as usize];
        let was = awaited.load(Relaxed);
        let (tag, end) = ((was >> 32) as u32, was as u32);
        let before = segment.number.wrapping_sub(end).cast_signed() < 0;
        if tag & !1 == passing.tag && was & BY_STAMP == 0 && before {
            // Who changed it meanwhile had the answer.
            let _ = awaited.compare_exchange(was, 0, AcqRel, Relaxed);
        }
    }

    /// Begins to watch this segment of new data, unless another is watched there, and hands on what
    /// has passed so far.
    #[cold]
    fn begins(&mut self, passing: &Passing<'_>, segment: &Segment, is_new_stamp: bool) {
        let place = &self.watch.places[passing.place];
        let here = self.direction as usize;
        let (awaited, sent) = (&place.awaited[here], &place.sent[here]);
        let first = segment.flags & SYN != 0;
        if is_new_stamp && place.is_free(self.direction, passing.at) {
            if first && segment.flags & ACK == 0 {
                place.last.iter().for_each(|last| last.store(0, Relaxed));
            }
            let end = segment.number.wrapping_add(segment.data + u32::from(first));
            let by = segment.stamps.filter(|_| !first);
            let value = by.map_or(u64::from(end), |stamps| u64::from(stamps.own) | BY_STAMP);
            let handshake = if first { HANDSHAKE } else { 0 };
            let class = u64::from(passing.class.0) << 32;
            sent.store(handshake | class | u64::from(passing.at), Relaxed);
            awaited.store(u64::from(passing.tag) << 32 | value, Release);
            if !first {
                self.began = passing.at;
            }
        }
        self.hand_on(passing);
    }

    /// Hands on what has passed of a connection, if nobody holds the lock.
    fn hand_on(&mut self, passing: &Passing<'_>) {
        if self.seen[passing.place].passed.segments == 0 {
            return;
        }
        let Ok(mut tallies) = self.watch.tallies.try_lock() else {
            return;
        };
        let passed = std::mem::take(&mut self.seen[passing.place].passed);
        let here = self.direction as usize;
        if let Some(tally) = &mut tallies[here] {
            self.stale.drain(..).for_each(|class| tally.forget(class));
            tally.passed(passing.ahead(), passing.at, passed);
        }
        let other = self.direction.other() as usize;
        if let Some(tally) = &mut tallies[other] {
            tally.passed(passing.behind(), passing.at, passed);
        }
    }

    /// Forgets the counts of this class, or of all: their numbers are others' now.
    pub(crate) fn forget(&mut self, class: Option<ClassId>) {
        let forgotten = match self.watch.tallies.try_lock() {
            Ok(mut tallies) => {
                let own = &mut tallies[self.direction as usize];
                own.iter_mut().for_each(|tally: &mut Tally| tally.forget(class));
                true
            }
            Err(_) => false,
        };
        if !forgotten && !self.stale.contains(&None) {
            self.stale.push(class);
        }
    }
}
