//! A connection through two observers whose times are known.

mod spinning;

use super::{Direction, ExperienceObserver, ExperienceOf, ExperienceReading, ExperienceWatch};
use crate::window_clamp::FrameSize;
use engine::header::Headers;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::units::{Bytes, Duration, Instant};
use measure::experience::Sampled;
use measure::round_trips::RoundTripCounts;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const SYN: u8 = 2;
const ACK: u8 = 16;
const CLIENT: u8 = 1;
const SERVER: u8 = 2;
const UP: ClassId = ClassId(3);
const DOWN: ClassId = ClassId(7);

/// A segment from one of the two ends.
#[derive(Clone, Copy)]
struct Sent {
    from: u8,
    port: u16,
    flags: u8,
    number: u32,
    acknowledged: u32,
    data: usize,
    stamps: Option<(u32, u32)>,
}

impl Sent {
    fn of(from: u8, number: u32, acknowledged: u32, data: usize) -> Self {
        Self {
            from,
            port: 4_000,
            flags: ACK,
            number,
            acknowledged,
            data,
            stamps: None,
        }
    }

    fn stamped(self, own: u32, echo: u32) -> Self {
        Self {
            stamps: Some((own, echo)),
            ..self
        }
    }

    fn frame(&self) -> Vec<u8> {
        let (to, ports) = match self.from {
            CLIENT => (SERVER, [self.port, 443]),
            _ => (CLIENT, [443, self.port]),
        };
        let header = if self.stamps.is_some() { 32 } else { 20 };
        let length = 20 + header + self.data;
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((length as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, self.from, 10, 0, 0, to]);
        ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
        frame.extend(self.number.to_be_bytes());
        frame.extend(self.acknowledged.to_be_bytes());
        frame.extend([(header as u8 / 4) << 4, self.flags, 1, 0, 0, 0, 0, 0]);
        if let Some((own, echo)) = self.stamps {
            frame.extend([1, 1, 8, 10]);
            frame.extend(own.to_be_bytes());
            frame.extend(echo.to_be_bytes());
        }
        frame.resize(frame.len() + self.data, 0);
        frame
    }
}

/// Both paths: [`Direction::There`] leads to the server.
struct Both {
    watch: Arc<ExperienceWatch>,
    there: ExperienceObserver,
    back: ExperienceObserver,
}

impl Both {
    fn new(keeps: [Option<ExperienceOf>; 2]) -> Self {
        let watch = Arc::new(ExperienceWatch::new(keeps, Seed(1)));
        Self {
            there: ExperienceObserver::new(Arc::clone(&watch), Direction::There),
            back: ExperienceObserver::new(Arc::clone(&watch), Direction::Back),
            watch,
        }
    }

    /// A segment passes this many microseconds after the start.
    fn pass(&mut self, micros: u64, sent: Sent) {
        let at = Instant::START + Duration::from_micros(1_000_000 + micros);
        let (frame, size) = (
            sent.frame(),
            FrameSize {
                len: Bytes::new(1_000),
                segments: 1,
            },
        );
        let headers = Headers::parse(&frame, 0);
        match sent.from {
            CLIENT => self.there.see(at, &headers, &frame, UP, size),
            _ => self.back.see(at, &headers, &frame, DOWN, size),
        }
    }

    fn read(&self, of: Direction) -> ExperienceReading {
        self.watch.read(of).expect("it keeps them")
    }
}

const BOTH: [Option<ExperienceOf>; 2] = [Some(ExperienceOf::Classes), Some(ExperienceOf::Hosts)];

/// Within a 64th, and two ticks.
fn is(counts: &RoundTripCounts, number: u64, micros: u64) {
    let median = counts.quantile(500).map_or(0, |time| time.nanos() / 1_000);
    assert_eq!(counts.answered(), number, "{counts:?}");
    assert!(
        median.abs_diff(micros) <= micros / 64 + 3,
        "{median} for {micros}"
    );
}

/// 20 ms to the server and back, 5 ms to the client and back.
fn handshake(both: &mut Both) {
    both.pass(
        0,
        Sent {
            flags: SYN,
            ..Sent::of(CLIENT, 99, 0, 0)
        },
    );
    both.pass(
        20_000,
        Sent {
            flags: SYN | ACK,
            ..Sent::of(SERVER, 499, 100, 0)
        },
    );
    both.pass(25_000, Sent::of(CLIENT, 100, 500, 0));
}

