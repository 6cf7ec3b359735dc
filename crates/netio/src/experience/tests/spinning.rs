//! Connections of QUIC whose bits spin as RFC 9000, section 17.4 has it, between ends whose
//! distance is known.

use super::*;
use std::collections::BinaryHeap;

/// From the client to here, and from here to the server, in microseconds, one way.
const NEAR: u64 = 2_500;
const FAR: u64 = 10_000;
/// How long a connection lasts.
const LASTS: u64 = 3_000_000;

/// What an end does with the bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bit {
    Spins,
    Random,
    Fixed,
}

/// A connection.
#[derive(Clone, Copy)]
struct Connection {
    bit: Bit,
    port: u16,
    /// Microseconds between two packets, of the client and of the server.
    gaps: [u64; 2],
    /// The client sends nothing in the second half of each such time.
    pauses: u64,
    /// Of this many packets of an end one comes so late.
    late: Option<(u64, u64)>,
}

const BULK: Connection = Connection {
    bit: Bit::Spins,
    port: 4_001,
    gaps: [300, 120],
    pauses: 0,
    late: None,
};

/// A packet with a short header between the ends.
fn frame(from: u8, port: u16, spin: bool) -> Vec<u8> {
    let (to, ports) = match from {
        CLIENT => (SERVER, [port, 443]),
        _ => (CLIENT, [443, port]),
    };
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(60_u16.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
    frame.extend([0, 40, 0, 0, 0x40 | u8::from(spin) << 5]);
    frame.resize(74, 0);
    frame
}

/// Where a packet is next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Sends,
    PassesHere,
    Arrives,
}

/// Plays a connection before two observers.
fn play(both: &mut Both, connection: Connection) {
    let mut rng = Seed(5).stream();
    // The end, the number of its packet, and the bit, earliest first.
    let mut events = BinaryHeap::new();
    let next = |at: u64, step: Step, of: (u8, u64, bool)| std::cmp::Reverse((at, step, of));
    events.push(next(0, Step::Sends, (CLIENT, 1, false)));
    events.push(next(0, Step::Sends, (SERVER, 1, false)));
    // Of each end the greatest number that it has received, and the bit that it sends.
    let (mut received, mut own) = ([0; 2], [false; 2]);
    while let Some(std::cmp::Reverse((at, step, (from, number, bit)))) = events.pop() {
        let is_client = from == CLIENT;
        let ways = if is_client { [NEAR, FAR] } else { [FAR, NEAR] };
        match step {
            Step::Sends if at < LASTS => {
                let end = usize::from(!is_client);
                let gap = connection.gaps[end];
                events.push(next(at + gap, Step::Sends, (from, number + 1, false)));
                let silent = is_client && connection.pauses > 0;
                if silent && at % connection.pauses >= connection.pauses / 2 {
                    continue;
                }
                let bit = match connection.bit {
                    Bit::Spins => own[end],
                    Bit::Random => rng.below(2) == 0,
                    Bit::Fixed => true,
                };
                let late = connection.late.filter(|(of, _)| rng.below(*of) == 0);
                let here = at + ways[0] + late.map_or(0, |(_, by)| by);
                events.push(next(here, Step::PassesHere, (from, number, bit)));
            }
            Step::Sends => {}
            Step::PassesHere => {
                let frame = frame(from, connection.port, bit);
                let headers = Headers::parse(&frame, 0);
                let now = Instant::START + Duration::from_micros(1_000_000 + at);
                let size = FrameSize {
                    len: Bytes::new(74),
                    segments: 1,
                };
                match is_client {
                    true => both.there.see(now, &headers, &frame, UP, size),
                    false => both.back.see(now, &headers, &frame, DOWN, size),
                }
                events.push(next(at + ways[1], Step::Arrives, (from, number, bit)));
            }
            Step::Arrives => {
                let end = usize::from(is_client);
                if number > received[end] {
                    received[end] = number;
                    // The server sends it back, the client turns it over.
                    own[end] = bit == is_client;
                }
            }
        }
    }
}

/// The round trips ahead and behind, and both, of the client's packets.
fn of_client(both: &Both) -> [RoundTripCounts; 3] {
    let classes = both.read(Direction::There).classes;
    let of = classes.into_iter().find(|(class, _)| *class == UP);
    let counts = of.map(|(_, counts)| counts).unwrap_or_default();
    [counts.ahead, counts.behind, counts.whole]
}

