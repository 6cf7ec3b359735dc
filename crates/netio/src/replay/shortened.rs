//! A tape in a short form: what the queue needs to do again what it did, without the headers.
//!
//! Nine tenths of a tape are headers, digests, and what an arrival has in common with the one
//! before it of the same flow. Without these a packet takes some ten bytes, so that a recorder can
//! keep a long time in which its queue was never empty, and nothing could be forgotten.
//!
//! An event is a byte whose two lowest bits say which, and its fields; numbers are in groups of
//! seven bits, the lowest first. Times are differences from the event before. Class, flow and marks
//! of an arrival are a place in a table that both sides fill alike, or are written out. What left
//! is compared once a [`Shortener::shorten`], by a digest of digests. All other events are as they
//! are on a tape.

use super::event::{
    Asked, BrokenTape, Digest, Events, MOST_ASKS, PLACE_BYTES, TapeEvent, TapedArrival, To, length, marks,
    of_marks, place, place_of,
};
use engine::packet::{ClassId, Ecn, FlowHashes};
use engine::units::{Bytes, Instant};

/// Arrivals whose class, flow and marks are remembered.
const PLACES: usize = 1 << 12;

/// Memory of a [`Shortener`] in bytes.
pub const SHORTENER: usize = PLACES * size_of::<Known>();

const KIND: u8 = 3;
const KNOWN: u8 = 0;
const NEW: u8 = 1;
const ASKED: u8 = 2;
const OTHER: u8 = 3;
/// At the time of the event before.
const SAME_TIME: u8 = 1 << 2;
/// As long as the packet before it that was like it.
const SAME_LENGTH: u8 = 1 << 3;
/// The loop's clock shows another time.
const PACED: u8 = 1 << 3;
/// Where the high bits of a place, or how often was asked, begin.
const HIGH: u32 = 4;
const CHECK: u8 = OTHER | 1 << HIGH;

/// An event of a tape in its short form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShortEvent<'a> {
    /// As on a tape; a packet without its headers.
    Whole(TapeEvent<'a>),
    /// The queue was asked; what left is in the next check.
    Asked {
        /// By the queue's time.
        at: Instant,
        /// By the loop's clock.
        clock: Instant,
        /// How often.
        asks: u32,
    },
    /// All that was asked since the last check.
    Check(Digest),
}

/// A packet like one that arrived before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    class: ClassId,
    flow: FlowHashes,
    ecn: Ecn,
    dscp: u8,
    to: To,
    len: Bytes,
}

impl Known {
    const NOTHING: Self = Self {
        class: ClassId(u32::MAX),
        flow: FlowHashes {
            source: 0,
            destination: 0,
            full: 0,
        },
        ecn: Ecn::NotEct,
        dscp: 0,
        to: To::Queue,
        len: Bytes::ZERO,
    };

    fn of(arrival: &TapedArrival<'_>) -> Self {
        Self {
            class: arrival.class,
            flow: arrival.flow,
            ecn: arrival.ecn,
            dscp: arrival.dscp,
            to: arrival.to,
            len: arrival.len,
        }
    }

    fn arrival(self, at: Instant) -> TapedArrival<'static> {
        let Self {
            class,
            flow,
            ecn,
            dscp,
            to,
            len,
        } = self;
        TapedArrival {
            at,
            len,
            class,
            flow,
            ecn,
            dscp,
            to,
            headers: &[],
        }
    }

    /// Its place in the table: others that have it too replace it.
    fn place(&self) -> usize {
        let mixed = (self.flow.full ^ self.class.0.rotate_left(16)).wrapping_mul(0x9e37_79b1);
        (mixed >> 20) as usize % PLACES
    }
}

/// Writes a tape in its short form, chunk by chunk.
#[derive(Debug)]
pub struct Shortener {
    known: Box<[Known]>,
    last: Instant,
}

impl Default for Shortener {
    fn default() -> Self {
        Self {
            known: vec![Known::NOTHING; PLACES].into(),
            last: Instant::START,
        }
    }
}