#[test]
fn a_handshake_shows_both_sides() {
    let mut both = Both::new(BOTH);
    handshake(&mut both);
    let there = both.read(Direction::There);
    assert_eq!(there.hosts, [], "it keeps classes alone");
    let (class, counts) = &there.classes[0];
    assert_eq!((*class, there.classes.len()), (UP, 1));
    is(&counts.ahead, 1, 20_000);
    is(&counts.behind, 1, 5_000);
    is(&counts.handshakes, 1, 25_000);
    assert_eq!(counts.whole.answered(), 0);
    let back = both.read(Direction::Back);
    let (class, counts) = &back.classes[0];
    assert_eq!(*class, DOWN);
    is(&counts.ahead, 1, 5_000);
    is(&counts.behind, 1, 20_000);
    let (host, of_host) = &back.hosts[0];
    assert_eq!(*host, IpAddr::V4(Ipv4Addr::new(10, 0, 0, CLIENT)));
    assert_eq!((of_host, back.hosts.len()), (counts, 1));
}

#[test]
fn the_first_echo_of_a_new_timestamp_ends_a_round_trip() {
    let mut both = Both::new(BOTH);
    handshake(&mut both);
    // The second segment has the timestamp of the first; its acknowledgment is not another sample.
    both.pass(100_000, Sent::of(SERVER, 500, 100, 1_000).stamped(70, 8));
    both.pass(100_900, Sent::of(SERVER, 1_500, 100, 1_000).stamped(70, 8));
    both.pass(106_000, Sent::of(CLIENT, 100, 1_500, 0).stamped(9, 70));
    both.pass(106_500, Sent::of(CLIENT, 100, 2_500, 0).stamped(9, 70));
    // The echo of a later one: this one's never came, so nothing is known of it.
    both.pass(200_000, Sent::of(SERVER, 2_500, 100, 1_000).stamped(80, 9));
    both.pass(290_000, Sent::of(CLIENT, 100, 3_500, 0).stamped(10, 81));
    // An older echo ends nothing.
    both.pass(300_000, Sent::of(SERVER, 3_500, 100, 1_000).stamped(90, 9));
    both.pass(301_000, Sent::of(CLIENT, 100, 3_500, 0).stamped(10, 81));
    both.pass(306_000, Sent::of(CLIENT, 100, 4_500, 0).stamped(10, 90));
    let (_, counts) = &both.read(Direction::Back).classes[0];
    is(&counts.ahead, 3, 6_000);
    is(&counts.whole, 2, 26_000);
}

#[test]
fn without_timestamps_the_acknowledgment_of_the_last_byte_ends_it() {
    let mut both = Both::new(BOTH);
    both.pass(0, Sent::of(CLIENT, 100, 500, 1_000));
    both.pass(9_000, Sent::of(SERVER, 500, 1_099, 0));
    both.pass(10_000, Sent::of(SERVER, 500, 2_100, 0));
    let (_, counts) = &both.read(Direction::There).classes[0];
    is(&counts.ahead, 1, 10_000);
    assert_eq!(counts.whole.answered(), 0, "the other side is not known");
}

#[test]
fn of_what_is_repeated_no_round_trip_is_told_and_it_counts_as_lost() {
    let mut both = Both::new(BOTH);
    both.pass(0, Sent::of(CLIENT, 100, 500, 1_000));
    both.pass(300_000, Sent::of(CLIENT, 100, 500, 1_000));
    both.pass(310_000, Sent::of(SERVER, 500, 1_100, 0));
    // A probe of one byte repeats nothing that was lost.
    both.pass(320_000, Sent::of(CLIENT, 1_099, 500, 1));
    both.pass(330_000, Sent::of(CLIENT, 1_100, 500, 1_000));
    both.pass(340_000, Sent::of(SERVER, 500, 2_100, 0));
    both.pass(
        350_000,
        Sent {
            flags: ACK | 1,
            ..Sent::of(CLIENT, 2_100, 500, 0)
        },
    );
    let reading = both.read(Direction::There);
    let (_, counts) = &reading.classes[0];
    is(&counts.ahead, 1, 10_000);
    assert_eq!((counts.segments, counts.repeated), (4, 1));
    assert_eq!(counts.offered, Bytes::new(4_000));
    let host = &both.read(Direction::Back).hosts[0].1;
    assert_eq!((host.segments, host.repeated), (4, 1));
    assert_eq!(host.behind, counts.ahead);
}

