//! Exact words, ranks, shapes and hashes.

use super::*;
use crate::classify::filter::{DscpPattern, FlagPattern, Lengths, Prefix};
use crate::packet::ClassId;

fn filter() -> Filter {
    Filter::new(ClassId(1))
}

fn prefix(text: &str) -> Option<Prefix> {
    Some(text.parse().expect("a prefix"))
}

/// A packet of IPv4 with all fields.
fn short_key() -> FlowKey {
    FlowKey {
        family: Family::V4,
        source: 0x0a01_0203,
        destination: 0x0b02_0304,
        protocol: 6,
        source_port: Some(0x1234),
        destination_port: Some(0x5678),
        dscp: 0x2e,
        tcp_flags: Some(0x12),
        length: 0x5dc,
        mark: 0xdead_beef,
        ..FlowKey::default()
    }
}

/// A packet of IPv6 with all fields.
fn long_key() -> FlowKey {
    FlowKey {
        family: Family::V6,
        source: 0x2001_0db8_0000_0001_0000_0000_0000_0002,
        destination: 0x2001_0db8_0000_0003_0000_0000_0000_0004,
        flow_label: 0xa_bcde,
        ..short_key()
    }
}

#[test]
fn each_field_of_a_packet_has_its_place_in_its_words() {
    assert_eq!(
        words::<SHORT>(&short_key()),
        [
            0x0a01_0203_0b02_0304,
            0x1234_5678_062e_12c3,
            0xdead_beef_05d0_0000
        ]
    );
    assert_eq!(
        words::<LONG>(&long_key()),
        [
            0x2001_0db8_0000_0001,
            2,
            0x2001_0db8_0000_0003,
            4,
            0x1234_5678_062e_12c3,
            0xdead_beef_05da_bcde,
        ]
    );
}

#[test]
fn ports_and_flags_that_cannot_be_seen_are_zero_and_are_said_to_be_absent() {
    let hidden = FlowKey {
        source_port: None,
        tcp_flags: None,
        ..short_key()
    };
    assert_eq!(words::<SHORT>(&hidden)[1], 0x0000_0000_062e_00c0);
    let no_flags = FlowKey {
        tcp_flags: Some(0),
        ..short_key()
    };
    assert_eq!(words::<SHORT>(&no_flags)[1], 0x1234_5678_062e_00c3);
}

#[test]
fn a_length_is_read_back_from_its_two_pieces() {
    for len in [0, 1, 15, 16, 0x5dc, 0x8001, 0xfff0, 0xffff] {
        let (short, long) = (
            FlowKey {
                length: len,
                ..short_key()
            },
            FlowKey {
                length: len,
                ..long_key()
            },
        );
        assert_eq!(length(&words::<SHORT>(&short)), len);
        assert_eq!(length(&words::<LONG>(&long)), len);
    }
}

#[test]
fn a_rank_is_rule_then_fixed_bits_then_number_and_tells_the_number() {
    let of_eight = Filter {
        rule: 3,
        source: prefix("10.0.0.0/8"),
        ..filter()
    };
    assert_eq!(rank(&of_eight, 4), 3 << 96 | 9 << 64 | 5);
    assert_eq!(rank(&filter(), 0), 1);
    assert_eq!((id(rank(&of_eight, 4)), id(rank(&filter(), 0))), (4, 0));
}

#[test]
fn equal_masks_have_one_number_and_memory_is_counted_to_the_byte() {
    let mut masks = Masks::<SHORT>::default();
    assert_eq!((masks.room(), masks.memory()), ((0, 0), 0));
    for n in [0, 1, 2, 1, 0, 3, 4] {
        assert_eq!(masks.number([n, 0, 0]), n as u32);
    }
    assert_eq!(masks.room().0, 5);
    masks.reserve(10);
    assert_eq!(masks.room(), (5, 15));
    // 3 words for each there is room for; and 3 words and a number for each there is.
    assert_eq!(masks.memory(), 15 * 24 + 5 * 28);
    let mut long = Masks::<LONG>::default();
    long.number([0; LONG]);
    assert_eq!(long.memory(), long.room().1 * 48 + 52);
}

#[test]
fn each_side_has_its_port_and_the_other_side() {
    let key = words::<SHORT>(&short_key());
    assert_eq!(
        (Side::Source.port(&key), Side::Destination.port(&key)),
        (0x1234, 0x5678)
    );
    assert_eq!(
        (Side::Source.other(), Side::Destination.other()),
        (Side::Destination, Side::Source)
    );
}

