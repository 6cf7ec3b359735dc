//! Emulated links under real traffic, over TAP devices and over veth pairs, as root and as an
//! ordinary user.
//!
//! Bounds are shares of the configured values, and wide: the machine is shared.

use engine::classify::{Classifier, Filter, Ports};
use engine::discipline::Reason;
use engine::link;
use engine::random::Seed;
use engine::settings::Table;
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration as Span};
use lab::host::OffloadFeature;
use lab::traffic::generator::TrafficShape;
use lab::traffic::probe::Probe;
use lab::traffic::tcp::Bulk;
use lab::traffic::udp::{Stream, StreamReport};
use lab::{EmulatedDirection, EmulatedLink, Emulator, Host, Lab, Record, Result, RuledQueue};
use measure::impairments::{ChosenPackets, Impairments, Loss};
use netio::classify::ByFilters;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;
/// Bytes of payload of a full frame over IPv4 with timestamps, and of the frame.
const SEGMENT: (f64, f64) = (1448.0, 1514.0);

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address in a test")
}

/// A – B over this link in both directions.
fn pair(mut lab: Lab, link: EmulatedLink) -> Result<(Lab, Host, Host)> {
    let (a, b) = (lab.host("a")?, lab.host("b")?);
    lab.link((&a, "eth0"), (&b, "eth0"), link.clone(), link)?;
    for (host, v4, v6) in [
        (&a, "10.0.0.1/24", "fd00::1/64"),
        (&b, "10.0.0.2/24", "fd00::2/64"),
    ] {
        for address in [v4, v6] {
            host.address("eth0", address.parse().expect("an address in a test"))?;
        }
    }
    Ok((lab, a, b))
}

/// Sends from one to the other until something arrives, so that ARP has resolved their addresses.
/// Datagrams queue in the kernel during resolution, and those sent just when the reply arrives can
/// overtake them.
fn resolve_addresses(a: &Host, b: &Host) -> Result<()> {
    let begun = Instant::now();
    let stream = Stream {
        to: at("10.0.0.2:0"),
        shape: TrafficShape::per_second(10, 958, Duration::from_secs(10)),
    };
    let run = stream.start(a, b)?;
    while run.arrived() == 0 {
        std::thread::sleep(Duration::from_millis(10));
        assert!(begun.elapsed() < Duration::from_secs(10), "nothing arrives");
    }
    Ok(())
}

/// 500 datagrams in a second, over a link whose ends get addresses.
fn stream_between(a: &Host, b: &Host) -> Result<StreamReport> {
    a.address("eth0", "10.0.0.1/24".parse().expect("an address"))?;
    b.address("eth0", "10.0.0.2/24".parse().expect("an address"))?;
    resolve_addresses(a, b)?;
    let stream = Stream {
        to: at("10.0.0.2:0"),
        shape: TrafficShape::per_second(500, 958, Duration::from_secs(1)),
    };
    stream.start(a, b)?.finish()
}

fn tcp_has_rate_and_delay(lab: Lab) -> Result<()> {
    // The buffer has room for all data in flight, so nothing is dropped: a retransmission that is
    // dropped too can stall TCP for a second.
    let link = EmulatedLink::new(Bandwidth::mbit(20)).delay(Span::from_millis(5));
    let (_lab, a, b) = pair(lab, link.buffer(Bytes::new(4_000_000)))?;
    let probe = Probe::new(at("10.0.0.2:0"), 10).run(&a, &b)?;
    let least = probe.round_trip(0.0).expect("an answer");
    assert!(least >= Duration::from_millis(10), "a round trip took {least:?}");
    for (to, header) in [("10.0.0.2:0", 0.0), ("[fd00::2]:0", 20.0)] {
        let bulk = Bulk::new(at(to), Duration::from_secs(3));
        let report = bulk.start(&a, &b)?.finish()?;
        let steady: u64 = report.intervals[10..30].iter().sum();
        let share = steady as f64 * 8.0 / 2.0 / 20e6 * SEGMENT.1 / (SEGMENT.0 - header);
        assert!(
            (0.95..1.05).contains(&share),
            "{to}: {share:.3} of the rate, {report:?}"
        );
        eprintln!("{to}: {share:.4} of 20 Mbit/s, round trip at least {least:?}");
    }
    Ok(())
}

