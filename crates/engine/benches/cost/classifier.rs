//! What a classification costs: filters × kind of filters, header parsing, building, changing,
//! memory.
//!
//! A figure is the median of many short rounds after a warm-up, with the least and the most; the
//! machine may be shared, so only the ratio, whose two sides are measured in turns, is compared
//! with a bar.
//!
//! Nine packets in ten are drawn from a filter, the others at random, in random order, from 65,536
//! different ones: no flow repeats soon, and nothing caches flows.

use crate::Verdict;
use engine::classify::{Classifier, Filter, FilterId, Ports, Prefix};
use engine::header::{Family, FlowHasher, FlowKey, Headers};
use engine::packet::ClassId;
use engine::random::{Rng, Seed};
use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

const PACKETS: usize = 1 << 16;

/// How much to run.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    batch: usize,
    largest: usize,
}

/// Prints the rows, and judges.
pub(crate) fn rows(full: bool) -> Vec<Verdict> {
    let (rounds, batch, largest) = if full {
        (101, 4_096, 100_000)
    } else {
        (3, 256, 1_000)
    };
    let effort = Effort {
        rounds,
        batch,
        largest,
    };
    lookups(effort);
    headers(effort);
    changes(effort);
    vec![ratio(effort)]
}

/// Makes the n-th filter.
type Make = fn(&mut Rng, usize) -> Filter;

/// The kinds of filters.
const KINDS: [(&str, Make); 6] = [
    ("wildcard filters (no destination)", wildcard),
    ("fixed filters (five-tuples)", fixed),
    ("mixed filters (firewall-like, IPv4)", mixed),
    ("mixed filters, nested, IPv4 and IPv6", nested),
    ("every pair of prefix lengths (adversarial)", pairs),
    ("port ranges only (adversarial)", ranges),
];

/// Address bits that crowd: few networks, each with few subnets, so that prefixes nest and repeat.
fn crowded(rng: &mut Rng) -> u32 {
    (0..4).fold(0, |bits, _| {
        bits << 8 | (rng.below(256) * rng.below(256) / 1024) as u32
    })
}

fn prefix4(bits: u32, len: u64) -> Option<Prefix> {
    Prefix::new(IpAddr::from(bits.to_be_bytes()), len as u8)
}

fn any4(rng: &mut Rng, len: u64) -> Option<Prefix> {
    prefix4(rng.bits() as u32, len)
}

fn protocol(rng: &mut Rng) -> Option<u8> {
    Some(if rng.below(4) > 0 { 6 } else { 17 })
}

fn fixed(rng: &mut Rng, n: usize) -> Filter {
    Filter {
        source: any4(rng, 32),
        destination: any4(rng, 32),
        protocol: protocol(rng),
        source_port: Some(Ports::one(rng.bits() as u16)),
        destination_port: Some(Ports::one(rng.bits() as u16)),
        ..Filter::new(ClassId(n as u32))
    }
}

fn service(rng: &mut Rng) -> Option<Ports> {
    const KNOWN: [u16; 12] = [22, 25, 53, 80, 110, 123, 143, 443, 993, 3306, 5060, 8080];
    match rng.below(10) {
        0..6 => Some(Ports::one(KNOWN[rng.below(12) as usize])),
        6 => Ports::new(1024, 65535),
        7 => {
            let low = 1024 + rng.below(30_000) as u16;
            Ports::new(low, low + 1000)
        }
        _ => None,
    }
}

fn wildcard(rng: &mut Rng, n: usize) -> Filter {
    let len = 12 + rng.below(21);
    let source = if rng.below(10) > 0 { any4(rng, len) } else { None };
    let low = rng.bits() as u16;
    let narrow = Ports::new(low, low.saturating_add(rng.below(64) as u16));
    Filter {
        source,
        protocol: protocol(rng),
        destination_port: if source.is_some() { service(rng) } else { narrow },
        ..Filter::new(ClassId(n as u32))
    }
}

/// The mix of the published measurements of DPDK's rte_acl: every filter has a rule number of
/// its own.
fn mixed(rng: &mut Rng, n: usize) -> Filter {
    let source = match rng.below(100) {
        0..20 => None,
        20..40 => Some(16 + rng.below(8)),
        40..70 => Some(24 + rng.below(8)),
        _ => Some(32),
    };
    let destination = match rng.below(100) {
        0..10 => 16,
        10..30 => 16 + rng.below(8),
        30..60 => 24 + rng.below(8),
        _ => 32,
    };
    Filter {
        rule: u32::MAX - n as u32,
        source: source.and_then(|len| any4(rng, len)),
        destination: any4(rng, destination),
        protocol: protocol(rng),
        destination_port: service(rng),
        ..Filter::new(ClassId(n as u32))
    }
}