impl Shortener {
    /// Appends these whole events to `out`, in short.
    ///
    /// # Errors
    ///
    /// Returns an error if they are none.
    pub fn shorten(&mut self, events: &[u8], out: &mut Vec<u8>) -> Result<(), BrokenTape> {
        let mut left = None;
        for event in Events::new(events) {
            match event? {
                TapeEvent::Arrival(arrival) => self.arrival(&arrival, out),
                TapeEvent::Asked(asked) => {
                    left.get_or_insert_with(Digest::default)
                        .add_asked(asked.sent, asked.digest);
                    self.asked(&asked, out);
                }
                other => {
                    out.push(OTHER);
                    without_headers(other).write(out);
                }
            }
        }
        if let Some(left) = left {
            out.push(CHECK);
            out.extend(left.bytes());
        }
        Ok(())
    }

    fn arrival(&mut self, arrival: &TapedArrival<'_>, out: &mut Vec<u8>) {
        let packet = Known::of(arrival);
        let at = packet.place();
        let former = std::mem::replace(&mut self.known[at], packet);
        let like = Known {
            len: packet.len,
            ..former
        };
        let same_time = self.same_time(arrival.at);
        if like == packet {
            let same_length = if former.len == packet.len { SAME_LENGTH } else { 0 };
            out.push(KNOWN | same_time | same_length | ((at >> 8) as u8) << HIGH);
            out.push(at as u8);
            if same_length == 0 {
                number(packet.len.get(), out);
            }
        } else {
            out.extend([NEW | same_time, marks(packet.to, packet.ecn), packet.dscp]);
            out.extend(place(packet.class, packet.flow));
            number(packet.len.get(), out);
        }
        self.time(arrival.at, out);
    }

    fn asked(&mut self, asked: &Asked, out: &mut Vec<u8>) {
        let few = u8::try_from(asked.asks).ok().filter(|asks| *asks < 16);
        let paced = if asked.clock == asked.at { 0 } else { PACED };
        out.push(ASKED | self.same_time(asked.at) | paced | few.unwrap_or(0) << HIGH);
        if few.is_none_or(|asks| asks == 0) {
            number(asked.asks.into(), out);
        }
        self.time(asked.at, out);
        if paced != 0 {
            out.extend(asked.clock.nanos().to_le_bytes());
        }
    }

    fn same_time(&self, at: Instant) -> u8 {
        if at == self.last { SAME_TIME } else { 0 }
    }

    fn time(&mut self, at: Instant, out: &mut Vec<u8>) {
        if at != self.last {
            // Time that goes back, which no queue sees, takes ten bytes.
            number(at.nanos().wrapping_sub(self.last.nanos()), out);
            self.last = at;
        }
    }
}