#[test]
fn tcp_has_the_rate_and_the_delay_of_the_link() {
    lab::isolated(|| tcp_has_rate_and_delay(Lab::new()).expect("a link"));
}

#[test]
fn tcp_has_the_rate_and_the_delay_of_the_link_for_an_ordinary_user() {
    lab::isolated_as(NOBODY, &[], || {
        tcp_has_rate_and_delay(Lab::new()).expect("a link")
    });
}

#[test]
fn tcp_has_the_rate_and_the_delay_of_the_link_without_tap_devices() {
    lab::isolated(|| tcp_has_rate_and_delay(Lab::without_tap()).expect("a link"));
}

#[test]
fn a_full_buffer_drops_arriving_packets_and_counts_them() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let link = EmulatedLink::new(Bandwidth::mbit(8)).buffer(Bytes::new(20_000));
            let (lab, a, b) = pair(Lab::new(), link)?;
            let stream = Stream {
                to: at("10.0.0.2:0"),
                shape: TrafficShape::per_second(2000, 958, Duration::from_secs(1)),
            };
            let began = Instant::now();
            let report = stream.start(&a, &b)?.finish()?;
            let seen = lab.links()[0].inspect().expect("a running link");
            let most = began.elapsed().as_secs_f64() * 8e6 / 8.0;
            let path = &seen.paths[Emulator::FORTH.0];
            let dropped = path.totals.dropped_for(Reason::Full);
            assert_eq!(report.sent, 2000);
            // 16 Mbit/s into 8, evenly or, on a busy machine, in bursts: in both cases the buffer
            // overflows, and no more passes than the rate permits.
            assert!(dropped > 0, "nothing was dropped");
            let passed = path.totals.sent.bytes.get() as f64;
            assert!(
                passed <= most + 1_000.0,
                "{passed} B passed, of {most} at the rate"
            );
            // Beside the stream, the hosts send a few frames of their own (neighbour discovery).
            assert!(
                report.lost() + 10 >= dropped,
                "{} lost, {dropped} dropped",
                report.lost()
            );
            let totals = path.totals;
            assert_eq!(totals.offered, {
                let mut sum = totals.sent;
                sum.packets += totals.dropped.packets + totals.backlog().packets;
                sum.bytes += totals.dropped.bytes + totals.backlog().bytes;
                sum
            });
            Ok(())
        };
        run().expect("a link");
    });
}

#[test]
fn loss_and_jitter_affect_real_packets_and_are_recorded() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let spread = Span::from_millis(20);
            let plain = EmulatedLink::new(Bandwidth::mbit(20)).delay(Span::from_millis(30));
            let record = Record::new(netio::clock::now(), Span::from_micros(100));
            let mut lab = Lab::new();
            let (a, b) = (lab.host("a")?, lab.host("b")?);
            let impairments = Impairments {
                loss: Loss::Every(4),
                jitter: spread.into(),
                ..Impairments::default()
            };
            let forth =
                EmulatedDirection::from(plain.clone().impaired(impairments, Seed(3))).recorded(&record);
            lab.link((&a, "eth0"), (&b, "eth0"), forth, plain)?;
            let report = stream_between(&a, &b)?;
            let seen = lab.links()[0].inspect().expect("a running link");
            let totals = seen.paths[Emulator::FORTH.0].totals;
            assert_eq!(totals.dropped_for(Reason::Wire), totals.offered.packets / 4);
            // Every fourth frame is lost; a few frames are the hosts' own.
            assert!(
                (115..=130).contains(&report.lost()),
                "{} of 500 lost",
                report.lost()
            );
            assert_eq!(report.reordered, 0);
            let least = report
                .arrivals
                .iter()
                .map(|arrival| arrival.delay())
                .min()
                .expect("one");
            assert!(least >= Duration::from_millis(30), "{least:?}");
            let mean = report
                .arrivals
                .iter()
                .map(|arrival| arrival.delay())
                .sum::<Duration>()
                / report.arrivals.len() as u32;
            eprintln!(
                "{} lost, delays of {least:?} at least, {mean:?} on average",
                report.lost()
            );
            // Half the spread, and a little more as packets keep their order; a busy machine adds
            // to it.
            assert!(mean >= Duration::from_millis(38), "{mean:?}");
            let recorded = record.read();
            assert_eq!(recorded.offered.total(), totals.offered.bytes.get());
            assert_eq!(
                recorded.sent.total(),
                totals.offered.bytes.get(),
                "packets that the wire loses have been sent"
            );
            let most = recorded.sent.bytes().iter().max().copied().unwrap_or(0);
            assert!(most <= 251, "{most} B in 100 us are more than 20 Mbit/s");
            Ok(())
        };
        run().expect("a link");
    });
}