/// Prefixes that nest, and a quarter IPv6; the most specific filter wins.
fn nested(rng: &mut Rng, n: usize) -> Filter {
    let v6 = rng.below(4) == 0;
    let mut prefix = || {
        let len = 8 + rng.below(4) * 8 + rng.below(9).saturating_sub(8);
        let bits = crowded(rng);
        if v6 {
            let address = 0x2001_0db8_u128 << 96 | u128::from(bits) << 48;
            Prefix::new(IpAddr::from(address.to_be_bytes()), 40 + len as u8)
        } else {
            prefix4(bits, len)
        }
    };
    let (source, destination) = (prefix(), prefix());
    Filter {
        source: if rng.below(3) > 0 { source } else { None },
        destination: if rng.below(8) > 0 { destination } else { None },
        protocol: if rng.below(4) > 0 { protocol(rng) } else { None },
        destination_port: service(rng),
        ..Filter::new(ClassId(n as u32))
    }
}

/// 1,089 shapes, all of them alike often: the worst for a tuple space without merging.
fn pairs(rng: &mut Rng, n: usize) -> Filter {
    let (from, to) = (rng.below(33), rng.below(33));
    Filter {
        source: any4(rng, from),
        destination: any4(rng, to),
        ..Filter::new(ClassId(n as u32))
    }
}

/// Nothing but ranges, long and short, overlapping.
fn ranges(rng: &mut Rng, n: usize) -> Filter {
    let low = rng.bits() as u16;
    let width = rng.bits() as u16 >> rng.below(16);
    let destination_port = Ports::new(low, low.saturating_add(width));
    Filter {
        destination_port,
        ..Filter::new(ClassId(n as u32))
    }
}

fn filters(make: Make, n: usize) -> Vec<Filter> {
    let mut rng = Seed(n as u64).stream();
    (0..n).map(|i| make(&mut rng, i)).collect()
}

/// Packets for these filters.
fn packets(filters: &[Filter], n: usize) -> Vec<FlowKey> {
    let mut rng = Seed(7).stream();
    let address = |prefix: Option<Prefix>, family: Family, rng: &mut Rng| {
        let any = u128::from(rng.bits()) << 64 | u128::from(rng.bits());
        let any = if family == Family::V4 {
            any & u128::from(u32::MAX)
        } else {
            any
        };
        prefix.map_or(any, |prefix| {
            prefix.bits()
                | any
                    & !prefix.mask()
                    & if family == Family::V4 {
                        u128::from(u32::MAX)
                    } else {
                        u128::MAX
                    }
        })
    };
    let port = |ports: Option<Ports>, rng: &mut Rng| {
        let (low, high) = ports.map_or((0, u16::MAX), |ports| (ports.low(), ports.high()));
        Some(low + rng.below(u64::from(high - low) + 1) as u16)
    };
    let mut packet = || {
        let filter = filters[rng.below(filters.len() as u64) as usize];
        let drawn = rng.below(10) > 0;
        let family = filter
            .families()
            .find(|family| *family != Family::Other)
            .unwrap_or_default();
        let only = |prefix: Option<Prefix>| if drawn { prefix } else { None };
        FlowKey {
            family,
            source: address(only(filter.source), family, &mut rng),
            destination: address(only(filter.destination), family, &mut rng),
            protocol: filter.protocol.unwrap_or(6),
            source_port: port(filter.source_port, &mut rng),
            destination_port: port(filter.destination_port, &mut rng),
            mark: filter.mark.unwrap_or(0),
            ..FlowKey::default()
        }
    };
    (0..n).map(|_| packet()).collect()
}

/// One thing to measure: a batch of it takes this many ns an operation.
struct Timing {
    each: Vec<f64>,
}

impl Timing {
    fn of(effort: Effort, mut batch: impl FnMut(usize)) -> Self {
        let mut timing = Self { each: Vec::new() };
        batch(effort.batch);
        for _ in 0..effort.rounds {
            timing.round(effort.batch, &mut batch);
        }
        timing
    }

    fn round(&mut self, size: usize, mut batch: impl FnMut(usize)) {
        let start = Instant::now();
        batch(size);
        self.each.push(start.elapsed().as_nanos() as f64 / size as f64);
    }

    fn median(&mut self) -> f64 {
        self.each.sort_by(f64::total_cmp);
        self.each[self.each.len() / 2]
    }

    fn print(&mut self, what: &str, n: usize) {
        let median = self.median();
        let (least, most) = (self.each[0], self.each[self.each.len() - 1]);
        println!("| {what} | {n} | {median:.1} ({least:.1}–{most:.1}) |");
    }
}

/// Classifies `size` of the packets, going on where the last call ended.
fn classify(classifier: &Classifier, packets: &[FlowKey], at: &mut usize, size: usize) {
    for _ in 0..size {
        black_box(classifier.classify(black_box(&packets[*at])));
        *at = (*at + 1) % packets.len();
    }
}

