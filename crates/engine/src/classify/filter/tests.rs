//! What each field of a filter takes, and how specific it is.

use super::*;

fn filter() -> Filter {
    Filter::new(ClassId(1))
}

/// A filter with one field changed, or two.
fn of(change: impl Fn(&mut Filter)) -> Filter {
    let mut filter = filter();
    change(&mut filter);
    filter
}

fn prefix(text: &str) -> Option<Prefix> {
    Some(text.parse().expect("a prefix"))
}

/// A packet of TCP over IPv6 with all fields.
fn key() -> FlowKey {
    FlowKey {
        family: Family::V6,
        source: 0x2001_0db8 << 96 | 1,
        destination: 0x2001_0db9 << 96 | 2,
        protocol: 6,
        source_port: Some(1_000),
        destination_port: Some(443),
        dscp: 46,
        tcp_flags: Some(0x12),
        length: 100,
        flow_label: 7,
        mark: 9,
        ..FlowKey::default()
    }
}

fn of_ipv4() -> FlowKey {
    FlowKey {
        family: Family::V4,
        source: 0x0a01_0203,
        destination: 0x0b02_0304,
        flow_label: 0,
        ..key()
    }
}

fn not_ip() -> FlowKey {
    FlowKey {
        mark: 9,
        ..FlowKey::default()
    }
}

#[test]
fn a_prefix_fixes_its_first_bits_and_has_no_others() {
    let host: IpAddr = "10.1.2.3".parse().expect("an address");
    for (len, bits, mask) in [
        (0, 0, 0),
        (1, 0, 0x8000_0000),
        (8, 0x0a00_0000, 0xff00_0000),
        (31, 0x0a01_0202, 0xffff_fffe),
        (32, 0x0a01_0203, 0xffff_ffff),
    ] {
        let prefix = Prefix::new(host, len).expect("a length of IPv4");
        assert_eq!((prefix.len(), prefix.bits(), prefix.mask()), (len, bits, mask));
        assert_eq!((prefix.is_empty(), prefix.family()), (len == 0, Family::V4));
    }
    assert_eq!(Prefix::new(host, 33), None);
    let host: IpAddr = "2001:db8::ffff:1".parse().expect("an address");
    let bits = 0x2001_0db8_u128 << 96 | 0xffff_0001;
    for (len, bits, mask) in [
        (0, 0, 0),
        (32, 0x2001_0db8 << 96, 0xffff_ffff << 96),
        (112, bits - 1, u128::MAX << 16),
        (128, bits, u128::MAX),
    ] {
        let prefix = Prefix::new(host, len).expect("a length of IPv6");
        assert_eq!((prefix.len(), prefix.bits(), prefix.mask()), (len, bits, mask));
        assert_eq!((prefix.is_empty(), prefix.family()), (len == 0, Family::V6));
    }
    assert_eq!(Prefix::new(host, 129), None);
}

#[test]
fn a_prefix_has_the_addresses_of_its_family_that_begin_as_it_does() {
    let net = prefix("10.1.2.0/24").expect("a prefix");
    for (address, family, inside) in [
        (0x0a01_0200, Family::V4, true),
        (0x0a01_02ff, Family::V4, true),
        (0x0a01_01ff, Family::V4, false),
        (0x0a01_0300, Family::V4, false),
        (0x0a01_0200, Family::V6, false),
        (0x0a01_0200, Family::Other, false),
    ] {
        assert_eq!(net.contains(address, family), inside, "{address:x} {family:?}");
    }
}

#[test]
fn what_is_no_prefix_says_why() {
    let why = |text: &str| text.parse::<Prefix>().map_err(|why| why.to_string());
    let expected = "expected an address or a prefix such as \"10.0.0.0/8\" or \"2001:db8::/32\"";
    for text in ["", "10", "10.0.0.0/x", "10.0.0.0/", "10.0.0.0/256"] {
        assert_eq!(why(text), Err(expected.into()));
    }
    for (text, bits) in [("10.0.0.0/33", 32), ("::/129", 128)] {
        assert_eq!(
            why(text),
            Err(format!("a prefix of this family has at most {bits} bits"))
        );
    }
    for (text, is) in [
        (" 10.1.0.0/8 ", "10.0.0.0/8"),
        ("2001:db8::1/127", "2001:db8::/127"),
    ] {
        let said = format!(
            "\"{}\" has bits beyond its length; the prefix is {is}",
            text.trim()
        );
        assert_eq!(why(text), Err(said));
    }
    let all = [" 10.0.0.0/8 ", "2001:db8::1", "::/0"].map(|text| why(text).map(|prefix| prefix.to_string()));
    assert_eq!(
        all,
        ["10.0.0.0/8", "2001:db8::1/128", "::/0"].map(|text| Ok(text.into()))
    );
}