#[test]
fn a_delay_of_a_second_keeps_a_whole_bandwidth_delay_product_in_flight() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            // 100 Mbit/s for a second: 12.5 MB are in flight.
            let link = EmulatedLink::new(Bandwidth::mbit(100)).delay(Span::from_secs(1));
            let (lab, a, b) = pair(Lab::new(), link)?;
            resolve_addresses(&a, &b)?;
            let shape = TrafficShape::per_second(9_000, 1_250, Duration::from_millis(1_500));
            let stream = Stream {
                to: at("10.0.0.2:0"),
                shape,
            };
            let report = stream.start(&a, &b)?.finish()?;
            let least = report.delay(0.0).expect("an arrival");
            assert!(least >= Duration::from_secs(1), "{least:?}");
            eprintln!("{} of {} lost, {least:?} at least", report.lost(), report.sent);
            let seen = lab.links()[0].inspect().expect("a running link");
            let totals = &seen.paths[Emulator::FORTH.0].totals;
            // A delayed sender may overflow the buffer; nothing else may be dropped.
            assert_eq!(totals.dropped_for(Reason::Wire), 0);
            assert_eq!(totals.dropped.packets, totals.dropped_for(Reason::Full));
            assert!(totals.sent.packets > 10_000, "{totals:?}");
            Ok(())
        };
        run().expect("a link");
    });
}

/// The mean length of the frames of a transfer over a fast link, after `prepare` has configured the
/// sender.
fn mean_frame(prepare: impl FnOnce(&Host) -> Result<()>) -> Result<u64> {
    let (lab, a, b) = pair(Lab::new(), EmulatedLink::new(Bandwidth::gbit(2)))?;
    prepare(&a)?;
    let bulk = Bulk {
        most: 20 << 20,
        ..Bulk::new(at("10.0.0.2:0"), Duration::from_secs(5))
    };
    let report = bulk.start(&a, &b)?.finish()?;
    assert_eq!(report.received, 20 << 20);
    let seen = lab.links()[0].inspect().expect("a running link");
    let sent = seen.paths[Emulator::FORTH.0].totals.sent;
    Ok(sent.bytes.get() / sent.packets.max(1))
}

#[test]
fn a_fast_link_carries_super_frames_which_can_be_limited_or_switched_off() {
    lab::isolated(|| {
        let all = mean_frame(|_| Ok(())).expect("a link");
        let limited = mean_frame(|a| a.netlink(|n| n.gso_max_segs("eth0", 2))).expect("a link");
        let none = mean_frame(|a| a.offload("eth0", OffloadFeature::Tso, false)).expect("a link");
        eprintln!("frames of {all} B on average; limited to two segments {limited} B; switched off {none} B");
        assert!(all > 5_000, "{all} B");
        assert!((1_515..=3_028).contains(&limited), "{limited} B");
        assert!(none <= 1_514, "{none} B");
    });
}

