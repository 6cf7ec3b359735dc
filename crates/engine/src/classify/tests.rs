//! What filters mean, and that the search agrees with a plain list, whatever the filters, in
//! whatever order they came and went.

use super::*;
use crate::header::Fragment;
use crate::random::Rng;
use proptest::prelude::*;

fn filter(class: u32) -> Filter {
    Filter::new(ClassId(class))
}

fn packet() -> FlowKey {
    FlowKey {
        family: Family::V4,
        source: 0x0a01_0203,
        destination: 0x0a02_0304,
        protocol: 17,
        source_port: Some(4000),
        destination_port: Some(5060),
        ..FlowKey::default()
    }
}

#[test]
fn a_higher_rule_then_more_bits_then_the_newest_wins() {
    let wide = Filter {
        source: "10.0.0.0/8".parse().ok(),
        ..filter(1)
    };
    let narrow = Filter {
        source: "10.1.0.0/16".parse().ok(),
        ..filter(2)
    };
    let again = Filter {
        class: ClassId(3),
        ..narrow
    };
    let ruled = Filter { rule: 1, ..filter(4) };
    let mut classifier = Classifier::new([narrow, wide], Seed(1));
    assert_eq!(classifier.classify(&packet()), Some(ClassId(2)));
    let newest = classifier.add(again);
    assert_eq!(classifier.find(&packet()), Some((newest, ClassId(3))));
    let first = classifier.add(ruled);
    assert_eq!(classifier.classify(&packet()), Some(ClassId(4)));
    assert_eq!(classifier.remove(first), Some(ruled));
    assert_eq!(classifier.remove(first), None);
    assert_eq!(classifier.classify(&packet()), Some(ClassId(3)));
}

#[test]
fn a_filter_with_ports_takes_no_packet_whose_ports_cannot_be_seen() {
    let all_ports = Filter {
        destination_port: Ports::new(0, 65535),
        ..filter(1)
    };
    let classifier = Classifier::new([all_ports], Seed(1));
    assert_eq!(classifier.classify(&packet()), Some(ClassId(1)));
    let hidden = FlowKey {
        source_port: None,
        destination_port: None,
        ..packet()
    };
    assert_eq!(classifier.classify(&hidden), None);
}

#[test]
fn flags_and_lengths_are_seen_or_do_not_match() {
    let acks = Filter {
        tcp_flags: "ack, !syn".parse().ok(),
        length: "0-80".parse().ok(),
        ..filter(1)
    };
    assert!(acks.tcp_flags.is_some() && acks.length.is_some());
    let mut classifier = Classifier::new([acks], Seed(1));
    let ack = FlowKey {
        protocol: 6,
        tcp_flags: Some(0x10),
        length: 80,
        ..packet()
    };
    let class = |classifier: &Classifier, key: FlowKey| classifier.classify(&key);
    assert_eq!(class(&classifier, ack), Some(ClassId(1)));
    let with = |flags: Option<u8>, length: u16| FlowKey {
        tcp_flags: flags,
        length,
        ..ack
    };
    // Longer, with SYN, without ACK, and a later fragment.
    for other in [
        with(Some(0x10), 81),
        with(Some(0x12), 60),
        with(Some(0x04), 40),
        with(None, 40),
    ] {
        assert_eq!(class(&classifier, other), None, "{other:?}");
    }
    assert!(classifier.divides_flows());
    let id = classifier.add(Filter {
        length: None,
        ..filter(2)
    });
    assert!(classifier.remove(FilterId(0)).is_some());
    assert!(!classifier.divides_flows());
    let longest = Lengths::new(65535, 65535);
    classifier.add(Filter {
        length: longest,
        ..filter(3)
    });
    assert!(classifier.divides_flows());
    assert!(classifier.remove(id).is_some());
    assert_eq!(class(&classifier, with(None, 65535)), Some(ClassId(3)));
    assert_eq!(class(&classifier, with(None, 0)), None);
}

