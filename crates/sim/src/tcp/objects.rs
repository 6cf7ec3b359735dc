//! A client that asks for objects over one connection, several at a time, and how a server sends
//! them by TCP: in turn, a segment each, as HTTP/2 does (RFC 9113). They share one order of bytes:
//! what a lost segment had, all of them wait for. The streams of QUIC do not.
//!
//! As with [`responses`](super::responses), requests are not sent: a next one begins when its
//! client would be heard that asks as soon as it has an object.

use super::application::{Application, StreamProgress, Written};
use crate::agent::Others;
use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant};
use measure::delay::FineDelays;
use measure::distribution::Distribution;
use std::collections::VecDeque;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectModel {
    /// The bytes of each.
    pub size: Distribution,
    /// The nanoseconds from an object's last byte to the request for the one in its place.
    pub pause: Distribution,
    /// How many there are.
    pub objects: u64,
    /// How many are asked for at a time.
    pub at_once: u32,
}

/// The client.
#[derive(Clone, Debug)]
pub struct ObjectClient {
    /// From each request until the last byte of its object is acknowledged, with all that is
    /// delivered before it.
    pub times: FineDelays,
    model: ObjectModel,
    of_sizes: Rng,
    of_pauses: Rng,
    left: u64,
    outstanding: u32,
    /// When requests are due in the places that are free.
    due: Vec<Instant>,
}

impl ObjectClient {
    /// It asks for as many as it may from the start.
    pub fn new(model: &ObjectModel, seed: Seed) -> Self {
        Self {
            times: FineDelays::default(),
            model: model.clone(),
            of_sizes: seed.stream(),
            of_pauses: seed.fork("pauses").stream(),
            left: model.objects,
            outstanding: 0,
            due: vec![Instant::START; model.at_once.max(1) as usize],
        }
    }

    /// The bytes of an object that it asks for now, if it does.
    pub fn ask(&mut self, now: Instant) -> Option<u64> {
        let place = self.due.iter().position(|due| *due <= now)?;
        if self.left == 0 {
            return None;
        }
        self.due.swap_remove(place);
        self.left -= 1;
        self.outstanding += 1;
        Some(self.model.size.draw(&mut self.of_sizes).max(1))
    }

    /// When it will ask for the next.
    pub fn asks_next(&self) -> Instant {
        let next = self.due.iter().min().filter(|_| self.left > 0);
        next.copied().unwrap_or(Instant::NEVER)
    }

    /// An object has arrived that was asked for then.
    pub fn arrived(&mut self, now: Instant, asked: Instant) {
        self.outstanding -= 1;
        self.times.record(now.since(asked));
        let pause = Duration::from_nanos(self.model.pause.draw(&mut self.of_pauses));
        self.due.push(now + pause);
    }

    /// Whether all objects have arrived.
    pub fn is_over(&self) -> bool {
        self.left == 0 && self.outstanding == 0
    }
}

/// An object of which bytes are left to be written.
#[derive(Clone, Copy, Debug)]
struct Unwritten {
    asked: Instant,
    left: u64,
}

/// Writes the objects into a TCP connection.
#[derive(Clone, Debug)]
pub struct ObjectWriter {
    client: ObjectClient,
    /// The bytes of a turn.
    turn: u64,
    /// In the order of their turns.
    unwritten: VecDeque<Unwritten>,
    /// The objects that are written: where they end in the stream, and when they were asked for.
    written: VecDeque<(u64, Instant)>,
    bytes: u64,
}

impl ObjectWriter {
    /// Of these objects, with so many bytes in a turn: those of a full segment.
    pub fn new(model: &ObjectModel, turn: u64, seed: Seed) -> Self {
        Self {
            client: ObjectClient::new(model, seed),
            turn: turn.max(1),
            unwritten: VecDeque::new(),
            written: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The client.
    pub fn client(&self) -> &ObjectClient {
        &self.client
    }
}

impl Application for ObjectWriter {
    fn write(&mut self, progress: &StreamProgress) -> Written {
        let now = progress.now;
        while let Some(&(end, asked)) = self.written.front()
            && end <= progress.acknowledged
        {
            self.written.pop_front();
            self.client.arrived(now, asked);
        }
        while let Some(left) = self.client.ask(now) {
            self.unwritten.push_back(Unwritten { asked: now, left });
        }
        let mut ends = false;
        let sent = progress.sent >= self.bytes;
        if let Some(mut object) = self.unwritten.pop_front_if(|_| sent) {
            let turn = object.left.min(self.turn);
            self.bytes += turn;
            object.left -= turn;
            ends = object.left == 0;
            match ends {
                true => self.written.push_back((self.bytes, object.asked)),
                false => self.unwritten.push_back(object),
            }
        }
        Written {
            bytes: self.bytes,
            closed: self.client.is_over(),
            answered: ends,
            ask_again: self.client.asks_next(),
            wakes: Others::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    fn progress(now: Instant, sent: u64, acknowledged: u64) -> StreamProgress {
        StreamProgress {
            now,
            sent,
            acknowledged,
        }
    }

    #[test]
    fn objects_take_turns_and_end_where_their_last_byte_is_acknowledged() {
        let model = ObjectModel {
            size: Distribution::fixed(1_500),
            pause: Distribution::fixed(0),
            objects: 2,
            at_once: 2,
        };
        let mut writer = ObjectWriter::new(&model, 1_000, Seed(1));
        let ends: Vec<u64> = (0..4)
            .map(|_| {
                let sent = writer.bytes;
                writer.write(&progress(at(0), sent, 0)).bytes
            })
            .collect();
        assert_eq!(ends, [1_000, 2_000, 2_500, 3_000]);
        writer.write(&progress(at(40), 3_000, 2_499));
        assert_eq!(writer.client().times.count(), 0);
        let written = writer.write(&progress(at(50), 3_000, 2_500));
        assert!(!written.closed && writer.client().times.count() == 1);
        let written = writer.write(&progress(at(60), 3_000, 3_000));
        assert!(written.closed && writer.client().times.longest() >= Duration::from_millis(59));
    }

    #[test]
    fn a_client_asks_again_after_its_pause_while_others_are_outstanding() {
        let model = ObjectModel {
            size: Distribution::fixed(10),
            pause: Distribution::fixed(5_000_000),
            objects: 3,
            at_once: 2,
        };
        let mut client = ObjectClient::new(&model, Seed(1));
        assert_eq!(
            (client.ask(at(0)), client.ask(at(0)), client.ask(at(0))),
            (Some(10), Some(10), None)
        );
        assert_eq!(client.asks_next(), Instant::NEVER);
        client.arrived(at(20), at(0));
        assert_eq!((client.ask(at(24)), client.asks_next()), (None, at(25)));
        assert_eq!(client.ask(at(25)), Some(10));
        client.arrived(at(30), at(0));
        assert!(!client.is_over());
        client.arrived(at(40), at(25));
        assert!(client.is_over() && client.asks_next() == Instant::NEVER);
    }
}