/// CBQ on a link of 20 Mbit/s: traffic to port 5001 has 75 %, the rest 25 %.
fn three_to_one(link: EmulatedLink) -> EmulatedDirection {
    let class = |name: &str, rate: &str, default| ClassSpec {
        name: name.into(),
        default,
        settings: Table::default().text("rate", rate),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        classes: vec![class("more", "75 %", false), class("less", "25 %", true)].into(),
        ..DisciplineSpec::new("cbq")
    };
    let facts = link::Link::new(link.rate, Bytes::new(1514));
    let plan = spec.check(&Registry::builtin(), facts).expect("a good tree");
    let more = plan.class("more").expect("a class of the tree");
    let filter = Filter {
        destination_port: Some(Ports::one(5001)),
        ..Filter::new(more)
    };
    let classifier = Classifier::new([filter], Seed(1));
    let classify = ByFilters::new(classifier, &plan, Seed(1));
    let ruled = RuledQueue::new(plan.build(Seed(1)), Box::new(classify));
    EmulatedDirection::ruled(link, ruled)
}

#[test]
fn a_policy_on_a_link_shares_it_among_real_connections() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let link = EmulatedLink::new(Bandwidth::mbit(20)).delay(Span::from_millis(2));
            let mut lab = Lab::new();
            let (a, b) = (lab.host("a")?, lab.host("b")?);
            lab.link((&a, "eth0"), (&b, "eth0"), three_to_one(link.clone()), link)?;
            a.address("eth0", "10.0.0.1/24".parse().expect("an address"))?;
            b.address("eth0", "10.0.0.2/24".parse().expect("an address"))?;
            let start = |to: &str| Bulk::new(at(to), Duration::from_secs(4)).start(&a, &b);
            let (more, less) = (start("10.0.0.2:5001")?, start("10.0.0.2:5002")?);
            let steady =
                |report: lab::traffic::tcp::BulkReport| -> u64 { report.intervals[10..40].iter().sum() };
            let (more, less) = (steady(more.finish()?), steady(less.finish()?));
            let share = more as f64 / (more + less) as f64;
            eprintln!("{share:.3} of the link for the class of 75 %");
            assert!(
                (0.70..0.80).contains(&share),
                "{share:.3} of the link for the class of 75 %"
            );
            Ok(())
        };
        run().expect("a link");
    });
}

/// The receiver's kernel finds the flipped bits, and nothing but copies comes twice.
#[test]
fn flipped_bits_are_found_by_the_receivers_kernel_and_copies_arrive_beside_their_originals() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let plain = EmulatedLink::new(Bandwidth::mbit(20)).delay(Span::from_millis(5));
            let impairments = Impairments {
                corruption: ChosenPackets(Loss::Every(7)),
                duplication: ChosenPackets(Loss::Every(5)),
                ..Impairments::default()
            };
            let mut lab = Lab::new();
            let (a, b) = (lab.host("a")?, lab.host("b")?);
            lab.link(
                (&a, "eth0"),
                (&b, "eth0"),
                EmulatedDirection::from(plain.clone().impaired(impairments, Seed(3))),
                plain,
            )?;
            let report = stream_between(&a, &b)?;
            let seen = lab.links()[0].inspect().expect("a running link");
            let path = &seen.paths[Emulator::FORTH.0];
            let (totals, befallen) = (path.totals, path.impaired.expect("a modelled wire"));
            assert_eq!(totals.dropped.packets, 0);
            assert_eq!(totals.offered, totals.sent, "copies are nobody's packets");
            assert_eq!(befallen.corrupted, totals.offered.packets / 7);
            assert_eq!(befallen.duplicated, totals.offered.packets / 5);
            // Frames of the hosts' own are few.
            assert!(
                (68..=72).contains(&report.lost()),
                "{} of 500 lost",
                report.lost()
            );
            // Every fifth, but for those that are also seventh.
            assert!(
                (82..=89).contains(&report.duplicates),
                "{} twice",
                report.duplicates
            );
            let errors = b.call(udp_checksum_errors)?;
            assert!(
                (78..=88).contains(&errors),
                "{errors} wrong checksums: 71, and copies of 14"
            );
            Ok(())
        };
        run().expect("a link");
    });
}

/// Datagrams with a wrong checksum that this namespace has received.
fn udp_checksum_errors() -> u64 {
    let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let place = names.split(' ').position(|name| name == "InCsumErrors");
    let value = values.split(' ').nth(place.expect("a column"));
    value.expect("a value").parse().expect("a number")
}