#[test]
fn flags_are_written_as_they_are_read() {
    for text in [
        "syn",
        "syn, !ack",
        "!fin, !syn, !rst, ack",
        "cwr",
        "fin, syn, rst, psh, ack, urg, ece, !cwr",
    ] {
        assert_eq!(
            text.parse::<FlagPattern>().map(|flags| flags.to_string()),
            Ok(text.into())
        );
    }
    assert_eq!(
        "ACK,!Syn".parse(),
        FlagPattern::new(0x10, 2).ok_or(FilterError(String::new()))
    );
    for wrong in ["", "sny", "syn, !syn", "syn ack", "!", "syn,"] {
        assert!(wrong.parse::<FlagPattern>().is_err(), "{wrong} was accepted");
    }
}

#[test]
fn text_becomes_a_prefix_or_ports_or_says_what_was_expected() {
    assert_eq!(
        "10.0.0.0/8".parse::<Prefix>().map(|p| p.to_string()),
        Ok("10.0.0.0/8".into())
    );
    assert_eq!(
        "2001:db8::/32".parse::<Prefix>().map(|p| p.to_string()),
        Ok("2001:db8::/32".into())
    );
    assert_eq!("192.0.2.1".parse::<Prefix>().map(|p| p.len()), Ok(32));
    assert_eq!("0.0.0.0/0".parse::<Prefix>().map(|p| p.mask()), Ok(0));
    assert_eq!(
        "5060-5070".parse(),
        Ports::new(5060, 5070).ok_or(FilterError(String::new()))
    );
    assert_eq!("53".parse(), Ok(Ports::one(53)));
    for wrong in [
        "10.1.0.0/8",
        "10.0.0.0/33",
        "::/129",
        "10.0.0",
        "",
        "/8",
        "10.0.0.0/",
    ] {
        assert!(wrong.parse::<Prefix>().is_err(), "{wrong} was accepted");
    }
    for wrong in ["", "-", "70000", "10-5", "a-b"] {
        assert!(wrong.parse::<Ports>().is_err(), "{wrong} was accepted");
    }
}

/// The definition: of all filters that match, the one of the highest rank.
#[derive(Default)]
struct List(Vec<(u128, Filter)>);

impl List {
    fn find(&self, key: &FlowKey) -> Option<(FilterId, ClassId)> {
        let matching = self.0.iter().filter(|(_, filter)| filter.matches(key));
        // Spelt out, not by the search's own rank: rule, then fixed bits, then the newest.
        let best = matching.max_by_key(|(id, filter)| (filter.rule, filter.fixed_bits(), *id));
        best.map(|(id, filter)| (FilterId(*id as u64), filter.class))
    }
}

/// How filters crowd: few values each field can take, so that they nest, overlap and repeat.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    octets: u64,
    rules: u64,
    ports: u64,
    v6: u64,
    wild: u64,
}

fn crowds() -> impl Strategy<Value = Crowd> {
    let small_or_all = |all: u64| prop_oneof![Just(2), Just(all / 8), Just(all)];
    (
        small_or_all(256),
        prop_oneof![Just(1), Just(3), Just(1 << 32)],
        small_or_all(65_536),
        0..5u64,
        0..11u64,
    )
        .prop_map(|(octets, rules, ports, v6, wild)| Crowd {
            octets,
            rules,
            ports,
            v6,
            wild,
        })
}

impl Crowd {
    fn address(self, rng: &mut Rng, v6: bool) -> u128 {
        let octets = if v6 { 16 } else { 4 };
        (0..octets).fold(0, |bits, _| bits << 8 | u128::from(rng.below(self.octets)))
    }

    fn prefix(self, rng: &mut Rng, v6: bool) -> Option<Prefix> {
        if rng.below(10) < self.wild {
            return None;
        }
        let address = self.address(rng, v6);
        if v6 {
            Prefix::new(
                core::net::Ipv6Addr::from_bits(address).into(),
                rng.below(129) as u8,
            )
        } else {
            Prefix::new(
                core::net::Ipv4Addr::from_bits(address as u32).into(),
                rng.below(33) as u8,
            )
        }
    }