#[test]
fn a_range_has_both_its_ends_and_meets_what_shares_a_number() {
    let of = |low, high| Ports::new(low, high).expect("a range");
    assert_eq!((Ports::new(6, 5), Ports::new(5, 5)), (None, Some(Ports::one(5))));
    let range = of(10, 20);
    assert_eq!((range.low(), range.high()), (10, 20));
    let inside = [9, 10, 15, 20, 21].map(|port| range.contains(port));
    assert_eq!(inside, [false, true, true, true, false]);
    for (other, meets) in [
        (of(0, 9), false),
        (of(0, 10), true),
        (of(12, 13), true),
        (of(0, 99), true),
        (of(20, 30), true),
        (of(21, 30), false),
    ] {
        assert_eq!(
            (range.meets(&other), other.meets(&range)),
            (meets, meets),
            "{other}"
        );
    }
}

#[test]
fn a_range_fixes_sixteen_bits_less_those_that_tell_its_numbers_apart() {
    for (low, high, bits) in [
        (5, 5, 16),
        (5, 6, 15),
        (5, 7, 14),
        (5, 8, 14),
        (5, 9, 13),
        (0, 0x7fff, 1),
        (0, 0x8000, 0),
        (0, 0xffff, 0),
    ] {
        let (ports, lengths) = (Ports::new(low, high), Lengths::new(low, high));
        assert_eq!(ports.map(|range| range.fixed_bits()), Some(bits), "{low}-{high}");
        assert_eq!(
            lengths.map(|range| range.fixed_bits()),
            Some(bits),
            "{low}-{high}"
        );
    }
}

#[test]
fn ranges_are_written_as_they_are_read_and_say_what_is_wrong() {
    for (text, written) in [("5060-5070", "5060-5070"), (" 53 ", "53"), ("7 - 7", "7")] {
        assert_eq!(
            text.parse::<Ports>().map(|ports| ports.to_string()),
            Ok(written.into())
        );
        assert_eq!(
            text.parse::<Lengths>().map(|range| range.to_string()),
            Ok(written.into())
        );
    }
    let ports = |text: &str| text.parse::<Ports>().map_err(|why| why.0);
    assert_eq!(ports("10-5"), Err("no port is at least 10 and at most 5".into()));
    let expected = "expected a port such as \"53\" or a range such as \"5060-5070\"";
    assert_eq!(ports("5-x"), Err(expected.into()));
    let lengths = |text: &str| text.parse::<Lengths>().map_err(|why| why.0);
    assert_eq!(
        lengths("10-5"),
        Err("no length is at least 10 and at most 5".into())
    );
    let expected = "expected a length in bytes such as \"40\" or a range such as \"0-128\"";
    assert_eq!(lengths("x"), Err(expected.into()));
}

#[test]
fn a_pattern_of_flags_has_some_and_none_twice() {
    let bits = |set, unset| FlagPattern::new(set, unset).map(|flags| (flags.set(), flags.mask()));
    assert_eq!(bits(0x12, 0x04), Some((0x12, 0x16)));
    assert_eq!(bits(0, 0x04), Some((0, 0x04)));
    assert_eq!(bits(0x80, 0), Some((0x80, 0x80)));
    assert_eq!((bits(0, 0), bits(0x06, 0x04)), (None, None));
    let why = |text: &str| text.parse::<FlagPattern>().map_err(|why| why.to_string());
    let all = "fin, syn, rst, psh, ack, urg, ece, cwr";
    assert_eq!(
        why("!sny"),
        Err(format!(
            "unknown flag \"sny\"; the flags of TCP are {all}, such as \"syn, !ack\""
        ))
    );
    assert_eq!(why("syn, !syn"), Err("a flag cannot be set and not set".into()));
    let read = why(" syn , ! rst,cwr").map(|flags| (flags.set(), flags.mask()));
    assert_eq!(read, Ok((0x82, 0x86)));
}

#[test]
fn a_pattern_of_code_points_has_six_bits_and_none_beyond_its_mask() {
    let bits = |value, mask| DscpPattern::masked(value, mask).map(|dscp| (dscp.value(), dscp.mask()));
    assert_eq!(bits(46, 56), Some((40, 56)));
    assert_eq!(bits(63, 63), Some((63, 63)));
    assert_eq!((bits(64, 63), bits(63, 64)), (None, None));
    let one = DscpPattern::one(46).map(|dscp| (dscp.value(), dscp.mask()));
    assert_eq!((one, DscpPattern::one(64)), (Some((46, 63)), None));
}

/// Which of three packets a filter takes: of IPv6, of IPv4, and not of IP.
fn taken(filter: Filter) -> [bool; 3] {
    [key(), of_ipv4(), not_ip()].map(|key| filter.matches(&key))
}