/// Of every field but the flow label.
fn particular() -> Filter {
    Filter {
        source: prefix("10.0.0.0/8"),
        destination: prefix("11.2.0.0/16"),
        protocol: Some(6),
        source_port: Ports::new(0x1230, 0x1234),
        destination_port: Ports::new(0x5678, 0x5680),
        dscp: DscpPattern::masked(0x2e, 0x3e),
        tcp_flags: FlagPattern::new(0x10, 0x04),
        length: Lengths::new(0x500, 0x5dc),
        mark: Some(0xdead_beef),
        ..filter()
    }
}

/// Whether the filter's entry takes the packet; the filter's definition agrees.
fn takes<const N: usize>(filter: &Filter, key: &FlowKey) -> bool {
    let mut masks = Masks::<N>::default();
    // The entry's mask is not the first.
    masks.number([0; N]);
    let entry = Entry::new(filter, key.family, 1, &mut masks);
    let takes = entry.matches(&words(key), &masks);
    assert_eq!(takes, filter.matches(key), "{filter:?} {key:?}");
    takes
}

#[test]
fn an_entry_takes_what_agrees_in_all_that_its_mask_and_its_ranges_examine() {
    let key = short_key();
    for same in [
        key,
        FlowKey {
            source: 0x0aff_ffff,
            ..key
        },
        FlowKey {
            destination: 0x0b02_ffff,
            ..key
        },
        FlowKey {
            source_port: Some(0x1230),
            ..key
        },
        FlowKey {
            destination_port: Some(0x5680),
            ..key
        },
        FlowKey { dscp: 0x2f, ..key },
        FlowKey {
            tcp_flags: Some(0xfb),
            ..key
        },
        FlowKey { length: 0x500, ..key },
        FlowKey { flow_label: 1, ..key },
    ] {
        assert!(takes::<SHORT>(&particular(), &same), "{same:?}");
    }
}

#[test]
fn an_entry_refuses_what_differs_in_one_field_alone() {
    let key = short_key();
    for other in [
        FlowKey {
            source: 0x0b01_0203,
            ..key
        },
        FlowKey {
            destination: 0x0b03_0304,
            ..key
        },
        FlowKey { protocol: 17, ..key },
        FlowKey {
            source_port: Some(0x122f),
            ..key
        },
        FlowKey {
            source_port: Some(0x1235),
            ..key
        },
        FlowKey {
            destination_port: Some(0x5677),
            ..key
        },
        FlowKey {
            destination_port: Some(0x5681),
            ..key
        },
        FlowKey {
            source_port: None,
            destination_port: None,
            ..key
        },
        FlowKey { dscp: 0x2c, ..key },
        FlowKey {
            tcp_flags: Some(0x02),
            ..key
        },
        FlowKey {
            tcp_flags: Some(0x14),
            ..key
        },
        FlowKey {
            tcp_flags: None,
            ..key
        },
        FlowKey { length: 0x4ff, ..key },
        FlowKey { length: 0x5dd, ..key },
        FlowKey {
            mark: 0xdead_beee,
            ..key
        },
    ] {
        assert!(!takes::<SHORT>(&particular(), &other), "{other:?}");
    }
}

#[test]
fn an_entry_of_ipv6_examines_all_words_of_addresses_and_the_label() {
    let (key, all) = (
        long_key(),
        Filter {
            source: prefix("2001:db8:0:1::2"),
            destination: prefix("2001:db8:0:3::4"),
            flow_label: Some(0xa_bcde),
            ..filter()
        },
    );
    assert!(takes::<LONG>(&all, &key));
    for bit in [0, 63, 64, 127] {
        assert!(!takes::<LONG>(
            &all,
            &FlowKey {
                source: key.source ^ 1 << bit,
                ..key
            }
        ));
        assert!(!takes::<LONG>(
            &all,
            &FlowKey {
                destination: key.destination ^ 1 << bit,
                ..key
            }
        ));
    }
    for label in [0xa_bcdf, 0x2_bcde] {
        assert!(!takes::<LONG>(
            &all,
            &FlowKey {
                flow_label: label,
                ..key
            }
        ));
    }
}

#[test]
fn a_filter_of_any_port_asks_for_ports_that_can_be_seen() {
    let hidden = FlowKey {
        source_port: None,
        destination_port: None,
        ..short_key()
    };
    let every = Ports::new(0, 65_535);
    let from = Filter {
        source_port: every,
        ..filter()
    };
    let to = Filter {
        destination_port: every,
        ..filter()
    };
    for of_ports in [from, to] {
        assert!(takes::<SHORT>(&of_ports, &short_key()));
        assert!(!takes::<SHORT>(&of_ports, &hidden));
    }
    assert!(takes::<SHORT>(&filter(), &hidden));
}