    fn ports(self, rng: &mut Rng) -> Option<Ports> {
        let (a, b) = (rng.below(self.ports) as u16, rng.below(self.ports) as u16);
        match rng.below(8) {
            0..4 => None,
            4..6 => Some(Ports::one(a)),
            6 => Ports::new(a, a.saturating_add(b >> rng.below(16))),
            _ => Ports::new(a.min(b), a.max(b)),
        }
    }

    fn filter(self, rng: &mut Rng) -> Filter {
        let v6 = rng.below(4) < self.v6;
        let rarely = |rng: &mut Rng| rng.below(12) == 0;
        let family = [Family::Other, Family::V4, Family::V6][rng.below(3) as usize];
        Filter {
            rule: rng.below(self.rules) as u32,
            family: rarely(rng).then_some(family),
            source: self.prefix(rng, v6),
            // Now and then of the other family: such a filter never matches.
            destination: {
                let other = rng.below(64) == 0;
                self.prefix(rng, v6 != other)
            },
            protocol: (rng.below(2) == 0).then(|| [6, 17, 1][rng.below(3) as usize]),
            source_port: if rng.below(3) == 0 { self.ports(rng) } else { None },
            destination_port: self.ports(rng),
            dscp: if rarely(rng) {
                DscpPattern::masked(rng.below(64) as u8, rng.below(64) as u8)
            } else {
                None
            },
            tcp_flags: if rarely(rng) {
                let set = rng.bits() as u8 & rng.bits() as u8;
                FlagPattern::new(set, rng.bits() as u8 & rng.bits() as u8 & !set)
            } else {
                None
            },
            length: if rarely(rng) {
                let (a, b) = (rng.below(1600) as u16, rng.below(1600) as u16);
                Lengths::new(a.min(b), a.max(b))
            } else {
                None
            },
            flow_label: rarely(rng).then(|| rng.below(3) as u32 * 0x8_0000),
            mark: rarely(rng).then(|| rng.below(3) as u32),
            ..Filter::new(ClassId(rng.bits() as u32))
        }
    }

    /// A packet at random, or one near the border of a filter.
    fn packet(self, rng: &mut Rng, filter: Option<&Filter>) -> FlowKey {
        let v6 = filter
            .and_then(|filter| filter.source.or(filter.destination))
            .map(|prefix| prefix.family());
        let family = v6.unwrap_or([Family::V4, Family::V6, Family::Other][rng.below(3) as usize]);
        let is_v6 = family == Family::V6;
        let near = |prefix: Option<Prefix>, rng: &mut Rng| {
            let any = self.address(rng, is_v6);
            prefix
                .filter(|prefix| prefix.family() == family)
                .map_or(any, |p| p.bits() | any & !p.mask())
        };
        let at = |ports: Option<Ports>, rng: &mut Rng| match (ports, rng.below(5)) {
            (Some(ports), 0) => ports.low(),
            (Some(ports), 1) => ports.high(),
            (Some(ports), 2) => ports.low().wrapping_sub(1),
            (Some(ports), 3) => ports.high().wrapping_add(1),
            _ => rng.below(self.ports) as u16,
        };
        let filter = filter.copied().unwrap_or(Filter::new(ClassId(0)));
        let ports = family != Family::Other && rng.below(8) > 0;
        let protocol = filter.protocol.unwrap_or([6, 17, 1][rng.below(3) as usize]);
        // Those that are wanted, and one at random.
        let flags = filter.tcp_flags.map_or(0, |flags| flags.set()) ^ (rng.below(2) as u8) << rng.below(8);
        let ends = filter.length.map(|lengths| [lengths.low(), lengths.high()]);
        let length = match ends {
            Some(ends) => ends[rng.below(2) as usize]
                .wrapping_add(rng.below(3) as u16)
                .wrapping_sub(1),
            None => rng.below(1600) as u16,
        };
        let key = FlowKey {
            family,
            tcp_flags: (ports && protocol == 6).then_some(flags),
            length,
            source: near(filter.source, rng),
            destination: near(filter.destination, rng),
            protocol,
            source_port: ports.then(|| at(filter.source_port, rng)),
            destination_port: ports.then(|| at(filter.destination_port, rng)),
            dscp: filter.dscp.map_or(rng.below(64) as u8, |dscp| dscp.value()),
            flow_label: if is_v6 {
                filter.flow_label.unwrap_or(0) & 0xf_ffff
            } else {
                0
            },
            mark: filter.mark.unwrap_or(rng.below(3) as u32),
            fragment: if ports { Fragment::Whole } else { Fragment::Later },
            ..FlowKey::default()
        };
        if family == Family::Other {
            return FlowKey {
                mark: key.mark,
                ethertype: 0x0806,
                ..FlowKey::default()
            };
        }
        key
    }
}