#[test]
fn an_answer_that_never_comes_frees_its_place_and_many_connections_are_sampled() {
    let mut both = Both::new(BOTH);
    // One in 0.3 ms: six seconds. The first time nobody answers, and the second time eight seconds
    // later.
    const CONNECTIONS: u16 = 20_000;
    for second in [0, 60] {
        let sent = |port, from, number, acknowledged, data| Sent {
            port,
            ..Sent::of(from, number, acknowledged, data)
        };
        let at = |port: u16| second * 1_000_000 + 300 * u64::from(port);
        let number = 1_000 * second as u32;
        (0..CONNECTIONS).for_each(|port| both.pass(at(port), sent(port, CLIENT, number, 500, 1_000)));
        let answers = if second > 0 { CONNECTIONS } else { 0 };
        (0..answers)
            .for_each(|port| both.pass(at(port) + 8_000_000, sent(port, SERVER, 500, number + 1_000, 0)));
    }
    let (_, counts) = &both.read(Direction::There).classes[0];
    let sampled = counts.ahead.answered();
    assert!((9_000..=super::FLOWS as u64).contains(&sampled), "{sampled}");
    is(&counts.ahead, sampled, 8_000_000);
}

#[test]
fn more_hosts_than_places_do_not_take_them_from_those_that_are_heard_of() {
    let mut both = Both::new([None, Some(ExperienceOf::Hosts)]);
    let mut frame_of = |micros: u64, host: u32| {
        for (from, at) in [(SERVER, micros), (CLIENT, micros + 5_000)] {
            let sent = match from {
                SERVER => Sent::of(SERVER, 500, 100, 1_000),
                _ => Sent::of(CLIENT, 100, 1_500, 0),
            };
            let mut frame = sent.frame();
            let place = if from == SERVER { 30..34 } else { 26..30 };
            frame[place].copy_from_slice(&(0x0b00_0000 | host).to_be_bytes());
            let headers = Headers::parse(&frame, 0);
            let at = Instant::START + Duration::from_micros(at);
            let size = FrameSize {
                len: Bytes::new(1_000),
                segments: 1,
            };
            match from {
                SERVER => both.back.see(at, &headers, &frame, DOWN, size),
                _ => both.there.see(at, &headers, &frame, UP, size),
            }
        }
    };
    (0..3_000).for_each(|host| frame_of(300 * u64::from(host), host));
    // Two minutes later others take the places.
    (3_000..6_000).for_each(|host| frame_of(120_000_000 + 300 * u64::from(host), host));
    let hosts = both.read(Direction::Back).hosts;
    assert!((900..=super::KEPT).contains(&hosts.len()), "{}", hosts.len());
    let mut old = 0;
    for (host, counts) in &hosts {
        let IpAddr::V4(address) = host else {
            panic!("{host} is not of version 4");
        };
        old += usize::from(address.to_bits() & 0xff_ffff < 3_000);
        is(&counts.ahead, 1, 5_000);
    }
    assert!(old < 20, "{old} of {} were not heard of", hosts.len());
}

#[test]
fn a_class_whose_number_is_anothers_is_forgotten() {
    let mut both = Both::new(BOTH);
    handshake(&mut both);
    both.there.forget(Some(ClassId(4)));
    assert_eq!(both.read(Direction::There).classes.len(), 1);
    both.there.forget(Some(UP));
    assert_eq!(both.read(Direction::There).classes.len(), 0);
    assert_eq!(both.read(Direction::Back).classes.len(), 1);
    both.back.forget(None);
    let back = both.read(Direction::Back);
    assert_eq!(
        (back.classes.len(), back.hosts.len()),
        (0, 1),
        "hosts have no numbers"
    );
}

/// Whatever the options are, nothing but a whole timestamp is read, and no frame of any length
/// makes it fail.
#[test]
fn options_are_read_as_far_as_they_are_complete() {
    let frame = Sent::of(CLIENT, 1, 2, 4).stamped(5, 6).frame();
    let parsed = |frame: &[u8]| super::segment::Segment::of(&Headers::parse(frame, 0), frame);
    let mut other = frame.clone();
    other[54..66].copy_from_slice(&[8, 10, 0, 0, 0, 5, 0, 0, 0, 6, 1, 0]);
    assert_eq!(parsed(&frame), parsed(&other));
    assert_eq!(
        parsed(&frame)
            .and_then(|segment| segment.stamps)
            .map(|s| (s.own, s.echo)),
        Some((5, 6))
    );
    let mut random = Seed(7).stream();
    for length in 0..frame.len() {
        let _ = parsed(&frame[..length]);
    }
    for _ in 0..20_000 {
        let mut broken = frame.clone();
        let at = 14 + random.below(broken.len() as u64 - 14) as usize;
        broken[at] = random.bits() as u8;
        let at = 46 + random.below(broken.len() as u64 - 46) as usize;
        broken[at] = random.bits() as u8;
        let _ = parsed(&broken);
    }
}