/// Whether one covers the other where the destination port is in this range.
fn covers(one: Filter, other: Filter, range: (u16, u16)) -> bool {
    let mut masks = Masks::<SHORT>::default();
    let entry = |filter: &Filter, masks: &mut Masks<SHORT>| Entry::new(filter, Family::V4, 1, masks);
    let (one, other) = (entry(&one, &mut masks), entry(&other, &mut masks));
    one.covers(&other, Side::Destination, range, &masks)
}

const EVERY: (u16, u16) = (0, u16::MAX);

#[test]
fn a_filter_covers_those_that_fix_what_it_fixes() {
    let of = |source: &str| Filter {
        source: prefix(source),
        ..filter()
    };
    let (wide, narrow, apart) = (of("10.0.0.0/8"), of("10.1.0.0/16"), of("11.1.0.0/16"));
    assert!(covers(wide, wide, EVERY) && covers(wide, narrow, EVERY));
    assert!(!covers(narrow, wide, EVERY) && !covers(wide, apart, EVERY));
    assert!(covers(filter(), wide, EVERY) && !covers(wide, filter(), EVERY));
    let marked = Filter {
        mark: Some(7),
        ..wide
    };
    assert!(covers(wide, marked, EVERY) && !covers(marked, wide, EVERY));
    assert!(!covers(
        marked,
        Filter {
            mark: Some(6),
            ..wide
        },
        EVERY
    ));
}

#[test]
fn a_filter_covers_no_range_of_ports_that_is_wider_than_its_own() {
    let to = |low, high| Filter {
        destination_port: Ports::new(low, high),
        ..filter()
    };
    let own = to(10, 20);
    for (range, is_covered) in [
        ((10, 20), true),
        ((9, 20), false),
        ((10, 21), false),
        ((12, 15), true),
    ] {
        // On this side the range counts, and not what the other has.
        assert_eq!(covers(own, to(0, 99), range), is_covered, "{range:?}");
    }
    let from = |low, high| Filter {
        source_port: Ports::new(low, high),
        ..filter()
    };
    for (other, is_covered) in [
        (from(10, 20), true),
        (from(9, 20), false),
        (from(10, 21), false),
        (from(11, 19), true),
    ] {
        assert_eq!(covers(from(10, 20), other, EVERY), is_covered, "{other:?}");
    }
}

#[test]
fn a_filter_covers_no_lengths_beyond_its_own() {
    let of = |low, high| Filter {
        length: Lengths::new(low, high),
        ..filter()
    };
    for (other, is_covered) in [
        (of(100, 200), true),
        (of(101, 199), true),
        (of(99, 200), false),
        (of(100, 201), false),
        (filter(), false),
    ] {
        assert_eq!(covers(of(100, 200), other, EVERY), is_covered, "{other:?}");
    }
    assert!(covers(filter(), of(100, 200), EVERY));
}

fn shape<const N: usize>(filter: &Filter, family: Family) -> [u8; 9] {
    let mut masks = Masks::<N>::default();
    Entry::<N>::new(filter, family, 1, &mut masks).shape(&masks).0
}