fn lookups(effort: Effort) {
    for (name, make) in KINDS {
        // Ten times as many as elsewhere, but of what an adversary chooses: that takes too long.
        let largest = match name.contains("adversarial") {
            true => effort.largest,
            false => 10 * effort.largest,
        };
        for n in [10, 1_000, 10_000, 100_000, 1_000_000]
            .into_iter()
            .filter(|n| *n <= largest)
        {
            let filters = filters(make, n);
            let packets = packets(&filters, PACKETS);
            let start = Instant::now();
            let classifier = Classifier::new(filters.iter().copied(), Seed(1));
            let built = start.elapsed();
            let hits = packets
                .iter()
                .filter(|packet| classifier.classify(packet).is_some())
                .count();
            let mut at = 0;
            Timing::of(effort, |size| classify(&classifier, &packets, &mut at, size)).print(name, n);
            if n >= 1_000 {
                println!(
                    "| — built in {:.1} ms, {} KiB, {} % hits | {n} | |",
                    built.as_secs_f64() * 1e3,
                    classifier.memory() / 1024,
                    hits * 100 / packets.len()
                );
            }
        }
    }
}

/// A frame with TCP in it; `tagged` and IPv6 with one extension header, or plain IPv4.
fn frame(plain: bool) -> Vec<u8> {
    let mut frame = vec![0x02; 12];
    if plain {
        frame.extend([
            0x08, 0, 0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
    } else {
        frame.extend([0x81, 0, 0, 5, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 28, 0, 64]);
        frame.extend([0x20; 32]);
        frame.extend([6, 0, 1, 4, 0, 0, 0, 0]);
    }
    frame.extend([
        0x30, 0x39, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0,
    ]);
    frame
}

fn headers(effort: Effort) {
    let hasher = FlowHasher::new(Seed(1));
    for (what, plain) in [
        ("header parse, IPv4 TCP", true),
        ("header parse, VLAN IPv6 options TCP", false),
    ] {
        let frame = frame(plain);
        assert_eq!(Headers::parse(&frame, 0).key.destination_port, Some(80));
        Timing::of(effort, |size| {
            for _ in 0..size {
                black_box(Headers::parse(black_box(&frame), 1));
            }
        })
        .print(what, 1);
        let key = Headers::parse(&frame, 0).key;
        Timing::of(effort, |size| {
            for _ in 0..size {
                black_box(hasher.flow(black_box(&key)));
            }
        })
        .print(
            if plain {
                "flow hashes, IPv4"
            } else {
                "flow hashes, IPv6"
            },
            1,
        );
    }
}

/// One filter removed and another added, over and over.
fn changes(effort: Effort) {
    let n = effort.largest;
    let mut classifier = Classifier::new(filters(mixed, n), Seed(1));
    let mut rng = Seed(3).stream();
    let mut oldest = 0;
    let batch = Effort {
        batch: effort.batch / 16,
        ..effort
    };
    Timing::of(batch, |size| {
        for i in 0..size {
            classifier.remove(FilterId(oldest));
            oldest += 1;
            classifier.add(mixed(&mut rng, i));
        }
    })
    .print("one mixed filter removed, one added", n);
    let all = filters(mixed, n);
    let packets = packets(&all, PACKETS);
    let start = Instant::now();
    let mut one_by_one = Classifier::new([], Seed(1));
    for filter in all {
        one_by_one.add(filter);
    }
    let built = start.elapsed().as_nanos() as f64 / n as f64;
    println!("| one mixed filter added, from none to all | {n} | {built:.1} |");
    let mut at = 0;
    Timing::of(effort, |size| classify(&one_by_one, &packets, &mut at, size))
        .print("mixed filters, added one by one", n);
}

/// The bar: many filters against few, in turns. A turn begins with a pass over all packets that is
/// not timed, since the other side had the caches; its rounds are so short that few are
/// interrupted, and the lower quartile counts.
fn ratio(effort: Effort) -> Verdict {
    let sizes = [1_000, effort.largest.max(1_000)];
    let mut sides = sizes.map(|n| {
        let filters = filters(mixed, n);
        let packets = packets(&filters, PACKETS);
        (
            Classifier::new(filters, Seed(1)),
            packets,
            0,
            Timing { each: Vec::new() },
        )
    });
    for _ in 0..effort.rounds {
        for (classifier, packets, at, timing) in &mut sides {
            classify(classifier, packets, at, packets.len());
            for _ in 0..8 {
                timing.round(effort.batch / 4, |size| classify(classifier, packets, at, size));
            }
        }
    }
    let [few, many] = sides.map(|mut side| {
        side.3.median();
        side.3.each[side.3.each.len() / 4]
    });
    Verdict {
        what: format!(
            "mixed filters: {} against {} ({many:.1} and {few:.1} ns)",
            sizes[1], sizes[0]
        ),
        ratio: many / few,
        bar: 6.0,
    }
}