/// The families that a filter can take, in the same order.
fn families(filter: Filter) -> [bool; 3] {
    [Family::V6, Family::V4, Family::Other].map(|family| filter.families().any(|own| own == family))
}

#[test]
fn a_field_takes_packets_of_the_families_that_have_it() {
    let any = filter();
    for (filter, expected) in [
        (any, [true, true, true]),
        (Filter { mark: Some(9), ..any }, [true, true, true]),
        (of(|f| f.family = Some(Family::V6)), [true, false, false]),
        (of(|f| f.family = Some(Family::V4)), [false, true, false]),
        (of(|f| f.family = Some(Family::Other)), [false, false, true]),
        (of(|f| f.source = prefix("2001:db8::/32")), [true, false, false]),
        (of(|f| f.destination = prefix("11.0.0.0/8")), [false, true, false]),
        (of(|f| f.protocol = Some(6)), [true, true, false]),
        (
            of(|f| f.source_port = Ports::new(0, u16::MAX)),
            [true, true, false],
        ),
        (
            of(|f| f.destination_port = Some(Ports::one(443))),
            [true, true, false],
        ),
        (
            of(|f| f.tcp_flags = FlagPattern::new(0x02, 0)),
            [true, true, false],
        ),
        (of(|f| f.length = Lengths::new(0, 100)), [true, true, false]),
        (of(|f| f.dscp = DscpPattern::one(46)), [true, true, false]),
        (of(|f| f.dscp = DscpPattern::masked(0, 0)), [true, true, false]),
        (of(|f| f.flow_label = Some(7)), [true, false, false]),
    ] {
        assert_eq!(taken(filter), expected, "{filter:?}");
        assert_eq!(families(filter), expected, "{filter:?}");
    }
}

#[test]
fn a_filter_that_contradicts_itself_is_of_no_family() {
    let (v4, v6) = (prefix("10.0.0.0/8"), prefix("2001:db8::/32"));
    for filter in [
        of(|f| (f.source, f.destination) = (v4, v6)),
        of(|f| (f.source, f.family) = (v4, Some(Family::V6))),
        of(|f| (f.destination, f.flow_label) = (v4, Some(7))),
        of(|f| (f.protocol, f.family) = (Some(6), Some(Family::Other))),
        of(|f| f.flow_label = Some(1 << 20)),
    ] {
        assert_eq!(families(filter), [false; 3], "{filter:?}");
        assert_eq!(taken(filter), [false; 3], "{filter:?}");
    }
    let largest = of(|f| f.flow_label = Some((1 << 20) - 1));
    assert_eq!(families(largest), [true, false, false]);
}

#[test]
fn a_filter_refuses_what_differs_in_the_one_field_that_it_examines() {
    let any = filter();
    for filter in [
        of(|f| f.source = prefix("2001:db9::/32")),
        of(|f| f.destination = prefix("2001:db8::/32")),
        of(|f| f.protocol = Some(17)),
        of(|f| f.source_port = Ports::new(1_001, 2_000)),
        of(|f| f.destination_port = Ports::new(0, 442)),
        of(|f| f.tcp_flags = FlagPattern::new(0x04, 0)),
        of(|f| f.tcp_flags = FlagPattern::new(0x02, 0x10)),
        of(|f| f.length = Lengths::new(0, 99)),
        of(|f| f.dscp = DscpPattern::one(47)),
        of(|f| f.flow_label = Some(6)),
        Filter { mark: Some(8), ..any },
    ] {
        assert!(!filter.matches(&key()), "{filter:?}");
    }
    // In what a mask leaves out they may differ.
    assert!(of(|f| f.dscp = DscpPattern::masked(47, 62)).matches(&key()));
    assert!(of(|f| f.tcp_flags = FlagPattern::new(0x10, 0x80)).matches(&key()));
}

#[test]
fn flags_and_lengths_alone_divide_flows() {
    let any = filter();
    assert!(of(|f| f.tcp_flags = FlagPattern::new(2, 0)).divides_flows());
    assert!(of(|f| f.length = Lengths::new(0, 65_535)).divides_flows());
    let others = Filter {
        protocol: Some(6),
        source_port: Some(Ports::one(1)),
        dscp: DscpPattern::one(1),
        ..any
    };
    assert!(!others.divides_flows() && !any.divides_flows());
}