fn without_headers(event: TapeEvent<'_>) -> TapeEvent<'_> {
    match event {
        TapeEvent::Held(mut held) => {
            held.packet.headers = &[];
            TapeEvent::Held(held)
        }
        other => other,
    }
}

fn number(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The events of a tape in its short form, one after the other.
#[derive(Debug)]
pub struct ShortEvents<'a> {
    tape: &'a [u8],
    at: usize,
    known: Box<[Known]>,
    last: Instant,
}

impl<'a> ShortEvents<'a> {
    /// Of these bytes.
    pub fn new(tape: &'a [u8]) -> Self {
        let Shortener { known, last } = Shortener::default();
        Self {
            tape,
            at: 0,
            known,
            last,
        }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.tape.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn time(&mut self, tag: u8) -> Option<Instant> {
        if tag & SAME_TIME == 0 {
            let since = self.number()?;
            self.last = Instant::from_nanos(self.last.nanos().wrapping_add(since));
        }
        Some(self.last)
    }

    fn event(&mut self) -> Option<ShortEvent<'a>> {
        let [tag] = self.take()?;
        match tag & KIND {
            KNOWN => {
                let [low] = self.take()?;
                let at = usize::from(tag >> HIGH) << 8 | usize::from(low);
                let mut packet = self.known[at];
                if tag & SAME_LENGTH == 0 {
                    packet.len = length(self.number()?)?;
                }
                self.known[at] = packet;
                Some(ShortEvent::Whole(TapeEvent::Arrival(
                    packet.arrival(self.time(tag)?),
                )))
            }
            NEW => {
                let [marks, dscp] = self.take()?;
                let (to, ecn) = of_marks(marks)?;
                let (class, flow) = place_of(self.take::<PLACE_BYTES>()?);
                let len = length(self.number()?)?;
                let packet = Known {
                    class,
                    flow,
                    ecn,
                    dscp,
                    to,
                    len,
                };
                self.known[packet.place()] = packet;
                Some(ShortEvent::Whole(TapeEvent::Arrival(
                    packet.arrival(self.time(tag)?),
                )))
            }
            ASKED => {
                let asks = match tag >> HIGH {
                    0 => u32::try_from(self.number()?).ok(),
                    few => Some(few.into()),
                };
                let asks = asks.filter(|asks| *asks <= MOST_ASKS)?;
                let at = self.time(tag)?;
                let clock = match tag & PACED {
                    0 => at,
                    _ => Instant::from_nanos(u64::from_le_bytes(self.take()?)),
                };
                Some(ShortEvent::Asked { at, clock, asks })
            }
            _ if tag == CHECK => Some(ShortEvent::Check(Digest::of_bytes(self.take()?))),
            _ if tag == OTHER => {
                let mut rest = Events::new(&self.tape[self.at..]);
                let event = rest.next()?.ok()?;
                self.at += rest.read();
                Some(ShortEvent::Whole(event))
            }
            _ => None,
        }
    }
}

impl<'a> Iterator for ShortEvents<'a> {
    type Item = Result<ShortEvent<'a>, BrokenTape>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.tape.len() {
            return None;
        }
        let begin = self.at;
        let event = self.event();
        if event.is_none() {
            self.at = self.tape.len();
        }
        Some(event.ok_or(BrokenTape { at: begin }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::event::{TapedHeld, TapedMove};
    use engine::link_clock::BusyLink;
    use engine::random::{Rng, Seed};

    fn any_event(rng: &mut Rng, at: &mut u64, headers: &'static [u8]) -> TapeEvent<'static> {
        let step = [0, 0, 1, rng.below(100), rng.below(1 << 20), rng.below(1 << 40)];
        *at += step[rng.below(6) as usize];
        let at = Instant::from_nanos(*at);
        let flow = rng.below(40) as u32;
        let flow = FlowHashes {
            source: flow / 7,
            destination: flow / 3,
            full: flow.wrapping_mul(0x85eb_ca6b),
        };
        let class = ClassId(rng.below(3) as u32);
        let packet = TapedArrival {
            at,
            len: Bytes::new([64, 1_514, rng.below(70_000)][rng.below(3) as usize]),
            class,
            flow,
            ecn: [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][rng.below(4) as usize],
            dscp: [0, 46][rng.below(2) as usize],
            to: [To::Queue, To::First, To::Nowhere][rng.below(3) as usize],
            headers: &headers[..rng.below(headers.len() as u64) as usize],
        };
        match rng.below(23) {
            0..9 => TapeEvent::Arrival(packet),
            20 => TapeEvent::Held(TapedHeld {
                at,
                handed_on: rng.below(2) == 0,
                remarked: rng.below(2) == 0,
                packet: TapedArrival {
                    at: Instant::from_nanos(rng.below(at.nanos())),
                    ..packet
                },
            }),
            21 => TapeEvent::Link(BusyLink {
                free_at: at,
                remainder: rng.below(1 << 40),
            }),
            9..16 => TapeEvent::Asked(Asked {
                at,
                clock: [at, Instant::from_nanos(rng.below(1 << 50))][rng.below(2) as usize],
                asks: [0, 1, 15, 16, rng.below(1 << 10) as u32][rng.below(5) as usize],
                sent: rng.below(20) as u32,
                digest: Digest::default(),
            }),
            16 => TapeEvent::Switched {
                on: rng.below(2) == 0,
            },
            17 => TapeEvent::MovedAtOnce { class, flow },
            22 => TapeEvent::Moved(TapedMove {
                at,
                class,
                flow,
                to: [To::Queue, To::Nowhere][rng.below(2) as usize],
            }),
            18 => TapeEvent::Start { at, fresh: true },
            _ => TapeEvent::Changed {
                clock: at,
                at,
                class: false,
            },
        }
    }

    /// What of an event is in the short form.
    fn in_short(event: TapeEvent<'static>) -> ShortEvent<'static> {
        match event {
            TapeEvent::Arrival(arrival) => ShortEvent::Whole(TapeEvent::Arrival(TapedArrival {
                headers: &[],
                ..arrival
            })),
            TapeEvent::Asked(Asked { at, clock, asks, .. }) => ShortEvent::Asked { at, clock, asks },
            other => ShortEvent::Whole(without_headers(other)),
        }
    }

    #[test]
    fn what_is_shortened_has_all_but_headers_and_digests() {
        let mut rng = Seed(7).stream();
        let (mut at, mut shortener) = (5_000_000_000, Shortener::default());
        let (mut events, mut short, mut checks) = (Vec::new(), Vec::new(), 0);
        for _ in 0..200 {
            let chunk: Vec<_> = (0..1 + rng.below(60))
                .map(|_| any_event(&mut rng, &mut at, &[7; 96]))
                .collect();
            let mut tape = Vec::new();
            chunk.iter().for_each(|event| event.write(&mut tape));
            let asked = chunk.iter().any(|event| matches!(event, TapeEvent::Asked(_)));
            checks += usize::from(asked);
            shortener.shorten(&tape, &mut short).expect("whole events");
            events.extend(chunk);
        }
        let read: Vec<_> = ShortEvents::new(&short)
            .map(|event| event.expect("whole"))
            .collect();
        let (digests, read): (Vec<_>, Vec<_>) = read
            .into_iter()
            .partition(|event| matches!(event, ShortEvent::Check(_)));
        let wanted: Vec<_> = events.into_iter().map(in_short).collect();
        assert!(read == wanted, "other events");
        assert_eq!(digests.len(), checks);
        // What is cut off or no event is an error, and an end.
        for cut in (0..short.len()).step_by(41) {
            let mut damaged = short[..cut].to_vec();
            let _ = ShortEvents::new(&damaged).count();
            damaged.iter_mut().step_by(29).for_each(|byte| *byte ^= 0x55);
            let _ = ShortEvents::new(&damaged).count();
        }
    }
    /// A file had made up lengths whose sum overflowed in the disciplines.
    #[test]
    fn a_packet_longer_than_any_frame_is_no_event_in_either_form() {
        let longest = 1 << 24;
        let tape = |len: u64| {
            let mut tape = Vec::new();
            let packet = TapedArrival {
                len: Bytes::new(len),
                ..Known::NOTHING.arrival(Instant::START)
            };
            TapeEvent::Arrival(packet).write(&mut tape);
            tape
        };
        let is_read = |tape: &[u8]| Events::new(tape).all(|event| event.is_ok());
        assert!(is_read(&tape(longest)) && !is_read(&tape(longest + 1)));
        let mut short = Vec::new();
        let shortened = Shortener::default().shorten(&tape(longest), &mut short);
        shortened.expect("a whole event");
        let is_read = |short: &[u8]| ShortEvents::new(short).all(|event| event.is_ok());
        assert!(is_read(&short));
        let at = short.windows(4).position(|part| part == [0x80, 0x80, 0x80, 8]);
        short[at.expect("its length")] = 0x81;
        assert!(!is_read(&short));
    }
}