/// Compares the classifier with the list on packets made of the filters, and others. Returns how
/// many were taken.
fn compare(
    classifier: &Classifier,
    list: &List,
    crowd: Crowd,
    rng: &mut Rng,
    packets: usize,
) -> Result<usize, TestCaseError> {
    let mut taken = 0;
    for i in 0..packets {
        let near = list
            .0
            .get(rng.below(list.0.len() as u64) as usize)
            .map(|(_, filter)| filter);
        let packet = crowd.packet(rng, near.filter(|_| i % 4 > 0));
        let expected = list.find(&packet);
        prop_assert_eq!(classifier.find(&packet), expected, "{:?}", packet);
        prop_assert_eq!(classifier.classify(&packet), expected.map(|(_, class)| class));
        taken += usize::from(expected.is_some());
    }
    Ok(taken)
}

fn check(crowd: Crowd, seed: u64, n: usize, packets: usize) -> Result<usize, TestCaseError> {
    let mut rng = Seed(seed).stream();
    let mut list = List::default();
    let filters: Vec<Filter> = (0..n).map(|_| crowd.filter(&mut rng)).collect();
    list.0 = (0..).zip(filters.iter().copied()).collect();
    let mut classifier = Classifier::new(filters, Seed(seed));
    let mut taken = compare(&classifier, &list, crowd, &mut rng, packets)?;
    // Some go, some come, some come again.
    let mut gone = Vec::new();
    for _ in 0..n / 2 {
        let at = rng.below(list.0.len() as u64) as usize;
        let (id, filter) = list.0.swap_remove(at);
        prop_assert_eq!(classifier.remove(FilterId(id as u64)), Some(filter));
        prop_assert_eq!(classifier.remove(FilterId(id as u64)), None);
        gone.push(filter);
    }
    taken += compare(&classifier, &list, crowd, &mut rng, packets)?;
    for again in gone {
        let filter = if rng.below(2) == 0 {
            again
        } else {
            crowd.filter(&mut rng)
        };
        let FilterId(id) = classifier.add(filter);
        list.0.push((u128::from(id), filter));
    }
    taken += compare(&classifier, &list, crowd, &mut rng, packets)?;
    prop_assert_eq!(classifier.len(), list.0.len());
    Ok(taken)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_search_gives_the_answer_of_a_list(crowd in crowds(), seed: u64, n in 1..300usize) {
        check(crowd, seed, n, 100)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_search_gives_the_answer_of_a_list_of_thousands(crowd in crowds(), seed: u64, n in 3_000..=10_000usize) {
        check(crowd, seed, n, 150)?;
    }
}

#[test]
fn the_comparison_sees_packets_that_are_taken_and_others() {
    let crowd = Crowd {
        octets: 256,
        rules: 3,
        ports: 8192,
        v6: 1,
        wild: 0,
    };
    let taken = check(crowd, 1, 500, 400).expect("agreement");
    assert!(
        (200..1_000).contains(&taken),
        "{taken} of 1200 packets were taken"
    );
}

#[test]
fn a_classifier_filled_one_by_one_and_emptied_again_answers_like_the_list() {
    let crowd = Crowd {
        octets: 32,
        rules: 1,
        ports: 65_536,
        v6: 1,
        wild: 3,
    };
    let mut rng = Seed(5).stream();
    let (mut classifier, mut list) = (Classifier::new([], Seed(2)), List::default());
    for _ in 0..2_000 {
        let filter = crowd.filter(&mut rng);
        list.0.push((u128::from(classifier.add(filter).0), filter));
    }
    compare(&classifier, &list, crowd, &mut rng, 500).expect("agreement when full");
    while let Some((id, filter)) = list.0.pop() {
        assert_eq!(classifier.remove(FilterId(id as u64)), Some(filter));
        if list.0.len() % 400 == 1 {
            compare(&classifier, &list, crowd, &mut rng, 200).expect("agreement while emptied");
        }
    }
    assert!(classifier.is_empty());
    assert_eq!(classifier.classify(&FlowKey::default()), None);
}

#[test]
fn many_filters_that_differ_in_port_ranges_alone_are_told_apart() {
    let mut rng = Seed(9).stream();
    let crowd = Crowd {
        octets: 2,
        rules: 1,
        ports: 65_536,
        v6: 0,
        wild: 10,
    };
    let filters: Vec<Filter> = (0..3_000)
        .map(|i| {
            let (low, width) = (rng.bits() as u16, rng.bits() as u16 >> rng.below(16));
            Filter {
                destination_port: Ports::new(low, low.saturating_add(width)),
                ..filter(i)
            }
        })
        .collect();
    let mut list = List((0..).zip(filters.iter().copied()).collect());
    let mut classifier = Classifier::new(filters, Seed(1));
    compare(&classifier, &list, crowd, &mut rng, 2_000).expect("agreement");
    for _ in 0..300 {
        let (id, _) = list.0.swap_remove(rng.below(list.0.len() as u64) as usize);
        classifier.remove(FilterId(id as u64));
    }
    compare(&classifier, &list, crowd, &mut rng, 2_000).expect("agreement after removals");
}

#[test]
fn seeds_do_not_change_answers() {
    let crowd = Crowd {
        octets: 2,
        rules: 3,
        ports: 8192,
        v6: 2,
        wild: 5,
    };
    let mut rng = Seed(3).stream();
    let filters: Vec<Filter> = (0..1_000).map(|_| crowd.filter(&mut rng)).collect();
    let one = Classifier::new(filters.clone(), Seed(1));
    let two = Classifier::new(filters.clone(), Seed(2));
    for i in 0..2_000 {
        let packet = crowd.packet(&mut rng, filters.get(i % filters.len()));
        assert_eq!(one.find(&packet), two.find(&packet));
    }
}

/// What `adds_in_place` and `removes_in_place` promise, by the memory that is moved; and the
/// answers stay those of the list.
#[test]
fn a_change_in_place_among_thousands_moves_little_and_most_changes_are_in_place() {
    let crowd = Crowd {
        octets: 256,
        rules: 2,
        ports: 65_536,
        v6: 1,
        wild: 1,
    };
    let mut rng = Seed(11).stream();
    let (mut list, mut next) = (List::default(), 20_000);
    // Some had gone before.
    let places = (0..next).map(|id| (id % 16 != 5).then(|| crowd.filter(&mut rng)));
    let places: SharedList<Option<Filter>> = places.collect();
    let taken = (0..).zip(places.iter());
    list.0 = taken.filter_map(|(id, filter)| Some((id, (*filter)?))).collect();
    let mut classifier = Classifier::of_list(places.clone(), Seed(1));
    assert_eq!(
        (classifier.len(), classifier.remove(FilterId(5))),
        (list.0.len(), None)
    );
    let (mut in_place, mut elsewhere) = (0, 0);
    for round in 0..3_000 {
        let at = rng.below(list.0.len() as u64) as usize;
        let (id, filter) = (list.0[at].0, crowd.filter(&mut rng));
        let removes = rng.below(2) == 0;
        let little = match removes {
            true => classifier.removes_in_place(FilterId(id as u64)),
            false => classifier.adds_in_place(&filter),
        };
        let moved = allocation_counter::measure(|| match removes {
            true => assert!(classifier.remove(FilterId(id as u64)).is_some()),
            false => classifier.add_as(FilterId(next as u64), filter),
        });
        match removes {
            true => drop(list.0.swap_remove(at)),
            false => list.0.push((next, filter)),
        }
        next += u128::from(!removes);
        if little {
            in_place += 1;
            assert!(
                moved.bytes_total < 40_000,
                "{round}, removes {removes}: {moved:?}"
            );
        } else {
            elsewhere += 1;
        }
        if round % 500 == 0 {
            compare(&classifier, &list, crowd, &mut rng, 100).expect("agreement");
        }
    }
    assert!(in_place > 20 * elsewhere, "{in_place} in place, {elsewhere} not");
    assert_eq!(classifier.len(), list.0.len());
    let all: Vec<_> = list
        .0
        .iter()
        .map(|(id, filter)| (FilterId(*id as u64), filter))
        .collect();
    assert!(
        all.iter()
            .all(|(id, filter)| classifier.filter(*id) == Some(*filter))
    );
    assert_eq!(classifier.sum(), FilterSum::of(all));
}

/// A packet of each sensible combination of a few values.
fn some_of_every_packet() -> Vec<FlowKey> {
    let mut keys: Vec<FlowKey> = (0..2)
        .map(|mark| FlowKey {
            mark,
            ..FlowKey::default()
        })
        .collect();
    let (v4, v6) = ([0x0a00_0001, 0x0a01_0001], [1 << 120 | 1, 2 << 120 | 1]);
    // One bit each: family, addresses, protocol, ports, code point, label, mark, flags, length.
    for bits in 0_u32..1 << 12 {
        let bit = |at: u32| bits >> at & 1 == 1;
        let addresses = if bit(0) { v6 } else { v4 };
        let tcp = bit(3);
        if bit(8) && !bit(0) {
            continue;
        }
        keys.push(FlowKey {
            family: if bit(0) { Family::V6 } else { Family::V4 },
            source: addresses[usize::from(bit(1))],
            destination: addresses[usize::from(bit(2))],
            protocol: if tcp { 6 } else { 17 },
            source_port: bit(4).then_some(if bit(5) { 80 } else { 443 }),
            destination_port: bit(4).then_some(if bit(6) { 80 } else { 443 }),
            dscp: if bit(7) { 46 } else { 0 },
            flow_label: if bit(8) { 7 } else { 0 },
            mark: u32::from(bit(9)),
            tcp_flags: tcp.then_some(if bit(10) { 0x12 } else { 0x10 }),
            length: if bit(11) { 1_500 } else { 40 },
            ..FlowKey::default()
        });
    }
    keys
}

/// A filter of fields of which each is there in one of three.
fn a_filter(random: &mut Rng) -> Filter {
    let mut some = |texts: &[&'static str]| {
        let chosen = texts[random.below(texts.len() as u64) as usize];
        (random.below(3) == 0).then_some(chosen)
    };
    let prefixes = ["10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16", "100::/8", "200::/8"];
    let source = some(&prefixes).map(|text| text.parse().expect("a prefix"));
    let destination = some(&prefixes).map(|text| text.parse().expect("a prefix"));
    let family = some(&["4", "6"]).map(|text| if text == "4" { Family::V4 } else { Family::V6 });
    let tcp_flags = some(&["syn", "!syn", "ack"]).map(|text| text.parse().expect("flags"));
    let protocol = some(&["6", "17"]).map(|text| text.parse().expect("a number"));
    let mut ports = || some(&["80", "443", "80-443", "0-100"]).map(|text| text.parse().expect("ports"));
    Filter {
        source_port: ports(),
        destination_port: ports(),
        source,
        destination,
        family,
        // Flags are of TCP: beside another protocol a filter takes nothing, and policies refuse it.
        protocol: protocol.filter(|protocol| tcp_flags.is_none() || *protocol == 6),
        tcp_flags,
        length: some(&["0-100", "101-2000", "0-2000"]).map(|text| text.parse().expect("lengths")),
        dscp: some(&["46", "0"]).and_then(|text| DscpPattern::masked(text.parse().expect("a number"), 0x2e)),
        flow_label: some(&["0", "7"]).map(|text| text.parse().expect("a label")),
        mark: some(&["0", "1"]).map(|text| text.parse().expect("a mark")),
        ..filter(1)
    }
}

#[test]
fn two_filters_meet_where_there_is_a_packet_that_both_take() {
    let packets = some_of_every_packet();
    let mut random = crate::random::Seed(5).stream();
    let (mut met, mut apart) = (0, 0);
    for _ in 0..2_000 {
        let (one, other) = (a_filter(&mut random), a_filter(&mut random));
        let both = packets.iter().any(|key| one.matches(key) && other.matches(key));
        assert_eq!(one.meets(&other), both, "{one:?} {other:?}");
        assert_eq!(other.meets(&one), both);
        *if both { &mut met } else { &mut apart } += 1;
    }
    assert!(met > 200 && apart > 200, "{met} {apart}");
}

/// Filters of IPv4 that no table separates.
fn flagged(n: u8) -> Filter {
    Filter {
        family: Some(Family::V4),
        tcp_flags: FlagPattern::new(n, !n),
        ..filter(n.into())
    }
}

#[test]
fn filters_are_counted_summed_and_known_by_their_numbers() {
    let mut classifier = Classifier::new([], Seed(1));
    assert_eq!((classifier.len(), classifier.is_empty()), (0, true));
    assert_eq!(classifier.sum(), FilterSum::default());
    let (first, second) = (classifier.add(filter(1)), classifier.add(flagged(2)));
    assert_eq!((first, second), (FilterId(0), FilterId(1)));
    let both = [(first, &filter(1)), (second, &flagged(2))];
    assert_eq!(classifier.sum(), FilterSum::of(both));
    assert_eq!((classifier.len(), classifier.is_empty()), (2, false));
    assert!(classifier.divides_flows());
    classifier.add_as(FilterId(7), filter(3));
    assert_eq!(classifier.add(filter(4)), FilterId(8));
    assert_eq!(classifier.filter(FilterId(7)), Some(&filter(3)));
    assert_eq!(
        (classifier.filter(FilterId(6)), classifier.filter(FilterId(9))),
        (None, None)
    );
    assert_eq!(classifier.remove(second), Some(flagged(2)));
    assert_eq!((classifier.len(), classifier.divides_flows()), (3, false));
    assert_eq!(classifier.filter(second), None);
}

#[test]
fn a_sum_is_the_same_in_any_order_and_another_of_other_filters_or_numbers() {
    let (one, two) = (filter(1), flagged(2));
    let sum = |filters: &[(u64, &Filter)]| FilterSum::of(filters.iter().map(|(n, one)| (FilterId(*n), *one)));
    let both = sum(&[(0, &one), (1, &two)]);
    assert_eq!(both, sum(&[(1, &two), (0, &one)]));
    assert_ne!(both, sum(&[(0, &two), (1, &one)]));
    assert_ne!(both, sum(&[(0, &one), (2, &two)]));
    assert_eq!((both.filters, both.dividing), (2, 1));
    let mut less = both;
    less.remove(FilterId(1), &two);
    assert_eq!(less, sum(&[(0, &one)]));
    assert_eq!((less.filters, less.dividing), (1, 0));
    less.remove(FilterId(0), &one);
    assert_eq!(less, FilterSum::default());
}

#[test]
#[should_panic(expected = "numbered in the order")]
fn a_number_that_is_not_later_than_all_is_refused() {
    Classifier::new([filter(1), filter(2)], Seed(1)).add_as(FilterId(1), filter(3));
}

#[test]
fn a_list_with_empty_places_numbers_filters_by_their_places() {
    let list: SharedList<Option<Filter>> = [Some(filter(1)), None, Some(filter(3))].into_iter().collect();
    let mut classifier = Classifier::of_list(list, Seed(1));
    assert_eq!((classifier.len(), classifier.remove(FilterId(1))), (2, None));
    assert_eq!(classifier.find(&packet()), Some((FilterId(2), ClassId(3))));
    assert_eq!(classifier.remove(FilterId(2)), Some(filter(3)));
    assert_eq!(classifier.filter(FilterId(2)), None);
    assert_eq!(classifier.remove(FilterId(2)), None);
    assert_eq!(classifier.find(&packet()), Some((FilterId(0), ClassId(1))));
    assert_eq!(classifier.add(filter(4)), FilterId(3));
    let numbers: Vec<u64> = classifier.filters.iter().map(|(id, _)| id).collect();
    assert_eq!(numbers, [0, 3]);
}

#[test]
fn a_filter_is_changed_in_place_if_it_is_in_each_of_its_families() {
    let of = |family| Filter {
        family: Some(family),
        ..filter(9)
    };
    let long = Classifier::new((0..17).map(flagged), Seed(1));
    // Those of IPv4 are a long list; of the other families there are none.
    assert!(!long.adds_in_place(&of(Family::V4)) && !long.adds_in_place(&filter(9)));
    assert!(long.adds_in_place(&of(Family::V6)) && long.adds_in_place(&of(Family::Other)));
    assert!(!long.removes_in_place(FilterId(0)) && long.removes_in_place(FilterId(1)));
    assert!(long.removes_in_place(FilterId(17)));
    let short = Classifier::new((0..16).map(flagged), Seed(1));
    assert!(short.adds_in_place(&filter(9)) && short.removes_in_place(FilterId(0)));
    let longer = |family| {
        let filters = (0..17).map(move |n| Filter {
            family: Some(family),
            length: None,
            tcp_flags: FlagPattern::new(n, !n),
            ..filter(0)
        });
        Classifier::new(filters, Seed(1))
    };
    let six = longer(Family::V6);
    assert!(!six.adds_in_place(&of(Family::V6)) && six.adds_in_place(&of(Family::V4)));
    assert!(!six.removes_in_place(FilterId(0)));
}

#[test]
fn what_is_not_ip_has_a_search_of_its_own() {
    let marked = |mark: u32| Filter {
        family: Some(Family::Other),
        mark: Some(mark),
        ..filter(mark)
    };
    let mut classifier = Classifier::new((0..20).map(marked), Seed(1));
    let class = |classifier: &Classifier, family, mark| {
        classifier.classify(&FlowKey {
            family,
            mark,
            ..FlowKey::default()
        })
    };
    assert_eq!(class(&classifier, Family::Other, 7), Some(ClassId(7)));
    assert_eq!(class(&classifier, Family::V4, 7), None);
    assert_eq!(class(&classifier, Family::V6, 7), None);
    assert!(classifier.remove(FilterId(7)).is_some());
    assert_eq!(class(&classifier, Family::Other, 7), None);
    classifier.add(marked(7));
    assert_eq!(class(&classifier, Family::Other, 7), Some(ClassId(7)));
}

#[test]
fn memory_is_that_of_the_three_searches() {
    assert_eq!(Classifier::new([], Seed(1)).memory(), 0);
    let of = |family| Filter {
        family: Some(family),
        ..filter(1)
    };
    let memory = |families: &[Family]| Classifier::new(families.iter().map(|one| of(*one)), Seed(1)).memory();
    // An entry, room for four masks, and a mask with its number in the tree.
    let (short, long) = (64 + 4 * 24 + 28, 128 + 4 * 48 + 52);
    assert_eq!(memory(&[Family::Other]), short);
    assert_eq!(memory(&[Family::V4]), short);
    assert_eq!(memory(&[Family::V6]), long);
    assert_eq!(memory(&[Family::Other, Family::V4, Family::V6]), 2 * short + long);
}