#[test]
fn the_fixed_bits_of_each_field_are_those_of_the_definition() {
    let any = filter();
    for (filter, bits) in [
        (any, 0),
        (Filter { rule: 7, ..any }, 0),
        (of(|f| f.family = Some(Family::V4)), 1),
        // The family is implied.
        (of(|f| f.source = prefix("10.0.0.0/8")), 9),
        (of(|f| f.destination = prefix("2001:db8::/32")), 33),
        (of(|f| f.source = prefix("0.0.0.0/0")), 1),
        (of(|f| f.flow_label = Some(0)), 21),
        (of(|f| (f.family, f.flow_label) = (Some(Family::V6), Some(0))), 21),
        (of(|f| f.protocol = Some(0)), 8),
        // Flags imply the protocol.
        (of(|f| f.tcp_flags = FlagPattern::new(0x12, 0x01)), 8 + 3),
        (
            of(|f| (f.tcp_flags, f.protocol) = (FlagPattern::new(0x12, 0), Some(6))),
            8 + 2,
        ),
        (of(|f| f.source_port = Some(Ports::one(5))), 16),
        (of(|f| f.destination_port = Ports::new(0, 1_023)), 6),
        (of(|f| f.length = Lengths::new(0, 100)), 9),
        (of(|f| f.dscp = DscpPattern::masked(0, 56)), 3),
        (Filter { mark: Some(0), ..any }, 32),
    ] {
        assert_eq!(filter.fixed_bits(), bits, "{filter:?}");
    }
}

#[test]
fn the_fixed_bits_of_all_fields_add_up() {
    let all = Filter {
        family: Some(Family::V6),
        source: prefix("2001:db8::/32"),
        destination: prefix("2001:db8::/48"),
        protocol: Some(6),
        source_port: Some(Ports::one(5)),
        destination_port: Ports::new(0, 1_023),
        tcp_flags: FlagPattern::new(0x12, 0x01),
        length: Lengths::new(0, 100),
        dscp: DscpPattern::masked(0, 56),
        flow_label: Some(1),
        mark: Some(1),
        ..filter()
    };
    assert_eq!(all.fixed_bits(), 1 + 32 + 48 + 8 + 16 + 6 + 3 + 9 + 3 + 20 + 32);
}

#[test]
fn filters_that_differ_in_one_field_do_not_meet() {
    let any = filter();
    let pairs = [
        [
            of(|f| f.family = Some(Family::V4)),
            of(|f| f.family = Some(Family::V6)),
        ],
        [
            of(|f| f.source = prefix("10.1.0.0/16")),
            of(|f| f.source = prefix("10.2.0.0/15")),
        ],
        [
            of(|f| f.destination = prefix("10.0.0.0/9")),
            of(|f| f.destination = prefix("10.128.0.0/9")),
        ],
        [of(|f| f.protocol = Some(6)), of(|f| f.protocol = Some(17))],
        [
            of(|f| f.tcp_flags = FlagPattern::new(2, 0)),
            of(|f| f.protocol = Some(17)),
        ],
        [
            of(|f| f.tcp_flags = FlagPattern::new(3, 0)),
            of(|f| f.tcp_flags = FlagPattern::new(0, 2)),
        ],
        [
            of(|f| f.length = Lengths::new(0, 9)),
            of(|f| f.length = Lengths::new(10, 19)),
        ],
        [
            of(|f| f.source_port = Ports::new(0, 9)),
            of(|f| f.source_port = Ports::new(10, 19)),
        ],
        [
            of(|f| f.destination_port = Ports::new(0, 9)),
            of(|f| f.destination_port = Ports::new(10, 19)),
        ],
        [
            of(|f| f.dscp = DscpPattern::masked(8, 56)),
            of(|f| f.dscp = DscpPattern::one(16)),
        ],
        [of(|f| f.flow_label = Some(1)), of(|f| f.flow_label = Some(2))],
        [Filter { mark: Some(1), ..any }, Filter { mark: Some(2), ..any }],
        [
            of(|f| f.source = prefix("10.0.0.0/8")),
            of(|f| f.flow_label = Some(2)),
        ],
    ];
    for [one, other] in pairs {
        assert!(!one.meets(&other) && !other.meets(&one), "{one:?} {other:?}");
        for filter in [one, other] {
            assert!(
                filter.meets(&filter) && filter.meets(&any) && any.meets(&filter),
                "{filter:?}"
            );
        }
    }
}

#[test]
fn filters_whose_prefixes_or_masks_leave_the_difference_out_meet() {
    for [one, other] in [
        [
            of(|f| f.source = prefix("10.1.0.0/16")),
            of(|f| f.source = prefix("10.0.0.0/8")),
        ],
        [
            of(|f| f.dscp = DscpPattern::masked(8, 56)),
            of(|f| f.dscp = DscpPattern::one(14)),
        ],
        [
            of(|f| f.tcp_flags = FlagPattern::new(1, 4)),
            of(|f| f.tcp_flags = FlagPattern::new(3, 8)),
        ],
        [
            of(|f| f.tcp_flags = FlagPattern::new(1, 4)),
            of(|f| f.protocol = Some(6)),
        ],
        [
            of(|f| f.flow_label = Some(1)),
            of(|f| f.source = prefix("2001:db8::/32")),
        ],
    ] {
        assert!(one.meets(&other) && other.meets(&one), "{one:?} {other:?}");
    }
}