/// The median in microseconds.
fn median(counts: &RoundTripCounts) -> u64 {
    counts.quantile(500).map_or(0, |time| time.nanos() / 1_000)
}

#[test]
fn both_sides_of_a_connection_that_spins_are_measured() {
    let mut both = Both::new(BOTH);
    play(&mut both, BULK);
    // Some 120 waves of 25 ms; an end sends the new value with its next packet.
    let sides = of_client(&both);
    for (counts, truth, gap) in [(&sides[0], 2 * FAR, 120), (&sides[1], 2 * NEAR, 300)] {
        assert!((90..=120).contains(&counts.answered()), "{}", counts.answered());
        let found = median(counts);
        assert!(
            (truth - truth / 64..=truth + gap + truth / 32).contains(&found),
            "{found} for {truth}"
        );
    }
    let whole = median(&sides[2]);
    assert!((24_500..=26_500).contains(&whole), "{whole}");
    // The host behind the other path has the same.
    let (host, counts) = &both.read(Direction::Back).hosts[0];
    assert_eq!(*host, IpAddr::V4(Ipv4Addr::new(10, 0, 0, CLIENT)));
    assert_eq!(counts.behind, sides[0]);
    assert_eq!((counts.segments, counts.repeated), (0, 0));
}

#[test]
fn a_bit_that_is_fixed_or_random_measures_nothing() {
    for bit in [Bit::Fixed, Bit::Random] {
        let mut both = Both::new(BOTH);
        for port in 0..20 {
            let connection = Connection {
                bit,
                port: 5_000 + port,
                ..BULK
            };
            play(&mut both, connection);
        }
        // 20 connections of 35,000 packets.
        let samples: u64 = of_client(&both).iter().map(RoundTripCounts::answered).sum();
        assert!(samples <= 20, "{bit:?}: {samples}");
    }
}

#[test]
fn packets_that_come_late_make_no_round_trip_short() {
    let mut both = Both::new(BOTH);
    play(
        &mut both,
        Connection {
            late: Some((400, 900)),
            ..BULK
        },
    );
    let [ahead, behind, _] = of_client(&both);
    for (counts, truth) in [(&ahead, 2 * FAR), (&behind, 2 * NEAR)] {
        assert!(counts.answered() >= 20, "{}", counts.answered());
        let shortest = counts.quantile(1).map_or(0, |time| time.nanos() / 1_000);
        assert!(shortest + 1_000 >= truth, "{shortest} for {truth}");
        assert!(median(counts).abs_diff(truth) <= 1_000, "{counts:?}");
    }
}

/// A client that has nothing to send turns its bit over later: that is no round trip.
#[test]
fn what_an_end_had_nothing_to_send_for_does_not_count() {
    let mut both = Both::new(BOTH);
    play(
        &mut both,
        Connection {
            pauses: 400_000,
            ..BULK
        },
    );
    let [ahead, behind, _] = of_client(&both);
    for (counts, truth) in [(&ahead, 2 * FAR), (&behind, 2 * NEAR)] {
        let longest = counts.quantile(1_000).map_or(0, |time| time.nanos() / 1_000);
        assert!(counts.answered() >= 30, "{}", counts.answered());
        assert!(longest <= truth + 1_000, "{longest} for {truth}");
    }
}

/// No frame of any length makes it fail, and one that is no QUIC is none.
#[test]
fn only_a_short_header_between_a_client_and_https_spins() {
    use super::super::spin::Spinning;
    let whole = frame(CLIENT, 4_001, true);
    let parsed = |frame: &[u8]| Spinning::of(&Headers::parse(frame, 0), frame);
    assert_eq!(
        parsed(&whole),
        Some(Spinning {
            ports: [4_001, 443],
            value: true
        })
    );
    let other = |at: usize, byte: u8| {
        let mut other = whole.clone();
        other[at] = byte;
        parsed(&other)
    };
    assert_eq!(other(42, 0xc3), None, "a long header");
    assert_eq!(other(42, 0x20), None, "no fixed bit");
    assert_eq!(other(23, 6), None, "TCP");
    assert_eq!(other(37, 0), None, "another port");
    (0..43).for_each(|length| assert_eq!(parsed(&whole[..length]), None, "{length}"));
}