#[test]
fn a_shape_tells_how_many_bits_of_each_field_are_fixed() {
    assert_eq!(shape::<SHORT>(&filter(), Family::V4), [0; 9]);
    // Of ports the first bits that all of the range share, of a code point all or none.
    assert_eq!(
        shape::<SHORT>(&particular(), Family::V4),
        [8, 16, 13, 8, 8, 0, 1, 32, 0]
    );
    let pointed = Filter {
        dscp: DscpPattern::one(46),
        source_port: Some(Ports::one(80)),
        ..filter()
    };
    assert_eq!(shape::<SHORT>(&pointed, Family::V4), [0, 0, 16, 0, 0, 6, 1, 0, 0]);
    for mask in [0x1f, 0x3e, 0x38] {
        let masked = Filter {
            dscp: DscpPattern::masked(0, mask),
            ..filter()
        };
        assert_eq!(shape::<SHORT>(&masked, Family::V4), [0; 9]);
    }
    let marked = Filter {
        dscp: DscpPattern::one(46),
        mark: Some(0),
        ..filter()
    };
    // What is not IP has no code point.
    assert_eq!(
        shape::<SHORT>(&marked, Family::Other),
        [0, 0, 0, 0, 0, 0, 0, 32, 0]
    );
    let to = Filter {
        destination: prefix("11.2.0.1"),
        ..filter()
    };
    assert_eq!(shape::<SHORT>(&to, Family::V4), [0, 32, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_shape_of_ipv6_counts_both_words_of_an_address() {
    let long = Filter {
        source: prefix("2001:db8::/72"),
        destination: prefix("2001:db8::/100"),
        protocol: Some(0),
        destination_port: Ports::new(0x8000, 0xffff),
        flow_label: Some(0),
        ..filter()
    };
    assert_eq!(shape::<LONG>(&long, Family::V6), [72, 100, 0, 1, 8, 0, 1, 0, 20]);
}

#[test]
fn shapes_are_compared_field_by_field() {
    let (one, other) = (
        Shape([8, 16, 0, 0, 8, 6, 1, 32, 0]),
        Shape([16, 8, 0, 0, 8, 0, 1, 0, 20]),
    );
    let meet = Shape([8, 8, 0, 0, 8, 0, 1, 0, 0]);
    assert_eq!((one.meet(&other), other.meet(&one)), (meet, meet));
    assert!(one.fits(&meet) && other.fits(&meet) && one.fits(&one));
    assert!(!one.fits(&other) && !other.fits(&one) && !meet.fits(&one));
    assert_eq!((one.bits(), other.bits(), Shape::default().bits()), (71, 53, 0));
    assert_eq!(Shape([128, 128, 16, 16, 8, 6, 1, 32, 20]).bits(), 355);
}

#[test]
fn a_coarse_shape_has_addresses_in_steps_and_ports_whole_or_not() {
    let odd = Shape([31, 30, 15, 16, 8, 6, 1, 32, 20]);
    assert_eq!(odd.coarse::<SHORT>().0, [28, 28, 0, 16, 8, 6, 1, 32, 20]);
    assert_eq!(odd.coarse::<LONG>().0, [24, 24, 0, 16, 8, 6, 1, 32, 20]);
    let even = Shape([32, 8, 16, 7, 0, 0, 0, 0, 0]);
    assert_eq!(even.coarse::<SHORT>().0, [32, 8, 16, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        Shape([127, 9, 1, 16, 0, 0, 0, 0, 0]).coarse::<LONG>().0,
        [120, 8, 0, 16, 0, 0, 0, 0, 0]
    );
}

#[test]
fn a_shapes_mask_has_the_first_bits_of_each_field() {
    assert_eq!(Shape::default().mask::<SHORT>(), [0; SHORT]);
    assert_eq!(Shape::default().mask::<LONG>(), [0; LONG]);
    assert_eq!(
        Shape([8, 16, 14, 16, 8, 6, 1, 32, 20]).mask::<SHORT>(),
        [
            0xff00_0000_ffff_0000,
            0xfffc_ffff_ff3f_0001,
            0xffff_ffff_000f_ffff
        ]
    );
    assert_eq!(
        Shape([32, 100, 16, 1, 0, 0, 0, 0, 20]).mask::<LONG>(),
        [
            0xffff_ffff_0000_0000,
            0,
            u64::MAX,
            0xffff_ffff_f000_0000,
            0xffff_8000_0000_0000,
            0xf_ffff,
        ]
    );
    assert_eq!(
        Shape([32, 0, 0, 0, 0, 0, 0, 0, 0]).mask::<SHORT>(),
        [0xffff_ffff_0000_0000, 0, 0]
    );
    assert_eq!(
        Shape([0, 128, 0, 0, 0, 0, 0, 0, 0]).mask::<LONG>(),
        [0, 0, u64::MAX, u64::MAX, 0, 0]
    );
}

#[test]
fn a_hash_folds_masked_words_a_pair_at_a_time_each_with_its_own_secret() {
    let odd = |n: u64| crate::random::mix(n) | 1;
    let secret: Secret = std::array::from_fn(|i| odd(i as u64));
    let (words, mask): ([u64; LONG], [u64; LONG]) = (
        std::array::from_fn(|i| odd(100 + i as u64)),
        std::array::from_fn(|i| odd(200 + i as u64)),
    );
    let pair = |i: usize, before: u64| {
        let keyed = |i: usize| (words[i] & mask[i]) ^ secret[i];
        fold(keyed(i) ^ before, keyed(i + 1))
    };
    let long = pair(4, pair(2, pair(0, 0)));
    assert_eq!(hash(&secret, &words, &mask), long as u32);
    // Of three words the last is paired with a secret alone.
    let short = fold((words[2] & mask[2]) ^ secret[2] ^ pair(0, 0), secret[3]);
    let first = |all: [u64; LONG]| [all[0], all[1], all[2]];
    assert_eq!(hash::<SHORT>(&secret, &first(words), &first(mask)), short as u32);
}
